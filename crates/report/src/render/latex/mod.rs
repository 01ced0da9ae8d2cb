//! Tables and verdicts in LaTeX, for a document that loads the package `booktabs`.
//!
//! `header.rs` has the lines of headings, `siunitx.rs` columns that are aligned at the decimal point, `escape.rs` texts in which LaTeX
//! finds no command.

mod escape;
mod header;
mod siunitx;

use escape::{escape, prose};
use header::Header;

use crate::analysis::{Column, Table, Verdict};

/// Characters that fit into a line of a page, upright and turned. Wider tables are scaled down, turned, and at last split.
const UPRIGHT: usize = 66;
const SHRUNK: usize = 100;
const TURNED: usize = 180;
/// Room between two columns, in characters.
const GAP: usize = 2;

/// Way in which numbers are aligned in their columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Numbers {
    /// To the right, as text.
    Text,
    /// At the decimal point, by the package `siunitx`.
    Siunitx,
}

/// A table as a float. Columns of equal values on the column axes share a heading.
pub(super) fn render(table: &Table, numbers: Numbers) -> String {
    let header = Header::new(table);
    let labels = table.axes.len();
    let mut widths: Vec<usize> = header.widths();
    for row in &table.rows {
        for (width, text) in widths.iter_mut().zip(table.texts(row)) {
            *width = (*width).max(text.chars().count() + GAP);
        }
    }
    header.widen(&mut widths);
    let width: usize = widths.iter().sum();
    let follows: Vec<bool> = table.columns.iter().map(Column::follows).collect();
    let parts = parts(&widths, &follows, if width > TURNED { TURNED } else { width });
    let (kinds, rows) = match numbers {
        Numbers::Text => (vec!["r".to_owned(); table.columns.len()], text_rows(table)),
        Numbers::Siunitx => siunitx::columns(table),
    };
    let kinds: Vec<String> = vec!["l".to_owned(); labels].into_iter().chain(kinds).collect();
    let tabulars = parts.iter().map(|columns| {
        let of = |cells: &[String]| columns.iter().map(|column| cells[*column].clone()).collect::<Vec<_>>();
        tabular(&of(&kinds).concat(), &header.lines(columns, numbers), rows.iter().map(|row| of(row)))
    });
    let notes = table.notes.iter().map(|note| prose(&note.replace('◀', "bold:")));
    float(&prose(&table.title), &table.name, Setting::of(width), numbers, tabulars, notes)
}

/// The rows with their labels, with numbers as text.
fn text_rows(table: &Table) -> Vec<Vec<String>> {
    let rows = table.rows.iter().map(|row| {
        let labels = row.labels.iter().map(|label| escape(label));
        labels.chain(table.cells(row).map(|cell| cell.styled(with_minus, ("\\textbf{", "}"), "$\\approx$"))).collect()
    });
    rows.collect()
}

/// Columns of each part of a table that is split into parts of about the same width, none wider than `max_width` if possible. Every part
/// begins with the labels, which are the columns before the columns of `follows`; a column for which `follows` is true stays with the
/// column before it.
fn parts(widths: &[usize], follows: &[bool], max_width: usize) -> Vec<Vec<usize>> {
    let labels = widths.len() - follows.len();
    let labels_width: usize = widths[..labels].iter().sum();
    let cells_width: usize = widths[labels..].iter().sum();
    let number = cells_width.div_ceil(max_width.saturating_sub(labels_width).max(1)).max(1);
    let widest = widths[labels..].iter().max().copied().unwrap_or(0);
    let max_width = max_width.min(labels_width + cells_width.div_ceil(number) + widest);
    let begin = || ((0..labels).collect::<Vec<_>>(), labels_width);
    let (mut parts, (mut part, mut width)) = (Vec::new(), begin());
    for (column, (wide, follows)) in widths[labels..].iter().zip(follows).enumerate() {
        if width + wide > max_width && part.len() > labels && !follows {
            parts.push(part);
            (part, width) = begin();
        }
        part.push(labels + column);
        width += wide;
    }
    parts.push(part);
    parts
}

