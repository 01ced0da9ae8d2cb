//! `uses: bench/threshold`, `bench/mask-update` and `bench/masking`.

mod masked;
mod search;
#[cfg(test)]
mod tests;
mod threshold;
mod updates;

use std::time::Instant;

use burn::tensor::{Distribution, Tensor};
use sweep_job::{
    MetricInfo, Outcome, Progress, Report,
    tasks::{
        BenchMaskUpdate, BenchMasking, BenchThreshold, MaskFormat, Prune, PruneUpdate, SearchMetrics, ThresholdMethod,
        ThresholdSearch, UpdateKind, Workload, WorkloadMetrics,
    },
};

use super::{Context, Run};
use crate::{
    LabError,
    backend::{BackendTask, Compute, dispatch_eager, sync},
    device::read::host,
    measure::{self, rss::raised},
    prune::{Inputs, Masks, Moments, kth_smallest, part_of},
    rng,
    selection::Found,
};

/// The bias correction of the first moment that workloads have.
const BIAS_CORRECTION_1: f64 = 0.5;
/// Measurements of the floor, of which the least counts.
const FLOORS: usize = 5;

impl Run for BenchThreshold {
    fn run(&self, Context { backend, report, .. }: Context<'_>) -> Result<Outcome, LabError> {
        dispatch_eager(backend, Job::Threshold(self, report))
    }
}

impl Run for BenchMaskUpdate {
    fn run(&self, Context { backend, report, .. }: Context<'_>) -> Result<Outcome, LabError> {
        dispatch_eager(backend, Job::MaskUpdate(self, report))
    }
}

impl Run for BenchMasking {
    fn run(&self, Context { backend, report, .. }: Context<'_>) -> Result<Outcome, LabError> {
        dispatch_eager(backend, Job::Masking(self, report))
    }
}

/// A measurement to do.
enum Job<'a> {
    Threshold(&'a BenchThreshold, &'a mut dyn Report),
    MaskUpdate(&'a BenchMaskUpdate, &'a mut dyn Report),
    Masking(&'a BenchMasking, &'a mut dyn Report),
}

impl BackendTask for Job<'_> {
    type Output = Outcome;

    fn run<B: Compute>(self, device: &B::Device) -> Result<Outcome, LabError> {
        match self {
            Self::Threshold(bench, report) => threshold::run::<B>(bench, device, report),
            Self::MaskUpdate(bench, report) => updates::mask_update::<B>(bench, device, report),
            Self::Masking(bench, report) => updates::masking::<B>(bench, device, report),
        }
    }
}

/// Seconds of every call, ascending, and the bytes by which the first call, which is not timed, raised the process's memory.
struct Calls {
    seconds: Vec<f64>,
    raised: Option<f64>,
}

impl Calls {
    /// Calls `work` once, and then `workload.calls` times. Its results are dropped after the clock has stopped.
    fn measure<B: Compute, T>(
        workload: &Workload,
        device: &B::Device,
        report: &mut dyn Report,
        mut work: impl FnMut() -> Result<T, LabError>,
    ) -> Result<(Self, T), LabError> {
        sync::<B>(device)?;
        let (first_result, growth) = raised(|| {
            let result = work();
            sync::<B>(device).and(result)
        });
        // The host's memory does not reflect a device's memory.
        let growth = growth.filter(|_| B::SYNCHRONOUS);
        let mut last_result = first_result?;
        let mut seconds = Vec::with_capacity(workload.calls);
        for call in 0..workload.calls {
            let start = Instant::now();
            let result = work()?;
            sync::<B>(device)?;
            seconds.push(start.elapsed().as_secs_f64());
            last_result = result;
            let (done, total) = (call as u64 + 1, workload.calls as u64);
            report.progress(Progress { done, total, ..Progress::default() });
        }
        seconds.sort_by(f64::total_cmp);
        Ok((Self { seconds, raised: growth }, last_result))
    }

    fn median(&mut self) -> f64 {
        measure::median(&mut self.seconds).unwrap_or(f64::NAN)
    }

    fn least(&self) -> f64 {
        self.seconds.first().copied().unwrap_or(f64::NAN)
    }
}

/// Layers of random numbers: weights as GPT-2 begins with, and moments as they are when gradients are normal.
fn inputs<B: Compute>(workload: &Workload, device: &B::Device) -> Vec<Inputs<B>> {
    B::seed(device, rng::derived_seed(workload.seed, "bench", &[]));
    let numbers = workload.d_model * workload.d_model;
    let normal = |scale: f64| Tensor::<B, 1>::random([numbers], Distribution::Normal(0.0, scale), device);
    let layer = |layer| {
        let root = normal(1e-4);
        let moments =
            Moments { first: normal(1e-4), second: root.clone() * root, bias_correction_1: BIAS_CORRECTION_1 };
        let name = format!("layer {layer}");
        let weights = normal(0.02);
        let origin = needs_origin(workload).then(|| weights.clone() + normal(1e-3));
        Inputs { name, weights, moments: Some(moments), origin, mask: None }
    };
    (0..workload.n_layer).map(layer).collect()
}

