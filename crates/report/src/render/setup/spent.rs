//! Processor and GPU time that the jobs of a study took, with failed attempts, from the journals of the runs and the records.

use std::{
    collections::{HashMap, HashSet},
    path::Path,
};

use jiff::Timestamp;
use sweep_job::Backend;

use crate::{
    record::{Key, Record},
    run::{Line, RunEvent, RunFolder},
};

/// Runs whose journals are read, the latest first.
const MAX_RUNS: usize = 100;

/// Time that jobs took, in seconds times cores and in seconds times GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Spent {
    /// All attempts, in seconds of a core.
    pub(super) cores: f64,
    /// All attempts, in seconds of a GPU.
    pub(super) gpus: f64,
    /// Attempts without a result in the store, in seconds of a core.
    pub(super) lost_cores: f64,
    /// Attempts without a result in the store, in seconds of a GPU.
    pub(super) lost_gpus: f64,
    /// Number of attempts without a result.
    pub(super) lost: usize,
    /// True if there are older runs whose journals were not read.
    pub(super) is_part: bool,
}

/// An attempt that has begun and not ended.
#[derive(Debug, Clone, Copy)]
struct Begun {
    at: Timestamp,
    cpus: usize,
    gpus: usize,
}

impl Spent {
    /// The time that the jobs with these keys took, as far as the journals and the jobs' records contain it.
    pub(super) fn new<'r>(results: &Path, keys: &HashSet<Key>, records: impl Iterator<Item = &'r Record>) -> Self {
        let folders = RunFolder::all(results);
        let mut spent = Self { is_part: folders.len() > MAX_RUNS, ..Self::default() };
        let mut done_keys = HashSet::new();
        for folder in folders.iter().rev().take(MAX_RUNS) {
            spent.add_run(&folder.events().unwrap_or_default(), keys, &mut done_keys);
        }
        // Made elsewhere, or by a run whose folder is gone.
        for record in records.filter(|record| !done_keys.contains(&record.key)) {
            let provenance = &record.provenance;
            let on_gpu = provenance.device.as_ref().is_some_and(|device| device.backend != Backend::Cpu);
            spent.cores += provenance.seconds * provenance.threads as f64;
            spent.gpus += if on_gpu { provenance.seconds } else { 0.0 };
        }
        spent
    }

    /// Adds the attempts of a run, from its journal.
    fn add_run(&mut self, events: &[Line], keys: &HashSet<Key>, done_keys: &mut HashSet<Key>) {
        let mut begun_jobs: HashMap<Key, Begun> = HashMap::new();
        for line in events {
            let Some(key) = line.key.filter(|key| keys.contains(key)) else { continue };
            match &line.event {
                RunEvent::Started { cpus, gpus, .. } => {
                    let begun = Begun { at: line.at, cpus: *cpus, gpus: gpus.len() };
                    if let Some(before) = begun_jobs.insert(key, begun) {
                        self.add(before, line.at, true);
                    }
                }
                // The result is stored after the process has ended.
                RunEvent::Done { .. } => {
                    if let Some(begun) = begun_jobs.remove(&key) {
                        // A record that was lost later ran again: only the last one is in the store, which is read first.
                        self.add(begun, line.at, !done_keys.insert(key));
                    }
                }
                RunEvent::Failed { .. }
                | RunEvent::Retrying { .. }
                | RunEvent::Stopped { .. }
                | RunEvent::Skipped { .. } => {
                    if let Some(begun) = begun_jobs.remove(&key) {
                        self.add(begun, line.at, true);
                    }
                }
                _ => {}
            }
        }
        // The engine was killed. The attempt counts up to the last line that the engine wrote.
        let end = events.last().map(|line| line.at);
        for (_, begun) in begun_jobs {
            self.add(begun, end.unwrap_or(begun.at), true);
        }
    }

    fn add(&mut self, begun: Begun, end: Timestamp, lost: bool) {
        // The clock may have been set back meanwhile.
        let seconds = end.duration_since(begun.at).as_secs_f64().max(0.0);
        let (cores, gpus) = (seconds * begun.cpus as f64, seconds * begun.gpus as f64);
        self.cores += cores;
        self.gpus += gpus;
        if lost {
            self.lost += 1;
            self.lost_cores += cores;
            self.lost_gpus += gpus;
        }
    }
}

#[cfg(test)]
mod tests {
    use sweep_job::{Failure, FailureKind, Outcome};

    use super::*;
    use crate::record::sample;

    fn line(second: i64, key: Key, event: RunEvent) -> Line {
        Line { at: Timestamp::from_second(second).unwrap(), label: None, key: Some(key), computation: None, event }
    }

    #[test]
    fn failed_and_lost_attempts_count_and_other_jobs_do_not() {
        let (key, other): (Key, Key) = ("1".repeat(64).parse().unwrap(), "2".repeat(64).parse().unwrap());
        let started = |attempt| RunEvent::Started { job: 0, cpus: 2, gpus: vec![0], attempt, host: None };
        let failure = Failure { kind: FailureKind::Crash, message: String::new() };
        let retrying = RunEvent::Retrying { job: 0, attempt: 1, attempts: 2, wait: 1.0, failure, alone: false };
        let done = || RunEvent::Done { job: 0, seconds: Some(5.0), outcome: Outcome::default() };
        let events = [
            line(0, key, started(1)),
            line(0, other, started(1)),
            line(3, key, retrying),
            line(10, key, started(2)),
            line(14, key, RunEvent::Storing { job: 0 }),
            line(15, key, done()),
            line(20, key, started(1)),
            line(27, other, done()),
        ];
        let (mut spent, mut done_keys) = (Spent::default(), HashSet::new());
        spent.add_run(&events, &HashSet::from([key]), &mut done_keys);
        // 3 s failed, 5 s done, and 7 s until the last line of an engine that was killed.
        let expected = Spent { cores: 30.0, gpus: 15.0, lost_cores: 20.0, lost_gpus: 10.0, lost: 2, is_part: false };
        assert_eq!(spent, expected);
        assert_eq!(done_keys, HashSet::from([key]));
    }

    #[test]
    fn a_record_without_a_journal_counts_by_itself() {
        let folder = tempfile::tempdir().unwrap();
        let record = sample();
        let spent = Spent::new(folder.path(), &HashSet::from([record.key]), std::iter::once(&record));
        assert_eq!(spent, Spent { cores: 1.5, ..Spent::default() });
    }
}
