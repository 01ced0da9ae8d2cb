//! Progress of a job in words.

use sweep_job::{Live, Progress, Unit};

use super::{clean, quantity};

/// The number of steps: `3/10`, or `step 3` if there is no known end. Empty if neither is known.
pub fn steps(progress: &Progress) -> String {
    match (progress.done, progress.total) {
        (0, 0) => String::new(),
        (done, 0) => format!("step {done}"),
        (done, total) => format!("{done}/{total}"),
    }
}

/// The latest value of a series: `loss 2.31`.
pub fn latest(live: &Live) -> String {
    let value = match live.unit {
        Unit::Nats => format!("{:.2}", live.value),
        unit => quantity(live.value, unit),
    };
    format!("{} {value}", clean(&live.name))
}
