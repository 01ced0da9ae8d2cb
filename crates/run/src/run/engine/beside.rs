//! Work that takes too long for the loop: checks of a job's inputs, before it starts and before its result is accepted,
//! and the transfer of the result to the store.

use std::{
    cell::OnceCell,
    collections::{BTreeMap, BTreeSet, HashSet},
    fs::File,
    io::{self, Read as _},
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::{Arc, PoisonError},
    time::{Duration, Instant},
};

use signal_hook::consts::SIGTERM;
use sweep_job::{Failure, Observed, Outcome, Values};

use super::{
    LocalExecutor, Retry, io_failure,
    trial::{self, Comparing},
};
use crate::{
    host::{
        self,
        system::Load,
        threads::{self, refused},
    },
    plan::{Code, Digests, JobId},
    record::{LogPart, Provenance, Record, Started, path_text, text_path},
    run::{
        RunEvent,
        attempt::{Attempt, GRACE},
        local::Input,
        reads::{Changed, Check, Reads},
        scheduler::Event,
        slots::Lease,
        starts,
        states::{self, Stateful},
        writes::real,
    },
    store::{Pending, StoreError},
};

/// Maximum number of jobs that give their slots back while their results are being stored; further jobs keep their
/// slots, so that results do not pile up.
const MAX_STORING: usize = 16;

/// A job that is to start once its inputs have been checked.
pub(in crate::run) struct Prepared {
    lease: Lease,
    values: Values,
    pending: Pending,
}

/// A record that was stored, and notes about its job.
pub(in crate::run) type Stored = (Box<Record>, Vec<String>);

