//! Files of settings in YAML, JSON or TOML, and copies of them in which single values are replaced.
//!
//! A copy differs from its file only in these values. Where a value of YAML or JSON cannot be replaced alone, such as one below an alias,
//! the copy is JSON as a whole, which readers of YAML read, too, with the keys in the order of the file.

mod document;
mod toml;

use std::{collections::BTreeMap, io, path::Path};

use serde::Serialize;
use serde_json::{
    Value as Json,
    ser::{CompactFormatter, Formatter},
};
use serde_saphyr::{NonFiniteFloatPolicy, Options};
use sweep_job::Value;

use self::document::Document;

/// Maximum size of a file, in bytes.
const MAX_SIZE: u64 = 1 << 20;
/// The key of a date in values that were read from TOML.
const DATE: &str = "$__toml_private_datetime";

/// A file of settings.
#[derive(Debug, Clone)]
pub struct Settings {
    text: String,
    kind: Kind,
    values: Json,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Yaml,
    Json,
    Toml,
}

/// Reason why a file of settings has no copy with other values.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The extension is not that of a known format.
    #[error("the name of a settings file ends in `.yaml`, `.yml`, `.json` or `.toml`")]
    Extension,
    /// The file cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The file has more than 1 MiB.
    #[error("the file of settings has {0} bytes, {max} at most", max = MAX_SIZE)]
    Large(u64),
    /// The text is not valid, or not a map.
    #[error("the file of settings cannot be read: {0}")]
    Invalid(String),
    /// The file has no such key.
    #[error("the file of settings has no `{0}`")]
    NoKey(String),
    /// The key has a section, or the value has no place that can be replaced.
    #[error("`{0}` of the file of settings is a section, or its value cannot be replaced")]
    Fixed(String),
    /// TOML has no null.
    #[error(
        "`{0}` cannot be `null`, which TOML does not have; leave the key out of the file, or give it another value"
    )]
    Null(String),
    /// Readers of YAML do not agree on a value.
    #[error(
        "line {line} of the file of settings has `{value}`, which readers of YAML take for different values, so that the copy with another \
         `{key}` could differ in it; put it into quotes if it is a text, or write it as a plain number"
    )]
    Ambiguous {
        /// The key whose value cannot be replaced alone.
        key: String,
        /// The line, from 1.
        line: usize,
        /// The value.
        value: String,
    },
}

impl SettingsError {
    fn fixed(key: &str) -> Self {
        Self::Fixed(key.to_owned())
    }
}

impl Settings {
    /// Reads a file.
    ///
    /// # Errors
    /// The file is not one of settings, is too large, or cannot be read.
    pub fn read(path: &Path) -> Result<Self, SettingsError> {
        let kind = match path.extension().and_then(|extension| extension.to_str()) {
            Some("yaml" | "yml") => Kind::Yaml,
            Some("json") => Kind::Json,
            Some("toml") => Kind::Toml,
            _ => return Err(SettingsError::Extension),
        };
        let invalid = |error: &dyn std::fmt::Display| SettingsError::Invalid(error.to_string());
        let metadata = fs_err::metadata(path)?;
        if !metadata.is_file() {
            // The read of a pipe would block until a writer opens it.
            return Err(invalid(&"it is not a regular file"));
        }
        if metadata.len() > MAX_SIZE {
            return Err(SettingsError::Large(metadata.len()));
        }
        let text = fs_err::read_to_string(path)?;
        let values = match kind {
            Kind::Toml => toml_edit::de::from_str::<Json>(&text).map_err(|error| invalid(&error))?,
            Kind::Yaml | Kind::Json => {
                serde_saphyr::from_str_with_options(&text, options()).map_err(|error| invalid(&error))?
            }
        };
        if !values.is_object() {
            return Err(invalid(&"it has no keys"));
        }
        Ok(Self { text, kind, values })
    }

    /// The keys of all values, as paths such as `model.lr` and `layers.0.units`.
    pub fn keys(&self) -> Vec<String> {
        let mut keys = Vec::new();
        add_keys("", &self.values, &mut keys);
        keys
    }

