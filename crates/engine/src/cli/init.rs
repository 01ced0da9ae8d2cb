//! `sweep new`.

use std::{
    io::{self, Write as _},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::{Args, ValueEnum};
use tempfile::NamedTempFile;

use super::{
    BackendArg, ChangeArgs, Prepared, RESULTS, print,
    script::{self, Study, Subject},
};
use crate::{
    error::{Error, Exit},
    format::{clean, count, quoted, say},
    init::{self, Engine, Found, InitError, Language, OwnLab, Script, Source, Start, Wish},
};

/// The skill's place, where agents of several vendors look.
const SKILL_FILE: &str = ".agents/skills/sweep/SKILL.md";

#[derive(Debug, Args)]
pub(super) struct NewArgs {
    /// A script: Python, a notebook, R, Julia, a shell, or an executable of another kind; a module (`pkg.train`), or a program that
    /// `pyproject.toml` names. Without it, the recipe is a commented example.
    #[arg(value_name = "SCRIPT")]
    script: Option<PathBuf>,
    /// Kind of example to make.
    #[arg(long, value_enum, default_value = "program", conflicts_with_all = ["script", "arguments", "python", "timeout"])]
    template: Template,
    /// Write instructions for coding agents instead of a recipe: an agent skill, which describes when to use each command.
    /// `--output .claude/skills/sweep/SKILL.md` and similar paths put it where an agent looks for it.
    #[arg(long, conflicts_with_all = ["script", "template", "arguments", "python", "timeout"])]
    agent: bool,
    /// Write a Cargo project with networks of your own to this folder: a program that is `sweep` with further tasks. Its two tasks
    /// and its study are examples to replace.
    #[arg(
        long, value_name = "FOLDER", requires = "engine",
        conflicts_with_all = ["script", "template", "agent", "arguments", "output", "python", "timeout"]
    )]
    lab: Option<PathBuf>,
    /// With `--lab`: the folder of a clone of the sources of `sweep`, or the URL of a Git repository with them.
    #[arg(long, value_name = "FOLDER|URL", requires = "lab")]
    engine: Option<String>,
    /// Arguments that every job gets, for example a command of the script.
    #[arg(value_name = "ARGUMENT", last = true)]
    arguments: Vec<String>,
    /// The file to write. Default: `NAME.yaml`, with the name of the script, or `recipe.yaml`; with `--agent`
    /// `.agents/skills/sweep/SKILL.md`.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The Python interpreter that has the script's packages. Default: `python` on the PATH, else `python3`.
    #[arg(long, value_name = "PATH")]
    python: Option<String>,
    /// An axis of the recipe and its values; can be repeated. Default: a few parameters, with their defaults.
    #[arg(long = "axis", value_name = "PARAMETER=A,B,…", requires = "script")]
    axes: Vec<String>,
    /// Repeat each job with the seeds 0, 1, …, N - 1.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000), requires = "script")]
    seeds: Option<u32>,
    /// Maximum time, in seconds, until a Python script reads its parameters. The script runs only if its source does not show
    /// them.
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = limit)]
    timeout: Duration,
}

fn limit(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.1..=3600.0).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| "it must be a number from 0.1 to 3600".to_owned())
}

/// An example to begin with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Template {
    /// A program, with an example that runs unchanged.
    Program,
    /// The built-in network.
    Lab,
}

impl Template {
    fn text(self) -> &'static str {
        match self {
            Self::Program => init::PROGRAM,
            Self::Lab => init::LAB,
        }
    }
}

