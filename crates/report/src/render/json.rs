//! Tables and verdicts as JSON: one object per cell, with numbers unrounded and in the metric's unit.

use std::{collections::BTreeMap, path::PathBuf};

use serde::Serialize;

use super::{
    Report,
    csv::{compares, is_line, measure},
};
use crate::analysis::{Cell, Column, Mark, NoInterval, Table, Verdict};

/// A report, as answers in JSON have it.
#[derive(Debug, Serialize)]
pub struct ReportData {
    /// The recipe's name.
    recipe: String,
    /// Its page, if it could be written.
    page: Option<PathBuf>,
    verdicts: Vec<Verdict>,
    tables: Vec<TableData>,
}

#[derive(Debug, Serialize)]
struct TableData {
    name: String,
    title: String,
    cells: Vec<CellData>,
    notes: Vec<String>,
}

/// A number of a table.
#[derive(Debug, Serialize)]
struct CellData {
    /// The values of the axes.
    at: BTreeMap<String, String>,
    metric: String,
    /// Its unit; empty for a number without one.
    unit: &'static str,
    /// The kind of the number.
    measure: &'static str,
    value: Option<f64>,
    /// The ends of its confidence interval.
    low: Option<f64>,
    high: Option<f64>,
    /// Number of values or pairs behind it.
    n: usize,
    /// The probability that chance alone gives such a difference.
    #[serde(skip_serializing_if = "Option::is_none")]
    p: Option<f64>,
    /// True if chance or measurement noise can explain the difference.
    #[serde(skip_serializing_if = "Option::is_none")]
    noise: Option<bool>,
    /// The paper's measurement.
    #[serde(skip_serializing_if = "Option::is_none")]
    paper: Option<f64>,
    /// `best`, `tied` or `unclear` among the cells of its column.
    #[serde(skip_serializing_if = "Option::is_none")]
    mark: Option<&'static str>,
    /// Number of points without a result.
    missing: usize,
    /// The reasons for that.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    why: Vec<String>,
    /// The reason why the number has no interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    no_interval: Option<String>,
}

impl ReportData {
    /// A report that was written to this folder.
    pub fn new(report: &Report<'_>, folder: Option<PathBuf>) -> Self {
        let tables = report.tables.iter().map(TableData::new).collect();
        let page = folder.map(|folder| folder.join("index.html"));
        Self { recipe: report.name().to_owned(), page, verdicts: report.verdicts.clone(), tables }
    }
}

impl TableData {
    fn new(table: &Table) -> Self {
        let compares = compares(table);
        let mut cells = Vec::new();
        for row in &table.rows {
            let of_row = table.axes.iter().cloned().zip(row.labels.iter().cloned());
            for (cell, column) in row.cells.iter().zip(&table.columns).filter(|(cell, column)| is_line(cell, column)) {
                let at = of_row.clone().chain(column.point.iter().cloned()).collect();
                cells.push(CellData::new(at, cell, column, compares));
            }
        }
        Self { name: table.name.clone(), title: table.title.clone(), cells, notes: table.notes.clone() }
    }
}

impl CellData {
    fn new(at: BTreeMap<String, String>, cell: &Cell, column: &Column, compares: bool) -> Self {
        let estimate = if compares { cell.compared.map(|compared| compared.estimate) } else { cell.estimate };
        let (measure, unit) = if compares { measure(column) } else { ("mean", column.unit.symbol()) };
        Self {
            at,
            metric: column.metric.clone(),
            unit,
            measure,
            value: estimate.map(|estimate| estimate.value),
            low: estimate.and_then(|estimate| estimate.low),
            high: estimate.and_then(|estimate| estimate.high),
            n: cell.sample.map_or(0, |sample| sample.n),
            p: estimate.and_then(|estimate| estimate.p).filter(|_| compares),
            noise: cell.compared.map(|compared| compared.noise),
            paper: cell.paper,
            mark: cell.mark.map(Mark::word),
            missing: cell.missing,
            why: cell.absences.iter().map(|reason| (*reason).to_owned()).collect(),
            no_interval: cell.no_interval.as_ref().map(NoInterval::words),
        }
    }
}
