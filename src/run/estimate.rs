//! How long the rest of a run takes: from how long jobs took before, corrected by how long they take now.

use std::collections::HashMap;

use super::{
    Manifest, Wanted,
    slots::{Demand, Limits},
};

/// Knows how long the jobs of a run may take.
#[derive(Debug, Clone)]
pub struct Estimate(Vec<Part>);

/// What has to be known of a job.
#[derive(Debug, Clone)]
struct Part {
    step: usize,
    needs: Vec<usize>,
    /// The part of the machine that it takes.
    share: f64,
    /// Seconds that it took before.
    expected: Option<f64>,
    wanted: bool,
}

/// What a job is doing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Now {
    /// It is over, after so many seconds; `None` if another process did it, or if it never began.
    Over(Option<f64>),
    /// It runs.
    Running {
        /// For so many seconds.
        since: f64,
        /// How many more it needs at its own pace, if it has said how far it is.
        left: Option<f64>,
    },
    /// It has not begun.
    Open,
}

/// What is known of a step's jobs in this run.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    over: usize,
    took: f64,
    /// Of those of which something was expected: what, and what they took.
    expected: f64,
    against: f64,
    /// What running jobs will take in all, as they say.
    promised: f64,
    promises: usize,
}

impl Estimate {
    /// For the jobs of a run.
    pub fn new(manifest: &Manifest) -> Self {
        let mut steps: HashMap<&str, usize> = HashMap::new();
        let parts = manifest.jobs.iter().map(|job| {
            let step = job.label.split('/').next().unwrap_or_default();
            let next = steps.len();
            Part {
                step: *steps.entry(step).or_insert(next),
                needs: job.needs.clone(),
                share: share(&job.demand, manifest.limits),
                expected: job.expected,
                wanted: job.wanted == Wanted::Yes,
            }
        });
        Self(parts.collect())
    }

    /// Seconds until all is over; `None` as long as nothing is known of some step. Jobs share the machine as far as they
    /// can, and none begins before those that it needs are over.
    pub fn left(&self, now: impl Fn(usize) -> Now) -> Option<f64> {
        let mut seen = vec![Seen::default(); self.0.len()];
        for (job, part) in self.0.iter().enumerate().filter(|(_, part)| part.wanted) {
            let seen = &mut seen[part.step];
            match now(job) {
                Now::Over(Some(took)) => {
                    seen.over += 1;
                    seen.took += took;
                    if let Some(expected) = part.expected {
                        seen.expected += expected;
                        seen.against += took;
                    }
                }
                Now::Running { since, left: Some(left) } => {
                    seen.promises += 1;
                    seen.promised += since + left;
                }
                Now::Running { left: None, .. } | Now::Over(None) | Now::Open => {}
            }
        }
        let (mut ends, mut work) = (vec![0.0_f64; self.0.len()], 0.0);
        for (job, part) in self.0.iter().enumerate().filter(|(_, part)| part.wanted) {
            let guess = || seen[part.step].guess(part.expected);
            let left = match now(job) {
                Now::Over(_) => continue,
                Now::Running { left: Some(left), .. } => left,
                Now::Running { since, left: None } => (guess()? - since).max(0.0),
                Now::Open => guess()?,
            };
            let begins = part.needs.iter().map(|need| ends[*need]).fold(0.0, f64::max);
            ends[job] = begins + left;
            work += left * part.share;
        }
        // As long as the longest chain, and as long as the machine needs for all of them.
        Some(ends.into_iter().fold(work, f64::max))
    }
}

impl Seen {
    /// How long a job of this step may take that took so long before.
    fn guess(&self, expected: Option<f64>) -> Option<f64> {
        match expected {
            // A machine that is slower today is so for all of them.
            Some(expected) if self.expected > 0.0 => Some(expected * self.against / self.expected),
            Some(expected) => Some(expected),
            None if self.over > 0 => Some(self.took / self.over as f64),
            None if self.promises > 0 => Some(self.promised / self.promises as f64),
            None => None,
        }
    }
}

/// The part of the machine that a job takes.
pub(super) fn share(demand: &Demand, limits: Limits) -> f64 {
    let share = match demand.gpus {
        0 => demand.cpus as f64 / limits.cpus.max(1) as f64,
        gpus => gpus as f64 / limits.gpus.max(1) as f64,
    };
    share.max(1.0 / limits.jobs.max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(step: usize, needs: &[usize], expected: Option<f64>) -> Part {
        Part { step, needs: needs.to_vec(), share: 0.5, expected, wanted: true }
    }

    #[test]
    fn two_at_once_take_half_as_long_and_a_chain_takes_its_sum() {
        let four = Estimate((0..4).map(|_| part(0, &[], Some(10.0))).collect());
        assert_eq!(four.left(|_| Now::Open), Some(20.0));
        let chain = Estimate(vec![part(0, &[], Some(10.0)), part(1, &[0], Some(3.0)), part(2, &[1], Some(4.0))]);
        assert_eq!(chain.left(|_| Now::Open), Some(17.0));
        assert_eq!(chain.left(|job| if job == 0 { Now::Over(Some(10.0)) } else { Now::Open }), Some(7.0));
    }

    #[test]
    fn what_this_run_shows_corrects_what_earlier_ones_did() {
        let jobs = Estimate(vec![part(0, &[], Some(10.0)), part(0, &[0], Some(20.0))]);
        let now = |job| if job == 0 { Now::Over(Some(30.0)) } else { Now::Open };
        assert_eq!(jobs.left(now), Some(60.0), "three times as slow as before");
        let running = |job| if job == 0 { Now::Over(Some(10.0)) } else { Now::Running { since: 15.0, left: None } };
        assert_eq!(jobs.left(running), Some(5.0));
        let late = |job| if job == 0 { Now::Over(Some(10.0)) } else { Now::Running { since: 25.0, left: None } };
        assert_eq!(jobs.left(late), Some(0.0));
        let said = |job| if job == 0 { Now::Over(None) } else { Now::Running { since: 25.0, left: Some(8.0) } };
        assert_eq!(jobs.left(said), Some(8.0), "it knows best");
    }

    #[test]
    fn of_what_nobody_has_seen_nothing_is_said() {
        let jobs = Estimate(vec![part(0, &[], None), part(0, &[0], None), part(1, &[1], None)]);
        assert_eq!(jobs.left(|_| Now::Open), None);
        let first = Estimate(jobs.0[..2].to_vec());
        let promised = |job| if job == 0 { Now::Running { since: 2.0, left: Some(6.0) } } else { Now::Open };
        assert_eq!(first.left(promised), Some(14.0), "the second as long as the first");
        assert_eq!(first.left(|job| if job == 0 { Now::Over(Some(5.0)) } else { Now::Open }), Some(5.0));
    }
}
