//! GPUs that jobs share: the memory that they use, the estimates for jobs of the same shape, and jobs that ran out of it.

use std::{
    collections::{BTreeMap, HashMap},
    time::{Duration, Instant},
};

use sweep_job::{Failure, FailureKind};

use super::{LocalExecutor, Retry, beside::beside};
use crate::{
    host::{
        gpus::{self, ProcessMemory},
        machine,
    },
    plan::{Job, JobId, Plan},
    record::Record,
    run::{
        GpuHistory, RunEvent, Shape, demand,
        gpu_memory::{allocated, shape},
        local::Input,
        scheduler::Event,
        slots::{Demand, Lease},
    },
};

/// Interval between samples if a job shares a GPU.
const INTERVAL: Duration = Duration::from_millis(500);
/// Interval if no job shares a GPU; the samples are for later runs.
const LONG_INTERVAL: Duration = Duration::from_secs(10);
/// A sample may take this part of the time.
const PART: u32 = 20;
/// Number of failed samples after which no more are taken.
const MAX_FAILED_SAMPLES: u32 = 3;

/// State of the GPUs that the jobs of an engine share.
#[derive(Debug)]
pub(super) struct Gpus {
    history: GpuHistory,
    /// The shapes of the jobs that may share a GPU.
    shapes: BTreeMap<usize, Shape>,
    /// Jobs that ran out of memory on a shared GPU and have whole ones since, with the bytes that were reserved for
    /// them; 0 if unknown.
    exhausted: BTreeMap<usize, u64>,
    /// Earliest time of the next sample.
    due: Instant,
    /// True while a sample is taken.
    is_sampling: bool,
    /// Number of consecutive failed samples.
    silent: u32,
}

/// The result of a sample, and its duration.
pub(in crate::run) type Sample = (Option<Vec<ProcessMemory>>, Duration);

impl Gpus {
    pub(super) fn new(plan: &Plan, history: &GpuHistory) -> Self {
        let sharing = plan.jobs().filter(|(_, job)| job.shares_gpu());
        Self {
            history: history.clone(),
            shapes: sharing.map(|(id, job)| (id.index(), shape(&job.identity))).collect(),
            exhausted: BTreeMap::new(),
            due: Instant::now() + INTERVAL,
            is_sampling: false,
            silent: 0,
        }
    }

    /// Bytes that were reserved for an attempt of a job that ran out of memory on a shared GPU.
    pub(super) fn exhausted(&self, job: usize) -> Option<u64> {
        self.exhausted.get(&job).copied()
    }
}

impl LocalExecutor<'_, '_> {
    /// Returns the demand of a job according to the present history.
    fn demand_now(&self, job: usize) -> Demand {
        let demand = demand(self.state.plan.job(JobId::new(job)), &self.options.limits, &self.gpus.history);
        if self.gpus.exhausted.contains_key(&job) { Demand { share: None, ..demand } } else { demand }
    }

    /// Gives a job that may share a GPU, and does not run, the resources that it needs according to the present history.
    pub(super) fn refresh(&mut self, job: usize) {
        if self.gpus.shapes.contains_key(&job) {
            let demand = self.demand_now(job);
            self.scheduler.change(job, demand);
        }
    }

    /// Updates the estimates of all jobs of a shape.
    fn refresh_all(&mut self, shape: Shape) {
        let jobs = self.gpus.shapes.iter().filter(|(_, other)| **other == shape);
        for job in jobs.map(|(job, _)| *job).collect::<Vec<usize>>() {
            self.refresh(job);
        }
    }

    /// Lets a job that ran out of memory on a shared GPU run again on a whole one, once, and without using up its retries. Until
    /// there is a record of it, jobs of its shape get whole GPUs, too.
    pub(super) fn again_alone(&mut self, job: usize, seconds: f64, lease: &Lease, failure: &Failure) -> Option<Event> {
        let first = !self.gpus.exhausted.contains_key(&job);
        if failure.kind != FailureKind::Memory || lease.share.is_none() || !first || self.scheduler.is_stopping() {
            return None;
        }
        self.gpus.exhausted.insert(job, lease.gpu_memory);
        if let Some(shape) = self.gpus.shapes.get(&job).copied() {
            self.gpus.history.exhaust(shape);
            self.refresh_all(shape);
        }
        let attempt = self.attempts.get(&job).copied().unwrap_or(1);
        let attempts = self.state.policy(job).retries + 1;
        self.state.tell(&RunEvent::Retrying {
            job,
            attempt,
            attempts,
            wait: 0.0,
            failure: failure.clone(),
            alone: true,
        });
        self.retrying.insert(job, Retry { at: Some(Instant::now()), seconds, failure: failure.clone() });
        Some(Event::Later(job))
    }

    /// Adds the GPU memory of a stored record to the history.
    pub(super) fn learn(&mut self, record: &Record) {
        let gpu_use = record.provenance.conditions.as_ref().and_then(|conditions| conditions.gpu);
        if self.gpus.shapes.is_empty() || gpu_use.is_none() {
            return;
        }
        let shape = shape(&record.identity);
        self.gpus.history.add(shape, gpu_use, allocated(&record.outcome.metrics));
        self.refresh_all(shape);
    }

    /// Samples the memory that the running jobs use on GPUs, if that is due. No sample is taken while a job measures
    /// times.
    pub(super) fn sample_gpus(&mut self) {
        let gpus = &self.gpus;
        if gpus.is_sampling || gpus.silent >= MAX_FAILED_SAMPLES || gpus.due > Instant::now() {
            return;
        }
        let measures = |job: &Job| job.resources.exclusive || job.turn.is_some();
        let mut jobs = self.running.keys().map(|job| self.state.plan.job(JobId::new(*job)));
        if self.running.values().all(|attempt| attempt.lease.gpus.is_empty()) || jobs.any(measures) {
            return;
        }
        let sender = self.state.sender.clone();
        let work = || {
            let start = Instant::now();
            let processes = gpus::used();
            (processes, start.elapsed())
        };
        let say = move |sample: Result<Sample, std::io::Error>| {
            let _ = sender.send(Input::Sampled(sample.unwrap_or_default()));
        };
        // If no thread can be started, the sample is skipped.
        self.gpus.is_sampling = beside(work, say).is_ok();
    }

    /// Takes note of a sample.
    pub(super) fn sampled(&mut self, (used, cost): Sample) {
        let interval = if self.gpus.shapes.is_empty() { LONG_INTERVAL } else { INTERVAL };
        self.gpus.due = Instant::now() + interval.max(cost * PART);
        self.gpus.is_sampling = false;
        let Some(processes) = used else {
            self.gpus.silent += 1;
            return;
        };
        self.gpus.silent = 0;
        let jobs: HashMap<u32, usize> = self.running.iter().map(|(job, attempt)| (attempt.worker.id(), *job)).collect();
        let mut sums: HashMap<(usize, &str), u64> = HashMap::new();
        for ProcessMemory { pid, gpu, bytes } in &processes {
            if let Some(job) = machine::lineage(*pid).find_map(|pid| jobs.get(&pid)) {
                *sums.entry((*job, gpu)).or_default() += bytes;
            }
        }
        for ((job, _), bytes) in sums {
            if let Some(attempt) = self.running.get_mut(&job) {
                attempt.gpu_peak = Some(attempt.gpu_peak.unwrap_or(0).max(bytes));
            }
        }
    }
}
