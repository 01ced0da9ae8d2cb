//! `uses: train`: the training loop, with pruning, evaluation and measurement.
//!
//! A step works on flat tensors, one for each parameter, which stay on the device:
//!
//! - `optim/gradient.rs` computes the gradients of `model`, averaged over the micro-batches.
//! - `prune` masks them, if the method masks more than the weights.
//! - `optim` applies SPAM's guards and computes the step of `AdamW`, clipped by the global norm and masked, in one pass over each
//!   parameter's memory. One norm serves SPAM and clipping; the spike test is computed on the device.
//! - At intervals, `prune` selects new masks and sets newly pruned weights and their moments to 0.
//!
//! Between two log points nothing is read from the device unless masks are selected (`crates/lab/tests/lab/reads.rs`) or SOAP's bases
//! are due.
//! `train/checkpoint.rs` keeps the last two checkpoints, with digests, and rejects damaged ones; `train/attempts.rs` records
//! the work of each attempt.

mod attempts;
mod checkpoint;
mod describe;
mod log_points;
mod pruning;

use std::{
    path::Path,
    time::{Duration, Instant},
};

use burn::{backend::Autodiff, module::AutodiffModule};
use sweep_job::{
    Backend, Outcome, Progress, Report, Unit,
    tasks::{LoopMetrics, LossMetrics, Train},
};

use self::{
    attempts::Attempts,
    describe::{describe, describe_speed, explain_absence},
};
use super::{
    Context, Mean, Run, check_optimizer,
    coupling::Schedule,
    mean_loss, network,
    steps::{Clock, Curves, Seen},
};
use crate::{
    Folders, LabError,
    backend::{BackendTask, Compute, ExecutionTarget, dispatch, sync},
    data::{Batch, Batches, Dataset},
    measure::{self, Breakdown, Part, ceiling::Ceiling, fusion, sampler::Sampler, trace::Trace},
    model::{self, Auxiliary, Gpt, ParamInfo, hub},
    optim::{
        self, AdamW, Gradients, LossScale,
        gradient::{self, Derived, Dropout, Forward},
    },
    prune::{self, Pruner},
    rng,
};

/// Path of the trained network, relative to the job's folder.
const CHECKPOINT: &str = Train::CHECKPOINT;
/// Path of the trace.
const TRACE: &str = "trace.json";

impl Run for Train {
    fn run(&self, Context { backend, folders, report }: Context<'_>) -> Result<Outcome, LabError> {
        let target = ExecutionTarget::new(backend, &self.computing);
        dispatch(target, Job { train: self, backend, folders, report })
    }
}

/// A training to do.
struct Job<'a> {
    train: &'a Train,
    backend: Backend,
    folders: &'a Folders,
    report: &'a mut dyn Report,
}

