//! The structure of a block: the steps of the architecture ablation, and individual mechanisms (ratio-ablation,
//! sections 4 and 5). All defaults give a plain GPT-2.

mod experts;
mod parametrization;
mod parts;
mod presets;
mod spec;

pub use experts::ExpertsSpec;
pub use parametrization::Parametrization;
pub use parts::{NormKind, Parts, Position, PositionKind, RopeScaling, RopeScalingKind};
pub use presets::{Ablation, AblationNet, StepPruning};
pub use spec::{
    AttentionKind, BlockSpec, CrossProjection, CrossSpec, GateSpec, Keep, KvPruneSpec, Mechanism, RMlpSpec, RaCtSpec,
    RecipSpec, ReciprocalSpec, Selection,
};

use super::model::SizeDims;
use crate::{
    Conflict,
    params::{choice, params},
};

choice! {
    /// A kind of attention.
    pub enum AttentionWord {
        /// Separate queries, keys and values for each head: GPT-2.
        Standard = "standard",
        /// Multi-head latent attention: all keys from one latent vector, all values from another (ratio-ablation,
        /// section 4.2).
        Mla = "mla",
    }
}

choice! {
    /// Tokens over which the input of the head gate is averaged.
    pub enum GatePool {
        /// Tokens up to the query.
        PrefixMean = "prefix_mean",
        /// The query's own token.
        Token = "token",
        /// All tokens, as in the reference. Not causal, hence not usable for training.
        SequenceMean = "sequence_mean",
    }
}

choice! {
    /// Attention weights that cross-token aggregation keeps.
    pub enum CrossSelect {
        /// The `cross_k` largest weights of a row.
        Topk = "topk",
        /// Weights of at least `cross_tau` times the root mean square of the row's visible weights.
        Rms = "rms",
        /// All weights, without normalization.
        None = "none",
    }
}

choice! {
    /// Projection of the values that cross-token aggregation has gathered.
    pub enum CrossProj {
        /// A bottleneck of width `cross_dim`.
        Bottleneck = "bottleneck",
        /// A square matrix of the MLP's width, as in the reference: more than 100 M parameters.
        Full = "full",
    }
}

choice! {
    /// Weight sharing between the two directions of latent reciprocity.
    pub enum RecipTying {
        /// One matrix is the transpose of the other.
        TiedTranspose = "tied_transpose",
        /// Separate matrices.
        Untied = "untied",
    }
}

choice! {
    /// Statistic from which the gate of RA-CT is computed.
    pub enum RaCtStatistic {
        /// No gate.
        None = "none",
        /// The sum of a row's `ra_ct_k` largest attention weights.
        Topk = "topk",
        /// The largest weight of a row.
        Max = "max",
        /// The row's entropy, in nats.
        Entropy = "entropy",
        /// The root mean square of the row's visible weights.
        Rms = "rms",
    }
}

choice! {
    /// Target of the gate of RA-CT.
    pub enum RaCtApply {
        /// The output of a head.
        Output = "output",
        /// The attention weights, blended by `ra_ct_alpha`.
        Weights = "weights",
    }
}

