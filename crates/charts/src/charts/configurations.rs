//! Configurations: the jobs of a step that differ in their seeds only, with the axes that distinguish them.

use std::collections::BTreeMap;

use plotters::{
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};
use sweep_base::SEED;
use sweep_job::{Unit, Value};

use super::{Area, Canvas, Chart, Dot, FONT, INK, Mean, SIZE, axis::AxisScale, pixels};
use crate::{format::count, stats::Better};

/// Text in place of the value on an axis that a configuration does not have.
const NONE: &str = "–";

/// The configurations of a chart.
#[derive(Debug)]
pub(super) struct Configurations<'a> {
    /// The axes that vary.
    pub(super) axes: Vec<(&'a str, AxisScale)>,
    pub(super) rows: Vec<Row>,
    /// The unit of the metric.
    pub(super) unit: Unit,
    /// The better direction of the metric, if it is known.
    pub(super) better: Option<Better>,
    /// Number of configurations without a finite value.
    pub(super) left_out: usize,
}

/// A configuration.
#[derive(Debug)]
pub(super) struct Row {
    /// Its values on the axes.
    pub(super) values: Vec<Value>,
    /// The value on the axis that determines the color.
    pub(super) color: String,
    /// The metric over its seeds.
    pub(super) sample: Mean,
}

/// The values of a configuration, its color, and its jobs with their results.
type Group = (Vec<Value>, String, Vec<(usize, f64)>);

impl<'a> Configurations<'a> {
    /// Groups the chart's jobs into configurations, with the finite values of `metric` over their seeds.
    pub(super) fn new(chart: &'a Chart<'_>, metric: &str) -> Self {
        let names: Vec<&str> = {
            let mut names: Vec<&str> = Vec::new();
            for (name, _) in chart.dots.iter().flat_map(|dot| &dot.axes) {
                if *name != SEED && !names.contains(name) {
                    names.push(name);
                }
            }
            names
        };
        let none = Value::Text(NONE.to_owned());
        let at = |dot: &'a Dot<'_>, name: &str| -> Option<&'a Value> {
            dot.axes.iter().find(|(axis, _)| *axis == name).map(|(_, value)| *value)
        };
        let mut unit = Unit::One;
        let mut groups: Vec<Group> = Vec::new();
        let mut indices: BTreeMap<String, usize> = BTreeMap::new();
        for dot in &chart.dots {
            let values: Vec<Value> = names.iter().map(|name| at(dot, name).unwrap_or(&none).clone()).collect();
            let key = serde_json::to_string(&values.iter().map(ToString::to_string).collect::<Vec<_>>());
            let index = *indices.entry(key.unwrap_or_default()).or_insert_with(|| {
                groups.push((values, dot.color.clone(), Vec::new()));
                groups.len() - 1
            });
            let Some(measured) = dot.metrics.get(metric).filter(|measured| measured.value.is_finite()) else {
                continue;
            };
            unit = measured.unit;
            groups[index].2.push((dot.index, measured.value));
        }
        let number = groups.len();
        let rows: Vec<Row> = groups
            .into_iter()
            .filter_map(|(values, color, numbers)| Some(Row { values, color, sample: chart.mean(&numbers)? }))
            // The sum of large values can overflow.
            .filter(|row| row.sample.mean.is_finite())
            .collect();
        let axes = names.iter().enumerate().map(|(index, name)| {
            let values: Vec<&Value> = rows.iter().map(|row| &row.values[index]).collect();
            let declared = chart.spec.scales.iter().find(|(axis, _)| axis == name).map(|(_, log)| *log);
            (*name, AxisScale::new(&values, declared))
        });
        let axes: Vec<(&str, Option<AxisScale>)> = axes.collect();
        let left_out = number - rows.len();
        // Axes with a single value do not distinguish configurations.
        let varies: Vec<bool> = axes.iter().map(|(_, span)| span.is_some()).collect();
        let rows = rows.into_iter().map(|row| {
            let values = row.values.into_iter().zip(&varies).filter(|(_, varies)| **varies);
            Row { values: values.map(|(value, _)| value).collect(), ..row }
        });
        let rows = rows.collect();
        let axes = axes.into_iter().filter_map(|(name, span)| Some((name, span?))).collect();
        Self { axes, rows, unit, better: chart.better, left_out }
    }

    /// The smallest and the largest mean; `None` without configurations, or if the difference overflows.
    pub(super) fn ends(&self) -> Option<(f64, f64)> {
        let means = self.rows.iter().map(|row| row.sample.mean);
        let ends = means.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), mean| (low.min(mean), high.max(mean)));
        (ends.1 - ends.0).is_finite().then_some(ends)
    }

    /// The rows in ascending order of quality, so that the best one is drawn on top. Without a better direction,
    /// smaller is better.
    pub(super) fn best_last(&self) -> Vec<&Row> {
        let mut rows: Vec<&Row> = self.rows.iter().collect();
        rows.sort_by(|a, b| match self.better {
            Some(Better::More) => a.sample.mean.total_cmp(&b.sample.mean),
            Some(Better::Less) | None => b.sample.mean.total_cmp(&a.sample.mean),
        });
        rows
    }

    /// Draws a line below the drawing with `more` and the number of configurations that were left out.
    pub(super) fn remark<B: Canvas>(
        &self,
        root: &Area<B>,
        more: Option<String>,
    ) -> Result<(), Box<dyn std::error::Error>> {
        let left_out = (self.left_out > 0)
            .then(|| format!("{} without a finite number left out", count(self.left_out, "configuration")));
        let remarks: Vec<String> = more.into_iter().chain(left_out).collect();
        if !remarks.is_empty() {
            let style = (FONT, 12).into_font().color(&INK).pos(Pos::new(HPos::Right, VPos::Bottom));
            root.draw(&Text::new(remarks.join("; "), (pixels(SIZE.0) - 14, pixels(SIZE.1) - 4), style))?;
        }
        Ok(())
    }
}
