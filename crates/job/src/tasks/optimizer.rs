//! The optimizer's parameters.

use crate::params::{choice, params};

choice! {
    /// Which tensors weight decay shrinks.
    pub enum DecayOn {
        /// Tensors of two or more dimensions that are not embeddings.
        Linear = "linear",
        /// Tensors of two or more dimensions, embeddings included: nanoGPT.
        Matrices = "matrices",
        /// Every tensor.
        All = "all",
    }
}

choice! {
    /// The rule that makes a step from a gradient.
    pub enum OptimizerKind {
        /// AdamW.
        AdamW = "adamw",
        /// AdamW with the three guards of SPAM against spikes in the gradient (ratio-ablation, section 8.1): elements are
        /// clipped by their second moment, the moments are damped when the norm jumps, and forgotten from time to time.
        AdamWSpam = "adamwspam",
    }
}

params! {
    /// AdamW with warm-up, cosine decay and clipping by the global norm; with SPAM's guards if asked.
    pub struct Optimizer {
        /// Peak learning rate.
        lr: f64 = 6e-4, in 0.0..=10.0;
        /// Learning rate at the end, as a part of the peak.
        min_lr_ratio: f64 = 0.1, in 0.0..=1.0;
        /// Iterations in which the learning rate rises linearly from 0.
        warmup_iters: usize = 20, in 0..=100_000_000, unit "iterations";
        /// Decay of the first moment.
        beta_1: f64 = 0.9, in 0.0..=0.999_999;
        /// Decay of the second moment.
        beta_2: f64 = 0.95, in 0.0..=0.999_999_9;
        /// Added to the root of the second moment.
        epsilon: f64 = 1e-8, in 0.0..=1.0;
        /// Decoupled weight decay.
        weight_decay: f64 = 0.1, in 0.0..=10.0;
        /// Which tensors weight decay shrinks.
        decay_on: DecayOn = DecayOn::Linear;
        /// Largest global L2 norm of the gradients; 0 does not clip.
        grad_clip: f64 = 1.0, in 0.0..=1e9;
        /// The rule that makes a step from a gradient: AdamW, or AdamW with SPAM's guards against spikes in the gradient.
        optimizer: OptimizerKind = OptimizerKind::AdamW;
        /// Whether a step is divided by the largest second moment so far (AMSGrad) instead of the present one; when not
        /// given, `adamwspam` does and `adamw` does not.
        amsgrad: Option<bool> = None;
        /// SPAM: a gradient's element is clipped to the root of this many times its expected square; 0 does not clip.
        spam_theta: f64 = 50.0, in 0.0..=1e9;
        /// SPAM: iterations after the start, and after a reset, in which no element is clipped, because its expected
        /// square is not known yet.
        spam_clip_after: usize = 20, in 0..=100_000_000, unit "iterations";
        /// SPAM: standard deviations above the mean of the last 99 global norms from which a norm is a spike, which halves
        /// the first moments and takes a tenth of the second; 0 looks for none.
        spam_spike_z: f64 = 2.0, in 0.0..=1e9;
        /// SPAM: iterations between two resets of the moments; 0 never resets.
        spam_interval: usize = 1000, in 0..=100_000_000, unit "iterations";
        /// SPAM: iterations after a reset in which the learning rate rises from 0 again, as half a cosine.
        spam_warmup: usize = 100, in 0..=100_000_000, unit "iterations";
        /// SPAM: whether a reset also forgets the largest second moment and begins the bias correction again.
        spam_reset_all: bool = true;
        /// SPAM: compute as the reference code does, defects included: iterations count twice for `spam_interval` and
        /// `spam_warmup`, elements are clipped from the second iteration on by a second moment without bias correction,
        /// and `spam_reset_all` is off.
        spam_reference: bool = false;
    }
}

impl Optimizer {
    /// Whether a step is divided by the largest second moment so far.
    pub fn uses_amsgrad(&self) -> bool {
        self.amsgrad.unwrap_or(self.optimizer == OptimizerKind::AdamWSpam)
    }
}

/// The factors of a step of AdamW, in single precision, as kernels take them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdamWFactors {
    /// What the first and the second mean keep.
    pub keep: [f32; 2],
    /// What the first and the second mean take of the gradient and of its square.
    pub new: [f32; 2],
    /// The learning rate, corrected for the first mean's start at 0.
    pub step_size: f32,
    /// What the root of the second mean is multiplied by.
    pub root_correction: f32,
    /// Added to that root.
    pub epsilon: f32,
    /// What a weight keeps: 1 less its decay.
    pub weight: f32,
}
