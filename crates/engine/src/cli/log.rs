//! The log on standard error, which `-v` and `SWEEP_LOG` turn on.

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

/// Turns the log on if the environment or `-v`, given `verbose` times, requests it. The logs of libraries are not shown, because
/// they may contain addresses with secrets.
pub(super) fn start(verbose: u8) -> Result<(), FilterError> {
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
