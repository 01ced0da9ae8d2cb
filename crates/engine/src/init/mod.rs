//! First recipes: commented templates, and recipes for scripts and command lines. `probe.rs` reads the script's parameters, `text.rs`
//! writes them as a recipe, `command.rs` writes the recipe of a command line, and `printed.rs` finds the numbers that a program printed.
//!
//! `Source` lists the kinds of parameters. The syntax tree of a Python script shows them, or the script runs until it reads them, in a
//! process that may neither write files nor start programs nor connect to anything. `languages.rs` and `shells.rs` read scripts of other
//! languages.

mod axis_values;
mod command;
mod forms;
mod inherited;
mod languages;
mod measure;
mod misspelled;
mod own_lab;
mod printed;
mod probe;
mod remedy;
pub(crate) mod scalar;
mod settings;
mod shells;
mod suggest;
mod target;
mod text;
mod wished;

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use crate::{format::clean, recipe::near_file};

pub use self::{
    command::{command, started_by},
    measure::Measurement,
    misspelled::misspelled,
    own_lab::{Engine, OwnLab},
    printed::{Missed, Printed, last_value, printed_numbers, printed_results, searched, with_open_words},
    probe::{Found, Parameter, Source, Style, python, read, run},
    settings::by_settings,
    target::{Target, target},
    text::text,
};
pub(crate) use self::{forms::seed_rank, languages::regex};

/// The script that a recipe is written for.
#[derive(Debug, Clone)]
pub struct Script {
    /// Its path, relative to `folder`.
    pub path: PathBuf,
    /// The folder that it runs in.
    pub folder: PathBuf,
    /// Its kind.
    pub language: Language,
    /// Its start: as a file, a module or an installed program.
    pub start: Start,
    /// The Python that runs it; `None` for a program of another kind.
    pub python: Option<String>,
    /// Arguments that every job gets, before its parameters.
    pub arguments: Vec<String>,
}

/// The way to start a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Start {
    /// A file with a script.
    File,
    /// A module: `python -m package.module`.
    Module(String),
    /// A program of this name that the project installs.
    Console(String),
}

/// Kind of a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// Python.
    Python,
    /// A notebook, which papermill runs.
    Notebook,
    /// R.
    R,
    /// Julia.
    Julia,
    /// A script of a shell, which need not be executable.
    Shell,
    /// Any other program.
    Program,
}

impl Script {
    /// True if an argument has `{NAME}`, a place for the value of an axis or for the seed.
    fn has_place(&self, name: &str) -> bool {
        self.arguments.iter().any(|argument| argument.contains(&format!("{{{name}}}")))
    }

    /// The program and the script.
    fn argv(&self) -> Vec<String> {
        let file = self.path.to_string_lossy().into_owned();
        match &self.start {
            Start::File => {}
            Start::Module(name) => {
                let python = self.python.clone().unwrap_or_else(|| "python3".to_owned());
                return vec![python, "-m".to_owned(), name.clone()];
            }
            Start::Console(name) => return vec![name.clone()],
        }
        let python = || self.python.clone().unwrap_or_else(|| "python3".to_owned());
        let script_path = if file.starts_with('-') { format!("./{file}") } else { file.clone() };
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).chain([script_path.clone()]).collect();
        let is_executable = fs_err::metadata(&self.path).is_ok_and(|file| file.permissions().mode() & 0o111 != 0);
        match self.language {
            Language::Python => vec![python(), script_path],
            Language::Notebook => {
                let output = format!("{}-ran.ipynb", self.path.file_stem().unwrap_or_default().to_string_lossy());
                let options = ["--no-progress-bar", "--stdout-file", "-", "--start-timeout", "30"].map(str::to_owned);
                let run = [python(), "-m".to_owned(), "papermill".to_owned(), script_path, output];
                run.into_iter().chain(options).collect()
            }
            Language::R => words(&["Rscript"]),
            Language::Julia => words(&["julia"]),
            Language::Shell if !is_executable => words(&["bash"]),
            Language::Shell | Language::Program if file.contains('/') => vec![file],
            Language::Shell | Language::Program => vec![format!("./{file}")],
        }
    }
}

