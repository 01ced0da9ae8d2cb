//! Matrix products of slices: through the `gemm` crate, and of rounded numbers.

use std::marker::PhantomData;

mod short;
#[cfg(target_arch = "x86_64")]
mod tiles;

/// A matrix that is read: any two distances between neighbors in a slice.
#[derive(Debug, Clone, Copy)]
pub struct Matrix<'a> {
    data: &'a [f32],
    rows: usize,
    columns: usize,
    row_stride: usize,
    column_stride: usize,
}

impl<'a> Matrix<'a> {
    /// A matrix of whole rows.
    pub fn new(data: &'a [f32], rows: usize, columns: usize) -> Self {
        Self::strided(data, rows, columns, columns)
    }

    /// Parts of rows that begin `stride` numbers apart.
    pub(super) fn strided(data: &'a [f32], rows: usize, columns: usize, stride: usize) -> Self {
        assert!(rows == 0 || columns == 0 || (rows - 1) * stride + columns <= data.len(), "matrix outside its slice");
        Self { data, rows, columns, row_stride: stride, column_stride: 1 }
    }

    /// Some of the rows, all of which exist.
    fn rows(self, rows: std::ops::Range<usize>) -> Self {
        let data = self.data.get(rows.start * self.row_stride..).unwrap_or_default();
        Self { data, rows: rows.len(), ..self }
    }

    /// Columns for rows.
    pub fn transposed(self) -> Self {
        let Self { data, rows, columns, row_stride, column_stride } = self;
        Self { data, rows: columns, columns: rows, row_stride: column_stride, column_stride: row_stride }
    }
}

/// A matrix that is written: parts of rows that begin at a fixed distance.
#[derive(Debug)]
pub struct MatrixMut<'a> {
    data: *mut f32,
    rows: usize,
    columns: usize,
    row_stride: usize,
    borrowed: PhantomData<&'a mut [f32]>,
}

impl<'a> MatrixMut<'a> {
    /// A matrix of whole rows.
    ///
    /// # Panics
    ///
    /// If the slice has fewer numbers.
    pub fn new(data: &'a mut [f32], rows: usize, columns: usize) -> Self {
        assert!(rows * columns <= data.len(), "matrix outside its slice");
        Self { data: data.as_mut_ptr(), rows, columns, row_stride: columns, borrowed: PhantomData }
    }
}

/// Numbers that several threads write, each its own.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shared<'a> {
    data: *mut f32,
    length: usize,
    borrowed: PhantomData<&'a mut [f32]>,
}

// SAFETY: a pointer to borrowed numbers; the methods that use it access disjoint parts.
#[expect(unsafe_code, reason = "threads write disjoint columns of the same rows, which slices cannot say")]
unsafe impl Send for Shared<'_> {}
// SAFETY: as above.
#[expect(unsafe_code, reason = "as above")]
unsafe impl Sync for Shared<'_> {}

impl<'a> Shared<'a> {
    /// The numbers of a slice.
    pub(super) fn new(data: &'a mut [f32]) -> Self {
        Self { data: data.as_mut_ptr(), length: data.len(), borrowed: PhantomData }
    }

    /// Parts of rows, the first from `offset`, that begin `stride` apart.
    ///
    /// # Safety
    /// While the matrix is in use nothing else reads or writes its numbers.
    #[expect(unsafe_code, reason = "the caller divides the numbers among threads")]
    pub(super) unsafe fn matrix(self, offset: usize, rows: usize, columns: usize, stride: usize) -> MatrixMut<'a> {
        let end = if rows == 0 { offset } else { offset + (rows - 1) * stride + columns };
        assert!(end <= self.length, "matrix outside its slice");
        // SAFETY: the offset is inside the slice, as asserted.
        let data = unsafe { self.data.add(offset) };
        MatrixMut { data, rows, columns, row_stride: stride, borrowed: PhantomData }
    }

    /// The numbers `offset .. offset + length`.
    ///
    /// # Safety
    /// While the slice is in use nothing else reads or writes its numbers.
    #[expect(unsafe_code, reason = "the caller divides the numbers among threads")]
    pub(super) unsafe fn slice(self, offset: usize, length: usize) -> &'a mut [f32] {
        assert!(offset + length <= self.length, "part outside its slice");
        // SAFETY: inside the slice, as asserted; not aliased, as the caller promises.
        unsafe { std::slice::from_raw_parts_mut(self.data.add(offset), length) }
    }
}

