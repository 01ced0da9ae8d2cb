//! Pruning while training, compared with explicit loops.

use crate::common::{Inner, Small, Train, host};
use burn::tensor::Tensor;
use sweep_job::tasks::{BlockSpec, Optimizer, OptimizerKind, Prune, PruneMethod, PruneUpdate, ThresholdMethod};
use sweep_lab::{
    model::{self, GptDims, ParamInfo, VOCAB_BYTES},
    optim::AdamW,
    prune::{Choice, Goal, Layers, Pruner, Select, by_layer},
    rng,
};

/// A training of [`Small`], pruned.
struct Pruned {
    network: Small<Train>,
    optimizer: AdamW<Inner>,
    pruner: Pruner<Inner>,
    iter: u64,
}

impl Pruned {
    fn new(prune: &Prune, optimizer: &Optimizer) -> Self {
        let network = Small::random("weights");
        let infos = model::infos(&network);
        let pruner = Pruner::new(prune, &infos).starting_from::<Train, _>(&network);
        Self { optimizer: AdamW::new(optimizer, &infos), pruner, network, iter: 0 }
    }

    fn method(prune: PruneMethod) -> Self {
        Self::new(&Prune { prune, ..Prune::default() }, &Optimizer::default())
    }

    fn step(mut self) -> Self {
        let gradients = self.pruner.mask_gradients(self.network.gradients(self.iter, 1.0));
        let (gradients, _) = self.optimizer.guard(gradients);
        self.network = self.optimizer.step::<Train, _>(self.network, gradients, 0.05).unwrap();
        self.network = self.pruner.apply::<Train, _>(self.network, &mut self.optimizer);
        self.iter += 1;
        self
    }

    /// Chooses masks, and returns the part that is pruned.
    fn choose(mut self, sparsity: f64) -> (Self, f64) {
        let part = self.pruner.choose::<Train, _>(&self.network, &self.optimizer, sparsity).unwrap();
        self.network = self.pruner.apply::<Train, _>(self.network, &mut self.optimizer);
        (self, part)
    }

    /// The weights of both matrices, one after the other.
    fn matrices(&self) -> Vec<f32> {
        self.network.weights()[..2].concat()
    }
}

/// The places of the `floor(sparsity * total)` smallest `scores`, which must differ.
fn smallest(scores: &[f32], sparsity: f64) -> Vec<usize> {
    let mut places: Vec<usize> = (0..scores.len()).collect();
    places.sort_by(|left, right| scores[*left].total_cmp(&scores[*right]));
    let count = (0..scores.len()).take_while(|count| (*count + 1) as f64 <= sparsity * scores.len() as f64).count();
    let mut places = places[..count].to_vec();
    places.sort_unstable();
    places
}

fn zeros(weights: &[f32]) -> Vec<usize> {
    (0..weights.len()).filter(|at| weights[*at] == 0.0).collect()
}

#[test]
fn magnitude_prunes_what_a_hand_loop_prunes() {
    let mut run = Pruned::method(PruneMethod::Magnitude);
    for sparsity in [0.0, 0.2, 0.5, 0.9] {
        run = run.step().step();
        let sizes: Vec<f32> = run.matrices().iter().map(|w| w.abs()).collect();
        let (chosen, part) = run.choose(sparsity);
        run = chosen;
        let expected = smallest(&sizes, sparsity);
        assert_eq!(zeros(&run.matrices()), expected, "at {sparsity}");
        assert_eq!(part, expected.len() as f64 / 88.0);
    }
    assert!(run.network.weights()[2].iter().all(|w| *w != 0.0), "vectors are not pruned");
    // Masks hold, but the moments continue to change.
    let before = zeros(&run.matrices());
    let run = run.step().step();
    assert_eq!(zeros(&run.matrices()), before);
    let moments = host(run.optimizer.state(0).unwrap().moment_1.clone());
    assert!(moments.iter().all(|m| *m != 0.0));
}

#[test]
fn movement_prunes_what_a_hand_loop_prunes_and_nothing_comes_back() {
    let mut run = Pruned::method(PruneMethod::Movement);
    let start = run.matrices();
    let mut gone: Vec<usize> = Vec::new();
    for sparsity in [0.1, 0.3, 0.3, 0.6, 0.8] {
        run = run.step().step().step();
        let weights = run.matrices();
        let score = |at: usize| weights[at] * (weights[at] - start[at]);
        let mut living: Vec<usize> = (0..88).filter(|at| !gone.contains(at)).collect();
        living.sort_by(|left, right| score(*left).total_cmp(&score(*right)));
        while ((gone.len() + 1) as f64) <= sparsity * 88.0 {
            gone.push(living.remove(0));
        }
        gone.sort_unstable();
        let negative = living.iter().filter(|at| score(**at) < 0.0).count();
        run = run.choose(sparsity).0;
        assert_eq!(zeros(&run.matrices()), gone, "at {sparsity}, where {negative} living scores are below 0");
    }
}

