//! The operations for which a backend can have its own implementation.

use std::fmt::Debug;

use burn::tensor::{
    Tensor,
    backend::Backend as BurnBackend,
    ops::{FloatTensor, IntTensor},
};
use sweep_cpu_kernels::training::matrix::Products;
use sweep_job::tasks::Activation;

use super::{AdamWState, AdamWStep, Parameter};

/// Gradients with respect to three inputs; `None` for an input that needs no gradient.
pub type Gradients3<B> = [Option<FloatTensor<B>>; 3];

/// Forward and backward passes in single precision; shapes are as in [`Ops`](super::Ops).
///
/// The factors of a layer's and of the output layer's matrix products are rounded according to [`Products`], in both passes.
///
/// A backward pass gets the gradient with respect to the output by value, so that it can use its memory.
pub trait Kernels<B: BurnBackend>: Debug + Sync {
    /// `x W + b`.
    fn linear(
        &self,
        x: &FloatTensor<B>,
        weight: &FloatTensor<B>,
        bias: &FloatTensor<B>,
        products: Products,
    ) -> FloatTensor<B>;

    /// The gradients with respect to `x`, `weight` and the bias, each if `needs_gradient` is true for it.
    fn linear_backward(
        &self,
        x: &FloatTensor<B>,
        weight: &FloatTensor<B>,
        gradient: &FloatTensor<B>,
        needs_gradient: [bool; 3],
        products: Products,
    ) -> Gradients3<B>;

    /// `x W + b`, and the GELU of it.
    fn linear_activation(
        &self,
        x: &FloatTensor<B>,
        weight: &FloatTensor<B>,
        bias: &FloatTensor<B>,
        kind: Activation,
        products: Products,
    ) -> (FloatTensor<B>, FloatTensor<B>);

    /// The GELU of `x`.
    fn activation(&self, x: &FloatTensor<B>, kind: Activation) -> FloatTensor<B>;

    /// The gradient with respect to `x`.
    fn activation_backward(&self, x: &FloatTensor<B>, gradient: FloatTensor<B>, kind: Activation) -> FloatTensor<B>;

    /// The normalized rows, and `[rows, 2]`: mean and inverse deviation.
    fn layer_norm(
        &self,
        x: &FloatTensor<B>,
        gain: &FloatTensor<B>,
        bias: &FloatTensor<B>,
        epsilon: f64,
    ) -> (FloatTensor<B>, FloatTensor<B>);

    /// The gradients with respect to `x`, gain and bias.
    fn layer_norm_backward(
        &self,
        x: &FloatTensor<B>,
        gain: &FloatTensor<B>,
        statistics: &FloatTensor<B>,
        gradient: FloatTensor<B>,
    ) -> [FloatTensor<B>; 3];

    /// The mixed values, and `[batch * heads, length]`: the logarithms of the normalizers.
    fn causal_attention(&self, qkv: &FloatTensor<B>, batch: usize, heads: usize) -> (FloatTensor<B>, FloatTensor<B>);

    /// The gradient with respect to `qkv`, where `out` and `normalizers` are results of the forward pass.
    fn causal_attention_backward(
        &self,
        qkv: &FloatTensor<B>,
        out: &FloatTensor<B>,
        normalizers: &FloatTensor<B>,
        gradient: &FloatTensor<B>,
    ) -> FloatTensor<B>;

    /// Rows of a table.
    fn embedding(&self, table: &FloatTensor<B>, ids: &IntTensor<B>) -> FloatTensor<B>;

    /// The gradient with respect to a table of `rows` rows, added to `other_gradients` if there are any.
    fn embedding_backward(
        &self,
        rows: usize,
        ids: &IntTensor<B>,
        gradient: &FloatTensor<B>,
        other_gradients: Option<FloatTensor<B>>,
    ) -> FloatTensor<B>;

    /// Returns the loss, `[1]`.
    fn tied_cross_entropy(
        &self,
        hidden: &FloatTensor<B>,
        table: &FloatTensor<B>,
        targets: &IntTensor<B>,
        products: Products,
    ) -> FloatTensor<B>;

    /// The loss `[1]`, and its gradients with respect to `hidden` and `table`.
    fn tied_cross_entropy_with_gradients(
        &self,
        hidden: &FloatTensor<B>,
        table: &FloatTensor<B>,
        targets: &IntTensor<B>,
        products: Products,
    ) -> [FloatTensor<B>; 3];

    /// `left + right`, of one shape.
    fn add(&self, left: FloatTensor<B>, right: FloatTensor<B>) -> FloatTensor<B>;

    /// The softmax of every `columns` numbers, with the mask added.
    fn softmax_rows(&self, logits: FloatTensor<B>, mask: Option<&FloatTensor<B>>, columns: usize) -> FloatTensor<B>;

    /// The gradient with respect to the logits, in the shape of `weights`, where `weights` are the result of the forward pass.
    fn softmax_rows_backward(&self, weights: &FloatTensor<B>, gradient: FloatTensor<B>) -> FloatTensor<B>;

    /// 1 at the `k` largest numbers of each row, 0 elsewhere.
    fn largest(&self, x: &FloatTensor<B>, k: usize) -> FloatTensor<B>;

    /// Every row times its factor.
    fn scale_rows(&self, x: FloatTensor<B>, factors: &FloatTensor<B>) -> FloatTensor<B>;

    /// The gradients with respect to `x` and the factors.
    fn scale_rows_backward(
        &self,
        x: &FloatTensor<B>,
        factors: &FloatTensor<B>,
        gradient: FloatTensor<B>,
    ) -> [FloatTensor<B>; 2];

    /// The sum `[1]` of the squares.
    fn sum_of_squares(&self, x: &FloatTensor<B>) -> FloatTensor<B>;

    /// `x` times `factor` `[1]`.
    fn scale(&self, x: FloatTensor<B>, factor: &FloatTensor<B>) -> FloatTensor<B>;

    /// `x` times `mask`, whose numbers are 0 and 1.
    fn masked(&self, x: FloatTensor<B>, mask: &FloatTensor<B>) -> FloatTensor<B>;

    /// Weights and means after a step of AdamW.
    fn adamw_step(&self, step: &AdamWStep<B>, parameter: Parameter<'_, B>) -> (Tensor<B, 1>, AdamWState<B>);
}
