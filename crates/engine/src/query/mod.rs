//! The records as one table, from which a query selects rows and columns.
//!
//! A row is a record: its job, the axes of its point if recipes define the points, its parameters and its metrics. Only
//! the store's derived files are read for it.

pub mod changed;
mod contents;
mod curves;
pub mod diff;
mod difference;
pub mod explain;
mod output;
mod parquet;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use sweep_job::{Metric, Name, Task, TaskInfo, Unit, Value, current_name};

pub use self::output::{Format, Output};
use crate::{
    plan::{Plan, Point},
    recipe::{Filter, suggest},
    store::{Entry, Measured, Store, StoreError},
};

/// All records that a query examines.
#[derive(Debug)]
pub struct Records {
    entries: Vec<(Entry, Measured)>,
    rows: Vec<Row>,
    /// True if recipes define the points.
    named: bool,
    columns: Vec<Column>,
    /// The units of metrics, each with true if a recipe declares it.
    units: HashMap<String, (Unit, bool)>,
}

/// A record, at a point of a recipe's step if there are recipes.
#[derive(Debug)]
struct Row {
    /// Of `entries`.
    entry: usize,
    recipe: String,
    step: String,
    point: Point,
}

/// Value of a column.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Column {
    /// The recipe's name.
    Recipe,
    /// The step's name.
    Step,
    /// Name of the job when it ran.
    Label,
    /// An axis.
    Axis(String),
    /// A parameter.
    Param(String),
    /// A metric.
    Metric(String),
    /// The measurements of a metric whose unit is of another kind than its column's unit.
    OtherUnit(String, Unit),
    /// The task.
    Task,
    /// The job's key.
    Key,
    /// Start of the job.
    Started,
    /// Duration.
    Seconds,
    /// Backend.
    Backend,
    /// The device of the job.
    Device,
    /// The machine of the job.
    Host,
    /// The program's version.
    Version,
}

/// A query.
#[derive(Debug, Default)]
pub struct Question {
    /// Conditions that all must hold.
    pub filters: Vec<Filter>,
    /// The selected columns; if it is empty, a few columns that suit the records.
    pub select: Vec<String>,
    /// The columns to sort by, the first one first; with a `-` before it, the largest first.
    pub sort: Vec<String>,
    /// Maximum number of rows.
    pub limit: Option<usize>,
}

/// Error of a query.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// No record has this.
    #[error("no record has `{name}`; {help}")]
    UnknownColumn {
        /// The requested name.
        name: String,
        /// Available names.
        help: String,
    },
    /// The condition compares values that cannot be compared.
    #[error("the condition cannot be evaluated: {0}; strings need quotes: `prune == 'bitter7'`")]
    Condition(String),
    /// A record cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The answer: columns and rows.
#[derive(Debug)]
pub struct Answer {
    /// The columns.
    pub columns: Vec<Heading>,
    /// The rows; `Null` where a record has nothing.
    pub rows: Vec<Vec<Value>>,
    /// Number of records in the query.
    pub asked: usize,
}

/// Heading of a column.
#[derive(Debug)]
pub struct Heading {
    /// Name of the column.
    pub name: String,
    /// The unit of its numbers.
    pub unit: Unit,
    /// True for measured numbers; others are shown as they were written.
    pub measured: bool,
}

impl Records {
    /// All records of a store, or the records of a plan's jobs.
    pub fn new(store: &Store, plan: Option<&Plan>) -> std::io::Result<Self> {
        let (entries, measurements) = store.measured()?;
        let mut measurements: HashMap<_, _> = measurements.into_iter().map(|line| (line.key, line)).collect();
        let mut by_key = HashMap::new();
        let mut joined_entries = Vec::with_capacity(entries.len());
        for entry in entries {
            let Some(measurement) = measurements.remove(&entry.key) else { continue };
            by_key.insert(entry.key, joined_entries.len());
            joined_entries.push((entry, measurement));
        }
        let mut rows = Vec::new();
        match plan {
            None => rows.extend((0..joined_entries.len()).map(|entry| Row {
                entry,
                recipe: String::new(),
                step: String::new(),
                point: Point::default(),
            })),
            Some(plan) => {
                for study in &plan.studies {
                    for (step, points) in study.recipe.steps.iter().zip(&study.steps) {
                        for (point, id) in points {
                            let Some(entry) = by_key.get(&plan.job(*id).key) else { continue };
                            let (recipe, step) = (study.recipe.name.clone(), step.name.value.clone());
                            rows.push(Row { entry: *entry, recipe, step, point: point.clone() });
                        }
                    }
                }
            }
        }
        let units = units(joined_entries.iter().map(|(_, measurement)| measurement), plan);
        let mut records = Self { entries: joined_entries, rows, named: plan.is_some(), columns: Vec::new(), units };
        records.columns = records.known();
        Ok(records)
    }

