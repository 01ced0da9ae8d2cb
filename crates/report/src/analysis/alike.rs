//! Jobs that are not samples, because their results are bit-identical to the results of other jobs: the seed, or the value of an axis, has
//! no effect on them.
//!
//! Times, rates and sizes are ignored: they differ from run to run, and are samples nevertheless. Counts and metrics that are declared as
//! deterministic are ignored, too, because they are always equal.

use std::collections::{BTreeMap, BTreeSet};

use sweep_base::SEED;
use sweep_job::{Precision, Unit, Value};

use super::{
    evidence::{Found, Side},
    kinds::Kinds,
    no_interval::NoInterval,
    units::place,
};
use crate::{format::count, plan::Point, recipe::MetricTraits, record::Key};

/// Number of measured values below which equality may be chance, for metrics with a declared resolution and for some of several seeds.
const MIN_EQUAL_VALUES: usize = 4;
/// Maximum number of names that a sentence lists.
const MAX_NAMES: usize = 3;

/// The place of a job without its seed and without the axes that distinguish the sides, and its seed. A run without a seed has its name
/// instead of the seed, and its side in the place.
type Place = (Vec<String>, String);
/// Digests of results, each with the index of its side.
type Digests = Vec<(usize, u64)>;

/// Relative difference below which values of seeds differ only by rounding: sums of 32-bit numbers in another order.
const ROUNDING: f64 = 1e-6;

/// Jobs that are not samples.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Alike {
    /// Jobs with the same results as jobs that differ only in their seeds.
    equal: BTreeSet<Key>,
    /// Runs without seeds that have the same results as other runs.
    copies: BTreeSet<Key>,
    /// Jobs whose values differ from the values of other seeds only by rounding.
    near: BTreeSet<Key>,
}

impl Alike {
    /// Adds the jobs of other sides.
    pub(super) fn extend(&mut self, other: Self) {
        self.equal.extend(other.equal);
        self.copies.extend(other.copies);
        self.near.extend(other.near);
    }

    /// The reason why a number has no interval, which the jobs may be.
    pub(super) fn instead_of(&self, reason: Option<NoInterval>) -> Option<NoInterval> {
        match (reason, self.words()) {
            (Some(NoInterval::One(_)), Some(remark)) => Some(NoInterval::NoEffect(remark)),
            (reason, _) => reason,
        }
    }

    /// The remark about the jobs; nothing without any.
    pub(super) fn words(&self) -> Option<String> {
        let equal = (!self.equal.is_empty()).then(|| {
            format!(
                "the seed has no effect: {} of different seeds have the same measurements, bit for bit (except times \
                 and memory), and count once",
                count(self.equal.len(), "job")
            )
        });
        let copies = (!self.copies.is_empty()).then(|| {
            format!(
                "{} are copies: they have the same measurements as others, bit for bit (except times and memory), and \
                 count once",
                count(self.copies.len(), "run")
            )
        });
        let near = (!self.near.is_empty()).then(|| {
            format!(
                "the seed has no effect beyond rounding: the values of {} of different seeds differ by less than a \
                 millionth of their size, and count once; declare the metric's `resolution` under `metrics` if \
                 smaller differences are real",
                count(self.near.len(), "job")
            )
        });
        let words: Vec<String> = equal.into_iter().chain(copies).chain(near).collect();
        (!words.is_empty()).then(|| words.join("; "))
    }
}

/// Words of remarks that are about different kinds of equal results.
const KINDS: [&str; 4] =
    ["the seed has no effect:", "are copies:", "no effect beyond rounding:", "that distinguishes them"];

/// True if two remarks are about the same kinds of equal results.
pub(super) fn is_same_kind(remark: &str, other: &str) -> bool {
    KINDS.iter().all(|words| remark.contains(words) == other.contains(words))
}

/// The digests of all sides at a place.
#[derive(Default)]
struct Signature {
    digests: Digests,
    /// True if every job has few measured values, which may be equal by chance.
    few: bool,
}

