//! `sweep bundle create` and `sweep bundle verify`.

use std::{
    collections::BTreeMap,
    io::{self, BufReader, IsTerminal as _, Write as _},
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use clap::{Args, Subcommand};
use sweep_job::Unit;

use super::{Prepared, RecipeArgs, print};
use crate::{
    analysis::Results,
    error::{Error, Exit},
    export::bundle::{self, Command, Compared, MOST_INPUT, Opened, Rerun, Verified},
    format::{clean, clean_lines, count, quantity, say},
    host::replaced::{Outlives, Readers, replace_with},
    plan::{JobId, Plan},
    propose::run_jobs,
    recipe::Request,
    render::{Page, Report},
    run::{self, Disposition},
    store::Store,
};

/// Names that a line lists at most.
const MOST_NAMED: usize = 4;

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
    #[arg(long, value_name = "MIB", default_value_t = MOST_INPUT >> 20)]
    input_limit: u64,
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
    let (jobs, size) = (count(contents.jobs.len() - open, "job"), quantity(bytes as f64, Unit::Bytes));
    print(&format!("{jobs} in {}, {size}\n", file.display()))?;
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
    let named = left_out.iter().take(MOST_NAMED);
    let named = named.map(|(path, bytes)| {
        format!("{} ({})", clean(&path.display().to_string()), quantity(*bytes as f64, Unit::Bytes))
    });
    let more =
        if left_out.len() > MOST_NAMED { format!(" and {} more", left_out.len() - MOST_NAMED) } else { String::new() };
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
    print(&text(&opened, &verified, args.rerun > 0))?;
    if contents.sweep != env!("CARGO_PKG_VERSION") {
        let (then, now) = (clean(&contents.sweep), env!("CARGO_PKG_VERSION"));
        say(format_args!("note: it was made by sweep {then}, this is {now}; keys and tables may differ for that"));
    }
    if !verified.defects.is_empty() {
        return Ok(Exit::Failure);
    }
    if args.rerun > 0 { rerun(&opened, &plan, args, folder.path()) } else { Ok(Exit::Done) }
}

/// The result of a verification. Where jobs will run again, they have the last word.
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
fn rerun(opened: &Opened, plan: &Plan, args: &VerifyArgs, folder: &Path) -> Result<Exit, Error> {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| u64::from(since.subsec_nanos()));
    let seed = args.seed.unwrap_or_else(now);
    if let Some(from) = &args.inputs {
        opened.supply(from).map_err(Error::io("cannot take input files from the folder"))?;
    }
    let bundled = opened.store();
    let wanted = bundle::sample(plan, &bundled, args.rerun, seed);
    let Rerun { plan, sample, left } = Rerun::new(opened, plan, &wanted);
    let left: Vec<String> = left
        .iter()
        .map(|(label, reason)| format!("✗ {} cannot run again here: {}", clean(label), clean(reason)))
        .collect();
    if sample.is_empty() {
        print(&format!("{}\nnothing ran again: {}\n", left.join("\n"), not_again(left.len())))?;
        return Ok(Exit::Failure);
    }
    let code = opened.without_code();
    if !code.is_empty() {
        let named = code.iter().take(MOST_NAMED).map(|path| clean(path)).collect::<Vec<_>>().join(", ");
        let more = code.len().saturating_sub(MOST_NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        say(format_args!(
            "note: programs were observed to read files that are not in the bundle: {named}{more}; `--inputs DIR` takes them from a \
             folder"
        ));
    }
    confirm(&plan, args.yes)?;
    let needed = plan.len() - sample.len();
    let more = if needed > 0 { format!(" and {} that they need", count(needed, "job")) } else { String::new() };
    say(format_args!("running {}{more} again (`--seed {seed}` draws the same)", count(sample.len(), "job")));
    let results = folder.join("again");
    let store = Store::open(&results)?;
    let ended = run_all(&plan, &store, &results, opened.contents.backend)?;
    if let Some(signal) = ended.interrupted {
        return Ok(Exit::Interrupted(signal));
    }
    let compared = compare(&plan, &sample, &bundled, &store, args.tolerance)?;
    if left.is_empty() {
        return Ok(compared);
    }
    print(&format!("{}\n{}\n", left.join("\n"), not_again(left.len())))?;
    Ok(Exit::Failure)
}

/// A sentence about jobs that did not run again.
fn not_again(jobs: usize) -> String {
    format!("{} of the selection cannot run again, so their results are not confirmed", count(jobs, "job"))
}

