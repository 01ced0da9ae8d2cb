//! Measurement of the process, of its device, and of the time of each part of a step.
//!
//! A quantity that a machine cannot measure is absent, with a reason, and never 0.
//!
//! It measures the parts of steps, the device's allocator, samples of process and driver, peak rates, a trace, and the heap
//! (`heap.rs`), for which the program installs an allocator that counts while counting is enabled.

pub mod ceiling;
pub mod flops;
pub(crate) mod fusion;
pub mod heap;
pub(crate) mod rss;
pub mod sampler;
pub mod trace;

use std::time::{Duration, Instant};

pub(crate) use rss::peak_memory;
use sweep_job::{
    MetricInfo,
    tasks::{LoopMetrics, Train},
};
use trace::Trace;

use crate::{
    LabError,
    backend::{Compute, DeviceMemory},
};

/// A part of a training step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// Finding a batch and bringing it to the device.
    Data,
    /// From tokens to the loss.
    Forward,
    /// From the loss to the gradients.
    Backward,
    /// Clipping by the global norm, and the optimizer's step.
    Optimizer,
    /// SPAM's treatment of the gradients.
    Spam,
    /// Masking gradients, and weights and moments by new masks; in between the optimizer does that.
    Masking,
}

impl Part {
    /// Every part, with its metric.
    pub(crate) const ALL: [(Self, &'static MetricInfo); 6] = [
        (Self::Data, &LoopMetrics::TIME_DATA),
        (Self::Forward, &LoopMetrics::TIME_FORWARD),
        (Self::Backward, &LoopMetrics::TIME_BACKWARD),
        (Self::Optimizer, &LoopMetrics::TIME_OPTIMIZER),
        (Self::Spam, &Train::TIME_SPAM),
        (Self::Masking, &Train::TIME_MASKING),
    ];

    /// Name in a trace.
    fn word(self) -> &'static str {
        let name = Self::ALL[self as usize].1.name;
        name.strip_prefix("time.").unwrap_or(name)
    }
}

/// Time of each part of a step. If it is on, it waits for the device after every part; else it only calls.
#[derive(Debug)]
pub(crate) struct Breakdown {
    on: bool,
    spent: [Duration; Part::ALL.len()],
    trace: Option<Trace>,
    watch: Option<Watch>,
    /// True if the device's allocator is read after every part.
    watching: bool,
}

/// The least time between two readings of the allocator after the first steps.
const BETWEEN_READINGS: Duration = Duration::from_millis(100);

/// Memory that the device's allocator has handed out: at the boundaries of parts of the first steps, and then after steps
/// now and then.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Watch {
    /// The most in use, in bytes.
    pub(crate) peak: u64,
    /// Bytes in use in the first steps.
    first: Readings,
    /// Bytes in use after later steps.
    later: Readings,
    /// The most reserved, in bytes.
    pub(crate) reserved: u64,
    /// Time of the last reading after a step.
    last: Option<Instant>,
}

/// Readings of the memory in use, in bytes.
#[derive(Debug, Default, Clone, Copy)]
struct Readings {
    sum: u128,
    count: u64,
}

impl Readings {
    fn add(&mut self, bytes: u64) {
        self.sum += u128::from(bytes);
        self.count += 1;
    }

    fn mean(self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }
}

impl Watch {
    /// Notes `memory`, in the first steps or after a later one.
    fn see(&mut self, memory: DeviceMemory, is_later: bool) {
        self.peak = self.peak.max(memory.in_use);
        self.reserved = self.reserved.max(memory.reserved);
        let readings = if is_later { &mut self.later } else { &mut self.first };
        readings.add(memory.in_use);
    }

    /// True if the last reading after a step was long enough ago; then `now` becomes the last reading.
    fn is_due(&mut self, now: Instant) -> bool {
        let is_due = self.last.is_none_or(|last| now.duration_since(last) >= BETWEEN_READINGS);
        if is_due {
            self.last = Some(now);
        }
        is_due
    }

    /// The mean in use after the first steps, in bytes, or during the first steps if there are no others; `None` before the first reading.
    pub(crate) fn mean(&self) -> Option<f64> {
        self.later.mean().or_else(|| self.first.mean())
    }
}

impl Breakdown {
    pub(crate) fn new(on: bool, trace: bool) -> Self {
        Self::with(on, trace.then(|| Trace::begin("train")))
    }

    /// Returns a breakdown that keeps a trace, in which the process is called `process`.
    pub(crate) fn traced(process: &str) -> Self {
        Self::with(true, Some(Trace::begin(process)))
    }

    fn with(on: bool, trace: Option<Trace>) -> Self {
        Self {
            on: on || trace.is_some(),
            spent: [Duration::ZERO; Part::ALL.len()],
            trace,
            watch: None,
            watching: false,
        }
    }

    /// True if it measures.
    pub(crate) fn is_on(&self) -> bool {
        self.on
    }

    /// Enables or disables readings of the device allocator's memory after every part, each of which waits for the device.
    pub(crate) fn watch(&mut self, on: bool) {
        if on {
            self.watch.get_or_insert_default();
        }
        self.watching = on;
    }

    /// Readings of the device's allocator.
    pub(crate) fn watched(&self) -> Option<Watch> {
        self.watch.filter(|watch| watch.mean().is_some())
    }

