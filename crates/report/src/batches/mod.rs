//! Batches of searches: recipes planned again and again, as far as the batches of their samplers are decided.
//!
//! A step with `suggest` has the points of the decided batches. A batch follows from the results of all earlier ones
//! ([`Batches::advance`]), so a recipe is planned again after each. Only records and kept decisions are read: the same
//! records give the same batches in any order and on any machine. Built-in samplers are run again instead of using a
//! stored answer; the answers of other programs are kept with the sampler's version, and are valid only for the results
//! that they followed from. With a remote, the first machine decides for all.

mod again;
mod decided;
mod trials;

use std::{collections::HashSet, io, sync::Arc};

use sweep_job::Backend;

pub use self::again::log_of;
pub use self::{
    again::{Again, Measured, Measurer, alike, earlier_results, install_measurer, twins},
    decided::sampler_files,
};
use self::{
    decided::{BatchRequest, Decided},
    trials::Ended,
};
use crate::{
    plan::{AllSearched, Digests, JobId, ListId, Plan, PlanError, Room, Searched},
    recipe::{Draft, Search},
    record::Key,
    remote::Remote,
    store::{Decision, Store, StoreError},
    suggest::AskError,
};

/// Recipes that are planned again after each decision.
#[derive(Debug)]
pub struct Batches {
    /// The recipes; `None` if no decision adds points to them.
    draft: Option<Draft>,
    backend: Backend,
    known: AllSearched,
    /// Decisions that follow from records and are not in the store.
    unkept: Vec<Decision>,
    /// The remote with which other machines share the answers of samplers.
    remote: Option<Arc<Remote>>,
    /// Jobs that got records from records of the same computations; `None` if no such records are created.
    measured: Option<Measured>,
}

/// Permission of a search to do more than read existing decisions.
#[derive(Debug, Clone, Copy)]
pub enum Mode<'a> {
    /// No decision is made: jobs without a record may still run.
    Look,
    /// Decide the next batch, if all earlier jobs have ended. These have ended without a record.
    Decide(&'a Lost),
}

/// The keys of jobs that have ended without a record.
pub type Lost = HashSet<Key>;

/// A decision that was made, in words: `batch 2 of 5 of search: 8 configurations by tpe`.
pub type News = Vec<String>;

/// Reason why a search cannot continue.
#[derive(Debug, thiserror::Error)]
pub enum SearchError {
    /// The recipes cannot be planned.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A decision cannot be read or kept.
    #[error("cannot keep a decision: {0}")]
    Io(#[from] io::Error),
    /// The sampler gives no configurations.
    #[error("step `{step}`: {source}")]
    Ask {
        /// The step.
        step: String,
        /// The reason.
        source: AskError,
    },
}

impl Batches {
    /// Plans recipes with all batches that are decided.
    pub fn plan(draft: Draft, backend: Backend, store: &Store) -> Result<(Self, Plan), SearchError> {
        let mut batches = Self::new(draft.again(), backend);
        batches.measured = Some(Measured::default());
        let plan = batches.whole(draft, store, &|| digests(store), &Room::default)?;
        Ok((batches, plan))
    }

    /// Plans recipes with all batches that are decided, with these digests of input files and no more memory than there is
    /// room.
    pub fn plan_with(
        draft: Draft,
        backend: Backend,
        store: &Store,
        digests: &dyn Fn() -> Digests,
        room: &dyn Fn() -> Room,
    ) -> Result<Plan, SearchError> {
        let mut batches = Self::new(draft.again(), backend);
        batches.whole(draft, store, digests, room)
    }

    fn new(draft: Option<Draft>, backend: Backend) -> Self {
        Self { draft, backend, known: AllSearched::new(), unkept: Vec::new(), remote: None, measured: None }
    }

    /// Shares the answers of samplers that are other programs with the machines that use this remote.
    pub fn share(&mut self, remote: Option<Arc<Remote>>) {
        self.remote = remote;
    }

