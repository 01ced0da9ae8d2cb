//! The operations in Burn's operations: their definition, and the implementation for backends without kernels.

use burn::tensor::{DType, Distribution, Int, Tensor, activation, backend::Backend, module};
use sweep_job::tasks::Activation;

use super::{AdamWState, AdamWStep, Mask, Ops, Parameter, autocast};

/// Does `work` with `x` in single precision; the result has the format of `x`.
///
/// Squares, exponentials and sums of numbers in half precision overflow where their inputs do not: the square of 256 is
/// more than the largest number. PyTorch's kernels for half precision compute in single precision, too.
fn in_single<B: Backend, const D: usize>(
    x: Tensor<B, D>,
    work: impl FnOnce(Tensor<B, D>) -> Tensor<B, D>,
) -> Tensor<B, D> {
    match x.dtype() {
        DType::F32 | DType::F64 => work(x),
        format => work(x.cast(DType::F32)).cast(format),
    }
}

/// See [`Ops::linear`].
pub fn linear<B: Ops>(x: Tensor<B, 2>, weight: Tensor<B, 2>, bias: Tensor<B, 1>) -> Tensor<B, 2> {
    match autocast::format() {
        None => module::linear(x, weight, Some(bias)),
        Some(_) => autocast::product(x, weight) + bias.unsqueeze(),
    }
}

/// See [`Ops::linear_activation`].
pub fn linear_activation<B: Ops>(
    x: Tensor<B, 2>,
    weight: Tensor<B, 2>,
    bias: Tensor<B, 1>,
    kind: Activation,
) -> Tensor<B, 2> {
    activation(linear(x, weight, bias), kind)
}

/// See [`Ops::activation`]. Burn's own GELU is not used: on some backends it differentiates the approximation.
pub fn activation<B: Backend>(x: Tensor<B, 2>, kind: Activation) -> Tensor<B, 2> {
    in_single(x, |x| match kind {
        Activation::Gelu => {
            let doubled_cdf = (x.clone() * std::f64::consts::FRAC_1_SQRT_2).erf() + 1.0;
            x * doubled_cdf * 0.5
        }
        Activation::GeluNew => {
            let scale = std::f64::consts::FRAC_2_SQRT_PI * std::f64::consts::FRAC_1_SQRT_2;
            let inner = x.clone() * ((x.clone() * x.clone()) * (0.044_715 * scale) + scale);
            let doubled_cdf = inner.tanh() + 1.0;
            x * doubled_cdf * 0.5
        }
        Activation::Silu => x.clone() * activation::sigmoid(x),
        Activation::Relu2 => {
            let positive = activation::relu(x);
            positive.clone() * positive
        }
    })
}

/// See [`Ops::layer_norm`].
pub fn layer_norm<B: Backend>(x: Tensor<B, 2>, gain: Tensor<B, 1>, bias: Tensor<B, 1>, epsilon: f64) -> Tensor<B, 2> {
    let [gain, bias] = [gain, bias].map(|parameter| match x.dtype() {
        DType::F32 | DType::F64 => parameter,
        _ => parameter.cast(DType::F32),
    });
    in_single(x, |x| {
        let centered = x.clone() - x.mean_dim(1);
        let variance = (centered.clone() * centered.clone()).mean_dim(1);
        let deviation = (variance + epsilon).sqrt();
        (centered / deviation) * gain.unsqueeze::<2>() + bias.unsqueeze::<2>()
    })
}

/// See [`Ops::rms_norm`].
pub fn rms_norm<B: Backend>(x: Tensor<B, 2>, gain: Tensor<B, 1>, epsilon: f64) -> Tensor<B, 2> {
    let gain = match x.dtype() {
        DType::F32 | DType::F64 => gain,
        _ => gain.cast(DType::F32),
    };
    in_single(x, |x| {
        let root = ((x.clone() * x.clone()).mean_dim(1) + epsilon).sqrt();
        (x / root) * gain.unsqueeze::<2>()
    })
}

/// See [`Ops::causal_attention`].
pub fn causal_attention<B: Backend>(
    qkv: &Tensor<B, 2>,
    batch: usize,
    heads: usize,
    mask: &Tensor<B, 2>,
    dropout_p: f64,
) -> Tensor<B, 2> {
    let [rows, columns] = qkv.dims();
    let (d_model, length) = (columns / 3, rows / batch);
    let width = d_model / heads;
    // Columns of part 0, 1, 2 are queries, keys, values; the result is [batch, heads, length, width].
    let part = |index: usize| qkv.clone().slice([0..rows, index * d_model..(index + 1) * d_model]);
    let split = |part: Tensor<B, 2>| part.reshape([batch, length, heads, width]).swap_dims(1, 2);
    // Scaling the queries touches fewer numbers than scaling the scores.
    let queries = split(part(0) * (width as f64).sqrt().recip());
    let (keys, values) = (split(part(1)), split(part(2)));

    let scores = queries.matmul(keys.swap_dims(2, 3));
    // Reshaped to one row per head, so that adding the mask repeats a row.
    let scores = scores.reshape([batch * heads, length * length]) + mask.clone();
    let probabilities = softmax(scores.reshape([batch * heads * length, length]));
    let probabilities = dropout(probabilities, dropout_p).reshape([batch, heads, length, length]);
    probabilities.matmul(values).swap_dims(1, 2).reshape([rows, d_model])
}

/// The softmax of each row of `logits`. In mixed precision it stays in the format of products: it subtracts the largest logit, so
/// its exponentials are at most 1.
fn softmax<B: Backend>(logits: Tensor<B, 2>) -> Tensor<B, 2> {
    match autocast::format() {
        None => in_single(logits, |logits| activation::softmax(logits, 1)),
        Some(_) => activation::softmax(logits, 1),
    }
}

