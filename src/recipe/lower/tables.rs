//! `tables`: steps, metrics, rows and columns.

use sweep_job::{
    Unit, Value, current_name,
    units::{parse_bytes, parse_seconds},
};

use super::{COMPARE_KEYS, Lower, SUMMARY_KEYS, TABLE_KEYS, find};
use crate::recipe::{
    Better, Claim, Compare, Names, PaperRow, Selection, Statement, Step, Summary, Table,
    node::{Entry, Node, NodeKind},
    problem::suggest,
    source::Spanned,
};

/// True if a table has claims as rows.
fn is_summary(entry: &Entry) -> bool {
    matches!(&entry.value.kind, NodeKind::Map(keys) if find(keys, "claims").is_some())
}

impl Lower<'_> {
    pub(super) fn tables(&mut self, node: &Node, steps: &[Step], written: &[String], params: &Names) -> Vec<Table> {
        let entries = self.entries(node, "`tables`");
        let tables = entries.iter().filter(|entry| !is_summary(entry));
        tables.filter_map(|entry| self.table(entry, steps, written, params)).collect()
    }

    /// The tables that have claims as rows.
    pub(super) fn summaries(&mut self, node: &Node, steps: &[Step], claims: &[Claim]) -> Vec<Summary> {
        // What is no map has been reported with the other tables.
        let NodeKind::Map(entries) = &node.kind else { return Vec::new() };
        let summaries = entries.iter().filter(|entry| is_summary(entry));
        summaries.filter_map(|entry| self.summary(entry, steps, claims)).collect()
    }

    fn summary(&mut self, entry: &Entry, steps: &[Step], claims: &[Claim]) -> Option<Summary> {
        let name = &entry.key;
        self.check_name(name, "table");
        let keys = self.map(&entry.value, "a table of claims", SUMMARY_KEYS)?;
        let title = find(keys, "title").and_then(|node| self.text(node, "`title`"));
        let wanted = find(keys, "claims").map_or_else(Vec::new, |node| self.texts(node, "`claims`"));
        let cells = find(keys, "cells").map_or_else(Vec::new, |node| self.texts(node, "`cells`"));
        if cells.is_empty() {
            let help = "add `cells:` with metrics that the claims' steps measure, for example `[time.call]`";
            self.problem(name.span, format!("table `{}` shows no metric", name.value), "`cells` is missing", help);
        }
        let mut rows = Vec::new();
        for claim in wanted {
            let Some(index) = claims.iter().position(|known| known.name.value == claim.value) else {
                let names = claims.iter().map(|claim| claim.name.value.as_str());
                let help = suggest(&claim.value, "claims", names).unwrap_or_default();
                let message = format!("table `{}` is about unknown claim `{}`", name.value, claim.value);
                self.problem(claim.span, message, "no claim has this name", help);
                continue;
            };
            let Statement::Ratio(comparison, _) = &claims[index].statement else {
                let message = format!("claim `{}` is no `ratio`", claim.value);
                self.problem(claim.span, message, "has no two sides to divide", "leave it out of the table");
                continue;
            };
            for side in std::iter::once(&comparison.of).chain(&comparison.to) {
                for cell in &cells {
                    self.check_metric(cell, &steps[side.step]);
                }
            }
            rows.push(Spanned::new(index, claim.span));
        }
        Some(Summary { name: name.clone(), title, claims: rows, cells })
    }

    fn table(&mut self, entry: &Entry, steps: &[Step], written: &[String], params: &Names) -> Option<Table> {
        let name = &entry.key;
        self.check_name(name, "table");
        let keys = self.map(&entry.value, "a table", TABLE_KEYS)?;
        let title = find(keys, "title").and_then(|node| self.text(node, "`title`"));
        let (from, step) = self.from(name, "table", keys, steps, written)?;
        let axes = step.axes();
        let rows = find(keys, "rows").map_or_else(Vec::new, |node| self.texts(node, "`rows`"));
        let columns = find(keys, "columns").map_or_else(Vec::new, |node| self.texts(node, "`columns`"));
        for axis in rows.iter().chain(&columns) {
            self.check_axis(axis, step, &axes);
        }
        if let Some(twice) = columns.iter().find(|column| rows.iter().any(|row| row.value == column.value)) {
            let message = format!("axis `{}` is in `rows` and in `columns`", twice.value);
            self.problem(twice.span, message, "also a row", "keep it in one of them");
        }
        let only = find(keys, "where").map(|node| self.selection(node, params)).unwrap_or_default();
        for (axis, _) in &only.0 {
            self.check_axis(axis, step, &axes);
        }
        let cells = find(keys, "cells").map_or_else(Vec::new, |node| self.texts(node, "`cells`"));
        if cells.is_empty() {
            let metrics: Vec<_> = step.task.metrics().map(|metric| metric.name).collect();
            let more = if step.task.open_metrics { ", and what the program reports" } else { "" };
            let help = format!("add `cells:` with metrics of `{}`: {}{more}", step.task.name, metrics.join(", "));
            self.problem(name.span, format!("table `{}` shows no metric", name.value), "`cells` is missing", help);
        }
        for list in [&rows, &columns, &cells] {
            for (index, name) in list.iter().enumerate() {
                if list[..index].iter().any(|earlier| earlier.value == name.value) {
                    self.problem(name.span, format!("`{}` is there twice", name.value), "again", "remove one of them");
                }
            }
        }
        for cell in &cells {
            self.check_metric(cell, step);
        }
        let compare = find(keys, "compare").and_then(|node| self.compare(node, step, params));
        if let (Some(axis), true) = (rows.iter().chain(&columns).next(), compare.is_some()) {
            let help = "remove `rows` and `columns`, or `compare`";
            self.problem(axis.span, "a table that compares has its pairs as rows", "no place for it", help);
        }
        let best = find(keys, "best").map_or_else(Vec::new, |node| self.best(node, &cells));
        let paper = find(keys, "paper").map_or_else(Vec::new, |node| self.paper(node, step, &cells, params));
        for (key, given) in [("best", !best.is_empty()), ("paper", !paper.is_empty())] {
            if let (Some(node), true, true) = (find(keys, key), given, compare.is_some()) {
                let message = format!("a table that compares has no place for `{key}`");
                self.problem(node.span, message, "shown beside values only", "remove it, or give it to another table");
            }
        }
        Some(Table { name: name.clone(), title, from, only, rows, columns, cells, compare, best, paper })
    }

    /// `{ loss: min, accuracy: max, perplexity: none }`.
    pub(super) fn best(&mut self, node: &Node, cells: &[Spanned<String>]) -> Vec<(Spanned<String>, Option<Better>)> {
        let mut best = Vec::new();
        for entry in self.entries(node, "`best`") {
            self.check_cell(&entry.key, cells, "`best`");
            let Some(word) = self.text(&entry.value, "`best`") else { continue };
            match Better::WORDS.iter().find(|(known, _)| *known == word) {
                Some((_, better)) => best.push((entry.key.clone(), *better)),
                None => {
                    let help = suggest(&word, "words", Better::WORDS.map(|(word, _)| word)).unwrap_or_default();
                    let message = format!("the best value is `min`, `max` or `none`, not `{word}`");
                    self.problem(entry.value.span, message, "unknown word", help);
                }
            }
        }
        best
    }

    fn check_cell(&mut self, metric: &Spanned<String>, cells: &[Spanned<String>], what: &str) {
        if !cells.iter().any(|cell| current_name(&cell.value) == current_name(&metric.value)) {
            let names = cells.iter().map(|cell| cell.value.as_str());
            let help = suggest(&metric.value, "metrics shown", names).unwrap_or_default();
            let message = format!("{what} speaks of `{}`, which is not shown", metric.value);
            self.problem(metric.span, message, "not shown", help);
        }
    }

    /// `[{ prune: none, loss: 3.1 }, …]`: axes say where, metrics say what the paper has there.
    fn paper(&mut self, node: &Node, step: &Step, cells: &[Spanned<String>], params: &Names) -> Vec<PaperRow> {
        let NodeKind::List(items) = &node.kind else {
            let help = "write a list: `[{ axis: value, metric: number }, …]`";
            self.problem(node.span, format!("`paper` must be a list, found {}", node.describe()), "not a list", help);
            return Vec::new();
        };
        let axes = step.axes();
        let mut rows = Vec::new();
        for item in items {
            let entries = self.entries(item, "an entry of `paper`");
            let (point, metrics): (Vec<Entry>, Vec<Entry>) =
                entries.iter().cloned().partition(|entry| axes.contains(&entry.key.value.as_str()));
            let only: Selection = self.selection(&Node { kind: NodeKind::Map(point), span: item.span }, params);
            let mut values = Vec::new();
            for entry in metrics {
                self.check_cell(&entry.key, cells, "`paper`");
                let unit = step.task.metric(&entry.key.value).map_or(Unit::One, |metric| metric.unit);
                values.extend(self.measured(&entry.value, unit).map(|value| (entry.key, value)));
            }
            if values.is_empty() {
                let help = "add a metric and its value, for example `loss: 3.1`";
                self.problem(item.span, "this entry of `paper` has no value", "measured what?", help);
            }
            rows.push(PaperRow { only, metrics: values });
        }
        rows
    }

    /// A number in base units, or with a unit of time or size where the metric has one.
    fn measured(&mut self, node: &Node, unit: Unit) -> Option<f64> {
        let value = match &node.kind {
            NodeKind::Scalar(value @ (Value::Int(_) | Value::Float(_))) => value.as_f64(),
            NodeKind::Scalar(Value::Text(text)) => match unit {
                Unit::Bytes => parse_bytes(text).ok().map(|bytes| bytes as f64),
                Unit::Seconds => parse_seconds(text).ok(),
                _ => None,
            },
            _ => None,
        };
        if value.is_none() {
            let help = match unit {
                Unit::Bytes => "write bytes, or a size with its unit, such as `4.3GiB`",
                Unit::Seconds => "write seconds, or a span of time with its unit, such as `250ms`",
                Unit::Fraction => "write a number from 0 to 1",
                Unit::FlopsPerSecond => "write operations a second, such as `4.9e13`",
                Unit::BytesPerSecond => "write bytes a second, such as `4.8e12`",
                Unit::Nats
                | Unit::One
                | Unit::TokensPerSecond
                | Unit::SequencesPerSecond
                | Unit::StepsPerSecond
                | Unit::Count => "write a number",
            };
            self.problem(node.span, format!("not a measured value: {}", node.describe()), "not a number", help);
        }
        value
    }

    /// The step that a table or a figure is about.
    pub(super) fn from<'s>(
        &mut self,
        name: &Spanned<String>,
        what: &str,
        keys: &[Entry],
        steps: &'s [Step],
        written: &[String],
    ) -> Option<(Spanned<usize>, &'s Step)> {
        let Some(from) = find(keys, "from") else {
            let message = format!("{what} `{}` does not say which step it is about", name.value);
            self.problem(name.span, message, "`from` is missing", "add `from:` with the name of a step");
            return None;
        };
        let from = Spanned::new(self.text(from, "`from`")?, from.span);
        let Some((index, step)) = steps.iter().enumerate().find(|(_, step)| step.name.value == from.value) else {
            // A step that is written but not there has a mistake of its own, which has been reported.
            if !written.contains(&from.value) {
                let help = suggest(&from.value, "steps", written.iter().map(String::as_str)).unwrap_or_default();
                let message = format!("{what} `{}` is about unknown step `{}`", name.value, from.value);
                self.problem(from.span, message, "no step has this name", help);
            }
            return None;
        };
        Some((Spanned::new(index, from.span), step))
    }

    /// `{ axis: prune, pairs: [[bitter7, none], …] }`.
    fn compare(&mut self, node: &Node, step: &Step, params: &Names) -> Option<Compare> {
        let keys = self.map(node, "`compare`", COMPARE_KEYS)?;
        let usage = "write `{ axis: NAME, pairs: [[value, other], …] }`";
        let (Some(axis), Some(pairs)) = (find(keys, "axis"), find(keys, "pairs")) else {
            self.problem(node.span, "`compare` needs `axis` and `pairs`", "incomplete", usage);
            return None;
        };
        let axis = Spanned::new(self.text(axis, "`axis`")?, axis.span);
        self.check_axis(&axis, step, &step.axes());
        let mut found = Vec::new();
        let items = if let NodeKind::List(items) = &pairs.kind { items.as_slice() } else { &[] };
        if items.is_empty() {
            self.problem(pairs.span, "`pairs` compares nothing", "no list of pairs", usage);
        }
        for item in items {
            match &item.kind {
                NodeKind::List(two) if two.len() == 2 => {
                    found.extend(self.value(&two[0], params).zip(self.value(&two[1], params)));
                }
                _ => self.problem(item.span, "a pair is a list of two values", "not a pair", usage),
            }
        }
        let ratio = find(keys, "show").is_some_and(|node| {
            let word = self.text(node, "`show`").unwrap_or_else(|| "difference".to_owned());
            if word != "difference" && word != "ratio" {
                let help = suggest(&word, "words", ["difference", "ratio"]).unwrap_or_default();
                self.problem(node.span, format!("`show` is `difference` or `ratio`, not `{word}`"), "neither", help);
            }
            word == "ratio"
        });
        let noise = find(keys, "noise").and_then(|node| Some(Spanned::new(self.text(node, "`noise`")?, node.span)));
        if let Some(noise) = &noise {
            self.check_axis(noise, step, &step.axes());
            if noise.value == axis.value {
                let help = "name the axis along which the same job is repeated, for example `repeat`";
                self.problem(noise.span, "the axis that is compared is no noise", "also `axis`", help);
            }
        }
        let decide = find(keys, "decide").is_some_and(|node| self.flag(node, "decide"));
        (!found.is_empty()).then_some(Compare { axis, pairs: found, ratio, noise, decide })
    }
}
