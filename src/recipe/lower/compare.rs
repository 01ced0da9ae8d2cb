//! `compare`: differences and ratios between values of an axis.

use serde_json::{Value as Json, json};

use super::{Lower, OfStep};
use crate::recipe::{
    Names, Selection, Step, Template,
    keys::{Custom, Flag, Mapping as _, Number, Text, Word, mapping},
    node::{Node, NodeKind},
    schema::reference,
    source::Spanned,
};

/// Values of an axis that a table compares.
#[derive(Debug, Clone)]
pub struct Compare {
    /// The points that were measured.
    pub of: OfStep,
    /// The axis.
    pub axis: Spanned<String>,
    /// Pairs of a value and the value to compare it with.
    pub pairs: Vec<(Template, Template)>,
    /// True if ratios are shown instead of differences.
    pub ratio: bool,
    /// The axis that repeats the same job, from which the measurement noise is estimated.
    pub noise: Option<Spanned<String>>,
    /// True if seeds are added until the differences are statistically significant.
    pub decide: bool,
    /// Half the width of the region of practical equivalence, for odds: a difference, or a fraction for ratios.
    pub equivalent: Option<f64>,
}

impl Compare {
    /// The selection of all compared values.
    pub(super) fn selection(&self) -> Selection {
        let values = self.pairs.iter().flat_map(|(of, to)| [of.clone(), to.clone()]);
        Selection(vec![(self.axis.clone(), values.collect())])
    }
}

mapping! {
    /// The keys of a table's `compare`.
    struct CompareKeys = "compare" {
        /// The axis whose values are compared.
        axis [required]: Text = Text::NAME,
        /// The pairs to compare: a value of the axis, and the value to compare it with.
        pairs [required]: Custom = Custom { schema: pairs, accepts: "`[[value, other], …]`" },
        /// The form of a comparison: a difference, or a ratio of geometric means. Default: `difference`.
        show: Word<bool> = Word(&[("difference", false), ("ratio", true)]),
        /// The axis that repeats the same job. Differences below the noise of these repetitions are marked.
        noise: Text = Text::NAME,
        /// Adds seeds until the differences are statistically significant. Default: `false`.
        ///
        /// It has an effect only on a step with `seeds: { min, max, until: decided }`.
        decide: Flag,
        /// The largest difference in either direction that is practically none. Adds the probabilities that the first
        /// value is less, equivalent, and more.
        ///
        /// For ratios it is a fraction: `0.02` means two percent.
        equivalent: Number,
    }
}

fn pairs() -> Json {
    let pair = json!({ "type": "array", "minItems": 2, "maxItems": 2, "items": reference("value") });
    json!({ "type": "array", "minItems": 1, "items": pair })
}

impl Lower<'_> {
    /// Reads `{ axis: prune, pairs: [[bitter7, none], …] }`.
    pub(super) fn compare(&mut self, node: &Node, step: &Step, of: &OfStep, params: &Names) -> Option<Compare> {
        let keys = CompareKeys::read(self, node, "`compare`")?;
        let usage = "write `{ axis: NAME, pairs: [[value, other], …] }`";
        let (Some(_), Some(pairs)) = (keys.axis.node(), keys.pairs.node()) else {
            self.problem(node.span, "`compare` needs `axis` and `pairs`", "incomplete", usage);
            return None;
        };
        let axis = keys.axis.spanned()?;
        self.check_axis(&axis, step, &step.axes());
        let mut found = Vec::new();
        let items = if let NodeKind::List(items) = &pairs.kind { items.as_slice() } else { &[] };
        if items.is_empty() {
            self.problem(pairs.span, "`pairs` compares nothing", "no list of pairs", usage);
        }
        for item in items {
            match &item.kind {
                NodeKind::List(two) if two.len() == 2 => {
                    found.extend(self.value(&two[0], params).zip(self.value(&two[1], params)));
                }
                _ => self.problem(item.span, "a pair is a list of two values", "not a pair", usage),
            }
        }
        let noise = keys.noise.spanned();
        if let Some(noise) = &noise {
            self.check_axis(noise, step, &step.axes());
            if noise.value == axis.value {
                let help = "name the axis along which the same job is repeated, for example `repeat`";
                self.problem(noise.span, "the axis that is compared is no noise", "also `axis`", help);
            }
        }
        let (ratio, decide) = (keys.show.value.unwrap_or(false), keys.decide.value.unwrap_or(false));
        let help = "write the largest difference that is practically none, for example `0.01`";
        let equivalent = self.positive(&keys.equivalent, "equivalent", "no region", help);
        (!found.is_empty()).then_some(Compare { of: of.clone(), axis, pairs: found, ratio, noise, decide, equivalent })
    }
}