/// Sets each number to 0 with probability `p` and scales the others, so that the mean stays.
///
/// The draws come from the backend's generator, which the caller seeds.
pub fn dropout<B: Backend>(x: Tensor<B, 2>, p: f64) -> Tensor<B, 2> {
    if p == 0.0 {
        return x;
    }
    let keep_probability = 1.0 - p;
    let mask = Tensor::random(x.dims(), Distribution::Bernoulli(keep_probability), (&x.device(), x.dtype()))
        * keep_probability.recip();
    x * mask
}

/// See [`Ops::embedding`].
pub fn embedding<B: Backend>(table: Tensor<B, 2>, ids: Tensor<B, 2, Int>) -> Tensor<B, 3> {
    module::embedding(table, ids)
}

/// See [`Ops::tied_cross_entropy`].
pub fn tied_cross_entropy<B: Backend>(
    hidden: Tensor<B, 2>,
    table: Tensor<B, 2>,
    targets: Tensor<B, 2, Int>,
) -> Tensor<B, 1> {
    let [rows, _] = hidden.dims();
    let logits = hidden.matmul(table.transpose());
    // ln Σ exp(z) - z_target, both shifted by the row's maximum so that no exponential overflows.
    let shifted = logits.clone() - logits.detach().max_dim(1);
    let target_logits = shifted.clone().gather(1, targets.reshape([rows, 1]));
    let log_normalizer = shifted.exp().sum_dim(1).log();
    (log_normalizer - target_logits).mean()
}

/// See [`Ops::softmax_rows`].
pub fn softmax_rows<B: Backend>(logits: Tensor<B, 2>, mask: Option<&Tensor<B, 2>>, columns: usize) -> Tensor<B, 2> {
    let rows = logits.shape().num_elements() / columns;
    let logits = match mask {
        Some(mask) => logits + mask.clone(),
        None => logits,
    };
    softmax(logits.reshape([rows, columns]))
}

/// See [`Ops::largest`]. The largest is taken `k` times, because sorting leaves the device on some
/// backends.
pub fn largest<B: Backend>(x: &Tensor<B, 2>, k: usize) -> Tensor<B, 2> {
    let [rows, columns] = x.dims();
    let mut candidates = x.clone().detach();
    if k >= columns {
        return candidates.ones_like();
    }
    let end = i64::try_from(columns).unwrap_or(i64::MAX);
    let places = Tensor::<B, 1, Int>::arange(0..end, &candidates.device()).reshape([1, columns]);
    let places = places.expand([rows, columns]);
    let mut mask = candidates.zeros_like();
    for _ in 0..k {
        let choice = candidates.clone().argmax(1).expand([rows, columns]).equal(places.clone());
        mask = mask.mask_fill(choice.clone(), 1.0);
        candidates = candidates.mask_fill(choice, f64::from(f32::MIN));
    }
    mask
}

/// See [`Ops::put_token`].
pub fn put_token<B: Backend>(cache: Tensor<B, 4>, place: usize, new: Tensor<B, 4>) -> Tensor<B, 4> {
    let [batch, heads, _, width] = cache.dims();
    cache.slice_assign([0..batch, 0..heads, place..place + 1, 0..width], new)
}

/// See [`Ops::adamw_step`].
pub fn adamw_step<B: Backend>(step: &AdamWStep<B>, parameter: Parameter<'_, B>) -> (Tensor<B, 1>, AdamWState<B>) {
    let Parameter { weights, gradient, state, decay, mask } = parameter;
    let gradient = match &step.gradient_factor {
        Some(factor) => gradient * factor.clone(),
        None => gradient,
    };
    let new_2 = gradient.clone() * gradient.clone() * (1.0 - step.beta_2);
    let new_1 = gradient * (1.0 - step.beta_1);
    let (moment_1, moment_2, max) = match state {
        None => (new_1, new_2, None),
        Some(AdamWState { moment_1, moment_2, max_moment_2 }) => {
            let (old_1, old_2) = match &step.keeps {
                None => (moment_1 * step.beta_1, moment_2 * step.beta_2),
                Some([first, second]) => (moment_1 * first.clone(), moment_2 * second.clone()),
            };
            (old_1 + new_1, old_2 + new_2, max_moment_2)
        }
    };
    let max_moment_2 = step.amsgrad.then(|| match max {
        Some(max) => max.max_pair(moment_2.clone()),
        None => moment_2.clone(),
    });
    let root = max_moment_2.as_ref().unwrap_or(&moment_2).clone().sqrt();
    let change = moment_1.clone() * step.step_size / (root * step.root_correction + step.epsilon);
    let decayed_weights = if decay == 0.0 { weights } else { weights * (1.0 - decay) };
    let (weights, state) = (decayed_weights - change, AdamWState { moment_1, moment_2, max_moment_2 });
    match mask {
        None => (weights, state),
        Some(Mask { keep, moments: false }) => (weights * keep.clone(), state),
        Some(Mask { keep, moments: true }) => (weights * keep.clone(), state.masked(keep)),
    }
}

impl<B: Backend> AdamWState<B> {
    /// All means times `mask`.
    fn masked(self, mask: &Tensor<B, 1>) -> Self {
        Self {
            moment_1: self.moment_1 * mask.clone(),
            moment_2: self.moment_2 * mask.clone(),
            max_moment_2: self.max_moment_2.map(|max| max * mask.clone()),
        }
    }
}
