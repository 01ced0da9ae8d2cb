use burn::backend::{Flex, flex::FlexDevice};
use rand_distr::{Distribution, LogNormal};
use sweep_job::tasks::PruneMethod;

use super::*;
use crate::prune::Inputs;

fn long_tailed(numbers: usize, name: &str) -> Vec<f32> {
    let mut stream = rng::stream(0, "test", name, &[]);
    LogNormal::new(0.0_f32, 3.0).unwrap().sample_iter(&mut stream).take(numbers).collect()
}

fn settings(threshold: ThresholdMethod, sample_fraction: f64) -> Prune {
    Prune { threshold, sample_fraction, ..Prune::default() }
}

/// Layers whose weights, none of them below 0, are their scores.
fn scored(layers: &[Vec<f32>]) -> Vec<Inputs<Flex>> {
    let inputs = |(index, weights): (usize, &Vec<f32>)| Inputs {
        name: format!("layer {index}"),
        weights: Tensor::from_floats(&weights[..], &FlexDevice),
        moments: None,
        origin: None,
        mask: None,
    };
    layers.iter().enumerate().map(inputs).collect()
}

fn select(settings: &Prune, layers: &[Vec<f32>], groups: &[Group], seed: u64) -> Vec<Option<Choice<Flex>>> {
    let mut inputs = Layers::new(settings, scored(layers));
    let choices = HostSelect::new(settings).select(&mut inputs, &Goal { groups, seed }).unwrap();
    assert_eq!(choices.len(), layers.len());
    choices
}

fn pruned(choices: &[Option<Choice<Flex>>]) -> usize {
    let masks = choices.iter().flatten().flat_map(|choice| choice.mask.to_data().to_vec::<f32>().unwrap());
    masks.filter(|mask| *mask == 0.0).count()
}

fn global(layers: usize, sparsity: f64) -> [Group; 1] {
    [Group { layers: 0..layers, sparsity }]
}

#[test]
fn the_kth_smallest() {
    let scores = [5.0, 1.0, 4.0, 2.0, 3.0];
    for (k, expected) in [(1, 1.0), (2, 2.0), (5, 5.0)] {
        assert_eq!(kth_smallest(&mut scores.clone(), k), expected);
    }
    assert_eq!([0.0, 0.19, 0.2, 0.5, 0.99].map(|sparsity| part_of(sparsity, 5)), [0, 0, 1, 2, 4]);
}

#[test]
fn all_updates_choose_the_same() {
    let layers = [long_tailed(300, "a"), long_tailed(500, "b")];
    let expected = kth_smallest(&mut layers.concat(), 400);
    for prune_update in PruneUpdate::ALL {
        let settings = Prune { prune_update: *prune_update, ..Prune::default() };
        let choices = select(&settings, &layers, &global(2, 0.5), 0);
        assert!(choices.iter().flatten().all(|choice| choice.threshold == expected));
        assert_eq!((choices.iter().flatten().count(), pruned(&choices)), (2, 400));
    }
    let choices = select(&Prune::default(), &layers, &global(2, 0.001), 0);
    assert!(choices.iter().all(Option::is_none), "less than one weight");
}

#[test]
fn groups_have_their_own_thresholds() {
    let layers = [long_tailed(100, "a"), long_tailed(100, "b"), long_tailed(100, "c")];
    let groups = [Group { layers: 0..1, sparsity: 0.0 }, Group { layers: 1..3, sparsity: 0.25 }];
    let choices = select(&Prune::default(), &layers, &groups, 0);
    assert!(choices[0].is_none());
    assert_eq!(pruned(&choices), 50);
    assert_eq!(choices[1].as_ref().unwrap().threshold, kth_smallest(&mut layers[1..].concat(), 50));
}

