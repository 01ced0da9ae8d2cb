//! Comparison of lists of numbers, with a description of the difference.

use burn::tensor::{Tensor, backend::Backend};

/// `tensor` as one list.
pub(super) fn flat<B: Backend, const D: usize>(tensor: Tensor<B, D>) -> Tensor<B, 1> {
    let numbers = tensor.shape().num_elements();
    tensor.reshape([numbers])
}

/// The largest magnitude; 0 of nothing. Numbers that are not finite count as infinite.
pub(super) fn largest(numbers: &[f32]) -> f32 {
    numbers.iter().map(|number| if number.is_finite() { number.abs() } else { f32::INFINITY }).fold(0.0, f32::max)
}

/// The largest difference between two lists; infinite where one of the two is not finite and the other is.
pub(super) fn largest_difference(left: &[f32], right: &[f32]) -> f32 {
    let difference = |(left, right): (&f32, &f32)| {
        if left.to_bits() == right.to_bits() {
            return 0.0;
        }
        let difference = (left - right).abs();
        if difference.is_nan() { f32::INFINITY } else { difference }
    };
    left.iter().zip(right).map(difference).fold(0.0, f32::max)
}

/// The first few of `names`, and the number of the others.
pub(super) fn list(names: &[&str]) -> String {
    const SHOWN: usize = 3;
    let text = names[..names.len().min(SHOWN)].join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => text,
        count => format!("{text} and {count} more"),
    }
}
