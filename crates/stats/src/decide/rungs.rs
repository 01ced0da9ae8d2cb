//! Successive halving: of the configurations that have reached a rung, the best part is promoted to the next.

use super::{Fraction, ranking};
use crate::stats::Better;

/// The version of this rule; raised when the rule changes the result for the same values.
pub const VERSION: u32 = 1;

/// A configuration's place at a rung.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Its index among the configurations that were given.
    pub configuration: usize,
    /// Its rank, from 1.
    pub rank: usize,
    /// True if it is promoted to the next rung.
    pub goes_on: bool,
}

/// The number of promoted configurations of `n`: the fraction of `n`, rounded down, and at least one.
pub fn cut(n: usize, keep: Fraction) -> usize {
    keep.of(n).max(1).min(n)
}

/// Ranks the configurations that have reached a rung, the best first. Failed and diverged configurations have no value: they are last and
/// are never promoted. Ties are decided by the order in which the configurations are given.
pub fn places(values: &[Option<f64>], keep: Fraction, better: Better) -> Vec<Place> {
    let cut = cut(values.len(), keep);
    let place = |(index, configuration): (usize, usize)| {
        let is_finite = values[configuration].is_some_and(f64::is_finite);
        Place { configuration, rank: index + 1, goes_on: index < cut && is_finite }
    };
    ranking(values, better).into_iter().enumerate().map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(values: &[Option<f64>], keep: &str, better: Better) -> Vec<usize> {
        let places = places(values, Fraction::parse(keep).unwrap(), better);
        places.iter().filter(|place| place.goes_on).map(|place| place.configuration).collect()
    }

    #[test]
    fn the_best_part_goes_on() {
        let values: Vec<Option<f64>> = (0..27).map(|index| Some(f64::from((index * 10) % 27))).collect();
        let best = kept(&values, "1/3", Better::Less);
        assert_eq!(best.len(), 9);
        assert!(best.iter().all(|index| values[*index] < Some(9.0)));
        assert!(kept(&values, "1/3", Better::More).iter().all(|index| values[*index] > Some(17.0)));
        assert_eq!(kept(&values[..28.min(values.len())], "1/9", Better::Less), [0, 19, 11]);
    }

    #[test]
    fn at_least_one_goes_on_unless_all_failed() {
        assert_eq!(kept(&[Some(2.0), Some(1.0)], "1/3", Better::Less), [1]);
        assert_eq!(kept(&[Some(1.0)], "1/3", Better::Less), [0]);
        assert_eq!(kept(&[None, Some(f64::NAN)], "1/2", Better::Less), [0; 0]);
        assert_eq!(kept(&[None, None, None, Some(5.0)], "1/2", Better::Less), [3], "failed ones fill no place");
        assert!(places(&[], Fraction::parse("1/2").unwrap(), Better::Less).is_empty());
    }

    #[test]
    fn ties_keep_the_given_order() {
        assert_eq!(kept(&[Some(1.0); 6], "1/2", Better::More), [0, 1, 2]);
    }
}
