//! `sweep propose`.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use super::{
    BackendArg,
    answer::{self, FormatArgs, answer},
    print,
};
use crate::{
    error::{Error, Exit},
    format::{clean, count, duration},
    propose::{self, Answer, Change, Direction, Effect, Evidence, OneBit, Proposal, ProposeError, Standing, Verdict},
    store::Store,
};

#[derive(Debug, Args)]
pub(super) struct ProposeArgs {
    /// The recipe with the baseline.
    recipe: PathBuf,
    /// The change: a recipe with `extends: RECIPE` and the differences.
    #[arg(required_unless_present_any = ["patch", "rev", "worktree"])]
    delta: Option<PathBuf>,
    /// The change: a patch of the project's code. The step that measures runs with it and without it.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["delta", "rev", "worktree"])]
    patch: Option<PathBuf>,
    /// The change: a revision of the project's repository, such as a branch.
    #[arg(long, value_name = "REVISION", conflicts_with_all = ["delta", "worktree"])]
    rev: Option<String>,
    /// The change: another worktree of the project's repository, in its present state.
    #[arg(long, value_name = "FOLDER", conflicts_with = "delta")]
    worktree: Option<PathBuf>,
    /// The step whose code is changed. Default: the step that measures.
    #[arg(long, value_name = "STEP", conflicts_with = "delta")]
    code_step: Option<String>,
    /// The metric that the change should improve.
    #[arg(long, value_name = "METRIC")]
    metric: String,
    /// The better direction of the metric.
    #[arg(long, value_enum)]
    better: Direction,
    /// The smallest improvement that matters, in the unit of the metric.
    #[arg(long, value_name = "DIFFERENCE", allow_negative_numbers = true)]
    least: f64,
    /// The step that measures. Default: the only step with seeds.
    #[arg(long, value_name = "STEP")]
    step: Option<String>,
    /// Select the configurations of the step by values of axes; can be repeated. The mean over them is compared.
    #[arg(long, value_name = "AXIS=VALUE")]
    at: Vec<String>,
    /// Maximum number of sealed seeds.
    #[arg(long, value_name = "N", default_value = "20", value_parser = clap::value_parser!(u16).range(4..=1000))]
    most: u16,
    /// A file or folder that only the evaluation may read; can be repeated. A change is refused if one of its steps reads a
    /// file there that the same step of the baseline does not read, or if it alters a step that reads such a file.
    #[arg(long, value_name = "PATH")]
    sealed: Vec<PathBuf>,
    /// The content of the answer: everything, or only whether the change is accepted.
    #[arg(long, value_enum, default_value = "full", conflicts_with = "dry_run")]
    answer: Content,
    /// Run nothing: print the known results, the expected cost and the power.
    #[arg(long)]
    dry_run: bool,
    /// End with exit code 6 if the change is not accepted.
    #[arg(long)]
    strict: bool,
    /// Backend to compute on. `auto` selects CUDA, else a hardware GPU through wgpu, else the CPU.
    #[arg(long, value_name = "BACKEND", default_value = "auto")]
    backend: BackendArg,
    #[command(flatten)]
    format: FormatArgs,
}

/// Content of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Content {
    /// Effects with intervals, p-value, level and bundle.
    Full,
    /// Only whether the change is accepted.
    Bit,
}

impl ProposeArgs {
    /// The recipe with the change.
    fn delta(&self, store: &Store) -> Result<PathBuf, ProposeError> {
        let change = match (&self.delta, &self.patch, &self.rev, &self.worktree) {
            (Some(delta), ..) => return Ok(delta.clone()),
            (_, Some(patch), ..) => Change::Patch(patch.clone()),
            (_, _, Some(revision), _) => Change::Revision(revision.clone()),
            (.., Some(worktree)) => Change::Worktree(worktree.clone()),
            // The command line requires one of them.
            _ => Change::Worktree(PathBuf::from(".")),
        };
        change.write(&self.recipe, self.code_step.as_deref().or(self.step.as_deref()), store)
    }
}

pub(super) fn propose(results: &Path, args: &ProposeArgs) -> Result<Exit, Error> {
    let store = Store::open(results)?;
    let name = args.recipe.display().to_string();
    let delta = args.delta(&store).map_err(Error::proposal(name))?;
    let name = format!("{}, {}", args.recipe.display(), delta.display());
    let proposal = Proposal {
        recipe: args.recipe.clone(),
        delta,
        step: args.step.clone(),
        at: args.at.clone(),
        metric: args.metric.clone(),
        better: args.better,
        least: args.least,
        most: usize::from(args.most),
        backend: args.backend.choice(),
        sealed: args.sealed.clone(),
        is_quiet: args.answer == Content::Bit,
    };
    let outcome = propose::propose(&proposal, &store, args.dry_run).map_err(Error::proposal(name))?;
    if args.answer == Content::Bit {
        let bit = outcome.one_bit();
        if args.format.is_json() { answer(&bit, Vec::new())? } else { print(&one_bit(&bit))? }
    } else if args.format.is_json() {
        answer(&outcome, next(results, outcome.standing))?;
    } else {
        print(&text(&outcome))?;
    }
    Ok(match (outcome.standing, outcome.verdict()) {
        (Standing::Refused, _) => Exit::Usage,
        (Standing::Known | Standing::Judged, verdict) if args.strict && verdict != Some(Verdict::Accepted) => {
            Exit::Refuted
        }
        _ => Exit::Done,
    })
}

