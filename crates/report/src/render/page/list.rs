//! The jobs of a recipe: the state and details of each.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    path::{Path, PathBuf},
    rc::Rc,
};

use serde::Serialize;
use sweep_job::{Metrics, TaskInfo, Unit};

use super::{Contents, LIMIT, Records, detail::Detail, tally::Tally};
use crate::{
    format::{Scale, clean, readable},
    host,
    plan::Point,
    progress::describe,
    record::{Key, Record},
    render::setup::Begun,
    run::{
        RunFolder, RunProvenance,
        watch::{Snapshot, State},
    },
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

/// The index of the state of a job of which nothing else is known.
const OPEN: usize = 10;

/// Number of columns of metrics that a list shows unless the reader chooses others.
const SHOWN: usize = 6;
/// Maximum number of columns of metrics.
const MAX_COLUMNS: usize = 200;
/// Size of a metric of a job in a page, in bytes.
const CELL: usize = 9;
/// Number of degrees of freedom for which a page has the quantile of Student's distribution.
const FREEDOMS: usize = 100;

/// A job's line, in the order in which the script takes it apart.
#[derive(Debug, Serialize)]
pub struct Line(
    /// The index of its step.
    pub usize,
    /// Its point.
    pub String,
    /// The index of its state's word.
    pub usize,
    /// Its key, or as much of it as tells jobs apart.
    pub String,
    /// Duration, in seconds.
    pub Option<f64>,
    /// Its metrics in the units of their columns, as many as there are columns or fewer.
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
    /// Half-widths of 95 % confidence intervals in standard errors, by the degrees of freedom from 1 on.
    pub quantiles: Vec<f64>,
    /// Locations of the details, each with its first job.
    pub parts: &'a [(usize, String)],
}

/// States of jobs, and the run that they are from.
#[derive(Debug, Default)]
pub(super) struct Doing {
    states: HashMap<Key, (&'static str, String)>,
    /// The runs that are using the recipe's jobs.
    runs: Vec<Begun>,
}

/// The metrics that have a column of their own.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Columns {
    list: Vec<Column>,
    /// Number of columns that are shown at first.
    shown: usize,
    /// Number of metrics without a column.
    left: usize,
}

/// Columns of metrics, as the script reads them.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Headings {
    /// The headings with units, and the metrics' names.
    pub columns: Vec<(String, String)>,
    /// Number of columns that are shown at first.
    pub shown: usize,
    /// Number of metrics without a column.
    pub left: usize,
}

/// Half-widths of confidence intervals for [`Head`].
pub fn quantiles() -> Vec<f64> {
    let rounded = |value: f64| (value * 1e5).round() / 1e5;
    (1..=FREEDOMS).map(|freedom| rounded(stats::quantile(freedom as f64, stats::LEVEL))).collect()
}

