//! The list of runs, the latest first, and of the reports.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use axum::{Extension, extract::State, response::Response};
use maud::html;
use serde::Serialize;

use super::{Script, Site, clients::Client, compare::MAX_RUNS as MAX_COMPARED, page as site_page, read, stream};
use crate::{
    format::{clean, duration},
    host,
    progress::span,
    render::page::Tally,
    run::{
        RunFolder, Summary,
        watch::{Snapshot, Watch},
    },
};

/// Maximum number of runs that are listed.
const MAX_LISTED_RUNS: usize = 500;
/// Maximum number of reports that are listed.
const MAX_REPORTS: usize = 200;

/// Data about runs.
#[derive(Debug, Default)]
pub(super) struct Known(Mutex<Runs>);

#[derive(Debug, Default)]
struct Runs {
    /// Lines of runs that have ended, which do not change any more.
    ended: HashMap<String, Line>,
    open: HashMap<String, Watch>,
}

/// A run, as the page shows it.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Line {
    name: String,
    recipe: String,
    state: &'static str,
    begun: String,
    /// The machine of its engine.
    host: String,
    took: String,
    words: String,
    /// Class, beginning and end of the parts of a bar of 1000.
    bar: Vec<(&'static str, usize, usize)>,
}

/// Data of the page.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Data {
    runs: Vec<Line>,
    more: usize,
    reports: Vec<String>,
}

pub(super) async fn page(State(site): State<Arc<Site>>) -> Response {
    let data = match read(move || data(&site)).await {
        Ok(data) => serde_json::to_string(&data).unwrap_or_else(|_| "{}".to_owned()),
        Err(response) => return response,
    };
    let header = html! { h1 { "sweep" } p .about { "Runs and reports of this results folder" } };
    let main = html! {
        section id="runs" {
            h2 { "Runs" }
            div .filter {
                label for="filter" { "Show runs whose recipe, name or machine has" }
                input id="filter" type="search" autocomplete="off" spellcheck="false" placeholder="Filter: recipe, date, machine";
                label for="state" { "State" }
                select id="state" autocomplete="off" { option value="" { "any state" } @for state in STATES { option value=(state) { (state) } } }
            }
            p .note #shown role="status" {}
            form action="/compare" method="get" {
                div .panel {
                    div .scroll tabindex="0" role="region" aria-label="Runs" {
                        table .runs {
                            thead { tr {
                                th scope="col" { span .hidden { "Compare" } }
                                th scope="col" { "State" }
                                th scope="col" { "Recipe" }
                                th scope="col" { "Jobs" }
                                th scope="col" .extra { "Begun" }
                                th scope="col" .extra { "Machine" }
                                th scope="col" .extra { "Took" }
                            } }
                            tbody #runs-body {}
                        }
                    }
                    p .note #none hidden { "There are no runs yet: " code { "sweep run RECIPE" } " starts one." }
                }
                p .note #more {}
                p .pages {
                    button .plain #compare type="submit" disabled { "Compare runs" }
                    button .plain #earlier type="button" hidden { "Earlier" }
                    button .plain #later type="button" hidden { "Later" }
                }
                p .note { "Choose 2 to " (MAX_COMPARED) " runs to compare them." }
            }
        }
        section id="reports" { h2 { "Reports" } ul .links #reports-body {} }
        p .hidden role="status" id="news" {}
    };
    site_page(
        "Runs",
        header,
        main,
        &data,
        &Script { text: concat!(include_str!("act.js"), include_str!("runs.js")), charts: false },
    )
}

pub(super) async fn events(State(site): State<Arc<Site>>, Extension(client): Extension<Client>) -> Response {
    // Every run has a name.
    stream::stream(Arc::clone(&site), &client, String::new(), || Some(Look { site, before: None })).await
}

struct Look {
    site: Arc<Site>,
    before: Option<Data>,
}

impl stream::Look for Look {
    fn look(&mut self) -> Option<String> {
        let data = data(&self.site);
        let news = self.before.as_ref() != Some(&data);
        let text = serde_json::to_string(&data).ok().filter(|_| news);
        self.before = Some(data);
        text
    }

    fn whole(&self) -> String {
        self.before.as_ref().and_then(|data| serde_json::to_string(data).ok()).unwrap_or_else(|| "{}".to_owned())
    }

    fn is_over(&self) -> bool {
        false
    }
}

fn data(site: &Site) -> Data {
    let folders = RunFolder::all(&site.results);
    let more = folders.len().saturating_sub(MAX_LISTED_RUNS);
    let runs = folders.iter().rev().take(MAX_LISTED_RUNS).filter_map(|folder| site.runs.line(folder)).collect();
    Data { runs, more, reports: reports(&site.results) }
}

impl Known {
    fn line(&self, folder: &RunFolder) -> Option<Line> {
        let name = folder.name();
        let mut runs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(line) = runs.ended.get(&name) {
            return Some(line.clone());
        }
        // A run that was killed while it began has nothing to show.
        let mut watch = match runs.open.remove(&name) {
            Some(watch) => watch,
            None => Watch::new(folder.clone()).ok()?,
        };
        let (snapshot, _) = watch.look().ok()?;
        let line = line(&name, &snapshot);
        if snapshot.live {
            runs.open.insert(name, watch);
        } else {
            runs.ended.insert(name, line.clone());
        }
        Some(line)
    }
}

fn line(name: &str, snapshot: &Snapshot) -> Line {
    let tally = tally(snapshot);
    let took = match &snapshot.summary {
        Some(summary) => duration(summary.seconds),
        // Every second another text would be news of nothing.
        None if snapshot.live => String::new(),
        None => span(snapshot.last, snapshot.manifest.at),
    };
    Line {
        name: name.to_owned(),
        recipe: clean(&snapshot.manifest.recipe).into_owned(),
        state: word(snapshot),
        begun: snapshot.manifest.at.strftime("%Y-%m-%d %H:%M UTC").to_string(),
        host: clean(&snapshot.manifest.host).into_owned(),
        took,
        words: tally.words(),
        bar: tally.parts(1000),
    }
}

/// The words for states of runs.
const STATES: [&str; 6] = ["live", "stopping", "done", "failed", "interrupted", "killed"];

/// State of a run, in a word for which there is a color.
pub(super) fn word(snapshot: &Snapshot) -> &'static str {
    match (&snapshot.summary, snapshot.live) {
        (_, true) if snapshot.stopping => "stopping",
        (_, true) => "live",
        (Some(Summary { interrupted: Some(_), .. }), false) => "interrupted",
        (Some(Summary { failed: 1.., .. } | Summary { blocked: 1.., .. }), false) => "failed",
        (Some(_), false) => "done",
        (None, false) => "killed",
    }
}

