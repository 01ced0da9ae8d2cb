//! Scripts that have servers running for tests: Slurm, Grid Engine, OpenSSH, Ray.
//!
//! A script prints `ready` and the settings of its servers, executes the commands of its standard input, one per line, and prints `done`
//! after each. It stops the servers when its standard input ends, which happens however this process ends. Its exit code is 3 where the
//! servers are not installed.

use std::{
    ffi::OsStr,
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{Mutex, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use tempfile::TempDir;

/// A script whose servers run.
pub(crate) struct Script(Mutex<Process>);

struct Process {
    child: Child,
    /// The text after `ready`.
    said: String,
    commands: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Script {
    /// Starts a script of `scripts`; or its exit code.
    pub(crate) fn start(name: &str, args: &[&OsStr]) -> Result<Self, Option<i32>> {
        let script = crate::sandbox::repository().join("scripts").join(name);
        let mut child = Command::new(script).args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        let mut process = Process { commands: child.stdin.take(), answers, child, said: String::new() };
        let answer = process.answer();
        match answer.strip_prefix("ready") {
            Some(said) => {
                said.trim().clone_into(&mut process.said);
                Ok(Self(Mutex::new(process)))
            }
            None => Err(process.child.wait().unwrap().code()),
        }
    }

    /// The text that the script printed after `ready`.
    #[cfg_attr(not(feature = "remote"), expect(dead_code, reason = "only the script of Ray says something"))]
    pub(crate) fn said(&self) -> String {
        self.0.lock().unwrap().said.clone()
    }

    /// Has the script do something to the servers.
    pub(crate) fn send(&self, command: &str) {
        let mut process = self.0.lock().unwrap();
        writeln!(process.commands.as_mut().unwrap(), "{command}").unwrap();
        assert_eq!(process.answer(), "done");
    }
}

impl Process {
    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The end of its input ends all of it.
        drop(self.commands.take());
        let _ = self.child.wait();
    }
}

/// A folder for servers. Its name is short, because their sockets have names of a hundred characters at most.
pub(crate) fn folder(prefix: &str) -> TempDir {
    let usual = std::env::temp_dir();
    let place = if usual.as_os_str().len() <= 20 { usual } else { "/tmp".into() };
    tempfile::Builder::new().prefix(prefix).tempdir_in(place).unwrap()
}

/// Starts servers; `None`, and the reason on standard error, where they are not installed. A port may be taken between its choice and
/// its use, so there is a second try.
pub(crate) fn start<T>(system: &str, start: impl Fn() -> Result<T, Option<i32>>) -> Option<T> {
    for _ in 0..2 {
        match start() {
            Ok(servers) => return Some(servers),
            Err(Some(3)) => {
                eprintln!(
                    "not run: {system} was not found; scripts/test-deps.sh and scripts/python-deps.sh install what tests need"
                );
                return None;
            }
            Err(_) => {}
        }
    }
    panic!("{system} is installed, and does not start");
}

/// Servers for all tests of a process, which one test at a time may have for itself.
pub(crate) struct Common<T> {
    servers: OnceLock<Option<T>>,
    /// Held alone by a test that disturbs others.
    quiet: RwLock<()>,
}

impl<T> Common<T> {
    pub(crate) const fn new() -> Self {
        Self { servers: OnceLock::new(), quiet: RwLock::new(()) }
    }

    /// The servers for a test that leaves others alone.
    pub(crate) fn shared(&self, start: impl FnOnce() -> Option<T>) -> Option<(&T, RwLockReadGuard<'_, ()>)> {
        let servers = self.servers.get_or_init(start).as_ref()?;
        Some((servers, self.quiet.read().unwrap_or_else(PoisonError::into_inner)))
    }

    /// The servers for a test that disturbs all of them.
    pub(crate) fn alone(&self, start: impl FnOnce() -> Option<T>) -> Option<(&T, RwLockWriteGuard<'_, ()>)> {
        let servers = self.servers.get_or_init(start).as_ref()?;
        Some((servers, self.quiet.write().unwrap_or_else(PoisonError::into_inner)))
    }
}
