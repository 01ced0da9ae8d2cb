//! The optimizer's parameters.

use crate::params::{choice, params};

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
    }
}

params! {
    /// AdamW with linear warm-up, cosine decay and clipping by the global norm, optionally with SPAM.
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
        /// Optimizer: AdamW, or AdamW with SPAM's measures against gradient spikes.
        optimizer: OptimizerKind = OptimizerKind::AdamW;
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
