//! Tables and verdicts in GitHub's Markdown.

use crate::analysis::{Table, Verdict};

pub(super) fn render(table: &Table) -> String {
    let mut text = format!("### {}\n\n", escape(&table.title));
    let headings = table.headings();
    text += &line(headings.iter().map(|heading| escape(heading)));
    let rule = (0..headings.len()).map(|index| if index < table.axes.len() { "---" } else { "---:" });
    text += &line(rule.map(str::to_owned));
    for row in &table.rows {
        let labels = row.labels.iter().map(|label| escape(label));
        text += &line(labels.chain(table.cells(row).map(|cell| cell.styled(escape, ("**", "**"), "≈"))));
    }
    for note in &table.notes {
        text.extend(["\n", &escape(&note.replace('◀', "bold:")), "\n"]);
    }
    text
}

/// A sentence about all that follows.
pub(super) fn remark(text: &str) -> String {
    format!("> {}\n", escape(text))
}

pub(super) fn verdicts(verdicts: &[Verdict], note: Option<String>) -> String {
    let mut text = "### Claims\n\n| claim | verdict | why | paper |\n| --- | --- | --- | ---: |\n".to_owned();
    text.extend(verdicts.iter().map(|verdict| line(verdict.row().iter().map(|cell| escape(cell)))));
    text.extend(note.map(|note| format!("\n{}\n", escape(&note))));
    text
}

fn line(cells: impl Iterator<Item = String>) -> String {
    let cells: Vec<String> = cells.collect();
    format!("| {} |\n", cells.join(" | "))
}

/// A text that Markdown takes for nothing but text: no table's edge, no emphasis, no link, no HTML.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    let mut before = None;
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        let word = |char: Option<char>| char.is_some_and(char::is_alphanumeric);
        match char {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '\n' => escaped.push(' '),
            // Inside a word it is one; at the word's edge it begins emphasis.
            '_' if word(before) && word(chars.peek().copied()) => escaped.push('_'),
            '\\' | '|' | '*' | '`' | '[' | ']' | '~' | '_' => escaped.extend(['\\', char]),
            char => escaped.push(char),
        }
        before = Some(char);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_text() {
        assert_eq!(escape("a|b<script>&[x](y)"), "a\\|b&lt;script>&amp;\\[x\\](y)");
        assert_eq!(escape("moment_1 _emphasis_ __ *b* `c`"), "moment_1 \\_emphasis\\_ \\_\\_ \\*b\\* \\`c\\`");
    }
}
