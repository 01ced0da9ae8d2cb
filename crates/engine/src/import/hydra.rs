//! Jobs of Hydra: folders with `.hydra/config.yaml`. Hydra itself keeps no metrics, so they are read from the files that jobs usually write
//! into their folder: JSON, JSON lines, CSV and event files of `TensorBoard`.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value as Json};

use super::{ImportError, Run, Runs, csv, entries, lenient, name_of, tensorboard, text};

/// Levels of folders in which jobs are searched: `multirun/DATE/TIME/NUMBER`.
const MAX_LEVELS: usize = 6;
/// Bytes of a file with metrics at most.
const MAX_BYTES: u64 = 256 << 20;

/// True if a folder has jobs.
pub(super) fn detects(path: &Path) -> bool {
    path.is_dir() && jobs(path).is_ok_and(|jobs| !jobs.is_empty())
}

fn jobs(path: &Path) -> Result<Vec<PathBuf>, ImportError> {
    fn find(folder: &Path, level: usize, folders: &mut Vec<PathBuf>) -> Result<(), ImportError> {
        if folder.join(".hydra/config.yaml").is_file() {
            folders.push(folder.to_owned());
        }
        for path in entries(folder)? {
            if path.is_dir() && level < MAX_LEVELS && name_of(&path) != ".hydra" {
                find(&path, level + 1, folders)?;
            }
        }
        Ok(())
    }
    let mut folders = Vec::new();
    find(path, 1, &mut folders)?;
    Ok(folders)
}

/// Reads the jobs below a folder.
pub(super) fn read(path: &Path) -> Result<Runs, ImportError> {
    let mut runs = Runs::default();
    for folder in jobs(path)? {
        let id = folder.strip_prefix(path).unwrap_or(&folder).to_string_lossy().into_owned();
        let id = if id.is_empty() { name_of(&folder) } else { id };
        match run(&folder, id) {
            Ok(run) if run.series.is_empty() => {
                runs.skip("its folder has no file with metrics (JSON, JSON lines, CSV, event files)");
            }
            Ok(run) => runs.runs.push(run),
            Err(error) => {
                runs.skip("a file of the run cannot be read");
                runs.notices.push(error.to_string());
            }
        }
    }
    Ok(runs)
}

fn run(folder: &Path, id: String) -> Result<Run, ImportError> {
    let mut run = Run { id, ..Run::default() };
    let path = folder.join(".hydra/config.yaml");
    let config: Json =
        serde_saphyr::from_str(&text(&path)?).map_err(|error| ImportError::format(&path, error.to_string()))?;
    // An interpolation has the value of another parameter.
    for (name, value) in flat(&config) {
        if !value.as_str().is_some_and(|text| text.contains("${")) {
            lenient::add(&mut run.params, &name, &value);
        }
    }
    for path in entries(folder)?.into_iter().filter(|path| path.is_file()) {
        if std::fs::metadata(&path).map_or(0, |metadata| metadata.len()) <= MAX_BYTES {
            metrics(&mut run, &path)?;
        }
    }
    tensorboard::add_below(&mut run, folder)?;
    Ok(run)
}

/// The scalars of nested maps, by their paths.
fn flat(config: &Json) -> Vec<(String, Json)> {
    fn below(prefix: &str, value: &Json, found: &mut Vec<(String, Json)>) {
        match value {
            Json::Object(entries) => {
                for (name, inner) in entries {
                    let path = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
                    below(&path, inner, found);
                }
            }
            _ => found.push((prefix.to_owned(), value.clone())),
        }
    }
    let mut entries = Vec::new();
    below("", config, &mut entries);
    entries
}

/// Adds the metrics of a file, if it is of a kind that has some.
fn metrics(run: &mut Run, path: &Path) -> Result<(), ImportError> {
    match path.extension().and_then(|end| end.to_str()) {
        Some("json") => {
            if let Some(Json::Object(entries)) = lenient::json(&text(path)?) {
                conclude(run, &entries);
            }
        }
        Some("jsonl" | "ndjson") => {
            for (row, line) in (0..).zip(text(path)?.lines()) {
                if let Some(Json::Object(entries)) = lenient::json(line) {
                    log(
                        run,
                        row,
                        entries.iter().filter_map(|(name, value)| Some((name.as_str(), lenient::number(value)?))),
                    );
                }
            }
        }
        Some("csv") => {
            let table = csv::table(path)?;
            for (row, cells) in (0..).zip(&table.rows) {
                let number = |cell: &String| cell.trim().parse::<f64>().ok();
                let values = table.columns.iter().zip(cells);
                log(run, row, values.filter_map(|(name, cell)| Some((name.as_str(), number(cell)?))));
            }
        }
        _ => {}
    }
    Ok(())
}

fn conclude(run: &mut Run, entries: &Map<String, Json>) {
    for (name, value) in flat(&Json::Object(entries.clone())) {
        if let Some(number) = lenient::number(&value) {
            run.conclude(&name, number);
        }
    }
}

/// Adds a row of numbers; without a column for the step, its place among the rows is the step.
fn log<'n>(run: &mut Run, row: u64, values: impl Iterator<Item = (&'n str, f64)>) {
    let values: Vec<(&str, f64)> = values.collect();
    let step = values.iter().find(|(name, _)| csv::is_step(name)).map_or(row, |(_, step)| lenient::step(*step));
    for (name, value) in values.into_iter().filter(|(name, _)| !csv::is_step(name)) {
        run.log(name, step, value);
    }
}
