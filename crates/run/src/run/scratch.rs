//! The part of a job's scratch folder that belongs to `sweep`: the checkpoints that a program has declared, the time that its
//! attempts have taken, and the file that requests the program to stop. The folder outlives attempts and is removed when the
//! job is done.

use std::{
    io,
    path::{Component, Path, PathBuf},
    time::Duration,
};

use fs_err as fs;
use serde::{Deserialize, Serialize};

use crate::{
    host::{
        failpoints,
        replaced::{Outlives, Readers, replace},
    },
    record::Started,
    store::{CONTRACT as FOLDER, PARAMS, REPORT},
};

/// The attempts and checkpoints.
const STATE: &str = "attempts.json";
/// The file whose existence is the request to stop.
const STOP: &str = "stop";
/// Curves that earlier attempts have reported.
const REPORTED: &str = "state.json";
/// The state of another job with which this one began.
const STARTED: &str = "started.json";
/// The file that the Python module writes beside a checkpoint.
pub const ABOUT: &str = "sweep.json";
/// Number of declared checkpoints that are remembered: if the newest is missing, an earlier one may be there.
const MAX_CHECKPOINTS: usize = 16;

/// The part of a scratch folder that belongs to `sweep`.
#[derive(Debug, Clone)]
pub struct Scratch {
    scratch: PathBuf,
    folder: PathBuf,
}

/// A checkpoint that a program has declared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// The checkpoint's path, relative to the scratch folder.
    pub path: PathBuf,
    /// The last step that was reported before the checkpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
    /// Time of the work in the checkpoint, in seconds, including the time of earlier attempts.
    pub seconds: f64,
}

/// The attempts at a job, of which the last may be under way.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Attempts {
    /// Number of attempts.
    pub count: u32,
    /// Time of all attempts but the last, in seconds.
    spent: f64,
    /// Time of the work in the checkpoint from which the last attempt resumed, in seconds.
    resumed: f64,
    /// Time of the last attempt so far, in seconds.
    seconds: f64,
    /// The latest checkpoints, the newest last.
    checkpoints: Vec<Checkpoint>,
}

impl Scratch {
    /// The part of this scratch folder.
    pub fn new(scratch: &Path) -> Self {
        Self { scratch: scratch.to_owned(), folder: scratch.join(FOLDER) }
    }

    /// Returns the path of the file with the request to stop.
    pub fn stop(&self) -> PathBuf {
        self.folder.join(STOP)
    }

    /// Path of the report of the present attempt.
    pub fn report(&self) -> PathBuf {
        self.folder.join(REPORT)
    }

    /// True if the program has written to its report, and therefore knows the contract.
    pub fn has_reported(&self) -> bool {
        std::fs::metadata(self.report()).is_ok_and(|report| report.is_file() && report.len() > 0)
    }

