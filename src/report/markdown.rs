//! Tables and verdicts in GitHub's Markdown.

use super::{State, Table, Verdict};

pub(super) fn render(table: &Table) -> String {
    let mut text = format!("### {}\n\n", escape(&table.title));
    let headings = table.headings();
    text += &line(headings.iter().map(String::as_str));
    let rule = (0..headings.len()).map(|index| if index < table.axes.len() { "---" } else { "---:" });
    text += &line(rule);
    for row in &table.rows {
        let texts: Vec<String> = table.texts(row).collect();
        text += &line(texts.iter().map(String::as_str));
    }
    for note in &table.notes {
        text.extend(["\n", &escape(note), "\n"]);
    }
    text
}

pub(super) fn verdicts(verdicts: &[Verdict]) -> String {
    let mut text = "### Claims\n\n| claim | verdict | why | paper |\n| --- | --- | --- | ---: |\n".to_owned();
    for verdict in verdicts {
        let word = match verdict.state {
            State::Supported => "supported",
            State::Refuted => "refuted",
            State::Undecided => "undecided",
        };
        let claim = verdict.says.as_deref().unwrap_or(&verdict.claim);
        let paper = verdict.paper.map(|paper| paper.to_string()).unwrap_or_default();
        text += &line([claim, word, &verdict.because, &paper].into_iter());
    }
    text
}

fn line<'a>(cells: impl Iterator<Item = &'a str>) -> String {
    let cells: Vec<String> = cells.map(escape).collect();
    format!("| {} |\n", cells.join(" | "))
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('|', "\\|").replace('*', "\\*").replace('\n', " ")
}
