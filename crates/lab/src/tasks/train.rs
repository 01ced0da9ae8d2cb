//! `uses: train`: the training loop, with pruning, evaluation and measurement.

mod checkpoint;

use std::{
    path::Path,
    time::{Duration, Instant},
};

use burn::{backend::Autodiff, module::AutodiffModule};
use sweep_job::{Backend, Outcome, Progress, Report, Unit, tasks::Train};

use super::{
    Mean,
    coupling::Schedule,
    mean_loss, network,
    steps::{Clock, Curves, Seen},
    sync,
};
use crate::{
    Folders, LabError,
    backend::{Compute, Work},
    data::{Batch, Batches, Dataset},
    gradient::{self, Dropout, Forward, LossScale},
    hub,
    measure::{
        self, Breakdown, Part, ceiling::Ceiling, flops::flops_per_token, fusion, sampler::Sampler, trace::Trace,
    },
    model::{self, Gpt, GptDims, ParamInfo},
    optim::{self, AdamW, Gradients, Reading},
    prune::{self, Pruner},
    rng,
};

/// Where the trained network is kept, relative to the job's folder.
const CHECKPOINT: &str = Train::CHECKPOINT;
/// Where the trace is kept.
const TRACE: &str = "trace.json";

/// A training to do.
pub(super) struct Job<'a> {
    pub(super) train: &'a Train,
    pub(super) backend: Backend,
    pub(super) folders: &'a Folders,
    pub(super) report: &'a mut dyn Report,
}

impl Work for Job<'_> {
    type Output = Outcome;

    fn run<B: Compute>(self, device: &B::Device) -> Result<Outcome, LabError> {
        let Self { train, backend, folders, report } = self;
        let data = Dataset::open(&train.data)?;
        let seed = train.training.seed;
        let network = network::<Autodiff<B>>(&train.model, &train.architecture, data.vocab_size, seed, device)?;
        let dims = *network.dims();
        if dims.sees_future() {
            return Err(LabError::Dimensions(
                "the network's head gate sees the tokens that are to be predicted, so it cannot be trained".into(),
            ));
        }
        gradient::check_precision::<B>(train.computing.precision, &dims.block, device)?;
        let shape = [train.training.batch_size, dims.block_size];
        let held_out = data.validation.spread_batches(train.training.eval_batches, shape, dims.vocab_size)?;
        let parameters = model::infos(&network);
        let random = network.clone();
        let begin = |held_out| Trainer::<B> {
            train,
            device,
            backend,
            batches: Batches::new(&train.training, train.computing.prefetch, data.train.clone(), &dims),
            held_out,
            loss_scale: LossScale::new(train.computing.precision),
            optimizer: AdamW::new(&train.optimizer, &parameters),
            pruner: Pruner::new(&train.prune, &parameters).with_seed(seed).starting_from::<Autodiff<B>, _>(&random),
            coupling: Schedule::new(&train.coupling, train.architecture.ablation.coupling_start()),
            loss: Mean::default(),
            clock: Clock::start(B::SYNCHRONOUS),
            prune_time: Duration::ZERO,
            breakdown: Breakdown::new(train.training.breakdown, train.training.trace),
            curves: Curves::default(),
        };
        let ceiling = train.training.ceiling.then(|| {
            let format = gradient::products(train.computing.precision);
            Ceiling::measure::<B>(device, format)
        });
        let ceiling = ceiling.transpose()?;
        let mut trainer = begin(held_out);
        let (mut network, mut done) = (network, Done::default());
        if let Some(folder) = checkpoint::latest(&folders.scratch) {
            match trainer.restore(random.clone(), &parameters, &folder) {
                Ok((restored, progress)) => {
                    report.note(&format!("going on after iteration {}", progress.done));
                    done = Done { iters: progress.done, seconds: progress.train_time };
                    network = restored;
                }
                Err(error) => {
                    report.note(&format!("the checkpoint cannot be used, so the training begins anew: {error}"));
                    trainer = begin(trainer.held_out);
                }
            }
        }
        let scratch = folders.scratch.as_path();
        let (network, mut outcome, trace) = trainer.run(network, done, &parameters, scratch, report)?;
        describe(&mut outcome, train, &parameters);
        describe_speed(&mut outcome, train, &dims, ceiling);
        explain_absence(&mut outcome, train, backend);
        if let Some(trace) = trace {
            let path = folders.files.join(TRACE);
            trace.write(&path).map_err(|source| LabError::Write { path, source })?;
            outcome.artifacts.insert(Train::TRACE.into(), TRACE.into());
        }
        if train.training.save {
            hub::save(&network, &folders.files.join(CHECKPOINT))?;
            outcome.artifacts.insert(CHECKPOINT.into(), CHECKPOINT.into());
        }
        Ok(outcome)
    }
}

