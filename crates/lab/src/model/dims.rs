//! Dimensions of a network, and its parameters as arithmetic, without a tensor.

use sweep_job::{
    Conflict,
    tasks::{
        Activation, Architecture, AttentionKind, BlockSpec, CrossProjection, ExpertsSpec, GatePool, Model, NormKind,
        Parts, Position, RMlpSpec, RecipTying,
    },
};

use super::param_info::{ParamInfo, Role};
use crate::LabError;

/// Rows of the token table for bytes.
pub const VOCAB_BYTES: usize = 256;

/// Rows of the token table for files of token ids: GPT-2's 50257, padded to a multiple of 64.
pub const VOCAB_UINT16: usize = 50_304;

/// The dimensions of a network: a GPT-2, possibly with other blocks.
#[derive(Debug, Clone, Copy, PartialEq)]
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
    /// Specification of a block.
    pub block: BlockSpec,
}

impl GptDims {
    /// Returns the dimensions that a recipe requests; `vocab_size` is the size that the data needs, which the recipe may
    /// override.
    ///
    /// Fails where the heads cannot share `d_model`.
    pub fn new(model: &Model, architecture: &Architecture, vocab_size: usize) -> Result<Self, LabError> {
        let size = model.dims();
        let dims = Self {
            n_layer: size.n_layer,
            n_head: size.n_head,
            d_model: size.d_model,
            block_size: size.block_size,
            vocab_size: model.vocab_size.unwrap_or(vocab_size),
            activation: model.activation,
            block: architecture.block(size),
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
            return Err(LabError::Dimensions(format!("`d_model: {d_model}` is not a multiple of `n_head: {n_head}`")));
        }
        if let Some(Conflict { message, advice, .. }) = self.block.misfit(n_head, d_model) {
            return Err(LabError::Dimensions(format!("{message}; {advice}")));
        }
        if self.block.recip.is_some() && !matches!(self.block.attention, AttentionKind::Latent { .. }) {
            return Err(LabError::Dimensions("latent reciprocity requires the latent keys of MLA".into()));
        }
        if let AttentionKind::Folded { rank, .. } = self.block.attention
            && (rank == 0 || rank >= d_model / n_head)
        {
            return Err(LabError::Dimensions(format!(
                "rank {rank} does not fit into a head of width {}",
                d_model / n_head
            )));
        }
        if let Some(RMlpSpec { low, .. }) = self.block.r_mlp {
            if low == 0 {
                return Err(LabError::Dimensions("the reciprocal part of the MLP has a width of 0".into()));
            }
            if low >= self.mlp_hidden() {
                return Err(LabError::Dimensions(format!(
                    "the reciprocal part of the MLP, of width {low}, leaves no room for the rest"
                )));
            }
        }
        Ok(self)
    }

    /// The width relative to the width at which the maximal update parametrization equals the standard parametrization; 1 without it.
    pub fn width_ratio(&self) -> f64 {
        self.block.parts.mup_base_width.map_or(1.0, |base| self.d_model as f64 / base as f64)
    }

    /// Factor of a parameter's learning rate: the maximal update parametrization divides the rate of matrices whose sides both grow with
    /// the width.
    pub fn rate_factor(&self, info: &ParamInfo) -> f64 {
        if info.role() == Role::Linear { self.width_ratio().recip() } else { 1.0 }
    }

    /// Hidden width of the MLP.
    pub fn mlp_hidden(&self) -> usize {
        self.block.mlp_hidden.unwrap_or(4 * self.d_model)
    }

    /// Width of the keys and of the values of all heads of standard attention.
    pub fn shared_width(&self) -> usize {
        self.d_model / self.n_head * self.block.parts.kv_heads(self.n_head)
    }

    /// True for a GPT-2, with an MLP of any width, which other programs can read.
    pub fn is_gpt2(&self) -> bool {
        BlockSpec { mlp_hidden: None, ..self.block } == BlockSpec::GPT2
    }

    /// True if a position's logits depend on later tokens: a gate pooled over the sequence does that, on purpose.
    pub fn sees_future(&self) -> bool {
        self.block.gate.is_some_and(|gate| gate.pool == GatePool::SequenceMean)
    }

