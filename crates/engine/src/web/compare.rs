//! Comparison of runs: environments, curves, parameters and metrics, as `sweep diff` has them for two.

use std::sync::Arc;

use axum::{
    extract::{Query, State, rejection::QueryRejection},
    response::Response,
};
use maud::{Markup, html};
use serde::{Deserialize, Serialize};

use super::{Script, Site, crumbs, not_found, page as site_page, read, runs};
use crate::{
    format::{clean, count, duration},
    query::{
        changed::{Change, Lines},
        diff::{self, Difference, MetricChange, Shown},
    },
    render::sentence,
    run::watch::Snapshot,
    store::Store,
};

/// Maximum number of runs that are compared.
pub(super) const MAX_RUNS: usize = 6;
/// Maximum number of rows that are shown.
const MAX_ROWS: usize = 500;
/// Maximum number of names of a kind that are listed.
const MAX_NAMES: usize = 50;
/// Maximum number of jobs with curves that are offered.
const MAX_JOBS: usize = 2000;
/// The runs' letters on the page.
const LETTERS: [&str; MAX_RUNS] = ["A", "B", "C", "D", "E", "F"];

#[derive(Debug, Deserialize)]
pub(super) struct Asked {
    /// Names of runs, with commas between them.
    runs: String,
}

/// A compared run.
struct Side {
    name: String,
    snapshot: Snapshot,
}

/// Data of the page: the jobs that have curves.
#[derive(Debug, Serialize)]
struct Data<'a> {
    /// The runs, each with its letter and recipe.
    runs: Vec<(&'a str, String)>,
    /// Names of jobs, with the key of each run's, if it has the job with curves.
    jobs: Vec<(String, Vec<Option<String>>)>,
}

pub(super) async fn page(State(site): State<Arc<Site>>, query: Result<Query<Asked>, QueryRejection>) -> Response {
    let choose = || not_found(&format!("Choose 2 to {MAX_RUNS} runs in the list of runs."));
    let Ok(Query(parameters)) = query else { return choose() };
    let mut names: Vec<String> = Vec::new();
    for name in parameters.runs.split(',') {
        if !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
    if !(2..=MAX_RUNS).contains(&names.len()) {
        return choose();
    }
    match read(move || render(&site, &names)).await {
        Ok(Some(page)) => page,
        Ok(None) => not_found("One of the runs does not exist."),
        Err(response) => response,
    }
}

fn render(site: &Site, names: &[String]) -> Option<Response> {
    let side = |name: &String| {
        let folder = runs::find(&site.results, name)?;
        Some(Side { name: folder.name(), snapshot: Snapshot::read(&folder).ok()? })
    };
    let sides: Vec<Side> = names.iter().map(side).collect::<Option<_>>()?;
    let store = Store::new(&site.results);
    let results = |side: &Side| diff::Side::of_run(side.name.clone(), side.snapshot.manifest.clone(), &store).ok();
    let results: Vec<diff::Side> = sides.iter().map(results).collect::<Option<_>>()?;
    let (first, others) = results.split_first()?;
    let jobs = jobs(&results);
    let title = format!("{} runs", if sides.len() == 2 { "Two".to_owned() } else { sides.len().to_string() });
    let header = html! {
        (crumbs())
        h1 { (title) }
        ol .about.letters { @for (side, letter) in sides.iter().zip(LETTERS) {
            li { (letter) ": " a href={ "/runs/" (side.name) } { (clean(&side.snapshot.manifest.recipe)) " · " (side.name) } }
        } }
    };
    let main = html! {
        section id="runs" { h2 { "Environment" } div .panel { div .scroll tabindex="0" role="region" aria-label="Environment" { (environment(&sides)) } } }
        @if !jobs.is_empty() { (curves()) }
        @for (index, other) in others.iter().enumerate() {
            @let difference = Difference::new(first, other);
            @let pair = Pair { letters: [LETTERS[0], LETTERS[index + 1]], alone: others.len() == 1, of_jobs: false };
            (params(&difference, Open::new(first, other), pair))
            (metrics(&difference, pair))
        }
    };
    let runs = sides.iter().zip(LETTERS).map(|(side, letter)| (side.name.as_str(), letter.to_owned())).collect();
    let data = serde_json::to_string(&Data { runs, jobs }).ok()?;
    Some(site_page(&title, header, main, &data, &Script { text: include_str!("compare.js"), charts: true }))
}

/// The jobs that have curves in some run.
fn jobs(results: &[diff::Side]) -> Vec<(String, Vec<Option<String>>)> {
    let has_curves = |job: &diff::SideJob| job.record.as_ref().is_some_and(|record| !record.outcome.curves.is_empty());
    let names: std::collections::BTreeSet<&String> = results
        .iter()
        .flat_map(|side| side.jobs.iter().filter(|(_, job)| has_curves(job)).map(|(name, _)| name))
        .collect();
    let job = |name: &String| {
        let key = |side: &diff::Side| side.jobs.get(name).filter(|job| has_curves(job)).map(|job| job.key.short());
        (clean(name).into_owned(), results.iter().map(key).collect())
    };
    names.into_iter().take(MAX_JOBS).map(job).collect()
}

/// Numbers of jobs of both sides without a result.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Open {
    /// Those without a result on one side.
    one: usize,
    /// Those without a result on both sides.
    both: usize,
    /// Those of the latter that are the same job.
    same: usize,
}

