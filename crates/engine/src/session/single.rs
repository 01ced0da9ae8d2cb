//! Runs of jobs that another command needs, on this machine, with progress as lines on standard error.

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

use super::{Request, SessionError, work::Work};
use crate::{
    host,
    plan::Plan,
    progress::Lines,
    run::{Deferral, Disposition, Observer, Signals, Summary, estimate::Pace},
    store::Store,
};

/// The bound that the environment sets on the jobs at once, as for `sweep run`.
fn jobs_at_once() -> Result<Option<usize>, SessionError> {
    let Some(text) = std::env::var_os("SWEEP_JOBS") else { return Ok(None) };
    let jobs = text.to_str().and_then(|text| text.parse::<u16>().ok()).filter(|jobs| *jobs > 0);
    let invalid = || io::Error::other(format!("it is {}, and must be an integer from 1 to 65535", text.display()));
    Ok(Some(usize::from(jobs.ok_or_else(invalid).map_err(SessionError::io("cannot use `SWEEP_JOBS`"))?)))
}

/// The signals that request an end, also between two runs. They are handled until this value is dropped.
pub struct Interrupts {
    asked: Arc<AtomicUsize>,
    listeners: Vec<SigId>,
    _deferral: Deferral,
}

impl Interrupts {
    /// Hears signals from now on.
    pub fn listen() -> Self {
        let asked = Arc::new(AtomicUsize::new(0));
        let listen =
            |signal: i32| flag::register_usize(signal, Arc::clone(&asked), usize::try_from(signal).unwrap_or(1));
        let listeners = [SIGINT, SIGTERM, SIGHUP].into_iter().filter_map(|signal| listen(signal).ok()).collect();
        Self { asked, listeners, _deferral: Deferral::begin() }
    }

    /// The signal that came last, if any.
    pub fn signal(&self) -> Option<i32> {
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

/// Runs the wanted jobs of a plan on this machine, with the run's folder in the results folder of the store. `wanted` has every job, in the
/// plan's order; `observer` receives every event, too. With `is_quiet`, nothing is printed.
///
/// # Errors
/// There is no device, or the store cannot be used.
pub fn run_jobs(
    plan: &Plan,
    store: &Store,
    backend: Backend,
    wanted: &[Disposition],
    observer: Option<&mut dyn Observer>,
    is_quiet: bool,
) -> Result<Summary, SessionError> {
    let on_device = plan.jobs().any(|(_, job)| job.identity.backend.is_some());
    let device = if on_device && host::lab::is_installed() {
        let probe = host::devices::probe()?;
        let device = host::devices::choose(&probe, BackendChoice::Only(backend))?;
        Some((probe, device))
    } else {
        None
    };
    let request = Request { jobs: jobs_at_once()?, is_quiet: true, ..Request::new(store.results()) };
    // Before the slow scan of the project, so that a signal during the scan ends the run.
    let signals = Signals::catch().map_err(SessionError::io("cannot catch signals"))?;
    // A signal at the very end of a run would be lost, and the next stage would begin.
    let interrupts = Interrupts::listen();
    let mut work = Work::new(&request, plan, store, wanted.to_vec(), device.as_ref(), None);
    let opened = work.open(None)?;
    let out: Box<dyn io::Write> = if is_quiet { Box::new(io::sink()) } else { Box::new(io::stderr()) };
    let mut lines = Lines::new(out, Pace::silent(), false);
    let mut summary = work.run_alone(opened, signals, &mut lines, observer)?;
    summary.interrupted = summary.interrupted.or(interrupts.signal());
    Ok(summary)
}
