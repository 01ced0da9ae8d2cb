//! `launch`: a program as several processes that work together.

use super::Command;
use crate::{Conflict, Value, Values, params::choice};

choice! {
    /// Kind of start of several processes.
    pub enum Launch {
        /// Every process sees all GPUs of the job, and its own is number `LOCAL_RANK` of them, as `torchrun` does it.
        Torchrun = "torchrun",
        /// Every process sees its own GPU only.
        Processes = "processes",
        /// Slurm's `srun` starts the processes, which see all GPUs of their node.
        Srun = "srun",
        /// The `mpirun` of an MPI starts the processes, which see all GPUs of their node.
        Mpirun = "mpirun",
    }
}

/// Sets the number of processes of a launched program that has one process for each GPU of each node.
pub fn complete_ranks(values: &mut Values, gpus: Option<usize>, nodes: usize) {
    let is_given = |name: &str| values.get(name).is_some_and(|value| !matches!(value, Value::Null));
    let gpus = gpus.filter(|gpus| *gpus > 0).and_then(|gpus| i64::try_from(gpus.saturating_mul(nodes)).ok());
    if let Some(gpus) = gpus.filter(|_| is_given("launch") && !is_given("ranks")) {
        values.insert("ranks", Value::Int(gpus));
    }
}

/// The kind of start of a launched program, and its number of processes; `None` for one that is a single process.
pub fn launched(values: &Values) -> Option<(Launch, usize)> {
    let word = values.get("launch")?.as_text()?;
    let launch = Launch::ALL.iter().copied().find(|launch| launch.word() == word)?;
    let Some(Value::Int(ranks)) = values.get("ranks") else { return None };
    Some((launch, usize::try_from(*ranks).ok()?))
}

impl Command {
    /// Number of processes as which the program is started.
    pub fn processes(&self) -> usize {
        self.launch.and(self.ranks).and_then(|ranks| usize::try_from(ranks).ok()).unwrap_or(1)
    }

    pub(super) fn check_launch(&self, conflicts: &mut Vec<Conflict>) {
        let (params, message, advice) = match (self.launch, self.ranks) {
            (Some(_), None) => (
                vec!["launch"],
                "`launch` needs a number of processes",
                "write `ranks: N`, or `resources: { gpus: N }` for one process on each GPU",
            ),
            (None, Some(_)) => (vec!["ranks"], "`ranks` has no effect without `launch`", "add `launch: torchrun`"),
            _ => return,
        };
        conflicts.push(Conflict { params, message: message.into(), advice: advice.into() });
    }
}
