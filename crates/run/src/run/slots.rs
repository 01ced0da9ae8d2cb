//! Slots: the resources to share among the jobs, and their assignment.
//!
//! Each GPU has a free share, in thousandths, and free memory. A job that uses a part of a GPU goes to the fullest one on
//! which it fits; a job that uses whole ones needs empty ones.

mod gpus;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use self::gpus::Gpus;
pub use self::gpus::{WHOLE, describe_part};
use crate::format::count;

/// Resources that a job uses while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Demand {
    /// Cores.
    pub cpus: usize,
    /// Thousandths of its core that the job uses, less than [`WHOLE`], if others may use the rest. `None` for whole cores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core_share: Option<u16>,
    /// GPUs.
    #[serde(default)]
    pub gpus: usize,
    /// Thousandths of its GPU that it uses, less than [`WHOLE`], if others may use the rest; 0 if it shares the GPU by its
    /// memory alone. `None` for whole GPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<u16>,
    /// Memory in bytes that the job uses on each of its GPUs; 0 if unknown.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub gpu_memory: u64,
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
    /// Thousandths of its GPU, if others may use the rest; `None` for whole GPUs.
    pub share: Option<u16>,
    /// Bytes of memory on each of its GPUs; 0 if that is not known.
    pub gpu_memory: u64,
    /// True if the job is the only one of all sweeps on this machine.
    pub alone: bool,
}

/// Resources to share.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Limits {
    /// Cores.
    pub cpus: usize,
    /// GPUs.
    pub gpus: usize,
    /// Bytes of memory of each GPU, by its index; 0 or absent where that is not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpu_memory: Vec<u64>,
    /// Bytes of main memory.
    pub memory: u64,
    /// Jobs at once.
    pub jobs: usize,
}

/// Free resources.
#[derive(Debug, Clone)]
pub struct Slots {
    /// Thousandths of cores.
    millicores: usize,
    gpus: Gpus,
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
    /// True if other jobs run and it must be alone, or if a job that must be alone runs.
    pub alone: bool,
    /// The limit of concurrent jobs is reached.
    pub jobs: bool,
    /// Cores.
    pub cpus: bool,
    /// GPUs.
    pub gpus: bool,
    /// Main memory.
    pub memory: bool,
}

impl Demand {
    /// Thousandths of cores.
    pub fn millicores(&self) -> usize {
        self.core_share.map_or(self.cpus.saturating_mul(usize::from(WHOLE)), usize::from)
    }

    /// The demand's cores for people: `2 cores`, `0.25 of a core`.
    pub fn cores(&self) -> String {
        match self.core_share {
            Some(share) => format!("{} of a core", f64::from(share) / f64::from(WHOLE)),
            None => count(self.cpus, "core"),
        }
    }

    /// Returns the part of a GPU for people: `0.25 and 8.0 GiB`; `None` for whole GPUs.
    pub fn part(&self) -> Option<String> {
        Some(describe_part(self.share?, Some(self.gpu_memory).filter(|memory| *memory > 0)))
    }
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
    /// Returns the default maximum number of concurrent jobs of a machine: the number that its cores and GPUs have room for.
    pub fn most_jobs(cpus: usize, gpus: usize) -> usize {
        cpus.saturating_mul(usize::from(WHOLE)).max(gpus)
    }

    /// Resources that a job with this demand gets: never more than there are.
    pub fn clamp(&self, demand: Demand) -> Demand {
        let gpus = demand.gpus.min(self.gpus);
        let mut memories: Vec<u64> = self.known_memories().collect();
        memories.sort_unstable_by(|a, b| b.cmp(a));
        // The memory that `gpus` GPUs have each; a GPU whose memory is unknown may have any amount.
        let unknown_gpus = self.gpus - memories.len();
        let max_memory =
            gpus.checked_sub(unknown_gpus + 1).and_then(|last| memories.get(last)).copied().unwrap_or(u64::MAX);
        let gpu_memory = if gpus == 0 { 0 } else { demand.gpu_memory.min(max_memory) };
        // Without a share and without memory, it is unknown which other jobs have room.
        let share = demand.share.filter(|share| gpus > 0 && (*share > 0 || gpu_memory > 0));
        Demand {
            cpus: demand.cpus.clamp(1, self.cpus.max(1)),
            core_share: demand.core_share.filter(|_| demand.cpus <= 1),
            gpus,
            share,
            gpu_memory,
            memory: demand.memory.min(self.memory),
            exclusive: demand.exclusive,
        }
    }

