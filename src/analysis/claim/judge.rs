//! The statistics of verdicts: estimates, their intervals, and the comparison with the expected range.

use std::collections::{BTreeMap, HashSet};

use sweep_job::{Backend, Unit, Value};

use super::{State, Verdict};
use crate::{
    analysis::pairs::{apart, pairs},
    format::{clean, count},
    plan::{JobId, Point, Study, resolved, selected},
    recipe::{Comparison, Expectation, Names, Order, Selection, Side},
    record::Key,
    stats::{Estimate, Sample, holm, level_of},
    store::Measured,
};

/// A measurement: its point, its job and its value.
struct Found<'a> {
    point: &'a Point,
    by: &'a Measured,
    value: f64,
}

/// The points of one side of a comparison.
struct Measurements<'a> {
    found: Vec<Found<'a>>,
    /// Jobs without a result, or without the metric.
    missing: usize,
    /// True if points may have different numbers of seeds.
    uneven: bool,
}

/// Data for the verdict on a claim.
pub(super) struct Judge<'a> {
    pub(super) study: &'a Study,
    pub(super) measured: &'a BTreeMap<JobId, Measured>,
    pub(super) hardware: &'a [Backend],
    /// Maximum number of evaluations until the claim is decided.
    pub(super) looks: usize,
}

impl<'a> Judge<'a> {
    pub(super) fn value(
        &self,
        comparison: &Comparison,
        expect: Expectation,
        verdict: &mut Verdict,
    ) -> Result<(), String> {
        let metric = comparison.metric.value.as_str();
        let of = self.side(&comparison.of, metric, verdict)?;
        let sample = of.sample()?;
        let estimate = certain(sample.estimate_at(level_of(self.looks)), of.is_counted(metric));
        self.decide(estimate, expect, &(count(sample.n, "job") + &lacking(&[&of])), verdict)
    }

