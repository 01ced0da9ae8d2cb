//! Mistakes in a recipe: always with a place, the allowed values, and a remedy.

use std::{
    collections::{BTreeMap, HashSet},
    fmt,
    path::Path,
};

use miette::{Diagnostic, GraphicalReportHandler, GraphicalTheme, LabeledSpan, Severity, SourceCode, ThemeStyles};

use super::{
    excerpt::Excerpt,
    source::{Place, Sources, Span},
};
use crate::format::clean;

/// A mistake in a recipe.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.message)]
pub struct Problem(Box<Details>);

#[derive(Debug)]
struct Details {
    message: String,
    source_text: Excerpt,
    place: Place,
    labels: Vec<LabeledSpan>,
    help: Option<String>,
}

/// A valid but possibly unintended declaration.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Warning {
    /// `file:line:column`; for a command-line argument, the flag without its value.
    pub at: String,
    /// The possible mistake.
    pub message: String,
    /// The remedy.
    pub help: String,
}

/// Largest number of mistakes that are shown.
const MAX_SHOWN: usize = 50;

/// Every mistake found, in the order of the text.
#[derive(Debug, thiserror::Error)]
pub struct Problems(Vec<Problem>);

/// Gathers mistakes, so that all of them are shown at once.
#[derive(Debug, Default)]
pub struct Collector {
    found: Vec<(Span, Problem)>,
    places: HashSet<Span>,
    warnings: BTreeMap<(u16, u32), Warning>,
}

impl Problem {
    /// A mistake at a place; `label` is shown under the caret.
    pub fn new(sources: &Sources, span: Span, message: impl Into<String>, label: impl Into<String>) -> Self {
        let excerpt = sources.excerpt(span.source);
        let marked = excerpt.marked(span);
        Self(Box::new(Details {
            message: clean(&message.into()).into_owned(),
            source_text: excerpt,
            place: sources.place(span),
            labels: vec![LabeledSpan::new_primary_with_span(Some(clean(&label.into()).into_owned()), marked)],
            help: None,
        }))
    }

    /// Marks a further place of the same text.
    #[must_use]
    pub fn label(mut self, span: Span, label: impl Into<String>) -> Self {
        self.0.labels.push(LabeledSpan::new_with_span(Some(label.into()), span));
        self
    }

    /// Adds a remedy.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.0.help = Some(clean(&help.into()).into_owned());
        self
    }

    /// Adds a remedy, if there is one.
    #[must_use]
    pub fn maybe_help(mut self, help: Option<String>) -> Self {
        self.0.help = help.map(|help| clean(&help).into_owned()).or(self.0.help);
        self
    }

    /// Adds a remark to the remedy.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        let note = clean(&note.into()).into_owned();
        self.0.help = Some(match self.0.help.take() {
            Some(help) => format!("{help}\n{note}"),
            None => note,
        });
        self
    }

    /// Place of the mistake.
    pub fn place(&self) -> &Place {
        &self.0.place
    }

    /// The text under the caret.
    pub fn caption(&self) -> Option<&str> {
        self.0.labels.iter().find(|label| label.primary())?.label()
    }
}

impl Diagnostic for Problem {
    fn severity(&self) -> Option<Severity> {
        Some(Severity::Error)
    }

    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.0.help.as_ref().map(|help| Box::new(help) as Box<dyn fmt::Display>)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        Some(&self.0.source_text)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        Some(Box::new(self.0.labels.iter().cloned()))
    }
}

impl Collector {
    /// Adds a mistake. Only the first mistake at a place is kept: a bad value occurs at every point that uses it, and a
    /// consequence of a mistake is not another mistake.
    pub fn push(&mut self, span: Span, problem: Problem) {
        if self.places.insert(span) {
            self.found.push((span, problem));
        }
    }

    /// Number of mistakes so far.
    pub(super) fn len(&self) -> usize {
        self.found.len()
    }

    /// Adds a warning. Only the first warning at a place is kept.
    pub fn warn(&mut self, sources: &Sources, span: Span, message: impl AsRef<str>, help: impl AsRef<str>) {
        self.warnings.entry((span.source, span.start)).or_insert_with(|| {
            let name = sources.name(span.source);
            // The value may be confidential.
            let at = match name.split_once('=') {
                Some((flag, _)) if name.starts_with("--") => format!("{flag}=…"),
                _ => sources.location(span),
            };
            let text = |text: &str| clean(text).into_owned();
            Warning { at, message: text(message.as_ref()), help: text(help.as_ref()) }
        });
    }

    /// A collector with the same warnings; `None` if there are mistakes.
    pub(super) fn warned(&self) -> Option<Self> {
        let warnings = self.warnings.clone();
        self.found.is_empty().then(|| Self { warnings, ..Self::default() })
    }

    /// The warnings, in the order of the text.
    pub fn take_warnings(&mut self) -> Vec<Warning> {
        std::mem::take(&mut self.warnings).into_values().collect()
    }

    /// Returns `value` if there are no mistakes.
    pub fn finish<T>(self, value: T) -> Result<T, Problems> {
        if self.found.is_empty() { Ok(value) } else { self.fail() }
    }

