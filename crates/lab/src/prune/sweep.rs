//! The column sweep of optimal brain surgery: pruning by SparseGPT (Frantar and Alistarh 2023) and rounding by GPTQ (Frantar et al.
//! 2022), on the host in double precision.
//!
//! The inputs of a layer are gone through in their order. Weights of an input become 0 or a multiple of their scale, and the weights of the
//! later inputs compensate the error, so that the outputs of the calibration tokens change as little as possible. By how much they change
//! follows from the Cholesky factor of the inverse of the Hessian `x^T x`, with a damping.

use std::ops::Range;

use rayon::prelude::*;

use super::{cholesky::inverse_factor, part_of};
use crate::model::quantize::Grid;

/// Inputs among whose weights a part is chosen at a time, as in the authors' program; the weights after them are changed at once.
const BLOCK: usize = 128;
/// Part of the mean of the Hessian's diagonal that is added to it.
const DAMPING: f64 = 0.01;
/// Maximum number of times that the damping is multiplied by ten until the Hessian is positive definite.
const ATTEMPTS: i32 = 6;

/// The weights that become 0.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pruned {
    /// None.
    Nothing,
    /// Weights that are already 0.
    Zeros,
    /// This part of all weights of each 128 inputs, those whose loss costs least.
    Part(f64),
    /// All but `kept` of each `size` neighboring inputs of an output.
    Pattern {
        /// Weights that stay.
        kept: usize,
        /// Neighboring inputs; it divides the number of inputs.
        size: usize,
    },
}

/// The codes to which the other weights are rounded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Codes {
    /// Bits of a code.
    pub bits: u32,
    /// Neighboring inputs of an output that share a scale; it divides the number of inputs.
    pub group_size: usize,
}

/// Prunes and rounds `weights` `[inputs, outputs]` of a layer whose inputs `x` have the products `x^T x` `[inputs, inputs]`, of which the
/// numbers on and above the diagonal count. Inputs that are always 0 lose their weights.
///
/// `None` if a number is not finite.
pub fn sweep(weights: &mut [f32], products: &[f64], pruned: Pruned, codes: Option<Codes>) -> Option<()> {
    let inputs = products.len().isqrt();
    if inputs == 0 || weights.is_empty() {
        return Some(());
    }
    let outputs = weights.len() / inputs;
    if !weights.iter().all(|weight| weight.is_finite()) {
        return None;
    }
    let dead: Vec<bool> = (0..inputs).map(|input| products[input * inputs + input] == 0.0).collect();
    let factor = factor(products, &dead)?;
    let mut lines: Vec<Line> = (0..outputs)
        .into_par_iter()
        .map(|output| {
            let weight = |input: usize| f64::from(weights[input * outputs + output]);
            let weights = (0..inputs).map(|input| if dead[input] { 0.0 } else { weight(input) }).collect();
            Line { weights, is_pruned: vec![false; inputs], grid: None }
        })
        .collect();
    if pruned == Pruned::Zeros {
        lines
            .par_iter_mut()
            .for_each(|line| line.is_pruned = line.weights.iter().map(|weight| *weight == 0.0).collect());
    }
    let pass = Pass { factor: &factor, inputs, pruned, codes };
    for start in (0..inputs).step_by(BLOCK) {
        let block = start..inputs.min(start + BLOCK);
        if let Pruned::Part(part) = pruned {
            choose(&mut lines, &pass, block.clone(), part)?;
        }
        lines.par_iter_mut().for_each(|line| pass.go(line, block.clone()));
    }
    for (output, line) in lines.iter().enumerate() {
        for (input, weight) in line.weights.iter().enumerate() {
            #[expect(clippy::cast_possible_truncation, reason = "networks are in single precision")]
            let weight = *weight as f32;
            if !weight.is_finite() {
                return None;
            }
            weights[input * outputs + output] = weight;
        }
    }
    Some(())
}

/// The upper Cholesky factor of the inverse of the damped Hessian. `None` if a number is not finite.
fn factor(products: &[f64], dead: &[bool]) -> Option<Vec<f64>> {
    let inputs = dead.len();
    let diagonal = (0..inputs).map(|input| products[input * inputs + input]);
    let live = dead.iter().filter(|is_dead| !**is_dead).count();
    let mean = diagonal.sum::<f64>() / live.max(1) as f64;
    if !mean.is_finite() {
        return None;
    }
    // Rounding can leave a Hessian of large numbers with a slightly negative eigenvalue.
    (0..ATTEMPTS).find_map(|attempt| {
        let mut hessian = products.to_vec();
        for (input, is_dead) in dead.iter().enumerate() {
            let diagonal = &mut hessian[input * inputs + input];
            *diagonal = if *is_dead { 1.0 } else { *diagonal + DAMPING * 10.0_f64.powi(attempt) * mean };
        }
        inverse_factor(hessian, inputs)
    })
}

