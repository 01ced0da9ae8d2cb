//! Declarations of the kinds of charts, from which recipes, schema and documentation are derived.

/// The declaration of a kind of chart.
#[derive(Debug)]
pub(crate) struct Declaration {
    /// The word in recipes.
    pub(crate) word: &'static str,
    /// A sentence for readers.
    pub(crate) doc: &'static str,
    /// The role of the quantity on the x-axis, if the author chooses it.
    pub(crate) x: Option<Role>,
    /// The role of the quantity on the y-axis, if the author chooses it.
    pub(crate) y: Option<Role>,
    /// The role of the quantity at each position, if it is not that on the y-axis.
    pub(crate) value: Option<Role>,
    /// True if the kind needs the better direction of metrics.
    pub(crate) best: bool,
    /// True if the kind needs the peak rates of the device.
    pub(crate) roofs: bool,
    /// The content of the kind.
    pub(super) shows: Shows,
    /// The symbol in the legend.
    pub(super) mark: Mark,
}

/// The role of a name in a chart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// The iterations of a job.
    Iteration,
    /// A curve over them.
    Curve,
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

/// The content of a kind of chart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shows {
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
    };

    /// True if the kind shows effects of factors instead of jobs.
    pub(crate) fn has_effects(&self) -> bool {
        self.shows == Shows::Effects
    }
}

impl Role {
    /// Its name in the documentation.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Iteration => "`iteration`",
            Self::Curve => "a curve",
            Self::Axis => "an axis",
            Self::Metric => "a metric",
        }
    }
}
