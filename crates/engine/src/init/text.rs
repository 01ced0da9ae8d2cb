//! The text of a first recipe.

use std::{fmt::Write as _, path::Path};

use serde_json::Value as Json;

use super::{
    Found, Parameter, Script, Source, Style, scalar,
    suggest::{self, Axis},
};
use crate::format::{clean, count};

/// Widest line, in characters.
const WIDTH: usize = 110;
/// The value of a parameter that must be given. The script rejects it, or does not find it.
const REPLACE: &str = "REPLACE";

/// Form of booleans on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Booleans {
    Flag,
    NoFlag,
    Value,
    Python,
}

/// A parameter's line in `params`.
struct Line {
    key: String,
    /// The value, as YAML. `None` for a line that is only a comment.
    value: Option<String>,
    about: String,
}

/// A recipe called `name` for a script, and the names of the parameters that must be given and are not.
pub fn text(script: &Script, found: &Found, name: &str, file: &Path) -> (String, Vec<String>) {
    let parameters = named(found);
    let seed = parameters.iter().find(|parameter| is_seed(parameter)).map(|seed| seed.name.clone());
    let axes = suggest::axes(&parameters);
    let booleans = booleans(&parameters);
    let (lines, mut missing) = lines(found.source, &parameters, booleans, &axes, seed.as_deref());
    let mut out = head(script, found, name, file);
    step(&mut out, &axes, seed.is_some());
    out.push_str("    with:\n");
    let positions: Vec<&Parameter> = found.parameters.iter().filter(|one| one.style == Style::Position).collect();
    missing.extend(argv(&mut out, script, found, &positions, !lines.is_empty()));
    inputs(&mut out, script, found);
    if lines.is_empty() {
        // Nothing is spread.
    } else if found.source == Source::Hydra {
        out.push_str("      flags: hydra\n");
    } else if uses_flags(found.source) {
        if found.source == Source::Configurator {
            out.push_str("      flags: equals\n");
        }
        let word = match booleans {
            Booleans::Flag => None,
            Booleans::NoFlag => Some("no-flag"),
            Booleans::Value => Some("value"),
            Booleans::Python => Some("python"),
        };
        if let Some(word) = word {
            let _ = writeln!(out, "      booleans: {word}");
        }
    }
    params(&mut out, &lines);
    foot(&mut out, name, &axes);
    (out, missing)
}

/// The parameters with names; those without are part of `argv`.
fn named(found: &Found) -> Vec<Parameter> {
    found.parameters.iter().filter(|parameter| parameter.style != Style::Position).cloned().collect()
}

fn is_seed(parameter: &Parameter) -> bool {
    let leaf = parameter.name.rsplit('.').next().unwrap_or_default();
    parameter.style == Style::Value && matches!(leaf, "seed" | "random_seed" | "random-seed")
}

fn uses_flags(source: Source) -> bool {
    matches!(source, Source::Argparse | Source::Click | Source::Hydra | Source::Tyro | Source::Configurator)
}

/// The form that suits all booleans of a script.
fn booleans(parameters: &[Parameter]) -> Booleans {
    let has = |style| parameters.iter().any(|parameter| parameter.style == style);
    let paired = |parameter: &Parameter| parameter.negative == negated(&parameter.name);
    match (has(Style::Flag), has(Style::Pair), has(Style::Truth), has(Style::Python)) {
        (false, false, true, false) => Booleans::Value,
        (false, false, false, true) => Booleans::Python,
        (false, true, false, false) if parameters.iter().filter(|one| one.style == Style::Pair).all(paired) => {
            Booleans::NoFlag
        }
        _ => Booleans::Flag,
    }
}

/// The name that `booleans: no-flag` gives to the opposite of a flag.
fn negated(name: &str) -> String {
    let leaf = name.rfind('.').map_or(0, |dot| dot + 1);
    format!("{}no-{}", &name[..leaf], &name[leaf..])
}

