//! Selection with a bracket from a sample.

use cubecl::{prelude::*, server::Handle};
use sweep_job::tasks::ScoreKind;

use crate::{
    Found, Goal, SelectError,
    bins::Bins,
    formula::score,
    launch::{
        AT_LOW, AT_THE_LOW_END, BELOW, HIGH, IN_BETWEEN, INSIDE, LAYERS, LOW, MISSED, NOT_A_NUMBER, OVERFLOWED, PLACE,
        PREFIX, Ready, STATUS, UNITS, WORDS, Workspace, array, cubes, empty, word,
    },
    order::{MAX_RANK, MIN_RANK, rank},
    radix,
};

/// Number of candidates that a cube stages before it reserves places for them. A cube usually has 4096 weights; more of them
/// are candidates only where a layer is unlike the others, and each further one reserves its own place.
const STAGED: usize = 1024;

// Counts of a comparing cube.

/// Scores below the bracket.
const CUBE_BELOW: usize = 0;
/// Scores at its lower end.
const CUBE_AT_LOW: usize = 1;
/// Scores in between.
const CUBE_INSIDE: usize = 2;

/// Width of a bracket.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reach {
    /// With fewer weights radix selection is quicker than to draw a sample first. At least 1.
    pub few: usize,
    /// Standard deviations of the sample's quantile to each side.
    pub deviations: f64,
    /// Room for candidates, in scores of the sample.
    pub room: f64,
}

impl Default for Reach {
    /// Returns a reach that misses once in a thousand times, with room for two to three times the expected number of
    /// candidates.
    fn default() -> Self {
        Self { few: 1 << 16, deviations: 3.3, room: 4.0 }
    }
}

/// Finds the `k`-th smallest score, and the masks, in one pass and one reading, unless the bracket has missed. The sample
/// depends on `seed`; the result does not.
pub fn bracket<R: Runtime>(
    client: &ComputeClient<R>,
    goal: &Goal<'_>,
    reach: &Reach,
    seed: u64,
) -> Result<Found, SelectError> {
    goal.check()?;
    let weights = goal.weights();
    if goal.k == 0 || weights <= reach.few {
        return radix(client, goal);
    }
    let layers = Ready::all(goal);
    let plan = Drawn::new(goal, reach, weights);
    let workspace = Workspace::new(client, goal, plan.places);
    let bins = Bins::new(client);
    let sample = draw(&workspace, goal, &layers, plan.size, seed);
    bins.search(&workspace, &sample, plan.size, 2, false);
    let single_unit = (CubeCount::Static(1, 1, 1), CubeDim::new_1d(1));
    frame::launch::<R>(client, single_unit.0.clone(), single_unit.1, workspace.state(), plan.open());

    let room = plan.room;
    let candidates = empty(client, 2 * room);
    for layer in &layers {
        compare::launch::<R>(
            client,
            CubeCount::Static(cubes(layer.length, 16, 8192), 1, 1),
            CubeDim::new_1d(UNITS),
            layer.inputs(),
            array(&workspace.masks[layer.index as usize], layer.length),
            array(&candidates, 2 * room),
            workspace.state(),
            layer.index,
            word(layer.length),
            word(room),
            goal.formula.epsilon,
            goal.formula.bias_correction_1,
            layer.kind,
            layer.masked,
        );
    }
    decide::launch::<R>(client, single_unit.0, single_unit.1, workspace.state(), word(goal.k), word(room));
    bins.search(&workspace, &candidates, room, 1, true);
    for layer in &layers {
        mend::launch::<R>(
            client,
            CubeCount::Static(cubes(room.min(layer.length), 16, 256), 1, 1),
            CubeDim::new_1d(UNITS),
            array(&candidates, 2 * room),
            array(&workspace.masks[layer.index as usize], layer.length),
            workspace.state(),
            layer.index,
            word(room),
        );
    }
    let state = workspace.read()?;
    let inside = state.word(INSIDE) as usize;
    let extra = workspace.bytes() + Bins::BYTES + (plan.size + 2 * room) * size_of::<u32>();
    let threshold = match state.word(STATUS) {
        AT_THE_LOW_END => state.score(LOW),
        IN_BETWEEN => state.score(PREFIX),
        _ => {
            let result = radix(client, goal)?;
            return Ok(Found {
                passes: result.passes + 1,
                readings: result.readings + 1,
                candidates: inside.min(room),
                // The masks are computed again.
                extra: result.extra + extra + weights * size_of::<f32>(),
                ..result
            });
        }
    };
    Ok(Found {
        threshold: Some(threshold),
        pruned: state.pruned(),
        masks: workspace.masks,
        passes: 1,
        candidates: inside,
        readings: 1,
        extra,
    })
}

