//! Servers of OpenSSH for one test.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::Mutex,
};

/// Hosts `box1`, `box2`, …, with a home each. The script takes them down with all that was started there when this process is
/// gone, however that ends.
pub(crate) struct Sshd {
    /// Before the folder, which the script still needs when it is dropped.
    script: Mutex<Script>,
    folder: tempfile::TempDir,
}

struct Script {
    process: Child,
    commands: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Sshd {
    /// Starts them; `None`, and the reason on standard error, where there is no OpenSSH.
    pub(crate) fn start(hosts: usize) -> Option<Self> {
        for _ in 0..2 {
            match Self::try_start(hosts) {
                Ok(sshd) => return Some(sshd),
                Err(Some(3)) => {
                    eprintln!("not run: OpenSSH was not found; scripts/test-deps.sh installs it");
                    return None;
                }
                // A port may be taken between its choice and its use.
                Err(_) => {}
            }
        }
        panic!("OpenSSH is installed, and does not start");
    }

    fn try_start(hosts: usize) -> Result<Self, Option<i32>> {
        let folder = tempfile::Builder::new().prefix("sshd").tempdir_in("/tmp").unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/sshd-test.sh");
        let mut process = Command::new(script)
            .arg(folder.path().join("s"))
            .arg(hosts.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut script =
            Script { commands: process.stdin.take(), answers: BufReader::new(process.stdout.take().unwrap()), process };
        match script.answer().as_str() {
            "ready" => Ok(Self { script: Mutex::new(script), folder }),
            _ => Err(script.process.wait().unwrap().code()),
        }
    }

    /// Has the script do something: `kill box1`, `start box1`.
    pub(crate) fn send(&self, command: &str) {
        let mut script = self.script.lock().unwrap();
        writeln!(script.commands.as_mut().unwrap(), "{command}").unwrap();
        assert_eq!(script.answer(), "done");
    }

    /// A file of these servers: `config`, `known_hosts`, `box1/authorized_keys`, `box1/port`.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("s").join(name)
    }

    /// Options of `ssh` with which it knows the hosts.
    pub(crate) fn options(&self) -> Vec<String> {
        vec!["-F".to_owned(), self.path("config").to_str().unwrap().to_owned()]
    }

    /// The home on a host.
    pub(crate) fn home(&self, host: &str) -> PathBuf {
        self.path(host).join("home")
    }

    /// Has each login on a host carry out a text of the shell before its command.
    pub(crate) fn rc(&self, host: &str, text: &str) {
        fs_err::write(self.home(host).join(".rc"), text).unwrap();
    }
}

impl Script {
    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        // The end of its input ends all of it.
        drop(self.commands.take());
        let _ = self.process.wait();
    }
}
