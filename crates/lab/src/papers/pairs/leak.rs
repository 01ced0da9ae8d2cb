//! `uses: pair/leak`: memory leaks of training loops, and the same loops without the leak.

use burn::{
    backend::Autodiff,
    tensor::{Tensor, activation::tanh},
};
use sweep_job::tasks::{Leak, LeakPattern, LeakVariant};

use super::{Call, Contender, Left, Meter, attention::slope, tensor};
use crate::{LabError, backend::Compute, measure::heap};

/// Bytes in use after each iteration.
struct Watch(Vec<(f64, f64)>);

impl Watch {
    fn see<B: Compute>(&mut self, device: &B::Device) -> Result<(), LabError> {
        B::sync(device)?;
        let used_bytes = match B::device_memory(device) {
            Some(memory) => Some(memory.in_use as f64),
            None => heap::so_far().map(|heap| heap.kept as f64),
        };
        // The list of points also allocates memory, so its capacity is reserved before.
        let iteration = self.0.len() as f64;
        self.0.extend(used_bytes.map(|bytes| (iteration, bytes)));
        Ok(())
    }

    fn tell(&self, meter: &mut Meter) {
        // The first iteration allocates memory that all others reuse.
        if self.0.len() > 2 {
            meter.tell(&Leak::SLOPE, slope(&self.0[1..]));
        }
    }
}

impl Contender for Leak {
    fn reference(&self) -> Self {
        Self { variant: LeakVariant::Fixed, ..self.clone() }
    }

    fn ready<'a, B: Compute>(&'a self, seed: u64, device: &'a B::Device) -> Result<Call<'a, B>, LabError> {
        let width = self.width;
        #[expect(clippy::cast_precision_loss, reason = "a scale")]
        let scale = (width as f32).sqrt().recip();
        let x = tensor::<B, 2>(seed, "x", 0, [width, width], 1.0, device);
        let weight = tensor::<B, 2>(seed, "weight", 0, [width, width], scale, device);
        Ok(Box::new(move |meter| {
            let mut watch = Watch(Vec::with_capacity(self.iterations));
            let is_counting = heap::so_far().is_some();
            if !is_counting {
                heap::begin();
            }
            let leaks = self.variant == LeakVariant::Leaking;
            let result = match self.pattern {
                LeakPattern::Tensors => {
                    let mut list = Vec::with_capacity(self.iterations);
                    let mut product = x.clone();
                    for _ in 0..self.iterations {
                        product = x.clone() * 2.0;
                        if leaks {
                            list.push(product.clone());
                        }
                        watch.see::<B>(device)?;
                    }
                    product.mean()
                }
                LeakPattern::Losses => {
                    let weight = Tensor::<Autodiff<B>, 2>::from_inner(weight.clone()).require_grad();
                    let loss = || tanh(Tensor::from_inner(x.clone()).matmul(weight.clone())).mean();
                    let (mut graph_sum, mut loss_sum) = (loss(), loss().inner());
                    for _ in 1..self.iterations {
                        let loss = loss();
                        if leaks {
                            graph_sum = graph_sum + loss;
                        } else {
                            loss_sum = loss_sum + loss.clone().inner();
                            // Burn frees a graph with its backward pass, not with its last tensor.
                            drop(loss.backward());
                        }
                        watch.see::<B>(device)?;
                    }
                    if leaks { graph_sum.inner() } else { loss_sum }
                }
                LeakPattern::Inference => {
                    if leaks {
                        let weight = Tensor::<Autodiff<B>, 2>::from_inner(weight.clone()).require_grad();
                        let mut state = Tensor::from_inner(x.clone());
                        for _ in 0..self.iterations {
                            state = tanh(state.matmul(weight.clone()));
                            watch.see::<B>(device)?;
                        }
                        state.inner().mean()
                    } else {
                        let mut state = x.clone();
                        for _ in 0..self.iterations {
                            state = tanh(state.matmul(weight.clone()));
                            watch.see::<B>(device)?;
                        }
                        state.mean()
                    }
                }
            };
            if !is_counting {
                heap::end();
            }
            watch.tell(meter);
            Ok(Left::Device(result))
        }))
    }
}
