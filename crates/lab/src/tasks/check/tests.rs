//! Tests that the check can fail: networks with one defect each, and the assertion that finds it.

use std::sync::{
    Arc,
    atomic::{AtomicU16, Ordering},
};

use burn::{
    backend::{Autodiff, Flex, flex::FlexDevice},
    module::{AutodiffModule, Module, Param},
    tensor::{Distribution, Int, Tensor, backend::Backend as BurnBackend},
};
use sweep_job::{
    Progress, Report,
    tasks::{
        Ablation, AblationNet, Activation, Architecture, AttentionWord, BlockSpec, CrossSelect, GatePool, Mechanism,
        Model, RaCtApply, RaCtStatistic, RecipTying,
    },
};

use super::*;
use crate::{
    backend::Compute,
    model::{Cache, FeedForward, Gpt, GptDims, Mutant, Network, ParamInfo, Role, initial_values, with_fault},
};

type Train = Autodiff<Flex>;

const DIMS: GptDims = GptDims {
    n_layer: 2,
    n_head: 2,
    d_model: 16,
    block_size: 16,
    vocab_size: 32,
    activation: Activation::Gelu,
    block: BlockSpec::GPT2,
};

fn expected() -> Expected {
    Expected { dims: DIMS, trained: false, dropout: 0.1, batch: [2, 12], lr: 1e-3, seed: 7, pruning: None }
}

fn gpt() -> Gpt<Train> {
    Gpt::random(DIMS, 7, &FlexDevice).unwrap()
}

/// Expected properties of a small network with this architecture.
fn expected_of(architecture: &Architecture) -> Expected {
    let model = Model {
        n_layer: Some(3),
        n_head: Some(4),
        d_model: Some(32),
        block_size: Some(32),
        vocab_size: Some(64),
        ..Model::default()
    };
    let dims = GptDims::new(&model, architecture, 64).unwrap();
    Expected { dims, batch: [2, 24], pruning: architecture.ablation.pruning(), ..expected() }
}

fn step(ablation: Ablation) -> Architecture {
    Architecture { ablation, ..Architecture::default() }
}

fn random(dims: &GptDims) -> Gpt<Train> {
    Gpt::random(*dims, 7, &FlexDevice).unwrap()
}

/// Names of the assertions that fail for a network of this architecture that computes wrongly.
fn failures_with(fault: Mutant, architecture: &Architecture) -> (Vec<&'static str>, String) {
    let expected = expected_of(architecture);
    with_fault(fault, || failures(random(&expected.dims), &expected))
}

struct Silent;

impl Report for Silent {
    fn progress(&mut self, _progress: Progress) {}
    fn note(&mut self, _text: &str) {}
}

/// Returns the names of the failing assertions, and the text of the task's error.
fn failures<N>(network: N, expected: &Expected) -> (Vec<&'static str>, String)
where
    N: Network<Train> + AutodiffModule<Train, InnerModule: Network<Flex>>,
{
    let (assertions, _) = assertions::<Flex, _>(network, expected, &FlexDevice, &mut Silent).unwrap();
    let failed: Vec<String> = assertions.iter().filter_map(Assertion::failure).collect();
    let names = assertions.iter().filter(|assertion| !assertion.held).map(|assertion| assertion.name).collect();
    (names, LabError::Check { failed, total: assertions.len() }.to_string())
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
    /// The logits depend on earlier computations.
    State,
    /// The vocabulary is cut.
    Cut,
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
            Alteration::Cut => logits(dropout).slice([0..tokens.dims()[0], 0..tokens.dims()[1], 0..31]),
        }
    }

    fn decode(&self, token: Tensor<B, 2, Int>, cache: &mut Cache<B>) -> Result<Tensor<B, 3>, LabError> {
        self.gpt.decode(token, cache)
    }

    fn coupled(mut self, scale: f64) -> Self {
        self.gpt = self.gpt.coupled(scale);
        self
    }

    fn without(mut self, mechanism: Mechanism) -> Self {
        self.gpt = self.gpt.without(mechanism);
        self
    }
}

fn altered(alteration: Alteration) -> Altered<Train> {
    Altered { gpt: gpt(), alteration, calls: Arc::default() }
}

