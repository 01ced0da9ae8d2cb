//! A warning about `params` that no program reads.

use std::path::{Path, PathBuf};

use sweep_job::{Part, Value, tasks::FLAGS};

use super::{
    COMMAND,
    scripts::{EXTENSIONS, started},
};
use crate::plan::Point;
use crate::recipe::{Collector, Names, Recipe, Reference, Step, Template};

/// Signs of a reader of the parameters in a program's text.
const SIGNS: [&[u8]; 4] = [b"SWEEP_PARAMS", b"sweep.params", b"import sweep", b"from sweep import"];
/// Folders of other people's files.
const FOREIGN: [&str; 5] = ["node_modules", "site-packages", "results", "target", "__pycache__"];
/// Files that are looked through, at most.
const MAX_FILES: usize = 500;
/// Maximum depth of the search in folders below a script's folder.
const MAX_DEPTH: usize = 4;
/// The largest file that is looked through, in bytes.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// Warns about `params` that are neither arguments nor read from `SWEEP_PARAMS`, as far as can be seen, at one point of a step.
pub(in crate::plan) fn unread(recipe: &Recipe, step: &Step, point: &Point, problems: &mut Collector) {
    let template = |name: &str| step.with.iter().find(|(param, _)| param.value == name).map(|(_, template)| template);
    let Some(params) = template("params").filter(|_| step.task.name == COMMAND) else { return };
    let matrix: Names = point.values.iter().cloned().collect();
    let resolved = |template: &Template| template.resolve(&recipe.params, &matrix).map(|value| value.value);
    let names: Vec<String> = match resolved(params) {
        Some(Value::Map(entries)) if entries.is_empty() => return,
        Some(Value::Map(entries)) => entries.into_keys().collect(),
        _ => Vec::new(),
    };
    let passed: Vec<&Template> = ["argv", "run", "env"].into_iter().filter_map(template).collect();
    let same = |one: &Reference, other: &Reference| one.scope == other.scope && one.name == other.name;
    let passes = |reference: &&Reference| {
        passed.iter().flat_map(|template| template.references()).any(|other| same(reference, other))
    };
    // A param may be named for the tables, and be passed in another way.
    let is_passed = |name: &String| {
        let references = params.part(&Part::Key(name.clone())).map(Template::references).unwrap_or_default();
        !references.is_empty() && references.iter().all(passes)
    };
    if !names.is_empty() && names.iter().all(is_passed) {
        return;
    }
    let mut words = Vec::new();
    for template in &passed {
        // A result of another job may be a program that reads them.
        let Some(value) = resolved(template) else { return };
        texts(&value, &mut words);
    }
    let mut scripts: Vec<String> = words.iter().flat_map(|word| started(word)).map(str::to_owned).collect();
    scripts.extend(words.iter().cloned());
    scripts.extend(words.windows(2).filter(|two| two[0] == "-m").map(|two| two[1].replace('.', "/") + ".py"));
    // The program runs in its project, which may be elsewhere.
    let project = template("project").and_then(resolved).and_then(|value| value.as_text().map(str::to_owned));
    let folder = recipe.sources.folder(step.source()).join(project.unwrap_or_default());
    let mut open: Vec<(PathBuf, usize)> = Vec::new();
    if let Some(inputs) = template("inputs") {
        let Some(value) = resolved(inputs) else { return };
        let mut paths = Vec::new();
        texts(&value, &mut paths);
        open.extend(paths.into_iter().map(|path| (folder.join(path), 0)));
    }
    for path in scripts.iter().map(|script| folder.join(script)).filter(|path| path.is_file()) {
        if !is_small(&path) {
            // A large program is not searched, so its reads are unknown.
            return;
        }
        // The script may import the module that reads.
        open.extend(path.parent().map(|parent| (parent.to_owned(), 0)).filter(|_| is_script(&path)));
        open.push((path, 0));
    }
    let is_sign = |text: &[u8]| SIGNS.iter().any(|sign| text.windows(sign.len()).any(|part| part == *sign));
    if words.iter().any(|word| word == FLAGS || is_sign(word.as_bytes())) || any_file(open, &is_sign) {
        return;
    }
    let message = format!(
        "the `params` of `{}` reach no program: no item of `argv` is `\"{FLAGS}\"`, and nothing that it runs reads `SWEEP_PARAMS`",
        step.name.value
    );
    let help = format!(
        "add `\"{FLAGS}\"` to `argv`, or read them in the program: the JSON file `SWEEP_PARAMS`, or `sweep.params`"
    );
    problems.warn(&recipe.sources, params.span, message, help);
}

/// The texts in a value.
fn texts(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Text(text) => found.push(text.clone()),
        Value::List(items) => items.iter().for_each(|item| texts(item, found)),
        Value::Map(entries) => {
            found.extend(entries.keys().cloned());
            for value in entries.values() {
                texts(value, found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) => {}
    }
}

fn is_script(path: &Path) -> bool {
    path.extension().and_then(|end| end.to_str()).is_some_and(|end| EXTENSIONS.contains(&end))
}

fn is_small(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.len() <= MAX_FILE_BYTES)
}

/// True if one of these files, or a script in one of these folders, has the sign, or if there are too many files to search.
fn any_file(mut open: Vec<(PathBuf, usize)>, is_sign: &dyn Fn(&[u8]) -> bool) -> bool {
    let mut left = MAX_FILES;
    while let Some((path, depth)) = open.pop() {
        if left == 0 {
            return true;
        }
        left -= 1;
        if path.is_dir() {
            let Ok(entries) = std::fs::read_dir(&path) else { continue };
            for entry in entries.flatten() {
                let (path, name) = (entry.path(), entry.file_name());
                let name = name.to_string_lossy();
                let is_own = !name.starts_with('.') && !FOREIGN.contains(&&*name);
                if is_own && (is_script(&path) || (depth < MAX_DEPTH && path.is_dir())) {
                    open.push((path, depth + 1));
                }
            }
            continue;
        }
        if is_small(&path) && std::fs::read(&path).is_ok_and(|text| is_sign(&text)) {
            return true;
        }
    }
    false
}
