//! `sweep bundle create` and `sweep bundle verify`.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, BufReader, IsTerminal as _, Write as _},
    path::{Path, PathBuf},
};

use clap::{ArgGroup, Args, Subcommand};
use serde::Serialize;
use serde_json::json;
use sweep_job::Unit;

use super::{
    Prepared, RecipeArgs,
    answer::{self, FormatArgs, answer},
    compared::{MAX_NAMED, Reruns, Stores, any_seed},
    print,
    rebuilt::Rebuild,
};
use crate::{
    analysis::Results,
    error::{Error, Exit},
    export::bundle::{self, Attested, Command, Contents, MAX_INPUT, Opened, Rerun, Verified},
    format::{clean, clean_lines, count, quantity, say},
    host::replaced::{Outlives, Readers, replace, replace_with},
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
    /// Maximum total size, in MiB, of the files that jobs read; files beyond this size are left out and listed. 0 leaves all out.
    #[arg(long, value_name = "MIB", default_value_t = MAX_INPUT >> 20)]
    input_limit: u64,
    /// Sign a statement about the archive (in-toto, SLSA provenance) with the secret key in this file, created by `sweep cache keygen`. The
    /// statement is written next to the archive, to `NAME.sweep.tar.intoto.jsonl`.
    #[arg(long, value_name = "FILE")]
    sign: Option<PathBuf>,
    #[command(flatten)]
    format: FormatArgs,
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("again").args(["rerun", "rebuild"]).multiple(true))]
pub(super) struct VerifyArgs {
    /// The archive.
    bundle: PathBuf,
    /// Require a statement about the archive that a key in this file has signed; the file has one public key per line.
    #[arg(long, value_name = "FILE")]
    trust: Option<PathBuf>,
    /// Run N randomly selected jobs again, with their dependencies, and compare their metrics. Default: 0, or 3 with `--rebuild`.
    #[arg(long, value_name = "N")]
    rerun: Option<usize>,
    /// Create new Python environments for these jobs, with the recorded versions of packages, and run the jobs in them. `uv` or `pip`
    /// installs the packages from the registries that are configured on this machine.
    #[arg(long)]
    rebuild: bool,
    /// Folder with the input files that the bundle lacks, found by their paths relative to the recipe or by their names.
    #[arg(long, value_name = "DIR", requires = "again")]
    inputs: Option<PathBuf>,
    /// Run the bundle's commands without asking for confirmation; the commands are still shown.
    #[arg(long, requires = "again")]
    yes: bool,
    /// Seed of the random selection.
    #[arg(long, value_name = "N", requires = "again")]
    seed: Option<u64>,
    /// Maximum relative difference of a metric from the bundled one. Times, rates and sizes are not compared.
    #[arg(long, value_name = "PART", default_value = "0.001", requires = "again", value_parser = part)]
    tolerance: f64,
    #[command(flatten)]
    format: FormatArgs,
}

