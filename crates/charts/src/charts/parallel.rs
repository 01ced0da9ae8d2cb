//! Parallel coordinates: a line for each configuration across the axes of a step, in the color of its metric.

use std::collections::BTreeMap;

use plotters::{
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};

use super::{
    Area, Canvas, Chart, Declaration, Drawn, Empty, FONT, INK, Role, SIZE, Shows,
    axis::AxisScale,
    configurations::{Configurations, Row},
    heading, pixels, range,
    shades::shade,
};
use crate::{
    format::{Scale, clean, count},
    stats::Better,
};

pub(super) const PARALLEL: Declaration = Declaration {
    word: "parallel",
    doc: "Parallel coordinates: a line for each configuration across all axes that vary, in the color of its mean over \
          seeds. Better lines are darker and on top; the best one is thick.",
    value: Some(Role::Metric),
    best: true,
    shows: Shows::Configurations,
    ..Declaration::NOTHING
};

/// The plot's edges in pixels.
const TOP: i32 = 54;
const BELOW: i32 = 74;
const LEFT: i32 = 78;
const RIGHT: i32 = 104;
/// Width of the scale of colors.
const WIDTH: i32 = 12;
/// Axes that have room.
const MAX_AXES: usize = 9;
/// The part of the palette that is visible on a light and on a dark ground.
const SHADES: (f64, f64) = (0.2, 0.94);
/// More lines than this are thinner and more transparent.
const MAX_BOLD_LINES: usize = 40;

pub(super) fn draw<B: Canvas>(chart: &Chart<'_>, root: &Area<B>) -> Drawn {
    let Some(metric) = &chart.spec.value else { return Ok(Err(Empty::NoValues)) };
    let configurations = Configurations::new(chart, metric);
    let Some(ends) = configurations.ends() else { return Ok(Err(Empty::NoValues)) };
    if configurations.axes.is_empty() {
        return Ok(Err(Empty::NoVariation));
    }
    let Some((low, high)) = range([ends.0, ends.1].into_iter(), false) else { return Ok(Err(Empty::Impossible)) };
    let axes = &configurations.axes[..configurations.axes.len().min(MAX_AXES)];
    let scale = Scale::of_metric(metric, high.abs().max(low.abs()), configurations.unit);
    let (bottom, right) = (pixels(SIZE.1) - BELOW, pixels(SIZE.0) - RIGHT);
    let font = |size: u32| (FONT, size).into_font().color(&INK);
    let at = |h, v| Pos::new(h, v);
    let title = (pixels(SIZE.0) / 2, 16);
    root.draw(&Text::new(chart.title.to_owned(), title, font(17).pos(at(HPos::Center, VPos::Top))))?;

    let x_of = |index: usize| LEFT + (right - LEFT) * pixels(index) / pixels(axes.len());
    let share = |mean: f64| (mean - low) / (high - low);
    // Better is darker; without a direction, less is.
    let color = |share: f64| {
        let share = if configurations.better == Some(Better::More) { 1.0 - share } else { share };
        shade(SHADES.0 + (SHADES.1 - SHADES.0) * share)
    };
    let rows = configurations.best_last();
    let places: Vec<Vec<Option<f64>>> = (0..axes.len()).map(|axis| spread(axis, &axes[axis].1, &rows)).collect();
    let last = rows.len() - 1;
    let opacity = (MAX_BOLD_LINES as f64 / rows.len() as f64).sqrt().clamp(0.18, 0.9);
    for (index, row) in rows.iter().enumerate() {
        let line = places.iter().enumerate().filter_map(|(axis, places)| Some((x_of(axis), y_of(places[index]?))));
        let line: Vec<(i32, i32)> = line.chain([(right, y_of(share(row.sample.mean)))]).collect();
        let color = color(share(row.sample.mean));
        let is_best = index == last && configurations.better.is_some();
        let (width, opacity) =
            if is_best { (4, 1.0) } else { (if rows.len() > MAX_BOLD_LINES { 1 } else { 2 }, opacity) };
        root.draw(&PathElement::new(line, color.mix(opacity).stroke_width(width)))?;
    }
    // Every other name is lower if names are longer than the distance of the axes.
    let longest = axes.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let staggered = 8 * pixels(longest) > (right - LEFT) / pixels(axes.len());
    for (index, (name, span)) in axes.iter().enumerate() {
        let x = x_of(index);
        root.draw(&PathElement::new([(x, TOP), (x, bottom)], INK.stroke_width(1)))?;
        for (place, text) in span.ticks(6) {
            let y = y_of(place);
            root.draw(&PathElement::new([(x - 4, y), (x, y)], INK.stroke_width(1)))?;
            let width = 7 * pixels(text.chars().count()) + 4;
            // Lines behind a text are faint, so that it can be read.
            root.draw(&Rectangle::new([(x - 6 - width, y - 8), (x - 5, y + 8)], WHITE.mix(0.75).filled()))?;
            root.draw(&Text::new(text, (x - 7, y), font(12).pos(at(HPos::Right, VPos::Center))))?;
        }
        let below = bottom + 8 + if staggered && index % 2 == 1 { 17 } else { 0 };
        root.draw(&Text::new(clean(name).into_owned(), (x, below), font(13).pos(at(HPos::Center, VPos::Top))))?;
        if span.is_log() {
            root.draw(&Text::new("log", (x, TOP - 4), font(11).pos(at(HPos::Center, VPos::Bottom))))?;
        }
    }
    for step in 0..64 {
        let place = |step: i32| f64::from(step) / 64.0;
        // The areas overlap, so that no seam is visible.
        let corners = [(right, y_of(place(step + 1))), (right + WIDTH, (y_of(place(step)) + 1).min(bottom))];
        root.draw(&Rectangle::new(corners, color(place(step) + 1.0 / 128.0).filled()))?;
    }
    for (mean, place) in ticks(low, high) {
        let style = font(12).pos(at(HPos::Left, VPos::Center));
        root.draw(&Text::new(scale.show(mean), (right + WIDTH + 6, y_of(place)), style))?;
    }
    let name = heading(metric, scale, configurations.unit);
    root.draw(&Text::new(name, (pixels(SIZE.0) - 14, TOP - 4), font(13).pos(at(HPos::Right, VPos::Bottom))))?;
    let hidden = configurations.axes.len() - axes.len();
    let more = (hidden > 0).then(|| {
        format!("{} more not shown", if hidden == 1 { "1 axis".to_owned() } else { format!("{hidden} axes") })
    });
    let total = count(configurations.rows.len(), "configuration");
    configurations.remark(root, Some(more.map_or_else(|| total.clone(), |more| format!("{total}; {more}"))))?;
    Ok(Ok(()))
}

