//! Comparison of all rows of a table at once (Tukey), with and without blocks.

use statrs::distribution::{ContinuousCDF as _, FisherSnedecor};

use super::{
    ErrorOfMean, Estimate, LEVEL, Precision, Sample, SharedSeeds, dunnett_quantile, dunnett_sf,
    range::range_quantile,
    range_sf,
    sample::{mean, scale_of, welch, without_rounding},
    variance_of_folds,
};

/// Randomized complete blocks: every row measured once in every block (a seed). The effect of a block cancels out.
#[derive(Debug, Clone, PartialEq)]
pub struct Blocks {
    /// Mean of each row.
    pub means: Vec<f64>,
    /// Number of blocks.
    pub blocks: usize,
    /// Standard deviation of one measurement around the sum of its row's and its block's effect.
    pub sd: f64,
    /// Degrees of freedom of `sd`: (rows − 1)(blocks − 1) if the blocks are independent.
    pub freedom: f64,
    /// The values of each row if the rows differ in their spread.
    uneven: Option<Vec<Vec<f64>>>,
    /// The error of a mean, divided by the error for the same number of independent blocks.
    inflation: f64,
    /// The number of rows of which all pairs are compared at once.
    compared: usize,
}

impl Blocks {
    /// Summarizes rows with equal numbers of values, in the same order of blocks; `None` if there are fewer than two rows or two blocks, or
    /// if the rows differ in length.
    pub fn new(rows: &[Vec<f64>]) -> Option<Self> {
        let blocks = rows.first()?.len();
        if rows.len() < 2 || blocks < 2 || rows.iter().any(|row| row.len() != blocks) {
            return None;
        }
        let scale = scale_of(rows.iter().flatten());
        if scale != 1.0 {
            let of = Self::new(&divided(rows, scale))?;
            let means = of.means.iter().map(|mean| mean * scale).collect();
            let uneven = of.uneven.map(|_| rows.to_vec());
            return Some(Self { means, sd: of.sd * scale, uneven, ..of });
        }
        let means: Vec<f64> = rows.iter().map(|row| mean(row)).collect();
        let whole = mean(&means);
        let of_block = |block: usize| rows.iter().filter_map(|row| row.get(block)).sum::<f64>() / rows.len() as f64;
        let effects: Vec<f64> = (0..blocks).map(|block| of_block(block) - whole).collect();
        let squares: Vec<f64> = rows
            .iter()
            .zip(&means)
            .map(|(row, mean)| row.iter().zip(&effects).map(|(value, effect)| (value - mean - effect).powi(2)).sum())
            .collect();
        let freedom = ((rows.len() - 1) * (blocks - 1)) as f64;
        let sd = of_rows((squares.iter().sum::<f64>() / freedom).sqrt(), rows);
        let uneven = is_uneven(&squares, (blocks - 1) as f64).then(|| rows.to_vec());
        Some(Self { compared: means.len(), means, blocks, sd, freedom, uneven, inflation: 1.0 })
    }

    /// True if the rows differ in their spread (Cochran's C at 5 %).
    pub fn is_uneven(&self) -> bool {
        self.uneven.is_some()
    }

    /// States that these rows are some of several rows of which all pairs are compared at once.
    #[must_use]
    pub fn among(self, rows: usize) -> Self {
        Self { compared: rows, ..self }
    }

    /// Replaces the error of a row's mean, because the blocks are not independent.
    #[must_use]
    pub fn with_error(self, ErrorOfMean { error, freedom }: ErrorOfMean) -> Self {
        Self { sd: error * (self.blocks as f64).sqrt(), freedom, uneven: None, ..self }
    }

    /// Corrects the error for blocks that are the folds of a cross-validation, possibly repeated, with this number of folds.
    #[must_use]
    pub fn of_folds(self, folds: usize) -> Self {
        let inflation = (variance_of_folds(self.blocks, folds) * self.blocks as f64).sqrt();
        Self { sd: self.sd * inflation, inflation, ..self }
    }

    /// Adds the variance of a row's mean that comes from seeds which several blocks share.
    #[must_use]
    pub fn with_seeds(self, SharedSeeds { error, freedom, .. }: SharedSeeds) -> Self {
        if self.sd == 0.0 {
            return self;
        }
        let by = (1.0 + (error / self.sd).powi(2) * self.blocks as f64).sqrt();
        Self { sd: self.sd * by, inflation: self.inflation * by, freedom, ..self }
    }

    /// The smallest difference of two rows' means that is not chance at this level, simultaneously for all pairs
    /// (Tukey). `None` if the spread is zero and the precision does not explain it.
    pub fn honest_difference(&self, level: f64, precision: Precision) -> Option<f64> {
        Some(self.reach(level) * precision.spread(self.sd)?)
    }

    /// The honest difference in residual standard deviations, which depends on the numbers of rows and blocks only.
    pub fn reach(&self, level: f64) -> f64 {
        range_quantile(level, self.compared, self.freedom) / (self.blocks as f64).sqrt()
    }

