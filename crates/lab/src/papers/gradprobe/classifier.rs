//! A small classifier as a subject: `GradProbe`'s own examples (paper 003).

use burn::{
    backend::Autodiff,
    module::{AutodiffModule, Module, Param},
    tensor::{Int, Tensor, TensorData, activation::relu, backend::Backend},
};
use rand::{Rng as _, seq::SliceRandom as _};
use rand_distr::{Distribution as _, StandardNormal};
use sweep_job::tasks::{Judge, Optimizer, Probing};

use super::{
    Prunable, Subject,
    gpt::set,
    passes::{places, requested},
};
use crate::{
    LabError,
    backend::Compute,
    device::read::host,
    model::{
        self, Linear, cross_entropy,
        inputs::{self, Combining},
    },
    ops::{Ops, plain::dropout},
    optim::{
        AdamW, Gradients, StepContext,
        gradient::{Requested, track},
    },
    rng,
};

/// Widths of `GradProbe`'s `SimpleMLP`.
pub const SIMPLE_MLP: &[usize] = &[100, 128, 64, 10];
/// Probability of dropping a hidden number while training.
const DROPOUT: f64 = 0.1;
/// Points in a training step.
const BATCH: usize = 32;
/// Learning rates of the two halves of the training; the latter also after pruning.
const RATES: [f64; 2] = [1e-3, 1e-4];

/// Linear layers with rectifiers between them.
#[derive(Module, Debug)]
pub struct Classifier<B: Backend> {
    /// The layers.
    pub layers: Vec<Linear<B>>,
}

impl<B: Backend> Classifier<B> {
    /// A classifier with these widths and random weights: uniform up to one over the root of a layer's inputs.
    pub fn random(widths: &[usize], seed: u64, device: &B::Device) -> Self {
        let layer = |(index, pair): (usize, &[usize])| {
            let (inputs, outputs) = (pair[0], pair[1]);
            let bound = (inputs as f32).sqrt().recip();
            let mut stream = rng::stream(seed, "init", "classifier", &[index as u64]);
            let mut draw = |count| -> Vec<f32> { (0..count).map(|_| stream.random_range(-bound..=bound)).collect() };
            let weight = TensorData::new(draw(inputs * outputs), [inputs, outputs]);
            let bias = TensorData::new(draw(outputs), [outputs]);
            Linear {
                weight: Param::from_tensor(Tensor::from_data(weight, device)),
                bias: Some(Param::from_tensor(Tensor::from_data(bias, device))),
            }
        };
        Self { layers: widths.windows(2).enumerate().map(layer).collect() }
    }
}

impl<B: Ops> Classifier<B> {
    /// `[rows, in]` to logits `[rows, classes]`.
    pub fn logits(&self, mut x: Tensor<B, 2>, dropout_p: f64) -> Tensor<B, 2> {
        for (index, layer) in self.layers.iter().enumerate() {
            if index > 0 {
                x = dropout(relu(x), dropout_p);
            }
            x = layer.forward(x);
        }
        x
    }

    /// The mean cross-entropy of `x` `[rows, in]` against `labels` `[rows, 1]`, `[1]`.
    fn loss(&self, x: Tensor<B, 2>, labels: Tensor<B, 2, Int>, dropout_p: f64) -> Tensor<B, 1> {
        let logits = self.logits(x, dropout_p);
        let [rows, classes] = logits.dims();
        cross_entropy(logits.reshape([rows, 1, classes]), labels)
    }
}

/// Points and their classes.
#[derive(Debug, Clone, PartialEq)]
pub struct Points {
    /// `[points, features]`, row by row.
    pub inputs: Vec<f32>,
    /// The class of each point.
    pub labels: Vec<i32>,
    /// Numbers of a point.
    pub features: usize,
}

