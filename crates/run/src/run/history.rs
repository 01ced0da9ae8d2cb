//! Durations of earlier jobs and the GPU memory that they used, from their records, for the order of starts, the shares of
//! GPUs, and the estimates of `sweep plan`.

use std::{
    collections::{BTreeMap, HashMap},
    io,
};

use super::{GpuHistory, slots::Limits};
use crate::{
    plan::{JobId, ListId, Plan},
    store::{Entry, Store},
};

/// Durations and uses of memory of earlier jobs.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// Seconds by the job's name.
    seconds: HashMap<String, f64>,
    /// Better estimates of some jobs of a plan, in seconds.
    of_jobs: BTreeMap<JobId, f64>,
    /// Use of GPU memory; empty if no job of the plan shares a GPU.
    pub gpus: GpuHistory,
}

impl History {
    /// History from records.
    pub fn new(entries: &[Entry]) -> Self {
        let mut latest: HashMap<&str, &Entry> = HashMap::new();
        for entry in entries {
            let newest = latest.entry(&entry.label).or_insert(entry);
            if newest.started < entry.started {
                *newest = entry;
            }
        }
        let seconds = latest.into_iter().map(|(label, entry)| (label.to_owned(), entry.seconds)).collect();
        Self { seconds, of_jobs: BTreeMap::new(), gpus: GpuHistory::default() }
    }

    /// Adds estimates, in seconds, for jobs of the plan.
    #[must_use]
    pub fn with(mut self, of_jobs: impl IntoIterator<Item = (JobId, f64)>) -> Self {
        self.of_jobs.extend(of_jobs);
        self
    }

    /// History of the jobs of a store, as far as a plan needs it.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn read(store: &Store, plan: &Plan) -> io::Result<Self> {
        if !plan.jobs().any(|(_, job)| job.shares_gpu()) {
            return Ok(Self::new(&store.index()?));
        }
        let (entries, measured) = store.measured()?;
        Ok(Self { gpus: GpuHistory::new(&entries, &measured), ..Self::new(&entries) })
    }

    /// Estimated duration of `jobs` of a plan, in seconds; `None` if the history has no job of one of their steps. They
    /// share the machine as far as they can, and none begins before its dependencies are done.
    pub fn duration(&self, plan: &Plan, jobs: &[JobId], limits: &Limits) -> Option<f64> {
        let of_step = self.of_step();
        let is_known =
            |id: &JobId| self.of_jobs.contains_key(id) || of_step.contains_key(plan.job(*id).label.step.as_str());
        if !jobs.iter().all(is_known) {
            return None;
        }
        let seconds: Vec<f64> = self.expect(plan).into_iter().map(|milliseconds| milliseconds as f64 / 1e3).collect();
        let mut is_wanted = vec![false; plan.len()];
        for id in jobs {
            is_wanted[id.index()] = true;
        }
        let (mut ends, mut work) = (vec![0.0_f64; plan.len()], 0.0);
        let mut ends_of: HashMap<ListId, f64> = HashMap::new();
        for (id, job) in plan.jobs().filter(|(id, _)| is_wanted[id.index()]) {
            let end = |list: &ListId| plan.list(*list).iter().map(|need| ends[need.index()]).fold(0.0, f64::max);
            let lists = plan.lists_of(id).iter().map(|list| *ends_of.entry(*list).or_insert_with(|| end(list)));
            let begins = lists.fold(0.0, f64::max);
            ends[id.index()] = begins + seconds[id.index()];
            work += seconds[id.index()] * super::estimate::share(&super::demand(job, limits, &self.gpus), limits);
        }
        // Neither shorter than the longest chain nor than the time that the machine needs for all jobs.
        Some(ends.into_iter().fold(work, f64::max))
    }

    /// Estimated duration of each job of a plan, in milliseconds: its own earlier duration, else the mean of its step's
    /// jobs, else the mean of all.
    pub(super) fn expect(&self, plan: &Plan) -> Vec<u64> {
        let of_step = self.of_step();
        let mean = |sums: &[(f64, usize)]| {
            let (sum, count) = sums.iter().fold((0.0, 0), |all, own| (all.0 + own.0, all.1 + own.1));
            (count > 0).then(|| sum / count as f64)
        };
        let sums: Vec<(f64, usize)> = of_step.values().copied().collect();
        let of_all = mean(&sums).unwrap_or(1.0);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturating, and a hint")]
        let milliseconds = |seconds: f64| ((seconds * 1e3) as u64).max(1);
        self.known(plan).into_iter().map(|duration| milliseconds(duration.unwrap_or(of_all))).collect()
    }

    /// Returns the known durations in seconds; `None` for jobs of steps without a known duration.
    pub fn known(&self, plan: &Plan) -> Vec<Option<f64>> {
        let of_step = self.of_step();
        let known = plan.jobs().map(|(id, job)| {
            let own = self.of_jobs.get(&id).or_else(|| self.seconds.get(&job.label.to_string())).copied();
            let step = || of_step.get(job.label.step.as_str()).map(|(sum, count)| sum / *count as f64);
            own.or_else(step)
        });
        known.collect()
    }

    /// Returns the sum and the number of the known durations of each step.
    fn of_step(&self) -> HashMap<&str, (f64, usize)> {
        let mut of_step: HashMap<&str, (f64, usize)> = HashMap::new();
        for (label, seconds) in &self.seconds {
            // `recipe:step/point`.
            let step = label.split('/').next().unwrap_or(label);
            let (sum, count) = of_step.entry(step.rsplit(':').next().unwrap_or(step)).or_default();
            (*sum, *count) = (*sum + seconds, *count + 1);
        }
        of_step
    }
}
