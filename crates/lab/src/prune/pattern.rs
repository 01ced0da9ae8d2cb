//! Masks of N:M sparsity: of each M neighboring inputs of an output, the N highest scores stay.

use burn::tensor::{Bool, Int, Tensor, backend::Backend};

use super::{Choice, Layers};
use crate::{LabError, device::read::integers};

/// Chooses masks that keep the `kept` highest scores of each `size` neighboring inputs, for layers with the given numbers of
/// inputs. Of equal scores, the first stays.
///
/// # Errors
///
/// If a layer's inputs are not a multiple of `size`, if a score is NaN, or if the device fails.
pub(super) fn select<B: Backend>(
    layers: &mut Layers<'_, B>,
    inputs: &[usize],
    kept: usize,
    size: usize,
) -> Result<Vec<Option<Choice<B>>>, LabError> {
    let mut choices = Vec::with_capacity(inputs.len());
    for (layer, &inputs) in inputs.iter().enumerate() {
        check(&layers.inputs()[layer].name, inputs, size)?;
        if kept == size {
            choices.push(None);
            continue;
        }
        let scores = layers.scores(layer);
        if integers(scores.clone().is_nan().int().sum())? != [0] {
            return Err(layers.not_a_number(layer));
        }
        let [weights] = scores.dims();
        let mask = mask(&scores.reshape([inputs / size, size, weights / inputs]), kept).reshape([weights]);
        let pruned = weights / size * (size - kept);
        choices.push(Some(Choice { threshold: f32::NAN, mask, pruned: Some(pruned) }));
    }
    Ok(choices)
}

/// An error if the `inputs` of the layer `name` are not a multiple of `size`.
pub(crate) fn check(name: &str, inputs: usize, size: usize) -> Result<(), LabError> {
    if inputs.is_multiple_of(size) {
        return Ok(());
    }
    Err(LabError::Dimensions(format!(
        "`{name}` has {inputs} inputs, which do not divide into groups of {size}: choose another `prune_pattern`, or other \
         dimensions"
    )))
}

/// 1 for the `kept` highest of `scores` `[groups, size, outputs]` in each group, else 0.
fn mask<B: Backend>(scores: &Tensor<B, 3>, kept: usize) -> Tensor<B, 3> {
    let [_, size, _] = scores.dims();
    let one = |index: usize| scores.clone().narrow(1, index, 1);
    let parts = (0..size).map(|index| {
        let before = (0..index).map(|other| one(other).greater_equal(one(index)));
        let after = (index + 1..size).map(|other| one(other).greater(one(index)));
        let rank: Option<Tensor<B, 3, Int>> = before.chain(after).map(Tensor::<B, 3, Bool>::int).reduce(|a, b| a + b);
        match rank {
            Some(rank) => rank.lower_elem(i64::try_from(kept).unwrap_or(i64::MAX)).float(),
            None => one(index).ones_like(),
        }
    });
    Tensor::cat(parts.collect(), 1)
}

#[cfg(test)]
mod tests {
    use burn::{
        backend::{Flex, flex::FlexDevice},
        tensor::TensorData,
    };

    use super::*;

    #[test]
    fn the_highest_of_each_group_stay_and_of_equal_ones_the_first() {
        // Two groups of four inputs, two outputs.
        let scores =
            [[3.0_f32, 1.0], [1.0, 1.0], [2.0, 1.0], [4.0, 1.0], [0.0, -1e30], [0.0, 5.0], [-1.0, -1e30], [0.0, -2.0]];
        let data = TensorData::new(scores.concat(), [2, 4, 2]);
        let kept = |kept| {
            let mask = mask(&Tensor::<Flex, 3>::from_data(data.clone(), &FlexDevice), kept);
            let mask: Vec<f32> = mask.into_data().to_vec().unwrap();
            let column = |output: usize| {
                mask.iter().skip(output).step_by(2).map(|keep| u8::from(*keep > 0.5)).collect::<Vec<_>>()
            };
            [column(0), column(1)]
        };
        assert_eq!(kept(2), [[1, 0, 0, 1, 1, 1, 0, 0], [1, 1, 0, 0, 0, 1, 0, 1]]);
        assert_eq!(kept(1), [[0, 0, 0, 1, 1, 0, 0, 0], [1, 0, 0, 0, 0, 1, 0, 0]]);
        assert_eq!(kept(4), [[1; 8], [1; 8]]);
    }
}
