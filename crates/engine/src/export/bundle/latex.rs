//! Rows of tables in LaTeX, whatever their headings are and however they are split.

/// The rows of a table without headings. If the table is split, the cells of all parts follow each other, after the labels of the first.
pub(super) fn rows(text: &str) -> String {
    let mut rows: Vec<Vec<&str>> = Vec::new();
    let (mut labels, mut row) = (0, None);
    for line in text.lines() {
        if let Some(columns) = line.strip_prefix("\\begin{tabular}{") {
            labels = columns.bytes().take_while(|kind| *kind == b'l').count();
        } else if line == "\\midrule" {
            row = Some(0);
        } else if line.starts_with("\\bottomrule") {
            row = None;
        } else if let Some(row) = &mut row {
            let cells = line.trim_end_matches(" \\\\").split(" & ");
            match rows.get_mut(*row) {
                Some(known) => known.extend(cells.skip(labels)),
                None => rows.push(cells.collect()),
            }
            *row += 1;
        }
    }
    rows.iter().map(|row| row.join(" & ") + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_and_splits_do_not_matter() {
        let whole = "\\begin{tabular}{lrr}\n\\toprule\n & \\multicolumn{2}{c}{a} \\\\\n\\cmidrule(lr){2-3}\nx & b & c \\\\\n\\midrule\n\
                     1 & 2 & 3 \\\\\n4 & 5 &  \\\\\n\\bottomrule\n\\end{tabular}\n";
        let split = "\\begin{tabular}{lr}\nx & a, b \\\\\n\\midrule\n1 & 2 \\\\\n4 & 5 \\\\\n\\bottomrule\n\\end{tabular}}\n\
                     \\begin{tabular}{lr}\nx & a, c \\\\\n\\midrule\n1 & 3 \\\\\n4 &  \\\\\n\\bottomrule\n\\end{tabular}}\n";
        assert_eq!(rows(whole), "1 & 2 & 3\n4 & 5 & \n");
        assert_eq!(rows(split), rows(whole));
        assert_ne!(rows(&split.replace("1 & 3", "1 & 4")), rows(whole));
    }
}
