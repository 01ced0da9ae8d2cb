//! One run: the live state and the details of each job.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fmt::Write as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use axum::{
    Extension,
    extract::{Path as UrlPath, State},
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};
use maud::html;
use serde::Serialize;
use sweep_job::{LIVE_SERIES, Live, Metrics, Progress, Task, TaskInfo};

use super::{Script, Site, clients::Client, crumbs, not_found, page as site_page, read, runs, stream};
use crate::{
    format::{clean, duration, latest, quantity, speeds, steps},
    host, plan,
    progress::describe,
    record::Key,
    render::page::{
        Columns, Detail, Head, Headings, Line, Node, STATES, Tally, WHOLE, draw, end_of, ended, list_section,
        quantiles, state,
    },
    run::{
        Manifest, RunEvent, RunFolder, RunProvenance,
        watch::{Snapshot, State as JobState, Watch},
    },
    store::Store,
};

/// Maximum number of readings of a running job's series that are drawn; beyond, every second one is.
const CURVE: usize = 120;
/// Maximum number of columns of metrics.
const MAX_COLUMNS: usize = 200;
/// Maximum number of running jobs that are shown with a bar.
const MAX_RUNNING: usize = 64;

/// State of a run, and the updates sent to its page.
struct View {
    watch: Watch,
    store: Store,
    /// The names of the steps, and of each job its step and point.
    steps: Vec<String>,
    jobs: Vec<(usize, String)>,
    /// The results that were read.
    results: BTreeMap<usize, (&'static TaskInfo, Metrics)>,
    /// Seconds that finished jobs took, and their ends in seconds since 1970.
    took: HashMap<usize, (f64, i64)>,
    /// The series of the running jobs.
    curves: HashMap<usize, Vec<Curve>>,
    /// The lines that the page has, as JSON, and what stands above them.
    lines: Vec<String>,
    columns: Headings,
    /// The columns of the results, and the number of results that they are of.
    found: (usize, Columns),
    /// The results' values in these columns.
    cells: HashMap<usize, Vec<Option<f64>>>,
    /// The names of the finished jobs' series, with their units.
    series: BTreeMap<String, &'static str>,
    /// Other data.
    rest: serde_json::Value,
    /// Number of consecutive looks without an engine.
    gone: u32,
}

/// Update for a page.
#[derive(Debug, Serialize)]
struct News {
    /// The columns' headings and names, if they are others; all lines follow then.
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
    curves: Vec<Curve>,
}

/// A series of a job that runs.
#[derive(Debug, Clone, Serialize)]
struct Curve {
    name: String,
    /// The latest value, with its name.
    says: String,
    /// Steps and values.
    points: Vec<(u64, f64)>,
    /// The stride of the readings that are kept, and the number left out since the last one.
    #[serde(skip)]
    every: usize,
    #[serde(skip)]
    since: usize,
}

impl Curve {
    /// Adds a reading. One at an earlier step replaces what came after it: the job has been resumed.
    fn add(&mut self, live: &Live) {
        self.says = latest(live);
        match self.points.last() {
            Some((step, _)) if *step == live.step => return,
            Some((step, _)) if *step > live.step => self.points.retain(|(step, _)| *step < live.step),
            _ => {}
        }
        // The newest is always there, and stays if its turn has come.
        if self.since > 0 {
            self.points.pop();
        }
        self.points.push((live.step, live.value));
        self.since = (self.since + 1) % self.every;
        if self.points.len() > CURVE {
            let mut index = 0;
            self.points.retain(|_| {
                index += 1;
                index % 2 == 1
            });
            self.every *= 2;
        }
    }
}

/// Adds the readings of a message to the series of a job.
fn draw_on(curves: &mut Vec<Curve>, progress: &Progress) {
    for live in progress.live() {
        let index = curves.iter().position(|curve| curve.name == live.name).unwrap_or_else(|| {
            let name = live.name.clone();
            curves.push(Curve { name, says: String::new(), points: Vec::new(), every: 1, since: 0 });
            curves.len() - 1
        });
        curves[index].add(&live);
    }
    curves.truncate(LIVE_SERIES);
}

impl View {
    fn new(folder: RunFolder, results: &Path) -> std::io::Result<Self> {
        let manifest = folder.manifest()?;
        let mut steps: Vec<String> = Vec::new();
        let mut index: HashMap<String, usize> = HashMap::new();
        let jobs = manifest.jobs.iter().map(|job| {
            let (step, point) = job.label.split_once('/').unwrap_or((&job.label, ""));
            let next = steps.len();
            let step = *index.entry(step.to_owned()).or_insert_with(|| {
                steps.push(clean(step).into_owned());
                next
            });
            (step, clean(point).into_owned())
        });
        let jobs = jobs.collect();
        Ok(Self {
            watch: Watch::new(folder)?,
            store: Store::new(results),
            steps,
            jobs,
            results: BTreeMap::new(),
            took: HashMap::new(),
            curves: HashMap::new(),
            lines: Vec::new(),
            columns: Headings::default(),
            found: (0, Columns::default()),
            cells: HashMap::new(),
            series: BTreeMap::new(),
            rest: serde_json::Value::Null,
            gone: 0,
        })
    }

