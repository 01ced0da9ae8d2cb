//! `uses: bench/mask-update` and `bench/masking`.

use burn::tensor::Tensor;
use sweep_job::{
    Outcome, Report,
    tasks::{BenchMaskUpdate, BenchMasking, MaskMetrics, SearchMetrics, ThresholdSearch, UpdateKind, WorkloadMetrics},
};

use super::{
    Calls, absent, all_of, by_operations, compare, describe, floor, inputs, masked::Numbers, no_masks, on_device,
    pruned, search::by_operation,
};
use crate::{
    LabError,
    backend::Compute,
    device::read::number,
    prune::{Choice, Goal, Group, HostSelect, Inputs, Layers, Masks, Moments, Select as _, part_of},
    selection::Found,
};

/// Weights and both moments of every layer.
fn state_of<B: Compute>(inputs: &[Inputs<B>]) -> impl Iterator<Item = Vec<&Tensor<B, 1>>> {
    inputs.iter().filter_map(|Inputs { weights, moments, .. }| {
        let Moments { first, second, .. } = moments.as_ref()?;
        Some(vec![weights, first, second])
    })
}

/// The masks of `choices`, and a threshold.
fn masks_of<B: Compute>(choices: Vec<Option<Choice<B>>>) -> (Masks<B>, f32) {
    let choices: Vec<Choice<B>> = choices.into_iter().flatten().collect();
    let threshold = choices.first().map_or(f32::NAN, |choice| choice.threshold);
    (Masks::Device(choices.into_iter().map(|choice| choice.mask).collect()), threshold)
}

/// Makes masks and measures that.
pub(super) fn mask_update<B: Compute>(
    bench: &BenchMaskUpdate,
    device: &B::Device,
    report: &mut dyn Report,
) -> Result<Outcome, LabError> {
    let BenchMaskUpdate { workload, finding, making, .. } = bench;
    let settings = by_operations(workload, finding.method, finding.sample_fraction, making.update);
    let inputs = inputs::<B>(workload, device);
    let mut outcome = Outcome::default();
    let bytes = workload.weights() * size_of::<f32>();
    let (calls, threshold) = if making.update == UpdateKind::OnePass {
        outcome.set(&BenchMaskUpdate::MEMORY_CONCATENATED, 0.0);
        fused(bench, &inputs, device, report, &mut outcome)?
    } else {
        let samples = making.update == UpdateKind::SinglePass && finding.method == ThresholdSearch::Sample;
        let sample_count =
            part_of(finding.sample_fraction, workload.d_model * workload.d_model).max(1) * workload.n_layer;
        let concatenated = if samples { sample_count * size_of::<f32>() } else { bytes };
        outcome.set(&BenchMaskUpdate::MEMORY_CONCATENATED, concatenated as f64);
        outcome.set(&MaskMetrics::MEMORY_MASKS, bytes as f64);
        by_scores(bench, &inputs, device, report)?
    };
    describe(&mut outcome, &MaskMetrics::TIME_UPDATE, calls);
    outcome.set(&BenchMaskUpdate::MEMORY_SCORES, bytes as f64);
    let mut layers = Layers::new(&settings, inputs);
    let scores: Vec<Tensor<B, 1>> = (0..workload.n_layer).map(|layer| layers.scores(layer)).collect();
    drop(layers);
    compare(&mut outcome, &mut all_of(&scores)?, threshold, pruned(workload));
    outcome.set(&WorkloadMetrics::WEIGHTS, workload.weights() as f64);
    Ok(outcome)
}

/// Updates by a pass that computes scores and writes masks: the calls, and the threshold.
fn fused<B: Compute>(
    BenchMaskUpdate { workload, finding, making, applying }: &BenchMaskUpdate,
    inputs: &[Inputs<B>],
    device: &B::Device,
    report: &mut dyn Report,
    outcome: &mut Outcome,
) -> Result<(Calls, f32), LabError> {
    let settings = by_operations(workload, finding.method, finding.sample_fraction, making.update);
    let k = pruned(workload);
    let mut masks = B::masks(Some(making.mask), inputs).ok_or_else(|| no_masks(making.mask))?;
    let mut state = if applying.apply { Some(Numbers::of(state_of(inputs), &masks)?) } else { None };
    let mut calls = 0;
    let (mut calls, selection) = Calls::measure::<B, Found>(workload, device, report, || {
        calls += 1;
        let selection = B::stream(inputs, Some(&settings), finding.method, k, calls, &mut masks);
        let selection = selection.unwrap_or_else(|| Err(absent(finding.method)))?;
        state.as_mut().map_or(Ok(()), |state| state.mask(&masks))?;
        Ok(selection)
    })?;
    calls.raised = calls.raised.or_else(|| on_device::<B>(&selection));
    outcome.set(&SearchMetrics::PASSES, selection.passes as f64);
    outcome.set(&MaskMetrics::MEMORY_MASKS, masks.bytes() as f64);
    if !applying.apply
        && let Some(floor) = floor::<B>(inputs, Some(&settings), &mut masks)
    {
        outcome.set(&SearchMetrics::TIME_FLOOR, floor);
    }
    Ok((calls, selection.threshold))
}

