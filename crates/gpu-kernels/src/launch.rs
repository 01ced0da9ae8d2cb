//! Helpers to launch kernels: buffers, numbers of units, and the small state that kernels share.

use std::marker::PhantomData;

use cubecl::{prelude::*, server::Handle};
use sweep_job::tasks::ScoreKind;

use crate::{Formula, Goal, Layer, SelectError, formula::score, order};

/// Units of a cube, a number that every device supports.
pub(crate) const UNITS: u32 = 256;

// Words of the state, which stays on the device until all is done.

/// Result of the bracket, one of the four below.
pub(crate) const STATUS: usize = 0;
/// The first layer with a score that is NaN.
pub(crate) const NOT_A_NUMBER: usize = 1;
/// The bracket's lower end, a rank.
pub(crate) const LOW: usize = 2;
/// The bracket's upper end, a rank.
pub(crate) const HIGH: usize = 3;
/// Scores below the bracket.
pub(crate) const BELOW: usize = 4;
/// Scores at its lower end.
pub(crate) const AT_LOW: usize = 5;
/// Scores in between.
pub(crate) const INSIDE: usize = 6;
/// For each of two searches: the known leading bits of the searched rank.
pub(crate) const PREFIX: usize = 8;
/// Of each of two searches: which of the ranks with these leading bits it is.
pub(crate) const PLACE: usize = 10;
/// From here on, by layer: weights that are pruned, and where its candidates begin and end.
pub(crate) const LAYERS: usize = 12;
/// Words for a layer.
pub(crate) const WORDS: usize = 3;

/// The threshold is the bracket's lower end.
pub(crate) const AT_THE_LOW_END: u32 = 0;
/// The threshold is one of the candidates.
pub(crate) const IN_BETWEEN: u32 = 1;
/// The threshold is outside the bracket.
pub(crate) const MISSED: u32 = 2;
/// The candidates exceed their buffer.
pub(crate) const OVERFLOWED: u32 = 3;

/// Memory for `words` numbers of 32 bits, at least one.
pub(crate) fn empty<R: Runtime>(client: &ComputeClient<R>, words: usize) -> Handle {
    client.empty(words.max(1) * size_of::<u32>())
}

/// A kernel's argument: `length` numbers of 32 bits.
pub(crate) fn array<R: Runtime>(handle: &Handle, length: usize) -> ArrayArg<R> {
    let binding = TensorBinding {
        handle: handle.clone().binding(),
        strides: [1].into(),
        shape: [length].into(),
        runtime: PhantomData,
    };
    binding.into_array_arg()
}

/// Number of cubes if each unit processes about `per_unit` of `length` numbers. Units continue until all are done.
pub(crate) fn cubes(length: usize, per_unit: usize, max_cubes: u32) -> u32 {
    let cubes = length.div_ceil(per_unit * UNITS as usize);
    u32::try_from(cubes).unwrap_or(max_cubes).clamp(1, max_cubes)
}

/// A number that [`Goal::check`] has bounded.
pub(crate) fn word(length: usize) -> u32 {
    u32::try_from(length).expect("what is counted has 32 bits")
}

/// A layer, ready for kernels.
pub(crate) struct Ready {
    /// Index of the layer.
    pub(crate) index: u32,
    /// Its weights, of which there are some.
    pub(crate) length: usize,
    reads: Vec<Handle>,
    pub(crate) kind: ScoreKind,
    pub(crate) masked: bool,
}

impl Ready {
    fn new(index: usize, layer: &Layer, formula: &Formula) -> Self {
        Self {
            index: word(index),
            length: layer.length,
            reads: layer.reads(formula),
            kind: layer.kind(formula),
            masked: layer.mask.is_some(),
        }
    }

    /// The layers of `goal` that have weights.
    pub(crate) fn all(goal: &Goal<'_>) -> Vec<Self> {
        let layers = goal.layers.iter().enumerate().filter(|(_, layer)| layer.length > 0);
        layers.map(|(index, layer)| Self::new(index, layer, &goal.formula)).collect()
    }

    /// Inputs of its scores.
    pub(crate) fn inputs<R: Runtime>(&self) -> SequenceArg<R, Array<f32>> {
        self.reads.iter().map(|handle| array(handle, self.length)).collect()
    }
}

/// The state, and the masks.
pub(crate) struct Workspace<'a, R: Runtime> {
    pub(crate) client: &'a ComputeClient<R>,
    pub(crate) state: Handle,
    pub(crate) masks: Vec<Handle>,
    layers: usize,
}

