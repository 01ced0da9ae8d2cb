//! Jobs that need not run, because the store has a record of the same computation: their metrics are taken again from
//! stored files.
//!
//! A key also covers `reads` and `metrics`, which only read the results of a program, and parameters that change no argument. If a job has
//! no record, but another job with the same computation has one, a new record is created from it, with the same files. The other record
//! does not change.
//!
//! A needed job counts by its files: if it runs again and leaves the same files, jobs that need it keep their results (early cutoff).

mod adoption;
mod earlier;

use std::{
    cell::RefCell,
    cmp::Reverse,
    collections::{BTreeSet, HashMap, HashSet},
    io,
    path::{Component, Path, PathBuf},
    rc::Rc,
    sync::{Arc, OnceLock},
    thread,
};

use sweep_job::{Outcome, TaskSpec as _, Tool, Values, tasks::Command};

use crate::{
    format::{clean, count, say},
    host::{self, threads},
    plan::{Digests, Job, JobId, ListId, Manifests, Plan},
    record::{Deferred, Identity, Key, MeasuredAgain, Needs, Product, ReadSet, Record, waits},
    run::RunFolder,
    store::{Entry, Store, StoreError},
};

pub use self::earlier::earlier_results;

/// Measurements that were taken again.
#[derive(Debug)]
pub struct Again {
    /// The outcome with the metrics and curves as they are read now.
    pub outcome: Outcome,
    /// Values that could not be taken, and why.
    pub notes: Vec<String>,
}

/// Takes the metrics of a record again, as these parameters read them, from its files in a folder and its log.
pub type Measurer = fn(&Record, &Values, &Path, Option<&Path>) -> Option<Again>;

static MEASURER: OnceLock<Measurer> = OnceLock::new();

/// Sets the function that reads the logs of programs.
pub fn install_measurer(measurer: Measurer) {
    let _ = MEASURER.set(measurer);
}

/// Jobs that got their records from records of the same computations.
#[derive(Debug, Default)]
pub struct Measured {
    /// The jobs, each with notes about the values that could not be taken.
    jobs: Vec<(String, Vec<String>)>,
    /// The jobs that would have got one, each with the reason why not.
    failed: Vec<(String, String)>,
}

impl Measured {
    /// Sentences for people.
    pub fn sentences(&self) -> Vec<String> {
        const MAX_SENTENCES: usize = 10;
        let mut sentences = Vec::new();
        if !self.jobs.is_empty() {
            let (jobs, were) = (count(self.jobs.len(), "job"), if self.jobs.len() == 1 { "was" } else { "were" });
            sentences.push(format!("{jobs} {were} measured again from the stored files; no program ran"));
        }
        let jobs_with_notes: Vec<_> = self.jobs.iter().filter(|(_, notes)| !notes.is_empty()).collect();
        for (label, notes) in jobs_with_notes.iter().take(MAX_SENTENCES) {
            sentences.push(format!("note: {}: {}", clean(label), clean(&notes.join("; "))));
        }
        if jobs_with_notes.len() > MAX_SENTENCES {
            sentences.push(format!(
                "note: and {}: `sweep explain` shows more",
                count(jobs_with_notes.len() - MAX_SENTENCES, "other job")
            ));
        }
        if let Some((label, reason)) = self.failed.first() {
            let jobs = count(self.failed.len(), "job");
            let label = clean(label);
            sentences.push(format!("warning: {jobs} could not be measured again: {label}: {}", clean(reason)));
        }
        sentences
    }

    /// Prints the sentences.
    pub fn say(&self) {
        self.sentences().iter().for_each(|sentence| say(format_args!("{sentence}")));
    }

    pub(super) fn add(&mut self, other: Self) {
        self.jobs.extend(other.jobs);
        self.failed.extend(other.failed);
    }
}

/// Keys of records that represent the same job, or the same files.
struct Origins<'a> {
    store: &'a Store,
    /// The records of the jobs that ran, by those whose metrics were taken from them.
    known: HashMap<Key, Key>,
    /// The results of needed jobs; `None` for those without a record.
    results: RefCell<HashMap<Key, Option<Products>>>,
}

