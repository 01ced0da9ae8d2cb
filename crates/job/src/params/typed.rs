//! Typed parameters: the Rust types of parameters, and the macros that declare groups of parameters and choices.

use std::collections::BTreeMap;

use super::{Kind, Param, inherited, inside};
use crate::value::Value;

/// A Rust type that can be a parameter.
pub trait ParamType: Sized {
    /// The values that a recipe may write.
    const KIND: Kind;
    /// If true, `null` is accepted.
    const NULLABLE: bool = false;
    /// The value as a recipe would write it.
    fn to_value(&self) -> Value;
    /// The typed value, if `value` has passed [`Param::check`].
    fn from_value(value: &Value) -> Option<Self>;
}

impl ParamType for bool {
    const KIND: Kind = Kind::Bool;

    fn to_value(&self) -> Value {
        Value::Bool(*self)
    }

    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Bool(value) => Some(*value),
            _ => None,
        }
    }
}

macro_rules! whole_number {
    ($($type:ty),+) => {$(
        impl ParamType for $type {
            const KIND: Kind = Kind::Int;

            fn to_value(&self) -> Value {
                Value::Int(i64::try_from(*self).unwrap_or(i64::MAX))
            }

            fn from_value(value: &Value) -> Option<Self> {
                match value {
                    Value::Int(value) => Self::try_from(*value).ok(),
                    _ => None,
                }
            }
        }
    )+};
}

whole_number!(u64, usize);

impl ParamType for f64 {
    const KIND: Kind = Kind::Float;

    fn to_value(&self) -> Value {
        Value::Float(*self)
    }

    fn from_value(value: &Value) -> Option<Self> {
        value.as_f64()
    }
}

impl<T: ParamType> ParamType for Option<T> {
    const KIND: Kind = T::KIND;
    const NULLABLE: bool = true;

    fn to_value(&self) -> Value {
        self.as_ref().map_or(Value::Null, T::to_value)
    }

    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Null => Some(None),
            value => T::from_value(value).map(Some),
        }
    }
}

impl ParamType for Value {
    const KIND: Kind = Kind::Any;

    fn to_value(&self) -> Value {
        self.clone()
    }

    fn from_value(value: &Value) -> Option<Self> {
        Some(value.clone())
    }
}

/// A path to an input, whose content is part of the key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path(pub std::path::PathBuf);

impl ParamType for Path {
    const KIND: Kind = Kind::Path(&[]);

    fn to_value(&self) -> Value {
        Value::Text(self.0.to_string_lossy().into_owned())
    }

    fn from_value(value: &Value) -> Option<Self> {
        value.as_text().map(|text| Self(text.into()))
    }
}

/// A path to a folder, whose content is not part of the key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folder(pub std::path::PathBuf);

impl ParamType for Folder {
    const KIND: Kind = Kind::Folder;

    fn to_value(&self) -> Value {
        Value::Text(self.0.to_string_lossy().into_owned())
    }

    fn from_value(value: &Value) -> Option<Self> {
        value.as_text().map(|text| Self(text.into()))
    }
}

impl ParamType for String {
    const KIND: Kind = Kind::Text;

    fn to_value(&self) -> Value {
        Value::Text(self.clone())
    }

    fn from_value(value: &Value) -> Option<Self> {
        value.as_text().map(str::to_owned)
    }
}

/// A text that a recipe may also write as a number or as `true` or `false`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scalar(pub String);

impl ParamType for Scalar {
    const KIND: Kind = Kind::Scalar;

    fn to_value(&self) -> Value {
        Value::Text(self.0.clone())
    }

    fn from_value(value: &Value) -> Option<Self> {
        value.as_text().map(|text| Self(text.to_owned()))
    }
}

/// The value of a variable in a program's environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Variable {
    /// This text.
    Text(String),
    /// The value of the variable with this name where the job runs. It is not recorded.
    From(String),
}

impl ParamType for Variable {
    const KIND: Kind = Kind::Variable;

    fn to_value(&self) -> Value {
        match self {
            Self::Text(text) => Value::Text(text.clone()),
            Self::From(name) => Value::Map(BTreeMap::from([("from".to_owned(), Value::Text(name.clone()))])),
        }
    }

    fn from_value(value: &Value) -> Option<Self> {
        let from = || inherited(value).map(|name| Self::From(name.to_owned()));
        value.as_text().map(|text| Self::Text(text.to_owned())).or_else(from)
    }
}

/// A relative path that does not leave the job's folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inside(pub String);

impl ParamType for Inside {
    const KIND: Kind = Kind::Inside;

    fn to_value(&self) -> Value {
        Value::Text(self.0.clone())
    }

    fn from_value(value: &Value) -> Option<Self> {
        value.as_text().and_then(inside).map(Self)
    }
}

