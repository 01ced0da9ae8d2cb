//! The machine below the engine: its resources, devices, clock, program file and log, and the failures that tests
//! inject.
//!
//! The machine: cores, memory (`machine.rs`), GPUs' memory (`gpus.rs`), the devices that drivers offer, probed in
//! separate processes (`devices.rs`), the operating system, the processor, the load and the container (`system.rs`),
//! the kernel's counters (`counters.rs`), and the lock that all sweeps on a machine share (`sharing.rs`).
//!
//! Programs and files: short programs with limits of time and output (`ask.rs`), Git (`git.rs`), the program that a job
//! starts (`started.rs`), its observation (`observation.rs`), build IDs (`elf.rs`), packages of Python (`packages.rs`),
//! folders of projects (`project.rs`), the store's file operations, which tests can simulate (`files/`), files that are
//! replaced at once (`replaced.rs`), external archives (`archive.rs`), and the checks of a folder for results
//! (`folder.rs`, `quotas.rs`) with their findings (`finding.rs`).
//!
//! This process: its program file (`program.rs`), the clock (`clock.rs`), threads (`threads.rs`), settings that another
//! process may change (`settings.rs`), the stages that `SWEEP_LOG` selects (`log.rs`), the points at which tests kill
//! the engine or fill the disk (`failpoints.rs`), and the lab (`lab.rs`).

pub mod archive;
pub mod ask;
pub mod clock;
mod counters;
pub mod devices;
pub mod elf;
pub mod failpoints;
pub mod files;
pub mod finding;
pub mod folder;
pub mod git;
pub mod gpus;
pub mod lab;
pub mod log;
pub mod machine;
pub mod observation;
pub mod packages;
mod program;
mod project;
mod quotas;
pub mod replaced;
pub mod settings;
pub mod sharing;
pub mod started;
pub mod system;
pub mod threads;

pub use self::{
    ask::{Answer, Children, Limits, ask, converse},
    git::git,
    program::{program, program_digest},
    project::project_of,
};

/// Name of the user of this process: from `/etc/passwd`, else from the variables `USER` and `LOGNAME`.
pub fn user() -> Option<String> {
    let id = rustix::process::getuid().as_raw().to_string();
    let accounts = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let account = accounts.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == id).then(|| name.to_owned())
    });
    let from_environment = || ["USER", "LOGNAME"].into_iter().find_map(|name| std::env::var(name).ok());
    account.or_else(from_environment).filter(|name| !name.is_empty())
}

/// The machine's host name.
pub fn name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