    /// The names on the first level.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.values.as_object().into_iter().flat_map(|values| values.keys().map(String::as_str))
    }

    /// The value of a key; `None` for a section.
    pub fn value(&self, key: &str) -> Option<&Json> {
        find(&self.values, key).filter(|value| !is_section(value))
    }

    /// The text of a copy in which keys have other values.
    ///
    /// # Errors
    /// The file lacks a key, or a value cannot be replaced.
    pub fn with(&self, replaced: &BTreeMap<String, Value>) -> Result<String, SettingsError> {
        if let Some(key) = replaced.keys().find(|key| self.value(key).is_none()) {
            let is_section = find(&self.values, key).is_some();
            return Err(if is_section { SettingsError::fixed(key) } else { SettingsError::NoKey(key.clone()) });
        }
        if self.kind == Kind::Toml {
            return toml::with(&self.text, replaced);
        }
        let invalid = |error: serde_json::Error| SettingsError::Invalid(error.to_string());
        let document = Document::of(&self.text);
        let text_of = |key: &str, value: &Value| match value {
            // Readers of YAML 1.1 take these words for booleans, in the file as in the copy.
            Value::Text(word) if is_boolean_word(word) && self.has_boolean(document.as_ref(), key) => Ok(word.clone()),
            value => json_and_yaml(value),
        };
        let texts = replaced.iter().map(|(key, value)| Ok((key.clone(), text_of(key, value)?)));
        let texts: BTreeMap<String, String> = texts.collect::<serde_json::Result<_>>().map_err(invalid)?;
        if let Some(copy) = document.as_ref().and_then(|document| document.with(&texts)) {
            return Ok(copy);
        }
        let key = replaced.keys().next().cloned().unwrap_or_default();
        if let Some((line, value)) = ambiguous(&self.text).filter(|_| self.kind == Kind::Yaml) {
            return Err(SettingsError::Ambiguous { key, line, value });
        }
        let mut values = self.values.clone();
        for (key, value) in replaced {
            let place = find_mut(&mut values, key).ok_or_else(|| SettingsError::fixed(key))?;
            *place = serde_json::to_value(value).map_err(invalid)?;
        }
        match document {
            Some(document) => json_and_yaml(&document.ordered(&values)),
            None => json_and_yaml(&values),
        }
        .map_err(invalid)
    }

    /// True if the value of a key of a YAML file is a boolean, or a word that readers of YAML 1.1 take for one.
    fn has_boolean(&self, document: Option<&Document<'_>>, key: &str) -> bool {
        let is_word = || document.and_then(|document| document.plain(key)).is_some_and(is_boolean_word);
        self.kind == Kind::Yaml && (self.value(key).is_some_and(Json::is_boolean) || is_word())
    }
}

/// True for the words besides `true` and `false` that are booleans in YAML 1.1, and texts in YAML 1.2.
fn is_boolean_word(word: &str) -> bool {
    ["on", "off", "yes", "no"].iter().any(|known| {
        let mut capitalized = (*known).to_owned();
        capitalized[..1].make_ascii_uppercase();
        word == *known || word == capitalized || word == known.to_ascii_uppercase()
    })
}

/// The options of the parser: `.inf` is a value.
fn options() -> Options {
    serde_saphyr::options! { non_finite_float_policy: NonFiniteFloatPolicy::PassThrough, with_snippet: false }
}

/// The rest of a path behind a key, which is empty for the key itself; `None` for another key.
fn rest<'p>(path: &'p str, key: &str) -> Option<&'p str> {
    let rest = path.strip_prefix(key)?;
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix('.') }
}

fn is_section(value: &Json) -> bool {
    value.as_object().is_some_and(|entries| !entries.is_empty() && !entries.contains_key(DATE))
}

fn find<'v>(values: &'v Json, path: &str) -> Option<&'v Json> {
    let inner = |value: &'v Json, key: &str| match rest(path, key)? {
        "" => Some(value),
        rest => find(value, rest),
    };
    match values {
        Json::Object(entries) => entries.iter().find_map(|(key, value)| inner(value, key)),
        Json::Array(items) => items.iter().enumerate().find_map(|(at, value)| inner(value, &at.to_string())),
        _ => None,
    }
}

