//! The step of SOAP (Vyas et al., "SOAP: Improving and Stabilizing Shampoo using Adam", 2024), as the authors' program defines it.
//!
//! A matrix `[rows, columns]` has the preconditioners of Shampoo, the running means of `g g^T` and `g^T g`. Adam's moments are computed
//! from the gradient in the eigenbases of both. The first gradient initializes the preconditioners and changes no weight, so that no
//! gradient is part of the bases by which it is rotated. Every `precondition_frequency` further gradients, a step of power iteration and a
//! QR decomposition update the bases.
//!
//! The bases are computed on the host (`bases.rs`): this is the only part of a step that is read from the device.

use burn::tensor::{Int, Tensor, TensorData};
use sweep_job::tasks::Optimizer;

use super::bases::{eigenbases, orthonormal};
use crate::{LabError, device::read::host, ops::Ops};

/// Number of tensors of a state before the tensors of its sides.
const MOMENTS: usize = 2;

/// SOAP for one matrix.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Soap {
    beta_1: f64,
    beta_2: f64,
    epsilon: f64,
    frequency: usize,
    /// Rows and columns.
    shape: [usize; 2],
    /// Which of both have a preconditioner.
    sides: [bool; 2],
}

impl Soap {
    /// SOAP with `settings` for a matrix of this shape.
    pub(super) fn new(settings: &Optimizer, shape: [usize; 2]) -> Self {
        let Optimizer { beta_1, beta_2, epsilon, precondition_frequency: frequency, precondition_limit, .. } =
            *settings;
        Self { beta_1, beta_2, epsilon, frequency, shape, sides: shape.map(|length| length <= precondition_limit) }
    }

    /// Names and lengths of the tensors of the state: both moments, and of each side the preconditioner and the vectors of its basis,
    /// one after the other.
    pub(super) fn state(&self) -> Vec<(&'static str, usize)> {
        let [rows, columns] = self.shape;
        let mut state = vec![("rotated_moment_1", rows * columns), ("rotated_moment_2", rows * columns)];
        let names = [["left", "left_basis"], ["right", "right_basis"]];
        for ((names, length), _) in names.iter().zip(self.shape).zip(self.sides).filter(|(_, is_used)| *is_used) {
            state.extend(names.map(|name| (name, length * length)));
        }
        state
    }

    /// Begins the preconditioners in `state`, whose tensors are 0, with the first `gradient`.
    pub(super) fn begin<B: Ops>(&self, state: &mut [Tensor<B, 1>], gradient: Tensor<B, 1>) -> Result<(), LabError> {
        let [rows, columns] = self.shape;
        let device = gradient.device();
        let gradient = gradient.reshape(self.shape);
        let is_wide = rows <= columns;
        let vectors = if is_wide { gradient.clone() } else { gradient.clone().transpose() };
        let vectors = widened(&host(vectors.reshape([rows * columns]))?);
        let [rows_wanted, columns_wanted] = self.sides;
        let mut bases = if is_wide {
            eigenbases([rows, columns], &vectors, [rows_wanted, columns_wanted])
        } else {
            eigenbases([columns, rows], &vectors, [columns_wanted, rows_wanted])
        };
        if !is_wide {
            bases.reverse();
        }
        self.accumulate(state, &gradient);
        for (side, basis) in bases.iter().enumerate() {
            if let Some(basis) = basis {
                state[self.place(side) + 1] = narrowed(basis, &device);
            }
        }
        Ok(())
    }

    /// The weights after step `step`, counted from 1, along `gradient`. `decay` is the part of a weight that decays, after the
    /// change.
    pub(super) fn step<B: Ops>(
        &self,
        state: &mut [Tensor<B, 1>],
        weights: Tensor<B, 1>,
        gradient: Tensor<B, 1>,
        [rate, decay]: [f64; 2],
        step: i32,
    ) -> Result<Tensor<B, 1>, LabError> {
        let numbers = weights.dims();
        let gradient = gradient.reshape(self.shape);
        let rotated = self.rotated(state, gradient.clone()).reshape(numbers);
        state[0] = state[0].clone() * self.beta_1 + rotated.clone() * (1.0 - self.beta_1);
        state[1] = state[1].clone() * self.beta_2 + rotated.clone() * rotated * (1.0 - self.beta_2);
        let direction = state[0].clone() / (state[1].clone().sqrt() + self.epsilon);
        let rate = rate * (1.0 - self.beta_2.powi(step)).sqrt() / (1.0 - self.beta_1.powi(step));
        let change = self.rotated_back(state, direction.reshape(self.shape)).reshape(numbers) * rate;
        let weights = weights - change;
        let weights = if decay == 0.0 { weights } else { weights * (1.0 - decay) };
        self.accumulate(state, &gradient);
        if usize::try_from(step).is_ok_and(|step| step.is_multiple_of(self.frequency)) {
            self.turn(state)?;
        }
        Ok(weights)
    }

