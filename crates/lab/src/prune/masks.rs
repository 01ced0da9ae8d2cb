//! Masks of streaming methods, in the format of a job.

use burn::tensor::{Tensor, backend::Backend};
use sweep_job::tasks::MaskFormat;

use super::select::Inputs;
use crate::selection;

/// Masks of methods that stream.
#[derive(Debug)]
pub enum Masks<B: Backend> {
    /// In memory of the host.
    Host(HostMasks),
    /// 1 where a weight stays, else 0, `[numbers]` for each layer; none before the first choice.
    Device(Vec<Tensor<B, 1>>),
}

impl<B: Backend> Masks<B> {
    /// Their size in bytes.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Host(masks) => masks.bytes(),
            Self::Device(masks) => masks.iter().map(|mask| mask.dims()[0] * size_of::<f32>()).sum(),
        }
    }
}

/// Masks in memory of the host, one for each layer.
#[derive(Debug, Clone, PartialEq)]
pub enum HostMasks {
    /// No masks, because only thresholds are requested.
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

    /// Their size in bytes.
    pub fn bytes(&self) -> usize {
        match self {
            Self::None(_) => 0,
            Self::Bytes(masks) => masks.iter().map(|mask| size_of_val(&mask[..])).sum(),
            Self::Bits(masks) => masks.iter().map(|mask| size_of_val(&mask[..])).sum(),
            Self::Floats(masks) => masks.iter().map(|mask| size_of_val(&mask[..])).sum(),
        }
    }

    /// Sets pruned numbers to 0 in `numbers`: by layer, several slices of the layer's size.
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

pub(super) fn empty<B: Backend, M: selection::Mask>(inputs: &[Inputs<B>]) -> Vec<Vec<M>> {
    inputs.iter().map(|inputs| vec![M::default(); M::words(inputs.weights.dims()[0])]).collect()
}

pub(super) fn slices<T>(vectors: &mut [Vec<T>]) -> Vec<&mut [T]> {
    vectors.iter_mut().map(|vector| &mut vector[..]).collect()
}
