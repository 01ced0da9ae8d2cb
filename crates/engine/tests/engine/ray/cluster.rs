//! A Ray cluster, in a network of its own.

use std::{
    ffi::OsStr,
    process::{Command, Stdio},
};

use serde_json::Value;

use crate::{
    sandbox::{Ended, Running, Sandbox, until},
    servers::{self, Script},
};

/// A cluster.
pub(crate) struct Cluster {
    /// Before the folder, which the script still needs when it is dropped.
    _script: Script,
    _folder: tempfile::TempDir,
    /// A process in its network.
    inside: String,
}

impl Cluster {
    /// Starts it; `None`, and the reason on standard error, where there is no Ray.
    pub(crate) fn start() -> Option<Self> {
        servers::start("Ray", || {
            let folder = servers::folder("ray");
            let script = Script::start("ray-test.sh", &[folder.path().as_os_str()])?;
            Ok(Self { inside: script.said(), _script: script, _folder: folder })
        })
    }

    /// A program in the cluster's network, not started yet.
    fn inside(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--user", "--preserve-credentials", "--net", "-t", &self.inside, "--"]).arg(program);
        command
    }

    /// `sweep` where Ray is, not started yet.
    pub(crate) fn command(&self, sandbox: &Sandbox, args: &[&str]) -> Command {
        let plain = sandbox.command(args);
        let mut command = self.inside(plain.get_program());
        command.args(plain.get_args());
        for (name, value) in plain.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.env_remove("RAY_ADDRESS").env_remove("RAY_API_SERVER_ADDRESS").current_dir(sandbox.path(""));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Starts `sweep` where Ray is.
    pub(crate) fn start_sweep(&self, sandbox: &Sandbox, args: &[&str]) -> Running {
        self.command(sandbox, args).spawn().unwrap().into()
    }

    /// Runs `sweep` to its end where Ray is.
    pub(crate) fn sweep(&self, sandbox: &Sandbox, args: &[&str]) -> Ended {
        self.start_sweep(sandbox, args).wait()
    }

    /// The jobs of a sandbox's store, as Ray shows them.
    pub(crate) fn jobs(&self, sandbox: &Sandbox) -> Vec<Value> {
        let Ok(id) = fs_err::read_to_string(sandbox.path("results/store/id")) else { return Vec::new() };
        let read = "import urllib.request as r; print(r.urlopen('http://127.0.0.1:8265/api/jobs/').read().decode())";
        let answer = self.inside("python3").args(["-c", read]).output().unwrap();
        let jobs: Vec<Value> = serde_json::from_slice(&answer.stdout).unwrap();
        let ours = |job: &Value| {
            job["submission_id"].as_str().is_some_and(|name| name.starts_with(&format!("sweep-{}", id.trim())))
        };
        jobs.into_iter().filter(ours).collect()
    }

    pub(crate) fn until_nothing_is_left(&self, sandbox: &Sandbox) {
        let live = |job: &Value| ["PENDING", "RUNNING"].contains(&job["status"].as_str().unwrap());
        until("Ray has nothing of it left", || !self.jobs(sandbox).iter().any(live));
        until("no worker is left", || sandbox.workers().is_empty());
    }
}
