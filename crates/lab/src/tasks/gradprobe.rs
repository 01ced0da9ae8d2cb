//! `uses: gradprobe`.

use std::{path::Path, time::Instant};

use burn::{backend::Autodiff, tensor::Tensor};
use safetensors::{SafeTensors, tensor::TensorView};
use sweep_job::{
    Backend, Curve, Outcome, Progress, Report, Unit,
    tasks::{GradProbe, Judge, Probing, Subject as Kind},
};

use super::{Context, Run, network};
use crate::{
    Folders, LabError,
    backend::{BackendTask, Compute, dispatch_eager, sync},
    data::Dataset,
    device::read::host,
    files,
    measure::{self, rss::raised, sampler::Sampler},
    model::hub,
    papers::gradprobe::{ClassifierSubject, GptSubject, Points, Prober, Prunable, Round, SIMPLE_MLP, Subject, Tally},
};

/// Path of the pruned network, relative to the job's folder.
const CHECKPOINT: &str = GradProbe::CHECKPOINT;
/// Path of the masks.
const MASKS: &str = "masks.safetensors";

impl Run for GradProbe {
    fn run(&self, Context { backend, folders, report }: Context<'_>) -> Result<Outcome, LabError> {
        dispatch_eager(backend, Job { task: self, backend, folders, report })
    }
}

/// A network to prune.
struct Job<'a> {
    task: &'a GradProbe,
    backend: Backend,
    folders: &'a Folders,
    report: &'a mut dyn Report,
}

impl BackendTask for Job<'_> {
    type Output = Outcome;

    fn run<B: Compute>(self, device: &B::Device) -> Result<Outcome, LabError> {
        let Self { task, backend, folders, report } = self;
        let settings = &task.probing;
        let mut pruning = Pruning { settings, backend, folders, report, outcome: Outcome::default() };
        match settings.network {
            Kind::Gpt => {
                let data = Dataset::open(&task.data)?;
                let network =
                    network::<Autodiff<B>>(&task.model, &task.architecture, data.vocab_size, settings.seed, device)?;
                let mut subject = GptSubject::new(network, &data, settings, device)?;
                let words = Words { quality: "perplexity", unit: Unit::One, headline: Judge::HeldOut };
                pruning.run::<B>(&mut subject, words, device)?;
                let loss = pruning.outcome.metrics.get("perplexity").map(|metric| metric.value.ln());
                pruning.outcome.metric("loss", loss.unwrap_or(f64::NAN), Unit::Nats);
                if settings.save {
                    hub::save(&subject.network, &folders.files.join(CHECKPOINT))?;
                    pruning.outcome.artifacts.insert(CHECKPOINT.into(), CHECKPOINT.into());
                }
            }
            Kind::Mlp => {
                let shape = [SIMPLE_MLP[0], SIMPLE_MLP[SIMPLE_MLP.len() - 1]];
                let points = |part| Points::linear(GradProbe::POINTS, shape, settings.seed, part);
                let mut subject =
                    ClassifierSubject::<B>::new(SIMPLE_MLP, points("train"), points("held out"), settings, device);
                subject.train(settings.epochs)?;
                let words = Words { quality: "accuracy", unit: Unit::Fraction, headline: Judge::InSample };
                let kept = pruning.run::<B>(&mut subject, words, device)?;
                if settings.tune_epochs > 0 {
                    subject.tune(settings.tune_epochs, &kept)?;
                    let tuned = subject.quality(Judge::InSample)?;
                    pruning.outcome.metric("accuracy.tuned", tuned, Unit::Fraction);
                    pruning.outcome.metric("sparsity.tuned", zeros::<B>(&subject)?, Unit::Fraction);
                }
            }
        }
        let mut outcome = pruning.outcome;
        if let Some(bytes) = measure::peak_memory() {
            outcome.metric("memory.peak", bytes, Unit::Bytes);
        }
        explain_absence(&mut outcome, settings, backend);
        Ok(outcome)
    }
}

/// Names of a subject's quality and of its data.
#[derive(Clone, Copy)]
struct Words {
    quality: &'static str,
    unit: Unit,
    headline: Judge,
}

