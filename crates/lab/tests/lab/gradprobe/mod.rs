//! GradProbe: the tests of its authors, and properties of candidates, gradients and decisions (paper 003).

mod subjects;
mod task;
mod together;

use crate::common::{Inner, Train, host, run};
use burn::{
    backend::flex::FlexDevice,
    tensor::{DType, Tensor},
};
use rand_distr::{Distribution as _, LogNormal, Normal};
use serde_json::json;
use sweep_job::tasks::{
    Checkpointing, Corpus, Data, GradientSource, Judge, Model, ProbeMode, ProbeOrder, ProbeThreshold, Probing,
    RoundMode, Storage, Strategy, ThresholdScope, Tuning,
};
use sweep_lab::{
    LabError,
    data::Dataset,
    model::{Gpt, GptDims, values},
    optim::Gradients,
    papers::gradprobe::{
        Candidates, Chooser, Classifier, ClassifierSubject, GptSubject, Points, Prober, Prunable, Round, Subject,
    },
    rng,
};

use self::subjects::{Numbers, Squares};

fn tensor(numbers: &[f32]) -> Tensor<Inner, 1> {
    Tensor::from_floats(numbers, &FlexDevice)
}

fn settings() -> Probing {
    Probing { sparsity: 0.4, tolerance: 0.1, num_batches: 3, batch_size: 10, ..Probing::default() }
}

/// The authors' `TinyMLP`: two hidden layers, on random points with random classes.
fn tiny(features: usize, classes: usize, points: usize, settings: &Probing) -> ClassifierSubject<Inner> {
    let points = Points::random(points, [features, classes], 1);
    ClassifierSubject::new(&[features, 64, 32, classes], points.clone(), points, settings, &FlexDevice)
}

/// A GPT-2 with random weights, on stories.
fn gpt(settings: &Probing) -> GptSubject<Inner> {
    let data = Dataset::open(&Data { data: Corpus::Stories, ..Data::default() }).unwrap();
    let model = Model {
        n_layer: Some(3),
        n_head: Some(2),
        d_model: Some(16),
        block_size: Some(12),
        vocab_size: Some(data.vocab_size),
        ..Model::default()
    };
    let dims = GptDims::new(&model, &sweep_job::tasks::Architecture::default(), data.vocab_size).unwrap();
    let settings = Probing { eval_batches: 2, eval_batch_size: 2, ..settings.clone() };
    GptSubject::new(Gpt::<Train>::random(dims, 5, &FlexDevice).unwrap(), &data, &settings, &FlexDevice).unwrap()
}

/// Result of pruning.
struct Pruned {
    /// By tensor: whether a weight went.
    gone: Vec<Vec<bool>>,
    round: Round,
    passes: u64,
    expected: u64,
    choices: u64,
    gradient_bytes: usize,
}

impl Pruned {
    fn count(&self) -> usize {
        self.gone.iter().flatten().filter(|gone| **gone).count()
    }
}

fn prune(settings: &Probing, subject: &mut dyn Subject<Inner>) -> Pruned {
    try_prune(settings, subject).unwrap()
}

fn try_prune(settings: &Probing, subject: &mut dyn Subject<Inner>) -> Result<Pruned, LabError> {
    let sizes: Vec<usize> = subject.tensors().iter().map(Prunable::len).collect();
    let mut expected = 0;
    let mut progress = |[_, passes]: [u64; 2]| expected = passes;
    let mut prober = Prober::new(settings, subject, &FlexDevice, &mut progress)?;
    let round = prober.prune()?;
    let counts = prober.pruned()?;
    let gone: Vec<Vec<bool>> = prober
        .kept
        .iter()
        .zip(sizes)
        .map(|(keep, size)| match keep {
            None => vec![false; size],
            Some(keep) => host(keep.clone()).into_iter().map(|keep| keep == 0.0).collect(),
        })
        .collect();
    let (passes, gradient_bytes) = (prober.tally.passes, prober.tally.gradient_bytes);
    let choices = prober.chooser.calls;
    for (gone, count) in gone.iter().zip(counts) {
        assert_eq!(gone.iter().filter(|gone| **gone).count(), count, "counted as it is");
    }
    Ok(Pruned { gone, round, passes, expected, choices, gradient_bytes })
}

