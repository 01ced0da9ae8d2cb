//! One run: the live state and the details of each job.

use std::{
    collections::{BTreeMap, HashSet},
    fmt::Write as _,
    sync::{Arc, Mutex, PoisonError},
};

use axum::{
    Extension,
    extract::{Path as UrlPath, State},
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};
use maud::html;
use serde::Serialize;

use super::{Script, Site, clients::Client, crumbs, not_found, page as site_page, read, runs, stream};
use crate::{
    format::{clean, duration, quantity, speeds, steps},
    host, plan,
    record::Key,
    render::page::{
        Detail, FollowedRun, Head, Headings, LiveCurve, Node, STATES, Tally, WHOLE, draw, end_of, list_section,
        quantiles,
    },
    run::{
        Manifest, RunEvent, RunFolder, RunProvenance,
        watch::{Snapshot, State as JobState},
    },
    store::Store,
};

/// Maximum number of running jobs that are shown with a bar.
const MAX_RUNNING: usize = 64;

/// A run, and the updates sent to its page.
struct View {
    site: Arc<Site>,
    run: Arc<Mutex<FollowedRun>>,
    /// The lines that the page has, as JSON.
    lines: Vec<String>,
    columns: Headings,
    /// The text above the lines.
    rest: serde_json::Value,
    /// Number of consecutive looks without an engine.
    gone: u32,
}

/// Update for a page.
#[derive(Debug, Serialize)]
struct News {
    /// The columns' headings and names, if they have changed; all lines follow then.
    #[serde(flatten)]
    columns: Option<Headings>,
    /// Index and line of the jobs that changed, each a text of JSON.
    jobs: Vec<(usize, String)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rest: Option<serde_json::Value>,
}

/// A job that runs.
#[derive(Debug, Serialize)]
struct Running {
    key: String,
    label: String,
    done: u64,
    total: u64,
    /// Summary, with the remaining time.
    says: String,
    curves: Vec<LiveCurve>,
}

impl View {
    fn new(site: &Arc<Site>, folder: RunFolder) -> std::io::Result<Self> {
        let run = site.followed.run(folder, &site.results)?;
        let site = Arc::clone(site);
        Ok(Self { site, run, lines: Vec::new(), columns: Headings::default(), rest: serde_json::Value::Null, gone: 0 })
    }
}

/// Returns the lines of the jobs, as JSON.
fn lines(run: &FollowedRun, snapshot: &Snapshot) -> Vec<String> {
    let now = host::clock::now();
    let text = |index| serde_json::to_string(&run.line(snapshot, index, now)).unwrap_or_else(|_| "[]".to_owned());
    (0..snapshot.jobs.len()).map(text).collect()
}

/// Text above the list.
fn rest(run: &FollowedRun, snapshot: &Snapshot) -> serde_json::Value {
    let tally = runs::tally(snapshot);
    let now = host::clock::now();
    let left = snapshot.left(now);
    let busy = snapshot.jobs.iter().enumerate().filter_map(|(index, doing)| match doing {
        JobState::Running { since, host, progress, .. } => Some((index, *since, host.clone(), progress.clone())),
        _ => None,
    });
    let running = busy.take(MAX_RUNNING).map(|(index, since, host, progress)| {
        let job = &snapshot.manifest.jobs[index];
        let seconds = now.duration_since(since).as_secs_f64().max(0.0);
        let mut says = vec![format!("for {}", duration(seconds))];
        says.extend(host.map(|host| format!("on {}", clean(&host))));
        let (mut done, mut total) = (0, 0);
        if let Some(progress) = progress {
            (done, total) = (progress.done, progress.total);
            says.insert(0, steps(&progress));
            says.retain(|part| !part.is_empty());
            says.extend(progress.tokens_per_s.map(|rate| quantity(rate, sweep_job::Unit::TokensPerSecond)));
            says.extend(progress.sequences_per_s.map(speeds));
        }
        let curves = run.curves(index).to_vec();
        Running {
            key: job.key.short(),
            label: clean(&job.label).into_owned(),
            done,
            total,
            says: says.join(" · "),
            curves,
        }
    });
    serde_json::json!({
        "state": runs::word(snapshot),
        "how": runs::how(snapshot),
        "left": left.map(|left| format!("about {} left", duration(left))),
        "words": tally.words(),
        "bar": tally.parts(1000),
        "steps": draw(&nodes(run, snapshot)).into_string(),
        "running": running.collect::<Vec<_>>(),
        "series": run.series.iter().map(|(name, unit)| (name, unit.symbol())).collect::<BTreeMap<_, _>>(),
    })
}

