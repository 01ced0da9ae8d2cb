//! `uses: coordinates`: how activations grow with the width of a network (the coordinate check of Yang et al. 2022, "Tensor
//! Programs V", appendix D.1).
//!
//! A network of each width takes the same steps on the same tokens. After each step the mean magnitude of the activations and of their
//! change since the start is measured: of the embedding, of the residual stream after each block, and of the logits. A slope is the slope
//! of the least-squares line through these logarithms over the logarithms of the widths.

use std::fmt::Write as _;

use burn::{
    backend::Autodiff,
    module::AutodiffModule,
    tensor::{Int, Tensor, TensorData, backend::Backend},
};
use rand::Rng;
use sweep_job::{
    MetricInfo, Outcome, Progress, Report, Unit,
    tasks::{Computing, Coordinates, Widening, WorkerMetrics},
};

use super::{Context, Run, adamw, network, steps::Curves};
use crate::{
    Folders, LabError,
    backend::{BackendTask, Compute, dispatch_eager},
    device::read::number,
    measure,
    model::{self, Auxiliary, Gpt, Handed, VOCAB_BYTES},
    ops::Ops,
    optim::{
        self,
        gradient::{Derived, Dropout, Forward},
    },
    rng,
};

/// File name of the artifact.
const TABLE_FILE: &str = "coordinates.csv";
/// The layer after the blocks.
const LOGITS: &str = "logits";

impl Run for Coordinates {
    fn run(&self, Context { backend, folders, report }: Context<'_>) -> Result<Outcome, LabError> {
        dispatch_eager(backend, Job { coordinates: self, folders, report })
    }
}

/// A coordinate check to do.
struct Job<'a> {
    coordinates: &'a Coordinates,
    folders: &'a Folders,
    report: &'a mut dyn Report,
}

/// The measurements of a layer at one width, after 0, 1, … steps.
struct Layer {
    name: String,
    /// Mean magnitudes of activations.
    activations: Vec<f64>,
    /// Mean magnitudes of their changes since the start.
    changes: Vec<f64>,
}

/// The measurements of the layers of a network.
struct Network {
    width: usize,
    layers: Vec<Layer>,
    /// Loss before the last step.
    loss: f64,
}

impl BackendTask for Job<'_> {
    type Output = Outcome;

    fn run<B: Compute>(self, device: &B::Device) -> Result<Outcome, LabError> {
        let Self { coordinates, folders, report } = self;
        let steps = coordinates.widening.steps;
        let widths: Vec<usize> = coordinates.widths().collect();
        let mut networks = Vec::with_capacity(widths.len());
        for (done, width) in widths.iter().enumerate() {
            let (done, total) = (done * steps, widths.len() * steps);
            report.progress(Progress { done: done as u64, total: total as u64, ..Progress::default() });
            networks.push(measured::<B>(coordinates, *width, device)?);
        }
        let mut outcome = Outcome::default();
        describe(&mut outcome, &networks, steps);
        if let Some(bytes) = measure::peak_memory() {
            outcome.set(&WorkerMetrics::MEMORY_PEAK, bytes);
        }
        let path = folders.files.join(TABLE_FILE);
        std::fs::write(&path, table(&networks)).map_err(|source| LabError::Write { path, source })?;
        outcome.artifacts.insert(Coordinates::TABLE.into(), TABLE_FILE.into());
        Ok(outcome)
    }
}

