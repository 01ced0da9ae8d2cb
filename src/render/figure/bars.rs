//! Bars: a metric by an axis, or the distribution of a metric over jobs.

use std::collections::BTreeMap;

use plotters::{
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};
use sweep_job::{Unit, Value};

use super::{
    Area, COLORS, Canvas, Dot, Drawn, FONT, INK, Series, Ticks, builder, by_color, half, heading, legend, mesh, range,
};
use crate::{
    analysis::Sample,
    format::{Scale, clean},
    recipe,
};

pub(super) fn draw<B: Canvas>(figure: &recipe::Figure, title: &str, dots: &[Dot<'_>], root: &Area<B>) -> Drawn {
    let mut groups: Vec<&Value> = Vec::new();
    let mut unit = Unit::One;
    let mut series = Vec::new();
    for (name, dots) in by_color(figure, dots) {
        let mut values: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
        for dot in dots {
            let metric = dot.measured.metrics.get(&figure.y.value);
            let (Some(metric), Some(group)) = (metric, dot.point.get(&figure.x.value)) else { continue };
            unit = metric.unit;
            let index = groups.iter().position(|known| *known == group).unwrap_or_else(|| {
                groups.push(group);
                groups.len() - 1
            });
            values.entry(index).or_default().push(metric.value);
        }
        let bars = values.iter().filter_map(|(group, values)| Some((*group, Sample::new(values)?))).collect();
        series.push(Series { name, points: Vec::new(), bars });
    }
    let half = |sample: &Sample| half(figure, sample);
    let ends = series
        .iter()
        .flat_map(|series| series.bars.values())
        .flat_map(|sample| [sample.mean - half(sample), sample.mean + half(sample)]);
    let ends: Vec<f64> = ends.collect();
    if ends.is_empty() {
        return Ok(false);
    }
    // A bar begins at zero, or its length means nothing.
    let Some((bottom, top)) = range(ends.into_iter().chain([0.0]), true) else { return Ok(false) };
    let scale = Scale::of(top.abs().max(bottom.abs()), unit);

    let mut chart = builder(root, title, &series).build_cartesian_2d(0.0..groups.len() as f64, bottom..top)?;
    let y_name = heading(&figure.y.value, scale, unit);
    mesh(&mut chart, &clean(&figure.x.value), &y_name, Ticks { x: None, y: scale })?;
    for (index, group) in groups.iter().enumerate() {
        let (x, y) = chart.backend_coord(&(index as f64 + 0.5, bottom));
        let style = (FONT, 13).into_font().color(&INK).pos(Pos::new(HPos::Center, VPos::Top));
        root.draw(&Text::new(clean(&group.to_string()).into_owned(), (x, y + 6), style))?;
    }
    // The bars of a group share three quarters of its room.
    let width = 0.75 / series.len() as f64;
    for (index, series) in series.iter().enumerate() {
        let color = COLORS[index % COLORS.len()];
        let left = |group: usize| group as f64 + 0.125 + width * index as f64;
        chart.draw_series(series.bars.iter().map(|(group, sample)| {
            let (left, right) = (left(*group) + 0.06 * width, left(*group) + 0.94 * width);
            Rectangle::new([(left, 0.0), (right, sample.mean)], color.mix(0.85).filled())
        }))?;
        chart.draw_series(series.bars.iter().filter(|(_, sample)| half(sample) > 0.0).map(|(group, sample)| {
            let (x, half) = (left(*group) + width / 2.0, half(sample));
            let (low, high) = (sample.mean - half, sample.mean + half);
            ErrorBar::new_vertical(x, low, sample.mean, high, INK.stroke_width(1), 8)
        }))?;
    }
    legend(root, figure.kind, &series)?;
    Ok(true)
}

/// Distribution of a metric over jobs.
pub(super) fn histogram<B: Canvas>(figure: &recipe::Figure, title: &str, dots: &[Dot<'_>], root: &Area<B>) -> Drawn {
    let mut unit = Unit::One;
    let groups: Vec<(String, Vec<f64>)> = by_color(figure, dots)
        .into_iter()
        .map(|(name, dots)| {
            let metrics = dots.iter().filter_map(|dot| dot.measured.metrics.get(&figure.x.value));
            let values = metrics.inspect(|metric| unit = metric.unit).map(|metric| metric.value).collect();
            (name, values)
        })
        .collect();
    let all = || groups.iter().flat_map(|(_, values)| values.iter().copied());
    let count = all().count();
    let Some((left, right)) = range(all(), false) else { return Ok(false) };
    // The square root of how many there are is as good a number of bins as any that needs no more thought.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 1 to 40")]
    let bins = (count as f64).sqrt().ceil().clamp(1.0, 40.0) as usize;
    let width = (right - left) / bins as f64;
    let mut series = Vec::new();
    let mut heights: Vec<Vec<u32>> = Vec::new();
    for (name, values) in groups {
        let mut bars = vec![0; bins];
        for value in values {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to the last bin")]
            let bin = (((value - left) / width) as usize).min(bins - 1);
            bars[bin] += 1;
        }
        heights.push(bars);
        series.push(Series { name, points: Vec::new(), bars: BTreeMap::new() });
    }
    // What has the same place stands upon each other, so that nothing is hidden.
    let top = (0..bins).map(|bin| heights.iter().map(|bars| bars[bin]).sum::<u32>()).max().unwrap_or(1);
    let scale = Scale::of(right.abs().max(left.abs()), unit);
    let mut chart = builder(root, title, &series).build_cartesian_2d(left..right, 0.0..f64::from(top) * 1.06)?;
    let x_name = heading(&figure.x.value, scale, unit);
    mesh(&mut chart, &x_name, "jobs", Ticks { x: Some(scale), y: Scale { factor: 1.0, suffix: "" } })?;
    let mut below = vec![0_u32; bins];
    for (index, bars) in heights.iter().enumerate() {
        let color = COLORS[index % COLORS.len()];
        for (bin, height) in bars.iter().enumerate().filter(|(_, height)| **height > 0) {
            let (from, to) = (left + width * bin as f64, left + width * (bin + 1) as f64);
            let (low, high) = (f64::from(below[bin]), f64::from(below[bin] + height));
            chart.draw_series([
                Rectangle::new([(from, low), (to, high)], color.mix(0.85).filled()),
                Rectangle::new([(from, low), (to, high)], WHITE.stroke_width(1)),
            ])?;
            below[bin] += height;
        }
    }
    legend(root, figure.kind, &series)?;
    Ok(true)
}
