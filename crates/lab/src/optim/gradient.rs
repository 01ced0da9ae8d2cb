//! The loss of a network on a batch and its gradients: the values that the backward pass keeps or recomputes, and their
//! formats.
//!
//! Checkpointing by segments (after Chen et al., "Training Deep Nets with Sublinear Memory Cost"): the forward pass
//! runs without a graph and keeps only the input of each segment of blocks. The backward pass goes from the last
//! segment to the first: it runs the segment again from its input, with a graph, and takes the gradient of the scalar
//! product of its output with the gradient from the next segment. This costs one more forward pass of the blocks, and
//! at most one segment's graph exists at a time.

use std::{mem::take, ops::Range};

use burn::{
    backend::{Autodiff, autodiff::checkpoint::strategy::BalancedCheckpointing},
    module::{AutodiffModule, Module, ModuleMapper, Param},
    tensor::{
        DType, Int, Tensor,
        backend::{AutodiffBackend, Backend},
    },
};
use sweep_job::tasks::{BlockSpec, Checkpointing, Computing, Precision};

use crate::{
    LabError,
    model::{self, Auxiliary, Gpt, Handed, Objective},
    ops::{Ops, autocast},
    optim::{Gradients, add_gradients},
    rng,
};

/// The backend of a graph that computes element-wise operations again.
type Balanced<B> = Autodiff<B, BalancedCheckpointing>;

/// Random numbers of dropout in one forward pass.
#[derive(Debug, Clone, Copy)]
pub struct Dropout {
    /// The probability; with 0 nothing is drawn.
    pub p: f64,
    /// The job's seed.
    pub seed: u64,
    /// Iteration and micro-batch.
    pub at: [u64; 2],
}

/// The parameters whose gradients a backward pass computes. It ends where no more are requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requested<'a> {
    /// All of them.
    All,
    /// The parameters at these indices in the network's order.
    These(&'a [usize]),
}

/// The gradients that a backward pass computes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Derived<'a> {
    /// The parameters whose gradients are computed.
    pub requested: Requested<'a>,
    /// Factors of the auxiliary losses that are added to the loss.
    pub auxiliary: Auxiliary,
}

impl Default for Derived<'_> {
    fn default() -> Self {
        Self { requested: Requested::All, auxiliary: Auxiliary::default() }
    }
}

impl Requested<'_> {
    fn has(self, index: usize) -> bool {
        match self {
            Self::All => true,
            Self::These(places) => places.contains(&index),
        }
    }

    /// The part of `network` at which the backward pass ends.
    fn reach<B: Backend>(self, network: &Gpt<B>) -> Reach {
        let Self::These(places) = self else { return Reach::Tables };
        let infos = model::infos(network);
        let reach_of =
            |name: &str| match name.strip_prefix("h.").and_then(|suffix| suffix.split('.').next()?.parse().ok()) {
                Some(block) => Reach::Block(block),
                None if name.starts_with("ln_f.") || name.starts_with("lm_head.") => Reach::Head,
                None => Reach::Tables,
            };
        places
            .iter()
            .filter_map(|place| infos.get(*place))
            .map(|info| reach_of(&info.name))
            .min()
            .unwrap_or(Reach::Head)
    }
}

/// The required gradients of the first part of a network, in the order of the forward pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Reach {
    Tables,
    Block(usize),
    Head,
}

impl Reach {
    /// True if it is before the block `block`.
    fn is_before(self, block: usize) -> bool {
        match self {
            Self::Tables => true,
            Self::Block(first) => first < block,
            Self::Head => false,
        }
    }
}

/// A forward pass whose backward pass is still to come.
#[derive(Debug)]
pub struct Forward<B: Ops> {
    loss: Tensor<B, 1>,
    rest: Rest<B>,
    /// The format of matrix products, if it differs from the format of activations.
    products: Option<DType>,
}

/// Values that the backward pass needs.
#[derive(Debug)]
enum Rest<B: Ops> {
    Kept(Box<Gpt<Autodiff<B>>>, Tensor<Autodiff<B>, 1>),
    Balanced(Box<Gpt<Balanced<B>>>, Tensor<Balanced<B>, 1>),
    Segments(Box<Segments<B>>),
}

/// Inputs of segments, and the graph behind the last segment.
#[derive(Debug)]
struct Segments<B: Ops> {
    network: Gpt<Autodiff<B>>,
    tokens: Tensor<B, 2, Int>,
    dropout: Dropout,
    /// The blocks of each segment, and their inputs.
    kept: Vec<(Range<usize>, Stream<B>)>,
    /// Output of the last block, as a leaf of the loss's graph.
    last: Tensor<Autodiff<B>, 2>,
    /// The loss and auxiliary losses, without the loss that balances experts.
    total: Tensor<Autodiff<B>, 1>,
    /// The derivative of the loss that balances experts with respect to the probabilities of every block, `[experts]`. The probabilities
    /// are summed over blocks and have no other factor with a gradient, so each segment needs no other value of the other segments.
    slopes: Option<Tensor<B, 1>>,
    reach: Reach,
}

