//! `uses: gradprobe`.

use std::{path::Path, time::Instant};

use burn::{backend::Autodiff, tensor::Tensor};
use safetensors::{SafeTensors, tensor::TensorView};
use sweep_job::{
    Backend, Curve, MetricInfo, Outcome, Progress, Report, Unit,
    tasks::{GradProbe, Judge, Precision, Probing, Subject as Kind, WorkerMetrics},
};

use super::{Context, Run, network};
use crate::{
    Folders, LabError,
    backend::{BackendTask, Compute, dispatch_eager, sync},
    data::Dataset,
    device::read::host,
    files,
    measure::{self, rss::raised, sampler::Sampler, trace::Trace},
    model::hub,
    papers::gradprobe::{ClassifierSubject, GptSubject, Points, Prober, Prunable, Round, SIMPLE_MLP, Subject, Tally},
};

/// Path of the pruned network, relative to the job's folder.
const CHECKPOINT: &str = GradProbe::CHECKPOINT;
/// Path of the masks.
const MASKS: &str = "masks.safetensors";
/// Path of the trace.
const TRACE: &str = "trace.json";

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
                pruning.run::<B>(&mut subject, &PERPLEXITY, device)?;
                let loss = pruning.outcome.value(&GradProbe::PERPLEXITY).map(f64::ln);
                pruning.outcome.set(&GradProbe::LOSS, loss.unwrap_or(f64::NAN));
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
                let masks = pruning.run::<B>(&mut subject, &ACCURACY, device)?;
                if settings.tune_epochs > 0 {
                    subject.tune(settings.tune_epochs, &masks)?;
                    let tuned = subject.quality(Judge::InSample)?;
                    pruning.outcome.set(&GradProbe::ACCURACY_TUNED, tuned);
                    pruning.outcome.set(&GradProbe::SPARSITY_TUNED, zeros::<B>(&subject)?);
                }
            }
        }
        let mut outcome = pruning.outcome;
        if let Some(bytes) = measure::peak_memory() {
            outcome.set(&WorkerMetrics::MEMORY_PEAK, bytes);
        }
        explain_absence(&mut outcome, settings, backend);
        Ok(outcome)
    }
}

/// The metrics of a subject's quality.
#[derive(Clone, Copy)]
struct Quality {
    /// Data for comparisons.
    headline: Judge,
    /// On the calibration data before and after pruning.
    in_sample: [MetricInfo; 2],
    /// On held-out data before and after pruning.
    held_out: [MetricInfo; 2],
    /// With all candidates pruned.
    strategy: MetricInfo,
    /// The metric after pruning the smallest scores to the same sparsity.
    matched: MetricInfo,
}

const PERPLEXITY: Quality = Quality {
    headline: Judge::HeldOut,
    in_sample: [GradProbe::PERPLEXITY_IN_SAMPLE_DENSE, GradProbe::PERPLEXITY_IN_SAMPLE],
    held_out: [GradProbe::PERPLEXITY_DENSE, GradProbe::PERPLEXITY],
    strategy: GradProbe::PERPLEXITY_STRATEGY,
    matched: GradProbe::PERPLEXITY_MATCHED,
};

const ACCURACY: Quality = Quality {
    headline: Judge::InSample,
    in_sample: [GradProbe::ACCURACY_DENSE, GradProbe::ACCURACY],
    held_out: [GradProbe::ACCURACY_HELD_OUT_DENSE, GradProbe::ACCURACY_HELD_OUT],
    strategy: GradProbe::ACCURACY_STRATEGY,
    matched: GradProbe::ACCURACY_MATCHED,
};

impl Quality {
    /// The metrics on `judge`'s data before and after pruning.
    fn on(&self, judge: Judge) -> [MetricInfo; 2] {
        match judge {
            Judge::InSample => self.in_sample,
            Judge::HeldOut => self.held_out,
        }
    }
}

/// A pruning and its measurements.
struct Pruning<'a> {
    settings: &'a Probing,
    backend: Backend,
    folders: &'a Folders,
    report: &'a mut dyn Report,
    outcome: Outcome,
}

