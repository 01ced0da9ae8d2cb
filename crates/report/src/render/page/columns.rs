//! The columns of metrics of a list of jobs.

use std::collections::BTreeMap;

use serde::Serialize;
use sweep_job::{Metrics, TaskInfo, Unit};

use crate::{
    format::{Scale, clean, readable},
    stats::Better,
};

/// Number of columns of metrics that a list shows unless the reader chooses others.
pub(super) const SHOWN: usize = 6;
/// Maximum number of columns of metrics.
pub(super) const MAX_COLUMNS: usize = 200;
/// Digits of a value after the first one; more if all values of a metric are close to each other.
const DIGITS: usize = 6;
/// Maximum number of digits after the first one.
const MAX_DIGITS: usize = 16;
/// Whole numbers below this size are exact; larger numbers are all whole.
const EXACT: f64 = 1e18;

/// The metrics with a column.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Columns {
    list: Vec<Column>,
    /// Number of columns that are shown at first.
    shown: usize,
    /// Number of metrics without a column.
    left: usize,
}

/// Columns of metrics, as the script reads them.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Headings {
    /// The columns of metrics.
    pub columns: Vec<Heading>,
    /// Number of columns that are shown at first.
    pub shown: usize,
    /// Number of metrics without a column.
    pub left: usize,
}

/// A column of a metric, which the script reads as a list: the heading with the unit, the metric's name, its better direction, if it has
/// one, and true for a time or a rate, whose means are geometric.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Heading(pub String, pub String, pub Option<&'static str>, pub bool);

#[derive(Debug, Clone, PartialEq)]
struct Column {
    metric: String,
    unit: Unit,
    scale: Scale,
    heading: String,
    /// Digits after the first one that distinguish the values.
    digits: usize,
    /// The better direction, as its word in recipes.
    better: Option<&'static str>,
}

impl Columns {
    /// Columns for at most `most` metrics: the metrics in `wanted`, then the main results of tasks, then all others by name.
    pub(crate) fn new<'m>(
        results: impl Iterator<Item = (&'static TaskInfo, &'m Metrics)>,
        wanted: &[&str],
        directions: &BTreeMap<String, String>,
        most: usize,
    ) -> Self {
        /// A metric: its unit, the smallest and the largest value, its task, and its rank.
        type Found = (Unit, [f64; 2], &'static TaskInfo, usize);
        let mut by_name: BTreeMap<&'m str, Found> = BTreeMap::new();
        for (task, metrics) in results {
            for (name, metric) in metrics {
                let first = || (metric.unit, [metric.value; 2], task, rank(name, task, wanted));
                let (_, [low, high], ..) = by_name.entry(name).or_insert_with(first);
                (*low, *high) = (low.min(metric.value), high.max(metric.value));
            }
        }
        let mut measures: Vec<(&str, Found)> = by_name.into_iter().collect();
        measures.sort_by_key(|(_, (.., rank))| *rank);
        let named_count = measures.iter().filter(|(_, (.., rank))| *rank < OTHERS).count();
        let left = measures.len().saturating_sub(most);
        measures.truncate(most);
        // Names whose readable forms are equal are not changed.
        let readable_names: Vec<String> = measures.iter().map(|(metric, _)| readable(metric)).collect();
        let is_alone = |name: &String| readable_names.iter().filter(|other| *other == name).count() == 1;
        let column = |(metric, (unit, [low, high], task, _)): (&str, Found)| {
            let size = low.abs().max(high.abs());
            let scale = Scale::of_metric(metric, size, unit);
            let symbol = if scale.suffix.is_empty() { unit.symbol() } else { scale.suffix };
            let name = readable(metric);
            let name = clean(if is_alone(&name) { &name } else { metric }).into_owned();
            let heading = if symbol.is_empty() { name } else { format!("{name} ({symbol})") };
            let better = match directions.get(metric) {
                Some(word) => Better::WORDS.iter().find(|(known, _)| known == word).and_then(|(_, better)| *better),
                None if task.metric(metric).is_some() => Better::of(unit),
                None => Better::of(unit).or_else(|| Better::of_name(metric)),
            };
            let better = Better::WORDS.iter().find(|(_, known)| better.is_some() && *known == better);
            let (digits, better) = (digits(size, high - low), better.map(|(word, _)| *word));
            Column { metric: metric.to_owned(), unit, scale, heading, digits, better }
        };
        let list: Vec<Column> = measures.into_iter().map(column).collect();
        let shown = named_count.clamp(SHOWN / 2, SHOWN).min(list.len());
        Self { list, shown, left }
    }

    /// Headings of the columns, each with the name of its metric.
    pub(crate) fn headings(&self) -> Headings {
        let columns = self.list.iter();
        let columns = columns.map(|Column { metric, unit, heading, better, .. }| {
            Heading(heading.clone(), clean(metric).into_owned(), *better, unit.is_timing())
        });
        Headings { columns: columns.collect(), shown: self.shown, left: self.left }
    }

    /// Values of a job in the units of the columns, up to its last one: whole numbers exactly, others to seven digits or more.
    pub(crate) fn cells(&self, metrics: &Metrics) -> Vec<Option<f64>> {
        let value = |column: &Column| {
            let value = metrics.get(&column.metric)?.value_in(column.unit)?;
            let is_whole = value.fract() == 0.0 && value.abs() < EXACT;
            let scaled = value / column.scale.factor;
            let digits = match column.unit {
                _ if is_whole && column.scale.factor == 1.0 => return Some(scaled),
                Unit::Count if is_whole => MAX_DIGITS,
                _ => column.digits,
            };
            format!("{scaled:.digits$e}").parse().ok().filter(|value: &f64| value.is_finite())
        };
        let mut cells: Vec<Option<f64>> = self.list.iter().map(value).collect();
        let length = cells.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        cells.truncate(length);
        cells
    }
}

