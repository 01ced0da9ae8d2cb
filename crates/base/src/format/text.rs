//! Text for people: safe to print, and printed without failing.

use std::{
    borrow::Cow,
    fmt::Arguments,
    io::{self, IsTerminal, Write as _},
};

/// `1 job`, `2 jobs`.
pub fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Makes characters visible with which a recipe, a worker or a file could drive the terminal: control characters, and marks that change the
/// direction of writing.
pub fn clean(text: &str) -> Cow<'_, str> {
    if text.chars().any(is_hostile) {
        let escape = |char: char| if is_hostile(char) { char.escape_default().to_string() } else { char.to_string() };
        Cow::Owned(text.chars().map(escape).collect())
    } else {
        Cow::Borrowed(text)
    }
}

/// Cleans a text of several lines like [`clean`], but keeps line breaks and tabs. A carriage return, with which programs
/// overwrite a line, becomes a line break.
pub fn clean_lines(text: &str) -> String {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let mut clean_text = String::with_capacity(text.len());
    for char in text.chars() {
        if is_hostile(char) && !matches!(char, '\n' | '\t') {
            clean_text.extend(char.escape_default());
        } else {
            clean_text.push(char);
        }
    }
    clean_text
}

/// Returns the output of a program as a terminal shows it, cleaned like [`clean_lines`]: without the sequences that set colors, hide the
/// cursor or erase a line, and with only the last text of an overwritten line.
pub fn printed_lines(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("\u{1b}[") {
        plain.push_str(&rest[..at]);
        let sequence = &rest[at + 2..];
        let end = sequence.find(|char: char| !matches!(char, '0'..='9' | ';' | ':' | '?'));
        match end.and_then(|end| Some((end, sequence[end..].chars().next()?))) {
            Some((end, 'm' | 'K' | 'h' | 'l')) => rest = &sequence[end + 1..],
            _ => {
                plain.push('\u{1b}');
                rest = &rest[at + 1..];
            }
        }
    }
    plain.push_str(rest);
    let last = |line: &str| {
        let line = line.trim_end_matches('\r');
        line.rsplit('\r').find(|text| !text.trim().is_empty()).unwrap_or_default().to_owned()
    };
    clean_lines(&plain.split('\n').map(last).collect::<Vec<_>>().join("\n"))
}

/// Cleans `text` like [`clean`], but preserves its length in bytes, so that byte offsets stay valid; line breaks and tabs
/// stay as they are.
pub fn clean_in_place(text: &str) -> Cow<'_, str> {
    let hostile = |char: char| is_hostile(char) && !matches!(char, '\n' | '\r' | '\t');
    if !text.chars().any(hostile) {
        return Cow::Borrowed(text);
    }
    let stand_in = |char: char| match (hostile(char), char.len_utf8()) {
        (false, _) => char,
        (true, 1) => '?',
        (true, 2) => '¿',
        (true, _) => '\u{fffd}',
    };
    Cow::Owned(text.chars().map(stand_in).collect())
}

fn is_hostile(char: char) -> bool {
    char.is_control() || matches!(char, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Truncates `text` to `most` characters, the last of which is then `…`.
pub fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most.saturating_sub(1)).chain(['…']).take(most).collect()
}

/// The name of a metric as people read it: `memory.peak` is `Memory: peak`, and `throughput.tokens_per_s`, whose unit is beside it,
/// is `Throughput`.
pub fn readable(name: &str) -> String {
    let mut parts: Vec<&str> = name.split('.').collect();
    if parts.len() > 1 && parts.last().is_some_and(|last| last.ends_with("_per_s")) {
        parts.pop();
    }
    let text = parts.join(": ").replace('_', " ");
    let text = text.strip_suffix(" per s").unwrap_or(&text);
    let mut chars = text.chars();
    // Names that contain capitals, such as `mAP`, are not changed.
    match chars.next() {
        Some(first) if !text.chars().any(char::is_uppercase) => first.to_uppercase().chain(chars).collect(),
        _ => text.to_owned(),
    }
}

/// Writes a line to standard error. A closed stream is not an error.
pub fn say(line: Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// True for a terminal, unless the user has disabled color (`NO_COLOR`).
pub fn use_color(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_cannot_reach_the_terminal() {
        assert_eq!(clean("plain é"), "plain é");
        assert_eq!(clean("\u{1b}[2Jgone\r\n"), "\\u{1b}[2Jgone\\r\\n");
        assert_eq!(clean("a\u{202e}b"), "a\\u{202e}b");
    }

    #[test]
    fn a_long_text_keeps_its_beginning() {
        let texts = [6, 5, 4, 1, 0].map(|max_length| shortened("größe", max_length));
        assert_eq!(texts, ["größe", "größe", "grö…", "…", ""]);
    }

    #[test]
    fn names_of_metrics_are_words() {
        let names = ["loss", "memory.peak", "throughput.tokens_per_s", "tokens_per_s", "val.top_1", "mAP", ""];
        let words = ["Loss", "Memory: peak", "Throughput", "Tokens", "Val: top 1", "mAP", ""];
        assert_eq!(names.map(readable), words);
    }

    #[test]
    fn lines_stay_lines() {
        assert_eq!(clean_lines("a\tb\r\n1/2\r2/2\n\u{1b}]0;x\u{7}"), "a\tb\n1/2\n2/2\n\\u{1b}]0;x\\u{7}");
    }

    #[test]
    fn output_is_what_a_terminal_shows_of_it() {
        let text = "\u{1b}[1;31mred\u{1b}[0m\n  0%|\r 50%|\r100%|\r\n\u{1b}[?25l\u{1b}[2Kend\u{1b}[2J\u{1b}]0;x\u{7}\n\r\n\u{1b}[3";
        assert_eq!(printed_lines(text), "red\n100%|\nend\\u{1b}[2J\\u{1b}]0;x\\u{7}\n\n\\u{1b}[3");
    }

    #[test]
    fn places_stay_right() {
        let text = "a\u{1b}b\u{85}c\u{202e}d\n";
        let clean_text = clean_in_place(text);
        assert_eq!(clean_text, "a?b¿c\u{fffd}d\n");
        assert_eq!(clean_text.len(), text.len());
    }
}
