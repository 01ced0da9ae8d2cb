//! Operations of training that take more than one call into Burn.
//!
//! [`Ops`] has a function for each, with a body in tensor operations (in [`plain`]) that every backend can run and
//! differentiate. A backend with [`Kernels`] runs those instead; under `Autodiff` they have their own backward pass (in
//! `tracked`) and keep only the values that it needs. The CPU has kernels (in `cpu`): with Burn's operations it spends
//! most of a step outside matrix products, in broadcasts on one core.
//!
//! On a GPU the step of AdamW is a kernel (in `cube`), unless operations are fused.
//!
//! The kernels compute in single precision; other numbers use Burn's operations. The same inputs give the same bits
//! with the same number of threads.

pub mod autocast;
mod cpu;
#[cfg(all(any(feature = "cuda", feature = "wgpu"), not(test)))]
pub(crate) mod cube;
mod kernels;
pub mod plain;
mod tracked;

use std::sync::atomic::{AtomicBool, Ordering};

use burn::{
    backend::{Autodiff, Flex, autodiff::checkpoint::strategy::CheckpointStrategy},
    tensor::{DType, Int, Tensor, TensorPrimitive, backend::Backend as BurnBackend, ops::FloatTensor},
};
pub use kernels::{Gradients3, Kernels};
use sweep_cpu_kernels::training::matrix::Products;
use sweep_job::tasks::{Activation, AdamWFactors};

/// Frees the memory that the CPU's kernels keep for reuse, so that measurements begin without any.
pub(crate) fn release_idle() {
    cpu::release_idle();
}

/// Settings of one step of AdamW for all parameters.
#[derive(Debug, Clone)]
pub struct AdamWStep<B: BurnBackend> {
    /// Factor of the previous mean of the gradient.
    pub beta_1: f64,
    /// Factor of the previous mean of its square.
    pub beta_2: f64,
    /// Added to the root of the second mean.
    pub epsilon: f64,
    /// The learning rate, corrected for the first mean's start at 0.
    pub step_size: f64,
    /// Factor of the root of the second mean, because that began at 0 too.
    pub root_correction: f64,
    /// True if the step divides by the root of the largest second moment so far (AMSGrad).
    pub amsgrad: bool,
    /// Factors of both previous means, `[1]` each, if they are known on the device only: instead of `beta_1` and
    /// `beta_2`, which still give the factors of the gradient.
    pub keeps: Option<[Tensor<B, 1>; 2]>,
    /// Factor of the gradient, `[1]`.
    pub gradient_factor: Option<Tensor<B, 1>>,
    /// True for fused operations on a GPU, false for one kernel; `None` for the backend's default.
    pub fused: Option<bool>,
}

#[expect(clippy::cast_possible_truncation, reason = "the numbers that they multiply are in single precision")]
impl<B: BurnBackend> AdamWStep<B> {
    /// The factors that kernels take; [`keeps`](Self::keeps) and [`gradient_factor`](Self::gradient_factor) count beside
    /// them.
    pub(crate) fn factors(&self, decay: f64) -> AdamWFactors {
        AdamWFactors {
            keep: [self.beta_1 as f32, self.beta_2 as f32],
            new: [(1.0 - self.beta_1) as f32, (1.0 - self.beta_2) as f32],
            step_size: self.step_size as f32,
            root_correction: self.root_correction as f32,
            epsilon: self.epsilon as f32,
            weight: (1.0 - decay) as f32,
        }
    }
}

/// The running means of a parameter's gradient.
#[derive(Debug, Clone)]
pub struct AdamWState<B: BurnBackend> {
    /// Of the gradient, `[numbers]`.
    pub moment_1: Tensor<B, 1>,
    /// Of its square, `[numbers]`.
    pub moment_2: Tensor<B, 1>,
    /// The largest `moment_2` so far, `[numbers]`; with AMSGrad only.
    pub max_moment_2: Option<Tensor<B, 1>>,
}

/// Pruned weights of a parameter.
#[derive(Debug, Clone, Copy)]
pub struct Mask<'a, B: BurnBackend> {
    /// 1 where a number stays, 0 where it is pruned, `[numbers]`.
    pub keep: &'a Tensor<B, 1>,
    /// True if the moments of pruned weights become 0 too.
    pub moments: bool,
}

