//! The run's events on disk, one JSON value a line, only ever appended to.

use std::{
    io::{self, Write},
    path::Path,
};

use fs_err as fs;
use jiff::Timestamp;
use serde::Serialize;

use super::{Observer, RunEvent};
use crate::plan::{JobId, Key, Plan};

/// Writes `journal.jsonl` in a run's folder.
#[derive(Debug)]
pub struct Journal {
    file: fs::File,
    /// The first failure to write; the run goes on, and whoever started it can say that the journal is not whole.
    pub error: Option<io::Error>,
}

/// A line.
#[derive(Serialize)]
struct Line<'a> {
    at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<Key>,
    event: &'a RunEvent,
}

impl Journal {
    /// Creates a run's folder and the journal in it.
    pub fn create(folder: &Path) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let file = fs::OpenOptions::new().create_new(true).append(true).open(folder.join("journal.jsonl"))?;
        Ok(Self { file, error: None })
    }

    fn write(&mut self, plan: &Plan, event: &RunEvent) -> io::Result<()> {
        let job = event.job().map(|job| plan.job(JobId::new(job)));
        let line = Line {
            at: Timestamp::now(),
            label: job.map(|job| job.label.to_string()),
            key: job.map(|job| job.key),
            event,
        };
        let mut text = serde_json::to_vec(&line)?;
        text.push(b'\n');
        self.file.write_all(&text)
    }
}

impl Observer for Journal {
    fn on(&mut self, plan: &Plan, event: &RunEvent) {
        // Progress is for the eye; the curves are in the record.
        if matches!(event, RunEvent::Progress { .. }) || self.error.is_some() {
            return;
        }
        self.error = self.write(plan, event).err();
    }
}

impl RunEvent {
    /// The job that an event is about.
    pub fn job(&self) -> Option<usize> {
        match self {
            Self::Started { job, .. }
            | Self::Waiting { job }
            | Self::Progress { job, .. }
            | Self::Note { job, .. }
            | Self::Done { job, .. }
            | Self::Failed { job, .. }
            | Self::Skipped { job, .. } => Some(*job),
            Self::Begun { .. } | Self::Stopping { .. } | Self::Ended(_) => None,
        }
    }
}
