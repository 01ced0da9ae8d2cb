//! The jobs of a run as rows, and their columns: the state, the axes, the time and the metrics.

use std::cmp::Ordering;

use jiff::Timestamp;

use crate::{
    format::{clean, duration, latest, listed, shared_digits, steps},
    progress::describe,
    render::page::{FollowedRun, Heading, Headings, Line, Place, STATES},
    run::watch::{Snapshot, State},
};

/// States that come first in the order without a sorted column.
const URGENT_STATES: [&str; 3] = ["failed", "running", "retrying"];

/// A job.
#[derive(Debug, Clone, Default)]
pub(super) struct Row {
    /// The job's index in the run's plan.
    pub(super) index: usize,
    pub(super) step: String,
    /// The job's name: its step and its point.
    pub(super) label: String,
    /// Values of the point by axis.
    pub(super) axes: Vec<(String, String)>,
    /// The state as a word.
    pub(super) state: &'static str,
    pub(super) key: String,
    /// Time that the job took or has run, in seconds.
    pub(super) seconds: Option<f64>,
    /// Values of the metrics, in the order and the units of [`Headings`].
    pub(super) cells: Vec<Option<f64>>,
    /// Steps and latest value of a running job.
    pub(super) progress: String,
    /// Details of the state in words; of a job with a result remarks on it.
    pub(super) details: String,
    /// Tags of the record, and the text that shows them.
    pub(super) tags: Vec<String>,
    pub(super) tags_text: String,
}

impl Row {
    /// True if the job has a result.
    fn has_result(&self) -> bool {
        matches!(self.state, "done" | "cached")
    }

    /// True if the job has a result with a remark, for example because a metric diverged.
    pub(super) fn is_remarkable(&self) -> bool {
        self.has_result() && !self.details.is_empty()
    }

    /// The details of the state in a line, and the tags. Those of a job with a result begin with the time of its record.
    pub(super) fn says(&self) -> String {
        let time = self.seconds.filter(|_| self.has_result()).map(duration);
        let parts = time.into_iter().chain([self.details.replace('\n', " "), self.tags_text.clone()]);
        parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" · ")
    }
}

/// A column.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Column {
    /// The name in filters.
    pub(super) name: String,
    pub(super) heading: String,
    pub(super) kind: Kind,
    /// Number of leading digits that the values of a metric have in common.
    shared: usize,
}

/// Content of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    State,
    Step,
    Axis,
    Progress,
    Time,
    Tags,
    /// The metric with this index.
    Metric(usize),
}

/// A value of a row in a column.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Cell<'a> {
    Missing,
    Text(&'a str),
    Number(f64),
}

impl Column {
    fn new(name: &str, heading: &str, kind: Kind) -> Self {
        Self { name: name.to_owned(), heading: heading.to_owned(), kind, shared: 0 }
    }

    /// The name with the kind: an axis and a metric may have the same name.
    pub(super) fn id(&self) -> String {
        match self.kind {
            Kind::Axis => format!("axis:{}", self.name),
            Kind::Metric(_) => format!("metric:{}", self.name),
            _ => self.name.clone(),
        }
    }

