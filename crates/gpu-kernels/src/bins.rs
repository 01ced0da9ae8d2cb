//! Radix selection among ranks: counts them in bins and selects the bin that contains the requested one.
//!
//! Constraints on these kernels, here and in the other files:
//!
//! - `CubeCL` 0.10 takes two stores of one value to different atomic numbers, in a row, for one expression, and then both numbers
//!   for one. So no two are in a row. Where an atomic number is taken out of its array (`let place = state[PLACE]`), that is its
//!   address.
//! - In Mesa's software Vulkan (22.3) barriers failed after loops with atomic operations that went round more often for some
//!   units of a cube than for others. So such loops go round equally often for all.

use cubecl::{prelude::*, server::Handle};

use crate::launch::{INSIDE, PLACE, PREFIX, UNITS, Workspace, array, cubes, empty, word};

/// Bins of a pass.
pub(crate) const BINS: usize = 1 << 11;
/// Bins that a unit adds up.
const EACH: usize = BINS / UNITS as usize;
/// By pass: the lowest of the bits that it counts by, and how many they are.
pub(crate) const PASSES: [(u32, u32); 3] = [(21, 11), (10, 11), (0, 10)];
/// Cubes that count: each adds its bins to the common ones, so there should not be many.
pub(crate) const COUNTING: u32 = 1024;
/// Largest number of concurrent searches.
const SEARCHES: usize = 2;

/// Bins in the device's memory, all of them 0 between passes.
pub(crate) struct Bins(Handle);

impl Bins {
    /// Size in bytes.
    pub(crate) const BYTES: usize = SEARCHES * BINS * size_of::<u32>();

    pub(crate) fn new<R: Runtime>(client: &ComputeClient<R>) -> Self {
        let bins = Self(empty(client, SEARCHES * BINS));
        clear::launch::<R>(client, CubeCount::Static(1, 1, 1), CubeDim::new_1d(UNITS), bins.array());
        bins
    }

    pub(crate) fn array<R: Runtime>(&self) -> ArrayArg<R> {
        array(&self.0, SEARCHES * BINS)
    }

    /// Determines more bits of `searches`: those from `shift` on.
    pub(crate) fn pick<R: Runtime>(&self, workspace: &Workspace<'_, R>, searches: u32, shift: u32) {
        pick::launch::<R>(
            workspace.client,
            CubeCount::Static(searches, 1, 1),
            CubeDim::new_1d(UNITS),
            workspace.state(),
            self.array(),
            shift,
        );
    }

    /// Runs all passes of `searches` over the content of `ranks`: `length` ranks, or, if `pairs` is true, pairs of places
    /// and ranks, whose number is in [`INSIDE`].
    pub(crate) fn search<R: Runtime>(
        &self,
        workspace: &Workspace<'_, R>,
        ranks: &Handle,
        length: usize,
        searches: u32,
        pairs: bool,
    ) {
        let words = if pairs { 2 * length } else { length };
        for (shift, bits) in PASSES {
            count::launch::<R>(
                workspace.client,
                CubeCount::Static(cubes(length, 16, COUNTING), searches, 1),
                CubeDim::new_1d(UNITS),
                array(ranks, words),
                workspace.state(),
                self.array(),
                word(length),
                shift,
                bits,
                pairs,
            );
            self.pick(workspace, searches, shift);
        }
    }
}

#[cube(launch)]
fn clear(bins: &mut Array<Atomic<u32>>) {
    let mut bin = UNIT_POS as usize;
    while bin < comptime!(SEARCHES * BINS) {
        bins[bin].store(0u32);
        bin += CUBE_DIM as usize;
    }
}

/// Empties the bins of a cube.
#[cube]
pub(crate) fn start(counts: &SharedMemory<Atomic<u32>>) {
    let mut bin = UNIT_POS as usize;
    while bin < BINS {
        counts[bin].store(0u32);
        bin += CUBE_DIM as usize;
    }
}

