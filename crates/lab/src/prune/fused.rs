//! Exact selection on the CPU: thresholds and masks in one pass over weights and moments, in place.

use burn::{
    backend::{Flex, flex::FlexTensor},
    tensor::{DType, Tensor, TensorData, backend::Backend},
};
use sweep_job::tasks::{MaskFormat, Prune, PruneUpdate, ScorePrecision, ThresholdMethod, ThresholdSearch};

use super::select::{Choice, Goal, Group, HostSelect, Inputs, Layers, Masks, Select, Selects, part_of};
use crate::{
    LabError,
    read::resident,
    rng,
    selection::{self, Found, NotANumber},
};

impl Selects for Flex {
    fn selector(settings: &Prune) -> Box<dyn Select<Self>> {
        if in_one_pass(settings) { Box::new(FusedSelect::new(settings)) } else { Box::new(HostSelect::new(settings)) }
    }

    fn masks(format: Option<MaskFormat>, inputs: &[Inputs<Self>]) -> Option<Masks<Self>> {
        Some(Masks::Host(format.map_or_else(|| HostMasks::none(inputs), |format| HostMasks::new(format, inputs))))
    }

    fn stream(
        inputs: &[Inputs<Self>],
        settings: Option<&Prune>,
        method: ThresholdSearch,
        k: usize,
        seed: u64,
        masks: &mut Masks<Self>,
    ) -> Option<Result<Found, LabError>> {
        let Masks::Host(masks) = masks else { return None };
        let memory: Vec<Memory> = inputs.iter().map(Memory::of).collect();
        let layers: Vec<selection::Layer<'_>> = memory.iter().map(Memory::layer).collect();
        let goal = selection::Goal { layers: &layers, formula: formula(inputs, settings), k };
        let found = match masks {
            HostMasks::None(masks) => find(method, &goal, seed, masks),
            HostMasks::Bytes(masks) => find(method, &goal, seed, masks),
            HostMasks::Bits(masks) => find(method, &goal, seed, masks),
            HostMasks::Floats(masks) => find(method, &goal, seed, masks),
        }?;
        Some(found.map_err(|error| LabError::NotANumber { parameter: inputs[error.layer].name.clone() }))
    }

    fn stream_floor(inputs: &[Inputs<Self>], settings: Option<&Prune>, masks: &mut Masks<Self>) -> Option<()> {
        let Masks::Host(masks) = masks else { return None };
        let memory: Vec<Memory> = inputs.iter().map(Memory::of).collect();
        let layers: Vec<selection::Layer<'_>> = memory.iter().map(Memory::layer).collect();
        let goal = selection::Goal { layers: &layers, formula: formula(inputs, settings), k: 1 };
        match masks {
            HostMasks::None(masks) => selection::stream(&goal, &mut slices(masks)),
            HostMasks::Bytes(masks) => selection::stream(&goal, &mut slices(masks)),
            HostMasks::Bits(masks) => selection::stream(&goal, &mut slices(masks)),
            HostMasks::Floats(masks) => selection::stream(&goal, &mut slices(masks)),
        }
        Some(())
    }
}

/// True if scores are to be computed and compared in one pass, and kernels support them.
pub(super) fn in_one_pass(settings: &Prune) -> bool {
    settings.prune_update == PruneUpdate::Fused
        && settings.threshold == ThresholdMethod::Exact
        && settings.score_precision == ScorePrecision::F32
}

/// True if all weights are in 32 bits, as kernels require. Moments are if weights are.
pub(super) fn in_32_bits<B: Backend>(layers: &Layers<'_, B>) -> bool {
    layers.inputs().iter().all(|inputs| inputs.weights.dtype() == DType::F32)
}

/// A choice for every layer, by `choose` for every group of which something goes: from the group, how many of its weights go,
/// and a seed.
pub(super) fn by_group<B: Backend>(
    sizes: &[usize],
    goal: &Goal<'_>,
    choose: impl Fn(&Group, usize, u64) -> Result<Vec<Choice<B>>, LabError>,
) -> Result<Vec<Option<Choice<B>>>, LabError> {
    let mut choices: Vec<Option<Choice<B>>> = sizes.iter().map(|_| None).collect();
    for (index, group) in goal.groups.iter().enumerate() {
        let pruned = part_of(group.sparsity, sizes[group.layers.clone()].iter().sum());
        if pruned == 0 {
            continue;
        }
        let seed = rng::derived_seed(goal.seed, "threshold group", &[index as u64]);
        let chosen = choose(group, pruned, seed)?;
        for (layer, choice) in group.layers.clone().zip(chosen) {
            choices[layer] = Some(choice);
        }
    }
    Ok(choices)
}

/// The scores that `settings` ask for; the weights themselves without.
fn formula(inputs: &[Inputs<Flex>], settings: Option<&Prune>) -> selection::Formula {
    let correction = bias_correction_1(inputs);
    settings.map_or(selection::Formula::GIVEN, |settings| selection::Formula::new(settings, correction))
}

/// Bias correction of the first moments of all layers: their divisor.
pub(super) fn bias_correction_1<B: Backend>(inputs: &[Inputs<B>]) -> f64 {
    inputs.iter().find_map(|inputs| Some(inputs.moments.as_ref()?.bias_correction_1)).unwrap_or(1.0)
}

/// Masks in memory of the host, one for each layer.
#[derive(Debug, Clone, PartialEq)]
pub enum HostMasks {
    /// Only thresholds are asked for.
    None(Vec<Vec<()>>),
    /// A byte for each weight.
    Bytes(Vec<Vec<u8>>),
    /// A bit for each weight.
    Bits(Vec<Vec<u64>>),
    /// A number for each weight.
    Floats(Vec<Vec<f32>>),
}

