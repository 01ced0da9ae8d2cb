//! Files of a finished program from which metrics can be read again later: files that `reads` and `metrics` name, and small logs that they
//! do not name yet.
//!
//! They are in the folder [`KEPT`] among the job's files. Files in it are not artifacts: no other job gets them.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    io::{self, Read as _},
    os::unix::ffi::OsStringExt as _,
    path::{Path, PathBuf},
};

use fs_err as fs;
use glob::{MatchOptions, Pattern};
use sweep_job::{
    Variable,
    tasks::{Command, MetricsFrom, Number, is_pattern},
};

use super::reads::{Document, is_event_file};

/// The folder of these files in the folder of a job's files.
pub(super) const KEPT: &str = ".sweep";

/// Maximum size of a file that the command does not name, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// Maximum size of all files that the command does not name, and of all files that it names, in bytes.
const MAX_BYTES: u64 = 4 << 20;
const MAX_NAMED_BYTES: u64 = 32 << 20;
/// Maximum numbers of files, of examined entries, and of levels of folders.
const MAX_FILES: usize = 64;
const MAX_ENTRIES: usize = 5000;
const MAX_LEVELS: usize = 8;

/// Endings of the names of logs.
const ENDINGS: [&str; 6] = ["csv", "tsv", "jsonl", "ndjson", "json", "log"];
/// Endings of files that may have rows or objects of JSON, as `log.txt` and `training.log` have in some frameworks.
const OPEN_ENDINGS: [&str; 3] = ["json", "log", "txt"];
/// Names of files of settings, without their endings: JSON in several lines that has no results.
const SETTINGS: [&str; 9] =
    ["args", "config", "hparams", "options", "opts", "package", "params", "settings", "tokenizer"];
/// Folders of environments, packages, version control and trackers, whose files are no logs of the program.
const FOREIGN: [&str; 10] = [
    ".git",
    ".venv",
    "__pycache__",
    "dist-info",
    "egg-info",
    "mlruns",
    "node_modules",
    "site-packages",
    "venv",
    "wandb",
];
/// The mark at the beginning of a file that some programs write.
const BYTE_ORDER_MARK: char = '\u{feff}';
/// Number of bytes at the beginning of a file that determine its kind.
const MAX_BEGINNING: u64 = 64 << 10;

/// A file that may be kept.
struct Candidate {
    /// Its path in the job's folder.
    name: PathBuf,
    bytes: u64,
    is_named: bool,
}

/// Moves the files to the folder [`KEPT`], except those below `outputs`, which are kept anyway. Returns true if files were
/// moved.
pub(super) fn keep(command: &Command, folder: &Path, outputs: &[&str]) -> io::Result<bool> {
    let kept_folder = folder.join(KEPT);
    if outputs.iter().any(|output| Path::new(output).starts_with(KEPT)) {
        return Ok(false);
    }
    if fs::symlink_metadata(&kept_folder).is_ok() {
        // The program has created a file or folder with this reserved name.
        return Ok(false);
    }
    let mut candidates = Vec::new();
    let named_paths = named(command);
    let find = Find { folder, outputs, named: &named_paths };
    find.below(Path::new(""), 0, &mut 0, &mut candidates)?;
    // Files that the command names come first; the others follow by size, the smallest first.
    candidates.sort_by(|a, b| (!a.is_named, a.bytes, &a.name).cmp(&(!b.is_named, b.bytes, &b.name)));
    let (mut named_bytes, mut other_bytes) = (0, 0);
    let secrets = secrets(command);
    let mut has_moved = false;
    for Candidate { name, bytes, is_named } in candidates.into_iter().take(MAX_FILES) {
        let (sum, max_bytes) =
            if is_named { (&mut named_bytes, MAX_NAMED_BYTES) } else { (&mut other_bytes, MAX_BYTES) };
        if *sum + bytes > max_bytes || has_secret(&folder.join(&name), &secrets) {
            continue;
        }
        *sum += bytes;
        let target = kept_folder.join(&name);
        fs::create_dir_all(target.parent().unwrap_or(&kept_folder))?;
        fs::rename(folder.join(&name), target)?;
        has_moved = true;
    }
    Ok(has_moved)
}

