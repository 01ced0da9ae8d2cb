//! `uses: k1`: the training loop of paper 002's hierarchy.

mod counts;

use std::time::{Duration, Instant};

use burn::{
    backend::Autodiff,
    module::AutodiffModule,
    tensor::{DType, Tensor},
};
use sweep_job::{
    Backend, Outcome, Progress, Report, Speeds, Unit,
    tasks::{
        K1, K1Computing, K1Loop, K1Precision, LoopMetrics, LossMetrics, NetworkMetrics, UpdateRule, WorkerMetrics,
    },
};

use self::counts::{Losses, Reading, Updated, Zeros, explain_absence};
use super::{
    Context, Mean, Run,
    steps::{Clock, Curves, Seen},
};
use crate::{
    LabError,
    backend::{BackendTask, Compute, ExecutionTarget, dispatch, sync},
    data::{self, Batch, Batches, Order, Tokens},
    measure::{self, Breakdown, Part, fusion, sampler::Sampler},
    model,
    ops::autocast,
    optim::{self, Gradients, LossScale},
    papers::k1::{Attribution, Factors, Optimizers, TreeDims, TreeNetwork, Way},
    rng,
};

impl Run for K1 {
    fn run(&self, Context { backend, report, .. }: Context<'_>) -> Result<Outcome, LabError> {
        let target = ExecutionTarget::new(backend, &self.computing.settings());
        dispatch(target, Job { k1: self, backend, report })
    }
}

/// A training to do.
struct Job<'a> {
    k1: &'a K1,
    backend: Backend,
    report: &'a mut dyn Report,
}

impl BackendTask for Job<'_> {
    type Output = Outcome;

    fn run<B: Compute>(self, device: &B::Device) -> Result<Outcome, LabError> {
        let Self { k1, backend, report } = self;
        let dims = TreeDims::new(&k1.model);
        let data = data::words(&k1.data, dims.vocab_size)?;
        let order = Order {
            tokens: data.train,
            seed: k1.training.seed,
            shape: [k1.training.batch_size, dims.block_size],
            vocab_size: dims.vocab_size,
            micro_batches: 1,
            iters: k1.training.iters as u64,
        };
        let products = products(k1.computing.precision);
        if let Some(format) = products.filter(|format| !B::supports_dtype(device, *format)) {
            let reason = format!("the device does not support {}", format.name());
            return Err(LabError::Precision { precision: k1.computing.precision.word(), reason });
        }
        let network = TreeNetwork::<Autodiff<B>>::random(dims, k1.model.causal_mask, k1.training.seed, device);
        let trainer = Trainer::<B> {
            k1,
            device,
            backend,
            dims,
            held_out: held_out(&data.validation, &k1.training, &dims)?,
            batches: Batches::of(order, k1.computing.prefetch),
            optimizers: Optimizers::new(&k1.optimizer, k1.update.unchosen, &dims),
            attribution: Attribution::new(dims, &k1.update, device),
            losses: Losses::new(k1.training.loss_reads),
            agreement: Mean::default(),
            updated: Updated::default(),
            selecting: Duration::ZERO,
            breakdown: Breakdown::new(k1.training.breakdown, false),
            clock: Clock::start(B::SYNCHRONOUS),
            curves: Curves::default(),
            products,
            scale: k1.computing.scales_loss().then(|| loss_scale(&k1.computing)),
            steps: 0,
            zeros: None,
        };
        let mut outcome = trainer.run(network, report)?;
        outcome.set(&NetworkMetrics::PARAMETERS, dims.parameters() as f64);
        outcome.set(&K1::NODES, dims.nodes() as f64);
        explain_absence(&mut outcome, k1, backend);
        Ok(outcome)
    }
}

/// The format of matrix products, if it differs from the format of activations.
fn products(precision: K1Precision) -> Option<DType> {
    match precision {
        K1Precision::F32 => None,
        K1Precision::MixedF16 => Some(DType::F16),
        K1Precision::MixedBf16 => Some(DType::BF16),
    }
}

fn loss_scale(settings: &K1Computing) -> LossScale {
    LossScale::with(settings.loss_scale, u32::try_from(settings.loss_scale_interval).unwrap_or(u32::MAX))
}

