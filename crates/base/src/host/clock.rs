//! The wall clock.

use jiff::Timestamp;

/// The current time: for names and notes, never for measuring. In a debug build `SWEEP_CLOCK=-3600` sets it back an hour,
/// so that tests can let it jump.
pub fn now() -> Timestamp {
    #[cfg(debug_assertions)]
    if let Some(jump) = std::env::var("SWEEP_CLOCK").ok().and_then(|jump| jump.parse().ok()) {
        return Timestamp::now() + jiff::SignedDuration::from_secs(jump);
    }
    Timestamp::now()
}
