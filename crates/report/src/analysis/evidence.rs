//! Evidence: the measurements behind a verdict or a comparison, and the estimate that follows from them.
//!
//! Jobs without a result block a decision unless the recipe allows them to be missing. Seeds are repetitions: if other axes vary, seeds are
//! averaged first, and the values of the other axes are the independent units. The spread of a metric is never less than its resolution.

use sweep_job::Precision;

use super::{
    alike::{leave_out_equal, values_without_effect},
    exact::Exact,
    looks::{Level, Looks},
    no_interval::NoInterval,
    partners::{name_of, with_partners, without_partners},
    units::{Partners, Units, of_settings, pairs, reduce, unit_pairs},
};
pub(super) use super::{
    question::{Question, Silence, complete, like},
    source::{Found, Side, Source, traits},
};
use crate::{
    format::count,
    plan::Point,
    recipe::{Missing, Statistic},
    stats::{
        ErrorOfMean, Estimate, LEVEL, LawNumber, Odds, PowerLaw, Rates, Sample, WANTED, correlation, estimate,
        is_carried_by_one, odds, seeds_needed, welch,
    },
};

/// End of the basis of samples that are not paired.
const UNPAIRED: &str = "not paired";
/// Relative rounding errors of sums of a few hundred floating-point numbers.
const ROUNDING: f64 = 1e-13;

/// An estimate with its uncertainty, on the scale on which it was computed: logarithms for ratios.
#[derive(Debug, Clone)]
pub(super) struct Evidence {
    /// The independent units; of the first side if the sides are not paired.
    pub(super) sample: Sample,
    pub(super) level: Level,
    looks: Looks,
    /// Number and kind of the units.
    pub(super) basis: String,
    pub(super) notes: Vec<String>,
    /// Remarks on other statistics that a claim may be about.
    pub(super) hints: Vec<String>,
    value: f64,
    /// The largest of the numbers that the value was computed from, without its sign.
    size: f64,
    /// Standard error, or the reason why it is unknown.
    error: Result<ErrorOfMean, NoInterval>,
    /// The basis of the interval in place of the standard error, or in addition to it.
    exact: Option<Exact>,
    ratio: bool,
    units: Counted,
    /// The jobs that pairs leave out because the other side lacks their seeds, in words.
    pub(super) left_out: Option<String>,
    /// A remark on jobs that are not samples because their results are equal to others.
    equal: Option<String>,
    /// Correlation of the values of pairs of seeds.
    pub(super) correlation: Option<f64>,
}

/// The units of a statistic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Counted {
    /// Every seed is a unit of a mean.
    SeedsOfMean,
    /// Every seed is a unit of another statistic.
    Seeds,
    Items,
    Others,
}

impl Counted {
    /// The units of a statistic over seeds alone, or over others.
    fn of(are_seeds: bool, statistic: Statistic) -> Self {
        match (are_seeds, statistic) {
            (true, Statistic::Mean) => Self::SeedsOfMean,
            (true, _) => Self::Seeds,
            (false, _) => Self::Others,
        }
    }
}

/// The number of seeds that a decision needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Needed {
    /// An estimate.
    About(usize),
    /// A lower bound: the measured value is too near the claim's bound for an estimate.
    MoreThan(usize),
}

/// The mean of the existing results.
pub(super) struct Summary {
    /// The independent units.
    pub(super) sample: Sample,
    /// The mean, or the geometric mean, with its interval.
    pub(super) estimate: Estimate,
    /// The level of the interval, which allows for all looks at the results.
    pub(super) level: Level,
    /// The reason why there is no interval.
    pub(super) no_interval: Option<NoInterval>,
}

