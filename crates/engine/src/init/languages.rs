//! Parameters of scripts in R and Julia, read from their text. The scripts are not run. `shells.rs` reads scripts of shells.

use std::{collections::BTreeMap, sync::LazyLock};

use regex::{Match, Regex};
use serde_json::Value as Json;

use super::{Found, Parameter, Source, Style};

/// Maximum number of parameters.
const MAX_PARAMETERS: usize = 500;

/// A value from the command line of R: its variable, its place, and the text after it.
static ARGUMENT: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?m)(?:^|[;{)])[ \t]*([A-Za-z_.][A-Za-z0-9_.]*)\s*(?:<-|=)\s*([^;\n]*?\bargs\[{1,2}(\d+)\]{1,2}\)?([^;\n]*))",
    )
});
/// The variable that holds the command line of R, and the arguments of the call that reads it.
static COMMAND_LINE: LazyLock<Regex> =
    LazyLock::new(|| regex(r"(?m)([A-Za-z_.][A-Za-z0-9_.]*)\s*(?:<-|=)\s*commandArgs\(([^)\n]*)\)"));
/// The call that reads the command line of R.
static COMMAND_ARGUMENTS: LazyLock<Regex> = LazyLock::new(|| regex(r"commandArgs\(([^)\n]*)\)"));
/// Number of arguments of R itself that `commandArgs()` has before those of the script.
const OWN_ARGUMENTS: usize = 5;
/// A condition on the number of arguments, or on the value of one.
static CONDITION: LazyLock<Regex> = LazyLock::new(|| regex(r"\belse\b|\bifelse\(|\bis\.na\(|\blength\(|%\|\|%"));
/// The value otherwise.
static OTHERWISE: LazyLock<Regex> =
    LazyLock::new(|| regex(r#"(?:else|,|%\|\|%)\s*["']?([^\s"'(){},]+)["']?\s*[)}]*\s*$"#));
/// A variable with a literal.
static LITERAL: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r#"(?m)(?:^|[;{])[ \t]*([A-Za-z_.][A-Za-z0-9_.]*)\s*(?:<-|=)\s*("[^"\n]*"|'[^'\n]*'|[-+]?[\d.][\w.+-]*|TRUE|FALSE)[ \t]*(?:$|[;}])"#,
    )
});
/// A variable of the environment that R reads, with its default.
static VARIABLE_OF_R: LazyLock<Regex> = LazyLock::new(|| {
    regex(r#"Sys\.getenv\(\s*["']([A-Za-z_][A-Za-z0-9_]*)["']\s*(?:,\s*(?:unset\s*=\s*)?([^)\n]*))?\)"#)
});
/// `key = value`, as arguments have it.
static NAMED: LazyLock<Regex> = LazyLock::new(|| regex(r"(?s)^\s*([A-Za-z_.][A-Za-z0-9_.]*)\s*=\s*([^>].*)$"));
/// `:key => value`, as dictionaries of Julia have it.
static PAIR: LazyLock<Regex> = LazyLock::new(|| regex(r"(?s)^\s*:([A-Za-z_]+)\s*=>\s*(.*)$"));
/// Texts in quotes.
static TEXTS: LazyLock<Regex> = LazyLock::new(|| regex(r#""([^"\\\n]*)"|'([^'\\\n]*)'"#));
/// A variable of the environment that Julia reads, with its default.
static VARIABLE: LazyLock<Regex> = LazyLock::new(|| {
    regex(r#"get\(\s*ENV\s*,\s*"([A-Za-z_][A-Za-z0-9_]*)"\s*,\s*([^)\n]*)\)|ENV\["([A-Za-z_][A-Za-z0-9_]*)"\]"#)
});
/// Variables of the system, which are not parameters.
const SYSTEM: [&str; 9] = ["HOME", "PATH", "USER", "PWD", "SHELL", "TMPDIR", "HOSTNAME", "LANG", "JULIA_NUM_THREADS"];

/// The parameters of a script in R: options of `optparse`, `argparse` and `argparser`, else arguments by their places.
pub(super) fn of_r(text: &str) -> Found {
    let text = without_comments(text);
    let mut parameters = Vec::new();
    for name in ["make_option", "add_option", "add_argument"] {
        for arguments in calls(&text, name) {
            parameters.extend(option_of_r(&arguments));
        }
    }
    if !parameters.is_empty() {
        return found(Source::Options, parameters);
    }
    let found = of_places(places_of_r(&text));
    let variables = || VARIABLE_OF_R.captures_iter(&text).map(|found| (found.get(1), found.get(2)));
    if found.source == Source::None { of_variables(variables()) } else { found }
}

/// The arguments that a script in R reads by their places.
fn places_of_r(text: &str) -> BTreeMap<usize, Parameter> {
    let mut places: BTreeMap<usize, Parameter> = BTreeMap::new();
    let variable = COMMAND_LINE.captures(text);
    let Some(options) = variable
        .as_ref()
        .and_then(|found| found.get(2))
        .or_else(|| COMMAND_ARGUMENTS.captures(text).and_then(|found| found.get(1)))
    else {
        return places;
    };
    let options = options.as_str();
    let is_own = options.contains("TRUE") || options.split('=').next_back().is_some_and(|value| value.trim() == "T");
    let before = if is_own { 0 } else { OWN_ARGUMENTS };
    let text = COMMAND_ARGUMENTS.replace_all(text, "args");
    let name = variable.map_or_else(|| "args".to_owned(), |variable| regex::escape(&variable[1]));
    let pattern = Regex::new(&format!(r"\b{name}\["));
    let text = pattern.map_or_else(|_| text.clone(), |pattern| pattern.replace_all(&text, "args["));
    let literals: BTreeMap<&str, &str> = LITERAL
        .captures_iter(&text)
        .filter_map(|found| Some((found.get(1)?.as_str(), found.get(2)?.as_str())))
        .collect();
    for value in ARGUMENT.captures_iter(&text) {
        let Some(place) = value[3].parse::<usize>().ok().and_then(|place| place.checked_sub(before)) else { continue };
        let otherwise = CONDITION.is_match(&value[2]).then(|| OTHERWISE.captures(&value[4])).flatten();
        let default = match (otherwise, literals.get(&value[1])) {
            (Some(default), _) => scalar(&default[1]),
            // `lr <- 0.1; if (length(args) > 0) lr <- args[1]`
            (None, Some(literal)) => scalar(literal),
            (None, None) => Json::Null,
        };
        if place > 0 {
            places.entry(place).or_insert(position(&value[1], default));
        }
    }
    places
}

/// An argument by its place, which must be given if it has no default.
fn position(name: &str, default: Json) -> Parameter {
    Parameter { required: default.is_null(), default, ..parameter(name, Style::Position) }
}

/// Returns the option of R that a call with `arguments` declares.
fn option_of_r(arguments: &[String]) -> Option<Parameter> {
    let mut words: Vec<String> = Vec::new();
    let mut keys: BTreeMap<String, String> = BTreeMap::new();
    for argument in arguments {
        if let Some(captures) = NAMED.captures(argument) {
            keys.insert(captures[1].to_owned(), captures[2].trim().to_owned());
        } else {
            let is_names = argument.trim_start().starts_with(['"', '\'', 'c']);
            words.extend(if is_names { texts(argument) } else { Vec::new() });
        }
    }
    words.extend(keys.get("opt_str").map(|names| texts(names)).unwrap_or_default());
    let options: Vec<String> = words.iter().filter(|word| word.starts_with('-')).cloned().collect();
    // Without dashes, the first text is the name, and the texts after it describe the option.
    let mut parameter = of_names(if options.is_empty() { words.get(..1)? } else { &options })?;
    let value_of = |key: &str| keys.get(key).map(String::as_str);
    parameter.default = value_of("default").map_or(Json::Null, scalar);
    parameter.help = value_of("help").and_then(quoted).unwrap_or_default();
    parameter.kind = value_of("type").and_then(quoted).unwrap_or_default();
    parameter.choices = value_of("choices").map(texts).unwrap_or_default().into_iter().map(Json::from).collect();
    parameter.required =
        parameter.style == Style::Position && parameter.default.is_null() || value_of("required") == Some("TRUE");
    let action = value_of("action").and_then(quoted).unwrap_or_default();
    if action.starts_with("store_") || value_of("flag") == Some("TRUE") || words.iter().any(|word| word == "store_true")
    {
        switch(&mut parameter);
    }
    Some(parameter)
}

/// Makes a flag of an option.
fn switch(parameter: &mut Parameter) {
    if parameter.default == Json::Bool(true) {
        parameter.style = Style::Other;
        "its default is the value that the flag sets, so it changes nothing".clone_into(&mut parameter.note);
        return;
    }
    parameter.default = Json::Bool(false);
    parameter.style = if parameter.style == Style::Short { Style::Other } else { Style::Flag };
}

/// The parameters of a script in Julia: the table of `ArgParse`, else arguments by their places, else variables of the environment.
pub(super) fn of_julia(text: &str) -> Found {
    let text = without_comments(text);
    let mut parameters: Vec<Parameter> = Vec::new();
    let mut is_table = false;
    for line in text.lines().flat_map(|line| parts(line, ';')).map(|line| line.trim().to_owned()) {
        if line.starts_with("@add_arg_table") {
            is_table = true;
        } else if line == "end" {
            is_table = false;
        } else if is_table && line.starts_with('"') {
            let names: Vec<String> = line.split(',').filter_map(quoted).collect();
            parameters.extend(of_names(&names));
        } else if let (true, Some(captures), Some(parameter)) = (is_table, NAMED.captures(&line), parameters.last_mut())
        {
            set_of_julia(parameter, &captures[1], captures[2].trim());
        }
    }
    for arguments in ["add_arg_table!", "add_arg_table"].into_iter().flat_map(|name| calls(&text, name)) {
        for argument in arguments.iter().skip(1) {
            let inner = argument.trim().strip_prefix("Dict(").and_then(|rest| rest.strip_suffix(')'));
            match (inner, parameters.last_mut()) {
                (Some(inner), Some(parameter)) => {
                    for pair in parts(inner, ',') {
                        if let Some(pair) = PAIR.captures(&pair) {
                            set_of_julia(parameter, &pair[1], pair[2].trim());
                        }
                    }
                }
                _ => parameters.extend(of_names(&texts(argument))),
            }
        }
    }
    if !parameters.is_empty() {
        return found(Source::Options, parameters);
    }
    let mut places = BTreeMap::new();
    for value in ARGUMENT.captures_iter(&text.replace("first(ARGS)", "args[1]").replace("ARGS[", "args[")) {
        let Ok(place) = value[3].parse() else { continue };
        // `condition ? one : other`, of which either may be the default.
        let default =
            value[2].split_once('?').and_then(|(_, rest)| rest.split_once(':')).map_or(Json::Null, |(one, other)| {
                scalar(if one.contains("args[") { other } else { one }.trim().trim_end_matches(')'))
            });
        places.entry(place).or_insert(position(&value[1], default));
    }
    let found = of_places(places);
    let variables = || VARIABLE.captures_iter(&text).map(|found| (found.get(1).or_else(|| found.get(3)), found.get(2)));
    if found.source == Source::None { of_variables(variables()) } else { found }
}

/// Sets a property of an option of Julia.
fn set_of_julia(parameter: &mut Parameter, key: &str, value: &str) {
    match key {
        "default" => parameter.default = scalar(value),
        "help" => parameter.help = quoted(value).unwrap_or_default(),
        "arg_type" => value.clone_into(&mut parameter.kind),
        "required" => parameter.required = value == "true",
        "range_tester" => {
            if let Some((_, list)) =
                value.split_once(['∈', '[']).filter(|_| value.contains(" in ") || value.contains('∈'))
            {
                parameter.choices = texts(list).into_iter().map(Json::from).collect();
            }
        }
        "action" if value.contains("store_") => switch(parameter),
        _ => {}
    }
}

/// The variables of the environment that a script reads, each with its default.
fn of_variables<'t>(found: impl Iterator<Item = (Option<Match<'t>>, Option<Match<'t>>)>) -> Found {
    let mut variables: Vec<Parameter> = Vec::new();
    for (name, default) in found {
        let Some(name) = name.map(|name| name.as_str()) else { continue };
        if SYSTEM.contains(&name) || variables.iter().any(|one| one.name == name) {
            continue;
        }
        let default = default.map(|default| quoted(default.as_str()).unwrap_or_else(|| default.as_str().to_owned()));
        let (required, default) = (default.is_none(), default.map_or(Json::Null, |default| scalar(&default)));
        variables.push(Parameter { required, default, ..parameter(name, Style::Value) });
    }
    if variables.is_empty() {
        Found::none("its source shows none")
    } else {
        self::found(Source::Environment, variables)
    }
}

/// Returns arguments by their places, from 1. An unknown place gets a generated name.
pub(super) fn of_places(mut places: BTreeMap<usize, Parameter>) -> Found {
    let last_place = places.keys().next_back().copied().unwrap_or_default();
    if last_place == 0 || last_place > 50 {
        return Found::none("its source shows none");
    }
    let of_place =
        |place| places.remove(&place).unwrap_or_else(|| parameter(&format!("argument-{place}"), Style::Position));
    found(Source::Places, (1..=last_place).map(of_place).collect())
}

pub(super) fn found(source: Source, mut parameters: Vec<Parameter>) -> Found {
    parameters.truncate(MAX_PARAMETERS);
    Found { source, parameters, whole: true, ..Found::none("") }
}

pub(super) fn parameter(name: &str, style: Style) -> Parameter {
    Parameter {
        name: name.to_owned(),
        spellings: Vec::new(),
        style,
        required: false,
        default: Json::Null,
        kind: String::new(),
        choices: Vec::new(),
        help: String::new(),
        note: String::new(),
        negative: String::new(),
        option: String::new(),
        least: None,
        most: None,
    }
}

/// An option of these names: by its long one, else by its letter, else a position.
fn of_names(names: &[String]) -> Option<Parameter> {
    if let Some(long_name) = names.iter().find_map(|name| name.strip_prefix("--")) {
        return Some(parameter(long_name, Style::Value));
    }
    let first_name = names.first()?;
    let Some(letter) = first_name.strip_prefix('-') else { return Some(parameter(first_name, Style::Position)) };
    Some(Parameter { option: first_name.clone(), ..parameter(letter, Style::Short) })
}

/// The text in quotes.
fn quoted(word: &str) -> Option<String> {
    let word = word.trim();
    let first = word.chars().next().filter(|first| *first == '"' || *first == '\'')?;
    word[1..].split(first).next().map(str::to_owned)
}

/// All texts in quotes.
fn texts(words: &str) -> Vec<String> {
    TEXTS
        .captures_iter(words)
        .filter_map(|captures| captures.get(1).or_else(|| captures.get(2)))
        .map(|text| text.as_str().to_owned())
        .collect()
}

/// Parses a literal: a number, a truth value or a text. Computed values become null.
pub(super) fn scalar(word: &str) -> Json {
    let word = word.trim().trim_end_matches(',');
    if let Some(text) = quoted(word) {
        return Json::String(text);
    }
    let digits = word.trim_end_matches('L').replace('_', "");
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

/// Splits a text where `separator` is neither in quotes nor in brackets. The first closing bracket without an opening one ends it.
fn parts(text: &str, separator: char) -> Vec<String> {
    let (mut depth, mut quote, mut was_escape, mut parts, mut part) = (0_i32, None, false, Vec::new(), String::new());
    for char in text.chars() {
        let is_escaped = std::mem::take(&mut was_escape);
        match (quote, char) {
            (Some(_), '\\') => was_escape = !is_escaped,
            (Some(opening), _) if opening == char && !is_escaped => quote = None,
            (None, '"' | '\'') => quote = Some(char),
            (None, '(' | '[' | '{') => depth += 1,
            (None, ')' | ']' | '}') if depth > 0 => depth -= 1,
            (None, ')') => break,
            (None, _) if depth == 0 && char == separator => {
                parts.push(std::mem::take(&mut part));
                continue;
            }
            _ => {}
        }
        part.push(char);
    }
    parts.push(part);
    parts
}

/// The arguments of each call of a function.
fn calls(text: &str, function: &str) -> Vec<Vec<String>> {
    text.split(&format!("{function}(")).skip(1).take(MAX_PARAMETERS).map(|rest| parts(rest, ',')).collect()
}

/// A text without the comments behind `#` in its lines. A `#` in quotes begins none.
fn without_comments(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let (mut quote, mut was_escape) = (None, false);
        for char in line.chars() {
            let is_escaped = std::mem::take(&mut was_escape);
            match (quote, char) {
                (Some(_), '\\') => was_escape = !is_escaped,
                (Some(opening), _) if opening == char && !is_escaped => quote = None,
                (None, '"' | '\'') => quote = Some(char),
                (None, '#') => break,
                _ => {}
            }
            out.push(char);
        }
        out.push('\n');
    }
    out
}

#[expect(clippy::unwrap_used, reason = "a constant, which the tests compile")]
pub(crate) fn regex(text: &str) -> Regex {
    Regex::new(text).unwrap()
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::*;

    /// Names, styles, options and defaults.
    pub(in crate::init) fn shown(found: &Found) -> Vec<(String, Style, String, Json)> {
        let one = |one: &Parameter| (one.name.clone(), one.style, one.option.clone(), one.default.clone());
        found.parameters.iter().map(one).collect()
    }

    pub(in crate::init) fn entry(
        name: &str,
        style: Style,
        option: &str,
        default: impl Into<Json>,
    ) -> (String, Style, String, Json) {
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
        let text = "make_option(c(\"-v\", \"--verbose\"), action=\"store_true\", default=TRUE)\nmake_option(opt_str = c(\"-l\", \"--lr\"), default=1)\n";
        let expected = [entry("verbose", Style::Other, "", true), entry("lr", Style::Value, "", 1)];
        assert_eq!(shown(&of_r(text)), expected);
        // A number in the same line is no default.
        for (line, default) in [
            ("n <- min(as.integer(args[1]), 100)", Json::Null),
            ("n <- strtoi(args[1], 10L)", Json::Null),
            ("n <- round(as.numeric(args[1]), 3)", Json::Null),
            ("if (length(args) >= 1) { n <- as.numeric(args[1]) } else { n <- 0.1 }", json!(0.1)),
            ("n <- 5\nif (length(args) > 0) n <- as.numeric(args[1])", json!(5)),
            ("n <- ifelse(is.na(args[1]), 7, as.numeric(args[1]))", Json::Null),
        ] {
            let found = of_r(&format!("args <- commandArgs(TRUE)\n{line}\n"));
            assert_eq!(shown(&found), [entry("n", Style::Position, "", default)], "{line}");
        }
        let found = of_r("n <- as.numeric(commandArgs(trailingOnly = TRUE)[1])\n");
        assert_eq!(shown(&found), [entry("n", Style::Position, "", Json::Null)]);
        let found = of_r("args <- commandArgs()\nn <- args[6]\n");
        assert_eq!(shown(&found), [entry("n", Style::Position, "", Json::Null)]);
        let found = of_r("lr <- as.numeric(Sys.getenv(\"LR\", unset = \"0.1\"))\nSys.getenv('HOME')\n");
        assert_eq!((found.source, shown(&found)), (Source::Environment, vec![entry("LR", Style::Value, "", 0.1)]));
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
