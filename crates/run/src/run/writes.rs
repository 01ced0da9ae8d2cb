//! Paths that the jobs of a run have written, as far as they were observed: files that one job writes into a folder do
//! not count as foreign changes for the jobs that read the same folder.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    ffi::OsString,
    os::unix::ffi::OsStringExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use fs_err as fs;

use super::shared::Changes;
use crate::store::Pending;

/// Interval at which a waiting job polls the reports of the others.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Paths that jobs have written.
#[derive(Debug, Default)]
pub(crate) struct Writes {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Paths that ended jobs have written.
    written: HashSet<PathBuf>,
    running: HashMap<usize, Running>,
    /// Number of beginnings and ends of jobs so far.
    moment: u64,
    /// The latest beginning of each job.
    begun: HashMap<usize, (u64, SystemTime)>,
    /// The files that ended jobs have changed or removed, each with the job and its end.
    changed: Vec<(usize, u64, HashSet<PathBuf>)>,
    /// The changes of shared files by ended jobs.
    shared: Changes,
}

/// A job that runs.
#[derive(Debug)]
struct Running {
    /// The folders that the job reads, without links.
    folders: Vec<PathBuf>,
    /// The file in which the program reports its file accesses.
    report: PathBuf,
    /// The file with the program's changes and reads of shared files.
    shared: PathBuf,
}

/// A guard of a running job: the job counts as ended when it is dropped.
#[derive(Debug)]
pub(crate) struct Writing {
    writes: Arc<Writes>,
    job: usize,
}

