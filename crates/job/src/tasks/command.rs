//! `uses: command`.

mod flags;
mod launch;
mod metrics;
mod number;
mod pattern;
mod reads;
mod shell;

use std::{collections::BTreeMap, path::Path};

use crate::{
    Conflict, Group, Ignore, Inside, MetricInfo, Param, Scalar, TaskSpec, Value, Values, Variable,
    metric::metrics,
    params::{self, Folder, MAX_ARGUMENT_BYTES, Path as Input, choice, params},
    task::Reach,
};

pub use self::{
    flags::{Booleans, FLAGS, FlagStyle, flag_arguments},
    launch::{Launch, complete_ranks, is_fork, launched, script_position},
    metrics::{Collect, MetricsFrom},
    number::{Number, leading_number},
    pattern::{Found, Pattern, Reading},
    reads::{STEP_NAMES, Texts},
    shell::Shell,
};

params! {
    /// Runs any program.
    pub struct Command {
        /// The program and its arguments. A program name without `/` is searched on `PATH`. Write `./NAME` for an input
        /// or another file in the job's folder. The item `"${{ flags }}"` stands for the values of `params`.
        argv: Vec<Scalar> = Vec::new();
        /// A script for a shell, instead of `argv`. It ends at the first command that fails, at an unset variable, and at a
        /// pipeline of which any part fails.
        run: Option<String> = None;
        /// The shell of `run`: `bash`, `zsh`, `ksh` and `mksh` are started with `-euo pipefail -c`, `sh` and `dash`
        /// with `-eu -c`, so that only the last part of a pipeline can fail. A list contains the program and its
        /// arguments before the script: `[zsh, -c]`. By default, `bash` runs scripts with a pipe (without `bash`, an
        /// `sh` that supports `pipefail`), and `sh`, which starts faster, runs all other scripts.
        shell: Option<Texts> = None;
        /// The program's own parameters: any values, which may be nested. The program gets the parameters in the JSON
        /// file `SWEEP_PARAMS`, and in place of `"${{ flags }}"` in `argv`.
        params: BTreeMap<String, Value> = BTreeMap::new();
        /// Form of `"${{ flags }}"`: `--name value`, `--name=value`, or `name=value` as Hydra reads it. `commas` and `repeat` are
        /// `equals` with another form of lists: `--name=1,2`, and `--name=1 --name=2`. A value of an inner map has its path as
        /// name, `opt.lr`. `null` is left out, except for Hydra.
        flags: FlagStyle = FlagStyle::Dashes;
        /// Form of `true` and `false` in `"${{ flags }}"`: `--name` or nothing, `--name` or `--no-name`, `--name
        /// true`, or `--name True` as in Python. Hydra's form is always `name=true`.
        booleans: Booleans = Booleans::Flag;
        /// Writes `-` for `_` in the names of flags.
        hyphens: bool = false;
        /// A file of settings in YAML, JSON or TOML that the program reads. In its place the program finds a copy in which only the values
        /// in `set` differ. No other program sees the copy. An argument with the file's path, such as `--config=conf/a.yaml`, and the
        /// variable `SWEEP_SETTINGS` name the copy. The file's content is part of the key, as that of `inputs`.
        settings: Option<Input> = None;
        /// Values in the copy of `settings`, by their paths: `{ optim.lr: 1e-3, layers.0.units: 64 }`. The file has these keys.
        set: BTreeMap<String, Value> = BTreeMap::new();
        /// Environment variables, in addition to those of `sweep` itself. `{ from: NAME }` passes on the value of
        /// `NAME` where the job runs; the value is not recorded.
        env: BTreeMap<String, Variable> = BTreeMap::new();
        /// The folder in which the program runs, usually `.`: the program sees the files of the project at their
        /// usual paths. Files that the program writes there do not change the project: `outputs` are kept, all others
        /// are removed. The files that the program was observed to read decide whether a record is valid. Without
        /// `project`, the program runs in an empty folder with `inputs`; the default is the recipe's folder for a
        /// program without `inputs` whose command line names a file there.
        project: Option<Folder> = None;
        /// A variant of the project's code, usually an axis: a revision (`HEAD`, a branch, a commit), a patch
        /// (`no-rope.patch`), a list of patches, or a map with `rev`, `folder`, `files` and `patches`; `.` is the
        /// project in its present state. The program finds the files of the variant in the project, whose own files
        /// are not changed. See [variants of code](programs.md#variants-of-code).
        code: Option<Value> = None, cosmetic true;
        /// Files and folders that the program reads, including its code. Their content is part of the key. Without `project`,
        /// each is linked into the job's folder under its file name (`../data/a.txt` becomes `a.txt`).
        inputs: Vec<Input> = Vec::new();
        /// Files in the folders of `inputs` that are not part of the key, as patterns of `.gitignore`: `*.cache` is a
        /// name at any depth, `/cache` a path from the input folder, `!NAME` is no longer ignored. Files of version
        /// control, of editors and of caches are always ignored; see [ignored files](programs.md#ignored-files).
        /// Files of the project that the program was observed to read are also ignored, by their paths from the
        /// project's folder.
        ignore: Vec<String> = Vec::new(), cosmetic true;
        /// Copies inputs that are folders into the job's folder, instead of linking them, so that the program can write to
        /// them. Ignored files are not copied.
        copy: bool = false, cosmetic true;
        /// Files and folders that the program writes and that are kept; `*`, `?` and `**` stand for parts of paths, as in
        /// `runs/**/*.pt`. All other files in the job's folder are removed, except for small logs, from which metrics can be
        /// taken later.
        outputs: Vec<Inside> = Vec::new();
        /// A JSON file that the program writes, with numbers as metrics. By default, metrics are read from lines
        /// `name=value` on standard output. A map instead of a path selects the value of each reported series that
        /// becomes its metric: `{ loss: min }`. With `min` and `max`, the metric `loss.step` is its step.
        metrics: Option<MetricsFrom> = None;
        /// Logs of a program without calls to `sweep`, followed while the program runs: `csv`, `jsonl` and
        /// `tensorboard` name files and folders in the job's folder, `stdout` is a regular expression for lines of
        /// standard output and standard error, with `{NAME}` for each number: `step {step} .*loss {loss}`. Each may
        /// be a list.
        reads: BTreeMap<String, Texts> = BTreeMap::new();
        /// Starts the program as several processes, with the variables that `torchrun` sets. With `torchrun`, every
        /// process sees all GPUs of the job on its machine; with `processes`, only its own. With `srun` and `mpirun`,
        /// Slurm or an MPI starts the processes. `fork` starts one process of a Python script, forked from an
        /// interpreter that has already run the script's first imports; `fork` is not part of the key, see [forked
        /// jobs](programs.md#forked-jobs).
        launch: Option<Launch> = None;
        /// Number of processes for `launch`, on all nodes together. Default: one for each GPU in `resources`, on each node.
        ranks: Option<u64> = None, in 1..=1024;
        /// The step at which the program ends, passed to it in the environment variable `SWEEP_UNTIL`.
        until: Option<u64> = None, in 1..=9_007_199_254_740_991_i64;
        /// Seed, passed to the program in the environment variable `SWEEP_SEED`.
        seed: u64 = 0, in 0..=9_007_199_254_740_991_i64;
        /// The step, from 0, from which each of these `params` acts; the others act from the first step on. Jobs that
        /// differ only in parameters that act later share the state until then. A wrong step gives wrong results.
        acts_from: BTreeMap<String, u64> = BTreeMap::new(), cosmetic true;
        /// Files that decide whether a record is valid, in addition to the declared `inputs`: `code`, also the files of
        /// the project that the program was observed to read, list or look for, the default; `declared`, none; `strict`,
        /// none, and a program that reads or lists another file or folder of the project fails.
        tracks: Option<Tracks> = None, cosmetic true;
        /// Role of the environment: the programs started and the shared libraries opened outside of the project, and
        /// the packages of Python, all of which are recorded. `recorded`, the default: a change is shown. `strict`: a
        /// record whose environment differs from the present one is out of date; a program that cannot be observed
        /// fails.
        environment: Option<EnvironmentRole> = None, cosmetic true;
        /// A file in Makefile format, as compilers write it (`gcc -MD`), in which the program lists the files that it
        /// read. Relative paths start from the job's folder.
        depfile: Option<Inside> = None, cosmetic true;
    }
}

