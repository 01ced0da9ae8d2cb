//! The heap of this process, counted exactly.
//!
//! The program installs [`Counting`] as its allocator. It counts only while counting is enabled; otherwise an
//! allocation costs one more read of a flag. Memory that a pool keeps is counted; memory of a GPU is not part of the
//! heap.

#![expect(unsafe_code, reason = "an allocator that counts is one")]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed},
};

/// The system's allocator, which can count.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counting;

static COUNTS: AtomicBool = AtomicBool::new(false);
/// Bytes allocated less bytes freed since counting began; may be negative.
static NOW: AtomicI64 = AtomicI64::new(0);
static PEAK: AtomicI64 = AtomicI64::new(0);
static CALLS: AtomicU64 = AtomicU64::new(0);

/// Heap activity during a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heap {
    /// The most bytes beyond those at the beginning that were allocated at once.
    pub peak: u64,
    /// Bytes at the end beyond those at the beginning; negative if more were freed.
    pub kept: i64,
    /// Allocations.
    pub allocations: u64,
}

fn signed(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

fn took(bytes: usize) {
    if COUNTS.load(Relaxed) {
        let bytes = signed(bytes);
        CALLS.fetch_add(1, Relaxed);
        PEAK.fetch_max(NOW.fetch_add(bytes, Relaxed) + bytes, Relaxed);
    }
}

fn gave(bytes: usize) {
    if COUNTS.load(Relaxed) {
        NOW.fetch_sub(signed(bytes), Relaxed);
    }
}

// SAFETY: every call is handed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        took(layout.size());
        // SAFETY: the caller's promise is the system's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        took(layout.size());
        // SAFETY: the caller's promise is the system's.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Counted as a move: for a moment both blocks may exist.
        took(size);
        gave(layout.size());
        // SAFETY: the caller's promise is the system's.
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        gave(layout.size());
        // SAFETY: the caller's promise is the system's.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// True if this process has [`Counting`] as its allocator.
fn is_installed() -> bool {
    CALLS.store(0, Relaxed);
    COUNTS.store(true, Relaxed);
    drop(std::hint::black_box(Box::new(0_u64)));
    CALLS.load(Relaxed) > 0
}

/// Begins to count from 0; `false` where nothing can be counted. Counting is the process's, so there is one at a time.
pub fn begin() -> bool {
    let can_count = is_installed();
    NOW.store(0, Relaxed);
    PEAK.store(0, Relaxed);
    CALLS.store(0, Relaxed);
    COUNTS.store(can_count, Relaxed);
    can_count
}

/// Counts since [`begin`]; continues counting.
pub fn so_far() -> Option<Heap> {
    COUNTS.load(Relaxed).then(|| Heap {
        peak: u64::try_from(PEAK.load(Relaxed)).unwrap_or(0),
        kept: NOW.load(Relaxed),
        allocations: CALLS.load(Relaxed),
    })
}

/// Ends the count, and returns its result.
pub fn end() -> Option<Heap> {
    let heap = so_far();
    COUNTS.store(false, Relaxed);
    heap
}

/// Result of `work`, and the heap activity meanwhile; `None` if nothing can be counted.
pub fn counted<T>(work: impl FnOnce() -> T) -> (T, Option<Heap>) {
    begin();
    let result = work();
    (result, end())
}