impl BackendTask for Job<'_> {
    type Output = Outcome;

    fn run<B: Compute>(self, device: &B::Device) -> Result<Outcome, LabError> {
        let Self { train, backend, folders, report } = self;
        let data = Dataset::open(&train.data)?;
        let seed = pruning::seed_of_weights(train);
        let network = network::<Autodiff<B>>(&train.model, &train.architecture, data.vocab_size, seed, device)?;
        let dims = *network.dims();
        if dims.sees_future() {
            return Err(LabError::Dimensions(
                "the network's head gate sees the tokens to predict, so it cannot be trained".into(),
            ));
        }
        check_optimizer(&dims, &train.optimizer)?;
        pruning::note_missing(train, report);
        gradient::check_precision::<B>(train.computing.precision, &dims.block, device)?;
        let shape = [train.training.batch_size, dims.block_size];
        let held_out = data.validation.spread_batches(train.training.eval_batches, shape, dims.vocab_size)?;
        let calibration = pruning::calibration(train, &data.train, shape, dims.vocab_size)?;
        let parameters = model::infos(&network);
        let new_trainer = |held_out, random: &Gpt<Autodiff<B>>| Trainer::<B> {
            train,
            device,
            backend,
            block_size: dims.block_size,
            batches: Batches::new(&train.training, train.computing.prefetch, data.train.clone(), &dims),
            held_out,
            calibration: calibration.clone(),
            loss_scale: LossScale::new(train.computing.precision),
            optimizer: AdamW::new(&train.optimizer, &parameters)
                .with_rates_of(&dims, &parameters)
                .with_fusing(train.computing.fusion),
            pruner: pruning::pruner(train, &parameters, random),
            coupling: Schedule::new(&train.coupling, train.architecture.ablation.coupling_start()),
            loss: Mean::default(),
            clock: Clock::start(B::SYNCHRONOUS),
            prune_time: Duration::ZERO,
            breakdown: Breakdown::new(train.training.breakdown, train.training.trace),
            curves: Curves::default(),
        };
        let mut trainer = new_trainer(held_out, &network);
        let (mut done, mut other_work) = (Done::default(), None);
        let mut restored_network = None;
        for (iters, folder) in checkpoint::all(&folders.scratch) {
            match trainer.restore(network.clone(), &parameters, &folder, iters) {
                Ok((saved_network, work)) => {
                    report.note(&format!("resuming after iteration {iters}"));
                    (restored_network, done) = (Some(saved_network), work);
                    if checkpoint::started(&folders.scratch) == Some(iters) {
                        // Rates count only the steps of this job.
                        (other_work, done.first_step) = (Some(work), 0.0);
                        trainer.clock = Clock::start(B::SYNCHRONOUS);
                    }
                    break;
                }
                Err(error) => {
                    checkpoint::throw_away(&folder, iters, &error, report);
                    trainer = new_trainer(trainer.held_out, &network);
                }
            }
        }
        if done.iters == 0 {
            checkpoint::began_anew(&folders.scratch);
        }
        // Moves `network`, so that an initial network that a restored one replaces is freed before the training.
        let network = restored_network.unwrap_or(network);
        let mut attempts = Attempts::begin(&folders.scratch, done.iters, other_work);
        let context = Beside { scratch: &folders.scratch, attempts: &mut attempts, report: &mut *report };
        let (network, mut outcome, trace) = trainer.run(network, done, &parameters, context)?;
        if let Some(trace) = trace {
            keep_trace(&trace, folders, &mut outcome)?;
        }
        if train.training.save {
            hub::save(&network, &folders.files.join(CHECKPOINT))?;
            outcome.artifacts.insert(CHECKPOINT.into(), CHECKPOINT.into());
        }
        drop(network);
        attempts.describe(&mut outcome, done.seconds);
        if let Some(bytes) = attempts.peak() {
            outcome.set(&Train::MEMORY_PEAK, bytes);
        }
        describe(&mut outcome, train, &dims, &parameters);
        describe_speed(&mut outcome, train, &dims, ceiling::<B>(train, device, report));
        explain_absence(&mut outcome, train, backend);
        Ok(outcome)
    }
}

/// Writes `trace` as an artifact of `outcome`.
fn keep_trace(trace: &Trace, folders: &Folders, outcome: &mut Outcome) -> Result<(), LabError> {
    let path = folders.files.join(TRACE);
    trace.write(&path).map_err(|source| LabError::Write { path, source })?;
    outcome.artifacts.insert(Train::TRACE.into(), TRACE.into());
    Ok(())
}

/// Peak rates of the device, if requested. The rates are measured last, because the measurement takes additional memory; and
/// a training is not lost if the measurement fails.
fn ceiling<B: Compute>(train: &Train, device: &B::Device, report: &mut dyn Report) -> Option<Ceiling> {
    if !train.training.ceiling {
        return None;
    }
    B::memory_cleanup(device);
    let rates = Ceiling::measure::<B>(device, gradient::products(train.computing.precision));
    rates.map_err(|error| report.note(&format!("the peak performance of the device was not measured: {error}"))).ok()
}

/// Work so far, including earlier attempts.
#[derive(Debug, Clone, Copy, Default)]
struct Done {
    iters: usize,
    /// Time of the loop.
    seconds: f64,
    /// Time of the very first step, in seconds.
    first_step: f64,
}