impl Words {
    /// The name of the metric on `on`.
    fn on(self, on: Judge) -> String {
        if on == self.headline { self.quality.to_owned() } else { format!("{}.{on}", self.quality) }
    }
}

/// A pruning and what it measures.
struct Pruning<'a> {
    settings: &'a Probing,
    backend: Backend,
    folders: &'a Folders,
    report: &'a mut dyn Report,
    outcome: Outcome,
}

impl Pruning<'_> {
    /// Prunes `subject`; gives by tensor what stays.
    fn run<B: Compute>(
        &mut self,
        subject: &mut dyn Subject<B>,
        words: Words,
        device: &B::Device,
    ) -> Result<Vec<Option<Tensor<B, 1>>>, LabError> {
        let settings = self.settings;
        // Before anything else is computed, because memory that was used once is not given back.
        let (first, raised) = raised(|| subject.gradients(0, None).and_then(|_| sync::<B>(device)));
        first?;
        self.outcome.metric("memory.pass", raised.unwrap_or(f64::NAN), Unit::Bytes);
        let judges = [Judge::InSample, Judge::HeldOut];
        for on in judges {
            let dense = subject.quality(on)?;
            self.outcome.metric(&format!("{}.dense", words.on(on)), dense, words.unit);
        }
        let places: Vec<usize> = (0..subject.tensors().len()).collect();
        let sizes: Vec<usize> = subject.tensors().iter().map(Prunable::len).collect();
        let names: Vec<String> = subject.tensors().iter().map(|tensor| tensor.name.clone()).collect();
        let dense: Option<Vec<Tensor<B, 1>>> =
            settings.baseline.then(|| places.iter().map(|tensor| subject.weights(*tensor)).collect());
        let total = sizes.iter().sum::<usize>().max(1) as f64;

        let report = &mut *self.report;
        let mut progress = |[done, total]: [u64; 2]| {
            report.progress(Progress { done, total, ..Progress::default() });
        };
        let sampler = Sampler::start(self.backend);
        let started = Instant::now();
        let mut prober = Prober::new(settings, subject, device, &mut progress)?;
        let round = prober.prune()?;
        B::sync(device)?;
        let seconds = started.elapsed().as_secs_f64();
        let sampled = sampler.finish();
        for (name, (value, unit)) in sampled.metrics {
            self.outcome.metric(name, value, unit);
        }
        for (name, reason) in sampled.absent {
            self.outcome.facts.insert(format!("absent.{name}"), reason);
        }
        let pruned = prober.pruned()?;
        let (kept, tally, mut chooser) = (prober.kept, prober.tally, prober.chooser);

        let gone: usize = pruned.iter().sum();
        self.outcome.metric("sparsity", gone as f64 / total, Unit::Fraction);
        self.outcome.metric("sparsity.zeros", zeros::<B>(subject)?, Unit::Fraction);
        self.describe_round(&round, &sizes, gone);
        self.outcome.metric("choices", chooser.calls as f64, Unit::Count);
        let choosing = measure::median(&mut chooser.seconds).unwrap_or(f64::NAN);
        self.outcome.metric("time.candidates", choosing, Unit::Seconds);
        self.outcome.metric("memory.extra", chooser.raised.unwrap_or(f64::NAN), Unit::Bytes);
        self.outcome.metric("memory.masks", total, Unit::Bytes);
        self.outcome.metric("time.prune", seconds, Unit::Seconds);
        self.outcome.metric("tensors", sizes.len() as f64, Unit::Count);
        self.outcome.metric("weights", total, Unit::Count);
        self.describe_cost(&tally, seconds, &round);
        if let Some(peak) = subject.device_peak() {
            self.outcome.metric("memory.device.peak", peak as f64, Unit::Bytes);
        }
        for on in judges {
            let quality = subject.quality(on)?;
            self.outcome.metric(&words.on(on), quality, words.unit);
        }
        self.compare_masks(&kept, &names, &sizes)?;
        if let Some(dense) = dense {
            let pruned = subject.quality(words.headline)?;
            let result: Vec<Tensor<B, 1>> = places.iter().map(|tensor| subject.weights(*tensor)).collect();
            let baselines = [("strategy", "gain", round.sparsity), ("matched", "gain.matched", gone as f64 / total)];
            for (name, gain, sparsity) in baselines {
                for (tensor, weights) in dense.iter().enumerate() {
                    subject.set_weights(tensor, weights.clone());
                }
                let candidates = chooser.choose(subject, sparsity)?;
                for (tensor, (weights, stays)) in dense.iter().zip(&candidates.stays).enumerate() {
                    let stays: Vec<f32> = stays.iter().map(|stays| f32::from(*stays)).collect();
                    let stays = Tensor::from_floats(&stays[..], device);
                    subject.set_weights(tensor, B::masked(weights.clone(), &stays));
                }
                let quality = subject.quality(words.headline)?;
                self.outcome.metric(&format!("{}.{name}", words.quality), quality, words.unit);
                self.outcome.metric(gain, subject.harm(pruned, quality), Unit::One);
            }
            for (tensor, weights) in result.into_iter().enumerate() {
                subject.set_weights(tensor, weights);
            }
        }
        Ok(kept)
    }

    fn describe_round(&mut self, round: &Round, sizes: &[usize], gone: usize) {
        let total = sizes.iter().sum::<usize>().max(1) as f64;
        let chosen: usize = round.chosen.iter().sum();
        self.outcome.metric("sparsity.candidates", chosen as f64 / total, Unit::Fraction);
        self.outcome.metric("survival", gone as f64 / chosen as f64, Unit::Fraction);
        let parts: Vec<f64> =
            round.chosen.iter().zip(sizes).map(|(chosen, size)| *chosen as f64 / (*size).max(1) as f64).collect();
        let mean = parts.iter().sum::<f64>() / parts.len().max(1) as f64;
        let variance = parts.iter().map(|part| (part - mean).powi(2)).sum::<f64>() / parts.len().max(1) as f64;
        self.outcome.metric("spread", variance.sqrt(), Unit::Fraction);
        self.outcome.metric("rounds", round.rounds as f64, Unit::Count);
        self.outcome.metric("tolerance", round.tolerance, Unit::One);
    }

    fn describe_cost(&mut self, tally: &Tally, seconds: f64, round: &Round) {
        let passes = &tally.pass_seconds;
        let mut timed = passes.get(1..).filter(|rest| !rest.is_empty()).unwrap_or(passes).to_vec();
        let pass = measure::median(&mut timed).unwrap_or(f64::NAN);
        let outcome = &mut self.outcome;
        outcome.metric("passes", tally.passes as f64, Unit::Count);
        outcome.metric("time.pass", pass, Unit::Seconds);
        outcome.metric("time.sequence", pass / self.settings.batch_size as f64, Unit::Seconds);
        outcome.metric("time.layer", seconds / round.chosen.len().max(1) as f64, Unit::Seconds);
        outcome.metric("memory.gradients", tally.gradient_bytes as f64, Unit::Bytes);
        outcome.metric("memory.weights", tally.weight_bytes as f64, Unit::Bytes);
        if !tally.tensor_seconds.is_empty() {
            let at = (1..=tally.tensor_seconds.len() as u64).collect();
            let curve = Curve { unit: Unit::Seconds, at, values: tally.tensor_seconds.clone() };
            outcome.curves.insert("seconds".into(), curve);
        }
    }

    /// Keeps the masks and compares them with others, if asked to.
    fn compare_masks<B: Compute>(
        &mut self,
        kept: &[Option<Tensor<B, 1>>],
        names: &[String],
        sizes: &[usize],
    ) -> Result<(), LabError> {
        let Probing { save_masks, against, .. } = self.settings;
        if !save_masks && against.is_none() {
            return Ok(());
        }
        let mut gone: Vec<Vec<u8>> = Vec::with_capacity(kept.len());
        for (keep, size) in kept.iter().zip(sizes) {
            gone.push(match keep {
                None => vec![0; *size],
                Some(keep) => host(keep.clone())?.into_iter().map(|keep| u8::from(keep == 0.0)).collect(),
            });
        }
        if let Some(path) = against {
            self.outcome.metric("agreement", agreement(&path.0, names, &gone)?, Unit::Fraction);
        }
        if *save_masks {
            let path = self.folders.files.join(MASKS);
            let failed = |error: safetensors::SafeTensorError| LabError::Write {
                path: path.clone(),
                source: std::io::Error::other(error),
            };
            let tensors = names.iter().zip(&gone);
            let views: Result<Vec<_>, _> = tensors
                .map(|(name, gone)| Ok((name, TensorView::new(safetensors::Dtype::U8, vec![gone.len()], gone)?)))
                .collect();
            safetensors::serialize_to_file(views.map_err(failed)?, None, &path).map_err(failed)?;
            self.outcome.artifacts.insert(GradProbe::MASKS.into(), MASKS.into());
        }
        Ok(())
    }
}

