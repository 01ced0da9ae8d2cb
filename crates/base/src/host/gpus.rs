//! The memory of NVIDIA GPUs and its use, as `nvidia-smi` reports them. Without `nvidia-smi`, both are unknown.

use std::{
    process::Command,
    time::{Duration, Instant},
};

use super::ask::ask;

/// Time limit of `nvidia-smi`.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum length of the output that is read, in bytes.
const MAX_ANSWER_BYTES: usize = 1 << 20;

/// Memory that a process uses on a GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessMemory {
    /// The process ID.
    pub pid: u32,
    /// The GPU's UUID.
    pub gpu: String,
    /// Memory in bytes.
    pub bytes: u64,
}

/// A GPU of the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Gpu {
    index: String,
    id: String,
    bytes: u64,
}

/// Memory of the GPUs in `names`, in bytes and in this order; 0 if it is unknown. A name is an index or a UUID, as in
/// `CUDA_VISIBLE_DEVICES`.
pub fn memories(names: &[String]) -> Vec<u64> {
    if names.is_empty() {
        return Vec::new();
    }
    let by_bus = std::env::var("CUDA_DEVICE_ORDER").is_ok_and(|order| order == "PCI_BUS_ID");
    let text = smi("--query-gpu=index,uuid,memory.total").unwrap_or_default();
    memories_of(names, &text.lines().filter_map(gpu).collect::<Vec<_>>(), by_bus)
}

/// Memory that processes use on GPUs; `None` if `nvidia-smi` is missing or fails.
pub fn used() -> Option<Vec<ProcessMemory>> {
    Some(smi("--query-compute-apps=pid,gpu_uuid,used_memory")?.lines().filter_map(gpu_use).collect())
}

fn smi(query: &str) -> Option<String> {
    let mut command = Command::new("nvidia-smi");
    command.args([query, "--format=csv,noheader,nounits"]).env("LC_ALL", "C");
    let answer = ask(&mut command, MAX_ANSWER_BYTES, Instant::now() + TIMEOUT)?;
    String::from_utf8(answer.text).ok()
}

/// A line `INDEX, ID, MEBIBYTES`.
fn gpu(line: &str) -> Option<Gpu> {
    let [index, id, memory] = fields(line)?;
    Some(Gpu { index: index.to_owned(), id: id.to_owned(), bytes: mebibytes(memory)? })
}

/// A line `PID, ID, MEBIBYTES`.
fn gpu_use(line: &str) -> Option<ProcessMemory> {
    let [pid, gpu, memory] = fields(line)?;
    Some(ProcessMemory { pid: pid.parse().ok()?, gpu: gpu.to_owned(), bytes: mebibytes(memory)? })
}

fn fields(line: &str) -> Option<[&str; 3]> {
    let fields: Vec<&str> = line.split(',').map(str::trim).collect();
    fields.try_into().ok()
}

fn mebibytes(text: &str) -> Option<u64> {
    text.parse::<u64>().ok()?.checked_mul(1 << 20)
}

/// Returns the memory of the GPUs in `names`, in bytes. CUDA numbers GPUs by speed unless the environment sets the bus
/// order (`by_bus`), and `nvidia-smi` numbers them by bus: without `by_bus`, it is unknown which GPU an index means,
/// and each index gets the memory of the smallest GPU.
fn memories_of(names: &[String], gpus: &[Gpu], by_bus: bool) -> Vec<u64> {
    let min_bytes = gpus.iter().map(|gpu| gpu.bytes).min().unwrap_or(0);
    let memory_of = |name: &String| {
        if name.bytes().all(|byte| byte.is_ascii_digit()) {
            let gpu = gpus.iter().find(|gpu| gpu.index == *name);
            return gpu.map_or(0, |gpu| if by_bus { gpu.bytes } else { min_bytes });
        }
        // A prefix of an identifier is sufficient if it is unambiguous.
        let mut matches = gpus.iter().filter(|gpu| gpu.id.starts_with(name.as_str()));
        matches.next().filter(|_| matches.next().is_none()).map_or(0, |gpu| gpu.bytes)
    };
    names.iter().map(memory_of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_found_by_index_and_by_identifier() {
        let text = "0, GPU-aaa1, 24564\n1, GPU-bbb2, 8192\n2, GPU-bbb3, [N/A]\nFailed to initialize NVML\n";
        let gpus: Vec<Gpu> = text.lines().filter_map(gpu).collect();
        assert_eq!(gpus.len(), 2);
        let names = ["0", "1", "7", "GPU-aaa", "GPU-bbb2", "GPU-", "MIG-1"].map(str::to_owned);
        let (large, small) = (24564 << 20, 8192 << 20);
        assert_eq!(memories_of(&names, &gpus, true), [large, small, 0, large, small, 0, 0]);
        assert_eq!(memories_of(&names[..2], &gpus, false), [small, small], "which one is 0 is not known");
        assert_eq!(memories_of(&names[..1], &[], false), [0]);
    }

    #[test]
    fn use_that_is_not_said_is_left_out() {
        let text = "77, GPU-a, 512\n78, GPU-a, [N/A]\nx, GPU-a, 1\n79, GPU-a\n80, GPU-a, 99999999999999999999\n";
        let uses: Vec<ProcessMemory> = text.lines().filter_map(gpu_use).collect();
        assert_eq!(uses, [ProcessMemory { pid: 77, gpu: "GPU-a".into(), bytes: 512 << 20 }]);
    }
}
