//! The step of Adafactor (Shazeer and Stern, "Adafactor: Adaptive Learning Rates with Sublinear Memory Cost", 2018), as
//! `torch.optim.Adafactor` defines it.
//!
//! Nothing is read from the device: norms stay there as tensors of one number.

use burn::tensor::Tensor;
use sweep_job::tasks::Optimizer;

use crate::{model::ParamInfo, ops::Ops};

/// Smallest root of a second moment: `PyTorch`'s `eps1`, the distance of 1 to the next number in single precision.
const LEAST_ROOT: f64 = f32::EPSILON as f64;
/// Smallest root mean square of a parameter that steps are in proportion to: `PyTorch`'s `eps2`.
const LEAST_SCALE: f64 = 1e-3;

/// Adafactor for one parameter.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Adafactor {
    decay: f64,
    clip: f64,
    /// Matrices, their rows and their columns; `None` for a vector, whose second moments are kept one by one.
    shape: Option<[usize; 3]>,
    numbers: usize,
}

impl Adafactor {
    /// Adafactor with `settings` for the parameter `info`, factored over its last two dimensions.
    pub(super) fn new(settings: &Optimizer, info: &ParamInfo) -> Self {
        let shape = match info.shape[..] {
            [ref tables @ .., rows, columns] => Some([tables.iter().product(), rows, columns]),
            _ => None,
        };
        Self { decay: settings.adafactor_decay, clip: settings.adafactor_clip, shape, numbers: info.len() }
    }

    /// Names and lengths of the second moments.
    pub(super) fn state(&self) -> Vec<(&'static str, usize)> {
        match self.shape {
            Some([tables, rows, columns]) => vec![("rows", tables * rows), ("columns", tables * columns)],
            None => vec![("squares", self.numbers)],
        }
    }

    /// The change `[numbers]` that is subtracted from `weights` in step `step`, counted from 1, along `gradient`; `state` has the
    /// second moments.
    pub(super) fn change<B: Ops>(
        &self,
        state: &mut [Tensor<B, 1>],
        weights: &Tensor<B, 1>,
        gradient: Tensor<B, 1>,
        rate: f64,
        step: i32,
    ) -> Tensor<B, 1> {
        let step = f64::from(step);
        let new = step.powf(-self.decay);
        let squares = gradient.clone() * gradient.clone();
        let moments = match (self.shape, &mut *state) {
            (Some([tables, rows, columns]), [row_state, column_state]) => {
                let squares = squares.reshape([tables, rows, columns]);
                let row_means = mixed(row_state, squares.clone().mean_dim(2).reshape([tables * rows]), new);
                let column_means = mixed(column_state, squares.mean_dim(1).reshape([tables * columns]), new);
                let row_means = row_means.reshape([tables, rows, 1]);
                let means = row_means.clone().mean_dim(1).clamp_min(LEAST_ROOT);
                (row_means / means * column_means.reshape([tables, 1, columns])).reshape([self.numbers])
            }
            (_, [state, ..]) => mixed(state, squares, new),
            (_, []) => squares,
        };
        let update = gradient / moments.clamp_min(LEAST_ROOT * LEAST_ROOT).sqrt();
        let root_mean_square = |numbers: Tensor<B, 1>| (B::sum_of_squares(numbers) / self.numbers as f64).sqrt();
        let excess = (root_mean_square(update.clone()) / self.clip).clamp_min(1.0);
        let scale = root_mean_square(weights.clone()).clamp_min(LEAST_SCALE);
        B::scale(update, scale * rate.min(step.sqrt().recip()) / excess)
    }
}

/// Moves `state` to `values` by the part `new`, and returns it.
fn mixed<B: Ops>(state: &mut Tensor<B, 1>, values: Tensor<B, 1>, new: f64) -> Tensor<B, 1> {
    *state = state.clone() * (1.0 - new) + values * new;
    state.clone()
}
