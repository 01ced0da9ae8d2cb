//! Trials of Optuna: its `SQLite` storage and its journal.

use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
};

use serde_json::Value as Json;
use sweep_job::Value;

use super::{End, ImportError, Run, Runs, lenient, sqlite::Database, text};
use crate::stats::Better;

/// The metric of the first objective; further ones are `value_1`, `value_2`, ….
const VALUE: &str = "value";
const WAITING: &str = "waiting: it had not begun";

/// True for a database of Optuna.
pub(super) fn is_database(database: &Database) -> bool {
    ["studies", "trials", "trial_params", "trial_values"].iter().all(|table| database.has(table))
}

fn objective(index: i64) -> String {
    if index == 0 { VALUE.to_owned() } else { format!("{VALUE}_{index}") }
}

/// Adds the better direction of an objective. Studies of one store may have different ones; the first counts.
fn direct(runs: &mut Runs, index: i64, is_maximized: bool) {
    let better = if is_maximized { Better::More } else { Better::Less };
    runs.better.entry(objective(index)).or_insert(better);
}

/// A trial without values; `None` for one that has not begun. The study is a parameter, because trials of different studies differ.
fn begun(study: &str, number: i64, state: &str, start_time: Option<i64>, end_time: Option<i64>) -> Option<Run> {
    let end = match state {
        "WAITING" => return None,
        "COMPLETE" => End::Finished,
        "RUNNING" => End::Running,
        other => End::Failed(other.to_owned()),
    };
    let seconds = start_time.zip(end_time).map_or(0.0, |(start, end)| (end - start).max(0) as f64 / 1000.0);
    let params = BTreeMap::from([("study".to_owned(), Value::Text(study.to_owned()))]);
    Some(Run { id: format!("{study}-{number}"), params, end, started: start_time, seconds, ..Run::default() })
}

/// A number and the word for its kind, which databases have beside it.
fn value(number: Option<f64>, kind: Option<&str>) -> Option<f64> {
    match kind {
        Some("INF_POS") => Some(f64::INFINITY),
        Some("INF_NEG") => Some(f64::NEG_INFINITY),
        Some("NAN") => Some(f64::NAN),
        _ => number,
    }
}

/// The value of a parameter from its number and its distribution as JSON.
fn param(number: f64, distribution: &Json) -> Option<Value> {
    let name = distribution.get("name").and_then(Json::as_str).unwrap_or_default();
    let choices = || distribution.get("attributes")?.get("choices")?.get(usize::try_from(lenient::step(number)).ok()?);
    match name {
        "CategoricalDistribution" => {
            let mut params = BTreeMap::new();
            lenient::add(&mut params, "choice", choices()?);
            params.into_values().next()
        }
        _ if name.starts_with("Int") => Some(Value::number(number)),
        _ => Some(Value::Float(number)),
    }
}

