//! Declarations of the language's keys: the keys of every mapping, each with its documentation and its shape.
//!
//! [`mapping!`] declares a mapping once. The reader, which rejects undeclared keys ([`super::lower`]), the JSON Schema
//! ([`super::schema`]) and the tables in `docs/recipe.md` and `docs/cluster.md` (`tests/docs.rs`) are derived from the
//! declaration. A declared key that is never read is an unused field, which the compiler reports.

mod shapes;

use serde_json::{Map, Value, json};

pub(super) use self::shapes::{
    Amount, Custom, Flag, Number, Quantity, Shape, Size, Text, Texts, TimeSpan, Whole, Within, Word, Words, meaning,
};
use super::{
    lower::Lower,
    node::{Entry, Node},
    schema::described,
    source::{Span, Spanned},
};

/// A mapping of the language, as it is documented.
#[derive(Debug, Clone)]
pub struct Declaration {
    /// The mapping's name: `resources`.
    pub name: &'static str,
    /// The mapping's keys, in the order in which they are documented.
    pub keys: Vec<Key>,
}

/// A key of a mapping.
#[derive(Debug, Clone)]
pub struct Key {
    /// The key, as it is written.
    pub name: &'static str,
    /// The key's meaning, in a sentence or two.
    pub doc: String,
    /// Further paragraphs, which only the documentation has.
    pub details: String,
    /// Description of the accepted values.
    pub accepts: String,
    /// True if the key is required.
    pub required: bool,
    /// The schema of its value.
    pub(super) schema: Value,
}

/// A mapping with declared keys, read from a text.
pub(super) trait Mapping<'n>: Sized {
    /// The mapping's keys, as they are written.
    const NAMES: &'static [&'static str];

    fn declaration() -> Declaration;

    /// Reads the values of its keys from a map's entries.
    fn of(lower: &mut Lower<'_>, entries: &'n [Entry]) -> Self;

    /// Reads a map that accepts only these keys; `None` if the node is not a map. Messages call it `what`.
    fn read(lower: &mut Lower<'_>, node: &'n Node, what: &str) -> Option<Self> {
        let entries = lower.map(node, what, Self::NAMES)?;
        Some(Self::of(lower, entries))
    }

    /// Reads a map like [`Self::read`]; a node that is not a map counts as an empty one.
    fn read_or_empty(lower: &mut Lower<'_>, node: &'n Node, what: &str) -> Self {
        let entries = lower.map(node, what, Self::NAMES).unwrap_or_default();
        Self::of(lower, entries)
    }

    /// The schema of a map that accepts only these keys.
    fn schema() -> Value {
        let keys = Self::declaration().keys;
        let required: Vec<&str> = keys.iter().filter(|key| key.required).map(|key| key.name).collect();
        let properties: Map<String, Value> =
            keys.iter().map(|key| (key.name.to_owned(), described(&key.doc, key.schema.clone()))).collect();
        let mut schema = json!({ "type": "object", "properties": properties, "additionalProperties": false });
        if !required.is_empty() {
            schema["required"] = json!(required);
        }
        schema
    }

    /// The schema of a map with exactly one of these keys.
    fn schema_of_one() -> Value {
        let mut schema = Self::schema();
        schema["minProperties"] = json!(1);
        schema["maxProperties"] = json!(1);
        schema
    }
}

/// A key of a mapping, with the value that was read.
#[derive(Debug)]
pub(super) struct Given<'n, T> {
    /// The entry in the text; `None` if the key is absent.
    pub(super) entry: Option<&'n Entry>,
    /// The value; `None` if the key is absent, or after a reported mistake in the value.
    pub(super) value: Option<T>,
}

impl<'n, T> Given<'n, T> {
    /// Looks for `key`, and reads its value.
    pub(super) fn of(lower: &mut Lower<'_>, entries: &'n [Entry], key: &str, shape: &impl Shape<Value = T>) -> Self {
        let entry = entries.iter().find(|entry| entry.key.value == key);
        let value = entry.and_then(|entry| shape.read(lower, &entry.value, key));
        Self { entry, value }
    }

    /// True if the key is present, even with an invalid value.
    pub(super) fn is_there(&self) -> bool {
        self.entry.is_some()
    }

    /// The value as it is written.
    pub(super) fn node(&self) -> Option<&'n Node> {
        self.entry.map(|entry| &entry.value)
    }

    /// The place of the value.
    pub(super) fn span(&self) -> Option<Span> {
        self.node().map(|node| node.span)
    }

    /// The value with its place.
    pub(super) fn spanned(self) -> Option<Spanned<T>> {
        Some(Spanned::new(self.value?, self.entry?.value.span))
    }
}

impl Key {
    /// Splits a doc comment: the first paragraph is the meaning, the others are details.
    pub(super) fn new(name: &'static str, comment: &str, required: bool, shape: &impl Shape) -> Self {
        let lines: Vec<&str> = comment.lines().map(str::trim).collect();
        let mut paragraphs = lines.split(|line| line.is_empty()).filter(|lines| !lines.is_empty());
        let doc = paragraphs.next().map(|lines| lines.join(" ")).unwrap_or_default();
        let details = paragraphs.map(|lines| lines.join(" ")).collect::<Vec<_>>().join(" ");
        Self { name, doc, details, accepts: shape.accepts(), required, schema: shape.schema() }
    }
}

