//! Parses recipes to [`Recipe`]: checked declarations with their places.
//!
//! A `Recipe` has no unknown key, no value of the wrong shape and no step that needs an unknown step. The plan expands its matrices and
//! checks that values fit the tasks.
//!
//! `node.rs` is the only file that depends on the YAML parser; it keeps the place of every key and value. `compose/` merges
//! extended recipes, sweep files and flags before anything is interpreted. `template.rs` parses `${{ … }}`, `condition.rs`
//! parses `if`, `problem.rs` renders mistakes with their lines. `lower/` has a file for each part of the language, `keys/`
//! the declarations' macro and shapes, `schema/` the JSON Schemas.

mod compose;
mod condition;
mod excerpt;
mod foreign;
mod keys;
mod lower;
mod matrix;
mod node;
mod problem;
mod reports;
pub mod schema;
mod source;
mod template;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use sweep_job::{TaskInfo, Value};

use crate::{stats::Better, suggest::Domain};

use self::compose::Loader;
pub use self::{
    condition::{Condition, Filter},
    keys::{Declaration, Key},
    lower::{
        Adaptive, AdoptPolicy, Aggregate, Analysis, AnalysisKind, Bound, Citation, Claim, Compare, ComparedValues,
        Comparison, Confirm, CurveRead, CurveTable, Effects, Expectation, Extent, Family, Figure, Fit, GpuMemory,
        Interactions, Items, KeptStates, Law, Least, Measure, MetricRule, MetricTraits, Metrics, Missing, Need, Notify,
        Occasion, OfStep, Order, PaperRow, Policy, Profile, Racing, ReadOff, Replication, ResourceCount, Resources,
        Rules, Rungs, Search, Side, StatePolicy, Statement, Statistic, Suggest, Table, TableKind, UnitOf,
        executor::{self, BatchSystem, Executor},
    },
    matrix::{
        Ablation, Assignment, Axis, AxisValues, Design, Dimension, Draw, Factor, Matrix, Progression, Random, Suggested,
    },
    node::typed_value,
    problem::{Collector, Problem, Problems, Warning, nearest, suggest},
    source::{Place, Sources, Span, Spanned},
    template::{Known, Names, Reference, Scope, Template, check_references},
};
pub use self::{
    lower::brief,
    matrix::reads_alike,
    problem::near_file,
    reports::register,
    template::{MAX_VALUE_BYTES, too_long},
};

/// A study.
#[derive(Debug, Clone)]
pub struct Recipe {
    /// The recipe's name, which is also the name of the report's folder.
    pub name: String,
    /// The question it answers.
    pub about: Option<String>,
    /// The publication that it is about.
    pub cite: Option<Citation>,
    /// The recipe's file.
    pub file: PathBuf,
    /// The folder of its reports, relative to the folder of all reports.
    pub report: PathBuf,
    /// The folder that its reports would have, and the file of the recipe that occupies it, relative to the results folder.
    pub taken: Option<(PathBuf, String)>,
    /// The flags that change the study; if it is not empty, the report does not cover the whole study.
    pub flags: String,
    /// The scale at which it runs; `None` for its plain values.
    pub scale: Option<String>,
    /// The recipe's scales, with their descriptions.
    pub scales: Vec<(String, Option<String>)>,
    /// Values for the whole study.
    pub params: Names,
    /// The steps, in the order of the text.
    pub steps: Vec<Step>,
    /// The tables, in the order of the text; tables of claims come last.
    pub tables: Vec<Table>,
    /// The figures, in the order of the text.
    pub figures: Vec<Figure>,
    /// The claims, in the order of the text.
    pub claims: Vec<Claim>,
    /// The correction of their verdicts for their number.
    pub family: Family,
    /// Declared properties of metrics.
    pub rules: Vec<MetricRule>,
    /// Messages about its runs.
    pub notify: Option<Notify>,
    /// The source texts that places refer to.
    pub sources: Sources,
}

/// A table, a figure or a claim of a report, with its sources.
#[derive(Debug, Clone)]
pub struct Shown<'r> {
    /// `table`, `figure` or `claim`.
    pub kind: &'static str,
    /// The name of the table, figure or claim.
    pub name: &'r str,
    /// The steps that it uses, as indices into [`Recipe::steps`].
    pub steps: Vec<usize>,
    /// The metrics that it reads, and the curves that a figure draws.
    pub metrics: Vec<&'r str>,
}

