//! The effect of a change on paired seeds, and the verdict about it.

use serde::{Deserialize, Serialize};

use super::{ledger::Evidence, rule::Stages};
use crate::stats::{Sample, online};

/// Verdict about a proposal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The metric improves, by the least effect or more.
    Accepted,
    /// The improvement is less than the least effect: its 95 % interval is below that.
    Refuted,
    /// Neither.
    Undecided,
    /// The search found no improvement, so there was no confirmation, and no level was spent.
    Dropped,
    /// The change reads sealed data that the baseline does not read, or changes a step that reads it, whatever its values are.
    Leaked,
}

impl Verdict {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Refuted => "refuted",
            Self::Undecided => "undecided",
            Self::Dropped => "dropped",
            Self::Leaked => "leaked",
        }
    }
}

/// Values of the baseline and of the candidate with the same seeds, in the metric's unit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    /// The seeds.
    pub seeds: Vec<i64>,
    /// Values of the baseline, in the order of the seeds.
    pub baseline: Vec<f64>,
    /// Values of the candidate.
    pub candidate: Vec<f64>,
    /// Mean improvement, positive where the candidate is better.
    pub mean: f64,
    /// Lower end of its 95 % interval; `None` if the values have no spread.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
}

impl Effect {
    /// The effect of paired values; `None` without any. `sign` is 1 if larger values are better, else −1.
    pub fn new(seeds: Vec<i64>, baseline: Vec<f64>, candidate: Vec<f64>, sign: f64) -> Option<Self> {
        let sample = Sample::new(&differences(&baseline, &candidate, sign))?;
        let estimate = sample.estimate();
        let has_spread = sample.sd.is_some_and(|sd| sd > 0.0);
        let [low, high] = [estimate.low, estimate.high].map(|end| end.filter(|_| has_spread));
        Some(Self { seeds, baseline, candidate, mean: sample.mean, low, high })
    }

    /// True if the candidate has the baseline's values, bit by bit.
    pub(super) fn has_no_effect(&self) -> bool {
        let bits = |values: &[f64]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        bits(&self.baseline) == bits(&self.candidate)
    }

    /// The verdict of a confirmation with these pairs. Without a spread, or without a look at this number of pairs, there is no evidence.
    pub fn judge(&self, sign: f64, least: f64, stages: &Stages) -> (Verdict, Evidence) {
        let p = online::improvement_p(&differences(&self.baseline, &self.candidate, sign)).unwrap_or(1.0);
        let (level, look) = (stages.level(), stages.level_of_look(self.seeds.len()));
        let e = if online::e_value(p, look) > 0.0 { 1.0 / level } else { 0.0 };
        let verdict = if e > 0.0 && self.mean >= least {
            Verdict::Accepted
        } else if self.high.is_some_and(|high| high < least) {
            Verdict::Refuted
        } else {
            Verdict::Undecided
        };
        (verdict, Evidence { p, e, level, look: Some(look).filter(|look| *look < level) })
    }
}

fn differences(baseline: &[f64], candidate: &[f64], sign: f64) -> Vec<f64> {
    baseline.iter().zip(candidate).map(|(old, new)| sign * (new - old)).collect()
}

#[cfg(test)]
mod tests {
    use super::{super::rule, *};
    use crate::stats::Draws;

    /// True if a change that lowers the metric by this much is accepted, in stages as the engine runs them.
    fn accepts(draws: &mut Draws, shift: f64, level: f64) -> bool {
        let (pairs, _) = rule::pairs(2.0, 1.0, level, 30);
        let stages = Stages::new(pairs, level);
        let old: Vec<f64> = (0..pairs).map(|_| draws.normal()).collect();
        let new: Vec<f64> = (0..pairs).map(|_| draws.normal() - shift).collect();
        let effect_of = |size: &usize| Effect::new(vec![0; *size], old[..*size].to_vec(), new[..*size].to_vec(), -1.0);
        let end_effect =
            stages.sizes().iter().filter_map(effect_of).find(|effect| stages.is_end(effect, -1.0, 1.0, 1.0));
        end_effect.unwrap().judge(-1.0, 1.0, &stages).0 == Verdict::Accepted
    }

    /// Fraction of wrong acceptances and of right ones, over proposals that are judged as the engine judges them.
    #[test]
    fn hundreds_of_proposals_are_judged_at_the_rate() {
        let mut draws = Draws::new(3);
        let mut rates = Vec::new();
        let (mut total_right, mut effects) = (0, 0);
        for _ in 0..20 {
            let [mut wrong_count, mut right_count] = [0, 0];
            for test in 1..=300 {
                let is_true = draws.uniform() < 0.05;
                let shift = if is_true { 2.0 } else { 0.0 };
                // Whatever is at least half as large is worth having.
                let is_accepted = accepts(&mut draws, shift, online::level_after(test, wrong_count + right_count));
                effects += usize::from(is_true);
                wrong_count += usize::from(is_accepted && !is_true);
                right_count += usize::from(is_accepted && is_true);
            }
            total_right += right_count;
            rates.push(wrong_count as f64 / (wrong_count + right_count).max(1) as f64);
        }
        let rate = Sample::new(&rates).unwrap();
        let error = rate.sd.unwrap() / (rates.len() as f64).sqrt();
        assert!(rate.mean <= online::RATE + 2.0 * error, "{} ± {error}", rate.mean);
        let power = total_right as f64 / effects as f64;
        assert!(power > 0.7, "the power is {power}");
    }

    #[test]
    fn verdicts_are_about_the_least_effect() {
        let effect = |candidate: &[f64]| {
            Effect::new(vec![0; 5], vec![1.0, 1.1, 0.9, 1.05, 0.95], candidate.to_vec(), 1.0).unwrap()
        };
        let level = &Stages::of(vec![5], 0.002);
        assert_eq!(effect(&[3.0, 3.2, 2.9, 3.0, 3.0]).judge(1.0, 1.0, level).0, Verdict::Accepted);
        assert_eq!(effect(&[3.0, 3.2, 2.9, 3.0, 3.0]).judge(1.0, 3.0, level).0, Verdict::Refuted, "it is too small");
        assert_eq!(effect(&[1.0, 1.0, 1.0, 1.0, 1.0]).judge(1.0, 0.5, level).0, Verdict::Refuted);
        assert_eq!(effect(&[9.0, 0.0, 4.0, -3.0, 1.0]).judge(1.0, 0.5, level).0, Verdict::Undecided);
        let equal_effect = effect(&[2.0, 2.1, 1.9, 2.05, 1.95]);
        assert_eq!(
            equal_effect.judge(1.0, 0.5, level),
            (Verdict::Undecided, Evidence { p: 1.0, e: 0.0, level: 0.002, look: None }),
            "no spread"
        );
    }
}