params! {
    /// The structure of a block, in addition to the model's size.
    pub struct Architecture {
        /// Step of the architecture ablation to start from; 0 is a plain GPT-2. The parameters below override it. It
        /// selects only the network: step 1 has the same network as step 0, and its pruning is declared separately, in
        /// `train` by `prune: bitter0` and `optimizer: adamwspam`.
        ablation: Ablation = Ablation::Step0;
        /// Variant of the step's network: sized to the documented budget, with the reference's sizes, or as the
        /// reference's code builds it.
        ablation_net: AblationNet = AblationNet::Budget;
        /// Kind of attention.
        attention: Option<AttentionWord> = None;
        /// Width of MLA's latent vectors; by default 128 at `d_model` 768, scaled with `d_model`.
        latent_dim: Option<usize> = None, in 1..=65_536;
        /// Hidden width of the MLP; by default the value of the ablation step, which is 4 × `d_model` in a plain
        /// GPT-2.
        mlp_hidden: Option<usize> = None, in 1..=1_000_000;
        /// Reciprocal attention: adds the score of the reverse pair within a causal band.
        ra: Option<bool> = None;
        /// Initial weight of the reverse score, learned per layer; by default 0.3.
        ra_alpha: Option<f64> = None, in -10.0..=10.0;
        /// Width of the causal band; by default 64 at `block_size` 1024, scaled with `block_size`.
        ra_window: Option<usize> = None, in 0..=65_536, unit "tokens";
        /// MLP-to-attention head gate: each MLP gates the attention heads of the next block.
        mlp_gate: Option<bool> = None;
        /// Initial strength of the head gate, learned per layer; by default 0.1.
        gate_alpha: Option<f64> = None, in -10.0..=10.0;
        /// Width of the head gate; by default 64 at `d_model` 768, scaled with `d_model`.
        gate_dim: Option<usize> = None, in 1..=65_536;
        /// Tokens over which the input of the head gate is averaged; by default `prefix_mean`.
        gate_pool: Option<GatePool> = None;
        /// Cross-token aggregation: the MLP also gathers its hidden activations along the attention weights.
        cross_token: Option<bool> = None;
        /// Initial strength of cross-token aggregation, learned per layer; by default 0.3.
        cross_alpha: Option<f64> = None, in -10.0..=10.0;
        /// Attention weights that cross-token aggregation keeps; by default `topk`.
        cross_select: Option<CrossSelect> = None;
        /// Number of weights per row that `topk` keeps; by default 8.
        cross_k: Option<usize> = None, in 1..=65_536;
        /// Threshold of `rms`; by default 0.5.
        cross_tau: Option<f64> = None, in 0.0..=1000.0;
        /// Normalize the kept weights to a sum of 1; by default true.
        cross_normalise: Option<bool> = None;
        /// Projection of the gathered values; by default `bottleneck`.
        cross_proj: Option<CrossProj> = None;
        /// Width of the bottleneck; by default 96 at `d_model` 768, scaled with `d_model`.
        cross_dim: Option<usize> = None, in 1..=65_536;
        /// Latent reciprocity between MLA's latent keys and the MLP's hidden activations.
        latent_recip: Option<bool> = None;
        /// Initial strength of latent reciprocity in both directions, learned per layer; by default 0.2.
        recip_alpha: Option<f64> = None, in -10.0..=10.0;
        /// Weight sharing between the two directions of latent reciprocity; by default `tied_transpose`.
        recip_tying: Option<RecipTying> = None;
        /// RA-CT: each head is gated by a statistic of the query's attention weights.
        ra_ct: Option<RaCtStatistic> = None;
        /// Target of the gate of RA-CT; by default `output`.
        ra_ct_apply: Option<RaCtApply> = None;
        /// Fraction of the weights, or of the output with `ct_output_mix`, that the gate scales; by default 0.2.
        ra_ct_alpha: Option<f64> = None, in 0.0..=1.0;
        /// Number of weights that the statistic `topk` sums; by default 8.
        ra_ct_k: Option<usize> = None, in 1..=65_536;
        /// Compute the statistic on the mean over heads.
        ra_ct_head_average: Option<bool> = None;
        /// Stop the gradient at the statistic.
        ra_ct_detach: Option<bool> = None;
        /// Blend `output` by `ra_ct_alpha`, as `weights` is blended.
        ct_output_mix: Option<bool> = None;
        /// Normalization before attention, before the MLP and before the output layer. RMSNorm has no bias.
        norm: NormKind = NormKind::LayerNorm;
        /// Number added to the variance (LayerNorm) or to the mean square (RMSNorm).
        norm_epsilon: f64 = 1e-5, in 1e-12..=1.0;
        /// Position embeddings: a learned table, rotary position embeddings (RoPE), or none.
        position: PositionKind = PositionKind::Learned;
        /// Base of RoPE's wavelengths; by default 10000.
        rope_theta: Option<f64> = None, in 1.0..=1e12;
        /// Scaling of RoPE's frequencies for contexts longer than the training context.
        rope_scaling: RopeScalingKind = RopeScalingKind::None;
        /// Divisor of the scaled frequencies; by default 8.
        rope_factor: Option<f64> = None, in 1.0..=1e6;
        /// Training context that `rope_scaling: llama3` extends; by default 8192. Wavelengths longer than this
        /// context are scaled; wavelengths shorter than a quarter of this context are kept.
        rope_original: Option<usize> = None, in 1..=100_000_000, unit "tokens";
        /// Heads of keys and values, each shared by `n_head` / `kv_heads` heads of queries (grouped-query attention); 1 is
        /// multi-query attention. By default `n_head`.
        kv_heads: Option<usize> = None, in 1..=1024;
        /// Normalize the queries and the keys of each head by RMSNorm with a learned gain, before RoPE.
        qk_norm: bool = false;
        /// Value embeddings, as in modded-nanogpt: a second table of the input tokens, whose rows are mixed with the
        /// values of attention in the first and in the last `value_embeddings` blocks, by two learned factors for
        /// each block; 0 disables value embeddings.
        value_embeddings: usize = 0, in 0..=1024, unit "blocks";
        /// Biases in the linear layers of attention and MLP, and in LayerNorms.
        bias: bool = true;
        /// Gated linear unit: multiplies the MLP's hidden activations with a second projection of its input; with
        /// `activation: silu` it is SwiGLU. By default, `mlp_hidden` becomes two thirds of 4 × `d_model`, rounded to a
        /// multiple of 8, so that the number of weights stays about the same.
        glu: bool = false;
        /// Mixture of experts: number of MLPs in a block, each of the hidden width `mlp_hidden`. A router chooses
        /// `experts_per_token` experts for each token. By default, a block has one MLP and no router.
        experts: Option<usize> = None, in 1..=1024;
        /// Number of experts per token: the experts with the largest router logits, whose outputs are weighted by the
        /// softmax of these logits, as in Mixtral. By default 2, or 1 if there is only one expert.
        experts_per_token: Option<usize> = None, in 1..=1024;
        /// Dependence of initial weights, learning rates and factors on the width.
        parametrization: Parametrization = Parametrization::Standard;
        /// With `parametrization: mup`, the `d_model` at which weights and learning rates equal those of `standard`.
        mup_base_width: Option<usize> = None, in 1..=65_536;
        /// Use the token table as output layer (tied embeddings); `false` gives the output layer weights of its own.
        tie: bool = true;
        /// Soft cap of the logits: a logit `z` becomes `cap tanh(z / cap)`, as in Gemma 2; 0 does not limit them.
        logit_cap: f64 = 0.0, in 0.0..=1e6;
    }
}

