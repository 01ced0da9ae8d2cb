//! Curves of records in a long form: a row for each point.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use sweep_job::{Curve, Unit, Value};

use super::{Answer, Column, Heading, QueryError, Question, Records, Row};
use crate::{recipe::suggest, store::Store};

/// The columns of a point, after the columns that identify its job.
const POINT: [&str; 3] = ["series", "at", "value"];
/// The column of the unit of `value`, where there are several.
const UNIT: &str = "unit";

impl Records {
    /// The curves of the records that a question selects: the selected columns, or the columns that distinguish the records, with `series`,
    /// `at` and `value`, and `unit` if a series has several units. `names` are the wanted series; without any, all. The question's limit
    /// counts records. Their curves are read from `store`.
    pub fn curves(
        &self,
        question: &Question,
        names: &[String],
        store: &Store,
        brief: bool,
    ) -> Result<Answer, QueryError> {
        let rows = self.matching(question)?;
        let columns =
            if question.select.is_empty() { self.telling(&rows, brief) } else { self.selected(&question.select)? };
        let (mut points, mut known_names, mut units): (Vec<Vec<Value>>, _, _) =
            (Vec::new(), BTreeSet::new(), BTreeMap::<String, HashSet<Unit>>::new());
        for row in &rows {
            let Some(record) = store.get(self.entries[row.entry].0.key)? else { continue };
            let job: Vec<Value> = columns.iter().map(|column| self.value(row, column)).collect();
            for (name, curve) in record.outcome.curves {
                if names.is_empty() || names.contains(&name) {
                    units.entry(name.clone()).or_default().insert(curve.unit);
                    points.extend(rows_of(&job, &name, &curve));
                }
                known_names.insert(name);
            }
        }
        if let Some(name) = names.iter().find(|name| !rows.is_empty() && !known_names.contains(*name)) {
            let help = suggest(name, "curves", known_names.iter().map(String::as_str));
            let help = help.unwrap_or_else(|| "there are no curves".to_owned());
            return Err(QueryError::UnknownColumn { name: name.clone(), help });
        }
        let all: HashSet<Unit> = units.values().flatten().copied().collect();
        let unit = if all.len() == 1 { all.into_iter().next() } else { None };
        // A series in several units has a column for the unit.
        let is_mixed = units.values().any(|units| units.len() > 1);
        if !is_mixed {
            for row in &mut points {
                row.truncate(row.len() - 1);
            }
        }
        let mut headings: Vec<Heading> = columns.iter().map(|column| self.heading(column)).collect();
        for (heading, column) in headings.iter_mut().zip(&columns) {
            if POINT.contains(&heading.name.as_str()) || heading.name == UNIT {
                heading.name = column.name();
            }
        }
        headings.extend(POINT.map(|name| {
            let measured = name == "value";
            let unit = unit.filter(|_| measured).unwrap_or(Unit::One);
            Heading { name: name.to_owned(), unit, measured }
        }));
        if is_mixed {
            headings.push(Heading { name: UNIT.to_owned(), unit: Unit::One, measured: false });
        }
        Ok(Answer { columns: headings, rows: points, asked: self.rows.len() })
    }

    /// The columns that distinguish these rows.
    fn telling(&self, rows: &[&Row], brief: bool) -> Vec<&Column> {
        let is_measured = |column: &Column| matches!(column, Column::Metric(_) | Column::OtherUnit(..) | Column::Key);
        let mut columns = self.fitting(rows, brief);
        columns.retain(|column| !is_measured(column) && **column != Column::Label);
        columns.splice(0..0, self.columns.iter().filter(|column| **column == Column::Label));
        columns
    }
}

/// The rows of a curve.
fn rows_of(job: &[Value], name: &str, curve: &Curve) -> impl Iterator<Item = Vec<Value>> {
    let unit = curve.unit.key();
    curve.at.iter().zip(&curve.values).map(move |(step, value)| {
        let step = i64::try_from(*step).map_or_else(|_| Value::Float(*step as f64), Value::Int);
        let mut row = Vec::with_capacity(job.len() + POINT.len());
        row.extend_from_slice(job);
        row.extend([Value::Text(name.to_owned()), step, Value::Float(*value), Value::Text(unit.to_owned())]);
        row
    })
}
