//! Parameters of a Python script: from its syntax tree, and by running it until it reads them.

use std::{
    ffi::OsStr,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use serde::Deserialize;
use serde_json::Value as Json;

use super::{InitError, Script, Start, languages::parameter};
use crate::host::ask::{Answer, Children, Limits, ask, converse};

/// The program that reads the script's syntax tree, and runs nothing of it.
const READER: &str = concat!(
    include_str!("python/probe.py"),
    "\n",
    include_str!("python/fields.py"),
    "\n",
    include_str!("python/values.py"),
    "\n",
    include_str!("python/statements.py"),
    "\n",
    include_str!("python/calls.py"),
    "\n",
    include_str!("python/expressions.py"),
    "\n",
    include_str!("python/tree.py"),
    "\n",
    include_str!("python/models.py"),
    "\n",
    include_str!("python/classes.py"),
    "\n",
    include_str!("python/commands.py"),
    "\n",
    include_str!("python/others.py"),
    "\n",
    include_str!("python/configs.py"),
    "\n",
    include_str!("python/read.py"),
);
/// The program that runs the script: the code that reads each kind of parser, then the guard and the run.
const RUNNER: &str = concat!(
    include_str!("python/probe.py"),
    "\n",
    include_str!("python/fields.py"),
    "\n",
    include_str!("python/patches.py"),
    "\n",
    include_str!("python/guard.py"),
);
/// Maximum length of the output that is read, in bytes.
const MAX_ANSWER_BYTES: usize = 4 << 20;
/// Time in which a syntax tree is read.
const READING: Duration = Duration::from_secs(20);
/// Time that the probe may take beyond its own limit.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The parameters of a script, as the programs of this module print them.
#[derive(Debug, Clone, Deserialize)]
pub struct Found {
    /// The origin of the parameters.
    pub source: Source,
    /// The parameters, in the order of their declarations.
    pub parameters: Vec<Parameter>,
    /// Commands among which one must be chosen.
    #[serde(default)]
    pub commands: Vec<String>,
    /// The reason for missing parameters.
    #[serde(default)]
    pub why: String,
    /// The line of the script at which it failed, or 0.
    #[serde(default)]
    pub line: u64,
    /// The module that could not be imported.
    #[serde(default)]
    pub module: String,
    /// True if these are all parameters that a run of the script would show.
    #[serde(default)]
    pub whole: bool,
    /// The groups of Hydra of which the configuration has one. They are parameters only if they are asked for: each is beside the
    /// parameters of its configuration.
    #[serde(default)]
    pub groups: Vec<Parameter>,
}

/// Origin of parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// `argparse`.
    Argparse,
    /// `click`, and `typer`, which is built on it.
    Click,
    /// Hydra.
    Hydra,
    /// `tyro`.
    Tyro,
    /// `sweep.params`.
    Sweep,
    /// A file that the script executes, and that gives global variables the values of `--name=value`.
    Configurator,
    /// `optparse` of Python.
    Optparse,
    /// `docopt`.
    Docopt,
    /// Fire.
    Fire,
    /// absl, and `ml_collections`, which is built on it.
    Absl,
    /// `OmegaConf.from_cli`.
    Omegaconf,
    /// draccus.
    Draccus,
    /// Settings of pydantic.
    Pydantic,
    /// jsonargparse.
    Jsonargparse,
    /// The command line of Lightning.
    Lightning,
    /// Environment variables.
    Environment,
    /// The cell of a notebook whose variables papermill replaces.
    Papermill,
    /// Options of R, Julia and shells.
    Options,
    /// Options of a shell that have their values in the same argument: `--lr=0.1`.
    Equals,
    /// Letters of `getopts` in a shell.
    Getopts,
    /// Arguments without names, in R, Julia and shells.
    Places,
    /// None were found.
    None,
    /// The script cannot be run at all.
    Broken,
}

/// A parameter.
#[derive(Debug, Clone, Deserialize)]
pub struct Parameter {
    /// The name on the command line, without dashes.
    pub name: String,
    /// Its other names, without dashes: `lr` of `--learning-rate, --lr`.
    #[serde(default)]
    pub spellings: Vec<String>,
    /// The form on the command line.
    pub style: Style,
    /// True if it must be given.
    pub required: bool,
    /// The default; null without a default, or if it has no form on a command line.
    pub default: Json,
    /// The name of the type.
    #[serde(default)]
    pub kind: String,
    /// The accepted values, if they are listed.
    #[serde(default)]
    pub choices: Vec<Json>,
    /// The description.
    #[serde(default)]
    pub help: String,
    /// The reason why it cannot be a value of `params`.
    #[serde(default)]
    pub note: String,
    /// The name of the opposite: `no-x`.
    #[serde(default)]
    pub negative: String,
    /// The word before the value of a parameter without a long name: `-x`.
    #[serde(default)]
    pub option: String,
    /// The least value of a number.
    #[serde(default)]
    pub least: Option<f64>,
    /// The largest value of a number.
    #[serde(default)]
    pub most: Option<f64>,
}

