//! Matrix products of numbers that are rounded to bfloat16, with sums in single precision.
//!
//! A product of two such numbers is exact in single precision; only the order of the sums depends on the processor. With
//! AMX's `tdpbf16ps` and AVX-512's `vdpbf16ps` both factors are packed in pairs of neighbors along the inner dimension, and every
//! tile of the result is summed by one thread, so the bits do not depend on the number of threads; these instructions take
//! subnormal numbers for 0. Other processors round copies of the factors and multiply those.

#[cfg(target_arch = "x86_64")]
use super::tiles::{self, Unit};
use super::{Into, Matrix, MatrixMut};
use crate::training::{elementwise::PIECE, math::versions, memory::Buffer};
use rayon::prelude::*;

/// The right factor of products, in the form that they take.
pub(super) enum Right<'a> {
    /// For products of tiles.
    #[cfg(target_arch = "x86_64")]
    Tiles(tiles::Right<'a>),
    /// Rounded numbers at the places where the matrix has them.
    Copied(Matrix<'a>, Buffer),
}

impl<'a> Right<'a> {
    /// Prepares `matrix` as the right factor. `kept` stores it in packed form, which pays off over many products.
    pub(super) fn new(matrix: Matrix<'a>, kept: bool) -> Self {
        #[cfg(target_arch = "x86_64")]
        if let Some(unit) = Unit::all().last() {
            return Self::Tiles(tiles::Right::new(matrix, *unit, kept));
        }
        Self::Copied(matrix, copy(matrix))
    }

    /// Writes `left`, rounded, times the matrix to `out`, on all threads of the pool.
    pub(super) fn multiply(&self, left: Matrix<'_>, out: &mut MatrixMut<'_>, into: Into) {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Tiles(right) => right.multiply(left, out, into),
            Self::Copied(matrix, right) => {
                let rounded_left = copy(left);
                let (left, right) = (Matrix { data: &rounded_left, ..left }, Matrix { data: right, ..*matrix });
                super::multiply_on_all(left, right, out, into);
            }
        }
    }
}

/// The slice of a matrix with its numbers rounded.
fn copy(matrix: Matrix<'_>) -> Buffer {
    let mut copy = Buffer::new(matrix.data.len());
    copy.par_chunks_mut(PIECE).zip(matrix.data.par_chunks(PIECE)).for_each(|(copy, data)| round_all(copy, data));
    copy
}

versions!(fn round_all(to: &mut [f32], from: &[f32]) = round_all_body);

#[inline(always)]
fn round_all_body<const FMA: bool>(to: &mut [f32], from: &[f32]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = f32::from_bits(rounded(*from) & 0xffff_0000);
    }
}

