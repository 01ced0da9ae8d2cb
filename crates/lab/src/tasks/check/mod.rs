//! `uses: check`: verification of a network (ratio-ablation, section 7).
//!
//! The assertions access a network only through [`Network`], so that tests can give them a defective one. `learning`
//! checks gradients and steps, `causality` the dependence on positions, `liveness` the mechanisms, `pruning` the step
//! of the ablation that prunes.

mod causality;
mod checker;
mod compare;
mod learning;
mod liveness;
mod pruning;
#[cfg(test)]
mod tests;

use burn::{backend::Autodiff, module::AutodiffModule};
use sweep_job::{
    Outcome, Progress, Report,
    tasks::{Check, NetworkMetrics, StepPruning, WorkerMetrics},
};

use self::checker::Checker;
use super::{Context, Run, network};
use crate::{
    LabError,
    backend::{BackendTask, Compute, dispatch_eager},
    measure,
    model::{self, GptDims, Network, ParamInfo, VOCAB_UINT16},
};

impl Run for Check {
    fn run(&self, Context { backend, report, .. }: Context<'_>) -> Result<Outcome, LabError> {
        dispatch_eager(backend, Job { check: self, report })
    }
}

/// A check to do.
struct Job<'a> {
    check: &'a Check,
    report: &'a mut dyn Report,
}

impl BackendTask for Job<'_> {
    type Output = Outcome;

    fn run<B: Compute>(self, device: &B::Device) -> Result<Outcome, LabError> {
        let Self { check: Check { model, architecture, checking }, report } = self;
        let network = network::<Autodiff<B>>(model, architecture, VOCAB_UINT16, checking.seed, device)?;
        let dims = *network.dims();
        if checking.length > dims.block_size {
            return Err(LabError::Dimensions(format!(
                "`length: {}` exceeds the network's `block_size: {}`",
                checking.length, dims.block_size
            )));
        }
        let expected = Expected {
            dims,
            trained: model.init.is_some(),
            dropout: model.dropout,
            batch: [checking.batch_size, checking.length],
            lr: checking.lr,
            seed: checking.seed,
            pruning: architecture.ablation.pruning(),
        };
        let parameters: usize = model::infos(&network).iter().map(ParamInfo::len).sum();
        let (assertions, loss) = assertions::<B, _>(network, &expected, device, report)?;
        let total = assertions.len();
        let failed: Vec<String> = assertions.iter().filter_map(Assertion::failure).collect();
        if !failed.is_empty() {
            return Err(LabError::Check { failed, total });
        }
        let mut outcome = Outcome::default();
        outcome.set(&Check::ASSERTIONS, total as f64);
        outcome.set(&Check::LOSS, loss);
        outcome.set(&NetworkMetrics::PARAMETERS, parameters as f64);
        if let Some(bytes) = measure::peak_memory() {
            outcome.set(&WorkerMetrics::MEMORY_PEAK, bytes);
        }
        for Assertion { name, finding, .. } in assertions {
            outcome.facts.insert(name.into(), format!("held: {finding}"));
        }
        Ok(outcome)
    }
}

/// Expected properties of a network.
#[derive(Debug, Clone)]
pub struct Expected {
    /// The dimensions it claims.
    pub dims: GptDims,
    /// True if its weights come from a training, so that its loss differs from the loss of a guess.
    pub trained: bool,
    /// Probability of dropout in training mode.
    pub dropout: f64,
    /// Sequences, and tokens in each.
    pub batch: [usize; 2],
    /// Learning rate of the steps.
    pub lr: f64,
    /// Seed of the tokens and of dropout.
    pub seed: u64,
    /// Pruning in training, if any.
    pub pruning: Option<StepPruning>,
}

/// An assertion and its result.
#[derive(Debug, Clone)]
pub struct Assertion {
    /// Its name.
    pub name: &'static str,
    /// True if it holds.
    pub held: bool,
    /// Finding: a number if it holds, a description if it does not.
    pub finding: String,
}

impl Assertion {
    fn new(name: &'static str, held: bool, finding: String) -> Self {
        Self { name, held, finding }
    }

    /// Holds if `problem` is `None`.
    fn unless(name: &'static str, problem: Option<String>, finding: String) -> Self {
        match problem {
            Some(problem) => Self::new(name, false, problem),
            None => Self::new(name, true, finding),
        }
    }

    fn failure(&self) -> Option<String> {
        (!self.held).then(|| format!("{}: {}", self.name, self.finding))
    }
}

/// Makes every assertion about `network`; returns the assertions with the loss of the unchanged network.
pub fn assertions<B, N>(
    network: N,
    expected: &Expected,
    device: &B::Device,
    report: &mut dyn Report,
) -> Result<(Vec<Assertion>, f64), LabError>
where
    B: Compute,
    N: Network<Autodiff<B>> + AutodiffModule<Autodiff<B>, InnerModule: Network<B>>,
{
    let network = network.coupled(1.0);
    let checker = Checker::new(model::infos(&network), expected, device);
    let mut step = |done: u64| report.progress(Progress { done, total: 8, ..Progress::default() });

    let mut assertions = vec![checker.shape(&network)];
    if !assertions[0].held {
        // Nothing else can be computed from logits of another shape.
        return Ok((assertions, f64::NAN));
    }
    let loss = checker.loss(&network.valid())?;
    assertions.extend([checker.initial_loss(loss), checker.parameter_count()]);
    step(1);
    assertions.extend(checker.gradients_and_step(&network)?);
    step(2);
    assertions.push(checker.second_round(&network)?);
    step(3);
    assertions.push(checker.dropout(&network)?);
    step(4);
    {
        let stirred_network = checker.stirred(&network).valid();
        assertions.extend(checker.dependence(&stirred_network)?);
        step(5);
        assertions.extend(checker.liveness(&stirred_network)?);
        step(6);
    }
    if let Some(pruning) = &expected.pruning {
        assertions.extend(checker.pruning(network.clone(), pruning)?);
    }
    step(7);
    assertions.push(checker.loss_falls(network)?);
    step(8);
    Ok((assertions, loss))
}
