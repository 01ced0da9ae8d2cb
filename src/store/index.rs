//! What the store has, at a glance: one line for each record, so that questions about all of them need not open
//! thousands of folders.
//!
//! `index.jsonl` says what the records are about, `metrics.jsonl` what they have measured. Both are derived: which records
//! there are is asked of the folders each time, a record that a file does not know is opened and added, and a line that
//! cannot be read or has no record counts for nothing. Deleting them loses nothing.

use std::{
    collections::{BTreeMap, HashMap},
    io::{self, Write as _},
    thread,
};

use fs_err as fs;
use jiff::Timestamp;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use sweep_job::Metric;

use super::{Digest, Record, Store};
use crate::plan::{Identity, Key};

/// What the index says of a record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The job's key.
    pub key: Key,
    /// What it was called when it ran.
    pub label: String,
    /// When it began.
    pub started: Timestamp,
    /// How long it took.
    pub seconds: f64,
    /// What its files take, in bytes.
    #[serde(default)]
    pub bytes: u64,
    /// What the key is made of.
    pub identity: Identity,
}

impl From<Record> for Entry {
    fn from(record: Record) -> Self {
        let Record { key, label, identity, provenance, files, .. } = record;
        let bytes = files.values().map(Digest::bytes).sum();
        Self { key, label, started: provenance.started, seconds: provenance.seconds, bytes, identity }
    }
}

/// What was measured, and where: beside the index, because only questions about results need it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// The job's key.
    pub key: Key,
    /// The metrics.
    pub metrics: BTreeMap<String, Metric>,
    /// The device, for tasks that compute on one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// The machine.
    pub host: String,
    /// The program's version.
    pub sweep: String,
}

impl From<Record> for Measured {
    fn from(record: Record) -> Self {
        let Record { key, outcome, provenance, .. } = record;
        let device = provenance.device.map(|device| device.name);
        Self { key, metrics: outcome.metrics, device, host: provenance.host, sweep: provenance.sweep }
    }
}

/// A line of a derived file.
trait Line: From<Record> + Serialize + DeserializeOwned + Send {
    /// The file.
    const FILE: &str;
    /// The key of the record that it is about.
    fn key(&self) -> Key;
}

impl Line for Entry {
    const FILE: &str = "index.jsonl";

    fn key(&self) -> Key {
        self.key
    }
}

impl Line for Measured {
    const FILE: &str = "metrics.jsonl";

    fn key(&self) -> Key {
        self.key
    }
}

impl Store {
    /// An entry for every record that can be read, ordered by key.
    pub fn index(&self) -> io::Result<Vec<Entry>> {
        Ok(self.lines(&self.keys()?))
    }

    /// The same, and beside it what each of the records has measured.
    pub fn measured(&self) -> io::Result<(Vec<Entry>, Vec<Measured>)> {
        let keys = self.keys()?;
        Ok((self.lines(&keys), self.lines(&keys)))
    }

    fn lines<L: Line>(&self, keys: &[Key]) -> Vec<L> {
        if keys.is_empty() {
            return Vec::new();
        }
        let text = fs::read(self.root.join(L::FILE)).unwrap_or_default();
        let (mut known, written) = parse::<L>(&text);
        let mut lines = Vec::with_capacity(keys.len());
        let mut new = Vec::new();
        for key in keys {
            if let Some(line) = known.remove(key) {
                lines.push(line);
            } else if let Ok(Some(record)) = self.get(*key) {
                new.push(lines.len());
                lines.push(L::from(record));
            }
        }
        // More than half of it is about what is not there.
        if written > 2 * lines.len() + 100 {
            self.rewrite(&lines);
        } else if !new.is_empty() {
            self.append(text.last().is_some_and(|last| *last != b'\n'), new.iter().map(|index| &lines[*index]));
        }
        lines
    }

