//! The machine below the engine: its resources, devices, clock, program file and log, and the failures that tests inject.

pub(crate) mod archive;
pub(crate) mod ask;
pub(crate) mod clock;
pub mod devices;
pub(crate) mod exchange;
pub(crate) mod failpoints;
pub mod finding;
pub(crate) mod folder;
pub(crate) mod gpus;
pub mod log;
pub mod machine;
pub(crate) mod packages;
mod program;
mod quotas;
pub(crate) mod sharing;
pub(crate) mod system;
pub(crate) mod threads;

pub(crate) use self::{
    ask::{Answer, ask},
    program::program,
};

/// The machine's name.
pub(crate) fn name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
