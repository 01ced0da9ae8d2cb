//! Limits of a bundle, which comes from an untrusted source.

use std::path::{Component, Path, PathBuf};

use sweep_job::Unit;

use super::BundleError;
use crate::format::quantity;

/// Files.
const MAX_FILES: usize = 1_000_000;
/// Bytes of all files.
const MAX_BYTES: u64 = 8 << 30;
/// Bytes of a record, and of every other file.
const MAX_RECORD_BYTES: u64 = 64 << 20;
pub(super) const MAX_FILE_BYTES: u64 = 512 << 20;
/// Bytes of memory that the recipe may mean beside [`FACTOR`] times the bundle's size: an honest bundle lists all jobs.
const BASE: u64 = 64 << 20;
const FACTOR: u64 = 64;

/// Folders above the recipes: a path has at most 4096 bytes.
const MAX_ABOVE: usize = 2048;

/// Amount read so far.
#[derive(Debug, Default)]
pub(super) struct Read {
    pub(super) files: usize,
    pub(super) bytes: u64,
}

impl Read {
    /// Counts a file, before anything of it is read.
    pub(super) fn add(&mut self, name: &Path, bytes: u64) -> Result<(), BundleError> {
        let is_record = name.starts_with("records");
        let limit = if is_record { MAX_RECORD_BYTES } else { MAX_FILE_BYTES };
        let kind = if is_record { "a record" } else { "a file" };
        let size = |bytes: u64| quantity(bytes as f64, Unit::Bytes);
        if bytes > limit {
            let statement = format!("`{}` has {}", name.display(), size(bytes));
            return Err(BundleError::TooLarge(format!("{statement}; {kind} may have at most {}", size(limit))));
        }
        self.files += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        if self.files > MAX_FILES {
            return Err(BundleError::TooLarge(format!("it has more than {MAX_FILES} files")));
        }
        if self.bytes > MAX_BYTES {
            return Err(BundleError::TooLarge(format!("its files have more than {}", size(MAX_BYTES))));
        }
        Ok(())
    }
}

/// Refuses recipes outside of the folder of the bundle's sources, and folders above them that no path can have. `paths` begin in a
/// folder that is `above` folders below that one.
pub(super) fn stay_inside(paths: &[PathBuf], above: usize) -> Result<(), BundleError> {
    if above > MAX_ABOVE {
        let limit = format!("it has {above} folders above its recipes; at most {MAX_ABOVE} are allowed");
        return Err(BundleError::TooLarge(limit));
    }
    for path in paths {
        let mut depth = above;
        for part in path.components() {
            depth = match part {
                Component::Normal(_) => Some(depth + 1),
                Component::CurDir => Some(depth),
                Component::ParentDir => depth.checked_sub(1),
                Component::RootDir | Component::Prefix(_) => None,
            }
            .ok_or_else(|| BundleError::Foreign(format!("its recipe `{}` is outside of it", path.display())))?;
        }
    }
    Ok(())
}

/// Limit on the memory of the planned jobs of a bundle of this size.
pub(super) fn meant(bytes: u64) -> u64 {
    BASE.saturating_add(bytes.saturating_mul(FACTOR))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_large_says_what_is_allowed() {
        let error = |name: &str, bytes| Read::default().add(Path::new(name), bytes).unwrap_err().to_string();
        assert!(error("records/x.json", MAX_RECORD_BYTES + 1).contains("a record may have"));
        assert!(error("sources/x.yaml", MAX_FILE_BYTES + 1).contains("a file may have"));
        let mut totals = Read { files: MAX_FILES, bytes: 0 };
        assert!(totals.add(Path::new("x"), 1).unwrap_err().to_string().contains("1000000 files"));
        let mut totals = Read { files: 0, bytes: MAX_BYTES };
        assert!(totals.add(Path::new("x"), 1).unwrap_err().to_string().contains("its files have more than"));
        Read::default().add(Path::new("records/x.json"), MAX_RECORD_BYTES).unwrap();
    }

    #[test]
    fn recipes_are_in_the_bundle() {
        let check = |path: &str, above| stay_inside(&[PathBuf::from(path)], above).map_err(|error| error.to_string());
        for (path, above) in [("a.yaml", 0), ("./a/../b.yaml", 0), ("../a.yaml", 1)] {
            assert_eq!(check(path, above), Ok(()), "{path}");
        }
        for (path, above) in [("/etc/passwd", 0), ("../a.yaml", 0), ("a/../../b.yaml", 0), ("../../a/b", 1)] {
            assert!(
                check(path, above).unwrap_err().contains(&format!("its recipe `{path}` is outside of it")),
                "{path}"
            );
        }
        assert!(check("a.yaml", usize::MAX).unwrap_err().contains("at most 2048 are allowed"));
    }
}
