//! Marks: the best rows of a column, as far as the measurements distinguish rows.
//!
//! All pairs of rows are compared at once with Tukey's range test. Rows that were measured with the same seeds share blocks, so that the
//! effect of a seed on every row cancels out. Times and rates are compared on logarithms, as they are shown.

use std::collections::{BTreeMap, BTreeSet};

use sweep_base::SEED;
use sweep_job::Precision;

use super::{
    Cell, Mark,
    alike::{count_alone, leave_out_equal},
    evidence::{Found, Question, Side, Silence, complete, like, relative},
    units::{Cells, SamplingUnit, blocks, unit_values},
};
use crate::{
    format::clean,
    plan::Point,
    stats::{Better, Blocks, Groups, reach},
};

/// Smallest detectable difference, in residual standard deviations, above which a column has too few seeds for marks.
const TOO_WIDE: f64 = 4.5;

/// Remark about the marks of a column.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Remark {
    /// Number of blocks of the test, and the axes on which the points of a block are equal.
    Blocks(usize, Vec<String>),
    /// The rows share no seeds.
    Unblocked,
    /// Rows have more blocks than the test uses, with the axes of the blocks; none for seeds.
    Common(Vec<String>),
    /// Rows with missing results are not ranked.
    Incomplete,
    /// The conditions of the times differ, with the reason.
    Unlike(String),
    /// The differences between rows do not vary, and the metric's resolution is unknown.
    Equal,
    /// The seed has no effect on some of the rows.
    Fixed,
    /// The rows differ in their spread.
    Uneven,
    /// The rows differ in their numbers of values.
    Unbalanced,
    /// Seeds were added after looks at the results, in words.
    Looks(String),
}

/// The ranked rows of a column: their indices, and their values by block.
struct Ranked {
    rows: Vec<usize>,
    values: Vec<BTreeMap<Vec<String>, f64>>,
    /// The values by unit and seed, if several units share seeds.
    cells: Vec<Cells>,
    unit: SamplingUnit,
    /// True if seeds that only some of the rows have are left out of the values.
    leaves_out: bool,
    /// The rows on which the seed has no effect, although it has one on others.
    fixed: BTreeSet<usize>,
}

/// Statistics of the ranked rows.
enum Test {
    Blocks(Blocks),
    Groups(Groups),
}

