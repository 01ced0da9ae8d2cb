//! Help for values in the form of another tool.

use sweep_job::Value;

use super::{Lower, declarations, find, matrix::MatrixKeys};
use crate::recipe::{
    foreign,
    keys::Mapping as _,
    node::{Entry, Node, NodeKind},
    problem::{nearest, suggest},
};

impl Lower<'_> {
    /// Reports a value that is not a map; `usual` is the help if there is no more specific one.
    pub(super) fn not_a_map(&mut self, node: &Node, what: &str, usual: impl FnOnce() -> String) {
        let named = |item: &Node| match &item.kind {
            NodeKind::Map(entries) => match &find(entries, "name")?.kind {
                NodeKind::Scalar(Value::Text(name)) => Some(name.clone()),
                _ => None,
            },
            _ => None,
        };
        let (message, help) = match &node.kind {
            NodeKind::Scalar(Value::Null) if what == "a recipe" => {
                ("the recipe is empty".to_owned(), "`sweep new` writes an example recipe".to_owned())
            }
            NodeKind::Scalar(Value::Text(text)) if text.contains(':') && !text.contains(": ") => {
                let help = format!("put a space after the colon: `{}`", text.replacen(':', ": ", 1));
                (format!("{what} must be a map, found text"), help)
            }
            NodeKind::List(items) if items.iter().any(|item| matches!(item.kind, NodeKind::Map(_))) => {
                let name = items.iter().find_map(named).unwrap_or_else(|| "NAME".to_owned());
                let help = format!("write names instead of dashes: `{name}: {{ … }}`, without `name:`");
                (format!("{what} must be a map from names, found a list"), help)
            }
            _ => (format!("{what} must be a map, found {}", node.describe()), usual()),
        };
        self.problem(node.span, message, "not a map", help);
    }

    /// The keys that an unknown key of a mapping probably means, and the advice on its replacement.
    pub(super) fn instead(&self, entry: &Entry, what: &str, allowed: &[&str]) -> (Vec<String>, String) {
        let word = entry.key.value.as_str();
        if let Some((key, value)) = word.split_once(':').filter(|(key, _)| allowed.contains(key)) {
            return (vec![key.to_owned()], format!("put a space after the colon: `{key}: {value}`"));
        }
        let argv = self.flow_list(&entry.value).filter(|_| what == "a step" && foreign::PROGRAM.contains(&word));
        let of_a_tool = match argv {
            Some(list) => Some(format!("write `uses: command` and `with: {{ argv: {list} }}`")),
            None => foreign::key(what, word).map(str::to_owned),
        };
        if let Some(help) = of_a_tool {
            let meant = allowed.iter().filter(|key| help.contains(&format!("`{key}:")));
            return (meant.map(|key| (*key).to_owned()).collect(), help);
        }
        let inner_maps: Vec<String> = declarations()
            .iter()
            .filter(|map| allowed.contains(&map.name) && map.keys.iter().any(|key| key.name == word))
            .map(|map| format!("`{}`", map.name))
            .collect();
        if let [first, ..] = inner_maps.as_slice() {
            let map = first.trim_matches('`');
            let help = format!("it is a key of {}: write `{map}: {{ {word}: … }}`", inner_maps.join(" and of "));
            return (vec![map.to_owned()], help);
        }
        let meant = nearest(word, allowed.iter().copied()).map(str::to_owned);
        let help = suggest(word, &format!("keys of {what}"), allowed.iter().copied());
        (meant.into_iter().collect(), help.unwrap_or_default())
    }

    /// Reports an axis whose values have no brackets: YAML reads `{ lr: 1, 2 }` as an axis `lr` and a key `2`. Returns the
    /// number of the entries that follow the axis and are its values.
    pub(super) fn unbracketed(&mut self, axis: &Entry, following: &[Entry]) -> usize {
        let name = axis.key.value.as_str();
        let is_value = !matches!(axis.value.kind, NodeKind::Scalar(Value::Null) | NodeKind::List(_) | NodeKind::Map(_));
        if !is_value || MatrixKeys::NAMES.contains(&name) {
            return 0;
        }
        let values: Vec<&str> = following.iter().map_while(|entry| self.standing_alone(entry)).collect();
        if values.is_empty() {
            return 0;
        }
        let list = format!("{}, {}", self.sources.slice(axis.value.span), values.join(", "));
        let count = values.len();
        let message = format!("axis `{name}` must be a list, found `{list}`");
        let help = format!("write the values in brackets: `{name}: [{list}]`");
        self.problem(axis.value.span, message, "expected a list of values", help);
        count
    }

    /// The text of an entry that has neither a value nor a colon, and is therefore no key.
    fn standing_alone(&self, entry: &Entry) -> Option<&str> {
        let span = entry.key.span;
        let rest = self.sources.text(span.source).get((span.start + span.len) as usize..)?;
        let is_alone =
            matches!(entry.value.kind, NodeKind::Scalar(Value::Null)) && rest.trim_start().starts_with([',', '}']);
        is_alone.then(|| self.sources.slice(span))
    }

    /// The help for an axis that is written as the distribution or the range of another tool; `None` for any other map.
    pub(super) fn drawn(&self, name: &str, entries: &[Entry]) -> Option<String> {
        const WORDS: [&[&str]; 2] =
            [&["min", "low", "lower", "from", "start"], &["max", "high", "upper", "to", "stop"]];
        let text = |node: &Node| match &node.kind {
            NodeKind::Scalar(_) => Some(self.sources.slice(node.span).to_owned()),
            _ => None,
        };
        let bound = |words: &[&str]| {
            entries.iter().find(|entry| words.contains(&entry.key.value.as_str())).and_then(|entry| text(&entry.value))
        };
        let has = |key: &str| find(entries, key).is_some();
        if let Some(node) = find(entries, "values").or_else(|| find(entries, "grid")) {
            let list = self.flow_list(node).unwrap_or("[a, b]");
            return Some(format!("write the list itself: `{name}: {list}`"));
        }
        let range = match (bound(WORDS[0]), bound(WORDS[1])) {
            (Some(from), Some(to)) => format!("[{from}, {to}]"),
            _ if ["uniform", "log_uniform", "loguniform", "choice", "distribution"].iter().any(|key| has(key)) => {
                "[from, to]".to_owned()
            }
            _ => return None,
        };
        Some(format!(
            "for random values, write `random: {{ n: 10, axes: {{ {name}: {{ log_uniform: {range} }} }} }}` or `uniform` in \
             `matrix`; for certain values, `{name}: [a, b]`, or `{name}: {{ linspace: [from, to, n] }}`, `logspace` or `range`"
        ))
    }

    /// The text of a list in brackets that ends in its first line.
    pub(super) fn flow_list(&self, node: &Node) -> Option<&str> {
        let rest = self.sources.text(node.span.source).get(node.span.start as usize..)?.lines().next()?;
        let end = rest.find(']').filter(|_| rest.starts_with('['))?;
        rest.get(..=end)
    }
}