    /// Asks the program to stop.
    pub(crate) fn ask_to_stop(&self) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        fs::OpenOptions::new().create(true).append(true).open(self.stop()).map(drop)
    }

    /// True if the program has been asked to stop.
    pub fn is_asked(&self) -> bool {
        self.stop().exists()
    }

    /// Withdraws the request to stop, and removes the folder if it is empty.
    pub fn clear(&self) {
        let _ = std::fs::remove_file(self.stop());
        let _ = std::fs::remove_dir(&self.folder);
    }

    /// The attempts so far. An unreadable or damaged file means that there were none.
    pub fn attempts(&self) -> Attempts {
        let text = std::fs::read(self.folder.join(STATE)).unwrap_or_default();
        let attempts: Attempts = serde_json::from_slice(&text).unwrap_or_default();
        if attempts.is_possible() { attempts } else { Attempts::default() }
    }

    /// Replaces the state of the attempts; after a crash either the old or the new one is there. Without a checkpoint
    /// the file is not synced, because a lost state equals no state.
    pub fn save(&self, attempts: &Attempts) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        let outlives = if attempts.has_checkpoints() { Outlives::Machine } else { Outlives::Process };
        replace(&self.folder.join(STATE), &serde_json::to_vec(attempts)?, Readers::All, outlives)
    }

    /// The newest declared checkpoint that still exists. An empty file or folder does not count, because a crash leaves
    /// one while a checkpoint is written.
    pub fn newest(&self, attempts: &Attempts) -> Option<Checkpoint> {
        attempts.checkpoints.iter().rev().find(|checkpoint| has_content(&self.scratch.join(&checkpoint.path))).cloned()
    }

    /// The state of another job with which this one began, if it did.
    pub fn started(&self) -> Option<Started> {
        serde_json::from_slice(&std::fs::read(self.folder.join(STARTED)).ok()?).ok()
    }

    /// Forgets that the job began with the state of another one.
    pub fn began_anew(&self) {
        let _ = std::fs::remove_file(self.folder.join(STARTED));
    }

    /// Takes up the state in a folder inside of this one, as if an earlier attempt had left it. Until the end of this it is
    /// not there: an attempt after a crash begins as this one has.
    pub(crate) fn take_up(&self, beside: &Path, started: &Started) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        failpoints::point("scratch: before the state")?;
        let text = serde_json::to_vec(started)?;
        let mut file = fs::File::create(self.folder.join(STARTED))?;
        failpoints::write_all(&mut file, &text, "scratch: started", "scratch: in the start")?;
        drop(file);
        let own = beside.join(FOLDER);
        for entry in fs::read_dir(beside)? {
            let entry = entry?;
            let target = self.scratch.join(entry.file_name());
            if entry.path() == own {
                continue;
            }
            if fs::symlink_metadata(&target).is_ok_and(|old| old.is_dir()) {
                fs::remove_dir_all(&target)?;
            }
            failpoints::point("scratch: before a part of the state")?;
            fs::rename(entry.path(), target)?;
        }
        // The files that declare the checkpoint are moved last, so that a crash leaves no incomplete one.
        for name in [REPORTED, STATE] {
            failpoints::point("scratch: before the attempts")?;
            match fs::rename(own.join(name), self.folder.join(name)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        failpoints::point("scratch: taken up")?;
        fs::remove_dir_all(beside)
    }

    /// The newest checkpoint as the only attempt at a job that begins with it, and the paths that such a job does not need;
    /// `None` if no checkpoint was declared.
    pub fn left(&self) -> Option<(Attempts, Vec<PathBuf>)> {
        let attempts = self.attempts();
        let newest = self.newest(&attempts)?;
        let mut paths: Vec<PathBuf> = [STATE, STARTED, STOP, REPORT, PARAMS].map(|name| self.folder.join(name)).into();
        for other in attempts.checkpoints.iter().filter(|other| other.path != newest.path) {
            let path = self.path(other);
            let folder = path.parent().filter(|folder| folder.join(ABOUT).is_file());
            paths.push(folder.unwrap_or(&path).to_owned());
        }
        let attempts = Attempts { spent: newest.seconds, checkpoints: vec![newest], ..Attempts::default() };
        Some((attempts, paths))
    }

    /// The absolute path of a checkpoint.
    pub fn path(&self, checkpoint: &Checkpoint) -> PathBuf {
        self.scratch.join(&checkpoint.path)
    }

    /// The path of a declared checkpoint relative to the scratch folder: `None` if it leads out of the folder or to
    /// `sweep`'s own files, or has no content.
    pub fn inside(&self, declared: &str) -> Option<PathBuf> {
        let own = std::fs::canonicalize(&self.scratch).ok()?;
        let real = std::fs::canonicalize(own.join(declared)).ok()?;
        let relative = real.strip_prefix(&own).ok()?;
        let first = relative.components().next()?;
        (first != Component::Normal(FOLDER.as_ref()) && has_content(&real)).then(|| relative.to_owned())
    }
}

impl Attempts {
    /// Begins another attempt, which resumes from this checkpoint.
    pub fn begin(&mut self, from: Option<&Checkpoint>) {
        self.count = self.count.saturating_add(1);
        self.spent += self.seconds;
        (self.resumed, self.seconds) = (from.map_or(0.0, |checkpoint| checkpoint.seconds), 0.0);
        // Later ones are of work that is done again.
        if let Some(place) = from.and_then(|from| self.checkpoints.iter().position(|other| other == from)) {
            self.checkpoints.truncate(place + 1);
        }
    }

    /// Time of the last attempt so far.
    pub fn set_time(&mut self, time: Duration) {
        self.seconds = time.as_secs_f64();
    }

    /// Adds a checkpoint, which has the work up to now.
    pub fn add(&mut self, path: PathBuf, step: Option<u64>) {
        // A program may write to the same file again.
        self.checkpoints.retain(|checkpoint| checkpoint.path != path);
        self.checkpoints.push(Checkpoint { path, step, seconds: self.counted() });
        let surplus = self.checkpoints.len().saturating_sub(MAX_CHECKPOINTS);
        self.checkpoints.drain(..surplus);
    }

    /// True if this checkpoint was declared at this step.
    pub fn knows(&self, path: &Path, step: Option<u64>) -> bool {
        self.checkpoints.iter().any(|checkpoint| checkpoint.path == path && checkpoint.step == step)
    }

    /// True if a checkpoint was declared.
    pub fn has_checkpoints(&self) -> bool {
        !self.checkpoints.is_empty()
    }

    /// Time of the work in the result so far, in seconds: the time of the last attempt, and the time in the checkpoint from which it
    /// resumed.
    pub fn counted(&self) -> f64 {
        self.resumed + self.seconds
    }

    /// Time of earlier attempts that is not in the result, in seconds.
    pub fn lost(&self) -> f64 {
        (self.spent - self.resumed).max(0.0)
    }

