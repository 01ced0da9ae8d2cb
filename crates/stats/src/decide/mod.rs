//! Decisions about the next jobs, as pure functions of results.
//!
//! No function here uses a clock, a machine, or the order in which results arrive: the same results give the same
//! decisions. `rungs.rs` has successive halving, `clock.rs` its asynchronous form by a virtual clock, and `racing.rs`
//! races over seeds.

pub mod clock;
pub mod racing;
pub mod rungs;

use crate::stats::Better;

/// A fraction above 0 and below 1, exact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fraction {
    numerator: u64,
    denominator: u64,
}

impl Fraction {
    /// Reads `1/3` or `0.25`; `None` if it is not above 0 and below 1.
    pub fn parse(text: &str) -> Option<Self> {
        let (numerator, denominator) = match text.split_once('/') {
            Some((numerator, denominator)) => (whole(numerator)?, whole(denominator)?),
            None => {
                let (integer, decimals) = text.trim().split_once('.')?;
                let digits = u32::try_from(decimals.len()).ok().filter(|digits| (1..=18).contains(digits))?;
                (whole(integer).filter(|integer| *integer == 0).and(whole(decimals))?, 10_u64.pow(digits))
            }
        };
        (0 < numerator && numerator < denominator).then_some(Self { numerator, denominator })
    }

    /// The part of `n`, rounded down.
    pub fn of(self, n: usize) -> usize {
        let part = n as u128 * u128::from(self.numerator) / u128::from(self.denominator);
        usize::try_from(part).unwrap_or(n)
    }
}

impl std::fmt::Display for Fraction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.numerator, self.denominator)
    }
}

/// A number in decimal digits only.
fn whole(text: &str) -> Option<u64> {
    let text = text.trim();
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// The mean of the values of a configuration's jobs; `None` if one of them has no finite value.
pub fn mean(values: &[Option<f64>]) -> Option<f64> {
    let values: Option<Vec<f64>> = values.iter().map(|value| value.filter(|value| value.is_finite())).collect();
    let values = values.filter(|values| !values.is_empty())?;
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    mean.is_finite().then_some(mean)
}

/// A number that is smaller for better values, and largest for none.
fn cost(value: Option<f64>, better: Better) -> (bool, f64) {
    match value.filter(|value| value.is_finite()) {
        Some(value) if better == Better::More => (false, -value),
        Some(value) => (false, value),
        None => (true, 0.0),
    }
}

/// The indices of values from the best to the worst; missing values are last, and ties keep their order.
fn ranking(values: &[Option<f64>], better: Better) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|one, other| {
        let (one, other) = (cost(values[*one], better), cost(values[*other], better));
        // `-0.0` and `0.0` are equal.
        one.0.cmp(&other.0).then((one.1 + 0.0).total_cmp(&(other.1 + 0.0)))
    });
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_are_exact() {
        let of = |text: &str, n| Fraction::parse(text).unwrap().of(n);
        assert_eq!((of("1/3", 27), of("1/3", 28), of("1/3", 2)), (9, 9, 0));
        // In floating-point numbers, 0.1 × 30 is 3.0000000000000004, and 0.7 × 10 is 7.000000000000001.
        assert_eq!((of("0.1", 30), of("0.7", 10), of("2/3", 3), of("0.29", 100)), (3, 7, 2, 29));
        assert_eq!(of("1/2", usize::MAX), usize::MAX / 2);
        let invalid_texts =
            ["", "0", "1", "1/1", "3/2", "0/3", "1/0", "-1/3", "0.", ".5", "1.5", "0.0", "a/b", "1/3/9", "+1/3"];
        for text in invalid_texts.into_iter().chain(["99999999999999999999/999999999999999999999"]) {
            assert_eq!(Fraction::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_mean_needs_all_its_values() {
        assert_eq!(mean(&[Some(1.0), Some(3.0)]), Some(2.0));
        for values in [&[Some(1.0), None][..], &[Some(f64::NAN)], &[Some(f64::INFINITY), Some(0.0)], &[]] {
            assert_eq!(mean(values), None);
        }
        assert_eq!(mean(&[Some(f64::MAX), Some(f64::MAX)]), None);
    }

    #[test]
    fn what_has_no_value_is_last_in_either_direction() {
        let values = [None, Some(2.0), Some(f64::NAN), Some(-1.0), Some(2.0), Some(0.0), Some(-0.0)];
        assert_eq!(ranking(&values, Better::Less), [3, 5, 6, 1, 4, 0, 2]);
        assert_eq!(ranking(&values, Better::More), [1, 4, 5, 6, 3, 0, 2]);
    }
}
