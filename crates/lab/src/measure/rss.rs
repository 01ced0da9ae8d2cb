//! Resident memory (RSS) of this process: now, at most, and by how much a piece of work raises it.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The largest resident memory before the system's maximum was reset, in bytes.
static FORGOTTEN: AtomicU64 = AtomicU64::new(0);

/// Resident memory in bytes: the second number of `/proc/self/statm`, in pages.
pub(super) fn current() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: f64 = text.split(' ').nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as f64)
}

/// The largest resident memory of this process so far, in bytes; `None` where the system does not report it.
///
/// Read from `VmHWM` in `/proc/self/status`, which counts the whole process: the program's own pages, the data mapped
/// and touched, and everything allocated on the host.
pub(crate) fn peak_memory() -> Option<f64> {
    let status = fs_err::read_to_string("/proc/self/status").ok()?;
    // The maximum was reset to measure a part of the work; the maximum of the whole includes the time before.
    Some(bytes(&status, "VmHWM:")?.max(FORGOTTEN.load(Relaxed) as f64))
}

/// Returns the result of `work`, and the maximum number of bytes by which `work` raised resident memory; `None` where the
/// system does not report it.
///
/// Linux keeps the largest size so far, and resets it on request (`/proc/self/clear_refs`). Sizes are whole pages, and
/// memory that the allocator already had is not included.
pub(crate) fn raised<T>(work: impl FnOnce() -> T) -> (T, Option<f64>) {
    let read = |name| bytes(&fs_err::read_to_string("/proc/self/status").ok()?, name);
    if let Some(peak) = read("VmHWM:") {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a size in bytes")]
        FORGOTTEN.fetch_max(peak as u64, Relaxed);
    }
    let is_reset = fs_err::write("/proc/self/clear_refs", "5").is_ok();
    let start_bytes = read("VmRSS:").filter(|_| is_reset);
    let result = work();
    let growth = start_bytes.and_then(|start_bytes| Some((read("VmHWM:")? - start_bytes).max(0.0)));
    (result, growth)
}

/// An entry of `/proc/self/status`, in bytes.
fn bytes(status: &str, name: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kibibytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_in_bytes() {
        assert_eq!(bytes("VmPeak:\t  100 kB\nVmHWM:\t   12 kB\n", "VmHWM:"), Some(12_288.0));
        assert_eq!(bytes("VmPeak:\t  100 kB\n", "VmHWM:"), None);
    }

    #[test]
    fn memory_that_was_used_is_seen_after_it_was_freed() {
        let megabytes = 64;
        let (sum, growth) =
            raised(|| std::hint::black_box(vec![1_u8; megabytes << 20]).iter().map(|x| u64::from(*x)).sum::<u64>());
        assert_eq!(sum, (megabytes << 20) as u64);
        if let Some(growth) = growth {
            assert!(growth > (megabytes << 20) as f64 * 0.9, "{growth}");
        }
    }
}
