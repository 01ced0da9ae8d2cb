//! A run as another process sees it: from its plan and its journal.

use std::{collections::BTreeSet, io, path::Path};

use jiff::Timestamp;
use sweep_job::{Failure, Progress};

use super::{
    Disposition, InBatchSystem, Line, Manifest, RunEvent, RunFolder, Summary, Through,
    cluster::{self, BatchId, Opening},
    estimate::Pace,
    journal,
    requests::requested_stops,
    slots::{Slots, describe_part},
};
use crate::{format::count, recipe::BatchSystem, store::Store};

/// A run, now or when it ended.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The run's manifest.
    pub manifest: Manifest,
    /// True if the engine is running.
    pub live: bool,
    /// True if the run's jobs are in a batch system, although no process of this machine waits for them.
    pub elsewhere: bool,
    /// Result; `None` if the run is live, or if its engine was killed.
    pub summary: Option<Summary>,
    /// True if no more jobs are started.
    pub stopping: bool,
    /// Time of the last event.
    pub last: Timestamp,
    /// State of each job, in the plan's order.
    pub jobs: Vec<State>,
    /// The unfinished jobs whose end was requested.
    pub requested: BTreeSet<usize>,
    pace: Pace,
}

/// State of a job.
#[derive(Debug, Clone, PartialEq)]
pub enum State {
    /// The job was not selected.
    NotSelected,
    /// An additional seed, which runs if a result is undecided without it.
    Reserve,
    /// The job was done before.
    Cached,
    /// The job has not begun, for this reason.
    Waiting(String),
    /// The job waits in a batch system.
    Queued {
        /// The batch system's number.
        id: BatchId,
        /// Reason why it waits, in the batch system's words; empty if unknown.
        reason: String,
    },
    /// The job runs.
    Running {
        /// Time of its start.
        since: Timestamp,
        /// The number of the attempt.
        attempt: u32,
        /// The job's GPUs.
        gpus: Vec<usize>,
        /// The job's part of the GPU, if it shares one: `0.25 and 8.0 GiB`.
        part: Option<String>,
        /// The job's host, if it differs from the sweep's.
        host: Option<String>,
        /// The job's progress.
        progress: Option<Progress>,
    },
    /// The job has ended, and its result is being stored.
    Storing,
    /// The job waits for its record.
    Elsewhere {
        /// True if the record comes from a remote, false if another process runs the job.
        arriving: bool,
    },
    /// The job waits for the machine: it or a job of another sweep must be alone.
    HeldUp,
    /// The job failed and will be started again.
    Retrying {
        /// The reason.
        failure: Failure,
        /// Time of the retry.
        at: Timestamp,
    },
    /// The job has a result.
    Done {
        /// Duration in seconds; `None` if another process did the job.
        seconds: Option<f64>,
    },
    /// The job has no result.
    Failed {
        /// Duration in seconds.
        seconds: f64,
        /// The failure.
        failure: Failure,
        /// True if the run continues in spite of the failure.
        tolerated: bool,
    },
    /// The job was asked to stop, and the next run continues it.
    Stopped {
        /// Duration in seconds.
        seconds: f64,
        /// The job's end, and the kept part of its work.
        how: String,
    },
    /// The job will not run; because of this job, or because the run was stopped.
    Skipped(Option<usize>),
    /// The engine was killed before the job was done; the next run does it.
    Lost,
}

impl State {
    /// True if the run should produce or reuse its result.
    pub fn is_selected(&self) -> bool {
        !matches!(self, Self::NotSelected | Self::Reserve)
    }

    /// The state in a word.
    pub fn word(&self) -> &'static str {
        match self {
            Self::NotSelected => "left out",
            Self::Reserve => "reserve",
            Self::Cached => "cached",
            Self::Waiting(_) | Self::Queued { .. } | Self::Elsewhere { .. } | Self::HeldUp => "waiting",
            Self::Running { .. } | Self::Storing => "running",
            Self::Retrying { .. } => "retrying",
            Self::Done { .. } => "done",
            Self::Failed { .. } => "failed",
            Self::Stopped { .. } => "stopped",
            Self::Skipped(_) => "skipped",
            Self::Lost => "lost",
        }
    }
}

