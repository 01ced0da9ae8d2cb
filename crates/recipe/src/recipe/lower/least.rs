//! `scale` of a claim: the sizes from which it can be judged.

use serde_json::{Value as Json, json};
use sweep_job::{Kind, Value};

use super::Lower;
use crate::recipe::{
    Step,
    node::{Entry, Node, NodeKind},
    problem::suggest,
    schema::reference,
    source::Spanned,
};

/// The least value of a parameter, an axis or a metric with which a claim can be judged.
#[derive(Debug, Clone)]
pub struct Least {
    /// The parameter, the axis or the metric.
    pub name: Spanned<String>,
    /// The smallest number, or the only text.
    pub value: Value,
}

/// The schema of `scale`.
pub(super) fn schema() -> Json {
    let mut names = reference("name");
    // Metrics have names such as `loss.last`.
    names = json!({ "anyOf": [names, { "type": "string", "minLength": 1 }] });
    json!({
        "type": "object",
        "minProperties": 1,
        "propertyNames": names,
        "additionalProperties": { "type": ["number", "string"] },
    })
}

impl Lower<'_> {
    /// Reads the scale of a claim about these steps.
    pub(super) fn least(&mut self, node: &Node, steps: &[&Step]) -> Vec<Least> {
        let entries = self.entries(node, "`scale`");
        if entries.is_empty() && matches!(node.kind, NodeKind::Map(_)) {
            let help = "for example `scale: { d_model: 768 }`";
            self.problem(node.span, "`scale` has no entry", "no size", help);
        }
        entries.iter().filter_map(|entry| self.one_least(entry, steps)).collect()
    }

    fn one_least(&mut self, entry: &Entry, steps: &[&Step]) -> Option<Least> {
        let name = &entry.key;
        let value = self.literal(&entry.value)?;
        let is_text = match &value {
            Value::Text(_) => true,
            Value::Int(_) | Value::Float(_) => false,
            _ => {
                let message = format!("`{}` must be a number or a text, found {}", name.value, entry.value.describe());
                let help = "write the minimum number at which the claim can be judged, or the required text";
                self.problem(entry.value.span, message, "no size", help);
                return None;
            }
        };
        for step in steps {
            let param = step.task.params().find(|param| param.name == name.value);
            let is_axis = step.axes().contains(&name.value.as_str());
            let metric = step.task.metric(&name.value).is_some();
            let (of, must_be_text) = match (param.map(|param| param.kind), metric) {
                (Some(Kind::Int | Kind::Float), _) => ("parameter", Some(false)),
                (Some(Kind::Bool | Kind::Text | Kind::Choice(_) | Kind::Path(_) | Kind::Folder | Kind::Inside), _) => {
                    ("parameter", Some(true))
                }
                (Some(_), _) => ("parameter", None),
                (None, true) if !is_axis => ("metric", Some(false)),
                (None, _) if self.check_size(name, step) => continue,
                (None, _) => return None,
            };
            if must_be_text.is_some_and(|wanted| wanted != is_text) {
                let (is, help) = if is_text {
                    ("a number", "write the minimum number at which the claim can be judged")
                } else {
                    ("not a number", "write the required text")
                };
                let message = format!("{of} `{}` of task `{}` is {is}", name.value, step.task.name);
                self.problem(entry.value.span, message, "another kind of value", help);
                return None;
            }
        }
        Some(Least { name: name.clone(), value })
    }

    /// Checks that `name` is a parameter, an axis or a metric of the jobs of a step; false if it is none of these.
    pub(super) fn check_size(&mut self, name: &Spanned<String>, step: &Step) -> bool {
        let metrics = step.task.metrics().map(|metric| metric.name);
        let mut names: Vec<&str> = Vec::new();
        for known in step.task.params().map(|param| param.name).chain(step.axes()).chain(metrics) {
            if !names.contains(&known) {
                names.push(known);
            }
        }
        let is_known = names.contains(&name.value.as_str());
        if is_known || step.task.open_metrics || self.derived.contains(&name.value) {
            return true;
        }
        let help = suggest(&name.value, "its parameters, axes and metrics", names).unwrap_or_default();
        let (step, task) = (&step.name.value, step.task.name);
        let message = format!("step `{step}` (`{task}`) has no parameter, axis or metric `{}`", name.value);
        self.problem(name.span, message, "unknown size", help);
        false
    }
}
