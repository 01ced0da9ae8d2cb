//! A report as one HTML page: what was asked, verdicts, tables, figures, the graph of steps, and every job.
//!
//! The page needs nothing but itself: no network, no other file. Everything that comes from a recipe or a record is
//! escaped where it is put in, and the jobs, which may be many, are data that the page shows a hundred at a time.

mod graph;

use std::collections::BTreeMap;

use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde::Serialize;

use super::{Figure, State, Table, Verdict};
use crate::{
    plan::{JobId, Plan, Study},
    store::{Record, Store},
    text::{clean, count},
    ui::{duration, quantity},
};

/// A job, as the page shows it.
#[derive(Debug, Serialize)]
struct JobLine {
    #[serde(skip)]
    step: String,
    label: String,
    key: String,
    done: bool,
    /// How long it took.
    #[serde(skip_serializing_if = "String::is_empty")]
    time: String,
    /// Where it ran.
    #[serde(skip_serializing_if = "String::is_empty")]
    device: String,
    /// Its metrics, with units.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    metrics: Vec<(String, String)>,
    /// Its parameters that differ from their defaults.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    params: Vec<(String, String)>,
}

/// Of more jobs than this the page has only names and states, so that a browser can hold it.
const MOST_DETAILED: usize = 2000;

/// Where the files are that the page is made of.
pub(super) struct Contents<'a> {
    pub(super) plan: &'a Plan,
    pub(super) study: &'a Study,
    pub(super) records: &'a BTreeMap<JobId, Record>,
    pub(super) store: &'a Store,
    pub(super) tables: &'a [Table],
    pub(super) figures: &'a [Figure],
    pub(super) verdicts: &'a [Verdict],
}

/// The page.
pub(super) fn render(contents: &Contents<'_>) -> String {
    let Contents { study, tables, figures, verdicts, .. } = contents;
    let recipe = &study.recipe;
    let jobs = jobs(contents);
    let done = jobs.iter().filter(|job| job.done).count();
    let name = clean(&recipe.name);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (name) " · sweep" }
                style { (PreEscaped(include_str!("page.css"))) }
            }
            body {
                header {
                    h1 { (name) }
                    @if let Some(about) = &recipe.about { p .about { (clean(about)) } }
                    p .summary { (done) " of " (count(jobs.len(), "job")) " done" }
                    nav aria-label="Sections" {
                        @if !verdicts.is_empty() { a href="#claims" { "Claims" } }
                        @if !tables.is_empty() { a href="#tables" { "Tables" } }
                        @if !figures.is_empty() { a href="#figures" { "Figures" } }
                        a href="#steps" { "Steps" }
                        a href="#jobs" { "Jobs" }
                    }
                }
                main {
                    @if !verdicts.is_empty() { (claims(verdicts)) }
                    @if !tables.is_empty() { (sections(tables)) }
                    @if !figures.is_empty() { (pictures(figures)) }
                    section id="steps" { h2 { "Steps" } (graph::draw(study, &states(&jobs))) }
                    (job_list(jobs.len()))
                }
                script type="application/json" id="data" { (PreEscaped(embedded(&jobs))) }
                script { (PreEscaped(include_str!("page.js"))) }
            }
        }
    };
    page.into_string()
}

fn claims(verdicts: &[Verdict]) -> Markup {
    html! {
        section id="claims" {
            h2 { "Claims" }
            @for verdict in verdicts {
                @let (class, sign, word) = match verdict.state {
                    State::Supported => ("supported", "✓", "supported"),
                    State::Refuted => ("refuted", "✗", "refuted"),
                    State::Undecided => ("undecided", "?", "undecided"),
                };
                article class={ "claim " (class) } {
                    h3 { span .verdict { span aria-hidden="true" { (sign) } " " (word) } " " (verdict.claim) }
                    @if let Some(says) = &verdict.says { p { (says) } }
                    p .because {
                        (clean(&verdict.because))
                        @if let Some(paper) = verdict.paper { "; the paper has " (paper) }
                    }
                    @if !verdict.devices.is_empty() { p .because { "on " (clean(&verdict.devices.join(", "))) } }
                }
            }
        }
    }
}