/// Removes jobs with the same results as jobs of the sides that differ only in the seed, and returns all jobs with equal results. Seeds are
/// compared on all sides together, because one side may not depend on the seed.
pub(super) fn leave_out_equal(
    sides: &mut [&mut Side<'_>],
    apart: &[String],
    (traits, kinds): (MetricTraits, &Kinds),
) -> Alike {
    let is_own = |axis: &str| axis == SEED || kinds.identifies(axis) || apart.iter().any(|other| other == axis);
    let place_of_seed =
        |point: &Point| -> Option<Place> { Some((place(point, is_own), format!("{:?}", point.get(SEED)?))) };
    let place_of = |side: usize, point: &Point| -> Option<Place> {
        place_of_seed(point).or_else(|| {
            let names: Vec<&Value> =
                point.values.iter().filter(|(axis, _)| kinds.identifies(axis)).map(|(_, value)| &value.value).collect();
            let mut of = place(point, is_own);
            of.push(format!("side {side}"));
            (!names.is_empty()).then(|| (of, format!("{names:?}")))
        })
    };
    // `None` if the measured values cannot be compared.
    let mut signatures: BTreeMap<Place, Option<Signature>> = BTreeMap::new();
    let mut has_seeds = false;
    for (index, side) in sides.iter().enumerate() {
        for found in &side.found {
            let Some(place) = place_of(index, found.point) else { continue };
            has_seeds |= found.point.get(SEED).is_some();
            let signature = signatures.entry(place).or_insert_with(|| Some(Signature::default()));
            match (signature.as_mut(), digest(found, traits)) {
                (Some(known), Some((digest, values))) => {
                    known.digests.push((index, digest));
                    known.few |= values < MIN_EQUAL_VALUES;
                }
                _ => *signature = None,
            }
        }
    }
    let mut alike: BTreeMap<(&Vec<String>, &Digests), Vec<&Place>> = BTreeMap::new();
    let mut seeds: BTreeMap<&Vec<String>, usize> = BTreeMap::new();
    for (place, signature) in &signatures {
        *seeds.entry(&place.0).or_default() += 1;
        if let Some(signature) = signature {
            alike.entry((&place.0, &signature.digests)).or_default().push(place);
        }
    }
    // Some of several seeds can have the same rounded number by chance, but not the same curve.
    let is_few = |place: &Place| signatures[place].as_ref().is_none_or(|signature| signature.few);
    alike.retain(|(of, _), places| has_seeds && places.len() == seeds[of] || !places.iter().any(|place| is_few(place)));
    let equal: Vec<&Vec<&Place>> = alike.values().filter(|places| places.len() > 1).collect();
    let all: BTreeSet<&Place> = equal.iter().flat_map(|places| places.iter().copied()).collect();
    let repeated_places: BTreeSet<&Place> = equal.iter().flat_map(|places| places[1..].iter().copied()).collect();
    let mut jobs = BTreeSet::new();
    for (index, side) in sides.iter_mut().enumerate().filter(|_| !all.is_empty()) {
        side.found.retain(|found| {
            let Some(place) = place_of(index, found.point) else { return true };
            if all.contains(&place) {
                jobs.extend(found.by.map(|by| by.key));
            }
            !repeated_places.contains(&place)
        });
    }
    let (near_places, near) = near_seeds(sides, &place_of_seed, traits);
    for side in sides.iter_mut().filter(|_| !near_places.is_empty()) {
        side.found.retain(|found| place_of_seed(found.point).is_none_or(|place| !near_places.contains(&place)));
    }
    let (equal, copies) = if has_seeds { (jobs, BTreeSet::new()) } else { (BTreeSet::new(), jobs) };
    Alike { equal, copies, near }
}

/// The seeds other than the first of places at which all seeds have the same values up to rounding on all sides, and the jobs of these
/// places. Empty if the values of any place differ more.
fn near_seeds(
    sides: &[&mut Side<'_>],
    place_of: &dyn Fn(&Point) -> Option<Place>,
    traits: MetricTraits,
) -> (BTreeSet<Place>, BTreeSet<Key>) {
    let is_measured = traits.precision == Precision::Measured && is_computed(traits);
    let mut values: BTreeMap<(usize, Vec<String>), Vec<f64>> = BTreeMap::new();
    let mut seeds: BTreeMap<Vec<String>, BTreeSet<String>> = BTreeMap::new();
    let mut jobs = BTreeSet::new();
    for (index, side) in sides.iter().enumerate() {
        for found in &side.found {
            let Some((of, seed)) = place_of(found.point) else { return Default::default() };
            values.entry((index, of.clone())).or_default().push(found.value);
            seeds.entry(of).or_default().insert(seed);
            jobs.extend(found.by.map(|by| by.key));
        }
    }
    let spread = |values: &Vec<f64>| {
        let (low, high) = values
            .iter()
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(*value), high.max(*value)));
        (high - low) / low.abs().max(high.abs())
    };
    let spreads: Vec<f64> = values.values().filter(|values| values.len() > 1).map(spread).collect();
    // Whole numbers are not rounded.
    let is_whole = values.values().flatten().all(|value| value.fract() == 0.0);
    // Equal values do not count here: they may be equal because of their resolution.
    let is_near =
        !is_whole && spreads.iter().all(|spread| *spread < ROUNDING) && spreads.iter().any(|spread| *spread > 0.0);
    if !is_measured || !is_near {
        return Default::default();
    }
    let places =
        seeds.into_iter().flat_map(|(of, seeds)| seeds.into_iter().skip(1).map(move |seed| (of.clone(), seed)));
    (places.collect(), jobs)
}