/// Summarizes the results of a side, on logarithms for a geometric mean.
pub(super) fn summarize(side: &Side<'_>, question: &Question<'_>, geometric: bool) -> Option<Summary> {
    let scaled = |value: f64| if geometric { value.ln() } else { value };
    let units = |scaled: &dyn Fn(f64) -> f64| {
        let values: Vec<(&Point, f64)> =
            side.values().into_iter().map(|(point, value)| (point, scaled(value))).collect();
        reduce(&values, &question.apart, &question.kinds, None)
    };
    let shown = Sample::new(&units(&|value| value).values)?;
    let units = units(&scaled);
    let sample = Sample::new(&units.values)?;
    let precision = relative(question.traits.precision, geometric.then(|| side.mean()));
    let level = side.looks.level(sample.n, units.axes.is_empty());
    let error = units.error(units.precision(precision));
    let estimate = from_error(sample.mean, error.as_ref().ok().copied(), level.confidence);
    let no_interval = estimate.low.is_none().then(|| error.err().unwrap_or(NoInterval::NotFinite));
    let estimate = match geometric {
        // Avoids the rounding of logarithm and exponential, which would show 7.499999999999999.
        true if shown.n == 1 || shown.sd == Some(0.0) => Estimate { value: shown.mean, ..estimate.exp() },
        true => estimate.exp(),
        false => Estimate { p: None, ..estimate },
    };
    Some(Summary { sample: shown, estimate, level, no_interval })
}

/// The precision of values, or of their logarithms if their size is given.
pub(super) fn relative(precision: Precision, size: Option<f64>) -> Precision {
    precision.scaled(size.filter(|size| *size > 0.0).map_or(1.0, f64::recip))
}

impl Evidence {
    /// Evidence about the mean of one side.
    pub(super) fn of_mean(side: &mut Side<'_>, question: &Question<'_>) -> Result<Self, Silence> {
        complete(&mut [&mut *side], question)?;
        let notes = like(&[side], question.traits, question.rules)?;
        let equal = leave_out_equal(&mut [&mut *side], &question.apart, (question.traits, &question.kinds));
        let equal = equal.words();
        let units = reduce(&side.values(), &question.apart, &question.kinds, question.repeats);
        let notes = notes.into_iter().chain(equal.clone()).collect();
        let precision = question.traits.precision;
        let evidence = Self::of_units(&units, question, (precision, false), side.looks.clone(), notes)?;
        let growing = units.axes.is_empty();
        let basis = if growing { count(side.found.len(), "job") } else { units.basis("mean") };
        Ok(Self { basis: question.rules.statistic.of(&basis), equal, ..evidence })
    }

    /// Evidence from independent units, given the precision of a measurement and whether they are logarithms of ratios.
    fn of_units(
        units: &Units,
        question: &Question<'_>,
        (precision, ratio): (Precision, bool),
        looks: Looks,
        notes: Vec<String>,
    ) -> Result<Self, Silence> {
        let statistic = question.rules.statistic;
        let sample = Sample::new(&units.values).ok_or(Silence::NoPoint)?;
        let (value, error) = units.center(statistic, units.precision(precision)).ok_or(Silence::NoStatistic)?;
        let counted = Counted::of(units.axes.is_empty(), statistic);
        let level = looks.level(sample.n, counted == Counted::SeedsOfMean);
        let carried = carried_by_one(statistic, &units.values);
        let notes = notes.into_iter().chain(units.notes()).chain(looks.chosen()).collect();
        let hints = carried.into_iter().collect();
        let basis = statistic.of(&units.basis(if units.axes.is_empty() { "pair" } else { "mean difference" }));
        let size = largest(&units.values);
        let exact = statistic.quantile().map(|q| Exact::Ranks { values: units.values.clone(), q });
        Ok(Self {
            sample,
            level,
            looks,
            basis,
            notes,
            value,
            size,
            error,
            exact,
            ratio,
            units: counted,
            left_out: None,
            equal: None,
            hints,
            correlation: None,
        })
    }

