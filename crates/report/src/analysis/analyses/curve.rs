//! Tables of a number of each job's curve by one axis: the steps to a target, the mean height, or the value at a place.

use sweep_job::{Precision, Unit, Value};

use super::{
    Made,
    reading::{Numbers, Reader},
};
use crate::{
    analysis::{
        Absence, Cell, Column, Compared, Show, TableRow,
        aggregate::methods,
        compare::correct,
        curves::Curves,
        evidence::{Evidence, Question, Side, Source, complete, like, summarize},
        pairs::apart,
        table::scale,
        units::SamplingUnit,
    },
    format::{clean, count},
    recipe::{self, Analysis, CurveRead, CurveTable, MetricTraits, Names, UnitOf, brief},
    stats::{Better, holm, log_rank, median_time, pseudo_times},
};

/// The request of a table.
type Request<'r> = (&'r recipe::Table, &'r Analysis, &'r CurveTable);

pub(super) fn fill(contents: &mut Made, request: Request<'_>, source: Source<'_>, curves: &Curves) {
    let (table, analysis, settings) = request;
    let methods = methods(&analysis.of, &settings.axis.value, source);
    contents.axes = vec![settings.axis.value.clone()];
    let label = |method: &Value| clean(&method.to_string()).into_owned();
    contents.rows = methods.iter().map(|method| TableRow { labels: vec![label(method)], cells: Vec::new() }).collect();
    let mut log_rank_tests = Vec::new();
    for metric in table.cells.iter().map(|cell| cell.value.as_str()) {
        let read = (settings.read, settings.cost.as_ref());
        let reader = Reader::new(analysis, read, source, curves, metric);
        log_rank_tests.extend(OfMetric { request, source, reader, metric, methods: &methods }.fill(contents));
    }
    let comparisons = correct(&mut contents.rows, &contents.columns, |show| show == Show::Difference);
    if let Some(baseline) = baseline(request, source).filter(|_| contents.has_differences()) {
        let correction = if comparisons > 0 {
            format!(" (p corrected for {}, Holm)", count(comparisons, "comparison"))
        } else {
            String::new()
        };
        contents.notes.push(format!("difference: from {baseline} ± 95 % CI{correction}; ≈ not told apart"));
        contents.notes.extend(log_rank_note(&log_rank_tests, &baseline, table.cells.len() > 1));
    }
}

/// The value with which the others are compared.
fn baseline((_, _, settings): Request<'_>, source: Source<'_>) -> Option<Value> {
    let params = &source.study.recipe.params;
    Some(settings.baseline.as_ref()?.resolve(params, &Names::new())?.value)
}

/// A log-rank test of a metric's times: the metric, the value, and the p-value.
type LogRankTest<'a> = (&'a str, &'a Value, f64);

/// The part of a table about one metric.
struct OfMetric<'a> {
    request: Request<'a>,
    source: Source<'a>,
    reader: Reader<'a>,
    metric: &'a str,
    methods: &'a [Value],
}

