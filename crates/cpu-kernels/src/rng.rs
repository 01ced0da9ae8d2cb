//! Random streams that depend on their role only.
//!
//! A stream is `ChaCha8` keyed by the blake3 digest of a job's seed and the stream's role. Drawing from one stream never
//! moves another, so the weights do not change when the data is read in another order, and a batch does not depend on
//! the batches before it.

use rand::RngCore;
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

/// The stream of `seed` for `role`, for example `"init"`, distinguished further by `name` and `index`.
pub fn stream(seed: u64, role: &str, name: &str, index: &[u64]) -> ChaCha8Rng {
    let mut hasher = blake3::Hasher::new_derive_key("sweep-lab random stream v1");
    hasher.update(&seed.to_le_bytes());
    // Lengths keep ("ab", "c") and ("a", "bc") apart.
    for part in [role, name] {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    for number in index {
        hasher.update(&number.to_le_bytes());
    }
    ChaCha8Rng::from_seed(*hasher.finalize().as_bytes())
}

/// A seed for a generator that is not ours, such as a backend's.
pub fn derived_seed(seed: u64, role: &str, index: &[u64]) -> u64 {
    stream(seed, role, "", index).next_u64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_differ_by_every_part_of_their_name() {
        let draws = [
            stream(0, "init", "a", &[]).next_u64(),
            stream(1, "init", "a", &[]).next_u64(),
            stream(0, "data", "a", &[]).next_u64(),
            stream(0, "init", "b", &[]).next_u64(),
            stream(0, "inita", "", &[]).next_u64(),
            stream(0, "init", "a", &[0]).next_u64(),
            stream(0, "init", "a", &[1]).next_u64(),
        ];
        for (index, draw) in draws.iter().enumerate() {
            assert!(!draws[..index].contains(draw), "stream {index} repeats another");
        }
        assert_eq!(stream(0, "init", "a", &[]).next_u64(), draws[0], "a stream is a function of its name");
    }
}
