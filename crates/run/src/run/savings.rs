//! Time that shared states save, estimated from the records of earlier jobs.
//!
//! Steps do not cost the same, and every job has a start. A record's milestones separate both: the time of its process before its first
//! step and after its last one, and the time of each part of its steps. A record of a job that ended early is exact for the steps that are
//! shared, the record of a job that continued from a state is exact for the rest.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, HashMap},
    io,
};

use sweep_job::{Task, Value};

use crate::{
    plan::{JobId, Plan, Saving, Stretch},
    record::{Identity, Milestone, Record},
    store::{Entry, Store},
};

/// Most records of one configuration that are read.
const MAX_ALIKE: usize = 8;
/// Most records that are read for a step.
const MAX_RECORDS: usize = 128;
/// Parameters on which the time of a step does not depend.
const INDIFFERENT: [&str; 3] = ["until", "seed", "params.seed"];

/// Estimated time of jobs that share states.
#[derive(Debug, Clone, PartialEq)]
pub struct TimeSaving {
    /// Time of all jobs if each ran alone, in seconds.
    pub alone: f64,
    /// Time of all jobs with the states of the plan, in seconds.
    pub shared: f64,
    /// Number of records from which both follow.
    pub records: usize,
    /// Time of each job with the states of the plan, in seconds.
    pub of_jobs: BTreeMap<JobId, f64>,
}

/// The parameters of a job, with entries of maps as `name.entry`.
type Configuration = BTreeMap<String, Value>;

/// Time of a job and of its steps.
#[derive(Debug)]
struct Timed {
    configuration: Configuration,
    /// Time before the first and after the last step, in seconds, if the record has it.
    start: Option<f64>,
    /// Seconds in the steps since the first one, by step, in ascending order: at least the first and the last one.
    points: Vec<Milestone>,
}

/// Times of jobs of one step of a recipe.
#[derive(Debug, Default)]
struct Times {
    timed: Vec<Timed>,
    /// Mean time besides the steps, of jobs from their first step on, and of jobs that continued.
    starts: [f64; 2],
}

impl TimeSaving {
    /// Estimates the time that `saving` saves, from records of the same task with the same values of all parameters that are equal in these
    /// jobs; `None` if there are no such records.
    pub fn of(saving: &Saving, plan: &Plan, entries: &[Entry], store: &Store) -> io::Result<Option<Self>> {
        let chosen_entries = chosen(plan, saving, entries);
        let records = chosen_entries.iter().filter_map(|entry| store.get(entry.key).ok().flatten());
        let times = Times::new(records.filter_map(|record| Timed::of(&record)).collect());
        if times.timed.is_empty() {
            return Ok(None);
        }
        let seconds = |stretch: &Stretch| {
            let configuration = configuration(&plan.job(stretch.job).identity);
            times.seconds(&configuration, stretch.from, stretch.end)
        };
        let seconds_alone = saving.jobs().map(|stretch| seconds(&Stretch { from: 0, ..*stretch })).sum();
        let of_jobs: BTreeMap<JobId, f64> = saving.stretches().iter().map(|own| (own.job, seconds(own))).collect();
        Ok(Some(Self { alone: seconds_alone, shared: of_jobs.values().sum(), records: times.timed.len(), of_jobs }))
    }
}

/// Returns the records from which the durations of these jobs are estimated, the newest first.
fn chosen<'a>(plan: &Plan, saving: &Saving, entries: &'a [Entry]) -> Vec<&'a Entry> {
    let identities = || saving.stretches().iter().map(|stretch| &plan.job(stretch.job).identity);
    let Some(example) = identities().next() else { return Vec::new() };
    let first = configuration(example);
    let mut varying: BTreeSet<String> = INDIFFERENT.map(str::to_owned).into();
    for identity in identities() {
        let own = configuration(identity);
        let names = own.keys().chain(first.keys());
        varying.extend(names.filter(|name| own.get(*name) != first.get(*name)).cloned());
    }
    let is_alike = |entry: &Entry| {
        let Identity { task, revision, backend, .. } = &entry.identity;
        let own = configuration(&entry.identity);
        let mut names = own.keys().chain(first.keys()).filter(|name| !varying.contains(*name));
        (task, revision, backend) == (&example.task, &example.revision, &example.backend)
            && names.all(|name| own.get(name) == first.get(name))
    };
    let mut alike: Vec<&Entry> = entries.iter().filter(|entry| is_alike(entry)).collect();
    alike.sort_by_key(|entry| (Reverse(entry.started), entry.key));
    let mut numbers: HashMap<String, usize> = HashMap::new();
    alike.retain(|entry| {
        let values: Vec<String> =
            configuration(&entry.identity).iter().map(|(name, value)| format!("{name}={value}")).collect();
        // Parts of a training are of other use than whole ones.
        let number =
            numbers.entry(format!("{:?} {}", entry.identity.params.get("until"), values.join("\0"))).or_default();
        *number += 1;
        *number <= MAX_ALIKE
    });
    alike.truncate(MAX_RECORDS);
    alike
}

