//! Digests of input files: a key depends on a file's content only.
//!
//! A file is read once for each of its contents. The digest is cached by path, with the file's size, times and inode,
//! and is valid while all of them are unchanged. A file that was changed recently may change again without a change of
//! any of them: clocks have ticks, and of the writes through a shared mapping only the first since the page was last
//! written to the disk changes the times. Such a file is read again until it has been unchanged for long enough.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fs::Metadata,
    io,
    os::unix::fs::MetadataExt as _,
    path::{Component, Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use fs_err as fs;
use serde::{Deserialize, Serialize};
use sweep_job::{FileStamp, Ignore};

use super::{code::Manifests, environment::Parts, made::Made};
use crate::{
    host::replaced::{Outlives, Readers, replace},
    record::Own,
};

/// Digests of files, remembered from one run of the program to the next.
#[derive(Debug, Default)]
pub struct Digests {
    /// The file in which the digests are kept; `None` keeps them for this run only.
    file: Option<PathBuf>,
    known: BTreeMap<String, Entry>,
    /// Digests of files that this run has requested.
    asked: HashMap<PathBuf, String>,
    /// Inputs that this run has requested, by their paths and the patterns of ignored files.
    inputs: HashMap<(PathBuf, Vec<String>), String>,
    /// Files in inputs at the time when the inputs had the digest that a job was planned with.
    before: HashMap<(PathBuf, Vec<String>), (String, Arc<Tree>)>,
    /// Compiled patterns.
    ignores: HashMap<Vec<String>, Arc<Ignore>>,
    /// Files that jobs made in inputs.
    made: Made,
    changed: bool,
    /// Files that were read.
    read: usize,
    /// True if the results folder was found in an input, and left out.
    found_results: bool,
    /// Digests of files that are not on this machine.
    locked: Option<Locked>,
    /// Files that earlier runs of jobs read.
    pub(super) manifests: Manifests,
    /// Programs and libraries of environments.
    pub(super) parts: Parts,
}

/// Files and folders of an input by their paths from it, with the digests of files; `None` for folders.
pub type Tree = BTreeMap<PathBuf, Option<String>>;

/// A walk through an input folder.
struct Walk {
    ignore: Arc<Ignore>,
    /// Device and inode of the results folder.
    results: Option<(u64, u64)>,
    /// Digests of folders by inode, and by the path from the input where patterns are about that: links may lead to one folder in
    /// many ways. `None` for the folders on the current path.
    folders: HashMap<(u64, u64, PathBuf), Option<String>>,
    found: Tree,
    now: SystemTime,
}

/// Digests of files on the machine that had them.
#[derive(Debug)]
struct Locked {
    digests: BTreeMap<PathBuf, String>,
    /// The local folder that corresponds to the folder `there`.
    here: PathBuf,
    there: PathBuf,
    /// Digests of files by the digests of their paths on the other machine, which are unknown on this one.
    hidden: BTreeMap<String, String>,
    /// Files that were there and have no digest here.
    present: BTreeSet<PathBuf>,
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
/// Prefix of the digest of a file of tokens, which is recognized by its name.
const BIN: &str = "bin:";
/// Time without changes before a file's times are trusted: longer than the 35 s after which Linux has written every
/// page that was changed through a mapping, and updates the time at the next such write.
const REST: Duration = Duration::from_mins(1);
/// Time without changes before the times of a file of the store are trusted. No process has mapped such a file, so the time
/// is only longer than the ticks of any file system's clock (FAT has two seconds).
const TICK: Duration = Duration::from_secs(3);

impl Digests {
    /// Opens the digests in `file`. An unreadable file counts as empty. The file is in a store, whose results folder is not part of any
    /// input.
    pub fn open(file: PathBuf) -> Self {
        let cache = fs::read(&file).ok().and_then(|text| serde_json::from_slice::<Kept>(&text).ok());
        let known = cache.filter(|cache| cache.format == FORMAT).map(|cache| cache.files).unwrap_or_default();
        let made = file.parent().map(Made::open).unwrap_or_default();
        Self { file: Some(file), known, made, ..Self::default() }
    }

    /// Creates the digests of files on another machine, by their paths there, whose folder `there` is `here` on this
    /// machine. No file is read.
    pub fn locked(digests: BTreeMap<PathBuf, String>, here: PathBuf, there: PathBuf) -> Self {
        Self {
            locked: Some(Locked { digests, here, there, hidden: BTreeMap::new(), present: BTreeSet::new() }),
            ..Self::default()
        }
    }

    /// Adds the digests of files on the other machine by the [`hidden`] form of their paths.
    #[must_use]
    pub fn with_hidden(mut self, digests: BTreeMap<String, String>) -> Self {
        if let Some(locked) = &mut self.locked {
            locked.hidden = digests;
        }
        self
    }

    /// Adds files that exist on the other machine and have no digests.
    #[must_use]
    pub fn with_present(mut self, files: BTreeSet<PathBuf>) -> Self {
        if let Some(locked) = &mut self.locked {
            locked.present = files;
        }
        self
    }

    /// True if there is a file or a folder at this path, or was on the machine that has the files.
    pub(super) fn is_there(&self, path: &Path) -> bool {
        match &self.locked {
            Some(locked) => locked.of(path).is_some() || locked.present.contains(&normal(path)),
            None => path.exists(),
        }
    }

    /// True if the files are on another machine.
    pub(super) fn is_locked(&self) -> bool {
        self.locked.is_some()
    }

    /// Replaces the manifests, which list the files that earlier runs of jobs read.
    #[must_use]
    pub fn with_manifests(self, manifests: Manifests) -> Self {
        Self { manifests, ..self }
    }

    /// True if a job of the store, or of this run, left a path in this state.
    pub fn is_left(&self, path: &str, state: &str) -> bool {
        self.manifests.is_left(path, state)
    }

    /// True if jobs are known to change the path, which they also read.
    pub fn is_rewritten(&self, path: &str) -> bool {
        self.manifests.is_rewritten(path)
    }

    /// True if a job has created the file at a path of a project.
    pub fn is_made_in(&mut self, project: &Path, path: &Path) -> bool {
        let manifests = std::mem::take(&mut self.manifests);
        let is_made = manifests.is_made(project, path, self);
        self.manifests = manifests;
        is_made
    }

    /// Adds the paths that a job has changed.
    pub fn add_own(&mut self, own: &Own) {
        self.manifests.add_own(own);
    }

    /// The digest of a file's content; an error for anything else.
    pub fn of_file(&mut self, path: &Path) -> io::Result<String> {
        let metadata = fs::metadata(path)?;
        if !metadata.is_file() {
            return Err(io::Error::other("it is not a file"));
        }
        self.content(path, &metadata, SystemTime::now())
    }

    /// Returns the present digest of a file's content, ignoring the cached one.
    pub(super) fn of_file_now(&mut self, path: &Path) -> io::Result<String> {
        self.asked.remove(path);
        self.of_file(path)
    }

    /// The digest of a file's content, or of the sorted names and digests of a folder's files. A path keeps its digest for
    /// the lifetime of this value.
    pub fn of(&mut self, path: &Path) -> io::Result<String> {
        self.at(path, &[], SystemTime::now())
    }

    /// The digest that a file had in this state, if it was read then.
    pub fn in_state(&self, path: &Path, state: FileStamp) -> Option<&str> {
        let Entry { stamp, digest } = self.known.get(path.to_str()?)?;
        let is_same = (stamp.size, stamp.mtime, stamp.inode) == (state.size, i128::from(state.mtime), state.inode);
        is_same.then_some(digest)
    }

    /// The digest of a file or folder like [`Digests::of`], without the files of a folder that `ignore_patterns` match.
    pub fn of_input(&mut self, path: &Path, ignore_patterns: &[String]) -> io::Result<String> {
        self.at(path, ignore_patterns, SystemTime::now())
    }

    /// The digest that an input has now.
    pub fn now(&mut self, path: &Path, ignore_patterns: &[String]) -> io::Result<String> {
        self.forget();
        self.of_input(path, ignore_patterns)
    }

    /// Makes all later calls examine every path again.
    pub fn forget(&mut self) {
        self.asked.clear();
        self.inputs.clear();
    }

    /// The state of an input, which has this digest: to be compared with a later one.
    pub fn tree(&mut self, path: &Path, ignore_patterns: &[String]) -> io::Result<Tree> {
        self.forget();
        self.walked(path, ignore_patterns, SystemTime::now()).map(|(_, tree)| tree)
    }

    /// The state of an input when it had this digest, if it has had it since this was opened.
    pub fn tree_before(&self, path: &Path, ignore_patterns: &[String], digest: &str) -> Option<Arc<Tree>> {
        let (known_digest, tree) = self.before.get(&(path.to_owned(), ignore_patterns.to_vec()))?;
        (known_digest == digest).then(|| Arc::clone(tree))
    }

    /// Files that jobs made in inputs.
    pub fn made(&mut self) -> &mut Made {
        &mut self.made
    }

    /// True if the results folder was found in an input since the last call.
    pub(super) fn take_found_results(&mut self) -> bool {
        std::mem::take(&mut self.found_results)
    }

    /// The results folder that this belongs to.
    pub(super) fn results(&self) -> Option<&Path> {
        self.file.as_deref()?.parent()?.parent()
    }

    /// The BLAKE3 digest that a file of the store has now, in hexadecimal.
    pub fn of_artifact(&mut self, path: &Path) -> io::Result<String> {
        let digest = self.file(path, Stamp::of(&fs::metadata(path)?), SystemTime::now(), TICK)?;
        Ok(digest.strip_prefix(BIN).map(str::to_owned).unwrap_or(digest))
    }

    fn at(&mut self, path: &Path, ignore_patterns: &[String], now: SystemTime) -> io::Result<String> {
        if let Some(locked) = &self.locked {
            return locked.of(path).ok_or_else(|| io::Error::other("its digest is unknown here"));
        }
        let place = (path.to_owned(), ignore_patterns.to_vec());
        if let Some(digest) = self.inputs.get(&place) {
            return Ok(digest.clone());
        }
        let (digest, tree) = self.walked(path, ignore_patterns, now)?;
        // Jobs are planned with the first state; no job accepts a later state with other content.
        if self.before.get(&place).is_none_or(|(known_digest, _)| *known_digest == digest) {
            self.before.insert(place.clone(), (digest.clone(), Arc::new(tree)));
        }
        self.inputs.insert(place, digest.clone());
        Ok(digest)
    }

    /// The digest of a file or of a folder, and all that is in it.
    fn walked(&mut self, path: &Path, ignore_patterns: &[String], now: SystemTime) -> io::Result<(String, Tree)> {
        let ignore = match self.ignores.get(ignore_patterns) {
            Some(ignore) => Arc::clone(ignore),
            None => Arc::new(Ignore::new(ignore_patterns).map_err(io::Error::other)?),
        };
        self.ignores.insert(ignore_patterns.to_vec(), Arc::clone(&ignore));
        let results = self.results().and_then(|results| std::fs::metadata(results).ok());
        let results = results.map(|metadata| (metadata.dev(), metadata.ino()));
        let mut walk = Walk { ignore, results, folders: HashMap::new(), found: Tree::new(), now };
        let metadata = fs::metadata(path).map_err(|error| unreadable(path, error, true))?;
        let digest = self.entry(&mut walk, path, Path::new(""), &metadata)?;
        Ok((digest, walk.found))
    }

    /// The digest of something at a path, which is `inner_path` from the input.
    fn entry(&mut self, walk: &mut Walk, path: &Path, inner_path: &Path, metadata: &Metadata) -> io::Result<String> {
        if metadata.is_dir() {
            return self.folder(walk, path, inner_path, metadata);
        }
        if !metadata.is_file() {
            return Err(io::Error::other(format!("{} is neither a file nor a folder", path.display())));
        }
        let digest = self.content(path, metadata, walk.now)?;
        walk.found.insert(inner_path.to_owned(), Some(digest.clone()));
        Ok(digest)
    }

    /// The digest of a file.
    fn content(&mut self, path: &Path, metadata: &Metadata, now: SystemTime) -> io::Result<String> {
        if let Some(digest) = self.asked.get(path) {
            return Ok(digest.clone());
        }
        let digest = self.file(path, Stamp::of(metadata), now, REST)?;
        self.asked.insert(path.to_owned(), digest.clone());
        Ok(digest)
    }

    fn folder(&mut self, walk: &mut Walk, path: &Path, inner_path: &Path, metadata: &Metadata) -> io::Result<String> {
        let relative = if walk.ignore.is_by_name() { PathBuf::new() } else { inner_path.to_owned() };
        let place = (metadata.dev(), metadata.ino(), relative);
        match walk.folders.get(&place) {
            Some(Some(digest)) => {
                walk.found.insert(inner_path.to_owned(), None);
                return Ok(digest.clone());
            }
            Some(None) => {
                return Err(io::Error::other(format!("{} is a link to a folder that contains it", path.display())));
            }
            None => {}
        }
        walk.folders.insert(place.clone(), None);
        walk.found.insert(inner_path.to_owned(), None);
        let digest = self.entries(walk, path, inner_path)?;
        walk.folders.insert(place, Some(digest.clone()));
        Ok(digest)
    }

    fn entries(&mut self, walk: &mut Walk, path: &Path, inner_path: &Path) -> io::Result<String> {
        let mut names: Vec<_> = fs::read_dir(path)?.map(|entry| Ok(entry?.file_name())).collect::<io::Result<_>>()?;
        names.sort_unstable();
        let mut hasher = blake3::Hasher::new();
        for name in names {
            let (path, inner_path) = (path.join(&name), inner_path.join(&name));
            let Some(metadata) = self.counted(walk, &path, &inner_path)? else { continue };
            let digest = self.entry(walk, &path, &inner_path, &metadata)?;
            if self.is_made(walk, &path, &inner_path, &digest) {
                continue;
            }
            hasher.update(name.as_encoded_bytes());
            hasher.update(&[0]);
            hasher.update(digest.as_bytes());
        }
        Ok(format!("folder:{}", hasher.finalize().to_hex()))
    }

    /// The metadata of something in a folder; `None` if it is ignored, or the results folder.
    fn counted(&mut self, walk: &Walk, path: &Path, inner_path: &Path) -> io::Result<Option<Metadata>> {
        let text = inner_path.to_string_lossy();
        let metadata = match fs::metadata(path) {
            Ok(metadata) => metadata,
            // A lock of an editor is a link that leads nowhere.
            Err(_) if walk.ignore.is_ignored(&text, false) => return Ok(None),
            Err(error) => return Err(unreadable(path, error, false)),
        };
        if walk.results == Some((metadata.dev(), metadata.ino())) {
            self.found_results = true;
            return Ok(None);
        }
        Ok((!walk.ignore.is_ignored(&text, metadata.is_dir())).then_some(metadata))
    }

    /// True if jobs created a file, or a folder with no other files.
    fn is_made(&self, walk: &mut Walk, path: &Path, inner_path: &Path, digest: &str) -> bool {
        if !self.made.has_name(path) {
            return false;
        }
        let has_entries = |walk: &Walk| {
            walk.found.range(inner_path.to_owned()..).nth(1).is_some_and(|(next, _)| next.starts_with(inner_path))
        };
        let is_made = match walk.found.get(inner_path) {
            Some(Some(_)) => self.made.is_made(path, digest),
            Some(None) => self.made.is_made(path, Made::FOLDER) && !has_entries(walk),
            None => false,
        };
        if is_made {
            walk.found.remove(inner_path);
        }
        is_made
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
        // The file may have been written to while it was read.
        let is_settled = Stamp::of(&fs::metadata(path)?) == stamp && stamp.has_rested(now, rest);
        if let Some(name) = name.filter(|_| is_settled) {
            self.known.insert(name.to_owned(), Entry { stamp, digest: digest.clone() });
            self.changed = true;
        }
        Ok(digest)
    }

    /// Writes the new digests for the next run. Without a writable store, only time is lost.
    pub fn keep(&mut self) {
        let Some(file) = self.file.as_deref().filter(|_| self.changed) else { return };
        if !file.parent().is_some_and(Path::is_dir) {
            return;
        }
        self.known.retain(|path, _| Path::new(path).exists());
        let cache = Kept { format: FORMAT, files: self.known.clone() };
        let _ = serde_json::to_vec(&cache)
            .map_err(io::Error::from)
            .and_then(|text| replace(file, &text, Readers::Owner, Outlives::Process));
        self.changed = false;
    }
}

impl Locked {
    fn of(&self, path: &Path) -> Option<String> {
        let original_path =
            path.strip_prefix(&self.here).map_or_else(|_| path.to_owned(), |inner| self.there.join(inner));
        let digest = self.digests.get(&normal(&original_path));
        digest.or_else(|| self.hidden.get(&hidden(path)).filter(|_| !self.hidden.is_empty())).cloned()
    }
}

/// The digest of the content that a file has now.
pub fn content_digest(path: &Path) -> io::Result<String> {
    let mut hasher = blake3::Hasher::new();
    io::copy(&mut fs::File::open(path)?, &mut hasher)?;
    Ok(digest_of(path, &hasher.finalize().to_hex()))
}

/// Returns the digest of a file from the digest of its bytes and its extension, on which the interpretation may depend:
/// `.bin` holds tokens, not text.
pub fn digest_of(path: &Path, bytes: &str) -> String {
    let prefix = path.extension().filter(|extension| *extension == "bin").map_or("", |_| BIN);
    format!("{prefix}{bytes}")
}

/// The error of a path in an input, with the path: without the path, a broken link would look like an error of the input itself. The input
/// itself may be missing.
fn unreadable(path: &Path, error: io::Error, is_input: bool) -> io::Error {
    if error.kind() != io::ErrorKind::NotFound {
        return error;
    }
    match fs::read_link(path) {
        Ok(to) => {
            let remedy = if is_input { "fix the link" } else { "fix or remove the link, or name it in `ignore`" };
            let (path, to) = (path.display(), to.display());
            io::Error::other(format!("`{path}` is a link to `{to}`, which does not exist; {remedy}"))
        }
        Err(_) if is_input => error,
        Err(_) => io::Error::other(format!("`{}` was removed while it was read", path.display())),
    }
}

/// Returns the digest of a path, which identifies a path from a recipe without revealing it.
pub fn hidden(path: &Path) -> String {
    blake3::hash(normal(path).as_os_str().as_encoded_bytes()).to_hex().to_string()
}

/// A path from a folder: with `..` where it is not in it.
pub fn relative(path: &Path, folder: &Path) -> PathBuf {
    let common = path.components().zip(folder.components()).take_while(|(component, other)| component == other).count();
    let up = folder.components().skip(common).map(|_| Component::ParentDir);
    up.chain(path.components().skip(common)).collect()
}

/// An absolute path without detours.
pub fn normal(path: &Path) -> PathBuf {
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
        let nanoseconds = |seconds: i64, fraction: i64| i128::from(seconds) * 1_000_000_000 + i128::from(fraction);
        Self {
            size: metadata.size(),
            mtime: nanoseconds(metadata.mtime(), metadata.mtime_nsec()),
            ctime: nanoseconds(metadata.ctime(), metadata.ctime_nsec()),
            inode: metadata.ino(),
        }
    }

    fn has_rested(self, now: SystemTime, rest: Duration) -> bool {
        let now = now.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |duration| duration.as_nanos());
        let latest = self.mtime.max(self.ctime) + i128::try_from(rest.as_nanos()).unwrap_or(0);
        i128::try_from(now).is_ok_and(|now| latest < now)
    }
}

#[cfg(test)]
mod tests;
