//! Accounts of a search's decisions for people: who was ranked where, who went on, who stopped and why.

use serde_json::Value as Json;
use sweep_job::Value;

use crate::{
    format::{clean, decimals, number},
    plan::{Study, configuration},
    record::Key,
    store::Decision,
};

use super::search::Decided;

/// A decision in words and numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Account {
    /// The decision in a sentence.
    pub(crate) text: String,
    /// The headings of the columns.
    pub(crate) head: Vec<String>,
    /// What was decided about each configuration.
    pub(crate) rows: Vec<Vec<String>>,
}

/// The accounts of a study's decisions, batches of samplers first.
pub(crate) fn accounts(study: &Study, decided: &[Decided]) -> Vec<Account> {
    let batches = study.searched.iter().flat_map(|(step, searched)| {
        let step = &study.recipe.steps[*step].name.value;
        let axes = searched.axes();
        searched.batches().iter().enumerate().map(move |(index, batch)| Account {
            text: match batch.len() {
                0 => format!("{step}: batch {}: the sampler had no further configuration", index + 1),
                chosen => format!("{step}: batch {}: {chosen} configurations chosen", index + 1),
            },
            head: axes.to_vec(),
            rows: batch.iter().map(|point| point.iter().map(Value::to_string).collect()).collect(),
        })
    });
    let others = decided.iter().map(|decided| Account { text: decided.text.clone(), ..account(&decided.decision) });
    batches.chain(others).map(Account::cleaned).collect()
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
                    (true, _) => format!("goes on to {next}"),
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
                        format!("worse than {than} by {} [{}, {}]", shown(&by["value"]), shown(&by["low"]), shown(&by["high"]))
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

/// What a kept decision says about a job that it follows from, in words; `None` if it says nothing about it alone.
pub(crate) fn about(decision: &Decision, key: Key) -> Option<String> {
    let key = key.to_string();
    let has = |entry: &&Json| {
        entry["keys"].as_array().is_some_and(|keys| keys.iter().any(|own| own.as_str() == Some(&key)))
    };
    let result = &decision.result;
    match decision.kind.as_str() {
        "rung" => {
            let place = result["ranking"].as_array()?.iter().find(has)?;
            let outcome = if place["goes_on"].as_bool() == Some(true) {
                format!("goes on to {}", result["next"])
            } else {
                "stopped".to_owned()
            };
            Some(format!("at {}: rank {} of {}, {outcome}", result["at"], place["rank"], result["of"]))
        }
        "race" => {
            let left = result["left"].as_array()?.iter().find(has)?;
            let because = left["than"].as_str().map_or_else(
                || "no finite value".to_owned(),
                |than| format!("worse than {than} by {}", shown(&left["by"]["value"])),
            );
            Some(format!("left the race after {} seeds: {because}", result["seeds"]))
        }
        _ => None,
    }
}

impl Account {
    fn cleaned(self) -> Self {
        let all = |texts: Vec<String>| texts.iter().map(|text| clean(text).into_owned()).collect();
        let rows = self.rows.into_iter().map(all).collect();
        Self { text: clean(&self.text).into_owned(), head: all(self.head), rows }
    }
}
