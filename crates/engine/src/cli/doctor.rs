//! `sweep doctor`.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use clap::Args;
use serde_json::json;

use super::{
    answer::{self, FormatArgs, answer},
    print,
};
use crate::{
    doctor::{self, Finding, Verdict},
    error::{Error, Exit},
    format::clean,
    recipe::{Draft, Executor, Request, executor::batch::PRESETS},
};

#[derive(Debug, Args)]
pub(super) struct DoctorArgs {
    /// The executor to check: `local`, the name of a batch system, or a sweep file, whose executor is checked with its settings.
    #[arg(value_name = "EXECUTOR", default_value = "local")]
    executor: PathBuf,
    /// Number of GPUs that the trial job requests.
    #[arg(long, value_name = "N", default_value_t = 0)]
    gpus: usize,
    /// Time limit of the trial job, in seconds.
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = clap::value_parser!(u64).range(1..86400))]
    wait: u64,
    #[command(flatten)]
    format: FormatArgs,
    /// Print the command templates of a preset of `batch` and exit.
    #[arg(long, value_name = "NAME", value_parser = clap::builder::PossibleValuesParser::new(PRESETS.iter().map(|(name, _)| *name)))]
    preset: Option<String>,
}

pub(super) fn doctor(results: &Path, args: &DoctorArgs) -> Result<Exit, Error> {
    if let Some(preset) = &args.preset {
        let text = PRESETS.iter().find(|(name, _)| name == preset).map_or("", |(_, text)| *text);
        return print(text).map(|()| Exit::Done);
    }
    let executor = executor(&args.executor)?;
    let findings = doctor::examine(results, &executor, args.gpus, Duration::from_secs(args.wait));
    let has_failed = findings.iter().any(|finding| finding.verdict == Verdict::Failed);
    if args.format.is_json() {
        let fields =
            json!({ "executor": args.executor.display().to_string(), "good": !has_failed, "findings": findings });
        answer(&fields, has_failed.then(|| answer::again(&[], &[])).into_iter().collect())?;
    } else {
        print(&findings.iter().map(line).collect::<String>())?;
    }
    Ok(if has_failed { Exit::Failure } else { Exit::Done })
}

/// The executor of a word or of a sweep file.
fn executor(name: &Path) -> Result<Executor, Error> {
    let word = name.to_string_lossy();
    if let Some(executor) = Executor::named(&word) {
        return Ok(executor);
    }
    let request = Request { paths: &[name.to_owned()], ..Request::default() };
    if !name.is_file() {
        return Err(Error::UnknownExecutor { name: word.into_owned(), known: Executor::words().join(", ") });
    }
    Draft::load(&request).map(|draft| draft.executor).map_err(Error::recipe(word.into_owned()))
}

fn line(finding: &Finding) -> String {
    let word = match finding.verdict {
        Verdict::Good => "ok",
        Verdict::Doubtful => "doubt",
        Verdict::Failed => "failed",
    };
    let help = if finding.help.is_empty() { String::new() } else { format!("       {}\n", clean(&finding.help)) };
    format!("{word:<6} {}: {}\n{help}", finding.name, clean(&finding.says))
}
