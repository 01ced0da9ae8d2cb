//! [`Node`] to [`Recipe`]: interprets every key and reports all mistakes at once.

mod claims;
mod executor;
mod figures;
mod matrix;
mod policy;
mod sweep;
mod tables;

use std::path::{Path, PathBuf};

use sweep_job::{Task, Value};

pub(super) use self::sweep::Sweep;
pub(crate) use self::{
    executor::{EXECUTOR_KEYS, SLURM_KEYS, SLURM_STEP_KEYS},
    matrix::{ABLATE_KEYS, ADAPTIVE_KEYS, AXIS_FORMS, DRAW_FORMS, RANDOM_KEYS},
    policy::{CPUS, GPUS, RESOURCE_KEYS, RETRIES},
};
use super::{
    Citation, Condition, Dimension, Known, LONGEST_NAME, Names, Need, Recipe, Reference, Selection, Step, Template,
    check_references, is_name,
    node::{Entry, Node, NodeKind},
    problem::{Collector, Problem, suggest},
    source::{Sources, Span, Spanned},
};

/// Gathers what is needed on the way from a text's values to a recipe.
pub(super) struct Lower<'a> {
    sources: &'a mut Sources,
    problems: &'a mut Collector,
}

/// The keys of a recipe. They must also be in [`crate::recipe::schema`], which a test checks.
pub(crate) const RECIPE_KEYS: &[&str] =
    &["name", "about", "cite", "extends", "params", "steps", "tables", "figures", "claims"];
/// The keys of `cite`.
pub(crate) const CITE_KEYS: &[&str] = &["title", "authors", "year", "venue", "url"];
/// The keys of a sweep file.
pub(crate) const SWEEP_KEYS: &[&str] = &["name", "about", "recipe", "recipes", "set", "axes", "only", "executor"];
/// The keys of a step.
pub(crate) const STEP_KEYS: &[&str] = &[
    "uses",
    "needs",
    "matrix",
    "seeds",
    "ablate",
    "if",
    "with",
    "resources",
    "exclusive",
    "timeout",
    "heartbeat",
    "retries",
    "continue-on-error",
];
/// The keys of an entry of `needs`.
pub(crate) const NEED_KEYS: &[&str] = &["step", "where"];
/// The keys of a table.
pub(crate) const TABLE_KEYS: &[&str] =
    &["title", "from", "where", "rows", "columns", "cells", "compare", "best", "paper", "claims"];
/// The keys of a table that has claims as rows.
pub(crate) const SUMMARY_KEYS: &[&str] = &["title", "claims", "cells"];
/// The keys of a table's `compare`.
pub(crate) const COMPARE_KEYS: &[&str] = &["axis", "pairs", "show", "noise", "decide"];
/// The keys of a figure.
pub(crate) const FIGURE_KEYS: &[&str] =
    &["title", "from", "where", "kind", "x", "y", "value", "color", "band", "best", "roofs"];
/// The keys of a figure's `roofs`.
pub(crate) const ROOF_KEYS: &[&str] = &["compute", "bandwidth"];
/// The keys of a claim.
pub(crate) const CLAIM_KEYS: &[&str] =
    &["says", "value", "ratio", "difference", "order", "expect", "paper", "hardware"];
/// The keys of a claim's `ratio` and `difference`.
pub(crate) const COMPARED_KEYS: &[&str] = &["metric", "of", "to"];
/// The keys of a claim's `value`.
pub(crate) const VALUE_KEYS: &[&str] = &["metric", "of"];
/// The keys of a claim's `order`.
pub(crate) const ORDER_KEYS: &[&str] = &["metric", "step", "where", "axis", "ascending"];
/// The keys of a claim's `expect`.
pub(crate) const EXPECT_KEYS: &[&str] = &["at_least", "at_most"];
/// Values of a claim's `hardware`.
pub(crate) const BACKEND_NAMES: &[&str] = &["cuda", "wgpu", "cpu"];

