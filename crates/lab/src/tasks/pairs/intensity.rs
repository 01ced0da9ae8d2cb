//! `uses: pair/arithmetic-intensity`: a matrix product whole, or in tiles of its inner dimension.

use sweep_job::{Outcome, Unit, tasks::Intensity};

use super::{Call, Contender, Left, flat, tensor};
use crate::{LabError, backend::Compute, measure::ceiling::Ceiling};

/// Operations for each byte: A and B are read once; C is written once, or read and written for every tile.
fn intensity(pair: &Intensity) -> f64 {
    let n = pair.size as f64;
    let operations = 2.0 * n.powi(3);
    let numbers = match pair.k_tile {
        0 => 3.0 * n * n,
        tile => 2.0 * n * n + 2.0 * n * n * (n / tile as f64),
    };
    operations / (numbers * size_of::<f32>() as f64)
}

impl Contender for Intensity {
    fn reference(&self) -> Self {
        Self { k_tile: 0, ..self.clone() }
    }

    fn ready<'a, B: Compute>(&'a self, seed: u64, device: &'a B::Device) -> Result<Call<'a, B>, LabError> {
        let size = self.size;
        let [a, b] = ["a", "b"].map(|name| tensor::<B, 2>(seed, name, 0, [size, size], 1.0, device));
        Ok(Box::new(move |_| {
            let (a, b) = (a.clone(), b.clone());
            if self.k_tile == 0 {
                return Ok(Left::Device(flat(a.matmul(b))));
            }
            let tile = self.k_tile;
            let product = |first: usize| a.clone().narrow(1, first, tile).matmul(b.clone().narrow(0, first, tile));
            let products = (tile..size).step_by(tile);
            Ok(Left::Device(flat(products.fold(product(0), |sum, first| sum + product(first)))))
        }))
    }

    fn describe(&self, _: &[f32], median: f64, outcome: &mut Outcome) {
        outcome.metric("compute.flops", 2.0 * (self.size as f64).powi(3) / median, Unit::FlopsPerSecond);
        outcome.metric("intensity", intensity(self), Unit::One);
    }

    fn further<B: Compute>(&self, _: u64, device: &B::Device, outcome: &mut Outcome) -> Result<(), LabError> {
        let Ceiling { flops, bytes } = Ceiling::measure::<B>(device, burn::tensor::DType::F32)?;
        outcome.metric("peak.compute", flops, Unit::FlopsPerSecond);
        outcome.metric("peak.bandwidth", bytes, Unit::BytesPerSecond);
        Ok(())
    }
}
