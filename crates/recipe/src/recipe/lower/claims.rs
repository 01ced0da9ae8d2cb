//! `claims`: statements about metrics and their bounds.

use serde_json::{Value as Json, json};
use sweep_job::Backend;

use super::{Lower, find};
use super::{
    expect::{About, EXPECTS, USAGE, expect},
    family::{FAMILY, Family},
    law::{Law, LawKeys},
    least::{self, Least},
    metrics::{CONDITIONS, MetricRule, Missing, Rules, traits_of},
    statement::{Comparison, Measure, Order, Side, Statement},
    statistic::Statistic,
};
use crate::recipe::{
    Names, Selection, Step,
    keys::{Custom, Flag, Given, Mapping as _, Number, Text, Within, Word, Words, mapping},
    node::{Entry, Node, NodeKind},
    problem::suggest,
    schema::reference,
    source::Spanned,
};

/// A statement about metrics that a run supports, refutes or leaves undecided.
#[derive(Debug, Clone)]
pub struct Claim {
    /// The claim's name.
    pub name: Spanned<String>,
    /// The statement in words.
    pub says: Option<String>,
    /// The statement in numbers.
    pub statement: Statement,
    /// The value in the paper.
    pub paper: Option<f64>,
    /// The backends that it applies to; any backend if empty.
    pub hardware: Vec<Backend>,
    /// The sizes from which it can be judged.
    pub scale: Vec<Least>,
    /// True if it is true by construction.
    pub invariant: bool,
    /// Rules for missing results and conditions.
    pub rules: Rules,
}

mapping! {
    /// The keys of a claim.
    struct ClaimKeys = "claim" {
        /// The statement in words, for readers of the report.
        says: Text,
        /// Claims a mean of a metric.
        value: Within<ValueKeys<'static>>,
        /// Claims a ratio of a metric between two sets of points.
        ///
        /// It is the ratio of the geometric means.
        ratio: Within<ComparedKeys<'static>>,
        /// Claims a difference of a metric between two sets of points.
        difference: Within<ComparedKeys<'static>>,
        /// Claims the exponent of a power law of a metric over sizes, or that the law of the other sizes predicts one of them.
        law: Within<LawKeys<'static>>,
        /// Claims a ranking of an axis's values by a metric.
        order: Within<OrderKeys<'static>>,
        /// The expected range of the number. Not accepted with `order`.
        expect: Custom = Custom { schema: expect, accepts: EXPECTS },
        /// The treatment of jobs without a result. Default: `block`, which leaves the claim undecided.
        ///
        /// `worst` counts a missing result as the worst measured value of the claim's jobs; it requires a metric with
        /// a better direction. `ignore` leaves the missing result out, with its pair.
        missing: Word<Missing> = Word(Missing::WORDS),
        /// The required conditions of times and rates: measured under like conditions, or under any conditions.
        /// Default: `alike`.
        ///
        /// See [docs/statistics.md](statistics.md).
        conditions: Word<bool> = Word(CONDITIONS),
        /// Pairs points that agree on all axes except those that distinguish the sides. Default: `true`.
        ///
        /// `false` compares the means of independent samples (Welch), for seeds that do not give both sides the same
        /// data or initialization. Declare `pair` before the run: a choice made after the verdict is known counts as
        /// a further look at the data.
        pair: Flag,
        /// The statistic of a side, or of the differences of pairs: `mean`, `median`, `quantile` with `q`, `iqm` (the
        /// interquartile mean), or `failure_rate` (the fraction of jobs that failed or diverged). Default: `mean`.
        ///
        /// A median and a quantile have the interval of the sign test, which requires pairs, and six units for a
        /// median. An interquartile mean has Yuen's interval. Failure rates have exact intervals and tests, for pairs
        /// and for independent sides. Not accepted with `order` and `law`; `failure_rate` not with `ratio`.
        statistic: Word<Statistic> = Word(Statistic::WORDS),
        /// The fraction of the values below the quantile, for `statistic: quantile`, such as `0.9`.
        q: Number,
        /// The value in the paper, which is shown next to the measured one.
        paper: Number,
        /// The backends that the claim applies to. On other backends the claim is undecided.
        hardware: Words<Backend> = Words(BACKENDS),
        /// The minimum size at which the claim can be judged: parameters, axes or metrics of its jobs, each with its
        /// minimum number or its required text. At smaller sizes the claim is undecided.
        ///
        /// The text of a path is its last component. `n_layer`, `n_head`, `d_model` and `block_size` have the values
        /// that `model` implies, if the step does not set them.
        scale: Custom = Custom { schema: least::schema, accepts: "name to a number, or to a text" },
        /// True for a claim that is true by construction, such as a count, a size or an exact zero. Default: `false`.
        ///
        /// Such a claim holds or is broken. It counts neither among the supported, refuted and undecided claims nor
        /// in `family: holm`. A broken claim fails `--strict`.
        invariant: Flag,
    }
}

