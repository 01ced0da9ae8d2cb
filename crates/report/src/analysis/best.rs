//! The configurations of a step in the order of the mean of a metric, for `sweep best`.
//!
//! The best of many configurations was partly lucky on the seeds that chose it. If a search has a confirmation, whose seeds it never used,
//! the values of both have separate columns, and confirmed configurations rank first.

use std::{cmp::Reverse, collections::HashMap};

use serde_json::{Value as Json, json};
use sweep_job::{Unit, Value};

use super::{
    Absence, Cell, Column, Mark, Results, Show, Table, TableRow, absence,
    absence::Footnotes,
    alike::{Alike, leave_out_equal},
    decisions::Stops,
    evidence::{Question, Side, Source, summarize},
    items::NO_SCORES,
    marks::{Remark, mark},
    no_interval::{NoInterval, Reasons},
    search,
    table::{Keys, marked, scale},
};
use crate::{
    format::{clean, count},
    plan::{JobId, Plan, Point, Study, configuration, resolved},
    recipe::{self, Extent, MetricTraits, Metrics, OfStep, Recipe, Rules, Spanned, TableKind},
    stats::Better,
    store::Store,
};

/// The subject of a ranking.
#[derive(Debug, Clone)]
pub struct Contest {
    /// The points of a step.
    pub of: OfStep,
    /// The points of the step that confirms the search.
    pub confirmed: Option<OfStep>,
    /// The axes that distinguish configurations.
    pub axes: Vec<String>,
    /// The metric.
    pub metric: String,
    /// Its better direction.
    pub better: Better,
}

impl Contest {
    /// Tables of all that the ranking needs to read.
    pub fn tables(&self, recipe: &Recipe) -> Vec<recipe::Table> {
        let table = |of: &OfStep| {
            let span = recipe.steps[of.step].name.span;
            let (rows, columns, best, paper) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
            let metrics = Metrics { of: of.clone(), rows, columns, best, paper, about: Extent::default() };
            recipe::Table {
                name: Spanned::new(self.metric.clone(), span),
                title: None,
                cells: vec![Spanned::new(self.metric.clone(), span)],
                kind: TableKind::Metrics(metrics),
                rules: Rules::default(),
            }
        };
        std::iter::once(&self.of).chain(&self.confirmed).map(table).collect()
    }
}

/// The ranked configurations of a step.
#[derive(Debug)]
pub struct Ranking {
    /// The metric.
    pub metric: String,
    /// Its unit.
    pub unit: Unit,
    /// Its better direction.
    pub better: Better,
    /// The axes that distinguish configurations.
    pub axes: Vec<String>,
    /// All configurations, the best first; configurations with missing results come last.
    pub rows: Vec<Configuration>,
    /// Notes for readers.
    pub notes: Vec<String>,
    confirms: bool,
    show: Show,
}

/// Arrangement of the values on axes in a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// A column for each axis, with all digits.
    Exact,
    /// A column for each axis, with rounded numbers.
    Short,
    /// One column with the values on all axes, with rounded numbers.
    Joined,
}

/// A configuration.
#[derive(Debug)]
pub struct Configuration {
    /// Its values on the axes; `None` on an axis that it does not have.
    pub values: Vec<Option<Value>>,
    /// Its rank from 1, among the configurations with all results.
    pub rank: Option<usize>,
    /// The metric on the seeds of the step.
    pub search: Cell,
    /// The metric on the seeds of the confirmation, if it was confirmed.
    pub confirmed: Option<Cell>,
    /// The reason for which the search stopped it.
    pub stopped: Option<String>,
    /// The order of the stopped configurations.
    place: Option<(Reverse<usize>, u64)>,
    labels: Vec<String>,
}

