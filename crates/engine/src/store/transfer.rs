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

use super::{Claim, Origin, Pending, Record, Store, StoreError, lease::unique, remove_if_there, verify::wrong_key};
use crate::{
    host::archive::{self, Item, Unreadable},
    record::{self, Digest, Key, Observation, ReadSet},
};

/// The folder in the archive.
const TOP: &str = "sweep-records";
/// Prefix of the folders below `staging` that archives are unpacked to.
pub(super) const IMPORT: &str = "import-";
/// The file in a record's folder of the archive that has what its job was observed to read.
const OBSERVATION: &str = "observation.json";
/// A record is never larger.
const LARGEST_RECORD: u64 = 1 << 30;

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
    /// The disk says no.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The store says no.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// It is an archive of something else, torn, or made to do harm.
    #[error("the archive is not one of records: {0}")]
    Foreign(String),
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
            let gone = || io::Error::new(io::ErrorKind::NotFound, format!("the record {} is gone", key.short()));
            let text = self.text(*key)?.ok_or_else(gone)?;
            let record = Record::parse(&text, &self.record(*key), *key).map_err(StoreError::from)?;
            let top = format!("{TOP}/{key}");
            append(&mut archive, &format!("{top}/record.json"), &text)?;
            let base = record.identity.base_key().map_err(io::Error::from)?;
            if let Some((manifest, set)) = manifests.observation(base, *key) {
                let observation = Observation { manifest, set: ReadSet::clone(&set) };
                let text = serde_json::to_vec(&observation).map_err(io::Error::from)?;
                append(&mut archive, &format!("{top}/{OBSERVATION}"), &text)?;
            }
            let files = self.files(*key);
            let found = if files.is_dir() { record::of_folder(&files)? } else { BTreeMap::new() };
            if found != record.files {
                let reason = "its files have changed; `sweep cache verify` lists them".to_owned();
                return Err(TransferError::Damaged(key.short(), reason));
            }
            for (name, file) in &found {
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

    /// Takes the records of an archive that are not here yet, each marked with where it came from.
    pub fn import(&self, from: impl Read, origin: &Origin) -> Result<Imported, TransferError> {
        self.bring(from, None, origin)
    }

    /// Takes this record from an archive that has it and no other.
    pub fn import_only(&self, from: impl Read, key: Key, origin: &Origin) -> Result<Imported, TransferError> {
        self.bring(from, Some(key), origin)
    }

    /// Takes the record of a claimed job from an archive that has it and no other. It was made on a machine of the user's own,
    /// so it has no origin.
    pub fn import_claimed(&self, from: impl Read, pending: Pending) -> Result<(), TransferError> {
        let key = pending.key();
        self.unpacked(from, Some(key), |beside, _| {
            let refused = |reason| TransferError::Damaged(key.short(), reason);
            self.put(&beside.join(key.to_string()), pending, None)?.map_err(refused)
        })
    }

    fn bring(&self, from: impl Read, only: Option<Key>, origin: &Origin) -> Result<Imported, TransferError> {
        self.create()?;
        let _held = self.hold()?;
        self.unpacked(from, only, |beside, keys| self.take(beside, keys, origin))
    }

    /// Unpacks an archive beside the records for as long as `take` needs.
    fn unpacked<T>(
        &self,
        from: impl Read,
        only: Option<Key>,
        take: impl FnOnce(&Path, BTreeSet<Key>) -> Result<T, TransferError>,
    ) -> Result<T, TransferError> {
        let beside = self.root.join("staging").join(format!("{IMPORT}{}-{}", std::process::id(), unique()));
        remove_if_there(&beside)?;
        fs::create_dir_all(&beside)?;
        let result = unpack(from, &beside, only).and_then(|keys| take(&beside, keys));
        remove_if_there(&beside)?;
        result
    }

    fn take(&self, beside: &Path, keys: BTreeSet<Key>, origin: &Origin) -> Result<Imported, TransferError> {
        let mut imported = Imported::default();
        for key in keys {
            match self.claim(key)? {
                Claim::Hit(_) => imported.known += 1,
                Claim::Busy => imported.refused.push((key, "a sweep is running this job here".into())),
                Claim::Miss(pending) => match self.put(&beside.join(key.to_string()), pending, Some(origin))? {
                    Ok(()) => imported.added += 1,
                    Err(reason) => imported.refused.push((key, reason)),
                },
            }
        }
        Ok(imported)
    }

    /// Stores an unpacked record, if it is what it says; else answers the reason.
    fn put(
        &self,
        folder: &Path,
        pending: Pending,
        origin: Option<&Origin>,
    ) -> Result<Result<(), String>, TransferError> {
        let key = pending.key();
        let checked = checked(folder, key).and_then(|record| Ok((observed(folder, &record)?, record)));
        let (observation, record) = match checked {
            Ok(checked) => checked,
            Err(reason) => return Ok(Err(reason)),
        };
        if folder.join("files").is_dir() {
            fs::remove_dir(pending.dir())?;
            fs::rename(folder.join("files"), pending.dir())?;
        }
        if let Some(origin) = origin {
            pending.came_from(origin)?;
        }
        if let Some(Observation { manifest, set }) = observation {
            self.add_manifest(&manifest, &set)?;
        }
        pending.commit(record)?;
        Ok(Ok(()))
    }
}

