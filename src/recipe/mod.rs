//! Recipe text to [`Recipe`]: what the author wrote, checked word by word, with the place of everything.
//!
//! A `Recipe` has no unknown key, no value of the wrong shape and no step that needs an unknown one. What its matrices
//! expand to, and whether the values fit the tasks, is [`crate::plan`]'s business.

mod compose;
mod condition;
mod excerpt;
mod executor;
mod lower;
mod node;
mod problem;
mod source;
mod template;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use sweep_job::{Backend, TaskInfo};

use self::compose::Loader;
pub(crate) use self::lower::{
    ABLATE_KEYS, ADAPTIVE_KEYS, AXIS_FORMS, BACKEND_NAMES, CLAIM_KEYS, COMPARE_KEYS, COMPARED_KEYS, CPUS, DRAW_FORMS,
    EXECUTOR_KEYS, EXPECT_KEYS, FIGURE_KEYS, GPUS, NEED_KEYS, ORDER_KEYS, RANDOM_KEYS, RECIPE_KEYS, RESOURCE_KEYS,
    RETRIES, SLURM_KEYS, SLURM_STEP_KEYS, STEP_KEYS, SUMMARY_KEYS, SWEEP_KEYS, TABLE_KEYS, VALUE_KEYS,
};
pub use self::{
    condition::{Condition, Filter},
    executor::{Executor, Request as SlurmRequest, Slurm},
    problem::{Collector, Problem, Problems, suggest},
    source::{Sources, Span, Spanned},
    template::{Known, Names, Product, Reference, Scope, Template, check_references},
};

/// One study.
#[derive(Debug, Clone)]
pub struct Recipe {
    /// Its name: names the report's folder.
    pub name: String,
    /// The question it answers.
    pub about: Option<String>,
    /// The folder of its reports, below that of all reports.
    pub report: PathBuf,
    /// Values for the whole study.
    pub params: Names,
    /// The steps, in the order of the text.
    pub steps: Vec<Step>,
    /// The tables, in the order of the text.
    pub tables: Vec<Table>,
    /// The tables that have claims as rows, in the order of the text.
    pub summaries: Vec<Summary>,
    /// The figures, in the order of the text.
    pub figures: Vec<Figure>,
    /// The claims, in the order of the text.
    pub claims: Vec<Claim>,
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
    /// Steps that must be done before.
    pub needs: Vec<Need>,
    /// What varies.
    pub matrix: Matrix,
    /// Whether the number of seeds is decided while the step runs.
    pub adaptive: Option<Adaptive>,
    /// The task's parameters, as far as the author gives them.
    pub with: Vec<(Spanned<String>, Template)>,
    /// What a job takes of the machine.
    pub resources: Resources,
    /// What becomes of a job that does not go as it should.
    pub policy: Policy,
}

/// A number of seeds that is decided while a step runs: more of them are added where a claim, or a comparison that a table
/// marks with `decide`, is undecided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Adaptive {
    /// Every point has so many, 0, 1, ….
    pub least: usize,
    /// No point has more.
    pub most: usize,
    /// Where the author says so.
    pub span: Span,
}

/// A step that must be done before.
#[derive(Debug, Clone)]
pub struct Need {
    /// Its index in [`Recipe::steps`].
    pub step: usize,
    /// Only these of its points.
    pub only: Selection,
    /// Where the author says so.
    pub span: Span,
}

/// Points that have, on each of these axes, one of these values.
#[derive(Debug, Clone, Default)]
pub struct Selection(pub Vec<(Spanned<String>, Vec<Template>)>);

/// What varies in a step: the product of its dimensions, less what is excluded, plus what is included, as far as the
/// condition holds.
#[derive(Debug, Clone, Default)]
pub struct Matrix {
    /// What is multiplied, in the order of the text.
    pub dimensions: Vec<Dimension>,
    /// Points added, or points given further values.
    pub include: Vec<Assignment>,
    /// Points left out: those that have all these values.
    pub exclude: Vec<Assignment>,
    /// Keeps the points for which it holds.
    pub condition: Option<Condition>,
    /// Axes that have got other values than the author gave them, by a sweep file or on the command line: what he says
    /// about further values does not count then.
    pub narrowed: Vec<String>,
}

/// One factor of a matrix's product.
#[derive(Debug, Clone)]
pub enum Dimension {
    /// An axis on its own.
    Axis(Axis),
    /// Axes that go together, value by value.
    Zip(Vec<Axis>),
    /// Points drawn at random.
    Random(Random),
    /// An ablation design.
    Ablation(Ablation),
}

/// A name and its values.
#[derive(Debug, Clone)]
pub struct Axis {
    /// Its name.
    pub name: Spanned<String>,
    /// Its values.
    pub values: AxisValues,
}

