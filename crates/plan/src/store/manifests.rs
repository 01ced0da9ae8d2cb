//! Manifests: the observed reads of the jobs of records.
//!
//! `manifests/list.jsonl` has a line for each observed run, appended before its record is committed: a manifest without record is harmless,
//! while a record without manifest would look like a record of a job that reads only its declared inputs. `manifests/sets/` has the sets of
//! files, each once, and `manifests/environments/` the environments that the sets name.
//!
//! A line has a digest, and a record names the set of its run. So a line that is damaged or lost is noticed, and written again
//! from its record.

use std::{
    collections::{HashMap, HashSet},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
    time::Duration,
};

use sweep_base::planted;
use sweep_job::Tool;

use super::{Store, entries};
use crate::{
    format::{count, say},
    host::{failpoints, files as fs},
    plan::{ENVIRONMENTS, Manifests, set_file},
    record::{Environment, Key, Line, Manifest, ReadSet},
};

/// Held while a line is appended. Simulated engines share their process, and would wait for each other.
#[cfg(not(feature = "simulate"))]
static APPENDING: std::sync::Mutex<()> = std::sync::Mutex::new(());
/// Name of the lock of the list in a store that several machines use.
const LOCK: &str = "manifests";

impl Store {
    /// The manifests of all records. Missing lines are written again.
    pub fn manifests(&self) -> Manifests {
        let mut manifests = self.listed_manifests();
        if self.unlisted(&mut manifests).is_empty() {
            return manifests;
        }
        // A job that ended meanwhile has written its line before its record.
        manifests = self.listed_manifests();
        let missing_manifests = self.unlisted(&mut manifests);
        for manifest in &missing_manifests {
            manifests.add(manifest.clone());
        }
        if !missing_manifests.is_empty() {
            let (list, number) = (self.manifest_list(), count(missing_manifests.len(), "line"));
            let end = match self.append_manifests(&missing_manifests) {
                Ok(()) => "written again from the records".to_owned(),
                Err(error) => format!("which cannot be written again: {error}"),
            };
            say(format_args!("warning: {} lacks {number}, {end}", list.display()));
        }
        manifests
    }

    /// The manifests that the list has.
    pub fn listed_manifests(&self) -> Manifests {
        Manifests::open(&self.manifest_list(), self.sets())
    }

    /// Manifests that the list lacks, of records that name a set.
    fn unlisted(&self, manifests: &mut Manifests) -> Vec<Manifest> {
        let mut sets = self.sets_of_records().unwrap_or_default();
        sets.retain(|(key, set)| !manifests.lists(*key, set));
        let manifest = |(record, set): (Key, String)| {
            let identity =
                self.get(record).ok().flatten().filter(|candidate| candidate.read.as_ref() == Some(&set))?.identity;
            let (base, own_files) = (identity.base_key().ok()?, manifests.own_of(&set));
            // A record does not name its tool, and nothing depends on the tool.
            Some(Manifest { base, record, code: identity.code, set, tool: Tool::Kernel, own: own_files })
        };
        sets.into_iter().filter_map(manifest).collect()
    }

    pub(super) fn manifest_list(&self) -> PathBuf {
        self.root.join("manifests").join("list.jsonl")
    }

    pub(super) fn sets(&self) -> PathBuf {
        self.root.join("manifests").join("sets")
    }

    /// The set with this identifier; `None` if it cannot be read.
    pub fn set(&self, id: &str) -> Option<ReadSet> {
        ReadSet::parse(&fs::read(set_file(&self.sets(), id)?).ok()?, id)
    }

    /// The folder of the environments that sets name.
    fn environments(&self) -> PathBuf {
        self.root.join("manifests").join(ENVIRONMENTS)
    }

    /// The environment with this identifier; `None` if it cannot be read.
    pub fn environment(&self, id: &str) -> Option<Environment> {
        Environment::parse(&fs::read(set_file(&self.environments(), id)?).ok()?, id)
    }

    /// Stores an environment, unless the store has it; returns its identifier.
    pub fn add_environment(&self, environment: &Environment) -> io::Result<String> {
        let id = environment.id();
        if let Some(path) = set_file(&self.environments(), &id) {
            self.add_content(&path, &serde_json::to_vec(environment)?)?;
        }
        Ok(id)
    }

    pub(super) fn add_manifest(&self, manifest: &Manifest, set: &ReadSet) -> io::Result<()> {
        let Some(path) = set_file(&self.sets(), &manifest.set) else {
            return Err(io::Error::other("the identifier of a set is none"));
        };
        self.add_content(&path, &serde_json::to_vec(set)?)?;
        self.append_manifests(std::slice::from_ref(manifest))
    }

