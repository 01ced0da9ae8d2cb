//! GPT-2 (ratio-ablation, section 2): learned positions, pre-LayerNorm blocks, one table for tokens and output.
//!
//! Inside the network activations are two-dimensional, `[batch * length, features]`: every linear layer is then one
//! matrix product, and every broadcast is of a row or of a column, which the CPU backend has fast paths for.

mod dims;
mod gpt;
mod init;
mod layers;
mod loss;
mod params;

pub use dims::{GptDims, ParamInfo, Role, VOCAB_BYTES, VOCAB_UINT16};
pub use gpt::{Gpt, Network};
pub use init::initial_values;
pub use layers::{Attention, Block, Embedding, LAYER_NORM_EPSILON, LayerNorm, Linear, Mlp};
pub use loss::cross_entropy;
pub use params::{gradients, infos, map_values, values};
