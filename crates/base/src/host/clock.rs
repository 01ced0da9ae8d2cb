//! The wall clock.

use jiff::Timestamp;

/// The current time: for names and timestamps, not for durations, because the clock can jump. In a debug build,
/// `SWEEP_CLOCK=-3600` sets it back an hour for tests.
pub fn now() -> Timestamp {
    #[cfg(debug_assertions)]
    if let Some(jump) = std::env::var("SWEEP_CLOCK").ok().and_then(|jump| jump.parse().ok()) {
        return Timestamp::now() + jiff::SignedDuration::from_secs(jump);
    }
    Timestamp::now()
}
