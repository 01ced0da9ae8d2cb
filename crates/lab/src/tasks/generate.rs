//! `uses: generate`: text from a network, token by token, with a cache of keys and values.

use std::{path::Path, time::Instant};

use burn::tensor::{Int, Tensor, TensorData};
use rand::Rng;
use sweep_job::{
    Outcome, Progress, Report,
    tasks::{Generate, Generating, NetworkMetrics, WorkerMetrics},
};

use super::{Context, Run, network};
use crate::{
    Folders, LabError,
    backend::{BackendTask, Compute, dispatch_eager},
    data::Tokenizer,
    device::read::host,
    measure,
    model::{self, Cache, Gpt, Network as _, VOCAB_BYTES},
    rng,
};

/// The file that the artifact is.
const FILE: &str = "text.txt";
/// Characters of the text that a note has room for.
const NOTED: usize = 400;

impl Run for Generate {
    fn run(&self, Context { backend, folders, report }: Context<'_>) -> Result<Outcome, LabError> {
        dispatch_eager(backend, Job { generate: self, folders, report })
    }
}

/// Text to write.
struct Job<'a> {
    generate: &'a Generate,
    folders: &'a Folders,
    report: &'a mut dyn Report,
}

impl BackendTask for Job<'_> {
    type Output = Outcome;

    fn run<B: Compute>(self, device: &B::Device) -> Result<Outcome, LabError> {
        let Self { generate, folders, report } = self;
        let settings = &generate.generating;
        let network = network::<B>(&generate.model, &generate.architecture, VOCAB_BYTES, settings.seed, device)?;
        let vocab_size = network.dims().vocab_size;
        let codec = Codec::new(settings.tokenizer.as_ref().map(|path| &*path.0), vocab_size)?;
        let mut tokens = codec.encode(&settings.prompt)?;
        let mut reader = Reader::<B>::new(&network, &tokens, device);
        let mut random = rng::stream(settings.seed, "generate", "", &[]);
        let mut seconds = Vec::with_capacity(settings.max_new_tokens);
        for index in 0..settings.max_new_tokens {
            let start = Instant::now();
            let logits = reader.after(&tokens)?;
            tokens.push(choose(&logits, settings, &mut random));
            seconds.push(start.elapsed().as_secs_f64());
            let (done, total) = (index as u64 + 1, settings.max_new_tokens as u64);
            report.progress(Progress { done, total, ..Progress::default() });
        }

        let text = codec.decode(&tokens)?;
        let path = folders.files.join(FILE);
        fs_err::write(&path, &text).map_err(|source| LabError::Write { path, source })?;
        report.note(&shortened(&text));
        let mut outcome = Outcome::default();
        outcome.artifacts.insert(Generate::TEXT.to_owned(), FILE.to_owned());
        outcome.set(&Generate::TIME_PROMPT, seconds.remove(0));
        let total: f64 = seconds.iter().sum();
        if let Some(median) = measure::median(&mut seconds) {
            outcome.set(&Generate::TIME_TOKEN, median);
            outcome.set(&Generate::TOKENS_PER_S, seconds.len() as f64 / total);
        }
        outcome.set(&Generate::MEMORY_CACHE, (reader.cache.numbers() * size_of::<f32>()) as f64);
        if let Some(bytes) = measure::peak_memory() {
            outcome.set(&WorkerMetrics::MEMORY_PEAK, bytes);
        }
        let parameters: usize = model::infos(&network).iter().map(model::ParamInfo::len).sum();
        outcome.set(&NetworkMetrics::PARAMETERS, parameters as f64);
        Ok(outcome)
    }
}

/// A network that reads a growing text. It sees `block_size` tokens at most: when they are full, it forgets the older half
/// of them and reads the newer half again, because positions are learned and begin at 0.
struct Reader<'a, B: Compute> {
    network: &'a Gpt<B>,
    device: &'a B::Device,
    cache: Cache<B>,
    /// The place in the text of the first token that the cache has.
    begin: usize,
}

impl<'a, B: Compute> Reader<'a, B> {
    fn new(network: &'a Gpt<B>, text: &[u32], device: &'a B::Device) -> Self {
        let begin = text.len().saturating_sub(network.dims().block_size);
        Self { network, device, cache: Cache::new(network.h.len()), begin }
    }

    /// The logits of the token after `text`, which begins with the text of earlier calls.
    fn after(&mut self, text: &[u32]) -> Result<Vec<f32>, LabError> {
        let room = self.network.dims().block_size;
        if self.cache.len() == room {
            self.cache = Cache::new(self.network.h.len());
            self.begin = text.len() - (room / 2).max(1);
        }
        let mut logits = None;
        for token in &text[self.begin + self.cache.len()..] {
            let token = TensorData::new(vec![i64::from(*token)], [1, 1]);
            let token = Tensor::<B, 2, Int>::from_data(token, self.device);
            logits = Some(self.network.decode(token, &mut self.cache)?);
        }
        match logits {
            Some(logits) => {
                let numbers = self.network.dims().vocab_size;
                host(logits.reshape([numbers]))
            }
            None => Err(LabError::Dimensions("there is no text to continue".into())),
        }
    }
}

