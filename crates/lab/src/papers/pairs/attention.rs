//! `uses: pair/attention`: attention with all scores in memory, or block by block.

use burn::tensor::{
    Tensor,
    module::{attention, attention_fallback},
    ops::AttentionModuleOptions,
};
use sweep_job::{
    Outcome,
    tasks::{Attention, AttentionVariant},
};

use super::{Call, Contender, Left, Meter, flat, tensor};
use crate::{LabError, backend::Compute, measure::heap};

/// Parts of the length with which memory is counted, in quarters.
const QUARTERS: [usize; 3] = [2, 3, 4];

impl Contender for Attention {
    fn reference(&self) -> Self {
        Self { variant: AttentionVariant::Naive, ..self.clone() }
    }

    fn ready<'a, B: Compute>(&'a self, seed: u64, device: &'a B::Device) -> Result<Call<'a, B>, LabError> {
        let shape = [self.batch_size, self.n_head, self.length, self.head_dim];
        let [q, k, v] = ["q", "k", "v"].map(|name| tensor::<B, 4>(seed, name, 0, shape, 1.0, device));
        Ok(Box::new(move |_| {
            let (q, k, v) = (q.clone(), k.clone(), v.clone());
            let options = AttentionModuleOptions::default();
            let out: Tensor<B, 4> = match self.variant {
                AttentionVariant::Naive => attention_fallback(q, k, v, None, None, options),
                AttentionVariant::Flash => attention(q, k, v, None, None, options),
            };
            Ok(Left::Device(flat(out)))
        }))
    }

    fn further<B: Compute>(&self, seed: u64, device: &B::Device, outcome: &mut Outcome) -> Result<(), LabError> {
        // An allocator of a device tells what is in use between operations, not the most within one.
        if B::device_memory(device).is_some() {
            return Ok(());
        }
        let mut points = Vec::new();
        for quarters in QUARTERS {
            let part = Self { length: (self.length * quarters / 4).max(1), ..self.clone() };
            let mut call = part.ready::<B>(seed, device)?;
            let (left, heap) = heap::counted(|| call(&mut Meter::new(None)));
            drop(left?);
            let Some(heap) = heap else { return Ok(()) };
            points.push(((part.length as f64).ln(), (heap.peak as f64).ln()));
        }
        outcome.set(&Attention::EXPONENT, slope(&points));
        Ok(())
    }
}

/// The slope of the line through `points` that has the least squares.
pub(super) fn slope(points: &[(f64, f64)]) -> f64 {
    let count = points.len() as f64;
    let (sum_x, sum_y) = points.iter().fold((0.0, 0.0), |(a, b), (x, y)| (a + x, b + y));
    let (mean_x, mean_y) = (sum_x / count, sum_y / count);
    let covariance: f64 = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    let variance: f64 = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    covariance / variance
}