impl VerifyArgs {
    /// Number of jobs that run again.
    fn reruns(&self) -> usize {
        const WITH_REBUILD: usize = 3;
        self.rerun.unwrap_or(if self.rebuild { WITH_REBUILD } else { 0 })
    }
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
    let job_results = Results::read(&plan, &store)?;
    for study in &plan.studies {
        let report = Report::new(&plan, study, &job_results, &store);
        report.write(results, Page::IfStale).map_err(Error::io("cannot write the report"))?;
    }
    let name = || {
        let first_name = plan.studies.first().map_or("study", |study| study.recipe.report.to_str().unwrap_or("study"));
        PathBuf::from(format!("{}.sweep.tar", first_name.split('/').next().unwrap_or(first_name)))
    };
    let file = args.output.clone().unwrap_or_else(name);
    let changes = &args.recipe.changes;
    let scale = changes.scale.as_deref();
    let request = Request { paths: &args.recipe.paths, set: &changes.set, axes: &changes.axes, scale, only: &[] };
    let max_bytes = args.input_limit.saturating_mul(1 << 20);
    // An archive is there whole or not at all.
    let contents = replace_with(&file, Readers::All, Outlives::Process, |writer| {
        bundle::write(&plan, &request, &store, max_bytes, writer)
    })?;
    let bytes = file.metadata().map_err(Error::io("cannot read the bundle"))?.len();
    let statement = sign(&file, &contents, args.sign.as_deref())?;
    let open_count = contents.jobs.iter().filter(|job| !job.done).count();
    if args.format.is_json() {
        let (jobs, left_out) = (contents.jobs.len(), &contents.left_out);
        let outside = &contents.outside;
        let fields = json!({
            "file": file, "bytes": bytes, "jobs": jobs, "open": open_count, "left_out": left_out, "outside": outside, "statement": statement,
        });
        answer(&fields, vec![answer::line(results, ["bundle", "verify", &file.display().to_string()])])?;
    } else {
        let (jobs, size) = (count(contents.jobs.len() - open_count, "job"), quantity(bytes as f64, Unit::Bytes));
        print(&format!("{jobs} in {}, {size}\n", file.display()))?;
        if let Some(statement) = &statement {
            print(&format!("signed statement in {}\n", statement.display()))?;
        }
    }
    say_left_out(&contents.left_out, args.input_limit);
    say_outside(&contents.outside);
    if open_count > 0 {
        say(format_args!("note: {} without a result; the tables show the reasons", count(open_count, "job")));
    }
    Ok(Exit::Done)
}

/// Writes the signed statement about an archive, and returns its file; `None` without a key.
fn sign(archive: &Path, contents: &Contents, key: Option<&Path>) -> Result<Option<PathBuf>, Error> {
    let file = bundle::statement_file(archive);
    let Some(key) = key else {
        if file.exists() {
            say(format_args!("note: {} is about an earlier bundle; `--sign` writes a new statement", file.display()));
        }
        return Ok(None);
    };
    let line = bundle::attest(archive, contents, key)?;
    replace(&file, line.as_bytes(), Readers::All, Outlives::Process)
        .map_err(Error::io("cannot write the statement"))?;
    Ok(Some(file))
}

/// Names the files that are not in a bundle.
fn say_left_out(omissions: &BTreeMap<PathBuf, u64>, limit: u64) {
    if omissions.is_empty() {
        return;
    }
    let names = omissions.iter().map(|(path, bytes)| {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        // An input that cannot be archived has no known size: it has an empty folder, or a folder that two links lead to.
        let size = if *bytes > 0 { quantity(*bytes as f64, Unit::Bytes) } else { "not only files".to_owned() };
        format!("{} ({size})", clean(&path.display().to_string()))
    });
    say(format_args!(
        "note: not in the bundle, which has at most {limit} MiB of inputs: {}; `--input-limit` changes that, and `verify --rerun` takes \
         them from `--inputs DIR`",
        listed(names, omissions.len())
    ));
}

/// The first names of `total` ones.
fn listed(names: impl Iterator<Item = String>, total: usize) -> String {
    let remainder = if total > MAX_NAMED { format!(" and {} more", total - MAX_NAMED) } else { String::new() };
    names.take(MAX_NAMED).collect::<Vec<_>>().join(", ") + &remainder
}

/// Names the files outside of the project that programs read.
fn say_outside(files: &BTreeSet<PathBuf>) {
    if files.is_empty() {
        return;
    }
    let names = files.iter().map(|path| clean(&path.display().to_string()).into_owned());
    say(format_args!(
        "note: not in the bundle, because it is outside of the project: {}; list it in `inputs` of the step to bundle it",
        listed(names, files.len())
    ));
}