#[test]
fn a_gpt_passes_and_says_what_it_found() {
    for dropout in [0.0, 0.1] {
        let expected = Expected { dropout, ..expected() };
        let (assertions, loss) = assertions::<Flex, _>(gpt(), &expected, &FlexDevice, &mut Silent).unwrap();
        assert_eq!(assertions.len(), 13);
        assert!(assertions.iter().all(|assertion| assertion.held), "{assertions:#?}");
        assert!((loss - DIMS.initial_loss()).abs() < 1.0);
    }
}

#[test]
fn without_the_causal_mask() {
    let (names, message) = with_fault(Mutant::MaskDropped, || failures(gpt(), &expected()));
    assert_eq!(names, ["causality", "prefix", "cached-decoding"]);
    assert!(
        message.starts_with("3 of 13 assertions do not hold: causality: logits at position 0 changed by "),
        "{message}"
    );
    assert!(message.contains("when token 1 was changed; prefix: the first 1 tokens alone"), "{message}");
}

#[test]
fn with_the_mean_over_the_sequence() {
    assert_eq!(failures(altered(Alteration::SequenceMean), &expected()).0, ["causality", "prefix", "cached-decoding"]);
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

        fn decode(&self, token: Tensor<B, 2, Int>, cache: &mut Cache<B>) -> Result<Tensor<B, 3>, LabError> {
            self.gpt.decode(token, cache)
        }

        fn coupled(self, _scale: f64) -> Self {
            self
        }

        fn without(self, _mechanism: Mechanism) -> Self {
            self
        }
    }

    let gpt = gpt();
    let head = Param::from_tensor(Tensor::from_inner(gpt.wte.weight.val().inner().transpose()));
    let (names, message) = failures(Untied { gpt, head }, &expected());
    // Decoding has the tied layer still, while the check stirs the other away from it.
    assert_eq!(names, ["parameter-count", "cached-decoding"]);
    let count = DIMS.parameter_count();
    assert!(message.contains(&format!("parameter-count: {} instead of {count};", count + 512)), "{message}");
}

#[test]
fn with_a_block_less_than_claimed() {
    let claimed_dims = GptDims { n_layer: 3, ..DIMS };
    let (names, message) = failures(gpt(), &Expected { dims: claimed_dims, ..expected() });
    assert_eq!(names, ["parameter-count", "cached-decoding"]);
    assert!(message.contains("the cache was made for 3 blocks, but the network has 2"), "{message}");
}

#[test]
fn with_a_tensor_that_is_not_trained() {
    let mut network = gpt();
    let FeedForward::Plain(mlp) = &mut network.h[1].mlp else { panic!("a GPT-2") };
    mlp.c_fc.weight = mlp.c_fc.weight.clone().set_require_grad(false);
    let (names, message) = failures(network, &expected());
    assert_eq!(names, ["nonzero-gradients", "optimizer-step"]);
    assert!(
        message.contains("no gradient in h.1.mlp.c_fc.weight; optimizer-step: a step does not change"),
        "{message}"
    );
}

#[test]
fn with_weights_that_are_too_large() {
    let device = FlexDevice;
    let scaled_values = |info: &ParamInfo| {
        let scale = if info.role() == Role::TokenTable { 100.0 } else { 1.0 };
        Ok(initial_values(&DIMS, info, 7).into_iter().map(|value| value * scale).collect())
    };
    assert_eq!(failures(Gpt::with_values(DIMS, &device, scaled_values).unwrap(), &expected()).0, ["initial-loss"]);
}

#[test]
fn with_a_weight_that_is_no_number() {
    let device = FlexDevice;
    let poisoned_values = |info: &ParamInfo| {
        let mut values = initial_values(&DIMS, info, 7);
        if info.name == "h.0.mlp.c_proj.bias" {
            values[3] = f32::NAN;
        }
        Ok(values)
    };
    let (names, _) = failures(Gpt::with_values(DIMS, &device, poisoned_values).unwrap(), &expected());
    assert!(names.starts_with(&["initial-loss", "finite-gradients"]), "{names:?}");
    assert!(names.contains(&"loss-falls"), "{names:?}");
}

#[test]
fn with_logits_that_are_random() {
    let (names, _) = failures(altered(Alteration::Noise), &expected());
    assert!(names.contains(&"determinism"), "{names:?}");
}

#[test]
fn with_logits_that_depend_on_the_length() {
    assert_eq!(failures(altered(Alteration::Length), &expected()).0, ["prefix", "cached-decoding"]);
}

