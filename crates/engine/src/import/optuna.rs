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

/// Adds the better direction of an objective of a study.
fn direct(runs: &mut Runs, index: i64, is_maximized: bool) {
    runs.direct(&objective(index), if is_maximized { Better::More } else { Better::Less });
}

/// A trial without values; `None` for a trial that has not begun. The study is a parameter, because trials of different studies differ.
fn begun(study: &str, number: i64, state: &str, started: Option<i64>, ended: Option<i64>) -> Option<Run> {
    let end = match state {
        "WAITING" => return None,
        "COMPLETE" => End::Finished,
        "RUNNING" => End::Running,
        other => End::Failed(other.to_owned()),
    };
    let seconds = started.zip(ended).map_or(0.0, |(started, ended)| (ended - started).max(0) as f64 / 1000.0);
    let params = BTreeMap::from([("study".to_owned(), Value::Text(study.to_owned()))]);
    Some(Run { id: format!("{study}-{number}"), params, end, started, seconds, ..Run::default() })
}

/// The number that a database stores as a value and a word for its kind, such as `INF_POS`.
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

/// Adds an attribute of a trial: numbers are metrics that its author has set.
fn attribute(run: &mut Run, name: &str, value: &Json) {
    let number = lenient::number(value).filter(|_| !value.is_boolean() && !value.is_string());
    if let Some(number) = number.filter(|_| name != VALUE) {
        run.conclude(name, number);
    }
}

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
    if database.has("trial_user_attributes") {
        database.rows("trial_user_attributes", &["trial_id", "key", "value_json"], &mut |cells| {
            let value = cells[2].text().and_then(lenient::json);
            if let (Some(place), Some(name), Some(value)) = (places.get(&cells[0].int()), cells[1].text(), value) {
                attribute(&mut runs.runs[*place], name, &value);
            }
        })?;
    }
    if database.has("trial_intermediate_values") {
        let kinds = database.has_column("trial_intermediate_values", "intermediate_value_type");
        let kind = if kinds { "intermediate_value_type" } else { "step" };
        database.rows(
            "trial_intermediate_values",
            &["trial_id", "step", "intermediate_value", kind],
            &mut |cells| {
                let found = value(cells[2].number(), cells[3].text());
                if let (Some(place), Some(step), Some(value)) = (places.get(&cells[0].int()), cells[1].number(), found)
                {
                    runs.runs[*place].log(VALUE, lenient::step(step), value);
                }
            },
        )?;
    }
    let kind = if database.has_column("trial_values", "value_type") { "value_type" } else { "objective" };
    database.rows("trial_values", &["trial_id", "objective", "value", kind], &mut |cells| {
        let found = value(cells[2].number(), cells[3].text());
        if let (Some(place), Some(index), Some(value)) = (places.get(&cells[0].int()), cells[1].int(), found) {
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
    let read = BufReader::new(file.take(MAX_FIRST_LINE)).read_line(&mut line);
    read.is_ok() && lenient::json(&line).is_some_and(|first| first.get("op_code").is_some())
}

/// A journal that is being read. Identifiers of studies and trials are their places.
#[derive(Default)]
struct Journal {
    /// The studies; `None` for a deleted one.
    studies: Vec<Option<Study>>,
    trials: Vec<Trial>,
}

/// A study of a journal.
struct Study {
    name: String,
    /// The directions of its objectives, numbers of `StudyDirection`.
    directions: Vec<i64>,
    /// Number of its trials.
    trials: i64,
}

/// A trial, as the operations on it have left it.
struct Trial {
    study: usize,
    number: i64,
    state: i64,
    started: Option<i64>,
    ended: Option<i64>,
    run: Run,
}

/// Reads a journal: one operation in each line. Operations are numbered as in `JournalOperation`.
pub(super) fn read_journal(path: &Path) -> Result<Runs, ImportError> {
    let (mut journal, mut unread) = (Journal::default(), 0);
    for line in text(path)?.lines().filter(|line| !line.trim().is_empty()) {
        match lenient::json(line) {
            Some(operation) => journal.apply(&operation),
            None => unread += 1,
        }
    }
    let mut runs = Runs::default();
    for study in journal.studies.iter().flatten() {
        for (index, direction) in (0..).zip(&study.directions) {
            direct(&mut runs, index, *direction == 2);
        }
    }
    if unread > 0 {
        runs.notices.push(format!("{unread} lines of the journal are truncated or not JSON, and are left out"));
    }
    for Trial { study, number, state, started, ended, run } in journal.trials {
        let Some(Some(study)) = journal.studies.get(study) else {
            runs.skip("of a deleted study");
            continue;
        };
        match begun(&study.name, number, state_word(state), started, ended) {
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

/// The place that an identifier names.
fn place(operation: &Json, name: &str) -> Option<usize> {
    operation.get(name).and_then(Json::as_u64).and_then(|id| usize::try_from(id).ok())
}

fn time(operation: &Json, name: &str) -> Option<i64> {
    operation.get(name).and_then(Json::as_str).and_then(lenient::milliseconds)
}

impl Journal {
    /// Applies an operation as Optuna does: operations on a trial that has ended, or on a deleted study, have no effect.
    fn apply(&mut self, operation: &Json) {
        const CREATE_STUDY: i64 = 0;
        const DELETE_STUDY: i64 = 1;
        const CREATE_TRIAL: i64 = 4;
        let code = operation.get("op_code").and_then(Json::as_i64);
        match code {
            Some(CREATE_STUDY) => self.create_study(operation),
            Some(DELETE_STUDY) => {
                if let Some(study) = place(operation, "study_id").and_then(|id| self.studies.get_mut(id)) {
                    *study = None;
                }
            }
            Some(CREATE_TRIAL) => self.create_trial(operation),
            Some(code) => {
                let trial = place(operation, "trial_id").and_then(|id| self.trials.get_mut(id));
                if let Some(trial) = trial.filter(|trial| trial.is_open()) {
                    trial.apply(code, operation);
                }
            }
            None => {}
        }
    }

    fn create_study(&mut self, operation: &Json) {
        let name = operation.get("study_name").and_then(Json::as_str).unwrap_or_default();
        // `load_if_exists` writes the operation, too; the study that exists is taken, and no identifier is used up.
        if self.studies.iter().flatten().any(|study| study.name == name) {
            return;
        }
        let directions = operation.get("directions").and_then(Json::as_array);
        let directions = directions.into_iter().flatten().filter_map(Json::as_i64).collect();
        self.studies.push(Some(Study { name: name.to_owned(), directions, trials: 0 }));
    }

    fn create_trial(&mut self, operation: &Json) {
        // A trial of a deleted study gets no identifier.
        let Some(id) = place(operation, "study_id") else { return };
        let Some(Some(study)) = self.studies.get_mut(id) else { return };
        let mut trial = Trial {
            study: id,
            number: study.trials,
            state: operation.get("state").and_then(Json::as_i64).unwrap_or(0),
            started: time(operation, "datetime_start"),
            ended: time(operation, "datetime_complete"),
            run: Run::default(),
        };
        study.trials += 1;
        trial.fill(operation);
        trial.finish(operation);
        self.trials.push(trial);
    }
}

impl Trial {
    /// True if it has not ended: it runs or waits.
    fn is_open(&self) -> bool {
        matches!(state_word(self.state), "RUNNING" | "WAITING")
    }

    fn apply(&mut self, code: i64, operation: &Json) {
        const SET_PARAM: i64 = 5;
        const SET_STATE: i64 = 6;
        const SET_INTERMEDIATE: i64 = 7;
        const SET_ATTRIBUTE: i64 = 8;
        match code {
            SET_PARAM => {
                let name = operation.get("param_name").and_then(Json::as_str).unwrap_or_default();
                self.set(name, operation.get("param_value_internal"), operation.get("distribution"));
            }
            SET_STATE => {
                self.state = operation.get("state").and_then(Json::as_i64).unwrap_or(self.state);
                self.started = time(operation, "datetime_start").or(self.started);
                self.ended = time(operation, "datetime_complete").or(self.ended);
                self.finish(operation);
            }
            SET_INTERMEDIATE => {
                let value = operation.get("intermediate_value").and_then(lenient::number);
                let step = operation.get("step").and_then(lenient::number);
                if let (Some(step), Some(value)) = (step, value) {
                    self.run.log(VALUE, lenient::step(step), value);
                }
            }
            SET_ATTRIBUTE => self.attributes(operation, "user_attr"),
            _ => {}
        }
    }

    fn attributes(&mut self, operation: &Json, key: &str) {
        for (name, value) in operation.get(key).and_then(Json::as_object).into_iter().flatten() {
            attribute(&mut self.run, name, value);
        }
    }

    /// Sets a parameter from its internal number and the text of its distribution.
    fn set(&mut self, name: &str, number: Option<&Json>, distribution: Option<&Json>) {
        let distribution = distribution.and_then(Json::as_str).and_then(lenient::json).unwrap_or_default();
        let value = number.and_then(lenient::number).and_then(|number| param(number, &distribution));
        self.run.params.extend(value.map(|value| (name.to_owned(), value)));
    }

    /// Adds the parameters and intermediate values of a trial that was added as a whole: `study.add_trial`, `copy_study`, a retried trial.
    fn fill(&mut self, operation: &Json) {
        let map = |name: &str| operation.get(name).and_then(Json::as_object).into_iter().flatten();
        for (name, number) in map("params") {
            self.set(name, Some(number), operation.get("distributions").and_then(|all| all.get(name)));
        }
        self.attributes(operation, "user_attrs");
        // Names of steps are texts, whose order differs from the order of the steps.
        let values = map("intermediate_values");
        let values = values.filter_map(|(step, value)| Some((step.parse::<i64>().ok()?, lenient::number(value)?)));
        let by_step: BTreeMap<i64, f64> = values.collect();
        for (step, value) in by_step {
            self.run.log(VALUE, lenient::step(step as f64), value);
        }
    }

    /// Adds the values that an operation has. A trial that was added as a whole has `value` in place of `values` for one objective.
    fn finish(&mut self, operation: &Json) {
        let values = operation.get("values").and_then(Json::as_array);
        let value = operation.get("value").filter(|_| values.is_none());
        for (index, value) in (0..).zip(values.into_iter().flatten().chain(value)) {
            if let Some(value) = lenient::number(value) {
                self.run.conclude(&objective(index), value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn journal(operations: &[Json]) -> Runs {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.log");
        let lines: Vec<String> = operations.iter().map(Json::to_string).collect();
        std::fs::write(&path, lines.join("\n") + "\n").unwrap();
        read_journal(&path).unwrap()
    }

    #[test]
    fn a_trial_that_was_added_as_a_whole_has_its_parameters_and_values() {
        let distributions = json!({
            "lr": r#"{"name": "FloatDistribution", "attributes": {"low": 0.0, "high": 1.0}}"#,
            "opt": r#"{"name": "CategoricalDistribution", "attributes": {"choices": ["sgd", "adam"]}}"#,
        });
        let runs = journal(&[
            json!({ "op_code": 0, "study_name": "a", "directions": [1] }),
            json!({ "op_code": 4, "study_id": 0, "state": 1, "value": 0.5, "values": null, "distributions": distributions,
                    "params": { "lr": 0.1, "opt": 1.0 }, "intermediate_values": { "2": 0.7, "10": 0.6 } }),
            json!({ "op_code": 4, "study_id": 0, "state": 1, "value": null, "values": [1.0, 2.0] }),
        ]);
        let expected =
            [("lr", Value::Float(0.1)), ("opt", Value::Text("adam".into())), ("study", Value::Text("a".into()))];
        assert_eq!(runs.runs[0].params, expected.map(|(name, value)| (name.to_owned(), value)).into());
        let points = &runs.runs[0].series[VALUE];
        assert_eq!((points.last(), &points.by_step), (Some(0.5), &[(2, 0.7), (10, 0.6)].into()));
        assert_eq!(runs.runs[1].series["value_1"].last(), Some(2.0));
    }

    #[test]
    fn operations_that_optuna_ignores_have_no_effect() {
        let complete =
            |trial: i64, value: f64| json!({ "op_code": 6, "trial_id": trial, "state": 1, "values": [value] });
        let runs = journal(&[
            json!({ "op_code": 0, "study_name": "a", "directions": [2] }),
            json!({ "op_code": 0, "study_name": "a", "directions": [2] }),
            json!({ "op_code": 0, "study_name": "b", "directions": [1] }),
            json!({ "op_code": 0, "study_name": "c", "directions": [1] }),
            json!({ "op_code": 4, "study_id": 0, "state": 0 }),
            json!({ "op_code": 1, "study_id": 0 }),
            json!({ "op_code": 4, "study_id": 0, "state": 0 }),
            json!({ "op_code": 4, "study_id": 1, "state": 0 }),
            complete(1, 0.25),
            complete(1, 9.0),
            json!({ "op_code": 7, "trial_id": 1, "step": 1, "intermediate_value": 8.0 }),
        ]);
        let ids: Vec<&str> = runs.runs.iter().map(|run| run.id.as_str()).collect();
        assert_eq!(ids, ["b-0"], "the trial of `a` is deleted, and the second recipe has no identifier");
        assert_eq!((runs.runs[0].series[VALUE].last(), runs.skipped.len()), (Some(0.25), 1));
        assert_eq!(runs.better, [(VALUE.to_owned(), Better::Less)].into(), "`a`, which was maximized, is deleted");
        assert!(runs.notices.is_empty(), "{:?}", runs.notices);
    }

    #[test]
    fn opposite_directions_are_named() {
        let runs = journal(&[
            json!({ "op_code": 0, "study_name": "a", "directions": [1] }),
            json!({ "op_code": 0, "study_name": "b", "directions": [2] }),
        ]);
        assert_eq!(runs.better[VALUE], Better::Less);
        assert!(runs.notices[0].contains("opposite directions of `value`"), "{:?}", runs.notices);
    }
}
