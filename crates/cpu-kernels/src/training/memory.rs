//! Memory that is kept for the next tensor of the same size.
//!
//! A training step allocates tensors of the same sizes repeatedly. Returning their memory to the system in between would cost a page fault
//! for every 4 KiB at the next step, so freed buffers are kept for reuse, up to a limit: a constant, or the maximum that was in use at
//! once.

use std::{
    collections::BTreeMap,
    mem::{MaybeUninit, take},
    sync::{Mutex, PoisonError},
};

use bytemuck::{Pod, Zeroable};

use burn::{
    backend::flex::{FlexTensor, Layout},
    tensor::{DType, Shape},
};
use burn_std::{AllocationController, AllocationProperty, Bytes};

/// Lines below which memory is not kept: the allocator is fast for them.
const MIN_KEPT_LINES: usize = (64 << 10) / size_of::<Line>();
/// Lines that may wait in any case, 512 MiB of them.
const MAX_IDLE: usize = (512 << 20) / size_of::<Line>();
/// Lines from which on there are whole large pages in a buffer, 4 MiB of them.
const LARGE: usize = (4 << 20) / size_of::<Line>();

/// The numbers of a line of a processor's caches, which is also its longest vector.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
struct Line([f32; 16]);

/// Frees unused buffers, so that measurements of memory begin without any.
pub fn release_idle() {
    let mut pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
    *pool = Pool { used: pool.used, most_used: pool.used, ..Pool::EMPTY };
}

/// Memory of at least [`MIN_KEPT_LINES`] lines.
struct Pool {
    /// Free memory, by length.
    idle: BTreeMap<usize, Vec<Vec<Line>>>,
    /// Lines that are free.
    waiting: usize,
    /// Lines in use.
    used: usize,
    /// The most lines in use at once.
    most_used: usize,
}

impl Pool {
    const EMPTY: Self = Self { idle: BTreeMap::new(), waiting: 0, used: 0, most_used: 0 };

    /// Marks `length` lines as used; returns a free run of that length if there is one.
    fn take(&mut self, length: usize) -> Option<Vec<Line>> {
        self.used += length;
        self.most_used = self.most_used.max(self.used);
        let lines = self.idle.get_mut(&length)?.pop()?;
        self.waiting -= length;
        Some(lines)
    }

    /// Keeps lines that are no longer in use, or returns them if too many are kept.
    fn put(&mut self, lines: Vec<Line>) -> Option<Vec<Line>> {
        let length = lines.len();
        self.used = self.used.saturating_sub(length);
        let waiting = self.waiting + length;
        if waiting > MAX_IDLE.max(self.most_used - self.used) {
            return Some(lines);
        }
        self.waiting = waiting;
        self.idle.entry(length).or_default().push(lines);
        None
    }
}

static POOL: Mutex<Pool> = Mutex::new(Pool::EMPTY);

/// Numbers for a tensor, or for a computation: uninitialized values, so the caller writes each of them.
pub struct Buffer {
    lines: Vec<Line>,
    /// Number of valid elements; the last line may have room for more.
    length: usize,
}

impl Buffer {
    /// `length` numbers of any value.
    pub fn new(length: usize) -> Self {
        let count = length.div_ceil(size_of::<Line>() / size_of::<f32>());
        let pooled_lines = if count >= MIN_KEPT_LINES {
            POOL.lock().unwrap_or_else(PoisonError::into_inner).take(count)
        } else {
            None
        };
        Self { lines: pooled_lines.unwrap_or_else(|| zero_lines(count)), length }
    }

    /// `length` zeros.
    pub fn zeros(length: usize) -> Self {
        let mut buffer = Self::new(length);
        buffer.fill(0.0);
        buffer
    }

    /// A tensor of this shape with these numbers.
    pub fn into_tensor<const D: usize>(self, shape: [usize; D]) -> FlexTensor {
        let bytes = self.length * size_of::<f32>();
        // SAFETY: all bytes of the vector are initialized, and `memory` gives exactly those.
        #[expect(unsafe_code, reason = "memory that returns to the pool needs a controller of its own")]
        let bytes = unsafe { Bytes::from_controller(Box::new(self), bytes) };
        FlexTensor::new(bytes, Layout::contiguous(Shape::from(shape)), DType::F32)
    }
}

/// New lines, on pages of 2 MiB where there are whole ones: a network has more of the usual pages than a processor keeps the
/// addresses of.
fn zero_lines(count: usize) -> Vec<Line> {
    let mut lines = Vec::with_capacity(count);
    if count >= LARGE {
        large_pages(&mut lines);
    }
    lines.resize(count, Line::zeroed());
    lines
}

