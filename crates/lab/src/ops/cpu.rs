//! The CPU's kernels, which are [`sweep_cpu_kernels::training`], over Flex's tensors.

use burn::{
    backend::{Flex, flex::FlexTensor},
    tensor::{DType, Tensor},
};
use sweep_job::tasks::Activation;

use sweep_cpu_kernels::training::{
    adamw,
    attention::{self, Shape},
    elementwise, embedding, loss,
    matrix::{Into, Matrix, MatrixMut, Products},
    memory::Buffer,
    norm, softmax,
};

pub(super) use sweep_cpu_kernels::training::memory::release_idle;

use super::{AdamWState, AdamWStep, Gradients3, Kernels, Parameter, float, wrap};

/// The kernels for `Flex`.
#[derive(Debug)]
pub(super) struct Cpu;

impl Kernels<Flex> for Cpu {
    fn linear(&self, x: &FlexTensor, weight: &FlexTensor, bias: &FlexTensor, products: Products) -> FlexTensor {
        let [rows, columns] = [size(x, 0), size(weight, 1)];
        let mut out = product(x, weight, products);
        elementwise::add_bias(&mut out, numbers(&dense(bias)));
        out.into_tensor([rows, columns])
    }

    fn linear_backward(
        &self,
        x: &FlexTensor,
        weight: &FlexTensor,
        gradient: &FlexTensor,
        needs_gradient: [bool; 3],
        products: Products,
    ) -> Gradients3<Flex> {
        let (x, weight, gradient) = (dense(x), dense(weight), dense(gradient));
        let [rows, inputs, outputs] = [size(&x, 0), size(&x, 1), size(&weight, 1)];
        let upstream = Matrix::new(numbers(&gradient), rows, outputs);
        let d_x = || {
            let mut d_x = Buffer::new(rows * inputs);
            let weight = Matrix::new(numbers(&weight), inputs, outputs);
            let mut out = MatrixMut::new(&mut d_x, rows, inputs);
            products.multiply(upstream, weight.transposed(), &mut out, Into::Overwrite);
            d_x.into_tensor([rows, inputs])
        };
        let d_weight = || {
            let mut d_weight = Buffer::new(inputs * outputs);
            let x = Matrix::new(numbers(&x), rows, inputs);
            let mut out = MatrixMut::new(&mut d_weight, inputs, outputs);
            products.multiply(x.transposed(), upstream, &mut out, Into::Memory);
            d_weight.into_tensor([inputs, outputs])
        };
        let d_bias = || elementwise::column_sums(numbers(&gradient), outputs).into_tensor([outputs]);
        [needs_gradient[0].then(d_x), needs_gradient[1].then(d_weight), needs_gradient[2].then(d_bias)]
    }

    fn linear_activation(
        &self,
        x: &FlexTensor,
        weight: &FlexTensor,
        bias: &FlexTensor,
        kind: Activation,
        products: Products,
    ) -> (FlexTensor, FlexTensor) {
        let shape = [size(x, 0), size(weight, 1)];
        let mut pre_activation = product(x, weight, products);
        let out = elementwise::bias_activation(&mut pre_activation, numbers(&dense(bias)), kind);
        (pre_activation.into_tensor(shape), out.into_tensor(shape))
    }

    fn activation(&self, x: &FlexTensor, kind: Activation) -> FlexTensor {
        let x = dense(x);
        elementwise::activation(numbers(&x), kind).into_tensor([size(&x, 0), size(&x, 1)])
    }

    fn activation_backward(&self, x: &FlexTensor, gradient: FlexTensor, kind: Activation) -> FlexTensor {
        let mut gradient = writable(gradient);
        elementwise::activation_backward(numbers(&dense(x)), numbers_mut(&mut gradient), kind);
        gradient
    }

    fn layer_norm(
        &self,
        x: &FlexTensor,
        gain: &FlexTensor,
        bias: &FlexTensor,
        epsilon: f64,
    ) -> (FlexTensor, FlexTensor) {
        let (x, gain, bias) = (dense(x), dense(gain), dense(bias));
        #[expect(clippy::cast_possible_truncation, reason = "it is added to numbers in single precision")]
        let epsilon = epsilon as f32;
        let (out, statistics) = norm::forward(numbers(&x), numbers(&gain), numbers(&bias), epsilon);
        let rows = size(&x, 0);
        (out.into_tensor([rows, size(&x, 1)]), statistics.into_tensor([rows, 2]))
    }

