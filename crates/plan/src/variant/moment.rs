//! The files of projects as they were when a run began. A job that starts after an edit sees these files in its view of the project, so
//! that all jobs of a run use the same version.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fs::File,
    io::{self, Read as _},
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use fs_err as fs;
use sweep_job::{FileStamp, Ignore};
use sweep_observer::{Layer, View};
use tempfile::TempDir;

use super::{
    LAYERS,
    draft::{Content, Draft},
    is_direct,
};

/// Largest file of which a copy is kept, in bytes: code and settings are smaller, data is larger.
const MAX_BYTES: u64 = 1 << 20;
/// Maximum number of files of a project that are kept without a record that names them, and their maximum size in bytes.
const MAX_FILES: usize = 2_000;
const MAX_TOTAL: u64 = 64 << 20;
/// Maximum number of entries of folders that are searched for these files: a project may be a folder with a whole data set.
const MAX_ENTRIES: usize = 20_000;
/// Time between two comparisons with the project, as a multiple of the duration of a comparison.
const INTERVAL_FACTOR: u32 = 20;
/// Name of the folder of copies, in the folder of layers.
const COPIES: &str = "moments";
/// The file in a folder of copies that its process has locked.
const LOCK: &str = "lock";
/// The file beside these folders that a process locks while it creates or removes folders.
const GATE: &str = "gate";
/// Files that mark a folder of an environment or a build, which is not part of a project's code.
const MARKS: [&str; 3] = ["pyvenv.cfg", "conda-meta", "CACHEDIR.TAG"];
/// Extensions of logs, to which another process may append, such as `tee` with the output of the run. A name may have none.
const LOG_EXTENSIONS: [&str; 7] = ["csv", "err", "jsonl", "log", "out", "tsv", "txt"];
/// The folder of packages of JavaScript.
const PACKAGES: &str = "node_modules";

/// The projects of a run, as they were when it began. Without a run, there are no projects.
#[derive(Debug, Default)]
pub struct Moments(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    folder: Option<Folder>,
    /// The projects, by their folders.
    projects: BTreeMap<PathBuf, Moment>,
    /// True if this machine has private views of folders; `None` before the first edit.
    has_views: Option<bool>,
}

/// The folder of all copies, which is removed with the lock on it.
#[derive(Debug)]
struct Folder {
    place: TempDir,
    _lock: File,
}

/// The earlier state of a project.
#[derive(Debug)]
struct Moment {
    project: PathBuf,
    copies: PathBuf,
    layers: PathBuf,
    /// The stamps of files, by their paths in the project.
    files: BTreeMap<PathBuf, FileStamp>,
    /// The files among them that earlier jobs have read.
    read: BTreeSet<PathBuf>,
    /// The files that differ now, with their present stamps.
    edited: BTreeMap<PathBuf, Option<FileStamp>>,
    /// The time of the last comparison, and of the next one.
    compared: Option<(Instant, Duration)>,
    /// The layers that jobs have got, by the folders of the variants of their code.
    found: HashMap<Option<PathBuf>, Layer>,
}

impl Moments {
    /// Copies the files of projects that are not kept yet: the files that earlier jobs have read, and, in a project of usual size, all
    /// files that may be code. `results` is the results folder.
    ///
    /// # Errors
    /// A copy cannot be written. No files are kept then.
    pub fn begin(&self, results: &Path, projects: BTreeMap<PathBuf, BTreeSet<PathBuf>>) -> io::Result<()> {
        let mut state = self.state();
        for (project, known_files) in projects {
            if state.projects.contains_key(&project) {
                continue;
            }
            if state.folder.is_none() {
                state.folder = Some(Folder::new(&results.join(LAYERS).join(COPIES))?);
            }
            let Some(folder) = &state.folder else { continue };
            let place = folder.place.path().join(state.projects.len().to_string());
            let moment = Moment::of(&project, known_files, results, &place)?;
            state.projects.insert(project, moment);
        }
        Ok(())
    }

