//! `uses: recurrence`: a small Llama that continues a sequence of which each number follows from the two before it.

use sweep::{
    burn::{
        self,
        module::{AutodiffModule as _, Module},
        nn::{
            Embedding, EmbeddingConfig, Linear, LinearConfig, RmsNorm, RmsNormConfig, RotaryEncoding,
            RotaryEncodingConfig, attention::generate_autoregressive_mask, loss::CrossEntropyLossConfig,
        },
        tensor::{
            ElementConversion as _, Int, Tensor, TensorData,
            activation::{gelu, silu, softmax},
            backend::Backend,
        },
    },
    choice,
    job::{AddedTask, Conflict, Failure, Group as _, Job, MetricInfo, Outcome, Param, Report, TaskSpec, Values},
    lab::{
        LabError,
        backend::{BackendTask, Compute, Trained, compute},
        rng::derived_seed,
    },
    metrics, params,
};

use crate::trained;

/// Size of the vocabulary: the numbers are computed modulo this prime.
const VOCABULARY: usize = 7;
/// Number of tokens of a sequence.
const LENGTH: usize = 16;
/// Number of sequences of the test.
const TESTED: usize = 64;

choice! {
    /// The feed-forward part of a block.
    pub enum Mlp {
        /// SwiGLU (Shazeer 2020), at about the number of parameters of `gelu`.
        SwiGlu = "swiglu",
        /// Two layers with GELU between them.
        Gelu = "gelu",
    }
}

params! {
    /// A small Llama on a recurrence.
    pub struct Recurrence {
        /// Number of blocks.
        layers: usize = 2, in 1..=16;
        /// Size of an embedding.
        width: usize = 32, in 8..=1024;
        /// Number of heads, which divides `width` into even parts.
        heads: usize = 2, in 1..=64;
        /// The feed-forward part.
        mlp: Mlp = Mlp::SwiGlu;
        /// If false, attention does not know the order of tokens, apart from the causal mask.
        rope: bool = true;
        /// Number of steps of training.
        steps: usize = 100, in 1..=100_000;
        /// Number of sequences in a batch.
        batch_size: usize = 16, in 1..=4096;
        /// Learning rate.
        lr: f64 = 0.01, in 0.0..=1.0;
        /// Seed of weights and sequences.
        seed: u64 = 0, in 0..=9_007_199_254_740_991_i64;
    }
}

metrics! {
    impl Recurrence {
        /// Mean cross-entropy per token that follows from two others.
        LOSS: Nats = "loss";
        /// Part of these tokens that are found.
        ACCURACY: Fraction = "accuracy";
    }
}

impl TaskSpec for Recurrence {
    const NAME: &'static str = "recurrence";
    const ABOUT: &'static str = "trains a small Llama to continue a recurrence";
    const GROUPS: &'static [&'static [Param]] = &[Self::PARAMS];
    const METRICS: &'static [&'static [MetricInfo]] = &[Self::DECLARED];
    const CURVES: &'static [&'static str] = &["train_loss"];
    const HEADLINE: &'static [&'static str] = &["loss", "accuracy"];

    fn build(values: &Values) -> Option<Self> {
        Self::from_values(values)
    }

    fn conflicts(values: &Values) -> Vec<Conflict> {
        let Some(Self { width, heads, .. }) = Self::build(values) else { return Vec::new() };
        if width % (2 * heads) == 0 {
            return Vec::new();
        }
        vec![Conflict {
            params: vec!["heads", "width"],
            message: format!("{heads} heads do not divide a width of {width} into even parts"),
            advice: format!("make `width` a multiple of {}", 2 * heads),
        }]
    }
}

impl AddedTask for Recurrence {
    fn run(&self, job: &Job, report: &mut dyn Report) -> Result<Outcome, Failure> {
        Ok(compute(job, Training { settings: self, report })?)
    }
}

struct Training<'a> {
    settings: &'a Recurrence,
    report: &'a mut dyn Report,
}

impl BackendTask for Training<'_> {
    type Output = Outcome;

    fn run<B: Compute>(self, device: &B::Device) -> Result<Outcome, LabError> {
        let Self { settings, report } = self;
        B::seed(device, settings.seed);
        let network = Llama::<Trained<B>>::new(settings, device);
        let (network, curve) = trained(network, (settings.steps, settings.lr), report, |network, step| {
            let (inputs, targets) = sequences(settings, step, settings.batch_size, device);
            loss(network.forward(inputs), targets)
        })?;
        // Step 0 is not trained on.
        let (inputs, targets) = sequences::<B>(settings, 0, TESTED, device);
        let logits = network.valid().forward(inputs);
        let [count] = targets.dims();
        let found = logits.clone().argmax(1).reshape([count]).equal(targets.clone()).int().sum();
        let mut outcome = Outcome::default();
        outcome.set(&Recurrence::LOSS, loss(logits, targets).into_scalar().elem());
        outcome.set(&Recurrence::ACCURACY, found.into_scalar().elem::<f64>() / count as f64);
        outcome.curves.insert("train_loss".to_owned(), curve);
        Ok(outcome)
    }
}

/// The mean cross-entropy, `[1]`, of `logits` `[tokens, VOCABULARY]`.
fn loss<B: Backend>(logits: Tensor<B, 2>, targets: Tensor<B, 1, Int>) -> Tensor<B, 1> {
    let device = logits.device();
    CrossEntropyLossConfig::new().init(&device).forward(logits, targets)
}

