//! Errors of means over measurements that are not independent: crossed factors, and folds of a cross-validation.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use statrs::distribution::{ContinuousCDF as _, FisherSnedecor};

use super::{
    LEVEL,
    sample::scale_of,
    solve::root,
    student::{quantile, quantile_anew},
};

/// Degrees of freedom of a factor from which on Satterthwaite's approximation keeps the level.
pub(super) const MANY: f64 = 4.0;

/// The standard error of a mean, and the degrees of freedom of its Student's t.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ErrorOfMean {
    /// The standard error, in the unit of the values.
    pub error: f64,
    /// Degrees of freedom.
    pub freedom: f64,
}

/// A sum of squares and its degrees of freedom.
#[derive(Debug, Clone, Copy, Default)]
struct Squares {
    sum: f64,
    freedom: f64,
}

impl Squares {
    fn mean(self) -> f64 {
        self.sum / self.freedom
    }

    /// The part of this mean square in the denominator of Satterthwaite's degrees of freedom.
    fn part(self) -> f64 {
        self.mean().powi(2) / self.freedom
    }
}

/// A value at a level of each factor.
pub type Leveled = (Vec<usize>, f64);

/// The variance of the mean of values of folds in units of the variance between them. The folds of a cross-validation share most
/// of their training data, so it is larger than 1/values: 1/values + 1/(k − 1), with the test share 1/k (Nadeau and Bengio,
/// 2003). A cross-validation that is repeated with other partitions has k folds in each (Bouckaert and Frank, 2004).
pub fn variance_of_folds(values: usize, folds: usize) -> f64 {
    1.0 / values as f64 + 1.0 / (folds as f64 - 1.0)
}

/// The error of the mean of values at crossed random factors, such as the seeds of the data and of the initialization. `rows` are the sets
/// of values whose means are compared; with one row, it is the error of its mean. With more rows, it is the error of a row's mean without
/// the effects of levels that all rows share, as for [`Blocks`](super::Blocks).
///
/// If every combination of levels has one value, the variance follows from the components: Σ MS(factor)/N − (factors − 1)·MS(residual)/N
/// with Satterthwaite's degrees of freedom, or fewer for factors with few levels. It is never less than the variance by the factor with the
/// largest mean square. Otherwise it is the sum of the variances of the means by each factor's levels, which is not smaller.
///
/// `None` if the rows differ in their levels, or if a factor has fewer than two levels.
pub fn crossed(rows: &[Vec<Leveled>]) -> Option<ErrorOfMean> {
    let (rows, scale) = scaled(rows);
    let of = Components::new(&rows)?.error();
    Some(ErrorOfMean { error: of.error * scale, ..of })
}

/// The rows, divided by a scale at which their squares are finite and not zero.
fn scaled(rows: &[Vec<Leveled>]) -> (Cow<'_, [Vec<Leveled>]>, f64) {
    let scale = scale_of(rows.iter().flatten().map(|(_, value)| value));
    if scale == 1.0 {
        return (Cow::Borrowed(rows), scale);
    }
    let row = |row: &Vec<Leveled>| row.iter().map(|(levels, value)| (levels.clone(), value / scale)).collect();
    (Cow::Owned(rows.iter().map(row).collect()), scale)
}

/// The contribution of seeds to the error of a mean over units, if several units have the same seeds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SharedSeeds {
    /// The root of the variance of the mean beyond the variance of the units' means.
    pub error: f64,
    /// Degrees of freedom of the sum of both.
    pub freedom: f64,
    /// The least degrees of freedom of a factor.
    pub least: f64,
}

/// The contribution of seeds that several units share. The first `units` factors of `rows` are units, such as data sets, and the others are
/// seeds. The error of units and seeds together is the error of [`crossed`] factors if every combination has one value; otherwise the
/// squares of the seeds are computed within units, so that they exclude effects of the units.
///
/// Jobs with equal seeds may share nothing but the number. Unless `certain`, the result is therefore `None` if no seed's mean square
/// exceeds the residual mean square by more than is usual without a common effect: pooling after a preliminary test (Bancroft, 1964).
/// The level of that test, 50 %, or 75 % for two seeds or if combinations are missing, keeps the total error rate near 5 %. With missing
/// combinations, the test also needs degrees of freedom of the residual.
///
/// `None` also as for [`crossed`], or if no unit has several seeds of which another unit has one.
pub fn shared_seeds(rows: &[Vec<Leveled>], units: usize, certain: bool) -> Option<SharedSeeds> {
    let (rows, scale) = scaled(rows);
    let shared = shared_by(&rows, units, certain)?;
    Some(SharedSeeds { error: shared.error * scale, ..shared })
}

