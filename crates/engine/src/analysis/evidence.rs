//! Evidence: the measurements behind a verdict or a comparison, and the estimate that follows from them.
//!
//! Jobs without a result block a decision unless the recipe says otherwise. Seeds are repetitions: where other axes vary,
//! seeds are averaged first, and the values of the other axes are the independent units. The spread of a metric is never
//! less than its resolution.

use sweep_job::Precision;

pub(super) use super::source::{Found, Side, Source, traits};
use super::{
    Absence,
    alike::{leave_out_equal, seeds_without_effect, values_without_effect},
    looks::Level,
    units::{Units, pairs, reduce},
};
use crate::{
    format::count,
    plan::{JobId, Point},
    recipe::{MetricTraits, Missing, Rules},
    stats::{Better, Estimate, LEVEL, Odds, Sample, WANTED, estimate, odds, seeds_needed, welch},
    store::Measured,
};

/// Question about the sides of a comparison.
pub(super) struct Question<'q> {
    pub(super) traits: MetricTraits,
    /// The axes that distinguish the sides.
    pub(super) apart: Vec<String>,
    /// The axis that repeats the same job.
    pub(super) repeats: Option<&'q str>,
    /// True for a ratio, false for a difference.
    pub(super) ratio: bool,
    /// True if sides that cannot be paired are compared by their means.
    pub(super) unpaired: bool,
    pub(super) rules: Rules,
}

/// Reason why there is no evidence.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Silence {
    /// No point has the values.
    NoPoint,
    /// Jobs have no result.
    Absent,
    /// Jobs are on both sides.
    Shared(usize),
    /// The conditions of the measurements differ.
    Unlike(String),
    /// A ratio of numbers that are not all above zero.
    NoRatio,
    /// The points cannot be paired one to one.
    Unpaired,
}

/// Reason why an estimate has no interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Doubt {
    /// There is one measurement.
    One,
    /// All measurements are equal, and the metric's resolution is unknown.
    Equal,
    /// The jobs of different seeds, or those of both sides, have measured the same.
    NoEffect,
}

/// An estimate with its uncertainty, on the scale on which it was computed: logarithms for ratios.
#[derive(Debug, Clone)]
pub(super) struct Evidence {
    /// The independent units; of the first side if the sides are not paired.
    pub(super) sample: Sample,
    pub(super) level: Level,
    /// Number and kind of the units.
    pub(super) basis: String,
    pub(super) notes: Vec<String>,
    value: f64,
    /// Standard error; `None` if it is unknown.
    error: Option<f64>,
    freedom: f64,
    ratio: bool,
    doubt: Doubt,
    /// The precision of a unit.
    precision: Precision,
    /// True if every seed is a unit.
    growing: bool,
    /// A remark on jobs that are no samples because they are equal to others.
    equal: Option<String>,
}

/// The number of seeds that a decision takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Needed {
    /// An estimate.
    About(usize),
    /// A lower bound: the measured value is too near the claim's bound for an estimate.
    MoreThan(usize),
}

/// Applies the rule for missing results: fills them in, or leaves them out, or gives up.
pub(super) fn complete(sides: &mut [&mut Side<'_>], question: &Question<'_>) -> Result<(), Silence> {
    if sides.iter().any(|side| side.found.is_empty() && side.absent.is_empty()) {
        return Err(Silence::NoPoint);
    }
    // What a search has stopped is not missing by chance, so no rule makes up for it.
    if sides.iter().any(|side| side.is_stopped()) {
        return Err(Silence::Absent);
    }
    match question.rules.missing {
        Missing::Block => {}
        Missing::Ignore => {
            return if sides.iter().any(|side| side.found.is_empty()) { Err(Silence::Absent) } else { Ok(()) };
        }
        Missing::Worst => {
            let values = sides.iter().flat_map(|side| side.found.iter().map(|found| found.value));
            let worst = match question.traits.better {
                Some(Better::Less) => values.max_by(f64::total_cmp),
                Some(Better::More) => values.min_by(f64::total_cmp),
                None => None,
            };
            for side in sides.iter_mut() {
                // A job that has not run yet may still have a result.
                let (lost, open) = std::mem::take(&mut side.absent).into_iter().partition(|(why, ..)| why.is_final());
                let lost: Vec<(Absence, JobId, &Point)> = lost;
                side.absent = open;
                let Some(worst) = worst else {
                    side.absent.extend(lost);
                    continue;
                };
                side.found.extend(lost.into_iter().map(|(_, _, point)| Found { point, by: None, value: worst }));
            }
        }
    }
    if sides.iter().any(|side| !side.absent.is_empty()) { Err(Silence::Absent) } else { Ok(()) }
}

impl Question<'_> {
    /// True if nothing is missing on a side, as far as missing results matter.
    pub(super) fn is_whole(&self, side: &Side<'_>) -> bool {
        (self.rules.missing == Missing::Ignore && !side.is_stopped()) || side.absent.is_empty()
    }
}

