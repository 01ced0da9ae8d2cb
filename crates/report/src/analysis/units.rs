//! Independent units of measurements: pairs, seeds, data sets, folds, or the values of other axes, each averaged over all other variation.

mod pairs;
mod seeds;
mod words;

use std::collections::{BTreeMap, BTreeSet};

use sweep_job::Precision;

use self::seeds::shared_axes;
pub(super) use self::{
    pairs::{Partners, free_axes, pairs},
    seeds::Cells,
};
use super::{kinds::Kinds, no_interval::NoInterval};
use crate::{
    charts::{Mean, MeanOf},
    format::count,
    plan::Point,
    recipe::{Replication, Statistic},
    stats::{
        Blocks, ErrorOfMean, LEVEL, Leveled, Sample, SharedSeeds, crossed, mean, middle_mean, quantile, quantile_of,
        variance_of_folds, without_outliers,
    },
};

/// The axes whose values are the independent units of some points.
#[derive(Debug, Clone)]
pub(super) struct SamplingUnit {
    kind: Replication,
    /// The axes of the unit; empty if nothing varies.
    axes: Vec<String>,
    /// The axes over whose values measurements are averaged, with the largest number of values in a unit.
    averaged: Vec<(String, usize)>,
    /// The axes that do not distinguish units.
    ignored: Vec<String>,
    /// The largest number of folds of one cross-validation; 0 if folds are not units.
    folds: usize,
    /// The averaged axes of seeds that have equal values in several units.
    seeds: Vec<String>,
    /// True if several units read the same jobs of another step, one for each seed.
    reads_same: bool,
}

/// Independent units of a sample.
pub(super) struct Units {
    pub(super) values: Vec<f64>,
    /// Minimum number of measurements of a unit.
    pub(super) per: usize,
    /// The axes whose values are the units; empty if the units are seeds.
    pub(super) axes: Vec<String>,
    unit: SamplingUnit,
    /// The values with the levels of crossed axes; empty if the units are independent.
    crossed: Vec<Leveled>,
    /// The error that seeds add that several units share.
    seeds: Option<SharedSeeds>,
    /// Remarks on units other than seeds and settings.
    remarks: Vec<String>,
}

