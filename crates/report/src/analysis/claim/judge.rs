//! The statistics of verdicts: the comparison of an estimate with the expected range.

use std::fmt::Write as _;

use sweep_job::{Backend, Unit, Value};

use super::{
    Lack, State, Verdict,
    against::{Against, Place},
    silence::{lacking, spoken},
};
use crate::{
    analysis::{
        evidence::{Evidence, Needed, Question, Side, Source},
        no_interval::{NoInterval, VALUES},
        pairs::{apart, without_same},
    },
    format::clean,
    plan::resolved,
    recipe::{self, Bound, Comparison, Expectation, MetricTraits, Names, Order, Rules, Selection, Statistic, brief},
    stats::{Estimate, LEVEL, holm},
};

/// Data for the verdict on a claim.
pub(super) struct Judge<'a> {
    pub(super) source: Source<'a>,
    pub(super) hardware: &'a [Backend],
    pub(super) rules: Rules,
}

impl<'a> Judge<'a> {
    pub(super) fn value(
        &self,
        comparison: &Comparison,
        expect: Expectation,
        verdict: &mut Verdict,
    ) -> Result<(), String> {
        let metric = comparison.metric.value.as_str();
        let question = self.question(&[comparison.of.step], metric, Vec::new(), false);
        let expect = Self::in_its_unit(metric, question.traits.unit, expect)?;
        let mut of = self.side(&comparison.of, metric, question.traits, verdict)?;
        let evidence = match self.other_units(comparison, &[&of], &[], false) {
            Some(evidence) => evidence?,
            None => Evidence::of_mean(&mut of, &question).map_err(|silence| spoken(&silence, metric, &[&of]))?,
        };
        if self.rules.statistic == Statistic::FailureRate {
            return decide(&evidence, expect, "", verdict);
        }
        verdict.unit = said(metric, question.traits.unit);
        decide(&evidence, expect, &lacking(&evidence, &[&of]), verdict)
    }

    pub(super) fn compare(
        &self,
        comparison: &Comparison,
        expect: Expectation,
        ratio: bool,
        verdict: &mut Verdict,
    ) -> Result<(), String> {
        let Some(to) = &comparison.to else { return Err("it has nothing to compare with".to_owned()) };
        let metric = comparison.metric.value.as_str();
        let axes = [self.apart(comparison.of.step, &comparison.of.only), self.apart(to.step, &to.only)].concat();
        let sides = [&comparison.of.only, &to.only].map(|only| resolved(&self.source.study.recipe, only));
        let axes = without_same(axes, &sides);
        let question = self.question(&[comparison.of.step, to.step], metric, axes, ratio);
        let traits = question.traits;
        let expect = if ratio { expect } else { Self::in_its_unit(metric, traits.unit, expect)? };
        let mut of = self.side(&comparison.of, metric, traits, verdict)?;
        let mut to = self.side(to, metric, traits, verdict)?;
        let evidence = match self.other_units(comparison, &[&of, &to], &question.apart, ratio) {
            Some(evidence) => evidence?,
            None => Evidence::of_two(&mut of, &mut to, &question)
                .map_err(|silence| spoken(&silence, metric, &[&of, &to]))?,
        };
        if self.rules.statistic == Statistic::FailureRate {
            return decide(&evidence, expect, "", verdict);
        }
        verdict.unit = if ratio { Unit::One } else { said(metric, traits.unit) };
        decide(&evidence, expect, &lacking(&evidence, &[&of, &to]), verdict)
    }

