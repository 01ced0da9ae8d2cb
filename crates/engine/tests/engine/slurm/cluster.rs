//! One Slurm cluster for all tests of a process.

use std::{
    path::PathBuf,
    process::Command,
    sync::{RwLockReadGuard, RwLockWriteGuard},
};

use crate::{
    sandbox::{Ended, Running, Sandbox, until},
    servers::{self, Common, Script},
};

/// A cluster.
pub(crate) struct Cluster {
    script: Script,
    folder: tempfile::TempDir,
}

static CLUSTER: Common<Cluster> = Common::new();

/// The cluster for a test that leaves others alone; `None`, and the reason on standard error, where there is no Slurm.
pub(crate) fn shared() -> Option<(&'static Cluster, RwLockReadGuard<'static, ()>)> {
    CLUSTER.shared(|| servers::start("Slurm", Cluster::start))
}

/// The cluster for a test that disturbs all of it.
pub(crate) fn alone() -> Option<(&'static Cluster, RwLockWriteGuard<'static, ()>)> {
    CLUSTER.alone(|| servers::start("Slurm", Cluster::start))
}

impl Cluster {
    fn start() -> Result<Self, Option<i32>> {
        let folder = servers::folder("slurm");
        let script = Script::start("slurm-test.sh", &[folder.path().as_os_str()])?;
        Ok(Self { script, folder })
    }

    /// Has the script do something to the cluster.
    pub(crate) fn send(&self, command: &str) {
        self.script.send(command);
    }

    fn configuration(&self) -> PathBuf {
        self.folder.path().join("etc/slurm.conf")
    }

    /// `sweep` where Slurm is, not started yet.
    pub(crate) fn command(&self, sandbox: &Sandbox, args: &[&str]) -> Command {
        let mut command = sandbox.command(args);
        command.env("SLURM_CONF", self.configuration());
        command
    }

    /// Runs `sweep` to its end where Slurm is.
    pub(crate) fn sweep(&self, sandbox: &Sandbox, args: &[&str]) -> Ended {
        self.start_sweep(sandbox, args).wait()
    }

    /// Starts `sweep` where Slurm is.
    pub(crate) fn start_sweep(&self, sandbox: &Sandbox, args: &[&str]) -> Running {
        self.command(sandbox, args).spawn().unwrap().into()
    }

    /// Output of one of Slurm's commands.
    pub(crate) fn slurm(&self, program: &str, args: &[&str]) -> String {
        let output = Command::new(program).args(args).env("SLURM_CONF", self.configuration()).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Number, state and why of every job of a sandbox's store that Slurm knows.
    pub(crate) fn jobs(&self, sandbox: &Sandbox) -> Vec<(String, String, String)> {
        let Ok(id) = fs_err::read_to_string(sandbox.path("results/store/id")) else { return Vec::new() };
        let name = format!("sweep-{}", id.trim());
        let text = self.slurm("squeue", &["-h", "-t", "all", "-n", &name, "-o", "%A|%T|%r"]);
        let lines = text.lines().map(|line| {
            let mut fields = line.splitn(3, '|').map(str::to_owned);
            (fields.next().unwrap(), fields.next().unwrap(), fields.next().unwrap())
        });
        lines.collect()
    }

    /// Jobs of a sandbox's store that have not ended.
    pub(crate) fn live(&self, sandbox: &Sandbox) -> Vec<(String, String, String)> {
        let mut jobs = self.jobs(sandbox);
        jobs.retain(|(_, state, _)| matches!(state.as_str(), "PENDING" | "CONFIGURING" | "RUNNING" | "COMPLETING"));
        jobs
    }

    pub(crate) fn until_nothing_is_left(&self, sandbox: &Sandbox) {
        until("Slurm has nothing of it left", || self.live(sandbox).is_empty());
        until("no worker is left", || sandbox.workers().is_empty());
    }
}
