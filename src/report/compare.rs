//! A table of differences: what a change of one axis makes of a metric, in pairs over everything else.

use std::collections::HashSet;

use sweep_job::Unit;

use super::{
    Cell, Column, Frame, Table, TableRow,
    pairs::{apart, pairs},
    stats::{Sample, holm},
    table::Spread,
};
use crate::{
    plan::{Point, Study},
    recipe::{self, Compare, Names},
    text::{clean, count},
    ui::Scale,
};

/// One row for each pair of values, one column for each metric.
pub(super) fn table(table: &recipe::Table, compare: &Compare, study: &Study, frame: &Frame) -> Table {
    let step = &study.recipe.steps[table.from.value];
    let axis = compare.axis.value.as_str();
    let apart = apart(step, &[axis]);
    let value = |template: &recipe::Template| {
        template.resolve(&study.recipe.params, &Names::new()).map(|resolved| resolved.value)
    };
    let wanted: Vec<_> = compare.pairs.iter().filter_map(|(of, to)| Some((value(of)?, value(to)?))).collect();
    let mut rows: Vec<TableRow> = wanted
        .iter()
        .map(|(of, to)| TableRow { labels: vec![clean(&format!("{of} − {to}")).into_owned()], cells: Vec::new() })
        .collect();
    let mut columns = Vec::new();
    let mut unpaired = false;
    for metric in &table.cells {
        let side = |wanted: &sweep_job::Value| -> (Vec<(Point, f64)>, usize) {
            let mut jobs = HashSet::new();
            let (mut found, mut missing) = (Vec::new(), 0);
            for row in frame.rows.iter().filter(|row| row.point.get(axis) == Some(wanted)) {
                if !jobs.insert(row.job) {
                    continue;
                }
                match row.metrics.as_ref().and_then(|metrics| metrics.get(&metric.value)) {
                    Some(metric) => found.push((row.point.clone(), metric.value)),
                    None => missing += 1,
                }
            }
            (found, missing)
        };
        let mut estimates = Vec::new();
        for ((of, to), row) in wanted.iter().zip(&mut rows) {
            let ((first, lost), (second, lost_too)) = (side(of), side(to));
            let missing = lost + lost_too;
            let sample = pairs(&first, &second, &apart, missing > 0).and_then(|pairs| {
                let differences: Vec<f64> = pairs.iter().map(|(of, to)| of - to).collect();
                Sample::new(&differences)
            });
            unpaired |= sample.is_none() && !first.is_empty() && !second.is_empty();
            estimates.push(sample.and_then(|sample| sample.estimate().p));
            row.cells.push(Cell { sample, missing, points: first.len() + second.len() + missing, p: None });
        }
        // Whoever asks often enough finds something by chance.
        let chance: Vec<f64> = estimates.iter().flatten().copied().collect();
        let mut corrected = holm(&chance).into_iter();
        for (row, p) in rows.iter_mut().zip(estimates) {
            if let (Some(cell), Some(_)) = (row.cells.last_mut(), p) {
                cell.p = corrected.next();
            }
        }
        let unit = step.task.metric(&metric.value).map_or(Unit::One, |metric| metric.unit);
        let largest = rows.iter().filter_map(|row| row.cells.last()?.sample).map(|sample| sample.mean.abs());
        let scale = Scale::of(largest.fold(0.0, f64::max), unit);
        columns.push(Column { point: Vec::new(), metric: metric.value.clone(), unit, scale });
    }
    let notes = notes(&rows, &columns, unpaired);
    Table {
        name: table.name.value.clone(),
        title: clean(table.title.as_ref().unwrap_or(&table.name.value)).into_owned(),
        axes: vec![axis.to_owned()],
        columns,
        rows,
        notes,
        spread: Spread::Interval,
    }
}

fn notes(rows: &[TableRow], columns: &[Column], unpaired: bool) -> Vec<String> {
    let cells = || rows.iter().flat_map(|row| &row.cells);
    let counts: Vec<usize> = cells().filter_map(|cell| cell.sample).map(|sample| sample.n).collect();
    let mut notes = Vec::new();
    if let (Some(least), Some(most)) = (counts.iter().min(), counts.iter().max()) {
        let n = if least == most { most.to_string() } else { format!("{least} to {most}") };
        let names: Vec<&str> = columns.iter().map(|column| column.metric.as_str()).collect();
        notes.push(format!("difference in {}, ± 95 % CI, over pairs (n = {n})", names.join(", ")));
    }
    let compared = columns.iter().enumerate().map(|(column, _)| {
        rows.iter().filter(|row| row.cells.get(column).is_some_and(|cell| cell.p.is_some())).count()
    });
    if let Some(compared) = compared.max().filter(|compared| *compared > 0) {
        notes.push(format!("p is corrected for {} (Holm)", count(compared, "comparison")));
    }
    if cells().any(|cell| cell.missing > 0 && cell.sample.is_some()) {
        notes.push("* some jobs have no result".to_owned());
    }
    if unpaired {
        notes.push("– the points do not go together one by one".to_owned());
    } else if cells().any(|cell| cell.points > 0 && cell.sample.is_none()) {
        notes.push("– no result".to_owned());
    }
    notes
}
