//! The attempts at the sealed jobs of a question: a file beside the ledger's entries with a line for each start and each end, and
//! for each call that differed from the granted question.
//!
//! A sealed job has one result. Its record cannot be removed and computed again until the result is good, because the list has the digest
//! of its metrics; it cannot be left out, because a job that began must be part of the verdict; and it cannot come from elsewhere. The
//! verdict contains the number of jobs that began more than once, after interrupts and failures, and the number of calls that differed.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, Write as _},
    path::PathBuf,
};

use fs_err as fs;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{
    ProposeError,
    ledger::{Ledger, LedgerError, digest, settle},
};
use crate::{
    host::{clock, failpoints},
    plan::{JobId, Plan},
    record::Key,
    run::{Observer, RunEvent},
    store::{Store, StoreError},
};

/// A line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Line {
    at: Timestamp,
    /// The job that it is about, independent of its code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    job: Option<Key>,
    event: Event,
}

/// Something that happened to a job or to the question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Event {
    /// It began.
    Started,
    /// It has a record, whose metrics have this digest.
    Done { record: Key, metrics: Key },
    /// It has failed.
    Failed,
    /// A call differed from the granted question in this.
    Altered { by: Vec<String> },
}

/// The attempts at the sealed jobs of a question.
pub(super) struct Attempts {
    file: PathBuf,
    /// True if this process has brought the file's name to the disk.
    is_settled: bool,
    lines: Vec<Line>,
    /// The reason why a line could not be added.
    broken: Option<io::Error>,
}

impl Attempts {
    /// The attempts of earlier calls. A line that was torn by a kill does not count.
    pub(super) fn read(store: &Store, number: usize) -> io::Result<Self> {
        let file = store.ledger().join(format!("{number:06}.attempts"));
        let text = match fs::read(&file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            text => text?,
        };
        let lines = text.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect();
        Ok(Self { file, lines, broken: None, is_settled: false })
    }

    /// The first record that is not there any more, or not as it was.
    pub(super) fn lost(&self, store: &Store) -> Result<Option<Key>, StoreError> {
        for (record, metrics) in self.kept() {
            let digest = store.get(record)?.and_then(|record| Key::of_json(&record.outcome.metrics).ok());
            if digest != Some(metrics) {
                return Ok(Some(record));
            }
        }
        Ok(None)
    }

    /// The first record of these jobs that no attempt has written: it came from elsewhere, or was there before.
    pub(super) fn foreign(
        &self,
        store: &Store,
        plan: &Plan,
        jobs: impl IntoIterator<Item = JobId>,
    ) -> Result<Option<Key>, ProposeError> {
        let started_keys = self.started();
        let kept_records: BTreeSet<Key> = self.kept().map(|(record, _)| record).collect();
        for id in jobs {
            let job = plan.job(id);
            if !kept_records.contains(&job.key) && store.contains(job.key) {
                let is_own = started_keys.contains(&plan.key_of_variant(id)?) && store.origin(job.key).is_none();
                if !is_own {
                    return Ok(Some(job.key));
                }
            }
        }
        Ok(None)
    }

    /// The records of the jobs that are done, each with the digest of its metrics.
    fn kept(&self) -> impl Iterator<Item = (Key, Key)> {
        self.lines.iter().filter_map(|line| match line.event {
            Event::Done { record, metrics } => Some((record, metrics)),
            Event::Started | Event::Failed | Event::Altered { .. } => None,
        })
    }

    /// True if nothing has happened.
    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// The jobs that began.
    pub(super) fn started(&self) -> BTreeSet<Key> {
        self.starts().into_keys().collect()
    }

    /// The number of jobs that began more than once.
    pub(super) fn repeated(&self) -> usize {
        self.starts().into_values().filter(|starts| *starts > 1).count()
    }

    fn starts(&self) -> BTreeMap<Key, usize> {
        let mut starts = BTreeMap::new();
        for job in self.lines.iter().filter(|line| line.event == Event::Started).filter_map(|line| line.job) {
            *starts.entry(job).or_default() += 1;
        }
        starts
    }

    /// The number of calls that differed from the granted question.
    pub(super) fn altered(&self) -> usize {
        self.lines.iter().filter(|line| matches!(line.event, Event::Altered { .. })).count()
    }