    pub(super) fn compare(
        &self,
        comparison: &Comparison,
        expect: Expectation,
        ratio: bool,
        verdict: &mut Verdict,
    ) -> Result<(), String> {
        let Some(to) = &comparison.to else { return Err("it compares nothing".to_owned()) };
        let metric = comparison.metric.value.as_str();
        let apart = [self.apart(comparison.of.step, &comparison.of.only), self.apart(to.step, &to.only)].concat();
        let of = self.side(&comparison.of, metric, verdict)?;
        let to = self.side(to, metric, verdict)?;
        let shared = to.keys().intersection(&of.keys()).count();
        if shared > 0 {
            return Err(format!("{} on both sides, so they cannot be compared", count(shared, "job")));
        }
        if ratio && of.found.iter().chain(&to.found).any(|measured| measured.value <= 0.0) {
            return Err(format!("`{metric}` is not always above zero, so it has no ratio; claim a `difference`"));
        }
        let scaled = |value: f64| if ratio { value.ln() } else { value };
        let (estimate, basis) = match paired(&of, &to, &apart) {
            Some(pairs) => {
                let differences: Vec<f64> = pairs.iter().map(|(of, to)| scaled(*of) - scaled(*to)).collect();
                let sample = Sample::new(&differences).ok_or("there is nothing to compare")?;
                (sample.estimate_at(level_of(self.looks)), count(sample.n, "pair"))
            }
            None => {
                let sample = |side: &Measurements<'_>| {
                    let values: Vec<f64> = side.found.iter().map(|measured| scaled(measured.value)).collect();
                    Sample::new(&values).ok_or("there is nothing to compare")
                };
                let (first, second) = (sample(&of)?, sample(&to)?);
                (first.less_at(&second, level_of(self.looks)), format!("{} against {}, not paired", first.n, second.n))
            }
        };
        let estimate = certain(estimate, of.is_counted(metric) && to.is_counted(metric));
        self.decide(if ratio { estimate.exp() } else { estimate }, expect, &(basis + &lacking(&[&of, &to])), verdict)
    }

    pub(super) fn order(&self, order: &Order, verdict: &mut Verdict) -> Result<(), String> {
        let params = &self.study.recipe.params;
        let values: Vec<Value> = order
            .ascending
            .iter()
            .filter_map(|template| template.resolve(params, &Names::new()).map(|value| value.value))
            .collect();
        let metric = order.metric.value.as_str();
        let mut sides = Vec::new();
        for value in &values {
            let mut wanted = resolved(&self.study.recipe, &order.only);
            wanted.push((&order.axis.value, vec![value.clone()]));
            sides.push(self.measured(order.step, &wanted, metric, verdict)?);
        }
        let mut own = order.only.clone();
        own.0.push((order.axis.clone(), order.ascending.clone()));
        let apart = self.apart(order.step, &own);
        let step = |two: &[Measurements<'_>]| -> Result<Estimate, String> {
            let estimate = match paired(&two[1], &two[0], &apart) {
                Some(pairs) => {
                    let differences: Vec<f64> = pairs.iter().map(|(later, earlier)| later - earlier).collect();
                    Sample::new(&differences).ok_or("there is nothing to compare")?.estimate()
                }
                None => two[1].sample()?.welch_difference(&two[0].sample()?),
            };
            Ok(certain(estimate, two.iter().all(|side| side.is_counted(metric))))
        };
        let steps: Vec<Estimate> = sides.windows(2).map(step).collect::<Result<_, String>>()?;
        let chance: Option<Vec<f64>> = steps.iter().map(|step| step.p).collect();
        let Some(chance) = chance else {
            verdict.open = true;
            return Err(ONE_EACH.to_owned());
        };
        let chance = holm(&chance);
        let shown = |index: usize| format!("{} < {}", values[index], values[index + 1]);
        let mut wrong = Vec::new();
        let mut open = Vec::new();
        for (index, (step, p)) in steps.iter().zip(&chance).enumerate() {
            let significant = *p < 1.0 - level_of(self.looks);
            match (significant, step.value > 0.0) {
                (true, true) => {}
                (true, false) => wrong.push(shown(index)),
                (false, _) => open.push(shown(index)),
            }
        }
        let mut ranked: Vec<(f64, &Value)> = Vec::new();
        for (side, value) in sides.iter().zip(&values) {
            ranked.push((side.sample()?.mean, value));
        }
        ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
        let found: Vec<String> = ranked.iter().map(|(_, value)| value.to_string()).collect();
        let sides: Vec<&Measurements<'_>> = sides.iter().collect();
        let found = format!("by their means: {}{}", found.join(" < "), lacking(&sides));
        (verdict.state, verdict.because) = if !wrong.is_empty() {
            (State::Refuted, format!("it is the other way round for {}; {found}", wrong.join(", ")))
        } else if open.is_empty() {
            (State::Supported, found)
        } else {
            verdict.open = true;
            (State::Undecided, format!("chance can explain {}; {found}", open.join(", ")))
        };
        Ok(())
    }

    fn decide(
        &self,
        estimate: Estimate,
        expect: Expectation,
        basis: &str,
        verdict: &mut Verdict,
    ) -> Result<(), String> {
        verdict.value = Some(estimate.value);
        let number = |value: f64| Value::Float(rounded(value, estimate)).to_string();
        let expected = match (expect.at_least, expect.at_most) {
            (Some(least), Some(most)) if least == most => format!("exactly {}", Value::Float(least)),
            (Some(least), Some(most)) => format!("from {} to {}", Value::Float(least), Value::Float(most)),
            (Some(least), None) => format!("at least {}", Value::Float(least)),
            (None, Some(most)) => format!("at most {}", Value::Float(most)),
            (None, None) => "anything".to_owned(),
        };
        let (Some(low), Some(high)) = (estimate.low, estimate.high) else {
            verdict.open = true;
            return Err(format!("{}, expected {expected}; {ONE_EACH}", number(estimate.value)));
        };
        verdict.interval = Some([low, high]);
        verdict.state = state(low, high, expect);
        verdict.open = verdict.state == State::Undecided;
        let interval = if low == high {
            number(estimate.value)
        } else {
            let looks = if self.looks > 1 { format!(" over {} looks", self.looks) } else { String::new() };
            format!("{} (95 % CI{looks} {} to {})", number(estimate.value), number(low), number(high))
        };
        let doubt = if verdict.state == State::Undecided { "; more seeds would say more" } else { "" };
        verdict.because = format!("{interval}, expected {expected}; {basis}{doubt}");
        Ok(())
    }

    fn apart(&self, step: usize, selection: &Selection) -> Vec<String> {
        let named: Vec<&str> = selection.0.iter().map(|(name, _)| name.value.as_str()).collect();
        apart(&self.study.recipe.steps[step], &named)
    }

    fn side(&self, side: &Side, metric: &str, verdict: &mut Verdict) -> Result<Measurements<'a>, String> {
        self.measured(side.step, &resolved(&self.study.recipe, &side.only), metric, verdict)
    }

    /// The measurements at the points that have these values.
    fn measured(
        &self,
        step: usize,
        wanted: &[(&str, Vec<Value>)],
        metric: &str,
        verdict: &mut Verdict,
    ) -> Result<Measurements<'a>, String> {
        let mut found: Vec<Found<'a>> = Vec::new();
        // Includes jobs without the metric: a metric that a device cannot measure indicates the wrong device.
        let mut ran: Vec<&Measured> = Vec::new();
        let (mut missing, mut jobs) = (0, HashSet::new());
        let mut uneven = false;
        for (point, job) in self.study.steps[step].iter().filter(|(point, _)| selected(point, wanted)) {
            // Points that are the same job are one measurement.
            if !jobs.insert(*job) {
                continue;
            }
            let measured = self.measured.get(job);
            uneven |= self.study.rounds.contains_key(job);
            ran.extend(measured);
            match measured.and_then(|measured| Some((measured, measured.metrics.get(metric)?.value))) {
                Some((by, value)) => found.push(Found { point, by, value }),
                // An additional seed that was not needed is not missing.
                None if measured.is_none() && self.study.rounds.contains_key(job) => {}
                None => missing += 1,
            }
        }
        for by in &ran {
            let (Some(backend), Some(device)) = (by.backend, &by.device) else { continue };
            let name = format!("{} ({device})", backend.name());
            if !verdict.devices.contains(&name) {
                verdict.devices.push(name);
            }
            if !self.hardware.is_empty() && !self.hardware.contains(&backend) {
                let about: Vec<&str> = self.hardware.iter().map(|backend| backend.name()).collect();
                let (about, on) = (about.join(" or "), backend.name());
                return Err(format!("it is about {about}; this was measured on {on}"));
            }
        }
        if found.is_empty() {
            return Err(match missing {
                0 => "no point has these values".to_owned(),
                missing if ran.len() == missing => {
                    format!("{} did not measure `{}`", count(missing, "job"), clean(metric))
                }
                missing => format!("{} without a result", count(missing, "job")),
            });
        }
        Ok(Measurements { found, missing, uneven })
    }
}

