//! Estimates of factorial effects: the error of measurements in blocks, simultaneous intervals, and Shapley values.

use statrs::{
    distribution::{ContinuousCDF as _, FisherSnedecor},
    function::{erf::erf, gamma::ln_gamma},
};

use super::{Estimate, blocks::MAX_RATIO};

/// The variation between repeated measurements.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Noise {
    /// The variance of a single measurement.
    pub variance: f64,
    /// The degrees of freedom of the variance.
    pub freedom: f64,
}

impl Noise {
    /// The residual variance of an additive model of points and blocks (randomized complete blocks). Each point has one
    /// measurement per block. `None` if there is nothing left to estimate it from.
    pub fn in_blocks(points: &[Vec<f64>]) -> Option<Self> {
        let blocks = points.first()?.len();
        let freedom = (points.len() - 1) * blocks.checked_sub(1)?;
        if freedom == 0 || points.iter().any(|values| values.len() != blocks) {
            return None;
        }
        let of_point: Vec<f64> = points.iter().map(|values| mean(values)).collect();
        let of_block: Vec<f64> = (0..blocks)
            .map(|block| points.iter().map(|values| values[block]).sum::<f64>() / points.len() as f64)
            .collect();
        let total_mean = mean(&of_point);
        let residuals = points.iter().zip(&of_point).flat_map(|(values, of_point)| {
            values.iter().zip(&of_block).map(move |(value, of_block)| value - of_point - (of_block - total_mean))
        });
        Some(Self::of(residuals, freedom, points))
    }

    /// The pooled variance within points, whose measurements are independent.
    pub fn within(points: &[Vec<f64>]) -> Option<Self> {
        let freedom = points.iter().map(|values| values.len().saturating_sub(1)).sum::<usize>();
        let residuals = points.iter().flat_map(|values| {
            let mean = mean(values);
            values.iter().map(move |value| value - mean)
        });
        (freedom > 0).then(|| Self::of(residuals, freedom, points))
    }

    fn of(residuals: impl Iterator<Item = f64>, freedom: usize, points: &[Vec<f64>]) -> Self {
        let variance = residuals.map(|residual| residual * residual).sum::<f64>() / freedom as f64;
        // Equal numbers differ from their mean by a rounding error, which is not a spread.
        let largest = points.iter().flatten().fold(0.0, |largest: f64, value| largest.max(value.abs()));
        let variance = if variance.sqrt() <= 1e-12 * largest { 0.0 } else { variance };
        Self { variance, freedom: freedom as f64 }
    }

    /// The p-value of equal means of all points (F test); `None` without variation, or with a single point.
    pub fn equality(&self, points: &[Vec<f64>]) -> Option<f64> {
        let between = points.len().checked_sub(1).filter(|between| *between > 0)? as f64;
        let count: usize = points.iter().map(Vec::len).sum();
        let total_mean = points.iter().flatten().sum::<f64>() / count as f64;
        let squares: f64 = points.iter().map(|values| values.len() as f64 * (mean(values) - total_mean).powi(2)).sum();
        let ratio = squares / between / self.variance;
        let distribution = FisherSnedecor::new(between, self.freedom).ok()?;
        ratio.is_finite().then(|| distribution.sf(ratio.min(MAX_RATIO)))
    }

    /// A contrast of means with its interval, `half_widths` standard errors to each side. `points` are pairs of a
    /// coefficient and the number of measurements.
    pub fn estimate(&self, value: f64, points: &[(f64, usize)], half_widths: f64) -> Estimate {
        let scale: f64 = points.iter().map(|(coefficient, n)| coefficient * coefficient / *n as f64).sum();
        let half = half_widths * (self.variance * scale).sqrt();
        Estimate { value, low: Some(value - half), high: Some(value + half), p: None }
    }
}

