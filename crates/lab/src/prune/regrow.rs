//! Masks that are random at first and change at intervals (RigL): the share of the kept weights with the smallest
//! magnitudes is pruned, and the same number of weights with the largest gradients is grown.

use burn::{
    module::Module,
    tensor::{Tensor, TensorData, backend::AutodiffBackend},
};
use rand::seq::index;

use super::{Pruner, Selects, part_of};
use crate::{
    LabError,
    device::read::host,
    model,
    optim::{AdamW, Gradients},
    rng,
};

impl<B: Selects> Pruner<B> {
    /// Draws random masks, each of which prunes the fraction `sparsity` of its layer. Returns the pruned fraction of
    /// all weights.
    pub fn draw(&mut self, sparsity: f64, device: &B::Device) -> f64 {
        let (mut all, mut total) = (0, 0);
        for (&index, (name, size)) in self.layers.iter().zip(&self.names) {
            let pruned = part_of(sparsity, *size);
            let mut mask = vec![1.0; *size];
            for place in index::sample(&mut rng::stream(self.seed, "random mask", name, &[]), *size, pruned) {
                mask[place] = 0.0;
            }
            self.masks[index] = Some(Tensor::from_data(TensorData::new(mask, [*size]), device));
            (all, total) = (all + pruned, total + size);
        }
        all as f64 / total.max(1) as f64
    }

    /// Replaces the fraction `share` of the kept weights of each layer of `network`; `gradients` are the gradients of
    /// all weights, also of pruned ones. Pruned and grown weights are 0 afterwards, as are their moments. Waits for the
    /// device.
    ///
    /// # Errors
    ///
    /// A layer has no gradient, a weight or gradient is NaN, or a tensor cannot be read from the device.
    pub fn replace<AB, M>(
        &mut self,
        network: M,
        optimizer: &mut AdamW<B>,
        gradients: &Gradients<B>,
        share: f64,
    ) -> Result<M, LabError>
    where
        AB: AutodiffBackend<InnerBackend = B>,
        M: Module<AB>,
    {
        let values = model::values::<AB, M>(&network);
        let mut grown = Vec::with_capacity(self.layers.len());
        for (&index, (name, size)) in self.layers.iter().zip(&self.names) {
            let Some(mask) = self.masks[index].take() else { continue };
            let Some(Some(gradient)) = gradients.get(index) else {
                return Err(self.no_gradient(name));
            };
            let device = mask.device();
            let [mask, weights, gradient] = [host(mask)?, host(values[index].clone())?, host(gradient.clone())?];
            let replaced = replaced(&mask, &weights, &gradient, share);
            let replaced = replaced.ok_or_else(|| LabError::NotANumber { parameter: name.clone() })?;
            let [remaining, new] = replaced.map(|mask| Tensor::from_data(TensorData::new(mask, [*size]), &device));
            self.masks[index] = Some(remaining);
            grown.push((index, new));
        }
        // Masks without the grown weights are applied first, so that a weight that is pruned and grown at once starts
        // at 0.
        let network = self.apply::<AB, M>(network, optimizer);
        for (index, mask) in grown {
            self.masks[index] = Some(mask);
        }
        self.choices += 1;
        Ok(network)
    }
}

/// Returns two masks: `mask` without the fraction `share` of its kept weights with the smallest magnitudes, and that
/// mask with the same number of weights that have the largest magnitudes of the gradient. Of equal magnitudes, the
/// first count. `None` if a number is NaN.
fn replaced(mask: &[f32], weights: &[f32], gradient: &[f32], share: f64) -> Option<[Vec<f32>; 2]> {
    if weights.iter().chain(gradient).any(|number| number.is_nan()) {
        return None;
    }
    let mut remaining = mask.to_vec();
    let mut kept = places(&remaining, |keep| keep > 0.0);
    let count = part_of(share, kept.len());
    if count == 0 {
        return Some([remaining.clone(), remaining]);
    }
    kept.select_nth_unstable_by(count - 1, |left, right| {
        weights[*left].abs().total_cmp(&weights[*right].abs()).then(left.cmp(right))
    });
    for place in &kept[..count] {
        remaining[*place] = 0.0;
    }
    let mut free = places(&remaining, |keep| keep == 0.0);
    free.select_nth_unstable_by(count - 1, |left, right| {
        gradient[*right].abs().total_cmp(&gradient[*left].abs()).then(left.cmp(right))
    });
    let mut grown = remaining.clone();
    for place in &free[..count] {
        grown[*place] = 1.0;
    }
    Some([remaining, grown])
}

/// The indices of the numbers in `mask` for which `wanted` returns true.
fn places(mask: &[f32], wanted: impl Fn(f32) -> bool) -> Vec<usize> {
    mask.iter().enumerate().filter(|(_, keep)| wanted(**keep)).map(|(place, _)| place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_go_and_those_with_the_largest_gradients_come() {
        let mask = [1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0];
        let weights = [0.5, -0.1, 0.1, -2.0, 0.0, 0.0, 0.0];
        let gradient = [9.0, 0.3, 0.2, 9.0, -0.4, 0.1, 0.0];
        let after = |share| replaced(&mask, &weights, &gradient, share).unwrap();
        assert_eq!(after(0.24), [mask, mask].map(Vec::from), "less than a weight");
        let [remaining, grown] = after(0.25);
        assert_eq!(remaining, [1.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0], "the first of equal ones");
        assert_eq!(grown, [1.0, 0.0, 1.0, 1.0, 1.0, 0.0, 0.0]);
        let [remaining, grown] = after(0.5);
        assert_eq!(remaining, [1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]);
        assert_eq!(grown, [1.0, 1.0, 0.0, 1.0, 1.0, 0.0, 0.0], "what has gone may come back");
        assert_eq!(replaced(&mask, &weights, &[f32::NAN; 7], 0.5), None);
        assert_eq!(replaced(&[1.0; 3], &[1.0, 2.0, 3.0], &[0.0; 3], 1.0).unwrap()[1], [1.0; 3], "all of a dense layer");
    }
}
