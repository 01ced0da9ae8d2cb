//! The operations compared with loops in double precision, their gradients with differences of those loops, and the
//! kernels with Burn's operations where loops would take too long.

mod adamw;
mod cases;
mod rounded;
mod weights;

use crate::common::relative_error;
use burn::{
    backend::{
        Autodiff, Flex,
        autodiff::checkpoint::strategy::{BalancedCheckpointing, CheckpointStrategy, NoCheckpointing},
        flex::FlexDevice,
    },
    tensor::{Int, Tensor, TensorData},
};
use cases::{Activated, Add, Attention, CrossEntropy, Embedding, LayerNorm, Linear, RmsNorm};
use proptest::prelude::*;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::StandardNormal;
use sweep_job::tasks::Activation;
use sweep_lab::ops::{Ops, plain};

/// An operation with its shapes; inputs and output are flat.
trait Case {
    /// Numbers of every input.
    fn inputs(&self) -> Vec<usize>;
    /// The operation under test.
    fn kernels<B: Ops<Device = FlexDevice>>(&self, inputs: &[Tensor<B, 1>]) -> Tensor<B, 1>;
    /// The same in Burn's operations.
    fn plain<B: Ops<Device = FlexDevice>>(&self, inputs: &[Tensor<B, 1>]) -> Tensor<B, 1>;
    /// The same in loops.
    fn reference(&self, inputs: &[Vec<f64>]) -> Vec<f64>;

    /// Scale for values and gradients that are small sums of larger numbers: those numbers.
    fn least(&self) -> f32 {
        0.1
    }
}

fn normal(length: usize, seed: u64) -> Vec<f32> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    (0..length).map(|_| rng.sample(StandardNormal)).collect()
}

fn flat<B: Ops<Device = FlexDevice>, const D: usize>(tensor: Tensor<B, D>) -> Tensor<B, 1> {
    let length = tensor.shape().num_elements();
    tensor.reshape([length])
}

fn host<B: Ops<Device = FlexDevice>>(tensor: Tensor<B, 1>) -> Vec<f32> {
    tensor.into_data().into_vec().unwrap()
}

fn ids<B: Ops<Device = FlexDevice>>(ids: &[i32], rows: usize) -> Tensor<B, 2, Int> {
    Tensor::from_data(TensorData::new(ids.to_vec(), [rows, ids.len() / rows]), &FlexDevice)
}

/// Output, and the gradients of its product with `weights`, with respect to every input.
fn differentiated<C: CheckpointStrategy, K: Case>(
    case: &K,
    inputs: &[Vec<f32>],
    weights: &[f32],
    kernels: bool,
) -> (Vec<f32>, Vec<Vec<f32>>) {
    let leaf =
        |values: &Vec<f32>| Tensor::<Autodiff<Flex, C>, 1>::from_floats(values.as_slice(), &FlexDevice).require_grad();
    let leaves: Vec<_> = inputs.iter().map(leaf).collect();
    let out = if kernels { case.kernels(&leaves) } else { case.plain(&leaves) };
    let weights = Tensor::from_floats(weights, &FlexDevice);
    let gradients = (out.clone() * weights).sum().backward();
    let gradients = leaves.iter().map(|leaf| host(leaf.grad(&gradients).unwrap())).collect();
    (host(out.inner()), gradients)
}

/// Central differences of the loops.
fn differences<K: Case>(case: &K, inputs: &[Vec<f64>], weights: &[f64]) -> Vec<Vec<f32>> {
    let value = |inputs: &[Vec<f64>]| -> f64 {
        case.reference(inputs).iter().zip(weights).map(|(out, weight)| out * weight).sum()
    };
    let mut moved = inputs.to_vec();
    let mut gradients = Vec::new();
    for (index, input) in inputs.iter().enumerate() {
        let mut gradient = Vec::new();
        for (place, number) in input.iter().enumerate() {
            moved[index][place] = number + 1e-5;
            let above = value(&moved);
            moved[index][place] = number - 1e-5;
            let below = value(&moved);
            moved[index][place] = *number;
            gradient.push(narrow((above - below) / 2e-5));
        }
        gradients.push(gradient);
    }
    gradients
}

#[expect(clippy::cast_possible_truncation, reason = "compared in single precision")]
fn narrow(number: f64) -> f32 {
    number as f32
}

