//! Signs of life: a worker that computes says so from time to time, if the engine asks for it and there is nothing else to
//! say. One that does not compute, because it waits for what never comes, says nothing, and that is how it is found out.

use std::{
    thread,
    time::{Duration, Instant},
};

use rustix::time::{ClockId, clock_gettime};
use sweep_job::{Job, Message};

use super::Channel;
use crate::host::machine::children_cpu_seconds;

/// Less processor time than this between two beats is what waiting costs.
const AT_WORK: f64 = 1e-3;

/// Starts the beats that a job asks for. A thread that cannot be started leaves the job without them.
pub(super) fn start(job: &Job, channel: &Channel) {
    let Some(beat) = job.beat.and_then(|beat| Duration::try_from_secs_f64(beat).ok()) else { return };
    let channel = channel.clone();
    let _ = thread::Builder::new().name("beat".into()).spawn(move || {
        let mut before = used();
        loop {
            thread::sleep(beat);
            let now = used();
            let at_work = now - before > AT_WORK;
            before = now;
            if at_work && channel.said() + beat <= Instant::now() {
                channel.say(&Message::Alive);
            }
        }
    });
}

/// Seconds of processor time that this process has used, without this thread's, and its children, with theirs.
fn used() -> f64 {
    let seconds = |clock| {
        let time = clock_gettime(clock);
        time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
    };
    let own = seconds(ClockId::ProcessCPUTime) - seconds(ClockId::ThreadCPUTime);
    own + children_cpu_seconds(std::process::id())
}