choice! {
    /// Files that decide whether a record is valid.
    pub enum Tracks {
        /// Declared inputs, and the files that the program was observed to read.
        Code = "code",
        /// Declared inputs.
        Declared = "declared",
        /// Declared inputs; a program that reads another file of the project fails.
        Strict = "strict",
    }
}

choice! {
    /// Role of the environment in the validity of a record.
    pub enum EnvironmentRole {
        /// It is recorded and shown.
        Recorded = "recorded",
        /// A record of another environment is out of date.
        Strict = "strict",
    }
}

/// The longest name of a file, in bytes.
const MAX_NAME_LENGTH: usize = 255;

/// The patterns of ignored files among the parameters of a task.
pub fn ignored(values: &Values) -> Vec<String> {
    let Some(Value::List(patterns)) = values.get("ignore") else { return Vec::new() };
    patterns.iter().filter_map(Value::as_text).map(str::to_owned).collect()
}

/// The name of an input in the job's folder: the last component of its path.
pub fn input_name(path: &Path) -> Option<&str> {
    path.file_name()?.to_str()
}

/// True for an entry of `outputs` that stands for several paths.
pub fn is_pattern(output: &str) -> bool {
    output.contains(['*', '?'])
}

/// The variables whose values a job takes from the environment in which it runs.
pub fn inherited(values: &Values) -> Vec<&str> {
    let Some(Value::Map(env)) = values.get("env") else { return Vec::new() };
    env.values().filter_map(params::inherited).collect()
}