/// A run that is observed repeatedly: the part of its journal that was read is not read again.
#[derive(Debug)]
pub struct Watch {
    folder: RunFolder,
    /// The state without the reasons of waiting jobs.
    snapshot: Snapshot,
    /// Length of the journal that has been read.
    read: u64,
}

impl Watch {
    /// Starts to observe the run in `folder`.
    pub fn new(folder: RunFolder) -> io::Result<Self> {
        let snapshot = Snapshot::begin(folder.manifest()?);
        Ok(Self { folder, snapshot, read: 0 })
    }

    /// The run's manifest.
    pub fn manifest(&self) -> &Manifest {
        &self.snapshot.manifest
    }

    /// The present state of the run, and its new events.
    pub fn look(&mut self) -> io::Result<(Snapshot, Vec<Line>)> {
        let is_live = self.folder.is_live();
        let (lines, end) = self.folder.events_from(self.read)?;
        self.read = end;
        self.snapshot.extend(&lines);
        let snapshot = self.snapshot.clone().beyond(&self.folder, is_live).finish(is_live);
        Ok((snapshot.with_requests(&self.folder), lines))
    }
}

/// Needed jobs that are not done.
struct Open {
    first: Option<usize>,
    others: usize,
}

impl Snapshot {
    /// Reads a run.
    pub fn read(folder: &RunFolder) -> io::Result<Self> {
        // Checked before the journal is read, so that a run that ends meanwhile is read to its end.
        let is_live = folder.is_live();
        let mut snapshot = Self::begin(folder.manifest()?);
        snapshot.extend(&folder.events()?);
        Ok(snapshot.beyond(folder, is_live).finish(is_live).with_requests(folder))
    }

    /// Adds the requests to stop jobs.
    fn with_requests(mut self, folder: &RunFolder) -> Self {
        self.requested = if self.live { requested_stops(folder, &self) } else { BTreeSet::new() };
        self
    }

    /// Adds the states of a run through a batch system that are missing in its journal.
    fn beyond(mut self, folder: &RunFolder, is_live: bool) -> Self {
        let through = self.manifest.through.clone();
        if let Some((system, jobs)) = through.batch()
            && self.summary.is_none()
        {
            self.gather(folder, jobs.pilots);
            if !is_live {
                self.ask_cluster(folder, system, jobs);
            }
        }
        self
    }

    /// State after the events.
    pub fn new(manifest: Manifest, events: &[Line], live: bool) -> Self {
        let mut snapshot = Self::begin(manifest);
        snapshot.extend(events);
        snapshot.finish(live)
    }

    /// Returns the state before the first event.
    fn begin(manifest: Manifest) -> Self {
        let jobs = manifest.jobs.iter().map(|job| match job.wanted {
            Disposition::Yes => State::Waiting(String::new()),
            Disposition::Cached => State::Cached,
            Disposition::No => State::NotSelected,
            Disposition::Reserve => State::Reserve,
        });
        let (jobs, last, pace) = (jobs.collect(), manifest.at, Pace::new(&manifest));
        let requested = BTreeSet::new();
        Self { jobs, manifest, live: false, elsewhere: false, summary: None, stopping: false, last, requested, pace }
    }

    fn extend(&mut self, events: &[Line]) {
        for line in events {
            self.last = line.at;
            self.pace.on(line.at, &line.event);
            self.apply(line);
        }
    }

    fn finish(mut self, is_live: bool) -> Self {
        self.live = is_live;
        if is_live {
            self.explain();
        } else {
            self.mark_lost();
        }
        self
    }

    /// Returns the seconds until the run is over, if an estimate is possible.
    pub fn left(&self, now: Timestamp) -> Option<f64> {
        if self.live { self.pace.left(now) } else { None }
    }

    /// True if a job may still change its state.
    fn is_open(&self, job: usize) -> bool {
        matches!(
            self.jobs[job],
            State::Waiting(_)
                | State::Queued { .. }
                | State::Running { .. }
                | State::Storing
                | State::Elsewhere { .. }
                | State::HeldUp
                | State::Retrying { .. }
        )
    }

