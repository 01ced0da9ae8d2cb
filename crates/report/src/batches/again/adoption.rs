//! Records of a job with earlier code, which the job can adopt if its program repeats their first steps.

use std::{cmp::Reverse, collections::HashMap, path::Path, rc::Rc};

use sweep_job::{TaskSpec as _, Value, tasks::Command};

use super::{Entry, Identity, Recall, index};
use crate::{
    plan::{Code, Job, is_script},
    record::Key,
    run::Adoptable,
    store::StoreError,
};

impl Recall<'_> {
    /// The latest record of the same job with earlier code. `code` is the present code of its program.
    pub(super) fn adoptable(&mut self, job: &Job, code: &Code) -> Result<Option<Adoptable>, StoreError> {
        let label = job.label.to_string();
        let by_label = match self.by_label.take() {
            Some(by_label) => by_label,
            None => by_label(index(self.store)?),
        };
        let entries = by_label.get(&label).cloned().unwrap_or_default();
        self.by_label = Some(by_label);
        let mut found = Vec::new();
        for entry in entries.into_iter().filter(|entry| entry.key != job.key) {
            if self.differ_in_code(job, &entry)? {
                found.push(entry);
            }
        }
        found.sort_by_key(|entry| (Reverse(entry.started), entry.key));
        for entry in found {
            if let Some(adoptable) = self.adoptable_of(&entry, code)? {
                return Ok(Some(adoptable));
            }
        }
        Ok(None)
    }

    /// True if a job and a record have the same parameters, inputs and needed jobs, scripts among the inputs excepted.
    fn differ_in_code(&self, job: &Job, entry: &Rc<Entry>) -> Result<bool, StoreError> {
        let computation = |identity: &Identity| {
            let identity = without_scripts(identity, job);
            Ok::<Key, StoreError>(identity.computation(true, &self.known.origins).map_err(std::io::Error::from)?)
        };
        let measuring = |identity: &Identity| Command::MEASURING.map(|name| identity.params.get(name).cloned());
        Ok(measuring(&job.identity) == measuring(&entry.identity)
            && computation(&job.identity)? == computation(&entry.identity)?)
    }

    fn adoptable_of(&mut self, entry: &Entry, code: &Code) -> Result<Option<Adoptable>, StoreError> {
        let Some(id) = &entry.read else { return Ok(None) };
        self.digests.forget();
        let Some(read) = self.manifests.now(code, id, &mut self.digests) else { return Ok(None) };
        let record = self.store.get(entry.key)?;
        Ok(record.map(|record| Adoptable { record, read }))
    }
}

/// The records of `command` jobs, by their labels.
fn by_label(entries: Vec<Rc<Entry>>) -> HashMap<String, Vec<Rc<Entry>>> {
    let mut by_label: HashMap<String, Vec<Rc<Entry>>> = HashMap::new();
    for entry in entries.into_iter().filter(|entry| entry.identity.task == Command::NAME) {
        by_label.entry(entry.label.clone()).or_default().push(entry);
    }
    by_label
}

/// `identity` without the digests of the scripts among the inputs of `job`.
fn without_scripts(identity: &Identity, job: &Job) -> Identity {
    let mut identity = identity.clone();
    if let Some(Value::List(inputs)) = job.values.get("inputs") {
        for (index, input) in inputs.iter().enumerate() {
            if input.as_text().is_some_and(|path| is_script(Path::new(path))) {
                identity.inputs.remove(&format!("inputs.{}", index + 1));
            }
        }
    }
    identity
}