/// How an axis's values are given.
#[derive(Debug, Clone)]
pub enum AxisValues {
    /// One by one.
    List(Vec<Template>),
    /// By two or three numbers: from, to (or how many), and for `range` the step.
    Numbers(Progression, Vec<Template>, Span),
    /// As those of another step's axis.
    Of {
        /// The step.
        step: Spanned<String>,
        /// The axis.
        axis: Spanned<String>,
    },
}

/// How numbers follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progression {
    /// `range: [from, to, step]`, without `to`.
    Range,
    /// `linspace: [from, to, n]`, with `to`, equal differences.
    Linspace,
    /// `logspace: [from, to, n]`, with `to`, equal ratios.
    Logspace,
}

/// Points drawn at random; the same every time.
#[derive(Debug, Clone)]
pub struct Random {
    /// How many.
    pub n: Template,
    /// Seed of the draws; 0 when not given.
    pub seed: Option<Template>,
    /// How each axis is drawn.
    pub axes: Vec<(Spanned<String>, Draw)>,
    /// The whole entry.
    pub span: Span,
}

/// A distribution.
#[derive(Debug, Clone)]
pub enum Draw {
    /// Every number between two is as likely.
    Uniform(Vec<Template>, Span),
    /// Every ratio is as likely.
    LogUniform(Vec<Template>, Span),
    /// Every one of these is as likely.
    Choice(Vec<Template>),
}

/// A baseline and what is changed in it.
#[derive(Debug, Clone)]
pub struct Ablation {
    /// Which combinations.
    pub design: Design,
    /// What is changed.
    pub factors: Vec<Factor>,
}

/// One thing that an ablation changes.
#[derive(Debug, Clone)]
pub struct Factor {
    /// The axis.
    pub axis: Spanned<String>,
    /// Its value in the baseline.
    pub baseline: Template,
    /// Its other values.
    pub values: Vec<Template>,
}

/// Which combinations of factors an ablation runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Design {
    /// The baseline, and each change on its own.
    AddOne,
    /// Every change at once, and all but each; the baseline, too.
    LeaveOneOut,
    /// Every combination.
    Factorial,
    /// Half of the combinations, those with an even number of changes: main effects stay apart from each other.
    Fractional,
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Resources {
    /// Processor cores; all of them when not given.
    pub cpus: Option<usize>,
    /// GPUs; when not given, one for a job that computes on GPUs.
    pub gpus: Option<usize>,
    /// Bytes of main memory, kept free for it while it runs.
    pub memory: Option<u64>,
    /// Whether nothing else may run meanwhile, because the job measures time.
    pub exclusive: bool,
}

/// What becomes of a job that takes too long, falls silent or fails. Not part of any key: it decides whether there is a
/// result, never which.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Policy {
    /// How often a job that failed is started again.
    pub retries: u32,
    /// How long it may take.
    pub timeout: Option<Duration>,
    /// How long it may show no sign of life.
    pub heartbeat: Option<Duration>,
    /// Whether the run goes on and counts as done although it failed.
    pub tolerated: bool,
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
    /// Only these points.
    pub only: Selection,
    /// The axes that make the rows.
    pub rows: Vec<Spanned<String>>,
    /// The axes that make groups of columns.
    pub columns: Vec<Spanned<String>>,
    /// The metrics shown.
    pub cells: Vec<Spanned<String>>,
    /// Which differences are shown instead of the metrics themselves.
    pub compare: Option<Compare>,
    /// Whether the smallest or the largest value of a metric is marked, where the author says so; `None` marks nothing.
    pub best: Vec<(Spanned<String>, Option<Better>)>,
    /// What the paper measured.
    pub paper: Vec<PaperRow>,
}

/// A table with a row for each of some claims that compare as a ratio.
#[derive(Debug, Clone)]
pub struct Summary {
    /// Its name: names the files.
    pub name: Spanned<String>,
    /// Its heading.
    pub title: Option<String>,
    /// The claims, as indices into [`Recipe::claims`].
    pub claims: Vec<Spanned<usize>>,
    /// The metrics of which ratios are shown, of the same sides.
    pub cells: Vec<Spanned<String>>,
}

/// Which values of a metric are better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// The smaller ones.
    Less,
    /// The larger ones.
    More,
}

/// What a paper measured at some points.
#[derive(Debug, Clone)]
pub struct PaperRow {
    /// The points.
    pub only: Selection,
    /// Metric and value, in base units.
    pub metrics: Vec<(Spanned<String>, f64)>,
}

/// Values of an axis that a table compares.
#[derive(Debug, Clone)]
pub struct Compare {
    /// The axis.
    pub axis: Spanned<String>,
    /// The value, and that which it is compared with.
    pub pairs: Vec<(Template, Template)>,
    /// Whether ratios are shown, not differences.
    pub ratio: bool,
    /// The axis along which the same job is repeated, which says how much the measuring itself varies.
    pub noise: Option<Spanned<String>>,
    /// Whether seeds are added until chance cannot explain the differences.
    pub decide: bool,
}

