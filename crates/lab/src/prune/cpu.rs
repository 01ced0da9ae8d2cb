//! Exact selection on the CPU: thresholds and masks in one pass over weights and moments, in place.

use burn::{
    backend::{Flex, flex::FlexTensor},
    tensor::{Tensor, TensorData},
};
use sweep_job::tasks::{MaskFormat, Prune, ThresholdSearch};

use super::{
    host::HostSelect,
    masks::{HostMasks, Masks, empty, slices},
    select::{Choice, Goal, Group, Inputs, Layers, Select, bias_correction_1, by_group, in_32_bits, in_one_pass},
    selects::Selects,
};
use crate::{
    LabError,
    device::read::dense,
    selection::{self, Found, NotANumber},
};

impl Selects for Flex {
    fn selector(settings: &Prune) -> Box<dyn Select<Self>> {
        if in_one_pass(settings) { Box::new(OnePassSelect::new(settings)) } else { Box::new(HostSelect::new(settings)) }
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
        let result = match masks {
            HostMasks::None(masks) => find(method, &goal, seed, masks),
            HostMasks::Bytes(masks) => find(method, &goal, seed, masks),
            HostMasks::Bits(masks) => find(method, &goal, seed, masks),
            HostMasks::Floats(masks) => find(method, &goal, seed, masks),
        }?;
        Some(result.map_err(|error| LabError::NotANumber { parameter: inputs[error.layer].name.clone() }))
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

/// The scores that `settings` request; without settings, the weights themselves.
fn formula(inputs: &[Inputs<Flex>], settings: Option<&Prune>) -> selection::Formula {
    let correction = bias_correction_1(inputs);
    settings.map_or(selection::Formula::GIVEN, |settings| selection::Formula::new(settings, correction))
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
        _ => None,
    }
}

/// Exact thresholds and masks by [`selection::bracket`].
#[derive(Debug)]
pub struct OnePassSelect(Prune);

impl OnePassSelect {
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
        let result = selection::bracket(&goal, seed, &mut slices(&mut masks))
            .map_err(|error| layers.not_a_number(group.layers.start + error.layer))?;
        let device = inputs[0].weights.device();
        let choice = |(mask, pruned): (Vec<f32>, usize)| {
            let length = mask.len();
            let mask = Tensor::from_data(TensorData::new(mask, [length]), &device);
            Choice { threshold: result.threshold, mask, pruned: Some(pruned) }
        };
        Ok(masks.into_iter().zip(result.pruned.iter().copied()).map(choice).collect())
    }
}

impl Select<Flex> for OnePassSelect {
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
            weights: dense(&inputs.weights),
            moments: inputs.moments.as_ref().map(|moments| [&moments.first, &moments.second].map(dense)),
            origin: inputs.origin.as_ref().map(dense),
            mask: inputs.mask.as_ref().map(dense),
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