/// Reads a database.
pub(super) fn read_database(database: &Database) -> Result<Runs, ImportError> {
    let mut names = HashMap::new();
    database.rows("studies", &["study_id", "study_name"], &mut |cells| {
        names.insert(cells[0].int(), cells[1].text().unwrap_or_default().to_owned());
    })?;
    let (mut runs, mut places) = (Runs::default(), HashMap::new());
    if database.has("study_directions") {
        database.rows("study_directions", &["objective", "direction"], &mut |cells| {
            if let (Some(index), Some(direction)) = (cells[0].int(), cells[1].text()) {
                direct(&mut runs, index, direction == "MAXIMIZE");
            }
        })?;
    }
    let columns = ["trial_id", "number", "study_id", "state", "datetime_start", "datetime_complete"];
    database.rows("trials", &columns, &mut |cells| {
        let time = |place: usize| cells[place].text().and_then(lenient::milliseconds);
        let study = names.get(&cells[2].int()).map_or("", String::as_str);
        let state = cells[3].text().unwrap_or_default();
        match begun(study, cells[1].int().unwrap_or_default(), state, time(4), time(5)) {
            Some(run) => {
                places.insert(cells[0].int(), runs.runs.len());
                runs.runs.push(run);
            }
            None => runs.skip(WAITING),
        }
    })?;
    database.rows("trial_params", &["trial_id", "param_name", "param_value", "distribution_json"], &mut |cells| {
        let (Some(place), Some(name), Some(number)) = (places.get(&cells[0].int()), cells[1].text(), cells[2].number())
        else {
            return;
        };
        let distribution = cells[3].text().and_then(lenient::json).unwrap_or_default();
        runs.runs[*place].params.extend(param(number, &distribution).map(|value| (name.to_owned(), value)));
    })?;
    if database.has("trial_intermediate_values") {
        let kinds = database.has_column("trial_intermediate_values", "intermediate_value_type");
        let kind = if kinds { "intermediate_value_type" } else { "step" };
        database.rows(
            "trial_intermediate_values",
            &["trial_id", "step", "intermediate_value", kind],
            &mut |cells| {
                let content = value(cells[2].number(), cells[3].text());
                if let (Some(place), Some(step), Some(value)) =
                    (places.get(&cells[0].int()), cells[1].number(), content)
                {
                    runs.runs[*place].log(VALUE, lenient::step(step), value);
                }
            },
        )?;
    }
    let kind = if database.has_column("trial_values", "value_type") { "value_type" } else { "objective" };
    database.rows("trial_values", &["trial_id", "objective", "value", kind], &mut |cells| {
        let content = value(cells[2].number(), cells[3].text());
        if let (Some(place), Some(index), Some(value)) = (places.get(&cells[0].int()), cells[1].int(), content) {
            runs.runs[*place].conclude(&objective(index), value);
        }
    })?;
    Ok(runs)
}

/// True for a journal: its first line is an operation.
pub(super) fn detects_journal(path: &Path) -> bool {
    use std::io::{BufRead as _, BufReader, Read as _};
    const MAX_FIRST_LINE: u64 = 1 << 20;
    let Ok(file) = std::fs::File::open(path) else { return false };
    let mut line = String::new();
    let result = BufReader::new(file.take(MAX_FIRST_LINE)).read_line(&mut line);
    result.is_ok() && lenient::json(&line).is_some_and(|first| first.get("op_code").is_some())
}

/// A journal that is being read.
#[derive(Default)]
struct Journal {
    /// The names of the studies; `None` for a deleted one.
    studies: Vec<Option<String>>,
    /// The objectives of the studies with their directions.
    directions: Vec<(i64, i64)>,
    trials: Vec<Trial>,
}

/// The operations on a trial, put together.
struct Trial {
    study: usize,
    number: i64,
    state: i64,
    started: Option<i64>,
    ended: Option<i64>,
    run: Run,
}

/// Reads a journal: one operation in each line. Numbers of operations are those of `JournalOperation`.
pub(super) fn read_journal(path: &Path) -> Result<Runs, ImportError> {
    let (mut journal, mut unread) = (Journal::default(), 0);
    for line in text(path)?.lines().filter(|line| !line.trim().is_empty()) {
        match lenient::json(line) {
            Some(operation) => journal.apply(&operation),
            None => unread += 1,
        }
    }
    let mut runs = Runs::default();
    for (index, direction) in &journal.directions {
        // A number of `StudyDirection`.
        direct(&mut runs, *index, *direction == 2);
    }
    if unread > 0 {
        runs.notices.push(format!("{unread} lines of the journal are torn or no JSON, and are left out"));
    }
    for Trial { study, number, state, started, ended, run } in journal.trials {
        let Some(Some(study)) = journal.studies.get(study) else {
            runs.skip("of a deleted study");
            continue;
        };
        match begun(study, number, state_word(state), started, ended) {
            Some(begun) => {
                let params = begun.params.iter().chain(&run.params);
                let params = params.map(|(name, value)| (name.clone(), value.clone())).collect();
                runs.runs.push(Run { params, series: run.series, ..begun });
            }
            None => runs.skip(WAITING),
        }
    }
    Ok(runs)
}

