//! Compression of a network before its evaluation: pruning, then quantization.

use burn::{
    backend::Autodiff,
    module::AutodiffModule,
    tensor::{Tensor, TensorData},
};
use sweep_job::tasks::{Compression, Optimizer, PruneMethod};

use crate::{
    LabError,
    backend::Compute,
    data::Dataset,
    device::read::host,
    model::{self, Gpt, Role, quantize},
    optim::AdamW,
    prune::{self, Pruner},
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
    let is_pruned = settings.prune != PruneMethod::None;
    if is_pruned {
        // Scores of weights and inputs need no moments.
        let mut optimizer = AdamW::<B>::new(&Optimizer::default(), &parameters);
        let mut pruner = Pruner::<B>::new(&settings, &parameters);
        if settings.prune.by_output() {
            let shape = [batch_size, network.dims().block_size];
            let vocab_size = network.dims().vocab_size;
            let batches = data.train.spread_batches(settings.calibration_batches, shape, vocab_size)?;
            let batches = batches.iter().map(|batch| batch.to_tensors::<B>(device).0);
            pruner.calibrate(&network.valid(), batches)?;
        }
        pruner.choose::<Autodiff<B>, _>(&network, &optimizer, settings.target())?;
        network = pruner.apply::<Autodiff<B>, _>(network, &mut optimizer);
    }
    let mut bytes = 4 * parameters.iter().map(model::ParamInfo::len).sum::<usize>();
    let bits = compression.quantize.bits();
    if let Some(bits) = bits {
        let mut rounded: Vec<Option<Tensor<B, 1>>> = Vec::with_capacity(parameters.len());
        for (info, values) in parameters.iter().zip(model::values(&network)) {
            if info.role() != Role::Linear {
                rounded.push(None);
                continue;
            }
            let [inputs, outputs] = info.matrix();
            let group_size = compression.group_size.unwrap_or(inputs);
            if !inputs.is_multiple_of(group_size) {
                return Err(LabError::Dimensions(format!(
                    "`{}` has {inputs} inputs, which do not divide into groups of {group_size}: choose another `group_size`, or \
                     remove it",
                    info.name
                )));
            }
            let mut weights = host(values)?;
            quantize::round(&mut weights, outputs, group_size, bits);
            let length = weights.len();
            rounded.push(Some(Tensor::from_data(TensorData::new(weights, [length]), device)));
            bytes -= 4 * length;
            bytes += quantize::bytes(length, group_size, bits);
        }
        network = model::map_values::<Autodiff<B>, _>(network, &mut |index, weights| {
            rounded.get_mut(index).and_then(Option::take).unwrap_or(weights)
        });
    }
    let sparsity = (is_pruned || bits.is_some()).then(|| prune::sparsity(&settings, &network)).transpose()?;
    Ok(Compressed { network: network.valid(), sparsity, bytes })
}
