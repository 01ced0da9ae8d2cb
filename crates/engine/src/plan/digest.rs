//! Digests of input files: a key depends on a file's content only.
//!
//! A file is read once for each of its contents. The digest is cached by path, with the file's size, times and inode,
//! and is valid while all of them are unchanged. A file that was changed recently may change again without a change of
//! any of them: clocks have ticks, and of the writes through a shared mapping only the first since the page was last
//! written to the disk changes the times. Such a file is read again until it has been unchanged for long enough.

use std::{
    collections::{BTreeMap, HashMap},
    fs::Metadata,
    io::{self, Write as _},
    os::unix::fs::MetadataExt as _,
    path::{Component, Path, PathBuf},
    time::{Duration, SystemTime},
};

use fs_err as fs;
use serde::{Deserialize, Serialize};

use super::code::Manifests;
use crate::record::Own;

/// Digests of files, remembered from one run of the program to the next.
#[derive(Debug, Default)]
pub struct Digests {
    /// The file that they are kept in; `None` keeps them for this run only.
    file: Option<PathBuf>,
    known: BTreeMap<String, Entry>,
    /// Digests that this run has requested, of files and folders.
    asked: HashMap<PathBuf, String>,
    /// The folders among it, by inode: links may lead to one in many ways. `None` for those on the current path.
    folders: HashMap<(u64, u64), Option<String>>,
    changed: bool,
    /// Files that were read.
    read: usize,
    /// Digests of files that are not on this machine.
    locked: Option<Locked>,
    /// Files that earlier runs of jobs read.
    pub(super) manifests: Manifests,
}

/// Digests of files on the machine that had them.
#[derive(Debug)]
struct Locked {
    digests: BTreeMap<PathBuf, String>,
    /// The folder here that stands for one there.
    here: PathBuf,
    there: PathBuf,
}

/// State of a file when it was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    stamp: Stamp,
    digest: String,
}

/// Values that change with a file's content: size, times of the last change of content and of anything, in nanoseconds,
/// and inode. Not the number of its disk: each machine gives a shared one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Stamp {
    size: u64,
    mtime: i128,
    ctime: i128,
    inode: u64,
}

/// The file's form.
#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    format: u32,
    files: BTreeMap<String, Entry>,
}

const FORMAT: u32 = 1;
/// A digest begins so if the file is one of tokens by its name.
const BIN: &str = "bin:";
/// Time without changes before a file's times are trusted: longer than the 35 s after which Linux has written every
/// page that was changed through a mapping, and updates the time at the next such write.
const REST: Duration = Duration::from_mins(1);
/// The same for a file of the store, which no process has mapped: longer than the ticks of any file system's clock (FAT
/// has two seconds).
const TICK: Duration = Duration::from_secs(3);

impl Digests {
    /// Those that `file` remembers. One that cannot be read remembers nothing.
    pub fn open(file: PathBuf) -> Self {
        let kept = fs::read(&file).ok().and_then(|text| serde_json::from_slice::<Kept>(&text).ok());
        let known = kept.filter(|kept| kept.format == FORMAT).map(|kept| kept.files).unwrap_or_default();
        Self { file: Some(file), known, ..Self::default() }
    }

    /// Those of files on another machine, by their paths there, of which the folder `there` is `here` on this one. No file
    /// is read.
    pub fn locked(digests: BTreeMap<PathBuf, String>, here: PathBuf, there: PathBuf) -> Self {
        Self { locked: Some(Locked { digests, here, there }), ..Self::default() }
    }

    /// The same, with the files that earlier runs of jobs read.
    #[must_use]
    pub fn with_manifests(self, manifests: Manifests) -> Self {
        Self { manifests, ..self }
    }

    /// True if a job of the store, or of this run, left a path in this state.
    pub(crate) fn is_left(&self, path: &str, state: &str) -> bool {
        self.manifests.is_left(path, state)
    }

    /// True if jobs are known to change a path that they look at.
    pub(crate) fn is_rewritten(&self, path: &str) -> bool {
        self.manifests.is_rewritten(path)
    }

    /// True if a job has made what is at a path of a project.
    pub(crate) fn is_made(&mut self, project: &Path, path: &Path) -> bool {
        let manifests = std::mem::take(&mut self.manifests);
        let is_made = manifests.is_made(project, path, self);
        self.manifests = manifests;
        is_made
    }

