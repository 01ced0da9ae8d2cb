//! Files and folders by content.

use std::{
    collections::BTreeSet,
    io::{self, Write as _},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use fs_err as fs;

use super::uploads::Upload;
use crate::{
    host,
    hosts::{Content, Entry, Fault, FaultKind, LISTS, Tree, is_digest},
    plan::{Digests, Made},
};

/// Prefix of the names of incomplete files and folders.
pub(super) const TEMPORARY: &str = ".tmp";
/// The file with the digests of files that were read.
const DIGESTS: &str = "digests.json";

/// The folders with files and trees.
#[derive(Debug, Clone)]
pub(super) struct Depot {
    blobs: PathBuf,
    trees: PathBuf,
    /// The entries of each tree, with which its content is compared.
    lists: PathBuf,
}

impl Depot {
    /// Opens the depot of a working folder.
    pub(super) fn open(workdir: &Path) -> io::Result<Self> {
        let depot = Self { blobs: workdir.join("blobs"), trees: workdir.join("trees"), lists: workdir.join(LISTS) };
        for folder in [&depot.blobs, &depot.trees, &depot.lists] {
            fs::create_dir_all(folder)?;
        }
        Ok(depot)
    }

    /// The folder of a tree.
    pub(super) fn tree(&self, digest: &str) -> PathBuf {
        self.trees.join(digest)
    }

    pub(super) fn has_blob(&self, digest: &str) -> bool {
        is_digest(digest) && self.blobs.join(digest).is_file()
    }

    pub(super) fn has_tree(&self, digest: &str) -> bool {
        // A tree without its list counts as absent: it is sent again, and then checked.
        is_digest(digest) && self.tree(digest).is_dir() && self.lists.join(digest).is_file()
    }

    /// Begins the upload of a file.
    pub(super) fn blob(&self, digest: &str) -> Upload {
        if !is_digest(digest) {
            return Upload::Broken(Fault::new(FaultKind::Other, "a file has no digest"));
        }
        self.archive()
    }

    /// Begins the upload of an archive.
    pub(super) fn archive(&self) -> Upload {
        Upload::to_file(tempfile::Builder::new().prefix(TEMPORARY).tempfile_in(&self.blobs))
    }

    /// Keeps a file that has arrived.
    pub(super) fn put(&self, digest: &str, upload: Upload) -> Result<(), Fault> {
        let (file, actual_digest) = upload.whole()?;
        if actual_digest != digest {
            return Err(Fault::new(FaultKind::Missing, "the file with the digest that was named"));
        }
        host::failpoints::point("hosts: before a file is kept")?;
        file.persist(self.blobs.join(digest)).map_err(|error| error.error)?;
        Ok(())
    }

    /// Creates a folder from files that have arrived. It contains copies of the files, because programs may write to
    /// their folders.
    pub(super) fn build(&self, tree: &Tree, digest: &str) -> Result<(), Fault> {
        /// Distinguishes the folders of this process.
        static NUMBER: AtomicU64 = AtomicU64::new(0);

        if tree.digest() != digest {
            return Err(Fault::new(FaultKind::Other, "the digest of a folder is not that of its entries"));
        }
        if let Some(defect) = tree.defect() {
            return Err(Fault::new(FaultKind::Other, format!("`{defect}` cannot be in a folder by content")));
        }
        let mut list = tempfile::Builder::new().prefix(TEMPORARY).tempfile_in(&self.lists)?;
        list.write_all(&serde_json::to_vec(tree).map_err(io::Error::from)?)?;
        list.persist(self.lists.join(digest)).map_err(|error| error.error)?;
        let place = self.tree(digest);
        if place.is_dir() {
            return self.mend(digest);
        }
        let number = NUMBER.fetch_add(1, Ordering::SeqCst);
        let temporary = self.trees.join(format!("{TEMPORARY}-{}-{number}", std::process::id()));
        let result = self.fill(tree, &temporary).and_then(|()| {
            host::failpoints::point("hosts: before a tree is kept")?;
            match fs::rename(&temporary, &place) {
                // Another server was faster.
                Err(_) if place.is_dir() => Ok(fs::remove_dir_all(&temporary)?),
                outcome => Ok(outcome?),
            }
        });
        if result.is_err() {
            let _ = fs::remove_dir_all(&temporary);
        }
        result
    }

    /// Restores the files of a tree that are damaged or missing: a program or a disk failure may have changed them.
    pub(super) fn mend(&self, digest: &str) -> Result<(), Fault> {
        if !is_digest(digest) {
            return Err(Fault::new(FaultKind::Other, "a folder has no digest"));
        }
        let list = self.lists.join(digest);
        let tree = fs::read(&list).ok().and_then(|text| serde_json::from_slice::<Tree>(&text).ok());
        let Some(tree) = tree.filter(|tree| tree.digest() == digest) else {
            // Then it is sent again.
            remove_if_there(&list)?;
            return Err(Fault::new(FaultKind::Missing, "the list of a folder"));
        };
        let place = self.tree(digest);
        let mut digests = Digests::open(self.lists.join(DIGESTS));
        let result = tree.entries.iter().try_for_each(|entry| {
            if is_whole(&place, entry, &mut digests) { Ok(()) } else { self.mend_one(&place, entry) }
        });
        digests.keep();
        if matches!(&result, Err(fault) if fault.kind == FaultKind::Missing) {
            remove_if_there(&list)?;
        }
        result
    }

    /// Makes an entry of a tree again, beside the jobs that use the tree.
    fn mend_one(&self, place: &Path, entry: &Entry) -> Result<(), Fault> {
        let path = place.join(&entry.path);
        clear_the_way(place, Path::new(&entry.path))?;
        let is_folder = fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_dir());
        if is_folder && !matches!(entry.content, Content::Folder) {
            fs::remove_dir_all(&path)?;
        }
        let temporary = tempfile::Builder::new().prefix(TEMPORARY).tempdir_in(&self.trees)?;
        let new_path = temporary.path().join("made");
        match &entry.content {
            Content::File { blob, executable } => self.copy(blob, &new_path, *executable, &entry.path)?,
            Content::Link(target) => fs::os::unix::fs::symlink(target, &new_path)?,
            Content::Folder => {
                if !is_folder {
                    remove_if_there(&path)?;
                    fs::create_dir_all(&path)?;
                }
                return Ok(());
            }
        }
        Ok(fs::rename(&new_path, &path)?)
    }

    /// Removes the entries of a tree that were neither sent nor created by a job. No job may run in it.
    pub(super) fn tidy(&self, digest: &str, made: &Made) -> io::Result<()> {
        let text = fs::read(self.lists.join(digest))?;
        let tree: Tree = serde_json::from_slice(&text)?;
        let mut known_paths = BTreeSet::new();
        for entry in &tree.entries {
            known_paths.extend(Path::new(&entry.path).ancestors().map(Path::to_owned));
        }
        let place = self.tree(digest);
        tidy(&place, Path::new(""), &known_paths, made)
    }

    fn fill(&self, tree: &Tree, root: &Path) -> Result<(), Fault> {
        fs::create_dir_all(root)?;
        for entry in &tree.entries {
            let path = root.join(&entry.path);
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent)?;
            }
            match &entry.content {
                Content::File { blob, executable } => {
                    host::failpoints::point("hosts: before a file of a tree")?;
                    self.copy(blob, &path, *executable, &entry.path)?;
                }
                Content::Folder => fs::create_dir_all(&path)?,
                // Last, so that nothing is written through one.
                Content::Link(_) => {}
            }
        }
        for entry in &tree.entries {
            if let Content::Link(target) = &entry.content {
                fs::os::unix::fs::symlink(target, root.join(&entry.path))?;
            }
        }
        let folder = fs::File::open(root)?.into_file();
        // All at once, before the folder has its name.
        #[cfg(target_os = "linux")]
        rustix::fs::syncfs(&folder).map_err(io::Error::from)?;
        drop(folder);
        Ok(())
    }

    fn copy(&self, blob: &str, target: &Path, executable: bool, name: &str) -> Result<(), Fault> {
        let source = self.blobs.join(blob);
        let missing_file = || Fault::new(FaultKind::Missing, format!("the file `{name}`"));
        let mut hasher = blake3::Hasher::new();
        match fs::File::open(&source) {
            Ok(file) => drop(hasher.update_reader(file)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(missing_file()),
            Err(error) => return Err(error.into()),
        }
        if hasher.finalize().to_hex().as_str() != blob {
            // Torn by a crash: blobs are not synced.
            fs::remove_file(&source)?;
            return Err(missing_file());
        }
        fs::copy(&source, target)?;
        let mode = if executable { 0o700 } else { 0o600 };
        fs::set_permissions(target, std::fs::Permissions::from_mode(mode))?;
        Ok(())
    }
}

