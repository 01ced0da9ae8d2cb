//! `uses: train`.

use super::{Architecture, Coupling, Data, GatePool, Model, data::held_out_conflict};
use crate::{
    Conflict, Group, MetricInfo, Param, Unit, Values,
    params::{choice, params},
};

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
    /// How weights are chosen for pruning.
    pub enum PruneMethod {
        /// No pruning.
        None = "none",
        /// The smallest `|w|` (ratio-ablation, section 8.4).
        Magnitude = "magnitude",
        /// The smallest `|w| (|v| + 1e-8)^(1/4)`, `v` being Adam's second moment (ratio-ablation, section 8.2).
        Bitter7 = "bitter7",
    }
}

choice! {
    /// How sparsity rises to its target; `p` is the part of the ramp that has passed.
    pub enum Schedule {
        /// `p^3`: slow at first.
        Cubic = "cubic",
        /// `p`.
        Linear = "linear",
    }
}

params! {
    /// The loop: how long, how much at a time, how often to look.
    pub struct Training {
        /// Optimizer steps.
        iters: usize = 200, in 1..=100_000_000, unit "iterations";
        /// Sequences in one forward pass.
        batch_size: usize = 8, in 1..=1_000_000, unit "sequences";
        /// Forward and backward passes whose gradients are averaged into one optimizer step.
        grad_accumulation: usize = 1, in 1..=1_000_000;
        /// Seed of the weights, of the order of the data and of dropout; each has its own stream.
        seed: u64 = 0, in 0..=9_007_199_254_740_991_i64;
        /// Iterations between two readings of the training loss.
        log_every: usize = 10, in 1..=100_000_000, unit "iterations";
        /// Iterations between two evaluations on held-out tokens; 0 evaluates at the end only.
        eval_every: usize = 0, in 0..=100_000_000, unit "iterations";
        /// Batches of held-out tokens in one evaluation, spread evenly over them; the same for every seed.
        eval_batches: usize = 16, in 1..=1_000_000;
        /// Whether to keep the trained network as the artifact `checkpoint`, in the Hub's layout.
        save: bool = false;
    }
}

params! {
    /// AdamW with warm-up, cosine decay and clipping by the global norm.
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
    }
}

params! {
    /// Pruning to a global sparsity over the weights of the linear layers, with an exact threshold.
    pub struct Prune {
        /// How weights are chosen.
        prune: PruneMethod = PruneMethod::None;
        /// The part of the prunable weights that is zero at the end.
        sparsity: f64 = 0.5, in 0.0..=0.99;
        /// Iterations before the ramp begins; a tenth of `iters` when not given.
        prune_warmup: Option<usize> = None, in 0..=100_000_000, unit "iterations";
        /// The iteration at which the target is reached; three fifths of `iters` when not given.
        prune_ramp_end: Option<usize> = None, in 1..=100_000_000, unit "iterations";
        /// Iterations between two choices of the mask.
        prune_every: usize = 10, in 1..=100_000_000, unit "iterations";
        /// How sparsity rises.
        prune_schedule: Schedule = Schedule::Cubic;
        /// Whether the token table, which is also the output layer, is pruned too.
        prune_tied_head: bool = false;
    }
}

/// Trains a GPT-2.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Train {
    /// The network.
    pub model: Model,
    /// What its blocks are made of.
    pub architecture: Architecture,
    /// How its mechanisms fade in.
    pub coupling: Coupling,
    /// The tokens.
    pub data: Data,
    /// The loop.
    pub training: Training,
    /// The optimizer.
    pub optimizer: Optimizer,
    /// The pruning.
    pub prune: Prune,
}

