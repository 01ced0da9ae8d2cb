//! Comparison of two jobs: parameters, lines of code, metrics and environments, as `sweep diff` has them for two records.

use std::sync::Arc;

use axum::{
    extract::{Query, State, rejection::QueryRejection},
    response::Response,
};
use maud::{Markup, html};
use serde::Deserialize;

use super::{Script, Site, compare, crumbs, not_found, page as site_page, read, runs};
use crate::{
    format::{clean, duration},
    query::diff::{Difference, Side},
    record::Record,
    store::Store,
};

/// Fewest digits of a key that name a job.
const MIN_DIGITS: usize = 8;
/// The jobs' letters on the page.
const LETTERS: [&str; 2] = ["A", "B"];

#[derive(Debug, Deserialize)]
pub(super) struct Asked {
    /// The beginnings of two keys, with a comma between them.
    jobs: String,
    /// The run whose list of jobs leads here.
    run: Option<String>,
}

/// Reason why there is no comparison.
#[derive(Debug, thiserror::Error)]
enum Absent {
    #[error(
        "Choose two jobs in the list of a run: the address has the beginnings of two different keys, of at least {MIN_DIGITS} digits."
    )]
    Choice,
    #[error("No job has the key {0}, or it has no result yet: jobs with results are compared.")]
    Record(String),
    #[error("The store cannot be read: {0}")]
    Store(String),
}

pub(super) async fn page(State(site): State<Arc<Site>>, query: Result<Query<Asked>, QueryRejection>) -> Response {
    let Ok(Query(asked)) = query else { return not_found(&Absent::Choice.to_string()) };
    match read(move || render(&site, &asked)).await {
        Ok(Ok(page)) => page,
        Ok(Err(reason)) => not_found(&reason.to_string()),
        Err(response) => response,
    }
}

fn render(site: &Site, asked: &Asked) -> Result<Response, Absent> {
    let keys: Vec<&str> = asked.jobs.split(',').collect();
    let is_key = |key: &&str| key.len() >= MIN_DIGITS && key.bytes().all(|byte| byte.is_ascii_hexdigit());
    let (true, [first, second]) = (keys.iter().all(is_key), keys.as_slice()) else { return Err(Absent::Choice) };
    let store = Store::new(&site.results);
    let (first, second) = (record(&store, first)?, record(&store, second)?);
    if first.key == second.key {
        return Err(Absent::Choice);
    }
    let run = asked.run.as_deref().and_then(|name| runs::find(&site.results, name)).map(|folder| folder.name());
    let header = html! {
        @match &run {
            Some(run) => nav .crumbs aria-label="Where this is" { a href="/" { "Runs" } " " a href={ "/runs/" (run) } { (run) } },
            None => (crumbs()),
        }
        h1 { "Two jobs" }
        ol .about.letters { @for (letter, record) in LETTERS.iter().zip([&first, &second]) {
            li {
                (letter) ": "
                @match &run {
                    Some(run) => a href={ "/runs/" (run) "#" (record.key.short()) } { (clean(&record.label)) },
                    None => (clean(&record.label)),
                }
            }
        } }
    };
    let records = table(&[&first, &second]);
    let side = |record: Record| Side::of_record(record.key.short(), record, &store);
    let (first, mut second) = (side(first), side(second));
    second.pair_with(&first);
    let difference = Difference::new(&first, &second);
    let pair = compare::Pair { letters: LETTERS, alone: true, of_jobs: true };
    let main = html! {
        section id="records" { h2 { "Records" } div .panel { div .scroll tabindex="0" role="region" aria-label="Records" { (records) } } }
        (compare::params(&difference, compare::Open::default(), pair))
        (compare::metrics(&difference, pair))
    };
    let script = Script {
        text: "document.querySelectorAll(\"table.sortable\").forEach((table) => sortable(table));",
        charts: false,
    };
    Ok(site_page("Two jobs", header, main, "{}", &script))
}

/// The record whose key begins so.
fn record(store: &Store, key: &str) -> Result<Record, Absent> {
    let failure = |error: &dyn std::fmt::Display| Absent::Store(clean(&error.to_string()).into_owned());
    let keys = store.keys_from(&key.to_lowercase()).map_err(|error| failure(&error))?;
    let [key] = keys.as_slice() else { return Err(Absent::Record(key.to_owned())) };
    store.get(*key).map_err(|error| failure(&error))?.ok_or_else(|| Absent::Record(key.short()))
}

fn table(records: &[&Record; 2]) -> Markup {
    let facts = records.map(|record| {
        let provenance = &record.provenance;
        [
            ("key", record.key.short()),
            ("begun", provenance.started.strftime("%Y-%m-%d %H:%M UTC").to_string()),
            ("took", duration(provenance.seconds)),
            ("machine", clean(&provenance.host).into_owned()),
        ]
    });
    let [first, second] = facts;
    html! {
        table .sides {
            thead { tr { td {} @for letter in LETTERS { th scope="col" { (letter) } } } }
            tbody { @for ((name, first), (_, second)) in first.into_iter().zip(second) {
                tr { th scope="row" { (name) } td { (first) } td { (second) } }
            } }
        }
    }
}