fn weights(subject: &dyn Subject<Inner>) -> Vec<Vec<f32>> {
    (0..subject.tensors().len()).map(|tensor| host(subject.weights(tensor))).collect()
}

fn candidates(settings: &Probing, subject: &dyn Subject<Inner>) -> Candidates {
    Chooser::new(settings, subject).unwrap().choose(subject, settings.sparsity).unwrap()
}

fn zeros(weights: &[Vec<f32>]) -> usize {
    weights.iter().flatten().filter(|weight| **weight == 0.0).count()
}

// The authors' four tests.

#[test]
fn candidates_are_the_part_that_was_asked_for() {
    for threshold in [ProbeThreshold::Exact, ProbeThreshold::Bracket, ProbeThreshold::Streaming] {
        let settings = Probing { sparsity: 0.3, threshold, ..settings() };
        let subject = tiny(50, 5, 100, &settings);
        let total: usize = subject.tensors().iter().map(Prunable::len).sum();
        assert_eq!(total, 50 * 64 + 64 * 32 + 32 * 5, "matrices only");
        let chosen: usize = candidates(&settings, &subject).counts().iter().sum();
        let part = chosen as f64 / total as f64;
        assert!((part - 0.3).abs() < 0.001, "{threshold}: {part}");
    }
}

#[test]
fn pruning_leaves_zeros() {
    let settings = Probing { sparsity: 0.4, tolerance: 0.0, num_batches: 5, ..settings() };
    let mut subject = tiny(20, 3, 100, &settings);
    let pruned = prune(&settings, &mut subject);
    assert!(pruned.count() > 0);
    assert_eq!(zeros(&weights(&subject)), pruned.count(), "what was pruned is 0, and nothing else");
}

#[test]
fn there_is_one_mask_for_each_matrix_with_its_shape() {
    let settings = Probing { sparsity: 0.3, ..settings() };
    let mut subject = tiny(30, 4, 50, &settings);
    let pruned = prune(&settings, &mut subject);
    let sizes: Vec<usize> = pruned.gone.iter().map(Vec::len).collect();
    assert_eq!(sizes, [30 * 64, 64 * 32, 32 * 4]);
}

#[test]
fn masked_gradients_keep_zeros_in_a_step() {
    let settings = Probing { sparsity: 0.25, batch_size: 8, tolerance: 0.5, ..settings() };
    let mut subject = tiny(25, 3, 40, &settings);
    let pruned = prune(&settings, &mut subject);
    assert!(pruned.count() > 0);
    let before = weights(&subject);
    let gradients = subject.gradients([0, 0], None).unwrap();
    for (tensor, gradient) in gradients.into_iter().enumerate() {
        let keep: Vec<f32> = pruned.gone[tensor].iter().map(|gone| f32::from(u8::from(!gone))).collect();
        let step = gradient.unwrap() * self::tensor(&keep) * 0.01;
        let stepped = subject.weights(tensor) - step;
        subject.set_weights(tensor, stepped);
    }
    let after = weights(&subject);
    assert_ne!(before, after, "other weights have moved");
    for (gone, weights) in pruned.gone.iter().zip(&after) {
        assert!(gone.iter().zip(weights).all(|(gone, weight)| !gone || *weight == 0.0));
    }
}

// Candidates.

#[test]
fn what_goes_is_a_part_of_the_candidates_and_grows_with_the_tolerance() {
    for mode in [ProbeMode::Simultaneous, ProbeMode::Streaming] {
        let base = Probing { mode, ..settings() };
        let chosen = candidates(&base, &tiny(20, 3, 100, &base)).stays;
        let mut earlier: Option<Vec<Vec<bool>>> = None;
        for tolerance in [0.0, 0.05, 0.2, 1.0, 10.0] {
            let settings = Probing { tolerance, ..base.clone() };
            let pruned = prune(&settings, &mut tiny(20, 3, 100, &settings));
            for (gone, stays) in pruned.gone.iter().flatten().zip(chosen.iter().flatten()) {
                assert!(!gone || *stays == 0, "{mode}: only candidates go");
            }
            // Tensors that are visited one by one meet other networks, once something else was pruned before.
            if mode == ProbeMode::Simultaneous {
                if let Some(earlier) = &earlier {
                    let lost = earlier.iter().flatten().zip(pruned.gone.iter().flatten()).any(|(was, is)| *was && !is);
                    assert!(!lost, "more tolerance prunes at least the same");
                }
                earlier = Some(pruned.gone);
            }
        }
    }
}