/// Trains a network of `width` and measures it after each step.
fn measured<B: Compute>(coordinates: &Coordinates, width: usize, device: &B::Device) -> Result<Network, LabError> {
    let (model, architecture) = coordinates.at(width);
    let (settings, Widening { steps, batch_size, length, seed, .. }) =
        (&coordinates.optimizer, coordinates.widening.clone());
    let mut network = network::<Autodiff<B>>(&model, &architecture, VOCAB_BYTES, seed, device)?;
    let [tokens, targets] = batch::<B>([batch_size, length], network.dims().vocab_size, seed, device);
    let infos = model::infos(&network);
    let mut optimizer = adamw::<B>(settings, network.dims(), &infos)?;
    let first = activations(&network.valid(), tokens.clone());
    let mut layers = Vec::with_capacity(first.len());
    for (name, values) in &first {
        let activation = number(values.clone().abs().mean())?;
        layers.push(Layer { name: name.clone(), activations: vec![activation], changes: vec![0.0] });
    }
    let mut loss = f64::NAN;
    for step in 0..steps {
        let no_dropout = Dropout { p: 0.0, seed, at: [step as u64, 0] };
        let derived = Derived { auxiliary: Auxiliary::new(settings), ..Derived::default() };
        let pair = [tokens.clone(), targets.clone()];
        let forward = Forward::of(&network, pair, &Computing::default(), no_dropout, derived);
        loss = number(forward.loss())?;
        if !loss.is_finite() {
            return Err(LabError::diverged("loss", loss, format!("before step {} of width {width}", step + 1)));
        }
        let (gradients, _) = optimizer.guard(forward.backward(1.0));
        let gradients = optim::clip_global_norm(gradients, settings.grad_clip);
        network = optimizer.step::<Autodiff<B>, _>(network, gradients, settings.lr)?;
        let now = activations(&network.valid(), tokens.clone());
        for ((layer, (_, first)), (_, values)) in layers.iter_mut().zip(&first).zip(now) {
            layer.activations.push(number(values.clone().abs().mean())?);
            layer.changes.push(number((values - first.clone()).abs().mean())?);
        }
    }
    Ok(Network { width, layers, loss })
}

/// Random tokens and independent random targets, each of `shape`; the same for every width, because they depend only on `seed`.
fn batch<B: Backend>(shape: [usize; 2], vocab: usize, seed: u64, device: &B::Device) -> [Tensor<B, 2, Int>; 2] {
    let vocab = i32::try_from(vocab).unwrap_or(i32::MAX);
    let mut rng = rng::stream(seed, "coordinates", "tokens", &[]);
    [(), ()].map(|()| {
        let ids: Vec<i32> = (0..shape[0] * shape[1]).map(|_| rng.random_range(0..vocab)).collect();
        Tensor::from_data(TensorData::new(ids, shape), device)
    })
}

/// The activations of each layer, `[numbers]`.
fn activations<B: Ops>(network: &Gpt<B>, tokens: Tensor<B, 2, Int>) -> Vec<(String, Tensor<B, 1>)> {
    let [batch, length] = tokens.dims();
    let rows = network.rows(length);
    let flow = network.flow(&tokens, 0, &rows, 0.0);
    let mut stream = (network.embed(tokens, 0, 0.0, false), Handed::NOTHING);
    let mut found = vec![("embedding".to_owned(), flat(stream.0.clone()))];
    for block in 0..network.h.len() {
        stream = network.through(block..block + 1, stream, &flow, None);
        found.push((format!("h.{block}"), flat(stream.0.clone())));
    }
    found.push((LOGITS.to_owned(), flat(network.logits_after(stream.0, batch))));
    found
}

fn flat<B: Backend, const D: usize>(tensor: Tensor<B, D>) -> Tensor<B, 1> {
    let numbers = tensor.shape().num_elements();
    tensor.reshape([numbers])
}

