//! The network's parameters, shared by every task that builds one.

use crate::{
    Conflict, Path,
    params::{choice, params},
};

choice! {
    /// A named size of GPT-2.
    pub enum ModelSize {
        /// 3 layers, 4 heads, `d_model` 96, context 64: trains in seconds on two CPU cores.
        Gpt2Nano = "gpt2-nano",
        /// 12 layers, 12 heads, `d_model` 768, context 1024: 124 M parameters.
        Gpt2 = "gpt2",
        /// 24 layers, 16 heads, `d_model` 1024, context 1024: 355 M parameters.
        Gpt2Medium = "gpt2-medium",
        /// 36 layers, 20 heads, `d_model` 1280, context 1024: 774 M parameters.
        Gpt2Large = "gpt2-large",
        /// 48 layers, 25 heads, `d_model` 1600, context 1024: 1558 M parameters.
        Gpt2Xl = "gpt2-xl",
    }
}

choice! {
    /// The MLP's non-linearity.
    pub enum Activation {
        /// `x Φ(x)` with the error function: nanoGPT.
        Gelu = "gelu",
        /// The approximation with tanh: GPT-2 as published, and on the Hub.
        GeluNew = "gelu_new",
    }
}

params! {
    /// A GPT-2 (ratio-ablation, section 2): learned positions, pre-LayerNorm, tied head.
    pub struct Model {
        /// Size, in nanoGPT's names; the parameters below override single dimensions of it.
        model: ModelSize = ModelSize::Gpt2Nano;
        /// Blocks, instead of the size's.
        n_layer: Option<usize> = None, in 1..=1024;
        /// Attention heads, instead of the size's; must divide `d_model`.
        n_head: Option<usize> = None, in 1..=1024;
        /// Width of the residual stream, instead of the size's.
        d_model: Option<usize> = None, in 1..=65536;
        /// Longest sequence, instead of the size's.
        block_size: Option<usize> = None, in 1..=16_384, unit "tokens";
        /// Rows of the token table, instead of what the data needs: 256 for bytes, 50304 for token files.
        vocab_size: Option<usize> = None, in 2..=1_000_000;
        /// Non-linearity of the MLP.
        activation: Activation = Activation::Gelu;
        /// Probability of dropping an element after the embeddings, the attention probabilities, the attention output and
        /// the MLP output.
        dropout: f64 = 0.1, in 0.0..=0.99;
        /// A folder in the Hub's layout (`config.json`, `model.safetensors`) to start from, instead of random weights; it
        /// decides the dimensions, the activation and the architecture.
        init: Option<Path> = None;
    }
}

/// The dimensions of a named size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SizeDims {
    /// Blocks.
    pub n_layer: usize,
    /// Heads.
    pub n_head: usize,
    /// Width of the residual stream.
    pub d_model: usize,
    /// Longest sequence in tokens.
    pub block_size: usize,
}

impl ModelSize {
    /// The size's dimensions.
    pub const fn dims(self) -> SizeDims {
        let (n_layer, n_head, d_model, block_size) = match self {
            Self::Gpt2Nano => (3, 4, 96, 64),
            Self::Gpt2 => (12, 12, 768, 1024),
            Self::Gpt2Medium => (24, 16, 1024, 1024),
            Self::Gpt2Large => (36, 20, 1280, 1024),
            Self::Gpt2Xl => (48, 25, 1600, 1024),
        };
        SizeDims { n_layer, n_head, d_model, block_size }
    }
}

impl Model {
    /// The dimensions, overrides applied. With `init` the folder's own dimensions count instead.
    pub fn dims(&self) -> SizeDims {
        let size = self.model.dims();
        SizeDims {
            n_layer: self.n_layer.unwrap_or(size.n_layer),
            n_head: self.n_head.unwrap_or(size.n_head),
            d_model: self.d_model.unwrap_or(size.d_model),
            block_size: self.block_size.unwrap_or(size.block_size),
        }
    }

    pub(crate) fn conflicts(&self) -> Vec<Conflict> {
        let mut conflicts = Vec::new();
        let dims = self.dims();
        if self.init.is_none() && !dims.d_model.is_multiple_of(dims.n_head) {
            conflicts.push(Conflict {
                params: vec!["n_head", "d_model"],
                message: format!("d_model {} is not a multiple of n_head {}", dims.d_model, dims.n_head),
                advice: "choose a `d_model` that the heads can share".into(),
            });
        }
        if self.init.is_some() {
            let given = [
                ("n_layer", self.n_layer.is_some()),
                ("n_head", self.n_head.is_some()),
                ("d_model", self.d_model.is_some()),
                ("block_size", self.block_size.is_some()),
                ("vocab_size", self.vocab_size.is_some()),
            ];
            for (name, _) in given.into_iter().filter(|(_, given)| *given) {
                conflicts.push(Conflict {
                    params: vec![name, "init"],
                    message: format!("`{name}` is decided by the folder that `init` names"),
                    advice: format!("remove `{name}` or `init`"),
                });
            }
        }
        conflicts
    }
}
