//! `uses: eval`: a network's loss on held-out tokens.

use std::time::Instant;

use sweep_job::{
    Outcome, Progress, Report,
    tasks::{Eval, LossMetrics, NetworkMetrics, WorkerMetrics},
};

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
        let mut start = None;
        let mut loss = Mean::default();
        for (index, batch) in batches.iter().enumerate() {
            loss.add(batch_loss(&network, batch, device));
            if index == 0 {
                sync::<B>(device)?;
                start = Some(Instant::now());
            }
            report.progress(Progress { done: index as u64 + 1, total: batches.len() as u64, ..Progress::default() });
        }
        let loss = loss.read()?;
        let seconds = start.map_or(f64::NAN, |start| start.elapsed().as_secs_f64());
        if !loss.is_finite() {
            return Err(LabError::diverged("held-out loss", loss, "on these tokens".into()));
        }

        let timed_tokens = (batches.len() - 1) * settings.batch_size * dims.block_size;
        let mut outcome = Outcome::default();
        outcome.set(&LossMetrics::LOSS, loss);
        outcome.set(&LossMetrics::PERPLEXITY, loss.exp());
        if timed_tokens > 0 {
            outcome.set(&Eval::TOKENS_PER_S, timed_tokens as f64 / seconds);
        } else {
            report.note("throughput is not measured with one batch: raise `eval_batches`");
        }
        if let Some(bytes) = measure::peak_memory() {
            outcome.set(&WorkerMetrics::MEMORY_PEAK, bytes);
        }
        let parameters: usize = model::infos(&network).iter().map(model::ParamInfo::len).sum();
        outcome.set(&NetworkMetrics::PARAMETERS, parameters as f64);
        Ok(outcome)
    }
}
