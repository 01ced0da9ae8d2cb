//! The part of a record's conditions that the index has.

use serde::{Deserialize, Serialize};

use crate::record::{Exclusivity, GpuUse, Record, SeedPlan};

/// Foreign load in cores that is tolerated on any machine.
const MIN_LIMIT: f64 = 0.25;

/// Foreign load that is tolerated on a large machine, as a part of its cores.
const LIMIT_PART: f64 = 0.1;

/// Part of the cores above which a machine counts as full.
const FULL: f64 = 0.95;

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
    /// Identifier of the program's environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<String>,
}

impl Under {
    /// Largest load by other processes, in cores, that times and rates tolerate.
    pub fn limit(&self) -> f64 {
        self.cores.map_or(MIN_LIMIT, |cores| MIN_LIMIT.max(LIMIT_PART * cores as f64))
    }

    /// True if other processes kept more cores busy than times and rates tolerate, or some of a machine without a free core.
    pub fn is_disturbed(&self) -> bool {
        let Some(foreign) = self.foreign else { return false };
        let is_full = self.own.zip(self.cores).is_some_and(|(own, cores)| own + foreign > FULL * cores as f64);
        foreign > self.limit() || (is_full && foreign > MIN_LIMIT)
    }

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
            environment: conditions.environment.clone(),
        }))
    }
}
