//! The axes that distinguish the sides of a comparison.

use sweep_job::Value;

use crate::recipe::{Dimension, Step};

/// The axes that distinguish the sides of a comparison: the axes that it names, and axes that are zipped with them.
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

/// The axes except axes on which both sides have the same several values, such as the same seeds.
pub(super) fn without_same(mut axes: Vec<String>, [of, to]: &[Vec<(&str, Vec<Value>)>; 2]) -> Vec<String> {
    let is_same = |axis: &str| of.iter().any(|entry| entry.0 == axis && entry.1.len() > 1 && to.contains(entry));
    axes.retain(|axis| !is_same(axis));
    axes
}