impl Pruning<'_> {
    /// Prunes `subject`; returns the weights that stay, by tensor.
    fn run<B: Compute>(
        &mut self,
        subject: &mut dyn Subject<B>,
        metrics: &Quality,
        device: &B::Device,
    ) -> Result<Vec<Option<Tensor<B, 1>>>, LabError> {
        let settings = self.settings;
        // Before anything else is computed, because memory that was used once is not given back.
        let (result, memory) = raised(|| subject.gradients([0, 0], None).and_then(|_| sync::<B>(device)));
        result?;
        self.outcome.set(&GradProbe::MEMORY_PASS, memory.unwrap_or(f64::NAN));
        let judges = [Judge::InSample, Judge::HeldOut];
        for judge in judges {
            let dense = subject.quality(judge)?;
            self.outcome.set(&metrics.on(judge)[0], dense);
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
        let start = Instant::now();
        let mut prober = Prober::new(settings, subject, device, &mut progress)?;
        let round = prober.prune()?;
        B::sync(device)?;
        let seconds = start.elapsed().as_secs_f64();
        sampler.finish().describe(&mut self.outcome);
        let counts = prober.pruned()?;
        let trace = prober.take_trace();
        let (masks, tally, mut chooser) = (prober.kept, prober.tally, prober.chooser);

        let pruned_count: usize = counts.iter().sum();
        self.outcome.set(&GradProbe::SPARSITY, pruned_count as f64 / total);
        self.outcome.set(&GradProbe::SPARSITY_ZEROS, zeros::<B>(subject)?);
        self.describe_round(&round, &sizes, pruned_count);
        self.outcome.set(&GradProbe::CHOICES, chooser.calls as f64);
        let choice_seconds = measure::median(&mut chooser.seconds).unwrap_or(f64::NAN);
        self.outcome.set(&GradProbe::TIME_CANDIDATES, choice_seconds);
        self.outcome.set(&GradProbe::MEMORY_EXTRA, chooser.raised.unwrap_or(f64::NAN));
        self.outcome.set(&GradProbe::MEMORY_MASKS, total);
        self.outcome.set(&GradProbe::TIME_PRUNE, seconds);
        self.outcome.set(&GradProbe::TENSORS, sizes.len() as f64);
        self.outcome.set(&GradProbe::WEIGHTS, total);
        self.describe_cost(&tally, seconds, &round);
        self.keep_trace(trace)?;
        if let Some(peak) = subject.device_peak() {
            self.outcome.set(&GradProbe::MEMORY_DEVICE_PEAK, peak as f64);
        }
        for judge in judges {
            let quality = subject.quality(judge)?;
            self.outcome.set(&metrics.on(judge)[1], quality);
        }
        self.compare_masks(&masks, &names, &sizes)?;
        if let Some(dense) = dense {
            let pruned_quality = subject.quality(metrics.headline)?;
            let result: Vec<Tensor<B, 1>> = places.iter().map(|tensor| subject.weights(*tensor)).collect();
            let baselines = [
                (metrics.strategy, GradProbe::GAIN, round.sparsity),
                (metrics.matched, GradProbe::GAIN_MATCHED, pruned_count as f64 / total),
            ];
            for (baseline, gain, sparsity) in baselines {
                for (tensor, weights) in dense.iter().enumerate() {
                    subject.set_weights(tensor, weights.clone());
                }
                let candidates = chooser.choose(subject, sparsity)?;
                for (tensor, (weights, mask)) in dense.iter().zip(&candidates.stays).enumerate() {
                    let mask: Vec<f32> = mask.iter().map(|mask| f32::from(*mask)).collect();
                    let mask = Tensor::from_floats(&mask[..], device);
                    subject.set_weights(tensor, B::masked(weights.clone(), &mask));
                }
                let quality = subject.quality(metrics.headline)?;
                self.outcome.set(&baseline, quality);
                self.outcome.set(&gain, subject.harm(pruned_quality, quality));
            }
            for (tensor, weights) in result.into_iter().enumerate() {
                subject.set_weights(tensor, weights);
            }
        }
        Ok(masks)
    }

    fn describe_round(&mut self, round: &Round, sizes: &[usize], pruned_count: usize) {
        let total = sizes.iter().sum::<usize>().max(1) as f64;
        let candidate_count: usize = round.chosen.iter().sum();
        self.outcome.set(&GradProbe::SPARSITY_CANDIDATES, candidate_count as f64 / total);
        self.outcome.set(&GradProbe::SURVIVAL, pruned_count as f64 / candidate_count as f64);
        let parts: Vec<f64> =
            round.chosen.iter().zip(sizes).map(|(count, size)| *count as f64 / (*size).max(1) as f64).collect();
        let mean = parts.iter().sum::<f64>() / parts.len().max(1) as f64;
        let variance = parts.iter().map(|part| (part - mean).powi(2)).sum::<f64>() / parts.len().max(1) as f64;
        self.outcome.set(&GradProbe::SPREAD, variance.sqrt());
        self.outcome.set(&GradProbe::ROUNDS, round.rounds as f64);
        self.outcome.set(&GradProbe::TOLERANCE, round.tolerance);
    }

    fn describe_cost(&mut self, tally: &Tally, seconds: f64, round: &Round) {
        let passes = &tally.pass_seconds;
        let mut times = passes.get(1..).filter(|passes| !passes.is_empty()).unwrap_or(passes).to_vec();
        let pass = measure::median(&mut times).unwrap_or(f64::NAN);
        let outcome = &mut self.outcome;
        outcome.set(&GradProbe::PASSES, tally.passes as f64);
        if self.settings.precision == Precision::F16 {
            outcome.set(&GradProbe::PASSES_REPEATED, tally.repeated as f64);
        }
        outcome.set(&GradProbe::TIME_PASS, pass);
        outcome.set(&GradProbe::TIME_PASSES, passes.iter().sum());
        outcome.set(&GradProbe::TIME_SEQUENCE, pass / self.settings.batch_size as f64);
        outcome.set(&GradProbe::TIME_LAYER, seconds / round.chosen.len().max(1) as f64);
        outcome.set(&GradProbe::MEMORY_GRADIENTS, tally.gradient_bytes as f64);
        outcome.set(&GradProbe::MEMORY_WEIGHTS, tally.weight_bytes as f64);
        if !tally.tensor_seconds.is_empty() {
            let at = (1..=tally.tensor_seconds.len() as u64).collect();
            let curve = Curve { unit: Unit::Seconds, at, values: tally.tensor_seconds.clone() };
            outcome.curves.insert("seconds".into(), curve);
        }
    }

    fn keep_trace(&mut self, trace: Option<Trace>) -> Result<(), LabError> {
        let Some(trace) = trace else { return Ok(()) };
        let path = self.folders.files.join(TRACE);
        trace.write(&path).map_err(|source| LabError::Write { path, source })?;
        self.outcome.artifacts.insert(GradProbe::TRACE.into(), TRACE.into());
        Ok(())
    }

    /// Keeps the masks and compares them with other masks, if requested.
    fn compare_masks<B: Compute>(
        &mut self,
        masks: &[Option<Tensor<B, 1>>],
        names: &[String],
        sizes: &[usize],
    ) -> Result<(), LabError> {
        let Probing { save_masks, against, .. } = self.settings;
        if !save_masks && against.is_none() {
            return Ok(());
        }
        let mut marks: Vec<Vec<u8>> = Vec::with_capacity(masks.len());
        for (keep, size) in masks.iter().zip(sizes) {
            marks.push(match keep {
                None => vec![0; *size],
                Some(keep) => host(keep.clone())?.into_iter().map(|keep| u8::from(keep == 0.0)).collect(),
            });
        }
        if let Some(path) = against {
            self.outcome.set(&GradProbe::AGREEMENT, agreement(&path.0, names, &marks)?);
        }
        if *save_masks {
            let path = self.folders.files.join(MASKS);
            let write_error = |error: safetensors::SafeTensorError| LabError::Write {
                path: path.clone(),
                source: std::io::Error::other(error),
            };
            let tensors = names.iter().zip(&marks);
            let views: Result<Vec<_>, _> = tensors
                .map(|(name, marks)| Ok((name, TensorView::new(safetensors::Dtype::U8, vec![marks.len()], marks)?)))
                .collect();
            safetensors::serialize_to_file(views.map_err(write_error)?, None, &path).map_err(write_error)?;
            self.outcome.artifacts.insert(GradProbe::MASKS.into(), MASKS.into());
        }
        Ok(())
    }
}