impl<'a> Lower<'a> {
    pub(super) fn new(sources: &'a mut Sources, problems: &'a mut Collector) -> Self {
        Self { sources, problems }
    }

    /// Reads a whole recipe, put together from what it extends; also answers the place of its name.
    pub(super) fn recipe(mut self, node: &Node, path: &Path) -> (Recipe, Span) {
        let entries = self.map(node, "a recipe", RECIPE_KEYS).unwrap_or_default();
        let stem = path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
        let name = match find(entries, "name") {
            Some(node) => self.text(node, "`name`").map(|name| Spanned::new(name, node.span)),
            None => Some(Spanned::new(stem, node.span.part(0, 1))),
        };
        match &name {
            Some(name) if !is_name(&name.value) && find(entries, "name").is_none() => {
                let message = format!("the file's name `{}` cannot name a recipe", name.value);
                self.problem(name.span, message, "this recipe has no name of its own", "add `name:` with a name");
            }
            Some(name) => self.check_name(name, "recipe"),
            None => {}
        }
        let about = find(entries, "about").and_then(|node| self.text(node, "`about`"));
        let cite = find(entries, "cite").and_then(|node| self.cite(node));
        let params = self.params(find(entries, "params"));
        let steps = match find(entries, "steps") {
            Some(steps) => self.steps(steps, &params),
            None => {
                // A recipe whose base could not be read has unknown steps.
                if matches!(node.kind, NodeKind::Map(_)) && find(entries, "extends").is_none() {
                    let span = node.span.part(0, 1);
                    let help = "a recipe needs `steps:` with at least one step";
                    self.problem(span, "this recipe has no steps", "nothing to run", help);
                }
                Vec::new()
            }
        };
        let written = find(entries, "steps").map(written).unwrap_or_default();
        let tables = find(entries, "tables").map_or_else(Vec::new, |node| self.tables(node, &steps, &written, &params));
        let figures =
            find(entries, "figures").map_or_else(Vec::new, |node| self.figures(node, &steps, &written, &params));
        let claims = find(entries, "claims").map_or_else(Vec::new, |node| self.claims(node, &steps, &written, &params));
        let summaries = find(entries, "tables").map_or_else(Vec::new, |node| self.summaries(node, &steps, &claims));
        let decides = !claims.is_empty()
            || tables.iter().filter_map(|table| table.compare.as_ref()).any(|compare| compare.decide);
        for adaptive in steps.iter().filter_map(|step| step.adaptive.as_ref()).filter(|_| !decides) {
            let help = "add a claim, or `decide: true` to a table's `compare`";
            let message = "seeds are added until something is decided, but nothing is to be decided";
            self.problem(adaptive.span, message, "until what is decided?", help);
        }
        let span = name.as_ref().map_or(node.span.part(0, 1), |name| name.span);
        let name = name.map(|name| name.value).unwrap_or_default();
        let sources = Sources::default();
        (
            Recipe {
                name,
                about,
                cite,
                report: PathBuf::new(),
                flags: String::new(),
                params,
                steps,
                tables,
                summaries,
                figures,
                claims,
                sources,
            },
            span,
        )
    }

    /// The work that a study is about.
    fn cite(&mut self, node: &Node) -> Option<Citation> {
        let keys = self.map(node, "`cite`", CITE_KEYS)?;
        if find(keys, "title").is_none() {
            self.problem(node.span, "`cite` has no `title`", "which work?", "add `title:`");
        }
        let mut text = |key: &str| match &find(keys, key)?.kind {
            NodeKind::Scalar(Value::Int(year)) if key == "year" => Some(year.to_string()),
            _ => find(keys, key).and_then(|node| self.text(node, &format!("`{key}`"))),
        };
        let (title, authors, year) = (text("title")?, text("authors"), text("year"));
        let (venue, url) = (text("venue"), text("url"));
        Some(Citation { title, authors, year, venue, url })
    }

