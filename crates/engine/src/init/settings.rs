//! Files of settings: an axis that names a key of a file among the arguments of a program gets its values in a copy of this file.
//!
//! A shell writes the copy next to the file of the job's parameters before it starts the program. A copy of YAML or JSON has every
//! other byte of the file. Where a value cannot be replaced alone, the program gets its settings as JSON, in the file of the job's
//! parameters. A copy of TOML is written anew.

mod document;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde_json::{Value as Json, json};

use self::document::Document;
pub(super) use self::document::Values;
use super::{Found, InitError, Script, Style, Wish, forms, scalar};

/// Maximum size of a file, in bytes.
const MAX_SIZE: u64 = 1 << 20;
/// Maximum size of a text that is an argument, in bytes.
const MAX_COPY: usize = 100_000;

/// A file of settings among the arguments.
pub(super) struct Settings {
    /// The place of the argument.
    at: usize,
    /// The text of the argument before the path: `--config=`.
    before: String,
    values: Json,
    text: String,
    /// The extension of the file.
    extension: String,
    /// The first value on which readers of YAML do not agree: the file, the line, and the value.
    ambiguous: Option<(PathBuf, usize, String)>,
}

/// A command that gets a copy of a file of settings.
pub(super) struct Copied {
    /// The program and its arguments.
    pub(super) argv: Vec<String>,
    /// The place of the text of the copy among them, if a shell writes it.
    pub(super) text: Option<usize>,
    /// The settings as `params` in YAML, if the program gets them so.
    pub(super) params: Option<String>,
}

impl Settings {
    /// The file that has the keys of these axes.
    pub(super) fn of(argv: &[String], folder: &Path, axes: &[&str]) -> Option<Self> {
        argv.iter().enumerate().find_map(|(at, argument)| {
            let (before, path) = match argument.split_once('=') {
                Some((name, path)) if name.starts_with('-') => (format!("{name}="), path),
                _ => (String::new(), argument.as_str()),
            };
            let (values, text, extension) = read(&folder.join(path))?;
            let ambiguous = if extension == TOML { None } else { ambiguous(&text) };
            let ambiguous = ambiguous.map(|(line, value)| (path.into(), line, value));
            let has_all = axes.iter().all(|axis| has(&values, axis));
            has_all.then_some(Self { at, before, values, text, extension, ambiguous })
        })
    }

    /// The keys of all values, as paths.
    pub(super) fn keys(&self) -> Vec<String> {
        let mut keys = Vec::new();
        add_keys("", &self.values, &mut keys);
        keys
    }

    /// Refuses a file whose copy could differ in more than the axis `name`.
    fn check(&self, name: &str) -> Result<(), InitError> {
        match &self.ambiguous {
            Some((file, line, value)) => Err(InitError::Ambiguous {
                file: file.clone(),
                line: *line,
                value: value.clone(),
                name: name.to_owned(),
            }),
            None => Ok(()),
        }
    }

    /// The key of the seed: one without a path above all others.
    pub(super) fn seed(&self) -> Option<String> {
        let keys = self.values.as_object()?;
        keys.keys().find(|key| forms::is_seed_name(key)).cloned()
    }

    /// The command, which gets a copy in the place of the file, in which keys have other values: each with its expression and the
    /// kind of its values.
    pub(super) fn command(
        &self,
        argv: &[String],
        replaced: &BTreeMap<String, (String, Values)>,
    ) -> Result<Copied, InitError> {
        let name = replaced.keys().next().cloned().unwrap_or_default();
        let error = || InitError::Settings { name: name.clone() };
        if self.text.contains("${{") {
            return Err(error());
        }
        let expressions = || replaced.iter().map(|(key, (text, _))| (key.clone(), text.clone())).collect();
        let copy = match self.extension.as_str() {
            TOML => Some(toml_text(&self.values, replaced).ok_or_else(error)?),
            _ if self.text.len() > MAX_COPY => None,
            _ => Document::of(&self.text, self.extension == "json").and_then(|document| document.with(replaced)),
        };
        if let Some(copy) = copy {
            return Ok(Copied { argv: self.with_file(argv, Some(copy)), text: Some(FIRST_ARGUMENT), params: None });
        }
        self.check(&name)?;
        let params = flow(&self.values, "", &expressions()).ok_or_else(error)?;
        Ok(Copied { argv: self.with_file(argv, None), text: None, params: Some(params) })
    }

    /// The command with another file: a file that a shell writes with the text `copy`, or the file with the job's parameters.
    fn with_file(&self, argv: &[String], copy: Option<String>) -> Vec<String> {
        let path = format!("${{SWEEP_PARAMS%/*}}/settings.{}", self.extension);
        let (file, first_number) = if copy.is_some() { (path.as_str(), 2) } else { ("$SWEEP_PARAMS", 1) };
        let mut words = Vec::new();
        let mut number = first_number;
        for index in 0..argv.len() {
            if index == self.at {
                words.push(format!("{}\"{file}\"", self.before));
            } else {
                words.push(format!("\"${{{number}}}\""));
                number += 1;
            }
        }
        let write = if copy.is_some() { format!("printf %s \"$1\" > \"{path}\" && ") } else { String::new() };
        let script = format!("{write}exec {}", words.join(" "));
        let mut command = vec!["sh".to_owned(), "-c".to_owned(), script, "sh".to_owned()];
        command.extend(copy);
        command.extend(argv.iter().enumerate().filter(|(index, _)| *index != self.at).map(|(_, word)| word.clone()));
        command
    }
}

