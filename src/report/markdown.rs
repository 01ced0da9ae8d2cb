//! Tables in GitHub's Markdown.

use super::Table;

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

fn line<'a>(cells: impl Iterator<Item = &'a str>) -> String {
    let cells: Vec<String> = cells.map(escape).collect();
    format!("| {} |\n", cells.join(" | "))
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('|', "\\|").replace('*', "\\*").replace('\n', " ")
}