#[test]
fn pruned_weights_and_their_states_are_zero() {
    let bitter = PruneMethod::ALL.iter().copied().filter(|method| method.masks_state() && !method.needs_network());
    for method in bitter {
        let prune = Prune { prune: method, ..Prune::default() };
        let optimizer = Optimizer { optimizer: OptimizerKind::AdamWSpam, spam_interval: 7, ..Optimizer::default() };
        let mut run = Pruned::new(&prune, &optimizer);
        let mut gone = Vec::new();
        for sparsity in [0.1, 0.3, 0.5, 0.5] {
            run = run.step().step().choose(sparsity).0.step();
            let now = zeros(&run.matrices());
            assert!(gone.iter().all(|place| now.contains(place)), "{method}: a weight has come back");
            gone = now;
        }
        if method != PruneMethod::Bitter4 {
            assert_eq!(gone.len(), 44, "{method}");
        }
        for (index, weights) in run.network.weights()[..2].iter().enumerate() {
            let state = run.optimizer.state(index).unwrap().clone();
            for moment in [state.moment_1, state.moment_2, state.max_moment_2.unwrap()] {
                assert_eq!(zeros(&host(moment)), zeros(weights), "{method}");
            }
        }
    }
}

#[test]
fn masks_on_gradients_and_moments_change_nothing_but_what_is_pruned() {
    let weights = |method| {
        let mut run = Pruned::method(method);
        for sparsity in [0.1, 0.3, 0.5, 0.5] {
            run = run.step().step().choose(sparsity).0.step();
        }
        run.network.weights()
    };
    // Both score by size, and nothing is clipped by the global norm, so every weight has its own gradients alone.
    assert_eq!(weights(PruneMethod::Bitter1), weights(PruneMethod::Magnitude));
}

#[test]
fn a_weight_that_adam_drives_to_zero_goes_first() {
    // Gradients with the sign of the weights shrink the first matrix and grow the second. They are small, so that in
    // `bitter9` the direction outweighs the size.
    for method in [PruneMethod::Bitter5, PruneMethod::Bitter9] {
        let Pruned { network, mut optimizer, mut pruner, .. } = Pruned::method(method);
        let weights = model::values(&network);
        let sign = |index: usize| weights[index].clone().sign() * 1e-6;
        let gradients = vec![Some(sign(0)), Some(sign(1).neg()), None];
        let network = optimizer.step::<Train, _>(network, gradients, 1e-4).unwrap();
        pruner.choose::<Train, _>(&network, &optimizer, 48.0 / 88.0).unwrap();
        let weights = pruner.apply::<Train, _>(network, &mut optimizer).weights();
        assert_eq!((zeros(&weights[0]).len(), zeros(&weights[1]).len()), (48, 0), "{method}");
    }
}

#[test]
fn later_layers_lose_more_with_bitter4() {
    let dims = GptDims {
        n_layer: 2,
        n_head: 2,
        d_model: 16,
        block_size: 8,
        vocab_size: VOCAB_BYTES,
        activation: sweep_job::tasks::Activation::Gelu,
        block: sweep_job::tasks::BlockSpec::GPT2,
    };
    let network = model::Gpt::<Train>::random(dims, 0, &burn::backend::flex::FlexDevice).unwrap();
    let infos = model::infos(&network);
    for (sparsity, prune_tied_head) in [(0.5, true), (0.8, true), (0.5, false)] {
        let prune = Prune { prune: PruneMethod::Bitter4, prune_tied_head, ..Prune::default() };
        let mut optimizer = AdamW::<Inner>::new(&Optimizer::default(), &infos);
        let mut pruner = Pruner::new(&prune, &infos);
        pruner.choose::<Train, _>(&network, &optimizer, sparsity).unwrap();
        let pruned = pruner.apply::<Train, _>(network.clone(), &mut optimizer);
        let values = model::values(&pruned);
        // The token table comes first in the network, and last as the output layer.
        let mut layers: Vec<usize> = (0..infos.len()).filter(|at| infos[*at].prunable(false)).collect();
        if prune_tied_head {
            layers.push(0);
        }
        let expected: Vec<usize> = layers
            .iter()
            .enumerate()
            .map(|(layer, index)| {
                let part = (sparsity * (0.7 + 0.6 * layer as f64 / (layers.len() - 1) as f64)).min(0.95);
                assert_eq!(by_layer(sparsity, layer, layers.len()), part);
                (0..infos[*index].len())
                    .take_while(|count| (count + 1) as f64 <= part * infos[*index].len() as f64)
                    .count()
            })
            .collect();
        let found: Vec<usize> = layers.iter().map(|index| zeros(&host(values[*index].clone())).len()).collect();
        assert_eq!(found, expected, "at {sparsity}");
    }
}