    /// The evidence of a claim whose units are items, or jobs that fail; `None` for other claims.
    fn other_units(
        &self,
        comparison: &Comparison,
        sides: &[&Side<'_>],
        apart: &[String],
        ratio: bool,
    ) -> Option<Result<Evidence, String>> {
        if self.rules.statistic == Statistic::FailureRate {
            return Some(self.of_failures(sides, apart));
        }
        self.is_over_items(comparison).then(|| self.over_items(comparison, sides, apart, ratio))
    }

    pub(super) fn order(&self, order: &Order, verdict: &mut Verdict) -> Result<(), String> {
        let metric = order.metric.value.as_str();
        let values: Vec<Value> = order
            .ascending
            .iter()
            .filter_map(|template| template.resolve(&self.source.study.recipe.params, &Names::new()))
            .map(|value| value.value)
            .collect();
        let mut full_selection = order.only.clone();
        full_selection.0.push((order.axis.clone(), order.ascending.clone()));
        let question = self.question(&[order.step], metric, self.apart(order.step, &full_selection), false);
        let side = |value: &Value, verdict: &mut Verdict| {
            let mut selection = resolved(&self.source.study.recipe, &order.only);
            selection.push((&order.axis.value, vec![value.clone()]));
            self.measured(order.step, &selection, metric, question.traits, verdict)
        };
        let (mut steps, mut lacks, mut mean, mut over_seeds) = (Vec::new(), String::new(), 0.0, true);
        let mut remarks: Vec<String> = Vec::new();
        // Means relative to the mean of the first value.
        let mut means: Vec<(f64, &Value)> = values.first().map(|first| (mean, first)).into_iter().collect();
        for two in values.windows(2) {
            let (mut earlier, mut later) = (side(&two[0], verdict)?, side(&two[1], verdict)?);
            let evidence = Evidence::of_two(&mut later, &mut earlier, &question)
                .map_err(|silence| spoken(&silence, metric, &[&earlier, &later]))?;
            if let Some(doubt) = evidence.doubt() {
                verdict.open = !matches!(doubt, NoInterval::NoEffect(_));
                return Err(doubt.in_verdict());
            }
            // Uses the means over the units of the decision, because the means over jobs may have another order.
            let difference = evidence.estimate();
            mean += difference.value;
            means.push((mean, &two[1]));
            if lacks.is_empty() {
                lacks = lacking(&evidence, &[&earlier, &later]);
            }
            let needed = evidence.seeds_needed([0.0], [], verdict.compared.max(verdict.family * (values.len() - 1)));
            steps.push((format!("{} < {}", two[0], two[1]), difference, needed));
            let units = evidence.other_units().map(|units| (units.to_owned(), evidence.notes.clone()));
            let of_pair = units.into_iter().flat_map(|(units, notes)| std::iter::once(units).chain(notes));
            let of_pair = of_pair.chain(evidence.left_out.clone());
            over_seeds &= evidence.is_over_seeds();
            remarks.extend(of_pair.filter(|remark| !remarks.contains(remark)).collect::<Vec<String>>());
        }
        means.sort_by(|a, b| a.0.total_cmp(&b.0));
        let values: Vec<String> = means.iter().map(|(_, value)| value.to_string()).collect();
        rank(&steps, &format!("by their means: {}{lacks}", values.join(" < ")), over_seeds, verdict);
        for remark in remarks {
            let _ = write!(verdict.because, "; {remark}");
        }
        Ok(())
    }

    /// The question about points of these steps; the first has the metric's properties.
    pub(super) fn question(&self, steps: &[usize], metric: &str, apart: Vec<String>, ratio: bool) -> Question<'static> {
        let traits = self.source.traits(steps[0], metric);
        let kinds = self.source.kinds(steps);
        Question { traits, apart, kinds, repeats: None, ratio, unpaired: true, rules: self.rules }
    }

    /// The expected range in the unit of the metric.
    fn in_its_unit(metric: &str, unit: Unit, expect: Expectation) -> Result<Expectation, String> {
        expect.in_unit(unit).ok_or_else(|| {
            let key = expect.unit.unwrap_or(Unit::One).key();
            let metric = clean(metric);
            match unit {
                Unit::One => format!(
                    "it expects a number of `{key}`, but `{metric}` is reported without a unit; declare it: `metrics: {{ {metric}: {{ unit: {key} }} }}`"
                ),
                unit => format!("it expects a number of `{key}`, but `{metric}` is reported in `{}`", unit.key()),
            }
        })
    }