/// The measurements without imported runs that are copies of other runs.
pub(super) fn without_copies<'s, 'a>(found: &[&'s Found<'a>], traits: MetricTraits) -> Vec<&'s Found<'a>> {
    let mut seen = BTreeSet::new();
    let mut is_copy = |found: &Found<'a>| {
        let is_imported = found.by.is_some_and(|by| by.remarks.imported.is_some());
        let signature = digest(found, traits).filter(|(_, values)| is_imported && *values >= MIN_EQUAL_VALUES);
        signature.is_some_and(|signature| !seen.insert(signature))
    };
    found.iter().copied().filter(|found| !is_copy(found)).collect()
}

/// Groups of rows with bit-identical results for equal seeds and other axes, in words, with `and` between their names.
pub(super) fn values_without_effect(
    rows: &[(String, &Side<'_>)],
    apart: &[String],
    (traits, kinds): (MetricTraits, &Kinds),
    and: &str,
) -> Vec<String> {
    let mut groups: BTreeMap<Vec<(Vec<String>, u64)>, Vec<&str>> = BTreeMap::new();
    for (label, side) in rows.iter().filter(|(_, side)| side.absent.is_empty()) {
        let of = |found: &Found<'_>| {
            let place = place(found.point, |axis| kinds.identifies(axis) || apart.iter().any(|other| other == axis));
            Some((place, digest(found, traits)?.0))
        };
        let Some(mut signature) = side.found.iter().map(of).collect::<Option<Vec<_>>>() else { continue };
        signature.sort_unstable();
        if !signature.is_empty() {
            groups.entry(signature).or_default().push(label);
        }
    }
    let equal = groups.into_values().filter(|labels| labels.len() > 1);
    equal
        .map(|labels| {
            let hidden = labels.len().saturating_sub(MAX_NAMES);
            let names = labels[..labels.len() - hidden].join(and);
            let tail = if hidden > 0 { format!(" and {hidden} more") } else { String::new() };
            format!(
                "{names}{tail} have the same measurements, bit for bit (except times and memory): check that the \
                 program uses the value that distinguishes them"
            )
        })
        .collect()
}

/// The digest of a job's result with the number of measured values; `None` if the metric's values do not depend on the computation.
fn digest(found: &Found<'_>, traits: MetricTraits) -> Option<(u64, usize)> {
    let remarks = &found.by?.remarks;
    if !is_computed(traits) {
        return None;
    }
    let is_telling = match traits.precision {
        Precision::Measured => true,
        Precision::Resolution(_) => remarks.values >= MIN_EQUAL_VALUES,
        Precision::Deterministic => false,
    };
    (is_telling && remarks.digest != 0).then_some((remarks.digest, remarks.values))
}

/// Number of measurements of a side that count if nothing but the side itself shows which seeds have an effect.
pub(super) fn count_alone(side: &Side<'_>, apart: &[String], of: (MetricTraits, &Kinds)) -> usize {
    let mut own_side = side.clone();
    leave_out_equal(&mut [&mut own_side], apart, of);
    own_side.found.len()
}

/// False for times and sizes, which are samples of the machine, whatever the jobs compute.
fn is_computed(traits: MetricTraits) -> bool {
    !traits.depends_on_load && traits.unit.base() != Unit::Bytes
}
