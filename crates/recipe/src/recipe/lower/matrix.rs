//! `matrix`, `seeds`, `ablate` and `if`: the points of a step.

use serde_json::{Value as Json, json};
use sweep_job::Value;

use super::{
    Lower, StepKeys, find,
    variants::{self, CODE},
};
use crate::recipe::{
    Ablation, Assignment, Axis, AxisValues, Condition, Design, Dimension, Draw, Factor, Matrix, Names, Progression,
    Random, Template, is_name,
    keys::{Custom, Given, Mapping as _, Within, Word, mapping},
    node::{Entry, Node, NodeKind},
    problem::suggest,
    schema::{NAME, described, named, reference},
    source::{Span, Spanned},
};

mapping! {
    /// The keys of `matrix` that are not axes.
    struct MatrixKeys = "matrix" {
        /// Axes that vary together: their first values form one point, their second values the next.
        zip: Custom = Custom { schema: || some(axes()), accepts: "axis to values" },
        /// Points that are drawn at random. The draws are reproducible.
        random: Within<RandomKeys<'static>>,
        /// Additional points, or additional values for existing points.
        ///
        /// An entry that contains only axes of the matrix is an additional point and must contain all of them. An
        /// entry with further keys adds these to every point that it matches. An entry that matches no point is an
        /// additional point. See [`include`](#include).
        include: Custom = Custom { schema: assignments, accepts: "a list of maps from axis to value" },
        /// Excluded points. An entry excludes every point that has all of its values.
        exclude: Custom = Custom { schema: assignments, accepts: "a list of maps from axis to value" },
    }
}

mapping! {
    /// The forms of an axis, besides a list: one key each.
    struct AxisForms = "axis" {
        /// The numbers `from`, `from + step`, …, excluding `to`. A negative step counts down.
        range: Custom = Custom { schema: || numbers("number", 2, 3), accepts: "`[from, to]` or `[from, to, step]`" },
        /// `n` evenly spaced numbers from `from` to `to`, inclusive.
        linspace: Custom = Custom { schema: || numbers("number", 3, 3), accepts: "`[from, to, n]`" },
        /// `n` logarithmically spaced numbers from `from` to `to`, inclusive.
        logspace: Custom = Custom { schema: || numbers("number", 3, 3), accepts: "`[from, to, n]`" },
    }
}

mapping! {
    /// The keys of `random`.
    struct RandomKeys = "random" {
        /// The number of points to draw.
        n [required]: Custom = Custom { schema: || reference("number"), accepts: "a number" },
        /// The seed of the draws. Default: 0.
        ///
        /// A draw depends only on the seed, the axis and the index of the point. Additional points or axes do not
        /// change existing draws.
        seed: Custom = Custom { schema: || reference("value"), accepts: "a value" },
        /// The distribution of each axis.
        axes [required]: Custom = Custom { schema: || some(named("draw")), accepts: "axis to a distribution" },
    }
}

/// The shape of the values to choose from.
pub(super) const CHOICE: Custom = Custom {
    schema: || json!({ "type": "array", "minItems": 1, "items": reference("value") }),
    accepts: "a list of values",
};

mapping! {
    /// The distributions of a random axis: one key each.
    struct DrawForms = "draw" {
        /// The uniform distribution between two numbers.
        uniform: Custom = Custom { schema: || numbers("number", 2, 2), accepts: "`[from, to]`" },
        /// The log-uniform distribution between two numbers: the logarithm is uniformly distributed.
        log_uniform: Custom = Custom { schema: || numbers("number", 2, 2), accepts: "`[from, to]`" },
        /// A list of values that are equally likely.
        choice: Custom = CHOICE,
    }
}

mapping! {
    /// The keys of `ablate`.
    struct AblateKeys = "ablate" {
        /// The design: the combinations of the factors that are run.
        design [required]: Word<Design> = Word(Design::WORDS),
        /// The value of each factor in the baseline.
        baseline: Custom = Custom { schema: || some(named("value")), accepts: "axis to value" },
        /// The value or values that each factor is changed to.
        factors: Custom = Custom {
            schema: || some(named("value")),
            accepts: "axis to value, or to a list of values",
        },
        /// Patches of the program's code, each of which is a factor with the values `false` and `true`.
        ///
        /// A pattern such as `ablations/*.patch`, or a list of paths and patterns. A factor has the name in the first line of its
        /// patch, `# no-rope`, or that of the file. See [variants of code](programs.md#variants-of-code).
        patches: Custom = Custom { schema: patches, accepts: "a path with `*`, or a list of paths" },
    }
}