    /// Every parameter in the network's order, the tied table once.
    pub fn parameters(&self) -> Vec<ParamInfo> {
        let d = self.d_model;
        let mut list = Parameters { parts: self.block.parts, ..Parameters::default() };
        list.add("wte.weight", &[self.vocab_size, d]);
        if self.block.parts.position == Position::Learned {
            list.add("wpe.weight", &[self.block_size, d]);
        }
        if self.block.parts.value_embeddings > 0 {
            list.add("vte.weight", &[self.vocab_size, self.shared_width()]);
        }
        for block in 0..self.n_layer {
            list.prefix = format!("h.{block}.");
            self.add_block(block, &mut list);
        }
        list.prefix.clear();
        list.norm("ln_f", d);
        if !self.block.parts.tie {
            list.add("lm_head.weight", &[self.vocab_size, d]);
        }
        list.found
    }

    fn add_block(&self, block: usize, list: &mut Parameters) {
        let (d, heads, hidden) = (self.d_model, self.n_head, self.mlp_hidden());
        let BlockSpec {
            attention,
            reciprocal,
            gate,
            cross,
            recip,
            ra_ct,
            r_mlp,
            experts,
            mlp_hidden: _,
            kv_prune: _,
            parts: _,
        } = &self.block;
        list.norm("ln_1", d);
        self.add_attention(block, list);
        list.norm("ln_2", d);
        match (experts, r_mlp) {
            (Some(ExpertsSpec { count, .. }), _) => {
                list.add("mlp.router.weight", &[d, *count]);
                (0..*count).for_each(|index| list.mlp(&format!("mlp.experts.{index}"), d, hidden));
            }
            (None, None) => list.mlp("mlp", d, hidden),
            (None, Some(RMlpSpec { low, mixer, gate })) => {
                list.add("mlp.up_std.weight", &[d, hidden - low]);
                list.add("mlp.up_low.weight", &[d, *low]);
                if *mixer {
                    list.add("mlp.mixer.weight", &[*low, *low]);
                }
                if *gate {
                    list.add("mlp.gate_low", &[1]);
                }
                list.add("mlp.w_std", &[1]);
                list.add("mlp.w_rec", &[1]);
                list.add("mlp.c_proj.weight", &[hidden, d]);
            }
        }
        if reciprocal.is_some() {
            list.add("ra.alpha", &[1]);
        }
        if let Some(gate) = gate {
            list.add("gate.alpha", &[1]);
            list.biased("gate.pool", hidden, gate.dim);
            list.biased("gate.heads", gate.dim, heads);
        }
        if let Some(cross) = cross {
            list.add("cross.alpha", &[1]);
            match cross.projection {
                CrossProjection::Full => list.add("cross.down.weight", &[hidden, hidden]),
                CrossProjection::Bottleneck { dim } => {
                    list.add("cross.down.weight", &[hidden, dim]);
                    list.add("cross.up.weight", &[dim, hidden]);
                }
            }
        }
        if let (Some(recip), AttentionKind::Latent { dim }) = (recip, attention) {
            list.add("recip.alpha_mlp", &[1]);
            list.add("recip.alpha_attn", &[1]);
            list.add("recip.back.weight", &[hidden, *dim]);
            if recip.tying == RecipTying::Untied {
                list.add("recip.enrich.weight", &[*dim, hidden]);
            }
        }
        if ra_ct.is_some() {
            list.add("ra_ct.scale", &[heads]);
            list.add("ra_ct.bias", &[heads]);
        }
    }

    fn add_attention(&self, block: usize, list: &mut Parameters) {
        let (d, heads, parts) = (self.d_model, self.n_head, &self.block.parts);
        let width = d / heads;
        match &self.block.attention {
            AttentionKind::Standard => {
                list.linear("attn.c_attn", d, d + 2 * self.shared_width());
                list.linear("attn.c_proj", d, d);
                if parts.qk_norm {
                    list.add("attn.q_norm.weight", &[width]);
                    list.add("attn.k_norm.weight", &[width]);
                }
                if parts.mixes_values(block, self.n_layer) {
                    list.add("attn.value_mix", &[2]);
                }
            }
            AttentionKind::Latent { dim } => {
                list.add("attn.q.weight", &[d, d]);
                list.add("attn.k_down.weight", &[d, *dim]);
                list.add("attn.v_down.weight", &[d, *dim]);
                list.add("attn.q_latent", &[heads, width, *dim]);
                list.add("attn.v_up", &[heads, *dim, width]);
                list.add("attn.c_proj.weight", &[d, d]);
            }
            AttentionKind::Folded { per_head, restart, .. } => {
                list.add("attn.c_attn.weight", &[d, 3 * d]);
                list.add("attn.c_proj.weight", &[d, d]);
                let weights = if *per_head { heads } else { 1 };
                list.add("attn.w_std", &[weights]);
                list.add("attn.w_rec", &[weights]);
                if *restart {
                    list.add("attn.restart", &[heads]);
                }
            }
        }
    }

