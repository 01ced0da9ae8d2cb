//! Files of a process in the store while it runs jobs: a locked file to which the locks of its jobs are links, and folders
//! that its finished jobs do not need any more, for its next ones.
//!
//! Both save files. A journaling file system such as ext4 does not use the place of a deleted file again for minutes, and
//! searches past all such places whenever it creates one: ten temporary files for each job would soon cost more than the job.

use std::{
    collections::BTreeMap,
    fs::File,
    io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use fs_err as fs;

use super::{entries, lease::unique, lock::Lock, remove_if_there};
use crate::host;

/// Folder of `sweep` in a scratch folder.
pub(crate) const CONTRACT: &str = ".sweep";
/// File in it that a program reports to.
pub(crate) const REPORT: &str = "report.jsonl";
/// File in it with the parameters of a program.
pub(crate) const PARAMS: &str = "params.json";
/// Folder beside a job's own that Python's observer is in.
pub(crate) const TRACKING: &str = "tracking";
/// The observer.
pub(crate) const OBSERVER: &str = "sitecustomize.py";
/// The list that it writes.
pub(crate) const READS: &str = "reads";

/// Folder of the folders that are kept, in the store.
pub(super) const SPARE: &str = "spare";
/// Most folders of each kind that are kept.
const MOST: usize = 32;

/// Kinds of folders that jobs have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// That of its artifacts.
    Files,
    /// That of Python's observer.
    Tracking,
    /// The one that outlives its attempts.
    Scratch,
}

impl Kind {
    /// The folders and files that may be in a folder that is kept; the files are emptied. With anything else in it, it is
    /// removed.
    fn contents(self) -> (&'static [&'static str], &'static [&'static str]) {
        match self {
            Self::Files => (&[], &[]),
            Self::Tracking => (&[], &[OBSERVER, READS]),
            Self::Scratch => (&[CONTRACT], &[REPORT, PARAMS]),
        }
    }
}

/// Files of this process in a store, once it has claimed a job.
#[derive(Debug, Default)]
pub(super) struct Own(OnceLock<Option<Present>>);

/// Files of this process in a store that lets it have them.
#[derive(Debug)]
pub(super) struct Present {
    /// The locked file.
    file: Arc<File>,
    path: PathBuf,
    /// Folder of the folders that are kept.
    spare: PathBuf,
    /// Mode of a new folder, which the first one shows.
    mode: OnceLock<u32>,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    folders: BTreeMap<Kind, Vec<PathBuf>>,
    /// Number of folders so far, for their names.
    count: u64,
}

impl Own {
    /// Those in the store below `root`, which may not be shared among machines. `None` if they cannot be made.
    pub(super) fn at(&self, root: &Path) -> Option<&Present> {
        self.0.get_or_init(|| Present::begin(root).ok()).as_ref()
    }
}

impl Present {
    fn begin(root: &Path) -> io::Result<Self> {
        let locks = root.join("locks");
        fs::create_dir_all(&locks)?;
        let name = format!("process-{}", unique());
        let path = locks.join(&name);
        host::failpoints::point("own: before its lock")?;
        let file = File::options().create_new(true).append(true).open(&path)?;
        // Between the two, another process may remove it as one that a killed engine has left.
        file.try_lock().map_err(io::Error::from)?;
        if std::fs::metadata(&path)?.ino() != file.metadata()?.ino() {
            return Err(io::ErrorKind::NotFound.into());
        }
        let spares = root.join(SPARE);
        let spare = spares.join(&name);
        let present = Self { file: Arc::new(file), path, spare, mode: OnceLock::new(), kept: Mutex::default() };
        for other in entries(&spares)?.into_iter().filter(|other| *other != present.spare) {
            let name = other.file_name().and_then(|name| name.to_str());
            if name.is_none_or(|name| !Lock::is_held(&locks, name, false)) {
                remove_if_there(&other)?;
            }
        }
        Ok(present)
    }

    /// The locked file, and its path.
    pub(super) fn lock(&self) -> (&Arc<File>, &Path) {
        (&self.file, &self.path)
    }

    /// Puts a folder of this kind here that was kept; `false` if there is none.
    pub(super) fn take(&self, kind: Kind, to: &Path) -> bool {
        let kept = || self.kept.lock().unwrap_or_else(PoisonError::into_inner).folders.get_mut(&kind)?.pop();
        kept().is_some_and(|folder| std::fs::rename(folder, to).is_ok())
    }