/// The schema of patches.
fn patches() -> Json {
    json!({ "type": ["string", "array"], "minLength": 1, "minItems": 1, "items": { "type": "string", "minLength": 1 } })
}

/// The schema of a nonempty map.
fn some(mut map: Json) -> Json {
    map["minProperties"] = json!(1);
    map
}

pub(super) fn numbers(item: &str, least: usize, most: usize) -> Json {
    json!({ "type": "array", "minItems": least, "maxItems": most, "items": reference(item) })
}

fn assignments() -> Json {
    json!({ "type": "array", "items": reference("assignment") })
}

/// The schema of `matrix`.
pub(in crate::recipe) fn matrix() -> Json {
    let mut schema = described("The axes of the step. Its points are the Cartesian product of the axes.", axes());
    schema["properties"] = MatrixKeys::schema()["properties"].clone();
    schema
}

/// The schema of a map of axes. The values of `code` may be maps.
fn axes() -> Json {
    let mut axes = named("axis");
    let mut code = axis();
    code["items"] = json!({ "anyOf": [reference("value"), variants::schema()] });
    axes["patternProperties"] = json!({ format!("^{CODE}$"): code });
    axes
}

/// The schema of `ablate`.
pub(super) fn ablate() -> Json {
    let mut schema = AblateKeys::schema();
    schema["anyOf"] = json!([{ "required": ["patches"] }, { "required": ["baseline", "factors"] }]);
    schema
}

/// The schema of an axis.
pub(in crate::recipe) fn axis() -> Json {
    let mut schema = AxisForms::schema_of_one();
    schema["type"] = json!(["array", "object", "string"]);
    schema["items"] = reference("value");
    schema["minItems"] = json!(1);
    schema["pattern"] = json!(format!(r"^\s*\$\{{\{{\s*needs\.{NAME}\.axes\.{NAME}\s*\}}\}}\s*$"));
    schema["patternErrorMessage"] = json!(
        "An axis is a list, or the axis of another step: `${{ needs.STEP.axes.AXIS \
        }}`."
    );
    schema
}

