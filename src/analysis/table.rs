//! Content of a table, independent of its output format.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    iter,
};

use sweep_job::{Unit, Value, same_metric};

use crate::{
    analysis::{
        Absence, Cell, Compared, Frame, Mark, Row, Show,
        absence::Footnotes,
        cell::Text,
        pairs::{apart, pairs},
    },
    format::{Scale, clean},
    plan::{JobId, Point, Study, resolved, selected},
    recipe::{self, Metrics, PaperRow},
    stats::{Better, Estimate, LEVEL, Quartiles, Sample, holm},
};

/// A table: rows and columns of samples.
#[derive(Debug)]
pub struct Table {
    /// Its name, which is also the name of its files.
    pub name: String,
    /// Its heading.
    pub title: String,
    /// The axes that distinguish the rows.
    pub axes: Vec<String>,
    /// The columns after the axes.
    pub columns: Vec<Column>,
    /// The rows.
    pub rows: Vec<TableRow>,
    /// Notes for readers.
    pub notes: Vec<String>,
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
    /// Scale of its numbers.
    pub scale: Scale,
    /// The number that is shown.
    pub show: Show,
}

/// A row.
#[derive(Debug)]
pub struct TableRow {
    /// The values on [`Table::axes`].
    pub labels: Vec<String>,
    /// One cell per column.
    pub cells: Vec<Cell>,
}

/// The rows of a frame that belong to a cell.
type Members<'f, 'a> = [&'f Row<'a>];

impl Table {
    /// Groups a frame's rows into cells.
    pub fn new(
        table: &recipe::Table,
        shown: &Metrics,
        study: &Study,
        frame: &Frame<'_>,
        absences: &BTreeMap<JobId, Absence>,
    ) -> Self {
        let names = |axes: &[recipe::Spanned<String>]| axes.iter().map(|axis| axis.value.clone()).collect::<Vec<_>>();
        let (row_axes, column_axes) = (names(&shown.rows), names(&shown.columns));
        let step = &study.recipe.steps[shown.of.step];
        let (row_keys, column_keys) = (Keys::new(frame, &row_axes), Keys::new(frame, &column_axes));
        // Every point belongs to one row and one group of columns.
        let groups = column_keys.labels.len();
        let mut members: Vec<Vec<&Row<'_>>> = vec![Vec::new(); row_keys.labels.len() * groups];
        for ((row, row_key), column_key) in frame.rows.iter().zip(&row_keys.of_row).zip(&column_keys.of_row) {
            members[row_key * groups + column_key].push(row);
        }
        let named: Vec<&str> = row_axes.iter().chain(&column_axes).map(String::as_str).collect();
        let apart = apart(step, &named);
        let paper = Paper::new(shown, study);
        let mut footnotes = Footnotes::default();
        let mut columns = Vec::new();
        let mut rows: Vec<TableRow> =
            row_keys.labels.iter().map(|labels| TableRow { labels: labels.clone(), cells: Vec::new() }).collect();
        let mut letters: Vec<Vec<(usize, Absence, Option<JobId>)>> = vec![Vec::new(); rows.len()];
        for (group, key) in column_keys.labels.iter().enumerate() {
            for metric in table.cells.iter().map(|cell| cell.value.as_str()) {
                let unit = step.task.metric(metric).map_or(Unit::One, |metric| metric.unit);
                let show = if is_timing(unit) { Show::Median } else { Show::Mean };
                let mut cells = Vec::new();
                for index in 0..rows.len() {
                    let members = &members[index * groups + group];
                    let (mut cell, absent) = cell(members, metric, absences);
                    cell.paper = paper.value(members, metric);
                    letters[index].extend(absent.into_iter().map(|(why, job)| (columns.len(), why, Some(job))));
                    cells.push(cell);
                }
                let said =
                    shown.best.iter().find(|(name, _)| same_metric(&name.value, metric)).map(|(_, better)| *better);
                let better = said.unwrap_or_else(|| Better::of(unit));
                let values: Vec<Vec<(&Point, f64)>> =
                    (0..rows.len()).map(|index| measured(&members[index * groups + group], metric)).collect();
                let uneven = !study.rounds.is_empty();
                mark(&mut cells, &values, show, better, &apart, uneven);
                let point = column_axes.iter().cloned().zip(key.iter().cloned()).collect();
                let column = Column { point, metric: metric.to_owned(), unit, scale: scale(&cells, show, unit), show };
                push(&mut columns, &mut rows, column, cells);
            }
        }
        // Letters in reading order.
        for (row, absent) in rows.iter_mut().zip(letters) {
            for (column, absence, job) in absent {
                row.cells[column].lacks(&absence, job, &mut footnotes);
            }
        }
        let averaged: Vec<&str> = step
            .axes()
            .into_iter()
            .filter(|axis| !named.contains(axis))
            .filter(|axis| Keys::new(frame, &[(*axis).to_owned()]).labels.len() > 1)
            .collect();
        let notes = notes(&averaged, &columns, &rows, &footnotes);
        let title = clean(table.title.as_ref().unwrap_or(&table.name.value)).into_owned();
        Self { name: table.name.value.clone(), title, axes: row_axes, columns, rows, notes }
    }

