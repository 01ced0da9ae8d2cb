//! Files and folders by content.

use std::{
    io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use fs_err as fs;

use super::uploads::Upload;
use crate::{
    host,
    hosts::{Content, Fault, FaultKind, Tree, is_digest},
};

/// Names of what is not whole begin so.
pub(super) const TEMPORARY: &str = ".tmp";

/// The folders with files and trees.
#[derive(Debug, Clone)]
pub(super) struct Depot {
    blobs: PathBuf,
    trees: PathBuf,
}

impl Depot {
    /// Opens the depot of a working folder.
    pub(super) fn open(workdir: &Path) -> io::Result<Self> {
        let depot = Self { blobs: workdir.join("blobs"), trees: workdir.join("trees") };
        fs::create_dir_all(&depot.blobs)?;
        fs::create_dir_all(&depot.trees)?;
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
        is_digest(digest) && self.tree(digest).is_dir()
    }

    /// A file that is on its way.
    pub(super) fn blob(&self, digest: &str) -> Upload {
        if !is_digest(digest) {
            return Upload::Broken(Fault::new(FaultKind::Other, "a file has no digest"));
        }
        self.archive()
    }

    /// An archive that is on its way.
    pub(super) fn archive(&self) -> Upload {
        Upload::to_file(tempfile::Builder::new().prefix(TEMPORARY).tempfile_in(&self.blobs))
    }

    /// Keeps a file that has arrived.
    pub(super) fn put(&self, digest: &str, upload: Upload) -> Result<(), Fault> {
        let (file, found) = upload.whole()?;
        if found != digest {
            return Err(Fault::new(FaultKind::Missing, "the file with the digest that was named"));
        }
        host::failpoints::point("hosts: before a file is kept")?;
        file.persist(self.blobs.join(digest)).map_err(|error| error.error)?;
        Ok(())
    }

    /// Makes a folder of files that have arrived. A copy is made of each, because programs may write to their folders.
    pub(super) fn build(&self, tree: &Tree, digest: &str) -> Result<(), Fault> {
        /// Distinguishes the folders of this process.
        static NUMBER: AtomicU64 = AtomicU64::new(0);

        if tree.digest() != digest {
            return Err(Fault::new(FaultKind::Other, "the digest of a folder is not that of its entries"));
        }
        if let Some(defect) = tree.defect() {
            return Err(Fault::new(FaultKind::Other, format!("`{defect}` cannot be in a folder by content")));
        }
        let place = self.tree(digest);
        if place.is_dir() {
            return Ok(());
        }
        let number = NUMBER.fetch_add(1, Ordering::SeqCst);
        let aside = self.trees.join(format!("{TEMPORARY}-{}-{number}", std::process::id()));
        let built = self.fill(tree, &aside).and_then(|()| {
            host::failpoints::point("hosts: before a tree is kept")?;
            match fs::rename(&aside, &place) {
                // Another server was faster.
                Err(_) if place.is_dir() => Ok(fs::remove_dir_all(&aside)?),
                renamed => Ok(renamed?),
            }
        });
        if built.is_err() {
            let _ = fs::remove_dir_all(&aside);
        }
        built
    }

    fn fill(&self, tree: &Tree, aside: &Path) -> Result<(), Fault> {
        fs::create_dir_all(aside)?;
        for entry in &tree.entries {
            let path = aside.join(&entry.path);
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
            if let Content::Link(to) = &entry.content {
                fs::os::unix::fs::symlink(to, aside.join(&entry.path))?;
            }
        }
        let folder = fs::File::open(aside)?.into_file();
        // All at once, before the folder has its name.
        #[cfg(target_os = "linux")]
        rustix::fs::syncfs(&folder).map_err(io::Error::from)?;
        drop(folder);
        Ok(())
    }

    fn copy(&self, blob: &str, to: &Path, executable: bool, name: &str) -> Result<(), Fault> {
        let from = self.blobs.join(blob);
        let missing = || Fault::new(FaultKind::Missing, format!("the file `{name}`"));
        let mut hasher = blake3::Hasher::new();
        match fs::File::open(&from) {
            Ok(file) => drop(hasher.update_reader(file)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(missing()),
            Err(error) => return Err(error.into()),
        }
        if hasher.finalize().to_hex().as_str() != blob {
            // Torn by a crash: blobs are not synced.
            fs::remove_file(&from)?;
            return Err(missing());
        }
        fs::copy(&from, to)?;
        let mode = if executable { 0o700 } else { 0o600 };
        fs::set_permissions(to, std::fs::Permissions::from_mode(mode))?;
        Ok(())
    }
}