/// Digits after the first one that values of this size need if they differ by at most `spread`.
fn digits(size: f64, spread: f64) -> usize {
    if spread <= 0.0 {
        return DIGITS;
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at least 0, and saturating")]
    let alike = (size / spread).log10().max(0.0) as usize;
    DIGITS.saturating_add(alike).min(MAX_DIGITS)
}

/// The rank of metrics that neither the recipe nor a task names.
const OTHERS: usize = usize::MAX;

/// The place of a metric among the columns: as the recipe names it, then as its task does.
fn rank(metric: &str, task: &TaskInfo, names: &[&str]) -> usize {
    let of_recipe = names.iter().position(|name| *name == metric);
    let of_task = || task.headline.iter().position(|name| *name == metric).map(|place| names.len() + place);
    of_recipe.or_else(of_task).unwrap_or(OTHERS)
}

#[cfg(test)]
mod tests {
    use sweep_job::{Metric, Task, Unit};

    use super::*;

    #[test]
    fn columns_begin_with_the_metrics_of_the_recipe_and_count_those_without_room() {
        let metric = |name: &str| (name.to_owned(), Metric { value: 1.0 / 3.0, unit: Unit::One });
        let metrics: Metrics = ["a", "b", "c", "d", "loss", "z"].map(metric).into_iter().collect();
        let results = || [(Task::info("command").unwrap(), &metrics)].into_iter();
        let better = BTreeMap::from([("a".to_owned(), "max".to_owned()), ("loss".to_owned(), "none".to_owned())]);
        let columns = Columns::new(results(), &["z", "loss"], &better, 4);
        let Headings { columns: headings, shown, left } = columns.headings();
        let names: Vec<&str> = headings.iter().map(|Heading(_, name, ..)| name.as_str()).collect();
        assert_eq!(headings[2].2, Some("max"), "as it is declared");
        assert_eq!(headings[1].2, None, "as it is declared, whatever its name");
        assert_eq!((names, shown, left), (vec!["z", "loss", "a", "b"], 3, 2));
        assert_eq!(columns.cells(&metrics), [Some(0.333_333_3); 4]);
        assert!(!headings[0].3);
        let time = ("step".to_owned(), Metric { value: 1.0, unit: Unit::Milliseconds });
        let time: Metrics = [time].into_iter().collect();
        let times = Columns::new([(Task::info("command").unwrap(), &time)].into_iter(), &[], &better, 4);
        assert!(times.headings().columns[0].3, "a time has geometric means");
        let none = Columns::new(results().take(0), &["loss"], &better, 4);
        assert_eq!((none.headings(), none.cells(&metrics)), (Headings::default(), vec![]));
    }

    #[test]
    fn values_keep_the_digits_that_tell_them_apart() {
        let of = |name: &str, value: f64| -> Metrics {
            [(name.to_owned(), Metric { value, unit: Unit::One })].into_iter().collect()
        };
        let task = Task::info("command").unwrap();
        let cells = |values: [f64; 2]| {
            let metrics = values.map(|value| of("x", value));
            let columns = Columns::new(metrics.iter().map(|one| (task, one)), &[], &BTreeMap::new(), 4);
            metrics.each_ref().map(|one| columns.cells(one)[0].unwrap())
        };
        // Counts are exact, however large.
        assert_eq!(cells([123_456_789.0, 123_456_793.0]), [123_456_789.0, 123_456_793.0]);
        assert_eq!(cells([9_007_199_254_740_992.0; 2]), [9_007_199_254_740_992.0; 2]);
        // Distant values have seven digits, close values more.
        assert_eq!(cells([1.0 / 3.0, 3.0 / 7.0]), [0.333_333_3, 0.428_571_4]);
        let [one, other] = cells([1_000.000_123_4, 1_000.000_567_8]);
        assert!((one - 1_000.000_123_4).abs() < 1e-9 && (other - 1_000.000_567_8).abs() < 1e-9, "{one} {other}");
    }
}