/// The next token.
fn choose(logits: &[f32], settings: &Generating, random: &mut impl Rng) -> u32 {
    let mut order: Vec<u32> = (0..).take(logits.len()).collect();
    let logit = |token: &u32| f64::from(logits[*token as usize]);
    // Of equal tokens the first leads: the order is the same on every machine.
    order.sort_by(|a, b| logit(b).total_cmp(&logit(a)));
    order.truncate(settings.top_k.unwrap_or(usize::MAX));
    let best_token = order.first().copied().unwrap_or_default();
    if settings.temperature == 0.0 {
        return best_token;
    }
    let max_logit = logit(&best_token);
    let weights: Vec<f64> =
        order.iter().map(|token| ((logit(token) - max_logit) / settings.temperature).exp()).collect();
    let mut remainder = random.random::<f64>() * weights.iter().sum::<f64>();
    for (token, weight) in order.iter().zip(&weights) {
        remainder -= weight;
        if remainder < 0.0 {
            return *token;
        }
    }
    best_token
}

/// The form of a network's tokens as text.
#[derive(Debug)]
enum Codec {
    Tokenizer(Box<Tokenizer>),
    Bytes,
    /// Token ids separated by spaces, below a vocabulary's size.
    Ids(usize),
}

impl Codec {
    /// The tokenizer at `path`; else bytes or ids, for a network with a vocabulary of `vocab_size` tokens.
    fn new(path: Option<&Path>, vocab_size: usize) -> Result<Self, LabError> {
        let Some(path) = path else {
            return Ok(if vocab_size == VOCAB_BYTES { Self::Bytes } else { Self::Ids(vocab_size) });
        };
        let tokenizer = Tokenizer::open(path)?;
        let tokens = tokenizer.vocab_size();
        if tokens <= vocab_size {
            return Ok(Self::Tokenizer(Box::new(tokenizer)));
        }
        Err(LabError::Dimensions(format!(
            "`tokenizer: {}` has {tokens} tokens, but the network has {vocab_size}: use the tokenizer of its training",
            path.display()
        )))
    }

    /// The tokens of `prompt`, at least one.
    fn encode(&self, prompt: &str) -> Result<Vec<u32>, LabError> {
        let tokens = match self {
            Self::Tokenizer(tokenizer) => tokenizer.encode(prompt)?,
            Self::Bytes => prompt.bytes().map(u32::from).collect(),
            Self::Ids(vocab_size) => ids(prompt, *vocab_size)?,
        };
        if tokens.is_empty() { Err(LabError::Dimensions("`prompt` contains no token".into())) } else { Ok(tokens) }
    }

    /// The text of `tokens`; bytes that are not UTF-8 become `\u{FFFD}`.
    fn decode(&self, tokens: &[u32]) -> Result<String, LabError> {
        Ok(match self {
            Self::Tokenizer(tokenizer) => tokenizer.decode(tokens)?,
            Self::Bytes => {
                let bytes: Vec<u8> = tokens.iter().filter_map(|token| u8::try_from(*token).ok()).collect();
                String::from_utf8_lossy(&bytes).into_owned()
            }
            Self::Ids(_) => tokens.iter().map(u32::to_string).collect::<Vec<_>>().join(" "),
        })
    }
}

/// The token ids in `prompt`, each below `vocab_size`.
fn ids(prompt: &str, vocab_size: usize) -> Result<Vec<u32>, LabError> {
    let token = |word: &str| {
        let token = word.parse().ok().filter(|token: &u32| (*token as usize) < vocab_size);
        token.ok_or_else(|| {
            let advice = "write token ids separated by spaces, `prompt: \"464 2068\"`, or give its `tokenizer`";
            let network = format!("the network has {vocab_size} tokens without text");
            LabError::Dimensions(format!(
                "`{}` in `prompt` is not a token id: {network}; {advice}",
                word.escape_debug()
            ))
        })
    };
    prompt.split_whitespace().map(token).collect()
}

/// The beginning of a text, on one line.
fn shortened(text: &str) -> String {
    let mut beginning: String =
        text.chars().take(NOTED).collect::<String>().split_whitespace().collect::<Vec<_>>().join(" ");
    if text.chars().count() > NOTED {
        beginning.push('…');
    }
    beginning
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(temperature: f64, top_k: Option<usize>) -> Generating {
        Generating { temperature, top_k, ..Generating::default() }
    }

    #[test]
    fn without_temperature_the_likeliest_is_taken_and_with_top_k_only_the_likeliest() {
        let mut random = rng::stream(0, "test", "", &[]);
        let logits = [0.0, 3.0, -1.0, 3.0, 2.5];
        assert_eq!(choose(&logits, &settings(0.0, None), &mut random), 1, "the first of equal ones");
        let samples: Vec<u32> = (0..200).map(|_| choose(&logits, &settings(1.0, Some(3)), &mut random)).collect();
        for token in 0..5 {
            assert_eq!(samples.contains(&token), [1, 3, 4].contains(&token), "{token}");
        }
        let hot_samples: Vec<u32> = (0..500).map(|_| choose(&logits, &settings(100.0, None), &mut random)).collect();
        assert!((0..5).all(|token| hot_samples.iter().filter(|sample| **sample == token).count() > 50), "almost even");
    }

    #[test]
    fn prompts_are_bytes_or_numbers_of_tokens() {
        assert_eq!(Codec::Bytes.encode("ab").unwrap(), [97, 98]);
        assert_eq!(Codec::Bytes.decode(&[97, 98, 0xc3, 0xa4]).unwrap(), "abä");
        let ids = Codec::new(None, 301).unwrap();
        assert_eq!(ids.encode(" 5 300").unwrap(), [5, 300]);
        assert_eq!(ids.decode(&[5, 300]).unwrap(), "5 300");
        let message = ids.encode("5 301").unwrap_err().to_string();
        assert!(message.starts_with("`301` in `prompt` is not a token id: the network has 301 tokens"), "{message}");
    }
}
