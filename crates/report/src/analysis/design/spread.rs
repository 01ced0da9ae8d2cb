//! The spread of a decision's units, from the existing records.
//!
//! The verdict determines the units: differences of pairs, values, or values of other axes over which seeds are averaged. Decisions of one
//! group (the rows of a table) share one estimate.

use std::collections::{BTreeMap, BTreeSet};

use sweep_base::SEED;

use super::{
    decisions::{Decision, Form, Points},
    model::Units,
};
use crate::{
    analysis::{
        evidence::{Found, Question, Side, Silence, Source, like, relative},
        units::{
            Cells, Partners, SamplingUnit, blocks as unit_blocks, of_settings, pairs, place, reduce, unit_pairs,
            unit_values,
        },
    },
    plan::{JobId, Point},
    recipe::Missing,
    stats::{Groups, Sample},
};

/// Sums of squares of a decision's units around their mean.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Squares {
    /// Sum of squares.
    pub(super) sum: f64,
    /// Degrees of freedom.
    pub(super) freedom: f64,
    /// Sum of squares of single measurements within units.
    within: f64,
    /// Its degrees of freedom.
    within_freedom: f64,
    /// Sum of the variances of the effects of seeds on all units, times the degrees of freedom of the units.
    common: f64,
    /// Number of records.
    pub(super) records: usize,
}

/// Planned and measured units of a decision.
pub(super) struct Spread {
    pub(super) shape: Shape,
    pub(super) squares: Squares,
    /// Origin of the squares.
    pub(super) basis: Basis,
    /// Number of seeds that are planned.
    pub(super) seeds: usize,
    /// The least number, if it depends on the results.
    pub(super) least: Option<usize>,
    /// Mean of all measured values; `reference` is the mean of the values of the baseline.
    pub(super) mean: Option<f64>,
    pub(super) reference: Option<f64>,
    /// True if a side has records, but none of them has the metric.
    pub(super) is_unmeasured: bool,
    /// True if values are compared on logarithms.
    pub(super) logarithm: bool,
    /// Measurements of a unit.
    per: f64,
}

/// The planned units.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Shape {
    Seeds,
    Unpaired,
    Levels { count: usize, per_seed: f64, of_axes: bool },
    Rows { rows: usize, blocked: bool, fixed: bool },
}

/// Origin of the estimated spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Basis {
    /// Differences of pairs.
    Pairs,
    /// Values of seeds.
    Values,
    /// Values of other axes, over which seeds are averaged.
    Levels,
    /// Values around the effects of their rows and seeds.
    Rows,
    /// Seeds within points. Common effects of pairs are not removed, so the spread may be too large.
    Seeds,
}

/// Seeds of points; at least one.
fn seeds<'p>(points: impl Iterator<Item = &'p Point>) -> usize {
    let seeds: BTreeSet<String> = points.filter_map(|point| Some(format!("{:?}", point.get(SEED)?))).collect();
    seeds.len().max(1)
}

impl Squares {
    fn add(&mut self, values: &[f64]) {
        let Some(Sample { n, sd: Some(sd), .. }) = Sample::new(values) else { return };
        self.sum += sd * sd * (n - 1) as f64;
        self.freedom += (n - 1) as f64;
    }

    /// Adds the squares of another decision of the group.
    pub(super) fn pool(&mut self, other: &Self) {
        self.sum += other.sum;
        self.freedom += other.freedom;
        self.within += other.within;
        self.within_freedom += other.within_freedom;
        self.common += other.common;
        self.records += other.records;
    }

    /// The observed standard deviation of a unit.
    pub(super) fn sd(&self) -> f64 {
        (self.sum / self.freedom).sqrt()
    }
}

