//! Compression of a network before its evaluation: pruning, then quantization, or both at once.

use burn::{
    backend::Autodiff,
    module::AutodiffModule,
    tensor::{Tensor, TensorData},
};
use sweep_job::tasks::{Compression, OneShot, Optimizer, PruneMethod, Rounding};

use crate::{
    LabError,
    backend::Compute,
    data::Dataset,
    device::read::host,
    model::{self, Gpt, ParamInfo, Role, quantize},
    optim::AdamW,
    prune::{self, Pruned, Pruner, Surgery},
};

/// A network as it is evaluated.
pub(super) struct Compressed<B: Compute> {
    pub(super) network: Gpt<B>,
    /// The part of the weights of linear layers that is 0, if anything was compressed.
    pub(super) sparsity: Option<f64>,
    /// Size of all parameters.
    pub(super) bytes: usize,
}

/// `network`, compressed as `compression` asks for, with calibration batches of `batch_size` sequences. Waits for the device.
pub(super) fn compress<B: Compute>(
    mut network: Gpt<Autodiff<B>>,
    (compression, batch_size): (&Compression, usize),
    data: &Dataset,
    device: &B::Device,
) -> Result<Compressed<B>, LabError> {
    let settings = compression.pruning();
    let parameters = model::infos(&network);
    let bits = compression.quantize.bits();
    let bytes = bytes(&parameters, bits, compression.group_size)?;
    let [block_size, vocab_size] = [network.dims().block_size, network.dims().vocab_size];
    let batches = || data.train.spread_batches(settings.calibration_batches, [batch_size, block_size], vocab_size);
    if settings.prune != PruneMethod::None {
        // Scores of weights and inputs need no moments.
        let mut optimizer = AdamW::<B>::new(&Optimizer::default(), &parameters);
        let mut pruner = Pruner::<B>::new(&settings, &parameters);
        if settings.prune.by_output() {
            let batches = batches()?;
            let batches = batches.iter().map(|batch| batch.to_tensors::<B>(device).0);
            pruner.calibrate(&network.valid(), batches)?;
        }
        pruner.choose::<Autodiff<B>, _>(&network, &optimizer, settings.target())?;
        network = pruner.apply::<Autodiff<B>, _>(network, &mut optimizer);
    }
    let surgery = surgery(compression);
    if let Some(surgery) = surgery {
        let batches = batches()?;
        network = surgery.on::<B>(network, batches.iter().map(|batch| batch.to_tensors(device).0))?;
    }
    if let Some(bits) = bits.filter(|_| compression.rounding == Rounding::Nearest) {
        network = rounded::<B>(network, &parameters, (bits, compression.group_size), device)?;
    }
    let is_compressed = compression.post_prune != OneShot::None || bits.is_some();
    let sparsity = is_compressed.then(|| prune::sparsity(&settings, &network)).transpose()?;
    Ok(Compressed { network: network.valid(), sparsity, bytes })
}

/// The compression block by block, if `compression` requests it.
fn surgery(compression: &Compression) -> Option<Surgery> {
    let settings = compression.pruning();
    let is_pruned = compression.post_prune == OneShot::SparseGpt;
    let bits = compression.quantize.bits().filter(|_| compression.rounding == Rounding::Gptq);
    if !is_pruned && bits.is_none() {
        return None;
    }
    let pruned = match settings.prune_pattern.counts() {
        Some([kept, size]) if is_pruned => Pruned::Pattern { kept, size },
        _ if is_pruned => Pruned::Part(settings.sparsity),
        // Weights that were pruned by a score remain pruned.
        _ if compression.post_prune != OneShot::None => Pruned::Zeros,
        _ => Pruned::Nothing,
    };
    let asked_by = if is_pruned { "post_prune: sparsegpt" } else { "rounding: gptq" };
    Some(Surgery { pruned, codes: bits.map(|bits| (bits, compression.group_size)), asked_by })
}

/// `network` with the weights of linear layers rounded to the nearest.
fn rounded<B: Compute>(
    network: Gpt<Autodiff<B>>,
    parameters: &[ParamInfo],
    (bits, group_size): (u32, Option<usize>),
    device: &B::Device,
) -> Result<Gpt<Autodiff<B>>, LabError> {
    let mut rounded: Vec<Option<Tensor<B, 1>>> = Vec::with_capacity(parameters.len());
    for (info, values) in parameters.iter().zip(model::values(&network)) {
        if info.role() != Role::Linear {
            rounded.push(None);
            continue;
        }
        let [_, outputs] = info.matrix();
        let mut weights = host(values)?;
        quantize::round(&mut weights, outputs, quantize::group_size(info, group_size)?, bits);
        let length = weights.len();
        rounded.push(Some(Tensor::from_data(TensorData::new(weights, [length]), device)));
    }
    Ok(model::map_values::<Autodiff<B>, _>(network, &mut |index, weights| {
        rounded.get_mut(index).and_then(Option::take).unwrap_or(weights)
    }))
}

/// The size of all `parameters`, with codes of `bits` for the weights of linear layers.
fn bytes(parameters: &[ParamInfo], bits: Option<u32>, group_size: Option<usize>) -> Result<usize, LabError> {
    parameters.iter().try_fold(0, |bytes, info| {
        let bits = bits.filter(|_| info.role() == Role::Linear);
        Ok(bytes
            + match bits {
                Some(bits) => quantize::bytes(info.len(), quantize::group_size(info, group_size)?, bits),
                None => 4 * info.len(),
            })
    })
}
