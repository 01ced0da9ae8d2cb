//! What a bundle may be at most: it comes from somebody else, and is read with all that is in it.

use std::{io, path::Path};

use sweep_job::Unit;
use tar::{Archive, EntryType};

use super::{BundleError, CONTENTS};
use crate::ui::quantity;

/// Files.
const MOST_FILES: usize = 1_000_000;
/// Bytes of all files.
const MOST_BYTES: u64 = 8 << 30;
/// Bytes of a record, and of every other file.
const LARGEST_RECORD: u64 = 64 << 20;
const LARGEST_FILE: u64 = 512 << 20;
/// Bytes of the name of a file.
const LONGEST_NAME: u64 = 8 << 10;
/// Bytes of memory that the recipe may mean beside [`FACTOR`] times the bundle's size: an honest bundle lists all jobs.
const BASE: u64 = 64 << 20;
const FACTOR: u64 = 64;

/// What was read until now.
#[derive(Debug, Default)]
pub(super) struct Read {
    pub(super) files: usize,
    pub(super) bytes: u64,
}

impl Read {
    /// Counts a file, before anything of it is read.
    pub(super) fn add(&mut self, name: &Path, bytes: u64) -> Result<(), BundleError> {
        let is_record = name.starts_with("records");
        let largest = if is_record { LARGEST_RECORD } else { LARGEST_FILE };
        let what = if is_record { "a record" } else { "a file" };
        let size = |bytes: u64| quantity(bytes as f64, Unit::Bytes);
        if bytes > largest {
            let found = format!("`{}` has {}", name.display(), size(bytes));
            return Err(BundleError::TooLarge(format!("{found}; {what} may have {}", size(largest))));
        }
        self.files += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        if self.files > MOST_FILES {
            return Err(BundleError::TooLarge(format!("it may have {MOST_FILES} files, and has more")));
        }
        if self.bytes > MOST_BYTES {
            return Err(BundleError::TooLarge(format!("its files may have {}, and have more", size(MOST_BYTES))));
        }
        Ok(())
    }
}

/// How much memory the jobs may take that a bundle of this size means.
pub(super) fn meant(bytes: u64) -> u64 {
    BASE.saturating_add(bytes.saturating_mul(FACTOR))
}

/// Looks at the names that stand before files of their own, which are taken into memory whole.
pub(super) fn names(from: &mut (impl io::Read + io::Seek)) -> Result<(), BundleError> {
    let foreign = |error: io::Error| BundleError::Foreign(error.to_string());
    for entry in Archive::new(from).entries_with_seek().map_err(foreign)?.raw(true) {
        let entry = entry.map_err(foreign)?;
        let kind = entry.header().entry_type();
        let named = matches!(
            kind,
            EntryType::GNULongName | EntryType::GNULongLink | EntryType::XHeader | EntryType::XGlobalHeader
        );
        if named && entry.size() > LONGEST_NAME {
            let found = format!("a name in it has {} B", entry.size());
            return Err(BundleError::TooLarge(format!("{found}; one may have {LONGEST_NAME} B")));
        }
        if kind == EntryType::GNUSparse {
            return Err(BundleError::Foreign(format!(
                "it holds a file with holes; `{CONTENTS}` and the rest have none"
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_large_says_what_is_allowed() {
        let error = |name: &str, bytes| Read::default().add(Path::new(name), bytes).unwrap_err().to_string();
        assert!(error("records/x.json", LARGEST_RECORD + 1).contains("a record may have"));
        assert!(error("sources/x.yaml", LARGEST_FILE + 1).contains("a file may have"));
        let mut read = Read { files: MOST_FILES, bytes: 0 };
        assert!(read.add(Path::new("x"), 1).unwrap_err().to_string().contains("1000000 files"));
        let mut read = Read { files: 0, bytes: MOST_BYTES };
        assert!(read.add(Path::new("x"), 1).unwrap_err().to_string().contains("its files may have"));
        Read::default().add(Path::new("records/x.json"), LARGEST_RECORD).unwrap();
    }

    #[test]
    fn a_name_is_not_longer_than_names_are() {
        let archive = |bytes: u64| {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(EntryType::GNULongName);
            header.set_size(bytes);
            header.set_cksum();
            let mut archive = header.as_bytes().to_vec();
            archive.extend(std::iter::repeat_n(b'a', usize::try_from(bytes.next_multiple_of(512)).unwrap()));
            archive.extend([0; 1024]);
            io::Cursor::new(archive)
        };
        names(&mut archive(LONGEST_NAME)).unwrap();
        assert!(matches!(names(&mut archive(LONGEST_NAME + 1)), Err(BundleError::TooLarge(_))));
    }
}
