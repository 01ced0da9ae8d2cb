//! A referee for changes to recipes: `sweep propose` and `sweep ledger`.
//!
//! A proposal is a change and the metric that it should improve. [`propose()`] rejects repeated questions, runs the seeds of the recipe
//! (the search), and then sealed, unseen seeds (the confirmation), at a level that keeps the rate of false discoveries over all proposals
//! of a store. Every question, level and verdict is in the [`Ledger`]. `docs/propose.md` has the method.

mod attempts;
mod bisect;
mod change;
mod code;
mod judge;
mod ledger;
mod question;
mod referee;
pub mod rule;
mod seal;
mod sealed;
mod study;
mod verify;

use std::{io, path::PathBuf, slice, thread, time::Duration};

use serde::Serialize;

pub use self::{
    attempts::{altered_calls, kept_for_questions},
    bisect::{Bisection, Found, bisect},
    change::Change,
    judge::{Effect, Verdict},
    ledger::{Archive, Conclusion, Entry, Event, Evidence, Grant, Ledger, LedgerError, Noise},
    question::{Direction, Proposal, Question},
    verify::{Checked, verify},
};
use self::{
    referee::{NOISE, Referee},
    seal::Secret,
    study::Subject,
};
use crate::{
    batches::SearchError,
    export::bundle::BundleError,
    format::{count, say},
    host::devices::DeviceError,
    plan::NothingSelected,
    recipe::RecipeError,
    record::Key,
    session::{Interrupts, SessionError},
    store::{Held, Store, StoreError},
};

/// Reason why a proposal has no answer. Finished jobs are kept, and the same command continues.
#[derive(Debug, thiserror::Error)]
pub enum ProposeError {
    /// The recipe or the change cannot be read.
    #[error("the recipe or its change is not valid")]
    Recipe(#[from] RecipeError),
    /// They cannot be planned.
    #[error(transparent)]
    Search(#[from] SearchError),
    /// Nothing is selected.
    #[error(transparent)]
    NothingSelected(#[from] NothingSelected),
    /// The store returned an error.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The ledger returned an error.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The bundle returned an error.
    #[error(transparent)]
    Bundle(#[from] BundleError),
    /// The jobs cannot run.
    #[error(transparent)]
    Run(#[from] SessionError),
    /// There is no device.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A digest could not be computed.
    #[error("cannot compute a digest: {0}")]
    Key(#[from] serde_json::Error),
    /// An I/O error.
    #[error("the proposal cannot continue: {0}")]
    Io(#[from] io::Error),
    /// Jobs would run elsewhere.
    #[error("a proposal runs on this machine only, and the recipe has another executor: leave it out")]
    Elsewhere,
    /// Several recipes.
    #[error("a proposal is about one recipe: name a recipe, not a sweep file with several")]
    Several,
    /// The change does not extend the recipe.
    #[error("`{delta}` does not extend `{recipe}`: add `extends:` with the path of the recipe")]
    NoDelta {
        /// File of the change.
        delta: String,
        /// File of the recipe.
        recipe: String,
    },
    /// No such revision.
    #[error("the repository of the recipe has no revision `{0}`")]
    NoRevision(String),
    /// A revision does not follow the other one.
    #[error(
        "no revision follows `{good}` up to `{bad}`: name an earlier one with `--good`, and a later one with `--bad`"
    )]
    NoRange {
        /// The earlier one.
        good: String,
        /// The later one.
        bad: String,
    },
    /// The two revisions do not differ.
    #[error(
        "`{metric}` of the good and of the bad revision do not differ beyond their noise with {seeds} seeds; raise `--most`, or look at another metric"
    )]
    NoDifference {
        /// The metric.
        metric: String,
        /// The most seeds.
        seeds: usize,
    },
    /// No such step, or several.
    #[error(
        "no single step `{step}` measures the metric: name one with `--step`, and its points with `--at`; the steps are {known}"
    )]
    NoStep {
        /// The requested name.
        step: String,
        /// The known ones.
        known: String,
    },
    /// The step has no seeds.
    #[error("step `{0}` has fewer than two seeds: write `seeds: 3` or more, to distinguish an effect from noise")]
    NoSeeds(String),
    /// The step chooses its own points.
    #[error(
        "step `{0}` chooses its points or seeds itself (`search`, `confirm`, adaptive seeds); propose on a step with fixed ones"
    )]
    Searches(String),
    /// No such metric.
    #[error("step `{step}` has no metric `{metric}`; it has {known}")]
    NoMetric {
        /// The step.
        step: String,
        /// The requested name.
        metric: String,
        /// The known ones.
        known: String,
    },
    /// The least effect is not a number above zero.
    #[error("the least effect must be a number above zero, in the unit of the metric")]
    Least,
    /// A sealed path does not exist.
    #[error("there is no `{0}`, which `--sealed` names; give the file or folder that only the evaluation may read")]
    NothingSealed(PathBuf),
    /// The reads of a program are not known.
    #[error(
        "the reads of step `{0}` were not observed, so it cannot be known if the change reads sealed data: leave out `tracks: declared`, and run where programs can be observed (`sweep doctor`)"
    )]
    Unobserved(String),
    /// Some seeds have no value.
    #[error("step `{0}` does not have a value for every seed in both recipes; its axis `seed` must take any seeds")]
    Unpaired(String),
    /// The code has changed since the search.
    #[error(
        "question {question} is open, and the code of its jobs has changed since its level was granted: {}; undo the \
         change, and the same command continues; if the change is intended, declare the program in `inputs`, which \
         makes it a new question", .changed.join(", ")
    )]
    Changed {
        /// Number of the question.
        question: usize,
        /// The files and packages that differ.
        changed: Vec<String>,
    },
    /// The record of a sealed job is gone or another one.
    #[error(
        "question {question} is open, and the record {} of its confirmation was removed or replaced; restore it, for \
         example with `sweep cache import`, and the same command continues", .record.short()
    )]
    Removed {
        /// Number of the question.
        question: usize,
        /// Key of the record.
        record: Key,
    },
    /// A sealed job that began is not part of the confirmation any more.
    #[error(
        "question {question} is open, and {} of its confirmation that began are not among its jobs any more: the \
         seeds of the recipe, its jobs or the ledger were changed since its level was granted; undo the change, and \
         the same command continues", count(*.jobs, "sealed job")
    )]
    LeftOut {
        /// Number of the question.
        question: usize,
        /// Jobs that began.
        jobs: usize,
    },
    /// A record of a sealed job that no attempt has written.
    #[error(
        "question {question} is open, and the record {short} of its confirmation was made by no attempt at it, but \
         elsewhere or before; `sweep cache rm {short}` removes it, and the same command continues", short = .record.short()
    )]
    Foreign {
        /// Number of the question.
        question: usize,
        /// Key of the record.
        record: Key,
    },
    /// A job failed.
    #[error("{0} jobs failed, and the question is still open; the same command runs them again")]
    Failed(usize),
    /// A signal ended it.
    #[error("interrupted; the same command continues")]
    Interrupted(i32),
    /// The store could not be written.
    #[error("the run was stopped: {0}")]
    Broken(String),
}

