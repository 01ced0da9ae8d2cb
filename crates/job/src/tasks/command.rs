//! `uses: command`.

use std::{collections::BTreeMap, path::Path};

use crate::{
    Conflict, Group, Inside, MetricInfo, Param, Scalar, TaskSpec, Unit, Value, Values, Variable,
    params::{self, LONGEST, Path as Input, params},
};

params! {
    /// Runs any program.
    pub struct Command {
        /// The program and its arguments. Without `/` the program is looked for on the `PATH`; an input or a file of the
        /// job is `./NAME`.
        argv: Vec<Scalar> = Vec::new();
        /// A script, for `sh -eu -c`; instead of `argv`.
        run: Option<String> = None;
        /// Environment variables, on top of those that `sweep` itself has. `{ from: NAME }` passes on what `NAME` is set to
        /// where the job runs; the value is written down nowhere.
        env: BTreeMap<String, Variable> = BTreeMap::new();
        /// Files and folders that the program reads, code included. Their content is part of the key. Each is in the
        /// job's folder under its own name (`../data/a.txt` is `a.txt`), as a link.
        inputs: Vec<Input> = Vec::new();
        /// Files and folders that the program writes and that are kept; everything else in the job's folder is removed.
        outputs: Vec<Inside> = Vec::new();
        /// A JSON file that the program writes; its numbers are the metrics. Without it, lines `name=value` on standard
        /// output are.
        metrics: Option<Inside> = None;
        /// The program finds it in `SWEEP_SEED`.
        seed: u64 = 0, in 0..=9_007_199_254_740_991_i64;
    }
}

/// The longest name of a file, in bytes.
const LONGEST_NAME: usize = 255;

/// The name under which the program finds an input: the last of its path.
pub fn input_name(path: &Path) -> Option<&str> {
    path.file_name()?.to_str()
}

/// The variables whose values a job takes from the environment that it runs in.
pub fn inherited(values: &Values) -> Vec<&str> {
    let Some(Value::Map(env)) = values.get("env") else { return Vec::new() };
    env.values().filter_map(params::inherited).collect()
}

impl TaskSpec for Command {
    const NAME: &'static str = "command";
    const ABOUT: &'static str = "runs any program, and keeps the numbers and files that it leaves";
    const OPEN_METRICS: bool = true;
    const ON_DEVICE: bool = false;

    const GROUPS: &'static [&'static [Param]] = &[Self::PARAMS];

    const METRICS: &'static [MetricInfo] =
        &[MetricInfo { name: "time.run", unit: Unit::Seconds, doc: "time from the program's start to its end" }];

    fn build(values: &Values) -> Option<Self> {
        <Self as Group>::from_values(values)
    }

    fn artifacts(values: &Values) -> Vec<String> {
        let Some(Value::List(outputs)) = values.get("outputs") else { return Vec::new() };
        outputs.iter().filter_map(Value::as_text).map(str::to_owned).collect()
    }

    fn conflicts(values: &Values) -> Vec<Conflict> {
        let Some(command) = Self::build(values) else { return Vec::new() };
        let mut conflicts = Vec::new();
        command.check_program(&mut conflicts);
        command.check_environment(&mut conflicts);
        command.check_names(&mut conflicts);
        conflicts
    }
}

impl Command {
    fn check_program(&self, conflicts: &mut Vec<Conflict>) {
        let (message, advice) = match (self.argv.first(), &self.run) {
            (None, None) => ("there is no program to run", "add `argv: [PROGRAM, ARGUMENT]`, or `run:` with a script"),
            (Some(_), Some(_)) => ("`argv` and `run` exclude each other", "keep one of them"),
            (Some(program), None) if program.0.is_empty() => ("the program has no name", "write it first in `argv`"),
            (None, Some(script)) => {
                if let Err(error) = params::passable(script) {
                    let advice = "name the script in `inputs`, and run it: `argv: [sh, -eu, ./script.sh]`".into();
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
            let long = matches!(value, Variable::Text(text) if name.len() + 1 + text.len() > LONGEST);
            let (message, advice) = if name.starts_with("SWEEP_") {
                (format!("`{name}` is not for recipes to set"), "variables that begin with `SWEEP_` come from `sweep`")
            } else if !params::is_variable(name) {
                let advice = "a name begins with a letter or `_` and goes on with letters, digits and `_`";
                (format!("`{name}` cannot name an environment variable"), advice)
            } else if long {
                let message = format!("`{name}` and its value are more than the {LONGEST} bytes that a program gets");
                (message, "write the text to a file, and name that in `inputs`")
            } else {
                continue;
            };
            conflicts.push(Conflict { params: vec!["env"], message, advice: advice.into() });
        }
    }

    /// Checks that all entries of the job's folder have different names.
    fn check_names(&self, conflicts: &mut Vec<Conflict>) {
        let mut names = Vec::new();
        for input in &self.inputs {
            let (message, advice) = match input_name(&input.0) {
                None => {
                    (format!("the input `{}` has no name of its own", input.0.display()), "name a file or a folder")
                }
                Some(name) if names.contains(&name) => (
                    format!("two inputs are called `{name}`, and the job's folder has room for one"),
                    "rename one of them, or take the folder that holds both",
                ),
                Some(name) => {
                    names.push(name);
                    continue;
                }
            };
            conflicts.push(Conflict { params: vec!["inputs"], message, advice: advice.into() });
        }
        let written = self.outputs.iter().map(|output| ("outputs", output));
        for (param, path) in written.chain(self.metrics.iter().map(|path| ("metrics", path))) {
            if path.0.contains('\0') || path.0.split('/').any(|name| name.len() > LONGEST_NAME) {
                let shown: String = path.0.chars().take(40).collect();
                conflicts.push(Conflict {
                    params: vec![param],
                    message: format!("no file can be called `{}…`", shown.escape_debug()),
                    advice: format!("a name has at most {LONGEST_NAME} bytes, and no NUL character"),
                });
                continue;
            }
            let name = path.0.split('/').next().unwrap_or_default();
            if names.contains(&name) {
                conflicts.push(Conflict {
                    params: vec![param],
                    message: format!("`{}` would be written over the input `{name}`", path.0),
                    advice: "write it under another name".into(),
                });
            }
        }
    }
}
