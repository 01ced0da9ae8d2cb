//! The state of each job of a run through a batch system, and its requested resources.

use std::{
    collections::HashSet,
    ops::{Index, IndexMut},
    path::PathBuf,
    time::{Duration, Instant},
};

use sweep_job::{
    Failure,
    tasks::{Launch, launched},
};

use super::{BatchId, Request};
use crate::{
    plan::{self, JobId, ListId, Plan},
    recipe::{Policy, ResourceCount},
    run::{self, Disposition},
};

/// The time that a batch job gets on top of its job's own limit, which the engine in the allocation enforces to the second. Slurm
/// looks once in a minute or less, and only knows whole minutes.
const MARGIN: Duration = Duration::from_mins(2);

/// The resources of a batch job for one job.
pub(super) fn request(job: &plan::Job) -> Request {
    let resources = &job.resources;
    let nodes = resources.nodes();
    // The worker itself starts the processes of a single node, unless `srun` does.
    let launched = launched(&job.values).filter(|(launch, _)| nodes > 1 || *launch == Launch::Srun);
    let processes = launched.map_or(1, |(_, ranks)| (ranks / nodes).max(1));
    Request {
        nodes,
        processes,
        cpus: resources.cpus.map_or(1, ResourceCount::count).max(processes),
        memory: resources.memory,
        gpus: run::gpus(job),
        gpu_share: resources.gpus.and_then(ResourceCount::share),
        exclusive: resources.exclusive,
        time: backstop(&job.policy),
    }
}

/// Time limit of a batch job whose job has its own: all attempts with their grace, the waits between them, and a margin.
fn backstop(policy: &Policy) -> Option<Duration> {
    let attempts = policy.retries + 1;
    let waits: Duration = (1..attempts).map(run::engine::wait_before).sum();
    let each = policy.timeout?.saturating_add(policy.grace.unwrap_or_default());
    Some(each.saturating_mul(attempts) + waits + MARGIN)
}

/// All jobs of a plan, by their places in it.
pub(super) struct Jobs {
    all: Vec<Job>,
    lists: Vec<List>,
    /// Number without an end yet.
    pub(super) open: usize,
}

/// Jobs that are needed together.
struct List {
    /// Jobs that are not known to have ended; some of them may have.
    open: Vec<usize>,
    /// The jobs that need this list.
    dependents: Vec<usize>,
}

pub(super) struct Job {
    pub(super) stage: Stage,
    /// The lists of the jobs that the job needs, and the lists that contain the job.
    needs: Vec<ListId>,
    /// The job from whose state it continues.
    after: Option<usize>,
    of: Vec<ListId>,
    /// Number of submissions.
    pub(super) submissions: u32,
    /// Length of its process's messages that have been read.
    pub(super) read: u64,
    /// The message of the job's process about a failure, with the duration in seconds.
    pub(super) last: Option<(f64, Failure)>,
    /// The message of the job's process that it was stopped, with the duration in seconds.
    pub(super) stopped: Option<(f64, String)>,
    /// True if its process has ended because the batch system or a person asked it to.
    pub(super) interrupted: bool,
    /// Number of submissions after such an end.
    pub(super) interruptions: u32,
    /// Output of its worker, if there was one.
    pub(super) log: Option<PathBuf>,
}

/// Stage of a job.
pub(super) enum Stage {
    /// Not yet submitted.
    Held,
    /// In the batch system.
    Sent(Sent),
    /// The job has ended, or there was nothing to do.
    Over,
}

/// A job in the batch system.
pub(super) struct Sent {
    pub(super) id: BatchId,
    /// The run whose folder has its specification.
    pub(super) run: String,
    pub(super) running: bool,
    /// Reason for waiting.
    pub(super) reason: String,
    /// Time since which the queue reports the job as ended, or does not list it.
    pub(super) gone: Option<Instant>,
}

impl Stage {
    pub(super) fn is_held(&self) -> bool {
        matches!(self, Self::Held)
    }
}

