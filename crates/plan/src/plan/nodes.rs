//! Jobs on several nodes.

use sweep_job::{Values, tasks::launched};

use super::{Point, build::Builder};
use crate::recipe::{Problem, Step};

impl Builder<'_> {
    /// Checks that a job for several nodes is a program with the same number of processes on each.
    pub(super) fn check_nodes(&mut self, step: &Step, point: &Point, values: &Values) {
        let nodes = step.resources.nodes();
        let (message, help) = match launched(values) {
            _ if nodes == 1 => return,
            None => (
                format!("`nodes: {nodes}` needs a program that is started as several processes"),
                "add `launch: torchrun` and `ranks` to `with`, or write `nodes: 1`".to_owned(),
            ),
            Some((_, ranks)) if !ranks.is_multiple_of(nodes) => {
                let multiple = ranks.div_ceil(nodes) * nodes;
                (
                    format!("{ranks} processes cannot be spread evenly over {nodes} nodes"),
                    format!("`ranks` is the number on all nodes together: write `ranks: {multiple}`"),
                )
            }
            Some(_) => return,
        };
        let span = step.name.span;
        let message = format!("{}: {message}", self.label(step, point));
        let problem = Problem::new(&self.recipe.sources, span, message, "incompatible");
        self.problems.push(span, problem.help(help));
    }
}