    /// Adds the paths that a job has changed.
    pub(crate) fn add_own(&mut self, own: &Own) {
        self.manifests.add_own(own);
    }

    /// The digest of a file's content; an error for anything else.
    pub(crate) fn of_file(&mut self, path: &Path) -> io::Result<String> {
        if self.asked.contains_key(path) || fs::metadata(path)?.is_file() {
            return self.of(path);
        }
        Err(io::Error::other("it is not a file"))
    }

    /// The digest of a file's content, or of a folder's: the names and digests of its files, sorted. The same path has the same
    /// digest as long as this lives.
    pub fn of(&mut self, path: &Path) -> io::Result<String> {
        self.at(path, SystemTime::now())
    }

    /// The digest that a path has now.
    pub(crate) fn now(&mut self, path: &Path) -> io::Result<String> {
        self.forget();
        self.of(path)
    }

    /// Looks at every path again from now on.
    pub(crate) fn forget(&mut self) {
        self.asked.clear();
        self.folders.clear();
    }

    /// The BLAKE3 digest that a file of the store has now, in hexadecimal.
    pub(crate) fn of_artifact(&mut self, path: &Path) -> io::Result<String> {
        let digest = self.file(path, Stamp::of(&fs::metadata(path)?), SystemTime::now(), TICK)?;
        Ok(digest.strip_prefix(BIN).map(str::to_owned).unwrap_or(digest))
    }

    fn at(&mut self, path: &Path, now: SystemTime) -> io::Result<String> {
        if let Some(digest) = self.asked.get(path) {
            return Ok(digest.clone());
        }
        if let Some(locked) = &self.locked {
            return locked.of(path).ok_or_else(|| io::Error::other("its digest is unknown here"));
        }
        let metadata = fs::metadata(path)?;
        let digest = if metadata.is_dir() {
            self.folder(path, &metadata, now)?
        } else if metadata.is_file() {
            self.file(path, Stamp::of(&metadata), now, REST)?
        } else {
            return Err(io::Error::other("it is neither a file nor a folder"));
        };
        self.asked.insert(path.to_owned(), digest.clone());
        Ok(digest)
    }

    fn folder(&mut self, path: &Path, metadata: &Metadata, now: SystemTime) -> io::Result<String> {
        let place = (metadata.dev(), metadata.ino());
        match self.folders.get(&place) {
            Some(Some(digest)) => return Ok(digest.clone()),
            Some(None) => {
                return Err(io::Error::other(format!("{} is a link to a folder that contains it", path.display())));
            }
            None => {}
        }
        self.folders.insert(place, None);
        let digest = self.entries(path, now);
        self.folders.remove(&place);
        self.folders.extend(digest.as_ref().ok().map(|digest| (place, Some(digest.clone()))));
        digest
    }

    fn entries(&mut self, path: &Path, now: SystemTime) -> io::Result<String> {
        let mut names: Vec<_> = fs::read_dir(path)?.map(|entry| Ok(entry?.file_name())).collect::<io::Result<_>>()?;
        names.sort_unstable();
        let mut hasher = blake3::Hasher::new();
        for name in names {
            hasher.update(name.as_encoded_bytes());
            hasher.update(&[0]);
            hasher.update(self.at(&path.join(name), now)?.as_bytes());
        }
        Ok(format!("folder:{}", hasher.finalize().to_hex()))
    }

    fn file(&mut self, path: &Path, stamp: Stamp, now: SystemTime, rest: Duration) -> io::Result<String> {
        let absolute = std::path::absolute(path)?;
        let name = absolute.to_str();
        if let Some(entry) = name.and_then(|name| self.known.get(name))
            && entry.stamp == stamp
        {
            return Ok(entry.digest.clone());
        }
        self.read += 1;
        let digest = content_digest(path)?;
        // It may have been written to while it was read.
        let settled = Stamp::of(&fs::metadata(path)?) == stamp && stamp.has_rested(now, rest);
        if let Some(name) = name.filter(|_| settled) {
            self.known.insert(name.to_owned(), Entry { stamp, digest: digest.clone() });
            self.changed = true;
        }
        Ok(digest)
    }

