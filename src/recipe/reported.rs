//! Outputs of a recipe: tables, figures, claims.

use sweep_job::Backend;

use super::{Selection, Span, Spanned, Template};

/// A table over a step's records.
#[derive(Debug, Clone)]
pub struct Table {
    /// Its name: names the files.
    pub name: Spanned<String>,
    /// Its heading.
    pub title: Option<String>,
    /// The step, as an index into [`crate::recipe::Recipe::steps`].
    pub from: Spanned<usize>,
    /// Only these points.
    pub only: Selection,
    /// The axes that make the rows.
    pub rows: Vec<Spanned<String>>,
    /// The axes that make groups of columns.
    pub columns: Vec<Spanned<String>>,
    /// The metrics shown.
    pub cells: Vec<Spanned<String>>,
    /// Differences that are shown instead of the metrics themselves.
    pub compare: Option<Compare>,
    /// Direction of marking for a metric, if declared; `None` marks nothing.
    pub best: Vec<(Spanned<String>, Option<Better>)>,
    /// The paper's measurements.
    pub paper: Vec<PaperRow>,
}

/// A table with a row for each of some claims that compare as a ratio.
#[derive(Debug, Clone)]
pub struct Summary {
    /// Its name: names the files.
    pub name: Spanned<String>,
    /// Its heading.
    pub title: Option<String>,
    /// The claims, as indices into [`crate::recipe::Recipe::claims`].
    pub claims: Vec<Spanned<usize>>,
    /// The metrics of which ratios are shown, of the same sides.
    pub cells: Vec<Spanned<String>>,
}

/// Direction in which a metric is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// The smaller ones.
    Less,
    /// The larger ones.
    More,
}

/// A paper's measurements at some points.
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
    /// True if ratios are shown, not differences.
    pub ratio: bool,
    /// The axis along which the same job is repeated, which says how much the measuring itself varies.
    pub noise: Option<Spanned<String>>,
    /// True if seeds are added until chance cannot explain the differences.
    pub decide: bool,
}

/// A figure of a step's records.
#[derive(Debug, Clone)]
pub struct Figure {
    /// Its name: names the file.
    pub name: Spanned<String>,
    /// Its heading.
    pub title: Option<String>,
    /// The step, as an index into [`crate::recipe::Recipe::steps`].
    pub from: Spanned<usize>,
    /// Only these points.
    pub only: Selection,
    /// Kind of the figure.
    pub kind: FigureKind,
    /// To the right: `iteration` for lines, an axis for bars and heat maps, `time` for timelines, else a metric.
    pub x: Spanned<String>,
    /// Upwards: a curve for lines, an axis for heat maps, else a metric; for histograms and timelines the same as `x`.
    pub y: Spanned<String>,
    /// Limits of the device, for rooflines.
    pub roofs: Roofs,
    /// The metric that a heat map shows.
    pub value: Option<Spanned<String>>,
    /// Direction in which a metric is better, if declared.
    pub best: Vec<(Spanned<String>, Option<Better>)>,
    /// The axis whose values have a color each.
    pub color: Option<Spanned<String>>,
    /// True if the 95 % confidence interval is drawn around means.
    pub band: bool,
}

/// Kind of a figure.
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
    /// Distribution of a metric over jobs.
    Histogram,
    /// A rate against the operations for each byte, below what the device can do at most (Williams et al. 2009).
    Roofline,
    /// Times at which jobs ran.
    Timeline,
}

/// Limits of a device.
#[derive(Debug, Clone, Default)]
pub struct Roofs {
    /// Operations a second.
    pub compute: Option<Roof>,
    /// Bytes a second.
    pub bandwidth: Option<Roof>,
}

/// Height of a roof.
#[derive(Debug, Clone)]
pub enum Roof {
    /// As the largest value of a metric.
    Metric(Spanned<String>),
    /// In base units.
    Number(f64),
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
    /// The paper's measurement.
    pub paper: Option<f64>,
    /// The backends that it is about; any if empty.
    pub hardware: Vec<Backend>,
}

/// Statement of a claim about metrics.
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
    /// The step, as an index into [`crate::recipe::Recipe::steps`].
    pub step: usize,
    /// The selected points.
    pub only: Selection,
    /// Place in the recipe.
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
    /// The step, as an index into [`crate::recipe::Recipe::steps`].
    pub step: usize,
    /// The axis.
    pub axis: Spanned<String>,
    /// Its values, that with the smallest metric first.
    pub ascending: Vec<Template>,
    /// Only these points.
    pub only: Selection,
    /// Place of the values.
    pub span: Span,
}

impl Compare {
    /// Every value that is compared, as a selection.
    pub fn selection(&self) -> Selection {
        let values = self.pairs.iter().flat_map(|(of, to)| [of.clone(), to.clone()]);
        Selection(vec![(self.axis.clone(), values.collect())])
    }
}

impl Figure {
    /// Metrics that it draws.
    pub fn metrics(&self) -> impl Iterator<Item = &str> {
        let roofs = [&self.roofs.compute, &self.roofs.bandwidth].into_iter().flatten();
        let roofs = roofs.filter_map(|roof| if let Roof::Metric(metric) = roof { Some(metric) } else { None });
        [&self.x, &self.y].into_iter().chain(&self.value).chain(roofs).map(|name| name.value.as_str())
    }
}

impl Claim {
    /// The metric that it is about.
    pub fn metric(&self) -> &str {
        match &self.statement {
            Statement::Value(comparison, _)
            | Statement::Ratio(comparison, _)
            | Statement::Difference(comparison, _) => &comparison.metric.value,
            Statement::Order(order) => &order.metric.value,
        }
    }

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

impl FigureKind {
    /// The words that a recipe writes.
    pub(crate) const WORDS: [(&'static str, Self); 8] = [
        ("line", Self::Line),
        ("bar", Self::Bar),
        ("scatter", Self::Scatter),
        ("pareto", Self::Pareto),
        ("heat", Self::Heat),
        ("histogram", Self::Histogram),
        ("roofline", Self::Roofline),
        ("timeline", Self::Timeline),
    ];
}

impl Better {
    /// The words that a recipe writes.
    pub(crate) const WORDS: [(&'static str, Option<Self>); 3] =
        [("min", Some(Self::Less)), ("max", Some(Self::More)), ("none", None)];
}
