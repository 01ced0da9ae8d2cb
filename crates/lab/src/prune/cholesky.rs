//! The Cholesky factor of the inverse of a matrix, in double precision.

use rayon::prelude::*;

/// The upper triangular `U` with a positive diagonal, for which `U^T U` is the inverse of the symmetric `matrix` `[size, size]`; `None` if
/// this is not positive definite. Only the numbers on and above the diagonal are read.
///
/// The matrix is `R R^T` with an upper triangular `R`, so that `U` is the inverse of `R`: the inverse itself is never computed.
pub(super) fn inverse_factor(mut matrix: Vec<f64>, size: usize) -> Option<Vec<f64>> {
    decompose(&mut matrix, size)?;
    // Each row of the inverse follows from its numbers to the left, whatever the other rows are.
    let mut inverse = vec![0.0; size * size];
    inverse.par_chunks_mut(size.max(1)).enumerate().for_each(|(row, numbers)| {
        numbers[row] = 1.0;
        for column in row..size {
            let factors = &matrix[column * size..(column + 1) * size];
            numbers[column] /= factors[column];
            let number = numbers[column];
            for (later, factor) in numbers[column + 1..].iter_mut().zip(&factors[column + 1..]) {
                *later -= number * factor;
            }
        }
    });
    Some(inverse)
}

/// Replaces the elements on and above the diagonal of `matrix` by the elements of `R`.
fn decompose(matrix: &mut [f64], size: usize) -> Option<()> {
    let mut column = vec![0.0; size];
    for last in (0..size).rev() {
        let pivot = matrix[last * size + last];
        // A NaN pivot is not positive.
        if !(pivot > 0.0 && pivot.is_finite()) {
            return None;
        }
        let root = pivot.sqrt();
        for (row, number) in column[..last].iter_mut().enumerate() {
            *number = matrix[row * size + last] / root;
        }
        matrix[..last * size].par_chunks_mut(size).enumerate().for_each(|(row, numbers)| {
            for (number, other) in numbers[row..last].iter_mut().zip(&column[row..last]) {
                *number -= column[row] * other;
            }
            numbers[last] = column[row];
        });
        matrix[last * size + last] = root;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_factor_of_an_inverse() {
        assert_eq!(inverse_factor(vec![4.0], 1).unwrap(), [0.5]);
        assert_eq!(inverse_factor(Vec::new(), 0).unwrap(), [0.0; 0]);
        let size = 7;
        let part = |place: usize| ((place * place * 31 + 7 * place) % 17) as f64 - 8.0;
        let matrix: Vec<f64> = (0..size * size)
            .map(|place| {
                let (row, column) = (place / size, place % size);
                let product: f64 = (0..size).map(|index| part(row * size + index) * part(column * size + index)).sum();
                product + if row == column { 1.0 } else { 0.0 }
            })
            .collect();
        let factor = inverse_factor(matrix.clone(), size).unwrap();
        for row in 0..size {
            for column in 0..size {
                assert!(row <= column || factor[row * size + column] == 0.0, "upper triangular");
                // U^T U times the matrix.
                let number: f64 = (0..size)
                    .map(|middle| {
                        let inverse: f64 =
                            (0..size).map(|index| factor[index * size + row] * factor[index * size + middle]).sum();
                        inverse * matrix[middle * size + column]
                    })
                    .sum();
                assert!((number - f64::from(u8::from(row == column))).abs() < 1e-9, "{row} {column}: {number}");
            }
        }
        for bad in [vec![1.0, 2.0, 2.0, 1.0], vec![0.0; 4], vec![f64::NAN, 0.0, 0.0, 1.0], vec![f64::INFINITY; 4]] {
            assert_eq!(inverse_factor(bad, 2), None);
        }
    }
}
