//! `figures`: charts of a step's records.

use serde_json::{Value as Json, json};
use sweep_job::Value;

use super::{
    Effects, Lower, OfStep,
    effects::EffectKeys,
    looks::{Limits, LookKeys},
    tables,
};
use crate::{
    charts::{self, ITERATION, Kind, Legend, Palette, Role, Roof, Roofs, Spec},
    recipe::{
        Names, Selection, Step,
        keys::{Custom, Declaration, Given, Key, Mapping as _, Shape, Text, Within, Word, mapping},
        node::{Entry, Node, NodeKind},
        problem::suggest,
        source::Spanned,
    },
};

/// A figure of a step's records.
#[derive(Debug, Clone)]
pub struct Figure {
    /// The figure's name, which is also the name of the file.
    pub name: Spanned<String>,
    /// The figure's heading.
    pub title: Option<String>,
    /// The step, as an index into [`crate::recipe::Recipe::steps`].
    pub from: Spanned<usize>,
    /// The selected points.
    pub only: Selection,
    /// The effects, for a kind that shows them.
    pub effects: Option<Effects>,
    /// The chart.
    pub chart: Spec,
}

mapping! {
    /// The keys of a figure.
    struct FigureKeys = "figure" {
        /// The heading of the figure. Default: the name of the figure.
        title: Text,
        /// The step whose records are drawn.
        from: Text = Text::NAME,
        /// Selects the points that have these values.
        only = "where": Custom = Custom::SELECTION,
        /// The kind of the figure.
        ///
        /// The kinds are listed below.
        kind: Word<Kind> = Word(Kind::WORDS),
        /// The quantity on the x-axis: an axis, a metric or `iteration`, depending on the kind of the figure.
        x: Text,
        /// The quantity on the y-axis: an axis, a metric or a curve, depending on the kind of the figure.
        ///
        /// The available curves depend on the task. `train` records `loss`, `val_loss`, `lr` and `sparsity`; `command`
        /// records what its program reports.
        y: Text,
        /// The metric that is shown at each position, for kinds of figures with such a metric.
        value: Text,
        /// The peak rates of the device, for kinds of figures that show them.
        roofs: Within<RoofKeys<'static>>,
        /// The factors, for kinds of figures that show their effects. Default: all axes that vary, without interactions.
        effects: Within<EffectKeys<'static>>,
        /// The better direction of metrics, for kinds of figures that need it. Default: `min` for losses, times and
        /// sizes, `max` for rates.
        best: Custom = Custom { schema: tables::best, accepts: "metric to `min`, `max` or `none`" },
        /// The axis whose values are distinguished by color.
        ///
        /// The values also differ in dash pattern or marker shape, so that the figure remains readable in grayscale.
        color: Text = Text::NAME,
        /// The band around averaged values: the 95 % confidence interval, or none. Default: `ci95`.
        band: Word<bool> = Word(&[("ci95", true), ("none", false)]),
        /// The scale of the x-axis, for kinds with numbers on it. Default: the scale that fits the values of an axis,
        /// else `linear`.
        xscale: Word<bool> = Word(SCALES),
        /// The scale of the y-axis, for kinds with numbers on it. Default: `linear`.
        yscale: Word<bool> = Word(SCALES),
        /// The limits of the x-axis, in the unit of the metric; `null` uses the range of the data. Points outside of
        /// the limits are not drawn.
        xlim: Limits,
        /// The limits of the y-axis, in the same form as `xlim`.
        ylim: Limits,
        /// The name of the quantity on the x-axis, for readers; the unit follows it. Default: the name of the metric or axis.
        xlabel: Text,
        /// The name of the quantity on the y-axis, in the same form as `xlabel`.
        ylabel: Text,
        /// The place of the legend. Default: `right`, and `bottom` in a column of a paper.
        legend: Word<Legend> = Word(Legend::WORDS),
        /// The colors of series. Color-blind people can distinguish the colors of every palette. Default:
        /// `okabe-ito`.
        palette: Word<Palette> = Word(Palette::WORDS),
        /// `paper`: also as a PDF, 84 mm wide, in 8-point type and without a title. Kinds that need more space are
        /// 178 mm wide and keep their title. Default: `page`.
        style: Word<bool> = Word(&[("page", false), ("paper", true)]),
    }
}

