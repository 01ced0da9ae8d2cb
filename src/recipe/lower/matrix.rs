//! `matrix`, `seeds`, `ablate` and `if`: the points of a step.

use std::time::Duration;

use sweep_job::{Value, units::parse_seconds};

use super::{Lower, find};
use crate::recipe::{
    Ablation, Adaptive, Assignment, Axis, AxisValues, Condition, Design, Dimension, Draw, Factor, Matrix, Names,
    Progression, Random, Template,
    node::{Entry, Node, NodeKind},
    problem::suggest,
    source::{Span, Spanned},
};

/// The forms of an axis, besides a list: one key each.
pub(crate) const AXIS_FORMS: &[&str] = &["range", "linspace", "logspace"];
/// The distributions of a random axis: one key each.
pub(crate) const DRAW_FORMS: &[&str] = &["uniform", "log_uniform", "choice"];
/// The keys of `random`.
pub(crate) const RANDOM_KEYS: &[&str] = &["n", "seed", "axes"];
/// The keys of `seeds`, where their number is decided while the step runs.
pub(crate) const ADAPTIVE_KEYS: &[&str] = &["min", "max", "until", "budget"];
/// The keys of `ablate`.
pub(crate) const ABLATE_KEYS: &[&str] = &["design", "baseline", "factors"];