/// A number whose upper 16 bits are `number` in bfloat16, rounded to the nearest, of two as near to the even one.
#[inline(always)]
pub(super) fn rounded(number: f32) -> u32 {
    let bits = number.to_bits();
    if number.is_nan() { bits | 0x0040_0000 } else { bits.wrapping_add(0x7fff + (bits >> 16 & 1)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Numbers of about 1, and both kinds of 0, from a seed.
    fn numbers(length: usize, seed: u64) -> Vec<f32> {
        let mut state = seed.wrapping_mul(2).wrapping_add(1);
        let mut draw = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            #[expect(clippy::cast_possible_truncation, reason = "numbers in single precision are wanted")]
            let number = ((state >> 33) as f64 / f64::from(1_u32 << 30) - 1.0) as f32;
            number
        };
        (0..length).map(|index| if index % 17 == 3 { -0.0 } else { draw() }).collect()
    }

    fn short(number: f32) -> f64 {
        f64::from(f32::from_bits(rounded(number) & 0xffff_0000))
    }

    /// The product in double precision of rounded numbers, and the sum of the absolute values of its terms.
    fn expected(left: Matrix<'_>, right: Matrix<'_>) -> Vec<(f64, f64)> {
        let value = |matrix: Matrix<'_>, row: usize, column: usize| {
            short(matrix.data[row * matrix.row_stride + column * matrix.column_stride])
        };
        let places = (0..left.rows).flat_map(|row| (0..right.columns).map(move |column| (row, column)));
        let sums = places.map(|(row, column)| {
            let terms = (0..left.columns).map(|inner| value(left, row, inner) * value(right, inner, column));
            terms.fold((0.0, 0.0), |(sum, size), term| (sum + term, size + term.abs()))
        });
        sums.collect()
    }

    /// The factor in every form that this processor multiplies.
    fn forms(matrix: Matrix<'_>) -> Vec<Right<'_>> {
        let mut forms = vec![Right::Copied(matrix, copy(matrix))];
        #[cfg(target_arch = "x86_64")]
        for (unit, kept) in Unit::all().iter().flat_map(|unit| [(*unit, false), (*unit, true)]) {
            forms.push(Right::Tiles(tiles::Right::new(matrix, unit, kept)));
        }
        forms
    }

    fn check(left: Matrix<'_>, right: Matrix<'_>) {
        let (rows, columns) = (left.rows, right.columns);
        let forms = forms(right);
        for (form, into) in forms.iter().flat_map(|form| [(form, Into::Overwrite), (form, Into::Sum)]) {
            let mut out = vec![1.5_f32; rows * columns];
            form.multiply(left, &mut MatrixMut::new(&mut out, rows, columns), into);
            let start = if into == Into::Sum { 1.5 } else { 0.0 };
            for (out, (sum, size)) in out.iter().zip(expected(left, right)) {
                let bound = (size + 2.0) * f64::from(f32::EPSILON) * (left.columns as f64).sqrt().max(4.0);
                assert!((f64::from(*out) - sum - start).abs() <= bound, "{out} is not {sum} + {start}");
            }
        }
    }

    #[test]
    fn numbers_round_to_the_nearest_and_to_even() {
        let cases: [(u32, u32); 6] = [
            (0x3f80_0000, 0x3f80), // 1
            (0x3f80_8000, 0x3f80), // halfway, down to even
            (0x3f81_8000, 0x3f82), // halfway, up to even
            (0x3f80_8001, 0x3f81),
            (0x7f7f_ffff, 0x7f80), // the largest number becomes infinite
            (0xff80_0000, 0xff80),
        ];
        for (bits, code) in cases {
            assert_eq!(rounded(f32::from_bits(bits)) >> 16, code, "{bits:x}");
        }
        let nan = f32::from_bits(0x7f80_0001);
        assert!(f32::from_bits(rounded(nan) & 0xffff_0000).is_nan(), "its payload is in the lower half");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn products_are_those_of_rounded_numbers(
            rows in 1_usize..60, inner in 1_usize..90, columns in 1_usize..100, layout in 0_u8..4, seed: u64,
        ) {
            let (left, right) = (numbers(rows * inner, seed), numbers(inner * columns, seed ^ 1));
            let left = if layout & 1 == 0 { Matrix::new(&left, rows, inner) } else { Matrix::new(&left, inner, rows).transposed() };
            let right =
                if layout & 2 == 0 { Matrix::new(&right, inner, columns) } else { Matrix::new(&right, columns, inner).transposed() };
            check(left, right);
        }
    }

    #[test]
    fn long_sums_and_many_tiles_are_right() {
        let (rows, inner, columns) = (130, 1100, 530);
        let (left, right) = (numbers(rows * inner, 5), numbers(inner * columns, 6));
        check(Matrix::new(&left, rows, inner), Matrix::new(&right, inner, columns));
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn a_packed_product_has_the_same_bits_with_any_number_of_threads() {
        // One thread packs the rows, or the columns, of each of these tasks for itself; three pack all of them before.
        let [few, many, inner] = [90, 1_210, 550];
        for [rows, inner, columns] in [[many, inner, few], [few, inner, many], [few, 2 * 4096 + 70, few]] {
            let (left, right) = (numbers(rows * inner, 7), numbers(inner * columns, 8));
            let lefts = [Matrix::new(&left, rows, inner), Matrix::new(&left, inner, rows).transposed()];
            let product = |threads, left, unit, kept| {
                let pool =
                    rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads can be started");
                pool.install(|| {
                    let mut out = vec![0.0; rows * columns];
                    let right = tiles::Right::new(Matrix::new(&right, inner, columns), unit, kept);
                    right.multiply(left, &mut MatrixMut::new(&mut out, rows, columns), Into::Overwrite);
                    out
                })
            };
            if Unit::all().is_empty() {
                eprintln!("not compared: this processor has no instructions for packed products");
            }
            for (unit, left) in Unit::all().iter().flat_map(|unit| lefts.map(|left| (*unit, left))) {
                let expected = product(1, left, unit, true);
                for (threads, kept) in [(3, true), (1, false), (3, false)] {
                    assert_eq!(product(threads, left, unit, kept), expected, "{unit:?}, {threads} threads");
                }
            }
        }
    }
}
