//! Content of a table, independent of its output format.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    iter,
};

use sweep_job::{Unit, Value, same_metric};

use crate::{
    analysis::{
        Absence, Cell, Compared, Mark, Show,
        absence::Footnotes,
        alike::{Alike, leave_out_equal, values_without_effect},
        cell::{TOO_WIDE, Text, tell_apart},
        claim::scale::misses,
        evidence::{Question, Side, Source, summarize},
        marks::{Remark, mark},
        no_interval::Reasons,
        pairs::apart,
        units::SamplingUnit,
    },
    format::{Scale, clean, readable},
    plan::{JobId, Point, Study, resolved, selected},
    recipe::{self, Extent, MetricTraits, Metrics, PaperRow},
    stats::{Estimate, Quartiles, Sample},
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
    /// Its unit.
    pub unit: Unit,
    /// Scale of its numbers.
    pub scale: Scale,
    /// The displayed number.
    pub show: Show,
}

/// The heading of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heading {
    /// Values on the column axes: `fusion=off`.
    pub point: Vec<String>,
    /// The metric with its unit; `paper (MiB)`, `Δ (%)` or `share (%)` in a column that follows another one.
    pub text: String,
    /// True if the column refers to the column before it.
    follows: bool,
}

/// A row.
#[derive(Debug)]
pub struct TableRow {
    /// The values on [`Table::axes`].
    pub labels: Vec<String>,
    /// One cell per column.
    pub cells: Vec<Cell>,
}

/// The points that belong to a cell.
type Members<'a> = [(&'a Point, JobId)];

