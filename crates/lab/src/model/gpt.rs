//! The network: tables, blocks, final LayerNorm, tied output layer.

use burn::{
    module::{Module, Param},
    tensor::{Int, Tensor, TensorData, backend::Backend},
};

use super::{
    dims::{GptDims, ParamInfo},
    init::initial_values,
    layers::{Attention, Block, Embedding, LayerNorm, Linear, Mlp},
    loss::cross_entropy,
};
use crate::{
    LabError,
    ops::{Ops, plain::dropout},
};

/// Added to the score of a key that a query must not see. Finite, because shader languages promise nothing about
/// infinities; its exponential is exactly 0 in every format.
const HIDDEN: f32 = -1e30;

/// A language model, as the training loop and the checks see it.
pub trait Network<B: Backend>: Module<B> {
    /// Logits `[batch, length, vocab]` of the next token after each of `tokens` `[batch, length]`.
    ///
    /// `dropout` is the probability in the four places that have one; 0 computes deterministically.
    fn logits(&self, tokens: Tensor<B, 2, Int>, dropout: f64) -> Tensor<B, 3>;

    /// The mean cross-entropy of the logits after `tokens` against `targets`, `[1]`, in nats.
    ///
    /// A network may compute it without ever having all logits.
    fn loss(&self, tokens: Tensor<B, 2, Int>, targets: Tensor<B, 2, Int>, dropout: f64) -> Tensor<B, 1> {
        cross_entropy(self.logits(tokens, dropout), targets)
    }
}

/// A GPT-2.
#[derive(Module, Debug)]
pub struct Gpt<B: Backend> {
    /// The token table `[vocab, d_model]`, also the output layer.
    pub wte: Embedding<B>,
    /// The position table `[block_size, d_model]`.
    pub wpe: Embedding<B>,
    /// The blocks.
    pub h: Vec<Block<B>>,
    /// Before the output layer.
    pub ln_f: LayerNorm<B>,
    /// What is added to the scores `[block_size, block_size]`: 0 on and below the diagonal.
    pub(crate) mask: Tensor<B, 2>,
    #[module(skip)]
    dims: GptDims,
}

impl<B: Backend> Gpt<B> {
    /// A network with random weights.
    pub fn random(dims: GptDims, seed: u64, device: &B::Device) -> Result<Self, LabError> {
        Self::with_values(dims, device, |info| Ok(initial_values(&dims, info, seed)))
    }

    /// A network with the values that `values_of` gives for each parameter, row by row.
    pub fn with_values(
        dims: GptDims,
        device: &B::Device,
        mut values_of: impl FnMut(&ParamInfo) -> Result<Vec<f32>, LabError>,
    ) -> Result<Self, LabError> {
        let dims = dims.checked()?;
        let mut builder = Builder { device, values_of: &mut values_of };
        let d = dims.d_model;
        let wte = Embedding { weight: builder.tensor("wte.weight", [dims.vocab_size, d])? };
        let wpe = Embedding { weight: builder.tensor("wpe.weight", [dims.block_size, d])? };
        let h = (0..dims.n_layer)
            .map(|block| {
                Ok(Block {
                    ln_1: builder.layer_norm(&format!("h.{block}.ln_1"), d)?,
                    attn: Attention {
                        c_attn: builder.linear(&format!("h.{block}.attn.c_attn"), d, 3 * d)?,
                        c_proj: builder.linear(&format!("h.{block}.attn.c_proj"), d, d)?,
                        n_head: dims.n_head,
                    },
                    ln_2: builder.layer_norm(&format!("h.{block}.ln_2"), d)?,
                    mlp: Mlp {
                        c_fc: builder.linear(&format!("h.{block}.mlp.c_fc"), d, 4 * d)?,
                        c_proj: builder.linear(&format!("h.{block}.mlp.c_proj"), 4 * d, d)?,
                    },
                })
            })
            .collect::<Result<_, LabError>>()?;
        let ln_f = builder.layer_norm("ln_f", d)?;
        Ok(Self { wte, wpe, h, ln_f, mask: causal_mask(dims.block_size, device), dims })
    }

