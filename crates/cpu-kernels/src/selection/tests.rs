//! Selection compared with sorting, bit by bit.

use proptest::prelude::*;
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use sweep_job::tasks::{Prune, PruneMethod};

use super::PRUNED;
use super::{
    bracket::{CLUSTER, search_bracket},
    lanes::{GROUP, Lanes},
    order::{rank, score},
    *,
};

/// Contents of a layer.
#[derive(Debug, Clone, Default)]
struct Numbers {
    weights: Vec<f32>,
    moments: Option<[Vec<f32>; 2]>,
    origin: Option<Vec<f32>>,
    mask: Option<Vec<f32>>,
}

impl Numbers {
    fn of(weights: Vec<f32>) -> Self {
        Self { weights, ..Self::default() }
    }

    fn layer(&self) -> Layer<'_> {
        Layer {
            weights: &self.weights,
            moments: self.moments.as_ref().map(|moments| moments.each_ref().map(|moment| &moment[..])),
            origin: self.origin.as_deref(),
            mask: self.mask.as_deref(),
        }
    }
}

/// The score of a weight, as the formulas are written down, one number at a time.
fn expected_score(settings: &Prune, correction: f32, numbers: &Numbers, index: usize) -> f32 {
    use PruneMethod::{Bitter0, Bitter3, Bitter4, Bitter5, Bitter6, Bitter7, Bitter8, Bitter9, Movement};
    if numbers.mask.as_ref().is_some_and(|mask| mask[index] == 0.0) {
        return PRUNED;
    }
    let w = numbers.weights[index];
    #[expect(clippy::cast_possible_truncation, reason = "scores are in single precision")]
    let e = settings.score_epsilon as f32;
    let sign = if w == 0.0 { 0.0 } else { w.signum() };
    let score = match (settings.prune, &numbers.moments) {
        (Movement, _) => w * (w - numbers.origin.as_ref().map_or(w, |origin| origin[index])),
        (method, Some([m, v])) => {
            let (m, v) = (m[index], v[index]);
            match method {
                Bitter0 => (w * m).abs() * (w.abs() / (v.sqrt() + e)),
                Bitter3 | Bitter4 => w.abs() * (m.abs() + e).sqrt(),
                Bitter5 => w.abs() * 0.1 - sign * m / (v.sqrt() + e),
                Bitter6 => w.abs() * (m.abs() + e).sqrt() * (m * m / (v + e)).sqrt(),
                Bitter7 => w.abs() * (v.abs() + e).sqrt().sqrt(),
                Bitter8 => w.abs() * ((m / correction).abs() + e).sqrt(),
                Bitter9 => w.abs() * (m.abs() + e).sqrt() - sign * m / (v.sqrt() + e) * 0.1,
                _ => w.abs(),
            }
        }
        _ => w.abs(),
    };
    if score == 0.0 { 0.0 } else { score }
}

/// The `k`-th smallest of all `scores`, and which of them are above it, by sorting.
fn by_sorting(scores: &[Vec<f32>], k: usize) -> (f32, Vec<Vec<u8>>) {
    let mut sorted = scores.concat();
    sorted.sort_by(f32::total_cmp);
    let threshold = sorted[k - 1];
    let mask = |scores: &Vec<f32>| scores.iter().map(|score| u8::from(*score > threshold)).collect();
    (threshold, scores.iter().map(mask).collect())
}

