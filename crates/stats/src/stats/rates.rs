//! Shares of runs, such as failed runs: exact intervals and tests on two proportions, paired or not.

use statrs::{
    distribution::{Beta, Binomial, ContinuousCDF as _, DiscreteCDF as _},
    function::factorial::ln_binomial,
};

use super::Estimate;

/// Counts of runs of one or two sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rates {
    /// One side: the number of events among the runs.
    One {
        /// Events.
        events: usize,
        /// Runs.
        runs: usize,
    },
    /// Two sides with the same seeds: pairs with an event on the first side only, on the second side only, and all pairs.
    Paired {
        /// Pairs with an event on the first side only.
        first: usize,
        /// Pairs with an event on the second side only.
        second: usize,
        /// All pairs.
        pairs: usize,
    },
    /// Two independent sides: events and runs of each.
    Independent {
        /// Events and runs of the first side.
        first: [usize; 2],
        /// Events and runs of the second side.
        second: [usize; 2],
    },
}

impl Rates {
    /// The share, or the difference of the shares.
    pub fn value(self) -> f64 {
        let share = |[events, runs]: [usize; 2]| events as f64 / runs as f64;
        match self {
            Self::One { events, runs } => share([events, runs]),
            Self::Paired { first, second, pairs } => share([first, pairs]) - share([second, pairs]),
            Self::Independent { first, second } => share(first) - share(second),
        }
    }

    /// The share or the difference with an interval of at least this level. The interval of a share is Clopper and Pearson's. The interval
    /// of a difference follows from the intervals of two shares, each with half of the error, and excludes zero if the exact test rejects
    /// zero.
    pub fn estimate(self, level: f64) -> Estimate {
        let value = self.value();
        let half = f64::midpoint(1.0, level);
        let [low, high] = match self {
            Self::One { events, runs } => clopper_pearson([events, runs], level),
            Self::Paired { first, second, pairs } => {
                difference(clopper_pearson([first, pairs], half), clopper_pearson([second, pairs], half))
            }
            Self::Independent { first, second } => {
                difference(clopper_pearson(first, half), clopper_pearson(second, half))
            }
        };
        let p = self.p_at_zero();
        let is_told = p.is_some_and(|p| p <= 1.0 - level);
        // The set of numbers that their tests do not reject, of which each may be another test.
        let low = if is_told && value > 0.0 { low.max(f64::EPSILON) } else { low };
        let high = if is_told && value < 0.0 { high.min(-f64::EPSILON) } else { high };
        Estimate { value, low: Some(low), high: Some(high), p }
    }

    /// Two-sided p-value of the hypothesis that the share or the difference is `bound`.
    pub fn p_at(self, bound: f64) -> f64 {
        if bound == 0.0
            && let Some(p) = self.p_at_zero()
        {
            return p;
        }
        // The level at which the interval ends at the bound.
        let (mut inside, mut outside) = (1.0_f64, 0.0_f64);
        for _ in 0..60 {
            let p = f64::midpoint(inside, outside);
            let interval = self.estimate(1.0 - p);
            let contains =
                interval.low.is_none_or(|low| low <= bound) && interval.high.is_none_or(|high| bound <= high);
            if contains { outside = p } else { inside = p }
        }
        inside
    }

    /// `McNemar`'s exact test of pairs, Fisher's exact test of independent sides; `None` for one side.
    fn p_at_zero(self) -> Option<f64> {
        match self {
            Self::One { .. } => None,
            Self::Paired { first, second, .. } => {
                let signs = Binomial::new(0.5, (first + second) as u64).ok()?;
                Some((2.0 * signs.cdf(first.min(second) as u64)).min(1.0))
            }
            Self::Independent { first, second } => Some(fisher(first, second)),
        }
    }
}

fn difference([low, high]: [f64; 2], [other_low, other_high]: [f64; 2]) -> [f64; 2] {
    [low - other_high, high - other_low]
}

/// Clopper and Pearson's interval of a share.
fn clopper_pearson([events, runs]: [usize; 2], level: f64) -> [f64; 2] {
    let side = (1.0 - level) / 2.0;
    let (few, many) = (events as f64, (runs - events.min(runs)) as f64);
    let low = if events == 0 { 0.0 } else { Beta::new(few, many + 1.0).map_or(0.0, |beta| beta.inverse_cdf(side)) };
    let high =
        if many == 0.0 { 1.0 } else { Beta::new(few + 1.0, many).map_or(1.0, |beta| beta.inverse_cdf(1.0 - side)) };
    [low, high]
}

/// The two-sided p-value of Fisher's exact test: the probability of all tables that are at most as probable as this one.
fn fisher([a, n]: [usize; 2], [b, m]: [usize; 2]) -> f64 {
    let events = a + b;
    let choose = |of: usize, chosen: usize| ln_binomial(of as u64, chosen as u64);
    let probability = |first: usize| (choose(n, first) + choose(m, events - first) - choose(n + m, events)).exp();
    let observed = probability(a) * (1.0 + 1e-7);
    let probabilities = (events.saturating_sub(m)..=events.min(n)).map(probability).filter(|p| *p <= observed);
    probabilities.sum::<f64>().min(1.0)
}
