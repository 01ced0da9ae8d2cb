//! Verdicts under other choices of the analysis: another center, other pairs, another number of each curve, all seeds.

use std::{collections::BTreeSet, fmt::Write as _};

use serde::Serialize;
use sweep_job::{Curve, Metric};

use super::{State, Verdict, judge_alone, seeds, selected_jobs};
use crate::{
    analysis::{
        curves::{Curves, Reading},
        evidence::Source,
    },
    format::count,
    plan::JobId,
    recipe::{Claim, Measure, Rules, Statistic},
    record::Key,
};

/// Most records of the claims of a study whose curves are read.
const MAX_RECORDS: usize = 1000;

/// The verdict of a claim by itself under another choice.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Choice {
    /// The choice in words.
    pub choice: String,
    /// State of the claim.
    pub state: State,
    /// The number that was compared with the expected range.
    pub value: f64,
    /// Its confidence interval.
    pub interval: [f64; 2],
}

/// The records and metrics whose curves the other choices need; none if the claims have too many jobs.
pub(in crate::analysis) fn curves_of_claims(source: Source<'_>) -> BTreeSet<(Key, &str)> {
    let claims = source.study.recipe.claims.iter().filter(|claim| has_choices(claim));
    let jobs = claims.flat_map(|claim| selected_jobs(claim, source.study).map(|(_, job)| (job, claim.metric())));
    let curve_keys: BTreeSet<(Key, &str)> =
        jobs.filter_map(|(job, metric)| Some((source.measured.get(&job)?.key, metric))).collect();
    if curve_keys.len() > MAX_RECORDS { BTreeSet::new() } else { curve_keys }
}

/// Adds the verdicts under other choices to the verdicts on means, with a remark if another choice decides differently. No verdict changes.
pub(in crate::analysis) fn add_choices(verdicts: &mut [Verdict], source: Source<'_>, curves: &Curves) {
    for (claim, verdict) in source.study.recipe.claims.iter().zip(verdicts) {
        if !has_choices(claim) || verdict.interval.is_none() || verdict.certain {
            continue;
        }
        // The verdict by itself: the others are not corrected for the number of claims either.
        let own_verdict = judge_alone(claim, source);
        let by_rules =
            others(claim).filter_map(|(choice, rules)| chosen(&Claim { rules, ..claim.clone() }, choice, source));
        let all = by_rules.chain(readings(claim, source, curves)).chain(over_all(claim, source));
        // A rule that leaves nothing out is not another choice.
        verdict.choices = all.filter(|choice| Some(choice.interval) != own_verdict.interval).collect();
        // Another choice may have less power, so an undecided choice gives no remark.
        let differs = |choice: &&Choice| choice.state != own_verdict.state && choice.state != State::Undecided;
        let differing_choices = verdict.choices.iter().filter(differs);
        let differing_texts: Vec<String> =
            differing_choices.map(|choice| format!("{} with {}", choice.state.word(), choice.choice)).collect();
        if !differing_texts.is_empty() {
            let _ = write!(verdict.because, "; by other choices: {}", differing_texts.join(", "));
        }
    }
}

impl Verdict {
    /// The number of other choices that decide alike, in words; `None` without other choices.
    pub fn agreement(&self) -> Option<String> {
        let alike = self.choices.iter().filter(|choice| choice.state == self.state).count();
        let choices = self.choices.len();
        (choices > 0).then(|| format!("other choices with the same verdict: {alike} of {choices}"))
    }
}

/// True for a claim about a mean that is not true by construction.
fn has_choices(claim: &Claim) -> bool {
    !claim.invariant
        && claim.rules.statistic == Statistic::Mean
        && !matches!(claim.statement.number(), Some((_, Measure::Law(_))))
}

/// The other rules for a claim about a mean.
fn others(claim: &Claim) -> impl Iterator<Item = (&'static str, Rules)> {
    let centers = [
        ("the median", Statistic::Quantile(0.5)),
        ("the interquartile mean", Statistic::Iqm),
        ("the mean without outliers", Statistic::WithoutOutliers),
    ];
    let centers = centers.map(|(choice, statistic)| (choice, Rules { statistic, ..claim.rules }));
    let pairs = if claim.rules.independent { "pairs" } else { "independent samples" };
    let pairs =
        claim.statement.compared().map(|_| (pairs, Rules { independent: !claim.rules.independent, ..claim.rules }));
    centers.into_iter().chain(pairs)
}

/// The verdicts with other numbers of the curves of which the metric is one, such as the last value or the best one.
fn readings(claim: &Claim, source: Source<'_>, curves: &Curves) -> Vec<Choice> {
    let metric = claim.metric();
    let step = claim.selections().first().map_or(0, |(step, _)| *step);
    let Some(better) = source.traits(step, metric).better else { return Vec::new() };
    let of_job = |(_, job)| -> Option<(JobId, &Curve, Metric)> {
        let by = source.measured.get(&job)?;
        Some((job, curves.get(&(by.key, metric.to_owned()))?, *by.metrics.get(metric)?))
    };
    let measured = selected_jobs(claim, source.study).filter(|(_, job)| source.measured.contains_key(job));
    // A job without the curve would be read otherwise than the others.
    let Some(jobs) = measured.map(of_job).collect::<Option<Vec<_>>>().filter(|jobs| !jobs.is_empty()) else {
        return Vec::new();
    };
    let is_own = |reading: &Reading| jobs.iter().all(|(_, curve, found)| reading.is(curve, *found, better));
    if !Reading::ALL.iter().any(is_own) {
        return Vec::new();
    }
    let read = |reading: Reading| {
        let mut measured = source.measured.clone();
        for (job, curve, number) in &jobs {
            let value = reading.of(curve, *number, better)?;
            measured.get_mut(job)?.metrics.insert(metric.to_owned(), Metric { value, ..*number });
        }
        chosen(claim, &reading.words(better), Source { measured: &measured, ..source })
    };
    Reading::ALL.into_iter().filter(|reading| !is_own(reading)).filter_map(read).collect()
}

/// The verdict over all seeds that were measured, if the claim leaves out some of them.
fn over_all(claim: &Claim, source: Source<'_>) -> Option<Choice> {
    let over_all = seeds::over_all(claim, source)?;
    of_verdict(format!("all {} that were measured", count(over_all.seeds, "seed")), &over_all.verdict)
}

/// The verdict under a choice; `None` without an interval, as a median of fewer than six units.
fn chosen(claim: &Claim, choice: &str, source: Source<'_>) -> Option<Choice> {
    of_verdict(choice.to_owned(), &judge_alone(claim, source))
}

fn of_verdict(choice: String, verdict: &Verdict) -> Option<Choice> {
    let Verdict { state, value, interval, .. } = verdict;
    Some(Choice { choice, state: *state, value: (*value)?, interval: (*interval)? })
}
