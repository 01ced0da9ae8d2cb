//! The remaining time of a run: from the durations of earlier jobs, corrected by the current ones.

use std::{collections::HashMap, sync::Arc};

use jiff::Timestamp;

use super::{
    Disposition, Manifest, RunEvent, Through,
    slots::{Demand, Limits, WHOLE},
};

/// Follows a run and estimates its remaining time. The engine's output and the journal's readers use the same estimate.
#[derive(Debug, Clone)]
pub struct Pace {
    /// `None` if no estimate is possible, or the run is ending.
    estimate: Option<Arc<Estimate>>,
    jobs: HashMap<usize, Heard>,
}

/// Last information about a job.
#[derive(Debug, Clone, Copy)]
enum Heard {
    /// The job has run since `since`; `left` is the number of seconds that it still needed at `at`, if it reports progress.
    Running { since: Timestamp, at: Timestamp, left: Option<f64> },
    /// The job is over; the value is its duration in seconds, if it was done here.
    Over(Option<f64>),
}

impl Pace {
    /// Jobs of the run. For a run through Slurm nothing is estimated: this program cannot know when the jobs begin.
    pub fn new(manifest: &Manifest) -> Self {
        let local = manifest.through == Through::Local;
        Self { estimate: local.then(|| Arc::new(Estimate::new(manifest))), jobs: HashMap::new() }
    }

    /// Creates a pace without an estimate, for a run whose remaining time is not shown.
    pub fn silent() -> Self {
        Self { estimate: None, jobs: HashMap::new() }
    }

    /// Updates the estimate with an event and its time.
    pub fn on(&mut self, at: Timestamp, event: &RunEvent) {
        match event {
            RunEvent::Started { job, .. } => {
                self.jobs.insert(*job, Heard::Running { since: at, at, left: None });
            }
            RunEvent::Progress { job, progress } if progress.done > 0 && progress.total > 0 => {
                if let Some(heard @ Heard::Running { .. }) = self.jobs.get_mut(job)
                    && let Heard::Running { since, .. } = *heard
                {
                    let remaining = progress.total.saturating_sub(progress.done) as f64;
                    let left = Some(seconds(at, since) / progress.done as f64 * remaining);
                    *heard = Heard::Running { since, at, left };
                }
            }
            RunEvent::Storing { job } => {
                if let Some(heard @ Heard::Running { .. }) = self.jobs.get_mut(job)
                    && let Heard::Running { since, .. } = *heard
                {
                    *heard = Heard::Running { since, at, left: Some(0.0) };
                }
            }
            RunEvent::Retrying { job, .. } => drop(self.jobs.remove(job)),
            RunEvent::Done { job, seconds, .. } => drop(self.jobs.insert(*job, Heard::Over(*seconds))),
            // The time until a failure does not predict the durations of other jobs.
            RunEvent::Failed { job, .. } | RunEvent::Stopped { job, .. } | RunEvent::Skipped { job, .. } => {
                self.jobs.insert(*job, Heard::Over(None));
            }
            RunEvent::Stopping { .. } | RunEvent::Ended(_) => self.estimate = None,
            RunEvent::Added { job, .. } => {
                if let Some(estimate) = &mut self.estimate {
                    Arc::make_mut(estimate).add(*job);
                }
            }
            RunEvent::Decided { .. }
            | RunEvent::Submitted { .. }
            | RunEvent::Notice { .. }
            | RunEvent::Begun { .. }
            | RunEvent::Waiting { .. }
            | RunEvent::Note { .. }
            | RunEvent::Progress { .. } => {}
        }
    }

    /// Returns the seconds until the run is over, if an estimate is possible.
    pub fn left(&self, now: Timestamp) -> Option<f64> {
        self.estimate.as_ref()?.left(|job| match self.jobs.get(&job) {
            None => Now::Open,
            Some(Heard::Over(took)) => Now::Over(*took),
            Some(Heard::Running { since, at, left }) => {
                let left = left.map(|left| (left - seconds(now, *at)).max(0.0));
                Now::Running { since: seconds(now, *since), left }
            }
        })
    }
}

/// Returns the time from one moment to a later one; 0 if a clock was set back meanwhile.
fn seconds(later: Timestamp, earlier: Timestamp) -> f64 {
    later.duration_since(earlier).as_secs_f64().max(0.0)
}

/// Expected durations of the jobs of a run.
#[derive(Debug, Clone)]
struct Estimate(Vec<Part>);

/// Data of a job.
#[derive(Debug, Clone)]
struct Part {
    step: usize,
    needs: Vec<usize>,
    /// The part of the machine that the job takes.
    share: f64,
    /// Duration in seconds of earlier runs of the job.
    expected: Option<f64>,
    wanted: bool,
}

/// State of a job.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Now {
    /// The job is over; the value is its duration in seconds, `None` if another process did it, or if it never began.
    Over(Option<f64>),
    Running {
        /// The seconds that the job has run.
        since: f64,
        /// Remaining time at the job's own pace, if it has reported progress.
        left: Option<f64>,
    },
    /// The job has not begun.
    Open,
}

