//! The network once more, slowly: numbers on the host, one sequence and one token after the other.

use super::TreeDims;

type Rows = Vec<Vec<f64>>;

pub(super) struct Slow<'a> {
    pub(super) dims: TreeDims,
    pub(super) values: &'a [Vec<f32>],
}

impl Slow<'_> {
    fn linear(&self, x: &Rows, weight: usize, out: usize) -> Rows {
        let (weights, bias) = (&self.values[weight], &self.values[weight + 1]);
        let row = |x: &Vec<f64>| {
            let column = |column: usize| {
                let products = x.iter().enumerate().map(|(row, x)| x * f64::from(weights[row * out + column]));
                products.sum::<f64>() + f64::from(bias[column])
            };
            (0..out).map(column).collect()
        };
        x.iter().map(row).collect()
    }

    fn norm(&self, x: &Rows, gain: usize) -> Rows {
        let (gains, bias) = (&self.values[gain], &self.values[gain + 1]);
        let row = |x: &Vec<f64>| {
            let mean = x.iter().sum::<f64>() / x.len() as f64;
            let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / x.len() as f64;
            let scaled = x.iter().map(|x| (x - mean) / (variance + 1e-5).sqrt());
            scaled.enumerate().map(|(i, x)| x * f64::from(gains[i]) + f64::from(bias[i])).collect()
        };
        x.iter().map(row).collect()
    }

    fn attention(&self, x: &Rows, first: usize) -> Rows {
        let d = self.dims.d_model;
        let width = d / self.dims.n_head;
        let qkv = self.linear(x, first, 3 * d);
        let mut mixed = vec![vec![0.0; d]; x.len()];
        for head in 0..self.dims.n_head {
            for (query, mixed) in mixed.iter_mut().enumerate() {
                let at = |part: usize, token: usize, i: usize| qkv[token][part * d + head * width + i];
                let score = |key: usize| {
                    (0..width).map(|i| at(0, query, i) * at(1, key, i)).sum::<f64>() / (width as f64).sqrt()
                };
                let weights: Vec<f64> = (0..=query).map(|key| score(key).exp()).collect();
                let all: f64 = weights.iter().sum();
                for i in 0..width {
                    let sum = weights.iter().enumerate().map(|(key, weight)| weight * at(2, key, i)).sum::<f64>();
                    mixed[head * width + i] = sum / all;
                }
            }
        }
        self.linear(&mixed, first + 2, d)
    }

    fn node(&self, node: usize, x: &Rows) -> Rows {
        let first = super::SHARED_TENSORS + node * super::NODE_TENSORS;
        let add = |left: &Rows, right: &Rows| -> Rows {
            left.iter().zip(right).map(|(left, right)| left.iter().zip(right).map(|(a, b)| a + b).collect()).collect()
        };
        let x = self.norm(&add(x, &self.attention(x, first)), first + 4);
        let hidden = self.linear(&x, first + 6, self.dims.d_ff);
        let gelu = |x: &f64| 0.5 * x * (1.0 + erf(x / std::f64::consts::SQRT_2));
        let hidden: Rows = hidden.iter().map(|row| row.iter().map(gelu).collect()).collect();
        self.norm(&add(&x, &self.linear(&hidden, first + 8, self.dims.d_model)), first + 10)
    }

    fn result(&self, node: usize, x: &Rows) -> Rows {
        let output = self.node(node, x);
        let children = self.dims.children(node);
        if children.is_empty() {
            return output;
        }
        let results: Vec<Rows> = children.map(|child| self.result(child, &output)).collect();
        let mean =
            |token: usize, i: usize| results.iter().map(|rows| rows[token][i]).sum::<f64>() / results.len() as f64;
        (0..x.len()).map(|token| (0..x[0].len()).map(|i| mean(token, i)).collect()).collect()
    }

    #[expect(clippy::cast_possible_truncation, reason = "compared in single precision")]
    pub(super) fn logits(&self, tokens: &[i32]) -> Vec<f32> {
        let d = self.dims.d_model;
        let embedded = tokens.iter().enumerate().map(|(place, token)| {
            let at = |table: usize, row: usize, i: usize| f64::from(self.values[table][row * d + i]);
            (0..d).map(|i| at(0, token.unsigned_abs() as usize, i) + at(1, place, i)).collect()
        });
        let hidden = self.norm(&self.result(0, &embedded.collect()), 2);
        self.linear(&hidden, 4, self.dims.vocab_size).into_iter().flatten().map(|logit| logit as f32).collect()
    }
}

/// By its Taylor series, which is enough for the numbers here.
fn erf(x: f64) -> f64 {
    let mut term = x;
    let mut sum = x;
    for n in 1..60 {
        let n = f64::from(n);
        term *= -x * x / n;
        sum += term / (2.0 * n + 1.0);
    }
    sum * std::f64::consts::FRAC_2_SQRT_PI
}
