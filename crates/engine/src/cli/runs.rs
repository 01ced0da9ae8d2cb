//! Look-up of the run, job or record that a user means.

use std::{cmp::Reverse, collections::BTreeSet, path::Path};

use clap::Parser as _;
use jiff::Timestamp;

use super::{Prepared, RecipeArgs};
use crate::{
    error::Error,
    plan::means,
    recipe::suggest,
    record::{Key, Record},
    run::{RunFolder, watch::Snapshot},
    store::{Store, StoreError},
};

/// The run of this name, or the latest one. A live run goes before others: the names of folders are only as good as the clock.
pub(super) fn find(results: &Path, name: Option<&str>) -> Result<RunFolder, Error> {
    let mut folders = RunFolder::all(results);
    let Some(name) = name else {
        let no_run = || Error::Unknown(format!("there has been no run in `{}`", results.display()));
        let live_index = folders.iter().rposition(RunFolder::is_live);
        return live_index
            .map(|live_index| folders.swap_remove(live_index))
            .or_else(|| folders.pop())
            .ok_or_else(no_run);
    };
    let names: Vec<String> = folders.iter().map(RunFolder::name).collect();
    match names.iter().position(|candidate| candidate == name) {
        Some(index) => Ok(folders.swap_remove(index)),
        None => Err(unknown("run", name, "runs", names.iter().map(String::as_str))),
    }
}

/// The key of a job with this name in the latest run that had one, and when the run began: its settings are those that count now.
fn latest_key(results: &Path, job: &str) -> Option<(Key, Timestamp)> {
    RunFolder::all(results).into_iter().rev().find_map(|folder| {
        let manifest = folder.manifest().ok()?;
        let jobs = manifest.jobs.iter();
        let candidates =
            jobs.filter_map(|planned_job| Some((is_called(&planned_job.label, planned_job.key, job)?, planned_job)));
        candidates.min_by_key(|(likeness, _)| *likeness).map(|(_, planned_job)| (planned_job.key, manifest.at))
    })
}

/// The arguments of `sweep run` that a run was started with.
#[derive(clap::Parser)]
struct Typed {
    #[command(flatten)]
    recipes: RecipeArgs,
}

/// The key of a job with this name as the recipe of the latest run with such a job plans it now, if the store has this record. Only
/// planned if several records have had the name: a run in which all jobs are cached leaves no folder.
fn planned_key(store: &Store, job: &str) -> Option<Key> {
    let entries = store.index().ok()?;
    let keys: BTreeSet<Key> =
        entries.iter().filter(|entry| likeness(&entry.label, job).is_some()).map(|entry| entry.key).collect();
    if keys.len() < 2 {
        return None;
    }
    let typed = RunFolder::all(store.results()).into_iter().rev().find_map(|folder| {
        let manifest = folder.manifest().ok()?;
        let has_job = manifest.jobs.iter().any(|planned_job| likeness(&planned_job.label, job).is_some());
        (has_job && !manifest.typed.is_empty()).then_some(manifest.typed)
    })?;
    let words = std::iter::once("run".to_owned()).chain(typed);
    let Typed { recipes } = Typed::try_parse_from(words).ok()?;
    let Prepared { plan, .. } = recipes.prepare(store.results(), &[], false).ok()?;
    let jobs = plan.jobs().filter_map(|(_, planned)| Some((likeness(&planned.label.to_string(), job)?, planned.key)));
    jobs.min_by_key(|(likeness, _)| *likeness).map(|(_, key)| key).filter(|key| store.contains(*key))
}

/// The latest run that started the job with this name or key prefix, and that job's key. If several keys have had the name, returns the key
/// that the recipe plans now, else the key of the latest run.
pub(super) fn find_job(results: &Path, run: Option<&str>, job: &str) -> Result<(RunFolder, Key), Error> {
    let folders = match run {
        Some(run) => vec![find(results, Some(run))?],
        None => RunFolder::all(results),
    };
    let key = || planned_key(&Store::new(results), job).or_else(|| latest_key(results, job).map(|(key, _)| key));
    if let Some(key) = run.is_none().then(key).flatten()
        && let Some(index) = folders.iter().rposition(|folder| folder.log(key).is_file())
    {
        let mut folders = folders;
        return Ok((folders.swap_remove(index), key));
    }
    let mut labels = Vec::new();
    for folder in folders.into_iter().rev() {
        // A run that was killed while it began has no plan and no job.
        let Ok(manifest) = folder.manifest() else { continue };
        let candidates = manifest.jobs.iter().filter(|planned_job| folder.log(planned_job.key).is_file());
        let candidates = candidates
            .filter_map(|planned_job| Some((is_called(&planned_job.label, planned_job.key, job)?, planned_job)));
        if let Some((_, planned_job)) = candidates.min_by_key(|(likeness, _)| *likeness) {
            return Ok((folder, planned_job.key));
        }
        labels.extend(manifest.jobs.into_iter().map(|job| job.label));
    }
    if labels.iter().any(|label| likeness(label, job).is_some()) {
        return Err(Error::Unknown(format!("`{job}` has no log: it has not been started")));
    }
    Err(unknown("job", job, "jobs", labels.iter().map(String::as_str)))
}

