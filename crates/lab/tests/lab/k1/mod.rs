//! Paper 002's hierarchy: its network, the selection of nodes, and the changes of a step.

mod scaling;
mod slow;

use std::ops::Range;

use crate::common::{Inner, Kept, Train, folders, host, ids, merged, relative_error, run, task};
use burn::{
    backend::flex::FlexDevice,
    tensor::{Tensor, TensorData},
};
use rand::Rng as _;
use serde_json::{Value, json};
use sweep_job::{
    Backend,
    tasks::{
        AttentionForm, CausalMask, GradientNorm, K1Model, K1Optimizer, K1Update, NetworkShape, NormScope, SelectionWay,
        Shift, Unchosen, UpdateRule,
    },
};
use sweep_lab::{
    device::read::reads,
    model,
    optim::Gradients,
    papers::k1::{
        Attribution, Factors, Optimizers, TreeDims, TreeNetwork, Way,
        network::{NODE_TENSORS, SHARED_TENSORS},
    },
    rng,
};

/// The two networks of the paper, at a small width.
fn small(network: NetworkShape) -> K1Model {
    K1Model { network, d_model: 8, n_head: 2, d_ff: 12, vocab_size: 11, block_size: 5, ..K1Model::default() }
}

fn network(model: &K1Model, causal_mask: CausalMask) -> TreeNetwork<Train> {
    TreeNetwork::random(TreeDims::new(model), causal_mask, 3, &FlexDevice)
}

fn way(attention: AttentionForm) -> Way {
    Way { attention, dropout: 0.0 }
}

fn update(selection: SelectionWay) -> K1Update {
    K1Update { selection, ..K1Update::default() }
}

#[test]
fn parameter_counts_are_the_papers() {
    let [tree, blocks] = [NetworkShape::Tree, NetworkShape::Blocks]
        .map(|network| TreeDims::new(&K1Model { network, ..K1Model::default() }));
    assert_eq!((tree.nodes(), blocks.nodes()), (13, 4));
    assert_eq!(tree.numbers(), [2_578_448, 132_480]);
    assert_eq!((tree.parameters(), blocks.parameters()), (4_300_688, 3_108_368));
    // The counted parameters are those of a constructed network.
    let model = small(NetworkShape::Tree);
    let dims = TreeDims::new(&model);
    let nodes = (0..dims.nodes()).flat_map(|node| dims.node_parameters(node));
    let expected: Vec<_> = dims.shared_parameters().into_iter().chain(nodes).collect();
    let found = model::infos(&network(&model, CausalMask::Cached));
    assert_eq!(found, expected);
    assert_eq!(found.len(), SHARED_TENSORS + 13 * NODE_TENSORS);
}

#[test]
fn children_stand_level_by_level() {
    let dims = TreeDims::new(&K1Model::default());
    assert_eq!(dims.levels(), [0..1, 1..4, 4..13]);
    assert_eq!([0, 1, 3, 4, 12].map(|node| dims.children(node)), [1..4, 4..7, 10..13, 13..13, 13..13]);
    assert_eq!([0, 1, 3, 4, 12].map(|node| dims.parent(node)), [None, Some(0), Some(0), Some(1), Some(3)]);
    assert_eq!(dims.subtree(2), [2, 7, 8, 9]);
    assert_eq!((0..13).map(|node| dims.subtree(node).len()).sum::<usize>(), 34);
}

#[test]
fn the_forward_pass_is_the_slow_ones() {
    let tokens = [[3, 1, 4, 1, 5], [9, 2, 6, 5, 10]];
    for shape in [NetworkShape::Tree, NetworkShape::Blocks] {
        let model = small(shape);
        for (causal_mask, attention) in [
            (CausalMask::Cached, AttentionForm::Explicit),
            (CausalMask::Rebuilt, AttentionForm::Explicit),
            (CausalMask::Cached, AttentionForm::Kernel),
        ] {
            let network = network(&model, causal_mask);
            let values: Vec<Vec<f32>> = model::values(&network).into_iter().map(host).collect();
            let slow = slow::Slow { dims: TreeDims::new(&model), values: &values };
            let expected: Vec<f32> = tokens.iter().flat_map(|tokens| slow.logits(tokens)).collect();
            let logits = network.logits(ids(&tokens.concat(), [2, 5]), way(attention));
            let found = host(logits.inner().reshape([2 * 5 * 11]));
            let error = relative_error(&found, &expected);
            assert!(error < 1e-5, "{shape} {causal_mask} {attention}: {error:.1e}");
        }
    }
}

