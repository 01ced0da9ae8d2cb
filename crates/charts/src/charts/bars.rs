//! Bar charts: a metric by an axis.

use std::collections::BTreeMap;

use plotters::{
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};
use sweep_job::{Unit, Value};

use super::{
    Area, Canvas, Chart, Declaration, Drawn, Empty, FONT, INK, Mark, Role, Series, Ticks, builder, legend, mean::Mean,
    mesh, span::Span,
};
use crate::format::{Scale, clean};

pub(super) const BAR: Declaration = Declaration {
    word: "bar",
    doc: "A bar chart of a metric by an axis.",
    x: Some(Role::Axis),
    y: Some(Role::Metric),
    mark: Mark::Area,
    scales: [false, true],
    labels: [true; 2],
    narrow: true,
    ..Declaration::NOTHING
};

pub(super) fn draw<B: Canvas>(chart: &Chart<'_>, root: &Area<B>) -> Drawn {
    let spec = chart.spec;
    let mut groups: Vec<&Value> = Vec::new();
    let mut unit = Unit::One;
    let mut series = Vec::new();
    for (name, dots) in chart.by_color() {
        let mut values: BTreeMap<usize, Vec<(usize, f64)>> = BTreeMap::new();
        for dot in dots {
            let metric = dot.metrics.get(&spec.y);
            let (Some(metric), Some(group)) = (metric, dot.x) else { continue };
            unit = metric.unit;
            let index = groups.iter().position(|known| *known == group).unwrap_or_else(|| {
                groups.push(group);
                groups.len() - 1
            });
            values.entry(index).or_default().push((dot.index, metric.value));
        }
        let bars = values.iter().filter_map(|(group, values)| Some((*group, chart.mean(values)?))).collect();
        series.push(Series { name, points: Vec::new(), bars });
    }
    let half = |mean: &Mean| chart.half(mean);
    let ends = series
        .iter()
        .flat_map(|series| series.bars.values())
        .flat_map(|sample| [sample.mean - half(sample), sample.mean + half(sample)]);
    let ends: Vec<f64> = ends.collect();
    if ends.is_empty() {
        return Ok(Err(Empty::NoValues));
    }
    // The length of a bar is meaningful only if the bar begins at zero.
    let y = match Span::new(ends.into_iter().chain([0.0]), true, &spec.look.y) {
        Ok(span) => span,
        Err(empty) => return Ok(Err(empty)),
    };
    let (bottom, scale) = (y.start(), Scale::of_metric(&spec.y, y.reach(), unit));

    let mut plot = builder(root, chart, &series).build_cartesian_2d(0.0..groups.len() as f64, y.clone())?;
    let names = (chart.x_label(&spec.x, ""), chart.y_metric(scale, unit));
    mesh(&mut plot, chart, names, Ticks { x: None, y: scale })?;
    for (index, group) in groups.iter().enumerate() {
        let (x, y) = plot.backend_coord(&(index as f64 + 0.5, bottom));
        let style = (FONT, 13).into_font().color(&INK).pos(Pos::new(HPos::Center, VPos::Top));
        root.draw(&Text::new(clean(&group.to_string()).into_owned(), (x, y + 6), style))?;
    }
    // The bars of a group take three quarters of its width.
    let width = 0.75 / series.len() as f64;
    for (index, series) in series.iter().enumerate() {
        let color = chart.color(index);
        let left_edge = |group: usize| group as f64 + 0.125 + width * index as f64;
        plot.draw_series(series.bars.iter().map(|(group, sample)| {
            let (left, right) = (left_edge(*group) + 0.06 * width, left_edge(*group) + 0.94 * width);
            Rectangle::new([(left, y.base()), (right, y.clamp(sample.mean))], color.mix(0.85).filled())
        }))?;
        plot.draw_series(series.bars.iter().filter(|(_, sample)| half(sample) > 0.0).map(|(group, sample)| {
            let (x, half) = (left_edge(*group) + width / 2.0, half(sample));
            let [low, mean, high] = [-half, 0.0, half].map(|by| y.clamp(sample.mean + by));
            ErrorBar::new_vertical(x, low, mean, high, INK.stroke_width(1), 8)
        }))?;
    }
    legend(root, chart, &series)?;
    Ok(Ok(()))
}
