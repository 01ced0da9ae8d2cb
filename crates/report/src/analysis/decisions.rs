//! Accounts of a search's decisions for people: who was ranked where, who went on, who stopped and why.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
};

use serde_json::Value as Json;
use sweep_job::Value;

use super::search::{Decided, stopped_by};
use crate::{
    format::{clean, count, decimals, number},
    plan::{JobId, Plan, Study, configuration},
    recipe::Step,
    record::Key,
    store::{Decision, Measured},
};

/// A decision in words and numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// The decision in a sentence.
    pub text: String,
    /// The headings of the columns.
    pub head: Vec<String>,
    /// The decision about each configuration.
    pub rows: Vec<Vec<String>>,
}

/// The accounts of a study's decisions, the batches of samplers first.
pub fn accounts(study: &Study, decided: &[Decided]) -> Vec<Account> {
    let batches = study.searched.iter().flat_map(|(step, searched)| {
        let step = &study.recipe.steps[*step];
        let batch = move |(index, batch): (usize, &Vec<Vec<Value>>)| Account {
            text: batch_text(step, index, batch.len()),
            head: searched.axes().to_vec(),
            rows: batch.iter().map(|point| point.iter().map(Value::to_string).collect()).collect(),
        };
        searched.batches().iter().enumerate().map(batch)
    });
    let accounts = decided.iter().map(|decided| Account { text: decided.text.clone(), ..account(&decided.decision) });
    batches.chain(accounts).map(Account::cleaned).collect()
}

/// A sentence about a batch of a sampler, or about the configurations to confirm.
fn batch_text(step: &Step, index: usize, configurations: usize) -> String {
    let (name, size) = (&step.name.value, count(configurations, "configuration"));
    match step.search.as_ref().and_then(|search| search.suggest.as_ref()) {
        _ if configurations == 0 => format!("{name}: batch {}: no further configuration", index + 1),
        Some(suggest) => {
            format!("{name}: batch {} of {}: {size}, chosen by {}", index + 1, suggest.batches, suggest.source.name())
        }
        None => format!("{name}: {size} to confirm"),
    }
}

/// The account of a decision as it is kept.
fn account(decision: &Decision) -> Account {
    let result = &decision.result;
    let text = |value: &Json| value.as_str().unwrap_or_default().to_owned();
    let list = |name: &str| result[name].as_array().map_or(&[][..], Vec::as_slice);
    let (head, rows): (Vec<&str>, Vec<Vec<String>>) = match decision.kind.as_str() {
        "rung" => {
            let next = &result["next"];
            let row = |place: &Json| {
                let goes_on = place["goes_on"].as_bool() == Some(true);
                let outcome = match (goes_on, place["value"].is_null()) {
                    (true, _) => format!("promoted to {next}"),
                    (false, true) => "stopped: no finite value".to_owned(),
                    (false, false) => "stopped".to_owned(),
                };
                vec![place["rank"].to_string(), text(&place["configuration"]), shown(&place["value"]), outcome]
            };
            let by = decision.rule["by"].as_str().unwrap_or("value");
            (vec!["rank", "configuration", by, "outcome"], list("ranking").iter().map(row).collect())
        }
        "race" => {
            let row = |left: &Json| {
                let by = &left["by"];
                let because = match left["than"].as_str() {
                    Some(than) => {
                        format!(
                            "worse than {than} by {} [{}, {}]",
                            shown(&by["value"]),
                            shown(&by["low"]),
                            shown(&by["high"])
                        )
                    }
                    None => "no finite value".to_owned(),
                };
                vec![text(&left["configuration"]), because]
            };
            (vec!["left", "because"], list("left").iter().map(row).collect())
        }
        _ => (Vec::new(), Vec::new()),
    };
    Account { text: String::new(), head: head.into_iter().map(str::to_owned).collect(), rows }
}

/// A number with four significant digits.
fn shown(value: &Json) -> String {
    value.as_f64().map_or_else(|| "–".to_owned(), |value| number(value, decimals(value) + 1))
}

