//! Shapes of values: each has a reader, a schema and a description of the accepted values.

use std::{marker::PhantomData, ops::RangeInclusive, time::Duration};

use serde_json::{Value as Json, json};
use sweep_job::{
    Unit, Value,
    units::{UnitError, parse_bytes, parse_quantity, parse_seconds},
};

use super::Mapping;
use crate::recipe::{
    lower::Lower,
    node::{Node, NodeKind},
    problem::suggest,
    schema::{QUANTITY, SIZE, SPAN_OF_TIME, reference, whole},
    source::Spanned,
};

/// The shape of a key's value.
pub(in crate::recipe) trait Shape {
    /// The type of the value.
    type Value;

    /// Reads the value of `key`; `None` after a mistake that has been reported.
    fn read(&self, lower: &mut Lower<'_>, node: &Node, key: &str) -> Option<Self::Value>;

    /// The schema of the value.
    fn schema(&self) -> Json;

    /// Description of the accepted values, in Markdown.
    fn accepts(&self) -> String;
}

/// A text.
pub(in crate::recipe) struct Text {
    pub(in crate::recipe) schema: fn() -> Json,
    pub(in crate::recipe) accepts: &'static str,
}

/// A list of texts, or one text.
pub(in crate::recipe) struct Texts {
    pub(in crate::recipe) schema: fn() -> Json,
    pub(in crate::recipe) accepts: &'static str,
}

/// A value whose meaning depends on its context. The code that knows the context reads it.
pub(in crate::recipe) struct Custom {
    pub(in crate::recipe) schema: fn() -> Json,
    pub(in crate::recipe) accepts: &'static str,
}

/// A nested mapping with declared keys. The code that knows its context reads it.
pub(in crate::recipe) struct Within<M>(PhantomData<M>);

/// `true` or `false`.
#[derive(Default)]
pub(in crate::recipe) struct Flag;

/// A whole number.
pub(in crate::recipe) struct Whole {
    pub(in crate::recipe) range: RangeInclusive<u32>,
    /// The counted things: `cores`.
    pub(in crate::recipe) of: &'static str,
}

/// A number.
#[derive(Default)]
pub(in crate::recipe) struct Number;

/// A number, which may have a unit.
#[derive(Default)]
pub(in crate::recipe) struct Quantity;

/// A number with the unit that is written behind it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::recipe) struct Amount {
    pub(in crate::recipe) value: f64,
    pub(in crate::recipe) unit: Option<Unit>,
}

/// A span of time with its unit.
pub(in crate::recipe) struct TimeSpan {
    /// True if zero is accepted.
    pub(in crate::recipe) zero: bool,
}

/// A size with its unit, in bytes.
#[derive(Default)]
pub(in crate::recipe) struct Size;

