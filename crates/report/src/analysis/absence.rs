//! Reasons for missing results of jobs, according to the latest run that contained them.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use sweep_job::{Unit, tasks::Imported};

use crate::{
    analysis::{
        evidence::{Evidence, Silence},
        no_interval::NoInterval,
        search,
    },
    format::{clean, count},
    plan::{JobId, Plan, Study},
    record::{Key, is_about_machine},
    run::{RunEvent, RunFolder},
    store::{Measured, Store},
};

/// Reason for a missing result that a table of a study needs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Absence {
    /// Its job failed, with the reason.
    Failed(String),
    /// Its job did not run, because this needed job failed.
    Blocked(String),
    /// Its job will not run, because of a decision of a search.
    Stopped(String),
    /// Its job is running.
    Running,
    /// Its job has not run.
    NotRun,
    /// Its job is done, but did not measure the metric.
    NotMeasured {
        /// The metric.
        metric: String,
        /// The metrics that the job measured instead, in words.
        instead: String,
    },
    /// Its job is done, but the curve off which the metric is read has no such number.
    NotReached {
        /// The metric.
        metric: String,
        /// The reason.
        reason: String,
    },
    /// Its job is done, but the newest value of the metric is not finite.
    Diverged {
        /// The metric.
        metric: String,
        /// The first step of the values that are not finite, if it is known.
        since: Option<u64>,
        /// True if the result was imported from another program.
        imported: bool,
    },
    /// Its job reports the metric in a unit of another kind, both in words.
    OtherUnit(String),
    /// The points of a comparison cannot be paired one to one.
    Unpaired,
    /// A ratio of numbers that are not all above zero.
    NoRatio,
    /// A comparison has no interval.
    Undecided(NoInterval),
    /// A number other than a comparison has no interval.
    NoInterval(NoInterval),
    /// The conditions of the measurements differ, with the reason.
    Unlike(String),
    /// Other jobs of the comparison have no result.
    Incomplete,
}

/// Maximum number of existing metrics that a message about a missing metric lists.
const MAX_NAMES: usize = 5;
/// Number of runs that are searched, the latest first. Jobs in none of them count as not run.
const MAX_RUNS: usize = 20;

/// Reasons for the missing results of jobs.
pub(crate) fn absences(
    plan: &Plan,
    study: &Study,
    measured: &BTreeMap<JobId, Measured>,
    store: &Store,
) -> BTreeMap<JobId, Absence> {
    // The next run repeats a decision that cannot be read.
    let reasons = search::stopped(plan, study, measured, store).unwrap_or_default();
    let jobs: BTreeMap<Key, JobId> =
        study.reported().filter(|(_, id)| !measured.contains_key(id)).map(|(_, id)| (plan.job(*id).key, *id)).collect();
    let mut open_keys: BTreeSet<Key> = jobs.keys().copied().collect();
    let mut absences = BTreeMap::new();
    for (key, id) in &jobs {
        if let Some(reason) = reasons.get(id) {
            open_keys.remove(key);
            absences.insert(*id, Absence::Stopped(reason.clone()));
        }
    }
    // A job of which only the reading of metrics has changed has another key.
    let computed = |key: &Key| Some((plan.job(jobs[key]).identity.program_run()?, *key));
    let computations: BTreeMap<Key, Key> = open_keys.iter().filter_map(computed).collect();
    for run in RunFolder::all(store.results()).iter().rev().take(MAX_RUNS) {
        if open_keys.is_empty() {
            break;
        }
        let mut last = BTreeMap::new();
        for line in run.events().unwrap_or_default() {
            let alike = line.computation.and_then(|computation| computations.get(&computation).copied());
            if let Some(key) = line.key.filter(|key| open_keys.contains(key)) {
                last.insert(key, line.event);
            } else if let Some(key) = alike.filter(|key| open_keys.contains(key)) {
                last.entry(key).or_insert(line.event);
            }
        }
        // A run that did not reach a job does not change the outcome of earlier runs.
        last.retain(|_, event| !matches!(event, RunEvent::Skipped { because: None, .. }));
        for (key, event) in last {
            open_keys.remove(&key);
            absences.insert(jobs[&key], absence(event, run));
        }
    }
    for (key, id) in jobs {
        if open_keys.contains(&key) {
            absences.entry(id).or_insert(Absence::NotRun);
        }
    }
    absences
}

