//! The optimizer's parameters.

use super::BlockSpec;
use crate::{
    Conflict,
    params::{choice, params},
};

choice! {
    /// The tensors to which weight decay applies.
    pub enum DecayOn {
        /// Tensors of two or more dimensions that are not embeddings.
        Linear = "linear",
        /// Tensors of two or more dimensions, including embeddings, as in nanoGPT.
        Matrices = "matrices",
        /// Every tensor.
        All = "all",
    }
}

choice! {
    /// An optimizer.
    pub enum OptimizerKind {
        /// AdamW.
        AdamW = "adamw",
        /// AdamW with SPAM's three measures against gradient spikes (ratio-ablation, section 8.1): elements are clipped
        /// by their second moment, the moments are damped when the gradient norm spikes, and they are reset
        /// periodically.
        AdamWSpam = "adamwspam",
        /// Adafactor (Shazeer and Stern 2018), as in `torch.optim.Adafactor`: second moments of matrices by row and
        /// by column, changes that are clipped by their root mean square, and steps proportional to the root mean
        /// square of the weights, so that `lr` is relative. Without a first moment.
        Adafactor = "adafactor",
        /// Lion: the sign of a mean of gradients (Chen et al. 2023), with `beta_1` and `beta_2`, for which its authors
        /// recommend 0.9 and 0.99, at a learning rate 3 to 10 times lower than AdamW's.
        Lion = "lion",
        /// Muon: orthogonalized momentum (Jordan et al. 2024) for the matrices of linear layers; AdamW for embeddings, the
        /// output layer, biases, gains and all other parameters. Queries, keys and values are orthogonalized separately.
        Muon = "muon",
        /// Schedule-Free AdamW (Defazio et al. 2024): computes gradients between the weights that AdamW updates and
        /// their mean. The network is evaluated and saved with the mean, which replaces the decay of the learning
        /// rate. Needs `lr_schedule: constant`.
        ScheduleFree = "schedulefree",
        /// Stochastic gradient descent with momentum and decoupled weight decay.
        Sgd = "sgd",
        /// SOAP (Vyas et al. 2024), as in its authors' program: Adam in the eigenbases of Shampoo's preconditioners,
        /// for the matrices of linear layers; AdamW for embeddings, the output layer, biases, gains and all other
        /// parameters. Queries, keys and values are one matrix. Its authors use 0.95 for `beta_1` and `beta_2`.
        Soap = "soap",
    }
}

choice! {
    /// The factor of the learning rate by which Muon adapts to the shape of a matrix with `in` inputs and `out` outputs.
    pub enum MuonScale {
        /// `0.2 sqrt(max(in, out))`: changes as large as AdamW's, whose learning rate and weight decay can be reused
        /// (Liu et al. 2025).
        MatchRmsAdamW = "match_rms_adamw",
        /// `sqrt(max(1, out / in))`, as in the original.
        Original = "original",
    }
}

choice! {
    /// The learning rate after the warm-up.
    pub enum LrSchedule {
        /// Half a cosine from `lr` to its minimum at the end.
        Cosine = "cosine",
        /// A line from `lr` to its minimum at the end.
        Linear = "linear",
        /// Warm-up, stable, decay: `lr`, then a line to its minimum in the last fraction `lr_decay` of the
        /// iterations.
        Wsd = "wsd",
        /// `lr` to the end.
        Constant = "constant",
    }
}