impl Done {
    /// Adds the work of an attempt that continued this work: `iters` iterations in all, `time` in the attempt's loop, and `first_step` for
    /// its first step.
    fn and(self, iters: usize, time: Duration, first_step: Duration) -> Self {
        let first_step = if self.first_step == 0.0 { first_step.as_secs_f64() } else { self.first_step };
        Self { iters, seconds: self.seconds + time.as_secs_f64(), first_step }
    }
}

/// Context of a training.
struct Beside<'a> {
    scratch: &'a Path,
    attempts: &'a mut Attempts,
    report: &'a mut dyn Report,
}

/// A training in progress.
struct Trainer<'a, B: Compute> {
    train: &'a Train,
    device: &'a B::Device,
    backend: Backend,
    /// Tokens of a sequence.
    block_size: usize,
    batches: Batches,
    held_out: Vec<Batch>,
    /// Batches whose inputs of layers decide about pruning; empty if the method does not use inputs.
    calibration: Vec<Batch>,
    /// The factor of the loss in half precision.
    loss_scale: Option<LossScale>,
    optimizer: AdamW<B>,
    pruner: Pruner<B>,
    coupling: Schedule<'a, B>,
    /// Training loss since the last reading.
    loss: Mean<B>,
    clock: Clock,
    /// Time of the selections of masks.
    prune_time: Duration,
    breakdown: Breakdown,
    curves: Curves,
}

/// A trained network, its outcome, and the trace of the time, if requested.
type Trained<B> = (Gpt<Autodiff<B>>, Outcome, Option<Trace>);

