//! The network: tables, blocks, final normalization, output layer.

use std::ops::Range;

use burn::{
    module::{Module, ModuleMapper, Param},
    tensor::{DType, Int, Tensor, backend::Backend},
};
use sweep_job::tasks::{Mechanism, Position};

use super::{
    attention_masks::{AttentionMasks, Rows},
    block::{Block, Flow, Handed},
    build::Builder,
    cache::{BlockCache, Cache},
    dims::GptDims,
    init::initial_values,
    layers::{Embedding, Norm},
    loss::{Auxiliary, Objective, cross_entropy, objective},
    mechanisms::Pass,
    mutants::{self, Mutant},
    param_info::ParamInfo,
};
use crate::{
    LabError,
    ops::{Ops, autocast, plain::dropout},
};

/// A language model, as the training loop and the checks see it.
pub trait Network<B: Backend>: Module<B> {
    /// Logits `[batch, length, vocab]` of the next token after each of `tokens` `[batch, length]`.
    ///
    /// `dropout` is the probability in the four places that have one; 0 computes deterministically.
    fn logits(&self, tokens: Tensor<B, 2, Int>, dropout: f64) -> Tensor<B, 3>;

    /// Logits `[batch, 1, vocab]` of the token after `token` `[batch, 1]`, which follows the tokens in `cache` and is added to them;
    /// without dropout.
    ///
    /// Fails where the network has no position left.
    fn decode(&self, token: Tensor<B, 2, Int>, cache: &mut Cache<B>) -> Result<Tensor<B, 3>, LabError>;

    /// This network with its mechanisms coupled in by `scale`, from 0 to 1, instead of 1.
    fn coupled(self, scale: f64) -> Self;

    /// This network without `mechanism`.
    fn without(self, mechanism: Mechanism) -> Self;

    /// The mean cross-entropy of the logits after `tokens` against `targets`, `[1]`, in nats.
    ///
    /// A network may compute it without ever having all logits.
    fn loss(&self, tokens: Tensor<B, 2, Int>, targets: Tensor<B, 2, Int>, dropout: f64) -> Tensor<B, 1> {
        cross_entropy(self.logits(tokens, dropout), targets)
    }
}

/// A GPT-2, possibly with other blocks.
#[derive(Module, Debug)]
pub struct Gpt<B: Backend> {
    /// The token table `[vocab, d_model]`, also the output layer if there is no other.
    pub wte: Embedding<B>,
    /// The position table `[block_size, d_model]`, of learned positions.
    pub wpe: Option<Embedding<B>>,
    /// The table of value embeddings `[vocab, width]`, if there is one.
    pub vte: Option<Embedding<B>>,
    /// The blocks.
    pub h: Vec<Block<B>>,
    /// Normalization before the output layer.
    pub ln_f: Norm<B>,
    /// The output layer `[vocab, d_model]`, if it is not the token table.
    pub lm_head: Option<Embedding<B>>,
    pub(crate) masks: AttentionMasks<B>,
    /// Strength of the mechanisms, from 0 to 1.
    #[module(skip)]
    coupling: f64,
    #[module(skip)]
    dims: GptDims,
}

impl<B: Backend> Gpt<B> {
    /// A network with random weights.
    pub fn random(dims: GptDims, seed: u64, device: &B::Device) -> Result<Self, LabError> {
        Self::with_values(dims, device, |info| Ok(initial_values(&dims, info, seed)))
    }

    /// Creates a network with the values that `values_of` returns for each parameter, row by row.
    pub fn with_values(
        dims: GptDims,
        device: &B::Device,
        mut values_of: impl FnMut(&ParamInfo) -> Result<Vec<f32>, LabError>,
    ) -> Result<Self, LabError> {
        let dims = dims.checked()?;
        let mut builder = Builder { dims, device, values_of: &mut values_of, prefix: String::new() };
        let d = dims.d_model;
        Ok(Self {
            wte: Embedding { weight: builder.tensor("wte.weight", [dims.vocab_size, d])? },
            wpe: match dims.block.parts.position {
                Position::Learned => Some(Embedding { weight: builder.tensor("wpe.weight", [dims.block_size, d])? }),
                Position::Rope { .. } | Position::None => None,
            },
            vte: if dims.block.parts.value_embeddings > 0 {
                Some(Embedding { weight: builder.tensor("vte.weight", [dims.vocab_size, dims.shared_width()])? })
            } else {
                None
            },
            h: (0..dims.n_layer).map(|block| builder.block(block)).collect::<Result<_, _>>()?,
            ln_f: builder.norm("ln_f", d)?,
            lm_head: if dims.block.parts.tie {
                None
            } else {
                Some(Embedding { weight: builder.tensor("lm_head.weight", [dims.vocab_size, d])? })
            },
            masks: AttentionMasks::new(&dims, device),
            coupling: 1.0,
            dims,
        })
    }

    /// The network's dimensions.
    pub fn dims(&self) -> &GptDims {
        &self.dims
    }

    /// Strength of the mechanisms, from 0 to 1.
    pub fn coupling(&self) -> f64 {
        self.coupling
    }

