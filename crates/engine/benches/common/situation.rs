//! A situation in which the truth is known, and the rate of an event in it.

use super::stats::{Draws, Simulated};

/// The relation of a simulated rate to its nominal one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Promise {
    /// The nominal rate is not exceeded.
    AtMost,
    /// The nominal rate is reached.
    AtLeast,
    /// Nothing is promised: a practice that the engine avoids, for comparison.
    Nothing,
}

/// A situation, and the rate of an event in it.
pub(crate) struct Situation {
    pub(crate) name: String,
    pub(crate) nominal: f64,
    pub(crate) promise: Promise,
    /// Simulates the situation once; true if the event happened.
    happens: Box<dyn Fn(&mut Draws) -> bool>,
}

impl Situation {
    pub(crate) fn new(
        name: impl Into<String>,
        promise: Promise,
        nominal: f64,
        happens: impl Fn(&mut Draws) -> bool + 'static,
    ) -> Self {
        Self { name: name.into(), nominal, promise, happens: Box::new(happens) }
    }

    /// The rate of the event, from this number of replications.
    pub(crate) fn simulate(&self, replications: usize) -> Simulated {
        let mut draws = Draws::new(1);
        Simulated::new((0..replications).filter(|_| (self.happens)(&mut draws)).count(), replications)
    }

    /// True if the rate is as promised, within four standard errors of the nominal rate.
    pub(crate) fn is_kept(&self, rate: Simulated, replications: usize) -> bool {
        let margin = 4.0 * (self.nominal * (1.0 - self.nominal) / replications as f64).sqrt();
        match self.promise {
            Promise::AtMost => rate.share <= self.nominal + margin,
            Promise::AtLeast => rate.share >= self.nominal - margin,
            Promise::Nothing => true,
        }
    }
}