fn shared_by(rows: &[Vec<Leveled>], units: usize, certain: bool) -> Option<SharedSeeds> {
    let components = Components::new(rows)?;
    let own = Components::new(&rows.iter().map(|row| of_units(row, units)).collect::<Vec<_>>())?.error();
    if components.rest.is_none() {
        return incomplete(rows, units, certain, own);
    }
    if !certain && !components.stand_out(units) {
        return None;
    }
    let whole = components.error();
    let least = components.mains.iter().map(|main| main.freedom).fold(f64::INFINITY, f64::min);
    let error = (whole.error.powi(2) - own.error.powi(2)).max(0.0).sqrt();
    Some(SharedSeeds { error, freedom: whole.freedom, least })
}

/// The means by the levels of the first factors.
fn of_units(row: &[Leveled], units: usize) -> Vec<Leveled> {
    by(row, |levels| levels[..units].to_vec())
}

/// The means by these levels.
fn by(row: &[Leveled], key: impl Fn(&[usize]) -> Vec<usize>) -> Vec<Leveled> {
    let mut groups: BTreeMap<Vec<usize>, Vec<f64>> = BTreeMap::new();
    for (levels, value) in row {
        groups.entry(key(levels)).or_default().push(*value);
    }
    groups.into_iter().map(|(levels, values)| (levels, values.iter().sum::<f64>() / values.len() as f64)).collect()
}

/// The part of seeds of which some units have only some, beside the error of the units alone.
///
/// A seed's variance is its mean square within units without the residual, and the variance of the mean is at least that mean square's
/// part. Where the residual is hardly known, or seeds are several factors, it is not subtracted. The degrees of freedom are those at
/// which the square of Student's quantile is the mean of the factors' squares (Banerjee, 1960), or Satterthwaite's if they are fewer.
fn incomplete(rows: &[Vec<Leveled>], units: usize, certain: bool, own: ErrorOfMean) -> Option<SharedSeeds> {
    let factors = rows.first()?.first()?.0.len();
    let key = |factor: usize| move |levels: &[usize]| [&levels[..units], &[levels[factor]]].concat();
    let of_factor = |factor: usize| -> Vec<Vec<Leveled>> { rows.iter().map(|row| by(row, key(factor))).collect() };
    let parts: Vec<Incomplete> = (units..factors).filter_map(|factor| Incomplete::new(&of_factor(factor))).collect();
    let rest = match parts.as_slice() {
        [] => return None,
        [one] if units == 1 && one.rest.freedom >= MANY => Some(one.rest),
        _ => None,
    };
    let is_usual = |rest: Squares| !parts.iter().any(|part| exceeds(part.seeds, rest, 0.25));
    if !certain && rest.is_some_and(is_usual) {
        return None;
    }
    let variance_of_units = own.error.powi(2);
    let seeds: Vec<(f64, f64)> =
        parts.iter().map(|part| (part.of_square * part.seeds.mean(), part.seeds.freedom)).collect();
    let largest: f64 = seeds.iter().map(|(variance, _)| variance).sum();
    let subtracted = rest.map_or(0.0, |rest| parts[0].of_square * rest.mean());
    let variance = (largest - subtracted).max(largest - variance_of_units).max(0.0);
    let mut squares = variance_of_units.powi(2) / own.freedom;
    squares += parts.iter().map(|part| part.of_square.powi(2) * part.seeds.part()).sum::<f64>();
    squares += rest.map_or(0.0, |rest| parts[0].of_square.powi(2) * rest.part());
    let factors: Vec<(f64, f64)> = std::iter::once((variance_of_units, own.freedom)).chain(seeds).collect();
    let least = factors.iter().map(|(_, freedom)| *freedom).fold(f64::INFINITY, f64::min);
    let freedom = guarded_freedom(variance_of_units + variance, squares, &factors);
    Some(SharedSeeds { error: variance.sqrt(), freedom, least })
}

