//! Progress of the configurations of a step with `search`.

use std::{collections::BTreeSet, io};

use super::{Followed, Known, follow};
use crate::{
    decide::mean,
    plan::{JobId, Plan, Study},
    store::Decision,
};

/// The state of a step with `search`.
#[derive(Debug, Clone, Default)]
pub struct Reached {
    /// The jobs that run in any case, and the jobs that decisions have released so far.
    pub required: BTreeSet<JobId>,
    /// True if all of these have ended, so that no decision is left to make.
    pub complete: bool,
    /// The configurations, each with how far it has come.
    pub configurations: Vec<Extent>,
}

/// Progress of a configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Extent {
    /// Its values on the axes, as a text.
    pub label: String,
    /// The index of the last rung at which it has a value; in a race, one less than its number of seeds with a value. `None` if it failed
    /// or has no value yet.
    pub rung: Option<usize>,
    /// Its mean at that rung; in a race, over these seeds.
    pub value: Option<f64>,
}

/// The state of a step with rungs or a race, from the known states of its jobs. A lost job has ended without a value.
pub fn reached(plan: &Plan, study: &Study, step: usize, known: &dyn Fn(JobId) -> Known) -> io::Result<Reached> {
    let mut accept = |decision: &Decision| Ok(Some(decision.key()?));
    let decisions = follow(plan, study, step, known, &mut accept)?;
    let always = study.steps[step].iter().map(|(_, job)| *job).filter(|job| !plan.is_held(*job));
    let released = decisions.iter().flat_map(|decided| decided.released.iter().map(|(job, _)| *job));
    let required: BTreeSet<JobId> = always.chain(released).collect();
    let complete = required.iter().all(|job| known(*job) != Known::Open);
    let Some(search) = &study.recipe.steps[step].search else {
        return Ok(Reached { required, complete, configurations: Vec::new() });
    };
    let followed = Followed { plan, study, step, known };
    let (axis, race) = (search.rungs.as_ref().map_or("seed", |rungs| rungs.axis.as_str()), search.racing.is_some());
    let mut configurations = Vec::new();
    for one in followed.configurations(axis).into_iter().flatten() {
        let runs = |jobs: &&Vec<JobId>| !jobs.is_empty() && jobs.iter().all(|job| required.contains(job));
        let values: Vec<Option<f64>> =
            one.stages.iter().take_while(runs).map_while(|jobs| Some(mean(&followed.values(jobs)?))).collect();
        let rung = values.iter().take_while(|value| value.is_some()).count().checked_sub(1);
        let value = rung.and_then(|rung| if race { mean(&values[..=rung]) } else { values[rung] });
        configurations.push(Extent { label: one.label, rung, value });
    }
    Ok(Reached { required, complete, configurations })
}
