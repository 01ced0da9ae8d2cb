//! Warnings: values that are valid in a recipe but possibly unintended.

use sweep_job::{Part, Value};

use super::{Label, Point};
use crate::recipe::{Collector, Names, Recipe, Scope, Step, Template};

/// The task that runs programs.
const COMMAND: &str = "command";
/// Characters with a meaning in a shell. Blanks are omitted: several words may be intended.
const SPECIAL: &[char] =
    &['$', '`', '"', '\'', '\\', ';', '&', '|', '<', '>', '(', ')', '*', '?', '[', ']', '{', '}', '~', '#', '!', '\n'];
/// Parts of the names of variables with confidential values.
const SECRETS: &[&str] = &[
    "TOKEN",
    "SECRET",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "CREDENTIAL",
    "CREDENTIALS",
    "APIKEY",
    "API_KEY",
    "ACCESS_KEY",
    "PRIVATE_KEY",
];

/// Checks one point of a step.
pub(super) fn point(recipe: &Recipe, step: &Step, point: &Point, label: &Label, problems: &mut Collector) {
    if step.task.name != COMMAND {
        return;
    }
    let matrix: Names = point.values.iter().cloned().collect();
    for (param, template) in &step.with {
        match param.value.as_str() {
            "run" => script(recipe, template, &matrix, label, problems),
            "env" => environment(recipe, template, &matrix, problems),
            _ => {}
        }
    }
}

/// An expression in a script becomes part of the script: what it stands for is run, too.
fn script(recipe: &Recipe, template: &Template, matrix: &Names, label: &Label, problems: &mut Collector) {
    for reference in template.references() {
        let (scope, value) = match reference.scope {
            Scope::Params => ("params", recipe.params.get(&reference.name)),
            Scope::Matrix => ("matrix", matrix.get(&reference.name)),
            Scope::Needs(..) => continue,
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

/// Warns about secrets in `env`, which is stored in the record.
fn environment(recipe: &Recipe, template: &Template, matrix: &Names, problems: &mut Collector) {
    let Some(Value::Map(entries)) = template.resolve(&recipe.params, matrix).map(|value| value.value) else { return };
    for (name, value) in entries.iter().filter(|(name, value)| is_secret(name) && is_written_out(value)) {
        let part = template.part(&Part::Key(name.clone())).unwrap_or(template);
        let span = part.resolve(&recipe.params, matrix).map_or(part.span, |value| value.span);
        debug_assert!(value.as_text().is_some());
        let message =
            format!("`{name}` looks like a secret, but its value will be stored in records, reports and bundles");
        let help =
            format!("`env: {{ {name}: {{ from: {name} }} }}` reads it from the environment and keeps it out of them");
        problems.warn(&recipe.sources, span, message, help);
    }
}

/// Checks a recipe's params.
pub(super) fn params(recipe: &Recipe, problems: &mut Collector) {
    for (name, value) in recipe.params.iter().filter(|(name, value)| is_secret(name) && is_written_out(&value.value)) {
        let message =
            format!("param `{name}` looks like a secret, but its value will be stored in reports and bundles");
        let variable = name.to_uppercase().replace('-', "_");
        let help = format!(
            "`env: {{ {variable}: {{ from: {variable} }} }}` reads it from the environment and keeps it out of them"
        );
        problems.warn(&recipe.sources, value.span, message, help);
    }
}

/// True if a name looks like that of a secret: it contains one of the words, whole.
pub(crate) fn is_secret(name: &str) -> bool {
    let name = format!("_{}_", name.to_uppercase().replace('-', "_"));
    SECRETS.iter().any(|word| name.contains(&format!("_{word}_")))
}

/// True if a value may be confidential: numbers, words for yes and no, and empty values are not.
fn is_written_out(value: &Value) -> bool {
    value
        .as_text()
        .is_some_and(|text| !text.is_empty() && text.parse::<f64>().is_err() && !["true", "false"].contains(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_have_names() {
        for name in ["HF_TOKEN", "token", "wandb-api-key", "DB_PASSWORD", "AWS_SECRET_ACCESS_KEY", "CREDENTIALS"] {
            assert!(is_secret(name), "{name}");
        }
        for name in ["MAX_TOKENS", "TOKENIZER", "KEY", "API", "SECRETARY", "lr"] {
            assert!(!is_secret(name), "{name}");
        }
    }
}
