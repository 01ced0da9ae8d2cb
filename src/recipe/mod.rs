//! Recipe text to [`Recipe`]: what the author wrote, checked word by word, with the place of everything.
//!
//! A `Recipe` has no unknown key, no value of the wrong shape and no step that needs an unknown one. What its matrices
//! expand to, and whether the values fit the tasks, is [`crate::plan`]'s business.

mod lower;
mod node;
mod problem;
mod source;
mod template;

use std::path::{Path, PathBuf};

use sweep_job::TaskInfo;

use self::{lower::Lower, node::Node};
pub use self::{
    problem::{Collector, Problem, Problems, suggest},
    source::{Sources, Span, Spanned},
    template::{Names, Scope, Template, check_references},
};

/// One study.
#[derive(Debug, Clone)]
pub struct Recipe {
    /// Its name: names the report's folder.
    pub name: String,
    /// The question it answers.
    pub about: Option<String>,
    /// The folder that relative paths start from.
    pub folder: PathBuf,
    /// Values for the whole study.
    pub params: Names,
    /// The steps, in the order of the text.
    pub steps: Vec<Step>,
    /// The tables, in the order of the text.
    pub tables: Vec<Table>,
    /// The texts behind the places.
    pub sources: Sources,
}

/// A step: a task, at every point of a matrix.
#[derive(Debug, Clone)]
pub struct Step {
    /// Its name.
    pub name: Spanned<String>,
    /// The task.
    pub task: &'static TaskInfo,
    /// Steps that must be done before, as indices into [`Recipe::steps`].
    pub needs: Vec<Spanned<usize>>,
    /// What varies.
    pub matrix: Matrix,
    /// The task's parameters, as far as the author gives them.
    pub with: Vec<(Spanned<String>, Template)>,
    /// What a job takes of the machine.
    pub resources: Resources,
}

/// What varies in a step.
#[derive(Debug, Clone, Default)]
pub struct Matrix {
    /// The axes, in the order of the text.
    pub axes: Vec<Axis>,
    /// Points added, or points given further values.
    pub include: Vec<Assignment>,
    /// Points left out: those that have all these values.
    pub exclude: Vec<Assignment>,
}

/// One dimension of a matrix.
#[derive(Debug, Clone)]
pub struct Axis {
    /// Its name.
    pub name: Spanned<String>,
    /// Its values.
    pub values: Vec<Template>,
}

/// Values for some axes.
#[derive(Debug, Clone)]
pub struct Assignment {
    /// Axis and value.
    pub values: Vec<(Spanned<String>, Template)>,
    /// The whole entry.
    pub span: Span,
}

/// What a job takes of the machine while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Resources {
    /// Processor cores; all of them when not given.
    pub cpus: Option<usize>,
}

/// A table over a step's records.
#[derive(Debug, Clone)]
pub struct Table {
    /// Its name: names the files.
    pub name: Spanned<String>,
    /// Its heading.
    pub title: Option<String>,
    /// The step, as an index into [`Recipe::steps`].
    pub from: Spanned<usize>,
    /// Only points with one of these values on these axes.
    pub only: Vec<(Spanned<String>, Vec<Template>)>,
    /// The axes that make the rows.
    pub rows: Vec<Spanned<String>>,
    /// The axes that make groups of columns.
    pub columns: Vec<Spanned<String>>,
    /// The metrics shown.
    pub cells: Vec<Spanned<String>>,
}

/// Why there is no recipe.
#[derive(Debug, thiserror::Error)]
pub enum RecipeError {
    /// The file cannot be read.
    #[error("cannot read the recipe: {0}")]
    Read(#[source] std::io::Error),
    /// The file says something that is no recipe.
    #[error(transparent)]
    Invalid(#[from] Problems),
}

/// A recipe as far as it could be understood, with the mistakes found on the way. Whoever turns it into a plan finds
/// the others, so that the author sees all of them in one go.
#[derive(Debug)]
pub struct Draft {
    pub(crate) recipe: Recipe,
    pub(crate) problems: Collector,
}

impl Draft {
    /// Reads a recipe; `set` holds `name=value` overrides of its params.
    pub fn load(path: &Path, set: &[String]) -> Result<Self, RecipeError> {
        let text = fs_err::read_to_string(path).map_err(RecipeError::Read)?;
        Ok(Self::parse(path, text, set)?)
    }

    /// Reads a recipe from a text that came from `path`. Fails only where the text is no YAML.
    pub fn parse(path: &Path, text: String, set: &[String]) -> Result<Self, Problems> {
        let mut sources = Sources::default();
        let source = sources.add(source::display_name(path), text);
        let mut problems = Collector::default();
        match Node::parse(&sources, source, &mut problems) {
            Some(node) => Ok(Lower::new(&mut sources, problems).recipe(&node, path, set)),
            None => problems.fail(),
        }
    }

    /// Whether a step computes on a device.
    pub fn needs_device(&self) -> bool {
        self.recipe.steps.iter().any(|step| step.task.on_device)
    }
}

impl Recipe {
    /// The step with this name.
    pub fn step(&self, name: &str) -> Option<(usize, &Step)> {
        self.steps.iter().enumerate().find(|(_, step)| step.name.value == name)
    }
}

impl Step {
    /// The names of its axes, `include`'s further ones last.
    pub fn axes(&self) -> Vec<&str> {
        let mut axes: Vec<&str> = self.matrix.axes.iter().map(|axis| axis.name.value.as_str()).collect();
        for (name, _) in self.matrix.include.iter().flat_map(|assignment| &assignment.values) {
            if !axes.contains(&name.value.as_str()) {
                axes.push(&name.value);
            }
        }
        axes
    }
}

/// Whether a text can name a recipe, a step, a param, an axis or a table: it also names files and is part of labels.
pub fn is_name(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
        && chars.all(|char| char.is_ascii_alphanumeric() || char == '_' || char == '-')
}
