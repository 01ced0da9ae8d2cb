//! Two runs side by side: where they ran, what was asked, and what came out, job by job.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use axum::{
    extract::{Query, State, rejection::QueryRejection},
    response::Response,
};
use maud::{Markup, html};
use serde::Deserialize;
use sweep_job::{Metric, Task};

use super::{Site, crumbs, not_found, page as site_page, read, runs};
use crate::{
    plan::{Key, without_keys},
    run::watch::Snapshot,
    store::{Record, Store},
    text::{clean, count},
    ui::{duration, quantity},
};

/// So many rows are shown.
const MOST: usize = 500;
/// So many names of a kind are listed.
const MOST_NAMES: usize = 50;

#[derive(Debug, Deserialize)]
pub(super) struct Asked {
    a: String,
    b: String,
}

/// One of the two.
struct Side {
    name: String,
    snapshot: Snapshot,
}

/// A metric of a job that both have.
struct Row<'a> {
    label: &'a str,
    metric: String,
    a: Metric,
    b: Metric,
}

/// What both runs have, and what not.
#[derive(Default)]
struct Difference<'a> {
    rows: Vec<Row<'a>>,
    /// Param, and its values: how many jobs.
    params: BTreeMap<(String, String, String), usize>,
    same: usize,
    only: [Vec<&'a str>; 2],
    unfinished: usize,
}

pub(super) async fn page(State(site): State<Arc<Site>>, query: Result<Query<Asked>, QueryRejection>) -> Response {
    let Ok(Query(asked)) = query else { return not_found("Choose two runs in the list of runs.") };
    match read(move || render(&site, &asked)).await {
        Ok(Some(page)) => page,
        Ok(None) => not_found("One of the runs is not there."),
        Err(response) => response,
    }
}

fn render(site: &Site, asked: &Asked) -> Option<Response> {
    let side = |name: &str| {
        let folder = runs::find(&site.results, name)?;
        Some(Side { name: folder.name(), snapshot: Snapshot::read(&folder).ok()? })
    };
    let (a, b) = (side(&asked.a)?, side(&asked.b)?);
    let difference = Difference::new(&a, &b, &Store::new(&site.results));
    let header = html! { (crumbs()) h1 { "Two runs" } p .about { (title(&a)) " and " (title(&b)) } };
    let main = html! {
        section id="runs" { h2 { "Where and when" } div .panel { div .scroll tabindex="0" role="region" aria-label="Where and when" { (environment(&a, &b)) } } }
        (difference.show())
    };
    Some(site_page(
        "Two runs",
        header,
        main,
        "{}",
        "document.querySelectorAll(\"table.sortable\").forEach((table) => sortable(table));\n",
    ))
}

fn title(side: &Side) -> Markup {
    html! { a href={ "/runs/" (side.name) } { (clean(&side.snapshot.manifest.recipe)) " · " (side.name) } }
}

fn environment(a: &Side, b: &Side) -> Markup {
    let facts = |side: &Side| {
        let Snapshot { manifest, summary, .. } = &side.snapshot;
        let limits = manifest.limits;
        [
            ("state", runs::word(&side.snapshot).to_owned()),
            ("recipe", clean(&manifest.recipe).into_owned()),
            ("begun", manifest.at.strftime("%Y-%m-%d %H:%M UTC").to_string()),
            ("took", summary.as_ref().map_or_else(|| "–".to_owned(), |summary| duration(summary.seconds))),
            ("jobs", runs::tally(&side.snapshot).words()),
            ("machine", clean(&manifest.host).into_owned()),
            ("has", format!("{}, {}", count(limits.cpus, "core"), count(limits.gpus, "GPU"))),
        ]
    };
    html! {
        table .sides {
            thead { tr { td {} th scope="col" { "First" } th scope="col" { "Second" } } }
            tbody {
                @for ((name, a), (_, b)) in facts(a).into_iter().zip(facts(b)) {
                    tr { th scope="row" { (name) } td { (a) } td { (b) } }
                }
            }
        }
    }
}

