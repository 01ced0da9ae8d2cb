//! Progress of a job in words.

use sweep_job::{Live, Metric, Progress, Unit};

use super::{clean, measured};

/// The number of steps: `3/10`, or `step 3` without a known total; empty without either.
pub fn steps(progress: &Progress) -> String {
    match (progress.done, progress.total) {
        (0, 0) => String::new(),
        (done, 0) => format!("step {done}"),
        (done, total) => format!("{done}/{total}"),
    }
}

/// The finite numbers of `values` as a row of blocks, from the lowest block at `low` to the highest at `high`. Numbers
/// outside get the nearest block.
pub fn row_of_blocks(values: &[f64], low: f64, high: f64) -> String {
    let blocks = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let span = if high > low { high - low } else { 1.0 };
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 7")]
    let block = |value: f64| blocks[((value - low) / span * 7.0).round().clamp(0.0, 7.0) as usize];
    values.iter().filter(|value| value.is_finite()).map(|value| block(*value)).collect()
}

/// The latest value of a series: `loss 2.31`.
pub fn latest(live: &Live) -> String {
    let value = match live.unit {
        Unit::Nats => format!("{:.2}", live.value),
        unit => measured(&live.name, Metric { value: live.value, unit }),
    };
    format!("{} {value}", clean(&live.name))
}
