//! The text of a first recipe.

use std::{fmt::Write as _, path::Path};

use serde_json::Value as Json;
use sweep_base::SEED;

use super::{
    Found, InitError, Language, Parameter, Script, Source, Style, Wish, axis_values,
    forms::{self, Booleans, Place, booleans, is_seed, named, suits},
    inherited::{self, inherited},
    remedy, scalar,
    suggest::{self, Axis},
    wished::wished,
};
use crate::format::{clean, count};

/// Widest line, in characters.
const WIDTH: usize = 110;
/// Maximum number of parameters that are listed in comments.
const MAX_COMMENTS: usize = 40;
/// The value of a parameter that must be given. The script rejects it, or does not find it.
const REPLACE: &str = "REPLACE";

/// A parameter's line in `params`, or its part of another place.
struct Line {
    key: String,
    place: Place,
    /// The value, as YAML. `None` for a line that is only a comment.
    value: Option<String>,
    about: String,
}

/// A recipe called `name` for a script, and the names of the parameters that must be given and are not.
///
/// # Errors
/// The script has no parameter for an axis of `wish`, or none for seeds.
pub fn text(
    script: &Script,
    found: &Found,
    name: &str,
    file: &Path,
    wish: &Wish,
) -> Result<(String, Vec<String>), InitError> {
    let found = &found.with_groups(&wish.axes);
    let parameters = named(found);
    let seeds = found.parameters.iter().filter(|parameter| is_seed(parameter));
    let seed = seeds.min_by_key(|seed| forms::seed_rank(&seed.name)).map(|seed| seed.name.clone());
    let has_seed = seed.is_some() || script.has_place(SEED);
    if wish.seeds.is_some() && !has_seed {
        let name =
            |argument: &String| argument.split('=').next().unwrap_or_default().trim_start_matches('-').to_owned();
        let is_seed = |argument: &&String| argument.starts_with('-') && forms::is_seed_name(&name(argument));
        if let Some(argument) = script.arguments.iter().find(is_seed) {
            return Err(InitError::Twice { name: "--seeds".to_owned(), argument: argument.clone() });
        }
        return Err(InitError::NoSeed(script.path.clone()));
    }
    let axes = if wish.axes.is_empty() { suggest::axes(&parameters) } else { wished(script, found, wish)? };
    let has_seed = has_seed && axes.iter().all(|axis| axis.name != SEED);
    let is_varied = |parameter: &&Parameter| axes.iter().any(|axis| axis.parameter == parameter.name);
    let varied_parameters: Vec<&Parameter> = parameters.iter().filter(is_varied).collect();
    let is_boolean =
        |parameter: &&Parameter| matches!(parameter.style, Style::Flag | Style::Pair | Style::Truth | Style::Python);
    // Without a boolean among the axes, the form suits booleans that may be added later.
    let booleans = if varied_parameters.iter().any(is_boolean) {
        booleans(&varied_parameters)
    } else {
        booleans(&parameters.iter().collect::<Vec<_>>())
    };
    if let Some((axis, argument)) = given(script, found, &axes) {
        return Err(InitError::Twice { name: axis.parameter.clone(), argument: argument.clone() });
    }
    let unsuited =
        varied_parameters.iter().find(|candidate| !forms::has_types(found.source) && !suits(candidate, booleans));
    if let Some(parameter) = unsuited.copied().or_else(|| forms::other_list(&varied_parameters)) {
        let note = Some(&parameter.note).filter(|note| !note.is_empty()).map(|note| format!(": {note}"));
        let note = note.unwrap_or_default();
        return Err(InitError::NoAxis { script: script.path.clone(), name: parameter.name.clone(), note });
    }
    let (lines, mut missing_names) = lines(found.source, &parameters, &axes, seed.as_deref());
    let mut out = head(script, found, name, file, wish);
    step(&mut out, &axes, has_seed.then(|| wish.seeds.unwrap_or(1)));
    if script.language == Language::Notebook {
        out.push_str("    # Kernels that start at the same time may choose the same port.\n    retries: 1\n");
    }
    out.push_str("    with:\n");
    let used = Used { axes: &axes, seed: seed.as_deref(), has_seed, lines: &lines };
    missing_names.extend(argv(&mut out, script, found, &used));
    project(&mut out, script, file);
    if used.has_params() && forms::uses_flags(found.source) {
        flags(&mut out, forms::flags(found.source, &varied_parameters), booleans);
    }
    params(&mut out, &lines);
    if found.source != Source::Environment {
        let text = remedy::text_of(&script.folder.join(&script.path)).unwrap_or_default();
        let is_set = |name: &str| axes.iter().any(|axis| axis.parameter == name);
        out.push_str(&inherited::section(&text, &is_set));
    }
    foot(&mut out, name, &axes, wish);
    Ok((out, missing_names))
}