choice! {
    /// Start of the coupling of mechanisms.
    pub enum CouplingStart {
        /// At the first iteration.
        Immediately = "immediately",
        /// After `coupling_delay` iterations.
        Delay = "delay",
        /// At a steady training loss: the variance of the last 100 losses is below `coupling_variance`. Tested every 50
        /// iterations from iteration 250 on.
        Steady = "steady",
    }
}

params! {
    /// The schedule of the mechanisms' strength (ratio-ablation, sections 4.1 and 9.3). It does not apply to MLA,
    /// RA-CT, self-restart and pruning of keys and values.
    pub struct Coupling {
        /// Start of the increase of the mechanisms' strength from 0; by default the value of the ablation step.
        coupling_start: Option<CouplingStart> = None;
        /// Iterations before the start with `coupling_start: delay`.
        coupling_delay: usize = 75, in 0..=100_000_000, unit "iterations";
        /// Variance of the training loss, in nats², below which it is steady.
        coupling_variance: f64 = 0.02, in 0.0..=1000.0;
        /// Iterations of the linear increase from 0 to 1; 0 increases it at once.
        coupling_warmup: usize = 0, in 0..=100_000_000, unit "iterations";
    }
}

impl Coupling {
    /// The strength `passed` iterations after the start.
    pub fn after(&self, passed: usize) -> f64 {
        if self.coupling_warmup == 0 { 1.0 } else { (passed as f64 / self.coupling_warmup as f64).min(1.0) }
    }
}

/// `at_768`, a width at `d_model` 768, scaled to `d_model`; at least 1.
fn scaled(at_768: usize, d_model: usize) -> usize {
    ((at_768 * d_model + 384) / 768).max(1)
}

/// The band of 64 tokens at `block_size` 1024, scaled to `block_size`; at least 1.
fn scaled_window(block_size: usize) -> usize {
    (64 * block_size / 1024).max(1)
}

impl Architecture {
    /// The structure of a block in a network of these dimensions.
    pub fn block(&self, size: SizeDims) -> BlockSpec {
        let preset = self.ablation.block(self.ablation_net, size);
        let gated_width = || self.glu.then(|| Parts::gated_width(size.d_model));
        BlockSpec {
            attention: self.attention_kind(preset.attention, size),
            mlp_hidden: self.mlp_hidden.or(preset.mlp_hidden).or_else(gated_width),
            reciprocal: switched(self.ra, preset.reciprocal, || ReciprocalSpec::scaled(size)).map(|preset| {
                ReciprocalSpec {
                    alpha: self.ra_alpha.unwrap_or(preset.alpha),
                    window: self.ra_window.unwrap_or(preset.window),
                }
            }),
            gate: switched(self.mlp_gate, preset.gate, || GateSpec::scaled(64, size)).map(|preset| GateSpec {
                alpha: self.gate_alpha.unwrap_or(preset.alpha),
                dim: self.gate_dim.unwrap_or(preset.dim),
                pool: self.gate_pool.unwrap_or(preset.pool),
            }),
            cross: switched(self.cross_token, preset.cross, || CrossSpec::scaled(size))
                .map(|preset| self.cross(preset, size)),
            recip: switched(self.latent_recip, preset.recip, RecipSpec::default).map(|preset| RecipSpec {
                alpha: self.recip_alpha.unwrap_or(preset.alpha),
                tying: self.recip_tying.unwrap_or(preset.tying),
            }),
            ra_ct: self.ra_ct(preset.ra_ct),
            r_mlp: preset.r_mlp,
            kv_prune: preset.kv_prune,
            experts: self.experts(),
            parts: self.parts(size),
        }
    }

