//! A mixture of experts: several MLPs, of which a router chooses some for each token, and the loss that balances the choices.
//!
//! Every expert computes every token, and a mask keeps the outputs that count: a token takes the time of all experts. That is
//! one sequence of products without a read of the choices from the device, which would stop it in every block.

use burn::{
    module::Module,
    tensor::{Tensor, backend::Backend},
};
use sweep_job::tasks::Activation;

use super::{
    inputs,
    layers::{Linear, Mlp},
};
use crate::ops::Ops;

/// A router and its experts.
#[derive(Module, Debug)]
pub struct Experts<B: Backend> {
    /// Projection to a logit for each expert, `[d_model, experts]`.
    pub router: Linear<B>,
    /// The experts.
    pub experts: Vec<Mlp<B>>,
    /// Experts that a token chooses.
    pub(crate) per_token: usize,
    /// Factor of the logits.
    pub(crate) logit_factor: f64,
}

/// The choices of the routers of some blocks, summed over these blocks.
#[derive(Debug, Clone)]
pub(crate) struct Routing<B: Backend> {
    /// The part of the tokens that choose each expert, without gradient, `[experts]`.
    choices: Tensor<B, 1>,
    /// The mean probability of each expert, `[experts]`.
    pub(crate) probabilities: Tensor<B, 1>,
    blocks: usize,
}

impl<B: Ops> Experts<B> {
    /// The outputs `[rows, d_model]` of the experts that each row of `x` `[rows, d_model]` chooses, weighted, and the choices.
    pub(crate) fn forward(&self, x: Tensor<B, 2>, activation: Activation) -> (Tensor<B, 2>, Routing<B>) {
        let [rows, _] = x.dims();
        let count = self.experts.len();
        // In single precision also where other products are shorter: rounding would change choices.
        let logits = x.clone().matmul(self.router.weight.val());
        let logits = if self.logit_factor == 1.0 { logits } else { logits * self.logit_factor };
        let chosen = B::largest(logits.clone(), self.per_token).detach();
        let probabilities = B::softmax_rows(logits, None, count);
        let weights = if self.per_token == 1 {
            // The softmax of one logit, which has no gradient.
            chosen.clone()
        } else {
            let kept = probabilities.clone() * chosen.clone();
            let sums = kept.clone().sum_dim(1);
            kept / sums
        };
        let column = |tensor: &Tensor<B, 2>, index: usize| tensor.clone().slice([0..rows, index..index + 1]);
        let mut sum: Option<Tensor<B, 2>> = None;
        for (index, expert) in self.experts.iter().enumerate() {
            let output = if inputs::is_recording() {
                recorded(expert, x.clone(), column(&chosen, index), activation)
            } else {
                expert.c_proj.forward(expert.hidden(x.clone(), activation))
            };
            let output = B::scale_rows(output, column(&weights, index));
            sum = Some(match sum {
                Some(sum) => sum + output,
                None => output,
            });
        }
        let mean = |tensor: Tensor<B, 2>| tensor.mean_dim(0).reshape([count]);
        let routing = Routing { choices: mean(chosen), probabilities: mean(probabilities), blocks: 1 };
        (sum.unwrap_or(x), routing)
    }
}

/// The output of `expert` for the rows that choose it, whose inputs alone are recorded.
fn recorded<B: Ops>(expert: &Mlp<B>, x: Tensor<B, 2>, chosen: Tensor<B, 2>, activation: Activation) -> Tensor<B, 2> {
    let hidden = expert.hidden(B::scale_rows(x, chosen.clone()), activation);
    expert.c_proj.forward(B::scale_rows(hidden, chosen))
}

impl<B: Backend> Routing<B> {
    /// The choices of `earlier` blocks and of these.
    pub(super) fn after(self, earlier: Option<Self>) -> Self {
        match earlier {
            None => self,
            Some(earlier) => Self {
                choices: earlier.choices + self.choices,
                probabilities: earlier.probabilities + self.probabilities,
                blocks: earlier.blocks + self.blocks,
            },
        }
    }

    /// The balancing loss, `[1]`, if these are the choices of all blocks: the number of experts times the sum over experts of the
    /// part of tokens that choose it and its mean probability, both over the tokens of all blocks. That is the sum of Fedus et al.
    /// ("Switch Transformers", 2021, equation 4) as Hugging Face's Mixtral computes it.
    pub(super) fn loss(self) -> Tensor<B, 1> {
        let slopes = self.slopes();
        (self.probabilities * slopes).sum()
    }

    /// The derivative of [`loss`](Self::loss) with respect to the probabilities, `[experts]`.
    pub(crate) fn slopes(&self) -> Tensor<B, 1> {
        let [count] = self.choices.dims();
        self.choices.clone() * (count as f64 / (self.blocks * self.blocks) as f64)
    }
}
