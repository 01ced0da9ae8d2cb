//! `uses: bench/threshold`, `bench/mask-update` and `bench/masking`.

use std::time::Instant;

use burn::tensor::{Distribution, Tensor};
use sweep_job::{
    MetricInfo, Outcome, Progress, Report,
    tasks::{
        BenchMaskUpdate, BenchMasking, BenchThreshold, MaskFormat, MaskMetrics, Prune, PruneUpdate, SearchMetrics,
        ThresholdMethod, ThresholdSearch, UpdateKind, Workload, WorkloadMetrics,
    },
};

use super::{Context, Run};
use crate::{
    LabError,
    backend::{BackendTask, Compute, dispatch_eager, sync},
    device::read::{host, number},
    measure::{self, rss::raised},
    prune::{Goal, Group, HostSelect, Inputs, Layers, Masks, Moments, Select as _, kth_smallest, part_of},
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
            Self::Threshold(bench, report) => threshold::<B>(bench, device, report),
            Self::MaskUpdate(bench, report) => mask_update::<B>(bench, device, report),
            Self::Masking(bench, report) => masking::<B>(bench, device, report),
        }
    }
}

/// Seconds of every call, ascending, and by how many bytes the first, which is not timed, raised the process's memory.
struct Calls {
    seconds: Vec<f64>,
    raised: Option<f64>,
}

