//! Rooflines: the rates of jobs relative to the limits of a device, by operations per byte (Williams, Waterman and
//! Patterson 2009).

use std::collections::BTreeMap;

use plotters::{
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};
use sweep_job::Unit;

use super::{
    Area, Canvas, Chart, Declaration, Drawn, Empty, FAINT, FONT, INK, Mark, Role, Roof, Series, builder, legend,
    marker, mean::Mean,
};
use crate::format::{Scale, number, readable};

/// Intersection of the roofs, and their heights.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Heights {
    compute: Option<f64>,
    bandwidth: Option<f64>,
}

pub(super) const ROOFLINE: Declaration = Declaration {
    word: "roofline",
    doc: "A roofline: a rate against the operations per byte, on logarithmic scales, with the peak rates of the device.",
    x: Some(Role::Metric),
    y: Some(Role::Metric),
    roofs: true,
    mark: Mark::Dot,
    labels: [true; 2],
    ..Declaration::NOTHING
};

pub(super) fn draw<B: Canvas>(chart: &Chart<'_>, root: &Area<B>) -> Drawn {
    let spec = chart.spec;
    let height = |roof: &Option<Roof>| match roof.as_ref()? {
        Roof::Number(number) => Some(*number),
        Roof::Metric(name) => {
            let values = chart.dots.iter().filter_map(|dot| Some(dot.metrics.get(name)?.value));
            values.filter(|value| *value > 0.0).reduce(f64::max)
        }
    };
    let heights = Heights { compute: height(&spec.roofs.compute), bandwidth: height(&spec.roofs.bandwidth) };
    let mut series = Vec::new();
    let mut unit = Unit::FlopsPerSecond;
    for (name, dots) in chart.by_color() {
        let mut points = Vec::new();
        for dot in dots {
            let metric = |name: &str| dot.metrics.get(name).filter(|metric| metric.value > 0.0);
            let (Some(x), Some(y)) = (metric(&spec.x), metric(&spec.y)) else { continue };
            // A metric of a program has no unit; here it is a rate of operations.
            unit = if y.unit == Unit::One { Unit::FlopsPerSecond } else { y.unit };
            points.push((x.value, Mean::of_one(y.value)));
        }
        series.push(Series { name, points, bars: BTreeMap::new() });
    }
    let points = || series.iter().flat_map(|series| &series.points).map(|(x, sample)| (*x, sample.mean));
    let ridge = heights.compute.zip(heights.bandwidth).map(|(compute, bandwidth)| compute / bandwidth);
    let Some((left, right)) = decades(points().map(|(x, _)| x).chain(ridge)) else {
        return Ok(Err(Empty::NoValues));
    };
    let Some((bottom, top)) = decades(points().map(|(_, y)| y).chain(heights.compute)) else {
        return Ok(Err(Empty::NoValues));
    };

    let mut plot = builder(root, chart, &series)
        .y_label_area_size(104)
        .build_cartesian_2d(f64::from(left)..f64::from(right), f64::from(bottom)..f64::from(top))?;
    let x_text = |value: &f64| power(*value, Unit::One);
    let y_text = |value: &f64| power(*value, unit);
    let y_name = chart.y_label(&readable(&spec.y), "");
    let x_name = chart.x_label(&readable(&spec.x), "operations for each byte");
    let mut mesh = plot.configure_mesh();
    mesh.light_line_style(WHITE).bold_line_style(FAINT).axis_style(INK);
    mesh.x_label_formatter(&x_text).y_label_formatter(&y_text).x_desc(x_name).y_desc(y_name);
    mesh.x_labels(steps(left, right)).y_labels(steps(bottom, top));
    mesh.label_style((FONT, 13).into_font().color(&INK));
    mesh.draw()?;

    let line = heights.line([left, right].map(|end| 10_f64.powi(end)), [bottom, top].map(|end| 10_f64.powi(end)));
    let line: Vec<(f64, f64)> = line.into_iter().map(|(x, y)| (x.log10(), y.log10())).collect();
    plot.draw_series(LineSeries::new(line.iter().copied(), INK.stroke_width(2)))?;
    let style = |at| (FONT, 13).into_font().color(&INK).pos(at);
    if let (Some(compute), Some((x, y))) = (heights.compute, line.last()) {
        let (x, y) = plot.backend_coord(&(*x, *y));
        let name = format!("compute {}", shown(compute, unit));
        root.draw(&Text::new(name, (x - 6, y - 6), style(Pos::new(HPos::Right, VPos::Bottom))))?;
    }
    if let Some(bandwidth) = heights.bandwidth {
        // The middle of the visible part of the slope.
        let from = f64::from(left).max(f64::from(bottom) - bandwidth.log10());
        let to = f64::from(right).min(ridge.map_or(f64::from(top) - bandwidth.log10(), f64::log10));
        if from < to {
            let x = f64::midpoint(from, to);
            let (x, y) = plot.backend_coord(&(x, x + bandwidth.log10()));
            let name = format!("bandwidth {}", shown(bandwidth, Unit::BytesPerSecond));
            root.draw(&Text::new(name, (x + 10, y + 4), style(Pos::new(HPos::Left, VPos::Top))))?;
        }
    }
    for (index, series) in series.iter().enumerate() {
        for (x, sample) in &series.points {
            marker(root, chart, index, plot.backend_coord(&(x.log10(), sample.mean.log10())))?;
        }
    }
    legend(root, chart, &series)?;
    Ok(Ok(()))
}