/// The sequences of a step, `[count, LENGTH]`, and the tokens that follow the second and later ones, `[count × (LENGTH - 1)]`.
fn sequences<B: Backend>(
    settings: &Recurrence,
    step: usize,
    count: usize,
    device: &B::Device,
) -> (Tensor<B, 2, Int>, Tensor<B, 1, Int>) {
    let (mut inputs, mut targets) = (Vec::new(), Vec::new());
    for index in 0..count {
        let bits = derived_seed(settings.seed, "sequence", &[step as u64, index as u64]);
        let size = VOCABULARY as u64;
        let mut pair = [bits % size, (bits >> 32) % size];
        inputs.push(pair[0] as i64);
        for _ in 1..LENGTH {
            let next = (3 * pair[0] + 5 * pair[1] + 1) % size;
            inputs.push(pair[1] as i64);
            targets.push(next as i64);
            pair = [pair[1], next];
        }
    }
    let targets = Tensor::from_data(TensorData::new(targets, [count * (LENGTH - 1)]), device);
    (Tensor::from_data(TensorData::new(inputs, [count, LENGTH]), device), targets)
}

/// A decoder with the parts of Llama (Touvron et al. 2023): RMSNorm, rotary positions, SwiGLU, no bias.
#[derive(Module, Debug)]
struct Llama<B: Backend> {
    embedding: Embedding<B>,
    rotary: Option<RotaryEncoding<B>>,
    blocks: Vec<Block<B>>,
    norm: RmsNorm<B>,
    head: Linear<B>,
}

#[derive(Module, Debug)]
struct Block<B: Backend> {
    attention_norm: RmsNorm<B>,
    query: Linear<B>,
    key: Linear<B>,
    value: Linear<B>,
    output: Linear<B>,
    norm: RmsNorm<B>,
    /// The gate of SwiGLU.
    gate: Option<Linear<B>>,
    up: Linear<B>,
    down: Linear<B>,
    heads: usize,
}

impl<B: Backend> Llama<B> {
    fn new(settings: &Recurrence, device: &B::Device) -> Self {
        let Recurrence { width, heads, .. } = *settings;
        let linear = |from, to| LinearConfig::new(from, to).with_bias(false).init(device);
        let norm = || RmsNormConfig::new(width).init(device);
        // Three matrices of 8/3 of the width have as many weights as two of four times the width.
        let hidden = if settings.mlp == Mlp::SwiGlu { 8 * width / 3 } else { 4 * width };
        let block = |_| Block {
            attention_norm: norm(),
            query: linear(width, width),
            key: linear(width, width),
            value: linear(width, width),
            output: linear(width, width),
            norm: norm(),
            gate: (settings.mlp == Mlp::SwiGlu).then(|| linear(width, hidden)),
            up: linear(width, hidden),
            down: linear(hidden, width),
            heads,
        };
        Self {
            embedding: EmbeddingConfig::new(VOCABULARY, width).init(device),
            rotary: settings.rope.then(|| RotaryEncodingConfig::new(LENGTH, width / heads).init(device)),
            blocks: (0..settings.layers).map(block).collect(),
            norm: norm(),
            head: linear(width, VOCABULARY),
        }
    }

    /// The logits `[count × (LENGTH - 1), VOCABULARY]` of the tokens that follow the second and later ones of `tokens`
    /// `[count, LENGTH]`.
    fn forward(&self, tokens: Tensor<B, 2, Int>) -> Tensor<B, 2> {
        let [count, length] = tokens.dims();
        let mut hidden = self.embedding.forward(tokens);
        for block in &self.blocks {
            hidden = block.forward(hidden, self.rotary.as_ref());
        }
        let logits = self.head.forward(self.norm.forward(hidden)).slice([0..count, 1..length]);
        logits.reshape([count * (length - 1), VOCABULARY])
    }
}

impl<B: Backend> Block<B> {
    /// Maps `[count, length, width]` to the same shape.
    fn forward(&self, hidden: Tensor<B, 3>, rotary: Option<&RotaryEncoding<B>>) -> Tensor<B, 3> {
        let hidden = hidden.clone() + self.attend(self.attention_norm.forward(hidden), rotary);
        let normed = self.norm.forward(hidden.clone());
        let up = self.up.forward(normed.clone());
        let activated = match &self.gate {
            Some(gate) => silu(gate.forward(normed)) * up,
            None => gelu(up),
        };
        hidden + self.down.forward(activated)
    }

    fn attend(&self, hidden: Tensor<B, 3>, rotary: Option<&RotaryEncoding<B>>) -> Tensor<B, 3> {
        let [count, length, width] = hidden.dims();
        let size = width / self.heads;
        let split = |tensor: Tensor<B, 3>| tensor.reshape([count, length, self.heads, size]).swap_dims(1, 2);
        let turned = |tensor: Tensor<B, 4>| match rotary {
            Some(rotary) => rotary.forward(tensor),
            None => tensor,
        };
        let query = turned(split(self.query.forward(hidden.clone())));
        let key = turned(split(self.key.forward(hidden.clone())));
        let value = split(self.value.forward(hidden));
        let mask = generate_autoregressive_mask::<B>(1, length, &query.device()).reshape([1, 1, length, length]);
        let scores = query.matmul(key.swap_dims(2, 3)) / (size as f64).sqrt();
        let weights = softmax(scores.mask_fill(mask, -1e9), 3);
        self.output.forward(weights.matmul(value).swap_dims(1, 2).reshape([count, length, width]))
    }
}
