//! `tables`: metrics of steps in rows and columns.

use serde_json::{Value as Json, json};
use sweep_job::{Backend, Task, same_metric};

use super::{
    Aggregate, Analysis, Compare, Effects, Lower,
    aggregate::AggregateKeys,
    analyses::{CurveKeys, FitKeys, ProfileKeys, VarianceKeys},
    claims::{BACKENDS, Context},
    effects::EffectKeys,
    find, least,
    metrics::{CONDITIONS, MetricTraits, Missing, Rules, traits_of},
    paper::{Extent, PaperRow},
};
use crate::{
    recipe::{
        Claim, Selection, Step,
        keys::{Custom, Given, Mapping as _, Text, Texts, Within, Word, Words, mapping, meaning},
        node::{Entry, Node, NodeKind},
        problem::suggest,
        source::{Span, Spanned},
    },
    stats::Better,
};

/// A table of a report.
#[derive(Debug, Clone)]
pub struct Table {
    /// The table's name, which is also the name of its files.
    pub name: Spanned<String>,
    /// The table's heading.
    pub title: Option<String>,
    /// The metrics shown.
    pub cells: Vec<Spanned<String>>,
    /// The kind of the table.
    pub kind: TableKind,
    /// Rules for missing results and conditions.
    pub rules: Rules,
}

/// The kinds of tables.
#[derive(Debug, Clone)]
pub enum TableKind {
    /// Metrics by axes.
    Metrics(Metrics),
    /// Differences or ratios of metrics between values of an axis.
    Compare(Compare),
    /// Effects of factors on metrics.
    Effects(Effects),
    /// Metrics by one axis, aggregated over many tasks.
    Aggregate(Aggregate),
    /// A further analysis, with rows of its own.
    Analysis(Analysis),
    /// Ratios of metrics between the sides of claims with a ratio. The values are indices into
    /// [`crate::recipe::Recipe::claims`].
    Claims(Vec<Spanned<usize>>),
}

/// Selected points of a step.
#[derive(Debug, Clone)]
pub struct OfStep {
    /// The step, as an index into [`crate::recipe::Recipe::steps`].
    pub step: usize,
    /// The selected points.
    pub only: Selection,
}

/// Metrics by axes.
#[derive(Debug, Clone)]
pub struct Metrics {
    /// The points that were measured.
    pub of: OfStep,
    /// The axes of the rows.
    pub rows: Vec<Spanned<String>>,
    /// The axes of the groups of columns.
    pub columns: Vec<Spanned<String>>,
    /// The explicit better direction of metrics, by which values are marked; `None` marks nothing.
    pub best: Vec<(Spanned<String>, Option<Better>)>,
    /// The values in the paper.
    pub paper: Vec<PaperRow>,
    /// The backends and the sizes that the comparisons of the table are about.
    pub about: Extent,
}

impl Table {
    /// The steps of the table, as indices into [`crate::recipe::Recipe::steps`].
    pub fn steps(&self, claims: &[Claim]) -> Vec<usize> {
        match &self.kind {
            TableKind::Metrics(Metrics { of, .. })
            | TableKind::Compare(Compare { of, .. })
            | TableKind::Effects(Effects { of, .. })
            | TableKind::Aggregate(Aggregate { of, .. })
            | TableKind::Analysis(Analysis { of, .. }) => vec![of.step],
            TableKind::Claims(rows) => {
                rows.iter().flat_map(|row| claims[row.value].selections()).map(|(step, _)| step).collect()
            }
        }
    }

    /// The table's own selections, each with its step. The selections of claims are not among them.
    pub fn selections(&self) -> Vec<(usize, Selection)> {
        match &self.kind {
            TableKind::Metrics(Metrics { of, paper, .. }) => {
                let paper = paper.iter().map(|row| (of.step, row.only.clone()));
                std::iter::once((of.step, of.only.clone())).chain(paper).collect()
            }
            TableKind::Compare(compare) => {
                vec![(compare.of.step, compare.of.only.clone()), (compare.of.step, compare.selection())]
            }
            TableKind::Effects(Effects { of, .. }) => vec![(of.step, of.only.clone())],
            TableKind::Aggregate(aggregate) => {
                vec![(aggregate.of.step, aggregate.of.only.clone()), (aggregate.of.step, aggregate.selection())]
            }
            TableKind::Analysis(analysis) => {
                vec![(analysis.of.step, analysis.of.only.clone()), (analysis.of.step, analysis.selection())]
            }
            TableKind::Claims(_) => Vec::new(),
        }
    }
}

