//! A text of YAML or JSON in which single values are replaced, and every other byte stays.

use std::{collections::BTreeMap, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, SeqAccess, Visitor},
};
use serde_json::Value as Json;
use sweep_job::{Spelling, Value};

use super::super::axis_values;

/// Kind of the values of an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Values {
    /// Texts.
    Texts,
    /// Numbers.
    Numbers,
    /// Numbers of which some are written with an exponent and without a point: readers of YAML 1.1 take them for texts.
    Exponents,
    /// `true`, `false` and lists.
    Others,
    /// The same and `null` or maps, which TOML does not write so.
    NullsOrMaps,
    /// Values of several of these kinds.
    Mixed,
    /// Among them a text that quotes do not hold as it is.
    Unquotable,
    /// Numbers that a map such as `{ logspace: … }` generates.
    Generated,
}

impl Values {
    /// The kind of the values that were typed for an axis.
    pub(in super::super) fn of(typed: &str) -> Self {
        let Ok(Json::Array(values)) = serde_saphyr::from_str(&axis_values::values(typed)) else {
            return Self::Generated;
        };
        let has_exponent = |value: &Json| {
            let float = value.as_f64().filter(|_| value.is_f64());
            let text = float.map(|float| Value::Float(float).spelled(Spelling::Written));
            text.is_some_and(|text| text.contains('e') && !text.contains('.'))
        };
        let kind = |value: &Json| match value {
            Json::String(text) if text.contains(|char: char| char.is_control() || "\"\\".contains(char)) => {
                Self::Unquotable
            }
            Json::String(_) => Self::Texts,
            Json::Number(_) => Self::Numbers,
            _ => Self::Others,
        };
        let kinds: Vec<Self> = values.iter().map(kind).collect();
        match *kinds.first().unwrap_or(&Self::Mixed) {
            _ if kinds.contains(&Self::Unquotable) => Self::Unquotable,
            first if kinds.iter().any(|kind| *kind != first) => Self::Mixed,
            Self::Others if values.iter().any(|value| value.is_null() || value.is_object()) => Self::NullsOrMaps,
            Self::Numbers if values.iter().any(has_exponent) => Self::Exponents,
            first => first,
        }
    }
}

/// A value with its place.
type Placed = serde_saphyr::Spanned<Tree>;

/// A value as far as it matters here.
#[derive(Debug, PartialEq)]
enum Tree {
    /// A text.
    Text(String),
    /// Any other value without parts, as far as it is compared.
    Scalar(String),
    List(Vec<Placed>),
    Map(Vec<(String, Placed)>),
}

/// A text with the places of its values.
pub(super) struct Document<'t> {
    text: &'t str,
    root: Placed,
    /// True for JSON, which has no tags.
    is_json: bool,
}

impl<'t> Document<'t> {
    /// Reads a text; `None` if it is not valid.
    pub(super) fn of(text: &'t str, is_json: bool) -> Option<Self> {
        Some(Self { text, root: serde_saphyr::from_str(text).ok()?, is_json })
    }

    /// The text with other values, each with its kind, at these paths. `None` if a value cannot be replaced alone.
    pub(super) fn with(&self, replaced: &BTreeMap<String, (String, Values)>) -> Option<String> {
        /// A number that no file has.
        const MARK: &str = "9182736450918.25";
        let (mut edits, mut marked) = (Vec::new(), Vec::new());
        for (path, (value, values)) in replaced {
            let place = find(&self.root, path)?;
            let is_text = matches!(place.value, Tree::Text(_));
            let (tag, quotes) = match values {
                Values::Texts => ("", "\""),
                Values::Numbers | Values::Exponents if is_text => ("", "\""),
                Values::Exponents if !self.is_json => ("!!float ", ""),
                Values::Numbers | Values::Exponents => ("", ""),
                Values::Others | Values::NullsOrMaps if !is_text => ("", ""),
                Values::Others | Values::NullsOrMaps | Values::Mixed | Values::Unquotable | Values::Generated => {
                    return None;
                }
            };
            let span = place.referenced.span();
            let start = usize::try_from(span.byte_offset()?).ok()?;
            let length = usize::try_from(span.byte_len()?).ok()?;
            let end = start + self.text.get(start..start.checked_add(length)?)?.trim_end().len();
            edits.push((start, end, format!("{tag}{quotes}{value}{quotes}")));
            marked.push((start, end, format!("{tag}{quotes}{MARK}{quotes}")));
        }
        // The parser decides if the edits change these values, and no others.
        let with_marks: Placed = serde_saphyr::from_str(&edited(self.text, marked)).ok()?;
        let paths: Vec<&str> = replaced.keys().map(String::as_str).collect();
        is_same_but(&self.root.value, &with_marks.value, &paths, MARK).then(|| edited(self.text, edits))
    }
}

/// A text with other parts between these places.
fn edited(text: &str, mut edits: Vec<(usize, usize, String)>) -> String {
    edits.sort();
    let mut out = text.to_owned();
    for (start, end, part) in edits.into_iter().rev() {
        out.replace_range(start..end, &part);
    }
    out
}

/// The value at a path such as `layers.0.units`.
fn find<'p>(root: &'p Placed, path: &str) -> Option<&'p Placed> {
    path.split('.').try_fold(root, |place, key| match &place.value {
        Tree::Map(entries) => entries.iter().find(|(name, _)| name == key).map(|(_, value)| value),
        Tree::List(items) => items.get(key.parse::<usize>().ok()?),
        Tree::Text(_) | Tree::Scalar(_) => None,
    })
}

