//! Slices: a metric against one axis, with a dot for each configuration.

use std::collections::BTreeMap;

use plotters::{
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};

use super::{
    Area, Canvas, Chart, Declaration, Drawn, Empty, FAINT, FONT, INK, Mark, Role, Series, Shows, Ticks, builder,
    configurations::{Configurations, Row},
    legend, marker, mesh, range,
};
use crate::format::{Scale, count};

pub(super) const SLICE: Declaration = Declaration {
    word: "slice",
    doc: "A metric against an axis: a dot for each configuration, its mean over seeds with the interval of the mean. The \
          scale of numbers is logarithmic if the axis is declared so (`logspace`, `log_uniform`), or if the ratios of \
          listed numbers are more alike than their differences. A ring marks the best configuration.",
    x: Some(Role::Axis),
    y: Some(Role::Metric),
    best: true,
    shows: Shows::Configurations,
    mark: Mark::Dot,
    labels: [true; 2],
    ..Declaration::NOTHING
};

/// More dots than this are smaller and have no intervals.
const MAX_LARGE_DOTS: usize = 150;

pub(super) fn draw<B: Canvas>(chart: &Chart<'_>, root: &Area<B>) -> Drawn {
    let spec = chart.spec;
    let configurations = Configurations::new(chart, &spec.y);
    let Some(axis) = configurations.axes.iter().position(|(name, _)| *name == spec.x) else {
        return Ok(Err(if configurations.rows.is_empty() { Empty::NoValues } else { Empty::NoVariation }));
    };
    let span = &configurations.axes[axis].1;
    let many = configurations.rows.len() > MAX_LARGE_DOTS;
    let half = |row: &Row| if many { 0.0 } else { chart.half(&row.sample) };
    let ends = configurations.rows.iter().flat_map(|row| [row.sample.mean - half(row), row.sample.mean + half(row)]);
    let Some((bottom, top)) = range(ends, false) else { return Ok(Err(Empty::NoValues)) };
    let scale = Scale::of_metric(&spec.y, top.abs().max(bottom.abs()), configurations.unit);
    let mut groups: Vec<(&str, Vec<&Row>)> = Vec::new();
    for row in &configurations.rows {
        match groups.iter_mut().find(|(color, _)| *color == row.color) {
            Some((_, rows)) => rows.push(row),
            None => groups.push((&row.color, vec![row])),
        }
    }
    let series: Vec<Series> = groups
        .iter()
        .map(|(name, _)| Series { name: (*name).to_owned(), points: Vec::new(), bars: BTreeMap::new() })
        .collect();
    let mut plot = builder(root, chart, &series).build_cartesian_2d(0.0..1.0, bottom..top)?;
    let x_name = chart.x_label(&spec.x, if span.is_log() { "logarithmic" } else { "" });
    let names = (String::new(), chart.y_metric(scale, configurations.unit));
    mesh(&mut plot, chart, names, Ticks { x: None, y: scale })?;
    let style = |at| (FONT, 13).into_font().color(&INK).pos(at);
    for (place, text) in span.ticks(8) {
        let (x, y) = plot.backend_coord(&(place, bottom));
        let (_, end) = plot.backend_coord(&(place, top));
        if !span.has_words() {
            root.draw(&PathElement::new([(x, y), (x, end)], FAINT.stroke_width(1)))?;
        }
        root.draw(&PathElement::new([(x, y), (x, y + 5)], INK.stroke_width(1)))?;
        root.draw(&Text::new(text, (x, y + 8), style(Pos::new(HPos::Center, VPos::Top))))?;
    }
    let middle = plot.backend_coord(&(0.5, bottom));
    root.draw(&Text::new(x_name, (middle.0, middle.1 + 30), style(Pos::new(HPos::Center, VPos::Top))))?;
    // Dots at the same value are side by side, at irregular distances (multiples of the golden ratio).
    let width = if span.has_words() { 0.5 / span.ticks(8).len() as f64 } else { 0.02 };
    let repeats = span.repeats(configurations.rows.len());
    let place = |row: &Row| {
        let number = configurations.rows.iter().position(|other| std::ptr::eq(other, row))? as f64;
        let shift = if repeats { (number * 0.618_033_988_749_895).fract() - 0.5 } else { 0.0 };
        Some(span.place(&row.values[axis])? + width * shift)
    };
    for (index, (_, rows)) in groups.iter().enumerate() {
        let color = chart.color(index);
        for row in rows {
            let Some(x) = place(row) else { continue };
            let (mean, half) = (row.sample.mean, half(row));
            if half > 0.0 {
                let line = [(x, mean - half), (x, mean + half)].map(|end| plot.backend_coord(&end));
                root.draw(&PathElement::new(line, color.mix(0.5).stroke_width(1)))?;
            }
            let at = plot.backend_coord(&(x, mean));
            let faint = color.mix(0.55);
            match index % 3 {
                _ if !many => marker(root, chart, index, at)?,
                0 => root.draw(&Circle::new(at, 3, faint.filled()))?,
                1 => root.draw(&TriangleMarker::new(at, 4, faint.filled()))?,
                _ => root.draw(&Cross::new(at, 3, faint.stroke_width(1)))?,
            }
        }
    }
    let best = configurations.best_last().last().copied().filter(|_| configurations.better.is_some());
    if let Some((row, x)) = best.and_then(|row| Some((row, place(row)?))) {
        root.draw(&Circle::new(plot.backend_coord(&(x, row.sample.mean)), 9, INK.stroke_width(2)))?;
    }
    configurations.remark(root, Some(count(configurations.rows.len(), "configuration")))?;
    legend(root, chart, &series)?;
    Ok(Ok(()))
}