/// The word of a state, a number of `TrialState`.
fn state_word(state: i64) -> &'static str {
    match state {
        0 => "RUNNING",
        1 => "COMPLETE",
        2 => "PRUNED",
        4 => "WAITING",
        _ => "FAIL",
    }
}

impl Journal {
    fn apply(&mut self, operation: &Json) {
        const CREATE_STUDY: i64 = 0;
        const DELETE_STUDY: i64 = 1;
        const CREATE_TRIAL: i64 = 4;
        const SET_PARAM: i64 = 5;
        const SET_STATE: i64 = 6;
        const SET_INTERMEDIATE: i64 = 7;
        let integer = |name: &str| operation.get(name).and_then(Json::as_i64);
        let time = |name: &str| operation.get(name).and_then(Json::as_str).and_then(lenient::milliseconds);
        let trial = integer("trial_id").and_then(|id| usize::try_from(id).ok());
        match (integer("op_code"), trial.and_then(|id| self.trials.get_mut(id))) {
            (Some(CREATE_STUDY), _) => {
                let name = operation.get("study_name").and_then(Json::as_str).unwrap_or_default();
                self.studies.push(Some(name.to_owned()));
                let directions = operation.get("directions").and_then(Json::as_array);
                let directions = directions.into_iter().flatten().filter_map(Json::as_i64);
                self.directions.extend((0..).zip(directions));
            }
            (Some(DELETE_STUDY), _) => {
                let study = integer("study_id").and_then(|id| usize::try_from(id).ok());
                if let Some(study) = study.and_then(|id| self.studies.get_mut(id)) {
                    *study = None;
                }
            }
            (Some(CREATE_TRIAL), _) => {
                let study = integer("study_id").and_then(|id| usize::try_from(id).ok()).unwrap_or(usize::MAX);
                let number = self.trials.iter().filter(|trial| trial.study == study).count();
                let mut trial = Trial {
                    study,
                    number: i64::try_from(number).unwrap_or(i64::MAX),
                    state: integer("state").unwrap_or(0),
                    started: time("datetime_start"),
                    ended: time("datetime_complete"),
                    run: Run::default(),
                };
                trial.finish(operation);
                self.trials.push(trial);
            }
            (Some(SET_PARAM), Some(trial)) => {
                let name = operation.get("param_name").and_then(Json::as_str).unwrap_or_default();
                let distribution = operation.get("distribution").and_then(Json::as_str).and_then(lenient::json);
                let number = operation.get("param_value_internal").and_then(lenient::number);
                let value = number.and_then(|number| param(number, &distribution.unwrap_or_default()));
                trial.run.params.extend(value.map(|value| (name.to_owned(), value)));
            }
            (Some(SET_STATE), Some(trial)) => {
                trial.state = integer("state").unwrap_or(trial.state);
                trial.started = time("datetime_start").or(trial.started);
                trial.ended = time("datetime_complete").or(trial.ended);
                trial.finish(operation);
            }
            (Some(SET_INTERMEDIATE), Some(trial)) => {
                let value = operation.get("intermediate_value").and_then(lenient::number);
                let step = operation.get("step").and_then(lenient::number);
                if let (Some(step), Some(value)) = (step, value) {
                    trial.run.log(VALUE, lenient::step(step), value);
                }
            }
            _ => {}
        }
    }
}

impl Trial {
    /// Adds the values that an operation has.
    fn finish(&mut self, operation: &Json) {
        let values = operation.get("values").and_then(Json::as_array);
        for (index, value) in (0..).zip(values.into_iter().flatten()) {
            if let Some(value) = lenient::number(value) {
                self.run.conclude(&objective(index), value);
            }
        }
    }
}
