//! Claims about power laws over sizes, and the measurements by size that tables of laws show, too.

use std::collections::{BTreeMap, BTreeSet};

use sweep_job::Value;

use super::{
    Verdict,
    judge::{Judge, decide},
    scale::size_of,
    silence::spoken,
};
use crate::{
    analysis::{
        evidence::{Evidence, Found, Question, Side, Source, Summary, complete, like, summarize},
        pairs::apart,
        units::{SamplingUnit, place},
    },
    format::{clean, count},
    plan::{JobId, Point, resolved},
    recipe::{Comparison, Expectation, Law, Replication, brief},
    record::Key,
    stats::{LEVEL, LawNumber, PowerLaw},
};

/// The measurements by size, in the order of the sizes, with their means; a key is the bits of a positive number.
#[derive(Default)]
pub(in crate::analysis) struct BySize<'a> {
    sides: BTreeMap<u64, Side<'a>>,
    means: BTreeMap<u64, Summary>,
    /// The number of measurements without a size above zero.
    pub(in crate::analysis) without_size: usize,
    /// A remark on sizes that lack data sets, folds or settings of other sizes.
    pub(in crate::analysis) uneven: Option<String>,
    /// A remark on the units of the means, if they are not seeds alone.
    pub(in crate::analysis) units: Option<String>,
}

impl<'a> BySize<'a> {
    /// The measurements by the size `x` of their jobs. Sizes that jobs measure differ by the seed, so a configuration has the geometric
    /// mean of its sizes.
    pub(in crate::analysis) fn new(
        side: &Side<'a>,
        x: &str,
        jobs: &BTreeMap<Key, JobId>,
        question: &Question<'_>,
        source: Source<'_>,
    ) -> Self {
        let kinds = &question.kinds;
        let mut configurations: BTreeMap<Vec<String>, Vec<(f64, Found<'a>)>> = BTreeMap::new();
        let mut of_sizes = Self::default();
        for found in &side.found {
            let job = found.by.and_then(|by| jobs.get(&by.key));
            match job.and_then(|job| size_of(x, found.point, *job, source)).filter(|size| *size > 0.0) {
                Some(size) => {
                    let configuration = place(found.point, |axis| kinds.of_axis(axis) >= Replication::Seed);
                    configurations.entry(configuration).or_default().push((size, found.clone()));
                }
                None => of_sizes.without_size += 1,
            }
        }
        for measured in configurations.into_values() {
            let first = measured[0].0;
            let is_one = measured.iter().all(|(size, _)| *size == first);
            let logarithms: f64 = measured.iter().map(|(size, _)| size.ln()).sum();
            let size = if is_one { first } else { (logarithms / measured.len() as f64).exp() };
            let of_size = of_sizes.sides.entry(size.to_bits()).or_default();
            of_size.looks = side.looks.clone();
            of_size.found.extend(measured.into_iter().map(|(_, found)| found));
        }
        let geometric = question.traits.unit.is_timing() && of_sizes.sides.values().all(Side::is_positive);
        let means =
            of_sizes.sides.iter().filter_map(|(size, side)| Some((*size, summarize(side, question, geometric)?)));
        of_sizes.means = means.collect();
        of_sizes.uneven = of_sizes.uneven_words(x, question);
        let unit_of = |side: &Side<'_>| {
            SamplingUnit::of(&side.found.iter().map(|found| found.point), &question.apart, kinds, None)
        };
        let unit = of_sizes.sides.values().map(unit_of).find(|unit| !unit.is_seeds());
        of_sizes.units = unit.map(|unit| format!("the mean at a size is over {}", unit.over()));
        of_sizes
    }

    /// The keys of the sizes.
    pub(in crate::analysis) fn keys(&self) -> impl ExactSizeIterator<Item = u64> {
        self.sides.keys().copied()
    }

    /// The mean at the size with this key over the units of a verdict, a geometric one for times.
    pub(in crate::analysis) fn summary(&self, key: u64) -> Option<&Summary> {
        self.means.get(&key)
    }

    /// The mean at `size`; see [`summary`](Self::summary).
    pub(in crate::analysis) fn mean(&self, size: f64) -> Option<f64> {
        Some(self.summary(size.to_bits())?.estimate.value)
    }

