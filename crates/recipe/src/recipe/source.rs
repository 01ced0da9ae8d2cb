//! Source texts of recipes, and places in them.

use std::{
    borrow::Cow,
    fmt,
    path::{Component, Path, PathBuf},
    sync::Arc,
};

use miette::SourceSpan;
use serde::Serialize;

use super::excerpt::Excerpt;
use crate::format::{clean, clean_in_place};

/// A place in one of the [`Sources`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Span {
    /// Index of the text.
    pub source: u16,
    /// Offset of the first byte.
    pub start: u32,
    /// Length in bytes.
    pub len: u32,
}

/// A place as people name it; line and column are counted from 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Place {
    /// The file; for a command-line argument, the argument.
    pub file: String,
    /// The line.
    pub line: usize,
    /// The column, in characters.
    pub column: usize,
}

/// A value with its place in a text.
#[derive(Debug, Clone)]
pub struct Spanned<T> {
    /// The value.
    pub value: T,
    /// The value's place.
    pub span: Span,
}

/// The source texts of recipes: files, and one text for every `--set` and `--axis`.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    texts: Vec<Text>,
}

/// A text of a recipe.
#[derive(Debug, Clone)]
struct Text {
    name: String,
    /// The path of the file; `None` for a command-line argument.
    path: Option<Arc<Path>>,
    /// Base folder of its relative paths.
    folder: Arc<Path>,
    whole: Arc<str>,
    /// The text without control characters, for messages. The shown text has the same length as the original.
    shown: Arc<str>,
    /// Offsets of lines.
    lines: Arc<[usize]>,
}

impl<T> Spanned<T> {
    /// Creates a value with its place.
    pub const fn new(value: T, span: Span) -> Self {
        Self { value, span }
    }
}

impl Span {
    /// The part of this place that begins `offset` bytes later and is `len` bytes long.
    pub fn part(self, offset: usize, len: usize) -> Self {
        Self { source: self.source, start: self.start + to_u32(offset), len: to_u32(len) }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, column } = self;
        write!(f, "{file}:{line}:{column}")
    }
}

impl From<Span> for SourceSpan {
    fn from(span: Span) -> Self {
        (span.start as usize, span.len as usize).into()
    }
}

impl Sources {
    /// Adds a file's text, and returns its index. Relative paths in it start from its folder.
    pub fn add_file(&mut self, path: &Path, text: impl Into<Arc<str>>) -> u16 {
        self.add_in(display_name(path), Some(path), text)
    }

    /// Adds a command-line argument under the name that messages show, and returns its index. Relative paths in it
    /// start from the current folder.
    pub fn add(&mut self, name: impl AsRef<str>, text: impl Into<Arc<str>>) -> u16 {
        self.add_in(name, None, text)
    }

    fn add_in(&mut self, name: impl AsRef<str>, path: Option<&Path>, text: impl Into<Arc<str>>) -> u16 {
        let folder = path.and_then(Path::parent).unwrap_or(Path::new(""));
        let text: Arc<str> = text.into();
        let shown_text = match clean_in_place(&text) {
            Cow::Borrowed(_) => Arc::clone(&text),
            Cow::Owned(text) => text.into(),
        };
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        let lines = std::iter::once(0).chain(ends).collect();
        let name = clean(name.as_ref()).into_owned();
        self.texts.push(Text {
            name,
            path: path.map(Into::into),
            folder: folder.into(),
            whole: text,
            shown: shown_text,
            lines,
        });
        u16::try_from(self.texts.len() - 1).unwrap_or(u16::MAX)
    }

    /// A text.
    pub fn text(&self, source: u16) -> &str {
        self.texts.get(usize::from(source)).map_or("", |text| &text.whole)
    }

    /// All texts, with the names that messages give them.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.texts.iter().flat_map(|text| [text.name.as_str(), &text.whole])
    }

    /// The files, with their texts.
    pub fn files(&self) -> impl Iterator<Item = (&Path, &str)> {
        self.texts.iter().filter_map(|text| Some((text.path.as_deref()?, &*text.whole)))
    }

    /// The name of a text.
    pub fn name(&self, source: u16) -> &str {
        self.texts.get(usize::from(source)).map_or("", |text| &text.name)
    }

    /// The folder that relative paths in a text start from; empty for the current one.
    pub fn folder(&self, source: u16) -> &Path {
        self.texts.get(usize::from(source)).map_or(Path::new(""), |text| &text.folder)
    }

    /// The characters at a place.
    pub fn slice(&self, span: Span) -> &str {
        let start = span.start as usize;
        self.text(span.source).get(start..start + span.len as usize).unwrap_or("")
    }

    /// A text with its name, for diagnostics.
    pub(super) fn excerpt(&self, source: u16) -> Excerpt {
        let text = self.texts.get(usize::from(source)).map_or_else(|| Arc::from(""), |text| Arc::clone(&text.shown));
        Excerpt { name: self.name(source).to_owned(), text }
    }

    /// `file:line:column` of a place.
    pub fn location(&self, span: Span) -> String {
        self.place(span).to_string()
    }

    /// A place, for people.
    pub fn place(&self, span: Span) -> Place {
        let start = span.start as usize;
        let lines = self.texts.get(usize::from(span.source)).map_or(&[0][..], |text| &text.lines);
        let line = lines.partition_point(|begin| *begin <= start);
        let begin = lines[line.saturating_sub(1)];
        let column = self.text(span.source).get(begin..start).unwrap_or("").chars().count() + 1;
        Place { file: self.name(span.source).to_owned(), line, column }
    }

    /// The byte offset of a line and a column, both counted from 1.
    pub(super) fn offset(&self, source: u16, line: u64, column: u64) -> usize {
        let text = self.text(source);
        let line = usize::try_from(line.saturating_sub(1)).unwrap_or(0);
        let column = usize::try_from(column.saturating_sub(1)).unwrap_or(0);
        let start: usize = text.split_inclusive('\n').take(line).map(str::len).sum();
        let rest = text.get(start..).unwrap_or("");
        start + rest.chars().take_while(|char| *char != '\n').take(column).map(char::len_utf8).sum::<usize>()
    }
}

/// Name of a file in messages: the given path, without components such as `sweeps/..`.
fn display_name(path: &Path) -> String {
    let mut name = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir if name.file_name().is_some() => {
                name.pop();
            }
            other => name.push(other),
        }
    }
    name.display().to_string()
}

fn to_u32(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
