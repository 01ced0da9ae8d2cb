//! The operations, each with its loops in double precision.

use super::{Activation, Case, FlexDevice, Ops, Tensor, TensorData, flat, ids, plain};

/// `x W + b`, and the GELU of it if there is a kind; `turned` inputs are stored by columns.
pub(super) struct Linear {
    pub(super) rows: usize,
    pub(super) inner: usize,
    pub(super) columns: usize,
    pub(super) turned: bool,
    pub(super) kind: Option<Activation>,
}

impl Linear {
    fn parts<B: Ops<Device = FlexDevice>>(
        &self,
        inputs: &[Tensor<B, 1>],
    ) -> (Tensor<B, 2>, Tensor<B, 2>, Tensor<B, 1>) {
        let matrix = |index: usize, rows: usize, columns: usize| {
            let flat = inputs[index].clone();
            if self.turned { flat.reshape([columns, rows]).transpose() } else { flat.reshape([rows, columns]) }
        };
        (matrix(0, self.rows, self.inner), matrix(1, self.inner, self.columns), inputs[2].clone())
    }
}

impl Case for Linear {
    fn inputs(&self) -> Vec<usize> {
        vec![self.rows * self.inner, self.inner * self.columns, self.columns]
    }

    fn kernels<B: Ops<Device = FlexDevice>>(&self, inputs: &[Tensor<B, 1>]) -> Tensor<B, 1> {
        let (x, weight, bias) = self.parts(inputs);
        flat(match self.kind {
            None => Ops::linear(x, weight, bias),
            Some(kind) => B::linear_activation(x, weight, bias, kind),
        })
    }

    fn plain<B: Ops<Device = FlexDevice>>(&self, inputs: &[Tensor<B, 1>]) -> Tensor<B, 1> {
        let (x, weight, bias) = self.parts(inputs);
        flat(match self.kind {
            None => plain::linear(x, weight, bias),
            Some(kind) => plain::linear_activation(x, weight, bias, kind),
        })
    }

    fn reference(&self, inputs: &[Vec<f64>]) -> Vec<f64> {
        let at = |index: usize, row: usize, column: usize, rows: usize, columns: usize| {
            inputs[index][if self.turned { column * rows + row } else { row * columns + column }]
        };
        let mut out = Vec::new();
        for row in 0..self.rows {
            for (column, bias) in inputs[2].iter().enumerate() {
                let products = (0..self.inner).map(|inner| {
                    at(0, row, inner, self.rows, self.inner) * at(1, inner, column, self.inner, self.columns)
                });
                let sum = products.sum::<f64>() + bias;
                out.push(self.kind.map_or(sum, |kind| activation(sum, kind)));
            }
        }
        out
    }
}

/// The activation function in double precision.
pub(super) fn activation(x: f64, kind: Activation) -> f64 {
    match kind {
        Activation::Gelu => x * 0.5 * (1.0 + erf(x / 2.0_f64.sqrt())),
        Activation::GeluNew => {
            x * 0.5 * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x.powi(3))).tanh())
        }
        Activation::Silu => x / (1.0 + (-x).exp()),
        Activation::Relu2 => x.max(0.0).powi(2),
    }
}

/// The error function by its series, which is exact enough up to 6.
pub(super) fn erf(x: f64) -> f64 {
    let t = x.abs();
    if t > 6.0 {
        return x.signum();
    }
    // All terms have one sign in this form of the series.
    let (mut term, mut sum) = (t, t);
    for n in 1..200 {
        term *= 2.0 * t * t / f64::from(2 * n + 1);
        sum += term;
    }
    (sum * (-t * t).exp() * std::f64::consts::FRAC_2_SQRT_PI).copysign(x)
}

/// The activation function alone.
pub(super) struct Activated(pub(super) Activation);

impl Case for Activated {
    fn inputs(&self) -> Vec<usize> {
        vec![69]
    }

    fn kernels<B: Ops<Device = FlexDevice>>(&self, inputs: &[Tensor<B, 1>]) -> Tensor<B, 1> {
        flat(Ops::activation(inputs[0].clone().reshape([3, 23]), self.0))
    }

    fn plain<B: Ops<Device = FlexDevice>>(&self, inputs: &[Tensor<B, 1>]) -> Tensor<B, 1> {
        flat(plain::activation(inputs[0].clone().reshape([3, 23]), self.0))
    }

    fn reference(&self, inputs: &[Vec<f64>]) -> Vec<f64> {
        inputs[0].iter().map(|x| activation(*x, self.0)).collect()
    }
}

/// Every row's numbers are spread out first: the gradient of a row of nearly equal numbers is a difference of large ones,
/// of which single precision leaves little.
pub(super) struct LayerNorm {
    pub(super) rows: usize,
    pub(super) d: usize,
}

impl LayerNorm {
    fn spread(&self) -> Vec<f32> {
        [0.0, 4.0, 8.0].into_iter().cycle().take(self.d).collect()
    }

