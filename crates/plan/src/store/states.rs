//! States: files that a job leaves at its end so that a longer job can continue from them.
//!
//! States are not part of records, and no job requires one: without a state, a job trains from its first step and has the
//! same result. A state is in `states/<step>/<key>`, with a description and the files; it is written aside and renamed. A
//! job that takes a state compares its files with their digests, so that a changed state is removed and not used.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
};

use fs_err as fs;
use serde::{Deserialize, Serialize};
use tracing::{info_span, warn};

use super::{Store, disk, entries, remove_if_there};
use crate::{
    host::{failpoints, log},
    record::{self, Digest, Key},
};

/// Version of [`State`]'s JSON.
const FORMAT: u32 = 1;
/// The description.
const ABOUT: &str = "state.json";
/// The folder of the files.
const FILES: &str = "files";

/// Description of a state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// Version of this form.
    pub format: u32,
    /// Key of the state.
    pub key: Key,
    /// Number of steps that are done in it.
    pub step: u64,
    /// The task.
    pub task: String,
    /// Name of the job that has left it.
    pub label: String,
    /// Key of the record of that job.
    pub record: Key,
    /// The set of files that the job's program was observed to read; `None` if it was not observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set: Option<String>,
    /// Time at which the state was kept.
    pub kept: jiff::Timestamp,
    /// The state's files.
    pub files: BTreeMap<String, Digest>,
}

impl State {
    /// A state without files, of the job with this record.
    pub fn new(step: u64, key: Key, task: &str, record: Key, label: String) -> Self {
        let kept = crate::host::clock::now();
        let (task, files) = (task.to_owned(), BTreeMap::new());
        Self { format: FORMAT, key, step, task, label, record, set: None, kept, files }
    }

    /// Bytes of its files.
    pub fn bytes(&self) -> u64 {
        self.files.values().map(Digest::bytes).sum()
    }
}

impl Store {
    fn state(&self, step: u64, key: Key) -> PathBuf {
        self.root.join("states").join(step.to_string()).join(key.to_string())
    }

    /// The numbers of steps after which there are states, the largest first.
    pub fn state_steps(&self) -> io::Result<Vec<u64>> {
        let folders = entries(&self.root.join("states"))?;
        let mut steps: Vec<u64> = folders.iter().filter_map(|path| path.file_name()?.to_str()?.parse().ok()).collect();
        steps.sort_unstable_by(|a, b| b.cmp(a));
        Ok(steps)
    }

    /// Returns all states, by their steps and keys. Unreadable states are skipped.
    pub fn states(&self) -> io::Result<Vec<State>> {
        let mut states = Vec::new();
        for step in self.state_steps()?.into_iter().rev() {
            let mut folders = entries(&self.root.join("states").join(step.to_string()))?;
            folders.sort_unstable();
            let keys = folders.iter().filter_map(|path| path.file_name()?.to_str()?.parse().ok());
            states.extend(keys.filter_map(|key| self.find_state(step, key)));
        }
        Ok(states)
    }

    /// True if there is such a state.
    pub fn has_state(&self, step: u64, key: Key) -> bool {
        self.state(step, key).join(ABOUT).is_file()
    }

    /// The description of a state, if there is one.
    pub fn find_state(&self, step: u64, key: Key) -> Option<State> {
        let text = fs::read(self.state(step, key).join(ABOUT)).ok()?;
        let state: State = serde_json::from_slice(&text).ok()?;
        (state.format <= FORMAT && state.key == key && state.step == step).then_some(state)
    }