/// Escapes the numbers of a cell, in which a hyphen is a minus.
fn with_minus(text: &str) -> String {
    escape(&text.replace('-', "−"))
}

pub(super) fn verdicts(verdicts: &[Verdict], note: Option<String>) -> String {
    let header = line(&["claim", "verdict", "why", "paper"].map(str::to_owned));
    let rows = verdicts.iter().map(|verdict| verdict.row().iter().map(|cell| prose(cell)).collect());
    let tabular = tabular("p{0.35\\linewidth}lp{0.35\\linewidth}r", &header, rows);
    let notes = note.into_iter().map(|note| prose(&note));
    float("Claims", "claims", Setting::Plain, Numbers::Text, std::iter::once(tabular), notes)
}

/// Way in which a table is put on a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Setting {
    Plain,
    /// Made as small as the line, if it is wider.
    Shrunk,
    /// Turned, and scaled down to the height of the page.
    Turned,
}

impl Setting {
    /// The setting of a table that is `width` characters wide.
    fn of(width: usize) -> Self {
        if width <= UPRIGHT {
            Self::Plain
        } else if width <= SHRUNK {
            Self::Shrunk
        } else {
            Self::Turned
        }
    }
}

/// A table that finds its place on its own.
fn float(
    title: &str,
    name: &str,
    setting: Setting,
    numbers: Numbers,
    tabulars: impl Iterator<Item = String>,
    notes: impl Iterator<Item = String>,
) -> String {
    let (packages, float) = match setting {
        Setting::Plain => ("booktabs", "table"),
        Setting::Shrunk => ("booktabs,graphicx", "table"),
        Setting::Turned => ("booktabs,graphicx,rotating", "sidewaystable"),
    };
    let (further, setup) = match numbers {
        Numbers::Text => ("", ""),
        Numbers::Siunitx => (siunitx::PACKAGE, siunitx::SETUP),
    };
    let mut text = format!(
        "% \\usepackage{{{packages}{further}}}; with labels in other than Latin letters, XeLaTeX or LuaLaTeX\n\
         \\begin{{{float}}}\n\\centering\n\\caption{{{title}}}\n\\label{{tab:{name}}}\n{setup}"
    );
    for (index, tabular) in tabulars.enumerate() {
        if index > 0 {
            text += "\\par\\medskip\n";
        }
        if setting == Setting::Plain {
            text += &tabular;
        } else {
            let width = "\\ifdim\\width>\\linewidth\\linewidth\\else\\width\\fi";
            text.extend(["\\resizebox{", width, "}{!}{%\n", tabular.trim_end(), "}\n"]);
        }
    }
    for note in notes {
        text.extend(["\\par\\smallskip{\\footnotesize ", &note, "}\n"]);
    }
    text + &format!("\\end{{{float}}}\n")
}

/// A table of `columns`, each with its kind; `header` are the lines of headings.
fn tabular(columns: &str, header: &str, rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut text = format!("\\begin{{tabular}}{{{columns}}}\n\\toprule\n");
    text += header;
    text += "\\midrule\n";
    text.extend(rows.map(|row| line(&row)));
    text + "\\bottomrule\n\\end{tabular}\n"
}

fn line(cells: &[String]) -> String {
    let line = cells.join(" & ");
    // A bracket at the beginning of a line would be the end of the line before, `\\[…]`.
    let guard = if line.starts_with(['[', '*']) { "{}" } else { "" };
    format!("{guard}{line} \\\\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wide_table_is_split_and_every_part_has_the_labels() {
        let split = |widths: &[usize], most| parts(widths, &vec![false; widths.len() - 1], most);
        assert_eq!(split(&[10, 20, 20], 50), [[0, 1, 2]]);
        assert_eq!(split(&[10, 20, 20, 30], 50), [vec![0, 1, 2], vec![0, 3]]);
        // A column that is too wide is a separate part.
        assert_eq!(split(&[10, 90, 90], 50), [[0, 1], [0, 2]]);
        assert_eq!(split(&[10], 50), [[0]]);
        // The paper's value stays with ours.
        assert_eq!(parts(&[10, 20, 20, 30], &[false, false, true], 50), [[0, 1, 2, 3]]);
    }
}
