//! One Slurm cluster for all tests of a process.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{Mutex, OnceLock, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use crate::sandbox::{Ended, Running, Sandbox, until};

/// A cluster. Its script takes it down when this process is gone, however that ends: its standard input ends then.
pub(crate) struct Cluster {
    folder: tempfile::TempDir,
    script: Mutex<Script>,
    /// Held alone by a test that disturbs others.
    quiet: RwLock<()>,
}

struct Script {
    process: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
}

/// The cluster for a test that leaves others alone; `None`, and the reason on standard error, where there is no Slurm.
pub(crate) fn shared() -> Option<(&'static Cluster, RwLockReadGuard<'static, ()>)> {
    let cluster = cluster()?;
    Some((cluster, cluster.quiet.read().unwrap_or_else(std::sync::PoisonError::into_inner)))
}

/// The cluster for a test that disturbs all of it.
pub(crate) fn alone() -> Option<(&'static Cluster, RwLockWriteGuard<'static, ()>)> {
    let cluster = cluster()?;
    Some((cluster, cluster.quiet.write().unwrap_or_else(std::sync::PoisonError::into_inner)))
}

fn cluster() -> Option<&'static Cluster> {
    static CLUSTER: OnceLock<Option<Cluster>> = OnceLock::new();
    let cluster = CLUSTER.get_or_init(Cluster::start).as_ref();
    if cluster.is_none() {
        eprintln!("not run: Slurm was not found; scripts/test-deps.sh installs it");
    }
    cluster
}

impl Cluster {
    /// A port may be taken between its choice and its use, and then no node answers; so there is a second try.
    fn start() -> Option<Self> {
        Self::try_start().or_else(|code| if code == Some(3) { Err(code) } else { Self::try_start() }).map_or_else(
            |code| {
                assert_eq!(code, Some(3), "Slurm is installed, and does not start");
                None
            },
            Some,
        )
    }

    /// Starts it; or the exit code of the script, which is 3 where there is no Slurm.
    fn try_start() -> Result<Self, Option<i32>> {
        // Short: sockets have short names.
        let folder = tempfile::Builder::new().prefix("slurm").tempdir_in("/tmp").unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/slurm-test.sh");
        let mut process = Command::new(script)
            .arg(folder.path().join("c"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut script = Script {
            commands: process.stdin.take().unwrap(),
            answers: BufReader::new(process.stdout.take().unwrap()),
            process,
        };
        match script.answer().as_str() {
            "ready" => Ok(Self { folder, script: Mutex::new(script), quiet: RwLock::new(()) }),
            _ => Err(script.process.wait().unwrap().code()),
        }
    }

    /// Has the script do something to the cluster.
    pub(crate) fn send(&self, command: &str) {
        let mut script = self.script.lock().unwrap();
        writeln!(script.commands, "{command}").unwrap();
        assert_eq!(script.answer(), "done");
    }

    fn configuration(&self) -> PathBuf {
        self.folder.path().join("c/etc/slurm.conf")
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

impl Script {
    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }
}