/// The place of the first argument of the script among the words of `sh -c SCRIPT sh ARGUMENT`.
const FIRST_ARGUMENT: usize = 4;
/// The extension of a file of TOML.
const TOML: &str = "toml";

/// The keys of the files of settings among the arguments that are like a name.
pub(super) fn keys_like(argv: &[String], folder: &Path, name: &str) -> Option<String> {
    let keys = Settings::of(argv, folder, &[])?.keys();
    crate::recipe::suggest(name, "its keys", keys.iter().map(String::as_str))
}

fn add_keys(path: &str, value: &Json, to: &mut Vec<String>) {
    let inner = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    match value {
        Json::Object(entries) if !entries.is_empty() && value.get(DATE).is_none() => {
            entries.iter().for_each(|(key, value)| add_keys(&inner(key), value, to));
        }
        Json::Array(items) if items.iter().any(Json::is_object) => {
            items.iter().enumerate().for_each(|(at, value)| add_keys(&inner(&at.to_string()), value, to));
        }
        _ => to.push(path.to_owned()),
    }
}

/// The command line of a script that takes the axes from a file of settings: one of its arguments, or the default of an option.
pub fn by_settings(script: &Script, found: &Found, wish: &Wish) -> Option<Vec<String>> {
    let normal_form = |name: &str| name.replace(['-', '.'], "_").to_ascii_lowercase();
    let is_parameter =
        |axis: &str| found.parameters.iter().any(|parameter| normal_form(&parameter.name) == normal_form(axis));
    let axes: Vec<&str> = wish.axes.iter().map(|(axis, _)| axis.as_str()).collect();
    if axes.is_empty() || axes.iter().any(|axis| is_parameter(axis)) {
        return None;
    }
    let mut argv = script.argv();
    argv.extend(script.arguments.iter().cloned());
    if Settings::of(&argv, &script.folder, &axes).is_some() {
        return Some(argv);
    }
    let options =
        found.parameters.iter().filter(|parameter| parameter.style == Style::Value && parameter.default.is_string());
    options.filter_map(|parameter| Some((parameter, parameter.default.as_str()?))).find_map(|(parameter, path)| {
        let argv: Vec<String> = argv.iter().cloned().chain([format!("--{}={path}", parameter.name)]).collect();
        Settings::of(&argv, &script.folder, &axes).is_some().then_some(argv)
    })
}

/// A line, from 1, and its value on which readers of YAML do not agree.
type Ambiguous = (usize, String);

/// The object in a file of YAML, JSON or TOML, its text, and its extension.
fn read(path: &Path) -> Option<(Json, String, String)> {
    let extension = path.extension()?.to_str()?;
    let is_settings = [TOML, "yaml", "yml", "json"].contains(&extension);
    let is_small = is_settings && fs_err::metadata(path).is_ok_and(|file| file.is_file() && file.len() <= MAX_SIZE);
    let text = if is_small { fs_err::read_to_string(path).ok()? } else { return None };
    let values = if extension == TOML {
        of_toml(toml::Value::Table(toml::from_str(&text).ok()?))
    } else {
        serde_saphyr::from_str::<Json>(&text).ok()?
    };
    values.is_object().then(|| (values, text, extension.to_owned()))
}

/// The first unquoted value in a text of YAML that its versions 1.1 and 1.2 read differently, or that JSON does not have, with its line.
fn ambiguous(text: &str) -> Option<Ambiguous> {
    text.lines().enumerate().find_map(|(index, line)| {
        let words = without_quoted(line);
        let found = words.split([' ', '\t', ',', '[', ']', '{', '}']).find(|word| is_ambiguous(word))?;
        Some((index + 1, found.trim_end_matches(':').to_owned()))
    })
}

/// A line without its comment and its quoted texts.
fn without_quoted(line: &str) -> String {
    let (mut kept, mut quote, mut before) = (String::new(), None, ' ');
    for char in line.chars() {
        match quote {
            Some(open) if char == open => quote = None,
            Some(_) => {}
            None if matches!(char, '"' | '\'') && !before.is_alphanumeric() => quote = Some(char),
            None if char == '#' && before.is_whitespace() => break,
            None => kept.push(char),
        }
        before = char;
    }
    kept
}

