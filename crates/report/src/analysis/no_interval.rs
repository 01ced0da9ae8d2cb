//! Reasons why numbers have no interval, and the footnotes and notes about them.
//!
//! A column in which no number has an interval, for one reason, has a note; elsewhere, each number without an interval has a footnote.

use std::collections::BTreeMap;

use super::{Absence, Cell, Column, TableRow, absence::Footnotes, alike::is_same_kind};
use crate::format::clean;

/// The words for all values of a sample.
pub(super) const VALUES: &str = "all values";

/// Reason why a number has no interval.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum NoInterval {
    /// There is one independent value, with the word for it: a value, a pair, a seed.
    One(&'static str),
    /// All values are equal, and the metric's resolution is unknown; with the words for the values.
    Equal(String),
    /// Jobs are not samples because they are equal to other jobs, in words.
    NoEffect(String),
    /// The number of units is too small for an exact interval, with the words for the number that is needed.
    Few(String),
    /// The sizes do not bound the number of a law.
    Unbounded,
    /// A task or a workload has a single run, or a single value of a seed, which a bootstrap cannot draw again.
    OneRun,
    /// Repetitions are the same job.
    SharedJobs,
    /// The combinations of several random axes do not give the parts of the axes.
    Crossing,
    /// It is the sum of other numbers, each of which has its own interval.
    Sum,
    /// The spread of the values is not a finite number.
    NotFinite,
}

impl NoInterval {
    /// The reason for a spread that has no standard error: zero, or no finite number.
    pub(super) fn of_spread(sd: f64) -> Self {
        if sd.is_finite() { Self::equal(VALUES) } else { Self::NotFinite }
    }

    /// The reason that these values are equal.
    pub(super) fn equal(values: &str) -> Self {
        Self::Equal(values.to_owned())
    }

    /// The reason if all values are equal, in the words for some of them.
    pub(super) fn about(self, values: &str) -> Self {
        if self == Self::equal(VALUES) { Self::equal(values) } else { self }
    }

    /// The reason in a comparison of pairs.
    pub(super) fn of_pairs(self) -> Self {
        if matches!(self, Self::One(_)) { Self::One("pair") } else { self.about("all differences") }
    }

    /// The reason in words.
    pub(crate) fn words(&self) -> String {
        match self {
            Self::One(value) => return format!("a variance cannot be estimated from one {value}"),
            Self::NoEffect(remark) => return clean(remark).into_owned(),
            Self::Equal(values) => {
                return format!(
                    "{} are equal, so their spread is unknown; declare the metric's `resolution`, or `deterministic: true`, under \
                     `metrics`",
                    clean(values)
                );
            }
            Self::Few(_) => "too few units for an exact interval",
            Self::Unbounded => "several constants fit these sizes",
            Self::OneRun => "a bootstrap needs several runs, and several values of each seed, in every task",
            Self::SharedJobs => "some seeds are the same job, so they are not repetitions",
            Self::Crossing => "the measured combinations do not give the part of each of the crossed axes",
            Self::Sum => "a sum of parts, which have intervals of their own",
            Self::NotFinite => "the spread of the values is too large for a number",
        }
        .to_owned()
    }

    /// True if two reasons share a footnote.
    pub(super) fn is_alike(&self, other: &Self) -> bool {
        if let (Self::NoEffect(own), Self::NoEffect(other)) = (self, other) {
            return is_same_kind(own, other);
        }
        if let (Self::Equal(own), Self::Equal(other)) = (self, other) {
            return own == other;
        }
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

/// The reasons of a table: notes on whole columns, and the cells that need a footnote, in reading order.
pub(super) struct Reasons {
    pub(super) notes: Vec<String>,
    /// Row and column of each cell with its reason.
    pub(super) cells: Vec<(usize, usize, NoInterval)>,
}

/// A column: its metric, and the cells of the rows.
pub(super) type ColumnCells<'c> = (&'c str, Vec<Option<&'c Cell>>);

impl Reasons {
    /// The reasons of the cells of a table.
    pub(super) fn new(rows: &[TableRow], columns: &[Column]) -> Self {
        let cells = |index: usize| rows.iter().map(|row| row.cells.get(index)).collect();
        let columns = columns.iter().enumerate();
        Self::of(&columns.map(|(index, column)| (column.metric.as_str(), cells(index))).collect::<Vec<_>>())
    }

    /// The reasons of the cells of columns.
    pub(super) fn of(columns: &[ColumnCells<'_>]) -> Self {
        let mut by_reason: BTreeMap<&NoInterval, Vec<&str>> = BTreeMap::new();
        let (mut with_numbers, mut all) = (0, Vec::new());
        for (index, (metric, cells)) in columns.iter().enumerate() {
            let known = cells.iter().enumerate().filter_map(|(row, cell)| Some((row, (*cell)?)));
            let reasons: Vec<(usize, &NoInterval)> =
                known.clone().filter_map(|(row, cell)| Some((row, cell.no_interval.as_ref()?))).collect();
            let has_intervals = known.into_iter().any(|(_, cell)| cell.has_interval());
            with_numbers += usize::from(has_intervals || !reasons.is_empty());
            match reasons.first() {
                Some((_, first)) if !has_intervals && reasons.iter().all(|(_, reason)| reason == first) => {
                    by_reason.entry(first).or_default().push(metric);
                }
                _ => all.extend(reasons.into_iter().map(|(row, reason)| (row, index, reason.clone()))),
            }
        }
        let note = |(reason, mut metrics): (&NoInterval, Vec<&str>)| {
            let is_whole_table = metrics.len() == with_numbers;
            metrics.dedup();
            let about = if is_whole_table { String::new() } else { format!("{}: ", metrics.join(", ")) };
            clean(&format!("{about}no interval: {}", reason.words())).into_owned()
        };
        all.sort();
        let numbers =
            || columns.iter().flat_map(|(_, cells)| cells.iter().flatten()).filter(|cell| cell.sample.is_some());
        let is_single = numbers().all(|cell| cell.points == 1 && cell.sample.is_some_and(|sample| sample.n == 1));
        // Tables have a note of their own on jobs that are equal to others, and nobody expects an interval where every number is that of
        // one job.
        let is_noted = |reason: &NoInterval| match reason {
            NoInterval::NoEffect(_) => false,
            NoInterval::One("value") => !is_single,
            _ => true,
        };
        let noted = by_reason.into_iter().filter(|(reason, _)| is_noted(reason));
        Self { notes: noted.map(note).collect(), cells: all }
    }
}

/// Adds footnotes to the cells without an interval; returns the notes on whole columns.
pub(super) fn explain(rows: &mut [TableRow], columns: &[Column], footnotes: &mut Footnotes) -> Vec<String> {
    let Reasons { notes, cells } = Reasons::new(rows, columns);
    for (row, column, reason) in cells {
        rows[row].cells[column].refer(&Absence::NoInterval(reason), footnotes);
    }
    notes
}