/// Requests large pages for the capacity of a vector. Without large pages, the vector works, but more slowly.
#[cfg(target_os = "linux")]
fn large_pages(lines: &mut Vec<Line>) {
    const PAGE: usize = 4096;
    let start = lines.as_mut_ptr();
    let end = (start.addr() + lines.capacity() * size_of::<Line>()) / PAGE * PAGE;
    let start = start.map_addr(|start| start.next_multiple_of(PAGE));
    #[expect(unsafe_code, reason = "a system call")]
    // SAFETY: only the vector uses these pages, and the advice does not change their content.
    unsafe {
        libc::madvise(start.cast(), end - start.addr(), libc::MADV_HUGEPAGE);
    }
}

/// Other systems decide alone.
#[cfg(not(target_os = "linux"))]
fn large_pages(_: &mut Vec<Line>) {}

impl std::ops::Deref for Buffer {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &bytemuck::cast_slice(&self.lines)[..self.length]
    }
}

impl std::ops::DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut bytemuck::cast_slice_mut(&mut self.lines)[..self.length]
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let lines = take(&mut self.lines);
        if lines.len() >= MIN_KEPT_LINES {
            // Lines that the pool returns are freed after its lock is released.
            let _freed = POOL.lock().unwrap_or_else(PoisonError::into_inner).put(lines);
        }
    }
}

impl AllocationController for Buffer {
    /// Returns the alignment that copies need: they may not require the alignment of a line.
    fn alloc_align(&self) -> usize {
        align_of::<f32>()
    }

    fn property(&self) -> AllocationProperty {
        AllocationProperty::Other
    }

    #[expect(unsafe_code, reason = "the trait's method is, and gives bytes this type")]
    unsafe fn memory_mut(&mut self) -> &mut [MaybeUninit<u8>] {
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(self);
        let (pointer, length) = (bytes.as_mut_ptr().cast(), bytes.len());
        // SAFETY: the same bytes, borrowed as long; the caller promises to write only initialized ones.
        unsafe { std::slice::from_raw_parts_mut(pointer, length) }
    }

    fn memory(&self) -> &[MaybeUninit<u8>] {
        let bytes: &[u8] = bytemuck::cast_slice(self);
        // SAFETY: the same bytes, borrowed as long; initialized ones may be read as if they might not be.
        #[expect(unsafe_code, reason = "the trait gives bytes this type")]
        unsafe {
            std::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_of_pooled_memory_are_tensors() {
        let length = MIN_KEPT_LINES * 16 + 1;
        let mut buffer = Buffer::new(length);
        assert!(buffer.as_ptr().addr().is_multiple_of(64));
        for (index, number) in buffer.iter_mut().enumerate() {
            *number = index as f32;
        }
        let tensor = buffer.into_tensor([length, 1]);
        assert_eq!(tensor.as_slice::<f32>().unwrap()[length - 1], length as f32 - 1.0);
        let mut copy = tensor.clone();
        copy.storage_mut::<f32>()[0] = 5.0;
        assert_eq!(tensor.as_slice::<f32>().unwrap()[0], 0.0, "a write copies what is shared");
        assert_eq!(copy.into_data().into_vec::<f32>().unwrap()[..2], [5.0, 1.0]);
        drop(tensor);
        assert!(Buffer::zeros(length).iter().all(|number| *number == 0.0), "memory that was used before");
    }

    #[test]
    fn a_pool_keeps_a_fixed_size_or_what_was_in_use_at_once() {
        let mut pool = Pool::EMPTY;
        let lines = |count| vec![Line::zeroed(); count];
        // Simulates a pool in use with far more lines.
        pool.used = 3 * MAX_IDLE;
        assert!(pool.take(1000).is_none());
        assert_eq!((pool.used, pool.most_used), (3 * MAX_IDLE + 1000, 3 * MAX_IDLE + 1000));
        (pool.used, pool.waiting) = (2 * MAX_IDLE + 1000, MAX_IDLE);
        assert!(pool.put(lines(1000)).is_none(), "as many as that were in use");
        assert_eq!(pool.take(1000).map(|lines| lines.len()), Some(1000));
        (pool.used, pool.waiting) = (3 * MAX_IDLE, MAX_IDLE);
        assert_eq!(pool.put(lines(1000)).map(|lines| lines.len()), Some(1000), "more than were in use at once");
        (pool.used, pool.waiting) = (3 * MAX_IDLE, 0);
        assert!(pool.put(lines(1000)).is_none(), "few in any case");
    }
}
