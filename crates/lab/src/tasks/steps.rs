//! Measurements of steps that all training tasks share: time, curves, and samples of process and device.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};
use sweep_job::{
    Backend, Curve, Outcome, Unit,
    tasks::{FusionMetrics, LoopMetrics},
};

use crate::measure::{self, fusion, sampler::Sampler};

/// Measured times of steps.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Times {
    time: f64,
    steps: usize,
    samples: Vec<f64>,
}

/// External measurements of this attempt's steps.
pub(super) struct Seen {
    /// Steps that do not count as time: the first two, or the first if there are no more than two. The first compiles kernels and fills
    /// caches, and the optimizer allocates its moments at its end, so that the second step shows the complete memory.
    pub(super) warm_up: usize,
    pub(super) first_step: Duration,
    pub(super) fused: Option<fusion::Fused>,
    pub(super) sampler: Option<Sampler>,
}

impl Seen {
    pub(super) fn new(steps: usize) -> Self {
        Self { warm_up: if steps > 2 { 2 } else { 1 }, first_step: Duration::ZERO, fused: None, sampler: None }
    }

    /// Notes step `step` of the warm-up, with its duration and its fused operations. True if it was the last one: from then
    /// on the process is sampled.
    pub(super) fn note(&mut self, step: usize, time: Duration, watch: Option<fusion::Watch>, backend: Backend) -> bool {
        if step == 0 {
            self.first_step = time;
            self.fused = watch.map(fusion::Watch::finish);
        }
        let is_last = step + 1 == self.warm_up;
        if is_last {
            self.sampler = Some(Sampler::start(backend));
        }
        is_last
    }

    pub(super) fn describe(self, outcome: &mut Outcome) {
        if !self.first_step.is_zero() {
            outcome.set(&LoopMetrics::TIME_FIRST_STEP, self.first_step.as_secs_f64());
        }
        if let Some(fusion::Fused { operations, kernels, unfused }) = self.fused {
            outcome.set(&FusionMetrics::OPERATIONS, operations as f64);
            outcome.set(&FusionMetrics::KERNELS, kernels as f64);
            outcome.set(&FusionMetrics::UNFUSED, unfused as f64);
        }
        if let Some(sampler) = self.sampler {
            sampler.finish().describe(outcome);
        }
    }
}

impl Times {
    /// True if a clock can show them.
    pub(super) fn are_possible(&self) -> bool {
        let mut seconds = self.samples.iter().chain([&self.time]);
        seconds.all(|seconds| Duration::try_from_secs_f64(*seconds).is_ok())
    }
}

/// Curves that grow.
#[derive(Default)]
pub(super) struct Curves(pub(super) BTreeMap<String, Curve>);

impl Curves {
    pub(super) fn push(&mut self, name: &str, unit: Unit, place: u64, value: f64) {
        let empty_curve = || Curve { unit, at: Vec::new(), values: Vec::new() };
        let curve = self.0.entry(name.to_owned()).or_insert_with(empty_curve);
        curve.at.push(place);
        curve.values.push(value);
    }

    pub(super) fn last(&self, name: &str) -> Option<f64> {
        self.0.get(name)?.values.last().copied()
    }

    /// Place of the last point.
    pub(super) fn last_at(&self, name: &str) -> Option<u64> {
        self.0.get(name)?.at.last().copied()
    }
}

/// Measures training steps and nothing else: not those for warming up, not evaluation.
///
/// If operations are asynchronous, the time between two points at which the device is idle is divided by the steps in between, so that
/// measuring adds no waiting; otherwise, every step is a sample.
pub(super) struct Clock {
    per_step: bool,
    since: Instant,
    /// Steps since `since`.
    open: usize,
    time: Duration,
    steps: usize,
    /// Seconds of a step.
    pub(super) samples: Vec<f64>,
    /// Time and steps at the last report.
    reported: (Duration, usize),
}

impl Clock {
    pub(super) fn start(per_step: bool) -> Self {
        Self {
            per_step,
            since: Instant::now(),
            open: 0,
            time: Duration::ZERO,
            steps: 0,
            samples: Vec::new(),
            reported: (Duration::ZERO, 0),
        }
    }

    /// Counts a step that took `time` on the host.
    pub(super) fn step(&mut self, time: Duration) {
        self.open += 1;
        if self.per_step {
            self.samples.push(time.as_secs_f64());
        }
    }

    /// Counts the time until now, at which the device is idle.
    pub(super) fn pause(&mut self) {
        if self.open > 0 {
            let time = self.since.elapsed();
            self.time += time;
            self.steps += self.open;
            if !self.per_step {
                self.samples.push(time.as_secs_f64() / self.open as f64);
            }
        }
        self.restart();
    }

    /// Forgets the time since the last pause.
    pub(super) fn restart(&mut self) {
        self.open = 0;
        self.since = Instant::now();
    }

    /// Pauses like [`pause`](Self::pause); returns the steps per second since the last call, if there were any steps.
    pub(super) fn close(&mut self) -> Option<f64> {
        self.pause();
        let (time, steps) = std::mem::replace(&mut self.reported, (self.time, self.steps));
        (self.steps > steps).then(|| (self.steps - steps) as f64 / self.time.saturating_sub(time).as_secs_f64())
    }

    pub(super) fn steps_per_s(&self) -> Option<f64> {
        (self.steps > 0).then(|| self.steps as f64 / self.time.as_secs_f64())
    }

    pub(super) fn median(&mut self) -> Option<f64> {
        measure::median(&mut self.samples)
    }

    /// State from which [`resume`](Self::resume) continues.
    pub(super) fn times(&self) -> Times {
        Times { time: self.time.as_secs_f64(), steps: self.steps, samples: self.samples.clone() }
    }

    /// Continues from the values of [`times`](Self::times).
    pub(super) fn resume(&mut self, times: &Times) {
        self.time = Duration::from_secs_f64(times.time);
        self.steps = times.steps;
        self.samples.clone_from(&times.samples);
        self.reported = (self.time, self.steps);
        self.restart();
    }
}

#[cfg(test)]
mod tests {
    use sweep_job::{
        MetricInfo,
        tasks::{K1, Train},
    };

    use super::*;

    #[test]
    fn what_is_left_out_is_what_the_metrics_say() {
        let left_out = [1, 2, 3, 100].map(|steps| Seen::new(steps).warm_up);
        assert_eq!(left_out, [1, 1, 2, 2]);
        for MetricInfo { name, doc, .. } in [Train::TOKENS_PER_S, K1::SEQUENCES_PER_S] {
            assert!(doc.contains("the first two steps"), "{name}: {doc}");
            assert!(doc.contains("the first step if there are at most two"), "{name}: {doc}");
        }
    }
}
