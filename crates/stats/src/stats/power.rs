//! Power of t-tests: the probability that an effect is told apart from zero, and the number of seeds that this needs.

use statrs::distribution::{ChiSquared, ContinuousCDF as _};

use super::{
    Draws, chi,
    range::{below, range_quantile},
    student::{LEVEL, quantile},
};

/// The power to aim at.
pub const WANTED: f64 = 0.8;

/// Sequences that [`sequential_power`] simulates.
const SEQUENCES: usize = 20_000;

/// A share that was simulated.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Simulated {
    /// The share, from 0 to 1.
    pub share: f64,
    /// Its standard error.
    pub standard_error: f64,
}

impl Simulated {
    /// The share of `hits` among `all`.
    pub fn new(hits: usize, all: usize) -> Self {
        let all = all.max(1) as f64;
        let share = hits as f64 / all;
        Self { share, standard_error: (share * (1.0 - share) / all).sqrt() }
    }
}

/// Power of a two-sided t-test of `n` values, or of the differences of `n` pairs, at this confidence level. `effect` is
/// the mean in standard deviations of one value or one difference. 0 for fewer than two.
pub fn power(effect: f64, n: usize, level: f64) -> f64 {
    if n < 2 {
        return 0.0;
    }
    beyond(effect * (n as f64).sqrt(), (n - 1) as f64, quantile((n - 1) as f64, level))
}

/// Power of a two-sided comparison of the means of two independent samples of `n` values each, of equal spread, at this
/// confidence level. `effect` is the difference of the means in standard deviations of one value. 0 for fewer than two.
pub fn power_unpaired(effect: f64, n: usize, level: f64) -> f64 {
    if n < 2 {
        return 0.0;
    }
    beyond(effect * (n as f64 / 2.0).sqrt(), (2 * n - 2) as f64, quantile((2 * n - 2) as f64, level))
}

/// Power of Tukey's test of all pairs of rows for one pair, each row with `n` values, at this confidence level for all
/// pairs together. `effect` is the difference of the two means in standard deviations of one value, of which `freedom` is
/// the degrees of freedom. 0 for fewer than two rows or values.
pub fn power_of_range(effect: f64, rows: usize, n: usize, freedom: f64, level: f64) -> f64 {
    if rows < 2 || n < 2 {
        return 0.0;
    }
    // The range of two values is √2 times a t variable.
    beyond(effect * (n as f64 / 2.0).sqrt(), freedom, range_quantile(level, rows, freedom) / 2.0_f64.sqrt())
}

/// The 95 % confidence interval of a standard deviation, from an observed one with this number of degrees of freedom.
/// `None` without any.
pub fn sd_interval(sd: f64, freedom: f64) -> Option<[f64; 2]> {
    let square = ChiSquared::new(freedom).ok()?;
    let end = |part: f64| sd * (freedom / square.inverse_cdf(part)).sqrt();
    let tail = (1.0 - LEVEL) / 2.0;
    Some([end(1.0 - tail), end(tail)])
}

/// The fewest pairs, of at most `most`, with which [`power`] reaches `wanted`.
pub fn seeds_needed(effect: f64, wanted: f64, level: f64, most: usize) -> Option<usize> {
    fewest(most, |n| power(effect, n, level) >= wanted)
}

/// The fewest values on each side, of at most `most`, with which [`power_unpaired`] reaches `wanted`.
pub fn seeds_needed_unpaired(effect: f64, wanted: f64, level: f64, most: usize) -> Option<usize> {
    fewest(most, |n| power_unpaired(effect, n, level) >= wanted)
}

/// Probability that a sequence of t-tests, made at these ascending numbers of values and each at this level, excludes
/// zero at least once. `effect` is the mean in standard deviations of one value. It is simulated, with the same draws
/// on every call.
pub fn sequential_power(effect: f64, sizes: &[usize], level: f64) -> Simulated {
    let mut sizes: Vec<usize> = sizes.iter().copied().filter(|size| *size > 1).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let looks: Vec<(usize, f64)> = sizes.iter().map(|size| (*size, quantile((size - 1) as f64, level))).collect();
    let mut draws = Draws::new(1);
    let hits = (0..SEQUENCES).filter(|_| {
        // Welford's update: every look uses the sums of the one before.
        let (mut n, mut mean, mut squares) = (0.0, 0.0, 0.0);
        looks.iter().any(|(size, bound)| {
            let total = *size as f64;
            while n < total {
                let value = effect + draws.normal();
                n += 1.0;
                let from_mean = value - mean;
                mean += from_mean / n;
                squares += from_mean * (value - mean);
            }
            mean.abs() > bound * (squares / (n - 1.0) / n).sqrt()
        })
    });
    Simulated::new(hits.count(), SEQUENCES)
}

/// Probability that the magnitude of a noncentral t variable exceeds a bound.
fn beyond(center: f64, freedom: f64, bound: f64) -> f64 {
    if bound.is_nan() || center.is_nan() {
        return f64::NAN;
    }
    if center.is_infinite() {
        return 1.0;
    }
    // Given the sample's deviation, the mean is normal.
    chi::expectation(freedom, center.abs(), |s| below(center - bound * s) + below(-center - bound * s))
}

/// The smallest number from 2 to `max_size` for which a condition holds that holds for all larger ones.
fn fewest(max_size: usize, enough: impl Fn(usize) -> bool) -> Option<usize> {
    if max_size < 2 || !enough(max_size) {
        return None;
    }
    let (mut low, mut high) = (1, max_size);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if enough(middle) { high = middle } else { low = middle }
    }
    Some(high)
}
