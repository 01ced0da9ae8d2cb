//! YAML with the place of every value. No other file depends on the YAML parser.

use std::{
    collections::{HashMap, hash_map},
    fmt,
};

use serde::{
    Deserialize, Deserializer,
    de::{Error as _, MapAccess, SeqAccess, Visitor},
};
use serde_saphyr::{DuplicateKeyPolicy, NonFiniteFloatPolicy, Options};
use sweep_job::Value;

use super::{
    problem::{Collector, Problem},
    source::{Sources, Span, Spanned},
};

/// A YAML value with its place.
#[derive(Debug, Clone)]
pub struct Node {
    /// The value.
    pub kind: NodeKind,
    /// The node's place.
    pub span: Span,
}

/// A YAML value.
#[derive(Debug, Clone)]
pub enum NodeKind {
    /// Anything without children.
    Scalar(Value),
    /// `[…]` or a list of `-`.
    List(Vec<Node>),
    /// `{…}` or lines of `key:`; in the order of the text.
    Map(Vec<Entry>),
}

/// A `key: value` pair.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The key.
    pub key: Spanned<String>,
    /// The value.
    pub value: Node,
}

impl Node {
    /// Kind of the value, as an error message names it.
    pub fn describe(&self) -> &'static str {
        match &self.kind {
            NodeKind::Scalar(value) => value.kind(),
            NodeKind::List(_) => "a list",
            NodeKind::Map(_) => "a map",
        }
    }

    /// Parses a value from the command line, see [`typed_value`]; `None` if a mistake makes it unreadable.
    pub fn typed(sources: &Sources, source: u16, problems: &mut Collector) -> Option<Self> {
        let text = sources.text(source);
        let begins_as_yaml = text.trim_start().starts_with(['[', '{', '"', '\'']);
        if as_yaml(text).is_none() && !begins_as_yaml {
            let len = u32::try_from(text.len()).unwrap_or(u32::MAX);
            let value = Value::Text(text.trim().to_owned());
            return Some(Self { kind: NodeKind::Scalar(value), span: Span { source, start: 0, len } });
        }
        let node = Self::parse(sources, source, problems)?;
        check_nulls(&node, sources, problems);
        Some(node)
    }

    /// Parses a text; `None` if a mistake makes it unreadable.
    pub fn parse(sources: &Sources, source: u16, problems: &mut Collector) -> Option<Self> {
        match parse(sources.text(source), options()) {
            Ok(raw) => Some(lower(raw, sources, source, problems)),
            Err(error) => {
                syntax_problem(sources, source, &error, problems);
                None
            }
        }
    }
}

/// Words for a value that is nothing.
const NULLS: [&str; 4] = ["null", "~", "Null", "NULL"];

/// A value on the command line: a number, `true`, `false`, `null`, a quoted text, a list or a map as YAML has them. Any
/// other text is taken literally, because YAML would read a part of it as a comment, an anchor or a tag.
pub fn typed_value(text: &str) -> Value {
    match as_yaml(text) {
        Some(raw) => raw.plain(),
        None => Value::Text(text.trim().to_owned()),
    }
}

/// The YAML of a text on the command line, unless the text is taken literally.
fn as_yaml(text: &str) -> Option<Raw> {
    let text = text.trim();
    let raw = parse(text, options()).ok()?.value;
    let is_quoted =
        ['"', '\''].into_iter().any(|quote| text.len() > 1 && text.starts_with(quote) && text.ends_with(quote));
    let is_value = match &raw {
        Raw::Scalar(Value::Null) => NULLS.contains(&text),
        Raw::Scalar(Value::Text(_)) => is_quoted,
        // Blanks stand before a comment or behind a tag.
        Raw::Scalar(_) => !text.contains(char::is_whitespace),
        Raw::List(_) => text.starts_with('['),
        Raw::Map(_) => text.starts_with('{'),
    };
    is_value.then_some(raw)
}