/// Reason for a missing result in the store.
#[derive(Debug)]
pub(in crate::run) enum NotStored {
    /// The files that the job read differ from the ones in its key.
    Changed(Changed),
    /// The earlier result that the job adopts is not in the store any more.
    Removed,
    /// The store returned an error.
    Store(StoreError),
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

/// The paths without links that a program has written, and the paths among them that it has created.
fn written(observed: &Observed) -> (HashSet<PathBuf>, HashSet<PathBuf>) {
    let paths = |texts: &BTreeSet<String>| texts.iter().map(|path| real(&text_path(path))).collect();
    (paths(&observed.written), paths(&observed.made))
}

impl LocalExecutor<'_, '_> {
    /// Checks a job's inputs, and then starts it.
    pub(super) fn prepare(&mut self, job: usize, lease: Lease, values: Values, pending: Pending) -> Vec<Event> {
        let reads = Arc::new(Reads::of(self.state.plan, self.state.store, JobId::new(job), self.code(job)));
        let stateful =
            Stateful::of(self.state.plan, JobId::new(job)).filter(|job| job.may_begin_with_one(self.state.store));
        let scratch = pending.scratch();
        let prepared = Prepared { lease, values, pending };
        if reads.is_empty() && stateful.is_none() {
            return self.begin(job, prepared, reads);
        }
        let (sender, digests, store) = (self.state.sender.clone(), Arc::clone(&self.digests), self.state.store.clone());
        let (own, writes) = (Arc::clone(&reads), Arc::clone(&self.writes));
        let work = move || {
            own.check(&Check { digests: &digests, writes: &writes, job, written: None })?;
            own.check_code(&mut digests.lock().unwrap_or_else(PoisonError::into_inner))?;
            Ok(stateful.and_then(|job| job.begin(&store, &scratch, &digests)))
        };
        let say = move |result: Result<Result<Option<Started>, Changed>, io::Error>| {
            let result = result.map_err(|error| io_failure(error.to_string()));
            let found = result.and_then(|found| found.map_err(Failure::from)).map(|started| (reads, started));
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
        // The job may have been given up meanwhile.
        let Some(prepared) = self.preparing.remove(&job) else { return Vec::new() };
        match found {
            _ if self.scheduler.is_stopping() => {
                drop(prepared);
                vec![self.give_up(job)]
            }
            Ok((reads, started)) => {
                if let Some(Started { step, state, .. }) = started {
                    let text = format!("continues after step {step}, from the state {}", state.short());
                    self.state.tell(&RunEvent::Note { job, text });
                }
                self.begin(job, prepared, reads)
            }
            Err(failure) => {
                drop(prepared);
                // Another attempt would fail in the same way.
                self.retrying.remove(&job);
                self.report_failure(job, 0.0, failure);
                vec![Event::Failed(job)]
            }
        }
    }

    /// Returns the code that a job finds: files that were edited during the run have their state from the run's beginning.
    fn code(&self, job: usize) -> Option<Arc<Code>> {
        let id = JobId::new(job);
        let project = &self.state.plan.job(id).code.as_ref()?.project;
        let known_writes = OnceCell::new();
        self.state.plan.code_in_run(id, &|path| {
            let is_rewritten = || {
                let digests = self.digests.lock().unwrap_or_else(PoisonError::into_inner);
                digests.is_rewritten(&path_text(path))
            };
            let known = || known_writes.get_or_init(|| self.writes.known());
            self.has_unseen_writer || known().contains(&real(&project.join(path))) || is_rewritten()
        })
    }

    /// True if a job, started again, finds other files of its project than with the layer in `folder`.
    pub(super) fn finds_earlier_files(&self, job: usize, folder: Option<&Path>) -> bool {
        let may_repeat = !self.repeated.contains(&job) && !self.scheduler.is_stopping();
        let code = (may_repeat && self.state.plan.has_view(JobId::new(job))).then(|| self.code(job)).flatten();
        code.is_some_and(|code| code.site.layer.folder() != folder)
    }

    fn planned_layer(&self, job: usize) -> Option<&Path> {
        self.state.plan.job(JobId::new(job)).code.as_ref()?.site.layer.folder()
    }

    /// Runs a job again at once if it read files that were edited while it ran.
    pub(super) fn repeat(&mut self, job: usize, seconds: f64, failure: Failure) -> Event {
        let text = "files of its project were edited while it ran: it runs again, with the files as they were when the run began";
        let text = text.to_owned();
        self.state.tell(&RunEvent::Note { job, text });
        self.repeated.insert(job);
        self.retrying.insert(job, Retry { at: Some(Instant::now()), seconds, failure });
        Event::Later(job)
    }

    fn begin(&mut self, job: usize, prepared: Prepared, reads: Arc<Reads>) -> Vec<Event> {
        if !starts::take() {
            drop(prepared);
            return self.out_of_starts(job);
        }
        let Prepared { lease, values, pending } = prepared;
        let (cpus, gpus) = (lease.cpus, lease.gpus.clone());
        match self.spawn(job, lease, values, pending, reads) {
            Ok(attempt) => {
                self.retrying.remove(&job);
                self.state.tell(&RunEvent::Started { job, cpus, gpus, attempt, host: None });
                Vec::new()
            }
            Err(error) => self.not_started(job, error),
        }
    }

    /// Handles a job beyond the maximum number of starts: no more jobs start, and the run ends with the running ones.
    fn out_of_starts(&mut self, job: usize) -> Vec<Event> {
        if self.state.summary.interrupted.is_none() {
            let text = "the budget of job starts is used up, retries included; no other job starts";
            self.state.warn(text);
            self.state.summary.interrupted = Some(SIGTERM);
        }
        let event = match self.retrying.remove(&job) {
            Some(Retry { seconds, failure, .. }) => {
                self.report_failure(job, seconds, failure);
                Event::Failed(job)
            }
            None => self.give_up(job),
        };
        // Events are handled in reverse order.
        vec![Event::Stop, event]
    }

    fn not_started(&mut self, job: usize, error: io::Error) -> Vec<Event> {
        let (crowded, error) = (error.kind() == io::ErrorKind::WouldBlock, refused(error));
        let failure = io_failure(format!("the worker could not be started: {error}"));
        if crowded {
            return self.crowded(job, failure);
        }
        self.store_failed(job, &StoreError::from(error), 0.0, failure)
    }

    #[expect(clippy::too_many_lines, reason = "one step after the other, each with the parts of the attempt")]
    pub(super) fn commit(&mut self, job: usize, attempt: Attempt, outcome: Outcome, end: (f64, Load)) -> Vec<Event> {
        let (seconds, after) = end;
        let planned_job = self.state.plan.job(JobId::new(job));
        let surroundings = self.surroundings.get().map(Arc::clone);
        let conditions = surroundings.as_ref().map(|all| Box::new(all.of(planned_job, &attempt, after, self.options)));
        let mut record = Record {
            format: Record::format_of(&outcome),
            key: planned_job.key,
            identity: planned_job.identity.clone(),
            label: planned_job.label.to_string(),
            params: attempt.values,
            outcome,
            files: BTreeMap::new(),
            read: None,
            provenance: Provenance {
                sweep: env!("CARGO_PKG_VERSION").to_owned(),
                started: attempt.started,
                seconds,
                device: self.options.device.clone().filter(|_| planned_job.task.on_device),
                threads: attempt.lease.cpus,
                host: host::name(),
                conditions,
                continued: states::started(&attempt.pending.scratch()),
                milestones: attempt.milestones,
                log: None,
                measured: None,
                adopted: None,
                notices: attempt.notices,
            },
        };
        // A worker that was asked to end may still end, so it gets no other job.
        if attempt.asked.is_none() && attempt.ending.is_none() {
            self.idle.keep(attempt.worker);
        }
        let (pending, start, reads, writing) = (attempt.pending, attempt.begun, attempt.reads, attempt.writing);
        let agreed = attempt.comparing.filter(|comparing| comparing.is_agreed());
        // A program that was stopped has not left the state of its end.
        let stateful = Stateful::of(self.state.plan, JobId::new(job)).filter(|_| agreed.is_none());
        let results_store = self.state.store.clone();
        let is_program = planned_job.task.name == "command";
        let (observed, log, log_from) = (attempt.observed, attempt.log, attempt.log_from);
        self.state.tell(&RunEvent::Storing { job });
        let (sender, digests, writes) =
            (self.state.sender.clone(), Arc::clone(&self.digests), Arc::clone(&self.writes));
        let store = move || {
            let (paths, made) = observed.as_ref().map(written).unwrap_or_default();
            let conflicts = writes.conflicts(job);
            // Ends the job's writes first, so that no two jobs wait for each other.
            writing.end(&paths, &made);
            let mut notes = Vec::new();
            if !reads.is_empty() {
                let check = Check { digests: &digests, writes: &writes, job, written: Some(paths) };
                notes = reads.check(&check).map_err(|change| NotStored::Changed(change.while_it_ran()))?;
            }
            if let (Some(all), Some(conditions)) = (surroundings, &mut record.provenance.conditions) {
                all.add_program(conditions, &record.params, &pending.dir());
            }
            // If the part of the log cannot be determined, no values are read from the log again.
            if is_program {
                record.provenance.log = log_part(&log, log_from).ok();
            }
            if let Some(observed) = observed {
                let digests = &mut digests.lock().unwrap_or_else(PoisonError::into_inner);
                notes.extend(keep(
                    (observed, &conflicts),
                    (&reads, agreed.as_deref()),
                    &mut record,
                    &pending,
                    digests,
                )?);
            }
            // The state is kept before the record, because the commit of the record removes the scratch folder.
            if let Some(stateful) = stateful {
                stateful.keep(&results_store, record.key, &pending.scratch(), record.read.clone());
            }
            trial::commit(agreed.as_deref(), pending, record, notes)
        };
        let say = move |stored: Result<Result<Stored, NotStored>, io::Error>| {
            let stored = stored.unwrap_or_else(|error| Err(NotStored::Store(error.into())));
            let _ = sender.send(Input::Stored(job, start, stored));
        };
        match beside(store, say) {
            Ok(()) => {
                self.storing.insert(job);
                // The disk takes longer than all the rest; the job's slots are free meanwhile.
                if self.storing.len() <= MAX_STORING { vec![Event::Storing(job)] } else { Vec::new() }
            }
            Err(error) => {
                let failure = io_failure(format!("the result could not be stored: {error}"));
                self.store_failed(job, &StoreError::from(error), seconds, failure)
            }
        }
    }

    /// Handles the end of an attempt to store a result.
    pub(super) fn stored(&mut self, job: usize, begun: Instant, stored: Result<Stored, NotStored>) -> Vec<Event> {
        // The job may have been given up meanwhile.
        if !self.storing.remove(&job) {
            return Vec::new();
        }
        let seconds = begun.elapsed().as_secs_f64();
        match stored {
            Ok((record, notes)) => {
                for text in notes {
                    self.state.tell(&RunEvent::Note { job, text });
                }
                self.learn(&record);
                if self.twins.end(job)
                    && let Some(earlier) = &mut self.earlier
                {
                    earlier.refresh();
                }
                self.state.tell(&RunEvent::Done { job, seconds: Some(seconds), outcome: record.outcome });
                vec![Event::Done(job)]
            }
            Err(NotStored::Changed(changed))
                if changed.is_of_code() && self.finds_earlier_files(job, self.planned_layer(job)) =>
            {
                vec![self.repeat(job, seconds, changed.into())]
            }
            Err(NotStored::Removed) => vec![self.run_in_full(job, seconds)],
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

    /// Gives up a job after the user has ended the run: its result is not waited for.
    pub(super) fn give_up(&mut self, job: usize) -> Event {
        self.state.tell(&RunEvent::Skipped { job, because: None });
        Event::Failed(job)
    }

    /// Gives up the jobs that have not quite begun.
    pub(super) fn give_up_preparing(&mut self) -> Vec<Event> {
        let jobs = std::mem::take(&mut self.preparing);
        jobs.into_keys().map(|job| self.give_up(job)).collect()
    }

    /// Gives up results that are not stored within their time limit. The next claim removes their partial files.
    pub(super) fn give_up_storing(&mut self) -> Vec<Event> {
        if self.storing.is_empty() || self.patience.is_none_or(|until| Instant::now() < until) {
            return Vec::new();
        }
        let jobs = std::mem::take(&mut self.storing);
        jobs.into_iter().map(|job| self.give_up(job)).collect()
    }

    /// Limits the time in which results must be stored from now on.
    pub(super) fn limit_storing(&mut self, to: Duration) {
        let until = Instant::now() + to.max(GRACE);
        self.patience = Some(self.patience.map_or(until, |before| before.min(until)));
    }
}

/// Stores the observed reads of a program and its environment before its record, which names both. Returns notes on files that have
/// changed.
fn keep(
    (observed, conflicts): (Observed, &BTreeSet<PathBuf>),
    (reads, agreed): (&Reads, Option<&Comparing>),
    record: &mut Record,
    pending: &Pending,
    digests: &mut Digests,
) -> Result<Vec<String>, NotStored> {
    let interpreter = record.provenance.conditions.as_ref().and_then(|conditions| conditions.interpreter.as_ref());
    let environment = reads.environment(&observed, &record.params, interpreter, digests);
    let environment = environment.map(|environment| pending.add_environment(&environment)).transpose();
    let environment = environment.map_err(|error| NotStored::Store(error.into()))?;
    let tool = observed.tool;
    let (set, mut notes) =
        reads.observed(observed, digests).map_err(|change| NotStored::Changed(change.while_it_ran()))?;
    let set = reads.without_content(set, conflicts);
    notes.extend(conflicts.iter().map(|path| {
        format!(
            "`{}`, which the job wrote and read again, was changed by another job in between, so the next run repeats the job; let \
             each job write to a path of its own",
            path.display()
        )
    }));
    let set = set.with_environment(environment.clone());
    // Reads of the program after its first steps are known only from the earlier run.
    let set = match agreed {
        Some(agreed) => agreed.read(set),
        None => set,
    };
    pending.add_manifest(&record.identity, tool, &set).map_err(NotStored::Store)?;
    record.read = Some(set.id());
    if let Some(conditions) = &mut record.provenance.conditions {
        conditions.environment = environment;
    }
    record.provenance.notices.extend_from_slice(&notes);
    Ok(notes)
}

/// The part of its log that a job has written, from the beginning of its last attempt.
fn log_part(path: &Path, from: u64) -> io::Result<LogPart> {
    /// A longer log has no digest: it would take too long.
    const MAX_LOG_BYTES: u64 = 256 << 20;
    let file = File::open(path)?;
    let bytes = file.metadata()?.len();
    let mut hasher = blake3::Hasher::new();
    if bytes <= MAX_LOG_BYTES {
        hasher.update_reader(file.take(bytes))?;
    }
    let blake3 = (bytes <= MAX_LOG_BYTES).then(|| hasher.finalize().to_hex().to_string());
    Ok(LogPart { from, bytes, blake3 })
}