mapping! {
    /// The keys of a table.
    struct TableKeys = "table" {
        /// The heading of the table. Default: the name of the table.
        title: Text,
        /// The step whose metrics are shown.
        from: Text = Text::NAME,
        /// Selects the points that have these values.
        only = "where": Custom = Custom::SELECTION,
        /// The axes whose values form the rows.
        rows: Texts = Texts::NAMES,
        /// The axes whose values form the columns.
        ///
        /// Every combination of their values has one column per metric.
        columns: Texts = Texts::NAMES,
        /// The metrics to show. Values are averaged over axes that are neither rows nor columns.
        ///
        /// The metrics depend on the task of the step. For `command` any name is accepted.
        cells: Texts = Texts { schema: cells, accepts: "a metric, or a list of metrics" },
        /// Shows differences instead of metrics, with one row per pair of values.
        ///
        /// It replaces `rows` and `columns`.
        compare: Within<super::compare::CompareKeys<'static>>,
        /// Shows effects of factors instead of metrics, and each factor's share of the variance between points.
        ///
        /// It replaces `rows` and `columns`.
        effects: Within<EffectKeys<'static>>,
        /// Shows one number for each value of an axis over many tasks: the interquartile mean, and the probability of
        /// being better than a baseline.
        ///
        /// It replaces `rows` and `columns`.
        aggregate: Within<AggregateKeys<'static>>,
        /// Shows a number that is computed from each job's curve, by one axis: the steps to a target, the area below
        /// the curve, or the value at equal compute.
        ///
        /// It replaces `rows` and `columns`.
        curve: Within<CurveKeys<'static>>,
        /// Shows performance profiles: how close each method is to the fastest method, over workloads with one target
        /// each.
        ///
        /// It replaces `rows` and `columns`.
        profile: Within<ProfileKeys<'static>>,
        /// Shows a power law of metrics over sizes, its prediction at another size, and whether small sizes give the
        /// same ranking as the largest size.
        ///
        /// It replaces `rows` and `columns`.
        fit: Within<FitKeys<'static>>,
        /// Shows the contribution of each source of randomness to the variance of a measurement, such as the seeds of
        /// the data order and of the initialization.
        ///
        /// It replaces `rows` and `columns`.
        variance: Within<VarianceKeys<'static>>,
        /// The better direction of metrics, by which the best value is marked. Default: `min` for losses, times and
        /// sizes, `max` for rates.
        best: Custom = Custom { schema: best, accepts: "metric to `min`, `max` or `none`" },
        /// Values in the paper, which are shown next to the measured ones. An entry contains values of axes and of
        /// metrics.
        ///
        /// For example `{ prune: none, loss: 3.15, time.step: 40ms }`.
        paper: Custom = Custom {
            schema: || json!({ "type": "array", "minItems": 1, "items": { "type": "object", "minProperties": 1 } }),
            accepts: "a list of maps",
        },
        /// The backends to which the paper's values apply; on other backends, no difference from these values is
        /// shown. In a table without `paper`, the backends on which rows are ranked: on other backends, rows may be
        /// the same program.
        hardware: Words<Backend> = Words(BACKENDS),
        /// The minimum size at which a difference from the paper's values is shown, or rows are ranked, as with
        /// `hardware`: parameters, axes or metrics, each with its minimum number or its required text, as in a claim.
        scale: Custom = Custom { schema: least::schema, accepts: "name to a number, or to a text" },
        /// Claims with a `ratio` to show instead of a step. A row has the two sides, the value in the paper and the
        /// verdict.
        ///
        /// Each metric of `cells` has a column with its ratio between the two sides, which may belong to different
        /// steps. Only `title` and `cells` can be combined with `claims`.
        claims: Texts = Texts::NAMES,
        /// The treatment of jobs without a result in comparisons and marks. Default: `block`, which leaves them
        /// undecided.
        ///
        /// `worst` counts a missing result as the worst measured value; with `compare`, it requires metrics with a
        /// better direction. `ignore` leaves the missing result out.
        missing: Word<Missing> = Word(Missing::WORDS),
        /// The required conditions of times and rates in comparisons and marks: measured under like conditions, or
        /// under any conditions. Default: `alike`.
        ///
        /// See [docs/statistics.md](statistics.md).
        conditions: Word<bool> = Word(CONDITIONS),
    }
}

