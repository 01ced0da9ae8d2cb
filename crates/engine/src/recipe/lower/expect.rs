//! `expect`: the range that a claim expects.

use serde_json::{Value as Json, json};

use super::Lower;
use crate::recipe::{
    keys::{Given, Mapping as _, Number, mapping},
    node::Node,
    node::NodeKind,
};

/// The range that a claim expects.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Expectation {
    /// The lower bound.
    pub low: Option<Bound>,
    /// The upper bound.
    pub high: Option<Bound>,
    /// The margin around no difference that the bounds stand for, if they were given so.
    pub within: Option<f64>,
}

impl Expectation {
    /// The bounds, each with true for the lower one.
    pub(crate) fn bounds(self) -> impl Iterator<Item = (Bound, bool)> {
        [(self.low, true), (self.high, false)].into_iter().filter_map(|(bound, low)| Some((bound?, low)))
    }

    /// The bounds around which a distance is negligible, each with the numbers from which to which it is.
    pub(crate) fn ties(self) -> impl Iterator<Item = (Bound, [f64; 2])> {
        self.bounds().filter_map(|(bound, _)| Some((bound, bound.tie?)))
    }
}

/// A bound of a range.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bound {
    /// Its value.
    pub value: f64,
    /// True if the bound itself is outside of the range.
    pub strict: bool,
    /// The numbers around it whose distance from it is negligible, from the first to the second.
    pub tie: Option<[f64; 2]>,
}

mapping! {
    /// The keys of a claim's `expect`.
    struct ExpectKeys = "expect" {
        /// The lower bound, inclusive.
        at_least: Number,
        /// The upper bound, inclusive.
        at_most: Number,
        /// The lower bound, exclusive: an exact tie refutes the claim.
        more_than: Number,
        /// The upper bound, exclusive: an exact tie refutes the claim.
        less_than: Number,
        /// The largest difference in either direction that counts as none, for a claim of equivalence. Only with
        /// `difference` and `ratio`.
        ///
        /// For a difference, the bounds are −`within` and `within`. For a ratio they are 1/(1 + `within`) and
        /// 1 + `within`, so `0.02` means two percent.
        within: Number,
        /// The largest distance from a bound that does not matter. If the interval contains the bound and lies within this
        /// distance of it, the claim is tied.
        ///
        /// For a ratio, `0.02` means two percent: from bound/(1 + `negligible`) to bound · (1 + `negligible`). Otherwise it is
        /// in the unit of the metric. Seeds with `until: decided` end with a tie, too.
        negligible: Number,
    }
}

/// The schema of `expect`.
pub(super) fn expect() -> Json {
    let mut schema = ExpectKeys::schema();
    let bounds = ["at_least", "at_most", "more_than", "less_than", "within"];
    schema["anyOf"] = json!(bounds.map(|bound| json!({ "required": [bound] })));
    let not_both = |a: &str, b: &str| json!({ "not": { "required": [a, b] } });
    let alone = ["at_least", "at_most", "more_than", "less_than"].map(|key| not_both("within", key));
    let pairs = [not_both("at_least", "more_than"), not_both("at_most", "less_than")];
    schema["allOf"] = json!(pairs.into_iter().chain(alone).collect::<Vec<_>>());
    schema
}

/// Description of the accepted values of `expect`, in Markdown.
pub(super) const EXPECTS: &str = "`{ at_least, at_most, more_than, less_than, within, negligible }`";

/// Advice on how to write `expect`.
pub(super) const USAGE: &str =
    "write `{ at_most: X }`, `{ at_least: X }` or both; `less_than` and `more_than` exclude the bound";