impl SamplingUnit {
    /// The units of points, given the axes that distinguish the sides and the axis that repeats the same job.
    pub(super) fn of<'p>(
        points: &(impl Iterator<Item = &'p Point> + Clone),
        apart: &[String],
        kinds: &Kinds,
        repeats: Option<&str>,
    ) -> Self {
        let kind_of = |axis: &str| if repeats == Some(axis) { Replication::Repeat } else { kinds.of_axis(axis) };
        let names: BTreeSet<&str> =
            points.clone().flat_map(|point| &point.values).map(|(axis, _)| axis.as_str()).collect();
        let names: Vec<&str> = names.into_iter().filter(|axis| !apart.iter().any(|other| other == axis)).collect();
        let names_only = kinds.names_only(points.clone());
        let is_name = |axis: &str| names_only.iter().any(|name| name == axis);
        let levels = |axes: &[&str]| -> usize {
            let levels: BTreeSet<Vec<String>> = points.clone().map(|point| levels(point, axes)).collect();
            levels.len()
        };
        let varying = names.iter().filter(|axis| !is_name(axis)).map(|axis| (*axis, levels(&[axis])));
        let varying: Vec<(&str, usize)> = varying.filter(|(_, levels)| *levels > 1).collect();
        let kind = varying.iter().map(|(axis, _)| kind_of(axis)).min().unwrap_or(Replication::Seed);
        let mut axes: Vec<(&str, usize)> = varying.iter().filter(|(axis, _)| kind_of(axis) == kind).copied().collect();
        axes.sort_by_key(|(_, levels)| *levels);
        match kind {
            Replication::Fold => {
                // Folds of other axes share data, too.
                axes.truncate(1);
                // Each partition has its own folds.
                let is_partition = |axis: &str| repeats != Some(axis) && kinds.is_partition(axis);
                axes.extend(varying.iter().filter(|(axis, _)| is_partition(axis)));
            }
            Replication::Condition => axes.sort_unstable(),
            // If an axis determines another axis, only the axis with fewer values is a factor.
            _ => {
                let mut outer_axes: Vec<(&str, usize)> = Vec::new();
                for (axis, own) in axes {
                    let is_nested = outer_axes.iter().any(|(other, _)| levels(&[*other, axis]) == own);
                    if !is_nested {
                        outer_axes.push((axis, own));
                    }
                }
                axes = outer_axes;
            }
        }
        let is_unit = |axis: &str| axes.iter().any(|(own, _)| *own == axis);
        let is_varying = |axis: &str| varying.iter().any(|(other, _)| *other == axis);
        let is_dropped = |axis: &str| kind_of(axis) == kind && is_varying(axis) && !is_unit(axis);
        let ignored =
            names.iter().filter(|axis| !is_unit(axis) && (kind_of(axis) > kind || is_dropped(axis) || is_name(axis)));
        let ignored: Vec<String> = ignored.map(|axis| (*axis).to_owned()).collect();
        let own: Vec<&str> = axes.iter().map(|(axis, _)| *axis).collect();
        let most = |of: &str, within: &[&str]| most_levels(points.clone(), of, within);
        let averaged = varying.iter().filter(|(axis, _)| !is_unit(axis)).map(|(axis, _)| {
            // Every run has a different name, so only runs at the same place repeat a measurement.
            let others = || names.iter().copied().filter(|other| !kinds.identifies(other)).collect::<Vec<&str>>();
            ((*axis).to_owned(), if kinds.identifies(axis) { most(axis, &others()) } else { most(axis, &own) })
        });
        let averaged: Vec<(String, usize)> = averaged.filter(|(_, most)| *most > 1).collect();
        let seeds = if kind < Replication::Seed {
            let within = averaged.iter().map(|(axis, _)| axis.as_str());
            shared_axes(within.filter(|axis| kind_of(axis) == Replication::Seed), &own, &levels)
        } else {
            Vec::new()
        };
        let reads_same = seeds.iter().any(|seed| kinds.reads_same(seed, &own));
        let folds = if kind == Replication::Fold { own.first().map_or(0, |fold| most(fold, &own[1..])) } else { 0 };
        Self { kind, axes: own.into_iter().map(str::to_owned).collect(), averaged, ignored, folds, seeds, reads_same }
    }

    /// The values that identify the unit of a point on its side.
    pub(super) fn key(&self, point: &Point, apart: &[String]) -> Vec<String> {
        place(point, |axis| apart.iter().chain(&self.ignored).any(|other| other == axis))
    }

    /// True if an axis does not distinguish units.
    pub(super) fn ignores(&self, axis: &str) -> bool {
        self.ignored.iter().any(|ignored| ignored == axis)
    }

    /// True if several axes are crossed random factors.
    fn is_crossed(&self) -> bool {
        self.axes.len() > 1 && !matches!(self.kind, Replication::Condition | Replication::Fold)
    }

    /// True for data sets and folds, which have an effect that does not depend on the seeds.
    fn is_shared(&self) -> bool {
        matches!(self.kind, Replication::Dataset | Replication::Fold)
    }

    /// The axes of units other than seeds and settings, on which the points of a block are equal.
    pub(super) fn named(&self) -> Option<&[String]> {
        (self.is_shared() || self.is_crossed()).then_some(self.axes.as_slice())
    }

    /// True if every seed is a unit.
    pub(super) fn is_seeds(&self) -> bool {
        self.kind >= Replication::Seed && !self.is_crossed()
    }

    /// True if the units are seeds, of one axis or of several crossed ones.
    pub(super) fn repeats(&self) -> bool {
        self.kind >= Replication::Seed
    }

    /// True if nothing varies.
    pub(super) fn is_single(&self) -> bool {
        self.axes.is_empty()
    }

    /// True if the units are the folds of a cross-validation.
    fn is_folds(&self) -> bool {
        self.kind == Replication::Fold && !self.axes.is_empty()
    }
}

/// The largest number of values of an axis among the points that agree on some others.
fn most_levels<'p>(points: impl Iterator<Item = &'p Point>, of: &str, within: &[&str]) -> usize {
    let mut groups: BTreeMap<Vec<String>, BTreeSet<Vec<String>>> = BTreeMap::new();
    for point in points {
        groups.entry(levels(point, within)).or_default().insert(levels(point, &[of]));
    }
    groups.values().map(BTreeSet::len).max().unwrap_or(1)
}