#[test]
fn with_state_between_calls() {
    let (names, _) = failures(altered(Alteration::State), &expected());
    assert!(names.contains(&"second-round") && names.contains(&"determinism"), "{names:?}");
}

#[test]
fn without_dropout_where_there_should_be_some() {
    let (names, message) = failures(altered(Alteration::NoDropout), &expected());
    assert_eq!(names, ["dropout"]);
    assert!(message.contains("with probability 0.1"), "{message}");
}

#[test]
fn with_logits_of_another_shape() {
    let (names, message) = failures(altered(Alteration::Cut), &expected());
    assert_eq!(names, ["logits-shape"]);
    assert!(message.contains("[2, 12, 31] instead of [2, 12, 32]"), "{message}");
}

#[test]
fn with_steps_that_go_nowhere() {
    assert_eq!(failures(gpt(), &Expected { lr: 0.0, ..expected() }).0, ["optimizer-step", "loss-falls"]);
}

#[test]
fn every_step_passes() {
    for ablation in Ablation::ALL {
        let expected = expected_of(&step(*ablation));
        let (assertions, _) =
            assertions::<Flex, _>(random(&expected.dims), &expected, &FlexDevice, &mut Silent).unwrap();
        let failures: Vec<String> = assertions.iter().filter_map(Assertion::failure).collect();
        assert!(failures.is_empty(), "step {ablation}: {failures:#?}");
        let expected_count = 13
            + usize::from(!expected.dims.block.mechanisms().is_empty())
            + 2 * usize::from(expected.pruning.is_some());
        assert_eq!(assertions.len(), expected_count, "step {ablation}");
    }
}

#[test]
fn every_option_passes() {
    let on = |architecture: Architecture| Architecture { ra: Some(true), ..architecture };
    let options = [
        Architecture { ablation_net: AblationNet::Coded, ..step(Ablation::Step16) },
        Architecture { ablation_net: AblationNet::Executed, ..step(Ablation::Step7) },
        Architecture { cross_select: Some(CrossSelect::Rms), ..step(Ablation::Step4) },
        Architecture {
            cross_select: Some(CrossSelect::None),
            gate_pool: Some(GatePool::Token),
            ..step(Ablation::Step7)
        },
        Architecture { cross_normalise: Some(false), ..step(Ablation::Step10) },
        Architecture { latent_recip: Some(true), ..step(Ablation::Step12) },
        Architecture { latent_recip: Some(true), recip_tying: Some(RecipTying::Untied), ..step(Ablation::Step8) },
        on(Architecture { ra_ct: Some(RaCtStatistic::Rms), ..step(Ablation::Step8) }),
        on(Architecture { ra_ct: Some(RaCtStatistic::Max), ra_ct_head_average: Some(true), ..Architecture::default() }),
        Architecture {
            ra_ct: Some(RaCtStatistic::Entropy),
            ra_ct_apply: Some(RaCtApply::Weights),
            ra_ct_detach: Some(true),
            ..step(Ablation::Step7)
        },
        Architecture { ct_output_mix: Some(true), ..step(Ablation::Step14) },
        Architecture { ra_window: Some(1000), ..step(Ablation::Step11) },
        Architecture { ra_window: Some(0), attention: Some(AttentionWord::Standard), ..step(Ablation::Step11) },
    ];
    for architecture in options {
        let expected = expected_of(&architecture);
        let (assertions, _) =
            assertions::<Flex, _>(random(&expected.dims), &expected, &FlexDevice, &mut Silent).unwrap();
        let failures: Vec<String> = assertions.iter().filter_map(Assertion::failure).collect();
        assert!(failures.is_empty(), "{:?}: {failures:#?}", expected.dims.block);
    }
}

#[test]
fn with_a_reverse_score_that_is_not_transposed() {
    assert_eq!(failures_with(Mutant::ReverseNotTransposed, &step(Ablation::Step5)).0, ["cached-decoding"]);
}

