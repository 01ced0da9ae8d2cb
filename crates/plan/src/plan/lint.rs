//! Warnings: values that are valid in a recipe but possibly unintended.

mod absent;
mod scripts;
mod sentences;
mod unread;

use std::path::Path;

use sweep_job::{
    ParamError, ParamType as _, Part, Value,
    tasks::{Pattern, Texts},
};

pub(super) use self::{
    absent::absent,
    scripts::{EXTENSIONS, scripts},
    sentences::sentences,
    unread::unread,
};
use super::Label;
use crate::format::is_secret;
use crate::recipe::{Collector, Names, Problem, Recipe, Scope, Span, Spanned, Step, TableKind, Template};

/// The task that runs programs.
pub(super) const COMMAND: &str = "command";
/// Characters with a meaning in a shell. Blanks are omitted: several words may be intended.
const SPECIAL: &[char] =
    &['$', '`', '"', '\'', '\\', ';', '&', '|', '<', '>', '(', ')', '*', '?', '[', ']', '{', '}', '~', '#', '!', '\n'];

/// Checks one point of a step.
pub(super) fn point(recipe: &Recipe, step: &Step, matrix: &Names, label: &Label, problems: &mut Collector) {
    if step.task.name != COMMAND {
        return;
    }
    for (param, template) in &step.with {
        match param.value.as_str() {
            "argv" => variables(recipe, template, matrix, problems),
            "run" => script(recipe, template, matrix, label, problems),
            "env" | "params" => secrets(recipe, template, matrix, problems),
            "reads" => patterns(recipe, template, matrix, problems),
            _ => {}
        }
    }
}

/// Warns about expressions in a script, whose values become part of the script and are run, too.
fn script(recipe: &Recipe, template: &Template, matrix: &Names, label: &Label, problems: &mut Collector) {
    for reference in template.references() {
        let (scope, value) = match reference.scope {
            Scope::Params => ("params", recipe.params.get(&reference.name)),
            Scope::Matrix => ("matrix", matrix.get(&reference.name)),
            Scope::Needs(..) | Scope::Flags => continue,
        };
        let text = value.map(|value| value.value.to_string()).unwrap_or_default();
        let Some(special) = text.chars().find(|char| SPECIAL.contains(char)) else { continue };
        let name = &reference.name;
        let message = format!(
            "`${{{{ {scope}.{name} }}}}` becomes part of the script, and at {label} it contains `{}`, which the shell interprets",
            special.escape_default()
        );
        let variable = name.to_uppercase().replace('-', "_");
        let help = format!(
            "pass it through the environment: `env: {{ {variable}: \"${{{{ {scope}.{name} }}}}\" }}`, and write `\"${variable}\"` in the script"
        );
        problems.warn(&recipe.sources, reference.span, message, help);
    }
}

/// Warns about arguments that only a shell would replace.
fn variables(recipe: &Recipe, template: &Template, matrix: &Names, problems: &mut Collector) {
    let Some(Value::List(items)) = template.resolve(&recipe.params, matrix).map(|value| value.value) else { return };
    let words: Vec<&str> = items.iter().filter_map(Value::as_text).collect();
    // `sh -c`, and scripts of awk and others, use `$` for their own variables.
    if words.iter().any(|word| ["-c", "-e", "-lc"].contains(word)) {
        return;
    }
    for (index, word) in items.iter().enumerate().filter_map(|(index, item)| Some((index, item.as_text()?))) {
        let value = word.split_once('=').map_or(word, |(_, value)| value);
        let name = value.strip_prefix('$').map(|rest| rest.trim_start_matches('{'));
        let name = name
            .map(|rest| rest.split(|char: char| !char.is_ascii_alphanumeric() && char != '_').next().unwrap_or(rest));
        let is_variable = name.is_some_and(|name| {
            name.len() > 1 && name.chars().all(|char| char.is_ascii_uppercase() || char.is_ascii_digit() || char == '_')
        });
        if !is_variable && !value.starts_with("~/") {
            continue;
        }
        let span = template.part(&Part::Item(index)).unwrap_or(template).span;
        let message = format!("the program gets `{word}` unchanged: no shell expands `argv`");
        problems.warn(
            &recipe.sources,
            span,
            message,
            "write the value, or the whole command line as `run:`, which a shell executes",
        );
    }
}