/// The values of a point on some axes.
fn levels(point: &Point, axes: &[&str]) -> Vec<String> {
    axes.iter().map(|axis| format!("{:?}", point.get(axis))).collect()
}

impl Units {
    /// The precision of a unit, given the precision of a measurement.
    pub(super) fn precision(&self, precision: Precision) -> Precision {
        precision.scaled((self.per as f64).sqrt().recip())
    }

    /// Standard error of the mean of the units with its degrees of freedom, given the precision of a unit; without one for one unit, or if
    /// the spread is zero and the precision does not explain it.
    pub(super) fn error(&self, precision: Precision) -> Result<ErrorOfMean, NoInterval> {
        let own = self.error_of_units(precision)?;
        let shared = self.seeds.filter(|_| own.error > 0.0);
        let whole = shared
            .map_or(own, |SharedSeeds { error, freedom, .. }| ErrorOfMean { error: own.error.hypot(error), freedom });
        if whole.error.is_finite() { Ok(whole) } else { Err(NoInterval::NotFinite) }
    }

    /// The variance of the effect of a seed on all units.
    pub(super) fn variance_of_seed(&self) -> f64 {
        let counts = self.unit.averaged.iter().filter(|(axis, _)| self.unit.has_seeds(axis)).map(|(_, count)| *count);
        let seeds = counts.min().unwrap_or(0) as f64;
        self.seeds.map_or(0.0, |shared| shared.error.powi(2) * seeds)
    }

    /// The error like [`error`](Self::error), but for units without shared seeds.
    fn error_of_units(&self, precision: Precision) -> Result<ErrorOfMean, NoInterval> {
        let Some(Sample { n, sd: Some(sd), .. }) = Sample::new(&self.values) else {
            return match precision {
                Precision::Deterministic => Ok(ErrorOfMean { error: 0.0, freedom: 0.0 }),
                _ => Err(NoInterval::One("value")),
            };
        };
        let spread = |precision: Precision, sd: f64| precision.spread(sd).ok_or_else(|| NoInterval::of_spread(sd));
        let units = n as f64;
        if self.unit.is_crossed() {
            let crossed = crossed(std::slice::from_ref(&self.crossed)).ok_or(NoInterval::Crossing)?;
            let error = if sd == 0.0 { 0.0 } else { crossed.error };
            let error = spread(precision.scaled(units.sqrt().recip()), error)?;
            return Ok(ErrorOfMean { error, ..crossed });
        }
        let sd = spread(precision, sd)?;
        let error = match self.unit.folds {
            0 => sd / units.sqrt(),
            folds => sd * variance_of_folds(n, folds).sqrt(),
        };
        Ok(ErrorOfMean { error, freedom: units - 1.0 })
    }

    /// The number that represents the units, and its error, which a median does not have. `None` if the units are not independent, except
    /// for a mean.
    pub(super) fn center(
        &self,
        statistic: Statistic,
        precision: Precision,
    ) -> Option<(f64, Result<ErrorOfMean, NoInterval>)> {
        if statistic == Statistic::Mean {
            let sample = Sample::new(&self.values)?;
            return Some((sample.mean, self.error(precision)));
        }
        if self.unit.is_crossed() || self.unit.is_folds() || self.seeds.is_some() {
            return None;
        }
        if let Some(q) = statistic.quantile() {
            return Some((quantile_of(&self.values, q, LEVEL)?.value, Err(self.few(q))));
        }
        if statistic == Statistic::WithoutOutliers {
            let Sample { n, mean, sd } = Sample::new(&without_outliers(&self.values))?;
            let spread = |sd: f64| precision.spread(sd).ok_or_else(|| NoInterval::of_spread(sd));
            let equal = |reason: NoInterval| reason.about("the values that are no outliers");
            let sd = sd.ok_or(NoInterval::One("value")).and_then(spread).map_err(equal);
            let error = |sd: f64| ErrorOfMean { error: sd / (n as f64).sqrt(), freedom: n as f64 - 1.0 };
            return Some((mean, sd.map(error)));
        }
        let (mean, error) = middle_mean(&self.values)?;
        let floor = |ErrorOfMean { error, freedom }: ErrorOfMean| {
            let precision = precision.scaled((freedom + 1.0).sqrt().recip());
            let is_middle = self.values.iter().any(|value| *value != self.values[0]);
            let reason = || match NoInterval::of_spread(error) {
                reason if is_middle => reason.about("the values of the middle half"),
                reason => reason,
            };
            let spread = precision.spread(error).ok_or_else(reason)?;
            Ok(ErrorOfMean { error: spread, freedom })
        };
        Some((mean, error.ok_or(NoInterval::One("value")).and_then(floor)))
    }

