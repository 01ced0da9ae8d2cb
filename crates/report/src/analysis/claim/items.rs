//! Claims over the items of a test set: paired by item, with the clusters of items and the seeds as random factors.

use std::collections::{BTreeMap, BTreeSet};

use super::judge::Judge;
use crate::{
    analysis::{
        evidence::{Evidence, Side},
        exact::Exact,
        items::{Scores, declared},
        units::place,
    },
    format::{clean, count},
    plan::{JobId, Point, resolved},
    recipe::{self, Comparison, Missing, Replication, Statistic},
    stats::{Runs, Signs, clustered},
};

/// The scores of the jobs of one side, in the order of the items.
struct Scored<'a> {
    points: Vec<&'a Point>,
    runs: Runs,
    items: Vec<String>,
    clusters: Vec<String>,
}

impl<'a> Judge<'a> {
    /// True if a claim is over items, which requires that the step of each side declares scores of the metric.
    pub(super) fn is_over_items(&self, comparison: &Comparison) -> bool {
        let sides = comparison.sides();
        let study = self.source.study;
        sides.map(|side| side.step).all(|step| declared(study, step, &comparison.metric.value).is_some())
    }

    /// The evidence over the items of the jobs of one or two sides. `looks` come from the sides' measurements.
    pub(super) fn over_items(
        &self,
        comparison: &Comparison,
        measured: &[&Side<'_>],
        apart: &[String],
        ratio: bool,
    ) -> Result<Evidence, String> {
        if self.rules.statistic != Statistic::Mean {
            return Err("items support only means: remove `statistic`".to_owned());
        }
        let sides = comparison.sides();
        let scored_sides: Vec<Scored<'a>> =
            sides.map(|side| self.scored(side, &comparison.metric.value, apart)).collect::<Result<_, _>>()?;
        let first = &scored_sides[0];
        if let Some(other) =
            scored_sides.iter().find(|other| other.items != first.items || other.clusters != first.clusters)
        {
            return Err(difference_of(first, other));
        }
        let clusters = numbered(&first.clusters);
        let looks =
            measured.iter().map(|side| side.looks.clone()).reduce(|all, own| all.joined(&own)).unwrap_or_default();
        let (sides, value) = influences(&scored_sides, apart, ratio, self.rules.independent)?;
        let (mean, error) = clustered(&sides, &clusters).ok_or("the jobs have no items in common")?;
        let error = error.ok_or("a variance cannot be estimated from one cluster of items")?;
        if error.is_zero() {
            return Err(format!(
                "all {} have the same score, so their spread is unknown",
                count(clusters.len(), "item")
            ));
        }
        // For a ratio, the influences of the items on its logarithm have the mean zero.
        let average = |item: usize| {
            let of_sides = sides.iter().map(|runs| runs.iter().map(|run| run[item]).sum::<f64>() / runs.len() as f64);
            of_sides.sum::<f64>() + value.unwrap_or(0.0)
        };
        let signs = (scored_sides.len() == 2)
            .then(|| Signs::new(&(0..clusters.len()).map(average).collect::<Vec<f64>>(), &clusters))
            .flatten();
        let basis = basis(first, &scored_sides, &clusters);
        let mut evidence =
            Evidence::of_items(value.unwrap_or(mean), Exact::Items { error, signs }, ratio, looks, basis);
        if scored_sides.iter().any(|side| side.runs.len() == 1) {
            evidence
                .notes
                .push("one seed per side, so the verdict is about these runs, not about other seeds".to_owned());
        }
        Ok(evidence)
    }

    /// The scores of the jobs of a side, which have the same items.
    fn scored(&self, side: &recipe::Side, metric: &str, apart: &[String]) -> Result<Scored<'a>, String> {
        let points = self.source.points(side.step, &resolved(&self.source.study.recipe, &side.only));
        let kinds = self.source.kinds(&[side.step]);
        let varies = |axis: &str| points.iter().any(|(point, _)| point.get(axis) != points[0].0.get(axis));
        let axes = points.first().into_iter().flat_map(|(point, _)| &point.values).map(|(axis, _)| axis.as_str());
        if let Some(axis) = axes
            .filter(|axis| !apart.iter().any(|name| name == axis))
            .find(|axis| varies(axis) && kinds.of_axis(axis) < Replication::Seed)
        {
            return Err(format!("items are judged over seeds, and `{}` varies: name one of its values", clean(axis)));
        }
        let mut scores_of_points: Vec<(&'a Point, &Scores)> = Vec::new();
        let mut absent = 0;
        for (point, job) in points {
            match self.scores(job, metric)? {
                Some(scores) => scores_of_points.push((point, scores)),
                None => absent += 1,
            }
        }
        if scores_of_points.is_empty() || absent > 0 && self.rules.missing != Missing::Ignore {
            return Err(format!("{} without items", count(absent, "job")));
        }
        let items: Vec<String> = scores_of_points[0].1.keys().cloned().collect();
        let clusters = scores_of_points[0].1.values().map(|(cluster, _)| cluster.clone()).collect();
        let scores_of = |(point, scores): &(&'a Point, &Scores)| Scored {
            points: vec![point],
            runs: vec![scores.values().map(|(_, score)| *score).collect()],
            items: scores.keys().cloned().collect(),
            clusters: scores.values().map(|(cluster, _)| cluster.clone()).collect(),
        };
        let mut all = Scored { points: Vec::new(), runs: Vec::new(), items, clusters };
        for mut job_scores in scores_of_points.iter().map(scores_of) {
            if job_scores.items != all.items || job_scores.clusters != all.clusters {
                return Err(difference_of(&all, &job_scores));
            }
            all.points.append(&mut job_scores.points);
            all.runs.append(&mut job_scores.runs);
        }
        Ok(all)
    }

    /// The scores of a job; `None` if it has no result.
    fn scores(&self, job: JobId, metric: &str) -> Result<Option<&'a Scores>, String> {
        if !self.source.measured.contains_key(&job) {
            return Ok(None);
        }
        match self.source.items.get(&(job, metric.to_owned())) {
            Some(Ok(scores)) => Ok(Some(scores)),
            Some(Err(reason)) => Err(reason.clone()),
            None => Err("items are read when a report is made".to_owned()),
        }
    }
}