    /// Parameters that the loss cannot depend on: the first block has no previous block, and the last block has no next
    /// one to pass values to (ratio-ablation, section 7).
    pub fn unreached(&self) -> Vec<String> {
        let last_block = self.n_layer - 1;
        let mut names = Vec::new();
        if self.block.gate.is_some() {
            names.push("h.0.gate.alpha".to_owned());
            let producer = ["pool.weight", "pool.bias", "heads.weight", "heads.bias"];
            names.extend(producer.map(|name| format!("h.{last_block}.gate.{name}")));
        }
        if let Some(recip) = &self.block.recip {
            names.push("h.0.recip.alpha_attn".to_owned());
            if recip.tying == RecipTying::Untied {
                names.push(format!("h.{last_block}.recip.back.weight"));
            }
        }
        // The weight of the only expert of a token is 1 for all logits; a balancing loss may train the router.
        if self.block.experts.is_some_and(|experts| experts.per_token == 1) {
            names.extend((0..self.n_layer).map(|block| format!("h.{block}.mlp.router.weight")));
        }
        names
    }

    /// Number of parameters that compute a token. Parameters of experts count in proportion to the experts that a token chooses.
    pub fn active_parameter_count(&self) -> usize {
        let Some(ExpertsSpec { count, per_token }) = self.block.experts else { return self.parameter_count() };
        let parameters = self.parameters();
        let of_experts: usize = parameters.iter().filter(|info| info.is_of_expert()).map(ParamInfo::len).sum();
        self.parameter_count() - of_experts / count * (count - per_token)
    }

    /// Number of parameters, by arithmetic: 124,475,904 for size `gpt2` with 50,304 tokens.
    pub fn parameter_count(&self) -> usize {
        self.parameters().iter().map(ParamInfo::len).sum()
    }

    /// Expected loss of an untrained network in nats: a uniform guess, plus half the variance of the logits
    /// (ratio-ablation, section 2).
    pub fn initial_loss(&self) -> f64 {
        let std = 0.02 / self.width_ratio();
        (self.vocab_size as f64).ln() + self.d_model as f64 * std * std / 2.0
    }
}

/// A list of parameters that grows.
#[derive(Default)]
struct Parameters {
    parts: Parts,
    prefix: String,
    found: Vec<ParamInfo>,
}

impl Parameters {
    fn add(&mut self, name: &str, shape: &[usize]) {
        self.found.push(ParamInfo { name: format!("{}{name}", self.prefix), shape: shape.to_vec() });
    }

    /// A layer that always has a bias.
    fn biased(&mut self, name: &str, input: usize, output: usize) {
        self.add(&format!("{name}.weight"), &[input, output]);
        self.add(&format!("{name}.bias"), &[output]);
    }

    /// A layer that has a bias if the network has biases.
    fn linear(&mut self, name: &str, input: usize, output: usize) {
        self.add(&format!("{name}.weight"), &[input, output]);
        if self.parts.bias {
            self.add(&format!("{name}.bias"), &[output]);
        }
    }

    /// A plain MLP.
    fn mlp(&mut self, name: &str, width: usize, hidden: usize) {
        self.linear(&format!("{name}.c_fc"), width, hidden);
        if self.parts.glu {
            self.linear(&format!("{name}.c_gate"), width, hidden);
        }
        self.linear(&format!("{name}.c_proj"), hidden, width);
    }

    /// A normalization of the residual stream.
    fn norm(&mut self, name: &str, width: usize) {
        self.add(&format!("{name}.weight"), &[width]);
        if self.parts.bias && self.parts.norm == NormKind::LayerNorm {
            self.add(&format!("{name}.bias"), &[width]);
        }
    }
}

#[cfg(test)]
mod tests {
    use sweep_job::tasks::{Ablation, AblationNet, DecayOn};

    use super::*;

    #[test]
    fn gpt2_has_the_published_number_of_parameters() {
        let model = Model { model: sweep_job::tasks::ModelSize::Gpt2, ..Model::default() };
        let dims = GptDims::new(&model, &Architecture::default(), VOCAB_UINT16).unwrap();
        assert_eq!(dims.parameter_count(), 124_475_904);
        let prunable = |tied| dims.parameters().iter().filter(|info| info.prunable(tied)).map(ParamInfo::len).sum();
        let (without_head, with_head): (usize, usize) = (prunable(false), prunable(true));
        assert_eq!((without_head, with_head), (84_934_656, 123_568_128));
        assert!((dims.initial_loss() - 10.98).abs() < 0.01);
    }

