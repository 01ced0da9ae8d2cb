//! Levels of repeated looks at a growing sample that keep the error rate of a single look.
//!
//! After `n` values with a true mean of zero, `r = Σx / √Σx²` determines Student's t: |t| > c if and only if |r| > c √n
//! / √(n − 1 + c²). `r` is a Markov chain: with another value, r′ = r cos φ + sin φ, and the angle φ from −π/2 to π/2
//! has a density ∝ cosⁿ⁻¹ φ and is independent of the past, because the direction of a normal vector is uniform. So the
//! probability of never being beyond a bound follows from a backward recursion over functions of one variable.

use std::{
    collections::BTreeMap,
    f64::consts::{FRAC_PI_2, PI},
    sync::{Mutex, PoisonError},
};

use super::student::{LEVEL, quantile_anew};

mod piece;

use self::piece::Pieces;

/// The error that looks may add after the number of seeds was raised for the first time; each further raise adds half as
/// much as the one before.
pub const RAISE: f64 = 0.0025;
/// Most values for which the recursion is computed. Longer sequences are divided evenly (Bonferroni), which is valid,
/// with less power.
const MAX_VALUES: usize = 300;
/// Most steps of the secant method, which takes two or three.
const STEPS: usize = 20;
/// Relative tolerance of the error of a look.
const TOLERANCE: f64 = 1e-6;

/// The confidence level of every look at a sample, made at these numbers of values, with which the probability that any
/// look excludes the true mean is 5 %. It is between [`LEVEL`] and Bonferroni's level. Sizes below 2 allow no look and
/// are ignored.
pub fn constant_level(sizes: &[usize]) -> f64 {
    extension_level(&[], sizes, 1.0 - LEVEL)
}

/// The probability that at least one look, at a number of values and with a confidence level, excludes the true mean.
/// Accurate to 1e-6. Beyond 300 values, Bonferroni's upper bound.
pub fn error_rate(looks: &[(usize, f64)]) -> f64 {
    let looks = merged(looks.iter().copied());
    if looks.keys().next_back().is_some_and(|last| *last > MAX_VALUES) {
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
    if spend.is_nan() || spend <= 0.0 {
        return 1.0;
    }
    let spend = spend.min(1.0 - LEVEL);
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
    if planned.len() < 2 && made.is_empty() || longest.is_some_and(|longest| longest > MAX_VALUES) {
        return 1.0 - least;
    }
    let before = survival(&merged(made.iter().copied()));
    let added = |error: f64| {
        let looks = planned.iter().map(|size| (*size, 1.0 - error));
        before - survival(&merged(made.iter().copied().chain(looks)))
    };
    // The added probability is nearly a power of the error of a look, so a secant in the logarithms needs few steps.
    let miss = |log_error: f64| (added(log_error.exp()).max(f64::MIN_POSITIVE) / spend).ln();
    let (low, high) = (least.ln(), (1.0 - LEVEL).ln());
    // Looks one value apart need about this level; the power is about 0.83.
    let mut last = (spend.ln() - 0.72 * (planned.len() as f64).ln()).clamp(low, high);
    let mut at_last = miss(last);
    let mut next = (last - at_last / 0.83).clamp(low, high);
    for _ in 0..STEPS {
        if (next - last).abs() < TOLERANCE {
            break;
        }
        let at_next = miss(next);
        let guess = next - at_next * (next - last) / (at_next - at_last);
        (last, at_last) = (next, at_next);
        next = if guess.is_nan() { next } else { guess.clamp(low, high) };
    }
    if next >= high { LEVEL } else { 1.0 - next.exp() }
}

/// Looks in ascending order of size; of several looks at the same size, only the look with the lowest level counts.
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
        let later_pieces = next;
        next = Pieces::new(bound(size), &later_pieces, |r| {
            // r cos φ + sin φ = √(1 + r²) sin (φ + arctan r).
            later_pieces.integral((1.0 + r * r).sqrt(), r.atan(), size - 1) / norm
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