impl Train {
    pub(crate) const GROUPS: &'static [&'static [Param]] = &[
        Model::PARAMS,
        Architecture::PARAMS,
        Coupling::PARAMS,
        Data::PARAMS,
        Training::PARAMS,
        Optimizer::PARAMS,
        Prune::PARAMS,
    ];

    pub(crate) const METRICS: &'static [MetricInfo] = &[
        MetricInfo { name: "loss", unit: Unit::Nats, doc: "mean cross-entropy on the held-out tokens at the end" },
        MetricInfo { name: "perplexity", unit: Unit::One, doc: "exp(loss)" },
        MetricInfo { name: "train_loss", unit: Unit::Nats, doc: "mean training loss since the last but one reading" },
        MetricInfo { name: "sparsity", unit: Unit::Fraction, doc: "part of the prunable weights that is exactly zero" },
        MetricInfo {
            name: "throughput.tokens_per_s",
            unit: Unit::TokensPerSecond,
            doc: "trained tokens over the time of the training steps, evaluation and the first step left out",
        },
        MetricInfo { name: "time.step", unit: Unit::Seconds, doc: "median time of an optimizer step" },
        MetricInfo { name: "time.prune", unit: Unit::Seconds, doc: "time spent choosing masks, in all" },
        MetricInfo { name: "time.train", unit: Unit::Seconds, doc: "time of the whole loop, evaluation included" },
        MetricInfo { name: "memory.peak", unit: Unit::Bytes, doc: "largest resident memory of the worker process" },
        MetricInfo { name: "parameters", unit: Unit::Count, doc: "trained numbers, tied ones counted once" },
    ];

    pub(crate) fn from_values(values: &Values) -> Option<Self> {
        Some(Self {
            model: Model::from_values(values)?,
            architecture: Architecture::from_values(values)?,
            coupling: Coupling::from_values(values)?,
            data: Data::from_values(values)?,
            training: Training::from_values(values)?,
            optimizer: Optimizer::from_values(values)?,
            prune: Prune::from_values(values)?,
        })
    }

    pub(crate) fn conflicts(values: &Values) -> Vec<Conflict> {
        let Some(train) = Self::from_values(values) else { return Vec::new() };
        let mut conflicts = train.model.conflicts();
        conflicts.extend(train.architecture.conflicts(train.model.dims(), train.model.init.is_some()));
        if train.architecture.gate_pool == Some(GatePool::SequenceMean) {
            conflicts.push(Conflict {
                params: vec!["gate_pool"],
                message: "a head gate pooled over the whole sequence sees the tokens that are to be predicted".into(),
                advice: "set `gate_pool` to `prefix_mean` or `token`".into(),
            });
        }
        let Training { eval_batches, batch_size, .. } = train.training;
        conflicts.extend(held_out_conflict(eval_batches, batch_size, train.model.dims().block_size));
        if train.prune.prune != PruneMethod::None && train.prune.last_update(train.training.iters).is_none() {
            let (warmup, end) = train.prune.ramp(train.training.iters);
            conflicts.push(Conflict {
                params: vec!["prune_ramp_end", "prune_every", "prune_warmup", "iters"],
                message: format!(
                    "the target sparsity is never reached: the ramp goes from iteration {warmup} to {end}, and no mask is \
                     chosen between its end and iteration {}",
                    train.training.iters
                ),
                advice: "end the ramp earlier, choose masks more often, or train longer".into(),
            });
        }
        conflicts
    }
}

impl Prune {
    /// First and last iteration of the ramp in a training of `iters` iterations.
    pub fn ramp(&self, iters: usize) -> (usize, usize) {
        (self.prune_warmup.unwrap_or(iters / 10), self.prune_ramp_end.unwrap_or(iters * 3 / 5))
    }

    /// Whether the mask is chosen anew after the optimizer step of iteration `iter`, counted from 0.
    pub fn updates_at(&self, iter: usize, iters: usize) -> bool {
        let (warmup, _) = self.ramp(iters);
        self.prune != PruneMethod::None && iter >= warmup && iter.is_multiple_of(self.prune_every)
    }

    /// The sparsity that the schedule wants at iteration `iter`.
    pub fn target_at(&self, iter: usize, iters: usize) -> f64 {
        let (warmup, end) = self.ramp(iters);
        let span = end.saturating_sub(warmup).max(1);
        let passed = (iter.saturating_sub(warmup) as f64 / span as f64).min(1.0);
        self.sparsity
            * match self.prune_schedule {
                Schedule::Cubic => passed.powi(3),
                Schedule::Linear => passed,
            }
    }

    /// The last iteration that chooses a mask at full sparsity, if there is one.
    fn last_update(&self, iters: usize) -> Option<usize> {
        let (warmup, end) = self.ramp(iters);
        let last = (iters - 1) / self.prune_every * self.prune_every;
        (last >= end && last >= warmup && end >= warmup).then_some(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cubic_and_linear_checkpoints_of_the_reference() {
        // ratio-ablation, section 8.4: target .5, warm-up 1000, ramp end 3000, at step 2000.
        let mut prune = Prune {
            prune_warmup: Some(1000),
            prune_ramp_end: Some(3000),
            prune: PruneMethod::Magnitude,
            ..Prune::default()
        };
        assert_eq!(prune.target_at(2000, 10_400), 0.0625);
        prune.prune_schedule = Schedule::Linear;
        assert_eq!(prune.target_at(2000, 10_400), 0.25);
        assert_eq!(prune.target_at(500, 10_400), 0.0);
        assert_eq!(prune.target_at(9000, 10_400), 0.5);
    }

    #[test]
    fn a_ramp_that_never_ends_is_a_conflict() {
        let info = crate::Task::info("train").unwrap();
        let given = |iters| {
            info.complete(Values::from([
                ("prune".into(), "magnitude".into_value()),
                ("iters".into(), crate::Value::Int(iters)),
                ("prune_every".into(), crate::Value::Int(50)),
            ]))
        };
        assert_eq!(info.conflicts(&given(60)).len(), 0, "iteration 50 is after the ramp's end at 36");
        assert_eq!(info.conflicts(&given(40)).len(), 1, "only iteration 0 is a multiple of 50");
    }

    trait IntoValue {
        fn into_value(self) -> crate::Value;
    }

    impl IntoValue for &str {
        fn into_value(self) -> crate::Value {
            crate::Value::Text(self.into())
        }
    }
}