impl Jobs {
    pub(super) fn new(plan: &Plan, wanted: &[Disposition]) -> Self {
        let mut jobs: Vec<Job> = plan
            .jobs()
            .map(|(id, _)| Job {
                stage: if wanted[id.index()] == Disposition::Yes { Stage::Held } else { Stage::Over },
                needs: plan.lists_of(id).to_vec(),
                after: plan.continues(id).map(JobId::index),
                of: Vec::new(),
                submissions: 0,
                read: 0,
                last: None,
                stopped: None,
                interrupted: false,
                interruptions: 0,
                log: None,
            })
            .collect();
        let mut lists: Vec<List> =
            run::lists(plan).into_iter().map(|open| List { open, dependents: Vec::new() }).collect();
        for (index, list) in lists.iter().enumerate() {
            list.open.iter().for_each(|job| jobs[*job].of.push(index));
        }
        for (index, job) in jobs.iter().enumerate() {
            job.needs.iter().for_each(|list| lists[*list].dependents.push(index));
        }
        let held_jobs = jobs.iter().filter(|job| job.stage.is_held()).count();
        Self { all: jobs, lists, open: held_jobs }
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// A job has its end.
    pub(super) fn close(&mut self, job: usize) {
        let job = &mut self.all[job];
        if !matches!(job.stage, Stage::Over) {
            self.open -= 1;
        }
        job.stage = Stage::Over;
    }

    /// A job that was held in reserve is to be submitted.
    pub(super) fn open(&mut self, job: usize) {
        if !matches!(self.all[job].stage, Stage::Over) {
            return;
        }
        self.all[job].stage = Stage::Held;
        self.open += 1;
        for list in &self.all[job].of {
            let open_needs = &mut self.lists[*list].open;
            if !open_needs.contains(&job) {
                open_needs.push(job);
            }
        }
    }

    /// The jobs that cannot run without a lost one, each with the job that it needs.
    pub(super) fn dependents(&self, lost: usize) -> Vec<(usize, usize)> {
        let mut pairs = Vec::new();
        let (mut seen, mut lists) = (HashSet::new(), HashSet::new());
        let mut stack = vec![lost];
        while let Some(job) = stack.pop() {
            let new = self.all[job].of.iter().filter(|list| lists.insert(**list));
            for dependent in new.flat_map(|list| &self.lists[*list].dependents) {
                if !matches!(self.all[*dependent].stage, Stage::Over) && seen.insert(*dependent) {
                    pairs.push((*dependent, job));
                    stack.push(*dependent);
                }
            }
        }
        pairs
    }

    /// Batch jobs that a job still waits for, by number; `None` if one of them is not submitted, or if they are more
    /// than `most`.
    pub(super) fn needs_of(&mut self, job: usize, most: usize) -> Option<Vec<BatchId>> {
        let mut ids = Vec::new();
        for list in &self.all[job].needs {
            let open_needs = &mut self.lists[*list].open;
            // An ended one is never a dependency: a batch system forgets its outcome. Nor does it start again.
            open_needs.retain(|need| !matches!(self.all[*need].stage, Stage::Over));
            if open_needs.len() > most {
                return None;
            }
            for need in open_needs {
                match &self.all[*need].stage {
                    Stage::Over => {}
                    Stage::Sent(sent) if sent.gone.is_none() => ids.push(sent.id.clone()),
                    Stage::Sent(_) | Stage::Held => return None,
                }
            }
        }
        Some(ids).filter(|ids| ids.len() <= most)
    }

    /// True if a job would begin before that from whose state it continues has ended.
    pub(super) fn is_early(&self, job: usize) -> bool {
        self.all[job].after.is_some_and(|first| !matches!(self.all[first].stage, Stage::Over))
    }

    /// Returns the jobs in the batch system.
    pub(super) fn sent(&self) -> impl Iterator<Item = &Sent> {
        self.all.iter().filter_map(|job| match &job.stage {
            Stage::Sent(sent) => Some(sent),
            Stage::Held | Stage::Over => None,
        })
    }

    pub(super) fn running(&self) -> usize {
        self.sent().filter(|sent| sent.running).count()
    }

    pub(super) fn held(&self) -> usize {
        self.all.iter().filter(|job| job.stage.is_held()).count()
    }

    pub(super) fn nothing_to_submit(&self) -> bool {
        self.held() == 0
    }
}

impl Index<usize> for Jobs {
    type Output = Job;

    fn index(&self, job: usize) -> &Job {
        &self.all[job]
    }
}

impl IndexMut<usize> for Jobs {
    fn index_mut(&mut self, job: usize) -> &mut Job {
        &mut self.all[job]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_batch_system_waits_longer_than_all_attempts_take() {
        let policy = Policy { retries: 2, timeout: Some(Duration::from_mins(10)), ..Policy::default() };
        assert_eq!(backstop(&policy), Some(Duration::from_secs(3 * 600 + 1 + 2 + 120)));
        let with_grace = Policy { grace: Some(Duration::from_mins(1)), ..policy };
        assert_eq!(backstop(&with_grace), Some(Duration::from_secs(3 * 660 + 1 + 2 + 120)));
        assert_eq!(backstop(&Policy::default()), None, "then the cluster's own limit holds");
    }
}