#[test]
fn a_sample_converges_to_the_exact_threshold_and_is_drawn_by_its_seed() {
    let layers = [long_tailed(40_000, "a"), long_tailed(60_000, "b")];
    let pruned_part = |fraction: f64, sparsity: f64, seed| {
        let settings = settings(ThresholdMethod::Sample, fraction);
        pruned(&select(&settings, &layers, &global(2, sparsity), seed)) as f64 / 100_000.0
    };
    for sparsity in [0.1, 0.5, 0.9] {
        // Five standard deviations of a sample's quantile, which shrink with the root of its size.
        for (fraction, size) in [(0.001, 1e2), (0.02, 2e3), (0.5, 5e4)] {
            let error = (pruned_part(fraction, sparsity, 7) - sparsity).abs();
            let tolerance = 5.0 * (sparsity * (1.0 - sparsity) / size).sqrt() + 1.0 / size;
            assert!(error < tolerance, "{fraction} of the scores at {sparsity}: off by {error}");
        }
    }
    assert_eq!(pruned_part(0.02, 0.5, 1).to_bits(), pruned_part(0.02, 0.5, 1).to_bits());
    assert_ne!(pruned_part(0.02, 0.5, 1).to_bits(), pruned_part(0.02, 0.5, 2).to_bits());
}

/// Choices at one target, between which weights move and pruned ones stay 0: the part that is pruned after the first and
/// after 400.
fn over_updates(threshold: ThresholdMethod, sample_fraction: f64) -> [f64; 2] {
    let mut stream = rng::stream(0, "test", "over updates", &[]);
    let mut normal = || -> f32 { rand_distr::StandardNormal.sample(&mut stream) };
    let settings = Prune { prune: PruneMethod::Magnitude, ..settings(threshold, sample_fraction) };
    let mut layers: Vec<Vec<f32>> = [8_000, 12_000].map(|size| (0..size).map(|_| normal()).collect()).into();
    let mut parts = Vec::new();
    for update in 0..400 {
        let choices = select(&settings, &layers, &global(2, 0.5), update);
        parts.push(pruned(&choices) as f64 / 20_000.0);
        for (layer, choice) in layers.iter_mut().zip(&choices) {
            let mask = choice.as_ref().map(|choice| choice.mask.to_data().to_vec::<f32>().unwrap());
            let mask = mask.unwrap_or_else(|| vec![1.0; layer.len()]);
            layer.iter_mut().zip(mask).for_each(|(weight, keep)| *weight = (*weight + 0.02 * normal()) * keep);
        }
    }
    println!("{threshold}, {sample_fraction}: {} after one, {} after 400", parts[0], parts[399]);
    [parts[0], parts[399]]
}

#[test]
fn a_samples_errors_add_up_over_updates_unless_they_are_corrected() {
    for sample_fraction in [0.02, 0.2] {
        let [_, exact_part] = over_updates(ThresholdMethod::Exact, sample_fraction);
        assert_eq!(exact_part, 0.5);
        let [_, sampled_part] = over_updates(ThresholdMethod::Sample, sample_fraction);
        // The largest of some hundred errors is about three standard deviations of a sample's quantile.
        let deviation = (0.25 / (20_000.0 * sample_fraction)).sqrt();
        assert!((0.5 + deviation..0.5 + 5.0 * deviation).contains(&sampled_part), "{sampled_part}");
        let [_, corrected_part] = over_updates(ThresholdMethod::SampleCorrected, sample_fraction);
        assert!((0.495..=0.5).contains(&corrected_part), "{corrected_part}");
    }
}