/// The axes that a study varies, and the metrics that it shows.
#[derive(Debug, Clone, Default)]
pub struct Wish {
    /// Axes, and their values separated by commas. Without any, a few with one value each are suggested.
    pub axes: Vec<(String, String)>,
    /// Number of seeds, if there is to be more than the script's own.
    pub seeds: Option<u32>,
    /// Metrics that the table shows.
    pub metrics: Vec<String>,
    /// True if there is no table before a metric is known.
    pub waits: bool,
    /// Curves that the figures show.
    pub curves: Vec<String>,
    /// Numbers in the lines that the program prints, which are read as metrics.
    pub printed: Vec<Printed>,
    /// Logs that the program writes, which are read as curves: kinds of `reads`, each with its paths.
    pub logs: BTreeMap<&'static str, BTreeSet<String>>,
}

/// Reason why no recipe was written.
#[derive(Debug, thiserror::Error)]
pub enum InitError {
    /// There is no such script.
    #[error("there is no script `{}`: {help}", .path.display())]
    NoScript {
        /// The file.
        path: PathBuf,
        /// A similar file, or the folder.
        help: String,
    },
    /// An axis of a run has no values.
    #[error("`--axis {0}` has no values; write them after the name: `--axis {name}=0.1,0.2`", name = .0.trim_end_matches('='))]
    NoValues(String),
    /// The script cannot be read.
    #[error("cannot read the script {}: {source}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The file is neither a Python script nor a program.
    #[error(
        "{} is neither a Python script (`.py`, or `python` in its first line), nor one of R, Julia or a shell, nor executable: `chmod \
         +x` makes a program of it",
        .0.display()
    )]
    NoProgram(PathBuf),
    /// There is no Python.
    #[error("{0}; name one that has the script's packages with `--python PATH`")]
    NoPython(String),
    /// Python cannot run the script.
    #[error("{}:{line}: {why}{help}", .script.display())]
    Broken {
        /// The script.
        script: PathBuf,
        /// The line, from 1.
        line: u64,
        /// The message of Python.
        why: String,
        /// A remedy, with a separator; empty without a remedy.
        help: String,
    },
    /// The script has several commands, of which a recipe runs one.
    #[error(
        "{} has the commands {names}; choose one: `sweep new {} -- {first}`", .script.display(), .script.display()
    )]
    Commands {
        /// The script.
        script: PathBuf,
        /// All of them.
        names: String,
        /// The first of them.
        first: String,
    },
    /// The folder of a project exists.
    #[error("{} exists and is not overwritten; name another folder", .0.display())]
    FolderExists(PathBuf),
    /// The name of a project is not a valid name of a package.
    #[error("`{0}` is not a valid name of a Cargo package: begin with a letter, and use letters, digits, `-` and `_`")]
    PackageName(String),
    /// The folder that should have the sources of `sweep` has none.
    #[error("{} has no sources of sweep: name the folder of a clone, or the URL of a Git repository", .0.display())]
    NoEngine(PathBuf),
    /// An axis names no parameter.
    #[error("{} has no parameter `{name}`; {help}", .script.display())]
    NoParameter {
        /// The script.
        script: PathBuf,
        /// The axis.
        name: String,
        /// The known parameters, or another way.
        help: String,
    },
    /// An axis is also an argument that all jobs get.
    #[error("`{name}` is given twice: as an axis, and by `{argument}` after `--`; leave out one of them")]
    Twice {
        /// The axis.
        name: String,
        /// The argument.
        argument: String,
    },
    /// A parameter cannot be an axis together with the others.
    #[error(
        "`{name}` of {} takes its values in a form that differs from that of the other axes, or that no axis \
         has{note}; write the command with `{{{name}}}`: `sweep run --axis {name}=… -- python3 {} … {{{name}}}`", .script.display(), .script.display()
    )]
    NoAxis {
        /// The script.
        script: PathBuf,
        /// The parameter.
        name: String,
        /// The reason, after a colon; empty if there is no other than the form.
        note: String,
    },
    /// The script takes no seed.
    #[error(
        "{} has no parameter that takes a seed, so `--seeds` would repeat the same run; give it one, such as `--seed`, or leave \
         out `--seeds`", .0.display()
    )]
    NoSeed(PathBuf),
    /// A command line does not have the place of an axis.
    #[error(
        "the command has no `{{{name}}}`, which would get the values of `{flag}`, and no argument that is a file of settings with it{keys}; write it \
         where the value belongs, as in `{example}`"
    )]
    NoPlace {
        /// The axis, or `seed`.
        name: String,
        /// The flag that was given.
        flag: String,
        /// Keys of a file of settings, with a space before; empty without such a file.
        keys: String,
        /// The command with a place for the values.
        example: String,
    },
    /// A command line that measures names no file of the jobs.
    #[error(
        "the command has no place for a file that the jobs of `{step}` keep; write it where its path belongs, as in `python eval.py \
         {{model.pt}}`; their files: {}", if files.is_empty() { "none (list files in `outputs` of the step)" } else { files }
    )]
    NoFile {
        /// The step.
        step: String,
        /// The places of the files that they keep.
        files: String,
    },
    /// A file of settings cannot have a value of an axis.
    #[error("the settings `{}`: {reason}; or give the command a place for the value", .file.display())]
    Settings {
        /// The file.
        file: PathBuf,
        /// The reason.
        reason: String,
    },
    /// An axis is a key of several files of settings.
    #[error(
        "`{axis}` is a key of {files}, and only the program knows which of them counts: write a recipe with `settings: FILE` and `set: {{ \
         {axis}: … }}`, or give the command a place for the value"
    )]
    SeveralSettings {
        /// The axis.
        axis: String,
        /// The files.
        files: String,
    },
    /// A required parameter has no value.
    #[error(
        "{} needs a value for {names}: give it after `--`, as in `sweep run {} … -- {example}`, or as an axis", .script.display(), .script.display()
    )]
    Required {
        /// The script.
        script: PathBuf,
        /// The parameters.
        names: String,
        /// Arguments that give the first of them.
        example: String,
    },
    /// A recipe exists at this path.
    #[error("{} exists and is not overwritten; write to another file with `--output FILE`", .0.display())]
    Exists(PathBuf),
    /// The file name of the script cannot name a recipe.
    #[error("{} has no file name that can name a recipe", .0.display())]
    Unnamed(PathBuf),
}

