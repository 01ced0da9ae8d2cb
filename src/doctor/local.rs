//! Checks of this machine.

use std::{
    fs::{File, TryLockError},
    io::Write as _,
    path::Path,
    time::{Duration, SystemTime},
};

use fs_err as fs;

use super::Finding;
use crate::{
    format::{count, quantity},
    host::{devices, machine},
    run::cluster::trial::on_path,
};
use sweep_job::Unit;

/// Free space below which a finding is doubtful, in bytes.
const LITTLE: u64 = 1 << 30;
/// Difference of this machine's clock and that of the file server above which a finding is doubtful.
const SKEW: Duration = Duration::from_secs(2);

/// Checks the results folder; for jobs on this machine, also its resources and devices.
pub(super) fn examine(results: &Path, jobs_here: bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    if jobs_here {
        findings.push(resources());
        findings.extend(gpus());
        findings.push(if on_path("python3") {
            Finding::good("python", "`python3` is on the PATH")
        } else {
            Finding::doubtful("python", "there is no `python3` on the PATH", "recipes whose steps start Python need it")
        });
    }
    findings.extend(folder(results));
    findings
}

fn resources() -> Finding {
    let memory = quantity(machine::memory() as f64, Unit::Bytes);
    Finding::good("machine", format!("{}, {memory} of memory", count(machine::cpus(), "core")))
}

/// The devices of the lab, or, without the lab, the GPUs that programs can use.
fn gpus() -> Vec<Finding> {
    let nvidia = machine::nvidia_gpus().len();
    let mut findings = vec![Finding::good(
        "GPUs",
        match nvidia {
            0 => "no NVIDIA driver shows a GPU; programs run on the CPU".to_owned(),
            _ => format!("the driver shows {}", count(nvidia, "GPU")),
        },
    )];
    if cfg!(feature = "cpu") {
        match devices::probe() {
            Ok(probe) => {
                let names: Vec<&str> = probe.devices.iter().map(|device| device.name.as_str()).collect();
                findings.push(Finding::good("devices", names.join(", ")));
                for rejected in &probe.rejected {
                    let says = format!("{}: {}", rejected.backend.name(), rejected.reason);
                    findings.push(Finding::doubtful("devices", says, &rejected.advice));
                }
            }
            Err(error) => {
                let help = "`sweep devices` shows more; `--backend cpu` needs no driver";
                findings.push(Finding::failed("devices", error.to_string(), help));
            }
        }
    }
    findings
}

/// The results folder: it can be written, has space, locks files, and its clock is right.
fn folder(results: &Path) -> Vec<Finding> {
    let writable = || -> std::io::Result<tempfile::NamedTempFile> {
        fs::create_dir_all(results)?;
        let mut file = tempfile::NamedTempFile::new_in(results)?;
        file.write_all(b"x")?;
        file.as_file().sync_all()?;
        Ok(file)
    };
    let shown = results.display();
    let file = match writable() {
        Ok(file) => file,
        Err(error) => {
            let help = "choose a results folder that this user can write to (`--results`)";
            return vec![Finding::failed("results folder", format!("{shown} cannot be written: {error}"), help)];
        }
    };
    let mut findings = vec![Finding::good("results folder", format!("{shown} can be written"))];
    findings.extend(space(results));
    findings.push(locks(&file));
    findings.extend(skew(&file));
    findings
}

fn space(results: &Path) -> Option<Finding> {
    let disk = rustix::fs::statvfs(results).ok()?;
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    let says = format!("{} are free", quantity(free as f64, Unit::Bytes));
    let no_files = disk.f_files > 0 && disk.f_favail < 1000;
    Some(if free < LITTLE || no_files {
        let says = if no_files { format!("{says}, for {} files", disk.f_favail) } else { says };
        Finding::doubtful("disk", says, "remove what is not needed (`sweep cache gc`), or use another disk")
    } else {
        Finding::good("disk", says)
    })
}

/// A lock that two openings of a file can both have protects nothing.
fn locks(file: &tempfile::NamedTempFile) -> Finding {
    let help =
        "share the store among machines (`sweep cache share`): then its locks are leases, which need no locks of files";
    let second = match File::open(file.path()) {
        Ok(second) => second,
        Err(error) => return Finding::failed("locks", format!("the file cannot be opened again: {error}"), help),
    };
    if let Err(error) = file.as_file().try_lock() {
        return Finding::doubtful("locks", format!("the disk does not lock files: {error}"), help);
    }
    match second.try_lock() {
        Err(TryLockError::WouldBlock) => Finding::good("locks", "the disk locks files"),
        Ok(()) => Finding::doubtful("locks", "two processes can lock a file at the same time", help),
        Err(TryLockError::Error(error)) => {
            Finding::doubtful("locks", format!("the disk does not lock files: {error}"), help)
        }
    }
}

/// The clock of the file server, which leases go by.
fn skew(file: &tempfile::NamedTempFile) -> Option<Finding> {
    let written = file.as_file().metadata().ok()?.modified().ok()?;
    let now = SystemTime::now();
    let off = now.duration_since(written).or_else(|_| written.duration_since(now)).unwrap_or_default();
    Some(if off > SKEW {
        let says = format!("the clock of the disk is off by {} s", off.as_secs());
        Finding::doubtful("disk clock", says, "synchronize the clocks (NTP)")
    } else {
        Finding::good("disk clock", "it agrees with the clock of this machine")
    })
}
