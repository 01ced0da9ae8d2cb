//! [`Node`] to [`Recipe`]: gives every key its meaning and reports all mistakes in one go.

use std::path::Path;

use sweep_job::{Task, Value};

use super::{
    Assignment, Axis, Draft, Matrix, Names, Recipe, Resources, Step, Table, Template, check_references, is_name,
    node::{Entry, Node, NodeKind},
    problem::{Collector, Problem, suggest},
    source::{Sources, Span, Spanned},
};

/// Gathers what is needed on the way from a text's values to a recipe.
pub(super) struct Lower<'a> {
    sources: &'a mut Sources,
    problems: Collector,
}

const RECIPE_KEYS: &[&str] = &["name", "about", "params", "steps", "tables"];
const STEP_KEYS: &[&str] = &["uses", "needs", "matrix", "with", "resources"];
const RESOURCE_KEYS: &[&str] = &["cpus"];
const TABLE_KEYS: &[&str] = &["title", "from", "where", "rows", "columns", "cells"];

impl<'a> Lower<'a> {
    pub(super) fn new(sources: &'a mut Sources, problems: Collector) -> Self {
        Self { sources, problems }
    }

    /// Reads a whole recipe.
    pub(super) fn recipe(mut self, node: &Node, path: &Path, set: &[String]) -> Draft {
        let entries = self.map(node, "a recipe", RECIPE_KEYS).unwrap_or_default();
        let stem = path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
        let name = match find(entries, "name") {
            Some(node) => self.text(node, "`name`").map(|name| Spanned::new(name, node.span)),
            None => Some(Spanned::new(stem, node.span.part(0, 1))),
        };
        if let Some(name) = &name
            && !is_name(&name.value)
        {
            self.bad_name(name, "recipe");
        }
        let about = find(entries, "about").and_then(|node| self.text(node, "`about`"));
        let params = self.params(find(entries, "params"), set);
        let steps = match find(entries, "steps") {
            Some(steps) => self.steps(steps, &params),
            None => {
                if matches!(node.kind, NodeKind::Map(_)) {
                    let span = node.span.part(0, 1);
                    let help = "a recipe needs `steps:` with at least one step";
                    self.problem(span, "this recipe has no steps", "nothing to run", help);
                }
                Vec::new()
            }
        };
        let tables = find(entries, "tables").map_or_else(Vec::new, |node| self.tables(node, &steps, &params));
        let recipe = Recipe {
            name: name.map(|name| name.value).unwrap_or_default(),
            about,
            folder: path.parent().map(Path::to_owned).unwrap_or_default(),
            params,
            steps,
            tables,
            sources: self.sources.clone(),
        };
        Draft { recipe, problems: self.problems }
    }

    fn params(&mut self, node: Option<&Node>, set: &[String]) -> Names {
        let mut params = Names::new();
        for entry in node.map(|node| self.entries(node, "`params`")).unwrap_or_default() {
            self.check_name(&entry.key, "param");
            let Some(value) = self.literal(&entry.value) else { continue };
            params.insert(entry.key.value.clone(), Spanned::new(value, entry.value.span));
        }
        for assignment in set {
            self.set(assignment, &mut params);
        }
        params
    }