/// The residual stream `[batch * length, d_model]`, and the values that blocks pass on beside it.
type Stream<B> = (Tensor<B, 2>, Handed<B>);

impl<B: Ops> Forward<B> {
    /// The forward pass of `network` on `tokens` and `targets`, both `[batch, length]`, for a backward pass of the loss.
    pub fn new(
        network: &Gpt<Autodiff<B>>,
        tokens: Tensor<B, 2, Int>,
        targets: Tensor<B, 2, Int>,
        computing: &Computing,
        dropout: Dropout,
    ) -> Self {
        Self::of(network, [tokens, targets], computing, dropout, Derived::default())
    }

    /// Computes the forward pass like [`new`](Self::new), for a backward pass that computes the gradients `derived`.
    pub fn of(
        network: &Gpt<Autodiff<B>>,
        [tokens, targets]: [Tensor<B, 2, Int>; 2],
        computing: &Computing,
        dropout: Dropout,
        derived: Derived<'_>,
    ) -> Self {
        let Derived { requested, auxiliary } = derived;
        let inner = || in_precision(network, computing.precision);
        let is_unchanged = activations(computing.precision) == DType::F32 && requested == Requested::All;
        let products = autocasts(computing.precision);
        let (loss, rest) = autocast::with(products, || match computing.checkpointing {
            Checkpointing::Off => {
                let network = if is_unchanged { network.clone() } else { tracked::<Autodiff<B>>(inner(), requested) };
                let Objective { cross_entropy, total } = objective_of(&network, tokens, targets, dropout.p, auxiliary);
                (cross_entropy.inner(), Rest::Kept(Box::new(network), total))
            }
            Checkpointing::Balanced => {
                let network = tracked::<Balanced<B>>(inner(), requested);
                let Objective { cross_entropy, total } = objective_of(&network, tokens, targets, dropout.p, auxiliary);
                (cross_entropy.inner(), Rest::Balanced(Box::new(network), total))
            }
            _ => {
                let blocks = computing.checkpointing.segment().unwrap_or(1);
                let inner = inner();
                let network =
                    if is_unchanged { network.clone() } else { tracked::<Autodiff<B>>(inner.clone(), requested) };
                let (loss, segments) = Segments::new(network, &inner, [tokens, targets], blocks, dropout, derived);
                (loss, Rest::Segments(Box::new(segments)))
            }
        });
        Self { loss, rest, products }
    }

    /// The cross-entropy, `[1]`.
    pub fn loss(&self) -> Tensor<B, 1> {
        self.loss.clone()
    }

    /// The gradients of the loss and of auxiliary losses times `scale`, in single precision, by the network's order of parameters.
    pub fn backward(self, scale: f64) -> Gradients<B> {
        let gradients = autocast::with(self.products, || match self.rest {
            Rest::Kept(network, loss) => derived(&*network, loss, scale),
            Rest::Balanced(network, loss) => derived(&*network, loss, scale),
            Rest::Segments(segments) => segments.backward(scale),
        });
        let to_single = |gradient: Tensor<B, 1>| match gradient.dtype() {
            DType::F32 => gradient,
            _ => gradient.cast(DType::F32),
        };
        gradients.into_iter().map(|gradient| gradient.map(to_single)).collect()
    }
}

/// The mean gradients of `network` on `batches` of tokens and targets, in single precision and without dropout.
pub fn mean<B: Ops>(
    network: &Gpt<Autodiff<B>>,
    batches: impl ExactSizeIterator<Item = (Tensor<B, 2, Int>, Tensor<B, 2, Int>)>,
    computing: &Computing,
) -> Gradients<B> {
    let computing = Computing { precision: Precision::F32, ..computing.clone() };
    let part = 1.0 / batches.len().max(1) as f64;
    let gradients = batches.map(|(tokens, targets)| {
        let dropout = Dropout { p: 0.0, seed: 0, at: [0, 0] };
        Forward::new(network, tokens, targets, &computing, dropout).backward(part)
    });
    gradients.reduce(add_gradients).unwrap_or_default()
}