/// The mean of the results that are there.
pub(super) struct Summary {
    /// The independent units.
    pub(super) sample: Sample,
    /// The mean, or the geometric mean, with its interval.
    pub(super) estimate: Estimate,
}

/// Summarizes the results of a side, on logarithms for a geometric mean.
pub(super) fn summarize(side: &Side<'_>, apart: &[String], traits: MetricTraits, geometric: bool) -> Option<Summary> {
    let scaled = |value: f64| if geometric { value.ln() } else { value };
    let units = |scaled: &dyn Fn(f64) -> f64| {
        let values: Vec<(&Point, f64)> =
            side.values().into_iter().map(|(point, value)| (point, scaled(value))).collect();
        reduce(&values, apart, None)
    };
    let shown = Sample::new(&units(&|value| value).values)?;
    let units = units(&scaled);
    let sample = Sample::new(&units.values)?;
    let precision = relative(traits.precision, geometric.then(|| side.mean()));
    let (error, _) = error(sample, units.precision(precision));
    let found = estimate(sample.mean, error, sample.n.saturating_sub(1) as f64, LEVEL);
    let estimate = match geometric {
        // Logarithm and exponential would show as 7.499999999999999.
        true if shown.n == 1 || shown.sd == Some(0.0) => Estimate { value: shown.mean, ..found.exp() },
        true => found.exp(),
        false => Estimate { p: None, ..found },
    };
    Some(Summary { sample: shown, estimate })
}

/// The precision of values, or of their logarithms if their size is given.
pub(super) fn relative(precision: Precision, size: Option<f64>) -> Precision {
    precision.scaled(size.filter(|size| *size > 0.0).map_or(1.0, f64::recip))
}

impl Evidence {
    /// Evidence about the mean of one side.
    pub(super) fn of_mean(side: &mut Side<'_>, question: &Question<'_>) -> Result<Self, Silence> {
        complete(&mut [&mut *side], question)?;
        let notes = like(&[side], question)?;
        let equal = leave_out_equal(&mut [&mut *side], &question.apart, question.traits);
        let equal = seeds_without_effect(&equal);
        let units = reduce(&side.values(), &question.apart, question.repeats);
        let sample = Sample::new(&units.values).ok_or(Silence::NoPoint)?;
        let precision = units.precision(question.traits.precision);
        let (error, doubt) = error(sample, precision);
        let level = side.looks.level(sample.n, units.axes.is_empty());
        let basis = if units.axes.is_empty() { count(side.found.len(), "job") } else { units.basis("mean") };
        let notes = notes.into_iter().chain(units.note()).chain(equal.clone()).collect();
        let (value, freedom) = (sample.mean, sample.n.saturating_sub(1) as f64);
        let growing = units.axes.is_empty();
        Ok(Self { sample, level, basis, notes, value, error, freedom, ratio: false, doubt, precision, growing, equal })
    }

