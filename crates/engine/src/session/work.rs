//! The jobs to run, and the open resources of their run.

use std::sync::Arc;

use sweep_job::{Device, Probe};

use super::{
    Notifier, Request, SessionError,
    elsewhere::{opening, shared},
    standing::report,
    states::{look_again, say_at_once, warn_of_scarcity},
};
use crate::{
    analysis::search::Searches,
    format::say,
    host,
    plan::Plan,
    progress,
    recipe::BatchSystem,
    remote::{Puller, Pusher, Remote},
    render::beside,
    run::{
        self, Control, Disposition, Exchange, History, Journal, Manifest, Observer, Options, RunFolder, RunProvenance,
        Signals, Standing, Summary, Through,
        cluster::{self, Opening},
        estimate::Pace,
        slots::Limits,
    },
    store::{InUse, Store},
};

/// The jobs of a plan to run.
pub(super) struct Work<'a> {
    request: &'a Request,
    plan: &'a Plan,
    store: &'a Store,
    states: Vec<Disposition>,
    device: Option<&'a (Probe, Device)>,
    limits: Limits,
    gpus: Vec<String>,
    /// The batch system, if the jobs run through one.
    batch: Option<BatchSystem>,
}

/// Open resources of a run with work to do: its folder and journal, the connection to the remote, and the store, locked
/// against removal.
pub(super) struct Opened {
    folder: RunFolder,
    journal: Journal,
    pusher: Option<Pusher>,
    history: History,
    pace: Pace,
    _in_use: InUse,
}

impl Opened {
    /// The name of the run.
    pub(super) fn name(&self) -> String {
        self.folder.name()
    }
}

impl<'a> Work<'a> {
    pub(super) fn new(
        request: &'a Request,
        plan: &'a Plan,
        store: &'a Store,
        states: Vec<Disposition>,
        device: Option<&'a (Probe, Device)>,
        batch: Option<BatchSystem>,
    ) -> Self {
        let (limits, gpus) = run::allocation::share(device.map(|(_, device)| device), request.jobs);
        let limits = run::allocation::with_gpu_memory(limits, &gpus, plan);
        Self { request, plan, store, states, device, limits, gpus, batch }
    }

    /// True if a job is to run.
    pub(super) fn has_jobs(&self) -> bool {
        self.states.contains(&Disposition::Yes)
    }

    /// Locks the store, and creates the run's folder and journal. `standing` has the records that do not count.
    pub(super) fn open(&mut self, standing: Option<&Standing>) -> Result<Opened, SessionError> {
        let Self { plan, store, request, .. } = *self;
        self.announce_device();
        store.create().map_err(SessionError::io("cannot write to the store"))?;
        let through = match &self.batch {
            Some(system) => shared(request, store, system)?,
            None => Through::Local,
        };
        let in_use = store.hold().map_err(SessionError::io("cannot write to the store"))?;
        if let Some(standing) = standing {
            standing.take_back(store).map_err(SessionError::io("cannot write to the store"))?;
            look_again(store, plan, &mut self.states);
        }
        let history = History::read(store, plan).map_err(SessionError::io("cannot read the store"))?;
        if through == Through::Local && !request.is_quiet {
            warn_of_scarcity(plan, &self.states, &self.limits);
            say_at_once(plan, &self.states, &self.limits, &history);
        }
        let manifest = Manifest::new(plan, &self.states, &self.limits, through, &history);
        // Before the folder is created: readers expect it to be complete, and Git may be slow.
        let provenance = RunProvenance::determine(plan);
        let folder = RunFolder::create(&request.results, &manifest);
        let folder = folder.map_err(SessionError::io("cannot write the journal"))?;
        // Records that come through the remote are there, as their machines have signed them.
        let carried =
            self.batch.as_ref().is_some_and(|system| cluster::open(system, Opening::default()).needs_exchange());
        let remote = request.remote.clone().filter(|remote| !carried && !remote.is_given_up());
        let pusher = remote.map(|remote| Pusher::new(remote, store.clone())).transpose();
        let pusher = pusher.map_err(SessionError::io("cannot start a thread"))?;
        let journal = Journal::create(folder.path(), store.is_shared());
        let journal = journal.map_err(SessionError::io("cannot write the journal"))?;
        provenance.keep(folder.path());
        Ok(Opened { folder, journal, pusher, history, pace: Pace::new(&manifest), _in_use: in_use })
    }

