//! The journal of calls: one JSON value per line, append-only.

use std::{
    io::{self, Write as _},
    path::Path,
    sync::{Mutex, PoisonError},
};

use fs_err as fs;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

/// The journal's name, in the folders of sessions and of runs.
pub(super) const FILE: &str = "calls.jsonl";

/// Largest arguments that are kept, in bytes; of larger ones the size is kept.
const MAX_ARGUMENT_BYTES: usize = 64 << 10;

/// The journal of a session.
#[derive(Debug)]
pub(super) struct Journal(Mutex<fs::File>);

/// A call.
#[derive(Debug, Serialize)]
pub(super) struct Line<'a> {
    /// Time of its end.
    pub(super) at: Timestamp,
    pub(super) session: &'a str,
    /// The tool, or the method of the protocol.
    pub(super) tool: &'a str,
    pub(super) arguments: Value,
    /// The run that the call is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) run: Option<&'a str>,
    /// The fault, if it was refused or failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<Value>,
    /// Duration.
    pub(super) seconds: f64,
}

impl Journal {
    /// Creates the journal of a session.
    pub(super) fn create(folder: &Path) -> io::Result<Self> {
        let file = fs::OpenOptions::new().create_new(true).append(true).open(folder.join(FILE))?;
        Ok(Self(Mutex::new(file)))
    }

    /// Adds a call, also to the folder of the run that it is about.
    pub(super) fn add(&self, line: &Line<'_>, run: Option<&Path>) -> io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write_all(&text)?;
        if let Some(run) = run.filter(|run| run.is_dir()) {
            fs::OpenOptions::new().create(true).append(true).open(run.join(FILE))?.write_all(&text)?;
        }
        Ok(())
    }
}

/// Arguments as the journal keeps them.
pub(super) fn kept(arguments: &Value) -> Value {
    let bytes = arguments.to_string().len();
    if bytes > MAX_ARGUMENT_BYTES { json!({ "bytes": bytes }) } else { arguments.clone() }
}