/// The fraction of the weights for which the masks in the file at `path` agree with `marks`.
fn agreement(path: &Path, names: &[String], marks: &[Vec<u8>]) -> Result<f64, LabError> {
    let mask_error = |message: String| LabError::Masks { path: path.to_owned(), message };
    let map = files::map(path).map_err(|error| mask_error(error.to_string()))?;
    let file =
        SafeTensors::deserialize(map.as_deref().unwrap_or_default()).map_err(|error| mask_error(error.to_string()))?;
    if file.len() != names.len() {
        return Err(mask_error(format!(
            "it has masks for {} tensors, but the network has {}",
            file.len(),
            names.len()
        )));
    }
    let (mut equal_count, mut total) = (0, 0);
    for (name, marks) in names.iter().zip(marks) {
        let mask = file.tensor(name).map_err(|_| mask_error(format!("it has no mask for `{name}`")))?;
        let mask = mask.data();
        if mask.len() != marks.len() {
            return Err(mask_error(format!("its mask for `{name}` has {} weights, not {}", mask.len(), marks.len())));
        }
        equal_count += mask.iter().zip(marks).filter(|(mask, marks)| mask == marks).count();
        total += marks.len();
    }
    Ok(equal_count as f64 / total.max(1) as f64)
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

/// Adds the reason for every declared metric that was not measured.
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
            "passes.repeated" => "only half precision needs to repeat passes",
            "survival" => "there were no candidates",
            "memory.device.peak" if backend == Backend::Cpu => {
                "the CPU backend has no allocator of its own; `memory.peak` includes its memory"
            }
            "memory.device.peak" => "only language models are measured",
            "memory.peak" | "memory.pass" | "memory.extra" => "this system does not report the memory of a process",
            _ => "nothing was probed",
        }
    };
    for name in GradProbe::metric_names().filter(|name| !outcome.metrics.contains_key(*name)) {
        outcome.facts.entry(format!("absent.{name}")).or_insert_with(|| reason(name).to_owned());
    }
}
