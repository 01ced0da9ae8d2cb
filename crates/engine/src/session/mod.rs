//! Runs the jobs of a plan, from the lookup in the store to the end of the last job, for `sweep run`, `sweep propose` and `sweep compare`.
//!
//! `checks.rs` refuses plans that the executor cannot run, `standing.rs` finds the jobs that are done, here and in the remote,
//! `states.rs` decides which jobs run, `work.rs` opens the run's folder and journal and runs the jobs, and `batches.rs` lets
//! the plan grow by the batches of a search. `single.rs` runs jobs for another command. `elsewhere.rs` prepares the store for a batch system, and `code.rs` reports files
//! that were edited meanwhile. `notify.rs` sends messages, those to HTTP servers by `post.rs`.

mod batches;
mod checks;
mod code;
mod elsewhere;
mod error;
mod notify;
mod post;
mod single;
mod standing;
mod states;
mod work;

use std::{
    collections::HashSet,
    mem::ManuallyDrop,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use sweep_job::{Device, Probe};

pub use self::{
    batches::begin,
    code::has_mixed_versions,
    error::SessionError,
    notify::Notifier,
    single::{Interrupts, run_jobs},
};
use self::{
    batches::{Past, Round},
    standing::look,
    states::share,
    work::Work,
};
use crate::{
    analysis::search::{DecidedJobs, Searches},
    batches::Batches,
    format::{clean, count, say},
    plan::{JobId, Plan},
    recipe::{Executor, Warning},
    remote::Remote,
    render::Page,
    run::{self, Disposition, Standing, Summary},
    store::{Stamp, Store},
};

/// Shortest interval between polls of a batch system's queue.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Settings of a session.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
pub struct Request {
    /// The results folder.
    pub results: PathBuf,
    /// Maximum number of jobs at once.
    pub jobs: Option<usize>,
    /// Stop at the first failure.
    pub fail_fast: bool,
    /// Run measurements again that other processes disturbed.
    pub remeasure: bool,
    /// Run the jobs of this plan only: no batch of a search follows.
    pub is_single: bool,
    /// With a batch system: leave as soon as the jobs are submitted.
    pub detach: bool,
    /// With a batch system: number of pilot jobs, each of which runs several jobs.
    pub pilots: Option<usize>,
    /// With a batch system: shortest interval between polls of the queue.
    pub poll: Duration,
    /// The store for shared records.
    pub remote: Option<Arc<Remote>>,
    /// True if the device, scarce resources and the number of jobs at once are not announced.
    pub is_quiet: bool,
    /// True if each job has lines of progress, however many there are.
    pub shows_all: bool,
}

impl Request {
    /// The default settings, for a results folder.
    pub fn new(results: &Path) -> Self {
        Self {
            results: results.to_owned(),
            jobs: None,
            fail_fast: false,
            remeasure: false,
            is_single: false,
            detach: false,
            pilots: None,
            poll: POLL_INTERVAL,
            remote: None,
            is_quiet: false,
            shows_all: false,
        }
    }
}

/// A plan that can run.
pub struct Prepared {
    /// The plan. It is leaked on exit: freeing a large plan takes longer than printing it.
    pub plan: ManuallyDrop<Plan>,
    /// `None` where no job needs a device, or where the device does not matter because nothing will run.
    pub device: Option<(Probe, Device)>,
    /// The recipes, to plan them again after each decision of a search.
    pub batches: Batches,
    /// The names of the files, for messages.
    pub name: String,
}

/// End of a session.
pub struct Finished {
    /// The last plan.
    pub prepared: Prepared,
    /// The result of all batches.
    pub summary: Summary,
    /// The names of the runs: one for each batch of a search; none if nothing had to run.
    pub runs: Vec<String>,
    /// The pages to write.
    pub page: Page,
    /// The stamps of the jobs' records, if nothing had to run.
    pub stamps: Option<Vec<Option<Stamp>>>,
    /// The messages about the run, which are to be concluded.
    pub notifier: Notifier,
}

/// Runs the selected jobs of a plan, and the jobs of the batches that follow. `plan_again` creates the plan and its selection again, after
/// records from other machines have changed keys.
///
/// # Errors
/// A [`SessionError`], or the errors of `plan_again`.
pub(crate) fn run<E: From<SessionError>>(
    request: &Request,
    store: &Store,
    (mut prepared, mut selected): (Prepared, HashSet<JobId>),
    mut plan_again: impl FnMut() -> Result<(Prepared, HashSet<JobId>), E>,
) -> Result<Finished, E> {
    let mut past = Past::default();
    let mut notifier = Notifier::new(&prepared.plan);
    loop {
        let Some(round) = round(request, &prepared, store, &selected, &past, &mut notifier)? else {
            (prepared, selected) = plan_again()?;
            continue;
        };
        past.runs.extend(round.run.clone());
        if !request.is_single
            && let Some(next) = past.next(request, &mut prepared, store, &round)?
        {
            selected = next;
            notifier.follow(&prepared.plan);
            continue;
        }
        let Round { summary, page, stamps, .. } = round;
        let summary = past.summary(summary);
        let (page, stamps) = if past.rounds > 0 { (Page::Anew, None) } else { (page, stamps) };
        return Ok(Finished { prepared, summary, runs: past.runs, page, stamps, notifier });
    }
}

/// Runs the jobs of a plan; `None` if records from other machines change keys, so that the plan has to be computed again.
fn round(
    request: &Request,
    prepared: &Prepared,
    store: &Store,
    selected: &HashSet<JobId>,
    past: &Past,
    notifier: &mut Notifier,
) -> Result<Option<Round>, SessionError> {
    let Prepared { plan, device, .. } = prepared;
    let batch = if let Executor::Batch(system) = &plan.executor { Some(system.clone()) } else { None };
    checks::flags(request, batch.as_ref())?;
    let mut looked = look(request, store, plan, selected, batch.is_some())?;
    if looked.puller.is_none() && looked.has_other_code(plan, store) {
        return Ok(None);
    }
    if request.remeasure && past.rounds == 0 {
        measure_again(&mut looked.standing, plan, store, selected)?;
    }
    if past.rounds == 0 {
        warn_of_damage(&looked.standing);
        warn(plan);
    }
    let (mut states, has_twins) = past.states(plan, store, selected, &looked.standing, batch.is_none())?;
    share(plan, store, &mut states);
    checks::environment(plan, &states)?;
    checks::nodes(request, plan, &states, batch.as_ref())?;
    let mut searches = Searches::new(plan, store, &states).map_err(SessionError::io("cannot read the store"))?;
    let ran: Vec<JobId> = plan.jobs().map(|(id, _)| id).filter(|id| states[id.index()] == Disposition::Yes).collect();
    let mut work = Work::new(request, plan, store, states, device.as_ref(), batch);
    let stamps = std::mem::take(&mut looked.standing.stamps);
    // A rerun of finished jobs reads records and writes only the tables.
    let has_work = work.has_jobs() || has_plans_ahead(&mut searches)?;
    let opened = if has_work { Some(work.open(Some(&looked.standing))?) } else { None };
    let page = if opened.is_some() { Page::Anew } else { Page::IfStale };
    let run = opened.as_ref().map(work::Opened::name);
    let was_run = run.is_some();
    let summary = match opened {
        Some(opened) => work.run(opened, looked.puller, &mut searches, notifier)?,
        None => work.conclude(looked.puller, &mut searches)?,
    };
    if was_run && !summary.detached {
        // Best effort: a state that remains only takes disk space.
        let decided_jobs = DecidedJobs::read(plan, store).unwrap_or_default();
        let _ = run::retire(plan, store, |id| decided_jobs.is_stopped(id));
    }
    let stamps = (!was_run).then_some(stamps);
    Ok(Some(Round { summary, page, run, ran, stamps, has_twins }))
}

/// True if results that were undecided when an earlier run ended may still need jobs.
fn has_plans_ahead(searches: &mut Searches<'_>) -> Result<bool, SessionError> {
    Ok(searches.plan_ahead().map_err(SessionError::io("cannot read the store"))? > 0)
}

/// Counts disturbed measurements as not done, and prints their number.
fn measure_again(
    standing: &mut Standing,
    plan: &Plan,
    store: &Store,
    selected: &HashSet<JobId>,
) -> Result<(), SessionError> {
    let again = standing.measure_again(plan, store, selected)?;
    let disturbed = count(again.disturbed, "job");
    let others = match again.in_rounds {
        0 => String::new(),
        others => format!(", and {} took no turns or belong to the same rounds", count(others, "other")),
    };
    let now = if again.disturbed + again.in_rounds > 0 { ", measured again now" } else { "" };
    say(format_args!("other processes disturbed {disturbed}{others}{now}"));
    Ok(())
}

/// Prints the warnings of a plan.
pub fn warn(plan: &Plan) {
    const MAX_WARNINGS: usize = 20;
    for Warning { at, message, help } in plan.warnings.iter().take(MAX_WARNINGS) {
        say(format_args!("warning: {at}: {message}\n  {help}"));
    }
    if plan.warnings.len() > MAX_WARNINGS {
        say(format_args!("… and {}", count(plan.warnings.len() - MAX_WARNINGS, "more warning")));
    }
}

/// Prints the warnings about records that cannot be relied on.
pub fn warn_of_damage(standing: &Standing) {
    for warning in &standing.warnings {
        say(format_args!("warning: {}", clean(warning)));
    }
}
