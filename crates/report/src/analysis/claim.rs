//! Claims: the verdict of a run on a recipe's statements about metrics.
//!
//! A claim is decided by a 95 % confidence interval: supported if the whole interval is in the expected range, refuted if no part of it is,
//! tied if its distance from a bound is negligible, undecided otherwise. Points that agree on every axis except the axes that the claim
//! names are compared in pairs (equal seeds); a ratio is a ratio of geometric means. Missing results and unlike conditions leave it
//! undecided.

mod against;
mod choices;
mod items;
mod jobs;
mod judge;
pub(super) mod law;
mod rates;
pub(super) mod scale;
mod seeds;
mod silence;
mod tables;

use std::fmt::Write as _;

use serde::Serialize;
use sweep_job::Unit;

pub(super) use self::choices::{add_choices, curves_of_claims};
use self::judge::Judge;
pub use self::{
    choices::Choice,
    jobs::{ClaimJobs, jobs_of},
};
use super::{adopted, evidence::Source, no_interval::NoInterval};
use crate::{
    format::{clean, count},
    plan::{JobId, Point, Study, resolved, selected},
    recipe::{Claim, Expectation, Family, Measure, Recipe, Search, Side, Statement},
    stats::{LEVEL, holm},
};

/// Result of a claim.
#[expect(clippy::struct_excessive_bools, reason = "facts that do not depend on each other")]
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Verdict {
    /// The claim's name.
    pub claim: String,
    /// The statement in words.
    pub says: Option<String>,
    /// State of the claim.
    pub state: State,
    /// The reason: the numbers, or the lack that prevents a decision.
    pub because: String,
    /// The number that was compared with the expected range; an order has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// Its confidence interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<[f64; 2]>,
    /// The unit of the number and of its interval, unless it is the base unit of a metric that a task declares.
    #[serde(skip_serializing_if = "is_plain")]
    pub unit: Unit,
    /// The expected range in words; an order has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
    /// The paper's measurement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paper: Option<f64>,
    /// False if the interval excludes the paper's measurement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paper_within: Option<bool>,
    /// The verdicts by itself under other choices of the analysis.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<Choice>,
    /// The devices that the jobs ran on.
    pub devices: Vec<String>,
    /// The probability that chance alone would decide it so; corrected if the recipe corrects for the number of claims.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p: Option<f64>,
    /// True for a claim that is true by construction.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub invariant: bool,
    /// The lack that keeps an undecided claim from being decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lacks: Option<Lack>,
    /// The scale of the recipe; absent for its plain values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale: Option<String>,
    /// True if more seeds may decide it.
    #[serde(skip)]
    pub open: bool,
    /// True if its number is certain, because its metric is deterministic.
    #[serde(skip)]
    pub certain: bool,
    /// Number of claims among which the verdict is corrected.
    #[serde(skip)]
    pub family: usize,
    /// Number of comparisons among which tables of the same pair correct its difference.
    #[serde(skip)]
    pub compared: usize,
    /// The reason why its number has no interval.
    #[serde(skip)]
    pub no_interval: Option<NoInterval>,
    /// True if a search chose the compared configurations by the same results, for which the level is not corrected.
    #[serde(skip)]
    pub searched: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_plain(unit: &Unit) -> bool {
    *unit == Unit::One
}

/// State of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// The whole interval is in the expected range.
    Supported,
    /// No part of the interval is in the expected range.
    Refuted,
    /// The interval contains a bound, and its distance from the bound is negligible.
    Tied,
    /// The measurements do not decide the claim.
    Undecided,
}

/// Missing condition of a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lack {
    /// The claim is about other hardware.
    Hardware,
    /// The claim is about larger sizes, or about other data.
    Scale,
    /// There are too few samples for the noise.
    Samples,
    /// Jobs have no result, or no comparable one.
    Results,
}

impl Verdict {
    /// The word for its state; for an invariant, `holds` or `broken`.
    pub fn word(&self) -> &'static str {
        match (self.invariant, self.state) {
            (true, State::Supported) => "holds",
            (true, State::Refuted) => "broken",
            (_, state) => state.word(),
        }
    }

    /// False if the claim is about other hardware or other sizes.
    fn applies(&self) -> bool {
        !matches!(self.lacks, Some(Lack::Hardware | Lack::Scale))
    }

    /// A row of a table: the claim, the verdict, the reason and the paper's value.
    pub fn row(&self) -> [String; 4] {
        let claim = self.says.as_ref().unwrap_or(&self.claim).clone();
        let paper = self.paper.map(|paper| paper.to_string()).unwrap_or_default();
        [claim, self.word().to_owned(), self.because.clone(), paper]
    }
}