    /// Sets the strength of the mechanisms, from 0 to 1.
    pub fn set_coupling(&mut self, scale: f64) {
        self.coupling = scale.clamp(0.0, 1.0);
    }

    /// This network with all its numbers in another format.
    pub(crate) fn in_format(self, dtype: DType) -> Self {
        let mut network = self.map(&mut Cast(dtype));
        network.masks = network.masks.in_format(dtype);
        network
    }
}

impl<B: Ops> Gpt<B> {
    /// Input of the output layer, `[batch * length, d_model]`; see [`Network::logits`].
    pub(crate) fn hidden(&self, tokens: Tensor<B, 2, Int>, dropout_p: f64) -> Tensor<B, 2> {
        let rows = self.rows(tokens.dims()[1]);
        self.stream(tokens, 0, &rows, dropout_p, None).0
    }

    /// The normalized residual stream of `tokens`, the first of which is at `position`, and the values that the last block passes on.
    fn stream(
        &self,
        tokens: Tensor<B, 2, Int>,
        position: usize,
        rows: &Rows<B>,
        dropout_p: f64,
        cache: Option<&mut Cache<B>>,
    ) -> (Tensor<B, 2>, Handed<B>) {
        let flow = self.flow(&tokens, position, rows, dropout_p);
        let x = self.embed(tokens, position, dropout_p, cache.is_some());
        let (x, handed) = self.through(0..self.h.len(), (x, Handed::NOTHING), &flow, cache);
        (self.ln_f.forward(x), handed)
    }

    /// Input of the first block for `tokens`, the first of which is at `position`: `[batch * length, d_model]`.
    pub(crate) fn embed(
        &self,
        tokens: Tensor<B, 2, Int>,
        position: usize,
        dropout_p: f64,
        cached: bool,
    ) -> Tensor<B, 2> {
        let [batch, length] = tokens.dims();
        let GptDims { d_model, block_size, .. } = self.dims;
        // A sequence as one row, so that adding the positions repeats a row.
        let x = self.wte.forward(tokens).reshape([batch, length * d_model]);
        let x = match self.wpe.as_ref().filter(|_| !mutants::active(Mutant::NoPositions)) {
            Some(wpe) => {
                let positions = wpe.weight.val();
                let start = if cached && mutants::active(Mutant::CachedPosition) { 0 } else { position };
                let positions = if length == block_size { positions } else { positions.narrow(0, start, length) };
                x + positions.reshape([1, length * d_model])
            }
            None => x,
        };
        dropout(x.reshape([batch * length, d_model]), dropout_p)
    }

