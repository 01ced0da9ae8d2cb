//! `uses: tokenize`: a text as tokens.

use sweep_job::{Outcome, tasks::Tokenize};

use super::{Context, Run};
use crate::{
    LabError,
    data::{Dataset, Tokenizer},
};

impl Run for Tokenize {
    fn run(&self, Context { folders, report, .. }: Context<'_>) -> Result<Outcome, LabError> {
        let settings = &self.tokenizing;
        let (text, held_out) = Dataset::text(&settings.data)?;
        let (vocab_size, min_frequency) = (settings.vocab_size(), settings.min_frequency());
        let tokenizer = match &settings.tokenizer {
            Some(path) => Tokenizer::open(&path.0)?,
            None => Tokenizer::train(&text[..held_out], vocab_size, min_frequency)?,
        };
        let meta = tokenizer.write_folder(&text, held_out, &folders.files.join(Self::FOLDER))?;
        if settings.tokenizer.is_none() && meta.vocab_size < vocab_size {
            report.note(&format!(
                "the tokenizer has {} tokens instead of {vocab_size}: no further pair occurs {min_frequency} times",
                meta.vocab_size
            ));
        }

        let mut outcome = Outcome::default();
        outcome.artifacts.insert(Self::FOLDER.to_owned(), Self::FOLDER.to_owned());
        outcome.set(&Self::VOCABULARY, meta.vocab_size as f64);
        outcome.set(&Self::TOKENS, meta.train.tokens as f64);
        outcome.set(&Self::TOKENS_HELD_OUT, meta.validation.tokens as f64);
        if let Some(bytes) = meta.bytes_per_token() {
            outcome.set(&Self::BYTES_PER_TOKEN, bytes);
        }
        Ok(outcome)
    }
}
