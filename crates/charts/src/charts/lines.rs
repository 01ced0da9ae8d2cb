//! Line charts: curves over the iterations of jobs, and metrics over an axis.

use std::collections::{BTreeMap, BTreeSet};

use plotters::{
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};
use sweep_job::{Curve, Unit};

use super::{
    Area, Canvas, Chart, DASHES, Declaration, Dot, Drawn, Empty, End, FONT, INK, Mark, Mean, Plot, Role, Series, Side,
    Ticks, builder, data, legend, mesh, pixels,
    span::{Span, visible},
    trend,
};
use crate::format::{Scale, count};

pub(super) const LINE: Declaration = Declaration {
    word: "line",
    doc: "A line chart: a curve over the iterations, or a metric over an axis of the step, as the mean with its band. A \
          curve that a search stopped or that diverged is thin and ends in a cross, and the mean of the others ends where \
          the first of them ends. Numbers of an axis have distances by their values, on a logarithmic scale if they grow \
          by factors.",
    x: Some(Role::Along),
    y: Some(Role::Line),
    mark: Mark::Line,
    scales: [true; 2],
    labels: [true; 2],
    narrow: true,
    data: Some(data::lines),
    ..Declaration::NOTHING
};

/// The values of several curves by iteration. At an iteration that only some curves have, the values of the others are
/// interpolated linearly: curves of programs can have different iterations, and thinned curves do.
fn together(curves: &[&Curve]) -> BTreeMap<u64, Vec<(usize, f64)>> {
    let points: Vec<Vec<(u64, f64)>> = curves
        .iter()
        .map(|curve| {
            curve.at.iter().copied().zip(curve.values.iter().copied()).filter(|(_, y)| y.is_finite()).collect()
        })
        .collect();
    let steps: BTreeSet<u64> = points.iter().flatten().map(|(x, _)| *x).collect();
    let longest = points.iter().map(Vec::len).max().unwrap_or(0);
    // Keeps about as many iterations as the longest curve has, so that a chart of many curves is not larger than one of
    // a single curve.
    let every = steps.len().div_ceil(longest.max(1)).max(1);
    let kept_steps = steps.iter().enumerate().filter(|(index, _)| index % every == 0 || index + 1 == steps.len());
    let mut at = BTreeMap::new();
    for (_, x) in kept_steps {
        let values =
            points.iter().enumerate().filter_map(|(index, points)| Some((index, value_at(points, *x)?))).collect();
        at.insert(*x, values);
    }
    at
}

/// The iterations at which all `curves` curves have a value, because a mean would change where one of them ends; all iterations if the
/// curves have no common iteration.
fn common<V>(at: BTreeMap<u64, Vec<V>>, curves: usize) -> BTreeMap<u64, Vec<V>> {
    if at.values().all(|values| values.len() < curves) {
        return at;
    }
    at.into_iter().filter(|(_, values)| values.len() == curves).collect()
}

/// The meaning of the crosses in words.
fn words_of(ends: &[End]) -> Option<String> {
    let of = |end: End, words: &str| {
        let number = ends.iter().filter(|other| **other == end).count();
        (number > 0).then(|| format!("the end of {}, which {words}", count(number, "job")))
    };
    let parts = [of(End::Stopped, "the search stopped"), of(End::Diverged, "diverged")];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| format!("× {}", parts.join(", and ")))
}

/// The value of a curve at an iteration between its first and its last.
fn value_at(points: &[(u64, f64)], x: u64) -> Option<f64> {
    let next = points.partition_point(|(at, _)| *at < x);
    let (right, high) = *points.get(next)?;
    if right == x {
        return Some(high);
    }
    let (left, low) = *points.get(next.checked_sub(1)?)?;
    let part = (x - left) as f64 / (right - left) as f64;
    Some(low + (high - low) * part)
}

fn curve_of<'d>(dot: &'d Dot<'_>, name: &str) -> Option<&'d Curve> {
    dot.curves?.get(name)
}

pub(super) fn draw<B: Canvas>(chart: &Chart<'_>, root: &Area<B>) -> Drawn {
    if chart.spec.has_curves() { curves(chart, root) } else { trend::draw(chart, root) }
}

/// The curves of a chart.
pub(super) struct Curves {
    /// The mean of each color, by iteration.
    pub(super) series: Vec<Series>,
    /// The curves that a search stopped or that diverged, each with the index of its color.
    pub(super) ended: Vec<(usize, Vec<(f64, f64)>)>,
    /// The reasons of these.
    ends: Vec<End>,
    pub(super) unit: Unit,
}