    fn apart(&self, step: usize, selection: &Selection) -> Vec<String> {
        let names: Vec<&str> = selection.0.iter().map(|(name, _)| name.value.as_str()).collect();
        apart(&self.source.study.recipe.steps[step], &names)
    }

    pub(super) fn side(
        &self,
        side: &recipe::Side,
        metric: &str,
        traits: MetricTraits,
        verdict: &mut Verdict,
    ) -> Result<Side<'a>, String> {
        self.measured(side.step, &resolved(&self.source.study.recipe, &side.only), metric, traits, verdict)
    }

    /// The measurements at the points that have these values. Records their devices, which must be the devices of the
    /// claim.
    fn measured(
        &self,
        step: usize,
        selection: &[(&str, Vec<Value>)],
        metric: &str,
        traits: MetricTraits,
        verdict: &mut Verdict,
    ) -> Result<Side<'a>, String> {
        let side = self.source.side(step, selection, metric, traits);
        // Includes jobs without the metric: a metric that a device cannot measure indicates the wrong device.
        for by in &side.ran {
            let (Some(backend), Some(device)) = (by.backend, &by.device) else { continue };
            let name = format!("{} ({device})", backend.name());
            if !verdict.devices.contains(&name) {
                verdict.devices.push(name);
            }
            if !self.hardware.is_empty() && !self.hardware.contains(&backend) {
                let about: Vec<&str> = self.hardware.iter().map(|backend| backend.name()).collect();
                let (about, device) = (about.join(" or "), backend.name());
                verdict.lacks = Some(Lack::Hardware);
                return Err(format!("it is about {about}; this was measured on {device}"));
            }
        }
        Ok(side)
    }
}

impl NoInterval {
    /// The reason in the words of a verdict, with a remedy.
    fn in_verdict(&self) -> String {
        match self {
            Self::One(_) => "a variance cannot be estimated from one measurement; give the step more seeds".to_owned(),
            Self::Equal(values) => {
                let values = if values == VALUES { "all measurements" } else { values };
                format!(
                    "{} are equal, so their spread is unknown; give the step more seeds, or declare the metric's `resolution`, or \
                     `deterministic: true`, under `metrics`",
                    clean(values)
                )
            }
            Self::Few(needs) => {
                format!("too few units for an exact interval: at 95 %, {needs}, and several looks need more")
            }
            Self::Unbounded => {
                "the sizes do not bound the result: several constants fit them; more sizes, further apart, would"
                    .to_owned()
            }
            Self::NoEffect(remark) => remark.clone(),
            other => other.words(),
        }
    }
}

/// The unit that a verdict names: only units of metrics without a fixed base unit are named.
fn said(metric: &str, unit: Unit) -> Unit {
    if unit.is_fitted(metric) { Unit::One } else { unit }
}

/// Decides an order by its steps, each with the difference between a value and the one before it.
fn rank(steps: &[(String, Estimate, Option<Needed>)], ranking: &str, over_seeds: bool, verdict: &mut Verdict) {
    let chance: Vec<f64> = steps.iter().map(|(_, step, _)| step.p.unwrap_or(1.0)).collect();
    let chance = holm(&chance);
    let (mut contradictions, mut equal, mut undecided, mut needs) = (Vec::new(), Vec::new(), Vec::new(), None);
    let (mut against, mut most): (f64, f64) = (1.0, 0.0);
    for ((text, step, needed), p) in steps.iter().zip(&chance) {
        if (step.low, step.high) == (Some(0.0), Some(0.0)) {
            equal.push(text.as_str());
            against = 0.0;
            continue;
        }
        most = most.max(*p);
        match (*p < 1.0 - LEVEL, step.value > 0.0) {
            (true, true) => {}
            (true, false) => {
                contradictions.push(text.as_str());
                against = against.min(*p);
            }
            (false, _) => {
                undecided.push(text.as_str());
                needs = needs.max(*needed);
            }
        }
    }
    let list = |words: &str, steps: &[&str]| (!steps.is_empty()).then(|| format!("{words} {}", steps.join(", ")));
    let against_order: Vec<String> =
        list("the order is reversed for", &contradictions).into_iter().chain(list("equal, against", &equal)).collect();
    (verdict.state, verdict.because, verdict.p) = if !against_order.is_empty() {
        (State::Refuted, format!("{}; {ranking}", against_order.join("; ")), Some(against))
    } else if undecided.is_empty() {
        (State::Supported, ranking.to_owned(), Some(most))
    } else {
        verdict.open = true;
        let outlook = outlook(needs, over_seeds);
        (State::Undecided, format!("not told apart: {}; {ranking}{outlook}", undecided.join(", ")), Some(1.0))
    };
}

