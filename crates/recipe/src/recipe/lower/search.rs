//! `search`: the next jobs of a step depend on its results.

use serde_json::{Value as Json, json};
use sweep_job::{Kind as ParamKind, Value};

use super::{
    Lower,
    confirm::{Confirm, ConfirmKeys},
    metrics::{MetricRule, traits_of},
    suggest::{Suggest, SuggestKeys},
};
use crate::{
    charts::Kind,
    decide::Fraction,
    recipe::{
        Axis, AxisValues, Claim, Dimension, Figure, Names, Progression, Selection, Statement, Step, Table, TableKind,
        Template,
        keys::{Custom, Mapping as _, Shape, Text, Texts, Whole, Within, Word, mapping},
        node::{Node, NodeKind},
        schema::reference,
        source::{Span, Spanned},
    },
    stats::Better,
};

/// Decisions about what a step runs.
#[derive(Debug, Clone)]
pub struct Search {
    /// Successive halving.
    pub rungs: Option<Rungs>,
    /// A race over seeds.
    pub racing: Option<Racing>,
    /// A search by a sampler.
    pub suggest: Option<Suggest>,
    /// A confirmation of the best configurations.
    pub confirm: Option<Confirm>,
    /// The place in the text.
    pub span: Span,
}

/// Successive halving: all configurations are trained for a few steps, and the best part continues.
#[derive(Debug, Clone)]
pub struct Rungs {
    /// The axis whose values are the rungs.
    pub axis: String,
    /// True if a rung continues the training of the one below.
    pub continues: bool,
    /// The rungs, in ascending order; at least two.
    pub at: Vec<u64>,
    /// The part that continues from each rung.
    pub keep: Fraction,
    /// The metric that decides.
    pub by: Spanned<String>,
    /// The axes whose values are averaged.
    pub over: Vec<Spanned<String>>,
    /// The explicit better direction.
    pub direction: Option<Better>,
    /// Number of virtual workers of an asynchronous search.
    pub workers: Option<usize>,
    /// The place of the rungs in the text.
    pub span: Span,
}

/// A race: configurations get seed after seed until they are worse than the best one or a baseline.
#[derive(Debug, Clone)]
pub struct Racing {
    /// The metric that decides.
    pub by: Spanned<String>,
    /// The explicit better direction.
    pub direction: Option<Better>,
    /// The configuration with which the others are compared; `None` for the best so far.
    pub against: Option<Selection>,
    /// Number of seeds before the first look.
    pub least: usize,
    /// The place in the text.
    pub span: Span,
}

mapping! {
    /// The keys of `search`.
    struct SearchKeys = "search" {
        /// Successive halving: every configuration is trained for a short time, and the best fraction continues.
        ///
        /// See [rungs](#rungs).
        rungs: Within<RungKeys<'static>>,
        /// A race over seeds: a configuration gets no further seeds once it is worse than the best configuration or a
        /// baseline.
        ///
        /// Not together with `rungs`. See [racing](#racing).
        racing: Within<RacingKeys<'static>>,
        /// A search by a sampler, which chooses the points of the step from the results so far.
        ///
        /// See [suggest](#suggest).
        suggest: Within<SuggestKeys<'static>>,
        /// Repeats the best configurations with seeds that the search has not used, in a step `NAME-confirmed`.
        ///
        /// Claims about a search belong to that step. See [confirm](#confirm).
        confirm: Within<ConfirmKeys<'static>>,
    }
}

mapping! {
    /// The keys of `rungs`.
    struct RungKeys = "rungs" {
        /// The parameter whose values are the rungs.
        ///
        /// With `iters`, for a task that can stop early, the axis is `until`: a rung continues the training of the one
        /// below, and `iters` in `with` remains the length of the schedule. Any other name is an axis with the values of
        /// `at`, and each rung has jobs of its own.
        of [required]: Text = Text::NAME,
        /// The rungs: at least two integers, in ascending order.
        at [required]: Custom = Custom {
            schema: || json!({ "type": "array", "minItems": 2, "uniqueItems": true, "items": reference("number") }),
            accepts: "a list of integers",
        },
        /// The fraction of the configurations that continue from each rung. Their number is rounded down, and is at
        /// least one.
        keep [required]: Part,
        /// The metric that decides.
        by [required]: Text = Text::METRIC,
        /// The axes whose values are averaged. Default: `seed`, if the step has seeds.
        over: Texts = Texts::NAMES,
        /// The better direction. Default: the direction of the metric, or `min` for a metric without a direction.
        direction: Word<Better> = Word(DIRECTIONS),
        /// Lets a configuration continue before all others have reached its rung.
        asynchronous: Within<AsynchronousKeys<'static>>,
    }
}

