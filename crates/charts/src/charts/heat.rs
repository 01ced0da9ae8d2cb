//! Heat maps: a metric by two axes, as numbers on colored cells.

use plotters::{
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};
use sweep_job::{Unit, Value};

use super::{
    Area, Canvas, Chart, Declaration, Drawn, Empty, FONT, INK, ON_COLOR, Role, SIZE, heading, pixels, shades::shade,
};
use crate::format::{Scale, clean};

/// Margins above, below and beside the map, in pixels.
const TOP: i32 = 52;
const BELOW: i32 = 62;
const BESIDE: i32 = 120;

pub(super) const HEAT: Declaration = Declaration {
    word: "heat",
    doc: "A heat map of a metric by two axes, as numbers on colored cells.",
    x: Some(Role::Axis),
    y: Some(Role::Axis),
    value: Some(Role::Metric),
    labels: [true; 2],
    ..Declaration::NOTHING
};

pub(super) fn draw<B: Canvas>(chart: &Chart<'_>, root: &Area<B>) -> Drawn {
    let spec = chart.spec;
    let Some(metric) = &spec.value else { return Ok(Err(Empty::NoValues)) };
    let (mut columns, mut rows): (Vec<&Value>, Vec<&Value>) = (Vec::new(), Vec::new());
    let mut unit = Unit::One;
    let mut values: Vec<((usize, usize), (usize, f64))> = Vec::new();
    for dot in &chart.dots {
        let measured = dot.metrics.get(metric);
        let (Some(x), Some(y)) = (dot.x, dot.y) else { continue };
        let place = |known: &mut Vec<_>, value| {
            known.iter().position(|known| *known == value).unwrap_or_else(|| {
                known.push(value);
                known.len() - 1
            })
        };
        let (column, row) = (place(&mut columns, x), place(&mut rows, y));
        let Some(measured) = measured.filter(|measured| measured.value.is_finite()) else { continue };
        unit = measured.unit;
        values.push(((column, row), (dot.index, measured.value)));
    }
    let mut cells = Vec::new();
    for column in 0..columns.len() {
        for row in 0..rows.len() {
            let cell_values = values.iter().filter(|(at, _)| *at == (column, row)).map(|(_, value)| *value);
            cells.extend(chart.mean(&cell_values.collect::<Vec<_>>()).map(|cell| (column, row, cell.mean)));
        }
    }
    let ends = cells
        .iter()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), (.., mean)| (low.min(*mean), high.max(*mean)));
    if cells.is_empty() || !(ends.1 - ends.0).is_finite() {
        return Ok(Err(if cells.is_empty() { Empty::NoValues } else { Empty::Impossible }));
    }
    let scale = Scale::of_metric(metric, ends.0.abs().max(ends.1.abs()), unit);
    let (left, top) = (BESIDE, TOP);
    let (right, bottom) = (pixels(SIZE.0) - BESIDE, pixels(SIZE.1) - BELOW);
    let font = |size: u32| (FONT, size).into_font().color(&INK);
    let at = |h, v| Pos::new(h, v);
    root.draw(&Text::new(chart.title.to_owned(), (pixels(SIZE.0) / 2, 16), font(17).pos(at(HPos::Center, VPos::Top))))?;
    let x_at = |column: usize| left + (right - left) * pixels(column) / pixels(columns.len().max(1));
    let y_at = |row: usize| top + (bottom - top) * pixels(row) / pixels(rows.len().max(1));
    for (column, row, mean) in &cells {
        let share = if ends.1 > ends.0 { (mean - ends.0) / (ends.1 - ends.0) } else { 0.5 };
        let shade = shade(share);
        let (from, to) = ((x_at(*column), y_at(*row)), (x_at(column + 1), y_at(row + 1)));
        root.draw(&Rectangle::new([from, to], shade.filled()))?;
        root.draw(&Rectangle::new([from, to], WHITE.stroke_width(1)))?;
        let ink = if share > 0.6 { ON_COLOR } else { WHITE };
        let style = (FONT, 13).into_font().color(&ink).pos(at(HPos::Center, VPos::Center));
        root.draw(&Text::new(scale.show(*mean), (i32::midpoint(from.0, to.0), i32::midpoint(from.1, to.1)), style))?;
    }
    for (column, value) in columns.iter().enumerate() {
        let x = i32::midpoint(x_at(column), x_at(column + 1));
        root.draw(&Text::new(
            clean(&value.to_string()).into_owned(),
            (x, bottom + 6),
            font(13).pos(at(HPos::Center, VPos::Top)),
        ))?;
    }
    for (row, value) in rows.iter().enumerate() {
        let y = i32::midpoint(y_at(row), y_at(row + 1));
        root.draw(&Text::new(
            clean(&value.to_string()).into_owned(),
            (left - 8, y),
            font(13).pos(at(HPos::Right, VPos::Center)),
        ))?;
    }
    let below = (i32::midpoint(left, right), bottom + 34);
    root.draw(&Text::new(chart.x_label(&spec.x, ""), below, font(13).pos(at(HPos::Center, VPos::Top))))?;
    root.draw(&Text::new(chart.y_label(&spec.y, ""), (left - 8, top - 18), font(13).pos(at(HPos::Right, VPos::Top))))?;
    scale_of_colors(root, &heading(metric, scale, unit), ends, scale)?;
    Ok(Ok(()))
}

/// Draws the color scale to the right of the map.
fn scale_of_colors<B: Canvas>(
    root: &Area<B>,
    name: &str,
    ends: (f64, f64),
    scale: Scale,
) -> Result<(), Box<dyn std::error::Error>> {
    let font = |size: u32| (FONT, size).into_font().color(&INK);
    let (top, right, bottom) = (TOP, pixels(SIZE.0) - BESIDE, pixels(SIZE.1) - BELOW);
    let (from, to) = (right + 24, right + 40);
    for step in 0..64 {
        let y = |step: i32| bottom - (bottom - top) * step / 64;
        root.draw(&Rectangle::new([(from, y(step + 1)), (to, y(step))], shade(f64::from(step) / 63.0).filled()))?;
    }
    for (value, y, v) in [(ends.1, top, VPos::Top), (ends.0, bottom, VPos::Bottom)] {
        root.draw(&Text::new(scale.show(value), (to + 6, y), font(13).pos(Pos::new(HPos::Left, v))))?;
    }
    let place = (pixels(SIZE.0) - 14, top - 18);
    root.draw(&Text::new(name.to_owned(), place, font(13).pos(Pos::new(HPos::Right, VPos::Top))))?;
    Ok(())
}
