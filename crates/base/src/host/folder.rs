//! Checks of a folder for results: write access, free space, quotas, file locks, and the clock of its file system.

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

/// Names of the folders that `sweep` makes in a folder for results. Others are the project's, which may have files of its own in `results`.
pub const OWN_FOLDERS: [&str; 13] = [
    "batch",
    "code",
    "doctor",
    "hosts",
    "mcp",
    "proposals",
    "python",
    "ray",
    "reports",
    "runs",
    "store",
    "studies",
    "ui",
];

/// Free space below which a finding is doubtful, in bytes.
const LITTLE: u64 = 1 << 30;
/// Difference between the clocks of this machine and of the file server above which a finding is doubtful.
const SKEW: Duration = Duration::from_secs(2);
/// Time limit of `quota`, which may query a file server.
const TIMEOUT: Duration = Duration::from_secs(5);

/// A folder to check.
#[derive(Debug, Clone, Copy)]
pub struct Folder<'a> {
    /// Its place.
    pub path: &'a Path,
    /// Its name in findings.
    pub name: &'a str,
    /// The remedy if it cannot be written.
    pub unwritable: &'a str,
    /// The remedy if there is little room.
    pub little_room: &'a str,
}

/// Checks a folder, which is created if it is missing, and the quotas of this user. The test file is removed.
pub fn examine(folder: &Folder<'_>) -> Vec<Finding> {
    let writable = || -> std::io::Result<tempfile::NamedTempFile> {
        fs::create_dir_all(folder.path)?;
        let mut file = tempfile::NamedTempFile::new_in(folder.path)?;
        file.write_all(b"x")?;
        file.as_file().sync_all()?;
        Ok(file)
    };
    let path = folder.path.display();
    let file = match writable() {
        Ok(file) => file,
        Err(error) => {
            let message = format!("{path} cannot be written: {error}");
            return vec![Finding::failed(folder.name, message, folder.unwritable)];
        }
    };
    let mut findings = vec![Finding::good(folder.name, format!("{path} can be written"))];
    findings.extend(space(folder));
    let quotas = quotas::ask(Instant::now() + TIMEOUT);
    findings.extend(quotas.iter().map(|quota| of_quota(quota, folder.little_room)));
    findings.push(locks(&file));
    findings.extend(skew(&file));
    findings
}

fn space(folder: &Folder<'_>) -> Option<Finding> {
    let disk = rustix::fs::statvfs(folder.path).ok()?;
    let free_bytes = disk.f_bavail.saturating_mul(disk.f_frsize);
    let message = format!("{} are free", quantity(free_bytes as f64, Unit::Bytes));
    let lacks_files = disk.f_files > 0 && disk.f_favail < 1000;
    Some(if free_bytes < LITTLE || lacks_files {
        let message = if lacks_files { format!("{message}, for {} files", disk.f_favail) } else { message };
        Finding::doubtful("disk", message, folder.little_room)
    } else {
        Finding::good("disk", message)
    })
}

fn of_quota(quota: &Quota, help: &str) -> Finding {
    let [used, limit] = [quota.used, quota.limit].map(|bytes| quantity(bytes as f64, Unit::Bytes));
    let message = format!("{used} of {limit} are used on {}", quota.disk);
    if quota.limit.saturating_sub(quota.used) < LITTLE {
        Finding::doubtful("quota", message, help)
    } else {
        Finding::good("quota", message)
    }
}

/// Checks that a second handle of a locked file cannot lock it: some network file systems grant both locks.
fn locks(file: &tempfile::NamedTempFile) -> Finding {
    let help =
        "share the store among machines (`sweep cache share`): its locks then become leases, which need no file locks";
    let second_handle = match File::open(file.path()) {
        Ok(second_handle) => second_handle,
        Err(error) => return Finding::failed("locks", format!("the file cannot be opened again: {error}"), help),
    };
    if let Err(error) = file.as_file().try_lock() {
        return Finding::doubtful("locks", format!("the file system does not support file locks: {error}"), help);
    }
    match second_handle.try_lock() {
        Err(TryLockError::WouldBlock) => Finding::good("locks", "the file system supports file locks"),
        Ok(()) => Finding::doubtful("locks", "two processes can lock a file at the same time", help),
        Err(TryLockError::Error(error)) => {
            Finding::doubtful("locks", format!("the file system does not support file locks: {error}"), help)
        }
    }
}

/// Compares this machine's clock with the file server's clock, whose timestamps decide when leases expire.
fn skew(file: &tempfile::NamedTempFile) -> Option<Finding> {
    let mtime = file.as_file().metadata().ok()?.modified().ok()?;
    let now = SystemTime::now();
    let skew = now.duration_since(mtime).or_else(|_| mtime.duration_since(now)).unwrap_or_default();
    Some(if skew > SKEW {
        let message = format!("the clock of the file system differs by {} s", skew.as_secs());
        Finding::doubtful("disk clock", message, "synchronize the clocks (NTP)")
    } else {
        Finding::good("disk clock", "the clock of the file system agrees with that of this machine")
    })
}