fn head(script: &Script, found: &Found, name: &str, file: &Path) -> String {
    let origin = match found.source {
        Source::Argparse => "argparse",
        Source::Click => "click",
        Source::Hydra => "Hydra",
        Source::Tyro => "tyro",
        Source::Sweep => "`sweep.params`",
        Source::Configurator => "its global variables",
        Source::None | Source::Broken => "",
    };
    let (script, file) = (clean(&script.path.to_string_lossy()).into_owned(), file.to_string_lossy());
    let mut out = String::new();
    if origin.is_empty() {
        comment(
            &mut out,
            "",
            &format!("Written by `sweep new` for {script}, which shows no parameters: {}.", found.why),
        );
    } else {
        let number = count(found.parameters.len(), "parameter");
        comment(&mut out, "", &format!("Written by `sweep new` for {script}: {number}, read from {origin}."));
    }
    let file = clean(&file);
    let _ = write!(out, "#\n#   sweep plan {file}    shows the jobs\n#   sweep run {file}     runs them\n");
    let _ = write!(out, "name: {name}\n\nsteps:\n  {name}:\n    uses: command\n");
    out
}

/// The axes.
fn step(out: &mut String, axes: &[Axis], seed: bool) {
    if axes.is_empty() {
        out.push_str("    # Every combination of the values of a matrix is a job; `${{ matrix.lr }}` below is the value of a job.\n");
        out.push_str("    # matrix:\n    #   lr: [0.001, 0.01]\n");
    } else {
        comment(
            out,
            "    ",
            &format!(
                "Every combination of these values is a job: write several, as in the comments, or on the command line: `--axis {}={}`.",
                axes[0].name,
                axes[0].more.trim_matches(['[', ']']).replace(' ', "")
            ),
        );
        out.push_str("    matrix:\n");
        for axis in axes {
            let _ = writeln!(out, "      {}: [{}]  # {}", scalar::text(&axis.name), axis.value, clean(&axis.more));
        }
    }
    if seed {
        out.push_str("    # Repetitions, with the seeds 0, 1, …\n    seeds: 1\n");
    }
}

