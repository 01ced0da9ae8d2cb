//! Decisions that imported runs allow: seeds per configuration, repeated runs, and the seeds that a comparison of the two best configurations
//! needs.

use std::collections::BTreeMap;

use sweep_job::Value;

use super::{End, Run, Study};
use crate::{
    format::{clean, count},
    stats::{Better, LEVEL, Sample, WANTED, seeds_needed, seeds_needed_unpaired},
};

/// Seeds at most.
const MAX_SEEDS: usize = 10_000;

/// The values on the axes that distinguish configurations.
type Configuration = Vec<Option<String>>;

/// The values of a metric in a configuration, by seed. Values of runs with the same seed are averaged.
struct Measured<'s> {
    configuration: &'s Configuration,
    by_seed: BTreeMap<String, f64>,
}

impl Measured<'_> {
    fn values(&self) -> Vec<f64> {
        self.by_seed.values().copied().collect()
    }

    fn mean(&self) -> f64 {
        self.by_seed.values().sum::<f64>() / self.by_seed.len() as f64
    }
}

/// Sentences about the decisions that some runs allow about the first metric of their study.
pub fn advise(runs: &[Run], study: &Study) -> Vec<String> {
    let text = |value: Option<&Value>| value.map(Value::to_string);
    let mut groups: BTreeMap<Configuration, BTreeMap<Option<String>, Vec<&Run>>> = BTreeMap::new();
    for (run, params) in runs.iter().zip(&study.params) {
        let configuration = study.configuration().map(|(name, _)| text(params.get(name))).collect();
        let seed = study.seed().and_then(|seed| text(params.get(seed)));
        let seeds = groups.entry(configuration).or_default();
        if run.end == End::Finished {
            seeds.entry(seed).or_default().push(run);
        }
    }
    let mut sentences = vec![seeds(&groups, study)];
    sentences.extend(repeated(&groups, study));
    sentences.extend(comparison(&groups, study));
    sentences
}

type Groups<'r> = BTreeMap<Configuration, BTreeMap<Option<String>, Vec<&'r Run>>>;

/// The numbers of seeds with a finished run per configuration: `1 seed in 1 configuration, 3 seeds in 2 configurations`.
fn seeds(groups: &Groups<'_>, study: &Study) -> String {
    const MAX_PARTS: usize = 4;
    let has_seed = study.seed().is_some();
    let mut numbers: BTreeMap<usize, usize> = BTreeMap::new();
    for seeds in groups.values() {
        let number = if has_seed { seeds.len() } else { seeds.values().map(Vec::len).sum() };
        *numbers.entry(number).or_default() += 1;
    }
    let noun = if has_seed { "seed" } else { "run" };
    let part = |(number, configurations): (&usize, &usize)| {
        format!("{} in {}", count(*number, noun), count(*configurations, "configuration"))
    };
    let mut parts: Vec<String> = numbers.iter().map(part).collect();
    if parts.len() > MAX_PARTS {
        let max_seeds = numbers.keys().last().copied().unwrap_or_default();
        parts.truncate(MAX_PARTS - 1);
        parts.push(format!("up to {} in the others", count(max_seeds, noun)));
    }
    let unknown =
        if has_seed { "" } else { "; no parameter is a seed, so runs of a configuration are its repetitions" };
    format!("{}: {}{unknown}", count(groups.len(), "configuration"), parts.join(", "))
}

/// The runs that have the parameters and the seed of another one.
fn repeated(groups: &Groups<'_>, study: &Study) -> Option<String> {
    const MAX_NAMES: usize = 4;
    study.seed()?;
    let sets: Vec<&Vec<&Run>> = groups.values().flat_map(BTreeMap::values).filter(|runs| runs.len() > 1).collect();
    let runs: usize = sets.iter().map(|runs| runs.len() - 1).sum();
    let first = sets.first()?;
    let mut names: Vec<&str> = first.iter().map(|run| run.id.as_str()).collect();
    let more = if names.len() > MAX_NAMES { ", …" } else { "" };
    names.truncate(MAX_NAMES);
    let same = if runs == 1 { "has" } else { "have" };
    Some(format!(
        "{} {same} the parameters and the seed of another one ({}{more}): runs of one seed are averaged",
        count(runs, "run"),
        clean(&names.join(", "))
    ))
}