impl Lower<'_> {
    /// Reads `{ at_least: 0.9 }` for a claim of this kind.
    pub(super) fn expectation(&mut self, node: &Node, kind: &str) -> Option<Expectation> {
        let keys = ExpectKeys::read(self, node, "`expect`")?;
        let low = [(&keys.at_least, false), (&keys.more_than, true)];
        let high = [(&keys.at_most, false), (&keys.less_than, true)];
        let given = low.iter().chain(&high).any(|(key, _)| key.is_there());
        if let Some(entry) = keys.within.entry {
            if given {
                let help = "remove `within`, or the other bounds";
                self.problem(entry.key.span, "`within` gives both bounds", "one bound too many", help);
                return None;
            }
            if kind == "value" {
                let help = "write `{ at_least: X, at_most: Y }`";
                let message = "`within` is about a `difference` or a `ratio`, not about a `value`";
                self.problem(entry.key.span, message, "within what?", help);
                return None;
            }
            let expected = self.within(&keys.within, kind)?;
            return self.tied(expected, &keys.negligible, kind);
        }
        for side in [&low, &high] {
            if let [(first, _), (second, _)] = side
                && first.is_there()
                && let Some(second) = second.entry
            {
                let help = "keep one of the two";
                self.problem(second.key.span, "two bounds on the same side", "one bound too many", help);
                return None;
            }
        }
        if !given {
            if let Some(entry) = keys.negligible.entry {
                let message = "`negligible` is a distance from a bound, and there is no bound";
                self.problem(entry.key.span, message, "near what?", USAGE);
                return None;
            }
            // Unknown keys have been reported.
            if !matches!(&node.kind, NodeKind::Map(entries) if !entries.is_empty()) {
                self.problem(node.span, "`expect` expects nothing", "empty", USAGE);
            }
            return None;
        }
        let bound = |(value, strict): (f64, bool)| Bound { value, strict, tie: None };
        let find =
            |side: [(Option<f64>, bool); 2]| side.into_iter().find_map(|(value, strict)| Some(bound((value?, strict))));
        let (low, high) = (
            find([(keys.at_least.value, false), (keys.more_than.value, true)]),
            find([(keys.at_most.value, false), (keys.less_than.value, true)]),
        );
        if let (Some(low), Some(high)) = (low, high)
            && (low.value > high.value || (low.value == high.value && (low.strict || high.strict)))
        {
            let message =
                format!("nothing is {} and {}", low.text("at least", "more than"), high.text("at most", "less than"));
            let help = if low.value > high.value {
                "exchange the two"
            } else {
                "write `at_least` and `at_most` to expect exactly this number"
            };
            self.problem(node.span, message, "cannot hold", help);
            return None;
        }
        if low.is_none() && high.is_none() {
            return None;
        }
        self.tied(Expectation { low, high, ..Expectation::default() }, &keys.negligible, kind)
    }

    /// Adds the numbers around each bound whose distance from it is negligible.
    fn tied(&mut self, mut expected: Expectation, given: &Given<'_, f64>, kind: &str) -> Option<Expectation> {
        if !given.is_there() {
            return Some(expected);
        }
        let help = "write the largest distance from the bound that does not matter, for example `negligible: 0.02`";
        let distance = self.positive(given, "negligible", "no distance", help)?;
        for bound in [&mut expected.low, &mut expected.high].into_iter().flatten() {
            let value = bound.value;
            bound.tie = Some(match kind {
                "ratio" => [value / (1.0 + distance), value * (1.0 + distance)],
                _ => [value - distance, value + distance],
            });
        }
        Some(expected)
    }

    fn within(&mut self, given: &Given<'_, f64>, kind: &str) -> Option<Expectation> {
        let help = "write the largest difference that counts as none, for example `within: 0.02`";
        let margin = self.positive(given, "within", "no margin", help)?;
        let (low, high) = if kind == "ratio" { (1.0 / (1.0 + margin), 1.0 + margin) } else { (-margin, margin) };
        let bound = |value| Some(Bound { value, strict: false, tie: None });
        Some(Expectation { low: bound(low), high: bound(high), within: Some(margin) })
    }
}

impl Bound {
    /// The bound in words.
    pub(crate) fn text(self, inclusive: &str, strict: &str) -> String {
        format!("{} {}", if self.strict { strict } else { inclusive }, sweep_job::Value::Float(self.value))
    }
}
