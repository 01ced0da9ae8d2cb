//! Tables and verdicts in LaTeX, for a document that loads the package `booktabs`.

use crate::analysis::{Column, Show, Table, Verdict};

/// Characters that fit into a line of a page, upright and turned. Wider tables are made smaller, turned, and at last split.
const UPRIGHT: usize = 66;
const SHRUNK: usize = 100;
const TURNED: usize = 180;
/// Room between two columns, in characters.
const GAP: usize = 2;

pub(super) fn render(table: &Table) -> String {
    let labels = table.axes.len();
    let titles = table.titles();
    let headings: Vec<String> = titles.iter().map(|heading| escape(heading)).collect();
    let rows = table.rows.iter().map(|row| {
        let labels = row.labels.iter().map(|label| escape(label));
        labels.chain(table.cells(row).map(|cell| cell.styled(numbers, ("\\textbf{", "}"), "$\\approx$"))).collect()
    });
    let rows: Vec<Vec<String>> = rows.collect();
    let mut widths: Vec<usize> = titles.iter().map(|title| title.chars().count() + GAP).collect();
    for row in &table.rows {
        for (width, text) in widths.iter_mut().zip(table.texts(row)) {
            *width = (*width).max(text.chars().count() + GAP);
        }
    }
    let width: usize = widths.iter().sum();
    let follows: Vec<bool> = table.columns.iter().map(follows).collect();
    let parts = parts(&widths, &follows, if width > TURNED { TURNED } else { width });
    let setting = if width <= UPRIGHT {
        Setting::Plain
    } else if width <= SHRUNK {
        Setting::Shrunk
    } else {
        Setting::Turned
    };
    let tabulars = parts.iter().map(|columns| {
        let kinds = "l".repeat(labels) + &"r".repeat(columns.len() - labels);
        let of = |cells: &[String]| columns.iter().map(|column| cells[*column].clone()).collect::<Vec<_>>();
        tabular(&kinds, &of(&headings), rows.iter().map(|row| of(row)))
    });
    let notes = table.notes.iter().map(|note| escape(&note.replace('◀', "bold:")));
    float(&escape(&table.title), &table.name, setting, tabulars, notes)
}

/// True for a column that says something about the one before it.
fn follows(column: &Column) -> bool {
    matches!(column.show, Show::Paper | Show::Delta | Show::Share)
}

/// Columns of each part of a table that is split into parts of about the same width, none wider than `max_width` if possible. Every
/// part begins with the labels, which are the columns before those of `follows`; columns for which that is true stay with the one
/// before them.
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

/// A cell has numbers: what looks like a hyphen is a minus.
fn numbers(text: &str) -> String {
    escape(&text.replace('-', "−"))
}

pub(super) fn verdicts(verdicts: &[Verdict], note: Option<String>) -> String {
    let headings = ["claim", "verdict", "why", "paper"].map(str::to_owned);
    let rows = verdicts.iter().map(|verdict| verdict.row().iter().map(|cell| escape(cell)).collect());
    let tabular = tabular("p{0.35\\linewidth}lp{0.35\\linewidth}r", &headings, rows);
    let notes = note.into_iter().map(|note| escape(&note));
    float("Claims", "claims", Setting::Plain, std::iter::once(tabular), notes)
}

/// Way in which a table is put on a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Setting {
    Plain,
    /// Made as small as the line, if it is wider.
    Shrunk,
    /// On its side, and made as small as the page is high.
    Turned,
}

/// A table that finds its place on its own.
fn float(
    title: &str,
    name: &str,
    setting: Setting,
    tabulars: impl Iterator<Item = String>,
    notes: impl Iterator<Item = String>,
) -> String {
    let (packages, float) = match setting {
        Setting::Plain => ("booktabs", "table"),
        Setting::Shrunk => ("booktabs,graphicx", "table"),
        Setting::Turned => ("booktabs,graphicx,rotating", "sidewaystable"),
    };
    let mut text = format!(
        "% \\usepackage{{{packages}}}; with labels in other than Latin letters, XeLaTeX or LuaLaTeX\n\
         \\begin{{{float}}}\n\\centering\n\\caption{{{title}}}\n\\label{{tab:{name}}}\n"
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

fn tabular(columns: &str, headings: &[String], rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut text = format!("\\begin{{tabular}}{{{columns}}}\n\\toprule\n");
    text += &line(headings);
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

/// A text in which LaTeX finds no command.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '\\' => escaped.push_str("\\textbackslash{}"),
            '~' => escaped.push_str("\\textasciitilde{}"),
            '^' => escaped.push_str("\\textasciicircum{}"),
            '&' | '%' | '$' | '#' | '_' | '{' | '}' => escaped.extend(['\\', char]),
            '<' => escaped.push_str("\\textless{}"),
            '>' => escaped.push_str("\\textgreater{}"),
            '|' => escaped.push_str("\\textbar{}"),
            '"' => escaped.push_str("\\textquotedbl{}"),
            '±' => escaped.push_str("$\\pm$"),
            '−' => escaped.push_str("$-$"),
            '–' => escaped.push_str("--"),
            '…' => escaped.push_str("\\ldots{}"),
            '≈' => escaped.push_str("$\\approx$"),
            '×' => escaped.push_str("$\\times$"),
            '·' => escaped.push_str("$\\cdot$"),
            'Δ' => escaped.push_str("$\\Delta$"),
            'µ' => escaped.push_str("$\\mu$"),
            '\n' => escaped.push(' '),
            char => match LETTERS.iter().find(|(letter, _)| *letter == char) {
                Some((_, plain)) => escaped.extend(["$^{\\mathrm{", plain, "}}$"]),
                None => escaped.push(char),
            },
        }
    }
    escaped
}

/// The letters of footnotes.
const LETTERS: [(char, &str); 12] = [
    ('ᵃ', "a"),
    ('ᵇ', "b"),
    ('ᶜ', "c"),
    ('ᵈ', "d"),
    ('ᵉ', "e"),
    ('ᶠ', "f"),
    ('ᵍ', "g"),
    ('ʰ', "h"),
    ('ⁱ', "i"),
    ('ʲ', "j"),
    ('ᵏ', "k"),
    ('ˡ', "l"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wide_table_is_split_and_every_part_has_the_labels() {
        let split = |widths: &[usize], most| parts(widths, &vec![false; widths.len() - 1], most);
        assert_eq!(split(&[10, 20, 20], 50), [[0, 1, 2]]);
        assert_eq!(split(&[10, 20, 20, 30], 50), [vec![0, 1, 2], vec![0, 3]]);
        // A column that is too wide alone is a part of its own.
        assert_eq!(split(&[10, 90, 90], 50), [[0, 1], [0, 2]]);
        assert_eq!(split(&[10], 50), [[0]]);
        // The paper's value stays with ours.
        assert_eq!(parts(&[10, 20, 20, 30], &[false, false, true], 50), [[0, 1, 2, 3]]);
    }

    #[test]
    fn labels_are_text() {
        assert_eq!(
            escape("a_b 50 % & {x} \\input{y} #1 $m$"),
            "a\\_b 50 \\% \\& \\{x\\} \\textbackslash{}input\\{y\\} \\#1 \\$m\\$"
        );
        assert_eq!(escape("1.0 ± 0.2ᵃ"), "1.0 $\\pm$ 0.2$^{\\mathrm{a}}$");
    }
}
