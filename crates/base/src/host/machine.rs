//! Resources that this machine shares among jobs, and its out-of-memory counters.

use std::{
    fs,
    num::NonZero,
    path::{Path, PathBuf},
};

use super::counters::{self, Lately};

/// Cores that this process may use.
pub fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}

/// Bytes of main memory that this process may use: the machine's, or its control group's if that is less.
pub fn memory() -> u64 {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| field(&text, "MemTotal:"));
    let group = groups().into_iter().flat_map(|group| [group.join("memory.max"), group.join("memory.limit_in_bytes")]);
    let limits = group.filter_map(|path| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok());
    limits.chain(machine.map(|kib| kib << 10)).min().unwrap_or(u64::MAX)
}

/// The NVIDIA GPUs that this process may use, as `CUDA_VISIBLE_DEVICES` names them.
pub fn nvidia_gpus() -> Vec<String> {
    if let Ok(ids) = std::env::var("CUDA_VISIBLE_DEVICES") {
        return visible_gpus(&ids);
    }
    // The driver lists every GPU of the machine; a container has only the device files of the GPUs that it may use.
    let files = names("/dev").into_iter().filter(|name| is_gpu_file(name)).count();
    let count = if files > 0 { files } else { names("/proc/driver/nvidia/gpus").len() };
    (0..count).map(|index| index.to_string()).collect()
}

/// `nvidia0`, but not `nvidiactl`.
fn is_gpu_file(name: &str) -> bool {
    let number = name.strip_prefix("nvidia").unwrap_or_default();
    !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
}

fn names(folder: &str) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect()
}

/// Returns the names in `visible` up to the first invalid one, as the driver does.
fn visible_gpus(ids: &str) -> Vec<String> {
    let names = ids.split(',').map(str::trim);
    names.take_while(|name| !name.is_empty() && *name != "-1" && *name != "NoDevFiles").map(str::to_owned).collect()
}

/// Numbers of processes that the kernel has killed for lack of memory: in this process's control group, and on the
/// machine. The numbers are meaningful only in comparison with earlier numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OutOfMemory {
    group: Option<u64>,
    machine: Option<u64>,
}

impl OutOfMemory {
    /// The counts now.
    pub fn now() -> Self {
        let group = groups().into_iter().find_map(|group| {
            let text = ["memory.events", "memory.oom_control"].map(|name| counters::text(group.join(name)));
            text.into_iter().flatten().find_map(|text| field(&text, "oom_kill"))
        });
        let machine = counters::text("/proc/vmstat").and_then(|text| field(&text, "oom_kill"));
        Self { group, machine }
    }

    /// The counts a few milliseconds ago at most, for jobs that start one after the other.
    pub fn lately() -> Self {
        static LATELY: Lately<OutOfMemory> = Lately::new();
        LATELY.get(Self::now)
    }

    /// True if the kernel has killed a process since `earlier`; `None` if that is unknown.
    pub fn since(self, earlier: Self) -> Option<bool> {
        let has_risen = |new: Option<u64>, old: Option<u64>| Some(new? > old?);
        let (group, machine) = (has_risen(self.group, earlier.group), has_risen(self.machine, earlier.machine));
        if group.is_none() && machine.is_none() {
            return None;
        }
        Some(group == Some(true) || machine == Some(true))
    }
}

/// The value behind a word at the beginning of a line.
fn field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let mut parts = line.split_whitespace();
        (parts.next() == Some(name)).then(|| parts.next()?.parse().ok())?
    })
}

/// The folders of this process's control groups that count memory: version 2, then version 1. A container sees the folder of its group at
/// the root; outside of containers, the group's path leads to it.
fn groups() -> Vec<PathBuf> {
    let Some(text) = counters::text("/proc/self/cgroup") else { return Vec::new() };
    let mut folders = Vec::new();
    for line in text.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let root = match controllers {
            "" => Path::new("/sys/fs/cgroup"),
            controllers if controllers.split(',').any(|name| name == "memory") => Path::new("/sys/fs/cgroup/memory"),
            _ => continue,
        };
        folders.push(root.join(path.trim_start_matches('/')));
        folders.push(root.to_owned());
    }
    folders
}

/// Upper bound of the peak main memory of a process and its children so far, in bytes: the sum of their own peaks. `None` if the process
/// has ended.
pub fn peak_memory(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let own_bytes = field(&status, "VmHWM:")? << 10;
    Some(own_bytes + children(pid).into_iter().filter_map(peak_memory).sum::<u64>())
}

/// Processor time that all descendants of a process have used so far, in seconds.
pub fn children_cpu_seconds(pid: u32) -> f64 {
    children(pid).into_iter().map(|child| own_cpu_seconds(child).unwrap_or(0.0) + children_cpu_seconds(child)).sum()
}

