//! Line charts: curves over the iterations of jobs.

use std::collections::{BTreeMap, BTreeSet};

use plotters::{
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};
use sweep_job::{Curve, Unit};

use super::{
    Area, COLORS, Canvas, Chart, DASHES, Declaration, Dot, Drawn, FONT, INK, Mark, Role, SIZE, Series, Ticks, builder,
    heading, legend, mesh, pixels, range,
};
use crate::{
    format::{Scale, count},
    stats::Sample,
};

pub(super) const LINE: Declaration = Declaration {
    word: "line",
    doc: "A line chart of a curve over the iterations. A curve that a search stopped is thin and ends in a cross.",
    x: Some(Role::Iteration),
    y: Some(Role::Curve),
    mark: Mark::Line,
    ..Declaration::NOTHING
};

/// The values of several curves by iteration. Where only some have a value, that of another one is interpolated between its
/// neighbors: the curves of programs can have different iterations, and what is left of long ones has.
fn together(curves: &[&Curve]) -> BTreeMap<u64, Vec<f64>> {
    let points: Vec<Vec<(u64, f64)>> = curves
        .iter()
        .map(|curve| {
            curve.at.iter().copied().zip(curve.values.iter().copied()).filter(|(_, y)| y.is_finite()).collect()
        })
        .collect();
    let all: BTreeSet<u64> = points.iter().flatten().map(|(x, _)| *x).collect();
    let longest = points.iter().map(Vec::len).max().unwrap_or(0);
    // No more than the longest curve has, so that a chart of many curves is no larger than one of them.
    let every = all.len().div_ceil(longest.max(1)).max(1);
    let kept = all.iter().enumerate().filter(|(index, _)| index % every == 0 || index + 1 == all.len());
    let mut at = BTreeMap::new();
    for (_, x) in kept {
        let values: Vec<f64> = points.iter().filter_map(|points| value_at(points, *x)).collect();
        at.insert(*x, values);
    }
    at
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

/// A job's curve.
fn curve_of<'d>(dot: &'d Dot<'_>, name: &str) -> Option<&'d Curve> {
    dot.curves?.get(name)
}

pub(super) fn draw<B: Canvas>(chart: &Chart<'_>, root: &Area<B>) -> Drawn {
    let spec = chart.spec;
    let mut unit = Unit::One;
    let mut series = Vec::new();
    let mut ended: Vec<(usize, Vec<(f64, f64)>)> = Vec::new();
    for (index, (name, group)) in chart.by_color().into_iter().enumerate() {
        // A mean would change where some of its curves end.
        let (stopped, others): (Vec<&Dot<'_>>, Vec<&Dot<'_>>) = group.into_iter().partition(|dot| dot.stopped);
        for curve in stopped.into_iter().filter_map(|dot| curve_of(dot, &spec.y)) {
            unit = curve.unit;
            let points = curve.at.iter().zip(&curve.values).map(|(x, y)| (*x as f64, *y));
            let points: Vec<(f64, f64)> = points.filter(|(_, y)| y.is_finite()).collect();
            ended.push((index, points));
        }
        let curves: Vec<&Curve> = others.into_iter().filter_map(|dot| curve_of(dot, &spec.y)).collect();
        unit = curves.last().map_or(unit, |curve| curve.unit);
        let at = together(&curves);
        let points = at.iter().filter_map(|(x, values)| Some((*x as f64, Sample::new(values)?))).collect();
        series.push(Series { name, points, bars: BTreeMap::new() });
    }
    let ends = |of: &dyn Fn(&Sample) -> f64| -> Vec<f64> {
        series.iter().flat_map(|series| series.points.iter().map(|(_, sample)| of(sample))).collect()
    };
    let half = |sample: &Sample| chart.half(sample);
    let (low, high) = (ends(&|sample| sample.mean - half(sample)), ends(&|sample| sample.mean + half(sample)));
    let of_ended = || ended.iter().flat_map(|(_, points)| points);
    let all = low.iter().chain(&high).copied().chain(of_ended().map(|(_, y)| *y));
    let Some((bottom, top)) = range(all, false) else { return Ok(false) };
    let scale = Scale::of(top.abs().max(bottom.abs()), unit);
    let right = series.iter().flat_map(|series| &series.points).map(|(x, _)| *x);
    let right = right.chain(of_ended().map(|(x, _)| *x)).fold(1.0, f64::max);

    let mut plot = builder(root, chart.title, &series).build_cartesian_2d(0.0..right, bottom..top)?;
    let whole = Scale { factor: 1.0, suffix: "" };
    let y_name = heading(&spec.y, scale, unit);
    mesh(&mut plot, "iteration", &y_name, Ticks { x: Some(whole), y: scale })?;
    for (index, points) in &ended {
        let color = COLORS[index % COLORS.len()];
        plot.draw_series(LineSeries::new(points.iter().copied(), color.mix(0.55).stroke_width(1)))?;
        if let Some(last) = points.last() {
            root.draw(&Cross::new(plot.backend_coord(last), 4, color.stroke_width(2)))?;
        }
    }
    for (index, series) in series.iter().enumerate() {
        let color = COLORS[index % COLORS.len()];
        if spec.band && series.points.iter().any(|(_, sample)| sample.sd.is_some()) {
            let upper = series.points.iter().map(|(x, sample)| (*x, sample.mean + half(sample)));
            let lower = series.points.iter().rev().map(|(x, sample)| (*x, sample.mean - half(sample)));
            let outline: Vec<(f64, f64)> = upper.chain(lower).collect();
            plot.draw_series(std::iter::once(Polygon::new(outline, color.mix(0.18).filled())))?;
        }
        let points: Vec<(f64, f64)> = series.points.iter().map(|(x, sample)| (*x, sample.mean)).collect();
        let style = color.stroke_width(2);
        match DASHES[index % DASHES.len()] {
            None => drop(plot.draw_series(LineSeries::new(points, style))?),
            Some((dash, gap)) => drop(plot.draw_series(DashedLineSeries::new(points, dash, gap, style))?),
        }
    }
    if !ended.is_empty() {
        let style = (FONT, 12).into_font().color(&INK).pos(Pos::new(HPos::Right, VPos::Bottom));
        let text = format!("× the end of {}, which the search stopped", count(ended.len(), "job"));
        root.draw(&Text::new(text, (pixels(SIZE.0) - 14, pixels(SIZE.1) - 4), style))?;
    }
    legend(root, spec.kind, &series)?;
    Ok(true)
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
        let found = together(&[&one, &one]);
        assert_eq!(found, BTreeMap::from([(0, vec![0.0; 2]), (10, vec![10.0; 2]), (20, vec![0.0; 2])]));
        let found = together(&[&other]);
        assert_eq!(found[&30], [4.0]);
        assert_eq!(value_at(&[(0, 2.0), (20, 4.0)], 5), Some(2.5));
        assert_eq!(value_at(&[(1, 2.0), (20, 4.0)], 0), None);
        assert_eq!(value_at(&[(1, 2.0), (20, 4.0)], 21), None);
        let long: Vec<(u64, f64)> = (0..1000).map(|x| (x * 2, x as f64)).collect();
        let odd: Vec<(u64, f64)> = (0..1000).map(|x| (x * 2 + 1, x as f64)).collect();
        let found = together(&[&curve(&long), &curve(&odd)]);
        assert!((1000..=1001).contains(&found.len()), "{}", found.len());
        assert_eq!(
            (found.first_key_value().map(|(x, _)| *x), found.last_key_value().map(|(x, _)| *x)),
            (Some(0), Some(1999))
        );
    }
}