/// Counts `rank` by the `bits` from `shift` on, if the preceding bits equal `prefix`.
#[cube]
pub(crate) fn note(counts: &SharedMemory<Atomic<u32>>, rank: u32, prefix: u32, shift: u32, bits: u32) {
    // Twice, because no shift is as wide as a number.
    if ((rank ^ prefix) >> shift) >> bits == 0u32 {
        let bin = (rank >> shift) & ((1u32 << bits) - 1u32);
        counts[bin as usize].fetch_add(1u32);
    }
}

/// Adds the bins of a cube to the bins of `search`.
#[cube]
pub(crate) fn merge(counts: &SharedMemory<Atomic<u32>>, bins: &mut Array<Atomic<u32>>, search: u32) {
    let mut bin = UNIT_POS as usize;
    while bin < BINS {
        let count = counts[bin].load();
        if count > 0u32 {
            bins[search as usize * BINS + bin].fetch_add(count);
        }
        bin += CUBE_DIM as usize;
    }
}

/// Counts ranks for the search that is the cube's second position.
#[cube(launch)]
fn count(
    ranks: &Array<u32>,
    state: &mut Array<Atomic<u32>>,
    bins: &mut Array<Atomic<u32>>,
    length: u32,
    shift: u32,
    bits: u32,
    #[comptime] pairs: bool,
) {
    let counts = SharedMemory::<Atomic<u32>>::new(BINS);
    let mut shared_words = SharedMemory::<u32>::new(2usize);
    let all_prefix = state[PREFIX + CUBE_POS_Y as usize];
    let all_inside = state[INSIDE];
    start(&counts);
    if UNIT_POS == 0 {
        shared_words[0] = all_prefix.load();
        shared_words[1] = all_inside.load();
    }
    sync_cube();
    let prefix = shared_words[0];
    let mut end = length;
    if pairs {
        end = min(length, shared_words[1]);
    }
    let mut first = CUBE_POS_X * CUBE_DIM;
    while first < end {
        let index = (first + UNIT_POS) as usize;
        if first + UNIT_POS < end {
            if pairs {
                note(&counts, ranks[index * 2 + 1], prefix, shift, bits);
            } else {
                note(&counts, ranks[index], prefix, shift, bits);
            }
        }
        first += CUBE_COUNT_X * CUBE_DIM;
    }
    sync_cube();
    merge(&counts, bins, CUBE_POS_Y);
}

/// Finds the bin with the rank that this cube's search needs, adds it to the search's state, and clears the bins.
#[cube(launch)]
fn pick(state: &mut Array<Atomic<u32>>, bins: &mut Array<Atomic<u32>>, shift: u32) {
    // The counts of all bins, followed by the sums of the counts of each unit.
    let mut counts = SharedMemory::<u32>::new(comptime!(BINS + UNITS as usize));
    let search = CUBE_POS_X as usize;
    let all_prefix = state[PREFIX + search];
    let all_place = state[PLACE + search];
    let offset = UNIT_POS as usize * EACH;
    let mut sum = 0u32;
    for bin in 0..EACH {
        let count = bins[search * BINS + offset + bin].swap(0u32);
        counts[offset + bin] = count;
        sum += count;
    }
    counts[BINS + UNIT_POS as usize] = sum;
    sync_cube();
    if UNIT_POS == 0 {
        let mut place = all_place.load();
        let mut unit = 0usize;
        while unit + 1 < UNITS as usize && counts[BINS + unit] < place {
            place -= counts[BINS + unit];
            unit += 1;
        }
        let mut bin = unit * EACH;
        let last_bin = bin + (EACH - 1);
        while bin < last_bin && counts[bin] < place {
            place -= counts[bin];
            bin += 1;
        }
        all_place.store(place);
        let prefix = all_prefix.load();
        all_prefix.store(prefix | ((bin as u32) << shift));
    }
}