#[test]
fn without_a_bound_all_candidates_go() {
    for mode in [ProbeMode::Simultaneous, ProbeMode::Streaming] {
        let settings = Probing { mode, tolerance: f64::INFINITY, ..settings() };
        let mut subject = tiny(20, 3, 100, &settings);
        let chosen = candidates(&settings, &subject).stays;
        let pruned = prune(&settings, &mut subject);
        let gone: Vec<Vec<u8>> =
            pruned.gone.iter().map(|gone| gone.iter().map(|gone| u8::from(!gone)).collect()).collect();
        assert_eq!(gone, chosen, "{mode}");
    }
}

#[test]
fn what_stays_comes_back_to_the_bit_or_as_it_was_stored() {
    for mode in [ProbeMode::Simultaneous, ProbeMode::LayerWise] {
        for storage in [Storage::F32, Storage::F16, Storage::Bf16] {
            let settings = Probing { mode, tolerance: 0.0, weight_storage: storage, ..settings() };
            let mut subject = tiny(20, 3, 100, &settings);
            let before = weights(&subject);
            let pruned = prune(&settings, &mut subject);
            let rounded = |weight: f32| match storage {
                Storage::F32 => weight,
                Storage::F16 => host(tensor(&[weight]).cast(DType::F16).cast(DType::F32))[0],
                Storage::Bf16 => host(tensor(&[weight]).cast(DType::BF16).cast(DType::F32))[0],
            };
            let after = weights(&subject);
            let places = before.iter().flatten().zip(after.iter().flatten()).zip(pruned.gone.iter().flatten());
            let mut changed = 0;
            for ((before, after), gone) in places {
                let expected = if *gone { 0.0 } else { rounded(*before) };
                assert_eq!(after.abs().to_bits(), expected.abs().to_bits(), "{mode}, {storage}");
                changed += usize::from(!gone && after != before);
            }
            assert_eq!(changed > 0, storage != Storage::F32, "{mode}, {storage}: rounding is seen");
        }
    }
}

#[test]
fn streaming_and_exact_thresholds_agree_also_where_one_bin_holds_nearly_all() {
    let count = 400_000;
    let draw = |name: &str| rng::stream(0, "test", name, &[]);
    let normal: Vec<f32> = Normal::new(0.0_f32, 0.02).unwrap().sample_iter(draw("normal")).take(count).collect();
    let tailed: Vec<f32> = LogNormal::new(0.0_f32, 3.0).unwrap().sample_iter(draw("tailed")).take(count).collect();
    for (name, numbers) in [("normal", normal), ("log-normal", tailed)] {
        let subject = Numbers::new(&numbers, 4);
        for sparsity in [0.1, 0.3, 0.5, 0.9] {
            let by = |threshold| candidates(&Probing { threshold, sparsity, ..settings() }, &subject).stays.concat();
            let (exact, bracket) = (by(ProbeThreshold::Exact), by(ProbeThreshold::Bracket));
            assert_eq!(exact, bracket, "{name} at {sparsity}: both are exact");
            let streaming = by(ProbeThreshold::Streaming);
            let alike = exact.iter().zip(&streaming).filter(|(exact, streaming)| exact == streaming).count();
            assert!(alike as f64 >= 0.999 * count as f64, "{name} at {sparsity}: {alike} alike");
            let staying: usize = streaming.iter().map(|stays| usize::from(*stays)).sum();
            let reached = 1.0 - staying as f64 / count as f64;
            assert!((reached - sparsity).abs() < 0.001, "{name} at {sparsity}: {reached}");
        }
    }
}

#[test]
fn a_threshold_for_each_tensor_takes_the_same_part_of_each() {
    let numbers: Vec<f32> = (0..4000_u16).map(|index| f32::from(index) * (1.0 + f32::from(index / 1000))).collect();
    let subject = Numbers::new(&numbers, 4);
    let threshold = ProbeThreshold::Exact;
    let counts = |scope| candidates(&Probing { scope, threshold, sparsity: 0.3, ..settings() }, &subject).counts();
    let each = counts(ThresholdScope::Tensor);
    assert!(each.iter().all(|count| count.abs_diff(300) <= 1), "{each:?}");
    assert_eq!(counts(ThresholdScope::Global), [1000, 200, 0, 0], "the smallest tensor first");
}

