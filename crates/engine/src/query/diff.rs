//! Differences between two runs, recipes or stores: jobs, parameters, metrics, claims, environment.
//!
//! Jobs of both sides are matched by name. Jobs that differ only in `seed` are one group; its differences are taken in
//! pairs, seed by seed, and are significant after Holm's correction for all of them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde::Serialize;
use sweep_job::{Task, Unit, Values};

use super::changed::{Change, changes};
use crate::{
    analysis::{State, Verdict, conditions::comparable, digits_of},
    format::{Scale, count, decimals, number},
    plan::Manifests,
    record::{Environment, Identity, Key, Provenance, ReadFile, ReadSet, Record},
    run::Manifest,
    stats::{Estimate, LEVEL, Sample, holm},
    store::{Measured, Store, StoreError},
};

/// A side of a comparison.
#[derive(Debug, Default)]
pub struct Side {
    /// Name given by the user.
    pub name: String,
    /// Its jobs, by their names.
    pub jobs: BTreeMap<String, SideJob>,
    /// The verdicts on its claims.
    pub verdicts: Vec<Verdict>,
    /// Environments of its jobs by their identifiers; `None` for environments that cannot be read.
    environments: BTreeMap<String, Option<Arc<Environment>>>,
    /// The lists of files that its jobs have read; `None` before the first record.
    manifests: Option<Manifests>,
    /// True for a single record that was named by its key.
    is_record: bool,
    /// Metrics that a recipe declares as times or rates.
    pub times: BTreeSet<String>,
}

/// A job of one side.
#[derive(Debug)]
pub struct SideJob {
    /// Its key.
    pub key: Key,
    /// Identity, as far as it is known.
    pub identity: Option<Identity>,
    /// Its parameters, as far as they are known, with the paths of its inputs.
    pub values: Values,
    /// Its record, if it is done.
    pub record: Option<Record>,
    /// The files that its program has read, if they are known; of a job of a plan without record, as they are now.
    pub code: Option<Arc<ReadSet>>,
    /// The environment of its program, if it is known.
    pub environment: Option<Arc<Environment>>,
}

/// Differences.
#[derive(Debug, Serialize)]
pub struct Difference {
    /// Names of the two sides.
    pub sides: [String; 2],
    /// Number of jobs that both have.
    pub shared: usize,
    /// Number of shared jobs with the same key on both sides.
    pub same: usize,
    /// The names of jobs that only one side has.
    pub only: [Vec<String>; 2],
    /// Parameters, inputs and code of jobs of the same name.
    pub params: Vec<Change>,
    /// Their metrics.
    pub metrics: Vec<MetricChange>,
    /// Changes of verdicts.
    pub claims: Vec<ClaimChange>,
    /// Environment of the results: properties, and the different values on each side.
    pub environment: Vec<(String, [Vec<String>; 2])>,
}

/// A metric that differs.
#[derive(Debug, Serialize)]
pub struct MetricChange {
    /// The jobs' name without the seed.
    pub group: String,
    /// The metric.
    pub metric: String,
    /// Its unit.
    pub unit: Unit,
    /// The means of both sides.
    pub means: [f64; 2],
    /// The mean of the second minus the first.
    pub difference: f64,
    /// Its 95 % confidence interval.
    pub interval: Option<[f64; 2]>,
    /// The probability of a difference at least as large if there were none, corrected.
    pub p: Option<f64>,
    /// True if chance cannot explain it; `None` if one pair cannot decide it.
    pub significant: Option<bool>,
    /// Number of pairs, or of measurements on both sides if they cannot be paired.
    pub n: usize,
    /// True for one of the task's main metrics.
    pub headline: bool,
    /// The reason why a time or a rate is not judged: other conditions, or sides that were not measured in turns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unlike: Option<String>,
}

/// A change of a metric in words.
#[derive(Debug, PartialEq, Eq)]
pub struct Shown {
    /// The means of both sides, and the unit of all numbers, with a space before it.
    pub means: [String; 2],
    /// See above.
    pub unit: String,
    /// The difference with its interval.
    pub difference: String,
    /// Statement about significance.
    pub chance: String,
}