/// Numbers of weights that `bitter4` prunes of each layer, as Python 3 computes them: `floor(s * (0.7 + 0.6 * j / (n -
/// 1)) * size)` for layers `j` of `n = 8`, whose sizes are `[4800, 1600, 6400, 6400] * 2`.
#[test]
fn bitter4_prunes_of_each_layer_what_its_formula_says() {
    let dims = GptDims {
        n_layer: 2,
        n_head: 2,
        d_model: 40,
        block_size: 8,
        vocab_size: VOCAB_BYTES,
        activation: sweep_job::tasks::Activation::Gelu,
        block: BlockSpec::GPT2,
    };
    let network = model::Gpt::<Train>::random(dims, 0, &burn::backend::flex::FlexDevice).unwrap();
    let infos = model::infos(&network);
    let layers: Vec<usize> = (0..infos.len()).filter(|at| infos[*at].prunable(false)).collect();
    for (sparsity, wanted) in
        [(0.35, [1175, 439, 1952, 2144, 1751, 631, 2719, 2911]), (0.7, [2351, 879, 3904, 4288, 3503, 1263, 5439, 5823])]
    {
        for prune_update in PruneUpdate::ALL.iter().copied() {
            let prune = Prune { prune: PruneMethod::Bitter4, prune_update, ..Prune::default() };
            let mut optimizer = AdamW::<Inner>::new(&Optimizer::default(), &infos);
            let mut pruner = Pruner::new(&prune, &infos);
            pruner.choose::<Train, _>(&network, &optimizer, sparsity).unwrap();
            let values = model::values(&pruner.apply::<Train, _>(network.clone(), &mut optimizer));
            let found: Vec<usize> = layers.iter().map(|index| zeros(&host(values[*index].clone())).len()).collect();
            assert_eq!(found, wanted, "at {sparsity}, {prune_update}");
        }
    }
}

/// 400 choices at the same target, between which the weights change: weights that were pruned in excess stay pruned.
#[test]
fn a_corrected_sample_stays_at_its_target_and_a_plain_one_ratchets_up() {
    let reached = |method, threshold| {
        let prune = Prune { prune: method, threshold, sample_fraction: 0.25, ..Prune::default() };
        let mut run = Pruned::new(&prune, &Optimizer::default());
        let mut parts = Vec::new();
        for _ in 0..400 {
            let (chosen, part) = run.step().choose(0.5);
            run = chosen;
            parts.push(part);
        }
        parts
    };
    for method in [PruneMethod::Magnitude, PruneMethod::Bitter3, PruneMethod::Movement] {
        let corrected = reached(method, ThresholdMethod::SampleCorrected);
        assert!(corrected.is_sorted(), "{method}: {corrected:?}");
        assert_eq!(corrected[399], 0.5, "{method}: all 44 of 88, and no more");
        let plain = reached(method, ThresholdMethod::Sample);
        assert!(plain.is_sorted() && plain[399] > 0.52, "{method}: {plain:?}");
    }
}

#[test]
fn all_ways_to_a_threshold_prune_about_as_much() {
    for (threshold, tolerance) in [
        (ThresholdMethod::Exact, 0.0),
        (ThresholdMethod::Histogram, 0.0),
        (ThresholdMethod::Sample, 0.2),
        (ThresholdMethod::SampleCorrected, 0.05),
    ] {
        for prune_update in PruneUpdate::ALL.iter().copied() {
            let prune = Prune {
                prune: PruneMethod::Bitter7,
                threshold,
                prune_update,
                sample_fraction: 1.0,
                ..Prune::default()
            };
            let (run, part) = Pruned::new(&prune, &Optimizer::default()).step().choose(0.5);
            let found = zeros(&run.matrices()).len() as f64 / 88.0;
            assert_eq!(found, part);
            assert!((part - 0.5).abs() <= tolerance, "{threshold}, {prune_update}: {part}");
        }
    }
}

/// Prunes every other weight, whatever the scores.
#[derive(Debug)]
struct EveryOther;