/// The configurations at some points of a step, with their measurements.
struct Found {
    labels: Vec<Vec<String>>,
    values: Vec<Vec<Option<Value>>>,
    cells: Vec<Cell>,
    remarks: Vec<Remark>,
    /// The jobs with the same results as jobs with other seeds.
    equal: Alike,
    absent: Vec<Vec<(Absence, JobId)>>,
    /// The names of the configurations in the decisions of a search.
    names: Vec<String>,
}

impl Ranking {
    /// Ranks the configurations of a study's step by the results in the store.
    pub fn new(plan: &Plan, study: &Study, contest: &Contest, results: &Results, store: &Store) -> Self {
        let measured = results.measured();
        let absences = absence::absences(plan, study, measured, store);
        // The next run repeats a decision that cannot be read.
        let decided = search::decided(plan, study, measured, store).unwrap_or_default();
        let stops = Stops::new(plan, study, contest.of.step, &decided);
        let source = Source { study, measured, absences: &absences, items: &NO_SCORES, further: None };
        let declared = source.traits(contest.of.step, &contest.metric);
        let traits = MetricTraits { better: Some(contest.better), ..declared };
        let measurement = measure(source, &contest.of, contest, traits);
        let confirmed = contest.confirmed.as_ref().map(|of| measure(source, of, contest, traits));
        let timing = traits.unit.is_timing();
        let show = if timing && measurement.cells.iter().all(|cell| cell.sample.is_none_or(|it| it.mean > 0.0)) {
            Show::Interval
        } else {
            Show::Mean
        };
        let mut footnotes = Footnotes::default();
        let by_label: HashMap<&[String], usize> =
            confirmed.iter().flat_map(|confirmed| confirmed.labels.iter().map(Vec::as_slice).zip(0..)).collect();
        let mut rows: Vec<Configuration> = Vec::new();
        for (index, labels) in measurement.labels.iter().enumerate() {
            let mut search = measurement.cells[index].clone();
            // A separate column has the reason why it was stopped.
            let absent =
                measurement.absent[index].iter().filter(|(absence, _)| !matches!(absence, Absence::Stopped(_)));
            for (absence, job) in absent {
                search.lacks(absence, Some(*job), &mut footnotes);
            }
            let confirmation = by_label.get(labels.as_slice()).zip(confirmed.as_ref()).map(|(other, confirmed)| {
                let mut cell = confirmed.cells[*other].clone();
                for (absence, job) in &confirmed.absent[*other] {
                    cell.lacks(absence, Some(*job), &mut footnotes);
                }
                cell
            });
            let values = measurement.values[index].clone();
            let stop = stops.get(&measurement.names[index]);
            let (stopped, place) = (stop.map(|stop| stop.because.clone()), stop.map(|stop| stop.order));
            let labels = labels.clone();
            rows.push(Configuration { values, rank: None, search, confirmed: confirmation, stopped, place, labels });
        }
        rank(&mut rows, contest.better);
        let mut notes = notes(&rows, &measurement, confirmed.as_ref());
        notes.extend(explain(&mut rows, &contest.metric, &mut footnotes));
        notes.extend(footnotes.texts());
        let axes = contest.axes.clone();
        let (metric, better, confirms) = (contest.metric.clone(), contest.better, confirmed.is_some());
        Self { metric, unit: traits.unit, better, axes, rows, notes, confirms, show }
    }