    #[test]
    fn heads_must_share_the_width() {
        let model = Model { n_head: Some(5), ..Model::default() };
        let error = GptDims::new(&model, &Architecture::default(), VOCAB_BYTES).unwrap_err();
        assert_eq!(error.to_string(), "`d_model: 96` is not a multiple of `n_head: 5`");
    }

    #[test]
    fn decay_groups() {
        let dims = GptDims::new(&Model::default(), &Architecture::default(), VOCAB_BYTES).unwrap();
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

    /// Total parameters of the 19 steps at full size (ratio-ablation, section 5): documented nets with mechanisms of the budget's sizes,
    /// the same with mechanisms as coded, and the nets that the reference's code builds.
    const COUNTS: [[usize; 3]; 19] = [
        [124_475_904, 124_475_904, 124_475_904],
        [124_475_904, 124_475_904, 124_475_904],
        [138_640_896, 138_640_896, 112_642_560],
        [138_084_252, 130_534_044, 118_700_700],
        [138_661_800, 240_091_560, 228_258_216],
        [124_475_916, 124_475_916, 112_642_572],
        [138_640_908, 138_640_908, 112_642_572],
        [138_661_812, 240_091_572, 228_258_228],
        [115_001_856, 115_001_856, 112_642_560],
        [105_558_528, 105_558_528, 112_642_560],
        [105_582_504, 148_029_864, 145_670_568],
        [105_558_540, 105_558_540, 112_642_572],
        [105_582_516, 148_029_876, 145_670_580],
        [124_476_192, 124_476_192, 112_642_848],
        [105_558_816, 105_558_816, 112_642_848],
        [105_558_828, 105_558_828, 112_642_860],
        [105_582_804, 148_030_164, 145_670_868],
        [124_476_192, 124_476_192, 112_642_848],
        [124_476_192, 124_476_192, 112_642_848],
    ];

    #[test]
    fn counts_of_the_19_steps_are_those_of_the_reference() {
        let model = Model { model: sweep_job::tasks::ModelSize::Gpt2, ..Model::default() };
        let nets = [AblationNet::Budget, AblationNet::Coded, AblationNet::Executed];
        for (ablation, counts) in Ablation::ALL.iter().zip(COUNTS) {
            let results = nets.map(|ablation_net| {
                let architecture = Architecture { ablation: *ablation, ablation_net, ..Architecture::default() };
                GptDims::new(&model, &architecture, VOCAB_UINT16).unwrap().parameter_count()
            });
            assert_eq!(results, counts, "step {ablation}");
        }
    }

    #[test]
    fn counts_of_the_unified_series() {
        let model = Model { model: sweep_job::tasks::ModelSize::Gpt2, ..Model::default() };
        let results = Ablation::ALL[COUNTS.len()..].iter().map(|ablation| {
            let architecture = Architecture { ablation: *ablation, ..Architecture::default() };
            GptDims::new(&model, &architecture, VOCAB_UINT16).unwrap().parameter_count()
        });
        // Of every block: attention without its 3072 biases and with two weights, of each part or of each head's parts; a
        // part of each head's output for self-restart; an MLP without its 3840 biases and with two weights.
        let stock = 124_475_904;
        let (folded, restart, r_mlp) = (12 * (2 - 3072), 12 * 12, 12 * (2 - 3840));
        let by_head = folded + 12 * 22;
        let (mixer, gate, wider) = (12 * 64 * 64, 12, 12 * 1536 * (2 * 768 + 1));
        let differences: [i64; 19] = [
            0,
            folded,
            folded + restart,
            folded + r_mlp,
            folded + r_mlp + mixer,
            folded + r_mlp + gate,
            folded + r_mlp + mixer + gate,
            folded,
            folded + restart,
            folded,
            folded + restart + wider,
            r_mlp,
            folded,
            r_mlp,
            r_mlp,
            r_mlp,
            by_head,
            r_mlp,
            r_mlp,
        ];
        let expected = differences.map(|difference| usize::try_from(stock + difference).unwrap());
        assert_eq!(results.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn budget_sized_mechanisms_keep_the_ratio() {
        let count = |step: usize| COUNTS[step][0] as f64;
        for (step, baseline) in [(3, 2), (4, 2), (7, 6), (10, 9), (12, 11), (16, 11)] {
            assert!((count(step) / count(baseline) - 1.0).abs() < 0.005, "step {step}");
        }
    }
}
