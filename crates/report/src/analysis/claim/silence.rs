//! Missing evidence in words.

use std::fmt::Write as _;

use crate::{
    analysis::{
        Absence, absence,
        evidence::{Evidence, Side, Silence},
    },
    format::{clean, count},
};

/// Reason for missing evidence, in words.
pub(super) fn spoken(silence: &Silence, metric: &str, sides: &[&Side<'_>]) -> String {
    match silence {
        Silence::NoPoint => "no point has these values".to_owned(),
        Silence::Shared(jobs) => format!("{} on both sides, so they cannot be compared", count(*jobs, "job")),
        Silence::Unlike(reason) => format!("{reason}; `conditions: any` compares them nevertheless"),
        Silence::NoRatio => {
            format!("`{metric}` is not always above zero, so it has no ratio; claim a `difference`")
        }
        Silence::NoStatistic => {
            "a median or an interquartile mean needs independent units, and a median needs pairs".to_owned()
        }
        Silence::Unpaired => "the points cannot be paired one to one".to_owned(),
        Silence::Absent => absent(metric, sides),
    }
}

/// The jobs without a result, in words.
fn absent(metric: &str, sides: &[&Side<'_>]) -> String {
    let all = || sides.iter().flat_map(|side| &side.absent);
    let unmeasured: Vec<&String> = all()
        .filter_map(
            |(absence, ..)| if let Absence::NotMeasured { instead, .. } = absence { Some(instead) } else { None },
        )
        .collect();
    let unreached: Vec<&String> = all()
        .filter_map(|(absence, ..)| if let Absence::NotReached { reason, .. } = absence { Some(reason) } else { None })
        .collect();
    let diverged: Vec<&Absence> =
        all().map(|(absence, ..)| absence).filter(|absence| matches!(absence, Absence::Diverged { .. })).collect();
    let others =
        all().filter_map(|(absence, ..)| if let Absence::OtherUnit(units) = absence { Some(units) } else { None });
    let others: Vec<&String> = others.collect();
    let without_result = all().count() - unmeasured.len() - unreached.len() - diverged.len() - others.len();
    let mut parts = Vec::new();
    if let Some(instead) = unmeasured.first() {
        let jobs = count(unmeasured.len(), "job");
        parts.push(format!("`{}` was not measured by {jobs}, which measured {instead}", clean(metric)));
    }
    if let Some(reason) = unreached.first() {
        let jobs = count(unreached.len(), "job");
        parts.push(format!("`{}` was not reached by {jobs}: {}", clean(metric), clean(reason)));
    }
    if !diverged.is_empty() {
        let (jobs, since) = (count(diverged.len(), "job"), absence::since(diverged.into_iter()));
        parts.push(format!("{jobs} diverged: `{}` is NaN or infinite{since}", clean(metric)));
    }
    if let Some(units) = others.first() {
        parts.push(format!("{} in {units}", count(others.len(), "job")));
    }
    if without_result > 0 {
        parts.push(format!("{} without a result", count(without_result, "job")));
    }
    let text = parts.join(", ");
    let failed = all().find_map(|(absence, ..)| match absence {
        Absence::Failed(message) => Some(format!(" (failed: {})", clean(message))),
        Absence::Stopped(because) => Some(format!(" ({})", clean(because))),
        _ => None,
    });
    text + &failed.unwrap_or_default()
}

/// A note about missing jobs that were left out or filled in.
pub(super) fn lacking(evidence: &Evidence, sides: &[&Side<'_>]) -> String {
    // The sides have the metric's means, not the items.
    if evidence.is_over_items() {
        return String::new();
    }
    let missing_jobs: usize = sides.iter().map(|side| side.absent.len()).sum();
    let filled = sides.iter().flat_map(|side| &side.found).filter(|found| found.by.is_none()).count();
    let mut text = String::new();
    if missing_jobs > 0 {
        let _ = write!(text, ", {} without a result left out", count(missing_jobs, "job"));
    }
    if filled > 0 {
        let _ = write!(text, ", {} without a result counted as the worst", count(filled, "job"));
    }
    text
}
