//! Jobs on this machine: each has a separate run folder, and a process that outlives the server.

use std::{
    collections::BTreeSet,
    fs::TryLockError,
    io::{self, Read as _, Seek as _, SeekFrom},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use fs_err as fs;
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

use super::depot::Depot;
use crate::{
    host,
    hosts::{Fault, FaultKind, SpoolState, SpooledJob, StartJob, Started, Stop, each_folder, each_input},
    plan::{Digests, SerializedJob},
    record::Key,
    run::{RunFolder, job_names, write_job_spec},
    store::Store,
};

/// The file that is locked while the job's process lives, because the process has it as its standard input.
const LOCK: &str = "lock";
/// The file with [`Note`].
const NOTE: &str = "started.json";
/// The file with the output of the job's engine.
const OUTPUT: &str = "output.txt";

/// The start of a job.
#[derive(Debug, Serialize, Deserialize)]
struct Note {
    tag: String,
    project: String,
}

/// The jobs of a submitting store.
#[derive(Debug)]
pub(super) struct Jobs {
    results: PathBuf,
    store: Store,
    depot: Depot,
}

/// The journal of a job, and the place up to which it was sent.
#[derive(Debug)]
pub(super) struct Followed {
    pub(super) key: Key,
    /// The job's journal, and the place in it.
    pub(super) journal: PathBuf,
    pub(super) from: u64,
    pub(super) lock: PathBuf,
    pub(super) store: Store,
}

fn other(error: &dyn std::fmt::Display) -> Fault {
    Fault::new(FaultKind::Other, error.to_string())
}

impl Jobs {
    /// Opens the jobs in a results folder.
    pub(super) fn open(results: PathBuf, depot: &Depot) -> Result<Self, Fault> {
        fs::create_dir_all(results.join("runs"))?;
        let store = Store::open(&results).map_err(|error| other(&error))?;
        store.create()?;
        Ok(Self { results, store, depot: depot.clone() })
    }

    pub(super) fn store(&self) -> &Store {
        &self.store
    }

    fn folder(&self, key: Key) -> RunFolder {
        RunFolder::named(&self.results, &key.to_string())
    }

    pub(super) fn log(&self, key: Key) -> PathBuf {
        self.folder(key).log(key)
    }

    pub(super) fn output(&self, key: Key) -> PathBuf {
        self.folder(key).path().join(OUTPUT)
    }

    /// All jobs that were not forgotten.
    pub(super) fn list(&self) -> io::Result<Vec<SpooledJob>> {
        let mut jobs = Vec::new();
        for entry in fs::read_dir(self.results.join("runs"))? {
            let path = entry?.path();
            let key: Option<Key> = path.file_name().and_then(|name| name.to_str()?.parse().ok());
            let (Some(key), Some(note)) = (key, note(&path)) else { continue };
            let state = match (is_locked(&path.join(LOCK)), self.store.contains(key)) {
                (true, _) => SpoolState::Running,
                (false, true) => SpoolState::Recorded,
                (false, false) => SpoolState::Ended,
            };
            jobs.push(SpooledJob { key, tag: note.tag, state });
        }
        jobs.sort_unstable_by_key(|job| job.key);
        Ok(jobs)
    }

    /// Starts a job, unless it runs, or has ended since this start was first requested.
    pub(super) fn start(&self, job: StartJob) -> Result<(Key, Started, Option<Child>), Fault> {
        let StartJob { key, tag, mut spec, project, env, gpus } = job;
        if spec.key != key {
            return Err(other(&"the specification belongs to another job"));
        }
        if !self.depot.has_tree(&project) {
            return Err(Fault::new(FaultKind::Missing, "the project of a job"));
        }
        let missing_key = spec.identity.needs.iter().find(|need| !self.store.contains(*need));
        if let Some(missing_key) = missing_key {
            return Err(Fault::new(FaultKind::Missing, format!("the record {}", missing_key.short())));
        }
        let folder = self.folder(key);
        fs::create_dir_all(folder.path())?;
        let Some(lock) = take(&folder.path().join(LOCK))? else {
            let tag = note(folder.path()).map(|note| note.tag).unwrap_or_default();
            return Ok((key, Started::Running { tag }, None));
        };
        let has_record = matches!(self.store.get(key), Ok(Some(_)));
        let is_same = note(folder.path()).is_some_and(|note| note.tag == tag);
        if has_record || is_same {
            return Ok((key, Started::Over { has_record }, None));
        }
        self.mend(&project, &mut spec)?;
        for leftover in [folder.part(key), folder.path().join("pid"), self.output(key)] {
            remove_if_there(&leftover)?;
        }
        let tree = self.depot.tree(&project);
        let no_text = || other(&"the path of the working folder is not text");
        if let Some(project) = &mut spec.project {
            project.clone_from(&tree);
        }
        each_folder(&mut spec, |folder| {
            tree.join(&*folder).to_str().ok_or_else(no_text)?.clone_into(folder);
            Ok::<(), Fault>(())
        })?;
        each_input(&mut spec, |path| {
            // Other inputs are beside the project.
            let tree_of_input = path.strip_prefix("../").map(|inner| self.depot.tree(inner));
            let full_path = tree_of_input.unwrap_or_else(|| tree.join(&*path));
            full_path.to_str().ok_or_else(no_text)?.clone_into(path);
            Ok::<(), Fault>(())
        })?;
        write_job_spec(&spec, folder.path())?;
        host::failpoints::point("hosts: before a job")?;
        fs::write(folder.path().join(NOTE), serde_json::to_vec(&Note { tag, project }).map_err(io::Error::from)?)?;
        let output = fs::File::create(self.output(key))?.into_file();
        let mut command = Command::new(host::program()?);
        command.arg("--results").arg(&self.results).args(["exec-job", &key.to_string(), "--at", "0", "--key"]);
        command.arg(key.to_string()).arg("--hosted").current_dir(&tree).envs(env);
        if let Some(gpus) = gpus {
            command.env("CUDA_VISIBLE_DEVICES", gpus.join(","));
        }
        // The lock belongs to the open file, which the process owns from here on.
        command.stdin(Stdio::from(lock)).stdout(output.try_clone()?).stderr(output);
        match command.spawn() {
            Ok(child) => Ok((key, Started::Now, Some(child))),
            Err(error) => {
                remove_if_there(&folder.path().join(NOTE))?;
                Err(host::threads::refused(error).into())
            }
        }
    }

    /// Makes sure that the files of a job, whose lock is held, are as they were sent.
    fn mend(&self, project: &str, spec: &mut SerializedJob) -> Result<(), Fault> {
        let mut trees = BTreeSet::from([project.to_owned()]);
        each_input(spec, |path| {
            let tree = path.strip_prefix("../").and_then(|inner| inner.split('/').next());
            trees.extend(tree.map(str::to_owned));
            Ok::<(), Fault>(())
        })?;
        let mut digests = Digests::open(self.store.digests());
        for tree in trees {
            if !self.is_used_by_another(&tree, spec.key) {
                // The job's own checks notice files that could not be removed.
                let _ = self.depot.tidy(&tree, digests.made());
            }
            self.depot.mend(&tree)?;
        }
        Ok(())
    }

    /// True if another job runs that reads a tree, of this store or of another one, or one is about to start.
    fn is_used_by_another(&self, tree: &str, key: Key) -> bool {
        let own_run = self.folder(key).path().to_owned();
        let stores = self.results.parent().map(entries).unwrap_or_default();
        let mut runs = stores.iter().flat_map(|store| entries(&store.join("runs"))).filter(|run| *run != own_run);
        let reads = |run: &Path| note(run).is_none_or(|note| note.project == tree || job_names(run, tree));
        runs.any(|run| is_locked(&run.join(LOCK)) && reads(&run))
    }

    /// The journal of a job, and the place up to which it was sent.
    pub(super) fn followed(&self, key: Key, from: u64) -> Result<Followed, Fault> {
        let folder = self.folder(key);
        let lock = folder.path().join(LOCK);
        if !lock.is_file() {
            return Err(Fault::new(FaultKind::Missing, format!("the job {}", key.short())));
        }
        Ok(Followed { key, journal: folder.part(key), from, lock, store: self.store.clone() })
    }

    /// Stops a job, if it runs.
    pub(super) fn cancel(&self, key: Key, kind: Stop) {
        /// A process writes its number as the first thing.
        const TIMEOUT: Duration = Duration::from_secs(5);
        let folder = self.folder(key).path().to_owned();
        let stop = move || {
            let lock = folder.join(LOCK);
            let deadline = Instant::now() + TIMEOUT;
            let pid = loop {
                if !is_locked(&lock) {
                    return;
                }
                if let Some(pid) = pid_in(&folder) {
                    break pid;
                }
                if Instant::now() >= deadline {
                    return;
                }
                thread::sleep(Duration::from_millis(10));
            };
            let (signal, kill_after) = match kind {
                Stop::Interrupt => (Signal::INT, None),
                Stop::End { kill_after } => (Signal::TERM, Some(kill_after)),
            };
            let _ = kill_process(pid, signal);
            let Some(kill_after) = kill_after else { return };
            let deadline = Instant::now() + kill_after;
            while Instant::now() < deadline {
                if !is_locked(&lock) {
                    return;
                }
                thread::sleep(Duration::from_millis(50));
            }
            if is_locked(&lock) && pid_in(&folder) == Some(pid) {
                let _ = kill_process(pid, Signal::KILL);
            }
        };
        // If the thread cannot be started, the client requests the stop again.
        let _ = thread::Builder::new().name("stop".into()).spawn(stop);
    }

    /// Removes a job's folder, unless it runs.
    pub(super) fn forget(&self, key: Key) -> Result<(), Fault> {
        let folder = self.folder(key).path().to_owned();
        if !folder.is_dir() {
            return Ok(());
        }
        let Some(_lock) = take(&folder.join(LOCK))? else {
            return Err(Fault::new(FaultKind::InUse, format!("the job {} runs", key.short())));
        };
        // Without its note, a folder does not count as a job any more, even if other files cannot be removed.
        remove_if_there(&folder.join(NOTE))?;
        Ok(fs::remove_dir_all(&folder)?)
    }
}

fn note(folder: &Path) -> Option<Note> {
    serde_json::from_slice(&fs::read(folder.join(NOTE)).ok()?).ok()
}

/// The entries of a folder; none if it cannot be read.
fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path())).collect()
}

