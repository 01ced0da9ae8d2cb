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
fn scores<B: Compute>(workload: &Workload, given: &Given, device: &B::Device) -> Vec<Tensor<B, 1>> {
    let scores: Vec<Tensor<B, 1>> = match given.scores {
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
    match given.score_format {
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
    let (mut calls, mut found) = (0, Vec::with_capacity(workload.calls + 1));
    let (mut calls, threshold) = if method.streams() {
        let given: Vec<Inputs<B>> = scores.iter().map(given).collect();
        let mut masks = B::masks(None, &given).ok_or_else(|| absent(method))?;
        let (mut calls, last) = Calls::measure::<B, _>(workload, device, report, || {
            calls += 1;
            let last = B::stream(&given, None, method, k, calls, &mut masks).unwrap_or_else(|| Err(absent(method)))?;
            found.push(last.threshold);
            Ok(last)
        })?;
        passes = Some(last.passes);
        calls.raised = calls.raised.or_else(|| on_device::<B>(&last));
        if let Some(floor) = floor::<B>(&given, None, &mut masks) {
            outcome.set(&SearchMetrics::TIME_FLOOR, floor);
        }
        (calls, last.threshold)
    } else {
        let host = HostSelect::new(&by_operations(workload, method, sample_fraction, UpdateKind::SinglePass));
        Calls::measure::<B, _>(workload, device, report, || {
            calls += 1;
            let last = match method {
                ThresholdSearch::Sample => host.sampled(&scores, k, calls)?,
                method => by_operation(&scores, method, k, workload.sparsity)?,
            };
            found.push(last);
            Ok(last)
        })?
    };
    outcome.set(&BenchThreshold::TIME_UPDATES, calls.median() * source.updates as f64);
    describe(&mut outcome, &BenchThreshold::TIME_THRESHOLD, calls);
    if let Some(passes) = passes {
        outcome.set(&SearchMetrics::PASSES, passes as f64);
    }
    outcome.set(&BenchThreshold::MEMORY_SCORES, (workload.weights() * size_of::<f32>()) as f64);
    outcome.set(&WorkloadMetrics::WEIGHTS, workload.weights() as f64);
    let mut all = all_of(&scores)?;
    drop(scores);
    let exact = compare(&mut outcome, &mut all, threshold, k);
    // The first call is not timed, and does not count here either.
    describe_errors(&mut outcome, found.get(1..).unwrap_or_default(), &all, exact);
    Ok(outcome)
}

/// Adds how near the thresholds of all calls are to the `exact` one of `scores`, and what that prunes.
fn describe_errors(outcome: &mut Outcome, found: &[f32], scores: &[f32], exact: f32) {
    let errors: Vec<f64> = found.iter().map(|threshold| error(*threshold, exact)).collect();
    outcome.set(&BenchThreshold::ERROR_MEAN, errors.iter().sum::<f64>() / errors.len().max(1) as f64);
    outcome.set(&BenchThreshold::ERROR_MAX, errors.iter().copied().fold(0.0, f64::max));
    outcome.set(&BenchThreshold::SPARSITY_EXACT, pruned_by(scores, exact));
    let equal = scores.iter().filter(|score| **score == exact).count();
    outcome.set(&BenchThreshold::TIES, equal as f64 / scores.len() as f64);
}