    fn layer_norm_backward(
        &self,
        x: &FlexTensor,
        gain: &FlexTensor,
        statistics: &FlexTensor,
        gradient: FlexTensor,
    ) -> [FlexTensor; 3] {
        let (x, gain, mut gradient) = (dense(x), dense(gain), writable(gradient));
        let (d_gain, d_bias) =
            norm::backward(numbers(&x), numbers(&gain), numbers(&dense(statistics)), numbers_mut(&mut gradient));
        let d = size(&x, 1);
        [gradient, d_gain.into_tensor([d]), d_bias.into_tensor([d])]
    }

    fn causal_attention(&self, qkv: &FlexTensor, batch: usize, heads: usize) -> (FlexTensor, FlexTensor) {
        let qkv = dense(qkv);
        let rows = size(&qkv, 0);
        let shape = Shape { batch, length: rows / batch, heads, width: size(&qkv, 1) / 3 / heads };
        let (out, normalizers) = attention::forward(numbers(&qkv), shape);
        (out.into_tensor([rows, heads * shape.width]), normalizers.into_tensor([batch * heads, shape.length]))
    }

    fn causal_attention_backward(
        &self,
        qkv: &FlexTensor,
        out: &FlexTensor,
        normalizers: &FlexTensor,
        gradient: &FlexTensor,
    ) -> FlexTensor {
        let (qkv, out, normalizers, gradient) = (dense(qkv), dense(out), dense(normalizers), dense(gradient));
        let [rows, d_model] = [size(&out, 0), size(&out, 1)];
        let length = size(&normalizers, 1);
        let batch = rows / length;
        let heads = size(&normalizers, 0) / batch;
        let shape = Shape { batch, length, heads, width: d_model / heads };
        let d_qkv = attention::backward(numbers(&qkv), numbers(&out), numbers(&normalizers), numbers(&gradient), shape);
        d_qkv.into_tensor([rows, 3 * d_model])
    }

    fn embedding(&self, table: &FlexTensor, ids: &FlexTensor) -> FlexTensor {
        let [rows, d] = [size(table, 0), size(table, 1)];
        let out = embedding::forward(numbers(&dense(table)), &indices(ids, rows), d);
        out.into_tensor([size(ids, 0), size(ids, 1), d])
    }

    fn embedding_backward(
        &self,
        rows: usize,
        ids: &FlexTensor,
        gradient: &FlexTensor,
        other_gradients: Option<FlexTensor>,
    ) -> FlexTensor {
        let d = size(gradient, 2);
        let mut d_table = other_gradients.map_or_else(|| Buffer::zeros(rows * d).into_tensor([rows, d]), writable);
        embedding::backward(numbers_mut(&mut d_table), &indices(ids, rows), numbers(&dense(gradient)), d);
        d_table
    }

    fn tied_cross_entropy(
        &self,
        hidden: &FlexTensor,
        table: &FlexTensor,
        targets: &FlexTensor,
        products: Products,
    ) -> FlexTensor {
        let [vocab, d] = [size(table, 0), size(table, 1)];
        let targets = indices(targets, vocab);
        number(loss::cross_entropy(numbers(&dense(hidden)), numbers(&dense(table)), &targets, d, products))
    }

    fn tied_cross_entropy_with_gradients(
        &self,
        hidden: &FlexTensor,
        table: &FlexTensor,
        targets: &FlexTensor,
        products: Products,
    ) -> [FlexTensor; 3] {
        let [vocab, d] = [size(table, 0), size(table, 1)];
        let targets = indices(targets, vocab);
        let (hidden, table) = (dense(hidden), dense(table));
        let (mean, d_hidden, d_table) =
            loss::cross_entropy_with_gradients(numbers(&hidden), numbers(&table), &targets, d, products);
        [number(mean), d_hidden.into_tensor([targets.len(), d]), d_table.into_tensor([vocab, d])]
    }

    fn add(&self, left: FlexTensor, right: FlexTensor) -> FlexTensor {
        // The memory of an operand that nothing else uses takes the sum.
        let (left, right) = if reusable(&left) { (left, right) } else { (right, left) };
        if reusable(&left) {
            let mut sum = left;
            elementwise::add_to(numbers_mut(&mut sum), numbers(&dense(&right)));
            return sum;
        }
        let (left, right) = (dense(&left), dense(&right));
        elementwise::add(numbers(&left), numbers(&right)).into_tensor([size(&left, 0), size(&left, 1)])
    }

