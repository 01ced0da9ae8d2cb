//! `figures`: declarations of figures of a step's records.

use sweep_job::Value;

use super::{FIGURE_KEYS, Lower, ROOF_KEYS, find};
use crate::recipe::{
    Figure, FigureKind, Names, Roof, Roofs, Step,
    node::{Entry, Node, NodeKind},
    problem::suggest,
    source::Spanned,
};

impl Lower<'_> {
    pub(super) fn figures(&mut self, node: &Node, steps: &[Step], written: &[String], params: &Names) -> Vec<Figure> {
        let entries = self.entries(node, "`figures`");
        entries.iter().filter_map(|entry| self.figure(entry, steps, written, params)).collect()
    }

    fn figure(&mut self, entry: &Entry, steps: &[Step], written: &[String], params: &Names) -> Option<Figure> {
        let name = &entry.key;
        self.check_name(name, "figure");
        let keys = self.map(&entry.value, "a figure", FIGURE_KEYS)?;
        let title = find(keys, "title").and_then(|node| self.text(node, "`title`"));
        let (from, step) = self.from(name, "figure", keys, steps, written)?;
        let axes = step.axes();
        let only = find(keys, "where").map(|node| self.selection(node, params)).unwrap_or_default();
        for (axis, _) in &only.0 {
            self.check_axis(axis, step, &axes);
        }
        let color = find(keys, "color").and_then(|node| Some(Spanned::new(self.text(node, "`color`")?, node.span)));
        if let Some(axis) = &color {
            self.check_axis(axis, step, &axes);
        }
        let band = find(keys, "band").is_none_or(|node| self.band(node));
        let kind = self.kind(name, keys);
        let mut given = |key: &str| {
            let Some(node) = find(keys, key) else {
                let message = format!("figure `{}` has no `{key}`", name.value);
                self.problem(name.span, message, format!("`{key}` is missing"), format!("add `{key}:`"));
                return None;
            };
            Some(Spanned::new(self.text(node, &format!("`{key}`"))?, node.span))
        };
        let timeline = kind == Some(FigureKind::Timeline);
        let x = if timeline { Some(Spanned::new("time".to_owned(), name.span)) } else { given("x") };
        let y = if timeline || kind == Some(FigureKind::Histogram) { x.clone() } else { given("y") };
        let value = if kind == Some(FigureKind::Heat) { Some(given("value")?) } else { None };
        let (kind, x, y) = (kind?, x?, y?);
        let roofs = find(keys, "roofs").map(|node| self.roofs(node, step)).unwrap_or_default();
        if kind == FigureKind::Roofline && find(keys, "roofs").is_none() {
            let help = "for example `roofs: { compute: peak.compute, bandwidth: peak.bandwidth }`";
            self.problem(name.span, format!("figure `{}` has no `roofs`", name.value), "`roofs` is missing", help);
        }
        for key in ["x", "y"] {
            if let Some(node) = find(keys, key).filter(|_| timeline) {
                let help = "it shows when each job ran; remove it";
                self.problem(node.span, format!("a timeline has no `{key}`"), "not here", help);
            }
        }
        let only_for = [("value", FigureKind::Heat), ("best", FigureKind::Pareto), ("roofs", FigureKind::Roofline)];
        for (key, only) in only_for {
            if let (Some(node), true) = (find(keys, key), kind != only) {
                let word = FigureKind::WORDS.iter().find(|(_, known)| *known == only).map_or("", |(word, _)| word);
                let message = format!("`{key}` is for figures of kind `{word}`");
                self.problem(node.span, message, "not here", format!("remove it, or write `kind: {word}`"));
            }
        }
        let both = [x.clone(), y.clone()];
        let best = find(keys, "best").map_or_else(Vec::new, |node| self.best(node, &both));
        match kind {
            FigureKind::Line => {
                if x.value != "iteration" {
                    let help = "a curve goes over the iterations: `x: iteration`";
                    self.problem(x.span, format!("a line cannot go over `{}`", x.value), "not the iterations", help);
                }
                if !step.task.curves.contains(&y.value.as_str()) {
                    let none = || format!("task `{}` records no curves", step.task.name);
                    let help = suggest(&y.value, "curves", step.task.curves.iter().copied()).unwrap_or_else(none);
                    let message = format!("task `{}` records no curve `{}`", step.task.name, y.value);
                    self.problem(y.span, message, "unknown curve", help);
                }
            }
            FigureKind::Bar => {
                self.check_axis(&x, step, &axes);
                self.check_metric(&y, step);
            }
            FigureKind::Timeline => {}
            FigureKind::Scatter | FigureKind::Pareto | FigureKind::Histogram | FigureKind::Roofline => {
                self.check_metric(&x, step);
                self.check_metric(&y, step);
            }
            FigureKind::Heat => {
                self.check_axis(&x, step, &axes);
                self.check_axis(&y, step, &axes);
                if let Some(value) = &value {
                    self.check_metric(value, step);
                }
            }
        }
        Some(Figure { name: name.clone(), title, from, only, kind, x, y, roofs, value, best, color, band })
    }

    /// `{ compute: …, bandwidth: … }`: metrics, or numbers in base units.
    fn roofs(&mut self, node: &Node, step: &Step) -> Roofs {
        let Some(keys) = self.map(node, "`roofs`", ROOF_KEYS) else { return Roofs::default() };
        let mut roof = |key: &str| {
            let node = find(keys, key)?;
            match &node.kind {
                NodeKind::Scalar(Value::Text(metric)) => {
                    let metric = Spanned::new(metric.clone(), node.span);
                    self.check_metric(&metric, step);
                    Some(Roof::Metric(metric))
                }
                NodeKind::Scalar(value) if value.as_f64().is_some_and(|number| number > 0.0) => {
                    value.as_f64().map(Roof::Number)
                }
                _ => {
                    let help = "name a metric, or write operations or bytes a second, such as `1.5e12`";
                    let message = format!("`{key}` must be a metric or a positive number, found {}", node.describe());
                    self.problem(node.span, message, "no roof", help);
                    None
                }
            }
        };
        let roofs = Roofs { compute: roof("compute"), bandwidth: roof("bandwidth") };
        if keys.is_empty() {
            self.problem(node.span, "`roofs` has none", "empty", "give `compute`, `bandwidth` or both");
        }
        roofs
    }

    fn kind(&mut self, name: &Spanned<String>, keys: &[Entry]) -> Option<FigureKind> {
        let words = FigureKind::WORDS.map(|(word, _)| word);
        let Some(node) = find(keys, "kind") else {
            let help = format!("add `kind:` with one of {}", words.join(", "));
            self.problem(name.span, format!("figure `{}` has no `kind`", name.value), "`kind` is missing", help);
            return None;
        };
        let word = self.text(node, "`kind`")?;
        let kind = FigureKind::WORDS.iter().find(|(known, _)| *known == word).map(|(_, kind)| *kind);
        if kind.is_none() {
            let help = suggest(&word, "kinds", words).unwrap_or_default();
            self.problem(node.span, format!("unknown kind of figure `{word}`"), "no kind has this name", help);
        }
        kind
    }

    /// `ci95` or `none`.
    fn band(&mut self, node: &Node) -> bool {
        match &node.kind {
            NodeKind::Scalar(Value::Text(word)) if word == "ci95" => true,
            NodeKind::Scalar(Value::Text(word)) if word == "none" => false,
            _ => {
                let help = "`ci95` draws the 95 % confidence interval, `none` leaves it out";
                self.problem(node.span, "`band` must be `ci95` or `none`", "neither", help);
                true
            }
        }
    }
}