impl MetricChange {
    /// Returns the reasons why some of `changes` are not judged, each once.
    pub fn unlike<'c>(changes: impl IntoIterator<Item = &'c Self>) -> BTreeSet<&'c str> {
        changes.into_iter().filter_map(|change| change.unlike.as_deref()).collect()
    }

    /// True if chance can explain it.
    pub fn is_noise(&self) -> bool {
        self.significant == Some(false)
    }

    /// Returns the numbers, rounded to the second digit of the uncertainty, or else of the difference.
    pub fn shown(&self) -> Shown {
        let Self { metric, unit, means, difference, interval, p, n, .. } = self;
        let maximum = means.iter().fold(0.0_f64, |maximum, mean| maximum.max(mean.abs()));
        let scale = Scale::of_metric(metric, maximum, *unit);
        let half = interval.map(|[low, high]| (high - low) / 2.0 / scale.factor).filter(|half| *half > 0.0);
        // Without an interval, the difference has three digits, as single values have.
        let digits = half.map_or_else(|| decimals(*difference / scale.factor), digits_of);
        let text_of = |value: f64| number(value / scale.factor, digits);
        // The means have the digits of the difference, and no fewer than they have alone.
        let mean_of = |value: f64| number(value / scale.factor, digits.max(decimals(value / scale.factor)));
        let sign = if *difference > 0.0 { "+" } else { "" };
        let half = half.map_or_else(String::new, |half| format!(" ± {}", number(half, digits)));
        let unit = if scale.suffix.is_empty() { String::new() } else { format!(" {}", scale.suffix) };
        let chance = match p {
            _ if self.unlike.is_some() => "not judged".to_owned(),
            Some(p) if *p < 0.001 => format!("p < 0.001, {}", count(*n, "pair")),
            Some(p) => format!("p = {p:.3}, {}", count(*n, "pair")),
            None => "one pair cannot show significance".to_owned(),
        };
        let difference = format!("{sign}{}{half}{unit}", text_of(*difference));
        Shown { means: means.map(mean_of), unit, difference, chance }
    }
}

/// A claim whose verdict differs.
#[derive(Debug, Serialize)]
pub struct ClaimChange {
    /// The claim.
    pub claim: String,
    /// The verdicts; `None` where it is not claimed.
    pub states: [Option<State>; 2],
    /// The reason.
    pub because: [String; 2],
}

impl Side {
    /// Returns a side without jobs.
    pub fn new(name: String) -> Self {
        Self { name, ..Self::default() }
    }

    /// Results of a run, as far as its jobs are done.
    pub fn of_run(name: String, manifest: Manifest, store: &Store) -> Result<Self, StoreError> {
        let mut side = Self::new(name);
        for job in manifest.jobs {
            let record = store.get(job.key)?;
            let identity = record.as_ref().map(|record| record.identity.clone());
            side.add(job.label, job.key, (identity, Values::new()), record, store);
        }
        Ok(side)
    }

    /// Returns the side of a single record.
    pub fn of_record(name: String, record: Record, store: &Store) -> Self {
        let mut side = Self { is_record: true, ..Self::new(name) };
        let identity = Some(record.identity.clone());
        side.add(record.label.clone(), record.key, (identity, Values::new()), Some(record), store);
        side
    }

    /// Gives the record of this side the name of the other side's record, if both sides are single records: two records that
    /// the user names are compared even if their jobs have different names.
    pub fn pair_with(&mut self, other: &Self) {
        if let (true, true, Some(label)) = (self.is_record, other.is_record, other.jobs.keys().next())
            && let Some((_, job)) = self.jobs.pop_first()
        {
            self.jobs.insert(label.clone(), job);
        }
    }

    /// Adds a job whose record, if it is done, is in a store. The parameters come from a plan; parameters of a record take precedence.
    pub fn add(
        &mut self,
        label: String,
        key: Key,
        (identity, values): (Option<Identity>, Values),
        record: Option<Record>,
        store: &Store,
    ) {
        let id = record.as_ref().and_then(|record| record.provenance.conditions.as_ref()?.environment.clone());
        let environment = id.and_then(|id| {
            let entry = self.environments.entry(id);
            entry.or_insert_with_key(|id| store.environment(id).map(Arc::new)).clone()
        });
        let code = record.as_ref().and_then(|record| {
            let manifests = self.manifests.get_or_insert_with(|| store.listed_manifests());
            manifests.read_by(record.read.as_deref(), &record.identity, key)
        });
        let values = record.as_ref().map_or(values, |record| record.params.clone());
        self.jobs.insert(label, SideJob { key, identity, values, record, code, environment });
    }

