//! Files that programs leave in the folder of a run: metrics as CSV, JSON lines and JSON, and settings.

use std::path::Path;

use super::{ImportError, Run, csv, lenient, percent::Scale, text};
use serde_json::{Map, Value as Json};

/// Maximum size of a file with metrics, in bytes.
const MAX_BYTES: u64 = 256 << 20;
/// Files with the settings of a run, the most specific first.
const SETTINGS: [&str; 14] = [
    "hparams.yaml",
    "hparams.json",
    "params.json",
    "params.yaml",
    "args.yaml",
    "args.json",
    "opt.yaml",
    "config.yaml",
    "config.yml",
    "config.json",
    "variant.json",
    "flags.json",
    "settings.json",
    "settings.yaml",
];

/// Names of columns with steps that Ray Tune and Stable-Baselines3 write.
const OTHER_STEPS: [&str; 2] = ["training_iteration", "time/total_timesteps"];

/// The beginning of the names of columns with parameters that Ray Tune writes.
const CONFIG: &str = "config/";

/// Adds the parameters of the first file with settings in a folder. Interpolations have the value of another parameter.
pub(super) fn settings(run: &mut Run, folder: &Path) -> Result<(), ImportError> {
    let Some(path) = SETTINGS.iter().map(|name| folder.join(name)).find(|path| path.is_file()) else { return Ok(()) };
    let text = text(&path)?;
    let config: Json = match path.extension().and_then(|end| end.to_str()) {
        Some("json") => lenient::json(&text).ok_or_else(|| ImportError::format(&path, "it is not JSON"))?,
        _ => serde_saphyr::from_str(&text).map_err(|error| ImportError::format(&path, error.to_string()))?,
    };
    for (name, value) in flat(&config) {
        if !value.as_str().is_some_and(|text| text.contains("${")) {
            lenient::add(&mut run.params, &name, &value);
        }
    }
    Ok(())
}

/// The leaves of nested maps, by their paths.
pub(super) fn flat(config: &Json) -> Vec<(String, Json)> {
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

/// Adds the metrics of a file, if it is of a kind that has some, and notices about values in percent.
pub(super) fn metrics(run: &mut Run, path: &Path, notices: &mut Vec<String>) -> Result<(), ImportError> {
    let end = path.extension().and_then(|end| end.to_str());
    let length = std::fs::metadata(path).map_or(0, |file| file.len());
    if matches!(end, Some("json" | "jsonl" | "ndjson" | "csv" | "tsv")) && length > MAX_BYTES {
        return Err(ImportError::format(
            path,
            format!("it has {length} bytes, of at most {MAX_BYTES}, and is left out"),
        ));
    }
    match end {
        Some("json") => {
            let text = text(path)?;
            match lenient::json(&text) {
                Some(document) => of_document(run, &document),
                None => of_lines(run, &text),
            }
        }
        Some("jsonl" | "ndjson") => of_lines(run, &text(path)?),
        Some("csv" | "tsv") => {
            let table = csv::table(path)?;
            let columns: Vec<&str> = table.columns.iter().map(String::as_str).collect();
            let last = table.rows.last().map_or(&[][..], Vec::as_slice);
            for (column, cell) in columns.iter().zip(last) {
                let param = column.strip_prefix(CONFIG).filter(|name| !run.params.contains_key(*name));
                run.params.extend(param.and_then(|name| Some((name.to_owned(), lenient::scalar(cell)?))));
            }
            let scales: Vec<Scale> = (0..columns.len()).map(|place| Scale::of(&table, place)).collect();
            for (row, cells) in (0..).zip(&table.rows) {
                let values = columns.iter().zip(cells).zip(&scales);
                log(run, row, values.filter_map(|((name, cell), scale)| Some((*name, scale.value(cell)?))));
            }
            for notice in columns.iter().zip(&scales).filter_map(|(name, scale)| scale.notice(name)) {
                if !notices.contains(&notice) {
                    notices.push(notice);
                }
            }
        }
        _ => {}
    }
    Ok(())
}

/// Adds the numbers in lines of JSON.
fn of_lines(run: &mut Run, text: &str) {
    for (row, line) in (0..).zip(text.lines()) {
        if let Some(Json::Object(entries)) = lenient::json(line) {
            of_record(run, row, &entries);
        }
    }
}

fn of_record(run: &mut Run, row: u64, entries: &Map<String, Json>) {
    let values = flat(&Json::Object(entries.clone()));
    log(run, row, values.iter().filter_map(|(name, value)| Some((name.as_str(), lenient::number(value)?))));
}

/// Adds the numbers of a file that is one JSON document. A list of objects, also as the only such list in an object, has the numbers of
/// each step; a list of numbers has the values of a metric at all steps; other numbers are final values.
fn of_document(run: &mut Run, document: &Json) {
    let records = |items: &[Json], run: &mut Run| {
        for (row, entries) in (0..).zip(items.iter().filter_map(Json::as_object)) {
            of_record(run, row, entries);
        }
    };
    let entries = match document {
        Json::Array(items) => return records(items, run),
        Json::Object(entries) => entries,
        _ => return,
    };
    let is_list = |value: &&Vec<Json>| value.len() > 1 && value.iter().all(Json::is_object);
    let lists: Vec<&Vec<Json>> = entries.values().filter_map(Json::as_array).filter(is_list).collect();
    if let [items] = lists.as_slice() {
        records(items, run);
    }
    let is_log = lists.len() == 1 && entries.contains_key("log_history");
    let numbers = |value: &Json| -> Option<Vec<f64>> { value.as_array()?.iter().map(lenient::number).collect() };
    let values = flat(document);
    let lists: Vec<(&String, Vec<f64>)> = values
        .iter()
        .filter_map(|(name, value)| Some((name, numbers(value)?)))
        .filter(|(_, list)| list.len() > 1)
        .collect();
    for (name, list) in lists.iter().filter(|(name, _)| !csv::is_step(name)) {
        let steps = lists.iter().find(|(step, steps)| csv::is_step(step) && steps.len() == list.len());
        for (row, value) in list.iter().enumerate() {
            let step = steps.map_or(row as u64, |(_, steps)| lenient::step(steps[row]));
            run.log(name, step, *value);
        }
    }
    // Beside the log of a trainer of Hugging Face are its settings.
    for (name, value) in values.iter().filter(|(name, _)| !is_log || name.starts_with("best_")) {
        if let Some(number) = lenient::number(value) {
            run.conclude(name, number);
        }
    }
}

/// Adds a row of numbers; without a column for the step, its place among the rows is the step.
fn log<'n>(run: &mut Run, row: u64, values: impl Iterator<Item = (&'n str, f64)>) {
    let values: Vec<(&str, f64)> = values.collect();
    let is_other_step = |name: &str| OTHER_STEPS.contains(&name);
    let names: Vec<&str> = values.iter().map(|(name, _)| *name).collect();
    let place = csv::step_place(&names);
    let place = place.or_else(|| values.iter().position(|(name, _)| is_other_step(name)));
    let step = place.map_or(row, |place| lenient::step(values[place].1));
    let is_metric = |name: &str| !csv::is_step(name) && !is_other_step(name) && !name.starts_with(CONFIG);
    for (name, value) in values.into_iter().filter(|(name, _)| is_metric(name)) {
        run.log(name, step, value);
    }
}