impl State {
    /// The word for the state.
    pub fn word(self) -> &'static str {
        match self {
            Self::Supported => "supported",
            Self::Refuted => "refuted",
            Self::Tied => "tied",
            Self::Undecided => "undecided",
        }
    }

    /// The sign for the state.
    pub fn sign(self) -> char {
        match self {
            Self::Supported => '✓',
            Self::Refuted => '✗',
            Self::Tied => '=',
            Self::Undecided => '?',
        }
    }
}

/// The number of verdicts by state, in words; invariants are counted separately. `None` if there is no verdict.
pub fn tally<'a>(verdicts: impl IntoIterator<Item = &'a Verdict>) -> Option<String> {
    let (mut claims, mut invariants) = ([0; 4], [0; 4]);
    for verdict in verdicts {
        let counts = if verdict.invariant { &mut invariants } else { &mut claims };
        counts[verdict.state as usize] += 1;
    }
    let part = |what: &str, counts: [usize; 4], words: [&str; 4]| {
        let all: usize = counts.iter().sum();
        let states = counts.iter().zip(words).filter(|(number, _)| **number > 0);
        let states: Vec<String> = states.map(|(number, word)| format!("{number} {word}")).collect();
        (all > 0).then(|| format!("{}: {}", count(all, what), states.join(", ")))
    };
    let parts = [
        part("claim", claims, ["supported", "refuted", "tied", "undecided"]),
        part("invariant", invariants, ["holding", "broken", "tied", "undecided"]),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// Judges a claim by the records of its study, with a remark on seeds that it leaves out.
pub(crate) fn judge(claim: &Claim, source: Source<'_>) -> Verdict {
    let mut verdict = judge_alone(claim, source);
    if let Some(over_all) = seeds::over_all(claim, source) {
        let _ = write!(verdict.because, "; {}", over_all.words());
    }
    verdict
}

/// The range that a claim expects, in words, in the claim's unit.
fn in_words(expect: Expectation) -> String {
    let unit = expect.unit.filter(|unit| !unit.symbol().is_empty());
    unit.map_or_else(|| expect.words(), |unit| format!("{} {unit}", expect.words()))
}

/// Judges a claim by the seeds that it selects.
fn judge_alone(claim: &Claim, source: Source<'_>) -> Verdict {
    let mut verdict = Verdict {
        claim: claim.name.value.clone(),
        says: claim.says.as_deref().map(|text| clean(text).into_owned()),
        state: State::Undecided,
        because: String::new(),
        value: None,
        interval: None,
        unit: Unit::One,
        expected: claim.expectation().map(in_words),
        paper: claim.paper,
        paper_within: None,
        choices: Vec::new(),
        devices: Vec::new(),
        p: None,
        invariant: claim.invariant,
        lacks: None,
        scale: source.study.recipe.scale.clone(),
        open: false,
        certain: false,
        family: family_size(claim, &source.study.recipe),
        compared: tables::comparisons(claim, source),
        no_interval: None,
        searched: false,
    };
    let judge = Judge { source, hardware: &claim.hardware, rules: claim.rules };
    let result = match &claim.statement {
        Statement::Number(comparison, measure, expect) => match measure {
            Measure::Value => judge.value(comparison, *expect, &mut verdict),
            Measure::Ratio => judge.compare(comparison, *expect, true, &mut verdict),
            Measure::Difference => judge.compare(comparison, *expect, false, &mut verdict),
            Measure::Law(law) => judge.law(comparison, law, *expect, &mut verdict),
        },
        Statement::Order(order) => judge.order(order, &mut verdict),
    };
    if let Err(reason) = result {
        verdict.because = reason;
    }
    if let Some(remark) = searched(claim, &source.study.recipe) {
        let _ = write!(verdict.because, "; {remark}");
        verdict.searched = true;
    }
    if let Some(adopted) = adopted::note(selected_jobs(claim, source.study).map(|(_, job)| job), source.measured) {
        let _ = write!(verdict.because, "; {adopted}");
    }
    // Reported in addition to the wrong hardware, because a claim may be about other sizes, too.
    if let Some(reason) = scale::too_small(claim, source) {
        let (because, lacks) = match verdict.lacks {
            Some(lacks) => (format!("{}; {reason}", verdict.because), lacks),
            None => (reason, Lack::Scale),
        };
        verdict = Verdict {
            because,
            lacks: Some(lacks),
            state: State::Undecided,
            value: None,
            interval: None,
            paper_within: None,
            p: None,
            open: false,
            certain: false,
            ..verdict
        };
    } else if verdict.state == State::Undecided && verdict.lacks.is_none() {
        verdict.lacks = Some(if verdict.open { Lack::Samples } else { Lack::Results });
    }
    verdict
}

/// A remark on a claim about the results of a search, which were chosen by the same results.
fn searched(claim: &Claim, recipe: &Recipe) -> Option<String> {
    let selects = |step: &usize| recipe.steps[*step].search.as_ref().is_some_and(Search::selects);
    let step = claim.selections().into_iter().map(|(step, _)| step).find(selects)?;
    let name = &recipe.steps[step].name.value;
    let confirms = recipe.steps[step].search.as_ref().is_some_and(|search| search.confirm.is_some());
    let remedy = if confirms {
        format!("`{name}-confirmed` has seeds that the search has not used")
    } else {
        "`confirm` in `search` measures the best configurations again with other seeds".to_owned()
    };
    Some(format!(
        "the results of `{name}` decided which jobs ran: the best results are better than a repetition would be, and \
         wrong verdicts on them are more frequent than 5 %; {remedy}"
    ))
}

/// The verdicts on a recipe's claims, corrected for their number if the recipe requests it.
pub(crate) fn judge_all(source: Source<'_>) -> Vec<Verdict> {
    let recipe = &source.study.recipe;
    let mut verdicts: Vec<Verdict> = recipe.claims.iter().map(|claim| judge(claim, source)).collect();
    if recipe.family == Family::Holm {
        correct(&mut verdicts);
    }
    tables::agree(&mut verdicts, source);
    verdicts
}

/// The number of claims among which the verdict on `claim` is corrected; 1 without a correction.
pub(super) fn family_size(claim: &Claim, recipe: &Recipe) -> usize {
    let claims = || recipe.claims.iter().filter(|claim| !claim.invariant).count();
    if claim.invariant || recipe.family != Family::Holm { 1 } else { claims() }
}

/// Corrects verdicts for their number (Holm). Invariants and claims about other hardware or sizes do not count; claims
/// without a result count as undecided.
fn correct(verdicts: &mut [Verdict]) {
    let mut family: Vec<&mut Verdict> =
        verdicts.iter_mut().filter(|verdict| verdict.applies() && !verdict.invariant).collect();
    let chance: Vec<f64> = family.iter().map(|verdict| verdict.p.unwrap_or(1.0)).collect();
    let claims = count(family.len(), "claim");
    for (verdict, p) in family.iter_mut().zip(holm(&chance)) {
        if verdict.p.is_some() {
            verdict.p = Some(p);
        }
        if verdict.state != State::Undecided && p >= 1.0 - LEVEL {
            let word = verdict.state.word();
            verdict.state = State::Undecided;
            verdict.lacks = Some(Lack::Samples);
            verdict.open = true;
            let _ = write!(
                verdict.because,
                "; {word} by itself, but not after the correction for {claims} (Holm, p = {p:.3})"
            );
        }
    }
}

/// The number of claims, and the expected number of verdicts that are wrong by chance; `None` if no claim depends on chance.
pub fn chance_of_error(verdicts: &[Verdict], family: Family) -> Option<String> {
    let claims = verdicts.iter().filter(|verdict| !verdict.invariant);
    let uncertain = claims.filter(|verdict| verdict.interval.is_some() || verdict.p.is_some());
    let judged: Vec<bool> = uncertain.filter(|verdict| !verdict.certain).map(|verdict| verdict.searched).collect();
    let searched = judged.iter().filter(|searched| **searched).count();
    let counted = judged.len() - searched;
    let of = |number: usize| (count(number, "claim"), if number == 1 { "was" } else { "were" });
    let by_samples = (counted > 0).then(|| {
        let (claims, were) = of(counted);
        match family {
            Family::Holm => {
                format!("{claims} {were} judged by samples; the probability of any wrong verdict is at most 5 % (Holm)")
            }
            Family::None => {
                let most = counted as f64 * (1.0 - LEVEL);
                format!(
                    "{claims} {were} judged by samples, each with a probability of a wrong verdict of at most 5 %: chance gives at most {most:.2} wrong verdicts on average"
                )
            }
        }
    });
    let by_search = (searched > 0).then(|| {
        let (claims, were) = of(searched);
        format!("{claims} {were} judged by results that a search chose by themselves, so that wrong verdicts are more frequent than 5 %")
    });
    let texts: Vec<String> = by_samples.into_iter().chain(by_search).collect();
    (!texts.is_empty()).then(|| texts.join("; "))
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
