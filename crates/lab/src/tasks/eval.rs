//! `uses: eval`: a network's loss on held-out tokens.

use std::time::Instant;

use sweep_job::{Outcome, Progress, Report, Unit, tasks::Eval};

use super::{Context, Mean, Run, batch_loss, network};
use crate::{
    LabError,
    backend::{BackendTask, Compute, dispatch_eager, sync},
    data::Dataset,
    measure, model,
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

impl BackendTask for Job<'_> {
    type Output = Outcome;

    fn run<B: Compute>(self, device: &B::Device) -> Result<Outcome, LabError> {
        let Self { eval, report } = self;
        let settings = &eval.evaluation;
        let data = Dataset::open(&eval.data)?;
        let network = network::<B>(&eval.model, &eval.architecture, data.vocab_size, settings.seed, device)?;
        let dims = *network.dims();
        let shape = [settings.batch_size, dims.block_size];
        let batches = data.validation.spread_batches(settings.eval_batches, shape, dims.vocab_size)?;

        // The first pass compiles kernels and fills caches, so it is not timed.
        let mut started = None;
        let mut loss = Mean::default();
        for (index, batch) in batches.iter().enumerate() {
            loss.add(batch_loss(&network, batch, device));
            if index == 0 {
                sync::<B>(device)?;
                started = Some(Instant::now());
            }
            report.progress(Progress { done: index as u64 + 1, total: batches.len() as u64, ..Progress::default() });
        }
        let loss = loss.read()?;
        let seconds = started.map_or(f64::NAN, |started| started.elapsed().as_secs_f64());
        if !loss.is_finite() {
            return Err(LabError::diverged("held-out loss", loss, "on these tokens".into()));
        }

        let timed_tokens = (batches.len() - 1) * settings.batch_size * dims.block_size;
        let mut outcome = Outcome::default();
        outcome.metric("loss", loss, Unit::Nats);
        outcome.metric("perplexity", loss.exp(), Unit::One);
        if timed_tokens > 0 {
            outcome.metric("throughput.tokens_per_s", timed_tokens as f64 / seconds, Unit::TokensPerSecond);
        } else {
            report.note("one batch is no measure of throughput: raise `eval_batches` to get one");
        }
        if let Some(bytes) = measure::peak_memory() {
            outcome.metric("memory.peak", bytes, Unit::Bytes);
        }
        let parameters: usize = model::infos(&network).iter().map(model::ParamInfo::len).sum();
        outcome.metric("parameters", parameters as f64, Unit::Count);
        Ok(outcome)
    }
}
