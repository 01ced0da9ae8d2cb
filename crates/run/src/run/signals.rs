//! Signals such as Ctrl-C, as inputs of the loop.

use std::{
    io,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
        mpsc::Sender,
    },
    thread,
};

use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    iterator::{Handle, Signals as Iterator},
    low_level::emulate_default_handler,
};

use super::local::Input;
use crate::host::threads::refused;

/// Number of [`Deferral`]s.
static DEFERRALS: AtomicUsize = AtomicUsize::new(0);

/// While one exists, a signal between two runs does not end the process: its holder does.
#[derive(Debug)]
pub struct Deferral(());

impl Deferral {
    /// Defers the default effects of signals until the value is dropped.
    pub fn begin() -> Self {
        DEFERRALS.fetch_add(1, Ordering::SeqCst);
        Self(())
    }
}

impl Drop for Deferral {
    fn drop(&mut self) {
        DEFERRALS.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Signals, caught from now on.
#[derive(Debug)]
pub struct Signals(Iterator);

impl Signals {
    /// Catches the termination signals, in place of an earlier run of this process.
    pub fn catch() -> io::Result<Self> {
        static LATEST: Mutex<Option<Handle>> = Mutex::new(None);
        let signals = Iterator::new([SIGINT, SIGTERM, SIGHUP])?;
        // A run that has ended would give the signal its default effect, which is the end of this process.
        let earlier = LATEST.lock().unwrap_or_else(PoisonError::into_inner).replace(signals.handle());
        if let Some(earlier) = earlier {
            earlier.close();
        }
        Ok(Self(signals))
    }

    /// Forwards every signal during the run; afterwards signals have their default effects.
    ///
    /// A terminal disappears once: a repeated SIGHUP, while the run ends after the first one, does not end the process
    /// before it has its exit code.
    pub(super) fn forward(mut self, inputs: Sender<Input>) -> io::Result<()> {
        let handle = self.0.handle();
        let forward = move || {
            let mut hung_up = false;
            for signal in self.0.forever() {
                let repeated = signal == SIGHUP && hung_up;
                hung_up |= signal == SIGHUP;
                // A later run of this process has the signal, too, if it came while both caught it.
                let is_over = inputs.send(Input::Signal(signal)).is_err() && !handle.is_closed();
                if is_over && !repeated && DEFERRALS.load(Ordering::SeqCst) == 0 {
                    let _ = emulate_default_handler(signal);
                }
            }
        };
        thread::Builder::new().name("signals".into()).spawn(forward).map(|_| ()).map_err(refused)
    }
}
