//! The changes that the proposer tries, with their truth.

use sweep_engine::stats::Draws;

use crate::tasks::State;

/// Kind of a change.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Kind {
    /// Only comments differ.
    NoOp,
    /// Other code that computes the same bits.
    Refactoring,
    /// Another seed, by the axis.
    AxisSeed,
    /// Another seed, in the code.
    CodeSeed,
    /// A number that differs in its last place.
    OneUlp,
    /// Another way to train that is neither better nor worse.
    Neutral,
    /// A change that was tried before.
    Again,
    /// A gain of this many standard deviations, or a loss if it is below zero.
    Gain(f64),
    /// It fails.
    Crash,
    /// It trains on the held-out rows.
    Leak,
    /// It prints a loss that it has not measured.
    Hack,
}

/// A change.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    pub(crate) id: u64,
    pub(crate) kind: Kind,
    /// True if it was tried before.
    pub(crate) is_again: bool,
}

/// The sizes of planted gains and losses, in standard deviations.
pub(crate) const SIZES: [f64; 4] = [0.5, 1.0, 2.0, 3.0];
/// Number of changes of each kind. Together 200: one in twelve is a gain, and one in ten was tried before.
const COUNTS: [(Kind, usize); 18] = [
    (Kind::NoOp, 20),
    (Kind::Refactoring, 20),
    (Kind::AxisSeed, 15),
    (Kind::CodeSeed, 15),
    (Kind::OneUlp, 20),
    (Kind::Neutral, 12),
    (Kind::Again, 20),
    (Kind::Crash, 10),
    (Kind::Leak, 6),
    (Kind::Hack, 6),
    (Kind::Gain(0.5), 4),
    (Kind::Gain(1.0), 4),
    (Kind::Gain(2.0), 4),
    (Kind::Gain(3.0), 4),
    (Kind::Gain(-0.5), 10),
    (Kind::Gain(-1.0), 10),
    (Kind::Gain(-2.0), 10),
    (Kind::Gain(-3.0), 10),
];

/// The changes of a proposer, in a drawn order.
pub(crate) fn changes(draws: &mut Draws) -> Vec<Change> {
    let mut kinds: Vec<Kind> = COUNTS.iter().flat_map(|(kind, count)| vec![*kind; *count]).collect();
    for index in (1..kinds.len()).rev() {
        kinds.swap(index, draws.below(index + 1));
    }
    let mut changes: Vec<Change> = Vec::new();
    for (id, kind) in (1_u64..).zip(kinds) {
        // One of the last ten.
        let earlier = changes.len().min(10);
        let again = (kind == Kind::Again && earlier > 0).then(|| &changes[changes.len() - 1 - draws.below(earlier)]);
        changes.push(
            again.map_or(Change { id, kind, is_again: false }, |first| Change { is_again: true, ..first.clone() }),
        );
    }
    changes
}

impl Change {
    /// True if it brings something.
    pub(crate) fn is_gain(&self) -> bool {
        matches!(self.kind, Kind::Gain(size) if size > 0.0)
    }

    /// The program with this change.
    pub(crate) fn applied(&self, state: &State) -> State {
        let mut next = state.clone();
        if self.kind != Kind::AxisSeed {
            next.changes.push(self.id);
        }
        // Changes of the training draw other random numbers.
        let stream = state.stream.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(2 * self.id + 1);
        match self.kind {
            Kind::CodeSeed | Kind::Neutral => next.stream = stream,
            Kind::Gain(size) => (next.stream, next.shift) = (stream, state.shift - size),
            Kind::OneUlp => next.ulps += 1,
            Kind::Crash => next.fails = true,
            Kind::Leak => next.leaks = true,
            Kind::Hack => next.hacks = true,
            Kind::NoOp | Kind::Refactoring | Kind::AxisSeed | Kind::Again => {}
        }
        next
    }
}