impl Spread {
    /// The planned and the measured units of a decision.
    pub(super) fn of(decision: &Decision<'_>, source: Source<'_>) -> Result<Self, Silence> {
        let sides: Vec<Side<'_>> = decision
            .form
            .sides()
            .into_iter()
            .map(|points| source.side_of(points.iter().copied(), decision.metric, decision.question.traits))
            .collect();
        if decision.form.sides().iter().any(|points| points.is_empty()) {
            return Err(Silence::NoPoint);
        }
        if decision.unplanned.is_some() {
            return Err(Silence::NoStatistic);
        }
        like(&sides.iter().collect::<Vec<_>>(), decision.question.traits, decision.question.rules)?;
        let positive = sides.iter().all(Side::is_positive);
        let question = &decision.question;
        if question.ratio && !positive {
            return Err(Silence::NoRatio);
        }
        let marks = matches!(decision.form, Form::Rows(_));
        let logarithm = question.ratio || marks && question.traits.unit.is_timing() && positive;
        let scaled = |value: f64| if logarithm { value.ln() } else { value };
        let values: Vec<Vec<(&Point, f64)>> = sides
            .iter()
            .map(|side| side.found.iter().map(|Found { point, value, .. }| (*point, scaled(*value))).collect())
            .collect();
        let mut spread = Self {
            shape: Shape::Seeds,
            squares: Squares::default(),
            basis: Basis::Values,
            seeds: 1,
            least: None,
            is_unmeasured: sides.iter().any(|side| side.found.is_empty() && !side.ran.is_empty()),
            mean: mean(sides.iter().flat_map(|side| &side.found)),
            reference: sides.last().and_then(|side| mean(side.found.iter())),
            logarithm,
            per: 1.0,
        };
        let all = || decision.form.sides().into_iter().flatten();
        spread.seeds =
            decision.form.sides().iter().map(|side| seeds(side.iter().map(|(point, _)| *point))).min().unwrap_or(1);
        let rounds = all().filter_map(|(_, job)| source.study.rounds.get(job)).max();
        spread.least = rounds.map(|rounds| spread.seeds.saturating_sub(*rounds).max(1));
        if let Form::Two(of, to) = &decision.form {
            let of: BTreeSet<JobId> = of.iter().map(|(_, job)| *job).collect();
            let shared = to.iter().filter(|(_, job)| of.contains(job)).count();
            if shared > 0 {
                return Err(Silence::Shared(shared));
            }
        }
        match &decision.form {
            Form::One(points) => spread.one(&zeros(points), &values[0], question),
            Form::Two(of, to) => spread.two([&zeros(of), &zeros(to)], [&values[0], &values[1]], question)?,
            Form::Rows(rows) => spread.rows(rows, &values, question),
        }
        Ok(spread)
    }

    fn one(&mut self, planned: &[(&Point, f64)], values: &[(&Point, f64)], question: &Question<'_>) {
        self.shape = shape(planned, question, self.seeds);
        self.squares.records = values.len();
        self.units(values, question);
    }

    fn two(
        &mut self,
        planned: [&[(&Point, f64)]; 2],
        values: [&[(&Point, f64)]; 2],
        question: &Question<'_>,
    ) -> Result<(), Silence> {
        let partial = question.rules.missing == Missing::Ignore || self.least.is_some();
        let [planned, values] =
            [planned, values].map(|sides| sides.map(|side| of_settings(side, &question.apart, &question.kinds).0));
        let planned = [planned[0].as_slice(), planned[1].as_slice()];
        let values = [values[0].as_slice(), values[1].as_slice()];
        let partners = if partial { Partners::Some } else { Partners::All };
        let pair = |partners: Partners| pairs(planned[0], planned[1], &question.apart, &question.kinds, partners);
        let paired = pair(partners).or_else(|| {
            let by_units = unit_pairs(planned, &question.apart, &question.kinds);
            pair(Partners::OfSeeds).filter(|_| by_units.is_none())
        });
        if let Some(planned) = paired.filter(|_| !question.rules.independent) {
            let planned: Vec<(&Point, f64)> = planned.into_iter().map(|(point, ..)| (point, 0.0)).collect();
            self.seeds = seeds(planned.iter().map(|(point, _)| *point));
            self.shape = shape(&planned, question, self.seeds);
            let paired =
                pairs(values[0], values[1], &question.apart, &question.kinds, Partners::Some).unwrap_or_default();
            let differences: Vec<(&Point, f64)> = paired.into_iter().map(|(point, of, to)| (point, of - to)).collect();
            self.basis = Basis::Pairs;
            self.squares.records = 2 * differences.len();
            self.units(&differences, question);
            if self.squares.freedom == 0.0 && self.shape == Shape::Seeds {
                self.within_points(&values.concat());
            }
            return Ok(());
        }
        if !question.unpaired && !question.rules.independent {
            return Err(Silence::Unpaired);
        }
        let levels = planned.map(|side| reduce(side, &question.apart, &question.kinds, question.repeats));
        self.shape = Shape::Unpaired;
        if levels.iter().any(|units| !units.axes.is_empty()) {
            return Err(Silence::Unpaired);
        }
        self.squares.records = values.iter().map(|side| side.len()).sum();
        for side in values {
            self.squares.add(&reduce(side, &question.apart, &question.kinds, question.repeats).values);
        }
        Ok(())
    }