pub(super) fn verify(args: &VerifyArgs) -> Result<Exit, Error> {
    let archive = fs_err::File::open(&args.bundle).map_err(Error::io("cannot read the bundle"))?;
    let folder = tempfile::tempdir().map_err(Error::io("cannot make a folder to unpack to"))?;
    let bundle = bundle::unpack(BufReader::new(archive), folder.path())?;
    let contents = &bundle.contents;
    let name = args.bundle.display().to_string();
    let draft = bundle.draft().map_err(Error::recipe(name.clone()))?;
    let plan = bundle.plan(draft).map_err(Error::search(name))?;
    let mut verification = bundle.verify(&plan)?;
    let statements = statements(args, &mut verification)?;
    let is_json = args.format.is_json();
    if !is_json {
        print(&text(&bundle, &verification, &statements, args.reruns() > 0))?;
    }
    if contents.sweep != env!("CARGO_PKG_VERSION") {
        let (bundle_version, own_version) = (clean(&contents.sweep), env!("CARGO_PKG_VERSION"));
        say(format_args!(
            "note: it was made by sweep {bundle_version}, this is {own_version}; keys and tables may differ for this \
             reason"
        ));
    }
    let is_good = verification.defects.is_empty();
    let runs_again = is_good && args.reruns() > 0;
    let reruns = runs_again.then(|| rerun(&bundle, &plan, args, folder.path())).transpose()?;
    let exit = match &reruns {
        _ if !is_good => Exit::Failure,
        None => Exit::Done,
        Some(reruns) => reruns.exit(),
    };
    if is_json {
        let (recipes, environment, sweep) = (&contents.recipes, &contents.environment, &contents.sweep);
        let good = exit == Exit::Done;
        let verification =
            VerifiedBundle { recipes, sweep, environment, good, statements, verified: verification, reruns };
        answer(&verification, Vec::new())?;
    } else if let Some(reruns) = &reruns {
        print(&reruns.text())?;
    }
    Ok(exit)
}

/// The signed statements about a bundle; their defects are those of the bundle.
fn statements(args: &VerifyArgs, verification: &mut Verified) -> Result<Vec<Attested>, Error> {
    let (file, trust) = (bundle::statement_file(&args.bundle), args.trust.as_deref());
    if cfg!(not(feature = "remote")) && trust.is_none() {
        if file.exists() {
            say(format_args!("note: {} is not checked: this build has no signatures", file.display()));
        }
        return Ok(Vec::new());
    }
    let (statements, defects) = bundle::attested(&args.bundle, trust)?;
    verification.defects.extend(defects);
    if trust.is_none() && !statements.is_empty() {
        say(format_args!("note: anyone can sign; `--trust FILE` requires a signature by a key in a file"));
    }
    Ok(statements)
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
    /// The signed statements about it.
    statements: Vec<Attested>,
    #[serde(flatten)]
    verified: Verified,
    #[serde(skip_serializing_if = "Option::is_none")]
    reruns: Option<Reruns>,
}

/// The result of a verification. If jobs will run again, their results decide.
fn text(bundle: &Opened, verification: &Verified, statements: &[Attested], reruns: bool) -> String {
    let contents = &bundle.contents;
    let mut lines = vec![clean(&contents.recipes.join(", ")).into_owned()];
    for (name, values) in &contents.environment {
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        lines.push(format!("  {name}: {}", clean(&values.join(", "))));
    }
    let Verified { jobs, records, tables, figures, verdicts, defects } = verification;
    lines.push(format!(
        "{} checked against the recipe, {} against their contents",
        count(*jobs, "key"),
        count(*records, "record")
    ));
    let counts = [count(*tables, "table"), count(*figures, "figure"), count(*verdicts, "verdict")];
    lines.push(format!("{} recomputed from the records", counts.join(", ")));
    lines.extend(statements.iter().map(|Attested { signer, trusted, predicate }| {
        let trusted = if *trusted { ", a trusted key" } else { "" };
        format!("signed by {}{trusted}: {}", clean(signer), clean(predicate))
    }));
    lines.extend(defects.iter().map(|defect| format!("✗ {}", clean(defect))));
    lines.push(match (defects.len(), reruns) {
        (0, false) => "everything agrees".to_owned(),
        (0, true) => "the bundle agrees with itself".to_owned(),
        (defects, _) => count(defects, "defect"),
    });
    lines.join("\n") + "\n"
}

