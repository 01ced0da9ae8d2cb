//! Patterns that read a number in lines like the line in which it was found.

use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::{
    Context, STEPS,
    names::{Tag, WORD_FOR_NUMBER},
    regex,
};

/// Units that follow numbers, and that the ends of metrics' names stand for.
const UNITS: [&str; 19] = [
    "ms", "s", "us", "ns", "KiB", "MiB", "GiB", "kB", "MB", "GB", "sec", "secs", "seconds", "min", "mins", "minutes",
    "h", "hours", "KB",
];
/// The step of a line.
pub(super) static STEP: LazyLock<Regex> = LazyLock::new(|| {
    let words = STEPS.join("|");
    regex(&format!(
        r"(?i)(?:^|[^A-Za-z0-9_])(?<word>{words})(?<gap>[ \t]*[:=#]?[ \t]*)(?<number>\d{{1,3}}(?:,\d{{3}})+|\d+)(?:[^.\dA-Za-z]|$)"
    ))
});
/// The call around a number, which a placeholder reads.
static CALL: LazyLock<Regex> = LazyLock::new(|| regex(r"[A-Za-z_][A-Za-z0-9_.]*\(['\x22\[]?$"));
/// Marks before a number.
const MARKS: [char; 8] = ['~', '≈', '<', '>', '≤', '≥', '$', '€'];
/// A number in place of an earlier one.
static REPLACED: LazyLock<Regex> = LazyLock::new(|| regex(r"^[ \t]*(?:->|→|=>)[ \t]*[-+]?\.?\d"));

/// The part of a pattern that distinguishes lines of one kind from other lines.
#[derive(Debug)]
pub(super) enum Lead {
    /// Words, of which the first has this place in the line.
    Words(String, usize),
    /// The beginning of a line, directly before the step or the words of the number.
    Start(String),
    /// All of a line before the words of the number.
    Whole(String),
}

impl Lead {
    /// The words of a tag.
    pub(super) fn of(tag: &Tag) -> Option<Self> {
        let at = tag.words.first()?.0;
        let words: Vec<String> =
            tag.words.iter().map(|(_, word)| format!("{}[^A-Za-z]", regex::escape(word))).collect();
        Some(Self::Words(format!("(?:^|[^A-Za-z]){}", words.join("(?:.*?[^A-Za-z])?")), at))
    }

    /// The first word of the line, or the beginning of the line if that is the word of the step or of the number itself.
    pub(super) fn first_word(line: &str, number: &Captures<'_>) -> Self {
        const START: &str = "^[^A-Za-z]*";
        let end = number.name("words").map_or(0, |words| words.start());
        let at = line.find(|char: char| char.is_ascii_alphabetic()).unwrap_or(0).min(end);
        let length = line[at..end].find(|char: char| !char.is_ascii_alphabetic() && char != '_').unwrap_or(end - at);
        let word = &line[at..at + length];
        if word.is_empty() || STEPS.contains(&word.to_ascii_lowercase().as_str()) {
            return Self::Start(START.to_owned());
        }
        Self::Words(format!(r"{START}{}\b", regex::escape(word)), at)
    }

    /// All of a line before the words of a number, with any numbers in place of those there.
    pub(super) fn whole(line: &str, number: &Captures<'_>, context: &Context) -> Self {
        let end = number.name("words").map_or(0, |words| words.start());
        let step = context
            .steps
            .before(line, end)
            .and_then(|step| Some((step.name("number")?.range(), step["word"].to_ascii_lowercase())));
        let mark = context.ranks.mark(line).unwrap_or_default();
        let mut out = "^".to_owned();
        let mut rest = line[..end].char_indices().peekable();
        while let Some((at, char)) = rest.next() {
            if let Some((place, name)) = step.as_ref().filter(|(place, _)| place.start == at) {
                while rest.next_if(|(next, _)| place.contains(next)).is_some() {}
                while rest.next_if(|(_, next)| next.is_ascii_digit() || ".:".contains(*next)).is_some() {}
                out.extend(["{", name, "}[.:]?"]);
            } else if char.is_ascii_digit() && !mark.contains(&at) {
                while rest.next_if(|(_, next)| next.is_ascii_digit() || ".:".contains(*next)).is_some() {}
                out.push_str(r"[\d.:]+");
            } else if char.is_whitespace() {
                while rest.next_if(|(_, next)| next.is_whitespace()).is_some() {}
                out.push_str(r"\s*");
            } else {
                out.push_str(&regex::escape(char.encode_utf8(&mut [0; 4])));
            }
        }
        Self::Whole(out)
    }
}

/// The unit behind a number, and whether there is space before it.
pub(super) fn unit_of<'t>(line: &'t str, number: &Captures<'t>) -> Option<(&'t str, bool)> {
    let rest = &line[number.name("number")?.end()..];
    let text = rest.trim_start();
    let unit = &text[..text.find(|char: char| !char.is_ascii_alphabetic()).unwrap_or(text.len())];
    UNITS.contains(&unit).then_some((unit, text.len() < rest.len()))
}

/// True for a number such as `98/100`.
pub(super) fn is_ratio(number: &Captures<'_>) -> bool {
    number.name("whole").is_some()
}

