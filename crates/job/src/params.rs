//! Declaring a task's parameters once: validation, keys, documentation and the typed struct follow from one declaration
//! of type, range, unit, default and text.

mod typed;

use std::{fmt, path::Component};

use crate::{
    units::{parse_bytes, parse_seconds},
    value::{self, Spelling, Value},
};

pub use typed::{Folder, Group, Inside, ParamType, Path, Scalar, Variable, first};
pub(crate) use typed::{choice, params};

/// One declared parameter.
#[derive(Debug, Clone, Copy)]
pub struct Param {
    /// Name in a recipe's `with`.
    pub name: &'static str,
    /// Accepted values.
    pub kind: Kind,
    /// If true, `null` is accepted and means "not given".
    pub nullable: bool,
    /// Inclusive bounds of a number.
    pub bounds: Option<Bounds>,
    /// Unit of a number.
    pub unit: Option<&'static str>,
    /// If true, it is not part of the key, because it cannot change the result.
    pub cosmetic: bool,
    /// Meaning.
    pub doc: &'static str,
    /// Value if a step does not give one.
    pub default: fn() -> Value,
}

/// The values that a parameter accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `true` or `false`.
    Bool,
    /// A whole number.
    Int,
    /// A finite number.
    Float,
    /// Any text.
    Text,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// An input file or folder, whose content is part of the key, or one of these names of built-in inputs.
    Path(&'static [&'static str]),
    /// A folder, whose content is not part of the key.
    Folder,
    /// Text, a number, `true` or `false`, converted to text that can be passed to a program.
    Scalar,
    /// A scalar, or `{ from: NAME }` for the value of an environment variable when the job runs.
    Variable,
    /// A relative path that stays in the job's folder.
    Inside,
    /// A list of these.
    List(&'static Kind),
    /// A map from names to these.
    Map(&'static Kind),
    /// Any value, nested too. In keys, equal numbers have one form: `2.0` becomes `2`.
    Any,
    /// A map or a list as the second kind accepts it, any other value as the first does.
    Either(&'static Kind, &'static Kind),
}

/// The minimum and maximum of accepted numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    /// Minimum, inclusive.
    pub min: f64,
    /// Maximum, inclusive.
    pub max: f64,
}

/// A value that a parameter does not accept.
#[derive(Debug, Clone, PartialEq)]
pub enum ParamError {
    /// The value has another type.
    Type {
        /// The accepted values.
        expected: String,
        /// The given value.
        found: Value,
    },
    /// The number is too small or too large.
    Range {
        /// The accepted values.
        bounds: Bounds,
        /// The given value.
        found: Value,
    },
    /// The word is not one of those accepted.
    Choice {
        /// The accepted words.
        allowed: &'static [&'static str],
        /// The given value.
        found: String,
    },
    /// The result of a needed job has another kind.
    Result {
        /// The accepted values.
        expected: String,
        /// Its kind.
        found: &'static str,
    },
    /// The path leaves the job's folder, or names the folder itself.
    Outside {
        /// The given value.
        found: String,
    },
    /// The text has a NUL character, which terminates an argument of a program.
    Nul,
    /// The text is longer than the kernel allows for an argument.
    Long {
        /// Its length, in bytes.
        bytes: usize,
    },
    /// A part of a list or of a map is not accepted.
    Part {
        /// The part.
        part: Part,
        /// Its error.
        error: Box<ParamError>,
    },
}

/// A part of a list or of a map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// The item with this index.
    Item(usize),
    /// The value of this key.
    Key(String),
}