    /// Keeps a folder that its job does not need any more, and empties its files. If there is anything else in it, it stays
    /// where it is.
    pub(super) fn keep(&self, kind: Kind, folder: &Path) -> io::Result<bool> {
        let Some(files) = self.files(kind, folder)? else { return Ok(false) };
        for (path, _) in files.into_iter().filter(|(_, length)| *length > 0) {
            host::failpoints::point("own: before a file is emptied")?;
            File::options().write(true).open(path)?.set_len(0)?;
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.folders.get(&kind).is_some_and(|folders| folders.len() >= MOST) {
            return Ok(false);
        }
        kept.count += 1;
        let to = self.spare.join(kept.count.to_string());
        host::failpoints::point("own: before a folder is kept")?;
        fs::rename(folder, &to)?;
        kept.folders.entry(kind).or_default().push(to);
        Ok(true)
    }

    /// True if no job has written to a folder.
    pub(super) fn is_unused(&self, kind: Kind, folder: &Path) -> io::Result<bool> {
        Ok(self.files(kind, folder)?.is_some_and(|files| files.iter().all(|(_, length)| *length == 0)))
    }

    /// Mode of a new folder; the one for those that are kept is made for this.
    fn mode(&self) -> io::Result<u32> {
        if let Some(mode) = self.mode.get() {
            return Ok(*mode);
        }
        host::failpoints::point("own: before its folder")?;
        fs::create_dir_all(&self.spare)?;
        let mode = fs::metadata(&self.spare)?.mode();
        Ok(*self.mode.get_or_init(|| mode))
    }

    /// The files of a folder with their lengths; `None` if there is anything that a folder of this kind does not have at its
    /// start, or a program has changed who may use it.
    fn files(&self, kind: Kind, folder: &Path) -> io::Result<Option<Vec<(PathBuf, u64)>>> {
        let (folders, names) = kind.contents();
        let (own, mode) = (fs::symlink_metadata(folder)?, self.mode()?);
        let mut open = if own.mode() == mode { vec![folder.to_owned()] } else { return Ok(None) };
        let mut files = Vec::new();
        while let Some(folder) = open.pop() {
            for path in entries(&folder)? {
                let metadata = fs::symlink_metadata(&path)?;
                let is = |names: &[&str]| path.file_name().is_some_and(|name| names.iter().any(|known| name == *known));
                let is_new = metadata.nlink() == 1 && metadata.mode() & 0o7777 == mode & 0o666;
                if metadata.is_dir() && is(folders) && metadata.mode() == mode {
                    open.push(path);
                } else if metadata.is_file() && is(names) && is_new {
                    files.push((path, metadata.len()));
                } else {
                    return Ok(None);
                }
            }
        }
        Ok(Some(files))
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        let _ = remove_if_there(&self.spare);
        if let Some(spares) = self.spare.parent() {
            // That of the last process goes, too.
            let _ = std::fs::remove_dir(spares);
        }
        let _ = std::fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn scratch(at: &Path) {
        fs::create_dir_all(at.join(CONTRACT)).unwrap();
        for name in [REPORT, PARAMS] {
            fs::write(at.join(CONTRACT).join(name), "said").unwrap();
        }
    }

    #[test]
    fn a_folder_is_kept_and_used_again_without_its_content() {
        let root = tempfile::tempdir().unwrap();
        let own = Own::default();
        let own = own.at(root.path()).unwrap();
        let (first, second) = (root.path().join("first"), root.path().join("second"));
        assert!(!own.take(Kind::Scratch, &second), "there is none yet");
        scratch(&first);
        let inode = fs::metadata(first.join(CONTRACT).join(REPORT)).unwrap().ino();
        assert!(!own.is_unused(Kind::Scratch, &first).unwrap(), "somebody has written to it");
        assert!(own.keep(Kind::Scratch, &first).unwrap() && !first.exists());
        assert!(!own.take(Kind::Tracking, &second) && own.take(Kind::Scratch, &second));
        let report = fs::metadata(second.join(CONTRACT).join(REPORT)).unwrap();
        assert_eq!((report.ino(), report.len()), (inode, 0));
        assert!(own.is_unused(Kind::Scratch, &second).unwrap());
    }

    #[test]
    fn what_a_program_has_left_or_changed_is_not_kept() {
        let root = tempfile::tempdir().unwrap();
        let own = Own::default();
        let own = own.at(root.path()).unwrap();
        let mode = |path: &Path, mode| fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        let changes: [&dyn Fn(&Path); 7] = [
            &|at| fs::write(at.join("checkpoint"), "").unwrap(),
            &|at| fs::write(at.join(CONTRACT).join("state.json"), "").unwrap(),
            &|at| fs::create_dir(at.join("folder")).unwrap(),
            &|at| mode(&at.join(CONTRACT).join(REPORT), 0o600),
            &|at| mode(at, 0o700),
            &|at| fs::hard_link(at.join(CONTRACT).join(REPORT), root.path().join("link")).unwrap(),
            &|at| {
                fs::remove_file(at.join(CONTRACT).join(PARAMS)).unwrap();
                std::os::unix::fs::symlink("/dev/null", at.join(CONTRACT).join(PARAMS)).unwrap();
            },
        ];
        for (index, change) in changes.iter().enumerate() {
            let at = root.path().join(index.to_string());
            scratch(&at);
            change(&at);
            assert!(!own.keep(Kind::Scratch, &at).unwrap(), "{index}");
            assert_eq!(fs::read_to_string(at.join(CONTRACT).join(REPORT)).unwrap(), "said", "{index}: left as it was");
        }
    }

    #[test]
    fn folders_go_with_their_process_and_those_of_a_killed_one_with_the_next() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join(SPARE).join("process-killed/1")).unwrap();
        let (first, second) = (Own::default(), Own::default());
        for (own, name) in [(&first, "a"), (&second, "b")] {
            let folder = root.path().join(name);
            fs::create_dir(&folder).unwrap();
            assert!(own.at(root.path()).unwrap().keep(Kind::Files, &folder).unwrap());
        }
        assert_eq!(entries(&root.path().join(SPARE)).unwrap().len(), 2, "those of the living");
        drop(first);
        assert_eq!(entries(&root.path().join(SPARE)).unwrap().len(), 1);
        drop(second);
        assert!(!root.path().join(SPARE).exists());
        assert_eq!(entries(&root.path().join("locks")).unwrap(), Vec::<PathBuf>::new());
    }
}