/// Writes a recipe: an example, or one for a script; or the skill for agents; or a project with tasks of its own.
pub(super) fn new(results: &Path, args: &NewArgs) -> Result<Exit, Error> {
    if args.agent {
        return skill(args.output.as_deref().unwrap_or(Path::new(SKILL_FILE)));
    }
    if let (Some(folder), Some(engine)) = (&args.lab, &args.engine) {
        return own_lab(folder, engine);
    }
    let (name, default) = match &args.script {
        Some(script) => (init::name(script)?, None),
        None => (String::new(), Some("recipe.yaml")),
    };
    let output =
        args.output.clone().unwrap_or_else(|| default.map_or_else(|| format!("{name}.yaml").into(), Into::into));
    if output.symlink_metadata().is_ok() {
        return Err(InitError::Exists(output).into());
    }
    let folder = output.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    match &args.script {
        Some(script) => of_script(results, args, script, &name, &output, folder)?,
        None => {
            let text = init::filled(args.template.text(), &init::name(&output)?, &output);
            let jobs = write(results, folder, &output, &text)?;
            print(&format!("{}: {}\n", output.display(), count(jobs, "job")))?;
        }
    }
    say(format_args!("next: sweep plan {}", output.display()));
    Ok(Exit::Done)
}

/// The script of a study, which runs in the current folder, and the parameters that it shows.
pub(super) fn inspect(
    path: &Path,
    arguments: &[String],
    python: Option<&str>,
    timeout: Duration,
) -> Result<(Script, Found), Error> {
    let target = init::target(path);
    let language = match init::language(path) {
        _ if target.is_some() => Language::Python,
        Ok(language) => language,
        Err(error) => return Err(script::unread(path).unwrap_or(Error::Init(error))),
    };
    let is_python = matches!(language, Language::Python | Language::Notebook);
    let script = Script {
        path: path.to_owned(),
        folder: std::env::current_dir().map_err(Error::io("cannot find the current folder"))?,
        language,
        start: target.as_ref().map_or(Start::File, |target| target.start.clone()),
        python: if is_python { Some(init::python(python)?) } else { None },
        arguments: arguments.to_vec(),
    };
    let file = target.as_ref().map_or(path, |target| &target.file);
    let found =
        if is_python { of_python(&script, file, timeout)? } else { init::shown(language, path)?.usable(path)? };
    Ok((script, found))
}

/// The parameters of a Python script: those that its syntax tree shows, else those that it reads.
fn of_python(script: &Script, file: &Path, timeout: Duration) -> Result<Found, Error> {
    let path = &script.path;
    let file_parameters = init::read(script, file);
    let is_known =
        file_parameters.whole || file_parameters.source == Source::Broken || script.language == Language::Notebook;
    if is_known {
        return Ok(file_parameters.usable(path)?);
    }
    say(format_args!(
        "running `{}` until it reads its parameters (no writes, no network, at most {} s)",
        clean(&path.display().to_string()),
        timeout.as_secs_f64()
    ));
    let run_parameters = init::run(script, file, timeout);
    let has_run = run_parameters.has_any();
    let found = run_parameters.or_part(file_parameters);
    if !has_run && found.has_any() {
        say(format_args!(
            "note: these parameters were found in the source of the script; its trial run found none: {}",
            clean(&found.why)
        ));
    }
    Ok(found.usable(path)?)
}

/// Writes a recipe for a script.
fn of_script(
    results: &Path,
    args: &NewArgs,
    path: &Path,
    name: &str,
    output: &Path,
    folder: &Path,
) -> Result<(), Error> {
    let (script, found) = inspect(path, &args.arguments, args.python.as_deref(), args.timeout)?;
    let axes = args.axes.iter().map(|axis| named(axis)).collect();
    let wish = Wish { axes, seeds: args.seeds, ..Wish::default() };
    let (text, missing_names) = init::text(&script, &found, name, output, &wish)?;
    let jobs = write(results, folder, output, &text)?;
    let parameter_text = match found.source {
        Source::None | Source::Broken => "no parameters".to_owned(),
        _ => count(found.parameters.len(), "parameter"),
    };
    print(&format!("{}: {parameter_text}, {}\n", output.display(), count(jobs, "job")))?;
    if matches!(found.source, Source::None) {
        say(format_args!("note: no parameters were read: {}; write them into `argv`", clean(&found.why)));
    }
    for name in &missing_names {
        say(format_args!("note: `{}` has no default and must be given: replace its value", clean(name)));
    }
    // Jobs that `sweep run` has done already have shown their metrics.
    let subject = Subject::Script(script, found);
    let mut study = Study {
        subject,
        name: name.to_owned(),
        file: output.to_owned(),
        wish,
        keep: None,
        has_records: false,
        left_out: Vec::new(),
        is_claimed: false,
        has_named_logs: false,
    };
    study.learn(results, &unchanged())?;
    Ok(())
}

