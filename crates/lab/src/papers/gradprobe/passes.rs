//! Passes of a pruning: their gradients, averaged and the largest over the calibration batches, and the timeline.

use std::time::Instant;

use sweep_job::tasks::GradientSource;

use super::{Candidates, Largest, Prober, Prunable, pack, unpack};
use crate::{
    LabError,
    backend::Compute,
    measure::trace::Trace,
    optim::{Gradients, add_gradients, gradient::Requested},
};

/// A part of a pass.
#[derive(Debug, Clone, Copy)]
pub struct Span {
    /// Its name in a trace.
    pub name: &'static str,
    /// Times of its beginning, of the call's return, and of the device's idleness after it.
    pub at: [Instant; 3],
}

impl<B: Compute> Prober<'_, B> {
    /// Candidates for `sparsity`.
    pub(super) fn choose(&mut self, sparsity: f64) -> Result<Candidates, LabError> {
        let start = Instant::now();
        let candidates = self.chooser.choose(self.subject, sparsity)?;
        let end = Instant::now();
        self.note(Span { name: "candidates", at: [start, end, end] });
        Ok(candidates)
    }

    /// Adds a part of a visit to the timeline.
    pub(super) fn note(&mut self, Span { name, at: [start, call_end, end] }: Span) {
        if let Some(trace) = &mut self.trace {
            trace.span(name, start, call_end, end, !B::SYNCHRONOUS);
            if let Some(memory) = B::device_memory(self.device) {
                trace.memory(end, memory);
            }
        }
    }

    /// The largest gradients of some tensors, in their order.
    pub(super) fn largest_of(&mut self, tensors: &[usize]) -> Result<Largest<B>, LabError> {
        let requested_tensors = match self.settings.gradients {
            GradientSource::Extract => None,
            GradientSource::Freeze | GradientSource::Amortized => Some(tensors),
        };
        let mut largest = self.largest(tensors, requested_tensors)?;
        Ok(tensors.iter().map(|tensor| largest[*tensor].take()).collect())
    }

    /// The largest gradients of `tensors` over all batches, by tensor, by passes that give the gradients of
    /// `requested_tensors`, or all.
    pub(super) fn largest(
        &mut self,
        tensors: &[usize],
        requested_tensors: Option<&[usize]>,
    ) -> Result<Largest<B>, LabError> {
        let mut largest: Largest<B> = self.subject.tensors().iter().map(|_| None).collect();
        for batch in 0..self.subject.batches() {
            let mut gradients = self.mean(batch, requested_tensors)?;
            for &tensor in tensors {
                let gradient = gradients[tensor].take();
                let gradient = gradient
                    .ok_or_else(|| LabError::NoGradient { parameter: self.subject.tensors()[tensor].name.clone() })?;
                let size = gradient.abs();
                let maximum = match largest[tensor].take() {
                    None => size,
                    Some(earlier_maximum) => unpack(earlier_maximum).max_pair(size),
                };
                largest[tensor] = Some(pack(maximum, self.settings.grad_storage));
            }
        }
        Ok(largest)
    }

    /// The gradients of a calibration batch, averaged over its passes.
    fn mean(&mut self, batch: usize, requested_tensors: Option<&[usize]>) -> Result<Gradients<B>, LabError> {
        let mut sum = self.pass([batch, 0], requested_tensors)?;
        let parts = self.subject.parts();
        for part in 1..parts {
            sum = add_gradients(sum, self.pass([batch, part], requested_tensors)?);
        }
        if parts > 1 {
            let factor = (parts as f64).recip();
            sum = sum.into_iter().map(|gradient| gradient.map(|gradient| gradient * factor)).collect();
        }
        Ok(sum)
    }

    /// Makes one forward and backward pass, and measures its time.
    fn pass(&mut self, at: [usize; 2], requested_tensors: Option<&[usize]>) -> Result<Gradients<B>, LabError> {
        B::sync(self.device)?;
        let start = Instant::now();
        let gradients = self.subject.gradients(at, requested_tensors)?;
        B::sync(self.device)?;
        let end = Instant::now();
        for span in self.subject.take_spans() {
            self.note(span);
        }
        if !self.by_tensor()
            && let Some(trace) = &mut self.trace
        {
            trace.visit(&format!("pass {}", self.tally.passes), start, end);
        }
        self.tally.pass_seconds.push((end - start).as_secs_f64());
        self.tally.passes += 1;
        self.tally.repeated = self.subject.repeated();
        (self.progress)([self.tally.passes, self.expected]);
        Ok(gradients)
    }

    /// Ends a visit of these tensors in the timeline.
    pub(super) fn visited(&mut self, tensors: &[usize], start: Instant, end: Instant) {
        let Some(trace) = &mut self.trace else { return };
        let names: Vec<&str> = tensors.iter().map(|tensor| self.subject.tensors()[*tensor].name.as_str()).collect();
        trace.visit(&names.join(", "), start, end);
    }

    /// The timeline, if one was kept.
    pub(crate) fn take_trace(&mut self) -> Option<Trace> {
        self.trace.take()
    }
}

/// Places of the tensors at `indices` in the network's order of parameters.
pub(super) fn places(tensors: &[Prunable], indices: Option<&[usize]>) -> Option<Vec<usize>> {
    indices.map(|indices| indices.iter().map(|tensor| tensors[*tensor].parameter).collect())
}

/// The gradients that a pass for the parameters at `places` computes.
pub(super) fn requested(places: Option<&[usize]>) -> Requested<'_> {
    places.map_or(Requested::All, Requested::These)
}
