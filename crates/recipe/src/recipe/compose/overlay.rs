//! Changes of params and axes by `--set`, `--axis` and their counterparts in sweep files.

use sweep_job::Value;

use super::Disposition;
use crate::recipe::{
    Request,
    node::{Entry, Node, NodeKind},
    problem::{Collector, Problem, suggest},
    source::{Sources, Span, Spanned},
};

/// Changes to recipes.
#[derive(Debug, Default)]
pub(in crate::recipe) struct Overlay {
    /// Params and their values.
    pub(in crate::recipe) set: Vec<(Spanned<String>, Node)>,
    /// Axes, as `AXIS` or `STEP.AXIS`, and their values.
    pub(in crate::recipe) axes: Vec<(Spanned<String>, Node)>,
}

impl Overlay {
    /// Changes on the command line.
    pub(super) fn typed(request: &Request<'_>, sources: &mut Sources, problems: &mut Collector) -> Self {
        let set = request.set.iter();
        let set = set.filter_map(|text| typed("--set", text, "NAME=VALUE", "iters=100", false, sources, problems));
        let set = set.collect();
        let axes = request.axes.iter();
        let axes =
            axes.filter_map(|text| typed("--axis", text, "AXIS=VALUES", "lr=1e-4,1e-3", true, sources, problems));
        Self { set, axes: axes.collect() }
    }

    /// Applies each change to every recipe that has the param or axis. A change that applies to no recipe is a mistake.
    pub(super) fn apply(self, recipes: &mut [Disposition], sources: &Sources, problems: &mut Collector) {
        if recipes.is_empty() {
            // The mistakes in the recipes have already been reported.
            return;
        }
        for (name, value) in self.set {
            let mut is_found = false;
            for Disposition { node, .. } in &mut *recipes {
                if let Some(param) = entry(node, "params").and_then(|params| entry(params, &name.value)) {
                    param.clone_from(&value);
                    is_found = true;
                }
            }
            if !is_found {
                let names: Vec<String> =
                    recipes.iter_mut().flat_map(|recipe| names(entry(&mut recipe.node, "params").as_deref())).collect();
                let help = elsewhere(recipes, &name.value, sources.slice(value.span))
                    .or_else(|| suggest(&name.value, "params", names.iter().map(String::as_str)))
                    .unwrap_or_else(|| "this recipe has no `params`".into());
                let message = format!("unknown param `{}`", name.value);
                let problem = Problem::new(sources, name.span, message, "no param has this name");
                problems.push(name.span, problem.help(help));
            }
        }
        for (name, values) in self.axes {
            set_axis(recipes, &name, &values, sources, problems);
        }
    }
}

/// Remedy where `--set` names an axis, or a value in the `with` of a step.
fn elsewhere(recipes: &mut [Disposition], name: &str, value: &str) -> Option<String> {
    for Disposition { node, .. } in recipes {
        let Some(Node { kind: NodeKind::Map(steps), .. }) = entry(node, "steps") else { continue };
        for Entry { key, value: step } in steps {
            let step_name = &key.value;
            if axis_names(step).iter().any(|axis| axis == name) {
                return Some(format!("`{name}` is an axis of step `{step_name}`: write `--axis {name}={value}`"));
            }
            if entry(step, "with").and_then(|with| entry(with, name)).is_some() {
                return Some(format!(
                    "step `{step_name}` has `{name}` in `with`: write `--axis {step_name}.{name}={value}`, or make it a param, with \
                     `params: {{ {name}: … }}` and `{name}: ${{{{ params.{name} }}}}`"
                ));
            }
        }
    }
    None
}

fn set_axis(
    recipes: &mut [Disposition],
    name: &Spanned<String>,
    values: &Node,
    sources: &Sources,
    problems: &mut Collector,
) {
    let (only, axis) = match name.value.split_once('.') {
        Some((step, axis)) => (Some(step), axis),
        None => (None, name.value.as_str()),
    };
    let mut is_found = false;
    let (mut axes, mut steps) = (Vec::new(), Vec::new());
    for Disposition { node, narrowed, added, .. } in recipes {
        let Some(Node { kind: NodeKind::Map(entries), .. }) = entry(node, "steps") else { continue };
        for Entry { key, value: step } in entries {
            steps.push(key.value.clone());
            if only.is_some_and(|only| only != key.value) {
                continue;
            }
            let axes_of_step = axis_names(step);
            let is_new = !axes_of_step.iter().any(|name| name == axis);
            axes.extend(axes_of_step);
            if replace_axis(step, &Spanned::new(axis, name.span), values, only.is_some()) {
                is_found = true;
                narrowed.push((key.value.clone(), axis.to_owned()));
                added.extend(is_new.then(|| (key.value.clone(), axis.to_owned())));
            }
        }
    }
    if !is_found {
        let (message, help) = match only {
            Some(step) if !steps.iter().any(|known| known == step) => {
                (format!("unknown step `{step}`"), suggest(step, "steps", steps.iter().map(String::as_str)))
            }
            _ => {
                axes.sort_unstable();
                axes.dedup();
                let suggestion = suggest(axis, "axes", axes.iter().map(String::as_str));
                let help =
                    suggestion.map(|suggestion| format!("{suggestion}; `STEP.{axis}` adds a new axis to a step"));
                (format!("no step has an axis `{axis}` whose values can be replaced"), help)
            }
        };
        let problem = Problem::new(sources, name.span, message, "cannot be changed").maybe_help(help);
        problems.push(name.span, problem);
    }
}

