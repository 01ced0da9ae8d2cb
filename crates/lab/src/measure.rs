//! Measurement of the process itself, and of where the time of steps goes.

use std::time::{Duration, Instant};

use burn::tensor::backend::Backend;

use crate::LabError;

/// A part of a training step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// From tokens to the loss.
    Forward,
    /// From the loss to the gradients.
    Backward,
    /// Clipping by the global norm, and the optimizer's step.
    Optimizer,
    /// What SPAM does with the gradients.
    Spam,
    /// Masking gradients, and weights and moments by new masks; in between the optimizer does that.
    Masking,
}

impl Part {
    /// Every part, with the name of its metric.
    pub(crate) const ALL: [(Self, &'static str); 5] = [
        (Self::Forward, "time.forward"),
        (Self::Backward, "time.backward"),
        (Self::Optimizer, "time.optimizer"),
        (Self::Spam, "time.spam"),
        (Self::Masking, "time.masking"),
    ];
}

/// Where the time of steps goes. If it is on, it waits for the device after every part; else it only calls.
#[derive(Debug)]
pub(crate) struct Breakdown {
    on: bool,
    spent: [Duration; Part::ALL.len()],
}

impl Breakdown {
    pub(crate) fn new(on: bool) -> Self {
        Self { on, spent: [Duration::ZERO; Part::ALL.len()] }
    }

    /// Whether it measures.
    pub(crate) fn is_on(&self) -> bool {
        self.on
    }

    /// Does `work`, which is `part` of a step on `device`.
    pub(crate) fn time<B: Backend, T>(
        &mut self,
        part: Part,
        device: &B::Device,
        work: impl FnOnce() -> T,
    ) -> Result<T, LabError> {
        if !self.on {
            return Ok(work());
        }
        let started = Instant::now();
        let done = work();
        B::sync(device)?;
        self.spent[part as usize] += started.elapsed();
        Ok(done)
    }

    /// Forgets what has been measured.
    pub(crate) fn restart(&mut self) {
        *self = Self::new(self.on);
    }

    /// Seconds spent on every part, with the name of its metric.
    pub(crate) fn seconds(&self) -> impl Iterator<Item = (&'static str, f64)> {
        Part::ALL.into_iter().map(|(part, name)| (name, self.spent[part as usize].as_secs_f64()))
    }
}

/// Largest resident memory of this process so far, in bytes; `None` where the system does not say.
///
/// Read from `VmHWM` in `/proc/self/status`, which counts the whole process: the program's own pages, the data mapped
/// and touched, and everything allocated on the host.
pub(crate) fn peak_memory() -> Option<f64> {
    let status = fs_err::read_to_string("/proc/self/status").ok()?;
    parse_peak(&status)
}

fn parse_peak(status: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024.0)
}

/// The median of `values`, in place; `None` if there are none.
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
    fn peak_is_read_in_bytes() {
        assert_eq!(parse_peak("VmPeak:\t  100 kB\nVmHWM:\t   12 kB\n"), Some(12_288.0));
        assert_eq!(parse_peak("VmPeak:\t  100 kB\n"), None);
    }

    #[test]
    fn parts_are_measured_if_asked() {
        use burn::backend::{Flex, flex::FlexDevice};
        for on in [false, true] {
            let mut breakdown = Breakdown::new(on);
            let spin = || {
                let started = Instant::now();
                while started.elapsed() < Duration::from_micros(10) {}
                7
            };
            assert_eq!(breakdown.time::<Flex, _>(Part::Spam, &FlexDevice, spin).unwrap(), 7);
            let measured: Vec<_> = breakdown.seconds().filter(|(_, seconds)| *seconds > 0.0).collect();
            let names: Vec<_> = measured.iter().map(|(name, _)| *name).collect();
            assert_eq!(names, if on { vec!["time.spam"] } else { vec![] });
            breakdown.restart();
            assert!(breakdown.seconds().all(|(_, seconds)| seconds == 0.0));
        }
        let order = Part::ALL.map(|(part, _)| part as usize);
        assert_eq!(order, [0, 1, 2, 3, 4]);
    }

    #[test]
    fn medians() {
        assert_eq!(median(&mut []), None);
        assert_eq!(median(&mut [3.0]), Some(3.0));
        assert_eq!(median(&mut [4.0, 1.0, 3.0]), Some(3.0));
        assert_eq!(median(&mut [4.0, 1.0, 3.0, 2.0]), Some(2.5));
    }
}
