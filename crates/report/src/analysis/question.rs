//! Questions about the sides of a comparison, and the reasons for missing answers.

use super::{
    Absence,
    kinds::Kinds,
    source::{Found, Side},
};
use crate::{
    plan::{JobId, Point},
    recipe::{MetricTraits, Missing, Rules},
    stats::Better,
    store::Measured,
};

/// Question about the sides of a comparison.
pub(super) struct Question<'q> {
    pub(super) traits: MetricTraits,
    /// The axes that distinguish the sides.
    pub(super) apart: Vec<String>,
    /// The kinds of replication of the other axes.
    pub(super) kinds: Kinds,
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
    /// The statistic has no interval for units that are not independent, or not paired.
    NoStatistic,
}

/// Applies the rule for missing results: fills them in, or leaves them out, or gives up.
pub(super) fn complete(sides: &mut [&mut Side<'_>], question: &Question<'_>) -> Result<(), Silence> {
    if sides.iter().any(|side| side.found.is_empty() && side.absent.is_empty()) {
        return Err(Silence::NoPoint);
    }
    // Results of configurations that a search stopped are not missing at random, so no rule can replace them.
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
                let (lost, open_points) =
                    std::mem::take(&mut side.absent).into_iter().partition(|(absence, ..)| absence.is_final());
                let lost: Vec<(Absence, JobId, &Point)> = lost;
                side.absent = open_points;
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

/// Checks the conditions of times, rates and utilizations; returns footnotes.
pub(super) fn like(sides: &[&Side<'_>], traits: MetricTraits, rules: Rules) -> Result<Vec<String>, Silence> {
    if !traits.depends_on_load {
        return Ok(Vec::new());
    }
    if rules.any_conditions {
        return Ok(vec!["whatever the conditions of the measurement (`conditions: any`)".to_owned()]);
    }
    let sides: Vec<Vec<&Measured>> = sides.iter().map(|side| side.records()).collect();
    let sides: Vec<&[&Measured]> = sides.iter().map(Vec::as_slice).collect();
    let comparison = super::conditions::comparable(&sides);
    match comparison.reason {
        Some(reason) => Err(Silence::Unlike(reason)),
        None => Ok(comparison.notes),
    }
}