/// A word out of several, each with its meaning.
pub(in crate::recipe) struct Word<T: 'static>(pub(in crate::recipe) &'static [(&'static str, T)]);

/// A known word, or a list of them.
pub(in crate::recipe) struct Words<T: 'static>(pub(in crate::recipe) &'static [(&'static str, T)]);

impl Text {
    /// A name of a recipe, a step or an axis.
    pub(in crate::recipe) const NAME: Self = Self { schema: || reference("name"), accepts: "a name" };
    /// A metric of a step.
    pub(in crate::recipe) const METRIC: Self = Self { schema: some_text, accepts: "a metric" };
    /// The path of a file.
    pub(in crate::recipe) const PATH: Self = Self { schema: some_text, accepts: "a path" };
}

impl Default for Text {
    fn default() -> Self {
        Self { schema: || json!({ "type": "string" }), accepts: "text" }
    }
}

impl Texts {
    /// Names of axes or claims.
    pub(in crate::recipe) const NAMES: Self =
        Self { schema: || reference("names"), accepts: "a name, or a list of names" };
}

impl Custom {
    /// A selection of points of a step.
    pub(in crate::recipe) const SELECTION: Self =
        Self { schema: || reference("selection"), accepts: "axis to value, or to a list of values" };
    /// A side of a comparison.
    pub(in crate::recipe) const SIDE: Self =
        Self { schema: || reference("side"), accepts: "`{ step: NAME, axis: value }`" };
}

impl<M> Default for Within<M> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

fn some_text() -> Json {
    json!({ "type": "string", "minLength": 1 })
}

impl Shape for Text {
    type Value = String;

    fn read(&self, lower: &mut Lower<'_>, node: &Node, key: &str) -> Option<String> {
        lower.text(node, &format!("`{key}`"))
    }

    fn schema(&self) -> Json {
        (self.schema)()
    }

    fn accepts(&self) -> String {
        self.accepts.to_owned()
    }
}

impl Shape for Texts {
    type Value = Vec<Spanned<String>>;

    fn read(&self, lower: &mut Lower<'_>, node: &Node, key: &str) -> Option<Self::Value> {
        Some(lower.texts(node, &format!("`{key}`")))
    }

    fn schema(&self) -> Json {
        (self.schema)()
    }

    fn accepts(&self) -> String {
        self.accepts.to_owned()
    }
}

impl Shape for Custom {
    type Value = ();

    fn read(&self, _: &mut Lower<'_>, _: &Node, _: &str) -> Option<()> {
        Some(())
    }

    fn schema(&self) -> Json {
        (self.schema)()
    }

    fn accepts(&self) -> String {
        self.accepts.to_owned()
    }
}

impl<M: Mapping<'static>> Shape for Within<M> {
    type Value = ();

    fn read(&self, _: &mut Lower<'_>, _: &Node, _: &str) -> Option<()> {
        Some(())
    }

    fn schema(&self) -> Json {
        M::schema()
    }

    fn accepts(&self) -> String {
        format!("`{{ {} }}`", M::NAMES.join(", "))
    }
}

impl Shape for Flag {
    type Value = bool;

    fn read(&self, lower: &mut Lower<'_>, node: &Node, key: &str) -> Option<bool> {
        if let NodeKind::Scalar(Value::Bool(flag)) = node.kind {
            return Some(flag);
        }
        let message = format!("`{key}` must be true or false, found {}", node.describe());
        let help = format!("write `{key}: true`, or leave it out");
        lower.problem(node.span, message, "neither true nor false", help);
        None
    }

    fn schema(&self) -> Json {
        json!({ "type": "boolean" })
    }

    fn accepts(&self) -> String {
        "`true` or `false`".to_owned()
    }
}

impl Shape for Whole {
    type Value = u32;

    fn read(&self, lower: &mut Lower<'_>, node: &Node, key: &str) -> Option<u32> {
        if let NodeKind::Scalar(Value::Int(number)) = &node.kind
            && let Ok(number) = u32::try_from(*number)
            && self.range.contains(&number)
        {
            return Some(number);
        }
        let (least, most) = (self.range.start(), self.range.end());
        let message = format!("`{key}` must be an integer from {least} to {most}");
        let help = format!("write the number of {}, for example `{key}: {}`", self.of, least.max(&1));
        lower.problem(node.span, message, format!("not a number of {}", self.of), help);
        None
    }

    fn schema(&self) -> Json {
        json!({ "type": "integer", "minimum": self.range.start(), "maximum": self.range.end() })
    }

    fn accepts(&self) -> String {
        format!("an integer from {} to {}", self.range.start(), self.range.end())
    }
}

impl Shape for Number {
    type Value = f64;

    fn read(&self, lower: &mut Lower<'_>, node: &Node, key: &str) -> Option<f64> {
        if let NodeKind::Scalar(value @ (Value::Int(_) | Value::Float(_))) = &node.kind {
            return value.as_f64();
        }
        let message = format!("`{key}` must be a number, found {}", node.describe());
        lower.problem(node.span, message, "not a number", "write a number, for example `1.02`");
        None
    }

    fn schema(&self) -> Json {
        json!({ "type": "number" })
    }

    fn accepts(&self) -> String {
        "a number".to_owned()
    }
}

impl Shape for Quantity {
    type Value = Amount;

    fn read(&self, lower: &mut Lower<'_>, node: &Node, key: &str) -> Option<Amount> {
        let parsed = match &node.kind {
            NodeKind::Scalar(value @ (Value::Int(_) | Value::Float(_))) => {
                return value.as_f64().map(|value| Amount { value, unit: None });
            }
            NodeKind::Scalar(Value::Text(text)) => parse_quantity(text),
            _ => Err(UnitError::NoNumber),
        };
        match parsed {
            Ok((value, unit)) => return Some(Amount { value, unit }),
            Err(UnitError::Unknown(symbol)) => {
                let message = format!("`{key}` has the unknown unit `{}`", symbol.escape_debug());
                let help = format!("write one of {}", Unit::known());
                lower.problem(node.span, message, "not a unit", help);
            }
            Err(_) => {
                let message = format!("`{key}` must be a number, found {}", node.describe());
                let help = "write a number, for example `1.02`, or one with its unit, for example `5 ms`";
                lower.problem(node.span, message, "not a number", help);
            }
        }
        None
    }

    fn schema(&self) -> Json {
        json!({
            "type": ["number", "string"],
            "pattern": whole(QUANTITY),
            "patternErrorMessage": "Expected a number, or a number with its unit, such as `5 ms`.",
        })
    }

    fn accepts(&self) -> String {
        "a number, or one with its unit: `5 ms`".to_owned()
    }
}

impl Shape for TimeSpan {
    type Value = Duration;

    fn read(&self, lower: &mut Lower<'_>, node: &Node, key: &str) -> Option<Duration> {
        let help = format!("write a span of time with its unit, for example `{key}: 30m`, `1h30m` or `90s`");
        let seconds = with_unit(lower, node, key, parse_seconds, ("not a span of time", &help))?;
        if seconds == 0.0 && !self.zero {
            lower.problem(node.span, format!("`{key}` must be longer than 0 s"), "zero duration", help);
            return None;
        }
        Some(Duration::from_secs_f64(seconds))
    }

    fn schema(&self) -> Json {
        json!({
            "type": "string",
            "pattern": whole(SPAN_OF_TIME),
            "patternErrorMessage": "Expected a span of time with its unit, such as `30m`, `1h30m` or `90s`.",
        })
    }

    fn accepts(&self) -> String {
        "a span of time: `30m`, `1h30m`, `90s`".to_owned()
    }
}

impl Shape for Size {
    type Value = u64;

    fn read(&self, lower: &mut Lower<'_>, node: &Node, key: &str) -> Option<u64> {
        let help = format!("write a size with its unit, for example `{key}: 4GiB` or `{key}: 512MB`");
        with_unit(lower, node, key, parse_bytes, ("not a size", &help))
    }

    fn schema(&self) -> Json {
        json!({
            "type": "string",
            "pattern": whole(SIZE),
            "patternErrorMessage": "Expected a size with its unit, such as `4GiB` or `512MB`.",
        })
    }

    fn accepts(&self) -> String {
        "a size: `4GiB`, `512MB`".to_owned()
    }
}

impl<T: Copy> Shape for Word<T> {
    type Value = T;

    fn read(&self, lower: &mut Lower<'_>, node: &Node, key: &str) -> Option<T> {
        let word = lower.text(node, &format!("`{key}`"))?;
        meaning(lower, self.0, &Spanned::new(word, node.span), key)
    }

    fn schema(&self) -> Json {
        json!({ "enum": words(self.0) })
    }

    fn accepts(&self) -> String {
        any_of(self.0)
    }
}

impl<T: Copy> Shape for Words<T> {
    type Value = Vec<T>;

    fn read(&self, lower: &mut Lower<'_>, node: &Node, key: &str) -> Option<Vec<T>> {
        let texts = lower.texts(node, &format!("`{key}`"));
        Some(texts.iter().filter_map(|word| meaning(lower, self.0, word, key)).collect())
    }

    fn schema(&self) -> Json {
        // A bare `enum` would also apply to a list.
        let words = words(self.0);
        json!({ "anyOf": [{ "enum": words }, { "type": "array", "items": { "enum": words } }] })
    }

    fn accepts(&self) -> String {
        format!("{}, or a list of them", any_of(self.0))
    }
}

fn words<T>(known: &[(&'static str, T)]) -> Vec<&'static str> {
    known.iter().map(|(word, _)| *word).collect()
}

/// The words in backticks: `min`, `max` or `none`.
fn any_of<T>(known: &[(&'static str, T)]) -> String {
    let quoted: Vec<String> = known.iter().map(|(word, _)| format!("`{word}`")).collect();
    match quoted.as_slice() {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

/// The meaning of a word.
pub(in crate::recipe) fn meaning<T: Copy>(
    lower: &mut Lower<'_>,
    known: &[(&'static str, T)],
    word: &Spanned<String>,
    key: &str,
) -> Option<T> {
    let meaning = known.iter().find(|(known, _)| *known == word.value).map(|(_, meaning)| *meaning);
    if meaning.is_none() {
        let help = suggest(&word.value, "allowed", words(known)).unwrap_or_default();
        let message = match known.len() {
            ..=3 => format!("`{key}` must be {}, not `{}`", any_of(known), word.value),
            _ => format!("unknown {key} `{}`", word.value),
        };
        lower.problem(word.span, message, "not an allowed value", help);
    }
    meaning
}

fn with_unit<T>(
    lower: &mut Lower<'_>,
    node: &Node,
    key: &str,
    parse: impl Fn(&str) -> Result<T, UnitError>,
    (label, help): (&str, &str),
) -> Option<T> {
    let parsed = match &node.kind {
        NodeKind::Scalar(Value::Text(text)) => parse(text),
        NodeKind::Scalar(Value::Int(_) | Value::Float(_)) => Err(UnitError::NoUnit),
        _ => Err(UnitError::NoNumber),
    };
    match parsed {
        Ok(value) => Some(value),
        Err(error) => {
            lower.problem(node.span, format!("`{key}` cannot be read: {error}"), label, help);
            None
        }
    }
}
