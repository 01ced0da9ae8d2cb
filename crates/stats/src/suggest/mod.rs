//! Samplers: where to search next, as pure functions of a space, a history and a seed.
//!
//! A sampler receives all earlier configurations in the order of the search and returns the next ones. The same question gives the same
//! answer on every machine: random numbers depend on the seed only, and functions such as the logarithm are computed by the crate `libm`,
//! because the functions of C libraries differ in the last digit between systems, which can change the chosen candidate.
//!
//! `random.rs` and `tpe.rs`, with the density estimates in `parzen.rs`, are part of the program. `protocol.rs` asks other
//! programs, among them Optuna (`python/sweep/optuna.py`), in JSON.

mod draw;
mod history;
mod parzen;
mod protocol;
mod random;
mod space;
mod tpe;

pub use self::space::{number, short};
pub use self::{
    history::{History, Outcome, Trial},
    protocol::{Answer, AskError, PROTOCOL, Provider},
    random::Random,
    space::{Axis, Domain, Point, Space},
    tpe::Tpe,
};

/// A request for configurations.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// The space to search.
    pub space: &'a Space,
    /// All earlier configurations.
    pub history: &'a History,
    /// The largest number of configurations to return.
    pub n: usize,
    /// The seed of this batch.
    pub seed: u64,
    /// The seed that all batches of the search share.
    pub study_seed: u64,
    /// The number of this batch, from 0.
    pub batch: usize,
    /// The number of rungs; 1 where there are none.
    pub rungs: usize,
}

/// A sampler that is part of the program.
pub trait Sampler {
    /// The version of the sampler's rule; raised when the rule changes the answer to the same question.
    const VERSION: u32;

    /// Returns the next configurations: different from each other and from all earlier ones, and fewer than requested only
    /// if the space is exhausted.
    fn suggest(question: &Question<'_>) -> Vec<Point>;
}

/// A source of configurations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// [`Random`].
    Random,
    /// [`Tpe`].
    Tpe,
    /// Another program.
    Provider(Provider),
}

impl Source {
    /// Its name in recipes and decisions.
    pub fn name(&self) -> String {
        match self {
            Self::Random => "random".to_owned(),
            Self::Tpe => "tpe".to_owned(),
            Self::Provider(provider) => provider.name(),
        }
    }

    /// Asks for configurations.
    pub fn ask(&self, question: &Question<'_>) -> Result<Answer, AskError> {
        let built_in = |version: u32, points| Answer { name: self.name(), version: version.to_string(), points };
        match self {
            Self::Random => Ok(built_in(Random::VERSION, Random::suggest(question))),
            Self::Tpe => Ok(built_in(Tpe::VERSION, Tpe::suggest(question))),
            Self::Provider(provider) => provider.ask(question),
        }
    }

    /// The version of its rule, if it is part of the program.
    pub fn version(&self) -> Option<u32> {
        match self {
            Self::Random => Some(Random::VERSION),
            Self::Tpe => Some(Tpe::VERSION),
            Self::Provider(_) => None,
        }
    }
}

/// The seed of a part of a search: a digest of the names and numbers that it belongs to.
pub fn seed_of(parts: &[&str]) -> u64 {
    let digest = blake3::hash(format!("sweep suggest 1\0{}", parts.join("\0")).as_bytes());
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&digest.as_bytes()[..8]);
    u64::from_le_bytes(bytes)
}
