//! The dispositions of a run's jobs.

use std::collections::{BTreeSet, HashSet};

use sweep_job::{Backend, Unit};

use crate::{
    format::{clean, count, quantity, say},
    plan::{JobId, Plan},
    recipe::{GpuMemory, ResourceCount},
    run::{AtOnce, Disposition, History, slots::Limits},
    store::Store,
};

/// Records may have been removed after the store was read and before it was locked: such jobs run again.
pub(super) fn look_again(store: &Store, plan: &Plan, states: &mut [Disposition]) {
    for ((_, job), state) in plan.jobs().zip(states) {
        if *state == Disposition::Cached && !store.contains(job.key) {
            *state = Disposition::Yes;
        }
    }
}

/// Disposition of each job.
pub(super) fn states(plan: &Plan, selected: &HashSet<JobId>, cached: &[bool]) -> Vec<Disposition> {
    let state = |id: JobId| match (selected.contains(&id), cached[id.index()]) {
        (false, _) => Disposition::No,
        (true, true) => Disposition::Cached,
        (true, false) if plan.is_reserve(id) => Disposition::Reserve,
        (true, false) => Disposition::Yes,
    };
    plan.jobs().map(|(id, _)| state(id)).collect()
}

/// Adds the jobs for states that several of the jobs to run share.
pub(super) fn share(plan: &Plan, store: &Store, states: &mut [Disposition]) {
    let open = plan.jobs().map(|(id, _)| id).filter(|id| states[id.index()] == Disposition::Yes).collect();
    for id in plan.worth_sharing(&open, |step, key| store.has_state(step, key)) {
        // With a record and without a state, the others run alone.
        if !store.contains(plan.job(id).key) {
            states[id.index()] = Disposition::Yes;
        }
    }
}

/// Warns once per step whose jobs need more resources than the machine has.
pub(super) fn warn_of_scarcity(plan: &Plan, states: &[Disposition], limits: &Limits) {
    let mut said = BTreeSet::new();
    for (_, job) in plan.jobs().filter(|(id, _)| states[id.index()] == Disposition::Yes) {
        let resources = job.resources;
        let bytes = |bytes: u64| quantity(bytes as f64, Unit::Bytes);
        let on_cpu = job.identity.backend == Some(Backend::Cpu);
        let gpus = resources.gpus.map_or(0, ResourceCount::count);
        let gpu_memory = if let Some(GpuMemory::Bytes(bytes)) = resources.gpu_memory { bytes } else { 0 };
        let largest = limits.largest_gpu().filter(|largest| gpu_memory > *largest);
        let wants = if gpus > limits.gpus && !on_cpu {
            format!("{}; this machine has {}", count(gpus, "GPU"), limits.gpus)
        } else if let Some(largest) = largest {
            format!("{} of GPU memory; this machine has GPUs with {}", bytes(gpu_memory), bytes(largest))
        } else if resources.memory.is_some_and(|memory| memory > limits.memory) {
            format!("{}; this machine has {}", bytes(resources.memory.unwrap_or(0)), bytes(limits.memory))
        } else {
            continue;
        };
        if said.insert(job.label.step.as_str()) {
            say(format_args!("note: {} requests {wants}, all of which the job gets", job.label.step));
        }
    }
}

/// Prints the number of jobs at once, with the reason.
pub(super) fn say_at_once(plan: &Plan, states: &[Disposition], limits: &Limits, history: &History) {
    let open = plan.jobs().map(|(id, _)| id).filter(|id| states[id.index()] == Disposition::Yes);
    for jobs in AtOnce::of(plan, &open.collect::<Vec<_>>(), limits, &history.gpus) {
        say(format_args!("{}", clean(&jobs.to_string())));
    }
}