    /// Keeps what is new for the next run. Where there is no store yet, or it cannot be written, nothing is lost but time.
    pub(crate) fn keep(&mut self) {
        let Some(file) = self.file.as_deref().filter(|_| self.changed) else { return };
        let Some(folder) = file.parent().filter(|folder| folder.is_dir()) else { return };
        self.known.retain(|path, _| Path::new(path).exists());
        let kept = Kept { format: FORMAT, files: self.known.clone() };
        let write = || -> io::Result<()> {
            let mut temporary = tempfile::NamedTempFile::new_in(folder)?;
            temporary.write_all(&serde_json::to_vec(&kept)?)?;
            temporary.persist(file)?;
            Ok(())
        };
        let _ = write();
        self.changed = false;
    }
}

impl Locked {
    fn of(&self, path: &Path) -> Option<String> {
        let there = path.strip_prefix(&self.here).map_or_else(|_| path.to_owned(), |inner| self.there.join(inner));
        self.digests.get(&normal(&there)).cloned()
    }
}

/// The digest of the content that a file has now.
pub(crate) fn content_digest(path: &Path) -> io::Result<String> {
    let mut hasher = blake3::Hasher::new();
    io::copy(&mut fs::File::open(path)?, &mut hasher)?;
    // What a task reads from a file may depend on its extension: `.bin` holds tokens, not text.
    let prefix = path.extension().filter(|extension| *extension == "bin").map_or("", |_| BIN);
    Ok(format!("{prefix}{}", hasher.finalize().to_hex()))
}