    /// Updates the state of the run.
    fn snapshot(&mut self) -> std::io::Result<Snapshot> {
        let (snapshot, lines) = self.watch.look()?;
        for line in lines {
            if let RunEvent::Progress { job, progress } = line.event {
                draw_on(self.curves.entry(job).or_default(), &progress);
            }
        }
        for (job, state) in snapshot.jobs.iter().enumerate() {
            let is_done = matches!(state, JobState::Done { .. } | JobState::Cached);
            if is_done && !self.results.contains_key(&job) {
                self.curves.remove(&job);
                let record = self.store.get(snapshot.manifest.jobs[job].key).ok().flatten();
                if let Some((record, task)) =
                    record.and_then(|record| Task::info(&record.identity.task).map(|task| (record, task)))
                {
                    self.took.insert(job, (record.provenance.seconds, ended(&record)));
                    let curves = record.outcome.curves.iter();
                    self.series.extend(curves.map(|(name, curve)| (clean(name).into_owned(), curve.unit.symbol())));
                    self.results.insert(job, (task, record.outcome.metrics));
                }
            }
        }
        Ok(snapshot)
    }

    /// Determines the columns if there are new results.
    fn columns(&mut self, manifest: &Manifest) -> Headings {
        if self.found.0 != self.results.len() {
            let names: Vec<&str> = manifest.metrics.iter().map(String::as_str).collect();
            let results = self.results.values().map(|(task, metrics)| (*task, metrics));
            let columns = Columns::new(results, &names, MAX_COLUMNS);
            if columns != self.found.1 {
                self.cells.clear();
            }
            self.found = (self.results.len(), columns);
        }
        for (job, (_, metrics)) in &self.results {
            self.cells.entry(*job).or_insert_with(|| self.found.1.cells(metrics));
        }
        self.found.1.headings()
    }

    /// Returns the lines of the jobs.
    fn lines(&self, snapshot: &Snapshot) -> Vec<String> {
        let now = host::clock::now();
        let lines = snapshot.manifest.jobs.iter().zip(&snapshot.jobs).enumerate().map(|(index, (job, doing))| {
            let (word, details) = describe(snapshot, doing, now);
            // Details that change with every refresh are shown above the list.
            let details = match doing {
                JobState::Running { .. } | JobState::Retrying { .. } | JobState::Done { .. } => String::new(),
                _ => details,
            };
            let seconds = match doing {
                JobState::Done { seconds: Some(seconds) }
                | JobState::Failed { seconds, .. }
                | JobState::Stopped { seconds, .. } => Some(*seconds),
                _ => self.took.get(&index).map(|(seconds, _)| *seconds),
            };
            let seconds = seconds.map(|seconds| (seconds * 10.0).round() / 10.0);
            let cells = self.cells.get(&index).cloned().unwrap_or_default();
            let (step, point) = &self.jobs[index];
            let ended = self.took.get(&index).map(|(_, ended)| *ended);
            let line = Line(*step, point.clone(), state(word), job.key.short(), seconds, cells, details, ended);
            serde_json::to_string(&line).unwrap_or_else(|_| "[]".to_owned())
        });
        lines.collect()
    }