    /// One `--set name=value`.
    fn set(&mut self, assignment: &str, params: &mut Names) {
        let source = self.sources.add(format!("--set {assignment}"), assignment);
        let whole = Span { source, ..Span::default() }.part(0, assignment.len());
        let Some((name, text)) = assignment.split_once('=') else {
            self.problem(whole, "`--set` without a value", "expected NAME=VALUE", "for example `--set iters=100`");
            return;
        };
        if !params.contains_key(name) {
            let help = suggest(name, "params", params.keys().map(String::as_str))
                .unwrap_or_else(|| "this recipe has no `params`".into());
            self.problem(whole.part(0, name.len()), format!("unknown param `{name}`"), "no param has this name", help);
            return;
        }
        let scalar = self.sources.add(format!("--set {assignment}"), text);
        let node = Node::parse(self.sources, scalar, &mut self.problems);
        if let Some(value) = node.and_then(|node| self.literal(&node)) {
            params.insert(name.to_owned(), Spanned::new(value, whole.part(name.len() + 1, text.len())));
        }
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
            step.needs.retain_mut(|need| moved[need.value].map(|to| need.value = to).is_some());
        }
        steps
    }

    fn step(&mut self, entry: &Entry, names: &[&str], params: &Names) -> Option<Step> {
        let name = &entry.key;
        self.check_name(name, "step");
        let keys = self.map(&entry.value, "a step", STEP_KEYS)?;
        let needs = find(keys, "needs").map_or_else(Vec::new, |node| self.needs(node, name, names));
        let matrix = find(keys, "matrix").map(|node| self.matrix(node, params)).unwrap_or_default();
        let resources = find(keys, "resources").map(|node| self.resources(node)).unwrap_or_default();
        let mut with = Vec::new();
        for entry in find(keys, "with").map(|node| self.entries(node, "`with`")).unwrap_or_default() {
            if let Some(template) = Template::parse(&entry.value, self.sources, &mut self.problems) {
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
        let step = Step { name: name.clone(), task, needs, matrix, with, resources };
        self.check_step(&step, params);
        Some(step)
    }

    /// What can be said of a step without expanding it: names of parameters and axes.
    fn check_step(&mut self, step: &Step, params: &Names) {
        let axes = step.axes();
        for (key, template) in &step.with {
            check_references(template, params, Some(&axes), self.sources, &mut self.problems);
            if step.task.param(&key.value).is_none() {
                let allowed = step.task.params().map(|param| param.name);
                let what = format!("parameters of `{}`", step.task.name);
                let help = suggest(&key.value, &what, allowed).unwrap_or_default();
                let message = format!("task `{}` has no parameter `{}`", step.task.name, key.value);
                self.problem(key.span, message, "unknown parameter", help);
            }
        }
        let given = |axis: &str| step.with.iter().any(|(key, _)| key.value == axis);
        let referenced = |axis: &str| {
            let mut references = step.with.iter().flat_map(|(_, template)| template.references());
            references.any(|reference| reference.scope == super::Scope::Matrix && reference.name == axis)
        };
        let declared = step.matrix.axes.iter().map(|axis| &axis.name);
        let further = step.matrix.include.iter().flat_map(|entry| entry.values.iter().map(|(name, _)| name));
        let mut seen = Vec::new();
        for axis in declared.chain(further) {
            let name = axis.value.as_str();
            if seen.contains(&name) || referenced(name) {
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

    fn needs(&mut self, node: &Node, step: &Spanned<String>, names: &[&str]) -> Vec<Spanned<usize>> {
        let mut needs: Vec<Spanned<usize>> = Vec::new();
        for name in self.texts(node, "`needs`") {
            match names.iter().position(|known| *known == name.value) {
                Some(index) if needs.iter().any(|need| need.value == index) => {
                    self.problem(name.span, format!("`{}` is needed twice", name.value), "again", "remove one of them");
                }
                Some(index) => needs.push(Spanned::new(index, name.span)),
                None => {
                    let others = names.iter().copied().filter(|known| *known != step.value);
                    let help = suggest(&name.value, "steps", others).unwrap_or_else(|| "there is no other step".into());
                    let message = format!("step `{}` needs unknown step `{}`", step.value, name.value);
                    self.problem(name.span, message, "no step has this name", help);
                }
            }
        }
        needs
    }

    fn matrix(&mut self, node: &Node, params: &Names) -> Matrix {
        let mut matrix = Matrix::default();
        for entry in self.entries(node, "`matrix`") {
            match entry.key.value.as_str() {
                "include" => matrix.include = self.assignments(&entry.value, "`include`", params),
                "exclude" => matrix.exclude = self.assignments(&entry.value, "`exclude`", params),
                name => {
                    self.check_name(&entry.key, "axis");
                    let values = self.axis_values(name, &entry.value, params);
                    matrix.axes.push(Axis { name: entry.key.clone(), values });
                }
            }
        }
        let axes: Vec<&str> = matrix.axes.iter().map(|axis| axis.name.value.as_str()).collect();
        for (name, _) in matrix.exclude.iter().flat_map(|entry| &entry.values) {
            if !axes.contains(&name.value.as_str()) {
                let help = suggest(&name.value, "axes", axes.iter().copied()).unwrap_or_default();
                self.problem(name.span, format!("unknown axis `{}`", name.value), "no axis has this name", help);
            }
        }
        matrix
    }

    fn axis_values(&mut self, name: &str, node: &Node, params: &Names) -> Vec<Template> {
        let NodeKind::List(items) = &node.kind else {
            let help = format!("write `{name}: [{}]` for an axis with one value", self.sources.slice(node.span));
            let message = format!("axis `{name}` must be a list, found {}", node.describe());
            self.problem(node.span, message, "expected a list of values", help);
            return Vec::new();
        };
        if items.is_empty() {
            self.problem(node.span, format!("axis `{name}` has no values"), "empty", "add a value, or remove the axis");
        }
        let mut values = Vec::new();
        for item in items {
            if let Some(template) = Template::parse(item, self.sources, &mut self.problems) {
                check_references(&template, params, None, self.sources, &mut self.problems);
                values.push(template);
            }
        }
        values
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
                if let Some(template) = Template::parse(&entry.value, self.sources, &mut self.problems) {
                    check_references(&template, params, None, self.sources, &mut self.problems);
                    values.push((entry.key.clone(), template));
                }
            }
            assignments.push(Assignment { values, span: item.span });
        }
        assignments
    }

    fn resources(&mut self, node: &Node) -> Resources {
        let entries = self.map(node, "`resources`", RESOURCE_KEYS).unwrap_or_default();
        let cpus = find(entries, "cpus").and_then(|node| match &node.kind {
            NodeKind::Scalar(Value::Int(cpus)) if (1..=4096).contains(cpus) => usize::try_from(*cpus).ok(),
            _ => {
                let help = "write the number of cores that a job keeps busy, for example `cpus: 1`";
                self.problem(node.span, "`cpus` must be an integer from 1 to 4096", "not a number of cores", help);
                None
            }
        });
        Resources { cpus }
    }

    fn tables(&mut self, node: &Node, steps: &[Step], params: &Names) -> Vec<Table> {
        let entries = self.entries(node, "`tables`");
        entries.iter().filter_map(|entry| self.table(entry, steps, params)).collect()
    }

    fn table(&mut self, entry: &Entry, steps: &[Step], params: &Names) -> Option<Table> {
        let name = &entry.key;
        self.check_name(name, "table");
        let keys = self.map(&entry.value, "a table", TABLE_KEYS)?;
        let title = find(keys, "title").and_then(|node| self.text(node, "`title`"));
        let Some(from) = find(keys, "from") else {
            let message = format!("table `{}` does not say which step it is about", name.value);
            self.problem(name.span, message, "`from` is missing", "add `from:` with the name of a step");
            return None;
        };
        let from = Spanned::new(self.text(from, "`from`")?, from.span);
        let Some((index, step)) = steps.iter().enumerate().find(|(_, step)| step.name.value == from.value) else {
            let known = steps.iter().map(|step| step.name.value.as_str());
            let help = suggest(&from.value, "steps", known).unwrap_or_default();
            let message = format!("table `{}` is about unknown step `{}`", name.value, from.value);
            self.problem(from.span, message, "no step has this name", help);
            return None;
        };
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
        let mut only = Vec::new();
        for entry in find(keys, "where").map(|node| self.entries(node, "`where`")).unwrap_or_default() {
            self.check_axis(&entry.key, step, &axes);
            let items = match &entry.value.kind {
                NodeKind::List(items) => items.as_slice(),
                _ => std::slice::from_ref(&entry.value),
            };
            let mut values = Vec::new();
            for item in items {
                if let Some(template) = Template::parse(item, self.sources, &mut self.problems) {
                    check_references(&template, params, None, self.sources, &mut self.problems);
                    values.push(template);
                }
            }
            only.push((entry.key.clone(), values));
        }
        let cells = find(keys, "cells").map_or_else(Vec::new, |node| self.texts(node, "`cells`"));
        if cells.is_empty() {
            let metrics: Vec<_> = step.task.metrics.iter().map(|metric| metric.name).collect();
            let help = format!("add `cells:` with metrics of `{}`: {}", step.task.name, metrics.join(", "));
            self.problem(name.span, format!("table `{}` shows no metric", name.value), "`cells` is missing", help);
        }
        for cell in &cells {
            if step.task.metric(&cell.value).is_none() {
                let metrics = step.task.metrics.iter().map(|metric| metric.name);
                let help = suggest(&cell.value, "metrics", metrics).unwrap_or_default();
                let message = format!("task `{}` does not measure `{}`", step.task.name, cell.value);
                self.problem(cell.span, message, "unknown metric", help);
            }
        }
        Some(Table { name: name.clone(), title, from: Spanned::new(index, from.span), only, rows, columns, cells })
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
                self.problem(node.span, message, "not text", "put quotes around it");
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

    /// A value in which no expression may stand.
    fn literal(&mut self, node: &Node) -> Option<Value> {
        let template = Template::parse(node, self.sources, &mut self.problems)?;
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
        let help = "a name begins with a letter or `_` and goes on with letters, digits, `-` and `_`";
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

fn task_list() -> String {
    let names: Vec<_> = Task::ALL.iter().filter(|info| !info.hidden).map(|info| format!("`{}`", info.name)).collect();
    names.join(", ")
}