impl Heights {
    /// The part of the roofline between two abscissas and two ordinates.
    fn line(self, [left, right]: [f64; 2], [bottom, top]: [f64; 2]) -> Vec<(f64, f64)> {
        let slope = |y: f64| self.bandwidth.map(|bandwidth| y / bandwidth);
        let left = slope(bottom).map_or(left, |least| left.max(least));
        let right = slope(top).filter(|_| self.compute.is_none()).map_or(right, |most| right.min(most));
        if left >= right {
            return Vec::new();
        }
        let reach = |x: f64| match (self.compute, self.bandwidth) {
            (Some(compute), Some(bandwidth)) => compute.min(bandwidth * x),
            (Some(compute), None) => compute,
            (None, Some(bandwidth)) => bandwidth * x,
            (None, None) => f64::NAN,
        };
        let ridge = self.compute.zip(self.bandwidth).map(|(compute, bandwidth)| compute / bandwidth);
        let xs = [Some(left), ridge.filter(|ridge| (left..right).contains(ridge)), Some(right)];
        xs.into_iter().flatten().map(|x| (x, reach(x))).filter(|(_, y)| y.is_finite()).collect()
    }
}

/// The powers of ten that enclose some numbers, at least one decade; `None` if there are no numbers.
fn decades(values: impl Iterator<Item = f64>) -> Option<(i32, i32)> {
    let values = values.filter(|value| value.is_finite() && *value > 0.0);
    let ends = values.fold(None, |ends: Option<(f64, f64)>, value| {
        let (low, high) = ends.unwrap_or((value, value));
        Some((low.min(value), high.max(value)))
    });
    let (low, high) = ends?;
    #[expect(clippy::cast_possible_truncation, reason = "the exponent of a finite number")]
    let (low, high) = ((low.log10() - 0.1).floor() as i32, (high.log10() + 0.2).ceil() as i32);
    Some((low, high.max(low + 1)))
}

/// The number of labels: at most one per decade.
fn steps(low: i32, high: i32) -> usize {
    usize::try_from(high - low + 1).unwrap_or(2).min(12)
}

/// The label of an integer power of ten: `10 GFLOP/s`.
fn power(exponent: f64, unit: Unit) -> String {
    if (exponent - exponent.round()).abs() > 1e-6 {
        return String::new();
    }
    #[expect(clippy::cast_possible_truncation, reason = "a whole number of decades")]
    let value = 10_f64.powi(exponent.round() as i32);
    let scale = Scale::of(value * 1.000_001, unit);
    let scaled = value / scale.factor;
    let text = if scaled >= 0.999 { number(scaled, 0) } else { scaled.to_string() };
    let unit = if scale.suffix.is_empty() { unit.symbol() } else { scale.suffix };
    format!("{text} {unit}").trim_end().to_owned()
}

fn shown(value: f64, unit: Unit) -> String {
    let scale = Scale::of(value, unit);
    let unit = if scale.suffix.is_empty() { unit.symbol() } else { scale.suffix };
    format!("{} {unit}", scale.show(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_roof_rises_with_the_bandwidth_and_ends_at_the_compute() {
        let both = Heights { compute: Some(100.0), bandwidth: Some(10.0) };
        let all = [1.0, 1000.0];
        assert_eq!(both.line([1.0, 100.0], all), [(1.0, 10.0), (10.0, 100.0), (100.0, 100.0)]);
        assert_eq!(both.line([20.0, 100.0], all), [(20.0, 100.0), (100.0, 100.0)], "the ridge is not in sight");
        let one = Heights { compute: None, bandwidth: Some(10.0) };
        assert_eq!(one.line([1.0, 2.0], all), [(1.0, 10.0), (2.0, 20.0)]);
        assert_eq!(
            one.line([1.0, 200.0], [50.0, 100.0]),
            [(5.0, 50.0), (10.0, 100.0)],
            "it is cut where the drawing ends"
        );
        assert_eq!(Heights { compute: None, bandwidth: None }.line([1.0, 2.0], all), []);
    }

    #[test]
    fn ranges_are_whole_decades() {
        assert_eq!(decades([3.0, 400.0].into_iter()), Some((0, 3)));
        assert_eq!(decades([50.0].into_iter()), Some((1, 2)));
        assert_eq!(decades([0.0, -1.0, f64::NAN].into_iter()), None);
        assert_eq!(power(1.5, Unit::One), "");
        assert_eq!(power(2.0, Unit::One), "100");
    }
}
