//! Runs of a plan's jobs on this machine, with progress as lines on standard error.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use signal_hook::{
    SigId,
    consts::{SIGHUP, SIGINT, SIGTERM},
    flag, low_level,
};
use sweep_job::{Backend, BackendChoice};

use crate::{
    host::{self, devices::DeviceError},
    plan::Plan,
    progress::Lines,
    run::{
        self, Arriving, Control, Deferral, Disposition, History, Journal, Manifest, Observer, Options, RunFolder,
        RunProvenance, Signals, Summary, Through, estimate::Pace,
    },
    store::Store,
};

/// Error of a run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// There is no device.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The disk or the system says no.
    #[error("{what}: {source}")]
    Io {
        /// The failed operation.
        what: &'static str,
        /// Error of the system.
        source: io::Error,
    },
}

impl RunError {
    fn io(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { what, source }
    }
}

/// The bound that the environment sets on the jobs at once, as for `sweep run`.
fn jobs_at_once() -> Result<Option<usize>, RunError> {
    let Some(text) = std::env::var_os("SWEEP_JOBS") else { return Ok(None) };
    let jobs = text.to_str().and_then(|text| text.parse::<u16>().ok()).filter(|jobs| *jobs > 0);
    let invalid = || io::Error::other(format!("it is {}, and must be an integer from 1 to 65535", text.display()));
    Ok(Some(usize::from(jobs.ok_or_else(invalid).map_err(RunError::io("cannot use `SWEEP_JOBS`"))?)))
}

/// The signals that ask for an end, also between two runs. They are heard until it is dropped.
pub(super) struct Interrupts {
    asked: Arc<AtomicUsize>,
    listeners: Vec<SigId>,
    _deferral: Deferral,
}

impl Interrupts {
    /// Hears signals from now on.
    pub(super) fn listen() -> Self {
        let asked = Arc::new(AtomicUsize::new(0));
        let listen =
            |signal: i32| flag::register_usize(signal, Arc::clone(&asked), usize::try_from(signal).unwrap_or(1));
        let listeners = [SIGINT, SIGTERM, SIGHUP].into_iter().filter_map(|signal| listen(signal).ok()).collect();
        Self { asked, listeners, _deferral: Deferral::begin() }
    }

    /// The signal that came last, if any.
    pub(super) fn signal(&self) -> Option<i32> {
        i32::try_from(self.asked.load(Ordering::SeqCst)).ok().filter(|signal| *signal > 0)
    }
}

impl Drop for Interrupts {
    fn drop(&mut self) {
        for listener in self.listeners.drain(..) {
            low_level::unregister(listener);
        }
    }
}

/// Runs the wanted jobs of a plan, with the run's folder in the results folder of the store. `wanted` has every job, in the plan's
/// order; `observer` is told of every event, too. With `is_quiet` nothing is printed.
pub fn run_jobs(
    plan: &Plan,
    store: &Store,
    backend: Backend,
    wanted: &[Disposition],
    observer: Option<&mut dyn Observer>,
    is_quiet: bool,
) -> Result<Summary, RunError> {
    let on_device = plan.jobs().any(|(_, job)| job.identity.backend.is_some());
    let device = if on_device && host::lab::is_installed() {
        Some(host::devices::choose(&host::devices::probe()?, BackendChoice::Only(backend))?)
    } else {
        None
    };
    let signals = Signals::catch().map_err(RunError::io("cannot catch signals"))?;
    store.create().map_err(RunError::io("cannot write to the store"))?;
    let _in_use = store.hold().map_err(RunError::io("cannot write to the store"))?;
    let (limits, gpus) = run::allocation::share(device.as_ref(), jobs_at_once()?);
    let limits = run::allocation::with_gpu_memory(limits, &gpus, plan);
    let history = History::default();
    let manifest = Manifest::new(plan, wanted, &limits, Through::Local, &history);
    let provenance = RunProvenance::determine(plan);
    let folder = RunFolder::create(store.results(), &manifest).map_err(RunError::io("cannot write the journal"))?;
    let mut journal = Journal::create(folder.path(), false).map_err(RunError::io("cannot write the journal"))?;
    let folder = folder.path().to_owned();
    provenance.keep(&folder);
    let (deadline, arriving, failures) = (run::DEADLINE, Arriving::default(), None);
    let options = Options { limits, gpus, fail_fast: false, device, folder, deadline, arriving, failures };
    let out: Box<dyn io::Write> = if is_quiet { Box::new(io::sink()) } else { Box::new(io::stderr()) };
    let mut lines = Lines::new(out, Pace::silent(), false);
    // A signal at the very end of a run would be lost, and the next stage would begin.
    let interrupts = Interrupts::listen();
    let mut observers: Vec<&mut dyn Observer> = vec![&mut journal, &mut lines];
    if let Some(observer) = observer {
        observers.push(observer);
    }
    let control = Control { signals: Some(signals), rounds: None };
    let summary = run::run(plan, store, wanted, &options, &history, control, &mut observers);
    let mut summary = summary.map_err(RunError::io("the run cannot continue"))?;
    summary.interrupted = summary.interrupted.or(interrupts.signal());
    Ok(summary)
}
