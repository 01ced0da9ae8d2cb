//! The values of the axis `code`, and the patches of `ablate`.

use std::{collections::BTreeMap, path::Path};

use fs_err as fs;
use serde_json::{Value as Json, json};
use sweep_job::Value;

use super::Lower;
use crate::recipe::{
    Factor, Names, Template, is_name,
    node::{Node, NodeKind},
    source::{Span, Spanned},
};

/// The axis, and the parameter, for variants of a program's code.
pub(super) const CODE: &str = "code";
/// The key of a variant with its name in labels and tables.
const NAME: &str = "name";
/// Words before the title in a patch that was made for mail.
const SUBJECT: &str = "Subject:";

/// The schema of a variant that is a map.
pub(super) fn schema() -> Json {
    let text = json!({ "type": ["string", "integer"], "minLength": 1 });
    let paths = json!({ "type": "array", "items": { "type": "string", "minLength": 1 } });
    let files = json!({ "type": "object", "additionalProperties": { "type": ["string", "null"] } });
    let applied = json!({ "type": "object", "additionalProperties": { "type": ["boolean", "null"] } });
    json!({
        "type": "object",
        "properties": {
            "name": { "type": "string", "description": "The name of the variant in labels and tables." },
            "rev": text,
            "folder": { "type": "string", "minLength": 1 },
            "files": files,
            "patches": { "anyOf": [{ "type": "string", "minLength": 1 }, paths, applied] },
        },
        "additionalProperties": false,
    })
}

/// The variants of the step that is being read.
#[derive(Debug, Default)]
pub(super) struct Variants {
    /// See [`crate::recipe::Step::variants`].
    named: BTreeMap<String, Value>,
    /// The patches of `ablate`, as a value of `code` with the axes that apply them.
    ablated: Option<Template>,
}

impl Lower<'_> {
    /// Reads a variant that is a map, and returns the name that represents it.
    pub(super) fn variant(&mut self, node: &Node, params: &Names) -> Option<Template> {
        let template = Template::parse_any(node, self.sources, self.problems)?;
        let Some(Value::Map(mut entries)) = template.resolve(params, &Names::new()).map(|value| value.value) else {
            let help = "write the revision, the files and the patches themselves, or names of `params`";
            self.problem(node.span, "an expression in a variant of code has no value here", "not known here", help);
            return None;
        };
        let name = match entries.remove(NAME) {
            Some(Value::Text(name)) => name,
            Some(other) => {
                let message = format!("the name of a variant must be text, not {}", other.kind());
                self.problem(node.span, message, "no name", "write `name: no-norm`");
                return None;
            }
            None => name_of(&entries),
        };
        let value = Value::Map(entries);
        match self.variants.named.get(&name) {
            Some(other) if *other != value => {
                let message = format!("two variants of code have the name `{name}`");
                self.problem(node.span, message, "again", "give each a `name`");
                None
            }
            _ => {
                self.variants.named.insert(name.clone(), value);
                Some(Template::literal(Value::Text(name), node.span))
            }
        }
    }

    /// Takes the variants of the step that has been read, and adds the patches of its `ablate` to its parameters.
    pub(super) fn take_variants(&mut self, with: &mut Vec<(Spanned<String>, Template)>) -> BTreeMap<String, Value> {
        let Variants { named, ablated } = std::mem::take(&mut self.variants);
        if let Some(patches) = ablated {
            if let Some((name, _)) = with.iter().find(|(name, _)| name.value == CODE) {
                let help = "remove it: the patches of `ablate` are the program's code";
                self.problem(name.span, "`ablate` has `patches`, and `with` has `code`", "twice", help);
            } else {
                with.push((Spanned::new(CODE.to_owned(), patches.span), patches));
            }
        }
        named
    }

    pub(super) fn patch_factors(&mut self, node: &Node) -> Vec<Factor> {
        let mut factors: Vec<Factor> = Vec::new();
        let mut applied = Vec::new();
        for (patch, name) in self.patches(node) {
            if let Some(other) = factors.iter().find(|factor| factor.axis.value == name) {
                let message = format!("`{patch}` and another patch have the name `{}`", other.axis.value);
                let help = "write another name in the first line of one of them: `# NAME`";
                self.problem(node.span, message, "one name for two factors", help);
                continue;
            }
            applied.push((patch, Template::axis(&name, node.span)));
            let level = |is_applied| Template::literal(Value::Bool(is_applied), node.span);
            factors.push(Factor {
                axis: Spanned::new(name, node.span),
                baseline: level(false),
                values: vec![level(true)],
            });
        }
        let patches = vec![("patches".to_owned(), Template::map(applied, node.span))];
        self.variants.ablated = Some(Template::map(patches, node.span));
        factors
    }

    /// The patches that a node names, each with the name of its factor.
    fn patches(&mut self, node: &Node) -> Vec<(String, String)> {
        let items = match &node.kind {
            NodeKind::List(items) => items.as_slice(),
            _ => std::slice::from_ref(node),
        };
        let folder = self.sources.folder(node.span.source).to_owned();
        let mut patches = Vec::new();
        for item in items {
            let NodeKind::Scalar(Value::Text(pattern)) = &item.kind else {
                let message = format!("a patch must be a path, found {}", item.describe());
                self.problem(item.span, message, "no path", "write `patches: ablations/*.patch`");
                continue;
            };
            let paths = matching(&folder, pattern);
            if paths.is_empty() {
                let message = format!("there is no patch `{pattern}`");
                let help = "paths are relative to the folder of the recipe; `git diff > NAME.patch` makes a patch";
                self.problem(item.span, message, "no such file", help);
            }
            for path in paths {
                if let Some(name) = self.patch_name(&folder, &path, item.span) {
                    patches.push((path, name));
                }
            }
        }
        patches
    }

    fn patch_name(&mut self, folder: &Path, path: &str, span: Span) -> Option<String> {
        let text = match fs::read(folder.join(path)) {
            Ok(text) => text,
            Err(error) => {
                self.problem(span, format!("`{path}` cannot be read: {error}"), "here", "make it readable");
                return None;
            }
        };
        if let Ok(text) = str::from_utf8(&text) {
            // A bundle has the patches that its recipe names.
            self.sources.add_file(&folder.join(path), text);
        }
        let title = title(&String::from_utf8_lossy(&text)).map(|title| slug(&title)).filter(|name| is_name(name));
        let stem = Path::new(path).file_stem().map(|stem| slug(&stem.to_string_lossy()));
        let name = title.or_else(|| stem.filter(|name| is_name(name)));
        if name.is_none() {
            let help = "write a name of letters, digits, `_` and `-` in its first line: `# no-rope`";
            self.problem(span, format!("`{path}` has no name for a factor"), "no name", help);
        }
        name
    }
}

