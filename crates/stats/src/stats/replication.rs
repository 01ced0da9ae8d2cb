//! Errors of means over measurements that are not independent: crossed factors, and folds of a cross-validation.

use std::collections::BTreeMap;

use statrs::distribution::{ContinuousCDF as _, FisherSnedecor};

use super::{
    LEVEL,
    solve::root,
    student::{quantile, quantile_anew},
};

/// Degrees of freedom of a factor from which on Satterthwaite's approximation keeps the level.
const MANY: f64 = 4.0;

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
    Some(Components::new(rows)?.error())
}

/// The contribution of seeds to the error of a mean over units, if several units have the same seeds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SharedSeeds {
    /// The variance of the mean beyond the variance of the units' means.
    pub variance: f64,
    /// Degrees of freedom of the sum of both.
    pub freedom: f64,
    /// The least degrees of freedom of a factor.
    pub least: f64,
}

/// The contribution of seeds that several units share. The first `units` factors of `rows` are units, such as data sets, and the others are
/// seeds. The error of units and seeds together is the error of [`crossed`] factors.
///
/// Jobs with equal seeds may share nothing but the number. Unless `certain`, the result is therefore `None` if every combination has one
/// value and no seed's mean square exceeds the residual mean square by more than is usual without a common effect: pooling after a
/// preliminary test (Bancroft, 1964). The level of that test, 50 %, or 75 % for two seeds, keeps the total error rate near 5 %.
///
/// `None` also as for [`crossed`].
pub fn shared_seeds(rows: &[Vec<Leveled>], units: usize, certain: bool) -> Option<SharedSeeds> {
    let components = Components::new(rows)?;
    if !certain && !components.stand_out(units) {
        return None;
    }
    let whole = components.error();
    let own = Components::new(&rows.iter().map(|row| of_units(row, units)).collect::<Vec<_>>())?.error();
    let least = components.mains.iter().map(|main| main.freedom).fold(f64::INFINITY, f64::min);
    Some(SharedSeeds { variance: (whole.error.powi(2) - own.error.powi(2)).max(0.0), freedom: whole.freedom, least })
}

/// The means by the levels of the first factors.
fn of_units(row: &[Leveled], units: usize) -> Vec<Leveled> {
    let mut groups: BTreeMap<&[usize], Vec<f64>> = BTreeMap::new();
    for (levels, value) in row {
        groups.entry(&levels[..units]).or_default().push(*value);
    }
    let mean = |values: Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;
    groups.into_iter().map(|(levels, values)| (levels.to_vec(), mean(values))).collect()
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
                freedom: freedom(variance, parts, &own(&mut of_means().map(|(squares, count)| squares.mean() / count))),
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
            freedom: freedom(total, parts, &own(&mut mains())),
        }
    }

    /// True if the mean square of a factor after the first `units` exceeds the median of its distribution under no effect, or the upper
    /// quartile for two levels.
    fn stand_out(&self, units: usize) -> bool {
        let Some(rest) = self.rest else { return true };
        self.mains.iter().zip(&self.counts).skip(units).any(|(main, levels)| {
            let usual = if *levels > 2 { 0.5 } else { 0.25 };
            let ratio = main.mean() / rest.mean();
            match FisherSnedecor::new(main.freedom, rest.freedom) {
                Ok(distribution) if ratio.is_finite() => distribution.cdf(ratio) > usual,
                // Without a residual.
                _ => main.sum > 0.0,
            }
        })
    }
}

/// Degrees of freedom of the sum of the variances of factors, each with its own: Satterthwaite's, but not less than the smallest degrees of
/// freedom of a factor. They are too many if a factor with few levels has a large part of the variance; the quantile of Student's t is then
/// the mean of the factors' quantiles, weighted by their variances (Cochran and Cox, 1950), and these are its degrees of freedom.
fn freedom(variance: f64, parts: f64, factors: &[(f64, f64)]) -> f64 {
    let min_freedom = factors.iter().map(|(_, freedom)| *freedom).fold(f64::INFINITY, f64::min);
    let whole: f64 = factors.iter().map(|(variance, _)| variance).sum();
    if parts <= 0.0 || whole <= 0.0 {
        return min_freedom;
    }
    let satterthwaite = (variance.max(0.0).powi(2) / parts).max(min_freedom);
    if min_freedom >= MANY {
        return satterthwaite;
    }
    let wanted = factors.iter().map(|(variance, freedom)| variance / whole * quantile(*freedom, LEVEL)).sum::<f64>();
    if wanted <= quantile(satterthwaite, LEVEL) {
        return satterthwaite;
    }
    root(|freedom| quantile_anew(freedom, LEVEL) - wanted, min_freedom, satterthwaite, 1e-6)
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