    fn attention_kind(&self, preset: AttentionKind, size: SizeDims) -> AttentionKind {
        let kind = match (self.attention, preset) {
            (None, preset) | (Some(AttentionWord::Mla), preset @ AttentionKind::Latent { .. }) => preset,
            (Some(AttentionWord::Standard), _) => AttentionKind::Standard,
            (Some(AttentionWord::Mla), _) => AttentionKind::Latent { dim: scaled(128, size.d_model) },
        };
        match (kind, self.latent_dim) {
            (AttentionKind::Latent { .. }, Some(dim)) => AttentionKind::Latent { dim },
            (kind, _) => kind,
        }
    }

    fn cross(&self, preset: CrossSpec, size: SizeDims) -> CrossSpec {
        let select = self.cross_select.map_or(preset.select, |select| match select {
            CrossSelect::Topk => Selection::TopK { k: 8 },
            CrossSelect::Rms => Selection::Rms { tau: 0.5 },
            CrossSelect::None => Selection::All,
        });
        let projection = self.cross_proj.map_or(preset.projection, |projection| match projection {
            CrossProj::Full => CrossProjection::Full,
            CrossProj::Bottleneck => CrossProjection::Bottleneck { dim: scaled(96, size.d_model) },
        });
        CrossSpec {
            alpha: self.cross_alpha.unwrap_or(preset.alpha),
            select: match select {
                Selection::TopK { k } => Selection::TopK { k: self.cross_k.unwrap_or(k) },
                Selection::Rms { tau } => Selection::Rms { tau: self.cross_tau.unwrap_or(tau) },
                Selection::All => Selection::All,
            },
            normalize: self.cross_normalise.unwrap_or(preset.normalize),
            projection: match projection {
                CrossProjection::Full => CrossProjection::Full,
                CrossProjection::Bottleneck { dim } => {
                    CrossProjection::Bottleneck { dim: self.cross_dim.unwrap_or(dim) }
                }
            },
        }
    }

    fn ra_ct(&self, preset: Option<RaCtSpec>) -> Option<RaCtSpec> {
        let spec = match self.ra_ct {
            None => preset?,
            Some(RaCtStatistic::None) => return None,
            Some(statistic) => RaCtSpec { statistic, ..preset.unwrap_or_default() },
        };
        Some(RaCtSpec {
            statistic: spec.statistic,
            apply: self.ra_ct_apply.unwrap_or(spec.apply),
            alpha: self.ra_ct_alpha.unwrap_or(spec.alpha),
            k: self.ra_ct_k.unwrap_or(spec.k),
            head_average: self.ra_ct_head_average.unwrap_or(spec.head_average),
            detach: self.ra_ct_detach.unwrap_or(spec.detach),
            output_mix: self.ct_output_mix.unwrap_or(spec.output_mix),
        })
    }