/// Gives a step's axis other values; `true` if it has that axis, or if `add` allows a new one. An axis that follows
/// another step's axis continues to follow it, unless the step is named.
fn replace_axis(step: &mut Node, name: &Spanned<&str>, values: &Node, add: bool) -> bool {
    let axis = name.value;
    let follows = |node: &Node| matches!(&node.kind, NodeKind::Scalar(Value::Text(text)) if text.contains("${{"));
    if let Some(matrix) = entry(step, "matrix") {
        if let Some(node) = entry(matrix, axis).filter(|_| !RESERVED.contains(&axis)) {
            if follows(node) && !add {
                return true;
            }
            node.clone_from(values);
            return true;
        }
        if let Some(node) = entry(matrix, "zip").and_then(|zip| entry(zip, axis)) {
            node.clone_from(values);
            return true;
        }
    }
    let seeds = axis == "seed" && entry(step, "seeds").is_some();
    if !seeds && (!add || RESERVED.contains(&axis)) {
        return false;
    }
    let NodeKind::Map(entries) = &mut step.kind else { return false };
    entries.retain(|entry| !seeds || entry.key.value != "seeds");
    // An axis that is given to a step must have an effect.
    if let Some(Entry { value: Node { kind: NodeKind::Map(with), .. }, .. }) =
        entries.iter_mut().find(|entry| entry.key.value == "with")
    {
        with.retain(|entry| seeds || entry.key.value != axis);
    }
    let entry_of_axis = Entry { key: Spanned::new(axis.to_owned(), name.span), value: values.clone() };
    match entries.iter_mut().find(|entry| entry.key.value == "matrix") {
        Some(Entry { value: Node { kind: NodeKind::Map(axes), .. }, .. }) => axes.push(entry_of_axis),
        Some(_) => return false,
        None => entries.push(Entry {
            key: Spanned::new("matrix".to_owned(), name.span),
            value: Node { kind: NodeKind::Map(vec![entry_of_axis]), span: values.span },
        }),
    }
    true
}

/// The keys of a matrix that are not axes.
const RESERVED: [&str; 4] = ["include", "exclude", "zip", "random"];

fn axis_names(step: &mut Node) -> Vec<String> {
    let mut found = Vec::new();
    if entry(step, "seeds").is_some() {
        found.push("seed".to_owned());
    }
    if let Some(matrix) = entry(step, "matrix") {
        found.extend(names(entry(matrix, "zip").as_deref()));
        found.extend(names(Some(&*matrix)).into_iter().filter(|name| !RESERVED.contains(&name.as_str())));
    }
    found
}

fn names(node: Option<&Node>) -> Vec<String> {
    match node {
        Some(Node { kind: NodeKind::Map(entries), .. }) => {
            entries.iter().map(|entry| entry.key.value.clone()).collect()
        }
        _ => Vec::new(),
    }
}

pub(super) fn entry<'n>(node: &'n mut Node, key: &str) -> Option<&'n mut Node> {
    match &mut node.kind {
        NodeKind::Map(entries) => entries.iter_mut().find(|entry| entry.key.value == key).map(|entry| &mut entry.value),
        NodeKind::Scalar(_) | NodeKind::List(_) => None,
    }
}

/// Parses `--set name=value` or `--axis name=a,b`. The value is one of [`Node::typed`]; the value of an axis may omit
/// the brackets of a list.
fn typed(
    flag: &str,
    assignment: &str,
    form: &str,
    example: &str,
    list: bool,
    sources: &mut Sources,
    problems: &mut Collector,
) -> Option<(Spanned<String>, Node)> {
    let source = sources.add(format!("{flag} {assignment}"), assignment);
    let span = Span { source, ..Span::default() }.part(0, assignment.len());
    let Some((name, text)) = assignment.split_once('=') else {
        let problem = Problem::new(sources, span, format!("`{flag}` without a value"), format!("expected {form}"));
        problems.push(span, problem.help(format!("for example `{flag} {example}`")));
        return None;
    };
    let brackets = list && !text.trim_start().starts_with(['[', '{']);
    let text = if brackets { format!("[{text}]") } else { text.to_owned() };
    let scalar = sources.add(format!("{flag} {assignment}"), text);
    let mut node = Node::typed(sources, scalar, problems)?;
    // From here on, the place of the value is that in the command-line argument.
    move_to(&mut node, span, name.len() + 1, usize::from(brackets));
    Some((Spanned::new(name.to_owned(), span.part(0, name.len())), node))
}

/// Moves the places in a separate text to `offset` in `target`, minus the `less` characters that were prepended to it.
fn move_to(node: &mut Node, target: Span, offset: usize, less: usize) {
    let move_span = |span: Span| {
        let start = (offset + span.start as usize).saturating_sub(less);
        let end = (start + span.len as usize).min(target.len as usize);
        target.part(start, end.saturating_sub(start))
    };
    node.span = move_span(node.span);
    match &mut node.kind {
        NodeKind::Scalar(_) => {}
        NodeKind::List(items) => items.iter_mut().for_each(|item| move_to(item, target, offset, less)),
        NodeKind::Map(entries) => {
            for entry in entries {
                entry.key.span = move_span(entry.key.span);
                move_to(&mut entry.value, target, offset, less);
            }
        }
    }
}
