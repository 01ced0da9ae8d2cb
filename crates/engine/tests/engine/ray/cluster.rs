//! One Ray cluster for all tests of a process, in a network of its own.

use std::{
    ffi::OsStr,
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
    sync::OnceLock,
};

use serde_json::Value;

use crate::sandbox::{Ended, Running, Sandbox, until};

/// A cluster. Its script takes it down when this process is gone, however that ends: its standard input ends then.
pub(crate) struct Cluster {
    _folder: tempfile::TempDir,
    _script: Child,
    /// A process in its network.
    inside: String,
}

/// The cluster; `None`, and the reason on standard error, where there is no Ray.
pub(crate) fn cluster() -> Option<&'static Cluster> {
    static CLUSTER: OnceLock<Option<Cluster>> = OnceLock::new();
    let cluster = CLUSTER.get_or_init(Cluster::start).as_ref();
    if cluster.is_none() {
        eprintln!("not run: Ray was not found; scripts/python-deps.sh installs it");
    }
    cluster
}

impl Cluster {
    fn start() -> Option<Self> {
        // Short: sockets have short names.
        let folder = tempfile::Builder::new().prefix("ray").tempdir_in("/tmp").unwrap();
        let script = crate::sandbox::repository().join("scripts/ray-test.sh");
        let mut process =
            Command::new(script).arg(folder.path()).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        match line.trim().split_once(' ') {
            Some(("ready", inside)) => Some(Self { _folder: folder, inside: inside.to_owned(), _script: process }),
            _ => {
                assert_eq!(process.wait().unwrap().code(), Some(3), "Ray is installed, and does not start");
                None
            }
        }
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
