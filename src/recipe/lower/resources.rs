//! `resources`: what a job takes of the machine. None of it is part of a key.

use serde::{Deserialize, Serialize};

use super::Lower;
use crate::recipe::{
    keys::{Mapping as _, Size, Whole, mapping},
    node::Node,
};

/// What a job takes of the machine while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Resources {
    /// Processor cores; all of them when not given.
    pub cpus: Option<usize>,
    /// GPUs; when not given, one for a job that computes on GPUs.
    pub gpus: Option<usize>,
    /// Bytes of main memory, kept free for it while it runs.
    pub memory: Option<u64>,
    /// Whether nothing else may run meanwhile, because the job measures time.
    pub exclusive: bool,
}

mapping! {
    /// The keys of `resources`.
    struct ResourceKeys = "resources" {
        /// Cores that a job keeps busy; all of them if left out.
        ///
        /// For a job on a GPU, its share of them.
        cpus: Whole = Whole { range: 1..=4096, of: "cores" },
        /// GPUs of its own; if left out, one for a job that computes on GPUs. A job that computes on the CPU gets none.
        ///
        /// Its process sees only these (`CUDA_VISIBLE_DEVICES`).
        gpus: Whole = Whole { range: 0..=1024, of: "GPUs" },
        /// Main memory that is kept free for the job while it runs, such as `4GiB`.
        ///
        /// It is a promise of the author, not a limit that is enforced.
        memory: Size,
    }
}

impl Lower<'_> {
    /// `resources: { cpus, gpus, memory }`; `exclusive` is a key of the step.
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
