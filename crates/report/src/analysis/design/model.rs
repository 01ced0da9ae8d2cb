//! Power of a decision as a function of the number of seeds.

use std::{cell::RefCell, collections::BTreeMap};

use crate::{
    analysis::looks::Looks,
    record::SeedPlan,
    stats::{LEVEL, power, power_of_range, power_unpaired, sequential_power},
};

/// Maximum number of seeds that is considered.
pub(super) const MAX_SEEDS: usize = 1000;

/// Maximum number of adaptive seeds that is considered, because their power is simulated.
const MAX_ADAPTIVE: usize = 200;

/// The independent units of a decision, with their spread on its scale.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Units {
    /// Every seed is a unit: the difference of a pair, or a value.
    Seeds {
        /// Standard deviation of a unit.
        sd: f64,
    },
    /// Every seed is a value on each side, without pairs.
    Unpaired {
        /// Standard deviation of a value.
        sd: f64,
    },
    /// The values of other axes are the units. Seeds make each of them more precise.
    Levels {
        /// Number of units.
        count: usize,
        /// Variance of the units beyond the variance of their seeds.
        between: f64,
        /// Variance of a single difference or value within a unit.
        within: f64,
        /// Measurements of a unit with one seed.
        per_seed: f64,
        /// Variance of the effect of a seed on all units.
        common: f64,
    },
    /// The rows of a column, compared in pairs (Tukey).
    Rows {
        /// Number of rows.
        rows: usize,
        /// Standard deviation of a value around the effects of its row and its seed.
        sd: f64,
        /// True if the rows share seeds.
        blocked: bool,
    },
}

/// The power of a decision.
#[derive(Debug, Clone)]
pub(super) struct Model {
    units: Units,
    /// The difference to detect, on the scale of the decision.
    effect: f64,
    /// The first number of seeds at which the results are looked at, if their number depends on the results.
    least: Option<usize>,
    /// The plans under which the records were made.
    made: Vec<SeedPlan>,
    /// Number of tests among which the decision is corrected.
    tests: usize,
    known: RefCell<BTreeMap<usize, f64>>,
}

impl Model {
    pub(super) fn new(units: Units, effect: f64, least: Option<usize>, made: Vec<SeedPlan>, tests: usize) -> Self {
        Self { units, effect, least, made, tests: tests.max(1), known: RefCell::default() }
    }

    /// Standard deviation of a unit with this number of seeds.
    pub(super) fn sd(&self, seeds: usize) -> f64 {
        match self.units {
            Units::Seeds { sd } | Units::Unpaired { sd } | Units::Rows { sd, .. } => sd,
            Units::Levels { count, between, within, per_seed, common } => {
                let seeds = seeds.max(1) as f64;
                // The effect of a seed on all units does not average out over the units.
                (between + within / (per_seed * seeds) + common * count as f64 / seeds).sqrt()
            }
        }
    }

    /// The maximum number of seeds that is considered.
    pub(super) fn most(&self) -> usize {
        if self.least.is_some() { MAX_ADAPTIVE } else { MAX_SEEDS }
    }

    fn looks(&self, seeds: usize) -> Looks {
        let mut looks = Looks::planned(self.least.unwrap_or(seeds).min(seeds), seeds);
        looks.add_made(self.made.iter().copied());
        looks
    }

    /// The confidence level of the decision with this number of seeds: the level for its looks, corrected for all tests (Bonferroni).
    pub(super) fn level(&self, seeds: usize) -> f64 {
        if let Units::Rows { .. } = self.units {
            return LEVEL;
        }
        let growing = !matches!(self.units, Units::Levels { .. });
        let level = self.looks(seeds).level(seeds, growing).confidence;
        1.0 - (1.0 - level) / self.tests as f64
    }

    /// True if the level is stricter because records were made under plans with fewer seeds.
    pub(super) fn is_raised(&self, seeds: usize) -> bool {
        let growing = matches!(self.units, Units::Seeds { .. } | Units::Unpaired { .. });
        growing && self.looks(seeds).level(seeds, true).raised_from.is_some()
    }

    /// The power with this number of seeds; at most this number if it depends on the results.
    pub(super) fn power(&self, seeds: usize) -> f64 {
        if let Some(power) = self.known.borrow().get(&seeds) {
            return *power;
        }
        let power = self.compute(seeds);
        self.known.borrow_mut().insert(seeds, power);
        power
    }

    fn compute(&self, seeds: usize) -> f64 {
        let (level, effect) = (self.level(seeds), self.effect / self.sd(seeds));
        match self.units {
            Units::Seeds { .. } => {
                let sizes = self.looks(seeds).sizes();
                if sizes.len() > 1 && effect.is_finite() {
                    return sequential_power(effect, &sizes, level).share;
                }
                power(effect, seeds, level)
            }
            // With several looks, the power of the last look, which is a lower bound.
            Units::Unpaired { .. } => power_unpaired(effect, seeds, level),
            Units::Levels { count, common, .. } => {
                // The factor with fewer levels determines the degrees of freedom.
                let least = if common > 0.0 { count.min(seeds) } else { count };
                power(effect * (count as f64 / least.max(1) as f64).sqrt(), least, level)
            }
            Units::Rows { rows, blocked, .. } => {
                let freedom =
                    if blocked { (rows - 1) * seeds.saturating_sub(1) } else { rows * seeds.saturating_sub(1) };
                power_of_range(effect, rows, seeds, freedom as f64, level)
            }
        }
    }

    /// The fewest seeds with the power `wanted`; `None` if no number up to [`MAX_SEEDS`] has it.
    pub(super) fn needed(&self, wanted: f64) -> Option<usize> {
        let first = match self.units {
            Units::Levels { common: 0.0, .. } => 1,
            _ => 2,
        };
        let first = self.least.unwrap_or(0).max(first);
        let max_seeds = self.most();
        let enough = |seeds: usize| self.power(seeds) >= wanted;
        // More seeds than earlier plans had have a stricter level.
        let last_look = self.made.iter().map(|plan| plan.most).max().unwrap_or(0);
        if last_look > first && enough(last_look) {
            return Some(fewest(first, last_look, enough));
        }
        let mut first = first.max(last_look + 1);
        if self.least.is_some() {
            // Several looks need at least as many seeds as a single look, which needs no slow simulation.
            first = Self { least: None, made: Vec::new(), known: RefCell::default(), ..self.clone() }
                .needed(wanted)?
                .max(first);
        }
        let mut high = first;
        while !enough(high) {
            if high >= max_seeds {
                return None;
            }
            high = (if self.least.is_some() { high + high.div_ceil(4) } else { high * 2 }).min(max_seeds);
        }
        Some(fewest(first, high, enough))
    }
}

/// The smallest number from `low` to `high` for which `enough` is true. Assumes that it is true for all larger numbers, and for `high`.
fn fewest(low: usize, high: usize, enough: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (low, high);
    while low < high {
        let middle = usize::midpoint(low, high);
        if enough(middle) { high = middle } else { low = middle + 1 }
    }
    high
}
