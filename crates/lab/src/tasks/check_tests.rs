//! The check must be able to fail: networks that are wrong in one way each, and the assertion that says so.

use std::sync::{
    Arc,
    atomic::{AtomicU16, Ordering},
};

use burn::{
    backend::{Flex, flex::FlexDevice},
    module::{Module, Param},
    tensor::Distribution,
};
use sweep_job::tasks::Activation;

use super::*;
use crate::{
    model::{Gpt, initial_values},
    ops::plain,
};

type Train = Autodiff<Flex>;

const DIMS: GptDims =
    GptDims { n_layer: 2, n_head: 2, d_model: 16, block_size: 16, vocab_size: 32, activation: Activation::Gelu };

fn expected() -> Expected {
    Expected { dims: DIMS, trained: false, dropout: 0.1, batch: [2, 12], lr: 1e-3, seed: 7 }
}

fn gpt() -> Gpt<Train> {
    Gpt::random(DIMS, 7, &FlexDevice).unwrap()
}

struct Silent;

impl Report for Silent {
    fn progress(&mut self, _progress: Progress) {}
    fn note(&mut self, _text: &str) {}
}

/// Names of the assertions that fail, and what the task's error would say.
fn failures<N>(network: N, expected: &Expected) -> (Vec<&'static str>, String)
where
    N: Network<Train> + AutodiffModule<Train, InnerModule: Network<Flex>>,
{
    let (made, _) = assertions::<Flex, _>(network, expected, &FlexDevice, &mut Silent).unwrap();
    let failed: Vec<String> = made.iter().filter_map(Assertion::failure).collect();
    let names = made.iter().filter(|assertion| !assertion.held).map(|assertion| assertion.name).collect();
    (names, LabError::Check { failed, total: made.len() }.to_string())
}

/// A GPT with something done to its logits.
#[derive(Module, Debug)]
struct Altered<B: BurnBackend> {
    gpt: Gpt<B>,
    #[module(skip)]
    alteration: Alteration,
    #[module(skip)]
    calls: Arc<AtomicU16>,
}

#[derive(Debug, Clone, Copy)]
enum Alteration {
    /// Every position gets the mean over all positions, as a gate pooled over the sequence would.
    SequenceMean,
    /// A random number is added.
    Noise,
    /// The logits depend on how long the sequence is.
    Length,
    /// Dropout is forgotten.
    NoDropout,
    /// The logits depend on what was computed before.
    State,
    /// The vocabulary is cut.
    Cut,
    /// Every query looks at all keys.
    NoMask,
}

impl<B: Compute> Network<B> for Altered<B> {
    fn logits(&self, tokens: Tensor<B, 2, Int>, dropout: f64) -> Tensor<B, 3> {
        let logits = |dropout| self.gpt.logits(tokens.clone(), dropout);
        match self.alteration {
            Alteration::SequenceMean => logits(dropout) + logits(dropout).mean_dim(1) * 1e-3,
            Alteration::Noise => {
                let noise = Tensor::random([1, 1, 1], Distribution::Default, &tokens.device());
                logits(dropout) + noise
            }
            Alteration::Length => logits(dropout) * (1.0 + 1e-3 * tokens.dims()[1] as f64),
            Alteration::NoDropout => logits(0.0),
            Alteration::State => logits(dropout) * (1.0 + f64::from(self.calls.fetch_add(1, Ordering::Relaxed))),
            Alteration::NoMask => unmasked(&self.gpt, tokens, dropout),
            Alteration::Cut => logits(dropout).slice([0..tokens.dims()[0], 0..tokens.dims()[1], 0..31]),
        }
    }
}

/// The logits of `gpt` without its causal mask.
fn unmasked<B: Compute>(gpt: &Gpt<B>, tokens: Tensor<B, 2, Int>, dropout: f64) -> Tensor<B, 3> {
    let [batch, length] = tokens.dims();
    let row = length * DIMS.d_model;
    let positions = gpt.wpe.weight.val().narrow(0, 0, length).reshape([1, row]);
    let x = gpt.wte.forward(tokens).reshape([batch, row]) + positions;
    let mut x = plain::dropout(x.reshape([batch * length, DIMS.d_model]), dropout);
    let mask = Tensor::zeros([1, length * length], &x.device());
    for block in &gpt.h {
        let qkv = block.attn.c_attn.forward(block.ln_1.forward(x.clone()));
        let mixed = plain::causal_attention(&qkv, batch, DIMS.n_head, &mask, dropout);
        x = x + block.attn.c_proj.forward(mixed);
        x = x.clone() + block.mlp.forward(block.ln_2.forward(x), DIMS.activation, dropout);
    }
    let logits = gpt.ln_f.forward(x).matmul(gpt.wte.weight.val().transpose());
    logits.reshape([batch, length, DIMS.vocab_size])
}

fn altered(alteration: Alteration) -> Altered<Train> {
    Altered { gpt: gpt(), alteration, calls: Arc::default() }
}

#[test]
fn a_gpt_passes_and_says_what_it_found() {
    for dropout in [0.0, 0.1] {
        let expected = Expected { dropout, ..expected() };
        let (made, loss) = assertions::<Flex, _>(gpt(), &expected, &FlexDevice, &mut Silent).unwrap();
        assert_eq!(made.len(), 12);
        assert!(made.iter().all(|assertion| assertion.held), "{made:#?}");
        assert!((loss - DIMS.initial_loss()).abs() < 1.0);
    }
}

#[test]
fn without_the_causal_mask() {
    let (failed, message) = failures(altered(Alteration::NoMask), &expected());
    assert_eq!(failed, ["causality", "prefix"]);
    assert!(
        message.starts_with("2 of 12 assertions do not hold: causality: logits at position 0 changed by "),
        "{message}"
    );
    assert!(message.contains("when token 1 was changed; prefix: the first 1 tokens alone"), "{message}");
}

#[test]
fn with_the_mean_over_the_sequence() {
    assert_eq!(failures(altered(Alteration::SequenceMean), &expected()).0, ["causality", "prefix"]);
}

#[test]
fn with_an_output_layer_of_its_own() {
    #[derive(Module, Debug)]
    struct Untied<B: BurnBackend> {
        gpt: Gpt<B>,
        head: Param<Tensor<B, 2>>,
    }

    impl<B: Compute> Network<B> for Untied<B> {
        fn logits(&self, tokens: Tensor<B, 2, Int>, dropout: f64) -> Tensor<B, 3> {
            let [batch, length] = tokens.dims();
            let logits = self.gpt.hidden(tokens, dropout).matmul(self.head.val());
            logits.reshape([batch, length, DIMS.vocab_size])
        }
    }

    let gpt = gpt();
    let head = Param::from_tensor(Tensor::from_inner(gpt.wte.weight.val().inner().transpose()));
    let (failed, message) = failures(Untied { gpt, head }, &expected());
    assert_eq!(failed, ["parameter-count"]);
    let count = DIMS.parameter_count();
    assert!(message.ends_with(&format!("parameter-count: {} instead of {count}", count + 512)), "{message}");
}

#[test]
fn with_a_block_less_than_claimed() {
    let claimed = GptDims { n_layer: 3, ..DIMS };
    assert_eq!(failures(gpt(), &Expected { dims: claimed, ..expected() }).0, ["parameter-count"]);
}

#[test]
fn with_a_tensor_that_is_not_trained() {
    let mut network = gpt();
    network.h[1].mlp.c_fc.weight = network.h[1].mlp.c_fc.weight.clone().set_require_grad(false);
    let (failed, message) = failures(network, &expected());
    assert_eq!(failed, ["nonzero-gradients", "optimizer-step"]);
    assert!(
        message.contains("no gradient in h.1.mlp.c_fc.weight; optimizer-step: a step does not change"),
        "{message}"
    );
}

#[test]
fn with_weights_that_are_too_large() {
    let device = FlexDevice;
    let scaled = |info: &ParamInfo| {
        let scale = if info.role() == Role::TokenTable { 100.0 } else { 1.0 };
        Ok(initial_values(&DIMS, info, 7).into_iter().map(|value| value * scale).collect())
    };
    assert_eq!(failures(Gpt::with_values(DIMS, &device, scaled).unwrap(), &expected()).0, ["initial-loss"]);
}

#[test]
fn with_a_weight_that_is_no_number() {
    let device = FlexDevice;
    let poisoned = |info: &ParamInfo| {
        let mut values = initial_values(&DIMS, info, 7);
        if info.name == "h.0.mlp.c_proj.bias" {
            values[3] = f32::NAN;
        }
        Ok(values)
    };
    let (failed, _) = failures(Gpt::with_values(DIMS, &device, poisoned).unwrap(), &expected());
    assert!(failed.starts_with(&["initial-loss", "finite-gradients"]), "{failed:?}");
    assert!(failed.contains(&"loss-falls"), "{failed:?}");
}

#[test]
fn with_logits_that_are_random() {
    let (failed, _) = failures(altered(Alteration::Noise), &expected());
    assert!(failed.contains(&"determinism"), "{failed:?}");
}

#[test]
fn with_logits_that_depend_on_the_length() {
    assert_eq!(failures(altered(Alteration::Length), &expected()).0, ["prefix"]);
}

#[test]
fn with_state_between_calls() {
    let (failed, _) = failures(altered(Alteration::State), &expected());
    assert!(failed.contains(&"second-round") && failed.contains(&"determinism"), "{failed:?}");
}

#[test]
fn without_dropout_where_there_should_be_some() {
    let (failed, message) = failures(altered(Alteration::NoDropout), &expected());
    assert_eq!(failed, ["dropout"]);
    assert!(message.contains("with probability 0.1"), "{message}");
}

#[test]
fn with_logits_of_another_shape() {
    let (failed, message) = failures(altered(Alteration::Cut), &expected());
    assert_eq!(failed, ["logits-shape"]);
    assert!(message.contains("[2, 12, 31] instead of [2, 12, 32]"), "{message}");
}

#[test]
fn with_steps_that_go_nowhere() {
    assert_eq!(failures(gpt(), &Expected { lr: 0.0, ..expected() }).0, ["optimizer-step", "loss-falls"]);
}
