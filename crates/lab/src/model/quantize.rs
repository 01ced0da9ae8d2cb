//! Quantization of weights: rounding to the nearest multiple of a scale.
//!
//! The scale of a group of weights is their largest magnitude divided by the largest code, so codes and weights are symmetric
//! around 0.

/// Rounds `weights` `[inputs, outputs]` to codes of `bits` bits, and multiplies the codes by their scales. `group_size`
/// neighboring inputs of an output share a scale; it divides the number of inputs.
pub fn round(weights: &mut [f32], outputs: usize, group_size: usize, bits: u32) {
    let largest_code = largest_code(bits);
    for group in weights.chunks_mut(group_size * outputs) {
        for output in 0..outputs {
            let largest = group.iter().skip(output).step_by(outputs).fold(0.0_f32, |largest, w| largest.max(w.abs()));
            let scale = largest / largest_code;
            // Smaller weights than the smallest scale are 0, and NaN stays NaN.
            if scale == 0.0 {
                group.iter_mut().skip(output).step_by(outputs).for_each(|weight| *weight *= 0.0);
                continue;
            }
            for weight in group.iter_mut().skip(output).step_by(outputs) {
                let code = (*weight / scale).round_ties_even();
                *weight = code.clamp(-largest_code, largest_code) * scale;
            }
        }
    }
}

/// The largest code of `bits` bits.
fn largest_code(bits: u32) -> f32 {
    (2.0_f32).powi(i32::try_from(bits).unwrap_or(i32::MAX) - 1) - 1.0
}

/// Bytes of `numbers` weights as codes of `bits` bits, with a scale in single precision for each `group_size` of them.
pub const fn bytes(numbers: usize, group_size: usize, bits: u32) -> usize {
    (numbers * bits as usize).div_ceil(8) + 4 * numbers.div_ceil(group_size)
}