    /// The first `top` configurations as a table. Axes on which all of them have the same value are in a note.
    pub fn table(&self, name: &str, top: usize, layout: Layout) -> Table {
        let rows = &self.rows[..self.rows.len().min(top)];
        let same =
            |axis: usize| rows.len() > 1 && rows.windows(2).all(|two| two[0].labels[axis] == two[1].labels[axis]);
        let stops = rows.iter().any(|row| row.stopped.is_some());
        let (constant, varying): (Vec<usize>, Vec<usize>) = (0..self.axes.len()).partition(|axis| same(*axis));
        let layout = if varying.len() < 2 && layout == Layout::Joined { Layout::Short } else { layout };
        let column = |what: &str, cells: &[Cell]| {
            let what = if what.is_empty() { self.metric.clone() } else { format!("{} · {what}", self.metric) };
            Column {
                point: Vec::new(),
                metric: what,
                unit: self.unit,
                scale: scale(&self.metric, cells, self.show, self.unit),
                show: self.show,
            }
        };
        let search: Vec<Cell> = rows.iter().map(|row| row.search.clone()).collect();
        let cells: Vec<Cell> = rows.iter().map(|row| row.confirmed.clone().unwrap_or_default()).collect();
        let mut columns = vec![column(if self.confirms { "search" } else { "" }, &search)];
        if self.confirms {
            columns.insert(0, column("confirmed", &cells));
        }
        let cells = search
            .into_iter()
            .zip(cells)
            .map(|(search, again)| if self.confirms { vec![again, search] } else { vec![search] });
        let table_rows = rows.iter().zip(cells).map(|(row, cells)| {
            let rank = row.rank.map_or_else(|| "–".to_owned(), |rank| rank.to_string());
            let value = |axis: &usize| match layout {
                Layout::Exact => row.labels[*axis].clone(),
                Layout::Short => row.short(*axis),
                Layout::Joined => format!("{}={}", self.axes[*axis], row.short(*axis)),
            };
            let values: Vec<String> = varying.iter().map(value).collect();
            let values = if layout == Layout::Joined { vec![values.join(", ")] } else { values };
            let labels = std::iter::once(rank).chain(values);
            let stopped = row.stopped.as_ref().map_or_else(String::new, |because| clean(because).into_owned());
            let labels = labels.chain(stops.then_some(stopped));
            TableRow { labels: labels.collect(), cells }
        });
        let names: Vec<String> = match layout {
            Layout::Joined => vec!["configuration".to_owned()],
            Layout::Exact | Layout::Short => varying.iter().map(|axis| self.axes[*axis].clone()).collect(),
        };
        let axes = std::iter::once("#".to_owned()).chain(names);
        let axes = axes.chain(stops.then(|| "end".to_owned()));
        let mut notes = Vec::new();
        if let (false, Some(row)) = (constant.is_empty(), rows.first()) {
            let values: Vec<String> =
                constant.iter().map(|axis| format!("{}={}", self.axes[*axis], row.labels[*axis])).collect();
            notes.push(clean(&format!("all of these: {}", values.join(", "))).into_owned());
        }
        if rows.len() < self.rows.len() {
            notes.push(format!("the first {} of {}", rows.len(), count(self.rows.len(), "configuration")));
        }
        let rounded = |row: &Configuration| varying.iter().any(|axis| row.short(*axis) != row.labels[*axis]);
        if layout != Layout::Exact && rows.iter().any(rounded) {
            notes.push("values of axes are rounded to four digits; `--json` has all of them".to_owned());
        }
        notes.extend(self.notes.iter().cloned());
        let order = match self.better {
            Better::Less => "smallest",
            Better::More => "largest",
        };
        let title = clean(&format!("{name} by {}, the {order} first", self.metric)).into_owned();
        Table { name: name.to_owned(), title, axes: axes.collect(), columns, rows: table_rows.collect(), notes }
    }

    /// The first `top` configurations as JSON, with numbers in the metric's unit.
    pub fn json(&self, top: usize) -> Json {
        let rows = self.rows.iter().take(top).map(|row| {
            let values = self
                .axes
                .iter()
                .zip(&row.values)
                .filter_map(|(axis, value)| Some((axis.clone(), json!(value.as_ref()?))));
            json!({
                "rank": row.rank,
                "values": values.collect::<serde_json::Map<_, _>>(),
                "search": cell_json(&row.search, self.show),
                "stopped": row.stopped,
                "confirmed": row.confirmed.as_ref().map(|cell| cell_json(cell, self.show)),
            })
        });
        json!({
            "metric": self.metric,
            "unit": self.unit.symbol(),
            "better": if self.better == Better::Less { "min" } else { "max" },
            "configurations": self.rows.len(),
            "best": rows.collect::<Vec<_>>(),
            "notes": self.notes,
        })
    }
}