    fn append_manifests(&self, manifests: &[Manifest]) -> io::Result<()> {
        let mut lines = Vec::new();
        for manifest in manifests {
            lines.extend(manifest.to_line()?);
        }
        let list = self.manifest_list();
        if let Some(folder) = list.parent() {
            fs::create_dir_all(folder)?;
        }
        // Appending is atomic among the processes of one machine only, and a failure in the middle of a line is not.
        #[cfg(not(feature = "simulate"))]
        let _guard = APPENDING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let _lock = if self.is_shared() { Some(self.wait_for_lock()?) } else { None };
        let mut file = fs::OpenOptions::new().read(true).append(true).create(true).open(&list)?;
        fs::lock(&file)?;
        if !planted!(TornLineStays) {
            cut_torn_line(&mut file)?;
        }
        failpoints::write_all(&mut file, &lines, "manifest: before the line", "manifest: in the line")?;
        file.sync_data()?;
        self.settle(&list)?;
        failpoints::point("manifest: done")
    }

    /// Writes the file of a set or of an environment, unless it is there, so that it outlives a crash of the machine.
    fn add_content(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        let Some(folder) = path.parent() else { return Err(io::Error::from(io::ErrorKind::InvalidInput)) };
        // It may have been removed since, while this process did not use the store.
        if self.is_settled(path) && path.is_file() {
            return Ok(());
        }
        // The process that has written it may not have brought its name to the disk; and a damaged one would make its jobs run
        // again each time.
        if fs::read(path).is_ok_and(|found| found == content) {
            return self.settle(path);
        }
        failpoints::point("manifest: before the set")?;
        fs::create_dir_all(folder)?;
        // In the store's own folder, where the remains of killed processes are found.
        let mut file = fs::NamedTempFile::new_in(&self.root)?;
        failpoints::write_all(&mut file, content, "manifest: set made", "manifest: in the set")?;
        file.as_file().sync_all()?;
        self.unsettle(path);
        file.persist(path).map_err(|error| error.error)?;
        self.settle(path)?;
        failpoints::point("manifest: set written")
    }

    fn wait_for_lock(&self) -> io::Result<super::Held> {
        // A dead holder's lease lasts for minutes, and each request creates files on the server.
        const LONGEST: Duration = Duration::from_secs(1);
        let mut interval = Duration::from_millis(20);
        loop {
            if let Some(lock) = self.lock(LOCK)? {
                return Ok(lock);
            }
            fs::pause(interval);
            interval = (interval * 2).min(LONGEST);
        }
    }

    /// Removes the manifests without record, and the sets without manifest. The store must not be in use.
    pub(super) fn remove_manifests(&self) -> io::Result<()> {
        let list = self.manifest_list();
        let text = match fs::read(&list) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            text => text?,
        };
        let mut exists: HashMap<Key, bool> = HashMap::new();
        let mut remaining_text = Vec::with_capacity(text.len());
        // A state may exist without the record of its job.
        let mut sets: HashSet<String> = self.states()?.into_iter().filter_map(|state| state.set).collect();
        for line in text.split(|byte| *byte == b'\n') {
            let Some(manifest) = Line::parse(line).manifest() else { continue };
            if *exists.entry(manifest.record).or_insert_with(|| self.contains(manifest.record)) {
                remaining_text.extend_from_slice(line);
                remaining_text.push(b'\n');
                sets.insert(manifest.set);
            }
        }
        if remaining_text != text {
            self.sync_moves(exists.into_iter().filter(|(_, exists)| !exists).map(|(key, _)| key))?;
            let mut file = fs::NamedTempFile::new_in(&self.root)?;
            file.write_all(&remaining_text)?;
            file.as_file().sync_all()?;
            failpoints::point("gc: before the manifests")?;
            file.persist(&list).map_err(|error| error.error)?;
        }
        let environment = |set: &String| {
            let text = fs::read(set_file(&self.sets(), set)?).ok()?;
            ReadSet::parse(&text, set)?.environment
        };
        let environments: HashSet<String> = sets.iter().filter_map(environment).collect();
        remove_others(&self.sets(), &sets)?;
        remove_others(&self.environments(), &environments)
    }
}

/// Removes the files with other names from the folders in a folder.
fn remove_others(folder: &Path, names: &HashSet<String>) -> io::Result<()> {
    for shard in entries(folder)? {
        for file in entries(&shard)? {
            if !file.file_name().and_then(|name| name.to_str()).is_some_and(|name| names.contains(name)) {
                super::lock::remove_file_if_there(&file)?;
            }
        }
    }
    Ok(())
}

/// Removes an incomplete last line: its writer was killed before it committed the record.
fn cut_torn_line(file: &mut fs::File) -> io::Result<()> {
    if file.seek(SeekFrom::End(0))? == 0 {
        return Ok(());
    }
    file.seek(SeekFrom::End(-1))?;
    let mut last_byte = [0];
    file.read_exact(&mut last_byte)?;
    if last_byte == *b"\n" {
        return Ok(());
    }
    let mut text = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut text)?;
    let length = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    file.set_len(length as u64)
}