fn options() -> Options {
    serde_saphyr::options! {
        strict_booleans: true,
        // Both are accepted here and reported in `lower`, with their places and together with all other mistakes.
        duplicate_keys: DuplicateKeyPolicy::LastWins,
        non_finite_float_policy: NonFiniteFloatPolicy::PassThrough,
        with_snippet: false,
    }
}

fn parse(text: &str, options: Options) -> Result<serde_saphyr::Spanned<Raw>, serde_saphyr::Error> {
    serde_saphyr::from_str_with_options(text, options)
}

/// Output of the parser; its positions are converted in [`lower`].
#[derive(Debug)]
enum Raw {
    Scalar(Value),
    List(Vec<serde_saphyr::Spanned<Raw>>),
    Map(Vec<(serde_saphyr::Spanned<String>, serde_saphyr::Spanned<Raw>)>),
}

impl Raw {
    /// The value without places.
    fn plain(self) -> Value {
        match self {
            Self::Scalar(value) => value,
            Self::List(items) => Value::List(items.into_iter().map(|item| item.value.plain()).collect()),
            Self::Map(entries) => {
                Value::Map(entries.into_iter().map(|(key, value)| (key.value, value.value.plain())).collect())
            }
        }
    }
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct RawVisitor;

        impl<'de> Visitor<'de> for RawVisitor {
            type Value = Raw;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a YAML value")
            }

            fn visit_unit<E>(self) -> Result<Raw, E> {
                Ok(Raw::Scalar(Value::Null))
            }

            fn visit_bool<E>(self, value: bool) -> Result<Raw, E> {
                Ok(Raw::Scalar(Value::Bool(value)))
            }

            fn visit_i64<E>(self, value: i64) -> Result<Raw, E> {
                Ok(Raw::Scalar(Value::Int(value)))
            }

            fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Raw, E> {
                let value = i64::try_from(value).map_err(|_| E::custom(format!("the number {value} is too large")))?;
                Ok(Raw::Scalar(Value::Int(value)))
            }

            fn visit_f64<E>(self, value: f64) -> Result<Raw, E> {
                Ok(Raw::Scalar(Value::Float(value)))
            }

            fn visit_str<E>(self, value: &str) -> Result<Raw, E> {
                Ok(Raw::Scalar(Value::Text(value.to_owned())))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Raw, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = access.next_element()? {
                    items.push(item);
                }
                Ok(Raw::List(items))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Raw, A::Error> {
                let mut entries = Vec::new();
                while let Some(key) = access.next_key()? {
                    entries.push((key, access.next_value()?));
                }
                Ok(Raw::Map(entries))
            }

            fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Raw, D::Error> {
                Raw::deserialize(deserializer)
            }

            fn visit_newtype_struct<D: Deserializer<'de>>(self, _: D) -> Result<Raw, D::Error> {
                Err(D::Error::custom("unexpected wrapper"))
            }
        }

        deserializer.deserialize_any(RawVisitor)
    }
}

fn lower(raw: serde_saphyr::Spanned<Raw>, sources: &Sources, source: u16, problems: &mut Collector) -> Node {
    let span = place(sources, source, raw.referenced);
    let kind = match raw.value {
        Raw::Scalar(value) => {
            check_number(&value, sources, span, problems);
            NodeKind::Scalar(value)
        }
        Raw::List(items) => {
            NodeKind::List(items.into_iter().map(|item| lower(item, sources, source, problems)).collect())
        }
        Raw::Map(entries) => {
            let mut lowered: Vec<Entry> = Vec::with_capacity(entries.len());
            let mut seen = HashMap::with_capacity(entries.len());
            for (key, value) in entries {
                let key = Spanned::new(key.value, place(sources, source, key.referenced));
                let value = lower(value, sources, source, problems);
                match seen.entry(key.value.clone()) {
                    hash_map::Entry::Occupied(first) => duplicate(&key, *first.get(), sources, problems),
                    hash_map::Entry::Vacant(vacant) => {
                        vacant.insert(key.span);
                        lowered.push(Entry { key, value });
                    }
                }
            }
            NodeKind::Map(lowered)
        }
    };
    Node { kind, span }
}

