//! Pairs of measurements at points that differ only in the compared axis, for example with equal seeds.

use std::collections::BTreeMap;

use crate::{
    plan::Point,
    recipe::{Dimension, Step},
};

/// The axes that distinguish the sides of a comparison: those that it names, and those zipped with one of them.
pub(crate) fn apart(step: &Step, named: &[&str]) -> Vec<String> {
    let mut apart: Vec<String> = named.iter().map(|name| (*name).to_owned()).collect();
    for dimension in &step.matrix.dimensions {
        let axes = dimension.axes();
        if matches!(dimension, Dimension::Zip(_)) && axes.iter().any(|axis| named.contains(&axis.value.as_str())) {
            apart.extend(axes.iter().map(|axis| axis.value.clone()));
        }
    }
    apart
}

/// Pairs the values of points that agree on every axis except those that distinguish the sides; `None` if they cannot
/// be paired one to one. Values without a partner are dropped if some jobs have no result (`partial`). Otherwise they
/// show that the sides cannot be paired.
pub(crate) fn pairs(
    of: &[(&Point, f64)],
    to: &[(&Point, f64)],
    apart: &[String],
    partial: bool,
) -> Option<Vec<(f64, f64)>> {
    let key = |point: &Point| {
        let shared = point.values.iter().filter(|(axis, _)| !apart.contains(axis));
        let mut shared: Vec<String> = shared.map(|(axis, value)| format!("{axis}={:?}", value.value)).collect();
        shared.sort_unstable();
        shared
    };
    let side = |side: &[(&Point, f64)]| {
        let values: BTreeMap<_, _> = side.iter().map(|(point, value)| (key(point), *value)).collect();
        (values.len() == side.len()).then_some(values)
    };
    let (first, second) = (side(of)?, side(to)?);
    let pairs: Vec<(f64, f64)> = first.iter().filter_map(|(key, value)| Some((*value, *second.get(key)?))).collect();
    let whole = partial || pairs.len() == first.len().max(second.len());
    (!pairs.is_empty() && whole).then_some(pairs)
}
