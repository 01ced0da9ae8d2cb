//! `metrics`: properties of metrics that decisions use, and the rules of tables and claims for missing results and for
//! the conditions of times.

use serde_json::{Value as Json, json};
use sweep_job::{Metric, Precision, Unit, same_metric};

use super::{Lower, Step, analyses::CurveRead, search::Search, statistic::Statistic};
use crate::{
    recipe::{
        Recipe,
        keys::{Flag, Given, Mapping as _, Number, Text, Within, Word, mapping},
        node::{Node, NodeKind},
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
    /// The number of a curve that it is; `None` for a metric that jobs measure.
    pub read: Option<ReadOff>,
}

/// A metric that is read off a curve of each job, without a change of the jobs.
#[derive(Debug, Clone)]
pub struct ReadOff {
    /// The curve.
    pub curve: Spanned<String>,
    /// The number.
    pub number: CurveRead,
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
        /// The unit of the metric. Default: the unit that the metric's name or task implies, else the unit in which
        /// the metric is reported.
        ///
        /// Tables, figures and exports with this recipe show the metric in this unit, and numbers about the metric
        /// without a unit are in this unit. A number that is reported without a unit is also in this unit.
        unit: Word<Unit> = Word(Unit::WRITTEN),
        /// Computes the metric from a curve that each job records: the number of steps to a value, the mean height,
        /// or the value at a step.
        ///
        /// Tables, figures, claims and adaptive seeds use it like any other metric. It is computed from the records:
        /// no job runs again. A job whose curve has no such number lacks the metric (`missing`).
        read: Within<ReadKeys<'static>>,
    }
}

mapping! {
    /// The keys of a metric's `read`. Exactly one of `target`, `area` and `at` is given.
    struct ReadKeys = "read" {
        /// The curve: a series that the program reports at several steps, or a curve of the task.
        curve [required]: Text = Text::METRIC,
        /// The number of steps until the curve is at least as good as this value. The better direction is that of the curve.
        target: Number,
        /// The mean height of the curve up to this number of steps.
        area: Number,
        /// The value of the curve at this number of steps, interpolated linearly.
        at: Number,
    }
}

/// The schema of `metrics`.
pub(super) fn metrics_schema() -> Json {
    json!({ "type": "object", "additionalProperties": MetricKeys::schema() })
}

