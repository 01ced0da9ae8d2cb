//! `sweep bundle create` and `sweep bundle verify`.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, BufReader, IsTerminal as _, Write as _},
    path::{Path, PathBuf},
};

use clap::{Args, Subcommand};
use serde::Serialize;
use serde_json::json;
use sweep_job::Unit;

use super::{
    Prepared, RecipeArgs,
    answer::{self, FormatArgs, answer},
    compared::{MAX_NAMED, Reruns, Stores, any_seed},
    print,
};
use crate::{
    analysis::Results,
    error::{Error, Exit},
    export::bundle::{self, Command, MAX_INPUT, Opened, Rerun, Verified},
    format::{clean, clean_lines, count, quantity, say},
    host::replaced::{Outlives, Readers, replace_with},
    plan::Plan,
    recipe::Request,
    render::{Page, Report},
    store::Store,
};

/// Without a command, `sweep bundle RECIPE…` is the older form of `create`.
#[derive(Debug, Args)]
#[command(
    subcommand_negates_reqs = true,
    override_usage = "sweep bundle <COMMAND>",
    mut_args(|arg| arg.hide(true))
)]
pub(super) struct BundleArgs {
    #[command(subcommand)]
    command: Option<BundleCommand>,
    #[command(flatten)]
    create: CreateArgs,
}

#[derive(Debug, Subcommand)]
enum BundleCommand {
    /// Write a study into one archive: recipe, keys, records, report.
    Create(CreateArgs),
    /// Recompute a bundle's keys, tables and verdicts; with `--rerun`, run some of its jobs again.
    Verify(VerifyArgs),
}

#[derive(Debug, Args)]
struct CreateArgs {
    #[command(flatten)]
    recipe: RecipeArgs,
    /// The archive to write. Default: `NAME.sweep.tar`, with the name of the recipe.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Most MiB of files that jobs read, all together; larger ones are left out and named. 0 leaves all of them out.
    #[arg(long, value_name = "MIB", default_value_t = MAX_INPUT >> 20)]
    input_limit: u64,
    #[command(flatten)]
    format: FormatArgs,
}

#[derive(Debug, Args)]
pub(super) struct VerifyArgs {
    /// The archive.
    bundle: PathBuf,
    /// Run this many randomly selected jobs again, with their dependencies, and compare their metrics.
    #[arg(long, value_name = "N", default_value = "0")]
    rerun: usize,
    /// Folder with the input files that the bundle does not have, by their paths from the recipe or by their names.
    #[arg(long, value_name = "DIR", requires = "rerun")]
    inputs: Option<PathBuf>,
    /// Run the bundle's commands without asking for confirmation; they are shown nevertheless.
    #[arg(long, requires = "rerun")]
    yes: bool,
    /// Seed of the random selection.
    #[arg(long, value_name = "N", requires = "rerun")]
    seed: Option<u64>,
    /// Maximum relative difference of a metric from the bundled one. Times, rates and sizes are not compared.
    #[arg(long, value_name = "PART", default_value = "0.001", requires = "rerun", value_parser = part)]
    tolerance: f64,
    #[command(flatten)]
    format: FormatArgs,
}

pub(super) fn part(text: &str) -> Result<f64, String> {
    let part = text.parse().ok().filter(|part| (0.0..=1.0).contains(part));
    part.ok_or_else(|| "it must be a number from 0 to 1".to_owned())
}

pub(super) fn bundle(results: &Path, args: &BundleArgs) -> Result<Exit, Error> {
    match &args.command {
        Some(BundleCommand::Create(args)) => create(results, args),
        Some(BundleCommand::Verify(args)) => verify(args),
        None => create(results, &args.create),
    }
}

