//! Findings of a check of this machine or of an executor.

use serde::{Deserialize, Serialize};

/// A requirement that was checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The requirement, in a few words.
    pub name: String,
    /// The result.
    pub verdict: Verdict,
    /// The finding in a sentence.
    pub says: String,
    /// The remedy; empty if there is nothing to do.
    pub help: String,
}

/// Result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The requirement is met.
    Good,
    /// Some jobs may fail.
    Doubtful,
    /// Jobs cannot run.
    Failed,
}

impl Finding {
    /// A requirement that is met.
    pub fn good(name: &str, says: impl Into<String>) -> Self {
        Self { name: name.to_owned(), verdict: Verdict::Good, says: says.into(), help: String::new() }
    }

    /// A requirement that may not be met for some jobs.
    pub fn doubtful(name: &str, says: impl Into<String>, help: impl Into<String>) -> Self {
        Self { name: name.to_owned(), verdict: Verdict::Doubtful, says: says.into(), help: help.into() }
    }

    /// A requirement that is not met.
    pub fn failed(name: &str, says: impl Into<String>, help: impl Into<String>) -> Self {
        Self { name: name.to_owned(), verdict: Verdict::Failed, says: says.into(), help: help.into() }
    }
}