    /// Reads the device's allocator after a step that is not one of the first, if it is time for that. Does not wait for
    /// the device.
    pub(crate) fn look<B: Compute>(&mut self, device: &B::Device) {
        let Some(watch) = self.watch.as_mut().filter(|_| !self.watching) else { return };
        if watch.is_due(Instant::now())
            && let Some(memory) = B::device_memory(device)
        {
            watch.see(memory, true);
        }
    }

    /// Does `work`, which is `part` of a step on `device`.
    pub(crate) fn time<B: Compute, T>(
        &mut self,
        part: Part,
        device: &B::Device,
        work: impl FnOnce() -> T,
    ) -> Result<T, LabError> {
        if !self.on && !self.watching {
            return Ok(work());
        }
        let start = Instant::now();
        let result = work();
        let call_end = Instant::now();
        B::sync(device)?;
        let end = Instant::now();
        self.spent[part as usize] += end - start;
        let memory = if self.watching || self.trace.is_some() { B::device_memory(device) } else { None };
        if let (true, Some(memory), Some(watch)) = (self.watching, memory, &mut self.watch) {
            watch.see(memory, false);
        }
        if let Some(trace) = &mut self.trace {
            trace.span(part.word(), start, call_end, end, !B::SYNCHRONOUS);
            if let Some(memory) = memory {
                trace.memory(end, memory);
            }
        }
        Ok(result)
    }

    /// The trace, if there is one.
    pub(crate) fn trace(&mut self) -> Option<&mut Trace> {
        self.trace.as_mut()
    }

    /// The trace, if there is one, whole.
    pub(crate) fn into_trace(self) -> Option<Trace> {
        self.trace
    }

    /// Resets the times.
    pub(crate) fn restart(&mut self) {
        self.spent = [Duration::ZERO; Part::ALL.len()];
    }

    /// Seconds spent on every part, with the name of its metric.
    pub(crate) fn seconds(&self) -> impl Iterator<Item = (&'static MetricInfo, f64)> {
        Part::ALL.into_iter().map(|(part, metric)| (metric, self.spent[part as usize].as_secs_f64()))
    }
}

/// The quantile `q`, from 0 to 1, of `values`, which are reordered; `None` without values.
pub(crate) fn quantile(values: &mut [f64], q: f64) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place among the values")]
    let place = (q.clamp(0.0, 1.0) * values.len().saturating_sub(1) as f64).round() as usize;
    values.get(place).copied()
}

/// The median of `values`, which are reordered; `None` without values.
pub(crate) fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let half = values.len() / 2;
    match values.len() {
        0 => None,
        length if length % 2 == 0 => Some(f64::midpoint(values[half - 1], values[half])),
        _ => Some(values[half]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_measured_if_asked() {
        use burn::backend::{Flex, flex::FlexDevice};
        for on in [false, true] {
            let mut breakdown = Breakdown::new(on, false);
            let spin = || {
                let start = Instant::now();
                while start.elapsed() < Duration::from_micros(10) {}
                7
            };
            assert_eq!(breakdown.time::<Flex, _>(Part::Spam, &FlexDevice, spin).unwrap(), 7);
            let parts: Vec<_> = breakdown.seconds().filter(|(_, seconds)| *seconds > 0.0).collect();
            let names: Vec<_> = parts.iter().map(|(metric, _)| metric.name).collect();
            assert_eq!(names, if on { vec!["time.spam"] } else { vec![] });
            breakdown.restart();
            assert!(breakdown.seconds().all(|(_, seconds)| seconds == 0.0));
        }
        let order = Part::ALL.map(|(part, _)| part as usize);
        assert_eq!(order, [0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn memory_after_the_first_steps_counts_in_the_mean_and_all_of_it_in_the_peak() {
        let memory = |in_use| DeviceMemory { in_use, reserved: 2 * in_use };
        let mut watch = Watch::default();
        assert_eq!(watch.mean(), None);
        watch.see(memory(900), false);
        watch.see(memory(100), false);
        assert_eq!((watch.peak, watch.reserved, watch.mean()), (900, 1800, Some(500.0)));
        watch.see(memory(300), true);
        watch.see(memory(1000), true);
        assert_eq!((watch.peak, watch.reserved, watch.mean()), (1000, 2000, Some(650.0)));
        let start = Instant::now();
        assert!(watch.is_due(start) && !watch.is_due(start + BETWEEN_READINGS / 2));
        assert!(watch.is_due(start + BETWEEN_READINGS));
    }

    #[test]
    fn medians_and_quantiles() {
        let mut values: Vec<f64> = (0..=100).map(f64::from).collect();
        assert_eq!([0.0, 0.05, 0.95, 1.0].map(|q| quantile(&mut values, q)), [0.0, 5.0, 95.0, 100.0].map(Some));
        assert_eq!(quantile(&mut [], 0.5), None);
        assert_eq!(median(&mut []), None);
        assert_eq!(median(&mut [3.0]), Some(3.0));
        assert_eq!(median(&mut [4.0, 1.0, 3.0]), Some(3.0));
        assert_eq!(median(&mut [4.0, 1.0, 3.0, 2.0]), Some(2.5));
    }
}