/// The results of a job that other jobs can use.
struct Products {
    outcome: Outcome,
    /// Digest of the artifacts; without any, the key of the job that ran.
    stand_in: Key,
}

impl Products {
    fn of(record: Record) -> Self {
        let is_artifact =
            |path: &str| record.outcome.artifacts.values().any(|artifact| Path::new(path).starts_with(artifact));
        let files: Vec<_> = record.files.iter().filter(|(path, _)| is_artifact(path)).collect();
        let names = &record.outcome.artifacts;
        let artifacts = if files.is_empty() { None } else { Key::of_json(&(names, files)).ok() };
        Self { stand_in: artifacts.unwrap_or(record.origin()), outcome: record.outcome }
    }
}

impl Origins<'_> {
    /// The record of the job that ran.
    fn origin(&self, key: Key) -> Key {
        self.known.get(&key).copied().unwrap_or(key)
    }

    /// True if two jobs need the same jobs, and not only the same files.
    fn need_the_same(&self, first: &Identity, second: &Identity) -> bool {
        let origins =
            |identity: &Identity| identity.needs.iter().map(|key| self.origin(key)).collect::<BTreeSet<Key>>();
        origins(first) == origins(second)
    }

    fn products<T>(&self, key: Key, select: impl FnOnce(&Products) -> Option<T>) -> Option<T> {
        let mut results = self.results.borrow_mut();
        let products = results.entry(key).or_insert_with(|| self.store.get(key).ok().flatten().map(Products::of));
        products.as_ref().and_then(select)
    }
}

impl Needs for Origins<'_> {
    /// The digest of the job's artifacts. A job without artifacts may have unknown effects, so its own key is used.
    fn stand_in(&self, key: Key) -> Key {
        self.products(key, |products| Some(products.stand_in)).unwrap_or_else(|| self.origin(key))
    }

    fn result(&self, deferred: &Deferred) -> String {
        let Deferred { key, product, name } = deferred;
        if *product == Product::Artifact {
            return format!("{} {name}", self.stand_in(*key));
        }
        // A metric or a curve may have become another one.
        let digest = self.products(*key, |products| match product {
            Product::Metric => products.outcome.metrics.get(name).map(Key::of_json),
            _ => products.outcome.curves.get(name).map(Key::of_json),
        });
        let digest = digest.and_then(Result::ok).unwrap_or(*key);
        format!("{} {name} {digest}", self.stand_in(*key))
    }
}

/// Needed jobs are not distinguished: one key represents all of them.
struct IgnoredNeeds(Key);

impl Needs for IgnoredNeeds {
    fn stand_in(&self, _: Key) -> Key {
        self.0
    }

    fn result(&self, deferred: &Deferred) -> String {
        deferred.name.clone()
    }
}

/// The records of a store by the computations of their jobs.
struct Known<'s> {
    origins: Origins<'s>,
    ignored_needs: IgnoredNeeds,
    /// Entries of programs that read the file with their parameters, and of other programs, without their needs.
    by_all: HashMap<Key, Vec<Rc<Entry>>>,
    by_arguments: HashMap<Key, Vec<Rc<Entry>>>,
}

impl<'s> Known<'s> {
    fn new(store: &'s Store, entries: &[Rc<Entry>], is_wanted: impl Fn(&Entry) -> bool) -> io::Result<Self> {
        let origin_keys = entries.iter().filter_map(|entry| Some((entry.key, entry.measured?.0))).collect();
        let origins = Origins { store, known: origin_keys, results: RefCell::default() };
        let ignored_needs = IgnoredNeeds(Key::of_json(&())?);
        let mut records = Self { origins, ignored_needs, by_all: HashMap::new(), by_arguments: HashMap::new() };
        for entry in entries.iter().filter(|entry| is_wanted(entry)) {
            records
                .by_all
                .entry(entry.identity.computation(true, &records.ignored_needs)?)
                .or_default()
                .push(Rc::clone(entry));
            if entry.params_unread {
                let computation = entry.identity.computation(false, &records.ignored_needs)?;
                records.by_arguments.entry(computation).or_default().push(Rc::clone(entry));
            }
        }
        Ok(records)
    }