    /// The squares of independent units.
    fn units(&mut self, values: &[(&Point, f64)], question: &Question<'_>) {
        let units = reduce(values, &question.apart, &question.kinds, question.repeats);
        self.per = units.per as f64;
        let Shape::Levels { of_axes: true, .. } = self.shape else {
            self.squares.add(&units.values);
            return;
        };
        self.basis = Basis::Levels;
        // With results at a single level, seeds would count as units.
        if units.axes.is_empty() {
            return;
        }
        self.squares.add(&units.values);
        self.squares.common = units.variance_of_seed() * self.squares.freedom;
        let mut groups: BTreeMap<Vec<String>, Vec<f64>> = BTreeMap::new();
        let is_not_unit = |axis: &str| !units.axes.iter().any(|other| other == axis);
        for (point, value) in values {
            groups.entry(place(point, is_not_unit)).or_default().push(*value);
        }
        let mut within = Squares::default();
        for group in groups.values() {
            within.add(group);
        }
        (self.squares.within, self.squares.within_freedom) = (within.sum, within.freedom);
    }

    /// The squares of seeds within points, for a difference of two such values.
    fn within_points(&mut self, values: &[(&Point, f64)]) {
        let mut groups: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for (point, value) in values {
            groups.entry(point.but(SEED)).or_default().push(*value);
        }
        let mut squares = Squares { records: values.len(), ..Squares::default() };
        for group in groups.values() {
            squares.add(group);
        }
        self.squares = Squares { sum: 2.0 * squares.sum, ..squares };
        self.basis = Basis::Seeds;
    }

