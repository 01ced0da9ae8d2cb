//! A value of a parameter or of a matrix axis: the subset of values that YAML and JSON represent alike.

use std::{collections::BTreeMap, fmt};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error, MapAccess, SeqAccess, Visitor},
};

/// A parameter's or an axis's value.
///
/// Two values are equal if they represent the same value: `1` and `1.0` are equal, `1` and `"1"` are not. Maps are
/// sorted, so that the serialized form is canonical. Equal numbers have the same text: whole ones that fit into 64 bits
/// have all their digits, others the shortest form.
#[derive(Debug, Clone)]
pub enum Value {
    /// `null` or `~`.
    Null,
    /// `true` or `false`; `on` and `yes` are text.
    Bool(bool),
    /// A number without a fraction.
    Int(i64),
    /// A finite number with a fraction or an exponent.
    Float(f64),
    /// Text.
    Text(String),
    /// A list.
    List(Vec<Value>),
    /// A map with text keys.
    Map(BTreeMap<String, Value>),
}

/// Spelling of numbers in a text for a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spelling {
    /// Equal numbers have one text: `2` for `2.0`. Keys and labels have this spelling.
    Canonical,
    /// A number that was written with a point or an exponent keeps one of them, so that a program reads a float: `2.0`.
    /// Negative numbers have no exponent, because parsers of arguments take `-1e-5` for an option.
    Written,
}

impl Value {
    /// The number, as an integer if it is one.
    pub fn number(number: f64) -> Self {
        exact(number).map_or(Self::Float(number), Self::Int)
    }

    /// The text in a spelling.
    pub fn spelled(&self, spelling: Spelling) -> String {
        match self {
            _ if spelling == Spelling::Canonical => self.to_string(),
            Self::Float(float) => written(*float),
            Self::List(items) => {
                let items: Vec<String> = items.iter().map(|item| item.spelled(spelling)).collect();
                format!("[{}]", items.join(", "))
            }
            Self::Map(entries) => {
                let entries = entries.iter().map(|(key, value)| format!("{key}: {}", value.spelled(spelling)));
                format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
            }
            Self::Null | Self::Bool(_) | Self::Int(_) | Self::Text(_) => self.to_string(),
        }
    }

    /// True if the two spellings differ.
    pub fn is_respelled(&self) -> bool {
        match self {
            Self::Float(float) => exact(*float).is_some() || *float < 0.0,
            Self::List(items) => items.iter().any(Self::is_respelled),
            Self::Map(entries) => entries.values().any(Self::is_respelled),
            Self::Null | Self::Bool(_) | Self::Int(_) | Self::Text(_) => false,
        }
    }

    /// The kind of this value, as an error message names it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Int(_) => "an integer",
            Self::Float(_) => "a number",
            Self::Text(_) => "text",
            Self::List(_) => "a list",
            Self::Map(_) => "a map",
        }
    }

    /// The text, if this is text.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The number, if this is one.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Int(int) => Some(*int as f64),
            Self::Float(float) => Some(*float),
            _ => None,
        }
    }
}

/// A number as an `i64`, if it is one. `9223372036854775808.0` is the first that is too large.
pub(crate) fn exact(float: f64) -> Option<i64> {
    const END: f64 = 9_223_372_036_854_775_808.0;
    #[expect(clippy::cast_possible_truncation, reason = "guarded: whole, and in the range of i64")]
    (float.fract() == 0.0 && (-END..END).contains(&float)).then_some(float as i64)
}