fn find_mut<'v>(values: &'v mut Json, path: &str) -> Option<&'v mut Json> {
    let inner = |value: &'v mut Json, key: &str| match rest(path, key)? {
        "" => Some(value),
        rest => find_mut(value, rest),
    };
    match values {
        Json::Object(entries) => entries.iter_mut().find_map(|(key, value)| inner(value, key)),
        Json::Array(items) => items.iter_mut().enumerate().find_map(|(at, value)| inner(value, &at.to_string())),
        _ => None,
    }
}

fn add_keys(path: &str, value: &Json, to: &mut Vec<String>) {
    let inner = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    match value {
        Json::Object(entries) if is_section(value) => {
            entries.iter().for_each(|(key, value)| add_keys(&inner(key), value, to));
        }
        Json::Array(items) if items.iter().any(Json::is_object) => {
            items.iter().enumerate().for_each(|(at, value)| add_keys(&inner(&at.to_string()), value, to));
        }
        _ => to.push(path.to_owned()),
    }
}

/// A value as JSON that is YAML with the same values, also for readers of YAML 1.1: these take `1e-7` and `1.0e22` for texts, and refuse
/// control characters.
///
/// # Errors
/// The value has a map whose keys are not texts.
pub fn json_and_yaml(value: &impl Serialize) -> serde_json::Result<String> {
    let mut text = Vec::new();
    value.serialize(&mut serde_json::Serializer::with_formatter(&mut text, Portable))?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

struct Portable;

impl Formatter for Portable {
    fn write_f64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        let mut text = Vec::new();
        CompactFormatter.write_f64(&mut text, value)?;
        let text = String::from_utf8_lossy(&text);
        let Some((mantissa, exponent)) = text.split_once('e') else { return writer.write_all(text.as_bytes()) };
        let point = if mantissa.contains('.') { "" } else { ".0" };
        let sign = if exponent.starts_with(['-', '+']) { "" } else { "+" };
        write!(writer, "{mantissa}{point}e{sign}{exponent}")
    }

    fn write_string_fragment<W: ?Sized + io::Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        for char in fragment.chars() {
            if char.is_control() {
                write!(writer, "\\u{:04x}", u32::from(char))?;
            } else {
                write!(writer, "{char}")?;
            }
        }
        Ok(())
    }
}