/// Marks the cells of a column. `sides` has the measurements of each cell.
pub(super) fn mark(
    cells: &mut [Cell],
    sides: &mut [Side<'_>],
    question: &Question<'_>,
    logarithm: bool,
) -> BTreeSet<Remark> {
    let mut remarks = BTreeSet::new();
    let Some(better) = question.traits.better else { return remarks };
    let mut all: Vec<&mut Side<'_>> = sides.iter_mut().filter(|side| !side.is_empty()).collect();
    // Fills in or leaves out missing results; rows that still lack results are not ranked.
    let _ = complete(&mut all, question);
    let traits = (question.traits, &question.kinds);
    let _ = leave_out_equal(&mut all, &question.apart, traits);
    let is_whole = |side: &Side<'_>| !side.found.is_empty() && question.is_whole(side);
    let rows: Vec<usize> = (0..cells.len()).filter(|row| is_whole(&sides[*row])).collect();
    let partial: Vec<usize> =
        (0..cells.len()).filter(|row| !sides[*row].found.is_empty() && !is_whole(&sides[*row])).collect();
    if rows.len() < 2 {
        return remarks;
    }
    let compared_sides: Vec<&Side<'_>> = rows.iter().map(|row| &sides[*row]).collect();
    let scaled = |value: f64| if logarithm { value.ln() } else { value };
    let by_point = |row: &usize| -> Vec<(&Point, f64)> {
        sides[*row].values().into_iter().map(|(point, value)| (point, scaled(value))).collect()
    };
    let points = compared_sides[0].found.iter().map(|found| found.point);
    let unit = SamplingUnit::of(&points, &question.apart, &question.kinds, None);
    let is_fixed = |side: &Side<'_>| count_alone(side, &question.apart, traits) < side.found.len();
    let fixed = (0..rows.len()).filter(|row| unit.repeats() && is_fixed(compared_sides[*row])).collect();
    let ranked = Ranked::new(rows, by_point, unit, question).with_fixed(fixed);
    let used_sides: Vec<Side<'_>> = compared_sides.iter().map(|side| ranked.used(side, &question.apart)).collect();
    match like(&used_sides.iter().collect::<Vec<_>>(), question.traits, question.rules) {
        Ok(_) => {}
        Err(Silence::Unlike(reason)) => return BTreeSet::from([Remark::Unlike(reason)]),
        Err(_) => return remarks,
    }
    let precision = relative(question.traits.precision, logarithm.then(|| mean_size(sides)));
    let Some((test, common)) = ranked.test() else {
        ranked.mark_certain(cells, better, precision);
        return remarks;
    };
    if !test.has_spread(precision) {
        // The effect of chance is unknown, so no row is marked.
        return BTreeSet::from([Remark::Equal]);
    }
    remarks.extend(ranked.own_spreads(&test));
    let looks =
        used_sides.iter().map(|side| side.looks.clone()).reduce(|all, side| all.joined(&side)).unwrap_or_default();
    let growing = ranked.unit.is_seeds();
    let level = looks.level(test.units(), growing);
    remarks.extend(level.words().map(Remark::Looks));
    if ranked.mark(cells, &test, (better, precision, level.confidence)) {
        remarks.insert(match &test {
            Test::Blocks(blocks) => {
                let axes = ranked.unit.named().map(<[String]>::to_vec);
                let varying = || {
                    let mut axes = varying(compared_sides[0], &question.apart);
                    axes.retain(|axis| !ranked.unit.ignores(axis));
                    axes
                };
                Remark::Blocks(blocks.blocks, axes.unwrap_or_else(varying))
            }
            Test::Groups(_) => Remark::Unblocked,
        });
        if common {
            remarks.insert(Remark::Common(ranked.unit.named().unwrap_or_default().to_vec()));
        }
    }
    ranked.spare_incomplete(cells, &partial, sides, better, &scaled);
    if !partial.is_empty() {
        remarks.insert(Remark::Incomplete);
    }
    remarks
}

/// The axes on which the points of a row differ, without the axes that distinguish rows.
fn varying(side: &Side<'_>, apart: &[String]) -> Vec<String> {
    let points: Vec<&Point> = side.found.iter().map(|found| found.point).collect();
    let Some((first, other_points)) = points.split_first() else { return Vec::new() };
    let varies = |axis: &&String| other_points.iter().any(|other| other.get(axis) != first.get(axis));
    first.values.iter().map(|(axis, _)| axis).filter(|axis| !apart.contains(axis)).filter(varies).cloned().collect()
}

impl Test {
    /// True if the spread is known, from the measurements or from the metric's precision.
    fn has_spread(&self, precision: Precision) -> bool {
        let sd = match self {
            Self::Blocks(blocks) => blocks.sd,
            Self::Groups(groups) => groups.sd,
        };
        precision.spread(sd).is_some()
    }

    /// Number of blocks, or the least number of values of a row.
    fn units(&self) -> usize {
        match self {
            Self::Blocks(blocks) => blocks.blocks,
            Self::Groups(groups) => groups.counts.iter().copied().min().unwrap_or(0),
        }
    }

    /// The reason why rows are also compared by their own spreads.
    fn own_spreads(&self) -> Option<Remark> {
        match self {
            Self::Blocks(blocks) => blocks.is_uneven().then_some(Remark::Uneven),
            Self::Groups(groups) if !groups.is_uneven() => None,
            Self::Groups(groups) if groups.is_balanced() => Some(Remark::Uneven),
            Self::Groups(_) => Some(Remark::Unbalanced),
        }
    }
}

/// Mean size of the values, by which a resolution is divided on logarithms.
fn mean_size(sides: &[Side<'_>]) -> f64 {
    let values: Vec<f64> = sides.iter().flat_map(|side| &side.found).map(|found| found.value.abs()).collect();
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

impl Ranked {
    fn new<'p>(
        rows: Vec<usize>,
        by_point: impl Fn(&usize) -> Vec<(&'p Point, f64)>,
        unit: SamplingUnit,
        question: &Question<'_>,
    ) -> Self {
        let all: Vec<Cells> = rows.iter().map(|row| unit.cells(&by_point(row))).collect();
        let common = unit.common_cells(&all);
        let used = |row: &usize| match &common {
            Some(common) => unit.at_cells(by_point(row), common),
            None => by_point(row),
        };
        let values = rows.iter().map(|row| unit_values(&used(row), &question.apart, &question.kinds)).collect();
        let cells: Vec<Cells> = rows.iter().map(|row| unit.cells(&used(row))).collect();
        let leaves_out = cells.iter().zip(&all).any(|(used, all)| used.len() < all.len());
        Self { rows, values, cells, unit, leaves_out, fixed: BTreeSet::new() }
    }

    /// The same with these rows on which the seed has no effect. Without common blocks, each of them has one value.
    fn with_fixed(mut self, fixed: BTreeSet<usize>) -> Self {
        if self.common().is_empty() {
            for row in fixed {
                self.values[row] = std::mem::take(&mut self.values[row]).into_iter().take(1).collect();
            }
            return self;
        }
        Self { fixed, ..self }
    }

    /// The blocks of some of the rows, which are compared among all of them.
    fn blocks_of(&self, rows: &[usize]) -> Option<Blocks> {
        let common_blocks = self.common();
        let row = |row: &usize| -> Vec<f64> {
            common_blocks.iter().filter_map(|block| self.values[*row].get(*block)).copied().collect()
        };
        let values: Vec<Vec<f64>> = rows.iter().map(row).collect();
        let cells: Vec<Cells> = rows.iter().map(|row| self.cells[*row].clone()).collect();
        Some(blocks(&values, &common_blocks, &self.unit, &cells)?.among(self.rows.len()))
    }

    /// The rows on which the seed has an effect.
    fn moving(&self) -> Vec<usize> {
        (0..self.rows.len()).filter(|row| !self.fixed.contains(row)).collect()
    }

    /// The blocks that compare two rows if the seed has no effect on some rows, with the places of both among their rows. The values of such
    /// rows are no evidence about the spread of others, and two rows of which one is such a row are compared by the spread of the other.
    fn blocks_for(&self, first: usize, second: usize) -> Option<(Blocks, [usize; 2])> {
        let is_fixed = [first, second].iter().any(|row| self.fixed.contains(row));
        let rows = if is_fixed { vec![first, second] } else { self.moving() };
        let place = |of: usize| rows.iter().position(|row| *row == of);
        Some((self.blocks_of(&rows)?, [place(first)?, place(second)?]))
    }

    /// The p-value of the difference of two rows, corrected for all pairs.
    fn p(&self, first: usize, second: usize, test: &Test, precision: Precision) -> Option<f64> {
        match test {
            Test::Groups(groups) => groups.p(first, second, precision),
            Test::Blocks(blocks) if self.fixed.is_empty() => blocks.p(first, second, precision),
            Test::Blocks(_) if first == second => Some(1.0),
            Test::Blocks(_) => {
                let (blocks, [first, second]) = self.blocks_for(first, second)?;
                blocks.p(first, second, precision)
            }
        }
    }

    /// The smallest difference from the best row that can be told, in standard deviations.
    fn reach(&self, test: &Test, best: usize, level: f64) -> f64 {
        match test {
            Test::Groups(groups) => {
                let min_count = groups.counts.iter().copied().min().unwrap_or(0);
                reach(level, groups.means.len(), min_count)
            }
            Test::Blocks(blocks) if self.fixed.is_empty() => blocks.reach(level),
            Test::Blocks(_) => {
                let others = (0..self.rows.len()).filter(|row| *row != best);
                let reaches = others.filter_map(|row| Some(self.blocks_for(row, best)?.0.reach(level)));
                reaches.fold(f64::INFINITY, f64::min)
            }
        }
    }

    /// The reason why rows are also, or only, compared by their own spreads.
    fn own_spreads(&self, test: &Test) -> Vec<Remark> {
        if self.fixed.is_empty() {
            return test.own_spreads().into_iter().collect();
        }
        let is_uneven = self.blocks_of(&self.moving()).is_some_and(|blocks| blocks.is_uneven());
        is_uneven.then_some(Remark::Uneven).into_iter().chain([Remark::Fixed]).collect()
    }

    /// The blocks that all rows have.
    fn common(&self) -> Vec<&Vec<String>> {
        let mut blocks: Vec<&Vec<String>> = self.values.first().into_iter().flat_map(BTreeMap::keys).collect();
        blocks.retain(|block| self.values.iter().all(|values| values.contains_key(*block)));
        blocks
    }

    /// The measurements of a row that the test uses: of common blocks, or all without common blocks.
    fn used<'a>(&self, side: &Side<'a>, apart: &[String]) -> Side<'a> {
        let common_blocks: BTreeSet<&Vec<String>> = self.common().into_iter().collect();
        let is_used =
            |found: &&Found<'a>| common_blocks.is_empty() || common_blocks.contains(&self.unit.key(found.point, apart));
        let looks = side.looks.clone();
        Side { found: side.found.iter().filter(is_used).cloned().collect(), looks, ..Side::default() }
    }

    /// The test, and true if rows have measurements outside of the common blocks; `None` with a single measurement each.
    fn test(&self) -> Option<(Test, bool)> {
        let common_blocks = self.common();
        if common_blocks.is_empty() {
            let rows: Vec<Vec<f64>> = self.values.iter().map(|values| values.values().copied().collect()).collect();
            return Some((Test::Groups(Groups::new(&rows)?), false));
        }
        let uneven = self.leaves_out || self.values.iter().any(|values| values.len() > common_blocks.len());
        Some((Test::Blocks(self.blocks_of(&(0..self.rows.len()).collect::<Vec<_>>())?), uneven))
    }

    /// Marks the rows by a test. The best row has the best displayed mean, over all of its measurements. True if there is any mark.
    fn mark(&self, cells: &mut [Cell], test: &Test, (better, precision, level): (Better, Precision, f64)) -> bool {
        let means = match test {
            Test::Blocks(blocks) => &blocks.means,
            Test::Groups(groups) => &groups.means,
        };
        let shown: Option<Vec<f64>> =
            self.rows.iter().map(|row| cells[*row].estimate.map(|estimate| estimate.value)).collect();
        let shown = shown.as_ref().unwrap_or(means);
        let Some(best) = first(shown, better) else { return false };
        // Equal values have no best value.
        if means.iter().all(|mean| *mean == means[best]) {
            return false;
        }
        let differences: Vec<bool> = (0..means.len())
            .map(|row| {
                let p = self.p(row, best, test, precision);
                // A row with a better mean over the common seeds is not worse.
                p.is_some_and(|p| p < 1.0 - level) && first(&[means[best], means[row]], better) == Some(0)
            })
            .collect();
        let few = self.reach(test, best, level) > TOO_WIDE;
        let any = differences.contains(&true);
        for (row, differs) in differences.iter().enumerate() {
            cells[self.rows[row]].mark = match (shown[row] == shown[best], differs) {
                (true, _) if any => Some(Mark::Best),
                (false, true) => None,
                _ if few => Some(Mark::Unclear),
                _ => Some(Mark::Tied),
            };
        }
        true
    }

    /// Marks the best rows of a metric that is certain with a single measurement.
    fn mark_certain(&self, cells: &mut [Cell], better: Better, precision: Precision) {
        if precision != Precision::Deterministic {
            return;
        }
        let means: Vec<f64> = self.values.iter().filter_map(|values| values.values().next().copied()).collect();
        let Some(best) = first(&means, better) else { return };
        if means.len() < self.rows.len() || means.iter().all(|mean| *mean == means[best]) {
            return;
        }
        for (row, mean) in means.iter().enumerate().filter(|(_, mean)| **mean == means[best]) {
            debug_assert!(mean.is_finite());
            cells[self.rows[row]].mark = Some(Mark::Best);
        }
    }

    /// Removes the mark of the best row if a row with missing results may be better.
    fn spare_incomplete(
        &self,
        cells: &mut [Cell],
        partial: &[usize],
        sides: &[Side<'_>],
        better: Better,
        scaled: &dyn Fn(f64) -> f64,
    ) {
        let means = self.values.iter().map(|values| values.values().sum::<f64>() / values.len().max(1) as f64);
        let means: Vec<f64> = means.collect();
        let Some(best) = first(&means, better).map(|best| means[best]) else { return };
        let beats = |row: &usize| {
            let values: Vec<f64> = sides[*row].found.iter().map(|found| scaled(found.value)).collect();
            let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
            match better {
                Better::Less => mean <= best,
                Better::More => mean >= best,
            }
        };
        if partial.iter().any(beats) {
            for cell in cells.iter_mut().filter(|cell| cell.mark == Some(Mark::Best)) {
                cell.mark = None;
            }
        }
    }
}

/// Names of axes in a sentence.
fn listed(axes: &[String]) -> String {
    axes.iter().map(|axis| format!("`{}`", clean(axis))).collect::<Vec<String>>().join(" and ")
}

/// Index of the best mean.
fn first(means: &[f64], better: Better) -> Option<usize> {
    (0..means.len()).min_by(|a, b| match better {
        Better::Less => means[*a].total_cmp(&means[*b]),
        Better::More => means[*b].total_cmp(&means[*a]),
    })
}

impl Remark {
    /// The remark in words.
    pub(super) fn words(&self) -> String {
        match self {
            Self::Blocks(blocks, axes) => {
                let equal = match axes.as_slice() {
                    [] => "equal seeds".to_owned(),
                    [axis] if axis == SEED => "equal seeds".to_owned(),
                    axes => format!("equal values of {}", listed(axes)),
                };
                format!("rows compared in {blocks} blocks ({equal}) at 5 % for a whole column (Tukey)")
            }
            Self::Equal => "rows are not ranked: all differences between them are equal at every seed, so their spread is unknown; declare \
                            the metric's `resolution`, or `deterministic: true`, under `metrics`"
                .to_owned(),
            Self::Fixed => {
                "rows on which the seed has no effect count once: they do not add to the common error, and are compared by the \
                 spread of the other row"
                    .to_owned()
            }
            Self::Uneven => {
                "rows differ in their spread (Cochran's C), so they are told apart only if the test with their own \
                 spreads (Games and Howell) also tells them apart"
                    .to_owned()
            }
            Self::Unbalanced => {
                "rows have different numbers of values, so they are told apart only if the test with their own \
                 spreads (Games and Howell) also tells them apart"
                    .to_owned()
            }
            Self::Looks(looks) => format!("signs allow for looks at the results: {looks}"),
            Self::Unblocked => {
                "rows without common seeds compared at 5 % for a whole column (Tukey and Kramer)".to_owned()
            }
            Self::Common(axes) if axes.is_empty() => "rows are compared by the seeds that all of them have".to_owned(),
            Self::Common(axes) => format!("rows are compared by the values of {} that all of them have", listed(axes)),
            Self::Incomplete => "rows with missing results are not ranked".to_owned(),
            Self::Unlike(reason) => {
                format!("times are not ranked: {reason}; `conditions: any` ranks them nevertheless")
            }
        }
    }
}
