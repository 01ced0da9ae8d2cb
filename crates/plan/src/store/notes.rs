//! Tags and notes on records, which people add and remove: `notes/<key>.json`, beside the records, which never change.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, Write as _},
    path::PathBuf,
    thread,
    time::{Duration, SystemTime},
};

use fs_err as fs;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Store, entries, lock::remove_file_if_there};
use crate::record::Key;

/// Version of the JSON. 1: first.
const FORMAT: u32 = 1;
/// The folder, and the name of the lock under which a file in it is changed.
const FOLDER: &str = "notes";
/// Longest tag in characters, and most tags of a record.
const MAX_TAG: usize = 60;
const MAX_TAGS: usize = 50;
/// Longest note in bytes, and most notes of a record.
const MAX_NOTE: usize = 4000;
const MAX_NOTES: usize = 100;
/// A file is never larger.
const MAX_FILE: u64 = 1 << 20;

/// Tags and notes on a record.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notes {
    format: u32,
    /// Tags: words without blanks.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    tags: BTreeSet<String>,
    /// Notes in the order in which they were written.
    #[serde(default, rename = "notes", skip_serializing_if = "BTreeSet::is_empty")]
    texts: BTreeSet<Note>,
}

/// A note.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Note {
    /// Time at which it was written.
    pub at: Timestamp,
    /// The text.
    pub text: String,
}

/// A change of the notes on a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoteChange {
    /// Adds a tag.
    Tag(String),
    /// Removes a tag.
    Untag(String),
    /// Adds a note, written now.
    Add(String),
    /// Removes the note of this number, from 1.
    Remove(usize),
}

/// Refusal of a change of notes.
#[derive(Debug, thiserror::Error)]
pub enum NoteError {
    /// A text is not a valid tag.
    #[error("`{0}` is not a tag: a tag has 1 to {MAX_TAG} letters, digits or signs, and no spaces or commas")]
    Tag(String),
    /// A text is not a valid note.
    #[error("a note has 1 to {MAX_NOTE} bytes; this one has {0}")]
    Note(usize),
    /// There are too many.
    #[error("a record has at most {MAX_TAGS} tags and {MAX_NOTES} notes: remove some")]
    Full,
    /// The record has no such tag.
    #[error("the record has no tag `{0}`")]
    NoTag(String),
    /// The record has no such note.
    #[error("the record has no note {0}: its notes are numbered from 1")]
    NoNote(usize),
    /// The file cannot be read or written.
    #[error("the notes cannot be kept: {0}")]
    Io(#[from] io::Error),
}

impl Notes {
    /// The tags.
    pub fn tags(&self) -> impl Iterator<Item = &str> {
        self.tags.iter().map(String::as_str)
    }

    /// The notes, the first one first.
    pub fn notes(&self) -> impl Iterator<Item = &Note> {
        self.texts.iter()
    }

    /// True without tags and notes.
    pub fn is_empty(&self) -> bool {
        self.tags.is_empty() && self.texts.is_empty()
    }

    /// Makes a change, on which no other has to follow.
    ///
    /// # Errors
    /// The change is not possible; nothing is changed then.
    pub fn apply(&mut self, change: &NoteChange) -> Result<(), NoteError> {
        match change {
            NoteChange::Tag(tag) if !is_tag(tag) => return Err(NoteError::Tag(tag.clone())),
            NoteChange::Add(text) if !is_note(text) => return Err(NoteError::Note(text.trim().len())),
            NoteChange::Tag(tag) => {
                self.tags.insert(tag.clone());
            }
            NoteChange::Untag(tag) => {
                if !self.tags.remove(tag) {
                    return Err(NoteError::NoTag(tag.clone()));
                }
            }
            NoteChange::Add(text) => {
                self.texts.insert(Note { at: crate::host::clock::now(), text: text.trim().to_owned() });
            }
            NoteChange::Remove(number) => {
                let note = number.checked_sub(1).and_then(|index| self.texts.iter().nth(index)).cloned();
                let note = note.ok_or(NoteError::NoNote(*number))?;
                self.texts.remove(&note);
            }
        }
        if self.tags.len() > MAX_TAGS || self.texts.len() > MAX_NOTES { Err(NoteError::Full) } else { Ok(()) }
    }

