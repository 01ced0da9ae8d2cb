//! Verdicts under other choices of the analysis: another center, other pairs.

use std::fmt::Write as _;

use serde::Serialize;

use super::{State, Verdict, judge};
use crate::{
    analysis::evidence::Source,
    recipe::{Claim, Rules, Statement, Statistic},
};

/// The verdict of a claim by itself under another choice.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Choice {
    /// The choice in words.
    pub choice: &'static str,
    /// State of the claim.
    pub state: State,
    /// The number that was compared with the expected range.
    pub value: f64,
    /// Its confidence interval.
    pub interval: [f64; 2],
}

/// Adds to the verdicts on means those that other choices give, and a remark where another choice decides otherwise. No verdict changes.
pub(in crate::analysis) fn add_choices(verdicts: &mut [Verdict], source: Source<'_>) {
    for (claim, verdict) in source.study.recipe.claims.iter().zip(verdicts) {
        if claim.invariant || claim.rules.statistic != Statistic::Mean || verdict.interval.is_none() || verdict.certain
        {
            continue;
        }
        // The verdict by itself: the others are not corrected for the number of claims either.
        let own = judge(claim, source).state;
        verdict.choices = others(claim).filter_map(|(choice, rules)| chosen(claim, choice, rules, source)).collect();
        // Another choice may have less power: that it decides nothing is no remark.
        let differs = |choice: &&Choice| choice.state != own && choice.state != State::Undecided;
        let differing = verdict.choices.iter().filter(differs);
        let differing: Vec<String> =
            differing.map(|choice| format!("{} with {}", choice.state.word(), choice.choice)).collect();
        if !differing.is_empty() {
            let _ = write!(verdict.because, "; by other choices: {}", differing.join(", "));
        }
    }
}

/// The other choices for a claim about a mean.
fn others(claim: &Claim) -> impl Iterator<Item = (&'static str, Rules)> {
    let centers = [("the median", Statistic::Quantile(0.5)), ("the mean of the middle half", Statistic::Iqm)];
    let centers = centers.map(|(choice, statistic)| (choice, Rules { statistic, ..claim.rules }));
    let pairs = if claim.rules.independent { "pairs" } else { "independent samples" };
    let is_compared = matches!(claim.statement, Statement::Ratio(..) | Statement::Difference(..));
    let pairs = is_compared.then_some((pairs, Rules { independent: !claim.rules.independent, ..claim.rules }));
    centers.into_iter().chain(pairs)
}

/// The verdict under a choice; `None` without an interval, as a median of fewer than six units.
fn chosen(claim: &Claim, choice: &'static str, rules: Rules, source: Source<'_>) -> Option<Choice> {
    let Verdict { state, value, interval, .. } = judge(&Claim { rules, ..claim.clone() }, source);
    Some(Choice { choice, state, value: value?, interval: interval? })
}
