//! Tables of performance profiles: how near the methods of an axis are to the fastest one, over workloads with a target each.

use std::collections::BTreeMap;

use sweep_job::{Unit, Value};

use super::{Made, curve::no_target, reading::Reader};
use crate::{
    analysis::{
        Absence, Cell, Column, Compared, Show, TableRow,
        aggregate::methods,
        curves::Curves,
        evidence::{Side, Silence, Source, like},
        no_interval::NoInterval,
    },
    format::{Scale, clean, count},
    recipe::{self, Analysis, CurveRead, Missing, Profile},
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
            match runs(contents, (table, analysis, settings), source, curves, (metric, &methods)) {
                Ok(runs) => {
                    contents.notes.extend(missed(metric, &methods, settings, &runs));
                    let scores = profile_scores(&runs);
                    if scores.is_none() {
                        contents.notes.push(format!("{metric}: no scores, because a method has no run on a workload"));
                    }
                    (runs, scores)
                }
                Err(reason) => {
                    contents.notes.push(format!("{metric}: no scores: {reason}"));
                    (vec![Vec::new(); methods.len()], None)
                }
            }
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
                no_interval: estimate.filter(|of| of.low.is_none()).map(|_| NoInterval::OneRun),
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

/// The times to the targets, by method and workload. Jobs that have none are noted. An error is the reason why times are not comparable.
fn runs(
    contents: &mut Made,
    (table, analysis, settings): Request<'_>,
    source: Source<'_>,
    curves: &Curves,
    (metric, methods): (&str, &[Value]),
) -> Result<Vec<Vec<Vec<TimeToEvent>>>, String> {
    let mut sides: BTreeMap<String, Vec<Side<'_>>> = BTreeMap::new();
    let mut traits = source.traits(analysis.of.step, metric);
    traits.depends_on_load = false;
    let mut of_workload = |method: &Value, (workload, target): &(Value, f64)| {
        let read = (CurveRead::Target(*target), settings.cost.as_ref());
        let reader = Reader::new(analysis, read, source, curves, metric);
        let numbers = reader.numbers(&[(&settings.axis.value, method), (&settings.workload.value, workload)]);
        let (lost_jobs, mut times) = (numbers.side.absent.len(), numbers.times);
        // Leaving a failure out would favor methods that fail.
        let has_failed =
            |absence: &Absence| matches!(absence, Absence::Failed(_) | Absence::Blocked(_) | Absence::Diverged { .. });
        let failed = numbers.side.absent.iter().filter(|(absence, ..)| has_failed(absence)).count();
        let failed = if table.rules.missing == Missing::Ignore { 0 } else { failed };
        let never = TimeToEvent { time: times.iter().map(|run| run.time).fold(0.0, f64::max), reached: false };
        times.extend(std::iter::repeat_n(never, failed));
        let mut note = |jobs: usize, words: &str| {
            if jobs > 0 {
                contents.notes.push(format!("{metric}: {} of {method} on {workload} {words}", count(jobs, "job")));
            }
        };
        note(failed, "failed, and count as never");
        note(lost_jobs - failed, "left out: no result, no curve or no cost");
        sides.entry(workload.to_string()).or_default().push(numbers.side);
        if reader.costs_time() {
            traits.depends_on_load = true;
        }
        times
    };
    let runs = methods
        .iter()
        .map(|method| settings.targets.iter().map(|target| of_workload(method, target)).collect())
        .collect();
    // The methods of a workload are compared with each other, so times of them are taken in turns.
    let unlike = sides.values().find_map(|sides| like(&sides.iter().collect::<Vec<_>>(), traits, table.rules).err());
    match unlike {
        Some(Silence::Unlike(reason)) => Err(format!("{reason}; `conditions: any` compares them nevertheless")),
        _ => Ok(runs),
    }
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