params! {
    /// The optimizer, with linear warm-up, decay of the learning rate, and clipping by the global norm; and the auxiliary losses.
    pub struct Optimizer {
        /// Peak learning rate.
        lr: f64 = 6e-4, in 0.0..=10.0;
        /// Final learning rate as a fraction of the peak.
        min_lr_ratio: f64 = 0.1, in 0.0..=1.0;
        /// Iterations of linear learning rate warm-up from 0.
        warmup_iters: usize = 20, in 0..=100_000_000, unit "iterations";
        /// Decay rate of the first moment.
        beta_1: f64 = 0.9, in 0.0..=0.999_999;
        /// Decay rate of the second moment.
        beta_2: f64 = 0.95, in 0.0..=0.999_999_9;
        /// Term added to the square root of the second moment.
        epsilon: f64 = 1e-8, in 0.0..=1.0;
        /// Decoupled weight decay.
        weight_decay: f64 = 0.1, in 0.0..=10.0;
        /// Tensors to which weight decay applies.
        decay_on: DecayOn = DecayOn::Linear;
        /// Maximum global L2 norm of the gradients; 0 disables clipping.
        grad_clip: f64 = 1.0, in 0.0..=1e9;
        /// Optimizer: AdamW, AdamW with SPAM's measures against gradient spikes, Adafactor, Lion, Muon, Schedule-Free AdamW, SGD
        /// with momentum, or SOAP.
        optimizer: OptimizerKind = OptimizerKind::AdamW;
        /// Course of the learning rate after the warm-up.
        lr_schedule: LrSchedule = LrSchedule::Cosine;
        /// Fraction of the iterations, at the end, in which `lr_schedule: wsd` reduces the learning rate.
        lr_decay: f64 = 0.2, in 0.0..=1.0;
        /// Momentum of `muon` and `sgd`: the factor of earlier gradients; by default 0.95 for `muon` and 0.9 for
        /// `sgd`.
        momentum: Option<f64> = None, in 0.0..=0.999_999;
        /// Nesterov momentum of `muon` and `sgd`; by default on for `muon` and off for `sgd`.
        nesterov: Option<bool> = None;
        /// Factor of Muon's learning rate by the shape of a matrix.
        muon_scale: MuonScale = MuonScale::MatchRmsAdamW;
        /// Adafactor: exponent of the decay rate of the second moments, which is `1 - t^-adafactor_decay` in step
        /// `t`; 0 keeps no earlier moments.
        adafactor_decay: f64 = 0.8, in 0.0..=1.0;
        /// Adafactor: maximum root mean square of a parameter's change, before the change is multiplied by the
        /// learning rate.
        adafactor_clip: f64 = 1.0, in 1.0..=1e9;
        /// SOAP: iterations between two updates of the eigenbases, each by a step of power iteration and a QR decomposition on
        /// the CPU.
        precondition_frequency: usize = 10, in 1..=100_000_000, unit "iterations";
        /// SOAP: maximum length of a side of a matrix with a preconditioner; a longer side keeps its own basis.
        precondition_limit: usize = 10_000, in 1..=1_000_000;
        /// Factor of an auxiliary loss, the mean square of the logarithm of the sum of all exponentials of a token's logits
        /// (z-loss, as in PaLM, which has 1e-4). Gradients include it; all reported losses are the cross-entropy alone.
        z_loss: f64 = 0.0, in 0.0..=100.0;
        /// Factor of the auxiliary loss that makes a router choose all `experts` equally often, as in Mixtral; 0
        /// disables it. Gradients include it; all reported losses are the cross-entropy alone.
        balance_loss: f64 = 0.01, in 0.0..=100.0;
        /// AMSGrad: use the maximum of the second moments so far instead of the current one; by default on for
        /// `adamwspam` and off for `adamw`.
        amsgrad: Option<bool> = None;
        /// SPAM: elements of a gradient are clipped to the square root of `spam_theta` times their second moment; 0
        /// disables it.
        spam_theta: f64 = 50.0, in 0.0..=1e9;
        /// SPAM: iterations without clipping of elements after the start and after each reset, while the second moment
        /// is not yet reliable.
        spam_clip_after: usize = 20, in 0..=100_000_000, unit "iterations";
        /// SPAM: a global norm is a spike if it exceeds the mean of the last 99 norms by this many standard deviations.
        /// A spike multiplies the first moments by 0.5 and the second moments by 0.1; 0 disables detection.
        spam_spike_z: f64 = 2.0, in 0.0..=1e9;
        /// SPAM: iterations between two resets of the moments; 0 disables resets.
        spam_interval: usize = 1000, in 0..=100_000_000, unit "iterations";
        /// SPAM: iterations of learning rate warm-up after a reset, from 0 along half a cosine.
        spam_warmup: usize = 100, in 0..=100_000_000, unit "iterations";
        /// SPAM: a reset also clears the maximum second moment and restarts the bias correction.
        spam_reset_all: bool = true;
        /// SPAM: reproduce the reference code including its defects: iterations count twice for `spam_interval` and
        /// `spam_warmup`, elements are clipped from the second iteration on by a second moment without bias correction,
        /// and `spam_reset_all` is off.
        spam_reference: bool = false;
    }
}

impl Optimizer {
    /// True if AMSGrad is on.
    pub fn uses_amsgrad(&self) -> bool {
        self.amsgrad.unwrap_or(self.optimizer == OptimizerKind::AdamWSpam)
    }

    /// Factor of the earlier gradients in the mean of Muon and SGD.
    pub fn momentum(&self) -> f64 {
        self.momentum.unwrap_or(if self.optimizer == OptimizerKind::Muon { 0.95 } else { 0.9 })
    }

    /// True if momentum is Nesterov's.
    pub fn uses_nesterov(&self) -> bool {
        self.nesterov.unwrap_or(self.optimizer == OptimizerKind::Muon)
    }

    /// The iteration, counted from 0, at which the learning rate begins to fall in a training of `iters` iterations.
    pub fn decay_start(&self, iters: usize) -> usize {
        match self.lr_schedule {
            LrSchedule::Cosine | LrSchedule::Linear => self.warmup_iters,
            LrSchedule::Constant => iters.max(self.warmup_iters),
            LrSchedule::Wsd => {
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part of a whole number")]
                let decay = (iters as f64 * self.lr_decay).round() as usize;
                iters.saturating_sub(decay).max(self.warmup_iters)
            }
        }
    }