fn needs_origin(workload: &Workload) -> bool {
    workload.prune == sweep_job::tasks::PruneMethod::Movement
}

/// Number of weights to prune.
fn pruned(workload: &Workload) -> usize {
    part_of(workload.sparsity, workload.weights())
}

/// Returns the settings of a training that finds thresholds by Burn's operations with the method `search`.
fn by_operations(workload: &Workload, search: ThresholdSearch, sample_fraction: f64, update: UpdateKind) -> Prune {
    Prune {
        threshold: match search {
            ThresholdSearch::Sample => ThresholdMethod::Sample,
            _ => ThresholdMethod::Exact,
        },
        prune_update: match update {
            UpdateKind::DoublePass => PruneUpdate::DoublePass,
            UpdateKind::SinglePass | UpdateKind::OnePass => PruneUpdate::SinglePass,
        },
        sample_fraction,
        ..workload.settings()
    }
}

/// A layer whose weights are its scores.
fn given<B: Compute>(scores: &Tensor<B, 1>) -> Inputs<B> {
    Inputs { name: "scores".into(), weights: scores.clone(), moments: None, origin: None, mask: None }
}

fn absent(method: ThresholdSearch) -> LabError {
    LabError::Unsupported(format!("`method: {method}` requires the CPU: write `--backend cpu`, or another `method`"))
}

fn no_masks(format: MaskFormat) -> LabError {
    LabError::Unsupported(format!("`mask: {format}` requires the CPU: write `--backend cpu`, or `mask: f32`"))
}

/// Bytes that a method has allocated on a device that is not the host.
fn on_device<B: Compute>(selection: &Found) -> Option<f64> {
    (!B::SYNCHRONOUS).then_some(selection.extra as f64)
}

/// The shortest time of a pass over the same bytes.
fn floor<B: Compute>(inputs: &[Inputs<B>], settings: Option<&Prune>, masks: &mut Masks<B>) -> Option<f64> {
    let device = inputs.first()?.weights.device();
    let mut least_seconds = f64::INFINITY;
    for _ in 0..FLOORS {
        let start = Instant::now();
        B::stream_floor(inputs, settings, masks)?;
        sync::<B>(&device).ok()?;
        least_seconds = least_seconds.min(start.elapsed().as_secs_f64());
    }
    Some(least_seconds)
}

fn describe(outcome: &mut Outcome, median: &MetricInfo, mut calls: Calls) {
    outcome.set(median, calls.median());
    outcome.set(&SearchMetrics::TIME_LEAST, calls.least());
    if let Some(floor) = outcome.value(&SearchMetrics::TIME_FLOOR) {
        outcome.set(&SearchMetrics::RATIO_FLOOR, calls.least() / floor);
    }
    if let Some(bytes) = calls.raised {
        outcome.set(&SearchMetrics::MEMORY_EXTRA, bytes);
    }
}

/// All scores on the host.
fn all_of<B: Compute>(scores: &[Tensor<B, 1>]) -> Result<Vec<f32>, LabError> {
    let mut numbers = Vec::with_capacity(scores.iter().map(|scores| scores.dims()[0]).sum());
    for scores in scores {
        numbers.extend(host(scores.clone())?);
    }
    Ok(numbers)
}

/// Adds the error of `threshold` relative to the `k`-th smallest of `scores`, and the sparsity that it causes. Reorders
/// `scores`; returns the exact threshold.
fn compare(outcome: &mut Outcome, scores: &mut [f32], threshold: f32, k: usize) -> f32 {
    outcome.set(&WorkloadMetrics::SPARSITY, pruned_by(scores, threshold));
    let exact = kth_smallest(scores, k);
    outcome.set(&SearchMetrics::ERROR_THRESHOLD, error(threshold, exact));
    exact
}

/// The part of `scores` that `threshold` prunes.
fn pruned_by(scores: &[f32], threshold: f32) -> f64 {
    let count = scores.iter().filter(|score| **score <= threshold).count();
    count as f64 / scores.len() as f64
}

/// The difference of `threshold` from `exact`, relative to it.
fn error(threshold: f32, exact: f32) -> f64 {
    let exact = f64::from(exact);
    (f64::from(threshold) - exact).abs() / exact.abs()
}
