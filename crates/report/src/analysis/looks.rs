//! Looks: the numbers of seeds at which a result is evaluated, and the level of each evaluation.
//!
//! Every evaluation that may end the collection of data is a chance for a wrong decision. The looks that a plan announces share one level,
//! so that the probability of a wrong decision at any of them equals the probability for a single look. Looks that are added after the
//! planned ones were made, because `seeds` or `max` was raised, add a small part to it.

use crate::{
    record::SeedPlan,
    stats::{LEVEL, RAISE, constant_level, error_rate, extension_level, level_of},
};

/// Planned and earlier looks of a side.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Looks {
    least: usize,
    most: usize,
    /// Earlier plans with fewer seeds, by their largest number.
    earlier: Vec<(usize, usize)>,
    /// The number of seeds of the first look of a plan with at least as many seeds, if it is smaller than `least`.
    looked_from: Option<usize>,
    /// True if seeds are planned beyond the measured ones, which `most` does not count.
    goes_on: bool,
    /// The number of seeds that a plan had under which measurements were made, if it is larger.
    chosen_from: Option<usize>,
}

/// The number of seeds for which a level allows at least while more seeds are planned. A sequence that stops at two seeds stops where they
/// happen to be close together, and an interval of one degree of freedom at 95 % then covers the mean in 94 % of the cases.
const LEAST_MOST: usize = 3;

/// The level of an evaluation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Level {
    /// The confidence level.
    pub(super) confidence: f64,
    /// Number of looks that it allows for.
    pub(super) looks: usize,
    /// The number of seeds at which earlier plans ended, if seeds were added after that.
    pub(super) raised_from: Option<usize>,
}

impl Looks {
    /// Looks at every number of seeds from `least` to `most`.
    pub(super) fn planned(least: usize, most: usize) -> Self {
        Self { least: least.max(1), most: most.max(1), ..Self::default() }
    }

    /// States that seeds are planned beyond the measured ones.
    pub(super) fn go_on(&mut self) {
        self.goes_on = true;
    }

    /// Adds the plans under which measurements were made. Plans with fewer seeds than planned now were looked at, and so were adaptive
    /// seeds that began with fewer.
    pub(super) fn add_made(&mut self, plans: impl Iterator<Item = SeedPlan>) {
        for SeedPlan { least, most } in plans {
            let earlier = (most, least.clamp(1, most.max(1)));
            // With adaptive seeds, only the least number was certainly measured.
            if self.most > 1 && least > self.most {
                self.chosen_from = self.chosen_from.max(Some(least));
            }
            if most > 1 && most < self.most && !self.earlier.contains(&earlier) {
                self.earlier.push(earlier);
            }
            if most >= self.most && (1..self.least).contains(&least) {
                self.looked_from = Some(self.looked_from.map_or(least, |from| from.min(least)));
            }
        }
        self.earlier.sort_unstable();
    }

    /// The looks of two sides together.
    pub(super) fn joined(&self, other: &Self) -> Self {
        let most = self.most.max(other.most);
        // Sides of which each has its own number of seeds are looked at once.
        let least = [self, other].into_iter().filter(|side| side.is_adaptive()).map(|side| side.least).min();
        let mut joined = Self {
            least: least.unwrap_or(most),
            most,
            earlier: self.earlier.clone(),
            goes_on: self.goes_on || other.goes_on,
            looked_from: self.looked_from.into_iter().chain(other.looked_from).min(),
            chosen_from: self.chosen_from.max(other.chosen_from),
        };
        // The other side has the seeds: its step has more at some points than at others.
        joined.chosen_from = joined.chosen_from.filter(|seeds| *seeds > joined.most);
        joined.earlier.extend(other.earlier.iter().filter(|plan| !self.earlier.contains(plan)));
        joined.earlier.retain(|(most, _)| *most < joined.most);
        joined.earlier.sort_unstable();
        joined
    }

    /// A remark on seeds that were measured and do not count.
    pub(super) fn chosen(&self) -> Option<String> {
        let seeds = self.chosen_from?;
        let most = self.most;
        Some(format!("chosen seeds: they were measured with {seeds} seeds, of which the recipe names {most}"))
    }

    /// True if the number of seeds depends on the results.
    pub(super) fn is_adaptive(&self) -> bool {
        self.least < self.most
    }