/// The finite values of a metric in each configuration.
fn measured<'s>(groups: &'s Groups<'_>, metric: &str, has_seed: bool) -> Vec<Measured<'s>> {
    let value = |run: &&Run| {
        let last = run.series.get(metric)?.last().filter(|value| value.is_finite());
        last.filter(|_| run.end == End::Finished)
    };
    let of = |(configuration, seeds): (&'s Configuration, &BTreeMap<Option<String>, Vec<&Run>>)| {
        let mut by_seed = BTreeMap::new();
        for (seed, runs) in seeds {
            let values: Vec<f64> = runs.iter().filter_map(value).collect();
            match (has_seed, values.as_slice()) {
                (_, []) => {}
                (true, values) => {
                    let mean = values.iter().sum::<f64>() / values.len() as f64;
                    by_seed.insert(seed.clone().unwrap_or_default(), mean);
                }
                (false, values) => {
                    by_seed.extend(values.iter().enumerate().map(|(at, value)| (at.to_string(), *value)));
                }
            }
        }
        (!by_seed.is_empty()).then_some(Measured { configuration, by_seed })
    };
    groups.iter().filter_map(of).collect()
}

/// The comparison of the two best configurations, and the seeds that it needs.
fn comparison(groups: &Groups<'_>, study: &Study) -> Option<String> {
    let metric = study.metrics.first()?;
    let Some(better) = study.better(metric) else {
        let name = clean(metric);
        return Some(format!("the better direction of `{name}` is unknown, so no two configurations are compared"));
    };
    let mut all = measured(groups, metric, study.seed().is_some());
    let sign = if better == Better::More { -1.0 } else { 1.0 };
    all.sort_by(|one, other| (sign * one.mean()).total_cmp(&(sign * other.mean())));
    let [best, second, ..] = all.as_slice() else { return None };
    let name = clean(metric).into_owned();
    let two = format!(
        "the two best configurations by {name}: {} ({}) and {} ({})",
        words(best, study),
        short(best.mean()),
        words(second, study),
        short(second.mean())
    );
    let common: Vec<f64> = best
        .by_seed
        .iter()
        .filter(|_| study.seed().is_some())
        .filter_map(|(seed, value)| Some(value - second.by_seed.get(seed)?))
        .collect();
    let seed = if study.seed().is_some() { "seed" } else { "run" };
    Some(format!("{two}. {}", need(best, second, &common, seed)))
}

/// The seeds that the comparison of two configurations needs; `differences` are the differences at common seeds, and `seed` is the word for
/// a seed.
fn need(best: &Measured<'_>, second: &Measured<'_>, differences: &[f64], seed: &str) -> String {
    let aim = format!("{:.0} % power at a level of {:.0} %", WANTED * 100.0, LEVEL * 100.0);
    let paired = Sample::new(differences).and_then(|sample| Some((sample, sample.sd.filter(|sd| *sd > 0.0)?)));
    let (needed, now, noun) = match paired {
        Some((sample, sd)) => (seeds_needed(sample.mean.abs() / sd, WANTED, LEVEL, MAX_SEEDS), sample.n, "common seed"),
        None => {
            let samples = [best, second].map(|side| Sample::new(&side.values()));
            let spread = |sample: &Sample| Some(sample.sd?.powi(2) * (sample.n - 1) as f64);
            let [Some(one), Some(other)] = samples else { return String::new() };
            let squares = spread(&one).unwrap_or(0.0) + spread(&other).unwrap_or(0.0);
            let freedom = one.n + other.n - 2;
            if freedom == 0 || squares == 0.0 {
                return format!(
                    "No interval is possible: at least two {seed}s of a configuration that differ are needed"
                );
            }
            let sd = (squares / freedom as f64).sqrt();
            let effect = (one.mean - other.mean).abs() / sd;
            (seeds_needed_unpaired(effect, WANTED, LEVEL, MAX_SEEDS), one.n.min(other.n), seed)
        }
    };
    let have = count(now, noun);
    match needed {
        None => {
            format!(
                "They have {have}. More than {MAX_SEEDS} are needed to distinguish a difference of this size from \
                chance"
            )
        }
        Some(needed) if needed <= now => {
            format!("They have {have}, and {needed} would suffice for a difference of this size ({aim})")
        }
        Some(needed) => format!(
            "They have {have}; for a difference of this size {needed} are needed, {} further on each side ({aim})",
            needed - now
        ),
    }
}

