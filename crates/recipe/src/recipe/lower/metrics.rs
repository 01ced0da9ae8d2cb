//! `metrics`: properties of metrics that decisions use, and the rules of tables and claims for missing results and for
//! the conditions of times.

use serde_json::{Value as Json, json};
use sweep_job::{Metric, Precision, Unit, same_metric};

use super::{Lower, Step, statistic::Statistic};
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
    /// The unit in which it is shown.
    pub unit: Option<Unit>,
}

/// Properties of a metric of a step, declared by its task or by the recipe.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MetricTraits {
    /// The unit of its values.
    pub unit: Unit,
    /// The declaration from which the unit follows.
    pub unit_of: UnitOf,
    /// The better direction, if one is.
    pub better: Option<Better>,
    /// The precision of its values.
    pub precision: Precision,
    /// True if it depends on what else the machine does: times, rates and utilizations.
    pub depends_on_load: bool,
}

/// Origin of a metric's unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnitOf {
    /// The recipe.
    Recipe,
    /// The task that declares the metric, or the metric's name.
    Metric,
    /// The reports of the jobs; a pure number before the first report.
    Reports,
}

impl MetricTraits {
    /// A measurement in the metric's unit; `None` if it measures something else.
    pub fn value(self, name: &str, metric: Metric) -> Option<f64> {
        match self.unit_of {
            UnitOf::Recipe => metric.value_as(name, self.unit),
            // A task has not always declared the unit that it declares now.
            UnitOf::Metric => metric.value_in(self.unit).or((metric.unit == Unit::One).then_some(metric.value)),
            UnitOf::Reports => metric.value_in(self.unit),
        }
    }

    /// True for a time or a rate that differs from run to run.
    pub fn is_timing(self) -> bool {
        self.unit.is_timing() && self.precision != Precision::Deterministic
    }
}

/// Rules of a table or a claim.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Rules {
    /// The treatment of missing results.
    pub missing: Missing,
    /// True if times and rates are compared whatever the conditions of their measurement.
    pub any_conditions: bool,
    /// True if the sides are compared as independent samples, although they could be paired.
    pub independent: bool,
    /// The number that stands for a sample.
    pub statistic: Statistic,
}

/// Treatment of missing results in a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Missing {
    /// The decision is not made.
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
        Self {
            missing: missing.value.unwrap_or_default(),
            any_conditions: conditions.value.unwrap_or_default(),
            ..Self::default()
        }
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
        /// The better direction. Default: `min` for losses, times and sizes, `max` for rates; by its name for a metric that a
        /// program reports (`val_loss`, `ppl`, `rmse`: `min`; `acc`, `test/f1`, `reward`: `max`); `none` for other metrics.
        better: Word<Option<Better>> = Word(Better::WORDS),
        /// The smallest difference between two values, for example `0.01` for the accuracy on 100 items.
        ///
        /// Values that are equal within their resolution are not certain: the resolution is part of their uncertainty.
        resolution: Number,
        /// True if a job always measures the same value. Equal values are certain then. Default: `true` for counts and
        /// for metrics that a task declares as deterministic, else `false`.
        deterministic: Flag,
        /// The unit of the metric. Default: the one that its name or its task says, or else the one in which it is reported.
        ///
        /// Tables, figures and exports with this recipe show the metric in this unit, and numbers about it that have no unit
        /// of their own are in it. A number that is reported without a unit is in this unit.
        unit: Word<Unit> = Word(Unit::WRITTEN),
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
                let names = steps.iter().flat_map(|step| step.task.metrics()).map(|metric| metric.name);
                let help = suggest(&name.value, "metrics", names).unwrap_or_default();
                self.problem(name.span, format!("no step measures `{}`", name.value), "unknown metric", help);
            }
            let Some(keys) = MetricKeys::read(self, &entry.value, "a metric") else { continue };
            let unit = keys.unit.value;
            let tasks = steps.iter().filter_map(|step| step.task.metric(&name.value));
            if let (Some(unit), Some(span)) = (unit, keys.unit.span())
                && let Some(declared) = tasks.map(|metric| metric.unit).find(|declared| !declared.is_like(unit))
            {
                let message =
                    format!("`{}` is measured in {}, which no `{}` is", name.value, words(declared), unit.key());
                self.problem(span, message, "a unit of something else", "write a unit of the same kind, or remove it");
            }
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
            rules.push(MetricRule { name: name.clone(), better: keys.better.value, precision, unit });
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

/// A unit in words, for a message.
pub(super) fn words(unit: Unit) -> String {
    match unit {
        Unit::One => "plain numbers".to_owned(),
        unit => format!("`{}`", unit.key()),
    }
}

/// The properties of a metric of a step.
pub(super) fn traits_of(rules: &[MetricRule], step: &Step, metric: &str) -> MetricTraits {
    traits_in(rules, step, metric, None)
}

/// The same for a metric that jobs have reported in a unit.
fn traits_in(rules: &[MetricRule], step: &Step, metric: &str, reported: Option<Unit>) -> MetricTraits {
    let declared = step.task.metric(metric);
    let rule = rules.iter().find(|rule| same_metric(&rule.name.value, metric));
    let known_unit = declared.map(|metric| metric.unit).or_else(|| Unit::implied(metric));
    let (unit, unit_of) = match (rule.and_then(|rule| rule.unit), known_unit) {
        (Some(unit), _) => (unit, UnitOf::Recipe),
        (None, Some(unit)) => (unit, UnitOf::Metric),
        (None, None) => (reported.unwrap_or(Unit::One), UnitOf::Reports),
    };
    // The resolution of a declared metric is in its own unit.
    let precision = declared.map(|metric| metric.precision.scaled(metric.unit.convert(1.0, unit)));
    let usual = || if declared.is_none() { Better::of_name(metric) } else { None };
    let traits = MetricTraits {
        unit,
        unit_of,
        better: rule.and_then(|rule| rule.better).unwrap_or_else(|| Better::of(unit).or_else(usual)),
        precision: rule.and_then(|rule| rule.precision).or(precision).unwrap_or(Precision::Measured),
        depends_on_load: false,
    };
    MetricTraits { depends_on_load: traits.is_timing() || metric.starts_with("utilization."), ..traits }
}

impl Recipe {
    /// The properties of a metric of a step.
    pub fn traits(&self, step: &Step, metric: &str) -> MetricTraits {
        traits_of(&self.rules, step, metric)
    }

    /// The same, of a metric that jobs have reported in a unit.
    pub fn traits_in(&self, step: &Step, metric: &str, reported: Option<Unit>) -> MetricTraits {
        traits_in(&self.rules, step, metric, reported)
    }

    /// Returns the better direction of a metric of a step, if it is known. A search that decides by a metric without a
    /// direction prefers smaller values, unless the search declares the direction.
    pub fn better(&self, step: &Step, metric: &str) -> Option<Better> {
        let declared = self.traits(step, metric).better;
        match step.search.as_ref().and_then(|search| search.metric()) {
            Some((by, direction)) if same_metric(by, metric) => direction.or(declared).or(Some(Better::Less)),
            _ => declared,
        }
    }
}