    /// The parts of a forward pass over `tokens`, the first of which is at `position`, that are the same in every block.
    pub(crate) fn flow<'a>(
        &self,
        tokens: &Tensor<B, 2, Int>,
        position: usize,
        rows: &'a Rows<B>,
        dropout: f64,
    ) -> Flow<'a, B> {
        let [batch, length] = tokens.dims();
        let pass = Pass { batch, rows, coupling: self.coupling };
        let embedded = self.vte.as_ref().map(|vte| {
            let width = vte.weight.dims()[1];
            vte.forward(tokens.clone()).reshape([batch * length, width])
        });
        Flow { pass, activation: self.dims.activation, dropout, position, embedded }
    }

    /// Visible positions of sequences of `length` tokens.
    pub(crate) fn rows(&self, length: usize) -> Rows<B> {
        self.masks.rows(length, self.dims.block.gate.map(|gate| gate.pool))
    }

    /// The residual stream after the blocks `range`, and the values that they pass on.
    pub(crate) fn through(
        &self,
        range: Range<usize>,
        (mut x, mut handed): (Tensor<B, 2>, Handed<B>),
        flow: &Flow<'_, B>,
        cache: Option<&mut Cache<B>>,
    ) -> (Tensor<B, 2>, Handed<B>) {
        let [rows, _] = x.dims();
        let sequences = [flow.pass.batch, rows / flow.pass.batch];
        let mut caches: Vec<Option<&mut BlockCache<B>>> = match cache {
            Some(cache) => cache.blocks.iter_mut().map(Some).collect(),
            None => self.h.iter().map(|_| None).collect(),
        };
        for index in range {
            handed.gate = mutants::route(index, handed.gate.take(), sequences);
            (x, handed) = self.h[index].forward(x, handed, flow, caches[index].as_deref_mut());
            mutants::made(index, handed.gate.as_ref());
        }
        (x, handed)
    }

    /// Returns the objective, see [`objective`](Self::objective), of the output of the last block, without the loss that balances
    /// experts.
    pub(crate) fn objective_after(&self, x: Tensor<B, 2>, targets: Tensor<B, 2, Int>, z_loss: f64) -> Objective<B> {
        self.objective_of(self.ln_f.forward(x), targets, z_loss)
    }

    /// The loss, see [`Network::loss`], and its sum with the auxiliary losses, which a training minimizes.
    pub(crate) fn objective(
        &self,
        tokens: Tensor<B, 2, Int>,
        targets: Tensor<B, 2, Int>,
        dropout_p: f64,
        Auxiliary { z_loss, balance_loss }: Auxiliary,
    ) -> Objective<B> {
        let rows = self.rows(tokens.dims()[1]);
        let (hidden, handed) = self.stream(tokens, 0, &rows, dropout_p, None);
        let Objective { cross_entropy, total } = self.objective_of(hidden, targets, z_loss);
        match handed.routing.filter(|_| balance_loss != 0.0) {
            Some(routing) => Objective { cross_entropy, total: total + routing.loss() * balance_loss },
            None => Objective { cross_entropy, total },
        }
    }

    /// The objective of the input of the output layer, in single precision for any format of `hidden`.
    fn objective_of(&self, hidden: Tensor<B, 2>, targets: Tensor<B, 2, Int>, z_loss: f64) -> Objective<B> {
        let hidden = self.narrowed(hidden);
        let format = if hidden.dtype() == DType::F32 { autocast::cast_format::<B>() } else { Some(hidden.dtype()) };
        let table = self.output_table();
        let cross_entropy = match format {
            None if self.dims.block.parts.logit_cap == 0.0 && z_loss == 0.0 => {
                B::tied_cross_entropy(hidden, table, targets)
            }
            _ => {
                let logits = match format {
                    None => autocast::product(hidden, table.transpose()),
                    Some(format) => hidden.cast(format).matmul(table.cast(format).transpose()).cast(DType::F32),
                };
                let logits = self.capped(logits);
                if z_loss != 0.0 {
                    return objective(logits, targets, z_loss);
                }
                let [batch, length] = targets.dims();
                cross_entropy(logits.reshape([batch, length, self.dims.vocab_size]), targets)
            }
        };
        Objective { total: cross_entropy.clone(), cross_entropy }
    }

    /// Returns the logits of the output of the last block for `batch` sequences.
    pub(crate) fn logits_after(&self, x: Tensor<B, 2>, batch: usize) -> Tensor<B, 3> {
        self.head(self.ln_f.forward(x), batch)
    }

    /// Returns the logits of the output of [`stream`](Self::stream).
    fn head(&self, hidden: Tensor<B, 2>, batch: usize) -> Tensor<B, 3> {
        let length = hidden.dims()[0] / batch;
        let logits = autocast::product(self.narrowed(hidden), self.output_table().transpose());
        self.capped(logits).reshape([batch, length, self.dims.vocab_size])
    }

    /// `hidden` over the ratio of widths, so that logits do not grow with the width.
    fn narrowed(&self, hidden: Tensor<B, 2>) -> Tensor<B, 2> {
        match self.dims.width_ratio() {
            1.0 => hidden,
            ratio => hidden * ratio.recip(),
        }
    }

    /// The weights of the output layer, `[vocab, d_model]`.
    fn output_table(&self) -> Tensor<B, 2> {
        self.lm_head.as_ref().unwrap_or(&self.wte).weight.val()
    }

    /// `logits` within the limit of their magnitude, if there is one.
    fn capped(&self, logits: Tensor<B, 2>) -> Tensor<B, 2> {
        match self.dims.block.parts.logit_cap {
            0.0 => logits,
            cap => (logits * cap.recip()).tanh() * cap,
        }
    }
}

impl<B: Ops> Network<B> for Gpt<B> {
    fn logits(&self, tokens: Tensor<B, 2, Int>, dropout_p: f64) -> Tensor<B, 3> {
        let batch = tokens.dims()[0];
        self.head(self.hidden(tokens, dropout_p), batch)
    }

    fn loss(&self, tokens: Tensor<B, 2, Int>, targets: Tensor<B, 2, Int>, dropout_p: f64) -> Tensor<B, 1> {
        self.objective(tokens, targets, dropout_p, Auxiliary::default()).total
    }

    fn decode(&self, token: Tensor<B, 2, Int>, cache: &mut Cache<B>) -> Result<Tensor<B, 3>, LabError> {
        let position = cache.length;
        if position >= self.dims.block_size {
            return Err(LabError::Dimensions(format!("the context of {position} tokens is full")));
        }
        if cache.blocks.len() != self.h.len() {
            let (cache_blocks, blocks) = (cache.blocks.len(), self.h.len());
            return Err(LabError::Dimensions(format!(
                "the cache was made for {cache_blocks} blocks, but the network has {blocks}"
            )));
        }
        let batch = token.dims()[0];
        let rows = self.masks.next(position);
        let (hidden, _) = self.stream(token, position, &rows, 0.0, Some(cache));
        cache.length += 1;
        Ok(self.head(hidden, batch))
    }

    fn coupled(mut self, scale: f64) -> Self {
        self.set_coupling(scale);
        self
    }

    fn without(mut self, mechanism: Mechanism) -> Self {
        self.h = self.h.into_iter().map(|block| block.without(mechanism)).collect();
        self
    }
}

/// Brings parameters into a format.
struct Cast(DType);

impl<B: Backend> ModuleMapper<B> for Cast {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<B, D>>) -> Param<Tensor<B, D>> {
        let (id, tensor, mapper) = param.consume();
        let requires_gradient = tensor.is_require_grad();
        Param::from_mapped_value(id, tensor.detach().cast(self.0).set_require_grad(requires_gradient), mapper)
    }
}
