//! A step's matrix: axes, draws, ablations.

use sweep_job::Value;

use super::{Condition, Span, Spanned, Template};

/// Points of a step: the product of its dimensions, without the excluded points and with the included ones, filtered by
/// the condition.
#[derive(Debug, Clone, Default)]
pub struct Matrix {
    /// Factors of the product, in the order of the text.
    pub dimensions: Vec<Dimension>,
    /// Additional points, or additional values for existing points.
    pub include: Vec<Assignment>,
    /// Excluded points: all points with the values of an entry.
    pub exclude: Vec<Assignment>,
    /// Keeps the points for which it holds.
    pub condition: Option<Condition>,
    /// Axes whose values were replaced by a sweep file or on the command line: the author's declarations about other
    /// values do not apply then.
    pub narrowed: Vec<String>,
    /// Axes in `narrowed` that the recipe does not have.
    pub added: Vec<String>,
    /// The axis of the rungs, if the step has some.
    pub rungs: Option<String>,
}

/// A factor of a matrix's product.
#[derive(Debug, Clone)]
pub enum Dimension {
    /// An axis on its own.
    Axis(Axis),
    /// Axes that vary together.
    Zip(Vec<Axis>),
    /// Points drawn at random.
    Random(Random),
    /// An ablation design.
    Ablation(Ablation),
    /// Configurations that decisions choose.
    Suggested(Suggested),
}

/// Axes whose values are chosen together while the step runs.
#[derive(Debug, Clone)]
pub struct Suggested {
    /// The axes.
    pub axes: Vec<Spanned<String>>,
    /// The names of those whose values are floats, whole ones too.
    pub floats: Vec<String>,
}

/// A name and its values.
#[derive(Debug, Clone)]
pub struct Axis {
    /// The axis's name.
    pub name: Spanned<String>,
    /// The axis's values.
    pub values: AxisValues,
}

/// Form of an axis's values.
#[derive(Debug, Clone)]
pub enum AxisValues {
    /// A list of values.
    List(Vec<Template>),
    /// A progression, by two or three numbers.
    Numbers(Progression, Vec<Template>, Span),
    /// The values of another step's axis.
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
    /// `range: [from, to, step]`, excluding `to`.
    Range,
    /// `linspace: [from, to, n]`, including `to`, with equal differences.
    Linspace,
    /// `logspace: [from, to, n]`, including `to`, with equal ratios.
    Logspace,
}

/// Points that are drawn at random, reproducibly.
#[derive(Debug, Clone)]
pub struct Random {
    /// Number of values.
    pub n: Template,
    /// Seed of the draws. Default: 0.
    pub seed: Option<Template>,
    /// Distribution of each axis.
    pub axes: Vec<(Spanned<String>, Draw)>,
    /// The whole entry.
    pub span: Span,
}

/// A distribution.
#[derive(Debug, Clone)]
pub enum Draw {
    /// Uniform between two numbers.
    Uniform(Vec<Template>, Span),
    /// Log-uniform between two numbers.
    LogUniform(Vec<Template>, Span),
    /// Several equally likely values.
    Choice(Vec<Template>),
}

/// A baseline and the changes to it.
#[derive(Debug, Clone)]
pub struct Ablation {
    /// Combinations of the design.
    pub design: Design,
    /// Changes.
    pub factors: Vec<Factor>,
}

/// A factor that an ablation changes.
#[derive(Debug, Clone)]
pub struct Factor {
    /// The axis.
    pub axis: Spanned<String>,
    /// The axis's value in the baseline.
    pub baseline: Template,
    /// The axis's other values.
    pub values: Vec<Template>,
}

/// Combinations of factors that an ablation runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Design {
    /// The baseline, and each change on its own.
    AddOne,
    /// All changes, all changes except one for each factor, and the baseline.
    LeaveOneOut,
    /// Every combination.
    Factorial,
    /// The half of the combinations with an even number of changes: main effects are not confounded with each other.
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

/// The mistake of two values on an axis that differ but have one text, and its remedy.
pub fn reads_alike(axis: &str, value: &Value) -> (String, &'static str) {
    let message = format!("axis `{axis}` has {} `{value}` and another value with the same text", value.kind());
    let help =
        "the names of jobs, tables and files would be the same: keep one of the values, or write the text differently";
    (message, help)
}