#[test]
fn no_token_sees_a_later_one() {
    let network = network(&small(NetworkShape::Tree), CausalMask::Rebuilt);
    for attention in [AttentionForm::Explicit, AttentionForm::Kernel] {
        let logits =
            |tokens: [i32; 5]| host(network.logits(ids(&tokens, [1, 5]), way(attention)).inner().reshape([5 * 11]));
        let (left, right) = (logits([3, 1, 4, 1, 5]), logits([3, 1, 4, 7, 8]));
        assert_eq!(left[..3 * 11], right[..3 * 11], "{attention}");
        assert_ne!(left[3 * 11..], right[3 * 11..], "{attention}");
    }
}

#[test]
fn the_second_shift_predicts_the_token_after_the_next() {
    let network = network(&small(NetworkShape::Tree), CausalMask::Cached);
    let (tokens, targets) = ([3, 1, 4, 1, 5], [1, 4, 1, 5, 9]);
    let logits = host(network.logits(ids(&tokens, [1, 5]), way(AttentionForm::Kernel)).inner().reshape([5 * 11]));
    let loss_at = |place: usize, target: i32| {
        let row = &logits[place * 11..(place + 1) * 11];
        row.iter().map(|logit| logit.exp()).sum::<f32>().ln() - row[target.unsigned_abs() as usize]
    };
    let mean = |places: Range<usize>, shift: usize| {
        let count = places.len() as f32;
        places.map(|place| loss_at(place, targets[place + shift])).sum::<f32>() / count
    };
    for (shift, expected) in [(Shift::One, mean(0..5, 0)), (Shift::Two, mean(0..4, 1))] {
        let loss = network.loss(ids(&tokens, [1, 5]), ids(&targets, [1, 5]), shift, way(AttentionForm::Kernel));
        let found = host(loss.inner())[0];
        assert!((found - expected).abs() < 1e-5, "{shift}: {found}, expected {expected}");
    }
}

/// Gradients of the small tree, from numbers whose size differs from tensor to tensor.
fn gradients(stream: u64) -> Gradients<Inner> {
    let mut rng = rng::stream(stream, "test", "gradients", &[]);
    let infos = model::infos(&network(&small(NetworkShape::Tree), CausalMask::Cached));
    let gradient = infos.iter().map(|info| {
        let size: f32 = rng.random_range(0.1..1.0);
        let numbers: Vec<f32> = (0..info.len()).map(|_| rng.random_range(-size..size)).collect();
        Some(Tensor::from_floats(&numbers[..], &FlexDevice))
    });
    gradient.collect()
}

fn factors(update: &K1Update, gradients: &Gradients<Inner>) -> (Vec<f64>, u64) {
    let dims = TreeDims::new(&small(NetworkShape::Tree));
    let mut attribution = Attribution::<Inner>::new(dims, update, &FlexDevice);
    let before = reads();
    let found = attribution.choose(gradients).unwrap();
    let read = reads() - before;
    assert_eq!(read, attribution.reads());
    let factors = match found {
        Factors::Host(factors) => factors,
        Factors::Device(factors) => host(factors).into_iter().map(f64::from).collect(),
    };
    (factors, read)
}

