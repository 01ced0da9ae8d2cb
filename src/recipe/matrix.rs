//! A step's matrix: axes, draws, ablations.

use super::{Condition, Span, Spanned, Template};

/// Points of a step: the product of its dimensions, without the excluded points and with the included ones, as far as
/// the condition holds.
#[derive(Debug, Clone, Default)]
pub struct Matrix {
    /// Factors of the product, in the order of the text.
    pub dimensions: Vec<Dimension>,
    /// Points added, or points given further values.
    pub include: Vec<Assignment>,
    /// Points left out: those that have all these values.
    pub exclude: Vec<Assignment>,
    /// Keeps the points for which it holds.
    pub condition: Option<Condition>,
    /// Axes whose values were replaced by a sweep file or on the command line: the author's declarations about other
    /// values do not apply then.
    pub narrowed: Vec<String>,
    /// Those of them that the author has not given it at all.
    pub added: Vec<String>,
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

/// Form of an axis's values.
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

/// Spacing of numbers.
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
    /// Number of values.
    pub n: Template,
    /// Seed of the draws; 0 when not given.
    pub seed: Option<Template>,
    /// Distribution of each axis.
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
    /// Combinations of the design.
    pub design: Design,
    /// Changes.
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

/// Combinations of factors that an ablation runs.
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

impl Matrix {
    /// True if a dimension multiplies all points, including those of `include`: seeds in any form, an ablation, and
    /// axes from outside.
    pub fn crosses(&self, dimension: &Dimension) -> bool {
        match dimension {
            Dimension::Axis(Axis { name, .. }) => name.value == "seed" || self.added.contains(&name.value),
            Dimension::Ablation(_) => true,
            Dimension::Zip(_) | Dimension::Random(_) => false,
        }
    }

    /// True if an axis belongs to such a dimension.
    pub fn is_crossing(&self, axis: &str) -> bool {
        let has = |dimension: &&Dimension| dimension.axes().iter().any(|name| name.value == axis);
        self.dimensions.iter().find(has).is_some_and(|dimension| self.crosses(dimension))
    }

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

impl Design {
    /// The words that a recipe writes.
    pub(crate) const WORDS: &'static [(&'static str, Self)] = &[
        ("add-one", Self::AddOne),
        ("leave-one-out", Self::LeaveOneOut),
        ("factorial", Self::Factorial),
        ("fractional", Self::Fractional),
    ];
}