impl Matrix {
    /// True if a dimension multiplies all points, including the points of `include`: seeds in any form, rungs, an
    /// ablation, and axes from outside.
    pub fn crosses(&self, dimension: &Dimension) -> bool {
        match dimension {
            Dimension::Axis(Axis { name, .. }) => {
                name.value == "seed" || self.added.contains(&name.value) || self.rungs.as_ref() == Some(&name.value)
            }
            Dimension::Ablation(_) => true,
            Dimension::Zip(_) | Dimension::Random(_) | Dimension::Suggested(_) => false,
        }
    }

    /// True if an axis belongs to such a dimension.
    pub fn is_crossing(&self, axis: &str) -> bool {
        let has = |dimension: &&Dimension| dimension.axes().iter().any(|name| name.value == axis);
        self.dimensions.iter().find(has).is_some_and(|dimension| self.crosses(dimension))
    }

    /// The configurations that decisions choose.
    pub fn suggested(&self) -> Option<&Suggested> {
        self.dimensions.iter().find_map(|dimension| match dimension {
            Dimension::Suggested(suggested) => Some(suggested),
            _ => None,
        })
    }

    /// The axes of numbers at declared distances; true if their ratios are equal, or their logarithms equally likely.
    pub fn scales(&self) -> impl Iterator<Item = (String, bool)> {
        self.dimensions.iter().flat_map(|dimension| -> Vec<(String, bool)> {
            let of_axis = |axis: &Axis| match axis.values {
                AxisValues::Numbers(progression, ..) => {
                    Some((axis.name.value.clone(), progression == Progression::Logspace))
                }
                AxisValues::List(_) | AxisValues::Of { .. } => None,
            };
            match dimension {
                Dimension::Axis(axis) => of_axis(axis).into_iter().collect(),
                Dimension::Zip(axes) => axes.iter().filter_map(of_axis).collect(),
                Dimension::Random(random) => {
                    let draws = random.axes.iter().filter_map(|(name, draw)| match draw {
                        Draw::Uniform(..) => Some((name.value.clone(), false)),
                        Draw::LogUniform(..) => Some((name.value.clone(), true)),
                        Draw::Choice(_) => None,
                    });
                    draws.collect()
                }
                Dimension::Ablation(_) | Dimension::Suggested(_) => Vec::new(),
            }
        })
    }

    /// The names of the axes that the dimensions have.
    pub fn axes(&self) -> Vec<&str> {
        self.dimensions.iter().flat_map(Dimension::axes).map(|name| name.value.as_str()).collect()
    }
}

impl Axis {
    /// The values in its list; none for other forms.
    fn listed(&self) -> &[Template] {
        match &self.values {
            AxisValues::List(values) => values,
            AxisValues::Numbers(..) | AxisValues::Of { .. } => &[],
        }
    }
}

impl Dimension {
    /// The values that are listed for its axes.
    pub fn listed(&self) -> Vec<&Template> {
        match self {
            Self::Axis(axis) => axis.listed().iter().collect(),
            Self::Zip(axes) => axes.iter().flat_map(Axis::listed).collect(),
            Self::Ablation(ablation) => ablation.factors.iter().flat_map(|factor| &factor.values).collect(),
            Self::Random(_) | Self::Suggested(_) => Vec::new(),
        }
    }

    /// The names of its axes.
    pub fn axes(&self) -> Vec<&Spanned<String>> {
        match self {
            Self::Axis(axis) => vec![&axis.name],
            Self::Suggested(suggested) => suggested.axes.iter().collect(),
            Self::Zip(axes) => axes.iter().map(|axis| &axis.name).collect(),
            Self::Random(random) => random.axes.iter().map(|(name, _)| name).collect(),
            Self::Ablation(ablation) => ablation.factors.iter().map(|factor| &factor.axis).collect(),
        }
    }
}

impl Design {
    /// The words in recipes.
    pub const WORDS: &'static [(&'static str, Self)] = &[
        ("add-one", Self::AddOne),
        ("leave-one-out", Self::LeaveOneOut),
        ("factorial", Self::Factorial),
        ("fractional", Self::Fractional),
    ];
}
