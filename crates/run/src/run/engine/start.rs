//! The start of a job: its claim, its values, and its worker.

use std::{
    io,
    path::Path,
    sync::{Arc, PoisonError},
    time::{Duration, Instant},
};

use fs_err as fs;
use sweep_job::{Failure, FailureKind, PROTOCOL, Values, tasks::launched};
use tracing::{field, info_span};

use super::{LocalExecutor, io_failure, sharing::Entry};
use crate::{
    host::{self, machine::OutOfMemory, system::Load},
    plan::JobId,
    record::{Key, Milestones, Unresolved, resolve},
    run::{
        Disposition, RunEvent,
        attempt::Attempt,
        conditions::Surroundings,
        local::Start,
        reads::Reads,
        scheduler::Event,
        scratch::Scratch,
        slots::{Lease, WHOLE},
    },
    store::{Claim, Pending},
};

impl LocalExecutor<'_, '_> {
    /// Starts a job; returns the event for the scheduler if the job need not or cannot start.
    pub(super) fn start(&mut self, job: usize, lease: Lease) -> Vec<Event> {
        if let Some(event) = self.stopped_before(job) {
            return vec![event];
        }
        let key = self.state.plan.job(JobId::new(job)).key;
        if let Some(failure) = self.options.failures.as_ref().and_then(|failures| failures.of(key)) {
            self.waiting.remove(&job);
            self.report_failure(job, 0.0, failure);
            return vec![Event::Failed(job)];
        }
        if self.options.arriving.has(key) {
            return self.wait(job, true);
        }
        if self.twins.are_among(job, &self.storing) {
            if self.waiting.insert(job) {
                self.twins.park(job);
            }
            return vec![Event::Later(job)];
        }
        if self.twins.unpark(job) || self.twins.have_ended(job) {
            self.waiting.remove(&job);
        }
        if let Some(event) = self.recall(job) {
            return vec![event];
        }
        let lease = match self.enter(job) {
            Entry::Admitted(alone) => Lease { alone, ..lease },
            Entry::Refused => return vec![Event::Refused(job)],
        };
        match self.state.store.claim(key) {
            Ok(Claim::Hit(_)) if self.has_other_code(job) => {
                self.waiting.remove(&job);
                let message = "its record has come from another machine, where the program read other files; run again";
                let failure = Failure { kind: FailureKind::Changed, message: message.to_owned() };
                self.report_failure(job, 0.0, failure);
                vec![Event::Failed(job)]
            }
            Ok(Claim::Hit(record)) => vec![self.adopt(job, record.outcome)],
            Ok(Claim::Busy) => self.wait(job, false),
            Ok(Claim::Miss(pending)) => {
                self.waiting.remove(&job);
                let values = match self.settled(job) {
                    Ok(values) => values,
                    Err(error) => {
                        let failure = Failure { kind: FailureKind::Input, message: error.to_string() };
                        self.report_failure(job, 0.0, failure);
                        return vec![Event::Failed(job)];
                    }
                };
                self.prepare(job, lease, values, pending)
            }
            Err(error) => {
                let failure = io_failure(error.to_string());
                self.store_failed(job, &error, 0.0, failure)
            }
        }
    }

    /// Returns the event for the result of an earlier job, if that holds because the needed jobs have run again and left the
    /// same results, or because another variant of the code has run and is the same for its program.
    fn recall(&mut self, job: usize) -> Option<Event> {
        let id = JobId::new(job);
        let ran = |need: &JobId| self.state.wanted[need.index()] == Disposition::Yes;
        let have_run = || self.state.plan.lists_of(id).iter().any(|list| self.state.plan.list(*list).iter().any(ran));
        let need_new =
            || have_run() || self.state.plan.job(id).identity.needs.iter().any(|need| self.is_of_this_run(need));
        let is_open = !self.attempts.contains_key(&job) && !self.waiting.contains(&job);
        let has_twin = self.twins.have_ended(job);
        if !is_open || !(has_twin || need_new()) {
            return None;
        }
        // If the earlier result cannot be read, it does not hold, and the job runs.
        if !self.earlier.as_mut()?.holds(self.state.plan, id).unwrap_or(false) {
            return None;
        }
        let outcome = self.state.store.get(self.state.plan.job(id).key).ok().flatten()?.outcome;
        let text = if has_twin {
            "not run: its program reads the same files as that of a variant of the code that has a result"
        } else {
            "not run: the jobs that it needs have left the same files and values as before, so its earlier result holds"
        };
        self.state.tell(&RunEvent::Note { job, text: text.to_owned() });
        self.state.tell(&RunEvent::Done { job, seconds: Some(0.0), outcome });
        Some(Event::Done(job))
    }

    /// True if a job was run by another engine of this run: in a batch system, each allocation has one.
    fn is_of_this_run(&self, need: Key) -> bool {
        let time_stored = fs::metadata(self.state.store.record_file(need)).and_then(|record| record.modified());
        // Both are times of the file system, which the machines share.
        time_stored.ok().zip(self.planned).is_some_and(|(time_stored, time_planned)| time_stored > time_planned)
    }

    /// True if the record of a job comes from other code than its present code.
    fn has_other_code(&self, job: usize) -> bool {
        if self.state.plan.job(JobId::new(job)).code.is_none() {
            // The list of manifests need not be read.
            return false;
        }
        let mut digests = self.digests.lock().unwrap_or_else(PoisonError::into_inner);
        digests.forget();
        self.state.plan.had_other_code(JobId::new(job), &mut self.state.store.manifests(), &mut digests)
    }

    /// Lets a job wait for its record, which another process creates, or which is on its way from a remote.
    fn wait(&mut self, job: usize, arriving: bool) -> Vec<Event> {
        if self.waiting.insert(job) {
            self.state.tell(&RunEvent::Waiting { job, arriving, machine: false });
        }
        vec![Event::Later(job)]
    }