    /// Reads the messages of the jobs' own processes, which continue without the process that submitted them.
    fn gather(&mut self, folder: &RunFolder, pilots: Option<usize>) {
        let open_jobs: Vec<usize> = (0..self.jobs.len()).filter(|job| self.is_open(*job)).collect();
        let parts: Vec<_> = match pilots {
            Some(_) => list(&folder.path().join("pilots")),
            None => open_jobs.iter().map(|job| folder.part(self.manifest.jobs[*job].key)).collect(),
        };
        for line in parts.iter().flat_map(|part| journal::more(part, &mut 0)) {
            if line.event.job().is_some_and(|job| job < self.jobs.len() && self.is_open(job))
                && !matches!(line.event, RunEvent::Skipped { because: None, .. } | RunEvent::Waiting { .. })
            {
                self.last = self.last.max(line.at);
                self.apply(&line);
            }
        }
        let store = Store::new(folder.results());
        for job in open_jobs {
            if !self.is_open(job) {
                continue;
            }
            let record = store.get(self.manifest.jobs[job].key).ok().flatten();
            if let Some(record) = record {
                self.jobs[job] = State::Done { seconds: Some(record.provenance.seconds) };
            }
        }
    }

    /// No process waits for the jobs on this machine, so the batch system is queried for their states.
    fn ask_cluster(&mut self, folder: &RunFolder, system: &str, jobs: &InBatchSystem) {
        let opening = Opening { jobs_name: jobs.name.clone(), results: folder.results().to_owned(), remote: None };
        let cluster = BatchSystem::named(system).map(|system| cluster::open(&system, opening));
        let system = cluster.as_ref().map_or(system, |cluster| cluster.system());
        let Some(queue) = cluster.as_ref().and_then(|cluster| cluster::in_queue(&**cluster)) else {
            for job in 0..self.jobs.len() {
                if matches!(self.jobs[job], State::Waiting(_) | State::Queued { .. }) {
                    self.jobs[job] = State::Waiting(format!("{system} cannot be queried from here"));
                }
            }
            self.elsewhere = true;
            return;
        };
        self.elsewhere = if jobs.pilots.is_some() { queue.pilots > 0 } else { false };
        for job in 0..self.jobs.len() {
            if !self.is_open(job) {
                continue;
            }
            match queue.jobs.get(&self.manifest.jobs[job].key) {
                Some((id, false, reason)) => self.jobs[job] = State::Queued { id: id.clone(), reason: reason.clone() },
                Some((_, true, _)) if matches!(self.jobs[job], State::Running { .. } | State::Storing) => {}
                Some((id, true, _)) => {
                    self.jobs[job] = State::Queued { id: id.clone(), reason: "it is being started".into() }
                }
                None if self.elsewhere => continue,
                None => {
                    self.jobs[job] = State::Lost;
                    continue;
                }
            }
            self.elsewhere = true;
        }
    }

    fn apply(&mut self, line: &Line) {
        match &line.event {
            RunEvent::Stopping { .. } => self.stopping = true,
            RunEvent::Ended(summary) => self.summary = Some(summary.clone()),
            RunEvent::Retrying { job, alone: true, .. } => {
                if let Some(job) = self.manifest.jobs.get_mut(*job) {
                    job.demand.share = None;
                }
            }
            _ => {}
        }
        let Some(state) = line.event.job().and_then(|job| self.jobs.get_mut(job)) else { return };
        let next = match &line.event {
            RunEvent::Added { .. } => State::Waiting(String::new()),
            RunEvent::Started { job, gpus, attempt, host, .. } => {
                let part = self.manifest.jobs.get(*job).and_then(|job| job.demand.part());
                let (gpus, host) = (gpus.clone(), host.clone());
                State::Running { since: line.at, attempt: *attempt, gpus, part, host, progress: None }
            }
            RunEvent::Submitted { id, .. } => State::Queued { id: id.clone(), reason: String::new() },
            RunEvent::Waiting { machine: true, .. } => State::HeldUp,
            RunEvent::Waiting { arriving, .. } => State::Elsewhere { arriving: *arriving },
            RunEvent::Storing { .. } => State::Storing,
            RunEvent::Done { seconds, .. } => State::Done { seconds: *seconds },
            RunEvent::Retrying { failure, wait, .. } => State::Retrying {
                failure: failure.clone(),
                at: jiff::SignedDuration::try_from_secs_f64(*wait).map_or(line.at, |wait| line.at + wait),
            },
            RunEvent::Failed { seconds, failure, tolerated, .. } => {
                State::Failed { seconds: *seconds, failure: failure.clone(), tolerated: *tolerated }
            }
            RunEvent::Stopped { seconds, how, .. } => State::Stopped { seconds: *seconds, how: how.clone() },
            RunEvent::Skipped { because, .. } => State::Skipped(*because),
            RunEvent::Progress { progress: now, .. } => {
                if let State::Running { progress, .. } = state {
                    *progress = Some(now.clone());
                }
                return;
            }
            RunEvent::Note { .. }
            | RunEvent::Decided { .. }
            | RunEvent::Notice { .. }
            | RunEvent::Begun { .. }
            | RunEvent::Stopping { .. }
            | RunEvent::Ended(_) => return,
        };
        *state = next;
    }