    /// True if there is no look before the last one.
    pub(super) fn is_single(&self) -> bool {
        !self.is_adaptive() && self.earlier.is_empty() && self.looked_from.is_none()
    }

    /// True if fewer than `n` seeds are planned.
    pub(super) fn ends_before(&self, n: usize) -> bool {
        self.most < n
    }

    /// The level of a look at `n` seeds that are added after the planned ones.
    pub(super) fn raised_level(&self, n: usize) -> f64 {
        let mut raised = Self { least: n, most: n, looked_from: None, ..self.clone() };
        raised.add_made(std::iter::once(SeedPlan { least: self.first(), most: self.most }));
        raised.level(n, true).confidence
    }

    /// The number of seeds of the first look of the present plan.
    fn first(&self) -> usize {
        self.looked_from.map_or(self.least, |from| from.min(self.least))
    }

    /// The numbers of seeds of each plan's looks, the earliest plan first.
    fn plans(&self) -> Vec<Vec<usize>> {
        let mut plans: Vec<Vec<usize>> = Vec::new();
        let mut last = 1;
        for (most, least) in self.earlier.iter().copied().chain([(self.most, self.first())]) {
            let sizes: Vec<usize> = (least.max(last + 1)..=most).collect();
            last = last.max(most);
            if !sizes.is_empty() {
                plans.push(sizes);
            }
        }
        plans
    }

    /// The numbers of seeds of the looks that are still to be made.
    pub(super) fn sizes(&self) -> Vec<usize> {
        self.plans().pop().unwrap_or_default()
    }

    /// The p-value of one look, corrected for all looks at this level: the probability that any of them has a p-value at least
    /// as small. `growing` as in [`level`](Self::level).
    pub(super) fn corrected(&self, p: f64, level: Level, growing: bool) -> f64 {
        /// Below this, the sum of the looks' p-values is as good as the recursion.
        const SMALL: f64 = 1e-5;
        let error_level = 1.0 - level.confidence;
        let plans = self.plans();
        match plans.as_slice() {
            // The recursion gives 5 % at the level, and so does the proportion.
            [sizes] if growing && sizes.len() > 1 && p < error_level => {
                let looks = || sizes.iter().map(|size| (*size, 1.0 - p)).collect::<Vec<_>>();
                if p < SMALL { p * sizes.len() as f64 } else { error_rate(&looks()).max(p) }
            }
            _ => (p * (1.0 - LEVEL) / error_level).min(1.0),
        }
    }

    /// The level of the look at `n` units. `growing` is true if every seed is a unit.
    pub(super) fn level(&self, n: usize, growing: bool) -> Level {
        if growing && self.goes_on && self.most < LEAST_MOST {
            return Self { most: LEAST_MOST, ..self.clone() }.level(n, growing);
        }
        let plans = self.plans();
        let looks: usize = plans.iter().map(Vec::len).sum();
        if !growing {
            // The units stay the same while their values become more precise: a bound that holds for any dependence.
            return Level { confidence: level_of(looks), looks: looks.max(1), raised_from: None };
        }
        let mut past_looks: Vec<(usize, f64)> = Vec::new();
        let mut result = Level { confidence: LEVEL, looks: 1, raised_from: None };
        let mut spend = RAISE;
        for sizes in &plans {
            // An earlier plan that ended above the present number has not been tested.
            if !past_looks.is_empty() && sizes.first().is_some_and(|first| *first > n) {
                break;
            }
            let level = if past_looks.is_empty() {
                constant_level(sizes)
            } else {
                let level = extension_level(&past_looks, sizes, spend);
                spend /= 2.0;
                level
            };
            let raised_from = past_looks.last().map(|(size, _)| *size);
            past_looks.extend(sizes.iter().map(|size| (*size, level)));
            result = Level { confidence: level, looks: past_looks.len(), raised_from };
        }
        result
    }
}

impl Level {
    /// The note about several looks, in words.
    pub(super) fn words(&self) -> Option<String> {
        match self.raised_from {
            Some(seeds) => Some(format!("seeds added after a look at {seeds}, so at {:.2} %", self.confidence * 100.0)),
            None if self.looks > 1 => Some(format!("over {} looks", self.looks)),
            None => None,
        }
    }
}
