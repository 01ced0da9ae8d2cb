//! The text of a first recipe.

use std::{fmt::Write as _, path::Path};

use serde_json::Value as Json;

use super::{
    Found, InitError, Parameter, Script, Source, Style, Wish, scalar,
    suggest::{self, Axis},
};
use crate::format::{clean, count};

/// Widest line, in characters.
const WIDTH: usize = 110;
/// Maximum number of parameters that are listed in comments.
const MAX_COMMENTS: usize = 40;
/// The value of a parameter that must be given. The script rejects it, or does not find it.
const REPLACE: &str = "REPLACE";

/// Names of parameters that take the seed.
const SEEDS: [&str; 7] = ["seed", "random_seed", "random_state", "rng_seed", "manual_seed", "manualseed", "torch_seed"];

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
    let parameters = named(found);
    let seed = parameters.iter().find(|parameter| is_seed(parameter)).map(|seed| seed.name.clone());
    if wish.seeds.is_some() && seed.is_none() {
        return Err(InitError::NoSeed(script.path.clone()));
    }
    let axes = if wish.axes.is_empty() { suggest::axes(&parameters) } else { wished(script, found, wish)? };
    let is_varied = |parameter: &&Parameter| axes.iter().any(|axis| axis.parameter == parameter.name);
    let varied: Vec<&Parameter> = parameters.iter().filter(is_varied).collect();
    let is_boolean =
        |parameter: &&Parameter| matches!(parameter.style, Style::Flag | Style::Pair | Style::Truth | Style::Python);
    // Without a boolean among the axes, the form suits those that may be added.
    let booleans = if varied.iter().any(is_boolean) {
        booleans(&varied)
    } else {
        booleans(&parameters.iter().collect::<Vec<_>>())
    };
    // These take booleans as they are.
    let has_types = matches!(found.source, Source::Hydra | Source::Sweep);
    if let Some(mixed) = varied.iter().find(|parameter| !has_types && !suits(parameter, booleans)) {
        return Err(InitError::NoAxis { script: script.path.clone(), name: mixed.name.clone() });
    }
    let (lines, mut missing) = lines(found.source, &parameters, &axes, seed.as_deref());
    let is_passed = lines.iter().any(|line| line.value.is_some());
    let mut out = head(script, found, name, file, wish);
    step(&mut out, &axes, seed.as_ref().map(|_| wish.seeds.unwrap_or(1)));
    out.push_str("    with:\n");
    let positions: Vec<&Parameter> = found.parameters.iter().filter(|one| one.style == Style::Position).collect();
    missing.extend(argv(&mut out, script, found, &positions, &axes, is_passed));
    project(&mut out, script, file);
    if !is_passed {
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
    foot(&mut out, name, &axes, wish);
    Ok((out, missing))
}

/// The axes that a person has named.
fn wished(script: &Script, found: &Found, wish: &Wish) -> Result<Vec<Axis>, InitError> {
    let spelled = |name: &str| name.replace(['-', '.'], "_").to_ascii_lowercase();
    let axis = |(name, values): &(String, String)| {
        let exact = found.parameters.iter().find(|parameter| parameter.name == *name);
        let parameter = exact.or_else(|| found.parameters.iter().find(|one| spelled(&one.name) == spelled(name)));
        let names = || found.parameters.iter().map(|parameter| parameter.name.as_str());
        let unknown = || InitError::NoParameter {
            script: script.path.clone(),
            name: name.clone(),
            help: crate::recipe::suggest(name, "parameters", names())
                .unwrap_or_else(|| by_command(script, name, values)),
        };
        let parameter = parameter.ok_or_else(unknown)?;
        let name = parameter.name.replace('.', "_");
        Ok(Axis { parameter: parameter.name.clone(), name, value: values.clone(), more: String::new() })
    };
    wish.axes.iter().map(axis).collect()
}

/// The way to vary a parameter that a script does not show.
fn by_command(script: &Script, name: &str, values: &str) -> String {
    let path = script.path.display().to_string();
    let program = match &script.python {
        Some(python) => format!("{python} {path}"),
        None if path.contains('/') => path,
        None => format!("./{path}"),
    };
    format!(
        "it shows none: write the command with a place for the value, as in `sweep run --axis {name}={values} -- {program} --{name} {{{name}}}`"
    )
}

