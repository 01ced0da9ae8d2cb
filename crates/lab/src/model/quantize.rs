//! Quantization of weights: rounding to the nearest multiple of a scale.
//!
//! The scale of a group of weights is their largest magnitude divided by the largest code, so codes and weights are symmetric
//! around 0.

use super::ParamInfo;
use crate::LabError;

/// The multiples of a scale to which weights are rounded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Grid {
    scale: f32,
    largest_code: f32,
}

impl Grid {
    /// The grid of `bits` bits for weights up to the magnitude `largest`.
    pub fn new(largest: f32, bits: u32) -> Self {
        let largest_code = largest_code(bits);
        Self { scale: largest / largest_code, largest_code }
    }

    /// The multiple that is the nearest to `weight`.
    pub fn nearest(&self, weight: f32) -> f32 {
        // Smaller weights than the smallest scale are 0, and NaN stays NaN.
        if self.scale == 0.0 {
            return weight * 0.0;
        }
        let code = (weight / self.scale).round_ties_even();
        code.clamp(-self.largest_code, self.largest_code) * self.scale
    }
}

/// Rounds `weights` `[inputs, outputs]` to codes of `bits` bits, and multiplies the codes by their scales. `group_size`
/// neighboring inputs of an output share a scale; it divides the number of inputs.
pub fn round(weights: &mut [f32], outputs: usize, group_size: usize, bits: u32) {
    for group in weights.chunks_mut(group_size * outputs) {
        for output in 0..outputs {
            let largest = group.iter().skip(output).step_by(outputs).fold(0.0_f32, |largest, w| largest.max(w.abs()));
            let grid = Grid::new(largest, bits);
            for weight in group.iter_mut().skip(output).step_by(outputs) {
                *weight = grid.nearest(*weight);
            }
        }
    }
}

/// The largest code of `bits` bits.
fn largest_code(bits: u32) -> f32 {
    (2.0_f32).powi(i32::try_from(bits).unwrap_or(i32::MAX) - 1) - 1.0
}

/// The neighboring inputs of an output of a linear layer that share a scale: `group_size`, or all. An error if it does not divide them.
pub fn group_size(info: &ParamInfo, group_size: Option<usize>) -> Result<usize, LabError> {
    let [inputs, _] = info.matrix();
    let group_size = group_size.unwrap_or(inputs);
    if inputs.is_multiple_of(group_size) {
        return Ok(group_size);
    }
    Err(LabError::Dimensions(format!(
        "`{}` has {inputs} inputs, which do not divide into groups of {group_size}: choose another `group_size`, or remove it",
        info.name
    )))
}

/// Bytes of `numbers` weights as codes of `bits` bits, with a scale in single precision for each `group_size` of them.
pub const fn bytes(numbers: usize, group_size: usize, bits: u32) -> usize {
    (numbers * bits as usize).div_ceil(8) + 4 * numbers.div_ceil(group_size)
}