/// Numbers of its jobs by state.
pub(super) fn tally(snapshot: &Snapshot) -> Tally {
    let mut tally = Tally::default();
    let selected = snapshot.jobs.iter().filter(|state| state.is_selected());
    selected.for_each(|state| tally.add(state.word()));
    tally
}

/// The folders below the reports' that have a page, as addresses have them.
fn reports(results: &Path) -> Vec<String> {
    let mut pages = Vec::new();
    let folders_below = |folder: &Path| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(folder).into_iter().flatten();
        entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| path.is_dir()).collect()
    };
    let root = results.join("reports");
    for first in folders_below(&root) {
        // A sweep file over several recipes has a folder for each.
        let mut folders = vec![first.clone()];
        folders.extend(folders_below(&first));
        let with_page = folders.iter().filter(|folder| folder.join("index.html").is_file());
        pages.extend(with_page.filter_map(|folder| Some(folder.strip_prefix(&root).ok()?.to_str()?.to_owned())));
    }
    pages.sort();
    pages.truncate(MAX_REPORTS);
    pages
}

/// A run of this name, if it is one.
pub(super) fn find(results: &Path, name: &str) -> Option<RunFolder> {
    RunFolder::all(results).into_iter().find(|folder| folder.name() == name)
}

/// Start of a run and its state, in words.
pub(super) fn how(snapshot: &Snapshot) -> String {
    let now = host::clock::now();
    match (&snapshot.summary, snapshot.live) {
        (_, true) => format!("for {}", span(now, snapshot.manifest.at)),
        (Some(summary), false) => format!("took {}", duration(summary.seconds)),
        (None, false) => "its engine was killed; run the recipe again to continue".to_owned(),
    }
}