/// A way to select.
type Way<'a, M> = &'a dyn Fn(&Goal<'_>, &mut [&mut [M]]) -> Result<Found, NotANumber>;

/// Runs `way` with masks of `M` that hold anything at first.
fn masks<M: Mask>(goal: &Goal<'_>, fill: M, way: Way<'_, M>) -> (Found, Vec<Vec<M>>) {
    let mut masks: Vec<Vec<M>> = goal.layers.iter().map(|layer| vec![fill; M::words(layer.weights.len())]).collect();
    let mut slices: Vec<&mut [M]> = masks.iter_mut().map(|mask| &mut mask[..]).collect();
    let result = way(goal, &mut slices).unwrap();
    (result, masks)
}

/// Asserts that every exact method gives the result of sorting, with every kind of mask.
fn agree(goal: &Goal<'_>, scores: &[Vec<f32>], seed: u64) {
    let (threshold, expected) = by_sorting(scores, goal.k);
    let zeros = |mask: &Vec<u8>| mask.iter().map(|stays| usize::from(*stays == 0)).sum();
    let pruned: Vec<usize> = expected.iter().map(zeros).collect();
    let check = |result: &Found, way: &str| {
        assert_eq!(result.threshold.to_bits(), threshold.to_bits(), "{way}: {} is not {threshold}", result.threshold);
        assert_eq!(result.pruned, pruned, "{way}");
    };
    // With no sample, with one, and with brackets that are too narrow.
    for (limit, deviations) in [(usize::MAX, 3.3), (CLUSTER, 3.3), (CLUSTER, 0.3), (CLUSTER, 0.0)] {
        let way = format!("bracket, {deviations} deviations if above {limit}");
        let (result, mask) = masks(goal, 7, &|goal, masks| search_bracket(goal, seed, masks, limit, deviations));
        check(&result, &way);
        assert_eq!(mask, expected, "{way}");
    }
    let (result, mask) = masks(goal, 7_u8, &radix);
    check(&result, "radix");
    assert_eq!(mask, expected);
    let (result, bits) = masks(goal, 7_u64, &|goal, masks| search_bracket(goal, seed, masks, CLUSTER, 1.0));
    check(&result, "bits");
    for (bits, expected) in bits.iter().zip(&expected) {
        let bit = |index: usize| u8::from(bits[index / 64] >> (index % 64) & 1 == 1);
        assert!((0..bits.len() * 64).all(|index| bit(index) == *expected.get(index).unwrap_or(&0)));
    }
    let (result, floats) = masks(goal, f32::NAN, &|goal, masks| bracket(goal, seed, masks));
    check(&result, "floats");
    let expected: Vec<Vec<f32>> =
        expected.iter().map(|mask| mask.iter().map(|stays| f32::from(*stays)).collect()).collect();
    assert_eq!(floats, expected);
    check(&masks(goal, (), &|goal, masks| bracket(goal, seed, masks)).0, "no masks");
}

/// Scores that are hard to select among: one kind of numbers for a list.
fn hard_scores() -> impl Strategy<Value = Vec<f32>> {
    let special = prop_oneof![
        Just(0.0_f32),
        Just(-0.0),
        Just(f32::INFINITY),
        Just(f32::NEG_INFINITY),
        Just(f32::MAX),
        Just(f32::MIN),
        Just(f32::MIN_POSITIVE),
        Just(-f32::MIN_POSITIVE),
        Just(f32::from_bits(1)),
        Just(-f32::from_bits(1)),
        Just(1.0),
        Just(1.0_f32.next_up()),
        Just(1.0_f32.next_down()),
        Just(PRUNED),
    ];
    let bits = any::<u32>().prop_map(f32::from_bits).prop_filter("NaN has no order", |score| !score.is_nan());
    let denormal = (0_u32..0x80_0000, any::<bool>()).prop_map(|(bits, negative)| {
        let size = f32::from_bits(bits);
        if negative { -size } else { size }
    });
    let lengths = 0..400_usize;
    prop_oneof![
        prop::collection::vec(special.clone(), lengths.clone()),
        prop::collection::vec(bits, lengths.clone()),
        prop::collection::vec(denormal, lengths.clone()),
        // Many of one, few of others.
        (special, prop::collection::vec(any::<f32>(), 0..8), lengths.clone()).prop_map(
            |(value, other_values, length)| {
                let mut scores = vec![value; length];
                scores.extend(other_values.into_iter().filter(|score| !score.is_nan()));
                scores
            }
        ),
        // Sorted scores, so that a sample of neighbors is less representative than a random sample.
        prop::collection::vec(-9.0_f32..9.0, lengths.clone()).prop_map(|mut scores| {
            scores.sort_by(f32::total_cmp);
            scores
        }),
        prop::collection::vec((-3_i8..3).prop_map(f32::from), lengths),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn what_is_selected_is_what_sorting_selects(
        layers in prop::collection::vec(hard_scores(), 1..5), part in 0.0..=1.0_f64, seed: u64,
    ) {
        let weights = layers.iter().map(Vec::len).sum::<usize>();
        prop_assume!(weights > 0);
        let numbers: Vec<Numbers> = layers.iter().cloned().map(Numbers::of).collect();
        let layers: Vec<Layer<'_>> = numbers.iter().map(Numbers::layer).collect();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part of the weights")]
        let k = ((part * weights as f64) as usize).clamp(1, weights);
        let scores: Vec<Vec<f32>> =
            numbers.iter().map(|numbers| numbers.weights.iter().map(|score| score + 0.0).collect()).collect();
        for k in [1, k, weights] {
            agree(&Goal { layers: &layers, formula: Formula::GIVEN, k }, &scores, seed);
        }
    }

    #[test]
    fn scores_in_registers_are_the_formulas(
        method in prop::sample::select(PruneMethod::ALL), seed: u64, sizes in prop::collection::vec(0..300_usize, 1..4),
        scale in prop::sample::select(vec![1.0_f32, 1e-3, 1e-20, 1e10]), moments: bool, origin: bool, mask: bool,
    ) {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut draw = |length: usize, min: f32| -> Vec<f32> {
            let zero = [0.0, -0.0, 1e-42];
            let number = |random: &mut ChaCha8Rng| match random.random_range(0..8) {
                index @ 0..3 => zero[index],
                _ => random.random_range(min..1.0_f32) * scale,
            };
            (0..length).map(|_| number(&mut random)).collect()
        };
        let numbers: Vec<Numbers> = sizes.iter().map(|&length| Numbers {
            weights: draw(length, -1.0),
            moments: moments.then(|| [draw(length, -1.0), draw(length, 0.0).into_iter().map(f32::abs).collect()]),
            origin: origin.then(|| draw(length, -1.0)),
            mask: mask.then(|| draw(length, -1.0).into_iter().map(|x| f32::from(u8::from(x > 0.0))).collect()),
        }).collect();
        prop_assume!(sizes.iter().sum::<usize>() > 0);
        let settings = Prune { prune: method, ..Prune::default() };
        let scores: Vec<Vec<f32>> = numbers
            .iter()
            .map(|numbers| (0..numbers.weights.len()).map(|i| expected_score(&settings, 0.75, numbers, i)).collect())
            .collect();
        prop_assume!(scores.iter().flatten().all(|score| !score.is_nan()));
        let layers: Vec<Layer<'_>> = numbers.iter().map(Numbers::layer).collect();
        let formula = Formula::new(&settings, 0.75);
        for (numbers, expected) in layers.iter().zip(&scores) {
            let mut results = vec![0.0; expected.len()];
            pulp::Arch::new().dispatch(#[inline(always)] || numbers.fill(&formula, &mut results));
            let bits = |scores: &[f32]| scores.iter().map(|score| score.to_bits()).collect::<Vec<u32>>();
            assert_eq!(bits(&results), bits(expected), "{method} with the widest vectors");
            numbers.fill(&formula, &mut results);
            assert_eq!(bits(&results), bits(expected), "{method} without");
        }
        let weights = scores.iter().map(Vec::len).sum::<usize>();
        agree(&Goal { layers: &layers, formula, k: weights.div_ceil(2) }, &scores, seed);
    }

    #[test]
    fn ranks_are_in_the_order_of_scores(left: f32, right: f32) {
        prop_assume!(!left.is_nan() && !right.is_nan());
        let (left, right) = (left + 0.0, right + 0.0);
        prop_assert_eq!(rank(left).cmp(&rank(right)), left.total_cmp(&right));
        prop_assert_eq!(score(rank(left)).to_bits(), left.to_bits());
    }
}

#[test]
fn all_instruction_sets_compare_alike() {
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let special = [0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 1.0, 1e-42];
    let draw = |random: &mut ChaCha8Rng| match random.random_range(0..12) {
        index @ 0..6 => special[index],
        _ => random.random_range(-2.0..2.0_f32),
    };
    for _ in 0..1000 {
        let scores: [f32; GROUP] = std::array::from_fn(|_| draw(&mut random));
        let [low, high] = [draw(&mut random), draw(&mut random)];
        let sides = pulp::Scalar.sides(&scores, low, high);
        let bytes: [u8; GROUP] = std::array::from_fn(|bit| u8::from(sides.up_to_low >> bit & 1 == 1));
        assert_eq!(pulp::Scalar.bytes(sides.up_to_low), bytes);
        #[cfg(target_arch = "x86_64")]
        {
            if let Some(lanes) = pulp::x86::V3::try_new() {
                assert_eq!(lanes.sides(&scores, low, high), sides);
                assert_eq!(lanes.bytes(sides.up_to_low), bytes);
            }
            if let Some(lanes) = pulp::x86::V4::try_new() {
                assert_eq!(lanes.sides(&scores, low, high), sides);
                assert_eq!(lanes.bytes(sides.up_to_low), bytes);
            }
        }
    }
}

/// Numbers from 0 to 1, `length` of them.
fn uniform(length: usize, seed: u64) -> Vec<f32> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    (0..length).map(|_| random.random()).collect()
}

#[test]
fn large_layers_take_one_pass_and_little_memory() {
    let numbers = [uniform(700_001, 1), uniform(1, 2), uniform(900_000, 3)].map(Numbers::of);
    let layers = numbers.each_ref().map(Numbers::layer);
    let scores = numbers.clone().map(|numbers| numbers.weights);
    for (k, seed) in [(1, 0), (800_000, 1), (800_000, 2), (1_600_002, 3), (5, 4)] {
        let goal = Goal { layers: &layers, formula: Formula::GIVEN, k };
        agree(&goal, &scores, seed);
        let (result, _) = masks(&goal, 0_u8, &|goal, masks| bracket(goal, seed, masks));
        assert_eq!(result.passes, 1);
        assert!(result.candidates < 60_000, "{result:?}");
        assert!(result.extra * 10 < goal.weights() * 5, "{result:?}");
    }
}

#[test]
fn what_is_pruned_already_is_no_burden() {
    // Half of the scores are 0: exactly `k` of them, one fewer, one more.
    let mut half = uniform(300_000, 5);
    half[..150_000].fill(0.0);
    let numbers = [Numbers::of(half)];
    let scores = numbers.clone().map(|numbers| numbers.weights);
    for k in [149_999, 150_000, 150_001] {
        let goal = Goal { layers: &[numbers[0].layer()], formula: Formula::GIVEN, k };
        agree(&goal, &scores, 0);
        let (result, _) = masks(&goal, 0_u8, &|goal, masks| bracket(goal, 0, masks));
        assert!(result.passes == 1 && result.candidates < 20_000, "{result:?}");
    }
}

#[test]
fn neighbors_that_are_alike_widen_the_bracket() {
    // Each score occurs 64 times in a row: a cluster of samples carries no more information than one number.
    let clusters: Vec<f32> = uniform(20_000, 6).into_iter().flat_map(|score| [score; 64]).collect();
    let numbers = [Numbers::of(clusters)];
    let goal = Goal { layers: &[numbers[0].layer()], formula: Formula::GIVEN, k: 500_000 };
    let passes: Vec<usize> =
        (0..20).map(|seed| masks(&goal, (), &|goal, masks| bracket(goal, seed, masks)).0.passes).collect();
    assert!(passes.iter().filter(|passes| **passes == 1).count() >= 19, "{passes:?}");
}

#[test]
fn not_a_number_is_an_error_that_says_where() {
    for length in [1, 100, 200_000] {
        for index in [0, length / 2, length - 1] {
            let mut with_nan = uniform(length, 7);
            with_nan[index] = f32::NAN;
            let numbers = [uniform(300, 8), with_nan, uniform(70_000, 9)].map(Numbers::of);
            let layers = numbers.each_ref().map(Numbers::layer);
            let goal = Goal { layers: &layers, formula: Formula::GIVEN, k: 150 };
            let mut masks = layers.map(|layer| vec![0_u8; layer.weights.len()]);
            let mut masks = masks.each_mut().map(|mask| &mut mask[..]);
            let error = NotANumber { layer: 1 };
            assert_eq!(bracket(&goal, 0, &mut masks), Err(error));
            assert_eq!(radix(&goal, &mut masks), Err(error));
            assert_eq!(by_bins(&goal, &mut masks), Err(error));
        }
    }
}

#[test]
fn more_weights_than_32_bits_count() {
    // The layers share memory. Every score occurs once per layer.
    let (length, count) = (1 << 18, 16_500);
    let scores: Vec<f32> = (0..length).map(|score| ((score * 7919) % length) as f32).collect();
    let layers = vec![Layer::of(&scores); count];
    let goal = |k| Goal { layers: &layers, formula: Formula::GIVEN, k };
    let weights = goal(1).weights();
    assert!(weights > 1 << 32);
    for k in [weights / 2, weights / 100 * 99] {
        let mut masks = vec![vec![(); length]; count];
        let mut masks: Vec<&mut [()]> = masks.iter_mut().map(|mask| &mut mask[..]).collect();
        let result = bracket(&goal(k), 0, &mut masks).unwrap();
        let expected = k.div_ceil(count) - 1;
        assert_eq!(result.threshold, expected as f32);
        assert_eq!(result.pruned.iter().sum::<usize>(), (expected + 1) * count);
    }
}

#[test]
fn bins_estimate() {
    let numbers = [uniform(300_000, 10), uniform(200_000, 11)].map(Numbers::of);
    let layers = numbers.each_ref().map(Numbers::layer);
    let goal = Goal { layers: &layers, formula: Formula::GIVEN, k: 250_000 };
    let (result, mask) = masks(&goal, 0_u8, &by_bins);
    let pruned_count = mask.iter().flatten().filter(|stays| **stays == 0).count();
    assert_eq!(result.pruned.iter().sum::<usize>(), pruned_count);
    assert!(pruned_count.abs_diff(goal.k) <= 500, "{pruned_count}");
    // One value, and a tail that leaves all but one score in the first bin.
    let constant = [Numbers::of(vec![2.0; 1000])];
    let goal = Goal { layers: &[constant[0].layer()], formula: Formula::GIVEN, k: 10 };
    assert_eq!(masks(&goal, 0_u8, &by_bins).0.pruned, [1000]);
    let mut tailed_scores = uniform(100_000, 12);
    tailed_scores[0] = 1e6;
    let tailed_scores = [Numbers::of(tailed_scores)];
    let goal = Goal { layers: &[tailed_scores[0].layer()], formula: Formula::GIVEN, k: 50_000 };
    assert!(masks(&goal, 0_u8, &by_bins).0.pruned[0].abs_diff(50_000) <= 100);
}

#[test]
fn masks_make_zeros() {
    let scores = uniform(1000, 13);
    let goal = Goal { layers: &[Layer::of(&scores)], formula: Formula::GIVEN, k: 300 };
    let output = |apply: &dyn Fn(&mut [&mut [f32]])| {
        let mut numbers = scores.clone();
        numbers[3] = f32::INFINITY;
        apply(&mut [&mut numbers]);
        numbers
    };
    let (result, bytes) = masks(&goal, 0_u8, &radix);
    let (_, bits) = masks(&goal, 0_u64, &radix);
    let (_, floats) = masks(&goal, 0.0_f32, &radix);
    let expected = output(&|numbers| {
        let pairs = numbers[0].iter_mut().zip(&scores);
        pairs.for_each(|(number, score)| *number = if *score > result.threshold { *number } else { 0.0 });
    });
    assert_eq!(output(&|numbers| apply(&bytes[0], numbers)), expected);
    assert_eq!(output(&|numbers| apply(&bits[0], numbers)), expected);
    assert_eq!(output(&|numbers| apply(&floats[0], numbers)), expected);
}
