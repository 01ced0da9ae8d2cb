//! Tables as comma-separated values (RFC 4180): one line a cell, numbers unrounded and in base units.

use super::Table;

pub(super) fn render(table: &Table) -> String {
    let column_axes = table.columns.first().map_or(&[][..], |column| &column.point);
    let axes = table.axes.iter().chain(column_axes.iter().map(|(axis, _)| axis)).map(String::as_str);
    let mut text = line(axes.chain(["metric", "unit", "mean", "sd", "n"]));
    for row in &table.rows {
        for (cell, column) in row.cells.iter().zip(&table.columns) {
            let Some(sample) = cell.sample else { continue };
            let labels = row.labels.iter().chain(column.point.iter().map(|(_, value)| value)).map(String::as_str);
            let (mean, n) = (sample.mean.to_string(), sample.n.to_string());
            let sd = sample.sd.map_or_else(String::new, |sd| sd.to_string());
            let unit = column.unit.symbol();
            text += &line(labels.chain([column.metric.as_str(), unit, mean.as_str(), sd.as_str(), n.as_str()]));
        }
    }
    text
}

fn line<'a>(fields: impl Iterator<Item = &'a str>) -> String {
    let fields: Vec<String> = fields.map(quote).collect();
    format!("{}\n", fields.join(","))
}

fn quote(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}