    /// Evidence about the difference or the ratio of two sides.
    pub(super) fn of_two<'a>(of: &mut Side<'a>, to: &mut Side<'a>, question: &Question<'_>) -> Result<Self, Silence> {
        let shared = to.keys().intersection(&of.keys()).count();
        if shared > 0 {
            return Err(Silence::Shared(shared));
        }
        complete(&mut [&mut *of, &mut *to], question)?;
        let equal = equal_sides(of, to, question);
        let mut found = Self::between(of, to, question)?;
        found.notes.extend(equal.clone());
        Ok(Self { equal, ..found })
    }

    /// The same for sides from which nothing is missing, and which have samples only.
    fn between(of: &Side<'_>, to: &Side<'_>, question: &Question<'_>) -> Result<Self, Silence> {
        let ratio = question.ratio;
        if ratio && of.found.iter().chain(&to.found).any(|found| found.value <= 0.0) {
            return Err(Silence::NoRatio);
        }
        let notes = like(&[of, to], question)?;
        let scaled = |value: f64| if ratio { value.ln() } else { value };
        // The precision of a difference of two values, and of one value.
        let size = if ratio { of.mean().powi(-2) + to.mean().powi(-2) } else { 2.0 };
        let two = question.traits.precision.scaled(size.sqrt());
        let one = two.scaled(0.5_f64.sqrt());
        let looks = of.looks.joined(&to.looks);
        let partial = question.rules.missing == Missing::Ignore || looks.is_adaptive();
        if let Some(pairs) = pairs(&of.values(), &to.values(), &question.apart, partial) {
            let differences: Vec<(&Point, f64)> =
                pairs.into_iter().map(|(point, of, to)| (point, scaled(of) - scaled(to))).collect();
            let units = reduce(&differences, &question.apart, question.repeats);
            let sample = Sample::new(&units.values).ok_or(Silence::NoPoint)?;
            let precision = units.precision(two);
            let (error, doubt) = error(sample, precision);
            let level = looks.level(sample.n, units.axes.is_empty());
            let basis = units.basis(if units.axes.is_empty() { "pair" } else { "mean difference" });
            let notes = notes.into_iter().chain(units.note()).collect();
            let (value, freedom) = (sample.mean, sample.n.saturating_sub(1) as f64);
            let growing = units.axes.is_empty();
            return Ok(Self {
                sample,
                level,
                basis,
                notes,
                value,
                error,
                freedom,
                ratio,
                doubt,
                precision,
                growing,
                equal: None,
            });
        }
        if !question.unpaired {
            return Err(Silence::Unpaired);
        }
        let units = |side: &Side<'_>| {
            let values: Vec<(&Point, f64)> =
                side.values().into_iter().map(|(point, value)| (point, scaled(value))).collect();
            reduce(&values, &question.apart, question.repeats)
        };
        let (first, second) = (units(of), units(to));
        let sample = |units: &Units| Sample::new(&units.values).ok_or(Silence::NoPoint);
        let (a, b) = (sample(&first)?, sample(&second)?);
        let errors = [(a, &first), (b, &second)].map(|(sample, units)| error(sample, units.precision(one)));
        let (error, freedom) = match errors {
            [(Some(of), _), (Some(to), _)] => {
                let (error, freedom) = welch([(of, a.n), (to, b.n)]);
                (Some(error), freedom)
            }
            _ => (None, 0.0),
        };
        let doubt = if a.n.min(b.n) < 2 { Doubt::One } else { Doubt::Equal };
        let level = looks.level(a.n.min(b.n), first.axes.is_empty() && second.axes.is_empty());
        let basis = format!("{} against {}, not paired", a.n, b.n);
        let notes = notes.into_iter().chain(first.note()).collect();
        Ok(Self {
            sample: a,
            level,
            basis,
            notes,
            value: a.mean - b.mean,
            error,
            freedom,
            ratio,
            doubt,
            precision: one,
            growing: first.axes.is_empty() && second.axes.is_empty(),
            equal: None,
        })
    }

    /// The estimate with its interval. Its p-value allows for all looks at the results.
    pub(super) fn estimate(&self) -> Estimate {
        let found = estimate(self.value, self.error, self.freedom, self.level.confidence);
        let found = Estimate { p: found.p.map(|p| self.corrected(p)), ..found };
        if self.ratio { found.exp() } else { found }
    }

    /// Reason why the estimate has no interval; `None` if it has one.
    pub(super) fn doubt(&self) -> Option<Doubt> {
        let doubt = if self.equal.is_some() { Doubt::NoEffect } else { self.doubt };
        self.error.is_none().then_some(doubt)
    }

    /// The remark on jobs that are equal to others.
    pub(super) fn equal(&self) -> Option<&str> {
        self.equal.as_deref()
    }

    /// Two-sided p-value of the hypothesis that the true number is `bound`, which allows for all looks at the results.
    pub(super) fn p_at(&self, bound: f64) -> Option<f64> {
        let bound = match self.ratio {
            true if bound <= 0.0 => return Some(0.0),
            true => bound.ln(),
            false => bound,
        };
        let p = estimate(self.value - bound, self.error, self.freedom, LEVEL).p?;
        Some(self.corrected(p))
    }

    /// The number of seeds with which the interval would exclude these bounds, or lie within one of these ties, with a power
    /// of 80 %, if the number and its spread stay as they are. `None` if other things than seeds are the units.
    pub(super) fn seeds_needed(
        &self,
        bounds: impl IntoIterator<Item = f64>,
        ties: impl IntoIterator<Item = [f64; 2]>,
    ) -> Option<Needed> {
        /// Most seeds that are considered.
        const MOST: usize = 1000;
        let error = self.error.filter(|error| self.growing && *error > 0.0)?;
        let scaled = |bound: f64| if self.ratio { bound.ln() } else { bound };
        let seeds = |distance: f64, power: f64| {
            let effect = distance / (error * (self.sample.n as f64).sqrt());
            seeds_needed(effect, power, self.level.confidence, MOST)
        };
        let bounds = bounds.into_iter().map(|bound| (self.value - scaled(bound)).abs());
        let decided = seeds(bounds.fold(f64::INFINITY, f64::min), WANTED);
        // The interval excludes both ends of a tie if it excludes each with half of the failures.
        let ties = ties.into_iter().map(|[low, high]| (self.value - scaled(low)).min(scaled(high) - self.value));
        let tied =
            ties.filter(|distance| *distance > 0.0).filter_map(|distance| seeds(distance, f64::midpoint(1.0, WANTED)));
        let needed = decided.into_iter().chain(tied).min();
        // What there are do not suffice.
        Some(needed.map_or(Needed::MoreThan(MOST), |seeds| Needed::About(seeds.max(self.sample.n + 1))))
    }

    /// The odds of a difference below, within and above a region of practical equivalence, which is a fraction for
    /// ratios.
    pub(super) fn odds(&self, region: f64) -> Option<Odds> {
        let region = if self.ratio { region.ln_1p() } else { region };
        odds(&self.sample, region, self.precision)
    }

    /// True if the estimate is certain.
    pub(super) fn is_certain(&self) -> bool {
        self.error == Some(0.0)
    }

    fn corrected(&self, p: f64) -> f64 {
        (p * (1.0 - LEVEL) / (1.0 - self.level.confidence)).min(1.0)
    }
}

