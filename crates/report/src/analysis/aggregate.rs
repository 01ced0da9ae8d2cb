//! Aggregates over tasks: the interquartile mean of all runs, and the probability that one method is better than another.
//!
//! A value of an axis is a method, a combination of the other axes is a task, and seeds are its runs. Intervals come from a bootstrap that
//! draws runs within each task (Agarwal et al., 2021); with several crossed seeds, it draws the values of each seed.

use std::collections::{BTreeMap, BTreeSet};

use sweep_job::{Unit, Value};

use crate::{
    analysis::{
        Absence, Cell, Column, Compared, Show, Table, TableRow,
        absence::Footnotes,
        alike::leave_out_equal,
        evidence::{Question, Side, Silence, Source, complete, like},
        no_interval::{NoInterval, explain},
        table::scale,
        units::{SamplingUnit, Units, place, reduce},
    },
    format::{Scale, clean, count},
    plan::{Point, resolved},
    recipe::{self, Aggregate, MetricTraits, Names, OfStep, Replication},
    stats::{Better, Estimate, Sample, Tasks},
};

/// The table: one row for each value of the axis; for each metric a column with the interquartile mean, and one with the
/// probability of improvement over the baseline.
pub(crate) fn table(table: &recipe::Table, aggregate: &Aggregate, source: Source<'_>) -> Table {
    let recipe = &source.study.recipe;
    let (step, axis) = (&recipe.steps[aggregate.of.step], aggregate.axis.value.as_str());
    let baseline = aggregate.baseline.as_ref().and_then(|value| value.resolve(&recipe.params, &Names::new()));
    let baseline = baseline.map(|value| value.value);
    let methods = methods(&aggregate.of, axis, source);
    let mut rows: Vec<TableRow> = methods
        .iter()
        .map(|method| TableRow { labels: vec![clean(&method.to_string()).into_owned()], cells: Vec::new() })
        .collect();
    let mut footnotes = Footnotes::default();
    let (mut columns, mut notes) = (Vec::new(), BTreeSet::new());
    let mut sizes = Sizes::default();
    for metric in table.cells.iter().map(|cell| cell.value.as_str()) {
        let traits = source.traits(aggregate.of.step, metric);
        let apart = super::pairs::apart(step, &[axis]);
        let (kinds, rules) = (source.kinds(&[aggregate.of.step]), table.rules);
        let question = Question { traits, apart, kinds, repeats: None, ratio: false, unpaired: true, rules };
        let mut sides: Vec<Side<'_>> =
            methods.iter().map(|method| side(aggregate, source, method, (metric, traits))).collect();
        let mut all: Vec<&mut Side<'_>> = sides.iter_mut().collect();
        let equal = leave_out_equal(&mut all, &question.apart, (traits, &question.kinds));
        notes.extend(equal.words());
        let (scores, left_out) = scores(&mut sides, &question);
        notes.extend(left_out);
        let other = methods.iter().position(|method| Some(method) == baseline.as_ref());
        let other = other.and_then(|index| scores[index].as_ref().ok());
        let (mut means, mut chances) = (Vec::new(), Vec::new());
        for (index, (side, score)) in sides.iter().zip(&scores).enumerate() {
            let other = other.filter(|_| Some(&methods[index]) != baseline.as_ref());
            if let Ok(score) = score {
                sizes.add(score);
            }
            let [mean, chance] = cells(side, score, other, traits, &mut footnotes);
            means.push(mean);
            chances.push(chance);
        }
        let column = |show, unit, scale| Column { point: Vec::new(), metric: metric.to_owned(), unit, scale, show };
        columns.push(column(Show::Interval, traits.unit, scale(metric, &means, Show::Interval, traits.unit)));
        for (row, cell) in rows.iter_mut().zip(means) {
            row.cells.push(cell);
        }
        match (&baseline, traits.better) {
            (Some(_), Some(_)) => {
                columns.push(column(Show::Improvement, Unit::One, Scale::of(1.0, Unit::One)));
                for (row, cell) in rows.iter_mut().zip(chances) {
                    row.cells.push(cell);
                }
            }
            (Some(_), None) => {
                notes.insert(format!(
                    "{metric}: no better direction, so there is no improvement; declare `better` under `metrics`"
                ));
            }
            (None, _) => {}
        }
    }
    let mut all = described(&sizes, baseline.as_ref(), &columns);
    all.extend(notes);
    all.extend(explain(&mut rows, &columns, &mut footnotes));
    all.extend(footnotes.texts());
    Table {
        name: table.name.value.clone(),
        title: clean(table.title.as_ref().unwrap_or(&table.name.value)).into_owned(),
        axes: vec![axis.to_owned()],
        columns,
        rows,
        notes: all.iter().map(|note| clean(note).into_owned()).collect(),
    }
}

