//! The parts of a block: the steps of the architecture ablation, and single mechanisms (ratio-ablation, sections 4
//! and 5). The default everywhere is the plain GPT-2.

mod presets;
mod spec;

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
    /// Mechanism that mixes tokens.
    pub enum AttentionWord {
        /// Queries, keys and values for every head: GPT-2.
        Standard = "standard",
        /// Keys and values of all heads from one latent vector each (ratio-ablation, section 4.2).
        Mla = "mla",
    }
}

choice! {
    /// Over which tokens the head gate's input is averaged.
    pub enum GatePool {
        /// Those up to the query.
        PrefixMean = "prefix_mean",
        /// The query's own.
        Token = "token",
        /// All, later ones included: what the reference computes. It sees the future, so nothing can be trained with it.
        SequenceMean = "sequence_mean",
    }
}

choice! {
    /// Attention weights that cross-token aggregation keeps.
    pub enum CrossSelect {
        /// The `cross_k` largest of a row.
        Topk = "topk",
        /// Those of at least `cross_tau` times the root mean square of a row's visible weights.
        Rms = "rms",
        /// All, and they are not normalized.
        None = "none",
    }
}

choice! {
    /// The projection of what cross-token aggregation has gathered.
    pub enum CrossProj {
        /// Through `cross_dim` numbers.
        Bottleneck = "bottleneck",
        /// A square matrix of the MLP's width: the reference, and more than a hundred million parameters.
        Full = "full",
    }
}

choice! {
    /// Sharing of a matrix by the two directions of latent reciprocity.
    pub enum RecipTying {
        /// One is the other's transpose.
        TiedTranspose = "tied_transpose",
        /// Each has its own.
        Untied = "untied",
    }
}

choice! {
    /// Statistic from which RA-CT's gate is computed.
    pub enum RaCtStatistic {
        /// No gate.
        None = "none",
        /// The sum of a row's `ra_ct_k` largest attention weights.
        Topk = "topk",
        /// The largest.
        Max = "max",
        /// The row's entropy, in nats.
        Entropy = "entropy",
        /// The root mean square of the row's visible weights.
        Rms = "rms",
    }
}

choice! {
    /// Target of RA-CT's gate.
    pub enum RaCtApply {
        /// Output of a head.
        Output = "output",
        /// The attention weights, mixed by `ra_ct_alpha`.
        Weights = "weights",
    }
}