impl Select<Inner> for EveryOther {
    fn select(
        &self,
        layers: &mut Layers<'_, Inner>,
        _: &Goal<'_>,
    ) -> Result<Vec<Option<Choice<Inner>>>, sweep_lab::LabError> {
        let sizes = layers.sizes();
        let choice = |(layer, size)| {
            let scores = layers.scores(layer);
            let mask: Vec<f32> = (0..size).map(|at| (at % 2) as f32).collect();
            Some(Choice { threshold: 0.0, mask: Tensor::from_floats(&mask[..], &scores.device()), pruned: None })
        };
        Ok(sizes.into_iter().enumerate().map(choice).collect())
    }
}

#[test]
fn the_way_from_scores_to_masks_can_be_replaced() {
    let mut run = Pruned::method(PruneMethod::Bitter0);
    run.pruner = run.pruner.with_selector(Box::new(EveryOther));
    let (run, part) = run.step().choose(0.1);
    assert_eq!(part, 0.5);
    assert_eq!(zeros(&run.matrices()), (0..88).step_by(2).collect::<Vec<_>>());
}

#[test]
fn draws_depend_on_the_seed_and_on_how_many_there_were() {
    let sampled = Prune { threshold: ThresholdMethod::Sample, sample_fraction: 0.1, ..Prune::default() };
    let prune = Prune { prune: PruneMethod::Magnitude, ..sampled };
    let choices = |seed| {
        let mut run = Pruned::new(&prune, &Optimizer::default());
        run.pruner = run.pruner.with_seed(seed);
        let parts = (0..6).map(|_| run.pruner.choose::<Train, _>(&run.network, &run.optimizer, 0.5).unwrap());
        parts.collect::<Vec<f64>>()
    };
    let first = choices(1);
    assert!(first.windows(2).any(|pair| pair[0] != pair[1]), "{first:?}");
    assert_eq!(first, choices(1));
    assert_ne!(first, choices(2));
    assert_ne!(rng::derived_seed(1, "threshold choice", &[0]), rng::derived_seed(1, "threshold choice", &[1]));
}

#[test]
fn without_moments_the_size_counts() {
    let infos: Vec<ParamInfo> = model::infos(&Small::random("weights"));
    let network = Small::random("weights");
    let optimizer = AdamW::<Inner>::new(&Optimizer::default(), &infos);
    let mut pruner = Pruner::new(&Prune { prune: PruneMethod::Bitter6, ..Prune::default() }, &infos);
    pruner.choose::<Train, _>(&network, &optimizer, 0.5).unwrap();
    let sizes: Vec<f32> = network.weights()[..2].concat().iter().map(|w| w.abs()).collect();
    let mut optimizer = optimizer;
    let pruned = pruner.apply::<Train, _>(network, &mut optimizer).weights()[..2].concat();
    assert_eq!(zeros(&pruned), smallest(&sizes, 0.5));
}

#[test]
fn fused_masks_are_those_of_stored_scores() {
    let methods = PruneMethod::ALL.iter().copied();
    for method in methods.filter(|method| *method != PruneMethod::None && !method.needs_network()) {
        let weights = |prune_update| {
            let mut run =
                Pruned::new(&Prune { prune: method, prune_update, ..Prune::default() }, &Optimizer::default());
            let mut parts = Vec::new();
            for sparsity in [0.1, 0.3, 0.5, 0.5] {
                let (chosen, part) = run.step().step().choose(sparsity);
                run = chosen.step();
                parts.push(part);
            }
            (run.network.weights(), parts)
        };
        let one_pass = weights(PruneUpdate::OnePass);
        assert_eq!(one_pass, weights(PruneUpdate::SinglePass), "{method}");
        assert_eq!(one_pass, weights(PruneUpdate::DoublePass), "{method}");
    }
}

#[test]
fn a_weight_that_is_no_number_is_an_error_that_names_its_parameter() {
    for (threshold, prune_update) in [
        (ThresholdMethod::Exact, PruneUpdate::OnePass),
        (ThresholdMethod::Exact, PruneUpdate::SinglePass),
        (ThresholdMethod::Exact, PruneUpdate::DoublePass),
        (ThresholdMethod::Histogram, PruneUpdate::SinglePass),
    ] {
        let settings = Prune { prune: PruneMethod::Magnitude, threshold, prune_update, ..Prune::default() };
        let mut run = Pruned::new(&settings, &Optimizer::default());
        run.network.second = run.network.second.map(|weights| weights * f32::NAN);
        let error = run.pruner.choose::<Train, _>(&run.network, &run.optimizer, 0.5).unwrap_err();
        let wanted = "a score of `second` is NaN, because the training has diverged; no mask can be computed";
        assert_eq!(error.to_string(), wanted);
    }
}