impl Lower<'_> {
    /// Reads the matrix of a step from its `keys`. `needed` contains the names of the steps that it needs.
    pub(super) fn matrix(&mut self, keys: &StepKeys<'_>, params: &Names, needed: &[&str]) -> Matrix {
        let mut matrix = Matrix::default();
        let entries = keys.matrix.node().map(|node| self.entries(node, "`matrix`")).unwrap_or_default();
        let own = MatrixKeys::of(self, entries);
        let assignments = |lower: &mut Self, given: &Given<'_, ()>, name| {
            given.node().map_or_else(Vec::new, |node| lower.assignments(node, name, params))
        };
        matrix.include = assignments(self, &own.include, "`include`");
        matrix.exclude = assignments(self, &own.exclude, "`exclude`");
        let is = |given: &Given<'_, ()>, entry: &Entry| given.entry.is_some_and(|given| std::ptr::eq(given, entry));
        // Dimensions keep the order of the text.
        let mut remaining_entries = entries;
        while let [entry, following @ ..] = remaining_entries {
            remaining_entries = following.get(self.unbracketed(entry, following)..).unwrap_or_default();
            if is(&own.zip, entry) {
                let axes = self.entries(&entry.value, "`zip`");
                if axes.is_empty() && matches!(entry.value.kind, NodeKind::Map(_)) {
                    let help = "write `zip: { a: [1, 2], b: [3, 4] }`";
                    self.problem(entry.value.span, "`zip` has no axes", "empty", help);
                }
                let axes = axes.iter().filter_map(|axis| self.axis(axis, params, needed)).collect();
                matrix.dimensions.push(Dimension::Zip(axes));
            } else if is(&own.random, entry) {
                matrix.dimensions.extend(self.random(&entry.value, params).map(Dimension::Random));
            } else if !is_name(&entry.key.value) && matches!(entry.value.kind, NodeKind::Scalar(Value::Null)) {
                // `lr: 1, 2` in braces is an axis `lr` and a key `2`.
                let message = format!("`{}` stands alone", entry.key.value);
                let help = "write the values of an axis in brackets: `lr: [1, 2]`";
                self.problem(entry.key.span, message, "not an axis", help);
            } else if !MatrixKeys::NAMES.contains(&entry.key.value.as_str()) {
                matrix.dimensions.extend(self.axis(entry, params, needed).map(Dimension::Axis));
            }
        }
        if let Some(node) = keys.ablate.node() {
            matrix.dimensions.extend(self.ablation(node, params).map(Dimension::Ablation));
        }
        if let Some(node) = keys.seeds.node() {
            matrix.dimensions.extend(self.seeds(node, params).map(Dimension::Axis));
        }
        self.check_axes(&matrix);
        matrix.condition = keys.condition.node().and_then(|node| self.condition(node, &matrix, params));
        matrix
    }

    /// Checks that no axis occurs twice and that `exclude` contains only existing axes.
    fn check_axes(&mut self, matrix: &Matrix) {
        let names: Vec<&Spanned<String>> = matrix.dimensions.iter().flat_map(Dimension::axes).collect();
        for (index, name) in names.iter().enumerate() {
            if names[..index].iter().any(|earlier| earlier.value == name.value) {
                let message = format!("axis `{}` is defined twice", name.value);
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

    fn axis(&mut self, entry: &Entry, params: &Names, needed_steps: &[&str]) -> Option<Axis> {
        self.check_name(&entry.key, "axis");
        let values = self.axis_values(&entry.key.value, &entry.value, params, needed_steps)?;
        Some(Axis { name: entry.key.clone(), values })
    }

    fn axis_values(&mut self, name: &str, node: &Node, params: &Names, needed_steps: &[&str]) -> Option<AxisValues> {
        match &node.kind {
            NodeKind::List(items) => {
                if items.is_empty() {
                    let message = format!("axis `{name}` has no values");
                    self.problem(node.span, message, "empty", "add a value, or remove the axis");
                }
                let value = |item: &Node| match item.kind {
                    NodeKind::Map(_) if name == CODE => self.variant(item, params),
                    _ => self.value(item, params),
                };
                Some(AxisValues::List(items.iter().filter_map(value).collect()))
            }
            NodeKind::Map(_) => self.progression(name, node, params),
            NodeKind::Scalar(Value::Text(text)) if text.contains("${{") => self.axis_of(text, node.span, needed_steps),
            NodeKind::Scalar(_) => {
                let text = self.sources.slice(node.span);
                let items: Vec<&str> = text.trim_matches(['"', '\'']).split(',').map(str::trim).collect();
                let help = if items.len() > 1 {
                    format!("write `{name}: [{}]`", items.join(", "))
                } else {
                    format!("write `{name}: [{text}]` for an axis with one value")
                };
                let message = format!("axis `{name}` must be a list, found {}", node.describe());
                self.problem(node.span, message, "expected a list of values", help);
                Some(AxisValues::List(Vec::new()))
            }
        }
    }

    /// Reads `{ range: [0, 10] }`, `{ linspace: [0, 1, 5] }` or `{ logspace: [1e-4, 1e-2, 3] }`.
    fn progression(&mut self, name: &str, node: &Node, params: &Names) -> Option<AxisValues> {
        if let NodeKind::Map(entries) = &node.kind
            && let Some(help) = self.drawn(name, entries)
        {
            let message = format!("axis `{name}` must be a list, or one form of it");
            self.problem(node.span, message, "not an axis", help);
            return None;
        }
        let keys = AxisForms::read(self, node, &format!("axis `{name}`"))?;
        let forms = [
            (&keys.range, Progression::Range, 2..=3, "`range: [from, to]` or `range: [from, to, step]`"),
            (&keys.linspace, Progression::Linspace, 3..=3, "`linspace: [from, to, n]`"),
            (&keys.logspace, Progression::Logspace, 3..=3, "`logspace: [from, to, n]`"),
        ];
        if !is_one(node) {
            let help = "write `[a, b]`, `{ range: [from, to] }`, `{ linspace: [from, to, n] }` or `{ logspace: [from, to, n] }`";
            self.problem(node.span, format!("axis `{name}` must be a list, or one form of it"), "not an axis", help);
            return None;
        }
        let (form, kind, counts, usage) = forms.into_iter().find(|(form, ..)| form.is_there())?;
        let node = form.node()?;
        Some(AxisValues::Numbers(kind, self.numbers(node, counts, usage, params)?, node.span))
    }

    /// Reads a list of a given length. The values may refer to params, so planning checks that they are numbers.
    pub(super) fn numbers(
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
                let description = match &node.kind {
                    NodeKind::List(items) => format!("a list of {}", items.len()),
                    _ => node.describe().to_owned(),
                };
                self.problem(node.span, format!("expected {usage}, found {description}"), "not the numbers", usage);
                None
            }
        }
    }

    /// Reads `${{ needs.STEP.axes.AXIS }}`.
    fn axis_of(&mut self, text: &str, span: Span, needed_steps: &[&str]) -> Option<AxisValues> {
        let help = "an axis is a list, or the axis of another step: `${{ needs.STEP.axes.AXIS }}`";
        let body = text.trim().strip_prefix("${{").and_then(|rest| rest.strip_suffix("}}")).map(str::trim);
        let parts: Vec<&str> = body.map(|body| body.split('.').collect()).unwrap_or_default();
        let ["needs", step, "axes", axis] = parts[..] else {
            self.problem(span, format!("`{}` is not an axis", text.trim()), "not a list", help);
            return None;
        };
        if !needed_steps.contains(&step) {
            let help = suggest(step, "needed steps", needed_steps.iter().copied())
                .unwrap_or_else(|| format!("add `needs: [{step}]`"));
            self.problem(span, format!("this step does not need the step `{step}`"), "not in `needs`", help);
            return None;
        }
        Some(AxisValues::Of { step: Spanned::new(step.to_owned(), span), axis: Spanned::new(axis.to_owned(), span) })
    }

    fn random(&mut self, node: &Node, params: &Names) -> Option<Random> {
        let keys = RandomKeys::read(self, node, "`random`")?;
        let mut axes = Vec::new();
        let entries = keys.axes.node().map(|node| self.entries(node, "`axes`")).unwrap_or_default();
        for entry in entries {
            self.check_name(&entry.key, "axis");
            if let Some(draw) = self.draw(&entry.value, params) {
                axes.push((entry.key.clone(), draw));
            }
        }
        let n = keys.n.node().and_then(|node| self.value(node, params));
        let seed = keys.seed.node().and_then(|node| self.value(node, params));
        let (Some(n), false) = (n, axes.is_empty()) else {
            // A mistake in a part that is there has been reported.
            if self.is_missing(node, "n", &keys.n) || entries.is_empty() && !self.is_meant(node, "axes") {
                let help = "write `random: { n: 8, axes: { lr: { log_uniform: [1e-4, 1e-2] } } }`";
                self.problem(node.span, "`random` needs `n` and `axes`", "incomplete", help);
            }
            return None;
        };
        Some(Random { n, seed, axes, span: node.span })
    }

    fn draw(&mut self, node: &Node, params: &Names) -> Option<Draw> {
        let usage = "write `{ uniform: [from, to] }`, `{ log_uniform: [from, to] }` or `{ choice: [a, b] }`";
        if let NodeKind::Map(entries) = &node.kind
            && entries.iter().all(|entry| ["min", "max", "low", "high"].contains(&entry.key.value.as_str()))
        {
            self.problem(node.span, "a random axis has one distribution", "not a distribution", usage);
            return None;
        }
        let keys = DrawForms::read(self, node, "a random axis")?;
        if !is_one(node) {
            self.problem(node.span, "a random axis has one distribution", "not one", usage);
            return None;
        }
        if let Some(node) = keys.uniform.node() {
            let two = self.numbers(node, 2..=2, "`uniform: [from, to]`", params)?;
            return Some(Draw::Uniform(two, node.span));
        }
        if let Some(node) = keys.log_uniform.node() {
            let two = self.numbers(node, 2..=2, "`log_uniform: [from, to]`", params)?;
            return Some(Draw::LogUniform(two, node.span));
        }
        self.numbers(keys.choice.node()?, 1..=usize::MAX, "`choice: [a, b]`", params).map(Draw::Choice)
    }

    fn ablation(&mut self, node: &Node, params: &Names) -> Option<Ablation> {
        let keys = AblateKeys::read(self, node, "`ablate`")?;
        if !keys.design.is_there() {
            let words: Vec<&str> = Design::WORDS.iter().map(|(word, _)| *word).collect();
            let help = format!("add `design:` with one of {}", words.join(", "));
            self.problem(node.span, "`ablate` has no design", "which combinations?", help);
        }
        let design = keys.design.value?;
        let baseline = keys.baseline.node().map(|node| self.entries(node, "`baseline`")).unwrap_or_default();
        let changes = keys.factors.node().map(|node| self.entries(node, "`factors`"));
        let is_empty = |node: &Node| matches!(&node.kind, NodeKind::Map(entries) if entries.is_empty());
        if keys.factors.node().map_or(!keys.patches.is_there(), is_empty) {
            let help = "add `factors:` with the values that replace those of the baseline, or `patches:`";
            self.problem(node.span, "`ablate` has no factors", "nothing is changed", help);
        }
        let mut factors = keys.patches.node().map_or_else(Vec::new, |node| self.patch_factors(node));
        for entry in changes.unwrap_or_default() {
            self.check_name(&entry.key, "axis");
            let Some(base) = find(baseline, &entry.key.value) else {
                let message = format!("factor `{}` has no value in `baseline`", entry.key.value);
                let help = format!("add `{}` to `baseline`", entry.key.value);
                self.problem(entry.key.span, message, "no baseline", help);
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
            if !factors.iter().any(|factor: &Factor| factor.axis.value == entry.key.value) {
                let message = format!("`{}` is in `baseline`, but no factor changes it", entry.key.value);
                self.problem(entry.key.span, message, "not a factor", "move it to `with`, or add it to `factors`");
            }
        }
        Some(Ablation { design, factors })
    }

    /// Reads `seeds: 5`: the axis `seed` with the values 0, 1, 2, 3, 4.
    fn seeds(&mut self, node: &Node, params: &Names) -> Option<Axis> {
        let node = match &node.kind {
            NodeKind::Map(entries) => find(entries, "max")?,
            _ => node,
        };
        if let NodeKind::List(items) = &node.kind {
            let (number, list) = (items.len().max(1), self.flow_list(node).unwrap_or("[0, 1, 2]"));
            let help = format!(
                "write `seeds: {number}` for {number} seeds, counted from 0, or `matrix: {{ seed: {list} }}` for specific seeds"
            );
            self.problem(node.span, "`seeds` is a number of seeds, found a list", "not a number", help);
            return None;
        }
        let count = self.value(node, params)?;
        if let NodeKind::Scalar(scalar) = &node.kind
            && let Some(count) = scalar.as_f64()
            && (count < 1.0 || count.fract() != 0.0)
        {
            let message = format!("`seeds` must be a whole number of at least 1, found {}", Value::Float(count));
            self.problem(node.span, message, "not a number of seeds", "for example `seeds: 3`");
            return None;
        }
        let from = Template::literal(Value::Int(0), node.span);
        let values = AxisValues::Numbers(Progression::Range, vec![from, count], node.span);
        Some(Axis { name: Spanned::new("seed".to_owned(), node.span), values })
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

    fn assignments(&mut self, node: &Node, name: &str, params: &Names) -> Vec<Assignment> {
        let NodeKind::List(items) = &node.kind else {
            let help = "write a list of maps from axis to value: `[{ axis: value }]`";
            self.problem(node.span, format!("{name} must be a list, found {}", node.describe()), "not a list", help);
            return Vec::new();
        };
        let mut assignments = Vec::new();
        for item in items {
            let mut values = Vec::new();
            for entry in self.entries(item, &format!("an entry of {name}")) {
                self.check_name(&entry.key, "axis");
                values.extend(self.value(&entry.value, params).map(|value| (entry.key.clone(), value)));
            }
            assignments.push(Assignment { values, span: item.span });
        }
        assignments
    }
}

/// True if a node is a map with one entry.
pub(super) fn is_one(node: &Node) -> bool {
    matches!(&node.kind, NodeKind::Map(entries) if entries.len() == 1)
}