fn absence(event: RunEvent, run: &RunFolder) -> Absence {
    match event {
        RunEvent::Failed { failure, .. } => Absence::Failed(failure.message),
        RunEvent::Skipped { because: Some(need), .. } => {
            let manifest = run.manifest().ok();
            let label = manifest.and_then(|manifest| Some(manifest.jobs.get(need)?.label.clone()));
            Absence::Blocked(label.unwrap_or_default())
        }
        RunEvent::Stopped { .. } | RunEvent::Done { .. } => Absence::NotRun,
        _ if run.is_live() => Absence::Running,
        // The engine was killed while the job ran.
        _ => Absence::NotRun,
    }
}

impl Absence {
    /// The absence of a number that is reported in a unit of another kind than the metric's unit.
    pub(super) fn other_unit(found: Unit, metric: Unit) -> Self {
        let words = |unit: Unit| if unit == Unit::One { "no unit".to_owned() } else { format!("`{}`", unit.key()) };
        Self::OtherUnit(format!("{}, others in {}", words(found), words(metric)))
    }

    /// The absence of a comparison for which there is no evidence; `None` if it has no points.
    pub(super) fn of_silence(silence: Silence) -> Option<Self> {
        match silence {
            Silence::Absent => Some(Self::Incomplete),
            Silence::Unlike(reason) => Some(Self::Unlike(reason)),
            Silence::NoRatio => Some(Self::NoRatio),
            Silence::Unpaired | Silence::Shared(_) | Silence::NoStatistic => Some(Self::Unpaired),
            Silence::NoPoint => None,
        }
    }

    /// The absence of the interval of a comparison.
    pub(super) fn of_doubt(evidence: &Evidence) -> Option<Self> {
        evidence.doubt().map(Self::Undecided)
    }

    /// The absence of a metric from a result.
    pub(super) fn of_metric(measured: &Measured, metric: &str) -> Self {
        if let Some(since) = measured.diverged(metric) {
            return Self::Diverged { metric: metric.to_owned(), since, imported: measured.remarks.imported.is_some() };
        }
        if let Some(reason) = measured.remarks.unread.get(metric) {
            return Self::NotReached { metric: metric.to_owned(), reason: reason.clone() };
        }
        match measured.remarks.unfinished.as_deref() {
            Some(Imported::RUNNING) => return Self::Running,
            Some(end) => return Self::Failed(format!("its run had failed at its source ({end})")),
            None => {}
        }
        let names: Vec<&str> = measured.metrics.keys().map(String::as_str).collect();
        let result_names: Vec<&str> = names.iter().copied().filter(|name| !is_about_machine(name)).collect();
        let names = if result_names.is_empty() { names } else { result_names };
        let instead = if names.is_empty() { "nothing".to_owned() } else { listed(names.into_iter()) };
        Self::NotMeasured { metric: metric.to_owned(), instead }
    }

    /// True if the job has ended without a result and will have none unless it runs again.
    pub(super) fn is_final(&self) -> bool {
        matches!(
            self,
            Self::Failed(_)
                | Self::Blocked(_)
                | Self::Stopped(_)
                | Self::NotMeasured { .. }
                | Self::NotReached { .. }
                | Self::Diverged { .. }
                | Self::OtherUnit(_)
        )
    }

    /// The metric that the job's result lacks.
    fn metric(&self) -> Option<&str> {
        match self {
            Self::NotMeasured { metric, .. } | Self::NotReached { metric, .. } | Self::Diverged { metric, .. } => {
                Some(metric)
            }
            _ => None,
        }
    }

