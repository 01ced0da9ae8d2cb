//! Searches compared with NumPy (`scripts/threshold-vectors.py`) and with sorted references.

use burn::{
    backend::{Flex, flex::FlexDevice},
    tensor::{FloatDType, Tensor},
};
use proptest::prelude::*;
use serde::Deserialize;
use sweep_job::tasks::ThresholdSearch;

use super::{search::by_operation, *};

/// The searches that find the k-th smallest score itself.
const EXACT: [ThresholdSearch; 4] =
    [ThresholdSearch::Sort, ThresholdSearch::TopK, ThresholdSearch::Quickselect, ThresholdSearch::TopKIndices];

#[derive(Deserialize)]
struct Case {
    name: String,
    scores: Vec<f32>,
    sparsity: f64,
    k: usize,
    f32: Expected,
    bf16: Expected,
}

#[derive(Deserialize)]
struct Expected {
    threshold: f32,
    pruned: f64,
    ties: f64,
    quantile: f64,
}

/// `scores` as two layers.
fn layers(scores: &[f32]) -> Vec<Tensor<Flex, 1>> {
    let (left, right) = scores.split_at(scores.len() / 2);
    [left, right].map(|part| Tensor::from_floats(part, &FlexDevice)).into()
}

#[test]
fn thresholds_ties_and_quantiles_are_those_of_numpy() {
    let cases: Vec<Case> = serde_json::from_str(include_str!("testdata/thresholds.json")).unwrap();
    for case in cases {
        let tensors = layers(&case.scores);
        let rounded_tensors =
            tensors.iter().map(|part| part.clone().cast(FloatDType::BF16).cast(FloatDType::F32)).collect();
        for (scores, expected) in [(tensors, case.f32), (rounded_tensors, case.bf16)] {
            for method in EXACT {
                let threshold = by_operation(&scores, method, case.k, case.sparsity).unwrap();
                assert_eq!(threshold.to_bits(), expected.threshold.to_bits(), "{}: {method}", case.name);
            }
            let quantile = by_operation(&scores, ThresholdSearch::Quantile, case.k, case.sparsity).unwrap();
            assert!((f64::from(quantile) - expected.quantile).abs() < 1e-7, "{}: {quantile}", case.name);
            let numbers = all_of(&scores).unwrap();
            assert_eq!(pruned_by(&numbers, expected.threshold), expected.pruned, "{}", case.name);
            let ties = numbers.iter().filter(|score| score.to_bits() == expected.threshold.to_bits()).count();
            assert_eq!(ties as f64 / numbers.len() as f64, expected.ties, "{}", case.name);
        }
    }
}

proptest! {
    #[test]
    fn searches_find_what_sorting_finds(
        scores in prop::collection::vec(prop_oneof![Just(0.0_f32), Just(0.5), -1e3_f32..1e3, 0.0_f32..1e-30], 4..200),
        part in 0.0_f64..=1.0,
    ) {
        let mut sorted = scores.clone();
        sorted.sort_by(f32::total_cmp);
        let k = part_of(part, scores.len()).max(1);
        for method in EXACT {
            let threshold = by_operation(&layers(&scores), method, k, part).unwrap();
            prop_assert_eq!(threshold, sorted[k - 1], "{} of {:?}", method, scores);
        }
        let quantile = by_operation(&layers(&scores), ThresholdSearch::Quantile, k, part).unwrap();
        let place = part * (scores.len() - 1) as f64;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "places among the scores")]
        let (low, high) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
        prop_assert!(low <= quantile && quantile <= high, "{low} {quantile} {high}");
    }
}