params! {
    /// Architecture of a block, in addition to the model's size.
    pub struct Architecture {
        /// Step of the architecture ablation to start from; 0 is the plain GPT-2. The parameters below override it. It chooses
        /// the network and nothing else: 1 is the network of 0, and the pruning that the ablation's step 1 has is declared
        /// separately, in `train` by `prune: bitter0` and `optimizer: adamwspam`.
        ablation: Ablation = Ablation::Step0;
        /// Variant of the networks with the step's number.
        ablation_net: AblationNet = AblationNet::Budget;
        /// Kind of attention.
        attention: Option<AttentionWord> = None;
        /// Width of MLA's latent vectors; an equivalent of 128 at `d_model` 768 when not given.
        latent_dim: Option<usize> = None, in 1..=65_536;
        /// Hidden width of the MLP; four times `d_model` in a plain GPT-2.
        mlp_hidden: Option<usize> = None, in 1..=1_000_000;
        /// Reciprocal attention: the score of the reverse pair is added inside a causal band.
        ra: Option<bool> = None;
        /// Initial weight of the reverse score; learned by layer. 0.3 when not given.
        ra_alpha: Option<f64> = None, in -10.0..=10.0;
        /// Width of the band in tokens; equivalent to 64 at `block_size` 1024 when not given.
        ra_window: Option<usize> = None, in 0..=65_536, unit "tokens";
        /// MLP-to-attention head gate: every MLP gates the heads of the next block's attention.
        mlp_gate: Option<bool> = None;
        /// Initial strength of the head gate; learned by layer. 0.1 when not given.
        gate_alpha: Option<f64> = None, in -10.0..=10.0;
        /// Width of the head gate; an equivalent of 64 at `d_model` 768 when not given.
        gate_dim: Option<usize> = None, in 1..=65_536;
        /// Over which tokens the head gate's input is averaged; `prefix_mean` when not given.
        gate_pool: Option<GatePool> = None;
        /// Cross-token aggregation: the MLP also gathers its hidden numbers along the attention weights.
        cross_token: Option<bool> = None;
        /// Initial strength of what is gathered; learned by layer. 0.3 when not given.
        cross_alpha: Option<f64> = None, in -10.0..=10.0;
        /// Attention weights that it aggregates along; `topk` when not given.
        cross_select: Option<CrossSelect> = None;
        /// Weights kept in a row by `topk`; 8 when not given.
        cross_k: Option<usize> = None, in 1..=65_536;
        /// Threshold of `rms`; 0.5 when not given.
        cross_tau: Option<f64> = None, in 0.0..=1000.0;
        /// Normalize the kept weights so that they sum to 1; true when not given.
        cross_normalise: Option<bool> = None;
        /// Projection of what is gathered; `bottleneck` when not given.
        cross_proj: Option<CrossProj> = None;
        /// Width of the bottleneck; an equivalent of 96 at `d_model` 768 when not given.
        cross_dim: Option<usize> = None, in 1..=65_536;
        /// Latent reciprocity between MLA's latent keys and the MLP's hidden numbers.
        latent_recip: Option<bool> = None;
        /// Initial strength of latent reciprocity in both directions; learned by layer. 0.2 when not given.
        recip_alpha: Option<f64> = None, in -10.0..=10.0;
        /// Sharing of a matrix by its two directions; `tied_transpose` when not given.
        recip_tying: Option<RecipTying> = None;
        /// RA-CT: a statistic of a query's attention weights gates each head.
        ra_ct: Option<RaCtStatistic> = None;
        /// Target of RA-CT's gate; `output` when not given.
        ra_ct_apply: Option<RaCtApply> = None;
        /// Fraction of the weights that the gate affects; 0.2 when not given.
        ra_ct_alpha: Option<f64> = None, in 0.0..=1.0;
        /// Weights that the statistic `topk` sums; 8 when not given.
        ra_ct_k: Option<usize> = None, in 1..=65_536;
        /// Compute the statistic of the mean over the heads.
        ra_ct_head_average: Option<bool> = None;
        /// Block the gradient through the statistic.
        ra_ct_detach: Option<bool> = None;
        /// Mix `output` by `ra_ct_alpha` as `weights` is.
        ct_output_mix: Option<bool> = None;
    }
}

choice! {
    /// Start of the mechanisms' coupling.
    pub enum CouplingStart {
        /// In the first iteration.
        Immediately = "immediately",
        /// After `coupling_delay` iterations.
        Delay = "delay",
        /// Stable training loss: from iteration 250 on, tested every 50 iterations, the variance of the last 100 losses is below
        /// `coupling_variance`.
        Steady = "steady",
    }
}

params! {
    /// Schedule of the mechanisms' coupling (ratio-ablation, sections 4.1 and 9.3): all but MLA, RA-CT, self-restart
    /// and pruning of keys and values.
    pub struct Coupling {
        /// Start of the rise of their strength from 0; that of the ablation's step when not given.
        coupling_start: Option<CouplingStart> = None;
        /// Iterations of `delay`.
        coupling_delay: usize = 75, in 0..=100_000_000, unit "iterations";
        /// Variance of the losses, in nats squared, below which they are steady.
        coupling_variance: f64 = 0.02, in 0.0..=1000.0;
        /// Iterations in which it rises linearly to 1; with 0 it is 1 at once.
        coupling_warmup: usize = 0, in 0..=100_000_000, unit "iterations";
    }
}