/// A parameter before a step.
#[derive(Debug)]
pub struct Parameter<'a, B: BurnBackend> {
    /// `[numbers]`.
    pub weights: Tensor<B, 1>,
    /// `[numbers]`.
    pub gradient: Tensor<B, 1>,
    /// `None` before the first step: then the means begin at 0.
    pub state: Option<AdamWState<B>>,
    /// The part of a weight that decays: learning rate times weight decay.
    pub decay: f64,
    /// Weights that are set to 0 after the step.
    pub mask: Option<Mask<'a, B>>,
}

/// The operations, on any backend.
pub trait Ops: BurnBackend {
    /// This backend's own implementations.
    fn kernels() -> Option<&'static dyn Kernels<Self>> {
        None
    }

    /// True if kernels round the factors of matrix products to `format` themselves, and sum in single precision.
    fn rounds_products(_format: DType) -> bool {
        false
    }

    /// `x W + b` for `x` `[rows, in]`, `W` `[in, out]`, `b` `[out]`.
    fn linear(x: Tensor<Self, 2>, weight: Tensor<Self, 2>, bias: Tensor<Self, 1>) -> Tensor<Self, 2> {
        match products_for::<Self>(&[x.dtype(), weight.dtype(), bias.dtype()]) {
            Some((kernels, products)) => wrap(kernels.linear(&float(x), &float(weight), &float(bias), products)),
            None => plain::linear(x, weight, bias),
        }
    }

    /// The activation function `kind` of [`linear`](Self::linear).
    fn linear_activation(
        x: Tensor<Self, 2>,
        weight: Tensor<Self, 2>,
        bias: Tensor<Self, 1>,
        kind: Activation,
    ) -> Tensor<Self, 2> {
        match products_for::<Self>(&[x.dtype(), weight.dtype(), bias.dtype()]) {
            Some((kernels, products)) => {
                wrap(kernels.linear_activation(&float(x), &float(weight), &float(bias), kind, products).1)
            }
            None => <Self as Ops>::activation(<Self as Ops>::linear(x, weight, bias), kind),
        }
    }

    /// The activation function `kind` of every number.
    fn activation(x: Tensor<Self, 2>, kind: Activation) -> Tensor<Self, 2> {
        match kernels_for::<Self>(&[x.dtype()]) {
            Some(kernels) => wrap(kernels.activation(&float(x), kind)),
            None => plain::activation(x, kind),
        }
    }

    /// Normalizes the rows of `x` `[rows, d]` to mean 0 and variance 1 (`epsilon` is added to the variance), multiplies
    /// them by `gain` `[d]` and adds `bias` `[d]`.
    fn layer_norm(x: Tensor<Self, 2>, gain: Tensor<Self, 1>, bias: Tensor<Self, 1>, epsilon: f64) -> Tensor<Self, 2> {
        match kernels_for::<Self>(&[x.dtype(), gain.dtype(), bias.dtype()]) {
            Some(kernels) => wrap(kernels.layer_norm(&float(x), &float(gain), &float(bias), epsilon).0),
            None => plain::layer_norm(x, gain, bias, epsilon),
        }
    }

    /// Divides the rows of `x` `[rows, d]` by their root mean square (`epsilon` is added to the mean square), and multiplies
    /// them by `gain` `[d]`.
    fn rms_norm(x: Tensor<Self, 2>, gain: Tensor<Self, 1>, epsilon: f64) -> Tensor<Self, 2> {
        plain::rms_norm(x, gain, epsilon)
    }

    /// Causal self-attention of `batch` sequences from queries, keys and values `[batch * length, 3 d_model]`, whose
    /// heads stand side by side; the result is `[batch * length, d_model]`.
    ///
    /// `mask` `[1, length * length]` is added to the scores by the plain body: 0 where a query may look, a large negative number where it
    /// may not. Dropout with probability `dropout` applies to the probabilities, always in the plain body.
    fn causal_attention(
        qkv: Tensor<Self, 2>,
        batch: usize,
        heads: usize,
        mask: &Tensor<Self, 2>,
        dropout: f64,
    ) -> Tensor<Self, 2> {
        match kernels_for::<Self>(&[qkv.dtype()]) {
            Some(kernels) if dropout == 0.0 => wrap(kernels.causal_attention(&float(qkv), batch, heads).0),
            _ => plain::causal_attention(&qkv, batch, heads, mask, dropout),
        }
    }

    /// The rows `ids` `[batch, length]` of `table` `[rows, d]`, as `[batch, length, d]`.
    fn embedding(table: Tensor<Self, 2>, ids: Tensor<Self, 2, Int>) -> Tensor<Self, 3> {
        match kernels_for::<Self>(&[table.dtype()]) {
            Some(kernels) => wrap(kernels.embedding(&float(table), &ids.into_primitive())),
            None => plain::embedding(table, ids),
        }
    }

    /// Mean cross-entropy in nats, `[1]`, of the logits `hidden * table^T` for `hidden` `[rows, d]` and `table`
    /// `[vocab, d]`, against `targets` `[batch, length]` with one id per row.
    ///
    /// With kernels there are never more than a few MiB of logits at a time, and the gradients are computed along with
    /// the loss.
    fn tied_cross_entropy(
        hidden: Tensor<Self, 2>,
        table: Tensor<Self, 2>,
        targets: Tensor<Self, 2, Int>,
    ) -> Tensor<Self, 1> {
        match products_for::<Self>(&[hidden.dtype(), table.dtype()]) {
            Some((kernels, products)) => {
                let targets = targets.into_primitive();
                wrap(kernels.tied_cross_entropy(&float(hidden), &float(table), &targets, products))
            }
            None => plain::tied_cross_entropy(hidden, table, targets),
        }
    }

    /// `left + right`, of one shape.
    fn add(left: Tensor<Self, 2>, right: Tensor<Self, 2>) -> Tensor<Self, 2> {
        match kernels_for::<Self>(&[left.dtype(), right.dtype()]) {
            Some(kernels) => wrap(kernels.add(float(left), float(right))),
            None => left + right,
        }
    }

    /// The softmax, `[rows, columns]`, of every `columns` numbers of `logits` `[any, rows of the mask * columns]`, after
    /// `mask` `[1, rows of the mask * columns]` has been added, if there is one.
    fn softmax_rows(logits: Tensor<Self, 2>, mask: Option<&Tensor<Self, 2>>, columns: usize) -> Tensor<Self, 2> {
        match kernels_for::<Self>(&[logits.dtype()]) {
            Some(kernels) => wrap(kernels.softmax_rows(float(logits), mask.cloned().map(float).as_ref(), columns)),
            None => plain::softmax_rows(logits, mask, columns),
        }
    }

    /// 1 at the `k` largest numbers of each row of `x`, of equal ones the first, 0 elsewhere, `[rows, columns]`; no gradient
    /// flows through it.
    fn largest(x: Tensor<Self, 2>, k: usize) -> Tensor<Self, 2> {
        match kernels_for::<Self>(&[x.dtype()]) {
            Some(kernels) => wrap(kernels.largest(&float(x), k)),
            None => plain::largest(&x, k),
        }
    }

    /// `x` `[rows, columns]` times a factor for every row, `[rows, 1]`.
    fn scale_rows(x: Tensor<Self, 2>, factors: Tensor<Self, 2>) -> Tensor<Self, 2> {
        match kernels_for::<Self>(&[x.dtype(), factors.dtype()]) {
            Some(kernels) => wrap(kernels.scale_rows(float(x), &float(factors))),
            None => x * factors,
        }
    }

    /// The sum `[1]` of the squares of `x` `[numbers]`.
    fn sum_of_squares(x: Tensor<Self, 1>) -> Tensor<Self, 1> {
        match kernels_for::<Self>(&[x.dtype()]) {
            Some(kernels) => wrap(kernels.sum_of_squares(&float(x))),
            None => (x.clone() * x).sum(),
        }
    }

    /// `x` `[numbers]` times `factor` `[1]`.
    fn scale(x: Tensor<Self, 1>, factor: Tensor<Self, 1>) -> Tensor<Self, 1> {
        match kernels_for::<Self>(&[x.dtype(), factor.dtype()]) {
            Some(kernels) => wrap(kernels.scale(float(x), &float(factor))),
            None => x * factor,
        }
    }

    /// `x` `[numbers]` times `mask` `[numbers]`, which has 1 where a number stays and 0 where none does.
    fn masked(x: Tensor<Self, 1>, mask: &Tensor<Self, 1>) -> Tensor<Self, 1> {
        match kernels_for::<Self>(&[x.dtype(), mask.dtype()]) {
            Some(kernels) => wrap(kernels.masked(float(x), &float(mask.clone()))),
            None => x * mask.clone(),
        }
    }

    /// `cache` `[batch, heads, tokens, width]` with `new` `[batch, heads, 1, width]` as the token `place`. The CPU writes
    /// into the memory of `cache` if nothing else uses it.
    fn put_token(cache: Tensor<Self, 4>, place: usize, new: Tensor<Self, 4>) -> Tensor<Self, 4> {
        plain::put_token(cache, place, new)
    }

    /// The weights and the means after a step of AdamW.
    ///
    /// It is not differentiated. Kernels write into the memory of their inputs if nothing else uses it.
    fn adamw_step(step: &AdamWStep<Self>, parameter: Parameter<'_, Self>) -> (Tensor<Self, 1>, AdamWState<Self>) {
        match kernels_for::<Self>(&[parameter.weights.dtype(), parameter.gradient.dtype()]) {
            Some(kernels) => kernels.adamw_step(step, parameter),
            None => plain::adamw_step(step, parameter),
        }
    }
}