/// An axis whose place has an argument that the user has given already.
fn given<'a>(script: &'a Script, found: &Found, axes: &'a [Axis]) -> Option<(&'a Axis, &'a String)> {
    let arguments = if found.source == Source::Places { script.arguments.as_slice() } else { &[] };
    let mut given = found.parameters.iter().zip(arguments);
    given.find_map(|(parameter, argument)| Some((axes.iter().find(|axis| axis.parameter == parameter.name)?, argument)))
}

/// The form of the flags.
fn flags(out: &mut String, form: Option<&str>, booleans: Booleans) {
    if let Some(form) = form {
        let _ = writeln!(out, "      flags: {form}");
    }
    if let Some(word) = booleans.word().filter(|_| form != Some("hydra")) {
        let _ = writeln!(out, "      booleans: {word}");
    }
}

fn head(script: &Script, found: &Found, name: &str, file: &Path, wish: &Wish) -> String {
    let origin = forms::origin(found.source);
    let (script, file) = (clean(&script.path.to_string_lossy()).into_owned(), file.to_string_lossy());
    let command = if wish.waits { "sweep run" } else { "sweep new" };
    let mut out = String::new();
    if origin.is_empty() {
        comment(
            &mut out,
            "",
            &format!("Written by `{command}` for {script}, which shows no parameters: {}.", found.why),
        );
    } else {
        let number = count(found.parameters.len(), "parameter");
        let remark =
            if found.why.is_empty() { String::new() } else { format!(" The file shows a part: {}.", found.why) };
        comment(&mut out, "", &format!("Written by `{command}` for {script}: {number}, read from {origin}.{remark}"));
    }
    let file = clean(&file);
    let _ = write!(out, "#\n#   sweep plan {file}    shows the jobs\n#   sweep run {file}     runs them\n");
    let _ = write!(out, "name: {name}\n\nsteps:\n  {name}:\n    uses: command\n");
    out
}

/// Writes the axes of the step.
fn step(out: &mut String, axes: &[Axis], seeds: Option<u32>) {
    if axes.is_empty() {
        out.push_str("    # Every combination of the values of a matrix is a job; `${{ matrix.lr }}` below is the value of a job.\n");
        out.push_str("    # matrix:\n    #   lr: [0.001, 0.01]\n");
    } else {
        let suggestion = axes.iter().find(|axis| !axis.more.is_empty());
        if let Some(axis) = suggestion {
            let (name, values) = (&axis.name, axis.more.trim_matches(['[', ']']).replace(' ', ""));
            let text = format!(
                "Every combination of these values is a job: write several, as in the comments, or on the command line: \
                 `--axis {name}={values}`."
            );
            comment(out, "    ", &text);
        }
        out.push_str("    matrix:\n");
        for axis in axes {
            let more = if axis.more.is_empty() { String::new() } else { format!("  # {}", clean(&axis.more)) };
            let _ = writeln!(out, "      {}: {}{more}", scalar::text(&axis.name), axis_values::values(&axis.value));
        }
    }
    if let Some(seeds) = seeds {
        let _ = writeln!(out, "    # Repetitions, with the seeds 0, 1, …\n    seeds: {seeds}");
    }
}

/// The parameters that a recipe gives to the script.
struct Used<'a> {
    axes: &'a [Axis],
    seed: Option<&'a str>,
    /// True if the step has seeds.
    has_seed: bool,
    lines: &'a [Line],
}