/// The parameters on which the time of a step may depend.
fn configuration(identity: &Identity) -> Configuration {
    let parts = identity.params.iter().flat_map(|(name, value)| match value {
        Value::Map(entries) => {
            entries.iter().map(|(entry, value)| (format!("{name}.{entry}"), value.clone())).collect::<Vec<_>>()
        }
        value => vec![(name.to_string(), value.clone())],
    });
    parts.filter(|(name, _)| !INDIFFERENT.contains(&name.as_str())).collect()
}

impl Timed {
    /// Time of a record; `None` if its steps are not known.
    fn of(record: &Record) -> Option<Self> {
        let end = Task::info(&record.identity.task)?.reach(&record.params)?.end?;
        let provenance = &record.provenance;
        let from = provenance.continued.map_or(0, |started| started.step);
        let seconds = provenance.seconds;
        if from >= end || !seconds.is_finite() || seconds < 0.0 {
            return None;
        }
        let configuration = configuration(&record.identity);
        let inside = |milestone: &Milestone| (from..=end).contains(&milestone.step) && milestone.seconds <= seconds;
        let milestones: Vec<Milestone> = provenance.milestones.sound().filter(inside).collect();
        let timed = |points: Vec<Milestone>, start| Some(Self { configuration, start, points });
        let [first, second, ..] = milestones[..] else {
            let points = [(from, 0.0), (end, seconds)].map(|(step, seconds)| Milestone { step, seconds });
            return timed(points.into(), None);
        };
        let before = (first.seconds - (first.step - from) as f64 * pace(first, second)).max(0.0);
        let mut points = vec![Milestone { step: from, seconds: 0.0 }];
        let later = milestones.iter().filter(|milestone| milestone.step > from);
        points.extend(later.map(|milestone| Milestone { seconds: milestone.seconds - before, ..*milestone }));
        if let [.., before_last, last] = points[..]
            && last.step < end
        {
            let remaining_seconds = (end - last.step) as f64 * pace(before_last, last);
            points.push(Milestone { step: end, seconds: (last.seconds + remaining_seconds).min(seconds - before) });
        }
        let in_steps = points.last().map_or(0.0, |last| last.seconds);
        timed(points, Some(seconds - in_steps))
    }

    fn from(&self) -> u64 {
        self.points.first().map_or(0, |first| first.step)
    }

    fn end(&self) -> u64 {
        self.points.last().map_or(0, |last| last.step)
    }

    /// Seconds in the steps until one of them.
    fn at(&self, step: u64) -> f64 {
        let after = self.points.partition_point(|point| point.step < step);
        match (after.checked_sub(1).and_then(|before| self.points.get(before)), self.points.get(after)) {
            (Some(before), Some(after)) => before.seconds + (step - before.step) as f64 * pace(*before, *after),
            (Some(last), None) => last.seconds,
            (None, first) => first.map_or(0.0, |first| first.seconds),
        }
    }

    /// Seconds in the steps between two of them, if the job computed all of these.
    fn between(&self, from: u64, to: u64) -> Option<f64> {
        (self.from() <= from && to <= self.end()).then(|| self.at(to) - self.at(from))
    }
}

/// Seconds of a step between two milestones.
fn pace(earlier: Milestone, later: Milestone) -> f64 {
    (later.seconds - earlier.seconds) / (later.step - earlier.step).max(1) as f64
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0_usize), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / count as f64)
}

impl Times {
    fn new(mut timed: Vec<Timed>) -> Self {
        let start = |continued: bool| {
            mean(timed.iter().filter(|own| (own.from() > 0) == continued).filter_map(|own| own.start))
        };
        let (from_beginning, continued) = (start(false), start(true));
        let starts = [from_beginning.or(continued).unwrap_or(0.0), continued.or(from_beginning).unwrap_or(0.0)];
        // A record without a separate start gets the start of the other records.
        for own in timed.iter_mut().filter(|own| own.start.is_none()) {
            let start = starts[usize::from(own.from() > 0)];
            for point in &mut own.points {
                point.seconds = (point.seconds - start).max(0.0);
            }
        }
        Self { timed, starts }
    }

    /// Estimated duration of a job with the steps between two of them, with its start.
    fn seconds(&self, configuration: &Configuration, from: u64, end: u64) -> f64 {
        let ends = self.timed.iter().flat_map(|own| [own.from(), own.end()]);
        let cuts: BTreeSet<u64> = ends.filter(|step| (from..end).contains(step)).chain([from, end]).collect();
        let cuts: Vec<u64> = cuts.into_iter().collect();
        let parts = cuts.windows(2).map(|cut| self.part(configuration, cut[0], cut[1]));
        self.starts[usize::from(from > 0)] + parts.sum::<f64>()
    }