/// The job of a run that a text means, by its index in the run's plan.
pub(super) fn job_of(snapshot: &Snapshot, job: &str) -> Result<usize, Error> {
    let jobs = snapshot.manifest.jobs.iter().enumerate();
    let candidates =
        jobs.filter_map(|(index, planned_job)| Some((is_called(&planned_job.label, planned_job.key, job)?, index)));
    let labels = || snapshot.manifest.jobs.iter().map(|planned_job| planned_job.label.as_str());
    candidates.min().map(|(_, index)| index).ok_or_else(|| unknown("job", job, "jobs", labels()))
}

/// A job without a record, as the latest run has left it that was to make one.
pub(super) struct Unfinished {
    pub(super) folder: RunFolder,
    pub(super) snapshot: Snapshot,
    /// The job's place in the run's plan.
    pub(super) index: usize,
}

/// Account of a job without a record, by this name or key prefix, from the latest run that had it.
pub(super) fn find_unfinished(results: &Path, store: &Store, job: &str) -> Option<Unfinished> {
    for folder in RunFolder::all(results).into_iter().rev() {
        let Ok(snapshot) = Snapshot::read(&folder) else { continue };
        let jobs = snapshot.manifest.jobs.iter().zip(&snapshot.jobs).enumerate();
        let candidates = jobs.filter(|(_, (_, state))| state.is_selected());
        let candidates = candidates.filter_map(|(index, (planned_job, _))| {
            Some((is_called(&planned_job.label, planned_job.key, job)?, index, planned_job))
        });
        if let Some((_, index, planned_job)) = candidates.min_by_key(|(likeness, ..)| *likeness) {
            return (!store.contains(planned_job.key)).then_some(Unfinished { folder, snapshot, index });
        }
    }
    None
}

/// The record of a job with this name or key prefix. If several keys have had the name, returns the record of the key that the recipe plans
/// now, else of the latest run's key, unless a record with this name was written since.
pub(super) fn find_record(store: &Store, job: &str) -> Result<Record, Error> {
    let read_error = Error::io("cannot read the store");
    if is_key_prefix(job) {
        let keys = store.keys_from(job).map_err(read_error)?;
        if let [key] = keys.as_slice() {
            let no_record = || Error::Unknown(format!("the record {} has just been removed", key.short()));
            return store.get(*key)?.ok_or_else(no_record);
        }
        if !keys.is_empty() {
            let keys: Vec<String> = keys.iter().map(Key::short).collect();
            return Err(Error::Unknown(format!("several keys begin with `{job}`: {}", keys.join(", "))));
        }
    }
    let entries = store.index().map_err(StoreError::from)?;
    let candidates = entries.iter().filter_map(|entry| Some((likeness(&entry.label, job)?, entry)));
    match candidates.min_by_key(|(likeness, entry)| (*likeness, Reverse((entry.started, entry.measured)))) {
        Some((_, entry)) => {
            if let Some(record) = planned_key(store, job).and_then(|key| store.get(key).transpose()) {
                return Ok(record?);
            }
            // A record that was made since is not from that run, as with `sweep measure`.
            let made = entry.measured.map_or(entry.started, |(_, at)| at.max(entry.started));
            if let Some((key, at)) = latest_key(store.results(), job)
                && made <= at
                && let Some(record) = store.get(key)?
            {
                return Ok(record);
            }
            let no_record = || Error::Unknown(format!("the record {} has just been removed", entry.key.short()));
            store.get(entry.key)?.ok_or_else(no_record)
        }
        None => Err(unknown("record of a job", job, "jobs", entries.iter().map(|entry| entry.label.as_str()))),
    }
}

/// True if a text can be the beginning of a key, long enough to identify one.
pub(super) fn is_key_prefix(text: &str) -> bool {
    (6..=64).contains(&text.len()) && text.chars().all(|char| matches!(char, '0'..='9' | 'a'..='f'))
}

/// The way in which a text means a job: the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Likeness {
    /// The text is the job's label, or the beginning of its key.
    Exact,
    /// The text is the label as progress shows it: `train prune=none seed=0` for `train/prune=none,seed=0`.
    Shown,
    /// The text has the same values in another order or spelling.
    ByValue,
}

fn is_called(label: &str, key: Key, job: &str) -> Option<Likeness> {
    let by_key = || (is_key_prefix(job) && key.to_string().starts_with(job)).then_some(Likeness::Exact);
    likeness(label, job).or_else(by_key)
}

fn likeness(label: &str, job: &str) -> Option<Likeness> {
    let plain_text = |text: &str| text.replace(['/', ','], " ");
    if label == job {
        Some(Likeness::Exact)
    } else if plain_text(label) == plain_text(job) {
        Some(Likeness::Shown)
    } else {
        means(label, job).then_some(Likeness::ByValue)
    }
}

fn unknown<'a>(kind: &str, name: &str, plural: &str, names: impl Iterator<Item = &'a str>) -> Error {
    let mut names: Vec<&str> = names.collect();
    names.sort_unstable();
    names.dedup();
    names.truncate(200);
    let help = suggest(name, plural, names.iter().copied()).unwrap_or_else(|| format!("there are no {plural}"));
    Error::NotFound { message: format!("there is no {kind} `{name}`"), help }
}