impl Points {
    /// `count` normal points; the class is the largest of `classes` products with normal vectors, which follow from `seed`
    /// alone, the points from `part` as well.
    pub fn linear(count: usize, [features, classes]: [usize; 2], seed: u64, part: &str) -> Self {
        let normal = |role: &str, name: &str, length: usize| -> Vec<f32> {
            StandardNormal.sample_iter(rng::stream(seed, role, name, &[])).take(length).collect()
        };
        let inputs = normal("points", part, count * features);
        let directions = normal("directions", "", features * classes);
        let class = |point: &[f32]| {
            let product = |class: usize| -> f32 {
                point.iter().zip(directions.iter().skip(class).step_by(classes)).map(|(x, r)| x * r).sum()
            };
            let best = (0..classes).max_by(|left, right| product(*left).total_cmp(&product(*right)));
            i32::try_from(best.unwrap_or_default()).unwrap_or_default()
        };
        let labels = inputs.chunks(features).map(class).collect();
        Self { inputs, labels, features }
    }

    /// `count` normal points with random classes.
    pub fn random(count: usize, [features, classes]: [usize; 2], seed: u64) -> Self {
        let inputs = StandardNormal.sample_iter(rng::stream(seed, "points", "random", &[]));
        let inputs = inputs.take(count * features).collect();
        let mut stream = rng::stream(seed, "labels", "random", &[]);
        let max_label = i32::try_from(classes.saturating_sub(1)).unwrap_or_default();
        let labels = (0..count).map(|_| stream.random_range(0..=max_label)).collect();
        Self { inputs, labels, features }
    }

    /// Number of points.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Returns true if there are no points.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// The points at `places` on `device`, `[places, features]`, and their classes, `[places, 1]`.
    fn tensors<B: Backend>(&self, places: &[usize], device: &B::Device) -> (Tensor<B, 2>, Tensor<B, 2, Int>) {
        let rows = places.iter().flat_map(|place| &self.inputs[place * self.features..(place + 1) * self.features]);
        let labels: Vec<i32> = places.iter().map(|place| self.labels[*place]).collect();
        let inputs = TensorData::new(rows.copied().collect::<Vec<f32>>(), [places.len(), self.features]);
        (Tensor::from_data(inputs, device), Tensor::from_data(TensorData::new(labels, [places.len(), 1]), device))
    }
}

/// A classifier, its training set, and points that it never saw.
#[derive(Debug)]
pub struct ClassifierSubject<B: Compute> {
    /// The network.
    pub network: Classifier<Autodiff<B>>,
    tensors: Vec<Prunable>,
    points: Points,
    held_out: Points,
    /// Places of points.
    calibration: Vec<Vec<usize>>,
    /// Passes of a calibration batch.
    parts: usize,
    device: B::Device,
    seed: u64,
}

impl<B: Compute> ClassifierSubject<B> {
    /// A random classifier with `widths`, for `points`.
    pub fn new(widths: &[usize], points: Points, held_out: Points, settings: &Probing, device: &B::Device) -> Self {
        let Probing { seed, batch_size, num_batches, grad_accumulation, .. } = *settings;
        let network = Classifier::random(widths, seed, device);
        let parameters = model::infos(&network).into_iter().enumerate().filter(|(_, info)| info.shape.len() >= 2);
        let tensors =
            parameters.map(|(parameter, info)| Prunable { name: info.name, shape: info.shape, parameter }).collect();
        let order = shuffled(points.len(), seed, "calibration", 0);
        let calibration =
            order.chunks(batch_size * grad_accumulation).take(num_batches).map(<[usize]>::to_vec).collect();
        let device = device.clone();
        Self { network, tensors, points, held_out, calibration, parts: grad_accumulation, device, seed }
    }

    /// The points of a calibration batch, `[points, features]` row by row, and their classes.
    pub fn calibration(&self, batch: usize) -> (Vec<f32>, Vec<i32>) {
        let (features, places) = (self.points.features, &self.calibration[batch]);
        let rows = places.iter().flat_map(|place| &self.points.inputs[place * features..(place + 1) * features]);
        (rows.copied().collect(), places.iter().map(|place| self.points.labels[*place]).collect())
    }

    /// Trains `epochs` with each of the two learning rates.
    pub fn train(&mut self, epochs: usize) -> Result<(), LabError> {
        let mut optimizer = adam(&self.network);
        for (half, rate) in RATES.into_iter().enumerate() {
            for epoch in 0..epochs {
                self.epoch(&mut optimizer, rate, (half * epochs + epoch) as u64, &[])?;
            }
        }
        Ok(())
    }

