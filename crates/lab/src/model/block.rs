//! A block: attention and MLP, each on a normalized copy of the residual stream, and the mechanisms between them in the
//! order of ratio-ablation, section 4.8.

use burn::{
    module::Module,
    tensor::{Tensor, backend::Backend},
};
use sweep_job::tasks::{Activation, Mechanism, RaCtApply};

use super::{
    attention::{Scores, TokenMixer},
    cache::BlockCache,
    experts::Routing,
    feed_forward::FeedForward,
    kv_prune,
    layers::Norm,
    mechanisms::{CrossToken, HeadGate, LatentReciprocity, Pass, RaCt, Reciprocal, head_mean},
    mutants::{self, Mutant},
};
use crate::ops::{Ops, plain::dropout};

/// Attention and MLP, and the mechanisms that couple them.
#[derive(Module, Debug)]
pub struct Block<B: Backend> {
    /// Normalization before attention.
    pub ln_1: Norm<B>,
    /// The attention.
    pub attn: TokenMixer<B>,
    /// Normalization before the MLP.
    pub ln_2: Norm<B>,
    /// The MLP.
    pub mlp: FeedForward<B>,
    /// Reciprocal attention.
    pub ra: Option<Reciprocal<B>>,
    /// The head gate: this block's strength, and the layers that compute the next block's gate.
    pub gate: Option<HeadGate<B>>,
    /// Cross-token aggregation.
    pub cross: Option<CrossToken<B>>,
    /// Latent reciprocity.
    pub recip: Option<LatentReciprocity<B>>,
    /// RA-CT.
    pub ra_ct: Option<RaCt<B>>,
    /// True if keys and values are pruned.
    pub(crate) kv_prune: bool,
}

/// Values that an MLP passes to the next block.
#[derive(Debug, Clone)]
pub(crate) struct Handed<B: Backend> {
    /// The gate of its heads, `[batch, length, heads]`.
    pub(crate) gate: Option<Tensor<B, 3>>,
    /// Summand of its latent keys, `[batch * length, latent]`.
    pub(crate) back: Option<Tensor<B, 2>>,
    /// The choices of the routers of all blocks so far.
    pub(crate) routing: Option<Routing<B>>,
}

impl<B: Backend> Handed<B> {
    /// Values for the first block.
    pub(crate) const NOTHING: Self = Self { gate: None, back: None, routing: None };
}

/// Values that attention passes to the MLP of its block.
struct Attended<B: Backend> {
    /// `[batch * length, d_model]`.
    output: Tensor<B, 2>,
    /// The mean of the heads' weights, without gradient, `[batch, length, seen]`.
    weights: Option<Tensor<B, 3>>,
    /// The latent keys, without gradient, `[batch * length, latent]`.
    keys: Option<Tensor<B, 2>>,
}

/// The parts of a forward pass that are the same in every block.
#[derive(Debug)]
pub(crate) struct Flow<'a, B: Backend> {
    pub(crate) pass: Pass<'a, B>,
    pub(crate) activation: Activation,
    /// Probability of dropout.
    pub(crate) dropout: f64,
    /// Position of the first token.
    pub(crate) position: usize,
    /// The tokens' value embeddings, `[batch * length, width]`.
    pub(crate) embedded: Option<Tensor<B, 2>>,
}

impl<B: Ops> Block<B> {
    /// The residual stream `x` `[batch * length, d_model]` after this block, and the values for the next block.
    pub(crate) fn forward(
        &self,
        x: Tensor<B, 2>,
        handed: Handed<B>,
        flow: &Flow<'_, B>,
        mut cache: Option<&mut BlockCache<B>>,
    ) -> (Tensor<B, 2>, Handed<B>) {
        let normal = self.ln_1.forward(x.clone());
        let (routing, handed) = (handed.routing.clone(), Handed { routing: None, ..handed });
        let and_earlier = |new: Option<Routing<B>>| match new {
            Some(new) => Some(new.after(routing)),
            None => routing,
        };
        // Kernels are causal of themselves: without the mask only the long way computes wrongly.
        let is_plain = self.is_plain() && !mutants::active(Mutant::MaskDropped);
        if let (TokenMixer::Standard(attention), true, None, Some(mask)) =
            (&self.attn, is_plain, &cache, &flow.pass.rows.mask)
        {
            let Pass { batch, rows, .. } = flow.pass;
            let (rope, embedded) = (rows.rope.as_ref(), flow.embedded.as_ref());
            let x = B::add(x, attention.forward(normal, batch, mask, rope, embedded, flow.dropout));
            let normal = self.ln_2.forward(x.clone());
            let (output, routing) = self.mlp.forward(normal, flow.activation, flow.pass.coupling, |hidden| hidden);
            let output = dropout(output, flow.dropout);
            return (B::add(x, output), Handed { routing: and_earlier(routing), ..Handed::NOTHING });
        }
        let Attended { output, weights, keys } = self.attend(normal, handed, flow, cache.as_deref_mut());
        let x = x + output;
        let (output, handed) = self.think(self.ln_2.forward(x.clone()), weights, keys, flow, cache);
        (x + output, Handed { routing: and_earlier(handed.routing), ..handed })
    }

