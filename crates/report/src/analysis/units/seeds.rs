//! Seeds that several units share: a random factor besides the units, if they affect the results of all units.

use std::collections::{BTreeMap, BTreeSet};

use super::{SamplingUnit, levels, means};
use crate::{
    plan::Point,
    stats::{Leveled, SharedSeeds, shared_seeds},
};

/// Means by the levels of factors.
pub(in crate::analysis) type Cells = BTreeMap<Vec<String>, f64>;

/// The axes whose values are equal in several units, which are the levels of `units`; if one axis determines another, only one of them.
pub(super) fn shared_axes<'n>(
    axes: impl Iterator<Item = &'n str>,
    units: &[&str],
    levels: &impl Fn(&[&str]) -> usize,
) -> Vec<String> {
    let mut shared: Vec<&str> = Vec::new();
    for axis in axes {
        let own = levels(&[axis]);
        let within = [units, [axis].as_slice()].concat();
        if levels(&within) > own && !shared.iter().any(|other| levels(&[*other, axis]) == own) {
            shared.push(axis);
        }
    }
    shared.into_iter().map(str::to_owned).collect()
}

/// The values with the index of each level within its factor.
fn indexed(cells: &Cells) -> Vec<Leveled> {
    let factors = cells.keys().next().map_or(0, Vec::len);
    let levels_of_factors: Vec<BTreeSet<&String>> =
        (0..factors).map(|factor| cells.keys().map(|place| &place[factor]).collect()).collect();
    cells.iter().map(|(place, value)| (indices(place, &levels_of_factors), *value)).collect()
}

/// The index of each level within its factor.
fn indices(place: &[String], levels_of_factors: &[BTreeSet<&String>]) -> Vec<usize> {
    place
        .iter()
        .zip(levels_of_factors)
        .map(|(level, known)| known.iter().take_while(|other| **other < level).count())
        .collect()
}

impl SamplingUnit {
    /// The means of values by the levels of the units and of the seeds that several units share; empty without such seeds.
    pub(in crate::analysis) fn cells(&self, values: &[(&Point, f64)]) -> Cells {
        if self.seeds.is_empty() {
            return Cells::new();
        }
        let own: Vec<&str> = self.axes.iter().map(String::as_str).collect();
        let seeds: Vec<&str> = self.seeds.iter().map(String::as_str).collect();
        means(values, |point| {
            let own = levels(point, &own);
            let own = if self.is_crossed() { own } else { vec![own.join("\n")] };
            own.into_iter().chain(levels(point, &seeds)).collect()
        })
    }

    /// The error that seeds add to a mean if several units share them, given the cells of the compared rows.
    pub(super) fn shared(&self, rows: &[Cells]) -> Option<SharedSeeds> {
        let units = self.factors();
        let in_all: Vec<Vec<String>> = {
            let first = rows.first()?;
            first.keys().filter(|place| rows.iter().all(|row| row.contains_key(*place))).cloned().collect()
        };
        if !in_all.is_empty() {
            let row = |row: &Cells| in_all.iter().map(|place| (place.clone(), row[place])).collect();
            let rows: Vec<Vec<Leveled>> = rows.iter().map(|values| indexed(&row(values))).collect();
            return shared_seeds(&rows, units, self.reads_same);
        }
        self.shared_apart(rows)
    }

    /// The error like [`shared`](Self::shared), for rows with different seeds: the mean of the rows' variances.
    pub(super) fn shared_apart(&self, rows: &[Cells]) -> Option<SharedSeeds> {
        let units = self.factors();
        let parts = rows.iter().filter_map(|row| shared_seeds(&[indexed(row)], units, self.reads_same));
        let sum = parts.reduce(|all, part| SharedSeeds {
            variance: all.variance + part.variance,
            least: all.least.min(part.least),
            ..all
        })?;
        Some(SharedSeeds { variance: sum.variance / rows.len() as f64, freedom: sum.least, ..sum })
    }

    /// The axes of seeds that several units share, if they are shown to affect the results of several units.
    pub(in crate::analysis) fn shared_axes(&self, values: &[(&Point, f64)]) -> Option<&[String]> {
        self.shared(&[self.cells(values)]).map(|_| self.seeds.as_slice())
    }

    /// The values of each group of points by the seeds that several units share, with the index of each seed among the seeds of all groups.
    pub(in crate::analysis) fn by_seeds<'v, 'p: 'v>(
        &self,
        groups: impl Iterator<Item = &'v Vec<(&'p Point, f64)>>,
    ) -> Vec<Vec<Leveled>> {
        let seeds: Vec<&str> = self.seeds.iter().map(String::as_str).collect();
        let groups: Vec<Cells> = groups.map(|values| means(values, |point| levels(point, &seeds))).collect();
        let of_factor = |factor: usize| groups.iter().flat_map(Cells::keys).map(|place| &place[factor]).collect();
        let known: Vec<BTreeSet<&String>> = (0..seeds.len()).map(of_factor).collect();
        groups
            .iter()
            .map(|cells| cells.iter().map(|(place, value)| (indices(place, &known), *value)).collect())
            .collect()
    }

    /// True for an axis of seeds that several units share.
    pub(super) fn has_seeds(&self, axis: &str) -> bool {
        self.seeds.iter().any(|own| own == axis)
    }

    /// The number of random factors of the units.
    fn factors(&self) -> usize {
        if self.is_crossed() { self.axes.len() } else { 1 }
    }
}
