//! Hosts that are reached through the user's own `ssh`: the connection, the protocol, and the sent files.
//!
//! `ssh HOST` starts this program on the host as a server on its standard input and output (`ssh.rs`), which no other process can reach.
//! The server (`host_server`) starts jobs that outlive it, and keeps their results until they are fetched. A [`Connection`] sends the files
//! that a job needs by digest, and reconnects by itself. `OpenSSH` as a process keeps the user's configuration, agent, jump hosts and host
//! keys as they are.

mod connection;
mod error;
mod link;
mod project;
mod session;
mod shipment;
mod ssh;
mod trees;
pub(crate) mod wire;

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use serde::{Deserialize, Serialize};

pub use self::{
    connection::{Connection, HostEvent, Shipped, Traffic},
    error::HostError,
    project::Project,
    shipment::{Hosted, InputTree, Shipment, declared_env, hosted},
};
pub use self::{
    error::{Fault, FaultKind},
    shipment::{each_folder, each_input},
    trees::{Content, Entry, LISTS, Tree, is_digest, sent_files},
};
use crate::{plan::SerializedJob, record::Key};

/// A host as it is named for `ssh`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The destination: `box1` or `user@box1`.
    pub host: String,
    /// Further options of `ssh`.
    pub options: Vec<String>,
    /// The folder on the host; `~/` at its beginning is the home there. Default: `~/.sweep`.
    pub workdir: Option<String>,
}

/// The submitting side.
#[derive(Debug, Clone)]
pub struct Submitter {
    /// The program that is sent to hosts.
    pub program: PathBuf,
    /// Identifier of the store; each store has its own spool on a host.
    pub store: String,
}

/// Description of a host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Probe {
    /// Name that the host has for itself.
    pub name: String,
    /// Version of the program.
    pub version: String,
    /// Cores.
    pub cpus: usize,
    /// Main memory in bytes.
    pub memory: u64,
    /// The GPUs, as `CUDA_VISIBLE_DEVICES` names them.
    pub gpus: Vec<String>,
    /// The GPUs, as the driver names them; empty without a response of the driver.
    pub gpu_names: Vec<String>,
    /// Bytes of memory of each GPU; 0 where it is not known.
    #[serde(default)]
    pub gpu_memory: Vec<u64>,
    /// Operating system and processor.
    pub system: String,
    /// The folder on the host.
    pub workdir: PathBuf,
    /// Free bytes on its disk.
    pub free: u64,
    /// The host's clock at the answer, in seconds since 1970.
    pub clock: f64,
    /// Seconds by which the host's clock is ahead of this machine's, up to half a round trip.
    #[serde(default)]
    pub skew: f64,
    /// The jobs of the submitting store.
    pub jobs: Vec<SpooledJob>,
}

/// A job on a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpooledJob {
    /// Its key.
    pub key: Key,
    /// The text with which it was started.
    pub tag: String,
    /// Its state.
    pub state: SpoolState,
}

/// State of a job on a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SpoolState {
    /// Its process runs.
    Running,
    /// The job has ended with a record.
    Recorded,
    /// The job has ended without a record.
    Ended,
}

/// A job to start.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StartJob {
    /// Its key.
    pub key: Key,
    /// A text that distinguishes this start from others of the same job.
    pub tag: String,
    /// The job, with the paths of the host, of [`Hosted`].
    pub spec: SerializedJob,
    /// Digest of its project.
    pub project: String,
    /// Variables of its environment.
    pub env: BTreeMap<String, String>,
    /// The GPUs that it may use; `None` leaves that to the host's environment.
    pub gpus: Option<Vec<String>>,
}

/// Answer to a start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Started {
    /// The job was started.
    Now,
    /// The job already runs, from the start with this tag.
    Running {
        /// The tag of the earlier start.
        tag: String,
    },
    /// This start has ended already, or there is a record from an earlier one.
    Over {
        /// True if there is a record.
        has_record: bool,
    },
}

/// Ways to stop a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stop {
    /// SIGINT to the job's engine, which ends the job like Ctrl-C.
    Interrupt,
    /// SIGTERM to the job's engine, and SIGKILL to the remaining processes after a delay.
    End {
        /// Time before SIGKILL.
        kill_after: Duration,
    },
}

/// Result of a cleaning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cleaned {
    /// Programs of other versions.
    pub programs: usize,
    /// Files of projects and inputs.
    pub files: usize,
    /// Records that were fetched.
    pub records: usize,
    /// Bytes of all of them.
    pub bytes: u64,
}