/// True if two values are equal but for the mark at these paths; other values of the second may be copies of marked ones.
fn is_same_but(one: &Tree, other: &Tree, paths: &[&str], mark: &str) -> bool {
    let is_marked = |tree: &Tree| matches!(tree, Tree::Text(text) | Tree::Scalar(text) if text == mark);
    if paths.contains(&"") {
        return is_marked(other);
    }
    let inner = |key: &str| -> Vec<&str> {
        let rest = paths.iter().filter_map(|path| path.strip_prefix(key));
        rest.filter_map(|rest| if rest.is_empty() { Some("") } else { rest.strip_prefix('.') }).collect()
    };
    match (one, other) {
        (Tree::List(one), Tree::List(other)) => {
            let mut pairs = one.iter().zip(other).enumerate();
            one.len() == other.len()
                && pairs.all(|(at, (one, other))| is_same_but(&one.value, &other.value, &inner(&at.to_string()), mark))
        }
        (Tree::Map(one), Tree::Map(other)) => {
            let mut pairs = one.iter().zip(other);
            one.len() == other.len()
                && pairs.all(|((name, one), (other_name, other))| {
                    name == other_name && is_same_but(&one.value, &other.value, &inner(name), mark)
                })
        }
        // An alias has the value of its anchor.
        (Tree::Text(_) | Tree::Scalar(_), other) => one == other || is_marked(other),
        _ => false,
    }
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TreeVisitor;

        impl<'de> Visitor<'de> for TreeVisitor {
            type Value = Tree;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value of a file of settings")
            }

            fn visit_unit<E>(self) -> Result<Tree, E> {
                Ok(Tree::Scalar("null".to_owned()))
            }

            fn visit_bool<E>(self, value: bool) -> Result<Tree, E> {
                Ok(Tree::Scalar(value.to_string()))
            }

            fn visit_i64<E>(self, value: i64) -> Result<Tree, E> {
                Ok(Tree::Scalar(value.to_string()))
            }

            fn visit_u64<E>(self, value: u64) -> Result<Tree, E> {
                Ok(Tree::Scalar(value.to_string()))
            }

            fn visit_f64<E>(self, value: f64) -> Result<Tree, E> {
                Ok(Tree::Scalar(value.to_string()))
            }

            fn visit_str<E: Error>(self, value: &str) -> Result<Tree, E> {
                Ok(Tree::Text(value.to_owned()))
            }

            fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Tree, D::Error> {
                Tree::deserialize(deserializer)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Tree, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = access.next_element()? {
                    items.push(item);
                }
                Ok(Tree::List(items))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Tree, A::Error> {
                let mut entries = Vec::new();
                while let Some(key) = access.next_key()? {
                    entries.push((key, access.next_value()?));
                }
                Ok(Tree::Map(entries))
            }
        }

        deserializer.deserialize_any(TreeVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(text: &str, path: &str, values: &str) -> Option<String> {
        let replaced = BTreeMap::from([(path.to_owned(), ("V".to_owned(), Values::of(values)))]);
        Document::of(text, text.starts_with('{'))?.with(&replaced)
    }

    #[test]
    fn one_value_is_replaced_and_every_other_byte_stays() {
        for (text, path, values, expected) in [
            ("lr: 1.0 # rate\noct: 010\non: yes\n", "lr", "2,3", "lr: V # rate\noct: 010\non: yes\n"),
            ("a:\n  - u: 8\n  - u: 9\n", "a.1.u", "1", "a:\n  - u: 8\n  - u: V\n"),
            ("m: {s: 1e-3x, t: [1, 2]}\n", "m.s", "1e-4", "m: {s: \"V\", t: [1, 2]}\n"),
            ("name: 'it''s'\nx: 1\n", "name", "a,b", "name: \"V\"\nx: 1\n"),
            ("{\"big\": 123456789012345, \"s\": \"1e-3\"}", "s", "1e-4", "{\"big\": 123456789012345, \"s\": \"V\"}"),
            ("base: &b {lr: 1, x: 2}\nm: {<<: *b}\n", "base.lr", "5", "base: &b {lr: V, x: 2}\nm: {<<: *b}\n"),
            ("n: null\n", "n", "3", "n: V\n"),
            ("n: 1.0\n", "n", "1e-7,0.1", "n: !!float V\n"),
            ("{\"n\": 1.0}", "n", "1e-7,0.1", "{\"n\": V}"),
            ("t: [1, 2]\n", "t.0", "3", "t: [V, 2]\n"),
            ("größe: 1\nlr: 2\n", "lr", "3", "größe: 1\nlr: V\n"),
        ] {
            assert_eq!(with(text, path, values).as_deref(), Some(expected), "{text}");
        }
        for (text, path, values) in [
            ("a: x\n", "a", "null"),
            ("a: 1\n", "a", "1,x"),
            ("a: x\n", "a", "'b\"c'"),
            ("a: |\n  one\n  two\n", "a", "b"),
            ("a:\nb: 1\n", "a", "1"),
            ("b: &b {u: 1}\nc: *b\n", "c.u", "1"),
            ("a: 1\n", "b", "1"),
        ] {
            assert_eq!(with(text, path, values), None, "{text}");
        }
    }
}
