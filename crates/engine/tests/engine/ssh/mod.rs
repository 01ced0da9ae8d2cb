//! Hosts that are reached through a real `ssh`, on loopback.

mod care;
mod connection;
mod faults;
mod run_faults;
mod runs;
pub(crate) mod sshd;
mod world;