/// Statement of a kept decision about a job that it follows from, in words; `None` if it has none about it alone.
pub fn about(decision: &Decision, key: Key) -> Option<String> {
    let key = key.to_string();
    let has = |entry: &&Json| {
        entry["keys"].as_array().is_some_and(|keys| keys.iter().any(|entry_key| entry_key.as_str() == Some(&key)))
    };
    let result = &decision.result;
    match decision.kind.as_str() {
        "rung" => {
            let place = result["ranking"].as_array()?.iter().find(has)?;
            let outcome = if place["goes_on"].as_bool() == Some(true) {
                format!("promoted to {}", result["next"])
            } else {
                "stopped".to_owned()
            };
            Some(format!("at {}: rank {} of {}, {outcome}", result["at"], place["rank"], result["of"]))
        }
        "race" => {
            let exit = result["left"].as_array()?.iter().find(has)?;
            let because = exit["than"].as_str().map_or_else(
                || "no finite value".to_owned(),
                |than| format!("worse than {than} by {}", shown(&exit["by"]["value"])),
            );
            let seeds = usize::try_from(result["seeds"].as_u64()?).unwrap_or(usize::MAX);
            Some(format!("left the race after {}: {because}", count(seeds, "seed")))
        }
        _ => None,
    }
}

/// The last points of the configurations that the search of a step has stopped.
#[derive(Debug, Default)]
pub(super) struct Stops(HashMap<String, Stop>);

/// The end of a configuration.
#[derive(Debug, Clone)]
pub(super) struct Stop {
    /// Configurations that got further come first, and better ones before others.
    pub(super) order: (Reverse<usize>, u64),
    /// The reason.
    pub(super) because: String,
}

impl Stops {
    /// The stops of a step, by its decisions in their order.
    pub(super) fn new(plan: &Plan, study: &Study, step: usize, decided: &[Decided]) -> Self {
        let stop_reasons = stopped_by(plan, decided);
        let mut reasons: HashMap<String, String> = HashMap::new();
        for (point, job) in &study.steps[step] {
            if let Some(because) = stop_reasons.get(job) {
                reasons.insert(configuration(&study.recipe.steps[step], point).to_string(), because.clone());
            }
        }
        let mut stops = HashMap::new();
        for (index, decided) in decided.iter().enumerate().filter(|(_, decided)| decided.step == step) {
            let result = &decided.decision.result;
            let places = ["ranking", "left"].into_iter().filter_map(|name| result[name].as_array()).flatten();
            for place in places.filter(|place| place["goes_on"].as_bool() != Some(true)) {
                let Some(label) = place["configuration"].as_str() else { continue };
                let Some(because) = reasons.get(label).cloned() else { continue };
                let order = (Reverse(index), place["rank"].as_u64().unwrap_or(0));
                stops.insert(label.to_owned(), Stop { order, because });
            }
        }
        Self(stops)
    }

    /// The stop of a configuration, if it was stopped.
    pub(super) fn get(&self, configuration: &str) -> Option<&Stop> {
        self.0.get(configuration)
    }
}

/// The last job that has a record of each configuration that was stopped, by the jobs that it was to have at the last rung.
pub fn reached(
    plan: &Plan,
    study: &Study,
    decided: &[Decided],
    measured: &BTreeMap<JobId, Measured>,
) -> HashMap<JobId, JobId> {
    let stop_reasons = stopped_by(plan, decided);
    let mut reached = HashMap::new();
    for (step, points) in study.recipe.steps.iter().zip(&study.steps) {
        let Some(axis) = step.search.as_ref().and_then(|search| search.axis()) else { continue };
        // The rungs of each point, in ascending order.
        let mut rungs: HashMap<String, Vec<(f64, JobId)>> = HashMap::new();
        for (point, job) in points {
            let Some(rung) = point.get(axis).and_then(Value::as_f64) else { continue };
            rungs.entry(point.but(axis)).or_default().push((rung, *job));
        }
        for rung_jobs in rungs.values_mut() {
            rung_jobs.sort_by(|a, b| a.0.total_cmp(&b.0));
            let Some((_, last)) = rung_jobs.last().filter(|(_, job)| stop_reasons.contains_key(job)) else { continue };
            let done = rung_jobs.iter().rev().find(|(_, job)| measured.contains_key(job));
            reached.extend(done.map(|(_, job)| (*last, *job)));
        }
    }
    reached
}

impl Account {
    fn cleaned(self) -> Self {
        let all = |texts: Vec<String>| texts.iter().map(|text| clean(text).into_owned()).collect();
        let rows = self.rows.into_iter().map(all).collect();
        Self { text: clean(&self.text).into_owned(), head: all(self.head), rows }
    }
}
