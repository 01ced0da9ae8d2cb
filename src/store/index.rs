//! What the store has, at a glance: one line for each record, so that questions about all of them need not open
//! thousands of folders.
//!
//! The file is derived: which records there are is asked of the folders each time, a record that the file does not know
//! is opened and added, and a line that cannot be read or has no record counts for nothing. Deleting it loses nothing.

use std::{
    collections::HashMap,
    io::{self, Write as _},
};

use fs_err as fs;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

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

impl Store {
    /// An entry for every record that can be read, ordered by key.
    pub fn index(&self) -> io::Result<Vec<Entry>> {
        let keys = self.keys()?;
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let text = fs::read(self.index_file()).unwrap_or_default();
        let mut lines = 0;
        let mut known: HashMap<Key, Entry> = HashMap::new();
        for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            lines += 1;
            if let Ok(entry) = serde_json::from_slice::<Entry>(line) {
                known.insert(entry.key, entry);
            }
        }
        let mut entries = Vec::with_capacity(keys.len());
        let mut new = Vec::new();
        for key in keys {
            if let Some(entry) = known.remove(&key) {
                entries.push(entry);
            } else if let Ok(Some(record)) = self.get(key) {
                new.push(entries.len());
                entries.push(Entry::from(record));
            }
        }
        // More than half of it is about what is not there.
        if lines > 2 * entries.len() + 100 {
            self.rewrite(&entries);
        } else if !new.is_empty() {
            self.append(text.last().is_some_and(|last| *last != b'\n'), new.iter().map(|index| &entries[*index]));
        }
        Ok(entries)
    }

    fn index_file(&self) -> std::path::PathBuf {
        self.root.join("index.jsonl")
    }

    /// Adds lines in one write. Where that fails the next look is slower, and that is all.
    fn append<'e>(&self, torn: bool, entries: impl Iterator<Item = &'e Entry>) {
        let text = if torn { format!("\n{}", lines(entries)) } else { lines(entries) };
        let file = fs::OpenOptions::new().create(true).append(true).open(self.index_file());
        let _ = file.and_then(|mut file| file.write_all(text.as_bytes()));
    }

    fn rewrite(&self, entries: &[Entry]) {
        let write = || -> io::Result<()> {
            let mut file = tempfile::NamedTempFile::new_in(&self.root)?;
            file.write_all(lines(entries.iter()).as_bytes())?;
            file.persist(self.index_file())?;
            Ok(())
        };
        let _ = write();
    }
}

fn lines<'e>(entries: impl Iterator<Item = &'e Entry>) -> String {
    let mut text = String::new();
    // An entry has text keys and nothing that is not finite: this cannot fail.
    for line in entries.filter_map(|entry| serde_json::to_string(entry).ok()) {
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
        assert_eq!(fs::read_to_string(store.index_file()).unwrap().lines().count(), 1, "it is there once");
        fs::remove_dir_all(store.folder(record.key)).unwrap();
        assert_eq!(store.index().unwrap(), [], "what is gone is gone");
    }

    #[test]
    fn a_damaged_index_is_mended() {
        let (_results, store, record) = store_with_one();
        let entry = [Entry::from(record)];
        let whole = lines(entry.iter());
        for text in [String::new(), "noise\n".into(), whole[..whole.len() / 2].to_owned(), "{}\n".repeat(500)] {
            fs::write(store.index_file(), &text).unwrap();
            assert_eq!(store.index().unwrap(), entry);
            let mended = fs::read_to_string(store.index_file()).unwrap();
            assert!(mended.ends_with(&whole) && mended.lines().count() < 5, "{mended}");
        }
    }
}