    /// The reason why a quantile has no standard error, and may have no exact interval.
    fn few(&self, q: f64) -> NoInterval {
        if self.values.len() < 2 {
            return NoInterval::One("value");
        }
        // All values are on one side of the quantile with this probability.
        let needed = ((1.0 - LEVEL) / 2.0).log(q.max(1.0 - q)).ceil();
        NoInterval::Few(if q == 0.5 {
            format!("a median needs {needed}")
        } else {
            format!("a quantile at {q} needs {needed}")
        })
    }

    /// The values with the levels of crossed axes, or each value with its own level.
    pub(super) fn leveled(self) -> Vec<Leveled> {
        if self.crossed.is_empty() {
            return self.values.into_iter().enumerate().map(|(unit, value)| (vec![unit], value)).collect();
        }
        self.crossed
    }

    /// Number and kind of the units.
    pub(super) fn basis(&self, word: &str) -> String {
        self.unit
            .words(self.values.len(), &self.crossed, self.seeds.is_some())
            .unwrap_or_else(|| count(self.values.len(), word))
    }

    /// Remarks on units other than seeds.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = self.remarks.clone();
        if self.unit.kind == Replication::Condition {
            let axes: Vec<String> = self.axes.iter().map(|axis| format!("`{axis}`")).collect();
            let seeds = if self.per > 1 { ", seeds averaged within each" } else { "" };
            notes.push(format!("over the values of {}{seeds}", axes.join(" and ")));
        }
        notes.extend(self.unit.seeds_in_words(true).filter(|_| self.seeds.is_some()));
        notes
    }
}

/// The mean over the independent units of values of these points, with its interval, for values in the order of the points.
pub(super) fn mean_over<'p>(points: Vec<&'p Point>, kinds: &'p Kinds) -> MeanOf<'p> {
    let unit = SamplingUnit::of(&points.iter().copied(), &[], kinds, None);
    Box::new(move |values| {
        let values: Vec<(&Point, f64)> = points.iter().copied().zip(values.iter().copied()).collect();
        let units = reduce_to(unit.clone(), &values, &[], kinds);
        let Sample { mean, .. } = Sample::new(&units.values)?;
        let error = units.error(Precision::Measured).ok();
        Some(Mean { mean, half: error.map(|of| quantile(of.freedom, LEVEL) * of.error) })
    })
}

/// The values of independent units by their place: data sets, folds, other axes, or seeds.
pub(super) fn unit_values(values: &[(&Point, f64)], apart: &[String], kinds: &Kinds) -> BTreeMap<Vec<String>, f64> {
    let unit = SamplingUnit::of(&values.iter().map(|(point, _)| *point), apart, kinds, None);
    means(values, |point| unit.key(point, apart))
}

fn means(values: &[(&Point, f64)], key: impl Fn(&Point) -> Vec<String>) -> BTreeMap<Vec<String>, f64> {
    let mut groups: BTreeMap<Vec<String>, Vec<f64>> = BTreeMap::new();
    for (point, value) in values {
        groups.entry(key(point)).or_default().push(*value);
    }
    groups.into_iter().map(|(key, values)| (key, mean(&values))).collect()
}

/// Rows with equal numbers of values in the same order of blocks, given the places of the blocks; the error of a row allows for blocks that
/// are not independent. `cells` are the rows' [`SamplingUnit::cells`].
pub(super) fn blocks(
    rows: &[Vec<f64>],
    places: &[&Vec<String>],
    unit: &SamplingUnit,
    cells: &[Cells],
) -> Option<Blocks> {
    let blocks = blocks_of_units(rows, places, unit)?;
    Some(unit.shared(cells).map_or(blocks.clone(), |shared| blocks.with_seeds(shared)))
}