/// The steps, each with the steps that it needs.
fn nodes(run: &FollowedRun, snapshot: &Snapshot) -> Vec<Node> {
    let mut nodes: Vec<Node> = run
        .steps
        .iter()
        .map(|name| Node { name: name.clone(), about: String::new(), needs: Vec::new(), tally: Tally::default() })
        .collect();
    let mut seen = HashSet::new();
    for (index, (job, doing)) in snapshot.manifest.jobs.iter().zip(&snapshot.jobs).enumerate() {
        let (step, _) = run.jobs[index];
        if doing.is_selected() {
            nodes[step].tally.add(doing.word());
        }
        let lists = job.lists.iter().filter(|list| seen.insert((step, **list)));
        let lists = lists.flat_map(|list| &snapshot.manifest.lists[*list]);
        for need in job.needs.iter().chain(lists) {
            let (needed_step, _) = run.jobs[*need];
            // A point may need a point of a step with the same name in another recipe, but never itself.
            if needed_step != step && !nodes[step].needs.contains(&needed_step) {
                nodes[step].needs.push(needed_step);
            }
        }
    }
    nodes
}

impl stream::Look for View {
    fn look(&mut self) -> Option<String> {
        let mut run = self.run.lock().unwrap_or_else(PoisonError::into_inner);
        let snapshot = run.look_with(|key, stamp, curves| drop(self.site.series.keep(key, stamp, curves))).ok()?;
        let headings = run.headings(&snapshot.manifest);
        let lines = lines(&run, &snapshot);
        let anew = headings != self.columns;
        let changed = lines.iter().enumerate().filter(|(index, line)| anew || self.lines.get(*index) != Some(line));
        let jobs: Vec<(usize, String)> = changed.map(|(index, line)| (index, line.clone())).collect();
        let rest = rest(&run, &snapshot);
        drop(run);
        self.gone = if snapshot.live || snapshot.elsewhere { 0 } else { self.gone + 1 };
        if jobs.is_empty() && !anew && rest == self.rest {
            return None;
        }
        let other = (rest != self.rest).then(|| rest.clone());
        let news = News { columns: anew.then(|| headings.clone()), jobs, rest: other };
        (self.lines, self.columns, self.rest) = (lines, headings, rest);
        serde_json::to_string(&news).ok()
    }

    fn whole(&self) -> String {
        let jobs = self.lines.iter().cloned().enumerate().collect();
        let news = News { columns: Some(self.columns.clone()), jobs, rest: Some(self.rest.clone()) };
        serde_json::to_string(&news).unwrap_or_else(|_| "{}".to_owned())
    }

    fn is_over(&self) -> bool {
        // At the start of a run, the journal exists briefly before the engine locks it.
        self.gone > 1
    }
}

pub(super) async fn page(State(site): State<Arc<Site>>, UrlPath(run): UrlPath<String>) -> Response {
    match read(move || render(&site, &run)).await {
        Ok(Some(page)) => page,
        Ok(None) => not_found("The run does not exist."),
        Err(response) => response,
    }
}

