//! Stages of a run as `SWEEP_LOG` names them, and the filter that it holds.

use tracing::{Level, level_filters::LevelFilter};

/// Reading recipes and planning them.
pub const PLAN: &str = "plan";
/// The right to run a job: locks and leases.
pub const CLAIM: &str = "claim";
/// Processes of workers and programs.
pub const SPAWN: &str = "spawn";
/// Records: looking them up, writing and removing them.
pub const STORE: &str = "store";
/// Records on their way to a remote and from there.
pub const REMOTE: &str = "remote";
/// Batch jobs: submitting, polling, canceling.
pub const CLUSTER: &str = "cluster";

/// All stages; each is the target of its spans and events.
const STAGES: [&str; 6] = [PLAN, CLAIM, SPAWN, STORE, REMOTE, CLUSTER];
/// The levels by name; finer levels are not compiled.
const LEVELS: [(&str, LevelFilter); 5] = [
    ("off", LevelFilter::OFF),
    ("error", LevelFilter::ERROR),
    ("warn", LevelFilter::WARN),
    ("info", LevelFilter::INFO),
    ("debug", LevelFilter::DEBUG),
];

/// The variable that holds a filter.
pub const VARIABLE: &str = "SWEEP_LOG";

/// The level of each stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Filter([LevelFilter; STAGES.len()]);

/// An invalid filter.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{VARIABLE}` has `{part}`, but `{word}` is not a {expected}: write a level, or STAGE=LEVEL, separated by commas, \
     for example `info,store=debug`; levels are {}; stages are {}",
    LEVELS.map(|(name, _)| name).join(", "),
    STAGES.join(", ")
)]
pub struct FilterError {
    part: String,
    word: String,
    expected: &'static str,
}

impl Filter {
    /// The filter in a text: levels for all stages, or for one. A later part overrides an earlier one.
    pub fn parse(text: &str) -> Result<Self, FilterError> {
        let mut filter = Self([LevelFilter::OFF; STAGES.len()]);
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let error = |word: &str, expected| FilterError { part: part.to_owned(), word: word.to_owned(), expected };
            let level = |word: &str| {
                let entry = LEVELS.iter().find(|(name, _)| *name == word.to_ascii_lowercase());
                entry.map(|(_, level)| *level).ok_or_else(|| error(word, "level"))
            };
            match part.split_once('=') {
                None => filter.0 = [level(part)?; STAGES.len()],
                Some((stage, word)) => {
                    let (stage, word) = (stage.trim(), word.trim());
                    let index = STAGES.iter().position(|name| *name == stage);
                    filter.0[index.ok_or_else(|| error(stage, "stage"))?] = level(word)?;
                }
            }
        }
        Ok(filter)
    }

    /// Returns the filter with every stage at least at `level`.
    pub fn at_least(self, level: Option<Level>) -> Self {
        let minimum = level.map_or(LevelFilter::OFF, LevelFilter::from_level);
        Self(self.0.map(|filter| filter.max(minimum)))
    }

    /// True if nothing is logged.
    pub fn is_off(&self) -> bool {
        self.0.iter().all(|level| *level == LevelFilter::OFF)
    }

    /// The stages with their levels.
    pub fn levels(&self) -> impl Iterator<Item = (&'static str, LevelFilter)> {
        STAGES.into_iter().zip(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_has_a_level_for_each_stage() {
        let of = |text: &str, stage: &str| {
            Filter::parse(text).unwrap().levels().find(|(name, _)| *name == stage).map(|(_, level)| level)
        };
        assert_eq!(of("info, store=debug", STORE), Some(LevelFilter::DEBUG));
        assert_eq!(of("info, store=debug", PLAN), Some(LevelFilter::INFO));
        assert_eq!(of("store=debug", PLAN), Some(LevelFilter::OFF));
        assert_eq!(of("INFO", CLUSTER), Some(LevelFilter::INFO));
        assert!(Filter::parse("").unwrap().is_off());
        assert!(Filter::parse("off").unwrap().is_off());
        let filter = Filter::parse("store=debug").unwrap().at_least(Some(Level::INFO));
        assert!(
            filter
                .levels()
                .all(|(stage, level)| level == if stage == STORE { LevelFilter::DEBUG } else { LevelFilter::INFO })
        );
    }

    #[test]
    fn a_mistake_in_a_filter_is_named() {
        let error = |text: &str| Filter::parse(text).unwrap_err();
        assert_eq!(
            error("info,stroe=debug"),
            FilterError { part: "stroe=debug".into(), word: "stroe".into(), expected: "stage" }
        );
        assert_eq!(
            error("store=loud"),
            FilterError { part: "store=loud".into(), word: "loud".into(), expected: "level" }
        );
        assert_eq!(error("trace"), FilterError { part: "trace".into(), word: "trace".into(), expected: "level" });
    }
}
