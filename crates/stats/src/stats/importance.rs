//! Importance of factors: the functional analysis of variance of a response over their values.
//!
//! The variance of a function of several factors is the sum of the variances of its main effects and interactions. A
//! factor's share alone is the share of its main effect. Its share with interactions is the variance that disappears if
//! the function is averaged over the factor (the total index of Sobol; Homma and Saltelli, 1996). For a full factorial,
//! both are sums over its cells. For other designs, a random forest estimates the function, and the shares come from
//! its trees (Hutter, Hoos and Leyton-Brown, 2014); `fit` rates the out-of-bag predictions: the predictions for each
//! configuration by the trees that were not trained on it.

mod forest;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use self::forest::Forest;

/// A factor: its value in each configuration.
#[derive(Debug, Clone, PartialEq)]
pub enum Factor {
    /// Numbers; for a factor on a logarithmic scale, their logarithms.
    Numbers(Vec<f64>),
    /// Categories, numbered from 0.
    Categories(Vec<usize>),
}

/// The importance of some factors for a response.
#[derive(Debug, Clone, PartialEq)]
pub struct Importance {
    /// The shares of the factors, in their order.
    pub shares: Vec<Share>,
    /// The share of the variance that main effects do not explain, from 0 to 1.
    pub interactions: f64,
    /// The coefficient of determination (R²) of out-of-bag predictions: at most 1, and negative if the mean predicts
    /// better. `None` for a full factorial, whose shares are exact.
    pub fit: Option<f64>,
}

/// A factor's shares of the variance, each from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Share {
    /// The share of its main effect.
    pub alone: f64,
    /// The share of its main effect and of all interactions that it is part of.
    pub whole: f64,
}

/// Minimum number of configurations for a forest.
pub const MIN_CONFIGURATIONS: usize = 8;

/// The importance of `factors` for a response, which has a value for each configuration. `None` without factors, if the
/// values are equal (up to rounding), if a number is not finite, if a factor has another number of values than the
/// response, or if fewer than [`MIN_CONFIGURATIONS`] configurations are not a full factorial.
pub fn importance(factors: &[Factor], values: &[f64]) -> Option<Importance> {
    let finite = |factor: &Factor| match factor {
        Factor::Numbers(numbers) => numbers.len() == values.len() && numbers.iter().all(|number| number.is_finite()),
        Factor::Categories(categories) => categories.len() == values.len(),
    };
    if factors.is_empty() || !factors.iter().all(finite) || values.iter().any(|value| !value.is_finite()) {
        return None;
    }
    // Shares do not depend on the unit. Values from -1 to 1 have finite squares.
    let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
    let largest = values.iter().fold(0.0, |largest: f64, value| largest.max((value - mean).abs()));
    if !largest.is_finite() || !mean.is_finite() || largest <= 1e-12 * mean.abs() {
        return None;
    }
    let values: Vec<f64> = values.iter().map(|value| (value - mean) / largest).collect();
    let levels: Vec<Levels> = factors.iter().map(Levels::new).collect();
    if is_full(&levels, values.len()) {
        return Some(exact(&levels, &values));
    }
    if values.len() < MIN_CONFIGURATIONS {
        return None;
    }
    let forest = Forest::new(factors, &levels, &values)?;
    let (shares, interactions) = forest.shares();
    Some(Importance { shares, interactions, fit: Some(forest.fit(&values)) })
}

/// The distinct values of a factor.
#[derive(Debug, Clone)]
struct Levels {
    /// Their number.
    count: usize,
    /// The level of each configuration. Levels of numbers are in ascending order.
    of: Vec<usize>,
}

impl Levels {
    fn new(factor: &Factor) -> Self {
        match factor {
            Factor::Numbers(numbers) => {
                let mut sorted = numbers.clone();
                sorted.sort_by(f64::total_cmp);
                sorted.dedup();
                let of = numbers.iter().map(|number| sorted.partition_point(|level| level < number)).collect();
                Self { count: sorted.len(), of }
            }
            Factor::Categories(categories) => {
                let count = categories.iter().map(|category| category + 1).max().unwrap_or(0);
                Self { count, of: categories.clone() }
            }
        }
    }
}

/// True if every combination of levels occurs exactly once.
fn is_full(levels: &[Levels], configurations: usize) -> bool {
    let cells = levels.iter().try_fold(1_usize, |cells, levels| cells.checked_mul(levels.count));
    if cells != Some(configurations) {
        return false;
    }
    let mut seen = vec![false; configurations];
    (0..configurations).all(|row| {
        let cell = levels.iter().fold(0, |cell, levels| cell * levels.count + levels.of[row]);
        !std::mem::replace(&mut seen[cell], true)
    })
}

/// The shares of a full factorial.
fn exact(levels: &[Levels], values: &[f64]) -> Importance {
    let variance = |groups: &dyn Fn(usize) -> Vec<usize>| {
        let mut sums: BTreeMap<Vec<usize>, (f64, f64)> = BTreeMap::new();
        for (row, value) in values.iter().enumerate() {
            let (sum, count) = sums.entry(groups(row)).or_default();
            (*sum, *count) = (*sum + value, *count + 1.0);
        }
        // In a full factorial, all groups have the same size; the mean of the values is 0.
        sums.values().map(|(sum, count)| (sum / count).powi(2)).sum::<f64>() / sums.len() as f64
    };
    let total = values.iter().map(|value| value * value).sum::<f64>() / values.len() as f64;
    let shares: Vec<Share> = (0..levels.len())
        .map(|factor| {
            let alone = variance(&|row| vec![levels[factor].of[row]]);
            let others = (0..levels.len()).filter(|other| *other != factor).collect::<Vec<_>>();
            let without = variance(&|row| others.iter().map(|other| levels[*other].of[row]).collect());
            Share { alone: share(alone, total), whole: share(total - without, total) }
        })
        .collect();
    let interactions = rest(&shares);
    Importance { shares, interactions, fit: None }
}

fn share(part: f64, total: f64) -> f64 {
    (part / total).clamp(0.0, 1.0)
}

/// The share of the variance that main effects do not explain.
fn rest(shares: &[Share]) -> f64 {
    (1.0 - shares.iter().map(|share| share.alone).sum::<f64>()).clamp(0.0, 1.0)
}