    /// Returns the records with the same computation as a job: the records of jobs that ran come first, the latest ones before
    /// others.
    fn of(&self, identity: &Identity) -> io::Result<Vec<Rc<Entry>>> {
        let mut records = Vec::new();
        for (map, reads_params) in [(&self.by_all, true), (&self.by_arguments, false)] {
            let Some(entries) = map.get(&identity.computation(reads_params, &self.ignored_needs)?) else { continue };
            // The results of needed jobs must be read from their records, so they are compared only if the rest is equal.
            let computation = identity.computation(reads_params, &self.origins)?;
            for entry in entries {
                if entry.identity.computation(reads_params, &self.origins)? == computation {
                    records.push(Rc::clone(entry));
                }
            }
        }
        records.sort_by_key(|entry| (entry.measured.is_some(), Reverse(entry.started), entry.key));
        Ok(records)
    }
}

/// The lines of the index.
fn index(store: &Store) -> io::Result<Vec<Rc<Entry>>> {
    Ok(store.index()?.into_iter().map(Rc::new).collect())
}

/// Returns the keys of all records with the same computations as the records `keys`.
pub fn alike(store: &Store, keys: &BTreeSet<Key>) -> io::Result<BTreeSet<Key>> {
    let entries = index(store)?;
    let known_records = Known::new(store, &entries, |entry| entry.identity.task == Command::NAME)?;
    let mut equal_keys = keys.clone();
    for entry in entries.iter().filter(|entry| keys.contains(&entry.key)) {
        let origin = known_records.origins.origin(entry.key);
        let equal_entries = entries.iter().filter(|other| known_records.origins.origin(other.key) == origin);
        equal_keys.extend(equal_entries.map(|other| other.key));
        // Records of programs are found by their computation, too, not only by their keys.
        if entry.identity.task == Command::NAME {
            let equal_entries = known_records
                .of(&entry.identity)?
                .into_iter()
                .filter(|other| other.identity.code == entry.identity.code);
            equal_keys.extend(equal_entries.map(|other| other.key));
        }
    }
    Ok(equal_keys)
}

/// Returns the jobs of `of` with the same computation as an earlier one of them, which only read its output differently.
pub fn twins(plan: &Plan, store: &Store, of: impl Iterator<Item = JobId>) -> io::Result<HashSet<JobId>> {
    let reading = |id: &JobId| Command::MEASURING.map(|name| plan.job(*id).values.get(name));
    let programs: Vec<JobId> = of.filter(|id| plan.job(*id).task.name == Command::NAME).collect();
    if programs.windows(2).all(|pair| reading(&pair[0]) == reading(&pair[1])) {
        return Ok(HashSet::new());
    }
    let origins = Origins { store, known: HashMap::new(), results: RefCell::default() };
    let mut computations = HashSet::new();
    let mut twins = HashSet::new();
    for id in programs {
        let Identity { code, .. } = &plan.job(id).identity;
        if !computations.insert((plan.job(id).identity.computation(true, &origins)?, code)) {
            twins.insert(id);
        }
    }
    Ok(twins)
}

/// A record to be computed from another one.
struct Adoption<'a> {
    job: &'a Job,
    from: Entry,
    observed: Option<(Tool, Arc<ReadSet>)>,
}

