//! Tables of components of variance: the parts of random sources, such as the seeds of the data order and of the initialization.

use std::collections::{BTreeMap, BTreeSet};

use sweep_job::Unit;

use super::Made;
use crate::{
    analysis::{
        Cell, Column, Compared, Show, TableRow,
        evidence::{Side, Silence, Source, like},
        kinds::Kinds,
        no_interval::NoInterval,
        table::scale,
    },
    format::{Scale, count},
    plan::{Point, resolved},
    recipe::{self, Analysis, Replication, Spanned},
    stats::{Components, Estimate, Leveled, Sample, components, variance_of},
};

/// The request of a table.
type Request<'r> = (&'r recipe::Table, &'r Analysis, &'r [Spanned<String>]);

pub(super) fn fill(contents: &mut Made, request: Request<'_>, source: Source<'_>) {
    let (table, analysis, _) = request;
    let axes = sources(request, source);
    contents.axes = vec!["source".to_owned()];
    let names = axes.iter().map(String::as_str).chain(["rest", "all"]);
    contents.rows = names.map(|name| TableRow { labels: vec![name.to_owned()], cells: Vec::new() }).collect();
    for metric in table.cells.iter().map(|cell| cell.value.as_str()) {
        let traits = source.traits(analysis.of.step, metric);
        let only = resolved(&source.study.recipe, &analysis.of.only);
        let side = source.side(analysis.of.step, &only, metric, traits);
        if let Err(Silence::Unlike(reason)) = like(&[&side], traits, table.rules) {
            contents.notes.push(format!("{metric}: the conditions are also a source: {reason}"));
        }
        let result = parts(&side, &axes, &source.kinds(&[analysis.of.step]));
        let n = side.found.len();
        let mut cells = vec![Cell { points: n, ..Cell::default() }; axes.len() + 2];
        for (absence, job, _) in &side.absent {
            cells[axes.len() + 1].lacks(absence, Some(*job), &mut contents.footnotes);
        }
        let mut shares = vec![Cell::default(); axes.len() + 2];
        match result {
            Ok(found) if !found.is_finite() => {
                contents.notes.push(format!("{metric}: {}", NoInterval::NotFinite.words()));
            }
            Ok(found) => {
                contents.notes.push(format!("{metric}: {}", said(&found, &axes, n)));
                let total = found.total();
                for ((cell, share), variance) in cells.iter_mut().zip(&mut shares).zip(found.rows()) {
                    let Some(variance) = variance else { continue };
                    let root = |value: f64| value.max(0.0).sqrt();
                    let estimate = Estimate {
                        value: root(variance.value),
                        low: variance.low.map(root),
                        high: variance.high.map(root),
                        p: None,
                    };
                    cell.sample = Some(Sample { n, mean: estimate.value, sd: None });
                    cell.estimate = Some(estimate);
                    cell.no_interval = estimate.low.is_none().then_some(NoInterval::Sum);
                    if let Some(total) = total.filter(|total| *total > 0.0) {
                        let value = variance.value / total;
                        let estimate = Estimate { value, low: None, high: None, p: None };
                        let compared = Some(Compared { estimate, noise: false });
                        *share = Cell { estimate: Some(estimate), compared, points: n, ..Cell::default() };
                    }
                }
            }
            Err(reason) => contents.notes.push(format!("{metric}: {reason}")),
        }
        let interval = Show::Interval;
        let sd = scale(metric, &cells, interval, traits.unit);
        let column = |metric: String, unit, scale, show| Column { point: Vec::new(), metric, unit, scale, show };
        contents.columns.push(column(format!("{metric}, sd"), traits.unit, sd, interval));
        contents.columns.push(column(metric.to_owned(), Unit::Fraction, Scale::of(0.0, Unit::Fraction), Show::Share));
        for ((row, cell), share) in contents.rows.iter_mut().zip(cells).zip(shares) {
            row.cells.extend([cell, share]);
        }
    }
    contents.notes.push(
        "sd: standard deviation of one measurement by a source alone [95 % interval]; share: of the variance"
            .to_owned(),
    );
}

/// The axes of the sources: the axes that the table names, or all axes that repeat a measurement and vary.
fn sources((_, analysis, named_axes): Request<'_>, source: Source<'_>) -> Vec<String> {
    if !named_axes.is_empty() {
        return named_axes.iter().map(|axis| axis.value.clone()).collect();
    }
    let kinds = source.kinds(&[analysis.of.step]);
    let points = source.points(analysis.of.step, &resolved(&source.study.recipe, &analysis.of.only));
    let axes = source.study.recipe.steps[analysis.of.step].axes();
    let varies = |axis: &str| {
        let values: BTreeSet<String> = points.iter().map(|(point, _)| format!("{:?}", point.get(axis))).collect();
        values.len() > 1
    };
    let names = kinds.names_only(points.iter().map(|(point, _)| *point));
    let is_name = |axis: &str| names.iter().any(|name| name == axis);
    let repeats = |axis: &&str| kinds.of_axis(axis) != Replication::Condition && varies(axis) && !is_name(axis);
    axes.into_iter().filter(repeats).map(str::to_owned).collect()
}

/// The variances of the sources.
enum Parts {
    /// Components of a complete crossing.
    Crossed(Components),
    /// Variance of each source with the other sources constant, and its number of values.
    Alone(Vec<(Estimate, usize)>),
}

