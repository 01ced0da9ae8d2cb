//! Tables of effects: the main effects of factors on metrics, their interactions, and each factor's share of the
//! differences.

mod notes;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use sweep_job::Unit;

use crate::{
    analysis::{
        Absence, Cell, Column, Compared, Show, Table, TableRow,
        absence::Footnotes,
        conditions::comparable,
        evidence::{Source, traits},
        items::NO_SCORES,
        no_interval::NoInterval,
        table::scale,
    },
    format::{Scale, clean},
    plan::{JobId, Layout, LayoutError, Point, Study, resolved, selected},
    recipe::{self, Effects, MetricTraits},
    stats::{
        Estimate, LEVEL, Sample,
        effects::{Noise, maximum_modulus, mean, shapley},
        factorial::Effect,
        level_of,
    },
    store::Measured,
};

/// The table: one row for each effect, and for each metric a column with the effects and one with the shares.
pub(crate) fn table(table: &recipe::Table, effects: &Effects, source: Source<'_>) -> Table {
    let mut effects_table = Table {
        name: table.name.value.clone(),
        title: clean(table.title.as_ref().unwrap_or(&table.name.value)).into_owned(),
        axes: vec!["effect".to_owned()],
        columns: Vec::new(),
        rows: Vec::new(),
        notes: Vec::new(),
    };
    let experiment = match Experiment::new(effects, source) {
        Ok(experiment) => experiment,
        Err(error) => {
            effects_table.notes.push(clean(&format!("no effects: {error}")).into_owned());
            return effects_table;
        }
    };
    let labels = experiment.effects.iter().map(|effect| vec![experiment.layout.label(effect)]);
    effects_table.rows = labels.map(|labels| TableRow { labels, cells: Vec::new() }).collect();
    let mut outcomes = Vec::new();
    for metric in table.cells.iter().map(|cell| cell.value.as_str()) {
        let traits = source.traits(effects.of.step, metric);
        let mut outcome = experiment.measure(metric, traits);
        let unit = traits.unit;
        if traits.depends_on_load && !table.rules.any_conditions {
            experiment.block_unlike(&mut outcome, source);
        }
        let cells: Vec<Cell> = outcome.effects.iter().map(EffectOf::cell).collect();
        let column = |unit, scale, show| Column { point: Vec::new(), metric: metric.to_owned(), unit, scale, show };
        effects_table.columns.push(column(unit, scale(metric, &cells, Show::Difference, unit), Show::Difference));
        for (row, cell) in effects_table.rows.iter_mut().zip(cells) {
            row.cells.push(cell);
        }
        if experiment.layout.design.is_full() {
            effects_table.columns.push(column(Unit::Fraction, Scale::of(0.0, Unit::Fraction), Show::Share));
            for (row, cell) in effects_table.rows.iter_mut().zip(experiment.shares(&outcome)) {
                row.cells.push(cell);
            }
        }
        outcomes.push((metric, outcome));
    }
    let mut footnotes = Footnotes::default();
    // A metric has one column, or two with its shares.
    let columns = if experiment.layout.design.is_full() { 2 } else { 1 };
    for (index, row) in effects_table.rows.iter_mut().enumerate() {
        for (cell, (_, outcome)) in row.cells.iter_mut().step_by(columns).zip(&outcomes) {
            for (absence, job) in &outcome.effects[index].absent {
                cell.lacks(absence, Some(*job), &mut footnotes);
            }
        }
    }
    effects_table.notes = experiment.notes(&outcomes);
    effects_table.notes.extend(footnotes.texts());
    effects_table
}

/// The effects on a metric that can be estimated so far, with their labels.
pub fn estimates(
    study: &Study,
    effects: &Effects,
    metric: &str,
    measured: &BTreeMap<JobId, Measured>,
) -> Vec<(String, Estimate)> {
    let source = Source { study, measured, absences: &BTreeMap::new(), items: &NO_SCORES, further: None };
    let Ok(experiment) = Experiment::new(effects, source) else { return Vec::new() };
    let labels = experiment.effects.iter().map(|effect| experiment.layout.label(effect));
    let outcome = experiment.measure(metric, traits(study, measured, effects.of.step, metric));
    labels.zip(outcome.effects).filter_map(|(label, effect)| Some((label, effect.estimate?))).collect()
}

