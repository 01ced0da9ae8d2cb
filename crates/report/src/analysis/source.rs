//! Sources of evidence: the measurements of a metric at points of a study, in one unit.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use sweep_base::SEED;
use sweep_job::{Unit, Value};

use super::{Absence, further_seeds::FurtherSeeds, items::AllScores, kinds::Kinds, looks::Looks};
use crate::{
    plan::{JobId, Point, Study, selected},
    recipe::{MetricTraits, UnitOf},
    record::{Key, SeedPlan},
    stats::mean,
    store::Measured,
};

/// The results of a study.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) study: &'a Study,
    pub(super) measured: &'a BTreeMap<JobId, Measured>,
    pub(super) absences: &'a BTreeMap<JobId, Absence>,
    /// Scores of items, for claims.
    pub(super) items: &'a AllScores,
    /// The same study with further seeds, for claims.
    pub(super) further: Option<&'a FurtherSeeds>,
}

/// A measurement: its point, its record, and its value. A missing result that counts as the worst has no record.
#[derive(Clone)]
pub(super) struct Found<'a> {
    pub(super) point: &'a Point,
    pub(super) by: Option<&'a Measured>,
    pub(super) value: f64,
}

/// The measurements of a metric at the points of one side.
#[derive(Default, Clone)]
pub(super) struct Side<'a> {
    pub(super) found: Vec<Found<'a>>,
    /// The jobs without a result, or without the metric.
    pub(super) absent: Vec<(Absence, JobId, &'a Point)>,
    /// The records of the side, including those without the metric.
    pub(super) ran: Vec<&'a Measured>,
    /// The numbers of seeds at which the side's results are tested.
    pub(super) looks: Looks,
}

/// The seeds of imported runs by configuration, with the number of seeds of each configuration at each import.
#[derive(Default)]
struct Imports(BTreeMap<Vec<String>, (BTreeSet<String>, BTreeSet<usize>)>);

impl Imports {
    fn add(&mut self, point: &Point, measured: Option<&Measured>) {
        let Some(then) = measured.filter(|measured| measured.remarks.imported.is_some()) else { return };
        let (seed, configuration) = point.seed_and_configuration();
        let (seeds, numbers) = self.0.entry(configuration).or_default();
        seeds.insert(seed);
        numbers.extend(then.remarks.seeds);
    }

    /// The largest number of seeds of a configuration.
    fn most(&self) -> usize {
        self.0.values().map(|(seeds, _)| seeds.len()).max().unwrap_or(0)
    }

    /// Earlier looks at configurations that have more seeds now. Every import counts as a look, because it shows results.
    fn earlier(&self) -> BTreeSet<SeedPlan> {
        let grown = self.0.values().flat_map(|(seeds, numbers)| numbers.iter().filter(|number| **number < seeds.len()));
        grown.map(|number| SeedPlan { least: *number, most: *number }).collect()
    }
}

impl<'a> Source<'a> {
    /// The properties of a metric of a step, with the unit in which its jobs report it.
    pub(super) fn traits(&self, step: usize, metric: &str) -> MetricTraits {
        traits(self.study, self.measured, step, metric)
    }

    /// The kinds of replication of the axes of these steps.
    pub(super) fn kinds(&self, steps: &[usize]) -> Kinds {
        Kinds::of(self.study, steps)
    }