/// Creates records for the jobs of a plan that have no record, if their computation has one.
pub(super) fn bring(plan: &Plan, store: &Store) -> Result<Measured, StoreError> {
    let mut measurements = Measured::default();
    if !plan.jobs().any(|(_, job)| job.task.name == Command::NAME) {
        return Ok(measurements);
    }
    let recorded_keys: HashSet<Key> = store.keys()?.into_iter().collect();
    if recorded_keys.is_empty() {
        return Ok(measurements);
    }
    let is_open = |job: &Job| !recorded_keys.contains(&job.key);
    let mut open_jobs: Vec<JobId> = plan.jobs().filter(|(_, job)| is_open(job)).map(|(id, _)| id).collect();
    if !open_jobs.iter().any(|id| plan.job(*id).task.name == Command::NAME) {
        return Ok(measurements);
    }
    let tasks = open_jobs.iter().map(|id| plan.job(*id).task.name).collect();
    let mut recall = Recall::new(store, &tasks)?;
    let mut missing_jobs: HashSet<JobId> = open_jobs.iter().copied().collect();
    // An earlier result is searched for once the outcomes of the needed jobs are known.
    loop {
        let (ready_jobs, later_jobs) = ready(plan, open_jobs, &missing_jobs);
        open_jobs = later_jobs;
        let mut adoptions = Vec::new();
        for id in &ready_jobs {
            adoptions.extend(recall.find(plan.job(*id))?.map(|adoption| (*id, adoption)));
        }
        if adoptions.is_empty() {
            return Ok(measurements);
        }
        for ((id, adoption), result) in adoptions.iter().zip(adopt(store, &adoptions)) {
            let label = adoption.job.label.to_string();
            match result {
                Ok(Some(notes)) => {
                    missing_jobs.remove(id);
                    recall.is_made(adoption);
                    measurements.jobs.push((label, notes));
                }
                Ok(None) => {}
                Err(error) => measurements.failed.push((label, error.to_string())),
            }
        }
    }
}

/// Finds the records of earlier jobs that hold for jobs without a record.
struct Recall<'s> {
    store: &'s Store,
    known: Known<'s>,
    manifests: Manifests,
    digests: Digests,
    /// All records by their labels, read at the first request.
    by_label: Option<HashMap<String, Vec<Rc<Entry>>>>,
}

impl<'s> Recall<'s> {
    /// Among the records of these tasks.
    fn new(store: &'s Store, tasks: &HashSet<&str>) -> io::Result<Self> {
        let is_wanted = |entry: &Entry| {
            tasks.contains(entry.identity.task.as_str())
                && (entry.identity.task == Command::NAME || !entry.identity.needs.is_empty())
        };
        let known = Known::new(store, &index(store)?, is_wanted)?;
        Ok(Self { store, known, manifests: store.manifests(), digests: Digests::open(store.digests()), by_label: None })
    }

    /// The record from which a job's record follows.
    fn find<'p>(&mut self, job: &'p Job) -> io::Result<Option<Adoption<'p>>> {
        if job.task.name != Command::NAME && job.identity.needs.is_empty() {
            return Ok(None);
        }
        let Self { store, known, manifests, digests, .. } = self;
        let label = job.label.to_string();
        // Points with equal files are still different points: each runs, unless it has run.
        let is_own =
            |entry: &Entry| entry.label == label || known.origins.need_the_same(&entry.identity, &job.identity);
        let mut candidates = known.of(&job.identity)?.into_iter();
        Ok(candidates.find_map(|candidate| {
            if !store.contains(candidate.key) || !is_own(&candidate) {
                return None;
            }
            let observation = valid(job, &candidate, manifests, digests)?;
            Some(Adoption { job, from: Entry::clone(&candidate), observed: observation })
        }))
    }

    fn is_made(&mut self, adoption: &Adoption<'_>) {
        let origin = self.known.origins.origin(adoption.from.key);
        self.known.origins.known.insert(adoption.job.key, origin);
    }
}

/// The open jobs that need none without a record, and the others.
fn ready(plan: &Plan, open_jobs: Vec<JobId>, missing_jobs: &HashSet<JobId>) -> (Vec<JobId>, Vec<JobId>) {
    let mut lists: HashMap<ListId, bool> = HashMap::new();
    open_jobs.into_iter().partition(|id| {
        plan.lists_of(*id).iter().all(|list| {
            *lists.entry(*list).or_insert_with(|| plan.list(*list).iter().all(|need| !missing_jobs.contains(need)))
        })
    })
}

