//! Pruning and rounding block by block, each with the outputs of the compressed blocks before it as inputs.

use std::collections::BTreeSet;

use burn::{
    backend::Autodiff,
    module::AutodiffModule,
    tensor::{Int, Tensor, TensorData},
};

use super::{
    pattern,
    sweep::{Codes, Pruned, sweep},
};
use crate::{
    LabError,
    device::read::host,
    model::{
        self, Gpt, Handed, ParamInfo, Role,
        inputs::{self, Products},
        quantize,
    },
    ops::Ops,
};

/// The compression of the linear layers of a network.
#[derive(Debug, Clone, Copy)]
pub struct Surgery {
    /// The weights that become 0.
    pub pruned: Pruned,
    /// Bits of a code, and the number of neighboring inputs of an output that share a scale (`None`: all). Without codes, weights are not
    /// rounded.
    pub codes: Option<(u32, Option<usize>)>,
    /// The parameter that requests the compression, with its value.
    pub asked_by: &'static str,
}

impl Surgery {
    /// Compresses `network`. All `batches` of tokens `[batch, length]` go through each block twice: for the inputs of its layers, and for
    /// the inputs of the next block. Waits for the device.
    ///
    /// # Errors
    ///
    /// If a number is not finite, if groups do not divide the inputs of a layer, if no layer has seen the inputs of a weight, or if the
    /// device fails.
    pub fn on<B: Ops>(
        &self,
        mut network: Gpt<Autodiff<B>>,
        batches: impl IntoIterator<Item = Tensor<B, 2, Int>>,
    ) -> Result<Gpt<Autodiff<B>>, LabError> {
        let infos = model::infos(&network);
        let mut inner = network.valid();
        let mut streams: Vec<_> = batches
            .into_iter()
            .map(|tokens| {
                let stream = (inner.embed(tokens.clone(), 0, 0.0, false), Handed::NOTHING);
                (tokens, stream)
            })
            .collect();
        let mut changed = BTreeSet::new();
        for block in 0..inner.h.len() {
            let through = |network: &Gpt<B>, tokens: &Tensor<B, 2, Int>, stream| {
                let rows = network.rows(tokens.dims()[1]);
                network.through(block..block + 1, stream, &network.flow(tokens, 0, &rows, 0.0), None)
            };
            let products = inputs::products(|| {
                for (tokens, stream) in &streams {
                    drop(through(&inner, tokens, stream.clone()));
                }
                Ok(())
            })?;
            network = self.on_layers(network, &inner, &infos, &products, &mut changed)?;
            inner = network.valid();
            for (tokens, stream) in &mut streams {
                *stream = through(&inner, tokens, stream.clone());
            }
        }
        let missing = (0..infos.len()).find(|index| infos[*index].role() == Role::Linear && !changed.contains(index));
        match missing {
            Some(index) => Err(LabError::Unsupported(format!(
                "`{}` needs the inputs of `{}`, which no linear layer has seen: choose another way to compress, or another \
                 architecture",
                self.asked_by, infos[index].name
            ))),
            None => Ok(network),
        }
    }

    /// Compresses the layers of `network` whose inputs have `products`, and adds them to `changed`.
    fn on_layers<B: Ops>(
        &self,
        network: Gpt<Autodiff<B>>,
        inner: &Gpt<B>,
        infos: &[ParamInfo],
        products: &Products,
        changed: &mut BTreeSet<usize>,
    ) -> Result<Gpt<Autodiff<B>>, LabError> {
        let values = model::values(&network);
        let mut found: Vec<Option<Tensor<B, 1>>> = infos.iter().map(|_| None).collect();
        for (index, id) in model::ids(inner).iter().enumerate() {
            let (info, Some(products)) = (&infos[index], products.get(id)) else { continue };
            if info.role() != Role::Linear {
                continue;
            }
            let device = values[index].device();
            let mut weights = host(values[index].clone())?;
            self.on_weights(info, &mut weights, products)?;
            let length = weights.len();
            found[index] = Some(Tensor::from_data(TensorData::new(weights, [length]), &device));
            changed.insert(index);
        }
        Ok(model::map_values::<Autodiff<B>, _>(network, &mut |index, weights| {
            found.get_mut(index).and_then(Option::take).unwrap_or(weights)
        }))
    }

    fn on_weights(&self, info: &ParamInfo, weights: &mut [f32], products: &[f64]) -> Result<(), LabError> {
        let [inputs, _] = info.matrix();
        if let Pruned::Pattern { size, .. } = self.pruned {
            pattern::check(&info.name, inputs, size)?;
        }
        let codes = match self.codes {
            Some((bits, group_size)) => Some(Codes { bits, group_size: quantize::group_size(info, group_size)? }),
            None => None,
        };
        sweep(weights, products, self.pruned, codes)
            .ok_or_else(|| LabError::NotFinite { parameter: info.name.clone(), asked_by: self.asked_by })
    }
}
