//! Tables as comma-separated values (RFC 4180): one line per cell, numbers unrounded and in the metric's unit.
//!
//! A text that a spreadsheet would interpret as a formula is prefixed with an apostrophe, which spreadsheets do not
//! show.

use crate::analysis::{Cell, Column, Mark, Show, Table};

/// Columns after the axes in a table of values.
const VALUES: [&str; 14] =
    ["metric", "unit", "mean", "sd", "n", "low", "high", "median", "q1", "q3", "paper", "mark", "missing", "why"];
/// Columns after the axes in a table of comparisons.
const COMPARED: [&str; 11] = ["metric", "unit", "measure", "value", "low", "high", "n", "p", "noise", "missing", "why"];

pub(super) fn render(table: &Table) -> String {
    let compares = compares(table);
    let column_axes = table.columns.first().map_or(&[][..], |column| &column.point);
    let axes = table.axes.iter().chain(column_axes.iter().map(|(axis, _)| axis)).map(|axis| text(axis));
    let names: &[&str] = if compares { &COMPARED } else { &VALUES };
    let mut lines = line(axes.chain(names.iter().map(|name| (*name).to_owned())));
    for row in &table.rows {
        for (cell, column) in row.cells.iter().zip(&table.columns).filter(|(cell, column)| is_line(cell, column)) {
            let labels = row.labels.iter().chain(column.point.iter().map(|(_, value)| value)).map(|label| text(label));
            let fields = if compares { compared(cell, column) } else { values(cell, column) };
            lines += &line(labels.chain(fields));
        }
    }
    lines
}

/// True for a table of comparisons.
pub(super) fn compares(table: &Table) -> bool {
    table.columns.iter().any(|column| matches!(column.show, Show::Difference | Show::Ratio | Show::Improvement))
}

/// True for measurements. Only some rows have a share.
pub(super) fn is_line(cell: &Cell, column: &Column) -> bool {
    column.is_measured() && (column.show != Show::Share || cell.points > 0)
}

fn values(cell: &Cell, column: &Column) -> Vec<String> {
    let estimate = cell.estimate;
    vec![
        text(&column.metric),
        column.unit.symbol().to_owned(),
        number(estimate.map(|estimate| estimate.value)),
        number(cell.sample.and_then(|sample| sample.sd)),
        cell.sample.map_or(0, |sample| sample.n).to_string(),
        number(estimate.and_then(|estimate| estimate.low)),
        number(estimate.and_then(|estimate| estimate.high)),
        number(cell.quartiles.map(|quartiles| quartiles.median)),
        number(cell.quartiles.map(|quartiles| quartiles.low)),
        number(cell.quartiles.map(|quartiles| quartiles.high)),
        number(cell.paper),
        cell.mark.map_or("", Mark::word).to_owned(),
        cell.missing.to_string(),
        cell.absences.join("; "),
    ]
}

/// The kind of the numbers in a column of comparisons, and their unit. A ratio has none.
pub(super) fn measure(column: &Column) -> (&'static str, &'static str) {
    match column.show {
        Show::Mean => ("mean", column.unit.symbol()),
        Show::Ratio => ("ratio", ""),
        Show::Share => ("share", column.unit.symbol()),
        Show::Interval => ("interquartile mean", column.unit.symbol()),
        Show::Improvement => ("improvement", ""),
        _ => ("difference", column.unit.symbol()),
    }
}

fn compared(cell: &Cell, column: &Column) -> Vec<String> {
    let estimate = cell.compared.map(|compared| compared.estimate);
    let (measure, unit) = measure(column);
    vec![
        text(&column.metric),
        unit.to_owned(),
        measure.to_owned(),
        number(estimate.map(|estimate| estimate.value)),
        number(estimate.and_then(|estimate| estimate.low)),
        number(estimate.and_then(|estimate| estimate.high)),
        cell.sample.map_or(0, |sample| sample.n).to_string(),
        number(estimate.and_then(|estimate| estimate.p)),
        cell.compared.map(|compared| compared.noise.to_string()).unwrap_or_default(),
        cell.missing.to_string(),
        cell.absences.join("; "),
    ]
}

fn number(number: Option<f64>) -> String {
    number.map_or_else(String::new, |number| number.to_string())
}

/// A field that is text, which no spreadsheet shall compute. A text that looks like the field of a formula has an apostrophe more,
/// so that different texts are different fields.
pub fn text(field: &str) -> String {
    let inner = field.trim_start_matches('\'');
    let formula = inner.starts_with(['=', '+', '-', '@', '\t', '\r']) && field.parse::<f64>().is_err();
    if formula { format!("'{field}") } else { field.to_owned() }
}

/// Joins `fields` to a line, quoted where CSV requires it.
pub fn line(fields: impl Iterator<Item = String>) -> String {
    let fields: Vec<String> = fields.map(|field| quote(&field)).collect();
    format!("{}\n", fields.join(","))
}

fn quote(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_are_text_and_numbers_are_numbers() {
        for formula in ["=1+1", "+1+1", "-1-1", "@SUM(A1)", "\t=1", "=cmd|' /C calc'!A0"] {
            assert!(text(formula).starts_with('\''), "{formula}");
        }
        for plain in ["-1", "+2.5", "-1e-3", "a=b", "", "1"] {
            assert_eq!(text(plain), plain);
        }
        let fields = ["=a", "'=a", "''=a", "'a", "a", "'-1", "-1"].map(text);
        assert_eq!(fields, ["'=a", "''=a", "'''=a", "'a", "a", "''-1", "-1"]);
        assert_eq!(line([text("=a,\"b\"")].into_iter()), "\"'=a,\"\"b\"\"\"\n");
    }
}