mapping! {
    /// The keys of a claim's `value`.
    struct ValueKeys = "value" {
        /// The metric.
        metric [required]: Text = Text::METRIC,
        /// The points: a step and values of its axes.
        of [required]: Custom = Custom::SIDE,
    }
}

mapping! {
    /// The keys of a claim's `ratio` and `difference`.
    struct ComparedKeys = "ratio" {
        /// The metric.
        metric [required]: Text = Text::METRIC,
        /// The points: a step and values of its axes.
        of [required]: Custom = Custom::SIDE,
        /// The points to compare them with.
        to [required]: Custom = Custom::SIDE,
    }
}

mapping! {
    /// The keys of a claim's `order`.
    struct OrderKeys = "order" {
        /// The metric.
        metric [required]: Text = Text::METRIC,
        /// The step.
        step [required]: Custom = Custom { schema: || reference("name"), accepts: "a name" },
        /// Selects the points that have these values.
        only = "where": Custom = Custom::SELECTION,
        /// The axis whose values are ranked.
        axis [required]: Text = Text::NAME,
        /// The values of the axis, in ascending order of the metric.
        ascending [required]: Custom = Custom {
            schema: || json!({ "type": "array", "minItems": 2, "items": reference("value") }),
            accepts: "a list of values",
        },
    }
}

/// The words of `hardware`.
pub(super) const BACKENDS: &[(&str, Backend)] =
    &[("cuda", Backend::Cuda), ("wgpu", Backend::Wgpu), ("cpu", Backend::Cpu)];

/// The schema of the constraint that a claim has exactly one statement, and `expect` unless it is an order.
pub(in crate::recipe) fn one_statement() -> Json {
    let expecting = ["value", "ratio", "difference", "law"].map(|word| json!({ "required": [word, "expect"] }));
    let order = json!({ "required": ["order"], "not": { "required": ["expect"] } });
    json!({ "type": "object", "oneOf": expecting.into_iter().chain([order]).collect::<Vec<_>>() })
}

/// The schema of one side of a comparison.
pub(in crate::recipe) fn side() -> Json {
    json!({
        "type": "object",
        "required": ["step"],
        "properties": { "step": reference("name") },
        "propertyNames": reference("name"),
        "additionalProperties": reference("value"),
    })
}

/// Context for reading claims.
pub(super) struct Context<'a> {
    pub(super) steps: &'a [Step],
    pub(super) rules: &'a [MetricRule],
    /// The names of all steps in the text, including those with mistakes.
    pub(super) written: &'a [String],
    pub(super) params: &'a Names,
}