/// Squares of seeds of which some units have only some.
struct Incomplete {
    /// What the seeds explain within units, and what units and seeds do not explain.
    seeds: Squares,
    rest: Squares,
    /// The part of the seeds' mean square in the variance of the mean beyond that which the units' means show.
    of_square: f64,
}

impl Incomplete {
    /// For rows with the levels of units and of one factor of seeds. `None` if the seeds differ between all units, or if no unit has
    /// several seeds.
    fn new(rows: &[Vec<Leveled>]) -> Option<Self> {
        let first = rows.first()?;
        let (seed_of, seed_count) = indices(first.iter().map(|(levels, _)| &levels[levels.len() - 1..]));
        let (unit_of, unit_count) = indices(first.iter().map(|(levels, _)| &levels[..levels.len() - 1]));
        let mut seeds_of = vec![Vec::new(); unit_count];
        unit_of.iter().zip(&seed_of).for_each(|(unit, seed)| seeds_of[*unit].push(*seed));
        let (cells, units) = (first.len() as f64, unit_count as f64);
        let mut normal = vec![vec![0.0; seed_count]; seed_count];
        let mut weights = vec![0.0_f64; seed_count];
        for seeds in &seeds_of {
            let share = 1.0 / seeds.len() as f64;
            for seed in seeds {
                normal[*seed][*seed] += 1.0;
                weights[*seed] += share / units;
                for other in seeds {
                    normal[*seed][*other] -= share;
                }
            }
        }
        let without_units = |row: &Vec<Leveled>| -> Vec<f64> {
            let mut sums = vec![0.0; unit_count];
            row.iter().zip(&unit_of).for_each(|((_, value), unit)| sums[*unit] += value);
            let mean = |unit: usize| sums[unit] / seeds_of[unit].len() as f64;
            row.iter().zip(&unit_of).map(|((_, value), unit)| value - mean(*unit)).collect()
        };
        let values: Vec<Vec<f64>> = without_common(rows).iter().map(without_units).collect();
        let sums = values.iter().map(|values| {
            let mut sums = vec![0.0; seed_count];
            values.iter().zip(&seed_of).for_each(|(value, seed)| sums[*seed] += value);
            sums
        });
        let (explained, rank) = explained(normal, sums.collect());
        let within: f64 = values.iter().flatten().map(|value| value.powi(2)).sum();
        let contrasts = (rows.len() - 1).max(1) as f64;
        let of_mean: f64 = weights.iter().map(|weight| weight.powi(2)).sum();
        let by_units: f64 = seeds_of.iter().map(|seeds| 1.0 / seeds.len() as f64).sum();
        let shown = (by_units - units * of_mean) / (units * (units - 1.0));
        let beyond = of_mean - shown;
        // Rounding errors of seeds that differ between all units.
        if rank < 1.0 || beyond <= 1e-9 * of_mean {
            return None;
        }
        Some(Self {
            seeds: Squares { sum: explained, freedom: rank * contrasts },
            rest: Squares { sum: (within - explained).max(0.0), freedom: (cells - units - rank) * contrasts },
            of_square: beyond * rank / (cells - units),
        })
    }
}

/// The index of each level among all of them, and their number.
fn indices<'l>(levels: impl Iterator<Item = &'l [usize]> + Clone) -> (Vec<usize>, usize) {
    let known: BTreeSet<&[usize]> = levels.clone().collect();
    let index: BTreeMap<&[usize], usize> = known.into_iter().zip(0..).collect();
    (levels.map(|level| index[level]).collect(), index.len())
}

/// The sum of squares that effects explain, given the matrix of their normal equations and its right-hand sides, and the matrix's rank.
fn explained(mut matrix: Vec<Vec<f64>>, mut sides: Vec<Vec<f64>>) -> (f64, f64) {
    /// Pivots below this part of the diagonal are rounding errors of zero.
    const ROUNDING: f64 = 1e-9;
    let least: Vec<f64> = matrix.iter().enumerate().map(|(index, row)| ROUNDING * row[index]).collect();
    let (mut sum, mut rank) = (0.0, 0.0);
    for pivot in 0..matrix.len() {
        let (above, below) = matrix.split_at_mut(pivot + 1);
        let row = &above[pivot];
        if row[pivot] <= least[pivot] {
            continue;
        }
        rank += 1.0;
        let factors: Vec<f64> = below.iter().map(|other| other[pivot] / row[pivot]).collect();
        for (other, factor) in below.iter_mut().zip(&factors).filter(|(_, factor)| **factor != 0.0) {
            other.iter_mut().zip(row).skip(pivot + 1).for_each(|(value, of_row)| *value -= factor * of_row);
        }
        for side in &mut sides {
            let value = side[pivot];
            sum += value.powi(2) / row[pivot];
            side[pivot + 1..].iter_mut().zip(&factors).for_each(|(other, factor)| *other -= factor * value);
        }
    }
    (sum, rank)
}

