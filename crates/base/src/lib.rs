//! Numbers and texts for people, the machine and its processes, and records of results.

pub mod format;
pub mod host;
pub mod record;