/// A figure of a step's records.
#[derive(Debug, Clone)]
pub struct Figure {
    /// Its name: names the file.
    pub name: Spanned<String>,
    /// Its heading.
    pub title: Option<String>,
    /// The step, as an index into [`Recipe::steps`].
    pub from: Spanned<usize>,
    /// Only these points.
    pub only: Selection,
    /// What is drawn.
    pub kind: FigureKind,
    /// To the right: `iteration` for lines, an axis for bars and heat maps, else a metric.
    pub x: Spanned<String>,
    /// Upwards: a curve for lines, an axis for heat maps, else a metric; for histograms the same as `x`.
    pub y: Spanned<String>,
    /// The metric that a heat map shows.
    pub value: Option<Spanned<String>>,
    /// Whether small or large values of a metric are the better ones, where the author says so.
    pub best: Vec<(Spanned<String>, Option<Better>)>,
    /// The axis whose values have a colour each.
    pub color: Option<Spanned<String>>,
    /// Whether the 95 % confidence interval is drawn around what is averaged.
    pub band: bool,
}

/// What a figure draws.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FigureKind {
    /// A curve over the iterations.
    Line,
    /// A metric by an axis.
    Bar,
    /// A metric against another.
    Scatter,
    /// The same, and which dots no other one beats in both.
    Pareto,
    /// A metric by two axes.
    Heat,
    /// How many jobs have how much of a metric.
    Histogram,
}

/// A statement about metrics, which a run supports, refutes or cannot decide.
#[derive(Debug, Clone)]
pub struct Claim {
    /// Its name.
    pub name: Spanned<String>,
    /// The statement in words.
    pub says: Option<String>,
    /// The statement in numbers.
    pub statement: Statement,
    /// What the paper measured.
    pub paper: Option<f64>,
    /// The backends that it is about; any if empty.
    pub hardware: Vec<Backend>,
}

/// What a claim says of metrics.
#[derive(Debug, Clone)]
pub enum Statement {
    /// The mean of a metric is so large.
    Value(Comparison, Expectation),
    /// A metric is so many times another one.
    Ratio(Comparison, Expectation),
    /// A metric is so much more than another one.
    Difference(Comparison, Expectation),
    /// The values of an axis rank so.
    Order(Order),
}

/// A metric of some points, and of others to compare them with.
#[derive(Debug, Clone)]
pub struct Comparison {
    /// The metric.
    pub metric: Spanned<String>,
    /// The points.
    pub of: Side,
    /// The others; `None` where a value is meant.
    pub to: Option<Side>,
}

/// Points of a step.
#[derive(Debug, Clone)]
pub struct Side {
    /// The step, as an index into [`Recipe::steps`].
    pub step: usize,
    /// Which of its points.
    pub only: Selection,
    /// Where the author says so.
    pub span: Span,
}

/// Bounds, both included.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Expectation {
    /// The smallest.
    pub at_least: Option<f64>,
    /// The largest.
    pub at_most: Option<f64>,
}

/// An order of an axis's values by a metric.
#[derive(Debug, Clone)]
pub struct Order {
    /// The metric.
    pub metric: Spanned<String>,
    /// The step, as an index into [`Recipe::steps`].
    pub step: usize,
    /// The axis.
    pub axis: Spanned<String>,
    /// Its values, that with the smallest metric first.
    pub ascending: Vec<Template>,
    /// Only these points.
    pub only: Selection,
    /// Where the values stand.
    pub span: Span,
}

/// Why there is no recipe.
#[derive(Debug, thiserror::Error)]
pub enum RecipeError {
    /// The file cannot be read.
    #[error("cannot read {}: {source}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file says something that is no recipe.
    #[error(transparent)]
    Invalid(#[from] Problems),
}

/// What the user asks for: files, and what is different in them.
#[derive(Debug, Clone, Copy, Default)]
pub struct Request<'a> {
    /// Recipes and sweep files.
    pub paths: &'a [PathBuf],
    /// `name=value`: other values for params.
    pub set: &'a [String],
    /// `axis=a,b` or `step.axis=a,b`: other values for axes.
    pub axes: &'a [String],
    /// `step` or `step/axis=value,…`: a part of the recipes.
    pub only: &'a [String],
}

impl Request<'_> {
    /// The same as arguments of a command.
    fn typed(&self) -> Vec<String> {
        let paths = self.paths.iter().map(|path| path.display().to_string());
        let set = self.set.iter().flat_map(|set| ["--set".to_owned(), set.clone()]);
        let axes = self.axes.iter().flat_map(|axis| ["--axis".to_owned(), axis.clone()]);
        paths.chain(set).chain(axes).collect()
    }
}

