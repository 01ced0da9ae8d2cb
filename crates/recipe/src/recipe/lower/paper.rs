//! `paper`, `hardware` and `scale` of a table: the values of a paper, with their hardware and sizes.

use sweep_job::{
    Backend, Metric, Unit, Value,
    units::{parse_bytes, parse_quantity, parse_seconds},
};

use super::{Lower, claims::Context, least::Least, metrics::traits_of};
use crate::recipe::{
    Selection, Step,
    keys::Given,
    node::{Entry, Node, NodeKind},
    source::{Span, Spanned},
};

/// Values in a paper for some points.
#[derive(Debug, Clone)]
pub struct PaperRow {
    /// The points.
    pub only: Selection,
    /// Metric and value, in the metric's unit.
    pub metrics: Vec<(Spanned<String>, f64)>,
}

/// Backends and sizes.
#[derive(Debug, Clone, Default)]
pub struct Extent {
    /// The backends; any backend if empty.
    pub hardware: Vec<Backend>,
    /// The smallest sizes.
    pub scale: Vec<Least>,
}

impl Lower<'_> {
    /// Reads the backends and the sizes that a table is about.
    pub(super) fn extent(&mut self, hardware: &Given<'_, Vec<Backend>>, scale: &Given<'_, ()>, step: &Step) -> Extent {
        let scale = scale.node().map_or_else(Vec::new, |node| self.least(node, &[step]));
        Extent { hardware: hardware.value.clone().unwrap_or_default(), scale }
    }

    /// Reports backends and sizes of a table whose rows are comparisons.
    pub(super) fn no_extent(&mut self, keys: [(&str, Option<Span>); 2]) {
        let subject = "a table of differences, effects or aggregates";
        self.no_place(subject, "its rows are always compared", keys.into_iter());
    }

    /// Reads `[{ prune: none, loss: 3.1 }, …]`: the axes select points, the metrics are the paper's values there.
    pub(super) fn paper(
        &mut self,
        node: &Node,
        step: &Step,
        cells: &[Spanned<String>],
        Context { rules, params, .. }: &Context<'_>,
    ) -> Vec<PaperRow> {
        let NodeKind::List(items) = &node.kind else {
            let help = "write a list: `[{ axis: value, metric: number }, …]`";
            self.problem(node.span, format!("`paper` must be a list, found {}", node.describe()), "not a list", help);
            return Vec::new();
        };
        let axes = step.axes();
        let mut rows = Vec::new();
        for item in items {
            let entries = self.entries(item, "an entry of `paper`");
            let (point, metrics): (Vec<Entry>, Vec<Entry>) =
                entries.iter().cloned().partition(|entry| axes.contains(&entry.key.value.as_str()));
            let only: Selection = self.selection(&Node { kind: NodeKind::Map(point), span: item.span }, params);
            let mut values = Vec::new();
            for entry in metrics {
                self.check_cell(&entry.key, cells, "`paper`");
                let unit = traits_of(rules, step, &entry.key.value).unit;
                values.extend(self.measured(&entry.value, unit).map(|value| (entry.key, value)));
            }
            if values.is_empty() {
                let help = "add a metric and its value, for example `loss: 3.1`";
                self.problem(item.span, "this entry of `paper` has no value", "no value", help);
            }
            rows.push(PaperRow { only, metrics: values });
        }
        rows
    }

    /// Reads a number in the metric's unit, or with an explicit unit.
    fn measured(&mut self, node: &Node, unit: Unit) -> Option<f64> {
        let value = match &node.kind {
            NodeKind::Scalar(value @ (Value::Int(_) | Value::Float(_))) => value.as_f64(),
            NodeKind::Scalar(Value::Text(text)) => {
                let quantity = parse_quantity(text).ok().and_then(|(value, unit)| Some(Metric { value, unit: unit? }));
                quantity.and_then(|metric| metric.value_in(unit)).or_else(|| match unit.base() {
                    Unit::Bytes => Some(Unit::Bytes.convert(parse_bytes(text).ok()? as f64, unit)),
                    Unit::Seconds => Some(Unit::Seconds.convert(parse_seconds(text).ok()?, unit)),
                    _ => None,
                })
            }
            _ => None,
        };
        if value.is_none() {
            let help = match unit {
                Unit::Bytes => "write bytes, or a size with its unit, such as `4.3GiB`",
                Unit::Seconds => "write seconds, or a span of time with its unit, such as `250ms`",
                multiple if multiple != multiple.base() => {
                    "write a number in the unit of the metric, or one with its unit"
                }
                Unit::Fraction => "write a number from 0 to 1",
                Unit::FlopsPerSecond => "write operations per second, such as `4.9e13`",
                Unit::BytesPerSecond => "write bytes per second, such as `4.8e12`",
                _ => "write a number",
            };
            self.problem(node.span, format!("not a measured value: {}", node.describe()), "not a number", help);
        }
        value
    }
}