impl Used<'_> {
    /// The place of the value of a parameter that varies.
    fn varied(&self, name: &str) -> Option<String> {
        let axis = self.axes.iter().find(|axis| axis.parameter == name).map(|axis| axis.name.as_str());
        axis.or_else(|| self.seed.filter(|seed| *seed == name).map(|_| "seed"))
            .map(|name| format!("${{{{ matrix.{name} }}}}"))
    }

    /// An argument that the user has given, with the values of a job in place of `{lr}` and `{seed}`.
    fn filled(&self, argument: &str) -> String {
        let axes = self.axes.iter().map(|axis| (axis.parameter.as_str(), axis.name.as_str()));
        axes.chain([(SEED, SEED)].into_iter().filter(|_| self.has_seed))
            .fold(argument.to_owned(), |text, (place, axis)| {
                text.replace(&format!("{{{place}}}"), &format!("${{{{ matrix.{axis} }}}}"))
            })
    }

    fn has_params(&self) -> bool {
        self.lines.iter().any(|line| line.value.is_some() && line.place == Place::Params)
    }
}

/// The command line; returns the names of arguments that must be given.
fn argv(out: &mut String, script: &Script, found: &Found, used: &Used<'_>) -> Vec<String> {
    let mut argv = script.argv();
    argv.extend(script.arguments.iter().map(|argument| used.filled(argument)));
    let mut missing_names = Vec::new();
    // The user's arguments may contain required parameters already.
    let is_given = !script.arguments.is_empty();
    let positions: Vec<&Parameter> =
        found.parameters.iter().filter(|candidate| candidate.style == Style::Position).collect();
    let last_varied = positions.iter().rposition(|candidate| used.varied(&candidate.name).is_some());
    // If all arguments are positional, the user's arguments are the first ones.
    let given_count = if found.source == Source::Places { script.arguments.len() } else { 0 };
    for (place, position) in positions.into_iter().enumerate().skip(given_count) {
        if let Some(value) = used.varied(&position.name) {
            argv.push(value);
            continue;
        }
        if is_given && given_count == 0 {
            continue;
        }
        let is_needed = position.required || last_varied.is_some_and(|last_varied| place < last_varied);
        let values = match (&position.default, position.choices.first()) {
            (Json::Null, Some(first)) if is_needed => vec![first.clone()],
            (Json::Null, None) if is_needed => {
                missing_names.push(position.name.clone());
                vec![Json::from(REPLACE)]
            }
            (Json::Null, _) => Vec::new(),
            (Json::Array(values), _) => values.clone(),
            (value, _) => vec![value.clone()],
        };
        if values.is_empty() {
            continue;
        }
        let about = about(position, if position.required { "required: replace the value" } else { "" });
        let about = if about.is_empty() { String::new() } else { format!(": {about}") };
        comment(out, "      ", &format!("Argument `{}`{about}", position.name));
        argv.extend(values.iter().filter_map(|value| match value {
            Json::String(text) => Some(text.clone()),
            value => scalar::yaml(value),
        }));
    }
    let mut items: Vec<String> = argv.iter().map(|argument| scalar::text(argument)).collect();
    for line in used.lines {
        let (Place::Argv(words), Some(value)) = (&line.place, &line.value) else { continue };
        let mut words = words.clone();
        match words.last_mut().filter(|last| last.ends_with(": ")) {
            Some(last) => last.push_str(value),
            None => words.push(value.clone()),
        }
        items.extend(words.iter().map(|word| scalar::text(word)));
    }
    if used.has_params() && forms::uses_flags(found.source) {
        items.push("\"${{ flags }}\"".to_owned());
    }
    let _ = writeln!(out, "      argv: [{}]", items.join(", "));
    missing_names
}

/// The folder that the script runs in.
fn project(out: &mut String, script: &Script, file: &Path) {
    let folder = file.parent().unwrap_or_else(|| Path::new(""));
    let is_here = folder.as_os_str().is_empty() || folder == Path::new(".");
    let project = if is_here { ".".to_owned() } else { scalar::text(&script.folder.to_string_lossy()) };
    let about = "The folder in which the script runs. Files that it writes there do not change the project, and files that \
                 it reads there decide when its results are out of date.";
    comment(out, "      ", about);
    let _ = writeln!(out, "      project: {project}");
}