/// A pattern for a number in a line: its words, after the lead and the step if the line has one before them.
pub(super) fn pattern(line: &str, number: &Captures<'_>, name: &str, lead: Option<Lead>, context: &Context) -> String {
    let (begin, end) = number.name("words").map_or((0, 0), |words| (words.start(), words.end()));
    let reading = reading(line, number, name);
    // A word before the first one would change the metric, unless the line has more words than a name.
    let before = line[..begin].trim_end();
    let is_word = before.ends_with(|char: char| char.is_ascii_alphabetic() || char == '_') && !ends_with_number(before);
    let continues = before.len() < begin && is_word;
    // A word such as `nan` is a number, too.
    let number = if context.has_words { format!("|{WORD_FOR_NUMBER}") } else { String::new() };
    let boundary = match line[..begin].ends_with('-') {
        true => "-".to_owned(),
        // `---- acc: 0.9`
        false if before.ends_with("--") => r"(?:^|\s)-+\s*".to_owned(),
        false if continues => r"(?:^|\s)".to_owned(),
        false => format!(r"(?:^|[^A-Za-z_\s-]|(?:^|\s)-{number})\s*"),
    };
    let step = context.steps.before(line, end);
    let step_start = step.as_ref().and_then(|step| step.name("word")).map_or(0, |word| word.start());
    let step = step.map(|step| {
        let word = &step["word"];
        format!(r"{word}\s*[:=#]?\s*{{{}}}", word.to_ascii_lowercase())
    });
    let gap = match continues {
        true => r".*?\s".to_owned(),
        false if number.is_empty() => r"(?:.*?[^A-Za-z_\s])??\s*".to_owned(),
        false => format!(r"(?:.*?(?:[^A-Za-z_\s]{number}))??\s*"),
    };
    let whole = match (lead, step) {
        // It has the mark of the first process.
        (Some(Lead::Whole(start)), _) => return format!("{start}{reading}"),
        (Some(Lead::Start(start)), None) => format!("{start}{reading}"),
        (Some(Lead::Start(start)), Some(step)) => format!("{start}{step}{gap}{reading}"),
        (Some(Lead::Words(words, at)), Some(step)) if at < step_start => format!("{words}.*?{step}{gap}{reading}"),
        (Some(Lead::Words(words, _)), Some(step)) => format!("{step}.*?{words}{gap}{reading}"),
        (Some(Lead::Words(words, _)), None) => format!("{words}{gap}{reading}"),
        (None, Some(step)) => format!("{step}{gap}{reading}"),
        (None, None) => format!("{boundary}{reading}"),
    };
    match context.ranks.first_mark(line) {
        Some(mark) => format!("{mark}.*?{}", whole.trim_start_matches('^')),
        None => whole,
    }
}

/// True for a text that ends with a word in place of a number.
fn ends_with_number(text: &str) -> bool {
    static END: LazyLock<Regex> = LazyLock::new(|| regex(&format!("{WORD_FOR_NUMBER}$")));
    END.is_match(text)
}

/// The part of a pattern with the words of a number, its separator and its place.
fn reading(line: &str, number: &Captures<'_>, name: &str) -> String {
    let (words, end) = number.name("words").map_or(("", 0), |words| (words.as_str(), words.end()));
    let start = number.name("number").map_or(end, |number| number.start());
    let words: Vec<String> = words.split_whitespace().map(regex::escape).collect();
    let remark = number.name("remark").map_or("", |remark| remark.as_str());
    let gap = &line[end + remark.len()..start];
    let gap = CALL.find(gap).map_or(gap, |call| &gap[..call.start()]).trim();
    // A placeholder reads the mark of a number, too.
    let gap = gap.strip_suffix('=').filter(|gap| gap.ends_with(MARKS)).unwrap_or(gap);
    let is_arrow = gap.ends_with("->") || gap.ends_with("=>");
    let gap = if is_arrow { gap } else { gap.trim_end_matches(MARKS).trim_end() };
    let separator = match gap {
        "" | ":" | "=" => r"\s*[:=]?\s*".to_owned(),
        "'" | "\"" | "':" | "\":" | "'=" | "\"=" => r#"['"]?\s*[:=]?\s*"#.to_owned(),
        gap => {
            let parts: Vec<String> = gap.split_whitespace().map(regex::escape).collect();
            format!(r"\s*{}\s*", parts.join(r"\s*").replace(r"\->", "->"))
        }
    };
    let rest = number.name("number").map_or("", |number| &line[number.end()..]);
    let earlier = if REPLACED.is_match(rest) { r"\S+\s*(?:->|→|=>)\s*" } else { "" };
    let placeholder = if is_ratio(number) { format!("{{{name}:ratio}}") } else { format!("{{{name}}}") };
    // A program that chooses the unit by the size of the number has another metric for each unit.
    let unit = match unit_of(line, number) {
        Some((unit, has_space)) => format!("{}{unit}(?:[^A-Za-z]|$)", if has_space { r"\s+" } else { "" }),
        None => String::new(),
    };
    format!("{}{}{separator}{earlier}{placeholder}{unit}", words.join(r"\s+"), regex::escape(remark))
}
