//! Centers of samples that single values do not carry: quantiles with the interval of the sign test, and the mean of the
//! middle half with Yuen's interval.

use statrs::distribution::{Binomial, DiscreteCDF as _};

use super::{ErrorOfMean, Estimate, sample::percentile};

/// Dixon's critical ratios of gap to range for 5 to 10 values at 1 %; that of 10 is used for more.
const DIXON: [f64; 6] = [0.821, 0.740, 0.680, 0.634, 0.598, 0.568];
/// Fewer values do not show it: two of three are often near each other.
const MIN_VALUES: usize = 5;

/// A quantile with the interval of the sign test: from the k-th smallest to the l-th largest value, where each end leaves at most
/// half of the error beyond it by the binomial distribution of the number of values below the quantile. No distribution of the
/// values is assumed. An end is missing if no value is far enough: a median has no interval at 95 % with fewer than six values, and the
/// quantile at 0.9 none with fewer than 36. `None` without values, or unless 0 < q < 1.
pub fn quantile_of(values: &[f64], q: f64, level: f64) -> Option<Estimate> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let value = percentile(&sorted, q)?;
    let below = Binomial::new(q, sorted.len() as u64).ok().filter(|_| 0.0 < q && q < 1.0)?;
    let side = (1.0 - level) / 2.0;
    // The number of the smallest, and of the largest, values that lie beyond the ends.
    let low = (0..sorted.len()).take_while(|count| below.cdf(*count as u64) <= side).count();
    let high = (1..=sorted.len()).rev().take_while(|count| below.sf(*count as u64 - 1) <= side).count();
    let ends =
        low.checked_sub(1).zip(high.checked_sub(1)).map(|(low, high)| (sorted[low], sorted[sorted.len() - 1 - high]));
    Some(Estimate { value, low: ends.map(|ends| ends.0), high: ends.map(|ends| ends.1), p: sign_test(values, q, 0.0) })
}

/// The two-sided p-value of the hypothesis that the quantile is `bound` (sign test, twice the smaller tail); `None` if all values are
/// equal to it. Values that are equal to the bound count on the side that contradicts the hypothesis less; at the median, they do not
/// count.
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

/// The mean of the middle half, without a quarter of the values at each end, rounded down, and its error (Yuen); `None`
/// without values. The error is `None` with a single one. With fewer than four values it is the mean.
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

/// The values without outliers: those that are farther from the median than three times the median absolute deviation, in units
/// of a standard deviation of normal values (Leys et al., 2013). All values if there are fewer than five, or if more than half
/// are equal.
pub fn without_outliers(values: &[f64]) -> Vec<f64> {
    /// Standard deviation of normal values in units of their median absolute deviation.
    const SD_OF_MAD: f64 = 1.482_602_218_505_602;
    /// The largest distance in standard deviations.
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

/// True if one value is so far from the others that it carries their mean (Dixon's Q at 1 %, from five values on).
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
