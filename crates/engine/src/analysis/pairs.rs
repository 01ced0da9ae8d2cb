//! The axes that distinguish the sides of a comparison.

use crate::recipe::{Dimension, Step};

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