    /// The jobs that got records from records of the same computations since the last call.
    pub fn measured(&mut self) -> Measured {
        self.measured.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Gives jobs whose computations have records by now their own.
    pub fn measure(&mut self, plan: &Plan, store: &Store) -> Result<(), SearchError> {
        if let Some(measurements) = &mut self.measured {
            measurements.add(again::bring(plan, store)?);
        }
        Ok(())
    }

    /// Plans recipes with the known batches, and creates records of jobs from existing records of the same computations.
    fn planned(
        &mut self,
        draft: Draft,
        store: &Store,
        digests: &dyn Fn() -> Digests,
        room: &dyn Fn() -> Room,
    ) -> Result<Plan, SearchError> {
        let plan = Plan::searched(draft, self.backend, digests(), room(), &self.known)?;
        self.measure(&plan, store)?;
        Ok(plan)
    }

    fn whole(
        &mut self,
        draft: Draft,
        store: &Store,
        digests: &dyn Fn() -> Digests,
        room: &dyn Fn() -> Room,
    ) -> Result<Plan, SearchError> {
        let plan = self.planned(draft, store, digests, room)?;
        let next = self.go_on(&plan, store, Mode::Look, digests, room)?;
        Ok(next.map_or(plan, |(next, _)| next))
    }

    /// The plan with all batches that can be decided now; `None` if there is no further batch.
    pub fn advance(&mut self, plan: &Plan, store: &Store, mode: Mode<'_>) -> Result<Option<(Plan, News)>, SearchError> {
        if matches!(mode, Mode::Decide(_)) {
            for decision in std::mem::take(&mut self.unkept) {
                store.create()?;
                store.keep_decision(&decision)?;
            }
        }
        self.go_on(plan, store, mode, &|| digests(store), &Room::default)
    }

    fn go_on(
        &mut self,
        plan: &Plan,
        store: &Store,
        mode: Mode<'_>,
        digests: &dyn Fn() -> Digests,
        room: &dyn Fn() -> Room,
    ) -> Result<Option<(Plan, News)>, SearchError> {
        let (mut latest_plan, mut news) = (None, News::new());
        while let Some(draft) = self.draft.as_ref().and_then(Draft::again) {
            let plan = latest_plan.as_ref().unwrap_or(plan);
            if !self.decide(plan, store, mode, &mut news)? {
                break;
            }
            latest_plan = Some(self.planned(draft, store, digests, room)?);
        }
        if latest_plan.is_some() && matches!(mode, Mode::Decide(_)) {
            news.extend(self.measured().sentences());
        }
        Ok(latest_plan.map(|plan| (plan, news)))
    }

    /// Adds the next batch of each step for which it can be decided; `false` if no batch was added.
    fn decide(&mut self, plan: &Plan, store: &Store, mode: Mode<'_>, news: &mut News) -> Result<bool, SearchError> {
        let mut has_batch = false;
        for (study, recipe) in plan.studies.iter().map(|study| &study.recipe).enumerate() {
            for (step, recipe_step) in recipe.steps.iter().enumerate() {
                let Some(suggestion) = recipe_step.matrix.suggested() else { continue };
                let axes: Vec<String> = suggestion.axes.iter().map(|axis| axis.value.clone()).collect();
                let searched = self.known.get(&(study, step));
                let request =
                    BatchRequest { plan, study, step, axes: &axes, known: searched, remote: self.remote.as_deref() };
                let mode = if plan.wants(study, step) { mode } else { Mode::Look };
                let Some(Decided { points, left, says, unkept }) = request.decided(store, mode)? else { continue };
                let new_search = || Searched::new(axes.clone(), left);
                self.known.entry((study, step)).or_insert_with(new_search).add(points, left);
                news.extend(says);
                self.unkept.extend(unkept);
                has_batch = true;
            }
        }
        Ok(has_batch)
    }
}

/// The jobs of a plan that ended without a record in a run that came to its end: the jobs of the run, the jobs that decisions released, and
/// the jobs that need one of them.
pub fn lost(plan: &Plan, store: &Store, ran: impl Fn(JobId) -> bool, earlier: &Lost) -> Result<Lost, SearchError> {
    let mut lost = earlier.clone();
    for (id, job) in plan.jobs() {
        let needs_lost = |list: &ListId| plan.list(*list).iter().any(|need| lost.contains(&plan.job(*need).key));
        // The disk is read last, and not at all for a run without work.
        if (ran(id) || plan.lists_of(id).iter().any(needs_lost)) && !store.contains(job.key) {
            lost.insert(job.key);
        }
    }
    // The jobs that a decision releases may fail, which may lead to another decision.
    loop {
        let count_before = lost.len();
        for (index, study) in plan.studies.iter().enumerate() {
            for (step, recipe_step) in
                study.recipe.steps.iter().enumerate().filter(|(step, _)| plan.wants(index, *step))
            {
                let Some(metric) = recipe_step.search.as_ref().and_then(Search::staged_by) else { continue };
                let jobs = study.steps[step].iter().map(|(_, id)| *id);
                let results = Ended::read(plan, store, jobs, metric, Mode::Decide(&lost))?;
                let required_jobs = results.required(plan, study, step, false)?;
                let released_keys = required_jobs.into_iter().filter(|id| plan.is_held(*id)).map(|id| plan.job(id).key);
                lost.extend(released_keys.filter(|key| !store.contains(*key)));
            }
        }
        if lost.len() == count_before {
            return Ok(lost);
        }
    }
}

/// The digests of input files from earlier runs.
fn digests(store: &Store) -> Digests {
    Digests::open(store.digests()).with_manifests(store.manifests())
}
