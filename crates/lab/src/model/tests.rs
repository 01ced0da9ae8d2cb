//! The networks compared with the formulas of ratio-ablation, section 4, written independently as loops in double
//! precision.

mod loops;

use std::collections::BTreeMap;

use burn::{
    backend::{Flex, flex::FlexDevice},
    tensor::{Int, Tensor, TensorData},
};
use rand::Rng;
use sweep_job::tasks::{
    Ablation, AblationNet, Activation, Architecture, AttentionKind, CrossSelect, CrossSpec, GatePool, Keep,
    KvPruneSpec, Model, RaCtApply, RaCtSpec, RaCtStatistic, RecipTying, Selection,
};

use self::loops::Loops;
use super::{
    attention::{Heads, Scores},
    attention_masks::AttentionMasks,
    inputs::{self, Combining},
    mechanisms::Reciprocal,
    *,
};
use crate::rng;

/// A small network with random numbers everywhere, and the same as loops.
fn network(architecture: &Architecture, coupling: f64) -> (Gpt<Flex>, Loops) {
    let model = Model {
        n_layer: Some(3),
        n_head: Some(2),
        d_model: Some(12),
        block_size: Some(14),
        vocab_size: Some(11),
        ..Model::default()
    };
    let dims = GptDims { activation: Activation::Gelu, ..GptDims::new(&model, architecture, 11).unwrap() };
    let mut numbers = BTreeMap::new();
    let mut network = Gpt::with_values(dims, &FlexDevice, |info| {
        let mut rng = rng::stream(3, "test", &info.name, &[]);
        let values: Vec<f32> = (0..info.len()).map(|_| rng.random_range(-0.6..0.6)).collect();
        numbers.insert(info.name.clone(), values.iter().map(|value| f64::from(*value)).collect());
        Ok(values)
    })
    .unwrap();
    network.set_coupling(coupling);
    (network, Loops { dims, coupling, numbers })
}

fn assert_equal_to_loops(architecture: &Architecture, coupling: f64) {
    let (network, loops) = network(architecture, coupling);
    let sequences = [[1_usize, 7, 3, 3, 9, 0, 2, 10, 4, 4, 6, 8], [5, 5, 1, 0, 8, 9, 2, 6, 3, 7, 10, 1]];
    let tokens: Vec<i32> = sequences.iter().flatten().map(|token| i32::try_from(*token).unwrap()).collect();
    let tokens = Tensor::<Flex, 2, Int>::from_data(TensorData::new(tokens, [2, 12]), &FlexDevice);
    let logits: Vec<f32> = network.logits(tokens, 0.0).into_data().to_vec().unwrap();
    let expected: Vec<f64> = sequences.iter().flat_map(|tokens| loops.logits(tokens)).collect();
    let scale = expected.iter().fold(0.0, |scale: f64, value| scale.max(value.abs()));
    let error = logits.iter().zip(&expected).map(|(logits, expected)| (f64::from(*logits) - expected).abs() / scale);
    let error = error.fold(0.0, f64::max);
    assert!(error < 2e-5, "{architecture:?} at {coupling}: {error:.2e}");
}

#[test]
fn the_steps_are_their_formulas() {
    for ablation in Ablation::ALL {
        for ablation_net in [AblationNet::Budget, AblationNet::Coded] {
            let architecture = Architecture { ablation: *ablation, ablation_net, ..Architecture::default() };
            assert_equal_to_loops(&architecture, 1.0);
            assert_equal_to_loops(&architecture, 0.5);
        }
    }
}

#[test]
fn the_options_are_their_formulas() {
    let step = |ablation| Architecture { ablation, ra_window: None, ..Architecture::default() };
    let all_mechanisms = step(Ablation::Step16);
    for statistic in [RaCtStatistic::Topk, RaCtStatistic::Max, RaCtStatistic::Entropy, RaCtStatistic::Rms] {
        for (apply, head_average, mix) in
            [(RaCtApply::Output, false, false), (RaCtApply::Output, true, true), (RaCtApply::Weights, true, false)]
        {
            let architecture = Architecture {
                ra_ct: Some(statistic),
                ra_ct_apply: Some(apply),
                ra_ct_k: (statistic == RaCtStatistic::Topk).then_some(3),
                ra_ct_head_average: Some(head_average),
                ct_output_mix: Some(mix),
                ..all_mechanisms.clone()
            };
            assert_equal_to_loops(&architecture, 1.0);
        }
    }
    for pool in [GatePool::Token, GatePool::SequenceMean] {
        assert_equal_to_loops(&Architecture { gate_pool: Some(pool), ..all_mechanisms.clone() }, 1.0);
    }
    for select in [CrossSelect::Rms, CrossSelect::None] {
        assert_equal_to_loops(&Architecture { cross_select: Some(select), ..all_mechanisms.clone() }, 1.0);
    }
    for tying in [RecipTying::TiedTranspose, RecipTying::Untied] {
        let architecture = Architecture {
            latent_recip: Some(true),
            recip_tying: Some(tying),
            ra_window: Some(3),
            ..all_mechanisms.clone()
        };
        assert_equal_to_loops(&architecture, 0.7);
    }
}

#[test]
fn counts_and_shapes_are_those_of_the_allocated_network() {
    for ablation in Ablation::ALL {
        for ablation_net in AblationNet::ALL {
            let architecture = Architecture {
                ablation: *ablation,
                ablation_net: *ablation_net,
                latent_recip: (*ablation == Ablation::Step16).then_some(true),
                ..Architecture::default()
            };
            let (network, _) = network(&architecture, 1.0);
            assert_eq!(infos(&network), network.dims().parameters(), "step {ablation} of {ablation_net}");
            assert_eq!(burn::module::Module::num_params(&network), network.dims().parameter_count());
        }
    }
}

