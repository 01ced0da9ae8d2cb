//! Decisions about the next jobs, by the digest of the results that they follow from.
//!
//! A decision is a pure function of a rule and of the results of some jobs. It is kept so that people can read why a job
//! ran or did not run; nothing is decided differently without it. A file is written aside, synced and renamed, and never
//! edited.

use std::{
    io::{self, Write as _},
    path::PathBuf,
};

use fs_err as fs;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::{Store, entries};
use crate::{host::failpoints, record::Key};

/// A decision: its subject, its rule, the results that it follows from, and the outcome.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// The kind: `rung`, `race`, `suggestion` or `confirmation`.
    pub kind: String,
    /// The version of the kind's rule; raised when the rule changes the result for the same members.
    pub version: u32,
    /// The part of the rule that the result depends on.
    pub rule: Json,
    /// The jobs that the decision follows from, sorted by key.
    pub members: Vec<Member>,
    /// The outcome.
    pub result: Json,
}

/// A job that a decision follows from.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Member {
    /// The job's key.
    pub key: Key,
    /// The job's value; `None` without a record or a finite value.
    pub value: Option<f64>,
}

/// The part of a decision from which its key is computed.
#[derive(Serialize)]
struct Grounds<'a> {
    kind: &'a str,
    version: u32,
    rule: &'a Json,
    members: &'a [Member],
}

impl Decision {
    /// A decision. Values that are not finite count as none, and the members are sorted.
    pub fn new(kind: &str, version: u32, rule: Json, mut members: Vec<Member>, result: Json) -> Self {
        for member in &mut members {
            member.value = member.value.filter(|value| value.is_finite());
        }
        members.sort_by_key(|member| member.key);
        Self { kind: kind.to_owned(), version, rule, members, result }
    }

    /// The digest of kind, version, rule and members: the name of the decision in the store. The result is not in it,
    /// because it follows from them.
    pub fn key(&self) -> serde_json::Result<Key> {
        let Self { kind, version, rule, members, .. } = self;
        Key::of_json(&Grounds { kind, version: *version, rule, members })
    }
}

impl Store {
    /// Returns a decision; `None` if it is missing, or if its file is damaged: the decision can be made again.
    pub fn decision(&self, key: &Key) -> io::Result<Option<Decision>> {
        let text = match fs::read(self.decision_file(key)) {
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(None);
            }
            text => text?,
        };
        let decision = serde_json::from_slice::<Decision>(&text).ok();
        Ok(decision.filter(|decision| decision.key().is_ok_and(|stored_key| stored_key == *key)))
    }

    /// All decisions whose files are whole, sorted by key.
    pub fn all_decisions(&self) -> io::Result<Vec<(Key, Decision)>> {
        let names = entries(&self.decisions())?.into_iter();
        let keys = names.filter_map(|path| path.file_stem()?.to_str()?.parse::<Key>().ok());
        let mut decisions = Vec::new();
        for key in keys {
            decisions.extend(self.decision(&key)?.map(|decision| (key, decision)));
        }
        decisions.sort_by_key(|(key, _)| *key);
        Ok(decisions)
    }

    /// Stores `decision`, unless the store has it; returns its key.
    pub fn keep_decision(&self, decision: &Decision) -> io::Result<Key> {
        let key = decision.key()?;
        if self.decision(&key)?.is_some() {
            return Ok(key);
        }
        let folder = self.decisions();
        failpoints::point("decision: before it")?;
        fs::create_dir_all(&folder)?;
        // In the store's own folder, where the remains of killed processes are found.
        let mut file = tempfile::NamedTempFile::new_in(&self.root)?;
        let mut text = serde_json::to_vec(decision)?;
        text.push(b'\n');
        failpoints::write_all(&mut file, &text, "decision: file made", "decision: in the file")?;
        file.flush()?;
        file.as_file().sync_all()?;
        file.persist(self.decision_file(&key)).map_err(|error| error.error)?;
        failpoints::point("decision: kept")?;
        Ok(key)
    }

    fn decisions(&self) -> PathBuf {
        self.root.join("decisions")
    }

    fn decision_file(&self, key: &Key) -> PathBuf {
        self.decisions().join(format!("{key}.json"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn key(byte: char) -> Key {
        byte.to_string().repeat(64).parse().unwrap()
    }

    fn decision(values: &[(char, Option<f64>)]) -> Decision {
        let members = values.iter().map(|(byte, value)| Member { key: key(*byte), value: *value }).collect();
        Decision::new("rung", 1, json!({ "at": 1000 }), members, json!({ "kept": 1 }))
    }

    #[test]
    fn the_same_members_in_any_order_are_the_same_decision() {
        let original = decision(&[('a', Some(1.5)), ('b', None)]);
        assert_eq!(original, decision(&[('b', Some(f64::NAN)), ('a', Some(1.5))]));
        assert_eq!(original.key().unwrap(), decision(&[('b', None), ('a', Some(1.5))]).key().unwrap());
        assert_ne!(original.key().unwrap(), decision(&[('a', Some(1.5)), ('b', Some(0.0))]).key().unwrap());
    }

    #[test]
    fn a_damaged_decision_is_none_and_is_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path());
        store.create().unwrap();
        // Numbers with all their digits.
        let original = decision(&[('a', Some(0.1 + 0.2)), ('c', Some(1e-300)), ('b', None)]);
        let key = store.keep_decision(&original).unwrap();
        assert_eq!(store.decision(&key).unwrap(), Some(original.clone()));
        let file = store.decision_file(&key);
        let text = fs::read_to_string(&file).unwrap();
        for damaged_text in ["", "{", &text.replace("1e-300", "2e-300")] {
            fs::write(&file, damaged_text).unwrap();
            assert_eq!(store.decision(&key).unwrap(), None, "{damaged_text}");
        }
        assert_eq!(store.keep_decision(&original).unwrap(), key);
        assert_eq!(store.decision(&key).unwrap(), Some(original));
    }
}
