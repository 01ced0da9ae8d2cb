//! Parts of the pairs that the harness does not expose.

use burn::{
    backend::{Flex, flex::FlexDevice},
    tensor::{Tensor, activation::softmax},
};
use proptest::prelude::*;
use sweep_job::tasks::{Attention, AttentionScore, AttentionVariant, KvCache, KvCacheVariant};

use super::{Contender, Meter, allocator::Pool, attention::slope, difference, flat, normal, tensor};

#[test]
fn differences_are_seen_and_so_is_what_is_no_number() {
    assert_eq!(difference(&[1.0, 2.0], &[1.0, 2.0]), 0.0);
    assert!((difference(&[1.0, 2.5], &[1.0, 2.0]) - 0.25).abs() < 1e-12);
    assert!(difference(&[1.0], &[1.0, 2.0]).is_nan(), "of another length");
    assert!(difference(&[f32::NAN, 1.0], &[0.0, 1.0]).is_nan());
    assert!(difference(&[1.0, f32::NAN], &[5.0, 1.0]).is_nan());
}

#[test]
fn slopes_are_exponents() {
    let power = |exponent: f64| [1.0, 2.0, 4.0].map(|x: f64| (x.ln(), (3.0 * x.powf(exponent)).ln()));
    assert!((slope(&power(2.0)) - 2.0).abs() < 1e-12);
    assert!((slope(&power(1.0)) - 1.0).abs() < 1e-12);
}

#[test]
fn a_pool_gives_what_was_given_back_by_size_class() {
    let mut pool = Pool::default();
    let block = pool.take(1000);
    assert_eq!((block.len(), pool.hits, pool.asked), (1024, 0, 1));
    pool.give(block);
    assert_eq!(pool.take(513).len(), 1024);
    assert_eq!((pool.hits, pool.asked), (1, 2));
    assert_eq!(pool.take(512).len(), 512, "another class");
    assert_eq!(pool.hits, 1);
}

/// With any cache, a token attends to the keys and values up to its own position, as in one pass with a mask.
#[test]
fn decoding_with_a_cache_is_causal_attention() {
    let device = FlexDevice;
    for variant in KvCacheVariant::ALL {
        let variant = *variant;
        let sizes =
            KvCache { batch_size: 2, n_layer: 1, n_head: 3, head_dim: 4, length: 11, page: 4, ..KvCache::default() };
        let pair = KvCache { variant, ..sizes };
        let mut call = pair.ready::<Flex>(7, &device).unwrap();
        // The second call finds the pages of the first.
        drop(call(&mut Meter::new(None)).unwrap());
        let output = call(&mut Meter::new(None)).unwrap().numbers().unwrap();
        let [q, k, v] = ["q", "k", "v"].map(|name| tensor::<Flex, 4>(7, name, 0, [2, 3, 11, 4], 1.0, &device));
        let mask = Tensor::<Flex, 2>::full([11, 11], f32::NEG_INFINITY, &device).triu(1);
        let scores = q.matmul(k.swap_dims(2, 3)) * 0.5 + mask.unsqueeze();
        let expected = flat(softmax(scores, 3).matmul(v)).into_data().into_vec::<f32>().unwrap();
        let error = difference(&output, &expected);
        assert!(error < 1e-5, "{variant}: {error}");
    }
}

/// Attention by its definition, number by number, in double precision.
fn by_definition(pair: &Attention, seed: u64) -> Vec<f32> {
    let Attention { batch_size, n_head, length, head_dim, score, window, .. } = *pair;
    let count = batch_size * n_head * length * head_dim;
    let [q, k, v] = ["q", "k", "v"].map(|name| normal(seed, name, 0, count, 1.0));
    let mut out = Vec::with_capacity(count);
    for head in 0..batch_size * n_head {
        let row = |numbers: &[f32], token: usize| -> Vec<f64> {
            let first = (head * length + token) * head_dim;
            numbers[first..first + head_dim].iter().map(|number| f64::from(*number)).collect()
        };
        let slope = 2_f64.powf(-8.0 * (head % n_head + 1) as f64 / n_head as f64);
        for query in 0..length {
            let weight = |key: usize| {
                let product: f64 = row(&q, query).iter().zip(row(&k, key)).map(|(q, k)| q * k).sum();
                let product = product / (head_dim as f64).sqrt();
                match score {
                    AttentionScore::None => product.exp(),
                    AttentionScore::RelativeBias => (product - slope * query.abs_diff(key) as f64).exp(),
                    AttentionScore::SlidingWindow if key <= query && query - key < window => product.exp(),
                    AttentionScore::SlidingWindow => 0.0,
                }
            };
            let weights: Vec<f64> = (0..length).map(weight).collect();
            let total: f64 = weights.iter().sum();
            out.extend((0..head_dim).map(|column| {
                let sum: f64 = weights.iter().enumerate().map(|(key, weight)| weight * row(&v, key)[column]).sum();
                #[expect(clippy::cast_possible_truncation, reason = "to compare with single precision")]
                let number = (sum / total) as f32;
                number
            }));
        }
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn attention_by_blocks_is_attention_by_definition(
        (batch_size, n_head, length, head_dim) in (1_usize..3, 1_usize..4, 4_usize..40, 1_usize..6),
        (window, block, score) in (1_usize..45, 1_usize..45, 0_usize..3),
        seed in 0_u64..100,
    ) {
        let score = AttentionScore::ALL[score];
        for variant in AttentionVariant::ALL {
            let variant = *variant;
            let pair = Attention { variant, batch_size, n_head, length, head_dim, score, window, block };
            let mut call = pair.ready::<Flex>(seed, &FlexDevice).unwrap();
            let output = call(&mut Meter::new(None)).unwrap().numbers().unwrap();
            let error = difference(&output, &by_definition(&pair, seed));
            prop_assert!(error < 1e-5, "{:?}: {}", pair, error);
        }
    }
}
