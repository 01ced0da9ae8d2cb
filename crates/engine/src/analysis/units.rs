//! Independent units of measurements: pairs, seeds, or the values of other axes with seeds averaged within each.

use std::collections::{BTreeMap, BTreeSet};

use sweep_job::Precision;

use crate::{format::count, plan::Point};

/// The axis whose values repeat a job with other random numbers.
pub(super) const SEED: &str = "seed";

/// Independent units of a sample.
pub(super) struct Units {
    pub(super) values: Vec<f64>,
    /// Least number of measurements in a unit.
    pub(super) per: usize,
    /// The axes whose values are the units; none if seeds are.
    pub(super) axes: Vec<String>,
}

impl Units {
    /// The precision of a unit, given that of a measurement.
    pub(super) fn precision(&self, precision: Precision) -> Precision {
        precision.scaled((self.per as f64).sqrt().recip())
    }

    /// Number and kind of the units.
    pub(super) fn basis(&self, word: &str) -> String {
        count(self.values.len(), word)
    }

    pub(super) fn note(&self) -> Option<String> {
        (!self.axes.is_empty()).then(|| {
            let axes: Vec<String> = self.axes.iter().map(|axis| format!("`{axis}`")).collect();
            let seeds = if self.per > 1 { ", seeds averaged within each" } else { "" };
            format!("over the values of {}{seeds}", axes.join(" and "))
        })
    }
}

/// The values of independent units by the axes that do not distinguish rows: seeds, or the values of other axes.
pub(super) fn unit_values(values: &[(&Point, f64)], apart: &[String]) -> BTreeMap<Vec<String>, f64> {
    let is_apart = |axis: &str| apart.iter().any(|other| other == axis);
    let mut levels: BTreeMap<Vec<String>, Vec<f64>> = BTreeMap::new();
    let mut seeds: BTreeMap<Vec<String>, Vec<f64>> = BTreeMap::new();
    for (point, value) in values {
        levels.entry(place(point, |axis| is_apart(axis) || axis == SEED)).or_default().push(*value);
        seeds.entry(place(point, is_apart)).or_default().push(*value);
    }
    let groups = if levels.len() > 1 { levels } else { seeds };
    groups.into_iter().map(|(key, values)| (key, values.iter().sum::<f64>() / values.len() as f64)).collect()
}

/// A value of the axes that do not distinguish the sides.
pub(super) fn place(point: &Point, without: impl Fn(&str) -> bool) -> Vec<String> {
    let shared = point.values.iter().filter(|(axis, _)| !without(axis));
    let mut shared: Vec<String> = shared.map(|(axis, value)| format!("{axis}={:?}", value.value)).collect();
    shared.sort_unstable();
    shared
}

/// Averages repetitions: those along `repeats` if there are several seeds, and seeds if another axis varies.
pub(super) fn reduce(values: &[(&Point, f64)], apart: &[String], repeats: Option<&str>) -> Units {
    let is_apart = |axis: &str| apart.iter().any(|other| other == axis);
    let group = |without: &dyn Fn(&str) -> bool| {
        let mut groups: BTreeMap<Vec<String>, Vec<f64>> = BTreeMap::new();
        for (point, value) in values {
            groups.entry(place(point, without)).or_default().push(*value);
        }
        groups
    };
    let units = |groups: BTreeMap<Vec<String>, Vec<f64>>, axes: Vec<String>| Units {
        per: groups.values().map(Vec::len).min().unwrap_or(1),
        values: groups.into_values().map(|values| values.iter().sum::<f64>() / values.len() as f64).collect(),
        axes,
    };
    let is_repetition = |axis: &str| axis == SEED || repeats == Some(axis);
    let levels = group(&|axis| is_apart(axis) || is_repetition(axis));
    if levels.len() > 1 {
        let mut seen: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        for (axis, value) in values.iter().flat_map(|(point, _)| &point.values) {
            if !is_apart(axis) && !is_repetition(axis) {
                seen.entry(axis).or_default().insert(format!("{:?}", value.value));
            }
        }
        let varied = seen.into_iter().filter(|(_, values)| values.len() > 1).map(|(axis, _)| axis.to_owned());
        return units(levels, varied.collect());
    }
    let seeds = group(&|axis| is_apart(axis) || repeats == Some(axis));
    if repeats.is_some() && seeds.len() > 1 {
        return units(seeds, Vec::new());
    }
    Units { values: values.iter().map(|(_, value)| *value).collect(), per: 1, axes: Vec::new() }
}

/// Pairs the values of points that agree on every axis except those that distinguish the sides; `None` if they cannot
/// be paired one to one. Values without a partner are dropped if the sides may have different points (`partial`).
/// Otherwise they show that the sides cannot be paired.
pub(super) fn pairs<'a>(
    of: &[(&'a Point, f64)],
    to: &[(&'a Point, f64)],
    apart: &[String],
    partial: bool,
) -> Option<Vec<(&'a Point, f64, f64)>> {
    let side = |side: &[(&'a Point, f64)]| {
        let key = |point: &Point| place(point, |axis| apart.iter().any(|other| other == axis));
        let values: BTreeMap<Vec<String>, (&'a Point, f64)> =
            side.iter().map(|(point, value)| (key(point), (*point, *value))).collect();
        (values.len() == side.len()).then_some(values)
    };
    let (first, second) = (side(of)?, side(to)?);
    let pairs: Vec<(&Point, f64, f64)> =
        first.iter().filter_map(|(key, (point, value))| Some((*point, *value, second.get(key)?.1))).collect();
    let whole = partial || pairs.len() == first.len().max(second.len());
    (!pairs.is_empty() && whole).then_some(pairs)
}