#[test]
fn with_a_mechanism_that_is_silently_off() {
    let (names, message) = failures_with(Mutant::ReverseSkipped, &step(Ablation::Step5));
    assert!(names.contains(&"liveness") && names.contains(&"nonzero-gradients"), "{names:?}");
    assert!(message.contains("h.0.ra.alpha") && message.contains("without reciprocal attention"), "{message}");
    let (names, message) = failures_with(Mutant::GateDropped, &step(Ablation::Step3));
    assert!(names.contains(&"liveness") && names.contains(&"nonzero-gradients"), "{names:?}");
    assert!(message.contains("without the head gate the logits change by "), "{message}");
}

#[test]
fn with_a_gate_that_ignores_the_coupling_scale() {
    let (names, message) = failures_with(Mutant::GateUncoupled, &step(Ablation::Step3));
    assert_eq!(names, ["liveness"]);
    assert!(message.contains("at scale 0"), "{message}");
}

#[test]
fn with_the_gate_of_the_same_block_from_the_call_before() {
    let (names, _) = failures_with(Mutant::StaleGate, &step(Ablation::Step3));
    assert!(names.contains(&"determinism") && names.contains(&"nonzero-gradients"), "{names:?}");
}

#[test]
fn with_a_gate_pooled_over_the_sequence() {
    let architecture = Architecture { gate_pool: Some(GatePool::SequenceMean), ..step(Ablation::Step3) };
    let expected = expected_of(&architecture);
    let (names, _) = failures(random(&expected.dims), &expected);
    assert_eq!(names, ["causality", "prefix", "cached-decoding"]);
}

#[test]
fn with_a_mean_square_over_masked_keys() {
    let architecture = Architecture { ra_ct: Some(RaCtStatistic::Rms), ..step(Ablation::Step13) };
    assert_eq!(failures_with(Mutant::RmsOverMasked, &architecture).0, ["prefix", "cached-decoding"]);
    let architecture = Architecture { cross_select: Some(CrossSelect::Rms), ..step(Ablation::Step4) };
    assert_eq!(failures_with(Mutant::RmsOverMasked, &architecture).0, ["prefix", "cached-decoding"]);
}

#[test]
fn with_a_cache_that_is_wrong() {
    let cases = [
        (Mutant::CachedPosition, Ablation::Step0),
        (Mutant::CachedPosition, Ablation::Step8),
        (Mutant::ShortQueryRing, Ablation::Step5),
        (Mutant::ShortQueryRing, Ablation::Step11),
        (Mutant::ForgetfulGate, Ablation::Step3),
        (Mutant::CrossWithoutCache, Ablation::Step4),
    ];
    for (fault, ablation) in cases {
        assert_eq!(failures_with(fault, &step(ablation)).0, ["cached-decoding"], "{fault:?} in step {ablation}");
    }
}

#[test]
fn without_positions() {
    let (names, message) = failures_with(Mutant::NoPositions, &step(Ablation::Step0));
    assert_eq!(names, ["nonzero-gradients", "optimizer-step"]);
    assert!(message.contains("wpe.weight"), "{message}");
}

#[test]
fn with_keys_pruned_by_what_later_queries_look_at() {
    let (names, _) = failures_with(Mutant::PruneSeesFuture, &step(Ablation::V14));
    assert_eq!(names, ["causality", "prefix", "cached-decoding"]);
}

#[test]
fn with_a_width_that_is_ignored() {
    let claimed = expected_of(&step(Ablation::Step2));
    let built = expected_of(&step(Ablation::Step0));
    assert_eq!(failures(random(&built.dims), &claimed).0, ["parameter-count"]);
}

#[test]
fn with_another_number_of_heads() {
    // The same number of weights, in other shapes.
    let claimed = expected_of(&step(Ablation::Step8));
    let built = GptDims { n_head: 2, ..claimed.dims };
    let (names, message) = failures(random(&built), &claimed);
    assert_eq!(names, ["parameter-count"]);
    assert!(message.contains("h.0.attn.q_latent has shape [2, 16, 5] instead of [4, 8, 5]"), "{message}");
}

#[test]
fn with_a_gradient_where_there_can_be_none() {
    // In a network of two blocks the second one's gate would have no receiver.
    let built = expected_of(&step(Ablation::Step3));
    let claimed = GptDims { n_layer: 2, ..built.dims };
    let (names, message) = failures(random(&built.dims), &Expected { dims: claimed, ..built });
    assert_eq!(names[..2], ["parameter-count", "nonzero-gradients"]);
    assert!(message.contains("no gradient in h.2.gate.pool.weight"), "{message}");
}
