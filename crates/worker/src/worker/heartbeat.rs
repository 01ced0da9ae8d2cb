//! Heartbeats: a worker that computes reports it at intervals, if the engine requests heartbeats and no other message was sent.
//! A worker that waits forever does not compute, so it sends none and is detected.

use std::{
    thread,
    time::{Duration, Instant},
};

use rustix::time::{ClockId, clock_gettime};
use sweep_job::{Job, Message, TaskSpec, tasks::Command};

use super::Channel;
use crate::host::machine::children_cpu_seconds;

/// Processor time between two heartbeats below which a process counts as waiting.
const AT_WORK: f64 = 1e-3;

/// Starts the heartbeats that a job requests. If the thread cannot be started, the job has none.
pub(super) fn start(job: &Job, channel: &Channel) {
    let Some(interval) = job.heartbeat.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()) else { return };
    let channel = channel.clone();
    // A worker samples the resources of its program; this sampling is not work of the program.
    let is_program = job.task == <Command as TaskSpec>::NAME;
    let cpu_seconds = move || if is_program { children_cpu_seconds(std::process::id()) } else { used() };
    let _ = thread::Builder::new().name("heartbeat".into()).spawn(move || {
        let mut last_seconds = cpu_seconds();
        loop {
            thread::sleep(interval);
            let new_seconds = cpu_seconds();
            let is_at_work = new_seconds - last_seconds > AT_WORK;
            last_seconds = new_seconds;
            if is_at_work && channel.said() + interval <= Instant::now() {
                channel.say(&Message::Alive);
            }
        }
    });
}

/// Processor time of this process, without this thread, and of its descendants, in seconds.
fn used() -> f64 {
    let seconds = |clock| {
        let time = clock_gettime(clock);
        time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
    };
    let own_seconds = seconds(ClockId::ProcessCPUTime) - seconds(ClockId::ThreadCPUTime);
    own_seconds + children_cpu_seconds(std::process::id())
}