#[test]
fn equal_queries_and_keys_double_the_scores() {
    // Ratio-ablation, section 4.3: with a strength of 1 and a band over everything, the lower triangle is twice as large.
    let device = FlexDevice;
    let (length, window) = (6, 100);
    let mut rng = rng::stream(1, "test", "", &[]);
    let numbers: Vec<f32> = (0..2 * 3 * length * 4).map(|_| rng.random_range(-1.0..1.0)).collect();
    let tensor = Tensor::<Flex, 4>::from_data(TensorData::new(numbers, [2, 3, length, 4]), &device);
    let architecture = Architecture { ra: Some(true), ra_window: Some(window), ..Architecture::default() };
    let model = Model { block_size: Some(length), ..Model::default() };
    let dims = GptDims::new(&model, &architecture, 11).unwrap();
    let spec = dims.block;
    let rows = AttentionMasks::<Flex>::new(&dims, &device).rows(length, None);
    let scores = Scores::new(Heads { queries: tensor.clone(), keys: tensor.clone(), values: tensor }, None);
    let alpha = burn::module::Param::from_tensor(Tensor::from_floats([1.0], &device));
    let ra = Reciprocal { alpha, spec: spec.reciprocal.unwrap() };
    let reverse = scores.reverse(window, &rows, None).unwrap();
    let logits: Vec<f32> = ra.add(scores.raw.clone(), reverse, 1.0).into_data().to_vec().unwrap();
    let raw: Vec<f32> = scores.raw.into_data().to_vec().unwrap();
    for (index, (logit, raw)) in logits.iter().zip(&raw).enumerate() {
        let (query, key) = (index / length % length, index % length);
        let expected = if key <= query { 2.0 * raw } else { *raw };
        assert!((logit - expected).abs() < 1e-6, "query {query}, key {key}: {logit} instead of {expected}");
    }
}

#[test]
fn latent_caches_are_smaller() {
    // Ratio-ablation, section 4.2: two latent vectors a token, where standard attention keeps two of the model's width.
    let cache_size = |ablation| {
        let (network, _) = network(&Architecture { ablation, ..Architecture::default() }, 1.0);
        let mut cache = Cache::new(network.dims().n_layer);
        for _ in 0..5 {
            let token = Tensor::<Flex, 2, Int>::zeros([1, 1], &FlexDevice);
            network.decode(token, &mut cache).unwrap();
        }
        assert_eq!(cache.len(), 5);
        cache.numbers()
    };
    let latent = 2; // 128 at 768, at a width of 12.
    assert_eq!(cache_size(Ablation::Step0), 3 * 5 * 2 * 12);
    assert_eq!(cache_size(Ablation::Step8), 3 * 5 * 2 * latent);
    // Two queries for a band of one token back, each of both heads.
    assert_eq!(cache_size(Ablation::Step11), 3 * (5 * 2 * latent + 2 * 2 * latent));
}

#[test]
fn recorded_inputs_of_an_expert_are_those_of_the_tokens_that_choose_it() {
    // Squares of the norms of the inputs of the first block's experts. Each token is an input as many times as it chooses experts.
    let squares = |experts_per_token| {
        let architecture =
            Architecture { experts: Some(4), experts_per_token: Some(experts_per_token), ..Architecture::default() };
        let (network, _) = network(&architecture, 1.0);
        let tokens = Tensor::<Flex, 2, Int>::from_ints([[1, 7, 3, 3, 9, 0, 2], [5, 5, 1, 0, 8, 9, 2]], &FlexDevice);
        let norms = inputs::watch(Combining::All, || {
            drop(network.logits(tokens, 0.0));
            Ok(())
        })
        .unwrap();
        let named = infos(&network).into_iter().zip(ids(&network));
        let square = |(info, id): (ParamInfo, _)| {
            let is_input = info.name.starts_with("h.0.mlp.experts.") && info.name.ends_with(".c_fc.weight");
            is_input.then(|| norms[&id].iter().map(|norm| norm * norm).sum::<f32>())
        };
        named.filter_map(square).collect::<Vec<f32>>()
    };
    let all = squares(4);
    assert!(all.iter().all(|square| (square - all[0]).abs() < 1e-4), "{all:?}");
    for experts_per_token in [1, 2, 3] {
        let chosen = squares(experts_per_token);
        let expected = all[0] * experts_per_token as f32;
        assert!((chosen.iter().sum::<f32>() - expected).abs() < 1e-3 * expected, "{chosen:?}");
        assert!(chosen.iter().any(|square| (square - all[0]).abs() > 0.1), "{chosen:?}");
    }
}

#[test]
fn no_position_is_left() {
    let (network, _) = network(&Architecture::default(), 1.0);
    let mut cache = Cache::new(network.dims().n_layer);
    let mut step = || network.decode(Tensor::<Flex, 2, Int>::zeros([1, 1], &FlexDevice), &mut cache);
    for _ in 0..14 {
        step().unwrap();
    }
    assert_eq!(step().unwrap_err().to_string(), "the context of 14 tokens is full");
}

#[test]
#[ignore = "allocates a network of 124 M parameters"]
fn the_full_network_is_allocated_as_counted() {
    let model = Model { model: sweep_job::tasks::ModelSize::Gpt2, ..Model::default() };
    for ablation in [Ablation::Step0, Ablation::Step16] {
        let architecture = Architecture { ablation, ..Architecture::default() };
        let dims = GptDims::new(&model, &architecture, VOCAB_UINT16).unwrap();
        let network = Gpt::<Flex>::random(dims, 0, &FlexDevice).unwrap();
        assert_eq!(burn::module::Module::num_params(&network), dims.parameter_count());
        assert_eq!(infos(&network), dims.parameters());
    }
}