impl Configuration {
    /// Its value on an axis; numbers with many digits are rounded to four.
    fn short(&self, axis: usize) -> String {
        match &self.values[axis] {
            Some(Value::Float(number)) => {
                let rounded = format!("{number:.3e}").parse().unwrap_or(*number);
                Value::Float(rounded).to_string()
            }
            _ => self.labels[axis].clone(),
        }
    }
}

fn cell_json(cell: &Cell, show: Show) -> Json {
    json!({
        "mean": estimated(cell, show),
        "low": cell.estimate.and_then(|estimate| estimate.low),
        "high": cell.estimate.and_then(|estimate| estimate.high),
        "n": cell.sample.map_or(0, |sample| sample.n),
        "mark": cell.mark.map(Mark::word),
        "missing": cell.missing,
        "why": cell.absences,
        "no_interval": cell.no_interval.as_ref().map(NoInterval::words),
    })
}

/// The number by which a cell is ranked.
fn estimated(cell: &Cell, show: Show) -> Option<f64> {
    cell.value(show).filter(|value| value.is_finite())
}

/// The configurations at the selected points of a step.
fn measure(source: Source<'_>, of: &OfStep, contest: &Contest, traits: MetricTraits) -> Found {
    let only = resolved(&source.study.recipe, &of.only);
    let points = source.points(of.step, &only);
    let keys = Keys::new(&points, &contest.axes);
    let mut members: Vec<Vec<(&Point, JobId)>> = vec![Vec::new(); keys.labels.len()];
    for (member, row) in points.iter().zip(&keys.of_row) {
        members[*row].push(*member);
    }
    let mut sides: Vec<Side<'_>> =
        members.iter().map(|members| source.side_of(members.iter().copied(), &contest.metric, traits)).collect();
    let (reserve, names) = (source.reserve(of.step, &only), contest.axes.iter().map(String::as_str));
    let names: Vec<&str> = names.collect();
    for side in &mut sides {
        side.keep(&reserve, &names);
    }
    let geometric = traits.unit.is_timing() && sides.iter().all(Side::is_positive);
    let (apart, kinds, rules) = (contest.axes.clone(), source.kinds(&[of.step]), Rules::default());
    let question = Question { traits, apart, kinds, repeats: None, ratio: false, unpaired: true, rules };
    let mut equal = Alike::default();
    let mut cells: Vec<Cell> = sides
        .iter()
        .zip(&members)
        .map(|(side, members)| {
            let mut distinct_side = side.clone();
            let alike = leave_out_equal(&mut [&mut distinct_side], &question.apart, (traits, &question.kinds));
            let summary = summarize(&distinct_side, &question, geometric);
            let no_interval = alike.instead_of(summary.as_ref().and_then(|summary| summary.no_interval.clone()));
            equal.extend(alike);
            Cell {
                no_interval,
                sample: summary.as_ref().map(|summary| summary.sample),
                estimate: summary.map(|summary| summary.estimate),
                resolution: traits.precision.resolution(),
                missing: side.absent.len(),
                points: members.len(),
                ..Cell::default()
            }
        })
        .collect();
    let absent = sides
        .iter()
        .map(|side| side.absent.iter().map(|(absence, job, _)| (absence.clone(), *job)).collect())
        .collect();
    let remarks = mark(&mut cells, &mut sides, &question, geometric).into_iter().collect();
    let value = |members: &Vec<(&Point, JobId)>| {
        contest.axes.iter().map(|axis| members.first().and_then(|(point, _)| point.get(axis)).cloned()).collect()
    };
    let values = members.iter().map(value).collect();
    let step = &source.study.recipe.steps[of.step];
    let name = |members: &Vec<(&Point, JobId)>| {
        members.first().map(|(point, _)| configuration(step, point).to_string()).unwrap_or_default()
    };
    let names = members.iter().map(name).collect();
    Found { labels: keys.labels, values, cells, remarks, equal, absent, names }
}