/// Held-out sequences, evenly spread, in batches of one forward pass.
fn held_out(tokens: &Tokens, settings: &K1Loop, dims: &TreeDims) -> Result<Vec<Batch>, LabError> {
    let sequences = tokens.spread_batches(settings.eval_sequences, [1, dims.block_size], dims.vocab_size)?;
    let join = |batches: &[Batch]| Batch {
        inputs: batches.iter().flat_map(|batch| &batch.inputs).copied().collect(),
        targets: batches.iter().flat_map(|batch| &batch.targets).copied().collect(),
        batch_size: batches.len(),
        length: dims.block_size,
    };
    Ok(sequences.chunks(settings.eval_batch_size).map(join).collect())
}

/// A training in progress.
struct Trainer<'a, B: Compute> {
    k1: &'a K1,
    device: &'a B::Device,
    backend: Backend,
    dims: TreeDims,
    held_out: Vec<Batch>,
    batches: Batches,
    optimizers: Optimizers<B>,
    attribution: Attribution<B>,
    losses: Losses<B>,
    /// Agreement of the two definitions of the norm.
    agreement: Mean<B>,
    updated: Updated<B>,
    /// Time of the selections since the first steps.
    selecting: Duration,
    breakdown: Breakdown,
    clock: Clock,
    curves: Curves,
    /// The format of matrix products, if it differs from the format of activations.
    products: Option<DType>,
    /// The factor of the loss, where the format needs one.
    scale: Option<LossScale>,
    /// Number of steps that were not skipped.
    steps: u64,
    /// Zeros in the gradients of the last step.
    zeros: Option<Zeros<B>>,
}