mapping! {
    /// The keys of `asynchronous`.
    struct AsynchronousKeys = "asynchronous" {
        /// The number of virtual workers, on which the decisions depend. The decisions do not depend on the actual
        /// number of jobs at once, which `--jobs` and the machine limit.
        workers [required]: Whole = Whole { range: 1..=10_000, of: "workers" },
    }
}

mapping! {
    /// The keys of `racing`.
    struct RacingKeys = "racing" {
        /// The metric that decides.
        by [required]: Text = Text::METRIC,
        /// The better direction. Default: the direction of the metric, or `min` for a metric without a direction.
        direction: Word<Better> = Word(DIRECTIONS),
        /// The configuration with which all others are compared: values of axes that select exactly one
        /// configuration. Default: the best configuration so far.
        against: Custom = Custom::SELECTION,
        /// The number of seeds that every configuration has before the first look. Default: 3.
        min: Whole = Whole { range: 2..=10_000, of: "seeds" },
    }
}

/// The words of `direction`.
pub(super) const DIRECTIONS: &[(&str, Better)] = &[("min", Better::Less), ("max", Better::More)];
/// The parameter with the length of a training, and the parameter that ends it earlier.
const LENGTH: &str = "iters";
const UNTIL: &str = "until";
/// The default of `racing.min`.
const DEFAULT_MIN_SEEDS: usize = 3;

/// A part of a whole: `1/3` or `0.25`.
#[derive(Default)]
pub(in crate::recipe) struct Part;

impl Shape for Part {
    type Value = Fraction;

    fn read(&self, lower: &mut Lower<'_>, node: &Node, key: &str) -> Option<Fraction> {
        let text = match &node.kind {
            NodeKind::Scalar(Value::Text(text)) => text.clone(),
            NodeKind::Scalar(Value::Float(number)) => number.to_string(),
            _ => String::new(),
        };
        let part = Fraction::parse(&text);
        if part.is_none() {
            let help = format!("write a fraction, for example `{key}: 1/3` or `{key}: 0.25`");
            lower.problem(node.span, format!("`{key}` must be above 0 and below 1"), "not a part", help);
        }
        part
    }

    fn schema(&self) -> Json {
        json!({
            "anyOf": [
                { "type": "string", "pattern": r"^\s*(?:0*[1-9][0-9]*\s*/\s*0*[1-9][0-9]*|0*\.[0-9]*[1-9][0-9]*)\s*$" },
                { "type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1 },
            ],
        })
    }

    fn accepts(&self) -> String {
        "a fraction: `1/3`, `0.25`".to_owned()
    }
}

impl Search {
    /// True if the results decide which configurations continue, without a bound on the error as in a race: the best configurations look
    /// better than in a repetition.
    pub fn selects(&self) -> bool {
        self.suggest.is_some() || self.rungs.is_some()
    }

    /// The metric that decides, with its explicit better direction.
    pub fn metric(&self) -> Option<(&str, Option<Better>)> {
        let suggest = self.suggest.as_ref().map(|suggest| (&suggest.by, suggest.direction));
        let rungs = || self.rungs.as_ref().map(|rungs| (&rungs.by, rungs.direction));
        let racing = || self.racing.as_ref().map(|racing| (&racing.by, racing.direction));
        let objective = suggest.or_else(rungs).or_else(racing);
        objective.map(|(by, direction)| (by.value.as_str(), direction))
    }

    /// The metrics that decide.
    pub fn decided_by(&self) -> impl Iterator<Item = &Spanned<String>> {
        let rungs = self.rungs.as_ref().map(|rungs| &rungs.by);
        let racing = self.racing.as_ref().map(|racing| &racing.by);
        [rungs, racing, self.suggest.as_ref().map(|suggest| &suggest.by)].into_iter().flatten()
    }