/// Prints the differences between the records of jobs in two stores.
pub(super) fn compare(plan: &Plan, sample: &[JobId], then: &Store, now: &Store, tolerance: f64) -> Result<Exit, Error> {
    let mut lines = Vec::new();
    let mut tally = Tally::default();
    for id in sample {
        let job = plan.job(*id);
        let label = clean(&job.label.to_string()).into_owned();
        let (Some(then), Some(now)) = (then.get(job.key)?, now.get(job.key)?) else {
            tally.differ += 1;
            lines.push(format!("✗ {label} failed"));
            continue;
        };
        let compared = Compared::new(&then, &now, tolerance);
        tally.add(&compared);
        lines.extend(compared_lines(&label, &compared));
    }
    lines.push(tally.text(sample.len()));
    print(&(lines.join("\n") + "\n"))?;
    Ok(if tally.differ == 0 { Exit::Done } else { Exit::Failure })
}

/// Results of jobs that ran again.
#[derive(Debug, Default)]
struct Tally {
    /// Jobs that agree in every metric that could be compared.
    agree: usize,
    /// Number of these metrics.
    metrics: usize,
    /// Jobs that failed, or differ in a metric.
    differ: usize,
    /// Jobs without a metric that could be compared.
    unknown: usize,
}

impl Tally {
    fn add(&mut self, compared: &Compared) {
        match (compared.is_empty(), compared.other.is_empty()) {
            (true, _) => self.unknown += 1,
            (false, true) => {
                self.agree += 1;
                self.metrics += compared.same;
            }
            (false, false) => self.differ += 1,
        }
    }

    /// The summary: a job without a metric that could be compared does not agree.
    fn text(&self, jobs: usize) -> String {
        let jobs = count(jobs, "job");
        let Self { agree, metrics, differ, unknown } = *self;
        if agree + differ == 0 {
            return format!(
                "nothing could be compared: no metric of {jobs} that ran again is independent of the machine"
            );
        }
        let metrics = if agree > 0 { format!(", in {}", count(metrics, "metric")) } else { String::new() };
        let unknown = match unknown {
            0 => String::new(),
            unknown => format!("; nothing could be compared in {unknown}"),
        };
        format!("{agree} of {jobs} that ran again agree{metrics}{unknown}")
    }
}

/// The result for one job: its metrics that agree, those that are not compared, and those that differ.
fn compared_lines(label: &str, compared: &Compared) -> Vec<String> {
    let Compared { same, largest, left_out, other } = compared;
    let names = left_out.iter().take(MOST_NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    let more = if left_out.len() > MOST_NAMED { ", …" } else { "" };
    let measured = match left_out.len() {
        0 => String::new(),
        1 => format!("1 depends on the machine ({names})"),
        some => format!("{some} depend on the machine ({names}{more})"),
    };
    let first = if compared.is_empty() {
        let because = if measured.is_empty() { "it has no metric" } else { &measured };
        format!("· {label}  nothing could be compared: {because}")
    } else {
        let sign = if other.is_empty() { '✓' } else { '✗' };
        let most = if *largest > 0.0 { format!(" up to {largest:.1e}") } else { String::new() };
        let separator = if measured.is_empty() { "" } else { ", " };
        format!("{sign} {label}  {} the same{most}{separator}{measured}", count(*same, "metric"))
    };
    let differing = other.iter().map(|(name, then, now)| {
        let now = now.map_or_else(|| "nothing".to_owned(), |now| now.to_string());
        format!("    {name}: {then} then, {now} now")
    });
    std::iter::once(first).chain(differing).collect()
}

/// Shows the commands of a bundle, and asks whether they may run.
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
    // Without a line's end, which `say` would write.
    let _ = write!(io::stderr(), "run them? [y/N] ");
    let mut answer = String::new();
    io::stdin().read_line(&mut answer).map_err(Error::io("cannot read the answer"))?;
    if matches!(answer.trim(), "y" | "Y" | "yes") { Ok(()) } else { Err(Error::NotConfirmed("as you wish")) }
}

/// Runs all jobs of a plan in a results folder of its own.
pub(super) fn run_all(
    plan: &Plan,
    store: &Store,
    results: &Path,
    backend: sweep_job::Backend,
) -> Result<run::Summary, Error> {
    let wanted = vec![Disposition::Yes; plan.len()];
    run_jobs(plan, store, results, backend, &wanted, None).map_err(Error::run)
}