    /// Adds the tags and notes of another copy of the record, as far as there is room.
    fn merge(&mut self, other: Self) {
        for tag in other.tags.into_iter().filter(|tag| is_tag(tag)) {
            if self.tags.len() < MAX_TAGS {
                self.tags.insert(tag);
            }
        }
        for note in other.texts.into_iter().filter(|note| is_note(&note.text)) {
            if self.texts.len() < MAX_NOTES {
                self.texts.insert(note);
            }
        }
    }

    /// Reads notes; the error is the reason why `text` has none.
    pub(super) fn parse(text: &[u8]) -> Result<Self, String> {
        let notes: Self = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        if notes.format == FORMAT { Ok(notes) } else { Err(format!("they have the unknown version {}", notes.format)) }
    }

    /// The text of their file.
    pub(super) fn to_text(&self) -> serde_json::Result<Vec<u8>> {
        Ok([serde_json::to_vec_pretty(&Self { format: FORMAT, ..self.clone() })?, b"\n".to_vec()].concat())
    }
}

fn is_tag(tag: &str) -> bool {
    let is_part = |char: char| !char.is_whitespace() && !char.is_control() && !matches!(char, ',' | '"');
    (1..=MAX_TAG).contains(&tag.chars().count()) && tag.chars().all(is_part)
}

fn is_note(text: &str) -> bool {
    (1..=MAX_NOTE).contains(&text.trim().len())
}

impl Store {
    fn notes_folder(&self) -> PathBuf {
        self.root.join(FOLDER)
    }

    fn notes_file(&self, key: Key) -> PathBuf {
        self.notes_folder().join(format!("{key}.json"))
    }

