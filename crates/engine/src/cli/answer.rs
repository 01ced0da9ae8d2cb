//! Answers of commands as JSON: one object on standard output, with the command's own fields and the commands that make sense next.

use std::path::Path;

use clap::{Args, ValueEnum};
use serde::Serialize;
use sweep_job::Failure;

use super::print;
use crate::{
    error::Error,
    format::{clean, quoted},
    recipe::{Place, Problem},
    render,
    run::{
        ManifestJob, RunFolder,
        watch::{Snapshot, State},
    },
};

/// Commands in `next` that show failed jobs, at most; a run may have thousands of them.
pub(super) const MAX_COMMANDS_OF_FAILURES: usize = 6;

/// The option that selects JSON.
const FLAG: &str = "--format";
const WORD: &str = "json";
const SHORT: &str = "--json";

/// The format of a command whose answer is a text or JSON.
#[derive(Debug, Clone, Copy, Args)]
pub(super) struct FormatArgs {
    /// Output format.
    #[arg(long, value_enum, default_value = "text", global = true)]
    format: AnswerFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum AnswerFormat {
    /// For people.
    #[value(alias = "term")]
    Text,
    /// One JSON object, described in docs/results.md.
    Json,
}

/// The format of a command whose answer has tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum TableFormat {
    /// For a terminal.
    Term,
    /// GitHub's Markdown.
    Md,
    /// LaTeX, with the package `booktabs`.
    Latex,
    /// LaTeX, with the packages `booktabs` and `siunitx`, which aligns numbers at their decimal points.
    LatexSiunitx,
    /// Comma-separated values in the unit of the metric.
    Csv,
    /// HTML without script, with figures as SVG, for a notebook.
    Html,
    /// One JSON object, with numbers in the unit of the metric.
    Json,
}

impl FormatArgs {
    pub(super) fn is_json(self) -> bool {
        self.format == AnswerFormat::Json
    }
}

impl TableFormat {
    /// The format of the tables; `None` for JSON.
    pub(super) fn of_tables(self) -> Option<render::Format> {
        match self {
            Self::Term => Some(render::Format::Term),
            Self::Md => Some(render::Format::Md),
            Self::Latex => Some(render::Format::Latex),
            Self::LatexSiunitx => Some(render::Format::LatexSiunitx),
            Self::Csv => Some(render::Format::Csv),
            Self::Html => Some(render::Format::Html),
            Self::Json => None,
        }
    }
}

/// The JSON output of a command: its fields, and useful next command lines.
#[derive(Serialize)]
struct Answer<'a, T> {
    #[serde(flatten)]
    own: &'a T,
    next: Vec<String>,
}

/// Prints the JSON output of a command: `fields`, which are an object, and `next`.
pub(super) fn answer(fields: &impl Serialize, next: Vec<String>) -> Result<(), Error> {
    let text = serde_json::to_string_pretty(&Answer { own: fields, next });
    print(&(text.map_err(|error| Error::io("cannot write the answer")(error.into()))? + "\n"))
}

/// A failure that ends the program.
#[derive(Serialize)]
struct Failed<'a> {
    error: FailedWith<'a>,
    /// The mistakes in recipes, if these are the failure.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    mistakes: Vec<Mistake<'a>>,
}

#[derive(Serialize)]
struct FailedWith<'a> {
    message: String,
    help: Option<&'a str>,
    exit_code: u8,
}

/// A mistake in a recipe.
#[derive(Serialize)]
struct Mistake<'a> {
    #[serde(flatten)]
    place: &'a Place,
    message: String,
    label: Option<&'a str>,
    help: Option<String>,
}

impl<'a> Mistake<'a> {
    fn new(problem: &'a Problem) -> Self {
        Self {
            place: problem.place(),
            message: problem.to_string(),
            label: problem.caption(),
            help: miette::Diagnostic::help(problem).map(|help| help.to_string()),
        }
    }
}

/// Prints a failure. The same command is suggested for the time after the correction.
pub(super) fn failure(error: &Error) -> Result<(), Error> {
    let (message, help) = error.parts();
    let failure = FailedWith { message: clean(&message).into_owned(), help, exit_code: error.exit().code() };
    match error {
        Error::Recipe { problems, .. } => {
            let mistakes = problems.iter().map(Mistake::new).collect();
            answer(&Failed { error: failure, mistakes }, vec![again(&[], &[])])
        }
        _ => answer(&Failed { error: failure, mistakes: Vec::new() }, Vec::new()),
    }
}

/// Prints a mistake in the command line, which the program could not read.
pub(super) fn usage(error: &clap::Error) -> Result<(), Error> {
    let text = error.to_string();
    // The mistake, the remedy, and the usage.
    let mut parts = text.trim_start_matches("error: ").trim().split("\n\n");
    let message = parts.next().unwrap_or_default().to_owned();
    let remaining_parts: Vec<&str> =
        parts.map(str::trim).filter(|part| !part.starts_with("For more information")).collect();
    let help = (!remaining_parts.is_empty()).then(|| remaining_parts.join("\n"));
    let exit_code = u8::try_from(error.exit_code()).unwrap_or(u8::MAX);
    let error = FailedWith { message, help: help.as_deref(), exit_code };
    answer(&Failed { error, mistakes: Vec::new() }, Vec::new())
}