    /// The measurements of each size.
    pub(in crate::analysis) fn sides(&self) -> Vec<&Side<'a>> {
        self.sides.values().collect()
    }

    /// The sizes other than `predict`.
    fn fitted(&self, predict: Option<f64>) -> impl Iterator<Item = f64> {
        self.keys().map(f64::from_bits).filter(move |size| Some(*size) != predict)
    }

    /// The law of the means by size, without the size that it predicts; `None` with too few sizes or a mean that is not above
    /// zero.
    pub(in crate::analysis) fn law(&self, predict: Option<f64>, with_constant: bool) -> Option<PowerLaw> {
        let points: Vec<(f64, f64)> = self.fitted(predict).filter_map(|size| Some((size, self.mean(size)?))).collect();
        PowerLaw::new(&points, with_constant)
    }

    /// The data sets, folds and settings that only some of the sizes have: the differences between them distort the law.
    fn uneven_words(&self, x: &str, question: &Question<'_>) -> Option<String> {
        /// Maximum number of sizes that are named.
        const MAX_NAMED: usize = 3;
        let points = || self.sides.values().flat_map(|side| &side.found).map(|found| found.point);
        // Sizes that no axis has follow from the settings, which then differ between sizes.
        let is_axis = points().any(|point| point.get(x).is_some());
        let is_shared = |axis: &str| match question.kinds.of_axis(axis) {
            Replication::Dataset | Replication::Fold => true,
            Replication::Condition => is_axis && axis != x && question.apart.iter().all(|other| other != axis),
            _ => false,
        };
        let axes: BTreeSet<&str> = points().flat_map(|point| &point.values).map(|(axis, _)| axis.as_str()).collect();
        let mut lacking: BTreeMap<u64, Vec<String>> = BTreeMap::new();
        let mut uneven_axes: Vec<String> = Vec::new();
        for axis in axes.into_iter().filter(|axis| is_shared(axis)) {
            let text = |point: &Point| point.get(axis).map_or_else(|| "–".to_owned(), ToString::to_string);
            let all: BTreeSet<String> = points().map(text).collect();
            let missing = |side: &Side<'_>| -> Vec<String> {
                let own: BTreeSet<String> = side.found.iter().map(|found| text(found.point)).collect();
                all.difference(&own).cloned().collect()
            };
            let of_axis = self.sides.iter().map(|(size, side)| (*size, missing(side)));
            let of_axis: Vec<(u64, Vec<String>)> = of_axis.filter(|(_, missing)| !missing.is_empty()).collect();
            if !of_axis.is_empty() {
                uneven_axes.push(format!("`{}`", clean(axis)));
            }
            for (size, missing) in of_axis {
                lacking.entry(size).or_default().extend(missing);
            }
        }
        let mut texts: Vec<String> = lacking
            .iter()
            .take(MAX_NAMED)
            .map(|(size, values)| format!("{} lacks {}", brief(f64::from_bits(*size)), clean(&values.join(" and "))))
            .collect();
        if lacking.len() > MAX_NAMED {
            texts.push(count(lacking.len() - MAX_NAMED, "other size"));
        }
        (!texts.is_empty()).then(|| {
            format!(
                "sizes do not have the same values of {}, so their differences are part of the law: {}",
                uneven_axes.join(" and "),
                texts.join(", ")
            )
        })
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
        let axes = apart(&self.source.study.recipe.steps[step], &[x]);
        let question = self.question(&[step], metric, axes, predict.is_some());
        let mut side = self.side(&comparison.of, metric, question.traits, verdict)?;
        complete(&mut [&mut side], &question).map_err(|silence| spoken(&silence, metric, &[&side]))?;
        let jobs = jobs_by_key(step, &resolved(&self.source.study.recipe, &comparison.of.only), self.source);
        let sizes = BySize::new(&side, x, &jobs, &question, self.source);
        // Each size is compared with the others, so their times must be measured in turns.
        let by_size = sizes.sides();
        let notes =
            like(&by_size, question.traits, question.rules).map_err(|silence| spoken(&silence, metric, &by_size))?;
        if sizes.without_size > 0 {
            return Err(format!("{} without a `{}` above zero", count(sizes.without_size, "job"), clean(x)));
        }
        let fitted: Vec<f64> = sizes.fitted(predict).collect();
        if let Some(size) = fitted.iter().find(|size| sizes.mean(**size).is_some_and(|mean| mean <= 0.0)) {
            return Err(format!("`{}` is not above zero at {}, as a power law requires", clean(metric), brief(*size)));
        }
        let Some(power) = sizes.law(predict, law.constant) else {
            let (least, sizes) = (least_sizes(law.constant), count(fitted.len(), "size"));
            return Err(format!("a law needs means at {least} or more sizes; there are {sizes} of `{}`", clean(x)));
        };
        // A power of any exponent with a factor of zero fits them.
        if law.constant && fitted.windows(2).all(|two| sizes.mean(two[0]) == sizes.mean(two[1])) {
            return Err("the means are equal at all sizes, so every exponent fits them".to_owned());
        }
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
                    return Err(format!("`{}` is not above zero at {text}, as a power law requires", clean(metric)));
                }
                let [mean_text, predicted] = [mean, power.predict(size, LEVEL).value].map(brief);
                let others = count(fitted.len(), "size");
                let basis =
                    format!("{mean_text} at {} {text}, where the law of {others} predicts {predicted}", clean(x));
                (LawNumber::RatioAt { x: size, y: mean }, basis)
            }
        };
        let mut evidence = Evidence::of_law(power, number, side.looks.clone(), basis + &constant);
        evidence.notes = notes.into_iter().chain(sizes.units).chain(sizes.uneven).collect();
        decide(&evidence, expect, "", verdict)
    }
}
