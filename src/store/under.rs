//! The part of a record's conditions that the index has.

use serde::{Deserialize, Serialize};

use crate::record::{Exclusivity, GpuUse, Record, SeedPlan};

/// The part of a record's [`Conditions`](crate::record::Conditions) on which comparisons of times and the number of seeds depend.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Under {
    /// Name of the job when it ran, for messages.
    pub label: String,
    /// Threads that the job was given.
    pub threads: usize,
    /// Driver of the job's device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// Exclusive use of the machine.
    pub exclusive: Exclusivity,
    /// Cores of the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<usize>,
    /// Mean number of cores that the job kept busy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own: Option<f64>,
    /// Mean number of cores that all other processes kept busy meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub foreign: Option<f64>,
    /// Largest number of other jobs of the same engine at the same time.
    #[serde(default)]
    pub neighbors: usize,
    /// Number of attempts, including the successful one.
    pub attempts: u32,
    /// GPUs that the job had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<GpuUse>,
    /// Name of the run's folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// Round of a measuring step, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round: Option<usize>,
    /// Seeds that the step planned when the job ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seeds: Option<SeedPlan>,
}

impl Under {
    /// The part of a record's conditions; `None` if it has none.
    pub(super) fn of(record: &Record) -> Option<Box<Self>> {
        let conditions = record.provenance.conditions.as_deref()?;
        Some(Box::new(Self {
            label: record.label.clone(),
            threads: record.provenance.threads,
            driver: conditions.machine.driver.clone(),
            exclusive: conditions.exclusive,
            cores: conditions.machine.cores,
            own: conditions.own,
            foreign: conditions.foreign,
            neighbors: conditions.neighbors,
            attempts: conditions.attempts,
            gpu: conditions.gpu,
            run: conditions.run.name.clone(),
            round: conditions.run.round,
            seeds: conditions.seeds,
        }))
    }
}