impl Lower<'_> {
    /// Everything in a step's `keys` that varies it. `needed` names the steps that it needs.
    pub(super) fn matrix(&mut self, keys: &[Entry], params: &Names, needed: &[&str]) -> Matrix {
        let mut matrix = Matrix::default();
        for entry in find(keys, "matrix").map(|node| self.entries(node, "`matrix`")).unwrap_or_default() {
            match entry.key.value.as_str() {
                "include" => matrix.include = self.assignments(&entry.value, "`include`", params),
                "exclude" => matrix.exclude = self.assignments(&entry.value, "`exclude`", params),
                "zip" => {
                    let axes = self.entries(&entry.value, "`zip`");
                    if axes.is_empty() && matches!(entry.value.kind, NodeKind::Map(_)) {
                        let help = "write `zip: { a: [1, 2], b: [3, 4] }`";
                        self.problem(entry.value.span, "`zip` has no axes", "empty", help);
                    }
                    let axes = axes.iter().filter_map(|axis| self.axis(axis, params, needed)).collect();
                    matrix.dimensions.push(Dimension::Zip(axes));
                }
                "random" => matrix.dimensions.extend(self.random(&entry.value, params).map(Dimension::Random)),
                _ => matrix.dimensions.extend(self.axis(entry, params, needed).map(Dimension::Axis)),
            }
        }
        if let Some(node) = find(keys, "ablate") {
            matrix.dimensions.extend(self.ablation(node, params).map(Dimension::Ablation));
        }
        if let Some(node) = find(keys, "seeds") {
            matrix.dimensions.extend(self.seeds(node, params).map(Dimension::Axis));
        }
        self.check_axes(&matrix);
        matrix.condition = find(keys, "if").and_then(|node| self.condition(node, &matrix, params));
        matrix
    }

    /// No axis may stand twice, and `exclude` may only name axes that there are.
    fn check_axes(&mut self, matrix: &Matrix) {
        let names: Vec<&Spanned<String>> = matrix.dimensions.iter().flat_map(Dimension::axes).collect();
        for (index, name) in names.iter().enumerate() {
            if names[..index].iter().any(|earlier| earlier.value == name.value) {
                let message = format!("axis `{}` is there twice", name.value);
                self.problem(name.span, message, "again", "keep one of them");
            }
        }
        for (name, _) in matrix.exclude.iter().flat_map(|entry| &entry.values) {
            if !names.iter().any(|axis| axis.value == name.value) {
                let axes = names.iter().map(|axis| axis.value.as_str());
                let help = suggest(&name.value, "axes", axes).unwrap_or_default();
                self.problem(name.span, format!("unknown axis `{}`", name.value), "no axis has this name", help);
            }
        }
    }

    fn axis(&mut self, entry: &Entry, params: &Names, needed: &[&str]) -> Option<Axis> {
        self.check_name(&entry.key, "axis");
        let values = self.axis_values(&entry.key.value, &entry.value, params, needed)?;
        Some(Axis { name: entry.key.clone(), values })
    }

    fn axis_values(&mut self, name: &str, node: &Node, params: &Names, needed: &[&str]) -> Option<AxisValues> {
        match &node.kind {
            NodeKind::List(items) => {
                if items.is_empty() {
                    let message = format!("axis `{name}` has no values");
                    self.problem(node.span, message, "empty", "add a value, or remove the axis");
                }
                Some(AxisValues::List(items.iter().filter_map(|item| self.value(item, params)).collect()))
            }
            NodeKind::Map(_) => self.progression(name, node, params),
            NodeKind::Scalar(Value::Text(text)) if text.contains("${{") => self.axis_of(text, node.span, needed),
            NodeKind::Scalar(_) => {
                let help = format!("write `{name}: [{}]` for an axis with one value", self.sources.slice(node.span));
                let message = format!("axis `{name}` must be a list, found {}", node.describe());
                self.problem(node.span, message, "expected a list of values", help);
                Some(AxisValues::List(Vec::new()))
            }
        }
    }

    /// `{ range: [0, 10] }`, `{ linspace: [0, 1, 5] }`, `{ logspace: [1e-4, 1e-2, 3] }`.
    fn progression(&mut self, name: &str, node: &Node, params: &Names) -> Option<AxisValues> {
        let entries = self.map(node, &format!("axis `{name}`"), AXIS_FORMS)?;
        let [entry] = entries else {
            let help = "write `[a, b]`, `{ range: [from, to] }`, `{ linspace: [from, to, n] }` or `{ logspace: [from, to, n] }`";
            self.problem(node.span, format!("axis `{name}` must be a list, or one form of it"), "not an axis", help);
            return None;
        };
        let (kind, counts, usage) = match entry.key.value.as_str() {
            "range" => (Progression::Range, 2..=3, "`range: [from, to]` or `range: [from, to, step]`"),
            "linspace" => (Progression::Linspace, 3..=3, "`linspace: [from, to, n]`"),
            "logspace" => (Progression::Logspace, 3..=3, "`logspace: [from, to, n]`"),
            _ => return None,
        };
        let numbers = self.numbers(&entry.value, counts, usage, params)?;
        Some(AxisValues::Numbers(kind, numbers, entry.value.span))
    }

    /// A list of so many values; whether they are numbers is known once the params are.
    fn numbers(
        &mut self,
        node: &Node,
        counts: std::ops::RangeInclusive<usize>,
        usage: &str,
        params: &Names,
    ) -> Option<Vec<Template>> {
        match &node.kind {
            NodeKind::List(items) if counts.contains(&items.len()) => {
                items.iter().map(|item| self.value(item, params)).collect()
            }
            _ => {
                let found = match &node.kind {
                    NodeKind::List(items) => format!("a list of {}", items.len()),
                    _ => node.describe().to_owned(),
                };
                self.problem(node.span, format!("expected {usage}, found {found}"), "not the numbers", usage);
                None
            }
        }
    }

    /// `${{ needs.STEP.axes.AXIS }}`.
    fn axis_of(&mut self, text: &str, span: Span, needed: &[&str]) -> Option<AxisValues> {
        let help = "an axis is a list, or another step's: `${{ needs.STEP.axes.AXIS }}`";
        let body = text.trim().strip_prefix("${{").and_then(|rest| rest.strip_suffix("}}")).map(str::trim);
        let parts: Vec<&str> = body.map(|body| body.split('.').collect()).unwrap_or_default();
        let ["needs", step, "axes", axis] = parts[..] else {
            self.problem(span, format!("`{}` is no axis", text.trim()), "not a list", help);
            return None;
        };
        if !needed.contains(&step) {
            let help = suggest(step, "needed steps", needed.iter().copied())
                .unwrap_or_else(|| format!("add `needs: [{step}]`"));
            self.problem(span, format!("`{step}` is not a step that this one needs"), "not in `needs`", help);
            return None;
        }
        Some(AxisValues::Of { step: Spanned::new(step.to_owned(), span), axis: Spanned::new(axis.to_owned(), span) })
    }

    fn random(&mut self, node: &Node, params: &Names) -> Option<Random> {
        let keys = self.map(node, "`random`", RANDOM_KEYS)?;
        let mut axes = Vec::new();
        for entry in find(keys, "axes").map(|node| self.entries(node, "`axes`")).unwrap_or_default() {
            self.check_name(&entry.key, "axis");
            if let Some(draw) = self.draw(&entry.value, params) {
                axes.push((entry.key.clone(), draw));
            }
        }
        let n = find(keys, "n").and_then(|node| self.value(node, params));
        let seed = find(keys, "seed").and_then(|node| self.value(node, params));
        let (Some(n), false) = (n, axes.is_empty()) else {
            let help = "write `random: { n: 8, axes: { lr: { log_uniform: [1e-4, 1e-2] } } }`";
            self.problem(node.span, "`random` needs `n` and `axes`", "incomplete", help);
            return None;
        };
        Some(Random { n, seed, axes, span: node.span })
    }

    fn draw(&mut self, node: &Node, params: &Names) -> Option<Draw> {
        let entries = self.map(node, "a random axis", DRAW_FORMS)?;
        let [entry] = entries else {
            let help = "write `{ uniform: [from, to] }`, `{ log_uniform: [from, to] }` or `{ choice: [a, b] }`";
            self.problem(node.span, "a random axis has one distribution", "not one", help);
            return None;
        };
        let span = entry.value.span;
        match entry.key.value.as_str() {
            "uniform" => {
                self.numbers(&entry.value, 2..=2, "`uniform: [from, to]`", params).map(|two| Draw::Uniform(two, span))
            }
            "log_uniform" => self
                .numbers(&entry.value, 2..=2, "`log_uniform: [from, to]`", params)
                .map(|two| Draw::LogUniform(two, span)),
            "choice" => self.numbers(&entry.value, 1..=usize::MAX, "`choice: [a, b]`", params).map(Draw::Choice),
            _ => None,
        }
    }

    fn ablation(&mut self, node: &Node, params: &Names) -> Option<Ablation> {
        let keys = self.map(node, "`ablate`", ABLATE_KEYS)?;
        let words = Design::WORDS.map(|(word, _)| word);
        let design = match find(keys, "design") {
            None => {
                let help = format!("add `design:` with one of {}", words.join(", "));
                self.problem(node.span, "`ablate` has no design", "which combinations?", help);
                return None;
            }
            Some(node) => {
                let word = self.text(node, "`design`")?;
                let design = Design::WORDS.iter().find(|(known, _)| *known == word).map(|(_, design)| *design);
                if design.is_none() {
                    let help = suggest(&word, "designs", words).unwrap_or_default();
                    self.problem(node.span, format!("unknown design `{word}`"), "no design has this name", help);
                }
                design?
            }
        };
        let baseline = find(keys, "baseline").map(|node| self.entries(node, "`baseline`")).unwrap_or_default();
        let changes = find(keys, "factors").map(|node| self.entries(node, "`factors`"));
        if find(keys, "factors").is_none_or(|node| matches!(&node.kind, NodeKind::Map(entries) if entries.is_empty())) {
            let help = "add `factors:` with the values that the baseline's are changed to";
            self.problem(node.span, "`ablate` has no factors", "nothing is changed", help);
        }
        let mut factors = Vec::new();
        for entry in changes.unwrap_or_default() {
            self.check_name(&entry.key, "axis");
            let Some(base) = find(baseline, &entry.key.value) else {
                let message = format!("factor `{}` has no value in `baseline`", entry.key.value);
                let help = format!("add `{}` to `baseline`", entry.key.value);
                self.problem(entry.key.span, message, "changed from what?", help);
                continue;
            };
            let items = match &entry.value.kind {
                NodeKind::List(items) => items.as_slice(),
                _ => std::slice::from_ref(&entry.value),
            };
            let values: Vec<Template> = items.iter().filter_map(|item| self.value(item, params)).collect();
            if let (Some(baseline), false) = (self.value(base, params), values.is_empty()) {
                factors.push(Factor { axis: entry.key.clone(), baseline, values });
            }
        }
        for entry in baseline {
            if !factors.iter().any(|factor| factor.axis.value == entry.key.value) {
                let message = format!("`{}` is in `baseline`, but no factor changes it", entry.key.value);
                self.problem(entry.key.span, message, "not a factor", "put it into `with`, or add it to `factors`");
            }
        }
        Some(Ablation { design, factors })
    }

    /// `seeds: 5`: the axis `seed` with 0, 1, 2, 3, 4.
    fn seeds(&mut self, node: &Node, params: &Names) -> Option<Axis> {
        let node = match &node.kind {
            NodeKind::Map(entries) => find(entries, "max")?,
            _ => node,
        };
        let count = self.value(node, params)?;
        if let NodeKind::Scalar(written) = &node.kind
            && let Some(count) = written.as_f64()
            && (count < 1.0 || count.fract() != 0.0)
        {
            let message = format!("`seeds` must be a whole number of at least 1, found {}", Value::Float(count));
            self.problem(node.span, message, "no number of seeds", "for example `seeds: 3`");
            return None;
        }
        let from = Template::literal(Value::Int(0), node.span);
        let values = AxisValues::Numbers(Progression::Range, vec![from, count], node.span);
        Some(Axis { name: Spanned::new("seed".to_owned(), node.span), values })
    }

    /// `seeds: { min: 2, max: 10, until: decided }`: the axis `seed` with at least 0 and 1, and more while something is
    /// undecided.
    pub(super) fn adaptive(&mut self, node: &Node, params: &Names) -> Option<Adaptive> {
        let NodeKind::Map(_) = &node.kind else { return None };
        let keys = self.map(node, "`seeds`", ADAPTIVE_KEYS)?;
        let usage = "write `seeds: { min: 2, max: 10, until: decided }`";
        let mut bound = |key: &str| {
            let Some(node) = find(keys, key) else {
                self.problem(node.span, format!("`seeds` lacks `{key}`"), "incomplete", usage);
                return None;
            };
            let number = self.value(node, params)?.resolve(params, &Names::new())?.value;
            match number.as_f64().filter(|number| *number >= 2.0 && number.fract() == 0.0 && *number <= 1e4) {
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole, from 2 to 10,000")]
                Some(number) => Some(number as usize),
                None => {
                    let message = format!("`{key}` must be a whole number from 2 to 10000, found {number}");
                    let help = "two seeds are the fewest that say anything about chance";
                    self.problem(node.span, message, "no number of seeds", help);
                    None
                }
            }
        };
        let (least, most) = (bound("min"), bound("max"));
        match find(keys, "until") {
            Some(until) => {
                let word = self.text(until, "`until`")?;
                if word != "decided" {
                    self.problem(until.span, format!("`until` must be `decided`, not `{word}`"), "unknown word", usage);
                }
            }
            None => self.problem(node.span, "`seeds` lacks `until`", "until when?", usage),
        }
        let help = "write a span of time such as `2h` or `30m`";
        let budget = find(keys, "budget")
            .and_then(|node| self.with_unit(node, "budget", parse_seconds, "no span of time", help))
            .map(Duration::from_secs_f64);
        let (least, most) = (least?, most?);
        if least > most {
            let message = format!("`min` is {least} and `max` is {most}");
            self.problem(node.span, message, "cannot hold", "exchange the two");
            return None;
        }
        Some(Adaptive { least, most, budget, span: node.span })
    }

    fn condition(&mut self, node: &Node, matrix: &Matrix, params: &Names) -> Option<Condition> {
        let NodeKind::Scalar(Value::Text(text)) = &node.kind else {
            let help = "write a comparison, for example `matrix.lr < 1e-3 && params.deep`";
            self.problem(node.span, format!("`if` must be a condition, found {}", node.describe()), "here", help);
            return None;
        };
        let mut axes = matrix.axes();
        axes.extend(matrix.include.iter().flat_map(|entry| entry.values.iter().map(|(name, _)| name.value.as_str())));
        Condition::parse(text, node.span, &axes, params, self.sources, self.problems)
    }

    fn assignments(&mut self, node: &Node, what: &str, params: &Names) -> Vec<Assignment> {
        let NodeKind::List(items) = &node.kind else {
            let help = "write a list of maps from axis to value: `[{ axis: value }]`";
            self.problem(node.span, format!("{what} must be a list, found {}", node.describe()), "not a list", help);
            return Vec::new();
        };
        let mut assignments = Vec::new();
        for item in items {
            let mut values = Vec::new();
            for entry in self.entries(item, &format!("an entry of {what}")) {
                self.check_name(&entry.key, "axis");
                values.extend(self.value(&entry.value, params).map(|value| (entry.key.clone(), value)));
            }
            assignments.push(Assignment { values, span: item.span });
        }
        assignments
    }
}