    /// Evidence about the difference or the ratio of two sides.
    pub(super) fn of_two<'a>(of: &mut Side<'a>, to: &mut Side<'a>, question: &Question<'_>) -> Result<Self, Silence> {
        let shared = to.keys().intersection(&of.keys()).count();
        if shared > 0 {
            return Err(Silence::Shared(shared));
        }
        complete(&mut [&mut *of, &mut *to], question)?;
        let equal = equal_sides(of, to, question);
        let mut evidence = Self::between(of, to, question)?;
        evidence.notes.extend(equal.clone());
        Ok(Self { equal, ..evidence })
    }

    /// Evidence like [`of_two`](Self::of_two), for sides without missing results, whose measurements are all samples.
    fn between<'a>(of: &Side<'a>, to: &Side<'a>, question: &Question<'_>) -> Result<Self, Silence> {
        let ratio = question.ratio;
        if ratio && of.found.iter().chain(&to.found).any(|found| found.value <= 0.0) {
            return Err(Silence::NoRatio);
        }
        let scaled = |value: f64| if ratio { value.ln() } else { value };
        // The precision of a difference of two values, and of one value.
        let size = if ratio { of.mean().powi(-2) + to.mean().powi(-2) } else { 2.0 };
        let two = question.traits.precision.scaled(size.sqrt());
        let one = two.scaled(0.5_f64.sqrt());
        let looks = of.looks.joined(&to.looks);
        let partial = question.rules.missing == Missing::Ignore || looks.is_adaptive();
        let independent_values = |side: &Side<'a>| {
            let values: Vec<_> = side.values().into_iter().map(|(point, value)| (point, scaled(value))).collect();
            of_settings(&values, &question.apart, &question.kinds)
        };
        let ((of_values, of_dropped), (to_values, to_dropped)) = (independent_values(of), independent_values(to));
        let size = largest(of_values.iter().chain(&to_values).map(|(_, value)| value));
        let (apart, kinds, independent) = (&question.apart, &question.kinds, question.rules.independent);
        let paired =
            |partners: Partners| pairs(&of_values, &to_values, apart, kinds, partners).filter(|_| !independent);
        let whole = paired(if partial { Partners::Some } else { Partners::All });
        let by_units = unit_pairs([&of_values, &to_values], apart, kinds).filter(|_| !independent && whole.is_none());
        let paired = whole.or_else(|| paired(Partners::OfSeeds).filter(|_| by_units.is_none()));
        let (mut notes, left_out) = if paired.is_some() {
            let partners = with_partners(of, to, question);
            let left_out = if partial { None } else { without_partners([of, to], &partners, apart) };
            (like(&partners.each_ref(), question.traits, question.rules)?, left_out)
        } else {
            (like(&[of, to], question.traits, question.rules)?, None)
        };
        if of_dropped + to_dropped > 0 {
            let values = count(of_dropped + to_dropped, "value");
            notes.push(format!("{values} left out, whose seed lacks another value of the axis that its side selects"));
        }
        let correlation = paired.as_ref().and_then(|pairs| correlation_of(pairs, question));
        let units = match paired {
            Some(pairs) => {
                let differences: Vec<(&Point, f64)> =
                    pairs.into_iter().map(|(point, of, to)| (point, of - to)).collect();
                Some(reduce(&differences, apart, kinds, question.repeats))
            }
            None => by_units,
        };
        if let Some(units) = units {
            let correlation = correlation.filter(|_| units.axes.is_empty());
            let mut evidence = Self::of_units(&units, question, (two, ratio), looks, notes)?;
            evidence.error = evidence.error.map_err(NoInterval::of_pairs);
            evidence.size = size;
            evidence.hints.extend(correlation.and_then(|correlation| uncorrelated(correlation, evidence.sample.n)));
            evidence.correlation = correlation;
            evidence.left_out = left_out;
            return Ok(evidence);
        }
        if !question.unpaired && !independent {
            return Err(Silence::Unpaired);
        }
        let mut evidence =
            Self::of_independent([(of, &of_values), (to, &to_values)], question, (one, ratio), looks, notes)?;
        evidence.size = size;
        Ok(evidence)
    }

    /// Evidence about the difference of two sides that are independent samples, given the precision of a value and whether values are
    /// logarithms of ratios.
    fn of_independent(
        [(of, of_values), (to, to_values)]: [(&Side<'_>, &[(&Point, f64)]); 2],
        question: &Question<'_>,
        (precision, ratio): (Precision, bool),
        looks: Looks,
        notes: Vec<String>,
    ) -> Result<Self, Silence> {
        let (statistic, apart) = (question.rules.statistic, &question.apart);
        if statistic.quantile().is_some() {
            return Err(Silence::NoStatistic);
        }
        let units = |values: &[(&Point, f64)]| reduce(values, apart, &question.kinds, question.repeats);
        let (first, second) = (units(of_values), units(to_values));
        let sample = |units: &Units| Sample::new(&units.values).ok_or(Silence::NoPoint);
        let center = |units: &Units| units.center(statistic, units.precision(precision)).ok_or(Silence::NoStatistic);
        let (a, b) = (sample(&first)?, sample(&second)?);
        let ((of_value, of_error), (to_value, to_error)) = (center(&first)?, center(&second)?);
        let about = |reason: NoInterval, side: &Side<'_>, word: &str| {
            reason.about(&format!("all values of {}", name_of(side, apart).unwrap_or_else(|| word.to_owned())))
        };
        let of_error = of_error.map_err(|reason| about(reason, of, "the first side"));
        let to_error = to_error.map_err(|reason| about(reason, to, "the second side"));
        let counted = Counted::of(first.axes.is_empty() && second.axes.is_empty(), statistic);
        let hints = [&first, &second].into_iter().filter_map(|side| carried_by_one(statistic, &side.values)).collect();
        Ok(Self {
            sample: a,
            level: looks.level(a.n.min(b.n), counted == Counted::SeedsOfMean),
            basis: statistic.of(&format!("{} against {}, {UNPAIRED}", a.n, b.n)),
            notes: notes.into_iter().chain(first.notes()).chain(looks.chosen()).collect(),
            looks,
            value: of_value - to_value,
            size: 0.0,
            error: of_error.and_then(|of| Ok(welch([of, to_error?]))),
            exact: None,
            ratio,
            units: counted,
            left_out: None,
            equal: None,
            hints,
            correlation: None,
        })
    }

    /// The distance, on the scale of the estimate, up to which numbers differ only by floating-point rounding: 9 / 3 by logarithms is
    /// 3.0000000000000004.
    pub(super) fn rounding(&self) -> f64 {
        // The ends of these intervals may be this close to a number although they exclude it.
        if matches!(self.exact, Some(Exact::Rates(_) | Exact::Items { .. })) {
            return 0.0;
        }
        // The absolute error of the logarithm of a ratio is the relative error of the ratio.
        if self.ratio { ROUNDING * self.size.max(1.0) * self.value.exp() } else { ROUNDING * self.size }
    }

    /// The estimate with its interval. Its p-value allows for all looks at the results.
    pub(super) fn estimate(&self) -> Estimate {
        let level = self.level.confidence;
        let usual_estimate = from_error(self.value, self.known_error(), level);
        let estimate = self.exact.as_ref().map_or(usual_estimate, |exact| exact.estimate(usual_estimate, level));
        let estimate = Estimate { p: estimate.p.map(|p| self.corrected(p)), ..estimate };
        if self.ratio { estimate.exp() } else { estimate }
    }

    /// The standard error, if it is known.
    fn known_error(&self) -> Option<ErrorOfMean> {
        self.error.as_ref().ok().copied()
    }

    /// Evidence about the share of jobs that failed, or the difference of two shares.
    pub(super) fn of_rates(rates: Rates, looks: &Looks, basis: String) -> Self {
        let (value, exact) = (rates.value(), Some(Exact::Rates(rates)));
        let few = NoInterval::Few(String::new());
        Self { exact, units: Counted::Seeds, ..Self::of_number((value, few), false, looks.clone(), basis) }
    }

    /// Evidence about a number of a power law.
    pub(super) fn of_law(law: PowerLaw, number: LawNumber, looks: Looks, basis: String) -> Self {
        let (value, ratio) = (law.estimate(number, LEVEL).value, matches!(number, LawNumber::RatioAt { .. }));
        Self {
            exact: Some(Exact::Law(law, number)),
            ..Self::of_number((value, NoInterval::Unbounded), ratio, looks, basis)
        }
    }

    /// True if the units are items, whose number does not grow with the seeds.
    pub(super) fn is_over_items(&self) -> bool {
        self.units == Counted::Items
    }

    /// Evidence over items.
    pub(super) fn of_items(value: f64, exact: Exact, ratio: bool, looks: Looks, basis: String) -> Self {
        let few = NoInterval::Few("the signs of clusters need six".to_owned());
        Self { exact: Some(exact), units: Counted::Items, ..Self::of_number((value, few), ratio, looks, basis) }
    }

    /// A number whose error does not follow from seeds alone, with the reason if it has no interval. The caller adds the interval.
    fn of_number((value, without): (f64, NoInterval), ratio: bool, looks: Looks, basis: String) -> Self {
        let level = looks.level(1, false);
        let sample = Sample { n: 2, mean: value, sd: None };
        let (notes, hints) = (Vec::new(), Vec::new());
        Self {
            sample,
            level,
            looks,
            basis,
            notes,
            hints,
            value,
            size: value.abs(),
            error: Err(without),
            exact: None,
            ratio,
            units: Counted::Others,
            left_out: None,
            equal: None,
            correlation: None,
        }
    }

    /// Reason why the estimate has no interval; `None` if it has one.
    pub(super) fn doubt(&self) -> Option<NoInterval> {
        let unknown = self.error.as_ref().err();
        match &self.equal {
            Some(remark) if unknown.is_some() || self.estimate().low.is_none() => {
                Some(NoInterval::NoEffect(remark.clone()))
            }
            None if self.estimate().low.is_none() => Some(unknown.cloned().unwrap_or(NoInterval::NotFinite)),
            _ => None,
        }
    }

    /// True if two samples are compared that are not paired.
    pub(super) fn is_unpaired(&self) -> bool {
        self.basis.ends_with(UNPAIRED)
    }

    /// Number and kind of the units in words, if they are not seeds alone.
    pub(super) fn other_units(&self) -> Option<&str> {
        (self.units != Counted::SeedsOfMean).then_some(self.basis.as_str())
    }

    /// True if every seed is a unit, whatever the statistic is.
    pub(super) fn is_over_seeds(&self) -> bool {
        matches!(self.units, Counted::SeedsOfMean | Counted::Seeds)
    }

    /// Two-sided p-value of the hypothesis that the true number is `bound`, which allows for all looks at the results.
    pub(super) fn p_at(&self, bound: f64) -> Option<f64> {
        let bound = match self.ratio {
            true if bound <= 0.0 => return Some(0.0),
            true => bound.ln(),
            false => bound,
        };
        let usual_p = from_error(self.value - bound, self.known_error(), LEVEL).p;
        let p = self
            .exact
            .as_ref()
            .map_or(usual_p, |exact| exact.p_at(bound, exact.usual_p(self.value - bound).or(usual_p)))?;
        Some(self.corrected(p))
    }

    /// The number of seeds with which the interval would exclude these bounds, or lie within one of these ties, with a power of 80 %, if
    /// the number and its spread do not change, corrected for `tests` tests by the first step of Holm's method. `None` if seeds are not the
    /// units.
    pub(super) fn seeds_needed(
        &self,
        bounds: impl IntoIterator<Item = f64>,
        ties: impl IntoIterator<Item = [f64; 2]>,
        tests: usize,
    ) -> Option<Needed> {
        /// Maximum number of seeds that is considered.
        const MAX_SEEDS: usize = 1000;
        let ErrorOfMean { error, .. } =
            self.known_error().filter(|of| self.units == Counted::SeedsOfMean && of.error > 0.0)?;
        let scaled = |bound: f64| if self.ratio { bound.ln() } else { bound };
        let bounds = bounds.into_iter().map(|bound| (self.value - scaled(bound)).abs());
        let decided = (bounds.fold(f64::INFINITY, f64::min), WANTED);
        // The interval excludes both ends of a tie if it excludes each with half of the failures.
        let ties = ties.into_iter().map(|[low, high]| (self.value - scaled(low)).min(scaled(high) - self.value));
        let tied = ties.filter(|distance| *distance > 0.0).map(|distance| (distance, f64::midpoint(1.0, WANTED)));
        let ways: Vec<(f64, f64)> = std::iter::once(decided).chain(tied).collect();
        let needed_at = |confidence: f64| {
            let needed = ways.iter().filter_map(|(distance, power)| {
                let effect = distance / (error * (self.sample.n as f64).sqrt());
                seeds_needed(effect, *power, confidence, MAX_SEEDS)
            });
            needed.min()
        };
        // Seeds beyond the planned ones are judged at a stricter level, which needs more seeds.
        let mut needed = needed_at(level_of_one(self.level.confidence, tests));
        while let Some(seeds) = needed.filter(|seeds| self.looks.ends_before(*seeds)) {
            let raised = needed_at(level_of_one(self.looks.raised_level(seeds), tests));
            if raised.is_some_and(|raised| raised <= seeds) {
                break;
            }
            needed = raised;
        }
        // The existing seeds are not sufficient.
        Some(needed.map_or(Needed::MoreThan(MAX_SEEDS), |seeds| Needed::About(seeds.max(self.sample.n + 1))))
    }

    /// The number of two equal sides: 1 for a ratio, else 0.
    pub(super) fn none(&self) -> f64 {
        if self.ratio { 1.0 } else { 0.0 }
    }

    /// The odds of a difference below, within and above a region of practical equivalence, which is a fraction for
    /// ratios.
    pub(super) fn odds(&self, region: f64) -> Option<Odds> {
        let region = if self.ratio { region.ln_1p() } else { region };
        odds(self.value, self.known_error()?, region)
    }

    /// True if the estimate is certain.
    pub(super) fn is_certain(&self) -> bool {
        self.known_error().is_some_and(|of| of.error == 0.0)
    }

    fn corrected(&self, p: f64) -> f64 {
        self.looks.corrected(p, self.level, self.units == Counted::SeedsOfMean)
    }
}

