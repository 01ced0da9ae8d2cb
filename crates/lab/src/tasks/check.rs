//! `uses: check`: is a network what it claims to be? (ratio-ablation, section 7)
//!
//! The assertions know a network only through [`Network`], so a wrong one can be given to them, and the tests do.

use burn::{
    backend::Autodiff,
    module::AutodiffModule,
    tensor::{Int, Tensor, TensorData, backend::Backend as BurnBackend},
};
use rand::Rng;
use sweep_job::{
    Outcome, Progress, Report, Unit,
    tasks::{Check, DecayOn, Optimizer},
};

use super::{network, number};
use crate::{
    LabError,
    backend::{Compute, Work},
    data::Batch,
    measure,
    model::{self, GptDims, Network, ParamInfo, Role, VOCAB_UINT16},
    optim::{AdamW, Gradients},
    prune::host,
    rng,
};

/// GPT-2's tokens (ratio-ablation, section 2).
const GPT2_TOKENS: usize = 50_257;
/// Steps in which the loss must fall.
const STEPS: usize = 5;

/// A check to do.
pub(super) struct Job<'a> {
    pub(super) check: &'a Check,
    pub(super) report: &'a mut dyn Report,
}

impl Work for Job<'_> {
    type Output = Outcome;

    fn run<B: Compute>(self, device: &B::Device) -> Result<Outcome, LabError> {
        let Self { check: Check { model, checking }, report } = self;
        let network = network::<Autodiff<B>>(model, VOCAB_UINT16, checking.seed, device)?;
        let dims = *network.dims();
        if checking.length > dims.block_size {
            return Err(LabError::Dimensions(format!(
                "length {} is above the network's block_size {}",
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
        };
        let parameters: usize = model::infos(&network).iter().map(ParamInfo::len).sum();
        let (assertions, loss) = assertions::<B, _>(network, &expected, device, report)?;
        let total = assertions.len();
        let failed: Vec<String> = assertions.iter().filter_map(Assertion::failure).collect();
        if !failed.is_empty() {
            return Err(LabError::Check { failed, total });
        }
        let mut outcome = Outcome::default();
        outcome.metric("assertions", total as f64, Unit::Count);
        outcome.metric("loss", loss, Unit::Nats);
        outcome.metric("parameters", parameters as f64, Unit::Count);
        if let Some(bytes) = measure::peak_memory() {
            outcome.metric("memory.peak", bytes, Unit::Bytes);
        }
        for Assertion { name, finding, .. } in assertions {
            outcome.facts.insert(name.into(), format!("held: {finding}"));
        }
        Ok(outcome)
    }
}

/// What a network is compared with.
#[derive(Debug, Clone)]
pub struct Expected {
    /// The dimensions it claims.
    pub dims: GptDims,
    /// Whether its weights come from a training, so that its loss is not that of a guess.
    pub trained: bool,
    /// Probability of dropout in training mode.
    pub dropout: f64,
    /// Sequences, and tokens in each.
    pub batch: [usize; 2],
    /// Learning rate of the steps.
    pub lr: f64,
    /// Seed of the tokens and of dropout.
    pub seed: u64,
}

/// An assertion that was made.
#[derive(Debug, Clone)]
pub struct Assertion {
    /// Its name.
    pub name: &'static str,
    /// Whether it holds.
    pub held: bool,
    /// What was found: a number where it holds, what is wrong where it does not.
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

/// Makes every assertion about `network`; gives them with the loss of the network as it came.
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
    let checker = Checker { parameters: model::infos(&network), batch: random_batch(expected), expected, device };
    let mut step = |done: u64| report.progress(Progress { done, total: 6, ..Progress::default() });

    let mut made = vec![checker.shape(&network)];
    if !made[0].held {
        // Nothing else can be computed from logits of another shape.
        return Ok((made, f64::NAN));
    }
    let loss = checker.loss(&network.valid())?;
    made.extend([checker.initial_loss(loss), checker.parameter_count()]);
    step(1);
    made.extend(checker.gradients_and_step(&network)?);
    step(2);
    made.push(checker.second_round(&network)?);
    step(3);
    made.push(checker.dropout(&network)?);
    step(4);
    made.extend(checker.determinism_and_causality(&network)?);
    step(5);
    made.push(checker.loss_falls(network)?);
    step(6);
    Ok((made, loss))
}

/// Random tokens, and independent random targets.
fn random_batch(expected: &Expected) -> Batch {
    let [batch_size, length] = expected.batch;
    let mut rng = rng::stream(expected.seed, "check", "tokens", &[]);
    // The rows that pad GPT-2's table to a multiple of 64 stand for no token.
    let used = if expected.dims.vocab_size == VOCAB_UINT16 { GPT2_TOKENS } else { expected.dims.vocab_size };
    let vocab = i32::try_from(used).unwrap_or(i32::MAX);
    let mut draw = || (0..batch_size * length).map(|_| rng.random_range(0..vocab)).collect();
    Batch { inputs: draw(), targets: draw(), batch_size, length }
}

/// What the assertions share.
struct Checker<'a, B: Compute> {
    parameters: Vec<ParamInfo>,
    batch: Batch,
    expected: &'a Expected,
    device: &'a B::Device,
}

impl<B: Compute> Checker<'_, B> {
    fn shape<N: AutodiffModule<Autodiff<B>, InnerModule: Network<B>>>(&self, network: &N) -> Assertion {
        let (inputs, _) = self.batch.to_tensors::<B>(self.device);
        let found = network.valid().logits(inputs, 0.0).dims();
        let [batch, length] = self.expected.batch;
        let wanted = [batch, length, self.expected.dims.vocab_size];
        let problem = (found != wanted).then(|| format!("{found:?} instead of {wanted:?}"));
        Assertion::unless("logits-shape", problem, format!("{found:?}"))
    }

    fn initial_loss(&self, loss: f64) -> Assertion {
        let dims = &self.expected.dims;
        if self.expected.trained {
            return Assertion::new("initial-loss", loss.is_finite(), format!("{loss:.4} nats"));
        }
        // A tied head gives the input token a raised logit, which shows when depth and width are small.
        let tolerance = if dims.d_model >= 768 { 0.5 } else { 1.0 };
        let wanted = dims.initial_loss();
        let held = (loss - wanted).abs() <= tolerance;
        let finding = format!("{loss:.4} nats, expected {wanted:.4} ± {tolerance}");
        Assertion::new("initial-loss", held, finding)
    }

    fn parameter_count(&self) -> Assertion {
        let found: usize = self.parameters.iter().map(ParamInfo::len).sum();
        let wanted = self.expected.dims.parameter_count();
        let problem = (found != wanted).then(|| format!("{found} instead of {wanted}"));
        Assertion::unless("parameter-count", problem, found.to_string())
    }

    /// Gradients in training mode are finite and reach everything, and an optimizer step moves everything.
    fn gradients_and_step<N: Network<Autodiff<B>>>(&self, network: &N) -> Result<Vec<Assertion>, LabError> {
        self.seed_dropout();
        let gradients = self.gradients(network, self.expected.dropout);
        let on_host: Vec<Option<Vec<f32>>> =
            gradients.iter().map(|gradient| gradient.clone().map(host).transpose()).collect::<Result<_, _>>()?;
        let mut made = vec![self.finite_gradients(&on_host), self.nonzero_gradients(&on_host)];
        drop(on_host);

        let before = model::values::<Autodiff<B>, _>(network);
        let moved = self.optimizer().step::<Autodiff<B>, _>(network.clone(), gradients, self.expected.lr);
        let after = model::values::<Autodiff<B>, _>(&moved);
        let mut still = Vec::new();
        for ((info, before), after) in self.parameters.iter().zip(before).zip(after) {
            if host(before)? == host(after)? {
                still.push(info.name.as_str());
            }
        }
        let problem = (!still.is_empty()).then(|| format!("a step does not change {}", list(&still)));
        made.push(Assertion::unless("optimizer-step", problem, format!("{} tensors", self.parameters.len())));
        Ok(made)
    }

    fn finite_gradients(&self, gradients: &[Option<Vec<f32>>]) -> Assertion {
        let bad: Vec<&str> = self
            .with_gradients(gradients)
            .filter(|(_, gradient)| gradient.iter().any(|number| !number.is_finite()))
            .map(|(info, _)| info.name.as_str())
            .collect();
        let problem = (!bad.is_empty()).then(|| format!("not finite in {}", list(&bad)));
        let largest = gradients.iter().flatten().map(|gradient| largest(gradient)).fold(0.0, f32::max);
        Assertion::unless("finite-gradients", problem, format!("largest {largest:.3e}"))
    }

    fn nonzero_gradients(&self, gradients: &[Option<Vec<f32>>]) -> Assertion {
        let mut bad = Vec::new();
        let mut smallest = f32::INFINITY;
        for (info, gradient) in self.parameters.iter().zip(gradients) {
            let gradient = gradient.as_deref().unwrap_or_default();
            // Rows of positions beyond the sequence have no gradient; every other row of that table must have one.
            let unused_rows_only = |gradient: &[f32]| {
                let rows = gradient.chunks(self.expected.dims.d_model);
                rows.take(self.expected.batch[1]).any(|row| largest(row) == 0.0)
            };
            let reached = largest(gradient);
            if reached == 0.0 || (info.role() == Role::PositionTable && unused_rows_only(gradient)) {
                bad.push(info.name.as_str());
            }
            smallest = smallest.min(reached);
        }
        let problem = (!bad.is_empty()).then(|| format!("no gradient in {}", list(&bad)));
        Assertion::unless("nonzero-gradients", problem, format!("smallest of the tensors' largest {smallest:.3e}"))
    }

    /// A second forward and backward pass gives the gradients of the first.
    fn second_round<N: Network<Autodiff<B>>>(&self, network: &N) -> Result<Assertion, LabError> {
        const TOLERANCE: f32 = 1e-5;
        let (first, second) = (self.gradients(network, 0.0), self.gradients(network, 0.0));
        let mut worst = (0.0, "");
        for ((info, first), second) in self.parameters.iter().zip(first).zip(second) {
            let (Some(first), Some(second)) = (first, second) else { continue };
            let (first, second) = (host(first)?, host(second)?);
            let scale = largest(&first).max(f32::MIN_POSITIVE);
            let difference = largest_difference(&first, &second) / scale;
            if difference > worst.0 || difference.is_nan() {
                worst = (difference, info.name.as_str());
            }
        }
        let (difference, name) = worst;
        let problem = (difference.is_nan() || difference > TOLERANCE)
            .then(|| format!("the gradient of {name} differs by {difference:.3e} of its largest number"));
        Ok(Assertion::unless("second-round", problem, format!("{difference:.3e}")))
    }

    /// Training mode differs from evaluation exactly if there is dropout.
    fn dropout<N: Network<Autodiff<B>>>(&self, network: &N) -> Result<Assertion, LabError> {
        let p = self.expected.dropout;
        let (inputs, _) = self.batch.to_tensors::<Autodiff<B>>(self.device);
        let logits = |p| host(flat(network.logits(inputs.clone(), p).inner()));
        self.seed_dropout();
        let difference = largest_difference(&logits(p)?, &logits(0.0)?);
        let problem = ((difference != 0.0) != (p != 0.0))
            .then(|| format!("with probability {p} the logits of training and evaluation differ by {difference:.3e}"));
        Ok(Assertion::unless("dropout", problem, format!("{difference:.3e}")))
    }

    fn determinism_and_causality<N>(&self, network: &N) -> Result<Vec<Assertion>, LabError>
    where
        N: AutodiffModule<Autodiff<B>, InnerModule: Network<B>>,
    {
        let network = network.valid();
        let [batch, length] = self.expected.batch;
        let full = self.logits(&network, &self.batch.inputs, length)?;
        let again = self.logits(&network, &self.batch.inputs, length)?;
        let difference = largest_difference(&full, &again);
        let problem =
            (difference != 0.0).then(|| format!("the same tokens give logits that differ by {difference:.3e}"));
        let mut made = vec![Assertion::unless("determinism", problem, "0".into())];

        let mut problem = None;
        let changes = [1, length / 2, length - 1];
        for changed in changes {
            let mut tokens = self.batch.inputs.clone();
            for sequence in tokens.chunks_mut(length) {
                let vocab = i32::try_from(self.expected.dims.vocab_size).unwrap_or(i32::MAX);
                sequence[changed] = (sequence[changed] + 1) % vocab;
            }
            let logits = self.logits(&network, &tokens, length)?;
            problem = problem.or_else(|| self.seen_before(&full, &logits, changed));
        }
        let finding = format!("0 before tokens {changes:?}");
        made.push(Assertion::unless("causality", problem, finding));

        let scale = largest(&full).max(1.0);
        let mut worst = (0.0_f32, 0);
        for prefix in [1, length / 2, length - 1] {
            let tokens: Vec<i32> =
                self.batch.inputs.chunks(length).flat_map(|sequence| &sequence[..prefix]).copied().collect();
            let logits = self.logits(&network, &tokens, prefix)?;
            let vocab = logits.len() / (batch * prefix);
            for (short, long) in logits.chunks(prefix * vocab).zip(full.chunks(length * vocab)) {
                let difference = largest_difference(short, &long[..prefix * vocab]) / scale;
                if difference > worst.0 || difference.is_nan() {
                    worst = (difference, prefix);
                }
            }
        }
        let (difference, prefix) = worst;
        let problem = (difference.is_nan() || difference > 1e-5)
            .then(|| format!("the first {prefix} tokens alone give logits that differ by {difference:.3e}"));
        made.push(Assertion::unless("prefix", problem, format!("{difference:.3e}")));
        Ok(made)
    }

    /// Where logits before token `changed` differ, if they do.
    fn seen_before(&self, full: &[f32], changed_logits: &[f32], changed: usize) -> Option<String> {
        let [_, length] = self.expected.batch;
        let vocab = self.expected.dims.vocab_size;
        let rows = full.chunks(vocab).zip(changed_logits.chunks(vocab)).enumerate();
        let (position, difference) = rows
            .map(|(row, (before, after))| (row % length, largest_difference(before, after)))
            .find(|(position, difference)| *position < changed && *difference != 0.0)?;
        Some(format!("logits at position {position} changed by {difference:.3e} when token {changed} was changed"))
    }

    /// Steps on one batch, without dropout, lower its loss.
    fn loss_falls<N>(&self, mut network: N) -> Result<Assertion, LabError>
    where
        N: Network<Autodiff<B>> + AutodiffModule<Autodiff<B>, InnerModule: Network<B>>,
    {
        let before = self.loss(&network.valid())?;
        let mut optimizer = self.optimizer();
        for _ in 0..STEPS {
            let gradients = self.gradients(&network, 0.0);
            network = optimizer.step::<Autodiff<B>, _>(network, gradients, self.expected.lr);
        }
        let after = self.loss(&network.valid())?;
        let finding = format!("from {before:.4} to {after:.4} nats in {STEPS} steps");
        Ok(Assertion::new("loss-falls", after < before, finding))
    }

    fn loss<N: Network<B>>(&self, network: &N) -> Result<f64, LabError> {
        number(super::batch_loss(network, &self.batch, self.device))
    }

    fn gradients<N: Network<Autodiff<B>>>(&self, network: &N, dropout: f64) -> Gradients<B> {
        let (inputs, targets) = self.batch.to_tensors::<Autodiff<B>>(self.device);
        let mut gradients = network.loss(inputs, targets, dropout).backward();
        model::gradients(network, &mut gradients)
    }

    /// Logits of `tokens`, `length` of them in a sequence, on the host.
    fn logits<N: Network<B>>(&self, network: &N, tokens: &[i32], length: usize) -> Result<Vec<f32>, LabError> {
        let data = TensorData::new(tokens.to_vec(), [tokens.len() / length, length]);
        host(flat(network.logits(Tensor::<B, 2, Int>::from_data(data, self.device), 0.0)))
    }

    /// Adam without weight decay, which would move tensors that nothing else moves.
    fn optimizer(&self) -> AdamW<B> {
        let settings = Optimizer { weight_decay: 0.0, decay_on: DecayOn::All, ..Optimizer::default() };
        AdamW::new(&settings, &self.parameters)
    }

    fn seed_dropout(&self) {
        B::seed(self.device, rng::derived_seed(self.expected.seed, "dropout", &[]));
    }

    fn with_gradients<'g>(
        &'g self,
        gradients: &'g [Option<Vec<f32>>],
    ) -> impl Iterator<Item = (&'g ParamInfo, &'g [f32])> {
        self.parameters.iter().zip(gradients).filter_map(|(info, gradient)| Some((info, gradient.as_deref()?)))
    }
}

fn flat<B: BurnBackend, const D: usize>(tensor: Tensor<B, D>) -> Tensor<B, 1> {
    let numbers = tensor.shape().num_elements();
    tensor.reshape([numbers])
}

/// The largest magnitude; 0 of nothing. Numbers that are not finite count as infinite.
fn largest(numbers: &[f32]) -> f32 {
    numbers.iter().map(|number| if number.is_finite() { number.abs() } else { f32::INFINITY }).fold(0.0, f32::max)
}

/// The largest difference between two lists; infinite where one of the two is not finite and the other is.
fn largest_difference(left: &[f32], right: &[f32]) -> f32 {
    let difference = |(left, right): (&f32, &f32)| {
        if left.to_bits() == right.to_bits() {
            return 0.0;
        }
        let difference = (left - right).abs();
        if difference.is_nan() { f32::INFINITY } else { difference }
    };
    left.iter().zip(right).map(difference).fold(0.0, f32::max)
}

/// The first few of `names`, and how many there are beyond them.
fn list(names: &[&str]) -> String {
    const SHOWN: usize = 3;
    let shown = names[..names.len().min(SHOWN)].join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