/// Form of a parameter on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Style {
    /// `--x`, or nothing.
    Flag,
    /// `--x`, or `--no-x`.
    Pair,
    /// `--x true`, or `--x false`.
    Truth,
    /// `--x True`, or `--x False`.
    Python,
    /// `--x VALUE`.
    Value,
    /// `--x VALUE VALUE`.
    List,
    /// `--x=VALUE,VALUE`.
    Commas,
    /// `--x=VALUE --x=VALUE`.
    Repeat,
    /// A value without a name.
    Position,
    /// `-x VALUE`.
    Short,
    /// Anything else.
    Other,
}

/// Reads the syntax tree of a Python script, or of a notebook. Nothing of it is run.
pub fn read(script: &Script, path: &Path) -> Found {
    let mut command = Command::new(script.python.as_deref().unwrap_or("python3"));
    // Without the folder and the variables of the user, in which there may be modules with names of Python's own. The program is
    // longer than an argument may be.
    command.args(["-I", "-", "0"]).arg(path).args(&script.arguments).env("PYTHONUTF8", "1");
    answer(&mut command, Some(READER), READING)
}

/// Runs a Python script until it reads its parameters.
pub fn run(script: &Script, path: &Path, limit: Duration) -> Found {
    let python = script.python.as_deref().unwrap_or("python3");
    let folder = tempfile::tempdir();
    let mut command = Command::new(python);
    command.args(["-c", RUNNER]).arg(limit.as_secs_f64().to_string()).arg(path).args(&script.arguments);
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("SWEEP_")) {
        command.env_remove(name);
    }
    command.env_remove("PYTHONSTARTUP").env_remove("PYTHONINSPECT").env("PYTHONUTF8", "1").env("MPLBACKEND", "Agg");
    // Variables tell packages not to use the network; connections are refused in any case. GPUs are hidden, because other jobs may use
    // them.
    command.envs([("HF_HUB_OFFLINE", "1"), ("TRANSFORMERS_OFFLINE", "1"), ("WANDB_MODE", "disabled")]);
    command.envs([("CUDA_VISIBLE_DEVICES", ""), ("HIP_VISIBLE_DEVICES", ""), ("JAX_PLATFORMS", "cpu")]);
    if let Ok(folder) = &folder {
        command.env("TMPDIR", folder.path());
    }
    if let Start::Module(_) = script.start {
        // `python -m` finds the packages of its folder.
        let known = std::env::var_os("PYTHONPATH").unwrap_or_default();
        let folders = std::iter::once(script.folder.clone()).chain(std::env::split_paths(&known));
        command.envs(std::env::join_paths(folders).ok().map(|folders| ("PYTHONPATH", folders)));
    }
    answer(&mut command, None, limit + TIMEOUT)
}

/// Runs one of the programs above, which may be passed as input, and returns its result.
fn answer(command: &mut Command, program: Option<&str>, limit: Duration) -> Found {
    let deadline = Instant::now() + limit;
    let limits = Limits { most: MAX_ANSWER_BYTES, until: deadline, children: Children::Awaited };
    let answer = converse(command, program.map(|text| text.as_bytes().to_vec()), limits).ok().filter(Answer::succeeded);
    let reason = match &answer {
        Some(_) => "it ended before it read any",
        None if Instant::now() < deadline => "its process ended without an answer",
        None => "it has not read any within the time limit, for an unknown reason",
    };
    let found = answer.and_then(|answer| serde_json::from_slice(&answer.text).ok());
    found.unwrap_or_else(|| Found::none(reason))
}

impl Found {
    /// With the groups that these axes name as parameters, and with the keys that Hydra is to add: `+experiment`.
    #[must_use]
    pub(super) fn with_groups(&self, axes: &[(String, String)]) -> Self {
        let is_named = |group: &&Parameter| axes.iter().any(|(axis, _)| *axis == group.name);
        let mut found = self.clone();
        found.parameters.extend(self.groups.iter().filter(is_named).cloned());
        let added = axes.iter().filter(|(axis, _)| self.source == Source::Hydra && axis.starts_with('+'));
        found.parameters.extend(added.map(|(axis, _)| parameter(axis, Style::Value)));
        found
    }
}

/// The interpreter for a script: `wish`, else the first on the `PATH`, else the one beside this program, where a wheel
/// installs it.
pub fn python(wish: Option<&str>) -> Result<String, InitError> {
    if let Some(wish) = wish {
        // Jobs run in separate folders, in which a relative path is not valid.
        let path = if wish.contains('/') { std::path::absolute(wish).ok() } else { None };
        let wish = path.map_or_else(|| wish.to_owned(), |path| path.to_string_lossy().into_owned());
        return if is_usable(&wish) {
            Ok(wish)
        } else {
            Err(InitError::NoPython(format!("`{wish}` is not a Python of version 3.8 or later")))
        };
    }
    let sibling = std::env::current_exe().ok().and_then(|program| Some(program.parent()?.join("python")));
    let sibling = sibling.map(|path| path.to_string_lossy().into_owned());
    let mut candidates = ["python", "python3"].map(str::to_owned).into_iter().chain(sibling);
    let no_python = || InitError::NoPython("there is no Python of version 3.8 or later on the PATH".to_owned());
    candidates.find(|python| is_usable(python)).ok_or_else(no_python)
}

/// True for a Python that can run the probe.
fn is_usable(python: impl AsRef<OsStr>) -> bool {
    let check = "import sys; sys.exit(sys.version_info < (3, 8))";
    ask(Command::new(python).args(["-c", check]), 100, Instant::now() + Duration::from_mins(1)).is_some()
}
