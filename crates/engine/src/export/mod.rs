//! Output for other programs: bundles, `MLflow` file stores, `TensorBoard` event files, data sets with Croissant metadata.
//!
//! `bundle/` is a study in one archive without paths of its author; `bundle/verify.rs` checks that everything in it follows
//! from its inputs.

pub mod bundle;
pub mod croissant;
pub mod mlflow;
mod names;
mod sha256;
pub mod tensorboard;
pub mod units;

use self::sha256::sha256;

/// Result of an export.
#[derive(Debug, Default)]
pub struct Exported {
    /// Number of jobs.
    pub jobs: usize,
    /// Sentences about names and values that have another form there.
    pub notices: Vec<String>,
}