    /// Fails with the mistakes.
    pub fn fail<T>(mut self) -> Result<T, Problems> {
        self.found.sort_by_key(|(span, _)| (span.source, span.start));
        Err(Problems(self.found.into_iter().map(|(_, problem)| problem).collect()))
    }
}

impl Problems {
    /// The mistakes.
    pub fn iter(&self) -> impl Iterator<Item = &Problem> {
        self.0.iter()
    }

    /// The text for a terminal of `width` columns.
    pub fn render(&self, color: bool, width: usize) -> String {
        let styles = if color { ThemeStyles::ansi() } else { ThemeStyles::none() };
        let theme = GraphicalTheme { styles, ..GraphicalTheme::unicode_nocolor() };
        let handler = GraphicalReportHandler::new_themed(theme).with_width(width).with_context_lines(1);
        let mut text = String::new();
        for problem in self.0.iter().take(MAX_SHOWN) {
            if handler.render_report(&mut text, problem).is_err() {
                text.extend([&problem.0.place.to_string(), ": ", &problem.0.message, "\n"]);
            }
        }
        if self.0.len() > MAX_SHOWN {
            text.extend(["… and ", &(self.0.len() - MAX_SHOWN).to_string(), " more\n"]);
        }
        text
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(f, "{separator}{}: {problem}", problem.place())?;
        }
        Ok(())
    }
}

/// Names that a suggestion lists at most; of more, the nearest ones.
const MAX_LISTED: usize = 12;

/// A suggestion for an unknown word: the most similar allowed word, and the list of allowed words. If there are many
/// words, only a few are listed, first the words that share a part with the unknown one.
pub fn suggest<'a>(word: &str, what: &str, allowed: impl IntoIterator<Item = &'a str>) -> Option<String> {
    const MAX_LISTED_WORDS: usize = 5;
    let mut words = HashSet::new();
    let mut allowed: Vec<&str> = allowed.into_iter().filter(|word| words.insert(*word)).collect();
    if allowed.is_empty() {
        return None;
    }
    let list = |words: &[&str]| words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
    let nearest = nearest(word, allowed.iter().copied());
    if allowed.len() > MAX_LISTED {
        if let Some(candidate) = nearest {
            return Some(format!("did you mean `{candidate}`?"));
        }
        allowed.sort_by_key(|candidate| std::cmp::Reverse(kinship(word, candidate)));
        let rest_count = allowed.len() - MAX_LISTED_WORDS;
        return Some(format!("{what}: {} and {rest_count} more", list(&allowed[..MAX_LISTED_WORDS])));
    }
    Some(match nearest {
        Some(candidate) => format!("did you mean `{candidate}`? {what}: {}", list(&allowed)),
        None => format!("{what}: {}", list(&allowed)),
    })
}

/// Help on a file that does not exist: the name of a similar one in its folder, else that folder.
pub fn near_file(base: &Path, path: &str) -> String {
    let file = base.join(path);
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let entries = fs_err::read_dir(folder).into_iter().flatten().flatten();
    let names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    let (inner, name) = path.rsplit_once('/').map_or(("", path), |(_, name)| path.split_at(path.len() - name.len()));
    match nearest(name, names.iter().map(String::as_str)) {
        Some(near) => format!("did you mean `{inner}{near}`?"),
        None => format!(
            "the searched folder is `{}`",
            std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned()).display()
        ),
    }
}

/// The allowed word of which an unknown one is a misspelling.
pub fn nearest<'a>(word: &str, allowed: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let candidates = allowed.into_iter().map(|candidate| (strsim::damerau_levenshtein(word, candidate), candidate));
    let similar = candidates.filter(|(distance, candidate)| {
        // A third of the letters may differ, but not all of them: `b` is not a misspelled `a`.
        let letters = candidate.chars().count().min(word.chars().count());
        *distance <= (letters / 3).max(1) && *distance < letters
    });
    similar.min_by_key(|(distance, _)| *distance).map(|(_, candidate)| candidate)
}

/// A measure of how much two names have in common: whole parts between `.`, `_` and the like before letters.
fn kinship(word: &str, candidate: &str) -> (usize, usize, u64) {
    let parts = |name: &str| -> Vec<String> {
        name.split(|char: char| !char.is_alphanumeric())
            .map(str::to_lowercase)
            .filter(|part| !part.is_empty())
            .collect()
    };
    let (wanted, has) = (parts(word), parts(candidate));
    let shared_parts = has.iter().filter(|part| wanted.contains(part)).count();
    let beginnings = has.iter().filter(|part| wanted.iter().any(|word| starts_alike(word, part))).count();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 1000")]
    let similarity = (strsim::jaro_winkler(&word.to_lowercase(), &candidate.to_lowercase()) * 1000.0) as u64;
    // Of two names with the same number of shared parts, the one with fewer other parts is closer.
    (shared_parts * 100 / (has.len() + wanted.len()).max(1), beginnings, similarity)
}

fn starts_alike(word: &str, part: &str) -> bool {
    let (short, long) = if word.len() < part.len() { (word, part) } else { (part, word) };
    short.len() >= 3 && long.starts_with(short)
}