/// Treatment of the numbers that a product is written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Into {
    /// They are replaced.
    Overwrite,
    /// They are replaced, and nothing reads them soon: they need not be in a cache.
    Memory,
    /// The product is added to them.
    Sum,
}

/// The format that the factors of a product are rounded to; sums are in single precision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Products {
    /// Single precision: they are not rounded.
    Single,
    /// bfloat16.
    Short,
}

impl Products {
    /// Writes `left * right` to `out`, on all threads of the pool.
    pub fn multiply(self, left: Matrix<'_>, right: Matrix<'_>, out: &mut MatrixMut<'_>, into: Into) {
        Right::new(right, self, 1).multiply(left, out, into);
    }
}

/// The right factor of several products.
pub(super) struct Right<'a>(Factor<'a>);

enum Factor<'a> {
    Single(Matrix<'a>),
    Short(short::Right<'a>),
}

impl<'a> Right<'a> {
    /// `matrix`, in the format of `products`, of which there will be `count`. For more than two it is rounded once; else that
    /// takes more memory than it saves time.
    pub(super) fn new(matrix: Matrix<'a>, products: Products, count: usize) -> Self {
        Self(match products {
            Products::Single => Factor::Single(matrix),
            Products::Short => Factor::Short(short::Right::new(matrix, count > 2)),
        })
    }

    /// Writes `left * self` to `out`, on all threads of the pool.
    pub(super) fn multiply(&self, left: Matrix<'_>, out: &mut MatrixMut<'_>, into: Into) {
        match &self.0 {
            Factor::Single(right) => multiply_on_all(left, *right, out, into),
            Factor::Short(right) => right.multiply(left, out, into),
        }
    }
}

/// Writes `left * right` to `out`, on this thread.
pub(super) fn multiply(left: Matrix<'_>, right: Matrix<'_>, out: &mut MatrixMut<'_>, into: Into) {
    product(left, right, out, into, gemm::Parallelism::None);
}

/// Writes `left * right` to `out`, on all threads of the pool.
fn multiply_on_all(left: Matrix<'_>, right: Matrix<'_>, out: &mut MatrixMut<'_>, into: Into) {
    product(left, right, out, into, gemm::Parallelism::Rayon(0));
}

fn product(left: Matrix<'_>, right: Matrix<'_>, out: &mut MatrixMut<'_>, into: Into, threads: gemm::Parallelism) {
    assert_eq!((left.rows, left.columns, right.columns), (out.rows, right.rows, out.columns), "shapes of a product");
    let stride = |stride: usize| isize::try_from(stride).unwrap_or(isize::MAX);
    // SAFETY: all three matrices lie inside their slices, which their constructors assert; `out` is not aliased,
    // because it borrows mutably or by the promise of `Shared::matrix`.
    #[expect(unsafe_code, reason = "the crate takes pointers and strides")]
    unsafe {
        gemm::gemm(
            out.rows,
            out.columns,
            left.columns,
            out.data,
            1,
            stride(out.row_stride),
            into == Into::Sum,
            left.data.as_ptr(),
            stride(left.column_stride),
            stride(left.row_stride),
            right.data.as_ptr(),
            stride(right.column_stride),
            stride(right.row_stride),
            1.0,
            1.0,
            false,
            false,
            false,
            threads,
        );
    }
}
