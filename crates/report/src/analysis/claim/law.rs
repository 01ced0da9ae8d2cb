//! Claims about power laws over sizes, and the measurements by size that tables of laws show, too.

use std::collections::BTreeMap;

use sweep_job::Value;

use super::{
    Verdict,
    judge::{Judge, decide},
    scale::size_of,
    silence::spoken,
};
use crate::{
    analysis::{
        evidence::{Evidence, Found, Side, Source, complete, like},
        kinds::Kinds,
        units::place,
    },
    format::{clean, count},
    plan::{JobId, resolved},
    recipe::{Comparison, Expectation, Law, Replication, brief},
    record::Key,
    stats::{LEVEL, LawNumber, PowerLaw},
};

/// The measurements by size, in the order of the sizes; a key is the bits of a positive number.
#[derive(Default)]
pub(in crate::analysis) struct BySize<'a>(pub(in crate::analysis) BTreeMap<u64, Side<'a>>);

impl<'a> BySize<'a> {
    /// The measurements by the size `x` of their jobs, and the number of measurements without a size above zero. Sizes that jobs
    /// measure differ by the seed: those of a configuration are one, their geometric mean.
    pub(in crate::analysis) fn new(
        side: &Side<'a>,
        x: &str,
        jobs: &BTreeMap<Key, JobId>,
        kinds: &Kinds,
        source: Source<'_>,
    ) -> (Self, usize) {
        let mut configurations: BTreeMap<Vec<String>, Vec<(f64, Found<'a>)>> = BTreeMap::new();
        let mut without_size = 0;
        for found in &side.found {
            let job = found.by.and_then(|by| jobs.get(&by.key));
            match job.and_then(|job| size_of(x, found.point, *job, source)).filter(|size| *size > 0.0) {
                Some(size) => {
                    let configuration = place(found.point, |axis| kinds.of_axis(axis) >= Replication::Seed);
                    configurations.entry(configuration).or_default().push((size, found.clone()));
                }
                None => without_size += 1,
            }
        }
        let mut sizes = Self::default();
        for measured in configurations.into_values() {
            let first = measured[0].0;
            let is_one = measured.iter().all(|(size, _)| *size == first);
            let logarithms: f64 = measured.iter().map(|(size, _)| size.ln()).sum();
            let size = if is_one { first } else { (logarithms / measured.len() as f64).exp() };
            let of_size = sizes.0.entry(size.to_bits()).or_default();
            of_size.looks = side.looks.clone();
            of_size.found.extend(measured.into_iter().map(|(_, found)| found));
        }
        (sizes, without_size)
    }

    /// The mean at a size, if it was measured.
    pub(in crate::analysis) fn mean(&self, size: f64) -> Option<f64> {
        Some(self.0.get(&size.to_bits())?.mean())
    }

    /// The measurements of each size.
    pub(in crate::analysis) fn sides(&self) -> Vec<&Side<'a>> {
        self.0.values().collect()
    }

    /// The sizes other than `predict`.
    fn fitted(&self, predict: Option<f64>) -> impl Iterator<Item = f64> {
        self.0.keys().map(|size| f64::from_bits(*size)).filter(move |size| Some(*size) != predict)
    }

    /// The law of the means by size, without the size that it predicts; `None` with too few sizes or a mean that is not above
    /// zero.
    pub(in crate::analysis) fn law(&self, predict: Option<f64>, with_constant: bool) -> Option<PowerLaw> {
        let points: Vec<(f64, f64)> = self.fitted(predict).filter_map(|size| Some((size, self.mean(size)?))).collect();
        PowerLaw::new(&points, with_constant)
    }
}

/// The jobs of a step at the points with these values, by the keys of their records.
pub(in crate::analysis) fn jobs_by_key(
    step: usize,
    selection: &[(&str, Vec<Value>)],
    source: Source<'_>,
) -> BTreeMap<Key, JobId> {
    let points = source.points(step, selection);
    points.into_iter().filter_map(|(_, job)| Some((source.measured.get(&job)?.key, job))).collect()
}

/// The number of sizes that a law needs, in words.
pub(in crate::analysis) fn least_sizes(with_constant: bool) -> &'static str {
    if with_constant { "four" } else { "three" }
}

impl Judge<'_> {
    pub(super) fn law(
        &self,
        comparison: &Comparison,
        law: &Law,
        expect: Expectation,
        verdict: &mut Verdict,
    ) -> Result<(), String> {
        let (metric, x, predict) = (comparison.metric.value.as_str(), law.x.value.as_str(), law.predict);
        let step = comparison.of.step;
        let question = self.question(&[step], metric, Vec::new(), predict.is_some());
        let mut side = self.side(&comparison.of, metric, question.traits, verdict)?;
        complete(&mut [&mut side], &question).map_err(|silence| spoken(&silence, metric, &[&side]))?;
        let jobs = jobs_by_key(step, &resolved(&self.source.study.recipe, &comparison.of.only), self.source);
        let (sizes, without_size) = BySize::new(&side, x, &jobs, &question.kinds, self.source);
        // Each size is compared with the others, so times of sizes are taken in turns.
        let by_size = sizes.sides();
        let notes =
            like(&by_size, question.traits, question.rules).map_err(|silence| spoken(&silence, metric, &by_size))?;
        if without_size > 0 {
            return Err(format!("{} without a `{}` above zero", count(without_size, "job"), clean(x)));
        }
        let fitted: Vec<f64> = sizes.fitted(predict).collect();
        if let Some(size) = fitted.iter().find(|size| sizes.mean(**size).is_some_and(|mean| mean <= 0.0)) {
            return Err(format!("`{}` is not above zero at {}, as a power law is", clean(metric), brief(*size)));
        }
        let Some(power) = sizes.law(predict, law.constant) else {
            let (least, sizes) = (least_sizes(law.constant), count(fitted.len(), "size"));
            return Err(format!("a law needs means at {least} sizes at least; there are {sizes} of `{}`", clean(x)));
        };
        let constant =
            power.constant().map_or_else(String::new, |constant| format!("; the constant is {}", brief(constant)));
        let (number, basis) = match predict {
            None => {
                let [first, last] = [fitted[0], fitted[fitted.len() - 1]].map(brief);
                let basis = format!("means at {} of {} from {first} to {last}", count(fitted.len(), "size"), clean(x));
                (LawNumber::Exponent, basis)
            }
            Some(size) => {
                let text = brief(size);
                let mean = sizes.mean(size).ok_or_else(|| format!("no job has a `{}` of {text}", clean(x)))?;
                if mean <= 0.0 {
                    return Err(format!("`{}` is not above zero at {text}, as a power law is", clean(metric)));
                }
                let [mean_text, predicted] = [mean, power.predict(size, LEVEL).value].map(brief);
                let sizes = count(fitted.len(), "size");
                let basis =
                    format!("{mean_text} at {} {text}, where the law of {sizes} predicts {predicted}", clean(x));
                (LawNumber::RatioAt { x: size, y: mean }, basis)
            }
        };
        let mut evidence = Evidence::of_law(power, number, side.looks.clone(), basis + &constant);
        evidence.notes = notes;
        decide(&evidence, expect, "", verdict)
    }
}