#[test]
fn wanda_is_what_a_slow_reference_says() {
    let settings = Probing { strategy: Strategy::Wanda, threshold: ProbeThreshold::Exact, ..settings() };
    let mut subject = tiny(20, 3, 100, &settings);
    // Norms computed independently from the network's weights: of every layer's input over a batch, the largest over
    // batches.
    let parameters: Vec<Vec<f32>> = values(&subject.network).into_iter().map(host).collect();
    let mut norms: Vec<Vec<f64>> = [20, 64, 32].map(|width| vec![0.0; width]).into();
    for batch in 0..3 {
        let (points, _) = subject.calibration(batch);
        let mut x = points;
        for (layer, width) in [20_usize, 64, 32].into_iter().enumerate() {
            for (feature, norm) in norms[layer].iter_mut().enumerate() {
                let squares: f64 = x.iter().skip(feature).step_by(width).map(|x| f64::from(*x).powi(2)).sum();
                *norm = norm.max(squares.sqrt());
            }
            let out = [64, 32, 3][layer];
            let (matrix, bias) = (&parameters[2 * layer], &parameters[2 * layer + 1]);
            let product = |row: &[f32], column: usize| -> f32 {
                let sum: f32 = row.iter().zip(matrix[column..].iter().step_by(out)).map(|(x, w)| x * w).sum();
                (sum + bias[column]).max(0.0)
            };
            x = x.chunks(width).flat_map(|row| (0..out).map(move |column| product(row, column))).collect();
        }
    }
    let mut scores: Vec<(f64, usize)> = Vec::new();
    for (layer, out) in [64, 32, 3].into_iter().enumerate() {
        let matrix = &parameters[2 * layer];
        for (place, weight) in matrix.iter().enumerate() {
            scores.push((f64::from(weight.abs()) * norms[layer][place / out], scores.len()));
        }
    }
    scores.sort_by(|left, right| left.0.total_cmp(&right.0));
    let k = scores.len() * 2 / 5;
    let mut stays = vec![1_u8; scores.len()];
    scores[..k].iter().for_each(|(_, place)| stays[*place] = 0);
    let found = candidates(&settings, &subject).stays.concat();
    let differ = found.iter().zip(&stays).filter(|(found, stays)| found != stays).count();
    assert!(differ <= 2, "{differ} of {} differ, by the rounding of sums", stays.len());
    assert!(prune(&settings, &mut subject).count() > 0);
}

// Gradients.

#[test]
fn a_weight_that_helps_stays_and_one_that_harms_goes() {
    // The first fits its point, so that shrinking it makes a gradient; the second should be 0, so that shrinking it takes some.
    let settings = Probing { sparsity: 1.0, ..settings() };
    let mut subject = Squares::new([2.0, 2.0], [1.0, 1.0], [2.0, 0.0]);
    let pruned = prune(&Probing { tolerance: 0.0, ..settings.clone() }, &mut subject);
    assert_eq!(pruned.gone, [[false, true]]);
    assert_eq!(weights(&subject), [[2.0, 0.0]]);
    // Gradients of 1 before and 2.8 after: the smallest tolerance that permits removal is 1.8.
    for (tolerance, goes) in [(1.7, false), (1.9, true)] {
        let mut subject = Squares::new([2.0, 2.0], [1.0, 1.0], [3.0, 3.0]);
        let pruned = prune(&Probing { tolerance, ..settings.clone() }, &mut subject);
        assert_eq!(pruned.gone, [[goes, goes]], "{tolerance}");
    }
}

#[test]
fn gradients_that_half_precision_cannot_hold_let_weights_go() {
    // Gradients of 1e-9 before and about 2.8e-9 after.
    let squares = || Squares::new([2.0, 2.0], [3.2e-5, 3.2e-5], [9.6e-5, 9.6e-5]);
    for (grad_storage, goes) in [(Storage::F32, false), (Storage::Bf16, false), (Storage::F16, true)] {
        let settings = Probing { sparsity: 1.0, tolerance: 0.0, grad_storage, ..settings() };
        assert_eq!(prune(&settings, &mut squares()).gone, [[goes, goes]], "{grad_storage}");
    }
}

