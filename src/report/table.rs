//! A table's content, before it becomes text.

use std::collections::{HashMap, HashSet};

use sweep_job::{Unit, Value};

use super::{Frame, Row, Sample};
use crate::{
    plan::Study,
    recipe,
    text::clean,
    ui::{Scale, decimals, number},
};

/// A table: rows and columns of samples.
#[derive(Debug)]
pub struct Table {
    /// Its name, which names its files.
    pub name: String,
    /// Its heading.
    pub title: String,
    /// The axes that tell the rows apart.
    pub axes: Vec<String>,
    /// The columns behind them.
    pub columns: Vec<Column>,
    /// The rows.
    pub rows: Vec<TableRow>,
    /// What a reader must know to read it.
    pub notes: Vec<String>,
    /// What stands behind `±`.
    pub spread: Spread,
}

/// What stands behind `±` in a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spread {
    /// The standard deviation.
    Deviation,
    /// Half the width of the mean's 95 % confidence interval.
    Interval,
}

/// A column: one metric, at some values of the column axes.
#[derive(Debug)]
pub struct Column {
    /// Axis and value, in the order of the table's `columns`.
    pub point: Vec<(String, String)>,
    /// The metric.
    pub metric: String,
    /// Its base unit.
    pub unit: Unit,
    /// How its numbers are shown.
    pub scale: Scale,
}

/// A row.
#[derive(Debug)]
pub struct TableRow {
    /// The values on [`Table::axes`].
    pub labels: Vec<String>,
    /// As many as there are columns.
    pub cells: Vec<Cell>,
}

/// What a row and a column have in common.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cell {
    /// The metric's sample over the points that are not told apart; `None` if no job of the cell has it.
    pub sample: Option<Sample>,
    /// Points of the cell without a result.
    pub missing: usize,
    /// Points of the cell.
    pub points: usize,
    /// In a table of differences, the probability of such a difference by chance alone, corrected for their number.
    pub p: Option<f64>,
}

impl Table {
    /// Sorts a frame's rows into cells.
    pub fn new(table: &recipe::Table, study: &Study, frame: &Frame) -> Self {
        let names = |axes: &[recipe::Spanned<String>]| axes.iter().map(|axis| axis.value.clone()).collect::<Vec<_>>();
        let (row_axes, column_axes) = (names(&table.rows), names(&table.columns));
        let task = study.recipe.steps[table.from.value].task;
        let (row_keys, column_keys) = (Keys::new(frame, &row_axes), Keys::new(frame, &column_axes));
        let mut columns = Vec::new();
        for key in &column_keys.labels {
            for cell in &table.cells {
                let unit = task.metric(&cell.value).map_or(Unit::One, |metric| metric.unit);
                columns.push(Column {
                    point: column_axes.iter().cloned().zip(key.iter().cloned()).collect(),
                    metric: cell.value.clone(),
                    unit,
                    scale: Scale::of(0.0, unit),
                });
            }
        }
        // Every point goes to one row and one group of columns.
        let groups = column_keys.labels.len();
        let mut members: Vec<Vec<&Row>> = vec![Vec::new(); row_keys.labels.len() * groups];
        for ((row, row_key), column_key) in frame.rows.iter().zip(&row_keys.of_row).zip(&column_keys.of_row) {
            members[row_key * groups + column_key].push(row);
        }
        let mut rows = Vec::new();
        for (index, labels) in row_keys.labels.iter().enumerate() {
            let cells = columns.iter().enumerate().map(|(column, Column { metric, .. })| {
                cell(&members[index * groups + column / table.cells.len()], metric)
            });
            rows.push(TableRow { labels: labels.clone(), cells: cells.collect() });
        }
        for (index, column) in columns.iter_mut().enumerate() {
            let samples = rows.iter().filter_map(|row: &TableRow| row.cells[index].sample);
            let largest = samples.map(|sample| sample.mean.abs()).fold(0.0, f64::max);
            column.scale = Scale::of(largest, column.unit);
        }
        let averaged: Vec<String> = study.recipe.steps[table.from.value]
            .axes()
            .into_iter()
            .filter(|axis| !row_axes.iter().chain(&column_axes).any(|shown| shown == axis))
            .filter(|axis| Keys::new(frame, &[(*axis).to_owned()]).labels.len() > 1)
            .map(str::to_owned)
            .collect();
        let notes = notes(&averaged, &rows);
        Self {
            name: table.name.value.clone(),
            title: clean(table.title.as_ref().unwrap_or(&table.name.value)).into_owned(),
            axes: row_axes,
            columns,
            rows,
            notes,
            spread: Spread::Deviation,
        }
    }

