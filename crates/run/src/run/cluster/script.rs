//! The scripts of batch jobs as files on a shared folder, for systems that take files.

use std::{io, os::unix::fs::PermissionsExt as _, path::PathBuf};

use fs_err as fs;

use super::{Allocated, BatchJob};

/// Cores of the allocation, for the process in it.
const CPUS: &str = "SWEEP_BATCH_CPUS";
/// Memory of the allocation in bytes, for the process in it.
const MEMORY: &str = "SWEEP_BATCH_MEMORY";

/// Writes the script of a job beside its output; also returns its text.
pub(super) fn write(job: &BatchJob<'_>) -> io::Result<(PathBuf, String)> {
    let memory = job.request.memory.map(|bytes| format!(" {MEMORY}={bytes}")).unwrap_or_default();
    let exports = format!("export {CPUS}={}{memory}\n", job.request.cpus);
    let text = match job.script.split_once('\n') {
        Some((first, rest)) if first.starts_with("#!") => format!("{first}\n{exports}{rest}"),
        _ => format!("#!/bin/sh\n{exports}{}", job.script),
    };
    let path = job.output.with_extension("sh");
    fs::write(&path, &text)?;
    fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))?;
    Ok((path, text))
}

/// The resources that the script of this process's batch job names; `None` outside of one.
pub(super) fn allocated() -> Option<Allocated> {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok().filter(|number| *number > 0);
    let cpus = usize::try_from(number(CPUS)?).ok()?;
    Some(Allocated { cpus: Some(cpus), memory: number(MEMORY) })
}