    /// True if two absences share a footnote.
    fn is_alike(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Undecided(own), Self::Undecided(other)) | (Self::NoInterval(own), Self::NoInterval(other)) => {
                own.is_alike(other)
            }
            // Jobs that measured different metrics lack different ones.
            (Self::NotMeasured { instead: own, .. }, Self::NotMeasured { instead: other, .. }) => own == other,
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }

    /// A short form for table cells.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Failed(_) => "failed",
            Self::Blocked(_) => "blocked",
            Self::Stopped(_) => "stopped",
            Self::Running => "running",
            Self::NotRun => "not run",
            Self::NotMeasured { .. } => "not measured",
            Self::NotReached { .. } => "not reached",
            Self::Diverged { .. } => "diverged",
            Self::OtherUnit(_) => "other unit",
            Self::Unpaired => "not paired",
            Self::Undecided(NoInterval::NoEffect(_)) => "no effect",
            Self::Undecided(_) | Self::Incomplete => "undecided",
            Self::NoInterval(_) => "no interval",
            Self::NoRatio => "no ratio",
            Self::Unlike(_) => "unlike conditions",
        }
    }
}

/// Names of metrics in one text, at most [`MAX_NAMES`] of them.
fn listed<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    let hidden = names.len().saturating_sub(MAX_NAMES);
    let texts = names.take(MAX_NAMES).map(|name| format!("`{}`", clean(name)));
    texts.chain((hidden > 0).then(|| format!("{hidden} more"))).collect::<Vec<_>>().join(", ")
}

/// The first step from which on metrics are not finite, in words; nothing if no step is known.
pub(super) fn since<'a>(absences: impl Iterator<Item = &'a Absence>) -> String {
    let steps =
        absences.filter_map(|absence| if let Absence::Diverged { since, .. } = absence { *since } else { None });
    let steps: BTreeSet<u64> = steps.collect();
    match (steps.first(), steps.len()) {
        (None, _) => String::new(),
        (Some(step), 1) => format!(" from step {step}"),
        (Some(step), _) => format!(" from step {step} or later"),
    }
}

/// The footnotes of a table: one for each kind of absence, in the order of their first appearance.
#[derive(Debug, Default)]
pub struct Footnotes(Vec<Footnote>);

#[derive(Debug)]
struct Footnote {
    /// The first job with this kind of absence.
    first: Absence,
    /// Other reasons of other jobs.
    others: BTreeSet<Absence>,
    /// The jobs, each with its reason.
    jobs: BTreeMap<JobId, Absence>,
}

/// Letters that are not mistaken for exponents.
const LETTERS: [char; 22] =
    ['ᵃ', 'ᵇ', 'ᶜ', 'ᵈ', 'ᵉ', 'ᶠ', 'ᵍ', 'ʰ', 'ⁱ', 'ʲ', 'ᵏ', 'ˡ', 'ᵐ', 'ᵒ', 'ᵖ', 'ʳ', 'ˢ', 'ᵗ', 'ᵘ', 'ᵛ', 'ʷ', 'ᶻ'];

impl Footnote {
    /// The metrics that are missing, in words, and their number.
    fn metrics(&self) -> (String, usize) {
        let all = self.others.iter().chain([&self.first]);
        let metrics: BTreeSet<&str> = all.filter_map(Absence::metric).collect();
        let number = metrics.len();
        (listed(metrics.into_iter()), number)
    }

    /// The first job's reason and `tail`; if jobs stopped at several places, the number at each.
    fn stopped(&self, reason: &str, tail: &str) -> String {
        let mut alike: Vec<(&str, usize)> = Vec::new();
        for absence in self.jobs.values() {
            let Absence::Stopped(reason) = absence else { continue };
            // Ranks differ from job to job.
            let how = reason.split(':').next().unwrap_or_default();
            match alike.iter_mut().find(|(known, _)| *known == how) {
                Some((_, jobs)) => *jobs += 1,
                None => alike.push((how, 1)),
            }
        }
        if alike.len() < 2 {
            return format!("{}{tail}", clean(reason));
        }
        alike.sort_by_key(|(_, jobs)| Reverse(*jobs));
        alike.iter().map(|(how, jobs)| format!("{jobs} {}", clean(how))).collect::<Vec<_>>().join(", ")
    }
}

