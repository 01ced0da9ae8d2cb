//! Excerpts of texts in messages: safe for a terminal, and of limited width.

use std::sync::Arc;

use miette::{MietteError, MietteSpanContents, SourceCode, SourceSpan, SpanContents};

use super::source::Span;

/// Maximum width of a line. Only the part of a longer line around the place is shown.
const MAX_WIDTH: usize = 160;

/// A text with its name.
#[derive(Debug, Clone)]
pub(super) struct Excerpt {
    pub(super) name: String,
    pub(super) text: Arc<str>,
}

impl SourceCode for Excerpt {
    fn read_span<'a>(
        &'a self,
        span: &SourceSpan,
        before: usize,
        after: usize,
    ) -> Result<Box<dyn SpanContents<'a> + 'a>, MietteError> {
        let contents = self.text.read_span(span, before, after)?;
        let text = std::str::from_utf8(contents.data()).unwrap_or("");
        if text.lines().all(|line| line.len() <= MAX_WIDTH) {
            return Ok(self.named(contents.data(), *contents.span(), contents.line(), contents.column()));
        }
        // Only the part of the line around the place.
        let start = span.offset().min(self.text.len());
        let line_start = self.text[..floor(&self.text, start)].rfind('\n').map_or(0, |at| at + 1);
        let line_end = self.text[floor(&self.text, start)..].find('\n').map_or(self.text.len(), |at| start + at);
        let from = floor(&self.text, start.saturating_sub(MAX_WIDTH / 4).max(line_start));
        let to = floor(&self.text, (from + MAX_WIDTH).min(line_end).max(start));
        let line = self.text[..line_start].matches('\n').count();
        let column = self.text[line_start..from].chars().count();
        Ok(self.named(&self.text.as_bytes()[from..to], (from, to - from).into(), line, column))
    }
}

impl Excerpt {
    /// The part of a place that is shown; a longer mark would not fit.
    pub(super) fn marked(&self, span: Span) -> Span {
        let start = (span.start as usize).min(self.text.len());
        let end = floor(&self.text, start + (span.len as usize).min(MAX_WIDTH / 2));
        span.part(0, end.saturating_sub(start))
    }

    fn named<'a>(
        &'a self,
        data: &'a [u8],
        span: SourceSpan,
        line: usize,
        column: usize,
    ) -> Box<dyn SpanContents<'a> + 'a> {
        Box::new(MietteSpanContents::new_named(self.name.clone(), data, span, line, column, line + 1))
    }
}

/// The start of the character that the byte at `at` belongs to.
fn floor(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}