/// The influences of items on the mean, the difference or the logarithm of the ratio, for each side, or for pairs of runs; and the
/// logarithm of a ratio.
fn influences(
    scored_sides: &[Scored<'_>],
    apart: &[String],
    ratio: bool,
    independent: bool,
) -> Result<(Vec<Runs>, Option<f64>), String> {
    let [of, to] = scored_sides else { return Ok((vec![scored_sides[0].runs.clone()], None)) };
    let mean = |side: &Scored<'_>| {
        let runs = side.runs.iter().map(|run| run.iter().sum::<f64>() / run.len() as f64);
        runs.sum::<f64>() / side.runs.len() as f64
    };
    let (of_mean, to_mean) = (mean(of), mean(to));
    if ratio && (of_mean <= 0.0 || to_mean <= 0.0) {
        return Err("a mean of the items is not above zero, so it has no ratio; claim a `difference`".to_owned());
    }
    let [of_size, to_size] = if ratio { [of_mean, to_mean] } else { [1.0, 1.0] };
    let value = ratio.then(|| (of_mean / to_mean).ln());
    let keys = |side: &Scored<'_>| -> BTreeMap<Vec<String>, usize> {
        let key = |point: &Point| place(point, |axis| apart.iter().any(|other| other == axis));
        side.points.iter().enumerate().map(|(run, point)| (key(point), run)).collect()
    };
    let (of_keys, to_keys) = (keys(of), keys(to));
    if !independent
        && of_keys.keys().eq(to_keys.keys())
        && of_keys.len() == of.runs.len()
        && to_keys.len() == to.runs.len()
    {
        let pair = |(of_run, to_run): (&usize, &usize)| {
            let scores = of.runs[*of_run].iter().zip(&to.runs[*to_run]);
            scores.map(|(of, to)| of / of_size - to / to_size).collect()
        };
        return Ok((vec![of_keys.values().zip(to_keys.values()).map(pair).collect()], value));
    }
    let scaled = |side: &Scored<'_>, size: f64| -> Runs {
        side.runs.iter().map(|run| run.iter().map(|score| score / size).collect()).collect()
    };
    Ok((vec![scaled(of, of_size), scaled(to, -to_size)], value))
}

/// The number of each item's cluster.
fn numbered(clusters: &[String]) -> Vec<usize> {
    let names: BTreeSet<&String> = clusters.iter().collect();
    let numbers: BTreeMap<&String, usize> = names.into_iter().enumerate().map(|(index, name)| (name, index)).collect();
    clusters.iter().map(|cluster| numbers[cluster]).collect()
}

/// The units in words: `50 clusters of 10 items, 3 seeds`.
fn basis(first: &Scored<'_>, scored_sides: &[Scored<'_>], clusters: &[usize]) -> String {
    let seeds: BTreeSet<usize> = scored_sides.iter().map(|side| side.runs.len()).collect();
    let seeds: Vec<String> = seeds.into_iter().map(|seeds| count(seeds, "seed")).collect();
    let seeds = seeds.join(" against ");
    let number = clusters.iter().max().map_or(0, |last| last + 1);
    if number == first.items.len() {
        return format!("{}, {seeds}", count(number, "item"));
    }
    let mut sizes = vec![0_usize; number];
    for cluster in clusters {
        sizes[*cluster] += 1;
    }
    let (least, most) = (sizes.iter().min().copied().unwrap_or(0), sizes.iter().max().copied().unwrap_or(0));
    let size = if least == most { count(most, "item") } else { format!("{least} to {}", count(most, "item")) };
    format!("{} of {size}, {seeds}", count(number, "cluster"))
}

/// The difference between the items of two jobs or sides, in words.
fn difference_of(one: &Scored<'_>, other: &Scored<'_>) -> String {
    let (first, second): (BTreeSet<&String>, BTreeSet<&String>) =
        (one.items.iter().collect(), other.items.iter().collect());
    match first.symmetric_difference(&second).next() {
        Some(item) => {
            let difference = first.symmetric_difference(&second).count();
            format!(
                "the jobs have different items: {} in only one of the two, such as `{}`",
                count(difference, "item"),
                clean(item)
            )
        }
        None => "the jobs have their items in different clusters".to_owned(),
    }
}
