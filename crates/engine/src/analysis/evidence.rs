//! Evidence: the measurements behind a verdict or a comparison, and the estimate that follows from them.
//!
//! Jobs without a result block a decision unless the recipe says otherwise. Seeds are repetitions: where other axes vary,
//! seeds are averaged first, and the values of the other axes are the independent units. The spread of a metric is never
//! less than its resolution.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use sweep_job::{Precision, Value};

use super::{
    Absence,
    looks::{Level, Looks},
    units::{SEED, Units, pairs, reduce},
};
use crate::{
    format::count,
    plan::{JobId, Point, Study, selected},
    recipe::{MetricTraits, Missing, Rules},
    record::Key,
    stats::{Better, Estimate, LEVEL, Odds, Sample, WANTED, estimate, odds, seeds_needed, welch},
    store::Measured,
};

/// The results of a study.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) study: &'a Study,
    pub(super) measured: &'a BTreeMap<JobId, Measured>,
    pub(super) absences: &'a BTreeMap<JobId, Absence>,
}

/// A measurement: its point, its record, and its value. A missing result that counts as the worst has no record.
pub(super) struct Found<'a> {
    pub(super) point: &'a Point,
    pub(super) by: Option<&'a Measured>,
    pub(super) value: f64,
}

/// The measurements of a metric at the points of one side.
#[derive(Default)]
pub(super) struct Side<'a> {
    pub(super) found: Vec<Found<'a>>,
    /// The jobs without a result, or without the metric.
    pub(super) absent: Vec<(Absence, JobId, &'a Point)>,
    /// The records of the side, including those without the metric.
    pub(super) ran: Vec<&'a Measured>,
    /// The numbers of seeds at which the side is looked at.
    looks: Looks,
}

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
}

/// The number of seeds that a decision takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Needed {
    /// About so many.
    About(usize),
    /// More than so many: the number is too near the bound.
    MoreThan(usize),
}

impl<'a> Source<'a> {
    /// The measurements of a metric at the points of a step that have these values.
    pub(super) fn side(&self, step: usize, wanted: &[(&str, Vec<Value>)], metric: &str) -> Side<'a> {
        let points = self.study.steps[step].iter().filter(|(point, _)| selected(point, wanted));
        self.side_of(points.map(|(point, job)| (point, *job)), metric)
    }

    /// The measurements of a metric at some points. Points that are the same job count once.
    pub(super) fn side_of(&self, points: impl Iterator<Item = (&'a Point, JobId)>, metric: &str) -> Side<'a> {
        let mut side = Side::default();
        let mut jobs = HashSet::new();
        let mut seeds: BTreeSet<String> = BTreeSet::new();
        let mut extra = 0;
        for (point, job) in points {
            seeds.extend(point.get(SEED).map(|seed| format!("{seed:?}")));
            let rounds = [&self.study.rounds, &self.study.looks].map(|rounds| rounds.get(&job).copied().unwrap_or(0));
            extra = rounds.into_iter().fold(extra, usize::max);
            if !jobs.insert(job) {
                continue;
            }
            let measured = self.measured.get(&job);
            side.ran.extend(measured);
            match measured.and_then(|measured| Some((measured, measured.metrics.get(metric)?.value))) {
                Some((by, value)) => side.found.push(Found { point, by: Some(by), value }),
                None if self.is_unneeded(job) => {}
                None => side.absent.push((self.absence(job), job, point)),
            }
        }
        let most = seeds.len().max(1);
        side.looks = Looks::planned(most.saturating_sub(extra), most);
        side.looks.add_made(side.found.iter().filter_map(|found| found.by?.under.as_ref()?.seeds));
        side
    }

    /// The points of a step that have these values, without additional seeds that were not needed.
    pub(super) fn points(&self, step: usize, wanted: &[(&str, Vec<Value>)]) -> Vec<(&'a Point, JobId)> {
        let points = self.study.steps[step].iter().filter(|(point, _)| selected(point, wanted));
        points.filter(|(_, job)| !self.is_unneeded(*job)).map(|(point, job)| (point, *job)).collect()
    }

    /// The jobs at the points of a step that have these values.
    pub(super) fn jobs(&self, step: usize, wanted: &[(&str, Vec<Value>)]) -> Vec<JobId> {
        let points = self.study.steps[step].iter().filter(|(point, _)| selected(point, wanted));
        points.map(|(_, job)| *job).collect()
    }

    /// True if a job is an additional seed that was not needed.
    fn is_unneeded(&self, job: JobId) -> bool {
        !self.measured.contains_key(&job)
            && self.study.rounds.contains_key(&job)
            && self.absences.get(&job).is_none_or(|absence| !absence.is_final())
    }

    fn absence(&self, job: JobId) -> Absence {
        let absence = || self.absences.get(&job).cloned().unwrap_or(Absence::NotRun);
        if self.measured.contains_key(&job) { Absence::NotMeasured } else { absence() }
    }
}

impl<'a> Side<'a> {
    fn keys(&self) -> HashSet<Key> {
        self.found.iter().filter_map(|found| Some(found.by?.key)).collect()
    }

    fn records(&self) -> Vec<&'a Measured> {
        self.found.iter().filter_map(|found| found.by).collect()
    }

    /// True if a search has stopped one of its jobs.
    fn is_stopped(&self) -> bool {
        self.absent.iter().any(|(why, ..)| matches!(why, Absence::Stopped(_)))
    }

    /// True if no job belongs to the side.
    pub(super) fn is_empty(&self) -> bool {
        self.found.is_empty() && self.absent.is_empty()
    }

    /// True if nothing is missing and the number of seeds does not depend on the results.
    pub(super) fn is_looked_at_once(&self) -> bool {
        self.absent.is_empty() && self.looks.is_single()
    }

    /// True if all values are above zero.
    pub(super) fn is_positive(&self) -> bool {
        self.found.iter().all(|found| found.value > 0.0)
    }

    pub(super) fn values(&self) -> Vec<(&'a Point, f64)> {
        self.found.iter().map(|found| (found.point, found.value)).collect()
    }

    pub(super) fn mean(&self) -> f64 {
        self.found.iter().map(|found| found.value).sum::<f64>() / self.found.len().max(1) as f64
    }
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
    let estimate = if geometric { found.exp() } else { Estimate { p: None, ..found } };
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
        let units = reduce(&side.values(), &question.apart, question.repeats);
        let sample = Sample::new(&units.values).ok_or(Silence::NoPoint)?;
        let precision = units.precision(question.traits.precision);
        let (error, doubt) = error(sample, precision);
        let level = side.looks.level(sample.n, units.axes.is_empty());
        let basis = if units.axes.is_empty() { count(side.found.len(), "job") } else { units.basis("mean") };
        let notes = notes.into_iter().chain(units.note()).collect();
        let (value, freedom) = (sample.mean, sample.n.saturating_sub(1) as f64);
        let growing = units.axes.is_empty();
        Ok(Self { sample, level, basis, notes, value, error, freedom, ratio: false, doubt, precision, growing })
    }

    /// Evidence about the difference or the ratio of two sides.
    pub(super) fn of_two<'a>(of: &mut Side<'a>, to: &mut Side<'a>, question: &Question<'_>) -> Result<Self, Silence> {
        let shared = to.keys().intersection(&of.keys()).count();
        if shared > 0 {
            return Err(Silence::Shared(shared));
        }
        complete(&mut [&mut *of, &mut *to], question)?;
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
            return Ok(Self { sample, level, basis, notes, value, error, freedom, ratio, doubt, precision, growing });
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
        self.error.is_none().then_some(self.doubt)
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
