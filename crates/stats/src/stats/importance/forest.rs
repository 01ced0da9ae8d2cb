//! A random forest of regression trees, and the functional analysis of variance of a tree.
//!
//! A tree is a function that is constant in boxes, so that its variance components are sums over pairs of boxes. The
//! values of a factor are weighted equally: the levels of a factor that repeats them, else the range from its smallest
//! to its largest number.

use super::{Factor, Levels, Share, rest, share};
use crate::stats::Draws;

/// Number of trees, as Optuna's evaluator has.
const TREES: usize = 64;
/// Number of boxes of a tree that is not exceeded by much: the time to analyze a tree grows with its square.
const MAX_BOXES: usize = 400;
/// The categories of a factor that a box can distinguish. A factor of more is ordered by their first appearance.
const MAX_CATEGORIES: usize = 128;
/// Any number: the same data have the same forest.
const SEED: u64 = 7;

/// A factor as trees see it.
#[derive(Debug)]
struct Axis {
    /// The coordinate of each configuration; of categories, their numbers.
    at: Vec<f64>,
    /// The categories of each configuration as single bits, for a factor that has no order.
    bits: Option<Vec<u128>>,
    /// All values.
    whole: Side,
}

/// A box's extent along a factor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Side {
    /// Between two coordinates.
    Range(f64, f64),
    /// Some categories.
    Set(u128),
}

/// A box in which a tree is constant.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Cell {
    /// Its sides, one for each factor.
    pub(super) sides: Vec<Side>,
    /// The tree's value in it.
    pub(super) value: f64,
}

/// Trees of resampled configurations.
#[derive(Debug)]
pub(super) struct Forest {
    axes: Vec<Axis>,
    trees: Vec<Tree>,
}

/// The boxes of a tree, and its sample.
#[derive(Debug)]
struct Tree {
    cells: Vec<Cell>,
    /// True for configurations that are in the sample.
    seen: Vec<bool>,
}

/// A split of a box.
#[derive(Debug, Clone, Copy)]
struct Split {
    axis: usize,
    /// The part that goes to the first child.
    side: Side,
    /// The part that goes to the second child.
    other: Side,
    /// The reduction of the sum of squares.
    gain: f64,
}

impl Side {
    fn size(self) -> f64 {
        match self {
            Self::Range(low, high) => high - low,
            Self::Set(bits) => f64::from(bits.count_ones()),
        }
    }

    /// The size of the part that two sides share.
    fn shared(self, other: Self) -> f64 {
        match (self, other) {
            (Self::Range(low, high), Self::Range(from, to)) => (high.min(to) - low.max(from)).max(0.0),
            (Self::Set(bits), Self::Set(others)) => f64::from((bits & others).count_ones()),
            _ => 0.0,
        }
    }
}

impl Axis {
    fn new(factor: &Factor, levels: &Levels) -> Self {
        let ordered = |at: Vec<f64>, low, high| Self { at, bits: None, whole: Side::Range(low, high) };
        let ranks = || levels.of.iter().map(|level| *level as f64 + 0.5).collect();
        match factor {
            Factor::Categories(_) if levels.count <= MAX_CATEGORIES => {
                let all = u128::MAX >> (128 - levels.count.max(1));
                let bits = levels.of.iter().map(|level| 1 << level).collect();
                Self { at: ranks(), bits: Some(bits), whole: Side::Set(all) }
            }
            // Two or more configurations per level on average: the values come from a list.
            Factor::Numbers(numbers) if 2 * levels.count > numbers.len() => {
                let low = numbers.iter().copied().fold(f64::INFINITY, f64::min);
                let high = numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                ordered(numbers.clone(), low, high)
            }
            Factor::Numbers(_) | Factor::Categories(_) => ordered(ranks(), 0.0, levels.count as f64),
        }
    }

    fn contains(&self, side: Side, row: usize) -> bool {
        match (side, &self.bits) {
            (Side::Set(set), Some(bits)) => set & bits[row] != 0,
            // The largest coordinate belongs to the last box.
            (Side::Range(low, high), _) => {
                let Side::Range(_, end) = self.whole else { return false };
                low <= self.at[row] && (self.at[row] < high || high == end)
            }
            (Side::Set(_), None) => false,
        }
    }
}