    /// The value of a row.
    pub(super) fn value<'a>(&self, row: &'a Row) -> Cell<'a> {
        let text = |text: &'a str| if text.is_empty() { Cell::Missing } else { Cell::Text(text) };
        match self.kind {
            Kind::State => Cell::Text(row.state),
            Kind::Step => Cell::Text(&row.step),
            Kind::Axis => {
                let value = row.axes.iter().find(|(name, _)| *name == self.name);
                value.map_or(Cell::Missing, |(_, value)| Cell::Text(value))
            }
            Kind::Progress => text(&row.progress),
            Kind::Tags => text(&row.tags_text),
            Kind::Time => row.seconds.map_or(Cell::Missing, Cell::Number),
            Kind::Metric(index) => row.cells.get(index).copied().flatten().map_or(Cell::Missing, Cell::Number),
        }
    }

    /// The value of a row for people.
    pub(super) fn text(&self, row: &Row) -> String {
        match (self.value(row), self.kind) {
            (Cell::Missing, _) => String::new(),
            (Cell::Text(state), Kind::State) if row.is_remarkable() => format!("{state} !"),
            // A blank value would not be seen.
            (Cell::Text(text), Kind::Axis) if text.trim().is_empty() => format!("\"{text}\""),
            (Cell::Text(text), _) => text.to_owned(),
            (Cell::Number(seconds), Kind::Time) => duration(seconds),
            (Cell::Number(value), _) => listed(value, self.shared),
        }
    }

    /// True if its values are aligned to the right.
    pub(super) fn is_numeric(&self) -> bool {
        matches!(self.kind, Kind::Time | Kind::Metric(_))
    }
}

/// A text that is a number as a whole: `0.1`, `1e-3`.
pub(super) fn numeric(text: &str) -> Option<f64> {
    let digits = |part: &str| !part.is_empty() && part.chars().all(|char| char.is_ascii_digit());
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = unsigned.split_once(['e', 'E']).map_or((unsigned, None), |(m, e)| (m, Some(e)));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let has_digits =
        (digits(whole) && (fraction.is_empty() || digits(fraction))) || (whole.is_empty() && digits(fraction));
    let has_exponent = exponent.is_none_or(|exponent| digits(exponent.strip_prefix(['-', '+']).unwrap_or(exponent)));
    (has_digits && has_exponent).then(|| text.parse().ok()).flatten()
}

impl Cell<'_> {
    /// The value as a number, if it is one.
    pub(super) fn number(self) -> Option<f64> {
        match self {
            Self::Missing => None,
            Self::Text(text) => numeric(text),
            Self::Number(value) => Some(value),
        }
    }
}

/// Values of the point `lr=0.1,seed=2` by axis. A comma ends a value only before the name of another axis and `=`. Runs of earlier versions
/// have no names: there any name is one.
pub(super) fn axes_of(point: &str, names: &[String]) -> Vec<(String, String)> {
    let is_like_a_name = |text: &str| {
        !text.is_empty() && text.chars().all(|char| char.is_alphanumeric() || matches!(char, '_' | '.' | '-'))
    };
    let mut axes: Vec<(String, String)> = Vec::new();
    for part in point.split(',') {
        let is_new = |name: &str| !axes.iter().any(|(known, _)| known == name);
        let is_name = |name: &str| match names {
            [] => axes.is_empty() || is_like_a_name(name),
            names => names.iter().any(|known| known == name),
        };
        match part.split_once('=').filter(|(name, _)| is_name(name) && is_new(name)) {
            Some((name, value)) => axes.push((name.to_owned(), value.to_owned())),
            None => {
                if let Some((_, value)) = axes.last_mut() {
                    value.push(',');
                    value.push_str(part);
                }
            }
        }
    }
    axes
}

/// The jobs of a run at `now`. Jobs that the run does not have to do are left out.
pub(super) fn rows(run: &FollowedRun, snapshot: &Snapshot, now: Timestamp) -> Vec<Row> {
    let indices = (0..snapshot.jobs.len()).filter(|index| !matches!(snapshot.jobs[*index], State::NotSelected));
    let names: Vec<String> = snapshot.manifest.axes.iter().map(|axis| clean(axis).into_owned()).collect();
    indices.map(|index| row(run, snapshot, index, &names, now)).collect()
}

