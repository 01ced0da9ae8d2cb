//! Control of the false discovery rate over a sequence of tests without an end: e-LOND (Xu and Ramdas, "Online multiple
//! testing with e-values", AISTATS 2024) with the sequence of LOND (Javanmard and Montanari, 2015).
//!
//! Test t has the level αₜ = α γₜ (Rₜ₋₁ + 1) with Rₜ₋₁ earlier discoveries, and is a discovery if its e-value is at least
//! 1 / αₜ. That keeps the rate of false discoveries at or below α under any dependence, as long as each e-value has a mean
//! of at most 1 under its null hypothesis. Given a level fixed before the data, a p-value p gives the e-value 1 / αₜ if
//! p ≤ αₜ and 0 otherwise, which loses no power.

use statrs::distribution::{ContinuousCDF as _, StudentsT};

use super::Sample;

/// The rate of false discoveries that is kept.
pub const RATE: f64 = 0.05;

/// The part of the rate that test `test`, counted from 1, has; the parts of all tests add up to 1. Parts of LOND, as in the package
/// `onlineFDR`.
pub fn part(test: usize) -> f64 {
    /// Makes the sum 1.
    const SCALE: f64 = 0.077_208_38;
    let test = test.max(1) as f64;
    SCALE * test.max(2.0).ln() / (test * test.ln().sqrt().exp())
}

/// The level of test `test`, counted from 1, after this number of discoveries.
pub fn level_after(test: usize, discoveries: usize) -> f64 {
    (RATE * part(test) * (discoveries + 1) as f64).min(1.0)
}

/// The e-value of a p-value at a level that was fixed before the data.
pub fn e_value(p: f64, level: f64) -> f64 {
    if p <= level && level > 0.0 { 1.0 / level } else { 0.0 }
}

/// The one-sided p-value of Student's t-test that the mean of these differences is not above zero; `None` for fewer than
/// two of them, or if they do not differ from each other.
pub fn improvement_p(differences: &[f64]) -> Option<f64> {
    let Sample { n, mean, sd } = Sample::new(differences)?;
    let sd = sd.filter(|sd| *sd > 0.0)?;
    let student = StudentsT::new(0.0, 1.0, (n - 1) as f64).ok()?;
    Some(student.sf(mean / (sd / (n as f64).sqrt())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Draws;

    /// Proposals of a simulated project.
    const PROPOSALS: usize = 1000;
    /// Simulated projects.
    const PROJECTS: usize = 200;
    /// Pairs of seeds of a proposal.
    const PAIRS: usize = 10;

    /// The false and true discoveries of a project, and the number of true effects.
    fn project(draws: &mut Draws, share: f64, effect: f64) -> [usize; 3] {
        let [mut wrong, mut right, mut effects] = [0; 3];
        for test in 1..=PROPOSALS {
            let is_true = draws.uniform() < share;
            let mean = if is_true { effect } else { 0.0 };
            let differences: Vec<f64> = (0..PAIRS).map(|_| mean + draws.normal()).collect();
            let level = level_after(test, wrong + right);
            let is_significant = e_value(improvement_p(&differences).unwrap(), level) >= 1.0 / level;
            effects += usize::from(is_true);
            wrong += usize::from(is_significant && !is_true);
            right += usize::from(is_significant && is_true);
        }
        [wrong, right, effects]
    }

    /// `LOND(sample.df, random = FALSE)` of the package `onlineFDR`, from its reference.
    #[test]
    fn levels_are_those_of_the_reference() {
        let published = [
            (2.9e-8, 0.002_675_838_5),
            (0.06743, 0.001_163_820_6),
            (0.01514, 0.000_991_249_9),
            (0.08174, 0.000_824_360_6),
            (0.00171, 0.000_698_887_0),
            (3.6e-5, 0.000_604_590_0),
            (0.79149, 0.000_797_916_6),
            (0.27201, 0.000_711_783_8),
            (0.28295, 0.000_642_142_3),
            (7.59e-8, 0.000_584_737_8),
            (0.69274, 0.000_715_518_6),
            (0.30443, 0.000_661_027_3),
            (0.00136, 0.000_614_168_2),
            (0.72342, 0.000_573_450_9),
            (0.54757, 0.000_537_747_2),
        ];
        let mut discoveries = 0;
        for (index, (p, level)) in published.into_iter().enumerate() {
            let ours = level_after(index + 1, discoveries);
            assert!((ours - level).abs() < 1e-10, "test {}: {ours}, not {level}", index + 1);
            discoveries += usize::from(e_value(p, ours) >= 1.0 / ours);
        }
        assert_eq!(discoveries, 3);
    }

    #[test]
    fn the_parts_do_not_exceed_the_whole() {
        const FIRST: u32 = 1_000_000;
        let sum: f64 = (1..=FIRST as usize).map(part).sum();
        // The remainder falls slowly, so it is integrated over the root of the logarithm.
        let root = f64::from(FIRST).ln().sqrt();
        let rest = 2.0 * (-root).exp() * (root.powi(3) + 3.0 * root.powi(2) + 6.0 * root + 6.0) * 0.077_208_38;
        assert!((0.95..=1.0).contains(&(sum + rest)), "{sum} + {rest}");
        assert!((2..10_000).all(|test| part(test + 1) < part(test)), "whoever asks more has less for each");
    }

    #[test]
    fn p_values_are_those_of_students_test() {
        // t = 3 / √(5 / 3) with 3 degrees of freedom, whose distribution has a closed form.
        let p = improvement_p(&[0.0, 1.0, 2.0, 3.0]).unwrap();
        assert!((p - 0.051_364).abs() < 1e-6, "{p}");
        assert_eq!(improvement_p(&[1.0, 1.0, 1.0]), None, "without a spread there is no test");
        assert_eq!(improvement_p(&[1.0]), None);
    }

    #[test]
    fn a_thousand_proposals_with_few_true_effects_keep_the_rate() {
        let mut draws = Draws::new(7);
        let (mut rates, mut right, mut effects) = (Vec::new(), 0, 0);
        for _ in 0..PROJECTS {
            let [wrong, right_in_project, true_effects] = project(&mut draws, 0.05, 3.0);
            rates.push(wrong as f64 / (wrong + right_in_project).max(1) as f64);
            right += right_in_project;
            effects += true_effects;
        }
        let rate = Sample::new(&rates).unwrap();
        let error = rate.sd.unwrap() / (rates.len() as f64).sqrt();
        let power = right as f64 / effects as f64;
        assert!(rate.mean <= RATE + 2.0 * error, "{} ± {error}", rate.mean);
        assert!(power > 0.5, "the power is {power}");
    }

    #[test]
    fn whoever_only_asks_without_any_effect_rarely_finds_one() {
        let mut draws = Draws::new(8);
        let wrong = (0..PROJECTS).filter(|_| project(&mut draws, 0.0, 0.0)[0] > 0).count();
        let error = (RATE * (1.0 - RATE) / PROJECTS as f64).sqrt();
        assert!(wrong as f64 / PROJECTS as f64 <= RATE + 2.0 * error, "{wrong} of {PROJECTS}");
    }
}
