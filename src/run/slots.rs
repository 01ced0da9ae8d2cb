//! Slots: the resources to share among the jobs, and their assignment.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// Resources that a job uses while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Demand {
    /// Cores.
    pub cpus: usize,
    /// GPUs.
    #[serde(default)]
    pub gpus: usize,
    /// Bytes of main memory.
    #[serde(default)]
    pub memory: u64,
    /// True if nothing else may run.
    #[serde(default)]
    pub exclusive: bool,
}

/// Resources assigned to a job.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Lease {
    /// Cores.
    pub cpus: usize,
    /// The indices of its GPUs.
    pub gpus: Vec<usize>,
    /// True if it is the only job of all sweeps on this machine.
    pub alone: bool,
}

/// Resources to share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Cores.
    pub cpus: usize,
    /// GPUs.
    pub gpus: usize,
    /// Bytes of main memory.
    pub memory: u64,
    /// Jobs at once.
    pub jobs: usize,
}

/// Free resources.
#[derive(Debug, Clone)]
pub struct Slots {
    cpus: usize,
    gpus: BTreeSet<usize>,
    memory: u64,
    jobs: usize,
    running: usize,
    /// Jobs that have ended and whose results are being stored.
    storing: usize,
    /// True if the one job that runs must stay alone.
    closed: bool,
}

/// Resources that a job would have to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each says of one thing whether it is missing")]
pub struct Lack {
    /// Other jobs run and it must be alone, or one that must be alone runs.
    pub alone: bool,
    /// As many jobs run as may.
    pub jobs: bool,
    /// Cores.
    pub cpus: bool,
    /// GPUs.
    pub gpus: bool,
    /// Main memory.
    pub memory: bool,
}

impl Lack {
    /// True if nothing is missing.
    pub fn is_nothing(self) -> bool {
        self == Self::default()
    }

    /// True if a resource is missing that every job needs, so that no other job can go first without delaying it.
    pub fn is_common(self) -> bool {
        self.alone || self.jobs || self.cpus
    }
}

impl Limits {
    /// Resources that a job with this demand gets: never more than there are.
    pub fn clamp(&self, demand: Demand) -> Demand {
        Demand {
            cpus: demand.cpus.clamp(1, self.cpus.max(1)),
            gpus: demand.gpus.min(self.gpus),
            memory: demand.memory.min(self.memory),
            exclusive: demand.exclusive,
        }
    }
}

impl Slots {
    /// Everything is free.
    pub fn new(limits: Limits) -> Self {
        Self {
            cpus: limits.cpus.max(1),
            gpus: (0..limits.gpus).collect(),
            memory: limits.memory,
            jobs: limits.jobs.max(1),
            running: 0,
            storing: 0,
            closed: false,
        }
    }

    /// Resources that are missing for a job.
    pub fn lack(&self, demand: &Demand) -> Lack {
        Lack {
            alone: self.closed || (demand.exclusive && self.running + self.storing > 0),
            jobs: self.jobs == 0,
            cpus: demand.cpus > self.cpus,
            gpus: demand.gpus > self.gpus.len(),
            memory: demand.memory > self.memory,
        }
    }

    /// Takes what a job needs; it must lack nothing.
    pub fn take(&mut self, demand: &Demand) -> Lease {
        let gpus: Vec<usize> = self.gpus.iter().copied().take(demand.gpus).collect();
        self.hold(demand, &gpus);
        Lease { cpus: demand.cpus, gpus, alone: false }
    }

    /// As [`Slots::take`], with GPUs that are known already.
    pub fn hold(&mut self, demand: &Demand, gpus: &[usize]) {
        for gpu in gpus {
            self.gpus.remove(gpu);
        }
        self.cpus = self.cpus.saturating_sub(demand.cpus);
        self.memory = self.memory.saturating_sub(demand.memory);
        self.jobs = self.jobs.saturating_sub(1);
        self.running += 1;
        self.closed |= demand.exclusive;
    }

    /// Gives back what a job had.
    pub fn give_back(&mut self, demand: &Demand, gpus: Vec<usize>) {
        self.gpus.extend(gpus);
        self.cpus += demand.cpus;
        self.memory += demand.memory;
        self.jobs += 1;
        self.running -= 1;
        self.closed = false;
    }

    /// As [`Slots::give_back`], of a job whose result is being stored: that takes no slot, but what must be alone waits.
    pub fn give_back_storing(&mut self, demand: &Demand, gpus: Vec<usize>) {
        self.give_back(demand, gpus);
        self.storing += 1;
    }

    /// A result is stored, or will not be.
    pub fn stored(&mut self) {
        self.storing -= 1;
    }

    /// True if no job runs and no result is being stored.
    pub fn is_idle(&self) -> bool {
        self.running + self.storing == 0
    }

    /// Cores, GPUs, bytes of memory that are free.
    pub fn free(&self) -> (usize, usize, u64) {
        (self.cpus, self.gpus.len(), self.memory)
    }
}
