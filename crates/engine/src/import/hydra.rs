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

/// True for the folder of a job.
fn is_job(folder: &Path) -> bool {
    folder.join(".hydra/config.yaml").is_file()
}

fn jobs(path: &Path) -> Result<Vec<PathBuf>, ImportError> {
    fn find(folder: &Path, level: usize, found: &mut Vec<PathBuf>) -> Result<(), ImportError> {
        if is_job(folder) {
            found.push(folder.to_owned());
        }
        for path in entries(folder)? {
            if path.is_dir() && level < MAX_LEVELS && name_of(&path) != ".hydra" {
                find(&path, level + 1, found)?;
            }
        }
        Ok(())
    }
    let mut found = Vec::new();
    find(path, 1, &mut found)?;
    Ok(found)
}

/// Reads the jobs below a folder.
pub(super) fn read(path: &Path) -> Result<Runs, ImportError> {
    let (mut runs, mut damaged) = (Runs::default(), 0);
    for folder in jobs(path)? {
        let id = folder.strip_prefix(path).unwrap_or(&folder).to_string_lossy().into_owned();
        let id = if id.is_empty() { name_of(&folder) } else { id };
        let read = run(&folder, id, &mut runs.notices);
        damaged += read.as_ref().map_or(0, |(_, damaged)| *damaged);
        match read {
            Ok((run, _)) if run.series.is_empty() => {
                runs.skip("its folder has no file with metrics (JSON, JSON lines, CSV, event files)");
            }
            Ok((run, _)) => runs.runs.push(run),
            Err(error) => {
                runs.skip("a file of the run cannot be read");
                runs.notices.push(error.to_string());
            }
        }
    }
    runs.notices.extend(tensorboard::torn(damaged));
    Ok(runs)
}

/// The run of a job, and the number of its event files that are torn or damaged. Files with metrics that cannot be read have notices.
fn run(folder: &Path, id: String, notices: &mut Vec<String>) -> Result<(Run, usize), ImportError> {
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
        if let Err(error) = metrics(&mut run, &path) {
            notices.push(error.to_string());
        }
    }
    // A job whose folder is the current one has those of all other jobs in it.
    let damaged = tensorboard::add_below(&mut run, folder, is_job, notices)?;
    Ok((run, damaged))
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
    let mut found = Vec::new();
    below("", config, &mut found);
    found
}

/// Adds the metrics of a file, if it is of a kind that has some.
fn metrics(run: &mut Run, path: &Path) -> Result<(), ImportError> {
    let end = path.extension().and_then(|end| end.to_str());
    let length = std::fs::metadata(path).map_or(0, |file| file.len());
    if matches!(end, Some("json" | "jsonl" | "ndjson" | "csv")) && length > MAX_BYTES {
        return Err(ImportError::format(
            path,
            format!("it has {length} bytes, of at most {MAX_BYTES}, and is left out"),
        ));
    }
    match end {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::event_file::{Message, frame};

    /// Writes an event file with the tag `epoch_loss`.
    fn write_events(path: &Path, step: u64, value: f32) {
        let message = |fill: &dyn Fn(&mut Message)| {
            let mut message = Message::default();
            fill(&mut message);
            message
        };
        let scalar = message(&|scalar| {
            scalar.bytes(1, b"epoch_loss");
            scalar.float(2, value);
        });
        let summary = message(&|summary| summary.bytes(1, scalar.content()));
        let event = message(&|event| {
            event.number(2, step);
            event.bytes(5, summary.content());
        });
        let mut bytes = Vec::new();
        frame(&mut bytes, event.content());
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }

    #[test]
    fn a_job_has_its_own_event_files_by_parts_and_notices_of_unread_ones() {
        let folder = tempfile::tempdir().unwrap();
        for job in ["", "one"] {
            let config = folder.path().join(job).join(".hydra/config.yaml");
            std::fs::create_dir_all(config.parent().unwrap()).unwrap();
            std::fs::write(config, "lr: 0.1\n").unwrap();
        }
        write_events(&folder.path().join("train/events.out.tfevents.1"), 1, 0.5);
        write_events(&folder.path().join("validation/events.out.tfevents.2"), 1, 0.75);
        write_events(&folder.path().join("one/events.out.tfevents.3"), 1, 8.0);
        std::fs::write(folder.path().join("one/events.out.tfevents.4"), "torn").unwrap();
        std::fs::write(folder.path().join("one/empty.csv"), "").unwrap();
        let read = read(folder.path()).unwrap();
        let values = |run: &Run| -> Vec<(String, f64)> {
            run.series.iter().filter_map(|(name, points)| Some((name.clone(), points.last?))).collect()
        };
        let expected = [("train/epoch_loss".to_owned(), 0.5), ("validation/epoch_loss".to_owned(), 0.75)];
        assert_eq!(values(&read.runs[0]), expected);
        assert_eq!(values(&read.runs[1]), [("epoch_loss".to_owned(), 8.0)]);
        assert!(read.notices[0].contains("empty.csv: it is empty"), "{:?}", read.notices);
        assert!(read.notices[1].contains("the end of 1 event file is torn"), "{:?}", read.notices);
    }
}
