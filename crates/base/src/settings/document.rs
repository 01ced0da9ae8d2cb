//! A text of YAML or JSON in which single values are replaced, and every other byte stays.

use std::{collections::BTreeMap, fmt};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error, MapAccess, SeqAccess, Visitor},
};
use serde_json::Value as Json;

use super::{options, rest};

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
}

fn parsed(text: &str) -> Option<Placed> {
    serde_saphyr::from_str_with_options(text, options()).ok()
}

impl<'t> Document<'t> {
    /// Reads a text; `None` if it is not valid.
    pub(super) fn of(text: &'t str) -> Option<Self> {
        Some(Self { text, root: parsed(text)? })
    }

    /// Values of the text, with maps in its order.
    pub(super) fn ordered<'v>(&'v self, values: &'v Json) -> Ordered<'v> {
        Ordered { values, order: Some(&self.root.value) }
    }

    /// The source of the value at a path, without quotes of its own; `None` for a list, a map and a quoted text.
    pub(super) fn plain(&self, path: &str) -> Option<&'t str> {
        let place = find(&self.root, path).filter(|place| matches!(place.value, Tree::Text(_) | Tree::Scalar(_)))?;
        let start = usize::try_from(place.referenced.span().byte_offset()?).ok()?;
        let source = self.text.get(start..)?.get(..usize::try_from(place.referenced.span().byte_len()?).ok()?)?;
        Some(source.trim_end()).filter(|source| !source.starts_with(['"', '\'', '|', '>']))
    }

    /// The text with other values, written as JSON, at these paths. `None` if a value cannot be replaced alone.
    pub(super) fn with(&self, replaced: &BTreeMap<String, String>) -> Option<String> {
        /// A number that no file has.
        const MARK: &str = "9182736450918.25";
        let (mut edits, mut marked) = (Vec::new(), Vec::new());
        for (path, value) in replaced {
            let span = find(&self.root, path)?.referenced.span();
            let start = usize::try_from(span.byte_offset()?).ok()?;
            let length = usize::try_from(span.byte_len()?).ok()?;
            let end = match &find(&self.root, path)?.value {
                Tree::List(_) | Tree::Map(_) => start + flow_length(self.text.get(start..)?)?,
                Tree::Text(_) | Tree::Scalar(_) => {
                    start + self.text.get(start..start.checked_add(length)?)?.trim_end().len()
                }
            };
            edits.push((start, end, value.as_str()));
            marked.push((start, end, MARK));
        }
        // The parser decides if the edits change these values, and no others.
        let with_marks = parsed(&edited(self.text, marked))?;
        let paths: Vec<&str> = replaced.keys().map(String::as_str).collect();
        is_same_but(&self.root.value, &with_marks.value, &paths, MARK).then(|| edited(self.text, edits))
    }
}

/// Values with the keys of maps in the order of a text: programs may depend on it, as for the layers of a network.
pub(super) struct Ordered<'v> {
    values: &'v Json,
    order: Option<&'v Tree>,
}

impl Serialize for Ordered<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match (self.values, self.order) {
            (Json::Object(values), Some(Tree::Map(order))) => {
                let in_order =
                    order.iter().filter_map(|(key, place)| Some((key, values.get(key)?, Some(&place.value))));
                let others = values.iter().filter(|(key, _)| order.iter().all(|(other, _)| other != *key));
                let entries = in_order.chain(others.map(|(key, values)| (key, values, None)));
                serializer.collect_map(entries.map(|(key, values, order)| (key, Ordered { values, order })))
            }
            (Json::Array(values), Some(Tree::List(order))) if values.len() == order.len() => {
                let items = values.iter().zip(order);
                serializer.collect_seq(items.map(|(values, place)| Ordered { values, order: Some(&place.value) }))
            }
            (values, _) => values.serialize(serializer),
        }
    }
}

