//! Levels of repeated looks at a growing sample that keep the error rate of a single look.
//!
//! After `n` values with a true mean of zero, `r = Σx / √Σx²` determines Student's t: |t| > c if and only if
//! |r| > c √n / √(n − 1 + c²). `r` is a Markov chain: with another value, r′ = r cos φ + sin φ, and the angle φ from −π/2 to π/2 has a
//! density ∝ cosⁿ⁻¹ φ and is independent of the past, because the direction of a normal vector is uniform. So the
//! probability of never being beyond a bound follows from a backward recursion over functions of one variable.

use std::{
    collections::BTreeMap,
    f64::consts::{FRAC_PI_2, PI},
    sync::{Mutex, PoisonError},
};

use super::{
    solve::root,
    student::{LEVEL, quantile_anew},
};

mod piece;

use self::piece::Pieces;

/// Most values for which the recursion is computed. Longer sequences are divided evenly (Bonferroni), which is valid,
/// with less power.
const MOST: usize = 300;

/// Most values between two looks for which the recursion is accurate: its functions have few nodes.
const MOST_BETWEEN: usize = 16;

/// The confidence level of every look at a sample, made at these numbers of values, with which the probability that any
/// look excludes the true mean is 5 %. It is between [`LEVEL`] and Bonferroni's level. Sizes below 2 allow no look and
/// are ignored.
pub fn constant_level(sizes: &[usize]) -> f64 {
    extension_level(&[], sizes, 1.0 - LEVEL)
}

/// The probability that at least one look, at a number of values and with a confidence level, excludes the true mean.
/// Beyond 300 values, or if there are more than 16 values between two looks, Bonferroni's upper bound.
pub fn error_rate(looks: &[(usize, f64)]) -> f64 {
    let looks = merged(looks.iter().copied());
    if looks.keys().next_back().is_some_and(|last| *last > MOST) || is_sparse(looks.keys().copied()) {
        return looks.values().map(|level| 1.0 - level).sum::<f64>().min(1.0);
    }
    1.0 - survival(&looks)
}

/// The confidence level of further looks at these numbers of values, after the looks that were already made, each with
/// its number of values and its level, decided nothing. The further looks add at most `spend` to the probability of
/// excluding the true mean. At least [`LEVEL`]; 1 if `spend` is not above zero.
pub fn extension_level(made: &[(usize, f64)], planned: &[usize], spend: f64) -> f64 {
    static KNOWN: Mutex<BTreeMap<Vec<u64>, f64>> = Mutex::new(BTreeMap::new());
    let planned: Vec<usize> = merged(planned.iter().map(|size| (*size, LEVEL))).into_keys().collect();
    let spend = spend.min(1.0 - LEVEL);
    if spend.is_nan() || spend <= 0.0 {
        return 1.0;
    }
    let sizes = planned.iter().map(|size| *size as u64);
    let before = made.iter().flat_map(|(size, level)| [*size as u64, level.to_bits()]);
    let asked: Vec<u64> = before.chain([spend.to_bits()]).chain(sizes).collect();
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(level) = known().get(&asked).copied() {
        return level;
    }
    let level = solve(made, &planned, spend);
    known().insert(asked, level);
    level
}

fn solve(made: &[(usize, f64)], planned: &[usize], spend: f64) -> f64 {
    let longest = made.iter().map(|(size, _)| *size).chain(planned.iter().copied()).max();
    let least = spend / planned.len().max(1) as f64;
    let mut sizes: Vec<usize> = made.iter().map(|(size, _)| *size).chain(planned.iter().copied()).collect();
    sizes.sort_unstable();
    let exact = longest.is_none_or(|longest| longest <= MOST) && !is_sparse(sizes.into_iter());
    if planned.len() < 2 && made.is_empty() || !exact {
        return 1.0 - least;
    }
    let before = survival(&merged(made.iter().copied()));
    let added = |error: f64| {
        let further = planned.iter().map(|size| (*size, 1.0 - error));
        before - survival(&merged(made.iter().copied().chain(further)))
    };
    // The added probability is nearly a power of the error of a look.
    let miss = |log_error: f64| (added(log_error.exp()).max(f64::MIN_POSITIVE) / spend).ln();
    let (low, high) = (least.ln(), (1.0 - LEVEL).ln());
    if miss(high) <= 0.0 {
        return LEVEL;
    }
    1.0 - root(miss, low, high, 1e-7).exp()
}

