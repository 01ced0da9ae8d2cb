//! The state of a training besides the network's weights, as a file: moments, counts, norms, masks.
//!
//! The parts of a training write themselves to a [`Snapshot`] and restore themselves from one. As a file it is a
//! `safetensors` file of 32-bit floats; counts are in its metadata.

use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
};

use burn::tensor::{Tensor, TensorData, backend::Backend};
use safetensors::{Dtype, SafeTensors};

use super::{Stored, map, write_tensors};
use crate::{LabError, StateError};

/// Named tensors `[numbers]` and counts.
#[derive(Debug)]
pub struct Snapshot<B: Backend> {
    tensors: BTreeMap<String, Tensor<B, 1>>,
    counts: BTreeMap<String, u64>,
}

impl<B: Backend> Default for Snapshot<B> {
    fn default() -> Self {
        Self { tensors: BTreeMap::new(), counts: BTreeMap::new() }
    }
}

impl<B: Backend> Snapshot<B> {
    pub(crate) fn put(&mut self, name: String, tensor: Tensor<B, 1>) {
        self.tensors.insert(name, tensor);
    }

    pub(crate) fn put_count(&mut self, name: &str, count: u64) {
        self.counts.insert(name.to_owned(), count);
    }

    /// Takes the tensor of this name, which must have `numbers` numbers; returns `None` if the state does not have it.
    pub(crate) fn take(&mut self, name: &str, numbers: usize) -> Result<Option<Tensor<B, 1>>, StateError> {
        let Some(tensor) = self.tensors.remove(name) else { return Ok(None) };
        let [found] = tensor.dims();
        if found != numbers {
            return Err(StateError::Length { name: name.to_owned(), found, expected: numbers });
        }
        Ok(Some(tensor))
    }

    /// The tensor of this name, of any length.
    pub(crate) fn take_any(&mut self, name: &str) -> Option<Tensor<B, 1>> {
        self.tensors.remove(name)
    }

    pub(crate) fn take_count<N: TryFrom<u64>>(&mut self, name: &str) -> Result<N, StateError> {
        let count = self.counts.remove(name).and_then(|count| N::try_from(count).ok());
        count.ok_or_else(|| StateError::Missing { name: name.to_owned() })
    }

    /// Fails if a part of the state has not been taken.
    pub fn finish(self) -> Result<(), StateError> {
        match self.tensors.into_keys().chain(self.counts.into_keys()).next() {
            Some(name) => Err(StateError::Unknown { name }),
            None => Ok(()),
        }
    }

    /// Writes the file `path`. A number that is not finite is an error.
    pub fn write(&self, path: &Path) -> Result<(), LabError> {
        let tensors = self.tensors.iter().map(|(name, tensor)| Stored {
            name: name.clone(),
            shape: tensor.dims().into(),
            tensor: tensor.clone(),
        });
        let counts = self.counts.iter().map(|(name, count)| (name.clone(), count.to_string()));
        write_tensors(path, tensors.collect(), counts.collect::<HashMap<_, _>>(), true)
    }

    /// Reads the file `path`. A number that is not finite is an error.
    pub fn read(path: &Path, device: &B::Device) -> Result<Self, StateError> {
        let file_error = |message: String| StateError::File { path: path.to_owned(), message };
        let map = map(path).map_err(StateError::Read)?;
        let bytes: &[u8] = map.as_deref().unwrap_or_default();
        let file = SafeTensors::deserialize(bytes).map_err(|error| file_error(error.to_string()))?;
        let (_, header) = SafeTensors::read_metadata(bytes).map_err(|error| file_error(error.to_string()))?;
        let mut snapshot = Self::default();
        for (name, count) in header.metadata().iter().flatten() {
            let count = count.parse().map_err(|_| file_error(format!("`{name}` is `{count}`, expected a count")))?;
            snapshot.counts.insert(name.clone(), count);
        }
        for (name, tensor) in file.iter() {
            if tensor.dtype() != Dtype::F32 || tensor.shape().len() != 1 {
                return Err(file_error(format!("`{name}` is not a list of 32-bit floats")));
            }
            let values: Vec<f32> =
                tensor.data().as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
            if values.iter().any(|value| !value.is_finite()) {
                return Err(StateError::NotFinite { name: name.to_owned() });
            }
            let length = values.len();
            snapshot.put(name.to_owned(), Tensor::from_data(TensorData::new(values, [length]), device));
        }
        Ok(snapshot)
    }
}
