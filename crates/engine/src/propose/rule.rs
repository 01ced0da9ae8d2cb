//! The rule that decides how far a proposal runs: when its search is dropped, and at which numbers of sealed seeds its
//! confirmation may end.
//!
//! Only an acceptance at a look can be wrong, and the looks share the granted level with the exact boundaries of repeated
//! t-tests. Every other end of a proposal leads to no acceptance, so it cannot raise the rate of false discoveries.

use super::judge::{Effect, Verdict};
use crate::stats::{WANTED, extension_level, power, seeds_needed};

/// Fewest pairs at which a confirmation can accept.
pub(super) const MIN_PAIRS: usize = 4;
/// Every number of pairs up to this one is a stage; further ones grow by a quarter.
const DENSE: usize = 8;
/// Standard errors below the least effect at which a confirmation ends, because it is unlikely to reach it.
const FUTILE: f64 = 0.75;
/// Part of the level that a look has at least, for planning.
const SHARE_OF_LOOK: f64 = 0.2;
/// The smallest level for which the exact boundaries are computed; their accuracy is 1e-6. Looks at smaller levels divide the level evenly.
const EXACT: f64 = 5e-5;
/// Number of levels per factor of two for which the exact boundaries are computed. A level in between uses the boundaries of the next lower
/// level, so few boundaries serve all tests of a ledger.
const STEPS: f64 = 16.0;
/// Differences below this fraction of the noise are rounding errors.
const ROUNDING: f64 = 1e-6;

/// Decision about a search after some of its seeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// The next seed runs, or the confirmation after the last seed.
    GoesOn,
    /// The verdict is [`Verdict::Dropped`].
    Dropped,
}

/// Decides about a search with its first seeds, which are `of` in all. `sealed` has the known values of the baseline with sealed
/// seeds, `least` is the least effect, `sd` the noise of the baseline, all in the metric's unit; `sign` is 1 if larger values are better, else −1.
///
/// A search continues while its improvement is at least half of the least effect, and proceeds to the confirmation if it is at least the
/// least effect.
pub fn search(effect: &Effect, of: usize, sealed: &[f64], sign: f64, least: f64, sd: f64) -> Next {
    if effect.mean.abs() <= ROUNDING * sd {
        return Next::Dropped;
    }
    let threshold = if effect.seeds.len() < of { least / 2.0 } else { least };
    if improvement(effect, sealed, sign) >= threshold { Next::GoesOn } else { Next::Dropped }
}

/// The improvement of a search: the mean of the improvements over the baseline with the same seeds and over the baseline with sealed seeds.
/// A baseline that was lucky with the few seeds of the search hides less of a gain.
pub(super) fn improvement(effect: &Effect, sealed: &[f64], sign: f64) -> f64 {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
    if sealed.is_empty() {
        return effect.mean;
    }
    f64::midpoint(effect.mean, sign * (mean(&effect.candidate) - mean(sealed)))
}

/// The numbers of pairs after which a confirmation may end.
#[derive(Debug, Clone, PartialEq)]
pub struct Stages {
    sizes: Vec<usize>,
    /// The level of all looks together.
    level: f64,
    /// The level of each look.
    bound: f64,
}

impl Stages {
    /// The stages of a confirmation with at most this number of pairs, at a level.
    pub fn new(most: usize, level: f64) -> Self {
        let mut sizes = vec![1];
        while let Some(last_size) = sizes.last().copied().filter(|last_size| *last_size < most) {
            sizes.push(if last_size < DENSE { last_size + 1 } else { last_size + last_size / 4 }.min(most));
        }
        Self::of(sizes, level)
    }

    /// Stages of these sizes, the last of which is the largest. A single one is a single test.
    pub(super) fn of(sizes: Vec<usize>, level: f64) -> Self {
        let looks: Vec<usize> = sizes.iter().copied().filter(|size| *size >= MIN_PAIRS).collect();
        let bound = match looks.len() {
            0 | 1 => level,
            count if level < EXACT => level / count as f64,
            // Both sides have the level, and only one of them accepts.
            _ => {
                let level_below = ((level.log2() * STEPS).floor() / STEPS).exp2();
                (1.0 - extension_level(&[], &looks, 2.0 * level_below)) / 2.0
            }
        };
        Self { sizes, level, bound: bound.min(level) }
    }

    /// The numbers of pairs, in ascending order.
    pub fn sizes(&self) -> &[usize] {
        &self.sizes
    }

    /// The level of all looks together.
    pub fn level(&self) -> f64 {
        self.level
    }

    /// The level of a look at this number of pairs; 0 if there is no look.
    pub fn level_of_look(&self, pairs: usize) -> f64 {
        let is_look = self.sizes.contains(&pairs) && (pairs >= MIN_PAIRS || self.sizes.len() == 1);
        if is_look { self.bound } else { 0.0 }
    }

