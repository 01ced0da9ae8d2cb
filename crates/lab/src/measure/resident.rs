//! The increase of this process's memory by a computation.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The largest resident memory before it was forgotten, in bytes.
static FORGOTTEN: AtomicU64 = AtomicU64::new(0);

/// Result of `work`, and the largest increase of resident memory in bytes; `None` if the system does not report it.
///
/// Linux keeps the largest size so far, and forgets it when asked to (`/proc/self/clear_refs`). Sizes are whole pages,
/// and memory that the allocator had already is not seen.
pub(crate) fn raised<T>(work: impl FnOnce() -> T) -> (T, Option<f64>) {
    if let Some(peak) = kibibytes("VmHWM:") {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a size in bytes")]
        FORGOTTEN.fetch_max((peak * 1024.0) as u64, Relaxed);
    }
    let forgotten = fs_err::write("/proc/self/clear_refs", "5").is_ok();
    let before = kibibytes("VmRSS:").filter(|_| forgotten);
    let done = work();
    let raised = before.and_then(|before| Some((kibibytes("VmHWM:")? - before).max(0.0) * 1024.0));
    (done, raised)
}

/// The largest resident memory that [`raised`] has made Linux forget, in bytes.
pub(super) fn forgotten() -> f64 {
    FORGOTTEN.load(Relaxed) as f64
}

fn kibibytes(name: &str) -> Option<f64> {
    let status = fs_err::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_was_used_is_seen_after_it_was_freed() {
        let megabytes = 64;
        let (sum, raised) =
            raised(|| std::hint::black_box(vec![1_u8; megabytes << 20]).iter().map(|x| u64::from(*x)).sum::<u64>());
        assert_eq!(sum, (megabytes << 20) as u64);
        if let Some(raised) = raised {
            assert!(raised > (megabytes << 20) as f64 * 0.9, "{raised}");
        }
    }
}
