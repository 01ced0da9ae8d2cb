//! Parameters of scripts of shells, read from their text. Nothing of them is run.

use std::{collections::BTreeMap, sync::LazyLock};

use regex::Regex;
use serde_json::Value as Json;

use super::{
    Found, Parameter, Source, Style,
    languages::{found, of_places, parameter, regex, scalar},
};

/// `getopts` with its letters.
static GETOPTS: LazyLock<Regex> = LazyLock::new(|| regex(r#"(?m)^[^#\n]*\bgetopts\s+["']?:?([A-Za-z0-9:]+)["']?\s"#));
/// The branch of a letter, which gives its value to a variable.
static BRANCH: LazyLock<Regex> = LazyLock::new(|| {
    regex(r#"(?m)^\s*(?:\()?["']?([A-Za-z0-9])["']?\s*\)\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)="?\$\{?OPTARG\}?"?"#)
});
/// A variable with its value, also a variable that gets a value if it has none: `: "${LR:=0.1}"`.
static VARIABLE: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r#"(?m)(?:^|;)[ \t]*(?:(?:export|local|readonly|declare|typeset)\s+)?([A-Za-z_][A-Za-z0-9_]*)=(?:"([^"\n]*)"|'([^'\n]*)'|([^\s;#"']*))|^[ \t]*:[ \t]+"?(\$\{([A-Za-z_][A-Za-z0-9_]*):?=[^}$]*\})"?"#,
    )
});
/// An argument by its place as the value of an option of a program.
static PASSED: LazyLock<Regex> =
    LazyLock::new(|| regex(r#"--([A-Za-z][\w-]*)[ =]["']?\$\{?([1-9])(?::?-([^}\n]*)\})?"#));
/// `${NAME:-default}`.
static DEFAULT: LazyLock<Regex> = LazyLock::new(|| regex(r"^\$\{([A-Za-z_][A-Za-z0-9_]*|[1-9])(?::?[-=]([^}$]*))?\}$"));
/// The branch of a long option: its names, and its commands up to `;;`.
static LONG: LazyLock<Regex> =
    LazyLock::new(|| regex(r#"(?ms)^[ \t]*\(?((?:["']?-{1,2}[A-Za-z][\w-]*(?:=\*)?["']?\s*\|?\s*)+)\)(.*?);;"#));
/// The variable that gets a value in such a branch, and the value.
static GIVEN: LazyLock<Regex> =
    LazyLock::new(|| regex(r#"(?m)(?:^|;|\s)([A-Za-z_][A-Za-z0-9_]*)=["']?(\$\{?[A-Za-z0-9_]+|[^\s;"']*)"#));

/// The parameters of a script of a shell: the letters of `getopts`, else long options of a loop, else arguments by their places, else
/// variables with defaults.
pub(super) fn of_shell(text: &str) -> Found {
    let mut values: BTreeMap<&str, String> = BTreeMap::new();
    let mut order = Vec::new();
    for variable in VARIABLE.captures_iter(text) {
        let name = variable.get(1).or_else(|| variable.get(6));
        let (Some(name), Some(value)) = (name, (2..=5).find_map(|group| variable.get(group))) else { continue };
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
    if let Some(options) = of_long(text, &default) {
        return options;
    }
    let (mut places, mut variables) = (BTreeMap::new(), Vec::new());
    for name in order {
        let value = values.get(name).map_or("", String::as_str);
        let simple_place =
            value.strip_prefix('$').filter(|rest| rest.len() == 1).and_then(|rest| rest.parse::<usize>().ok());
        let inner = DEFAULT.captures(value);
        let place =
            simple_place.or_else(|| inner.as_ref().and_then(|inner| inner[1].parse().ok())).filter(|place| *place > 0);
        let mut option = parameter(name, if place.is_some() { Style::Position } else { Style::Value });
        option.default = default(name);
        option.required = option.default.is_null();
        if let Some(place) = place {
            places.entry(place).or_insert(option);
        } else if inner.is_some_and(|inner| &inner[1] == name) && !option.default.is_null() {
            variables.push(option);
        }
    }
    // `python3 train.py --lr $1`
    for given in PASSED.captures_iter(text) {
        let Ok(place) = given[2].parse::<usize>() else { continue };
        let default = given.get(3).map_or(Json::Null, |default| scalar(default.as_str()));
        let option = Parameter { required: default.is_null(), default, ..parameter(&given[1], Style::Position) };
        places.entry(place).or_insert(option);
    }
    if places.is_empty() && !variables.is_empty() { found(Source::Environment, variables) } else { of_places(places) }
}

/// The options of a loop over the arguments with `case`. A branch `--lr=*)` takes the value from the same argument, other branches take it
/// from the next. `None` without such options, or if both kinds occur.
fn of_long(text: &str, default: &impl Fn(&str) -> Json) -> Option<Found> {
    let mut parameters: Vec<Parameter> = Vec::new();
    let mut joined_flags = Vec::new();
    for branch in LONG.captures_iter(text) {
        let names: Vec<&str> = branch[1]
            .split('|')
            .map(|name| name.trim().trim_matches(['"', '\'']))
            .filter(|name| !name.is_empty())
            .collect();
        let Some(long_name) = names.iter().find_map(|name| name.strip_prefix("--")) else { continue };
        let (name, is_joined) = long_name.strip_suffix("=*").map_or((long_name, false), |name| (name, true));
        if ["help", "usage", "version"].contains(&name) || parameters.iter().any(|option| option.name == name) {
            continue;
        }
        let assignment = GIVEN.captures(&branch[2]);
        let takes_value = is_joined
            || branch[2].contains("shift 2")
            || assignment.as_ref().is_some_and(|assignment| assignment[2].starts_with('$'));
        let mut option = parameter(name, if takes_value { Style::Value } else { Style::Flag });
        option.default = match assignment {
            Some(assignment) if takes_value => default(&assignment[1]),
            _ => {
                if takes_value {
                    Json::Null
                } else {
                    Json::Bool(false)
                }
            }
        };
        if takes_value {
            joined_flags.push(is_joined);
        }
        parameters.push(option);
    }
    let is_joined = joined_flags.first().copied().unwrap_or_default();
    let is_one_kind = joined_flags.iter().all(|flag| *flag == is_joined);
    let source = if is_joined { Source::Equals } else { Source::Options };
    (is_one_kind && !parameters.is_empty()).then(|| found(source, parameters))
}

/// The options of `getopts`: `l:a` has `-l VALUE` and `-a`.
fn of_letters(letters: &str, names: &BTreeMap<char, String>, default: impl Fn(&str) -> Json) -> Vec<Parameter> {
    let mut parameters = Vec::new();
    let mut chars = letters.chars().peekable();
    while let Some(letter) = chars.next() {
        let takes_value = chars.next_if_eq(&':').is_some();
        let name = names.get(&letter).cloned().unwrap_or_else(|| letter.to_string());
        let mut option = parameter(&name, if takes_value { Style::Short } else { Style::Other });
        option.option = format!("-{letter}");
        if takes_value {
            option.default = default(&name);
        } else {
            "it takes no value: write it in `argv`".clone_into(&mut option.note);
        }
        parameters.push(option);
    }
    parameters
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{
        super::languages::tests::{entry, shown},
        *,
    };

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
        let found = of_shell("python3 a.py --lr $1 --epochs \"${2:-10}\"\n");
        let expected = [entry("lr", Style::Position, "", Json::Null), entry("epochs", Style::Position, "", 10)];
        assert_eq!((found.source, shown(&found)), (Source::Places, expected.to_vec()));
        let found = of_shell("export LR=${LR:-0.1}\nOUT=out\nBATCH=\"${BATCH:-32}\"\n");
        let expected = json!(["LR", "BATCH"]);
        assert_eq!(
            json!(found.parameters.iter().map(|parameter| parameter.name.as_str()).collect::<Vec<_>>()),
            expected
        );
        assert_eq!(found.source, Source::Environment);
        assert_eq!(of_shell("echo loss=2\n").source, Source::None);
    }
}
