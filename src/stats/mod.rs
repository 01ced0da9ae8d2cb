//! Statistics of small samples: means, intervals, tests and their corrections.

pub(crate) mod effects;
pub(crate) mod factorial;

use std::{cell::RefCell, collections::HashMap};

use statrs::distribution::{ContinuousCDF as _, StudentsT};
use sweep_job::Unit;

/// The better direction of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// Smaller values are better.
    Less,
    /// Larger values are better.
    More,
}

/// Mean and spread of some numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// Number of measurements.
    pub n: usize,
    /// Their mean.
    pub mean: f64,
    /// Their standard deviation, with n − 1 in the denominator; `None` for a single number.
    pub sd: Option<f64>,
}

/// The quartiles of some numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quartiles {
    /// The first quartile.
    pub low: f64,
    /// The median.
    pub median: f64,
    /// The third quartile.
    pub high: f64,
}

/// An estimated number with its 95 % confidence interval (Student's t).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The number.
    pub value: f64,
    /// Lower end; `None` for a single measurement.
    pub low: Option<f64>,
    /// Upper end; `None` for a single measurement.
    pub high: Option<f64>,
    /// The two-sided p-value of the difference from zero.
    pub p: Option<f64>,
}

/// The confidence level of intervals.
pub(crate) const LEVEL: f64 = 0.95;

/// The level of a decision with this number of evaluations that stops at the first decision. By Bonferroni's
/// inequality, the probability of a wrong decision at any evaluation is no higher than with a single one at [`LEVEL`].
pub(crate) fn level_of(looks: usize) -> f64 {
    1.0 - (1.0 - LEVEL) / looks.max(1) as f64
}

impl Better {
    /// The words in recipes.
    pub(crate) const WORDS: &'static [(&'static str, Option<Self>)] =
        &[("min", Some(Self::Less)), ("max", Some(Self::More)), ("none", None)];

    /// The better direction that the unit of a metric implies.
    pub(crate) fn of(unit: Unit) -> Option<Self> {
        match unit {
            Unit::Nats | Unit::Seconds | Unit::Bytes => Some(Self::Less),
            rate if rate.is_rate() => Some(Self::More),
            _ => None,
        }
    }
}

impl Sample {
    /// Summarizes these numbers; `None` if there are none.
    pub fn new(values: &[f64]) -> Option<Self> {
        let n = values.len();
        if n == 0 {
            return None;
        }
        let mean = values.iter().sum::<f64>() / n as f64;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let sd = (n > 1).then(|| (squares / (n - 1) as f64).sqrt());
        // Equal numbers differ from their mean by a rounding error, which is not a spread.
        let sd = sd.map(|sd| if sd <= 1e-12 * mean.abs() { 0.0 } else { sd });
        Some(Self { n, mean, sd })
    }

    /// The mean as an estimate.
    pub fn estimate(&self) -> Estimate {
        self.estimate_at(LEVEL)
    }

    /// The mean as an estimate with an interval of this level.
    pub fn estimate_at(&self, level: f64) -> Estimate {
        let error = self.sd.map(|sd| sd / (self.n as f64).sqrt());
        estimate(self.mean, error, self.n.saturating_sub(1) as f64, level)
    }

    /// Half the width of the mean's confidence interval.
    pub fn half_width(&self) -> Option<f64> {
        Some(self.estimate().high? - self.mean)
    }

    /// The difference of the means of two independent samples (Welch).
    pub fn welch_difference(&self, other: &Self) -> Estimate {
        self.less_at(other, LEVEL)
    }

    /// The difference of the means with an interval of this level (Welch).
    pub fn less_at(&self, other: &Self, level: f64) -> Estimate {
        let squared = |sample: &Self| sample.sd.map(|sd| sd * sd / sample.n as f64);
        let errors = squared(self).zip(squared(other));
        let freedom = errors.map_or(0.0, |(a, b)| {
            let part = |squared: f64, n: usize| squared * squared / (n as f64 - 1.0);
            (a + b).powi(2) / (part(a, self.n) + part(b, other.n))
        });
        estimate(self.mean - other.mean, errors.map(|(a, b)| (a + b).sqrt()), freedom, level)
    }
}