/// The command line; returns the names of arguments that must be given.
fn argv(out: &mut String, script: &Script, found: &Found, positions: &[&Parameter], any: bool) -> Vec<String> {
    let file = script.path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let mut argv = match &script.python {
        Some(python) if file.starts_with('-') => vec![python.clone(), format!("./{file}")],
        Some(python) => vec![python.clone(), file],
        None => vec![format!("./{file}")],
    };
    argv.extend(script.arguments.iter().cloned());
    let mut missing = Vec::new();
    // Arguments that the user has given may be these already.
    let positions = if script.arguments.is_empty() { positions } else { &[] };
    for position in positions {
        let values = match (&position.default, position.choices.first()) {
            (Json::Null, Some(first)) if position.required => vec![first.clone()],
            (Json::Null, None) if position.required => {
                missing.push(position.name.clone());
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
        comment(out, "      ", &format!("Argument `{}`: {about}", position.name));
        argv.extend(values.iter().filter_map(|value| match value {
            Json::String(text) => Some(text.clone()),
            value => scalar::yaml(value),
        }));
    }
    let mut items: Vec<String> = argv.iter().map(|argument| scalar::text(argument)).collect();
    if any && uses_flags(found.source) {
        items.push("\"${{ flags }}\"".to_owned());
    }
    let _ = writeln!(out, "      argv: [{}]", items.join(", "));
    missing
}

fn inputs(out: &mut String, script: &Script, found: &Found) {
    comment(
        out,
        "      ",
        "Files and folders that the script reads, data included. Each is linked into the folder that a job runs in.",
    );
    let folder = script.path.parent().unwrap_or_else(|| Path::new(""));
    let files = found.files.iter().map(|file| folder.join(file));
    let paths = std::iter::once(script.path.clone()).chain(files);
    let paths: Vec<String> = paths.map(|path| scalar::text(&path.to_string_lossy())).collect();
    let _ = writeln!(out, "      inputs: [{}]", paths.join(", "));
}

/// The lines of `params`, and the names of the parameters that must be given.
fn lines(
    source: Source,
    parameters: &[Parameter],
    booleans: Booleans,
    axes: &[Axis],
    seed: Option<&str>,
) -> (Vec<Line>, Vec<String>) {
    let mut missing = Vec::new();
    let lines = parameters.iter().map(|parameter| {
        let axis = axes.iter().find(|axis| axis.parameter == parameter.name);
        if Some(parameter.name.as_str()) == seed {
            let default = scalar::yaml(&parameter.default).unwrap_or_default();
            let note = if parameter.default.is_null() { String::new() } else { format!("default {default}") };
            return line(parameter, Some("${{ matrix.seed }}".to_owned()), &note);
        }
        if let Some(axis) = axis {
            return line(parameter, Some(format!("${{{{ matrix.{} }}}}", axis.name)), "");
        }
        if parameter.required && parameter.default.is_null() && parameter.style != Style::Other {
            let value = parameter.choices.first().and_then(scalar::yaml).unwrap_or_else(|| {
                missing.push(parameter.name.clone());
                REPLACE.to_owned()
            });
            return line(parameter, Some(value), "required: replace the value");
        }
        optional(source, parameter, booleans)
    });
    (lines.collect(), missing)
}

/// The line of a parameter with its default.
fn optional(source: Source, parameter: &Parameter, booleans: Booleans) -> Line {
    let default = &parameter.default;
    let is_on = default.as_bool() == Some(true);
    let value = scalar::yaml(default);
    let is_taken = source == Source::Argparse && items(default).any(|text| text.starts_with('-'));
    match parameter.style {
        _ if source == Source::Sweep => line(parameter, value, ""),
        Style::Other | Style::Position => line(parameter, None, ""),
        // A value of `null` is not passed.
        Style::List if default.as_array().is_some_and(Vec::is_empty) => {
            line(parameter, Some("null".to_owned()), "empty by default")
        }
        // argparse takes them for options.
        Style::List if is_taken => line(parameter, None, "its default begins with a dash: write it in `argv`"),
        Style::Pair if is_on && booleans != Booleans::NoFlag => Line {
            key: parameter.negative.clone(),
            value: Some("false".to_owned()),
            about: about(parameter, &format!("true turns `{}` off", parameter.name)),
        },
        Style::Truth if booleans != Booleans::Value && source != Source::Hydra => {
            line(parameter, Some(format!("\"{is_on}\"")), "")
        }
        Style::Python if booleans != Booleans::Python => {
            line(parameter, Some(if is_on { "\"True\"" } else { "\"False\"" }.to_owned()), "")
        }
        _ => line(parameter, value, ""),
    }
}

/// The texts in a value.
fn items(value: &Json) -> impl Iterator<Item = &str> {
    let items = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
    items.iter().filter_map(Json::as_str)
}

fn line(parameter: &Parameter, value: Option<String>, note: &str) -> Line {
    Line { key: parameter.name.clone(), value, about: about(parameter, note) }
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
    let active = lines.iter().any(|line| line.value.is_some());
    out.push_str(if active { "      params:\n" } else { "      # params:\n" });
    for Line { key, value, about } in lines {
        let key = scalar::text(key);
        let about = tidy(about);
        let Some(value) = value else {
            comment(out, "        ", &format!("{key}: {about}"));
            continue;
        };
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
}

fn foot(out: &mut String, name: &str, axes: &[Axis]) {
    out.push_str(
        "      # Metrics: `sweep.report(step, loss=…)` in the script, lines `loss=2.3` that it prints, or what it writes already.\n\
         \x20     # reads: { stdout: 'step {step} .*loss {loss}', tensorboard: runs/, csv: log.csv }\n\
         \x20     # metrics: { loss: min }\n\
         \x20     # Files that are kept.\n\
         \x20     # outputs: [model.pt]\n\
         \x20   # resources: { cpus: 1, gpus: 1 }\n",
    );
    if let Some(axis) = axes.first() {
        let rows: Vec<&str> = axes.iter().map(|axis| axis.name.as_str()).collect();
        let _ = write!(
            out,
            "\ntables:\n  results:\n    from: {name}\n    rows: [{}]\n    # Add the metrics that the script reports.\n    \
             cells: [time.run]\n\n# figures:\n#   loss: {{ from: {name}, kind: line, x: iteration, y: loss, color: {} }}\n",
            rows.join(", "),
            axis.name
        );
    }
}

/// A text in one line, without what could end a comment or drive a terminal.
fn tidy(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    clean(&words.join(" ")).into_owned()
}

/// Writes a comment in lines that are not too wide.
fn comment(out: &mut String, indent: &str, text: &str) {
    let mut width = 0;
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
