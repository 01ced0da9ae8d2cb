//! Runs of Weights & Biases: the transaction logs `run-ID.wandb`, which every run leaves in its folder, online and offline.
//!
//! A log has the frames of `LevelDB`'s logs: blocks of 32 KiB with records, each with a checksum (CRC-32), in one or several parts. A
//! record is a protocol buffer (`wandb_internal.proto`). The end of the log of a killed run may be torn; the records before count.

use std::{
    collections::{BTreeMap, HashMap, hash_map::Entry},
    path::{Path, PathBuf},
};

use serde_json::Value as Json;

use super::{End, ImportError, Run, Runs, entries, lenient, name_of, text};
use crate::{
    format::count,
    format::event_file::{Field, Fields},
};

/// Beginning of a log, with the number and the version of its format.
const MAGIC: &[u8] = b":W&B\xe1\xbe\0";
const BLOCK: usize = 32 << 10;
/// Bytes before the content of a part: checksum, length, kind.
const HEADER: usize = 7;
/// Maximum size of a log, in bytes.
const MAX_BYTES: u64 = 2 << 30;
/// The file with the summary of a run.
const SUMMARY: &str = "wandb-summary.json";
/// Levels of folders in which logs are searched.
const MAX_LEVELS: usize = 4;

/// True if a folder has logs.
pub(super) fn detects(path: &Path) -> bool {
    is_log(path) || (path.is_dir() && found(path).is_ok_and(|(logs, copies)| !(logs.is_empty() && copies.is_empty())))
}

fn is_log(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "wandb") && path.is_file()
}

/// The logs at a path, and the folders of runs without a log that have a summary, as downloads of a run's files do.
fn found(path: &Path) -> Result<(Vec<PathBuf>, Vec<PathBuf>), ImportError> {
    fn find(
        folder: &Path,
        level: usize,
        logs: &mut Vec<PathBuf>,
        copies: &mut Vec<PathBuf>,
    ) -> Result<(), ImportError> {
        let (known, mut files) = (logs.len(), None);
        for path in entries(folder)? {
            if is_log(&path) {
                logs.push(path);
            } else if path.join(SUMMARY).is_file() {
                files = Some(path);
            } else if path.is_dir() && level < MAX_LEVELS {
                find(&path, level + 1, logs, copies)?;
            }
        }
        copies.extend(files.filter(|_| logs.len() == known));
        Ok(())
    }
    if is_log(path) {
        return Ok((vec![path.to_owned()], Vec::new()));
    }
    let (mut logs, mut copies) = (Vec::new(), Vec::new());
    if path.join(SUMMARY).is_file() {
        copies.push(path.to_owned());
    } else {
        find(path, 1, &mut logs, &mut copies)?;
    }
    Ok((logs, copies))
}

/// The run of a folder with its configuration and its summary.
fn copy(folder: &Path) -> Result<Run, ImportError> {
    let named = if name_of(folder) == "files" { folder.parent().unwrap_or(folder) } else { folder };
    let name = name_of(named);
    let mut run = Run { id: name.rsplit('-').next().unwrap_or(&name).to_owned(), ..Run::default() };
    let path = folder.join("config.yaml");
    if path.is_file() {
        let config: Json =
            serde_saphyr::from_str(&text(&path)?).map_err(|error| ImportError::format(&path, error.to_string()))?;
        for (name, entry) in config.as_object().into_iter().flatten().filter(|(name, _)| !name.starts_with("_wandb")) {
            if let Some(value) = entry.get("value") {
                lenient::add(&mut run.params, name, value);
            }
        }
    }
    let path = folder.join(SUMMARY);
    let summary = lenient::json(&text(&path)?).ok_or_else(|| ImportError::format(&path, "it is not JSON"))?;
    for (name, value) in summary.as_object().into_iter().flatten() {
        if name == "_runtime" {
            run.seconds = lenient::number(value).unwrap_or_default();
        } else if !name.starts_with('_') {
            numbers(name, value, &mut |name, number| run.conclude(name, number));
        }
    }
    Ok(run)
}

