//! Bodies of requests as they arrive: short ones in memory, long ones in files.

use std::io::{Seek as _, Write as _};

use crate::{
    host,
    hosts::{Fault, FaultKind},
};

/// Longest body that is kept in memory, in bytes.
const MAX_BODY_BYTES: usize = 1 << 28;

/// A body that is being uploaded.
#[derive(Debug)]
pub(super) enum Upload {
    /// In memory.
    Memory(Vec<u8>),
    /// In a file without a name at its final place, with the digest of the bytes that have arrived.
    File(tempfile::NamedTempFile, Box<blake3::Hasher>),
    /// The body cannot be kept; the rest is read and dropped, so that the connection stays usable.
    Broken(Fault),
}

impl Upload {
    /// Begins an upload that is kept in memory.
    pub(super) fn memory() -> Self {
        Self::Memory(Vec::new())
    }

    /// Begins an upload that is kept in `file`.
    pub(super) fn to_file(file: std::io::Result<tempfile::NamedTempFile>) -> Self {
        match file {
            Ok(file) => Self::File(file, Box::default()),
            Err(error) => Self::Broken(error.into()),
        }
    }

    /// Adds a part.
    pub(super) fn add(&mut self, part: &[u8]) {
        let result = match self {
            Self::Memory(bytes) if bytes.len() + part.len() <= MAX_BODY_BYTES => {
                bytes.extend_from_slice(part);
                Ok(())
            }
            Self::Memory(_) => {
                Err(Fault::new(FaultKind::Other, format!("a request is longer than {MAX_BODY_BYTES} bytes")))
            }
            Self::File(file, hasher) => {
                hasher.update(part);
                let write_result = host::failpoints::point("hosts: before a part").and_then(|()| file.write_all(part));
                write_result.map_err(Fault::from)
            }
            Self::Broken(_) => return,
        };
        if let Err(fault) = result {
            *self = Self::Broken(fault);
        }
    }

    /// The body, if it was kept in memory.
    pub(super) fn bytes(self) -> Result<Vec<u8>, Fault> {
        match self {
            Self::Memory(bytes) => Ok(bytes),
            Self::File(..) => Err(Fault::new(FaultKind::Other, "it was not kept in memory")),
            Self::Broken(fault) => Err(fault),
        }
    }

    /// The file, to be read from its beginning.
    pub(super) fn file(self) -> Result<std::fs::File, Fault> {
        let (file, _) = self.whole()?;
        let mut file = file.into_file();
        file.rewind()?;
        Ok(file)
    }

    /// The file and the digest of its content.
    pub(super) fn whole(self) -> Result<(tempfile::NamedTempFile, String), Fault> {
        match self {
            Self::File(mut file, hasher) => {
                file.flush()?;
                Ok((file, hasher.finalize().to_hex().to_string()))
            }
            Self::Memory(_) => Err(Fault::new(FaultKind::Other, "it was not kept in a file")),
            Self::Broken(fault) => Err(fault),
        }
    }
}