impl Writes {
    /// Records the start of a job.
    pub(crate) fn begin(self: &Arc<Self>, job: usize, folders: Vec<PathBuf>, pending: &Pending) -> Writing {
        let mut state = self.state();
        state.moment += 1;
        let begun = (state.moment, SystemTime::now());
        state.begun.insert(job, begun);
        let (report, shared) = (pending.report_of_reads(), pending.report_of_shared_files());
        state.running.insert(job, Running { folders, report, shared });
        drop(state);
        Writing { writes: Arc::clone(self), job }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The paths that jobs have written, including running jobs.
    pub(crate) fn known(&self) -> HashSet<PathBuf> {
        let state = self.state();
        let reports: Vec<PathBuf> = state.running.values().map(|running| running.report.clone()).collect();
        let mut paths = state.written.clone();
        drop(state);
        paths.extend(reports.iter().flat_map(|report| reported(report)));
        paths
    }

    /// True if another job that runs reads a folder.
    pub(crate) fn is_read_by_another(&self, job: usize, folder: &Path) -> bool {
        let folder = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
        self.state().is_read_by_another(job, &folder)
    }

    /// The shared files that a running job has written and read back, and that another job had changed in between.
    pub(crate) fn conflicts(&self, job: usize) -> BTreeSet<PathBuf> {
        let state = self.state();
        let Some(own) = state.running.get(&job).map(|running| running.shared.clone()) else { return BTreeSet::new() };
        if fs::metadata(&own).map_or(0, |report| report.len()) == 0 {
            return BTreeSet::new();
        }
        let mut changes = state.shared.clone();
        let others: Vec<(usize, PathBuf)> =
            state.running.iter().map(|(other, running)| (*other, running.shared.clone())).collect();
        drop(state);
        for (other, report) in others {
            changes.add(other, &report);
        }
        changes.conflicts(job, &own)
    }

    /// The time at which a job began.
    pub(crate) fn begun(&self, job: usize) -> Option<SystemTime> {
        self.state().begun.get(&job).map(|(_, time)| *time)
    }

    /// The files below a path that a job has changed or removed, and the files that concurrent jobs have changed that have ended.
    pub(crate) fn changed(&self, job: usize, path: &Path) -> (HashSet<PathBuf>, HashSet<PathBuf>) {
        let state = self.state();
        let begun = state.begun.get(&job).map_or(u64::MAX, |(moment, _)| *moment);
        let (mut own, mut others) = (HashSet::new(), HashSet::new());
        for (other, _, paths) in state.changed.iter().filter(|(_, ended, _)| *ended > begun) {
            let to = if *other == job { &mut own } else { &mut others };
            to.extend(paths.iter().filter(|changed| changed.starts_with(path)).cloned());
        }
        (own, others)
    }

    /// Waits until all other jobs that now read a folder have ended.
    pub(crate) fn wait_for_others(&self, job: usize, folder: &Path) {
        let mut state = self.state();
        let others: HashMap<usize, u64> = state
            .running
            .iter()
            .filter(|(other, running)| **other != job && running.reads(folder))
            .filter_map(|(other, _)| Some((*other, state.begun.get(other)?.0)))
            .collect();
        let still_runs = |state: &State| {
            others.iter().any(|(other, begun)| {
                state.running.contains_key(other) && state.begun.get(other).is_some_and(|(moment, _)| moment == begun)
            })
        };
        while still_runs(&state) {
            state = self.ended.wait_timeout(state, POLL_INTERVAL).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits until another job that reads a folder has ended, or may have reported a write; false if no such job runs.
    pub(crate) fn wait_for_another(&self, job: usize, folder: &Path) -> bool {
        let folder = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
        let state = self.state();
        if !state.is_read_by_another(job, &folder) {
            return false;
        }
        drop(self.ended.wait_timeout(state, POLL_INTERVAL).unwrap_or_else(PoisonError::into_inner));
        true
    }
}

impl State {
    /// Forgets the changes of shared files that no running job can conflict with.
    fn forget_changes(&mut self) {
        let begun = self.running.keys().filter_map(|job| self.begun.get(job)).map(|(_, time)| *time).min();
        self.shared.forget_before(begun.map_or(i64::MAX, nanoseconds));
    }

    fn is_read_by_another(&self, job: usize, folder: &Path) -> bool {
        self.running.iter().any(|(other, running)| *other != job && running.reads(folder))
    }
}

impl Running {
    /// True if the job reads a path in a folder, or a folder around it.
    fn reads(&self, folder: &Path) -> bool {
        self.folders.iter().any(|folder_read| folder_read.starts_with(folder) || folder.starts_with(folder_read))
    }
}

impl Writing {
    /// Records the end of the job, which has written the paths `written` and created the paths `made`.
    pub(crate) fn end(self, written: &HashSet<PathBuf>, made: &HashSet<PathBuf>) {
        let mut state = self.writes.state();
        state.written.extend(written.iter().cloned());
        state.moment += 1;
        let (job, moment) = (self.job, state.moment);
        let changed: HashSet<PathBuf> = written.difference(made).cloned().collect();
        if !changed.is_empty() {
            state.changed.push((job, moment, changed));
        }
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        let mut state = self.writes.state();
        if let Some(running) = state.running.remove(&self.job) {
            // A failed attempt has only its own report of written paths.
            state.written.extend(reported(&running.report));
            state.shared.add(self.job, &running.shared);
            state.forget_changes();
        }
        drop(state);
        self.writes.ended.notify_all();
    }
}

/// Nanoseconds since 1970.
fn nanoseconds(time: SystemTime) -> i64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

/// The paths that a program has reported to have written.
fn reported(report: &Path) -> HashSet<PathBuf> {
    let text = fs::read(report).unwrap_or_default();
    let lines = text.split(|byte| *byte == b'\n').filter_map(|line| line.strip_prefix(b"write\t"));
    lines.map(|path| real(Path::new(&unescaped(path)))).collect()
}

/// A field of a report.
pub fn unescaped(field: &[u8]) -> OsString {
    let mut bytes = Vec::with_capacity(field.len());
    let mut remaining_bytes = field.iter();
    while let Some(byte) = remaining_bytes.next() {
        bytes.push(match byte {
            b'\\' => match remaining_bytes.next() {
                Some(b'n') => b'\n',
                Some(b't') => b'\t',
                Some(b'r') => b'\r',
                Some(other) => *other,
                None => b'\\',
            },
            byte => *byte,
        });
    }
    OsString::from_vec(bytes)
}

/// Resolves the links of `path`; if `path` does not exist, only the links of its folder.
pub(crate) fn real(path: &Path) -> PathBuf {
    let of_folder = || Some(fs::canonicalize(path.parent()?).ok()?.join(path.file_name()?));
    fs::canonicalize(path).ok().or_else(of_folder).unwrap_or_else(|| path.to_owned())
}
