//! The content of a chart as numbers, for the interactive figures of the page.

use std::collections::BTreeMap;

use plotters::prelude::RGBColor;
use serde::{Serialize, Serializer};
use sweep_job::Unit;

use super::{Chart, DASHES, Series, Spec, dots, lines as curves, look::Side, mean::Mean, trend};
use crate::format::Scale;

/// Points of a series that are kept.
const MAX_POINTS: usize = 1000;

/// The content of a chart.
#[derive(Debug, Serialize)]
pub struct Data {
    x: Scaled,
    y: Scaled,
    series: Vec<Line>,
}

/// An axis, in the unit of its label.
#[derive(Debug, Serialize)]
struct Scaled {
    label: String,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    log: bool,
    #[serde(skip_serializing_if = "is_free")]
    limits: [Option<f64>; 2],
    /// True if its marks are whole numbers.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    whole: bool,
    /// Places with texts, for an axis of words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    words: Vec<String>,
}

/// A series.
#[derive(Debug, Serialize)]
struct Line {
    name: String,
    color: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    dash: Option<(i32, i32)>,
    /// True for dots without a line.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    dots: bool,
    /// True for the curve of a stopped configuration.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    thin: bool,
    x: Vec<Short>,
    y: Vec<Short>,
    /// Half the width of the interval at each point; empty without intervals.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    half: Vec<Short>,
    /// The job of each dot.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    jobs: Vec<String>,
}

/// A number that is serialized with the few digits that a screen can show.
#[derive(Debug, Clone, Copy)]
struct Short(f64);

impl Serialize for Short {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        format!("{:.5e}", self.0).parse().unwrap_or(self.0).serialize(serializer)
    }
}

impl Data {
    /// Prefixes the names of points by `step`, as in lists of jobs: `train/lr=0.1`.
    pub fn of_step(mut self, step: &str) -> Self {
        for job in self.series.iter_mut().flat_map(|line| &mut line.jobs) {
            *job = if job.is_empty() { step.to_owned() } else { format!("{step}/{job}") };
        }
        self
    }
}

fn is_free(limits: &[Option<f64>; 2]) -> bool {
    limits == &[None, None]
}

/// The content of a line chart.
pub(super) fn lines(chart: &Chart<'_>) -> Option<Data> {
    if chart.spec.has_curves() { chart.curves() } else { chart.trends() }
}

/// The content of a scatter plot.
pub(super) fn points(chart: &Chart<'_>) -> Option<Data> {
    chart.points()
}