impl Kind {
    /// Converts a value to this kind's form, with numbers for a program in a spelling. If it is `nullable`, a mismatch
    /// mentions `null`.
    fn check(self, value: &Value, nullable: bool, spelling: Spelling) -> Result<Value, ParamError> {
        let mismatch = || ParamError::Type {
            expected: if nullable { format!("{self} or `null`") } else { self.to_string() },
            found: value.clone(),
        };
        Ok(match (self, value) {
            (Self::Bool, Value::Bool(_)) | (Self::Int, Value::Int(_)) => value.clone(),
            (Self::Scalar | Self::Variable, Value::Text(text)) => {
                passable(text)?;
                value.clone()
            }
            (Self::Int, Value::Float(float)) => Value::Int(whole(*float).ok_or_else(mismatch)?),
            (Self::Float, Value::Int(int)) => Value::Float(*int as f64),
            // `+ 0.0` turns -0.0 into 0.0.
            (Self::Float, Value::Float(float)) if float.is_finite() => Value::Float(float + 0.0),
            (Self::Text | Self::Path(_) | Self::Folder, Value::Text(text)) if !text.is_empty() => value.clone(),
            (Self::Choice(allowed), Value::Text(text)) => chosen(allowed, text.clone())?,
            // YAML reads some words as numbers.
            (Self::Choice(allowed), Value::Int(int)) if allowed.iter().any(|word| is_number(word)) => {
                chosen(allowed, int.to_string())?
            }
            (Self::Scalar | Self::Variable, Value::Int(_) | Value::Float(_) | Value::Bool(_)) => {
                Value::Text(value.spelled(spelling))
            }
            (Self::Variable, Value::Map(_)) if inherited(value).is_some() => value.clone(),
            (Self::Inside, Value::Text(text)) => {
                Value::Text(inside(text).ok_or_else(|| ParamError::Outside { found: text.clone() })?)
            }
            (Self::List(kind), Value::List(items)) => {
                let items = items.iter().enumerate();
                let items = items.map(|(index, item)| kind.check_part(item, spelling, || Part::Item(index)));
                Value::List(items.collect::<Result<_, _>>()?)
            }
            (Self::Map(kind), Value::Map(entries)) => {
                let entries = entries.iter().map(|(key, value)| {
                    let checked = kind.check_part(value, spelling, || Part::Key(key.clone()))?;
                    Ok((key.clone(), checked))
                });
                Value::Map(entries.collect::<Result<_, ParamError>>()?)
            }
            (Self::Any, value) => match (canonical(value).ok_or_else(mismatch)?, spelling) {
                (canonical, Spelling::Canonical) => canonical,
                (_, Spelling::Written) => value.clone(),
            },
            (Self::Either(_, nested), Value::Map(_) | Value::List(_)) if nested.nests_as(value) => {
                nested.check(value, nullable, spelling)?
            }
            (Self::Either(plain, _), Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::Text(_)) => {
                // The error names both forms.
                plain.check(value, nullable, spelling).map_err(|error| match error {
                    ParamError::Type { .. } => mismatch(),
                    other => other,
                })?
            }
            _ => return Err(mismatch()),
        })
    }

    /// True if a value is of the shape of this kind: a map or a list.
    fn nests_as(self, value: &Value) -> bool {
        match self {
            Self::Either(plain, nested) => plain.nests_as(value) || nested.nests_as(value),
            Self::Map(_) => matches!(value, Value::Map(_)),
            Self::List(_) => matches!(value, Value::List(_)),
            Self::Any => true,
            _ => false,
        }
    }

    fn check_part(self, value: &Value, spelling: Spelling, part: impl Fn() -> Part) -> Result<Value, ParamError> {
        let checked = self.check(value, false, spelling);
        checked.map_err(|error| ParamError::Part { part: part(), error: Box::new(error) })
    }

    /// The plural, for the description of a list.
    fn plural(self) -> String {
        match self {
            Self::Text => "texts".into(),
            Self::Scalar => "texts and numbers".into(),
            Self::Variable => "texts, numbers and `{ from: NAME }`".into(),
            Self::Path([]) => "paths".into(),
            Self::Inside => "paths inside the job's folder".into(),
            Self::Any => "any values".into(),
            other => format!("values, each {other}"),
        }
    }
}

/// The form that equal values share: whole numbers are integers, and zero has no sign. `None` for a number that JSON does
/// not have.
fn canonical(value: &Value) -> Option<Value> {
    Some(match value {
        Value::Float(float) if !float.is_finite() => return None,
        Value::Float(float) => value::exact(*float).map_or(Value::Float(*float), Value::Int),
        Value::List(items) => Value::List(items.iter().map(canonical).collect::<Option<_>>()?),
        Value::Map(entries) => {
            let entries = entries.iter().map(|(key, value)| Some((key.clone(), canonical(value)?)));
            Value::Map(entries.collect::<Option<_>>()?)
        }
        other => other.clone(),
    })
}

/// `word`, if it is one of `allowed`.
fn chosen(allowed: &'static [&'static str], word: String) -> Result<Value, ParamError> {
    if allowed.contains(&word.as_str()) {
        Ok(Value::Text(word))
    } else {
        Err(ParamError::Choice { allowed, found: word })
    }
}

/// The longest argument of a program, in bytes, without the terminating NUL (`MAX_ARG_STRLEN`).
pub(crate) const MAX_ARGUMENT_BYTES: usize = (128 << 10) - 1;