/// The points of a design with their measurements.
struct Experiment<'a> {
    layout: Layout,
    effects: Vec<Effect>,
    absences: &'a BTreeMap<JobId, Absence>,
    /// For each combination, its repetitions. In blocks, these are the same for all combinations.
    cells: Vec<Vec<Row<'a>>>,
    /// True if the repetitions are blocks: every combination has the same seeds.
    blocked: bool,
    /// True if some combinations have further seeds, which are left out.
    leaves_seeds_out: bool,
    /// Largest number of evaluations until the results are decided.
    looks: usize,
    /// For each combination, its independent measurement. Combinations of the same jobs share one.
    unit_of: Vec<usize>,
    /// Number of independent measurements.
    units: usize,
    /// Reason why the jobs do not show the random variation.
    unrepeated: Option<NoInterval>,
}

/// A point with its job, and the job's measurements if it is done.
#[derive(Debug, Clone, Copy)]
struct Row<'a> {
    point: &'a Point,
    job: JobId,
    measured: Option<&'a Measured>,
}

/// There is one repetition.
const ONE_SEED: NoInterval = NoInterval::One("seed");

/// The effects on one metric.
struct Outcome {
    effects: Vec<EffectOf>,
    /// The share of each factor; `None` if not all combinations are measured, or if all means are equal.
    shares: Option<Vec<f64>>,
    /// True if chance can explain the differences between all points.
    within_noise: bool,
    /// Reason why there are no intervals.
    no_interval: Option<NoInterval>,
}

/// An effect on one metric.
struct EffectOf {
    estimate: Option<Estimate>,
    sample: Option<Sample>,
    /// Number of points that the effect depends on.
    points: usize,
    /// The points of these without a result.
    absent: Vec<(Absence, JobId)>,
}

impl EffectOf {
    /// True if chance can explain the effect.
    fn is_noise(&self) -> bool {
        let ends = self.estimate.and_then(|estimate| estimate.low.zip(estimate.high));
        ends.is_some_and(|(low, high)| low < high && low <= 0.0 && 0.0 <= high)
    }

    fn cell(&self) -> Cell {
        let compared = self.estimate.map(|estimate| Compared { estimate, noise: self.is_noise() });
        Cell { sample: self.sample, compared, missing: self.absent.len(), points: self.points, ..Cell::default() }
    }
}

impl<'a> Experiment<'a> {
    fn new(effects: &Effects, source: Source<'a>) -> Result<Self, LayoutError> {
        let Source { study, measured, absences, .. } = source;
        let only = resolved(&study.recipe, &effects.of.only);
        let planned_points = study.steps[effects.of.step].iter().filter(|(point, _)| selected(point, &only));
        let points: Vec<&Point> = planned_points.clone().map(|(point, _)| point).collect();
        let layout = Layout::new(&study.recipe, effects, &points)?;
        let looks = 1 + planned_points.filter_map(|(_, job)| study.rounds.get(job)).max().copied().unwrap_or(0);
        let mut repetitions: Vec<BTreeMap<String, Row<'_>>> = vec![BTreeMap::new(); layout.design.cells().len()];
        for (point, job) in source.points(effects.of.step, &only) {
            let row = Row { point, job, measured: measured.get(&job) };
            if let Some(cell) = layout.cell(row.point) {
                repetitions[cell].insert(layout.repetition(row.point), row);
            }
        }
        let shared: BTreeSet<String> = repetitions
            .first()
            .into_iter()
            .flat_map(BTreeMap::keys)
            .filter(|seed| repetitions.iter().all(|rows| rows.contains_key(*seed)))
            .cloned()
            .collect();
        let equal = repetitions.iter().all(|rows| rows.len() == shared.len());
        let blocked = equal || shared.len() > 1;
        let cells: Vec<Vec<Row<'_>>> = repetitions
            .iter()
            .map(|rows| {
                rows.iter().filter(|(seed, _)| !blocked || shared.contains(*seed)).map(|(_, row)| *row).collect()
            })
            .collect();
        let mut indices: HashMap<Vec<JobId>, usize> = HashMap::new();
        let unit_of: Vec<usize> = cells
            .iter()
            .map(|rows| {
                let (jobs, next) = (rows.iter().map(|row| row.job).collect(), indices.len());
                *indices.entry(jobs).or_insert(next)
            })
            .collect();
        let mut jobs = HashSet::new();
        let distinct = indices.keys().flatten().all(|job| jobs.insert(*job));
        let once = indices.keys().all(|jobs| jobs.iter().all(|job| Some(job) == jobs.first()));
        let unrepeated = match (once, distinct) {
            (true, _) => Some(ONE_SEED),
            (false, false) => Some(NoInterval::SharedJobs),
            (false, true) => None,
        };
        Ok(Self {
            effects: layout.effects(),
            layout,
            absences,
            cells,
            blocked,
            leaves_seeds_out: blocked && !equal,
            looks,
            unit_of,
            units: indices.len(),
            unrepeated,
        })
    }

