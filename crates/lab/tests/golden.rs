//! Against PyTorch and the Hub's transformers: forward, backward, AdamW, and the pruning masks.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod common;

use burn::{backend::flex::FlexDevice, tensor::Tensor};
use common::{Inner, Tensors, Train, golden, host, ids, relative_error};
use sweep_job::tasks::{DecayOn, Optimizer, PruneMethod};
use sweep_lab::{
    hub,
    model::{self, Gpt, Network, cross_entropy},
    optim::AdamW,
    prune,
};

/// Loss on the reference batch, which predicts every token from those before it.
fn loss(network: &Gpt<Train>, tokens: &[i32], shape: [usize; 2]) -> Tensor<Train, 1> {
    let [batch, length] = shape;
    let logits = network.logits(ids(tokens, shape), 0.0);
    let vocab = logits.dims()[2];
    let targets = ids(tokens, shape).slice([0..batch, 1..length]);
    cross_entropy(logits.slice([0..batch, 0..length - 1, 0..vocab]), targets)
}

struct Reference {
    expected: Tensors,
    network: Gpt<Train>,
    tokens: Vec<i32>,
    shape: [usize; 2],
}

fn reference() -> Reference {
    let expected = Tensors::read(&golden("gpt2/expected.safetensors"));
    let network = hub::load(&golden("gpt2"), &FlexDevice).unwrap();
    let (tokens, shape) = (expected.ints("input_ids"), expected.shape("input_ids"));
    Reference { network, tokens, shape: [shape[0], shape[1]], expected }
}

#[test]
fn forward_and_loss() {
    let Reference { expected, network, tokens, shape } = reference();
    let logits = network.logits(ids(&tokens, shape), 0.0).inner();
    let numbers = logits.shape().num_elements();
    let error = relative_error(&host(logits.reshape([numbers])), &expected.floats("logits"));
    assert!(error < 1e-4, "logits differ by {error:.2e}");
    let loss = host(loss(&network, &tokens, shape).inner());
    let error = relative_error(&loss, &expected.floats("loss"));
    assert!(error < 1e-5, "loss differs by {error:.2e}");
}

#[test]
fn gradients() {
    let Reference { expected, network, tokens, shape } = reference();
    let mut gradients = loss(&network, &tokens, shape).backward();
    let gradients = model::gradients(&network, &mut gradients);
    for (info, gradient) in model::infos(&network).into_iter().zip(gradients) {
        let wanted = expected.floats(&format!("grad.transformer.{}", info.name));
        let error = relative_error(&host(gradient.unwrap()), &wanted);
        assert!(error < 1e-4, "gradient of {} differs by {error:.2e}", info.name);
    }
}

#[test]
fn three_steps_of_adamw() {
    let Reference { expected, mut network, tokens, shape } = reference();
    let settings = Optimizer {
        beta_1: 0.9,
        beta_2: 0.95,
        epsilon: 1e-8,
        weight_decay: 0.1,
        decay_on: DecayOn::All,
        ..Optimizer::default()
    };
    let infos = model::infos(&network);
    let before: Vec<Vec<f32>> = model::values(&network).into_iter().map(host).collect();
    let mut optimizer = AdamW::<Inner>::new(&settings, &infos);
    let mut losses = Vec::new();
    for _ in 0..3 {
        let loss = loss(&network, &tokens, shape);
        losses.extend(host(loss.clone().inner()));
        let mut gradients = loss.backward();
        let gradients = model::gradients(&network, &mut gradients);
        network = optimizer.step::<Train, _>(network, gradients, 1e-3);
    }
    let error = relative_error(&losses, &expected.floats("losses"));
    assert!(error < 1e-5, "losses {losses:?} differ by {error:.2e}");
    for ((info, values), before) in infos.iter().zip(model::values(&network)).zip(before) {
        let (mut found, mut wanted) = (host(values), expected.floats(&format!("after3.transformer.{}", info.name)));
        if info.name.ends_with("c_attn.bias") {
            // A bias of the keys adds the same number to all scores of a query, so its gradient is 0 but for rounding,
            // and Adam makes steps of full size from it: only their size can be compared.
            let keys = found.len() / 3..2 * found.len() / 3;
            for ((found, wanted), before) in
                found[keys.clone()].iter().zip(&wanted[keys.clone()]).zip(&before[keys.clone()])
            {
                assert!((found - before).abs() < 3.1e-3 && (wanted - before).abs() < 3.1e-3, "{}", info.name);
            }
            found.drain(keys.clone());
            wanted.drain(keys);
        }
        let error = relative_error(&found, &wanted);
        assert!(error < 1e-4, "{} differs by {error:.2e} after three steps", info.name);
    }
}

#[test]
fn thresholds_and_masks() {
    let expected = Tensors::read(&golden("bitter.safetensors"));
    let parts = ["a", "b", "c"];
    let cases =
        [(PruneMethod::Magnitude, "bitter1"), (PruneMethod::Magnitude, "bitter2"), (PruneMethod::Bitter7, "bitter7")];
    for (method, variant) in cases {
        let scores: Vec<Vec<f32>> = parts
            .iter()
            .map(|part| {
                let weights = expected.floats(&format!("w.{part}"));
                let moments = expected.floats(&format!("v.{part}"));
                weights.iter().zip(&moments).map(|(w, v)| prune::score(method, *w, *v)).collect()
            })
            .collect();
        for sparsity in [0.1, 0.5, 0.9] {
            let limit = prune::threshold(&mut scores.concat(), sparsity).unwrap();
            let case = format!("{variant}.{sparsity}");
            let error = relative_error(&[limit], &expected.floats(&format!("{case}.threshold")));
            assert!(error < 1e-6, "{case}: threshold differs by {error:.2e}");
            for (part, scores) in parts.iter().zip(&scores) {
                let mask: Vec<u8> = scores.iter().map(|score| u8::from(*score > limit)).collect();
                assert!(mask == expected.bytes(&format!("{case}.mask.{part}")), "{case}: mask of {part}");
            }
        }
    }
}
