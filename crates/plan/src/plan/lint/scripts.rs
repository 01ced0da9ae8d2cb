//! Scripts that a program runs and that are not in the folder it runs in, or that do not count for its key.

use std::path::{Path, PathBuf};

use sweep_job::{Part, Value, Values, tasks::Tracks};

use super::COMMAND;
use crate::{
    plan::{Point, values::PROJECT},
    recipe::{Collector, Names, Problem, Recipe, Span, Step, near_file},
};

/// Programs that run scripts, without the number of a version.
const INTERPRETERS: &[&str] =
    &["Rscript", "bash", "dash", "julia", "lua", "node", "perl", "pypy", "python", "ruby", "sh", "zsh"];
/// Extensions of the names of scripts.
pub(in crate::plan) const EXTENSIONS: &[&str] = &["R", "jl", "js", "lua", "pl", "py", "rb", "sh"];

/// The script of a step, at one of its points.
struct Check<'a> {
    recipe: &'a Recipe,
    step: &'a Step,
    /// The folder of the recipe.
    folder: PathBuf,
    /// The folder in which the program runs, if it is not the job's folder.
    project: Option<PathBuf>,
    declared: Vec<String>,
    is_tracked: bool,
}

/// Checks the scripts of a program, at one point of a step. A missing script that the program starts is a mistake,
/// since every job would fail.
pub(in crate::plan) fn scripts(recipe: &Recipe, step: &Step, point: &Point, values: &Values, problems: &mut Collector) {
    if step.task.name != COMMAND {
        return;
    }
    let matrix: Names = point.values.iter().cloned().collect();
    let template = |name: &str| step.with.iter().find(|(param, _)| param.value == name).map(|(_, template)| template);
    let value = |name: &str| template(name)?.resolve(&recipe.params, &matrix).map(|value| value.value);
    // If a value is a result of another job, the names are unknown yet.
    let list = |name: &str| match (template(name), value(name)) {
        (None, _) => Some(Vec::new()),
        (Some(_), Some(Value::List(items))) => Some(items),
        (Some(_), one) => one.map(|one| vec![one]),
    };
    let (Some(argv), Some(inputs)) = (list("argv"), list("inputs")) else { return };
    let text = |name: &str| value(name).and_then(|value| value.as_text().map(str::to_owned));
    let folder = recipe.sources.folder(step.source()).to_owned();
    let check = Check {
        recipe,
        step,
        project: values.get(PROJECT).and_then(Value::as_text).map(PathBuf::from),
        folder,
        declared: inputs.iter().filter_map(Value::as_text).map(str::to_owned).chain(text("settings")).collect(),
        is_tracked: text("tracks").is_none_or(|word| word == Tracks::Code.word()),
    };
    if let Some(template) = template("argv") {
        let words: Vec<&str> = argv.iter().map(|item| item.as_text().unwrap_or_default()).collect();
        let started = started_by(&words);
        for (index, word) in words.iter().enumerate() {
            let span = template.part(&Part::Item(index)).unwrap_or(template).span;
            check.word(word, span, started == Some(index), problems);
        }
    }
    if let (Some(template), Some(script)) = (template("run"), text("run")) {
        for word in started(&script) {
            check.word(word, template.span, false, problems);
        }
    }
}

impl Check<'_> {
    /// Checks a word of a command line.
    fn word(&self, path: &str, span: Span, is_started: bool, problems: &mut Collector) {
        let is_script = |end: &str| EXTENSIONS.contains(&end);
        if !Path::new(path).extension().and_then(|end| end.to_str()).is_some_and(is_script) || self.is_declared(path) {
            return;
        }
        let (name, is_absolute) = (&self.step.name.value, Path::new(path).is_absolute());
        let (base, exists) = match &self.project {
            Some(project) => (project, project.join(path).exists()),
            None => (&self.folder, self.folder.join(path).is_file()),
        };
        let message = match (exists, is_absolute) {
            (true, _) if self.project.is_some() => return,
            (true, true) if self.is_tracked => return,
            (true, true) => format!("`{name}` runs `{path}`, but a change of this file does not run the job again"),
            (true, false) => format!("`{name}` runs `{path}`, which is not in the job's folder"),
            (false, false) if is_started => format!("`{name}` runs `{path}`, and there is no such file"),
            (false, _) => return,
        };
        let help = match (exists, &self.project) {
            (true, _) if is_started && !is_absolute => format!(
                "add `inputs: [{path}]`, with all other files that the program needs, or `project: .`, which runs the \
                 program in the recipe's folder"
            ),
            (true, _) => format!("add `{path}` to `inputs`"),
            (false, _) => near_file(base, path),
        };
        if is_started && !is_absolute {
            problems.push(span, Problem::new(&self.recipe.sources, span, message, "not there").help(help));
        } else {
            problems.warn(&self.recipe.sources, span, message, help);
        }
    }

    fn is_declared(&self, path: &str) -> bool {
        let names: Vec<&str> =
            self.declared.iter().filter_map(|input| Path::new(input).file_name()?.to_str()).collect();
        path.split('/').find(|part| *part != ".").is_some_and(|first| names.contains(&first))
            || self.declared.iter().any(|input| Path::new(path).starts_with(self.folder.join(input)))
    }
}

/// The place of the script that a command line starts: its program, if it is given by a path, or the file for an interpreter.
fn started_by(words: &[&str]) -> Option<usize> {
    let first = words.first()?;
    if !is_interpreter(first) {
        return first.contains('/').then_some(0);
    }
    let at = words.iter().skip(1).position(|word| !word.starts_with('-') || ["-m", "-c", "-e"].contains(word))? + 1;
    (!words[at].starts_with('-')).then_some(at)
}

fn is_interpreter(program: &str) -> bool {
    let name = program.rsplit('/').next().unwrap_or(program);
    INTERPRETERS.contains(&name.trim_end_matches(|char: char| char.is_ascii_digit() || char == '.'))
}

/// The files that the commands of a shell script start: their first words, or the files that they pass to an interpreter.
pub(super) fn started(script: &str) -> Vec<&str> {
    fn file(command: &str) -> Option<&str> {
        let mut words = command.split_whitespace().map(|word| word.trim_matches(['\'', '"']));
        let first = words.find(|word| !word.contains('='))?;
        if is_interpreter(first) { words.find(|word| !word.starts_with('-')) } else { Some(first) }
    }
    script.split(['\n', ';', '&', '|', '(', ')']).filter_map(file).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_of_a_command_line_is_found() {
        for (words, at) in [
            (vec!["python3", "-u", "train.py"], Some(2)),
            (vec!["python3.11", "-m", "pkg.train"], None),
            (vec!["python3", "-c", "print()"], None),
            (vec!["./run.sh", "x.py"], Some(0)),
            (vec!["torchrun", "train.py"], None),
            (vec!["/usr/bin/Rscript", "a.R"], Some(1)),
        ] {
            assert_eq!(started_by(&words), at, "{words:?}");
        }
    }

    #[test]
    fn a_shell_starts_first_words_and_what_interpreters_get() {
        let script =
            "A=1 python3.11 -u 'train.py' --lr 1 > log.sh\n./tool.sh x.py | sh -e run.sh; echo a.py && perl p.pl";
        assert_eq!(started(script), ["train.py", "./tool.sh", "run.sh", "echo", "p.pl"]);
    }
}
