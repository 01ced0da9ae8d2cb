//! `metrics`: properties of metrics that decisions use, and the rules of tables and claims for missing results and for
//! the conditions of times.

use serde_json::{Value as Json, json};
use sweep_job::{Precision, Unit, same_metric};

use super::{Lower, Step};
use crate::{
    recipe::{
        Recipe,
        keys::{Flag, Given, Mapping as _, Number, Word, mapping},
        node::Node,
        problem::suggest,
        source::Spanned,
    },
    stats::Better,
};

/// Properties of a metric that a recipe declares.
#[derive(Debug, Clone)]
pub struct MetricRule {
    /// The metric.
    pub name: Spanned<String>,
    /// The better direction; `Some(None)` if neither is better.
    pub better: Option<Option<Better>>,
    /// Its precision.
    pub precision: Option<Precision>,
}

/// Properties of a metric of a step, declared by its task or by the recipe.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MetricTraits {
    /// The base unit.
    pub unit: Unit,
    /// The better direction, if one is.
    pub better: Option<Better>,
    /// The precision of its values.
    pub precision: Precision,
    /// True if it depends on what else the machine does: times, rates and utilizations.
    pub depends_on_load: bool,
}

/// Rules of a table or a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rules {
    /// The treatment of missing results.
    pub missing: Missing,
    /// True if times and rates are compared whatever the conditions of their measurement.
    pub any_conditions: bool,
}

/// Treatment of missing results in a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Missing {
    /// Nothing is decided.
    #[default]
    Block,
    /// A missing result counts as the worst measured one.
    Worst,
    /// A missing result is left out.
    Ignore,
}

impl Rules {
    /// The rules that a table or a claim gives.
    pub(super) fn of(missing: &Given<'_, Missing>, conditions: &Given<'_, bool>) -> Self {
        Self { missing: missing.value.unwrap_or_default(), any_conditions: conditions.value.unwrap_or_default() }
    }
}

impl Missing {
    /// The words in recipes.
    pub(super) const WORDS: &'static [(&'static str, Self)] =
        &[("block", Self::Block), ("worst", Self::Worst), ("ignore", Self::Ignore)];
}

/// The words of `conditions`, each with the meaning of [`Rules::any_conditions`].
pub(super) const CONDITIONS: &[(&str, bool)] = &[("alike", false), ("any", true)];

mapping! {
    /// The keys of a metric in `metrics`.
    struct MetricKeys = "metric" {
        /// The better direction. Default: `min` for losses, times and sizes, `max` for rates, `none` for other metrics.
        better: Word<Option<Better>> = Word(Better::WORDS),
        /// The smallest difference between two values, for example `0.01` for the accuracy on 100 items.
        ///
        /// Values that are equal within their resolution are not certain: the resolution is part of their uncertainty.
        resolution: Number,
        /// True if a job always measures the same value. Equal values are certain then. Default: `true` for counts and
        /// for metrics that a task declares as deterministic, else `false`.
        deterministic: Flag,
    }
}

/// The schema of `metrics`.
pub(super) fn metrics_schema() -> Json {
    json!({ "type": "object", "additionalProperties": MetricKeys::schema() })
}

impl Lower<'_> {
    /// Reads `metrics: { accuracy: { better: max, resolution: 0.01 } }`.
    pub(super) fn metric_rules(&mut self, node: &Node, steps: &[Step]) -> Vec<MetricRule> {
        let mut rules = Vec::new();
        for entry in self.entries(node, "`metrics`") {
            let name = &entry.key;
            let open = steps.is_empty() || steps.iter().any(|step| step.task.open_metrics);
            if !open && !steps.iter().any(|step| step.task.metric(&name.value).is_some()) {
                let known = steps.iter().flat_map(|step| step.task.metrics()).map(|metric| metric.name);
                let help = suggest(&name.value, "metrics", known).unwrap_or_default();
                self.problem(name.span, format!("no step measures `{}`", name.value), "unknown metric", help);
            }
            let Some(keys) = MetricKeys::read(self, &entry.value, "a metric") else { continue };
            let help = "write the smallest difference between two values, for example `0.01`";
            let resolution = self.positive(&keys.resolution, "resolution", "not a resolution", help);
            if let (Some(span), Some(true)) = (keys.resolution.span(), keys.deterministic.value) {
                let help = "remove `resolution`, or `deterministic`";
                self.problem(span, "a deterministic metric has no uncertainty", "has no effect", help);
            }
            let precision = match (resolution, keys.deterministic.value) {
                (Some(resolution), _) => Some(Precision::Resolution(resolution)),
                (None, Some(true)) => Some(Precision::Deterministic),
                (None, Some(false)) => Some(Precision::Measured),
                (None, None) => None,
            };
            rules.push(MetricRule { name: name.clone(), better: keys.better.value, precision });
        }
        rules
    }

    /// Checks that the worst value of a metric is known if missing results count as the worst.
    pub(super) fn check_worst(
        &mut self,
        missing: &Given<'_, Missing>,
        traits: impl Iterator<Item = (String, MetricTraits)>,
    ) {
        let (Some(Missing::Worst), Some(span)) = (missing.value, missing.span()) else { return };
        for (metric, _) in traits.filter(|(_, traits)| traits.better.is_none()) {
            let message = format!("the worst value of `{metric}` is unknown, because neither direction is better");
            let help = format!("declare it: `metrics: {{ {metric}: {{ better: min }} }}`, or write `missing: ignore`");
            self.problem(span, message, "which one is the worst?", help);
        }
    }
}

/// The properties of a metric of a step.
pub(super) fn traits_of(rules: &[MetricRule], step: &Step, metric: &str) -> MetricTraits {
    let declared = step.task.metric(metric);
    let unit = declared.map_or(Unit::One, |metric| metric.unit);
    let rule = rules.iter().find(|rule| same_metric(&rule.name.value, metric));
    MetricTraits {
        unit,
        better: rule.and_then(|rule| rule.better).unwrap_or_else(|| Better::of(unit)),
        precision: rule
            .and_then(|rule| rule.precision)
            .or_else(|| declared.map(|metric| metric.precision))
            .unwrap_or(Precision::Measured),
        depends_on_load: unit.is_timing() || metric.starts_with("utilization."),
    }
}

impl Recipe {
    /// The properties of a metric of a step.
    pub fn traits(&self, step: &Step, metric: &str) -> MetricTraits {
        traits_of(&self.rules, step, metric)
    }

    /// The better direction of a metric of a step, if one is known. A search that decides by a metric without one prefers
    /// smaller values, unless it says otherwise.
    pub fn better(&self, step: &Step, metric: &str) -> Option<Better> {
        let declared = self.traits(step, metric).better;
        match step.search.as_ref().and_then(|search| search.metric()) {
            Some((by, said)) if same_metric(by, metric) => said.or(declared).or(Some(Better::Less)),
            _ => declared,
        }
    }
}