/// Switch of the kernels.
static KERNELS: AtomicBool = AtomicBool::new(true);

/// Switches all kernels of this process on, as they are at first, or off, to compare them with the plain bodies.
pub fn use_kernels(on: bool) {
    KERNELS.store(on, Ordering::Relaxed);
}

/// True if kernels are in use.
fn in_use() -> bool {
    KERNELS.load(Ordering::Relaxed)
}

/// Adds this thread to the pool of kernels, if the pool has not started and has more than one thread.
///
/// Otherwise this thread would sleep while the pool's threads do its work: two switches of context for each of the hundreds
/// of loops of a step. For the thread that trains, before its first operation.
pub fn compute_on_this_thread() {
    // Alone in the pool this thread would leave others that compute waiting for it.
    if std::thread::available_parallelism().is_ok_and(|threads| threads.get() > 1) {
        // An error means that the pool has already started; then it stays as it is.
        let _begun = rayon::ThreadPoolBuilder::new().use_current_thread().build_global();
    }
}

impl Ops for Flex {
    fn kernels() -> Option<&'static dyn Kernels<Self>> {
        in_use().then_some(&cpu::Cpu)
    }

    fn rounds_products(format: DType) -> bool {
        in_use() && format == DType::BF16
    }

    fn put_token(cache: Tensor<Self, 4>, place: usize, new: Tensor<Self, 4>) -> Tensor<Self, 4> {
        // Flex copies the whole tensor to assign to a part of it.
        match kernels_for::<Self>(&[cache.dtype(), new.dtype()]) {
            Some(_) => wrap(cpu::put_token(float(cache), place, &float(new))),
            None => plain::put_token(cache, place, new),
        }
    }
}

