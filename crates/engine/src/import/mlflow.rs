//! Runs of `MLflow`: its file store (`mlruns`) and its `SQLite` database (`mlflow.db`).

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

use serde_json::Value as Json;

use super::{End, ImportError, Run, Runs, entries, lenient, name_of, sqlite::Database, text};

/// Levels of folders below `metrics` and `params`: names with `/` are folders.
const MAX_LEVELS: usize = 16;
/// The step, the time and the value of a metric.
type Point = (u64, i64, f64);

const DELETED: &str = "deleted at its source";

/// True for a file store: a folder with experiments, an experiment, or a folder with a store.
pub(super) fn detects(path: &Path) -> bool {
    path.is_dir() && store(path).is_some()
}

/// The experiments of a file store.
fn store(path: &Path) -> Option<Vec<PathBuf>> {
    let has_meta = |folder: &Path| folder.join("meta.yaml").is_file();
    let below = |folder: &Path| -> Vec<PathBuf> {
        entries(folder).unwrap_or_default().into_iter().filter(|inner| has_meta(inner)).collect()
    };
    if has_meta(path) {
        return Some(vec![path.to_owned()]);
    }
    [path.to_owned(), path.join("mlruns")].iter().map(|folder| below(folder)).find(|all| !all.is_empty())
}

/// Reads a file store.
pub(super) fn read(path: &Path) -> Result<Runs, ImportError> {
    let experiments = store(path).ok_or_else(|| {
        ImportError::format(path, "it is not a file store of MLflow: it has no folders of experiments with `meta.yaml`")
    })?;
    let mut runs = Runs::default();
    for experiment in experiments {
        let name = meta(&experiment)?.get("name").and_then(Json::as_str).unwrap_or_default().to_owned();
        for folder in entries(&experiment)?.into_iter().filter(|folder| folder.join("meta.yaml").is_file()) {
            match run(&folder, &name) {
                Ok(Some(run)) => runs.runs.push(run),
                Ok(None) => runs.skip(DELETED),
                Err(error) => {
                    runs.skip("a file of the run cannot be read");
                    runs.notices.push(error.to_string());
                }
            }
        }
    }
    Ok(runs)
}

fn meta(folder: &Path) -> Result<Json, ImportError> {
    let path = folder.join("meta.yaml");
    serde_saphyr::from_str(&text(&path)?).map_err(|error| ImportError::format(&path, error.to_string()))
}

/// A run from its folder; `None` for a deleted one.
fn run(folder: &Path, experiment: &str) -> Result<Option<Run>, ImportError> {
    let meta = meta(folder)?;
    if meta.get("lifecycle_stage").and_then(Json::as_str) == Some("deleted") {
        return Ok(None);
    }
    let integer = |name: &str| meta.get(name).and_then(Json::as_i64);
    let status = match meta.get("status") {
        Some(Json::String(word)) => word.clone(),
        Some(number) => word(number.as_i64().unwrap_or_default()).to_owned(),
        None => String::new(),
    };
    let mut run = begun(&name_of(folder), experiment, &status, integer("start_time"), integer("end_time"));
    meta.get("run_name").and_then(Json::as_str).unwrap_or_default().clone_into(&mut run.name);
    each_file(&folder.join("params"), "", 0, &mut |name, path| {
        run.params.extend(lenient::scalar(&text(path)?).map(|value| (name.to_owned(), value)));
        Ok(())
    })?;
    each_file(&folder.join("metrics"), "", 0, &mut |name, path| {
        let mut points: Vec<Point> = text(path)?.lines().filter_map(line).collect();
        points.sort_by_key(|(step, at, _)| (*step, *at));
        for (step, _, value) in points {
            run.log(name, step, value);
        }
        Ok(())
    })?;
    Ok(Some(run))
}

/// The step, the time and the value of a line of a metric: `TIME VALUE STEP`.
fn line(line: &str) -> Option<Point> {
    let mut words = line.split_whitespace();
    let (at, value) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let step = words.next().and_then(|step| step.parse().ok()).unwrap_or(0.0);
    Some((lenient::step(step), at, value))
}

