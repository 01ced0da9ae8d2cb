//! Numbers that masks are applied to.

use burn::tensor::Tensor;

use crate::{LabError, backend::Compute, device::read::host, prune::Masks};

/// Numbers of every layer, in separate memory, as in a training.
pub(super) enum Numbers<B: Compute> {
    /// For masks in memory of the host.
    Host(Vec<Vec<Vec<f32>>>),
    /// For masks that are tensors.
    Device(Vec<Vec<Tensor<B, 1>>>),
}

impl<B: Compute> Numbers<B> {
    /// Copies of `layers`, each with several tensors of one size, for `masks`.
    pub(super) fn of<'a>(
        layers: impl Iterator<Item = Vec<&'a Tensor<B, 1>>>,
        masks: &Masks<B>,
    ) -> Result<Self, LabError> {
        let copy = |tensor: &Tensor<B, 1>| tensor.clone() + 0.0;
        match masks {
            Masks::Device(_) => Ok(Self::Device(layers.map(|layer| layer.into_iter().map(copy).collect()).collect())),
            Masks::Host(_) => {
                let layer = |layer: Vec<&Tensor<B, 1>>| layer.into_iter().map(|tensor| host(tensor.clone())).collect();
                Ok(Self::Host(layers.map(layer).collect::<Result<_, _>>()?))
            }
        }
    }

    /// Sets the weights that `masks` prune to 0.
    pub(super) fn mask(&mut self, masks: &Masks<B>) -> Result<(), LabError> {
        match (self, masks) {
            (Self::Host(numbers), Masks::Host(masks)) => masks.apply(numbers),
            (Self::Device(numbers), Masks::Device(masks)) => {
                *numbers = std::mem::take(numbers)
                    .into_iter()
                    .zip(masks)
                    .map(|(numbers, mask)| numbers.into_iter().map(|numbers| numbers * mask.clone()).collect())
                    .collect();
            }
            _ => return Err(LabError::Unsupported("masks and numbers are in different memory".into())),
        }
        Ok(())
    }
}