/// The part of the weights for which the masks in the file at `path` say the same as `gone`.
fn agreement(path: &Path, names: &[String], gone: &[Vec<u8>]) -> Result<f64, LabError> {
    let wrong = |message: String| LabError::Masks { path: path.to_owned(), message };
    let map = files::map(path).map_err(|error| wrong(error.to_string()))?;
    let file =
        SafeTensors::deserialize(map.as_deref().unwrap_or_default()).map_err(|error| wrong(error.to_string()))?;
    if file.len() != names.len() {
        return Err(wrong(format!("it has masks for {} tensors, but the network has {}", file.len(), names.len())));
    }
    let (mut alike, mut total) = (0, 0);
    for (name, gone) in names.iter().zip(gone) {
        let other = file.tensor(name).map_err(|_| wrong(format!("it has no mask for `{name}`")))?;
        let other = other.data();
        if other.len() != gone.len() {
            return Err(wrong(format!("its mask for `{name}` has {} weights, not {}", other.len(), gone.len())));
        }
        alike += other.iter().zip(gone).filter(|(other, gone)| other == gone).count();
        total += gone.len();
    }
    Ok(alike as f64 / total.max(1) as f64)
}

/// The part of the prunable weights that is exactly 0.
fn zeros<B: Compute>(subject: &dyn Subject<B>) -> Result<f64, LabError> {
    let (mut zeros, mut total) = (0, 0);
    for tensor in 0..subject.tensors().len() {
        let weights = host(subject.weights(tensor))?;
        zeros += weights.iter().filter(|weight| **weight == 0.0).count();
        total += weights.len();
    }
    Ok(zeros as f64 / total.max(1) as f64)
}

