//! A language model as a subject of pruning.

use std::time::Instant;

use burn::{backend::Autodiff, module::AutodiffModule, tensor::Tensor};
use sweep_job::tasks::{Checkpointing, Computing, Judge, Probing};

use super::{
    Prunable, Span, Subject,
    passes::{places, requested},
};
use crate::{
    LabError,
    backend::Compute,
    data::{Batch, Dataset},
    device::read::number,
    model::{
        self, Gpt, Network, Role,
        inputs::{self, Combining},
    },
    optim::{
        Gradients, LossScale,
        gradient::{Derived, Dropout, Forward, Requested, check_precision},
    },
};

/// A language model, calibration batches from its training data, and held-out batches.
#[derive(Debug)]
pub struct GptSubject<B: Compute> {
    /// The network.
    pub network: Gpt<Autodiff<B>>,
    /// The prunable parameters.
    tensors: Vec<Prunable>,
    calibration: Vec<Batch>,
    held_out: Vec<Batch>,
    computing: Computing,
    device: B::Device,
    /// Largest device memory in use after a pass, in bytes; `None` if the device does not report it.
    device_peak: Option<u64>,
    /// Number of passes over a calibration batch, each of a part of its sequences.
    parts: usize,
    /// The loss scale, for number formats that need one.
    scale: Option<LossScale>,
    spans: Vec<Span>,
}

impl<B: Compute> GptSubject<B> {
    /// A subject with the weights of `network`, calibration batches from the training part of `data`, and held-out
    /// batches from its validation part.
    ///
    /// # Errors
    ///
    /// A segment of checkpointing is longer than the network, the device does not support the precision, or the data do
    /// not give the batches.
    pub fn new(
        network: Gpt<Autodiff<B>>,
        data: &Dataset,
        settings: &Probing,
        device: &B::Device,
    ) -> Result<Self, LabError> {
        let dims = *network.dims();
        let checkpointing = settings.checkpointing;
        if let Some(blocks) = checkpointing.segment().filter(|blocks| *blocks > dims.n_layer) {
            let layers = dims.n_layer;
            let message = format!("a segment of {blocks} blocks exceeds `n_layer: {layers}`");
            return Err(LabError::Dimensions(message));
        }
        check_precision::<B>(settings.precision, &dims.block, device)?;
        let shape = [settings.batch_size * settings.grad_accumulation, dims.block_size];
        let calibration = (0..settings.num_batches as u64)
            .map(|batch| data.train.random_batch(settings.seed, [batch, 0], shape, dims.vocab_size))
            .collect::<Result<_, _>>()?;
        let shape = [settings.eval_batch_size, dims.block_size];
        let held_out = data.validation.spread_batches(settings.eval_batches, shape, dims.vocab_size)?;
        let prunable = |info: &model::ParamInfo| {
            let is_table = matches!(info.role(), Role::TokenTable | Role::PositionTable | Role::ValueTable);
            info.shape.len() >= 2 && info.role() != Role::Router && (settings.prune_tables || !is_table)
        };
        let parameters = model::infos(&network).into_iter().enumerate();
        let tensors = parameters.filter(|(_, info)| prunable(info));
        let tensors =
            tensors.map(|(parameter, info)| Prunable { name: info.name, shape: info.shape, parameter }).collect();
        Ok(Self {
            network,
            tensors,
            calibration,
            held_out,
            computing: settings.computing(),
            device: device.clone(),
            device_peak: None,
            parts: settings.grad_accumulation,
            scale: LossScale::new(settings.precision),
            spans: Vec::new(),
        })
    }

    /// This subject with other checkpointing of activations.
    pub fn with_checkpointing(mut self, checkpointing: Checkpointing) -> Self {
        self.computing.checkpointing = checkpointing;
        self
    }

    /// Runs `work`, waits for the device, and records the span and the device memory in use.
    fn look<T>(&mut self, name: &'static str, work: impl FnOnce(&Self) -> T) -> Result<T, LabError> {
        let start = Instant::now();
        let result = work(self);
        let call_end = Instant::now();
        B::sync(&self.device)?;
        self.spans.push(Span { name, at: [start, call_end, Instant::now()] });
        if let Some(memory) = B::device_memory(&self.device) {
            self.device_peak = Some(self.device_peak.unwrap_or(0).max(memory.in_use));
        }
        Ok(result)
    }