    /// Adds the reason of every waiting job.
    fn explain(&mut self) {
        let mut slots = Slots::new(&self.manifest.limits);
        let mut alone = None;
        for (index, (job, state)) in self.manifest.jobs.iter().zip(&self.jobs).enumerate() {
            if let State::Running { gpus, host: None, .. } = state {
                slots.hold(&job.demand, gpus);
                alone = job.demand.exclusive.then_some(index).or(alone);
            }
        }
        let open: Vec<Open> = self.manifest.lists.iter().map(|list| self.open(list)).collect();
        let reasons: Vec<Option<String>> = (0..self.jobs.len())
            .map(|job| matches!(self.jobs[job], State::Waiting(_)).then(|| self.reason(job, &open, &slots, alone)))
            .collect();
        for (state, reason) in self.jobs.iter_mut().zip(reasons) {
            if let Some(reason) = reason {
                *state = State::Waiting(reason);
            }
        }
    }

    /// The needed jobs that are not done.
    fn open(&self, needs: &[usize]) -> Open {
        let done = |need: &usize| matches!(self.jobs[*need], State::Done { .. } | State::Cached);
        let mut open_needs = needs.iter().copied().filter(|need| !done(need));
        let first = open_needs.next();
        Open { first, others: open_needs.count() }
    }

    /// Reason why a job waits; `open` has the unfinished jobs of the manifest's lists.
    fn reason(&self, job: usize, open: &[Open], slots: &Slots, alone: Option<usize>) -> String {
        let job = &self.manifest.jobs[job];
        let own_needs = self.open(&job.needs);
        let open = || job.lists.iter().map(|list| &open[*list]).chain([&own_needs]).filter(|open| open.first.is_some());
        if let Some(first) = open().filter_map(|open| open.first).min() {
            let other_jobs = open().map(|open| open.others + 1).sum::<usize>() - 1;
            let suffix =
                if other_jobs > 0 { format!(" and {}", count(other_jobs, "other job")) } else { String::new() };
            return format!("needs {}{suffix}", self.manifest.jobs[first].label);
        }
        if self.manifest.through != Through::Local {
            return "waits for an allocation".into();
        }
        let (lack, demand, (cpus, gpus, memory)) = (slots.lack(&job.demand), job.demand, slots.free());
        let bytes = |bytes: u64| crate::format::quantity(bytes as f64, sweep_job::Unit::Bytes);
        if let Some(alone) = alone {
            return format!("waits for {}, which must be alone", self.manifest.jobs[alone].label);
        }
        if lack.alone {
            return "waits until nothing else runs, because it must be alone".into();
        }
        if let Some(part) = demand.part().filter(|_| lack.gpus) {
            let (share, memory) = slots.freest_gpu();
            return format!("waits for {part} of a GPU, at most {} free", describe_part(share, memory));
        }
        if lack.gpus {
            return format!("waits for {}, {gpus} of {} free", count(demand.gpus, "GPU"), self.manifest.limits.gpus);
        }
        if lack.memory {
            return format!("waits for {} of memory, {} free", bytes(demand.memory), bytes(memory));
        }
        if lack.cpus {
            return format!("waits for {}, {cpus} of {} free", demand.cores(), self.manifest.limits.cpus);
        }
        if lack.jobs {
            return format!("waits for its turn: {} at once", count(self.manifest.limits.jobs, "job"));
        }
        "waits for its turn".into()
    }

    /// Marks the unfinished jobs of an engine that has ended.
    fn mark_lost(&mut self) {
        for job in (0..self.jobs.len()).filter(|_| !self.elsewhere) {
            if self.is_open(job) {
                self.jobs[job] = State::Lost;
            }
        }
    }
}

/// The files of a folder.
fn list(folder: &Path) -> Vec<std::path::PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut files: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.sort();
    files
}
