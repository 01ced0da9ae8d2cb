//! The run's events on disk, one JSON value a line, only ever appended to.

use std::{
    collections::BTreeMap,
    io::{self, Read as _, Seek as _, SeekFrom},
    path::Path,
    time::{Duration, Instant},
};

use fs_err as fs;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Observer, RunEvent};
use crate::{
    fault,
    plan::{JobId, Key, Plan},
};

/// The journal's name in a run's folder.
pub(super) const FILE: &str = "journal.jsonl";

/// Writes the journal in a run's folder. Holds a lock on it, so that others see that the run is live.
#[derive(Debug)]
pub struct Journal {
    file: fs::File,
    /// When each job's progress was last written.
    said: BTreeMap<usize, Instant>,
    /// The first failure to write; the run goes on, and whoever started it can say that the journal is not whole.
    pub error: Option<io::Error>,
}

/// A line.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Line {
    /// When.
    pub at: Timestamp,
    /// The job that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// That job's key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Key>,
    /// What happened.
    pub event: RunEvent,
}

/// How often a job's progress is worth a line: it is for whoever looks at the run from another process.
const PAUSE: Duration = Duration::from_secs(2);

impl Journal {
    /// Creates the journal of a run.
    pub fn create(folder: &Path) -> io::Result<Self> {
        let file = fs::OpenOptions::new().create_new(true).append(true).open(folder.join(FILE))?;
        file.file().try_lock()?;
        Ok(Self { file, said: BTreeMap::new(), error: None })
    }

    fn write(&mut self, plan: &Plan, event: &RunEvent) -> io::Result<()> {
        let job = event.job().map(|job| plan.job(JobId::new(job)));
        let line = Line {
            at: fault::now(),
            label: job.map(|job| job.label.to_string()),
            key: job.map(|job| job.key),
            event: event.clone(),
        };
        let mut text = serde_json::to_vec(&line)?;
        text.push(b'\n');
        fault::write_all(&mut self.file, &text, "journal: before a line", "journal: in a line")?;
        fault::point("journal: after a line")
    }
}

impl Observer for Journal {
    fn on(&mut self, plan: &Plan, event: &RunEvent) {
        if let RunEvent::Progress { job, .. } = event {
            if self.said.get(job).is_some_and(|said| said.elapsed() < PAUSE) {
                return;
            }
            self.said.insert(*job, Instant::now());
        }
        if self.error.is_none() {
            self.error = self.write(plan, event).err();
        }
    }
}

/// What a run's journal holds; lines that are not whole are left out.
pub(super) fn read(folder: &Path) -> io::Result<Vec<Line>> {
    Ok(read_from(folder, 0)?.0)
}

/// The same from a place on, and the place behind the last line that has an end.
pub(super) fn read_from(folder: &Path, begin: u64) -> io::Result<(Vec<Line>, u64)> {
    let mut file = fs::File::open(folder.join(FILE))?;
    file.seek(SeekFrom::Start(begin))?;
    let mut text = Vec::new();
    file.read_to_end(&mut text)?;
    let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let lines = text[..whole].split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok());
    Ok((lines.collect(), begin + whole as u64))
}