/// The role of a name in a kind of figure.
type RoleOf = fn(&charts::Declaration) -> Option<Role>;

/// Words for scales; true for a logarithmic one.
const SCALES: &[(&str, bool)] = &[("linear", false), ("log", true)];

mapping! {
    /// The keys of a figure's `roofs`.
    struct RoofKeys = "roofs" {
        /// Peak operations per second: a number, or a metric whose largest value is used.
        compute: AtMost,
        /// Peak bytes per second: a number, or a metric whose largest value is used.
        bandwidth: AtMost,
    }
}

/// A peak rate of a device: a metric, or a number in base units.
#[derive(Default)]
pub(in crate::recipe) struct AtMost;

impl Shape for AtMost {
    type Value = Roof;

    fn read(&self, lower: &mut Lower<'_>, node: &Node, key: &str) -> Option<Roof> {
        match &node.kind {
            NodeKind::Scalar(Value::Text(metric)) => Some(Roof::Metric(metric.clone())),
            NodeKind::Scalar(value) if value.as_f64().is_some_and(|number| number > 0.0) => {
                value.as_f64().map(Roof::Number)
            }
            _ => {
                let help = "name a metric, or write operations or bytes per second, such as `1.5e12`";
                let message = format!("`{key}` must be a metric or a positive number, found {}", node.describe());
                lower.problem(node.span, message, "no roof", help);
                None
            }
        }
    }

    fn schema(&self) -> Json {
        json!({ "type": ["string", "number"], "minLength": 1, "exclusiveMinimum": 0 })
    }

    fn accepts(&self) -> String {
        "a metric, or a number".to_owned()
    }
}

/// The schema of a figure.
pub(in crate::recipe) fn figure() -> Json {
    let mut schema = FigureKeys::schema();
    let descriptions: Vec<String> = kinds().keys.iter().map(|kind| format!("{} {}", kind.doc, kind.accepts)).collect();
    schema["properties"]["kind"]["enumDescriptions"] = json!(descriptions);
    // The rest is required only where this file has `kind` and `x`: a base recipe may contain it.
    let kinds = Kind::WORDS.iter().map(|(word, kind)| {
        let declaration = kind.declaration();
        let keys =
            [("y", declaration.y.is_some()), ("value", declaration.value.is_some()), ("roofs", declaration.roofs)];
        let needed: Vec<&str> = keys.iter().filter(|(_, needed)| *needed).map(|(key, _)| *key).collect();
        json!({
            "if": { "required": ["kind", "x"], "properties": { "kind": { "const": word } } },
            "then": { "required": needed },
        })
    });
    schema["allOf"] = kinds.collect();
    schema
}

/// The kinds of figures, for the documentation.
pub(in crate::recipe) fn kinds() -> Declaration {
    let key = |(word, kind): &(&'static str, Kind)| {
        let declaration = kind.declaration();
        let names = [("x", declaration.x), ("y", declaration.y), ("value", declaration.value)];
        let names = names.iter().filter_map(|(key, role)| Some(format!("`{key}`: {}", (*role)?.name())));
        let keys = [("roofs", declaration.roofs), ("best", declaration.best), ("effects", declaration.has_effects())];
        let key_names = keys.iter().filter(|(_, has)| *has).map(|(key, _)| format!("`{key}`"));
        let accepts = names.chain(key_names).collect::<Vec<_>>().join(", ");
        Key {
            name: word,
            doc: declaration.doc.to_owned(),
            details: String::new(),
            accepts,
            required: false,
            schema: json!({}),
        }
    };
    Declaration { name: "figure-kinds", keys: Kind::WORDS.iter().map(key).collect() }
}