/// Runs a sample of the jobs again, in a folder of its own.
fn rerun(bundle: &Opened, plan: &Plan, args: &VerifyArgs, folder: &Path) -> Result<Reruns, Error> {
    let seed = args.seed.unwrap_or_else(any_seed);
    if let Some(input_folder) = &args.inputs {
        bundle.supply(input_folder).map_err(Error::io("cannot take input files from the folder"))?;
    }
    let bundled = bundle.store();
    let imported = plan.jobs().filter(|(_, job)| job.is_imported()).count();
    if imported > 0 {
        say(format_args!("note: {} of other programs cannot run again", count(imported, "run")));
    }
    let wanted_jobs = bundle::sample(plan, &bundled, args.reruns(), seed);
    let mut rerun = Rerun::new(bundle, plan, &wanted_jobs);
    if rerun.sample.is_empty() {
        return Ok(Reruns::new(seed, rerun.left));
    }
    let code = bundle.without_code();
    if !code.is_empty() {
        let names = code.iter().take(MAX_NAMED).map(|path| clean(path)).collect::<Vec<_>>().join(", ");
        let remainder = code.len().saturating_sub(MAX_NAMED);
        let remainder = if remainder > 0 { format!(" and {remainder} more") } else { String::new() };
        say(format_args!(
            "note: programs were observed to read files that are not in the bundle: {names}{remainder}; `--inputs DIR` takes them from a \
             folder"
        ));
    }
    let rebuild = args.rebuild.then(|| Rebuild::new(bundle, &rerun.plan, &bundled));
    confirm(&rerun.plan, rebuild.as_ref(), args.yes)?;
    if let Some(rebuild) = &rebuild {
        rerun = rebuild.make(rerun, folder);
    }
    let Rerun { plan, sample, left } = rerun;
    let mut reruns = Reruns::new(seed, left);
    if sample.is_empty() {
        return Ok(reruns);
    }
    let stores = Stores { then: &bundled, again: &folder.join("again") };
    reruns.run(&plan, &sample, stores, bundle.contents.backend, args.tolerance)?;
    if rebuild.is_some() {
        reruns.compare_environments(bundle, &plan, stores)?;
    }
    Ok(reruns)
}

/// Shows the commands of a bundle and the packages of its environments, and requests confirmation to run and install them.
fn confirm(plan: &Plan, rebuild: Option<&Rebuild>, yes: bool) -> Result<(), Error> {
    let commands = bundle::commands(plan);
    let installed = rebuild.map(Rebuild::lines).unwrap_or_default();
    if commands.is_empty() && installed.is_empty() {
        return Ok(());
    }
    if !installed.is_empty() {
        say(format_args!(
            "these packages are installed into new environments, from the registries that are configured here:"
        ));
        for line in &installed {
            say(format_args!("  {}", clean(line)));
        }
    }
    say(format_args!("the bundle's jobs run these commands, as you, with your files and your network:"));
    for Command { jobs, run, env } in &commands {
        let first_label = jobs.first().map(|label| clean(label)).unwrap_or_default();
        let remainder =
            if jobs.len() > 1 { format!(" and {}", count(jobs.len() - 1, "more job")) } else { String::new() };
        say(format_args!("  {first_label}{remainder}"));
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
        return Err(Error::NotConfirmed("there is no terminal for the confirmation; `--yes` runs them"));
    }
    // `say` would end the line after the prompt.
    let _ = write!(io::stderr(), "run them? [y/N] ");
    let mut answer = String::new();
    io::stdin().read_line(&mut answer).map_err(Error::io("cannot read the answer"))?;
    if matches!(answer.trim(), "y" | "Y" | "yes") {
        Ok(())
    } else {
        Err(Error::NotConfirmed(
            "the confirmation was \
        declined",
        ))
    }
}
