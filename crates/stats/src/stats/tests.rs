//! Tests of samples, intervals and corrections.

mod analyses;
mod extremes;
mod items;
mod lopsided;
pub mod rates;
mod replication;
mod vectors;

use serde_json::Value;

use super::*;

/// Reproducible numbers from the standard normal distribution.
pub struct Normal(Draws);

impl Default for Normal {
    fn default() -> Self {
        Self(Draws::new(1))
    }
}

impl Normal {
    /// Draws the next number.
    pub fn draw(&mut self) -> f64 {
        self.0.normal()
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
        // Three values against five have fewer degrees of freedom than Welch's.
        if (a.len(), b.len()) != (3, 5) {
            same(welch.low, "welch_low");
            same(welch.high, "welch_high");
            same(welch.p, "welch_p");
        }
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

#[test]
fn quantiles_are_inverse_at_every_level() {
    use statrs::distribution::{ContinuousCDF as _, StudentsT};
    for freedom in [1.0, 1.5, 2.0, 7.0, 120.0, 1e6] {
        let student = StudentsT::new(0.0, 1.0, freedom).unwrap();
        for level in [0.1, 0.5, 0.95, 0.999, 1.0 - 1e-9] {
            let tail = student.sf(quantile(freedom, level));
            assert!((tail / ((1.0 - level) / 2.0) - 1.0).abs() < 1e-9, "{freedom} {level}: {tail}");
        }
        assert_eq!((quantile(freedom, 0.0), quantile(freedom, 1.0)), (0.0, f64::INFINITY));
    }
    // The normal distribution's.
    for freedom in [1e10, 1e12, 1e300, f64::INFINITY] {
        assert!((quantile(freedom, 0.95) - 1.959_963_984_540_054).abs() < 1e-9, "{freedom}");
    }
    for nothing in [quantile(0.0, 0.95), quantile(f64::NAN, 0.95), quantile(3.0, f64::NAN)] {
        assert!(nothing.is_nan());
    }
}
