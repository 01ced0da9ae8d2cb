//! Claims: the verdict of a run on a recipe's statements about metrics.
//!
//! A claim is decided by a 95 % confidence interval: supported if the whole interval is as expected, refuted if none of
//! it is, undecided in between. Points that agree on every axis except those that the claim names are compared in pairs
//! (equal seeds); a ratio is that of geometric means.

mod judge;

use std::collections::BTreeMap;

use serde::Serialize;

use self::judge::Judge;

use crate::{
    format::clean,
    plan::{JobId, Point, Study, resolved, selected},
    recipe::{Claim, Side, Statement},
    store::Measured,
};

/// Result of a claim.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Verdict {
    /// The claim's name.
    pub claim: String,
    /// The statement in words.
    pub says: Option<String>,
    /// State of the claim.
    pub state: State,
    /// The reason: the numbers, or what is missing for a decision.
    pub because: String,
    /// The number that was compared with the expected range; an order has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// Its confidence interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<[f64; 2]>,
    /// The paper's measurement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paper: Option<f64>,
    /// The devices that the jobs ran on.
    pub devices: Vec<String>,
    /// True if more seeds may decide it.
    #[serde(skip)]
    pub open: bool,
}

/// State of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// The whole interval is as expected.
    Supported,
    /// No part of the interval is as expected.
    Refuted,
    /// The measurements do not decide the claim.
    Undecided,
}

impl Verdict {
    /// A row of a table: the claim, the verdict, the reason and the paper's value.
    pub(crate) fn row(&self) -> [String; 4] {
        let claim = self.says.as_ref().unwrap_or(&self.claim).clone();
        let paper = self.paper.map(|paper| paper.to_string()).unwrap_or_default();
        [claim, self.state.word().to_owned(), self.because.clone(), paper]
    }
}

impl State {
    /// The word for the state.
    pub fn word(self) -> &'static str {
        match self {
            Self::Supported => "supported",
            Self::Refuted => "refuted",
            Self::Undecided => "undecided",
        }
    }

    /// The sign for the state.
    pub fn sign(self) -> char {
        match self {
            Self::Supported => '✓',
            Self::Refuted => '✗',
            Self::Undecided => '?',
        }
    }
}

/// Judges a claim by the records of its study.
pub(crate) fn judge(claim: &Claim, study: &Study, measured: &BTreeMap<JobId, Measured>) -> Verdict {
    let mut verdict = Verdict {
        claim: claim.name.value.clone(),
        says: claim.says.as_deref().map(|says| clean(says).into_owned()),
        state: State::Undecided,
        because: String::new(),
        value: None,
        interval: None,
        paper: claim.paper,
        devices: Vec::new(),
        open: false,
    };
    let looks =
        1 + selected_jobs(claim, study).filter_map(|(_, job)| study.rounds.get(&job)).max().copied().unwrap_or(0);
    let judge = Judge { study, measured, hardware: &claim.hardware, looks };
    let judged = match &claim.statement {
        Statement::Value(comparison, expect) => judge.value(comparison, *expect, &mut verdict),
        Statement::Ratio(comparison, expect) => judge.compare(comparison, *expect, true, &mut verdict),
        Statement::Difference(comparison, expect) => judge.compare(comparison, *expect, false, &mut verdict),
        Statement::Order(order) => judge.order(order, &mut verdict),
    };
    if let Err(reason) = judged {
        verdict.because = reason;
    }
    verdict
}

/// A side in words: the values of its axes, or its step if it has no axes.
pub(crate) fn side_of(study: &Study, side: &Side) -> String {
    let values: Vec<String> = resolved(&study.recipe, &side.only)
        .iter()
        .flat_map(|(_, values)| values.iter().map(ToString::to_string))
        .collect();
    if values.is_empty() { study.recipe.steps[side.step].name.value.clone() } else { values.join(", ") }
}

/// The points that a claim selects, with their jobs.
pub(crate) fn selected_jobs<'a>(claim: &Claim, study: &'a Study) -> impl Iterator<Item = (&'a Point, JobId)> {
    claim.selections().into_iter().flat_map(move |(step, selection)| {
        let only = resolved(&study.recipe, &selection);
        let points = study.steps[step].iter().filter(|(point, _)| selected(point, &only));
        points.map(|(point, job)| (point, *job)).collect::<Vec<_>>()
    })
}