/// Adds what follows from the parameters alone.
fn describe(outcome: &mut Outcome, train: &Train, parameters: &[ParamInfo]) {
    let count = |of: &dyn Fn(&ParamInfo) -> bool| -> usize {
        parameters.iter().filter(|info| of(info)).map(ParamInfo::len).sum()
    };
    outcome.metric("parameters", count(&|_| true) as f64, Unit::Count);
    let decayed = count(&|info| info.decays(train.optimizer.decay_on));
    outcome.facts.insert("parameters.decayed".into(), decayed.to_string());
    let prunable = count(&|info| info.prunable(train.prune.prune_tied_head));
    outcome.facts.insert("parameters.prunable".into(), prunable.to_string());
}

/// Adds how much of what the device can do at best a training does.
fn describe_speed(outcome: &mut Outcome, train: &Train, dims: &GptDims, ceiling: Option<Ceiling>) {
    let of = |outcome: &Outcome, name: &str| outcome.metrics.get(name).map(|metric| metric.value);
    let flops = of(outcome, "throughput.tokens_per_s").map(|tokens| tokens * flops_per_token(dims));
    outcome.metric("compute.flops", flops.unwrap_or(f64::NAN), Unit::FlopsPerSecond);
    let Some(ceiling) = ceiling else { return };
    outcome.metric("compute.ceiling", ceiling.flops, Unit::FlopsPerSecond);
    outcome.metric("compute.mfu", flops.unwrap_or(f64::NAN) / ceiling.flops, Unit::Fraction);
    outcome.metric("bandwidth.ceiling", ceiling.bytes, Unit::BytesPerSecond);
    let (Some(weights), Some(seconds)) = (of(outcome, "parameters"), of(outcome, "time.optimizer")) else { return };
    let least = bytes_per_weight(train.optimizer.uses_amsgrad()) * weights / ceiling.bytes;
    outcome.metric("bandwidth.optimizer", least / seconds, Unit::Fraction);
}

/// Bytes of memory that a step of AdamW cannot do without for each weight: the weight and both moments are read and written,
/// the gradient is read, and AMSGrad's largest second moment is read and written too, all of them in four bytes.
const fn bytes_per_weight(amsgrad: bool) -> f64 {
    let (read_and_written, read) = if amsgrad { (4, 1) } else { (3, 1) };
    (4 * (2 * read_and_written + read)) as f64
}

/// Says of every metric that is declared and was not measured why that is so.
fn explain_absence(outcome: &mut Outcome, train: &Train, backend: Backend) {
    let reason = |name: &str| -> &str {
        match name {
            "memory.device.peak" | "memory.device.mean" | "memory.device.reserved" if backend == Backend::Cpu => {
                "the CPU backend has no allocator of its own; `memory.peak` counts what it has"
            }
            "fusion.operations" | "fusion.kernels" | "fusion.unfused" if backend == Backend::Cpu => {
                "the CPU backend compiles no kernels, so there is nothing to fuse"
            }
            "bandwidth.optimizer" if train.training.ceiling => "needs `breakdown: true`",
            "compute.ceiling" | "compute.mfu" | "bandwidth.ceiling" | "bandwidth.optimizer" => "needs `ceiling: true`",
            "time.data" | "time.forward" | "time.backward" | "time.optimizer" | "time.spam" | "time.masking"
            | "time.score" | "time.threshold"
                if !train.training.breakdown =>
            {
                "needs `breakdown: true`"
            }
            "steps.left_out" => "only half precision needs to leave steps out",
            "memory.peak" => "this system does not say what a process has in memory",
            _ => "one iteration is no measure of it",
        }
    };
    for name in Train::metric_names().filter(|name| !outcome.metrics.contains_key(*name)) {
        outcome.facts.entry(format!("absent.{name}")).or_insert_with(|| reason(name).to_owned());
    }
}

