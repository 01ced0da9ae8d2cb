//! `uses: tokenize`.

use super::data::Corpus;
use crate::{Conflict, Group, MetricInfo, Param, Path, TaskSpec, Values, metric::metrics, params::params};

params! {
    /// The text and its tokenizer.
    pub struct Tokenizing {
        /// Text: `kjv` (public-domain text included in the program), `stories` (short stories generated from a grammar), or a
        /// UTF-8 file. The last tenth is held out: a tokenizer is trained without it.
        data: Corpus = Corpus::Kjv;
        /// Tokenizer in the format of Hugging Face's `tokenizers`: a file `tokenizer.json`, or a folder with one. By
        /// default, a byte-level BPE tokenizer, as GPT-2 has, is trained on the text.
        tokenizer: Option<Path> = None;
        /// Number of tokens of a trained tokenizer; by default 4096. Texts with few different words yield fewer
        /// tokens.
        vocab_size: Option<usize> = None, in 257..=65_536;
        /// Minimum number of occurrences of a pair that training merges; by default 2.
        min_frequency: Option<usize> = None, in 1..=1_000_000_000;
    }
}

/// Converts a text to tokens, with a given tokenizer or one trained on the text.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Tokenize {
    /// The text and its tokenizer.
    pub tokenizing: Tokenizing,
}

metrics! {
    impl Tokenize {
        /// Number of tokens of the tokenizer.
        VOCABULARY: Count = "vocabulary";
        /// Tokens of the training part.
        TOKENS: Count = "tokens";
        /// Tokens of the held-out part.
        TOKENS_HELD_OUT: Count = "tokens.held_out";
        /// Bytes of the held-out part's text per token.
        BYTES_PER_TOKEN: One = "bytes_per_token";
    }
}

impl TaskSpec for Tokenize {
    const NAME: &'static str = "tokenize";
    const ABOUT: &'static str = "converts a text to tokens, with a given tokenizer or one trained on it";
    const HEADLINE: &'static [&'static str] = &["vocabulary", "bytes_per_token"];

    const GROUPS: &'static [&'static [Param]] = &[Tokenizing::PARAMS];

    const METRICS: &'static [&'static [MetricInfo]] = &[Self::DECLARED];

    fn build(values: &Values) -> Option<Self> {
        Some(Self { tokenizing: Tokenizing::from_values(values)? })
    }

    fn conflicts(values: &Values) -> Vec<Conflict> {
        let Some(Self { tokenizing }) = Self::build(values) else { return Vec::new() };
        let of_training =
            [("vocab_size", tokenizing.vocab_size.is_some()), ("min_frequency", tokenizing.min_frequency.is_some())];
        let given = of_training.into_iter().filter(|(_, is_given)| *is_given && tokenizing.tokenizer.is_some());
        given
            .map(|(name, _)| Conflict {
                params: vec![name, "tokenizer"],
                message: format!("`{name}` conflicts with `tokenizer`, which is not trained"),
                advice: format!("remove `{name}` or `tokenizer`"),
            })
            .collect()
    }

    fn artifacts(_: &Values) -> Vec<String> {
        vec![Self::FOLDER.to_owned()]
    }
}

impl Tokenize {
    /// The name of the artifact: a folder with `train.bin`, `val.bin`, `tokenizer.json` and `meta.json`.
    pub const FOLDER: &'static str = "tokens";
}

impl Tokenizing {
    /// Number of tokens of a trained tokenizer.
    pub fn vocab_size(&self) -> usize {
        self.vocab_size.unwrap_or(4096)
    }

    /// Smallest number of occurrences of a pair that training merges.
    pub fn min_frequency(&self) -> usize {
        self.min_frequency.unwrap_or(2)
    }
}
