//! Ends of jobs without a result: which of them fail, and which are submitted again.

use sweep_job::{Failure, FailureKind};

use super::{JobExecutor, Stage};
use crate::{
    plan::JobId,
    run::{
        RunEvent, allocation,
        cluster::{BatchId, EndCause, LOSSES},
    },
};

/// Maximum number of interruptions of a job; more are a failure, so that a job which is always interrupted ends.
const MAX_INTERRUPTIONS: u32 = 1000;

impl JobExecutor<'_, '_> {
    /// Handles a job that has ended in the queue without a message.
    pub(super) fn ended_badly(&mut self, job: usize, id: &BatchId, word: &str) {
        let session = &self.session;
        let (system, ending) = (session.cluster.system(), session.cluster.ending(id, word));
        let node = if ending.node.is_empty() { String::new() } else { format!(" on {}", ending.node) };
        let (kind, message, loss) = match ending.cause {
            EndCause::TimeLimit => {
                (FailureKind::Timeout, format!("{system} has ended job {id}{node}: its time limit was reached"), false)
            }
            EndCause::OutOfMemory => {
                (FailureKind::Memory, format!("out of memory: {system} has ended job {id}{node}"), false)
            }
            EndCause::Preempted => {
                self.submit_again(job);
                return;
            }
            EndCause::NotStarted => {
                self.jobs[job].stage = Stage::Held;
                return;
            }
            EndCause::Lost(word) => (FailureKind::Crash, format!("{system} has lost job {id}{node}: {word}"), true),
            EndCause::Impossible(reason) => (FailureKind::Input, format!("{system} cannot start it: {reason}"), false),
            EndCause::Exit(allocation::BLOCKED) => {
                (FailureKind::Crash, format!("job {id}{node} did not find the records that it needs"), true)
            }
            EndCause::Exit(code @ (78 | 126 | 127)) => {
                let path = if code == 78 { &session.launch.folder } else { &session.launch.program };
                let message = format!("job {id}{node} did not find {}: is it on a shared disk?", path.display());
                (FailureKind::Io, message, false)
            }
            cause => {
                let how = match cause {
                    EndCause::Exit(code) => format!("exit code {code}"),
                    EndCause::Signal(signal) => format!("signal {signal}"),
                    EndCause::Other(word) | EndCause::Lost(word) | EndCause::Impossible(word) => word,
                    EndCause::TimeLimit | EndCause::OutOfMemory | EndCause::Preempted | EndCause::NotStarted => {
                        word.to_owned()
                    }
                };
                let reason = if ending.reason.is_empty() { String::new() } else { format!(" ({})", ending.reason) };
                let output = session.launch.output(&format!("{}.txt", session.state.key(job).short()));
                let message = format!("job {id}{node} has ended with {how}{reason}; see {}", output.display());
                (FailureKind::Crash, message, false)
            }
        };
        self.lose(job, Failure { kind, message }, loss);
    }

    /// Handles a job that was ended by the batch system or a person, which is not a failure: the job is submitted
    /// again, and continues from its checkpoint if it has one.
    pub(super) fn submit_again(&mut self, job: usize) {
        let system = self.session.cluster.system();
        if self.jobs[job].interruptions >= MAX_INTERRUPTIONS {
            let message = format!("{system} has interrupted it {MAX_INTERRUPTIONS} times");
            self.fail(job, 0.0, Failure { kind: FailureKind::Crash, message });
            return;
        }
        let how = self.jobs[job].stopped.take().map(|(_, how)| format!(" ({how})")).unwrap_or_default();
        let text = format!("it was interrupted in {system}{how}, and is submitted again");
        self.jobs[job].interruptions += 1;
        self.jobs[job].stage = Stage::Held;
        self.session.state.tell(&RunEvent::Note { job, text });
    }

    /// Handles a job that has ended without a result and without a message: it is submitted again if it has attempts
    /// left. With `loss`, the batch system lost the job, which is then submitted again even without retries.
    pub(super) fn lose(&mut self, job: usize, failure: Failure, loss: bool) {
        let retries = self.session.state.plan.job(JobId::new(job)).policy.retries;
        let more = if loss { retries.max(LOSSES) } else { retries };
        let submissions = self.jobs[job].submissions.saturating_sub(self.jobs[job].interruptions).max(1);
        if submissions > more || self.session.stopping {
            self.fail(job, 0.0, failure);
            return;
        }
        self.jobs[job].stage = Stage::Held;
        self.session.state.tell(&RunEvent::Retrying {
            job,
            attempt: submissions,
            attempts: more + 1,
            wait: 0.0,
            failure,
            alone: false,
        });
    }
}
