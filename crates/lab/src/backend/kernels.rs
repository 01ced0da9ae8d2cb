//! Kernels that earlier jobs compiled for the same GPU.
//!
//! A kernel takes CUDA's compiler up to seconds, and a network has hundreds. The kernel library can append compiled kernels
//! to a file, but reads a torn file as other kernels, and panics where it cannot write. So a process appends to a copy of its
//! own, and renames it over the shared file after each job that ended well: neither a kill nor a full disk nor a second
//! process damages the shared file.

use std::{
    env, io,
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, SystemTime},
};

use blake3::Hasher;
use fs_err as fs;

/// The file of compiled kernels in a cache folder of the kernel library 0.10.
const KERNEL_FILE: &str = "cuda/0.10.0/ptx/chunk0.cbor";

/// Folders that no job has changed for this time belong to programs and drivers that are gone.
const UNUSED_TIME: Duration = Duration::from_secs(30 * 24 * 3600);

const MAX_BYTES: u64 = 1 << 30;

/// The shared file of compiled kernels, and the folder of this process with its copy.
#[derive(Debug)]
pub(super) struct CompiledKernels {
    shared: PathBuf,
    folder: PathBuf,
    /// Bytes that the shared file has at least.
    published: AtomicU64,
}

impl CompiledKernels {
    /// Copies the kernels that `identity` has in `cache` to `folder`. The identity covers everything that a kernel's code
    /// depends on, because the kernel library compares only types and settings.
    ///
    /// # Errors
    ///
    /// If a folder cannot be written.
    pub(super) fn open(cache: &Path, identity: &[&[u8]], folder: PathBuf) -> io::Result<Self> {
        let mut hasher = Hasher::new();
        for part in identity {
            hasher.update(&(part.len() as u64).to_le_bytes()).update(part);
        }
        let digest = hasher.finalize().to_hex();
        remove_unused(cache);
        let shared = cache.join(format!("compiled-{}", &digest[..16]));
        fs::create_dir_all(&shared)?;
        let shared = shared.join("kernels.cbor");
        let own = folder.join(KERNEL_FILE);
        if let Some(parent) = own.parent() {
            fs::create_dir_all(parent)?;
        }
        let published = match fs::copy(&shared, &own) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            Err(error) => return Err(error),
        };
        Ok(Self { shared, folder, published: AtomicU64::new(published) })
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Replaces the shared file if this process has compiled further kernels. The kernels are only a saving of time, so a
    /// failure is no failure of the job.
    pub(super) fn publish(&self) {
        let own = self.folder.join(KERNEL_FILE);
        let Ok(bytes) = fs::metadata(&own).map(|file| file.len()) else { return };
        if bytes <= self.published.load(Ordering::Relaxed) || bytes > MAX_BYTES {
            return;
        }
        let copy = self.shared.with_extension(process::id().to_string());
        match fs::copy(&own, &copy).and_then(|_| fs::rename(&copy, &self.shared)) {
            Ok(()) => self.published.store(bytes, Ordering::Relaxed),
            Err(_) => drop(fs::remove_file(&copy)),
        }
    }
}

/// Removes compiled kernels, and folders of processes, that have been unused for [`UNUSED_TIME`].
fn remove_unused(cache: &Path) {
    for (folder, prefix) in [(cache, "compiled-"), (&env::temp_dir(), super::PROCESS_FOLDER)] {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let is_unused = entry
                .metadata()
                .and_then(|entry| entry.modified())
                .is_ok_and(|time| SystemTime::now().duration_since(time).is_ok_and(|age| age > UNUSED_TIME));
            if is_unused && entry.file_name().to_string_lossy().starts_with(prefix) {
                // Another process may remove it at the same time.
                fs::remove_dir_all(entry.path()).ok();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compiles a kernel of `text` as the kernel library does.
    fn append(kernels: &CompiledKernels, text: &str) {
        let path = kernels.folder().join(KERNEL_FILE);
        let before = fs::read_to_string(&path).unwrap_or_default();
        fs::write(path, before + text).unwrap();
    }

    #[test]
    fn a_later_process_starts_with_published_kernels_of_its_identity_only() {
        let cache = tempfile::tempdir().unwrap();
        let open = |identity: &str, name: &str| {
            CompiledKernels::open(cache.path(), &[identity.as_bytes(), b"H100"], cache.path().join(name)).unwrap()
        };
        let first = open("program", "first");
        append(&first, "a");
        // A process that is killed publishes nothing.
        assert!(!open("program", "second").folder().join(KERNEL_FILE).exists());
        first.publish();
        append(&first, "b");
        first.publish();
        let third = open("program", "third");
        assert_eq!(fs::read_to_string(third.folder().join(KERNEL_FILE)).unwrap(), "ab");
        // A process that knows fewer kernels replaces nothing.
        third.publish();
        assert!(!open("another program", "fourth").folder().join(KERNEL_FILE).exists());
        let files: Vec<_> = fs::read_dir(first.shared.parent().unwrap()).unwrap().collect();
        assert_eq!(files.len(), 1, "no copy is left: {files:?}");
    }

    #[test]
    fn parts_of_an_identity_do_not_run_together() {
        let cache = tempfile::tempdir().unwrap();
        let shared = |identity: &[&[u8]]| {
            CompiledKernels::open(cache.path(), identity, cache.path().join("own")).unwrap().shared
        };
        assert_ne!(shared(&[b"ab", b"c"]), shared(&[b"a", b"bc"]));
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_an_error() {
        let cache = tempfile::tempdir().unwrap();
        let file = cache.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(CompiledKernels::open(&file, &[b"x"], cache.path().join("own")).is_err());
    }
}