/// A float as [`Spelling::Written`] has it.
fn written(float: f64) -> String {
    /// Whole numbers from here on have an exponent.
    const LARGE: f64 = 1e16;
    let is_whole = float.fract() == 0.0;
    if is_whole && float < LARGE {
        format!("{float:.1}")
    } else if float < 0.0 {
        float.to_string()
    } else if is_whole {
        format!("{float:e}")
    } else {
        Value::Float(float).to_string()
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::Int(a), Self::Int(b)) => a == b,
            (Self::Text(a), Self::Text(b)) => a == b,
            (Self::List(a), Self::List(b)) => a == b,
            (Self::Map(a), Self::Map(b)) => a == b,
            (Self::Int(int), Self::Float(float)) | (Self::Float(float), Self::Int(int)) => exact(*float) == Some(*int),
            (Self::Float(a), Self::Float(b)) => a == b,
            _ => false,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Int(value) => write!(f, "{value}"),
            // Numbers that are equal read the same, whether they were written with an exponent or without.
            Self::Float(value) => match exact(*value) {
                Some(whole) => write!(f, "{whole}"),
                None if !(1e-4..1e16).contains(&value.abs()) => write!(f, "{value:e}"),
                None => write!(f, "{value}"),
            },
            Self::Text(value) => f.write_str(value),
            Self::List(values) => {
                f.write_str("[")?;
                for (index, value) in values.iter().enumerate() {
                    let separator = if index == 0 { "" } else { ", " };
                    write!(f, "{separator}{value}")?;
                }
                f.write_str("]")
            }
            Self::Map(entries) => {
                f.write_str("{")?;
                for (index, (key, value)) in entries.iter().enumerate() {
                    let separator = if index == 0 { "" } else { ", " };
                    write!(f, "{separator}{key}: {value}")?;
                }
                f.write_str("}")
            }
        }
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Int(value) => serializer.serialize_i64(*value),
            Self::Float(value) => serializer.serialize_f64(*value),
            Self::Text(value) => serializer.serialize_str(value),
            Self::List(values) => values.serialize(serializer),
            Self::Map(entries) => entries.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ValueVisitor;

        impl<'de> Visitor<'de> for ValueVisitor {
            type Value = Value;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value")
            }

            fn visit_unit<E: Error>(self) -> Result<Value, E> {
                Ok(Value::Null)
            }

            fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
                Ok(Value::Bool(value))
            }

            fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
                Ok(Value::Int(value))
            }

            fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
                i64::try_from(value).map(Value::Int).map_err(|_| E::custom(format!("{value} is too large")))
            }

            fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
                Ok(Value::Float(value))
            }

            fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
                Ok(Value::Text(value.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
                let mut values = Vec::new();
                while let Some(value) = access.next_element()? {
                    values.push(value);
                }
                Ok(Value::List(values))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
                let mut entries = BTreeMap::new();
                while let Some((key, value)) = access.next_entry()? {
                    entries.insert(key, value);
                }
                Ok(Value::Map(entries))
            }
        }

        deserializer.deserialize_any(ValueVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equality_is_by_meaning() {
        assert_eq!(Value::Int(1), Value::Float(1.0));
        assert_ne!(Value::Int(1), Value::Text("1".into()));
        assert_ne!(Value::Bool(true), Value::Int(1));
    }

    #[test]
    fn floats_keep_their_type_and_negative_numbers_have_no_exponent() {
        for (number, canonical, written) in [
            (2.0, "2", "2.0"),
            (0.0, "0", "0.0"),
            (-0.0, "0", "-0.0"),
            (-3.0, "-3", "-3.0"),
            (0.5, "0.5", "0.5"),
            (1e-3, "0.001", "0.001"),
            (1e-8, "1e-8", "1e-8"),
            (1e6, "1000000", "1000000.0"),
            (1e16, "10000000000000000", "1e16"),
            (-1e-5, "-1e-5", "-0.00001"),
            (-2.5e-7, "-2.5e-7", "-0.00000025"),
            (-1e16, "-10000000000000000", "-10000000000000000.0"),
        ] {
            let value = Value::Float(number);
            assert_eq!(value.spelled(Spelling::Canonical), canonical);
            assert_eq!(value.spelled(Spelling::Written), written);
            assert_eq!(written.parse::<f64>(), Ok(number));
            assert!(value.is_respelled() || canonical == written, "{written}");
        }
        let list = Value::List(vec![Value::Int(1), Value::Float(2.0), Value::Text("a".into())]);
        assert_eq!((list.to_string(), list.spelled(Spelling::Written)), ("[1, 2, a]".into(), "[1, 2.0, a]".into()));
    }

    #[test]
    fn json_round_trip() {
        let json = r#"{"a":[1,2.5,null,true,"x"],"b":{"c":-3}}"#;
        let value: Value = serde_json::from_str(json).unwrap();
        assert_eq!(serde_json::to_string(&value).unwrap(), json);
    }

    #[test]
    fn small_and_large_numbers_print_short() {
        assert_eq!(Value::Float(6e-4).to_string(), "0.0006");
        assert_eq!(Value::Float(1e-8).to_string(), "1e-8");
        assert_eq!(Value::Float(0.0).to_string(), "0");
        assert_eq!(Value::Float(-0.0).to_string(), "0");
        assert_eq!(Value::Float(1e19).to_string(), "1e19");
    }

    #[test]
    fn equal_numbers_have_the_same_text_and_others_another() {
        let numbers = [
            Value::Int(10_000_000_000_000_000),
            Value::Float(1e16),
            Value::Int(i64::MAX),
            Value::Float(9_223_372_036_854_775_808.0),
            Value::Int(9_007_199_254_740_993),
            Value::Float(9_007_199_254_740_992.0),
            Value::Int(i64::MIN),
            Value::Float(-9_223_372_036_854_775_808.0),
            Value::Float(0.5),
            Value::Float(f64::MAX),
        ];
        for (index, one) in numbers.iter().enumerate() {
            for other in &numbers[index..] {
                assert_eq!(one == other, one.to_string() == other.to_string(), "{one:?} {other:?}");
            }
        }
    }
}