fn cells() -> Json {
    let mut metrics: Vec<&str> = Vec::new();
    let mut docs: Vec<String> = Vec::new();
    for (task, metric) in Task::all().iter().flat_map(|task| task.metrics().map(move |metric| (task, metric))) {
        let doc = format!("{}: {}", task.name, metric.doc);
        match metrics.iter().position(|known| *known == metric.name) {
            Some(place) => docs[place] = format!("{} {doc}", docs[place]),
            None => {
                metrics.push(metric.name);
                docs.push(doc);
            }
        }
    }
    // A schema cannot see the step of a table, and `command` accepts any metric. So every name is valid, and the
    // declared ones are offered.
    json!({
        "type": ["string", "array"],
        "minLength": 1,
        "minItems": 1,
        "items": { "anyOf": [{ "enum": metrics, "enumDescriptions": docs }, { "type": "string", "minLength": 1 }] },
    })
}

/// The schema of `best`.
pub(super) fn best() -> Json {
    let words: Vec<&str> = Better::WORDS.iter().map(|(word, _)| *word).collect();
    json!({ "type": "object", "additionalProperties": { "enum": words } })
}

/// The keys that can be combined with `claims`.
pub(in crate::recipe) const WITH_CLAIMS: &[&str] = &["title", "claims", "cells"];

/// True if a table has claims as rows.
fn has_claims(entry: &Entry) -> bool {
    matches!(&entry.value.kind, NodeKind::Map(keys) if find(keys, "claims").is_some())
}

