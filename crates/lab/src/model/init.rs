//! Initial weights (ratio-ablation, section 2), drawn on the host.
//!
//! Every tensor has a stream of its own, named after it, so a weight's value depends on the seed, its name and its
//! place in the tensor only: it is the same on every backend and whatever other tensors there are.

use rand::Rng;
use rand_distr::StandardNormal;

use super::dims::{GptDims, ParamInfo, Role};
use crate::rng;

/// Standard deviation of weights; those that end a residual branch get it divided by `sqrt(2 n_layer)`.
const STD: f32 = 0.02;

/// The initial values of a parameter, row by row.
pub fn initial_values(dims: &GptDims, info: &ParamInfo, seed: u64) -> Vec<f32> {
    let std = match info.role() {
        Role::Vector => {
            let is_gain = info.name.contains("ln_") && info.name.ends_with(".weight");
            return vec![if is_gain { 1.0 } else { 0.0 }; info.len()];
        }
        Role::Linear if info.name.ends_with(".c_proj.weight") => STD / (2.0 * dims.n_layer as f32).sqrt(),
        Role::Linear | Role::TokenTable | Role::PositionTable => STD,
    };
    let mut rng = rng::stream(seed, "init", &info.name, &[]);
    (0..info.len()).map(|_| rng.sample::<f32, _>(StandardNormal) * std).collect()
}