/// Adds footnotes to numbers without an interval; returns notes on whole columns.
fn explain(rows: &mut [Configuration], metric: &str, footnotes: &mut Footnotes) -> Vec<String> {
    let search_name = format!("{metric} · search");
    let confirmed = rows.iter().map(|row| row.confirmed.as_ref()).collect();
    let search = rows.iter().map(|row| Some(&row.search)).collect();
    let Reasons { notes, cells } = Reasons::of(&[(metric, confirmed), (&search_name, search)]);
    for (row, column, reason) in cells {
        let row = &mut rows[row];
        let cell = if column == 0 { row.confirmed.as_mut() } else { Some(&mut row.search) };
        if let Some(cell) = cell {
            cell.refer(&Absence::NoInterval(reason), footnotes);
        }
    }
    notes
}

/// Sorts the configurations, and ranks the configurations with all results.
fn rank(rows: &mut [Configuration], better: Better) {
    let is_complete =
        |cell: &Cell| cell.missing == 0 && cell.estimate.is_some_and(|estimate| estimate.value.is_finite());
    // Orders by confirmation, by completeness, then by the value.
    let place = |row: &Configuration| {
        let confirmed = row.confirmed.as_ref().filter(|cell| is_complete(cell));
        let cell = confirmed.unwrap_or(&row.search);
        let value = cell.estimate.map(|estimate| estimate.value).filter(|value| value.is_finite());
        let value = value.map(|value| if better == Better::Less { value } else { -value });
        (confirmed.is_none(), !is_complete(cell), row.place, value.unwrap_or(f64::INFINITY))
    };
    rows.sort_by(|a, b| {
        let (a, b) = (place(a), place(b));
        (a.0, a.1, a.2.is_some(), a.2).cmp(&(b.0, b.1, b.2.is_some(), b.2)).then(a.3.total_cmp(&b.3))
    });
    for (index, row) in rows.iter_mut().enumerate() {
        let cell = row.confirmed.as_ref().unwrap_or(&row.search);
        row.rank = (is_complete(cell) || is_complete(&row.search)).then_some(index + 1);
    }
}

fn notes(rows: &[Configuration], found: &Found, confirmed: Option<&Found>) -> Vec<String> {
    let mut notes = Vec::new();
    let cells = || rows.iter().flat_map(|row| std::iter::once(&row.search).chain(&row.confirmed));
    let counts: Vec<usize> = cells().filter_map(|cell| cell.sample).map(|sample| sample.n).collect();
    if let (Some(least), Some(most @ 2..)) = (counts.iter().min(), counts.iter().max().copied()) {
        let n = if *least == most { most.to_string() } else { format!("{least} to {most}") };
        notes.push(format!("mean and 95 % confidence interval over seeds (n = {n})"));
    }
    notes.extend(marked(cells()));
    let mut remarks: Vec<&Remark> =
        found.remarks.iter().chain(confirmed.iter().flat_map(|found| &found.remarks)).collect();
    remarks.sort();
    remarks.dedup();
    notes.extend(remarks.into_iter().map(Remark::words));
    let mut equal = found.equal.clone();
    equal.extend(confirmed.map(|found| found.equal.clone()).unwrap_or_default());
    notes.extend(equal.words());
    let ranked_rows = rows.iter().filter(|row| row.rank.is_some()).count();
    if confirmed.is_some() {
        notes.push("search: the seeds that chose the configurations, which favor the best of many; confirmed: seeds that the search never saw".to_owned());
    } else if ranked_rows > 2 {
        notes.push(format!(
            "the best of {} on the seeds that chose it: expect less of it on others",
            count(ranked_rows, "configuration")
        ));
    }
    notes
}