/// True if the mean square of a factor exceeds this quantile of what it is if the factor does nothing.
fn exceeds(factor: Squares, rest: Squares, quantile: f64) -> bool {
    let ratio = factor.mean() / rest.mean();
    match FisherSnedecor::new(factor.freedom, rest.freedom) {
        Ok(distribution) if ratio.is_finite() => distribution.cdf(ratio) > quantile,
        // Without a residual.
        _ => factor.sum > 0.0,
    }
}

/// The sums of squares of values at crossed factors.
struct Components {
    /// Number of values of a row.
    cells: f64,
    /// Number of levels of each factor.
    counts: Vec<usize>,
    /// The squares of the means of each factor's levels, times their numbers of values.
    mains: Vec<Squares>,
    /// The squares of these means.
    by_means: Vec<Squares>,
    /// The residual; `None` if combinations are missing.
    rest: Option<Squares>,
}

impl Components {
    fn new(rows: &[Vec<Leveled>]) -> Option<Self> {
        let first = rows.first()?;
        let factors = first.first()?.0.len();
        let levels = |row: &Vec<Leveled>| row.iter().map(|(levels, _)| levels.clone()).collect::<Vec<_>>();
        if factors == 0 || rows.iter().any(|row| levels(row) != levels(first)) {
            return None;
        }
        let contrasts = (rows.len() - 1).max(1) as f64;
        let cells = first.len() as f64;
        let mut whole = Squares { sum: 0.0, freedom: (cells - 1.0) * contrasts };
        let mut mains = vec![Squares::default(); factors];
        let (mut counts, mut by_means) = (vec![0; factors], vec![Squares::default(); factors]);
        for row in &without_common(rows) {
            let mean = row.iter().map(|(_, value)| value).sum::<f64>() / cells;
            whole.sum += row.iter().map(|(_, value)| (value - mean).powi(2)).sum::<f64>();
            for factor in 0..factors {
                let mut groups: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
                for (levels, value) in row {
                    groups.entry(levels[factor]).or_default().push(*value);
                }
                counts[factor] = groups.len();
                let freedom = (groups.len() - 1) as f64 * contrasts;
                (mains[factor].freedom, by_means[factor].freedom) = (freedom, freedom);
                for values in groups.values() {
                    let distance = values.iter().sum::<f64>() / values.len() as f64 - mean;
                    mains[factor].sum += values.len() as f64 * distance.powi(2);
                    by_means[factor].sum += distance.powi(2);
                }
            }
        }
        if counts.iter().any(|count| *count < 2) {
            return None;
        }
        let used: f64 = mains.iter().map(|main| main.sum).sum();
        let rest = Squares {
            sum: (whole.sum - used).max(0.0),
            freedom: whole.freedom - mains.iter().map(|main| main.freedom).sum::<f64>(),
        };
        let rest = (counts.iter().product::<usize>() == first.len()).then_some(rest);
        Some(Self { cells, counts, mains, by_means, rest })
    }

    fn error(&self) -> ErrorOfMean {
        let own = |variances: &mut dyn Iterator<Item = f64>| -> Vec<(f64, f64)> {
            variances.zip(self.mains.iter().map(|main| main.freedom)).collect()
        };
        let Some(rest) = self.rest else {
            let of_means = || self.by_means.iter().zip(&self.counts).map(|(squares, count)| (*squares, *count as f64));
            let variance: f64 = of_means().map(|(squares, count)| squares.mean() / count).sum();
            let parts: f64 = of_means().map(|(squares, count)| squares.part() / count.powi(2)).sum();
            return ErrorOfMean {
                error: variance.sqrt(),
                freedom: few_levels(
                    variance,
                    parts,
                    &own(&mut of_means().map(|(squares, count)| squares.mean() / count)),
                ),
            };
        };
        let mains = || self.mains.iter().map(|main| main.mean());
        // A single factor has no separate residual.
        let (subtracted, rest) = match self.mains.len() - 1 {
            0 => (0.0, Squares { sum: 0.0, freedom: 1.0 }),
            factors => (factors as f64, rest),
        };
        let largest = mains().fold(0.0, f64::max);
        let total: f64 = mains().sum::<f64>() - subtracted * rest.mean();
        let parts: f64 = self.mains.iter().map(|main| main.part()).sum::<f64>() + subtracted.powi(2) * rest.part();
        ErrorOfMean {
            error: (total.max(largest) / self.cells).sqrt(),
            freedom: few_levels(total, parts, &own(&mut mains())),
        }
    }

