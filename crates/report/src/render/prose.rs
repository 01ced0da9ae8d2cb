//! Sentences in which code is between backticks, as in Markdown.

use maud::{Markup, html};

use crate::format::clean;

/// A part of a sentence.
#[derive(Debug, PartialEq)]
pub(super) enum Part<'a> {
    Text(&'a str),
    Code(&'a str),
}

/// Splits `text` at its backticks; with an odd number of backticks, all of them are text.
pub(super) fn parts(text: &str) -> Vec<Part<'_>> {
    let pieces: Vec<&str> = text.split('`').collect();
    if pieces.len().is_multiple_of(2) {
        return vec![Part::Text(text)];
    }
    let part = |(index, piece)| if index % 2 == 0 { Part::Text(piece) } else { Part::Code(piece) };
    pieces.into_iter().enumerate().map(part).collect()
}

/// A sentence of a page.
pub fn markup(text: &str) -> Markup {
    html! {
        @for part in parts(text) {
            @match part {
                Part::Text(text) => (clean(text)),
                Part::Code(code) => code { (clean(code)) },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_in_a_sentence_is_code_and_never_an_element() {
        assert_eq!(markup("`lr` below 1").into_string(), "<code>lr</code> below 1");
        assert_eq!(markup("a `<b>` & ``").into_string(), "a <code>&lt;b&gt;</code> &amp; <code></code>");
        assert_eq!(markup("one ` alone").into_string(), "one ` alone");
    }
}