    /// The headings, row axes first: `fusion=off · memory.peak (MiB)`.
    pub(crate) fn headings(&self) -> Vec<String> {
        let columns = self.columns.iter().map(|column| {
            let point: Vec<String> = column.point.iter().map(|(axis, value)| format!("{axis}={value}")).collect();
            let unit = match (column.show, column.scale.suffix) {
                (Show::Ratio, _) => "",
                (_, "") => column.unit.symbol(),
                (_, suffix) => suffix,
            };
            let unit = if unit.is_empty() { String::new() } else { format!(" ({unit})") };
            let separator = if point.is_empty() { "" } else { " · " };
            let what = match column.show {
                // The paper's columns and shares follow the column that they belong to.
                Show::Paper => return format!("paper{unit}"),
                Show::Delta => return format!("Δ{unit}"),
                Show::Share => return format!("share{unit}"),
                Show::Ratio => " · ratio",
                Show::Mean | Show::Median | Show::Difference => "",
            };
            clean(&format!("{}{separator}{}{what}{unit}", point.join(", "), column.metric)).into_owned()
        });
        self.axes.iter().cloned().chain(columns).collect()
    }

    /// A row's texts without its labels.
    pub(crate) fn cells<'a>(&'a self, row: &'a TableRow) -> impl Iterator<Item = Text> + 'a {
        row.cells.iter().zip(&self.columns).map(|(cell, column)| cell.text(column.show, column.scale))
    }

    /// A row's texts, starting with its labels.
    pub(crate) fn texts<'a>(&'a self, row: &'a TableRow) -> impl Iterator<Item = String> + 'a {
        row.labels.iter().cloned().chain(self.cells(row).map(|text| text.marked()))
    }
}

impl Column {
    /// True if the column contains measurements instead of values from the paper.
    pub(crate) fn is_measured(&self) -> bool {
        !matches!(self.show, Show::Paper | Show::Delta)
    }
}

/// Adds a column, and if the paper has values for it, columns with those and with the relative differences.
fn push(columns: &mut Vec<Column>, rows: &mut [TableRow], column: Column, cells: Vec<Cell>) {
    let beside =
        |show, unit, scale| Column { point: column.point.clone(), metric: column.metric.clone(), show, unit, scale };
    let mut further: Vec<(Column, Vec<Cell>)> = Vec::new();
    if cells.iter().any(|cell| cell.paper.is_some()) {
        let theirs = cells.iter().map(|cell| Cell {
            sample: cell.paper.and_then(|paper| Sample::new(&[paper])),
            points: cell.points,
            ..Cell::default()
        });
        further.push((beside(Show::Paper, column.unit, column.scale), theirs.collect()));
        let deltas = cells.iter().map(|cell| delta(cell, column.show));
        further.push((beside(Show::Delta, Unit::Fraction, Scale::of(0.0, Unit::Fraction)), deltas.collect()));
    }
    for (column, cells) in iter::once((column, cells)).chain(further) {
        columns.push(column);
        for (row, cell) in rows.iter_mut().zip(cells) {
            row.cells.push(cell);
        }
    }
}