/// Checks that the code that the job of a record read is unchanged; returns the observed reads. `None` if the record
/// belongs to other code.
#[expect(clippy::option_option, reason = "a valid record need not have been observed")]
fn valid(
    job: &Job,
    entry: &Entry,
    manifests: &mut Manifests,
    digests: &mut Digests,
) -> Option<Option<(Tool, Arc<ReadSet>)>> {
    let Some(code) = &job.code else { return entry.identity.code.is_none().then_some(None) };
    let base = entry.identity.base_key().ok()?;
    match manifests.observation(base, entry.key) {
        Some((manifest, set)) => {
            let is_same = manifests.is_unchanged(code, &manifest.set, digests);
            is_same.then_some(Some((manifest.tool, set)))
        }
        // The job was not observed, so its key has all known inputs.
        None => (entry.identity.code.is_none() && job.identity.code.is_none()).then_some(None),
    }
}

/// Makes records, in parallel. Returns for each the values that could not be taken; `None` if the job is not to have one.
fn adopt(store: &Store, adoptions: &[(JobId, Adoption<'_>)]) -> Vec<Result<Option<Vec<String>>, StoreError>> {
    const MIN_PER_THREAD: usize = 8;
    let threads = thread::available_parallelism().map_or(1, usize::from).min(adoptions.len() / MIN_PER_THREAD + 1);
    let parts: Vec<&[(JobId, Adoption<'_>)]> = adoptions.chunks(adoptions.len().div_ceil(threads).max(1)).collect();
    let make_part =
        |part: &[(JobId, Adoption<'_>)]| -> Vec<_> { part.iter().map(|(_, adoption)| adoption.make(store)).collect() };
    threads::each(&parts, make_part).into_iter().flatten().collect()
}

impl Adoption<'_> {
    fn make(&self, store: &Store) -> Result<Option<Vec<String>>, StoreError> {
        let Some(record) = store.get(self.from.key)? else { return Ok(None) };
        let Some((new_record, notes)) = self.record(store, record) else { return Ok(None) };
        let is_made = store.adopt(new_record, self.from.key, self.observed.clone())?;
        Ok(is_made.then_some(notes))
    }

    fn record(&self, store: &Store, record: Record) -> Option<(Record, Vec<String>)> {
        let Self { job, from, .. } = self;
        let is_program = job.task.name == Command::NAME;
        let Again { outcome, notes } = if is_program {
            let log = log_of(store, &record);
            MEASURER.get()?(&record, &job.values, &store.files(from.key), log.as_deref())?
        } else {
            Again { outcome: record.outcome.clone(), notes: Vec::new() }
        };
        let origin = record.origin();
        let mut params = record.params;
        let mut changed_names = BTreeSet::new();
        let names = Command::MEASURING.iter().chain(&Command::ARGUMENTS).filter(|_| is_program);
        for name in names {
            // A value that comes from other jobs is unchanged.
            let Some(value) = job.values.get(name).filter(|value| !waits(value)) else { continue };
            if params.get(name) != Some(value) {
                params.insert((*name).to_owned(), value.clone());
                changed_names.insert((*name).to_owned());
            }
        }
        if !job.identity.needs.iter().eq(from.identity.needs.iter()) {
            changed_names.insert("needs".to_owned());
        }
        let mut provenance = record.provenance;
        let changed_names = changed_names.into_iter().collect();
        let measurement =
            MeasuredAgain { from: origin, at: host::clock::now(), changed: changed_names, notes: notes.clone() };
        provenance.measured = Some(Box::new(measurement));
        let (key, identity, label) = (job.key, job.identity.clone(), job.label.to_string());
        Some((Record { key, identity, label, params, outcome, provenance, ..record }, notes))
    }
}

/// The log of the job of a record that this machine wrote.
pub fn log_of(store: &Store, record: &Record) -> Option<PathBuf> {
    let run = record.provenance.conditions.as_ref()?.run.name.as_deref()?;
    let mut parts = Path::new(run).components();
    let is_name = matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None));
    let is_own = is_name && store.origin(record.key).is_none();
    is_own.then(|| RunFolder::named(store.results(), run).log(record.origin()))
}