impl Lower<'_> {
    /// Reads the claims, and the correction for their number.
    pub(super) fn claims(&mut self, node: &Node, context: &Context<'_>) -> (Vec<Claim>, Family) {
        let entries = self.entries(node, "`claims`");
        let (families, entries): (Vec<&Entry>, Vec<&Entry>) =
            entries.iter().partition(|entry| entry.key.value == FAMILY);
        let family = families.first().and_then(|entry| self.family(entry));
        let claims = entries.into_iter().filter_map(|entry| self.claim(entry, context)).collect();
        (claims, family.unwrap_or_default())
    }

    fn claim(&mut self, entry: &Entry, context: &Context<'_>) -> Option<Claim> {
        let name = &entry.key;
        self.check_name(name, "claim");
        let keys = ClaimKeys::read(self, &entry.value, "a claim")?;
        let statements = [
            ("value", &keys.value),
            ("ratio", &keys.ratio),
            ("difference", &keys.difference),
            ("law", &keys.law),
            ("order", &keys.order),
        ];
        let mut given: Vec<(&str, &Entry)> =
            statements.iter().filter_map(|(word, given)| Some((*word, given.entry?))).collect();
        given.sort_by_key(|(_, entry)| entry.key.span.start);
        let [(kind, statement)] = given.as_slice() else {
            let message = format!("claim `{}` must make exactly one statement", name.value);
            let help = format!("give it one of {}", statements.map(|(word, _)| format!("`{word}`")).join(", "));
            let span = given.get(1).map_or(name.span, |(_, entry)| entry.key.span);
            if !given.is_empty() || !statements.iter().any(|(word, _)| self.is_meant(&entry.value, word)) {
                self.problem(span, message, "not exactly one statement", help);
            }
            return None;
        };
        let statement = if *kind == "order" {
            if let Some(span) = keys.expect.span() {
                let help = "`order` is the expectation itself; remove `expect`";
                self.problem(span, "`order` needs no `expect`", "not here", help);
            }
            Statement::Order(self.order(&statement.value, context)?)
        } else {
            let (comparison, law) = match *kind {
                "law" => self.law(&statement.value, context).unzip(),
                _ => (self.comparison(&statement.value, kind, context), None),
            };
            let traits = comparison.as_ref().map(|comparison| {
                let metric = comparison.metric.value.as_str();
                (metric, traits_of(context.rules, &context.steps[comparison.of.step], metric))
            });
            let about = About { kind: law.as_ref().map_or(kind, Law::kind), metric: traits };
            let Some(expect) = keys.expect.node().map(|node| self.expectation(node, about)) else {
                let help = format!("add `expect`: {USAGE}");
                let message = format!("claim `{}` has no `expect`", name.value);
                if self.is_missing(&entry.value, "expect", &keys.expect) {
                    self.problem(name.span, message, "`expect` is missing", help);
                }
                return None;
            };
            let measure = match *kind {
                "law" => Measure::Law(law?),
                "value" => Measure::Value,
                "ratio" => Measure::Ratio,
                _ => Measure::Difference,
            };
            Statement::Number(comparison?, measure, expect?)
        };
        let statistic = self.check_statistic(kind, &keys.statistic, &keys.q, &keys.pair);
        let hardware = keys.hardware.value.unwrap_or_default();
        let rules = Rules {
            independent: keys.pair.value == Some(false),
            statistic,
            ..Rules::of(&keys.missing, &keys.conditions)
        };
        let mut claim = Claim {
            name: name.clone(),
            says: keys.says.value,
            statement,
            paper: keys.paper.value,
            hardware,
            scale: Vec::new(),
            invariant: keys.invariant.value.unwrap_or_default(),
            rules,
        };
        let sides = claim.selections();
        let steps: Vec<&Step> = sides.iter().map(|(step, _)| &context.steps[*step]).collect();
        claim.scale = keys.scale.node().map_or_else(Vec::new, |node| self.least(node, &steps));
        let traits =
            steps.into_iter().map(|step| (claim.metric().to_owned(), traits_of(context.rules, step, claim.metric())));
        self.check_worst(&keys.missing, traits);
        Some(claim)
    }

    /// Reads `{ metric, of, to }`; a value has no `to`.
    fn comparison(&mut self, node: &Node, kind: &str, context: &Context<'_>) -> Option<Comparison> {
        let name = format!("`{kind}`");
        let (metric, of, to) = if kind == "value" {
            let keys = ValueKeys::read(self, node, &name)?;
            (keys.metric, keys.of, None)
        } else {
            let keys = ComparedKeys::read(self, node, &name)?;
            (keys.metric, keys.of, Some(keys.to))
        };
        let mut side = |given: &Given<'_, ()>, key: &str| {
            let Some(node) = given.node() else {
                let help = format!("write `{key}: {{ step: NAME, axis: value }}`");
                self.problem(node.span, format!("`{kind}` lacks `{key}`"), "which jobs?", help);
                return None;
            };
            self.side(node, key, context)
        };
        let of = side(&of, "of");
        let to = to.map(|to| side(&to, "to"));
        let metric = self.metric(node, metric, kind);
        let (of, metric) = (of?, metric?);
        let to = match to {
            Some(to) => Some(to?),
            None => None,
        };
        for side in std::iter::once(&of).chain(&to) {
            self.check_metric(&metric, &context.steps[side.step]);
        }
        Some(Comparison { metric, of, to })
    }

    pub(super) fn metric(&mut self, node: &Node, metric: Given<'_, String>, kind: &str) -> Option<Spanned<String>> {
        if self.is_missing(node, "metric", &metric) {
            let help = "add a metric of the step, for example `metric: loss`";
            self.problem(node.span, format!("`{kind}` has no metric"), "no metric", help);
        }
        metric.spanned()
    }

    pub(super) fn check_metric(&mut self, metric: &Spanned<String>, step: &Step) {
        let is_known = step.task.open_metrics || self.derived.contains(&metric.value);
        if !is_known && step.task.metric(&metric.value).is_none() {
            let metrics = step.task.metrics().map(|metric| metric.name);
            let mut help = suggest(&metric.value, "metrics", metrics).unwrap_or_default();
            if help.ends_with(" more") {
                help.extend(["; `sweep tasks ", step.task.name, "` lists all"]);
            }
            let message = format!("task `{}` does not measure `{}`", step.task.name, metric.value);
            self.problem(metric.span, message, "unknown metric", help);
        }
    }

    /// Reads `{ step: train, prune: bitter7 }`: the points of a step that have these values.
    pub(super) fn side(&mut self, node: &Node, key: &str, context: &Context<'_>) -> Option<Side> {
        let entries = self.entries(node, &format!("`{key}`"));
        let step = self.claimed_step(node, find(entries, "step"), context)?;
        let entries: Vec<Entry> = entries.iter().filter(|entry| entry.key.value != "step").cloned().collect();
        let rest = Node { kind: NodeKind::Map(entries), span: node.span };
        let only = self.claimed_points(&rest, &context.steps[step], context.params);
        Some(Side { step, only, span: node.span })
    }

    fn claimed_step(&mut self, node: &Node, step: Option<&Node>, context: &Context<'_>) -> Option<usize> {
        let Some(step) = step else {
            self.problem(node.span, "this claim names no step", "`step` is missing", "add `step: NAME`");
            return None;
        };
        let name = self.text(step, "`step`")?;
        let index = context.steps.iter().position(|known| known.name.value == name);
        // A mistake in the step itself has already been reported.
        if index.is_none() && !context.written.contains(&name) {
            let help = suggest(&name, "steps", context.written.iter().map(String::as_str)).unwrap_or_default();
            self.problem(step.span, format!("unknown step `{name}`"), "no step has this name", help);
        }
        index
    }

    fn claimed_points(&mut self, node: &Node, step: &Step, params: &Names) -> Selection {
        let only = self.selection(node, params);
        let axes = step.axes();
        for (axis, _) in &only.0 {
            self.check_axis(axis, step, &axes);
        }
        only
    }

    /// Reads `{ metric, step, axis, ascending, where }`.
    fn order(&mut self, node: &Node, context: &Context<'_>) -> Option<Order> {
        let keys = OrderKeys::read(self, node, "`order`")?;
        let metric = self.metric(node, keys.metric, "order");
        let step = self.claimed_step(node, keys.step.node(), context);
        let Some(ascending) = keys.ascending.node() else {
            let help = "add `ascending:` with the axis's values, in ascending order of the metric";
            self.problem(node.span, "`order` has no `ascending`", "`ascending` is missing", help);
            return None;
        };
        if !keys.axis.is_there() {
            self.problem(node.span, "`order` has no axis", "`axis` is missing", "add `axis: NAME`");
        }
        let axis = keys.axis.spanned()?;
        let NodeKind::List(items) = &ascending.kind else {
            let message = format!("`ascending` must be a list, found {}", ascending.describe());
            self.problem(ascending.span, message, "not a list", "write the values in order: `[a, b, c]`");
            return None;
        };
        if items.len() < 2 {
            self.problem(ascending.span, "an order has at least two values", "too short", "add the others");
            return None;
        }
        let values = items.iter().filter_map(|item| self.value(item, context.params)).collect();
        let (metric, step) = (metric?, step?);
        let owner = &context.steps[step];
        self.check_metric(&metric, owner);
        self.check_axis(&axis, owner, &owner.axes());
        let only = keys.only.node().map(|node| self.claimed_points(node, owner, context.params));
        Some(Order { metric, step, axis, ascending: values, only: only.unwrap_or_default(), span: ascending.span })
    }
}