/// The lines of `params`, and the names of the parameters that must be given. Parameters that keep their defaults are comments.
fn lines(source: Source, parameters: &[Parameter], axes: &[Axis], seed: Option<&str>) -> (Vec<Line>, Vec<String>) {
    let mut missing_names = Vec::new();
    let lines = parameters.iter().map(|parameter| {
        let default = scalar::yaml(&parameter.default).filter(|_| !parameter.default.is_null());
        let note = default.map_or_else(String::new, |default| format!("default {default}"));
        let line = |value, note: &str| line(source, parameter, value, note);
        if let Some(axis) = axes.iter().find(|axis| axis.parameter == parameter.name) {
            return line(Some(format!("${{{{ matrix.{} }}}}", axis.name)), "");
        }
        if Some(parameter.name.as_str()) == seed {
            return line(Some("${{ matrix.seed }}".to_owned()), &note);
        }
        let is_open = parameter.required && parameter.default.is_null() && parameter.style != Style::Other;
        if source == Source::Environment && inherited(parameter).is_some() {
            return line(scalar::yaml(&parameter.default), "as where `sweep` ran");
        }
        if is_open && source == Source::Environment {
            return line(None, "must be set, here or where `sweep` runs");
        }
        if is_open && source != Source::Sweep {
            let value = parameter.choices.first().and_then(scalar::yaml).unwrap_or_else(|| {
                missing_names.push(parameter.name.clone());
                REPLACE.to_owned()
            });
            return line(Some(value), "required: replace the value");
        }
        line(None, &note)
    });
    (lines.collect(), missing_names)
}

fn line(source: Source, parameter: &Parameter, value: Option<String>, note: &str) -> Line {
    let place = forms::place(source, parameter);
    Line { key: parameter.name.clone(), place, value, about: about(parameter, note) }
}

/// The type or the choices, the description, and notes.
fn about(parameter: &Parameter, note: &str) -> String {
    let choices: Vec<String> = parameter.choices.iter().filter_map(scalar::yaml).take(20).collect();
    let kind = match choices.as_slice() {
        [] if parameter.style == Style::Flag => "flag".to_owned(),
        [] => parameter.kind.clone(),
        choices => format!("one of {}", choices.join(", ")),
    };
    let parts = [kind.as_str(), &parameter.help, &parameter.note, note];
    let parts: Vec<&str> =
        parts.iter().map(|part| part.trim().trim_end_matches('.')).filter(|part| !part.is_empty()).collect();
    parts.join("; ")
}

fn params(out: &mut String, lines: &[Line]) {
    if lines.is_empty() {
        return;
    }
    let is_argument = |line: &&Line| line.value.is_some() && matches!(line.place, Place::Argv(_));
    let (lines_with_value, other_lines): (Vec<&Line>, Vec<&Line>) =
        lines.iter().filter(|line| !is_argument(line)).partition(|line| line.value.is_some());
    let key = if lines.iter().any(|line| line.place == Place::Env) { "env" } else { "params" };
    if !lines_with_value.is_empty() {
        let _ = writeln!(out, "      {key}:");
    } else if lines.iter().all(|line| matches!(line.place, Place::Argv(_))) {
        comment(out, "      ", if other_lines.is_empty() { "" } else { "Other parameters:" });
    } else {
        let _ = writeln!(out, "      # {key}:");
    }
    for Line { key, value, about, .. } in lines_with_value {
        let key = scalar::text(key);
        let (about, value) = (tidy(about), value.as_deref().unwrap_or_default());
        let width = key.chars().count() + value.chars().count() + about.chars().count() + 14;
        if about.is_empty() {
            let _ = writeln!(out, "        {key}: {value}");
        } else if width <= WIDTH {
            let _ = writeln!(out, "        {key}: {value}  # {about}");
        } else {
            comment(out, "        ", &about);
            let _ = writeln!(out, "        {key}: {value}");
        }
    }
    for Line { key, about, .. } in other_lines.iter().take(MAX_COMMENTS) {
        comment(out, "        ", &format!("{}: {about}", scalar::text(key)));
    }
    if other_lines.len() > MAX_COMMENTS {
        comment(out, "        ", &format!("… and {}", count(other_lines.len() - MAX_COMMENTS, "more parameter")));
    }
}