impl Table {
    /// Groups the points of a step into cells.
    #[expect(clippy::too_many_lines, reason = "one column after the other")]
    pub(super) fn new(table: &recipe::Table, shown: &Metrics, source: Source<'_>) -> Self {
        let names = |axes: &[recipe::Spanned<String>]| axes.iter().map(|axis| axis.value.clone()).collect::<Vec<_>>();
        let (row_axes, column_axes) = (names(&shown.rows), names(&shown.columns));
        let step = &source.study.recipe.steps[shown.of.step];
        let only = resolved(&source.study.recipe, &shown.of.only);
        let points = source.points(shown.of.step, &only);
        let (row_keys, column_keys) = (Keys::new(&points, &row_axes), Keys::new(&points, &column_axes));
        // Every point belongs to one row and one group of columns.
        let groups = column_keys.labels.len();
        let mut members: Vec<Vec<(&Point, JobId)>> = vec![Vec::new(); row_keys.labels.len() * groups];
        for ((point, row_key), column_key) in points.iter().zip(&row_keys.of_row).zip(&column_keys.of_row) {
            members[row_key * groups + column_key].push(*point);
        }
        let names: Vec<&str> = row_axes.iter().chain(&column_axes).map(String::as_str).collect();
        let (apart, kinds) = (apart(step, &names), source.kinds(&[shown.of.step]));
        let reserve = source.reserve(shown.of.step, &only);
        let paper = Paper::new(shown, source.study);
        let misfit = misfit(&shown.about, &points, source);
        let mut footnotes = Footnotes::default();
        let mut columns = Vec::new();
        let mut remarks: BTreeMap<String, BTreeSet<Remark>> = BTreeMap::new();
        let mut rows: Vec<TableRow> =
            row_keys.labels.iter().map(|labels| TableRow { labels: labels.clone(), cells: Vec::new() }).collect();
        let (mut equal_rows, mut equal_jobs) = (BTreeSet::new(), Alike::default());
        let mut looks = BTreeSet::new();
        let mut letters: Vec<Vec<(usize, Absence, Option<JobId>)>> = vec![Vec::new(); rows.len()];
        for (group, key) in column_keys.labels.iter().enumerate() {
            for metric in table.cells.iter().map(|cell| cell.value.as_str()) {
                let traits = source.traits(shown.of.step, metric);
                let goal = shown.best.iter().find(|(name, _)| same_metric(&name.value, metric)).map(|(_, goal)| *goal);
                let traits = MetricTraits { better: goal.unwrap_or(traits.better), ..traits };
                let members: Vec<&Members<'_>> =
                    (0..rows.len()).map(|index| members[index * groups + group].as_slice()).collect();
                let mut sides: Vec<Side<'_>> =
                    members.iter().map(|members| source.side_of(members.iter().copied(), metric, traits)).collect();
                for side in &mut sides {
                    side.keep(&reserve, &names);
                }
                let show = if traits.unit.is_timing() && sides.iter().all(Side::is_positive) {
                    Show::Interval
                } else {
                    Show::Mean
                };
                let labels = row_keys.labels.iter().map(|labels| labels.join(", "));
                let labeled_sides: Vec<(String, &Side<'_>)> = labels.zip(&sides).collect();
                equal_rows.extend(values_without_effect(&labeled_sides, &apart, (traits, &kinds), "; "));
                let (rules, unpaired) = (table.rules, true);
                let (apart, kinds) = (apart.clone(), kinds.clone());
                let question = Question { traits, apart, kinds, repeats: None, ratio: false, unpaired, rules };
                let mut cells = Vec::new();
                for (index, (side, members)) in sides.iter().zip(&members).enumerate() {
                    let mut distinct_side = side.clone();
                    let equal = leave_out_equal(&mut [&mut distinct_side], &question.apart, (traits, &question.kinds));
                    let mut cell = cell(&distinct_side, &question, show, &mut looks);
                    cell.no_interval = equal.instead_of(cell.no_interval);
                    equal_jobs.extend(equal);
                    cell.points = members.len();
                    cell.paper = paper.value(members, metric);
                    let absent = side.absent.iter();
                    letters[index].extend(absent.map(|(why, job, _)| (columns.len(), why.clone(), Some(*job))));
                    cells.push(cell);
                }
                if misfit.is_none() || !shown.paper.is_empty() {
                    let mark_remarks = mark(&mut cells, &mut sides, &question, show == Show::Interval);
                    remarks.entry(metric.to_owned()).or_default().extend(mark_remarks);
                }
                let point = column_axes.iter().cloned().zip(key.iter().cloned()).collect();
                let (unit, scale) = (traits.unit, scale(metric, &cells, show, traits.unit));
                let column = Column { point, metric: metric.to_owned(), unit, scale, show };
                push(&mut columns, &mut rows, column, cells, misfit.is_none());
            }
        }
        // Assigns the letters of footnotes in reading order.
        let reasons = Reasons::new(&rows, &columns);
        for (index, (row, absent)) in rows.iter_mut().zip(letters).enumerate() {
            for (column, absence, job) in absent {
                row.cells[column].lacks(&absence, job, &mut footnotes);
            }
            for (_, column, reason) in reasons.cells.iter().filter(|(row, ..)| *row == index) {
                row.cells[*column].refer(&Absence::NoInterval(reason.clone()), &mut footnotes);
            }
        }
        let unit = SamplingUnit::of(&points.iter().map(|(point, _)| *point), &apart, &kinds, None);
        let mut notes = notes(&unit, &columns, &rows, &remarks, &footnotes);
        notes.extend(reasons.notes);
        notes.extend(unit.remarks_of_rows(&kinds));
        notes.extend(looks.iter().map(|looks| format!("intervals allow for looks at the results: {looks}")));
        let text = if shown.paper.is_empty() { "rows are not ranked" } else { "no difference from the paper" };
        notes.extend(misfit.map(|misfit| format!("{text}: {misfit}")));
        let equal = equal_jobs.words().into_iter().chain(equal_rows);
        notes.extend(equal.map(|remark| clean(&remark).into_owned()));
        let title = clean(table.title.as_ref().unwrap_or(&table.name.value)).into_owned();
        Self { name: table.name.value.clone(), title, axes: row_axes, columns, rows, notes }
    }

    /// The headings, row axes first: `fusion=off · memory.peak (MiB)`.
    pub fn headings(&self) -> Vec<String> {
        let columns = self.columns.iter().map(|column| column.heading(str::to_owned).whole());
        self.axes.iter().cloned().chain(columns).collect()
    }

    /// The headings with the names of metrics as people read them: `fusion=off · Memory: peak (MiB)`.
    pub fn titles(&self) -> Vec<String> {
        let columns = self.column_titles();
        self.axes.iter().cloned().chain(columns.iter().map(Heading::whole)).collect()
    }

    /// The headings of the columns with the names of metrics as people read them.
    pub fn column_titles(&self) -> Vec<Heading> {
        let titles: Vec<Heading> = self.columns.iter().map(|column| column.heading(readable)).collect();
        let wholes: Vec<String> = titles.iter().map(Heading::whole).collect();
        let is_shared = |title: &String| wholes.iter().filter(|other| *other == title).count() > 1;
        // Names whose readable forms are equal are not changed.
        let columns = titles.into_iter().zip(&wholes).zip(&self.columns);
        columns
            .map(|((title, whole), column)| if is_shared(whole) { column.heading(str::to_owned) } else { title })
            .collect()
    }

    /// A row's texts without its labels.
    pub fn cells<'a>(&'a self, row: &'a TableRow) -> impl Iterator<Item = Text> + 'a {
        row.cells.iter().zip(&self.columns).map(|(cell, column)| cell.text(column.show, column.scale))
    }

    /// A row's texts, starting with its labels.
    pub fn texts<'a>(&'a self, row: &'a TableRow) -> impl Iterator<Item = String> + 'a {
        row.labels.iter().cloned().chain(self.cells(row).map(|text| text.marked()))
    }
}

impl Column {
    /// True if the column contains measurements instead of values from the paper.
    pub fn is_measured(&self) -> bool {
        !matches!(self.show, Show::Paper | Show::Delta | Show::Odds)
    }

