//! Parts of the pairs that the harness does not expose.

use burn::{
    backend::{Flex, flex::FlexDevice},
    tensor::{Tensor, activation::softmax},
};
use sweep_job::tasks::{KvCache, KvCacheVariant};

use super::{Contender, Meter, allocator::Pool, attention::slope, difference, flat, tensor};

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

/// Whatever keeps keys and values, a token sees those up to its own, as in one pass with a mask.
#[test]
fn decoding_with_a_cache_is_causal_attention() {
    let device = FlexDevice;
    for variant in KvCacheVariant::ALL {
        let pair =
            KvCache { variant: *variant, batch_size: 2, n_layer: 1, n_head: 3, head_dim: 4, length: 11, page: 4 };
        let mut call = pair.ready::<Flex>(7, &device).unwrap();
        // The second call finds the pages of the first.
        drop(call(&mut Meter::new(None)).unwrap());
        let found = call(&mut Meter::new(None)).unwrap().numbers().unwrap();
        let [q, k, v] = ["q", "k", "v"].map(|name| tensor::<Flex, 4>(7, name, 0, [2, 3, 11, 4], 1.0, &device));
        let mask = Tensor::<Flex, 2>::full([11, 11], f32::NEG_INFINITY, &device).triu(1);
        let scores = q.matmul(k.swap_dims(2, 3)) * 0.5 + mask.unsqueeze();
        let expected = flat(softmax(scores, 3).matmul(v)).into_data().into_vec::<f32>().unwrap();
        let error = difference(&found, &expected);
        assert!(error < 1e-5, "{variant}: {error}");
    }
}
