//! Lines of `sweep plan` about metrics that are shown and that no job has measured.

use std::collections::HashSet;

use sweep_job::current_name;

use crate::{
    error::Error,
    format::clean,
    plan::{JobId, Plan, Study},
    record::Key,
    run::Standing,
    store::{Stamp, Store},
};

/// Number of finished jobs of a step that are looked at.
const LOOKED_AT: usize = 100;

/// A line for each metric of a table or a claim that the finished jobs of a step with a program have not reported.
pub(super) fn unmeasured(
    plan: &Plan,
    store: &Store,
    standing: &Standing,
    selected_jobs: &HashSet<JobId>,
) -> Result<Vec<String>, Error> {
    let mut lines = Vec::new();
    for study in &plan.studies {
        for step in 0..study.steps.len() {
            lines.extend(of_step(plan, store, standing, selected_jobs, (study, step))?);
        }
    }
    Ok(lines)
}

fn of_step(
    plan: &Plan,
    store: &Store,
    standing: &Standing,
    selected_jobs: &HashSet<JobId>,
    (study, index): (&Study, usize),
) -> Result<Vec<String>, Error> {
    let step = &study.recipe.steps[index];
    let outputs = study.recipe.shown().filter(|output| output.kind != "figure" && output.steps.contains(&index));
    let wanted_metrics =
        outputs.flat_map(|output| output.metrics.into_iter().map(move |metric| (output.kind, output.name, metric)));
    let is_read = |metric: &str| study.recipe.read_off().any(|(name, _)| name == metric);
    let wanted_metrics: Vec<_> =
        wanted_metrics.filter(|(_, _, metric)| step.task.metric(metric).is_none() && !is_read(metric)).collect();
    let done_jobs = study.steps[index].iter().map(|(_, id)| *id).filter(|id| selected_jobs.contains(id));
    let done_jobs = done_jobs.filter(|id| standing.cached[id.index()]).take(LOOKED_AT);
    let stamps: Vec<(Key, Stamp)> =
        done_jobs.filter_map(|id| Some((plan.job(id).key, standing.stamps[id.index()]?))).collect();
    if !step.task.open_metrics || wanted_metrics.is_empty() || stamps.is_empty() {
        return Ok(Vec::new());
    }
    let names: HashSet<&str> = wanted_metrics.iter().map(|(_, _, metric)| *metric).collect();
    let measurements = store.measured_by(&stamps, &names)?;
    let is_measured = |metric: &str| measurements.iter().any(|job| job.metrics.get(current_name(metric)).is_some());
    let mut lines = Vec::new();
    for (kind, name, metric) in wanted_metrics.into_iter().filter(|(_, _, metric)| !is_measured(metric)) {
        let (step, metric) = (&step.name.value, clean(metric));
        lines.push(format!(
            "no job of `{step}` has measured `{metric}`, which {kind} `{name}` shows: `sweep show` has their notices\n"
        ));
    }
    Ok(lines)
}
