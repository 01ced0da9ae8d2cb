//! Comparison of two runs: environments, parameters and metrics, as `sweep diff` has them.

use std::sync::Arc;

use axum::{
    extract::{Query, State, rejection::QueryRejection},
    response::Response,
};
use maud::{Markup, html};
use serde::Deserialize;

use super::{Site, crumbs, not_found, page as site_page, read, runs};
use crate::{
    format::{clean, count, duration},
    query::diff::{self, Change, Difference, MetricChange, Shown},
    run::watch::Snapshot,
    store::Store,
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

pub(super) async fn page(State(site): State<Arc<Site>>, query: Result<Query<Asked>, QueryRejection>) -> Response {
    let Ok(Query(asked)) = query else { return not_found("Choose two runs in the list of runs.") };
    match read(move || render(&site, &asked)).await {
        Ok(Some(page)) => page,
        Ok(None) => not_found("One of the runs does not exist."),
        Err(response) => response,
    }
}

fn render(site: &Site, asked: &Asked) -> Option<Response> {
    let side = |name: &str| {
        let folder = runs::find(&site.results, name)?;
        Some(Side { name: folder.name(), snapshot: Snapshot::read(&folder).ok()? })
    };
    let (a, b) = (side(&asked.a)?, side(&asked.b)?);
    let store = Store::new(&site.results);
    let results = |side: &Side| diff::Side::of_run(side.name.clone(), side.snapshot.manifest.clone(), &store).ok();
    let (of_a, of_b) = (results(&a)?, results(&b)?);
    let difference = Difference::new(&of_a, &of_b);
    let open = of_a.jobs.iter().filter(|(label, job)| {
        let other = of_b.jobs.get(*label);
        other.is_some_and(|other| job.record.is_none() || other.record.is_none())
    });
    let open = open.count();
    let header = html! { (crumbs()) h1 { "Two runs" } p .about { (title(&a)) " and " (title(&b)) } };
    let main = html! {
        section id="runs" { h2 { "Environment" } div .panel { div .scroll tabindex="0" role="region" aria-label="Environment" { (environment(&a, &b)) } } }
        (params(&difference, open))
        (metrics(&difference))
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
        let limits = &manifest.limits;
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

fn params(difference: &Difference, open: usize) -> Markup {
    let Difference { same, only, params, environment, .. } = difference;
    html! {
        section id="params" {
            h2 { "Parameters" }
            @if params.is_empty() { p { "No parameter differs in the jobs that both have." } }
            @else {
                ul { @for Change { what, values: [before, after], jobs } in params.iter().take(MOST_NAMES) {
                    li { code { (clean(what)) } ": " (clean(before)) " → " (clean(after)) " in " (count(jobs.len(), "job")) }
                } }
                @if params.len() > MOST_NAMES { p .note { "and " (params.len() - MOST_NAMES) " more" } }
            }
            @if *same > 0 { p { (count(*same, "job")) " are the same in both." } }
            @if open > 0 { p { (count(open, "job")) " have no result in one of them." } }
            @for (what, [before, after]) in environment {
                p { (what) ": " (clean(&before.join(", "))) " → " (clean(&after.join(", "))) }
            }
            (names("Only in the first", &only[0]))
            (names("Only in the second", &only[1]))
        }
    }
}

/// Important differences, and significant ones among the others.
fn metrics(difference: &Difference) -> Markup {
    let shown = |change: &&MetricChange| change.headline || change.significant == Some(true);
    let changes: Vec<&MetricChange> = difference.metrics.iter().filter(shown).collect();
    let hidden = difference.metrics.len() - changes.len();
    html! {
        @if difference.metrics.is_empty() {
            section id="metrics" { h2 { "Metrics" } p { "No metric differs in the jobs that both have." } }
        } @else {
            section id="metrics" {
                h2 { "Metrics" }
                p .note {
                    "Jobs that differ only in " code { "seed" } " are one row: the mean difference of pairs of equal seeds, "
                    "with its 95 % confidence interval and its p-value, adjusted for all comparisons "
                    "(Holm). ≈ marks differences that are not significant."
                }
                div .panel { div .scroll tabindex="0" role="region" aria-label="Metrics" {
                    table .sortable {
                        thead { tr {
                            @for heading in ["Jobs", "Metric", "First", "Second", "Difference", "%", "Chance"] {
                                th scope="col" { button type="button" { (heading) } }
                            }
                        } }
                        tbody { @for change in changes.iter().take(MOST) { (row(change)) } }
                    }
                } }
                @if changes.len() > MOST { p .note { "The first " (MOST) " of " (changes.len()) " rows." } }
                @if hidden > 0 { p .note { (count(hidden, "difference")) " more that are not significant." } }
            }
        }
    }
}

fn row(change: &MetricChange) -> Markup {
    let [before, after] = change.means;
    let percent = if before == 0.0 { None } else { Some(change.difference / before.abs() * 100.0) };
    let Shown { means, unit, difference, chance } = change.shown();
    let noise = if change.is_noise() { "≈ " } else { "" };
    html! {
        tr {
            th scope="row" { (clean(&change.group)) }
            td { (clean(&change.metric)) }
            td data-value=(before) { (means[0]) (unit) }
            td data-value=(after) { (means[1]) (unit) }
            td data-value=(change.difference) { (noise) (difference) }
            td data-value=[percent] { @if let Some(percent) = percent { (format!("{percent:+.1}")) } }
            td data-value=[change.p] { (chance) }
        }
    }
}

fn names(title: &str, names: &[String]) -> Markup {
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
