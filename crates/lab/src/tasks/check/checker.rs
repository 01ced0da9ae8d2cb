//! State that the assertions share: the batch, the network's parameters, losses, gradients and logits.

use burn::{
    backend::Autodiff,
    module::AutodiffModule,
    tensor::{Int, Tensor, TensorData},
};
use rand::Rng;
use rand_distr::StandardNormal;
use sweep_job::tasks::{DecayOn, Optimizer, OptimizerKind};

use super::{Assertion, Expected, compare::flat};
use crate::{
    LabError,
    backend::Compute,
    data::Batch,
    device::read::{host, number},
    model::{self, Network, ParamInfo, Role, VOCAB_UINT16, cross_entropy},
    optim::{AdamW, Gradients},
    rng,
    tasks::batch_loss,
};

/// GPT-2's tokens (ratio-ablation, section 2).
const GPT2_TOKENS: usize = 50_257;

/// Random tokens, and independent random targets.
fn random_batch(expected: &Expected) -> Batch {
    let [batch_size, length] = expected.batch;
    let mut rng = rng::stream(expected.seed, "check", "tokens", &[]);
    // The rows that pad GPT-2's table to a multiple of 64 belong to no token.
    let token_count = if expected.dims.vocab_size == VOCAB_UINT16 { GPT2_TOKENS } else { expected.dims.vocab_size };
    let vocab = i32::try_from(token_count).unwrap_or(i32::MAX);
    let mut draw = || (0..batch_size * length).map(|_| rng.random_range(0..vocab)).collect();
    Batch { inputs: draw(), targets: draw(), batch_size, length }
}

/// A random strength between 0.5 and 1.5, of either sign.
fn strength(rng: &mut impl Rng) -> f32 {
    let magnitude = rng.random_range(0.5..1.5);
    if rng.random_bool(0.5) { magnitude } else { -magnitude }
}

/// State that the assertions share.
pub(super) struct Checker<'a, B: Compute> {
    pub(super) parameters: Vec<ParamInfo>,
    pub(super) batch: Batch,
    unreached: Vec<String>,
    pub(super) expected: &'a Expected,
    pub(super) device: &'a B::Device,
}

impl<'a, B: Compute> Checker<'a, B> {
    pub(super) fn new(parameters: Vec<ParamInfo>, expected: &'a Expected, device: &'a B::Device) -> Self {
        Self { parameters, batch: random_batch(expected), unreached: expected.dims.unreached(), expected, device }
    }

    pub(super) fn shape<N: AutodiffModule<Autodiff<B>, InnerModule: Network<B>>>(&self, network: &N) -> Assertion {
        let (inputs, _) = self.batch.to_tensors::<B>(self.device);
        let shape = network.valid().logits(inputs, 0.0).dims();
        let [batch, length] = self.expected.batch;
        let expected_shape = [batch, length, self.expected.dims.vocab_size];
        let problem = (shape != expected_shape).then(|| format!("{shape:?} instead of {expected_shape:?}"));
        Assertion::unless("logits-shape", problem, format!("{shape:?}"))
    }

    pub(super) fn initial_loss(&self, loss: f64) -> Assertion {
        let dims = &self.expected.dims;
        if self.expected.trained {
            return Assertion::new("initial-loss", loss.is_finite(), format!("{loss:.4} nats"));
        }
        // A tied head gives the input token a raised logit, which shows when depth and width are small.
        let tolerance = if dims.d_model >= 768 { 0.5 } else { 1.0 };
        let expected_loss = dims.initial_loss();
        let is_close = (loss - expected_loss).abs() <= tolerance;
        let finding = format!("{loss:.4} nats, expected {expected_loss:.4} ± {tolerance}");
        Assertion::new("initial-loss", is_close, finding)
    }

    pub(super) fn parameter_count(&self) -> Assertion {
        let count: usize = self.parameters.iter().map(ParamInfo::len).sum();
        let expected_count = self.expected.dims.parameter_count();
        let problem = if count == expected_count {
            self.other_shape()
        } else {
            Some(format!("{count} instead of {expected_count}"))
        };
        Assertion::unless("parameter-count", problem, count.to_string())
    }

