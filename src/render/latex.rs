//! Tables and verdicts in LaTeX, for a document that loads the package `booktabs`.

use crate::analysis::{Table, Verdict};

pub(super) fn render(table: &Table) -> String {
    let columns = "l".repeat(table.axes.len()) + &"r".repeat(table.columns.len());
    let headings: Vec<String> = table.headings().iter().map(|heading| escape(heading)).collect();
    let rows = table.rows.iter().map(|row| {
        let labels = row.labels.iter().map(|label| escape(label));
        labels.chain(table.cells(row).map(|cell| cell.styled(numbers, ("\\textbf{", "}"), "$\\approx$"))).collect()
    });
    let notes = table.notes.iter().map(|note| escape(&note.replace('◀', "bold:")));
    float(&escape(&table.title), &table.name, &columns, &headings, rows, notes)
}

/// A cell has numbers: what looks like a hyphen is a minus.
fn numbers(text: &str) -> String {
    escape(&text.replace('-', "−"))
}

pub(super) fn verdicts(verdicts: &[Verdict], note: Option<String>) -> String {
    let headings = ["claim", "verdict", "why", "paper"].map(str::to_owned);
    let rows = verdicts.iter().map(|verdict| verdict.row().iter().map(|cell| escape(cell)).collect());
    float(
        "Claims",
        "claims",
        "p{0.35\\linewidth}lp{0.35\\linewidth}r",
        &headings,
        rows,
        note.into_iter().map(|note| escape(&note)),
    )
}

/// A table that finds its place on its own.
fn float(
    title: &str,
    name: &str,
    columns: &str,
    headings: &[String],
    rows: impl Iterator<Item = Vec<String>>,
    notes: impl Iterator<Item = String>,
) -> String {
    let mut text = format!(
        "% \\usepackage{{booktabs}}; with labels in other than Latin letters, XeLaTeX or LuaLaTeX\n\
         \\begin{{table}}\n\\centering\n\\caption{{{title}}}\n\\label{{tab:{name}}}\n\
         \\begin{{tabular}}{{{columns}}}\n\\toprule\n"
    );
    text += &line(headings);
    text += "\\midrule\n";
    for row in rows {
        text += &line(&row);
    }
    text += "\\bottomrule\n\\end{tabular}\n";
    for note in notes {
        text.extend(["\\par\\smallskip{\\footnotesize ", &note, "}\n"]);
    }
    text + "\\end{table}\n"
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
    fn labels_are_text() {
        assert_eq!(
            escape("a_b 50 % & {x} \\input{y} #1 $m$"),
            "a\\_b 50 \\% \\& \\{x\\} \\textbackslash{}input\\{y\\} \\#1 \\$m\\$"
        );
        assert_eq!(escape("1.0 ± 0.2ᵃ"), "1.0 $\\pm$ 0.2$^{\\mathrm{a}}$");
    }
}