/// A record from elsewhere, if it is what it says.
fn checked(folder: &Path, key: Key) -> Result<Record, String> {
    let path = folder.join("record.json");
    let text = fs::read(&path).map_err(|error| error.to_string())?;
    let record = Record::parse(&text, &path, key).map_err(|error| error.to_string())?;
    if let Some(reason) = wrong_key(&record) {
        return Err(reason);
    }
    let files = folder.join("files");
    let found = if files.is_dir() { record::of_folder(&files) } else { Ok(BTreeMap::new()) };
    if found.map_err(|error| error.to_string())? != record.files {
        return Err("its files do not match its digests".into());
    }
    Ok(record)
}

/// The observation of the job of a record from elsewhere, if there is one.
fn observed(folder: &Path, record: &Record) -> Result<Option<Observation>, String> {
    match fs::read(folder.join(OBSERVATION)) {
        Ok(text) => Observation::parse(&text, record.key, &record.identity)
            .map(Some)
            .map_err(|reason| format!("its list of the files that the job read cannot be used: {reason}")),
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

/// Unpacks an archive into an empty folder and answers whose records are in it. With `only`, another record in it refuses
/// all of it.
fn unpack(mut from: impl Read, into: &Path, only: Option<Key>) -> Result<BTreeSet<Key>, TransferError> {
    let mut keys = BTreeSet::new();
    // Made last, and never on the way to anything else: so nothing is written through a link.
    let mut links: BTreeMap<PathBuf, PathBuf> = BTreeMap::new();
    archive::each(&mut from, |Item { path, link, entry }| {
        let foreign = |what: &str| TransferError::Foreign(format!("{what} `{}`", path.display()));
        let Some((key, inner)) = place(&path) else { return Err(foreign("it holds")) };
        if only.is_some_and(|only| only != key) {
            return Err(TransferError::Foreign(format!("it holds the record of another job, {}", key.short())));
        }
        keys.insert(key);
        let target = into.join(key.to_string()).join(&inner);
        if target.ancestors().any(|ancestor| links.contains_key(ancestor)) {
            return Err(foreign("it contains an entry below or instead of a link:"));
        }
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent)?;
        }
        match entry.header().entry_type() {
            EntryType::Directory => fs::create_dir_all(&target)?,
            EntryType::Regular => {
                if !inner.starts_with("files") && entry.size() > LARGEST_RECORD {
                    return Err(foreign("there is no such record as"));
                }
                // What is there already may be a link that leads elsewhere.
                let mut file = fs::OpenOptions::new().create_new(true).write(true).open(&target)?;
                io::copy(entry, &mut file)?;
            }
            EntryType::Symlink if inner.starts_with("files") => {
                let to = link.unwrap_or_default();
                if !stays_inside(&inner, &to) {
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
    if only.is_some() && !is_blank(from)? {
        return Err(TransferError::Foreign("there is data after its end".to_owned()));
    }
    for (target, to) in &links {
        fs::os::unix::fs::symlink(to, target)?;
    }
    Ok(keys)
}

/// True if only zeros are left, with which an archive is padded.
fn is_blank(mut rest: impl Read) -> io::Result<bool> {
    let mut buffer = [0; 4096];
    loop {
        match rest.read(&mut buffer)? {
            0 => return Ok(true),
            count if buffer[..count].iter().any(|byte| *byte != 0) => return Ok(false),
            _ => {}
        }
    }
}

/// Whose record a path in the archive belongs to, and what it is there.
fn place(path: &Path) -> Option<(Key, PathBuf)> {
    let inner = path.strip_prefix(TOP).ok()?;
    let mut parts = inner.components();
    let key: Key = parts.next()?.as_os_str().to_str()?.parse().ok()?;
    let rest: PathBuf = parts.collect();
    let normal = rest.components().all(|part| matches!(part, Component::Normal(_)));
    let known = ["record.json", OBSERVATION].iter().any(|name| rest == Path::new(name)) || rest.starts_with("files");
    (normal && known).then_some((key, rest))
}

/// Checks that a link at `path` (which begins with `files`) leads to something in `files`: up first, as far as folders
/// go, and then down. No link is on its way up, and one on its way down stays inside itself.
fn stays_inside(path: &Path, to: &Path) -> bool {
    let mut up = path.components().count().saturating_sub(2);
    let mut down = false;
    for part in to.components() {
        match part {
            Component::Normal(_) => down = true,
            Component::CurDir => {}
            Component::ParentDir if up > 0 && !down => up -= 1,
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return false,
        }
    }
    true
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::record::sample;

    /// A store with one record that has a file and a link.
    pub(crate) fn store_with_one(results: &Path) -> (Store, Record) {
        let store = Store::new(results);
        let record = sample();
        let Claim::Miss(pending) = store.claim(record.key).unwrap() else { panic!("not done yet") };
        fs::create_dir(pending.dir().join("sub")).unwrap();
        fs::write(pending.dir().join("sub/weights"), "1 2 3").unwrap();
        fs::os::unix::fs::symlink("sub/weights", pending.dir().join("latest")).unwrap();
        let record = pending.commit(record).unwrap();
        (store, record)
    }

    fn origin() -> Origin {
        Origin { from: "file:///elsewhere".into(), at: jiff::Timestamp::UNIX_EPOCH, signed: None }
    }

    fn exported(store: &Store, key: Key) -> Vec<u8> {
        let mut archive = Vec::new();
        store.export(&BTreeSet::from([key]), &mut archive).unwrap();
        archive
    }

    #[test]
    fn records_travel_whole() {
        let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (store, record) = store_with_one(here.path());
        let archive = exported(&store, record.key);
        assert_eq!(archive, exported(&store, record.key), "the same records, the same archive");
        let other = Store::new(there.path());
        assert_eq!(other.import(archive.as_slice(), &origin()).unwrap(), Imported { added: 1, ..Imported::default() });
        assert_eq!(other.get(record.key).unwrap(), Some(record.clone()));
        assert_eq!(fs::read_to_string(other.folder(record.key).join("files/latest")).unwrap(), "1 2 3");
        assert_eq!(other.import(archive.as_slice(), &origin()).unwrap(), Imported { known: 1, ..Imported::default() });
        let verified = other.verify().unwrap();
        assert_eq!((verified.records, verified.files, verified.defects), (1, 2, vec![]));
    }

    /// A link makes the folders above a path others than they seem, so nothing may be written below one.
    #[test]
    fn nothing_is_written_through_a_link() {
        type Attempt<'a> = &'a dyn Fn(&mut Builder<Vec<u8>>);

        let key = sample().key;
        let top = format!("{TOP}/{key}/files");
        let link = |archive: &mut Builder<Vec<u8>>, path: &str, to: &str| {
            archive.append_link(&mut header(EntryType::Symlink, 0), format!("{top}/{path}"), to).unwrap();
        };
        let attempts: [Attempt<'_>; 4] = [
            &|archive| {
                link(archive, "p", ".");
                append(archive, &format!("{top}/p/evil"), b"x").unwrap();
            },
            &|archive| {
                link(archive, "p/q", "..");
                link(archive, "p/q/r", "../..");
                append(archive, &format!("{top}/p/q/r/evil"), b"x").unwrap();
            },
            &|archive| {
                link(archive, "p", ".");
                link(archive, "out", "p/../..");
            },
            &|archive| link(archive, "out", "../.."),
        ];
        for attempt in attempts {
            let folder = tempfile::tempdir().unwrap();
            let mut archive = Builder::new(Vec::new());
            attempt(&mut archive);
            let archive = archive.into_inner().unwrap();
            let refused = Store::new(&folder.path().join("results")).import(archive.as_slice(), &origin());
            assert!(matches!(refused, Err(TransferError::Foreign(_))), "{refused:?}");
            let names: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            assert!(names.iter().all(|name| name == "results"), "{names:?}");
        }
    }

    #[test]
    fn what_was_changed_on_the_way_is_refused() {
        let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (store, record) = store_with_one(here.path());
        let archive = exported(&store, record.key);
        for (from, to, reason) in [
            ("1 2 3", "1 2 4", "digests"),
            (
                "\"format\": 1,\n    \"task\": \"mock\"",
                "\"format\": 2,\n    \"task\": \"mock\"",
                "changed since it was written",
            ),
        ] {
            let at = archive.windows(from.len()).position(|window| window == from.as_bytes()).unwrap();
            let mut changed = archive.clone();
            changed[at..at + to.len()].copy_from_slice(to.as_bytes());
            let other = Store::new(there.path());
            let imported = other.import(changed.as_slice(), &origin()).unwrap();
            assert!(imported.refused[0].1.contains(reason), "{imported:?}");
            assert!(!other.contains(record.key));
        }
    }

    #[test]
    fn an_archive_for_one_job_has_its_record_and_nothing_else() {
        let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (store, record) = store_with_one(here.path());
        let mut other = sample();
        other.params.insert("value", sweep_job::Value::Float(7.0));
        other.identity.params = [("value".to_owned(), sweep_job::Value::Float(7.0))].into();
        other.key = other.identity.key().unwrap();
        let Claim::Miss(pending) = store.claim(other.key).unwrap() else { panic!("not done yet") };
        let other = pending.commit(other).unwrap();
        let mut both = Vec::new();
        store.export(&BTreeSet::from([record.key, other.key]), &mut both).unwrap();
        let mut trailed = exported(&store, record.key);
        trailed.extend(exported(&store, other.key));
        for archive in [both, trailed] {
            let taker = Store::new(there.path());
            let refused = taker.import_only(archive.as_slice(), record.key, &origin());
            assert!(matches!(refused, Err(TransferError::Foreign(_))), "{refused:?}");
            assert_eq!(taker.keys().unwrap(), []);
        }
        let taker = Store::new(there.path());
        let taken = taker.import_only(exported(&store, record.key).as_slice(), record.key, &origin()).unwrap();
        assert_eq!(taken, Imported { added: 1, ..Imported::default() });
        assert_eq!(taker.origin(record.key), Some(origin()));
        assert_eq!(store.origin(record.key), None, "what was made here comes from nowhere");
    }

    #[test]
    fn nothing_is_no_archive() {
        let results = tempfile::tempdir().unwrap();
        let refused = Store::new(results.path()).import(&[][..], &origin());
        assert!(matches!(refused, Err(TransferError::Foreign(_))), "{refused:?}");
    }

    #[test]
    fn an_archive_cannot_write_elsewhere() {
        let key = sample().key;
        let entry = |path: &str, kind: EntryType, link: &str| {
            let mut header = header(kind, 0);
            // Through the raw bytes: the library refuses to write such paths.
            header.as_gnu_mut().unwrap().name[..path.len()].copy_from_slice(path.as_bytes());
            header.as_gnu_mut().unwrap().linkname[..link.len()].copy_from_slice(link.as_bytes());
            header.set_cksum();
            header.as_bytes().to_vec()
        };
        let inside = format!("{TOP}/{key}");
        for (path, kind, link) in [
            ("../evil".to_owned(), EntryType::Regular, ""),
            ("/tmp/evil".to_owned(), EntryType::Regular, ""),
            (format!("{inside}/../evil"), EntryType::Regular, ""),
            (format!("{inside}/other"), EntryType::Regular, ""),
            (format!("{TOP}/notakey/record.json"), EntryType::Regular, ""),
            (format!("{inside}/files/l"), EntryType::Symlink, "/etc/passwd"),
            (format!("{inside}/files/l"), EntryType::Symlink, "../record.json"),
            (format!("{inside}/files/l"), EntryType::Link, "/etc/passwd"),
            (format!("{inside}/files/l"), EntryType::Char, ""),
        ] {
            let results = tempfile::tempdir().unwrap();
            let mut archive = entry(&path, kind, link);
            archive.extend([0; 1024]);
            let error = Store::new(results.path()).import(archive.as_slice(), &origin()).unwrap_err();
            assert!(matches!(error, TransferError::Foreign(_)), "{path} {link}: {error}");
        }
    }
}
