//! Numbers that the programs of a recipe print although no metric takes them.

use crate::{
    cli::script::logs::{MAX_JOBS, MAX_NAMED, QUOTED, outputs},
    error::Error,
    format::{clean, say, shortened},
    init::printed_results,
    plan::{Job, Plan},
    store::Store,
};

/// Names results that the programs of a step have printed, with patterns that read them, if none of its jobs has a metric of its own.
pub(super) fn say_unread(plan: &Plan, store: &Store) -> Result<(), Error> {
    for (step, points) in plan.steps() {
        let jobs: Vec<&Job> = points.iter().map(|(_, id)| plan.job(*id)).take(MAX_JOBS).collect();
        if !jobs.iter().all(|job| job.is_program() && !job.is_imported()) || has_metrics(&jobs, store)? {
            continue;
        }
        let outputs = outputs(&jobs, store)?;
        let found = printed_results(outputs.iter().map(|(_, text)| text.as_str())).read;
        if found.is_empty() {
            continue;
        }
        let name = clean(&step.name.value);
        say(format_args!(
            "note: the jobs of `{name}` report no metric, and print numbers; `with: {{ reads: {{ stdout: [PATTERN] }} }}` takes them:"
        ));
        for number in found.iter().take(MAX_NAMED) {
            let line = shortened(&clean(&number.line), QUOTED);
            say(format_args!("      {}  (`{}` from {line})", clean(&number.item()), clean(&number.name)));
        }
        if found.len() > MAX_NAMED {
            say(format_args!("      and {} more", found.len() - MAX_NAMED));
        }
    }
    Ok(())
}

/// True if a record of the jobs has a metric or a curve that its task does not declare.
fn has_metrics(jobs: &[&Job], store: &Store) -> Result<bool, Error> {
    for job in jobs {
        let Some(record) = store.get(job.key)? else { continue };
        let outcome = &record.outcome;
        if !outcome.curves.is_empty() || outcome.metrics.keys().any(|name| job.task.metric(name).is_none()) {
            return Ok(true);
        }
    }
    Ok(false)
}