/// Reads the runs of a folder. Several logs of one run, which a resumed run has, are put together in the order of their starts: folders may
/// have been renamed or moved.
pub(super) fn read(path: &Path) -> Result<Runs, ImportError> {
    let mut runs = Runs::default();
    let (mut torn, mut parts, mut all) = (0, 0, Vec::new());
    let (logs, copies) = found(path)?;
    for path in logs {
        match log(&path)? {
            Some(log) => all.push(log),
            None => runs.skip("the log is empty or of another format"),
        }
    }
    all.sort_by_key(|log| log.run.started);
    // Identifiers are unique only within a project.
    let mut places: HashMap<(String, String), usize> = HashMap::new();
    for log in all {
        torn += usize::from(log.is_torn);
        match places.entry((log.project, log.run.id.clone())) {
            Entry::Occupied(place) => {
                parts += 1;
                merge(&mut runs.runs[*place.get()], log.run);
            }
            Entry::Vacant(place) => {
                place.insert(runs.runs.len());
                runs.runs.push(log.run);
            }
        }
    }
    if !copies.is_empty() {
        let number = count(copies.len(), "run");
        runs.notices.push(format!(
            "{number} without the log `run-ID.wandb`: the configuration and the summary are read, curves and ends are not there"
        ));
    }
    for folder in copies {
        runs.runs.push(copy(&folder)?);
    }
    if torn > 0 {
        runs.notices.push(format!("the end of {} is truncated: the records before it are read", count(torn, "log")));
    }
    if parts > 0 {
        runs.notices.push(format!("{} of resumed runs are put together with their first ones", count(parts, "log")));
    }
    Ok(runs)
}

fn merge(run: &mut Run, later: Run) {
    run.params.extend(later.params);
    for (name, points) in later.series {
        let known = run.series.entry(name).or_default();
        known.by_step.extend(points.by_step);
        known.concluded = points.concluded;
    }
    run.end = later.end;
    run.seconds += later.seconds;
}

/// A log that is being read.
struct Log {
    run: Run,
    /// The project of the run; empty if it is not known.
    project: String,
    /// The summary values of the run, such as the smallest ones; for other metrics, the newest line counts.
    summary: BTreeMap<String, f64>,
    /// The newest step.
    step: u64,
    is_torn: bool,
}

/// Reads a log; `None` if it has another format, or no run.
fn log(path: &Path) -> Result<Option<Log>, ImportError> {
    let failed = |source| ImportError::Io { path: path.to_owned(), source };
    let length = std::fs::metadata(path).map_err(failed)?.len();
    if length > MAX_BYTES {
        return Err(ImportError::format(path, format!("it has {length} bytes, of at most {MAX_BYTES}")));
    }
    let bytes = std::fs::read(path).map_err(failed)?;
    if !bytes.starts_with(MAGIC) {
        return Ok(None);
    }
    let run = Run { end: End::Running, ..Run::default() };
    let mut log = Log { run, project: String::new(), summary: BTreeMap::new(), step: 0, is_torn: false };
    log.is_torn = !records(&bytes, &mut |record| log.add(record));
    for (name, value) in std::mem::take(&mut log.summary) {
        log.run.conclude(&name, value);
    }
    if log.run.id.is_empty() {
        let name = name_of(path);
        name.strip_prefix("run-").unwrap_or(&name).trim_end_matches(".wandb").clone_into(&mut log.run.id);
    }
    Ok(Some(log))
}

/// Calls `each` with every whole record; `false` if the log is cut or damaged somewhere.
fn records(bytes: &[u8], each: &mut dyn FnMut(&[u8])) -> bool {
    const FULL: u8 = 1;
    const FIRST: u8 = 2;
    const LAST: u8 = 4;
    let (mut at, mut open) = (MAGIC.len(), Vec::new());
    while at < bytes.len() {
        let left = BLOCK - at % BLOCK;
        if left < HEADER {
            at += left;
            continue;
        }
        let Some(header) = bytes.get(at..at + HEADER) else { return false };
        let sum = u32::from_le_bytes([header[0], header[1], header[2], header[3]]);
        let (size, kind) = (usize::from(u16::from_le_bytes([header[4], header[5]])), header[6]);
        let Some(part) = bytes.get(at + HEADER - 1..at + HEADER + size) else { return false };
        if crc32(part) != sum || !(FULL..=LAST).contains(&kind) {
            return false;
        }
        if kind == FULL || kind == FIRST {
            open.clear();
        }
        open.extend(&part[1..]);
        if kind == FULL || kind == LAST {
            each(&open);
            open.clear();
        }
        at += HEADER + size;
    }
    open.is_empty()
}