impl<'a> OfMetric<'a> {
    /// Adds the columns; returns log-rank tests.
    fn fill(&self, contents: &mut Made) -> Vec<LogRankTest<'a>> {
        let (table, analysis, settings) = self.request;
        let step = &self.source.study.recipe.steps[analysis.of.step];
        let mut rows: Vec<Numbers<'a>> =
            self.methods.iter().map(|method| self.reader.numbers(&[(&settings.axis.value, method)])).collect();
        match settings.read {
            CurveRead::Target(_) if self.reader.traits().better.is_none() => {
                contents.notes.push(no_target(self.metric));
            }
            CurveRead::Target(target) => self.note_times(&mut rows, target, &mut contents.notes),
            CurveRead::Area(_) | CurveRead::At(_) => {}
        }
        let (apart, kinds) = (apart(step, &[&settings.axis.value]), self.source.kinds(&[analysis.of.step]));
        let (traits, rules, repeats) = (self.traits_of_number(), table.rules, None);
        let question = Question { traits, apart, kinds, repeats, ratio: false, unpaired: true, rules };
        let mut sides: Vec<&mut Side<'a>> =
            rows.iter_mut().map(|row| &mut row.side).filter(|side| !side.is_empty()).collect();
        // Fills in or leaves out missing results, as the recipe requests; results that block a comparison have footnotes.
        let _ = complete(&mut sides, &question);
        let mut cells = Vec::new();
        for row in &rows {
            let summary = summarize(&row.side, &question, false);
            let estimate = summary.as_ref().map(|summary| summary.estimate);
            let mut cell = Cell {
                sample: summary.as_ref().map(|summary| summary.sample),
                no_interval: summary.and_then(|summary| summary.no_interval),
                estimate,
                compared: estimate.map(|estimate| Compared { estimate, noise: false }),
                points: row.side.found.len() + row.side.absent.len(),
                missing: row.side.absent.len(),
                ..Cell::default()
            };
            for (absence, job, _) in &row.side.absent {
                cell.lacks(absence, Some(*job), &mut contents.footnotes);
            }
            cells.push(cell);
        }
        let name = self.name();
        self.push(contents, name.clone(), Show::Mean, traits.unit, cells);
        let Some((differences, tests)) = self.differences(&rows, &question, contents) else { return Vec::new() };
        self.push(contents, format!("{name}, difference"), Show::Difference, traits.unit, differences);
        tests
    }

    fn push(&self, contents: &mut Made, metric: String, show: Show, unit: Unit, cells: Vec<Cell>) {
        let scale = scale(self.metric, &cells, show, unit);
        contents.columns.push(Column { point: Vec::new(), metric, unit, scale, show });
        for (row, cell) in contents.rows.iter_mut().zip(cells) {
            row.cells.push(cell);
        }
    }

    /// The number in words.
    fn name(&self) -> String {
        let (_, _, settings) = self.request;
        let place = settings.cost.as_ref().map_or("steps", |cost| cost.value.as_str());
        match settings.read {
            CurveRead::Target(target) => format!("{place} to {} {}", self.metric, Value::Float(target)),
            CurveRead::Area(end) => format!("{}, mean up to {} {place}", self.metric, Value::Float(end)),
            CurveRead::At(end) => format!("{} at {} {place}", self.metric, Value::Float(end)),
        }
    }

    /// The properties of the number.
    fn traits_of_number(&self) -> MetricTraits {
        match self.request.2.read {
            CurveRead::Target(_) => MetricTraits {
                unit: Unit::One,
                unit_of: UnitOf::Metric,
                better: Some(Better::Less),
                precision: Precision::Measured,
                depends_on_load: self.reader.costs_time(),
            },
            CurveRead::Area(_) | CurveRead::At(_) => {
                let traits = self.reader.traits();
                MetricTraits { depends_on_load: traits.depends_on_load || self.reader.costs_time(), ..traits }
            }
        }
    }

    /// Limits the times of runs to the shortest budget for the mean, and adds notes on the shares that reached the target.
    fn note_times(&self, rows: &mut [Numbers<'a>], target: f64, notes: &mut Vec<String>) {
        let metric = self.metric;
        let end = |row: &Numbers<'a>| row.times.iter().map(|run| run.time).reduce(f64::max);
        let censored = |row: &Numbers<'a>| row.times.iter().any(|run| !run.reached);
        // Where all runs reach the target, the mean has no horizon.
        let ends: Vec<f64> = rows.iter().filter(|row| censored(row)).filter_map(end).collect();
        let Some(all) = rows.iter().filter_map(end).reduce(f64::max) else {
            notes.push(format!("{metric}: no run has a curve"));
            return;
        };
        let horizon = ends.into_iter().reduce(f64::min).unwrap_or(all);
        let mut parts = Vec::new();
        for (method, row) in self.methods.iter().zip(rows) {
            let values = pseudo_times(&row.times, horizon);
            for (found, value) in row.side.found.iter_mut().zip(values) {
                found.value = value;
            }
            let count = row.times.iter().filter(|run| run.reached).count();
            let median = median_time(&row.times).map_or("not reached".to_owned(), brief);
            parts.push(format!("{method} {count} of {} (median {median})", row.times.len()));
        }
        let target = Value::Float(target);
        notes.push(format!(
            "{metric}: mean time to {target}, up to {} (Kaplan and Meier); runs that reach it: {}",
            brief(horizon),
            parts.join(", ")
        ));
    }

    /// The differences from the baseline, whose p-values are not corrected yet, and log-rank tests; `None` without a baseline.
    fn differences(
        &self,
        rows: &[Numbers<'a>],
        question: &Question<'_>,
        contents: &mut Made,
    ) -> Option<(Vec<Cell>, Vec<LogRankTest<'a>>)> {
        let (_, _, settings) = self.request;
        let baseline = baseline(self.request, self.source)?;
        let base = &rows[self.methods.iter().position(|method| *method == baseline)?];
        let difference = |(method, row): (&Value, &Numbers<'a>)| {
            if *method == baseline {
                return Cell::default();
            }
            let mut cell = Cell { points: 1, ..Cell::default() };
            let absence = match Evidence::of_two(&mut row.side.clone(), &mut base.side.clone(), question) {
                Ok(evidence) => {
                    cell.compared = Some(Compared { estimate: evidence.estimate(), noise: false });
                    cell.sample = Some(evidence.sample);
                    Absence::of_doubt(&evidence)
                }
                Err(silence) => Absence::of_silence(silence),
            };
            if let Some(absence) = absence {
                cell.lacks(&absence, None, &mut contents.footnotes);
            }
            cell
        };
        let cells = self.methods.iter().zip(rows).map(difference).collect();
        let sides: Vec<&Side<'_>> = rows.iter().map(|row| &row.side).collect();
        let is_target = matches!(settings.read, CurveRead::Target(_));
        if !is_target || like(&sides, question.traits, question.rules).is_err() {
            return Some((cells, Vec::new()));
        }
        if let Some(reason) = dependence(base, question) {
            contents.notes.push(reason);
            return Some((cells, Vec::new()));
        }
        let others = self.methods.iter().zip(rows).filter(|(method, _)| **method != baseline);
        let test = |(method, row): (&'a Value, &Numbers<'a>)| {
            Some((self.metric, method, log_rank(&row.times, &base.times)?.p))
        };
        Some((cells, others.filter_map(test).collect()))
    }
}

impl Made {
    fn has_differences(&self) -> bool {
        self.columns.iter().any(|column| column.show == Show::Difference)
    }
}

/// Note on a metric without targets.
pub(super) fn no_target(metric: &str) -> String {
    format!("{metric}: no better direction, so no value is a target; declare `better` under `metrics`")
}

/// The reason why there is no log-rank test: runs are independent only if nothing but the seed varies.
fn dependence(base: &Numbers<'_>, question: &Question<'_>) -> Option<String> {
    let points = || base.side.found.iter().map(|found| found.point);
    let unit = SamplingUnit::of(&points(), &question.apart, &question.kinds, None);
    (!unit.is_seeds()).then(|| {
        format!("no log-rank test: runs are not independent, because more than the seed varies ({})", unit.over())
    })
}

/// The log-rank tests of a table against the baseline, corrected for their number.
fn log_rank_note(tests: &[LogRankTest<'_>], baseline: &Value, has_several_metrics: bool) -> Option<String> {
    let corrected = holm(&tests.iter().map(|(_, _, p)| *p).collect::<Vec<_>>());
    let shown = tests.iter().zip(corrected).map(|((metric, method, _), p)| {
        if has_several_metrics { format!("{method} by {metric} p = {p:.3}") } else { format!("{method} p = {p:.3}") }
    });
    let shown: Vec<String> = shown.collect();
    (!shown.is_empty()).then(|| format!("log-rank test against {baseline}, corrected (Holm): {}", shown.join(", ")))
}