impl Open {
    fn new(first: &diff::Side, other: &diff::Side) -> Self {
        let mut open = Self::default();
        for (label, job) in &first.jobs {
            let Some(other) = other.jobs.get(label) else { continue };
            match (&job.record, &other.record) {
                (Some(_), Some(_)) => {}
                (None, None) => {
                    open.both += 1;
                    open.same += usize::from(job.key == other.key);
                }
                _ => open.one += 1,
            }
        }
        open
    }
}

/// Two of the compared runs or jobs, as their sections name them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pair {
    pub(super) letters: [&'static str; 2],
    /// True if there are no other runs.
    pub(super) alone: bool,
    /// True for two jobs, which have no seeds to average over, and need no numbers of jobs.
    pub(super) of_jobs: bool,
}

impl Pair {
    /// Heading of a section about them.
    fn heading(self, what: &str) -> String {
        let [first, second] = self.letters;
        if self.alone { what.to_owned() } else { format!("{what}: {first} and {second}") }
    }

    /// Identifier of such a section.
    fn id(self, what: &str) -> String {
        if self.alone { what.to_owned() } else { format!("{what}-{}", self.letters[1]) }
    }
}

fn curves() -> Markup {
    html! {
        section id="curves" {
            h2 { "Curves" }
            div .filter {
                label for="job" { "Job" }
                select id="job" autocomplete="off" {}
            }
            p .note #curves-note role="status" {}
            div .panel { div .curves #curves-body {} }
        }
    }
}

fn environment(sides: &[Side]) -> Markup {
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
    let of_sides: Vec<_> = sides.iter().map(facts).collect();
    let names = of_sides.first().map(|facts| facts.clone().map(|(name, _)| name)).unwrap_or_default();
    html! {
        table .sides {
            thead { tr { td {} @for letter in LETTERS.iter().take(sides.len()) { th scope="col" { (letter) } } } }
            tbody {
                @for (row, name) in names.into_iter().enumerate() {
                    tr { th scope="row" { (name) } @for facts in &of_sides { td { (facts[row].1) } } }
                }
            }
        }
    }
}

pub(super) fn params(difference: &Difference, open: Open, pair: Pair) -> Markup {
    let Difference { same, only, params, environment, .. } = difference;
    // Jobs without a result have a sentence of their own.
    let same = same.saturating_sub(open.same);
    html! {
        section id=(pair.id("params")) {
            h2 { (pair.heading("Parameters and code")) }
            @if params.is_empty() { p { "No parameter and no file that programs have read differs in the jobs that both have." } }
            @else {
                ul { @for change in params.iter().take(MAX_NAMES) { li { (changed(change, pair)) } } }
                @if params.len() > MAX_NAMES { p .note { "and " (params.len() - MAX_NAMES) " more" } }
            }
            @if same > 0 && !pair.of_jobs { p { (count(same, "job")) @if same == 1 { " is" } @else { " are" } " the same in both." } }
            @for (number, place) in [(open.one, "one of them"), (open.both, "either")] {
                @if number > 0 { p { (count(number, "job")) @if number == 1 { " has" } @else { " have" } " no result in " (place) "." } }
            }
            @for (what, [before, after]) in environment.iter().take(MAX_NAMES) {
                p { (clean(what)) ": " (clean(&before.join(", "))) " → " (clean(&after.join(", "))) }
            }
            @if environment.len() > MAX_NAMES {
                p .note { "and " (environment.len() - MAX_NAMES) " more differences of the environments" }
            }
            @for (letter, only) in pair.letters.iter().zip(only) { (names(&format!("Only in {letter}"), only)) }
        }
    }
}

/// A change in the words of `sweep explain`, and the lines of a file that differ.
fn changed(change: &Change, pair: Pair) -> Markup {
    let Change { what, values: [before, after], jobs, lines } = change;
    let label = format!("Changed lines of {}", clean(what));
    html! {
        code { (clean(what)) }
        @if change.is_content() { " changed" } @else { ": " (clean(before)) " → " (clean(after)) }
        @if !pair.of_jobs { " in " (count(jobs.len(), "job")) }
        @if let Some(Lines { shown, left_out, unknown }) = lines {
            @if !shown.is_empty() {
                pre .lines tabindex="0" role="region" aria-label=(label) {
                    @for line in shown { span class=[class_of(line)] { (line) "\n" } }
                }
            }
            @if *left_out > 0 { p .note { (count(*left_out, "more line")) } }
            @if let Some(reason) = unknown { p .note { "Its lines are not known: " (reason) "." } }
        }
    }
}

/// The class of a line of a difference. The first character of the line has the same meaning, for readers without
/// colors.
fn class_of(line: &str) -> Option<&'static str> {
    match line.as_bytes().first() {
        Some(b'-') => Some("removed"),
        Some(b'+') => Some("added"),
        Some(b'@') => Some("place"),
        _ => None,
    }
}