    /// The axis that only jobs of decisions have, if there is one.
    pub fn axis(&self) -> Option<&str> {
        self.rungs.as_ref().map(|rungs| rungs.axis.as_str())
    }

    /// The metric by which jobs of the step are released, if some are.
    pub fn staged_by(&self) -> Option<&str> {
        let by = self.rungs.as_ref().map(|rungs| &rungs.by).or(self.racing.as_ref().map(|racing| &racing.by));
        by.map(|by| by.value.as_str())
    }
}

impl Rungs {
    /// The last rung, at which the step is reported.
    pub fn last(&self) -> u64 {
        self.at.last().copied().unwrap_or_default()
    }

    /// The points of the last rung.
    pub fn reported(&self) -> Selection {
        let last = Value::Int(i64::try_from(self.last()).unwrap_or(i64::MAX));
        Selection(vec![(Spanned::new(self.axis.clone(), self.span), vec![Template::literal(last, self.span)])])
    }

    /// The better direction: the explicit one, or that of the metric, or that of a loss.
    pub fn better(&self, rules: &[MetricRule], step: &Step) -> Better {
        better(self.direction, rules, step, &self.by.value)
    }
}

impl Racing {
    /// The better direction: the explicit one, or that of the metric, or that of a loss.
    pub fn better(&self, rules: &[MetricRule], step: &Step) -> Better {
        better(self.direction, rules, step, &self.by.value)
    }
}

pub(super) fn better(explicit: Option<Better>, rules: &[MetricRule], step: &Step, metric: &str) -> Better {
    explicit.or_else(|| traits_of(rules, step, metric).better).unwrap_or(Better::Less)
}

impl Lower<'_> {
    /// Reads `search`. A mistake in a part of it leaves that part out.
    pub(super) fn search(&mut self, node: &Node, params: &Names) -> Option<Search> {
        let keys = SearchKeys::read(self, node, "`search`")?;
        let rungs = keys.rungs.node().and_then(|node| self.rungs(node, params));
        let racing = keys.racing.node().and_then(|node| self.racing(node, params));
        if let (Some(span), true) = (keys.racing.span(), keys.rungs.is_there()) {
            let help = "remove one of them; `rungs` averages the seeds of each configuration";
            self.problem(span, "`racing` and `rungs` cannot be in the same step", "which one?", help);
        }
        let by = rungs.as_ref().map(|rungs| &rungs.by);
        let suggest = keys.suggest.node().and_then(|node| self.suggest(node, by, params));
        let confirm = keys.confirm.node().and_then(|node| self.confirm(node, params));
        let decides = keys.rungs.is_there() || keys.racing.is_there() || keys.suggest.is_there();
        if let (Some(span), false) = (keys.confirm.span(), decides) {
            let help = "add `suggest`, `rungs` or `racing`, or remove `confirm`";
            self.problem(span, "`confirm` needs a search whose best configurations it confirms", "of what?", help);
        } else if !decides && matches!(&node.kind, NodeKind::Map(_)) {
            let help = "write `rungs: { of: iters, at: [100, 300, 900], keep: 1/3, by: loss }`";
            self.problem(node.span, "`search` has no method", "empty", help);
        }
        Some(Search { rungs, racing, suggest, confirm, span: node.span })
    }

    fn rungs(&mut self, node: &Node, params: &Names) -> Option<Rungs> {
        let keys = RungKeys::read(self, node, "`rungs`")?;
        let at = keys.at.node().map(|node| self.rungs_at(node, params));
        let required = [
            ("of", keys.of.is_there()),
            ("at", keys.at.is_there()),
            ("keep", keys.keep.is_there()),
            ("by", keys.by.is_there()),
        ];
        for (key, _) in required.into_iter().filter(|(_, is_there)| !is_there) {
            let help = "write `rungs: { of: iters, at: [100, 300, 900], keep: 1/3, by: loss }`";
            self.problem(node.span, format!("`rungs` lacks `{key}`"), "incomplete", help);
        }
        let workers = keys.asynchronous.node().and_then(|node| {
            let keys = AsynchronousKeys::read(self, node, "`asynchronous`")?;
            if !keys.workers.is_there() {
                self.problem(node.span, "`asynchronous` lacks `workers`", "incomplete", "write `{ workers: 8 }`");
            }
            keys.workers.value
        });
        let over = keys.over.value.unwrap_or_else(|| vec![Spanned::new(String::new(), node.span)]);
        Some(Rungs {
            axis: keys.of.value?,
            continues: false,
            at: at??,
            keep: keys.keep.value?,
            by: keys.by.spanned()?,
            over,
            direction: keys.direction.value,
            workers: workers.map(|workers| workers as usize),
            span: node.span,
        })
    }