    /// Adds the files that the program of a job without record will find.
    pub fn add_code(&mut self, label: &str, files: BTreeMap<String, ReadFile>) {
        if let Some(job) = self.jobs.get_mut(label).filter(|job| job.record.is_none()) {
            job.code = Some(Arc::new(ReadSet::new(files, BTreeMap::new())));
        }
    }

    /// The environments of its jobs, each once.
    fn environments(&self) -> Vec<&Environment> {
        self.environments.values().filter_map(|environment| environment.as_deref()).collect()
    }
}

impl Difference {
    /// Compares two sides.
    pub fn new(first: &Side, second: &Side) -> Self {
        let common_jobs: Vec<(&String, &SideJob, &SideJob)> =
            first.jobs.iter().filter_map(|(label, job)| Some((label, job, second.jobs.get(label)?))).collect();
        let exclusive_labels = |side: &Side, other: &Side| -> Vec<String> {
            side.jobs.keys().filter(|label| !other.jobs.contains_key(*label)).cloned().collect()
        };
        Self {
            sides: [first.name.clone(), second.name.clone()],
            shared: common_jobs.len(),
            same: common_jobs.iter().filter(|(_, first_job, second_job)| first_job.key == second_job.key).count(),
            only: [exclusive_labels(first, second), exclusive_labels(second, first)],
            params: changes(&common_jobs),
            metrics: metrics(&common_jobs, &(&first.times | &second.times)),
            claims: claims(&first.verdicts, &second.verdicts),
            environment: environment(first, second),
        }
    }

    /// True if nothing differs.
    pub fn is_empty(&self) -> bool {
        self.only.iter().all(Vec::is_empty)
            && self.params.is_empty()
            && self.metrics.is_empty()
            && self.claims.is_empty()
            && self.environment.is_empty()
    }
}

/// A job's name without the seed.
fn group(label: &str) -> String {
    let (step, point) = label.split_once('/').unwrap_or((label, ""));
    let axes: Vec<&str> = point.split(',').filter(|axis| !axis.is_empty() && !axis.starts_with("seed=")).collect();
    if axes.is_empty() { step.to_owned() } else { format!("{step}/{}", axes.join(",")) }
}