impl InitError {
    /// The error for the parameters `names`, which a script needs and which have no value.
    pub fn required(script: &Script, found: &Found, names: &[String]) -> Self {
        let is_position = |name: &String| {
            let parameter = found.parameters.iter().find(|parameter| parameter.name == *name);
            parameter.is_some_and(|parameter| parameter.style == Style::Position)
        };
        let example = names.first().map_or_else(String::new, |name| {
            if is_position(name) { name.to_uppercase() } else { format!("--{name} {}", name.to_uppercase()) }
        });
        let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        Self::Required { script: script.path.clone(), names: names.join(", "), example }
    }
}

/// A commented recipe for a program, with places for its name and its file.
pub const PROGRAM: &str = include_str!("templates/program.yaml");
/// A commented recipe for the built-in network, with the same places.
pub const LAB: &str = include_str!("templates/lab.yaml");
/// Instructions for coding agents, in the format of agent skills.
pub const SKILL: &str = include_str!("templates/skill.md");

/// The text of a template, with the recipe's name and its file.
pub fn filled(template: &str, name: &str, file: &Path) -> String {
    template.replace("@NAME@", name).replace("@FILE@", &clean(&file.display().to_string()))
}

/// The name of a script's recipe: the file name without its extension, as far as it is valid in a name.
pub fn name(script: &Path) -> Result<String, InitError> {
    // The last part of `package.module` is not an extension.
    let last_part = script.extension().filter(|_| !script.is_file() && target(script).is_some());
    let stem = last_part
        .or_else(|| script.file_stem())
        .ok_or_else(|| InitError::Unnamed(script.to_owned()))?
        .to_string_lossy();
    let valid_char = |char: char| if char.is_ascii_alphanumeric() || char == '_' { char } else { '-' };
    let mut name: String = stem.chars().take(60).map(valid_char).collect();
    if !name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_') {
        name.insert(0, '_');
    }
    Ok(name)
}

