//! The environments that `sweep bundle verify --rebuild` creates.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use super::compared::MAX_NAMED;
use crate::{
    export::bundle::{Built, Opened, PythonEnvironment, Rerun, Wanted},
    format::{clean, count, say},
    plan::{JobId, Plan},
    store::Store,
};

/// The environments of the jobs that run again.
pub(super) struct Rebuild(BTreeMap<JobId, Wanted>);

impl Rebuild {
    /// The environments of the jobs of a plan, by the records of a bundle in `store`.
    pub(super) fn new(bundle: &Opened, plan: &Plan, store: &Store) -> Self {
        Self(bundle.wanted_environments(plan, store))
    }

    /// The environments of Python, each once.
    fn python(&self) -> BTreeSet<&PythonEnvironment> {
        self.0
            .values()
            .filter_map(|wanted| if let Wanted::Python(python) = wanted { Some(python) } else { None })
            .collect()
    }

    /// The packages of each environment, for people.
    pub(super) fn lines(&self) -> Vec<String> {
        let line = |environment: &PythonEnvironment| {
            let packages = environment.requirements();
            let packages = if packages.is_empty() { "no packages".to_owned() } else { packages.join(" ") };
            format!("Python {}: {packages}", environment.python())
        };
        self.python().into_iter().map(line).collect()
    }

    /// Makes the environments below a folder, and lets the jobs run in them.
    pub(super) fn make(&self, rerun: Rerun, folder: &Path) -> Rerun {
        let mut made: BTreeMap<&PythonEnvironment, Result<PathBuf, String>> = BTreeMap::new();
        for (index, environment) in self.python().into_iter().enumerate() {
            let (python, packages) = (environment.python(), count(environment.requirements().len(), "package"));
            say(format_args!("making an environment: Python {python}, {packages}"));
            let place = folder.join(format!("environment-{index}"));
            let result = environment.build(&place).map(|Built { folder, notice }| {
                if let Some(notice) = notice {
                    say(format_args!("note: {}", clean(&notice)));
                }
                folder
            });
            made.insert(environment, result);
        }
        let mut present: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        let mut environments = BTreeMap::new();
        for (id, wanted) in &self.0 {
            match wanted {
                Wanted::Python(environment) => {
                    let result = made.get(environment).cloned();
                    let result = result
                        .map(|result| result.map_err(|reason| format!("its environment cannot be made: {reason}")));
                    environments.extend(result.map(|result| (*id, result)));
                }
                Wanted::Present(reason) => {
                    present.entry(reason).or_default().push(rerun.plan.job(*id).label.to_string());
                }
                Wanted::Unknown(reason) => {
                    environments.insert(*id, Err(format!("its environment cannot be made: {reason}")));
                }
            }
        }
        for (reason, jobs) in present {
            let names = jobs.iter().take(MAX_NAMED).map(|name| clean(name)).collect::<Vec<_>>().join(", ");
            let more = if jobs.len() > MAX_NAMED { ", …" } else { "" };
            say(format_args!(
                "note: no environment is made for {} ({names}{more}), which {} of this machine: they are {reason}",
                count(jobs.len(), "job"),
                if jobs.len() == 1 { "uses the programs" } else { "use the programs" }
            ));
        }
        rerun.in_environments(&environments)
    }
}