/// Arithmetic mean of `values`; NaN without values.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Quantile of the studentized maximum modulus: half the width, in standard errors, of `count` intervals with a common
/// variance estimate that hold simultaneously at `level`.
///
/// It is exact for independent contrasts, and conservative for dependent ones (Šidák 1967).
pub fn maximum_modulus(count: usize, freedom: f64, level: f64) -> f64 {
    let missing = |x: f64| modulus_below(x, count, freedom) - level;
    let (mut low, mut high) = (0.0, 2.0);
    while missing(high) < 0.0 {
        (low, high) = (high, 2.0 * high);
        if high > 1e12 {
            return f64::INFINITY;
        }
    }
    // Bisection: 60 halvings exhaust the precision of the numbers.
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if missing(middle) < 0.0 { low = middle } else { high = middle }
    }
    f64::midpoint(low, high)
}

/// The probability that `count` independent standard normal numbers, divided by one independent estimate of their
/// standard deviation, are all below `x` in absolute value.
fn modulus_below(x: f64, count: usize, freedom: f64) -> f64 {
    // The trapezoidal rule over the logarithm of the estimate converges exponentially: the integrand vanishes with all
    // its derivatives at both ends.
    const STEPS: i32 = 512;
    let width = 10.0 / (2.0 * freedom).sqrt();
    let (from, to) = (-40.0 / freedom - width, width);
    let step = (to - from) / f64::from(STEPS);
    let half = freedom / 2.0;
    let constant = std::f64::consts::LN_2 + half * half.ln() - ln_gamma(half);
    let count = i32::try_from(count).unwrap_or(i32::MAX);
    let at = |log: f64| {
        let density = (constant + freedom * log - half * (2.0 * log).exp()).exp();
        density * erf(x * log.exp() / std::f64::consts::SQRT_2).powi(count)
    };
    (0..=STEPS).map(|index| at(from + f64::from(index) * step)).sum::<f64>() * step
}

/// Each factor's Shapley value in the variance between the means of a full factorial; `None` if the means are equal.
///
/// The value of a set of factors is the variance of the means over all other factors. `means` are in the order in which
/// the last factor changes fastest. The shares add up to 1.
pub fn shapley(levels: &[usize], means: &[f64]) -> Option<Vec<f64>> {
    let factors = levels.len();
    let mut explained = vec![0.0; 1 << factors];
    explain(levels, means, 1, 0, &mut explained);
    let total = *explained.last()?;
    let largest = means.iter().fold(0.0, |largest: f64, mean| largest.max(mean.abs()));
    if !total.is_finite() || total.sqrt() <= 1e-12 * largest {
        return None;
    }
    // The weight of a set of n of the k factors is n! (k − n − 1)! / k!.
    let weights: Vec<f64> = (0..factors)
        .map(|size| {
            let ways: f64 = (0..size).map(|index| (factors - 1 - index) as f64 / (index + 1) as f64).product();
            1.0 / (factors as f64 * ways)
        })
        .collect();
    let share = |factor: usize| {
        let without = (0..explained.len()).filter(|set| set & (1 << factor) == 0);
        let gains = without.map(|set| {
            let gain = explained[set | 1 << factor] - explained[set];
            weights[set.count_ones() as usize] * gain
        });
        gains.sum::<f64>() / total
    };
    Some((0..factors).map(share).collect())
}