fn pid_in(folder: &Path) -> Option<Pid> {
    fs::read_to_string(folder.join("pid")).ok()?.trim().parse().ok().and_then(Pid::from_raw)
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Takes a job's lock; `None` while its process lives.
fn take(path: &Path) -> io::Result<Option<std::fs::File>> {
    // Processes that only check the lock hold it for an instant, so a few retries suffice.
    const TRIES: usize = 20;
    for _ in 0..TRIES {
        let file = fs::OpenOptions::new().create(true).truncate(false).read(true).write(true).open(path)?.into_file();
        match file.try_lock() {
            Ok(()) => {
                let is_same_file = fs::metadata(path).is_ok_and(|path_metadata| {
                    file.metadata().is_ok_and(|file_metadata| file_metadata.ino() == path_metadata.ino())
                });
                if is_same_file {
                    return Ok(Some(file));
                }
            }
            Err(TryLockError::WouldBlock) => thread::sleep(Duration::from_millis(1)),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    Ok(None)
}

/// True while the process of a job lives.
pub(super) fn is_locked(path: &Path) -> bool {
    std::fs::File::open(path).is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

/// A part of a file; empty for a missing file.
pub(super) fn part_of(path: &Path, offset: u64, max_bytes: u64) -> io::Result<Vec<u8>> {
    let mut file = match fs::File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        file => file?,
    };
    file.seek(SeekFrom::Start(offset))?;
    let mut part = Vec::new();
    file.take(max_bytes).read_to_end(&mut part)?;
    Ok(part)
}
