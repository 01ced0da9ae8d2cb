//! Transfer of records to another machine: a tar archive with a folder for each.
//!
//! Archives are not trusted: only files, folders and links that stay inside are accepted, and the key and the digests
//! are computed again.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, Read, Write},
    path::{Component, Path, PathBuf},
};

use fs_err as fs;
use tar::{Builder, EntryType, Header};

use super::{
    Claim, Notes, Origin, Pending, Record, Store, StoreError, lease::unique, remove_if_there, verify::wrong_key,
};
use crate::{
    host::archive::{self, Item, Unreadable},
    record::{self, Digest, Key, Observation, ReadSet},
};

/// The folder in the archive.
const TOP: &str = "sweep-records";
/// Prefix of the folders below `staging` that archives are unpacked to.
pub(super) const IMPORT: &str = "import-";
/// The file in a record's folder of the archive that lists the files that its job was observed to read.
const OBSERVATION: &str = "observation.json";
/// The file in a record's folder of the archive that has the tags and notes on the record.
const NOTES: &str = "notes.json";
/// A record is never larger.
const MAX_RECORD: u64 = 1 << 30;

/// Results for an archive's records.
#[derive(Debug, Default, PartialEq)]
pub struct Imported {
    /// Records that are new here.
    pub added: usize,
    /// Records that were here already.
    pub known: usize,
    /// Records that were not taken, and why.
    pub refused: Vec<(Key, String)>,
}

/// Error of writing or reading an archive.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// An I/O error.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// An error of the store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The archive is torn, malicious, or not an archive of records.
    #[error("this is not an archive of records: {0}")]
    Foreign(String),
    /// The record is of other files than its key.
    #[error("{0}")]
    Unwanted(String),
    /// A chosen record is damaged.
    #[error("the record {0} is damaged: {1}")]
    Damaged(String, String),
}

impl From<Unreadable> for TransferError {
    fn from(error: Unreadable) -> Self {
        Self::Foreign(error.to_string())
    }
}

impl Store {
    /// Writes these records to an archive. The same records make the same archive.
    pub fn export(&self, keys: &BTreeSet<Key>, to: impl Write) -> Result<(), TransferError> {
        let mut archive = Builder::new(to);
        let mut manifests = self.manifests();
        for key in keys {
            let no_record = || io::Error::new(io::ErrorKind::NotFound, format!("the record {} is gone", key.short()));
            let text = self.text(*key)?.ok_or_else(no_record)?;
            let record = Record::parse(&text, &self.record_file(*key), *key).map_err(StoreError::from)?;
            let top = format!("{TOP}/{key}");
            append(&mut archive, &format!("{top}/record.json"), &text)?;
            let base = record.identity.base_key().map_err(io::Error::from)?;
            let observation = manifests.observation(base, *key);
            if record.read.is_some() && observation.as_ref().map(|(manifest, _)| &manifest.set) != record.read.as_ref()
            {
                let reason = "the list of the files that its program read is missing or damaged".to_owned();
                return Err(TransferError::Damaged(key.short(), reason));
            }
            if let Some((manifest, set)) = observation {
                let environment = set.environment.as_deref().and_then(|id| self.environment(id));
                let observation = Observation { manifest, set: ReadSet::clone(&set), environment };
                let text = serde_json::to_vec(&observation).map_err(io::Error::from)?;
                append(&mut archive, &format!("{top}/{OBSERVATION}"), &text)?;
            }
            let notes = self.notes(*key)?;
            if !notes.is_empty() {
                append(&mut archive, &format!("{top}/{NOTES}"), &notes.to_text().map_err(io::Error::from)?)?;
            }
            let files = self.files(*key);
            let actual_files = if files.is_dir() { record::of_folder(&files)? } else { BTreeMap::new() };
            if actual_files != record.files {
                let reason = "its files have changed; `sweep cache verify` lists them".to_owned();
                return Err(TransferError::Damaged(key.short(), reason));
            }
            for (name, file) in &actual_files {
                let path = format!("{top}/files/{name}");
                match file {
                    Digest::Link { to } => {
                        let mut header = header(EntryType::Symlink, 0);
                        archive.append_link(&mut header, path, to)?;
                    }
                    Digest::File { bytes, .. } => {
                        let mut header = header(EntryType::Regular, *bytes);
                        archive.append_data(&mut header, path, fs::File::open(files.join(name))?)?;
                    }
                }
            }
        }
        archive.into_inner()?.flush()?;
        Ok(())
    }

    /// Imports the records of an archive that the store lacks, each marked with its origin.
    pub fn import(&self, from: impl Read, origin: &Origin) -> Result<Imported, TransferError> {
        self.bring(from, None, origin)
    }

    /// Takes this record from an archive that has it and no other.
    pub fn import_only(&self, from: impl Read, key: Key, origin: &Origin) -> Result<Imported, TransferError> {
        self.bring(from, Some(key), origin)
    }

