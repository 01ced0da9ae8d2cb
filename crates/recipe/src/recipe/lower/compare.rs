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
    /// The compared values.
    pub values: ComparedValues,
    /// True if all comparisons share one error.
    pub pooled: bool,
    /// True if ratios are shown instead of differences.
    pub ratio: bool,
    /// The axis that repeats the same job, from which the measurement noise is estimated.
    pub noise: Option<Spanned<String>>,
    /// True if seeds are added until the differences are statistically significant.
    pub decide: bool,
    /// Half the width of the region of practical equivalence, for odds: a difference, or a fraction for ratios.
    pub equivalent: Option<f64>,
}

/// The compared values of an axis.
#[derive(Debug, Clone)]
pub enum ComparedValues {
    /// Pairs of a value and the value to compare it with.
    Pairs(Vec<(Template, Template)>),
    /// All other values, each with this one.
    Baseline(Template),
}

impl Compare {
    /// The axis that repeats the same job, if the comparison names it.
    pub(crate) fn repeats(&self) -> Option<&str> {
        self.noise.as_ref().map(|axis| axis.value.as_str())
    }

    /// The axes that it names.
    pub(super) fn named(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.axis).chain(&self.noise).map(|axis| axis.value.as_str())
    }

    /// The selection of all values that the recipe names.
    pub(super) fn selection(&self) -> Selection {
        let values = match &self.values {
            ComparedValues::Pairs(pairs) => pairs.iter().flat_map(|(of, to)| [of.clone(), to.clone()]).collect(),
            ComparedValues::Baseline(baseline) => vec![baseline.clone()],
        };
        Selection(vec![(self.axis.clone(), values)])
    }
}

mapping! {
    /// The keys of a table's `compare`.
    struct CompareKeys = "compare" {
        /// The axis whose values are compared.
        axis [required]: Text = Text::NAME,
        /// The pairs to compare: a value of the axis, and the value to compare it with.
        pairs: Custom = Custom { schema: pairs, accepts: "`[[value, other], …]`" },
        /// The value with which every other value is compared, instead of `pairs`.
        ///
        baseline: Custom = Custom { schema: baseline, accepts: "a value of the axis" },
        /// The spread of the differences: each comparison's `own`, or `pooled` over all comparisons with a `baseline`.
        /// Default: `own`.
        ///
        /// With `pooled`, intervals and p-values hold for all comparisons at once (Dunnett's test). This has more
        /// power with few seeds, but is valid only if the spread is similar for all values.
        error: Word<bool> = Word(&[("own", false), ("pooled", true)]),
        /// The form of a comparison: a difference, or a ratio of geometric means. Default: `difference`.
        show: Word<bool> = Word(&[("difference", false), ("ratio", true)]),
        /// The axis that repeats the same job. Differences below the noise of these repetitions are marked.
        noise: Text = Text::NAME,
        /// Adds seeds until the differences are statistically significant. Default: `false`.
        ///
        /// It has an effect only on a step with `seeds: { min, max, until: decided }`.
        decide: Flag,
        /// The largest difference in either direction that counts as equivalent. Adds the probabilities that the
        /// first value is less, equivalent, and more.
        ///
        /// For ratios it is a fraction: `0.02` means two percent.
        equivalent: Number,
    }
}

fn pairs() -> Json {
    let pair = json!({ "type": "array", "minItems": 2, "maxItems": 2, "items": reference("value") });
    json!({ "type": "array", "minItems": 1, "items": pair })
}

fn baseline() -> Json {
    reference("value")
}

impl Lower<'_> {
    /// Reads `{ axis: prune, baseline: none }` or `{ axis: prune, pairs: [[bitter7, none], …] }`.
    pub(super) fn compare(&mut self, node: &Node, step: &Step, of: &OfStep, params: &Names) -> Option<Compare> {
        let keys = CompareKeys::read(self, node, "`compare`")?;
        let values = self.compared(&keys, node, params);
        let axis = keys.axis.spanned()?;
        self.check_axis(&axis, step, &step.axes());
        let noise = keys.noise.spanned();
        if let Some(noise) = &noise {
            self.check_axis(noise, step, &step.axes());
            if noise.value == axis.value {
                let help = "name the axis along which the same job is repeated, for example `repeat`";
                self.problem(noise.span, "`noise` must differ from the compared axis", "also `axis`", help);
            }
        }
        let (ratio, decide) = (keys.show.value.unwrap_or(false), keys.decide.value.unwrap_or(false));
        let help = "write the largest difference that counts as equivalent, for example `0.01`";
        let equivalent = self.positive(&keys.equivalent, "equivalent", "no region", help);
        let values = values?;
        let pooled = keys.error.value.unwrap_or(false);
        if let (true, ComparedValues::Pairs(_), Some(span)) = (pooled, &values, keys.error.span()) {
            let help = "write `baseline: VALUE` instead of `pairs`, or remove `error`";
            self.problem(span, "a pooled error needs a `baseline`", "not with `pairs`", help);
        }
        Some(Compare { of: of.clone(), axis, values, pooled, ratio, noise, decide, equivalent })
    }

    /// Reads `pairs` or `baseline`, of which exactly one is needed.
    fn compared(&mut self, keys: &CompareKeys<'_>, node: &Node, params: &Names) -> Option<ComparedValues> {
        let usage = "write `baseline: VALUE` to compare every other value with it, or `pairs: [[value, other], …]`";
        let pairs = match (keys.pairs.node(), keys.baseline.node()) {
            (None, Some(baseline)) => return self.value(baseline, params).map(ComparedValues::Baseline),
            (Some(pairs), None) => pairs,
            (Some(_), Some(baseline)) => {
                self.problem(baseline.span, "`pairs` and `baseline` exclude each other", "also `pairs`", usage);
                return None;
            }
            (None, None) => {
                self.problem(node.span, "`compare` needs `pairs` or `baseline`", "nothing to compare", usage);
                return None;
            }
        };
        let items = if let NodeKind::List(items) = &pairs.kind { items.as_slice() } else { &[] };
        if items.is_empty() {
            self.problem(pairs.span, "`pairs` has no pair", "not a list of pairs", usage);
        }
        let mut pairs = Vec::new();
        for item in items {
            match &item.kind {
                NodeKind::List(two) if two.len() == 2 => {
                    pairs.extend(self.value(&two[0], params).zip(self.value(&two[1], params)));
                }
                _ => self.problem(item.span, "a pair is a list of two values", "not a pair", usage),
            }
        }
        (!pairs.is_empty()).then_some(ComparedValues::Pairs(pairs))
    }
}