fn foot(out: &mut String, name: &str, axes: &[Axis], wish: &Wish) {
    if wish.printed.is_empty() && wish.logs.is_empty() {
        out.push_str(
            "      # Metrics: `sweep.report(step, loss=…)` in the script, printed lines `loss=2.3`, or logs that the \
             script already writes.\n\x20     # reads: { stdout: 'step {step} .*loss {loss}', tensorboard: runs/, \
             csv: log.csv }\n",
        );
    }
    reads(out, wish);
    out.push_str(
        "      # metrics: { loss: min }\n\
         \x20     # Files that are kept.\n\
         \x20     # outputs: [model.pt]\n\
         \x20   # resources: { cpus: 1, gpus: 1 }\n",
    );
    results(out, name, &axes.iter().map(|axis| axis.name.as_str()).collect::<Vec<_>>(), wish);
}

/// The logs that the program writes, and the patterns of numbers in the lines that it prints.
pub(super) fn reads(out: &mut String, wish: &Wish) {
    if wish.printed.is_empty() && wish.logs.is_empty() {
        return;
    }
    out.push_str("      reads:\n");
    for (kind, paths) in &wish.logs {
        let paths: Vec<String> = paths.iter().map(|path| scalar::text(path)).collect();
        let _ = writeln!(out, "        {kind}: [{}]", paths.join(", "));
    }
    if !wish.printed.is_empty() {
        out.push_str("        stdout:\n");
    }
    for number in &wish.printed {
        comment(out, "          ", &format!("Its last line: {}", number.line));
        let _ = writeln!(out, "          - {}", number.item());
    }
}

/// The table and the figures.
pub(super) fn results(out: &mut String, name: &str, axes: &[&str], wish: &Wish) {
    let cells: Vec<String> = wish.metrics.iter().map(|metric| scalar::text(metric)).collect();
    let (note, cells) = if cells.is_empty() {
        ("    # Add the metrics that the script reports.\n", "time.run".to_owned())
    } else {
        ("", cells.join(", "))
    };
    if wish.metrics.is_empty() && (wish.waits || axes.is_empty()) {
        return;
    }
    let rows = axes.join(", ");
    let _ = write!(out, "\ntables:\n  results:\n    from: {name}\n    rows: [{rows}]\n{note}    cells: [{cells}]\n");
    let Some(axis) = axes.first() else { return };
    if wish.curves.is_empty() {
        let _ = write!(
            out,
            "\n# figures:\n#   loss: {{ from: {name}, kind: line, x: iteration, y: loss, color: {axis} }}\n"
        );
        return;
    }
    out.push_str("\nfigures:\n");
    for (index, curve) in wish.curves.iter().enumerate() {
        let curve = scalar::text(curve);
        let _ = writeln!(
            out,
            "  curve-{}: {{ from: {name}, kind: line, x: iteration, y: {curve}, color: {axis} }}",
            index + 1
        );
    }
}

/// A text in one line, without characters that could end a comment or drive a terminal.
fn tidy(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    clean(&words.join(" ")).into_owned()
}

/// Writes a comment in lines that are not too wide.
fn comment(out: &mut String, indent: &str, text: &str) {
    let mut width = 0;
    if text.is_empty() {
        return;
    }
    for word in tidy(text).split(' ') {
        let length = word.chars().count();
        if width == 0 || width + 1 + length > WIDTH {
            if width > 0 {
                out.push('\n');
            }
            let _ = write!(out, "{indent}# {word}");
            width = indent.len() + 2 + length;
        } else {
            let _ = write!(out, " {word}");
            width += 1 + length;
        }
    }
    out.push('\n');
}