    /// The headings, row axes first: `fusion=off · memory.peak (MiB)`.
    pub(super) fn headings(&self) -> Vec<String> {
        let columns = self.columns.iter().map(|column| {
            let point: Vec<String> = column.point.iter().map(|(axis, value)| format!("{axis}={value}")).collect();
            let unit = if column.scale.suffix.is_empty() { column.unit.symbol() } else { column.scale.suffix };
            let unit = if unit.is_empty() { String::new() } else { format!(" ({unit})") };
            let separator = if point.is_empty() { "" } else { " · " };
            format!("{}{separator}{}{unit}", point.join(", "), column.metric)
        });
        self.axes.iter().cloned().chain(columns).collect()
    }

    /// A row's texts, labels first.
    pub(super) fn texts<'a>(&'a self, row: &'a TableRow) -> impl Iterator<Item = String> + 'a {
        let cells = row.cells.iter().zip(&self.columns).map(|(cell, column)| cell.show(column.scale, self.spread));
        row.labels.iter().cloned().chain(cells)
    }
}

impl Cell {
    /// The mean, rounded to its spread's second digit, and the spread.
    fn show(&self, scale: Scale, spread: Spread) -> String {
        let Some(sample) = self.sample else { return "–".into() };
        let mean = sample.mean / scale.factor;
        let spread = match spread {
            Spread::Deviation => sample.sd,
            Spread::Interval => sample.half_width(),
        };
        let text = match spread.map(|spread| spread / scale.factor) {
            Some(sd) if sd > 0.0 => {
                let digits = digits_of(sd);
                format!("{} ± {}", number(mean, digits), number(sd, digits))
            }
            Some(_) => format!("{} ± 0", number(mean, decimals(mean))),
            None => number(mean, decimals(mean)),
        };
        let chance = self.p.map(|p| if p < 0.001 { " (p < 0.001)".to_owned() } else { format!(" (p = {p:.3})") });
        let missing = if self.missing > 0 { " *" } else { "" };
        format!("{text}{}{missing}", chance.unwrap_or_default())
    }
}

/// Decimals that leave two significant digits of a spread.
fn digits_of(sd: f64) -> usize {
    let exponent = sd.log10().floor();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to 0..=9")]
    let digits = (1.0 - exponent).clamp(0.0, 9.0) as usize;
    digits
}

/// The different values of some axes.
struct Keys {
    /// In the order of their first appearance, as they are printed.
    labels: Vec<Vec<String>>,
    /// For every row of the frame, which of them it has.
    of_row: Vec<usize>,
}

impl Keys {
    fn new(frame: &Frame, axes: &[String]) -> Self {
        let mut labels = Vec::new();
        let mut seen = HashMap::new();
        let of_row = frame.rows.iter().map(|row| {
            let values: Vec<Option<&Value>> = axes.iter().map(|axis| row.point.get(axis)).collect();
            // As JSON, in which the text "1" and the number 1 are not the same.
            let key = serde_json::to_string(&values).unwrap_or_default();
            *seen.entry(key).or_insert_with(|| {
                let label = |value: Option<&Value>| {
                    value.map_or_else(|| "–".to_owned(), |value| clean(&value.to_string()).into_owned())
                };
                labels.push(values.iter().copied().map(label).collect());
                labels.len() - 1
            })
        });
        let of_row = of_row.collect();
        Self { labels, of_row }
    }
}

fn cell(rows: &[&Row], metric: &str) -> Cell {
    let (mut values, mut missing, mut jobs) = (Vec::new(), 0, HashSet::new());
    // Points that are the same job are one measurement.
    for row in rows.iter().filter(|row| jobs.insert(row.job)) {
        match &row.metrics {
            Some(metrics) => values.extend(metrics.get(metric).map(|metric| metric.value)),
            None => missing += 1,
        }
    }
    Cell { sample: Sample::new(&values), missing, points: rows.len(), p: None }
}

fn notes(averaged: &[String], rows: &[TableRow]) -> Vec<String> {
    let mut notes = Vec::new();
    let cells = || rows.iter().flat_map(|row| &row.cells);
    let counts: Vec<usize> = cells().filter_map(|cell| cell.sample).map(|sample| sample.n).collect();
    if let (Some(least), Some(most), false) = (counts.iter().min(), counts.iter().max(), averaged.is_empty()) {
        let n = if least == most { most.to_string() } else { format!("{least} to {most}") };
        notes.push(format!("mean ± standard deviation over {} (n = {n})", averaged.join(", ")));
    }
    if cells().any(|cell| cell.missing > 0 && cell.sample.is_some()) {
        notes.push("* some jobs have no result".to_owned());
    }
    if cells().any(|cell| cell.points > 0 && cell.sample.is_none()) {
        notes.push("– no result".to_owned());
    }
    notes
}