#[test]
fn a_gradient_that_is_missing_is_an_error() {
    let settings = Probing { ..settings() };
    let mut subject = Numbers::new(&[1.0, 2.0, 3.0, 4.0], 2);
    let Err(error) = try_prune(&settings, &mut subject) else { panic!("nothing can be decided") };
    assert!(error.to_string().contains("`layers.0.weight` has no gradient"), "{error}");
    let settings = Probing { only: Some("h.0".into()), ..settings };
    let Err(error) = try_prune(&settings, &mut subject) else { panic!("there is no such tensor") };
    assert!(error.to_string().contains("`layers.0.weight`, `layers.1.weight`"), "{error}");
}

#[test]
fn freezing_and_extracting_give_the_same_gradients() {
    let settings = Probing { num_batches: 2, batch_size: 2, ..settings() };
    let same = |subject: &mut dyn Subject<Inner>, what: &str| {
        let all = subject.gradients([1, 0], None).unwrap();
        for tensor in 0..subject.tensors().len() {
            let name = subject.tensors()[tensor].name.clone();
            let one = subject.gradients([1, 0], Some(&[tensor])).unwrap();
            assert!(one.iter().enumerate().all(|(other, one)| one.is_some() == (other == tensor)), "{what}: {name}");
            let [one, all] = [&one, &all].map(|gradients| host(gradients[tensor].clone().unwrap()));
            assert!(one.iter().any(|number| *number != 0.0), "{what}: {name}");
            assert_eq!(one, all, "{what}: {name}");
        }
    };
    same(&mut tiny(20, 3, 100, &settings), "classifier");
    for checkpointing in [Checkpointing::Off, Checkpointing::Balanced, Checkpointing::Segment1, Checkpointing::Segment2]
    {
        same(&mut gpt(&settings).with_checkpointing(checkpointing), checkpointing.word());
    }
}

#[test]
fn checkpointing_prunes_the_same() {
    let settings = Probing { num_batches: 2, batch_size: 2, mode: ProbeMode::LayerWise, ..settings() };
    let by = |checkpointing| prune(&settings, &mut gpt(&settings).with_checkpointing(checkpointing)).gone.concat();
    let off = by(Checkpointing::Off);
    assert!(off.iter().any(|gone| *gone));
    for checkpointing in [Checkpointing::Balanced, Checkpointing::Segment1, Checkpointing::Segment2] {
        let alike = by(checkpointing).iter().zip(&off).filter(|(left, right)| left == right).count();
        assert!(alike as f64 >= 0.9999 * off.len() as f64, "{checkpointing}: {alike} of {}", off.len());
    }
}

#[test]
fn gradient_sources_decide_alike_where_they_must() {
    let by = |gradients| {
        let settings = Probing { gradients, mode: ProbeMode::LayerWise, ..settings() };
        prune(&settings, &mut tiny(20, 3, 100, &settings)).gone
    };
    assert_eq!(by(GradientSource::Freeze), by(GradientSource::Extract));
    // The first tensor visited meets the same network either way.
    assert_eq!(by(GradientSource::Freeze)[2], by(GradientSource::Amortized)[2]);
}

#[test]
fn passes_and_choices_are_counted() {
    let (n, tensors) = (2, 4 * 3 + 2);
    let base = Probing { num_batches: n, batch_size: 1, ..settings() };
    let n = n as u64;
    for (mode, gradients, passes, choices) in [
        (ProbeMode::Simultaneous, GradientSource::Freeze, 2 * n, 1),
        (ProbeMode::Streaming, GradientSource::Freeze, 2 * n * tensors, 1),
        (ProbeMode::LayerWise, GradientSource::Freeze, 2 * n * tensors, tensors),
        (ProbeMode::LayerWise, GradientSource::Extract, 2 * n * tensors, tensors),
        (ProbeMode::LayerWise, GradientSource::Amortized, n * (1 + tensors), tensors),
    ] {
        let settings = Probing { mode, gradients, ..base.clone() };
        let mut subject = gpt(&settings);
        assert_eq!(subject.tensors().len() as u64, tensors, "four matrices in a block, and two tables");
        let pruned = prune(&settings, &mut subject);
        assert_eq!((pruned.passes, pruned.choices), (passes, choices), "{mode}, {gradients}");
        assert_eq!(pruned.expected, passes, "as it was announced");
        let weights: usize = subject.tensors().iter().map(Prunable::len).sum();
        let largest = subject.tensors().iter().map(Prunable::len).max().unwrap();
        let kept = match (mode, gradients) {
            (ProbeMode::Simultaneous, _) => 2 * weights,
            (_, GradientSource::Amortized) => pruned.gradient_bytes / 4,
            _ => 2 * largest,
        };
        assert_eq!(pruned.gradient_bytes, 4 * kept, "{mode}, {gradients}: reference and probe");
        let settings = Probing { grad_storage: Storage::F16, ..settings };
        assert_eq!(prune(&settings, &mut gpt(&settings)).gradient_bytes, 2 * kept, "half the bytes");
    }
}

