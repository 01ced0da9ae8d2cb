//! Input files as mapped memory, and files of tensors, without a second copy of all of them.

mod state;

use std::{
    borrow::Cow,
    cell::RefCell,
    collections::HashMap,
    io,
    path::{Path, PathBuf},
};

use burn::tensor::{Tensor, backend::Backend};
use memmap2::Mmap;
use safetensors::{Dtype, View};

pub use self::state::Snapshot;

use crate::{LabError, StateError, device::read::host};

/// The folders where a job writes. Both exist.
#[derive(Debug, Clone)]
pub struct Folders {
    /// For artifacts.
    pub files: PathBuf,
    /// The folder for files that a failed attempt leaves for the next one.
    pub scratch: PathBuf,
}

/// Maps the content of `path`; returns `None` for an empty file, which cannot be mapped.
#[expect(unsafe_code, reason = "a mapped file is memory that another process could change")]
pub(crate) fn map(path: &Path) -> io::Result<Option<Mmap>> {
    let file = fs_err::File::open(path)?;
    if file.metadata()?.len() == 0 {
        return Ok(None);
    }
    // SAFETY: the mapping is read-only and private to this process. Another process that truncates an input while a job
    // reads it would end the job with SIGBUS; inputs are hashed before the job starts and must not change during it.
    unsafe { Mmap::map(file.file()) }.map(Some)
}

/// A tensor to write: `[numbers]` in memory, with the shape `shape` in the file.
pub(crate) struct Stored<B: Backend> {
    pub(crate) name: String,
    pub(crate) shape: Vec<usize>,
    pub(crate) tensor: Tensor<B, 1>,
}

/// Writes `tensors` as 32-bit floats and `metadata` to the `safetensors` file `path`. They are read one after the other, so
/// that the host never holds a copy of more than one. With `finite`, a number that is not finite is an error.
///
/// On an error the file may be there in part.
pub(crate) fn write_tensors<B: Backend>(
    path: &Path,
    tensors: Vec<Stored<B>>,
    metadata: HashMap<String, String>,
    finite: bool,
) -> Result<(), LabError> {
    let failure = RefCell::new(None);
    let views = tensors.into_iter().map(|stored| {
        let name = stored.name.clone();
        (name, Lazy { stored, finite, failed: &failure })
    });
    let result = safetensors::serialize_to_file(views, Some(metadata), path);
    if let Some(error) = failure.into_inner() {
        return Err(error);
    }
    result.map_err(|error| LabError::Write { path: path.to_owned(), source: io::Error::other(error) })
}

/// A tensor that is read when its turn has come.
struct Lazy<'a, B: Backend> {
    stored: Stored<B>,
    finite: bool,
    /// The first failure to read one: the format's writer has no place for it.
    failed: &'a RefCell<Option<LabError>>,
}

impl<B: Backend> Lazy<'_, B> {
    fn bytes(&self) -> Result<Vec<u8>, LabError> {
        let numbers = host(self.stored.tensor.clone())?;
        if self.finite && numbers.iter().any(|number| !number.is_finite()) {
            return Err(StateError::NotFinite { name: self.stored.name.clone() }.into());
        }
        Ok(numbers.into_iter().flat_map(f32::to_le_bytes).collect())
    }
}

impl<B: Backend> View for Lazy<'_, B> {
    fn dtype(&self) -> Dtype {
        Dtype::F32
    }

    fn shape(&self) -> &[usize] {
        &self.stored.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        if self.failed.borrow().is_some() {
            return Cow::Borrowed(&[]);
        }
        Cow::Owned(self.bytes().unwrap_or_else(|error| {
            self.failed.borrow_mut().get_or_insert(error);
            Vec::new()
        }))
    }

    fn data_len(&self) -> usize {
        size_of::<f32>() * self.stored.shape.iter().product::<usize>()
    }
}
