//! The jobs that a claim is about, and the pairs in which it compares them.

use std::collections::BTreeMap;

use sweep_job::Value;

use super::side_of;
use crate::{
    analysis::{
        kinds::Kinds,
        pairs::{apart, without_same},
        units::{free_axes, place},
    },
    plan::{JobId, Point, Study, resolved, selected},
    recipe::{Claim, Comparison, Names, Selection, Side, Statement},
};

/// The jobs of a claim.
#[derive(Debug, PartialEq, Eq)]
pub struct ClaimJobs {
    /// The metric.
    pub metric: String,
    /// The jobs of each side, with the side in words; the sides of an order are the values of its axis.
    pub sides: Vec<(String, Vec<JobId>)>,
    /// Jobs of the first and of the second side that differ only in the compared axes, such as the jobs of a seed. Empty if the claim
    /// compares means of independent samples, or if the points cannot be paired one to one.
    pub pairs: Vec<[JobId; 2]>,
    /// True for a ratio.
    pub is_ratio: bool,
}

/// Finds the jobs of a claim.
pub fn jobs_of(claim: &Claim, study: &Study) -> ClaimJobs {
    let is_ratio = claim.statement.ratio().is_some();
    match &claim.statement {
        Statement::Number(comparison, ..) => {
            let sides = comparison.sides();
            let of_side = |side: &Side| (side_of(study, side), jobs(study, side.step, &points_of(study, side)));
            let pairs = if claim.rules.independent { Vec::new() } else { pairs(comparison, study).unwrap_or_default() };
            ClaimJobs { metric: comparison.metric.value.clone(), sides: sides.map(of_side).collect(), pairs, is_ratio }
        }
        Statement::Order(order) => {
            let params = &study.recipe.params;
            let values = order.ascending.iter().filter_map(|value| value.resolve(params, &Names::new()));
            let side = |value: Value| {
                let mut only = resolved(&study.recipe, &order.only);
                only.push((&order.axis.value, vec![value.clone()]));
                let points = study.steps[order.step].iter().filter(|(point, _)| selected(point, &only));
                (value.to_string(), points.map(|(_, job)| *job).collect())
            };
            let sides = values.map(|value| side(value.value)).collect();
            ClaimJobs { metric: order.metric.value.clone(), sides, pairs: Vec::new(), is_ratio }
        }
    }
}

/// The indices of a side's points in its step.
fn points_of(study: &Study, side: &Side) -> Vec<usize> {
    let only = resolved(&study.recipe, &side.only);
    let points = study.steps[side.step].iter().enumerate();
    points.filter(|(_, (point, _))| selected(point, &only)).map(|(index, _)| index).collect()
}

fn jobs(study: &Study, step: usize, points: &[usize]) -> Vec<JobId> {
    points.iter().map(|index| study.steps[step][*index].1).collect()
}

/// The pairs of a comparison; `None` if points cannot be paired one to one.
fn pairs(comparison: &Comparison, study: &Study) -> Option<Vec<[JobId; 2]>> {
    let (of, to) = (&comparison.of, comparison.to.as_ref()?);
    let named = |step: usize, only: &Selection| {
        let names: Vec<&str> = only.0.iter().map(|(name, _)| name.value.as_str()).collect();
        apart(&study.recipe.steps[step], &names)
    };
    let axes = [named(of.step, &of.only), named(to.step, &to.only)].concat();
    let axes = without_same(axes, &[of, to].map(|side| resolved(&study.recipe, &side.only)));
    let points = |side: &Side| -> Vec<&Point> {
        points_of(study, side).into_iter().map(|index| &study.steps[side.step][index].0).collect()
    };
    let axes = free_axes(&points(of), &points(to), &axes, &Kinds::of(study, &[of.step, to.step]));
    let by_place = |side: &Side| -> Option<BTreeMap<Vec<String>, JobId>> {
        let points = points_of(study, side);
        let key = |point: &Point| place(point, |axis| axes.iter().any(|other| other == axis));
        let found = points.iter().map(|index| &study.steps[side.step][*index]);
        let found: BTreeMap<Vec<String>, JobId> = found.map(|(point, job)| (key(point), *job)).collect();
        (found.len() == points.len()).then_some(found)
    };
    let (first, second) = (by_place(of)?, by_place(to)?);
    first.keys().eq(second.keys()).then(|| first.into_values().zip(second.into_values()).map(|(a, b)| [a, b]).collect())
}