metrics! {
    impl Command {
        /// Time from the start of the program to its end. For a resumed program, with the time of earlier attempts up to
        /// the checkpoint.
        TIME_RUN: Seconds = "time.run";
        /// Time of earlier attempts that was lost because no checkpoint covers it. Only of programs that were resumed
        /// or that declare checkpoints.
        TIME_LOST: Seconds = "time.lost";
        /// Number of attempts, of the same programs.
        ATTEMPTS: Count = "attempts";
        /// Peak resident memory of the program and of all processes that it starts, sampled five times per second.
        /// Absent if the program ended within a second.
        MEMORY_PEAK: Bytes = "memory.peak", Resolution(4096.0);
        /// Processor time of the program and of all processes that it starts, divided by the elapsed time times the
        /// number of cores. Absent if the program ended within a second.
        UTILIZATION_CPU: Fraction = "utilization.cpu";
    }
}

impl TaskSpec for Command {
    const NAME: &'static str = "command";
    const ABOUT: &'static str = "runs any program, and keeps the metrics and files that it writes";
    const OPEN_METRICS: bool = true;
    const ON_DEVICE: bool = false;

    const GROUPS: &'static [&'static [Param]] = &[Self::PARAMS];

    const METRICS: &'static [&'static [MetricInfo]] = &[Self::DECLARED];

    fn build(values: &Values) -> Option<Self> {
        <Self as Group>::from_values(values)
    }

    fn artifacts(values: &Values) -> Vec<String> {
        let Some(Value::List(outputs)) = values.get("outputs") else { return Vec::new() };
        outputs.iter().filter_map(Value::as_text).filter(|output| !is_pattern(output)).map(str::to_owned).collect()
    }

    fn redundant(values: &Values) -> Vec<&'static str> {
        if is_fork(values) { vec!["launch"] } else { Vec::new() }
    }

    fn raised(values: &Values) -> u32 {
        let script = values.given("run").and_then(Value::as_text);
        let is_default = matches!(values.given("shell"), None | Some(Value::Null));
        u32::from(is_default && script.is_some_and(shell::may_pipe))
    }

    fn reach(values: &Values) -> Option<Reach> {
        // Not as a whole: a plan asks for it for every job.
        let end = match values.given("until") {
            None | Some(Value::Null) => None,
            Some(Value::Int(until)) => Some(u64::try_from(*until).ok()?),
            Some(_) => return None,
        };
        // A program that begins at its end may report nothing.
        Some(Reach { end, leaves_state: end.is_some(), may_only_evaluate: false })
    }

    fn acts_from(values: &Values) -> BTreeMap<String, u64> {
        if !matches!(values.given("acts_from"), Some(Value::Map(entries)) if !entries.is_empty()) {
            return BTreeMap::new();
        }
        let acts_from = Self::build(values).map(|command| command.acts_from).unwrap_or_default();
        acts_from.into_iter().map(|(name, from)| (format!("params.{name}"), from)).collect()
    }

    fn prefix(values: &Values, step: u64) -> Option<Values> {
        let until = i64::try_from(step).ok().filter(|until| *until > 0)?;
        let mut prefix = values.clone();
        prefix.insert("until".to_owned(), Value::Int(until));
        Some(prefix)
    }

    fn conflicts(values: &Values) -> Vec<Conflict> {
        let mut conflicts = Vec::new();
        check_acts_from(values, &mut conflicts);
        let Some(command) = Self::build(values) else { return conflicts };
        command.check_program(&mut conflicts);
        command.check_flags(&mut conflicts);
        command.check_environment(&mut conflicts);
        command.check_names(&mut conflicts);
        command.check_reads(&mut conflicts);
        command.check_shell(&mut conflicts);
        command.check_launch(&mut conflicts);
        command.check_project(&mut conflicts);
        command.check_settings(&mut conflicts);
        command.check_observation(&mut conflicts);
        if let Err(message) = Ignore::new(&command.ignore) {
            let advice =
                "write a name (`*.cache`), a path from the input folder (`/labels/cache`), or `!` and one of these";
            conflicts.push(Conflict { params: vec!["ignore"], message, advice: advice.into() });
        }
        conflicts
    }
}

