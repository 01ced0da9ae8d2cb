//! A footnote about records from different environments.

use std::collections::{BTreeMap, BTreeSet};

use super::conditions::names;
use crate::{
    format::count,
    plan::JobId,
    record::Environment,
    store::{Measured, Store},
};

/// Environments of records, read when they are first asked for.
pub(crate) struct Environments<'s> {
    store: &'s Store,
    known: BTreeMap<String, Option<Environment>>,
}

impl<'s> Environments<'s> {
    pub(crate) fn new(store: &'s Store) -> Self {
        Self { store, known: BTreeMap::new() }
    }

    /// One line if the environments of these jobs' records have the same programs, libraries or packages in different
    /// versions.
    pub(crate) fn note(&mut self, jobs: &BTreeSet<JobId>, measured: &BTreeMap<JobId, Measured>) -> Option<String> {
        let named = jobs.iter().filter_map(|job| measured.get(job)?.under.as_ref()?.environment.as_ref());
        let ids: BTreeSet<&String> = named.collect();
        if ids.len() < 2 {
            return None;
        }
        for id in &ids {
            if !self.known.contains_key(*id) {
                self.known.insert((*id).clone(), self.store.environment(id));
            }
        }
        let all: Vec<&Environment> = ids.iter().filter_map(|id| self.known.get(*id)?.as_ref()).collect();
        let conflicts = Environment::conflicts(&all);
        let differ = if conflicts.len() == 1 { "differs" } else { "differ" };
        (!conflicts.is_empty()).then(|| {
            let environments = count(all.len(), "environment");
            let text = names(conflicts.iter().map(String::as_str));
            format!("the records were made in {environments}: {text} {differ}")
        })
    }
}