/// Leaves out the jobs of two sides that are equal to others in all but their seeds; returns a remark about them, and about
/// sides that are equal.
fn equal_sides<'a>(of: &mut Side<'a>, to: &mut Side<'a>, question: &Question<'_>) -> Option<String> {
    let traits = question.traits;
    let named = [("the first side".to_owned(), &*of), ("the second".to_owned(), &*to)];
    let values = values_without_effect(&named, &question.apart, traits);
    let jobs = leave_out_equal(&mut [&mut *of, &mut *to], &question.apart, traits);
    let remarks: Vec<String> = values.into_iter().chain(seeds_without_effect(&jobs)).collect();
    (!remarks.is_empty()).then(|| remarks.join("; "))
}

/// Standard error of a sample's mean, and the reason if it is unknown.
fn error(sample: Sample, precision: Precision) -> (Option<f64>, Doubt) {
    let Some(sd) = sample.sd else {
        let certain = precision == Precision::Deterministic;
        return (certain.then_some(0.0), Doubt::One);
    };
    (precision.spread(sd).map(|sd| sd / (sample.n as f64).sqrt()), Doubt::Equal)
}

/// Checks the conditions of times, rates and utilizations; returns footnotes.
pub(super) fn like(sides: &[&Side<'_>], question: &Question<'_>) -> Result<Vec<String>, Silence> {
    if !question.traits.depends_on_load {
        return Ok(Vec::new());
    }
    if question.rules.any_conditions {
        return Ok(vec!["whatever the conditions of the measurement (`conditions: any`)".to_owned()]);
    }
    let sides: Vec<Vec<&Measured>> = sides.iter().map(|side| side.records()).collect();
    let sides: Vec<&[&Measured]> = sides.iter().map(Vec::as_slice).collect();
    let found = super::conditions::comparable(&sides);
    match found.reason {
        Some(reason) => Err(Silence::Unlike(reason)),
        None => Ok(found.notes),
    }
}