fn create(results: &Path, args: &CreateArgs) -> Result<Exit, Error> {
    let Prepared { plan, .. } = args.recipe.prepare(results, &[], false)?;
    let store = Store::open(results)?;
    let done = Results::read(&plan, &store)?;
    for study in &plan.studies {
        let report = Report::new(&plan, study, &done, &store);
        report.write(results, Page::IfStale).map_err(Error::io("cannot write the report"))?;
    }
    let name = || {
        let first = plan.studies.first().map_or("study", |study| study.recipe.report.to_str().unwrap_or("study"));
        PathBuf::from(format!("{}.sweep.tar", first.split('/').next().unwrap_or(first)))
    };
    let file = args.output.clone().unwrap_or_else(name);
    let changes = &args.recipe.changes;
    let scale = changes.scale.as_deref();
    let request = Request { paths: &args.recipe.paths, set: &changes.set, axes: &changes.axes, scale, only: &[] };
    let most = args.input_limit.saturating_mul(1 << 20);
    // An archive is there whole or not at all.
    let contents =
        replace_with(&file, Readers::All, Outlives::Process, |out| bundle::write(&plan, &request, &store, most, out))?;
    let bytes = file.metadata().map_err(Error::io("cannot read the bundle"))?.len();
    let open = contents.jobs.iter().filter(|job| !job.done).count();
    if args.format.is_json() {
        let (jobs, left_out) = (contents.jobs.len(), &contents.left_out);
        let created = json!({ "file": file, "bytes": bytes, "jobs": jobs, "open": open, "left_out": left_out });
        answer(&created, vec![answer::line(results, ["bundle", "verify", &file.display().to_string()])])?;
    } else {
        let (jobs, size) = (count(contents.jobs.len() - open, "job"), quantity(bytes as f64, Unit::Bytes));
        print(&format!("{jobs} in {}, {size}\n", file.display()))?;
    }
    say_left_out(&contents.left_out, args.input_limit);
    if open > 0 {
        say(format_args!("note: {} without a result; the tables say why", count(open, "job")));
    }
    Ok(Exit::Done)
}

/// Names the files that are not in a bundle.
fn say_left_out(left_out: &BTreeMap<PathBuf, u64>, limit: u64) {
    if left_out.is_empty() {
        return;
    }
    let named = left_out.iter().take(MAX_NAMED);
    let named = named.map(|(path, bytes)| {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        // The size is unknown of what cannot be archived: it has an empty folder, or a folder that two links lead to.
        let why = if *bytes > 0 { quantity(*bytes as f64, Unit::Bytes) } else { "not only files".to_owned() };
        format!("{} ({why})", clean(&path.display().to_string()))
    });
    let more =
        if left_out.len() > MAX_NAMED { format!(" and {} more", left_out.len() - MAX_NAMED) } else { String::new() };
    say(format_args!(
        "note: not in the bundle, which has at most {limit} MiB of inputs: {}{more}; `--input-limit` changes that, and `verify \
         --rerun` takes them from `--inputs DIR`",
        named.collect::<Vec<_>>().join(", ")
    ));
}

pub(super) fn verify(args: &VerifyArgs) -> Result<Exit, Error> {
    let archive = fs_err::File::open(&args.bundle).map_err(Error::io("cannot read the bundle"))?;
    let folder = tempfile::tempdir().map_err(Error::io("cannot make a folder to unpack to"))?;
    let opened = bundle::unpack(BufReader::new(archive), folder.path())?;
    let contents = &opened.contents;
    let name = args.bundle.display().to_string();
    let draft = opened.draft().map_err(Error::recipe(name.clone()))?;
    let plan = opened.plan(draft).map_err(Error::search(name))?;
    let verified = opened.verify(&plan)?;
    let is_json = args.format.is_json();
    if !is_json {
        print(&text(&opened, &verified, args.rerun > 0))?;
    }
    if contents.sweep != env!("CARGO_PKG_VERSION") {
        let (then, now) = (clean(&contents.sweep), env!("CARGO_PKG_VERSION"));
        say(format_args!("note: it was made by sweep {then}, this is {now}; keys and tables may differ for that"));
    }
    let is_good = verified.defects.is_empty();
    let runs_again = is_good && args.rerun > 0;
    let reruns = runs_again.then(|| rerun(&opened, &plan, args, folder.path())).transpose()?;
    let exit = match &reruns {
        _ if !is_good => Exit::Failure,
        None => Exit::Done,
        Some(reruns) => reruns.exit(),
    };
    if is_json {
        let (recipes, environment, sweep) = (&contents.recipes, &contents.environment, &contents.sweep);
        let verified = VerifiedBundle { recipes, sweep, environment, good: exit == Exit::Done, verified, reruns };
        answer(&verified, Vec::new())?;
    } else if let Some(reruns) = &reruns {
        print(&reruns.text())?;
    }
    Ok(exit)
}

