//! Words of other tools, and the equivalents in a recipe.

/// Keys of a mapping that other tools have, as the mapping's name in messages, the keys, and the advice on the
/// replacement.
const KEYS: &[(&str, &[&str], &str)] = &[
    (
        "a recipe",
        &["jobs", "tasks", "stages", "pipeline", "experiments", "runs"],
        "write `steps:`; a recipe's jobs follow from its steps",
    ),
    (
        "a recipe",
        &["with", "config", "defaults", "vars", "variables", "env", "hyperparameters"],
        "values for the whole recipe are its `params:`; `${{ params.NAME }}` refers to one",
    ),
    (
        "a recipe",
        &["matrix", "grid", "parameters", "seeds", "uses", "run", "argv"],
        "this is a key of a step: `steps: { NAME: { uses: …, matrix: { … } } }`",
    ),
    (
        "a recipe",
        &["program", "command", "script", "method", "metric"],
        "write a step: `steps: { train: { uses: command, with: { argv: [python, train.py] } } }`",
    ),
    ("a recipe", &["plots", "charts", "graphs"], "write `figures:`"),
    ("a recipe", &["hypotheses", "assertions", "checks", "expect"], "write `claims:`"),
    ("a recipe", &["description"], "write `about:`"),
    (
        "a recipe",
        &["executor", "slurm", "cluster", "resources"],
        "a sweep file or `--executor` selects the place where jobs run; `resources:` is a key of a step",
    ),
    ("a recipe", &["version"], "remove it: a recipe has no version"),
    (
        "a step",
        PROGRAM,
        "write `uses: command` and `with: { argv: [python, train.py] }`, or `with: { run: … }` for a script",
    ),
    (
        "a step",
        &["params", "args", "parameters", "config", "kwargs", "inputs", "outputs", "env"],
        "write the parameters of a step's task in `with:`",
    ),
    (
        "a step",
        &["depends_on", "depends-on", "dependsOn", "dependencies", "deps", "after", "requires"],
        "write `needs:` with the names of steps",
    ),
    (
        "a step",
        &["gpus", "gpu", "cpus", "cpu", "memory", "mem", "nodes"],
        "write `resources: { cpus: 1, gpus: 1, memory: 4GiB }`",
    ),
    ("a step", &["grid", "axes", "sweep", "strategy", "values"], "write `matrix:` with lists of values"),
    ("a step", &["seed"], "write `seeds: 3` for the seeds 0, 1 and 2, or `with: { seed: 1 }` for one"),
    (
        "a step",
        &["task", "type", "name", "action"],
        "a step's task is its `uses:`, and its name is the key before the colon: `train: { uses: … }`",
    ),
    ("a step", &["when", "condition", "only_if"], "write `if:` with a condition, such as `matrix.lr < 1e-3`"),
    ("a step", &["retry", "max_retries"], "write `retries:`"),
    (
        "a step",
        &["allow_failure", "allow-failure", "continue_on_error", "ignore_errors"],
        "write `continue-on-error: true`",
    ),
    ("a step", &["repeat", "repeats", "trials", "replicates"], "write `seeds: 3`"),
    ("a table", &["metrics", "metric", "values", "show"], "write `cells:` with the metrics"),
    ("a table", &["step", "steps", "data", "source"], "write `from:` with the name of a step"),
    ("a table", &["cols", "column"], "write `columns:`"),
    ("a table", &["row", "index", "axes", "by"], "write `rows:` with axes of the step"),
    (
        "a figure",
        &["series", "hue", "group", "by", "groups", "legend"],
        "write `color:` with the axis whose values become separate lines",
    ),
    ("a figure", &["type", "chart"], "write `kind:`"),
    ("a figure", &["step", "data", "source"], "write `from:` with the name of a step"),
    ("`expect`", &["below", "less", "lt", "smaller", "less-than"], "write `less_than:`"),
    ("`expect`", &["above", "greater", "gt", "more", "more-than", "greater_than"], "write `more_than:`"),
    ("`expect`", &["max", "le", "most", "upper"], "write `at_most:`"),
    ("`expect`", &["min", "ge", "least", "lower"], "write `at_least:`"),
    (
        "`expect`",
        &["equals", "equal", "is", "between", "range", "about"],
        "write both `at_least:` and `at_most:`, or `within:`",
    ),
    ("a claim", &["metric", "of", "step"], "these are keys inside of `value:`, `ratio:`, `difference:` or `order:`"),
    ("a table", &["filter", "select", "only"], "write `where:` with axes and their values"),
];

/// Keys by which other tools name the program of a step.
pub(super) const PROGRAM: &[&str] = &["run", "argv", "command", "cmd", "script", "program", "entrypoint"];

/// Replacement of a key that other tools have in a mapping; `None` for any other key.
pub(super) fn key(what: &str, key: &str) -> Option<&'static str> {
    KEYS.iter().find(|(mapping, keys, _)| *mapping == what && keys.contains(&key)).map(|(.., instead)| *instead)
}

