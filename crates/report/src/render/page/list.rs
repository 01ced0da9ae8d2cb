//! The jobs of a recipe: the state and details of each.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    fmt::Write as _,
    path::{Path, PathBuf},
    rc::Rc,
};

use serde::Serialize;
use sweep_job::{Unit, tasks::Imported};

use super::{
    Contents, LIMIT, Records,
    columns::{Columns, Headings, MAX_COLUMNS, SHOWN},
    detail::Detail,
    followed::LiveCurve,
    tally::Tally,
};
use crate::{
    format::clean,
    host,
    plan::Point,
    progress::describe,
    record::{Key, Record},
    render::setup::Begun,
    run::{RunFolder, RunProvenance, watch::State},
    stats,
    store::Notes,
};

/// The words for states, in the order in which a list is sorted by them.
pub const STATES: [&str; 13] = [
    "failed",
    "running",
    "retrying",
    "waiting",
    "stopped",
    "lost",
    "skipped",
    "left out",
    "reserve",
    "ruled out",
    "open",
    "done",
    "cached",
];

/// The index of the state of a job that no run has started.
const OPEN: usize = 10;

/// Maximum number of diverged metrics that a job's line names.
const MAX_DIVERGED: usize = 4;
/// Size of a metric of a job in a page, in bytes.
const CELL: usize = 9;
/// Number of degrees of freedom for which a page has the quantile of Student's distribution.
const FREEDOMS: usize = 100;

/// The point of a job as the script reads it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Place {
    /// The text, which can be divided into the values of axes.
    Text(String),
    /// The axes with their values.
    Axes(Vec<(String, String)>),
}

impl Place {
    /// A point by its text, and by its axes if the text cannot be divided into them.
    pub fn new(text: &str, axes: &[(String, String)]) -> Self {
        let clean = |text: &str| clean(text).into_owned();
        if axes.is_empty() {
            return Self::Text(clean(text));
        }
        Self::Axes(axes.iter().map(|(axis, value)| (clean(axis), clean(value))).collect())
    }
}

/// A job's line, in the order in which the script takes it apart.
#[derive(Debug, Serialize)]
pub struct Line(
    /// The index of its step.
    pub usize,
    /// Its point.
    pub Place,
    /// The index of its state's word.
    pub usize,
    /// Its key, or a prefix that distinguishes jobs.
    pub String,
    /// Duration, in seconds.
    pub Option<f64>,
    /// Its metrics in the units of their columns; there may be fewer metrics than columns.
    pub Vec<Option<f64>>,
    /// Reason why it has no result, or its progress.
    pub String,
    /// End of the job that has the result, in seconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub Option<i64>,
    /// Tags of the record, which has an end.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub Vec<String>,
);

/// Data that a script needs to show a list.
#[derive(Debug, Serialize)]
pub struct Head<'a> {
    /// True if a run is using it.
    pub live: bool,
    /// Time of the data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<jiff::Timestamp>,
    /// The steps' names.
    pub steps: &'a [String],
    /// The words for states.
    pub states: [&'static str; 13],
    /// The columns of metrics.
    #[serde(flatten)]
    pub columns: &'a Headings,
    /// The axes over which groups are averaged.
    pub seeds: &'a [String],
    /// Those of them whose jobs are averaged within the other seeds.
    pub repeats: &'a [String],
    /// The names of the axes, safe to print.
    pub axes: Vec<String>,
    /// Half-widths of 95 % confidence intervals in standard errors, by the degrees of freedom from 1 on.
    pub quantiles: Vec<f64>,
    /// Locations of the details, each with its first job.
    pub parts: &'a [(usize, String)],
}