    /// Parameters without an effect on this optimizer.
    pub(crate) fn conflicts(&self) -> Vec<Conflict> {
        use OptimizerKind::{Adafactor, AdamW, AdamWSpam, Lion, Muon, ScheduleFree, Sgd, Soap};

        let default = Self::default();
        let has = |kinds: &[OptimizerKind]| kinds.contains(&self.optimizer);
        let schedule = self.lr_schedule;
        let parameters = [
            ("momentum", self.momentum.is_some(), has(&[Muon, Sgd]), "optimizer: muon"),
            ("nesterov", self.nesterov.is_some(), has(&[Muon, Sgd]), "optimizer: muon"),
            ("muon_scale", self.muon_scale != default.muon_scale, has(&[Muon]), "optimizer: muon"),
            ("amsgrad", self.amsgrad.is_some(), has(&[AdamW, AdamWSpam, Muon]), "optimizer: adamw"),
            (
                "adafactor_decay",
                self.adafactor_decay != default.adafactor_decay,
                has(&[Adafactor]),
                "optimizer: adafactor",
            ),
            (
                "adafactor_clip",
                self.adafactor_clip != default.adafactor_clip,
                has(&[Adafactor]),
                "optimizer: adafactor",
            ),
            (
                "precondition_frequency",
                self.precondition_frequency != default.precondition_frequency,
                has(&[Soap]),
                "optimizer: soap",
            ),
            (
                "precondition_limit",
                self.precondition_limit != default.precondition_limit,
                has(&[Soap]),
                "optimizer: soap",
            ),
            ("beta_1", self.beta_1 != default.beta_1, !has(&[Sgd, Adafactor]), "optimizer: adamw"),
            ("beta_2", self.beta_2 != default.beta_2, !has(&[Sgd, Adafactor]), "optimizer: adamw"),
            ("epsilon", self.epsilon != default.epsilon, !has(&[Sgd, Lion, Adafactor]), "optimizer: adamw"),
            ("lr_decay", self.lr_decay != default.lr_decay, schedule == LrSchedule::Wsd, "lr_schedule: wsd"),
            (
                "min_lr_ratio",
                self.min_lr_ratio != default.min_lr_ratio,
                schedule != LrSchedule::Constant,
                "lr_schedule: linear",
            ),
        ];
        let idle = parameters.into_iter().filter(|(_, given, has_effect, _)| *given && !has_effect);
        let conflict = |(name, _, _, need): (&'static str, bool, bool, &str)| Conflict {
            params: vec![name],
            message: format!("`{name}` has no effect here"),
            advice: format!("write `{need}`, or remove `{name}`"),
        };
        let mut conflicts: Vec<Conflict> = idle.map(conflict).collect();
        if self.optimizer == ScheduleFree && schedule != LrSchedule::Constant {
            conflicts.push(Conflict {
                params: vec!["optimizer", "lr_schedule"],
                message: format!("`optimizer: schedulefree` replaces the schedule, but `lr_schedule` is `{schedule}`"),
                advice: "write `lr_schedule: constant`; `warmup_iters` stays".into(),
            });
        }
        if self.optimizer == ScheduleFree && self.beta_1 == 0.0 {
            conflicts.push(Conflict {
                params: vec!["optimizer", "beta_1"],
                message: "`optimizer: schedulefree` divides by `beta_1`, which is 0, to find the mean of the weights"
                    .into(),
                advice: "write a `beta_1` above 0, such as 0.9".into(),
            });
        }
        conflicts
    }
}

impl Optimizer {
    /// Parameters that have no effect on a network of such a `block`, or do not fit it.
    pub(crate) fn conflicts_with(&self, block: &BlockSpec) -> Vec<Conflict> {
        let mut conflicts = Vec::new();
        if self.balance_loss != Self::default().balance_loss && block.experts.is_none() {
            conflicts.push(Conflict {
                params: vec!["balance_loss"],
                message: "`balance_loss` has no effect here".into(),
                advice: "write `experts: 8`, or remove `balance_loss`".into(),
            });
        }
        conflicts.extend(block.misfit_of_optimizer(self));
        conflicts
    }
}

impl MuonScale {
    /// The factor of the learning rate for a matrix with this many inputs and outputs.
    pub fn factor(self, inputs: usize, outputs: usize) -> f64 {
        let (inputs, outputs) = (inputs as f64, outputs as f64);
        match self {
            Self::MatchRmsAdamW => 0.2 * inputs.max(outputs).sqrt(),
            Self::Original => (outputs / inputs).max(1.0).sqrt(),
        }
    }
}

/// The factors of a step of AdamW, in single precision, as kernels take them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdamWFactors {
    /// Factors of the first and the second mean themselves.
    pub keep: [f32; 2],
    /// Factors of the gradient in the first mean, and of its square in the second.
    pub new: [f32; 2],
    /// The learning rate, corrected for the first mean's start at 0.
    pub step_size: f32,
    /// Factor of the second mean's root, against its start at 0.
    pub root_correction: f32,
    /// Added to that root.
    pub epsilon: f32,
    /// Factor of a weight: 1 less its decay.
    pub weight: f32,
}