impl Lower<'_> {
    /// Reads `metrics: { accuracy: { better: max, resolution: 0.01 } }`.
    pub(super) fn metric_rules(&mut self, node: &Node, steps: &[Step]) -> Vec<MetricRule> {
        let mut rules: Vec<MetricRule> = Vec::new();
        for entry in self.entries(node, "`metrics`") {
            let name = &entry.key;
            let open = steps.is_empty() || steps.iter().any(|step| step.task.open_metrics);
            let is_read =
                matches!(&entry.value.kind, NodeKind::Map(keys) if keys.iter().any(|key| key.key.value == "read"));
            if !is_read && !open && !steps.iter().any(|step| step.task.metric(&name.value).is_some()) {
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
                let message = format!(
                    "`{}` is measured in {}, but `{}` is another kind of unit",
                    name.value,
                    words(declared),
                    unit.key()
                );
                self.problem(span, message, "another kind of unit", "write a unit of the same kind, or remove it");
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
            let read = keys.read.node().and_then(|node| self.read_off(node, name, steps));
            if let (Some(ReadOff { number: CurveRead::Target(_), .. }), Some(span)) = (&read, keys.unit.span()) {
                self.problem(span, "a number of steps has no unit", "has no effect", "remove `unit`");
            }
            rules.push(MetricRule { name: name.clone(), better: keys.better.value, precision, unit, read });
        }
        self.check_read(&rules, steps);
        self.derived = rules.iter().filter(|rule| rule.read.is_some()).map(|rule| rule.name.value.clone()).collect();
        rules
    }

    /// Reads `{ curve: loss, at: 500 }`.
    fn read_off(&mut self, node: &Node, name: &Spanned<String>, steps: &[Step]) -> Option<ReadOff> {
        let keys = ReadKeys::read(self, node, "`read`")?;
        let number = self.curve_read(node, "read", [&keys.target, &keys.area, &keys.at]);
        if self.is_missing(node, "curve", &keys.curve) {
            let help = "write `curve: NAME` with a series that the jobs record";
            self.problem(node.span, "`read` has no `curve`", "`curve` is missing", help);
        }
        let curve = keys.curve.spanned()?;
        if steps.iter().any(|step| step.task.metric(&name.value).is_some()) || same_metric(&name.value, &curve.value) {
            let message = format!("the jobs already measure `{}`", name.value);
            let help = format!("give the metric of the curve another name, for example `{}_read`", curve.value);
            self.problem(name.span, message, "already a metric", help);
            return None;
        }
        let is_recorded = |step: &Step| step.task.open_metrics || step.task.curves.contains(&curve.value.as_str());
        if !steps.is_empty() && !steps.iter().any(is_recorded) {
            let curves = steps.iter().flat_map(|step| step.task.curves).copied();
            let help = suggest(&curve.value, "curves", curves).unwrap_or_default();
            self.problem(curve.span, format!("no step records the curve `{}`", curve.value), "unknown curve", help);
        }
        Some(ReadOff { curve, number: number? })
    }

    /// Checks that numbers are read off curves of jobs whose better direction is known where it is needed, and that searches do not
    /// decide by them.
    fn check_read(&mut self, rules: &[MetricRule], steps: &[Step]) {
        let derived = |name: &str| rules.iter().find(|rule| rule.read.is_some() && rule.name.value == name);
        for ReadOff { curve, number } in rules.iter().filter_map(|rule| rule.read.as_ref()) {
            if derived(&curve.value).is_some() {
                let message = format!("`{}` is itself computed from a curve", curve.value);
                self.problem(curve.span, message, "no curve", "name a series that the jobs record");
            } else if let CurveRead::Target(_) = number
                && steps.iter().all(|step| traits_of(rules, step, &curve.value).better.is_none())
            {
                let message = format!("`{}` has no better direction, so it cannot have a target", curve.value);
                let help = format!("declare it: `metrics: {{ {}: {{ better: min }} }}`", curve.value);
                self.problem(curve.span, message, "no better direction", help);
            }
        }
        for by in steps.iter().filter_map(|step| step.search.as_ref()).flat_map(Search::decided_by) {
            if derived(&by.value).is_some() {
                let message = format!("a search cannot decide by `{}`, which is computed from a curve", by.value);
                self.problem(by.span, message, "not measured by the jobs", "name a metric that the jobs measure");
            }
        }
    }

    /// Checks that the worst value of a metric is known if missing results count as the worst.
    pub(super) fn check_worst(
        &mut self,
        missing: &Given<'_, Missing>,
        traits: impl Iterator<Item = (String, MetricTraits)>,
    ) {
        let (Some(Missing::Worst), Some(span)) = (missing.value, missing.span()) else { return };
        for (metric, _) in traits.filter(|(_, traits)| traits.better.is_none()) {
            let message = format!(
                "the worst value of `{metric}` is unknown, because the metric has no better \
                direction"
            );
            let help = format!("declare it: `metrics: {{ {metric}: {{ better: min }} }}`, or write `missing: ignore`");
            self.problem(span, message, "no worst value", help);
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
    let rule = rules.iter().find(|rule| same_metric(&rule.name.value, metric));
    if let Some((rule, read)) = rule.and_then(|rule| Some((rule, rule.read.as_ref()?))) {
        return traits_read(rules, step, (rule, read), reported);
    }
    let declared = step.task.metric(metric);
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

/// The properties of a number of a curve.
fn traits_read(
    rules: &[MetricRule],
    step: &Step,
    (rule, read): (&MetricRule, &ReadOff),
    reported: Option<Unit>,
) -> MetricTraits {
    let is_curve = |other: &&MetricRule| other.read.is_none();
    let of_jobs: Vec<MetricRule> = rules.iter().filter(is_curve).cloned().collect();
    let of_curve = traits_in(&of_jobs, step, &read.curve.value, reported);
    let precision = rule.precision.unwrap_or(Precision::Measured);
    match read.number {
        CurveRead::Target(_) => MetricTraits {
            unit: Unit::One,
            unit_of: UnitOf::Metric,
            better: rule.better.unwrap_or(Some(Better::Less)),
            precision,
            depends_on_load: false,
        },
        CurveRead::Area(_) | CurveRead::At(_) => {
            let (unit, unit_of) = rule.unit.map_or((of_curve.unit, of_curve.unit_of), |unit| (unit, UnitOf::Recipe));
            MetricTraits { unit, unit_of, better: rule.better.unwrap_or(of_curve.better), precision, ..of_curve }
        }
    }
}

impl Recipe {
    /// The metrics that are read off curves, by name.
    pub fn read_off(&self) -> impl Iterator<Item = (&str, &ReadOff)> {
        self.rules.iter().filter_map(|rule| Some((rule.name.value.as_str(), rule.read.as_ref()?)))
    }

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