    /// Text above the list.
    fn rest(&self, snapshot: &Snapshot) -> serde_json::Value {
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
            let curves = self.curves.get(&index).cloned().unwrap_or_default();
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
            "steps": draw(&self.nodes(snapshot)).into_string(),
            "running": running.collect::<Vec<_>>(),
            "series": self.series,
        })
    }

    /// The steps, with what each needs.
    fn nodes(&self, snapshot: &Snapshot) -> Vec<Node> {
        let mut nodes: Vec<Node> = self
            .steps
            .iter()
            .map(|name| Node { name: name.clone(), about: String::new(), needs: Vec::new(), tally: Tally::default() })
            .collect();
        let mut seen = HashSet::new();
        for (index, (job, doing)) in snapshot.manifest.jobs.iter().zip(&snapshot.jobs).enumerate() {
            let (step, _) = self.jobs[index];
            if doing.is_selected() {
                nodes[step].tally.add(doing.word());
            }
            let lists = job.lists.iter().filter(|list| seen.insert((step, **list)));
            let lists = lists.flat_map(|list| &snapshot.manifest.lists[*list]);
            for need in job.needs.iter().chain(lists) {
                let (needed_step, _) = self.jobs[*need];
                // A point may need a point of a step with the same name in another recipe, but never itself.
                if needed_step != step && !nodes[step].needs.contains(&needed_step) {
                    nodes[step].needs.push(needed_step);
                }
            }
        }
        nodes
    }
}

impl stream::Look for View {
    fn look(&mut self) -> Option<String> {
        let snapshot = self.snapshot().ok()?;
        let headings = self.columns(&snapshot.manifest);
        let lines = self.lines(&snapshot);
        let anew = headings != self.columns;
        let changed = lines.iter().enumerate().filter(|(index, line)| anew || self.lines.get(*index) != Some(line));
        let jobs: Vec<(usize, String)> = changed.map(|(index, line)| (index, line.clone())).collect();
        let rest = self.rest(&snapshot);
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

fn render(site: &Site, run: &str) -> Option<Response> {
    let folder = runs::find(&site.results, run)?;
    let RunProvenance { user, git, sweep, .. } = RunProvenance::read(folder.path());
    let mut view = View::new(folder, &site.results).ok()?;
    let snapshot = view.snapshot().ok()?;
    let headings = view.columns(&snapshot.manifest);
    let lines = view.lines(&snapshot);
    let rest = view.rest(&snapshot);
    let head = Head {
        live: snapshot.live,
        at: None,
        steps: &view.steps,
        states: STATES,
        columns: &headings,
        seeds: &snapshot.manifest.seeds,
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
    Some(site_page(&clean(recipe), header, main, &data, &Script { text: include_str!("view.js"), charts: true }))
}

pub(super) async fn events(
    State(site): State<Arc<Site>>,
    Extension(client): Extension<Client>,
    UrlPath(run): UrlPath<String>,
) -> Response {
    let (opened, name) = (Arc::clone(&site), run.clone());
    let open = move || runs::find(&opened.results, &run).and_then(|folder| View::new(folder, &opened.results).ok());
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
    let label = &manifest.jobs.iter().find(|job| job.key == key)?.label;
    let detail = match Store::new(&site.results).get(key).ok().flatten() {
        Some(record) => Detail::default().params(record.identity.params.iter()).record(&record),
        None => Detail::default().fact("key", &key.to_string()),
    };
    let detail = detail.log(log_of(site, &folder, key).as_deref());
    let detail = match manifest.typed.as_slice() {
        // Runs of earlier versions do not have them.
        [] => detail,
        typed => detail.commands(&plan::command(typed, label), plan::explanation(typed, label).as_deref()),
    };
    serde_json::to_string(&detail).ok()
}

/// Returns the part of a job's log that has been written so far.
pub(super) async fn log(State(site): State<Arc<Site>>, UrlPath((run, key)): UrlPath<(String, String)>) -> Response {
    let found = read(move || {
        let (folder, key) = job_of(&site, &run, &key)?;
        serde_json::to_string(&end_of(&log_of(&site, &folder, key)?, WHOLE)?).ok()
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

/// The log of a job in this run, or in the latest run that has one.
fn log_of(site: &Site, folder: &RunFolder, key: Key) -> Option<PathBuf> {
    let others = || RunFolder::all(&site.results).iter().rev().map(|folder| folder.log(key)).find(|log| log.is_file());
    Some(folder.log(key)).filter(|log| log.is_file()).or_else(others)
}
