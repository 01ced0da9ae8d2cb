//! Exact selection on a GPU: thresholds and masks in one pass over weights and moments, in place.

use burn::tensor::{DType, Tensor};
use burn_cubecl::tensor::CubeTensor;
use cubecl::client::ComputeClient;
use sweep_gpu_kernels::{Formula, Reach, SelectError, bracket, radix};
use sweep_job::tasks::{MaskFormat, Prune, ThresholdSearch};

use super::{
    host::HostSelect,
    masks::Masks,
    score::{Moments, scores},
    select::{Choice, Goal, Group, Inputs, Layers, Select, bias_correction_1, by_group, in_32_bits, in_one_pass},
};
use crate::{
    LabError,
    device::{cube_memory::CubeMemory, read::counted},
    selection::Found,
};

/// Exact thresholds and masks by [`sweep_gpu_kernels::bracket`].
#[derive(Debug)]
pub struct DeviceSelect(Prune);

impl DeviceSelect {
    /// The selector for `settings` on a GPU: kernels where they support them, else the host.
    pub fn selector<B: CubeMemory>(settings: &Prune) -> Box<dyn Select<B>> {
        if in_one_pass(settings) { Box::new(Self(settings.clone())) } else { Box::new(HostSelect::new(settings)) }
    }

    /// The choice for `group`, by layer.
    fn choose<B: CubeMemory>(
        &self,
        layers: &Layers<'_, B>,
        group: &Group,
        k: usize,
        seed: u64,
    ) -> Result<Vec<Choice<B>>, LabError> {
        let inputs = &layers.inputs()[group.layers.clone()];
        let formula = Formula::new(&self.0, bias_correction_1(inputs));
        let (result, masks) = find(inputs, formula, k, |client, goal| bracket(client, goal, &Reach::default(), seed))?;
        let threshold = result.threshold.unwrap_or(f32::NEG_INFINITY);
        let choices = masks.into_iter().zip(result.pruned);
        Ok(choices.map(|(mask, pruned)| Choice { threshold, mask, pruned: Some(pruned) }).collect())
    }
}

/// The result of `method` for the scores of `inputs`, and the masks, `[numbers]` by layer.
fn find<B: CubeMemory>(
    inputs: &[Inputs<B>],
    formula: Formula,
    k: usize,
    method: impl FnOnce(
        &ComputeClient<B::Runtime>,
        &sweep_gpu_kernels::Goal<'_>,
    ) -> Result<sweep_gpu_kernels::Found, SelectError>,
) -> Result<(sweep_gpu_kernels::Found, Vec<Tensor<B, 1>>), LabError> {
    let memory: Vec<Memory<B>> = inputs.iter().map(Memory::of).collect();
    let layers: Vec<sweep_gpu_kernels::Layer> = memory.iter().map(Memory::layer).collect();
    let goal = sweep_gpu_kernels::Goal { layers: &layers, formula, k };
    let mut result = counted(|| method(&memory[0].weights.client, &goal)).map_err(|error| match error {
        SelectError::NotANumber { layer } => LabError::NotANumber { parameter: inputs[layer].name.clone() },
        SelectError::Device(message) => LabError::Device(message),
        error => LabError::Unsupported(error.to_string()),
    })?;
    let masks = memory.iter().zip(std::mem::take(&mut result.masks)).map(|(memory, mask)| {
        let CubeTensor { client, device, .. } = memory.weights.clone();
        B::tensor(CubeTensor::new_contiguous(client, device, [memory.length()].into(), mask, DType::F32))
    });
    Ok((result, masks.collect()))
}

