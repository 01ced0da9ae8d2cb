//! `seeds: { min, max, until, budget }`: seeds that are added while a result is undecided.

use std::time::Duration;

use super::Lower;
use crate::recipe::{
    Names,
    keys::{Custom, Given, Mapping as _, Shape as _, TimeSpan, Word, mapping},
    node::{Node, NodeKind},
    schema::{reference, span_of_time},
    source::Span,
};

/// Adaptive seeds: seeds are added while a claim, or a comparison that a table marks with `decide`, is undecided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Adaptive {
    /// Minimum number of seeds per point: 0, 1, ….
    pub least: usize,
    /// Maximum number of seeds per point.
    pub most: usize,
    /// Maximum total duration of the added seeds.
    pub budget: Option<Duration>,
    /// The place in the text.
    pub span: Span,
}

mapping! {
    /// The keys of `seeds` in a step with adaptive seeds.
    struct AdaptiveKeys = "seeds" {
        /// The number of seeds that every point has.
        min [required]: Custom = Custom { schema: || reference("number"), accepts: "an integer from 2" },
        /// The maximum number of seeds of a point.
        max [required]: Custom = Custom { schema: || reference("number"), accepts: "an integer from 2" },
        /// The stopping rule: seeds are added until every claim and every comparison with `decide: true` is decided.
        until [required]: Word<()> = Word(&[("decided", ())]),
        /// The maximum total duration of the seeds beyond `min`. No more seeds are added after it is used up.
        budget: Custom = Custom { schema: span_of_time, accepts: "a span of time: `30m`, `1h30m`, `90s`" },
    }
}

impl Lower<'_> {
    /// Reads `seeds: { min: 2, max: 10, until: decided }`: the axis `seed` with 0 and 1, and more values while a result
    /// is undecided.
    pub(super) fn adaptive(&mut self, node: &Node, params: &Names) -> Option<Adaptive> {
        let NodeKind::Map(_) = &node.kind else { return None };
        let keys = AdaptiveKeys::read(self, node, "`seeds`")?;
        let usage = "write `seeds: { min: 2, max: 10, until: decided }`";
        let mut bound = |given: &Given<'_, ()>, key: &str| {
            let Some(node) = given.node() else {
                self.problem(node.span, format!("`seeds` lacks `{key}`"), "incomplete", usage);
                return None;
            };
            let number = self.value(node, params)?.resolve(params, &Names::new())?.value;
            match number.as_f64().filter(|number| *number >= 2.0 && number.fract() == 0.0 && *number <= 1e4) {
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole, from 2 to 10,000")]
                Some(number) => Some(number as usize),
                None => {
                    let message = format!("`{key}` must be a whole number from 2 to 10000, found {number}");
                    let help = "an estimate of the variance needs at least two seeds";
                    self.problem(node.span, message, "not a number of seeds", help);
                    None
                }
            }
        };
        let (least, most) = (bound(&keys.min, "min"), bound(&keys.max, "max"));
        if keys.until.is_there() {
            keys.until.value?;
        } else {
            self.problem(node.span, "`seeds` lacks `until`", "until when?", usage);
        }
        let budget = match keys.budget.node() {
            Some(node) => Some(self.span_of_time(node, params)?),
            None => None,
        };
        let (least, most) = (least?, most?);
        if least > most {
            let message = format!("`min` is {least} and `max` is {most}");
            self.problem(node.span, message, "cannot hold", "swap the two values");
            return None;
        }
        Some(Adaptive { least, most, budget, span: node.span })
    }

    /// A span of time that is written, or that a param has.
    fn span_of_time(&mut self, node: &Node, params: &Names) -> Option<Duration> {
        let value = self.value(node, params)?.resolve(params, &Names::new())?.value;
        let resolved = Node { kind: NodeKind::Scalar(value), span: node.span };
        TimeSpan { zero: true }.read(self, &resolved, "budget")
    }
}
