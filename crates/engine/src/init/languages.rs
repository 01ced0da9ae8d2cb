//! Parameters of scripts in R, Julia and shells, read from their text. Nothing of them is run.

use std::{collections::BTreeMap, sync::LazyLock};

use regex::Regex;
use serde_json::Value as Json;

use super::{Found, Parameter, Source, Style};

/// Maximum number of parameters.
const MAX_PARAMETERS: usize = 500;

/// `getopts` with its letters.
static GETOPTS: LazyLock<Regex> = LazyLock::new(|| regex(r#"(?m)^[^#\n]*\bgetopts\s+["']?:?([A-Za-z0-9:]+)["']?\s"#));
/// The branch of a letter, which gives its value to a variable.
static BRANCH: LazyLock<Regex> = LazyLock::new(|| {
    regex(r#"(?m)^\s*(?:\()?["']?([A-Za-z0-9])["']?\)\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)="?\$\{?OPTARG\}?"?"#)
});
/// A variable of a shell with its value.
static VARIABLE: LazyLock<Regex> = LazyLock::new(|| {
    regex(r#"(?m)^\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)=(?:"([^"\n]*)"|'([^'\n]*)'|([^\s;#"']*))"#)
});
/// `${NAME:-default}`.
static DEFAULT: LazyLock<Regex> = LazyLock::new(|| regex(r"^\$\{([A-Za-z_][A-Za-z0-9_]*|[1-9])(?::?-([^}$]*))?\}$"));
/// A value from the command line of R: its variable, its place, and what follows.
static ARGUMENT: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?m)^\s*([A-Za-z_.][A-Za-z0-9_.]*)\s*(?:<-|=)\s*[^#\n]*?\b(?:args|argv|arguments)\[{1,2}(\d+)\]{1,2}\)?([^\n]*)$",
    )
});
/// What a value from the command line of R is if there is none.
static OTHERWISE: LazyLock<Regex> =
    LazyLock::new(|| regex(r#"(?:else|,)\s*["']?([^\s"'(){},]+)["']?\s*[)}]*\s*(?:#.*)?$"#));
/// `key = value`, as arguments have it.
static NAMED: LazyLock<Regex> = LazyLock::new(|| regex(r"(?s)^\s*([A-Za-z_.][A-Za-z0-9_.]*)\s*=\s*(.*)$"));

/// The parameters of a script in R: options of `optparse`, `argparse` and `argparser`, else arguments by their places.
pub(super) fn of_r(text: &str) -> Found {
    let mut parameters = Vec::new();
    for name in ["make_option", "add_option", "add_argument"] {
        for arguments in calls(text, name) {
            parameters.extend(option_of_r(&arguments, name == "make_option"));
        }
    }
    if !parameters.is_empty() {
        return found(Source::Options, parameters);
    }
    let mut places: BTreeMap<usize, Parameter> = BTreeMap::new();
    if text.contains("commandArgs") {
        for value in ARGUMENT.captures_iter(text) {
            let Ok(place) = value[2].parse() else { continue };
            let default = OTHERWISE.captures(&value[3]).map_or(Json::Null, |default| scalar(&default[1]));
            let mut one = parameter(&value[1], Style::Position);
            one.required = default.is_null();
            one.default = default;
            places.entry(place).or_insert(one);
        }
    }
    of_places(places)
}

/// One option of R, from the arguments of the call that makes it.
fn option_of_r(arguments: &[String], has_vector: bool) -> Option<Parameter> {
    let mut names: Vec<String> = Vec::new();
    let mut keys: BTreeMap<String, String> = BTreeMap::new();
    for argument in arguments {
        if let Some(named) = NAMED.captures(argument) {
            keys.insert(named[1].to_owned(), named[2].trim().to_owned());
        } else if has_vector && !names.is_empty() {
            // By its place: that of `action`, which is rarely given so.
        } else {
            let words = argument.trim().trim_start_matches("c(").trim_end_matches(')');
            names.extend(words.split(',').filter_map(quoted).filter(|word| word.starts_with('-')));
        }
    }
    let mut one = of_names(&names)?;
    let get = |key: &str| keys.get(key).map(String::as_str);
    one.default = get("default").map_or(Json::Null, scalar);
    one.help = get("help").and_then(quoted).unwrap_or_default();
    one.kind = get("type").and_then(quoted).unwrap_or_default();
    let action = get("action").and_then(quoted).unwrap_or_default();
    if action.starts_with("store_") || get("flag") == Some("TRUE") {
        one.default = Json::Bool(false);
        one.style = if one.style == Style::Short { Style::Other } else { Style::Flag };
    }
    Some(one)
}

/// The parameters of a script in Julia: the table of `ArgParse`, else arguments by their places.
pub(super) fn of_julia(text: &str) -> Found {
    let mut parameters: Vec<Parameter> = Vec::new();
    let mut is_table = false;
    for line in text.lines().map(str::trim) {
        if line.starts_with("@add_arg_table") {
            is_table = true;
        } else if line == "end" {
            is_table = false;
        } else if is_table && line.starts_with('"') {
            let names: Vec<String> = line.split(',').filter_map(quoted).collect();
            parameters.extend(of_names(&names));
        } else if let (true, Some(named), Some(one)) = (is_table, NAMED.captures(line), parameters.last_mut()) {
            let value = named[2].trim();
            match &named[1] {
                "default" => one.default = scalar(value),
                "help" => one.help = quoted(value).unwrap_or_default(),
                "arg_type" => value.clone_into(&mut one.kind),
                "required" => one.required = value == "true",
                "action" if value.contains("store_") => {
                    one.default = Json::Bool(false);
                    one.style = if one.style == Style::Short { Style::Other } else { Style::Flag };
                }
                _ => {}
            }
        }
    }
    if !parameters.is_empty() {
        return found(Source::Options, parameters);
    }
    let mut places = BTreeMap::new();
    for value in ARGUMENT.captures_iter(&text.replace("ARGS[", "args[")) {
        let Ok(place) = value[2].parse() else { continue };
        let mut one = parameter(&value[1], Style::Position);
        one.default =
            value[3].rsplit_once(':').map_or(Json::Null, |(_, default)| scalar(default.trim().trim_end_matches(')')));
        one.required = one.default.is_null();
        places.entry(place).or_insert(one);
    }
    of_places(places)
}

/// The parameters of a script of a shell: the letters of `getopts`, else arguments by their places and variables with defaults.
pub(super) fn of_shell(text: &str) -> Found {
    let mut values: BTreeMap<&str, String> = BTreeMap::new();
    let mut order = Vec::new();
    for variable in VARIABLE.captures_iter(text) {
        let (Some(name), Some(value)) = (variable.get(1), (2..=4).find_map(|group| variable.get(group))) else {
            continue;
        };
        if !values.contains_key(name.as_str()) {
            order.push(name.as_str());
            values.insert(name.as_str(), value.as_str().to_owned());
        }
    }
    let default = |name: &str| match values.get(name).map(|value| (DEFAULT.captures(value), value)) {
        Some((Some(inner), _)) => inner.get(2).map_or(Json::Null, |default| scalar(default.as_str())),
        Some((None, value)) if !value.contains('$') && !value.contains('`') => scalar(value),
        _ => Json::Null,
    };
    if let Some(letters) = GETOPTS.captures(text) {
        let names: BTreeMap<char, String> = BRANCH
            .captures_iter(text)
            .filter_map(|branch| Some((branch[1].chars().next()?, branch[2].to_owned())))
            .collect();
        return found(Source::Getopts, of_letters(&letters[1], &names, default));
    }
    let (mut places, mut variables) = (BTreeMap::new(), Vec::new());
    for name in order {
        let value = values.get(name).map_or("", String::as_str);
        let simple = value.strip_prefix('$').filter(|rest| rest.len() == 1).and_then(|rest| rest.parse::<usize>().ok());
        let inner = DEFAULT.captures(value);
        let place =
            simple.or_else(|| inner.as_ref().and_then(|inner| inner[1].parse().ok())).filter(|place| *place > 0);
        let mut one = parameter(name, if place.is_some() { Style::Position } else { Style::Value });
        one.default = default(name);
        one.required = one.default.is_null();
        if let Some(place) = place {
            places.entry(place).or_insert(one);
        } else if inner.is_some_and(|inner| &inner[1] == name) && !one.default.is_null() {
            variables.push(one);
        }
    }
    if places.is_empty() && !variables.is_empty() { found(Source::Environment, variables) } else { of_places(places) }
}

/// The options of `getopts`: `l:a` has `-l VALUE` and `-a`.
fn of_letters(letters: &str, names: &BTreeMap<char, String>, default: impl Fn(&str) -> Json) -> Vec<Parameter> {
    let mut parameters = Vec::new();
    let mut rest = letters.chars().peekable();
    while let Some(letter) = rest.next() {
        let takes = rest.next_if_eq(&':').is_some();
        let name = names.get(&letter).cloned().unwrap_or_else(|| letter.to_string());
        let mut one = parameter(&name, if takes { Style::Short } else { Style::Other });
        one.option = format!("-{letter}");
        if takes {
            one.default = default(&name);
        } else {
            "it takes no value: write it in `argv`".clone_into(&mut one.note);
        }
        parameters.push(one);
    }
    parameters
}

/// Arguments by their places, from 1. A place of which nothing is known has a name of its own.
fn of_places(mut places: BTreeMap<usize, Parameter>) -> Found {
    let last = places.keys().next_back().copied().unwrap_or_default();
    if last == 0 || last > 50 {
        return Found::none("its text shows none");
    }
    let one = |place| places.remove(&place).unwrap_or_else(|| parameter(&format!("argument-{place}"), Style::Position));
    found(Source::Places, (1..=last).map(one).collect())
}

fn found(source: Source, mut parameters: Vec<Parameter>) -> Found {
    parameters.truncate(MAX_PARAMETERS);
    Found { source, parameters, ..Found::none("") }
}

fn parameter(name: &str, style: Style) -> Parameter {
    Parameter {
        name: name.to_owned(),
        style,
        required: false,
        default: Json::Null,
        kind: String::new(),
        choices: Vec::new(),
        help: String::new(),
        note: String::new(),
        negative: String::new(),
        option: String::new(),
    }
}

/// An option of these names: by its long one, else by its letter, else a position.
fn of_names(names: &[String]) -> Option<Parameter> {
    if let Some(long) = names.iter().find_map(|name| name.strip_prefix("--")) {
        return Some(parameter(long, Style::Value));
    }
    let first = names.first()?;
    let Some(letter) = first.strip_prefix('-') else { return Some(parameter(first, Style::Position)) };
    Some(Parameter { option: first.clone(), ..parameter(letter, Style::Short) })
}

/// The text in quotes.
fn quoted(word: &str) -> Option<String> {
    let word = word.trim();
    let first = word.chars().next().filter(|first| *first == '"' || *first == '\'')?;
    word[1..].split(first).next().map(str::to_owned)
}

/// A literal: a number, a truth value or a text. What is computed is null.
fn scalar(word: &str) -> Json {
    let word = word.trim().trim_end_matches(',');
    if let Some(text) = quoted(word) {
        return Json::String(text);
    }
    let digits = word.trim_end_matches('L');
    match word {
        "TRUE" | "T" | "true" => Json::Bool(true),
        "FALSE" | "F" | "false" => Json::Bool(false),
        _ => {
            let number =
                digits.parse::<i64>().ok().map(Json::from).or_else(|| digits.parse::<f64>().ok().map(Json::from));
            let is_word =
                !word.is_empty() && word.chars().all(|char| char.is_ascii_alphanumeric() || "_./-".contains(char));
            let text =
                (is_word && word != "NULL" && word != "NA" && word != "nothing").then(|| Json::String(word.to_owned()));
            number.or(text).unwrap_or(Json::Null)
        }
    }
}

/// The arguments of each call of a function.
fn calls(text: &str, function: &str) -> Vec<Vec<String>> {
    let mut calls = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(&format!("{function}(")) {
        rest = &rest[at + function.len() + 1..];
        let (mut depth, mut quote, mut arguments, mut argument) = (0_i32, None, Vec::new(), String::new());
        for char in rest.chars() {
            match (quote, char) {
                (Some(open), _) if open == char => quote = None,
                (None, '"' | '\'') => quote = Some(char),
                (None, '(' | '[' | '{') => depth += 1,
                (None, ')' | ']' | '}') if depth > 0 => depth -= 1,
                (None, ')') => break,
                (None, ',') if depth == 0 => {
                    arguments.push(std::mem::take(&mut argument));
                    continue;
                }
                _ => {}
            }
            argument.push(char);
        }
        arguments.push(argument);
        calls.push(arguments);
    }
    calls
}

#[expect(clippy::unwrap_used, reason = "a constant, which the tests compile")]
fn regex(text: &str) -> Regex {
    Regex::new(text).unwrap()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Names, styles, options and defaults.
    fn shown(found: &Found) -> Vec<(String, Style, String, Json)> {
        let one = |one: &Parameter| (one.name.clone(), one.style, one.option.clone(), one.default.clone());
        found.parameters.iter().map(one).collect()
    }

    fn entry(name: &str, style: Style, option: &str, default: impl Into<Json>) -> (String, Style, String, Json) {
        (name.to_owned(), style, option.to_owned(), default.into())
    }

    #[test]
    fn options_and_places_of_r() {
        let text = "library(optparse)\noptions <- list(\n  make_option(c(\"-l\", \"--lr\"), type = \"double\", default = 0.1, \
                    help = \"rate, as ever\"),\n  make_option(\"--epochs\", type=\"integer\", default=10L),\n  \
                    make_option(c(\"-v\", \"--verbose\"), action=\"store_true\", default=FALSE))\n\
                    opt <- parse_args(OptionParser(option_list = options))\n";
        let found = of_r(text);
        let expected = [
            entry("lr", Style::Value, "", 0.1),
            entry("epochs", Style::Value, "", 10),
            entry("verbose", Style::Flag, "", false),
        ];
        assert_eq!((found.source, shown(&found)), (Source::Options, expected.to_vec()));
        assert_eq!(found.parameters[0].help, "rate, as ever");
        let text = "args <- commandArgs(trailingOnly = TRUE)\nlr <- as.numeric(args[1])\n\
                    seed <- if (length(args) >= 2) as.integer(args[[2]]) else 1\nname = ifelse(length(args) > 2, args[3], \"x\")\n";
        let found = of_r(text);
        let expected = [
            entry("lr", Style::Position, "", Json::Null),
            entry("seed", Style::Position, "", 1),
            entry("name", Style::Position, "", "x"),
        ];
        assert_eq!((found.source, shown(&found)), (Source::Places, expected.to_vec()));
        assert_eq!(of_r("x <- 1\n").source, Source::None);
    }

    #[test]
    fn options_and_places_of_julia() {
        let text = "using ArgParse\ns = ArgParseSettings()\n@add_arg_table! s begin\n    \"--lr\", \"-l\"\n        help = \"rate\"\n        \
                    arg_type = Float64\n        default = 0.1\n    \"--amp\"\n        action = :store_true\n    \"-n\"\n        \
                    default = 3\n    \"data\"\n        required = true\nend\nargs = parse_args(s)\n";
        let found = of_julia(text);
        let expected = [
            entry("lr", Style::Value, "", 0.1),
            entry("amp", Style::Flag, "", false),
            entry("n", Style::Short, "-n", 3),
            entry("data", Style::Position, "", Json::Null),
        ];
        assert_eq!((found.source, shown(&found)), (Source::Options, expected.to_vec()));
        let found = of_julia("lr = length(ARGS) >= 1 ? parse(Float64, ARGS[1]) : 0.1\n");
        assert_eq!(shown(&found), [entry("lr", Style::Position, "", 0.1)]);
    }

    #[test]
    fn letters_places_and_variables_of_shells() {
        let text = "#!/bin/sh\nLR=0.1\nsteps=10\nwhile getopts \":l:s:vh\" opt; do\n  case $opt in\n    l) LR=$OPTARG ;;\n    \
                    s) steps=\"$OPTARG\";;\n    v) verbose=1 ;;\n  esac\ndone\n";
        let found = of_shell(text);
        let expected = [
            entry("LR", Style::Short, "-l", 0.1),
            entry("steps", Style::Short, "-s", 10),
            entry("v", Style::Other, "-v", Json::Null),
            entry("h", Style::Other, "-h", Json::Null),
        ];
        assert_eq!((found.source, shown(&found)), (Source::Getopts, expected.to_vec()));
        let found = of_shell("lr=$1\nepochs=\"${2:-10}\"\npython train.py\n");
        let expected = [entry("lr", Style::Position, "", Json::Null), entry("epochs", Style::Position, "", 10)];
        assert_eq!((found.source, shown(&found)), (Source::Places, expected.to_vec()));
        let found = of_shell("export LR=${LR:-0.1}\nOUT=out\nBATCH=\"${BATCH:-32}\"\n");
        let expected = json!(["LR", "BATCH"]);
        assert_eq!(json!(found.parameters.iter().map(|one| one.name.as_str()).collect::<Vec<_>>()), expected);
        assert_eq!(found.source, Source::Environment);
        assert_eq!(of_shell("echo loss=2\n").source, Source::None);
    }

    #[test]
    fn literals() {
        let expected = [
            ("1e-3", json!(0.001)),
            ("10L", json!(10)),
            ("'a b'", json!("a b")),
            ("NULL", Json::Null),
            ("f(x)", Json::Null),
        ];
        for (word, value) in expected {
            assert_eq!(scalar(word), value, "{word}");
        }
    }
}