/// What earlier attempts have done.
#[derive(Debug, Clone, Copy, Default)]
struct Done {
    iters: usize,
    seconds: f64,
}

/// A training in progress.
struct Trainer<'a, B: Compute> {
    train: &'a Train,
    device: &'a B::Device,
    backend: Backend,
    batches: Batches,
    held_out: Vec<Batch>,
    /// In half precision.
    loss_scale: Option<LossScale>,
    optimizer: AdamW<B>,
    pruner: Pruner<B>,
    coupling: Schedule<'a, B>,
    /// Training loss since the last reading.
    loss: Mean<B>,
    clock: Clock,
    /// Spent on choosing masks.
    prune_time: Duration,
    breakdown: Breakdown,
    curves: Curves,
}

/// A trained network, what was measured, and where the time went if that was asked for.
type Trained<B> = (Gpt<Autodiff<B>>, Outcome, Option<Trace>);

impl<B: Compute> Trainer<'_, B> {
    /// Trains `network` to the end and measures it.
    fn run(
        mut self,
        mut network: Gpt<Autodiff<B>>,
        earlier: Done,
        parameters: &[ParamInfo],
        scratch: &Path,
        report: &mut dyn Report,
    ) -> Result<Trained<B>, LabError> {
        let settings = &self.train.training;
        let iters = settings.iters;
        let mut seen = Seen::new(iters - earlier.iters);
        let tokens_per_step = (settings.batch_size * settings.grad_accumulation * network.dims().block_size) as f64;
        let begun = Instant::now();
        let mut held_out_loss = f64::NAN;
        for iter in earlier.iters..iters {
            let passed = iter - earlier.iters;
            let watch = (passed == 0).then(|| fusion::Watch::start(self.backend)).flatten();
            self.breakdown.watch(passed < seen.warm_up);
            let started = Instant::now();
            network.set_coupling(self.coupling.at(iter)?);
            network = self.step(network, iter)?;
            let ended = Instant::now();
            if let Some(trace) = self.breakdown.trace() {
                trace.step(iter, started, ended);
            }
            let done = iter + 1;
            if passed < seen.warm_up {
                sync::<B>(self.device)?;
                if passed == 0 {
                    seen.first_step = started.elapsed();
                    seen.fused = watch.map(fusion::Watch::finish);
                }
                if passed + 1 == seen.warm_up {
                    self.measure_parts();
                    seen.sampler = Some(Sampler::start(self.backend));
                }
                self.clock.restart();
            } else {
                self.clock.step(ended - started);
            }
            if done.is_multiple_of(settings.log_every) || done == iters {
                let loss = self.read_loss(done)?;
                let tokens_per_s = self.clock.close().map(|steps_per_s| steps_per_s * tokens_per_step);
                let progress = Progress {
                    done: done as u64,
                    total: iters as u64,
                    loss: Some(loss),
                    tokens_per_s,
                    ..Progress::default()
                };
                report.progress(progress);
            }
            let in_between = settings.eval_every > 0 && done.is_multiple_of(settings.eval_every);
            if in_between || done == iters {
                sync::<B>(self.device)?;
                self.clock.pause();
                seen.sampler.iter().for_each(Sampler::pause);
                held_out_loss = self.evaluate(&network, done)?;
                seen.sampler.iter().for_each(Sampler::resume);
                self.clock.restart();
            }
            if settings.checkpoint_every > 0 && done.is_multiple_of(settings.checkpoint_every) && done < iters {
                sync::<B>(self.device)?;
                self.clock.pause();
                let train_time = earlier.seconds + begun.elapsed().as_secs_f64();
                self.save(&network, parameters, scratch, done, train_time)?;
                self.clock.restart();
            }
        }
        let train_time = earlier.seconds + begun.elapsed().as_secs_f64();

        let mut outcome = Outcome::default();
        outcome.metric("loss", held_out_loss, Unit::Nats);
        outcome.metric("perplexity", held_out_loss.exp(), Unit::One);
        outcome.metric("train_loss", self.curves.last("loss").unwrap_or(f64::NAN), Unit::Nats);
        outcome.metric("sparsity", prune::sparsity(&self.train.prune, &network)?, Unit::Fraction);
        if let Some(steps_per_s) = self.clock.steps_per_s() {
            outcome.metric("throughput.tokens_per_s", steps_per_s * tokens_per_step, Unit::TokensPerSecond);
        } else {
            report.note("one iteration is no measure of speed: raise `iters` to get one");
        }
        let clock = &mut self.clock;
        outcome.metric("time.step", clock.median().unwrap_or(f64::NAN), Unit::Seconds);
        for (name, part) in [("time.step.p5", 0.05), ("time.step.p95", 0.95)] {
            outcome.metric(name, measure::quantile(&mut clock.samples, part).unwrap_or(f64::NAN), Unit::Seconds);
        }
        outcome.metric("time.prune", self.prune_time.as_secs_f64(), Unit::Seconds);
        let timed = (iters - earlier.iters).saturating_sub(seen.warm_up);
        if settings.breakdown && timed > 0 {
            self.describe_parts(&mut outcome, timed);
        }
        seen.describe(&mut outcome);
        if let Some(watch) = self.breakdown.watched() {
            outcome.metric("memory.device.peak", watch.peak as f64, Unit::Bytes);
            outcome.metric("memory.device.mean", watch.mean().unwrap_or(f64::NAN), Unit::Bytes);
            outcome.metric("memory.device.reserved", watch.reserved as f64, Unit::Bytes);
        }
        if let Some(scale) = self.loss_scale {
            outcome.metric("steps.left_out", f64::from(scale.left_out), Unit::Count);
        }
        outcome.metric("time.train", train_time, Unit::Seconds);
        if let Some(bytes) = measure::peak_memory() {
            outcome.metric("memory.peak", bytes, Unit::Bytes);
        }
        outcome.curves = self.curves.0;
        Ok((network, outcome, self.breakdown.into_trace()))
    }

    /// One optimizer step, and what pruning adds to it.
    fn step(&mut self, network: Gpt<Autodiff<B>>, iter: usize) -> Result<Gpt<Autodiff<B>>, LabError> {
        let Train { training, optimizer, prune, .. } = self.train;
        let gradients = self.accumulate(&network, iter)?;
        let gradients = match &mut self.loss_scale {
            None => Some(gradients),
            Some(scale) => scale.unscale(gradients)?,
        };
        let rate = optim::learning_rate(optimizer, iter, training.iters);
        let network = match gradients {
            Some(gradients) => self.update(network, gradients, rate)?,
            None => network,
        };

        let done = iter as u64 + 1;
        if done.is_multiple_of(training.log_every as u64) || done == training.iters as u64 {
            self.curves.push("lr", Unit::One, done, rate * self.optimizer.rate_factor());
            if let Some(Reading { norm, spikes }) = self.optimizer.reading()? {
                self.curves.push("grad_norm", Unit::One, done, norm);
                self.curves.push("spikes", Unit::Count, done, spikes);
            }
        }
        if !prune.updates_at(iter, training.iters) {
            return Ok(network);
        }
        sync::<B>(self.device)?;
        let started = Instant::now();
        let target = prune.target_at(iter, training.iters);
        let reached = self.pruner.choose::<Autodiff<B>, _>(&network, &self.optimizer, target)?;
        let ended = Instant::now();
        self.prune_time += ended - started;
        if let Some(trace) = self.breakdown.trace() {
            trace.span("prune", started, ended, ended, false);
        }
        self.curves.push("sparsity", Unit::Fraction, done, reached);
        self.mask(network)
    }

    /// The network after the optimizer's step with `gradients`, and masked.
    fn update(
        &mut self,
        network: Gpt<Autodiff<B>>,
        gradients: Gradients<B>,
        rate: f64,
    ) -> Result<Gpt<Autodiff<B>>, LabError> {
        let grad_clip = self.train.optimizer.grad_clip;
        let Self { optimizer: adam, pruner, breakdown, device, .. } = self;
        let gradients = breakdown.time::<B, _>(Part::Masking, device, || pruner.mask_gradients(gradients))?;
        let (gradients, norm) = breakdown.time::<B, _>(Part::Spam, device, || adam.guard(gradients))?;
        breakdown.time::<B, _>(Part::Optimizer, device, || {
            let norm = norm.or_else(|| (grad_clip != 0.0).then(|| optim::global_norm(&gradients)).flatten());
            let factor = norm.and_then(|norm| optim::clip_factor(norm, grad_clip));
            pruner.step::<Autodiff<B>, _>(network, gradients, adam, rate, factor)
        })
    }

    /// Sets what is pruned to 0.
    fn mask(&mut self, network: Gpt<Autodiff<B>>) -> Result<Gpt<Autodiff<B>>, LabError> {
        let Self { optimizer, pruner, breakdown, device, .. } = self;
        breakdown.time::<B, _>(Part::Masking, device, || pruner.apply::<Autodiff<B>, _>(network, optimizer))
    }

    /// Begins to measure where the time goes, if asked.
    fn measure_parts(&mut self) {
        self.breakdown.restart();
        if self.breakdown.is_on() {
            self.pruner.measure();
        }
    }

    /// Adds where the time of `steps` steps has gone, per step.
    fn describe_parts(&self, outcome: &mut Outcome, steps: usize) {
        let spent = self.pruner.spent();
        let choosing = [("time.score", spent.scores), ("time.threshold", spent.thresholds)];
        let choosing = choosing.map(|(name, time)| (name, time.as_secs_f64()));
        for (name, seconds) in self.breakdown.seconds().chain(choosing) {
            outcome.metric(name, seconds / steps as f64, Unit::Seconds);
        }
    }

    /// The gradients of iteration `iter`, averaged over its micro-batches.
    fn accumulate(&mut self, network: &Gpt<Autodiff<B>>, iter: usize) -> Result<Gradients<B>, LabError> {
        let Train { model, training, computing, .. } = self.train;
        let dropout = model.dropout;
        if dropout > 0.0 {
            B::seed(self.device, rng::derived_seed(training.seed, "dropout", &[iter as u64]));
        }
        let mut sum: Option<Gradients<B>> = None;
        let scale = self.loss_scale.map_or(1.0, LossScale::factor) / training.grad_accumulation as f64;
        for micro_batch in 0..training.grad_accumulation {
            let at = [iter as u64, micro_batch as u64];
            let (inputs, targets) = self.breakdown.time::<B, _>(Part::Data, self.device, || {
                let batch = self.batches.get(at)?;
                Ok::<_, LabError>(batch.to_tensors::<B>(self.device))
            })??;
            let forward = self.breakdown.time::<B, _>(Part::Forward, self.device, || {
                let dropout = Dropout { p: dropout, seed: training.seed, at };
                Forward::new(network, inputs, targets, computing, dropout)
            })?;
            self.loss.add(forward.loss());
            if micro_batch == 0 {
                self.coupling.saw(forward.loss());
            }
            sum = Some(self.breakdown.time::<B, _>(Part::Backward, self.device, || {
                let gradients = forward.backward(scale);
                match sum {
                    Some(sum) => optim::add_gradients(sum, gradients),
                    None => gradients,
                }
            })?);
        }
        Ok(sum.unwrap_or_default())
    }

    /// The mean training loss since the last reading, which must be finite.
    fn read_loss(&mut self, done: usize) -> Result<f64, LabError> {
        let readings = self.loss.count;
        let loss = self.loss.read()?;
        if !loss.is_finite() {
            let word = if readings > 1 { "by" } else { "at" };
            return Err(LabError::diverged("loss", loss, format!("{word} iteration {done}")));
        }
        self.curves.push("loss", Unit::Nats, done as u64, loss);
        Ok(loss)
    }

    fn evaluate(&mut self, network: &Gpt<Autodiff<B>>, done: usize) -> Result<f64, LabError> {
        let loss = mean_loss::<B, _>(&network.valid(), &self.held_out, self.device)?;
        if !loss.is_finite() {
            return Err(LabError::diverged("held-out loss", loss, format!("at iteration {done}")));
        }
        if self.train.training.eval_every > 0 {
            self.curves.push("val_loss", Unit::Nats, done as u64, loss);
        }
        Ok(loss)
    }
}