    /// Moves the preconditioners towards the preconditioners of `gradient`.
    fn accumulate<B: Ops>(&self, state: &mut [Tensor<B, 1>], gradient: &Tensor<B, 2>) {
        for (side, length) in self.used() {
            let transposed = gradient.clone().transpose();
            let products =
                if side == 0 { gradient.clone().matmul(transposed) } else { transposed.matmul(gradient.clone()) };
            let mean = &mut state[self.place(side)];
            *mean = mean.clone() * self.beta_2 + products.reshape([length * length]) * (1.0 - self.beta_2);
        }
    }

    /// Turns the bases after the preconditioners, and the moments with them: the first into the new bases, the second into the new
    /// order of the old vectors, by which the authors' program approximates that.
    fn turn<B: Ops>(&self, state: &mut [Tensor<B, 1>]) -> Result<(), LabError> {
        let numbers = state[0].dims();
        let mean = self.rotated_back(state, state[0].clone().reshape(self.shape));
        let mut squares = state[1].clone().reshape(self.shape);
        for (side, length) in self.used() {
            let (preconditioner, basis) = (state[self.place(side)].clone(), state[self.place(side) + 1].clone());
            let device = basis.device();
            let [preconditioner, basis] = [preconditioner, basis].map(|tensor| tensor.reshape([length, length]));
            // The preconditioner is symmetric: its products with the vectors are rows again.
            let products = basis.clone().matmul(preconditioner);
            let estimates = (basis * products.clone()).sum_dim(1).reshape([length]);
            let mut found = host(Tensor::cat(vec![products.reshape([length * length]), estimates], 0))?;
            let estimates = found.split_off(length * length);
            let mut order: Vec<usize> = (0..length).collect();
            order.sort_by(|left, right| estimates[*right].total_cmp(&estimates[*left]));
            let vectors = order.iter().flat_map(|index| &found[index * length..(index + 1) * length]);
            let basis = orthonormal(length, vectors.map(|number| f64::from(*number)).collect());
            state[self.place(side) + 1] = narrowed(&basis, &device);
            #[expect(clippy::cast_possible_wrap, reason = "a side of a matrix in memory")]
            let order: Vec<i64> = order.into_iter().map(|index| index as i64).collect();
            let order = Tensor::<B, 1, Int>::from_data(TensorData::new(order, [length]), &device);
            squares = squares.select(side, order);
        }
        state[0] = self.rotated(state, mean).reshape(numbers);
        state[1] = squares.reshape(numbers);
        Ok(())
    }

    /// `matrix` in the bases.
    fn rotated<B: Ops>(&self, state: &[Tensor<B, 1>], matrix: Tensor<B, 2>) -> Tensor<B, 2> {
        self.used().fold(matrix, |matrix, (side, length)| {
            let basis = state[self.place(side) + 1].clone().reshape([length, length]);
            if side == 0 { basis.matmul(matrix) } else { matrix.matmul(basis.transpose()) }
        })
    }

    /// A `matrix` that is in the bases, in the space of the weights.
    fn rotated_back<B: Ops>(&self, state: &[Tensor<B, 1>], matrix: Tensor<B, 2>) -> Tensor<B, 2> {
        self.used().fold(matrix, |matrix, (side, length)| {
            let basis = state[self.place(side) + 1].clone().reshape([length, length]);
            if side == 0 { basis.transpose().matmul(matrix) } else { matrix.matmul(basis) }
        })
    }

    /// The sides that have a preconditioner, and their lengths.
    fn used(&self) -> impl Iterator<Item = (usize, usize)> {
        let Self { shape, sides, .. } = *self;
        (0..2).filter(move |side| sides[*side]).map(move |side| (side, shape[side]))
    }

    /// The place in the state of the preconditioner of a side, before its basis.
    fn place(&self, side: usize) -> usize {
        MOMENTS + if side == 1 && self.sides[0] { 2 } else { 0 }
    }
}

fn widened(numbers: &[f32]) -> Vec<f64> {
    numbers.iter().map(|number| f64::from(*number)).collect()
}

#[expect(clippy::cast_possible_truncation, reason = "states are in single precision")]
fn narrowed<B: Ops>(numbers: &[f64], device: &B::Device) -> Tensor<B, 1> {
    let length = numbers.len();
    let numbers: Vec<f32> = numbers.iter().map(|number| *number as f32).collect();
    Tensor::from_data(TensorData::new(numbers, [length]), device)
}