    fn params(&mut self, node: Option<&Node>) -> Names {
        let mut params = Names::new();
        for entry in node.map(|node| self.entries(node, "`params`")).unwrap_or_default() {
            self.check_name(&entry.key, "param");
            let Some(value) = self.literal(&entry.value) else { continue };
            params.insert(entry.key.value.clone(), Spanned::new(value, entry.value.span));
        }
        params
    }

    fn steps(&mut self, node: &Node, params: &Names) -> Vec<Step> {
        let entries = self.entries(node, "`steps`");
        if entries.is_empty() && matches!(node.kind, NodeKind::Map(_)) {
            self.problem(node.span, "this recipe has no steps", "nothing to run", "add a step");
        }
        let names: Vec<&str> = entries.iter().map(|entry| entry.key.value.as_str()).collect();
        let steps: Vec<Option<Step>> = entries.iter().map(|entry| self.step(entry, &names, params)).collect();
        // A step with a mistake that leaves nothing of it is gone; the indices of the others move up.
        let mut moved = vec![None; steps.len()];
        let present = steps.iter().enumerate().filter(|(_, step)| step.is_some());
        for (to, (from, _)) in present.enumerate() {
            moved[from] = Some(to);
        }
        let mut steps: Vec<Step> = steps.into_iter().flatten().collect();
        for step in &mut steps {
            step.needs.retain_mut(|need| moved[need.step].map(|to| need.step = to).is_some());
        }
        self.check_selections(&steps);
        for step in &steps {
            self.check_axes_used(step, &steps);
        }
        steps
    }

    fn step(&mut self, entry: &Entry, names: &[&str], params: &Names) -> Option<Step> {
        let name = &entry.key;
        self.check_name(name, "step");
        let keys = self.map(&entry.value, "a step", STEP_KEYS)?;
        let needs = find(keys, "needs").map_or_else(Vec::new, |node| self.needs(node, name, names, params));
        let needed: Vec<&str> = needs.iter().map(|need| names[need.step]).collect();
        let matrix = self.matrix(keys, params, &needed);
        let adaptive = find(keys, "seeds").and_then(|node| self.adaptive(node, params));
        let mut resources = find(keys, "resources").map(|node| self.resources(node)).unwrap_or_default();
        resources.exclusive = find(keys, "exclusive").is_some_and(|node| self.flag(node, "exclusive"));
        let policy = self.policy(keys);
        let mut with = Vec::new();
        for entry in find(keys, "with").map(|node| self.entries(node, "`with`")).unwrap_or_default() {
            if let Some(template) = Template::parse_any(&entry.value, self.sources, self.problems) {
                with.push((entry.key.clone(), template));
            }
        }
        let Some(uses) = find(keys, "uses") else {
            let help = format!("add `uses:` with a task: {}", task_list());
            self.problem(name.span, format!("step `{}` uses no task", name.value), "what should it run?", help);
            return None;
        };
        let uses = Spanned::new(self.text(uses, "`uses`")?, uses.span);
        let Some(task) = Task::info(&uses.value) else {
            let tasks = Task::ALL.iter().filter(|info| !info.hidden).map(|info| info.name);
            let help = suggest(&uses.value, "tasks", tasks).unwrap_or_default();
            self.problem(uses.span, format!("unknown task `{}`", uses.value), "no task has this name", help);
            return None;
        };
        let step = Step { name: name.clone(), task, needs, matrix, adaptive, with, resources, policy };
        self.check_step(&step, params, &needed);
        Some(step)
    }

    /// Checks of a step that need no expansion: names of parameters and axes.
    fn check_step(&mut self, step: &Step, params: &Names, needed: &[&str]) {
        let axes = step.axes();
        for (key, template) in &step.with {
            let known = Known { axes: Some(&axes), needs: Some(needed) };
            check_references(template, params, known, self.sources, self.problems);
            if step.task.param(&key.value).is_none() {
                let allowed = step.task.params().map(|param| param.name);
                let what = format!("parameters of `{}`", step.task.name);
                let help = suggest(&key.value, &what, allowed).unwrap_or_default();
                let message = format!("task `{}` has no parameter `{}`", step.task.name, key.value);
                self.problem(key.span, message, "unknown parameter", help);
            }
        }
    }

