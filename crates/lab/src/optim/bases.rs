//! Orthonormal bases on the host, in double precision, for SOAP's preconditioners.
//!
//! Vectors stand one after the other in one list. Every vector is computed by one thread in a fixed order, so that the same
//! numbers give the same bits with any number of threads. Numbers that are not finite give numbers that are not finite, and
//! every loop ends.

use rayon::prelude::*;

/// Eigenvalues below this fraction of the largest one belong to the null space, because the gradients are in single precision.
const LEAST_PART: f64 = 1e-10;
/// Limit of the iterations for one eigenvalue; usually there are one or two.
const ITERATIONS: usize = 60;
/// Numbers that are summed side by side.
const LANES: usize = 8;

/// An orthonormal basis of the space of vectors of `length` numbers. Its first vectors successively span the same spaces as the first of
/// `vectors`, as in Gram and Schmidt's method, if these are independent. It is the matrix `Q` of Householder's QR decomposition, which
/// LAPACK computes with the same signs.
pub(super) fn orthonormal(length: usize, mut vectors: Vec<f64>) -> Vec<f64> {
    let count = (vectors.len() / length.max(1)).min(length);
    let mut factors = Vec::with_capacity(count);
    for index in 0..count {
        let (first, rest) = vectors.split_at_mut((index + 1) * length);
        let vector = &mut first[index * length + index..];
        let factor = into_reflector(vector);
        factors.push(factor);
        rest.par_chunks_mut(length).for_each(|other| reflect(&mut other[index..], vector, factor));
    }
    let mut basis = unit_vectors(length);
    basis.par_chunks_mut(length).enumerate().for_each(|(place, vector)| {
        // Later reflections do not change the unit vector.
        for index in (0..count.min(place + 1)).rev() {
            let reflector = &vectors[index * length + index..(index + 1) * length];
            reflect(&mut vector[index..], reflector, factors[index]);
        }
    });
    basis
}

/// The eigenbases of the sums of `v v^T` over the first and over the second index of `vectors`: `count` vectors of `length` numbers, at
/// most as many as they are long. Larger eigenvalues come first, and the null space has the basis that [`orthonormal`] gives it. Only
/// the `wanted` bases, of vectors of `count` and of `length` numbers, are computed.
pub(super) fn eigenbases([count, length]: [usize; 2], vectors: &[f64], wanted: [bool; 2]) -> [Option<Vec<f64>>; 2] {
    let vector = |index: usize| &vectors[index * length..(index + 1) * length];
    let mut products = vec![0.0; count * count];
    products.par_chunks_mut(count.max(1)).enumerate().for_each(|(row, products)| {
        for (column, product) in products.iter_mut().enumerate() {
            *product = dot(vector(row), vector(column));
        }
    });
    let (values, mut directions) = eigenvectors(count, products);
    let least = values.first().map_or(0.0, |largest| largest * LEAST_PART);
    let rank = values.iter().take_while(|value| **value > least).count();
    directions.truncate(rank * count);
    let images = wanted[1].then(|| {
        let mut images = vec![0.0; rank * length];
        images.par_chunks_mut(length.max(1)).zip(directions.par_chunks(count.max(1))).for_each(|(image, direction)| {
            for (index, part) in direction.iter().enumerate() {
                add(image, *part, vector(index));
            }
        });
        orthonormal(length, images)
    });
    [wanted[0].then(|| orthonormal(count, directions)), images]
}

/// The eigenvalues of the symmetric `matrix`, the largest first, and its eigenvectors, by Householder's tridiagonal form and implicit
/// QL iterations.
fn eigenvectors(size: usize, mut matrix: Vec<f64>) -> (Vec<f64>, Vec<f64>) {
    let mut reflectors = Vec::with_capacity(size);
    let mut beside = vec![0.0; size];
    for index in 0..size.saturating_sub(2) {
        let mut vector = matrix[index * size + index + 1..(index + 1) * size].to_vec();
        let first = vector[0];
        let factor = into_reflector(&mut vector);
        beside[index] = if factor == 0.0 { first } else { first - vector[0] };
        let below = &mut matrix[(index + 1) * size..];
        let mut products = vec![0.0; vector.len()];
        products.par_iter_mut().zip(below.par_chunks(size)).for_each(|(product, row)| {
            *product = factor * dot(&row[index + 1..], &vector);
        });
        let excess = -0.5 * factor * dot(&products, &vector);
        add(&mut products, excess, &vector);
        below.par_chunks_mut(size).enumerate().for_each(|(row, numbers)| {
            add(&mut numbers[index + 1..], -vector[row], &products);
            add(&mut numbers[index + 1..], -products[row], &vector);
        });
        reflectors.push((vector, factor));
    }
    if size > 1 {
        beside[size - 2] = matrix[(size - 1) * size - 1];
    }
    let mut values: Vec<f64> = (0..size).map(|index| matrix[index * size + index]).collect();
    let mut vectors = unit_vectors(size);
    vectors.par_chunks_mut(size.max(1)).enumerate().for_each(|(place, vector)| {
        for (index, (reflector, factor)) in reflectors.iter().enumerate().take(place).rev() {
            reflect(&mut vector[index + 1..], reflector, *factor);
        }
    });
    diagonalize(&mut values, &mut beside, &mut vectors);
    let mut order: Vec<usize> = (0..size).collect();
    order.sort_by(|left, right| values[*right].total_cmp(&values[*left]));
    let sorted = order.iter().flat_map(|index| vectors[index * size..(index + 1) * size].iter().copied()).collect();
    (order.iter().map(|index| values[*index]).collect(), sorted)
}

