//! Batches of a search: the plan grows when all jobs of a batch have ended, and runs again.

use std::{collections::HashSet, mem::ManuallyDrop};

use super::RunArgs;
use crate::{
    batches::{Mode, lost},
    cli::Prepared,
    error::Error,
    format::say,
    plan::{JobId, ListId, Plan},
    record::Key,
    render::Page,
    run::{Disposition, Summary},
    store::{Stamp, Store},
};

/// The earlier batches of a command.
#[derive(Debug, Default)]
pub(super) struct Past {
    /// Number of plans that have run.
    pub(super) rounds: usize,
    /// Number of jobs that failed.
    pub(super) failed: usize,
    /// The jobs that ended without a record. They do not run again in this command.
    lost: HashSet<Key>,
}

/// End of the jobs of a plan.
pub(super) struct Round {
    pub(super) summary: Summary,
    pub(super) page: Page,
    /// The jobs that were to run.
    pub(super) ran: Vec<JobId>,
    /// The stamps of the jobs' records, if nothing had to run.
    pub(super) stamps: Option<Vec<Option<Stamp>>>,
}

/// Decides what follows from no results, so that there is something to select and to run.
pub(super) fn begin(prepared: &mut Prepared, store: &Store) -> Result<(), Error> {
    advance(prepared, store, &HashSet::new()).map(|_| ())
}

/// Plans all batches that can be decided; `false` if there is no further one.
fn advance(prepared: &mut Prepared, store: &Store, lost: &HashSet<Key>) -> Result<bool, Error> {
    let next = prepared.batches.advance(&prepared.plan, store, Mode::Decide(lost));
    let Some((plan, news)) = next.map_err(Error::search(prepared.name.clone()))? else { return Ok(false) };
    for news in news {
        say(format_args!("{news}"));
    }
    prepared.plan = ManuallyDrop::new(plan);
    Ok(true)
}

impl Past {
    /// The jobs that are to run now: none that has failed before, and none that needs one of those.
    pub(super) fn states(&self, plan: &Plan, mut states: Vec<Disposition>) -> Vec<Disposition> {
        for (id, job) in plan.jobs().filter(|_| !self.lost.is_empty()) {
            let lost = |list: &ListId| plan.list(*list).iter().any(|need| self.lost.contains(&plan.job(*need).key));
            let state = &mut states[id.index()];
            if *state != Disposition::Cached && (self.lost.contains(&job.key) || plan.lists_of(id).iter().any(lost)) {
                *state = Disposition::No;
            }
        }
        states
    }

    /// The jobs of the next plan, if a batch is decided after a round; `None` if there is nothing more to run.
    pub(super) fn next(
        &mut self,
        args: &RunArgs,
        prepared: &mut Prepared,
        store: &Store,
        round: &Round,
    ) -> Result<Option<HashSet<JobId>>, Error> {
        let Round { summary, ran, .. } = round;
        let stopped = summary.interrupted.is_some() || summary.broken.is_some() || summary.detached;
        if stopped || summary.stopped > 0 || (args.fail_fast && summary.failed > 0) {
            return Ok(None);
        }
        let ran: HashSet<JobId> = ran.iter().copied().collect();
        let lost = lost(&prepared.plan, store, |id| ran.contains(&id), &self.lost);
        let lost = lost.map_err(Error::search(prepared.name.clone()))?;
        if !advance(prepared, store, &lost)? {
            return Ok(None);
        }
        self.lost = lost;
        self.rounds += 1;
        self.failed += summary.failed + summary.blocked;
        Ok(Some(prepared.plan.selection()?))
    }
}