    /// A measurement; a non-finite number counts as missing.
    fn value(&self, row: &Row<'_>, metric: &str, traits: MetricTraits) -> Result<f64, (Absence, JobId)> {
        let absence = match row.measured.map(|measured| measured.metrics.get(metric)) {
            Some(Some(found)) if found.value.is_finite() => match traits.value(metric, *found) {
                Some(value) => return Ok(value),
                None => Absence::other_unit(found.unit, traits.unit),
            },
            Some(_) => row.measured.map_or(Absence::NotRun, |measured| Absence::of_metric(measured, metric)),
            None => self.absences.get(&row.job).cloned().unwrap_or(Absence::NotRun),
        };
        Err((absence, row.job))
    }

    /// Estimates the effects on a metric.
    fn measure(&self, metric: &str, traits: MetricTraits) -> Outcome {
        let mut values: Vec<Option<Vec<f64>>> = vec![None; self.units];
        for (rows, unit) in self.cells.iter().zip(&self.unit_of) {
            let all: Option<Vec<f64>> = rows.iter().map(|row| self.value(row, metric, traits).ok()).collect();
            values[*unit] = all.filter(|values| !values.is_empty());
        }
        let complete: Vec<Vec<f64>> = values.iter().flatten().cloned().collect();
        let (noise, no_interval) = match &self.unrepeated {
            Some(reason) => (None, Some(reason.clone())),
            None => {
                let noise = if self.blocked { Noise::in_blocks(&complete) } else { Noise::within(&complete) };
                let known = noise.map(|noise| (noise, traits.precision.spread(noise.variance.sqrt())));
                match known {
                    Some((noise, Some(sd))) => (Some(Noise { variance: sd * sd, ..noise }), None),
                    Some((noise, None)) => (None, Some(NoInterval::of_spread(noise.variance))),
                    None => (None, Some(ONE_SEED)),
                }
            }
        };
        let half_widths =
            noise.map(|noise| (noise, maximum_modulus(self.effects.len(), noise.freedom, level_of(self.looks))));
        let effects =
            self.effects.iter().map(|effect| self.estimate(effect, metric, &values, (half_widths, traits))).collect();
        let chance = noise.and_then(|noise| noise.equality(&complete));
        let within_noise = chance.is_some_and(|p| p >= 1.0 - LEVEL);
        Outcome { effects, shares: self.shares_of(&values), within_noise, no_interval }
    }

    /// Leaves all effects out if the conditions of the measurements differ.
    fn block_unlike(&self, outcome: &mut Outcome, source: Source<'_>) {
        let records = |rows: &Vec<Row<'_>>| rows.iter().filter_map(|row| source.measured.get(&row.job)).collect();
        // An effect compares combinations with each other, so times of combinations are taken in turns.
        let sides: Vec<Vec<&Measured>> =
            self.cells.iter().map(records).filter(|side: &Vec<_>| !side.is_empty()).collect();
        let sides: Vec<&[&Measured]> = sides.iter().map(Vec::as_slice).collect();
        let job = self.cells.iter().flatten().map(|row| row.job).next();
        let (Some(reason), Some(job)) = (comparable(&sides).reason, job) else { return };
        for effect in outcome.effects.iter_mut().filter(|effect| effect.estimate.is_some()) {
            effect.estimate = None;
            effect.sample = None;
            effect.absent.push((Absence::Unlike(reason.clone()), job));
        }
        outcome.shares = None;
    }

