//! Exact selection on a GPU: thresholds and masks in one pass over weights and moments, where they are.

use burn::tensor::{DType, Tensor};
use burn_cubecl::tensor::CubeTensor;
use sweep_cubes::{Formula, Reach, SelectError};
use sweep_job::tasks::Prune;

use super::{
    fused::{bias_correction_1, by_group, in_32_bits, in_one_pass},
    select::{Choice, Goal, Group, HostSelect, Inputs, Layers, Select},
};
use crate::{LabError, read::counted, resident::Resident};

/// Exact thresholds and masks by [`sweep_cubes::bracket`].
#[derive(Debug)]
pub struct DeviceSelect(Prune);

impl DeviceSelect {
    /// What does what `settings` ask on a GPU: kernels, or the host where they do not reach.
    pub fn selector<B: Resident>(settings: &Prune) -> Box<dyn Select<B>> {
        if in_one_pass(settings) { Box::new(Self(settings.clone())) } else { Box::new(HostSelect::new(settings)) }
    }

    /// The choice for `group`, by layer.
    fn choose<B: Resident>(
        &self,
        layers: &Layers<'_, B>,
        group: &Group,
        k: usize,
        seed: u64,
    ) -> Result<Vec<Choice<B>>, LabError> {
        let inputs = &layers.inputs()[group.layers.clone()];
        let memory: Vec<Memory<B>> = inputs.iter().map(Memory::of).collect();
        let numbers: Vec<sweep_cubes::Layer> = memory.iter().map(Memory::layer).collect();
        let formula = Formula::new(&self.0, bias_correction_1(inputs));
        let goal = sweep_cubes::Goal { layers: &numbers, formula, k };
        let client = &memory[0].weights.client;
        let found = counted(|| sweep_cubes::bracket(client, &goal, &Reach::default(), seed));
        let found = found.map_err(|error| match error {
            SelectError::NotANumber { layer } => layers.not_a_number(group.layers.start + layer),
            SelectError::Device(message) => LabError::Device(message),
            error => LabError::Unsupported(error.to_string()),
        })?;
        let threshold = found.threshold.unwrap_or(f32::NEG_INFINITY);
        let choices = memory.iter().zip(found.masks).zip(found.pruned).map(|((memory, mask), pruned)| {
            let CubeTensor { client, device, .. } = memory.weights.clone();
            let shape = [memory.length()].into();
            let mask = CubeTensor::new_contiguous(client, device, shape, mask, DType::F32);
            Choice { threshold, mask: B::tensor(mask), pruned: Some(pruned) }
        });
        Ok(choices.collect())
    }
}

impl<B: Resident> Select<B> for DeviceSelect {
    fn select(&self, layers: &mut Layers<'_, B>, goal: &Goal<'_>) -> Result<Vec<Option<Choice<B>>>, LabError> {
        if !in_32_bits(layers) {
            return HostSelect::new(&self.0).select(layers, goal);
        }
        by_group(&layers.sizes(), goal, |group, k, seed| self.choose(layers, group, k, seed))
    }
}

/// The memory of a layer's tensors.
struct Memory<B: Resident> {
    weights: CubeTensor<B::Runtime>,
    moments: Option<[CubeTensor<B::Runtime>; 2]>,
    origin: Option<CubeTensor<B::Runtime>>,
    mask: Option<CubeTensor<B::Runtime>>,
}

impl<B: Resident> Memory<B> {
    fn of(inputs: &Inputs<B>) -> Self {
        let memory = |tensor: &Tensor<B, 1>| B::memory(tensor.clone());
        Self {
            weights: memory(&inputs.weights),
            moments: inputs.moments.as_ref().map(|moments| [&moments.first, &moments.second].map(memory)),
            origin: inputs.origin.as_ref().map(memory),
            mask: inputs.mask.as_ref().map(memory),
        }
    }

    fn length(&self) -> usize {
        self.weights.meta.num_elements()
    }

    fn layer(&self) -> sweep_cubes::Layer {
        let handle = |tensor: &CubeTensor<B::Runtime>| tensor.handle.clone();
        sweep_cubes::Layer {
            length: self.length(),
            weights: handle(&self.weights),
            moments: self.moments.as_ref().map(|moments| moments.each_ref().map(handle)),
            origin: self.origin.as_ref().map(handle),
            mask: self.mask.as_ref().map(handle),
        }
    }
}