    /// Every column that some record has something in.
    fn known(&self) -> Vec<Column> {
        let mut columns = if self.named { vec![Column::Recipe, Column::Step] } else { Vec::new() };
        columns.push(Column::Label);
        let mut axes: Vec<&str> = Vec::new();
        let (mut params, mut metrics) = (BTreeSet::new(), BTreeSet::new());
        let mut tasks = BTreeSet::new();
        let mut other_units: BTreeMap<&str, Vec<Unit>> = BTreeMap::new();
        for row in &self.rows {
            for (axis, _) in &row.point.values {
                if !axes.contains(&axis.as_str()) {
                    axes.push(axis);
                }
            }
            let (entry, measurement) = &self.entries[row.entry];
            tasks.insert(entry.identity.task.as_str());
            params.extend(entry.identity.params.keys().map(Name::as_str));
            metrics.extend(measurement.metrics.keys().map(String::as_str));
            for (name, metric) in &measurement.metrics {
                let others = other_units.entry(name.as_str()).or_default();
                if self.in_unit(name, *metric).is_none() && !others.iter().any(|unit| unit.is_like(metric.unit)) {
                    others.push(metric.unit);
                }
            }
        }
        let declared_params = tasks.iter().filter_map(|task| Task::info(task)).flat_map(TaskInfo::params);
        params.extend(declared_params.map(|param| param.name));
        columns.extend(axes.into_iter().map(|name| Column::Axis(name.to_owned())));
        columns.extend(params.into_iter().map(|name| Column::Param(name.to_owned())));
        for name in metrics {
            columns.push(Column::Metric(name.to_owned()));
            let others = other_units.get(name).into_iter().flatten();
            columns.extend(others.map(|unit| Column::OtherUnit(name.to_owned(), *unit)));
        }
        columns.extend([Column::Task, Column::Key, Column::Started, Column::Seconds, Column::Backend]);
        columns.extend([Column::Device, Column::Host, Column::Version]);
        columns
    }

    /// The column with a name: as it is written in full, or short where that is an axis, a metric or a parameter, in this
    /// order.
    fn column(&self, name: &str) -> Result<&Column, QueryError> {
        let exact_match = self.columns.iter().find(|column| column.name() == name);
        let by_short_name = |is_wanted: fn(&Column) -> bool| {
            self.columns.iter().find(move |column| is_wanted(column) && column.short() == name)
        };
        let column = exact_match
            .or_else(|| by_short_name(|column| matches!(column, Column::Axis(_))))
            .or_else(|| by_short_name(|column| matches!(column, Column::Metric(_))))
            .or_else(|| by_short_name(|column| matches!(column, Column::Param(_))))
            .or_else(|| {
                let current_metric = current_name(name.strip_prefix("metrics.").unwrap_or(name));
                self.columns.iter().find(|column| matches!(column, Column::Metric(metric) if metric == current_metric))
            });
        column.ok_or_else(|| {
            let short_names: BTreeSet<&str> = self.columns.iter().map(Column::short).collect();
            let help = suggest(name, "columns", short_names.iter().copied()).unwrap_or_default();
            QueryError::UnknownColumn { name: name.to_owned(), help }
        })
    }

    fn value(&self, row: &Row, column: &Column) -> Value {
        let (entry, measurement) = &self.entries[row.entry];
        let text = |text: &str| Value::Text(text.to_owned());
        match column {
            Column::Recipe => text(&row.recipe),
            Column::Step => text(&row.step),
            Column::Label => text(&entry.label),
            Column::Axis(name) => row.point.get(name).cloned().unwrap_or(Value::Null),
            Column::Param(name) => param(entry, name),
            Column::Metric(name) => {
                let metric = measurement.metrics.get(name);
                metric.and_then(|metric| self.in_unit(name, *metric)).map_or(Value::Null, Value::Float)
            }
            Column::OtherUnit(name, unit) => {
                let metric = measurement.metrics.get(name).filter(|metric| self.in_unit(name, **metric).is_none());
                metric.and_then(|metric| metric.value_in(*unit)).map_or(Value::Null, Value::Float)
            }
            Column::Task => text(&entry.identity.task),
            Column::Key => Value::Text(entry.key.to_string()),
            Column::Started => Value::Text(entry.started.to_string()),
            Column::Seconds => Value::Float(entry.seconds),
            Column::Backend => entry.identity.backend.map_or(Value::Null, |backend| text(backend.name())),
            Column::Device => measurement.device.as_deref().map_or(Value::Null, text),
            Column::Host => text(&measurement.host),
            Column::Version => text(&measurement.sweep),
        }
    }