/// The name and the values of `--axis NAME=VALUES`.
pub(super) fn named(axis: &str) -> (String, String) {
    let (name, values) = axis.split_once('=').unwrap_or((axis, ""));
    (name.trim().to_owned(), values.trim().to_owned())
}

/// The command that writes a script's study to the current folder.
pub(super) fn command_line(results: &Path, script: &Script, wish: &Wish) -> String {
    let mut words = vec!["sweep".to_owned()];
    if results != Path::new(RESULTS) {
        words.extend(["--results".to_owned(), results.display().to_string()]);
    }
    words.extend(["new".to_owned(), script.path.display().to_string()]);
    for (name, values) in &wish.axes {
        words.extend(["--axis".to_owned(), format!("{name}={values}")]);
    }
    words.extend(wish.seeds.iter().flat_map(|seeds| ["--seeds".to_owned(), seeds.to_string()]));
    words.extend(["-o".to_owned(), "study.yaml".to_owned()]);
    if !script.arguments.is_empty() {
        words.push("--".to_owned());
        words.extend(script.arguments.iter().cloned());
    }
    words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

/// No changes to a recipe.
pub(super) fn unchanged() -> ChangeArgs {
    ChangeArgs {
        scale: None,
        set: Vec::new(),
        axes: Vec::new(),
        backend: BackendArg::Auto,
        executor: None,
        hosts: Vec::new(),
    }
}

/// Writes the recipe if it plans, and returns the number of its jobs. An existing file is never replaced.
fn write(results: &Path, folder: &Path, output: &Path, text: &str) -> Result<usize, Error> {
    let write_error = || Error::io("cannot write the recipe");
    let mut temporary =
        tempfile::Builder::new().prefix(".new").suffix(".yaml").tempfile_in(folder).map_err(write_error())?;
    temporary.write_all(text.as_bytes()).map_err(write_error())?;
    let Prepared { plan, .. } = unchanged().prepare(results, &[temporary.path().to_owned()], &[], false)?;
    persist(temporary, output)?;
    Ok(plan.len())
}

/// Gives a temporary file its name. An existing file is never replaced.
fn persist(file: NamedTempFile, output: &Path) -> Result<(), Error> {
    let write_error = || Error::io("cannot write the file");
    file.as_file().set_permissions(PermissionsExt::from_mode(0o644)).map_err(write_error())?;
    file.persist_noclobber(output).map(drop).map_err(|error| match error.error.kind() {
        io::ErrorKind::AlreadyExists => InitError::Exists(output.to_owned()).into(),
        _ => write_error()(error.error),
    })
}

/// Writes a project with tasks of its own.
fn own_lab(folder: &Path, engine: &str) -> Result<Exit, Error> {
    let project = OwnLab::new(folder, Engine::new(engine)?)?;
    if folder.symlink_metadata().is_ok() {
        return Err(InitError::FolderExists(folder.to_owned()).into());
    }
    let names = project.write(folder).map_err(Error::io("cannot write the project"))?;
    let lines: Vec<String> = names.iter().map(|name| folder.join(name).display().to_string()).collect();
    print(&(lines.join("\n") + "\n"))?;
    say(format_args!("next: cd {} && cargo run --release -- run study.yaml", folder.display()));
    Ok(Exit::Done)
}

/// Writes the skill for agents.
fn skill(output: &Path) -> Result<Exit, Error> {
    let write_error = || Error::io("cannot write the file");
    let folder = output.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    fs_err::create_dir_all(folder).map_err(write_error())?;
    let mut file = tempfile::Builder::new().prefix(".new").tempfile_in(folder).map_err(write_error())?;
    file.write_all(init::SKILL.as_bytes()).map_err(write_error())?;
    persist(file, output)?;
    print(&format!("{}\n", output.display()))?;
    Ok(Exit::Done)
}