impl Lower<'_> {
    pub(super) fn figures(&mut self, node: &Node, steps: &[Step], written: &[String], params: &Names) -> Vec<Figure> {
        let entries = self.entries(node, "`figures`");
        entries.iter().filter_map(|entry| self.figure(entry, steps, written, params)).collect()
    }

    fn figure(&mut self, entry: &Entry, steps: &[Step], step_names: &[String], params: &Names) -> Option<Figure> {
        let name = &entry.key;
        self.check_name(name, "figure");
        let keys = FigureKeys::read(self, &entry.value, "a figure")?;
        let kind = keys.kind.value;
        let declaration = kind.map(Kind::declaration);
        self.check_place(&keys, declaration);
        let (from, step) = self.from(entry, "figure", keys.from, steps, step_names)?;
        let axes = step.axes();
        let only = keys.only.node().map(|node| self.selection(node, params)).unwrap_or_default();
        for (axis, _) in &only.0 {
            self.check_axis(axis, step, &axes);
        }
        let color = keys.color.spanned();
        if let Some(axis) = &color {
            self.check_axis(axis, step, &axes);
        }
        if self.is_missing(&entry.value, "kind", &keys.kind) {
            let words: Vec<&str> = Kind::WORDS.iter().map(|(word, _)| *word).collect();
            let help = format!("add `kind:` with one of {}", words.join(", "));
            self.problem(name.span, format!("figure `{}` has no `kind`", name.value), "`kind` is missing", help);
        }
        // For an unknown kind, the names are still resolved.
        let has = |role: RoleOf| declaration.is_none_or(|kind| role(kind).is_some());
        let mut given = |given: Given<'_, String>, key: &str, wanted: bool| {
            if wanted && self.is_missing(&entry.value, key, &given) {
                let message = format!("figure `{}` has no `{key}`", name.value);
                self.problem(name.span, message, format!("`{key}` is missing"), format!("add `{key}:`"));
            }
            given.spanned().filter(|_| wanted)
        };
        let x = given(keys.x, "x", has(|kind| kind.x));
        let y = given(keys.y, "y", has(|kind| kind.y));
        let value = given(keys.value, "value", declaration.is_some_and(|kind| kind.value.is_some()));
        if declaration.is_some_and(|kind| kind.roofs) && self.is_missing(&entry.value, "roofs", &keys.roofs) {
            let help = "for example `roofs: { compute: peak.compute, bandwidth: peak.bandwidth }`";
            self.problem(name.span, format!("figure `{}` has no `roofs`", name.value), "`roofs` is missing", help);
        }
        let roofs = keys.roofs.node().map(|node| self.roofs(node, step)).unwrap_or_default();
        let look = self.look(LookKeys {
            scales: [keys.xscale, keys.yscale],
            limits: [keys.xlim, keys.ylim],
            labels: [keys.xlabel, keys.ylabel],
            legend: keys.legend.value,
            palette: keys.palette.value,
            paper: keys.style.value,
        });
        let (kind, declaration) = (kind?, declaration?);
        let is_curve = x.as_ref().is_none_or(|x| x.value == ITERATION);
        for (given, role) in [(&x, declaration.x), (&y, declaration.y), (&value, declaration.value)] {
            if let Some(role) = role {
                self.check_role(given.as_ref()?, role, is_curve, step);
            }
        }
        let shown: Vec<Spanned<String>> = [&x, &y, &value].into_iter().flatten().cloned().collect();
        let best = keys.best.node().map_or_else(Vec::new, |node| self.best(node, &shown));
        let x = x.map_or_else(|| "time".to_owned(), |x| x.value);
        let chart = Spec {
            kind,
            y: y.map_or_else(|| x.clone(), |y| y.value),
            x,
            value: value.map(|value| value.value),
            roofs,
            best: best.into_iter().map(|(metric, better)| (metric.value, better)).collect(),
            scales: step.scales(),
            color: color.map(|color| color.value),
            band: keys.band.value.unwrap_or(true),
            look,
        };
        let effects = declaration.has_effects().then(|| {
            let of = OfStep { step: from.value, only: only.clone() };
            match keys.effects.node() {
                Some(node) => self.effects(node, step, of),
                None => Some(Effects::of_all(of, name.span)),
            }
        });
        Some(Figure { name: name.clone(), title: keys.title.value, from, only, effects: effects.flatten(), chart })
    }

    /// Checks that each key is one of figures of this kind; any is of an unknown kind.
    fn check_place(&mut self, keys: &FigureKeys<'_>, declaration: Option<&'static charts::Declaration>) {
        let has = |role: RoleOf| declaration.is_none_or(|kind| role(kind).is_some());
        let is = |part: fn(&charts::Declaration) -> bool| declaration.is_none_or(part);
        let keys = [
            ("x", keys.x.span(), has(|kind| kind.x)),
            // A `y` has always been ignored for kinds with an `x` but without a `y`.
            ("y", keys.y.span(), has(|kind| kind.y.or(kind.x))),
            ("value", keys.value.span(), has(|kind| kind.value)),
            ("best", keys.best.span(), is(|kind| kind.best)),
            ("roofs", keys.roofs.span(), is(|kind| kind.roofs)),
            ("effects", keys.effects.span(), is(charts::Declaration::has_effects)),
            ("xscale", keys.xscale.span(), is(|kind| kind.scales[0])),
            ("yscale", keys.yscale.span(), is(|kind| kind.scales[1])),
            ("xlim", keys.xlim.span(), is(|kind| kind.scales[0])),
            ("ylim", keys.ylim.span(), is(|kind| kind.scales[1])),
            ("xlabel", keys.xlabel.span(), is(|kind| kind.labels[0])),
            ("ylabel", keys.ylabel.span(), is(|kind| kind.labels[1])),
            ("legend", keys.legend.span(), is(charts::Declaration::has_legend)),
            ("palette", keys.palette.span(), is(charts::Declaration::has_legend)),
        ];
        for (key, span, _) in keys.into_iter().filter(|(_, _, has)| !has) {
            let word = declaration.map_or("", |kind| kind.word);
            if let Some(span) = span {
                let message = format!("`{key}` is not allowed in figures of kind `{word}`");
                self.problem(span, message, "not here", "remove it, or write another `kind`");
            }
        }
    }

    /// Checks that a name has the role that the kind of the figure requires.
    fn check_role(&mut self, name: &Spanned<String>, role: Role, is_curve: bool, step: &Step) {
        match role {
            Role::Along if is_curve => {}
            Role::Along => {
                let axes = step.axes();
                if !axes.contains(&name.value.as_str()) {
                    let help = suggest(&name.value, "axes", axes.iter().copied());
                    let help = help.map(|help| format!("; {help}")).unwrap_or_default();
                    let help = format!("write `x: iteration` for a curve, or an axis for a metric{help}");
                    let message = format!("step `{}` has no axis `{}`", step.name.value, name.value);
                    self.problem(name.span, message, "neither the iterations nor an axis", help);
                }
            }
            Role::Line if !is_curve => self.check_metric(name, step),
            Role::Line => {
                // A task that measures more than it declares records more curves, too.
                if !step.task.open_metrics && !step.task.curves.contains(&name.value.as_str()) {
                    let none = || format!("task `{}` records no curves", step.task.name);
                    let help = suggest(&name.value, "curves", step.task.curves.iter().copied()).unwrap_or_else(none);
                    let message = format!("task `{}` records no curve `{}`", step.task.name, name.value);
                    self.problem(name.span, message, "unknown curve", help);
                }
            }
            Role::Axis => self.check_axis(name, step, &step.axes()),
            Role::Metric => self.check_metric(name, step),
        }
    }

    /// Reads `{ compute: …, bandwidth: … }`: metrics, or numbers in base units.
    fn roofs(&mut self, node: &Node, step: &Step) -> Roofs {
        let Some(keys) = RoofKeys::read(self, node, "`roofs`") else { return Roofs::default() };
        if !keys.compute.is_there() && !keys.bandwidth.is_there() {
            self.problem(node.span, "`roofs` is empty", "empty", "give `compute`, `bandwidth` or both");
        }
        let mut roof = |given: Given<'_, Roof>| {
            let Spanned { value, span } = given.spanned()?;
            if let Roof::Metric(metric) = &value {
                self.check_metric(&Spanned::new(metric.clone(), span), step);
            }
            Some(value)
        };
        Roofs { compute: roof(keys.compute), bandwidth: roof(keys.bandwidth) }
    }
}