    /// Seconds of a part that every record has whole or not at all: of the same configuration if there is one, else of all; a part that no
    /// job has done counts as fast as the rest.
    fn part(&self, configuration: &Configuration, from: u64, to: u64) -> f64 {
        let alike = self.timed.iter().filter(|own| own.configuration == *configuration);
        let seconds = mean(alike.filter_map(|own| own.between(from, to)));
        let seconds = seconds.or_else(|| mean(self.timed.iter().filter_map(|own| own.between(from, to))));
        seconds.unwrap_or_else(|| {
            let paces = self.timed.iter().map(|own| own.at(own.end()) / (own.end() - own.from()).max(1) as f64);
            mean(paces).unwrap_or(0.0) * (to - from) as f64
        })
    }
}

#[cfg(test)]
mod tests {
    use sweep_job::Values;

    use super::*;
    use crate::record::{Milestones, Needed, Started, sample};

    /// A record of a program with `until` steps, with its milestones.
    fn record(lr2: f64, from: u64, until: i64, seconds: f64, milestones: &[(u64, f64)]) -> Record {
        let task = Task::info("command").unwrap();
        let params = BTreeMap::from([("lr2".to_owned(), Value::Float(lr2))]);
        let given: Values =
            [("run", Value::Text("true".into())), ("until", Value::Int(until)), ("params", Value::Map(params))]
                .map(|(name, value)| (name.to_owned(), value))
                .into();
        let mut record = sample();
        record.params = task.complete(given);
        record.identity = Identity::new(task, &record.params, None, BTreeMap::new(), Needed::default());
        record.key = record.identity.key().unwrap();
        record.provenance.seconds = seconds;
        let state = record.key;
        record.provenance.continued = (from > 0).then_some(Started { step: from, state, record: state });
        let mut result = Milestones::default();
        for (step, seconds) in milestones {
            result.reach(*step, *seconds);
        }
        record.provenance.milestones = result;
        record
    }

    fn times(records: &[Record]) -> Times {
        Times::new(records.iter().filter_map(Timed::of).collect())
    }

    fn near(number: f64, expected: f64) {
        assert!((number - expected).abs() < 1e-9, "{number} is not {expected}");
    }

    /// 2 s before the first step, 0.1 s for each of ten steps, 0.5 s for each of fifty, 1 s after the last.
    const COSTLY: [(u64, f64); 3] = [(0, 2.0), (10, 3.0), (60, 28.0)];

    #[test]
    fn a_record_tells_its_start_and_its_parts_apart() {
        let whole_record = record(1.0, 0, 60, 29.0, &COSTLY);
        let times = times(std::slice::from_ref(&whole_record));
        let own = configuration(&whole_record.identity);
        near(times.seconds(&own, 0, 60), 29.0);
        near(times.seconds(&own, 0, 10), 3.0 + 1.0);
        near(times.seconds(&own, 10, 60), 3.0 + 25.0);
        // Another configuration has nothing better.
        near(times.seconds(&Configuration::new(), 0, 35), 3.0 + 1.0 + 12.5);
        // Longer than anything before: as fast as the mean step.
        near(times.seconds(&own, 0, 120), 29.0 + 60.0 * 26.0 / 60.0);
    }

    #[test]
    fn parts_and_rests_are_those_of_jobs_that_made_them() {
        // The shared part: a start of 1 s, and 4 s. The rest of one configuration: a start of 3 s, and 20 s.
        let part = record(0.0, 0, 10, 5.0, &[(0, 1.0), (10, 5.0)]);
        let record_of_rest = record(1.0, 10, 60, 23.0, &[(10, 3.0), (60, 23.0)]);
        let other = record(2.0, 10, 60, 43.0, &[(10, 3.0), (60, 43.0)]);
        let times = times(&[part, record_of_rest.clone(), other]);
        near(times.seconds(&configuration(&record_of_rest.identity), 0, 60), 1.0 + 4.0 + 20.0);
        near(times.seconds(&configuration(&record_of_rest.identity), 10, 60), 3.0 + 20.0);
        near(times.seconds(&Configuration::new(), 10, 60), 3.0 + 30.0);
    }

    #[test]
    fn without_milestones_all_steps_cost_the_same() {
        let whole_record = record(1.0, 0, 60, 30.0, &[]);
        let own = configuration(&whole_record.identity);
        near(times(std::slice::from_ref(&whole_record)).seconds(&own, 0, 10), 5.0);
        // The start is known from another record.
        let known = record(2.0, 0, 60, 29.0, &COSTLY);
        near(times(&[whole_record, known]).seconds(&own, 0, 10), 3.0 + 27.0 / 6.0);
    }

    #[test]
    fn milestones_that_cannot_be_are_no_news() {
        // After the end of the process, before the state, without a step in between.
        for milestones in [[(0, 50.0), (10, 60.0)], [(1, 0.1), (2, 0.2)], [(60, 1.0), (61, 2.0)]] {
            let continued = record(1.0, 10, 60, 20.0, &milestones);
            let timed = Timed::of(&continued).unwrap();
            assert_eq!((timed.start, timed.from(), timed.end()), (None, 10, 60), "{milestones:?}");
            near(timed.at(35), 10.0);
        }
        assert!(Timed::of(&record(1.0, 60, 60, 1.0, &[])).is_none(), "without steps");
        assert!(Timed::of(&record(1.0, 0, 60, f64::NAN, &[])).is_none());
    }
}