    /// The network's dimensions.
    pub fn dims(&self) -> &GptDims {
        &self.dims
    }

    /// The mask for sequences of `length`, as one row.
    fn mask_row(&self, length: usize) -> Tensor<B, 2> {
        let mask = self.mask.clone();
        let mask = if length == self.dims.block_size { mask } else { mask.slice([0..length, 0..length]) };
        mask.reshape([1, length * length])
    }
}

impl<B: Ops> Gpt<B> {
    /// What the output layer gets, `[batch * length, d_model]`; see [`Network::logits`].
    pub(crate) fn hidden(&self, tokens: Tensor<B, 2, Int>, dropout_p: f64) -> Tensor<B, 2> {
        let [batch, length] = tokens.dims();
        let GptDims { d_model, block_size, activation, .. } = self.dims;
        let positions = self.wpe.weight.val();
        let positions = if length == block_size { positions } else { positions.narrow(0, 0, length) };
        // A sequence as one row, so that adding the positions repeats a row.
        let x = self.wte.forward(tokens).reshape([batch, length * d_model]) + positions.reshape([1, length * d_model]);
        let mut x = dropout(x.reshape([batch * length, d_model]), dropout_p);
        let mask = self.mask_row(length);
        for block in &self.h {
            x = block.forward(x, batch, &mask, activation, dropout_p);
        }
        self.ln_f.forward(x)
    }
}

impl<B: Ops> Network<B> for Gpt<B> {
    fn logits(&self, tokens: Tensor<B, 2, Int>, dropout_p: f64) -> Tensor<B, 3> {
        let [batch, length] = tokens.dims();
        let logits = self.hidden(tokens, dropout_p).matmul(self.wte.weight.val().transpose());
        logits.reshape([batch, length, self.dims.vocab_size])
    }

    fn loss(&self, tokens: Tensor<B, 2, Int>, targets: Tensor<B, 2, Int>, dropout_p: f64) -> Tensor<B, 1> {
        B::tied_cross_entropy(self.hidden(tokens, dropout_p), self.wte.weight.val(), targets)
    }
}

/// 0 where the key's position is at most the query's, [`HIDDEN`] elsewhere.
fn causal_mask<B: Backend>(length: usize, device: &B::Device) -> Tensor<B, 2> {
    let values: Vec<f32> =
        (0..length * length).map(|index| if index % length > index / length { HIDDEN } else { 0.0 }).collect();
    Tensor::from_data(TensorData::new(values, [length, length]), device)
}

/// Makes parameters one after the other from named values.
struct Builder<'a, B: Backend> {
    device: &'a B::Device,
    values_of: &'a mut dyn FnMut(&ParamInfo) -> Result<Vec<f32>, LabError>,
}

impl<B: Backend> Builder<'_, B> {
    fn tensor<const D: usize>(&mut self, name: &str, shape: [usize; D]) -> Result<Param<Tensor<B, D>>, LabError> {
        let info = ParamInfo { name: name.to_owned(), shape: shape.to_vec() };
        let values = (self.values_of)(&info)?;
        Ok(Param::from_tensor(Tensor::from_data(TensorData::new(values, shape), self.device)))
    }

    fn linear(&mut self, name: &str, input: usize, output: usize) -> Result<Linear<B>, LabError> {
        Ok(Linear {
            weight: self.tensor(&format!("{name}.weight"), [input, output])?,
            bias: self.tensor(&format!("{name}.bias"), [output])?,
        })
    }

    fn layer_norm(&mut self, name: &str, d_model: usize) -> Result<LayerNorm<B>, LabError> {
        Ok(LayerNorm {
            weight: self.tensor(&format!("{name}.weight"), [d_model])?,
            bias: self.tensor(&format!("{name}.bias"), [d_model])?,
        })
    }
}