/// Relative difference between a cell and the paper's value.
fn delta(cell: &Cell, show: Show) -> Cell {
    let part = cell.value(show).zip(cell.paper.filter(|paper| *paper != 0.0)).map(|(ours, paper)| {
        let interval = cell.sample.map(|sample| sample.estimate());
        let noise = interval.is_some_and(|Estimate { low, high, .. }| {
            low.zip(high).is_some_and(|(low, high)| low <= paper && paper <= high)
        });
        (ours / paper - 1.0, noise)
    });
    let compared =
        part.map(|(value, noise)| Compared { estimate: Estimate { value, low: None, high: None, p: None }, noise });
    let sample = part.and_then(|(value, _)| Sample::new(&[value]));
    Cell { sample, compared, points: cell.points, ..Cell::default() }
}

/// True for times and rates, which are summarized by the median because of slow outliers.
pub(crate) fn is_timing(unit: Unit) -> bool {
    unit == Unit::Seconds || unit.is_rate()
}

/// Marks the best cells of a column, and those that are not significantly worse. `uneven` is true if points may have
/// different numbers of seeds.
fn mark(
    cells: &mut [Cell],
    values: &[Vec<(&Point, f64)>],
    show: Show,
    better: Option<Better>,
    apart: &[String],
    uneven: bool,
) {
    let Some(better) = better else { return };
    let known: Vec<(usize, f64)> =
        cells.iter().enumerate().filter_map(|(index, cell)| Some((index, cell.value(show)?))).collect();
    let best = known.iter().copied().min_by(|(_, a), (_, b)| match better {
        Better::Less => a.total_cmp(b),
        Better::More => b.total_cmp(a),
    });
    let Some((best, value)) = best else { return };
    // Equal values have no best one.
    if known.iter().all(|(_, other)| *other == value) {
        return;
    }
    let mut others = Vec::new();
    for (index, other) in &known {
        if *other == value {
            cells[*index].mark = Some(Mark::Best);
            continue;
        }
        let partial = uneven || cells[*index].missing + cells[best].missing > 0;
        let estimate = match pairs(&values[*index], &values[best], apart, partial) {
            Some(pairs) => {
                let differences: Vec<f64> = pairs.iter().map(|(of, to)| of - to).collect();
                Sample::new(&differences).map(|sample| sample.estimate())
            }
            None => cells[*index].sample.zip(cells[best].sample).map(|(of, to)| of.welch_difference(&to)),
        };
        others.extend(estimate.and_then(|estimate| estimate.p).map(|p| (*index, p)));
    }
    let chance: Vec<f64> = others.iter().map(|(_, p)| *p).collect();
    for ((index, _), p) in others.iter().zip(holm(&chance)) {
        if p >= 1.0 - LEVEL {
            cells[*index].mark = Some(Mark::Tied);
        }
    }
}

/// The paper's measurements, by their points.
struct Paper<'a>(Vec<(Points<'a>, &'a PaperRow)>);

/// Points that have, on each of these axes, one of these values.
type Points<'a> = Vec<(&'a str, Vec<Value>)>;

impl<'a> Paper<'a> {
    fn new(shown: &'a Metrics, study: &Study) -> Self {
        let rows = shown.paper.iter();
        Self(rows.map(|row| (resolved(&study.recipe, &row.only), row)).collect())
    }

    /// The paper's value of a metric for a cell: the entry must cover all of the cell's points.
    fn value(&self, members: &Members<'_, '_>, metric: &str) -> Option<f64> {
        let about = |only: &[(&str, Vec<Value>)]| members.iter().all(|row| selected(row.point, only));
        let mut rows = self.0.iter().filter(|(only, _)| !members.is_empty() && about(only));
        rows.find_map(|(_, row)| {
            let of = row.metrics.iter().find(|(name, _)| same_metric(&name.value, metric));
            of.map(|(_, value)| *value)
        })
    }
}

/// The distinct values of some axes.
struct Keys {
    /// In the order of their first appearance, as they are printed.
    labels: Vec<Vec<String>>,
    /// The index of the label of every row of the frame.
    of_row: Vec<usize>,
}