    /// The notes on a record; empty without a file.
    ///
    /// # Errors
    /// The file cannot be read, or has no notes of this version.
    pub fn notes(&self, key: Key) -> io::Result<Notes> {
        let path = self.notes_file(key);
        match fs::metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Notes::default()),
            Ok(metadata) if metadata.is_file() && metadata.len() <= MAX_FILE => {}
            Ok(_) => return Err(io::Error::other(format!("{} is not a file of notes", path.display()))),
            Err(error) => return Err(error),
        }
        let reason = |reason| io::Error::other(format!("{} cannot be used: {reason}", path.display()));
        Notes::parse(&fs::read(&path)?).map_err(reason)
    }

    /// The notes on all records that have some. Unreadable ones are skipped, because lists cannot repair them.
    pub fn all_notes(&self) -> BTreeMap<Key, Notes> {
        let files = entries(&self.notes_folder()).unwrap_or_default();
        let key = |path: &PathBuf| path.file_name()?.to_str()?.strip_suffix(".json")?.parse::<Key>().ok();
        let keys = files.iter().filter_map(key);
        keys.filter_map(|key| Some((key, self.notes(key).ok()?))).filter(|(_, notes)| !notes.is_empty()).collect()
    }

    /// Time of the last change of notes; `None` without notes.
    pub fn noted(&self) -> Option<SystemTime> {
        fs::metadata(self.notes_folder()).ok()?.modified().ok()
    }

    /// Changes the notes on a record, and returns them. Either all changes are applied or none.
    ///
    /// # Errors
    /// A change is not possible, or the file cannot be read or written.
    pub fn note(&self, key: Key, changes: &[NoteChange]) -> Result<Notes, NoteError> {
        self.edit_notes(key, |notes| changes.iter().try_for_each(|change| notes.apply(change)))
    }

    /// Adds the notes that came with a copy of the record.
    pub(super) fn merge_notes(&self, key: Key, others: Notes) -> io::Result<()> {
        let merged = self.edit_notes(key, |notes| {
            notes.merge(others);
            Ok(())
        });
        match merged {
            Err(NoteError::Io(error)) => Err(error),
            _ => Ok(()),
        }
    }

    fn edit_notes(&self, key: Key, edit: impl FnOnce(&mut Notes) -> Result<(), NoteError>) -> Result<Notes, NoteError> {
        let _lock = loop {
            if let Some(lock) = self.lock(FOLDER)? {
                break lock;
            }
            thread::sleep(Duration::from_millis(20));
        };
        let before = self.notes(key)?;
        let mut notes = before.clone();
        edit(&mut notes)?;
        let path = self.notes_file(key);
        if notes.is_empty() {
            if !before.is_empty() {
                remove_file_if_there(&path)?;
                fs::File::open(self.notes_folder())?.sync_all()?;
            }
        } else if notes != before {
            fs::create_dir_all(self.notes_folder())?;
            let mut file = tempfile::NamedTempFile::new_in(&self.root)?;
            file.write_all(&notes.to_text().map_err(io::Error::from)?)?;
            file.as_file().sync_all()?;
            self.unsettle(&path);
            file.persist(&path).map_err(|error| error.error)?;
            self.settle(&path)?;
        }
        Ok(notes)
    }

    /// Removes the notes on records that are not there. The store must not be in use.
    pub(super) fn remove_notes(&self) -> io::Result<()> {
        for path in entries(&self.notes_folder())? {
            let key = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".json")?.parse::<Key>().ok());
            if key.is_some_and(|key| !self.contains(key)) {
                remove_file_if_there(&path)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::sample;

    #[test]
    fn notes_are_added_and_removed_and_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path());
        let key = sample().key;
        let change = |change: NoteChange| store.note(key, &[change]);
        assert!(store.notes(key).unwrap().is_empty() && store.all_notes().is_empty() && store.noted().is_none());
        change(NoteChange::Tag("best".into())).unwrap();
        let notes = change(NoteChange::Add(" diverges\n<b>late</b> ".into())).unwrap();
        assert_eq!(notes.notes().next().unwrap().text, "diverges\n<b>late</b>");
        assert_eq!(store.notes(key).unwrap(), store.all_notes()[&key]);
        for bad in ["", "a b", "a,b", "a\u{7}", &"x".repeat(MAX_TAG + 1)] {
            assert!(matches!(change(NoteChange::Tag(bad.into())), Err(NoteError::Tag(_))), "{bad}");
        }
        assert!(matches!(change(NoteChange::Add("x".repeat(MAX_NOTE + 1))), Err(NoteError::Note(_))));
        assert!(matches!(change(NoteChange::Untag("worst".into())), Err(NoteError::NoTag(_))));
        assert!(matches!(change(NoteChange::Remove(2)), Err(NoteError::NoNote(2))));
        // All changes or none.
        let both = [NoteChange::Tag("second".into()), NoteChange::Remove(7)];
        assert!(store.note(key, &both).is_err());
        assert_eq!(store.notes(key).unwrap().tags().collect::<Vec<_>>(), ["best"]);
        change(NoteChange::Untag("best".into())).unwrap();
        change(NoteChange::Remove(1)).unwrap();
        assert!(!store.notes_file(key).exists());
        for number in 0..MAX_TAGS {
            change(NoteChange::Tag(number.to_string())).unwrap();
        }
        assert!(matches!(change(NoteChange::Tag("further".into())), Err(NoteError::Full)));
        // Without its record, a note is garbage.
        store.remove_notes().unwrap();
        assert!(store.notes(key).unwrap().is_empty());
        fs::create_dir_all(store.notes_folder()).unwrap();
        fs::write(store.notes_file(key), "{\"format\":9}").unwrap();
        assert!(store.notes(key).unwrap_err().to_string().contains("version 9"));
    }
}