fn blocks_of_units(rows: &[Vec<f64>], places: &[&Vec<String>], unit: &SamplingUnit) -> Option<Blocks> {
    let blocks = Blocks::new(rows)?;
    if unit.is_crossed() {
        let levels = leveled(places, &unit.axes);
        let row = |row: &Vec<f64>| levels.iter().cloned().zip(row.iter().copied()).collect();
        return Some(blocks.with_error(crossed(&rows.iter().map(row).collect::<Vec<_>>())?));
    }
    Some(if unit.is_folds() { blocks.of_folds(unit.folds) } else { blocks })
}

/// The index of each place's value on every axis.
fn leveled(places: &[&Vec<String>], axes: &[String]) -> Vec<Vec<usize>> {
    let on = |place: &Vec<String>, axis: &String| {
        let prefix = format!("{axis}=");
        place.iter().find(|value| value.starts_with(&prefix)).cloned().unwrap_or_default()
    };
    let levels_of_axes: Vec<Vec<String>> = axes
        .iter()
        .map(|axis| places.iter().map(|place| on(place, axis)).collect::<BTreeSet<_>>().into_iter().collect())
        .collect();
    let level = |place: &Vec<String>| {
        let levels =
            axes.iter().zip(&levels_of_axes).map(|(axis, known)| known.binary_search(&on(place, axis)).unwrap_or(0));
        levels.collect()
    };
    places.iter().map(|place| level(place)).collect()
}

/// The values of a point on the axes for which `without` is false.
pub(super) fn place(point: &Point, without: impl Fn(&str) -> bool) -> Vec<String> {
    let shared = point.values.iter().filter(|(axis, _)| !without(axis));
    let mut shared: Vec<String> = shared.map(|(axis, value)| format!("{axis}={:?}", value.value)).collect();
    shared.sort_unstable();
    shared
}

/// Averages the variation within the independent units: repetitions along `repeats` if there are several seeds, seeds if another axis
/// varies, and all other axes within data sets.
pub(super) fn reduce(values: &[(&Point, f64)], apart: &[String], kinds: &Kinds, repeats: Option<&str>) -> Units {
    let unit = SamplingUnit::of(&values.iter().map(|(point, _)| *point), apart, kinds, repeats);
    reduce_to(unit, values, apart, kinds)
}

/// Averages the variation within the units `unit`.
fn reduce_to(unit: SamplingUnit, values: &[(&Point, f64)], apart: &[String], kinds: &Kinds) -> Units {
    let is_grouped = !unit.averaged.is_empty() || unit.is_crossed() || unit.kind < Replication::Seed;
    if !is_grouped {
        let values = values.iter().map(|(_, value)| *value).collect();
        let axes = Vec::new();
        return Units { values, per: 1, axes, unit, crossed: Vec::new(), seeds: None, remarks: Vec::new() };
    }
    let mut groups: BTreeMap<Vec<String>, usize> = BTreeMap::new();
    for (point, _) in values {
        *groups.entry(unit.key(point, apart)).or_default() += 1;
    }
    let seeds = unit.shared(&[unit.cells(values)]);
    let per = groups.into_values().min().unwrap_or(1);
    from_means(&means(values, |point| unit.key(point, apart)), (per, seeds), unit, kinds)
}

/// Units whose means are known.
fn from_means(
    means: &BTreeMap<Vec<String>, f64>,
    (per, seeds): (usize, Option<SharedSeeds>),
    unit: SamplingUnit,
    kinds: &Kinds,
) -> Units {
    let values: Vec<f64> = means.values().copied().collect();
    let crossed = if unit.is_crossed() {
        leveled(&means.keys().collect::<Vec<_>>(), &unit.axes).into_iter().zip(values.iter().copied()).collect()
    } else {
        Vec::new()
    };
    let axes = if unit.kind < Replication::Seed || unit.is_crossed() { unit.axes.clone() } else { Vec::new() };
    let remarks = unit.remarks(kinds);
    Units { values, per, axes, unit, crossed, seeds, remarks }
}

