//! The attempts at the sealed jobs of a question: a file beside the ledger's entries with a line for each start and each end.
//!
//! A sealed job has one result. Its record cannot be removed and made again until the result is good, because the list has the
//! digest of its metrics; and the verdict says how many jobs began more than once, after interrupts and failures.

use std::{
    collections::BTreeMap,
    io::{self, Write as _},
    path::PathBuf,
};

use fs_err as fs;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::ledger::{Ledger, LedgerError, digest};
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
    /// The job, whatever its code is.
    job: Key,
    event: Event,
}

/// Something that happened to a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Event {
    /// It began.
    Started,
    /// It has a record, whose metrics have this digest.
    Done { record: Key, metrics: Key },
    /// It has failed.
    Failed,
}

/// The attempts at the sealed jobs of a question.
pub(super) struct Attempts {
    file: PathBuf,
    lines: Vec<Line>,
    /// The reason why a line could not be added.
    broken: Option<io::Error>,
}

impl Attempts {
    /// The attempts of earlier calls. A line that a kill has torn is none.
    pub(super) fn read(store: &Store, asked: usize) -> io::Result<Self> {
        let file = store.ledger().join(format!("{asked:06}.attempts"));
        let text = match fs::read(&file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            text => text?,
        };
        let lines = text.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect();
        Ok(Self { file, lines, broken: None })
    }

    /// The first record that is not there any more, or not as it was.
    pub(super) fn lost(&self, store: &Store) -> Result<Option<Key>, StoreError> {
        for (record, metrics) in self.kept() {
            let found = store.get(record)?.and_then(|record| Key::of_json(&record.outcome.metrics).ok());
            if found != Some(metrics) {
                return Ok(Some(record));
            }
        }
        Ok(None)
    }

    /// The records of the jobs that are done, each with the digest of its metrics.
    fn kept(&self) -> impl Iterator<Item = (Key, Key)> {
        self.lines.iter().filter_map(|line| match line.event {
            Event::Done { record, metrics } => Some((record, metrics)),
            Event::Started | Event::Failed => None,
        })
    }

    /// The number of jobs that began more than once.
    pub(super) fn repeated(&self) -> usize {
        let mut starts: BTreeMap<Key, usize> = BTreeMap::new();
        for line in self.lines.iter().filter(|line| line.event == Event::Started) {
            *starts.entry(line.job).or_default() += 1;
        }
        starts.values().filter(|starts| **starts > 1).count()
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
            Ok(Some(Line { at: clock::now(), job: job.identity.base_key()?, event }))
        };
        let added = match line() {
            Ok(Some(line)) => self.add(line),
            Ok(None) => Ok(()),
            Err(error) => Err(error),
        };
        if let Err(error) = added {
            self.broken.get_or_insert(error);
        }
    }
}

/// The records of sealed jobs whose questions are open, each with the number of its question. They must not be removed.
pub fn kept_for_questions(store: &Store) -> Result<BTreeMap<Key, usize>, LedgerError> {
    let ledger = Ledger::read(store)?;
    let mut kept = BTreeMap::new();
    for (entry, _) in ledger.questions().filter(|(entry, _)| ledger.conclusion(entry.number).is_none()) {
        let attempts = Attempts::read(store, entry.number)?;
        kept.extend(attempts.kept().map(|(record, _)| (record, entry.number)));
    }
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn torn_lines_are_none_and_later_ones_are_whole() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path());
        fs::create_dir_all(store.ledger()).unwrap();
        let line = |event| Line { at: clock::now(), job: Key::of_json(&1).unwrap(), event };
        let mut attempts = Attempts::read(&store, 3).unwrap();
        attempts.add(line(Event::Started)).unwrap();
        let text = fs::read(&attempts.file).unwrap();
        fs::write(&attempts.file, [text.as_slice(), &text[..20]].concat()).unwrap();
        let mut again = Attempts::read(&store, 3).unwrap();
        assert_eq!((again.lines.len(), again.repeated()), (1, 0));
        again.add(line(Event::Started)).unwrap();
        let read = Attempts::read(&store, 3).unwrap();
        assert_eq!((read.lines.len(), read.repeated()), (2, 1));
        assert_eq!(read.lines, again.lines);
    }
}
