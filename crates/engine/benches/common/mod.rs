//! Synthetic records that no job has produced.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use sweep_engine::{
    plan::Plan,
    recipe::Draft,
    record::{Milestones, Provenance, RECORD_FORMAT, Record},
    store::Store,
};
use sweep_job::{Backend, Outcome};

/// Writes a record for every job of a recipe in `folder`, with the outcome of its place in the plan; answers the files.
pub(crate) fn finish_all(folder: &Path, recipe: String, outcome: impl Fn(usize) -> Outcome) -> Vec<PathBuf> {
    let draft = Draft::parse(&folder.join("recipe.yaml"), recipe, &[]).unwrap();
    let plan = Plan::new(draft, Backend::Cpu).unwrap();
    let store = Store::new(&folder.join("results"));
    let finish = |(index, (_, job)): (usize, (_, &sweep_engine::plan::Job))| {
        let record = Record {
            format: RECORD_FORMAT,
            key: job.key,
            identity: job.identity.clone(),
            label: job.label.to_string(),
            params: job.values.clone(),
            outcome: outcome(index),
            files: BTreeMap::new(),
            read: None,
            provenance: Provenance {
                sweep: "bench".into(),
                started: jiff::Timestamp::UNIX_EPOCH,
                seconds: 1.0,
                device: None,
                threads: 1,
                host: "bench".into(),
                conditions: None,
                continued: None,
                milestones: Milestones::default(),
                log: None,
                measured: None,
                adopted: None,
                notices: Vec::new(),
            },
        };
        let place = store.folder(job.key);
        fs::create_dir_all(&place).unwrap();
        let file = place.join("record.json");
        fs::write(&file, record.to_text().unwrap()).unwrap();
        file
    };
    plan.jobs().enumerate().map(finish).collect()
}