    /// True if a confirmation with this effect ends: it is accepted, complete, or unlikely to reach the least effect.
    pub fn is_end(&self, effect: &Effect, sign: f64, least: f64, sd: f64) -> bool {
        let pairs = effect.seeds.len();
        let is_complete = self.sizes.last().is_none_or(|last_size| pairs >= *last_size);
        let error = sd * (2.0 / pairs.max(1) as f64).sqrt();
        let is_futile = effect.mean < least - FUTILE * error;
        is_complete || is_futile || effect.judge(sign, least, self).0 == Verdict::Accepted
    }
}

/// The maximum number of pairs of a confirmation at this level, at most `most`, and its power: with them, the last look alone finds the
/// least effect with a power of 80 %. `sd` is the standard deviation of a value.
pub fn pairs(least: f64, sd: f64, level: f64, most: usize) -> (usize, f64) {
    // Uses the difference of two independent values; values of the same seed rarely differ more.
    let effect = least / (sd * 2.0_f64.sqrt());
    // A one-sided test.
    let level = 1.0 - 2.0 * level * SHARE_OF_LOOK;
    let pairs = seeds_needed(effect, WANTED, level, most).unwrap_or(most).clamp(MIN_PAIRS, most.max(MIN_PAIRS));
    (pairs, power(effect, pairs, level))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Draws;

    fn effect(old: &[f64], new: &[f64]) -> Effect {
        Effect::new(vec![0; old.len()], old.to_vec(), new.to_vec(), 1.0).unwrap()
    }

    /// The share of confirmations that accept a change, and their mean number of pairs; values of the candidate have this mean and
    /// deviation, values of the baseline 0 and 1. Ends before an acceptance are left out unless `ends`.
    fn share(mean: f64, deviation: f64, ends: bool) -> (f64, f64) {
        const CONFIRMATIONS: usize = 20_000;
        let (mut draws, stages) = (Draws::new(5), Stages::new(12, 0.02));
        let (mut accepted, mut pairs) = (0, 0);
        for _ in 0..CONFIRMATIONS {
            let (mut old, mut new) = (Vec::new(), Vec::new());
            for size in stages.sizes() {
                while old.len() < *size {
                    old.push(draws.normal());
                    new.push(mean + deviation * draws.normal());
                }
                let effect = effect(&old, &new);
                // The smallest least effect, with which every small p-value accepts.
                let least = if ends { 1.0 } else { 1e-9 };
                let is_accepted = effect.judge(1.0, least, &stages).0 == Verdict::Accepted;
                accepted += usize::from(is_accepted);
                if is_accepted || ends && stages.is_end(&effect, 1.0, least, 1.0) {
                    break;
                }
            }
            pairs += old.len();
        }
        (accepted as f64 / CONFIRMATIONS as f64, pairs as f64 / CONFIRMATIONS as f64)
    }

    #[test]
    fn looks_together_have_the_granted_level() {
        // Twice the standard error of 20,000 confirmations at a level of 2 %.
        const MARGIN: f64 = 0.002;
        let (rate, _) = share(0.0, 1.0, false);
        assert!((rate - 0.02).abs() < MARGIN, "{rate}");
        // Pairs take any variances.
        let (uneven_rate, _) = share(0.0, 4.0, false);
        assert!((uneven_rate - 0.02).abs() < MARGIN, "{uneven_rate}");
        let (end_rate, pairs) = share(0.0, 1.0, true);
        assert!(end_rate < 0.02 && pairs < 3.5, "{end_rate} with {pairs} pairs");
        let (power, pairs) = share(3.0, 1.0, true);
        assert!(power > 0.9 && pairs < 7.0, "{power} with {pairs} pairs");
    }

    #[test]
    fn stages_grow_up_to_the_most() {
        assert_eq!(Stages::new(20, 0.01).sizes(), [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 18, 20]);
        assert_eq!(Stages::new(4, 0.01).level_of_look(4), 0.01, "a single look has the whole level");
        let (stages, strict_stages) = (Stages::new(20, 0.01), Stages::new(20, 1e-6));
        assert_eq!((stages.level_of_look(3), stages.level_of_look(9), stages.level_of_look(25)), (0.0, 0.0, 0.0));
        assert!((0.001..0.01).contains(&stages.level_of_look(4)), "{}", stages.level_of_look(4));
        assert!((strict_stages.level_of_look(4) - 1e-7).abs() < 1e-12, "ten looks divide a tiny level");
    }

    #[test]
    fn searches_are_dropped_below_the_bar() {
        let sealed = [0.0, 0.2, -0.2];
        let next = |old: &[f64], new: &[f64]| search(&effect(old, new), 2, &sealed, 1.0, 1.0, 0.2);
        assert_eq!(next(&[0.1], &[0.7]), Next::GoesOn, "half of the least effect after the first seed");
        assert_eq!(next(&[0.1], &[0.5]), Next::Dropped);
        assert_eq!(next(&[0.1, 0.1], &[1.2, 1.2]), Next::GoesOn);
        assert_eq!(next(&[0.1, 0.1], &[0.9, 0.9]), Next::Dropped, "the least effect after the last");
        // A lucky baseline hides less, and rounding is not an effect.
        assert_eq!(next(&[0.6], &[1.0]), Next::GoesOn);
        assert_eq!(next(&[2.0], &[2.0 + 1e-9]), Next::Dropped);
    }
}