/// States of jobs, and the runs from which they come.
#[derive(Debug, Default)]
pub(super) struct Doing {
    states: HashMap<Key, (&'static str, String)>,
    /// The series that jobs without a result have reported.
    curves: HashMap<Key, Vec<LiveCurve>>,
    /// The runs that are using the recipe's jobs.
    runs: Vec<Begun>,
}

/// Half-widths of confidence intervals for [`Head`].
pub fn quantiles() -> Vec<f64> {
    let rounded = |value: f64| (value * 1e5).round() / 1e5;
    (1..=FREEDOMS).map(|freedom| rounded(stats::quantile(freedom as f64, stats::LEVEL))).collect()
}

/// All jobs of a recipe.
pub(super) struct Jobs {
    pub(super) steps: Vec<String>,
    pub(super) columns: Headings,
    pub(super) lines: Vec<Line>,
    /// A tally of each step.
    pub(super) tallies: Vec<Tally>,
    /// True if a run is using them.
    pub(super) live: bool,
    /// The runs that are using them.
    pub(super) runs: Vec<Begun>,
    /// The series that jobs without a result have reported.
    pub(super) curves: HashMap<Key, Vec<LiveCurve>>,
}

impl Doing {
    /// Finds the jobs without a record in the latest runs.
    pub(super) fn new(results: &Path, open: &[Key]) -> Self {
        let mut doing = Self::default();
        if open.is_empty() {
            return doing;
        }
        let mut keys: HashSet<Key> = open.iter().copied().collect();
        let now = host::clock::now();
        // Older runs are not relevant.
        for folder in RunFolder::all(results).iter().rev().take(5) {
            let Ok((snapshot, mut curves)) = LiveCurve::of_run(folder.clone()) else { continue };
            let jobs = snapshot.manifest.jobs.iter().zip(&snapshot.jobs);
            let mut uses = false;
            for (index, (job, state)) in jobs.enumerate().filter(|(_, (_, state))| state.is_selected()) {
                if keys.remove(&job.key) {
                    doing.curves.extend(curves.remove(&index).map(|curves| (job.key, curves)));
                    uses = true;
                    let (word, details) = describe(&snapshot, index, now);
                    // Its record has been removed since.
                    let is_gone = matches!(state, State::Done { .. } | State::Cached);
                    doing.states.insert(job.key, if is_gone { ("open", String::new()) } else { (word, details) });
                }
            }
            if uses && snapshot.live {
                doing.runs.push(Begun::new(&snapshot.manifest, RunProvenance::read(folder.path())));
            }
            if keys.is_empty() {
                break;
            }
        }
        doing
    }

    fn of(&self, key: Key) -> (&'static str, String) {
        self.states.get(&key).cloned().unwrap_or(("open", String::new()))
    }
}

impl Jobs {
    pub(super) fn new(contents: &Contents<'_>, records: &Records<'_>) -> Self {
        let Contents { plan, study, results, store, ruled_out, .. } = contents;
        let directions = study.recipe.directions();
        let open = study.steps.iter().flatten().filter(|(_, id)| !results.is_done(*id));
        let open: Vec<Key> = open.map(|(_, id)| plan.job(*id).key).collect();
        let doing = Doing::new(store.results(), &open);
        let task_metrics = study.recipe.steps.iter().zip(&study.steps).flat_map(|(step, points)| {
            let step_records = points.iter().filter_map(|(_, id)| records.get(id));
            step_records.map(|record| (step.task, &record.outcome.metrics))
        });
        let jobs = study.steps.iter().map(Vec::len).sum::<usize>();
        let max_columns = LIMIT / 2 / (CELL * jobs.max(1));
        let names: Vec<&str> = study.recipe.metrics().collect();
        let columns = Columns::new(task_metrics, &names, &directions, max_columns.clamp(SHOWN, MAX_COLUMNS));
        let notes = store.all_notes();
        let (mut lines, mut tallies) = (Vec::new(), Vec::new());
        for (step, points) in study.steps.iter().enumerate() {
            let mut tally = Tally::default();
            for (point, id) in points {
                let job = plan.job(*id);
                let record = records.get(id).map(AsRef::as_ref);
                let (word, details) = match (ruled_out.get(id), record) {
                    (_, Some(record)) if results.is_done(*id) => ended_as(record),
                    _ if results.is_done(*id) => ("done", String::new()),
                    (Some(reason), _) => ("ruled out", reason.clone()),
                    (None, _) => doing.of(job.key),
                };
                tally.add(word);
                let mut line = line(step, point, job.key, (word, details), record, &columns);
                if record.is_some() {
                    line.8 = notes.get(&job.key).map(tags).unwrap_or_default();
                }
                lines.push(line);
            }
            tallies.push(tally);
        }
        let steps = study.recipe.steps.iter().map(|step| clean(&step.name.value).into_owned()).collect();
        let columns = columns.headings();
        Self { steps, columns, lines, tallies, live: !doing.runs.is_empty(), runs: doing.runs, curves: doing.curves }
    }

