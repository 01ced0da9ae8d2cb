//! The devices of this machine, probed by separate processes, because a broken driver can crash its process.

use std::{
    io,
    process::{Command, ExitStatus},
    thread,
    time::{Duration, Instant},
};

use sweep_job::{Backend, BackendChoice, Device, Probe, Rejected};

use crate::{
    format::count,
    host::{
        ask::{Children, Limits, converse},
        program,
        threads::refused,
    },
};

/// Time limit of a probe of the drivers.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Maximum length of a probe's output, in bytes.
const MAX_ANSWER_BYTES: usize = 1 << 20;

/// Error of a missing device.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// The backend cannot be used here.
    #[error("`--backend {}` cannot be used: {}; {}", .0.backend, .0.reason, .0.advice)]
    Rejected(Rejected),
    /// The drivers could not be queried.
    #[error("cannot determine the devices of this machine: {0}; choose `--backend cpu`")]
    Probe(#[source] io::Error),
}

/// Probes the drivers: one process for each backend, all at once, so that a driver that hangs or crashes affects no
/// other.
pub fn probe() -> Result<Probe, DeviceError> {
    let threads = Backend::ALL.map(|backend| thread::Builder::new().spawn(move || ask(backend)));
    let mut result = Probe::default();
    for (backend, thread) in Backend::ALL.into_iter().zip(threads) {
        let thread = thread.map_err(|error| DeviceError::Probe(refused(error)))?;
        let answer = thread.join().unwrap_or_else(|_| Err(Silence::Broken(io::Error::other("the reader panicked"))));
        let reason = match answer {
            Ok(probe) => {
                result.devices.extend(probe.devices);
                result.rejected.extend(probe.rejected);
                continue;
            }
            // Without the program itself there is nothing to run a job with either.
            Err(Silence::Broken(error)) => return Err(DeviceError::Probe(refused(error))),
            Err(Silence::Patience) => {
                format!("the {} does not respond within {} s", driver(backend), TIMEOUT.as_secs())
            }
            Err(Silence::Ended(status)) => {
                format!("the {} crashed the process that probed it ({status})", driver(backend))
            }
        };
        let advice = "repair or remove the driver, or choose `--backend cpu`".to_owned();
        result.rejected.push(Rejected { backend, reason, advice });
    }
    Ok(result)
}

/// Reason why a probe has no result.
enum Silence {
    /// The probe could not be started or read.
    Broken(io::Error),
    /// The probe exceeded the time limit.
    Patience,
    /// The probe ended without a result.
    Ended(ExitStatus),
}

impl From<io::Error> for Silence {
    fn from(error: io::Error) -> Self {
        Self::Broken(error)
    }
}

fn driver(backend: Backend) -> &'static str {
    match backend {
        Backend::Cuda => "NVIDIA driver",
        Backend::Wgpu => "graphics driver",
        Backend::Cpu => "processor",
    }
}

/// The device for a choice.
pub fn choose(probe: &Probe, choice: BackendChoice) -> Result<Device, DeviceError> {
    probe.choose(choice).map_err(DeviceError::Rejected)
}

/// Describes in one line the device that computes, and why no better one was chosen.
pub fn describe(probe: &Probe, device: &Device, cpus: usize) -> String {
    let facts = match device.backend {
        Backend::Cpu => format!(", {}", count(cpus, "thread")),
        Backend::Cuda | Backend::Wgpu if device.driver.is_empty() => String::new(),
        Backend::Cuda | Backend::Wgpu => format!(", driver {}", device.driver),
    };
    let reasons = probe.passed_over(device.backend);
    let reasons = if reasons.is_empty() { String::new() } else { format!(" · {}", reasons.join(", ")) };
    format!("{} · {}{facts}{reasons}", device.backend, device.name)
}

/// A warning if `device` is a software implementation of a GPU, with its cost. The numbers were measured with `gpt2-nano`, llvmpipe and two
/// cores (docs/computing.md).
pub fn warning(device: &Device) -> Option<String> {
    device.software.then(|| {
        let Device { backend, name, .. } = device;
        format!(
            "`--backend {backend}` computes on {name}, a software implementation of a GPU: expect more than a minute to \
             compile its kernels, and then about ten times as long for a training step as with `--backend cpu`"
        )
    })
}

fn ask(backend: Backend) -> Result<Probe, Silence> {
    let mut command = Command::new(program()?);
    command.args(["worker", "--probe", backend.name(), "--engine", &std::process::id().to_string()]);
    let limits = Limits { most: MAX_ANSWER_BYTES, until: Instant::now() + TIMEOUT, children: Children::Left };
    let answer = converse(&mut command, None, limits)?;
    // A driver may hang in its exit handlers, when all messages are sent.
    serde_json::from_slice(&answer.text).map_err(|_| answer.status.map_or(Silence::Patience, Silence::Ended))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(backend: Backend, name: &str, software: bool) -> Device {
        Device { backend, index: 0, name: name.to_owned(), driver: String::new(), software, memory: None, chosen: None }
    }

    #[test]
    fn only_software_is_warned_of() {
        let software = device(Backend::Wgpu, "llvmpipe (LLVM 15.0.6, 256 bits)", true);
        let probe = Probe { devices: vec![software, device(Backend::Cpu, "EPYC", false)], rejected: Vec::new() };
        let warning_for = |choice| warning(&choose(&probe, choice).unwrap());
        assert_eq!(
            warning_for(BackendChoice::Only(Backend::Wgpu)).as_deref(),
            Some(
                "`--backend wgpu` computes on llvmpipe (LLVM 15.0.6, 256 bits), a software implementation of a GPU: expect more \
                 than a minute to compile its kernels, and then about ten times as long for a training step as with \
                 `--backend cpu`"
            )
        );
        assert_eq!(warning_for(BackendChoice::Auto), None);
        assert_eq!(warning_for(BackendChoice::Only(Backend::Cpu)), None);
        assert_eq!(warning(&device(Backend::Wgpu, "Radeon", false)), None);
    }
}