/// Returns true if an entry of a tree exists as it was sent.
fn is_whole(place: &Path, entry: &Entry, digests: &mut Digests) -> bool {
    let inner = Path::new(&entry.path);
    let is_folder = |path: &Path| fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir());
    let has_folders = inner.ancestors().skip(1).all(|folder| is_folder(&place.join(folder)));
    let path = place.join(inner);
    has_folders
        && match &entry.content {
            Content::File { blob, executable } => fs::symlink_metadata(&path).is_ok_and(|metadata| {
                let is_executable = metadata.permissions().mode() & 0o100 != 0;
                metadata.is_file()
                    && is_executable == *executable
                    && digests.of_artifact(&path).is_ok_and(|digest| digest == *blob)
            }),
            Content::Link(target) => fs::read_link(&path).is_ok_and(|link| link == Path::new(target)),
            Content::Folder => is_folder(&path),
        }
}

/// Makes the folders around an entry, where there is something else in their place.
fn clear_the_way(place: &Path, inner: &Path) -> io::Result<()> {
    let mut folders: Vec<&Path> = inner.ancestors().skip(1).collect();
    folders.reverse();
    for folder in folders {
        let path = place.join(folder);
        if !fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_dir()) {
            remove_if_there(&path)?;
            fs::create_dir(&path)?;
        }
    }
    Ok(())
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Removes the entries of a folder that are neither known nor created by a job.
fn tidy(place: &Path, inner: &Path, known_paths: &BTreeSet<PathBuf>, made: &Made) -> io::Result<()> {
    for entry in fs::read_dir(place.join(inner))? {
        let entry = entry?;
        let (path, inner) = (entry.path(), inner.join(entry.file_name()));
        let is_known = known_paths.contains(&inner);
        if entry.file_type()?.is_dir() {
            tidy(place, &inner, known_paths, made)?;
            if !is_known {
                // A folder that still contains files of a job is not empty, so it stays.
                let _ = std::fs::remove_dir(path);
            }
        } else if !is_known && !made.has(&path) {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}