impl Keys {
    fn new(frame: &Frame<'_>, axes: &[String]) -> Self {
        let mut labels = Vec::new();
        let mut seen = HashMap::new();
        let of_row = frame.rows.iter().map(|row| {
            let values: Vec<Option<&Value>> = axes.iter().map(|axis| row.point.get(axis)).collect();
            // JSON distinguishes the text "1" from the number 1.
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

/// The values of a metric, each job once.
fn measured<'a>(rows: &[&Row<'a>], metric: &str) -> Vec<(&'a Point, f64)> {
    let mut jobs = HashSet::new();
    let rows = rows.iter().filter(|row| jobs.insert(row.job));
    rows.filter_map(|row| Some((row.point, row.metrics?.get(metric)?.value))).collect()
}

/// A cell, and the reasons for its missing results.
fn cell(rows: &[&Row<'_>], metric: &str, absences: &BTreeMap<JobId, Absence>) -> (Cell, Vec<(Absence, JobId)>) {
    let (mut values, mut absent, mut jobs) = (Vec::new(), Vec::new(), HashSet::new());
    // Points that share a job are one measurement.
    for row in rows.iter().filter(|row| jobs.insert(row.job)) {
        match row.metrics {
            Some(metrics) => match metrics.get(metric) {
                Some(metric) => values.push(metric.value),
                None => absent.push((Absence::NotMeasured, row.job)),
            },
            None => absent.push((absences.get(&row.job).cloned().unwrap_or(Absence::NotRun), row.job)),
        }
    }
    let (sample, quartiles) = (Sample::new(&values), Quartiles::new(&values));
    (Cell { sample, quartiles, missing: absent.len(), points: rows.len(), ..Cell::default() }, absent)
}

/// The scale that fits a column's largest number.
pub(crate) fn scale(cells: &[Cell], show: Show, unit: Unit) -> Scale {
    let sizes = cells.iter().filter_map(|cell| cell.value(show)).map(f64::abs);
    Scale::of(sizes.fold(0.0, f64::max), unit)
}

fn notes(averaged: &[&str], columns: &[Column], rows: &[TableRow], footnotes: &Footnotes) -> Vec<String> {
    let mut notes = Vec::new();
    let of = |show: Show| {
        let columns = columns.iter().enumerate().filter(move |(_, column)| column.show == show);
        columns.map(|(index, column)| (index, column.metric.as_str()))
    };
    for (show, what) in [(Show::Mean, "mean ± 95 % CI"), (Show::Median, "median [quartiles]")] {
        let samples = of(show).flat_map(|(index, _)| rows.iter().filter_map(move |row| row.cells[index].sample));
        let counts: Vec<usize> = samples.map(|sample| sample.n).collect();
        let (Some(least), Some(most)) = (counts.iter().min(), counts.iter().max()) else { continue };
        if *most < 2 || averaged.is_empty() {
            continue;
        }
        let n = if least == most { most.to_string() } else { format!("{least} to {most}") };
        // Only a table with both kinds needs to distinguish them.
        let mixed = of(Show::Mean).next().is_some() && of(Show::Median).next().is_some();
        let mut metrics: Vec<&str> = of(show).map(|(_, metric)| metric).collect();
        metrics.dedup();
        metrics.sort_unstable();
        metrics.dedup();
        let metrics = if mixed { format!("{}: ", metrics.join(", ")) } else { String::new() };
        notes.push(clean(&format!("{metrics}{what} over {} (n = {n})", averaged.join(", "))).into_owned());
    }
    let cells = || rows.iter().flat_map(|row| &row.cells);
    let has = |mark| cells().any(|cell| cell.mark == Some(mark));
    if has(Mark::Best) {
        let tied = if has(Mark::Tied) { ", ≈ chance can explain the difference to it" } else { "" };
        notes.push(format!("◀ best of its column{tied}"));
    }
    if of(Show::Delta).next().is_some() {
        let noise = rows.iter().any(|row| {
            of(Show::Delta).any(|(index, _)| row.cells[index].compared.is_some_and(|compared| compared.noise))
        });
        let noise = if noise { "; ≈ the paper's value is within our interval" } else { "" };
        notes.push(format!("Δ ours compared with the paper's{noise}"));
    }
    notes.extend(footnotes.texts());
    notes
}