/// The parameter of a task for a word of other tools.
pub(super) fn parameter(task: &str, word: &str) -> Option<&'static str> {
    if task != "command" {
        return None;
    }
    Some(match word {
        "command" | "cmd" | "script" | "program" | "exec" | "entrypoint" | "shell_command" => {
            "write `run: \"python train.py\"` for a shell command, or `argv: [python, train.py]` for a program with its arguments"
        }
        "args" | "arguments" | "kwargs" | "config" | "parameters" | "hyperparameters" => {
            "write `params: { lr: 0.1 }`, and `\"${{ flags }}\"` in `argv` where the program expects them"
        }
        "environment" | "variables" => "write `env: { NAME: value }`",
        "cwd" | "workdir" | "working_dir" | "working-directory" | "dir" => {
            "write `project: FOLDER` for the folder that the program runs in"
        }
        "files" | "deps" | "dependencies" | "data" => "write `inputs: [PATH]`",
        "outs" | "artifacts" | "output" => "write `outputs: [PATH]`",
        _ => return None,
    })
}

/// Help on running a program, for an author whose word for it, `uses`, is not a task.
pub(super) fn task(uses: &str) -> String {
    let mut words: Vec<&str> = uses.split_whitespace().collect();
    if words.len() < 2 {
        words = if uses.contains(['.', '/']) && !uses.contains('@') {
            vec!["python", uses]
        } else {
            vec!["python", "train.py"]
        };
    }
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    format!(
        "to run a program, write `uses: command` and `with: {{ argv: [{}] }}`; `sweep tasks` lists all tasks",
        words.join(", ")
    )
}

/// A word in a flow list of YAML.
fn quoted(word: &str) -> String {
    let plain = word.chars().all(|char| char.is_ascii_alphanumeric() || "._/-".contains(char));
    if plain { word.to_owned() } else { format!("\"{}\"", word.replace('"', "\\\"")) }
}

/// A reference that is written as other tools write it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ForeignReference<'t> {
    /// The expression's place in the text, in bytes.
    pub(super) start: usize,
    /// The expression's length in bytes.
    pub(super) len: usize,
    /// `params` or `matrix`.
    pub(super) scope: &'static str,
    /// The name behind the dot.
    pub(super) name: &'t str,
}

/// Finds `{{ params.x }}`, `${ params.x }`, `$params.x` and `$(params.x)` in a text.
pub(super) fn references(text: &str) -> Vec<ForeignReference<'_>> {
    const FORMS: [(&str, &str); 4] = [("{{", "}}"), ("${", "}"), ("$(", ")"), ("$", "")];
    let mut references = Vec::new();
    for scope in ["params", "matrix"] {
        for (at, _) in text.match_indices(scope) {
            let rest = &text[at + scope.len()..];
            let Some(rest) = rest.strip_prefix('.') else { continue };
            let end = rest.find(|char: char| !char.is_ascii_alphanumeric() && char != '_' && char != '-');
            let name = &rest[..end.unwrap_or(rest.len())];
            let before = text[..at].trim_end();
            let end_of_name = at + scope.len() + 1 + name.len();
            let form = FORMS.iter().find(|(open, _)| before.ends_with(open));
            // A `$` belongs to the name behind it; braces may stand apart.
            let Some((open, close)) = form.filter(|(open, _)| *open != "$" || before.len() == at) else { continue };
            let after = text[end_of_name..].trim_start();
            if name.is_empty() || !after.starts_with(close) {
                continue;
            }
            let start = before.len() - open.len();
            let end = if close.is_empty() { end_of_name } else { text.len() - after.len() + close.len() };
            references.push(ForeignReference { start, len: end - start, scope, name });
        }
    }
    references
}

/// A text that is nothing but `params.x` or `matrix.x`.
pub(super) fn bare(text: &str) -> Option<ForeignReference<'_>> {
    ["params", "matrix"].into_iter().find_map(|scope| {
        let name = text.strip_prefix(scope)?.strip_prefix('.')?;
        let is_name = !name.is_empty() && name.chars().all(|char| char.is_ascii_alphanumeric() || "_-".contains(char));
        is_name.then_some(ForeignReference { start: 0, len: text.len(), scope, name })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_of_other_tools_are_found_whole() {
        for text in ["{{ params.lr }}", "{{params.lr}}", "${ params.lr }", "${params.lr}", "$params.lr", "$(params.lr)"]
        {
            let whole = format!("--lr={text} ");
            let found = references(&whole);
            assert_eq!(found, [ForeignReference { start: 5, len: text.len(), scope: "params", name: "lr" }], "{text}");
        }
        for text in ["params.lr", "$ params.lr", "{params.lr}", "the params.", "{{ params.lr", "$params"] {
            assert_eq!(references(text), [], "{text}");
        }
    }

    #[test]
    fn a_program_in_place_of_a_task_becomes_an_argv() {
        assert!(task("python train.py --lr=${{ x }}").contains("argv: [python, train.py, \"--lr=${{\", x, \"}}\"]"));
        assert!(task("train.py").contains("argv: [python, train.py]"));
        assert!(task("pytorch").contains("argv: [python, train.py]"));
    }
}