    fn rows(&mut self, planned: &[Points<'_>], values: &[Vec<(&Point, f64)>], question: &Question<'_>) {
        let planned: Vec<BTreeMap<Vec<String>, f64>> =
            planned.iter().map(|row| unit_values(&zeros(row), &question.apart, &question.kinds)).collect();
        let common = |rows: &[BTreeMap<Vec<String>, f64>]| -> Vec<Vec<String>> {
            let first = rows.first().into_iter().flat_map(BTreeMap::keys);
            first.filter(|block| rows.iter().all(|row| row.contains_key(*block))).cloned().collect()
        };
        let blocks = common(&planned);
        let units = planned.iter().map(BTreeMap::len).min().unwrap_or(0);
        // The number of units that are not seeds is the number of values of other axes.
        let fixed = units != self.seeds;
        self.shape = Shape::Rows { rows: planned.len(), blocked: !blocks.is_empty(), fixed };
        if fixed {
            self.seeds = units;
        }
        self.basis = Basis::Rows;
        self.squares.records = values.iter().map(Vec::len).sum();
        let mut measured: Vec<Vec<(&Point, f64)>> = values.iter().filter(|row| !row.is_empty()).cloned().collect();
        let points = measured.iter().take(1).flatten().map(|(point, _)| *point).collect::<Vec<&Point>>();
        let unit = SamplingUnit::of(&points.into_iter(), &question.apart, &question.kinds, None);
        let cells =
            |measured: &[Vec<(&Point, f64)>]| measured.iter().map(|row| unit.cells(row)).collect::<Vec<Cells>>();
        if let Some(common) = unit.common_cells(&cells(&measured)) {
            measured = measured.into_iter().map(|row| unit.at_cells(row, &common)).collect();
        }
        let measured_units: Vec<BTreeMap<Vec<String>, f64>> =
            measured.iter().map(|row| unit_values(row, &question.apart, &question.kinds)).collect();
        let shared = common(&measured_units);
        let rows: Vec<Vec<f64>> = if blocks.is_empty() {
            measured_units.iter().map(|row| row.values().copied().collect()).collect()
        } else {
            measured_units
                .iter()
                .map(|row| shared.iter().filter_map(|block| row.get(block)).copied().collect())
                .collect()
        };
        let deviation = if blocks.is_empty() {
            Groups::new(&rows).map(|groups| (groups.sd, groups.freedom))
        } else {
            let places: Vec<&Vec<String>> = shared.iter().collect();
            unit_blocks(&rows, &places, &unit, &cells(&measured)).map(|blocks| (blocks.sd, blocks.freedom))
        };
        if let Some((sd, freedom)) = deviation {
            self.squares.sum = sd * sd * freedom;
            self.squares.freedom = freedom;
        }
    }

    /// The units for the power, given the squares of the decision's group; `None` if the spread is zero for an unknown reason.
    pub(super) fn modelled(&self, squares: &Squares, question: &Question<'_>) -> Option<Units> {
        let size = self.logarithm.then(|| self.mean.unwrap_or_default().abs());
        let two = if self.basis == Basis::Pairs || self.basis == Basis::Seeds { 2.0_f64.sqrt() } else { 1.0 };
        let precision = relative(question.traits.precision, size).scaled(two);
        let sd = precision.scaled(self.per.sqrt().recip()).spread(squares.sd())?;
        Some(match self.shape {
            Shape::Seeds => Units::Seeds { sd },
            Shape::Unpaired => Units::Unpaired { sd },
            Shape::Rows { rows, blocked, .. } => Units::Rows { rows, sd, blocked },
            Shape::Levels { count, per_seed, .. } => {
                let common = squares.common / squares.freedom;
                let within = (squares.within / squares.within_freedom.max(1.0) - common).max(0.0);
                Units::Levels { count, between: (sd * sd - within / self.per).max(0.0), within, per_seed, common }
            }
        })
    }

    /// True if more seeds change nothing.
    pub(super) fn is_fixed(&self) -> bool {
        match self.shape {
            Shape::Rows { fixed, .. } => fixed,
            Shape::Levels { .. } => self.squares.within_freedom == 0.0,
            Shape::Seeds | Shape::Unpaired => false,
        }
    }
}

/// The planned units of one sample.
fn shape(planned: &[(&Point, f64)], question: &Question<'_>, seeds: usize) -> Shape {
    let units = reduce(planned, &question.apart, &question.kinds, question.repeats);
    // Repetitions of one seed are units that more seeds would replace.
    if units.axes.is_empty() && units.values.len() <= seeds {
        return Shape::Seeds;
    }
    let of_axes = !units.axes.is_empty();
    Shape::Levels { count: units.values.len(), per_seed: units.per as f64 / seeds as f64, of_axes }
}

fn zeros<'a>(points: &Points<'a>) -> Vec<(&'a Point, f64)> {
    // Points that are the same job count once, as they do for the verdict.
    let mut jobs = BTreeSet::new();
    points.iter().filter(|(_, job)| jobs.insert(*job)).map(|(point, _)| (*point, 0.0)).collect()
}

fn mean<'f, 'a: 'f>(found: impl Iterator<Item = &'f Found<'a>>) -> Option<f64> {
    let values: Vec<f64> = found.map(|found| found.value).collect();
    Sample::new(&values).map(|sample| sample.mean)
}