/// The name of a variant without one: its revision, files and patches.
fn name_of(entries: &BTreeMap<String, Value>) -> String {
    let stem =
        |path: &str| Path::new(path).file_stem().map_or(path.to_owned(), |stem| stem.to_string_lossy().into_owned());
    let mut parts = Vec::new();
    for key in ["rev", "folder", "files", "patches"] {
        match entries.get(key) {
            Some(Value::Text(text)) if key == "rev" => parts.push(text.clone()),
            Some(Value::Text(text)) => parts.push(stem(text)),
            Some(Value::List(items)) => parts.extend(items.iter().filter_map(Value::as_text).map(stem)),
            Some(Value::Map(map)) => parts.extend(map.iter().filter_map(|(name, value)| match value {
                Value::Text(file) => Some(stem(file)),
                Value::Bool(true) => Some(stem(name)),
                Value::Null => Some(format!("no-{}", stem(name))),
                _ => None,
            })),
            Some(other) => parts.push(other.to_string()),
            None => {}
        }
    }
    if parts.is_empty() { ".".to_owned() } else { parts.join("+") }
}

/// The paths that a pattern matches, from a folder, sorted.
fn matching(folder: &Path, pattern: &str) -> Vec<String> {
    let full_pattern = Path::new(&glob::Pattern::escape(&folder.to_string_lossy())).join(pattern);
    let Ok(paths) = glob::glob(&full_pattern.to_string_lossy()) else { return Vec::new() };
    let inside = |path: std::path::PathBuf| Some(path.strip_prefix(folder).unwrap_or(&path).to_str()?.to_owned());
    paths.filter_map(Result::ok).filter(|path| path.is_file()).filter_map(inside).collect()
}

/// The title of a patch: its first line if that is a comment, or its subject if it was made for mail.
fn title(text: &str) -> Option<String> {
    let first = text.lines().find(|line| !line.trim().is_empty())?;
    if let Some(title) = first.trim_start().strip_prefix('#') {
        return Some(title.trim().to_owned());
    }
    let mut head = text.lines().take_while(|line| !line.starts_with("diff ") && !line.starts_with("--- "));
    let subject = head.find_map(|line| line.strip_prefix(SUBJECT))?.trim();
    let subject = subject.strip_prefix('[').and_then(|rest| rest.split_once(']')).map_or(subject, |(_, rest)| rest);
    Some(subject.trim().to_owned())
}

/// A text as a name: its letters and digits, with `-` between words.
fn slug(text: &str) -> String {
    let words = text.split(|char: char| !char.is_ascii_alphanumeric() && char != '_');
    words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join("-").to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patches_are_named_by_their_first_lines_or_files() {
        let named = |text: &str| title(text).map(|title| slug(&title));
        assert_eq!(named("# no-rope\n--- a/x\n").as_deref(), Some("no-rope"));
        assert_eq!(named("\n#  No RoPE, please\ndiff").as_deref(), Some("no-rope-please"));
        assert_eq!(named("From 1\nSubject: [PATCH 1/2] Leave out norm\n\ndiff").as_deref(), Some("leave-out-norm"));
        assert_eq!(named("--- a/x\n+++ b/x\nSubject: none\n"), None);
    }
}