    fn is_possible(&self) -> bool {
        let times = [self.spent, self.resumed, self.seconds];
        let checkpoints = self.checkpoints.iter().map(|checkpoint| checkpoint.seconds);
        let inside = |path: &Path| path.components().all(|part| matches!(part, Component::Normal(_)));
        times.into_iter().chain(checkpoints).all(|seconds| seconds.is_finite() && seconds >= 0.0)
            && self.checkpoints.iter().all(|checkpoint| inside(&checkpoint.path))
    }
}

/// True for a file with content and for a folder that has such a file.
fn has_content(path: &Path) -> bool {
    let Ok(metadata) = std::fs::metadata(path) else { return false };
    if !metadata.is_dir() {
        return metadata.is_file() && metadata.len() > 0;
    }
    let Ok(entries) = std::fs::read_dir(path) else { return false };
    // A link to a folder above it would have no end.
    entries.flatten().any(|entry| {
        let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
        if is_link {
            std::fs::metadata(entry.path()).is_ok_and(|file| file.len() > 0)
        } else {
            has_content(&entry.path())
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checkpoint(scratch: &Scratch, attempts: &mut Attempts, name: &str, step: u64, seconds: u64) {
        fs::write(scratch.scratch.join(name), "x").unwrap();
        attempts.set_time(Duration::from_secs(seconds));
        attempts.add(scratch.inside(name).unwrap(), Some(step));
        scratch.save(attempts).unwrap();
    }

    #[test]
    fn the_newest_that_is_there_is_resumed_and_the_rest_is_lost() {
        let folder = tempfile::tempdir().unwrap();
        let scratch = Scratch::new(folder.path());
        let mut attempts = scratch.attempts();
        attempts.begin(None);
        checkpoint(&scratch, &mut attempts, "a", 10, 4);
        checkpoint(&scratch, &mut attempts, "b", 20, 8);
        attempts.set_time(Duration::from_secs(9));
        scratch.save(&attempts).unwrap();

        let mut attempts = scratch.attempts();
        let newest = scratch.newest(&attempts).unwrap();
        assert_eq!((newest.path.as_path(), newest.step), (Path::new("b"), Some(20)));
        // A crash has emptied the checkpoint, so the previous one is offered.
        fs::write(folder.path().join("b"), "").unwrap();
        let newest = scratch.newest(&attempts).unwrap();
        assert_eq!(newest.path, Path::new("a"));
        attempts.begin(Some(&newest));
        attempts.set_time(Duration::from_secs(3));
        assert_eq!((attempts.count, attempts.counted(), attempts.lost()), (2, 7.0, 5.0));
        fs::remove_file(folder.path().join("a")).unwrap();
        assert_eq!(scratch.newest(&attempts), None);
    }

    #[test]
    fn no_checkpoint_leads_elsewhere() {
        let folder = tempfile::tempdir().unwrap();
        let scratch = Scratch::new(&folder.path().join("scratch"));
        fs::create_dir_all(scratch.scratch.join("empty")).unwrap();
        fs::create_dir_all(scratch.scratch.join("deep/er")).unwrap();
        fs::write(scratch.scratch.join("deep/er/x"), "x").unwrap();
        fs::write(scratch.scratch.join("nothing"), "").unwrap();
        fs::write(folder.path().join("outside"), "x").unwrap();
        std::os::unix::fs::symlink("../outside", scratch.scratch.join("link")).unwrap();
        scratch.ask_to_stop().unwrap();
        fs::write(scratch.report(), "x").unwrap();
        for declared in ["../outside", "link", "", ".", "empty", "nothing", "missing", ".sweep/report.jsonl", "\0"] {
            assert_eq!(scratch.inside(declared), None, "{declared}");
        }
        assert_eq!(scratch.inside("deep").unwrap(), Path::new("deep"));
        let absolute = scratch.scratch.join("deep/er/x");
        assert_eq!(scratch.inside(absolute.to_str().unwrap()).unwrap(), Path::new("deep/er/x"));
    }

    #[test]
    fn a_damaged_state_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let scratch = Scratch::new(folder.path());
        scratch.ask_to_stop().unwrap();
        for text in [
            "",
            "{",
            "[]",
            r#"{"count":1,"spent":-1.0,"resumed":0.0,"seconds":0.0,"checkpoints":[]}"#,
            r#"{"count":1,"spent":1.0,"resumed":0.0,"seconds":0.0,"checkpoints":[{"path":"../x","seconds":1.0}]}"#,
        ] {
            fs::write(scratch.folder.join(STATE), text).unwrap();
            assert_eq!(scratch.attempts(), Attempts::default(), "{text}");
        }
        scratch.clear();
        assert!(scratch.folder.exists(), "the state of attempts outlives one");
    }
}