/// Turns the diagonal `values` of a symmetric tridiagonal matrix, with the numbers `beside` it, into its eigenvalues, and `vectors` with
/// it.
fn diagonalize(values: &mut [f64], beside: &mut [f64], vectors: &mut [f64]) {
    let size = values.len();
    for first in 0..size {
        for _ in 0..ITERATIONS {
            let is_coupled =
                |index: usize| beside[index].abs() > f64::EPSILON * (values[index].abs() + values[index + 1].abs());
            let last = (first..size - 1).find(|index| !is_coupled(*index)).unwrap_or(size - 1);
            if last == first {
                break;
            }
            let half = (values[first + 1] - values[first]) / (2.0 * beside[first]);
            let mut rest = values[last] - values[first] + beside[first] / (half + half.hypot(1.0).copysign(half));
            let (mut sine, mut cosine, mut shift) = (1.0, 1.0, 0.0);
            let mut is_split = false;
            for index in (first..last).rev() {
                let (across, along) = (sine * beside[index], cosine * beside[index]);
                let norm = across.hypot(rest);
                beside[index + 1] = norm;
                if norm == 0.0 {
                    values[index + 1] -= shift;
                    is_split = true;
                    break;
                }
                (sine, cosine) = (across / norm, rest / norm);
                let value = values[index + 1] - shift;
                let product = (values[index] - value) * sine + 2.0 * cosine * along;
                shift = sine * product;
                values[index + 1] = value + shift;
                rest = cosine * product - along;
                rotate(&mut vectors[index * size..(index + 2) * size], sine, cosine);
            }
            beside[last] = 0.0;
            if !is_split {
                values[first] -= shift;
                beside[first] = rest;
            }
        }
    }
}

/// Rotates two vectors, one after the other in `pair`, in their plane.
fn rotate(pair: &mut [f64], sine: f64, cosine: f64) {
    let (left, right) = pair.split_at_mut(pair.len() / 2);
    for (left, right) in left.iter_mut().zip(right) {
        (*left, *right) = (cosine * *left - sine * *right, sine * *left + cosine * *right);
    }
}

/// Makes of `vector` the `v` of the reflection `1 - factor v v^T` that maps it to a multiple of the first unit vector, and returns the
/// factor; 0 if nothing is to be done.
fn into_reflector(vector: &mut [f64]) -> f64 {
    let norm = dot(vector, vector).sqrt();
    if norm == 0.0 || vector.len() < 2 {
        return 0.0;
    }
    // Away from the first number, so that nothing cancels.
    let target = -norm.copysign(vector[0]);
    vector[0] -= target;
    -(target * vector[0]).recip()
}

fn reflect(vector: &mut [f64], reflector: &[f64], factor: f64) {
    if factor != 0.0 {
        add(vector, -factor * dot(vector, reflector), reflector);
    }
}

/// Adds `factor` times `addend` to `sum`.
fn add(sum: &mut [f64], factor: f64, addend: &[f64]) {
    for (sum, addend) in sum.iter_mut().zip(addend) {
        *sum += factor * addend;
    }
}

fn dot(left: &[f64], right: &[f64]) -> f64 {
    let ((left, left_rest), (right, right_rest)) = (left.as_chunks::<LANES>(), right.as_chunks::<LANES>());
    let mut sums = [0.0; LANES];
    for (left, right) in left.iter().zip(right) {
        for ((sum, left), right) in sums.iter_mut().zip(left).zip(right) {
            *sum += left * right;
        }
    }
    let rest: f64 = left_rest.iter().zip(right_rest).map(|(left, right)| left * right).sum();
    sums.iter().sum::<f64>() + rest
}