    /// An axis sets the parameter of its name, or is used in `with` or `if`, or decides which jobs of another step are
    /// needed.
    fn check_axes_used(&mut self, step: &Step, steps: &[Step]) {
        let joins = |axis: &str| step.needs.iter().any(|need| steps[need.step].axes().contains(&axis));
        let given = |axis: &str| step.with.iter().any(|(key, _)| key.value == axis);
        let condition = step.matrix.condition.iter().flat_map(Condition::references);
        let with = step.with.iter().flat_map(|(_, template)| template.references());
        let references: Vec<&Reference> = with.chain(condition).collect();
        let referenced = |axis: &str| {
            references.iter().any(|reference| reference.scope == super::Scope::Matrix && reference.name == axis)
        };
        let declared = step.matrix.dimensions.iter().flat_map(Dimension::axes);
        let further = step.matrix.include.iter().flat_map(|entry| entry.values.iter().map(|(name, _)| name));
        let mut seen = Vec::new();
        for axis in declared.chain(further) {
            let name = axis.value.as_str();
            if seen.contains(&name) || referenced(name) || (joins(name) && !given(name)) {
                continue;
            }
            seen.push(name);
            if given(name) {
                let help = format!("write `{name}: ${{{{ matrix.{name} }}}}` in `with`, or remove it there");
                let message = format!("axis `{name}` is not used: `with` gives `{name}` another value");
                self.problem(axis.span, message, "unused axis", help);
            } else if step.task.param(name).is_none() {
                let help = suggest(name, "parameters", step.task.params().map(|param| param.name)).unwrap_or_default();
                let message = format!(
                    "axis `{name}` is not used: `{}` has no such parameter, and `with` does not mention it",
                    step.task.name
                );
                self.problem(axis.span, message, "unused axis", help);
            }
        }
    }

    /// `needs: step`, `needs: [step, …]`, or maps with `step` and `where` in that list.
    fn needs(&mut self, node: &Node, step: &Spanned<String>, names: &[&str], params: &Names) -> Vec<Need> {
        let items = match &node.kind {
            NodeKind::List(items) => items.as_slice(),
            _ => std::slice::from_ref(node),
        };
        let mut needs: Vec<Need> = Vec::new();
        for item in items {
            let (name, only) = if let NodeKind::Map(_) = &item.kind {
                let keys = self.map(item, "an entry of `needs`", NEED_KEYS).unwrap_or_default();
                let only = find(keys, "where").map(|node| self.selection(node, params)).unwrap_or_default();
                (find(keys, "step").unwrap_or(item), only)
            } else {
                (item, Selection::default())
            };
            let span = name.span;
            let Some(name) = self.text(name, "`needs`") else { continue };
            match names.iter().position(|known| *known == name) {
                Some(index) if needs.iter().any(|need| need.step == index) => {
                    self.problem(span, format!("`{name}` is needed twice"), "again", "remove one of them");
                }
                Some(step) => needs.push(Need { step, only, span }),
                None => {
                    let others = names.iter().copied().filter(|known| *known != step.value);
                    let help = suggest(&name, "steps", others).unwrap_or_else(|| "there is no other step".into());
                    let message = format!("step `{}` needs unknown step `{name}`", step.value);
                    self.problem(span, message, "no step has this name", help);
                }
            }
        }
        needs
    }

    /// `where`: axis to a value or to a list of values.
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