/// Returns the start time of the process `pid` of this machine, in ticks; `None` if no such process exists, or it is a
/// zombie.
pub fn begun(pid: u32) -> Option<u64> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    let state = fields.next()?;
    // The 22nd field; the state is the third.
    fields.nth(18).filter(|_| !matches!(state, "Z" | "X"))?.parse().ok()
}

/// Identifier of this boot of the machine; empty if the system does not expose it.
pub fn boot() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// Seconds of processor time that a process has used so far, with the children that it has waited for. A process that has ended
/// is counted until it is waited for.
pub fn own_cpu_seconds(pid: u32) -> Option<f64> {
    Some(times(pid)?.iter().sum())
}

/// Processor time of the children that a process has waited for, and of their descendants, in seconds.
pub fn waited_cpu_seconds(pid: u32) -> Option<f64> {
    Some(times(pid)?[2..].iter().sum())
}

/// Seconds of processor time of a process in user and system mode, and the same of the children that it has waited for.
fn times(pid: u32) -> Option<[f64; 4]> {
    let stat = counters::text(format!("/proc/{pid}/stat"))?;
    // The program's name is in parentheses and may contain anything; the state follows, and ten fields later the times.
    let (_, fields) = stat.rsplit_once(')')?;
    let ticks: Vec<u64> = fields.split_whitespace().skip(11).take(4).map_while(|field| field.parse().ok()).collect();
    let rate = rustix::param::clock_ticks_per_second().max(1) as f64;
    Some(<[u64; 4]>::try_from(ticks).ok()?.map(|ticks| ticks as f64 / rate))
}

/// Returns a process and its living ancestors.
pub fn lineage(pid: u32) -> impl Iterator<Item = u32> {
    // A loop is not possible, but numbers may be reused meanwhile.
    std::iter::successors(Some(pid), |pid| parent(*pid)).take(100)
}

fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(1)?.parse().ok().filter(|parent| *parent > 0)
}

/// The main memory of all processes below a process, in bytes: the sum of their present sizes, or the peak of a single
/// process if that is larger. The child `other` does not count.
pub fn tree_memory(pid: u32, other: Option<u32>) -> u64 {
    fn walk(pid: u32, other: Option<u32>, sum: &mut u64, peak: &mut u64) {
        for child in children_of_threads(pid).into_iter().filter(|child| Some(*child) != other) {
            let status = fs::read_to_string(format!("/proc/{child}/status")).unwrap_or_default();
            *sum += field(&status, "VmRSS:").unwrap_or(0) << 10;
            *peak = (*peak).max(field(&status, "VmHWM:").unwrap_or(0) << 10);
            walk(child, None, sum, peak);
        }
    }
    let (mut sum, mut peak) = (0, 0);
    walk(pid, other, &mut sum, &mut peak);
    sum.max(peak)
}

/// The children that any thread of a process has started.
fn children_of_threads(pid: u32) -> Vec<u32> {
    let threads = names(&format!("/proc/{pid}/task"));
    let lists = threads.iter().filter_map(|id| fs::read_to_string(format!("/proc/{pid}/task/{id}/children")).ok());
    lists.flat_map(|list| list.split_whitespace().filter_map(|id| id.parse().ok()).collect::<Vec<_>>()).collect()
}

/// The children that a process's main thread has started.
fn children(pid: u32) -> Vec<u32> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_whitespace().filter_map(|child| child.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_gpus_end_where_the_driver_stops_reading() {
        assert_eq!(visible_gpus("2, 3"), ["2", "3"]);
        assert_eq!(visible_gpus("GPU-1a,-1,4"), ["GPU-1a"]);
        assert!(visible_gpus("").is_empty());
    }

    #[test]
    fn device_files_are_told_from_the_drivers_own() {
        assert!(is_gpu_file("nvidia0") && is_gpu_file("nvidia12"));
        assert!(!is_gpu_file("nvidiactl") && !is_gpu_file("nvidia") && !is_gpu_file("nvidia-uvm"));
    }

    #[test]
    fn either_counter_shows_a_lack_of_memory() {
        let counts = |group, machine| OutOfMemory { group, machine };
        let baseline = counts(Some(1), Some(5));
        assert_eq!(counts(Some(1), Some(5)).since(baseline), Some(false));
        assert_eq!(counts(Some(2), Some(6)).since(baseline), Some(true));
        assert_eq!(counts(Some(1), Some(6)).since(baseline), Some(true), "killed in an inner group");
        assert_eq!(counts(None, None).since(baseline), None);
    }

    #[test]
    fn counters_are_found_by_their_word() {
        let text = "low 0\noom 3\noom_kill 2\noom_group_kill 9\n";
        assert_eq!(field(text, "oom_kill"), Some(2));
        assert_eq!(field(text, "missing"), None);
    }

    #[test]
    fn this_process_has_memory_and_used_some() {
        let peak = peak_memory(std::process::id()).unwrap();
        assert!(peak > 0 && peak <= memory());
    }
}