/// The logs among the files of a record that can be read as curves, by their kinds in `reads`.
pub fn logs(files: &Path) -> BTreeMap<&'static str, BTreeSet<String>> {
    let mut logs = BTreeMap::new();
    add_logs(&files.join(KEPT), Path::new(""), &mut logs);
    logs
}

/// Adds the logs below a folder of kept files. A folder that cannot be read has none.
fn add_logs(folder: &Path, inner: &Path, logs: &mut BTreeMap<&'static str, BTreeSet<String>>) {
    for entry in fs::read_dir(folder.join(inner)).into_iter().flatten().flatten() {
        let path = inner.join(entry.file_name());
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            add_logs(folder, &path, logs);
            continue;
        }
        let Some((kind, place)) = log_of(folder, &path) else { continue };
        let place = if place.as_os_str().is_empty() { Path::new(".") } else { place };
        logs.entry(kind).or_default().insert(place.to_string_lossy().into_owned());
    }
}

/// The kind in `reads` of a file in `folder`, and the path of the source: the folder of an event file, else the file.
fn log_of<'p>(folder: &Path, path: &'p Path) -> Option<(&'static str, &'p Path)> {
    match path.extension().and_then(|extension| extension.to_str()) {
        _ if is_event_file(path) => Some(("tensorboard", path.parent().unwrap_or(Path::new("")))),
        Some("csv" | "tsv") if !has_examples(&folder.join(path)) => Some(("csv", path)),
        Some("jsonl" | "ndjson") => Some(("jsonl", path)),
        Some(ending) if OPEN_ENDINGS.contains(&ending) => Some((kind_of(&folder.join(path))?, path)),
        _ => None,
    }
}

/// The files and folders that `reads` and `metrics` name.
pub(super) fn named(command: &Command) -> Vec<PathBuf> {
    let sources = command.sources().filter(|(kind, _)| *kind != "stdout").map(|(_, place)| place);
    let file = command.metrics.as_ref().and_then(MetricsFrom::file).map(|file| file.0.as_str());
    sources.chain(file).map(PathBuf::from).collect()
}

/// The values that the program got from the environment, which no file of the store may contain.
fn secrets(command: &Command) -> Vec<Vec<u8>> {
    let names = command.env.values().filter_map(|variable| match variable {
        Variable::From(name) => Some(name),
        Variable::Text(_) => None,
    });
    let values = names.filter_map(std::env::var_os).map(OsString::into_vec);
    values.filter(|value| !value.is_empty()).collect()
}

/// True if a file has one of these values, or cannot be read.
fn has_secret(path: &Path, secrets: &[Vec<u8>]) -> bool {
    if secrets.is_empty() {
        return false;
    }
    let Ok(text) = fs::read(path) else { return true };
    secrets.iter().any(|secret| text.windows(secret.len()).any(|part| part == secret))
}

struct Find<'a> {
    folder: &'a Path,
    outputs: &'a [&'a str],
    named: &'a [PathBuf],
}

impl Find<'_> {
    /// Finds the files in a folder and below it. Links, which lead to inputs, are not followed.
    fn below(
        &self,
        inner: &Path,
        level: usize,
        entry_count: &mut usize,
        candidates: &mut Vec<Candidate>,
    ) -> io::Result<()> {
        for entry in fs::read_dir(self.folder.join(inner))? {
            let entry = entry?;
            *entry_count += 1;
            if *entry_count > MAX_ENTRIES {
                return Ok(());
            }
            let name = inner.join(entry.file_name());
            let is_output = self.outputs.iter().any(|output| name.starts_with(output));
            if is_output || name.to_str().is_none() {
                continue;
            }
            let kind = entry.file_type()?;
            if kind.is_dir() && level < MAX_LEVELS {
                // Unreadable folders are skipped.
                let _ = self.below(&name, level + 1, entry_count, candidates);
            } else if kind.is_file() {
                let bytes = entry.metadata()?.len();
                let is_named = self.is_named(&name);
                if is_named || (bytes <= MAX_FILE_BYTES && !is_foreign(&name) && is_log(self.folder, &name)) {
                    candidates.push(Candidate { name, bytes, is_named });
                }
            }
        }
        Ok(())
    }

    /// True for a file that `reads` or `metrics` names, and for event files in a folder that `reads` names.
    fn is_named(&self, name: &Path) -> bool {
        let is_below = |place: &PathBuf| (place == Path::new(".") || name.starts_with(place)) && is_event_file(name);
        let matches = |place: &PathBuf| {
            let pattern = place.to_str().filter(|place| is_pattern(place)).and_then(|place| Pattern::new(place).ok());
            let options = MatchOptions { require_literal_separator: true, ..MatchOptions::new() };
            let fits = |path: &Path| pattern.as_ref().is_some_and(|pattern| pattern.matches_path_with(path, options));
            fits(name) || is_event_file(name) && name.ancestors().any(fits)
        };
        self.named.iter().any(|place| place == name || is_below(place) || matches(place))
    }
}

