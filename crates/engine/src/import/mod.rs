//! Runs of other programs, read from their stores: parameters, metrics with curves, ends. `sweep import` converts them to records.
//!
//! `sources.rs` has the kinds of stores and finds the kind of a path; each kind has a file (`csv.rs`, `mlflow.rs`, `wandb.rs`, `optuna.rs`,
//! `trackio.rs`, `tensorboard.rs`, `hydra.rs`, `folders.rs`, `neptune.rs`); `files.rs` reads files of runs. `sqlite/` reads databases,
//! `lenient.rs` texts and JSON as Python writes them. `study.rs` decides which parameters are axes and writes the recipe, `outcome.rs`
//! creates the outcome of a record, `records.rs` writes records to the store, `earlier.rs` reads the runs of the import before, and
//! `advice.rs` computes the seeds that a comparison of the best two configurations needs.
//!
//! An imported run is a job of the task `imported`. Its key covers its identifier at the source, the digest of its contents and its
//! parameters. An unchanged run is therefore not imported again, and a changed run gets another record.

mod advice;
mod csv;
mod earlier;
mod files;
mod folders;
mod hydra;
mod lenient;
mod mlflow;
mod neptune;
mod optuna;
mod outcome;
mod percent;
mod records;
mod sources;
mod sqlite;
mod study;
mod tensorboard;
mod trackio;
mod wandb;

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
};

use sweep_job::Value;

use crate::stats::Better;

pub use self::{
    advice::advise,
    earlier::Earlier,
    outcome::outcome,
    records::{Stored, store_records},
    sources::{Kind, kind_of, read},
    sqlite::SqliteError,
    study::{Study, Wishes},
};

/// Maximum size of a text file, in bytes.
const MAX_TEXT_BYTES: u64 = 1 << 30;

/// Error of an import.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// A file or folder cannot be read.
    #[error("cannot read {}: {source}", .path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// A database cannot be read.
    #[error(transparent)]
    Sqlite(#[from] SqliteError),
    /// The path has no store of a known kind.
    #[error("{} is not a known kind of store; name its kind, as in `sweep import mlflow {}`: {}", .0.display(), .0.display(), Kind::words())]
    Unknown(PathBuf),
    /// The folder has stores of several kinds.
    #[error("{} has stores of several kinds ({words}): name one, as in `sweep import mlflow {}`", .path.display(), .path.display())]
    Several {
        /// The folder.
        path: PathBuf,
        /// The kinds.
        words: String,
    },
    /// The store has another form.
    #[error("{}: {reason}", .path.display())]
    Format {
        /// The file or folder.
        path: PathBuf,
        /// The mistake and the remedy.
        reason: String,
    },
    /// The recipe file has the runs of another store.
    #[error("{} has the runs of another store: name another recipe with `--output`, or remove this file to replace them", .0.display())]
    OtherStore(PathBuf),
    /// The runs have no metrics.
    #[error("the runs have no metrics, so there is nothing to show")]
    NoMetrics,
    /// An option names a parameter or a metric that does not exist.
    #[error("no run has the {kind} `{name}`; {help}")]
    NoName {
        /// `parameter` or `metric`.
        kind: &'static str,
        /// The name.
        name: String,
        /// The names that exist.
        help: String,
    },
}

impl ImportError {
    fn format(path: &Path, reason: impl Into<String>) -> Self {
        Self::Format { path: path.to_owned(), reason: reason.into() }
    }
}

/// A run of another program.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Run {
    /// Its identifier, which no other run of the source has.
    pub id: String,
    /// Its name for people; empty without one.
    pub name: String,
    /// Parameters; values of maps have their paths as names.
    pub params: BTreeMap<String, Value>,
    /// Metrics.
    pub series: BTreeMap<String, Points>,
    /// Its end.
    pub end: End,
    /// Start, in milliseconds since 1970; `None` if unknown.
    pub started: Option<i64>,
    /// Duration in seconds; 0 if unknown.
    pub seconds: f64,
}

/// The end of a run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum End {
    /// It has finished.
    #[default]
    Finished,
    /// It has failed; the word of its program for that.
    Failed(String),
    /// It had not ended when it was read.
    Running,
}

/// The values of a metric.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Points {
    /// The values by step; the later one of two of the same step.
    pub by_step: BTreeMap<u64, f64>,
    /// The value that the source names as that of the run.
    pub concluded: Option<f64>,
}

/// The runs of a store.
#[derive(Debug, Default)]
pub struct Runs {
    /// The runs.
    pub runs: Vec<Run>,
    /// The better directions of metrics that the store has.
    pub better: BTreeMap<String, Better>,
    /// Runs that are left out, counted by the reason.
    pub skipped: BTreeMap<String, usize>,
    /// Sentences about runs and values that were changed or left out.
    pub notices: Vec<String>,
}