    /// Adds a call that differs from the granted question.
    pub(super) fn alter(&mut self, by: Vec<String>) -> io::Result<()> {
        self.add(Line { at: clock::now(), job: None, event: Event::Altered { by } })
    }

    /// The attempts as they are on the disk.
    pub(super) fn close(self) -> io::Result<Self> {
        match self.broken {
            Some(error) => Err(error),
            None => Ok(self),
        }
    }

    /// The digest of the file.
    pub(super) fn digest(&self) -> io::Result<String> {
        match fs::read(&self.file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(digest(&[])),
            text => Ok(digest(&text?)),
        }
    }

    /// Adds a line to the file.
    fn add(&mut self, line: Line) -> io::Result<()> {
        let mut text = serde_json::to_vec(&line)?;
        text.push(b'\n');
        if fs::read(&self.file).is_ok_and(|text| text.last().is_some_and(|byte| *byte != b'\n')) {
            text.insert(0, b'\n');
        }
        let mut file = fs::OpenOptions::new().append(true).create(true).open(&self.file)?;
        failpoints::write_all(&mut file, &text, "attempts: before a line", "attempts: in a line")?;
        file.flush()?;
        file.sync_data()?;
        // The process that has created the file may have been killed before this.
        if !self.is_settled {
            settle(&self.file)?;
            self.is_settled = true;
        }
        failpoints::point("attempts: kept")?;
        self.lines.push(line);
        Ok(())
    }
}

impl Observer for Attempts {
    fn on(&mut self, plan: &Plan, event: &RunEvent) {
        let Some(id) = event.job().map(JobId::new) else { return };
        let line = || -> io::Result<Option<Line>> {
            let job = plan.job(id);
            let event = match event {
                RunEvent::Started { .. } => Event::Started,
                RunEvent::Done { outcome, .. } => {
                    Event::Done { record: job.key, metrics: Key::of_json(&outcome.metrics)? }
                }
                RunEvent::Failed { .. } | RunEvent::Retrying { .. } => Event::Failed,
                _ => return Ok(None),
            };
            Ok(Some(Line { at: clock::now(), job: Some(plan.key_of_variant(id)?), event }))
        };
        let result = match line() {
            Ok(Some(line)) => self.add(line),
            Ok(None) => Ok(()),
            Err(error) => Err(error),
        };
        if let Err(error) = result {
            self.broken.get_or_insert(error);
        }
    }
}

/// The records of sealed jobs whose questions are open, each with the number of its question. They must not be removed.
pub fn kept_for_questions(store: &Store) -> Result<BTreeMap<Key, usize>, LedgerError> {
    let ledger = Ledger::read(store)?;
    let mut kept_records = BTreeMap::new();
    for (entry, _) in ledger.questions().filter(|(entry, _)| ledger.conclusion(entry.number).is_none()) {
        let attempts = Attempts::read(store, entry.number)?;
        kept_records.extend(attempts.kept().map(|(record, _)| (record, entry.number)));
    }
    Ok(kept_records)
}

/// The number of calls that differed from a question while it is open.
pub fn altered_calls(store: &Store, asked: usize) -> io::Result<usize> {
    Ok(Attempts::read(store, asked)?.altered())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn torn_lines_are_none_and_later_ones_are_whole() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path());
        fs::create_dir_all(store.ledger()).unwrap();
        let line = |event| Line { at: clock::now(), job: Some(Key::of_json(&1).unwrap()), event };
        let mut attempts = Attempts::read(&store, 3).unwrap();
        attempts.add(line(Event::Started)).unwrap();
        let text = fs::read(&attempts.file).unwrap();
        fs::write(&attempts.file, [text.as_slice(), &text[..20]].concat()).unwrap();
        let mut attempts_again = Attempts::read(&store, 3).unwrap();
        assert_eq!((attempts_again.lines.len(), attempts_again.repeated()), (1, 0));
        attempts_again.add(line(Event::Started)).unwrap();
        let third_reading = Attempts::read(&store, 3).unwrap();
        assert_eq!((third_reading.lines.len(), third_reading.repeated()), (2, 1));
        assert_eq!(third_reading.lines, attempts_again.lines);
    }
}
