//! Effects: estimates with their intervals on horizontal lines, sorted by size.

use plotters::{
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};
use sweep_job::Unit;

use super::{
    Area, Canvas, Chart, Declaration, Drawn, Empty, FAINT, FONT, INK, Role, SIZE, Shows, pixels, range, tick, unit_text,
};
use crate::{
    format::{Scale, count, readable, shortened},
    stats::Estimate,
};

pub(super) const EFFECTS: Declaration = Declaration {
    word: "effects",
    doc: "Effects of factors on a metric, sorted by size: a dot for each effect, with its simultaneous 95 % confidence \
          interval. The dot is hollow if the interval contains zero or if there is none.",
    x: Some(Role::Metric),
    shows: Shows::Effects,
    labels: [true, false],
    ..Declaration::NOTHING
};

/// Maximum number of effects that are drawn.
const MAX_ROWS: usize = 22;
/// Maximum length of a label in characters, so that the plot has room.
const MAX_LABEL_LENGTH: usize = 36;

pub(super) fn draw<B: Canvas>(chart: &Chart<'_>, root: &Area<B>) -> Drawn {
    let ends = |estimate: &Estimate| {
        let ends = estimate.low.zip(estimate.high).filter(|_| chart.spec.band);
        ends.filter(|(low, high)| low.is_finite() && high.is_finite())
    };
    let mut rows: Vec<&(String, Estimate)> =
        chart.estimates.iter().filter(|(_, estimate)| estimate.value.is_finite()).collect();
    rows.sort_by(|(_, a), (_, b)| b.value.abs().total_cmp(&a.value.abs()));
    let hidden = rows.len().saturating_sub(MAX_ROWS);
    rows.truncate(MAX_ROWS);
    let bounds = rows.iter().flat_map(|(_, estimate)| {
        let (low, high) = ends(estimate).unwrap_or((estimate.value, estimate.value));
        [low, estimate.value, high]
    });
    let Some((low, high)) = range(bounds.chain([0.0]), false).filter(|_| !rows.is_empty()) else {
        return Ok(Err(Empty::NoValues));
    };
    let metric = chart.dots.iter().find_map(|dot| dot.metrics.get(&chart.spec.x));
    let unit = metric.map_or(Unit::One, |metric| metric.unit);
    let scale = Scale::of_metric(&chart.spec.x, low.abs().max(high.abs()), unit);

    let labels: Vec<String> = rows.iter().map(|(label, _)| shortened(label, MAX_LABEL_LENGTH)).collect();
    let longest = labels.iter().map(|label| label.chars().count()).max().unwrap_or(0);
    let left = 24 + 8 * u32::try_from(longest).unwrap_or(0);
    let mut builder = ChartBuilder::on(root);
    builder.margin(14).margin_right(28).x_label_area_size(48).y_label_area_size(left);
    builder.caption(chart.title, (FONT, 17).into_font().color(&INK));
    let mut plot = builder.build_cartesian_2d(low..high, 0.0..rows.len() as f64)?;
    // Plotters computes ticks by repeated addition, so the tick at zero has a rounding error.
    let x_text = |value: &f64| tick(if value.abs() < 1e-9 * (high - low) { 0.0 } else { *value }, scale);
    let mut mesh = plot.configure_mesh();
    mesh.disable_y_mesh().light_line_style(WHITE).bold_line_style(FAINT).axis_style(INK);
    mesh.x_labels(8)
        .x_label_formatter(&x_text)
        .y_labels(0)
        .x_desc(chart.x_label(&format!("Effect on {}", readable(&chart.spec.x)), unit_text(scale, unit)));
    mesh.label_style((FONT, 13).into_font().color(&INK)).draw()?;
    let height = rows.len() as f64;
    plot.draw_series(LineSeries::new([(0.0, 0.0), (0.0, height)], INK.stroke_width(1)))?;
    for (index, ((_, estimate), label)) in rows.iter().zip(labels).enumerate() {
        // The largest effect is at the top.
        let y = height - index as f64 - 0.5;
        let (edge, middle) = plot.backend_coord(&(low, y));
        let style = (FONT, 13).into_font().color(&INK).pos(Pos::new(HPos::Right, VPos::Center));
        root.draw(&Text::new(label, (edge - 8, middle), style))?;
        if let Some((from, to)) = ends(estimate) {
            let line = [plot.backend_coord(&(from, y)), plot.backend_coord(&(to, y))];
            root.draw(&PathElement::new(line, chart.color(0).stroke_width(2)))?;
            for (x, y) in line {
                root.draw(&PathElement::new([(x, y - 4), (x, y + 4)], chart.color(0).stroke_width(2)))?;
            }
        }
        let dot = plot.backend_coord(&(estimate.value, y));
        let interval = estimate.low.zip(estimate.high);
        let differs = interval.is_some_and(|(low, high)| low > 0.0 || high < 0.0);
        if differs {
            root.draw(&Circle::new(dot, 5, chart.color(0).filled()))?;
        } else {
            root.draw(&Circle::new(dot, 5, WHITE.filled()))?;
            root.draw(&Circle::new(dot, 5, chart.color(0).stroke_width(2)))?;
        }
    }
    if hidden > 0 {
        let style = (FONT, 12).into_font().color(&INK).pos(Pos::new(HPos::Right, VPos::Bottom));
        let at = (pixels(SIZE.0) - 14, pixels(SIZE.1) - 4);
        root.draw(&Text::new(format!("and {}", count(hidden, "smaller effect")), at, style))?;
    }
    Ok(Ok(()))
}
