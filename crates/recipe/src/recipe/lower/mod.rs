//! [`Node`] to [`Recipe`](super::Recipe): declares and reads every key, and reports all mistakes at once.
//!
//! Each part of the language has a file, which declares its keys ([`super::keys`]) and reads them.

mod adaptive;
mod aggregate;
mod analyses;
mod claims;
mod compare;
mod confirm;
mod effects;
pub mod executor;
mod expect;
mod family;
mod figures;
mod items;
mod law;
mod least;
mod looks;
mod matrix;
mod metrics;
mod misread;
mod notify;
mod paper;
mod recipe;
mod replicates;
mod resources;
mod scales;
mod search;
mod statement;
mod states;
mod statistic;
mod steps;
mod suggest;
mod sweep;
mod tables;
mod variants;

use std::collections::HashSet;

use sweep_job::Value;

pub use self::expect::brief;
pub use self::{
    adaptive::Adaptive,
    aggregate::Aggregate,
    analyses::{Analysis, AnalysisKind, CurveRead, CurveTable, Fit, Profile},
    claims::Claim,
    compare::{Compare, ComparedValues},
    confirm::Confirm,
    effects::{Effects, Interactions},
    expect::{Bound, Expectation},
    family::Family,
    figures::Figure,
    items::Items,
    law::Law,
    least::Least,
    metrics::{MetricRule, MetricTraits, Missing, ReadOff, Rules, UnitOf},
    notify::{Notify, Occasion},
    paper::{Extent, PaperRow},
    recipe::Citation,
    replicates::Replication,
    resources::{GpuMemory, ResourceCount, Resources},
    search::{Racing, Rungs, Search},
    statement::{Comparison, Measure, Order, Side, Statement},
    states::{AdoptPolicy, KeptStates, StatePolicy},
    statistic::Statistic,
    steps::{Need, Policy},
    suggest::Suggest,
    tables::{Metrics, OfStep, Table, TableKind},
};
pub(super) use self::{
    claims::{ClaimKeys, one_statement, side},
    family::claims_schema,
    figures::figure,
    matrix::{DrawForms, axis, matrix},
    recipe::RecipeKeys,
    scales::{PLAIN, Scale},
    steps::{StepKeys, need},
    suggest::SpaceForms,
    sweep::{Sweep, SweepKeys},
    tables::{TableKeys, WITH_CLAIMS},
};
use super::{
    Known, MAX_NAME_LENGTH, Names, Selection, Step, Template, check_references, is_name,
    keys::{Declaration, Given, Mapping as _},
    node::{Entry, Node, NodeKind},
    problem::{Collector, Problem, suggest},
    source::{Sources, Span, Spanned},
};

/// Every mapping of the language, including the kinds of figures, in the order of the documentation.
pub(super) fn declarations() -> Vec<Declaration> {
    let before = [
        RecipeKeys::declaration(),
        recipe::CiteKeys::declaration(),
        notify::NotifyKeys::declaration(),
        StepKeys::declaration(),
        steps::NeedKeys::declaration(),
        items::ItemKeys::declaration(),
        resources::ResourceKeys::declaration(),
        states::StateKeys::declaration(),
        states::AdoptKeys::declaration(),
        matrix::MatrixKeys::declaration(),
        matrix::AxisForms::declaration(),
        matrix::RandomKeys::declaration(),
        DrawForms::declaration(),
        adaptive::AdaptiveKeys::declaration(),
        matrix::AblateKeys::declaration(),
        search::SearchKeys::declaration(),
        search::RungKeys::declaration(),
        search::AsynchronousKeys::declaration(),
        search::RacingKeys::declaration(),
        suggest::SuggestKeys::declaration(),
        SpaceForms::declaration(),
        confirm::ConfirmKeys::declaration(),
        suggest::SamplerKeys::declaration(),
        scales::ScaleKeys::declaration(),
        SweepKeys::declaration(),
    ];
    let after = [
        TableKeys::declaration(),
        compare::CompareKeys::declaration(),
        effects::EffectKeys::declaration(),
        aggregate::AggregateKeys::declaration(),
        analyses::CurveKeys::declaration(),
        analyses::ProfileKeys::declaration(),
        analyses::FitKeys::declaration(),
        analyses::VarianceKeys::declaration(),
        figures::FigureKeys::declaration(),
        figures::kinds(),
        figures::RoofKeys::declaration(),
        ClaimKeys::declaration(),
        claims::ValueKeys::declaration(),
        claims::ComparedKeys::declaration(),
        law::LawKeys::declaration(),
        claims::OrderKeys::declaration(),
        expect::ExpectKeys::declaration(),
        metrics::MetricKeys::declaration(),
        metrics::ReadKeys::declaration(),
    ];
    before.into_iter().chain(executor::declarations()).chain(after).collect()
}

