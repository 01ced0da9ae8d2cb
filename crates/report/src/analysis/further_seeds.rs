//! Further seeds: records of the store that differ from the jobs of a study in their seed only, so that a verdict does not ignore measured
//! seeds that the recipe does not name.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    io,
};

use sweep_base::SEED;
use sweep_job::{Value, Values};

use super::results::Results;
use crate::{
    plan::{JobId, Manifests, Plan, Point, Study, resolved, selected},
    recipe::{Claim, Selection},
    record::{Identity, Key, Needed, code_digest},
    store::{Entry, Measured, Store},
};

/// A study with the further seeds of the jobs in its claims.
pub(super) struct FurtherSeeds {
    /// The study with a point for each record.
    pub(super) study: Study,
    /// The measurements of the study and of the records.
    pub(super) measured: BTreeMap<JobId, Measured>,
}

/// A point of the study that was measured, and its record.
struct Own<'a> {
    step: usize,
    point: &'a Point,
    job: JobId,
    seed: String,
    entry: &'a Entry,
}

/// A record of the store, as a point of the study.
struct Further {
    step: usize,
    point: Point,
    /// A job of the study that differs in its seed only.
    job: JobId,
    key: Key,
}

/// The entries of the store, and the digests of the files that their programs read.
struct Entries<'a> {
    by_key: HashMap<Key, &'a Entry>,
    manifests: RefCell<Manifests>,
}

impl FurtherSeeds {
    /// Finds the further seeds; `None` without further seeds. The index of the store is read only if it has records that the plan does not
    /// have.
    pub(super) fn find(plan: &Plan, study: &Study, results: &Results, store: &Store) -> io::Result<Option<Self>> {
        let jobs: BTreeSet<(usize, JobId)> =
            study.recipe.claims.iter().flat_map(|claim| of_claim(claim, study)).collect();
        let is_seeded = |step: usize, (point, job): &(Point, JobId)| {
            point.get(SEED).is_some() && results.measured().contains_key(job) && jobs.contains(&(step, *job))
        };
        let mut steps = study.steps.iter().enumerate();
        if !steps.any(|(step, points)| points.iter().any(|point| is_seeded(step, point))) {
            return Ok(None);
        }
        let planned_keys: HashSet<Key> = plan.jobs().map(|(_, job)| job.key).collect();
        if store.keys()?.iter().all(|key| planned_keys.contains(key)) {
            return Ok(None);
        }
        let index = store.index()?;
        let by_key = index.iter().map(|entry| (entry.key, entry)).collect();
        let entries = Entries { by_key, manifests: RefCell::new(store.listed_manifests()) };
        let mut by_shape: HashMap<String, Vec<&Entry>> = HashMap::new();
        for entry in index.iter().filter(|entry| !planned_keys.contains(&entry.key) && seed_of(&entry.label).is_some())
        {
            by_shape.entry(shape(&entry.identity)).or_default().push(entry);
        }
        let mut records = Vec::new();
        for (configuration, known_seeds) in configurations(plan, study, &jobs, &entries) {
            let mut newest: BTreeMap<&str, &Entry> = BTreeMap::new();
            for other in by_shape.get(&shape(&configuration.entry.identity)).into_iter().flatten() {
                let Some(seed) = seed_of(&other.label).filter(|seed| !known_seeds.contains(*seed)) else { continue };
                let is_newer = newest.get(seed).is_none_or(|entry| entry.started < other.started);
                if is_newer && entries.are_alike(configuration.entry, other, [&configuration.seed, seed]) {
                    newest.insert(seed, other);
                }
            }
            records.extend(newest.into_iter().filter_map(|(seed, entry)| {
                let point = with_seed(configuration.point, &Value::Int(seed.parse().ok()?));
                Some(Further { step: configuration.step, point, job: configuration.job, key: entry.key })
            }));
        }
        Self::with(plan, study, results, store, records)
    }

    /// The study with these points and their records.
    fn with(
        plan: &Plan,
        study: &Study,
        results: &Results,
        store: &Store,
        records: Vec<Further>,
    ) -> io::Result<Option<Self>> {
        let stamped: Vec<_> =
            records.iter().filter_map(|record| Some((record.key, store.stamp(record.key)?))).collect();
        let metrics = study.recipe.metrics().collect();
        let lines = store.measured_by(&stamped, &metrics).map_err(io::Error::other)?;
        let mut lines: HashMap<Key, Measured> = lines.into_iter().map(|line| (line.key, line)).collect();
        let (mut study, mut measured) = (study.clone(), results.measured().clone());
        let mut next = plan.jobs().count();
        for Further { step, point, job, key } in records {
            let Some(line) = lines.remove(&key) else { continue };
            let id = JobId::new(next);
            next += 1;
            study.steps[step].push((point, id));
            // Claims with `scale` need the parameters of all jobs.
            if let Some(values) = study.values.get(&job).cloned() {
                study.values.insert(id, values);
            }
            measured.insert(id, line);
        }
        Ok((measured.len() > results.measured().len()).then_some(Self { study, measured }))
    }
}