/// Says of every metric that is declared and was not measured why that is so.
fn explain_absence(outcome: &mut Outcome, settings: &Probing, backend: Backend) {
    let reason = |name: &str| -> &str {
        match name {
            "loss" => "the classifier is judged by its accuracy",
            "accuracy.tuned" | "sparsity.tuned" => "needs `tune_epochs` and `network: mlp`",
            name if name.starts_with("perplexity") && settings.network == Kind::Mlp => {
                "the classifier is judged by its accuracy"
            }
            name if name.starts_with("accuracy") && settings.network == Kind::Gpt => {
                "a language model is judged by its perplexity"
            }
            "perplexity.strategy"
            | "perplexity.matched"
            | "accuracy.strategy"
            | "accuracy.matched"
            | "gain"
            | "gain.matched" => "needs `baseline: true`",
            "agreement" => "needs `against`",
            "survival" => "there were no candidates",
            "memory.device.peak" if backend == Backend::Cpu => {
                "the CPU backend has no allocator of its own; `memory.peak` counts what it has"
            }
            "memory.device.peak" => "only language models are looked at",
            "memory.peak" | "memory.pass" | "memory.extra" => "this system does not say what a process has in memory",
            _ => "nothing was probed",
        }
    };
    for name in GradProbe::metric_names().filter(|name| !outcome.metrics.contains_key(*name)) {
        outcome.facts.entry(format!("absent.{name}")).or_insert_with(|| reason(name).to_owned());
    }
}
