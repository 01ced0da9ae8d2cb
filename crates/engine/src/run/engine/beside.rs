//! Work that takes too long for the loop: checks of a job's inputs, before it starts and before its result is accepted,
//! and the transfer of the result to the store.

use std::{
    collections::BTreeMap,
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use sweep_job::{Failure, Outcome, Values};

use super::{Run, io_failure};
use crate::{
    host::{
        self,
        system::Load,
        threads::{self, refused},
    },
    plan::{Digests, JobId},
    record::{Provenance, RECORD_FORMAT, Record, Started},
    run::{
        RunEvent,
        attempt::{Attempt, GRACE},
        local::Input,
        reads::{Changed, Reads},
        scheduler::Event,
        slots::Lease,
        states::{self, Stateful},
    },
    store::{Pending, StoreError},
};

/// So many jobs give their slots back while their results are being stored; those of more keep theirs, so that results do not
/// pile up.
const MOST_STORING: usize = 16;

/// A job that is to start once its inputs have been checked.
pub(in crate::run) struct Prepared {
    lease: Lease,
    values: Values,
    pending: Pending,
}

/// Reason for a missing result in the store.
#[derive(Debug)]
pub(in crate::run) enum NotStored {
    /// It is not the content in the job's key.
    Changed(Changed),
    /// The store says no.
    Store(StoreError),
}

/// Checks that a job's inputs and its code are unchanged.
fn checked(reads: &Reads, digests: &Mutex<Digests>) -> Result<(), Changed> {
    checked_inputs(reads, digests)?;
    reads.check_code(&mut digests.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Checks that a job's inputs are unchanged.
fn checked_inputs(reads: &Reads, digests: &Mutex<Digests>) -> Result<(), Changed> {
    reads.check(&mut digests.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Runs a function in a separate thread, and reports the result to the loop even if it panics.
pub(super) fn beside<T: 'static>(
    work: impl FnOnce() -> T + Send + 'static,
    say: impl FnOnce(Result<T, io::Error>) + Send + 'static,
) -> io::Result<()> {
    let work = move || {
        say(catch_unwind(AssertUnwindSafe(work)).map_err(|_| io::Error::other("the engine panicked")));
    };
    threads::start(work).map(drop)
}

impl Run<'_, '_> {
    /// Checks a job's inputs, and then starts it.
    pub(super) fn prepare(&mut self, job: usize, lease: Lease, values: Values, pending: Pending) -> Vec<Event> {
        let reads = Arc::new(Reads::of(self.plan, self.store, JobId::new(job)));
        let stateful = Stateful::of(self.plan, JobId::new(job)).filter(|job| job.may_begin_with_one(self.store));
        let scratch = pending.scratch();
        let prepared = Prepared { lease, values, pending };
        if reads.is_empty() && stateful.is_none() {
            return self.begin(job, prepared, reads);
        }
        let (sender, digests, store) = (self.sender.clone(), Arc::clone(&self.digests), self.store.clone());
        let own = Arc::clone(&reads);
        let work = move || {
            checked(&own, &digests)?;
            Ok(stateful.and_then(|job| job.begin(&store, &scratch, &digests)))
        };
        let say = move |found: Result<Result<Option<Started>, Changed>, io::Error>| {
            let found = found.map_err(|error| io_failure(error.to_string()));
            let found = found.and_then(|found| found.map_err(Failure::from)).map(|started| (reads, started));
            let _ = sender.send(Input::Checked(job, found));
        };
        match beside(work, say) {
            Ok(()) => {
                self.preparing.insert(job, prepared);
                Vec::new()
            }
            Err(error) => self.not_started(job, error),
        }
    }

    /// Handles the result of a check of a job's inputs.
    pub(super) fn prepared(&mut self, job: usize, found: Result<(Arc<Reads>, Option<Started>), Failure>) -> Vec<Event> {
        // It may have been given up meanwhile.
        let Some(prepared) = self.preparing.remove(&job) else { return Vec::new() };
        match found {
            _ if self.scheduler.is_stopping() => {
                drop(prepared);
                vec![self.give_up(job)]
            }
            Ok((reads, started)) => {
                if let Some(Started { step, state, .. }) = started {
                    let text = format!("continues after step {step}, from the state {}", state.short());
                    self.tell(&RunEvent::Note { job, text });
                }
                self.begin(job, prepared, reads)
            }
            Err(failure) => {
                drop(prepared);
                // Another attempt would find the same.
                self.retrying.remove(&job);
                self.report_failure(job, 0.0, failure);
                vec![Event::Failed(job)]
            }
        }
    }

    fn begin(&mut self, job: usize, prepared: Prepared, reads: Arc<Reads>) -> Vec<Event> {
        let Prepared { lease, values, pending } = prepared;
        let (cpus, gpus) = (lease.cpus, lease.gpus.clone());
        match self.spawn(job, lease, values, pending, reads) {
            Ok(attempt) => {
                self.retrying.remove(&job);
                self.tell(&RunEvent::Started { job, cpus, gpus, attempt, host: None });
                Vec::new()
            }
            Err(error) => self.not_started(job, error),
        }
    }

    fn not_started(&mut self, job: usize, error: io::Error) -> Vec<Event> {
        let (crowded, error) = (error.kind() == io::ErrorKind::WouldBlock, refused(error));
        let failure = io_failure(format!("the worker could not be started: {error}"));
        if crowded {
            return self.crowded(job, failure);
        }
        self.store_failed(job, &StoreError::from(error), 0.0, failure)
    }

    pub(super) fn commit(
        &mut self,
        job: usize,
        mut attempt: Attempt,
        outcome: Outcome,
        end: (f64, Load),
    ) -> Vec<Event> {
        let (seconds, after) = end;
        let planned = self.plan.job(JobId::new(job));
        let surroundings = self.surroundings.get().map(Arc::clone);
        let conditions = surroundings.as_ref().map(|all| Box::new(all.of(planned, &attempt, after, self.options)));
        let mut record = Record {
            format: RECORD_FORMAT,
            key: planned.key,
            identity: planned.identity.clone(),
            label: planned.label.to_string(),
            params: attempt.values,
            outcome,
            files: BTreeMap::new(),
            provenance: Provenance {
                sweep: env!("CARGO_PKG_VERSION").to_owned(),
                started: attempt.started,
                seconds,
                device: self.options.device.clone().filter(|_| planned.task.on_device),
                threads: attempt.lease.cpus,
                host: host::name(),
                conditions,
                continued: states::started(&attempt.pending.scratch()),
                milestones: attempt.milestones,
            },
        };
        // One that was asked to end may still do so.
        if attempt.asked.is_none() && attempt.ending.is_none() && self.idle.keep(attempt.worker) {
            attempt.pending.settle();
        }
        let (pending, begun, reads) = (attempt.pending, attempt.begun, attempt.reads);
        let (stateful, own) = (Stateful::of(self.plan, JobId::new(job)), self.store.clone());
        let observed = attempt.observed;
        self.tell(&RunEvent::Storing { job });
        let (sender, digests) = (self.sender.clone(), Arc::clone(&self.digests));
        let store = move || {
            if !reads.is_empty() {
                checked_inputs(&reads, &digests).map_err(|changed| NotStored::Changed(changed.while_it_ran()))?;
            }
            if let (Some(all), Some(conditions)) = (surroundings, &mut record.provenance.conditions) {
                all.add_program(conditions, &record.params, &pending.dir());
            }
            let mut read = None;
            if let Some(observed) = observed {
                let digests = &mut digests.lock().unwrap_or_else(PoisonError::into_inner);
                let tool = observed.tool;
                let set =
                    reads.observed(observed, digests).map_err(|changed| NotStored::Changed(changed.while_it_ran()))?;
                // A first run that reads nothing needs no manifest.
                if let Some(tool) = tool.filter(|_| !set.is_empty() || !reads.is_empty()) {
                    pending.add_manifest(&record.identity, tool, &set).map_err(NotStored::Store)?;
                    read = Some(set.id());
                }
            }
            // Before the record, with which the scratch folder goes.
            if let Some(stateful) = stateful {
                stateful.keep(&own, record.key, &pending.scratch(), read);
            }
            pending.commit(record).map(Box::new).map_err(NotStored::Store)
        };
        let say = move |stored: Result<Result<Box<Record>, NotStored>, io::Error>| {
            let stored = stored.unwrap_or_else(|error| Err(NotStored::Store(error.into())));
            let _ = sender.send(Input::Stored(job, begun, stored));
        };
        match beside(store, say) {
            Ok(()) => {
                self.storing.insert(job);
                // The disk takes longer than all the rest; the job's slots are free meanwhile.
                if self.storing.len() <= MOST_STORING { vec![Event::Storing(job)] } else { Vec::new() }
            }
            Err(error) => {
                let failure = io_failure(format!("the result could not be stored: {error}"));
                self.store_failed(job, &StoreError::from(error), seconds, failure)
            }
        }
    }

    /// A result is in the store, or cannot be.
    pub(super) fn stored(&mut self, job: usize, begun: Instant, stored: Result<Box<Record>, NotStored>) -> Vec<Event> {
        // It may have been given up meanwhile.
        if !self.storing.remove(&job) {
            return Vec::new();
        }
        let seconds = begun.elapsed().as_secs_f64();
        match stored {
            Ok(record) => {
                self.summary.done += 1;
                self.ended.push((JobId::new(job), true));
                self.learn(&record);
                self.tell(&RunEvent::Done { job, seconds: Some(seconds), outcome: record.outcome });
                vec![Event::Done(job)]
            }
            Err(NotStored::Changed(changed)) => {
                self.report_failure(job, seconds, changed.into());
                vec![Event::Failed(job)]
            }
            Err(NotStored::Store(error)) => {
                let failure = io_failure(format!("the result could not be stored: {error}"));
                self.store_failed(job, &error, seconds, failure)
            }
        }
    }

    /// The user wants the end: a job has no result, and none is waited for.
    fn give_up(&mut self, job: usize) -> Event {
        self.summary.skipped += 1;
        self.tell(&RunEvent::Skipped { job, because: None });
        Event::Failed(job)
    }

    /// Gives up the jobs that have not quite begun.
    pub(super) fn give_up_preparing(&mut self) -> Vec<Event> {
        let jobs = std::mem::take(&mut self.preparing);
        jobs.into_keys().map(|job| self.give_up(job)).collect()
    }

    /// Gives up results that are still on their way to the store when their time is over. What has been written of them is
    /// cleared by the next claim.
    pub(super) fn give_up_storing(&mut self) -> Vec<Event> {
        if self.storing.is_empty() || self.patience.is_none_or(|until| Instant::now() < until) {
            return Vec::new();
        }
        let jobs = std::mem::take(&mut self.storing);
        jobs.into_iter().map(|job| self.give_up(job)).collect()
    }

    /// From now on results have no longer than this to get to the store.
    pub(super) fn limit_storing(&mut self, to: Duration) {
        let until = Instant::now() + to.max(GRACE);
        self.patience = Some(self.patience.map_or(until, |before| before.min(until)));
    }
}
