//! Curves over the iterations of jobs.

use std::collections::BTreeMap;

use plotters::prelude::*;
use sweep_job::Unit;

use super::{
    Area, COLORS, Canvas, DASHES, Dot, Drawn, Series, Ticks, builder, by_color, half, heading, legend, mesh, range,
};
use crate::{analysis::Sample, format::Scale, recipe};

pub(super) fn draw<B: Canvas>(figure: &recipe::Figure, title: &str, dots: &[Dot<'_>], root: &Area<B>) -> Drawn {
    let mut unit = Unit::One;
    let mut series = Vec::new();
    for (name, group) in by_color(figure, dots) {
        let mut at: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
        for curve in group.iter().filter_map(|dot| dot.record?.outcome.curves.get(&figure.y.value)) {
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
    let half = |sample: &Sample| half(figure, sample);
    let (low, high) = (ends(&|sample| sample.mean - half(sample)), ends(&|sample| sample.mean + half(sample)));
    let Some((bottom, top)) = range(low.iter().chain(&high).copied(), false) else { return Ok(false) };
    let scale = Scale::of(top.abs().max(bottom.abs()), unit);
    let right = series.iter().flat_map(|series| &series.points).map(|(x, _)| *x).fold(1.0, f64::max);

    let mut chart = builder(root, title, &series).build_cartesian_2d(0.0..right, bottom..top)?;
    let whole = Scale { factor: 1.0, suffix: "" };
    let y_name = heading(&figure.y.value, scale, unit);
    mesh(&mut chart, "iteration", &y_name, Ticks { x: Some(whole), y: scale })?;
    for (index, series) in series.iter().enumerate() {
        let color = COLORS[index % COLORS.len()];
        if figure.band && series.points.iter().any(|(_, sample)| sample.sd.is_some()) {
            let upper = series.points.iter().map(|(x, sample)| (*x, sample.mean + half(sample)));
            let lower = series.points.iter().rev().map(|(x, sample)| (*x, sample.mean - half(sample)));
            let outline: Vec<(f64, f64)> = upper.chain(lower).collect();
            chart.draw_series(std::iter::once(Polygon::new(outline, color.mix(0.18).filled())))?;
        }
        let points: Vec<(f64, f64)> = series.points.iter().map(|(x, sample)| (*x, sample.mean)).collect();
        let style = color.stroke_width(2);
        match DASHES[index % DASHES.len()] {
            None => drop(chart.draw_series(LineSeries::new(points, style))?),
            Some((dash, gap)) => drop(chart.draw_series(DashedLineSeries::new(points, dash, gap, style))?),
        }
    }
    legend(root, figure.kind, &series)?;
    Ok(true)
}
