//! Tables of performance profiles: how near the methods of an axis are to the fastest one, over workloads with a target each.

use std::collections::BTreeMap;

use sweep_job::{Unit, Value};

use super::{Made, curve::no_target, reading::Reader};
use crate::{
    analysis::{Cell, Column, Compared, Show, TableRow, aggregate::methods, curves::Curves, evidence::Source},
    format::{Scale, clean, count},
    recipe::{self, Analysis, CurveRead, Profile},
    stats::{MAX_FACTOR, Sample, TimeToEvent, median_time, profile_scores},
};

/// The request of a table.
type Request<'r> = (&'r recipe::Table, &'r Analysis, &'r Profile);

pub(super) fn fill(contents: &mut Made, (table, analysis, settings): Request<'_>, source: Source<'_>, curves: &Curves) {
    let methods = methods(&analysis.of, &settings.axis.value, source);
    contents.axes = vec![settings.axis.value.clone()];
    let label = |method: &Value| clean(&method.to_string()).into_owned();
    contents.rows = methods.iter().map(|method| TableRow { labels: vec![label(method)], cells: Vec::new() }).collect();
    for metric in table.cells.iter().map(|cell| cell.value.as_str()) {
        let has_targets = source.traits(analysis.of.step, metric).better.is_some();
        let (runs, scores) = if has_targets {
            let runs = runs(contents, (analysis, settings), source, curves, (metric, &methods));
            contents.notes.extend(missed(metric, &methods, settings, &runs));
            let scores = profile_scores(&runs);
            if scores.is_none() {
                contents.notes.push(format!("{metric}: no scores, because a method has no run on a workload"));
            }
            (runs, scores)
        } else {
            contents.notes.push(no_target(metric));
            (vec![Vec::new(); methods.len()], None)
        };
        let n = |index: usize| runs[index].iter().map(Vec::len).sum();
        let cell = |index: usize| {
            let estimate = scores.as_ref().map(|scores| scores[index]);
            Cell {
                sample: estimate.map(|estimate| Sample { n: n(index), mean: estimate.value, sd: None }),
                estimate,
                compared: estimate.map(|estimate| Compared { estimate, noise: false }),
                points: n(index),
                ..Cell::default()
            }
        };
        let (metric, scale) = (format!("{metric}, score"), Scale::of(1.0, Unit::One));
        contents.columns.push(Column { point: Vec::new(), metric, unit: Unit::One, scale, show: Show::Interval });
        for (index, row) in contents.rows.iter_mut().enumerate() {
            row.cells.push(cell(index));
        }
    }
    contents.notes.push(format!(
        "score: area below the performance profile from 1 to {MAX_FACTOR} times the fastest method, over {} [95 % interval of a bootstrap of runs]",
        count(settings.targets.len(), "workload")
    ));
}

/// The times to the targets, by method and workload. Jobs that have none are noted.
fn runs(
    contents: &mut Made,
    (analysis, settings): (&Analysis, &Profile),
    source: Source<'_>,
    curves: &Curves,
    (metric, methods): (&str, &[Value]),
) -> Vec<Vec<Vec<TimeToEvent>>> {
    let mut of_workload = |method: &Value, (workload, target): &(Value, f64)| {
        let read = (CurveRead::Target(*target), settings.cost.as_ref());
        let reader = Reader::new(analysis, read, source, curves, metric);
        let numbers = reader.numbers(&[(&settings.axis.value, method), (&settings.workload.value, workload)]);
        let lost_jobs = numbers.side.absent.len();
        if lost_jobs > 0 {
            let lost_jobs = count(lost_jobs, "job");
            contents.notes.push(format!(
                "{metric}: {lost_jobs} of {method} on {workload} left out: no result, no curve or no cost"
            ));
        }
        numbers.times
    };
    methods.iter().map(|method| settings.targets.iter().map(|target| of_workload(method, target)).collect()).collect()
}

/// The workloads whose target a method does not reach in half of its runs.
fn missed(metric: &str, methods: &[Value], settings: &Profile, runs: &[Vec<Vec<TimeToEvent>>]) -> Option<String> {
    let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (method, of_method) in methods.iter().zip(runs) {
        for ((workload, _), runs) in settings.targets.iter().zip(of_method) {
            if !runs.is_empty() && median_time(runs).is_none() {
                all.entry(method.to_string()).or_default().push(workload.to_string());
            }
        }
    }
    let of = |(method, workloads): (String, Vec<String>)| format!("{method} on {}", workloads.join(", "));
    let all: Vec<String> = all.into_iter().map(of).collect();
    (!all.is_empty())
        .then(|| format!("{metric}: the target is reached by at most half of the runs of {}", all.join("; ")))
}