/// The length of the list or the map in brackets with which a text begins; `None` for one without brackets.
fn flow_length(text: &str) -> Option<usize> {
    let (mut open, mut quote) = (0_usize, None);
    for (at, char) in text.char_indices() {
        match (quote, char) {
            (Some(end), char) if char == end => quote = None,
            (None, '"' | '\'') => quote = Some(char),
            (None, '[' | '{') => open += 1,
            (None, ']' | '}') => open = open.checked_sub(1)?,
            _ => {}
        }
        if open == 0 && quote.is_none() {
            return (at > 0).then_some(at + char.len_utf8());
        }
    }
    None
}

/// A text with other parts between these places.
fn edited(text: &str, mut edits: Vec<(usize, usize, &str)>) -> String {
    edits.sort_unstable();
    let mut out = text.to_owned();
    for (start, end, part) in edits.into_iter().rev() {
        out.replace_range(start..end, part);
    }
    out
}

/// The value at a path such as `layers.0.units`.
fn find<'p>(place: &'p Placed, path: &str) -> Option<&'p Placed> {
    let inner = |place: &'p Placed, key: &str| match rest(path, key)? {
        "" => Some(place),
        rest => find(place, rest),
    };
    match &place.value {
        Tree::Map(entries) => entries.iter().find_map(|(key, place)| inner(place, key)),
        Tree::List(items) => items.iter().enumerate().find_map(|(at, place)| inner(place, &at.to_string())),
        Tree::Text(_) | Tree::Scalar(_) => None,
    }
}

/// True if two values are equal but for the mark at these paths; other values of the second may be copies of marked ones.
fn is_same_but(one: &Tree, other: &Tree, paths: &[&str], mark: &str) -> bool {
    let is_marked = |tree: &Tree| matches!(tree, Tree::Text(text) | Tree::Scalar(text) if text == mark);
    if paths.contains(&"") {
        return is_marked(other);
    }
    let inner = |key: &str| -> Vec<&str> { paths.iter().filter_map(|path| rest(path, key)).collect() };
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

    fn with(text: &str, path: &str, value: &str) -> Option<String> {
        Document::of(text)?.with(&BTreeMap::from([(path.to_owned(), value.to_owned())]))
    }

    #[test]
    fn one_value_is_replaced_and_every_other_byte_stays() {
        for (text, path, expected) in [
            ("lr: 1.0 # rate\noct: 010\non: yes\n", "lr", "lr: V # rate\noct: 010\non: yes\n"),
            ("a:\n  - u: 8\n  - u: 9\n", "a.1.u", "a:\n  - u: 8\n  - u: V\n"),
            ("m: {s: 1e-3x, t: [1, 2]}\n", "m.s", "m: {s: V, t: [1, 2]}\n"),
            ("name: 'it''s'\nx: 1\n", "name", "name: V\nx: 1\n"),
            ("{\"big\": 123456789012345, \"s\": \"1e-3\"}", "s", "{\"big\": 123456789012345, \"s\": V}"),
            ("base: &b {lr: 1, x: 2}\nm: {<<: *b}\n", "base.lr", "base: &b {lr: V, x: 2}\nm: {<<: *b}\n"),
            ("n: null\n", "n", "n: V\n"),
            ("t: [1, 2]\n", "t.0", "t: [V, 2]\n"),
            ("t: [1, 2]\nb: 1\n", "t", "t: V\nb: 1\n"),
            ("größe: 1\nlr: 2\n", "lr", "größe: 1\nlr: V\n"),
            ("a.b: 1\na: {c: 2}\n", "a.b", "a.b: V\na: {c: 2}\n"),
            ("a: {b.c: {d: 1}}\n", "a.b.c.d", "a: {b.c: {d: V}}\n"),
        ] {
            assert_eq!(with(text, path, "V").as_deref(), Some(expected), "{text}");
        }
        for (text, path) in
            [("a:\nb: 1\n", "a"), ("b: &b {u: 1}\nc: *b\n", "c.u"), ("a: 1\n", "b"), ("a: {b: 1}\n", "a.c")]
        {
            assert_eq!(with(text, path, "V"), None, "{text}");
        }
    }
}
