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

thread_local! {
    static SEEN: RefCell<Option<Result<Norms, LabError>>> = const { RefCell::new(None) };
}

/// Does `work`, and returns the Euclidean norm of every input feature over the rows of each linear layer's input. For
/// several inputs of a layer, the largest norm counts.
pub(crate) fn watch(work: impl FnOnce() -> Result<(), LabError>) -> Result<Norms, LabError> {
    /// Stops looking, also when `work` panics.
    struct Stop;

    impl Drop for Stop {
        fn drop(&mut self) {
            SEEN.take();
        }
    }

    SEEN.replace(Some(Ok(Norms::new())));
    let _stop = Stop;
    work()?;
    SEEN.take().unwrap_or_else(|| Ok(Norms::new()))
}

/// Notes that the layer with `weight` gets `x` `[rows, in]`.
pub(super) fn saw<B: Backend>(weight: &Param<Tensor<B, 2>>, x: &Tensor<B, 2>) {
    SEEN.with_borrow_mut(|state| {
        let Some(Ok(norms)) = state else { return };
        let [_, features] = x.dims();
        let squares = x.clone() * x.clone();
        match host(squares.sum_dim(0).sqrt().reshape([features])) {
            Ok(values) => {
                let maxima = norms.entry(weight.id).or_insert_with(|| vec![0.0; features]);
                for (maximum, value) in maxima.iter_mut().zip(values) {
                    *maximum = maximum.max(value);
                }
            }
            Err(error) => *state = Some(Err(error)),
        }
    });
}