    /// The first parameter whose shape is not the claimed one, if the number of all is right.
    fn other_shape(&self) -> Option<String> {
        let expected = self.expected.dims.parameters();
        let mut pairs = self.parameters.iter().zip(expected);
        let (info, expected) = pairs.find(|(info, expected)| info.shape != expected.shape)?;
        Some(format!("{} has shape {:?} instead of {:?}", info.name, info.shape, expected.shape))
    }

    /// True if the loss cannot depend on a parameter; see [`GptDims::unreached`].
    pub(super) fn is_unreached(&self, info: &ParamInfo) -> bool {
        self.unreached.iter().any(|name| info.name.ends_with(name.as_str()))
    }

    /// `network` with blocks' parameters far from their initial values, so that every mechanism changes the logits.
    ///
    /// Matrices preserve the scale of their inputs. Strengths, and RA-CT's scales and biases, become random numbers of both signs.
    pub(super) fn stirred<N: Network<Autodiff<B>>>(&self, network: &N) -> N {
        model::map_values::<Autodiff<B>, N>(network.clone(), &mut |index, values| {
            let info = &self.parameters[index];
            let has = |parts: &[&str]| parts.iter().any(|part| info.name.contains(part));
            let is_strength = has(&["alpha", ".ra_ct."]);
            // Negative values of these parameters have little or no effect.
            let is_part = has(&["w_std", "w_rec", "restart", "gate_low"]);
            let mut rng = rng::stream(self.expected.seed, "check", &info.name, &[]);
            let numbers: Vec<f32> = match info.role() {
                Role::Vector if is_strength => (0..info.len()).map(|_| strength(&mut rng)).collect(),
                Role::Vector if is_part => (0..info.len()).map(|_| strength(&mut rng).abs()).collect(),
                Role::Linear | Role::Router | Role::HeadMaps => {
                    let scale = (info.shape[info.shape.len() - 2] as f32).sqrt().recip();
                    (0..info.len()).map(|_| rng.sample::<f32, _>(StandardNormal) * scale).collect()
                }
                Role::Vector | Role::TokenTable | Role::Head | Role::PositionTable | Role::ValueTable => return values,
            };
            Tensor::from_data(TensorData::new(numbers, [info.len()]), &values.device())
        })
    }

    pub(super) fn loss<N: Network<B>>(&self, network: &N) -> Result<f64, LabError> {
        number(batch_loss(network, &self.batch, self.device))
    }

    pub(super) fn gradients<N: Network<Autodiff<B>>>(&self, network: &N, dropout: f64) -> Gradients<B> {
        let (inputs, targets) = self.batch.to_tensors::<Autodiff<B>>(self.device);
        let mut gradients = cross_entropy(network.logits(inputs, dropout), targets).backward();
        model::gradients(network, &mut gradients)
    }

    /// Logits of `tokens`, `length` of them in a sequence, on the host.
    pub(super) fn logits<N: Network<B>>(
        &self,
        network: &N,
        tokens: &[i32],
        length: usize,
    ) -> Result<Vec<f32>, LabError> {
        let data = TensorData::new(tokens.to_vec(), [tokens.len() / length, length]);
        host(flat(network.logits(Tensor::<B, 2, Int>::from_data(data, self.device), 0.0)))
    }

    /// Adam without weight decay, which would change tensors that have no gradient.
    pub(super) fn optimizer(&self) -> AdamW<B> {
        let settings = Optimizer { weight_decay: 0.0, decay_on: DecayOn::All, ..Optimizer::default() };
        AdamW::new(&settings, &self.parameters).with_rates_of(&self.expected.dims, &self.parameters)
    }

    /// Returns the optimizer with SPAM's guards, for the step that prunes.
    pub(super) fn spam(&self) -> AdamW<B> {
        let settings = Optimizer {
            weight_decay: 0.0,
            decay_on: DecayOn::All,
            optimizer: OptimizerKind::AdamWSpam,
            ..Optimizer::default()
        };
        AdamW::new(&settings, &self.parameters).with_rates_of(&self.expected.dims, &self.parameters)
    }

    pub(super) fn seed_dropout(&self) {
        B::seed(self.device, rng::derived_seed(self.expected.seed, "dropout", &[]));
    }

    pub(super) fn with_gradients<'g>(
        &'g self,
        gradients: &'g [Option<Vec<f32>>],
    ) -> impl Iterator<Item = (&'g ParamInfo, &'g [f32])> {
        self.parameters.iter().zip(gradients).filter_map(|(info, gradient)| Some((info, gradient.as_deref()?)))
    }
}
