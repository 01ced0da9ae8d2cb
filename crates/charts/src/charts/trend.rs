//! The lines of a line chart over an axis: the mean of a metric at each value, for each color.

use std::collections::BTreeMap;

use plotters::{
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};
use sweep_job::{Unit, Value};

use super::{
    Area, Canvas, Chart, Drawn, Empty, FAINT, FONT, INK, Series, Ticks, axis::AxisScale, builder, legend, lines::lines,
    marker, mean::Mean, mesh, span::Span,
};
use crate::format::Scale;

/// A metric over an axis.
pub(super) struct Trend {
    pub(super) axis: AxisScale,
    /// The samples of each color, by their places on the axis.
    pub(super) series: Vec<Series>,
    pub(super) unit: Unit,
}

/// The metric of a chart's jobs over its axis.
pub(super) fn measured(chart: &Chart<'_>) -> Result<Trend, Empty> {
    let spec = chart.spec;
    let shown = || chart.dots.iter().filter(|dot| dot.metrics.contains_key(&spec.y));
    let values: Vec<&Value> = shown().filter_map(|dot| dot.x).collect();
    if values.is_empty() {
        return Err(Empty::NoValues);
    }
    let declared = spec.scales.iter().find(|(axis, _)| *axis == spec.x).map(|(_, log)| *log);
    let axis = AxisScale::new(&values, spec.look.x.log.or(declared)).ok_or(Empty::NoVariation)?;
    let mut unit = Unit::One;
    let mut series = Vec::new();
    for (name, dots) in chart.by_color() {
        let mut at: BTreeMap<String, (f64, Vec<(usize, f64)>)> = BTreeMap::new();
        for dot in dots {
            let (Some(metric), Some(value)) = (dot.metrics.get(&spec.y), dot.x) else { continue };
            let Some(place) = axis.place(value) else { continue };
            unit = metric.unit;
            if metric.value.is_finite() {
                at.entry(value.to_string()).or_insert((place, Vec::new())).1.push((dot.index, metric.value));
            }
        }
        let mut points: Vec<(f64, Mean)> =
            at.into_values().filter_map(|(place, values)| Some((place, chart.mean(&values)?))).collect();
        points.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        series.push(Series { name, points, bars: BTreeMap::new() });
    }
    Ok(Trend { axis, series, unit })
}

pub(super) fn draw<B: Canvas>(chart: &Chart<'_>, root: &Area<B>) -> Drawn {
    let spec = chart.spec;
    let Trend { axis, series, unit } = match measured(chart) {
        Ok(trend) => trend,
        Err(empty) => return Ok(Err(empty)),
    };
    let half = |mean: &Mean| chart.half(mean);
    let samples = series.iter().flat_map(|series| series.points.iter().map(|(_, sample)| sample));
    let ends = samples.flat_map(|sample| [sample.mean - half(sample), sample.mean + half(sample)]);
    let y = match Span::new(ends, false, &spec.look.y) {
        Ok(span) => span,
        Err(empty) => return Ok(Err(empty)),
    };
    let [low, high] = spec.look.x.limits.map(|end| end.and_then(|end| axis.place(&Value::Float(end))));
    let (low, high) = (low.unwrap_or(0.0), high.unwrap_or(1.0));
    if low >= high {
        return Ok(Err(Empty::Outside));
    }
    let (x, scale) = (Span::linear(low, high), Scale::of_metric(&chart.spec.y, y.reach(), unit));
    let mut plot = builder(root, chart, &series).build_cartesian_2d(x.clone(), y.clone())?;
    let y_name = chart.y_metric(scale, unit);
    let x_name = chart.x_label(&spec.x, if axis.is_log() { "logarithmic" } else { "" });
    // The label of the x-axis has its own place, below the ticks.
    mesh(&mut plot, chart, (String::new(), y_name), Ticks { x: None, y: scale })?;
    let style = |at| (FONT, 13).into_font().color(&INK).pos(at);
    let (bottom, top) = (y.start(), y.end());
    let max_labels = if chart.is_narrow() { 5 } else { 8 };
    for (place, text) in axis.ticks(max_labels).into_iter().filter(|(place, _)| x.holds(*place)) {
        let (at, from) = plot.backend_coord(&(place, bottom));
        let (_, end) = plot.backend_coord(&(place, top));
        root.draw(&PathElement::new([(at, from), (at, end)], FAINT.stroke_width(1)))?;
        root.draw(&PathElement::new([(at, from), (at, from + 5)], INK.stroke_width(1)))?;
        root.draw(&Text::new(text, (at, from + 8), style(Pos::new(HPos::Center, VPos::Top))))?;
    }
    let (middle, below) = plot.backend_coord(&(f64::midpoint(low, high), bottom));
    root.draw(&Text::new(x_name, (middle, below + 30), style(Pos::new(HPos::Center, VPos::Top))))?;
    lines(&mut plot, chart, &series, (&x, &y))?;
    for (index, series) in series.iter().enumerate() {
        for (place, sample) in series.points.iter().filter(|(place, sample)| x.holds(*place) && y.holds(sample.mean)) {
            marker(root, chart, index, plot.backend_coord(&(*place, sample.mean)))?;
        }
    }
    legend(root, chart, &series)?;
    Ok(Ok(()))
}
