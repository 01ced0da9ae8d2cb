//! Observation of the file with a program's parameters: a program that has not opened it cannot depend on values that
//! change no argument.

use std::{io, mem::MaybeUninit, os::fd::OwnedFd, path::Path};

use fs_err as fs;
use rustix::{fs::inotify, io::Errno};

use crate::store::CONTRACT;

/// A watch of the file. The kernel reports every process on this machine that opens the file, by any of its names.
pub(super) struct ParamsFile(OwnedFd);

impl ParamsFile {
    /// Begins to watch the file at `path`; returns `None` if the kernel cannot, or if files of an earlier attempt in
    /// `scratch` may contain its content.
    pub(super) fn watch(path: &Path, scratch: &Path) -> Option<Self> {
        let is_first = fs::read_dir(scratch).is_ok_and(|entries| {
            entries.into_iter().all(|entry| entry.is_ok_and(|entry| entry.file_name() == CONTRACT))
        });
        let start_watch = || -> io::Result<Self> {
            let inotify = inotify::init(inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC)?;
            inotify::add_watch(&inotify, path, inotify::WatchFlags::ALL_EVENTS)?;
            Ok(Self(inotify))
        };
        if is_first { start_watch().ok() } else { None }
    }

    /// True if nothing has happened to the file.
    pub(super) fn is_untouched(&self) -> bool {
        let mut buffer = [MaybeUninit::uninit(); 512];
        matches!(inotify::Reader::new(&self.0, &mut buffer).next(), Err(Errno::WOULDBLOCK))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_opens_the_file_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join(CONTRACT)).unwrap();
        let path = folder.path().join(CONTRACT).join("params.json");
        fs::write(&path, "{}").unwrap();
        let watch = || ParamsFile::watch(&path, folder.path());
        let quiet = watch().unwrap();
        assert!(quiet.is_untouched());
        fs::read(&path).unwrap();
        assert!(!quiet.is_untouched());
        let other = folder.path().join(CONTRACT).join("other");
        fs::hard_link(&path, &other).unwrap();
        let second_watch = watch().unwrap();
        fs::read(&other).unwrap();
        assert!(!second_watch.is_untouched(), "under another name, too");
        fs::write(folder.path().join("checkpoint"), "").unwrap();
        assert!(watch().is_none(), "an earlier attempt may have read it");
    }
}