/// Compares an estimate with the expected range.
pub(super) fn decide(
    evidence: &Evidence,
    expect: Expectation,
    lacking: &str,
    verdict: &mut Verdict,
) -> Result<(), String> {
    let rounding = evidence.rounding();
    let estimate = without_rounding(evidence.estimate(), expect, rounding);
    if !estimate.value.is_finite() {
        return Err(NoInterval::NotFinite.words());
    }
    verdict.value = Some(estimate.value);
    let unit = if verdict.unit.symbol().is_empty() { String::new() } else { format!(" {}", verdict.unit) };
    let number = |value: f64| Value::Float(rounded(value, estimate, rounding)).to_string();
    let expected = expect.words() + &unit;
    verdict.expected = Some(expected.clone());
    let (Some(low), Some(high)) = (estimate.low, estimate.high) else {
        let doubt = evidence.doubt();
        // Further seeds would give equal results, too.
        verdict.open = !matches!(doubt, Some(NoInterval::NoEffect(_))) && !evidence.is_over_items();
        let explanation = doubt.as_ref().map(NoInterval::in_verdict).unwrap_or_default();
        verdict.no_interval = doubt;
        return Err(format!("{}{unit}, expected {expected}; {explanation}{lacking}", number(estimate.value)));
    };
    verdict.interval = Some([low, high]);
    let paper = verdict.paper.map(|paper| Against::new(paper, low, high));
    verdict.paper_within = paper.as_ref().map(|paper| paper.place == Place::Within);
    verdict.state = match state(low, high, expect) {
        // A tie would look like agreement with the paper.
        State::Tied if verdict.paper_within == Some(false) => State::Undecided,
        state => state,
    };
    // More seeds do not decide a claim over items.
    verdict.open = verdict.state == State::Undecided && !evidence.is_over_items();
    if verdict.state == State::Undecided {
        verdict.lacks = Some(Lack::Samples);
    }
    verdict.p = match verdict.state {
        State::Tied => chance_of_tie(evidence, low, high, expect),
        _ => chance(evidence, estimate.value, expect),
    };
    verdict.certain = evidence.is_certain();
    let interval = if low == high {
        number(estimate.value) + &unit
    } else {
        let looks = evidence.level.words().map(|looks| format!(", {looks},")).unwrap_or_default();
        format!("{}{unit} (95 % CI{looks} {} to {})", number(estimate.value), number(low), number(high))
    };
    let doubt = if verdict.state == State::Undecided && evidence.is_over_items() {
        "; more items, and more clusters of them, would make it more precise".to_owned()
    } else if verdict.open {
        let bounds = expect.bounds().map(|(bound, _)| bound.value);
        // No tie follows while the interval excludes the paper's number.
        let ties = expect.ties().filter(|_| verdict.paper_within != Some(false));
        let needed = evidence.seeds_needed(bounds, ties.map(|(_, tie)| tie), verdict.family);
        // A table with the same pair has to distinguish the sides, too, after its own correction.
        let of_table =
            (verdict.compared > 1).then(|| evidence.seeds_needed([evidence.none()], [], verdict.compared)).flatten();
        let needed = needed.map(|needed| of_table.map_or(needed, |of_table| needed.max(of_table)));
        outlook(needed, evidence.is_over_seeds())
    } else {
        String::new()
    };
    let tie_text = match tie(low, high, expect).filter(|_| verdict.state == State::Tied) {
        Some([from, to]) => {
            format!(
                "; the bound is in the interval, which is within a negligible distance of it (from {} to {})",
                brief(from),
                brief(to)
            )
        }
        None => String::new(),
    };
    verdict.because = format!("{interval}, expected {expected}{tie_text}; {}{lacking}{doubt}", evidence.basis);
    if let Some(paper) = paper {
        let _ = write!(verdict.because, "; {}", paper.words(tie(low, high, expect).is_some()));
    }
    for note in evidence.left_out.iter().chain(&evidence.notes).chain(&evidence.hints) {
        let _ = write!(verdict.because, "; {note}");
    }
    Ok(())
}