impl Run {
    /// Adds a value of a metric; later calls are later values.
    fn log(&mut self, metric: &str, step: u64, value: f64) {
        if let Some(points) = self.series.get_mut(metric) {
            points.add(step, value);
        } else {
            let mut points = Points::default();
            points.add(step, value);
            self.series.insert(metric.to_owned(), points);
        }
    }

    /// Sets the final value of a metric, without a step.
    fn conclude(&mut self, metric: &str, value: f64) {
        self.series.entry(metric.to_owned()).or_default().concluded = Some(value);
    }

    /// The digest of everything that enters its record.
    fn digest(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        let mut add = |bytes: &[u8]| {
            hasher.update(&(bytes.len() as u64).to_le_bytes());
            hasher.update(bytes);
        };
        add(self.id.as_bytes());
        add(self.name.as_bytes());
        add(format!("{:?} {:?} {}", self.end, self.started, self.seconds.to_bits()).as_bytes());
        for (name, value) in &self.params {
            add(name.as_bytes());
            add(serde_json::to_string(value).unwrap_or_default().as_bytes());
        }
        for (name, points) in &self.series {
            add(name.as_bytes());
            add(&points.last().map_or([0xff; 8], |last| last.to_bits().to_le_bytes()));
            for (step, value) in &points.by_step {
                add(&step.to_le_bytes());
                add(&value.to_bits().to_le_bytes());
            }
        }
        hasher.finalize().to_hex().to_string()
    }

    /// The value of the task's parameter `run`.
    fn reference(&self) -> String {
        /// Digits of the digest: two versions of one run have the same ones in one of 10¹⁴ cases.
        const DIGITS: usize = 12;
        format!("{}@{}", self.id, &self.digest()[..DIGITS])
    }
}

impl Points {
    fn add(&mut self, step: u64, value: f64) {
        self.by_step.insert(step, value);
    }

    /// The value of the run, which may not be finite: the concluded one, else that of the last step, in any order of the steps.
    pub fn last(&self) -> Option<f64> {
        self.concluded.or_else(|| self.by_step.last_key_value().map(|(_, value)| *value))
    }
}

impl Runs {
    fn skip(&mut self, reason: &str) {
        *self.skipped.entry(reason.to_owned()).or_default() += 1;
    }

    /// Sets the better direction of a metric. Studies of one store may have opposite ones: the first counts, and a notice is added.
    fn direct(&mut self, metric: &str, better: Better) {
        let first = *self.better.entry(metric.to_owned()).or_insert(better);
        if first == better {
            return;
        }
        let word = if first == Better::Less { "smaller" } else { "larger" };
        let notice =
            format!("studies have opposite directions of `{metric}`: {word} values count as better in all of them");
        if !self.notices.contains(&notice) {
            self.notices.push(notice);
        }
    }
}

/// The content of a text file in UTF-8 or, if it begins so, UTF-16; bytes that are not UTF-8 are read as Latin-1.
fn text(path: &Path) -> Result<String, ImportError> {
    let failed = |source| ImportError::Io { path: path.to_owned(), source };
    let length = std::fs::metadata(path).map_err(failed)?.len();
    if length > MAX_TEXT_BYTES {
        return Err(ImportError::format(path, format!("it has {length} bytes, of at most {MAX_TEXT_BYTES}")));
    }
    Ok(decoded(std::fs::read(path).map_err(failed)?))
}

/// The text of a file.
fn decoded(bytes: Vec<u8>) -> String {
    let units = |bytes: &[u8], unit: fn([u8; 2]) -> u16| {
        let units: Vec<u16> = bytes.as_chunks().0.iter().map(|pair| unit(*pair)).collect();
        String::from_utf16_lossy(&units)
    };
    match bytes.as_slice() {
        [0xff, 0xfe, rest @ ..] => units(rest, u16::from_le_bytes),
        [0xfe, 0xff, rest @ ..] => units(rest, u16::from_be_bytes),
        _ => String::from_utf8(bytes).unwrap_or_else(|error| {
            let parts = error.as_bytes().utf8_chunks();
            parts
                .map(|part| {
                    part.valid().chars().chain(part.invalid().iter().map(|byte| char::from(*byte))).collect::<String>()
                })
                .collect()
        }),
    }
}

/// The entries of a folder that are not links, by name: links may form cycles or lead out of the store.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, ImportError> {
    let failed = |source| ImportError::Io { path: folder.to_owned(), source };
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if !entry.file_type().map_err(failed)?.is_symlink() {
            paths.push(entry.path());
        }
    }
    paths.sort();
    Ok(paths)
}

/// The name of a file or folder.
fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::decoded;

    #[test]
    fn texts_have_several_encodings() {
        assert_eq!(decoded(b"\xff\xfea\0\xe4\0".to_vec()), "a\u{e4}");
        assert_eq!(decoded(b"\xfe\xff\0a\0\xe4".to_vec()), "a\u{e4}");
        assert_eq!(decoded("\u{e4} ".bytes().chain(*b"\xe4").collect()), "\u{e4} \u{e4}");
    }
}
