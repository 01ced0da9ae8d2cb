//! The number of jobs of a plan that run at once on this machine, and the resource that bounds it.

use std::fmt;

use sweep_job::Unit;

use super::{
    GpuHistory, Usual, demand, estimate,
    slots::{Demand, Limits, WHOLE},
};
use crate::{
    format::{count, quantity},
    plan::{JobId, Plan},
};

/// The reason of jobs with a GPU each.
const ONE_GPU: &str = "1 GPU each";

/// Jobs that run at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AtOnce {
    /// Steps of the jobs; empty if all running jobs are meant.
    steps: Vec<String>,
    /// Number of the jobs.
    jobs: usize,
    /// Maximum number of the jobs at once.
    most: usize,
    /// The resource that bounds them.
    because: String,
}

impl AtOnce {
    /// The jobs that will run, in groups with the same bound and the same reason for it. Groups of a single job are
    /// left out.
    pub fn of(plan: &Plan, open: &[JobId], limits: &Limits, history: &GpuHistory) -> Vec<Self> {
        let mut groups: Vec<Self> = Vec::new();
        for id in open {
            let job = plan.job(*id);
            let measures = job.turn.is_some() && job.resources.cpus.is_none() && Usual::of(job).cpus.is_none();
            let (most, mut because) = bound(&demand(job, limits, history), limits, measures && job.is_program());
            if job.is_program() && job.resources.gpus.is_none() && because == ONE_GPU {
                because.push_str("; `resources: { gpus: 0 }` for programs that use none");
            }
            let step = job.label.step.to_string();
            match groups.iter_mut().find(|group| (group.most, &group.because) == (most, &because)) {
                Some(group) => {
                    group.jobs += 1;
                    if !group.steps.contains(&step) {
                        group.steps.push(step);
                    }
                }
                None => groups.push(Self { steps: vec![step], jobs: 1, most, because }),
            }
        }
        if let [only] = groups.as_mut_slice() {
            only.steps.clear();
        }
        groups.retain(|group| group.jobs > 1);
        groups
    }
}

impl fmt::Display for AtOnce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { steps, jobs, most, because } = self;
        if !steps.is_empty() {
            write!(f, "{}: ", steps.join(", "))?;
        }
        let at_once = if *most == 1 { "one at a time".to_owned() } else { format!("{} at once", most.min(jobs)) };
        write!(f, "{}, {at_once} ({because})", count(*jobs, "job"))
    }
}

/// Returns the maximum number of concurrent jobs with this demand, and the reason.
fn bound(demand: &Demand, limits: &Limits, measures: bool) -> (usize, String) {
    if demand.exclusive {
        return (1, "`exclusive: true`: nothing else runs at the same time".to_owned());
    }
    let cores = if demand.cpus >= limits.cpus.max(1) && limits.cpus > 1 {
        let why = if measures { ": their times are measured" } else { "" };
        format!("all {} cores each{why}", limits.cpus)
    } else {
        format!("{} each", demand.cores())
    };
    let millicores = limits.cpus.max(1).saturating_mul(usize::from(WHOLE));
    let mut bounds = vec![(millicores / demand.millicores().max(1), cores)];
    if demand.gpus > 0 {
        let share = estimate::share_of_gpus(demand, limits);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "as many as there are parts")]
        let max_parts = ((1.0 / share.max(1e-6)) + 1e-9) as usize;
        let gpus = demand.part().map_or_else(|| count(demand.gpus, "GPU"), |part| format!("{part} of a GPU"));
        bounds.push((max_parts, format!("{gpus} each")));
    }
    if let Some(max_jobs) = limits.memory.checked_div(demand.memory) {
        let max_jobs = usize::try_from(max_jobs).unwrap_or(usize::MAX);
        bounds.push((max_jobs, format!("{} of memory each", quantity(demand.memory as f64, Unit::Bytes))));
    }
    bounds.push((limits.jobs, format!("`--jobs {0}` or `SWEEP_JOBS={0}`", limits.jobs)));
    let (most, because) = bounds.into_iter().min_by_key(|(most, _)| *most).unwrap_or_default();
    (most.max(1), because)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scarcest_resource_is_the_reason() {
        let limits = Limits { cpus: 8, gpus: 2, gpu_memory: Vec::new(), memory: 16 << 30, jobs: 8 };
        let of = |demand: Demand, limits: &Limits| bound(&demand, limits, false);
        let one = Demand { cpus: 1, ..Demand::default() };
        assert_eq!(of(one, &limits), (8, "1 core each".to_owned()));
        assert_eq!(of(Demand { cpus: 3, ..one }, &limits), (2, "3 cores each".to_owned()));
        let (part, many) = (Demand { core_share: Some(250), ..one }, Limits { jobs: 8000, ..limits.clone() });
        assert_eq!(of(part, &many), (32, "0.25 of a core each".to_owned()));
        assert_eq!(of(Demand { cpus: 8, ..one }, &limits), (1, "all 8 cores each".to_owned()));
        assert_eq!(bound(&Demand { cpus: 8, ..one }, &limits, true).1, "all 8 cores each: their times are measured");
        assert_eq!(of(Demand { gpus: 1, ..one }, &limits), (2, "1 GPU each".to_owned()));
        assert_eq!(of(Demand { gpus: 1, share: Some(250), ..one }, &limits).0, 8);
        assert_eq!(of(Demand { memory: 6 << 30, ..one }, &limits), (2, "6.00 GiB of memory each".to_owned()));
        assert_eq!(of(one, &Limits { jobs: 3, ..limits.clone() }), (3, "`--jobs 3` or `SWEEP_JOBS=3`".to_owned()));
        assert_eq!(of(Demand { exclusive: true, ..one }, &limits).0, 1);
        assert_eq!(of(one, &Limits { cpus: 1, jobs: 1, ..limits }), (1, "1 core each".to_owned()));
    }
}
