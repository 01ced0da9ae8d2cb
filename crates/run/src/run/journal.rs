//! The run's events on disk, one JSON value per line, append-only.

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
    host,
    plan::{JobId, Plan},
    record::Key,
    store::Presence,
};

/// The journal's name in a run's folder.
pub(super) const FILE: &str = "journal.jsonl";

/// The file that marks the run's engine as alive where other machines cannot see the lock.
pub(super) const ALIVE: &str = "alive";

/// Writes the journal in a run's folder. Holds a lock on it, so that others see that the run is live.
#[derive(Debug)]
pub struct Journal {
    file: fs::File,
    _presence: Option<Presence>,
    /// The index in the run's plan of the journal's only job; `None` for a journal of several jobs.
    of: Option<usize>,
    /// Time at which each job's progress was last written.
    said: BTreeMap<usize, Instant>,
    /// The latest progress of each job that was reported too soon after the last written one, with its time.
    late: BTreeMap<usize, (Timestamp, RunEvent)>,
    /// The first failed write; the run continues, and its starter can report that the journal is incomplete.
    pub error: Option<io::Error>,
}

/// A line.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Line {
    /// Time of the event.
    pub at: Timestamp,
    /// The label of the event's job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The key of that job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Key>,
    /// Digest of the computation of a program that failed. It does not depend on the patterns that read metrics, which change the job's
    /// key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub computation: Option<Key>,
    /// The event.
    pub event: RunEvent,
}

impl Line {
    /// The lines in the text of a journal, and the length of the text up to the last line break. Unreadable lines are omitted.
    pub fn all(text: &[u8]) -> (Vec<Self>, usize) {
        let length = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let lines = text[..length].split(|byte| *byte == b'\n');
        (lines.filter_map(|line| serde_json::from_slice(line).ok()).collect(), length)
    }
}

/// Shortest interval between lines about a job's progress, which are for observers in other processes.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(2);

impl Journal {
    /// Creates the journal of a run.
    ///
    /// In a store that is `shared` among machines, a file with a heartbeat shows the other machines that the run is live.
    pub fn create(folder: &Path, shared: bool) -> io::Result<Self> {
        let file = fs::OpenOptions::new().create_new(true).append(true).open(folder.join(FILE))?;
        file.file().try_lock()?;
        let presence = if shared { Some(Presence::announce(&folder.join(ALIVE))?) } else { None };
        Ok(Self { file, _presence: presence, of: None, said: BTreeMap::new(), late: BTreeMap::new(), error: None })
    }

    /// Opens the journal of one job, which has the index `of` in the run's plan, or of several jobs, to append to it. Other processes read
    /// it.
    pub fn part(path: &Path, of: Option<usize>) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let file = fs::OpenOptions::new().create(true).append(true).open(path)?;
        Ok(Self { file, _presence: None, of, said: BTreeMap::new(), late: BTreeMap::new(), error: None })
    }

    fn write(&mut self, plan: &Plan, at: Timestamp, event: &RunEvent) -> io::Result<()> {
        let job = event.job().map(|job| plan.job(JobId::new(job)));
        let failed = job.filter(|_| matches!(event, RunEvent::Failed { .. }));
        let line = Line {
            at,
            label: job.map(|job| job.label.to_string()),
            key: job.map(|job| job.key),
            computation: failed.and_then(|job| job.identity.program_run()),
            event: self.of.map_or_else(|| event.clone(), |of| event.clone().about(of)),
        };
        let mut text = serde_json::to_vec(&line)?;
        text.push(b'\n');
        host::failpoints::write_all(&mut self.file, &text, "journal: before a line", "journal: in a line")?;
        host::failpoints::point("journal: after a line")
    }
}

impl Observer for Journal {
    fn on(&mut self, plan: &Plan, event: &RunEvent) {
        if let Some(job) = event.job().filter(|_| !matches!(event, RunEvent::Note { .. })) {
            // The new event supersedes the delayed progress.
            self.late.remove(&job);
        }
        if let RunEvent::Progress { job, .. } = event {
            if self.said.get(job).is_some_and(|time| time.elapsed() < PROGRESS_INTERVAL) {
                self.late.insert(*job, (host::clock::now(), event.clone()));
                return;
            }
            self.said.insert(*job, Instant::now());
        }
        if self.error.is_none() {
            self.error = self.write(plan, host::clock::now(), event).err();
        }
    }

    fn tick(&mut self, plan: &Plan) {
        let is_due = |job: &usize| self.said.get(job).is_none_or(|time| time.elapsed() >= PROGRESS_INTERVAL);
        let jobs: Vec<usize> = self.late.keys().copied().filter(is_due).collect();
        for job in jobs {
            let Some((at, event)) = self.late.remove(&job) else { continue };
            self.said.insert(job, Instant::now());
            if self.error.is_none() {
                self.error = self.write(plan, at, &event).err();
            }
        }
    }
}

/// Reads the lines that were added to a journal since the last read, which ended at `from`. An incomplete line is left for the next call.
pub(super) fn more(path: &Path, from: &mut u64) -> Vec<Line> {
    let mut text = Vec::new();
    let read_text = || -> io::Result<()> {
        let mut file = std::fs::File::open(path)?;
        file.seek(SeekFrom::Start(*from))?;
        file.read_to_end(&mut text)?;
        Ok(())
    };
    // The next call reads the remaining lines after a failed read.
    let _ = { read_text }();
    let (lines, length) = Line::all(&text);
    *from += length as u64;
    lines
}

/// Events in a run's journal; incomplete lines are omitted.
pub(super) fn read(folder: &Path) -> io::Result<Vec<Line>> {
    Ok(read_from(folder, 0)?.0)
}

/// Events from the position `begin` on, and the position after the last complete line.
pub(super) fn read_from(folder: &Path, begin: u64) -> io::Result<(Vec<Line>, u64)> {
    let mut file = fs::File::open(folder.join(FILE))?;
    file.seek(SeekFrom::Start(begin))?;
    let mut text = Vec::new();
    file.read_to_end(&mut text)?;
    let (lines, length) = Line::all(&text);
    Ok((lines, begin + length as u64))
}