impl<B: Ops, C: CheckpointStrategy> Ops for Autodiff<B, C> {
    fn rounds_products(format: DType) -> bool {
        B::rounds_products(format)
    }

    fn linear(x: Tensor<Self, 2>, weight: Tensor<Self, 2>, bias: Tensor<Self, 1>) -> Tensor<Self, 2> {
        match products_for::<B>(&[x.dtype(), weight.dtype(), bias.dtype()]) {
            Some((kernels, products)) => {
                wrap(tracked::linear::<B, C>(kernels, float(x), float(weight), float(bias), products))
            }
            None => plain::linear(x, weight, bias),
        }
    }

    fn linear_activation(
        x: Tensor<Self, 2>,
        weight: Tensor<Self, 2>,
        bias: Tensor<Self, 1>,
        kind: Activation,
    ) -> Tensor<Self, 2> {
        match products_for::<B>(&[x.dtype(), weight.dtype(), bias.dtype()]) {
            Some((kernels, products)) => {
                let inputs = [float(x), float(weight), float(bias)];
                wrap(tracked::linear_activation::<B, C>(kernels, inputs, kind, products))
            }
            None => <Self as Ops>::activation(<Self as Ops>::linear(x, weight, bias), kind),
        }
    }

    fn activation(x: Tensor<Self, 2>, kind: Activation) -> Tensor<Self, 2> {
        match kernels_for::<B>(&[x.dtype()]) {
            Some(kernels) => wrap(tracked::activation::<B, C>(kernels, float(x), kind)),
            None => plain::activation(x, kind),
        }
    }

