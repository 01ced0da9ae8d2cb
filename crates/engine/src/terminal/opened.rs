//! An opened job: its curves, its log and the part of the log that is about its failure.

use std::path::{Path, PathBuf};

use regex::Regex;

use super::rows::Row;
use crate::{
    format::clean,
    record::Key,
    render::page::{FollowedRun, Tail, end_of},
    run::RunFolder,
    store::Store,
};

/// Maximum number of bytes of a log that are shown, from its end.
const MAX_LOG_BYTES: u64 = 256 << 10;
/// Maximum number of lines about a failure.
const MAX_FAILURE_LINES: usize = 20;

/// An opened job.
#[derive(Debug)]
pub(super) struct Opened {
    /// The job's index in the run's plan.
    pub(super) index: usize,
    /// The curves of the job.
    pub(super) curves: Vec<Series>,
    /// The place of the shown curve in `curves`.
    pub(super) shown: usize,
    pub(super) log: Option<Tail>,
    /// Number of lines between the end of the log and the last shown line; 0 follows the log.
    pub(super) scrolled: usize,
    /// The lines of the log about the failure of a job that failed.
    pub(super) failure: Option<String>,
    /// Path of the log, if there was one when the job got its state.
    path: Option<PathBuf>,
    /// Path and length of the log that was read last.
    read: Option<(PathBuf, u64)>,
    /// State of the job at the last look.
    state: &'static str,
}

/// A curve.
#[derive(Debug, Clone, Default)]
pub(super) struct Series {
    pub(super) name: String,
    pub(super) unit: &'static str,
    /// Steps and finite values, at least one.
    pub(super) points: Vec<(f64, f64)>,
}

impl Opened {
    /// Opens a job.
    pub(super) fn new(index: usize) -> Self {
        Self {
            index,
            curves: Vec::new(),
            shown: 0,
            log: None,
            scrolled: 0,
            failure: None,
            path: None,
            read: None,
            state: "",
        }
    }

    /// Reads the job as it is now. Its curves are in the order of the columns `metrics`.
    pub(super) fn look(
        &mut self,
        row: &Row,
        key: Key,
        run: &FollowedRun,
        (results, folder): (&Path, &RunFolder),
        metrics: &[&str],
    ) {
        let is_new = self.state != row.state;
        self.state = row.state;
        let live = run.curves(self.index);
        if !live.is_empty() {
            self.curves = live.iter().map(|curve| Series::new(&curve.name, "", &curve.points)).collect();
        } else if is_new && let Ok(Some(record)) = Store::new(results).get(key) {
            let curves = record.outcome.curves.iter();
            self.curves = curves
                .map(|(name, curve)| {
                    let points: Vec<(u64, f64)> = curve.at.iter().copied().zip(curve.values.iter().copied()).collect();
                    Series::new(name, curve.unit.symbol(), &points)
                })
                .collect();
            // A single value is a metric.
            self.curves.retain(|curve| curve.points.len() > 1);
        }
        self.curves.retain(|curve| !curve.points.is_empty());
        arrange(&mut self.curves, metrics);
        self.shown = self.shown.min(self.curves.len().saturating_sub(1));
        if is_new {
            // The job of a cached record ran in an earlier run.
            self.path = folder.latest_log(key);
        }
        let path = self.path.clone().unwrap_or_else(|| folder.log(key));
        self.read_log(&path);
        let is_lost = ["failed", "retrying", "lost"].contains(&row.state);
        self.failure = self.log.as_ref().filter(|_| is_lost).and_then(|log| failure_of(&log.text));
    }

    /// Reads the log again if it has grown.
    fn read_log(&mut self, path: &Path) {
        let length = std::fs::metadata(path).map_or(0, |file| file.len());
        let version = Some((path.to_owned(), length));
        if self.read != version {
            self.log = end_of(path, MAX_LOG_BYTES);
            self.read = version;
        }
    }
}

impl Series {
    fn new(name: &str, unit: &'static str, points: &[(u64, f64)]) -> Self {
        let finite = points.iter().filter(|(_, value)| value.is_finite());
        let points = finite.map(|(step, value)| (*step as f64, *value)).collect();
        Self { name: clean(name).into_owned(), unit, points }
    }
}

/// Puts the curves of metrics first, in the order of their columns.
fn arrange(curves: &mut [Series], metrics: &[&str]) {
    // The sort is stable: others keep their order.
    curves.sort_by_key(|curve| metrics.iter().position(|name| *name == curve.name).unwrap_or(usize::MAX));
}

/// The lines of a log about a failure: the last traceback or error with the lines after it, as the pages show them.
fn failure_of(log: &str) -> Option<String> {
    let trace = Regex::new(r"^(Traceback \(|thread '.*panicked)").ok()?;
    let error = Regex::new(r"(?i)\b(error|exception|fatal|out of memory|killed)\b").ok()?;
    let lines: Vec<&str> = log.lines().collect();
    if let Some(begin) = lines.iter().rposition(|line| trace.is_match(line)) {
        // The end of a long traceback is the most informative part.
        let begin = begin.max(lines.len().saturating_sub(MAX_FAILURE_LINES));
        return Some(lines[begin..].join("\n"));
    }
    let begin = lines.iter().rposition(|line| error.is_match(line))?;
    Some(lines[begin..].iter().take(MAX_FAILURE_LINES).copied().collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_are_in_the_order_of_the_columns() {
        let mut curves = ["acc", "loss", "tokens", "val"].map(|name| Series::new(name, "", &[(1, 1.0)]));
        arrange(&mut curves, &["loss", "val"]);
        assert_eq!(curves.map(|curve| curve.name), ["loss", "val", "acc", "tokens"]);
    }

    #[test]
    fn a_failure_is_the_last_traceback_or_error() {
        let log = "step 1\nTraceback (most recent call last):\n  a\nValueError: early\nok\nTraceback (most recent call last):\n  b\nValueError: late";
        assert_eq!(failure_of(log).unwrap(), "Traceback (most recent call last):\n  b\nValueError: late");
        assert_eq!(failure_of("a\nCUDA Error: x\nb").unwrap(), "CUDA Error: x\nb");
        assert_eq!(failure_of("all is well\nterror"), None);
        let long = format!("Traceback (most recent call last):\n{}end", "  frame\n".repeat(50));
        assert_eq!(failure_of(&long).unwrap().lines().count(), MAX_FAILURE_LINES);
    }
}