    /// The names of the parameters that differ from their default.
    fn given(&self) -> Vec<&'static str> {
        let default = Self::default();
        let mut given = Vec::new();
        macro_rules! collect {
            ($($name:ident)+) => { $( if self.$name != default.$name { given.push(stringify!($name)); } )+ };
        }
        collect!(ablation ablation_net attention latent_dim mlp_hidden ra ra_alpha ra_window mlp_gate gate_alpha gate_dim gate_pool cross_token
            cross_alpha cross_select cross_k cross_tau cross_normalise cross_proj cross_dim latent_recip recip_alpha
            recip_tying ra_ct ra_ct_apply ra_ct_alpha ra_ct_k ra_ct_head_average ra_ct_detach ct_output_mix norm
            norm_epsilon position rope_theta rope_scaling rope_factor rope_original kv_heads qk_norm bias glu tie
            logit_cap experts experts_per_token parametrization mup_base_width value_embeddings);
        given
    }

    /// Conflicts between the parameters. With `init`, a folder determines the architecture.
    pub(crate) fn conflicts(&self, size: SizeDims, init: bool) -> Vec<Conflict> {
        let given = self.given();
        if init {
            let decided = |name: &&'static str| Conflict {
                params: vec![*name, "init"],
                message: format!("`{name}` conflicts with `init`, whose folder determines it"),
                advice: format!("remove `{name}` or `init`"),
            };
            return given.iter().map(decided).collect();
        }
        let block = self.block(size);
        let mut conflicts = without_effect(&given, &block);
        conflicts.extend(self.ineffective_parts().into_iter().map(|(name, need)| no_effect(name, need)));
        conflicts.extend(self.conflict_of_parametrization());
        conflicts.extend(block.misfit(size.n_head, size.d_model));
        if block.recip.is_some() && !matches!(block.attention, AttentionKind::Latent { .. }) {
            conflicts.push(Conflict {
                params: vec!["latent_recip", "attention"],
                message: "`latent_recip` requires the latent keys of MLA".into(),
                advice: "write `attention: mla`, or remove `latent_recip`".into(),
            });
        }
        if let Some(r_mlp) = block.r_mlp
            && r_mlp.low >= block.mlp_hidden.unwrap_or(4 * size.d_model)
        {
            conflicts.push(Conflict {
                params: vec!["mlp_hidden", "ablation"],
                message: format!("the reciprocal part of the MLP, of width {}, leaves no room for the rest", r_mlp.low),
                advice: "increase `mlp_hidden`".into(),
            });
        }
        conflicts
    }
}

/// A mechanism that is switched on or off explicitly, or that of the preset.
fn switched<T>(switch: Option<bool>, preset: Option<T>, standard: impl FnOnce() -> T) -> Option<T> {
    match switch {
        None => preset,
        Some(false) => None,
        Some(true) => Some(preset.unwrap_or_else(standard)),
    }
}

/// Parameters of mechanisms that `block` does not have.
fn without_effect(given: &[&'static str], block: &BlockSpec) -> Vec<Conflict> {
    let bottleneck = |cross: &CrossSpec| matches!(cross.projection, CrossProjection::Bottleneck { .. });
    let topk = |cross: &CrossSpec| matches!(cross.select, Selection::TopK { .. });
    let rms = |cross: &CrossSpec| matches!(cross.select, Selection::Rms { .. });
    let mixed = |ct: &RaCtSpec| ct.apply == RaCtApply::Weights || ct.output_mix;
    let latent = matches!(block.attention, AttentionKind::Latent { .. });
    let (cross, ra_ct) = (block.cross.as_ref(), block.ra_ct.as_ref());
    let needs: [(&[&str], bool, &str); 12] = [
        (&["latent_dim"], latent, "attention: mla"),
        (&["ra_alpha", "ra_window"], block.reciprocal.is_some(), "ra: true"),
        (&["gate_alpha", "gate_dim", "gate_pool"], block.gate.is_some(), "mlp_gate: true"),
        (&["cross_alpha", "cross_select", "cross_normalise", "cross_proj"], cross.is_some(), "cross_token: true"),
        (&["cross_k"], cross.is_some_and(topk), "cross_select: topk"),
        (&["cross_tau"], cross.is_some_and(rms), "cross_select: rms"),
        (&["cross_dim"], cross.is_some_and(bottleneck), "cross_proj: bottleneck"),
        (&["recip_alpha", "recip_tying"], block.recip.is_some(), "latent_recip: true"),
        (&["ra_ct_apply", "ra_ct_head_average", "ra_ct_detach", "ct_output_mix"], ra_ct.is_some(), "ra_ct: topk"),
        (&["ra_ct_alpha"], ra_ct.is_some_and(mixed), "ra_ct_apply: weights"),
        (&["experts_per_token"], block.experts.is_some(), "experts: 8"),
        (&["ra_ct_k"], ra_ct.is_some_and(|ct| ct.statistic == RaCtStatistic::Topk), "ra_ct: topk"),
    ];
    let mut conflicts = Vec::new();
    for (names, on, need) in needs {
        for name in given.iter().filter(|name| !on && names.contains(*name)) {
            conflicts.push(no_effect(name, need));
        }
    }
    conflicts
}

/// The conflict of the parameter `name`, which has an effect only with the setting `need`.
fn no_effect(name: &'static str, need: &str) -> Conflict {
    Conflict {
        params: vec![name],
        message: format!("`{name}` has no effect here"),
        advice: format!("write `{need}`, or remove `{name}`"),
    }
}

#[cfg(test)]
#[path = "architecture/tests.rs"]
mod tests;