impl Lower<'_> {
    pub(super) fn tables(&mut self, node: &Node, context: &Context<'_>) -> Vec<Table> {
        let entries = self.entries(node, "`tables`");
        let tables = entries.iter().filter(|entry| !has_claims(entry));
        tables.filter_map(|entry| self.table(entry, context)).collect()
    }

    /// The tables that have claims as rows.
    pub(super) fn tables_of_claims(&mut self, node: &Node, steps: &[Step], claims: &[Claim]) -> Vec<Table> {
        // A value that is not a map has been reported with the other tables.
        let NodeKind::Map(entries) = &node.kind else { return Vec::new() };
        let tables = entries.iter().filter(|entry| has_claims(entry));
        tables.filter_map(|entry| self.table_of_claims(entry, steps, claims)).collect()
    }

    fn table_of_claims(&mut self, entry: &Entry, steps: &[Step], claims: &[Claim]) -> Option<Table> {
        let name = &entry.key;
        self.check_name(name, "table");
        let entries = self.map(&entry.value, "a table of claims", WITH_CLAIMS)?;
        let keys = TableKeys::of(self, entries);
        let (wanted, cells) = (keys.claims.value.unwrap_or_default(), keys.cells.value.unwrap_or_default());
        if cells.is_empty() && !self.is_meant(&entry.value, "cells") {
            let help = "add `cells:` with metrics that the claims' steps measure, for example `[time.call]`";
            self.problem(name.span, format!("table `{}` shows no metric", name.value), "`cells` is missing", help);
        }
        let mut rows = Vec::new();
        for claim in wanted {
            let Some(index) = claims.iter().position(|known| known.name.value == claim.value) else {
                let names = claims.iter().map(|claim| claim.name.value.as_str());
                let help = suggest(&claim.value, "claims", names).unwrap_or_default();
                let message = format!("table `{}` refers to unknown claim `{}`", name.value, claim.value);
                self.problem(claim.span, message, "no claim has this name", help);
                continue;
            };
            let Some(comparison) = claims[index].statement.ratio() else {
                let message = format!("claim `{}` is not a `ratio`", claim.value);
                self.problem(claim.span, message, "has no two sides to divide", "leave it out of the table");
                continue;
            };
            for side in comparison.sides() {
                for cell in &cells {
                    self.check_metric(cell, &steps[side.step]);
                }
            }
            rows.push(Spanned::new(index, claim.span));
        }
        let (kind, rules) = (TableKind::Claims(rows), Rules::default());
        Some(Table { name: name.clone(), title: keys.title.value, cells, kind, rules })
    }

    fn table(&mut self, entry: &Entry, context: &Context<'_>) -> Option<Table> {
        let Context { steps, written, params, .. } = *context;
        let name = &entry.key;
        self.check_name(name, "table");
        let keys = TableKeys::read(self, &entry.value, "a table")?;
        let (from, step) = self.from(entry, "table", keys.from, steps, written)?;
        let axes = step.axes();
        let (rows, columns) = (keys.rows.value.unwrap_or_default(), keys.columns.value.unwrap_or_default());
        for axis in rows.iter().chain(&columns) {
            self.check_axis(axis, step, &axes);
        }
        if let Some(twice) = columns.iter().find(|column| rows.iter().any(|row| row.value == column.value)) {
            let message = format!("axis `{}` is in `rows` and in `columns`", twice.value);
            self.problem(twice.span, message, "also a row", "keep it in one of them");
        }
        let only = keys.only.node().map(|node| self.selection(node, params)).unwrap_or_default();
        for (axis, _) in &only.0 {
            self.check_axis(axis, step, &axes);
        }
        let cells = keys.cells.value.unwrap_or_default();
        if cells.is_empty() && !self.is_meant(&entry.value, "cells") {
            let metrics: Vec<_> = step.task.metrics().map(|metric| metric.name).collect();
            let more = if step.task.open_metrics { ", and what the program reports" } else { "" };
            let help = format!("add `cells:` with metrics of `{}`: {}{more}", step.task.name, metrics.join(", "));
            self.problem(name.span, format!("table `{}` shows no metric", name.value), "`cells` is missing", help);
        }
        self.check_distinct([&rows, &columns, &cells]);
        for cell in &cells {
            self.check_metric(cell, step);
        }
        let of = OfStep { step: from.value, only };
        let compare = keys.compare.node().and_then(|node| self.compare(node, step, &of, params));
        if let (Some(axis), true) = (rows.iter().chain(&columns).next(), compare.is_some()) {
            let help = "remove `rows` and `columns`, or `compare`";
            self.problem(axis.span, "the rows of a table with `compare` are its pairs", "not allowed here", help);
        }
        let effects = keys.effects.node().and_then(|node| self.effects(node, step, of.clone()));
        let aggregate = keys.aggregate.node().and_then(|node| self.aggregate(node, step, of.clone(), params));
        let (profile, variance) = (("profile", keys.profile.node()), ("variance", keys.variance.node()));
        let analyses = [("curve", keys.curve.node()), profile, ("fit", keys.fit.node()), variance];
        let analysis = self.analysis(analyses, step, &of, params);
        let axis = rows.iter().chain(&columns).next().map(|axis| axis.span);
        let (best, paper, compared) = (keys.best.span(), keys.paper.span(), keys.compare.span());
        let beside = [("rows` or `columns", axis), ("best", best), ("paper", paper), ("compare", compared)];
        let analyzed = analyses.iter().find(|(_, node)| node.is_some()).map(|(key, _)| *key);
        self.check_kind(beside, keys.missing.span(), [keys.effects.span(), keys.aggregate.span()], analyzed);
        let best = keys.best.node().map_or_else(Vec::new, |node| self.best(node, &cells));
        let paper = keys.paper.node().map_or_else(Vec::new, |node| self.paper(node, step, &cells, context));
        for (key, given, is_empty) in [("best", &keys.best, best.is_empty()), ("paper", &keys.paper, paper.is_empty())]
        {
            if let (Some(node), false, true) = (given.node(), is_empty, compare.is_some()) {
                let message = format!("a table with `compare` cannot have `{key}`");
                self.problem(node.span, message, "only shown next to values", "remove it, or give it to another table");
            }
        }
        let marked = best.clone();
        let kind = compare
            .map(TableKind::Compare)
            .or_else(|| effects.map(TableKind::Effects))
            .or_else(|| aggregate.map(TableKind::Aggregate))
            .or_else(|| analysis.map(TableKind::Analysis))
            .unwrap_or_else(|| {
                let about = self.extent(&keys.hardware, &keys.scale, step);
                TableKind::Metrics(Metrics { of, rows, columns, best, paper, about })
            });
        if !matches!(kind, TableKind::Metrics(_)) {
            self.no_extent([("hardware", keys.hardware.span()), ("scale", keys.scale.span())]);
        }
        let better = |cell: &Spanned<String>| {
            let traits = traits_of(context.rules, step, &cell.value);
            let direction =
                marked.iter().find(|(name, _)| same_metric(&name.value, &cell.value)).map(|(_, better)| *better);
            (cell.value.clone(), MetricTraits { better: direction.unwrap_or(traits.better), ..traits })
        };
        // A metric without a better direction has no marks, but it has differences.
        if !matches!(kind, TableKind::Metrics(_)) {
            self.check_worst(&keys.missing, cells.iter().map(better));
        }
        let rules = Rules::of(&keys.missing, &keys.conditions);
        Some(Table { name: name.clone(), title: keys.title.value, cells, kind, rules })
    }

    /// Reports names that a list has twice.
    fn check_distinct(&mut self, lists: [&[Spanned<String>]; 3]) {
        for list in lists {
            for (index, name) in list.iter().enumerate() {
                if list[..index].iter().any(|earlier| earlier.value == name.value) {
                    self.problem(name.span, format!("`{}` is listed twice", name.value), "again", "remove one of them");
                }
            }
        }
    }

    /// Reports keys for which a table of effects, of aggregates or of the analysis with this key has no place.
    fn check_kind(
        &mut self,
        keys: [(&str, Option<Span>); 4],
        missing: Option<Span>,
        [effects, aggregate]: [Option<Span>; 2],
        analyzed: Option<&str>,
    ) {
        if let Some(key) = analyzed {
            let further_keys = [("effects", effects), ("aggregate", aggregate)];
            self.no_place(
                &format!("a table with `{key}`"),
                "it has rows of its own",
                keys.into_iter().chain(further_keys),
            );
        }
        if effects.is_some() {
            let more = [("missing", missing), ("aggregate", aggregate)];
            self.no_place("a table of effects", "effects are its rows", keys.into_iter().chain(more));
        } else if aggregate.is_some() {
            self.no_place("a table of aggregates", "the values of its axis are its rows", keys.into_iter());
        }
    }

    pub(super) fn no_place<'k>(&mut self, what: &str, why: &str, keys: impl Iterator<Item = (&'k str, Option<Span>)>) {
        for (key, span) in keys {
            let Some(span) = span else { continue };
            let message = format!("{what} cannot have `{key}`");
            self.problem(span, message, why, "remove it, or give it to another table");
        }
    }

    /// Reads `{ loss: min, accuracy: max, perplexity: none }`.
    pub(super) fn best(&mut self, node: &Node, cells: &[Spanned<String>]) -> Vec<(Spanned<String>, Option<Better>)> {
        let mut best = Vec::new();
        for entry in self.entries(node, "`best`") {
            self.check_cell(&entry.key, cells, "`best`");
            let Some(word) = self.text(&entry.value, "`best`") else { continue };
            let word = Spanned::new(word, entry.value.span);
            best.extend(meaning(self, Better::WORDS, &word, "best").map(|better| (entry.key.clone(), better)));
        }
        best
    }

    pub(super) fn check_cell(&mut self, metric: &Spanned<String>, cells: &[Spanned<String>], what: &str) {
        if !cells.iter().any(|cell| same_metric(&cell.value, &metric.value)) {
            let names = cells.iter().map(|cell| cell.value.as_str());
            let help = suggest(&metric.value, "metrics shown", names).unwrap_or_default();
            let message = format!("{what} refers to `{}`, which is not shown", metric.value);
            self.problem(metric.span, message, "not shown", help);
        }
    }

    /// Reads the step of a table or a figure.
    pub(super) fn from<'s>(
        &mut self,
        entry: &Entry,
        what: &str,
        from: Given<'_, String>,
        steps: &'s [Step],
        written: &[String],
    ) -> Option<(Spanned<usize>, &'s Step)> {
        let name = &entry.key;
        if self.is_missing(&entry.value, "from", &from) {
            let message = format!("{what} `{}` names no step", name.value);
            self.problem(name.span, message, "`from` is missing", "add `from:` with the name of a step");
        }
        let from = from.spanned()?;
        let Some((index, step)) = steps.iter().enumerate().find(|(_, step)| step.name.value == from.value) else {
            // A mistake in the step itself has already been reported.
            if !written.contains(&from.value) {
                let help = suggest(&from.value, "steps", written.iter().map(String::as_str)).unwrap_or_default();
                let message = format!("{what} `{}` refers to unknown step `{}`", name.value, from.value);
                self.problem(from.span, message, "no step has this name", help);
            }
            return None;
        };
        Some((Spanned::new(index, from.span), step))
    }
}
