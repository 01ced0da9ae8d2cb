//! The log on standard error, which `-v` and `SWEEP_LOG` turn on.

use std::sync::atomic::{AtomicBool, Ordering};

use tracing::{Level, subscriber};
use tracing_subscriber::{
    Registry,
    filter::Targets,
    fmt::{self, format::FmtSpan},
    layer::SubscriberExt as _,
};

use crate::{
    host::log::{Filter, FilterError, VARIABLE},
    progress::Screen,
};

/// True if `-v` was given.
static IS_VERBOSE: AtomicBool = AtomicBool::new(false);

/// True if the user requested more output.
pub(super) fn is_verbose() -> bool {
    IS_VERBOSE.load(Ordering::Relaxed)
}

/// Turns the log on if the environment or `-v`, given `verbose` times, requests it. The logs of libraries are not shown, because
/// they may contain addresses with secrets.
pub(super) fn start(verbose: u8) -> Result<(), FilterError> {
    IS_VERBOSE.store(verbose > 0, Ordering::Relaxed);
    let text = std::env::var_os(VARIABLE).unwrap_or_default();
    let level = match verbose {
        0 => None,
        1 => Some(Level::INFO),
        _ => Some(Level::DEBUG),
    };
    let filter = Filter::parse(&text.to_string_lossy())?.at_least(level);
    if filter.is_off() {
        return Ok(());
    }
    // A span has a line when it ends, with the time that it took.
    let lines = fmt::layer().with_writer(|| Screen).with_ansi(false).with_span_events(FmtSpan::CLOSE);
    let targets: Targets = filter.levels().collect();
    // Set once, before anything is logged.
    let _ = subscriber::set_global_default(Registry::default().with(targets).with(lines));
    Ok(())
}