/// A step: a task, at every point of a matrix.
#[derive(Debug, Clone)]
pub struct Step {
    /// The step's name.
    pub name: Spanned<String>,
    /// The task.
    pub task: &'static TaskInfo,
    /// Steps that must be done before.
    pub needs: Vec<Need>,
    /// Axes and points.
    pub matrix: Matrix,
    /// The kinds of replication that the author gives to axes.
    pub replicates: Vec<(String, Replication)>,
    /// Scores of items that its jobs leave in files.
    pub items: Vec<Items>,
    /// True if the number of seeds is decided while the step runs.
    pub adaptive: Option<Adaptive>,
    /// Decisions about the jobs that run.
    pub search: Option<Search>,
    /// The index of the step whose best configurations this one confirms.
    pub confirms: Option<usize>,
    /// The task's parameters, as far as the author gives them.
    pub with: Vec<(Spanned<String>, Template)>,
    /// The values of the axis `code` that are maps, by the names that stand for them.
    pub variants: BTreeMap<String, Value>,
    /// Resources of the machine that a job uses.
    pub resources: Resources,
    /// Policy for failures.
    pub policy: Policy,
}

/// Points that have, on each of these axes, one of these values.
#[derive(Debug, Clone, Default)]
pub struct Selection(pub Vec<(Spanned<String>, Vec<Template>)>);

/// Reason why there is no recipe.
#[derive(Debug, thiserror::Error)]
pub enum RecipeError {
    /// The file cannot be read.
    #[error("cannot read {}: {source}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// The file contains something other than a recipe.
    #[error(transparent)]
    Invalid(#[from] Problems),
}

/// The user's request: files, and changes to them.
#[derive(Debug, Clone, Copy, Default)]
pub struct Request<'a> {
    /// Recipes and sweep files.
    pub paths: &'a [PathBuf],
    /// `name=value`: other values for params.
    pub set: &'a [String],
    /// `axis=a,b` or `step.axis=a,b`: other values for axes.
    pub axes: &'a [String],
    /// The scale of the recipes; by default the scale of a sweep file, or their plain values.
    pub scale: Option<&'a str>,
    /// `step` or `step/axis=value,…`: a part of the recipes.
    pub only: &'a [String],
}

impl Request<'_> {
    /// The flags as command-line arguments, without the scale, which is in the names of reports.
    fn flags(&self) -> Vec<String> {
        let flag = |name: &'static str, values: &[String]| {
            values.iter().flat_map(|value| [name.to_owned(), value.clone()]).collect::<Vec<_>>()
        };
        [flag("--set", self.set), flag("--axis", self.axes), flag("--only", self.only)].concat()
    }

    /// The request as command-line arguments.
    fn typed(&self) -> Vec<String> {
        let paths = self.paths.iter().map(|path| path.display().to_string());
        let scale = self.scale.iter().flat_map(|scale| ["--scale".to_owned(), (*scale).to_owned()]);
        let set = self.set.iter().flat_map(|set| ["--set".to_owned(), set.clone()]);
        let axes = self.axes.iter().flat_map(|axis| ["--axis".to_owned(), axis.clone()]);
        paths.chain(scale).chain(set).chain(axes).collect()
    }
}

/// Recipes as far as they are valid, with the mistakes found so far. Planning adds its mistakes, so that the author sees all of them at
/// once.
#[derive(Debug)]
pub struct Draft {
    /// The recipes, in the order of the command line.
    pub recipes: Vec<Recipe>,
    /// The executor that they declare.
    pub executor: Executor,
    /// Selections of steps and points.
    pub only: Vec<Spanned<String>>,
    /// Texts of all files, for messages.
    pub sources: Sources,
    /// Command-line arguments that select these recipes, without `only`.
    pub typed: Vec<String>,
    /// The mistakes.
    pub problems: Collector,
}

impl Draft {
    /// Reads recipes and sweep files.
    pub fn load(request: &Request<'_>) -> Result<Self, RecipeError> {
        Loader::default().load(request)
    }

    /// Reads recipes and sweep files like [`Draft::load`], but no files outside of the folder `root`.
    pub fn load_inside(request: &Request<'_>, root: &Path) -> Result<Self, RecipeError> {
        let loader = Loader::inside(root);
        loader.map_err(|source| RecipeError::Read { path: root.to_owned(), source })?.load(request)
    }

    /// Reads a recipe from the text of `path`. Fails only if the text is not YAML.
    pub fn parse(path: &Path, text: String, set: &[String]) -> Result<Self, Problems> {
        Loader::default().parse(path, text, set)
    }

    /// A copy of the draft, to plan it again with further decisions; `None` if no decision can add points to it, or if it has mistakes.
    pub fn again(&self) -> Option<Self> {
        let Self { recipes, executor, only, sources, typed, problems } = self;
        let grows = |step: &Step| step.matrix.suggested().is_some();
        let grows = recipes.iter().flat_map(|recipe| &recipe.steps).any(grows);
        let problems = problems.warned().filter(|_| grows)?;
        let (recipes, executor, only) = (recipes.clone(), executor.clone(), only.clone());
        Some(Self { recipes, executor, only, sources: sources.clone(), typed: typed.clone(), problems })
    }