/// Size of the sample, and the positions of the bracket's ends in it.
struct Drawn {
    /// Number of scores in the sample.
    size: usize,
    /// Ranks of the lower and of the upper end in the sample; 0 for a missing end.
    places: [u32; 2],
    /// Maximum number of candidates.
    room: usize,
}

impl Drawn {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 0 and the number of weights, which has 32 bits"
    )]
    fn new(goal: &Goal<'_>, reach: &Reach, weights: usize) -> Self {
        // With two thirds as the exponent (Floyd and Rivest) the sample and the candidates grow alike.
        let size = ((2.0 * (weights as f64).powf(2.0 / 3.0)) as usize).clamp(1, weights);
        let part = goal.k as f64 / weights as f64;
        let spread = (size as f64 * part * (1.0 - part)).sqrt();
        let (middle, margin) = (part * size as f64, reach.deviations * spread + 1.0);
        let low = (middle - margin).floor().max(0.0) as u32;
        let high = (middle + margin).ceil() as usize;
        let high = if high > size { 0 } else { high as u32 };
        let room = ((reach.room * size as f64) as usize).clamp(1, weights);
        Self { size, places: [low, high], room }
    }

    /// Missing ends: 1 for the lower one, 2 for the upper one.
    fn open(&self) -> u32 {
        u32::from(self.places[0] == 0) + 2 * u32::from(self.places[1] == 0)
    }
}

/// Draws the ranks of `size` scores, one from each of `size` intervals of equal length.
fn draw<R: Runtime>(workspace: &Workspace<'_, R>, goal: &Goal<'_>, layers: &[Ready], size: usize, seed: u64) -> Handle {
    let sample = empty(workspace.client, size);
    let weights = goal.weights();
    let (mut layer_end, mut first) = (0, 0);
    #[expect(clippy::cast_possible_truncation, reason = "both halves count")]
    let seed = (seed ^ (seed >> 32)) as u32;
    for layer in layers {
        layer_end += layer.length;
        let sample_end = usize::try_from(size as u128 * layer_end as u128 / weights as u128).unwrap_or(size);
        let count = sample_end - first;
        if count > 0 {
            gather::launch::<R>(
                workspace.client,
                CubeCount::Static(cubes(count, 4, 4096), 1, 1),
                CubeDim::new_1d(UNITS),
                layer.inputs(),
                array(&sample, size),
                word(first),
                word(count),
                word(layer.length / count),
                word(layer.length % count),
                seed,
                goal.formula.epsilon,
                goal.formula.bias_correction_1,
                layer.kind,
                layer.masked,
            );
        }
        first = sample_end;
    }
    sample
}

/// Draws `count` of a layer's scores, to `first` and behind it: each interval has `quotient` weights, the first `remainder` of
/// them one more.
#[cube(launch)]
fn gather(
    inputs: &Sequence<Array<f32>>,
    sample: &mut Array<u32>,
    first: u32,
    count: u32,
    quotient: u32,
    remainder: u32,
    seed: u32,
    epsilon: f32,
    bias_correction_1: f32,
    #[comptime] kind: ScoreKind,
    #[comptime] masked: bool,
) {
    let mut index = CUBE_POS_X * CUBE_DIM + UNIT_POS;
    while index < count {
        let start = index * quotient + min(index, remainder);
        let span = quotient + select(index < remainder, 1u32, 0u32);
        let position = start + scattered(scattered(first + index) ^ seed) % span;
        sample[(first + index) as usize] =
            rank(score(inputs, position as usize, epsilon, bias_correction_1, kind, masked));
        index += CUBE_COUNT_X * CUBE_DIM;
    }
}

