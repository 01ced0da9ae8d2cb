//! Deliberate defects, for the tests of the check: each is a mistake that has been made in practice. Outside of tests
//! none can be chosen, and the functions below are constants.

#[cfg(not(test))]
use burn::tensor::{Tensor, backend::Backend};

/// A way to compute wrongly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(test), expect(dead_code, reason = "only tests choose one"))]
pub(crate) enum Mutant {
    /// The causal mask is not added to the scores.
    MaskDropped,
    /// The reverse score is the score of the pair itself.
    ReverseNotTransposed,
    /// Reciprocal attention is skipped where its strength is not positive, and stays so for good.
    ReverseSkipped,
    /// The band of a cache is a token too short.
    ShortQueryRing,
    /// The head gate's strength ignores the coupling scale.
    GateUncoupled,
    /// The head gate comes from the same block in the previous call.
    StaleGate,
    /// The head gate is thrown away.
    GateDropped,
    /// A mean square is taken over the masked keys too.
    RmsOverMasked,
    /// A running sum of the head gate is reset at every token.
    ForgetfulGate,
    /// Cross-token aggregation gathers from the first token only when there is a cache.
    CrossWithoutCache,
    /// Every position has the embedding of the first when there is a cache.
    CachedPosition,
    /// Keys are pruned by the attention of later queries too.
    PruneSeesFuture,
    /// Positions are not added.
    NoPositions,
}

/// True if this mutant is active.
#[cfg(not(test))]
pub(crate) const fn active(_: Mutant) -> bool {
    false
}

/// The gate `[batch, length, heads]` that block `index` gets.
#[cfg(not(test))]
pub(crate) fn route<B: Backend>(
    _index: usize,
    gate: Option<Tensor<B, 3>>,
    _batch_and_length: [usize; 2],
) -> Option<Tensor<B, 3>> {
    gate
}

/// Sees the gate that block `index` has made.
#[cfg(not(test))]
pub(crate) fn made<B: Backend>(_index: usize, _gate: Option<&Tensor<B, 3>>) {}

#[cfg(test)]
pub(crate) use chosen::{active, made, route, with};

#[cfg(test)]
mod chosen {
    use std::{
        any::Any,
        cell::{Cell, RefCell},
        collections::BTreeMap,
    };

    use burn::tensor::{Tensor, backend::Backend};

    use super::Mutant;

    thread_local! {
        static CHOSEN: Cell<Option<Mutant>> = const { Cell::new(None) };
        /// The last gate of every block.
        static GATES: RefCell<BTreeMap<usize, Box<dyn Any>>> = const { RefCell::new(BTreeMap::new()) };
    }

    pub(crate) fn route<B: Backend>(
        index: usize,
        gate: Option<Tensor<B, 3>>,
        batch_and_length: [usize; 2],
    ) -> Option<Tensor<B, 3>> {
        if !active(Mutant::StaleGate) {
            return gate;
        }
        let old_gate: Option<Tensor<B, 3>> =
            GATES.with_borrow(|gates| gates.get(&index).and_then(|gate| gate.downcast_ref()).cloned());
        // Another shape would only crash.
        old_gate.filter(|gate| gate.dims()[..2] == batch_and_length)
    }

    pub(crate) fn made<B: Backend>(index: usize, gate: Option<&Tensor<B, 3>>) {
        if let Some(gate) = gate {
            GATES.with_borrow_mut(|gates| gates.insert(index, Box::new(gate.clone())));
        }
    }

    pub(crate) fn active(fault: Mutant) -> bool {
        CHOSEN.get() == Some(fault)
    }

    /// Result of `work` with the mutant `fault` active on this thread.
    pub(crate) fn with<T>(fault: Mutant, work: impl FnOnce() -> T) -> T {
        CHOSEN.set(Some(fault));
        let result = work();
        CHOSEN.set(None);
        GATES.with_borrow_mut(BTreeMap::clear);
        result
    }
}