impl<'a, R: Runtime> Workspace<'a, R> {
    /// For searches whose places are `places`.
    pub(crate) fn new(client: &'a ComputeClient<R>, goal: &Goal<'_>, places: [u32; 2]) -> Self {
        let layers = goal.layers.len();
        let mut state = vec![0; LAYERS + WORDS * layers];
        state[NOT_A_NUMBER] = u32::MAX;
        state[PLACE..PLACE + 2].copy_from_slice(&places);
        for layer in state[LAYERS..].chunks_exact_mut(WORDS) {
            layer[1] = u32::MAX;
        }
        let masks = goal.layers.iter().map(|layer| empty(client, layer.length)).collect();
        Self { client, state: client.create_from_slice(u32::as_bytes(&state)), masks, layers }
    }

    /// The state as a kernel's argument.
    pub(crate) fn state(&self) -> ArrayArg<R> {
        array(&self.state, LAYERS + WORDS * self.layers)
    }

    /// Bytes of the state.
    pub(crate) fn bytes(&self) -> usize {
        (LAYERS + WORDS * self.layers) * size_of::<u32>()
    }

    /// Waits for the device and reads the state.
    pub(crate) fn read(&self) -> Result<State, SelectError> {
        let bytes = self.client.read_one(self.state.clone());
        let bytes = bytes.map_err(|error| SelectError::Device(error.to_string()))?;
        let words = u32::from_bytes(&bytes).to_vec();
        match words[NOT_A_NUMBER] {
            u32::MAX => Ok(State(words)),
            layer => Err(SelectError::NotANumber { layer: layer as usize }),
        }
    }
}

/// The state on the host.
pub(crate) struct State(Vec<u32>);

impl State {
    /// The word at `index`.
    pub(crate) fn word(&self, index: usize) -> u32 {
        self.0[index]
    }

    /// The score whose rank is the word at `index`.
    pub(crate) fn score(&self, index: usize) -> f32 {
        order::score(self.0[index])
    }

    /// Numbers of pruned weights, by layer.
    pub(crate) fn pruned(&self) -> Vec<usize> {
        self.0[LAYERS..].chunks_exact(WORDS).map(|layer| layer[0] as usize).collect()
    }
}

/// Returns the scores of a layer as the device computes them, one per weight.
pub fn scores<R: Runtime>(client: &ComputeClient<R>, layer: &Layer, formula: &Formula) -> Handle {
    let ready = Ready::new(0, layer, formula);
    let scores = empty(client, layer.length);
    if layer.length > 0 {
        write_scores::launch::<R>(
            client,
            CubeCount::Static(cubes(layer.length, 16, 4096), 1, 1),
            CubeDim::new_1d(UNITS),
            ready.inputs(),
            array(&scores, layer.length),
            word(layer.length),
            formula.epsilon,
            formula.bias_correction_1,
            ready.kind,
            ready.masked,
        );
    }
    scores
}

#[cube(launch)]
fn write_scores(
    inputs: &Sequence<Array<f32>>,
    scores: &mut Array<f32>,
    length: u32,
    epsilon: f32,
    bias_correction_1: f32,
    #[comptime] kind: ScoreKind,
    #[comptime] masked: bool,
) {
    let mut index = CUBE_POS_X * CUBE_DIM + UNIT_POS;
    while index < length {
        scores[index as usize] = score(inputs, index as usize, epsilon, bias_correction_1, kind, masked);
        index += CUBE_COUNT_X * CUBE_DIM;
    }
}

/// Starts a pass that reads the inputs of the scores of `layer`, writes the size of a mask, and computes only sums: a
/// baseline for other passes.
pub fn stream<R: Runtime>(client: &ComputeClient<R>, layer: &Layer, formula: &Formula) {
    if layer.length == 0 {
        return;
    }
    let ready = Ready::new(0, layer, formula);
    write_sums::launch::<R>(
        client,
        CubeCount::Static(cubes(layer.length, 16, 8192), 1, 1),
        CubeDim::new_1d(UNITS),
        ready.inputs(),
        array(&empty(client, layer.length), layer.length),
        word(layer.length),
    );
}

#[cube(launch)]
fn write_sums(inputs: &Sequence<Array<f32>>, sums: &mut Array<f32>, length: u32) {
    let mut index = CUBE_POS_X * CUBE_DIM + UNIT_POS;
    while index < length {
        let mut sum = 0.0f32;
        #[unroll]
        for input in 0..inputs.len() {
            sum += inputs[input][index as usize];
        }
        sums[index as usize] = sum;
        index += CUBE_COUNT_X * CUBE_DIM;
    }
}