impl Coupling {
    /// The strength `passed` iterations after the start.
    pub fn after(&self, passed: usize) -> f64 {
        if self.coupling_warmup == 0 { 1.0 } else { (passed as f64 / self.coupling_warmup as f64).min(1.0) }
    }
}

/// `at_768`, which belongs to a network of `d_model` 768, in proportion to `d_model`; at least 1.
fn scaled(at_768: usize, d_model: usize) -> usize {
    ((at_768 * d_model + 384) / 768).max(1)
}

/// The band of 64 tokens at a context of 1024 in proportion to `block_size`; at least 1.
fn scaled_window(block_size: usize) -> usize {
    (64 * block_size / 1024).max(1)
}

impl Architecture {
    /// The block of a network of these dimensions.
    pub fn block(&self, size: SizeDims) -> BlockSpec {
        let preset = self.ablation.block(self.ablation_net, size);
        BlockSpec {
            attention: self.attention_kind(preset.attention, size),
            mlp_hidden: self.mlp_hidden.or(preset.mlp_hidden),
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
            normalise: self.cross_normalise.unwrap_or(preset.normalise),
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

    /// The names of the parameters that are given.
    fn given(&self) -> Vec<&'static str> {
        let default = Self::default();
        let mut given = Vec::new();
        if self.ablation != default.ablation {
            given.push("ablation");
        }
        if self.ablation_net != default.ablation_net {
            given.push("ablation_net");
        }
        macro_rules! collect {
            ($($name:ident)+) => { $( if self.$name.is_some() { given.push(stringify!($name)); } )+ };
        }
        collect!(attention latent_dim mlp_hidden ra ra_alpha ra_window mlp_gate gate_alpha gate_dim gate_pool cross_token
            cross_alpha cross_select cross_k cross_tau cross_normalise cross_proj cross_dim latent_recip recip_alpha
            recip_tying ra_ct ra_ct_apply ra_ct_alpha ra_ct_k ra_ct_head_average ra_ct_detach ct_output_mix);
        given
    }

    /// Conflicts among the parameters. `init` is true if a folder decides the architecture.
    pub(crate) fn conflicts(&self, size: SizeDims, init: bool) -> Vec<Conflict> {
        let given = self.given();
        if init {
            let decided = |name: &&'static str| Conflict {
                params: vec![*name, "init"],
                message: format!("`{name}` is decided by the folder that `init` names"),
                advice: format!("remove `{name}` or `init`"),
            };
            return given.iter().map(decided).collect();
        }
        let block = self.block(size);
        let mut conflicts = without_effect(&given, &block);
        if block.recip.is_some() && !matches!(block.attention, AttentionKind::Latent { .. }) {
            conflicts.push(Conflict {
                params: vec!["latent_recip", "attention"],
                message: "latent reciprocity needs MLA's latent keys".into(),
                advice: "set `attention: mla`, or leave `latent_recip` out".into(),
            });
        }
        if let Some(r_mlp) = block.r_mlp
            && r_mlp.low >= block.mlp_hidden.unwrap_or(4 * size.d_model)
        {
            conflicts.push(Conflict {
                params: vec!["mlp_hidden", "ablation"],
                message: format!("the reciprocal part of the MLP alone has a width of {}", r_mlp.low),
                advice: "widen `mlp_hidden`".into(),
            });
        }
        conflicts
    }
}

/// A mechanism that is switched on or off, or as the preset has it.
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
    let needs: [(&[&str], bool, &str); 11] = [
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
        (&["ra_ct_k"], ra_ct.is_some_and(|ct| ct.statistic == RaCtStatistic::Topk), "ra_ct: topk"),
    ];
    let mut conflicts = Vec::new();
    for (names, on, need) in needs {
        for name in given.iter().filter(|name| !on && names.contains(*name)) {
            conflicts.push(Conflict {
                params: vec![*name],
                message: format!("`{name}` has no effect here"),
                advice: format!("set `{need}`, or remove `{name}`"),
            });
        }
    }
    conflicts
}

#[cfg(test)]
#[path = "architecture/tests.rs"]
mod tests;
