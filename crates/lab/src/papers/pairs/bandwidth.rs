//! `uses: pair/bandwidth`: the same sums, read and written with a stride or contiguously.

use std::time::Instant;

use burn::tensor::{Int, Tensor, TensorData};
use sweep_cpu_kernels::pairs::{in_order, strided};
use sweep_job::{
    Outcome,
    tasks::{Bandwidth, BandwidthVariant, PeakMetrics},
};

use super::{Call, Contender, Left, normal};
use crate::{LabError, backend::Compute, measure::ceiling::Ceiling};

/// Copies of which the fastest counts.
const COPIES: usize = 5;

/// Bytes that a call has to read and write: two numbers and one.
fn traffic(pair: &Bandwidth) -> f64 {
    (3 * size_of::<f32>() * pair.numbers * pair.passes) as f64
}

impl Contender for Bandwidth {
    fn reference(&self) -> Self {
        Self { variant: BandwidthVariant::Contiguous, passes: 1, ..self.clone() }
    }

    fn ready<'a, B: Compute>(&'a self, seed: u64, device: &'a B::Device) -> Result<Call<'a, B>, LabError> {
        let (a, b) = (normal(seed, "a", 0, self.numbers, 1.0), normal(seed, "b", 0, self.numbers, 1.0));
        if B::SYNCHRONOUS {
            let mut c = vec![0.0; self.numbers];
            return Ok(Box::new(move |_| {
                for _ in 0..self.passes {
                    match self.variant {
                        BandwidthVariant::Contiguous => in_order(&a, &b, &mut c),
                        BandwidthVariant::Strided => strided(&a, &b, &mut c, self.stride),
                    }
                }
                Ok(Left::Host(c.clone()))
            }));
        }
        let [a, b] = [a, b].map(|numbers| Tensor::<B, 1>::from_data(TensorData::new(numbers, [self.numbers]), device));
        let place = |index: usize| i64::try_from(index * self.stride % self.numbers).unwrap_or(i64::MAX);
        let places: Vec<i64> = (0..self.numbers).map(place).collect();
        let places = Tensor::<B, 1, Int>::from_data(TensorData::new(places, [self.numbers]), device);
        Ok(Box::new(move |_| {
            let mut c = None;
            for _ in 0..self.passes {
                c = Some(match self.variant {
                    BandwidthVariant::Contiguous => (a.clone() + b.clone()) * 0.5,
                    BandwidthVariant::Strided => {
                        (a.clone().select(0, places.clone()) + b.clone().select(0, places.clone())) * 0.5
                    }
                });
            }
            Ok(match (c, self.variant) {
                (None, _) => Left::Host(Vec::new()),
                (Some(c), BandwidthVariant::Contiguous) => Left::Device(c),
                (Some(c), BandwidthVariant::Strided) => Left::Strided(c, self.stride),
            })
        }))
    }

    fn describe(&self, _: &[f32], median: f64, outcome: &mut Outcome) {
        outcome.set(&Bandwidth::ACHIEVED, traffic(self) / median);
    }

    fn further<B: Compute>(&self, _: u64, device: &B::Device, outcome: &mut Outcome) -> Result<(), LabError> {
        let ceiling = if B::SYNCHRONOUS {
            copied(self.numbers)
        } else {
            Ceiling::measure::<B>(device, burn::tensor::DType::F32)?.bytes
        };
        outcome.set(&PeakMetrics::BANDWIDTH, ceiling);
        if let Some(rate) = outcome.value(&Bandwidth::ACHIEVED) {
            outcome.set(&Bandwidth::RATIO, rate / ceiling);
        }
        Ok(())
    }
}

/// Bytes that a copy by one core reads and writes a second, at best.
fn copied(numbers: usize) -> f64 {
    let source = vec![1.0_f32; numbers];
    let mut target = vec![0.0_f32; numbers];
    let mut min_seconds = f64::INFINITY;
    for _ in 0..COPIES {
        let start = Instant::now();
        target.copy_from_slice(std::hint::black_box(&source));
        std::hint::black_box(&mut target);
        min_seconds = min_seconds.min(start.elapsed().as_secs_f64());
    }
    (2 * size_of::<f32>() * numbers) as f64 / min_seconds
}
