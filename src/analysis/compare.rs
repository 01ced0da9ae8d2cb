//! Tables of comparisons: the effect of one axis on a metric, in pairs over all other axes.

use std::collections::{BTreeMap, HashSet};

use sweep_job::{Unit, Value};

use crate::{
    analysis::{
        Absence, Cell, Column, Compared, Frame, Show, Table, TableRow,
        absence::Footnotes,
        pairs::{apart, pairs},
        table::scale,
    },
    format::{clean, count, quantity},
    plan::{JobId, Point, Study, resolved, selected},
    recipe::{self, Compare, Names},
    stats::{Estimate, LEVEL, Sample, holm, level_of, quantile},
    store::Measured,
};

/// The table: one row for each pair of values, one column for each metric.
pub(crate) fn table(
    table: &recipe::Table,
    compare: &Compare,
    study: &Study,
    frame: &Frame<'_>,
    absences: &BTreeMap<JobId, Absence>,
) -> Table {
    let step = &study.recipe.steps[compare.of.step];
    let axis = compare.axis.value.as_str();
    let value = |template: &recipe::Template| {
        template.resolve(&study.recipe.params, &Names::new()).map(|resolved| resolved.value)
    };
    let wanted: Vec<(Value, Value)> =
        compare.pairs.iter().filter_map(|(of, to)| Some((value(of)?, value(to)?))).collect();
    let sign = if compare.ratio { '/' } else { '−' };
    let mut rows: Vec<TableRow> = wanted
        .iter()
        .map(|(of, to)| TableRow { labels: vec![clean(&format!("{of} {sign} {to}")).into_owned()], cells: Vec::new() })
        .collect();
    let looks = 1 + frame.rows.iter().filter_map(|row| study.rounds.get(&row.job)).max().copied().unwrap_or(0);
    let mut footnotes = Footnotes::default();
    let mut columns = Vec::new();
    let mut floors = Vec::new();
    for metric in table.cells.iter().map(|cell| cell.value.as_str()) {
        let sides = Sides {
            frame,
            absences,
            metric,
            axis,
            apart: apart(step, &[axis]),
            repeats: compare.noise.as_ref().map(|noise| noise.value.as_str()),
            ratio: compare.ratio,
            looks,
        };
        let floor = sides.floor();
        let unit = step.task.metric(metric).map_or(Unit::One, |metric| metric.unit);
        floors.extend(floor.map(|floor| (metric, floor, unit)));
        for ((of, to), row) in wanted.iter().zip(&mut rows) {
            let (mut cell, absent) = sides.compare(of, to, floor);
            for (absence, job) in absent {
                cell.lacks(&absence, job, &mut footnotes);
            }
            row.cells.push(cell);
        }
        let show = if compare.ratio { Show::Ratio } else { Show::Difference };
        let cells: Vec<Cell> = rows.iter().filter_map(|row| row.cells.last().cloned()).collect();
        let scale = scale(&cells, show, unit);
        columns.push(Column { point: Vec::new(), metric: metric.to_owned(), unit, scale, show });
    }
    let compared = correct(&mut rows);
    let mut notes = notes(&rows, &columns, compare.ratio, compared);
    if looks > 1 && compared > 0 {
        notes.push(format!("intervals and p allow for {looks} looks at the results"));
    }
    for (metric, floor, unit) in floors {
        let floor = if compare.ratio { format!("{:.2} %", floor * 100.0) } else { quantity(floor, unit) };
        let along = sides_named(compare);
        notes.push(format!("noise floor of {}: {floor}, from the same job repeated along {along}", clean(metric)));
    }
    notes.extend(footnotes.texts());
    Table {
        name: table.name.value.clone(),
        title: clean(table.title.as_ref().unwrap_or(&table.name.value)).into_owned(),
        axes: vec![axis.to_owned()],
        columns,
        rows,
        notes,
    }
}

