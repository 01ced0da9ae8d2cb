//! Dimensions of a network, and its parameters as arithmetic, without a tensor.

use sweep_job::tasks::{Activation, DecayOn, Model};

use crate::LabError;

/// Rows of the token table for bytes.
pub const VOCAB_BYTES: usize = 256;

/// Rows of the token table for files of token ids: GPT-2's 50257, padded to a multiple of 64.
pub const VOCAB_UINT16: usize = 50_304;

/// The dimensions of a GPT-2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GptDims {
    /// Blocks.
    pub n_layer: usize,
    /// Attention heads.
    pub n_head: usize,
    /// Width of the residual stream.
    pub d_model: usize,
    /// Longest sequence in tokens.
    pub block_size: usize,
    /// Rows of the token table.
    pub vocab_size: usize,
    /// The MLP's non-linearity.
    pub activation: Activation,
}

/// What a parameter is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The table of tokens, which is also the output layer.
    TokenTable,
    /// The table of positions.
    PositionTable,
    /// The weight of a linear layer.
    Linear,
    /// A bias, or a gain of a LayerNorm.
    Vector,
}

/// A parameter's name, shape and role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParamInfo {
    /// Its name in nanoGPT and on the Hub, such as `h.0.attn.c_attn.weight`.
    pub name: String,
    /// Its shape; linear weights are `[in, out]`.
    pub shape: Vec<usize>,
}

impl ParamInfo {
    /// Numbers in it.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether it has no numbers.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What it is for.
    pub fn role(&self) -> Role {
        match self.name.as_str() {
            "wte.weight" => Role::TokenTable,
            "wpe.weight" => Role::PositionTable,
            _ if self.shape.len() >= 2 => Role::Linear,
            _ => Role::Vector,
        }
    }

    /// Whether weight decay shrinks it.
    pub fn decays(&self, on: DecayOn) -> bool {
        match on {
            DecayOn::Linear => self.role() == Role::Linear,
            DecayOn::Matrices => self.shape.len() >= 2,
            DecayOn::All => true,
        }
    }

    /// Whether its weights may be pruned: those of linear layers, and the token table with `tied_head`.
    pub fn prunable(&self, tied_head: bool) -> bool {
        match self.role() {
            Role::Linear => true,
            Role::TokenTable => tied_head,
            Role::PositionTable | Role::Vector => false,
        }
    }
}

impl GptDims {
    /// The dimensions that a recipe asks for; `vocab_size` is what the data needs, unless the recipe gives its own.
    ///
    /// Fails where the heads cannot share `d_model`.
    pub fn new(model: &Model, vocab_size: usize) -> Result<Self, LabError> {
        let size = model.dims();
        let dims = Self {
            n_layer: size.n_layer,
            n_head: size.n_head,
            d_model: size.d_model,
            block_size: size.block_size,
            vocab_size: model.vocab_size.unwrap_or(vocab_size),
            activation: model.activation,
        };
        dims.checked()
    }

    /// These dimensions, if a network can have them.
    pub(crate) fn checked(self) -> Result<Self, LabError> {
        let Self { n_layer, n_head, d_model, block_size, vocab_size, .. } = self;
        if [n_layer, n_head, d_model, block_size, vocab_size].contains(&0) {
            return Err(LabError::Dimensions(
                "n_layer, n_head, d_model, block_size and vocab_size must be at least 1".into(),
            ));
        }
        if !d_model.is_multiple_of(n_head) {
            return Err(LabError::Dimensions(format!("d_model {d_model} is not a multiple of n_head {n_head}")));
        }
        Ok(self)
    }

    /// Every parameter in the network's order, the tied table once.
    pub fn parameters(&self) -> Vec<ParamInfo> {
        let mut list = Vec::with_capacity(12 * self.n_layer + 4);
        let mut add = |name: String, shape: &[usize]| list.push(ParamInfo { name, shape: shape.to_vec() });
        let d = self.d_model;
        add("wte.weight".into(), &[self.vocab_size, d]);
        add("wpe.weight".into(), &[self.block_size, d]);
        for block in 0..self.n_layer {
            for (layer, shape) in [
                ("ln_1", [0, d]),
                ("attn.c_attn", [d, 3 * d]),
                ("attn.c_proj", [d, d]),
                ("ln_2", [0, d]),
                ("mlp.c_fc", [d, 4 * d]),
                ("mlp.c_proj", [4 * d, d]),
            ] {
                let weight = if shape[0] == 0 { &shape[1..] } else { &shape[..] };
                add(format!("h.{block}.{layer}.weight"), weight);
                add(format!("h.{block}.{layer}.bias"), &shape[1..]);
            }
        }
        add("ln_f.weight".into(), &[d]);
        add("ln_f.bias".into(), &[d]);
        list
    }

    /// Numbers in the network, by arithmetic: 124,475,904 for size `gpt2` with 50,304 tokens.
    pub fn parameter_count(&self) -> usize {
        self.parameters().iter().map(ParamInfo::len).sum()
    }

    /// What the loss of an untrained network is near, in nats: a uniform guess, plus half the variance of the logits
    /// (ratio-ablation, section 2).
    pub fn initial_loss(&self) -> f64 {
        (self.vocab_size as f64).ln() + self.d_model as f64 * 0.02 * 0.02 / 2.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpt2_has_the_published_number_of_parameters() {
        let model = Model { model: sweep_job::tasks::ModelSize::Gpt2, ..Model::default() };
        let dims = GptDims::new(&model, VOCAB_UINT16).unwrap();
        assert_eq!(dims.parameter_count(), 124_475_904);
        let prunable = |tied| dims.parameters().iter().filter(|info| info.prunable(tied)).map(ParamInfo::len).sum();
        let (without_head, with_head): (usize, usize) = (prunable(false), prunable(true));
        assert_eq!((without_head, with_head), (84_934_656, 123_568_128));
        assert!((dims.initial_loss() - 10.98).abs() < 0.01);
    }

    #[test]
    fn heads_must_share_the_width() {
        let model = Model { n_head: Some(5), ..Model::default() };
        let error = GptDims::new(&model, VOCAB_BYTES).unwrap_err();
        assert_eq!(error.to_string(), "d_model 96 is not a multiple of n_head 5");
    }

    #[test]
    fn decay_groups() {
        let dims = GptDims::new(&Model::default(), VOCAB_BYTES).unwrap();
        let names = |on| -> Vec<String> {
            dims.parameters().into_iter().filter(|info| info.decays(on)).map(|info| info.name).collect()
        };
        let (linear, matrices) = (names(DecayOn::Linear), names(DecayOn::Matrices));
        assert_eq!(linear.len(), 12);
        assert_eq!(matrices.len(), 14);
        assert!(linear.iter().all(|name| name.contains(".c_") && name.ends_with(".weight")));
        assert_eq!(matrices[..2], ["wte.weight", "wpe.weight"]);
        assert_eq!(names(DecayOn::All).len(), dims.parameters().len());
    }
}