    /// True if the mean square of a factor after the first `units` exceeds the median of its distribution under no effect, or the upper
    /// quartile for two levels.
    fn stand_out(&self, units: usize) -> bool {
        let Some(rest) = self.rest else { return true };
        let usual = |levels: usize| if levels > 2 { 0.5 } else { 0.25 };
        let mut seeds = self.mains.iter().zip(&self.counts).skip(units);
        seeds.any(|(main, levels)| exceeds(*main, rest, usual(*levels)))
    }
}

/// Degrees of freedom of the sum of the variances of factors, each with its own: Satterthwaite's, but not less than the smallest degrees of
/// freedom of a factor. They are too many if a factor with few levels has a large part of the variance; the quantile of Student's t is then
/// the mean of the factors' quantiles, weighted by their variances (Cochran and Cox, 1950), and these are its degrees of freedom. With two
/// levels, even that mean is too small.
pub(super) fn few_levels(variance: f64, parts: f64, factors: &[(f64, f64)]) -> f64 {
    let (least, satterthwaite, whole) = satterthwaite(variance, parts, factors);
    if least < 2.0 {
        return guarded_freedom(variance, parts, factors);
    }
    if least >= MANY || whole <= 0.0 {
        return satterthwaite;
    }
    let quantiles = factors.iter().map(|(variance, freedom)| variance / whole * quantile(*freedom, LEVEL));
    freedom_of(quantiles.sum(), least, satterthwaite)
}

/// The same with the quantile whose square is the mean of the squares of the factors' quantiles, for any numbers of levels. With it, an
/// interval by independent variances covers the mean at least at its level (Banerjee, 1960).
fn guarded_freedom(variance: f64, parts: f64, factors: &[(f64, f64)]) -> f64 {
    let (least, satterthwaite, whole) = satterthwaite(variance, parts, factors);
    if whole <= 0.0 {
        return satterthwaite;
    }
    let squares = factors.iter().map(|(variance, freedom)| variance / whole * quantile(*freedom, LEVEL).powi(2));
    freedom_of(squares.sum::<f64>().sqrt(), least, satterthwaite)
}

/// The fewest degrees of freedom of a factor, Satterthwaite's, which are no fewer, and the sum of the factors' variances.
fn satterthwaite(variance: f64, parts: f64, factors: &[(f64, f64)]) -> (f64, f64, f64) {
    let least = factors.iter().map(|(_, freedom)| *freedom).fold(f64::INFINITY, f64::min);
    let whole: f64 = factors.iter().map(|(variance, _)| variance).sum();
    let is_known = parts > 0.0 && whole > 0.0 && parts.is_finite() && whole.is_finite();
    if !is_known {
        return (least, least, 0.0);
    }
    (least, (variance.max(0.0).powi(2) / parts).max(least), whole)
}

/// The degrees of freedom with this quantile, from `least` to `most`.
fn freedom_of(wanted: f64, least: f64, most: f64) -> f64 {
    if wanted <= quantile(most, LEVEL) {
        return most;
    }
    if wanted >= quantile(least, LEVEL) {
        return least;
    }
    root(|freedom| quantile_anew(freedom, LEVEL) - wanted, least, most, 1e-6)
}

/// The values without their mean over the rows; a single row is unchanged.
fn without_common(rows: &[Vec<Leveled>]) -> Vec<Vec<Leveled>> {
    if rows.len() < 2 {
        return rows.to_vec();
    }
    let common = |cell: usize| rows.iter().map(|row| row[cell].1).sum::<f64>() / rows.len() as f64;
    let row = |row: &Vec<Leveled>| {
        row.iter().enumerate().map(|(cell, (levels, value))| (levels.clone(), value - common(cell))).collect()
    };
    rows.iter().map(row).collect()
}
