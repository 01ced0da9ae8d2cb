//! Metrics of a whole training, and reasons for absent ones.

use sweep_job::{
    Backend, Outcome,
    tasks::{ComputeMetrics, LoopMetrics, NetworkMetrics, OptimizerKind, PeakMetrics, Train},
};

use super::Trainer;
use crate::{
    backend::Compute,
    measure::{ceiling::Ceiling, flops::flops_per_token},
    model::{GptDims, ParamInfo},
};

/// Adds the metrics that follow from the parameters alone.
pub(super) fn describe(outcome: &mut Outcome, train: &Train, dims: &GptDims, parameters: &[ParamInfo]) {
    let count = |counts: &dyn Fn(&ParamInfo) -> bool| -> usize {
        parameters.iter().filter(|info| counts(info)).map(ParamInfo::len).sum()
    };
    outcome.set(&NetworkMetrics::PARAMETERS, count(&|_| true) as f64);
    outcome.set(&NetworkMetrics::ACTIVE, dims.active_parameter_count() as f64);
    let decayed_count = count(&|info| info.decays(train.optimizer.decay_on));
    outcome.facts.insert("parameters.decayed".into(), decayed_count.to_string());
    let prunable = |info: &ParamInfo| info.prunable(train.prune.prune_tied_head);
    outcome.facts.insert("parameters.prunable".into(), count(&prunable).to_string());
    outcome.set(&Train::PRUNABLE, count(&prunable) as f64);
    outcome.set(&Train::PRUNABLE_MATRICES, parameters.iter().filter(|info| prunable(info)).count() as f64);
}

/// Adds the part of the device's peak performance that a training reaches.
pub(super) fn describe_speed(outcome: &mut Outcome, train: &Train, dims: &GptDims, ceiling: Option<Ceiling>) {
    let flops = outcome.value(&Train::TOKENS_PER_S).map(|tokens| tokens * flops_per_token(dims));
    outcome.set(&ComputeMetrics::FLOPS, flops.unwrap_or(f64::NAN));
    let Some(ceiling) = ceiling else { return };
    outcome.set(&PeakMetrics::FLOPS, ceiling.flops);
    outcome.set(&Train::MFU, flops.unwrap_or(f64::NAN) / ceiling.flops);
    outcome.set(&PeakMetrics::BANDWIDTH, ceiling.bytes);
    if !is_adam(train) {
        return;
    }
    let (Some(weights), Some(seconds)) =
        (outcome.value(&NetworkMetrics::PARAMETERS), outcome.value(&LoopMetrics::TIME_OPTIMIZER))
    else {
        return;
    };
    let min_seconds = bytes_per_weight(train.optimizer.uses_amsgrad()) * weights / ceiling.bytes;
    outcome.set(&Train::BANDWIDTH_OPTIMIZER, min_seconds / seconds);
}

/// True if AdamW updates all parameters.
fn is_adam(train: &Train) -> bool {
    matches!(train.optimizer.optimizer, OptimizerKind::AdamW | OptimizerKind::AdamWSpam)
}

/// Minimum memory traffic of a step of AdamW per weight, in bytes: the weight and both moments are read and written, the gradient is read,
/// and AMSGrad's largest second moment is read and written too, all of them in four bytes.
const fn bytes_per_weight(amsgrad: bool) -> f64 {
    let (updates, reads) = if amsgrad { (4, 1) } else { (3, 1) };
    (4 * (2 * updates + reads)) as f64
}

/// Adds the reason for every declared metric that was not measured.
pub(super) fn explain_absence(outcome: &mut Outcome, train: &Train, backend: Backend) {
    let reason = |name: &str| -> &str {
        match name {
            "memory.device.peak" | "memory.device.mean" | "memory.device.reserved" if backend == Backend::Cpu => {
                "the CPU backend has no allocator of its own; `memory.peak` includes its memory"
            }
            "fusion.operations" | "fusion.kernels" | "fusion.unfused" if backend == Backend::Cpu => {
                "the CPU backend compiles no kernels, so there is nothing to fuse"
            }
            "bandwidth.optimizer" if !is_adam(train) => "the bytes of a step are known for AdamW only",
            "bandwidth.optimizer" if train.training.ceiling && !train.training.breakdown => "needs `breakdown: true`",
            "peak.compute" | "compute.mfu" | "peak.bandwidth" | "bandwidth.optimizer" if train.training.ceiling => {
                "the device failed when it was measured"
            }
            "peak.compute" | "compute.mfu" | "peak.bandwidth" | "bandwidth.optimizer" => "needs `ceiling: true`",
            "time.data" | "time.forward" | "time.backward" | "time.optimizer" | "time.spam" | "time.masking"
            | "time.score" | "time.threshold" | "share.spam" | "share.masking" | "share.score" | "share.threshold"
                if !train.training.breakdown =>
            {
                "needs `breakdown: true`"
            }
            "time.score" | "share.score" => {
                "the pass that finds the threshold computes the scores; `prune_update: single_pass` measures them"
            }
            "steps.skipped" => "only half precision needs to leave steps out",
            "memory.peak" => "this system does not report the memory of a process",
            _ => "one iteration is not enough to measure it",
        }
    };
    for name in Train::metric_names().filter(|name| !outcome.metrics.contains_key(*name)) {
        outcome.facts.entry(format!("absent.{name}")).or_insert_with(|| reason(name).to_owned());
    }
}

impl<B: Compute> Trainer<'_, B> {
    /// Adds the time of each part of `steps` steps, per step.
    pub(super) fn describe_parts(&self, outcome: &mut Outcome, steps: usize) {
        let times = self.pruner.spent();
        let scores = (&Train::TIME_SCORE, times.scores.as_secs_f64());
        let thresholds = (&Train::TIME_THRESHOLD, times.thresholds.as_secs_f64());
        // The pass that finds thresholds may have computed the scores.
        let is_apart = !times.scores.is_zero() || times.thresholds.is_zero();
        let choice_times = [is_apart.then_some(scores), Some(thresholds)].into_iter().flatten();
        for (metric, seconds) in self.breakdown.seconds().chain(choice_times) {
            outcome.set(metric, seconds / steps as f64);
        }
        let Some(steps_per_s) = self.clock.steps_per_s() else { return };
        for (share, part) in [
            (&Train::SHARE_SPAM, &Train::TIME_SPAM),
            (&Train::SHARE_MASKING, &Train::TIME_MASKING),
            (&Train::SHARE_SCORE, &Train::TIME_SCORE),
            (&Train::SHARE_THRESHOLD, &Train::TIME_THRESHOLD),
        ] {
            if let Some(seconds) = outcome.value(part) {
                outcome.set(share, seconds * steps_per_s);
            }
        }
    }
}