/// The level of one of several tests.
fn level_of_one(confidence: f64, tests: usize) -> f64 {
    1.0 - (1.0 - confidence) / tests.max(1) as f64
}

/// A remark on a mean that depends mostly on one of its values.
fn carried_by_one(statistic: Statistic, values: &[f64]) -> Option<String> {
    (statistic == Statistic::Mean && is_carried_by_one(values)).then(|| {
        format!(
            "one of {} values dominates their mean (Dixon's Q): `statistic: median` or `iqm` claims a typical value",
            values.len()
        )
    })
}

fn largest<'v>(values: impl IntoIterator<Item = &'v f64>) -> f64 {
    values.into_iter().fold(0.0, |largest, value| value.abs().max(largest))
}

/// Removes jobs of two sides whose results are equal to results with other seeds; returns a remark about them, and about equal sides.
fn equal_sides<'a>(of: &mut Side<'a>, to: &mut Side<'a>, question: &Question<'_>) -> Option<String> {
    let traits = question.traits;
    let name = |side: &Side<'_>, word: &str| name_of(side, &question.apart).unwrap_or_else(|| word.to_owned());
    let (first, second) = (name(of, "the first side"), name(to, "the second"));
    let sides = if first == second {
        [("the first side".to_owned(), &*of), ("the second".to_owned(), &*to)]
    } else {
        [(first, &*of), (second, &*to)]
    };
    let values = values_without_effect(&sides, &question.apart, (traits, &question.kinds), " and ");
    let jobs = leave_out_equal(&mut [&mut *of, &mut *to], &question.apart, (traits, &question.kinds));
    let remarks: Vec<String> = values.into_iter().chain(jobs.words()).collect();
    (!remarks.is_empty()).then(|| remarks.join("; "))
}

