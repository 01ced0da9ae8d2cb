//! Line charts: curves over the iterations of jobs.

use std::collections::BTreeMap;

use plotters::prelude::*;
use sweep_job::Unit;

use super::{
    Area, COLORS, Canvas, Chart, DASHES, Declaration, Drawn, Mark, Role, Series, Ticks, builder, heading, legend, mesh,
    range,
};
use crate::{format::Scale, stats::Sample};

pub(super) const LINE: Declaration = Declaration {
    word: "line",
    doc: "A line chart of a curve over the iterations.",
    x: Some(Role::Iteration),
    y: Some(Role::Curve),
    mark: Mark::Line,
    ..Declaration::NOTHING
};

pub(super) fn draw<B: Canvas>(chart: &Chart<'_>, root: &Area<B>) -> Drawn {
    let spec = chart.spec;
    let mut unit = Unit::One;
    let mut series = Vec::new();
    for (name, group) in chart.by_color() {
        let mut at: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
        for curve in group.iter().filter_map(|dot| dot.curves?.get(&spec.y)) {
            unit = curve.unit;
            for (iteration, value) in curve.at.iter().zip(&curve.values).filter(|(_, value)| value.is_finite()) {
                at.entry(*iteration).or_default().push(*value);
            }
        }
        let points = at.iter().filter_map(|(x, values)| Some((*x as f64, Sample::new(values)?))).collect();
        series.push(Series { name, points, bars: BTreeMap::new() });
    }
    let ends = |of: &dyn Fn(&Sample) -> f64| -> Vec<f64> {
        series.iter().flat_map(|series| series.points.iter().map(|(_, sample)| of(sample))).collect()
    };
    let half = |sample: &Sample| chart.half(sample);
    let (low, high) = (ends(&|sample| sample.mean - half(sample)), ends(&|sample| sample.mean + half(sample)));
    let Some((bottom, top)) = range(low.iter().chain(&high).copied(), false) else { return Ok(false) };
    let scale = Scale::of(top.abs().max(bottom.abs()), unit);
    let right = series.iter().flat_map(|series| &series.points).map(|(x, _)| *x).fold(1.0, f64::max);

    let mut plot = builder(root, chart.title, &series).build_cartesian_2d(0.0..right, bottom..top)?;
    let whole = Scale { factor: 1.0, suffix: "" };
    let y_name = heading(&spec.y, scale, unit);
    mesh(&mut plot, "iteration", &y_name, Ticks { x: Some(whole), y: scale })?;
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
    legend(root, spec.kind, &series)?;
    Ok(true)
}