    /// Returns a measurement in the unit of its column; `None` for a measurement of another kind, which has a separate column.
    fn in_unit(&self, name: &str, metric: Metric) -> Option<f64> {
        match self.units.get(name) {
            Some((unit, true)) => metric.value_as(name, *unit),
            Some((unit, false)) => metric.value_in(*unit),
            None => Some(metric.value),
        }
    }

    /// The unit of a column's numbers.
    fn unit(&self, column: &Column) -> Unit {
        match column {
            Column::Metric(name) => self.units.get(name).map_or(Unit::One, |(unit, _)| *unit),
            Column::Seconds => Unit::Seconds,
            Column::OtherUnit(_, unit) => *unit,
            _ => Unit::One,
        }
    }

    /// Answers a question. With `brief` and without selected columns, less important columns are left out.
    pub fn ask(&self, question: &Question, brief: bool) -> Result<Answer, QueryError> {
        let rows = self.matching(question)?;
        let columns =
            if question.select.is_empty() { self.fitting(&rows, brief) } else { self.selected(&question.select)? };
        let values = rows.iter().map(|row| columns.iter().map(|column| self.value(row, column)).collect());
        let values: Vec<Vec<Value>> = values.collect();
        let heading = |column: &&Column| self.heading(column);
        Ok(Answer { columns: columns.iter().map(heading).collect(), rows: values, asked: self.rows.len() })
    }

    /// The rows for which the conditions hold, in order.
    fn matching(&self, question: &Question) -> Result<Vec<&Row>, QueryError> {
        let mut columns: BTreeMap<&str, &Column> = BTreeMap::new();
        for name in question.filters.iter().flat_map(Filter::names) {
            columns.insert(name, self.column(name)?);
        }
        let mut rows = Vec::new();
        'rows: for row in &self.rows {
            for filter in &question.filters {
                let value = |name: &str| columns.get(name).map_or(Value::Null, |column| self.value(row, column));
                if !filter.holds(&value).map_err(QueryError::Condition)? {
                    continue 'rows;
                }
            }
            rows.push(row);
        }
        let sort: Vec<(&Column, bool)> = question
            .sort
            .iter()
            .map(|name| match name.strip_prefix('-') {
                Some(name) => Ok((self.column(name)?, true)),
                None => Ok((self.column(name)?, false)),
            })
            .collect::<Result<_, QueryError>>()?;
        if !sort.is_empty() {
            rows.sort_by_cached_key(|row| {
                sort.iter()
                    .map(|(column, is_descending)| Sorted::new(self.value(row, column), *is_descending))
                    .collect::<Vec<_>>()
            });
        }
        rows.truncate(question.limit.unwrap_or(usize::MAX));
        Ok(rows)
    }

    /// The columns with these names.
    fn selected(&self, names: &[String]) -> Result<Vec<&Column>, QueryError> {
        let mut columns = Vec::new();
        for name in names {
            let column = self.column(name)?;
            let is_same = |other: &&Column| match (column, other) {
                (Column::Metric(metric), Column::OtherUnit(other, _)) => metric == other,
                _ => false,
            };
            for column in [column].into_iter().chain(self.columns.iter().filter(is_same)) {
                if !columns.contains(&column) {
                    columns.push(column);
                }
            }
        }
        Ok(columns)
    }

    /// Returns the heading of `column`, with its short name if that name is unambiguous.
    fn heading(&self, column: &Column) -> Heading {
        let short_name = column.short();
        let is_unambiguous = self.column(short_name).is_ok_and(|candidate| candidate == column);
        let measured = matches!(column, Column::Metric(_) | Column::OtherUnit(..) | Column::Seconds);
        let is_short = is_unambiguous && !matches!(column, Column::OtherUnit(..));
        Heading {
            name: if is_short { short_name.to_owned() } else { column.name() },
            unit: self.unit(column),
            measured,
        }
    }

    /// Returns the columns in which these rows differ, and the columns of their measurements.
    fn fitting(&self, rows: &[&Row], brief: bool) -> Vec<&Column> {
        let differs = |column: &Column| {
            let mut values = rows.iter().map(|row| self.value(row, column));
            let first_value = values.next();
            values.any(|value| Some(&value) != first_value.as_ref())
        };
        let tasks: BTreeSet<&str> = rows.iter().map(|row| self.entries[row.entry].0.identity.task.as_str()).collect();
        let infos: Vec<&TaskInfo> = tasks.iter().filter_map(|task| Task::info(task)).collect();
        let headline = |name: &str| infos.iter().any(|info| info.headline.contains(&name) || info.headline.is_empty());
        let is_shown = |column: &&Column| match column {
            Column::Recipe | Column::Step => differs(column),
            Column::Label => !self.named,
            Column::Axis(_) => true,
            Column::Param(_) => !self.named && !brief && differs(column),
            Column::Metric(name) | Column::OtherUnit(name, _) => {
                let is_present = rows.iter().any(|row| self.entries[row.entry].1.metrics.contains_key(name));
                is_present && (!brief || headline(name))
            }
            Column::Key => !brief,
            Column::Task
            | Column::Started
            | Column::Seconds
            | Column::Backend
            | Column::Device
            | Column::Host
            | Column::Version => false,
        };
        self.columns.iter().filter(is_shown).collect()
    }
}