impl Parts {
    /// The variance of each row: the sources, the rest, and all together.
    fn rows(&self) -> Vec<Option<Estimate>> {
        match self {
            Self::Crossed(components) => {
                let all = self.total().map(|value| Estimate { value, low: None, high: None, p: None });
                components.factors.iter().copied().map(Some).chain([components.rest, all]).collect()
            }
            Self::Alone(sources) => sources.iter().map(|(variance, _)| Some(*variance)).chain([None, None]).collect(),
        }
    }

    /// False if a variance exceeds the largest number.
    fn is_finite(&self) -> bool {
        self.rows().iter().flatten().all(|variance| variance.value.is_finite())
    }

    /// The variance of a measurement that varies all sources; `None` if it is unknown.
    fn total(&self) -> Option<f64> {
        let Self::Crossed(Components { factors, rest }) = self else { return None };
        Some(factors.iter().chain(rest).map(|part| part.value).sum())
    }
}

/// The variances of the sources, or the reason why they are unknown.
fn parts(side: &Side<'_>, axes: &[String], kinds: &Kinds) -> Result<Parts, String> {
    if !side.absent.is_empty() {
        return Err(format!(
            "{} without a result, so the sources cannot be distinguished",
            count(side.absent.len(), "job")
        ));
    }
    if axes.is_empty() {
        return Err("no axis repeats a measurement; name `axes`, or declare `replicates` in the step".to_owned());
    }
    let points: Vec<(&Point, f64)> = side.values();
    let text = |point: &Point, axis: &str| format!("{:?}", point.get(axis).map(ToString::to_string));
    let axes_of_points: BTreeSet<&str> =
        points.iter().flat_map(|(point, _)| &point.values).map(|(axis, _)| axis.as_str()).collect();
    let names = kinds.names_only(points.iter().map(|(point, _)| *point));
    let is_left = |axis: &&str| !axes.iter().chain(&names).any(|other| other == axis);
    for axis in axes_of_points.into_iter().filter(is_left) {
        if points.iter().any(|(point, _)| text(point, axis) != text(points[0].0, axis)) {
            return Err(format!(
                "`{axis}` varies, but is not a source: select one value with `where`, or name it in `axes`"
            ));
        }
    }
    let mut levels: Vec<BTreeMap<String, usize>> = vec![BTreeMap::new(); axes.len()];
    let level = |(point, value): &(&Point, f64)| -> Leveled {
        let of_axis = axes.iter().zip(&mut levels).map(|(axis, known)| {
            let next = known.len();
            *known.entry(text(point, axis)).or_insert(next)
        });
        (of_axis.collect(), *value)
    };
    let values: Vec<Leveled> = points.iter().map(level).collect();
    if let Some(variances) = components(&values) {
        return Ok(Parts::Crossed(variances));
    }
    alone(&values, axes).map(Parts::Alone)
}

/// The variance of each source in the largest set of points that differ in it only.
fn alone(values: &[Leveled], axes: &[String]) -> Result<Vec<(Estimate, usize)>, String> {
    let of_axis = |index: usize| {
        let mut groups: BTreeMap<Vec<usize>, BTreeMap<usize, f64>> = BTreeMap::new();
        for (levels, value) in values {
            let mut group = levels.clone();
            group[index] = 0;
            groups.entry(group).or_default().insert(levels[index], *value);
        }
        let largest = groups.into_values().max_by_key(BTreeMap::len)?;
        let values: Vec<f64> = largest.into_values().collect();
        Some((variance_of(&values)?, values.len()))
    };
    let components = (0..axes.len()).map(|index| of_axis(index).ok_or(index)).collect::<Result<Vec<_>, usize>>();
    components.map_err(|index| {
        let axis = &axes[index];
        format!("the axes are not fully crossed, and no two points differ in `{axis}` only, so its share is unknown")
    })
}

/// The design and the advice in words.
fn said(variance_parts: &Parts, axes: &[String], jobs: usize) -> String {
    let estimates: Vec<Estimate> = match variance_parts {
        Parts::Crossed(components) => components.factors.clone(),
        Parts::Alone(sources) => sources.iter().map(|(variance, _)| *variance).collect(),
    };
    let design = match variance_parts {
        Parts::Crossed(_) if axes.len() > 1 => format!("{} of crossed sources", count(jobs, "job")),
        Parts::Crossed(_) => count(jobs, "job"),
        Parts::Alone(sources) => {
            let counts: Vec<String> =
                axes.iter().zip(sources).map(|(axis, (_, n))| format!("{n} of `{axis}`")).collect();
            format!("each source alone, the others constant ({})", counts.join(", "))
        }
    };
    let mut order: Vec<usize> = (0..axes.len()).collect();
    order.sort_by(|a, b| estimates[*b].value.total_cmp(&estimates[*a].value));
    let [first, second, ..] = order.as_slice() else { return design };
    let (largest, next) = (estimates[*first], estimates[*second]);
    if largest.value <= 0.0 {
        return format!("{design}; no source contributes on its own");
    }
    let is_clear = largest.low.zip(next.high).is_some_and(|(low, high)| low > high);
    let doubt = if is_clear { "" } else { ", though the intervals overlap" };
    let hidden = match variance_parts.total() {
        Some(total) if total > 0.0 => {
            let share = 100.0 * largest.value / total;
            format!("; seeds that leave `{}` constant hide {share:.0} % of the variance", axes[*first])
        }
        _ => String::new(),
    };
    format!("{design}; `{}` has the largest share{doubt}: vary all sources, at least this one{hidden}", axes[*first])
}
