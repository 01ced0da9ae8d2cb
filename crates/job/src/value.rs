//! A value of a parameter or of a matrix axis: the subset of values that YAML and JSON represent alike.

use std::{collections::BTreeMap, fmt};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error, MapAccess, SeqAccess, Visitor},
};

/// A parameter's or an axis's value.
///
/// Two values are equal when they mean the same: `1` and `1.0` are, `1` and `"1"` are not. Maps are sorted, so that the
/// serialized form is canonical. Equal numbers have the same text: whole ones that fit into 64 bits have all their
/// digits, others the shortest form.
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

impl Value {
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
