//! `uses: eval`: a network's loss on held-out tokens.

mod compress;

use std::time::Instant;

use burn::backend::Autodiff;
use sweep_job::{
    Outcome, Progress, Report,
    tasks::{Coverage, Eval, Evaluation, LossMetrics, NetworkMetrics, WorkerMetrics},
};

use self::compress::{Compressed, compress};
use super::{Context, Mean, Run, batch_loss, network};
use crate::{
    LabError,
    backend::{BackendTask, Compute, dispatch_eager, sync},
    data::{Dataset, Tokens},
    device::read::number,
    measure,
    model::{self, Gpt, Network, cross_entropy},
};

impl Run for Eval {
    fn run(&self, Context { backend, report, .. }: Context<'_>) -> Result<Outcome, LabError> {
        dispatch_eager(backend, Job { eval: self, report })
    }
}

/// An evaluation to do.
struct Job<'a> {
    eval: &'a Eval,
    report: &'a mut dyn Report,
}

/// The loss of evaluated tokens.
struct Evaluated {
    /// Mean loss of a token, in nats.
    loss: f64,
    tokens: usize,
    /// Tokens after the first batch, and the time that they took in seconds.
    timed: Option<(usize, f64)>,
}

impl BackendTask for Job<'_> {
    type Output = Outcome;

    fn run<B: Compute>(self, device: &B::Device) -> Result<Outcome, LabError> {
        let Self { eval, report } = self;
        let data = Dataset::open(&eval.data)?;
        let seed = eval.evaluation.seed;
        let network = network::<Autodiff<B>>(&eval.model, &eval.architecture, data.vocab_size, seed, device)?;
        let Compressed { network, sparsity, bytes } =
            compress::<B>(network, (&eval.compression, eval.evaluation.batch_size), &data, device)?;
        let pass = Pass { settings: &eval.evaluation, tokens: &data.validation, network: &network, device };
        let Evaluated { loss, tokens, timed } = match eval.evaluation.coverage {
            Coverage::Sampled => pass.sampled(report)?,
            Coverage::Whole => pass.whole(report)?,
        };
        if !loss.is_finite() {
            return Err(LabError::diverged("held-out loss", loss, "on these tokens".into()));
        }
        let mut outcome = Outcome::default();
        outcome.set(&LossMetrics::LOSS, loss);
        outcome.set(&LossMetrics::PERPLEXITY, loss.exp());
        outcome.set(&Eval::TOKENS, tokens as f64);
        outcome.set(&Eval::MEMORY_WEIGHTS, bytes as f64);
        if let Some(sparsity) = sparsity {
            outcome.set(&Eval::SPARSITY, sparsity);
        }
        if let Some(bytes) = data.bytes_per_token {
            outcome.set(&Eval::BITS_PER_BYTE, loss / std::f64::consts::LN_2 / bytes);
        }
        match timed {
            Some((tokens, seconds)) => outcome.set(&Eval::TOKENS_PER_S, tokens as f64 / seconds),
            None => {
                report.note("throughput is not measured with one batch: lower `batch_size`, or raise `eval_batches`");
            }
        }
        if let Some(bytes) = measure::peak_memory() {
            outcome.set(&WorkerMetrics::MEMORY_PEAK, bytes);
        }
        let parameters: usize = model::infos(&network).iter().map(model::ParamInfo::len).sum();
        outcome.set(&NetworkMetrics::PARAMETERS, parameters as f64);
        Ok(outcome)
    }
}

/// An evaluation of held-out tokens.
struct Pass<'a, B: Compute> {
    settings: &'a Evaluation,
    tokens: &'a Tokens,
    network: &'a Gpt<B>,
    device: &'a B::Device,
}

impl<B: Compute> Pass<'_, B> {
    /// Evaluates windows that are spread over the tokens.
    fn sampled(&self, report: &mut dyn Report) -> Result<Evaluated, LabError> {
        let Self { settings, tokens, network, device } = *self;
        let shape = [settings.batch_size, network.dims().block_size];
        let batches = tokens.spread_batches(settings.eval_batches, shape, network.dims().vocab_size)?;
        let mut clock = Clock::new(batches.len());
        let mut loss = Mean::default();
        for batch in &batches {
            loss.add(batch_loss(network, batch, device));
            clock.lap::<B>(shape[0] * shape[1], report, device)?;
        }
        let loss = loss.read()?;
        Ok(clock.evaluated(loss))
    }

    /// Evaluates all tokens but the first, each once.
    fn whole(&self, report: &mut dyn Report) -> Result<Evaluated, LabError> {
        let Self { settings, tokens, network, device } = *self;
        let length = network.dims().block_size;
        let stride = settings.stride.unwrap_or(length);
        if stride > length {
            let message = format!("`stride: {stride}` is longer than the network's context of {length} tokens");
            return Err(LabError::Dimensions(message));
        }
        let batches = tokens.covering_batches([settings.batch_size, length], stride)?;
        let mut clock = Clock::new(batches.len());
        let mut nats = 0.0;
        for covering in &batches {
            let batch = tokens.covering_batch(covering, network.dims().vocab_size)?;
            let (inputs, targets) = batch.to_tensors(device);
            let (first, new) = (batch.length - covering.new, covering.new);
            let logits = network.logits(inputs, 0.0).narrow(1, first, new);
            nats += number(cross_entropy(logits, targets.narrow(1, first, new)))? * covering.predicted() as f64;
            clock.lap::<B>(covering.predicted(), report, device)?;
        }
        let predicted = clock.tokens as f64;
        Ok(clock.evaluated(nats / predicted))
    }
}

/// Counts tokens, and times all batches but the first, which compiles kernels and fills caches.
struct Clock {
    batches: usize,
    done: usize,
    tokens: usize,
    timed_tokens: usize,
    start: Option<Instant>,
}

impl Clock {
    fn new(batches: usize) -> Self {
        Self { batches, done: 0, tokens: 0, timed_tokens: 0, start: None }
    }

    /// Counts a batch of `tokens`.
    fn lap<B: Compute>(&mut self, tokens: usize, report: &mut dyn Report, device: &B::Device) -> Result<(), LabError> {
        self.tokens += tokens;
        if self.start.is_some() {
            self.timed_tokens += tokens;
        } else {
            sync::<B>(device)?;
            self.start = Some(Instant::now());
        }
        self.done += 1;
        report.progress(Progress { done: self.done as u64, total: self.batches as u64, ..Progress::default() });
        Ok(())
    }

    /// The result, of which `loss` has been read from the device.
    fn evaluated(self, loss: f64) -> Evaluated {
        let Self { tokens, timed_tokens, start, .. } = self;
        let seconds = start.map(|start| start.elapsed().as_secs_f64());
        Evaluated { loss, tokens, timed: seconds.filter(|_| timed_tokens > 0).map(|seconds| (timed_tokens, seconds)) }
    }
}