    /// Stores a state, whose files `put` creates in a folder. Returns false if the state exists, which is then kept, or without files.
    pub fn keep_state(&self, mut state: State, put: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<bool> {
        let place = self.state(state.step, state.key);
        if self.find_state(state.step, state.key).is_some() {
            return Ok(false);
        }
        let _span = info_span!(target: log::STORE, "keep state", step = state.step).entered();
        failpoints::point("state: before its folder")?;
        let staging = self.root.join("staging");
        fs::create_dir_all(&staging)?;
        // The remains of a killed engine have a key as name, and are found by it.
        let temporary = tempfile::Builder::new().prefix(&format!("{}.", state.key)).tempdir_in(&staging)?;
        let files = temporary.path().join(FILES);
        fs::create_dir(&files)?;
        put(&files)?;
        failpoints::point("state: the files are there")?;
        state.files = record::of_folder(&files)?;
        if state.files.is_empty() {
            return Ok(false);
        }
        let mut description = fs::File::create(temporary.path().join(ABOUT))?;
        let text = serde_json::to_vec_pretty(&state)?;
        failpoints::write_all(&mut description, &text, "state: before its description", "state: in its description")?;
        drop(description);
        disk::sync(temporary.path(), state.files.len() + 1)?;
        let Some(parent) = place.parent() else { return Err(io::ErrorKind::InvalidInput.into()) };
        failpoints::point("state: synced")?;
        fs::create_dir_all(parent)?;
        if place.exists() && self.find_state(state.step, state.key).is_none() {
            remove_if_there(&place)?;
        }
        failpoints::point("state: before the rename")?;
        match fs::rename(temporary.path(), &place) {
            // Another process has stored the same state.
            Err(_) if self.find_state(state.step, state.key).is_some() => return Ok(false),
            renamed => renamed?,
        }
        // States have the same readers as records.
        fs::set_permissions(&place, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
        failpoints::point("state: renamed")?;
        fs::File::open(parent)?.sync_all()?;
        failpoints::point("state: kept")?;
        Ok(true)
    }

    /// Puts the files of a state into a folder, as hard links if they may not be written to, else as copies. Returns
    /// `false` if the files have changed since they were kept; then the state is removed.
    pub fn take_state(&self, state: &State, to: &Path, is_read_only: bool) -> io::Result<bool> {
        let from = self.state(state.step, state.key).join(FILES);
        remove_if_there(to)?;
        fs::create_dir_all(to)?;
        for (name, digest) in &state.files {
            let (source, target) = (from.join(name), to.join(name));
            if let Some(parent) = target.parent() {
                fs::create_dir_all(parent)?;
            }
            let result = match digest {
                Digest::Link { to } => std::os::unix::fs::symlink(to, &target),
                Digest::File { .. } if is_read_only && std::fs::hard_link(&source, &target).is_ok() => Ok(()),
                Digest::File { .. } => fs::copy(&source, &target).map(drop),
            };
            match result {
                // A sweep that has ended meanwhile does not need the state anymore.
                Err(error) if error.kind() == io::ErrorKind::NotFound => break,
                result => result?,
            }
        }
        failpoints::point("state: taken")?;
        let is_whole = record::of_folder(to)? == state.files;
        if !is_whole {
            warn!(target: log::STORE, step = state.step, "a state has changed since it was kept, and is not used");
            remove_if_there(to)?;
            self.remove_state(state.step, state.key)?;
        }
        Ok(is_whole)
    }

    /// Removes a state. If another process copies the state at the same time, the copy is incomplete and is not used.
    pub fn remove_state(&self, step: u64, key: Key) -> io::Result<()> {
        let place = self.state(step, key);
        // Without its description, no process begins to use the state.
        super::lock::remove_file_if_there(&place.join(ABOUT))?;
        failpoints::point("state: in its removal")?;
        remove_if_there(&place)?;
        if let Some(parent) = place.parent() {
            // Others may be there.
            let _ = fs::remove_dir(parent);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Damage to the folder of a state's files.
    type Damage = fn(&Path);

    fn key(digit: char) -> Key {
        digit.to_string().repeat(64).parse().unwrap()
    }

    fn kept(store: &Store, step: u64, digit: char, text: &str) -> State {
        let state = State::new(step, key(digit), "train", key('a'), "train".into());
        let put = |folder: &Path| {
            fs::create_dir(folder.join("after-3"))?;
            fs::write(folder.join("after-3/x"), text)
        };
        assert!(store.keep_state(state, put).unwrap());
        store.find_state(step, key(digit)).unwrap()
    }

    #[test]
    fn a_state_is_kept_once_and_taken_whole() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path());
        store.create().unwrap();
        assert!(store.states().unwrap().is_empty());
        let state = kept(&store, 3, '1', "weights");
        assert_eq!((state.bytes(), store.state_steps().unwrap()), (7, vec![3]));
        let duplicate = State::new(3, key('1'), "train", key('b'), "other".into());
        assert!(!store.keep_state(duplicate, |_| panic!("it is there")).unwrap());
        kept(&store, 20, '2', "more");
        assert_eq!(store.state_steps().unwrap(), [20, 3]);
        let to = folder.path().join("to");
        for is_read_only in [true, false] {
            assert!(store.take_state(&state, &to, is_read_only).unwrap());
            assert_eq!(fs::read_to_string(to.join("after-3/x")).unwrap(), "weights");
        }
        // A copy is the job's own.
        fs::write(to.join("after-3/x"), "other").unwrap();
        assert!(store.take_state(&state, &to, true).unwrap());
        store.remove_state(3, key('1')).unwrap();
        assert_eq!((store.state_steps().unwrap(), store.has_state(3, key('1'))), (vec![20], false));
        assert!(store.keys().unwrap().is_empty(), "states are no records");
    }

    #[test]
    fn a_state_that_has_changed_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path());
        store.create().unwrap();
        let to = folder.path().join("to");
        let damages: [Damage; 3] = [
            |files| fs::write(files.join("after-3/x"), "Weights").unwrap(),
            |files| fs::remove_file(files.join("after-3/x")).unwrap(),
            |files| fs::remove_dir_all(files).unwrap(),
        ];
        for damage in damages {
            let state = kept(&store, 3, '1', "weights");
            damage(&store.state(3, key('1')).join(FILES));
            assert!(!store.take_state(&state, &to, true).unwrap());
            assert!(!to.exists() && !store.has_state(3, key('1')));
        }
        // A torn description counts as missing, and does not prevent a new one.
        let state = kept(&store, 3, '1', "weights");
        fs::write(store.state(3, key('1')).join(ABOUT), "{").unwrap();
        assert_eq!((store.find_state(3, key('1')), store.states().unwrap()), (None, vec![]));
        assert_eq!(kept(&store, 3, '1', "weights").files, state.files);
    }
}