/// Recipes as far as they could be understood, with the mistakes found on the way. Whoever turns them into a plan finds
/// the others, so that the author sees all of them in one go.
#[derive(Debug)]
pub struct Draft {
    pub(crate) recipes: Vec<Recipe>,
    pub(crate) executor: Executor,
    pub(crate) only: Vec<Spanned<String>>,
    pub(crate) sources: Sources,
    /// What the command line says to mean these recipes, without `only`.
    pub(crate) typed: Vec<String>,
    pub(crate) problems: Collector,
}

impl Draft {
    /// Reads recipes and sweep files.
    pub fn load(request: &Request<'_>) -> Result<Self, RecipeError> {
        Loader::default().load(request)
    }

    /// Reads a recipe from a text that came from `path`. Fails only where the text is no YAML.
    pub fn parse(path: &Path, text: String, set: &[String]) -> Result<Self, Problems> {
        Loader::default().parse(path, text, set)
    }

    /// Whether a step computes on a device.
    pub fn needs_device(&self) -> bool {
        self.recipes.iter().flat_map(|recipe| &recipe.steps).any(|step| step.task.on_device)
    }
}

impl Compare {
    /// Every value that is compared, as a selection.
    pub fn selection(&self) -> Selection {
        let values = self.pairs.iter().flat_map(|(of, to)| [of.clone(), to.clone()]);
        Selection(vec![(self.axis.clone(), values.collect())])
    }
}

impl Claim {
    /// The steps that it is about, each with what is selected of it.
    pub fn selections(&self) -> Vec<(usize, Selection)> {
        match &self.statement {
            Statement::Value(comparison, _)
            | Statement::Ratio(comparison, _)
            | Statement::Difference(comparison, _) => {
                let sides = std::iter::once(&comparison.of).chain(&comparison.to);
                sides.map(|side| (side.step, side.only.clone())).collect()
            }
            Statement::Order(order) => {
                let mut only = order.only.clone();
                only.0.push((order.axis.clone(), order.ascending.clone()));
                vec![(order.step, only)]
            }
        }
    }
}

impl Recipe {
    /// The steps that tables, figures and claims are about, as indices; one of several comes several times.
    pub fn reported(&self) -> impl Iterator<Item = usize> {
        let claimed = self.claims.iter().flat_map(Claim::selections).map(|(step, _)| step);
        let drawn = self.figures.iter().map(|figure| figure.from.value);
        self.tables.iter().map(|table| table.from.value).chain(drawn).chain(claimed)
    }

    /// Whether an axis has other values than the author gave it.
    pub fn is_narrowed(&self) -> bool {
        self.steps.iter().any(|step| !step.matrix.narrowed.is_empty())
    }

    /// The step with this name.
    pub fn step(&self, name: &str) -> Option<(usize, &Step)> {
        self.steps.iter().enumerate().find(|(_, step)| step.name.value == name)
    }
}

impl Step {
    /// The names of its axes, `include`'s further ones last.
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

impl Matrix {
    /// The names of the axes that the dimensions have.
    pub fn axes(&self) -> Vec<&str> {
        self.dimensions.iter().flat_map(Dimension::axes).map(|name| name.value.as_str()).collect()
    }
}

impl Dimension {
    /// The names of its axes.
    pub fn axes(&self) -> Vec<&Spanned<String>> {
        match self {
            Self::Axis(axis) => vec![&axis.name],
            Self::Zip(axes) => axes.iter().map(|axis| &axis.name).collect(),
            Self::Random(random) => random.axes.iter().map(|(name, _)| name).collect(),
            Self::Ablation(ablation) => ablation.factors.iter().map(|factor| &factor.axis).collect(),
        }
    }
}

impl FigureKind {
    /// The words that a recipe writes.
    pub(crate) const WORDS: [(&'static str, Self); 6] = [
        ("line", Self::Line),
        ("bar", Self::Bar),
        ("scatter", Self::Scatter),
        ("pareto", Self::Pareto),
        ("heat", Self::Heat),
        ("histogram", Self::Histogram),
    ];
}

impl Better {
    /// The words that a recipe writes.
    pub(crate) const WORDS: [(&'static str, Option<Self>); 3] =
        [("min", Some(Self::Less)), ("max", Some(Self::More)), ("none", None)];
}

impl Design {
    /// The words that a recipe writes.
    pub(crate) const WORDS: [(&'static str, Self); 4] = [
        ("add-one", Self::AddOne),
        ("leave-one-out", Self::LeaveOneOut),
        ("factorial", Self::Factorial),
        ("fractional", Self::Fractional),
    ];
}

/// Whether a text can name a recipe, a step, a param, an axis or a table: it also names files and is part of labels.
pub fn is_name(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
        && chars.all(|char| char.is_ascii_alphanumeric() || char == '_' || char == '-')
}
