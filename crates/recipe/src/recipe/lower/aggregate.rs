//! `aggregate`: one number for each value of an axis over many tasks.

use super::{Lower, OfStep};
use crate::recipe::{
    Names, Selection, Step, Template,
    keys::{Custom, Given, Mapping as _, Text, mapping},
    node::Node,
    schema::reference,
    source::Spanned,
};

/// Aggregates over all axes but one, and over the seeds of each of their points.
#[derive(Debug, Clone)]
pub struct Aggregate {
    /// The points that were measured.
    pub of: OfStep,
    /// The axis whose values are the rows.
    pub axis: Spanned<String>,
    /// The value that the others are compared with.
    pub baseline: Option<Template>,
}

mapping! {
    /// The keys of a table's `aggregate`.
    struct AggregateKeys = "aggregate" {
        /// The axis whose values are the rows, for example the methods. Every combination of the other axes is a task,
        /// and seeds are its runs.
        axis [required]: Text = Text::NAME,
        /// The value of the axis with which all others are compared: by the probability that a run of the other value
        /// is better than a run of the baseline on the same task.
        baseline: Custom = Custom { schema: || reference("value"), accepts: "a value" },
    }
}

impl Aggregate {
    /// The selection of the baseline.
    pub(super) fn selection(&self) -> Selection {
        Selection(self.baseline.iter().map(|baseline| (self.axis.clone(), vec![baseline.clone()])).collect())
    }
}

impl Lower<'_> {
    /// Reads `{ axis: method, baseline: adamw }`.
    pub(super) fn aggregate(&mut self, node: &Node, step: &Step, of: OfStep, params: &Names) -> Option<Aggregate> {
        let keys = AggregateKeys::read(self, node, "`aggregate`")?;
        if self.is_missing(node, "axis", &keys.axis) {
            let help = "write `{ axis: NAME }` with the axis whose values are the rows";
            self.problem(node.span, "`aggregate` has no `axis`", "`axis` is missing", help);
        }
        let baseline = self.baseline(&keys.baseline, params);
        let axis = keys.axis.spanned()?;
        self.check_axis(&axis, step, &step.axes());
        if axis.value == "seed" {
            let help = "seeds are the runs of a task; name another axis";
            self.problem(axis.span, "`seed` cannot be the axis of `aggregate`", "repeats the measurement", help);
        }
        Some(Aggregate { of, axis, baseline })
    }

    fn baseline(&mut self, given: &Given<'_, ()>, params: &Names) -> Option<Template> {
        self.value(given.node()?, params)
    }
}
