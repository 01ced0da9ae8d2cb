//! Hosts that are reached through a real `ssh`, on loopback.

mod connection;
mod faults;
mod runs;
pub(crate) mod sshd;
mod world;
