//! Radix selection over all scores.

use cubecl::prelude::*;
use sweep_job::tasks::ScoreKind;

use crate::{
    Found, Goal, SelectError,
    bins::{self, BINS, Bins, COUNTING, PASSES},
    formula::score,
    launch::{LAYERS, NOT_A_NUMBER, PREFIX, Ready, UNITS, WORDS, Workspace, array, cubes, word},
    order::{MAX_RANK, MIN_RANK, rank},
};

/// The `k`-th smallest score by counting, and the masks: four passes, whatever the scores are.
pub fn radix<R: Runtime>(client: &ComputeClient<R>, goal: &Goal<'_>) -> Result<Found, SelectError> {
    goal.check()?;
    let layers = Ready::all(goal);
    let workspace = Workspace::new(client, goal, [word(goal.k), 0]);
    let bins = Bins::new(client);
    let mut passes = 1;
    if goal.k > 0 {
        for (shift, bits) in PASSES {
            for layer in &layers {
                pass(&workspace, goal, layer, &bins, Some((shift, bits)));
            }
            bins.pick(&workspace, 1, shift);
            passes += 1;
        }
    }
    // With a rank of 0, below all scores, everything stays.
    for layer in &layers {
        pass(&workspace, goal, layer, &bins, None);
    }
    let state = workspace.read()?;
    Ok(Found {
        threshold: (goal.k > 0).then(|| state.score(PREFIX)),
        pruned: state.pruned(),
        passes,
        candidates: 0,
        readings: 1,
        extra: workspace.bytes() + Bins::BYTES,
        masks: workspace.masks,
    })
}

/// Counts by the bits of `bit_range`, or writes the mask if there is none.
fn pass<R: Runtime>(
    workspace: &Workspace<'_, R>,
    goal: &Goal<'_>,
    layer: &Ready,
    bins: &Bins,
    bit_range: Option<(u32, u32)>,
) {
    let (shift, bits) = bit_range.unwrap_or_default();
    visit::launch::<R>(
        workspace.client,
        CubeCount::Static(cubes(layer.length, 64, COUNTING), 1, 1),
        CubeDim::new_1d(UNITS),
        layer.inputs(),
        array(&workspace.masks[layer.index as usize], layer.length),
        workspace.state(),
        bins.array(),
        layer.index,
        word(layer.length),
        shift,
        bits,
        u32::from(bit_range.is_none()),
        goal.formula.epsilon,
        goal.formula.bias_correction_1,
        layer.kind,
        layer.masked,
    );
}

/// Counting and writing are one kernel, so that both compute the same scores: a compiler may round `a * b - c` once in one
/// kernel and twice in another.
#[cube(launch)]
fn visit(
    inputs: &Sequence<Array<f32>>,
    mask: &mut Array<f32>,
    state: &mut Array<Atomic<u32>>,
    bins: &mut Array<Atomic<u32>>,
    layer: u32,
    length: u32,
    shift: u32,
    bits: u32,
    writes: u32,
    epsilon: f32,
    bias_correction_1: f32,
    #[comptime] kind: ScoreKind,
    #[comptime] masked: bool,
) {
    let counts = SharedMemory::<Atomic<u32>>::new(BINS);
    let sum = SharedMemory::<Atomic<u32>>::new(1usize);
    let mut shared_words = SharedMemory::<u32>::new(1usize);
    let all_prefix = state[PREFIX];
    let all_pruned = state[LAYERS + layer as usize * WORDS];
    let not_a_number = state[NOT_A_NUMBER];
    bins::start(&counts);
    if UNIT_POS == 0 {
        shared_words[0] = all_prefix.load();
        sum[0].store(0u32);
    }
    sync_cube();
    let prefix = shared_words[0];
    let mut pruned = 0u32;
    let mut start = CUBE_POS_X * CUBE_DIM;
    while start < length {
        let position = start + UNIT_POS;
        if position < length {
            let rank = rank(score(inputs, position as usize, epsilon, bias_correction_1, kind, masked));
            if rank < MIN_RANK || rank > MAX_RANK {
                not_a_number.fetch_min(layer);
            }
            if writes == 1u32 {
                let stays = rank > prefix;
                mask[position as usize] = select(stays, 1.0f32, 0.0f32);
                pruned += select(stays, 0u32, 1u32);
            } else {
                bins::note(&counts, rank, prefix, shift, bits);
            }
        }
        start += CUBE_COUNT_X * CUBE_DIM;
    }
    sum[0].fetch_add(pruned);
    sync_cube();
    if writes == 1u32 {
        if UNIT_POS == 0 {
            all_pruned.fetch_add(sum[0].load());
        }
    } else {
        bins::merge(&counts, bins, 0u32);
    }
}
