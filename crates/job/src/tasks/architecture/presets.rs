//! The steps of the architecture ablation (ratio-ablation, section 5), and of the unified series (section 9.5).

use super::{
    AttentionKind, BlockSpec, CouplingStart, CrossProjection, CrossSpec, GateSpec, Keep, KvPruneSpec, Parts, RMlpSpec,
    RaCtApply, RaCtSpec, RaCtStatistic, ReciprocalSpec, SizeDims, scaled, scaled_window,
};
use crate::params::choice;

choice! {
    /// A step of the architecture ablation.
    pub enum Ablation {
        /// GPT-2.
        Step0 = "0",
        /// GPT-2. The ablation trains it with pruning to 50 % sparsity, which is declared separately (`prune`).
        Step1 = "1",
        /// A ratio of attention to MLP parameters of 1 to 2.5, by widening the MLP.
        Step2 = "2",
        /// Step 2 with the head gate and an MLP of 85 % of the width.
        Step3 = "3",
        /// Step 3 with cross-token aggregation and an MLP of 80 % of the width.
        Step4 = "4",
        /// Reciprocal attention.
        Step5 = "5",
        /// Step 2 with reciprocal attention.
        Step6 = "6",
        /// Step 4 with reciprocal attention.
        Step7 = "7",
        /// MLA.
        Step8 = "8",
        /// MLA with a ratio of attention to MLP parameters of 1 to 2.5.
        Step9 = "9",
        /// Step 9 with head gate and cross-token aggregation.
        Step10 = "10",
        /// Step 9 with reciprocal attention.
        Step11 = "11",
        /// Step 10 with reciprocal attention.
        Step12 = "12",
        /// RA-CT on the outputs of the heads.
        Step13 = "13",
        /// Step 9 with RA-CT.
        Step14 = "14",
        /// Step 11 with RA-CT.
        Step15 = "15",
        /// Step 12 with RA-CT: all mechanisms.
        Step16 = "16",
        /// Step 13 on the attention weights.
        Step17 = "17",
        /// Step 13 with the entropy.
        Step18 = "18",
        /// GPT-2, the start of the unified series.
        V0 = "V0",
        /// Folded reciprocal attention of rank 4 out of 64.
        V1 = "V1",
        /// V1 with self-restart.
        V2 = "V2",
        /// V1 with a reciprocal MLP of 64 out of 3072.
        V3 = "V3",
        /// V3 with a mixer.
        V4 = "V4",
        /// V3 with a gate.
        V5 = "V5",
        /// V3 with mixer and gate.
        V6 = "V6",
        /// V1 at rank 8.
        V7 = "V7",
        /// V2 at rank 8.
        V8 = "V8",
        /// V1 at rank 2.
        V9 = "V9",
        /// V2 with an MLP of width 6 × `d_model`.
        V10 = "V10",
        /// A reciprocal MLP of 64, coupled after a delay.
        V11 = "V11",
        /// V1, coupled after a delay.
        V12 = "V12",
        /// A reciprocal MLP of 1152, coupled after a delay.
        V13 = "V13",
        /// V11 with keys and values pruned to 391 of 1024.
        V14 = "V14",
        /// V13 with keys and values pruned to 38 %.
        V15 = "V15",
        /// V1 with weights per head, coupled when the loss is steady.
        V16 = "V16",
        /// V14, coupled when the loss is steady.
        V17 = "V17",
        /// V15, coupled when the loss is steady.
        V18 = "V18",
    }
}

choice! {
    /// A variant of the network of an ablation step.
    pub enum AblationNet {
        /// The documented network, with mechanisms sized to keep the ratio of attention to MLP parameters.
        Budget = "budget",
        /// The documented network, with the reference's sizes of mechanisms: gates of width 64, square cross-token
        /// projections.
        Coded = "coded",
        /// The network that the reference's code builds, contrary to its documentation: MLA of width 64 in every step
        /// from 2 on.
        Executed = "executed",
    }
}