    /// Takes the record of a claimed job from an archive that has it and no other. The record was made on a machine of
    /// the user, so it has no origin. `is_wanted` may refuse the files that the program has read.
    pub fn import_claimed(
        &self,
        from: impl Read,
        pending: Pending,
        is_wanted: impl FnOnce(&ReadSet) -> Result<(), String>,
    ) -> Result<(), TransferError> {
        let key = pending.key();
        self.unpacked(from, Some(key), |staging, _| {
            let folder = staging.join(key.to_string());
            let damage = |reason| TransferError::Damaged(key.short(), reason);
            let observation = checked(&folder, key).and_then(|record| observed(&folder, &record)).map_err(damage)?;
            if let Some(Observation { set, .. }) = observation {
                is_wanted(&set).map_err(TransferError::Unwanted)?;
            }
            self.put(&folder, pending, None)?.map_err(damage)
        })
    }

    fn bring(&self, from: impl Read, only_key: Option<Key>, origin: &Origin) -> Result<Imported, TransferError> {
        self.create()?;
        let _in_use = self.hold()?;
        self.unpacked(from, only_key, |staging, keys| self.take(staging, keys, origin))
    }

    /// Unpacks an archive beside the records, and removes the files after `take`.
    fn unpacked<T>(
        &self,
        from: impl Read,
        only_key: Option<Key>,
        take: impl FnOnce(&Path, BTreeSet<Key>) -> Result<T, TransferError>,
    ) -> Result<T, TransferError> {
        let staging = self.root.join("staging").join(format!("{IMPORT}{}-{}", std::process::id(), unique()));
        remove_if_there(&staging)?;
        fs::create_dir_all(&staging)?;
        let result = unpack(from, &staging, only_key).and_then(|keys| take(&staging, keys));
        remove_if_there(&staging)?;
        result
    }

    fn take(&self, staging: &Path, keys: BTreeSet<Key>, origin: &Origin) -> Result<Imported, TransferError> {
        let mut report = Imported::default();
        for key in keys {
            match self.claim(key)? {
                Claim::Hit(_) => {
                    report.known += 1;
                    self.bring_notes(&staging.join(key.to_string()), key, &mut report)?;
                }
                Claim::Busy => report.refused.push((key, "a sweep is running this job here".into())),
                Claim::Miss(pending) => match self.put(&staging.join(key.to_string()), pending, Some(origin))? {
                    Ok(()) => {
                        report.added += 1;
                        self.bring_notes(&staging.join(key.to_string()), key, &mut report)?;
                    }
                    Err(reason) => report.refused.push((key, reason)),
                },
            }
        }
        Ok(report)
    }

    /// Adds the notes that came with a record. Unusable notes are reported, and the record is still added.
    fn bring_notes(&self, folder: &Path, key: Key, report: &mut Imported) -> io::Result<()> {
        let text = match fs::read(folder.join(NOTES)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            text => text?,
        };
        match Notes::parse(&text) {
            Ok(notes) => self.merge_notes(key, notes),
            Err(reason) => {
                report.refused.push((key, format!("its notes cannot be used: {reason}")));
                Ok(())
            }
        }
    }

    /// Stores an unpacked record, if it matches its key; else returns the reason.
    fn put(
        &self,
        folder: &Path,
        pending: Pending,
        origin: Option<&Origin>,
    ) -> Result<Result<(), String>, TransferError> {
        let key = pending.key();
        let result = checked(folder, key).and_then(|record| Ok((observed(folder, &record)?, record)));
        let (observation, record) = match result {
            Ok(result) => result,
            Err(reason) => return Ok(Err(reason)),
        };
        if folder.join("files").is_dir() {
            fs::remove_dir(pending.dir())?;
            fs::rename(folder.join("files"), pending.dir())?;
        }
        if let Some(origin) = origin {
            pending.came_from(origin)?;
        }
        if let Some(Observation { manifest, set, environment }) = observation {
            if let Some(environment) = environment {
                self.add_environment(&environment)?;
            }
            self.add_manifest(&manifest, &set)?;
        }
        pending.commit(record)?;
        Ok(Ok(()))
    }
}

/// Returns the record in `folder`, if it matches `key`.
fn checked(folder: &Path, key: Key) -> Result<Record, String> {
    let path = folder.join("record.json");
    let text = fs::read(&path).map_err(|error| error.to_string())?;
    let record = Record::parse(&text, &path, key).map_err(|error| error.to_string())?;
    if let Some(reason) = wrong_key(&record) {
        return Err(reason);
    }
    let files = folder.join("files");
    let actual_files = if files.is_dir() { record::of_folder(&files) } else { Ok(BTreeMap::new()) };
    if actual_files.map_err(|error| error.to_string())? != record.files {
        return Err("its files do not match its digests".into());
    }
    Ok(record)
}