impl<B: Ops> Segments<B> {
    fn new(
        network: Gpt<Autodiff<B>>,
        inner: &Gpt<B>,
        [tokens, targets]: [Tensor<B, 2, Int>; 2],
        blocks: usize,
        dropout: Dropout,
        Derived { requested, auxiliary: Auxiliary { z_loss, balance_loss } }: Derived<'_>,
    ) -> (Tensor<B, 1>, Self) {
        let reach = requested.reach(inner);
        let layers = inner.h.len();
        let rows = inner.rows(tokens.dims()[1]);
        let flow = inner.flow(&tokens, 0, &rows, dropout.p);
        dropout.seed_segment::<B>(0, &tokens.device());
        let mut stream = (inner.embed(tokens.clone(), 0, dropout.p, false), Handed::NOTHING);
        let mut kept = Vec::with_capacity(layers.div_ceil(blocks));
        for first in (0..layers).step_by(blocks) {
            let range = first..layers.min(first + blocks);
            dropout.seed_segment::<B>(first + 1, &tokens.device());
            let (x, handed) = stream.clone();
            kept.push((range.clone(), (x, Handed { routing: None, ..handed })));
            stream = inner.through(range, stream, &flow, None);
        }
        // The loss is not computed again: its graph is the first that the backward pass needs.
        let last = leaf_if(reach.is_before(layers), stream.0);
        let Objective { cross_entropy, total } =
            network.objective_after(last.clone(), Tensor::from_inner(targets), z_loss);
        let routing = stream.1.routing.filter(|_| balance_loss != 0.0);
        let slopes = routing.map(|routing| routing.slopes() * balance_loss);
        (cross_entropy.inner(), Self { network, tokens, dropout, kept, last, total, slopes, reach })
    }

    fn backward(self, scale: f64) -> Gradients<B> {
        let Self { network, tokens, dropout, mut kept, last, total, slopes, reach } = self;
        let slopes = slopes.map(|slopes| slopes * scale);
        let device = tokens.device();
        let rows = network.rows(tokens.dims()[1]);
        let mut loss_gradients = (total * scale).backward();
        let mut output_gradients = (last.grad_remove(&mut loss_gradients), None, None);
        drop(last);
        let mut gradients = model::gradients(&network, &mut loss_gradients);
        while let Some((range, (x, handed))) = kept.pop().filter(|(range, _)| reach.is_before(range.end)) {
            // Perhaps no gradient of an earlier part is requested.
            let has_earlier_parts = reach.is_before(range.start);
            let x = leaf_if(has_earlier_parts, x);
            let gate = handed.gate.map(|gate| leaf_if(has_earlier_parts, gate));
            let back = handed.back.map(|back| leaf_if(has_earlier_parts, back));
            dropout.seed_segment::<B>(range.start + 1, &device);
            let handed = Handed { gate: gate.clone(), back: back.clone(), routing: None };
            // Each segment has value embeddings with a separate graph, which its backward pass consumes.
            let flow = network.flow(&Tensor::from_inner(tokens.clone()), 0, &rows, dropout.p);
            let (out, handed) = network.through(range, (x.clone(), handed), &flow, None);
            let (d_out, d_gate, d_back) = take(&mut output_gradients);
            let probabilities = handed.routing.map(|routing| routing.probabilities);
            let products = [
                product(Some(out), d_out),
                product(handed.gate, d_gate),
                product(handed.back, d_back),
                product(probabilities, slopes.clone()),
            ];
            let Some(product) = products.into_iter().flatten().reduce(|sum, product| sum + product) else { break };
            let mut product_gradients = product.backward();
            let take_gradient = |product_gradients: &mut _, leaf: Option<Tensor<Autodiff<B>, 3>>| {
                leaf.and_then(|leaf| leaf.grad_remove(product_gradients))
            };
            output_gradients = (
                x.grad_remove(&mut product_gradients),
                take_gradient(&mut product_gradients, gate),
                back.and_then(|back| back.grad_remove(&mut product_gradients)),
            );
            gradients = add_gradients(gradients, model::gradients(&network, &mut product_gradients));
        }
        if reach != Reach::Tables {
            return gradients;
        }
        dropout.seed_segment::<B>(0, &device);
        let embedding = network.embed(Tensor::from_inner(tokens), 0, dropout.p, false);
        if let Some(product) = product(Some(embedding), output_gradients.0) {
            gradients = add_gradients(gradients, model::gradients(&network, &mut product.backward()));
        }
        gradients
    }
}

impl Dropout {
    /// Seeds the random numbers of a segment, so that the backward pass draws the same numbers as the forward pass.
    fn seed_segment<B: Backend>(&self, segment: usize, device: &B::Device) {
        if self.p > 0.0 {
            let [iter, micro_batch] = self.at;
            let index = [iter, micro_batch, segment as u64];
            B::seed(device, rng::derived_seed(self.seed, "dropout of a segment", &index));
        }
    }
}