/// An absolute path without detours.
pub(crate) fn normal(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut normal = PathBuf::new();
    for part in absolute.components() {
        match part {
            Component::ParentDir => {
                normal.pop();
            }
            Component::CurDir => {}
            part => normal.push(part),
        }
    }
    normal
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        let nanoseconds = |seconds: i64, rest: i64| i128::from(seconds) * 1_000_000_000 + i128::from(rest);
        Self {
            size: metadata.size(),
            mtime: nanoseconds(metadata.mtime(), metadata.mtime_nsec()),
            ctime: nanoseconds(metadata.ctime(), metadata.ctime_nsec()),
            inode: metadata.ino(),
        }
    }

    fn has_rested(self, now: SystemTime, rest: Duration) -> bool {
        let now = now.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        let latest = self.mtime.max(self.ctime) + i128::try_from(rest.as_nanos()).unwrap_or(0);
        i128::try_from(now).is_ok_and(|now| latest < now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn later() -> SystemTime {
        SystemTime::now() + 2 * REST
    }

    #[test]
    fn a_folder_is_its_files_names_and_contents() {
        let folder = tempfile::tempdir().unwrap();
        let digest = |path: &Path| Digests::default().of(path).unwrap();
        fs::write(folder.path().join("a"), "1").unwrap();
        let first = digest(folder.path());
        fs::write(folder.path().join("a"), "2").unwrap();
        let second = digest(folder.path());
        fs::rename(folder.path().join("a"), folder.path().join("b")).unwrap();
        let third = digest(folder.path());
        assert!(first != second && second != third && first != third);
        fs::copy(folder.path().join("b"), folder.path().join("b.bin")).unwrap();
        assert_ne!(digest(&folder.path().join("b")), digest(&folder.path().join("b.bin")), "tokens are no text");
    }

    #[test]
    fn what_has_rested_is_read_once() {
        let folder = tempfile::tempdir().unwrap();
        let (kept, file) = (folder.path().join("digests"), folder.path().join("data"));
        fs::write(&file, "content").unwrap();
        let mut first = Digests::open(kept.clone());
        let digest = first.at(&file, later()).unwrap();
        assert_eq!(first.at(&file, later()).unwrap(), digest);
        assert_eq!(first.read, 1);
        first.keep();
        let mut second = Digests::open(kept.clone());
        assert_eq!((second.at(&file, later()).unwrap(), second.read), (digest.clone(), 0));
        fs::write(&file, "another").unwrap();
        let mut third = Digests::open(kept);
        assert_ne!(third.at(&file, later()).unwrap(), digest);
        assert_eq!(third.read, 1);
    }

    /// An edit in the tick of the clock in which the file was read leaves its size and its times as they were.
    #[test]
    fn what_was_just_changed_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let (kept, file) = (folder.path().join("digests"), folder.path().join("data"));
        fs::write(&file, "one").unwrap();
        let mut first = Digests::open(kept.clone());
        let digest = first.of(&file).unwrap();
        first.keep();
        assert!(!kept.exists(), "nothing about a file that was just written is kept");
        fs::write(&file, "two").unwrap();
        assert_ne!(Digests::open(kept).of(&file).unwrap(), digest);
    }

    #[test]
    fn a_file_with_another_ones_times_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let (kept, file) = (folder.path().join("digests"), folder.path().join("data"));
        fs::write(&file, "one").unwrap();
        let time = fs::metadata(&file).unwrap().modified().unwrap();
        let mut first = Digests::open(kept.clone());
        let digest = first.at(&file, later()).unwrap();
        first.keep();
        // As `cp --preserve` and `touch -r` do.
        fs::write(&file, "two").unwrap();
        fs::File::options().write(true).open(&file).unwrap().file().set_modified(time).unwrap();
        assert_ne!(Digests::open(kept).at(&file, later()).unwrap(), digest);
    }

    /// Each of these folders has two links to the next, so that there are 2^35 ways to the last.
    #[test]
    fn links_that_double_are_followed_once() {
        const DEPTH: usize = 35;
        let folder = tempfile::tempdir().unwrap();
        let at = |depth: usize| folder.path().join(depth.to_string());
        for depth in 0..DEPTH {
            fs::create_dir(at(depth)).unwrap();
            for name in ["a", "b"] {
                fs::os::unix::fs::symlink(at(depth + 1), at(depth).join(name)).unwrap();
            }
        }
        fs::create_dir(at(DEPTH)).unwrap();
        let first = Digests::default().of(&at(0)).unwrap();
        fs::write(at(DEPTH).join("file"), "content").unwrap();
        assert_ne!(Digests::default().of(&at(0)).unwrap(), first);
        // With copies in the place of links it is the same.
        let twice = |inner: &str| blake3::hash(format!("a\0{inner}b\0{inner}").as_bytes()).to_hex();
        let last = Digests::default().of(&at(DEPTH)).unwrap();
        assert_eq!(Digests::default().of(&at(DEPTH - 1)).unwrap(), format!("folder:{}", twice(&last)));

        fs::os::unix::fs::symlink(at(0), at(DEPTH).join("back")).unwrap();
        let error = Digests::default().of(&at(0)).unwrap_err();
        assert!(error.to_string().contains("is a link to a folder that contains it"), "{error}");
    }

    #[test]
    fn what_is_asked_for_again_is_looked_at_again() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("data.bin");
        fs::write(&file, "one").unwrap();
        let mut digests = Digests::default();
        let first = digests.of(&file).unwrap();
        fs::write(&file, "two").unwrap();
        assert_eq!(digests.of(&file).unwrap(), first, "one plan, one content");
        assert_ne!(digests.now(&file).unwrap(), first);
        assert_eq!(digests.of_artifact(&file).unwrap(), blake3::hash(b"two").to_hex().to_string());
    }

    /// A file that is written through a shared mapping may change without its times, until the system has brought the pages
    /// to the disk.
    #[test]
    fn what_a_mapping_may_still_change_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let (kept, file) = (folder.path().join("digests"), folder.path().join("data"));
        fs::write(&file, "one").unwrap();
        for (after, known) in [(10, false), (40, false), (70, true)] {
            let mut digests = Digests::open(kept.clone());
            digests.at(&file, SystemTime::now() + Duration::from_secs(after)).unwrap();
            digests.keep();
            assert_eq!(kept.exists(), known, "{after} s after it was written");
        }
    }

    #[test]
    fn a_damaged_memory_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let (kept, file) = (folder.path().join("digests"), folder.path().join("data"));
        fs::write(&file, "one").unwrap();
        for text in ["", "{", "{\"format\":9,\"files\":{}}"] {
            fs::write(&kept, text).unwrap();
            assert!(Digests::open(kept.clone()).of(&file).is_ok());
        }
    }
}