fn unit_vectors(size: usize) -> Vec<f64> {
    let mut vectors = vec![0.0; size * size];
    for index in 0..size {
        vectors[index * size + index] = 1.0;
    }
    vectors
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers between -1 and 1 without a pattern.
    fn numbers(count: usize, mut state: u64) -> Vec<f64> {
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f64 / f64::from(1_u32 << 23) - 1.0
        };
        (0..count).map(|_| next()).collect()
    }

    fn assert_orthonormal(basis: &[f64], length: usize) {
        assert_eq!(basis.len(), length * length);
        for (row, left) in basis.chunks(length).enumerate() {
            for (column, right) in basis.chunks(length).enumerate() {
                let expected = f64::from(u8::from(row == column));
                assert!((dot(left, right) - expected).abs() < 1e-12, "{row} {column}: {}", dot(left, right));
            }
        }
    }

    #[test]
    fn bases_are_orthonormal_and_span_what_the_vectors_span() {
        for (length, count) in [(1, 1), (2, 1), (7, 7), (33, 12), (16, 0), (5, 9)] {
            let vectors = numbers(length * count, 3);
            let basis = orthonormal(length, vectors.clone());
            assert_orthonormal(&basis, length);
            for (index, vector) in vectors.chunks(length).enumerate().take(length) {
                let inside: f64 = basis.chunks(length).take(index + 1).map(|unit| dot(unit, vector).powi(2)).sum();
                assert!((inside / dot(vector, vector) - 1.0).abs() < 1e-12, "{length} {count} {index}");
            }
        }
        // Vectors that depend on each other, and none at all.
        let twice = [numbers(6, 1), numbers(6, 1), vec![0.0; 6], numbers(6, 2)].concat();
        assert_orthonormal(&orthonormal(6, twice), 6);
        assert_eq!(orthonormal(3, vec![0.0; 9]), unit_vectors(3));
    }

    #[test]
    fn eigenvectors_of_symmetric_matrices() {
        for size in [1, 2, 3, 20, 41] {
            let half = numbers(size * size, 5);
            let matrix: Vec<f64> =
                (0..size * size).map(|place| half[place] + half[place % size * size + place / size]).collect();
            let (values, vectors) = eigenvectors(size, matrix.clone());
            assert_orthonormal(&vectors, size);
            assert!(values.is_sorted_by(|left, right| left >= right), "{values:?}");
            for (value, vector) in values.iter().zip(vectors.chunks(size)) {
                for (row, number) in matrix.chunks(size).zip(vector) {
                    assert!((dot(row, vector) - value * number).abs() < 1e-12, "{size}");
                }
            }
        }
        let (values, _) = eigenvectors(2, vec![2.0, 1.0, 1.0, 2.0]);
        assert!((values[0] - 3.0).abs() < 1e-15 && (values[1] - 1.0).abs() < 1e-15, "{values:?}");
        assert_eq!(eigenvectors(3, unit_vectors(3)), (vec![1.0; 3], unit_vectors(3)), "equal eigenvalues");
    }

    #[test]
    fn both_eigenbases_of_a_matrix() {
        let (count, length) = (5, 12);
        let vectors = numbers(count * length, 7);
        let [small, large] = eigenbases([count, length], &vectors, [true, true]).map(Option::unwrap);
        assert_orthonormal(&small, count);
        assert_orthonormal(&large, length);
        // In these bases the matrix has its singular values on the diagonal, the largest first, and nothing else.
        let rotated = |row: usize, column: usize| -> f64 {
            let parts = small[row * count..(row + 1) * count].iter().zip(vectors.chunks(length));
            parts.map(|(part, vector)| part * dot(vector, &large[column * length..(column + 1) * length])).sum()
        };
        for row in 0..count {
            for column in (0..length).filter(|column| *column != row) {
                assert!(rotated(row, column).abs() < 1e-12, "{row} {column}: {}", rotated(row, column));
            }
            assert!(row == 0 || rotated(row, row).abs() <= rotated(row - 1, row - 1).abs());
        }
        assert_eq!(eigenbases([count, length], &vectors, [false, true]), [None, Some(large)]);
        assert_eq!(eigenbases([2, 3], &[0.0; 6], [true, true]), [Some(unit_vectors(2)), Some(unit_vectors(3))]);
    }

    #[test]
    fn numbers_that_are_not_finite_end_every_loop() {
        for bad in [f64::NAN, f64::INFINITY, f64::MAX] {
            let mut vectors = numbers(20, 9);
            vectors[7] = bad;
            let bases = eigenbases([4, 5], &vectors, [true, true]);
            assert_eq!(bases.map(|basis| basis.unwrap().len()), [16, 25]);
            let mut vectors = numbers(25, 9);
            vectors[7] = bad;
            let basis = orthonormal(5, vectors);
            assert!(bad == f64::MAX || basis.iter().any(|number| number.is_nan()), "{bad}: {basis:?}");
        }
    }
}