    fn x<B: Ops<Device = FlexDevice>>(&self, inputs: &[Tensor<B, 1>]) -> Tensor<B, 2> {
        let spread = Tensor::<B, 1>::from_floats(self.spread().as_slice(), &FlexDevice);
        inputs[0].clone().reshape([self.rows, self.d]) + spread.unsqueeze::<2>()
    }
}

impl Case for LayerNorm {
    fn inputs(&self) -> Vec<usize> {
        vec![self.rows * self.d, self.d, self.d]
    }

    fn kernels<B: Ops<Device = FlexDevice>>(&self, inputs: &[Tensor<B, 1>]) -> Tensor<B, 1> {
        flat(Ops::layer_norm(self.x(inputs), inputs[1].clone(), inputs[2].clone(), 1e-5))
    }

    fn plain<B: Ops<Device = FlexDevice>>(&self, inputs: &[Tensor<B, 1>]) -> Tensor<B, 1> {
        flat(plain::layer_norm(self.x(inputs), inputs[1].clone(), inputs[2].clone(), 1e-5))
    }

    fn reference(&self, inputs: &[Vec<f64>]) -> Vec<f64> {
        let d = self.d as f64;
        let row = |x: &[f64]| -> Vec<f64> {
            let x: Vec<f64> = x.iter().zip(self.spread()).map(|(x, spread)| x + f64::from(spread)).collect();
            let mean = x.iter().sum::<f64>() / d;
            let deviation = (x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / d + 1e-5).sqrt();
            let scaled = x.iter().zip(&inputs[1]).zip(&inputs[2]);
            scaled.map(|((x, gain), bias)| (x - mean) / deviation * gain + bias).collect()
        };
        inputs[0].chunks(self.d).flat_map(row).collect()
    }
}

/// Numbers far from 0, like those of [`LayerNorm`].
pub(super) struct RmsNorm(pub(super) LayerNorm);

impl Case for RmsNorm {
    fn inputs(&self) -> Vec<usize> {
        vec![self.0.rows * self.0.d, self.0.d]
    }

    fn kernels<B: Ops<Device = FlexDevice>>(&self, inputs: &[Tensor<B, 1>]) -> Tensor<B, 1> {
        flat(Ops::rms_norm(self.0.x(inputs), inputs[1].clone(), 1e-5))
    }

    fn plain<B: Ops<Device = FlexDevice>>(&self, inputs: &[Tensor<B, 1>]) -> Tensor<B, 1> {
        flat(plain::rms_norm(self.0.x(inputs), inputs[1].clone(), 1e-5))
    }

    fn reference(&self, inputs: &[Vec<f64>]) -> Vec<f64> {
        let row = |x: &[f64]| -> Vec<f64> {
            let x: Vec<f64> = x.iter().zip(self.0.spread()).map(|(x, spread)| x + f64::from(spread)).collect();
            let root = (x.iter().map(|x| x.powi(2)).sum::<f64>() / self.0.d as f64 + 1e-5).sqrt();
            x.iter().zip(&inputs[1]).map(|(x, gain)| x / root * gain).collect()
        };
        inputs[0].chunks(self.0.d).flat_map(row).collect()
    }
}

/// With `apart`, queries, keys and values are a part of wider rows.
pub(super) struct Attention {
    pub(super) batch: usize,
    pub(super) length: usize,
    pub(super) heads: usize,
    pub(super) width: usize,
    pub(super) apart: bool,
}

impl Attention {
    fn qkv<B: Ops<Device = FlexDevice>>(&self, inputs: &[Tensor<B, 1>]) -> Tensor<B, 2> {
        let (rows, columns) = (self.batch * self.length, 3 * self.heads * self.width);
        if self.apart {
            inputs[0].clone().reshape([rows, columns + 2]).slice([0..rows, 1..columns + 1])
        } else {
            inputs[0].clone().reshape([rows, columns])
        }
    }

    fn mask<B: Ops<Device = FlexDevice>>(&self) -> Tensor<B, 2> {
        let length = self.length;
        let hidden = |index: usize| if index % length > index / length { -1e30 } else { 0.0 };
        let values: Vec<f32> = (0..length * length).map(hidden).collect();
        Tensor::from_data(TensorData::new(values, [1, length * length]), &FlexDevice)
    }
}

impl Case for Attention {
    fn inputs(&self) -> Vec<usize> {
        let more = if self.apart { 2 } else { 0 };
        vec![self.batch * self.length * (3 * self.heads * self.width + more)]
    }

    fn kernels<B: Ops<Device = FlexDevice>>(&self, inputs: &[Tensor<B, 1>]) -> Tensor<B, 1> {
        flat(B::causal_attention(self.qkv(inputs), self.batch, self.heads, &self.mask(), 0.0))
    }

    fn plain<B: Ops<Device = FlexDevice>>(&self, inputs: &[Tensor<B, 1>]) -> Tensor<B, 1> {
        flat(plain::causal_attention(&self.qkv(inputs), self.batch, self.heads, &self.mask(), 0.0))
    }

