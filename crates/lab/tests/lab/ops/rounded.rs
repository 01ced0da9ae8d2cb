//! Layers and the loss with products of rounded numbers, compared with the same products of numbers that were rounded before.

use burn::tensor::DType;
use sweep_lab::ops::autocast;

use super::{Autodiff, Flex, FlexDevice, Ops, Tensor, ids, normal};
use crate::common::relative_error;

type Tracked = Autodiff<Flex>;

/// The nearest numbers in bfloat16, of two as near the even one.
fn rounded(numbers: &[f32]) -> Vec<f32> {
    let round = |number: &f32| {
        let bits = number.to_bits();
        let up = (bits & 0xffff) + ((bits >> 16) & 1) > 0x8000;
        f32::from_bits((bits & 0xffff_0000).wrapping_add(u32::from(up) << 16))
    };
    numbers.iter().map(round).collect()
}

fn leaf<const D: usize>(numbers: &[f32], shape: [usize; D]) -> Tensor<Tracked, D> {
    Tensor::<Tracked, 1>::from_floats(numbers, &FlexDevice).reshape(shape).detach().require_grad()
}

fn host<const D: usize>(tensor: Tensor<Flex, D>) -> Vec<f32> {
    tensor.into_data().into_vec().unwrap()
}

#[test]
fn layers_round_the_factors_of_their_products_only() {
    let (rows, inner, columns) = (37, 70, 45);
    let (x, weight, bias) = (normal(rows * inner, 1), normal(inner * columns, 2), normal(columns, 3));
    let upstream = normal(rows * columns, 4);
    let run = |x: &[f32], weight: &[f32], upstream: &[f32], format| {
        let leaves = (leaf(x, [rows, inner]), leaf(weight, [inner, columns]), leaf(&bias, [columns]));
        let out = autocast::with(format, || Ops::linear(leaves.0.clone(), leaves.1.clone(), leaves.2.clone()));
        // The format of the forward pass counts, wherever the backward pass runs.
        let gradients = (out.clone() * leaf(upstream, [rows, columns])).sum().backward();
        let [d_x, d_weight] = [leaves.0.grad(&gradients), leaves.1.grad(&gradients)].map(|found| host(found.unwrap()));
        [host(out.inner()), d_x, d_weight, host(leaves.2.grad(&gradients).unwrap())]
    };
    let found = run(&x, &weight, &upstream, Some(DType::BF16));
    let expected = run(&rounded(&x), &rounded(&weight), &rounded(&upstream), None);
    let exact = run(&x, &weight, &upstream, None);
    for (name, index) in [("output", 0), ("gradient of x", 1), ("gradient of the weight", 2)] {
        let error = relative_error(&found[index], &expected[index]);
        assert!(error < 1e-5, "{name}: {error:.2e}");
        let loss = relative_error(&found[index], &exact[index]);
        assert!((1e-4..2e-2).contains(&loss), "{name} is rounded: {loss:.2e}");
    }
    assert_eq!(found[3], exact[3], "a sum is no product");
}

#[test]
fn the_output_layer_rounds_the_factors_of_its_products() {
    let (rows, d, vocab) = (12, 40, 90);
    let (hidden, table) = (normal(rows * d, 5), normal(vocab * d, 6));
    let targets: Vec<i32> = (0..12).map(|row| row * 7).collect();
    let run = |hidden: &[f32], table: &[f32], format| {
        let leaves = (leaf(hidden, [rows, d]), leaf(table, [vocab, d]));
        let loss =
            autocast::with(format, || Ops::tied_cross_entropy(leaves.0.clone(), leaves.1.clone(), ids(&targets, 2)));
        let gradients = loss.backward();
        let [d_hidden, d_table] =
            [leaves.0.grad(&gradients), leaves.1.grad(&gradients)].map(|found| host(found.unwrap()));
        [host(loss.inner()), d_hidden, d_table]
    };
    let found = run(&hidden, &table, Some(DType::BF16));
    let expected = run(&rounded(&hidden), &rounded(&table), None);
    assert!(relative_error(&found[0], &expected[0]) < 1e-6, "{found:?}");
    for index in [1, 2] {
        // The gradient of the logits is rounded besides.
        let error = relative_error(&found[index], &expected[index]);
        assert!((1e-6..1e-2).contains(&error), "{error:.2e}");
    }
}