impl<'a> Difference<'a> {
    fn new(a: &'a Side, b: &'a Side, store: &Store) -> Self {
        let jobs = |side: &'a Side| -> Vec<(&'a str, Key)> {
            side.snapshot.manifest.jobs.iter().map(|job| (job.label.as_str(), job.key)).collect()
        };
        let (of_a, of_b) = (jobs(a), jobs(b));
        let keys_of_b: HashMap<&str, Key> = of_b.iter().copied().collect();
        let keys_of_a: HashMap<&str, Key> = of_a.iter().copied().collect();
        let mut difference = Self::default();
        difference.only[1] =
            of_b.iter().map(|(label, _)| *label).filter(|label| !keys_of_a.contains_key(label)).collect();
        for (label, key) in of_a {
            let Some(other) = keys_of_b.get(label).copied() else {
                difference.only[0].push(label);
                continue;
            };
            if key == other {
                difference.same += 1;
                continue;
            }
            match (store.get(key).ok().flatten(), store.get(other).ok().flatten()) {
                (Some(a), Some(b)) => difference.add(label, &a, &b),
                _ => difference.unfinished += 1,
            }
        }
        difference
    }

    fn add(&mut self, label: &'a str, a: &Record, b: &Record) {
        let shown = |value: Option<&sweep_job::Value>| {
            value.map_or_else(|| "default".to_owned(), |value| clean(&without_keys(&value.to_string())).into_owned())
        };
        let (params_a, params_b) = (&a.identity.params, &b.identity.params);
        let mut names: Vec<&String> = params_a.keys().chain(params_b.keys()).collect();
        names.sort_unstable();
        names.dedup();
        for name in names.into_iter().filter(|name| params_a.get(*name) != params_b.get(*name)) {
            let change = (clean(name).into_owned(), shown(params_a.get(name)), shown(params_b.get(name)));
            *self.params.entry(change).or_default() += 1;
        }
        let task = Task::info(&a.identity.task);
        let headline = |name: &str| {
            task.is_none_or(|task| task.headline.contains(&name) || (task.open_metrics && task.metric(name).is_none()))
        };
        for (name, metric) in a.outcome.metrics.iter().filter(|(name, _)| headline(name)) {
            if let Some(other) = b.outcome.metrics.get(name) {
                self.rows.push(Row { label, metric: clean(name).into_owned(), a: *metric, b: *other });
            }
        }
    }

    fn show(&self) -> Markup {
        html! {
            section id="params" {
                h2 { "What was asked" }
                @if self.params.is_empty() { p { "No parameter of a job that both have is another one." } }
                @else {
                    ul { @for ((name, a, b), jobs) in self.params.iter().take(MOST_NAMES) {
                        li { code { (name) } ": " (a) " → " (b) " in " (count(*jobs, "job")) }
                    } }
                }
                @if self.same > 0 { p { (count(self.same, "job")) " are the same in both: one record, one result." } }
                @if self.unfinished > 0 { p { (count(self.unfinished, "job")) " have no result in one of them." } }
                (names("Only in the first", &self.only[0]))
                (names("Only in the second", &self.only[1]))
            }
            @if !self.rows.is_empty() {
                section id="metrics" {
                    h2 { "What came out" }
                    p .note { "One value each: whether a difference is more than noise is for tables over seeds to say." }
                    div .panel { div .scroll tabindex="0" role="region" aria-label="What came out" {
                        table .sortable {
                            thead { tr {
                                @for heading in ["Job", "Metric", "First", "Second", "Difference", "%"] {
                                    th scope="col" { button type="button" { (heading) } }
                                }
                            } }
                            tbody { @for row in self.rows.iter().take(MOST) { (row.show()) } }
                        }
                    } }
                    @if self.rows.len() > MOST { p .note { "The first " (MOST) " of " (self.rows.len()) " rows." } }
                }
            }
        }
    }
}

impl Row<'_> {
    fn show(&self) -> Markup {
        let (a, b) = (self.a.value, self.b.value);
        let percent = if a == 0.0 { None } else { Some((b - a) / a.abs() * 100.0) };
        let sign = if b > a { "+" } else { "" };
        html! {
            tr {
                th scope="row" { (clean(self.label)) }
                td { (self.metric) }
                td data-value=(a) { (quantity(a, self.a.unit)) }
                td data-value=(b) { (quantity(b, self.b.unit)) }
                td data-value=(b - a) { (sign) (quantity(b - a, self.a.unit)) }
                td data-value=[percent] { @if let Some(percent) = percent { (format!("{percent:+.1}")) } }
            }
        }
    }
}

fn names(title: &str, names: &[&str]) -> Markup {
    html! {
        @if !names.is_empty() {
            details {
                summary { (title) ": " (count(names.len(), "job")) }
                ul { @for name in names.iter().take(MOST_NAMES) { li { (clean(name)) } } }
                @if names.len() > MOST_NAMES { p .note { "and " (names.len() - MOST_NAMES) " more" } }
            }
        }
    }
}