    /// True for the paper's values, differences from them, and shares, which refer to the column before them.
    pub fn follows(&self) -> bool {
        matches!(self.show, Show::Paper | Show::Delta | Show::Share)
    }

    /// The heading, with the metric's name as `name` spells it.
    fn heading(&self, name: impl Fn(&str) -> String) -> Heading {
        let unit = match (self.show, self.scale.suffix) {
            (Show::Ratio | Show::Improvement | Show::Odds, _) => "",
            (_, "") => self.unit.symbol(),
            (_, suffix) => suffix,
        };
        let unit = if unit.is_empty() { String::new() } else { format!(" ({unit})") };
        let (metric, what) = match self.show {
            Show::Paper => (String::new(), "paper"),
            Show::Delta => (String::new(), "Δ"),
            Show::Share => (String::new(), "share"),
            Show::Ratio => (name(&self.metric), " · ratio"),
            Show::Improvement => (name(&self.metric), " · better"),
            Show::Odds => (name(&self.metric), " · odds"),
            Show::Mean | Show::Interval | Show::Difference => (name(&self.metric), ""),
        };
        let point = self.point.iter().map(|(axis, value)| clean(&format!("{axis}={value}")).into_owned()).collect();
        Heading { point, text: clean(&format!("{metric}{what}{unit}")).into_owned(), follows: self.follows() }
    }
}

impl Heading {
    /// The heading in one line. The heading of a column that refers to the column before it does not repeat the point.
    fn whole(&self) -> String {
        if self.follows || self.point.is_empty() {
            self.text.clone()
        } else {
            format!("{} · {}", self.point.join(", "), self.text)
        }
    }
}

/// Reason why the table's comparisons do not apply to these points; `None` if they apply.
fn misfit(about: &Extent, points: &Members<'_>, source: Source<'_>) -> Option<String> {
    let mut backends = points.iter().filter_map(|(_, job)| source.measured.get(job)?.backend);
    let other = backends.find(|backend| !about.hardware.is_empty() && !about.hardware.contains(backend));
    let hardware = other.map(|other| {
        let about: Vec<&str> = about.hardware.iter().map(|backend| backend.name()).collect();
        format!("the table is about {}; this was measured on {}", about.join(" or "), other.name())
    });
    hardware.or_else(|| misses(&about.scale, points, source))
}

/// Adds a column. If the paper has values for it, adds a column with them, and another with the relative differences if sizes and hardware
/// are the same.
fn push(columns: &mut Vec<Column>, rows: &mut [TableRow], column: Column, cells: Vec<Cell>, is_comparable: bool) {
    let beside =
        |show, unit, scale| Column { point: column.point.clone(), metric: column.metric.clone(), show, unit, scale };
    let mut more_columns: Vec<(Column, Vec<Cell>)> = Vec::new();
    if cells.iter().any(|cell| cell.paper.is_some()) {
        let theirs = cells.iter().map(|cell| Cell {
            sample: cell.paper.and_then(|paper| Sample::new(&[paper])),
            points: cell.points,
            ..Cell::default()
        });
        more_columns.push((beside(Show::Paper, column.unit, column.scale), theirs.collect()));
        if is_comparable {
            let deltas = cells.iter().map(|cell| delta(cell, column.show));
            more_columns.push((beside(Show::Delta, Unit::Fraction, Scale::of(0.0, Unit::Fraction)), deltas.collect()));
        }
    }
    for (column, mut cells) in iter::once((column, cells)).chain(more_columns) {
        tell_apart(&mut cells, column.show, column.scale);
        columns.push(column);
        for (row, cell) in rows.iter_mut().zip(cells) {
            row.cells.push(cell);
        }
    }
}

/// Relative difference between a cell and the paper's value.
fn delta(cell: &Cell, show: Show) -> Cell {
    let part = cell.value(show).zip(cell.paper.filter(|paper| *paper != 0.0)).map(|(ours, paper)| {
        let noise = cell.estimate.is_some_and(|Estimate { low, high, .. }| {
            low.zip(high).is_some_and(|(low, high)| low <= paper && paper <= high)
        });
        ((ours - paper) / paper.abs(), noise)
    });
    let compared =
        part.map(|(value, noise)| Compared { estimate: Estimate { value, low: None, high: None, p: None }, noise });
    let sample = part.and_then(|(value, _)| Sample::new(&[value]));
    Cell { sample, compared, points: cell.points, ..Cell::default() }
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
    fn value(&self, members: &Members<'_>, metric: &str) -> Option<f64> {
        let about = |only: &[(&str, Vec<Value>)]| members.iter().all(|(point, _)| selected(point, only));
        let mut rows = self.0.iter().filter(|(only, _)| !members.is_empty() && about(only));
        rows.find_map(|(_, row)| {
            let of = row.metrics.iter().find(|(name, _)| same_metric(&name.value, metric));
            of.map(|(_, value)| *value)
        })
    }
}

/// The distinct values of some axes.
pub(super) struct Keys {
    /// The values as texts, in the order of their first appearance.
    pub(super) labels: Vec<Vec<String>>,
    /// The index of the label of every point.
    pub(super) of_row: Vec<usize>,
}

impl Keys {
    pub(super) fn new(points: &Members<'_>, axes: &[String]) -> Self {
        let mut labels = Vec::new();
        let mut counts = HashMap::new();
        let of_row = points.iter().map(|(point, _)| {
            let values: Vec<Option<&Value>> = axes.iter().map(|axis| point.get(axis)).collect();
            // JSON distinguishes the text "1" from the number 1.
            let key = serde_json::to_string(&values).unwrap_or_default();
            *counts.entry(key).or_insert_with(|| {
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

/// The cell of some measurements.
fn cell(side: &Side<'_>, question: &Question<'_>, show: Show, looks: &mut BTreeSet<String>) -> Cell {
    let values: Vec<f64> = side.found.iter().map(|found| found.value).collect();
    let summary = summarize(side, question, show == Show::Interval);
    looks.extend(summary.as_ref().and_then(|summary| summary.level.words()));
    Cell {
        sample: summary.as_ref().map(|summary| summary.sample),
        no_interval: summary.as_ref().and_then(|summary| summary.no_interval.clone()),
        estimate: summary.map(|summary| summary.estimate),
        resolution: question.traits.precision.resolution(),
        quartiles: Quartiles::new(&values),
        missing: side.absent.len(),
        ..Cell::default()
    }
}

/// The scale of a column of a metric: for a declared metric, the scale that fits its largest number.
pub(crate) fn scale(metric: &str, cells: &[Cell], show: Show, unit: Unit) -> Scale {
    let sizes = cells.iter().filter_map(|cell| cell.value(show)).map(f64::abs);
    Scale::of_metric(metric, sizes.reduce(f64::max).unwrap_or(1.0), unit)
}

fn notes(
    unit: &SamplingUnit,
    columns: &[Column],
    rows: &[TableRow],
    remarks: &BTreeMap<String, BTreeSet<Remark>>,
    footnotes: &Footnotes,
) -> Vec<String> {
    let mut notes = Vec::new();
    let of = |show: Show| {
        let columns = columns.iter().enumerate().filter(move |(_, column)| column.show == show);
        columns.map(|(index, column)| (index, column.metric.as_str()))
    };
    for (show, what) in [(Show::Mean, "mean ± 95 % CI"), (Show::Interval, "geometric mean [95 % CI]")] {
        let samples = of(show).flat_map(|(index, _)| rows.iter().filter_map(move |row| row.cells[index].sample));
        let counts: Vec<usize> = samples.map(|sample| sample.n).collect();
        let (Some(least), Some(most)) = (counts.iter().min(), counts.iter().max()) else { continue };
        if *most < 2 || unit.is_single() {
            continue;
        }
        let n = if least == most { most.to_string() } else { format!("{least} to {most}") };
        // Only a table with both kinds needs to distinguish them.
        let mixed = of(Show::Mean).next().is_some() && of(Show::Interval).next().is_some();
        let mut metrics: Vec<&str> = of(show).map(|(_, metric)| metric).collect();
        metrics.sort_unstable();
        metrics.dedup();
        let metrics = if mixed { format!("{}: ", metrics.join(", ")) } else { String::new() };
        let basis = unit.over();
        notes.push(clean(&format!("{metrics}{what} over {basis} (n = {n})")).into_owned());
    }
    notes.extend(too_wide(rows, columns));
    notes.extend(marked(rows.iter().flat_map(|row| &row.cells)));
    let mut said: BTreeMap<&Remark, Vec<&str>> = BTreeMap::new();
    for (metric, remarks) in remarks {
        for remark in remarks {
            said.entry(remark).or_default().push(metric);
        }
    }
    let all = remarks.len();
    for (remark, metrics) in said {
        let about = if metrics.len() == all { String::new() } else { format!("{}: ", metrics.join(", ")) };
        notes.push(clean(&format!("{about}{}", remark.words())).into_owned());
    }
    if of(Show::Delta).next().is_some() {
        let noise = rows.iter().any(|row| {
            of(Show::Delta).any(|(index, _)| row.cells[index].compared.is_some_and(|compared| compared.noise))
        });
        let noise = if noise { "; ≈ our interval does not exclude the paper's value" } else { "" };
        notes.push(format!("Δ ours compared with the paper's{noise}"));
    }
    notes.extend(footnotes.texts());
    notes
}

/// The note on intervals that are too wide to be shown.
pub(super) fn too_wide(rows: &[TableRow], columns: &[Column]) -> Option<String> {
    let mut cells = rows.iter().flat_map(|row| row.cells.iter().zip(columns));
    let any = cells.any(|(cell, column)| cell.is_too_wide(column.show));
    any.then(|| format!("{TOO_WIDE} the interval is wider than a factor of 10,000: there are too few values"))
}

/// Meaning of the marks.
pub(super) fn marked<'a>(cells: impl Iterator<Item = &'a Cell>) -> Option<String> {
    let marks: Vec<Mark> = cells.filter_map(|cell| cell.mark).collect();
    let has = |mark| marks.contains(&mark);
    let mut parts = Vec::new();
    if has(Mark::Best) {
        parts.push("◀ best of its column");
    }
    if has(Mark::Tied) {
        let best = if has(Mark::Best) {
            "≈ not told apart from the best, which does not mean equal"
        } else {
            "≈ not told apart, which does not mean equal"
        };
        parts.push(best);
    }
    if has(Mark::Unclear) {
        parts.push("? too few seeds to tell");
    }
    (!parts.is_empty()).then(|| parts.join(", "))
}