#[derive(Debug, Clone, PartialEq)]
struct Column {
    metric: String,
    unit: Unit,
    scale: Scale,
    heading: String,
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
        // Older runs than these have nothing to say that matters.
        for folder in RunFolder::all(results).iter().rev().take(5) {
            let Ok(snapshot) = Snapshot::read(folder) else { continue };
            let jobs = snapshot.manifest.jobs.iter().zip(&snapshot.jobs);
            let mut uses = false;
            for (job, state) in jobs.filter(|(_, state)| state.is_selected()) {
                if keys.remove(&job.key) {
                    uses = true;
                    let (word, details) = describe(&snapshot, state, now);
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
        let columns = Columns::new(task_metrics, &names, max_columns.clamp(SHOWN, MAX_COLUMNS));
        let notes = store.all_notes();
        let (mut lines, mut tallies) = (Vec::new(), Vec::new());
        for (step, points) in study.steps.iter().enumerate() {
            let mut tally = Tally::default();
            for (point, id) in points {
                let job = plan.job(*id);
                let (word, details) = match ruled_out.get(id) {
                    _ if results.is_done(*id) => ("done", String::new()),
                    Some(reason) => ("ruled out", reason.clone()),
                    None => doing.of(job.key),
                };
                tally.add(word);
                let record = records.get(id).map(AsRef::as_ref);
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
        Self { steps, columns, lines, tallies, live: !doing.runs.is_empty(), runs: doing.runs }
    }

    /// All steps together.
    pub(super) fn tally(&self) -> Tally {
        self.tallies.iter().fold(Tally::default(), |all, step| Tally {
            all: all.all + step.all,
            done: all.done + step.done,
            running: all.running + step.running,
            failed: all.failed + step.failed,
            held: all.held + step.held,
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

/// The index of a state's word.
pub(crate) fn state(word: &str) -> usize {
    STATES.iter().position(|known| *known == word).unwrap_or(OPEN)
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
    let seconds = record.map(|record| (record.provenance.seconds * 10.0).round() / 10.0);
    let ended = record.map(ended);
    let point = clean(&point.to_string()).into_owned();
    Line(step, point, state(word), key.short(), seconds, cells, details, ended, Vec::new())
}

/// Tags, safe to print.
pub(super) fn tags(notes: &Notes) -> Vec<String> {
    notes.tags().map(|tag| clean(tag).into_owned()).collect()
}

impl Columns {
    /// Columns for at most `most` metrics: those of `wanted`, then those that tasks name as their results, then all others by name.
    pub(crate) fn new<'m>(
        results: impl Iterator<Item = (&'static TaskInfo, &'m Metrics)>,
        wanted: &[&str],
        most: usize,
    ) -> Self {
        /// A metric: its unit, the largest size of a value, and its rank.
        type Found = (Unit, f64, usize);
        let mut by_name: BTreeMap<&'m str, Found> = BTreeMap::new();
        for (task, metrics) in results {
            for (name, metric) in metrics {
                let size = metric.value.abs();
                let (_, largest, _) =
                    by_name.entry(name).or_insert_with(|| (metric.unit, size, rank(name, task, wanted)));
                *largest = largest.max(size);
            }
        }
        let mut measures: Vec<(&str, Found)> = by_name.into_iter().collect();
        measures.sort_by_key(|(_, (.., rank))| *rank);
        let named_count = measures.iter().filter(|(_, (.., rank))| *rank < OTHERS).count();
        let left = measures.len().saturating_sub(most);
        measures.truncate(most);
        // Two names that people would read alike are as they are.
        let readable_names: Vec<String> = measures.iter().map(|(metric, _)| readable(metric)).collect();
        let is_alone = |name: &String| readable_names.iter().filter(|other| *other == name).count() == 1;
        let column = |(metric, (unit, size, _)): (&str, Found)| {
            let scale = Scale::of_metric(metric, size, unit);
            let symbol = if scale.suffix.is_empty() { unit.symbol() } else { scale.suffix };
            let name = readable(metric);
            let name = clean(if is_alone(&name) { &name } else { metric }).into_owned();
            let heading = if symbol.is_empty() { name } else { format!("{name} ({symbol})") };
            Column { metric: metric.to_owned(), unit, scale, heading }
        };
        let list: Vec<Column> = measures.into_iter().map(column).collect();
        let shown = named_count.clamp(SHOWN / 2, SHOWN).min(list.len());
        Self { list, shown, left }
    }

    /// Headings of the columns, each with the name of its metric.
    pub(crate) fn headings(&self) -> Headings {
        let columns = self.list.iter();
        let columns = columns.map(|column| (column.heading.clone(), clean(&column.metric).into_owned())).collect();
        Headings { columns, shown: self.shown, left: self.left }
    }

    /// Values of a job in the units of the columns, to seven digits, up to its last one.
    pub(crate) fn cells(&self, metrics: &Metrics) -> Vec<Option<f64>> {
        let value = |column: &Column| {
            let value = metrics.get(&column.metric)?.value_in(column.unit)? / column.scale.factor;
            format!("{value:.6e}").parse().ok().filter(|value: &f64| value.is_finite())
        };
        let mut cells: Vec<Option<f64>> = self.list.iter().map(value).collect();
        let length = cells.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        cells.truncate(length);
        cells
    }
}

/// The rank of metrics that neither the recipe nor a task names.
const OTHERS: usize = usize::MAX;

/// The place of a metric among the columns: as the recipe names it, then as its task does.
fn rank(metric: &str, task: &TaskInfo, names: &[&str]) -> usize {
    let of_recipe = names.iter().position(|name| *name == metric);
    let of_task = || task.headline.iter().position(|name| *name == metric).map(|place| names.len() + place);
    of_recipe.or_else(of_task).unwrap_or(OTHERS)
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
pub(super) fn details(contents: &Contents<'_>, records: &Records<'_>) -> Vec<String> {
    let Contents { plan, study, store, .. } = contents;
    let (logs, notes) = (logs(store.results()), store.all_notes());
    let mut text_of_job: BTreeMap<Key, String> = BTreeMap::new();
    let jobs = study.recipe.steps.iter().zip(&study.steps).flat_map(|(step, points)| {
        let mut names_in_recipe: BTreeSet<&str> = step.axes().into_iter().collect();
        names_in_recipe.extend(step.with.iter().map(|(name, _)| name.value.as_str()));
        let names_in_recipe = Rc::new(names_in_recipe);
        points.iter().map(move |(_, id)| (Rc::clone(&names_in_recipe), id))
    });
    let texts = jobs.map(|(names_in_recipe, id)| {
        let job = plan.job(*id);
        // Points may be the same job.
        let text = text_of_job.entry(job.key).or_insert_with(|| {
            let log = logs.get(&job.key.short()).map(PathBuf::as_path);
            // Parameters that the author gives, and those that differ from their defaults.
            let is_telling = |name: &str| names_in_recipe.contains(name) || job.identity.params.contains_key(name);
            let detail = Detail::default().params(job.values.iter().filter(|(name, _)| is_telling(name)));
            let detail = match records.get(id) {
                Some(record) => detail.record(record).notes(notes.get(&job.key)),
                None => detail.fact("key", &job.key.to_string()),
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
    use sweep_job::{Metric, Task, Unit};

    use super::*;

    #[test]
    fn columns_begin_with_the_metrics_of_the_recipe_and_count_those_without_room() {
        let metric = |name: &str| (name.to_owned(), Metric { value: 1.0 / 3.0, unit: Unit::One });
        let metrics: Metrics = ["a", "b", "c", "d", "loss", "z"].map(metric).into_iter().collect();
        let results = || [(Task::info("command").unwrap(), &metrics)].into_iter();
        let columns = Columns::new(results(), &["z", "loss"], 4);
        let Headings { columns: headings, shown, left } = columns.headings();
        let names: Vec<&str> = headings.iter().map(|(_, name)| name.as_str()).collect();
        assert_eq!((names, shown, left), (vec!["z", "loss", "a", "b"], 3, 2));
        assert_eq!(columns.cells(&metrics), [Some(0.333_333_3); 4]);
        let none = Columns::new(results().take(0), &["loss"], 4);
        assert_eq!((none.headings(), none.cells(&metrics)), (Headings::default(), vec![]));
    }
}