    /// Bytes of memory of a GPU, if that is known.
    fn memory_of(&self, gpu: usize) -> Option<u64> {
        self.gpu_memory.get(gpu).copied().filter(|memory| *memory > 0)
    }

    /// Returns the memory of the largest GPU in bytes, if the memory of all GPUs is known.
    pub fn largest_gpu(&self) -> Option<u64> {
        if self.known_memories().count() < self.gpus {
            return None;
        }
        self.known_memories().max()
    }

    /// Returns the memory in bytes of the GPUs with known memory.
    fn known_memories(&self) -> impl Iterator<Item = u64> {
        self.gpu_memory.iter().copied().take(self.gpus).filter(|memory| *memory > 0)
    }
}

impl Slots {
    /// Everything is free.
    pub fn new(limits: &Limits) -> Self {
        Self {
            millicores: limits.cpus.max(1).saturating_mul(usize::from(WHOLE)),
            gpus: Gpus::new((0..limits.gpus).map(|gpu| limits.memory_of(gpu))),
            memory: limits.memory,
            jobs: limits.jobs.max(1),
            running: 0,
            storing: 0,
            closed: false,
        }
    }

    /// Resources that are missing for a job.
    pub fn lack(&self, demand: &Demand) -> Lack {
        self.lack_beside(demand, &BTreeSet::new())
    }

    /// Like [`Slots::lack`], if some GPUs are kept for another job.
    pub fn lack_beside(&self, demand: &Demand, kept: &BTreeSet<usize>) -> Lack {
        Lack {
            alone: self.closed || (demand.exclusive && self.running + self.storing > 0),
            jobs: self.jobs == 0,
            cpus: demand.millicores() > self.millicores,
            gpus: self.gpus.choose(demand, kept).is_none(),
            memory: demand.memory > self.memory,
        }
    }

    /// GPUs to keep for a job that waits for GPUs: the GPUs that need the least to end before it fits. The use of kept GPUs only falls, and
    /// other GPUs replace them only if they are used less, so the job finally gets them.
    pub fn nearest(&self, demand: &Demand, kept: &BTreeSet<usize>) -> Vec<usize> {
        self.gpus.nearest(demand, kept)
    }

    /// Takes the resources of a job, without the GPUs that are kept for another one. The job must not lack any resource.
    pub fn take(&mut self, demand: &Demand, kept: &BTreeSet<usize>) -> Lease {
        let gpus = self.gpus.choose(demand, kept).unwrap_or_default();
        self.hold(demand, &gpus);
        Lease { cpus: demand.cpus, gpus, share: demand.share, gpu_memory: demand.gpu_memory, alone: false }
    }

    /// Like [`Slots::take`], with given GPUs.
    pub fn hold(&mut self, demand: &Demand, gpus: &[usize]) {
        self.gpus.hold(demand, gpus);
        self.millicores = self.millicores.saturating_sub(demand.millicores());
        self.memory = self.memory.saturating_sub(demand.memory);
        self.jobs = self.jobs.saturating_sub(1);
        self.running += 1;
        self.closed |= demand.exclusive;
    }

    /// Gives back the resources of a job.
    pub fn give_back(&mut self, demand: &Demand, gpus: &[usize]) {
        self.gpus.give_back(demand, gpus);
        self.millicores += demand.millicores();
        self.memory += demand.memory;
        self.jobs += 1;
        self.running -= 1;
        self.closed = false;
    }

    /// Like [`Slots::give_back`], for a job whose result is being stored: it takes no slot, but exclusive jobs wait.
    pub fn give_back_storing(&mut self, demand: &Demand, gpus: &[usize]) {
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

    /// Returns the number of whole free cores, the number of unused GPUs, and the free memory in bytes.
    pub fn free(&self) -> (usize, usize, u64) {
        (self.millicores / usize::from(WHOLE), self.gpus.empty(), self.memory)
    }

    /// The largest free part of a GPU: thousandths, and bytes of memory if they are known.
    pub fn freest_gpu(&self) -> (u16, Option<u64>) {
        self.gpus.freest()
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(bytes: &u64) -> bool {
    *bytes == 0
}