/// The format of activations.
fn activations(precision: Precision) -> DType {
    match precision {
        Precision::F32 | Precision::Mixed => DType::F32,
        Precision::Bf16 => DType::BF16,
        Precision::F16 => DType::F16,
    }
}

/// `network` without a graph, with its parameters in the format of activations.
pub(crate) fn in_precision<B: Ops>(network: &Gpt<Autodiff<B>>, precision: Precision) -> Gpt<B> {
    match activations(precision) {
        DType::F32 => network.valid(),
        format => network.valid().in_format(format),
    }
}

/// The format of matrix products, if it differs from the format of activations.
fn autocasts(precision: Precision) -> Option<DType> {
    Some(products(precision)).filter(|format| *format != activations(precision))
}

/// Does `work`, which computes with a network [`in_precision`], with matrix products in the format of `precision`.
pub(crate) fn with_products<T>(precision: Precision, work: impl FnOnce() -> T) -> T {
    autocast::with(autocasts(precision), work)
}

/// The format of matrix products.
pub fn products(precision: Precision) -> DType {
    match precision {
        Precision::F32 => DType::F32,
        Precision::Bf16 | Precision::Mixed => DType::BF16,
        Precision::F16 => DType::F16,
    }
}

/// An error if `device` cannot compute with `precision`, or networks of `block` cannot.
pub fn check_precision<B: Backend>(
    precision: Precision,
    block: &BlockSpec,
    device: &B::Device,
) -> Result<(), LabError> {
    let format = products(precision);
    if !B::supports_dtype(device, format) {
        return Err(LabError::Precision {
            precision: precision.word(),
            reason: format!("the device does not support {}", format.name()),
        });
    }
    if activations(precision) != DType::F32 && !block.is_plain() {
        let reason = "the mechanisms of this architecture need single precision; `mixed` keeps it for them".into();
        return Err(LabError::Precision { precision: precision.word(), reason });
    }
    Ok(())
}

fn objective_of<A: AutodiffBackend + Ops>(
    network: &Gpt<A>,
    tokens: Tensor<A::InnerBackend, 2, Int>,
    targets: Tensor<A::InnerBackend, 2, Int>,
    dropout: f64,
    auxiliary: Auxiliary,
) -> Objective<A> {
    network.objective(Tensor::from_inner(tokens), Tensor::from_inner(targets), dropout, auxiliary)
}

fn derived<A: AutodiffBackend>(network: &Gpt<A>, loss: Tensor<A, 1>, scale: f64) -> Gradients<A::InnerBackend> {
    let mut gradients = (loss * scale).backward();
    model::gradients(network, &mut gradients)
}

/// A network that records its graph, as far as it leads to parameters whose gradients are `requested`.
fn tracked<A: AutodiffBackend>(inner: Gpt<A::InnerBackend>, requested: Requested<'_>) -> Gpt<A> {
    track(<Gpt<A> as AutodiffModule<A>>::from_inner(inner), requested)
}

/// `module`, which records its graph as far as it leads to parameters whose gradients are `requested`.
pub(crate) fn track<A: AutodiffBackend, M: Module<A>>(module: M, requested: Requested<'_>) -> M {
    struct Track<'a> {
        index: usize,
        requested: Requested<'a>,
    }

    impl<B: Backend> ModuleMapper<B> for Track<'_> {
        fn map_float<const D: usize>(&mut self, param: Param<Tensor<B, D>>) -> Param<Tensor<B, D>> {
            let (id, tensor, mapper) = param.consume();
            let is_requested = self.requested.has(self.index);
            self.index += 1;
            Param::from_mapped_value(id, tensor.set_require_grad(is_requested), mapper)
        }
    }

    module.map(&mut Track { index: 0, requested })
}

/// A tensor whose gradient is requested.
fn leaf<B: Ops, const D: usize>(tensor: Tensor<B, D>) -> Tensor<Autodiff<B>, D> {
    Tensor::from_inner(tensor).require_grad()
}

/// A tensor whose gradient may be requested.
fn leaf_if<B: Ops, const D: usize>(is_requested: bool, tensor: Tensor<B, D>) -> Tensor<Autodiff<B>, D> {
    if is_requested { leaf(tensor) } else { Tensor::from_inner(tensor) }
}

/// The scalar product of `output` and `gradient`, `[1]`, whose own gradient with respect to `output` is bit-identical to `gradient`.
fn product<B: Ops, const D: usize>(
    output: Option<Tensor<Autodiff<B>, D>>,
    gradient: Option<Tensor<B, D>>,
) -> Option<Tensor<Autodiff<B>, 1>> {
    Some((output? * Tensor::from_inner(gradient?)).sum())
}
