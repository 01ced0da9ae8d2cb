//! Rotary position embeddings (Su et al., "RoFormer", 2021): element `i` of a head's query or key and element `i` plus half
//! the width are rotated together, as in Llama's implementation in Hugging Face transformers.

use std::ops::Range;

use burn::{
    module::Module,
    tensor::{DType, Tensor, TensorData, backend::Backend},
};
use sweep_job::tasks::{Position, RopeScaling};

use super::dims::GptDims;

/// The rotation of `n` tokens.
#[derive(Module, Debug)]
pub struct Rope<B: Backend> {
    /// Cosine of each element's angle, the same for every head, `[n, d_model]`.
    cosines: Tensor<B, 2>,
    /// Sine of each element's angle, negative in the first half of a head, `[n, d_model]`.
    sines: Tensor<B, 2>,
    /// Width of a head.
    width: usize,
}

impl<B: Backend> Rope<B> {
    /// The rotation of all positions of a network; `None` if it has no RoPE.
    pub(crate) fn new(dims: &GptDims, device: &B::Device) -> Option<Self> {
        let Position::Rope { theta, scaling } = dims.block.parts.position else { return None };
        let (width, d_model, length) = (dims.d_model / dims.n_head, dims.d_model, dims.block_size);
        let frequencies = frequencies(width, theta, scaling);
        let table = |number: &dyn Fn(usize, f64) -> f64| {
            let mut numbers = Vec::with_capacity(length * d_model);
            for position in 0..length {
                numbers.extend((0..d_model).map(|column| {
                    let element = column % width;
                    #[expect(clippy::cast_possible_truncation, reason = "activations are in single precision")]
                    let number = number(element, position as f64 * frequencies[element % (width / 2)]) as f32;
                    number
                }));
            }
            Tensor::from_data(TensorData::new(numbers, [length, d_model]), device)
        };
        let sine = |element: usize, angle: f64| if element < width / 2 { -angle.sin() } else { angle.sin() };
        Some(Self { cosines: table(&|_, angle| angle.cos()), sines: table(&sine), width })
    }

    /// The rotation of the tokens at `positions`.
    pub(crate) fn at(&self, positions: Range<usize>) -> Self {
        let crop = |table: &Tensor<B, 2>| {
            let [length, columns] = table.dims();
            let is_whole = positions == (0..length);
            if is_whole { table.clone() } else { table.clone().slice([positions.clone(), 0..columns]) }
        };
        Self { cosines: crop(&self.cosines), sines: crop(&self.sines), width: self.width }
    }

    /// The rotation in another format.
    pub(crate) fn cast(self, dtype: DType) -> Self {
        Self { cosines: self.cosines.cast(dtype), sines: self.sines.cast(dtype), width: self.width }
    }

    /// Rotates the heads, which stand side by side in `x` `[batch * n, columns]`, by the positions of their tokens.
    pub(crate) fn rotate(&self, x: &Tensor<B, 2>, batch: usize) -> Tensor<B, 2> {
        let [rows, columns] = x.dims();
        let (length, half) = (rows / batch, self.width / 2);
        // A sequence as one row, so that a broadcast repeats a row.
        let row = |table: &Tensor<B, 2>| {
            table.clone().slice([0..length, 0..columns]).reshape([1, length * columns]).cast(x.dtype())
        };
        let heads = x.clone().reshape([rows * (columns / self.width), self.width]);
        let swapped = Tensor::cat(vec![heads.clone().narrow(1, half, half), heads.narrow(1, 0, half)], 1);
        let sequences = |x: Tensor<B, 2>| x.reshape([batch, length * columns]);
        let rotated = sequences(x.clone()) * row(&self.cosines) + sequences(swapped) * row(&self.sines);
        rotated.reshape([rows, columns])
    }
}

/// The frequency of each pair of elements of a head, in radians per token.
fn frequencies(width: usize, theta: f64, scaling: Option<RopeScaling>) -> Vec<f64> {
    let scaled = |frequency: f64| match scaling {
        None => frequency,
        Some(RopeScaling::Linear { factor }) => frequency / factor,
        Some(RopeScaling::Llama3 { factor, low, high, original }) => {
            let turns = original * frequency / std::f64::consts::TAU;
            // The part of the frequency that is kept: 1 above `high` turns in the original context, 0 below `low`.
            let kept = ((turns - low) / (high - low)).clamp(0.0, 1.0);
            frequency * (kept + (1.0 - kept) / factor)
        }
    };
    (0..width / 2).map(|pair| scaled(theta.powf(-2.0 * pair as f64 / width as f64))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of `_compute_llama3_parameters` of transformers 4.44.2 for a head of width 8, `rope_theta` 500000, and the
    /// scaling of Llama 3.1 (factor 8, low 1, high 4, original 8192).
    #[test]
    fn frequencies_of_llama_3_1() {
        let scaling = RopeScaling::Llama3 { factor: 8.0, low: 1.0, high: 4.0, original: 8192.0 };
        let found = frequencies(8, 500_000.0, Some(scaling));
        let expected = LLAMA_3_1;
        for (found, expected) in found.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-6 * expected, "{found} is not {expected}");
        }
    }

    const LLAMA_3_1: [f64; 4] = [1.0, 0.037_606_03, 5.248_461e-4, 6.647_87e-6];

    #[test]
    fn linear_scaling_divides() {
        let scaled = frequencies(4, 10_000.0, Some(RopeScaling::Linear { factor: 4.0 }));
        assert_eq!(scaled, frequencies(4, 10_000.0, None).iter().map(|frequency| frequency / 4.0).collect::<Vec<_>>());
    }
}