/// The units of metrics: declared by recipes, or else from the first record with a multiple of a base unit, or from the first record.
fn units<'m>(measurements: impl Iterator<Item = &'m Measured>, plan: Option<&Plan>) -> HashMap<String, (Unit, bool)> {
    let mut units: HashMap<String, (Unit, bool)> = HashMap::new();
    for (name, metric) in measurements.flat_map(|measurement| &measurement.metrics) {
        match units.get_mut(name) {
            Some((unit, _)) if *unit == unit.base() && metric.unit != metric.unit.base() => *unit = metric.unit,
            Some(_) => {}
            None => {
                units.insert(name.clone(), (metric.unit, false));
            }
        }
    }
    let rules = plan.iter().flat_map(|plan| &plan.studies).flat_map(|study| &study.recipe.rules);
    units.extend(rules.filter_map(|rule| Some((current_name(&rule.name.value).to_owned(), (rule.unit?, true)))));
    units
}

/// A parameter of a record. A parameter that is not part of the key has its default.
fn param(entry: &Entry, name: &str) -> Value {
    if let Some(value) = entry.identity.params.get(name) {
        return value.clone();
    }
    let param = Task::info(&entry.identity.task).and_then(|info| info.param(name));
    param.map_or(Value::Null, |param| (param.default)())
}

impl Column {
    /// Its name in full.
    fn name(&self) -> String {
        match self {
            Self::Axis(name) => format!("axes.{name}"),
            Self::Param(name) => format!("params.{name}"),
            Self::Metric(name) => format!("metrics.{name}"),
            Self::OtherUnit(name, unit) => format!("{name} ({})", unit.key()),
            _ => self.short().to_owned(),
        }
    }

    /// Returns the name without its prefix.
    fn short(&self) -> &str {
        match self {
            Self::Axis(name) | Self::Param(name) | Self::Metric(name) | Self::OtherUnit(name, _) => name,
            Self::Recipe => "recipe",
            Self::Step => "step",
            Self::Label => "label",
            Self::Task => "task",
            Self::Key => "key",
            Self::Started => "started",
            Self::Seconds => "seconds",
            Self::Backend => "backend",
            Self::Device => "device",
            Self::Host => "host",
            Self::Version => "sweep",
        }
    }
}

/// A sortable value: numbers, then texts, then everything else; missing values come last in both directions.
#[derive(Debug, PartialEq)]
struct Sorted {
    value: Value,
    down: bool,
}

impl Sorted {
    fn new(value: Value, down: bool) -> Self {
        Self { value, down }
    }

    fn rank(&self) -> u8 {
        match self.value {
            Value::Int(_) | Value::Float(_) => 0,
            Value::Text(_) => 1,
            Value::Bool(_) | Value::List(_) | Value::Map(_) => 2,
            Value::Null => 3,
        }
    }
}

impl Eq for Sorted {}

impl PartialOrd for Sorted {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Sorted {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let order = match (&self.value, &other.value) {
            (Value::Text(own), Value::Text(other)) => own.cmp(other),
            (own, other) => match (own.as_f64(), other.as_f64()) {
                (Some(own), Some(other)) => own.total_cmp(&other),
                _ => own.to_string().cmp(&other.to_string()),
            },
        };
        self.rank().cmp(&other.rank()).then(if self.down { order.reverse() } else { order })
    }
}
