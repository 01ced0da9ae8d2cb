//! Composition of recipes: base recipes, sweep files that change the values and axes of recipes, and changes on the
//! command line.
//!
//! Changes are applied to the texts' values, before a recipe is read: a param that is changed in a sweep file, on the
//! command line or in the recipe itself gives the same study and the same keys. Each value keeps the place where it was
//! written, so a mistake is shown there.

mod merge;
mod overlay;
mod scales;

use std::{
    collections::HashMap,
    ffi::OsString,
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use sweep_job::Value;

pub(super) use self::overlay::Overlay;
use super::{
    Draft, Executor, Recipe, RecipeError, Request, is_name,
    lower::{Lower, PLAIN, Sweep},
    node::{Node, NodeKind},
    problem::{Collector, Problem, Problems},
    source::{Sources, Span, Spanned},
};
use crate::format::{masked, quoted};

/// Maximum size of a recipe file, in bytes.
const MAX_FILE_BYTES: u64 = 32 << 20;

/// Reads files and composes recipes from them.
#[derive(Default)]
pub(super) struct Loader {
    /// The folder outside of which no file is read, canonical; `None` if all may be read.
    root: Option<PathBuf>,
    sources: Sources,
    /// See [`Draft::typed`].
    typed: Vec<String>,
    problems: Collector,
    /// Files that have been read, by canonical path, so that a base of two recipes reports each mistake once.
    files: HashMap<PathBuf, Option<Node>>,
}

/// A recipe to read: its file, its content, and the report's folder if the file's name does not determine it.
struct Disposition {
    path: PathBuf,
    node: Node,
    report: Option<PathBuf>,
    /// Axes whose values in the file were replaced, as step and axis.
    narrowed: Vec<(String, String)>,
    /// Axes in `narrowed` that the file does not have.
    added: Vec<(String, String)>,
    /// The scale that the request wants.
    wanted: Option<Spanned<String>>,
    /// The scale that was applied.
    scale: Option<Spanned<String>>,
}

impl Disposition {
    fn new(path: PathBuf, node: Node, report: Option<PathBuf>) -> Self {
        Self { path, node, report, narrowed: Vec::new(), added: Vec::new(), wanted: None, scale: None }
    }
}

impl Loader {
    /// Creates a loader that reads no file outside of a folder.
    pub(super) fn inside(root: &Path) -> io::Result<Self> {
        Ok(Self { root: Some(std::fs::canonicalize(root)?), ..Self::default() })
    }

    /// Reads the files of a request.
    pub(super) fn load(mut self, request: &Request<'_>) -> Result<Draft, RecipeError> {
        self.typed = request.typed();
        let typed = Overlay::typed(request, &mut self.sources, &mut self.problems);
        let mut only = Vec::new();
        let mut executor = Executor::default();
        let mut executor_steps = Vec::new();
        let mut overlays = Vec::new();
        let mut recipes = Vec::new();
        for path in request.paths {
            let node = self.read(path).map_err(|source| RecipeError::Read { path: path.clone(), source })?;
            let Some(node) = node else { continue };
            if is_sweep(&node) {
                let sweep = Lower::new(&mut self.sources, &mut self.problems).sweep(&node);
                let first = recipes.len();
                self.swept(path, &sweep, &mut recipes);
                only.extend(sweep.only);
                // The last of several executors applies.
                executor = sweep.executor.unwrap_or(executor);
                executor_steps.extend(sweep.executor_steps);
                overlays.push((first..recipes.len(), sweep.changes));
            } else {
                recipes.push(Disposition::new(path.clone(), node, None));
            }
        }
        self.want(request, &mut recipes);
        // All other changes take precedence over the changes of a scale.
        self.scale(&mut recipes);
        // Changes on the command line are applied last, so that they take precedence.
        overlays.push((0..recipes.len(), typed));
        for (range, overlay) in overlays {
            overlay.apply(&mut recipes[range], &self.sources, &mut self.problems);
        }
        // A selection on the command line replaces the selections of sweep files.
        if !request.only.is_empty() {
            only = request
                .only
                .iter()
                .map(|selection| {
                    let source = self.sources.add(format!("--only {selection}"), selection.as_str());
                    Spanned::new(selection.clone(), Span { source, ..Span::default() }.part(0, selection.len()))
                })
                .collect();
        }
        let mut draft = self.finish(recipes, only);
        set_apart(&mut draft.recipes, request);
        draft.executor = executor;
        draft.check_executor_steps(&executor_steps);
        Ok(draft)
    }

    /// Reads one recipe from its text. Fails only if the text is not YAML.
    pub(super) fn parse(mut self, path: &Path, text: String, set: &[String]) -> Result<Draft, Problems> {
        let source = self.sources.add_file(path, text);
        let Some(node) = Node::parse(&self.sources, source, &mut self.problems) else { return self.problems.fail() };
        let node = self.extended(node, &mut vec![path.to_owned()]);
        let mut recipes = vec![Disposition::new(path.to_owned(), node, None)];
        let request = Request { paths: &[path.to_owned()], set, ..Request::default() };
        self.typed = request.typed();
        let typed = Overlay::typed(&request, &mut self.sources, &mut self.problems);
        self.scale(&mut recipes);
        typed.apply(&mut recipes, &self.sources, &mut self.problems);
        Ok(self.finish(recipes, Vec::new()))
    }

    fn finish(mut self, dispositions: Vec<Disposition>, only: Vec<Spanned<String>>) -> Draft {
        let mut recipes: Vec<(Recipe, Span)> = Vec::new();
        for Disposition { path, node, report, narrowed, added, scale, .. } in dispositions {
            let (mut recipe, name) = Lower::new(&mut self.sources, &mut self.problems).recipe(&node, &path);
            if let Some(scale) = scale {
                recipe.name = self.at_scale(&recipe.name, &scale);
                recipe.scale = Some(scale.value);
            }
            for step in &mut recipe.steps {
                let own = |axes: &[(String, String)]| {
                    let axes_of_step = axes.iter().filter(|(name, _)| *name == step.name.value);
                    axes_of_step.map(|(_, axis)| axis.clone()).collect()
                };
                (step.matrix.narrowed, step.matrix.added) = (own(&narrowed), own(&added));
            }
            recipe.report = report.unwrap_or_else(|| PathBuf::from(&recipe.name));
            recipe.file = path;
            recipes.push((recipe, name));
        }
        apart(&mut recipes);
        for (index, (recipe, name)) in recipes.iter().enumerate() {
            let earlier = || recipes[..index].iter().map(|(other, _)| other);
            if earlier().any(|other| other.name != recipe.name && other.report == recipe.report) {
                let message = format!("two recipes have their report in `{}`", recipe.report.display());
                let help = "rename one of the files, or run them one after the other";
                self.problem(*name, message, "the second recipe", help);
            }
            if earlier().any(|other| other.name == recipe.name) {
                let message = format!("two recipes are called `{}`", recipe.name);
                let help = "give one of them another `name:`, or run them one after the other";
                self.problem(*name, message, "again", help);
            }
        }
        let mut recipes: Vec<Recipe> = recipes.into_iter().map(|(recipe, _)| recipe).collect();
        for recipe in &mut recipes {
            recipe.sources = self.sources.clone();
        }
        let executor = Executor::default();
        Draft { recipes, executor, only, sources: self.sources, typed: self.typed, problems: self.problems }
    }

    /// The scale on the command line replaces the scales of sweep files. Reports of sweep files have its name, too, so that they do not
    /// replace reports at the files' own scales.
    fn want(&mut self, request: &Request<'_>, recipes: &mut [Disposition]) {
        let Some(name) = request.scale else { return };
        let source = self.sources.add(format!("--scale {name}"), name);
        let span = Span { source, ..Span::default() }.part(0, name.len());
        for Disposition { wanted, report, .. } in recipes {
            let own = wanted.as_ref().map_or(PLAIN, |own| own.value.as_str());
            if let Some(report) = report.as_mut().filter(|_| own != name) {
                *report = with_suffix(report, &format!("-{name}"));
            }
            *wanted = Some(Spanned::new(name.to_owned(), span));
        }
    }

    /// The name of a recipe at a scale, which is also the name of its report.
    fn at_scale(&mut self, name: &str, scale: &Spanned<String>) -> String {
        let full = format!("{name}-{}", scale.value);
        if is_name(name) && is_name(&scale.value) && !is_name(&full) {
            let message = format!("`{full}` is too long for the name of a report");
            self.problem(
                scale.span,
                message,
                "with the recipe's name",
                "shorten the name of the scale, or of the recipe",
            );
        }
        full
    }

    /// Adds the recipes that a sweep file names.
    fn swept(&mut self, path: &Path, sweep: &Sweep, recipes: &mut Vec<Disposition>) {
        let name = sweep.name.clone().unwrap_or_else(|| stem(path));
        if !is_name(&name) {
            let span = sweep.recipes.first().map_or_else(Span::default, |recipe| recipe.span);
            let message = format!("the file's name `{name}` cannot name a sweep");
            self.problem(span, message, "this sweep file has no name of its own", "add `name:` with a name");
            return;
        }
        for recipe in &sweep.recipes {
            let path = self.sources.folder(recipe.span.source).join(&recipe.value);
            let Some(node) = self.named(&path, recipe.span, &mut Vec::new()) else { continue };
            if is_sweep(&node) {
                let help = "a sweep file lists only recipes; list the recipes of that sweep file instead";
                self.problem(recipe.span, format!("`{}` is a sweep file", recipe.value), "not a recipe", help);
                continue;
            }
            let mut report = PathBuf::from(&name);
            if sweep.recipes.len() > 1 {
                report.push(stem(&path));
            }
            let wants = sweep.scale.clone();
            recipes.push(Disposition { wanted: wants, ..Disposition::new(path, node, Some(report)) });
        }
    }

    /// Reads a file of the request and the recipes that it extends; `None` if a mistake makes the file unreadable.
    fn read(&mut self, path: &Path) -> io::Result<Option<Node>> {
        let node = self.file(path)?;
        Ok(node.map(|node| self.extended(node, &mut vec![path.to_owned()])))
    }

    /// Reads a file that another file refers to at `span`.
    fn named(&mut self, path: &Path, span: Span, chain: &mut Vec<PathBuf>) -> Option<Node> {
        match self.file(path) {
            Ok(node) => {
                chain.push(path.to_owned());
                node.map(|node| self.extended(node, chain))
            }
            Err(error) => {
                let message = match error.kind() {
                    io::ErrorKind::NotFound => format!("there is no `{}`", path.display()),
                    _ => format!("`{}` cannot be read: {error}", path.display()),
                };
                let help = "paths are relative to the folder of the file that contains them";
                self.problem(span, message, "cannot be read", help);
                None
            }
        }
    }

    fn file(&mut self, path: &Path) -> io::Result<Option<Node>> {
        let canonical = std::fs::canonicalize(path)?;
        if self.root.as_ref().is_some_and(|root| !canonical.starts_with(root)) {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it is outside of the project's folder"));
        }
        if let Some(node) = self.files.get(&canonical) {
            return Ok(node.clone());
        }
        let text = read_text(path)?;
        let source = self.sources.add_file(path, text);
        let node = Node::parse(&self.sources, source, &mut self.problems);
        self.files.insert(canonical, node.clone());
        Ok(node)
    }

    /// Merges a recipe with the recipes that it extends. `chain` contains the files that led to it, including itself.
    /// If a base cannot be read, which is reported, `extends` stays in the recipe, so that missing keys are not
    /// reported as well.
    fn extended(&mut self, mut node: Node, chain: &mut Vec<PathBuf>) -> Node {
        let NodeKind::Map(entries) = &mut node.kind else { return node };
        let Some(index) = entries.iter().position(|entry| entry.key.value == "extends") else { return node };
        let Some(base) = self.base(&entries[index].value, chain) else { return node };
        entries.remove(index);
        merge::recipes(base, node, &self.sources, &mut self.problems)
    }

    /// The recipe that `extends` refers to.
    fn base(&mut self, named: &Node, chain: &mut Vec<PathBuf>) -> Option<Node> {
        let NodeKind::Scalar(Value::Text(text)) = &named.kind else {
            let message = format!("`extends` must name a file, found {}", named.describe());
            self.problem(named.span, message, "not a path", "for example `extends: base.yaml`");
            return None;
        };
        let path = self.sources.folder(named.span.source).join(text);
        let same = |other: &PathBuf| fs_err::canonicalize(other).ok() == fs_err::canonicalize(&path).ok();
        if path.exists() && chain.iter().any(same) {
            let message = format!("`{}` extends itself", path.display());
            self.problem(named.span, message, "this `extends` closes the cycle", "remove one `extends`");
            return None;
        }
        let base = self.named(&path, named.span, chain)?;
        if is_sweep(&base) {
            let message = format!("`{text}` is a sweep file");
            self.problem(named.span, message, "not a recipe", "extend a recipe that the sweep file lists");
            return None;
        }
        Some(base)
    }

    fn problem(&mut self, span: Span, message: impl Into<String>, label: impl Into<String>, help: impl Into<String>) {
        self.problems.push(span, Problem::new(&self.sources, span, message, label).help(help));
    }
}

/// Gives distinct names, which are also the names of their reports, to recipes that several sweep files run, or that are also run directly.
fn apart(recipes: &mut [(Recipe, Span)]) {
    let reports: Vec<(String, PathBuf)> =
        recipes.iter().map(|(recipe, _)| (recipe.name.clone(), recipe.report.clone())).collect();
    for (recipe, _) in recipes {
        let same_names = reports.iter().filter(|(name, report)| *name == recipe.name && *report != recipe.report);
        if same_names.count() > 0 {
            let parts: Vec<String> = recipe.report.iter().map(|part| part.to_string_lossy().into_owned()).collect();
            recipe.name = parts.join("-");
        }
    }
}

/// Gives the reports of a request with flags a separate folder next to the folder of the whole study: `study.v=2.1a2b3c4d`. Values that
/// look like secrets are neither in its name nor in the report.
fn set_apart(recipes: &mut [Recipe], request: &Request<'_>) {
    let flags = request.flags();
    if flags.is_empty() {
        return;
    }
    let digest = blake3::hash(flags.iter().map(|flag| quoted(flag)).collect::<Vec<_>>().join(" ").as_bytes()).to_hex();
    let masked_flags = masked(flags.into_iter().map(OsString::from));
    let suffix = format!(".{}.{}", in_a_name(&masked_flags), &digest[..8]);
    let text = masked_flags.iter().map(|flag| quoted(flag)).collect::<Vec<_>>().join(" ");
    for recipe in recipes {
        recipe.report = with_suffix(&recipe.report, &suffix);
        recipe.flags.clone_from(&text);
    }
}

/// The values of flags as a part of a folder's name, which has no blanks and no signs with a meaning in a shell or an address.
fn in_a_name(flags: &[String]) -> String {
    const MAX_LENGTH: usize = 40;
    let plain = |char: char| if char.is_ascii_alphanumeric() || "_-.=,+".contains(char) { char } else { '-' };
    let values: Vec<&str> = flags.iter().map(String::as_str).filter(|flag| !flag.starts_with("--")).collect();
    values.join("+").chars().map(plain).take(MAX_LENGTH).collect()
}

/// The folder of a report with an addition to its first part.
pub(super) fn with_suffix(report: &Path, suffix: &str) -> PathBuf {
    let mut parts = report.iter();
    let first = parts.next().map(|first| first.to_string_lossy().into_owned()).unwrap_or_default();
    let mut path_with_suffix = PathBuf::from(format!("{first}{suffix}"));
    path_with_suffix.extend(parts);
    path_with_suffix
}

/// True if a file is a sweep file instead of a recipe.
fn is_sweep(node: &Node) -> bool {
    matches!(&node.kind, NodeKind::Map(entries) if entries.iter().any(|entry| {
        entry.key.value == "recipe" || entry.key.value == "recipes"
    }))
}

/// Reads the text of a recipe's file. Devices and pipes, which may have no end, are rejected.
fn read_text(path: &Path) -> io::Result<String> {
    let refusal = |why: String| io::Error::new(io::ErrorKind::InvalidInput, why);
    // Checked first: opening a pipe would wait for its writer.
    let metadata = std::fs::metadata(path)?;
    if !metadata.is_file() {
        let kind = if metadata.is_dir() { "a folder" } else { "a device or a pipe" };
        return Err(refusal(format!("it is {kind}, but a recipe must be a file")));
    }
    let mut text = String::new();
    std::fs::File::open(path)?.take(MAX_FILE_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(refusal(format!("it is larger than {} MiB, the limit of a recipe", MAX_FILE_BYTES >> 20)));
    }
    Ok(text)
}

fn stem(path: &Path) -> String {
    path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned())
}
