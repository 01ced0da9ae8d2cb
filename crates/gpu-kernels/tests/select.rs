//! Selection on a GPU, or on a software implementation of one, compared with sorting, bit by bit.
//!
//! The sorted scores are the scores as the device computes them: a GPU may round roots differently than the CPU.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod common;

use common::{Client, client, read};
use cubecl::prelude::CubeElement as _;
use proptest::{prelude::*, test_runner::TestRunner};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use sweep_gpu_kernels::{
    Formula, Found, Goal, Layer, MAX_LAYER_WEIGHTS, PRUNED, Reach, SelectError, bracket, radix, scores,
};
use sweep_job::tasks::{Prune, PruneMethod};

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

    /// Layers that have everything.
    fn full(lengths: &[usize], seed: u64, masked: bool) -> Vec<Self> {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut normal = |length: usize, scale: f32| -> Vec<f32> {
            (0..length).map(|_| (0..6).map(|_| random.random::<f32>() - 0.5).sum::<f32>() * scale).collect()
        };
        let layer = |length: &usize| {
            let weights = normal(*length, 0.02);
            let first = normal(*length, 1e-4);
            let second = normal(*length, 1e-4).into_iter().map(|root| root * root).collect();
            let origin = normal(*length, 0.02);
            let mask = normal(*length, 1.0).into_iter().map(|sign| f32::from(u8::from(sign > -0.3))).collect();
            Self { weights, moments: Some([first, second]), origin: Some(origin), mask: masked.then_some(mask) }
        };
        lengths.iter().map(layer).collect()
    }

    fn layer(&self, client: &Client) -> Layer {
        let upload = |numbers: &Vec<f32>| match &numbers[..] {
            [] => client.empty(4),
            numbers => client.create_from_slice(f32::as_bytes(numbers)),
        };
        Layer {
            length: self.weights.len(),
            weights: upload(&self.weights),
            moments: self.moments.as_ref().map(|moments| moments.each_ref().map(upload)),
            origin: self.origin.as_ref().map(upload),
            mask: self.mask.as_ref().map(upload),
        }
    }
}

/// The scores of all layers as the device computes them, 0 for -0.
fn device_scores(client: &Client, goal: &Goal<'_>) -> Vec<Vec<f32>> {
    let layer = |layer: &Layer| {
        let found = read(client, &scores(client, layer, &goal.formula), layer.length);
        found.into_iter().map(|score| if score == 0.0 { 0.0 } else { score }).collect()
    };
    goal.layers.iter().map(layer).collect()
}

/// Asserts that `found` equals the result of sorting the scores.
fn assert_right(client: &Client, goal: &Goal<'_>, scores: &[Vec<f32>], found: &Found, way: &str) {
    let mut sorted = scores.concat();
    sorted.sort_by(f32::total_cmp);
    let threshold = goal.k.checked_sub(1).map(|place| sorted[place]);
    assert_eq!(found.threshold.map(f32::to_bits), threshold.map(f32::to_bits), "{way}: {:?}", found.threshold);
    for (layer, scores) in scores.iter().enumerate() {
        let stays = |score: &f32| threshold.is_none_or(|threshold| *score > threshold);
        let wanted: Vec<f32> = scores.iter().map(|score| f32::from(u8::from(stays(score)))).collect();
        let mask = read(client, &found.masks[layer], scores.len());
        let different = (0..mask.len()).filter(|at| mask[*at] != wanted[*at]).count();
        assert_eq!(different, 0, "{way}, layer {layer}: weights that have another mask");
        assert_eq!(found.pruned[layer], wanted.iter().filter(|stays| **stays == 0.0).count(), "{way}, layer {layer}");
    }
    assert!(found.pruned.iter().sum::<usize>() >= goal.k);
}

/// Asserts that every algorithm finds the result of sorting.
fn agree(client: &Client, goal: &Goal<'_>, seed: u64) {
    let scores = device_scores(client, goal);
    assert_right(client, goal, &scores, &radix(client, goal).unwrap(), "radix");
    // The usual bracket, a bracket that often misses, a bracket of all scores, and a bracket without enough room.
    for (deviations, room) in [(3.3, 4.0), (0.0, 4.0), (1e9, 1e9), (1.0, 0.1)] {
        let reach = Reach { few: 1, deviations, room };
        let found = bracket(client, goal, &reach, seed).unwrap();
        assert_right(client, goal, &scores, &found, &format!("{reach:?}, {} passes", found.passes));
        assert_eq!(found.readings == 1, found.passes == 1 || found.candidates == 0 && found.passes == 4 || goal.k == 0);
    }
}

fn given(client: &Client, layers: &[Vec<f32>], ks: &[usize]) {
    let layers: Vec<Layer> = layers.iter().map(|weights| Numbers::of(weights.clone()).layer(client)).collect();
    for k in ks {
        agree(client, &Goal { layers: &layers, formula: Formula::GIVEN, k: *k }, *k as u64);
    }
}