impl<T: ParamType> ParamType for Vec<T> {
    const KIND: Kind = Kind::List(&T::KIND);

    fn to_value(&self) -> Value {
        Value::List(self.iter().map(T::to_value).collect())
    }

    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::List(items) => items.iter().map(T::from_value).collect(),
            _ => None,
        }
    }
}

impl<T: ParamType> ParamType for BTreeMap<String, T> {
    const KIND: Kind = Kind::Map(&T::KIND);

    fn to_value(&self) -> Value {
        Value::Map(self.iter().map(|(key, value)| (key.clone(), value.to_value())).collect())
    }

    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Map(entries) => {
                entries.iter().map(|(key, value)| Some((key.clone(), T::from_value(value)?))).collect()
            }
            _ => None,
        }
    }
}

/// A group of parameters that a task takes together; the macro `params!` writes the implementation.
pub trait Group: Sized {
    /// The declarations.
    const PARAMS: &'static [Param];
    /// The typed group from checked values; `None` if one is missing or unchecked.
    fn from_values(values: &crate::Values) -> Option<Self>;
}

/// Declares a group of parameters: the typed struct, its declarations and its construction from values.
///
/// A line is `name: Type = default, in MIN..=MAX, unit "UNIT", cosmetic true;`, of which range, unit and `cosmetic` may be left
/// out. The documentation of a parameter is what `sweep tasks` prints.
#[macro_export]
macro_rules! params {
    (
        $(#[$meta:meta])*
        pub struct $group:ident {
            $(
                $(#[doc = $doc:literal])+
                $name:ident: $type:ty = $default:expr
                    $(, in $min:literal..=$max:expr)? $(, unit $unit:literal)? $(, cosmetic $cosmetic:literal)?;
            )+
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq)]
        pub struct $group {
            $( $(#[doc = $doc])+ pub $name: $type, )+
        }

        impl $crate::Group for $group {
            const PARAMS: &'static [$crate::Param] = &[$(
                $crate::Param {
                    name: stringify!($name),
                    kind: <$type as $crate::ParamType>::KIND,
                    nullable: <$type as $crate::ParamType>::NULLABLE,
                    bounds: $crate::declared::first(&[$($crate::Bounds::new($min as f64, $max as f64))?]),
                    unit: $crate::declared::first(&[$($unit)?]),
                    cosmetic: [$($cosmetic,)? false][0],
                    doc: concat!($($doc),+).trim_ascii(),
                    default: || { let default: $type = $default; $crate::ParamType::to_value(&default) },
                },
            )+];

            fn from_values(values: &$crate::Values) -> Option<Self> {
                Some(Self { $( $name: $crate::ParamType::from_value(values.get(stringify!($name))?)?, )+ })
            }
        }

        impl Default for $group {
            fn default() -> Self {
                Self { $( $name: $default, )+ }
            }
        }
    };
}

/// Declares an enumeration whose variants are the words that a recipe writes: `Variant = "word",`.
#[macro_export]
macro_rules! choice {
    (
        $(#[$meta:meta])*
        pub enum $name:ident { $( $(#[doc = $doc:literal])+ $variant:ident = $word:literal, )+ }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $( $(#[doc = $doc])+ $variant, )+ }

        impl $name {
            /// Every variant, in the order of declaration.
            pub const ALL: &'static [Self] = &[$( Self::$variant, )+];

            /// The word that a recipe writes.
            pub const fn word(self) -> &'static str {
                match self { $( Self::$variant => $word, )+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.word())
            }
        }

        impl $crate::declared::serde::Serialize for $name {
            fn serialize<S: $crate::declared::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.word())
            }
        }

        impl<'de> $crate::declared::serde::Deserialize<'de> for $name {
            fn deserialize<D: $crate::declared::serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let word = <String as $crate::declared::serde::Deserialize>::deserialize(deserializer)?;
                let found = Self::ALL.iter().copied().find(|choice| choice.word() == word);
                found.ok_or_else(|| $crate::declared::serde::de::Error::unknown_variant(&word, &[$( $word, )+]))
            }
        }

        impl $crate::ParamType for $name {
            const KIND: $crate::Kind = $crate::Kind::Choice(&[$( $word, )+]);

            fn to_value(&self) -> $crate::Value {
                $crate::Value::Text(self.word().to_owned())
            }

            fn from_value(value: &$crate::Value) -> Option<Self> {
                match value.as_text()? { $( $word => Some(Self::$variant), )+ _ => None }
            }
        }
    };
}

/// The only element of a list of at most one: how [`params!`] turns "may be absent" into an `Option` in a constant.
pub const fn first<T: Copy>(list: &[T]) -> Option<T> {
    match list {
        [first, ..] => Some(*first),
        [] => None,
    }
}

pub(crate) use {choice, params};