/// The cells of a method: its interquartile mean, and the probability that it is better than the baseline.
fn cells(
    side: &Side<'_>,
    score: &Result<Score, Option<Absence>>,
    baseline: Option<&Score>,
    traits: MetricTraits,
    footnotes: &mut Footnotes,
) -> [Cell; 2] {
    let (missing, points) = (side.absent.len(), side.found.len() + side.absent.len());
    let mut mean = Cell { missing, points, ..Cell::default() };
    let mut chance = mean.clone();
    match score {
        Ok(score) if !score.mean.value.is_finite() => {
            mean.lacks(&Absence::NoInterval(NoInterval::NotFinite), None, footnotes);
        }
        Ok(score) => {
            let sample = Sample { n: score.count, mean: score.mean.value, sd: None };
            mean.sample = Some(sample);
            mean.estimate = Some(score.mean);
            mean.compared = Some(Compared { estimate: score.mean, noise: false });
            mean.no_interval = no_interval(score.mean);
            let improvement = baseline.zip(traits.better).and_then(|(baseline, better)| match better {
                Better::More => score.runs.probability_of_improvement(&baseline.runs),
                Better::Less => baseline.runs.probability_of_improvement(&score.runs),
            });
            chance.compared = improvement.map(|estimate| Compared { estimate, noise: is_even(estimate) });
            chance.sample = chance.compared.map(|_| sample);
            chance.no_interval = improvement.and_then(no_interval);
        }
        Err(reason) => {
            for (absence, job, _) in &side.absent {
                mean.lacks(absence, Some(*job), footnotes);
            }
            if let Some(absence) = reason {
                mean.lacks(absence, None, footnotes);
            }
        }
    }
    [mean, chance]
}

/// The reason why the estimate of a bootstrap has no interval.
fn no_interval(estimate: Estimate) -> Option<NoInterval> {
    let reason = if estimate.value.is_finite() { NoInterval::OneRun } else { NoInterval::NotFinite };
    estimate.low.is_none().then_some(reason)
}

/// The values of an axis, in the order of the points.
pub(super) fn methods(of: &OfStep, axis: &str, source: Source<'_>) -> Vec<Value> {
    let mut methods = Vec::new();
    for (point, _) in source.points(of.step, &resolved(&source.study.recipe, &of.only)) {
        if let Some(value) = point.get(axis)
            && !methods.contains(value)
        {
            methods.push(value.clone());
        }
    }
    methods
}

fn side<'a>(
    aggregate: &'a Aggregate,
    source: Source<'a>,
    method: &Value,
    (metric, traits): (&str, MetricTraits),
) -> Side<'a> {
    let mut selection = resolved(&source.study.recipe, &aggregate.of.only);
    selection.push((&aggregate.axis.value, vec![method.clone()]));
    source.side(aggregate.of.step, &selection, metric, traits)
}

/// The runs of a method.
struct Score {
    /// Number of tasks, which all methods have.
    tasks: usize,
    /// Number of runs.
    count: usize,
    mean: Estimate,
    runs: Tasks,
    /// The axes of crossed seeds.
    crossed: BTreeSet<String>,
    /// The axes of seeds that affect the runs of several tasks.
    shared: BTreeSet<String>,
}

/// The numbers of tasks and runs of the scores, for the note below the table.
#[derive(Default)]
struct Sizes {
    tasks: BTreeSet<usize>,
    runs: BTreeSet<usize>,
    is_uneven: bool,
    crossed: BTreeSet<String>,
    shared: BTreeSet<String>,
}

impl Sizes {
    fn add(&mut self, score: &Score) {
        self.tasks.insert(score.tasks);
        self.runs.insert(score.count);
        self.is_uneven |= score.runs.is_uneven();
        self.crossed.extend(score.crossed.iter().cloned());
        self.shared.extend(score.shared.iter().cloned());
    }
}

/// The scores of all methods over their common tasks, or the reason for a missing score, and a note on other tasks.
fn scores(sides: &mut [Side<'_>], question: &Question<'_>) -> (Vec<Result<Score, Option<Absence>>>, Option<String>) {
    let mut all: Vec<&mut Side<'_>> = sides.iter_mut().filter(|side| !side.is_empty()).collect();
    // Fills in or leaves out missing results, as the recipe requests.
    let _ = complete(&mut all, question);
    let measured: Vec<&Side<'_>> = sides.iter().filter(|side| !side.found.is_empty()).collect();
    let unlike = match like(&measured, question.traits, question.rules) {
        Err(Silence::Unlike(reason)) => Some(Absence::Unlike(reason)),
        _ => None,
    };
    let mut all: Vec<Result<_, Option<Absence>>> =
        sides.iter().map(|side| by_task(side, question, unlike.as_ref())).collect();
    // A mean over other tasks is another quantity.
    let names = || all.iter().flatten().flat_map(BTreeMap::keys);
    let is_common = |name: &Vec<String>| all.iter().flatten().all(|tasks| tasks.contains_key(name));
    let (common, others): (BTreeSet<Vec<String>>, BTreeSet<Vec<String>>) = names().cloned().partition(is_common);
    for tasks in all.iter_mut().flatten() {
        tasks.retain(|name, _| common.contains(name));
    }
    let left_out =
        (!others.is_empty()).then(|| format!("left out: {} that some methods lack", count(others.len(), "task")));
    (all.into_iter().map(|tasks| tasks.and_then(|tasks| score(&tasks, question))).collect(), left_out)
}

/// The runs of each task.
type ByTask<'a> = BTreeMap<Vec<String>, Vec<(&'a Point, f64)>>;