impl Quartiles {
    /// The quartiles of these numbers, interpolated between neighbors as `NumPy` does; `None` if there are none.
    pub fn new(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().checked_sub(1)?;
        let at = |share: f64| {
            let place = share * last as f64;
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to the last index")]
            let below = place.floor() as usize;
            let above = (below + 1).min(last);
            sorted[below] + (sorted[above] - sorted[below]) * (place - below as f64)
        };
        Some(Self { low: at(0.25), median: at(0.5), high: at(0.75) })
    }
}

impl Estimate {
    /// The exponential of the estimate and its interval.
    pub fn exp(self) -> Self {
        Self { value: self.value.exp(), low: self.low.map(f64::exp), high: self.high.map(f64::exp), p: self.p }
    }
}

fn estimate(value: f64, error: Option<f64>, freedom: f64, level: f64) -> Estimate {
    match error {
        None => Estimate { value, low: None, high: None, p: None },
        // All measurements are equal.
        Some(0.0) => {
            let p = if value == 0.0 { 1.0 } else { 0.0 };
            Estimate { value, low: Some(value), high: Some(value), p: Some(p) }
        }
        Some(error) => {
            let Ok(student) = StudentsT::new(0.0, 1.0, freedom) else {
                return Estimate { value, low: None, high: None, p: None };
            };
            let half = quantile(freedom, level) * error;
            let p = 2.0 * student.sf((value / error).abs());
            Estimate { value, low: Some(value - half), high: Some(value + half), p: Some(p) }
        }
    }
}

/// Half-width of an interval of this level in standard errors; `freedom` must be above zero.
pub(crate) fn quantile(freedom: f64, level: f64) -> f64 {
    thread_local! {
        /// A cache: the cells of a table use few distinct quantiles.
        static KNOWN: RefCell<HashMap<[u64; 2], f64>> = RefCell::default();
    }
    let asked = [freedom.to_bits(), level.to_bits()];
    KNOWN.with_borrow_mut(|known| *known.entry(asked).or_insert_with(|| quantile_anew(freedom, level)))
}

/// The inverse in the library is accurate to about eight digits; two steps of Newton's method refine it.
fn quantile_anew(freedom: f64, level: f64) -> f64 {
    use statrs::distribution::Continuous as _;
    let Ok(student) = StudentsT::new(0.0, 1.0, freedom) else { return f64::NAN };
    let target = 0.5 + level / 2.0;
    let mut x = student.inverse_cdf(target);
    for _ in 0..2 {
        x -= (student.cdf(x) - target) / student.pdf(x);
    }
    x
}