/// The pruning of a step's training, in the reference's 10,400 iterations.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepPruning {
    /// Target fraction of pruned weights.
    pub sparsity: f64,
    /// Iterations before the ramp begins.
    pub warmup: usize,
    /// Iterations between two mask updates.
    pub every: usize,
    /// Iteration at which the target is reached.
    pub ramp_end: usize,
}

/// A step in the reference's documentation. Widths are for `d_model` 768.
#[expect(clippy::struct_excessive_bools, reason = "the columns of the reference's table")]
struct Row {
    mla: bool,
    reciprocal: bool,
    gate: bool,
    cross: bool,
    mlp_hidden: usize,
    ra_ct: Option<(RaCtStatistic, RaCtApply)>,
}

const PLAIN: Row = Row { mla: false, reciprocal: false, gate: false, cross: false, mlp_hidden: 3072, ra_ct: None };
const WIDE: Row = Row { mlp_hidden: 3840, ..PLAIN };
const MECHANISMS: Row = Row { gate: true, cross: true, ..PLAIN };
const MLA: Row = Row { mla: true, ..PLAIN };
const MLA_RATIO: Row = Row { mlp_hidden: 2560, ..MLA };
const MLA_MECHANISMS: Row = Row { gate: true, cross: true, mlp_hidden: 2048, ..MLA };
/// The fraction of keys that the unified series keeps: 1 / (1 + golden ratio).
const GOLDEN: f64 = 0.381_966_011_250_105;
const TOPK_OUTPUT: Option<(RaCtStatistic, RaCtApply)> = Some((RaCtStatistic::Topk, RaCtApply::Output));

impl Ablation {
    /// The step's row; `None` in the unified series.
    fn row(self) -> Option<Row> {
        Some(match self {
            Self::Step0 | Self::Step1 => PLAIN,
            Self::Step2 => WIDE,
            Self::Step3 => Row { gate: true, mlp_hidden: 3264, ..PLAIN },
            Self::Step4 => MECHANISMS,
            Self::Step5 => Row { reciprocal: true, ..PLAIN },
            Self::Step6 => Row { reciprocal: true, ..WIDE },
            Self::Step7 => Row { reciprocal: true, ..MECHANISMS },
            Self::Step8 => MLA,
            Self::Step9 => MLA_RATIO,
            Self::Step10 => MLA_MECHANISMS,
            Self::Step11 => Row { reciprocal: true, ..MLA_RATIO },
            Self::Step12 => Row { reciprocal: true, ..MLA_MECHANISMS },
            Self::Step13 => Row { ra_ct: TOPK_OUTPUT, ..PLAIN },
            Self::Step14 => Row { ra_ct: TOPK_OUTPUT, ..MLA_RATIO },
            Self::Step15 => Row { reciprocal: true, ra_ct: TOPK_OUTPUT, ..MLA_RATIO },
            Self::Step16 => Row { reciprocal: true, ra_ct: TOPK_OUTPUT, ..MLA_MECHANISMS },
            Self::Step17 => Row { ra_ct: Some((RaCtStatistic::Topk, RaCtApply::Weights)), ..PLAIN },
            Self::Step18 => Row { ra_ct: Some((RaCtStatistic::Entropy, RaCtApply::Output)), ..PLAIN },
            _ => return None,
        })
    }

