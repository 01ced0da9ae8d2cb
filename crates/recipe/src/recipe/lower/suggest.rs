//! `suggest`: a step whose points are chosen by a sampler.

use serde_json::{Value as Json, json};
use sweep_job::Value;

use super::{
    Lower, find,
    matrix::{CHOICE, is_one, numbers},
    metrics::MetricRule,
    search::{DIRECTIONS, Search, better},
};
use crate::{
    recipe::{
        Dimension, Names, Step, Suggested,
        keys::{Custom, Given, Mapping as _, Text, Word, mapping},
        node::{Entry, Node, NodeKind},
        problem::suggest,
        reads_alike,
        schema::{named, reference},
        source::{Span, Spanned},
    },
    stats::Better,
    suggest::{self, Domain, Provider, Source, Space},
};

/// A search by a sampler.
#[derive(Debug, Clone)]
pub struct Suggest {
    /// The sampler.
    pub source: Source,
    /// The space.
    pub space: Space,
    /// The names of its axes, with their places in the text.
    pub axes: Vec<Spanned<String>>,
    /// Number of configurations of a batch.
    pub batch: usize,
    /// Number of batches.
    pub batches: usize,
    /// The metric that decides.
    pub by: Spanned<String>,
    /// The explicit better direction.
    pub direction: Option<Better>,
    /// The seed, as a text.
    pub seed: String,
    /// The place of the request in the text.
    pub span: Span,
}

mapping! {
    /// The keys of `suggest`.
    struct SuggestKeys = "suggest" {
        /// The sampler that chooses the configurations. Default: `tpe`.
        ///
        /// `tpe` and `random` are part of the program. `optuna.tpe`, `optuna.cmaes` and `optuna.gp` are samplers of the
        /// Python package Optuna, which the first `python3` on the `PATH` must have. `{ argv: [program, argument] }` is a
        /// program that speaks the [protocol](search.md#samplers-of-your-own); it runs in the recipe's folder.
        sampler: Custom = Custom { schema: sampler, accepts: "the name of a sampler, or `{ argv: [program, …] }`" },
        /// The axes of the search, each with its values.
        ///
        /// See [space](#space).
        space [required]: Custom = Custom { schema: space, accepts: "axis to values" },
        /// The number of configurations that are chosen at once, from the results of all earlier batches.
        batch [required]: Custom = Custom { schema: || reference("number"), accepts: "an integer from 1" },
        /// The number of batches.
        batches [required]: Custom = Custom { schema: || reference("number"), accepts: "an integer from 1" },
        /// The metric that decides. Default: the metric of `rungs`, if the step has rungs.
        by: Text = Text::METRIC,
        /// The better direction. Default: the direction of the metric, or `min` for a metric without a direction.
        direction: Word<Better> = Word(DIRECTIONS),
        /// The seed of the sampler. Default: 0.
        seed: Custom = Custom { schema: || reference("value"), accepts: "a value" },
    }
}

mapping! {
    /// The forms of an axis of a search: one key each.
    struct SpaceForms = "space" {
        /// The numbers between two bounds, or only the numbers `from`, `from + step`, … between them.
        uniform: Custom = Custom { schema: || numbers("number", 2, 3), accepts: "`[from, to]` or `[from, to, step]`" },
        /// The numbers between two bounds, uniform in the logarithm.
        log_uniform: Custom = Custom { schema: || numbers("number", 2, 2), accepts: "`[from, to]`" },
        /// The integers between two bounds, inclusive, or only the integers `from`, `from + step`, … between them.
        int: Custom = Custom { schema: || numbers("number", 2, 3), accepts: "`[from, to]` or `[from, to, step]`" },
        /// The integers between two bounds, inclusive, uniform in the logarithm.
        log_int: Custom = Custom { schema: || numbers("number", 2, 2), accepts: "`[from, to]`" },
        /// A list of values without an order.
        choice: Custom = CHOICE,
    }
}

mapping! {
    /// The keys of a sampler that is another program.
    struct SamplerKeys = "sampler" {
        /// The program and its arguments.
        argv [required]: Custom = Custom {
            schema: || json!({ "type": "array", "minItems": 1, "items": { "type": "string" } }),
            accepts: "a list of texts",
        },
    }
}