/// The runs of a method by task, or the reason why there are none; `unlike` is the reason why methods are not compared.
fn by_task<'a>(
    side: &Side<'a>,
    question: &Question<'_>,
    unlike: Option<&Absence>,
) -> Result<ByTask<'a>, Option<Absence>> {
    if side.found.is_empty() {
        return Err(None);
    }
    if !question.is_whole(side) {
        return Err(Some(Absence::Incomplete));
    }
    if let Some(unlike) = unlike {
        return Err(Some(unlike.clone()));
    }
    let mut tasks: BTreeMap<Vec<String>, Vec<(&Point, f64)>> = BTreeMap::new();
    for (point, value) in side.values() {
        let is_repetition = |axis: &str| question.kinds.of_axis(axis) >= Replication::Seed;
        let is_own = |axis: &str| is_repetition(axis) || question.apart.iter().any(|apart| apart == axis);
        tasks.entry(place(point, is_own)).or_default().push((point, value));
    }
    Ok(tasks)
}

/// The score of the runs of each task.
fn score(tasks: &ByTask<'_>, question: &Question<'_>) -> Result<Score, Option<Absence>> {
    let (apart, kinds) = (&question.apart, &question.kinds);
    let units: Vec<Units> = tasks.values().map(|values| reduce(values, apart, kinds, None)).collect();
    let count = units.iter().map(|runs| runs.values.len()).sum();
    let all: Vec<(&Point, f64)> = tasks.values().flatten().copied().collect();
    let unit = SamplingUnit::of(&all.iter().map(|(point, _)| *point), apart, kinds, None);
    let shared = unit.shared_axes(&all).unwrap_or_default();
    let (runs, crossed) = if shared.is_empty() {
        let crossed = units.iter().flat_map(|runs| &runs.axes).cloned().collect();
        (Tasks::crossed(units.into_iter().map(Units::leveled).collect()), crossed)
    } else {
        (Tasks::sharing(unit.by_seeds(tasks.values())), BTreeSet::new())
    };
    let runs = runs.ok_or(Some(Absence::Unpaired))?;
    let shared = shared.iter().cloned().collect();
    Ok(Score { tasks: tasks.len(), count, mean: runs.interquartile_mean(), runs, crossed, shared })
}

/// True if chance can explain an improvement.
fn is_even(estimate: Estimate) -> bool {
    estimate.low.zip(estimate.high).is_some_and(|(low, high)| low <= 0.5 && 0.5 <= high)
}

fn described(sizes: &Sizes, baseline: Option<&Value>, columns: &[Column]) -> Vec<String> {
    let range = |values: &BTreeSet<usize>, word: &str| match (values.first(), values.last()) {
        (Some(least), Some(most)) if least == most => Some(count(*least, word)),
        (Some(least), Some(most)) => Some(format!("{least} to {}", count(*most, word))),
        _ => None,
    };
    let mut notes = Vec::new();
    if let (Some(tasks), Some(runs)) = (range(&sizes.tasks, "task"), range(&sizes.runs, "run")) {
        let equal = if sizes.is_uneven { ", which weigh equally," } else { "" };
        let in_words =
            |axes: &BTreeSet<String>| axes.iter().map(|axis| format!("`{axis}`")).collect::<Vec<_>>().join(" and ");
        let drawn = match (&sizes.crossed, &sizes.shared) {
            (_, shared) if !shared.is_empty() => {
                format!(" that draws each value of {} for several tasks at once", in_words(shared))
            }
            (crossed, _) if crossed.is_empty() => String::new(),
            (crossed, _) => format!(" that draws the values of {} independently", in_words(crossed)),
        };
        notes.push(format!(
            "interquartile mean of {runs} of {tasks}{equal} [95 % interval of a bootstrap within tasks{drawn}]"
        ));
    }
    if let Some(baseline) = baseline.filter(|_| columns.iter().any(|column| column.show == Show::Improvement)) {
        notes.push(format!(
            "better: probability that a run is better than a run of {baseline} on the same task [95 % interval]; ≈ \
             the interval contains 0.5"
        ));
    }
    notes
}