/// State of the conversion from the values of a text to a recipe.
pub(super) struct Lower<'a> {
    sources: &'a mut Sources,
    problems: &'a mut Collector,
    /// Keys for which a mapping has an unknown word, each with the place of the mapping, and names in values of a step that
    /// cannot be read, each with the place of the step's name.
    meant: HashSet<(Span, String)>,
    variants: variants::Variants,
    /// The metrics that are read off curves.
    derived: Vec<String>,
}

impl<'a> Lower<'a> {
    pub(super) fn new(sources: &'a mut Sources, problems: &'a mut Collector) -> Self {
        Self { sources, problems, meant: HashSet::new(), variants: variants::Variants::default(), derived: Vec::new() }
    }

    /// Reads `where`: axis to a value or to a list of values.
    fn selection(&mut self, node: &Node, params: &Names) -> Selection {
        let mut selection = Selection::default();
        for entry in self.entries(node, "`where`") {
            let items = match &entry.value.kind {
                NodeKind::List(items) => items.as_slice(),
                _ => std::slice::from_ref(&entry.value),
            };
            let values = items.iter().filter_map(|item| self.value(item, params)).collect();
            selection.0.push((entry.key.clone(), values));
        }
        selection
    }

    /// Reads a number that must be greater than 0.
    fn positive(&mut self, given: &Given<'_, f64>, key: &str, label: &str, help: &str) -> Option<f64> {
        let (value, span) = (given.value?, given.span()?);
        if value > 0.0 && value.is_finite() {
            return Some(value);
        }
        self.problem(span, format!("`{key}` must be greater than 0"), label, help);
        None
    }

    fn check_axis(&mut self, axis: &Spanned<String>, step: &Step, axes: &[&str]) {
        if !axes.contains(&axis.value.as_str()) {
            let help = suggest(&axis.value, "axes", axes.iter().copied())
                .unwrap_or_else(|| format!("step `{}` has no axes", step.name.value));
            let message = format!("step `{}` has no axis `{}`", step.name.value, axis.value);
            self.problem(axis.span, message, "unknown axis", help);
        }
    }

    // ---- Shapes -----------------------------------------------------------------------------------------------------