fn render(site: &Arc<Site>, run: &str) -> Option<Response> {
    let folder = runs::find(&site.results, run)?;
    let RunProvenance { user, git, sweep, .. } = RunProvenance::read(folder.path());
    let followed = site.followed.run(folder, &site.results).ok()?;
    let mut followed = followed.lock().unwrap_or_else(PoisonError::into_inner);
    followed.forget_changed();
    let snapshot = followed.look_with(|key, stamp, curves| drop(site.series.keep(key, stamp, curves))).ok()?;
    let headings = followed.headings(&snapshot.manifest);
    let lines = lines(&followed, &snapshot);
    let rest = rest(&followed, &snapshot);
    let head = Head {
        live: snapshot.live,
        at: None,
        steps: &followed.steps,
        states: STATES,
        columns: &headings,
        seeds: &snapshot.manifest.seeds,
        repeats: &snapshot.manifest.repeats,
        axes: snapshot.manifest.axes.iter().map(|axis| clean(axis).into_owned()).collect(),
        quantiles: quantiles(),
        parts: &[],
    };
    let mut data = serde_json::to_string(&head).ok()?;
    data.pop();
    let run_name = serde_json::to_string(run).ok()?;
    let _ = write!(data, ",\"run\":{run_name},\"rest\":{rest},\"jobs\":[{}]}}", lines.join(","));
    let Manifest { recipe, at, host, reports, .. } = &snapshot.manifest;
    let particulars: Vec<(&str, String)> = [
        ("Run by", user.map(|user| clean(&user).into_owned())),
        ("Commit", git.map(|git| git.short())),
        ("Version", Some(format!("sweep {}", clean(&sweep))).filter(|_| !sweep.is_empty())),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name, value?)))
    .collect();
    let header = html! {
        (crumbs())
        div .top { h1 { (clean(recipe)) } span #state .pill {} }
        p .note { (run) " · begun " (at.strftime("%Y-%m-%d %H:%M UTC")) " on " (clean(host)) " · " span #how {} }
        @if !particulars.is_empty() {
            dl .byline { @for (name, value) in &particulars { div { dt { (name) } dd { (value) } } } }
        }
        div .status { p .summary #words {} span .note #left {} }
        div #bar {}
        div #acts hidden {
            p { span #again {} " " span .note #acted role="status" {} }
            details #extend hidden {
                summary { "Extend by seeds or values" }
                form .choices {
                    label { "Axis " select id="extend-axis" autocomplete="off" {} }
                    label { "Further values " input id="extend-values" autocomplete="off" spellcheck="false" placeholder="4,5"; }
                    button .plain type="submit" { "Show the plan" }
                    button .plain type="button" id="extend-run" hidden { "Run it" }
                }
                pre .lines #extend-plan hidden tabindex="0" role="region" aria-label="Plan" {}
            }
        }
        nav aria-label="Sections" {
            @for report in reports {
                @if site.results.join("reports").join(report).join("index.html").is_file() {
                    a href={ "/reports/" (report.display()) "/index.html" } { "Report " (report.display()) }
                }
            }
            a href="#steps" { "Steps" }
            a href="#jobs" { "Jobs" }
        }
    };
    let main = html! {
        section id="running" hidden { h2 { "Running" } div .cards #running-body {} }
        section id="steps" { h2 { "Steps" } div #steps-body {} }
        (list_section(&html! {}))
        p .hidden role="status" id="news" {}
    };
    Some(site_page(
        &clean(recipe),
        header,
        main,
        &data,
        &Script { text: concat!(include_str!("act.js"), include_str!("view.js")), charts: true },
    ))
}

pub(super) async fn events(
    State(site): State<Arc<Site>>,
    Extension(client): Extension<Client>,
    UrlPath(run): UrlPath<String>,
) -> Response {
    // A run that has ended changes by notes only: pages get its state as of the last one.
    let noted = Store::new(&site.results).noted();
    let (opened, name) = (Arc::clone(&site), format!("{run} {noted:?}"));
    let open = move || runs::find(&opened.results, &run).and_then(|folder| View::new(&opened, folder).ok());
    stream::stream(site, &client, name, open).await
}

/// Details of a job: its record, and its output in this run.
pub(super) async fn job(State(site): State<Arc<Site>>, UrlPath((run, key)): UrlPath<(String, String)>) -> Response {
    match read(move || detail(&site, &run, &key)).await {
        Ok(Some(text)) => {
            ([(header::CACHE_CONTROL, "no-store"), (header::CONTENT_TYPE, "application/json")], text).into_response()
        }
        Ok(None) => StatusCode::NOT_FOUND.into_response(),
        Err(response) => response,
    }
}

fn detail(site: &Site, run: &str, key: &str) -> Option<String> {
    let (folder, key) = job_of(site, run, key)?;
    let manifest = folder.manifest().ok()?;
    let index = manifest.jobs.iter().position(|job| job.key == key)?;
    let label = &manifest.jobs[index].label;
    let store = Store::new(&site.results);
    let detail = match store.get(key).ok().flatten() {
        Some(record) => {
            let detail = Detail::default().params(record.identity.params.iter()).record(&record, &BTreeMap::new());
            match store.notes(key) {
                Ok(notes) => detail.notes(Some(&notes)),
                Err(error) => detail.fact("notes", &error.to_string()),
            }
        }
        None => without_record(site, &folder, index, key),
    };
    let detail = detail.log(folder.latest_log(key).as_deref());
    let detail = match manifest.typed.as_slice() {
        // Runs of earlier versions do not have them.
        [] => detail,
        typed => {
            // The command lines of a plan begin with the program.
            let with_results = |line: String| line.replacen("sweep", &site.program, 1);
            let explanation = plan::explanation(typed, label).map(with_results);
            detail.commands(&with_results(plan::command(typed, label)), explanation.as_deref())
        }
    };
    serde_json::to_string(&detail).ok()
}

/// Details of a job without a record: its reported values in this run, and its duration.
fn without_record(site: &Site, folder: &RunFolder, index: usize, key: Key) -> Detail {
    let mut detail = Detail::default();
    if let Ok(run) = site.followed.run(folder.clone(), &site.results) {
        let mut run = run.lock().unwrap_or_else(PoisonError::into_inner);
        let snapshot = run.look_with(|key, stamp, curves| drop(site.series.keep(key, stamp, curves)));
        match snapshot.as_ref().map(|snapshot| &snapshot.jobs[index]) {
            // The card of a running job draws its series.
            Ok(JobState::Running { .. }) => {}
            Ok(JobState::Failed { seconds, .. } | JobState::Stopped { seconds, .. }) => {
                detail = detail.live(run.curves(index)).fact("took", &duration(*seconds));
            }
            _ => detail = detail.live(run.curves(index)),
        }
    }
    let starts = folder.events().unwrap_or_default();
    let mut starts = starts.iter().rev().filter_map(|line| match &line.event {
        RunEvent::Started { job, attempt, host, .. } if *job == index => Some((*attempt, host.clone())),
        _ => None,
    });
    if let Some((attempt, host)) = starts.next() {
        detail = detail.fact("attempts", &attempt.to_string());
        if let Some(host) = host {
            detail = detail.fact("machine", &host);
        }
    }
    detail.fact("key", &key.to_string())
}

/// Returns the part of a job's log that has been written so far.
pub(super) async fn log(State(site): State<Arc<Site>>, UrlPath((run, key)): UrlPath<(String, String)>) -> Response {
    let found = read(move || {
        let (folder, key) = job_of(&site, &run, &key)?;
        serde_json::to_string(&end_of(&folder.latest_log(key)?, WHOLE)?).ok()
    });
    match found.await {
        Ok(Some(text)) => {
            ([(header::CACHE_CONTROL, "no-store"), (header::CONTENT_TYPE, "application/json")], text).into_response()
        }
        Ok(None) => StatusCode::NOT_FOUND.into_response(),
        Err(response) => response,
    }
}

/// The folder of a run, and the key of one of its jobs by its short form.
fn job_of(site: &Site, run: &str, key: &str) -> Option<(RunFolder, Key)> {
    let folder = runs::find(&site.results, run)?;
    let key = folder.manifest().ok()?.jobs.iter().map(|job| job.key).find(|known| known.short() == key)?;
    Some((folder, key))
}
