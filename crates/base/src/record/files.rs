//! Digests of a record's files, which detect later changes.

use std::{
    collections::BTreeMap,
    fmt, io,
    path::{Path, PathBuf},
};

use fs_err as fs;
use serde::{Deserialize, Serialize};

/// Type and digest of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Digest {
    /// A file.
    File {
        /// The file's length in bytes.
        bytes: u64,
        /// The file's BLAKE3 digest, in hexadecimal.
        blake3: String,
    },
    /// A symbolic link.
    Link {
        /// Target, as the link has it: an absolute path, or one relative to the folder of the link.
        to: PathBuf,
    },
}

impl Digest {
    /// The file's length in bytes; 0 for a link.
    pub fn bytes(&self) -> u64 {
        match self {
            Self::File { bytes, .. } => *bytes,
            Self::Link { .. } => 0,
        }
    }
}

/// The digests of the files and links below `folder`, by their relative paths, with `/`. Links are not followed, and
/// empty folders have no entry.
///
/// # Errors
///
/// An I/O error, a name that is not UTF-8, or an entry that is neither a file, a folder nor a link.
pub fn of_folder(folder: &Path) -> io::Result<BTreeMap<String, Digest>> {
    let mut digests = BTreeMap::new();
    walk(folder, "", &mut digests)?;
    Ok(digests)
}

fn walk(folder: &Path, prefix: &str, digests: &mut BTreeMap<String, Digest>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_str().ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, format!("the name of {} is not text", entry.path().display()))
        })?;
        let path = format!("{prefix}{name}");
        let kind = entry.file_type()?;
        if kind.is_dir() {
            walk(&entry.path(), &format!("{path}/"), digests)?;
        } else {
            digests.insert(path, of(&entry.path(), kind)?);
        }
    }
    Ok(())
}

fn of(path: &Path, kind: std::fs::FileType) -> io::Result<Digest> {
    if kind.is_symlink() {
        return Ok(Digest::Link { to: fs::read_link(path)? });
    }
    if !kind.is_file() {
        let message = format!("{} is neither a file nor a folder", path.display());
        return Err(io::Error::new(io::ErrorKind::InvalidData, message));
    }
    let mut hasher = blake3::Hasher::new();
    let bytes = io::copy(&mut fs::File::open(path)?, &mut hasher)?;
    Ok(Digest::File { bytes, blake3: hasher.finalize().to_hex().to_string() })
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { bytes, blake3 } => write!(f, "{bytes} B, {}", blake3.get(..12).unwrap_or(blake3)),
            Self::Link { to } => write!(f, "a link to {}", to.display()),
        }
    }
}