/// A note about missing jobs.
fn lacking(sides: &[&Measurements<'_>]) -> String {
    match sides.iter().map(|side| side.missing).sum() {
        0 => String::new(),
        missing => format!(", {} without a result", count(missing, "job")),
    }
}

/// Reason for a missing interval.
const ONE_EACH: &str = "one measurement says nothing about chance; give the step more seeds";

/// The estimate without uncertainty for a counted metric, which is the same in every run.
fn certain(estimate: Estimate, counted: bool) -> Estimate {
    if !counted || estimate.low.is_some() {
        return estimate;
    }
    let p = if estimate.value == 0.0 { 1.0 } else { 0.0 };
    Estimate { low: Some(estimate.value), high: Some(estimate.value), p: Some(p), ..estimate }
}

impl Measurements<'_> {
    /// True if the metric is a count.
    fn is_counted(&self, metric: &str) -> bool {
        self.found.iter().all(|found| found.by.metrics.get(metric).is_some_and(|metric| metric.unit == Unit::Count))
    }

    /// The jobs.
    fn keys(&self) -> HashSet<Key> {
        self.found.iter().map(|found| found.by.key).collect()
    }

    fn sample(&self) -> Result<Sample, String> {
        let values: Vec<f64> = self.found.iter().map(|measured| measured.value).collect();
        Sample::new(&values).ok_or_else(|| "there is nothing to compare".to_owned())
    }
}

