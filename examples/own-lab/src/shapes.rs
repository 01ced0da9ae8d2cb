//! `uses: shapes`: a ResNet that tells shapes in noisy images apart. The images are made up, from the seed.

use sweep::{
    burn::{
        self,
        module::{AutodiffModule as _, Module},
        nn::{
            GroupNorm, GroupNormConfig, Linear, LinearConfig, PaddingConfig2d,
            conv::{Conv2d, Conv2dConfig},
            loss::CrossEntropyLossConfig,
        },
        tensor::{
            Distribution, ElementConversion as _, Int, Tensor, TensorData,
            activation::relu,
            backend::{AutodiffBackend, Backend},
        },
    },
    job::{AddedTask, Failure, Group as _, Job, MetricInfo, Outcome, Param, Report, TaskSpec, Values},
    lab::{
        LabError,
        backend::{BackendTask, Compute, Trained, compute},
        rng::derived_seed,
    },
    metrics, params,
};

use crate::trained;

/// Side of an image in pixels.
const SIDE: usize = 12;
/// Number of shapes: a row, a column, a diagonal, a square.
const SHAPES: usize = 4;
/// Number of images of the test.
const TESTED: usize = 256;

params! {
    /// A ResNet on made-up images.
    pub struct Shapes {
        /// Number of residual blocks.
        depth: usize = 2, in 1..=16;
        /// Number of channels.
        width: usize = 8, in 4..=256;
        /// If false, the blocks have no skip connections.
        residual: bool = true;
        /// Standard deviation of the noise; a shape is 1 above its ground.
        noise: f64 = 0.5, in 0.0..=10.0;
        /// Number of steps of training.
        steps: usize = 60, in 1..=100_000;
        /// Number of images in a batch.
        batch_size: usize = 32, in 1..=4096;
        /// Learning rate.
        lr: f64 = 0.01, in 0.0..=1.0;
        /// Seed of weights and images.
        seed: u64 = 0, in 0..=9_007_199_254_740_991_i64;
    }
}

metrics! {
    impl Shapes {
        /// Part of the test's images whose shape is found.
        ACCURACY: Fraction = "accuracy";
        /// Mean cross-entropy on the test's images.
        LOSS: Nats = "loss";
    }
}

impl TaskSpec for Shapes {
    const NAME: &'static str = "shapes";
    const ABOUT: &'static str = "trains a ResNet to tell shapes in noisy images apart";
    const GROUPS: &'static [&'static [Param]] = &[Self::PARAMS];
    const METRICS: &'static [&'static [MetricInfo]] = &[Self::DECLARED];
    const CURVES: &'static [&'static str] = &["train_loss"];
    const HEADLINE: &'static [&'static str] = &["accuracy"];

    fn build(values: &Values) -> Option<Self> {
        Self::from_values(values)
    }
}

impl AddedTask for Shapes {
    fn run(&self, job: &Job, report: &mut dyn Report) -> Result<Outcome, Failure> {
        Ok(compute(job, Training { settings: self, report })?)
    }
}

struct Training<'a> {
    settings: &'a Shapes,
    report: &'a mut dyn Report,
}

impl BackendTask for Training<'_> {
    type Output = Outcome;

    fn run<B: Compute>(self, device: &B::Device) -> Result<Outcome, LabError> {
        let Self { settings, report } = self;
        B::seed(device, settings.seed);
        let network = ResNet::<Trained<B>>::new(settings, device);
        let (network, curve) = trained(network, (settings.steps, settings.lr), report, |network, step| {
            let (images, labels) = images::<Trained<B>>(settings, step, settings.batch_size, device);
            loss(network.forward(images), labels)
        })?;
        // Step 0 is not trained on.
        let (images, labels) = images::<B>(settings, 0, TESTED, device);
        let scores = network.valid().forward(images);
        let found = scores.clone().argmax(1).reshape([TESTED]).equal(labels.clone()).int().sum();
        let mut outcome = Outcome::default();
        outcome.set(&Shapes::ACCURACY, found.into_scalar().elem::<f64>() / TESTED as f64);
        outcome.set(&Shapes::LOSS, loss(scores, labels).into_scalar().elem());
        outcome.curves.insert("train_loss".to_owned(), curve);
        Ok(outcome)
    }
}