/// True if the values `true` and `false` of a parameter reach the script in this form.
fn suits(parameter: &Parameter, booleans: Booleans) -> bool {
    match parameter.style {
        Style::Value | Style::List | Style::Position => true,
        // With the default `true`, no flag at all means `true`.
        Style::Pair => booleans == Booleans::NoFlag || parameter.default.as_bool() != Some(true),
        Style::Flag => booleans == Booleans::Flag,
        Style::Truth => booleans == Booleans::Value,
        Style::Python => booleans == Booleans::Python,
        Style::Other => false,
    }
}

/// The parameters with names; those without are part of `argv`.
fn named(found: &Found) -> Vec<Parameter> {
    found.parameters.iter().filter(|parameter| parameter.style != Style::Position).cloned().collect()
}

fn is_seed(parameter: &Parameter) -> bool {
    let leaf = parameter.name.rsplit('.').next().unwrap_or_default().replace('-', "_").to_ascii_lowercase();
    parameter.style == Style::Value && SEEDS.contains(&leaf.as_str())
}

fn uses_flags(source: Source) -> bool {
    matches!(source, Source::Argparse | Source::Click | Source::Hydra | Source::Tyro | Source::Configurator)
}

/// The form that suits all booleans of a script.
fn booleans(parameters: &[&Parameter]) -> Booleans {
    let has = |style| parameters.iter().any(|parameter| parameter.style == style);
    let paired = |parameter: &&Parameter| parameter.negative == negated(&parameter.name);
    match (has(Style::Flag), has(Style::Pair), has(Style::Truth), has(Style::Python)) {
        (false, false, true, false) => Booleans::Value,
        (false, false, false, true) => Booleans::Python,
        (_, true, false, false)
            if !has(Style::Flag) && parameters.iter().filter(|one| one.style == Style::Pair).all(paired) =>
        {
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

fn head(script: &Script, found: &Found, name: &str, file: &Path, wish: &Wish) -> String {
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
    let by = if wish.waits { "sweep run" } else { "sweep new" };
    let mut out = String::new();
    if origin.is_empty() {
        comment(&mut out, "", &format!("Written by `{by}` for {script}, which shows no parameters: {}.", found.why));
    } else {
        let number = count(found.parameters.len(), "parameter");
        comment(&mut out, "", &format!("Written by `{by}` for {script}: {number}, read from {origin}."));
    }
    let file = clean(&file);
    let _ = write!(out, "#\n#   sweep plan {file}    shows the jobs\n#   sweep run {file}     runs them\n");
    let _ = write!(out, "name: {name}\n\nsteps:\n  {name}:\n    uses: command\n");
    out
}

/// The axes.
fn step(out: &mut String, axes: &[Axis], seeds: Option<u32>) {
    if axes.is_empty() {
        out.push_str("    # Every combination of the values of a matrix is a job; `${{ matrix.lr }}` below is the value of a job.\n");
        out.push_str("    # matrix:\n    #   lr: [0.001, 0.01]\n");
    } else {
        let suggested = axes.iter().find(|axis| !axis.more.is_empty());
        if let Some(axis) = suggested {
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
            let _ = writeln!(out, "      {}: {}{more}", scalar::text(&axis.name), values(&axis.value));
        }
    }
    if let Some(seeds) = seeds {
        let _ = writeln!(out, "    # Repetitions, with the seeds 0, 1, …\n    seeds: {seeds}");
    }
}

/// The values of an axis, as they are typed, as YAML.
pub(super) fn values(typed: &str) -> String {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "_-+./, ".contains(char);
    if typed.starts_with(['[', '{']) {
        typed.to_owned()
    } else if typed.chars().all(is_plain) {
        format!("[{}]", typed.split(',').map(str::trim).collect::<Vec<_>>().join(", "))
    } else {
        format!("[{typed}]")
    }
}

/// The command line; returns the names of arguments that must be given.
fn argv(
    out: &mut String,
    script: &Script,
    found: &Found,
    positions: &[&Parameter],
    axes: &[Axis],
    is_passed: bool,
) -> Vec<String> {
    let file = script.path.to_string_lossy().into_owned();
    let mut argv = match &script.python {
        Some(python) if file.starts_with('-') => vec![python.clone(), format!("./{file}")],
        Some(python) => vec![python.clone(), file],
        None if file.contains('/') => vec![file],
        None => vec![format!("./{file}")],
    };
    argv.extend(script.arguments.iter().cloned());
    let mut missing = Vec::new();
    // Arguments that the user has given may be these already.
    let positions = if script.arguments.is_empty() { positions } else { &[] };
    for position in positions {
        if let Some(axis) = axes.iter().find(|axis| axis.parameter == position.name) {
            argv.push(format!("${{{{ matrix.{} }}}}", axis.name));
            continue;
        }
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
    if is_passed && uses_flags(found.source) {
        items.push("\"${{ flags }}\"".to_owned());
    }
    let _ = writeln!(out, "      argv: [{}]", items.join(", "));
    missing
}

/// The folder that the script runs in.
fn project(out: &mut String, script: &Script, file: &Path) {
    let folder = file.parent().unwrap_or_else(|| Path::new(""));
    let is_here = folder.as_os_str().is_empty() || folder == Path::new(".");
    let project = if is_here { ".".to_owned() } else { scalar::text(&script.folder.to_string_lossy()) };
    let about = "The folder that the script runs in, as by hand. What it writes there is its own, and what it reads there decides \
                 when its results are out of date.";
    comment(out, "      ", about);
    let _ = writeln!(out, "      project: {project}");
    if script.path.is_absolute() && !script.path.starts_with(&script.folder) {
        let _ = writeln!(out, "      inputs: [{}]", scalar::text(&script.path.to_string_lossy()));
    }
}

/// The lines of `params`, and the names of the parameters that must be given. Parameters that keep their defaults are comments.
fn lines(source: Source, parameters: &[Parameter], axes: &[Axis], seed: Option<&str>) -> (Vec<Line>, Vec<String>) {
    let mut missing = Vec::new();
    let lines = parameters.iter().map(|parameter| {
        let default = scalar::yaml(&parameter.default).filter(|_| !parameter.default.is_null());
        let note = default.map_or_else(String::new, |default| format!("default {default}"));
        if let Some(axis) = axes.iter().find(|axis| axis.parameter == parameter.name) {
            return line(parameter, Some(format!("${{{{ matrix.{} }}}}", axis.name)), "");
        }
        if Some(parameter.name.as_str()) == seed {
            return line(parameter, Some("${{ matrix.seed }}".to_owned()), &note);
        }
        let is_open = parameter.required && parameter.default.is_null() && parameter.style != Style::Other;
        if is_open && source != Source::Sweep {
            let value = parameter.choices.first().and_then(scalar::yaml).unwrap_or_else(|| {
                missing.push(parameter.name.clone());
                REPLACE.to_owned()
            });
            return line(parameter, Some(value), "required: replace the value");
        }
        line(parameter, None, &note)
    });
    (lines.collect(), missing)
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
    let (passed, others): (Vec<&Line>, Vec<&Line>) = lines.iter().partition(|line| line.value.is_some());
    out.push_str(if passed.is_empty() { "      # params:\n" } else { "      params:\n" });
    for Line { key, value, about } in passed {
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
    for Line { key, about, .. } in others.iter().take(MAX_COMMENTS) {
        comment(out, "        ", &format!("{}: {about}", scalar::text(key)));
    }
    if others.len() > MAX_COMMENTS {
        comment(out, "        ", &format!("… and {}", count(others.len() - MAX_COMMENTS, "more parameter")));
    }
}

fn foot(out: &mut String, name: &str, axes: &[Axis], wish: &Wish) {
    if wish.printed.is_empty() && wish.logs.is_empty() {
        out.push_str(
            "      # Metrics: `sweep.report(step, loss=…)` in the script, lines `loss=2.3` that it prints, or what it writes already.\n\
             \x20     # reads: { stdout: 'step {step} .*loss {loss}', tensorboard: runs/, csv: log.csv }\n",
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
    for one in &wish.printed {
        comment(out, "          ", &format!("Its last line: {}", one.line));
        let _ = writeln!(out, "          - {}", scalar::text(&one.pattern));
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