fn metrics(common_jobs: &[(&String, &SideJob, &SideJob)], times: &BTreeSet<String>) -> Vec<MetricChange> {
    /// The pairs of a metric in a group.
    struct Pairs {
        unit: Unit,
        headline: bool,
        values: Vec<(f64, f64)>,
        /// The pairs of records, as indices.
        records: Vec<usize>,
    }
    let mut measured: Vec<[Measured; 2]> = Vec::new();
    let mut groups: BTreeMap<(String, String), Pairs> = BTreeMap::new();
    for (label, first_job, second_job) in common_jobs {
        // A job that is the same on both sides has one record.
        let (Some(first_record), Some(second_record)) = (&first_job.record, &second_job.record) else { continue };
        let headline = Task::info(&second_record.identity.task).map_or(&[][..], |task| task.headline);
        measured.push([first_record.into(), second_record.into()]);
        for (name, metric) in &first_record.outcome.metrics {
            let Some(second_metric) = second_record.outcome.metrics.get(name) else { continue };
            let pairs = groups.entry((group(label), name.clone())).or_insert_with(|| Pairs {
                unit: metric.unit,
                headline: headline.is_empty() || headline.contains(&name.as_str()),
                values: Vec::new(),
                records: Vec::new(),
            });
            // The sides may report the same in multiples of a unit.
            let value_pair = metric.value_in(pairs.unit).zip(second_metric.value_in(pairs.unit));
            pairs.records.extend(value_pair.map(|_| measured.len() - 1));
            pairs.values.extend(value_pair);
        }
    }
    let mut changes = Vec::new();
    for ((group, metric), Pairs { unit, headline, values, records }) in groups {
        let differences: Vec<f64> = values.iter().map(|(before, after)| after - before).collect();
        if differences.iter().all(|difference| *difference == 0.0) {
            continue;
        }
        let n = values.len() as f64;
        let means = [
            values.iter().map(|(before, _)| before).sum::<f64>() / n,
            values.iter().map(|(_, after)| after).sum::<f64>() / n,
        ];
        let Some(Estimate { value, low, high, p }) = Sample::new(&differences).map(|sample| sample.estimate()) else {
            continue;
        };
        let depends_on_load = unit.is_timing() || metric.starts_with("utilization.") || times.contains(&metric);
        let unlike = if depends_on_load {
            let [first, second] =
                [0, 1].map(|side| records.iter().map(|pair| &measured[*pair][side]).collect::<Vec<_>>());
            comparable(&[&first, &second]).reason
        } else {
            None
        };
        let interval = low.zip(high).map(|(low, high)| [low, high]).filter(|_| unlike.is_none());
        changes.push(MetricChange {
            group,
            metric,
            unit,
            means,
            difference: value,
            interval,
            p: p.filter(|_| unlike.is_none()),
            significant: None,
            n: values.len(),
            headline,
            unlike,
        });
    }
    let chance: Vec<f64> = changes.iter().filter_map(|change| change.p).collect();
    let mut corrected_p = holm(&chance).into_iter();
    for change in changes.iter_mut().filter(|change| change.p.is_some()) {
        change.p = corrected_p.next();
        change.significant = change.p.map(|p| p < 1.0 - LEVEL);
    }
    changes
}

fn claims(first: &[Verdict], second: &[Verdict]) -> Vec<ClaimChange> {
    let mut names: Vec<&str> = first.iter().chain(second).map(|verdict| verdict.claim.as_str()).collect();
    let mut visited_names = BTreeSet::new();
    names.retain(|name| visited_names.insert(*name));
    let find = |verdicts: &'_ [Verdict], name: &str| -> (Option<State>, String) {
        let verdict = verdicts.iter().find(|verdict| verdict.claim == name);
        (verdict.map(|verdict| verdict.state), verdict.map(|verdict| verdict.because.clone()).unwrap_or_default())
    };
    let changes = names.into_iter().map(|name| {
        let ((first_state, first_reason), (second_state, second_reason)) = (find(first, name), find(second, name));
        ClaimChange {
            claim: name.to_owned(),
            states: [first_state, second_state],
            because: [first_reason, second_reason],
        }
    });
    changes.filter(|change| change.states[0] != change.states[1]).collect()
}

/// Property of a record's environment.
type Fact = fn(&Provenance) -> String;

fn environment(first: &Side, second: &Side) -> Vec<(String, [Vec<String>; 2])> {
    let facts: [(&str, Fact); 4] = [
        ("sweep", |provenance| provenance.sweep.clone()),
        ("host", |provenance| provenance.host.clone()),
        ("device", |provenance| {
            let device = provenance.device.as_ref();
            device.map_or_else(|| "none".to_owned(), |device| format!("{} ({})", device.name, device.backend.name()))
        }),
        ("threads", |provenance| provenance.threads.to_string()),
    ];
    let values = |side: &Side, fact: Fact| -> Vec<String> {
        let records = side.jobs.values().filter_map(|job| job.record.as_ref());
        let values: BTreeSet<String> = records.map(|record| fact(&record.provenance)).collect();
        values.into_iter().collect()
    };
    let facts = facts.map(|(name, fact)| (name.to_owned(), [values(first, fact), values(second, fact)]));
    let facts =
        facts.into_iter().filter(|(_, [before, after])| before != after && !before.is_empty() && !after.is_empty());
    facts.chain(Environment::differences(&first.environments(), &second.environments())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_names_without_the_seed() {
        for (label, expected) in [
            ("train/prune=none,seed=0", "train/prune=none"),
            ("train/seed=0", "train"),
            ("train", "train"),
            ("train/lr=0.1,warm=2", "train/lr=0.1,warm=2"),
        ] {
            assert_eq!(group(label), expected);
        }
    }
}