/// The curves of a chart's jobs.
pub(super) fn measured(chart: &Chart<'_>) -> Curves {
    let spec = chart.spec;
    let mut unit = Unit::One;
    let mut series = Vec::new();
    let mut ended: Vec<(usize, Vec<(f64, f64)>)> = Vec::new();
    let mut ends = Vec::new();
    for (index, (name, group)) in chart.by_color().into_iter().enumerate() {
        // A mean would change where some of its curves end.
        let (ended_dots, other_dots): (Vec<&Dot<'_>>, Vec<&Dot<'_>>) =
            group.into_iter().partition(|dot| dot.ended.is_some());
        for (end, curve) in ended_dots.into_iter().filter_map(|dot| Some((dot.ended?, curve_of(dot, &spec.y)?))) {
            ends.push(end);
            unit = curve.unit;
            let points = curve.at.iter().zip(&curve.values).map(|(x, y)| (*x as f64, *y));
            let points: Vec<(f64, f64)> = points.filter(|(_, y)| y.is_finite()).collect();
            ended.push((index, points));
        }
        let (jobs, curves): (Vec<usize>, Vec<&Curve>) =
            other_dots.into_iter().filter_map(|dot| Some((dot.index, curve_of(dot, &spec.y)?))).unzip();
        unit = curves.last().map_or(unit, |curve| curve.unit);
        let at = common(together(&curves), curves.len());
        let mean_of_all = chart.means.of(&jobs);
        let mean = |at: Vec<(usize, f64)>| {
            let (at_jobs, values): (Vec<usize>, Vec<f64>) =
                at.iter().map(|(curve, value)| (jobs[*curve], *value)).unzip();
            if values.len() == jobs.len() { mean_of_all(&values) } else { chart.means.of(&at_jobs)(&values) }
        };
        let points = at.into_iter().filter_map(|(x, values)| Some((x as f64, mean(values)?))).collect();
        series.push(Series { name, points, bars: BTreeMap::new() });
    }
    Curves { series, ended, ends, unit }
}

/// Draws curves over the iterations.
fn curves<B: Canvas>(chart: &Chart<'_>, root: &Area<B>) -> Drawn {
    let spec = chart.spec;
    let Curves { series, ended, ends, unit } = measured(chart);
    let half = |mean: &Mean| chart.half(mean);
    let of_ended = || ended.iter().flat_map(|(_, points)| points);
    let samples = || series.iter().flat_map(|series| &series.points);
    let bounds = samples().flat_map(|(_, sample)| [sample.mean - half(sample), sample.mean + half(sample)]);
    let y = match Span::new(bounds.chain(of_ended().map(|(_, y)| *y)), false, &spec.look.y) {
        Ok(span) => span,
        Err(empty) => return Ok(Err(empty)),
    };
    let scale = Scale::of_metric(&chart.spec.y, y.reach(), unit);
    let iterations = samples().map(|(x, _)| *x).chain(of_ended().map(|(x, _)| *x));
    let x = match x_span(iterations, &spec.look.x) {
        Ok(span) => span,
        Err(empty) => return Ok(Err(empty)),
    };

    let mut plot = builder(root, chart, &series).build_cartesian_2d(x.clone(), y.clone())?;
    let unit_scale = Scale { factor: 1.0, suffix: "" };
    let names = (chart.x_label("Iteration", ""), chart.y_metric(scale, unit));
    mesh(&mut plot, chart, names, Ticks { x: Some(unit_scale), y: scale })?;
    for (index, points) in &ended {
        let color = chart.color(*index);
        for piece in visible(points, &x, &y) {
            plot.draw_series(LineSeries::new(piece, color.mix(0.55).stroke_width(1)))?;
        }
        if let Some(last) = points.last().filter(|(at, value)| x.holds(*at) && y.holds(*value)) {
            root.draw(&Cross::new(plot.backend_coord(last), 4, color.stroke_width(2)))?;
        }
    }
    lines(&mut plot, chart, &series, (&x, &y))?;
    if let Some(text) = words_of(&ends) {
        let style = (FONT, 12).into_font().color(&INK).pos(Pos::new(HPos::Right, VPos::Bottom));
        let (width, height) = chart.size();
        root.draw(&Text::new(text, (pixels(width) - 14, pixels(height) - 4), style))?;
    }
    legend(root, chart, &series)?;
    Ok(Ok(()))
}