/// The mean cross-entropy, `[1]`, of `scores` `[n, SHAPES]`.
fn loss<B: Backend>(scores: Tensor<B, 2>, labels: Tensor<B, 1, Int>) -> Tensor<B, 1> {
    let device = scores.device();
    CrossEntropyLossConfig::new().init(&device).forward(scores, labels)
}

/// The images of a step, `[count, 1, SIDE, SIDE]`, and their shapes, `[count]`.
fn images<B: Backend>(
    settings: &Shapes,
    step: usize,
    count: usize,
    device: &B::Device,
) -> (Tensor<B, 4>, Tensor<B, 1, Int>) {
    let (mut pixels, mut labels) = (vec![0.0_f32; count * SIDE * SIDE], Vec::new());
    for (index, image) in pixels.chunks_exact_mut(SIDE * SIDE).enumerate() {
        let bits = derived_seed(settings.seed, "image", &[step as u64, index as u64]);
        let shape = bits as usize % SHAPES;
        let (row, column) = ((bits >> 8) as usize % (SIDE - 4), (bits >> 16) as usize % (SIDE - 4));
        for place in 0..5 {
            let points: &[(usize, usize)] = match shape {
                0 => &[(2, place)],
                1 => &[(place, 2)],
                2 => &[(place, place)],
                _ => &[(0, place), (4, place), (place, 0), (place, 4)],
            };
            for (down, right) in points {
                image[(row + down) * SIDE + column + right] = 1.0;
            }
        }
        labels.push(shape as i64);
    }
    let clean = Tensor::<B, 4>::from_data(TensorData::new(pixels, [count, 1, SIDE, SIDE]), device);
    let noise = Tensor::random([count, 1, SIDE, SIDE], Distribution::Normal(0.0, settings.noise), device);
    (clean + noise, Tensor::from_data(TensorData::new(labels, [count]), device))
}

/// A residual network with normalization before each convolution (He et al. 2016, "Identity mappings").
#[derive(Module, Debug)]
struct ResNet<B: Backend> {
    stem: Conv2d<B>,
    blocks: Vec<Block<B>>,
    head: Linear<B>,
    residual: bool,
}

#[derive(Module, Debug)]
struct Block<B: Backend> {
    norms: [GroupNorm<B>; 2],
    convolutions: [Conv2d<B>; 2],
}

fn convolution<B: Backend>(channels: [usize; 2], device: &B::Device) -> Conv2d<B> {
    Conv2dConfig::new(channels, [3, 3]).with_padding(PaddingConfig2d::Same).init(device)
}

impl<B: AutodiffBackend> ResNet<B> {
    fn new(settings: &Shapes, device: &B::Device) -> Self {
        let width = settings.width;
        let block = |_| Block {
            norms: [(); 2].map(|()| GroupNormConfig::new(1, width).init(device)),
            convolutions: [(); 2].map(|()| convolution([width, width], device)),
        };
        Self {
            stem: convolution([1, width], device),
            blocks: (0..settings.depth).map(block).collect(),
            head: LinearConfig::new(width, SHAPES).init(device),
            residual: settings.residual,
        }
    }
}

impl<B: Backend> ResNet<B> {
    /// Scores of the shapes, `[n, SHAPES]`, of images `[n, 1, SIDE, SIDE]`.
    fn forward(&self, images: Tensor<B, 4>) -> Tensor<B, 2> {
        let mut hidden = self.stem.forward(images);
        for block in &self.blocks {
            let change = block.forward(hidden.clone());
            hidden = if self.residual { hidden + change } else { change };
        }
        let [count, width, _, _] = hidden.dims();
        self.head.forward(relu(hidden).reshape([count, width, SIDE * SIDE]).mean_dim(2).reshape([count, width]))
    }
}

impl<B: Backend> Block<B> {
    fn forward(&self, mut hidden: Tensor<B, 4>) -> Tensor<B, 4> {
        for (norm, convolution) in self.norms.iter().zip(&self.convolutions) {
            hidden = convolution.forward(relu(norm.forward(hidden)));
        }
        hidden
    }
}