    fn layer_norm(x: Tensor<Self, 2>, gain: Tensor<Self, 1>, bias: Tensor<Self, 1>, epsilon: f64) -> Tensor<Self, 2> {
        match kernels_for::<B>(&[x.dtype(), gain.dtype(), bias.dtype()]) {
            Some(kernels) => wrap(tracked::layer_norm::<B, C>(kernels, float(x), float(gain), float(bias), epsilon)),
            None => plain::layer_norm(x, gain, bias, epsilon),
        }
    }

    fn causal_attention(
        qkv: Tensor<Self, 2>,
        batch: usize,
        heads: usize,
        mask: &Tensor<Self, 2>,
        dropout: f64,
    ) -> Tensor<Self, 2> {
        match kernels_for::<B>(&[qkv.dtype()]) {
            Some(kernels) if dropout == 0.0 => {
                wrap(tracked::causal_attention::<B, C>(kernels, float(qkv), batch, heads))
            }
            _ => plain::causal_attention(&qkv, batch, heads, mask, dropout),
        }
    }

    fn embedding(table: Tensor<Self, 2>, ids: Tensor<Self, 2, Int>) -> Tensor<Self, 3> {
        match kernels_for::<B>(&[table.dtype()]) {
            Some(kernels) => wrap(tracked::embedding::<B, C>(kernels, float(table), ids.into_primitive())),
            None => plain::embedding(table, ids),
        }
    }

    fn tied_cross_entropy(
        hidden: Tensor<Self, 2>,
        table: Tensor<Self, 2>,
        targets: Tensor<Self, 2, Int>,
    ) -> Tensor<Self, 1> {
        match products_for::<B>(&[hidden.dtype(), table.dtype()]) {
            Some((kernels, products)) => {
                let targets = targets.into_primitive();
                wrap(tracked::tied_cross_entropy::<B, C>(kernels, float(hidden), float(table), &targets, products))
            }
            None => plain::tied_cross_entropy(hidden, table, targets),
        }
    }

    fn softmax_rows(logits: Tensor<Self, 2>, mask: Option<&Tensor<Self, 2>>, columns: usize) -> Tensor<Self, 2> {
        match kernels_for::<B>(&[logits.dtype()]) {
            Some(kernels) => {
                let mask = mask.map(|mask| float(mask.clone().inner()));
                wrap(tracked::softmax_rows::<B, C>(kernels, float(logits), mask.as_ref(), columns))
            }
            None => plain::softmax_rows(logits, mask, columns),
        }
    }

    fn largest(x: Tensor<Self, 2>, k: usize) -> Tensor<Self, 2> {
        Tensor::from_inner(B::largest(x.inner(), k))
    }

    fn scale_rows(x: Tensor<Self, 2>, factors: Tensor<Self, 2>) -> Tensor<Self, 2> {
        match kernels_for::<B>(&[x.dtype(), factors.dtype()]) {
            Some(kernels) => wrap(tracked::scale_rows::<B, C>(kernels, float(x), float(factors))),
            None => x * factors,
        }
    }

    fn add(left: Tensor<Self, 2>, right: Tensor<Self, 2>) -> Tensor<Self, 2> {
        match kernels_for::<B>(&[left.dtype(), right.dtype()]) {
            Some(kernels) => wrap(tracked::add::<B, C>(kernels, float(left), float(right))),
            None => left + right,
        }
    }
}

/// The kernels of `B`, if all numbers are in single precision.
fn kernels_for<B: Ops>(dtypes: &[DType]) -> Option<&'static dyn Kernels<B>> {
    B::kernels().filter(|_| dtypes.iter().all(|dtype| *dtype == DType::F32))
}

/// Returns the kernels of `B` with the format of their products, if they support this thread's format.
fn products_for<B: Ops>(dtypes: &[DType]) -> Option<(&'static dyn Kernels<B>, Products)> {
    let products = match autocast::format() {
        None => Products::Single,
        Some(format) if B::rounds_products(format) => Products::Short,
        Some(_) => return None,
    };
    Some((kernels_for::<B>(dtypes)?, products))
}

/// Primitive of a tensor.
fn float<B: BurnBackend, const D: usize>(tensor: Tensor<B, D>) -> FloatTensor<B> {
    tensor.into_primitive().tensor()
}

/// Wraps a primitive in a tensor.
fn wrap<B: BurnBackend, const D: usize>(primitive: FloatTensor<B>) -> Tensor<B, D> {
    Tensor::from_primitive(TensorPrimitive::Float(primitive))
}