    /// The measurements of a metric at the points of a step that have these values.
    pub(super) fn side(
        &self,
        step: usize,
        selection: &[(&str, Vec<Value>)],
        metric: &str,
        traits: MetricTraits,
    ) -> Side<'a> {
        let points = self.study.steps[step].iter().filter(|(point, _)| selected(point, selection));
        self.side_of(points.map(|(point, job)| (point, *job)), metric, traits)
    }

    /// The measurements of a metric at some points, in its unit. Points that are the same job count once.
    pub(super) fn side_of(
        &self,
        points: impl Iterator<Item = (&'a Point, JobId)>,
        metric: &str,
        traits: MetricTraits,
    ) -> Side<'a> {
        let mut side = Side::default();
        let mut jobs = HashSet::new();
        let mut seeds: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let mut extra = 0;
        let mut imports = Imports::default();
        for (point, job) in points {
            if let Some(seed) = point.get(SEED) {
                seeds.entry(point.but(SEED)).or_default().insert(format!("{seed:?}"));
            }
            extra = self.extra(job).max(extra);
            if !jobs.insert(job) {
                continue;
            }
            let measured = self.measured.get(&job);
            imports.add(point, measured);
            side.ran.extend(measured);
            let found = measured.and_then(|measured| Some((measured, *measured.metrics.get(metric)?)));
            match found.map(|(by, found)| (by, traits.value(metric, found), found.unit)) {
                Some((by, Some(value), _)) => side.found.push(Found { point, by: Some(by), value }),
                Some((_, None, unit)) => side.absent.push((Absence::other_unit(unit, traits.unit), job, point)),
                None if self.is_unneeded(job) => {}
                None => side.absent.push((self.absence(job, metric), job, point)),
            }
        }
        // With `include`, each configuration may have different seeds.
        let max_seeds = seeds.values().map(BTreeSet::len).max().unwrap_or(1);
        side.set_looks(max_seeds.max(imports.most()), extra);
        side.looks.add_made(imports.earlier().into_iter());
        side
    }

    /// The number of evaluations before a job runs.
    fn extra(&self, job: JobId) -> usize {
        let rounds = [&self.study.rounds, &self.study.looks].map(|rounds| rounds.get(&job).copied().unwrap_or(0));
        rounds.into_iter().fold(0, usize::max)
    }

    /// The points of a step that have these values, without additional seeds that were not needed.
    pub(super) fn points(&self, step: usize, selection: &[(&str, Vec<Value>)]) -> Vec<(&'a Point, JobId)> {
        let points = self.study.steps[step].iter().filter(|(point, _)| selected(point, selection));
        points.filter(|(_, job)| !self.is_unneeded(*job)).map(|(point, job)| (point, *job)).collect()
    }

    /// The points of a step that have these values whose additional seeds were not needed.
    pub(super) fn reserve(&self, step: usize, selection: &[(&str, Vec<Value>)]) -> Vec<&'a Point> {
        let points = self.study.steps[step].iter().filter(|(point, _)| selected(point, selection));
        points.filter(|(_, job)| self.is_unneeded(*job)).map(|(point, _)| point).collect()
    }

    /// The jobs at the points of a step that have these values.
    pub(super) fn jobs(&self, step: usize, selection: &[(&str, Vec<Value>)]) -> Vec<JobId> {
        let points = self.study.steps[step].iter().filter(|(point, _)| selected(point, selection));
        points.map(|(_, job)| *job).collect()
    }

    /// True if a job is an additional seed that was not needed.
    fn is_unneeded(&self, job: JobId) -> bool {
        !self.measured.contains_key(&job)
            && self.study.rounds.contains_key(&job)
            && self.absences.get(&job).is_none_or(|absence| !absence.is_final())
    }

    fn absence(&self, job: JobId, metric: &str) -> Absence {
        match self.measured.get(&job) {
            Some(measured) => Absence::of_metric(measured, metric),
            None => self.absences.get(&job).cloned().unwrap_or(Absence::NotRun),
        }
    }
}

impl<'a> Side<'a> {
    /// States that more seeds are planned if `reserve` has a point that agrees with the side's points on these axes.
    pub(super) fn keep(&mut self, reserve: &[&Point], axes: &[&str]) {
        let Some(first) = self.found.first().map(|found| found.point) else { return };
        let is_own = |point: &&Point| axes.iter().all(|axis| point.get(axis) == first.get(axis));
        if reserve.iter().any(is_own) {
            self.looks.go_on();
        }
    }

    /// Sets the looks at up to `most` seeds, of which `extra` are added one after the other.
    fn set_looks(&mut self, most: usize, extra: usize) {
        self.looks = Looks::planned(most.saturating_sub(extra), most);
        self.looks.add_made(self.found.iter().filter_map(|found| found.by?.under.as_ref()?.seeds));
    }

    pub(super) fn keys(&self) -> HashSet<Key> {
        self.found.iter().filter_map(|found| Some(found.by?.key)).collect()
    }

    pub(super) fn records(&self) -> Vec<&'a Measured> {
        self.found.iter().filter_map(|found| found.by).collect()
    }

    /// True if a search has stopped one of its jobs.
    pub(super) fn is_stopped(&self) -> bool {
        self.absent.iter().any(|(why, ..)| matches!(why, Absence::Stopped(_)))
    }

    /// True if no job belongs to the side.
    pub(super) fn is_empty(&self) -> bool {
        self.found.is_empty() && self.absent.is_empty()
    }

    /// True if nothing is missing and the number of seeds does not depend on the results.
    pub(super) fn is_looked_at_once(&self) -> bool {
        self.absent.is_empty() && self.looks.is_single()
    }

    /// True if all values are above zero.
    pub(super) fn is_positive(&self) -> bool {
        self.found.iter().all(|found| found.value > 0.0)
    }

    pub(super) fn values(&self) -> Vec<(&'a Point, f64)> {
        self.found.iter().map(|found| (found.point, found.value)).collect()
    }

    pub(super) fn mean(&self) -> f64 {
        if self.found.is_empty() {
            return 0.0;
        }
        mean(&self.found.iter().map(|found| found.value).collect::<Vec<f64>>())
    }
}

/// The properties of a metric of a step. If neither the recipe, the task nor the name determines the unit, the first job that reports the
/// metric does. A multiple of a base unit takes precedence, because earlier versions recorded base units.
pub(super) fn traits(study: &Study, measured: &BTreeMap<JobId, Measured>, step: usize, metric: &str) -> MetricTraits {
    let of = &study.recipe.steps[step];
    let traits = study.recipe.traits(of, metric);
    if traits.unit_of != UnitOf::Reports {
        return traits;
    }
    let jobs = study.steps[step].iter().filter_map(|(_, job)| measured.get(job));
    let units: Vec<Unit> = jobs.filter_map(|found| Some(found.metrics.get(metric)?.unit)).collect();
    let reported = units.iter().find(|unit| **unit != unit.base()).or_else(|| units.first());
    study.recipe.traits_in(of, metric, reported.copied())
}