    /// Gives separate folders to recipes whose reports would replace reports of other recipes with the same name.
    pub fn tell_reports_apart(&mut self, results: &Path) {
        reports::tell_apart(&mut self.recipes, results);
    }

    /// True if a step computes on a device.
    pub fn needs_device(&self) -> bool {
        self.recipes.iter().flat_map(|recipe| &recipe.steps).any(|step| step.task.on_device)
    }
}

impl Recipe {
    /// The folder of its reports if no other recipe has its name.
    pub fn plain_report(&self) -> &Path {
        self.taken.as_ref().map_or(&self.report, |(plain, _)| plain)
    }

    /// All tables, figures and claims of the report, in the order of the text.
    pub fn shown(&self) -> impl Iterator<Item = Shown<'_>> {
        let tables = self.tables.iter().map(|table| Shown {
            kind: "table",
            name: &table.name.value,
            steps: table.steps(&self.claims),
            metrics: table.cells.iter().map(|cell| cell.value.as_str()).collect(),
        });
        let figures = self.figures.iter().map(|figure| Shown {
            kind: "figure",
            name: &figure.name.value,
            steps: vec![figure.from.value],
            metrics: figure.chart.metrics().collect(),
        });
        let claims = self.claims.iter().map(|claim| Shown {
            kind: "claim",
            name: &claim.name.value,
            steps: claim.selections().into_iter().map(|(step, _)| step).collect(),
            metrics: vec![claim.metric()],
        });
        tables.chain(figures).chain(claims)
    }

    /// True if a step measures: it is exclusive, or a table, a figure or a claim shows one of its times or rates.
    pub fn measures(&self, step: usize) -> bool {
        let measured_step = &self.steps[step];
        let is_timing = |metric: &&str| self.traits(measured_step, metric).is_timing();
        measured_step.resources.exclusive
            || self.shown().any(|shown| shown.steps.contains(&step) && shown.metrics.iter().any(is_timing))
    }

    /// The axis along which a step repeats the same measurement: `seed`, else the axis that a comparison names.
    pub fn repeats(&self, step: usize) -> Option<&str> {
        if self.steps[step].axes().contains(&"seed") {
            return Some("seed");
        }
        self.tables.iter().find_map(|table| match &table.kind {
            TableKind::Compare(compare) if compare.of.step == step => compare.repeats(),
            _ => None,
        })
    }

    /// The steps that tables, figures and claims refer to, as indices. A step can occur several times.
    pub fn reported(&self) -> impl Iterator<Item = usize> {
        self.shown().flat_map(|shown| shown.steps)
    }

    /// The metrics that tables, figures and claims refer to, also as sizes, and the curves that figures draw. Parameters that are
    /// sizes are among them.
    pub fn metrics(&self) -> impl Iterator<Item = &str> {
        let sizes = self.claims.iter().flat_map(|claim| &claim.scale).map(|least| least.name.value.as_str());
        let sizes = sizes.chain(self.claims.iter().filter_map(|claim| match claim.statement.number() {
            Some((_, Measure::Law(law))) => Some(law.x.value.as_str()),
            _ => None,
        }));
        let named = self.tables.iter().filter_map(|table| match &table.kind {
            TableKind::Analysis(analysis) => Some(analysis.named().map(|name| name.value.as_str())),
            _ => None,
        });
        self.shown().flat_map(|shown| shown.metrics).chain(sizes).chain(named.flatten())
    }

    /// The names of the axes of random numbers and repetitions, over which pages average.
    pub fn seeds(&self) -> Vec<String> {
        self.replicated(|kind| matches!(kind, Replication::Seed | Replication::Repeat))
    }

    /// The names of the axes of repetitions, which are averaged within the other seeds.
    pub fn repetitions(&self) -> Vec<String> {
        self.replicated(|kind| kind == Replication::Repeat)
    }

    /// The names of the axes of some kinds.
    fn replicated(&self, has_kind: impl Fn(Replication) -> bool) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for step in &self.steps {
            for axis in step.axes() {
                let declared = step.replicates.iter().find(|(name, _)| name == axis).map(|(_, kind)| *kind);
                let kind = declared.unwrap_or_else(|| Replication::implied(axis, std::iter::empty()));
                if has_kind(kind) && !names.iter().any(|known| known == axis) {
                    names.push(axis.to_owned());
                }
            }
        }
        names
    }

    /// The names of all axes, in their order.
    pub fn axes(&self) -> Vec<String> {
        let mut axes: Vec<String> = Vec::new();
        for axis in self.steps.iter().flat_map(Step::axes) {
            if !axes.iter().any(|known| known == axis) {
                axes.push(axis.to_owned());
            }
        }
        axes
    }

    /// The declared better directions of metrics, as their words in recipes.
    pub fn directions(&self) -> BTreeMap<String, String> {
        let word = |direction: Option<Better>| Better::WORDS.iter().find(|(_, known)| *known == direction);
        let declared = self.rules.iter().filter_map(|rule| Some((rule.name.value.clone(), word(rule.better?)?.0)));
        declared.map(|(name, word)| (name, word.to_owned())).collect()
    }

    /// The names of all metrics and curves that it shows, declares, decides by, or passes to other jobs.
    pub fn used(&self) -> BTreeSet<String> {
        let references = self.steps.iter().flat_map(|step| &step.with).flat_map(|(_, template)| template.references());
        let passed_references = references.filter(|reference| matches!(reference.scope, Scope::Needs(..)));
        let decided = self.steps.iter().filter_map(|step| step.search.as_ref());
        let decided = decided.flat_map(Search::decided_by);
        let names = self.metrics().chain(passed_references.map(|reference| reference.name.as_str()));
        let names =
            names.chain(decided.chain(self.rules.iter().map(|rule| &rule.name)).map(|name| name.value.as_str()));
        let is_read = |name: &&str| self.read_off().any(|(read, _)| read == *name);
        let names =
            names.filter(|name| !is_read(name)).chain(self.read_off().map(|(_, read)| read.curve.value.as_str()));
        // The step of a series' best value is a metric, too.
        names.flat_map(|name| [Some(name), name.strip_suffix(".step")]).flatten().map(str::to_owned).collect()
    }

    /// The effects that tables and figures show.
    pub fn effects(&self) -> impl Iterator<Item = &Effects> {
        let tables = self.tables.iter().filter_map(|table| match &table.kind {
            TableKind::Effects(effects) => Some(effects),
            _ => None,
        });
        tables.chain(self.figures.iter().filter_map(|figure| figure.effects.as_ref()))
    }

    /// True if an axis has other values than in the recipe's text.
    pub fn is_narrowed(&self) -> bool {
        self.steps.iter().any(|step| !step.matrix.narrowed.is_empty())
    }

    /// The description of the scale at which it runs.
    pub fn about_scale(&self) -> Option<&str> {
        let name = self.scale.as_ref()?;
        self.scales.iter().find(|(known, _)| known == name)?.1.as_deref()
    }

    /// The step with this name.
    pub fn step(&self, name: &str) -> Option<(usize, &Step)> {
        self.steps.iter().enumerate().find(|(_, step)| step.name.value == name)
    }
}