    /// Returns the parameters of a job, with the results of the jobs that it needs.
    fn settled(&self, job: usize) -> Result<Values, Unresolved> {
        let planned_job = self.state.plan.job(JobId::new(job));
        let look_up = &mut |key| {
            let record = self.state.store.get(key).ok().flatten()?;
            Some((record, self.state.store.files(key)))
        };
        resolve(planned_job.task, &planned_job.values, look_up)
    }

    /// True if the program of a job can write to projects without being observed.
    fn may_write_unseen(&self, job: usize, values: &Values) -> bool {
        let (id, planned_job) = (JobId::new(job), self.state.plan.job(JobId::new(job)));
        let is_observed =
            || planned_job.code.is_some() && launched(values).is_none() && host::observation::check().is_ok();
        planned_job.is_program() && !self.state.plan.has_view(id) && !is_observed()
    }

    /// Starts the worker of a job; returns the number of the attempt.
    pub(super) fn spawn(
        &mut self,
        job: usize,
        lease: Lease,
        values: Values,
        pending: Pending,
        reads: Arc<Reads>,
    ) -> io::Result<u32> {
        let (planned, (trial, comparing)) = (self.state.plan.job(JobId::new(job)), self.trial(job, &reads));
        let logs = self.options.folder.join("logs");
        fs::create_dir_all(&logs)?;
        let log = logs.join(format!("{}.log", planned.key.short()));
        let attempt = self.attempts.get(&job).copied().unwrap_or(0) + 1;
        let span =
            info_span!(target: host::log::SPAWN, "spawn", job = planned.label.to_string(), attempt, pid = field::Empty);
        let _spawning = span.enter();
        // A worker for programs must leave no process of a program behind. Heartbeats and launchers belong to a single job.
        let stays = planned.is_program() && planned.policy.heartbeat.is_none() && launched(&values).is_none();
        let spec = sweep_job::Job {
            protocol: PROTOCOL,
            task: planned.task.name.to_owned(),
            params: values.clone(),
            backend: planned.identity.backend,
            threads: lease.cpus,
            dir: std::path::absolute(pending.dir())?,
            scratch: std::path::absolute(pending.scratch())?,
            // The interval leaves room for a late heartbeat.
            heartbeat: planned.policy.heartbeat.map(|heartbeat| (heartbeat.as_secs_f64() / 4.0).min(5.0)),
            project: planned.code.as_ref().map(|code| code.project.clone()),
            layer: reads.layer().map(Path::to_owned),
            nodes: planned.resources.nodes(),
            log: stays.then(|| std::path::absolute(&log)).transpose()?,
            used: (*planned.used).clone(),
            trial,
        };
        let names: Vec<&str> =
            lease.gpus.iter().filter_map(|gpu| self.options.gpus.get(*gpu)).map(String::as_str).collect();
        let gpus = (!names.is_empty()).then(|| names.join(","));
        let env = if planned.shares_gpu() { environment_of_part(&lease) } else { Vec::new() };
        self.surroundings.get_or_init(|| Arc::new(Surroundings::new(self.options)));
        let (started, begun, memory, load) =
            (host::clock::now(), Instant::now(), OutOfMemory::lately(), Load::lately());
        host::failpoints::point("run: before a worker")?;
        let scratch = Scratch::new(&spec.scratch);
        // The folder may have files of an attempt whose engine was killed.
        scratch.clear();
        let log_from = fs::metadata(&log).map_or(0, |log| log.len());
        let start = Start { id: job, job: &spec, log: &log, gpus, env };
        if !self.idle.has_one_for(&start) {
            self.warn_of_settings();
        }
        self.has_unseen_writer |= self.may_write_unseen(job, &values);
        let writing = self.writes.begin(job, reads.folders(), &pending);
        let worker = self.idle.start(&start, &self.state.sender)?;
        span.record("pid", worker.id());
        self.attempts.insert(job, attempt);
        let of_job = Attempt {
            worker,
            values,
            writing,
            pending,
            reads,
            lease,
            log,
            log_from,
            started,
            begun,
            forgiven: Duration::ZERO,
            outcome: None,
            observed: None,
            comparing,
            notices: Vec::new(),
            scratch,
            unwanted: false,
            asked: None,
            ending: None,
            peak: 0,
            gpu_peak: None,
            exhausted: self.gpus.exhausted(job),
            memory,
            load,
            milestones: Milestones::default(),
            neighbors: 0,
            number: attempt,
        };
        self.running.insert(job, of_job);
        let neighbors = self.running.len() - 1;
        for attempt in self.running.values_mut() {
            attempt.neighbors = attempt.neighbors.max(neighbors);
        }
        Ok(attempt)
    }
}

/// Variables of a job that shares its GPU: its part, and the settings without which JAX and TensorFlow take most of the GPU's
/// memory for themselves.
fn environment_of_part(lease: &Lease) -> Vec<(&'static str, String)> {
    let mut env = Vec::new();
    if let Some(share) = lease.share.filter(|share| *share > 0) {
        env.push(("SWEEP_GPU_SHARE", (f64::from(share) / f64::from(WHOLE)).to_string()));
    }
    if lease.gpu_memory > 0 {
        env.push(("SWEEP_GPU_MEMORY", lease.gpu_memory.to_string()));
    }
    let defaults = [("XLA_PYTHON_CLIENT_PREALLOCATE", "false"), ("TF_FORCE_GPU_ALLOW_GROWTH", "true")];
    let unset = defaults.into_iter().filter(|(name, _)| std::env::var_os(name).is_none());
    env.extend(unset.map(|(name, value)| (name, value.to_owned())));
    env
}