    /// A step of the unified series (section 9.5).
    fn unified(self, size: SizeDims) -> BlockSpec {
        let width = size.d_model / size.n_head;
        // Ranks refer to heads of width 64; each part keeps at least one element.
        let rank = |of_64: usize| ((of_64 * width + 32) / 64).clamp(1, width.saturating_sub(1).max(1));
        let folded = |of_64, restart| AttentionKind::Folded { rank: rank(of_64), per_head: self == Self::V16, restart };
        let with = |attention| BlockSpec { attention, ..BlockSpec::GPT2 };
        let r_mlp = |attention, low, mixer, gate| BlockSpec {
            r_mlp: Some(RMlpSpec { low: scaled(low, size.d_model), mixer, gate }),
            ..with(attention)
        };
        let standard = AttentionKind::Standard;
        let pruned = |block: BlockSpec, keep| BlockSpec {
            kv_prune: Some(KvPruneSpec { keep, recency: scaled_window(size.block_size) }),
            ..block
        };
        let count = Keep::Count((391 * size.block_size / 1024).max(1));
        match self {
            Self::V1 | Self::V12 | Self::V16 => with(folded(4, false)),
            Self::V2 => with(folded(4, true)),
            Self::V3 => r_mlp(folded(4, false), 64, false, false),
            Self::V4 => r_mlp(folded(4, false), 64, true, false),
            Self::V5 => r_mlp(folded(4, false), 64, false, true),
            Self::V6 => r_mlp(folded(4, false), 64, true, true),
            Self::V7 => with(folded(8, false)),
            Self::V8 => with(folded(8, true)),
            Self::V9 => with(folded(2, false)),
            Self::V10 => BlockSpec { mlp_hidden: Some(6 * size.d_model), ..with(folded(4, true)) },
            Self::V11 => r_mlp(standard, 64, false, false),
            Self::V13 => r_mlp(standard, 1152, false, false),
            Self::V14 | Self::V17 => pruned(r_mlp(standard, 64, false, false), count),
            Self::V15 | Self::V18 => pruned(r_mlp(standard, 1152, false, false), Keep::Part(GOLDEN)),
            _ => BlockSpec::GPT2,
        }
    }

    /// The default start of the coupling of mechanisms (section 9.3).
    pub const fn coupling_start(self) -> CouplingStart {
        match self {
            Self::V11 | Self::V12 | Self::V13 | Self::V14 | Self::V15 => CouplingStart::Delay,
            Self::V16 | Self::V17 | Self::V18 => CouplingStart::Steady,
            _ => CouplingStart::Immediately,
        }
    }

    /// The structure of a block of this step, in a network of size `size`.
    pub(super) fn block(self, net: AblationNet, size: SizeDims) -> BlockSpec {
        if matches!(self, Self::Step0 | Self::Step1) {
            return BlockSpec::GPT2;
        }
        let Some(row) = self.row() else { return self.unified(size) };
        let executed = net == AblationNet::Executed;
        let latent_dim = if executed { 64 } else { 128 };
        // The reference's code widens an MLP only where it replaces it, which it does for the mechanisms' sake.
        let mlp_hidden = if executed && !row.gate { 3072 } else { row.mlp_hidden };
        let gate_dim = match net {
            AblationNet::Coded | AblationNet::Executed => 64,
            AblationNet::Budget if row.cross => 192,
            AblationNet::Budget => 256,
        };
        let mut cross = CrossSpec::scaled(size);
        if net != AblationNet::Budget {
            cross.projection = CrossProjection::Full;
        }
        let mlp_hidden = scaled(mlp_hidden, size.d_model);
        BlockSpec {
            attention: if row.mla || executed {
                AttentionKind::Latent { dim: scaled(latent_dim, size.d_model) }
            } else {
                AttentionKind::Standard
            },
            mlp_hidden: (mlp_hidden != 4 * size.d_model).then_some(mlp_hidden),
            reciprocal: row.reciprocal.then(|| ReciprocalSpec::scaled(size)),
            gate: row.gate.then(|| GateSpec::scaled(gate_dim, size)),
            cross: row.cross.then_some(cross),
            recip: None,
            r_mlp: None,
            kv_prune: None,
            experts: None,
            parts: Parts::GPT2,
            ra_ct: row.ra_ct.map(|(statistic, apply)| RaCtSpec { statistic, apply, ..RaCtSpec::default() }),
        }
    }

    /// The pruning in the training of this step: step 1 is `AdamWPrune` over `AdamWSPAM` (ratio-ablation, sections 5
    /// and 8.2).
    pub fn pruning(self) -> Option<StepPruning> {
        let step_1 = StepPruning { sparsity: 0.5, warmup: 1000, every: 50, ramp_end: 3000 };
        (self == Self::Step1).then_some(step_1)
    }
}
