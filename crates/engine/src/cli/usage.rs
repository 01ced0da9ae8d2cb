//! Command lines in the words of other tools, with their replacements.

use std::{ffi::OsString, path::Path};

use clap::{
    CommandFactory as _, Parser as _,
    builder::StyledStr,
    error::{ContextKind, ContextValue, ErrorKind},
};

use super::Cli;

/// Flags of other tools, with their replacements. `RECIPE` stands for the recipe on the command line.
const FLAGS: &[(&[&str], &str)] = &[
    (&["--dry-run", "--dryrun", "--dry", "-n"], "`sweep plan RECIPE` shows what would run, without running it"),
    (
        &["--force", "-f", "--rerun", "--no-cache", "--overwrite", "--fresh"],
        "a job with a record does not run again; `sweep plan RECIPE --list` shows which have one, and another `--results DIR` has none",
    ),
    (
        &["--resume", "--continue", "--restart"],
        "run the same command again: it continues with the jobs that are not done",
    ),
    (&["--seeds", "--seed"], "to change the seeds, write `--axis seed=0,1,2`"),
    (
        &["--device", "--gpu", "--gpus", "--cuda", "--cpu"],
        "to choose what jobs compute on, write `--backend cuda`, `wgpu` or `cpu`",
    ),
    (
        &["--parallel", "--workers", "--threads", "--max-parallel", "-p", "-w"],
        "to limit the jobs at once, write `--jobs N`",
    ),
    (&["--output", "--out", "--output-dir", "-o"], "to choose the folder for results, write `--results DIR`"),
    (&["--config", "--recipe", "--file", "-c"], "the recipe is an argument: `sweep run RECIPE`"),
    (
        &["--filter", "--select", "--step", "--target"],
        "to select a part of a recipe, write `--only STEP` or `--only STEP/AXIS=VALUE`",
    ),
    (&["--watch", "--follow"], "`sweep status` shows a run, and `sweep ui` follows it"),
];

/// Commands of other tools, with their replacements.
const COMMANDS: &[(&[&str], &str)] = &[
    (
        &["validate", "check", "lint", "dry-run", "preview", "show-plan"],
        "`sweep plan RECIPE` checks a recipe and shows its jobs",
    ),
    (
        &["start", "exec", "launch", "resume", "continue", "train", "apply", "build"],
        "`sweep run RECIPE` runs the jobs that are not done",
    ),
    (&["list", "ls", "records", "history"], "`sweep cache ls` lists the records, `sweep status` shows the latest run"),
    (
        &["clean", "clear", "rm", "prune", "gc", "delete"],
        "`sweep cache gc RECIPE` lists the records that nothing needs, and removes them with `--yes`",
    ),
    (&["results", "table", "tables", "summary", "output"], "`sweep report RECIPE` prints the tables of a recipe"),
    (&["compare"], "`sweep diff` compares two runs, recipes or results folders"),
    (&["log", "tail"], "`sweep logs JOB` prints the output of a job"),
    (&["dashboard", "serve", "web", "server", "view", "open"], "`sweep ui` serves the pages of runs and reports"),
    (&["create", "template", "scaffold", "generate"], "`sweep new` writes an example recipe"),
    (&["why"], "`sweep explain RECIPE JOB` shows why a job will run"),
    (&["ps", "top", "progress", "watch"], "`sweep status` shows the latest run"),
    (&["models", "metrics", "params"], "`sweep tasks` lists the tasks, with a name its parameters and metrics"),
];

/// Commands that take changes of a recipe's values.
const CHANGING: [&str; 5] = ["run", "plan", "explain", "report", "best"];

/// Reads the command line. An error has a remedy if its word belongs to another tool.
pub(super) fn parse() -> Result<Cli, clap::Error> {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    Cli::try_parse_from(&arguments).map_err(|mut error| {
        let words: Vec<&str> = arguments.iter().skip(1).filter_map(|word| word.to_str()).collect();
        if let Some(remedy) = remedy(&error, &words) {
            // The flag that clap suggests is also in the usage of the error.
            if error.remove(ContextKind::SuggestedArg).is_some() {
                error.insert(ContextKind::Usage, ContextValue::StyledStr(usage(&words)));
            }
            error.remove(ContextKind::SuggestedSubcommand);
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(remedy)]));
        }
        error
    })
}

/// The usage of the command that these words call.
fn usage(words: &[&str]) -> StyledStr {
    let mut command = Cli::command();
    command.build();
    for word in words {
        if let Some(subcommand) = command.find_subcommand(word) {
            command = subcommand.clone();
        }
    }
    command.render_usage()
}

fn remedy(error: &clap::Error, words: &[&str]) -> Option<String> {
    let word_of = |kind| match error.get(kind) {
        Some(ContextValue::String(word)) => Some(word.clone()),
        _ => None,
    };
    let recipe = words.iter().find(|word| is_recipe(word)).copied();
    let fill = |text: &str| text.replace("RECIPE", recipe.unwrap_or("RECIPE"));
    match error.kind() {
        ErrorKind::UnknownArgument => {
            let flag = word_of(ContextKind::InvalidArg)?;
            if let Some((_, replacement)) = FLAGS.iter().find(|(flags, _)| flags.contains(&flag.as_str())) {
                return Some(fill(replacement));
            }
            // A flag for which clap suggests a similar one is a misspelling.
            if error.get(ContextKind::SuggestedArg).is_some() {
                return None;
            }
            let name = flag.strip_prefix("--")?.replace('-', "_");
            words.first().filter(|command| CHANGING.contains(command))?;
            let value = words.iter().enumerate().find_map(|(index, word)| {
                let value_text = word.strip_prefix(flag.as_str())?;
                value_text
                    .strip_prefix('=')
                    .or_else(|| words.get(index + 1).copied())
                    .filter(|value| !value.starts_with("--"))
            });
            let value = value.filter(|value| !is_recipe(value)).unwrap_or("VALUE");
            Some(format!("to change a param of the recipe, write `--set {name}={value}`"))
        }
        ErrorKind::InvalidSubcommand => {
            let command = word_of(ContextKind::InvalidSubcommand)?;
            if is_recipe(&command) {
                return Some(format!("`sweep run {command}` runs this recipe"));
            }
            // A subcommand, such as one of `sweep cache`, is not a command of `sweep`.
            words.first().filter(|first_word| **first_word == command)?;
            let (_, replacement) = COMMANDS.iter().find(|(commands, _)| commands.contains(&command.as_str()))?;
            Some(fill(replacement))
        }
        _ => None,
    }
}

fn is_recipe(word: &str) -> bool {
    Path::new(word).extension().is_some_and(|end| end == "yaml" || end == "yml")
}
