//! Checks of a folder for results: it can be written, has room, locks files, and its clock is right.

use std::{
    fs::{File, TryLockError},
    io::Write as _,
    path::Path,
    time::{Duration, Instant, SystemTime},
};

use fs_err as fs;
use sweep_job::Unit;

use super::{
    finding::Finding,
    quotas::{self, Quota},
};
use crate::format::quantity;

/// Free space below which a finding is doubtful, in bytes.
const LITTLE: u64 = 1 << 30;
/// Difference of this machine's clock and that of the file server above which a finding is doubtful.
const SKEW: Duration = Duration::from_secs(2);
/// Time limit of the question for quotas, which may go to a file server.
const TIMEOUT: Duration = Duration::from_secs(5);

/// A folder to check.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Folder<'a> {
    /// Its place.
    pub(crate) path: &'a Path,
    /// Its name in findings.
    pub(crate) name: &'a str,
    /// The remedy if it cannot be written.
    pub(crate) unwritable: &'a str,
    /// The remedy if there is little room.
    pub(crate) little_room: &'a str,
}

/// Checks a folder, and the quotas of this user. Nothing of the check is left.
pub(crate) fn examine(folder: &Folder<'_>) -> Vec<Finding> {
    let writable = || -> std::io::Result<tempfile::NamedTempFile> {
        fs::create_dir_all(folder.path)?;
        let mut file = tempfile::NamedTempFile::new_in(folder.path)?;
        file.write_all(b"x")?;
        file.as_file().sync_all()?;
        Ok(file)
    };
    let shown = folder.path.display();
    let file = match writable() {
        Ok(file) => file,
        Err(error) => {
            let says = format!("{shown} cannot be written: {error}");
            return vec![Finding::failed(folder.name, says, folder.unwritable)];
        }
    };
    let mut findings = vec![Finding::good(folder.name, format!("{shown} can be written"))];
    findings.extend(space(folder));
    let quotas = quotas::ask(Instant::now() + TIMEOUT);
    findings.extend(quotas.iter().map(|quota| of_quota(quota, folder.little_room)));
    findings.push(locks(&file));
    findings.extend(skew(&file));
    findings
}

fn space(folder: &Folder<'_>) -> Option<Finding> {
    let disk = rustix::fs::statvfs(folder.path).ok()?;
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    let says = format!("{} are free", quantity(free as f64, Unit::Bytes));
    let no_files = disk.f_files > 0 && disk.f_favail < 1000;
    Some(if free < LITTLE || no_files {
        let says = if no_files { format!("{says}, for {} files", disk.f_favail) } else { says };
        Finding::doubtful("disk", says, folder.little_room)
    } else {
        Finding::good("disk", says)
    })
}

fn of_quota(quota: &Quota, help: &str) -> Finding {
    let [used, limit] = [quota.used, quota.limit].map(|bytes| quantity(bytes as f64, Unit::Bytes));
    let says = format!("{used} of {limit} are used on {}", quota.disk);
    if quota.limit.saturating_sub(quota.used) < LITTLE {
        Finding::doubtful("quota", says, help)
    } else {
        Finding::good("quota", says)
    }
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