fn wide(numbers: &[f32]) -> Vec<f64> {
    numbers.iter().map(|number| f64::from(*number)).collect()
}

/// Compares everything with the loops: the value on the bare backend, and value and gradients when tracked.
fn check<K: Case>(case: &K, seed: u64) {
    let inputs: Vec<Vec<f32>> = (seed..).zip(case.inputs()).map(|(seed, length)| normal(length, seed)).collect();
    let exact: Vec<Vec<f64>> = inputs.iter().map(|input| wide(input)).collect();
    let expected = case.reference(&exact);
    let weights = normal(expected.len(), seed + 100);
    let expected: Vec<f32> = expected.into_iter().map(narrow).collect();
    let slopes = differences(case, &exact, &wide(&weights));

    let bare: Vec<_> =
        inputs.iter().map(|input| Tensor::<Flex, 1>::from_floats(input.as_slice(), &FlexDevice)).collect();
    let bare = host(case.kernels(&bare));
    let scale = expected.iter().fold(case.least(), |scale, value| scale.max(value.abs()));
    let error = |found: &[f32]| {
        let pairs = found.iter().zip(&expected);
        pairs.map(|(found, expected)| (found - expected).abs() / scale).fold(0.0, f32::max)
    };
    assert!(error(&bare) < 1e-5, "value: {:.2e}", error(&bare));
    let runs = [
        ("kept", differentiated::<NoCheckpointing, K>(case, &inputs, &weights, true)),
        ("balanced", differentiated::<BalancedCheckpointing, K>(case, &inputs, &weights, true)),
        ("plain", differentiated::<NoCheckpointing, K>(case, &inputs, &weights, false)),
    ];
    for (name, (value, gradients)) in &runs {
        assert!(error(value) < 1e-5, "{name}: {:.2e}", error(value));
        for (index, (gradient, slope)) in gradients.iter().zip(&slopes).enumerate() {
            let scale = slope.iter().fold(case.least(), |scale, slope| scale.max(slope.abs()));
            let pairs = gradient.iter().zip(slope);
            let error = pairs.map(|(found, slope)| (found - slope).abs() / scale).fold(0.0, f32::max);
            assert!(error < 2e-5, "{name}: gradient {index} differs by {error:.2e}");
        }
    }
    assert_eq!(bare, runs[0].1.0, "tracked or not, the value has the same bits");
    assert_eq!(runs[0].1, runs[1].1, "checkpointing does not change a bit");
}

/// Compares kernels with plain bodies.
fn check_against_plain<K: Case>(case: &K, seed: u64) {
    let inputs: Vec<Vec<f32>> = (seed..).zip(case.inputs()).map(|(seed, length)| normal(length, seed)).collect();
    let outputs = case.plain::<Flex>(
        &inputs.iter().map(|input| Tensor::from_floats(input.as_slice(), &FlexDevice)).collect::<Vec<_>>(),
    );
    let weights = normal(outputs.dims()[0], seed + 100);
    let kernels = differentiated::<NoCheckpointing, K>(case, &inputs, &weights, true);
    let again = differentiated::<BalancedCheckpointing, K>(case, &inputs, &weights, true);
    let plain = differentiated::<NoCheckpointing, K>(case, &inputs, &weights, false);
    assert!(relative_error(&kernels.0, &plain.0) < 1e-5, "value: {:.2e}", relative_error(&kernels.0, &plain.0));
    for (index, (kernels, plain)) in kernels.1.iter().zip(&plain.1).enumerate() {
        let error = relative_error(kernels, plain);
        assert!(error < 2e-5, "gradient {index} differs by {error:.2e}");
    }
    assert_eq!(kernels, again, "the same bits again");
}