/// Sets the variance that every set of factors explains. `levels` are the levels of the factors that are neither averaged nor in `set`.
/// `means` are in the order of these factors; for each of their combinations there are the means of `inner_size` combinations of the
/// factors in `set`.
fn explain(levels: &[usize], means: &[f64], inner_size: usize, set: usize, explained: &mut [f64]) {
    let Some((level_count, outer_levels)) = levels.split_last() else {
        let total_mean = mean(means);
        explained[set] = means.iter().map(|mean| (mean - total_mean).powi(2)).sum::<f64>() / means.len() as f64;
        return;
    };
    explain(outer_levels, means, inner_size * level_count, set | 1 << outer_levels.len(), explained);
    let averaged: Vec<f64> = means
        .chunks(level_count * inner_size)
        .flat_map(|chunk| {
            let of_level = move |index| chunk.iter().skip(index).step_by(inner_size);
            (0..inner_size).map(move |index| of_level(index).sum::<f64>() / *level_count as f64)
        })
        .collect();
    explain(outer_levels, &averaged, inner_size, set, explained);
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::stats::{
        factorial::{Effect, Factorial, Group},
        tests::Normal,
    };

    fn vectors() -> Value {
        serde_json::from_str(include_str!("testdata/effects.json")).unwrap()
    }

    fn numbers(value: &Value) -> Vec<f64> {
        value.as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect()
    }

    fn whole(value: &Value) -> Vec<usize> {
        value.as_array().unwrap().iter().map(|value| usize::try_from(value.as_u64().unwrap()).unwrap()).collect()
    }

    fn same(ours: f64, theirs: &Value, what: &str) {
        let theirs = theirs.as_f64().unwrap();
        assert!((ours - theirs).abs() <= 1e-8 * theirs.abs().max(1e-3), "{what}: {ours} instead of {theirs}");
    }

    /// A full factorial with each factor as a part, the last factor changing fastest.
    fn full(levels: &[usize]) -> Factorial {
        let cells = (0..levels.iter().product()).map(|mut index: usize| {
            let mut cell = vec![0; levels.len()];
            for (level, count) in cell.iter_mut().zip(levels).rev() {
                *level = index % count;
                index /= count;
            }
            cell
        });
        let groups: Vec<Group> =
            (0..levels.len()).map(|factor| Group { factors: vec![factor], leaves_one_out: false }).collect();
        Factorial::new(levels.to_vec(), cells.collect(), &groups).unwrap()
    }

    fn contrast(design: &Factorial, effect: &Effect, points: &[Vec<f64>]) -> (f64, Vec<(f64, usize)>) {
        let coefficients: Vec<f64> = (0..points.len()).map(|cell| design.coefficient(effect, cell)).collect();
        let value = coefficients.iter().zip(points).map(|(coefficient, values)| coefficient * mean(values)).sum();
        (value, coefficients.into_iter().zip(points.iter().map(Vec::len)).collect())
    }

    #[test]
    fn effects_are_those_of_statsmodels() {
        for case in vectors()["designs"].as_array().unwrap() {
            let name = case["name"].as_str().unwrap();
            let levels = whole(&case["levels"]);
            let cells: Vec<Vec<usize>> = case["cells"].as_array().unwrap().iter().map(whole).collect();
            let together = case["together"].as_bool().unwrap();
            let each: Vec<Vec<usize>> = if together {
                vec![(0..levels.len()).collect()]
            } else {
                (0..levels.len()).map(|factor| vec![factor]).collect()
            };
            let groups: Vec<Group> = each.into_iter().map(|factors| Group { factors, leaves_one_out: false }).collect();
            let design = Factorial::new(levels, cells, &groups).unwrap();
            let points: Vec<Vec<f64>> = case["values"].as_array().unwrap().iter().map(numbers).collect();
            let noise =
                if case["blocked"].as_bool().unwrap() { Noise::in_blocks(&points) } else { Noise::within(&points) };
            let noise = noise.unwrap();
            same(noise.variance, &case["variance"], name);
            same(noise.freedom, &case["freedom"], name);
            same(noise.equality(&points).unwrap(), &case["equality"], name);
            for wanted in case["effects"].as_array().unwrap() {
                let terms = wanted["terms"].as_array().unwrap().iter().map(whole).map(|term| (term[0], term[1]));
                let (value, points) = contrast(&design, &Effect(terms.collect()), &points);
                same(value, &wanted["value"], name);
                let estimate = noise.estimate(value, &points, 1.0);
                same(estimate.high.unwrap() - value, &wanted["error"], name);
            }
        }
    }

    #[test]
    fn shares_are_those_of_all_orders() {
        for case in vectors()["shares"].as_array().unwrap() {
            let shares = shapley(&whole(&case["levels"]), &numbers(&case["means"])).unwrap();
            for (ours, theirs) in shares.iter().zip(case["shares"].as_array().unwrap()) {
                same(*ours, theirs, "share");
            }
            assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-12, "{shares:?}");
        }
        assert_eq!(shapley(&[2, 2], &[0.3; 4]), None, "equal means have no shares");
        assert_eq!(shapley(&[2], &[f64::INFINITY, 1.0]), None);
    }

    #[test]
    fn the_maximum_modulus_is_scipys() {
        for case in vectors()["modulus"].as_array().unwrap() {
            let (count, freedom) = (whole(&case["count"])[0], case["freedom"].as_f64().unwrap());
            let ours = maximum_modulus(count, freedom, case["level"].as_f64().unwrap());
            same(ours, &case["quantile"], &case.to_string());
        }
    }

    #[test]
    fn without_repetitions_there_is_no_error() {
        assert_eq!(Noise::in_blocks(&[vec![1.0], vec![2.0]]), None);
        assert_eq!(Noise::in_blocks(&[vec![1.0, 2.0]]), None);
        assert_eq!(Noise::in_blocks(&[]), None);
        assert_eq!(Noise::within(&[vec![1.0], vec![2.0]]), None);
        let equal = Noise::in_blocks(&[vec![0.1, 0.2], vec![0.3, 0.4]]).unwrap();
        assert_eq!((equal.variance, equal.freedom), (0.0, 1.0), "what differs by block alone has no error");
        assert_eq!(equal.equality(&[vec![0.1, 0.2], vec![0.3, 0.4]]), None);
    }

    /// The share of simulated studies in which all intervals contain the true effects.
    fn coverage(levels: &[usize], blocks: usize, interactions: bool) -> f64 {
        let design = full(levels);
        let pairs = (0..levels.len()).flat_map(|first| (first + 1..levels.len()).map(move |second| [first, second]));
        let pairs: Vec<[usize; 2]> = pairs.filter(|_| interactions).collect();
        let effects = design.effects(&pairs);
        let mut normal = Normal::default();
        let truth: Vec<Vec<f64>> = design.cells().iter().map(|_| vec![3.0 * normal.draw()]).collect();
        let points = truth.len();
        let half_widths = maximum_modulus(effects.len(), ((points - 1) * (blocks - 1)) as f64, 0.95);
        let rounds = 4_000;
        let covered = (0..rounds).filter(|_| {
            let of_block: Vec<f64> = (0..blocks).map(|_| 2.0 * normal.draw()).collect();
            let values: Vec<Vec<f64>> = truth
                .iter()
                .map(|mean| of_block.iter().map(|block| mean[0] + block + normal.draw()).collect())
                .collect();
            let noise = Noise::in_blocks(&values).unwrap();
            effects.iter().all(|effect| {
                let (value, points) = contrast(&design, effect, &values);
                let Estimate { low, high, .. } = noise.estimate(value, &points, half_widths);
                let (truth, _) = contrast(&design, effect, &truth);
                low.unwrap() <= truth && truth <= high.unwrap()
            })
        });
        covered.count() as f64 / f64::from(rounds)
    }

    #[test]
    fn intervals_hold_simultaneously() {
        // Four standard errors of a share of 95 % in 4,000 rounds.
        let error = 0.0138;
        for (levels, blocks, interactions) in [(vec![2; 3], 2, true), (vec![2; 2], 3, true), (vec![2; 4], 2, false)] {
            let share = coverage(&levels, blocks, interactions);
            assert!((share - 0.95).abs() < error, "independent contrasts have the level: {levels:?} {share}");
        }
        let share = coverage(&[3, 3], 3, true);
        assert!(share > 0.95 - error, "dependent contrasts have at least the level: {share}");
    }
}