/// True if there are many values between two looks, given their ascending sizes.
fn is_sparse(sizes: impl Iterator<Item = usize> + Clone) -> bool {
    sizes.clone().zip(sizes.skip(1)).any(|(one, next)| next - one > MOST_BETWEEN)
}

/// Looks in ascending order of size; of several at the same size, the one with the lower level decides most.
fn merged(looks: impl Iterator<Item = (usize, f64)>) -> BTreeMap<usize, f64> {
    let mut merged = BTreeMap::new();
    for (size, level) in looks.filter(|(size, _)| *size > 1) {
        let known = merged.entry(size).or_insert(level);
        *known = level.min(*known);
    }
    merged
}

/// The probability that no look excludes the true mean.
fn survival(looks: &BTreeMap<usize, f64>) -> f64 {
    let (Some(first), Some(last)) = (looks.keys().next(), looks.keys().next_back()) else { return 1.0 };
    let bound = |size: usize| {
        let all = (size as f64).sqrt();
        looks.get(&size).map_or(all, |level| {
            let t = quantile_anew((size - 1) as f64, *level);
            if t.is_finite() { (all / ((size - 1) as f64 / (t * t) + 1.0).sqrt()).min(all) } else { all }
        })
    };
    let mut next = Pieces::constant(bound(*last));
    for size in (*first..*last).rev() {
        let norm = norm(size - 1);
        let further = next;
        next = Pieces::new(bound(size), &further, |r| {
            // r cos φ + sin φ = √(1 + r²) sin (φ + arctan r).
            further.integral((1.0 + r * r).sqrt(), r.atan(), size - 1) / norm
        });
    }
    // The direction of the first values is uniform, too: r = √n sin φ with a density ∝ cosⁿ⁻² φ.
    next.integral((*first as f64).sqrt(), 0.0, first - 2) / norm(first - 2)
}

/// ∫ cosᵖ φ dφ from −π/2 to π/2.
fn norm(power: usize) -> f64 {
    let start = if power.is_multiple_of(2) { PI } else { 2.0 };
    (1..=power)
        .rev()
        .step_by(2)
        .filter(|power| *power > 1)
        .fold(start, |norm, power| norm * (power - 1) as f64 / power as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulated with NumPy: of 40,000,000 samples, the shares that 95 % intervals of the first 3 or all 12 values, and of the
    /// first 4 or all 20, exclude the true mean at least once.
    #[test]
    fn two_looks_are_as_simulated() {
        assert!((error_rate(&[(3, 0.95), (12, 0.95)]) - 0.094_277).abs() < 2e-4);
        assert!((error_rate(&[(4, 0.95), (20, 0.95)]) - 0.094_441).abs() < 2e-4);
    }

    #[test]
    fn a_look_after_many_more_values_has_no_more_than_its_share() {
        for last in [28, 53, 74, 200, 299] {
            // The share alone is a bound, because it does not count on the overlap with the first look.
            let level = extension_level(&[(4, LEVEL)], &[last], 0.0025);
            assert!((0.9969..=0.9975).contains(&level), "{last}: {level}");
            let rate = error_rate(&[(4, LEVEL), (last, LEVEL)]);
            // Simulated as above: 0.0953, 0.0964, 0.0968, 0.0971 for 28, 53, 74 and 200.
            assert!((0.095..0.1001).contains(&rate), "{last}: {rate}");
        }
    }
}
