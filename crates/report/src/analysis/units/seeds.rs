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
        means(values, |point| self.cell(point))
    }

    /// The error that seeds add to a mean if several units share them, given the cells of the compared rows. An effect of a seed that all rows
    /// share only cancels out if all of them have the seed in the same units.
    pub(super) fn shared(&self, rows: &[Cells]) -> Option<SharedSeeds> {
        let first = rows.first()?;
        if rows.iter().any(|row| !row.keys().eq(first.keys())) {
            return self.shared_apart(rows);
        }
        let rows: Vec<Vec<Leveled>> = rows.iter().map(indexed).collect();
        shared_seeds(&rows, self.factors(), self.reads_same)
    }

    /// The cells that all rows have, if they have all units that all rows have, at least half of every row's cells of these units, and a
    /// unit with several seeds: rows are compared by them, as pairs are.
    pub(in crate::analysis) fn common_cells(&self, rows: &[Cells]) -> Option<BTreeSet<Vec<String>>> {
        let unit = |place: &Vec<String>| place[..self.factors()].to_vec();
        let mut common: BTreeSet<Vec<String>> = rows.first()?.keys().cloned().collect();
        let mut units: BTreeSet<Vec<String>> = common.iter().map(unit).collect();
        for row in rows {
            let own: BTreeSet<Vec<String>> = row.keys().map(unit).collect();
            units.retain(|place| own.contains(place));
            common.retain(|place| row.contains_key(place));
        }
        let of_common: BTreeSet<Vec<String>> = common.iter().map(unit).collect();
        let is_most = |row: &Cells| 2 * common.len() >= row.keys().filter(|place| units.contains(&unit(place))).count();
        (of_common == units && common.len() > units.len() && rows.iter().all(is_most)).then_some(common)
    }

    /// The place of a point among the cells.
    fn cell(&self, point: &Point) -> Vec<String> {
        let axes = |axes: &[String]| levels(point, &axes.iter().map(String::as_str).collect::<Vec<&str>>());
        let own = axes(&self.axes);
        let own = if self.is_crossed() { own } else { vec![own.join("\n")] };
        own.into_iter().chain(axes(&self.seeds)).collect()
    }

    /// The values of points at these cells.
    pub(in crate::analysis) fn at_cells<'p>(
        &self,
        values: Vec<(&'p Point, f64)>,
        cells: &BTreeSet<Vec<String>>,
    ) -> Vec<(&'p Point, f64)> {
        values.into_iter().filter(|(point, _)| cells.contains(&self.cell(point))).collect()
    }

    /// The error like [`shared`](Self::shared), for rows with different seeds: the mean of the rows' variances.
    pub(super) fn shared_apart(&self, rows: &[Cells]) -> Option<SharedSeeds> {
        let units = self.factors();
        let parts = rows.iter().filter_map(|row| shared_seeds(&[indexed(row)], units, self.reads_same));
        let sum = parts.reduce(|all, part| SharedSeeds {
            error: all.error.hypot(part.error),
            least: all.least.min(part.least),
            ..all
        })?;
        Some(SharedSeeds { error: sum.error / (rows.len() as f64).sqrt(), freedom: sum.least, ..sum })
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
