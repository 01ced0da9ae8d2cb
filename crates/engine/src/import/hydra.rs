//! Jobs of Hydra: folders with `.hydra/config.yaml`. Hydra itself keeps no metrics, so they are read from the files that jobs usually write
//! into their folder: JSON, JSON lines, CSV and event files of `TensorBoard`.

use std::path::{Path, PathBuf};

use serde_json::Value as Json;

use super::{
    ImportError, Run, Runs, entries,
    files::{flat, metrics},
    lenient, name_of, tensorboard, text,
};

/// Levels of folders in which jobs are searched: `multirun/DATE/TIME/NUMBER`.
const MAX_LEVELS: usize = 6;

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

/// The run of a job, and the number of its event files that are torn or damaged. Adds a notice for each file with metrics that cannot be
/// read.
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
        if let Err(error) = metrics(&mut run, &path, notices) {
            notices.push(error.to_string());
        }
    }
    // The folder of a job may contain the folders of all other jobs.
    let damaged = tensorboard::add_below(&mut run, folder, is_job, notices)?;
    Ok((run, damaged))
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
            run.series.iter().filter_map(|(name, points)| Some((name.clone(), points.last()?))).collect()
        };
        let expected = [("train/epoch_loss".to_owned(), 0.5), ("validation/epoch_loss".to_owned(), 0.75)];
        assert_eq!(values(&read.runs[0]), expected);
        assert_eq!(values(&read.runs[1]), [("epoch_loss".to_owned(), 8.0)]);
        assert!(read.notices[0].contains("empty.csv: it is empty"), "{:?}", read.notices);
        assert!(read.notices[1].contains("the end of 1 event file is truncated"), "{:?}", read.notices);
    }
}