#[test]
fn tensors_are_visited_in_the_order_asked_for() {
    // The pruned weights of a tensor depend on the tensors pruned before, so orders differ; the last is the same network's.
    let by = |order| {
        let settings = Probing { order, mode: ProbeMode::LayerWise, tolerance: 0.5, ..settings() };
        prune(&settings, &mut tiny(20, 3, 100, &settings)).gone
    };
    let sources = |order| {
        let settings = Probing { order, mode: ProbeMode::LayerWise, tolerance: 0.5, ..settings() };
        let settings = Probing { gradients: GradientSource::Amortized, ..settings };
        prune(&settings, &mut tiny(20, 3, 100, &settings)).gone
    };
    // The tensor whose turn is first meets the dense network, so that amortised reference gradients are its own.
    for (order, first) in [(ProbeOrder::Reverse, 2), (ProbeOrder::Forward, 0), (ProbeOrder::Size, 1)] {
        assert_eq!(by(order)[first], sources(order)[first], "{order}");
    }
    assert_ne!(by(ProbeOrder::Reverse), by(ProbeOrder::Forward));
}

// Rounds.

#[test]
fn rounds_end_within_the_limit_and_tuning_finds_more() {
    let base = Probing {
        mode: ProbeMode::Iterative,
        sparsity: 0.2,
        step: 0.2,
        limit: 0.02,
        tolerance: 5.0,
        num_batches: 20,
        batch_size: 1,
        tuning_steps: 5,
        ..Probing::default()
    };
    let mut trained = {
        let points = |part| Points::linear(300, [20, 4], 3, part);
        let widths = &[20, 64, 32, 4];
        ClassifierSubject::<Inner>::new(widths, points("train"), points("held out"), &base, &FlexDevice)
    };
    trained.train(6).unwrap();
    let dense = trained.quality(Judge::InSample).unwrap();
    assert!(dense > 0.6, "it has learned something: {dense}");
    let start: Vec<Tensor<Inner, 1>> = (0..3).map(|tensor| trained.weights(tensor)).collect();
    for round_mode in [RoundMode::Simultaneous, RoundMode::LayerWise] {
        let mut reached = Vec::new();
        for tuning in [Tuning::None, Tuning::OneStep, Tuning::TwoStep] {
            if round_mode == RoundMode::LayerWise && tuning == Tuning::OneStep {
                continue;
            }
            for (tensor, weights) in start.iter().enumerate() {
                trained.set_weights(tensor, weights.clone());
            }
            let settings = Probing { round_mode, tuning, ..base.clone() };
            let pruned = prune(&settings, &mut trained);
            let quality = trained.quality(Judge::InSample).unwrap();
            assert!(dense - quality <= 0.02 + 1e-9, "{round_mode}, {tuning}: from {dense} to {quality}");
            assert_eq!(zeros(&weights(&trained)), pruned.count(), "masks are united over rounds");
            assert!(pruned.round.rounds >= 1 && pruned.count() > 0, "{round_mode}, {tuning}: {:?}", pruned.round);
            if tuning == Tuning::None {
                assert_eq!(pruned.round.tolerance, 5.0);
            }
            reached.push(pruned.count());
        }
        assert!(reached[1..].iter().all(|tuned| *tuned >= reached[0]), "{round_mode}: {reached:?}");
    }
}
