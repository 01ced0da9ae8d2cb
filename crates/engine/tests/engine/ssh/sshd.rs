//! Servers of OpenSSH for one test.

use std::{ffi::OsStr, path::PathBuf};

use crate::servers::{self, Script};

/// Hosts `box1`, `box2`, …, with a home each. The script takes them down with all that was started there.
pub(crate) struct Sshd {
    /// Before the folder, which the script still needs when it is dropped.
    script: Script,
    folder: tempfile::TempDir,
}

impl Sshd {
    /// Starts them; `None`, and the reason on standard error, where there is no OpenSSH.
    pub(crate) fn start(hosts: usize) -> Option<Self> {
        servers::start("OpenSSH", || {
            let folder = servers::folder("sshd");
            let count = hosts.to_string();
            let script = Script::start("sshd-test.sh", &[folder.path().as_os_str(), OsStr::new(&count)])?;
            Ok(Self { script, folder })
        })
    }

    /// Has the script do something: `kill box1`, `start box1`.
    pub(crate) fn send(&self, command: &str) {
        self.script.send(command);
    }

    /// A file of these servers: `config`, `known_hosts`, `box1/authorized_keys`, `box1/port`.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
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