fn sections(tables: &[Table]) -> Markup {
    html! {
        section id="tables" {
            h2 { "Tables" }
            @for table in tables {
                figure .table {
                    figcaption { (table.title) }
                    div .scroll tabindex="0" role="region" aria-label=(table.title) {
                        table .sortable {
                            thead {
                                tr {
                                    @for heading in table.headings() {
                                        th scope="col" { button type="button" { (clean(&heading)) } }
                                    }
                                }
                            }
                            tbody {
                                @for row in &table.rows {
                                    tr {
                                        @for (index, text) in table.texts(row).enumerate() {
                                            @if index < table.axes.len() {
                                                th scope="row" { (text) }
                                            } @else {
                                                @let value = row.cells[index - table.axes.len()].sample.map(|sample| sample.mean);
                                                td data-value=[value] { (text) }
                                            }
                                        }
                                    }
                                }
                            }
                        }
                    }
                    @for note in &table.notes { p .note { (clean(note)) } }
                }
            }
        }
    }
}

fn pictures(figures: &[Figure]) -> Markup {
    html! {
        section id="figures" {
            h2 { "Figures" }
            div .figures {
                @for figure in figures {
                    figure {
                        @match &figure.svg {
                            // Drawn by this program, every text in it escaped.
                            Some(svg) => div .drawing role="img" aria-label=(figure.title) { (PreEscaped(svg)) },
                            None => p .note { (figure.title) ": there is nothing to draw yet" },
                        }
                    }
                }
            }
        }
    }
}

fn job_list(number: usize) -> Markup {
    html! {
        section id="jobs" {
            h2 { "Jobs" }
            form .filter {
                label for="filter" { "Show jobs whose name has" }
                " "
                input id="filter" type="search" autocomplete="off" placeholder="train/seed=0";
            }
            p #shown role="status" { (count(number, "job")) }
            div #list {}
            p .pages {
                button type="button" id="earlier" { "Earlier" }
                " "
                button type="button" id="later" { "Later" }
            }
            noscript { "The list of jobs needs JavaScript; everything else does not." }
        }
    }
}

/// How many jobs each step has, and how many of them are done.
fn states(jobs: &[JobLine]) -> BTreeMap<&str, (usize, usize)> {
    let mut states: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for job in jobs {
        let (done, all) = states.entry(&job.step).or_default();
        *done += usize::from(job.done);
        *all += 1;
    }
    states
}

fn jobs(contents: &Contents<'_>) -> Vec<JobLine> {
    let Contents { plan, study, records, store, .. } = contents;
    let mut lines = Vec::new();
    let detailed = study.steps.iter().map(Vec::len).sum::<usize>() <= MOST_DETAILED;
    for (step, points) in study.recipe.steps.iter().zip(&study.steps) {
        for (point, id) in points {
            let job = plan.job(*id);
            let record = records.get(id);
            let shown = record.filter(|_| detailed);
            let separator = if point.values.is_empty() { "" } else { "/" };
            let provenance = record.map(|record| &record.provenance);
            let metrics = shown.map(|record| &record.outcome.metrics).into_iter().flatten();
            let params = job.identity.params.iter().filter(|_| detailed);
            lines.push(JobLine {
                step: step.name.value.clone(),
                label: clean(&format!("{}{separator}{point}", step.name.value)).into_owned(),
                key: job.key.short(),
                done: record.is_some() || store.contains(job.key),
                time: provenance.map(|provenance| duration(provenance.seconds)).unwrap_or_default(),
                device: provenance
                    .filter(|_| detailed)
                    .and_then(|provenance| provenance.device.as_ref())
                    .map(|device| clean(&format!("{} ({})", device.backend.name(), device.name)).into_owned())
                    .unwrap_or_default(),
                metrics: metrics
                    .map(|(name, metric)| (clean(name).into_owned(), quantity(metric.value, metric.unit)))
                    .collect(),
                params: params
                    .map(|(name, value)| {
                        (name.clone(), clean(&crate::plan::without_keys(&value.to_string())).into_owned())
                    })
                    .collect(),
            });
        }
    }
    lines
}

/// Data in a script element: JSON in which nothing can end the element.
fn embedded(jobs: &[JobLine]) -> String {
    serde_json::to_string(jobs).unwrap_or_else(|_| "[]".to_owned()).replace('<', "\\u003c")
}