/// Replaces numbers of an estimate by a bound if they differ from it only by floating-point rounding.
fn without_rounding(estimate: Estimate, expect: Expectation, rounding: f64) -> Estimate {
    let clear = |value: f64| {
        let mut bounds = expect.bounds().map(|(bound, _)| bound.value);
        bounds.find(|bound| (bound - value).abs() <= rounding).unwrap_or(value)
    };
    Estimate { value: clear(estimate.value), low: estimate.low.map(clear), high: estimate.high.map(clear), ..estimate }
}

/// The number of seeds that would decide a claim, in words.
fn outlook(needed: Option<Needed>, over_seeds: bool) -> String {
    match needed {
        Some(Needed::About(seeds)) => {
            format!("; about {seeds} seeds would decide it with a power of 80 %, if the estimate stays the same")
        }
        Some(Needed::MoreThan(seeds)) => {
            format!("; it is so near the bound that more than {seeds} seeds would be needed to decide it")
        }
        None if over_seeds => "; more seeds would make the interval shorter".to_owned(),
        None => "; more seeds would make each of them more precise".to_owned(),
    }
}

/// The probability that chance alone gives this decision or a clearer one; 1 for an undecided claim.
fn chance(evidence: &Evidence, value: f64, expect: Expectation) -> Option<f64> {
    let inside = |bound: Bound, low: bool| match (low, bound.strict) {
        (true, false) => value >= bound.value,
        (true, true) => value > bound.value,
        (false, false) => value <= bound.value,
        (false, true) => value < bound.value,
    };
    let p = |bound: Bound| if evidence.is_certain() { Some(0.0) } else { evidence.p_at(bound.value) };
    if expect.bounds().all(|(bound, low)| inside(bound, low)) {
        // The estimate has to be on the right side of all bounds.
        return expect
            .bounds()
            .map(|(bound, _)| p(bound))
            .collect::<Option<Vec<f64>>>()
            .map(|all| all.into_iter().fold(0.0, f64::max));
    }
    let missed = expect.bounds().filter(|(bound, low)| !inside(*bound, *low));
    missed.map(|(bound, _)| p(bound)).collect::<Option<Vec<f64>>>().map(|all| all.into_iter().fold(1.0, f64::min))
}

/// The probability that chance alone gives an interval this close to a bound although the true value is not close to
/// it.
fn chance_of_tie(evidence: &Evidence, low: f64, high: f64, expect: Expectation) -> Option<f64> {
    let [from, to] = tie(low, high, expect)?;
    if evidence.is_certain() {
        return Some(0.0);
    }
    Some(evidence.p_at(from)?.max(evidence.p_at(to)?))
}

/// The numbers at a negligible distance from a bound, if the interval contains the bound and is within them.
fn tie(low: f64, high: f64, expect: Expectation) -> Option<[f64; 2]> {
    let near = |bound: f64, [from, to]: [f64; 2]| from <= low && low <= bound && bound <= high && high <= to;
    expect.ties().find(|(bound, tie)| near(bound.value, *tie)).map(|(_, tie)| tie)
}