impl Log {
    /// Adds a record.
    fn add(&mut self, record: &[u8]) {
        const HISTORY: u64 = 2;
        const SUMMARY: u64 = 3;
        const CONFIG: u64 = 5;
        const RUN: u64 = 17;
        const EXIT: u64 = 18;
        for (field, value) in Fields(record) {
            let Field::Bytes(content) = value else { continue };
            match field {
                HISTORY => self.history(content),
                SUMMARY => self.summary(content),
                CONFIG => self.config(content),
                RUN => self.describe(content),
                EXIT => self.exit(content),
                _ => {}
            }
        }
    }

    /// `RunExitRecord { exit_code = 1, runtime = 2 }`.
    fn exit(&mut self, content: &[u8]) {
        let mut code = 0;
        for (field, value) in Fields(content) {
            match (field, value) {
                (1, Field::Number(number)) => code = number.cast_signed(),
                (2, Field::Number(number)) => self.run.seconds = number as f64,
                _ => {}
            }
        }
        self.run.end = if code == 0 { End::Finished } else { End::Failed(format!("exit code {code}")) };
    }

    /// `RunRecord { run_id = 1, project = 3, config = 4, summary = 5, display_name = 8, start_time = 17 }`.
    fn describe(&mut self, content: &[u8]) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        for (field, value) in Fields(content) {
            match (field, value) {
                (1, Field::Bytes(id)) => self.run.id = text(id),
                (3, Field::Bytes(project)) => self.project = text(project),
                (4, Field::Bytes(content)) => self.config(content),
                (5, Field::Bytes(content)) => self.summary(content),
                (8, Field::Bytes(name)) => self.run.name = text(name),
                (17, Field::Bytes(time)) => {
                    let seconds = Fields(time).find_map(|(field, value)| match (field, value) {
                        (1, Field::Number(seconds)) => Some(seconds.cast_signed()),
                        _ => None,
                    });
                    self.run.started = seconds.and_then(|seconds| seconds.checked_mul(1000));
                }
                _ => {}
            }
        }
    }

    fn config(&mut self, content: &[u8]) {
        for (name, value) in items(content).filter(|(name, _)| !name.starts_with("_wandb")) {
            lenient::add(&mut self.run.params, &name, &value);
        }
    }

    fn summary(&mut self, content: &[u8]) {
        for (name, value) in items(content).filter(|(name, _)| !name.starts_with('_')) {
            numbers(&name, &value, &mut |name, number| {
                self.summary.insert(name.to_owned(), number);
            });
        }
    }

    fn history(&mut self, content: &[u8]) {
        let all: Vec<(String, Json)> = items(content).collect();
        let own = all.iter().find(|(name, _)| name == "_step").and_then(|(_, value)| value.as_u64());
        let step = own.unwrap_or_else(|| self.step.saturating_add(1));
        self.step = step;
        for (name, value) in all.iter().filter(|(name, _)| !name.starts_with('_')) {
            numbers(name, value, &mut |name, number| self.run.log(name, step, number));
        }
    }
}

/// The name and the value of an item `{ key = 1, nested_key = 2, value_json = 16 }`; none for names that W&B itself uses.
fn item(content: &[u8]) -> Option<(String, Json)> {
    let (mut key, mut nested, mut value) = (String::new(), Vec::new(), None);
    for (field, content) in Fields(content) {
        let Field::Bytes(content) = content else { continue };
        let text = String::from_utf8_lossy(content);
        match field {
            1 => key = text.into_owned(),
            2 => nested.push(text.into_owned()),
            16 => value = lenient::json(&text),
            _ => {}
        }
    }
    let name = if nested.is_empty() { key } else { nested.join(".") };
    Some((name, value?))
}

/// The items of a message in its field 1.
fn items(content: &[u8]) -> impl Iterator<Item = (String, Json)> {
    Fields(content).filter_map(|(field, value)| match (field, value) {
        (1, Field::Bytes(content)) => item(content),
        _ => None,
    })
}

/// Calls `each` with the numbers in a value; numbers in maps are named by their paths. Media are skipped.
fn numbers(name: &str, value: &Json, each: &mut dyn FnMut(&str, f64)) {
    match value {
        Json::Object(entries) if !entries.contains_key("_type") => {
            for (key, inner) in entries {
                numbers(&format!("{name}.{key}"), inner, each);
            }
        }
        _ => {
            if let Some(number) = lenient::number(value) {
                each(name, number);
            }
        }
    }
}