impl Forest {
    /// The forest of some configurations; `None` if no factor varies.
    pub(super) fn new(factors: &[Factor], levels: &[Levels], values: &[f64]) -> Option<Self> {
        if levels.iter().all(|levels| levels.count < 2) {
            return None;
        }
        let axes: Vec<Axis> = factors.iter().zip(levels).map(|(factor, levels)| Axis::new(factor, levels)).collect();
        let mut draws = Draws::new(SEED);
        let mut trees = Vec::new();
        for _ in 0..TREES {
            let rows: Vec<usize> = (0..values.len()).map(|_| draws.below(values.len())).collect();
            let mut seen = vec![false; values.len()];
            for row in &rows {
                seen[*row] = true;
            }
            trees.push(Tree { cells: grow(&axes, values, rows), seen });
        }
        Some(Self { axes, trees })
    }

    /// The shares of the factors and of interactions: means over the trees.
    pub(super) fn shares(&self) -> (Vec<Share>, f64) {
        let whole: Vec<Side> = self.axes.iter().map(|axis| axis.whole).collect();
        let shares_of_trees: Vec<Vec<Share>> =
            self.trees.iter().filter_map(|tree| shares_of(&tree.cells, &whole)).collect();
        let mean = |of: &dyn Fn(&[Share]) -> f64| {
            shares_of_trees.iter().map(|shares| of(shares)).sum::<f64>() / shares_of_trees.len().max(1) as f64
        };
        let shares = (0..self.axes.len())
            .map(|axis| Share { alone: mean(&|shares| shares[axis].alone), whole: mean(&|shares| shares[axis].whole) })
            .collect();
        (shares, mean(&|shares| rest(shares)))
    }

    /// The coefficient of determination of the predictions of configurations by the trees that have not seen them. The
    /// values have the mean 0.
    pub(super) fn fit(&self, values: &[f64]) -> f64 {
        let (mut missed, mut total) = (0.0, 0.0);
        for (row, value) in values.iter().enumerate() {
            let said: Vec<f64> = self
                .trees
                .iter()
                .filter(|tree| !tree.seen[row])
                .filter_map(|tree| {
                    let of =
                        |cell: &&Cell| cell.sides.iter().zip(&self.axes).all(|(side, axis)| axis.contains(*side, row));
                    tree.cells.iter().find(of).map(|cell| cell.value)
                })
                .collect();
            if said.is_empty() {
                continue;
            }
            let predicted = said.iter().sum::<f64>() / said.len() as f64;
            missed += (value - predicted).powi(2);
            total += value.powi(2);
        }
        if total > 0.0 { 1.0 - missed / total } else { 0.0 }
    }
}

/// The boxes of a tree of these configurations, some of which are there several times.
fn grow(axes: &[Axis], values: &[f64], rows: Vec<usize>) -> Vec<Cell> {
    let min_rows = values.len().div_ceil(MAX_BOXES);
    let mut cells = Vec::new();
    let mut groups = vec![(rows, axes.iter().map(|axis| axis.whole).collect::<Vec<Side>>())];
    while let Some((rows, sides)) = groups.pop() {
        let splits =
            axes.iter().enumerate().filter_map(|(axis, of)| best_split(axis, of, sides[axis], values, &rows, min_rows));
        // The first of equally good ones.
        let best = splits.reduce(|best, split| if split.gain > best.gain { split } else { best });
        let Some(split) = best else {
            let value = rows.iter().map(|row| values[*row]).sum::<f64>() / rows.len().max(1) as f64;
            cells.push(Cell { sides, value });
            continue;
        };
        let axis = &axes[split.axis];
        let (first, second): (Vec<usize>, Vec<usize>) =
            rows.into_iter().partition(|row| axis.contains(split.side, *row));
        for (rows, side) in [(first, split.side), (second, split.other)] {
            let mut sides = sides.clone();
            sides[split.axis] = side;
            groups.push((rows, sides));
        }
    }
    cells
}