impl HostMasks {
    /// For thresholds alone.
    pub fn none<B: Backend>(inputs: &[Inputs<B>]) -> Self {
        Self::None(empty(inputs))
    }

    /// Masks of `format`.
    pub fn new<B: Backend>(format: MaskFormat, inputs: &[Inputs<B>]) -> Self {
        match format {
            MaskFormat::U8 => Self::Bytes(empty(inputs)),
            MaskFormat::Bit => Self::Bits(empty(inputs)),
            MaskFormat::F32 => Self::Floats(empty(inputs)),
        }
    }

    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        match self {
            Self::None(_) => 0,
            Self::Bytes(masks) => masks.iter().map(|mask| size_of_val(&mask[..])).sum(),
            Self::Bits(masks) => masks.iter().map(|mask| size_of_val(&mask[..])).sum(),
            Self::Floats(masks) => masks.iter().map(|mask| size_of_val(&mask[..])).sum(),
        }
    }

    /// Sets what they prune to 0 in `numbers`: by layer, several of the layer's size.
    pub fn apply(&self, numbers: &mut [Vec<Vec<f32>>]) {
        for (layer, numbers) in numbers.iter_mut().enumerate() {
            let mut numbers = slices(numbers);
            match self {
                Self::None(_) => {}
                Self::Bytes(masks) => selection::apply(&masks[layer], &mut numbers),
                Self::Bits(masks) => selection::apply(&masks[layer], &mut numbers),
                Self::Floats(masks) => selection::apply(&masks[layer], &mut numbers),
            }
        }
    }
}

fn empty<B: Backend, M: selection::Mask>(inputs: &[Inputs<B>]) -> Vec<Vec<M>> {
    inputs.iter().map(|inputs| vec![M::default(); M::words(inputs.weights.dims()[0])]).collect()
}

fn slices<T>(vectors: &mut [Vec<T>]) -> Vec<&mut [T]> {
    vectors.iter_mut().map(|vector| &mut vector[..]).collect()
}

/// Thresholds and masks by `method`.
fn find<M: selection::Mask>(
    method: ThresholdSearch,
    goal: &selection::Goal<'_>,
    seed: u64,
    masks: &mut [Vec<M>],
) -> Option<Result<Found, NotANumber>> {
    let masks = &mut slices(masks);
    match method {
        ThresholdSearch::Bracket => Some(selection::bracket(goal, seed, masks)),
        ThresholdSearch::Radix => Some(selection::radix(goal, masks)),
        ThresholdSearch::Histogram => Some(selection::by_bins(goal, masks)),
        ThresholdSearch::Sort | ThresholdSearch::TopK | ThresholdSearch::Sample => None,
    }
}

/// Exact thresholds and masks by [`selection::bracket`].
#[derive(Debug)]
pub struct FusedSelect(Prune);

impl FusedSelect {
    /// With the scores of `settings`.
    pub fn new(settings: &Prune) -> Self {
        Self(settings.clone())
    }

    /// The choice for `group`, by layer.
    fn choose(
        &self,
        layers: &Layers<'_, Flex>,
        group: &Group,
        k: usize,
        seed: u64,
    ) -> Result<Vec<Choice<Flex>>, LabError> {
        let inputs = &layers.inputs()[group.layers.clone()];
        let memory: Vec<Memory> = inputs.iter().map(Memory::of).collect();
        let numbers: Vec<selection::Layer<'_>> = memory.iter().map(Memory::layer).collect();
        let goal = selection::Goal { layers: &numbers, formula: formula(inputs, Some(&self.0)), k };
        let mut masks: Vec<Vec<f32>> = empty(inputs);
        let found = selection::bracket(&goal, seed, &mut slices(&mut masks))
            .map_err(|error| layers.not_a_number(group.layers.start + error.layer))?;
        let device = inputs[0].weights.device();
        let choice = |(mask, pruned): (Vec<f32>, usize)| {
            let length = mask.len();
            let mask = Tensor::from_data(TensorData::new(mask, [length]), &device);
            Choice { threshold: found.threshold, mask, pruned: Some(pruned) }
        };
        Ok(masks.into_iter().zip(found.pruned.iter().copied()).map(choice).collect())
    }
}

impl Select<Flex> for FusedSelect {
    fn select(&self, layers: &mut Layers<'_, Flex>, goal: &Goal<'_>) -> Result<Vec<Option<Choice<Flex>>>, LabError> {
        if !in_32_bits(layers) {
            return HostSelect::new(&self.0).select(layers, goal);
        }
        by_group(&layers.sizes(), goal, |group, k, seed| self.choose(layers, group, k, seed))
    }
}

/// The memory of a layer's tensors.
struct Memory {
    weights: FlexTensor,
    moments: Option<[FlexTensor; 2]>,
    origin: Option<FlexTensor>,
    mask: Option<FlexTensor>,
}

impl Memory {
    fn of(inputs: &Inputs<Flex>) -> Self {
        Self {
            weights: resident(&inputs.weights),
            moments: inputs.moments.as_ref().map(|moments| [&moments.first, &moments.second].map(resident)),
            origin: inputs.origin.as_ref().map(resident),
            mask: inputs.mask.as_ref().map(resident),
        }
    }

    fn layer(&self) -> selection::Layer<'_> {
        selection::Layer {
            weights: numbers(&self.weights),
            moments: self.moments.as_ref().map(|moments| moments.each_ref().map(numbers)),
            origin: self.origin.as_ref().map(numbers),
            mask: self.mask.as_ref().map(numbers),
        }
    }
}

fn numbers(tensor: &FlexTensor) -> &[f32] {
    tensor.as_slice().expect("weights in single precision have moments in single precision, and the memory is dense")
}