    /// The axes that `needs` selects by must be axes of the needed step, which may stand further down.
    fn check_selections(&mut self, steps: &[Step]) {
        for need in steps.iter().flat_map(|step| &step.needs) {
            let needed = &steps[need.step];
            let axes = needed.axes();
            for (axis, _) in &need.only.0 {
                self.check_axis(axis, needed, &axes);
            }
        }
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

    /// The entries of a map in which only certain keys may stand.
    fn map<'n>(&mut self, node: &'n Node, what: &str, allowed: &[&str]) -> Option<&'n [Entry]> {
        let NodeKind::Map(entries) = &node.kind else {
            let help = format!("write keys and values: {}", allowed.join(", "));
            self.problem(node.span, format!("{what} must be a map, found {}", node.describe()), "not a map", help);
            return None;
        };
        for entry in entries {
            if !allowed.contains(&entry.key.value.as_str()) {
                let help = suggest(&entry.key.value, &format!("keys of {what}"), allowed.iter().copied());
                let message = format!("unknown key `{}` in {what}", entry.key.value);
                self.problem(entry.key.span, message, "unknown key", help.unwrap_or_default());
            }
        }
        Some(entries)
    }

    /// The entries of a map whose keys the author chooses.
    fn entries<'n>(&mut self, node: &'n Node, what: &str) -> &'n [Entry] {
        match &node.kind {
            NodeKind::Map(entries) => entries,
            _ => {
                let message = format!("{what} must be a map, found {}", node.describe());
                self.problem(node.span, message, "not a map", "write `name: value` lines");
                &[]
            }
        }
    }

    fn text(&mut self, node: &Node, what: &str) -> Option<String> {
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

    /// A list of texts, or one text.
    fn texts(&mut self, node: &Node, what: &str) -> Vec<Spanned<String>> {
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

    /// A value in which only params may stand.
    fn value(&mut self, node: &Node, params: &Names) -> Option<Template> {
        let template = Template::parse(node, self.sources, self.problems)?;
        check_references(&template, params, Known::default(), self.sources, self.problems);
        Some(template)
    }

    /// A value in which no expression may stand.
    fn literal(&mut self, node: &Node) -> Option<Value> {
        let template = Template::parse(node, self.sources, self.problems)?;
        if let Some(reference) = template.references().first() {
            let help = "params are the values that expressions refer to; write the value itself";
            self.problem(reference.span, "an expression cannot be used here", "not a plain value", help);
            return None;
        }
        template.resolve(&Names::new(), &Names::new()).map(|value| value.value)
    }

    fn check_name(&mut self, name: &Spanned<String>, what: &str) {
        if !is_name(&name.value) {
            self.bad_name(name, what);
        }
    }

    fn bad_name(&mut self, name: &Spanned<String>, what: &str) {
        let message = format!("`{}` cannot name a {what}", name.value.escape_debug());
        let help = match name.value.len() {
            bytes if bytes > LONGEST_NAME => format!("a name has at most {LONGEST_NAME} characters, not {bytes}"),
            _ => "a name begins with a letter or `_` and goes on with letters, digits, `-` and `_`".to_owned(),
        };
        self.problem(name.span, message, "not a name", help);
    }

    fn problem(&mut self, span: Span, message: impl Into<String>, label: impl Into<String>, help: impl Into<String>) {
        let help = help.into();
        let problem = Problem::new(self.sources, span, message, label);
        self.problems.push(span, if help.is_empty() { problem } else { problem.help(help) });
    }
}

fn find<'n>(entries: &'n [Entry], key: &str) -> Option<&'n Node> {
    entries.iter().find(|entry| entry.key.value == key).map(|entry| &entry.value)
}

/// The names of all steps that the author wrote, those included of which a mistake has left nothing.
fn written(steps: &Node) -> Vec<String> {
    match &steps.kind {
        NodeKind::Map(entries) => entries.iter().map(|entry| entry.key.value.clone()).collect(),
        NodeKind::Scalar(_) | NodeKind::List(_) => Vec::new(),
    }
}

fn task_list() -> String {
    let names: Vec<_> = Task::ALL.iter().filter(|info| !info.hidden).map(|info| format!("`{}`", info.name)).collect();
    names.join(", ")
}
