//! Random numbers that are bit-identical on all machines.

use crate::stats::Draws;

/// Draws a number from the normal distribution, truncated to `low..=high`. At least one bound must be within a few
/// `sigma` of `mu`.
///
/// Repeats Marsaglia's polar method, with the logarithm of `libm`, until a number is between the bounds. After 10,000
/// attempts, which the estimates of this module do not need, returns `mu` or the bound that is nearest to it.
pub(super) fn truncated_normal(draws: &mut Draws, mu: f64, sigma: f64, low: f64, high: f64) -> f64 {
    const MAX_DRAWS: usize = 10_000;
    for _ in 0..MAX_DRAWS {
        let (u, v) = (2.0 * draws.uniform() - 1.0, 2.0 * draws.uniform() - 1.0);
        let square = u * u + v * v;
        if square >= 1.0 || square == 0.0 {
            continue;
        }
        // The second normal number of the pair is discarded for simplicity: a draw costs little.
        let number = mu + sigma * u * (-2.0 * libm::log(square) / square).sqrt();
        if (low..=high).contains(&number) {
            return number;
        }
    }
    mu.clamp(low, high)
}

/// Draws an index of `weights`, each with its weight as probability. Weights sum to 1.
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
