//! The points of a needed step, grouped by the values that they share with the points that need them.

use std::{collections::HashMap, rc::Rc};

use super::{JobId, ListId, Point};

/// The points of a needed step, by their values on the axes that both steps have at every point.
pub(super) struct Join {
    pub(super) axes: Vec<String>,
    /// All axes of the needed step.
    pub(super) all: Vec<String>,
    pub(super) by_shared: HashMap<String, Vec<usize>>,
    /// The jobs that are needed at points with these values on those axes.
    pub(super) groups: HashMap<String, Rc<Group>>,
    /// True if an empty result is a mistake that is not yet reported.
    pub(super) sound: bool,
}

/// The jobs of a needed step that points need which agree on its axes.
pub(super) struct Group {
    /// In the order of the step's points.
    pub(super) jobs: Vec<JobId>,
    /// The list of these jobs; `None` without jobs.
    pub(super) list: Option<ListId>,
    /// The first and the last further round in which one of the jobs runs.
    pub(super) rounds: (usize, usize),
    /// The jobs that only run if a decision releases them: whether there are any, and whether all are.
    pub(super) held: (bool, bool),
}

impl Join {
    /// Group of points of the needed step that agree with a point.
    pub(super) fn group(&self, point: &Point) -> String {
        let values: Vec<String> = self.all.iter().map(|axis| format!("{:?}", point.get(axis))).collect();
        values.join("\u{0}")
    }

    /// Values of a point on the shared axes.
    pub(super) fn key(&self, point: &Point) -> String {
        let values: Vec<String> = self
            .axes
            .iter()
            .map(|axis| match point.get(axis) {
                // Numbers are compared as floats, so that 1 equals 1.0.
                Some(value) => value.as_f64().map_or_else(|| format!("{value:?}"), |number| number.to_string()),
                None => String::new(),
            })
            .collect();
        values.join("\u{0}")
    }
}