    fn softmax_rows(&self, logits: FlexTensor, mask: Option<&FlexTensor>, columns: usize) -> FlexTensor {
        let mut weights = writable(logits);
        let mask = mask.map(dense);
        softmax::forward(numbers_mut(&mut weights), mask.as_ref().map(numbers), columns);
        let rows = numbers(&weights).len() / columns;
        weights.reshape([rows, columns].into())
    }

    fn softmax_rows_backward(&self, weights: &FlexTensor, gradient: FlexTensor) -> FlexTensor {
        let mut gradient = writable(gradient);
        softmax::backward(numbers(&dense(weights)), numbers_mut(&mut gradient), size(weights, 1));
        gradient
    }

    fn largest(&self, x: &FlexTensor, k: usize) -> FlexTensor {
        let [rows, columns] = [size(x, 0), size(x, 1)];
        softmax::largest(numbers(&dense(x)), columns, k).into_tensor([rows, columns])
    }

    fn scale_rows(&self, x: FlexTensor, factors: &FlexTensor) -> FlexTensor {
        let columns = size(&x, 1);
        let mut x = writable(x);
        elementwise::scale_rows(numbers_mut(&mut x), numbers(&dense(factors)), columns);
        x
    }

    fn scale_rows_backward(&self, x: &FlexTensor, factors: &FlexTensor, gradient: FlexTensor) -> [FlexTensor; 2] {
        let (x, factors, mut gradient) = (dense(x), dense(factors), writable(gradient));
        let (rows, columns) = (size(&x, 0), size(&x, 1));
        let d_factors =
            elementwise::scale_rows_backward(numbers(&x), numbers(&factors), numbers_mut(&mut gradient), columns);
        [gradient, d_factors.into_tensor([rows, 1])]
    }

    fn sum_of_squares(&self, x: &FlexTensor) -> FlexTensor {
        #[expect(clippy::cast_possible_truncation, reason = "tensors are in single precision")]
        let sum = elementwise::sum_of_squares(numbers(&dense(x))) as f32;
        number(sum)
    }

    fn scale(&self, x: FlexTensor, factor: &FlexTensor) -> FlexTensor {
        let factor = numbers(&dense(factor))[0];
        if factor == 1.0 {
            return x;
        }
        let mut x = writable(x);
        elementwise::scale(numbers_mut(&mut x), factor);
        x
    }

    fn masked(&self, x: FlexTensor, mask: &FlexTensor) -> FlexTensor {
        let mut x = writable(x);
        elementwise::mask(numbers_mut(&mut x), numbers(&dense(mask)));
        x
    }

    fn adamw_step(
        &self,
        step: &AdamWStep<Flex>,
        parameter: Parameter<'_, Flex>,
    ) -> (Tensor<Flex, 1>, AdamWState<Flex>) {
        let Parameter { weights, gradient, state, decay, mask } = parameter;
        let gradient = dense(&float(gradient));
        let length = numbers(&gradient).len();
        let zeros = || Buffer::zeros(length).into_tensor([length]);
        let take = |tensor: Tensor<Flex, 1>| writable(float(tensor));
        // The first step moves the weights to memory with large pages.
        let mut weights = if state.is_some() { take(weights) } else { copied(&float(weights)) };
        let (mut moment_1, mut moment_2, max) = match state {
            None => (zeros(), zeros(), None),
            Some(state) => (take(state.moment_1), take(state.moment_2), state.max_moment_2.map(take)),
        };
        let mut max = step.amsgrad.then(|| max.unwrap_or_else(zeros));
        let keep = mask.map(|mask| dense(&float(mask.keep.clone())));
        adamw::step(
            factors(step, decay),
            adamw::Slices {
                weights: numbers_mut(&mut weights),
                gradient: numbers(&gradient),
                moment_1: numbers_mut(&mut moment_1),
                moment_2: numbers_mut(&mut moment_2),
                max_moment_2: max.as_mut().map(numbers_mut),
                keep: keep.as_ref().map(numbers),
            },
            mask.is_some_and(|mask| mask.moments),
        );
        let [moment_1, moment_2] = [moment_1, moment_2].map(wrap);
        (wrap(weights), AdamWState { moment_1, moment_2, max_moment_2: max.map(wrap) })
    }
}