fn duplicate(key: &Spanned<String>, first: Span, sources: &Sources, problems: &mut Collector) {
    let problem = Problem::new(sources, key.span, format!("the key `{}` is defined twice", key.value), "again")
        .label(first, "first here")
        .help("remove one of them, or give it another name");
    problems.push(key.span, problem);
}

/// Reports missing values, such as the second one of `[a, &b]`, which are not valid on the command line.
fn check_nulls(node: &Node, sources: &Sources, problems: &mut Collector) {
    match &node.kind {
        NodeKind::Scalar(Value::Null) if !NULLS.contains(&sources.slice(node.span).trim()) => {
            let problem = Problem::new(sources, node.span, "there is no value here", "empty")
                .help("write `null` for no value, and quotes around a text: `\"&a\"`");
            problems.push(node.span, problem);
        }
        NodeKind::Scalar(_) => {}
        NodeKind::List(items) => items.iter().for_each(|item| check_nulls(item, sources, problems)),
        NodeKind::Map(entries) => entries.iter().for_each(|entry| check_nulls(&entry.value, sources, problems)),
    }
}

/// `017` is 15 in YAML 1.1 and 17 in YAML 1.2, so it must be written unambiguously; and infinities are not valid
/// parameters.
fn check_number(value: &Value, sources: &Sources, span: Span, problems: &mut Collector) {
    if !matches!(value, Value::Int(_) | Value::Float(_)) {
        return;
    }
    let text = sources.slice(span);
    let digits = text.trim_start_matches(['-', '+']);
    if digits.starts_with('0') && digits.chars().nth(1).is_some_and(|char| char.is_ascii_digit()) {
        let problem = Problem::new(sources, span, format!("`{text}` has a leading zero"), "octal or decimal?")
            .help("write the number without the zero, or put quotes around it if it is text");
        problems.push(span, problem);
    } else if text.contains('_') || digits.starts_with("0b") {
        let problem = Problem::new(sources, span, format!("`{text}` is not a number in YAML 1.2"), "a number?")
            .help("write it without `_` and in decimal, or put quotes around it if it is text");
        problems.push(span, problem);
    } else if matches!(value, Value::Float(_)) && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        let problem = Problem::new(sources, span, format!("`{text}` is too large for an integer"), "too large")
            .help("put quotes around it if it is text");
        problems.push(span, problem);
    } else if value.as_f64().is_some_and(|number| !number.is_finite()) {
        let problem = Problem::new(sources, span, format!("`{text}` is not a finite number"), "not finite")
            .help("put quotes around it if it is text");
        problems.push(span, problem);
    }
}

/// Converts a place of the parser. The place of a map or a list is its first line, which a caret can mark.
fn place(sources: &Sources, source: u16, location: serde_saphyr::Location) -> Span {
    let span = location.span();
    let (start, len) = match (span.byte_offset(), span.byte_len()) {
        (Some(start), Some(len)) => (to_usize(start), to_usize(len)),
        _ => (sources.offset(source, location.line(), location.column()), 1),
    };
    let text = sources.text(source);
    let start = start.min(text.len());
    let rest = text.get(start..(start + len).min(text.len())).unwrap_or("");
    let length = rest.lines().next().unwrap_or("").trim_end().len();
    Span { source, start: u32::try_from(start).unwrap_or(u32::MAX), len: u32::try_from(length).unwrap_or(u32::MAX) }
}