/// The words of this program's command line, without the program.
fn words() -> impl Iterator<Item = String> {
    std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned())
}

/// True if the command line selects JSON, even if the rest of it is invalid.
pub(super) fn is_wanted() -> bool {
    let words: Vec<String> = words().take_while(|word| word != "--").collect();
    let is_pair = |pair: &[String]| pair[0] == FLAG && pair[1] == WORD;
    words.windows(2).any(is_pair) || words.iter().any(|word| word == SHORT || *word == format!("{FLAG}={WORD}"))
}

/// The command line of this program again: with these flags and without those, and for people.
pub(super) fn again(added_flags: &[&str], removed_flags: &[&str]) -> String {
    let mut own_words: Vec<String> = words().collect();
    let tail_words =
        own_words.iter().position(|word| word == "--").map(|place| own_words.split_off(place)).unwrap_or_default();
    let mut kept_words = vec!["sweep".to_owned()];
    let mut remaining_words = own_words.into_iter();
    while let Some(word) = remaining_words.next() {
        if word == FLAG {
            remaining_words.next();
        } else if !word.starts_with(&format!("{FLAG}=")) && word != SHORT && !removed_flags.contains(&word.as_str()) {
            kept_words.push(word);
        }
    }
    kept_words.extend(added_flags.iter().map(|flag| (*flag).to_owned()));
    kept_words.iter().chain(&tail_words).map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

/// A command line of this program, for a shell. The command line has `--results` if the default folder differs.
pub(super) fn line<W: AsRef<str>>(results: &Path, words: impl IntoIterator<Item = W>) -> String {
    let default_results = std::env::var_os(super::RESULTS_VARIABLE).unwrap_or_else(|| super::RESULTS.into());
    let mut line = vec!["sweep".to_owned()];
    if results.as_os_str() != default_results {
        line.extend(["--results".to_owned(), quoted(&results.display().to_string())]);
    }
    line.extend(words.into_iter().map(|word| quoted(word.as_ref())));
    line.join(" ")
}

/// The same for a command with further arguments.
pub(super) fn with_words(results: &Path, verb: &str, arguments: &[String], extra_arguments: &[String]) -> String {
    line(results, std::iter::once(verb).chain(arguments.iter().chain(extra_arguments).map(String::as_str)))
}

/// The command that prints the output of a job of a run, if there is any.
pub(super) fn log(results: &Path, folder: &RunFolder, job: &ManifestJob) -> Option<String> {
    folder.log(job.key).is_file().then(|| line(results, ["logs", &job.label]))
}

/// The command that runs a job of a run again, unless an early version has started the run.
pub(super) fn rerun(results: &Path, snapshot: &Snapshot, job: &ManifestJob) -> Option<String> {
    let arguments = &snapshot.manifest.typed;
    (!arguments.is_empty()).then(|| with_words(results, "run", arguments, &["--only".to_owned(), job.label.clone()]))
}

/// The jobs of a run that failed, each with its failure; true for those that the recipe allows.
pub(super) fn failures(snapshot: &Snapshot) -> impl Iterator<Item = (&ManifestJob, &Failure, bool)> {
    snapshot.manifest.jobs.iter().zip(&snapshot.jobs).filter_map(|(job, state)| match state {
        State::Failed { failure, tolerated, .. } => Some((job, failure, *tolerated)),
        _ => None,
    })
}

/// The commands that show the failed jobs of a run.
pub(super) fn of_failures(results: &Path, folder: &RunFolder, snapshot: &Snapshot) -> Vec<String> {
    let of_job = |job: &ManifestJob| {
        let show = line(results, ["show", &job.label]);
        log(results, folder, job).into_iter().chain([show])
    };
    failures(snapshot).flat_map(|(job, ..)| of_job(job)).take(MAX_COMMANDS_OF_FAILURES).collect()
}

/// The commands after a run: those that show its failed jobs, then the one that continues it or prints its tables.
pub(super) fn after_run(results: &Path, folder: &RunFolder, snapshot: &Snapshot) -> Vec<String> {
    let mut next = of_failures(results, folder, snapshot);
    let arguments = &snapshot.manifest.typed;
    let is_whole = snapshot.summary.as_ref().is_some_and(|summary| {
        summary.interrupted.is_none() && !summary.detached && summary.failed + summary.skipped + summary.stopped == 0
    });
    next.push(match (snapshot.live, is_whole) {
        (true, _) => line(results, ["status"]),
        // The arguments of a run by an early version are unknown.
        _ if arguments.is_empty() => return next,
        (false, true) => with_words(results, "report", arguments, &[]),
        (false, false) => with_words(results, "run", arguments, &[]),
    });
    next
}