/// The commands that make sense after a proposal.
fn next(results: &Path, standing: Standing) -> Vec<String> {
    match standing {
        Standing::Refused => Vec::new(),
        Standing::Estimate => vec![answer::again(&[], &["--dry-run"])],
        Standing::Known | Standing::Judged => vec![answer::line(results, ["ledger"])],
    }
}

fn one_bit(OneBit { accepted, reason, .. }: &OneBit) -> String {
    match (accepted, reason) {
        (Some(true), _) => "accepted\n".to_owned(),
        (Some(false), _) => "not accepted\n".to_owned(),
        (None, reason) => format!("refused: {}\n", reason.as_deref().unwrap_or("it was not judged")),
    }
}

fn text(answer: &Answer) -> String {
    let Answer { standing, reason, asked, question, cost, noise, level, pairs, power, conclusion, .. } = answer;
    let head = match (standing, conclusion) {
        (Standing::Refused, _) => "refused".to_owned(),
        (Standing::Known, _) => "known".to_owned(),
        (Standing::Estimate, _) => "not run".to_owned(),
        (Standing::Judged, Some(conclusion)) => conclusion.verdict.word().to_owned(),
        (Standing::Judged, None) => "open".to_owned(),
    };
    let number = asked.map(|asked| format!(", question {asked}")).unwrap_or_default();
    let mut lines = vec![format!("{head}{number}: {reason}")];
    if *standing == Standing::Refused {
        return lines.join("\n") + "\n";
    }
    let least_text = number_text(question.least);
    lines.push(format!("  {} of {}, at least {least_text} better", question.metric, question.step));
    if let Some(conclusion) = conclusion {
        lines.push(format!("  search:       {}", effect(&conclusion.search)));
        if let (Some(confirmation), Some(evidence)) = (&conclusion.confirmed, &conclusion.evidence) {
            lines.push(format!("  confirmation: {}", effect(confirmation)));
            let look_text =
                evidence.look.map_or_else(String::new, |look_text| format!(", {look_text:.2e} for this look"));
            let Evidence { p, level, e, .. } = evidence;
            lines.push(format!("  p = {p:.2e} at level {level:.2e}{look_text}, e-value {e:.3}"));
        }
        lines.extend(conclusion.leaks.iter().map(|leak| format!("  {}", clean(leak))));
        if conclusion.repeated > 0 {
            let jobs = count(conclusion.repeated, "sealed job");
            lines.push(format!("  {jobs} began more than once, after interrupts or failures"));
        }
        if conclusion.altered > 0 {
            let calls = count(conclusion.altered, "call");
            lines.push(format!(
                "  {calls} differed from the question while it was open; the granted level and seeds \
                were kept"
            ));
        }
        lines.push(format!("  jobs took {}", duration(conclusion.seconds)));
        lines.extend(conclusion.bundle.as_ref().map(|bundle| format!("  bundle: {}", bundle.file.display())));
    } else {
        let time = cost.seconds.map_or_else(|| "unknown time".to_owned(), duration);
        lines.push(format!("  search: {} cached, {} to run; {time} in all", cost.cached, count(cost.open, "job")));
        let noise = noise.map_or_else(|| "not measured yet".to_owned(), number_text);
        lines.push(format!("  noise of the baseline: {noise}; level {level:.2e}"));
        if let (Some(pairs), Some(power)) = (pairs, power) {
            lines.push(format!("  at most {} sealed seeds, power {:.0} %", pairs, power * 100.0));
        }
    }
    if !answer.head.is_empty() {
        lines.push(format!("  head of the ledger: {}", answer.head));
    }
    lines.join("\n") + "\n"
}

/// An effect in words.
pub(super) fn effect(effect: &Effect) -> String {
    let interval = match (effect.low, effect.high) {
        (Some(low), Some(high)) => format!(" [{}, {}]", number_text(low), number_text(high)),
        _ => String::new(),
    };
    format!("{}{interval} better, {}", number_text(effect.mean), count(effect.seeds.len(), "seed"))
}

/// A number with four digits.
pub(super) fn number_text(number: f64) -> String {
    let size = number.abs();
    if number == 0.0 {
        "0".to_owned()
    } else if (1e-3..1e5).contains(&size) {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from −3 to 4")]
        let decimals = (3.0 - size.log10().floor()).max(0.0) as usize;
        format!("{number:.decimals$}")
    } else {
        format!("{number:.3e}")
    }
}