fn syntax_problem(sources: &Sources, source: u16, error: &serde_saphyr::Error, problems: &mut Collector) {
    let span = error.location().map_or_else(Span::default, |location| place(sources, source, location));
    let span = Span { source, len: span.len.max(1), ..span };
    let message = error.without_snippet().to_string();
    // The parser appends a place, which is removed because the message shows the source line.
    let (message, own_help) = in_our_words(message.split(" at line ").next().unwrap_or(&message));
    let text = sources.text(source);
    let line_start = text.get(..span.start as usize).and_then(|before| before.rfind('\n')).map_or(0, |at| at + 1);
    let line = text.get(line_start..).and_then(|rest| rest.lines().next()).unwrap_or("");
    let number = text.get(..line_start).map_or(1, |before| before.matches('\n').count() + 1);
    let message = if message == TAB { format!("line {number} is indented with a tab") } else { message };
    let quotes = "inside `{ … }` and `[ … ]`, YAML requires quotes around an expression: \"${{ … }}\"";
    let help = if flow_expression(line) {
        Some(quotes.to_owned())
    } else {
        own_help.map(str::to_owned).or_else(|| in_line(&message, line, &text[span.start as usize..]))
    };
    problems.push(span, Problem::new(sources, span, message, "here").maybe_help(help));
}

/// A tab before the first word of a line.
const TAB: &str = "a tab cannot indent";

/// Rewords messages of the parser for authors of recipes.
fn in_our_words(message: &str) -> (String, Option<&'static str>) {
    let says = |word: &str| message.contains(word);
    if says("multiple YAML documents") {
        ("a recipe is one YAML document".into(), Some("remove the `---` and everything after it"))
    } else if says("into string") || says("expected string scalar") {
        ("a key must be text".into(), Some("put quotes around it, or give it a name"))
    } else if says("budget breached") || says("alias") && says("limit") {
        ("the aliases of this recipe expand to too many values".into(), Some("use fewer aliases, or split the recipe"))
    } else if says("recursion") {
        ("this recipe is nested too deeply".into(), Some("a recipe needs only a few levels of nesting"))
    } else if says("tabs disallowed") {
        (TAB.into(), Some("use spaces, for example two for each level"))
    } else if says("did not find expected key") {
        (message.to_owned(), Some("compare the indentation of this line with the lines above it"))
    } else if says("unknown anchor") {
        (message.to_owned(), Some("`*name` refers to the value that `&name` marks above"))
    } else if says("quoted scalar") {
        (message.to_owned(), Some("close the quote, on the same line if possible"))
    } else if says("unclosed bracket") {
        (message.to_owned(), Some("close it"))
    } else {
        (message.to_owned(), None)
    }
}

/// Help for a mistake that the text of its line explains; `rest` is the text from the mistake on.
fn in_line(message: &str, line: &str, rest: &str) -> Option<String> {
    if message.contains("mapping values are not allowed") {
        let (key, value) = line.trim().trim_start_matches("- ").split_once(": ")?;
        let is_plain = !value.starts_with(['"', '\'', '{', '[', '&', '*', '|', '>']);
        return Some(if is_plain && value.contains(':') {
            format!("a text that contains `: ` needs quotes: `{key}: \"{}\"`", value.trim_end().replace('"', "\\\""))
        } else {
            "compare the indentation of this line with the lines above it".to_owned()
        });
    }
    if message.contains("did not find expected ','") {
        let word: String = rest.trim_start().chars().take_while(|char| !char.is_whitespace() && *char != ':').collect();
        return Some(match rest.lines().next().map(str::trim) {
            None | Some("") => "close the `{` or the `[`".to_owned(),
            Some(_) => format!("write a `,` before `{word}`, or close the `{{` or the `[` before it"),
        });
    }
    None
}

/// True if a line has an unquoted `${{` inside a flow mapping or list.
fn flow_expression(line: &str) -> bool {
    line.match_indices("${{").any(|(at, _)| {
        let before = &line[..at];
        before.contains(['{', '[']) && !before.ends_with(['"', '\''])
    })
}

fn to_usize(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
