//! `resources`: the resources that a job uses. They are not part of a key.

use serde::{Deserialize, Serialize};

use super::Lower;
use crate::recipe::{
    keys::{Mapping as _, Size, Whole, mapping},
    node::Node,
};

/// Resources of the machine that a job uses while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Resources {
    /// Processor cores. Default: all of them.
    pub cpus: Option<usize>,
    /// GPUs. Default: one for a job that computes on GPUs.
    pub gpus: Option<usize>,
    /// Main memory that is reserved for the job while it runs, in bytes.
    pub memory: Option<u64>,
    /// True if no other job may run at the same time, because the job measures time.
    pub exclusive: bool,
}

mapping! {
    /// The keys of `resources`.
    struct ResourceKeys = "resources" {
        /// The number of CPU cores that a job uses. Default: all cores.
        ///
        /// The default of a job on a GPU is its share of the cores.
        cpus: Whole = Whole { range: 1..=4096, of: "cores" },
        /// The number of GPUs that are reserved for a job. Default: 1 for a job that computes on GPUs.
        ///
        /// A job that computes on the CPU gets no GPU. The process of a job sees only its own GPUs
        /// (`CUDA_VISIBLE_DEVICES`).
        gpus: Whole = Whole { range: 0..=1024, of: "GPUs" },
        /// Main memory that is reserved for a job while it runs, such as `4GiB`.
        ///
        /// The scheduler uses this value. It is not enforced as a limit.
        memory: Size,
    }
}

impl Lower<'_> {
    /// Reads `resources: { cpus, gpus, memory }`; `exclusive` is a key of the step.
    pub(super) fn resources(&mut self, node: &Node) -> Resources {
        let keys = ResourceKeys::read_or_empty(self, node, "`resources`");
        Resources {
            cpus: keys.cpus.value.and_then(|cpus| usize::try_from(cpus).ok()),
            gpus: keys.gpus.value.and_then(|gpus| usize::try_from(gpus).ok()),
            memory: keys.memory.value,
            exclusive: false,
        }
    }
}
