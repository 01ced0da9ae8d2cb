//! Scores of items that the jobs of a study left in their files, as far as its claims are about them.

mod read;

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    format::clean,
    plan::{JobId, Study},
    recipe::Items,
    record::{Digest, Key},
    store::{Measured, Store},
};

/// Largest file that is read, in bytes.
const MAX_BYTES: usize = 1 << 30;

/// The scores of a job: cluster and score of each item, by its name.
pub(super) type Scores = BTreeMap<String, (String, f64)>;
/// The scores of all jobs by metric, or the reasons why they cannot be read.
pub(super) type AllScores = BTreeMap<(JobId, String), Result<Scores, String>>;

/// No scores: for judgments that read no files.
pub(super) static NO_SCORES: AllScores = BTreeMap::new();

/// Reads the scores that the claims of a study are about.
pub(super) fn load(study: &Study, measured: &BTreeMap<JobId, Measured>, store: &Store) -> AllScores {
    let mut all = AllScores::new();
    for (job, items) in claimed(study) {
        let Some(Measured { key, .. }) = measured.get(&job) else { continue };
        all.entry((job, items.metric.value.clone())).or_insert_with(|| unchanged(*key, items, store));
    }
    all
}

/// The jobs with items that claims of a study are about.
pub fn claimed(study: &Study) -> Vec<(JobId, &Items)> {
    let mut step_metrics: BTreeSet<(usize, &str)> = BTreeSet::new();
    for claim in &study.recipe.claims {
        step_metrics.extend(claim.selections().iter().map(|(step, _)| (*step, claim.metric())));
    }
    let declared = step_metrics.into_iter().filter_map(|(step, metric)| Some((step, declared(study, step, metric)?)));
    declared.flat_map(|(step, items)| study.steps[step].iter().map(move |(_, job)| (*job, items))).collect()
}

/// The scores in a file that is as its record has it.
fn unchanged(key: Key, items: &Items, store: &Store) -> Result<Scores, String> {
    let name = clean(&items.file).into_owned();
    let record = store.get(key).ok().flatten();
    let digest = record.as_ref().and_then(|record| record.files.get(items.file.trim_start_matches("./")));
    let Some(Digest::File { blake3, .. }) = digest else {
        return Err(format!(
            "`{name}` is not an output of job {}: it must be among `outputs` when the job runs",
            key.short()
        ));
    };
    let path = store.files(key).join(&items.file);
    match fs_err::read(&path) {
        Err(_) => Err(format!("`{name}` of job {} is missing: the report needs the job's files", key.short())),
        Ok(content) if content.len() > MAX_BYTES => Err(format!("`{name}` is larger than 1 GiB")),
        Ok(content) if blake3::hash(&content).to_hex().as_str() != blake3.as_str() => {
            Err(format!("`{name}` of job {} has changed since it was made", key.short()))
        }
        Ok(content) => read::scores(&path, content, items),
    }
}

/// The file with the scores of a step's metric.
pub(super) fn declared<'s>(study: &'s Study, step: usize, metric: &str) -> Option<&'s Items> {
    study.recipe.steps[step].items.iter().find(|items| items.metric.value == metric)
}
