//! Remarks on a result that decisions about it need: the diverged values, and a digest that identifies equal results.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sweep_job::{Outcome, Precision, Task, TaskInfo, Unit, tasks::Imported};

/// Remarks on a result.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Remarks {
    /// The metrics without a value because their newest one is not finite, each with the step from which on its values are not finite.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub diverged: BTreeMap<String, Option<u64>>,
    /// The source of a record that was imported from another program, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imported: Option<String>,
    /// The end of an imported run that had not finished: [`Imported::RUNNING`], or the word of its program for a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unfinished: Option<String>,
    /// The number of seeds that the configuration of an imported run had when the run was imported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seeds: Option<usize>,
    /// The metrics that a recipe reads off curves and that this result lacks, each with the reason. Not stored.
    #[serde(skip)]
    pub unread: BTreeMap<String, String>,
    /// Digest of all metrics and curves that do not depend on the machine; 0 if none of them is a measurement.
    pub digest: u64,
    /// Number of measured values in the digest. Counts and values that a task declares as deterministic are excluded.
    pub values: usize,
}

impl Remarks {
    /// The remarks on the outcome of a task.
    pub fn of(outcome: &Outcome, task: &str) -> Self {
        let imported = Imported::source(outcome, task).map(str::to_owned);
        let unfinished = imported.as_ref().and_then(|_| outcome.facts.get(Imported::END).cloned());
        let seeds = imported.as_ref().and_then(|_| outcome.facts.get(Imported::SEEDS)?.parse().ok());
        let task = Task::info(task);
        let mut hasher = blake3::Hasher::new();
        let mut values = 0;
        let mut add = |name: &str, unit: Unit, numbers: &mut dyn Iterator<Item = u64>| {
            hasher.update(&(name.len() as u64).to_le_bytes());
            hasher.update(name.as_bytes());
            hasher.update(unit.key().as_bytes());
            numbers.for_each(|number| {
                hasher.update(&number.to_le_bytes());
            });
        };
        for (name, metric) in &outcome.metrics {
            if !depends_on_machine(task, name, metric.unit) {
                add(name, metric.unit, &mut std::iter::once(metric.value.to_bits()));
                values += usize::from(is_measured(task, name, metric.unit));
            }
        }
        for (name, curve) in &outcome.curves {
            if !depends_on_machine(task, name, curve.unit) {
                let points = curve.at.iter().zip(&curve.values);
                add(name, curve.unit, &mut points.flat_map(|(at, value)| [*at, value.to_bits()]));
                values += if is_measured(task, name, curve.unit) { curve.values.len() } else { 0 };
            }
        }
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
        let digest = if values > 0 { u64::from_le_bytes(bytes).max(1) } else { 0 };
        let diverged = outcome.diverged().map(|(name, step)| (name.to_owned(), step)).collect();
        Self { diverged, imported, unfinished, seeds, unread: BTreeMap::new(), digest, values }
    }
}

fn is_measured(task: Option<&TaskInfo>, name: &str, unit: Unit) -> bool {
    let metric = task.and_then(|task| task.metric(name));
    unit != Unit::Count && metric.is_none_or(|metric| metric.precision != Precision::Deterministic)
}

/// True if a metric depends on the machine: times, rates and sizes; of declared metrics also fractions and ratios of
/// these, and the number of allocations, which depends on the turns that threads take.
pub fn depends_on_machine(task: Option<&TaskInfo>, name: &str, unit: Unit) -> bool {
    let is_declared = task.is_none_or(|task| task.metric(name).is_some());
    unit.is_timing() || unit.base() == Unit::Bytes || (is_declared && is_about_machine(name))
}

/// True if a declared metric depends on the machine, according to its name.
pub fn is_about_machine(name: &str) -> bool {
    const ABOUT: [&str; 12] = [
        "attempts",
        "time",
        "throughput",
        "memory",
        "allocations",
        "compute",
        "bandwidth",
        "peak",
        "utilization",
        "steps",
        "ratio",
        "share",
    ];
    name.split('.').next().is_some_and(|word| ABOUT.contains(&word))
}

#[cfg(test)]
mod tests {
    use sweep_job::Metric;

    use super::*;

    fn of(metrics: &[(&str, f64, Unit)]) -> Remarks {
        let metrics =
            metrics.iter().map(|(name, value, unit)| ((*name).to_owned(), Metric { value: *value, unit: *unit }));
        Remarks::of(&Outcome { metrics: metrics.collect(), ..Outcome::default() }, "command")
    }

    #[test]
    fn results_are_equal_if_only_times_and_sizes_differ() {
        let first =
            of(&[("loss", 0.5, Unit::One), ("time.run", 1.0, Unit::Seconds), ("step_ms", 3.0, Unit::Milliseconds)]);
        let second = of(&[
            ("loss", 0.5, Unit::One),
            ("memory.peak", 9.0, Unit::Bytes),
            ("utilization.cpu", 0.3, Unit::Fraction),
        ]);
        assert_eq!(first, second);
        assert_eq!(first.values, 1);
        assert_ne!(first.digest, of(&[("loss", f64::from_bits(0.5_f64.to_bits() + 1), Unit::One)]).digest);
        assert_ne!(first.digest, of(&[("loss", 0.5, Unit::One), ("acc", 0.5, Unit::One)]).digest);
    }

    #[test]
    fn counts_alone_say_nothing() {
        assert_eq!(of(&[("n", 3.0, Unit::Count), ("time.run", 1.0, Unit::Seconds)]).digest, 0);
        assert_eq!(of(&[]).digest, 0);
    }
}