/// Checks that a program can get a text as an argument or in its environment.
pub(crate) fn passable(text: &str) -> Result<(), ParamError> {
    match text.len() {
        _ if text.contains('\0') => Err(ParamError::Nul),
        bytes if bytes > MAX_ARGUMENT_BYTES => Err(ParamError::Long { bytes }),
        _ => Ok(()),
    }
}

/// True for a valid name of an environment variable.
pub(crate) fn is_variable(name: &str) -> bool {
    let mut chars = name.chars();
    chars.next().is_some_and(|char| char.is_ascii_alphabetic() || char == '_')
        && chars.all(|char| char.is_ascii_alphanumeric() || char == '_')
}

/// The variable that `{ from: NAME }` names.
pub(crate) fn inherited(value: &Value) -> Option<&str> {
    let Value::Map(entries) = value else { return None };
    let name = entries.get("from").filter(|_| entries.len() == 1)?.as_text()?;
    is_variable(name).then_some(name)
}

/// True for the words of a choice that YAML reads as a number.
fn is_number(word: &str) -> bool {
    word.parse::<i64>().is_ok()
}

/// A normalized relative path; `None` if it leaves its folder or is empty.
fn inside(text: &str) -> Option<String> {
    let mut names = Vec::new();
    for component in std::path::Path::new(text).components() {
        match component {
            Component::Normal(name) => names.push(name.to_str()?),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    (!names.is_empty()).then(|| names.join("/"))
}

impl Bounds {
    /// The bounds of an inclusive range.
    pub const fn new(min: f64, max: f64) -> Self {
        Self { min, max }
    }
}

impl fmt::Display for Bounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.max == f64::MAX {
            write!(f, "at least {}", Value::Float(self.min))
        } else {
            write!(f, "from {} to {}", Value::Float(self.min), Value::Float(self.max))
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool => f.write_str("`true` or `false`"),
            Self::Int => f.write_str("an integer"),
            Self::Float => f.write_str("a number"),
            Self::Text => f.write_str("text"),
            Self::Choice(allowed) => write!(f, "one of {}", quoted(allowed)),
            Self::Path([]) => f.write_str("a path"),
            Self::Path(built_in) => write!(f, "a path or {}", quoted(built_in)),
            Self::Folder => f.write_str("the path of a folder"),
            Self::Scalar => f.write_str("text or a number"),
            Self::Variable => f.write_str("text, a number or `{ from: NAME }`"),
            Self::Inside => f.write_str("a path inside the job's folder"),
            Self::List(kind) => write!(f, "a list of {}", kind.plural()),
            Self::Map(kind) => write!(f, "a map from names to {}", kind.plural()),
            Self::Any => f.write_str("any value"),
            Self::Either(plain, nested) => write!(f, "{plain}, or {nested}"),
        }
    }
}

impl fmt::Display for ParamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Type { expected, found: Value::Null } => write!(f, "expected {expected}, found null"),
            Self::Type { expected, found } => write!(f, "expected {expected}, found {} `{found}`", found.kind()),
            Self::Result { expected, found } => write!(f, "expected {expected}, found {found}"),
            Self::Range { bounds, found } => write!(f, "{found} is out of range: {bounds}"),
            Self::Choice { allowed, found } => write!(f, "`{found}` is not one of {}", quoted(allowed)),
            Self::Outside { found } => {
                write!(f, "expected {}, found `{found}`: write a relative path without `..`", Kind::Inside)
            }
            Self::Nul => f.write_str("a text with a NUL character cannot be passed to a program"),
            Self::Long { bytes } => write!(
                f,
                "a text of {bytes} bytes exceeds the limit of {MAX_ARGUMENT_BYTES} bytes for an argument: write it to a file, and list the file in `inputs`"
            ),
            Self::Part { part, error } => write!(f, "{part}: {error}"),
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Item(index) => write!(f, "item {}", index + 1),
            Self::Key(key) => write!(f, "`{key}`"),
        }
    }
}

impl Param {
    /// The accepted values, as a phrase: "an integer from 1 to 1024, tokens".
    pub fn accepts(&self) -> String {
        let bounds = self.bounds.map(|bounds| format!(" {bounds}")).unwrap_or_default();
        let unit = match self.unit {
            Some("s") => ", s, or a span of time such as `1h30m`".to_owned(),
            Some("B") => ", bytes, or a size such as `4GiB`".to_owned(),
            Some(unit) => format!(", {unit}"),
            None => String::new(),
        };
        format!("{}{bounds}{unit}", self.kind)
    }