impl Calls {
    /// Calls `work` once, and as often as `workload` says. What it gives is dropped after the clock has stopped.
    fn measure<B: Compute, T>(
        workload: &Workload,
        device: &B::Device,
        report: &mut dyn Report,
        mut work: impl FnMut() -> Result<T, LabError>,
    ) -> Result<(Self, T), LabError> {
        sync::<B>(device)?;
        let (first, raised) = raised(|| {
            let found = work();
            sync::<B>(device).and(found)
        });
        // The host's memory says nothing of a device's.
        let raised = raised.filter(|_| B::SYNCHRONOUS);
        let mut last = first?;
        let mut seconds = Vec::with_capacity(workload.calls);
        for call in 0..workload.calls {
            let started = Instant::now();
            let found = work()?;
            sync::<B>(device)?;
            seconds.push(started.elapsed().as_secs_f64());
            last = found;
            let (done, total) = (call as u64 + 1, workload.calls as u64);
            report.progress(Progress { done, total, ..Progress::default() });
        }
        seconds.sort_by(f64::total_cmp);
        Ok((Self { seconds, raised }, last))
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

/// The settings of a training that finds thresholds by Burn's operations as `search` says.
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

fn threshold<B: Compute>(
    bench: &BenchThreshold,
    device: &B::Device,
    report: &mut dyn Report,
) -> Result<Outcome, LabError> {
    let BenchThreshold { workload, finding } = bench;
    let settings = workload.settings();
    let scores: Vec<Tensor<B, 1>> = {
        let mut layers = Layers::new(&settings, inputs::<B>(workload, device));
        (0..workload.n_layer).map(|layer| layers.scores(layer)).collect()
    };
    let k = pruned(workload);
    let mut outcome = Outcome::default();
    let mut passes = None;
    let mut calls = 0;
    let (calls, threshold) = if finding.method.streams() {
        let given: Vec<Inputs<B>> = scores.iter().map(given).collect();
        let mut masks = B::masks(None, &given).ok_or_else(|| absent(finding.method))?;
        let (mut calls, found) = Calls::measure::<B, _>(workload, device, report, || {
            calls += 1;
            B::stream(&given, None, finding.method, k, calls, &mut masks).unwrap_or_else(|| Err(absent(finding.method)))
        })?;
        passes = Some(found.passes);
        calls.raised = calls.raised.or_else(|| on_device::<B>(&found));
        if let Some(floor) = floor::<B>(&given, None, &mut masks) {
            outcome.set(&SearchMetrics::TIME_FLOOR, floor);
        }
        (calls, found.threshold)
    } else {
        let host =
            HostSelect::new(&by_operations(workload, finding.method, finding.sample_fraction, UpdateKind::SinglePass));
        Calls::measure::<B, _>(workload, device, report, || {
            calls += 1;
            match finding.method {
                ThresholdSearch::Sample => host.sampled(&scores, k, calls),
                method => by_operation(&scores, method, k),
            }
        })?
    };
    describe(&mut outcome, &BenchThreshold::TIME_THRESHOLD, calls);
    if let Some(passes) = passes {
        outcome.set(&SearchMetrics::PASSES, passes as f64);
    }
    let all = all_of(scores)?;
    compare(&mut outcome, &all, threshold, k);
    outcome.set(&WorkloadMetrics::WEIGHTS, workload.weights() as f64);
    Ok(outcome)
}

/// The `k`-th smallest score by one of Burn's operations.
fn by_operation<B: Compute>(scores: &[Tensor<B, 1>], method: ThresholdSearch, k: usize) -> Result<f32, LabError> {
    let scores = Tensor::cat(scores.to_vec(), 0);
    match method {
        // The k smallest are the k largest with the other sign.
        ThresholdSearch::TopK => Ok(-place(scores.neg().topk(k, 0), k - 1)?),
        _ => place(scores.sort(0), k - 1),
    }
}

/// The number at `place`.
fn place<B: Compute>(sorted: Tensor<B, 1>, place: usize) -> Result<f32, LabError> {
    #[expect(clippy::cast_possible_truncation, reason = "it was in single precision")]
    let found = number(sorted.slice(place..place + 1))? as f32;
    Ok(found)
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
fn on_device<B: Compute>(found: &Found) -> Option<f64> {
    (!B::SYNCHRONOUS).then_some(found.extra as f64)
}

/// The least time of a pass over the same bytes.
fn floor<B: Compute>(inputs: &[Inputs<B>], settings: Option<&Prune>, masks: &mut Masks<B>) -> Option<f64> {
    let device = inputs.first()?.weights.device();
    let mut least = f64::INFINITY;
    for _ in 0..FLOORS {
        let started = Instant::now();
        B::stream_floor(inputs, settings, masks)?;
        sync::<B>(&device).ok()?;
        least = least.min(started.elapsed().as_secs_f64());
    }
    Some(least)
}

fn describe(outcome: &mut Outcome, median: &MetricInfo, mut calls: Calls) {
    outcome.set(median, calls.median());
    outcome.set(&SearchMetrics::TIME_LEAST, calls.least());
    if let Some(floor) = outcome.value(&SearchMetrics::TIME_FLOOR) {
        outcome.set(&SearchMetrics::RATIO_FLOOR, calls.least() / floor);
    }
    if let Some(raised) = calls.raised {
        outcome.set(&SearchMetrics::MEMORY_EXTRA, raised);
    }
}

/// All scores on the host.
fn all_of<B: Compute>(scores: Vec<Tensor<B, 1>>) -> Result<Vec<f32>, LabError> {
    let mut all = Vec::new();
    for scores in scores {
        all.extend(host(scores)?);
    }
    Ok(all)
}

/// Adds how near `threshold` is to the `k`-th smallest of `scores`, and what it prunes.
fn compare(outcome: &mut Outcome, scores: &[f32], threshold: f32, k: usize) {
    let below = scores.iter().filter(|score| **score <= threshold).count();
    outcome.set(&WorkloadMetrics::SPARSITY, below as f64 / scores.len() as f64);
    let exact = f64::from(kth_smallest(&mut scores.to_vec(), k));
    outcome.set(&SearchMetrics::ERROR_THRESHOLD, (f64::from(threshold) - exact).abs() / exact.abs());
}

fn mask_update<B: Compute>(
    bench: &BenchMaskUpdate,
    device: &B::Device,
    report: &mut dyn Report,
) -> Result<Outcome, LabError> {
    let BenchMaskUpdate { workload, finding, making } = bench;
    let settings = by_operations(workload, finding.method, finding.sample_fraction, making.update);
    let inputs = inputs::<B>(workload, device);
    let k = pruned(workload);
    let mut outcome = Outcome::default();
    let mut calls = 0;
    let (calls, threshold) = if making.update == UpdateKind::OnePass {
        let mut masks = B::masks(Some(making.mask), &inputs).ok_or_else(|| no_masks(making.mask))?;
        let (mut calls, found) = Calls::measure::<B, Found>(workload, device, report, || {
            calls += 1;
            let found = B::stream(&inputs, Some(&settings), finding.method, k, calls, &mut masks);
            found.unwrap_or_else(|| Err(absent(finding.method)))
        })?;
        calls.raised = calls.raised.or_else(|| on_device::<B>(&found));
        outcome.set(&SearchMetrics::PASSES, found.passes as f64);
        outcome.set(&MaskMetrics::MEMORY_MASKS, masks.bytes() as f64);
        if let Some(floor) = floor::<B>(&inputs, Some(&settings), &mut masks) {
            outcome.set(&SearchMetrics::TIME_FLOOR, floor);
        }
        (calls, found.threshold)
    } else {
        let groups = [Group { layers: 0..workload.n_layer, sparsity: workload.sparsity }];
        let host = HostSelect::new(&settings);
        let (calls, threshold) = Calls::measure::<B, f32>(workload, device, report, || {
            calls += 1;
            let mut layers = Layers::new(&settings, inputs.clone());
            let goal = Goal { groups: &groups, seed: calls };
            let choices = match finding.method {
                ThresholdSearch::Sample => host.select(&mut layers, &goal)?,
                method => host.select_by(&mut layers, &goal, &|scores, k, _| Ok(by_operation(scores, method, k)?))?,
            };
            Ok(choices.iter().flatten().map(|choice| choice.threshold).next().unwrap_or(f32::NAN))
        })?;
        outcome.set(&MaskMetrics::MEMORY_MASKS, (workload.weights() * size_of::<f32>()) as f64);
        (calls, threshold)
    };
    describe(&mut outcome, &MaskMetrics::TIME_UPDATE, calls);
    outcome.set(&BenchMaskUpdate::MEMORY_SCORES, (workload.weights() * size_of::<f32>()) as f64);
    let mut layers = Layers::new(&settings, inputs);
    let scores = (0..workload.n_layer).map(|layer| layers.scores(layer)).collect();
    compare(&mut outcome, &all_of(scores)?, threshold, k);
    outcome.set(&WorkloadMetrics::WEIGHTS, workload.weights() as f64);
    Ok(outcome)
}

fn masking<B: Compute>(bench: &BenchMasking, device: &B::Device, report: &mut dyn Report) -> Result<Outcome, LabError> {
    let BenchMasking { workload, mask: making, timing } = bench;
    let settings = by_operations(workload, ThresholdSearch::Sample, 0.01, making.update);
    let inputs = inputs::<B>(workload, device);
    let k = pruned(workload);
    let mut outcome = Outcome::default();
    let mut calls = 0;
    let (mut updates, masks) = if making.update == UpdateKind::OnePass {
        let mut masks = B::masks(Some(making.mask), &inputs).ok_or_else(|| no_masks(making.mask))?;
        let (updates, found) = Calls::measure::<B, Found>(workload, device, report, || {
            calls += 1;
            let found = B::stream(&inputs, Some(&settings), ThresholdSearch::Bracket, k, calls, &mut masks);
            found.unwrap_or_else(|| Err(absent(ThresholdSearch::Bracket)))
        })?;
        let pruned: usize = found.pruned.iter().sum();
        outcome.set(&WorkloadMetrics::SPARSITY, pruned as f64 / workload.weights() as f64);
        (updates, masks)
    } else {
        let groups = [Group { layers: 0..workload.n_layer, sparsity: workload.sparsity }];
        let host_select = HostSelect::new(&settings);
        let (updates, choices) = Calls::measure::<B, _>(workload, device, report, || {
            calls += 1;
            host_select.select(&mut Layers::new(&settings, inputs.clone()), &Goal { groups: &groups, seed: calls })
        })?;
        let masks: Vec<Tensor<B, 1>> = choices.into_iter().flatten().map(|choice| choice.mask).collect();
        let mut stays = 0.0;
        for mask in &masks {
            stays += number(mask.clone().sum())?;
        }
        outcome.set(&WorkloadMetrics::SPARSITY, 1.0 - stays / workload.weights() as f64);
        (updates, Masks::Device(masks))
    };
    // The gradients have the size of the first moments; what they hold makes no difference.
    let numbers = inputs.iter().filter_map(|Inputs { weights, moments, .. }| {
        let Moments { first, second, .. } = moments.as_ref()?;
        Some([first, weights, first, second])
    });
    let (mut masking, ()) = match &masks {
        Masks::Host(masks) => {
            let mut memory = Vec::with_capacity(inputs.len());
            for numbers in numbers {
                let mut layer = Vec::with_capacity(numbers.len());
                for tensor in numbers {
                    layer.push(host(tensor.clone())?);
                }
                memory.push(layer);
            }
            Calls::measure::<B, ()>(workload, device, report, || {
                masks.apply(&mut memory);
                Ok(())
            })?
        }
        Masks::Device(masks) => {
            // Memory of their own, as a training has it.
            let mut memory: Vec<[Tensor<B, 1>; 4]> =
                numbers.map(|numbers| numbers.map(|tensor| tensor.clone() + 0.0)).collect();
            Calls::measure::<B, ()>(workload, device, report, || {
                memory = std::mem::take(&mut memory)
                    .into_iter()
                    .zip(masks)
                    .map(|(numbers, mask)| numbers.map(|numbers| numbers * mask.clone()))
                    .collect();
                Ok(())
            })?
        }
    };
    let (masking, update) = (masking.median(), updates.median());
    outcome.set(&BenchMasking::TIME_MASKING, masking);
    outcome.set(&MaskMetrics::TIME_UPDATE, update);
    outcome.set(&BenchMasking::TIME_STEP, masking + update / timing.every as f64);
    outcome.set(&MaskMetrics::MEMORY_MASKS, masks.bytes() as f64);
    outcome.set(&WorkloadMetrics::WEIGHTS, workload.weights() as f64);
    Ok(outcome)
}