/// A number that looks drawn by lot: a permuted congruential generator's step (O'Neill, 2014) as a hash.
#[cube]
fn scattered(x: u32) -> u32 {
    let state = x * 747_796_405u32 + 2_891_336_453u32;
    let word = ((state >> ((state >> 28u32) + 4u32)) ^ state) * 277_803_737u32;
    (word >> 22u32) ^ word
}

/// Makes a bracket of the results in the sample, and prepares the first search for another.
#[cube(launch)]
fn frame(state: &mut Array<Atomic<u32>>, missing_ends: u32) {
    let (first, second) = (state[PREFIX], state[comptime!(PREFIX + 1)]);
    let (low, high) = (state[LOW], state[HIGH]);
    low.store(select(missing_ends % 2u32 == 1u32, MIN_RANK, first.load()));
    high.store(select(missing_ends >= 2u32, MAX_RANK, second.load()));
    first.store(0u32);
}

/// Compares all scores of a layer with the bracket: counts them, collects the scores in between, and writes a mask in which
/// every weight with a score above the lower end stays.
#[cube(launch)]
fn compare(
    inputs: &Sequence<Array<f32>>,
    mask: &mut Array<f32>,
    candidates: &mut Array<u32>,
    state: &mut Array<Atomic<u32>>,
    layer: u32,
    length: u32,
    room: u32,
    epsilon: f32,
    bias_correction_1: f32,
    #[comptime] kind: ScoreKind,
    #[comptime] masked: bool,
) {
    let sums = SharedMemory::<Atomic<u32>>::new(3usize);
    // The bracket, and where the cube's candidates go.
    let mut shared_words = SharedMemory::<u32>::new(3usize);
    let mut stage = SharedMemory::<u32>::new(comptime!(2 * STAGED));
    let (all_below, all_at_low, all_inside) = (state[BELOW], state[AT_LOW], state[INSIDE]);
    let (all_low, all_high, not_a_number) = (state[LOW], state[HIGH], state[NOT_A_NUMBER]);
    let offset = LAYERS + layer as usize * WORDS;
    let (all_pruned, all_first, all_end) = (state[offset], state[offset + 1], state[offset + 2]);
    if UNIT_POS == 0 {
        shared_words[0] = all_low.load();
        shared_words[1] = all_high.load();
    }
    if UNIT_POS <= CUBE_INSIDE as u32 {
        sums[UNIT_POS as usize].store(0u32);
    }
    sync_cube();
    let low = shared_words[0];
    let high = shared_words[1];
    let mut below = 0u32;
    let mut at_low = 0u32;
    let mut start = CUBE_POS_X * CUBE_DIM;
    while start < length {
        let position = start + UNIT_POS;
        if position < length {
            let rank = rank(score(inputs, position as usize, epsilon, bias_correction_1, kind, masked));
            if rank < MIN_RANK || rank > MAX_RANK {
                not_a_number.fetch_min(layer);
            }
            mask[position as usize] = select(rank > low, 1.0f32, 0.0f32);
            below += select(rank < low, 1u32, 0u32);
            at_low += select(rank == low, 1u32, 0u32);
            if rank > low && rank < high {
                let slot = sums[CUBE_INSIDE].fetch_add(1u32);
                if slot < STAGED as u32 {
                    stage[slot as usize * 2] = position;
                    stage[slot as usize * 2 + 1] = rank;
                } else {
                    let slot = all_inside.fetch_add(1u32);
                    all_first.fetch_min(slot);
                    all_end.fetch_max(slot + 1u32);
                    if slot < room {
                        candidates[slot as usize * 2] = position;
                        candidates[slot as usize * 2 + 1] = rank;
                    }
                }
            }
        }
        start += CUBE_COUNT_X * CUBE_DIM;
    }
    sums[CUBE_BELOW].fetch_add(below);
    sums[CUBE_AT_LOW].fetch_add(at_low);
    sync_cube();
    let count = min(sums[CUBE_INSIDE].load(), STAGED as u32);
    if UNIT_POS == 0 {
        let below = sums[CUBE_BELOW].load();
        let at_low = sums[CUBE_AT_LOW].load();
        all_below.fetch_add(below);
        all_at_low.fetch_add(at_low);
        all_pruned.fetch_add(below + at_low);
        if count > 0u32 {
            let first = all_inside.fetch_add(count);
            all_first.fetch_min(first);
            all_end.fetch_max(first + count);
            shared_words[2] = first;
        }
    }
    sync_cube();
    let first = shared_words[2];
    let mut index = UNIT_POS;
    while index < count {
        let slot = first + index;
        if slot < room {
            candidates[slot as usize * 2] = stage[index as usize * 2];
            candidates[slot as usize * 2 + 1] = stage[index as usize * 2 + 1];
        }
        index += CUBE_DIM;
    }
}

