//! A paper's number against the interval of the measured one.

use sweep_job::Value;

/// Place of a number relative to an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Below,
    Within,
    Above,
}

/// The paper's number against the interval of the measured one.
pub(super) struct Against {
    paper: f64,
    pub(super) place: Place,
}

impl Against {
    pub(super) fn new(paper: f64, low: f64, high: f64) -> Self {
        // The last digit of an end of the interval is a rounding error.
        let least = 1e-9 * low.abs().max(high.abs());
        let place = match paper {
            paper if paper < low - least => Place::Below,
            paper if paper > high + least => Place::Above,
            _ => Place::Within,
        };
        Self { paper, place }
    }

    /// The comparison in words; `near` is true if the interval is within a negligible distance of the bound.
    pub(super) fn words(&self, near: bool) -> String {
        let paper = Value::Float(self.paper);
        let place = match self.place {
            Place::Within => return format!("the interval does not exclude the paper's {paper}"),
            Place::Below => "below",
            Place::Above => "above",
        };
        let near = if near { ", so the claim is not tied although the interval is near the bound" } else { "" };
        format!("the paper's {paper} is {place} the interval{near}")
    }
}
