//! Checks of plans and flags that an executor does not support.

use sweep_job::tasks::{Launch, launched};

use super::{Request, SessionError};
use crate::{
    plan::{JobId, Plan},
    recipe::BatchSystem,
    run::{
        Disposition,
        cluster::{self, Opening},
    },
};

/// Rejects `--detach` and `--pilot` without a batch system, and for one whose queue ends with this process. Rejects
/// `--pilot` for one without a shared folder.
pub(super) fn flags(request: &Request, batch: Option<&BatchSystem>) -> Result<(), SessionError> {
    let (flag, reason) = match (request.detach, request.pilots) {
        (true, _) => ("--detach", "its jobs wait in this process, and would not start without it"),
        (false, Some(_)) => ("--pilot", "it starts a job in milliseconds already"),
        (false, None) => return Ok(()),
    };
    let Some(system) = batch else { return Err(SessionError::NeedsBatchSystem(flag)) };
    let cluster = cluster::open(system, Opening::default());
    let system = cluster.system().to_owned();
    if cluster.needs_exchange() && request.pilots.is_some() {
        let reason = "its machines share no folder, so each job is a batch job";
        return Err(SessionError::NoQueue { flag: "--pilot", system, reason });
    }
    if cluster.starts_jobs_itself() { Err(SessionError::NoQueue { flag, system, reason }) } else { Ok(()) }
}

/// Fails if a job that will run takes an unset variable from the environment. This check is right for batch systems,
/// too: their jobs get the environment of the submitting process.
pub(super) fn environment(plan: &Plan, states: &[Disposition]) -> Result<(), SessionError> {
    for (id, job) in plan.jobs().filter(|(id, _)| may_run(states, *id)) {
        let (names, place) = plan.inherited(id);
        if let Some(name) = names.into_iter().find(|name| std::env::var_os(name).is_none()) {
            let at = place.map(|place| format!("{}: ", plan.sources().location(place))).unwrap_or_default();
            return Err(SessionError::Unset { at, name: name.to_owned(), step: job.label.step.to_string() });
        }
    }
    Ok(())
}

/// Fails if a job that will run needs several nodes or `launch: srun`, and the executor supports neither.
pub(super) fn nodes(
    request: &Request,
    plan: &Plan,
    states: &[Disposition],
    batch: Option<&BatchSystem>,
) -> Result<(), SessionError> {
    let several = plan.jobs().filter(|(id, _)| may_run(states, *id)).find_map(|(_, job)| {
        let is_launched = launched(&job.values).is_some_and(|(launch, _)| launch == Launch::Srun);
        let nodes = job.resources.nodes();
        (nodes > 1 || is_launched).then_some((job, nodes))
    });
    let Some((job, nodes)) = several else { return Ok(()) };
    let gives_nodes = |system: &BatchSystem| cluster::open(system, Opening::default()).gives_nodes();
    let reason = match batch {
        Some(_) if request.pilots.is_some() => "pilot jobs have one node each: leave out `--pilot`",
        Some(system) if gives_nodes(system) => return Ok(()),
        Some(_) => "this executor gives each job one machine: use `--executor slurm`, or write `nodes: 1`",
        None => "this machine is one node: use `--executor slurm`, or write `nodes: 1` and `launch: torchrun`",
    };
    let wants = if nodes > 1 { format!("{nodes} nodes") } else { "processes by `srun`".to_owned() };
    Err(SessionError::Nodes { step: job.label.step.to_string(), wants, reason })
}

fn may_run(states: &[Disposition], id: JobId) -> bool {
    matches!(states[id.index()], Disposition::Yes | Disposition::Reserve)
}