    /// A number that is written with a unit, in the parameter's unit: `1h30m` in seconds, `4GiB` in bytes.
    fn in_units(&self, value: &Value) -> Option<Value> {
        let text = value.as_text()?;
        match (self.unit, self.kind) {
            (Some("s"), Kind::Float) => parse_seconds(text).ok().map(Value::Float),
            (Some("B"), Kind::Int) => i64::try_from(parse_bytes(text).ok()?).ok().map(Value::Int),
            _ => None,
        }
    }

    /// Converts a value to this parameter's canonical form: `3` for a float parameter becomes `3.0`, so that both
    /// spellings give the same key.
    pub fn check(&self, value: &Value) -> Result<Value, ParamError> {
        self.spelled(value, Spelling::Canonical)
    }

    /// Converts a value like [`check`](Self::check), with numbers for a program in the given spelling.
    pub fn spelled(&self, value: &Value, spelling: Spelling) -> Result<Value, ParamError> {
        if self.nullable && matches!(value, Value::Null) {
            return Ok(Value::Null);
        }
        let checked = match self.in_units(value) {
            Some(number) => number,
            None => self.kind.check(value, self.nullable, spelling)?,
        };
        if let (Some(bounds), Some(number)) = (self.bounds, checked.as_f64())
            && !(bounds.min..=bounds.max).contains(&number)
        {
            return Err(ParamError::Range { bounds, found: checked });
        }
        Ok(checked)
    }
}

/// `2e3` is a whole number, `2.5` and `1e300` are not.
fn whole(float: f64) -> Option<i64> {
    #[expect(clippy::cast_possible_truncation, reason = "guarded: below 2^53 every whole f64 is exact in i64")]
    (float.fract() == 0.0 && float.abs() < 9_007_199_254_740_992.0).then_some(float as i64)
}

fn quoted(words: &[&str]) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::Text(text.into())
    }

    #[test]
    fn numbers_with_units_are_numbers() {
        let seconds = Param {
            name: "seconds",
            kind: Kind::Float,
            nullable: false,
            bounds: Some(Bounds::new(0.0, 7200.0)),
            unit: Some("s"),
            cosmetic: false,
            doc: "",
            default: || Value::Float(0.0),
        };
        assert_eq!(seconds.check(&text("1h30m")), Ok(Value::Float(5400.0)));
        assert_eq!(seconds.check(&Value::Int(90)), seconds.check(&text("1.5m")), "the same value, and the same key");
        assert!(matches!(seconds.check(&text("3h")), Err(ParamError::Range { .. })));
        assert!(matches!(seconds.check(&text("30 minuten")), Err(ParamError::Type { .. })));
        let bytes = Param { kind: Kind::Int, unit: Some("B"), bounds: None, ..seconds };
        assert_eq!(bytes.check(&text("4 GiB")), Ok(Value::Int(4 << 30)));
    }

    #[test]
    fn paths_inside_a_folder_have_one_spelling_and_no_way_out() {
        for (written, kept) in [("a", "a"), ("./a//b/", "a/b"), ("a/./b", "a/b"), ("..a", "..a")] {
            assert_eq!(inside(written).as_deref(), Some(kept), "{written}");
        }
        for written in ["", ".", "./", "/a", "..", "a/../b", "a/.."] {
            assert_eq!(inside(written), None, "{written}");
        }
    }

    #[test]
    fn items_become_text_and_a_mistake_says_which_one() {
        let kind = <Vec<Scalar> as ParamType>::KIND;
        let check = |value: &Value| kind.check(value, false, Spelling::Canonical);
        let items = Value::List(vec![text("a"), Value::Float(6e-4), Value::Int(3), Value::Bool(true), text("")]);
        let texts = Value::List(["a", "0.0006", "3", "true", ""].map(text).into());
        assert_eq!(check(&items), Ok(texts));
        let written = kind.check(&Value::List(vec![Value::Float(2.0), Value::Float(-1e-5)]), false, Spelling::Written);
        assert_eq!(written, Ok(Value::List(["2.0", "-0.00001"].map(text).into())));
        let error = check(&Value::List(vec![text("a"), Value::Null])).unwrap_err();
        assert_eq!(error.to_string(), "item 2: expected text or a number, found null");
        let error = check(&text("a b")).unwrap_err();
        assert_eq!(error.to_string(), "expected a list of texts and numbers, found text `a b`");
    }
}
