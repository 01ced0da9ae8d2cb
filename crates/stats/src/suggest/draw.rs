//! Random numbers that are the same on every machine.

use crate::stats::Draws;

/// A number from the normal distribution between two bounds, of which at least one is within a few `sigma` of `mu`.
///
/// Draws until a number is between the bounds (Marsaglia's polar method, with the logarithm of `libm`). After
/// 10,000 draws, which does not happen to the estimates of this module, it is the nearest bound.
pub(super) fn truncated_normal(draws: &mut Draws, mu: f64, sigma: f64, low: f64, high: f64) -> f64 {
    const MAX_DRAWS: usize = 10_000;
    for _ in 0..MAX_DRAWS {
        let (u, v) = (2.0 * draws.uniform() - 1.0, 2.0 * draws.uniform() - 1.0);
        let square = u * u + v * v;
        if square >= 1.0 || square == 0.0 {
            continue;
        }
        // The second normal number of the pair is not used: simplicity matters more than a few draws.
        let number = mu + sigma * u * (-2.0 * libm::log(square) / square).sqrt();
        if (low..=high).contains(&number) {
            return number;
        }
    }
    mu.clamp(low, high)
}

/// An index, in proportion to weights that sum to 1.
pub(super) fn index(draws: &mut Draws, weights: &[f64]) -> usize {
    let at = draws.uniform();
    let mut sum = 0.0;
    for (index, weight) in weights.iter().enumerate() {
        sum += weight;
        if at < sum {
            return index;
        }
    }
    weights.len().saturating_sub(1)
}
