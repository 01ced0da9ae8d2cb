//! `claims`: statements about metrics and their bounds.

use sweep_job::{Backend, Value};

use super::{BACKEND_NAMES, CLAIM_KEYS, COMPARED_KEYS, EXPECT_KEYS, Lower, ORDER_KEYS, VALUE_KEYS, find};
use crate::recipe::{
    Claim, Comparison, Expectation, Names, Order, Selection, Side, Statement, Step,
    node::{Entry, Node, NodeKind},
    problem::suggest,
    source::{Span, Spanned},
};

/// The keys of a claim of which exactly one says what it is about.
const STATEMENTS: [&str; 4] = ["value", "ratio", "difference", "order"];

/// Context for reading claims.
struct Context<'a> {
    steps: &'a [Step],
    /// The steps that the author wrote, those with a mistake included.
    written: &'a [String],
    params: &'a Names,
}

impl Lower<'_> {
    pub(super) fn claims(&mut self, node: &Node, steps: &[Step], written: &[String], params: &Names) -> Vec<Claim> {
        let context = Context { steps, written, params };
        let entries = self.entries(node, "`claims`");
        entries.iter().filter_map(|entry| self.claim(entry, &context)).collect()
    }

    fn claim(&mut self, entry: &Entry, context: &Context<'_>) -> Option<Claim> {
        let name = &entry.key;
        self.check_name(name, "claim");
        let keys = self.map(&entry.value, "a claim", CLAIM_KEYS)?;
        let says = find(keys, "says").and_then(|node| self.text(node, "`says`"));
        let paper = find(keys, "paper").and_then(|node| self.number(node, "`paper`"));
        let hardware = find(keys, "hardware").map(|node| self.hardware(node)).unwrap_or_default();
        let given: Vec<&Entry> = keys.iter().filter(|entry| STATEMENTS.contains(&entry.key.value.as_str())).collect();
        let [statement] = given.as_slice() else {
            let message = format!("claim `{}` must say exactly one thing", name.value);
            let help = format!("give it one of {}", STATEMENTS.map(|word| format!("`{word}`")).join(", "));
            let span = given.get(1).map_or(name.span, |entry| entry.key.span);
            self.problem(span, message, "what does it claim?", help);
            return None;
        };
        let expect = find(keys, "expect").map(|node| (self.expectation(node), node.span));
        let statement = match statement.key.value.as_str() {
            "order" => {
                if let Some((_, span)) = expect {
                    let help = "the order itself is what is expected; remove `expect`";
                    self.problem(span, "`order` needs no `expect`", "not here", help);
                }
                Statement::Order(self.order(&statement.value, context)?)
            }
            kind => {
                let Some((expect, _)) = expect else {
                    let help = "add `expect: { at_most: X }`, `{ at_least: X }` or both";
                    self.problem(
                        name.span,
                        format!("claim `{}` expects nothing", name.value),
                        "`expect` is missing",
                        help,
                    );
                    return None;
                };
                let comparison = self.comparison(&statement.value, kind, context)?;
                match kind {
                    "value" => Statement::Value(comparison, expect?),
                    "ratio" => Statement::Ratio(comparison, expect?),
                    _ => Statement::Difference(comparison, expect?),
                }
            }
        };
        Some(Claim { name: name.clone(), says, statement, paper, hardware })
    }

    /// `{ metric, of, to }`; a value has no `to`.
    fn comparison(&mut self, node: &Node, kind: &str, context: &Context<'_>) -> Option<Comparison> {
        let of_two = kind != "value";
        let keys = self.map(node, &format!("`{kind}`"), if of_two { COMPARED_KEYS } else { VALUE_KEYS })?;
        let mut side = |key: &str| {
            let Some(node) = find(keys, key) else {
                let help = format!("write `{key}: {{ step: NAME, axis: value }}`");
                self.problem(node.span, format!("`{kind}` lacks `{key}`"), "which jobs?", help);
                return None;
            };
            self.side(node, key, context)
        };
        let of = side("of");
        let to = if of_two { side("to").map(Some) } else { Some(None) };
        let metric = self.metric(node, keys, kind);
        let (of, to, metric) = (of?, to?, metric?);
        for side in std::iter::once(&of).chain(&to) {
            self.check_metric(&metric, &context.steps[side.step]);
        }
        Some(Comparison { metric, of, to })
    }

    fn metric(&mut self, node: &Node, keys: &[Entry], kind: &str) -> Option<Spanned<String>> {
        let Some(metric) = find(keys, "metric") else {
            let help = "add `metric:` with what the step measures, for example `metric: loss`";
            self.problem(node.span, format!("`{kind}` has no metric"), "of what?", help);
            return None;
        };
        Some(Spanned::new(self.text(metric, "`metric`")?, metric.span))
    }

    pub(super) fn check_metric(&mut self, metric: &Spanned<String>, step: &Step) {
        if !step.task.open_metrics && step.task.metric(&metric.value).is_none() {
            let metrics = step.task.metrics().map(|metric| metric.name);
            let help = suggest(&metric.value, "metrics", metrics).unwrap_or_default();
            let message = format!("task `{}` does not measure `{}`", step.task.name, metric.value);
            self.problem(metric.span, message, "unknown metric", help);
        }
    }

    /// `{ step: train, prune: bitter7 }`: the points of a step that have these values.
    fn side(&mut self, node: &Node, what: &str, context: &Context<'_>) -> Option<Side> {
        let entries = self.entries(node, &format!("`{what}`"));
        let step = self.claimed_step(node, entries, context)?;
        let entries: Vec<Entry> = entries.iter().filter(|entry| entry.key.value != "step").cloned().collect();
        let rest = Node { kind: NodeKind::Map(entries), span: node.span };
        let only = self.claimed_points(&rest, &context.steps[step], context.params);
        Some(Side { step, only, span: node.span })
    }

    fn claimed_step(&mut self, node: &Node, entries: &[Entry], context: &Context<'_>) -> Option<usize> {
        let Some(step) = find(entries, "step") else {
            self.problem(node.span, "which step is this about?", "`step` is missing", "add `step: NAME`");
            return None;
        };
        let name = self.text(step, "`step`")?;
        let index = context.steps.iter().position(|known| known.name.value == name);
        // A step with a mistake of its own has been reported.
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

    /// `{ metric, step, axis, ascending, where }`.
    fn order(&mut self, node: &Node, context: &Context<'_>) -> Option<Order> {
        let keys = self.map(node, "`order`", ORDER_KEYS)?;
        let metric = self.metric(node, keys, "order");
        let step = self.claimed_step(node, keys, context);
        let Some(ascending) = find(keys, "ascending") else {
            let help = "add `ascending:` with the axis's values, that with the smallest metric first";
            self.problem(node.span, "`order` does not say which order", "`ascending` is missing", help);
            return None;
        };
        let Some(axis) = find(keys, "axis") else {
            self.problem(node.span, "`order` does not say of what", "`axis` is missing", "add `axis: NAME`");
            return None;
        };
        let axis = Spanned::new(self.text(axis, "`axis`")?, axis.span);
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
        let only = find(keys, "where").map(|node| self.claimed_points(node, owner, context.params));
        Some(Order { metric, step, axis, ascending: values, only: only.unwrap_or_default(), span: ascending.span })
    }

    fn expectation(&mut self, node: &Node) -> Option<Expectation> {
        let keys = self.map(node, "`expect`", EXPECT_KEYS)?;
        let at_least = find(keys, "at_least").and_then(|node| self.number(node, "`at_least`"));
        let at_most = find(keys, "at_most").and_then(|node| self.number(node, "`at_most`"));
        match (at_least, at_most) {
            (None, None) => {
                if keys.is_empty() {
                    let help = "write `{ at_most: X }`, `{ at_least: X }` or both";
                    self.problem(node.span, "`expect` expects nothing", "empty", help);
                }
                None
            }
            (Some(least), Some(most)) if least > most => {
                let message = format!("nothing is at least {least} and at most {most}");
                self.problem(node.span, message, "cannot hold", "exchange the two");
                None
            }
            _ => Some(Expectation { at_least, at_most }),
        }
    }

    fn number(&mut self, node: &Node, what: &str) -> Option<f64> {
        let number = match &node.kind {
            NodeKind::Scalar(value @ (Value::Int(_) | Value::Float(_))) => value.as_f64(),
            _ => None,
        };
        if number.is_none() {
            let message = format!("{what} must be a number, found {}", node.describe());
            self.problem(node.span, message, "not a number", "write a number, for example `1.02`");
        }
        number
    }

    /// The backends that a claim is about.
    fn hardware(&mut self, node: &Node) -> Vec<Backend> {
        let mut backends = Vec::new();
        for Spanned { value, span } in self.texts(node, "`hardware`") {
            match [Backend::Cuda, Backend::Wgpu, Backend::Cpu].into_iter().find(|backend| backend.name() == value) {
                Some(backend) => backends.push(backend),
                None => self.unknown_backend(&value, span),
            }
        }
        backends
    }

    fn unknown_backend(&mut self, name: &str, span: Span) {
        let help = suggest(name, "backends", BACKEND_NAMES.iter().copied()).unwrap_or_default();
        self.problem(span, format!("unknown backend `{name}`"), "no backend has this name", help);
    }
}