/// Kind of an answer to a proposal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Standing {
    /// Nothing was asked: the change cannot be judged.
    Refused,
    /// It was asked before; the verdict is the earlier one.
    Known,
    /// Nothing was run; the answer has the expected cost and the power.
    Estimate,
    /// It was judged now.
    Judged,
}

/// Expected or actual cost of a question.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Cost {
    /// Jobs of the search that are done.
    pub cached: usize,
    /// Jobs of the search that are to run.
    pub open: usize,
    /// Jobs that measure the noise of the baseline, if that is not known yet.
    pub noise: usize,
    /// Jobs of a sealed seed.
    pub pair: usize,
    /// Expected seconds of all jobs that are to run, one after the other; `None` if nothing is known of their durations.
    pub seconds: Option<f64>,
}

/// Answer to a proposal.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Answer {
    /// Kind.
    pub standing: Standing,
    /// A sentence about it.
    pub reason: String,
    /// Number of the ledger's entry that asks the question, if it was asked.
    pub asked: Option<usize>,
    /// Time of asking.
    pub asked_at: Option<jiff::Timestamp>,
    /// The question.
    pub question: Question,
    /// Cost; empty for a repeated question.
    pub cost: Cost,
    /// Noise of the baseline: the standard deviation over seeds, in the metric's unit.
    pub noise: Option<f64>,
    /// The level that the question has, or would have as the next one.
    pub level: f64,
    /// Number of sealed seeds, if the noise is known.
    pub pairs: Option<usize>,
    /// Power for the least effect, from 0 to 1, if the noise is known.
    pub power: Option<f64>,
    /// Verdict with its grounds.
    pub conclusion: Option<Conclusion>,
    /// Digest of the latest entry of the ledger, which `sweep ledger verify --head` takes; empty without any.
    pub head: String,
}

/// An answer of one bit, for agents that must not climb on the numbers: no effect, no interval, no p-value, no level.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OneBit {
    /// Kind.
    pub standing: Standing,
    /// True if the change is accepted; `None` if it was not judged.
    pub accepted: Option<bool>,
    /// The reason of a refusal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Answer {
    /// The answer reduced to its bit.
    pub fn one_bit(&self) -> OneBit {
        let is_refused = self.standing == Standing::Refused;
        let accepted = self.verdict().map(|verdict| verdict == Verdict::Accepted);
        OneBit { standing: self.standing, accepted, reason: is_refused.then(|| self.reason.clone()) }
    }

    /// The verdict.
    pub fn verdict(&self) -> Option<Verdict> {
        self.conclusion.as_ref().map(|end| end.verdict)
    }
}