/// Adds the slopes.
fn describe(outcome: &mut Outcome, networks: &[Network], steps: usize) {
    let Some(widest) = networks.last() else { return };
    let names: Vec<&str> = widest.layers.iter().map(|layer| layer.name.as_str()).collect();
    // By layer, after `step` steps.
    let slopes = |numbers: fn(&Layer) -> &[f64], step: usize| -> Vec<f64> {
        let of_layer = |layer: usize| {
            let point = |network: &Network| {
                let number = network.layers.get(layer).and_then(|layer| numbers(layer).get(step).copied());
                ((network.width as f64).ln(), number.unwrap_or(f64::NAN).ln())
            };
            slope(&networks.iter().map(point).collect::<Vec<_>>())
        };
        (0..names.len()).map(of_layer).collect()
    };
    let activations: fn(&Layer) -> &[f64] = |layer| &layer.activations;
    let changes: fn(&Layer) -> &[f64] = |layer| &layer.changes;
    let mut curves = Curves::default();
    let mut push = |metric: &MetricInfo, step: usize, value: f64| {
        if value.is_finite() {
            curves.push(metric.name, Unit::One, step as u64, value);
        }
    };
    for step in 0..=steps {
        let of_changes = slopes(changes, step);
        push(&Coordinates::SLOPE, step, steepest(&slopes(activations, step)));
        push(&Coordinates::SLOPE_CHANGE, step, steepest(&of_changes));
        push(&Coordinates::SLOPE_LOGITS, step, of_changes.last().copied().unwrap_or(f64::NAN));
    }
    outcome.curves = curves.0;
    let (of_activations, of_changes) = (slopes(activations, steps), slopes(changes, steps));
    outcome.set(&Coordinates::SLOPE, steepest(&of_activations));
    outcome.set(&Coordinates::SLOPE_CHANGE, steepest(&of_changes));
    outcome.set(&Coordinates::SLOPE_LOGITS, of_changes.last().copied().unwrap_or(f64::NAN));
    outcome.set(&Coordinates::LOSS, widest.loss);
    for ((name, activations), changes) in names.iter().zip(of_activations).zip(of_changes) {
        let fact = format!("{activations:.3} of activations, {changes:.3} of their changes");
        outcome.facts.insert(format!("slope.{name}"), fact);
    }
    for metric in [&Coordinates::SLOPE, &Coordinates::SLOPE_CHANGE, &Coordinates::SLOPE_LOGITS] {
        if outcome.value(metric).is_none() {
            let reason = "activations or their changes are 0 or not finite; see the artifact `coordinates`";
            outcome.facts.insert(format!("absent.{}", metric.name), reason.to_owned());
        }
    }
}

/// The number with the largest magnitude; NaN if any is.
fn steepest(slopes: &[f64]) -> f64 {
    let larger = |one: f64, other: f64| if one.is_nan() || one.abs() > other.abs() { one } else { other };
    slopes.iter().copied().fold(0.0, larger)
}

/// The slope of the line through `points` with the least squares; NaN if a coordinate is not finite.
fn slope(points: &[(f64, f64)]) -> f64 {
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (mean_x, mean_y) = (mean(|point| point.0), mean(|point| point.1));
    let covariance: f64 = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    let variance: f64 = points.iter().map(|(x, _)| (x - mean_x) * (x - mean_x)).sum();
    covariance / variance
}

/// The measurements as CSV.
fn table(networks: &[Network]) -> String {
    let mut text = String::from("width,step,layer,activation,change\n");
    for Network { width, layers, .. } in networks {
        for Layer { name, activations, changes } in layers {
            for (step, (activation, change)) in activations.iter().zip(changes).enumerate() {
                // Writing to a text does not fail.
                let _ = writeln!(text, "{width},{step},{name},{activation:e},{change:e}");
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slopes_of_lines() {
        let points =
            |exponent: f64| [32.0_f64, 64.0, 128.0].map(|width| (width.ln(), (3.0 * width.powf(exponent)).ln()));
        for exponent in [-0.5, 0.0, 1.0] {
            assert!((slope(&points(exponent)) - exponent).abs() < 1e-12);
        }
        assert!(slope(&[(1.0, 1.0), (2.0, f64::NEG_INFINITY)]).is_nan());
        assert_eq!(steepest(&[0.1, -0.7, 0.3]), -0.7);
        assert!(steepest(&[0.1, f64::NAN, 0.3]).is_nan());
    }
}