/// The words of `sampler`.
const SAMPLERS: &[&str] = &["tpe", "random", "optuna.tpe", "optuna.cmaes", "optuna.gp"];
/// The largest size and number of batches.
const MAX_BATCHES: f64 = 10_000.0;
/// The largest integer of a space: numbers in JSON are exact up to here.
pub(super) const MAX_INTEGER: f64 = 9_007_199_254_740_992.0;
const USAGE: &str = "write `suggest: { space: { lr: { log_uniform: [1e-5, 1e-1] } }, batch: 8, batches: 5, by: loss }`";
const FORMS: &str = "write `{ uniform: [from, to] }`, `{ log_uniform: [from, to] }`, `{ int: [from, to] }`, `{ log_int: [from, to] }` or `{ choice: [a, b] }`";

fn sampler() -> Json {
    json!({ "anyOf": [{ "enum": SAMPLERS }, SamplerKeys::schema()] })
}

fn space() -> Json {
    let mut schema = named("space");
    schema["minProperties"] = json!(1);
    schema
}

impl Suggest {
    /// The better direction: the explicit one, or that of the metric, or that of a loss.
    pub fn better(&self, rules: &[MetricRule], step: &Step) -> Better {
        better(self.direction, rules, step, &self.by.value)
    }
}

impl Lower<'_> {
    /// Reads `suggest`. `rungs` is the metric of the step's rungs.
    pub(super) fn suggest(&mut self, node: &Node, rungs: Option<&Spanned<String>>, params: &Names) -> Option<Suggest> {
        let keys = SuggestKeys::read(self, node, "`suggest`")?;
        let required = [
            ("space", keys.space.is_there()),
            ("batch", keys.batch.is_there()),
            ("batches", keys.batches.is_there()),
            ("by", keys.by.is_there() || rungs.is_some()),
        ];
        for (key, _) in required.into_iter().filter(|(_, is_there)| !is_there) {
            self.problem(node.span, format!("`suggest` lacks `{key}`"), "incomplete", USAGE);
        }
        let source = match keys.sampler.node() {
            Some(node) => self.sampler(node),
            None => Some(Source::Tpe),
        };
        let space = keys.space.node().and_then(|node| self.space(node, params));
        let batch = self.count(&keys.batch, "batch", 1.0, params);
        let batches = self.count(&keys.batches, "batches", 1.0, params);
        let seed = keys.seed.node().and_then(|node| self.resolved(node, params));
        Some(Suggest {
            source: source?,
            axes: keys.space.node().map(names_of).unwrap_or_default(),
            space: space?,
            batch: batch?,
            batches: batches?,
            direction: keys.direction.value,
            by: keys.by.spanned().or_else(|| rungs.cloned())?,
            seed: seed.unwrap_or(Value::Int(0)).to_string(),
            span: node.span,
        })
    }

    /// A value of the recipe, with the values of params.
    fn resolved(&mut self, node: &Node, params: &Names) -> Option<Value> {
        Some(self.value(node, params)?.resolve(params, &Names::new())?.value)
    }

    pub(super) fn count(&mut self, given: &Given<'_, ()>, key: &str, least: f64, params: &Names) -> Option<usize> {
        let node = given.node()?;
        let value = self.resolved(node, params)?;
        match value.as_f64().filter(|number| number.fract() == 0.0 && (least..=MAX_BATCHES).contains(number)) {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole, from 1 to 10,000")]
            Some(number) => Some(number as usize),
            None => {
                let message = format!("`{key}` must be an integer from {least} to {MAX_BATCHES}, found {value}");
                self.problem(
                    node.span,
                    message,
                    "not a number of them",
                    format!("for example `{key}: {}`", least + 4.0),
                );
                None
            }
        }
    }

    fn sampler(&mut self, node: &Node) -> Option<Source> {
        if let NodeKind::Map(entries) = &node.kind {
            let keys = SamplerKeys::read(self, node, "`sampler`")?;
            let usage = "write `sampler: { argv: [python3, my_sampler.py] }`";
            let Some(argv) = find(entries, "argv").filter(|_| keys.argv.is_there()) else {
                self.problem(node.span, "`sampler` has no `argv`", "which program?", usage);
                return None;
            };
            let argv: Vec<String> = self.texts(argv, "`argv`").into_iter().map(|argument| argument.value).collect();
            if argv.first().is_none_or(String::is_empty) || argv.iter().any(|argument| argument.contains('\0')) {
                self.problem(node.span, "`argv` names no program", "which program?", usage);
                return None;
            }
            let folder = self.sources.folder(node.span.source).to_owned();
            return Some(Source::Provider(Provider::Program { argv, folder }));
        }
        let word = self.text(node, "`sampler`")?;
        match word.as_str() {
            "random" => Some(Source::Random),
            "tpe" => Some(Source::Tpe),
            "optuna.tpe" => Some(Source::Provider(Provider::Optuna("tpe"))),
            "optuna.cmaes" => Some(Source::Provider(Provider::Optuna("cmaes"))),
            "optuna.gp" => Some(Source::Provider(Provider::Optuna("gp"))),
            _ => {
                let help = suggest(&word, "samplers", SAMPLERS.iter().copied()).unwrap_or_default();
                self.problem(node.span, format!("unknown sampler `{word}`"), "no sampler has this name", help);
                None
            }
        }
    }

    fn space(&mut self, node: &Node, params: &Names) -> Option<Space> {
        let entries = self.entries(node, "`space`");
        if entries.is_empty() && matches!(node.kind, NodeKind::Map(_)) {
            self.problem(node.span, "`space` has no axes", "nothing to search", USAGE);
        }
        let mut axes: Vec<suggest::Axis> = Vec::new();
        let mut is_complete = !entries.is_empty();
        for entry in entries {
            self.check_name(&entry.key, "axis");
            match self.domain(entry, params) {
                Some(domain) => axes.push(suggest::Axis { name: entry.key.value.clone(), domain }),
                None => is_complete = false,
            }
        }
        is_complete.then_some(Space { axes })
    }

    fn domain(&mut self, entry: &Entry, params: &Names) -> Option<Domain> {
        let node = &entry.value;
        let keys = SpaceForms::read(self, node, "an axis of `space`")?;
        if !is_one(node) {
            let message = format!("axis `{}` of the space must have one form", entry.key.value);
            self.problem(node.span, message, "not one", FORMS);
            return None;
        }
        if let Some(node) = keys.choice.node() {
            return self.choice(&entry.key.value, node, params);
        }
        let forms = [
            (&keys.uniform, "uniform", 2..=3),
            (&keys.log_uniform, "log_uniform", 2..=2),
            (&keys.int, "int", 2..=3),
            (&keys.log_int, "log_int", 2..=2),
        ];
        let (given, form, counts) = forms.into_iter().find(|(given, ..)| given.is_there())?;
        let node = given.node()?;
        let usage = if *counts.end() == 3 { "[from, to]` or `[from, to, step]" } else { "[from, to]" };
        let templates = self.numbers(node, counts, &format!("`{form}: {usage}`"), params)?;
        let values: Option<Vec<f64>> = templates
            .iter()
            .map(|template| template.resolve(params, &Names::new())?.value.as_f64().filter(|number| number.is_finite()))
            .collect();
        let is_int = form.ends_with("int");
        let Some(values) = values else {
            self.problem(node.span, format!("`{form}` needs numbers"), "not numbers", FORMS);
            return None;
        };
        if is_int && values.iter().any(|value| value.fract() != 0.0 || value.abs() > MAX_INTEGER) {
            self.problem(node.span, format!("`{form}` needs integers"), "not integers", FORMS);
            return None;
        }
        self.numeric(form, &values, node.span)
    }

    /// The domain of checked numbers: two bounds, and perhaps a step.
    fn numeric(&mut self, form: &str, values: &[f64], span: Span) -> Option<Domain> {
        let (low, mut high) = (values[0], values[1]);
        let log = form.starts_with("log");
        let step = values.get(2).copied();
        let mut wrong = |message: String, label: &str, help: &str| {
            self.problem(span, message, label, help);
            None
        };
        if low > high {
            return wrong(format!("`{form}` goes from {low} to {high}"), "no values", "swap the two values");
        }
        let least = if form == "log_int" { 1.0 } else { f64::MIN_POSITIVE };
        if log && low < least {
            let message = format!("`{form}` needs numbers above 0, found {low}");
            return wrong(message, "not above 0", "only positive numbers have a logarithm");
        }
        if !(high - low).is_finite() {
            return wrong(
                format!("the range of `{form}` is too large"),
                "too large",
                "use bounds whose difference is \
                finite",
            );
        }
        if let Some(step) = step {
            if step <= 0.0 || step > high - low {
                let message = format!("the step must be above 0 and at most {}, found {step}", high - low);
                return wrong(message, "no step", "the values are `from`, `from + step`, … up to `to`");
            }
            // The last value is the last one that the step reaches; a little slack for decimal fractions.
            let steps = ((high - low) / step + 1e-9).floor();
            high = low + steps * step;
        }
        #[expect(clippy::cast_possible_truncation, reason = "whole, and at most 2^53")]
        Some(if form.ends_with("int") {
            Domain::Int { low: low as i64, high: high as i64, log, step: step.unwrap_or(1.0) as i64 }
        } else {
            Domain::Float { low, high, log, step }
        })
    }

    fn choice(&mut self, name: &str, node: &Node, params: &Names) -> Option<Domain> {
        let templates = self.numbers(node, 1..=usize::MAX, "`choice: [a, b]`", params)?;
        let mut values: Vec<Value> = Vec::new();
        for template in &templates {
            let value = template.resolve(params, &Names::new())?;
            if values.contains(&value.value) {
                let message = format!("axis `{name}` has the value `{}` twice", value.value);
                self.problem(template.span, message, "again", "remove one of them");
                return None;
            }
            if values.iter().any(|known| known.to_string() == value.value.to_string()) {
                let (message, help) = reads_alike(name, &value.value);
                self.problem(template.span, message, "reads alike", help);
                return None;
            }
            values.push(value.value);
        }
        Some(Domain::Choice { values })
    }

    /// Adds the axes of a step's `suggest` to its matrix, and checks what it names.
    pub(super) fn place_suggest(&mut self, suggest: &Suggest, step: &mut Step) {
        self.check_metric(&suggest.by, step);
        let axes = step.matrix.axes();
        for axis in suggest.axes.iter().filter(|axis| axes.contains(&axis.value.as_str()) || axis.value == "seed") {
            let message = format!("axis `{}` is defined twice, in `space` and in the matrix", axis.value);
            let help = "an axis is either searched or varied; a value is averaged over seeds";
            self.problem(axis.span, message, "again", help);
        }
        let filtered = [
            (step.matrix.include.first().map(|entry| entry.span), "include"),
            (step.matrix.exclude.first().map(|entry| entry.span), "exclude"),
            (step.matrix.condition.as_ref().map(|_| suggest.span), "if"),
        ];
        for (span, key) in filtered.into_iter().filter_map(|(span, key)| Some((span?, key))) {
            let help = "the sampler chooses the points; declare a `space` that has only valid points";
            self.problem(span, format!("a step with `suggest` cannot have `{key}`"), "not with `suggest`", help);
        }
        // First: points of one configuration are neighbors.
        let axes = suggest.axes.clone();
        let floats = suggest.space.axes.iter().filter(|axis| matches!(axis.domain, Domain::Float { .. }));
        let floats = floats.map(|axis| axis.name.clone()).collect();
        step.matrix.dimensions.insert(0, Dimension::Suggested(Suggested { axes, floats }));
    }

    /// Checks that a search with rungs averages over all axes besides its own, so that a configuration stops as a whole.
    pub(super) fn check_stages(&mut self, search: &Search, step: &Step) {
        let Some(suggest) = &search.suggest else { return };
        if let Some(racing) = &search.racing {
            let message = "`racing` and `suggest` cannot be in the same step";
            let help = "remove one of them; `rungs` and `suggest` go together";
            self.problem(racing.span, message, "which one?", help);
        }
        let Some(rungs) = &search.rungs else { return };
        let own = |axis: &str| suggest.axes.iter().chain(&rungs.over).any(|own| own.value == axis);
        for axis in step.matrix.axes().into_iter().filter(|axis| *axis != rungs.axis && !own(axis)) {
            let message = format!("axis `{axis}` is neither searched nor averaged");
            let help = format!("add `{axis}` to `over` of `rungs`: a configuration is promoted or stopped as a whole");
            self.problem(rungs.span, message, "not averaged", help);
        }
    }

    /// Reports steps that need a step whose points a sampler chooses.
    pub(super) fn check_not_searched(&mut self, steps: &[Step]) {
        for need in steps.iter().flat_map(|step| &step.needs) {
            let needed_step = &steps[need.step];
            if needed_step.search.as_ref().is_some_and(|search| search.suggest.is_some()) {
                let message = format!("no step can need `{}`, whose points a sampler chooses", needed_step.name.value);
                let help = "measure the result in the step itself; tables and claims can use it";
                self.problem(need.span, message, "not known in advance", help);
            }
        }
    }
}

/// The keys of a map, with their places.
fn names_of(node: &Node) -> Vec<Spanned<String>> {
    match &node.kind {
        NodeKind::Map(entries) => entries.iter().map(|entry| entry.key.clone()).collect(),
        NodeKind::Scalar(_) | NodeKind::List(_) => Vec::new(),
    }
}
