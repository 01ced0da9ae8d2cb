//! Jobs that are no samples, because they have measured bit by bit the same as others: the seed, or the value of an axis, has
//! no effect on them.
//!
//! Times, rates and sizes are left aside: they differ from run to run, and are samples nevertheless. Nothing follows from counts and from metrics that are
//! declared as deterministic, which are equal by nature.

use std::collections::{BTreeMap, BTreeSet};

use sweep_job::{Precision, Unit};

use super::{
    evidence::{Found, Side},
    units::{SEED, place},
};
use crate::{format::count, plan::Point, recipe::MetricTraits, record::Key};

/// Fewer measured values may be equal by chance: those of a metric with a declared resolution, or of some of several seeds.
const MANY: usize = 4;
/// Names that a sentence lists at most.
const MOST_NAMES: usize = 3;

/// The place of a job without its seed and without the axes that distinguish the sides, and its seed.
type Place = (Vec<String>, String);
/// Digests of results, each with the index of its side.
type Digests = Vec<(usize, u64)>;

/// What all sides have measured at a place.
#[derive(Default)]
struct Signature {
    digests: Digests,
    /// True if every job has few measured values, which may be equal by chance.
    few: bool,
}

/// Leaves out the jobs that are equal to others of the sides in all but the seed, and answers the jobs that are equal to some
/// other. Seeds are compared on all sides together: one side may be the same with every seed.
pub(super) fn leave_out_equal(sides: &mut [&mut Side<'_>], apart: &[String], traits: MetricTraits) -> BTreeSet<Key> {
    let place_of = |point: &Point| -> Option<Place> {
        let seed = point.get(SEED)?;
        Some((place(point, |axis| axis == SEED || apart.iter().any(|other| other == axis)), format!("{seed:?}")))
    };
    // `None` if what was measured cannot be compared.
    let mut signatures: BTreeMap<Place, Option<Signature>> = BTreeMap::new();
    for (index, side) in sides.iter().enumerate() {
        for found in &side.found {
            let Some(place) = place_of(found.point) else { continue };
            let known = signatures.entry(place).or_insert_with(|| Some(Signature::default()));
            match (known.as_mut(), digest(found, traits)) {
                (Some(known), Some((digest, values))) => {
                    known.digests.push((index, digest));
                    known.few |= values < MANY;
                }
                _ => *known = None,
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
    alike.retain(|(of, _), places| places.len() == seeds[of] || !places.iter().any(|place| is_few(place)));
    let equal: Vec<&Vec<&Place>> = alike.values().filter(|places| places.len() > 1).collect();
    let all: BTreeSet<&Place> = equal.iter().flat_map(|places| places.iter().copied()).collect();
    let repeated: BTreeSet<&Place> = equal.iter().flat_map(|places| places[1..].iter().copied()).collect();
    let mut jobs = BTreeSet::new();
    for side in sides.iter_mut().filter(|_| !all.is_empty()) {
        side.found.retain(|found| {
            let Some(place) = place_of(found.point) else { return true };
            if all.contains(&place) {
                jobs.extend(found.by.map(|by| by.key));
            }
            !repeated.contains(&place)
        });
    }
    jobs
}

/// The remark about jobs that are equal in all but the seed; nothing without any.
pub(super) fn seeds_without_effect(jobs: &BTreeSet<Key>) -> Option<String> {
    (!jobs.is_empty()).then(|| {
        format!(
            "the seed has no effect: {} of different seeds have the same measurements, bit by bit (times and memory aside), and count \
             once",
            count(jobs.len(), "job")
        )
    })
}

/// Groups of rows that measured bit by bit the same with the same seeds and other axes.
pub(super) fn values_without_effect(
    rows: &[(String, &Side<'_>)],
    apart: &[String],
    traits: MetricTraits,
) -> Vec<String> {
    let mut groups: BTreeMap<Vec<(Vec<String>, u64)>, Vec<&str>> = BTreeMap::new();
    for (label, side) in rows.iter().filter(|(_, side)| side.absent.is_empty()) {
        let of = |found: &Found<'_>| {
            let place = place(found.point, |axis| apart.iter().any(|other| other == axis));
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
            let more = labels.len().saturating_sub(MOST_NAMES);
            let named = labels[..labels.len() - more].join("; ");
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!(
                "{named}{more} have the same measurements, bit by bit (times and memory aside): check that the program uses the value \
                 that distinguishes them"
            )
        })
        .collect()
}

/// The digest of a job's result with the number of measured values, if it says something about the values of a metric.
fn digest(found: &Found<'_>, traits: MetricTraits) -> Option<(u64, usize)> {
    let remarks = &found.by?.remarks;
    // Times and sizes are samples of the machine, whatever the jobs compute.
    if traits.depends_on_load || traits.unit.base() == Unit::Bytes {
        return None;
    }
    let says = match traits.precision {
        Precision::Measured => true,
        Precision::Resolution(_) => remarks.values >= MANY,
        Precision::Deterministic => false,
    };
    (says && remarks.digest != 0).then_some((remarks.digest, remarks.values))
}