/// Reads the observation of an unpacked record, if there is one.
fn observed(folder: &Path, record: &Record) -> Result<Option<Observation>, String> {
    match fs::read(folder.join(OBSERVATION)) {
        Ok(text) => Observation::parse(&text, record)
            .map(Some)
            .map_err(|reason| format!("its list of the files that the job read cannot be used: {reason}")),
        Err(error) if error.kind() == io::ErrorKind::NotFound && record.read.is_some() => {
            Err("the archive lacks the list of the files that the job read".to_owned())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

fn header(kind: EntryType, bytes: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(bytes);
    header.set_mode(0o644);
    header.set_mtime(0);
    header
}

fn append(archive: &mut Builder<impl Write>, path: &str, content: &[u8]) -> io::Result<()> {
    archive.append_data(&mut header(EntryType::Regular, content.len() as u64), path, content)
}

/// Unpacks an archive into an empty folder, and returns the keys of its records. With `only_key`, an archive with another
/// record is refused.
fn unpack(mut from: impl Read, into: &Path, only_key: Option<Key>) -> Result<BTreeSet<Key>, TransferError> {
    let mut keys = BTreeSet::new();
    // Made last, and never on the way to anything else: so nothing is written through a link.
    let mut links: BTreeMap<PathBuf, PathBuf> = BTreeMap::new();
    archive::each(&mut from, |Item { path, link, entry }| {
        let foreign = |problem: &str| TransferError::Foreign(format!("{problem} `{}`", path.display()));
        let Some((key, inner_path)) = place(&path) else { return Err(foreign("it holds")) };
        if only_key.is_some_and(|only_key| only_key != key) {
            return Err(TransferError::Foreign(format!("it holds the record of another job, {}", key.short())));
        }
        keys.insert(key);
        let target = into.join(key.to_string()).join(&inner_path);
        if target.ancestors().any(|ancestor| links.contains_key(ancestor)) {
            return Err(foreign("it contains an entry below or instead of a link:"));
        }
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent)?;
        }
        match entry.header().entry_type() {
            EntryType::Directory => fs::create_dir_all(&target)?,
            EntryType::Regular => {
                if !inner_path.starts_with("files") && entry.size() > MAX_RECORD {
                    return Err(foreign("there is no such record as"));
                }
                // An existing file may be a link that leads out of the folder, so the target must be new.
                let mut file = fs::OpenOptions::new().create_new(true).write(true).open(&target)?;
                io::copy(entry, &mut file)?;
            }
            EntryType::Symlink if inner_path.starts_with("files") => {
                let to = link.unwrap_or_default();
                if !stays_inside(&inner_path, &to) {
                    return Err(foreign("a link leads out of its record:"));
                }
                links.insert(target, to);
            }
            _ => return Err(foreign("it contains an entry that is neither a file nor a folder:")),
        }
        Ok(())
    })?;
    if keys.is_empty() {
        return Err(TransferError::Foreign("it is empty".to_owned()));
    }
    if only_key.is_some() && !is_blank(from)? {
        return Err(TransferError::Foreign("there is data after its end".to_owned()));
    }
    for (target, to) in &links {
        fs::os::unix::fs::symlink(to, target)?;
    }
    Ok(keys)
}

/// True if only zeros are left, with which an archive is padded.
fn is_blank(mut reader: impl Read) -> io::Result<bool> {
    let mut buffer = [0; 4096];
    loop {
        match reader.read(&mut buffer)? {
            0 => return Ok(true),
            count if buffer[..count].iter().any(|byte| *byte != 0) => return Ok(false),
            _ => {}
        }
    }
}

/// Returns the key of the record that a path in the archive belongs to, and the path inside the record.
fn place(path: &Path) -> Option<(Key, PathBuf)> {
    let inner_path = path.strip_prefix(TOP).ok()?;
    let mut parts = inner_path.components();
    let key: Key = parts.next()?.as_os_str().to_str()?.parse().ok()?;
    let file_path: PathBuf = parts.collect();
    let is_normal = file_path.components().all(|part| matches!(part, Component::Normal(_)));
    let is_known = ["record.json", OBSERVATION, NOTES].iter().any(|name| file_path == Path::new(name))
        || file_path.starts_with("files");
    (is_normal && is_known).then_some((key, file_path))
}

/// Checks that a link at `path` (which begins with `files`) leads to a path in `files`: up at most to `files`, and then
/// only down. The way up passes no link, and a link on the way down is checked itself.
fn stays_inside(path: &Path, to: &Path) -> bool {
    let mut up = path.components().count().saturating_sub(2);
    let mut has_descended = false;
    for part in to.components() {
        match part {
            Component::Normal(_) => has_descended = true,
            Component::CurDir => {}
            Component::ParentDir if up > 0 && !has_descended => up -= 1,
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests;
