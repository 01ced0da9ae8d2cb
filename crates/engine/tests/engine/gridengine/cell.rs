//! One Grid Engine for all tests of a process.

use std::{
    process::Command,
    sync::{RwLockReadGuard, RwLockWriteGuard},
};

use crate::{
    sandbox::{Ended, Running, Sandbox, until},
    servers::{self, Common, Script},
};

/// A cell.
pub(crate) struct Cell {
    script: Script,
    _folder: tempfile::TempDir,
    /// The client's variables.
    variables: Vec<(String, String)>,
}

static CELL: Common<Cell> = Common::new();

/// The cell for a test that leaves others alone; `None`, and the reason on standard error, where there is no Grid Engine.
pub(crate) fn shared() -> Option<(&'static Cell, RwLockReadGuard<'static, ()>)> {
    CELL.shared(|| servers::start("Grid Engine", Cell::start))
}

/// The cell for a test that disturbs all of it.
pub(crate) fn alone() -> Option<(&'static Cell, RwLockWriteGuard<'static, ()>)> {
    CELL.alone(|| servers::start("Grid Engine", Cell::start))
}

impl Cell {
    fn start() -> Result<Self, Option<i32>> {
        let folder = servers::folder("sge");
        let root = folder.path();
        let script = Script::start("gridengine-test.sh", &[root.as_os_str()])?;
        let settings = fs_err::read_to_string(root.join("settings.sh")).unwrap();
        let words = settings.split_whitespace().filter_map(|word| word.split_once('='));
        let path = std::env::var("PATH").unwrap();
        let value = |value: &str| value.replace("$PATH", &path);
        let variables = words.map(|(name, text)| (name.to_owned(), value(text))).collect();
        Ok(Self { script, _folder: folder, variables })
    }

    /// Has the script do something to the cell.
    pub(crate) fn send(&self, command: &str) {
        self.script.send(command);
    }

    /// `sweep` where Grid Engine is, not started yet.
    pub(crate) fn command(&self, sandbox: &Sandbox, args: &[&str]) -> Command {
        let mut command = sandbox.command(args);
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Starts `sweep` where Grid Engine is.
    pub(crate) fn start_sweep(&self, sandbox: &Sandbox, args: &[&str]) -> Running {
        self.command(sandbox, args).spawn().unwrap().into()
    }

    /// Runs `sweep` to its end where Grid Engine is.
    pub(crate) fn sweep(&self, sandbox: &Sandbox, args: &[&str]) -> Ended {
        self.start_sweep(sandbox, args).wait()
    }

    /// Output of one of Grid Engine's commands.
    pub(crate) fn ask(&self, program: &str, args: &[&str]) -> String {
        let variables = self.variables.iter().map(|(name, value)| (name, value));
        let output = Command::new("env").arg(program).args(args).envs(variables).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Number, name and state of every job of a sandbox's store in the queue.
    pub(crate) fn jobs(&self, sandbox: &Sandbox) -> Vec<(String, String, String)> {
        let Ok(id) = fs_err::read_to_string(sandbox.path("results/store/id")) else { return Vec::new() };
        let text = self.ask("qstat", &["-xml", "-u", "*"]);
        let field = |job: &str, name: &str| -> String {
            let open = format!("<{name}>");
            job.split(&open).nth(1).and_then(|rest| rest.split('<').next()).unwrap_or_default().to_owned()
        };
        let jobs = text.split("<job_list").skip(1);
        let jobs = jobs.map(|job| (field(job, "JB_job_number"), field(job, "JB_name"), field(job, "state")));
        jobs.filter(|(_, name, _)| name.starts_with(&format!("sweep-{}", id.trim()))).collect()
    }

    pub(crate) fn until_nothing_is_left(&self, sandbox: &Sandbox) {
        until("Grid Engine has nothing of it left", || self.jobs(sandbox).is_empty());
        until("no worker is left", || sandbox.workers().is_empty());
    }
}