#[test]
fn a_corrected_threshold_is_the_largest_that_does_not_prune_too_much_and_is_found_soon() {
    let scores = long_tailed(100_000, "scores");
    let mut rank = scores.clone();
    rank.sort_unstable_by(f32::total_cmp);
    for (size, max_counts) in [(1, 1), (2, 2), (100, 12), (10_000, 20)] {
        // Half of the drawn scores are equal, like the scores of pruned weights.
        let mut sample: Vec<f32> = scores.iter().copied().step_by(100_000 / size).take(size).collect();
        sample.iter_mut().step_by(2).for_each(|score| *score = 0.0);
        sample.sort_unstable_by(f32::total_cmp);
        for k in [1, 1_000, 50_000, 99_000, 100_000] {
            let mut counts = 0;
            let count = |threshold: f32| {
                counts += 1;
                Ok::<_, LabError>(rank.partition_point(|score| *score <= threshold))
            };
            let threshold = corrected(&sample, scores.len(), k, count).unwrap();
            let is_allowed = |score: &&f32| rank.partition_point(|value| value <= *score) <= k;
            assert_eq!(threshold, sample.iter().rfind(is_allowed).copied(), "{k} by {size}");
            assert!(counts <= max_counts, "{counts} counts for {k} by {size}");
        }
    }
    assert_eq!(corrected(&[3.0], 10, 5, |_| Ok::<_, LabError>(6)).unwrap(), None);
}

/// Paper 001 has 0.078 % of the threshold on average and 0.392 % at most, from 2 % of 402 million scores. An error shrinks
/// with the root of the sample, so it is measured here with fewer.
#[test]
fn a_samples_error_is_that_of_the_paper() {
    let (total, trials) = (200_000, 200);
    let mut stream = rng::stream(0, "test", "bitter7", &[]);
    let mut normal = || rand_distr::StandardNormal.sample(&mut stream);
    let scores: Vec<f32> = (0..total)
        .map(|_| {
            let (weight, root): (f32, f32) = (normal(), normal());
            weight.abs() * root.abs().sqrt()
        })
        .collect();
    let exact = f64::from(kth_smallest(&mut scores.clone(), total / 2));
    let parts = [Tensor::<Flex, 1>::from_floats(&scores[..], &FlexDevice)];
    let select = HostSelect::new(&settings(ThresholdMethod::Sample, 0.02));
    let error = |seed| (f64::from(select.sampled(&parts, total / 2, seed).unwrap()) - exact).abs() / exact;
    let errors: Vec<f64> = (0..trials).map(error).collect();
    let to_the_papers_size = (total as f64 / 402.65e6).sqrt();
    let mean = errors.iter().sum::<f64>() / trials as f64 * to_the_papers_size;
    let maximum = errors.iter().fold(0.0_f64, |maximum, error| maximum.max(*error)) * to_the_papers_size;
    assert!(mean < 0.001 && maximum < 0.005, "mean {mean}, at most {maximum}");
    assert!(mean > 0.0001, "an estimate from a sample is not exact: {mean}");
}

#[test]
fn a_histogram_prunes_hardly_more_than_asked() {
    let tailed_scores = long_tailed(50_000, "a");
    let flat_scores: Vec<f32> = (0..50_000).map(|index| index as f32).collect();
    let equal_scores = vec![3.0; 50_000];
    let mut pruned_scores = tailed_scores.clone();
    pruned_scores[..20_000].fill(PRUNED);
    for scores in [&tailed_scores, &flat_scores, &pruned_scores] {
        for k in [1, 25_000, 45_000, 50_000] {
            let threshold = by_histogram(scores, k);
            let pruned = scores.iter().filter(|score| **score <= threshold).count();
            let min_count = k.max(scores.iter().filter(|score| **score <= PRUNED).count());
            assert!((min_count..=min_count + 50).contains(&pruned), "{pruned} for {k}");
        }
    }
    assert_eq!(by_histogram(&equal_scores, 1), 3.0);
    assert!((1.0..2.0).contains(&by_histogram(&[1.0, f32::INFINITY, 2.0, f32::NAN], 2)), "no number goes first");
    assert_eq!(by_histogram(&[f32::INFINITY; 4], 2), f32::MAX);
    let choices = select(&settings(ThresholdMethod::Histogram, 0.02), &[tailed_scores], &global(1, 0.5), 0);
    assert!((25_000..=25_050).contains(&pruned(&choices)));
}