    /// Trains `epochs` more with the lower learning rate and the masks `kept`, by tensor: 1 for weights that are kept.
    pub fn tune(&mut self, epochs: usize, kept: &[Option<Tensor<B, 1>>]) -> Result<(), LabError> {
        let mut masks: Vec<Option<Tensor<B, 1>>> = model::infos(&self.network).iter().map(|_| None).collect();
        for (tensor, keep) in self.tensors.iter().zip(kept) {
            masks[tensor.parameter].clone_from(keep);
        }
        let mut optimizer = adam(&self.network);
        for epoch in 0..epochs {
            self.epoch(&mut optimizer, RATES[1], u64::MAX - epoch as u64, &masks)?;
        }
        Ok(())
    }

    fn epoch(
        &mut self,
        optimizer: &mut AdamW<B>,
        rate: f64,
        epoch: u64,
        masks: &[Option<Tensor<B, 1>>],
    ) -> Result<(), LabError> {
        B::seed(&self.device, rng::derived_seed(self.seed, "dropout", &[epoch]));
        for places in shuffled(self.points.len(), self.seed, "order", epoch).chunks(BATCH) {
            let (x, labels) = self.points.tensors::<Autodiff<B>>(places, &self.device);
            let loss = self.network.loss(x, labels, DROPOUT);
            let gradients = model::gradients(&self.network, &mut loss.backward());
            let context = StepContext { gradient_factor: None, masks, mask_moments: true };
            self.network = optimizer.step_with::<Autodiff<B>, _>(self.network.clone(), gradients, rate, context)?;
        }
        Ok(B::sync(&self.device)?)
    }
}

/// Adam without weight decay, as `PyTorch` has it.
fn adam<B: Compute>(network: &Classifier<Autodiff<B>>) -> AdamW<B> {
    let settings = Optimizer { beta_2: 0.999, weight_decay: 0.0, ..Optimizer::default() };
    AdamW::new(&settings, &model::infos(network))
}

fn shuffled(count: usize, seed: u64, role: &str, index: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    order.shuffle(&mut rng::stream(seed, role, "classifier", &[index]));
    order
}

impl<B: Compute> Subject<B> for ClassifierSubject<B> {
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
        let points = &self.calibration[batch];
        let length = points.len() / self.parts;
        let (x, labels) = self.points.tensors::<Autodiff<B>>(&points[part * length..(part + 1) * length], &self.device);
        let places = places(&self.tensors, of);
        let network = match requested(places.as_deref()) {
            Requested::All => self.network.clone(),
            selection @ Requested::These(_) => track(self.network.clone(), selection),
        };
        let loss = network.loss(x, labels, 0.0);
        let mut gradients = model::gradients(&network, &mut loss.backward());
        Ok(self.tensors.iter().map(|tensor| gradients[tensor.parameter].take()).collect())
    }

    fn input_norms(&self, batches: usize) -> Result<Vec<Option<Vec<f32>>>, LabError> {
        let network = self.network.valid();
        let norms = inputs::watch(Combining::Largest, || {
            for places in self.calibration.iter().take(batches) {
                let (x, _) = self.points.tensors::<B>(places, &self.device);
                drop(network.logits(x, 0.0));
            }
            Ok(())
        })?;
        let ids = model::ids(&self.network);
        Ok(self.tensors.iter().map(|tensor| norms.get(&ids[tensor.parameter]).cloned()).collect())
    }

    /// The part of the points that it puts into the right class: of the training set, or of the others.
    fn quality(&self, on: Judge) -> Result<f64, LabError> {
        let points = match on {
            Judge::InSample => &self.points,
            Judge::HeldOut => &self.held_out,
        };
        let places: Vec<usize> = (0..points.len()).collect();
        let (x, _) = points.tensors::<B>(&places, &self.device);
        let logits = self.network.valid().logits(x, 0.0);
        let [rows, classes] = logits.dims();
        let logits = host(logits.reshape([rows * classes]))?;
        let best = |row: &[f32]| (0..classes).max_by(|left, right| row[*left].total_cmp(&row[*right]));
        let hits = logits
            .chunks(classes)
            .zip(&points.labels)
            .filter(|(row, label)| best(row).and_then(|best| i32::try_from(best).ok()) == Some(**label));
        Ok(hits.count() as f64 / rows.max(1) as f64)
    }

    fn harm(&self, dense: f64, now: f64) -> f64 {
        dense - now
    }
}