    /// Adds lines in one write. Where that fails the next look is slower, and that is all.
    fn append<'e, L: Line + 'e>(&self, torn: bool, lines: impl Iterator<Item = &'e L>) {
        let text = if torn { format!("\n{}", to_text(lines)) } else { to_text(lines) };
        let file = fs::OpenOptions::new().create(true).append(true).open(self.root.join(L::FILE));
        let _ = file.and_then(|mut file| file.write_all(text.as_bytes()));
    }

    fn rewrite<L: Line>(&self, lines: &[L]) {
        let write = || -> io::Result<()> {
            let mut file = tempfile::NamedTempFile::new_in(&self.root)?;
            file.write_all(to_text(lines.iter()).as_bytes())?;
            file.persist(self.root.join(L::FILE))?;
            Ok(())
        };
        let _ = write();
    }
}

/// The lines that can be read, by key, and how many there are in all. Long files are read by several threads.
fn parse<L: Line>(text: &[u8]) -> (HashMap<Key, L>, usize) {
    const PART: usize = 1 << 20;
    let threads = thread::available_parallelism().map_or(1, usize::from).min(text.len() / PART + 1);
    let mut parts = Vec::new();
    let mut rest = text;
    for left in (1..=threads).rev() {
        let middle = rest.len() / left;
        let end = rest[middle.min(rest.len())..].iter().position(|byte| *byte == b'\n');
        let (part, further) = rest.split_at(end.map_or(rest.len(), |end| middle + end + 1));
        parts.push(part);
        rest = further;
    }
    let read = |part: &[u8]| -> (Vec<L>, usize) {
        let lines = || part.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        (lines().filter_map(|line| serde_json::from_slice(line).ok()).collect(), lines().count())
    };
    let read: Vec<(Vec<L>, usize)> = thread::scope(|scope| {
        let handles: Vec<_> = parts.iter().map(|part| scope.spawn(|| read(part))).collect();
        // A thread that panics leaves nothing, and its records are read anew.
        handles.into_iter().map(|handle| handle.join().unwrap_or_default()).collect()
    });
    let written = read.iter().map(|(_, written)| written).sum();
    (read.into_iter().flat_map(|(lines, _)| lines).map(|line| (line.key(), line)).collect(), written)
}

fn to_text<'e, L: Line + 'e>(lines: impl Iterator<Item = &'e L>) -> String {
    let mut text = String::new();
    // A line has text keys and nothing that is not finite: this cannot fail.
    for line in lines.filter_map(|line| serde_json::to_string(line).ok()) {
        text.push_str(&line);
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Claim, record::tests::sample};

    fn store_with_one() -> (tempfile::TempDir, Store, Record) {
        let results = tempfile::tempdir().unwrap();
        let store = Store::new(results.path());
        let record = sample();
        let Claim::Miss(pending) = store.claim(record.key).unwrap() else { panic!("nothing is done yet") };
        let record = pending.commit(record).unwrap();
        (results, store, record)
    }

    #[test]
    fn what_is_there_is_in_the_index_and_nothing_else() {
        let (_results, store, record) = store_with_one();
        let entry = Entry::from(record.clone());
        assert_eq!(store.index().unwrap(), std::slice::from_ref(&entry));
        assert_eq!(store.index().unwrap(), std::slice::from_ref(&entry), "from the file");
        assert_eq!(fs::read_to_string(store.root.join(Entry::FILE)).unwrap().lines().count(), 1, "it is there once");
        fs::remove_dir_all(store.folder(record.key)).unwrap();
        assert_eq!(store.index().unwrap(), [], "what is gone is gone");
    }

    #[test]
    fn a_damaged_index_is_mended() {
        let (_results, store, record) = store_with_one();
        let entry = [Entry::from(record)];
        let whole = to_text(entry.iter());
        for text in [String::new(), "noise\n".into(), whole[..whole.len() / 2].to_owned(), "{}\n".repeat(500)] {
            fs::write(store.root.join(Entry::FILE), &text).unwrap();
            assert_eq!(store.index().unwrap(), entry);
            let mended = fs::read_to_string(store.root.join(Entry::FILE)).unwrap();
            assert!(mended.ends_with(&whole) && mended.lines().count() < 5, "{mended}");
        }
    }
}