impl<B: Compute> Trainer<'_, B> {
    /// Trains `network` to the end and measures it.
    fn run(mut self, mut network: TreeNetwork<Autodiff<B>>, report: &mut dyn Report) -> Result<Outcome, LabError> {
        let K1Loop { iters, batch_size, log_every, eval_every, .. } = self.k1.training;
        let mut measurements = Seen::new(iters);
        let sequences = batch_size as f64;
        let (mut held_out_loss, mut eval_time) = (f64::NAN, 0.0);
        let (mut speeds, mut evaluation_seconds) = (None, 0.0);
        let start = Instant::now();
        let mut reading = Reading::now();
        for iter in 0..iters {
            let watch = (iter == 0).then(|| fusion::Watch::start(self.backend)).flatten();
            let step_start = Instant::now();
            network = self.step(network, iter)?;
            let host_time = step_start.elapsed();
            let done = iter + 1;
            if iter < measurements.warm_up {
                sync::<B>(self.device)?;
                if measurements.note(iter, step_start.elapsed(), watch, self.backend) {
                    self.breakdown.restart();
                    self.selecting = Duration::ZERO;
                }
                self.clock.restart();
            } else {
                self.clock.step(host_time);
            }
            if done.is_multiple_of(log_every) || done == iters {
                let loss = self.read_loss(done)?;
                // Reading the loss does not wait for the end of the step.
                sync::<B>(self.device)?;
                let mean = done as f64 * sequences / start.elapsed().as_secs_f64();
                let recent = self.clock.close().map(|steps_per_s| steps_per_s * sequences);
                speeds = recent.map(|recent| Speeds { recent, mean });
                self.log_speeds(done, speeds);
                report.progress(Progress {
                    done: done as u64,
                    total: iters as u64,
                    loss: Some(loss),
                    sequences_per_s: speeds,
                    ..Progress::default()
                });
            }
            if done == iters || (eval_every > 0 && done.is_multiple_of(eval_every)) {
                sync::<B>(self.device)?;
                self.clock.pause();
                measurements.sampler.iter().for_each(Sampler::pause);
                let (evaluation_reading, evaluation_start) = (Reading::now(), Instant::now());
                (held_out_loss, eval_time) = self.evaluate(&network, done)?;
                reading.without(evaluation_reading);
                evaluation_seconds += evaluation_start.elapsed().as_secs_f64();
                measurements.sampler.iter().for_each(Sampler::resume);
                self.clock.restart();
            }
        }
        let train_time = start.elapsed().as_secs_f64();
        let final_reading = Reading::now();

        let mut outcome = Outcome::default();
        outcome.set(&LossMetrics::LOSS, held_out_loss);
        outcome.set(&LossMetrics::PERPLEXITY, held_out_loss.exp());
        outcome.set(&LoopMetrics::TRAIN_LOSS, self.curves.last("loss").unwrap_or(f64::NAN));
        let steps = iters as f64;
        outcome.set(&K1::READS_PER_STEP, (final_reading.reads - reading.reads) as f64 / steps);
        let blocked_seconds = final_reading.waited.saturating_sub(reading.waited).as_secs_f64();
        outcome.set(&K1::TIME_BLOCKED, blocked_seconds / steps);
        outcome.set(&K1::BLOCKED_PART, blocked_seconds / (train_time - evaluation_seconds));
        outcome.set(&K1::TIME_EVAL, eval_time);
        outcome.set(&LoopMetrics::TIME_TRAIN, train_time);
        if let Some(bytes) = measure::peak_memory() {
            outcome.set(&WorkerMetrics::MEMORY_PEAK, bytes);
        }
        if let Some(Speeds { recent, mean }) = speeds {
            outcome.set(&K1::RECENT, recent);
            outcome.set(&K1::CUMULATIVE, mean);
            outcome.set(&K1::RECENT_OVER_CUMULATIVE, recent / mean);
        }
        if self.clock.steps_per_s().is_none() {
            report.note("the throughput needs more iterations: raise `iters`");
        }
        self.describe_steps(&mut outcome, iters.saturating_sub(measurements.warm_up));
        self.describe_nodes(&mut outcome)?;
        measurements.describe(&mut outcome);
        outcome.curves = self.curves.0;
        Ok(outcome)
    }

    /// Makes one optimizer step.
    fn step(&mut self, network: TreeNetwork<Autodiff<B>>, iter: usize) -> Result<TreeNetwork<Autodiff<B>>, LabError> {
        let K1 { model, training, update, optimizer, computing, .. } = self.k1;
        if model.dropout > 0.0 {
            B::seed(self.device, rng::derived_seed(training.seed, "dropout", &[iter as u64]));
        }
        let (inputs, targets) = self.breakdown.time::<B, _>(Part::Data, self.device, || {
            let batch = self.batches.get([iter as u64, 0])?;
            Ok::<_, LabError>(batch.staged::<B>(self.device, computing.pinned))
        })??;
        let way = Way { attention: model.attention, dropout: model.dropout };
        let loss = self.breakdown.time::<B, _>(Part::Forward, self.device, || {
            let (inputs, targets) = (Tensor::from_inner(inputs), Tensor::from_inner(targets));
            autocast::with(self.products, || network.loss(inputs, targets, training.shift, way))
        })?;
        // A loss with its graph would keep every activation of the step in memory.
        let value = loss.clone().inner();
        let scaled_loss = match self.scale {
            Some(scale) => loss * scale.factor(),
            None => loss,
        };
        let gradients = self
            .breakdown
            .time::<B, _>(Part::Backward, self.device, || model::gradients(&network, &mut scaled_loss.backward()))?;
        if self.products.is_some() && iter + 1 == training.iters {
            self.zeros = Zeros::of(&gradients);
        }
        let gradients = match &mut self.scale {
            None => gradients,
            Some(scale) => match scale.unscale(gradients)? {
                Some(gradients) => gradients,
                None => {
                    self.losses.add(value)?;
                    return Ok(network);
                }
            },
        };
        self.steps += 1;
        let clip = self.breakdown.time::<B, _>(Part::Optimizer, self.device, || {
            let norm = (optimizer.grad_clip != 0.0).then(|| optim::global_norm(&gradients)).flatten();
            norm.and_then(|norm| optim::clip_factor(norm, optimizer.grad_clip))
        })?;
        let factors = self.select(&gradients)?;
        if update.agreement {
            self.agreement.add(self.attribution.agreement(&gradients));
        }
        self.updated.add(&factors);
        let Self { optimizers, breakdown, device, .. } = self;
        let network = breakdown
            .time::<B, _>(Part::Optimizer, device, || optimizers.step(network, gradients, &factors, clip.as_ref()))??;
        self.losses.add(value)?;
        Ok(network)
    }

    /// Factors of the gradients of the nodes. Clipping precedes the selection, but multiplies all gradients by the same
    /// number, so that their order is the same without it.
    fn select(&mut self, gradients: &Gradients<B>) -> Result<Factors<B>, LabError> {
        let is_timed = self.times_selection();
        if is_timed {
            sync::<B>(self.device)?;
        }
        let start = Instant::now();
        let factors = self.attribution.choose(gradients)?;
        if is_timed {
            sync::<B>(self.device)?;
            self.selecting += start.elapsed();
        }
        Ok(factors)
    }

    /// True if selections are timed, which requires that the device is idle before and after.
    fn times_selection(&self) -> bool {
        self.k1.update.update != UpdateRule::All && (B::SYNCHRONOUS || self.breakdown.is_on())
    }

    /// The mean training loss since the last log point, which must be finite.
    fn read_loss(&mut self, done: usize) -> Result<f64, LabError> {
        let loss = self.losses.take()?;
        if !loss.is_finite() {
            return Err(LabError::diverged("loss", loss, format!("by iteration {done}")));
        }
        self.curves.push("loss", Unit::Nats, done as u64, loss);
        Ok(loss)
    }

    fn log_speeds(&mut self, done: usize, speeds: Option<Speeds>) {
        let Some(Speeds { recent, mean }) = speeds else { return };
        for (name, value) in [("sequences_per_s", recent), ("mean_sequences_per_s", mean)] {
            self.curves.push(name, Unit::SequencesPerSecond, done as u64, value);
        }
    }

    /// The mean loss on the held-out sequences, and the seconds that it took.
    fn evaluate(&mut self, network: &TreeNetwork<Autodiff<B>>, done: usize) -> Result<(f64, f64), LabError> {
        let network = network.valid();
        let K1 { model, training, .. } = self.k1;
        let way = Way { attention: model.attention, dropout: 0.0 };
        let loss = |batch: &Batch| {
            let (inputs, targets) = batch.to_tensors::<B>(self.device);
            network.loss(inputs, targets, training.shift, way)
        };
        // The first batch of its size may compile kernels.
        if let Some(batch) = self.held_out.first() {
            loss(batch);
            sync::<B>(self.device)?;
        }
        let start = Instant::now();
        let mut sum = Mean::default();
        for batch in &self.held_out {
            sum.add(loss(batch) * batch.batch_size as f64);
        }
        let batches = self.held_out.len() as f64;
        let loss = sum.read()? * batches / training.eval_sequences as f64;
        let seconds = start.elapsed().as_secs_f64();
        if !loss.is_finite() {
            return Err(LabError::diverged("held-out loss", loss, format!("at iteration {done}")));
        }
        if training.eval_every > 0 {
            self.curves.push("val_loss", Unit::Nats, done as u64, loss);
        }
        Ok((loss, seconds))
    }

    /// Adds the measurements of the `steps` steps after the first ones.
    fn describe_steps(&mut self, outcome: &mut Outcome, steps: usize) {
        if let Some(steps_per_s) = self.clock.steps_per_s() {
            let sequences_per_s = steps_per_s * self.k1.training.batch_size as f64;
            outcome.set(&K1::STEPS_PER_S, steps_per_s);
            outcome.set(&K1::SEQUENCES_PER_S, sequences_per_s);
        }
        outcome.set(&LoopMetrics::TIME_STEP, self.clock.median().unwrap_or(f64::NAN));
        for (metric, part) in [(&LoopMetrics::TIME_STEP_P5, 0.05), (&LoopMetrics::TIME_STEP_P95, 0.95)] {
            outcome.set(metric, measure::quantile(&mut self.clock.samples, part).unwrap_or(f64::NAN));
        }
        if steps == 0 {
            return;
        }
        if self.times_selection() {
            outcome.set(&K1::TIME_SELECTION, self.selecting.as_secs_f64() / steps as f64);
        }
        if self.breakdown.is_on() {
            for (metric, seconds) in self.breakdown.seconds().filter(|(metric, _)| K1::measures(metric)) {
                outcome.set(metric, seconds / steps as f64);
            }
        }
    }

    /// Adds the updated nodes of the steps that were not skipped, the cost of their selection, and the skipped steps.
    fn describe_nodes(&mut self, outcome: &mut Outcome) -> Result<(), LabError> {
        let [shared, node] = self.dims.numbers();
        let steps = self.steps as f64;
        if let Some(scale) = self.scale {
            outcome.set(&K1::STEPS_SKIPPED, f64::from(scale.left_out));
            outcome.set(&K1::LOSS_SCALE, scale.factor());
        }
        if let Some(zeros) = self.zeros.take() {
            outcome.set(&K1::ZERO_GRADIENTS, zeros.read()?);
        }
        let nodes = std::mem::take(&mut self.updated).read()? / steps;
        let updated_part = (shared as f64 + nodes * node as f64) / self.dims.parameters() as f64;
        outcome.set(&K1::UPDATED, updated_part);
        if self.k1.update.update != UpdateRule::All {
            outcome.set(&K1::READS_SELECTION, self.attribution.reads() as f64 / steps);
        }
        outcome.set(&K1::AGREEMENT, self.agreement.read()?);
        Ok(())
    }
}
