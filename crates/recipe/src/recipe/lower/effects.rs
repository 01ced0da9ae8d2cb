//! `effects`: the factors of a table or a figure of effects.

use serde_json::{Value as Json, json};
use sweep_job::Value;

use super::{Lower, OfStep};
use crate::recipe::{
    Step,
    keys::{Custom, Mapping as _, Texts, mapping},
    node::{Node, NodeKind},
    schema::reference,
    source::{Span, Spanned},
};

/// Effects of a step's factors.
#[derive(Debug, Clone)]
pub struct Effects {
    /// The points that were measured.
    pub of: OfStep,
    /// The factors; if there are none, all axes that vary.
    pub factors: Vec<Spanned<String>>,
    /// The interactions.
    pub interactions: Interactions,
    /// The place of the table's or figure's request.
    pub span: Span,
}

/// Interactions to estimate.
#[derive(Debug, Clone)]
pub enum Interactions {
    /// None.
    None,
    /// The interactions of all pairs of factors; the value is the place of the request.
    All(Span),
    /// The interactions of these pairs.
    Pairs(Vec<[Spanned<String>; 2]>),
}

mapping! {
    /// The keys of `effects`.
    struct EffectKeys = "effects" {
        /// The axes whose effects are estimated. Default: all axes that vary, except `seed`.
        ///
        /// Of zipped axes, only the first is used. Every other axis must be constant.
        factors: Texts = Texts::NAMES,
        /// The two-factor interactions to estimate: all, none, or those of the given pairs. Default: `false`.
        interactions: Custom = Custom { schema: interactions, accepts: "`true`, `false`, or `[[factor, factor], …]`" },
    }
}

fn interactions() -> Json {
    let pair = json!({ "type": "array", "minItems": 2, "maxItems": 2, "items": reference("name") });
    json!({ "type": ["boolean", "array"], "minItems": 1, "items": pair })
}

impl Effects {
    /// All axes that vary, without interactions.
    pub(super) fn of_all(of: OfStep, span: Span) -> Self {
        Self { of, factors: Vec::new(), interactions: Interactions::None, span }
    }
}

impl Lower<'_> {
    /// Reads `{ factors: [axis, …], interactions: true }`.
    pub(super) fn effects(&mut self, node: &Node, step: &Step, of: OfStep) -> Option<Effects> {
        let keys = EffectKeys::read(self, node, "`effects`")?;
        let axes = step.axes();
        let given = keys.factors.is_there();
        let factors = keys.factors.value.unwrap_or_default();
        if given && factors.is_empty() {
            let help = "name axes, or remove `factors` to use all axes that vary";
            self.problem(node.span, "`factors` is empty", "no factors", help);
        }
        for (index, factor) in factors.iter().enumerate() {
            self.check_factor(factor, step, &axes);
            if factors[..index].iter().any(|earlier| earlier.value == factor.value) {
                let message = format!("factor `{}` is listed twice", factor.value);
                self.problem(factor.span, message, "again", "remove one of them");
            }
        }
        let interactions = match keys.interactions.node() {
            Some(node) => self.interactions(node, step, &factors, &axes),
            None => Interactions::None,
        };
        Some(Effects { of, factors, interactions, span: node.span })
    }

    fn check_factor(&mut self, factor: &Spanned<String>, step: &Step, axes: &[&str]) {
        if factor.value == "seed" {
            let help = "seeds are the repetitions from which the error is estimated; name other axes";
            self.problem(factor.span, "`seed` cannot be a factor", "repeats the measurement", help);
        } else {
            self.check_axis(factor, step, axes);
        }
    }

    fn interactions(&mut self, node: &Node, step: &Step, factors: &[Spanned<String>], axes: &[&str]) -> Interactions {
        let usage = "write `true`, or a list of pairs of factors: `[[dropout, activation]]`";
        let items = match &node.kind {
            NodeKind::Scalar(Value::Bool(true)) => return Interactions::All(node.span),
            NodeKind::Scalar(Value::Bool(false)) => return Interactions::None,
            NodeKind::List(items) if !items.is_empty() => items.as_slice(),
            _ => {
                let message =
                    format!("`interactions` must be true, false or a list of pairs, found {}", node.describe());
                self.problem(node.span, message, "no interactions", usage);
                return Interactions::None;
            }
        };
        let mut pairs: Vec<[Spanned<String>; 2]> = Vec::new();
        for item in items {
            let names = if let NodeKind::List(_) = &item.kind { self.texts(item, "a pair") } else { Vec::new() };
            let Ok(pair) = <[Spanned<String>; 2]>::try_from(names) else {
                self.problem(item.span, "an interaction is a pair of factors", "not a pair", usage);
                continue;
            };
            for factor in &pair {
                self.check_factor(factor, step, axes);
                if !factors.is_empty() && !factors.iter().any(|known| known.value == factor.value) {
                    let message = format!("`{}` is in `interactions`, but not in `factors`", factor.value);
                    self.problem(factor.span, message, "not a factor", "add it to `factors`, or remove the pair");
                }
            }
            let [first, second] = &pair;
            if first.value == second.value {
                let message = format!("`{}` cannot interact with itself", first.value);
                self.problem(item.span, message, "the same factor", "name two factors");
                continue;
            }
            let same = |known: &[Spanned<String>; 2]| {
                pair.iter().all(|name| known.iter().any(|other| other.value == name.value))
            };
            if pairs.iter().any(same) {
                let message = format!("the interaction of `{}` and `{}` is listed twice", first.value, second.value);
                self.problem(item.span, message, "again", "remove one of them");
                continue;
            }
            pairs.push(pair);
        }
        Interactions::Pairs(pairs)
    }
}