/// The state of a claim with this interval.
pub(super) fn state(low: f64, high: f64, expect: Expectation) -> State {
    let above = |value: f64, bound: Option<Bound>, whole: bool| {
        bound.is_none_or(|bound| value > bound.value || (value == bound.value && bound.strict != whole))
    };
    let below = |value: f64, bound: Option<Bound>, whole: bool| {
        bound.is_none_or(|bound| value < bound.value || (value == bound.value && bound.strict != whole))
    };
    let cleared = above(low, expect.low, true) && below(high, expect.high, true);
    let missed = expect.low.is_some_and(|bound| below(high, Some(bound), false))
        || expect.high.is_some_and(|bound| above(low, Some(bound), false));
    if cleared {
        State::Supported
    } else if missed {
        State::Refuted
    } else if tie(low, high, expect).is_some() {
        State::Tied
    } else {
        State::Undecided
    }
}

/// A number, rounded to the significant digits according to its interval; a number that would become zero, to two of
/// its own digits.
fn rounded(value: f64, estimate: Estimate, rounding: f64) -> f64 {
    let width = match (estimate.low, estimate.high) {
        (Some(low), Some(high)) if high > low => high - low,
        // Without an interval.
        _ if estimate.value != 0.0 => estimate.value.abs() * 1e-4,
        _ => return value,
    };
    let own_width = 10.0 * value.abs();
    match to_width(value, width) {
        0.0 if value.abs() > rounding => to_width(value, own_width),
        rounded => rounded,
    }
}

/// A number with the digits that matter in an interval of this width.
fn to_width(value: f64, width: f64) -> f64 {
    #[expect(clippy::cast_possible_truncation, reason = "the exponent of a finite number")]
    let digits = (2.0 - width.log10().floor()) as i32;
    if !(-300..=300).contains(&digits) {
        return value;
    }
    let factor = 10.0_f64.powi(digits);
    let text = format!("{:.*}", usize::try_from(digits.max(0)).unwrap_or(0), (value * factor).round() / factor);
    text.parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expect(low: Option<(f64, bool)>, high: Option<(f64, bool)>) -> Expectation {
        let bound = |given: Option<(f64, bool)>| given.map(|(value, strict)| Bound { value, strict, tie: None });
        Expectation { low: bound(low), high: bound(high), ..Expectation::default() }
    }

    #[test]
    fn a_tie_supports_what_includes_the_bound_and_refutes_what_excludes_it() {
        for (expect, expected) in [
            (expect(Some((1.0, false)), None), State::Supported),
            (expect(None, Some((1.0, false))), State::Supported),
            (expect(Some((1.0, true)), None), State::Refuted),
            (expect(None, Some((1.0, true))), State::Refuted),
            (expect(Some((1.0, false)), Some((1.0, false))), State::Supported),
            (expect(Some((0.0, true)), Some((1.0, true))), State::Refuted),
        ] {
            assert_eq!(state(1.0, 1.0, expect), expected, "{expect:?}");
        }
    }

    #[test]
    fn an_interval_is_inside_outside_or_across() {
        let from = |low, high| state(low, high, expect(Some((1.0, false)), Some((2.0, true))));
        assert_eq!(from(1.0, 1.9), State::Supported);
        assert_eq!(from(1.0, 2.0), State::Undecided);
        assert_eq!(from(2.0, 2.1), State::Refuted);
        assert_eq!(from(0.5, 1.0), State::Undecided);
        assert_eq!(from(0.5, 0.9), State::Refuted);
    }

    #[test]
    fn an_interval_near_a_bound_is_a_tie_unless_it_is_on_one_side() {
        let bound = |value: f64| Some(Bound { value, strict: false, tie: Some([value - 0.2, value + 0.2]) });
        let expect = Expectation { low: bound(1.0), high: bound(2.0), ..Expectation::default() };
        assert_eq!(state(0.9, 1.1, expect), State::Tied);
        assert_eq!(state(0.8, 1.2, expect), State::Tied);
        assert_eq!(state(1.9, 2.2, expect), State::Tied);
        assert_eq!(state(0.79, 1.1, expect), State::Undecided);
        assert_eq!(state(0.9, 1.21, expect), State::Undecided);
        assert_eq!(state(0.85, 0.95, expect), State::Refuted, "near, and on the wrong side");
        assert_eq!(state(1.0, 1.1, expect), State::Supported, "near, and on the right side");
    }
}
