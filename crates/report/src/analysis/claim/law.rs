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
    analysis::evidence::{Evidence, Found, Source, complete, like},
    format::{clean, count},
    plan::{JobId, resolved},
    recipe::{Comparison, Expectation, Law, brief},
    record::Key,
    stats::{LEVEL, PowerLaw, Sample},
};

/// The measurements by size, in the order of the sizes; a key is the bits of a positive number.
#[derive(Debug, Default)]
pub(in crate::analysis) struct BySize(pub(in crate::analysis) BTreeMap<u64, Vec<f64>>);

impl BySize {
    /// The measurements by the size `x` of their jobs, and the number of measurements without a size above zero.
    pub(in crate::analysis) fn new(
        found: &[Found<'_>],
        x: &str,
        jobs: &BTreeMap<Key, JobId>,
        source: Source<'_>,
    ) -> (Self, usize) {
        let (mut sizes, mut without_size) = (Self::default(), 0);
        for found in found {
            let job = found.by.and_then(|by| jobs.get(&by.key));
            match job.and_then(|job| size_of(x, found.point, *job, source)).filter(|size| *size > 0.0) {
                Some(size) => sizes.0.entry(size.to_bits()).or_default().push(found.value),
                None => without_size += 1,
            }
        }
        (sizes, without_size)
    }

    /// The mean at a size, if it was measured.
    pub(in crate::analysis) fn mean(&self, size: f64) -> Option<f64> {
        Some(Sample::new(self.0.get(&size.to_bits())?)?.mean)
    }

    /// The sizes other than `predict`.
    fn fitted(&self, predict: Option<f64>) -> impl Iterator<Item = f64> {
        self.0.keys().map(|size| f64::from_bits(*size)).filter(move |size| Some(*size) != predict)
    }

    /// The law of the means by size, without the size that it predicts; `None` with fewer than three sizes or a mean that is
    /// not above zero.
    pub(in crate::analysis) fn law(&self, predict: Option<f64>) -> Option<PowerLaw> {
        let points: Vec<(f64, f64)> = self.fitted(predict).filter_map(|size| Some((size, self.mean(size)?))).collect();
        PowerLaw::new(&points, LEVEL)
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
        let notes = like(&[&side], &question).map_err(|silence| spoken(&silence, metric, &[&side]))?;
        let jobs = jobs_by_key(step, &resolved(&self.source.study.recipe, &comparison.of.only), self.source);
        let (sizes, without_size) = BySize::new(&side.found, x, &jobs, self.source);
        if without_size > 0 {
            return Err(format!("{} without a `{}` above zero", count(without_size, "job"), clean(x)));
        }
        let fitted: Vec<f64> = sizes.fitted(predict).collect();
        let Some(power) = sizes.law(predict) else {
            let sizes = count(fitted.len(), "size");
            return Err(format!(
                "a law needs means above zero at three sizes at least; there are {sizes} of `{}`",
                clean(x)
            ));
        };
        let (value, error, basis) = match predict {
            None => {
                let [first, last] = [fitted[0], fitted[fitted.len() - 1]].map(brief);
                let basis = format!("means at {} of {} from {first} to {last}", count(fitted.len(), "size"), clean(x));
                (power.exponent.value, power.error_of_exponent(), basis)
            }
            Some(size) => {
                let text = brief(size);
                let mean = sizes.mean(size).ok_or_else(|| format!("no job has a `{}` of {text}", clean(x)))?;
                if mean <= 0.0 {
                    return Err(format!("`{}` is not above zero at {text}", clean(metric)));
                }
                let (logarithm, error) = power.logarithm(size);
                let [mean_text, predicted] = [mean, logarithm.exp()].map(brief);
                let sizes = count(fitted.len(), "size");
                let basis =
                    format!("{mean_text} at {} {text}, where the law of {sizes} predicts {predicted}", clean(x));
                (mean.ln() - logarithm, error, basis)
            }
        };
        let mut evidence = Evidence::of_law(value, error, predict.is_some(), side.looks.clone(), basis);
        evidence.notes = notes;
        decide(&evidence, expect, "", verdict)
    }
}
