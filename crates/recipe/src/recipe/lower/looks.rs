//! The keys of a figure that decide its presentation.

use serde_json::{Value as Json, json};
use sweep_job::Value;

use super::Lower;
use crate::{
    charts::{Legend, Look, Palette, Side},
    recipe::{
        keys::{Given, Shape},
        node::{Node, NodeKind},
    },
};

/// The ends of an axis: `[LOW, HIGH]`, each of which may be `null`.
#[derive(Default)]
pub(in crate::recipe) struct Limits;

/// Keys of a figure about its presentation: of the x-axis and of the y-axis.
pub(super) struct LookKeys<'n> {
    pub(super) scales: [Given<'n, bool>; 2],
    pub(super) limits: [Given<'n, [Option<f64>; 2]>; 2],
    pub(super) labels: [Given<'n, String>; 2],
    pub(super) legend: Option<Legend>,
    pub(super) palette: Option<Palette>,
    pub(super) paper: Option<bool>,
}

impl Shape for Limits {
    type Value = [Option<f64>; 2];

    fn read(&self, lower: &mut Lower<'_>, node: &Node, key: &str) -> Option<[Option<f64>; 2]> {
        let help = format!("write both limits, for example `{key}: [0, 1]`, with `null` for the limit of the data");
        let end = |node: &Node| match &node.kind {
            NodeKind::Scalar(Value::Null) => Some(None),
            NodeKind::Scalar(value @ (Value::Int(_) | Value::Float(_))) => value.as_f64().map(Some),
            _ => None,
        };
        let ends: Option<Vec<Option<f64>>> = match &node.kind {
            NodeKind::List(items) if items.len() == 2 => items.iter().map(end).collect(),
            _ => None,
        };
        let Some(&[low, high]) = ends.as_deref() else {
            let message = format!("`{key}` must be a list of two numbers, found {}", node.describe());
            lower.problem(node.span, message, "not two limits", help);
            return None;
        };
        if let (Some(low), Some(high)) = (low, high)
            && low >= high
        {
            let message = format!("`{key}` must go from a smaller to a larger number, found {low} and {high}");
            lower.problem(node.span, message, "nothing between", help);
            return None;
        }
        Some([low, high])
    }

    fn schema(&self) -> Json {
        json!({ "type": "array", "minItems": 2, "maxItems": 2, "items": { "type": ["number", "null"] } })
    }

    fn accepts(&self) -> String {
        "`[LOW, HIGH]`, each a number or `null`".to_owned()
    }
}

impl Lower<'_> {
    /// Reads the presentation of a figure.
    pub(super) fn look(&mut self, keys: LookKeys<'_>) -> Look {
        let LookKeys { scales, limits, labels, legend, palette, paper } = keys;
        let [x_limits, y_limits] = limits;
        let [x_scale, y_scale] = scales;
        let [x_label, y_label] = labels;
        let mut side = |name: &str, scale: Given<'_, bool>, limits: Given<'_, [Option<f64>; 2]>, label| {
            let (log, span) = (scale.value, limits.span());
            let ends = limits.value.unwrap_or_default();
            if let (Some(true), Some(span)) = (log, span)
                && ends.iter().flatten().any(|end| *end <= 0.0)
            {
                let message = format!("`{name}lim` must be above zero on a logarithmic axis");
                self.problem(
                    span,
                    message,
                    "not above zero",
                    format!("write positive limits, or `{name}scale: linear`"),
                );
                return Side { log, limits: [None; 2], label };
            }
            Side { log, limits: ends, label }
        };
        let x = side("x", x_scale, x_limits, x_label.value);
        let y = side("y", y_scale, y_limits, y_label.value);
        Look { x, y, legend, palette: palette.unwrap_or_default(), paper: paper.unwrap_or_default() }
    }
}