/// A configuration in words.
fn words(of: &Measured<'_>, study: &Study) -> String {
    let values = study.configuration().zip(of.configuration);
    let values: Vec<String> =
        values.filter_map(|((_, axis), value)| Some(format!("{axis}={}", value.as_ref()?))).collect();
    clean(&values.join(", ")).into_owned()
}

/// A number with five significant digits.
fn short(value: f64) -> String {
    let digits = format!("{value:.4e}").parse::<f64>().unwrap_or(value);
    Value::number(digits).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::{Runs, Wishes};

    fn study(runs: &[(&str, i64, f64)]) -> Vec<String> {
        let runs: Vec<Run> = runs
            .iter()
            .enumerate()
            .map(|(index, (method, seed, loss))| {
                let mut run = Run { id: format!("run-{index}"), ..Run::default() };
                run.params.insert("method".into(), Value::Text((*method).into()));
                run.params.insert("seed".into(), Value::Int(*seed));
                run.conclude("loss", *loss);
                run
            })
            .collect();
        let mut runs = Runs { runs, ..Runs::default() };
        let study = Study::new(&mut runs, &Wishes::default()).unwrap();
        advise(&runs.runs, &study)
    }

    #[test]
    fn common_seeds_are_paired_and_needed_seeds_are_those_of_the_noncentral_t() {
        // The differences are −0.1, −0.2, −0.6: mean −0.3, standard deviation 0.26458, effect 1.13389. The fewest n with a power
        // of 0.8 is 9: with SciPy 1.17.1, `c = t.ppf(0.975, n - 1); d = 1.1338934 * sqrt(n); nct.sf(c, n - 1, d) + nct.cdf(-c, n - 1, d)`
        // is 0.78495 for 8 and 0.84483 for 9.
        let sentences =
            study(&[("a", 0, 1.0), ("a", 1, 1.1), ("a", 2, 0.9), ("b", 0, 1.1), ("b", 1, 1.3), ("b", 2, 1.5)]);
        assert_eq!(sentences[0], "2 configurations: 3 seeds in 2 configurations");
        assert_eq!(
            sentences[1],
            "the two best configurations by loss: method=a (1) and method=b (1.3). They have 3 common seeds; for a difference of \
             this size 9 are needed, 6 further on each side (80 % power at a level of 95 %)"
        );
    }

    #[test]
    fn runs_with_equal_parameters_and_seeds_are_named_and_averaged() {
        let sentences = study(&[("a", 0, 1.0), ("a", 0, 3.0), ("a", 1, 2.5), ("b", 0, 2.0), ("b", 1, 9.0)]);
        assert!(
            sentences[1].starts_with("1 run has the parameters and the seed of another one (run-0, run-1)"),
            "{sentences:?}"
        );
        assert!(sentences[2].contains("method=a (2.25)"), "the mean of 2 and 2.5: {sentences:?}");
    }

    #[test]
    fn one_seed_each_decides_nothing() {
        let sentences = study(&[("a", 0, 1.0), ("b", 0, 2.0)]);
        assert!(
            sentences[1].ends_with("at least two seeds of a configuration that differ are needed"),
            "{sentences:?}"
        );
    }
}