/// Declares a mapping of the language: a struct with a [`Given`] for each key, and its reader.
///
/// ```ignore
/// mapping! {
///     /// The resources that a job uses.
///     struct ResourceKeys = "resources" {
///         /// The meaning of the key, for users.
///         cpus: Whole = Whole { … },
///         /// A required key whose name is not a Rust identifier.
///         only = "where" [required]: Custom = Custom { … },
///         /// A shape without parameters.
///         memory: Size,
///     }
/// }
/// ```
macro_rules! mapping {
    (
        $(#[doc = $about:literal])*
        struct $Name:ident = $what:literal {
            $(
                $(#[doc = $doc:literal])*
                $field:ident $(= $key:literal)? $([$required:ident])?: $shape:ty $(= $value:expr)?
            ),* $(,)?
        }
    ) => {
        $(#[doc = $about])*
        #[derive(Debug)]
        pub(in crate::recipe) struct $Name<'n> {
            $(
                $(#[doc = $doc])*
                pub(in crate::recipe) $field:
                    $crate::recipe::keys::Given<'n, <$shape as $crate::recipe::keys::Shape>::Value>,
            )*
        }

        impl<'n> $crate::recipe::keys::Mapping<'n> for $Name<'n> {
            const NAMES: &'static [&'static str] = &[$($crate::recipe::keys::key_name!($field $($key)?)),*];

            fn declaration() -> $crate::recipe::keys::Declaration {
                $crate::recipe::keys::Declaration {
                    name: $what,
                    keys: vec![$({
                        let shape: $shape = $crate::recipe::keys::key_shape!($shape $(, $value)?);
                        $crate::recipe::keys::Key::new(
                            $crate::recipe::keys::key_name!($field $($key)?),
                            concat!($($doc, "\n"),*),
                            $crate::recipe::keys::key_required!($($required)?),
                            &shape,
                        )
                    }),*],
                }
            }

            fn of(lower: &mut $crate::recipe::lower::Lower<'_>, entries: &'n [$crate::recipe::node::Entry]) -> Self {
                Self {
                    $($field: {
                        let shape: $shape = $crate::recipe::keys::key_shape!($shape $(, $value)?);
                        $crate::recipe::keys::Given::of(lower, entries, $crate::recipe::keys::key_name!($field $($key)?), &shape)
                    },)*
                }
            }
        }
    };
}

/// The name of a key. Default: the name of the field.
macro_rules! key_name {
    ($field:ident) => {
        stringify!($field)
    };
    ($field:ident $key:literal) => {
        $key
    };
}

/// The shape of a key. Default: the default of the shape's type.
macro_rules! key_shape {
    ($shape:ty) => {
        <$shape>::default()
    };
    ($shape:ty, $value:expr) => {
        $value
    };
}

macro_rules! key_required {
    () => {
        false
    };
    (required) => {
        true
    };
}

pub(super) use {key_name, key_required, key_shape, mapping};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipe::{problem::Collector, source::Sources};

    mapping! {
        /// An example.
        struct ExampleKeys = "example" {
            /// Number of times,
            /// and not more.
            ///
            /// Never on Sundays.
            often [required]: Whole = Whole { range: 1..=9, of: "times" },
            /// True if it is quiet.
            is_quiet = "quiet-at-night": Flag,
        }
    }

    /// Reads a text; returns the values and the mistakes.
    fn read(text: &str) -> (Option<u32>, Option<bool>, String) {
        let (mut sources, mut problems) = (Sources::default(), Collector::default());
        let source = sources.add("example", text);
        let node = Node::parse(&sources, source, &mut problems).unwrap();
        let keys = ExampleKeys::read_or_empty(&mut Lower::new(&mut sources, &mut problems), &node, "an example");
        let mistakes = problems.finish(()).map_or_else(|problems| problems.to_string(), |()| String::new());
        (keys.often.value, keys.is_quiet.value, mistakes)
    }

    #[test]
    fn a_declared_key_is_read() {
        assert_eq!(read("often: 3\nquiet-at-night: true"), (Some(3), Some(true), String::new()));
        let (often, quiet, mistakes) = read("often: 10\nquiet: true");
        assert_eq!((often, quiet), (None, None));
        assert!(mistakes.contains("`often` must be an integer from 1 to 9"), "{mistakes}");
        assert!(mistakes.contains("unknown key `quiet` in an example"), "{mistakes}");
    }

    #[test]
    fn a_declared_key_is_in_the_schema_and_in_the_documentation() {
        let schema = ExampleKeys::schema();
        assert_eq!(
            schema["properties"]["often"],
            json!({ "type": "integer", "minimum": 1, "maximum": 9, "description": "Number of times, and not more." })
        );
        assert_eq!(schema["required"], json!(["often"]));
        assert_eq!(schema["additionalProperties"], json!(false));
        let keys = ExampleKeys::declaration().keys;
        assert_eq!(keys.iter().map(|key| key.name).collect::<Vec<_>>(), ["often", "quiet-at-night"]);
        assert_eq!(
            (keys[0].details.as_str(), keys[0].accepts.as_str()),
            ("Never on Sundays.", "an integer from 1 to 9")
        );
    }
}