/// The differences between two sides that have the same data sets or folds, averaged within each; `None` if they do not.
pub(super) fn unit_pairs([of, to]: [&[(&Point, f64)]; 2], apart: &[String], kinds: &Kinds) -> Option<Units> {
    let unit = |side: &[(&Point, f64)]| SamplingUnit::of(&side.iter().map(|(point, _)| *point), apart, kinds, None);
    let (first, second) = (unit(of), unit(to));
    if !first.is_shared() || first.axes != second.axes {
        return None;
    }
    // Only the axes of the unit: seeds and settings of the sides may differ.
    let key = |point: &Point| place(point, |axis| !first.axes.iter().any(|own| own == axis));
    let (first_means, second_means) = (means(of, key), means(to, key));
    if !first_means.keys().eq(second_means.keys()) {
        return None;
    }
    let per = (of.len().min(to.len()) / first_means.len()).max(1);
    let differences = first_means.iter().map(|(key, value)| (key.clone(), value - second_means[key])).collect();
    // The variances of both sides add up: the variance of a difference is twice their mean.
    let seeds = first.shared_apart(&[first.cells(of), first.cells(to)]);
    let seeds = seeds.map(|seeds| SharedSeeds { error: std::f64::consts::SQRT_2 * seeds.error, ..seeds });
    Some(from_means(&differences, (per, seeds), first, kinds))
}

/// The values of a side, which may have several values of a setting that distinguishes the sides: values that agree on all other axes, such
/// as the seed, are averaged, because they are not independent. Names of runs do not separate the values of one seed. Also returns the
/// number of values that are left out, because their seed lacks a setting that others have: their mean would be that of other settings.
pub(super) fn of_settings<'a>(
    side: &[(&'a Point, f64)],
    apart: &[String],
    kinds: &Kinds,
) -> (Vec<(&'a Point, f64)>, usize) {
    let conditions: Vec<&str> =
        apart.iter().map(String::as_str).filter(|axis| kinds.of_axis(axis) == Replication::Condition).collect();
    let settings: BTreeSet<Vec<String>> = side.iter().map(|(point, _)| levels(point, &conditions)).collect();
    if settings.len() < 2 {
        return (side.to_vec(), 0);
    }
    let axes: BTreeSet<&str> =
        side.iter().flat_map(|(point, _)| &point.values).map(|(axis, _)| axis.as_str()).collect();
    let names = axes.into_iter().filter(|axis| kinds.identifies(axis));
    let mut over: Vec<String> = conditions.iter().copied().chain(names).map(str::to_owned).collect();
    let key = |point: &Point, over: &[String]| place(point, |axis| over.iter().any(|other| other == axis));
    // Without seeds, the runs are the units.
    if side.iter().map(|(point, _)| key(point, &over)).collect::<BTreeSet<_>>().len() < 2 {
        over.truncate(conditions.len());
    }
    let mut settings_of_seed: BTreeMap<Vec<String>, BTreeSet<Vec<String>>> = BTreeMap::new();
    for (point, _) in side {
        settings_of_seed.entry(key(point, &over)).or_default().insert(levels(point, &conditions));
    }
    settings_of_seed.retain(|_, of_seed| of_seed.len() == settings.len());
    if settings_of_seed.len() < 2 {
        return (averaged(side, &over), 0);
    }
    let complete: Vec<(&Point, f64)> =
        side.iter().filter(|(point, _)| settings_of_seed.contains_key(&key(point, &over))).copied().collect();
    (averaged(&complete, &over), side.len() - complete.len())
}

/// Averages the values of points that differ only on the axes `over`.
fn averaged<'a>(side: &[(&'a Point, f64)], over: &[String]) -> Vec<(&'a Point, f64)> {
    let mut groups: BTreeMap<Vec<String>, (&'a Point, Vec<f64>)> = BTreeMap::new();
    for (point, value) in side {
        let key = place(point, |axis| over.iter().any(|other| other == axis));
        groups.entry(key).or_insert_with(|| (*point, Vec::new())).1.push(*value);
    }
    groups.into_values().map(|(point, values)| (point, mean(&values))).collect()
}