/// True for a file below a folder of [`FOREIGN`].
fn is_foreign(name: &Path) -> bool {
    let is_foreign =
        |folder: &str| FOREIGN.iter().any(|foreign| folder == *foreign || folder.ends_with(&format!(".{foreign}")));
    name.parent().is_some_and(|folder| folder.iter().filter_map(|part| part.to_str()).any(is_foreign))
}

/// Maximum number of files that a notice names.
const MAX_NAMED: usize = 4;
/// Folders in which trackers write their runs.
const TRACKERS: [(&str, &str); 3] = [("wandb", "wandb"), ("mlruns", "mlflow"), ("mlflow.db", "mlflow")];

/// A notice about the files that a program without metrics wrote in `folder` and that are removed; `None` if there are none.
pub(super) fn removed(command: &Command, folder: &Path, except: &[&str]) -> Option<String> {
    if !command.outputs.is_empty() {
        return None;
    }
    let mut names = Vec::new();
    let find = Others { folder, except };
    find.below(Path::new(""), 0, &mut 0, &mut names);
    let tracker = TRACKERS.iter().find(|(name, _)| folder.join(name).exists());
    let shown: Vec<String> = names.iter().take(MAX_NAMED).map(|name| format!("`{name}`")).collect();
    let more = names.len().saturating_sub(MAX_NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    match tracker {
        Some((name, kind)) => Some(format!(
            "the program logged to `{name}`, which is removed: `outputs: [{name}]` keeps it, and `sweep import {kind}` reads it; the module \
             `sweep` passes its metrics on (docs/programs.md)"
        )),
        None if names.is_empty() => None,
        None => Some(format!(
            "the program wrote {}{more}, from which no metric is read: `outputs` keeps files, and `reads` takes metrics from CSV, JSON and \
             event files",
            shown.join(", ")
        )),
    }
}

/// Finds the files of a program that may have results.
struct Others<'a> {
    folder: &'a Path,
    except: &'a [&'a str],
}

impl Others<'_> {
    fn below(&self, inner: &Path, level: usize, entry_count: &mut usize, names: &mut Vec<String>) {
        let Ok(entries) = fs::read_dir(self.folder.join(inner)) else { return };
        for entry in entries.flatten() {
            *entry_count += 1;
            let path = inner.join(entry.file_name());
            let (Some(name), Ok(kind)) = (path.to_str(), entry.file_type()) else { continue };
            let is_hidden =
                entry.file_name().to_str().is_none_or(|name| name.starts_with('.') || FOREIGN.contains(&name));
            if *entry_count > MAX_ENTRIES || is_hidden || self.except.contains(&name) {
                continue;
            }
            if kind.is_dir() && level < MAX_LEVELS {
                self.below(&path, level + 1, entry_count, names);
            } else if kind.is_file()
                && entry.metadata().is_ok_and(|data| data.len() > 0)
                && (log_of(self.folder, &path).is_none()
                    || entry.metadata().is_ok_and(|data| data.len() > MAX_FILE_BYTES))
            {
                names.push(name.to_owned());
            }
        }
    }
}

fn is_log(folder: &Path, name: &Path) -> bool {
    let ending = name.extension().and_then(|extension| extension.to_str());
    ending.is_some_and(|ending| ENDINGS.contains(&ending))
        || is_event_file(name)
        || ending.is_some_and(|ending| OPEN_ENDINGS.contains(&ending)) && kind_of(&folder.join(name)).is_some()
}

