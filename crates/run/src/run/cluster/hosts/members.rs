//! Hosts that join and leave: a file in the results folder, which `sweep hosts` changes and a run reads again and again.

use std::{
    io,
    path::{Path, PathBuf},
    thread,
    time::{Duration, SystemTime},
};

use serde::{Deserialize, Serialize};

use super::placements::{folder, write_aside};
use crate::{host::machine, recipe::executor::ssh::SshHost, store::Store};

/// Time between two attempts to take the lock of the list.
const LOCK_INTERVAL: Duration = Duration::from_millis(20);

/// Changes to the hosts of recipes and command lines.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Members {
    /// Hosts that were added.
    #[serde(default)]
    pub added: Vec<SshHost>,
    /// Names of hosts that were removed.
    #[serde(default)]
    pub removed: Vec<String>,
}

/// A host as a run sees it, for `sweep hosts list`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostState {
    /// The host's name.
    pub host: String,
    /// The host's state in a word: `connected`, `connecting`, `unreachable`, `refused`, `leaving`.
    pub state: String,
    /// Cores in use, and all that jobs may use.
    pub cpus: (usize, usize),
    /// GPUs in use, and all that jobs may use.
    pub gpus: (usize, usize),
    /// Number of jobs there.
    pub jobs: usize,
    /// Reason why it cannot be used, or its system.
    pub about: String,
}

/// The hosts of a run that is in progress.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct States {
    /// The process of the run, and its start in ticks.
    pub pid: u32,
    /// Numbers of processes are used again.
    pub begun: u64,
    /// The run's hosts.
    pub hosts: Vec<HostState>,
}

fn file(results: &Path) -> PathBuf {
    folder(results).join("members.json")
}

fn states_file(results: &Path) -> PathBuf {
    folder(results).join("state.json")
}

impl Members {
    /// The changes of a results folder.
    ///
    /// # Errors
    /// The file cannot be read, or is invalid.
    pub fn read(results: &Path) -> io::Result<Self> {
        let path = file(results);
        match std::fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(io::Error::new(error.kind(), format!("cannot read {}: {error}", path.display()))),
            Ok(text) => serde_json::from_slice(&text)
                .map_err(|error| io::Error::other(format!("{} is not a list of hosts: {error}", path.display()))),
        }
    }

    /// Applies `change` to the stored changes. Concurrent calls of several processes wait for each other.
    ///
    /// # Errors
    /// The I/O errors of the file and its lock.
    pub fn change(results: &Path, change: impl FnOnce(&mut Self)) -> io::Result<()> {
        let store = Store::new(results);
        let _held = loop {
            if let Some(held) = store.lock("hosts")? {
                break held;
            }
            thread::sleep(LOCK_INTERVAL);
        };
        let mut members = Self::read(results)?;
        change(&mut members);
        members.write(results)
    }

    fn write(&self, results: &Path) -> io::Result<()> {
        write_aside(&file(results), &serde_json::to_vec_pretty(self)?)
    }

    /// Adds a host, or changes it.
    pub fn add(&mut self, host: SshHost) {
        self.removed.retain(|name| *name != host.host);
        self.added.retain(|member| member.host != host.host);
        self.added.push(host);
    }

    /// Removes a host.
    pub fn remove(&mut self, name: &str) {
        self.added.retain(|member| member.host != name);
        if !self.removed.iter().any(|name_removed| name_removed == name) {
            self.removed.push(name.to_owned());
        }
    }

    /// The hosts of a run whose recipe or command line has named these.
    pub fn of(&self, named: &[SshHost]) -> Vec<SshHost> {
        let is_added = |host: &SshHost| self.added.iter().any(|added| added.host == host.host);
        let named = named.iter().filter(|host| !self.removed.contains(&host.host) && !is_added(host));
        named.chain(&self.added).cloned().collect()
    }
}

impl States {
    /// The hosts of the run in progress, if there is one.
    pub fn read(results: &Path) -> Option<Self> {
        let states: Self = serde_json::from_slice(&std::fs::read(states_file(results)).ok()?).ok()?;
        (machine::begun(states.pid) == Some(states.begun)).then_some(states)
    }

    /// Creates the states of the hosts that this process uses.
    pub(super) fn of_this_process(hosts: Vec<HostState>) -> Self {
        let pid = std::process::id();
        Self { pid, begun: machine::begun(pid).unwrap_or(0), hosts }
    }

    /// Writes the states to the file that other processes read.
    pub(super) fn write(&self, results: &Path) -> io::Result<()> {
        write_aside(&states_file(results), &serde_json::to_vec(self)?)
    }

    pub(super) fn remove(results: &Path) {
        // Readers check that the process is alive.
        let _ = std::fs::remove_file(states_file(results));
    }
}

/// Time of the last change.
pub(super) fn changed(results: &Path) -> Option<SystemTime> {
    std::fs::metadata(file(results)).and_then(|metadata| metadata.modified()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_join_and_leave() {
        let results = tempfile::tempdir().unwrap();
        let named = ["box1", "box2"].map(|name| SshHost::named(name).unwrap());
        let names = |members: &Members| -> Vec<String> {
            members.of(&named).into_iter().map(|host| format!("{}:{}", host.host, host.cpus.unwrap_or(0))).collect()
        };
        let mut members = Members::read(results.path()).unwrap();
        assert_eq!(names(&members), ["box1:0", "box2:0"]);
        members.remove("box1");
        members.add(SshHost { cpus: Some(4), ..SshHost::named("box3").unwrap() });
        members.add(SshHost { cpus: Some(2), ..SshHost::named("box2").unwrap() });
        members.write(results.path()).unwrap();
        let mut members = Members::read(results.path()).unwrap();
        assert_eq!(names(&members), ["box3:4", "box2:2"]);
        members.remove("box3");
        members.add(SshHost::named("box1").unwrap());
        assert_eq!(names(&members), ["box2:2", "box1:0"]);
        std::fs::write(file(results.path()), "{").unwrap();
        assert!(Members::read(results.path()).unwrap_err().to_string().contains("is not a list of hosts"));
    }
}
