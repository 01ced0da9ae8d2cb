//! The tensors of a network's folder: in one file, or in several with an index, as large networks are published.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::{Path, PathBuf},
};

use burn::tensor::{bf16, f16};
use memmap2::Mmap;
use safetensors::{Dtype, SafeTensors, tensor::TensorView};
use serde::Deserialize;

use crate::{HubError, files, model::ParamInfo};

/// The file of a network in one file.
pub(super) const WEIGHTS: &str = "model.safetensors";
/// The index of a network in several files.
const INDEX: &str = "model.safetensors.index.json";

/// Mapped files of tensors.
pub(super) struct Weights {
    /// The file that errors name: the only one, or the index.
    path: PathBuf,
    files: Vec<(PathBuf, Option<Mmap>)>,
    /// The file of each tensor by name, of a network in several files.
    map: BTreeMap<String, String>,
}

/// Content of an index.
#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

impl Weights {
    /// Opens the files in `folder`: the single file if it exists, else the files that the index names.
    pub(super) fn open(folder: &Path) -> Result<Self, HubError> {
        let index = folder.join(INDEX);
        let path = folder.join(WEIGHTS);
        if path.exists() || !index.exists() {
            let map = files::map(&path).map_err(HubError::Read)?;
            return Ok(Self { files: vec![(path.clone(), map)], path, map: BTreeMap::new() });
        }
        let wrong = |message: String| HubError::Weights { path: index.clone(), message };
        let text = fs_err::read_to_string(&index).map_err(HubError::Read)?;
        let Index { weight_map: map } = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        let names: BTreeSet<&String> = map.values().collect();
        let mut files = Vec::new();
        for name in names {
            if Path::new(name).file_name() != Some(name.as_ref()) {
                return Err(wrong(format!("`{name}` is not the name of a file in the folder")));
            }
            let path = folder.join(name);
            let file = files::map(&path).map_err(HubError::Read)?;
            files.push((path, file));
        }
        if files.is_empty() {
            return Err(wrong("the index names no file".into()));
        }
        Ok(Self { path: index, files, map })
    }

    /// The error `message` about these files.
    pub(super) fn error(&self, message: String) -> HubError {
        HubError::Weights { path: self.path.clone(), message }
    }

    /// All tensors by their names without `prefix`.
    pub(super) fn tensors(&self, prefix: &str) -> Result<BTreeMap<String, TensorView<'_>>, HubError> {
        let mut tensors = BTreeMap::new();
        for (path, file) in &self.files {
            let wrong = |message: String| HubError::Weights { path: path.clone(), message };
            let bytes: &[u8] = file.as_deref().unwrap_or_default();
            let file = SafeTensors::deserialize(bytes).map_err(|error| wrong(error.to_string()))?;
            for (full_name, tensor) in file.iter() {
                let name = full_name.strip_prefix(prefix).unwrap_or(full_name);
                if tensors.insert(name.to_owned(), tensor).is_some() {
                    let reason = if self.map.is_empty() {
                        format!(", with and without the prefix `{prefix}`")
                    } else {
                        format!(" in the files of the network, with or without the prefix `{prefix}`")
                    };
                    return Err(wrong(format!("tensor `{name}` appears twice{reason}")));
                }
            }
        }
        for (full_name, file) in &self.map {
            if !tensors.contains_key(full_name.strip_prefix(prefix).unwrap_or(full_name)) {
                return Err(self.error(format!("tensor `{full_name}` is not in `{file}`")));
            }
        }
        Ok(tensors)
    }
}

/// A tensor's numbers as 32-bit floats, if it has the shape in `info`.
pub(super) fn numbers(info: &ParamInfo, tensor: &TensorView<'_>) -> Result<Vec<f32>, String> {
    if tensor.shape() != info.shape {
        return Err(format!("tensor `{}` has shape {:?}, expected {:?}", info.name, tensor.shape(), info.shape));
    }
    let data = tensor.data();
    let half = |convert: fn([u8; 2]) -> f32| data.as_chunks::<2>().0.iter().map(|bytes| convert(*bytes)).collect();
    match tensor.dtype() {
        Dtype::F32 => Ok(data.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()),
        Dtype::F16 => Ok(half(|bytes| f16::from_le_bytes(bytes).to_f32())),
        Dtype::BF16 => Ok(half(|bytes| bf16::from_le_bytes(bytes).to_f32())),
        other => {
            Err(format!("tensor `{}` has element type {other:?}; only F32, F16 and BF16 are supported", info.name))
        }
    }
}

/// The error of writing `path`.
pub(super) fn write_error(path: &Path, source: io::Error) -> crate::LabError {
    crate::LabError::Write { path: path.to_owned(), source }
}
