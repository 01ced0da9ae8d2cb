//! `expect`: the range that a claim expects.

use serde_json::{Value as Json, json};

use sweep_job::Unit;

use super::{
    Lower,
    law::EXPONENT,
    metrics::{MetricTraits, UnitOf, words},
};
use crate::recipe::{
    keys::{Amount, Given, Mapping as _, Quantity, mapping},
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
    /// The unit of these numbers, if the metric's unit is known only from the jobs' reports; else the numbers are in
    /// the metric's unit.
    pub unit: Option<Unit>,
}

/// A number that was computed, with five significant digits.
pub fn brief(value: f64) -> String {
    sweep_job::Value::Float(format!("{value:.4e}").parse().unwrap_or(value)).to_string()
}

/// The metric and the kind of claim that numbers are about.
#[derive(Debug, Clone, Copy)]
pub(super) struct About<'a> {
    /// `value`, `ratio`, `difference` or [`EXPONENT`].
    pub(super) kind: &'a str,
    /// Its name and its properties, if they are known.
    pub(super) metric: Option<(&'a str, MetricTraits)>,
}

impl Expectation {
    /// The same range in the unit of its metric; `None` if the metric measures another quantity.
    pub fn in_unit(self, metric: Unit) -> Option<Self> {
        let Some(own_unit) = self.unit else { return Some(self) };
        let same = |value: f64| own_unit.convert(value, metric);
        let bound = |bound: Bound| Bound { value: same(bound.value), tie: bound.tie.map(|tie| tie.map(same)), ..bound };
        let (low, high) = (self.low.map(bound), self.high.map(bound));
        own_unit.is_like(metric).then(|| Self { low, high, within: self.within.map(same), unit: None })
    }

    /// The range in words: `at least 0.9`.
    pub fn words(self) -> String {
        let float = |value: f64| sweep_job::Value::Float(value).to_string();
        match (self.low, self.high, self.within) {
            (Some(low), Some(high), Some(within)) => {
                format!("within {} of none (from {} to {})", float(within), brief(low.value), brief(high.value))
            }
            (Some(low), Some(high), None) if low.value == high.value => format!("exactly {}", float(low.value)),
            (Some(low), Some(high), None) if !low.strict && !high.strict => {
                format!("from {} to {}", float(low.value), float(high.value))
            }
            (Some(low), Some(high), None) => {
                format!("{} and {}", low.text("at least", "more than"), high.text("at most", "less than"))
            }
            (Some(low), None, _) => low.text("at least", "more than"),
            (None, Some(high), _) => high.text("at most", "less than"),
            (None, None, _) => "anything".to_owned(),
        }
    }

    /// The bounds, each with true for the lower one.
    pub fn bounds(self) -> impl Iterator<Item = (Bound, bool)> {
        [(self.low, true), (self.high, false)].into_iter().filter_map(|(bound, low)| Some((bound?, low)))
    }

