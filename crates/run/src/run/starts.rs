//! The bound on the starts of jobs by this process: attempts and all of its runs count.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Starts that are left.
static LEFT: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Limits the starts from now on to `most`.
pub fn bound_starts(most: usize) {
    LEFT.store(most, Ordering::SeqCst);
}

/// Takes a start; `false` if none is left.
pub(super) fn take() -> bool {
    LEFT.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
        if left == usize::MAX { Some(left) } else { left.checked_sub(1) }
    })
    .is_ok()
}
