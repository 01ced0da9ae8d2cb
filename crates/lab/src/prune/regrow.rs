//! Masks that are random at first, and of which a part is replaced at intervals (RigL): the kept weights with the smallest
//! magnitudes go, and as many others with the largest gradients come.

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
    /// Takes random masks, each of which prunes the part `sparsity` of its layer. Returns the part of all weights.
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

    /// Replaces the part `share` of the kept weights of each layer of `network`, whose `gradients` are those of all weights.
    /// Weights that go and weights that come are 0 afterwards, as are their moments. Waits for the device.
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
        // A weight that goes may come back at once: as a new one.
        let network = self.apply::<AB, M>(network, optimizer);
        for (index, mask) in grown {
            self.masks[index] = Some(mask);
        }
        self.choices += 1;
        Ok(network)
    }
}

/// `mask` without the part `share` of its kept weights, those with the smallest magnitudes, and then with as many of those that
/// are not kept, those with the largest magnitudes of the gradient. Of equal ones, the first. `None` if a number is NaN.
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

/// The places of the numbers that are `wanted`.
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