/// Warns about groups of patterns that read a part of a number, or skip the line of a run that has diverged.
fn patterns(recipe: &Recipe, template: &Template, matrix: &Names, problems: &mut Collector) {
    let Some(Value::Map(entries)) = template.resolve(&recipe.params, matrix).map(|value| value.value) else { return };
    let Some(Texts(texts)) = entries.get("stdout").and_then(Texts::from_value) else { return };
    let part = template.part(&Part::Key("stdout".to_owned())).unwrap_or(template);
    let span = part.resolve(&recipe.params, matrix).map_or(part.span, |value| value.span);
    for pattern in texts.iter().filter_map(|text| Pattern::new(text).ok()) {
        for (name, inner, missed) in pattern.gaps() {
            let message = format!("`(?<{name}>{inner})` does not read all numbers: not `{}`", missed.join("`, `"));
            let help = format!("write `{{{name}}}` in its place, which reads every number that programs print");
            problems.warn(&recipe.sources, span, message, help);
        }
    }
}

/// Warns about secrets in `env` and `params`, which are stored in the record.
fn secrets(recipe: &Recipe, template: &Template, matrix: &Names, problems: &mut Collector) {
    let Some(Value::Map(entries)) = template.resolve(&recipe.params, matrix).map(|value| value.value) else { return };
    for (name, value) in entries.iter().filter(|(name, value)| is_secret(name) && is_written_out(value)) {
        let part = template.part(&Part::Key(name.clone())).unwrap_or(template);
        let span = part.resolve(&recipe.params, matrix).map_or(part.span, |value| value.span);
        debug_assert!(value.as_text().is_some());
        let variable = name.to_uppercase().replace('-', "_");
        let message =
            format!("`{name}` looks like a secret, but its value will be stored in records, reports and bundles");
        let help = format!(
            "`env: {{ {variable}: {{ from: {variable} }} }}` reads the value from the environment and does not store it"
        );
        problems.warn(&recipe.sources, span, message, help);
    }
}

/// Warns that the digest of an input folder excludes the results folder inside it.
pub(super) fn results_in_input(recipe: &Recipe, place: Span, input: &Path, results: &Path, problems: &mut Collector) {
    let (input, results) = (input.display(), results.display());
    let message = format!("the input `{input}` contains the results folder `{results}`, which is not part of it");
    let help = "a program that reads results gets them from the jobs that it needs: `${{ needs.STEP.artifacts.NAME }}`";
    problems.warn(&recipe.sources, place, message, help);
}

/// Checks a recipe's params.
pub(super) fn params(recipe: &Recipe, problems: &mut Collector) {
    for (name, value) in recipe.params.iter().filter(|(name, value)| is_secret(name) && is_written_out(&value.value)) {
        let message =
            format!("param `{name}` looks like a secret, but its value will be stored in reports and bundles");
        let variable = name.to_uppercase().replace('-', "_");
        let help = format!(
            "`env: {{ {variable}: {{ from: {variable} }} }}` reads the value from the environment and does not store it"
        );
        problems.warn(&recipe.sources, value.span, message, help);
    }
}

/// A metric by which a claim or a comparison is judged.
struct Judged<'r> {
    /// `claim` or `table`.
    kind: &'static str,
    name: &'r str,
    metric: &'r Spanned<String>,
    /// The steps that measure it.
    steps: Vec<usize>,
    /// True if the recipe accepts any conditions.
    any_conditions: bool,
}

/// Warns about claims and comparisons of times and rates that other jobs can distort.
pub(super) fn timing(recipe: &Recipe, problems: &mut Collector) {
    for Judged { kind, name, metric, steps, .. } in judged(recipe).into_iter().filter(|judged| !judged.any_conditions) {
        let disturbed = |step: &&Step| !step.resources.exclusive && recipe.traits(step, &metric.value).is_timing();
        let mut names: Vec<String> = Vec::new();
        for step in steps.iter().map(|step| &recipe.steps[*step]).filter(disturbed) {
            let name = format!("`{}`", step.name.value);
            if !names.contains(&name) {
                names.push(name);
            }
        }
        if names.is_empty() {
            continue;
        }
        let names = names.join(" and ");
        let metric_name = &metric.value;
        let message = format!(
            "{kind} `{name}` judges `{metric_name}`, but other jobs may run at the same time as those of {names} and change it"
        );
        let help = format!(
            "add `exclusive: true` to {names}, so that each job runs alone on the machine, or `conditions: any` to the {kind}"
        );
        problems.warn(&recipe.sources, metric.span, message, help);
    }
}