fn row(run: &FollowedRun, snapshot: &Snapshot, index: usize, names: &[String], now: Timestamp) -> Row {
    let Line(step, point, state, key, seconds, cells, remarks, _, tags) = run.line(snapshot, index, now);
    let details = match snapshot.jobs[index] {
        State::Done { .. } | State::Cached => remarks,
        _ => describe(snapshot, index, now).1,
    };
    let (mut progress, mut elapsed) = (String::new(), None);
    if let State::Running { since, progress: latest_progress, .. } = &snapshot.jobs[index] {
        elapsed = Some(now.duration_since(*since).as_secs_f64().max(0.0));
        if let Some(latest_progress) = latest_progress {
            let parts = [Some(steps(latest_progress)), latest_progress.live().first().map(latest)];
            let parts: Vec<String> = parts.into_iter().flatten().filter(|part| !part.is_empty()).collect();
            progress = parts.join(" ");
        }
    }
    let label = clean(&snapshot.manifest.jobs[index].label).into_owned();
    let step = run.steps.get(step).cloned().unwrap_or_default();
    let axes = match point {
        Place::Text(point) => axes_of(&point, names),
        Place::Axes(axes) => axes,
    };
    let state = STATES.get(state).copied().unwrap_or("open");
    let tags_text = tags.iter().map(|tag| format!("#{tag}")).collect::<Vec<_>>().join(" ");
    let seconds = elapsed.or(seconds);
    Row { index, step, label, axes, state, key, seconds, cells, progress, details, tags, tags_text }
}

/// The columns of rows. An axis has a column if it distinguishes rows, a metric if a row has it.
pub(super) fn columns(rows: &[Row], headings: &Headings) -> Vec<Column> {
    let mut columns = vec![Column::new("state", "State", Kind::State), Column::new("step", "Step", Kind::Step)];
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in rows.iter().flat_map(|row| &row.axes) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    columns.extend(names.iter().map(|name| Column::new(name, name, Kind::Axis)));
    if rows.iter().any(|row| !row.progress.is_empty()) {
        columns.push(Column::new("progress", "Progress", Kind::Progress));
    }
    columns.push(Column::new("time", "Time", Kind::Time));
    for (index, Heading(heading, name, ..)) in headings.columns.iter().enumerate() {
        let values: Vec<f64> = rows.iter().filter_map(|row| row.cells.get(index).copied().flatten()).collect();
        if !values.is_empty() {
            columns.push(Column { shared: shared_digits(values), ..Column::new(name, heading, Kind::Metric(index)) });
        }
    }
    columns.push(Column::new("tag", "Tags", Kind::Tags));
    columns
}

/// True if a table needs no room for a column: that of an axis with one value in all rows, and that of tags without any.
pub(super) fn is_idle(column: &Column, rows: &[Row]) -> bool {
    if column.kind == Kind::Tags {
        return rows.iter().all(|row| row.tags.is_empty());
    }
    let mut values = rows.iter().map(|row| column.value(row)).filter(|value| *value != Cell::Missing);
    let first = values.next();
    column.kind == Kind::Axis && values.all(|value| Some(value) == first)
}

/// Sorts rows by a column, or without one by urgency: failed and running jobs first. Missing values are last in both directions.
pub(super) fn sort(rows: &mut [Row], order: Option<(&Column, bool)>) {
    let Some((column, is_descending)) = order else {
        let urgency = |row: &Row| {
            let place = URGENT_STATES.iter().position(|state| *state == row.state);
            place.unwrap_or(URGENT_STATES.len())
        };
        rows.sort_by_key(|row| (urgency(row), row.index));
        return;
    };
    rows.sort_by(|one, other| {
        let (a, b) = (column.value(one), column.value(other));
        let ordering = match (a, b) {
            (Cell::Missing, Cell::Missing) => return one.index.cmp(&other.index),
            (Cell::Missing, _) => return Ordering::Greater,
            (_, Cell::Missing) => return Ordering::Less,
            _ if column.kind == Kind::State => place(one.state).cmp(&place(other.state)),
            (Cell::Text(a), Cell::Text(b)) => match (numeric(a), numeric(b)) {
                (Some(a), Some(b)) => a.total_cmp(&b),
                _ => a.to_lowercase().cmp(&b.to_lowercase()),
            },
            _ => a.number().unwrap_or(f64::NAN).total_cmp(&b.number().unwrap_or(f64::NAN)),
        };
        let ordering = if is_descending { ordering.reverse() } else { ordering };
        ordering.then(one.index.cmp(&other.index))
    });
}