#[expect(clippy::cast_possible_truncation, reason = "from 0 to 1, times pixels")]
fn y_of(place: f64) -> i32 {
    let bottom = pixels(SIZE.1) - BELOW;
    bottom - (f64::from(bottom - TOP) * place).round() as i32
}

/// The places of rows on an axis. Rows with the same value are spread, the larger means above, so that all of them are
/// visible.
fn spread(axis: usize, scale: &AxisScale, rows: &[&Row]) -> Vec<Option<f64>> {
    let mut places: Vec<Option<f64>> = rows.iter().map(|row| scale.place(&row.values[axis])).collect();
    let mut groups: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (index, row) in rows.iter().enumerate() {
        groups.entry(row.values[axis].to_string()).or_default().push(index);
    }
    if 2 * groups.len() > rows.len() {
        return places;
    }
    let mut levels: Vec<f64> = groups.values().filter_map(|group| places[*group.first()?]).collect();
    levels.sort_by(f64::total_cmp);
    let gap = levels.windows(2).map(|two| two[1] - two[0]).fold(1.0, f64::min);
    for mut group in groups.into_values().filter(|group| group.len() > 1) {
        group.sort_by(|a, b| rows[*a].sample.mean.total_cmp(&rows[*b].sample.mean));
        let width = (gap * 0.4).min(0.006 * group.len() as f64).min(0.12);
        for (order, index) in group.iter().enumerate() {
            let offset = order as f64 / (group.len() - 1) as f64 - 0.5;
            places[*index] = places[*index].map(|place| place + width * offset);
        }
    }
    places
}

/// Five numbers of the scale, with their places.
fn ticks(low: f64, high: f64) -> impl Iterator<Item = (f64, f64)> {
    (0..5).map(move |index| {
        let place = 0.02 + 0.24 * f64::from(index);
        (low + (high - low) * place, place)
    })
}
