//! `law` of a claim: a power law of a metric over sizes.

use super::{Lower, claims::Context, statement::Comparison};
use crate::recipe::{
    keys::{Custom, Flag, Mapping as _, Number, Text, mapping},
    node::Node,
    source::Spanned,
};

/// The kind of number of a claim about a law's exponent, which has no unit.
pub(super) const EXPONENT: &str = "exponent";

/// The number of a power law that a claim is about.
#[derive(Debug, Clone)]
pub struct Law {
    /// The parameter, axis or metric whose values are the sizes.
    pub x: Spanned<String>,
    /// The size at which the measured mean is divided by the prediction of the other sizes; `None` for the exponent.
    pub predict: Option<f64>,
    /// True if the law has a constant.
    pub constant: bool,
}

mapping! {
    /// The keys of a claim's `law`.
    struct LawKeys = "law" {
        /// The metric.
        metric [required]: Text = Text::METRIC,
        /// The points: a step and values of its axes.
        of [required]: Custom = Custom::SIDE,
        /// The parameter, axis or metric of the jobs whose values are the sizes. The law is fitted to the means of at least three sizes,
        /// and of four with `constant`.
        x [required]: Text = Text::METRIC,
        /// A size that is left out of the fit. The claim is about the ratio of its measured mean to the law's
        /// prediction, with the interval of the prediction. Without `predict`, the claim is about the exponent.
        predict: Number,
        /// Adds a constant to the law, `constant + factor · x^exponent`: the loss that no size goes below (the irreducible loss), a fixed
        /// part of a time, or the score that larger sizes approach. Default: `false`.
        constant: Flag,
    }
}

impl Law {
    /// The kind of its number, for `expect`.
    pub(super) fn kind(&self) -> &'static str {
        if self.predict.is_some() { "ratio" } else { EXPONENT }
    }
}

impl Lower<'_> {
    /// Reads `{ metric, of, x, predict, constant }`.
    pub(super) fn law(&mut self, node: &Node, context: &Context<'_>) -> Option<(Comparison, Law)> {
        let keys = LawKeys::read(self, node, "`law`")?;
        let metric = self.metric(node, keys.metric, "law");
        let Some(of) = keys.of.node() else {
            let help = "write `of: { step: NAME, axis: value }`";
            self.problem(node.span, "`law` lacks `of`", "which jobs?", help);
            return None;
        };
        let of = self.side(of, "of", context);
        if self.is_missing(node, "x", &keys.x) {
            let help = "add the parameter, axis or metric that is the size, for example `x: d_model`";
            self.problem(node.span, "`law` has no sizes", "`x` is missing", help);
        }
        let help = "write a size above zero";
        let predict = keys.predict.is_there().then(|| self.positive(&keys.predict, "predict", "no size", help));
        let (metric, of, x) = (metric?, of?, keys.x.spanned()?);
        self.check_metric(&metric, &context.steps[of.step]);
        self.check_size(&x, &context.steps[of.step]);
        let predict = match predict {
            Some(size) => Some(size?),
            None => None,
        };
        Some((
            Comparison { metric, of, to: None },
            Law { x, predict, constant: keys.constant.value.unwrap_or_default() },
        ))
    }
}