/// The jobs of a claim, each with its step.
fn of_claim(claim: &Claim, study: &Study) -> Vec<(usize, JobId)> {
    let whole_claim = claim.over_all(SEED).unwrap_or_else(|| claim.clone());
    let of_side = |(step, selection): (usize, Selection)| {
        let only = resolved(&study.recipe, &selection);
        let points = study.steps[step].iter().filter(|(point, _)| selected(point, &only));
        points.map(|(_, job)| (step, *job)).collect::<Vec<_>>()
    };
    whole_claim.selections().into_iter().flat_map(of_side).collect()
}

/// A measured point of each configuration, with all seeds that the study has of it.
fn configurations<'a>(
    plan: &Plan,
    study: &'a Study,
    jobs: &BTreeSet<(usize, JobId)>,
    entries: &Entries<'a>,
) -> Vec<(Own<'a>, BTreeSet<String>)> {
    let mut all: BTreeMap<(usize, String), (Option<Own<'a>>, BTreeSet<String>)> = BTreeMap::new();
    for (step, points) in study.steps.iter().enumerate() {
        for (point, job) in points.iter().filter(|(_, job)| jobs.contains(&(step, *job))) {
            let Some(seed) = point.get(SEED).map(Value::to_string) else { continue };
            let (configuration, seeds) = all.entry((step, point.but(SEED))).or_default();
            seeds.insert(seed.clone());
            if let (None, Some(entry)) = (&configuration, entries.by_key.get(&plan.job(*job).key)) {
                *configuration = Some(Own { step, point, job: *job, seed, entry });
            }
        }
    }
    all.into_values().filter_map(|(configuration, seeds)| Some((configuration?, seeds))).collect()
}

impl Entries<'_> {
    /// True if two records differ only in their seeds. Compares their parameters, the parameters of the jobs that they needed, and the
    /// files that their programs read.
    fn are_alike(&self, entry: &Entry, other: &Entry, seeds: [&str; 2]) -> bool {
        let (a, b) = (&entry.identity, &other.identity);
        let bare =
            |identity: &Identity| Identity { params: Values::new(), needs: Needed::default(), ..identity.clone() };
        let is_same_code = (entry.read.is_some() && entry.read == other.read)
            || match (self.files_of(entry), self.files_of(other)) {
                // Neither program was observed.
                (None, None) => entry.read.is_none() && other.read.is_none(),
                (files, other_files) => files == other_files,
            };
        let (needs, other_needs): (Vec<Key>, Vec<Key>) = (a.needs.iter().collect(), b.needs.iter().collect());
        let partner = |need: &Key| {
            let alike = |other: &&Key| *other == need || self.need_alike(*need, **other, seeds);
            other_needs.iter().find(alike).copied()
        };
        let Some(partners) = needs.iter().map(partner).collect::<Option<Vec<Key>>>() else { return false };
        let distinct: BTreeSet<&Key> = partners.iter().collect();
        // Parameters refer to results of needed jobs by the keys of these jobs.
        let swaps: Vec<(Key, Key)> = needs.iter().copied().zip(partners.iter().copied()).collect();
        is_same_code
            && rest_of(&entry.label) == rest_of(&other.label)
            && bare(a) == bare(b)
            && params_alike(&a.params, &b.params, seeds, &swaps)
            && distinct.len() == other_needs.len()
    }

    fn need_alike(&self, key: Key, other: Key, seeds: [&str; 2]) -> bool {
        let entries = self.by_key.get(&key).zip(self.by_key.get(&other));
        entries.is_some_and(|(entry, other)| self.are_alike(entry, other, seeds))
    }

    /// Digest of the files and packages that the program of a record read; `None` if it is unknown.
    fn files_of(&self, entry: &Entry) -> Option<String> {
        let set = self.manifests.borrow_mut().read_by(entry.read.as_deref(), &entry.identity, entry.key)?;
        let files = set.files.iter().map(|(path, file)| (path.as_str(), file.digest.as_str()));
        let packages = set.packages.iter().map(|(name, package)| (name.as_str(), package.version.as_str()));
        Some(code_digest(files, packages, std::iter::empty()))
    }
}