    fn announce_device(&self) {
        let Some((probe, device)) = self.device.filter(|_| !self.request.is_quiet) else { return };
        say(format_args!("{}", host::devices::describe(probe, device, self.limits.cpus)));
        if let Some(warning) = host::devices::warning(device) {
            say(format_args!("warning: {warning}"));
        }
    }

    /// Runs the jobs, with progress on standard error, and with reports that follow.
    pub(super) fn run(
        &self,
        opened: Opened,
        puller: Option<Puller>,
        searches: &mut Searches<'_>,
        notifier: &mut Notifier,
    ) -> Result<Summary, SessionError> {
        let signals = Signals::catch().map_err(SessionError::io("cannot catch signals"))?;
        let Opened { folder, mut journal, mut pusher, history, pace, _in_use } = opened;
        let mut progress = progress::on_stderr(pace, self.request.shows_all);
        let control = Control { signals: Some(signals), rounds: Some(searches) };
        let summary = beside(self.plan, self.store, &self.request.results, |live| {
            let pusher = pusher.as_mut().map(|pusher| pusher as &mut dyn Observer);
            let others: [&mut dyn Observer; 4] = [&mut journal, &mut *progress, live, notifier];
            let mut observers: Vec<&mut dyn Observer> = pusher.into_iter().chain(others).collect();
            self.drive(Some(folder), &history, puller.as_ref(), control, &mut observers)
        })?;
        report(self.remote(), puller, pusher.map(Pusher::finish).as_ref());
        if let (Some(error), None) = (journal.error, &summary.broken) {
            say(format_args!("warning: the journal is not complete: {error}"));
        }
        Ok(summary)
    }

    /// Reports that all jobs are done.
    pub(super) fn conclude(
        &self,
        puller: Option<Puller>,
        searches: &mut Searches<'_>,
    ) -> Result<Summary, SessionError> {
        let signals = Signals::catch().map_err(SessionError::io("cannot catch signals"))?;
        let mut progress = progress::on_stderr(Pace::silent(), self.request.shows_all);
        let control = Control { signals: Some(signals), rounds: Some(searches) };
        let summary = self.drive(None, &History::default(), puller.as_ref(), control, &mut [&mut *progress])?;
        report(self.remote(), puller, None);
        Ok(summary)
    }

    /// Runs the jobs. `observer` receives every event, after `progress`.
    pub(super) fn run_alone(
        &self,
        opened: Opened,
        signals: Signals,
        progress: &mut dyn Observer,
        observer: Option<&mut dyn Observer>,
    ) -> Result<Summary, SessionError> {
        let Opened { folder, mut journal, history, _in_use, .. } = opened;
        let mut observers: Vec<&mut dyn Observer> = vec![&mut journal, progress];
        if let Some(observer) = observer {
            observers.push(observer);
        }
        let control = Control { signals: Some(signals), rounds: None };
        self.drive(Some(folder), &history, None, control, &mut observers)
    }

    fn remote(&self) -> Option<&Remote> {
        self.request.remote.as_deref()
    }

    fn drive(
        &self,
        folder: Option<RunFolder>,
        history: &History,
        puller: Option<&Puller>,
        control: Control<'_>,
        observers: &mut [&mut dyn Observer],
    ) -> Result<Summary, SessionError> {
        let Self { request, plan, store, states, .. } = self;
        let summary = match (&self.batch, folder) {
            (Some(system), Some(folder)) => {
                let cluster = cluster::open(system, opening(request, store)?);
                let exchange = request.remote.clone().filter(|_| cluster.needs_exchange());
                let options = cluster::Options {
                    results: request.results.clone(),
                    folder,
                    poll: request.poll,
                    detach: request.detach,
                    pilots: request.pilots,
                    most: request.jobs,
                    fail_fast: request.fail_fast,
                    exchange: exchange.map(|remote| remote as Arc<dyn Exchange>),
                };
                cluster::run(plan, store, states, &*cluster, &options, control, observers)
            }
            (_, folder) => {
                let options = Options {
                    limits: self.limits.clone(),
                    gpus: self.gpus.clone(),
                    fail_fast: request.fail_fast,
                    device: self.device.map(|(_, device)| device.clone()),
                    folder: folder.map(|folder| folder.path().to_owned()).unwrap_or_default(),
                    deadline: run::DEADLINE,
                    arriving: puller.map(|puller| puller.arriving().clone()).unwrap_or_default(),
                    failures: None,
                };
                run::run(plan, store, states, &options, history, control, observers)
            }
        };
        summary.map_err(SessionError::io("the run cannot continue"))
    }
}
