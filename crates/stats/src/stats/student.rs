//! Quantiles of Student's t distribution, levels, and Holm's correction.

use std::{cell::RefCell, collections::HashMap};

use statrs::distribution::{Continuous as _, ContinuousCDF as _, StudentsT};

use super::{range::below, solve::root};

/// Degrees of freedom beyond which Student's distribution is normal to ten digits.
const NORMAL: f64 = 1e9;

/// The confidence level of intervals.
pub const LEVEL: f64 = 0.95;

/// The level of a decision with this number of evaluations that stops at the first decision. By Bonferroni's
/// inequality, the probability of a wrong decision at any evaluation is no higher than with a single one at [`LEVEL`].
pub fn level_of(looks: usize) -> f64 {
    1.0 - (1.0 - LEVEL) / looks.max(1) as f64
}

/// Half-width of an interval of this level in standard errors; `freedom` must be above zero.
pub fn quantile(freedom: f64, level: f64) -> f64 {
    thread_local! {
        /// A cache: the cells of a table use few distinct quantiles.
        static KNOWN: RefCell<HashMap<[u64; 2], f64>> = RefCell::default();
    }
    let asked = [freedom.to_bits(), level.to_bits()];
    KNOWN.with_borrow_mut(|known| *known.entry(asked).or_insert_with(|| quantile_anew(freedom, level)))
}

/// [`quantile`], computed anew. The inverse in the library does not end for some degrees of freedom, and is accurate to
/// about eight digits.
pub(super) fn quantile_anew(freedom: f64, level: f64) -> f64 {
    let Ok(student) = StudentsT::new(0.0, 1.0, freedom) else { return f64::NAN };
    if level.is_nan() || level >= 1.0 {
        return if level.is_nan() { f64::NAN } else { f64::INFINITY };
    }
    if level <= 0.0 {
        return 0.0;
    }
    let tail = (1.0 - level) / 2.0;
    let is_normal = freedom > NORMAL;
    let sf = |t: f64| if is_normal { below(-t) } else { student.sf(t) };
    let miss = |log_t: f64| (sf(log_t.exp()).max(f64::MIN_POSITIVE) / tail).ln();
    let (mut low, mut high) = (0.0, 1.5);
    while miss(low) < 0.0 && low > -50.0 {
        (low, high) = (low - 4.0, low);
    }
    while miss(high) > 0.0 && high < 50.0 {
        (low, high) = (high, high + 4.0);
    }
    let mut t = root(miss, low, high, 1e-12).exp();
    if !is_normal {
        // Newton's method, to rounding.
        for _ in 0..2 {
            t -= (tail - student.sf(t)) / student.pdf(t);
        }
    }
    t
}

/// Holm's correction of p-values for multiple tests.
pub fn holm(probabilities: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..probabilities.len()).collect();
    order.sort_by(|a, b| probabilities[*a].total_cmp(&probabilities[*b]));
    let mut corrected = vec![0.0; probabilities.len()];
    let mut largest: f64 = 0.0;
    for (rank, index) in order.into_iter().enumerate() {
        let factor = (probabilities.len() - rank) as f64;
        largest = largest.max((probabilities[index] * factor).min(1.0));
        corrected[index] = largest;
    }
    corrected
}
