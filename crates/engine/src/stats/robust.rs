//! Centers of samples that single values do not carry: the median with the interval of the sign test, and the mean of the
//! middle half with Yuen's interval.

use statrs::distribution::{Binomial, DiscreteCDF as _};

use super::{ErrorOfMean, Estimate, Quartiles};

/// Dixon's critical ratios of gap to range for 5 to 10 values at 1 %; that of 10 is used for more.
const DIXON: [f64; 6] = [0.821, 0.740, 0.680, 0.634, 0.598, 0.568];
/// Fewer values do not show it: two of three are often near each other.
const LEAST: usize = 5;

/// The median with the interval of the sign test: from the k-th smallest to the k-th largest value, with the largest k for
/// which the interval has at least this level. No distribution is assumed. There is no interval at 95 % with fewer than six
/// values. `None` without values.
pub fn median(values: &[f64], level: f64) -> Option<Estimate> {
    let value = Quartiles::new(values)?.median;
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let signs = Binomial::new(0.5, sorted.len() as u64).ok()?;
    let excluded = (0..sorted.len() / 2).take_while(|below| 2.0 * signs.cdf(*below as u64) <= 1.0 - level).count();
    let ends = excluded.checked_sub(1).map(|index| (sorted[index], sorted[sorted.len() - 1 - index]));
    Some(Estimate { value, low: ends.map(|ends| ends.0), high: ends.map(|ends| ends.1), p: sign_test(values, 0.0) })
}

/// The two-sided p-value of the hypothesis that the median is `bound` (sign test); `None` if all values are equal to it.
pub fn sign_test(values: &[f64], bound: f64) -> Option<f64> {
    let below = values.iter().filter(|value| **value < bound).count() as u64;
    let above = values.iter().filter(|value| **value > bound).count() as u64;
    let signs = Binomial::new(0.5, below + above).ok().filter(|_| below + above > 0)?;
    Some((2.0 * signs.cdf(below.min(above))).min(1.0))
}

/// The mean of the middle half, without a quarter of the values at each end, rounded down, and its error (Yuen); `None`
/// without values. The error is `None` with a single one. With fewer than four values it is the mean.
pub fn middle_mean(values: &[f64]) -> Option<(f64, Option<ErrorOfMean>)> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let cut = sorted.len() / 4;
    let kept = sorted.get(cut..sorted.len() - cut).filter(|kept| !kept.is_empty())?;
    let (low, high, rest) = (kept[0], kept[kept.len() - 1], kept.len() as f64);
    let mean = kept.iter().sum::<f64>() / rest;
    let winsorized: Vec<f64> = sorted.iter().map(|value| value.clamp(low, high)).collect();
    let center = winsorized.iter().sum::<f64>() / winsorized.len() as f64;
    let squares: f64 = winsorized.iter().map(|value| (value - center).powi(2)).sum();
    let error =
        (rest > 1.0).then(|| ErrorOfMean { error: (squares / (rest * (rest - 1.0))).sqrt(), freedom: rest - 1.0 });
    Some((mean, error))
}

/// True if one value is so far from the others that it carries their mean (Dixon's Q at 1 %, from five values on).
pub fn is_carried_by_one(values: &[f64]) -> bool {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    if n < LEAST {
        return false;
    }
    let gap = (sorted[1] - sorted[0]).max(sorted[n - 1] - sorted[n - 2]);
    gap > DIXON[(n - LEAST).min(DIXON.len() - 1)] * (sorted[n - 1] - sorted[0])
}
