//! Memory that is kept for the next tensor of the same size.
//!
//! A training step allocates tensors of the same sizes repeatedly. Returning their memory to the system in between
//! would cost a page fault for every 4 KiB at the next step, so freed buffers are kept for reuse, up to a limit.

use std::{
    collections::HashMap,
    mem::{MaybeUninit, take},
    sync::{Mutex, PoisonError},
};

use burn::{
    backend::flex::{FlexTensor, Layout},
    tensor::{DType, Shape},
};
use burn_std::{AllocationController, AllocationProperty, Bytes};

/// Numbers below which memory is not kept: the allocator is fast for them.
const LEAST: usize = 16 * 1024;
/// Numbers that may wait, 512 MiB of them.
const MOST_IDLE: usize = 128 << 20;

/// Frees unused buffers, so that measurements of memory begin without any.
pub fn release_idle() {
    *IDLE.lock().unwrap_or_else(PoisonError::into_inner) = None;
}

/// Free buffers, by length.
#[derive(Default)]
struct Idle {
    buffers: HashMap<usize, Vec<Vec<f32>>>,
    numbers: usize,
}

static IDLE: Mutex<Option<Idle>> = Mutex::new(None);

/// Numbers for a tensor, or for a computation: uninitialized values, so the caller writes each of them.
pub struct Buffer(Vec<f32>);

impl Buffer {
    /// `length` numbers of any value.
    pub fn new(length: usize) -> Self {
        if length >= LEAST {
            let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
            let idle = idle.get_or_insert_default();
            if let Some(buffer) = idle.buffers.get_mut(&length).and_then(Vec::pop) {
                idle.numbers -= length;
                return Self(buffer);
            }
        }
        Self(vec![0.0; length])
    }

    /// `length` zeros.
    pub fn zeros(length: usize) -> Self {
        let mut buffer = Self::new(length);
        buffer.fill(0.0);
        buffer
    }

    /// A tensor of this shape with these numbers.
    pub fn into_tensor<const D: usize>(self, shape: [usize; D]) -> FlexTensor {
        let bytes = self.0.len() * size_of::<f32>();
        // SAFETY: all bytes of the vector are initialized, and `memory` gives exactly those.
        #[expect(unsafe_code, reason = "memory that returns to the pool needs a controller of its own")]
        let bytes = unsafe { Bytes::from_controller(Box::new(self), bytes) };
        FlexTensor::new(bytes, Layout::contiguous(Shape::from(shape)), DType::F32)
    }
}

impl std::ops::Deref for Buffer {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &self.0
    }
}

impl std::ops::DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut self.0
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let buffer = take(&mut self.0);
        let length = buffer.len();
        if length < LEAST {
            return;
        }
        let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = idle.get_or_insert_default();
        if idle.numbers + length <= MOST_IDLE {
            idle.numbers += length;
            idle.buffers.entry(length).or_default().push(buffer);
        }
    }
}

impl AllocationController for Buffer {
    fn alloc_align(&self) -> usize {
        align_of::<f32>()
    }

    fn property(&self) -> AllocationProperty {
        AllocationProperty::Other
    }

    #[expect(unsafe_code, reason = "the trait's method is, and gives bytes this type")]
    unsafe fn memory_mut(&mut self) -> &mut [MaybeUninit<u8>] {
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut self.0);
        let (pointer, length) = (bytes.as_mut_ptr().cast(), bytes.len());
        // SAFETY: the same bytes, borrowed as long; the caller promises to write only initialized ones.
        unsafe { std::slice::from_raw_parts_mut(pointer, length) }
    }

    fn memory(&self) -> &[MaybeUninit<u8>] {
        let bytes: &[u8] = bytemuck::cast_slice(&self.0);
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
        let length = LEAST + 1;
        let mut buffer = Buffer::new(length);
        for (index, number) in buffer.iter_mut().enumerate() {
            *number = index as f32;
        }
        let tensor = buffer.into_tensor([length, 1]);
        assert_eq!(tensor.as_slice::<f32>().unwrap()[length - 1], LEAST as f32);
        let mut copy = tensor.clone();
        copy.storage_mut::<f32>()[0] = 5.0;
        assert_eq!(tensor.as_slice::<f32>().unwrap()[0], 0.0, "a write copies what is shared");
        assert_eq!(copy.into_data().into_vec::<f32>().unwrap()[..2], [5.0, 1.0]);
        drop(tensor);
        assert!(Buffer::zeros(length).iter().all(|number| *number == 0.0), "memory that was used before");
    }
}