    /// Reads `[1000, 3000, 9000]`.
    fn rungs_at(&mut self, node: &Node, params: &Names) -> Option<Vec<u64>> {
        let help = "write integers in ascending order, for example `at: [1000, 3000, 9000]`";
        let NodeKind::List(items) = &node.kind else {
            self.problem(node.span, format!("`at` must be a list, found {}", node.describe()), "not a list", help);
            return None;
        };
        let mut at: Vec<u64> = Vec::new();
        for item in items {
            let value = self.value(item, params)?.resolve(params, &Names::new())?.value;
            let rung = value.as_f64().filter(|rung| rung.fract() == 0.0 && (1.0..=9e15).contains(rung));
            let Some(rung) = rung else {
                self.problem(item.span, format!("`{value}` is not a rung"), "not an integer from 1", help);
                return None;
            };
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole, from 1 to 9e15")]
            let rung = rung as u64;
            if at.last().is_some_and(|last| *last >= rung) {
                self.problem(item.span, "rungs are in ascending order", "not above the one before", help);
                return None;
            }
            at.push(rung);
        }
        if at.len() < 2 {
            self.problem(node.span, "`at` has fewer than two rungs", "nothing to decide", help);
            return None;
        }
        Some(at)
    }

    fn racing(&mut self, node: &Node, params: &Names) -> Option<Racing> {
        let keys = RacingKeys::read(self, node, "`racing`")?;
        if !keys.by.is_there() {
            self.problem(node.span, "`racing` lacks `by`", "by which metric?", "write `racing: { by: loss }`");
        }
        let against = keys.against.node().map(|node| self.selection(node, params));
        let least = keys.min.value.map_or(DEFAULT_MIN_SEEDS, |least| least as usize);
        Some(Racing { by: keys.by.spanned()?, direction: keys.direction.value, against, least, span: node.span })
    }

    /// Adds the axis of the rungs to a step's matrix, and checks the axes that `search` names.
    pub(super) fn place_search(&mut self, step: &mut Step) {
        let Some(mut search) = step.search.take() else { return };
        if let Some(adaptive) = &step.adaptive {
            let help = "write a number of seeds, for example `seeds: 5`";
            let message = "a step with `search` cannot have adaptive seeds: both decide what runs";
            self.problem(adaptive.span, message, "not with `search`", help);
        }
        if let Some(suggest) = &search.suggest {
            self.place_suggest(suggest, step);
        }
        if let Some(rungs) = &mut search.rungs {
            self.place_rungs(rungs, step);
        }
        self.check_stages(&search, step);
        if let Some(racing) = &search.racing {
            self.check_metric(&racing.by, step);
            let is_counted = |dimension: &Dimension| match dimension {
                Dimension::Axis(Axis { name, values: AxisValues::Numbers(Progression::Range, numbers, _) }) => {
                    name.value == "seed" && numbers.len() == 2
                }
                _ => false,
            };
            if !step.matrix.dimensions.iter().any(is_counted) {
                let help = "add `seeds:` with the maximum number of seeds of a configuration, for example `seeds: 10`";
                self.problem(racing.span, "`racing` needs an axis with the seeds 0, 1, …", "no `seeds`", help);
            }
            let axes = step.axes();
            for (axis, _) in racing.against.iter().flat_map(|against| &against.0) {
                self.check_axis(axis, step, &axes);
                if axis.value == "seed" {
                    let help = "name the values of the other axes";
                    self.problem(
                        axis.span,
                        "a configuration includes all its seeds, so it has no single `seed`",
                        "not a configuration",
                        help,
                    );
                }
            }
        }
        step.search = Some(search);
    }