fn kind() -> impl Strategy<Value = Option<Activation>> {
    prop_oneof![Just(None), prop::sample::select(Activation::ALL).prop_map(Some)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn linear(rows in 1..9_usize, inner in 1..9_usize, columns in 1..20_usize, turned: bool, kind in kind(), seed: u16) {
        check(&Linear { rows, inner, columns, turned, kind }, u64::from(seed));
    }

    #[test]
    fn layer_norm(rows in 1..9_usize, d in 3..40_usize, seed: u16) {
        check(&LayerNorm { rows, d }, u64::from(seed));
    }

    #[test]
    fn rms_norm(rows in 1..9_usize, d in 3..40_usize, seed: u16) {
        check(&RmsNorm(LayerNorm { rows, d }), u64::from(seed));
    }

    #[test]
    fn attention(
        batch in 1..3_usize, length in 1..6_usize, heads in 1..4_usize, width in 1..5_usize, apart: bool, seed: u16,
    ) {
        check(&Attention { batch, length, heads, width, apart }, u64::from(seed));
    }

    #[test]
    fn cross_entropy(rows in 1..9_usize, vocab in 2..20_usize, d in 1..6_usize, seed: u16) {
        check(&CrossEntropy { rows, vocab, d }, u64::from(seed));
    }
}

#[test]
fn activations_embedding_and_sums() {
    for kind in Activation::ALL {
        check(&Activated(*kind), 1);
    }
    check(&Embedding, 3);
    check(&Add, 4);
}

#[test]
fn sizes_that_take_several_tasks() {
    for kind in [None].into_iter().chain(Activation::ALL.iter().copied().map(Some)) {
        check_against_plain(&Linear { rows: 257, inner: 67, columns: 129, turned: false, kind }, 1);
        check_against_plain(&Linear { rows: 257, inner: 67, columns: 129, turned: true, kind }, 2);
    }
    check_against_plain(&LayerNorm { rows: 301, d: 193 }, 3);
    for (batch, length, heads, width, apart) in
        [(1, 64, 1, 16, false), (2, 65, 3, 20, true), (3, 200, 2, 33, false), (1, 1, 2, 8, false)]
    {
        check_against_plain(&Attention { batch, length, heads, width, apart }, 4);
    }
    // 140 rows of 40,000 logits are more than one chunk.
    check_against_plain(&CrossEntropy { rows: 140, vocab: 40_000, d: 5 }, 5);
}

#[test]
fn norms_and_factors() {
    let x = normal(40_000, 9);
    let tensor = Tensor::<Flex, 1>::from_floats(x.as_slice(), &FlexDevice);
    let expected: f64 = wide(&x).iter().map(|x| x * x).sum();
    let found = f64::from(host(Flex::sum_of_squares(tensor.clone()))[0]);
    assert!((found - expected).abs() < 1e-6 * expected, "{found} instead of {expected}");
    let factor = |factor: f32| Tensor::from_floats([factor], &FlexDevice);
    assert_eq!(host(Flex::scale(tensor.clone(), factor(1.0))), x);
    let halves: Vec<f32> = x.iter().map(|x| x * 0.5).collect();
    assert_eq!(host(Flex::scale(tensor.clone(), factor(0.5))), halves);
    assert_eq!(host(tensor), x, "numbers that something else uses are not written to");
}

#[test]
fn what_needs_no_gradient_gets_none() {
    type Tape = Autodiff<Flex>;
    let tensor = |length, seed| Tensor::<Tape, 1>::from_floats(normal(length, seed).as_slice(), &FlexDevice);
    let x = tensor(6, 1).reshape([2, 3]);
    let weight = tensor(12, 2).reshape([3, 4]).require_grad();
    let bias = tensor(4, 3);
    let gradients = Ops::linear(x.clone(), weight.clone(), bias.clone()).sum().backward();
    assert!(x.grad(&gradients).is_none() && bias.grad(&gradients).is_none());
    assert_eq!(weight.grad(&gradients).unwrap().dims(), [3, 4]);
    let untracked = Ops::linear(x, weight.detach(), bias);
    assert!(!untracked.is_require_grad());
}

#[test]
fn a_number_that_is_none_stays_none() {
    let tensor =
        |values: Vec<f32>, shape: [usize; 2]| Tensor::<Flex, 2>::from_data(TensorData::new(values, shape), &FlexDevice);
    let mut values = normal(5 * 12, 1);
    values[3] = f32::NAN;
    let mask = tensor(vec![0.0; 25], [1, 25]);
    let found = host(flat(Flex::causal_attention(tensor(values.clone(), [5, 12]), 1, 1, &mask, 0.0)));
    assert!(found[..4].iter().all(|number| number.is_nan()), "the query that had it");
    assert!(found[4..].iter().all(|number| number.is_finite()), "the others");
    let loss = Flex::tied_cross_entropy(tensor(values, [5, 12]), tensor(normal(36, 2), [3, 12]), ids(&[0; 5], 1));
    assert!(host(loss)[0].is_nan());
}