/// The weights of an output.
struct Line {
    weights: Vec<f64>,
    is_pruned: Vec<bool>,
    /// The codes of the present group of inputs.
    grid: Option<Grid>,
}

/// A sweep.
struct Pass<'a> {
    /// `[inputs, inputs]`, upper triangular.
    factor: &'a [f64],
    inputs: usize,
    pruned: Pruned,
    codes: Option<Codes>,
}

impl Pass<'_> {
    /// Row `input` of the factor, at `columns`.
    fn row(&self, input: usize, columns: Range<usize>) -> &[f64] {
        &self.factor[input * self.inputs..][columns]
    }

    /// The cost of pruning the weight of `input`.
    fn cost(&self, line: &Line, input: usize) -> f64 {
        let part = line.weights[input] / self.factor[input * self.inputs + input];
        part * part
    }

    /// Goes through the inputs `block` of an output, and changes the weights of all later ones.
    fn go(&self, line: &mut Line, block: Range<usize>) {
        let mut errors = Vec::with_capacity(block.len());
        // The inputs before it have changed the weights after the block.
        let mut flushed = block.start;
        for input in block.clone() {
            if let Some(Codes { bits, group_size }) = self.codes.filter(|codes| input.is_multiple_of(codes.group_size))
            {
                let group = input..(input + group_size).min(self.inputs);
                if group.end > block.end {
                    self.flush(line, flushed..input, &errors[flushed - block.start..], block.end);
                    flushed = input;
                }
                let largest = line.weights[group].iter().fold(0.0_f64, |largest, weight| largest.max(weight.abs()));
                #[expect(clippy::cast_possible_truncation, reason = "scales are in single precision")]
                let grid = Grid::new(largest as f32, bits);
                line.grid = Some(grid);
            }
            if let Pruned::Pattern { kept, size } = self.pruned
                && input.is_multiple_of(size)
            {
                let mut group: Vec<usize> = (input..(input + size).min(self.inputs)).collect();
                group.sort_by(|left, right| self.cost(line, *left).total_cmp(&self.cost(line, *right)));
                for lost in &group[..group.len().saturating_sub(kept)] {
                    line.is_pruned[*lost] = true;
                }
            }
            let weight = line.weights[input];
            #[expect(clippy::cast_possible_truncation, reason = "codes are of weights in single precision")]
            let target = match line.grid {
                _ if line.is_pruned[input] => 0.0,
                Some(grid) => f64::from(grid.nearest(weight as f32)),
                None => weight,
            };
            line.weights[input] = target;
            let error = (weight - target) / self.factor[input * self.inputs + input];
            errors.push(error);
            let later = input + 1..block.end;
            subtract(&mut line.weights[later.clone()], error, self.row(input, later));
        }
        self.flush(line, flushed..block.end, &errors[flushed - block.start..], block.end);
    }

    /// Subtracts the `errors` of `inputs` from the weights from input `start` on.
    fn flush(&self, line: &mut Line, inputs: Range<usize>, errors: &[f64], start: usize) {
        for (input, error) in inputs.zip(errors) {
            subtract(&mut line.weights[start..], *error, self.row(input, start..self.inputs));
        }
    }
}

/// Prunes the `part` of the weights of the inputs `block` whose loss costs least; of equal ones, the first. `None` if a cost is not a
/// number.
fn choose(lines: &mut [Line], pass: &Pass<'_>, block: Range<usize>, part: f64) -> Option<()> {
    let costs: Vec<f64> =
        lines.par_iter().flat_map_iter(|line| block.clone().map(|input| pass.cost(line, input))).collect();
    if costs.iter().any(|cost| cost.is_nan()) {
        return None;
    }
    let count = part_of(part, costs.len());
    if count == 0 {
        return Some(());
    }
    let mut order: Vec<usize> = (0..costs.len()).collect();
    order.select_nth_unstable_by(count - 1, |left, right| costs[*left].total_cmp(&costs[*right]).then(left.cmp(right)));
    for place in &order[..count] {
        lines[place / block.len()].is_pruned[block.start + place % block.len()] = true;
    }
    Some(())
}

fn subtract(from: &mut [f64], factor: f64, numbers: &[f64]) {
    if factor != 0.0 {
        for (from, number) in from.iter_mut().zip(numbers) {
            *from -= factor * number;
        }
    }
}
