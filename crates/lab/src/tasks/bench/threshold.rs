//! `uses: bench/threshold`.

use burn::tensor::{Distribution, FloatDType, Tensor};
use sweep_job::{
    Outcome, Report,
    tasks::{
        BenchThreshold, Finding, Given, ScoreFormat, ScoreSource, SearchMetrics, ThresholdSearch, UpdateKind, Workload,
        WorkloadMetrics,
    },
};

use super::{
    Calls, absent, all_of, by_operations, compare, describe, error, floor, given, inputs, on_device, pruned, pruned_by,
    search::by_operation,
};
use crate::{
    LabError,
    backend::Compute,
    prune::{HostSelect, Inputs, Layers},
    rng,
};

/// The scores of every layer.
fn scores<B: Compute>(workload: &Workload, source: &Given, device: &B::Device) -> Vec<Tensor<B, 1>> {
    let scores: Vec<Tensor<B, 1>> = match source.scores {
        ScoreSource::Weights => {
            let settings = workload.settings();
            let mut layers = Layers::new(&settings, inputs::<B>(workload, device));
            (0..workload.n_layer).map(|layer| layers.scores(layer)).collect()
        }
        ScoreSource::Uniform => {
            B::seed(device, rng::derived_seed(workload.seed, "bench", &[]));
            let numbers = workload.d_model * workload.d_model;
            let uniform = |_| Tensor::random([numbers], Distribution::Uniform(0.0, 1.0), device);
            (0..workload.n_layer).map(uniform).collect()
        }
    };
    match source.score_format {
        ScoreFormat::F32 => scores,
        ScoreFormat::Bf16 => {
            scores.into_iter().map(|scores| scores.cast(FloatDType::BF16).cast(FloatDType::F32)).collect()
        }
    }
}

/// Finds thresholds and measures them.
pub(super) fn run<B: Compute>(
    bench: &BenchThreshold,
    device: &B::Device,
    report: &mut dyn Report,
) -> Result<Outcome, LabError> {
    let BenchThreshold { workload, finding, given: source } = bench;
    let Finding { method, sample_fraction } = *finding;
    let scores = scores::<B>(workload, source, device);
    let k = pruned(workload);
    let mut outcome = Outcome::default();
    let mut passes = None;
    let (mut calls, mut thresholds) = (0, Vec::with_capacity(workload.calls + 1));
    let (mut calls, threshold) = if method.streams() {
        let layers: Vec<Inputs<B>> = scores.iter().map(given).collect();
        let mut masks = B::masks(None, &layers).ok_or_else(|| absent(method))?;
        let (mut calls, selection) = Calls::measure::<B, _>(workload, device, report, || {
            calls += 1;
            let selection =
                B::stream(&layers, None, method, k, calls, &mut masks).unwrap_or_else(|| Err(absent(method)))?;
            thresholds.push(selection.threshold);
            Ok(selection)
        })?;
        passes = Some(selection.passes);
        calls.raised = calls.raised.or_else(|| on_device::<B>(&selection));
        if let Some(floor) = floor::<B>(&layers, None, &mut masks) {
            outcome.set(&SearchMetrics::TIME_FLOOR, floor);
        }
        (calls, selection.threshold)
    } else {
        let host = HostSelect::new(&by_operations(workload, method, sample_fraction, UpdateKind::SinglePass));
        Calls::measure::<B, _>(workload, device, report, || {
            calls += 1;
            let threshold = match method {
                ThresholdSearch::Sample => host.sampled(&scores, k, calls)?,
                method => by_operation(&scores, method, k, workload.sparsity)?,
            };
            thresholds.push(threshold);
            Ok(threshold)
        })?
    };
    outcome.set(&BenchThreshold::TIME_UPDATES, calls.median() * source.updates as f64);
    describe(&mut outcome, &BenchThreshold::TIME_THRESHOLD, calls);
    if let Some(passes) = passes {
        outcome.set(&SearchMetrics::PASSES, passes as f64);
    }
    outcome.set(&BenchThreshold::MEMORY_SCORES, (workload.weights() * size_of::<f32>()) as f64);
    outcome.set(&WorkloadMetrics::WEIGHTS, workload.weights() as f64);
    let mut numbers = all_of(&scores)?;
    drop(scores);
    let exact = compare(&mut outcome, &mut numbers, threshold, k);
    // The first call is not timed, and does not count here either.
    describe_errors(&mut outcome, thresholds.get(1..).unwrap_or_default(), &numbers, exact);
    Ok(outcome)
}

/// Adds the errors of the thresholds of all calls relative to the `exact` one of `scores`, and the part that it prunes.
fn describe_errors(outcome: &mut Outcome, thresholds: &[f32], scores: &[f32], exact: f32) {
    let errors: Vec<f64> = thresholds.iter().map(|threshold| error(*threshold, exact)).collect();
    outcome.set(&BenchThreshold::ERROR_MEAN, errors.iter().sum::<f64>() / errors.len().max(1) as f64);
    outcome.set(&BenchThreshold::ERROR_MAX, errors.iter().copied().fold(0.0, f64::max));
    outcome.set(&BenchThreshold::SPARSITY_EXACT, pruned_by(scores, exact));
    let ties = scores.iter().filter(|score| **score == exact).count();
    outcome.set(&BenchThreshold::TIES, ties as f64 / scores.len() as f64);
}
