//! Tables and verdicts for a terminal.

use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table as Grid, TableStyle};

use crate::analysis::{Table, Verdict};

/// A line above, one below the heading, one below, as in print.
pub(crate) const RULED: TableStyle = TableStyle::new()
    .top_border(LineStyle::new('─', '─', '─', '─'))
    .header_separator(LineStyle::new('─', '─', '─', '─'))
    .bottom_border(LineStyle::new('─', '─', '─', '─'));

/// Columns of a narrow terminal.
const NARROW: u16 = 80;

pub(super) fn render(table: &Table) -> String {
    let grid = grid(table).to_string();
    let lines = [table.title.as_str(), &grid].into_iter().chain(table.notes.iter().map(String::as_str));
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// The first of two tables in 80 columns, or if it is too wide, the second one with wrapped cells. Notes are wrapped, too.
pub(crate) fn narrow([first, second]: [Table; 2]) -> String {
    let width = grid(&first).to_string().lines().map(|line| line.chars().count()).max();
    let table = if width > Some(usize::from(NARROW)) { second } else { first };
    let mut grid = grid(&table);
    grid.set_content_arrangement(ContentArrangement::Dynamic).set_width(NARROW);
    let mut text = format!("{}\n{grid}\n", wrapped(&table.title));
    for note in &table.notes {
        text += &wrapped(note);
        text.push('\n');
    }
    text
}

/// A text in lines of 80 columns, the later ones indented.
fn wrapped(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last().map_or(0, |line| line.chars().count());
        if line > 0 && line + 1 + word.chars().count() > usize::from(NARROW) {
            lines.push(format!("  {word}"));
        } else if let Some(last) = lines.last_mut() {
            if line > 0 {
                last.push(' ');
            }
            last.push_str(word);
        }
    }
    lines.join("\n")
}

fn grid(table: &Table) -> Grid {
    let mut grid = Grid::new();
    grid.load_style(RULED);
    grid.set_header(table.headings());
    for row in &table.rows {
        grid.add_row(table.texts(row).collect::<Vec<_>>());
    }
    for column in grid.column_iter_mut().skip(table.axes.len()) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    grid
}

/// One claim a paragraph: its sign, its name, the verdict; below it what it says, and why.
pub(super) fn verdicts(verdicts: &[Verdict], note: Option<String>) -> String {
    let mut lines = vec!["Claims".to_owned()];
    for verdict in verdicts {
        let (sign, word) = (verdict.state.sign(), verdict.word());
        let invariant = if verdict.invariant { " (invariant)" } else { "" };
        lines.push(format!("{sign} {}{invariant}: {word}", verdict.claim));
        lines.extend(verdict.says.iter().map(|says| format!("    {says}")));
        let paper = verdict.paper.map(|paper| format!("; the paper has {paper}")).unwrap_or_default();
        lines.push(format!("    {}{paper}", verdict.because));
    }
    lines.extend(note);
    lines.join("\n") + "\n"
}