/// Holm's correction of p-values for multiple tests.
pub(crate) fn holm(probabilities: &[f64]) -> Vec<f64> {
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

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::Value;

    use super::*;

    /// Reproducible numbers from the standard normal distribution.
    pub(crate) struct Normal(u64);

    impl Default for Normal {
        fn default() -> Self {
            Self(1)
        }
    }

    impl Normal {
        fn uniform(&mut self) -> f64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((self.0 >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
        }

        pub(crate) fn draw(&mut self) -> f64 {
            let radius = (-2.0 * self.uniform().ln()).sqrt();
            radius * (std::f64::consts::TAU * self.uniform()).cos()
        }
    }

    #[test]
    fn textbook() {
        let sample = Sample::new(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).unwrap();
        assert_eq!((sample.n, sample.mean), (8, 5.0));
        assert!((sample.sd.unwrap() - (32.0_f64 / 7.0).sqrt()).abs() < 1e-15);
        assert_eq!(Sample::new(&[0.1, 0.1, 0.1]).unwrap().sd, Some(0.0));
        assert_eq!(Sample::new(&[3.0]), Some(Sample { n: 1, mean: 3.0, sd: None }));
        assert_eq!(Sample::new(&[]), None);
    }

    #[test]
    fn intervals_and_probabilities_are_scipys() {
        let vectors: Value = serde_json::from_str(include_str!("testdata/scipy.json")).unwrap();
        for vector in vectors["samples"].as_array().unwrap() {
            let numbers = |key: &str| -> Vec<f64> {
                vector[key].as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect()
            };
            let (a, b) = (numbers("a"), numbers("b"));
            let same = |ours: Option<f64>, key: &str| {
                let theirs = vector[key].as_f64().unwrap();
                assert!((ours.unwrap() - theirs).abs() <= 1e-9 * theirs.abs().max(1e-3), "{key}: {ours:?} {theirs}");
            };
            let (first, second) = (Sample::new(&a).unwrap(), Sample::new(&b).unwrap());
            same(first.estimate().low, "mean_low");
            same(first.estimate().high, "mean_high");
            let welch = first.welch_difference(&second);
            same(welch.low, "welch_low");
            same(welch.high, "welch_high");
            same(welch.p, "welch_p");
            if a.len() == b.len() {
                let differences: Vec<f64> = a.iter().zip(&b).map(|(a, b)| a - b).collect();
                let paired = Sample::new(&differences).unwrap().estimate();
                same(paired.low, "paired_low");
                same(paired.high, "paired_high");
                same(paired.p, "paired_p");
            }
        }
    }

    #[test]
    fn one_number_says_nothing_about_chance() {
        let one = Sample::new(&[3.0]).unwrap();
        assert_eq!(one.estimate(), Estimate { value: 3.0, low: None, high: None, p: None });
        assert_eq!(one.welch_difference(&one).low, None);
        let same = Sample::new(&[3.0, 3.0]).unwrap().estimate();
        assert_eq!((same.low, same.high, same.p), (Some(3.0), Some(3.0), Some(0.0)));
    }

    #[test]
    fn holms_correction() {
        // The example of Holm (1979), as R's `p.adjust(c(.01, .04, .03, .005), "holm")` has it.
        let corrected = holm(&[0.01, 0.04, 0.03, 0.005]);
        for (ours, theirs) in corrected.iter().zip([0.03, 0.06, 0.06, 0.02]) {
            assert!((ours - theirs).abs() < 1e-15, "{corrected:?}");
        }
        assert!(holm(&[]).is_empty());
    }

    /// Checks that 95 % of the intervals contain the true mean.
    #[test]
    fn intervals_cover_at_their_level() {
        let mut normal = Normal::default();
        let rounds = 20_000;
        let covered = (0..rounds)
            .filter(|_| {
                let values: Vec<f64> = (0..4).map(|_| normal.draw()).collect();
                let estimate = Sample::new(&values).unwrap().estimate();
                estimate.low.unwrap() <= 0.0 && 0.0 <= estimate.high.unwrap()
            })
            .count();
        // Four standard errors of a share of 95 % in 20,000 rounds.
        let share = covered as f64 / f64::from(rounds);
        assert!((share - LEVEL).abs() < 0.0062, "{share}");
    }
    /// Checks that 95 % of the intervals of paired ratios contain the ratio of the geometric means.
    #[test]
    fn ratios_cover_at_their_level() {
        let mut normal = Normal::default();
        let rounds = 20_000;
        let covered = (0..rounds).filter(|_| {
            let pairs = (0..5).map(|_| {
                // The effect of a seed on both sides, and on each side.
                let shared = 0.5 * normal.draw();
                ((3.0_f64.ln() + shared + 0.1 * normal.draw()).exp(), (shared + 0.1 * normal.draw()).exp())
            });
            let logs: Vec<f64> = pairs.map(|(of, to): (f64, f64)| of.ln() - to.ln()).collect();
            let estimate = Sample::new(&logs).unwrap().estimate().exp();
            estimate.low.unwrap() <= 3.0 && 3.0 <= estimate.high.unwrap()
        });
        let share = covered.count() as f64 / f64::from(rounds);
        assert!((share - LEVEL).abs() < 0.0062, "{share}");
    }

    #[test]
    fn quartiles_are_numpys() {
        // numpy.percentile([7, 1, 3, 10], [25, 50, 75]) and of five numbers.
        let four = Quartiles::new(&[7.0, 1.0, 3.0, 10.0]).unwrap();
        assert_eq!((four.low, four.median, four.high), (2.5, 5.0, 7.75));
        let five = Quartiles::new(&[5.0, 4.0, 3.0, 2.0, 1.0]).unwrap();
        assert_eq!((five.low, five.median, five.high), (2.0, 3.0, 4.0));
        assert_eq!(Quartiles::new(&[]), None);
    }
}
