//! What this machine computes on, asked of a process that a broken driver may take with it.

use std::{
    io::{self, Read as _},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use sweep_job::{Backend, BackendChoice, Device, Probe, Rejected};

use crate::{run::program, text::count};

/// How long drivers may take to answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// Why there is no device.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// The backend cannot be used here.
    #[error("`--backend {}` cannot be used: {}; {}", .0.backend, .0.reason, .0.advice)]
    Rejected(Rejected),
    /// The drivers could not be asked.
    #[error("cannot find out what this machine computes on: {0}; choose with `--backend cpu`")]
    Probe(#[source] io::Error),
}

/// Asks the drivers.
pub fn probe() -> Result<Probe, DeviceError> {
    ask().map_err(DeviceError::Probe)
}

/// The device for a choice.
pub fn choose(probe: &Probe, choice: BackendChoice) -> Result<Device, DeviceError> {
    probe.choose(choice).cloned().map_err(DeviceError::Rejected)
}

/// One line: what computes, and why nothing better.
pub fn describe(probe: &Probe, device: &Device, cpus: usize) -> String {
    let imitated = probe.devices.iter().filter(|other| other.software && other.backend != device.backend);
    let reasons: Vec<String> = probe
        .rejected
        .iter()
        .map(|rejected| rejected.reason.clone())
        .chain(imitated.map(|other| format!("{} only in software", other.backend)))
        .collect();
    let facts = match device.backend {
        Backend::Cpu if reasons.is_empty() => format!(", {}", count(cpus, "thread")),
        Backend::Cpu => format!(", {} · {}", count(cpus, "thread"), reasons.join(", ")),
        Backend::Cuda | Backend::Wgpu if device.driver.is_empty() => String::new(),
        Backend::Cuda | Backend::Wgpu => format!(", driver {}", device.driver),
    };
    format!("{} · {}{facts}", device.backend, device.name)
}

fn ask() -> io::Result<Probe> {
    let mut child = Command::new(program()?)
        .args(["worker", "--probe", "--engine", &std::process::id().to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let Some(mut stdout) = child.stdout.take() else { return Err(io::ErrorKind::BrokenPipe.into()) };
    let reader = thread::spawn(move || {
        let mut text = Vec::new();
        stdout.read_to_end(&mut text).map(|_| text)
    });
    let until = Instant::now() + PATIENCE;
    while !reader.is_finished() {
        if Instant::now() > until {
            let _ = child.kill();
            let _ = child.wait();
            let seconds = PATIENCE.as_secs();
            return Err(io::Error::other(format!("a driver did not answer within {seconds} s")));
        }
        thread::sleep(Duration::from_millis(1));
    }
    // A driver may hang in its exit handlers, too; by now everything is said.
    let mut status = child.try_wait()?;
    while status.is_none() && Instant::now() < until {
        thread::sleep(Duration::from_millis(1));
        status = child.try_wait()?;
    }
    let status = match status {
        Some(status) => status,
        None => {
            let _ = child.kill();
            child.wait()?
        }
    };
    let text = reader.join().map_err(|_| io::Error::other("the reader panicked"))??;
    serde_json::from_slice(&text).map_err(|_| io::Error::other(format!("the drivers' probe ended with {status}")))
}