/// Calls `each` with every file below a folder, and its path from there.
fn each_file(
    folder: &Path,
    prefix: &str,
    level: usize,
    each: &mut dyn FnMut(&str, &Path) -> Result<(), ImportError>,
) -> Result<(), ImportError> {
    if !folder.is_dir() || level > MAX_LEVELS {
        return Ok(());
    }
    for path in entries(folder)? {
        let name = format!("{prefix}{}", name_of(&path));
        if path.is_dir() {
            each_file(&path, &format!("{name}/"), level + 1, each)?;
        } else if path.is_file() {
            each(&name, &path)?;
        }
    }
    Ok(())
}

/// A run without values. The experiment is a parameter, because configurations of different experiments are different.
fn begun(id: &str, experiment: &str, status: &str, started: Option<i64>, ended: Option<i64>) -> Run {
    let end = match status {
        "FINISHED" | "" => End::Finished,
        "RUNNING" | "SCHEDULED" => End::Running,
        other => End::Failed(other.to_owned()),
    };
    let seconds =
        started.zip(ended).map_or(0.0, |(start_time, end_time)| (end_time - start_time).max(0) as f64 / 1000.0);
    let mut run = Run { id: id.to_owned(), end, started, seconds, ..Run::default() };
    run.params.extend(lenient::scalar(experiment).map(|name| ("experiment".to_owned(), name)));
    run
}

/// The word of a status of the file store.
fn word(number: i64) -> &'static str {
    match number {
        1 => "RUNNING",
        2 => "SCHEDULED",
        4 => "FAILED",
        5 => "KILLED",
        _ => "FINISHED",
    }
}

/// True for a database of `MLflow`.
pub(super) fn is_database(database: &Database) -> bool {
    ["runs", "params", "metrics", "experiments"].iter().all(|table| database.has(table))
}

pub(super) fn read_database(database: &Database) -> Result<Runs, ImportError> {
    let mut names = HashMap::new();
    database.rows("experiments", &["experiment_id", "name"], &mut |cells| {
        names.insert(cells[0].int(), cells[1].text().unwrap_or_default().to_owned());
    })?;
    let mut runs = Runs::default();
    let mut places = HashMap::new();
    let columns = ["run_uuid", "name", "status", "start_time", "end_time", "lifecycle_stage", "experiment_id"];
    database.rows("runs", &columns, &mut |cells| {
        let text = |place: usize| cells[place].text().unwrap_or_default();
        if text(5) == "deleted" {
            return runs.skip(DELETED);
        }
        let experiment = names.get(&cells[6].int()).map_or("", String::as_str);
        let mut run = begun(text(0), experiment, text(2), cells[3].int(), cells[4].int());
        text(1).clone_into(&mut run.name);
        places.insert(run.id.clone(), runs.runs.len());
        runs.runs.push(run);
    })?;
    database.rows("params", &["run_uuid", "key", "value"], &mut |cells| {
        if let (Some(place), Some(key), Some(value)) =
            (cells[0].text().and_then(|id| places.get(id)), cells[1].text(), cells[2].text())
        {
            runs.runs[*place].params.extend(lenient::scalar(value).map(|value| (key.to_owned(), value)));
        }
    })?;
    // Values of one step are in the order of their times; rows are not.
    let mut points: HashMap<(usize, String), Vec<Point>> = HashMap::new();
    database.rows("metrics", &["run_uuid", "key", "value", "timestamp", "step", "is_nan"], &mut |cells| {
        let place = cells[0].text().and_then(|id| places.get(id));
        let (Some(place), Some(key), Some(value)) = (place, cells[1].text(), cells[2].number()) else { return };
        let value = if cells[5].int() == Some(1) { f64::NAN } else { value };
        let point = (lenient::step(cells[4].number().unwrap_or(0.0)), cells[3].int().unwrap_or(0), value);
        points.entry((*place, key.to_owned())).or_default().push(point);
    })?;
    for ((place, key), mut points) in points {
        points.sort_by_key(|(step, at, _)| (*step, *at));
        for (step, _, value) in points {
            runs.runs[place].log(&key, step, value);
        }
    }
    Ok(runs)
}