    fn place_rungs(&mut self, rungs: &mut Rungs, step: &mut Step) {
        self.check_metric(&rungs.by, step);
        let axes = step.axes();
        // By default, seeds are averaged.
        if matches!(rungs.over.as_slice(), [only] if only.value.is_empty()) {
            rungs.over.retain_mut(|over| {
                "seed".clone_into(&mut over.value);
                axes.contains(&"seed")
            });
        }
        for axis in &rungs.over {
            self.check_axis(axis, step, &axes);
        }
        if step.task.param(UNTIL).is_some() && (rungs.axis == UNTIL || rungs.axis == LENGTH) {
            UNTIL.clone_into(&mut rungs.axis);
            rungs.continues = true;
        }
        if axes.contains(&rungs.axis.as_str()) {
            let message = format!("`{}` is an axis of the step already", rungs.axis);
            self.problem(rungs.span, message, "there twice", "the rungs are its values; remove the other axis");
            return;
        }
        if step.task.param(&rungs.axis).is_some_and(|param| !matches!(param.kind, ParamKind::Int)) {
            let message = format!("`{}` of `{}` is not an integer", rungs.axis, step.task.name);
            self.problem(rungs.span, message, "no length", "name a parameter that is a number of steps or epochs");
        }
        let value = |rung: &u64| Template::literal(Value::Int(i64::try_from(*rung).unwrap_or(i64::MAX)), rungs.span);
        let values = AxisValues::List(rungs.at.iter().map(value).collect());
        let name = Spanned::new(rungs.axis.clone(), rungs.span);
        step.matrix.dimensions.push(Dimension::Axis(Axis { name, values }));
        step.matrix.rungs = Some(rungs.axis.clone());
    }
}

/// Restricts tables, figures and claims to the last rung of their steps, unless they select rungs or show them.
pub(super) fn select_last(steps: &[Step], tables: &mut [Table], figures: &mut [Figure], claims: &mut [Claim]) {
    for table in tables {
        match &mut table.kind {
            TableKind::Metrics(metrics) => {
                let named =
                    metrics.rows.iter().chain(&metrics.columns).map(|axis| axis.value.as_str()).collect::<Vec<_>>();
                restrict(&steps[metrics.of.step], &mut metrics.of.only, &named);
            }
            TableKind::Compare(compare) => {
                let named: Vec<String> = compare.named().map(str::to_owned).collect();
                let named: Vec<&str> = named.iter().map(String::as_str).collect();
                restrict(&steps[compare.of.step], &mut compare.of.only, &named);
            }
            TableKind::Effects(effects) => restrict(&steps[effects.of.step], &mut effects.of.only, &[]),
            TableKind::Aggregate(aggregate) => {
                restrict(&steps[aggregate.of.step], &mut aggregate.of.only, &[aggregate.axis.value.as_str()]);
            }
            TableKind::Analysis(analysis) => {
                let named: Vec<String> = analysis.named().map(|name| name.value.clone()).collect();
                let named: Vec<&str> = named.iter().map(String::as_str).collect();
                restrict(&steps[analysis.of.step], &mut analysis.of.only, &named);
            }
            TableKind::Claims(_) => {}
        }
    }
    for figure in figures {
        let step = &steps[figure.from.value];
        let chart = &figure.chart;
        // A timeline shows the times of jobs, and the jobs of all rungs have run.
        if chart.kind == Kind::Timeline {
            continue;
        }
        let mut named = vec![chart.x.as_str(), chart.y.as_str()];
        named.extend(chart.color.as_deref());
        restrict(step, &mut figure.only, &named);
        if let Some(effects) = &mut figure.effects {
            restrict(step, &mut effects.of.only, &named);
        }
    }
    for claim in claims {
        match &mut claim.statement {
            Statement::Number(comparison, ..) => {
                for side in comparison.sides_mut() {
                    restrict(&steps[side.step], &mut side.only, &[]);
                }
            }
            Statement::Order(order) => restrict(&steps[order.step], &mut order.only, &[order.axis.value.as_str()]),
        }
    }
}

/// Selects the last rung of a step, unless the rungs are selected or named already.
fn restrict(step: &Step, only: &mut Selection, named: &[&str]) {
    let Some(rungs) = step.search.as_ref().and_then(|search| search.rungs.as_ref()) else { return };
    let is_chosen = only.0.iter().any(|(axis, _)| axis.value == rungs.axis);
    if is_chosen || named.contains(&rungs.axis.as_str()) {
        return;
    }
    only.0.extend(rungs.reported().0);
}
