//! Initial weights (ratio-ablation, section 2; 4.2 for MLA's maps), drawn on the host.
//!
//! Every tensor has its own stream, named after it, so a weight's value depends on the seed, its name and its position
//! in the tensor only, and is the same on every backend and in every network.

use rand::Rng;
use rand_distr::StandardNormal;
use sweep_job::tasks::AttentionKind;

use super::{
    dims::GptDims,
    param_info::{ParamInfo, Role},
};
use crate::rng;

/// Standard deviation of weights. For weights that end a residual branch, it is divided by `sqrt(2 n_layer)`.
const STD: f32 = 0.02;
/// Bias of a gate's sigmoid: mostly open (ratio-ablation, sections 4.4 and 4.7).
const OPEN: f32 = 2.0;

/// The initial values of a parameter, row by row.
pub fn initial_values(dims: &GptDims, info: &ParamInfo, seed: u64) -> Vec<f32> {
    let std = match info.role() {
        Role::Vector => return vec![initial_vector(dims, &info.name); info.len()],
        Role::Linear if info.name.ends_with(".c_proj.weight") => hidden_std(dims) / (2.0 * dims.n_layer as f32).sqrt(),
        Role::Linear => hidden_std(dims),
        // A map per head preserves the scale of its input.
        Role::HeadMaps => (info.shape[1] as f32).sqrt().recip(),
        Role::Router | Role::TokenTable | Role::Head | Role::PositionTable | Role::ValueTable => STD,
    };
    let mut rng = rng::stream(seed, "init", &info.name, &[]);
    (0..info.len()).map(|_| rng.sample::<f32, _>(StandardNormal) * std).collect()
}

/// Standard deviation of a matrix whose inputs grow with the width, so that its outputs do not.
fn hidden_std(dims: &GptDims) -> f32 {
    #[expect(clippy::cast_possible_truncation, reason = "weights are in single precision")]
    let ratio = dims.width_ratio() as f32;
    STD / ratio.sqrt()
}

/// The initial value of every number in a vector.
fn initial_vector(dims: &GptDims, name: &str) -> f32 {
    let block = &dims.block;
    let last_two = name.rsplitn(3, '.').take(2).collect::<Vec<_>>();
    #[expect(clippy::cast_possible_truncation, reason = "a strength is a single-precision parameter")]
    let strength = |alpha: Option<f64>| alpha.unwrap_or(0.0) as f32;
    match last_two[..] {
        ["weight", layer] if layer.starts_with("ln_") || layer.ends_with("_norm") => 1.0,
        ["alpha", "ra"] => strength(block.reciprocal.map(|spec| spec.alpha)),
        ["alpha", "gate"] => strength(block.gate.map(|spec| spec.alpha)),
        ["alpha", "cross"] => strength(block.cross.map(|spec| spec.alpha)),
        ["alpha_mlp" | "alpha_attn", "recip"] => strength(block.recip.map(|spec| spec.alpha)),
        ["bias", "heads" | "ra_ct"] => OPEN,
        ["scale", "ra_ct"] => 1.0,
        // Each part of the unified series' attention and MLP begins with its part of the width.
        ["w_std", "attn"] => 1.0 - folded_part(dims),
        ["w_rec", "attn"] => folded_part(dims),
        ["w_std", "mlp"] => 1.0 - low_part(dims),
        ["w_rec", "mlp"] => low_part(dims),
        ["restart", "attn"] => 0.05,
        ["value_mix", "attn"] => 0.5,
        ["gate_low", "mlp"] => 0.1,
        _ => 0.0,
    }
}

/// The part of a head that scores the reverse pair.
fn folded_part(dims: &GptDims) -> f32 {
    match dims.block.attention {
        AttentionKind::Folded { rank, .. } => rank as f32 / (dims.d_model / dims.n_head) as f32,
        AttentionKind::Standard | AttentionKind::Latent { .. } => 0.0,
    }
}

/// The part of the MLP's width that is reciprocal.
fn low_part(dims: &GptDims) -> f32 {
    dims.block.r_mlp.map_or(0.0, |spec| spec.low as f32 / dims.mlp_hidden() as f32)
}
