//! The operations under `Autodiff`: a forward kernel, the values that it keeps, and a backward kernel.
//!
//! Kept values are the tensors themselves, which share their memory with the network's activations, and every operation counts as one that
//! is not recomputed. Their behavior is therefore the same under every checkpointing strategy.

use std::sync::Arc;

use burn::{
    backend::{
        Autodiff,
        autodiff::{
            checkpoint::{
                base::Checkpointer,
                strategy::{CheckpointStrategy, NoCheckpointing},
            },
            grads::Gradients,
            ops::{Backward, Ops as Step, OpsKind},
        },
    },
    tensor::{
        TensorMetadata,
        backend::Backend,
        ops::{FloatTensor, IntTensor},
    },
};
use sweep_cpu_kernels::training::matrix::Products;
use sweep_job::tasks::Activation;

use super::Kernels;

/// A tensor of `B` with its place in the graph.
type Tracked<B, C> = FloatTensor<Autodiff<B, C>>;

/// Defines an operation's backward pass: the type of its saved state, and the gradients with respect to its inputs; a
/// gradient that is not requested may be `None`.
macro_rules! backward {
    ($name:ident, $inputs:literal, $state:ty, |$kernels:ident, $saved_state:pat_param, $gradient:ident, $needs_gradient:pat_param| $body:expr) => {
        #[derive(Debug)]
        struct $name<B: Backend>(&'static dyn Kernels<B>);

        impl<B: Backend> Backward<B, $inputs> for $name<B> {
            type State = $state;

            fn backward(self, step: Step<$state, $inputs>, gradients: &mut Gradients, _: &mut Checkpointer) {
                let $kernels = self.0;
                let $gradient = gradients.consume::<B>(&step.node);
                let $saved_state = step.state;
                let $needs_gradient = step.parents.each_ref().map(Option::is_some);
                let input_gradients: [Option<FloatTensor<B>>; $inputs] = $body;
                for (parent, gradient) in step.parents.into_iter().zip(input_gradients) {
                    if let (Some(parent), Some(gradient)) = (parent, gradient) {
                        gradients.register::<B>(parent.id, gradient);
                    }
                }
            }
        }
    };
}

/// Adds an operation to the graph: its inputs, its output, and the state for its backward pass, if there will be one.
macro_rules! record {
    ($backward:expr, [$($input:ident),*], $out:expr, $state:expr) => {
        match $backward.prepare::<C>([$($input.node.clone()),*]).compute_bound().stateful() {
            OpsKind::Tracked(step) => step.finish($state, $out),
            OpsKind::UnTracked(step) => step.finish($out),
        }
    };
}

backward!(
    LinearBackward,
    3,
    (FloatTensor<B>, FloatTensor<B>, Products),
    |kernels, (x, weight, products), gradient, needs_gradient| {
        kernels.linear_backward(&x, &weight, &gradient, needs_gradient, products)
    }
);

/// See [`Ops::linear`](super::Ops::linear).
pub(super) fn linear<B: Backend, C: CheckpointStrategy>(
    kernels: &'static dyn Kernels<B>,
    x: Tracked<B, C>,
    weight: Tracked<B, C>,
    bias: Tracked<B, C>,
    products: Products,
) -> Tracked<B, C> {
    let out = kernels.linear(&x.primitive, &weight.primitive, &bias.primitive, products);
    record!(LinearBackward(kernels), [x, weight, bias], out, (x.primitive, weight.primitive, products))
}

backward!(
    LinearActivationBackward,
    3,
    (FloatTensor<B>, FloatTensor<B>, FloatTensor<B>, Activation, Products),
    |kernels, (x, weight, pre_activation, kind, products), gradient, needs_gradient| {
        let gradient = kernels.activation_backward(&pre_activation, gradient, kind);
        drop(pre_activation);
        kernels.linear_backward(&x, &weight, &gradient, needs_gradient, products)
    }
);

/// See [`Ops::linear_activation`](super::Ops::linear_activation).
pub(super) fn linear_activation<B: Backend, C: CheckpointStrategy>(
    kernels: &'static dyn Kernels<B>,
    [x, weight, bias]: [Tracked<B, C>; 3],
    kind: Activation,
    products: Products,
) -> Tracked<B, C> {
    let (pre_activation, out) =
        kernels.linear_activation(&x.primitive, &weight.primitive, &bias.primitive, kind, products);
    let state = (x.primitive, weight.primitive, pre_activation, kind, products);
    record!(LinearActivationBackward(kernels), [x, weight, bias], out, state)
}

backward!(ActivationBackward, 1, (FloatTensor<B>, Activation), |kernels, (x, kind), gradient, _| {
    [Some(kernels.activation_backward(&x, gradient, kind))]
});

/// See [`Ops::activation`](super::Ops::activation).
pub(super) fn activation<B: Backend, C: CheckpointStrategy>(
    kernels: &'static dyn Kernels<B>,
    x: Tracked<B, C>,
    kind: Activation,
) -> Tracked<B, C> {
    let out = kernels.activation(&x.primitive, kind);
    record!(ActivationBackward(kernels), [x], out, (x.primitive, kind))
}

backward!(
    LayerNormBackward,
    3,
    (FloatTensor<B>, FloatTensor<B>, FloatTensor<B>),
    |kernels, (x, gain, statistics), gradient, _| {
        kernels.layer_norm_backward(&x, &gain, &statistics, gradient).map(Some)
    }
);

/// See [`Ops::layer_norm`](super::Ops::layer_norm).
pub(super) fn layer_norm<B: Backend, C: CheckpointStrategy>(
    kernels: &'static dyn Kernels<B>,
    x: Tracked<B, C>,
    gain: Tracked<B, C>,
    bias: Tracked<B, C>,
    epsilon: f64,
) -> Tracked<B, C> {
    let (out, statistics) = kernels.layer_norm(&x.primitive, &gain.primitive, &bias.primitive, epsilon);
    record!(LayerNormBackward(kernels), [x, gain, bias], out, (x.primitive, gain.primitive, statistics))
}

backward!(
    AttentionBackward,
    1,
    (FloatTensor<B>, FloatTensor<B>, FloatTensor<B>),
    |kernels, (qkv, out, normalizers), gradient, _| {
        [Some(kernels.causal_attention_backward(&qkv, &out, &normalizers, &gradient))]
    }
);

/// See [`Ops::causal_attention`](super::Ops::causal_attention), without dropout.
pub(super) fn causal_attention<B: Backend, C: CheckpointStrategy>(
    kernels: &'static dyn Kernels<B>,
    qkv: Tracked<B, C>,
    batch: usize,
    heads: usize,
) -> Tracked<B, C> {
    let (out, normalizers) = kernels.causal_attention(&qkv.primitive, batch, heads);
    let state = (qkv.primitive, out.clone(), normalizers);
    record!(AttentionBackward(kernels), [qkv], out, state)
}

/// The backward pass of [`embedding`].
#[derive(Debug)]
struct EmbeddingBackward<B: Backend>(&'static dyn Kernels<B>);

impl<B: Backend> Backward<B, 1> for EmbeddingBackward<B> {
    type State = (usize, IntTensor<B>);

    /// A token table that also makes the logits has a gradient by now. A second one of its size, most of which is 0, would
    /// be the most memory of a step.
    fn backward(self, step: Step<Self::State, 1>, gradients: &mut Gradients, _: &mut Checkpointer) {
        let gradient = gradients.consume::<B>(&step.node);
        let ((rows, ids), [Some(node)]) = (step.state, step.parents) else { return };
        let id = node.id;
        let table = Tracked::<B, NoCheckpointing> { primitive: gradient.clone(), node, rc: Arc::new(id) };
        let other_gradients = gradients.remove::<B>(&table);
        gradients.register::<B>(id, self.0.embedding_backward(rows, &ids, &gradient, other_gradients));
    }
}

/// See [`Ops::embedding`](super::Ops::embedding).
pub(super) fn embedding<B: Backend, C: CheckpointStrategy>(
    kernels: &'static dyn Kernels<B>,
    table: Tracked<B, C>,
    ids: IntTensor<B>,
) -> Tracked<B, C> {
    let out = kernels.embedding(&table.primitive, &ids);
    let rows = table.primitive.shape()[0];
    record!(EmbeddingBackward(kernels), [table], out, (rows, ids))
}

backward!(LossBackward, 2, (FloatTensor<B>, FloatTensor<B>), |kernels, (d_hidden, d_table), gradient, _| {
    [Some(kernels.scale(d_hidden, &gradient)), Some(kernels.scale(d_table, &gradient))]
});

/// See [`Ops::tied_cross_entropy`](super::Ops::tied_cross_entropy).
pub(super) fn tied_cross_entropy<B: Backend, C: CheckpointStrategy>(
    kernels: &'static dyn Kernels<B>,
    hidden: Tracked<B, C>,
    table: Tracked<B, C>,
    targets: &IntTensor<B>,
    products: Products,
) -> Tracked<B, C> {
    match LossBackward(kernels).prepare::<C>([hidden.node.clone(), table.node.clone()]).compute_bound().stateful() {
        OpsKind::Tracked(step) => {
            let [loss, d_hidden, d_table] =
                kernels.tied_cross_entropy_with_gradients(&hidden.primitive, &table.primitive, targets, products);
            step.finish((d_hidden, d_table), loss)
        }
        OpsKind::UnTracked(step) => {
            step.finish(kernels.tied_cross_entropy(&hidden.primitive, &table.primitive, targets, products))
        }
    }
}

backward!(AddBackward, 2, (), |_kernels, (), gradient, _| [Some(gradient.clone()), Some(gradient)]);

/// See [`Ops::add`](super::Ops::add).
pub(super) fn add<B: Backend, C: CheckpointStrategy>(
    kernels: &'static dyn Kernels<B>,
    left: Tracked<B, C>,
    right: Tracked<B, C>,
) -> Tracked<B, C> {
    let nodes = [left.node.clone(), right.node.clone()];
    let out = kernels.add(left.primitive, right.primitive);
    match AddBackward(kernels).prepare::<C>(nodes).compute_bound().stateful() {
        OpsKind::Tracked(step) => step.finish((), out),
        OpsKind::UnTracked(step) => step.finish(out),
    }
}

backward!(SoftmaxBackward, 1, (FloatTensor<B>, [usize; 2]), |kernels, (weights, shape), gradient, _| {
    let gradient = kernels.softmax_rows_backward(&weights, gradient);
    [Some(B::float_reshape(gradient, shape.into()))]
});

/// See [`Ops::softmax_rows`](super::Ops::softmax_rows).
pub(super) fn softmax_rows<B: Backend, C: CheckpointStrategy>(
    kernels: &'static dyn Kernels<B>,
    logits: Tracked<B, C>,
    mask: Option<&FloatTensor<B>>,
    columns: usize,
) -> Tracked<B, C> {
    let shape = logits.primitive.shape();
    let shape = [shape[0], shape[1]];
    let node = logits.node.clone();
    let out = kernels.softmax_rows(logits.primitive, mask, columns);
    match SoftmaxBackward(kernels).prepare::<C>([node]).compute_bound().stateful() {
        OpsKind::Tracked(step) => step.finish((out.clone(), shape), out),
        OpsKind::UnTracked(step) => step.finish(out),
    }
}

backward!(ScaleRowsBackward, 2, (FloatTensor<B>, FloatTensor<B>), |kernels, (x, factors), gradient, _| {
    kernels.scale_rows_backward(&x, &factors, gradient).map(Some)
});

/// See [`Ops::scale_rows`](super::Ops::scale_rows).
pub(super) fn scale_rows<B: Backend, C: CheckpointStrategy>(
    kernels: &'static dyn Kernels<B>,
    x: Tracked<B, C>,
    factors: Tracked<B, C>,
) -> Tracked<B, C> {
    let out = kernels.scale_rows(x.primitive.clone(), &factors.primitive);
    record!(ScaleRowsBackward(kernels), [x, factors], out, (x.primitive, factors.primitive))
}
