//! Declarations of the kinds of charts, from which recipes, schema and documentation are derived.

use super::{Chart, data::Data};

/// The declaration of a kind of chart.
#[derive(Debug)]
pub struct Declaration {
    /// The name of the kind in recipes.
    pub word: &'static str,
    /// Its description in documentation and schema.
    pub doc: &'static str,
    /// The role of the quantity on the x-axis, if the author chooses it.
    pub x: Option<Role>,
    /// The role of the quantity on the y-axis, if the author chooses it.
    pub y: Option<Role>,
    /// The role of the quantity at each position, for a kind with values besides those on the y-axis.
    pub value: Option<Role>,
    /// True if the kind needs the better direction of metrics.
    pub best: bool,
    /// True if the kind needs the peak rates of the device.
    pub roofs: bool,
    /// The data that the kind shows.
    pub(super) shows: Shows,
    /// The symbol in the legend.
    pub(super) mark: Mark,
    /// For the x- and the y-axis, true if the author can choose the scale and the limits.
    pub scales: [bool; 2],
    /// For the x- and the y-axis, true if the author can choose the label.
    pub labels: [bool; 2],
    /// True if the chart fits into a column of a paper.
    pub(super) narrow: bool,
    /// Computes the numbers for the page, if the kind is interactive there.
    pub(super) data: Option<fn(&Chart<'_>) -> Option<Data>>,
}

/// The role of a name in a chart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The iterations of a job, or an axis of the step.
    Along,
    /// A curve over the iterations, or a metric over an axis.
    Line,
    /// An axis of the step.
    Axis,
    /// A metric.
    Metric,
}

/// A symbol in the legend.
#[derive(Debug, Clone, Copy)]
pub(super) enum Mark {
    /// A line with its dash pattern.
    Line,
    /// A box.
    Area,
    /// A dot in its shape.
    Dot,
    /// No symbol: the chart has its own scale.
    Nothing,
}

/// The data that a kind of chart shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shows {
    /// Jobs.
    Jobs,
    /// Effects of factors.
    Effects,
    /// Configurations, by all of their axes.
    Configurations,
}

impl Declaration {
    /// A declaration without optional parts.
    pub(super) const NOTHING: Self = Self {
        word: "",
        doc: "",
        x: None,
        y: None,
        value: None,
        best: false,
        roofs: false,
        shows: Shows::Jobs,
        mark: Mark::Nothing,
        scales: [false; 2],
        labels: [false; 2],
        narrow: false,
        data: None,
    };

    /// True if series have symbols in a legend.
    pub fn has_legend(&self) -> bool {
        !matches!(self.mark, Mark::Nothing)
    }

    /// True if the kind shows effects of factors instead of jobs.
    pub fn has_effects(&self) -> bool {
        self.shows == Shows::Effects
    }
}

impl Role {
    /// Its text in the documentation.
    pub fn name(self) -> &'static str {
        match self {
            Self::Along => "`iteration` or an axis",
            Self::Line => "a curve, or a metric over an axis",
            Self::Axis => "an axis",
            Self::Metric => "a metric",
        }
    }
}
