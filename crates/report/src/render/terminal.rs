//! Tables and verdicts for a terminal.

use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table as Grid, TableStyle};

use rustix::termios::tcgetwinsize;

use crate::analysis::{Table, Verdict};

/// A line above, one below the heading, one below, as in print.
pub const RULED: TableStyle = TableStyle::new()
    .top_border(LineStyle::new('─', '─', '─', '─'))
    .header_separator(LineStyle::new('─', '─', '─', '─'))
    .bottom_border(LineStyle::new('─', '─', '─', '─'));

/// Columns of a narrow terminal.
const NARROW: u16 = 80;

/// A table in the width of the terminal, if standard output is one.
pub(super) fn render(table: &Table) -> String {
    let width = tcgetwinsize(std::io::stdout()).ok().map(|size| usize::from(size.ws_col)).filter(|width| *width > 0);
    fitted(table, width)
}

/// A table of `width` columns. If it is wider, its columns are in several parts, one below the other, each with the labels of the rows, and
/// a note.
fn fitted(table: &Table, width: Option<usize>) -> String {
    let parts = width.map_or_else(|| vec![(0..table.columns.len()).collect()], |width| parts(table, width));
    let mut text = table.title.clone() + "\n";
    for part in &parts {
        let mut grid = grid(table, part);
        if let Some(width) = width.and_then(|width| u16::try_from(width).ok())
            && columns_of(&grid) > usize::from(width)
        {
            grid.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
        }
        text.extend([&grid.to_string(), "\n"]);
    }
    if parts.len() > 1 {
        text.extend([format!("{} columns in {} parts: the terminal is narrow.\n", table.columns.len(), parts.len())]);
    }
    text.extend(table.notes.iter().flat_map(|note| [note.as_str(), "\n"]));
    text
}

/// The columns of a table in parts that each fit a width, in their order; a part has at least one.
fn parts(table: &Table, width: usize) -> Vec<Vec<usize>> {
    let all: Vec<usize> = (0..table.columns.len()).collect();
    if columns_of(&grid(table, &all)) <= width {
        return vec![all];
    }
    let mut parts: Vec<Vec<usize>> = Vec::new();
    for column in all {
        let last = parts.last().map(|part| part.iter().copied().chain([column]).collect::<Vec<_>>());
        match last.filter(|part| columns_of(&grid(table, part)) <= width) {
            Some(part) => {
                parts.pop();
                parts.push(part);
            }
            None => parts.push(vec![column]),
        }
    }
    parts
}

/// The width of a grid that is as wide as it wants to be.
fn columns_of(grid: &Grid) -> usize {
    grid.to_string().lines().map(|line| line.chars().count()).max().unwrap_or(0)
}

/// The first of two tables in 80 columns, or if it is too wide, the second one with wrapped cells. Notes are wrapped, too.
pub fn narrow([first, second]: [Table; 2]) -> String {
    let all_columns = |table: &Table| (0..table.columns.len()).collect::<Vec<_>>();
    let width = columns_of(&grid(&first, &all_columns(&first)));
    let table = if width > usize::from(NARROW) { second } else { first };
    let mut grid = grid(&table, &all_columns(&table));
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

/// The labels of the rows, and some of the columns.
fn grid(table: &Table, columns: &[usize]) -> Grid {
    let mut grid = Grid::new();
    grid.load_style(RULED);
    let axes = table.axes.len();
    let chosen = |mut texts: Vec<String>| -> Vec<String> {
        let cells = columns.iter().map(|column| texts.get_mut(axes + column).map(std::mem::take).unwrap_or_default());
        let cells: Vec<String> = cells.collect();
        texts.truncate(axes);
        texts.extend(cells);
        texts
    };
    grid.set_header(chosen(table.headings()));
    for row in &table.rows {
        grid.add_row(chosen(table.texts(row).collect()));
    }
    for column in grid.column_iter_mut().skip(table.axes.len()) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    grid
}

/// One paragraph per claim: its sign, its name, the verdict; below it the statement and the reason.
pub(super) fn verdicts(verdicts: &[Verdict], note: Option<String>) -> String {
    let mut lines = vec!["Claims".to_owned()];
    for verdict in verdicts {
        let (sign, word) = (verdict.state.sign(), verdict.word());
        let invariant = if verdict.invariant { " (invariant)" } else { "" };
        lines.push(format!("{sign} {}{invariant}: {word}", verdict.claim));
        lines.extend(verdict.says.iter().map(|text| format!("    {text}")));
        // The reason has the comparison with it, if there is an interval.
        let paper = verdict.paper.filter(|_| verdict.paper_within.is_none());
        let paper = paper.map(|paper| format!("; the paper has {paper}")).unwrap_or_default();
        lines.push(format!("    {}{paper}", verdict.because));
    }
    lines.extend(note);
    lines.join("\n") + "\n"
}