/// The kind of a script; an error for a file that is neither a script of a known kind nor a program.
pub fn language(script: &Path) -> Result<Language, InitError> {
    let read_error = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => {
            InitError::NoScript { path: script.to_owned(), help: near_file(Path::new(""), &script.to_string_lossy()) }
        }
        _ => InitError::Read { path: script.to_owned(), source },
    };
    let metadata = fs_err::metadata(script).map_err(read_error)?;
    if !metadata.is_file() {
        return Err(read_error(io::Error::other("it is not a file")));
    }
    match script.extension().and_then(|extension| extension.to_str()) {
        Some("py") => return Ok(Language::Python),
        Some("ipynb") => return Ok(Language::Notebook),
        Some("R" | "r") => return Ok(Language::R),
        Some("jl") => return Ok(Language::Julia),
        _ => {}
    }
    let mut first_line = Vec::new();
    let file = fs_err::File::open(script).map_err(read_error)?;
    io::Read::read_to_end(&mut io::Read::take(file, 200), &mut first_line).map_err(read_error)?;
    let first_line = first_line.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let first_line = String::from_utf8_lossy(first_line);
    let program = first_line.strip_prefix("#!").unwrap_or_default();
    if program.contains("python") {
        return Ok(Language::Python);
    }
    if script.extension().is_some_and(|extension| extension == "sh" || extension == "bash")
        || program.trim_end().ends_with("sh")
    {
        return Ok(Language::Shell);
    }
    if metadata.permissions().mode() & 0o111 == 0 {
        return Err(InitError::NoProgram(script.to_owned()));
    }
    Ok(Language::Program)
}

/// The parameters that the text of a script in another language than Python shows.
pub fn shown(language: Language, script: &Path) -> Result<Found, InitError> {
    let read_error = |source| InitError::Read { path: script.to_owned(), source };
    let text = || Ok(String::from_utf8_lossy(&fs_err::read(script).map_err(read_error)?).into_owned());
    Ok(match language {
        Language::R => languages::of_r(&text()?),
        Language::Julia => languages::of_julia(&text()?),
        Language::Shell => shells::of_shell(&text()?),
        Language::Python | Language::Notebook | Language::Program => {
            Found::none("only those of scripts in Python, R, Julia and shells can be read")
        }
    })
}

impl Found {
    /// The result for a script without readable parameters.
    pub fn none(why: &str) -> Self {
        Self {
            source: Source::None,
            parameters: Vec::new(),
            commands: Vec::new(),
            why: why.to_owned(),
            line: 0,
            module: String::new(),
            whole: false,
            groups: Vec::new(),
        }
    }

    /// True if it has parameters, or commands that have some.
    pub fn has_any(&self) -> bool {
        !matches!(self.source, Source::None | Source::Broken)
    }

    /// Returns this result of a run, unless it has no parameters and `part`, the result from the syntax tree, has some. A
    /// script that cannot be run for lack of a package may read more than the environment variables in its file.
    pub fn or_part(self, part: Self) -> Self {
        let is_guess = self.source == Source::Broken && part.source == Source::Environment;
        if self.has_any() || !part.has_any() || is_guess {
            return self;
        }
        Self { why: if self.why.is_empty() { part.why } else { self.why }, ..part }
    }

    /// Returns this result; an error if no recipe follows from it.
    pub fn usable(self, script: &Path) -> Result<Self, InitError> {
        if let Some(first) = self.commands.first() {
            let names: Vec<String> = self.commands.iter().map(|name| format!("`{}`", clean(name))).collect();
            let (names, first) = (names.join(", "), clean(first).into_owned());
            return Err(InitError::Commands { script: script.to_owned(), names, first });
        }
        if self.source != Source::Broken {
            return Ok(self.with_inherited());
        }
        let help = match self.module.as_str() {
            "" => String::new(),
            module => format!(
                "; install `{}` for this Python, or name another one that has it with `--python PATH`",
                clean(module)
            ),
        };
        let why = clean(&self.why).into_owned();
        Err(InitError::Broken { script: script.to_owned(), line: self.line, why, help })
    }
}
