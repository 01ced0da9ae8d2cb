//! The statement of a claim in numbers.

use super::{expect::Expectation, law::Law};
use crate::recipe::{
    Claim, Selection, Template,
    source::{Span, Spanned},
};

/// The formal statement of a claim.
#[derive(Debug, Clone)]
pub enum Statement {
    /// A number of the points of a comparison, and its expected range.
    Number(Comparison, Measure, Expectation),
    /// The ranking of an axis's values.
    Order(Order),
}

/// A number of the sides of a comparison.
#[derive(Debug, Clone)]
pub enum Measure {
    /// The mean of a metric.
    Value,
    /// The ratio of a metric between two sides.
    Ratio,
    /// The difference of a metric between two sides.
    Difference,
    /// A power law of a metric over sizes.
    Law(Law),
}

/// A metric of some points, and the points to compare them with.
#[derive(Debug, Clone)]
pub struct Comparison {
    /// The metric.
    pub metric: Spanned<String>,
    /// The points.
    pub of: Side,
    /// The points to compare with; `None` for `value` and `law`.
    pub to: Option<Side>,
}

/// Points of a step.
#[derive(Debug, Clone)]
pub struct Side {
    /// The step, as an index into [`crate::recipe::Recipe::steps`].
    pub step: usize,
    /// The selected points.
    pub only: Selection,
    /// The place in the text.
    pub span: Span,
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
    /// Its values, in ascending order of the metric.
    pub ascending: Vec<Template>,
    /// The selected points.
    pub only: Selection,
    /// The place of the values.
    pub span: Span,
}

impl Comparison {
    /// Its sides.
    pub fn sides(&self) -> impl Iterator<Item = &Side> {
        std::iter::once(&self.of).chain(&self.to)
    }

    /// Its sides, to be changed.
    pub(super) fn sides_mut(&mut self) -> impl Iterator<Item = &mut Side> {
        std::iter::once(&mut self.of).chain(&mut self.to)
    }
}

impl Statement {
    /// The metric.
    pub fn metric(&self) -> &Spanned<String> {
        match self {
            Self::Number(comparison, ..) => &comparison.metric,
            Self::Order(order) => &order.metric,
        }
    }

    /// The number, and the comparison that it is of; an order has none.
    pub fn number(&self) -> Option<(&Comparison, &Measure)> {
        match self {
            Self::Number(comparison, measure, _) => Some((comparison, measure)),
            Self::Order(_) => None,
        }
    }

    /// The comparison of a ratio.
    pub fn ratio(&self) -> Option<&Comparison> {
        self.number().filter(|(_, measure)| matches!(measure, Measure::Ratio)).map(|(comparison, _)| comparison)
    }

    /// The comparison of two sides.
    pub fn compared(&self) -> Option<&Comparison> {
        let is_compared = |measure: &Measure| matches!(measure, Measure::Ratio | Measure::Difference);
        self.number().filter(|(_, measure)| is_compared(measure)).map(|(comparison, _)| comparison)
    }
}

impl Claim {
    /// The metric of the statement.
    pub fn metric(&self) -> &str {
        &self.statement.metric().value
    }

    /// The expected range; an order has none.
    pub fn expectation(&self) -> Option<Expectation> {
        match &self.statement {
            Statement::Number(.., expect) => Some(*expect),
            Statement::Order(_) => None,
        }
    }

    /// The claim over all values of an axis; `None` if it selects none of them.
    pub fn over_all(&self, axis: &str) -> Option<Self> {
        let mut claim = self.clone();
        let selections: Vec<&mut Selection> = match &mut claim.statement {
            Statement::Number(comparison, ..) => comparison.sides_mut().map(|side| &mut side.only).collect(),
            Statement::Order(order) => vec![&mut order.only],
        };
        let mut selects = false;
        for selection in selections {
            let before = selection.0.len();
            selection.0.retain(|(name, _)| name.value != axis);
            selects |= selection.0.len() < before;
        }
        selects.then_some(claim)
    }

    /// The steps of the statement, each with its selection of points.
    pub fn selections(&self) -> Vec<(usize, Selection)> {
        match &self.statement {
            Statement::Number(comparison, ..) => {
                comparison.sides().map(|side| (side.step, side.only.clone())).collect()
            }
            Statement::Order(order) => {
                let mut only = order.only.clone();
                only.0.push((order.axis.clone(), order.ascending.clone()));
                vec![(order.step, only)]
            }
        }
    }
}