/// Checks that `acts_from` names parameters and their steps.
fn check_acts_from(values: &Values, conflicts: &mut Vec<Conflict>) {
    let entries = |name: &str| match values.get(name) {
        Some(Value::Map(entries)) => entries.clone(),
        _ => BTreeMap::new(),
    };
    let params = entries("params");
    for (name, from) in entries("acts_from") {
        let (message, advice) = if !params.contains_key(&name) {
            (format!("`acts_from` names `{name}`, which is not in `params`"), "name a parameter of the program")
        } else if matches!(from, Value::Int(..0)) {
            (format!("`{name}` acts from a step below 0"), "write the first step, from 0, in which it is used")
        } else {
            continue;
        };
        conflicts.push(Conflict { params: vec!["acts_from"], message, advice: advice.into() });
    }
}

impl Command {
    /// The parameters that only read what a program has computed.
    pub const MEASURING: [&'static str; 2] = ["metrics", "reads"];

    /// The parameters that a program gets as arguments.
    pub const ARGUMENTS: [&'static str; 5] = ["argv", "booleans", "flags", "hyphens", "params"];

    /// True if a program that is not observed must not start.
    pub fn needs_observation(&self) -> bool {
        self.tracks == Some(Tracks::Strict) || self.environment == Some(EnvironmentRole::Strict)
    }

    fn check_observation(&self, conflicts: &mut Vec<Conflict>) {
        if self.tracks == Some(Tracks::Declared) && self.environment == Some(EnvironmentRole::Strict) {
            let message =
                "`environment: strict` needs an observed program, and `tracks: declared` observes none".into();
            let advice = "use `tracks: code`, or `environment: recorded`".into();
            conflicts.push(Conflict { params: vec!["tracks", "environment"], message, advice });
        }
    }

    fn check_program(&self, conflicts: &mut Vec<Conflict>) {
        let (message, advice) = match (self.argv.first(), &self.run) {
            (None, None) => ("no program is given", "add `argv: [PROGRAM, ARGUMENT]`, or `run:` with a script"),
            (Some(_), Some(_)) => ("`argv` and `run` are mutually exclusive", "remove one of them"),
            (Some(program), None) if program.0.is_empty() => {
                ("the program name is empty", "write the program as the first item of `argv`")
            }
            (None, Some(script)) => {
                if let Err(error) = params::passable(script) {
                    let advice = "list the script in `inputs`, and run it with `argv: [sh, -eu, ./script.sh]`".into();
                    conflicts.push(Conflict { params: vec!["run"], message: format!("`run`: {error}"), advice });
                }
                return;
            }
            _ => return,
        };
        conflicts.push(Conflict { params: vec!["argv", "run"], message: message.into(), advice: advice.into() });
    }

    fn check_environment(&self, conflicts: &mut Vec<Conflict>) {
        for (name, value) in &self.env {
            // `NAME=value`.
            let long = matches!(value, Variable::Text(text) if name.len() + 1 + text.len() > MAX_ARGUMENT_BYTES);
            let (message, advice) = if name.starts_with("SWEEP_") {
                (format!("`{name}` is reserved"), "rename it; variables that begin with `SWEEP_` are set by `sweep`")
            } else if !params::is_variable(name) {
                let advice = "use letters, digits and `_`, and begin with a letter or `_`";
                (format!("`{name}` is not a valid name of an environment variable"), advice)
            } else if long {
                let message = format!("`{name}` with its value is longer than the limit of {MAX_ARGUMENT_BYTES} bytes");
                (message, "write the text to a file, and list the file in `inputs`")
            } else {
                continue;
            };
            conflicts.push(Conflict { params: vec!["env"], message, advice: advice.into() });
        }
    }

    fn check_project(&self, conflicts: &mut Vec<Conflict>) {
        let both = |param: &'static str, advice: &str| Conflict {
            params: vec![param, "project"],
            message: format!("`{param}` and `project` are mutually exclusive"),
            advice: advice.into(),
        };
        if self.project.is_some() && self.launch.is_some_and(|launch| launch != Launch::Fork) {
            conflicts.push(both("launch", "list the program's files in `inputs`, and remove `project`"));
        }
        if self.code.is_some() && self.project.is_none() {
            conflicts.push(Conflict {
                params: vec!["code"],
                message: "`code` needs the folder of the project that it changes".into(),
                advice: "add `project: .`, and remove `inputs` that are files of the project".into(),
            });
        }
        if self.code.is_some() && self.tracks == Some(Tracks::Declared) {
            conflicts.push(Conflict {
                params: vec!["tracks", "code"],
                message: "`tracks: declared` and `code` are mutually exclusive".into(),
                advice: "remove `tracks`: the files that the program reads distinguish its variants".into(),
            });
        }
        if self.project.is_some() && self.depfile.is_some() {
            conflicts.push(both(
                "depfile",
                "remove `depfile`: the files that a program reads in its project are \
                observed",
            ));
        }
    }

    fn check_settings(&self, conflicts: &mut Vec<Conflict>) {
        let (message, advice) = match (&self.settings, self.set.is_empty()) {
            (None, false) => ("`set` names values of no file", "add `settings: FILE` with the file that has them"),
            (Some(_), true) => (
                "`settings` names a file in which nothing is set",
                "add `set: { KEY: VALUE }`, or list the file in `inputs`",
            ),
            _ => return,
        };
        conflicts.push(Conflict { params: vec!["settings", "set"], message: message.into(), advice: advice.into() });
    }

    /// The files and folders that are declared as read.
    pub fn declared(&self) -> impl Iterator<Item = &Input> {
        self.inputs.iter().chain(&self.settings)
    }

    /// Checks that the files in the job's folder have distinct, valid names.
    fn check_names(&self, conflicts: &mut Vec<Conflict>) {
        let mut names = Vec::new();
        // In a project, inputs stay where they are.
        for input in self.declared().filter(|_| self.project.is_none()) {
            let (message, advice) = match input_name(&input.0) {
                None => (
                    format!("the input `{}` has no file name", input.0.display()),
                    "write the path of a file or folder",
                ),
                Some(name) if names.contains(&name) => (
                    format!("two inputs have the file name `{name}`, but share the job's folder"),
                    "rename one of them, or list the folder that contains both",
                ),
                Some(name) => {
                    names.push(name);
                    continue;
                }
            };
            conflicts.push(Conflict { params: vec!["inputs"], message, advice: advice.into() });
        }
        for pattern in self.outputs.iter().filter(|output| is_pattern(&output.0)) {
            if let Err(error) = glob::Pattern::new(&pattern.0) {
                conflicts.push(Conflict {
                    params: vec!["outputs"],
                    message: format!("`{}` is not a pattern of paths: {}", pattern.0, error.msg),
                    advice: "write `*.pt`, `runs/*/model.pt` or `runs/**/*.pt`".into(),
                });
            }
        }
        let written = self.outputs.iter().map(|output| ("outputs", output));
        let written = written.chain(self.depfile.iter().map(|path| ("depfile", path)));
        let file = self.metrics.iter().filter_map(MetricsFrom::file).map(|path| ("metrics", path));
        for (param, path) in written.chain(file) {
            if path.0.contains('\0') || path.0.split('/').any(|name| name.len() > MAX_NAME_LENGTH) {
                let shown: String = path.0.chars().take(40).collect();
                conflicts.push(Conflict {
                    params: vec![param],
                    message: format!("`{}…` is not a valid file name", shown.escape_debug()),
                    advice: format!("use at most {MAX_NAME_LENGTH} bytes per component, and no NUL character"),
                });
                continue;
            }
            let name = path.0.split('/').next().unwrap_or_default();
            if names.contains(&name) {
                conflicts.push(Conflict {
                    params: vec![param],
                    message: format!("`{}` would overwrite the input `{name}`", path.0),
                    advice: "choose another name".into(),
                });
            }
        }
    }
}