/// Warns about steps that share states although their purpose is to measure.
pub(super) fn states(recipe: &Recipe, problems: &mut Collector) {
    for step in recipe.steps.iter().filter(|step| step.policy.states.share && step.resources.exclusive) {
        let name = &step.name;
        let message =
            format!("`{}` is exclusive because its times are measured, but its jobs would share states", name.value);
        let help =
            "remove `share: true` or `exclusive: true`; a step for times and one for results can have the same `with`";
        let problem = Problem::new(&recipe.sources, name.span, message, "measures and shares").help(help);
        problems.push(name.span, problem);
    }
    for Judged { kind, name, metric, steps, .. } in judged(recipe).into_iter().filter(|judged| !judged.any_conditions) {
        let is_timing = |step: &&Step| step.policy.states.share && recipe.traits(step, &metric.value).is_timing();
        let Some(step) = steps.iter().map(|step| &recipe.steps[*step]).find(is_timing) else { continue };
        let message = format!(
            "{kind} `{name}` judges `{}`, but the jobs of `{}` share states, and each measures only the steps after that",
            metric.value, step.name.value
        );
        let help = "measure it in a step without `share: true`, or add `conditions: any`".to_owned();
        problems.warn(&recipe.sources, metric.span, message, help);
    }
}

/// Warns that jobs whose times are shown do not share GPUs, although the recipe requests it.
pub(super) fn gpus(recipe: &Recipe, problems: &mut Collector) {
    for (index, step) in recipe.steps.iter().enumerate() {
        if step.resources.shares_gpu() && recipe.measures(index) {
            let name = &step.name;
            let message =
                format!("the jobs of `{}` do not share GPUs, because a time or a rate of them is shown", name.value);
            let help = "write `gpus: 1`, or show the times of a step of their own".to_owned();
            problems.warn(&recipe.sources, name.span, message, help);
        }
    }
}

/// Warns about claims on the results of a search: the best of many configurations looks better than in a repetition.
pub(super) fn selection_bias(recipe: &Recipe, problems: &mut Collector) {
    for claim in &recipe.claims {
        let chosen = |step: &usize| recipe.steps[*step].search.as_ref().filter(|search| search.selects());
        let mut steps = claim.selections().into_iter().map(|(step, _)| step);
        let Some((step, search)) = steps.find_map(|step| Some((step, chosen(&step)?))) else { continue };
        let (claim_name, name) = (&claim.name.value, &recipe.steps[step].name.value);
        let message = format!(
            "claim `{claim_name}` uses `{name}`, whose results decided which jobs ran: the best results are better \
             than a repetition would be"
        );
        let help = if search.confirm.is_some() {
            format!("write `step: {name}-confirmed`, whose seeds the search has not used")
        } else {
            format!("add `confirm: {{ top: 2, seeds: 5 }}` to `search`, and write `step: {name}-confirmed`")
        };
        problems.warn(&recipe.sources, claim.name.span, message, help);
    }
}

/// The metrics of all claims and comparisons.
fn judged(recipe: &Recipe) -> Vec<Judged<'_>> {
    let mut found = Vec::new();
    for table in &recipe.tables {
        let TableKind::Compare(compare) = &table.kind else { continue };
        let (name, steps) = (&table.name.value, vec![compare.of.step]);
        let any_conditions = table.rules.any_conditions;
        let judged = |metric| Judged { kind: "table", name, metric, steps: steps.clone(), any_conditions };
        found.extend(table.cells.iter().map(judged));
    }
    for claim in &recipe.claims {
        let metric = claim.statement.metric();
        let steps = claim.selections().into_iter().map(|(step, _)| step).collect();
        let any_conditions = claim.rules.any_conditions;
        found.push(Judged { kind: "claim", name: &claim.name.value, metric, steps, any_conditions });
    }
    found
}

/// Remedy for a value of the wrong type: several jobs, a number in quotes, a command line.
pub(super) fn remedy(param: &str, value: &Value, error: &ParamError) -> Option<String> {
    let ParamError::Type { expected, .. } = error else { return None };
    let is_number = expected.starts_with("a number") || expected.starts_with("an integer");
    match value {
        Value::List(items) if is_number && items.len() > 1 => {
            Some(format!("for one job with each value, make it an axis: `matrix: {{ {param}: {value} }}`"))
        }
        Value::Text(text) if is_number && text.parse::<f64>().is_ok() => {
            Some(format!("remove the quotes: `{param}: {text}`"))
        }
        Value::Text(text) if param == "argv" => {
            let words: Vec<&str> = text.split_whitespace().collect();
            Some(format!("write a list: `argv: [{}]`; a line for a shell is the value of `run`", words.join(", ")))
        }
        _ => None,
    }
}

/// True if a value may be confidential: numbers, words for yes and no, and empty values are not.
fn is_written_out(value: &Value) -> bool {
    value
        .as_text()
        .is_some_and(|text| !text.is_empty() && text.parse::<f64>().is_err() && !["true", "false"].contains(&text))
}
