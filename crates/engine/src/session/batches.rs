//! Batches of a search: the plan grows when all jobs of a batch have ended, and runs again.

use std::{collections::HashSet, mem::ManuallyDrop, sync::Arc};

use super::{Prepared, Request, SessionError, states::states};
use crate::{
    batches::{Mode, lost, twins},
    format::say,
    plan::{JobId, ListId, Plan},
    record::Key,
    render::Page,
    run::{Disposition, Standing, Summary},
    store::{Stamp, Store},
};

/// The earlier batches of a command.
#[derive(Debug, Default)]
pub(super) struct Past {
    /// Number of plans that have run.
    pub(super) rounds: usize,
    /// Number of jobs that failed.
    pub(super) failed: usize,
    /// Number of jobs that got a result.
    done: usize,
    /// Their duration, in seconds.
    seconds: f64,
    /// The names of the runs.
    pub(super) runs: Vec<String>,
    /// The jobs that ended without a record. They do not run again in this command.
    lost: HashSet<Key>,
}

/// End of the jobs of a plan.
pub(super) struct Round {
    pub(super) summary: Summary,
    pub(super) page: Page,
    /// The name of the run, if anything had to run.
    pub(super) run: Option<String>,
    /// The jobs that were to run.
    pub(super) ran: Vec<JobId>,
    /// The stamps of the jobs' records, if nothing had to run.
    pub(super) stamps: Option<Vec<Option<Stamp>>>,
    /// True if jobs did not run because another job has the same computation.
    pub(super) has_twins: bool,
}

/// Makes the decisions that need no results, so that there are jobs to select and to run.
///
/// # Errors
/// The search cannot go on, or a batch cannot be planned.
pub fn begin(prepared: &mut Prepared, store: &Store) -> Result<(), SessionError> {
    advance(prepared, store, &HashSet::new()).map(|_| ())
}

/// Plans all batches that can be decided; returns false if there is no further batch.
fn advance(prepared: &mut Prepared, store: &Store, lost: &HashSet<Key>) -> Result<bool, SessionError> {
    let next = prepared.batches.advance(&prepared.plan, store, Mode::Decide(lost));
    let Some((mut plan, news)) = next.map_err(SessionError::search(&prepared.name))? else { return Ok(false) };
    for news in news {
        say(format_args!("{news}"));
    }
    plan.moments = Arc::clone(&prepared.plan.moments);
    prepared.plan = ManuallyDrop::new(plan);
    Ok(true)
}

impl Past {
    /// The result of all batches. `last` is the result of the last batch, for which the jobs of the earlier batches are cached.
    pub(super) fn summary(&self, last: Summary) -> Summary {
        Summary {
            cached: last.cached.saturating_sub(self.done),
            done: last.done + self.done,
            failed: last.failed + self.failed,
            seconds: last.seconds + self.seconds,
            ..last
        }
    }

    /// Selects the jobs to run now, without failed jobs and the jobs that need these. Among jobs with the same computation,
    /// only the first runs `here`, and the others are measured from its record; returns true if there are any.
    pub(super) fn states(
        &self,
        plan: &Plan,
        store: &Store,
        selected: &HashSet<JobId>,
        standing: &Standing,
        here: bool,
    ) -> Result<(Vec<Disposition>, bool), SessionError> {
        let mut states = states(plan, selected, &standing.cached);
        Self::leave_out(plan, &mut states, |id| self.lost.contains(&plan.job(id).key));
        let runs = plan.jobs().map(|(id, _)| id).filter(|id| here && states[id.index()] == Disposition::Yes);
        let twins = twins(plan, store, runs).map_err(SessionError::io("cannot read the store"))?;
        Self::leave_out(plan, &mut states, |id| twins.contains(&id));
        Ok((states, !twins.is_empty()))
    }

    /// Leaves out some jobs, and the jobs that need them.
    fn leave_out(plan: &Plan, states: &mut [Disposition], is_out: impl Fn(JobId) -> bool) {
        let mut out: HashSet<JobId> = HashSet::new();
        for (id, _) in plan.jobs() {
            let needs = |list: &ListId| plan.list(*list).iter().any(|need| out.contains(need));
            let state = &mut states[id.index()];
            let is_left = is_out(id) || (!out.is_empty() && plan.lists_of(id).iter().any(needs));
            if is_left && *state != Disposition::Cached {
                *state = Disposition::No;
                out.insert(id);
            }
        }
    }

    /// The jobs of the next plan, if a batch is decided after a round; `None` if there is nothing more to run.
    pub(super) fn next(
        &mut self,
        request: &Request,
        prepared: &mut Prepared,
        store: &Store,
        round: &Round,
    ) -> Result<Option<HashSet<JobId>>, SessionError> {
        let Round { summary, ran, has_twins, .. } = round;
        let stopped = summary.interrupted.is_some() || summary.broken.is_some() || summary.detached;
        if stopped || summary.stopped > 0 || (request.fail_fast && summary.failed > 0) {
            return Ok(None);
        }
        let ran: HashSet<JobId> = ran.iter().copied().collect();
        let lost = lost(&prepared.plan, store, |id| ran.contains(&id), &self.lost);
        let lost = lost.map_err(SessionError::search(&prepared.name))?;
        if *has_twins {
            prepared.batches.measure(&prepared.plan, store).map_err(SessionError::search(&prepared.name))?;
            prepared.batches.measured().say();
        }
        // The others run if the first has failed.
        if !advance(prepared, store, &lost)? && !has_twins {
            return Ok(None);
        }
        self.lost = lost;
        self.rounds += 1;
        self.failed += summary.failed + summary.blocked;
        self.done += summary.done;
        self.seconds += summary.seconds;
        Ok(Some(prepared.plan.selection()?))
    }
}