    fn estimate(
        &self,
        effect: &Effect,
        metric: &str,
        values: &[Option<Vec<f64>>],
        (noise, traits): (Option<(Noise, f64)>, MetricTraits),
    ) -> EffectOf {
        let (mut coefficients, mut points, mut absent) = (BTreeMap::<usize, f64>::new(), 0, Vec::new());
        for (cell, rows) in self.cells.iter().enumerate() {
            let coefficient = self.layout.design.coefficient(effect, cell);
            if coefficient != 0.0 {
                *coefficients.entry(self.unit_of[cell]).or_default() += coefficient;
                points += rows.len();
                absent.extend(rows.iter().filter_map(|row| self.value(row, metric, traits).err()));
            }
        }
        // The same job at several combinations cancels out, up to a rounding error.
        coefficients.retain(|_, coefficient| coefficient.abs() > 1e-12);
        let known: Option<Vec<(f64, &Vec<f64>)>> =
            coefficients.iter().map(|(unit, coefficient)| Some((*coefficient, values[*unit].as_ref()?))).collect();
        let Some(known) = known.filter(|_| absent.is_empty()) else {
            return EffectOf { estimate: None, sample: None, points, absent };
        };
        let value = known.iter().fold(0.0, |value, (coefficient, values)| value + coefficient * mean(values));
        let estimate = match noise {
            _ if known.is_empty() => Estimate { value, low: Some(value), high: Some(value), p: None },
            Some((noise, half_widths)) => {
                let terms: Vec<(f64, usize)> = known.iter().map(|(by, values)| (*by, values.len())).collect();
                noise.estimate(value, &terms, half_widths)
            }
            None => Estimate { value, low: None, high: None, p: None },
        };
        if !value.is_finite() {
            return EffectOf { estimate: None, sample: None, points, absent };
        }
        let n = known.iter().map(|(_, values)| values.len()).min().unwrap_or(0);
        let by_block = |block: usize| known.iter().map(|(coefficient, values)| coefficient * values[block]).sum();
        let sample = if self.blocked && self.unrepeated.is_none() && n > 0 {
            Sample::new(&(0..n).map(by_block).collect::<Vec<f64>>())
        } else {
            let n = if self.unrepeated == Some(ONE_SEED) { 1 } else { n };
            Some(Sample { n, mean: value, sd: None })
        };
        EffectOf { estimate: Some(estimate), sample, points, absent }
    }

    /// The share of each factor in the variance between the combinations, all of which must be measured.
    fn shares_of(&self, values: &[Option<Vec<f64>>]) -> Option<Vec<f64>> {
        let design = &self.layout.design;
        if !design.is_full() {
            return None;
        }
        let mut means = vec![0.0; design.cells().len()];
        for (cell, unit) in design.cells().iter().zip(&self.unit_of) {
            let index = cell.iter().zip(design.levels()).fold(0, |index, (level, levels)| index * levels + level);
            means[index] = mean(values[*unit].as_ref()?);
        }
        shapley(design.levels(), &means)
    }

    /// The cells of a column of shares. Each factor has one, in the row of its first effect.
    fn shares(&self, outcome: &Outcome) -> Vec<Cell> {
        let share = |effect: &Effect| match effect.0.as_slice() {
            [(factor, 1)] => {
                let share = outcome.shares.as_ref().map(|shares| shares[*factor]);
                let estimate = |value| Estimate { value, low: None, high: None, p: None };
                let compared = |value| Compared { estimate: estimate(value), noise: outcome.within_noise };
                Cell { compared: share.map(compared), points: self.cells.len(), ..Cell::default() }
            }
            _ => Cell::default(),
        };
        self.effects.iter().map(share).collect()
    }
}
