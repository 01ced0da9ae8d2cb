//! Following of jobs: the lines of their journals, and their ends.

use std::{
    io,
    process::Child,
    sync::{
        Arc,
        mpsc::{RecvTimeoutError, channel},
    },
    thread,
    time::Duration,
};

use super::{
    Voice,
    jobs::{Followed, part_of},
};
use crate::hosts::wire::{MAX_BODY, Say};

/// Shortest and longest pause between two reads of a journal.
const POLL_INTERVALS: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(500));

/// Follows a job in the background. `child` is its process, if this server has started it.
pub(super) fn follow(followed: Followed, child: Option<Child>, voice: Arc<Voice>) -> io::Result<()> {
    let (sender, end_of_job) = channel();
    let lock = followed.lock.clone();
    let wait = move || {
        if let Some(mut child) = child {
            let _ = child.wait();
        }
        // The lock is free once the job's process has ended, whichever server started it. If the lock file is missing, the
        // job is gone as well.
        if let Ok(file) = std::fs::File::open(lock) {
            let _ = file.lock_shared();
        }
        let _ = sender.send(());
    };
    thread::Builder::new().name("wait".into()).spawn(wait)?;
    let work = move || {
        let Followed { key, journal, mut from, store, .. } = followed;
        let mut pause = POLL_INTERVALS.0;
        loop {
            let is_over = match end_of_job.recv_timeout(pause) {
                Ok(()) | Err(RecvTimeoutError::Disconnected) => true,
                Err(RecvTimeoutError::Timeout) => false,
            };
            // A line is short, and a part that has no end of a line is read again.
            while let Ok(part) = part_of(&journal, from, MAX_BODY as u64) {
                let Some(last_newline) = part.iter().rposition(|byte| *byte == b'\n') else { break };
                for line in part.get(..=last_newline).unwrap_or_default().split_inclusive(|byte| *byte == b'\n') {
                    from += line.len() as u64;
                    voice.say(0, &Say::Line { key, next: from }, line.strip_suffix(b"\n").unwrap_or(line));
                }
                pause = POLL_INTERVALS.0;
            }
            if is_over {
                voice.say(0, &Say::Ended { key, has_record: store.contains(key) }, &[]);
                return;
            }
            pause = (pause * 3 / 2).min(POLL_INTERVALS.1);
        }
    };
    thread::Builder::new().name("follow".into()).spawn(work).map(drop)
}