/// The factors of a step.
fn factors(step: &AdamWStep<Flex>, decay: f64) -> adamw::Factors {
    let first_number = |tensor: &Tensor<_, 1>| numbers(&float(tensor.clone()))[0];
    let mut factors = step.factors(decay);
    if let Some([moment_1, moment_2]) = &step.keeps {
        factors.keep = [first_number(moment_1), first_number(moment_2)];
    }
    adamw::Factors { gradient: step.gradient_factor.as_ref().map_or(1.0, first_number), step: factors }
}

/// `left * right`.
fn product(left: &FlexTensor, right: &FlexTensor, products: Products) -> Buffer {
    let (left, right) = (dense(left), dense(right));
    let [rows, inner, columns] = [size(&left, 0), size(&left, 1), size(&right, 1)];
    let mut out = Buffer::new(rows * columns);
    let (left, right) = (Matrix::new(numbers(&left), rows, inner), Matrix::new(numbers(&right), inner, columns));
    products.multiply(left, right, &mut MatrixMut::new(&mut out, rows, columns), Into::Overwrite);
    out
}

/// The length of a dimension.
fn size(tensor: &FlexTensor, dimension: usize) -> usize {
    tensor.layout().shape()[dimension]
}

/// The tensor with its numbers one after the other: itself, or a copy.
fn dense(tensor: &FlexTensor) -> FlexTensor {
    if tensor.is_contiguous() { tensor.clone() } else { tensor.to_contiguous() }
}

/// The numbers of a dense tensor.
fn numbers(tensor: &FlexTensor) -> &[f32] {
    tensor.as_slice().expect("single precision is checked for all kernels, and the tensor was made dense")
}

/// True if a tensor's memory is dense and used by nothing else.
fn reusable(tensor: &FlexTensor) -> bool {
    tensor.is_unique() && tensor.is_contiguous()
}

/// Returns the tensor with unshared memory: itself, or a copy.
fn writable(tensor: FlexTensor) -> FlexTensor {
    if reusable(&tensor) { tensor } else { copied(&tensor) }
}

/// A copy of the tensor in memory of the pool.
fn copied(tensor: &FlexTensor) -> FlexTensor {
    let tensor = dense(tensor);
    let mut copy = Buffer::new(numbers(&tensor).len());
    copy.copy_from_slice(numbers(&tensor));
    let layout = burn::backend::flex::Layout::contiguous(tensor.layout().shape().clone());
    let length = copy.len();
    copy.into_tensor([length]).with_layout(layout)
}

/// The numbers of a writable tensor.
fn numbers_mut(tensor: &mut FlexTensor) -> &mut [f32] {
    let offsets = tensor.layout().contiguous_offsets();
    let (start, end) = offsets.expect("made dense by `writable`");
    &mut tensor.storage_mut()[start..end]
}

/// `cache` `[batch, heads, tokens, width]` with `new` `[batch, heads, 1, width]` as the token `place`.
pub(super) fn put_token(cache: FlexTensor, place: usize, new: &FlexTensor) -> FlexTensor {
    let [tokens, width] = [size(&cache, 2), size(&cache, 3)];
    let new = dense(new);
    let mut cache = writable(cache);
    let rows = numbers_mut(&mut cache).chunks_exact_mut(tokens * width).zip(numbers(&new).chunks_exact(width));
    for (row, new) in rows {
        row[place * width..(place + 1) * width].copy_from_slice(new);
    }
    cache
}

/// A tensor of one number.
fn number(value: f32) -> FlexTensor {
    let mut buffer = Buffer::new(1);
    buffer[0] = value;
    buffer.into_tensor([1])
}

/// The ids in a tensor of whole numbers, each of which must be below `limit`, as an index must.
fn indices(ids: &FlexTensor, limit: usize) -> Vec<usize> {
    let ids = dense(ids);
    let index = |id: i64| match usize::try_from(id) {
        Ok(index) if index < limit => index,
        _ => panic!("id {id} is not below {limit}"),
    };
    match ids.dtype() {
        DType::I64 => ids.as_slice::<i64>().into_iter().flatten().map(|id| index(*id)).collect(),
        DType::I32 => ids.as_slice::<i32>().into_iter().flatten().map(|id| index(i64::from(*id))).collect(),
        other => panic!("ids are 32-bit or 64-bit numbers, not {other:?}"),
    }
}
