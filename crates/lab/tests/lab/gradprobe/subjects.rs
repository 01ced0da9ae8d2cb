//! Subjects that are only as large as a test needs.

use super::{
    ClassifierSubject, FlexDevice, Gradients, Inner, Judge, LabError, Points, Prunable, Subject, Tensor, settings,
    tensor,
};

/// Numbers by a distribution, in several tensors: a network that only has weights.
#[derive(Debug)]
pub(super) struct Numbers {
    pub(super) tensors: Vec<Prunable>,
    pub(super) weights: Vec<Tensor<Inner, 1>>,
}

impl Numbers {
    pub(super) fn new(numbers: &[f32], parts: usize) -> Self {
        // The names and shapes of a classifier's layers serve as well as others.
        let size = numbers.len() / parts;
        let settings = settings();
        let points = Points::random(10, [size, 1], 0);
        let widths: Vec<usize> = std::iter::once(size).chain(std::iter::repeat_n(1, parts)).collect();
        let subject = ClassifierSubject::<Inner>::new(&widths, points.clone(), points, &settings, &FlexDevice);
        let mut tensors = subject.tensors().to_vec();
        for tensor in &mut tensors {
            tensor.shape = vec![size, 1];
        }
        Self { tensors, weights: numbers.chunks(size).map(tensor).collect() }
    }
}

impl Subject<Inner> for Numbers {
    fn tensors(&self) -> &[Prunable] {
        &self.tensors
    }

    fn weights(&self, tensor: usize) -> Tensor<Inner, 1> {
        self.weights[tensor].clone()
    }

    fn set_weights(&mut self, tensor: usize, weights: Tensor<Inner, 1>) {
        self.weights[tensor] = weights;
    }

    fn batches(&self) -> usize {
        1
    }

    fn gradients(&mut self, _: [usize; 2], _: Option<&[usize]>) -> Result<Gradients<Inner>, LabError> {
        Ok(self.tensors.iter().map(|_| None).collect())
    }

    fn input_norms(&self, _: usize) -> Result<Vec<Option<Vec<f32>>>, LabError> {
        Ok(self.tensors.iter().map(|_| None).collect())
    }

    fn quality(&self, _: Judge) -> Result<f64, LabError> {
        Ok(0.0)
    }

    fn harm(&self, dense: f64, now: f64) -> f64 {
        now - dense
    }
}

/// `½ (w x - y)²` for each of two weights on their own.
#[derive(Debug)]
pub(super) struct Squares {
    pub(super) numbers: Numbers,
    pub(super) x: [f32; 2],
    pub(super) y: [f32; 2],
}

impl Squares {
    pub(super) fn new(w: [f32; 2], x: [f32; 2], y: [f32; 2]) -> Self {
        Self { numbers: Numbers::new(&w, 1), x, y }
    }
}

impl Subject<Inner> for Squares {
    fn tensors(&self) -> &[Prunable] {
        self.numbers.tensors()
    }

    fn weights(&self, tensor: usize) -> Tensor<Inner, 1> {
        self.numbers.weights(tensor)
    }

    fn set_weights(&mut self, tensor: usize, weights: Tensor<Inner, 1>) {
        self.numbers.set_weights(tensor, weights);
    }

    fn batches(&self) -> usize {
        1
    }

    fn gradients(&mut self, _: [usize; 2], _: Option<&[usize]>) -> Result<Gradients<Inner>, LabError> {
        let (w, [x, y]) = (self.weights(0), [self.x, self.y].map(|numbers| tensor(&numbers)));
        Ok(vec![Some((w * x.clone() - y) * x)])
    }

    fn input_norms(&self, batches: usize) -> Result<Vec<Option<Vec<f32>>>, LabError> {
        self.numbers.input_norms(batches)
    }

    fn quality(&self, on: Judge) -> Result<f64, LabError> {
        self.numbers.quality(on)
    }

    fn harm(&self, dense: f64, now: f64) -> f64 {
        now - dense
    }
}
