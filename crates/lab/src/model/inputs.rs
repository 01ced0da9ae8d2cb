//! The inputs of linear layers: the norms by which WANDA scores weights, and the products by which GPTQ and SparseGPT change them.
//!
//! Recording is enabled per thread. While it is enabled, every linear layer stores the norms or products of its input under its weight's
//! id; reading them waits for the device.

use std::{cell::RefCell, collections::BTreeMap};

use burn::{
    module::{Param, ParamId},
    tensor::{Tensor, backend::Backend},
};
use rayon::prelude::*;

use crate::{LabError, device::read::host};

/// Rows whose products are summed at a time, so that they stay in the cache.
const TILE: usize = 32;

/// Norms by weight, `[in]` each.
pub(crate) type Norms = BTreeMap<ParamId, Vec<f32>>;

/// The products `x^T x` of the inputs `x` `[rows, in]` of all calls, by weight, `[in, in]` each: the numbers on and above the diagonal.
/// The host sums them in double precision, because the inverse of a Hessian of few tokens enlarges every error.
pub(crate) type Products = BTreeMap<ParamId, Vec<f64>>;

/// The norm of a feature over several inputs of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Combining {
    /// The largest of the inputs' norms.
    Largest,
    /// The norm over the rows of all inputs.
    All,
}

/// The recorded properties of inputs.
enum Record {
    Norms(Combining, Norms),
    Products(Products),
}

thread_local! {
    static SEEN: RefCell<Option<Result<Record, LabError>>> = const { RefCell::new(None) };
}

/// Does `work`, and returns the Euclidean norm of every input feature over the rows of each linear layer's inputs, combined
/// by `combining`.
pub(crate) fn watch(combining: Combining, work: impl FnOnce() -> Result<(), LabError>) -> Result<Norms, LabError> {
    match record(Record::Norms(combining, Norms::new()), work)? {
        Some(Record::Norms(_, norms)) => Ok(norms),
        _ => Ok(Norms::new()),
    }
}

/// Does `work`, and returns the products of each linear layer's inputs.
pub(crate) fn products(work: impl FnOnce() -> Result<(), LabError>) -> Result<Products, LabError> {
    match record(Record::Products(Products::new()), work)? {
        Some(Record::Products(products)) => Ok(products),
        _ => Ok(Products::new()),
    }
}

/// Does `work`, and returns `empty` with the records of the layers that ran meanwhile.
fn record(empty: Record, work: impl FnOnce() -> Result<(), LabError>) -> Result<Option<Record>, LabError> {
    /// Stops recording, also when `work` panics.
    struct Stop;

    impl Drop for Stop {
        fn drop(&mut self) {
            SEEN.take();
        }
    }

    SEEN.replace(Some(Ok(empty)));
    let _stop = Stop;
    work()?;
    SEEN.take().transpose()
}

/// True while inputs are recorded on this thread.
pub(super) fn is_recording() -> bool {
    SEEN.with_borrow(|state| matches!(state, Some(Ok(_))))
}

/// Records that the layer with `weight` gets the input `x` `[rows, in]`.
pub(super) fn saw<B: Backend>(weight: &Param<Tensor<B, 2>>, x: &Tensor<B, 2>) {
    SEEN.with_borrow_mut(|state| {
        let Some(Ok(record)) = state else { return };
        let added = match record {
            Record::Norms(combining, norms) => add_norms(*combining, norms, weight.id, x),
            Record::Products(products) => add_products(products, weight.id, x),
        };
        if let Err(error) = added {
            *state = Some(Err(error));
        }
    });
}

fn add_norms<B: Backend>(
    combining: Combining,
    norms: &mut Norms,
    id: ParamId,
    x: &Tensor<B, 2>,
) -> Result<(), LabError> {
    let [_, features] = x.dims();
    let squares = x.clone() * x.clone();
    let values = host(squares.sum_dim(0).sqrt().reshape([features]))?;
    let combined = norms.entry(id).or_insert_with(|| vec![0.0; features]);
    for (norm, value) in combined.iter_mut().zip(values) {
        *norm = match combining {
            Combining::Largest => norm.max(value),
            Combining::All => norm.hypot(value),
        };
    }
    Ok(())
}

fn add_products<B: Backend>(products: &mut Products, id: ParamId, x: &Tensor<B, 2>) -> Result<(), LabError> {
    let [rows, features] = x.dims();
    let x = host(x.clone().reshape([rows * features]))?;
    let sums = products.entry(id).or_insert_with(|| vec![0.0; features * features]);
    for rows in x.chunks(TILE * features.max(1)) {
        add_rows(sums, rows, features);
    }
    Ok(())
}

/// Adds the products of a few rows.
fn add_rows(sums: &mut [f64], rows: &[f32], features: usize) {
    let rows: Vec<f64> = rows.iter().map(|number| f64::from(*number)).collect();
    sums.par_chunks_mut(features.max(1)).enumerate().for_each(|(feature, sums)| {
        let sums = &mut sums[feature..];
        let mut fours = rows.chunks_exact(4 * features);
        for four in &mut fours {
            let [a, b, c, d] = [0, 1, 2, 3].map(|row| &four[row * features + feature..(row + 1) * features]);
            for ((((sum, a_other), b_other), c_other), d_other) in sums.iter_mut().zip(a).zip(b).zip(c).zip(d) {
                *sum += a[0] * a_other + b[0] * b_other + c[0] * c_other + d[0] * d_other;
            }
        }
        for row in fours.remainder().chunks_exact(features) {
            for (sum, other) in sums.iter_mut().zip(&row[feature..]) {
                *sum += row[feature] * other;
            }
        }
    });
}