/// Updates by scores that are stored: the calls, and the threshold.
fn by_scores<B: Compute>(
    BenchMaskUpdate { workload, finding, making, applying }: &BenchMaskUpdate,
    inputs: &[Inputs<B>],
    device: &B::Device,
    report: &mut dyn Report,
) -> Result<(Calls, f32), LabError> {
    let settings = by_operations(workload, finding.method, finding.sample_fraction, making.update);
    let groups = [Group { layers: 0..workload.n_layer, sparsity: workload.sparsity }];
    let host = HostSelect::new(&settings);
    let empty_masks = Masks::Device(Vec::new());
    let mut state = if applying.apply { Some(Numbers::of(state_of(inputs), &empty_masks)?) } else { None };
    let mut calls = 0;
    Calls::measure::<B, f32>(workload, device, report, || {
        calls += 1;
        let mut layers = Layers::new(&settings, inputs.to_vec());
        let goal = Goal { groups: &groups, seed: calls };
        let choices = match finding.method {
            ThresholdSearch::Sample => host.select(&mut layers, &goal)?,
            method => host.select_by(&mut layers, &goal, &|scores, k, _| {
                Ok(by_operation(scores, method, k, workload.sparsity)?)
            })?,
        };
        drop(layers);
        let (masks, threshold) = masks_of(choices);
        state.as_mut().map_or(Ok(()), |state| state.mask(&masks))?;
        Ok(threshold)
    })
}

/// Applies masks in every step, updates them in some, and measures both.
pub(super) fn masking<B: Compute>(
    bench: &BenchMasking,
    device: &B::Device,
    report: &mut dyn Report,
) -> Result<Outcome, LabError> {
    let BenchMasking { workload, mask: making, timing } = bench;
    let settings = by_operations(workload, ThresholdSearch::Sample, 0.01, making.update);
    let inputs = inputs::<B>(workload, device);
    let k = pruned(workload);
    let mut outcome = Outcome::default();
    let mut calls = 0;
    let (mut updates, masks) = if making.update == UpdateKind::OnePass {
        let mut masks = B::masks(Some(making.mask), &inputs).ok_or_else(|| no_masks(making.mask))?;
        let (updates, selection) = Calls::measure::<B, Found>(workload, device, report, || {
            calls += 1;
            let selection = B::stream(&inputs, Some(&settings), ThresholdSearch::Bracket, k, calls, &mut masks);
            selection.unwrap_or_else(|| Err(absent(ThresholdSearch::Bracket)))
        })?;
        let pruned_count: usize = selection.pruned.iter().sum();
        outcome.set(&WorkloadMetrics::SPARSITY, pruned_count as f64 / workload.weights() as f64);
        (updates, masks)
    } else {
        let groups = [Group { layers: 0..workload.n_layer, sparsity: workload.sparsity }];
        let host_select = HostSelect::new(&settings);
        let (updates, choices) = Calls::measure::<B, _>(workload, device, report, || {
            calls += 1;
            host_select.select(&mut Layers::new(&settings, inputs.clone()), &Goal { groups: &groups, seed: calls })
        })?;
        let masks: Vec<Tensor<B, 1>> = choices.into_iter().flatten().map(|choice| choice.mask).collect();
        let mut remaining_weights = 0.0;
        for mask in &masks {
            remaining_weights += number(mask.clone().sum())?;
        }
        outcome.set(&WorkloadMetrics::SPARSITY, 1.0 - remaining_weights / workload.weights() as f64);
        (updates, Masks::Device(masks))
    };
    // The gradients have the size of the first moments; their values make no difference.
    let with_gradients = state_of(&inputs).map(|state| [&[state[1]], &state[..]].concat());
    let mut numbers = Numbers::of(with_gradients, &masks)?;
    let (mut masking, ()) = Calls::measure::<B, ()>(workload, device, report, || numbers.mask(&masks))?;
    let (masking, update) = (masking.median(), updates.median());
    outcome.set(&BenchMasking::TIME_MASKING, masking);
    outcome.set(&MaskMetrics::TIME_UPDATE, update);
    outcome.set(&BenchMasking::TIME_STEP, masking + update / timing.every as f64);
    outcome.set(&MaskMetrics::MEMORY_MASKS, masks.bytes() as f64);
    outcome.set(&WorkloadMetrics::WEIGHTS, workload.weights() as f64);
    Ok(outcome)
}