impl Footnotes {
    /// The letter of the footnote with the reason for a missing number.
    pub(crate) fn letter(&mut self, absence: &Absence, job: Option<JobId>) -> char {
        let position = self.0.iter().position(|note| note.first.is_alike(absence));
        let index = position.unwrap_or_else(|| {
            self.0.push(Footnote { first: absence.clone(), others: BTreeSet::new(), jobs: BTreeMap::new() });
            self.0.len() - 1
        });
        let note = &mut self.0[index];
        note.jobs.extend(job.map(|job| (job, absence.clone())));
        if *absence != note.first {
            note.others.insert(absence.clone());
        }
        LETTERS[index % LETTERS.len()]
    }

    /// The place of a letter in a cell with several ones.
    pub(super) fn place(letter: char) -> usize {
        LETTERS.iter().position(|other| *other == letter).unwrap_or(LETTERS.len())
    }

    /// Meaning of each letter.
    pub(crate) fn texts(&self) -> impl Iterator<Item = String> + '_ {
        self.0.iter().zip(LETTERS).map(|(note, letter)| {
            let jobs = count(note.jobs.len(), "job");
            let tail = match note.others.len() {
                0 => String::new(),
                others => format!(" (and {})", count(others, "other reason")),
            };
            let text = match &note.first {
                Absence::Failed(message) => format!("{jobs} failed: {}{tail}", clean(message)),
                Absence::Blocked(need) if need.is_empty() => {
                    format!("{jobs} not run, because a job that is needed failed")
                }
                Absence::Blocked(need) => format!("{jobs} not run, because {} failed{tail}", clean(need)),
                Absence::Stopped(reason) => format!("{jobs} not run: {}", note.stopped(reason, &tail)),
                Absence::Running => format!("{jobs} still running"),
                Absence::NotRun => format!("{jobs} not run"),
                Absence::NotMeasured { instead, .. } => {
                    let (metrics, number) = note.metrics();
                    let were = if number == 1 { "was" } else { "were" };
                    format!("{metrics} {were} not measured by {jobs}, which measured {instead}")
                }
                Absence::NotReached { reason, .. } => {
                    format!("{} not reached by {jobs}: {}{tail}", note.metrics().0, clean(reason))
                }
                Absence::Diverged { metric, imported, .. } => {
                    let ((metrics, number), metric) = (note.metrics(), clean(metric));
                    let is = if number == 1 { "is" } else { "are" };
                    let since = since(note.others.iter().chain([&note.first]));
                    let remedy = if *imported {
                        String::new()
                    } else {
                        format!("; `metrics: {{ {metric}: min-finite }}` in the step takes the finite values")
                    };
                    format!("{jobs} diverged: {metrics} {is} NaN or infinite{since}{remedy}")
                }
                Absence::OtherUnit(units) => {
                    format!("reported by {jobs} in {}{tail}; declare the metric's `unit` under `metrics`", clean(units))
                }
                Absence::Unpaired => "the points cannot be paired one to one".to_owned(),
                Absence::NoRatio => "not always above zero, so there is no ratio".to_owned(),
                Absence::Undecided(reason) => format!("undecided: {}{tail}", reason.words()),
                Absence::NoInterval(reason) => format!("no interval: {}{tail}", reason.words()),
                Absence::Unlike(reason) => format!("undecided: {}{tail}; `conditions: any` compares them nevertheless", clean(reason)),
                Absence::Incomplete => "undecided: results are missing; `missing: ignore` leaves them out, `missing: worst` counts them as the worst".to_owned(),
            };
            format!("{letter} {text}")
        })
    }
}
