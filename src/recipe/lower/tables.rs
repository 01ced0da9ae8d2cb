//! `tables`: which metrics of which step make rows and columns.

use super::{COMPARE_KEYS, Lower, TABLE_KEYS, find};
use crate::recipe::{
    Compare, Names, Step, Table,
    node::{Entry, Node, NodeKind},
    problem::suggest,
    source::Spanned,
};

impl Lower<'_> {
    pub(super) fn tables(&mut self, node: &Node, steps: &[Step], written: &[String], params: &Names) -> Vec<Table> {
        let entries = self.entries(node, "`tables`");
        entries.iter().filter_map(|entry| self.table(entry, steps, written, params)).collect()
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
            let metrics: Vec<_> = step.task.metrics.iter().map(|metric| metric.name).collect();
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
        Some(Table { name: name.clone(), title, from, only, rows, columns, cells, compare })
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
        (!found.is_empty()).then_some(Compare { axis, pairs: found })
    }
}
