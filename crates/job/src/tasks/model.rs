//! The parameters of a GPT-2, shared by all tasks that build one.

use crate::{
    Conflict, ParamType as _, Path, Value, Values,
    params::{choice, params},
};

choice! {
    /// A named size of GPT-2.
    pub enum ModelSize {
        /// 3 layers, 4 heads, `d_model` 96, context 64. Trains in seconds on two CPU cores.
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
    /// The activation function of the MLP.
    pub enum Activation {
        /// Exact GELU, `x Φ(x)`, as in nanoGPT.
        Gelu = "gelu",
        /// The tanh approximation of GELU, as in the published GPT-2.
        GeluNew = "gelu_new",
        /// SiLU, `x σ(x)`, as in Llama.
        Silu = "silu",
        /// The square of ReLU, `max(x, 0)²` (So et al. 2021).
        Relu2 = "relu2",
    }
}

params! {
    /// A decoder: by default a GPT-2 with learned position embeddings, pre-LayerNorm and a tied output layer
    /// (ratio-ablation, section 2).
    pub struct Model {
        /// Named size, as in nanoGPT. The parameters below override its dimensions.
        model: ModelSize = ModelSize::Gpt2Nano;
        /// Number of blocks; by default the value of `model`.
        n_layer: Option<usize> = None, in 1..=1024;
        /// Number of attention heads; must divide `d_model`; by default the value of `model`.
        n_head: Option<usize> = None, in 1..=1024;
        /// Width of the residual stream; by default the value of `model`.
        d_model: Option<usize> = None, in 1..=65536;
        /// Maximum sequence length; by default the value of `model`.
        block_size: Option<usize> = None, in 1..=16_384, unit "tokens";
        /// Vocabulary size: rows of the token embedding; by default as the data requires: 256 for bytes, the tokenizer's for
        /// a folder of `tokenize`, and 50304 for other token files.
        vocab_size: Option<usize> = None, in 2..=1_000_000;
        /// Activation function of the MLP.
        activation: Activation = Activation::Gelu;
        /// Dropout probability after the embeddings, on the attention weights, and on the outputs of attention and MLP.
        dropout: f64 = 0.1, in 0.0..=0.99;
        /// Folder with initial weights in the layout of the Hugging Face Hub (`config.json`, `model.safetensors`); by
        /// default weights are random. The folder determines the dimensions, the activation and the architecture.
        init: Option<Path> = None;
    }
}

/// The dimensions of a named size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SizeDims {
    /// Number of blocks.
    pub n_layer: usize,
    /// Number of attention heads.
    pub n_head: usize,
    /// Width of the residual stream.
    pub d_model: usize,
    /// Maximum sequence length in tokens.
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

/// A dimension of the network that a job's `model` implies, if its parameters do not give it. `None` for a network that is
/// read from a folder, whose dimensions are not known before.
pub fn dimension(values: &Values, name: &str) -> Option<Value> {
    let given = |name: &str| values.get(name).filter(|value| **value != Value::Null);
    if given("init").is_some() {
        return None;
    }
    let dims = ModelSize::from_value(given("model")?)?.dims();
    let size = match name {
        "n_layer" => dims.n_layer,
        "n_head" => dims.n_head,
        "d_model" => dims.d_model,
        "block_size" => dims.block_size,
        _ => return None,
    };
    i64::try_from(size).ok().map(Value::Int)
}

impl Model {
    /// The dimensions with overrides applied. With `init`, the dimensions of the folder apply instead.
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
                message: format!("`d_model: {}` is not a multiple of `n_head: {}`", dims.d_model, dims.n_head),
                advice: "choose an `n_head` that divides `d_model`".into(),
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
                    message: format!("`{name}` conflicts with `init`, whose folder determines it"),
                    advice: format!("remove `{name}` or `init`"),
                });
            }
        }
        conflicts
    }
}
