//! The GPUs of a machine, with the free part of each.

use std::collections::BTreeSet;

use sweep_job::Unit;

use super::Demand;
use crate::format::quantity;

/// Thousandths of a whole GPU.
pub const WHOLE: u16 = 1000;

/// The GPUs of a machine, by their indices.
#[derive(Debug, Clone)]
pub(super) struct Gpus(Vec<Gpu>);

#[derive(Debug, Clone, Copy)]
struct Gpu {
    /// Bytes of its memory, if that is known.
    memory: Option<u64>,
    /// Thousandths that jobs use.
    used: u16,
    /// Bytes of memory that jobs use; 0 if its memory is not known.
    used_memory: u64,
    /// Number of jobs that use it.
    jobs: usize,
}

impl Gpu {
    /// Returns the thousandths and the bytes of memory that a job takes of this GPU. A job with unknown memory use
    /// takes the same share of the memory.
    fn part(&self, demand: &Demand) -> (u16, u64) {
        match (demand.share, self.memory) {
            (None, memory) => (WHOLE, memory.unwrap_or(0)),
            (Some(0), None) => (WHOLE, 0),
            (Some(share), None) => (share, 0),
            (Some(share), Some(memory)) if demand.gpu_memory == 0 => {
                (share, memory / u64::from(WHOLE) * u64::from(share))
            }
            (Some(share), Some(memory)) => (share, demand.gpu_memory.min(memory)),
        }
    }

    /// True if the GPU has enough memory for a job, used or not.
    fn is_large_enough(&self, demand: &Demand) -> bool {
        self.memory.is_none_or(|memory| memory >= demand.gpu_memory)
    }

    fn has_room(&self, demand: &Demand) -> bool {
        let (share, memory) = self.part(demand);
        let free = share <= WHOLE - self.used && memory <= self.memory.unwrap_or(0) - self.used_memory;
        // Jobs that share by memory alone use no thousandths.
        self.is_large_enough(demand) && free && (share < WHOLE || self.jobs == 0)
    }

    /// Returns the share, the memory and the number of the jobs that must end before the GPU is empty.
    fn load(&self) -> (u16, u64, usize) {
        (self.used, self.used_memory, self.jobs)
    }
}

impl Gpus {
    pub(super) fn new(memories: impl Iterator<Item = Option<u64>>) -> Self {
        Self(memories.map(|memory| Gpu { memory, used: 0, used_memory: 0, jobs: 0 }).collect())
    }

    /// Returns the GPUs for a job, without those `kept` for another one; `None` if the job does not fit. A share goes
    /// to the fullest GPU; a job that declares its memory gets the smallest GPUs that have it.
    pub(super) fn choose(&self, demand: &Demand, kept: &BTreeSet<usize>) -> Option<Vec<usize>> {
        let mut fitting: Vec<usize> =
            (0..self.0.len()).filter(|gpu| !kept.contains(gpu) && self.0[*gpu].has_room(demand)).collect();
        if demand.share.is_some() {
            fitting.sort_by_key(|gpu| std::cmp::Reverse(self.0[*gpu].load()));
        } else if demand.gpu_memory > 0 {
            fitting.sort_by_key(|gpu| self.0[*gpu].memory);
        }
        fitting.truncate(demand.gpus);
        (fitting.len() == demand.gpus).then_some(fitting)
    }

    pub(super) fn nearest(&self, demand: &Demand, kept: &BTreeSet<usize>) -> Vec<usize> {
        let mut able: Vec<usize> =
            (0..self.0.len()).filter(|gpu| !kept.contains(gpu) && self.0[*gpu].is_large_enough(demand)).collect();
        able.sort_by_key(|gpu| self.0[*gpu].load());
        able.truncate(demand.gpus);
        able
    }

    pub(super) fn hold(&mut self, demand: &Demand, gpus: &[usize]) {
        for gpu in gpus {
            let Some(gpu) = self.0.get_mut(*gpu) else { continue };
            let (share, memory) = gpu.part(demand);
            // The demand of another process may exceed the capacity of the GPU.
            gpu.used = (gpu.used + share).min(WHOLE);
            gpu.used_memory = (gpu.used_memory + memory).min(gpu.memory.unwrap_or(0));
            gpu.jobs += 1;
        }
    }

    pub(super) fn give_back(&mut self, demand: &Demand, gpus: &[usize]) {
        for gpu in gpus {
            let Some(gpu) = self.0.get_mut(*gpu) else { continue };
            let (share, memory) = gpu.part(demand);
            gpu.used = gpu.used.saturating_sub(share);
            gpu.used_memory = gpu.used_memory.saturating_sub(memory);
            gpu.jobs = gpu.jobs.saturating_sub(1);
        }
    }

    /// Returns the number of unused GPUs.
    pub(super) fn empty(&self) -> usize {
        self.0.iter().filter(|gpu| gpu.jobs == 0).count()
    }

    /// Returns the largest free part of a GPU: thousandths, and bytes of memory if they are known.
    pub(super) fn freest(&self) -> (u16, Option<u64>) {
        let free = self.0.iter().map(|gpu| (WHOLE - gpu.used, gpu.memory.map(|memory| memory - gpu.used_memory)));
        free.max().unwrap_or_default()
    }
}

/// A part of a GPU: `0.25`, `8.0 GiB`, `0.25 and 8.0 GiB`.
pub fn describe_part(share: u16, memory: Option<u64>) -> String {
    let bytes = memory.map(|memory| quantity(memory as f64, Unit::Bytes));
    let fraction = f64::from(share) / f64::from(WHOLE);
    match (share, bytes) {
        (0, Some(bytes)) => bytes,
        (_, None) => fraction.to_string(),
        (_, Some(bytes)) => format!("{fraction} and {bytes}"),
    }
}
