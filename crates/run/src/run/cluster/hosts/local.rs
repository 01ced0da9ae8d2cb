//! Jobs on this machine, beside those on hosts: each with a separate engine, which continues if this process is killed.

use std::{
    io,
    os::unix::process::{CommandExt as _, ExitStatusExt as _},
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use fs_err as fs;
use rustix::process::{Pid, Signal, kill_process};

use super::placements::Where;
use crate::{
    host::{machine, program, threads::refused},
    record::Key,
    run::{cluster::CancelScope, slots::Lease},
};

/// Interval between polls of a process that is not a child of this one.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// The variables with the resources for a job's own engine.
pub(super) const CPUS: &str = "SWEEP_HOST_CPUS";
pub(super) const MEMORY: &str = "SWEEP_HOST_MEMORY";

/// A job to start.
#[derive(Debug, Clone)]
pub(super) struct Launch {
    pub(super) key: Key,
    pub(super) run: String,
    pub(super) at: u64,
    pub(super) results: PathBuf,
    pub(super) folder: PathBuf,
    pub(super) output: PathBuf,
    pub(super) lease: Lease,
    /// The GPUs of the lease, as `CUDA_VISIBLE_DEVICES` names them; `None` leaves that to the environment.
    pub(super) gpus: Option<Vec<String>>,
    pub(super) memory: u64,
}

impl Launch {
    /// Starts the job's engine. Ctrl-C on the terminal of this process does not reach it.
    pub(super) fn start(&self) -> io::Result<Child> {
        if let Some(folder) = self.output.parent() {
            fs::create_dir_all(folder)?;
        }
        let output = fs::OpenOptions::new().create(true).append(true).open(&self.output)?.into_file();
        let mut command = Command::new(program()?);
        command.arg("--results").arg(&self.results).args(["exec-job", &self.run, "--at", &self.at.to_string()]);
        command.args(["--key", &self.key.to_string()]).current_dir(&self.folder).process_group(0);
        command.env(CPUS, self.lease.cpus.to_string()).env(MEMORY, self.memory.to_string());
        if let Some(gpus) = &self.gpus {
            command.env("CUDA_VISIBLE_DEVICES", gpus.join(","));
        }
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        command.spawn().map_err(refused)
    }
}

/// A process for the files of placements.
pub(super) fn identity(pid: u32) -> Where {
    Where::Local { pid, begun: machine::begun(pid).unwrap_or(0), boot: machine::boot() }
}

/// True if the process lives.
pub(super) fn is_alive(place: &Where) -> bool {
    matches!(place, Where::Local { pid, begun, boot } if *boot == machine::boot() && machine::begun(*pid) == Some(*begun))
}

/// Waits for the end of a job's engine; returns a description of its end.
pub(super) fn wait(mut child: Child) -> String {
    match child.wait() {
        Ok(status) => match (status.code(), status.signal()) {
            (Some(code), _) => format!("{EXIT}{code}"),
            (None, Some(signal)) => format!("{SIGNAL}{signal}"),
            (None, None) => status.to_string(),
        },
        Err(error) => error.to_string(),
    }
}

/// Prefixes of the descriptions of ends.
pub(super) const EXIT: &str = "exit ";
pub(super) const SIGNAL: &str = "signal ";

/// Waits for the end of a process that another one has started.
pub(super) fn watch(place: &Where) {
    while is_alive(place) {
        thread::sleep(POLL_INTERVAL);
    }
}

/// Asks a job's engine to end.
pub(super) fn stop(place: &Where, scope: CancelScope) {
    let Where::Local { pid, .. } = place else { return };
    let signal = match scope {
        CancelScope::Pending => return,
        CancelScope::All => Signal::TERM,
        CancelScope::Interrupt => Signal::INT,
    };
    if let Some(pid) = i32::try_from(*pid).ok().and_then(Pid::from_raw).filter(|_| is_alive(place)) {
        // A process that has ended meanwhile needs no signal.
        let _ = kill_process(pid, signal);
    }
}
