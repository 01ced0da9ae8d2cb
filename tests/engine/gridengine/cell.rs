//! One Grid Engine for all tests of a process.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{Mutex, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use crate::sandbox::{Ended, Running, Sandbox, until};

/// A cell. Its script takes it down when this process is gone, however that ends: its standard input ends then.
pub(crate) struct Cell {
    _folder: tempfile::TempDir,
    script: Mutex<Script>,
    /// The client's variables.
    variables: Vec<(String, String)>,
    /// Held alone by a test that disturbs others.
    quiet: RwLock<()>,
}

struct Script {
    process: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
}

/// The cell for a test that leaves others alone; `None`, and the reason on standard error, where there is no Grid Engine.
pub(crate) fn shared() -> Option<(&'static Cell, RwLockReadGuard<'static, ()>)> {
    let cell = cell()?;
    Some((cell, cell.quiet.read().unwrap_or_else(PoisonError::into_inner)))
}

/// The cell for a test that disturbs all of it.
pub(crate) fn alone() -> Option<(&'static Cell, RwLockWriteGuard<'static, ()>)> {
    let cell = cell()?;
    Some((cell, cell.quiet.write().unwrap_or_else(PoisonError::into_inner)))
}

fn cell() -> Option<&'static Cell> {
    static CELL: OnceLock<Option<Cell>> = OnceLock::new();
    let cell = CELL.get_or_init(Cell::start).as_ref();
    if cell.is_none() {
        eprintln!("not run: Grid Engine was not found; scripts/test-deps.sh installs it");
    }
    cell
}

impl Cell {
    /// A port may be taken between its choice and its use, so there is a second try.
    fn start() -> Option<Self> {
        Self::try_start().or_else(|code| if code == Some(3) { Err(code) } else { Self::try_start() }).map_or_else(
            |code| {
                assert_eq!(code, Some(3), "Grid Engine is installed, and does not start");
                None
            },
            Some,
        )
    }

    /// Starts it; or the exit code of the script, which is 3 where there is none.
    fn try_start() -> Result<Self, Option<i32>> {
        let folder = tempfile::Builder::new().prefix("sge").tempdir_in("/tmp").unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/gridengine-test.sh");
        let root = folder.path().join("c");
        let mut process = Command::new(script).arg(&root).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut script = Script {
            commands: process.stdin.take().unwrap(),
            answers: BufReader::new(process.stdout.take().unwrap()),
            process,
        };
        if script.answer() != "ready" {
            return Err(script.process.wait().unwrap().code());
        }
        let settings = fs_err::read_to_string(root.join("settings.sh")).unwrap();
        let words = settings.split_whitespace().filter_map(|word| word.split_once('='));
        let path = std::env::var("PATH").unwrap();
        let value = |value: &str| value.replace("$PATH", &path);
        let variables = words.map(|(name, text)| (name.to_owned(), value(text))).collect();
        Ok(Self { _folder: folder, script: Mutex::new(script), variables, quiet: RwLock::new(()) })
    }

    /// Has the script do something to the cell.
    pub(crate) fn send(&self, command: &str) {
        let mut script = self.script.lock().unwrap();
        writeln!(script.commands, "{command}").unwrap();
        assert_eq!(script.answer(), "done");
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

impl Script {
    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }
}