/// The axis of iterations: from zero, or on a logarithmic scale from the first positive iteration, to the last one.
fn x_span(iterations: impl Iterator<Item = f64> + Clone, side: &Side) -> Result<Span, Empty> {
    let last = iterations.clone().fold(1.0, f64::max);
    let first = match side.log {
        Some(true) => iterations.filter(|at| *at > 0.0).fold(last, f64::min).min(last / 10.0),
        _ => 0.0,
    };
    let [low, high] = [side.limits[0].unwrap_or(first), side.limits[1].unwrap_or(last)];
    Span::new([first, last].into_iter(), true, &Side { limits: [Some(low), Some(high)], ..side.clone() })
}

/// Draws the lines of `series` above all of their bands.
pub(super) fn lines<B: Canvas>(
    plot: &mut Plot<'_, B, Span, Span>,
    chart: &Chart<'_>,
    series: &[Series],
    (x, y): (&Span, &Span),
) -> Result<(), Box<dyn std::error::Error>> {
    for (index, series) in series.iter().enumerate().filter(|_| chart.spec.band) {
        if series.points.iter().all(|(_, sample)| sample.half.is_none()) {
            continue;
        }
        let visible_points = || series.points.iter().filter(|(at, _)| x.holds(*at));
        let upper = visible_points().map(|(x, sample)| (*x, y.clamp(sample.mean + chart.half(sample))));
        let lower = visible_points().rev().map(|(x, sample)| (*x, y.clamp(sample.mean - chart.half(sample))));
        let outline: Vec<(f64, f64)> = upper.chain(lower).collect();
        plot.draw_series(std::iter::once(Polygon::new(outline, chart.color(index).mix(0.16).filled())))?;
    }
    for (index, series) in series.iter().enumerate() {
        let points: Vec<(f64, f64)> = series.points.iter().map(|(x, sample)| (*x, sample.mean)).collect();
        let style = chart.color(index).stroke_width(2);
        for piece in visible(&points, x, y) {
            match DASHES[index % DASHES.len()] {
                None => drop(plot.draw_series(LineSeries::new(piece, style))?),
                Some((dash, gap)) => drop(plot.draw_series(DashedLineSeries::new(piece, dash, gap, style))?),
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(points: &[(u64, f64)]) -> Curve {
        Curve {
            unit: Unit::One,
            at: points.iter().map(|(at, _)| *at).collect(),
            values: points.iter().map(|(_, value)| *value).collect(),
        }
    }

    #[test]
    fn curves_with_different_iterations_are_joined_at_all_of_them() {
        let (one, other) = (curve(&[(0, 0.0), (10, 10.0), (20, 0.0)]), curve(&[(0, 2.0), (20, 4.0), (30, 4.0)]));
        let values = together(&[&one, &one]);
        let both = |value: f64| vec![(0, value), (1, value)];
        assert_eq!(values, BTreeMap::from([(0, both(0.0)), (10, both(10.0)), (20, both(0.0))]));
        let values = together(&[&other]);
        assert_eq!(values[&30], [(0, 4.0)]);
        assert_eq!(value_at(&[(0, 2.0), (20, 4.0)], 5), Some(2.5));
        assert_eq!(value_at(&[(1, 2.0), (20, 4.0)], 0), None);
        assert_eq!(value_at(&[(1, 2.0), (20, 4.0)], 21), None);
        // A mean has all of its curves everywhere.
        let all = common(together(&[&one, &other]), 2);
        assert_eq!(all.keys().copied().collect::<Vec<_>>(), [0, 20]);
        let apart = together(&[&curve(&[(0, 1.0)]), &curve(&[(5, 1.0)])]);
        assert_eq!(common(apart, 2).len(), 2);
        assert_eq!(words_of(&[]), None);
        assert_eq!(
            words_of(&[End::Diverged, End::Stopped, End::Diverged]).unwrap(),
            "× the end of 1 job, which the search stopped, and the end of 2 jobs, which diverged"
        );
        let long: Vec<(u64, f64)> = (0..1000).map(|x| (x * 2, x as f64)).collect();
        let odd: Vec<(u64, f64)> = (0..1000).map(|x| (x * 2 + 1, x as f64)).collect();
        let values = together(&[&curve(&long), &curve(&odd)]);
        assert!((1000..=1001).contains(&values.len()), "{}", values.len());
        assert_eq!(
            (values.first_key_value().map(|(x, _)| *x), values.last_key_value().map(|(x, _)| *x)),
            (Some(0), Some(1999))
        );
    }
}