/// Position of the `k`-th smallest score, according to the counts.
#[cube(launch)]
fn decide(state: &mut Array<Atomic<u32>>, k: u32, room: u32) {
    let (result, place) = (state[STATUS], state[PLACE]);
    let below = state[BELOW].load();
    let up_to_low = below + state[AT_LOW].load();
    let inside = state[INSIDE].load();
    // Results below 0 are not examined.
    let offset = k - up_to_low;
    place.store(offset);
    let status = select(offset <= inside, IN_BETWEEN, MISSED);
    let status = select(k <= up_to_low, AT_THE_LOW_END, status);
    let status = select(k <= below, MISSED, status);
    let status = select(inside > room, OVERFLOWED, status);
    result.store(status);
}

/// Prunes a layer's candidates up to the threshold, and counts them.
#[cube(launch)]
fn mend(candidates: &Array<u32>, mask: &mut Array<f32>, state: &mut Array<Atomic<u32>>, layer: u32, room: u32) {
    let sum = SharedMemory::<Atomic<u32>>::new(1usize);
    // Where the layer's candidates begin and end, the threshold, and the status.
    let mut shared_words = SharedMemory::<u32>::new(4usize);
    let offset = LAYERS + layer as usize * WORDS;
    let (all_pruned, all_first, all_end) = (state[offset], state[offset + 1], state[offset + 2]);
    let (all_prefix, all_status) = (state[PREFIX], state[STATUS]);
    if UNIT_POS == 0 {
        sum[0].store(0u32);
        shared_words[0] = all_first.load();
        shared_words[1] = all_end.load();
        shared_words[2] = all_prefix.load();
        shared_words[3] = all_status.load();
    }
    sync_cube();
    let mut pruned = 0u32;
    // Where the threshold is the bracket's lower end, all candidates stay.
    if shared_words[3] == IN_BETWEEN {
        let threshold = shared_words[2];
        let end = min(shared_words[1], room);
        // A layer without candidates ends at 0.
        if end > 0u32 {
            let mut index = shared_words[0] + CUBE_POS_X * CUBE_DIM + UNIT_POS;
            while index < end {
                if candidates[index as usize * 2 + 1] <= threshold {
                    let position = candidates[index as usize * 2];
                    mask[position as usize] = 0.0f32;
                    pruned += 1u32;
                }
                index += CUBE_COUNT_X * CUBE_DIM;
            }
        }
    }
    sum[0].fetch_add(pruned);
    sync_cube();
    if UNIT_POS == 0 {
        all_pruned.fetch_add(sum[0].load());
    }
}