/// The score of a weight, as the formulas are written down, one number at a time.
fn expected_score(settings: &Prune, correction: f32, numbers: &Numbers, at: usize) -> f32 {
    use PruneMethod::{Bitter0, Bitter3, Bitter4, Bitter5, Bitter6, Bitter7, Bitter8, Bitter9, Movement};
    if numbers.mask.as_ref().is_some_and(|mask| mask[at] == 0.0) {
        return PRUNED;
    }
    let w = numbers.weights[at];
    #[expect(clippy::cast_possible_truncation, reason = "scores are in single precision")]
    let e = settings.score_epsilon as f32;
    let sign = if w == 0.0 { 0.0 } else { w.signum() };
    match (settings.prune, &numbers.moments) {
        (Movement, _) => w * (w - numbers.origin.as_ref().map_or(w, |origin| origin[at])),
        (method, Some([m, v])) => {
            let (m, v) = (m[at], v[at]);
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
    }
}

#[test]
fn every_formula_is_what_is_written_down_and_selects_what_sorting_selects() {
    let client = client!();
    for method in PruneMethod::ALL {
        let settings = Prune { prune: *method, ..Prune::default() };
        let formula = Formula::new(&settings, 0.5);
        for masked in [false, true] {
            let mut numbers = Numbers::full(&[300, 1, 0, 700], 5, masked);
            // A layer that has seen no step.
            numbers[1].moments = None;
            numbers[1].origin = None;
            let layers: Vec<Layer> = numbers.iter().map(|numbers| numbers.layer(client)).collect();
            let goal = Goal { layers: &layers, formula, k: 500 };
            for (numbers, found) in numbers.iter().zip(device_scores(client, &goal)) {
                for (at, found) in found.into_iter().enumerate() {
                    let wanted = expected_score(&settings, 0.5, numbers, at);
                    assert!((found - wanted).abs() <= 1e-5 * wanted.abs().max(1e-3), "{method}: {found} for {wanted}");
                }
            }
            agree(client, &goal, 1);
        }
    }
}

#[test]
fn ties_zeros_infinities_and_denormals() {
    let client = client!();
    let tiny = f32::from_bits(1);
    let special =
        vec![0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, f32::MIN, tiny, -tiny, 1.0, PRUNED, -0.0, 0.0];
    let ks: Vec<usize> = (0..=special.len()).collect();
    given(client, &[special], &ks);
    // One value, at more than one cube's worth of places; two; none; one weight.
    given(client, &[vec![3.0; 9000]], &[0, 1, 4500, 9000]);
    given(client, &[vec![f32::NEG_INFINITY; 300], vec![f32::INFINITY; 300]], &[0, 1, 300, 301, 600]);
    given(client, &[vec![0.0; 300], vec![-0.0; 300]], &[1, 300, 301, 600]);
    given(client, &[], &[0]);
    given(client, &[vec![]], &[0]);
    given(client, &[vec![], vec![-2.0], vec![]], &[0, 1]);
    // Half of the weights are 0, as after an earlier choice.
    let half: Vec<f32> = (0..6000_u16).map(|index| if index % 2 == 0 { 0.0 } else { f32::from(index) }).collect();
    given(client, &[half.clone(), half], &[1, 5999, 6000, 6001, 9000, 11_999, 12_000]);
    // Ranks that differ in one bit only.
    for bit in 0..31 {
        let pair = [0x4040_0000_u32, 0x4040_0000 ^ (1 << bit)].map(f32::from_bits);
        if pair.iter().all(|score| !score.is_nan()) {
            given(client, &[pair.repeat(20)], &[20, 21]);
        }
    }
}

#[test]
fn the_usual_bracket_needs_one_pass_and_one_reading() {
    let client = client!();
    let numbers = Numbers::full(&[150_000, 70_000, 30_011], 9, false);
    let layers: Vec<Layer> = numbers.iter().map(|numbers| numbers.layer(client)).collect();
    let settings = Prune { prune: PruneMethod::Bitter7, ..Prune::default() };
    for k in [1, 25_000, 125_000, 225_000, 250_011] {
        let goal = Goal { layers: &layers, formula: Formula::new(&settings, 1.0), k };
        let scores = device_scores(client, &goal);
        for seed in [1, 2] {
            let found = bracket(client, &goal, &Reach::default(), seed).unwrap();
            assert_right(client, &goal, &scores, &found, "bracket");
            assert_eq!((found.passes, found.readings), (1, 1), "{k} with seed {seed}");
            assert!(found.candidates < 20_000, "{}", found.candidates);
        }
        agree(client, &goal, 3);
    }
}

#[test]
fn a_bracket_that_misses_or_overflows_costs_a_second_reading() {
    let client = client!();
    let mut random = ChaCha8Rng::seed_from_u64(4);
    let weights: Vec<f32> = (0..20_000).map(|_| random.random::<f32>()).collect();
    let layers = [Numbers::of(weights).layer(client)];
    let goal = Goal { layers: &layers, formula: Formula::GIVEN, k: 10_000 };
    let scores = device_scores(client, &goal);
    let mut missed = 0;
    for seed in 0..8 {
        let narrow = Reach { few: 1, deviations: 0.0, room: 4.0 };
        let found = bracket(client, &goal, &narrow, seed).unwrap();
        assert_right(client, &goal, &scores, &found, "narrow");
        missed += usize::from(found.readings == 2);
    }
    assert!(missed > 2, "{missed} of 8");
    let cramped = Reach { few: 1, deviations: 3.3, room: 0.001 };
    let found = bracket(client, &goal, &cramped, 0).unwrap();
    assert_right(client, &goal, &scores, &found, "cramped");
    assert_eq!((found.passes, found.readings, found.candidates), (5, 2, 1));
}

#[test]
fn nan_names_its_layer() {
    let client = client!();
    for (bits, k) in [(0x7fc0_0000, 5), (0xffc0_0001, 5), (0x7f80_0001, 1), (0xffff_ffff, 30), (0x7fc0_0000, 0)] {
        let mut layers = vec![vec![1.0_f32; 10]; 4];
        layers[2][7] = f32::from_bits(bits);
        layers[3][0] = f32::from_bits(bits);
        let layers: Vec<Layer> = layers.into_iter().map(|weights| Numbers::of(weights).layer(client)).collect();
        let goal = Goal { layers: &layers, formula: Formula::GIVEN, k };
        let few = Reach { few: 1, ..Reach::default() };
        for found in
            [radix(client, &goal), bracket(client, &goal, &few, 1), bracket(client, &goal, &Reach::default(), 1)]
        {
            let error = found.unwrap_err();
            assert!(matches!(error, SelectError::NotANumber { layer: 2 }), "{error}");
        }
    }
}

#[test]
fn what_cannot_be_counted_is_refused() {
    let client = client!();
    let numbers = Numbers::of(vec![1.0]).layer(client);
    let of = |length| Layer { length, ..numbers.clone() };
    let refused = |layers: &[Layer], k| {
        let goal = Goal { layers, formula: Formula::GIVEN, k };
        let [radix, bracket] = [radix(client, &goal), bracket(client, &goal, &Reach::default(), 1)];
        let error = radix.unwrap_err().to_string();
        assert_eq!(bracket.unwrap_err().to_string(), error);
        error
    };
    assert_eq!(refused(&[of(1), of(1)], 3), "cannot prune 3 of 2 weights");
    assert_eq!(
        refused(&[of(1), of(MAX_LAYER_WEIGHTS + 1)], 1),
        "layer 1 has 2147483649 weights; on a GPU at most 2147483648 can be compared"
    );
    assert_eq!(
        refused(&[of(MAX_LAYER_WEIGHTS), of(MAX_LAYER_WEIGHTS)], 1),
        "the layers have 4294967296 weights; on a GPU at most 4294967295 can be compared"
    );
}

/// Scores that are hard to select among: one kind of numbers for a list.
fn hard_scores() -> impl Strategy<Value = Vec<f32>> {
    let special = prop_oneof![
        Just(0.0_f32),
        Just(-0.0),
        Just(f32::INFINITY),
        Just(f32::NEG_INFINITY),
        Just(f32::MIN_POSITIVE),
        Just(f32::from_bits(1)),
        Just(-f32::from_bits(1)),
        Just(1.0),
        Just(1.0_f32.next_up()),
        Just(PRUNED),
    ];
    let bits = any::<u32>().prop_map(f32::from_bits).prop_filter("NaN has no order", |score| !score.is_nan());
    let near = (0_u32..64).prop_map(|bits| f32::from_bits(0x3f80_0000 + bits));
    let long = 0..600_usize;
    prop_oneof![
        prop::collection::vec(special, long.clone()),
        prop::collection::vec(bits, long.clone()),
        prop::collection::vec(near, long),
    ]
}

#[test]
fn every_way_finds_what_sorting_finds() {
    const CASES: u32 = 64;
    let client = client!();
    let mut runner =
        TestRunner::new(ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() });
    let input = (prop::collection::vec(hard_scores(), 1..4), any::<prop::sample::Index>(), any::<u64>());
    let tested = runner.run(&input, |(layers, place, seed)| {
        let weights: usize = layers.iter().map(Vec::len).sum();
        let layers: Vec<Layer> = layers.into_iter().map(|weights| Numbers::of(weights).layer(client)).collect();
        let goal = Goal { layers: &layers, formula: Formula::GIVEN, k: place.index(weights + 1) };
        agree(client, &goal, seed);
        Ok(())
    });
    tested.unwrap();
}
