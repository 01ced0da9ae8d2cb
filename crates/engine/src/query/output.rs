//! An answer as text or as a file.

use std::io::{self, Write};

use comfy_table::{CellAlignment, Table as Grid};
use serde::{Serialize, Serializer};
use sweep_job::{Unit, Value};

use super::{Answer, Heading, parquet};
use crate::{
    format::{Scale, clean, count},
    render::{RULED, csv},
};

/// Output format of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For a terminal.
    Table,
    /// Comma-separated values.
    Csv,
    /// An object with the list `records`; in a file, the list alone.
    Json,
    /// A Parquet file, whose metadata has the units.
    Parquet,
}

/// Destination of an answer.
pub type Output<'a> = &'a mut (dyn Write + Send);

impl Heading {
    /// Its name, with the unit if that is no base unit and the name does not say it.
    pub fn said(&self) -> String {
        let Self { name, unit, .. } = self;
        let is_said = *unit == unit.base() || Unit::implied(name) == Some(*unit) || self.without_unit() != name;
        if is_said { name.clone() } else { format!("{name} ({unit})") }
    }

    /// Its name without a unit, which it has if another column of the same name is in another kind of unit.
    fn without_unit(&self) -> &str {
        self.name.strip_suffix(&format!(" ({})", self.unit.key())).unwrap_or(&self.name)
    }
}

impl Answer {
    /// Writes the answer.
    pub fn write(&self, format: Format, output: Output<'_>) -> io::Result<()> {
        match format {
            Format::Table => output.write_all(self.table().as_bytes()),
            Format::Csv => output.write_all(self.csv().as_bytes()),
            Format::Json => self.json(output),
            Format::Parquet => output.write_all(&parquet::file(self).map_err(io::Error::other)?),
        }
    }

    fn table(&self) -> String {
        if self.rows.is_empty() {
            return match self.asked {
                0 => "There are no records to answer from.\n".to_owned(),
                records => format!("None of {} matches.\n", count(records, "record")),
            };
        }
        let mut grid = Grid::new();
        grid.load_style(RULED);
        let numbers: Vec<bool> = (0..self.columns.len()).map(|index| self.is_number(index)).collect();
        let scales: Vec<Scale> = (0..self.columns.len()).map(|index| self.scale(index)).collect();
        let headings = self.columns.iter().zip(&scales).map(|(heading, scale)| {
            let (name, unit) = (heading.without_unit(), heading.unit);
            let unit = if scale.suffix.is_empty() { unit.symbol() } else { scale.suffix };
            let unit = if unit.is_empty() { String::new() } else { format!(" ({unit})") };
            clean(&format!("{name}{unit}")).into_owned()
        });
        grid.set_header(headings);
        for row in &self.rows {
            let cells = row.iter().enumerate().map(|(index, value)| match value {
                Value::Null => "–".to_owned(),
                Value::Float(value) if self.columns[index].measured => scales[index].show(*value),
                value => clean(&value.to_string()).into_owned(),
            });
            grid.add_row(cells);
        }
        for (column, _) in grid.column_iter_mut().zip(&numbers).filter(|(_, number)| **number) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        format!("{grid}\n")
    }

    fn is_number(&self, index: usize) -> bool {
        self.rows.iter().all(|row| matches!(row[index], Value::Int(_) | Value::Float(_) | Value::Null))
    }

    fn scale(&self, index: usize) -> Scale {
        let sizes = self.rows.iter().filter_map(|row| row[index].as_f64()).map(f64::abs);
        let heading = &self.columns[index];
        let name = heading.without_unit().trim_start_matches("metrics.");
        Scale::of_metric(name, sizes.fold(0.0, f64::max), heading.unit)
    }

    fn csv(&self) -> String {
        let mut text = csv::line(self.columns.iter().map(|column| csv::text(&column.said())));
        for row in &self.rows {
            text += &csv::line(row.iter().map(|value| match value {
                Value::Null => String::new(),
                Value::Float(number) => number.to_string(),
                Value::Int(number) => number.to_string(),
                value => csv::text(&value.to_string()),
            }));
        }
        text
    }

    fn json(&self, output: Output<'_>) -> io::Result<()> {
        output.write_all(b"[")?;
        for (index, row) in self.rows.iter().enumerate() {
            output.write_all(if index == 0 { b"\n" } else { b",\n" })?;
            serde_json::to_writer(&mut *output, &Row { columns: &self.columns, row })?;
        }
        output.write_all(b"\n]\n")
    }
}

/// A record, whose columns stay in their order.
struct Row<'a> {
    columns: &'a [Heading],
    row: &'a [Value],
}

impl Serialize for Row<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.columns.iter().map(|Heading { name, .. }| name).zip(self.row))
    }
}

impl Serialize for Answer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.rows.iter().map(|row| Row { columns: &self.columns, row }))
    }
}