    /// The bounds with a negligible distance, each with the two numbers between which the distance is negligible.
    pub fn ties(self) -> impl Iterator<Item = (Bound, [f64; 2])> {
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
    /// The two numbers between which the distance from the bound is negligible.
    pub tie: Option<[f64; 2]>,
}

mapping! {
    /// The keys of a claim's `expect`.
    struct ExpectKeys = "expect" {
        /// The lower bound, inclusive.
        ///
        /// A bound without a unit is in the unit in which the metric is shown: the reported unit for a metric of
        /// `command`, and the base unit for metrics of other tasks.
        at_least: Quantity,
        /// The upper bound, inclusive.
        at_most: Quantity,
        /// The lower bound, exclusive: an exact tie refutes the claim.
        more_than: Quantity,
        /// The upper bound, exclusive: an exact tie refutes the claim.
        less_than: Quantity,
        /// The largest difference in either direction that counts as equivalent, for a claim of equivalence. Only
        /// with `difference` and `ratio`.
        ///
        /// For a difference, the bounds are −`within` and `within`. For a ratio they are 1/(1 + `within`) and
        /// 1 + `within`, so `0.02` means two percent.
        within: Quantity,
        /// The largest negligible distance from a bound. If the interval contains the bound and stays within this
        /// distance of the bound, the claim is tied.
        ///
        /// For a ratio, `0.02` means two percent: from bound/(1 + `negligible`) to bound · (1 + `negligible`).
        /// Otherwise, the distance is in the unit of the metric. Seeds with `until: decided` also stop at a tie.
        negligible: Quantity,
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

/// The values of the keys of `expect`, in one unit.
struct Numbers {
    at_least: Option<f64>,
    at_most: Option<f64>,
    more_than: Option<f64>,
    less_than: Option<f64>,
    within: Option<f64>,
    negligible: Option<f64>,
    unit: Option<Unit>,
}

impl Lower<'_> {
    /// Reads `{ at_least: 0.9 }` for a claim.
    pub(super) fn expectation(&mut self, node: &Node, about: About<'_>) -> Option<Expectation> {
        let kind = about.kind;
        let keys = ExpectKeys::read(self, node, "`expect`")?;
        let low = [(&keys.at_least, false), (&keys.more_than, true)];
        let high = [(&keys.at_most, false), (&keys.less_than, true)];
        let given = low.iter().chain(&high).any(|(key, _)| key.is_there());
        if let Some(entry) = keys.within.entry {
            if given {
                let help = "remove `within`, or the other bounds";
                self.problem(entry.key.span, "`within` sets both bounds", "one bound too many", help);
                return None;
            }
            if matches!(kind, "value" | EXPONENT) {
                let help = "write `{ at_least: X, at_most: Y }`";
                let message = match kind {
                    EXPONENT => "`within` applies to a `difference` or a `ratio`, not to an exponent",
                    _ => "`within` applies to a `difference` or a `ratio`, not to a `value`",
                };
                self.problem(entry.key.span, message, "within what?", help);
                return None;
            }
            let numbers = self.amounts(&keys, about)?;
            let expected = self.within(&keys.within, numbers.within?, kind)?;
            return self.tied(Expectation { unit: numbers.unit, ..expected }, &keys.negligible, &numbers, kind);
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
                let message = "`negligible` is a distance from a bound, but `expect` has no bound";
                self.problem(entry.key.span, message, "near what?", USAGE);
                return None;
            }
            // Unknown keys have been reported.
            if !matches!(&node.kind, NodeKind::Map(entries) if !entries.is_empty()) {
                self.problem(node.span, "`expect` has no bound", "empty", USAGE);
            }
            return None;
        }
        let numbers = self.amounts(&keys, about)?;
        let expected = self.range(node, &numbers)?;
        self.tied(expected, &keys.negligible, &numbers, kind)
    }

    /// The range between two bounds, of which one may be missing.
    fn range(&mut self, node: &Node, numbers: &Numbers) -> Option<Expectation> {
        let bound = |(value, strict): (f64, bool)| Bound { value, strict, tie: None };
        let find =
            |side: [(Option<f64>, bool); 2]| side.into_iter().find_map(|(value, strict)| Some(bound((value?, strict))));
        let (low, high) = (
            find([(numbers.at_least, false), (numbers.more_than, true)]),
            find([(numbers.at_most, false), (numbers.less_than, true)]),
        );
        if let (Some(low), Some(high)) = (low, high)
            && (low.value > high.value || (low.value == high.value && (low.strict || high.strict)))
        {
            let message =
                format!("no number is {} and {}", low.text("at least", "more than"), high.text("at most", "less than"));
            let help = if low.value > high.value {
                "swap the two values"
            } else {
                "write `at_least` and `at_most` to expect exactly this number"
            };
            self.problem(node.span, message, "cannot hold", help);
            return None;
        }
        (low.is_some() || high.is_some()).then_some(Expectation { low, high, within: None, unit: numbers.unit })
    }

    /// Returns the values of all keys in one unit: the metric's unit if it is known, else the first unit in the recipe.
    fn amounts(&mut self, keys: &ExpectKeys<'_>, about: About<'_>) -> Option<Numbers> {
        let all = [&keys.at_least, &keys.at_most, &keys.more_than, &keys.less_than, &keys.within, &keys.negligible];
        let known_unit =
            about.metric.filter(|(_, traits)| traits.unit_of != UnitOf::Reports).map(|(_, traits)| traits.unit);
        let units = || all.iter().filter_map(|given| given.value.as_ref()?.unit);
        let unit = known_unit.or_else(|| units().next());
        let mut values = [None; 6];
        for (given, place) in all.into_iter().zip(&mut values) {
            *place = self.in_unit(given, unit, known_unit.is_none() && units().next().is_some(), about);
        }
        // A mistake in a value has been reported.
        if all.iter().zip(&values).any(|(given, value)| given.value.is_some() && value.is_none()) {
            return None;
        }
        let [at_least, at_most, more_than, less_than, within, negligible] = values;
        let unit = unit.filter(|_| known_unit.is_none());
        Some(Numbers { at_least, at_most, more_than, less_than, within, negligible, unit })
    }

    /// A number in a unit. `explicit` is true if other numbers beside it have a unit that does not follow from the metric.
    fn in_unit(
        &mut self,
        given: &Given<'_, Amount>,
        unit: Option<Unit>,
        explicit: bool,
        about: About<'_>,
    ) -> Option<f64> {
        let (Amount { value, unit: own_unit }, span) = (given.value?, given.span()?);
        let (message, label, help) = match (own_unit, unit) {
            (None, _) if !explicit => return Some(value),
            (None, _) => (
                "one number has a unit, and this one has none".to_owned(),
                "the unit is missing",
                "write the unit of each number".to_owned(),
            ),
            (Some(own_unit), _) if matches!(about.kind, "ratio" | EXPONENT) => (
                format!(
                    "{} is a number without a unit, but `{}` is a unit",
                    if about.kind == EXPONENT { "an exponent" } else { "a ratio" },
                    own_unit.key()
                ),
                "unexpected unit",
                "remove the unit".to_owned(),
            ),
            (Some(own_unit), Some(unit)) if own_unit.is_like(unit) => return Some(own_unit.convert(value, unit)),
            (Some(own_unit), unit) => {
                let metric = about.metric.map_or("the metric", |(name, _)| name);
                let unit = unit.unwrap_or(Unit::One);
                let help = if unit == Unit::One { "remove the unit" } else { "write a unit of the same kind" };
                (
                    format!(
                        "`{metric}` is measured in {}, but `{}` is another kind of unit",
                        words(unit),
                        own_unit.key()
                    ),
                    "another kind of unit",
                    help.to_owned(),
                )
            }
        };
        self.problem(span, message, label, help);
        None
    }

    /// Adds the negligible distances around each bound.
    fn tied(
        &mut self,
        mut expected: Expectation,
        given: &Given<'_, Amount>,
        numbers: &Numbers,
        kind: &str,
    ) -> Option<Expectation> {
        if !given.is_there() {
            return Some(expected);
        }
        let help = "write the largest negligible distance from the bound, for example `negligible: 0.02`";
        let distance = Given { entry: given.entry, value: numbers.negligible };
        let distance = self.positive(&distance, "negligible", "no distance", help)?;
        for bound in [&mut expected.low, &mut expected.high].into_iter().flatten() {
            let value = bound.value;
            bound.tie = Some(match kind {
                "ratio" => [value / (1.0 + distance), value * (1.0 + distance)],
                _ => [value - distance, value + distance],
            });
        }
        Some(expected)
    }

    fn within(&mut self, given: &Given<'_, Amount>, margin: f64, kind: &str) -> Option<Expectation> {
        let help = "write the largest difference that counts as equivalent, for example `within: 0.02`";
        let given = Given { entry: given.entry, value: Some(margin) };
        let margin = self.positive(&given, "within", "no margin", help)?;
        let (low, high) = if kind == "ratio" { (1.0 / (1.0 + margin), 1.0 + margin) } else { (-margin, margin) };
        let bound = |value| Some(Bound { value, strict: false, tie: None });
        Some(Expectation { low: bound(low), high: bound(high), within: Some(margin), unit: None })
    }
}

impl Bound {
    /// The bound in words.
    pub fn text(self, inclusive: &str, strict: &str) -> String {
        format!("{} {}", if self.strict { strict } else { inclusive }, sweep_job::Value::Float(self.value))
    }
}