/// The pairs of a table whose differences chance can explain, or that have only one measurement: the reason, and the
/// jobs at whose points to add seeds.
pub(crate) fn undecided(
    table: &recipe::Table,
    compare: &Compare,
    study: &Study,
    measured: &BTreeMap<JobId, Measured>,
) -> Vec<(String, Vec<JobId>)> {
    let frame = Frame::new(study, &compare.of, measured);
    let compared = self::table(table, compare, study, &frame, &BTreeMap::new());
    let only = resolved(&study.recipe, &compare.of.only);
    let axis = compare.axis.value.as_str();
    let value = |template: &recipe::Template| {
        template.resolve(&study.recipe.params, &Names::new()).map(|resolved| resolved.value)
    };
    let mut undecided = Vec::new();
    for (row, (of, to)) in compared.rows.iter().zip(&compare.pairs) {
        let open =
            |cell: &Cell| cell.compared.is_some_and(|compared| compared.estimate.p.is_none_or(|p| p >= 1.0 - LEVEL));
        if !row.cells.iter().any(open) {
            continue;
        }
        let sides = [value(of), value(to)];
        let points = study.steps[compare.of.step]
            .iter()
            .filter(|(point, _)| selected(point, &only) && sides.iter().any(|side| point.get(axis) == side.as_ref()));
        let because = format!("{} in table `{}` is within the noise", row.labels.join(", "), table.name.value);
        undecided.push((because, points.map(|(_, job)| *job).collect()));
    }
    undecided
}

fn sides_named(compare: &Compare) -> String {
    compare.noise.as_ref().map_or_else(String::new, |noise| clean(&noise.value).into_owned())
}

/// Corrects the p-values of all comparisons of a table, marks those that chance can explain, and returns the number of
/// comparisons.
fn correct(rows: &mut [TableRow]) -> usize {
    // Multiple tests increase the probability of a false positive.
    let mut compared: Vec<&mut Compared> =
        rows.iter_mut().flat_map(|row| &mut row.cells).filter_map(|cell| cell.compared.as_mut()).collect();
    compared.retain(|compared| compared.estimate.p.is_some());
    let chance: Vec<f64> = compared.iter().filter_map(|compared| compared.estimate.p).collect();
    for (compared, p) in compared.iter_mut().zip(holm(&chance)) {
        compared.estimate.p = Some(p);
        compared.noise |= p >= 1.0 - LEVEL;
    }
    chance.len()
}

/// Measurements of a metric's comparisons.
struct Sides<'a> {
    frame: &'a Frame<'a>,
    absences: &'a BTreeMap<JobId, Absence>,
    metric: &'a str,
    axis: &'a str,
    apart: Vec<String>,
    /// The axis that repeats the same job.
    repeats: Option<&'a str>,
    ratio: bool,
    /// Largest number of evaluations until the results are decided.
    looks: usize,
}

type Absent = Vec<(Absence, Option<JobId>)>;