/// Judges a proposal; with `dry`, only returns known results, the expected cost and the power. Waits while another process judges a
/// proposal.
///
/// # Errors The proposal is invalid, or cannot continue. The same call continues where it ended, with the same level and seeds.
pub fn propose(proposal: &Proposal, store: &Store, dry: bool) -> Result<Answer, ProposeError> {
    if !(proposal.least.is_finite() && proposal.least > 0.0) {
        return Err(ProposeError::Least);
    }
    sealed::resolved(&proposal.sealed)?;
    let mut subject = Subject::new(proposal, store)?;
    let question = question(&subject)?;
    let _lock = if dry { None } else { Some(lock(store)?) };
    let ledger = Ledger::read(store)?;
    if question.baseline == question.candidate {
        let reason = "it changes only seeds, names, reports, or files that the jobs do not read: its jobs are those \
            of the baseline"
            .to_owned();
        return Ok(answer(&ledger, question, Standing::Refused, reason));
    }
    let digest = question.digest()?;
    let mut asked = None;
    for (entry, known) in ledger.questions() {
        if known.digest()? == digest {
            asked = Some((entry.number, entry.at, known.clone()));
        }
    }
    if let Some((number, at, known)) = &asked
        && let Some(end) = ledger.conclusion(*number).cloned()
    {
        let date = at.strftime("%Y-%m-%d");
        let reason = format!(
            "asked on {date} as question {number}: {}; another seed, name or least effect does not make a new question",
            end.verdict.word()
        );
        let known = answer(&ledger, known.clone(), Standing::Known, reason);
        return Ok(Answer { asked: Some(*number), asked_at: Some(*at), conclusion: Some(end), ..known });
    }
    let (question, number) = asked.map_or((question, None), |(number, _, known)| (known, Some(number)));
    let altered = number.and_then(|asked| ledger.grant(asked)).map(|grant| subject.hold_to(grant, &question));
    if dry {
        return estimate(&subject, &ledger, question, number);
    }
    let altered = altered.unwrap_or_default();
    let (secret, interrupts) = (Secret::open(store)?, Interrupts::listen());
    Referee { subject, ledger, question, secret, interrupts }.judge(number, altered)
}

/// The question that a proposal means.
fn question(subject: &Subject<'_>) -> Result<Question, ProposeError> {
    let Proposal { recipe, delta, at, metric, better, least, .. } = subject.proposal.clone();
    let [baseline, candidate] = subject.digests()?;
    Ok(Question { recipe, delta, step: subject.step.clone(), at, metric, better, least, baseline, candidate })
}

/// An answer without a verdict.
fn answer(ledger: &Ledger, question: Question, standing: Standing, reason: String) -> Answer {
    Answer {
        standing,
        reason,
        asked: None,
        asked_at: None,
        noise: ledger.noise(question.baseline, &question.metric).map(|noise| noise.sd),
        question,
        cost: Cost::default(),
        level: ledger.next_level(),
        pairs: None,
        power: None,
        conclusion: None,
        head: ledger.head.clone(),
    }
}

/// The cost of a question, and its power.
fn estimate(
    subject: &Subject<'_>,
    ledger: &Ledger,
    question: Question,
    asked: Option<usize>,
) -> Result<Answer, ProposeError> {
    let plan = subject.plan(&subject.both(), Some(&subject.seeds), false)?;
    let wanted = subject.wanted(&plan)?;
    let grant = asked.and_then(|asked| ledger.grant(asked));
    let known = subject.cost(&plan, &wanted)?;
    let reason = match asked {
        Some(number) => format!("asked as question {number}, and still open"),
        None => "not asked yet".to_owned(),
    };
    // The settings come from the question, which another call may have asked.
    let least = question.least;
    let mut answer = answer(ledger, question, Standing::Estimate, reason);
    let most = subject.proposal.most;
    let expected = answer.noise.map(|sd| rule::pairs(least, sd, answer.level, most));
    if let Some(grant) = grant {
        answer.level = grant.level;
    }
    let expected = grant.map(|grant| (grant.pairs, grant.power)).or(expected);
    let (pairs, power) = expected.unzip();
    let seconds = known.map(|[open, pair]| open + pair * pairs.unwrap_or(most) as f64);
    let noise = if answer.noise.is_none() {
        NOISE * subject.jobs_of_seed(slice::from_ref(&subject.proposal.recipe))?
    } else {
        0
    };
    let pair = subject.jobs_of_seed(&subject.both())?;
    answer.cost = Cost { cached: wanted.cached, open: wanted.open, noise, pair, seconds };
    Ok(Answer { asked, pairs, power, ..answer })
}

/// Takes the lock of the ledger; waits, with a message, while another process has it.
fn lock(store: &Store) -> io::Result<Held> {
    const LOCK_INTERVAL: Duration = Duration::from_millis(100);
    let mut said = false;
    loop {
        if let Some(held) = store.lock("ledger")? {
            return Ok(held);
        }
        if !std::mem::replace(&mut said, true) {
            say(format_args!("waiting for another proposal, which is being judged"));
        }
        thread::sleep(LOCK_INTERVAL);
    }
}