    /// The p-value of the difference of the means of two rows, given by their indices, corrected for all pairs. If the rows differ in their
    /// spread, the p-value of their own differences (Games and Howell) is computed, too, and the larger one is returned. `None` as in
    /// [`honest_difference`](Self::honest_difference), or if a row does not exist.
    pub fn p(&self, first: usize, second: usize, precision: Precision) -> Option<f64> {
        let difference = self.means.get(first)? - self.means.get(second)?;
        let root = (self.blocks as f64).sqrt();
        let of = |sd: f64, freedom: f64| p(difference, precision.spread(sd)? / root, self.compared, freedom);
        let pooled = of(self.sd, self.freedom)?;
        let Some(rows) = &self.uneven else { return Some(pooled) };
        let differences: Vec<f64> = rows.get(first)?.iter().zip(rows.get(second)?).map(|(a, b)| a - b).collect();
        // The range of two rows is √2 times their difference in standard errors.
        let error = self.inflation * Sample::new(&differences)?.sd? / std::f64::consts::SQRT_2;
        Some(pooled.max(of(error, (self.blocks - 1) as f64)?))
    }

    /// The smallest difference from one given row that is not chance at this level, simultaneously for all other rows
    /// (Dunnett). `None` as in [`honest_difference`](Self::honest_difference).
    pub fn honest_difference_from_one(&self, level: f64, precision: Precision) -> Option<f64> {
        Some(dunnett_quantile(level, self.means.len() - 1, self.freedom) * self.error_of_difference(precision)?)
    }

    /// The difference of two rows' means, given by their indices, with an interval and a p-value that hold for the
    /// differences of all rows from the second one at once (Dunnett). Interval and p-value are `None` as in
    /// [`honest_difference`](Self::honest_difference); the whole is `None` if a row does not exist.
    pub fn against(&self, row: usize, baseline: usize, level: f64, precision: Precision) -> Option<Estimate> {
        let value = self.means.get(row)? - self.means.get(baseline)?;
        let half = self.honest_difference_from_one(level, precision);
        let p = self.error_of_difference(precision).map(|error| match (value, error) {
            (0.0, _) => 1.0,
            (_, 0.0) => 0.0,
            _ => dunnett_sf(value.abs() / error, self.means.len() - 1, self.freedom),
        });
        Some(Estimate { value, low: half.map(|half| value - half), high: half.map(|half| value + half), p })
    }

    fn error_of_difference(&self, precision: Precision) -> Option<f64> {
        Some(precision.spread(self.sd)? * (2.0 / self.blocks as f64).sqrt())
    }
}

/// The smallest difference that can be detected at this level, in residual standard deviations, with this number of rows and of blocks;
/// infinite with fewer than two of either.
pub fn reach(level: f64, rows: usize, blocks: usize) -> f64 {
    if rows < 2 || blocks < 2 {
        return f64::INFINITY;
    }
    range_quantile(level, rows, ((rows - 1) * (blocks - 1)) as f64) / (blocks as f64).sqrt()
}

/// Rows of independent measurements with equal spread and possibly different numbers of measurements.
#[derive(Debug, Clone, PartialEq)]
pub struct Groups {
    /// Mean of each row.
    pub means: Vec<f64>,
    /// Number of values of each row.
    pub counts: Vec<usize>,
    /// Standard deviation of one measurement around its row's mean, pooled over the rows.
    pub sd: f64,
    /// Degrees of freedom of `sd`: values − rows.
    pub freedom: f64,
    /// The standard error of each row's mean if the rows differ in their spread, or if a difference cannot be excluded.
    uneven: Option<Vec<f64>>,
}

impl Groups {
    /// Summarizes rows of values; `None` if there are fewer than two rows, a row is empty, or no row has two values.
    pub fn new(rows: &[Vec<f64>]) -> Option<Self> {
        let counts: Vec<usize> = rows.iter().map(Vec::len).collect();
        let values: usize = counts.iter().sum();
        if rows.len() < 2 || counts.contains(&0) || values <= rows.len() {
            return None;
        }
        let scale = scale_of(rows.iter().flatten());
        if scale != 1.0 {
            let of = Self::new(&divided(rows, scale))?;
            let means = of.means.iter().map(|mean| mean * scale).collect();
            let uneven = of.uneven.map(|errors| errors.iter().map(|error| error * scale).collect());
            return Some(Self { means, sd: of.sd * scale, uneven, ..of });
        }
        let means: Vec<f64> = rows.iter().map(|row| mean(row)).collect();
        let squares = |(row, mean): (&Vec<f64>, &f64)| row.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
        let squares: Vec<f64> = rows.iter().zip(&means).map(squares).collect();
        let freedom = (values - rows.len()) as f64;
        let sd = of_rows((squares.iter().sum::<f64>() / freedom).sqrt(), rows);
        let equal = counts.iter().all(|count| *count == counts[0]);
        let errors = squares.iter().zip(&counts).map(|(sum, n)| (sum / ((n - 1) * n) as f64).sqrt());
        // Cochran's C requires equal numbers of values, and with unequal numbers the pooled error is less accurate.
        let is_own =
            if equal { is_uneven(&squares, (counts[0] - 1) as f64) } else { counts.iter().all(|count| *count > 1) };
        let uneven = is_own.then(|| errors.collect());
        Some(Self { means, counts, sd, freedom, uneven })
    }