impl<'a> Sides<'a> {
    /// One side: the value at each point, each job once.
    fn side(&self, wanted: &Value) -> (Vec<(&'a Point, f64)>, Absent) {
        let mut jobs = HashSet::new();
        let (mut found, mut absent) = (Vec::new(), Vec::new());
        for row in self.frame.rows.iter().filter(|row| row.point.get(self.axis) == Some(wanted)) {
            if !jobs.insert(row.job) {
                continue;
            }
            match row.metrics.map(|metrics| metrics.get(self.metric)) {
                Some(Some(metric)) => found.push((row.point, metric.value)),
                Some(None) => absent.push((Absence::NotMeasured, Some(row.job))),
                None => {
                    let absence = self.absences.get(&row.job).cloned().unwrap_or(Absence::NotRun);
                    absent.push((absence, Some(row.job)));
                }
            }
        }
        (found, absent)
    }

    fn scaled(&self, value: f64) -> f64 {
        if self.ratio { value.ln() } else { value }
    }

    fn compare(&self, of: &Value, to: &Value, floor: Option<f64>) -> (Cell, Absent) {
        let ((first, mut absent), (second, more)) = (self.side(of), self.side(to));
        absent.extend(more);
        let missing = absent.len();
        let mut cell = Cell { missing, points: first.len() + second.len() + missing, ..Cell::default() };
        if first.is_empty() || second.is_empty() {
            return (cell, absent);
        }
        if self.ratio && first.iter().chain(&second).any(|(_, value)| *value <= 0.0) {
            absent.push((Absence::NoRatio, None));
            return (cell, absent);
        }
        let Some(pairs) = self.pairs(&first, &second, missing > 0 || self.looks > 1) else {
            absent.push((Absence::Unpaired, None));
            return (cell, absent);
        };
        let differences: Vec<f64> = pairs.iter().map(|(of, to)| self.scaled(*of) - self.scaled(*to)).collect();
        cell.sample = Sample::new(&differences);
        let Some(sample) = cell.sample else { return (cell, absent) };
        let difference = sample.estimate_at(level_of(self.looks));
        let p = difference.p.map(|p| (p * self.looks as f64).min(1.0));
        let difference = Estimate { p, ..difference };
        if difference.p.is_none() {
            absent.push((Absence::OnePair, None));
        }
        let noise = floor.is_some_and(|floor| difference.value.abs() <= floor);
        let estimate = if self.ratio { difference.exp() } else { difference };
        cell.compared = Some(Compared { estimate, noise });
        (cell, absent)
    }

    /// Pairs of points. Points that differ only in the repetition are averaged if another axis repeats the comparison,
    /// because measurement noise does not reflect the variation between trainings.
    fn pairs(&self, of: &[(&Point, f64)], to: &[(&Point, f64)], partial: bool) -> Option<Vec<(f64, f64)>> {
        let all = pairs(of, to, &self.apart, partial)?;
        let Some(repeats) = self.repeats else { return Some(all) };
        let averaged = |side: &[(&'_ Point, f64)]| -> BTreeMap<String, f64> {
            let groups = groups(side, &[repeats, self.axis]);
            groups.into_iter().map(|(key, values)| (key, values.iter().sum::<f64>() / values.len() as f64)).collect()
        };
        let (first, second) = (averaged(of), averaged(to));
        let pairs: Vec<(f64, f64)> =
            first.iter().filter_map(|(key, value)| Some((*value, *second.get(key)?))).collect();
        Some(if pairs.len() > 1 { pairs } else { all })
    }

    /// The noise floor: the difference between two measurements of the same job that 5 % of such differences exceed.
    fn floor(&self) -> Option<f64> {
        let repeats = self.repeats?;
        let mut jobs = HashSet::new();
        let rows = self.frame.rows.iter().filter(|row| jobs.insert(row.job));
        let values: Vec<(&Point, f64)> =
            rows.filter_map(|row| Some((row.point, row.metrics?.get(self.metric)?.value))).collect();
        if self.ratio && values.iter().any(|(_, value)| *value <= 0.0) {
            return None;
        }
        let (mut squares, mut freedom) = (0.0, 0.0);
        for values in groups(&values, &[repeats]).into_values() {
            let values: Vec<f64> = values.into_iter().map(|value| self.scaled(value)).collect();
            let Some(Sample { n, sd: Some(sd), .. }) = Sample::new(&values) else { continue };
            let own = (n - 1) as f64;
            squares += sd * sd * own;
            freedom += own;
        }
        (freedom > 0.0).then(|| quantile(freedom, LEVEL) * (2.0 * squares / freedom).sqrt())
    }
}

/// Groups the values of points that agree on every axis except these.
fn groups(values: &[(&Point, f64)], apart: &[&str]) -> BTreeMap<String, Vec<f64>> {
    let mut groups: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for (point, value) in values {
        let shared = point.values.iter().filter(|(axis, _)| !apart.contains(&axis.as_str()));
        let shared: Vec<String> = shared.map(|(axis, value)| format!("{axis}={:?}", value.value)).collect();
        groups.entry(shared.join(",")).or_default().push(*value);
    }
    groups
}

fn notes(rows: &[TableRow], columns: &[Column], ratio: bool, compared: usize) -> Vec<String> {
    let cells = || rows.iter().flat_map(|row| &row.cells);
    let counts: Vec<usize> = cells().filter_map(|cell| cell.sample).map(|sample| sample.n).collect();
    let mut notes = Vec::new();
    if let (Some(least), Some(most)) = (counts.iter().min(), counts.iter().max()) {
        let n = if least == most { most.to_string() } else { format!("{least} to {most}") };
        let names: Vec<&str> = columns.iter().map(|column| column.metric.as_str()).collect();
        let what = if ratio { "ratio of geometric means of" } else { "difference in" };
        let interval = if ratio { "[95 % CI]" } else { "± 95 % CI" };
        notes.push(clean(&format!("{what} {}, {interval}, over pairs (n = {n})", names.join(", "))).into_owned());
    }
    match compared {
        0 => {}
        1 => notes.push("p is the probability of such a difference by chance".to_owned()),
        several => notes.push(format!("p is corrected for {} (Holm)", count(several, "comparison"))),
    }
    if cells()
        .filter_map(|cell| cell.compared)
        .any(|Compared { estimate: Estimate { p, .. }, noise }| noise && p.is_some())
    {
        notes.push("≈ within the noise: chance can explain it".to_owned());
    }
    notes
}