impl<B: Compute> Trainer<'_, B> {
    /// Trains `network` to the end and measures it.
    fn run(
        mut self,
        mut network: Gpt<Autodiff<B>>,
        earlier_work: Done,
        parameters: &[ParamInfo],
        Beside { scratch, attempts, report }: Beside<'_>,
    ) -> Result<Trained<B>, LabError> {
        let settings = &self.train.training;
        let end = settings.end();
        let mut measurements = Seen::new(end - earlier_work.iters);
        // Reports the time until the first step.
        let (done, total) = (earlier_work.iters as u64, end as u64);
        report.progress(Progress { done, total, ..Progress::default() });
        let start = Instant::now();
        let mut held_out_loss = None;
        if earlier_work.iters == 0 {
            network = self.begin_pruning(network, parameters)?;
        }
        for iter in earlier_work.iters..end {
            let index = iter - earlier_work.iters;
            let watch = (index == 0).then(|| fusion::Watch::start(self.backend)).flatten();
            self.breakdown.watch(index < measurements.warm_up);
            let step_start = Instant::now();
            network.set_coupling(self.coupling.at(iter)?);
            network = self.step(network, iter)?;
            let step_end = Instant::now();
            if let Some(trace) = self.breakdown.trace() {
                trace.step(iter, step_start, step_end);
            }
            let done = iter + 1;
            if index < measurements.warm_up {
                sync::<B>(self.device)?;
                if measurements.note(index, step_start.elapsed(), watch, self.backend) {
                    self.measure_parts();
                }
                attempts.first_step(measurements.first_step);
                self.clock.restart();
            } else {
                self.clock.step(step_end - step_start);
                self.breakdown.look::<B>(self.device);
            }
            if settings.logs_after(done) {
                let progress = self.log(done)?;
                attempts.sign_now_and_then(done, start.elapsed());
                report.progress(progress);
            }
            if settings.evaluates_after(done) {
                held_out_loss = Some(self.pause_to_evaluate(&network, done, &measurements)?);
            }
            let is_due = settings.checkpoint_every > 0 && done.is_multiple_of(settings.checkpoint_every);
            if if done < end { is_due } else { settings.leaves_state() } {
                sync::<B>(self.device)?;
                self.clock.pause();
                let time = start.elapsed();
                let work = earlier_work.and(done, time, measurements.first_step);
                self.save(&network, parameters, scratch, work, report)?;
                attempts.sign(done, time);
                self.clock.restart();
            }
        }
        let held_out_loss = self.conclude(&network, held_out_loss, &measurements, report)?;
        let network = self.optimizer.averaged::<Autodiff<B>, _>(network);
        let time = start.elapsed();
        attempts.sign(end, time);
        let work = earlier_work.and(end, time, measurements.first_step);
        let timed_steps = (end - earlier_work.iters).saturating_sub(measurements.warm_up);
        let mut outcome = self.describe(&network, held_out_loss, timed_steps, report)?;
        measurements.first_step = Duration::try_from_secs_f64(work.first_step).unwrap_or_default();
        measurements.describe(&mut outcome);
        outcome.set(&LoopMetrics::TIME_TRAIN, work.seconds);
        outcome.curves = self.curves.0;
        Ok((network, outcome, self.breakdown.into_trace()))
    }

    /// Does the work that only the end of this training requires, and returns its loss on held-out tokens. The state does
    /// not include this work: a longer training continues as if it were alone.
    fn conclude(
        &mut self,
        network: &Gpt<Autodiff<B>>,
        held_out_loss: Option<f64>,
        measurements: &Seen,
        report: &mut dyn Report,
    ) -> Result<f64, LabError> {
        let (settings, end) = (&self.train.training, self.train.training.end());
        if !settings.logs_after(end) {
            report.progress(self.log(end)?);
        }
        match held_out_loss.filter(|_| settings.evaluates_after(end)) {
            Some(loss) => Ok(loss),
            None => self.pause_to_evaluate(network, end, measurements),
        }
    }

    fn tokens_per_step(&self) -> f64 {
        let settings = &self.train.training;
        (settings.batch_size * settings.grad_accumulation * self.block_size) as f64
    }

    /// The metrics of a training that has ended, of which `timed_steps` steps were measured.
    fn describe(
        &mut self,
        network: &Gpt<Autodiff<B>>,
        held_out_loss: f64,
        timed_steps: usize,
        report: &mut dyn Report,
    ) -> Result<Outcome, LabError> {
        let mut outcome = Outcome::default();
        outcome.set(&LossMetrics::LOSS, held_out_loss);
        outcome.set(&LossMetrics::PERPLEXITY, held_out_loss.exp());
        outcome.set(&LoopMetrics::TRAIN_LOSS, self.curves.last("loss").unwrap_or(f64::NAN));
        outcome.set(&Train::SPARSITY, prune::sparsity(&self.train.prune, network)?);
        if self.clock.steps_per_s().is_none() {
            report.note("the throughput needs more iterations: raise `iters`");
        }
        let tokens_per_step = self.tokens_per_step();
        self.describe_steps(&mut outcome, tokens_per_step, timed_steps);
        Ok(outcome)
    }

    /// Adds the measurements of the steps. The breakdown has the last `timed_steps` of them.
    fn describe_steps(&mut self, outcome: &mut Outcome, tokens_per_step: f64, timed_steps: usize) {
        let clock = &mut self.clock;
        if let Some(steps_per_s) = clock.steps_per_s() {
            outcome.set(&Train::TOKENS_PER_S, steps_per_s * tokens_per_step);
        }
        outcome.set(&LoopMetrics::TIME_STEP, clock.median().unwrap_or(f64::NAN));
        for (metric, part) in [(&LoopMetrics::TIME_STEP_P5, 0.05), (&LoopMetrics::TIME_STEP_P95, 0.95)] {
            outcome.set(metric, measure::quantile(&mut clock.samples, part).unwrap_or(f64::NAN));
        }
        outcome.set(&Train::TIME_PRUNE, self.prune_time.as_secs_f64());
        if self.train.training.breakdown && timed_steps > 0 {
            self.describe_parts(outcome, timed_steps);
        }
        if let Some(watch) = self.breakdown.watched() {
            outcome.set(&Train::MEMORY_DEVICE_PEAK, watch.peak as f64);
            outcome.set(&Train::MEMORY_DEVICE_MEAN, watch.mean().unwrap_or(f64::NAN));
            outcome.set(&Train::MEMORY_DEVICE_RESERVED, watch.reserved as f64);
        }
        if let Some(scale) = self.loss_scale {
            outcome.set(&Train::STEPS_SKIPPED, f64::from(scale.left_out));
        }
    }

    /// Makes one optimizer step, with the steps that pruning adds.
    fn step(&mut self, network: Gpt<Autodiff<B>>, iter: usize) -> Result<Gpt<Autodiff<B>>, LabError> {
        let Train { training, optimizer, prune, .. } = self.train;
        let gradients = self.accumulate(&network, iter)?;
        let gradients = match &mut self.loss_scale {
            None => Some(gradients),
            Some(scale) => scale.unscale(gradients)?,
        };
        let rate = optim::learning_rate(optimizer, iter, training.iters);
        let network = match gradients {
            Some(gradients) => match prune.replaces_at(iter, training.iters) {
                Some(share) => self.replace(network, &gradients, share)?,
                None => self.update(network, gradients, iter, rate)?,
            },
            None => network,
        };

        if prune.updates_at(iter, training.iters) { self.prune(network, iter) } else { Ok(network) }
    }

    /// The network after the optimizer's step with `gradients`, and masked.
    fn update(
        &mut self,
        network: Gpt<Autodiff<B>>,
        mut gradients: Gradients<B>,
        iter: usize,
        rate: f64,
    ) -> Result<Gpt<Autodiff<B>>, LabError> {
        let grad_clip = self.train.optimizer.grad_clip;
        let Self { optimizer: adam, pruner, breakdown, device, .. } = self;
        if self.train.masks_gradients_at(iter) {
            gradients = breakdown.time::<B, _>(Part::Masking, device, || pruner.mask_gradients(gradients))?;
        }
        let (gradients, norm) = breakdown.time::<B, _>(Part::Spam, device, || adam.guard(gradients))?;
        breakdown.time::<B, _>(Part::Optimizer, device, || {
            let norm = norm.or_else(|| (grad_clip != 0.0).then(|| optim::global_norm(&gradients)).flatten());
            let factor = norm.and_then(|norm| optim::clip_factor(norm, grad_clip));
            pruner.step::<Autodiff<B>, _>(network, gradients, adam, rate, factor)
        })?
    }

    /// Begins to measure the time of the parts, if requested.
    fn measure_parts(&mut self) {
        self.breakdown.restart();
        if self.breakdown.is_on() {
            self.pruner.measure();
        }
    }

    /// The gradients of iteration `iter`, averaged over its micro-batches.
    fn accumulate(&mut self, network: &Gpt<Autodiff<B>>, iter: usize) -> Result<Gradients<B>, LabError> {
        let Train { model, training, computing, optimizer, .. } = self.train;
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
                let derived = Derived { auxiliary: Auxiliary::new(optimizer), ..Derived::default() };
                Forward::of(network, [inputs, targets], computing, dropout, derived)
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

    /// Evaluates, which is not counted as time of steps.
    fn pause_to_evaluate(&mut self, network: &Gpt<Autodiff<B>>, done: usize, steps: &Seen) -> Result<f64, LabError> {
        sync::<B>(self.device)?;
        self.clock.pause();
        steps.sampler.iter().for_each(Sampler::pause);
        let loss = self.evaluate(network, done);
        steps.sampler.iter().for_each(Sampler::resume);
        self.clock.restart();
        loss
    }

    fn evaluate(&mut self, network: &Gpt<Autodiff<B>>, done: usize) -> Result<f64, LabError> {
        let network = self.optimizer.averaged::<Autodiff<B>, _>(network.clone());
        let loss = mean_loss::<B, _>(&network.valid(), &self.held_out, self.device)?;
        if !loss.is_finite() {
            return Err(LabError::diverged("held-out loss", loss, format!("at iteration {done}")));
        }
        // A state from the end of a training may already have this point.
        if self.train.training.eval_every > 0 && self.curves.last_at("val_loss") != Some(done as u64) {
            self.curves.push("val_loss", Unit::Nats, done as u64, loss);
        }
        Ok(loss)
    }
}