    /// True if rows are also compared by their own spreads: they differ in it (Cochran's C at 5 %), or have different numbers of
    /// values, two at least, with which that test is impossible.
    pub fn is_uneven(&self) -> bool {
        self.uneven.is_some()
    }

    /// True if the rows have the same number of values.
    pub fn is_balanced(&self) -> bool {
        self.counts.iter().all(|count| *count == self.counts[0])
    }

    /// The smallest difference of the means of two rows, given by their indices, that is not chance at this level,
    /// simultaneously for all pairs (Tukey and Kramer). `None` if a row does not exist, or if the spread is zero and
    /// the precision does not explain it.
    pub fn honest_difference(&self, first: usize, second: usize, level: f64, precision: Precision) -> Option<f64> {
        Some(range_quantile(level, self.means.len(), self.freedom) * self.error(first, second, precision)?)
    }

    /// The p-value of the difference of the means of two rows, corrected for all pairs. If the rows differ in their spread or in their
    /// numbers of values, the p-value of Games and Howell's test is computed, too, and the larger one is returned. `None` as in
    /// [`honest_difference`](Self::honest_difference).
    pub fn p(&self, first: usize, second: usize, precision: Precision) -> Option<f64> {
        let difference = self.means.get(first)? - self.means.get(second)?;
        let rows = self.means.len();
        let pooled = p(difference, self.error(first, second, precision)?, rows, self.freedom)?;
        let Some(errors) = &self.uneven else { return Some(pooled) };
        let error = |row: usize| ErrorOfMean { error: errors[row], freedom: (self.counts[row] - 1) as f64 };
        let difference_error = welch([error(first), error(second)]);
        let own_p = p(difference, difference_error.error / std::f64::consts::SQRT_2, rows, difference_error.freedom)?;
        Some(pooled.max(own_p))
    }

    fn error(&self, first: usize, second: usize, precision: Precision) -> Option<f64> {
        let (first, second) = (*self.counts.get(first)? as f64, *self.counts.get(second)? as f64);
        Some(precision.spread(self.sd)? * f64::midpoint(1.0 / first, 1.0 / second).sqrt())
    }
}

/// The rows, divided by a number.
fn divided(rows: &[Vec<f64>], by: f64) -> Vec<Vec<f64>> {
    rows.iter().map(|row| row.iter().map(|value| value / by).collect()).collect()
}

/// Largest ratio of variances whose probability is computed: products of larger ones overflow.
pub(super) const MAX_RATIO: f64 = 1e100;

/// True if one of several sums of squares, each with `freedom` degrees of freedom, is too large for equal variances (Cochran's
/// C, at 5 % for all of them). Two rows of blocks have the same squares.
fn is_uneven(squares: &[f64], freedom: f64) -> bool {
    let (rows, total) = (squares.len() as f64, squares.iter().sum::<f64>());
    let share = squares.iter().copied().fold(0.0, f64::max) / total;
    let Ok(ratio) = FisherSnedecor::new(freedom, (rows - 1.0) * freedom) else { return false };
    // The share is NaN if no row has a spread, and 1 if a single row has one.
    let value = ((rows - 1.0) * share / (1.0 - share)).min(MAX_RATIO);
    share > 1.0 / rows && rows * ratio.sf(value) < 1.0 - LEVEL
}

/// The standard deviation of residuals, or 0 if they are only rounding errors.
fn of_rows(sd: f64, rows: &[Vec<f64>]) -> f64 {
    let largest = rows.iter().flatten().fold(0.0, |largest: f64, value| largest.max(value.abs()));
    without_rounding(sd, largest, rows.iter().flatten())
}

fn p(difference: f64, error: f64, rows: usize, freedom: f64) -> Option<f64> {
    if difference == 0.0 {
        return Some(1.0);
    }
    let p = if error == 0.0 { 0.0 } else { range_sf(difference.abs() / error, rows, freedom) };
    (!p.is_nan()).then_some(p)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_row_with_a_spread_among_rows_without_is_uneven() {
        assert!(is_uneven(&[1.0, 0.0, 0.0], 2.0));
        assert!(is_uneven(&[1.0, 1e-320, 0.0], 2.0) && is_uneven(&[1e300, 1e-300], 3.0));
        assert!(!is_uneven(&[0.0, 0.0, 0.0], 2.0) && !is_uneven(&[1.0, 1.0, 1.0], 2.0));
        assert!(!is_uneven(&[f64::NAN, 1.0], 2.0) && !is_uneven(&[1.0], 2.0));
    }
}