/// See [`Selects::fused_scores`](super::Selects::fused_scores): the scores by operations of the fusing backend `F` over the
/// same memory.
pub fn fused_scores<B: CubeMemory, F: CubeMemory<Runtime = B::Runtime>>(
    settings: &Prune,
    weights: Tensor<B, 1>,
    moments: Option<Moments<B>>,
    origin: Option<Tensor<B, 1>>,
) -> Tensor<B, 1> {
    let to_fused = |tensor: Tensor<B, 1>| F::tensor::<1>(B::memory(tensor));
    let moments = moments.map(|Moments { first, second, bias_correction_1 }| Moments {
        first: to_fused(first),
        second: to_fused(second),
        bias_correction_1,
    });
    B::tensor(F::memory(scores(settings, to_fused(weights), moments, origin.map(to_fused))))
}

/// The scores that `settings` request; without settings, the weights themselves.
fn formula<B: CubeMemory>(inputs: &[Inputs<B>], settings: Option<&Prune>) -> Formula {
    settings.map_or(Formula::GIVEN, |settings| Formula::new(settings, bias_correction_1(inputs)))
}

/// See [`Selects::masks`](super::Selects::masks): kernels write numbers to multiply with.
pub fn masks<B: CubeMemory>(format: Option<MaskFormat>) -> Option<Masks<B>> {
    matches!(format, None | Some(MaskFormat::F32)).then(|| Masks::Device(Vec::new()))
}

/// See [`Selects::stream`](super::Selects::stream).
pub fn stream<B: CubeMemory>(
    inputs: &[Inputs<B>],
    settings: Option<&Prune>,
    method: ThresholdSearch,
    k: usize,
    seed: u64,
    masks: &mut Masks<B>,
) -> Option<Result<Found, LabError>> {
    let Masks::Device(masks) = masks else { return None };
    let formula = formula(inputs, settings);
    let result = match method {
        ThresholdSearch::Bracket => {
            find(inputs, formula, k, |client, goal| bracket(client, goal, &Reach::default(), seed))
        }
        ThresholdSearch::Radix => find(inputs, formula, k, radix),
        _ => return None,
    };
    Some(result.map(|(selection, new_masks)| {
        *masks = new_masks;
        Found {
            threshold: selection.threshold.unwrap_or(f32::NEG_INFINITY),
            pruned: selection.pruned,
            passes: selection.passes,
            candidates: selection.candidates,
            extra: selection.extra,
        }
    }))
}

/// See [`Selects::stream_floor`](super::Selects::stream_floor).
pub fn stream_floor<B: CubeMemory>(inputs: &[Inputs<B>], settings: Option<&Prune>) {
    let memory: Vec<Memory<B>> = inputs.iter().map(Memory::of).collect();
    let formula = formula(inputs, settings);
    for memory in &memory {
        sweep_gpu_kernels::stream(&memory.weights.client, &memory.layer(), &formula);
    }
}

impl<B: CubeMemory> Select<B> for DeviceSelect {
    fn select(&self, layers: &mut Layers<'_, B>, goal: &Goal<'_>) -> Result<Vec<Option<Choice<B>>>, LabError> {
        if !in_32_bits(layers) {
            return HostSelect::new(&self.0).select(layers, goal);
        }
        by_group(&layers.sizes(), goal, |group, k, seed| self.choose(layers, group, k, seed))
    }
}

/// The memory of a layer's tensors.
struct Memory<B: CubeMemory> {
    weights: CubeTensor<B::Runtime>,
    moments: Option<[CubeTensor<B::Runtime>; 2]>,
    origin: Option<CubeTensor<B::Runtime>>,
    mask: Option<CubeTensor<B::Runtime>>,
}

impl<B: CubeMemory> Memory<B> {
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

    fn layer(&self) -> sweep_gpu_kernels::Layer {
        let handle = |tensor: &CubeTensor<B::Runtime>| tensor.handle.clone();
        sweep_gpu_kernels::Layer {
            length: self.length(),
            weights: handle(&self.weights),
            moments: self.moments.as_ref().map(|moments| moments.each_ref().map(handle)),
            origin: self.origin.as_ref().map(handle),
            mask: self.mask.as_ref().map(handle),
        }
    }
}