/// True for an octal or a sexagesimal number, a date, an integer beyond 64 bits, `y` and `n`, a key that is a number, and a merge.
fn is_ambiguous(word: &str) -> bool {
    let (value, is_key) = word.strip_suffix(':').map_or((word, false), |key| (key, true));
    let digits = value.trim_start_matches(['-', '+']);
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let are_parts = |separator: char, least: usize| {
        let parts: Vec<&str> = digits.split(separator).collect();
        parts.len() >= least && parts.iter().all(|part| is_digits(part))
    };
    let is_octal = is_digits(digits) && digits.len() > 1 && digits.starts_with('0');
    let is_large = is_digits(digits) && digits.parse::<i64>().is_err();
    let is_word = matches!(value, "y" | "n" | "Y" | "N") && !is_key || value == "<<";
    let is_date = are_parts('-', 3) && digits.find('-') == Some(4);
    is_octal || is_large || is_word || is_key && is_digits(digits) || are_parts(':', 2) || is_date
}

/// The key of an object that represents a date or a time of TOML, which JSON does not have.
const DATE: &str = "$date";

fn of_toml(value: toml::Value) -> Json {
    match value {
        toml::Value::String(text) => Json::String(text),
        toml::Value::Integer(number) => Json::from(number),
        // JSON has no infinite numbers: they are written as in TOML.
        toml::Value::Float(number) if !number.is_finite() => json!({ DATE: number.to_string().to_ascii_lowercase() }),
        toml::Value::Float(number) => Json::from(number),
        toml::Value::Boolean(value) => Json::Bool(value),
        toml::Value::Datetime(date) => json!({ DATE: date.to_string() }),
        toml::Value::Array(values) => Json::Array(values.into_iter().map(of_toml).collect()),
        toml::Value::Table(values) => {
            Json::Object(values.into_iter().map(|(key, value)| (key, of_toml(value))).collect())
        }
    }
}

/// The settings as TOML, in which keys have the values of axes: those without tables, then each table in a line.
fn toml_text(values: &Json, replaced: &BTreeMap<String, (String, Values)>) -> Option<String> {
    let values = values.as_object()?;
    let is_inner = |value: &Json| value.is_object() && value.get(DATE).is_none();
    let (tables, plain_values): (Vec<_>, Vec<_>) = values.iter().partition(|(_, value)| is_inner(value));
    let lines = plain_values
        .into_iter()
        .chain(tables)
        .map(|(key, value)| Some(format!("{} = {}\n", Json::from(key.as_str()), toml_value(value, key, replaced)?)));
    lines.collect()
}

fn toml_value(value: &Json, path: &str, replaced: &BTreeMap<String, (String, Values)>) -> Option<String> {
    if let Some((text, values)) = replaced.get(path) {
        return match values {
            Values::Unquotable => None,
            // A text keeps its quotes.
            _ if value.is_string() => Some(format!("\"{text}\"")),
            Values::Texts => Some(format!("\"{text}\"")),
            Values::Mixed | Values::NullsOrMaps => None,
            Values::Numbers | Values::Exponents | Values::Others | Values::Generated => Some(text.clone()),
        };
    }
    Some(match value {
        Json::Null => return None,
        Json::String(text) if text.contains("${{") => return None,
        // A text of TOML has the escapes of one of JSON, and U+007F must be one.
        Json::String(text) => Json::from(text.as_str()).to_string().replace('\u{7f}', "\\u007f"),
        Json::Number(number) if number.is_f64() => scalar::float_text(number.as_f64()?),
        Json::Bool(_) | Json::Number(_) => value.to_string(),
        Json::Array(values) => {
            let item = |(at, item)| toml_value(item, &format!("{path}.{at}"), replaced);
            format!("[{}]", values.iter().enumerate().map(item).collect::<Option<Vec<_>>>()?.join(", "))
        }
        Json::Object(values) => match values.get(DATE).and_then(Json::as_str) {
            Some(date) => date.to_owned(),
            None => {
                let inner = values.iter().map(|(key, value)| {
                    let value = toml_value(value, &format!("{path}.{key}"), replaced)?;
                    Some(format!("{} = {value}", Json::from(key.as_str())))
                });
                format!("{{ {} }}", inner.collect::<Option<Vec<_>>>()?.join(", "))
            }
        },
    })
}

/// True if the settings have a value at a path such as `model.lr` or `layers.0.units`.
fn has(values: &Json, path: &str) -> bool {
    let value = path.split('.').try_fold(values, |values, key| match values {
        Json::Array(items) => items.get(key.parse::<usize>().ok()?),
        values => values.get(key),
    });
    value.is_some_and(|value| !value.is_object())
}

fn flow(value: &Json, path: &str, replaced: &BTreeMap<String, String>) -> Option<String> {
    if let Some(text) = replaced.get(path) {
        return Some(scalar::text(text));
    }
    if let Json::Array(items) = value {
        let item = |(at, item)| flow(item, &format!("{path}.{at}"), replaced);
        return Some(format!("[{}]", items.iter().enumerate().map(item).collect::<Option<Vec<_>>>()?.join(", ")));
    }
    let Json::Object(values) = value else { return scalar::yaml(value) };
    let inner = values.iter().map(|(key, value)| {
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        Some(format!("{}: {}", scalar::text(key), flow(value, &path, replaced)?))
    });
    let inner: Vec<String> = inner.collect::<Option<_>>()?;
    Some(if inner.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", inner.join(", ")) })
}
