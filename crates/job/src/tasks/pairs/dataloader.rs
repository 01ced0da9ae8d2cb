//! `uses: pair/dataloader`.

use super::Declared;
use crate::{
    MetricInfo,
    metric::metrics,
    params::{choice, params},
};

choice! {
    /// A method to prepare batches.
    pub enum DataloaderVariant {
        /// In the training loop, when a batch is needed.
        Sync = "sync",
        /// In worker threads that are restarted for every epoch.
        Workers = "workers",
        /// In worker threads that persist between epochs and prepare the first batches of the next epoch.
        Persistent = "persistent",
    }
}

params! {
    /// Training on samples that require preprocessing. A call is an epoch.
    pub struct Dataloader {
        /// Method to prepare batches; the baseline is `sync`.
        variant: DataloaderVariant = DataloaderVariant::Sync;
        /// Number of worker threads; no effect with `sync`.
        workers: usize = 2, in 1..=256;
        /// Maximum number of prepared batches per worker.
        prefetch: usize = 2, in 1..=1024;
        /// Samples per epoch.
        samples: usize = 512, in 1..=10_000_000;
        /// Elements per sample.
        width: usize = 256, in 1..=1_000_000;
        /// Rounds of preprocessing: `x ← tanh(1.1 x) + sin(0.5 x)`, minus its mean.
        rounds: usize = 16, in 0..=10_000;
        /// Samples per batch.
        batch_size: usize = 64, in 1..=1_000_000;
        /// Hidden width of the MLP that is trained.
        hidden: usize = 128, in 1..=65_536;
        /// Classes that the MLP distinguishes.
        classes: usize = 10, in 2..=65_536;
    }
}

metrics! {
    impl Dataloader {
        /// Median time per call that the training waits for batches.
        TIME_DATA: Seconds = "time.data";
    }
}

impl Declared for Dataloader {
    const NAME: &'static str = "pair/dataloader";
    const ABOUT: &'static str =
        "trains on samples that the training loop or worker threads prepare, with the same batches in the same order";
    const OWN_METRICS: &'static [MetricInfo] = Self::DECLARED;
}