/// True for a table with a row for each example, such as predictions.
fn has_examples(path: &Path) -> bool {
    const IDS: [&str; 8] = ["example", "example_id", "filename", "id", "image", "image_id", "index", "sample_id"];
    let mut line = String::new();
    let read = fs::File::open(path)
        .map(|file| io::BufRead::read_line(&mut io::BufReader::new(file.take(MAX_BEGINNING)), &mut line));
    let first = line.split([',', ';', '\t']).next().unwrap_or_default().trim().trim_matches('"').to_ascii_lowercase();
    matches!(read, Ok(Ok(_))) && IDS.contains(&first.trim_start_matches(BYTE_ORDER_MARK))
}

/// The kind in `reads` of a text file, by its first lines: objects of JSON, or a header and a row with the same number of cells.
fn kind_of(path: &Path) -> Option<&'static str> {
    let mut beginning = Vec::new();
    fs::File::open(path).ok()?.take(MAX_BEGINNING).read_to_end(&mut beginning).ok()?;
    let text = String::from_utf8_lossy(&beginning);
    let text = text.trim_start_matches(BYTE_ORDER_MARK);
    if matches!(text.trim_start().as_bytes().first(), Some(b'{' | b'[')) && is_document(path) {
        return Some("jsonl");
    }
    let mut lines = text.lines().filter(|line| !(line.trim().is_empty() || line.starts_with('#')));
    let (first, second) = (lines.next()?, lines.next());
    let is_object = |line: &str| line.starts_with('{') && serde_json::from_str::<serde_json::Value>(line).is_ok();
    if is_object(first) && second.is_none_or(is_object) {
        return Some("jsonl");
    }
    let is_row = |separator: char| {
        let names: Vec<&str> = first.split(separator).map(str::trim).collect();
        let cells: Vec<&str> = second?.split(separator).map(str::trim).collect();
        let numbers = cells.iter().filter(|cell| Number::parse(cell).is_some()).count();
        let has_numbers = numbers > 0 && numbers * 2 >= cells.iter().filter(|cell| !cell.is_empty()).count();
        let are_names = names.iter().all(|name| Number::parse(name).is_none());
        (names.len() > 1 && names.len() == cells.len() && are_names && has_numbers).then_some("csv")
    };
    ['\t', ',', ';'].into_iter().find_map(is_row)
}

/// True for a file of results that is one JSON document.
fn is_document(path: &Path) -> bool {
    let name = path.file_stem().map(|name| name.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
    let is_settings = SETTINGS.iter().any(|word| name == *word || name.ends_with(&format!("_{word}")));
    let is_small = || path.metadata().is_ok_and(|data| data.len() <= MAX_FILE_BYTES);
    !is_settings
        && is_small()
        && fs::read_to_string(path)
            .is_ok_and(|text| Document::of(text.trim_start_matches(BYTE_ORDER_MARK).as_bytes()).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_of_a_file_tells_its_kind() {
        let folder = tempfile::tempdir().unwrap();
        for (text, kind) in [
            ("{\"epoch\": 1, \"val_loss\": 0.5}\n{\"epoch\": 2, \"val_loss\": 0.4}\n", Some("jsonl")),
            ("{\"val_loss\": 0.5}", Some("jsonl")),
            ("{\n  \"val_loss\": 0.5\n}", Some("jsonl")),
            ("[{\"epoch\": 1, \"val_loss\": 0.5}]", Some("jsonl")),
            ("{\"history\": {\n\"loss\": [0.5, 0.4]}}", Some("jsonl")),
            ("[0.5, 0.4]", None),
            ("{\n  \"name\": \"x\"\n}", None),
            ("epoch,accuracy,loss\n0,0.5,0.7\n", Some("csv")),
            ("Learning Rate\tTrain Loss\tValid Loss\t\n0.1\t0.5\t0.6\t\n", Some("csv")),
            ("epoch;loss\n0;0.5\n", Some("csv")),
            ("#{\"start\": 1}\nr,l\n0.5,20\n", Some("csv")),
            ("numpy==2.0\ntorch==2.9\n", None),
            ("INFO epoch 1, loss 0.5\nINFO epoch 2, loss 0.4\n", None),
            ("", None),
        ] {
            let path = folder.path().join("log.txt");
            fs::write(&path, text).unwrap();
            assert_eq!(kind_of(&path), kind, "{text}");
        }
    }
}