    /// The gradients of the loss on `batch` times `factor`, by parameter, without dropout.
    fn pass(&mut self, batch: &Batch, requested: Requested<'_>, factor: f64) -> Result<Gradients<B>, LabError> {
        let forward = self.look("forward", |subject| {
            let (tokens, targets) = batch.to_tensors::<B>(&subject.device);
            let no_dropout = Dropout { p: 0.0, seed: 0, at: [0, 0] };
            let derived = Derived { requested, ..Derived::default() };
            Forward::of(&subject.network, [tokens, targets], &subject.computing, no_dropout, derived)
        })?;
        self.look("backward", |_| forward.backward(factor))
    }
}

impl<B: Compute> Subject<B> for GptSubject<B> {
    fn tensors(&self) -> &[Prunable] {
        &self.tensors
    }

    fn weights(&self, tensor: usize) -> Tensor<B, 1> {
        model::values::<Autodiff<B>, _>(&self.network).swap_remove(self.tensors[tensor].parameter)
    }

    fn set_weights(&mut self, tensor: usize, weights: Tensor<B, 1>) {
        set(&mut self.network, self.tensors[tensor].parameter, &weights);
    }

    fn batches(&self) -> usize {
        self.calibration.len()
    }

    fn parts(&self) -> usize {
        self.parts
    }

    fn gradients(&mut self, [batch, part]: [usize; 2], of: Option<&[usize]>) -> Result<Gradients<B>, LabError> {
        self.spans.clear();
        let batch = self.calibration[batch].part(part, self.parts);
        let places = places(&self.tensors, of);
        let requested = requested(places.as_deref());
        let mut gradients = match self.scale {
            None => self.pass(&batch, requested, 1.0)?,
            Some(mut scale) => {
                let unscaled_gradients = loop {
                    let gradients = self.pass(&batch, requested, scale.factor())?;
                    if let Some(unscaled_gradients) = scale.unscale(gradients)? {
                        break unscaled_gradients;
                    }
                };
                self.scale = Some(scale);
                unscaled_gradients
            }
        };
        Ok(self.tensors.iter().map(|tensor| gradients[tensor.parameter].take()).collect())
    }

    fn take_spans(&mut self) -> Vec<Span> {
        std::mem::take(&mut self.spans)
    }

    fn repeated(&self) -> u64 {
        self.scale.map_or(0, |scale| u64::from(scale.left_out))
    }

    fn input_norms(&self, batches: usize) -> Result<Vec<Option<Vec<f32>>>, LabError> {
        let network = self.network.valid();
        let norms = inputs::watch(Combining::Largest, || {
            for batch in self.calibration.iter().take(batches) {
                let (tokens, targets) = batch.to_tensors::<B>(&self.device);
                number(network.loss(tokens, targets, 0.0))?;
            }
            Ok(())
        })?;
        let ids = model::ids(&self.network);
        Ok(self.tensors.iter().map(|tensor| norms.get(&ids[tensor.parameter]).cloned()).collect())
    }

    fn quality(&self, on: Judge) -> Result<f64, LabError> {
        let batches = match on {
            Judge::InSample => &self.calibration,
            Judge::HeldOut => &self.held_out,
        };
        let network = self.network.valid();
        let mut sum = 0.0;
        for batch in batches {
            let (tokens, targets) = batch.to_tensors::<B>(&self.device);
            sum += number(network.loss(tokens, targets, 0.0))?;
        }
        let loss = sum / batches.len() as f64;
        if loss.is_finite() { Ok(loss.exp()) } else { Err(LabError::diverged("loss", loss, "while pruning".into())) }
    }

    fn harm(&self, dense: f64, now: f64) -> f64 {
        now - dense
    }

    fn device_peak(&self) -> Option<u64> {
        self.device_peak
    }
}

/// Replaces the parameter at index `place`, in the order of `module`.
pub(super) fn set<B, M>(module: &mut M, place: usize, weights: &Tensor<B, 1>)
where
    B: Compute,
    M: burn::module::Module<Autodiff<B>>,
{
    let new_module = model::map_values::<Autodiff<B>, _>(module.clone(), &mut |index, value| {
        if index == place { weights.clone() } else { value }
    });
    *module = new_module;
}