    fn reference(&self, inputs: &[Vec<f64>]) -> Vec<f64> {
        let d_model = self.heads * self.width;
        let (stride, first) = if self.apart { (3 * d_model + 2, 1) } else { (3 * d_model, 0) };
        let at = |row: usize, part: usize, head: usize, index: usize| {
            inputs[0][row * stride + first + part * d_model + head * self.width + index]
        };
        let mut out = vec![0.0; self.batch * self.length * d_model];
        for row in 0..self.batch * self.length {
            let begin = row / self.length * self.length;
            for head in 0..self.heads {
                let score = |key: usize| {
                    let products = (0..self.width).map(|index| at(row, 0, head, index) * at(key, 1, head, index));
                    (products.sum::<f64>() / (self.width as f64).sqrt()).exp()
                };
                let scores: Vec<f64> = (begin..=row).map(score).collect();
                let sum: f64 = scores.iter().sum();
                for index in 0..self.width {
                    let mixed = scores.iter().zip(begin..).map(|(score, key)| score / sum * at(key, 2, head, index));
                    out[row * d_model + head * self.width + index] = mixed.sum();
                }
            }
        }
        out
    }
}

/// Rows of a table; every id but 2 is used at least once, some more often.
pub(super) struct Embedding;

pub(super) const USED: [i32; 8] = [4, 0, 1, 1, 3, 4, 1, 0];

impl Case for Embedding {
    fn inputs(&self) -> Vec<usize> {
        vec![5 * 7]
    }

    fn kernels<B: Ops<Device = FlexDevice>>(&self, inputs: &[Tensor<B, 1>]) -> Tensor<B, 1> {
        flat(Ops::embedding(inputs[0].clone().reshape([5, 7]), ids(&USED, 2)))
    }

    fn plain<B: Ops<Device = FlexDevice>>(&self, inputs: &[Tensor<B, 1>]) -> Tensor<B, 1> {
        flat(plain::embedding(inputs[0].clone().reshape([5, 7]), ids(&USED, 2)))
    }

    fn reference(&self, inputs: &[Vec<f64>]) -> Vec<f64> {
        let rows: Vec<&[f64]> = inputs[0].chunks(7).collect();
        USED.iter().flat_map(|id| rows[usize::try_from(*id).unwrap()]).copied().collect()
    }
}

pub(super) struct CrossEntropy {
    pub(super) rows: usize,
    pub(super) vocab: usize,
    pub(super) d: usize,
}

impl CrossEntropy {
    fn targets(&self) -> Vec<i32> {
        (0..self.rows).map(|row| i32::try_from(row * 7 % self.vocab).unwrap()).collect()
    }
}

impl Case for CrossEntropy {
    fn inputs(&self) -> Vec<usize> {
        vec![self.rows * self.d, self.vocab * self.d]
    }

    fn kernels<B: Ops<Device = FlexDevice>>(&self, inputs: &[Tensor<B, 1>]) -> Tensor<B, 1> {
        let hidden = inputs[0].clone().reshape([self.rows, self.d]);
        B::tied_cross_entropy(hidden, inputs[1].clone().reshape([self.vocab, self.d]), ids(&self.targets(), 1))
    }

    fn plain<B: Ops<Device = FlexDevice>>(&self, inputs: &[Tensor<B, 1>]) -> Tensor<B, 1> {
        let hidden = inputs[0].clone().reshape([self.rows, self.d]);
        plain::tied_cross_entropy(hidden, inputs[1].clone().reshape([self.vocab, self.d]), ids(&self.targets(), 1))
    }

    fn reference(&self, inputs: &[Vec<f64>]) -> Vec<f64> {
        let losses = inputs[0].chunks(self.d).zip(self.targets()).map(|(state, target)| {
            let logit = |row: &[f64]| row.iter().zip(state).map(|(table, state)| table * state).sum::<f64>();
            let logits: Vec<f64> = inputs[1].chunks(self.d).map(logit).collect();
            logits.iter().map(|logit| logit.exp()).sum::<f64>().ln() - logits[usize::try_from(target).unwrap()]
        });
        vec![losses.sum::<f64>() / self.rows as f64]
    }

    /// A loss near 0 is the difference of two numbers of at least about 1.
    fn least(&self) -> f32 {
        1.0
    }
}

/// A sum whose operands are used twice.
pub(super) struct Add;

impl Case for Add {
    fn inputs(&self) -> Vec<usize> {
        vec![12, 12]
    }

    fn kernels<B: Ops<Device = FlexDevice>>(&self, inputs: &[Tensor<B, 1>]) -> Tensor<B, 1> {
        let [left, right] = [0, 1].map(|index: usize| inputs[index].clone().reshape([3, 4]));
        flat(B::add(B::add(left.clone() * right.clone(), left), right))
    }

    fn plain<B: Ops<Device = FlexDevice>>(&self, inputs: &[Tensor<B, 1>]) -> Tensor<B, 1> {
        let (left, right) = (inputs[0].clone(), inputs[1].clone());
        left.clone() * right.clone() + left + right
    }

    fn reference(&self, inputs: &[Vec<f64>]) -> Vec<f64> {
        inputs[0].iter().zip(&inputs[1]).map(|(left, right)| left * right + left + right).collect()
    }
}
