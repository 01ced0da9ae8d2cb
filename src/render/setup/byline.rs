//! Particulars of a study below its title, as on a paper: who ran it, when, on what state of the code, where, and at what cost.

use std::collections::BTreeSet;

use super::{Sources, hours, listed};
use crate::format::clean;

/// Most digits of a commit that are shown.
const COMMIT: usize = 10;

/// Particulars of a study, each a name and a value; what is not known is absent.
#[derive(Debug, Default)]
pub(in crate::render) struct Byline(pub(in crate::render) Vec<(&'static str, String)>);

impl Sources<'_> {
    pub(super) fn byline(&self) -> Byline {
        let users = self.values(|conditions| conditions.run.user.as_deref().map(clean));
        let hosts: BTreeSet<_> = self.provenances().map(|provenance| clean(&provenance.host)).collect();
        let versions: BTreeSet<_> = self.provenances().map(|provenance| clean(&provenance.sweep)).collect();
        let commits = self.values(|conditions| {
            let git = conditions.run.git.as_ref()?;
            let commit = clean(git.commit.get(..COMMIT).unwrap_or(&git.commit));
            Some(match git.dirty {
                Some(false) => commit.into_owned(),
                Some(true) => format!("{commit} (uncommitted changes)"),
                None => format!("{commit} (changes unknown)"),
            })
        });
        let devices: BTreeSet<_> = self
            .provenances()
            .filter_map(|provenance| provenance.device.as_ref())
            .filter(|device| device.backend != sweep_job::Backend::Cpu)
            .map(|device| clean(&device.name))
            .collect();
        let several = |names: usize, one: &'static str, more: &'static str| if names == 1 { one } else { more };
        let list = |items: &BTreeSet<std::borrow::Cow<'_, str>>| listed(items.iter().map(AsRef::as_ref));
        let found = [
            ("Run by", list(&users)),
            ("Date", self.dates()),
            (several(commits.len(), "Commit", "Commits"), listed(commits.iter().map(String::as_str))),
            (several(hosts.len(), "Machine", "Machines"), list(&hosts)),
            (several(devices.len(), "Device", "Devices"), list(&devices)),
            ("Version", if versions.is_empty() { String::new() } else { format!("sweep {}", list(&versions)) }),
            ("Compute", self.cost()),
        ];
        Byline(found.into_iter().filter(|(_, value)| !value.is_empty()).collect())
    }

    /// The first and the last day on which a job began.
    fn dates(&self) -> String {
        let days: BTreeSet<String> =
            self.provenances().map(|provenance| provenance.started.strftime("%Y-%m-%d").to_string()).collect();
        match (days.first(), days.last()) {
            (Some(first), Some(last)) if first != last => format!("{first} to {last}"),
            (Some(day), _) => day.clone(),
            _ => String::new(),
        }
    }

    /// Core-hours and GPU-hours of all attempts.
    fn cost(&self) -> String {
        let cost = |seconds: f64, what: &str| (seconds > 0.0).then(|| format!("{} {what}", hours(seconds)));
        let costs = [cost(self.spent.cores, "core-hours"), cost(self.spent.gpus, "GPU-hours")];
        costs.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}
