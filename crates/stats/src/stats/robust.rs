//! Robust estimates of the center of a sample: quantiles with the interval of the sign test, and the mean of the middle
//! half with Yuen's error. Also tests for outliers.

use statrs::distribution::{Binomial, DiscreteCDF as _};

use super::{ErrorOfMean, Estimate, sample::percentile};

/// Critical values of Dixon's Q, the ratio of gap to range, at 1 % for 5 to 10 values. The last one is used for more
/// values.
const DIXON: [f64; 6] = [0.821, 0.740, 0.680, 0.634, 0.598, 0.568];
/// Minimum number of values for a test for outliers: of three values, two are often close to each other by chance.
const MIN_VALUES: usize = 5;

/// The quantile `q` with the interval of the sign test, from the k-th smallest to the l-th largest value. By the
/// binomial distribution of the number of values below the quantile, each end leaves at most half of the error beyond
/// it. No distribution of the values is assumed. Both ends are `None` if either does not exist: at 95 %, a median needs
/// six values, and the quantile at 0.9 needs 36. The p-value belongs to the hypothesis that the quantile is 0. `None`
/// without values, or unless 0 < q < 1.
pub fn quantile_of(values: &[f64], q: f64, level: f64) -> Option<Estimate> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let value = percentile(&sorted, q)?;
    let below = Binomial::new(q, sorted.len() as u64).ok().filter(|_| 0.0 < q && q < 1.0)?;
    let side = (1.0 - level) / 2.0;
    // The ranks of the ends, from 1: `low` counts from the smallest value, `high` from the largest. 0 is a missing end.
    let low = (0..sorted.len()).take_while(|count| below.cdf(*count as u64) <= side).count();
    let high = (1..=sorted.len()).rev().take_while(|count| below.sf(*count as u64 - 1) <= side).count();
    let ends =
        low.checked_sub(1).zip(high.checked_sub(1)).map(|(low, high)| (sorted[low], sorted[sorted.len() - 1 - high]));
    Some(Estimate { value, low: ends.map(|ends| ends.0), high: ends.map(|ends| ends.1), p: sign_test(values, q, 0.0) })
}

/// The two-sided p-value of the hypothesis that the quantile `q` is `bound` (sign test, twice the smaller tail). `None`
/// if all values equal `bound`. For each tail, values that equal `bound` count on the side that makes the tail larger;
/// for the median they do not count.
pub fn sign_test(values: &[f64], q: f64, bound: f64) -> Option<f64> {
    let below = values.iter().filter(|value| **value < bound).count() as u64;
    let above = values.iter().filter(|value| **value > bound).count() as u64;
    if below + above == 0 {
        return None;
    }
    let equal = values.len() as u64 - below - above;
    let spared = if q == 0.5 { 0 } else { equal };
    let signs = Binomial::new(q, below + above + spared).ok()?;
    let (few, many) = (signs.cdf(below + spared), if below == 0 { 1.0 } else { signs.sf(below - 1) });
    Some((2.0 * few.min(many)).min(1.0))
}

/// The mean of the middle half of the values (a quarter of their number, rounded down, is cut off at each end), and its
/// standard error (Yuen). Fewer than four values are not cut. `None` without values; the error is `None` for a single
/// value.
pub fn middle_mean(values: &[f64]) -> Option<(f64, Option<ErrorOfMean>)> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let cut = sorted.len() / 4;
    let middle = sorted.get(cut..sorted.len() - cut).filter(|part| !part.is_empty())?;
    let (low, high, n) = (middle[0], middle[middle.len() - 1], middle.len() as f64);
    let mean = middle.iter().sum::<f64>() / n;
    let winsorized: Vec<f64> = sorted.iter().map(|value| value.clamp(low, high)).collect();
    let center = winsorized.iter().sum::<f64>() / winsorized.len() as f64;
    let squares: f64 = winsorized.iter().map(|value| (value - center).powi(2)).sum();
    let error = (n > 1.0).then(|| ErrorOfMean { error: (squares / (n * (n - 1.0))).sqrt(), freedom: n - 1.0 });
    Some((mean, error))
}

/// The values without outliers. An outlier is farther from the median than three times the median absolute deviation,
/// scaled to the standard deviation of a normal distribution (Leys et al., 2013). Returns all values if there are fewer
/// than five, or if more than half are equal.
pub fn without_outliers(values: &[f64]) -> Vec<f64> {
    /// Standard deviation of normal values in units of their median absolute deviation.
    const SD_OF_MAD: f64 = 1.482_602_218_505_602;
    /// Maximum distance from the median, in standard deviations.
    const MAX_DISTANCE: f64 = 3.0;
    let median_of = |values: &[f64]| {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        percentile(&sorted, 0.5)
    };
    let Some(median) = median_of(values).filter(|_| values.len() >= MIN_VALUES) else { return values.to_vec() };
    let distances: Vec<f64> = values.iter().map(|value| (value - median).abs()).collect();
    let max_distance = MAX_DISTANCE * SD_OF_MAD * median_of(&distances).unwrap_or(0.0);
    values.iter().copied().filter(|value| max_distance == 0.0 || (value - median).abs() <= max_distance).collect()
}

/// True if the smallest or the largest of at least five values is an outlier by Dixon's Q test at 1 %, so that it
/// dominates the mean.
pub fn is_carried_by_one(values: &[f64]) -> bool {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    if n < MIN_VALUES {
        return false;
    }
    let gap = (sorted[1] - sorted[0]).max(sorted[n - 1] - sorted[n - 2]);
    gap > DIXON[(n - MIN_VALUES).min(DIXON.len() - 1)] * (sorted[n - 1] - sorted[0])
}
