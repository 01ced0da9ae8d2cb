//! The terminal while the view has it. It is restored at the end of the view, after an error, in a panic, and after a signal.

use std::{
    io::{self, Stdout, stdout},
    panic,
    sync::{
        Arc, Once,
        atomic::{AtomicBool, AtomicI32, Ordering},
    },
    thread,
    time::Duration,
};

use ratatui::{
    Terminal,
    backend::CrosstermBackend,
    crossterm::{
        cursor::Show,
        execute,
        terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode},
    },
};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    iterator::{Handle, Signals},
    low_level::emulate_default_handler,
};

use crate::host::threads::refused;

/// Time for the view to end after a signal. Crossterm's read of a terminal that has hung up never returns.
const PATIENCE: Duration = Duration::from_secs(1);

/// True while the terminal is in raw mode and shows the alternate screen.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// The terminal of the view.
pub(super) struct Screen {
    pub(super) terminal: Terminal<CrosstermBackend<Stdout>>,
    signal: Arc<AtomicI32>,
    signals: Handle,
}

impl Screen {
    /// Takes the terminal: raw mode, and the alternate screen.
    pub(super) fn take() -> io::Result<Self> {
        let signal = Arc::new(AtomicI32::new(0));
        let signals = follow_signals(Arc::clone(&signal))?;
        restore_in_panics();
        IS_TAKEN.store(true, Ordering::SeqCst);
        let terminal = enable_raw_mode()
            .and_then(|()| execute!(stdout(), EnterAlternateScreen))
            .and_then(|()| Terminal::new(CrosstermBackend::new(stdout())))
            .inspect_err(|_| restore())?;
        Ok(Self { terminal, signal, signals })
    }

    /// The signal that has asked for the end of the program.
    pub(super) fn signal(&self) -> Option<i32> {
        Some(self.signal.load(Ordering::SeqCst)).filter(|signal| *signal != 0)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
        self.signals.close();
    }
}

/// Stores termination signals in `latest`. If the view does not end, the signal ends the process.
fn follow_signals(latest: Arc<AtomicI32>) -> io::Result<Handle> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    let handle = signals.handle();
    let follow = move || {
        for signal in signals.forever() {
            latest.store(signal, Ordering::SeqCst);
            thread::sleep(PATIENCE);
            if IS_TAKEN.load(Ordering::SeqCst) {
                restore();
                let _ = emulate_default_handler(signal);
            }
        }
    };
    thread::Builder::new().name("signals".into()).spawn(follow).map_err(refused)?;
    Ok(handle)
}

/// Gives the terminal back, once. A terminal that has gone needs nothing.
fn restore() {
    if IS_TAKEN.swap(false, Ordering::SeqCst) {
        let _ = execute!(stdout(), LeaveAlternateScreen, Show);
        let _ = disable_raw_mode();
    }
}

/// Restores the terminal before a panic prints its message, which the alternate screen would hide.
fn restore_in_panics() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let print = panic::take_hook();
        panic::set_hook(Box::new(move |about| {
            restore();
            print(about);
        }));
    });
}
