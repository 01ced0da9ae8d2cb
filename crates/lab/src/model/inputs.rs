//! The inputs of linear layers: the norms by which WANDA scores weights.
//!
//! Recording is enabled per thread. While it is enabled, every linear layer stores the norms of its input under its
//! weight's id; the read waits for the device.

use std::{cell::RefCell, collections::BTreeMap};

use burn::{
    module::{Param, ParamId},
    tensor::{Tensor, backend::Backend},
};

use crate::{LabError, device::read::host};

/// Norms by weight, `[in]` each.
pub(crate) type Norms = BTreeMap<ParamId, Vec<f32>>;

/// The norm of a feature over several inputs of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Combining {
    /// The largest of the inputs' norms.
    Largest,
    /// The norm over the rows of all inputs.
    All,
}

thread_local! {
    static SEEN: RefCell<Option<(Combining, Result<Norms, LabError>)>> = const { RefCell::new(None) };
}

/// Does `work`, and returns the Euclidean norm of every input feature over the rows of each linear layer's inputs, combined
/// by `combining`.
pub(crate) fn watch(combining: Combining, work: impl FnOnce() -> Result<(), LabError>) -> Result<Norms, LabError> {
    /// Stops looking, also when `work` panics.
    struct Stop;

    impl Drop for Stop {
        fn drop(&mut self) {
            SEEN.take();
        }
    }

    SEEN.replace(Some((combining, Ok(Norms::new()))));
    let _stop = Stop;
    work()?;
    SEEN.take().map_or_else(|| Ok(Norms::new()), |(_, norms)| norms)
}

/// Notes that the layer with `weight` gets `x` `[rows, in]`.
pub(super) fn saw<B: Backend>(weight: &Param<Tensor<B, 2>>, x: &Tensor<B, 2>) {
    SEEN.with_borrow_mut(|state| {
        let Some((combining, Ok(norms))) = state else { return };
        let [_, features] = x.dims();
        let squares = x.clone() * x.clone();
        match host(squares.sum_dim(0).sqrt().reshape([features])) {
            Ok(values) => {
                let combined = norms.entry(weight.id).or_insert_with(|| vec![0.0; features]);
                for (norm, value) in combined.iter_mut().zip(values) {
                    *norm = match combining {
                        Combining::Largest => norm.max(value),
                        Combining::All => norm.hypot(value),
                    };
                }
            }
            Err(error) => *state = Some((*combining, Err(error))),
        }
    });
}
