//! Histograms: the distribution of a metric over jobs.

use std::collections::BTreeMap;

use plotters::prelude::*;
use sweep_job::Unit;

use super::{Area, Canvas, Chart, Declaration, Drawn, Empty, Mark, Role, Series, Ticks, builder, legend, mesh, range};
use crate::format::Scale;

pub(super) const HISTOGRAM: Declaration = Declaration {
    word: "histogram",
    doc: "A histogram of a metric over the jobs.",
    x: Some(Role::Metric),
    mark: Mark::Area,
    labels: [true; 2],
    narrow: true,
    ..Declaration::NOTHING
};

pub(super) fn draw<B: Canvas>(chart: &Chart<'_>, root: &Area<B>) -> Drawn {
    let spec = chart.spec;
    let mut unit = Unit::One;
    let groups: Vec<(String, Vec<f64>)> = chart
        .by_color()
        .into_iter()
        .map(|(name, dots)| {
            let metrics = dots.iter().filter_map(|dot| dot.metrics.get(&spec.x));
            let values = metrics.inspect(|metric| unit = metric.unit).map(|metric| metric.value).collect();
            (name, values)
        })
        .collect();
    let all_values = || groups.iter().flat_map(|(_, values)| values.iter().copied());
    let count = all_values().count();
    let Some((left, right)) = range(all_values(), false) else { return Ok(Err(Empty::NoValues)) };
    // The square-root rule for the number of bins.
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
    // Bars of all colors in a bin are stacked, so that none is hidden.
    let top = (0..bins).map(|bin| heights.iter().map(|bars| bars[bin]).sum::<u32>()).max().unwrap_or(1);
    let scale = Scale::of_metric(&spec.x, right.abs().max(left.abs()), unit);
    let mut plot = builder(root, chart, &series).build_cartesian_2d(left..right, 0.0..f64::from(top) * 1.06)?;
    let names = (chart.x_metric(scale, unit), chart.y_label("Jobs", ""));
    mesh(&mut plot, chart, names, Ticks { x: Some(scale), y: Scale { factor: 1.0, suffix: "" } })?;
    let mut below = vec![0_u32; bins];
    for (index, bars) in heights.iter().enumerate() {
        let color = chart.color(index);
        for (bin, height) in bars.iter().enumerate().filter(|(_, height)| **height > 0) {
            let (from, to) = (left + width * bin as f64, left + width * (bin + 1) as f64);
            let (low, high) = (f64::from(below[bin]), f64::from(below[bin] + height));
            plot.draw_series([
                Rectangle::new([(from, low), (to, high)], color.mix(0.85).filled()),
                Rectangle::new([(from, low), (to, high)], WHITE.stroke_width(1)),
            ])?;
            below[bin] += height;
        }
    }
    legend(root, chart, &series)?;
    Ok(Ok(()))
}
