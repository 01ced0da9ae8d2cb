//! Helpers that the lab's tests share.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::path::{Path, PathBuf};

use burn::{
    backend::{Autodiff, Flex, flex::FlexDevice},
    module::{Module, Param},
    tensor::{Int, Tensor, TensorData, backend::Backend as BurnBackend},
};
use rand_distr::{Distribution as _, Normal};
use safetensors::{Dtype, SafeTensors};
use sweep_job::{Backend, Failure, Outcome, Progress, Report, Task, Values};
use sweep_lab::{model, optim::Gradients, rng};

pub(crate) type Inner = Flex;
pub(crate) type Train = Autodiff<Flex>;

/// Path of the reference vectors.
pub(crate) fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

/// A file of tensors.
pub(crate) struct Tensors(Vec<u8>);

impl Tensors {
    pub(crate) fn read(path: &Path) -> Self {
        Self(std::fs::read(path).unwrap())
    }

    pub(crate) fn floats(&self, name: &str) -> Vec<f32> {
        self.numbers(name, Dtype::F32, f32::from_le_bytes)
    }

    pub(crate) fn ints(&self, name: &str) -> Vec<i32> {
        self.numbers(name, Dtype::I32, i32::from_le_bytes)
    }

    pub(crate) fn bytes(&self, name: &str) -> Vec<u8> {
        SafeTensors::deserialize(&self.0).unwrap().tensor(name).unwrap().data().to_vec()
    }

    pub(crate) fn shape(&self, name: &str) -> Vec<usize> {
        SafeTensors::deserialize(&self.0).unwrap().tensor(name).unwrap().shape().to_vec()
    }

    fn numbers<T>(&self, name: &str, dtype: Dtype, convert: fn([u8; 4]) -> T) -> Vec<T> {
        let file = SafeTensors::deserialize(&self.0).unwrap();
        let tensor = file.tensor(name).unwrap();
        assert_eq!(tensor.dtype(), dtype, "{name}");
        tensor.data().as_chunks::<4>().0.iter().map(|bytes| convert(*bytes)).collect()
    }
}

/// The largest difference, relative to the largest expected number.
pub(crate) fn relative_error(found: &[f32], expected: &[f32]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let scale = expected.iter().map(|number| f64::from(number.abs())).fold(1e-12, f64::max);
    let pairs = found.iter().zip(expected);
    pairs.map(|(found, expected)| f64::from((found - expected).abs()) / scale).fold(0.0, f64::max)
}

pub(crate) fn host(tensor: Tensor<Inner, 1>) -> Vec<f32> {
    tensor.into_data().to_vec().unwrap()
}

pub(crate) fn ids(values: &[i32], shape: [usize; 2]) -> Tensor<Train, 2, Int> {
    Tensor::from_data(TensorData::new(values.to_vec(), shape), &FlexDevice)
}

/// A report that keeps its messages.
#[derive(Default)]
pub(crate) struct Kept {
    pub(crate) progress: Vec<Progress>,
    pub(crate) notes: Vec<String>,
}

impl Report for Kept {
    fn progress(&mut self, progress: Progress) {
        self.progress.push(progress);
    }

    fn note(&mut self, text: &str) {
        self.notes.push(text.to_owned());
    }
}

/// The entries of two JSON objects together.
pub(crate) fn merged(mut base: serde_json::Value, more: &serde_json::Value) -> serde_json::Value {
    base.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    base
}

/// A job's folders, which are one here.
pub(crate) fn folders(dir: &Path) -> sweep_lab::Folders {
    sweep_lab::Folders { files: dir.to_owned(), scratch: dir.to_owned() }
}

/// Runs a task on the CPU with `given` parameters, a JSON object, and the defaults for the rest.
pub(crate) fn run(task: &str, given: serde_json::Value, dir: &Path) -> Result<Outcome, Failure> {
    run_on(Backend::Cpu, task, given, dir)
}

/// Runs a task like [`run`], on another backend.
pub(crate) fn run_on(backend: Backend, task: &str, given: serde_json::Value, dir: &Path) -> Result<Outcome, Failure> {
    sweep_lab::run(&self::task(task, given), backend, &folders(dir), &mut Kept::default())
}

/// A task with `given` parameters, a JSON object, and the defaults for the rest.
pub(crate) fn task(task: &str, given: serde_json::Value) -> Task {
    let info = Task::info(task).unwrap();
    let given: Values = serde_json::from_value(given).unwrap();
    let checked = given.into_iter().map(|(name, value)| {
        let value = info.param(&name).unwrap().check(&value).unwrap();
        (name, value)
    });
    let values = info.complete(checked.collect());
    assert_eq!(info.conflicts(&values), Vec::new());
    info.build(&values).unwrap()
}

/// Two matrices and a vector: enough of a network for an optimizer and a pruner.
#[derive(Module, Debug)]
pub(crate) struct Small<B: BurnBackend> {
    pub(crate) first: Param<Tensor<B, 2>>,
    pub(crate) second: Param<Tensor<B, 2>>,
    pub(crate) vector: Param<Tensor<B, 1>>,
}

impl Small<Train> {
    /// With weights from a normal distribution.
    pub(crate) fn random(name: &str) -> Self {
        let weights =
            |index, shape| Tensor::from_data(TensorData::new(normal(name, index, 1.0, shape), shape), &FlexDevice);
        Self {
            first: Param::from_tensor(weights(0, [8, 6])),
            second: Param::from_tensor(weights(1, [5, 8])),
            vector: Param::from_tensor(Tensor::from_floats(&normal(name, 2, 1.0, [1, 7])[..], &FlexDevice)),
        }
    }

    /// Gradients of iteration `iter`, from a normal distribution.
    pub(crate) fn gradients(&self, iter: u64, scale: f32) -> Gradients<Inner> {
        let values = model::values(self).into_iter().enumerate();
        let gradient = |(index, values): (usize, Tensor<Inner, 1>)| {
            let numbers = normal("gradient", iter * 3 + index as u64, scale, [1, values.dims()[0]]);
            Some(Tensor::from_floats(&numbers[..], &FlexDevice))
        };
        values.map(gradient).collect()
    }

    /// All weights on the host, by parameter.
    pub(crate) fn weights(&self) -> Vec<Vec<f32>> {
        model::values(self).into_iter().map(host).collect()
    }
}

/// Numbers from a normal distribution with standard deviation `scale`.
fn normal(name: &str, index: u64, scale: f32, shape: [usize; 2]) -> Vec<f32> {
    let stream = rng::stream(0, "test", name, &[index]);
    Normal::new(0.0, scale).unwrap().sample_iter(stream).take(shape[0] * shape[1]).collect()
}