/// The first unquoted value in a text of YAML that its versions 1.1 and 1.2 read differently, or that JSON does not have, with its line
/// from 1.
fn ambiguous(text: &str) -> Option<(usize, String)> {
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

/// True for an octal or a sexagesimal number, a date, an integer beyond 64 bits, an infinite number, `y` and `n`, a key that is a number,
/// and a merge.
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
    let is_infinite = matches!(digits.to_ascii_lowercase().as_str(), ".inf" | ".nan");
    is_octal || is_large || is_word || is_key && is_digits(digits) || are_parts(':', 2) || is_date || is_infinite
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copy(name: &str, text: &str, values: &[(&str, Value)]) -> Result<String, SettingsError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        fs_err::write(&path, text).unwrap();
        let values = values.iter().map(|(key, value)| ((*key).to_owned(), value.clone()));
        Settings::read(&path)?.with(&values.collect())
    }

    #[test]
    fn numbers_are_numbers_of_json_and_of_yaml() {
        let values = [1e-7, 1e22, 2.5e-9, 0.5, -1e300, 3.0];
        let text = json_and_yaml(&values).unwrap();
        assert_eq!(text, "[1.0e-7,1.0e+22,2.5e-9,0.5,-1.0e+300,3.0]");
        assert_eq!(serde_json::from_str::<Vec<f64>>(&text).unwrap(), values);
        assert_eq!(json_and_yaml(&"a\u{7f}\u{85}\n\"é").unwrap(), r#""a\u007f\u0085\n\"é""#);
    }

    #[test]
    fn copies_keep_what_is_not_replaced() {
        let text = |text: &str| Value::Text(text.to_owned());
        let map = Value::Map(BTreeMap::from([("a".to_owned(), Value::Int(1))]));
        for (name, original, key, value, expected) in [
            ("a.yaml", "lr: 1.0 # rate\n", "lr", Value::Float(1e-7), "lr: 1.0e-7 # rate\n"),
            ("a.yml", "m: {s: 'x'}\n", "m.s", text("a\\b\"c"), "m: {s: \"a\\\\b\\\"c\"}\n"),
            ("a.yaml", "s: |\n  one\n  two\nt: 1\n", "t", Value::Null, "s: |\n  one\n  two\nt: null\n"),
            ("a.yaml", "cap: .inf\nn: 1\n", "n", Value::Int(2), "cap: .inf\nn: 2\n"),
            ("a.yaml", "t: [1, 2]\n", "t", Value::List(vec![Value::Int(3)]), "t: [3]\n"),
            ("a.json", "{\"n\": 1.0}", "n", map.clone(), "{\"n\": {\"a\":1}}"),
            ("a.toml", "n = 1.0 # rate\n[m]\nx = 'a'\n", "m.x", text("a\\b"), "n = 1.0 # rate\n[m]\nx = 'a\\b'\n"),
            ("a.toml", "d = 2020-01-01\nn = 1\n", "n", Value::Bool(true), "d = 2020-01-01\nn = true\n"),
            ("a.toml", "d = 2020-01-01\n", "d", text("2021-02-03"), "d = 2021-02-03\n"),
            ("a.yaml", "amp: on\nx: 1\n", "amp", text("off"), "amp: off\nx: 1\n"),
            ("a.yaml", "amp: true\n", "amp", text("No"), "amp: No\n"),
            ("a.yaml", "amp: 'on'\n", "amp", text("off"), "amp: \"off\"\n"),
            ("a.json", "{\"amp\": true}", "amp", text("off"), "{\"amp\": \"off\"}"),
        ] {
            assert_eq!(copy(name, original, &[(key, value)]).unwrap(), expected, "{original}");
        }
        // A value below an alias.
        let aliased = "b: &b {u: 1}\nc: *b\n";
        assert_eq!(copy("a.yaml", aliased, &[("c.u", Value::Int(2))]).unwrap(), r#"{"b":{"u":1},"c":{"u":2}}"#);
        let ordered = "layers:\n  conv: 8\n  relu: 1\n  fc: [{z: 1, a: 2}]\nnote: |\n  some text\n";
        assert_eq!(
            copy("a.yaml", ordered, &[("note", text("a"))]).unwrap(),
            r#"{"layers":{"conv":8,"relu":1,"fc":[{"z":1,"a":2}]},"note":"a"}"#
        );
        assert_eq!(
            copy("a.yaml", &format!("amp: on\n{aliased}"), &[("c.u", Value::Int(2))]).unwrap(),
            r#"{"amp":true,"b":{"u":1},"c":{"u":2}}"#
        );
        let error = copy("a.yaml", &format!("{aliased}mode: 010\n"), &[("c.u", Value::Int(2))]).unwrap_err();
        assert!(matches!(error, SettingsError::Ambiguous { line: 3, .. }), "{error}");
    }

    #[test]
    fn files_that_have_no_such_copy_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("a.yaml");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        assert!(matches!(Settings::read(&pipe), Err(SettingsError::Invalid(_))), "a pipe");
        for (name, original, key, value) in [
            ("a.txt", "lr: 1\n", "lr", Value::Int(1)),
            ("a.yaml", "- 1\n", "0", Value::Int(1)),
            ("a.yaml", "lr: [\n", "lr", Value::Int(1)),
            ("a.yaml", "m: {lr: 1}\n", "lr", Value::Int(1)),
            ("a.yaml", "m: {lr: 1}\n", "m", Value::Int(1)),
            ("a.toml", "lr = 1\n", "lr", Value::Null),
            ("a.toml", "lr = \n", "lr", Value::Int(1)),
            ("a.yaml", "s: |\n  one\nt: &t 1\nu: *t\n", "u.x", Value::Int(1)),
        ] {
            copy(name, original, &[(key, value)]).unwrap_err();
        }
    }
}