impl Chart<'_> {
    /// The content of a chart that is interactive on the page; `None` for the other kinds, and if there is nothing to draw.
    pub fn data(&self) -> Option<Data> {
        self.spec.kind.declaration().data?(self)
    }

    fn curves(&self) -> Option<Data> {
        let curves::Curves { series, ended, unit, .. } = curves::measured(self);
        let ends = ended.iter().flat_map(|(_, points)| points.iter().map(|(_, y)| *y));
        let scale = scale_of(&self.spec.y, means(&series).chain(ends), unit)?;
        let unit_scale = Scale { factor: 1.0, suffix: "" };
        let mut lines: Vec<Line> = (0..).zip(&series).map(|(index, series)| self.line(index, series, scale)).collect();
        lines.extend(ended.iter().map(|(index, points)| {
            let points = points.iter().map(|(x, y)| (*x, Mean::of_one(*y))).collect();
            let series = Series { name: String::new(), points, bars: BTreeMap::new() };
            Line { thin: true, ..self.line(*index, &series, scale) }
        }));
        let (x, y) = (&self.spec.look.x, &self.spec.look.y);
        let y_name = self.y_metric(scale, unit);
        let x = Scaled { whole: true, ..scaled(x, self.x_label("Iteration", ""), unit_scale) };
        Some(Data { x, y: scaled(y, y_name, scale), series: lines })
    }

    fn trends(&self) -> Option<Data> {
        let trend::Trend { axis, series, unit } = trend::measured(self).ok()?;
        let scale = scale_of(&self.spec.y, means(&series), unit)?;
        // Numbers are at their own places here, words at whole numbers.
        let back = |place: f64| axis.number_at(place);
        let series = series.into_iter().map(|series| {
            let points = series.points.into_iter().map(|(place, sample)| (back(place), sample)).collect();
            Series { points, ..series }
        });
        let series: Vec<Series> = series.collect();
        let lines = (0..).zip(&series).map(|(index, series)| self.line(index, series, scale)).collect();
        let (x, y) = (&self.spec.look.x, &self.spec.look.y);
        let unit_scale = Scale { factor: 1.0, suffix: "" };
        let x = scaled(x, self.x_label(&self.spec.x, ""), unit_scale);
        let x = Scaled { log: axis.is_log(), words: axis.words(), ..x };
        let y = scaled(y, self.y_metric(scale, unit), scale);
        Some(Data { x, y, series: lines })
    }

    fn points(&self) -> Option<Data> {
        let (series, units) = dots::measured(self);
        let xs = series.iter().flat_map(|series| series.points.iter().map(|(x, _)| *x));
        let Spec { x: x_metric, y: y_metric, .. } = self.spec;
        let x_scale = scale_of(x_metric, xs, units.0)?;
        let y_scale = scale_of(y_metric, means(&series), units.1)?;
        let jobs = self.by_color().into_iter().map(|(_, dots)| {
            let visible_dots = dots.iter().filter(|dot| dots::place(self.spec, dot).is_some());
            visible_dots.map(|dot| dot.name.clone()).collect::<Vec<String>>()
        });
        let lines = (0..).zip(series.iter().zip(jobs)).map(|(index, (series, jobs))| {
            let line = self.line(index, series, y_scale);
            let x = series.points.iter().map(|(x, _)| Short(x / x_scale.factor)).collect();
            let y = series.points.iter().map(|(_, sample)| Short(sample.mean / y_scale.factor)).collect();
            Line { dots: true, dash: None, x, y, half: Vec::new(), jobs, ..line }
        });
        let (x, y) = (&self.spec.look.x, &self.spec.look.y);
        Some(Data {
            x: scaled(x, self.x_metric(x_scale, units.0), x_scale),
            y: scaled(y, self.y_metric(y_scale, units.1), y_scale),
            series: lines.collect(),
        })
    }

    /// A series, thinned.
    fn line(&self, index: usize, series: &Series, scale: Scale) -> Line {
        let every = series.points.len().div_ceil(MAX_POINTS).max(1);
        let last = series.points.len().saturating_sub(1);
        let kept = || series.points.iter().enumerate().filter(|(place, _)| place % every == 0 || *place == last);
        let half: Vec<Short> = kept().map(|(_, (_, sample))| Short(self.half(sample) / scale.factor)).collect();
        let RGBColor(red, green, blue) = self.color(index);
        Line {
            name: series.name.clone(),
            color: format!("#{red:02x}{green:02x}{blue:02x}"),
            dash: DASHES[index % DASHES.len()],
            dots: false,
            thin: false,
            x: kept().map(|(_, (x, _))| Short(*x)).collect(),
            y: kept().map(|(_, (_, sample))| Short(sample.mean / scale.factor)).collect(),
            half: if half.iter().any(|half| half.0 > 0.0) { half } else { Vec::new() },
            jobs: Vec::new(),
        }
    }
}

fn means(series: &[Series]) -> impl Iterator<Item = f64> {
    series.iter().flat_map(|series| series.points.iter().map(|(_, sample)| sample.mean))
}

/// The scale that the label of an axis has; `None` without a finite number.
fn scale_of(metric: &str, values: impl Iterator<Item = f64>, unit: Unit) -> Option<Scale> {
    let largest = values.filter(|value| value.is_finite()).map(f64::abs).reduce(f64::max)?;
    Some(Scale::of_metric(metric, largest, unit))
}

fn scaled(side: &Side, label: String, scale: Scale) -> Scaled {
    let limits = side.limits.map(|end| end.map(|end| end / scale.factor));
    Scaled { label, log: side.log == Some(true), limits, whole: false, words: Vec::new() }
}