    /// All steps together.
    pub(super) fn tally(&self) -> Tally {
        self.tallies.iter().fold(Tally::default(), |all, step| Tally {
            all: all.all + step.all,
            done: all.done + step.done,
            running: all.running + step.running,
            failed: all.failed + step.failed,
            held: std::array::from_fn(|index| all.held[index] + step.held[index]),
            reserve: all.reserve + step.reserve,
            ruled_out: all.ruled_out + step.ruled_out,
        })
    }
}

/// The end of a record's job, in seconds since 1970.
pub(crate) fn ended(record: &Record) -> i64 {
    #[expect(clippy::cast_possible_truncation, reason = "saturating, and durations are short")]
    let seconds = record.provenance.seconds.max(0.0) as i64;
    record.provenance.started.as_second().saturating_add(seconds)
}

/// The seconds that a record's job took; `None` for an imported run whose source does not have them.
pub(crate) fn took(record: &Record) -> Option<f64> {
    let seconds = record.provenance.seconds;
    (seconds > 0.0 || record.imported().is_none()).then_some(seconds)
}

/// The index of a state's word.
pub(crate) fn state(word: &str) -> usize {
    STATES.iter().position(|known| *known == word).unwrap_or(OPEN)
}

/// The state of a job with a record, and remarks on it: the metrics that diverged, and the failure of an imported run.
pub(super) fn ended_as(record: &Record) -> (&'static str, String) {
    let outcome = &record.outcome;
    if let Some(end) = record.imported().and_then(|_| outcome.facts.get(Imported::END)) {
        let end = clean(end);
        return match end.as_ref() {
            Imported::RUNNING => ("done", "its run had not ended at its source".to_owned()),
            end if outcome.metrics.is_empty() => ("failed", format!("its run had failed at its source ({end})")),
            end => ("done", format!("its run had failed at its source ({end})")),
        };
    }
    let mut names_of_step: BTreeMap<Option<u64>, Vec<&str>> = BTreeMap::new();
    for (name, since) in outcome.diverged() {
        names_of_step.entry(since).or_default().push(name);
    }
    let mut text = String::new();
    for (since, names) in names_of_step {
        let shown = names.iter().take(MAX_DIVERGED).map(|name| clean(name)).collect::<Vec<_>>().join(", ");
        let more = names.len().saturating_sub(MAX_DIVERGED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let since = since.map_or_else(String::new, |step| format!(" from step {step}"));
        let separator = if text.is_empty() { "diverged: " } else { "; " };
        let _ = write!(text, "{separator}{shown}{more} not finite{since}");
    }
    ("done", text)
}

fn line(
    step: usize,
    point: &Point,
    key: Key,
    (word, details): (&str, String),
    record: Option<&Record>,
    columns: &Columns,
) -> Line {
    let cells = record.map(|record| columns.cells(&record.outcome.metrics)).unwrap_or_default();
    let seconds = record.and_then(took).map(milliseconds);
    let ended = record.map(ended);
    let axes = if point.is_divisible() { Vec::new() } else { point.texts() };
    let point = Place::new(&point.to_string(), &axes);
    Line(step, point, state(word), key.short(), seconds, cells, details, ended, Vec::new())
}

/// Seconds to the millisecond.
pub(super) fn milliseconds(seconds: f64) -> f64 {
    (seconds * 1000.0).round() / 1000.0
}

/// Tags, safe to print.
pub(super) fn tags(notes: &Notes) -> Vec<String> {
    notes.tags().map(|tag| clean(tag).into_owned()).collect()
}

/// Paths of the logs of jobs, by the short form of their keys; the latest of several.
pub(super) fn logs(results: &Path) -> HashMap<String, PathBuf> {
    let mut logs = HashMap::new();
    for folder in RunFolder::all(results).iter().rev() {
        let Ok(entries) = std::fs::read_dir(folder.path().join("logs")) else { continue };
        for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
            if let Some(name) = path.file_stem().and_then(|name| name.to_str()) {
                logs.entry(name.to_owned()).or_insert(path);
            }
        }
    }
    logs
}

/// Details of every job, as JSON, in the order of the lines.
pub(super) fn details(
    contents: &Contents<'_>,
    records: &Records<'_>,
    curves: &HashMap<Key, Vec<LiveCurve>>,
) -> Vec<String> {
    let Contents { plan, study, store, .. } = contents;
    let (logs, notes) = (logs(store.results()), store.all_notes());
    let mut text_of_job: BTreeMap<Key, String> = BTreeMap::new();
    let jobs = study.recipe.steps.iter().zip(&study.steps).flat_map(|(step, points)| {
        let mut names_in_recipe: BTreeSet<&str> = step.axes().into_iter().collect();
        names_in_recipe.extend(step.with.iter().map(|(name, _)| name.value.as_str()));
        let names_in_recipe = Rc::new(names_in_recipe);
        points.iter().map(move |(_, id)| (Rc::clone(&names_in_recipe), id))
    });
    // One unit for each series: pages draw those of several jobs in common axes.
    let mut units: BTreeMap<&str, Unit> = BTreeMap::new();
    for (name, curve) in records.values().flat_map(|record| &record.outcome.curves) {
        units.entry(name).or_insert(curve.unit);
    }
    let texts = jobs.map(|(names_in_recipe, id)| {
        let job = plan.job(*id);
        // Points may be the same job.
        let text = text_of_job.entry(job.key).or_insert_with(|| {
            let log = logs.get(&job.key.short()).map(PathBuf::as_path);
            // Parameters that the recipe sets, and parameters that differ from their defaults.
            let is_telling = |name: &str| names_in_recipe.contains(name) || job.identity.params.contains_key(name);
            let detail = Detail::default().params(job.values.iter().filter(|(name, _)| is_telling(name)));
            let detail = match records.get(id) {
                Some(record) => detail.record(record, &units).notes(notes.get(&job.key)),
                None => detail.live(curves.get(&job.key).map_or(&[], Vec::as_slice)).fact("key", &job.key.to_string()),
            };
            serde_json::to_string(&detail.log(log).commands(&plan.command(*id), plan.explanation(*id).as_deref()))
                .unwrap_or_else(|_| "{}".to_owned())
        });
        text.clone()
    });
    texts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diverged_job_says_so_and_an_imported_failure_is_none_that_is_done() {
        let facts = |facts: &[(&str, &str)], task: &str| {
            let facts = facts.iter().map(|(name, text)| ((*name).to_owned(), (*text).into()));
            let facts: serde_json::Map<String, serde_json::Value> = facts.collect();
            let record = serde_json::json!({
                "format": 1, "key": "0".repeat(64), "label": "a", "params": {},
                "identity": { "format": 1, "task": task, "revision": 1 },
                "outcome": { "metrics": {}, "facts": facts },
                "provenance": { "sweep": "0", "started": "2026-01-01T00:00:00Z", "seconds": 0.0, "threads": 1, "host": "here" },
            });
            ended_as(&serde_json::from_value(record).unwrap())
        };
        let diverged = "diverged: its newest value is not finite from step 120";
        let found = facts(&[("absent.acc", diverged), ("absent.loss", diverged)], "command");
        assert_eq!(found, ("done", "diverged: acc, loss not finite from step 120".to_owned()));
        let found = facts(&[("end", "crashed")], "imported");
        assert_eq!(found, ("failed", "its run had failed at its source (crashed)".to_owned()));
        assert_eq!(facts(&[("end", "running")], "imported").0, "done");
        assert_eq!(facts(&[("end", "crashed")], "command"), ("done", String::new()), "a fact of its own");
    }
}
