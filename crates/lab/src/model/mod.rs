//! GPT-2 (ratio-ablation, section 2): learned positions, pre-LayerNorm blocks, one table for tokens and output; and the
//! networks of the architecture ablation, which differ from it in their blocks.
//!
//! Inside the network activations are two-dimensional, `[batch * length, features]`: every linear layer is then one
//! matrix product, and every broadcast is of a row or of a column, which the CPU backend has fast paths for.
//!
//! `sweep_job::tasks::architecture` resolves a recipe's parameters to a block's specification without open choices. `dims.rs`
//! lists every parameter without allocating memory, `build.rs` allocates them, `block.rs` applies the mechanisms in order,
//! `attention.rs`, `feed_forward.rs` and `experts.rs` have the kinds of attention and MLP, `mechanisms.rs` the others. A block without
//! mechanisms takes the fast path through `layers.rs`. Whole sequences and decoding with a cache (`cache.rs`) use the same
//! code; `mutants.rs` has deliberate defects for the tests of the check.

mod attention;
mod attention_masks;
mod block;
mod build;
mod cache;
mod dims;
mod experts;
mod feed_forward;
mod gpt;
pub mod hub;
mod init;
pub(crate) mod inputs;
mod kv_prune;
mod layers;
mod loss;
mod mechanisms;
mod mutants;
mod param_info;
mod params;
pub mod quantize;
mod rope;
#[cfg(test)]
mod tests;

pub use attention::{FoldedAttention, LatentAttention, TokenMixer};
pub use block::Block;
pub(crate) use block::Handed;
pub use cache::Cache;
pub use dims::{GptDims, VOCAB_BYTES, VOCAB_UINT16};
pub use experts::Experts;
pub use feed_forward::{FeedForward, ReciprocalMlp};
pub use gpt::{Gpt, Network};
pub use init::initial_values;
pub use layers::{Attention, Embedding, LAYER_NORM_EPSILON, Linear, Mlp, Norm};
pub use loss::{Auxiliary, Objective, cross_entropy};
pub use mechanisms::{CrossToken, HeadGate, LatentReciprocity, RaCt, Reciprocal};
#[cfg(test)]
pub(crate) use mutants::{Mutant, with as with_fault};
pub use param_info::{ParamInfo, Role};
pub(crate) use params::ids;
pub use params::{gradients, infos, map_values, values};
pub use rope::Rope;