/// Important differences, and significant ones among the others.
pub(super) fn metrics(difference: &Difference, pair: Pair) -> Markup {
    let is_shown = |change: &&MetricChange| change.headline || change.significant == Some(true);
    let changes: Vec<&MetricChange> = difference.metrics.iter().filter(is_shown).collect();
    let hidden = difference.metrics.len() - changes.len();
    html! {
        @if difference.metrics.is_empty() {
            section id=(pair.id("metrics")) { h2 { (pair.heading("Metrics")) } p { "No metric differs in the jobs that both have." } }
        } @else {
            section id=(pair.id("metrics")) {
                h2 { (pair.heading("Metrics")) }
                @if !pair.of_jobs { p .note {
                    "Jobs that differ only in " code { "seed" } " are one row: the mean difference of pairs of equal seeds, "
                    "with its 95 % confidence interval and its p-value, adjusted for all comparisons "
                    "(Holm). ≈ marks differences that are not significant."
                } }
                div .panel { div .scroll tabindex="0" role="region" aria-label=(pair.heading("Metrics")) {
                    table .sortable {
                        thead { tr {
                            @for heading in ["Jobs", "Metric", pair.letters[0], pair.letters[1], "Difference", "%", "Chance"] {
                                @if !pair.of_jobs || !["Jobs", "Chance"].contains(&heading) {
                                    th scope="col" { button type="button" { (heading) } }
                                }
                            }
                        } }
                        tbody { @for change in changes.iter().take(MAX_ROWS) { (row(change, pair)) } }
                    }
                } }
                @if changes.len() > MAX_ROWS { p .note { "The first " (MAX_ROWS) " of " (changes.len()) " rows." } }
                @for reason in MetricChange::unlike(changes.iter().copied()) { p .note { "Not judged: " (sentence(reason)) "." } }
                @if hidden > 0 { p .note { (count(hidden, "difference")) " more that are " @if pair.of_jobs { "of other metrics than the results of the task." } @else { "not significant or not judged." } } }
            }
        }
    }
}

fn row(change: &MetricChange, pair: Pair) -> Markup {
    let [before, after] = change.means;
    let percent = if before == 0.0 { None } else { Some(change.difference / before.abs() * 100.0) };
    let Shown { means, unit, difference, chance } = change.shown();
    let noise = if change.is_noise() { "≈ " } else { "" };
    html! {
        tr {
            @if pair.of_jobs {
                th scope="row" { (clean(&change.metric)) }
            } @else {
                th scope="row" { (clean(&change.group)) }
                td { (clean(&change.metric)) }
            }
            td data-value=(before) { (means[0]) (unit) }
            td data-value=(after) { (means[1]) (unit) }
            td data-value=(change.difference) { (noise) (difference) }
            td data-value=[percent] { @if let Some(percent) = percent { (format!("{percent:+.1}")) } }
            @if !pair.of_jobs { td data-value=[change.p] { (chance) } }
        }
    }
}

fn names(title: &str, names: &[String]) -> Markup {
    html! {
        @if !names.is_empty() {
            details {
                summary { (title) ": " (count(names.len(), "job")) }
                ul { @for name in names.iter().take(MAX_NAMES) { li { (clean(name)) } } }
                @if names.len() > MAX_NAMES { p .note { "and " (names.len() - MAX_NAMES) " more" } }
            }
        }
    }
}