    /// Returns the layer with the earlier state of a project's files under `layer`, the layer of a variant; `None` if no file
    /// differs. Files that jobs write keep their present state: `is_written` returns true for their paths in the project.
    pub fn layer(&self, project: &Path, layer: &Layer, is_written: &dyn Fn(&Path) -> bool) -> Option<Layer> {
        let edited_paths = self.state().projects.get_mut(project)?.edited();
        // The lock is not held here, since this call takes other locks.
        let written_paths: Vec<PathBuf> = edited_paths.into_iter().filter(|path| is_written(path)).collect();
        self.state().projects.get_mut(project)?.layer(layer, &written_paths)
    }

    /// True if programs on this machine can find such a layer in a view of a project.
    pub(crate) fn have_views(&self) -> bool {
        let mut state = self.state();
        let Some(place) = state.folder.as_ref().map(|folder| folder.place.path().join("check")) else { return false };
        *state.has_views.get_or_insert_with(|| View::check(&place).is_ok())
    }

    /// Removes the copies.
    pub fn end(&self) {
        *self.state() = State::default();
    }

    /// The copy of the file at `path` in a project, and the stamp that the file had.
    pub fn copy(&self, project: &Path, path: &Path) -> Option<(PathBuf, FileStamp)> {
        let state = self.state();
        let moment = state.projects.get(project)?;
        Some((moment.copies.join(path), *moment.files.get(path)?))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Folder {
    /// Creates a folder in `place`, and removes the folders of processes that have ended without removing them.
    fn new(place: &Path) -> io::Result<Self> {
        fs::create_dir_all(place)?;
        // The lock keeps a process from removing the unfinished folder of another process as a leftover.
        let gate = File::create(place.join(GATE))?;
        gate.lock()?;
        for entry in fs::read_dir(place)?.flatten() {
            let is_left = File::open(entry.path().join(LOCK)).is_ok_and(|lock| lock.try_lock().is_ok());
            if is_left {
                // The next run retries the removal.
                let _ = fs::remove_dir_all(entry.path());
            }
        }
        let place = tempfile::Builder::new().prefix("run-").tempdir_in(place)?;
        let lock = File::create(place.path().join(LOCK))?;
        lock.try_lock().map_err(io::Error::from)?;
        Ok(Self { place, _lock: lock })
    }
}

impl Moment {
    fn of(project: &Path, known_files: BTreeSet<PathBuf>, results: &Path, place: &Path) -> io::Result<Self> {
        let mut moment = Self {
            project: project.to_owned(),
            copies: place.join("files"),
            layers: place.join("layers"),
            files: BTreeMap::new(),
            read: known_files.clone(),
            edited: BTreeMap::new(),
            compared: None,
            found: HashMap::new(),
        };
        fs::create_dir_all(&moment.copies)?;
        let mut paths = code_of(project, results).unwrap_or_default();
        paths.extend(known_files);
        for path in paths {
            moment.keep(path)?;
        }
        Ok(moment)
    }

    /// Keeps a copy of a file that is no larger than [`MAX_BYTES`], unless it changes meanwhile.
    fn keep(&mut self, path: PathBuf) -> io::Result<()> {
        // Paths may come from records, so no file is written through a link or outside of the copies.
        if !is_direct(&self.project, &path) || !is_direct(&self.copies, &path) {
            return Ok(());
        }
        let file = self.project.join(&path);
        let Some(stamp) = stamp(&file).filter(|stamp| stamp.size <= MAX_BYTES) else { return Ok(()) };
        let Ok(content) = Content::read(&file) else { return Ok(()) };
        content.write(&self.copies.join(&path))?;
        if self::stamp(&file) == Some(stamp) {
            self.files.insert(path, stamp);
        }
        Ok(())
    }

    fn layer(&mut self, variant: &Layer, written_paths: &[PathBuf]) -> Option<Layer> {
        for path in written_paths {
            self.files.remove(path);
            self.edited.remove(path);
            self.found.clear();
        }
        if self.edited.is_empty() {
            return None;
        }
        let name = variant.folder().map(Path::to_owned);
        if let Some(layer) = self.found.get(&name) {
            return Some(layer.clone());
        }
        // If the layer fails, the job sees the present files, and the end of the run reports the difference.
        let layer = self.over(variant).ok()?;
        self.found.insert(name, layer.clone());
        Some(layer)
    }

    /// The files that differ. The search for them takes at most one twentieth of the time.
    fn edited(&mut self) -> Vec<PathBuf> {
        if self.compared.is_none_or(|(at, pause)| at.elapsed() >= pause) {
            self.compare();
        }
        self.edited.keys().cloned().collect()
    }

    fn compare(&mut self) {
        let start = Instant::now();
        let change = |(path, old_stamp): (&PathBuf, &FileStamp)| {
            let new_stamp = stamp(&self.project.join(path));
            (new_stamp.as_ref() != Some(old_stamp)).then(|| (path.clone(), new_stamp))
        };
        let edited_files: BTreeMap<PathBuf, Option<FileStamp>> = self.files.iter().filter_map(change).collect();
        let (logs, edited_files): (BTreeMap<_, _>, BTreeMap<_, _>) =
            edited_files.into_iter().partition(|(path, _)| self.has_grown_log(path));
        self.files.retain(|path, _| !logs.contains_key(path));
        if edited_files != self.edited {
            self.edited = edited_files;
            self.found.clear();
        }
        self.compared = Some((Instant::now(), start.elapsed() * INTERVAL_FACTOR));
    }

    /// True for a file that no job has read and to which a process has only appended: the log of a program, not an edit.
    fn has_grown_log(&self, path: &Path) -> bool {
        let is_log = path.extension().is_none_or(|end| LOG_EXTENSIONS.iter().any(|log| end == *log));
        if !is_log || self.read.contains(path) {
            return false;
        }
        let (Ok(earlier), Ok(file)) = (fs::read(self.copies.join(path)), File::open(self.project.join(path))) else {
            return false;
        };
        let mut beginning = Vec::with_capacity(earlier.len());
        let is_read = file.take(earlier.len() as u64).read_to_end(&mut beginning).is_ok();
        is_read && beginning == earlier && !earlier.starts_with(b"#!")
    }

    /// The earlier files, under the files of a variant.
    fn over(&self, variant: &Layer) -> io::Result<Layer> {
        let mut draft = Draft::new(&self.project);
        for path in self.edited.keys() {
            draft.set(path.clone(), Content::read(&self.copies.join(path))?);
        }
        for (path, file) in variant.files() {
            draft.set(path.to_owned(), file.map_or(Ok(Content::Gone), |file| Content::read(&file))?);
        }
        draft.keep(&self.layers).map_err(io::Error::other)
    }
}

/// Returns the stamp of a file or link; `None` if `path` is neither.
fn stamp(path: &Path) -> Option<FileStamp> {
    let metadata = fs::symlink_metadata(path).ok()?;
    (metadata.is_file() || metadata.is_symlink()).then(|| FileStamp::of(&metadata))
}

/// The files of a project that may be code, by their paths in it; `None` if there are too many.
fn code_of(project: &Path, results: &Path) -> Option<BTreeSet<PathBuf>> {
    let results = fs::canonicalize(results).ok();
    let ignore = Ignore::new(&[]).unwrap_or_default();
    let mut files = BTreeSet::new();
    let (mut queue, mut total_bytes, mut entries) = (vec![PathBuf::new()], 0, 0);
    while let Some(folder) = queue.pop() {
        let place = project.join(&folder);
        let is_other = MARKS.iter().any(|mark| place.join(mark).exists())
            || folder.file_name().is_some_and(|name| name == PACKAGES)
            || results.as_deref() == fs::canonicalize(&place).ok().as_deref();
        if is_other && !folder.as_os_str().is_empty() {
            continue;
        }
        let Ok(listing) = fs::read_dir(&place) else { continue };
        for entry in listing.flatten() {
            entries += 1;
            if entries > MAX_ENTRIES {
                return None;
            }
            let (path, Ok(kind)) = (folder.join(entry.file_name()), entry.file_type()) else { continue };
            if ignore.is_ignored(&path.to_string_lossy(), kind.is_dir()) {
                continue;
            }
            if kind.is_dir() {
                queue.push(path);
                continue;
            }
            let Some(size) = entry.metadata().ok().map(|metadata| metadata.len()).filter(|size| *size <= MAX_BYTES)
            else {
                continue;
            };
            total_bytes += size;
            files.insert(path);
            if files.len() > MAX_FILES || total_bytes > MAX_TOTAL {
                return None;
            }
        }
    }
    Some(files)
}
