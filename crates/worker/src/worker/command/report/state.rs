//! State of the reports of a program, kept in its scratch folder for a later attempt.

use std::{borrow::Cow, collections::BTreeMap, io, path::Path};

use serde::{Deserialize, Serialize};

use super::{Follower as _, REPORT, ReportFile, Series, Source};
use crate::host::replaced::{Outlives, Readers, replace};

/// The state of the sources of a job.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(in super::super) struct State {
    /// Series of the sources, by their names.
    series: BTreeMap<String, Series>,
}

/// The borrowed form of [`State`] for writing.
#[derive(Serialize)]
struct Kept<'a> {
    series: BTreeMap<&'a str, Cow<'a, Series>>,
}

impl State {
    /// Loads the state that an earlier attempt has left, and adds the lines that the attempt wrote to `report` after that;
    /// returns an empty state if the file at `path` is missing or unreadable.
    pub(in super::super) fn load(path: &Path, report: &Path) -> Self {
        let saved_state = std::fs::read(path).ok().and_then(|text| serde_json::from_slice(&text).ok());
        let mut state: Self = saved_state.unwrap_or_default();
        // The whole report is read again: points in the state are replaced by the same points.
        let mut series = std::mem::take(state.series.entry(REPORT.to_owned()).or_default()).resume();
        if ReportFile::new(report.to_owned()).finish(&mut series).is_ok() {
            state.series.insert(REPORT.to_owned(), series.whole().into_owned());
        }
        state
    }

    /// Series of a source in earlier attempts, to be continued.
    pub(in super::super) fn take(&mut self, name: &str) -> Series {
        self.series.remove(name).unwrap_or_default().resume()
    }

    /// Writes the state, as a whole or not at all.
    pub(in super::super) fn save(path: &Path, sources: &[Source]) -> io::Result<()> {
        let series = sources.iter().map(|source| (source.name.as_str(), source.series.whole())).collect();
        write(path, &Kept { series })
    }

    /// Writes the state before a new attempt, if there is any.
    pub(in super::super) fn keep(&self, path: &Path) -> io::Result<()> {
        if self.series.values().all(Series::is_empty) && !path.exists() {
            return Ok(());
        }
        write(path, self)
    }
}

fn write(path: &Path, state: &impl Serialize) -> io::Result<()> {
    replace(path, &serde_json::to_vec(state)?, Readers::All, Outlives::Process)
}