    /// The entries of a map that accepts only certain keys.
    pub(super) fn map<'n>(&mut self, node: &'n Node, what: &str, allowed: &[&str]) -> Option<&'n [Entry]> {
        let NodeKind::Map(entries) = &node.kind else {
            self.not_a_map(node, what, || format!("write keys and values: {}", allowed.join(", ")));
            return None;
        };
        for entry in entries {
            let key = entry.key.value.as_str();
            if !allowed.contains(&key) {
                let (meant, help) = self.instead(entry, what, allowed);
                self.meant.extend(meant.into_iter().map(|key| (node.span, key)));
                self.problem(entry.key.span, format!("unknown key `{key}` in {what}"), "unknown key", help);
            }
        }
        Some(entries)
    }

    /// True if `key` is absent from a mapping that was read. A misspelled key counts as `key`: the message for the misspelling has the
    /// remedy, and a missing `key` is not reported again.
    fn is_missing<T>(&self, node: &Node, key: &str, given: &Given<'_, T>) -> bool {
        !given.is_there() && !self.is_meant(node, key)
    }

    /// True if a mapping that was read has an unknown word for `key`.
    fn is_meant(&self, node: &Node, key: &str) -> bool {
        self.meant.contains(&(node.span, key.to_owned()))
    }

    /// The entries of a map whose keys the author chooses.
    fn entries<'n>(&mut self, node: &'n Node, name: &str) -> &'n [Entry] {
        match &node.kind {
            NodeKind::Map(entries) => entries,
            _ => {
                let example = match name {
                    "`matrix`" => "write axes with their values: `matrix: { lr: [1e-4, 1e-3] }`",
                    "`tables`" => "write `tables: { NAME: { from: STEP, rows: [AXIS], cells: [METRIC] } }`",
                    "`steps`" => "write `steps: { NAME: { uses: TASK } }`",
                    _ => "write `name: value` lines",
                };
                self.not_a_map(node, name, || example.to_owned());
                &[]
            }
        }
    }

    pub(super) fn text(&mut self, node: &Node, what: &str) -> Option<String> {
        match &node.kind {
            NodeKind::Scalar(Value::Text(text)) => Some(text.clone()),
            _ => {
                let message = format!("{what} must be text, found {}", node.describe());
                let help = match &node.kind {
                    NodeKind::Scalar(_) => "put quotes around it",
                    NodeKind::List(_) | NodeKind::Map(_) => "write one text",
                };
                self.problem(node.span, message, "not text", help);
                None
            }
        }
    }

    /// Reads a list of texts, or one text.
    pub(super) fn texts(&mut self, node: &Node, what: &str) -> Vec<Spanned<String>> {
        let items = match &node.kind {
            NodeKind::List(items) => items.as_slice(),
            NodeKind::Scalar(Value::Text(_)) => std::slice::from_ref(node),
            _ => {
                let message = format!("{what} must be a list of names, found {}", node.describe());
                self.problem(node.span, message, "not a list", "write `[name, name]`");
                return Vec::new();
            }
        };
        items.iter().filter_map(|item| Some(Spanned::new(self.text(item, what)?, item.span))).collect()
    }

    /// Reads a value whose expressions may refer only to params.
    fn value(&mut self, node: &Node, params: &Names) -> Option<Template> {
        let template = Template::parse(node, self.sources, self.problems)?;
        check_references(&template, params, Known::default(), self.sources, self.problems);
        Some(template)
    }

    /// Reads a value without expressions.
    fn literal(&mut self, node: &Node) -> Option<Value> {
        let template = Template::parse(node, self.sources, self.problems)?;
        if let Some(reference) = template.references().first() {
            let help = "params are the values that expressions refer to; write the value itself";
            self.problem(reference.span, "an expression cannot be used here", "not a plain value", help);
            return None;
        }
        template.resolve(&Names::new(), &Names::new()).map(|value| value.value)
    }

    fn check_name(&mut self, name: &Spanned<String>, kind: &str) {
        if !is_name(&name.value) {
            self.bad_name(name, kind);
        }
    }

    fn bad_name(&mut self, name: &Spanned<String>, kind: &str) {
        let article = if kind.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
        let message = format!("`{}` cannot name {article} {kind}", name.value.escape_debug());
        let help = match name.value.len() {
            bytes if bytes > MAX_NAME_LENGTH => format!("a name has at most {MAX_NAME_LENGTH} characters, not {bytes}"),
            _ => "a name begins with a letter or `_` and continues with letters, digits, `-` and `_`".to_owned(),
        };
        self.problem(name.span, message, "not a name", help);
    }

    pub(super) fn problem(
        &mut self,
        span: Span,
        message: impl Into<String>,
        label: impl Into<String>,
        help: impl Into<String>,
    ) {
        let help = help.into();
        let problem = Problem::new(self.sources, span, message, label);
        self.problems.push(span, if help.is_empty() { problem } else { problem.help(help) });
    }
}

fn find<'n>(entries: &'n [Entry], key: &str) -> Option<&'n Node> {
    entries.iter().find(|entry| entry.key.value == key).map(|entry| &entry.value)
}
