//! Pairs of points of two sides.

use std::collections::{BTreeMap, BTreeSet};

use super::{averaged, place};
use crate::{analysis::kinds::Kinds, plan::Point, recipe::Replication};

/// The axes on which the points of a pair may differ: the axes that distinguish the sides. If no points of both sides agree on all other
/// axes, also the axes that name the runs, or else all axes that repeat a measurement.
pub(in crate::analysis) fn free_axes(of: &[&Point], to: &[&Point], apart: &[String], kinds: &Kinds) -> Vec<String> {
    let repeats: BTreeSet<&str> = of
        .iter()
        .flat_map(|point| &point.values)
        .map(|(axis, _)| axis.as_str())
        .filter(|axis| kinds.of_axis(axis) == Replication::Repeat && !apart.iter().any(|other| other == axis))
        .collect();
    let places = |side: &[&Point], free: &[String]| -> BTreeSet<Vec<String>> {
        side.iter().map(|point| place(point, |axis| free.iter().any(|other| other == axis))).collect()
    };
    let are_pairs = |free: &[String]| !places(of, free).is_disjoint(&places(to, free));
    // Repetitions of one point are the units themselves.
    let are_units = |free: &[String]| places(of, free).len() < 2;
    let but = |is_free: &dyn Fn(&&&str) -> bool| -> Vec<String> {
        apart.iter().cloned().chain(repeats.iter().filter(is_free).map(|axis| (*axis).to_owned())).collect()
    };
    let (without_names, without_repeats) = (but(&|axis| kinds.identifies(axis)), but(&|_| true));
    if repeats.is_empty() || are_pairs(apart) {
        return apart.to_vec();
    }
    if !are_units(&without_names) && are_pairs(&without_names) {
        return without_names;
    }
    if are_units(&without_repeats) { apart.to_vec() } else { without_repeats }
}

/// The values of sides that need a partner.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::analysis) enum Partners {
    /// All of them.
    All,
    /// Any of them: the others are dropped.
    Some,
    /// Two at least, and half of the side with fewer values, at every setting of the other axes: the sides differ in their seeds only.
    OfSeeds,
}

/// Pairs the values of points that agree on every axis except the axes that distinguish the sides; `None` if they cannot be paired one to
/// one. Values without a partner are dropped if `partners` allows it. Otherwise such values make the sides unpaired. Repeated measurements
/// that do not agree are averaged.
pub(in crate::analysis) fn pairs<'a>(
    of: &[(&'a Point, f64)],
    to: &[(&'a Point, f64)],
    apart: &[String],
    kinds: &Kinds,
    partners: Partners,
) -> Option<Vec<(&'a Point, f64, f64)>> {
    let points = |side: &[(&'a Point, f64)]| side.iter().map(|(point, _)| *point).collect::<Vec<&Point>>();
    let free = free_axes(&points(of), &points(to), apart, kinds);
    let repeats = &free[apart.len()..];
    let side = |side: &[(&'a Point, f64)]| {
        let side = averaged(side, repeats);
        let key = |point: &Point| place(point, |axis| free.iter().any(|other| other == axis));
        let values: BTreeMap<Vec<String>, (&'a Point, f64)> =
            side.iter().map(|(point, value)| (key(point), (*point, *value))).collect();
        (values.len() == side.len()).then_some(values)
    };
    let (first, second) = (side(of)?, side(to)?);
    let pairs: Vec<(&Point, f64, f64)> =
        first.iter().filter_map(|(key, (point, value))| Some((*point, *value, second.get(key)?.1))).collect();
    let is_whole = match partners {
        Partners::All => pairs.len() == first.len().max(second.len()),
        Partners::Some => true,
        Partners::OfSeeds => {
            let is_seed =
                |axis: &str| free.iter().any(|other| other == axis) || kinds.of_axis(axis) >= Replication::Seed;
            let settings = |points: &mut dyn Iterator<Item = &'a Point>| -> BTreeSet<Vec<String>> {
                points.map(|point| place(point, is_seed)).collect()
            };
            let [of, to] = [&first, &second].map(|side| settings(&mut side.values().map(|(point, _)| *point)));
            let of_pairs = settings(&mut pairs.iter().map(|(point, ..)| *point));
            pairs.len() > 1 && 2 * pairs.len() >= first.len().min(second.len()) && of == of_pairs && to == of_pairs
        }
    };
    (!pairs.is_empty() && is_whole).then_some(pairs)
}
