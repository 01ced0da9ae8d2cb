//! Particulars of a study below its title, as on a paper: its author, time, state of the code, machine and cost.

use std::{borrow::Cow, collections::BTreeSet};

use jiff::Timestamp;

use super::{Sources, listed, spent::Spent};
use crate::{
    format::{clean, compute},
    plan::{Plan, Study},
    record::GitState,
    render::page::Records,
    run::{Manifest, RunProvenance, Through},
};

/// Particulars of a study, each a name and a value; unknown ones are absent.
#[derive(Debug, Default)]
pub(in crate::render) struct Byline(pub(in crate::render) Vec<(&'static str, String)>);

/// Particulars of a run in progress, which will be in the records of its jobs.
#[derive(Debug)]
pub(in crate::render) struct Begun {
    provenance: RunProvenance,
    at: Timestamp,
    /// Its machine, if that is the one on which its jobs run.
    host: Option<String>,
}

impl Begun {
    pub(in crate::render) fn new(manifest: &Manifest, provenance: RunProvenance) -> Self {
        let host = (manifest.through == Through::Local).then(|| manifest.host.clone());
        Self { provenance, at: manifest.at, host }
    }
}

impl Byline {
    /// The particulars of a study during its runs. The cost is known at their end.
    pub(in crate::render) fn of_live(plan: &Plan, study: &Study, records: &Records<'_>, runs: &[Begun]) -> Self {
        let records = records.values().map(AsRef::as_ref).collect();
        Sources { plan, study, verdicts: &[], records, imported: Vec::new(), spent: Spent::default() }.byline(runs)
    }
}

impl Sources<'_> {
    /// The particulars, from the records and from the runs in progress.
    pub(super) fn byline(&self, runs: &[Begun]) -> Byline {
        let mut users = self.values(|conditions| conditions.run.user.as_deref().map(clean));
        users.extend(runs.iter().filter_map(|run| run.provenance.user.as_deref().map(clean)));
        let mut hosts: BTreeSet<_> = self.provenances().map(|provenance| clean(&provenance.host)).collect();
        hosts.extend(runs.iter().filter_map(|run| run.host.as_deref().map(clean)));
        let mut versions: BTreeSet<_> = self.provenances().map(|provenance| clean(&provenance.sweep)).collect();
        versions.extend(runs.iter().map(|run| clean(&run.provenance.sweep)).filter(|version| !version.is_empty()));
        let mut commits = self.values(|conditions| conditions.run.git.as_ref().map(GitState::short));
        commits.extend(runs.iter().filter_map(|run| run.provenance.git.as_ref().map(GitState::short)));
        let devices: BTreeSet<_> = self
            .provenances()
            .filter_map(|provenance| provenance.device.as_ref())
            .filter(|device| device.backend != sweep_job::Backend::Cpu)
            .map(|device| clean(&device.name))
            .collect();
        let several = |names: usize, one: &'static str, more: &'static str| if names == 1 { one } else { more };
        let list = |items: &BTreeSet<Cow<'_, str>>| listed(items.iter().map(AsRef::as_ref));
        let rows = [
            ("Run by", list(&users)),
            ("Date", self.dates(runs)),
            (several(commits.len(), "Commit", "Commits"), listed(commits.iter().map(String::as_str))),
            (several(hosts.len(), "Machine", "Machines"), list(&hosts)),
            (several(devices.len(), "Device", "Devices"), list(&devices)),
            ("Version", if versions.is_empty() { String::new() } else { format!("sweep {}", list(&versions)) }),
            ("Compute", self.cost()),
        ];
        Byline(rows.into_iter().filter(|(_, value)| !value.is_empty()).collect())
    }

    /// The first and the last day on which a job or a run began.
    fn dates(&self, runs: &[Begun]) -> String {
        let times = self.provenances().map(|provenance| provenance.started).chain(runs.iter().map(|run| run.at));
        let days: BTreeSet<String> = times.map(|time| time.strftime("%Y-%m-%d").to_string()).collect();
        match (days.first(), days.last()) {
            (Some(first), Some(last)) if first != last => format!("{first} to {last}"),
            (Some(day), _) => day.clone(),
            _ => String::new(),
        }
    }

    /// Time of cores and of GPUs in all attempts.
    fn cost(&self) -> String {
        let cost = |seconds: f64, device: &str| (seconds > 0.0).then(|| compute(seconds, device));
        let costs = [cost(self.spent.cores, "core"), cost(self.spent.gpus, "GPU")];
        costs.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}
