//! The interface behind which a backend may have its own kernels.

use burn::tensor::Tensor;
use sweep_job::tasks::{MaskFormat, Prune, ThresholdSearch};

use super::{
    host::HostSelect,
    masks::Masks,
    score::{Moments, scores},
    select::{Inputs, Select},
};
use crate::{LabError, ops::Ops, selection::Found};

/// A backend with its best ways to choose.
pub trait Selects: Ops {
    /// The selector for `settings`.
    fn selector(settings: &Prune) -> Box<dyn Select<Self>> {
        Box::new(HostSelect::new(settings))
    }

    /// The scores of [`scores`], by fused operations where this backend has them and computes everything else without.
    fn fused_scores(
        settings: &Prune,
        weights: Tensor<Self, 1>,
        moments: Option<Moments<Self>>,
        origin: Option<Tensor<Self, 1>>,
    ) -> Tensor<Self, 1> {
        scores(settings, weights, moments, origin)
    }

    /// Memory for the masks of a streaming method, for thresholds alone without a `format`; `None` where this backend has
    /// no such masks.
    fn masks(_format: Option<MaskFormat>, _inputs: &[Inputs<Self>]) -> Option<Masks<Self>> {
        None
    }

    /// The `k`-th smallest score of all layers by a streaming method, and the masks, if this backend has the method. The weights are the
    /// scores if there are no `settings`.
    fn stream(
        _inputs: &[Inputs<Self>],
        _settings: Option<&Prune>,
        _method: ThresholdSearch,
        _k: usize,
        _seed: u64,
        _masks: &mut Masks<Self>,
    ) -> Option<Result<Found, LabError>> {
        None
    }

    /// Makes a pass over the same memory that computes next to nothing, where [`stream`](Self::stream) is supported. Does
    /// not wait for the device.
    fn stream_floor(_inputs: &[Inputs<Self>], _settings: Option<&Prune>, _masks: &mut Masks<Self>) -> Option<()> {
        None
    }
}
