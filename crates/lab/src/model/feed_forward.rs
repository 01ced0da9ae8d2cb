//! The kinds of MLP, split at their hidden activations, where mechanisms act.

use burn::{
    module::{Module, Param},
    tensor::{Tensor, backend::Backend},
};
use sweep_job::tasks::Activation;

use super::{
    experts::{Experts, Routing},
    layers::{Linear, Mlp},
};
use crate::ops::Ops;

/// An MLP, by its kind.
#[derive(Module, Debug)]
#[expect(clippy::large_enum_variant, reason = "a network has a handful of them, and a module is not boxed")]
pub enum FeedForward<B: Backend> {
    /// Two linear layers with an activation function between them, or a gated linear unit.
    Plain(Mlp<B>),
    /// The two linear layers without biases, in two parts.
    Reciprocal(ReciprocalMlp<B>),
    /// Several MLPs and a router.
    Experts(Experts<B>),
}

/// An MLP whose hidden activations are a standard and a reciprocal part, weighed separately (ratio-ablation, section 9.2).
#[derive(Module, Debug)]
pub struct ReciprocalMlp<B: Backend> {
    /// `[d_model, standard]`.
    pub up_std: Linear<B>,
    /// `[d_model, reciprocal]`.
    pub up_low: Linear<B>,
    /// Mixes the reciprocal part, `[reciprocal, reciprocal]`.
    pub mixer: Option<Linear<B>>,
    /// Scales the reciprocal part, `[1]`.
    pub gate_low: Option<Param<Tensor<B, 1>>>,
    /// Weight of the standard part, `[1]`.
    pub w_std: Param<Tensor<B, 1>>,
    /// Weight of the reciprocal part, `[1]`.
    pub w_rec: Param<Tensor<B, 1>>,
    /// `[standard + reciprocal, d_model]`.
    pub c_proj: Linear<B>,
    /// True if the reciprocal part exists.
    pub(crate) live: bool,
}

impl<B: Ops> FeedForward<B> {
    /// The output for `x` `[rows, d_model]`, with `between` applied to the hidden activations `[rows, hidden]`; and a router's choices.
    ///
    /// `between` is not applied to experts, because no architecture combines them with such a mechanism.
    pub(crate) fn forward(
        &self,
        x: Tensor<B, 2>,
        activation: Activation,
        coupling: f64,
        between: impl FnOnce(Tensor<B, 2>) -> Tensor<B, 2>,
    ) -> (Tensor<B, 2>, Option<Routing<B>>) {
        match self {
            Self::Plain(mlp) => (mlp.c_proj.forward(between(mlp.hidden(x, activation))), None),
            Self::Reciprocal(mlp) => (mlp.c_proj.forward(between(mlp.hidden(x, activation, coupling))), None),
            Self::Experts(experts) => {
                let (output, routing) = experts.forward(x, activation);
                (output, Some(routing))
            }
        }
    }
}

impl<B: Ops> ReciprocalMlp<B> {
    fn hidden(&self, x: Tensor<B, 2>, activation: Activation, coupling: f64) -> Tensor<B, 2> {
        let coupling = if self.live { coupling } else { 0.0 };
        let standard_part =
            Ops::activation(self.up_std.forward(x.clone()), activation) * self.w_std.val().unsqueeze::<2>();
        let mut reciprocal_part = Ops::activation(self.up_low.forward(x), activation);
        if let Some(mixer) = &self.mixer {
            reciprocal_part = mixer.forward(reciprocal_part);
        }
        if let Some(gate) = &self.gate_low {
            reciprocal_part = reciprocal_part * gate.val().unsqueeze::<2>();
        }
        Tensor::cat(vec![standard_part, reciprocal_part * (self.w_rec.val() * coupling).unsqueeze::<2>()], 1)
    }
}