#[test]
fn all_ways_choose_the_same_nodes_and_read_what_they_promise() {
    for stream in 0..4 {
        let gradients = gradients(stream);
        for update in [UpdateRule::TopK, UpdateRule::Path] {
            for norm in [GradientNorm::RootOfSquares, GradientNorm::SumOfNorms] {
                for (scope, by_tensor) in [(NormScope::Own, 156), (NormScope::Subtree, 408)] {
                    let settings = |selection| K1Update { update, norm, scope, selection, ..K1Update::default() };
                    let (expected, read) = factors(&settings(SelectionWay::ReadsSort), &gradients);
                    assert_eq!(read, by_tensor);
                    for (selection, reads) in
                        [(SelectionWay::ReadsHeap, by_tensor), (SelectionWay::OneRead, 1), (SelectionWay::Device, 0)]
                    {
                        let (found, read) = factors(&settings(selection), &gradients);
                        assert_eq!(read, reads, "{selection}");
                        let near = found.iter().zip(&expected).all(|(found, expected)| (found - expected).abs() < 1e-6);
                        assert!(near, "{update} {norm} {scope} {selection}: {found:?}, {expected:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn the_largest_gradients_are_chosen() {
    let gradients = gradients(1);
    let numbers: Vec<Vec<f32>> = gradients.iter().flatten().cloned().map(host).collect();
    let norm = |node: usize| {
        let own = &numbers[SHARED_TENSORS + node * NODE_TENSORS..][..NODE_TENSORS];
        own.iter().flatten().map(|number| f64::from(*number).powi(2)).sum::<f64>()
    };
    let mut ranked: Vec<usize> = (0..13).collect();
    ranked.sort_by(|left, right| norm(*right).total_cmp(&norm(*left)));
    let (found, _) = factors(&update(SelectionWay::Device), &gradients);
    for (place, node) in ranked.into_iter().enumerate() {
        assert_eq!(found[node], if place < 5 { 1.0 } else { 0.0 }, "{node}");
    }
}

#[test]
fn the_path_follows_the_largest_child_and_scales_by_height() {
    let gradients = gradients(2);
    let path = |scope, selection| {
        factors(&K1Update { update: UpdateRule::Path, scope, selection, ..K1Update::default() }, &gradients).0
    };
    let found = path(NormScope::Own, SelectionWay::OneRead);
    let chosen: Vec<usize> = (0..13).filter(|node| found[*node] != 0.0).collect();
    let [root, middle, leaf] = chosen[..] else { panic!("{chosen:?}") };
    let dims = TreeDims::new(&small(NetworkShape::Tree));
    assert_eq!((root, dims.parent(middle), dims.parent(leaf)), (0, Some(0), Some(middle)));
    assert_eq!((found[root], found[middle], found[leaf]), (0.05, 0.15, 1.0));
    // A parent's factor reaches its descendants where they belong to it.
    let found = path(NormScope::Subtree, SelectionWay::OneRead);
    let mut factors: Vec<f64> = found.into_iter().filter(|factor| *factor != 0.0).collect();
    factors.sort_by(f64::total_cmp);
    let expected = [0.05 * 0.15, 0.05 * 0.15, 0.05];
    assert!(factors.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-12), "{factors:?}");
}

/// Gradients that are 1 in one place: `ones` numbers in each of `tensors` tensors of a node.
fn sparse(wanted: &[(usize, usize, f32)]) -> Gradients<Inner> {
    let infos = model::infos(&network(&small(NetworkShape::Tree), CausalMask::Cached));
    let mut numbers: Vec<Vec<f32>> = infos.iter().map(|info| vec![0.0; info.len()]).collect();
    for (node, tensors, value) in wanted {
        for tensor in 0..*tensors {
            numbers[SHARED_TENSORS + node * NODE_TENSORS + tensor][0] = *value;
        }
    }
    numbers.into_iter().map(|numbers| Some(Tensor::from_floats(&numbers[..], &FlexDevice))).collect()
}

#[test]
fn the_two_norms_can_disagree() {
    // Four tensors of norm 1 are 2 together by the root of squares, and 4 by the sum; one of norm 3 is 3 by both.
    let gradients = sparse(&[(1, 4, 1.0), (2, 1, 3.0)]);
    let chosen = |norm, selection| {
        let found = factors(&K1Update { norm, top_k: 1, ..update(selection) }, &gradients).0;
        found.iter().position(|factor| *factor == 1.0).unwrap()
    };
    for selection in SelectionWay::ALL {
        assert_eq!(chosen(GradientNorm::RootOfSquares, *selection), 2, "{selection}");
        assert_eq!(chosen(GradientNorm::SumOfNorms, *selection), 1, "{selection}");
    }
    let agreement = |top_k| {
        let settings = K1Update { top_k, ..K1Update::default() };
        let attribution = Attribution::new(TreeDims::new(&small(NetworkShape::Tree)), &settings, &FlexDevice);
        host(attribution.agreement(&gradients))[0]
    };
    assert_eq!((agreement(1), agreement(2)), (0.0, 1.0));
}

/// By node, the largest change of a weight in a step with the gradients of node 1 alone, after one with all gradients.
fn changes(unchosen: Unchosen) -> Vec<f32> {
    let model = small(NetworkShape::Tree);
    let dims = TreeDims::new(&model);
    let optimizer = K1Optimizer { weight_decay: 0.0, ..K1Optimizer::default() };
    let mut optimizers = Optimizers::<Inner>::new(&optimizer, unchosen, &dims);
    let network = network(&model, CausalMask::Cached);
    let network = optimizers.step(network, gradients(0), &Factors::Host(vec![1.0; 13]), None).unwrap();
    let weights =
        |network: &TreeNetwork<Train>| -> Vec<Vec<f32>> { model::values(network).into_iter().map(host).collect() };
    let before = weights(&network);
    let only: Vec<f64> = (0..13).map(|node| f64::from(u8::from(node == 1))).collect();
    let after = weights(&optimizers.step(network, gradients(1), &Factors::Host(only), None).unwrap());
    let change = |tensors: Range<usize>| {
        let pairs = tensors.flat_map(|tensor| before[tensor].iter().zip(&after[tensor]));
        pairs.map(|(before, after)| (after - before).abs()).fold(0.0, f32::max)
    };
    assert!(change(0..SHARED_TENSORS) > 0.0, "what belongs to no node is always updated");
    (0..13).map(|node| SHARED_TENSORS + node * NODE_TENSORS).map(|first| change(first..first + NODE_TENSORS)).collect()
}

#[test]
fn frozen_nodes_stay_and_zeroed_ones_move_on() {
    let frozen = changes(Unchosen::Frozen);
    assert!(frozen.iter().enumerate().all(|(node, change)| (*change > 0.0) == (node == 1)), "{frozen:?}");
    let zeroed = changes(Unchosen::Zeroed);
    assert!(zeroed.iter().all(|change| *change > 0.0), "AdamW's moments move the others: {zeroed:?}");
}

#[test]
fn a_factor_on_the_device_is_one_on_the_host() {
    let model = small(NetworkShape::Tree);
    let stepped = |factors: Factors<Inner>, clip: Option<f32>| -> Vec<Vec<f32>> {
        let mut optimizers =
            Optimizers::<Inner>::new(&K1Optimizer::default(), Unchosen::Zeroed, &TreeDims::new(&model));
        let clip = clip.map(|clip| Tensor::from_floats([clip], &FlexDevice));
        let network = network(&model, CausalMask::Cached);
        let network = optimizers.step(network, gradients(0), &factors, clip.as_ref()).unwrap();
        model::values(&network).into_iter().map(host).collect()
    };
    let numbers: Vec<f32> = (0..13).map(|node| [0.0, 0.05, 1.0][node % 3]).collect();
    let values: Vec<f64> = numbers.iter().copied().map(f64::from).collect();
    for clip in [None, Some(0.25)] {
        let device = Tensor::from_data(TensorData::new(numbers.clone(), [13]), &FlexDevice);
        let (left, right) = (stepped(Factors::Host(values.clone()), clip), stepped(Factors::Device(device), clip));
        let error = relative_error(&left.concat(), &right.concat());
        assert!(error < 1e-6, "{clip:?}: {error:.1e}");
    }
}

fn tiny() -> Value {
    json!({
        "d_model": 16, "n_head": 2, "d_ff": 16, "vocab_size": 20, "block_size": 8, "batch_size": 8, "dropout": 0,
        "zipf_tokens": 5000, "eval_sequences": 20, "eval_batch_size": 16, "iters": 30, "log_every": 10,
    })
}

fn metric(more: &Value, name: &str) -> f64 {
    let folder = tempfile::tempdir().unwrap();
    let outcome = run("k1", merged(tiny(), more), folder.path()).unwrap();
    let found = outcome.metrics.get(name);
    found.unwrap_or_else(|| panic!("{more}: no {name}: {:?}", outcome.facts)).value
}

#[test]
fn every_rule_learns() {
    for more in [
        json!({}),
        json!({"unchosen": "frozen", "selection": "one_read"}),
        json!({"update": "path"}),
        json!({"update": "path", "unchosen": "frozen", "selection": "reads_heap", "scope": "subtree"}),
        json!({"update": "all", "network": "blocks", "dropout": 0.1, "attention": "explicit", "causal_mask": "rebuilt"}),
        json!({"prefetch": 2, "loss_reads": "every_step", "grad_clip": 0}),
    ] {
        let more = merged(json!({"iters": 150, "lr": 3e-3}), &more);
        let loss = metric(&more, "loss");
        // The entropy of the frequencies is about 2.4 nats, that of uniform ones 3.0.
        assert!(loss < 2.4, "{more}: {loss}");
    }
}

#[test]
fn readings_are_counted() {
    for (more, name, expected) in [
        (json!({"selection": "reads_sort"}), "reads.selection", 156.0),
        (json!({"selection": "one_read"}), "reads.selection", 1.0),
        (json!({"selection": "device"}), "reads.selection", 0.0),
        // The loss at every log point, of which there are three.
        (json!({"selection": "device"}), "reads.per_step", 0.1),
        (json!({"selection": "device", "loss_reads": "every_step", "eval_every": 5}), "reads.per_step", 1.0),
        (json!({"selection": "one_read", "loss_reads": "every_step"}), "reads.per_step", 2.0),
    ] {
        assert!((metric(&more, name) - expected).abs() < 1e-9, "{more} {name}: {}", metric(&more, name));
    }
}

#[test]
fn the_updated_part_is_that_of_the_chosen_nodes() {
    let dims = TreeDims::new(&K1Model::default());
    let [shared, node] = dims.numbers();
    let paper = (shared + 5 * node) as f64 / dims.parameters() as f64;
    assert!((paper - 0.754).abs() < 5e-4, "{paper}");
    let model = K1Model { d_model: 16, n_head: 2, d_ff: 16, vocab_size: 20, block_size: 8, ..K1Model::default() };
    let [shared, node] = TreeDims::new(&model).numbers();
    let part = |nodes: usize| (shared + nodes * node) as f64 / (shared + 13 * node) as f64;
    for (more, nodes) in [
        (json!({}), 5),
        (json!({"selection": "one_read", "unchosen": "frozen"}), 5),
        (json!({"update": "path"}), 3),
        (json!({"update": "all"}), 13),
    ] {
        let found = metric(&more, "parameters.updated");
        assert!((found - part(nodes)).abs() < 1e-9, "{more}: {found}");
    }
    let agreement = metric(&json!({"agreement": true}), "selection.agreement");
    assert!((0.0..=1.0).contains(&agreement) && agreement > 0.3, "{agreement}");
}

#[test]
fn an_evaluation_is_the_same_in_batches_of_any_size() {
    let loss = |size: usize| metric(&json!({"eval_batch_size": size, "iters": 5}), "loss");
    for size in [1, 7] {
        assert!((loss(size) - loss(20)).abs() < 1e-6, "{size}: {}, {}", loss(size), loss(20));
    }
}

#[test]
fn a_line_of_progress_has_the_recent_and_the_mean_speed() {
    let folder = tempfile::tempdir().unwrap();
    let mut kept = Kept::default();
    let task = task("k1", merged(tiny(), &json!({"network": "blocks", "update": "all"})));
    let outcome = sweep_lab::run(&task, Backend::Cpu, &folders(folder.path()), &mut kept).unwrap();
    assert_eq!(kept.progress.len(), 3);
    for (progress, at) in kept.progress.iter().zip([10, 20, 30]) {
        assert_eq!((progress.done, progress.total), (at, 30));
        let speeds = progress.sequences_per_s.unwrap();
        assert!(speeds.recent > 0.0 && speeds.mean > 0.0, "{speeds:?}");
    }
    let last = kept.progress[2].sequences_per_s.unwrap();
    let of = |name: &str| outcome.metrics[name].value;
    assert_eq!((of("throughput.recent"), of("throughput.cumulative")), (last.recent, last.mean));
    // The mean counts the whole time since the start, as an external clock does.
    assert!(30.0 * 8.0 / last.mean <= of("time.train"));
    let curve = &outcome.curves["mean_sequences_per_s"];
    assert_eq!((&curve.at[..], curve.values[2]), (&[10, 20, 30][..], last.mean));
}

#[test]
fn words_of_a_file_are_learned() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("text.txt");
    std::fs::write(&path, "the cat sat on the mat and The Dog sat on the cat \n".repeat(100)).unwrap();
    let loss = metric(&json!({"data": path, "iters": 60, "lr": 3e-3}), "loss");
    assert!(loss < 1.0, "{loss}");
}