/// Place of a state in the order of states.
fn place(state: &str) -> usize {
    STATES.iter().position(|known| *known == state).unwrap_or(STATES.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_is_taken_apart_at_commas_before_names_only() {
        let named = |point: &str, names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            axes_of(point, &names).into_iter().map(|(name, value)| format!("{name}:{value}")).collect::<Vec<_>>()
        };
        let axes = |point: &str| named(point, &[]);
        assert_eq!(axes("lr=0.1,seed=2"), ["lr:0.1", "seed:2"]);
        assert_eq!(axes("note=a, b,seed=1"), ["note:a, b", "seed:1"]);
        assert_eq!(axes("note=x,y z=3,seed=1"), ["note:x,y z=3", "seed:1"]);
        assert_eq!(axes(""), [""; 0]);
        // A value may contain text that looks like another axis.
        assert_eq!(named("note=a,b=c,seed=1", &["note", "seed"]), ["note:a,b=c", "seed:1"]);
        assert_eq!(named("note=a,note=c", &["note"]), ["note:a,note=c"]);
    }

    #[test]
    fn numbers_are_whole_texts() {
        let numbers = ["1", "-2.5", ".5", "1.", "1e-3", "+1E+2"].map(numeric);
        assert_eq!(numbers, [1.0, -2.5, 0.5, 1.0, 0.001, 100.0].map(Some));
        for text in ["", ".", "e3", "1e", "1_0", "inf", "NaN", "0x1", "1 ", "--1"] {
            assert_eq!(numeric(text), None, "{text}");
        }
    }

    #[test]
    fn a_result_with_a_remark_looks_different_from_others() {
        let row = |state, details: &str| Row {
            state,
            details: details.to_owned(),
            seconds: Some(2.4),
            axes: vec![("note".to_owned(), " ".to_owned())],
            tags_text: "#best".to_owned(),
            ..Row::default()
        };
        let (diverged, good) = (row("done", "diverged: loss not finite from step 21"), row("cached", ""));
        let column = Column::new("state", "State", Kind::State);
        assert_eq!([&diverged, &good].map(|row| column.text(row)), ["done !", "cached"]);
        assert_eq!(diverged.says(), "2.4 s · diverged: loss not finite from step 21 · #best");
        assert_eq!(good.says(), "2.4 s · #best");
        assert_eq!(row("failed", "after 2.5 s: exit code 1").says(), "after 2.5 s: exit code 1 · #best");
        assert_eq!(Column::new("note", "note", Kind::Axis).text(&good), "\" \"", "a blank value is seen");
    }

    #[test]
    fn rows_are_sorted_by_value_with_missing_ones_last() {
        let row = |index: usize, lr: &str, state| {
            let axes = if lr.is_empty() { Vec::new() } else { vec![("lr".to_owned(), lr.to_owned())] };
            Row { index, axes, state, ..Row::default() }
        };
        let mut rows =
            vec![row(0, "0.1", "done"), row(1, "", "failed"), row(2, "1e-2", "running"), row(3, "10", "waiting")];
        let column = Column::new("lr", "lr", Kind::Axis);
        let order = |rows: &[Row]| rows.iter().map(|row| row.index).collect::<Vec<_>>();
        sort(&mut rows, Some((&column, false)));
        assert_eq!(order(&rows), [2, 0, 3, 1]);
        sort(&mut rows, Some((&column, true)));
        assert_eq!(order(&rows), [3, 0, 2, 1]);
        sort(&mut rows, None);
        assert_eq!(order(&rows), [1, 2, 0, 3], "failed and running jobs first");
        sort(&mut rows, Some((&Column::new("state", "State", Kind::State), true)));
        assert_eq!(order(&rows), [0, 3, 2, 1]);
    }
}