/// The paired values of both sides; `None` if they cannot be paired one to one.
fn paired(of: &Measurements<'_>, to: &Measurements<'_>, apart: &[String]) -> Option<Vec<(f64, f64)>> {
    fn values<'a>(side: &Measurements<'a>) -> Vec<(&'a Point, f64)> {
        side.found.iter().map(|measured| (measured.point, measured.value)).collect()
    }
    pairs(&values(of), &values(to), apart, of.missing + to.missing > 0 || of.uneven || to.uneven)
}

/// The state of a claim with this interval.
fn state(low: f64, high: f64, expect: Expectation) -> State {
    let least = expect.at_least.unwrap_or(f64::NEG_INFINITY);
    let most = expect.at_most.unwrap_or(f64::INFINITY);
    if low >= least && high <= most {
        State::Supported
    } else if high < least || low > most {
        State::Refuted
    } else {
        State::Undecided
    }
}

/// A number, rounded to the significant digits according to its interval.
fn rounded(value: f64, estimate: Estimate) -> f64 {
    let width = match (estimate.low, estimate.high) {
        (Some(low), Some(high)) if high > low => high - low,
        // Without an interval.
        _ if estimate.value != 0.0 => estimate.value.abs() * 1e-4,
        _ => return value,
    };
    #[expect(clippy::cast_possible_truncation, reason = "the exponent of a finite number")]
    let digits = (2.0 - width.log10().floor()) as i32;
    if !(-300..=300).contains(&digits) {
        return value;
    }
    let factor = 10.0_f64.powi(digits);
    let text = format!("{:.*}", usize::try_from(digits.max(0)).unwrap_or(0), (value * factor).round() / factor);
    text.parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::tests::Normal;

    /// Adds seeds from 2 to 10 until `expect` is decided, at the level for this number of looks; returns the verdict
    /// and the number of seeds.
    fn decided(normal: &mut Normal, effect: f64, expect: Expectation, looks: usize) -> (State, usize) {
        let mut values = vec![effect + normal.draw()];
        while values.len() < 10 {
            values.push(effect + normal.draw());
            let Some(estimate) = Sample::new(&values).map(|sample| sample.estimate_at(level_of(looks))) else {
                continue;
            };
            let (Some(low), Some(high)) = (estimate.low, estimate.high) else { continue };
            let state = state(low, high, expect);
            if state != State::Undecided {
                return (state, values.len());
            }
        }
        (State::Undecided, values.len())
    }

    /// Rate of wrong verdicts on the claims that a value is below, or above, its true value. Both claims use the same
    /// numbers, and either mistake counts.
    fn errors(looks: usize, rounds: usize) -> f64 {
        let mut normal = Normal::default();
        let above = Expectation { at_least: Some(1e-9), at_most: None };
        let below = Expectation { at_least: None, at_most: Some(1e-9) };
        let wrong = (0..rounds).filter(|round| {
            let expect = if round % 2 == 0 { above } else { below };
            // There is no effect: supporting the one claim and refuting the other are both wrong.
            let bad = if round % 2 == 0 { State::Supported } else { State::Refuted };
            decided(&mut normal, 0.0, expect, looks).0 == bad
        });
        wrong.count() as f64 / rounds as f64
    }

    #[test]
    fn stopping_at_the_first_verdict_errs_no_more_often_than_one_look() {
        let rounds = 20_000;
        // The error rate of one side is half of 5 %, plus four standard errors.
        let most = 0.025 + 4.0 * (0.025_f64 * 0.975 / rounds as f64).sqrt();
        let corrected = errors(9, rounds);
        assert!(corrected <= most, "{corrected}");
        let naive = errors(1, rounds);
        assert!(naive > 2.0 * most, "without the correction it would be {naive}, and this test would prove nothing");
    }

    #[test]
    fn clear_effects_need_few_seeds() {
        let mut normal = Normal::default();
        let expect = Expectation { at_least: Some(0.0), at_most: None };
        let rounds = 2_000;
        let ended: Vec<(State, usize)> = (0..rounds).map(|_| decided(&mut normal, 6.0, expect, 9)).collect();
        let right = ended.iter().filter(|(state, _)| *state == State::Supported).count();
        let seeds = ended.iter().map(|(_, seeds)| *seeds).sum::<usize>() as f64 / f64::from(rounds);
        assert!(right as f64 > 0.99 * f64::from(rounds), "{right}");
        assert!(seeds < 5.0, "{seeds} seeds on average");
    }
}