/// The best split of a box along a factor, both of whose parts have at least `min_rows` configurations.
fn best_split(axis: usize, of: &Axis, side: Side, values: &[f64], rows: &[usize], min_rows: usize) -> Option<Split> {
    // Each group with its sum and its number, in an order along which the best split is between two neighbors.
    let mut sorted: Vec<(f64, f64)> = rows.iter().map(|row| (of.at[*row], values[*row])).collect();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut groups: Vec<(f64, f64, usize)> = Vec::new();
    for (at, value) in sorted {
        match groups.last_mut() {
            Some((last, sum, count)) if *last == at => (*sum, *count) = (*sum + value, *count + 1),
            _ => groups.push((at, value, 1)),
        }
    }
    if of.bits.is_some() {
        let mean = |group: &(f64, f64, usize)| group.1 / group.2 as f64;
        groups.sort_by(|a, b| mean(a).total_cmp(&mean(b)));
    }
    let (total, count) = (groups.iter().map(|group| group.1).sum::<f64>(), rows.len());
    let squares: f64 = rows.iter().map(|row| values[*row].powi(2)).sum();
    let (mut sum, mut number) = (0.0, 0_usize);
    let mut best: Option<(f64, usize)> = None;
    for (index, group) in groups.iter().enumerate().take(groups.len().saturating_sub(1)) {
        (sum, number) = (sum + group.1, number + group.2);
        let other = count - number;
        if number < min_rows || other < min_rows {
            continue;
        }
        let gain = sum * sum / number as f64 + (total - sum).powi(2) / other as f64 - total * total / count as f64;
        if gain > best.map_or(1e-12 * squares, |(gain, _)| gain) {
            best = Some((gain, index));
        }
    }
    let (gain, index) = best?;
    let (side, other) = match side {
        Side::Range(low, high) => {
            let cut = f64::midpoint(groups[index].0, groups[index + 1].0);
            // Neighboring numbers may have no number between them.
            if groups[index].0 >= cut {
                return None;
            }
            (Side::Range(low, cut), Side::Range(cut, high))
        }
        Side::Set(set) => {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the number of a category")]
            let bit = |group: &(f64, f64, usize)| 1_u128 << (group.0 as u32);
            let first = groups[..=index].iter().map(bit).fold(0, |set, bit| set | bit);
            let second = groups[index + 1..].iter().map(bit).fold(0, |set, bit| set | bit);
            // Categories that no configuration has go with the larger part.
            let absent = set & !first & !second;
            let (first, second) = if number_of(&groups[..=index]) * 2 >= count {
                (first | absent, second)
            } else {
                (first, second | absent)
            };
            (Side::Set(first), Side::Set(second))
        }
    };
    Some(Split { axis, side, other, gain })
}

fn number_of(groups: &[(f64, f64, usize)]) -> usize {
    groups.iter().map(|group| group.2).sum()
}

/// The shares of the factors in the variance of a function that is constant in boxes, which fill the whole space;
/// `None` if the function is constant.
pub(super) fn shares_of(cells: &[Cell], whole: &[Side]) -> Option<Vec<Share>> {
    let factors = whole.len();
    // The sides as fractions of the whole.
    let fraction = |cell: &Cell, factor: usize| cell.sides[factor].size() / whole[factor].size();
    let fractions: Vec<Vec<f64>> =
        cells.iter().map(|cell| (0..factors).map(|factor| fraction(cell, factor)).collect()).collect();
    let volumes: Vec<f64> = fractions.iter().map(|sides| sides.iter().product()).collect();
    let mean: f64 = cells.iter().zip(&volumes).map(|(cell, volume)| volume * cell.value).sum();
    let total: f64 = cells.iter().zip(&volumes).map(|(cell, volume)| volume * (cell.value - mean).powi(2)).sum();
    if total <= 0.0 {
        return None;
    }
    let (mut alone, mut without) = (vec![0.0; factors], vec![0.0; factors]);
    let mut shared = vec![0.0; factors];
    for (first, cell) in cells.iter().enumerate() {
        for (second, other) in cells.iter().enumerate().take(first + 1) {
            let twice = if second < first { 2.0 } else { 1.0 };
            let product = twice * (cell.value - mean) * (other.value - mean);
            let volume = volumes[first] * volumes[second];
            let mut disjoint = (0, 0);
            let mut overlap = 1.0;
            for factor in 0..factors {
                shared[factor] = cell.sides[factor].shared(other.sides[factor]) / whole[factor].size();
                let size = fractions[first][factor] * fractions[second][factor];
                alone[factor] += product * volume / size * shared[factor];
                if shared[factor] > 0.0 {
                    overlap *= shared[factor];
                } else {
                    disjoint = (disjoint.0 + 1, factor);
                }
            }
            // Boxes overlap in the other factors if they are disjoint along none of them.
            match disjoint {
                (0, _) => {
                    for factor in 0..factors {
                        let size = fractions[first][factor] * fractions[second][factor];
                        without[factor] += product * overlap / shared[factor] * size;
                    }
                }
                (1, factor) => {
                    without[factor] += product * overlap * fractions[first][factor] * fractions[second][factor];
                }
                _ => {}
            }
        }
    }
    let shares = alone.into_iter().zip(without);
    Some(
        shares
            .map(|(alone, without)| Share { alone: share(alone, total), whole: share(total - without, total) })
            .collect(),
    )
}