    /// True if it has no mechanism.
    fn is_plain(&self) -> bool {
        !matches!(self.mlp, FeedForward::Reciprocal(_))
            && self.ra.is_none()
            && self.gate.is_none()
            && self.cross.is_none()
            && self.recip.is_none()
            && self.ra_ct.is_none()
    }

    fn attend(
        &self,
        x: Tensor<B, 2>,
        handed: Handed<B>,
        flow: &Flow<'_, B>,
        mut cache: Option<&mut BlockCache<B>>,
    ) -> Attended<B> {
        let [rows, d_model] = x.dims();
        let Pass { batch, rows: masks, coupling } = flow.pass;
        let mut projection = self.attn.project(x, &flow.pass, flow.embedded.as_ref());
        if let (Some(recip), Some(back)) = (&self.recip, handed.back) {
            projection.keys = recip.add_to_keys(projection.keys, back, coupling);
        }
        let keys = self.recip.is_some().then(|| {
            let latent = projection.keys.dims()[3];
            projection.keys.clone().detach().reshape([rows, latent])
        });

        let own_values = projection.values.clone();
        let scores = Scores::new(projection, cache.as_deref_mut());
        let reverse = self.ra.as_ref().and_then(|ra| {
            let reverse = scores.reverse(ra.spec.window, masks, cache.as_deref_mut())?;
            Some(ra.add(scores.raw.clone(), reverse, coupling))
        });
        let logits = reverse.unwrap_or_else(|| scores.raw.clone());
        let [_, heads, length, _] = logits.dims();
        let mut weights = Scores::weights(logits, masks);

        if let (true, Some(pruning)) = (self.kv_prune, &masks.pruning) {
            weights = kv_prune::prune(weights, pruning, cache);
        }
        let gate_values = handed.gate.filter(|_| !mutants::active(Mutant::GateDropped));
        if let (Some(gate), Some(gate_values)) = (&self.gate, gate_values) {
            weights = B::scale_rows(weights, gate.factor(gate_values, coupling));
        }
        let mut output_factor = None;
        if let Some(ra_ct) = &self.ra_ct {
            let factor = ra_ct.factor(weights.clone(), &flow.pass);
            match ra_ct.spec.apply {
                RaCtApply::Weights => weights = B::scale_rows(weights, factor),
                RaCtApply::Output => output_factor = Some(factor),
            }
        }
        let weights = dropout(weights, flow.dropout);
        let mean_weights = self.cross.is_some().then(|| head_mean(weights.clone().detach(), batch, heads));

        let mut context = self.attn.restarted(self.attn.lift(scores.context(weights)), own_values);
        if let Some(factor) = output_factor {
            let width = d_model / heads;
            let scaled_context = B::scale_rows(context.reshape([batch * heads * length, width]), factor);
            context = scaled_context.reshape([batch, heads, length, width]);
        }
        let output = self.attn.output(context.swap_dims(1, 2).reshape([rows, d_model]));
        Attended { output: dropout(output, flow.dropout), weights: mean_weights, keys }
    }

    /// Applies the MLP, with the values that attention passes to it.
    fn think(
        &self,
        x: Tensor<B, 2>,
        weights: Option<Tensor<B, 3>>,
        keys: Option<Tensor<B, 2>>,
        flow: &Flow<'_, B>,
        mut cache: Option<&mut BlockCache<B>>,
    ) -> (Tensor<B, 2>, Handed<B>) {
        let mut handed = Handed::NOTHING;
        let exchange = |mut hidden: Tensor<B, 2>| {
            if let (Some(recip), Some(keys)) = (&self.recip, keys) {
                let (new_hidden, back) = recip.exchange(hidden, keys, flow.pass.coupling);
                hidden = new_hidden;
                handed.back = Some(back);
            }
            if let (Some(cross), Some(weights)) = (&self.cross, weights) {
                hidden = cross.gather(hidden, weights, &flow.pass, cache.as_deref_mut());
            }
            if let Some(gate) = &self.gate {
                handed.gate = Some(gate.produce(hidden.clone(), &flow.pass, cache, flow.position));
            }
            hidden
        };
        let (output, routing) = self.mlp.forward(x, flow.activation, flow.pass.coupling, exchange);
        handed.routing = routing;
        (dropout(output, flow.dropout), handed)
    }
}

impl<B: Backend> Block<B> {
    /// This block without `mechanism`.
    pub(crate) fn without(mut self, mechanism: Mechanism) -> Self {
        match mechanism {
            Mechanism::Reciprocal => self.ra = None,
            Mechanism::Gate => self.gate = None,
            Mechanism::Cross => self.cross = None,
            Mechanism::Recip => self.recip = None,
            Mechanism::RaCt => self.ra_ct = None,
            Mechanism::Folded => {
                if let TokenMixer::Folded(attention) = &mut self.attn {
                    attention.live = false;
                }
            }
            Mechanism::Restart => {
                if let TokenMixer::Folded(attention) = &mut self.attn {
                    attention.restart = None;
                }
            }
            Mechanism::RMlp => {
                if let FeedForward::Reciprocal(mlp) = &mut self.mlp {
                    mlp.live = false;
                }
            }
            Mechanism::KvPrune => self.kv_prune = false,
        }
        self
    }
}
