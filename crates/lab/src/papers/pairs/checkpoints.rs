//! `uses: pair/training`: the forward and backward pass of a GPT-2 that keeps its activations, or computes them again.

use burn::{
    backend::Autodiff,
    tensor::{Int, Tensor, TensorData},
};
use rand::Rng;
use sweep_job::{
    Outcome,
    tasks::{Activation, BlockSpec, Checkpointing, Checkpoints, Computing},
};

use super::{Call, Contender, Left};
use crate::{
    LabError,
    backend::Compute,
    measure::Part,
    model::{Gpt, GptDims},
    optim::gradient::{Dropout, Forward},
    rng,
};

impl Contender for Checkpoints {
    fn reference(&self) -> Self {
        Self { variant: Checkpointing::Off, ..self.clone() }
    }

    fn ready<'a, B: Compute>(&'a self, seed: u64, device: &'a B::Device) -> Result<Call<'a, B>, LabError> {
        let dims = GptDims {
            n_layer: self.n_layer,
            n_head: self.n_head,
            d_model: self.d_model,
            block_size: self.block_size,
            vocab_size: self.vocab_size,
            activation: Activation::Gelu,
            block: BlockSpec::GPT2,
        };
        let network = Gpt::<Autodiff<B>>::random(dims, seed, device)?;
        let tokens = |name| {
            let mut random = rng::stream(seed, "pair", name, &[]);
            let count = self.batch_size * self.block_size;
            let vocab_size = i64::try_from(self.vocab_size).unwrap_or(i64::MAX);
            let ids: Vec<i64> = (0..count).map(|_| random.random_range(0..vocab_size)).collect();
            Tensor::<B, 2, Int>::from_data(TensorData::new(ids, [self.batch_size, self.block_size]), device)
        };
        let (inputs, targets) = (tokens("inputs"), tokens("targets"));
        let computing = Computing { checkpointing: self.variant, ..Computing::default() };
        Ok(Box::new(move |meter| {
            let dropout = Dropout { p: 0.0, seed, at: [0, 0] };
            let forward = meter.part::<B, _>(Part::Forward, device, || {
                Forward::<B>::new(&network, inputs.clone(), targets.clone(), &computing, dropout)
            })?;
            let loss = forward.loss();
            let gradients = meter.part::<B, _>(Part::Backward, device, || forward.backward(1.0))?;
            let numbers = std::iter::once(loss).chain(gradients.into_iter().flatten()).collect();
            Ok(Left::Device(Tensor::cat(numbers, 0)))
        }))
    }

    fn describe(&self, first: &[f32], _: f64, outcome: &mut Outcome) {
        if let Some(loss) = first.first() {
            outcome.set(&Checkpoints::LOSS, f64::from(*loss));
        }
    }
}
