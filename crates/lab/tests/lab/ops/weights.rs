//! Operations on complete attention weights: softmax under a mask, factors of rows, the largest of a row.

use burn::{
    backend::{Autodiff, Flex, flex::FlexDevice},
    tensor::{Tensor, TensorData},
};
use proptest::proptest;
use sweep_lab::ops::{Ops, plain};

use super::{Case, check, check_against_plain, flat, host, normal};

/// `heads` matrices of `length` rows, under a causal mask if there is one.
struct Softmax {
    heads: usize,
    length: usize,
    columns: usize,
    masked: bool,
}

impl Softmax {
    fn hidden(&self, row: usize, column: usize) -> bool {
        self.masked && column > row
    }

    fn of<B: Ops<Device = FlexDevice>>(
        &self,
        inputs: &[Tensor<B, 1>],
        softmax: impl Fn(Tensor<B, 2>, Option<&Tensor<B, 2>>, usize) -> Tensor<B, 2>,
    ) -> Tensor<B, 1> {
        let numbers = self.length * self.columns;
        let places = (0..numbers).map(|index| (index / self.columns, index % self.columns));
        let values: Vec<f32> = places.map(|(row, column)| if self.hidden(row, column) { -1e30 } else { 0.0 }).collect();
        let mask = Tensor::from_data(TensorData::new(values, [1, numbers]), &FlexDevice);
        let logits = inputs[0].clone().reshape([self.heads, numbers]);
        flat(softmax(logits, self.masked.then_some(&mask), self.columns))
    }
}

impl Case for Softmax {
    fn inputs(&self) -> Vec<usize> {
        vec![self.heads * self.length * self.columns]
    }

    fn kernels<B: Ops<Device = FlexDevice>>(&self, inputs: &[Tensor<B, 1>]) -> Tensor<B, 1> {
        self.of(inputs, B::softmax_rows)
    }

    fn plain<B: Ops<Device = FlexDevice>>(&self, inputs: &[Tensor<B, 1>]) -> Tensor<B, 1> {
        self.of(inputs, plain::softmax_rows)
    }

    fn reference(&self, inputs: &[Vec<f64>]) -> Vec<f64> {
        let row = |(row, logits): (usize, &[f64])| -> Vec<f64> {
            let seen = |column: usize| !self.hidden(row % self.length, column);
            let part = |(column, x): (usize, &f64)| if seen(column) { x.exp() } else { 0.0 };
            let parts: Vec<f64> = logits.iter().enumerate().map(part).collect();
            let sum: f64 = parts.iter().sum();
            parts.into_iter().map(|part| part / sum).collect()
        };
        inputs[0].chunks(self.columns).enumerate().flat_map(row).collect()
    }
}

struct ScaleRows {
    rows: usize,
    columns: usize,
}

impl Case for ScaleRows {
    fn inputs(&self) -> Vec<usize> {
        vec![self.rows * self.columns, self.rows]
    }

    fn kernels<B: Ops<Device = FlexDevice>>(&self, inputs: &[Tensor<B, 1>]) -> Tensor<B, 1> {
        let factors = inputs[1].clone().reshape([self.rows, 1]);
        flat(B::scale_rows(inputs[0].clone().reshape([self.rows, self.columns]), factors))
    }

    fn plain<B: Ops<Device = FlexDevice>>(&self, inputs: &[Tensor<B, 1>]) -> Tensor<B, 1> {
        let factors = inputs[1].clone().reshape([self.rows, 1]);
        flat(inputs[0].clone().reshape([self.rows, self.columns]) * factors)
    }

    fn reference(&self, inputs: &[Vec<f64>]) -> Vec<f64> {
        inputs[0].iter().enumerate().map(|(index, x)| x * inputs[1][index / self.columns]).collect()
    }
}

/// The places of the largest numbers, by sorting.
fn check_largest(rows: usize, columns: usize, k: usize, seed: u64) {
    // Rounded, so that there are equal ones.
    let x: Vec<f32> = normal(rows * columns, seed).iter().map(|x| (x * 4.0).round() + 0.0).collect();
    let mut expected = vec![0.0; x.len()];
    for (row, kept) in x.chunks(columns).zip(expected.chunks_mut(columns)) {
        let mut places: Vec<usize> = (0..columns).collect();
        // Sorting is stable, so of equal ones the first stays first.
        places.sort_by(|left, right| row[*right].total_cmp(&row[*left]));
        places.iter().take(k).for_each(|place| kept[*place] = 1.0);
    }
    let tensor = Tensor::<Flex, 1>::from_floats(x.as_slice(), &FlexDevice).reshape([rows, columns]);
    assert_eq!(host(flat(Flex::largest(tensor.clone(), k))), expected, "kernel");
    assert_eq!(host(flat(plain::largest(&tensor, k))), expected, "plain");
    let tracked = Autodiff::<Flex>::largest(Tensor::from_inner(tensor), k);
    assert_eq!(host(flat(tracked.inner())), expected, "tracked");
}

proptest! {
    #[test]
    fn softmax(heads in 1..4_usize, length in 1..7_usize, masked: bool, seed: u16) {
        check(&Softmax { heads, length, columns: length, masked }, u64::from(seed));
        check(&Softmax { heads, length: 1, columns: length, masked: false }, u64::from(seed));
    }

    #[test]
    fn scaled_rows(rows in 1..6_usize, columns in 1..9_usize, seed: u16) {
        check(&ScaleRows { rows, columns }, u64::from(seed));
    }

    #[test]
    fn largest(rows in 1..5_usize, columns in 1..70_usize, k in 0..12_usize, seed: u16) {
        check_largest(rows, columns, k, u64::from(seed));
    }
}

#[test]
fn many_rows() {
    check_against_plain(&Softmax { heads: 5, length: 201, columns: 201, masked: true }, 1);
    check_against_plain(&ScaleRows { rows: 301, columns: 130 }, 2);
    check_largest(301, 130, 8, 3);
}