/// Data of a step's jobs in this run.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    over: usize,
    took: f64,
    /// Sums over the jobs with an expected duration: the expected and the actual one.
    expected: f64,
    against: f64,
    /// Total time that running jobs report.
    promised: f64,
    promises: usize,
}

impl Estimate {
    /// For the jobs of a run.
    fn new(manifest: &Manifest) -> Self {
        let mut steps: HashMap<&str, usize> = HashMap::new();
        let parts = manifest.jobs.iter().map(|job| {
            let step = job.label.split('/').next().unwrap_or_default();
            let next = steps.len();
            Part {
                step: *steps.entry(step).or_insert(next),
                needs: job.needs.clone(),
                share: share(&job.demand, &manifest.limits),
                expected: job.expected,
                wanted: job.wanted == Disposition::Yes,
            }
        });
        Self(parts.collect())
    }

    /// A job that was in reserve is to run after all.
    fn add(&mut self, job: usize) {
        self.0.iter_mut().skip(job).take(1).for_each(|part| part.wanted = true);
    }

    /// Returns the seconds until all jobs are over; `None` while the duration of a step is unknown. Jobs share the machine as far as they
    /// can, and none begins before the jobs that it needs are over.
    fn left(&self, now: impl Fn(usize) -> Now) -> Option<f64> {
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
        // Neither shorter than the longest chain nor than the time that the machine needs for all jobs.
        Some(ends.into_iter().fold(work, f64::max))
    }
}

impl Seen {
    /// Estimated duration of a job of this step with this earlier duration.
    fn guess(&self, expected: Option<f64>) -> Option<f64> {
        match expected {
            // A machine that is slower today is slower for all jobs.
            Some(expected) if self.expected > 0.0 => Some(expected * self.against / self.expected),
            Some(expected) => Some(expected),
            None if self.over > 0 => Some(self.took / self.over as f64),
            None if self.promises > 0 => Some(self.promised / self.promises as f64),
            None => None,
        }
    }
}

/// The part of the machine that a job takes.
pub(super) fn share(demand: &Demand, limits: &Limits) -> f64 {
    let share = match demand.gpus {
        0 => demand.millicores() as f64 / (limits.cpus.max(1) * usize::from(WHOLE)) as f64,
        _ => share_of_gpus(demand, limits),
    };
    share.max(1.0 / limits.jobs.max(1) as f64)
}

/// The part of all GPUs that a job takes: of their thousandths or of their memory, whichever is more.
pub(super) fn share_of_gpus(demand: &Demand, limits: &Limits) -> f64 {
    let each = demand.share.map_or(1.0, |share| {
        let memory = limits.largest_gpu().map_or(0.0, |largest| demand.gpu_memory as f64 / largest as f64);
        memory.max(f64::from(share) / f64::from(WHOLE))
    });
    demand.gpus as f64 * each / limits.gpus.max(1) as f64
}

#[cfg(test)]
mod tests {
    use sweep_job::Progress;

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
    fn jobs_of_the_reserve_count_once_they_are_to_run() {
        let reserved = Part { wanted: false, ..part(0, &[0], None) };
        let mut pace =
            Pace { estimate: Some(Arc::new(Estimate(vec![part(0, &[], Some(10.0)), reserved]))), jobs: HashMap::new() };
        let at = Timestamp::UNIX_EPOCH;
        pace.on(at, &RunEvent::Done { job: 0, seconds: Some(10.0), outcome: sweep_job::Outcome::default() });
        assert_eq!(pace.left(at), Some(0.0));
        pace.on(at, &RunEvent::Added { job: 1, because: String::new() });
        assert_eq!(pace.left(at), Some(10.0), "as long as the job before");
    }

    #[test]
    fn what_a_job_has_said_counts_down_until_it_says_more() {
        let at = |seconds: i64| Timestamp::from_second(1_000_000 + seconds).unwrap();
        let mut pace = Pace { estimate: Some(Arc::new(Estimate(vec![part(0, &[], None)]))), jobs: HashMap::new() };
        let started = RunEvent::Started { job: 0, cpus: 1, gpus: Vec::new(), attempt: 1, host: None };
        let progress =
            |done| RunEvent::Progress { job: 0, progress: Progress { done, total: 10, ..Progress::default() } };
        pace.on(at(0), &started);
        assert_eq!(pace.left(at(1)), None);
        pace.on(at(10), &progress(2));
        assert_eq!((pace.left(at(10)), pace.left(at(30)), pace.left(at(90))), (Some(40.0), Some(20.0), Some(0.0)));
        pace.on(at(30), &progress(5));
        assert_eq!(pace.left(at(30)), Some(30.0));
        pace.on(at(40), &RunEvent::Storing { job: 0 });
        assert_eq!(pace.left(at(41)), Some(0.0));
        pace.on(
            at(42),
            &RunEvent::Retrying { job: 0, attempt: 1, attempts: 2, wait: 1.0, failure: failure(), alone: false },
        );
        assert_eq!(pace.left(at(42)), None, "the next attempt has said nothing");
    }

    fn failure() -> sweep_job::Failure {
        sweep_job::Failure { kind: sweep_job::FailureKind::Crash, message: String::new() }
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