/// The parts of an identity that all seeds of a configuration share: without numbers, and without the keys of needed jobs.
fn shape(identity: &Identity) -> String {
    let mut params = String::new();
    for (name, value) in identity.params.iter().filter(|(name, _)| name.as_str() != SEED) {
        let text = identity.needs.iter().fold(value.to_string(), |text, key| text.replace(&key.to_string(), ""));
        let text: String = parts(&text).map(|(part, is_digits)| if is_digits { "#" } else { part }).collect();
        params.extend([name.as_str(), "=", &text, "\0"]);
    }
    let Identity { task, revision, inputs, code, program, needs, .. } = identity;
    format!("{task}\0{revision}\0{params}{inputs:?}{code:?}{program:?}\0{}", needs.iter().count())
}

/// True if parameters are equal except where one has the one seed and the other the other seed, or where they have the keys of two
/// needed jobs that are alike.
fn params_alike(params: &Values, other: &Values, [seed, other_seed]: [&str; 2], swaps: &[(Key, Key)]) -> bool {
    let swapped = |text: String| {
        swaps.iter().fold(text, |text, (key, other_key)| text.replace(&key.to_string(), &other_key.to_string()))
    };
    let rest = |values: &Values| -> Vec<(String, String)> {
        let entries = values.iter().filter(|(name, _)| name.as_str() != SEED);
        entries.map(|(name, value)| (name.to_string(), value.to_string())).collect()
    };
    let entries: Vec<(String, String)> = rest(params).into_iter().map(|(name, value)| (name, swapped(value))).collect();
    let other = rest(other);
    let is_alike = |a: &str, b: &str| {
        let (a, b): (Vec<_>, Vec<_>) = (parts(a).collect(), parts(b).collect());
        a.len() == b.len() && a.iter().zip(&b).all(|((a, _), (b, _))| a == b || (*a == seed && *b == other_seed))
    };
    entries.len() == other.len() && entries.iter().zip(&other).all(|(a, b)| a.0 == b.0 && is_alike(&a.1, &b.1))
}

/// Splits a text into runs of digits and runs of other characters; true for a run of digits.
fn parts(text: &str) -> impl Iterator<Item = (&str, bool)> {
    let mut tail = text;
    std::iter::from_fn(move || {
        let is_digits = tail.chars().next()?.is_ascii_digit();
        let end = tail.find(|char: char| char.is_ascii_digit() != is_digits).unwrap_or(tail.len());
        let (part, remainder) = tail.split_at(end);
        tail = remainder;
        Some((part, is_digits))
    })
}

/// The seed in a label, such as `train/lr=0.1,seed=3`.
fn seed_of(label: &str) -> Option<&str> {
    let (_, point) = label.rsplit_once('/')?;
    let seed = point.split(',').find_map(|part| part.strip_prefix("seed="))?;
    seed.bytes().all(|byte| byte.is_ascii_digit()).then_some(seed).filter(|seed| !seed.is_empty())
}

/// The values in a label but the seed, in order.
fn rest_of(label: &str) -> BTreeSet<&str> {
    let point = label.rsplit_once('/').map_or("", |(_, point)| point);
    point.split(',').filter(|part| !part.is_empty() && !part.starts_with("seed=")).collect()
}

/// A point with another seed.
fn with_seed(point: &Point, seed: &Value) -> Point {
    let mut point = point.clone();
    for (axis, value) in &mut point.values {
        if axis == SEED {
            value.value = seed.clone();
        }
    }
    point
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configurations_are_alike_if_only_their_seeds_differ() {
        let params = |argv: &str, lr: f64| -> Values {
            [("argv", Value::Text(argv.to_owned())), ("lr", Value::Float(lr))]
                .into_iter()
                .map(|(name, value)| (sweep_job::Name::const_new(name), value))
                .collect()
        };
        let own = params("train --seed 4 --depth 4", 0.1);
        for (other, expected) in [
            (params("train --seed 7 --depth 4", 0.1), true),
            (params("train --seed 4 --depth 4", 0.1), true),
            (params("train --seed 7 --depth 7", 0.1), true),
            (params("train --seed 7 --depth 5", 0.1), false),
            (params("train --seed 70 --depth 4", 0.1), false),
            (params("train --seed 7 --depth 4", 0.2), false),
            (params("train --seed 7 --depth 4 -v", 0.1), false),
        ] {
            assert_eq!(params_alike(&own, &other, ["4", "7"], &[]), expected, "{other:?}");
        }
        assert_eq!(seed_of("train/lr=0.1,seed=12"), Some("12"));
        assert_eq!(seed_of("train/data_seed=12"), None);
        assert_eq!(seed_of("train"), None);
        assert_eq!(rest_of("train/seed=1,lr=2,depth=3"), rest_of("other/lr=2,depth=3,seed=4"));
        assert_ne!(rest_of("train/seed=1,lr=2"), rest_of("train/seed=1,lr=3"));
    }
}
