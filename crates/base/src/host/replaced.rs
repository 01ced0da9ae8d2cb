//! Files that are replaced atomically: readers see either the old or the new content, even if the writer is killed. A
//! killed writer may leave its temporary file beside the file.

use std::{
    fs::File,
    io::{self, BufWriter, Write},
    os::unix::fs::PermissionsExt,
    path::Path,
};

/// Users that can read a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readers {
    /// Only its owner.
    Owner,
    /// All users that can enter its folder.
    All,
}

/// Failure after which the file is whole, with its old or new content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outlives {
    /// A crash of the process.
    Process,
    /// A crash of the machine: the content is synced to disk before the rename. The folder is not synced.
    Machine,
}

/// Replaces the file at `path` by one with `content`. The folder must exist.
pub fn replace(path: &Path, content: &[u8], readers: Readers, outlives: Outlives) -> io::Result<()> {
    replace_with(path, readers, outlives, |file| file.write_all(content))
}

/// Replaces the file at `path` like [`replace`], with content that `write` writes. If `write` fails, the file keeps its
/// old content.
pub fn replace_with<T, E: From<io::Error>>(
    path: &Path,
    readers: Readers,
    outlives: Outlives,
    write: impl FnOnce(&mut BufWriter<&mut File>) -> Result<T, E>,
) -> Result<T, E> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    let mut temporary = tempfile::NamedTempFile::new_in(folder)?;
    let mut writer = BufWriter::new(temporary.as_file_mut());
    let value = write(&mut writer)?;
    writer.flush()?;
    drop(writer);
    if readers == Readers::All {
        // Temporary files have mode 0600.
        temporary.as_file().set_permissions(PermissionsExt::from_mode(0o644))?;
    }
    if outlives == Outlives::Machine {
        temporary.as_file().sync_all()?;
    }
    temporary.persist(path).map_err(|error| error.error)?;
    Ok(value)
}

#[cfg(test)]
mod tests {
    use fs_err as fs;

    use super::*;

    #[test]
    fn a_file_is_replaced_whole_or_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("inner/file");
        assert!(replace(&path, b"one", Readers::All, Outlives::Machine).is_err(), "no folder is made");
        fs::create_dir(folder.path().join("inner")).unwrap();
        let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        replace(&path, b"one", Readers::All, Outlives::Machine).unwrap();
        assert_eq!((fs::read(&path).unwrap().as_slice(), mode()), (&b"one"[..], 0o644));
        replace(&path, b"two", Readers::Owner, Outlives::Process).unwrap();
        assert_eq!((fs::read(&path).unwrap().as_slice(), mode()), (&b"two"[..], 0o600));
        let result = replace_with(&path, Readers::All, Outlives::Process, |file| {
            file.write_all(b"thr")?;
            Err::<(), _>(io::Error::other("no"))
        });
        assert!(result.is_err());
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::read_dir(folder.path().join("inner")).unwrap().count(), 1, "nothing is left beside it");
        let blocked_path = folder.path().join("inner/file/below");
        assert!(replace(&blocked_path, b"", Readers::All, Outlives::Process).is_err());
    }
}