/// The estimate of a number with this error, with an interval of this level.
fn from_error(value: f64, error: Option<ErrorOfMean>, level: f64) -> Estimate {
    estimate(value, error.map(|of| of.error), error.map_or(0.0, |of| of.freedom), level)
}

/// The correlation of at least three pairs; `None` for times, which are paired by their rounds.
fn correlation_of(pairs: &[(&Point, f64, f64)], question: &Question<'_>) -> Option<f64> {
    if question.traits.depends_on_load || pairs.len() < 3 {
        return None;
    }
    let of: Vec<f64> = pairs.iter().map(|(_, of, _)| *of).collect();
    let to: Vec<f64> = pairs.iter().map(|(_, _, to)| *to).collect();
    correlation(&of, &to)
}

/// A remark on pairs of seeds that hardly correlate, so that pairing loses degrees of freedom and gains nothing.
fn uncorrelated(correlation: f64, pairs: usize) -> Option<String> {
    // The correlation of three or four pairs is very uncertain.
    let min_correlation = if pairs < 5 { 0.0 } else { 0.3 };
    (correlation < min_correlation).then(|| {
        format!(
            "values with equal seeds correlate by {correlation:.2}: if seeds do not give both sides the same data or initialization, `pair: \
             false` compares independent samples (Welch)"
        )
    })
}
