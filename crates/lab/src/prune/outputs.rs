//! Masks by output: each output keeps its inputs with the highest scores.

use burn::tensor::{Tensor, TensorData, backend::Backend};

use super::{Choice, Layers, part_of};
use crate::{LabError, device::read::host};

/// Masks of all `layers`, whose weights are `[inputs, outputs]`: of each output, the part `sparsity` of the inputs, rounded down,
/// is pruned. Waits for the device.
///
/// Fails if a score is NaN, or if the device fails.
pub(super) fn select<B: Backend>(
    layers: &mut Layers<'_, B>,
    inputs: &[usize],
    sparsity: f64,
) -> Result<Vec<Option<Choice<B>>>, LabError> {
    let mut choices = Vec::with_capacity(inputs.len());
    for (layer, &inputs) in inputs.iter().enumerate() {
        let pruned = part_of(sparsity, inputs);
        if pruned == 0 {
            choices.push(None);
            continue;
        }
        let scores = layers.scores(layer);
        let device = scores.device();
        let scores = host(scores)?;
        if scores.iter().any(|score| score.is_nan()) {
            return Err(layers.not_a_number(layer));
        }
        let mask = mask(&scores, inputs, pruned);
        let [count, numbers] = [mask.len() / inputs * pruned, mask.len()];
        let mask = Tensor::from_data(TensorData::new(mask, [numbers]), &device);
        choices.push(Some(Choice { threshold: f32::NAN, mask, pruned: Some(count) }));
    }
    Ok(choices)
}

/// The mask `[inputs, outputs]`: 0 for the `pruned` lowest `scores` of each output, else 1. Of equal scores, the last are kept.
fn mask(scores: &[f32], inputs: usize, pruned: usize) -> Vec<f32> {
    let outputs = scores.len() / inputs;
    let mut mask = vec![1.0; scores.len()];
    let mut order: Vec<usize> = Vec::with_capacity(inputs);
    for output in 0..outputs {
        let score = |input: usize| scores[input * outputs + output];
        order.clear();
        order.extend(0..inputs);
        order.select_nth_unstable_by(pruned - 1, |left, right| {
            score(*left).total_cmp(&score(*right)).then(left.cmp(right))
        });
        for input in &order[..pruned] {
            mask[input * outputs + output] = 0.0;
        }
    }
    mask
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_output_loses_its_lowest_scores_and_of_equal_ones_the_first() {
        // Four inputs, two outputs.
        let scores = [3.0, 1.0, 1.0, 1.0, 2.0, 1.0, 4.0, 0.5];
        assert_eq!(mask(&scores, 4, 2), [1.0, 0.0, 0.0, 1.0, 0.0, 1.0, 1.0, 0.0]);
        assert_eq!(mask(&scores, 4, 1), [1.0, 1.0, 0.0, 1.0, 1.0, 1.0, 1.0, 0.0]);
        let pruned_before = [0.0, 9.0, -1e30, 9.0];
        assert_eq!(mask(&pruned_before, 4, 1), [1.0, 1.0, 0.0, 1.0]);
    }
}