impl Step {
    /// The file relative to whose folder the program is found: the file with the command line, which may be an extended recipe.
    pub fn source(&self) -> u16 {
        let command = self.with.iter().find(|(name, _)| matches!(name.value.as_str(), "argv" | "run"));
        command.map_or(self.name.span.source, |(_, template)| template.span.source)
    }

    /// The axes of numbers with a declared scale; true for a logarithmic scale.
    pub fn scales(&self) -> Vec<(String, bool)> {
        let space =
            self.search.iter().filter_map(|search| search.suggest.as_ref()).flat_map(|suggest| &suggest.space.axes);
        let searched = space.filter_map(|axis| match axis.domain {
            Domain::Float { log, .. } | Domain::Int { log, .. } => Some((axis.name.clone(), log)),
            Domain::Choice { .. } => None,
        });
        self.matrix.scales().chain(searched).collect()
    }

    /// True for an axis that repeats jobs: `seed`, and the axes that `replicates` declares as seeds or repetitions.
    pub fn is_repeated_by(&self, axis: &str) -> bool {
        let is_repeat = |kind: Replication| matches!(kind, Replication::Seed | Replication::Repeat);
        axis == "seed" || self.replicates.iter().any(|(name, kind)| name == axis && is_repeat(*kind))
    }

    /// The names of its axes; axes that only `include` has come last.
    pub fn axes(&self) -> Vec<&str> {
        let mut axes = self.matrix.axes();
        for (name, _) in self.matrix.include.iter().flat_map(|assignment| &assignment.values) {
            if !axes.contains(&name.value.as_str()) {
                axes.push(&name.value);
            }
        }
        axes
    }
}

/// Maximum length of a name in bytes: with an extension, it must be a valid file name.
pub const MAX_NAME_LENGTH: usize = 200;

/// True if a text is a valid name of a recipe, a step, a param, an axis or a table. Names are used in files and labels.
pub fn is_name(text: &str) -> bool {
    let mut chars = text.chars();
    text.len() <= MAX_NAME_LENGTH
        && chars.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
        && chars.all(|char| char.is_ascii_alphanumeric() || char == '_' || char == '-')
}