/// The JSON output of `sweep bundle verify`.
#[derive(Serialize)]
struct VerifiedBundle<'a> {
    recipes: &'a [String],
    /// The version of the program that wrote it.
    sweep: &'a str,
    environment: &'a BTreeMap<String, BTreeSet<String>>,
    /// True if everything agrees.
    good: bool,
    #[serde(flatten)]
    verified: Verified,
    #[serde(skip_serializing_if = "Option::is_none")]
    reruns: Option<Reruns>,
}

/// The result of a verification. If jobs will run again, their results decide.
fn text(opened: &Opened, verified: &Verified, reruns: bool) -> String {
    let contents = &opened.contents;
    let mut lines = vec![clean(&contents.recipes.join(", ")).into_owned()];
    for (what, values) in &contents.environment {
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        lines.push(format!("  {what}: {}", clean(&values.join(", "))));
    }
    let Verified { jobs, records, tables, figures, verdicts, defects } = verified;
    lines.push(format!(
        "{} by the recipe, {} by what they are made of",
        count(*jobs, "key"),
        count(*records, "record")
    ));
    let made = [count(*tables, "table"), count(*figures, "figure"), count(*verdicts, "verdict")];
    lines.push(format!("{} recomputed from the records", made.join(", ")));
    lines.extend(defects.iter().map(|defect| format!("✗ {}", clean(defect))));
    lines.push(match (defects.len(), reruns) {
        (0, false) => "everything agrees".to_owned(),
        (0, true) => "the bundle agrees with itself".to_owned(),
        (defects, _) => count(defects, "defect"),
    });
    lines.join("\n") + "\n"
}

/// Runs a sample of the jobs again, in a folder of its own.
fn rerun(opened: &Opened, plan: &Plan, args: &VerifyArgs, folder: &Path) -> Result<Reruns, Error> {
    let seed = args.seed.unwrap_or_else(any_seed);
    if let Some(from) = &args.inputs {
        opened.supply(from).map_err(Error::io("cannot take input files from the folder"))?;
    }
    let bundled = opened.store();
    let imported = plan.jobs().filter(|(_, job)| job.is_imported()).count();
    if imported > 0 {
        say(format_args!("note: {} of other programs cannot run again", count(imported, "run")));
    }
    let wanted = bundle::sample(plan, &bundled, args.rerun, seed);
    let Rerun { plan, sample, left } = Rerun::new(opened, plan, &wanted);
    let mut reruns = Reruns::new(seed, left);
    if sample.is_empty() {
        return Ok(reruns);
    }
    let code = opened.without_code();
    if !code.is_empty() {
        let named = code.iter().take(MAX_NAMED).map(|path| clean(path)).collect::<Vec<_>>().join(", ");
        let more = code.len().saturating_sub(MAX_NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        say(format_args!(
            "note: programs were observed to read files that are not in the bundle: {named}{more}; `--inputs DIR` takes them from a \
             folder"
        ));
    }
    confirm(&plan, args.yes)?;
    let stores = Stores { then: &bundled, again: &folder.join("again") };
    reruns.run(&plan, &sample, stores, opened.contents.backend, args.tolerance)?;
    Ok(reruns)
}

/// Shows the commands of a bundle, and requests confirmation to run them.
fn confirm(plan: &Plan, yes: bool) -> Result<(), Error> {
    let commands = bundle::commands(plan);
    if commands.is_empty() {
        return Ok(());
    }
    say(format_args!("the bundle's jobs run these commands, as you, with your files and your network:"));
    for Command { jobs, run, env } in &commands {
        let first = jobs.first().map(|label| clean(label)).unwrap_or_default();
        let more = if jobs.len() > 1 { format!(" and {}", count(jobs.len() - 1, "more job")) } else { String::new() };
        say(format_args!("  {first}{more}"));
        for line in clean_lines(run).lines() {
            say(format_args!("    $ {line}"));
        }
        for (name, value) in env {
            say(format_args!("      {}={}", clean(name), clean(value)));
        }
    }
    if yes {
        return Ok(());
    }
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(Error::NotConfirmed("there is no terminal to ask on; `--yes` runs them"));
    }
    // `say` would end the line after the prompt.
    let _ = write!(io::stderr(), "run them? [y/N] ");
    let mut answer = String::new();
    io::stdin().read_line(&mut answer).map_err(Error::io("cannot read the answer"))?;
    if matches!(answer.trim(), "y" | "Y" | "yes") { Ok(()) } else { Err(Error::NotConfirmed("as you wish")) }
}
