//! Words as tokens: generated words, with frequencies as in a natural language, or the words of a text file.

use std::{collections::HashMap, path::Path};

use rand::Rng;
use rand_distr::{Distribution as _, Zipf};
use sweep_job::tasks::{K1Data, Words};

use super::{DataError, Dataset, source::HELD_OUT};
use crate::rng;

/// The tokens that `data` describes, with ids below `vocab_size`.
pub fn words(data: &K1Data, vocab_size: usize) -> Result<Dataset, DataError> {
    Ok(match &data.data {
        Words::Zipf => Dataset::of_ids("zipf".into(), generated(data, vocab_size), vocab_size),
        Words::Path(path) => Dataset::of_ids(path.display().to_string(), of_text(path, vocab_size)?, vocab_size),
    })
}

/// Tokens of which a part follows from the one before: every token has one successor, drawn as the tokens are, so that these
/// are about as frequent as those.
fn generated(data: &K1Data, vocab_size: usize) -> Vec<u32> {
    // The distribution accepts the whole ranges of the parameters; without a distribution, only the first token is drawn.
    let zipf = Zipf::new(vocab_size as f64, data.zipf_exponent).ok();
    let draw = |rng: &mut _| zipf.map_or(0, |zipf| rank(zipf.sample(rng), vocab_size));
    let mut rng = rng::stream(0, "zipf", "successors", &[vocab_size as u64]);
    let successors: Vec<u32> = (0..vocab_size).map(|_| draw(&mut rng)).collect();
    let mut rng = rng::stream(0, "zipf", "tokens", &[vocab_size as u64]);
    let mut previous_token = 0;
    let tokens = (0..data.zipf_tokens).map(|_| {
        let follows = rng.random::<f64>() < data.markov;
        let new_token = draw(&mut rng);
        previous_token = if follows { successors[previous_token as usize] } else { new_token };
        previous_token
    });
    tokens.collect()
}

/// A rank, counted from 1, as a token.
fn rank(rank: f64, vocab_size: usize) -> u32 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rank is a whole number from 1")]
    let token = rank as u32 - 1;
    token.min(u32::try_from(vocab_size - 1).unwrap_or(u32::MAX))
}

/// The lower-cased words of a file. Token 0 is every word that is not among the `vocab_size - 1` most frequent of the part
/// that is trained on; of equally frequent ones the first by alphabet is taken.
fn of_text(path: &Path, vocab_size: usize) -> Result<Vec<u32>, DataError> {
    let bytes = fs_err::read(path).map_err(DataError::Read)?;
    let text = std::str::from_utf8(&bytes)
        .map_err(|error| DataError::NotUtf8 { path: path.to_owned(), offset: error.valid_up_to() })?
        .to_lowercase();
    let words: Vec<&str> = text.split_whitespace().collect();
    let train_count = words.len() - words.len() / HELD_OUT;
    let mut counts: HashMap<&str, u64> = HashMap::new();
    for word in &words[..train_count] {
        *counts.entry(word).or_default() += 1;
    }
    let mut ranking: Vec<(&str, u64)> = counts.into_iter().collect();
    ranking
        .sort_unstable_by(|(left, left_count), (right, right_count)| right_count.cmp(left_count).then(left.cmp(right)));
    let ids: HashMap<&str, u32> = ranking.into_iter().take(vocab_size - 1).map(|(word, _)| word).zip(1..).collect();
    Ok(words.into_iter().map(|word| ids.get(word).copied().unwrap_or(0)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(data: &K1Data, vocab_size: usize) -> Vec<u32> {
        let Dataset { train, validation, .. } = words(data, vocab_size).unwrap();
        let read_all = |tokens: &super::super::Tokens| -> Vec<u32> {
            (0..tokens.len()).map(|index| tokens.get(index, vocab_size).unwrap()).collect()
        };
        [read_all(&train), read_all(&validation)].concat()
    }

    #[test]
    fn generated_tokens_have_the_frequencies_asked_for() {
        let data = K1Data { zipf_tokens: 200_000, markov: 0.0, ..K1Data::default() };
        let ids = tokens(&data, 1000);
        assert_eq!(ids.len(), 200_000);
        let part = |token| ids.iter().filter(|id| **id == token).count() as f64 / ids.len() as f64;
        let normalizer: f64 = (1..=1000).map(|rank| f64::from(rank).powf(-1.1)).sum();
        for token in [0_u32, 1, 9] {
            let expected = f64::from(token + 1).powf(-1.1) / normalizer;
            assert!((part(token) / expected - 1.0).abs() < 0.05, "{token}: {} of {expected}", part(token));
        }
        assert_eq!(ids, tokens(&data, 1000), "the same for everybody");
    }

    #[test]
    fn a_part_of_the_tokens_follows_from_the_one_before() {
        let pairs = |markov| {
            let ids = tokens(&K1Data { zipf_tokens: 100_000, markov, ..K1Data::default() }, 100);
            // How often the commonest successor of a token comes after it, over all.
            let mut counts = vec![[0_u32; 100]; 100];
            ids.windows(2).for_each(|pair| counts[pair[0] as usize][pair[1] as usize] += 1);
            let hits: u32 = counts.iter().filter_map(|row| row.iter().max()).sum();
            f64::from(hits) / ids.len() as f64
        };
        let (chance, share) = (pairs(0.0), pairs(0.5));
        assert!(share > 0.5 && share < 0.5 + chance, "{share}, by chance {chance}");
        assert!((pairs(1.0) - 1.0).abs() < 1e-3);
    }

    #[test]
    fn words_of_a_file_are_ranked_by_frequency() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("text.txt");
        // The last two of the 21 words are held out, so `zebra` is unknown.
        let text = "the cat The dog\nthe end a b c d e f g h i j k l m THE zebra";
        std::fs::write(&path, text).unwrap();
        let data = K1Data { data: Words::Path(path.clone()), ..K1Data::default() };
        let ids = tokens(&data, 4);
        // `the`, then by alphabet `a`, `b`.
        assert_eq!(ids, [1, 0, 1, 0, 1, 0, 2, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0]);
        std::fs::write(&path, [b'a', 0xff]).unwrap();
        assert!(matches!(words(&data, 4), Err(DataError::NotUtf8 { offset: 1, .. })));
    }
}
