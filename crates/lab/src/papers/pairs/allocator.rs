//! `uses: pair/allocator`: memory of the host from the system, or from a pool of freed blocks by size class.

use std::collections::BTreeMap;

use rand::Rng;
use sweep_job::tasks::{Allocator, AllocatorVariant};

use super::{Call, Contender, Left};
use crate::{LabError, backend::Compute, rng};

/// Bytes of a page: the system allocates a page at the first write.
const PAGE: usize = 4096;

/// Freed blocks by size class, the powers of two.
#[derive(Debug, Default)]
pub(super) struct Pool {
    free: BTreeMap<usize, Vec<Vec<u8>>>,
    /// Blocks that were there.
    pub(super) hits: usize,
    /// Number of requested blocks.
    pub(super) asked: usize,
}

impl Pool {
    /// A block of at least `bytes`.
    pub(super) fn take(&mut self, bytes: usize) -> Vec<u8> {
        let class = bytes.next_power_of_two();
        self.asked += 1;
        match self.free.get_mut(&class).and_then(Vec::pop) {
            Some(block) => {
                self.hits += 1;
                block
            }
            None => vec![0; class],
        }
    }

    /// Gives a block back.
    pub(super) fn give(&mut self, block: Vec<u8>) {
        self.free.entry(block.len()).or_default().push(block);
    }
}

/// Touches the first `bytes` of a block, and returns the number of their pages.
fn touch(block: &mut [u8], bytes: usize) -> f32 {
    let mut pages = 0_u16;
    for page in block[..bytes].chunks_mut(PAGE) {
        page[0] = page[0].wrapping_add(1);
        pages += 1;
    }
    std::hint::black_box(block);
    f32::from(pages)
}

impl Contender for Allocator {
    fn reference(&self) -> Self {
        Self { variant: AllocatorVariant::System, ..self.clone() }
    }

    fn ready<'a, B: Compute>(&'a self, seed: u64, _: &'a B::Device) -> Result<Call<'a, B>, LabError> {
        let mut random = rng::stream(seed, "pair", "blocks", &[]);
        let sizes: Vec<usize> = (0..self.blocks).map(|_| random.random_range(self.least..=self.most)).collect();
        let requested_bytes: usize = sizes.iter().sum();
        let mut pool = Pool::default();
        Ok(Box::new(move |meter| {
            (pool.hits, pool.asked) = (0, 0);
            let mut pages = Vec::with_capacity(sizes.len());
            let mut allocated_bytes = 0;
            for bytes in &sizes {
                match self.variant {
                    AllocatorVariant::System => {
                        let mut block = vec![0; *bytes];
                        allocated_bytes += block.len();
                        pages.push(touch(&mut block, *bytes));
                    }
                    AllocatorVariant::Pool => {
                        let mut block = pool.take(*bytes);
                        allocated_bytes += block.len();
                        pages.push(touch(&mut block, *bytes));
                        pool.give(block);
                    }
                }
            }
            if self.variant == AllocatorVariant::Pool {
                meter.tell(&Allocator::HIT_RATE, pool.hits as f64 / pool.asked as f64);
            }
            meter.tell(&Allocator::EFFICIENCY, requested_bytes as f64 / allocated_bytes as f64);
            Ok(Left::Host(pages))
        }))
    }
}