/// CRC-32 of zlib.
fn crc32(bytes: &[u8]) -> u32 {
    const POLYNOMIAL: u32 = 0xedb8_8320;
    const TABLE: [u32; 256] = {
        let (mut table, mut index) = ([0; 256], 0_u32);
        while index < 256 {
            let (mut sum, mut bit) = (index, 0);
            while bit < 8 {
                sum = if sum & 1 == 1 { sum >> 1 ^ POLYNOMIAL } else { sum >> 1 };
                bit += 1;
            }
            table[index as usize] = sum;
            index += 1;
        }
        table
    };
    !bytes.iter().fold(!0, |sum, byte| sum >> 8 ^ TABLE[usize::from(sum.to_le_bytes()[0] ^ byte)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::event_file::Message;

    #[test]
    fn the_checksum_is_that_of_zlib() {
        // `zlib.crc32(b"123456789")` of Python's zlib, and the check value of the catalog of CRC algorithms.
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }
    /// Writes the log of a run that began at some second and logged one loss.
    fn write_log(path: &Path, project: &str, start: u64, loss: f64) {
        let message = |fill: &dyn Fn(&mut Message)| {
            let mut message = Message::default();
            fill(&mut message);
            message
        };
        let time = message(&|time| time.number(1, start));
        let run = message(&|run| {
            run.bytes(1, b"same");
            run.bytes(3, project.as_bytes());
            run.bytes(17, time.content());
        });
        let item = message(&|item| {
            item.bytes(1, b"loss");
            item.bytes(16, loss.to_string().as_bytes());
        });
        let history = message(&|history| history.bytes(1, item.content()));
        let mut bytes = MAGIC.to_vec();
        for (field, content) in [(17, run), (2, history)] {
            let record = message(&|record| record.bytes(field, content.content()));
            let part = [&[1], record.content()].concat();
            bytes.extend(crc32(&part).to_le_bytes());
            bytes.extend(u16::try_from(record.content().len()).unwrap().to_le_bytes());
            bytes.extend(part);
        }
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }

    #[test]
    fn logs_of_one_run_are_put_together_by_project_and_in_the_order_of_their_starts() {
        let folder = tempfile::tempdir().unwrap();
        let log = |name: &str| folder.path().join(name).join("run-same.wandb");
        write_log(&log("a"), "digits", 2000, 0.25);
        write_log(&log("b"), "digits", 1000, 0.5);
        write_log(&log("c"), "letters", 3000, 4.0);
        let runs = read(folder.path()).unwrap().runs;
        let values: Vec<_> = runs.iter().map(|run| (run.started, run.series["loss"].last())).collect();
        assert_eq!(values, [(Some(1_000_000), Some(0.25)), (Some(3_000_000), Some(4.0))]);
    }

    #[test]
    fn files_of_a_run_without_its_log_have_its_configuration_and_summary() {
        let folder = tempfile::tempdir().unwrap();
        write_log(&folder.path().join("run-1-same/run-same.wandb"), "digits", 1000, 0.5);
        for (run, summary) in
            [("run-1-same", "{\"loss\": 9}"), ("run-2-other", "{\"loss\": 0.25, \"_step\": 3, \"_runtime\": 1.5}")]
        {
            let files = folder.path().join(run).join("files");
            std::fs::create_dir_all(&files).unwrap();
            std::fs::write(files.join("wandb-summary.json"), summary).unwrap();
            std::fs::write(
                files.join("config.yaml"),
                "wandb_version: 1\nlr:\n  desc: null\n  value: 0.1\n_wandb:\n  value: {}\n",
            )
            .unwrap();
        }
        let runs = read(folder.path()).unwrap();
        let values: Vec<_> = runs
            .runs
            .iter()
            .map(|run| (run.id.as_str(), run.params.len(), run.series["loss"].last(), run.seconds))
            .collect();
        assert_eq!(values, [("same", 0, Some(0.5), 0.0), ("other", 1, Some(0.25), 1.5)]);
        assert!(runs.notices[0].starts_with("1 run without the log"), "{:?}", runs.notices);
    }
}
