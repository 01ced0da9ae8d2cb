//! Changes to a project's files before they are kept as a layer.

use std::{
    collections::BTreeMap,
    io,
    os::unix::{
        ffi::OsStrExt as _,
        fs::{PermissionsExt as _, symlink},
    },
    path::{Path, PathBuf},
};

use fs_err as fs;
use sweep_observer::{Layer, PASSED_OVER};

use super::VariantError;

/// The file of a layer's folder with its differences from the project, for people.
pub(super) const DIFFERENCES: &str = "changes.patch";
/// Largest file whose differences are written out, in bytes.
const MAX_COMPARED: usize = 1 << 20;
/// Permissions of an ordinary file, and of an executable file.
const PERMISSIONS: [u32; 2] = [0o644, 0o755];

/// The state of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Content {
    File { bytes: Vec<u8>, is_executable: bool },
    Link(PathBuf),
    Gone,
}

/// Changes to a project's files.
#[derive(Debug)]
pub(super) struct Draft {
    project: PathBuf,
    /// By paths in the project.
    changes: BTreeMap<PathBuf, Content>,
}

impl Content {
    /// The content of a file or a link.
    ///
    /// # Errors
    /// The path is neither a file nor a link, or cannot be read.
    pub(super) fn read(path: &Path) -> io::Result<Self> {
        let metadata = fs::symlink_metadata(path)?;
        if metadata.is_symlink() {
            return fs::read_link(path).map(Self::Link);
        }
        if !metadata.is_file() {
            return Err(io::Error::other("it is neither a file nor a link"));
        }
        Ok(Self::File { bytes: fs::read(path)?, is_executable: metadata.permissions().mode() & 0o100 != 0 })
    }

    /// Writes the draft to a path, and creates the folders above.
    ///
    /// # Errors
    /// The content cannot be written.
    pub(super) fn write(&self, path: &Path) -> io::Result<()> {
        if let Some(parent) = path.parent().filter(|_| *self != Self::Gone) {
            fs::create_dir_all(parent)?;
        }
        match self {
            Self::File { bytes, is_executable } => {
                fs::write(path, bytes)?;
                let mode = PERMISSIONS[usize::from(*is_executable)];
                fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
            }
            Self::Link(target) => symlink(target, path),
            Self::Gone => Ok(()),
        }
    }

    /// The bytes from which the digest is computed.
    fn parts(&self) -> (&[u8], &[u8]) {
        match self {
            Self::File { bytes, is_executable: false } => (b"file", bytes),
            Self::File { bytes, is_executable: true } => (b"program", bytes),
            Self::Link(target) => (b"link", target.as_os_str().as_bytes()),
            Self::Gone => (b"gone", b""),
        }
    }
}

impl Draft {
    pub(super) fn new(project: &Path) -> Self {
        Self { project: project.to_owned(), changes: BTreeMap::new() }
    }

    /// The folder of the project.
    pub(super) fn project(&self) -> &Path {
        &self.project
    }

    /// The content of a path of the project, with the changes so far.
    ///
    /// # Errors
    /// A file cannot be read.
    pub(super) fn content(&self, place: &Path) -> io::Result<Content> {
        if let Some(content) = self.changes.get(place) {
            return Ok(content.clone());
        }
        if place.ancestors().any(|ancestor| self.changes.contains_key(ancestor)) {
            return Ok(Content::Gone);
        }
        match Content::read(&self.project.join(place)) {
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                Ok(Content::Gone)
            }
            content => content,
        }
    }

    pub(super) fn set(&mut self, place: PathBuf, content: Content) {
        // If a folder becomes a file, the changes below it are dropped.
        self.changes.retain(|path, _| *path == place || !path.starts_with(&place));
        if content != Content::Gone {
            // A file becomes a folder if the new path is below it.
            for ancestor in place.ancestors().skip(1) {
                self.changes.remove(ancestor);
            }
        }
        self.changes.insert(place, content);
    }

    /// Puts a copy of `file` at a place. Links are followed.
    pub(super) fn copy(&mut self, place: &Path, file: &Path) -> io::Result<()> {
        let content = Content::read(&fs::canonicalize(file)?)?;
        self.set(place.to_owned(), content);
        Ok(())
    }

    pub(super) fn remove(&mut self, place: &Path) {
        self.set(place.to_owned(), Content::Gone);
    }

    /// Keeps the changes in a folder of `layers` that is named by their content.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub(super) fn keep(mut self, layers: &Path) -> Result<Layer, VariantError> {
        let project = self.project.clone();
        self.changes.retain(|place, content| {
            let now = Content::read(&project.join(place)).ok();
            let is_gone = now.is_none() && fs::symlink_metadata(project.join(place)).is_err();
            now.as_ref() != Some(content) && !(is_gone && *content == Content::Gone)
        });
        if self.changes.is_empty() {
            return Ok(Layer::default());
        }
        self.gather();
        let mut hasher = blake3::Hasher::new();
        for (place, content) in &self.changes {
            let (kind, bytes) = content.parts();
            for part in [place.as_os_str().as_bytes(), kind, bytes] {
                hasher.update(&(part.len() as u64).to_le_bytes()).update(part);
            }
        }
        let folder = layers.join(&hasher.finalize().to_hex()[..32]);
        // A crash, or a person, may have changed the folder.
        if folder.is_dir() && !self.is_kept(&folder) {
            fs::remove_dir_all(&folder).map_err(VariantError::file(&folder))?;
        }
        if !folder.is_dir() {
            self.write(layers, &folder).map_err(VariantError::file(&folder))?;
        }
        let folder = fs::canonicalize(&folder).map_err(VariantError::file(&folder))?;
        Layer::open(&self.project, &folder).map_err(VariantError::file(&folder))
    }

    /// True if a folder has these changes, and no others.
    fn is_kept(&self, folder: &Path) -> bool {
        let Ok(layer) = Layer::open(&self.project, folder) else { return false };
        let is_same = |(place, content): (&PathBuf, &Content)| {
            let layer_content = Content::read(&layer.at(&self.project.join(place)));
            layer_content.ok().map_or(*content == Content::Gone, |layer_content| layer_content == *content)
        };
        layer.len() == self.changes.len() && self.changes.iter().all(is_same)
    }

    /// Replaces the changes in folders of which nothing is left by the removal of the folders.
    fn gather(&mut self) {
        let mut queue: Vec<PathBuf> = self.gone().filter_map(|path| path.parent().map(Path::to_owned)).collect();
        while let Some(folder) = queue.pop() {
            if folder.as_os_str().is_empty() || self.changes.contains_key(&folder) {
                continue;
            }
            let Ok(entries) = fs::read_dir(self.project.join(&folder)) else { continue };
            let is_left = |name: &std::ffi::OsStr| {
                self.changes.get(&folder.join(name)) != Some(&Content::Gone)
                    && !PASSED_OVER.iter().any(|skipped_name| name == *skipped_name)
            };
            let has_more = entries.flatten().any(|entry| is_left(&entry.file_name()));
            let is_new =
                self.changes.iter().any(|(path, content)| path.starts_with(&folder) && *content != Content::Gone);
            if has_more || is_new {
                continue;
            }
            queue.extend(folder.parent().map(Path::to_owned));
            self.set(folder, Content::Gone);
        }
    }

    fn gone(&self) -> impl Iterator<Item = &Path> {
        self.changes.iter().filter(|(_, content)| **content == Content::Gone).map(|(path, _)| path.as_path())
    }

    fn write(&self, layers: &Path, folder: &Path) -> io::Result<()> {
        fs::create_dir_all(layers)?;
        let temporary = tempfile::tempdir_in(layers)?;
        let files = Layer::write(temporary.path(), self.gone())?;
        for (place, content) in &self.changes {
            content.write(&files.join(place))?;
        }
        fs::write(temporary.path().join(DIFFERENCES), self.differences())?;
        let temporary = temporary.keep();
        fs::set_permissions(&temporary, std::fs::Permissions::from_mode(0o755))?;
        match fs::rename(&temporary, folder) {
            // Another process has created the same layer.
            Err(_) if folder.is_dir() => fs::remove_dir_all(&temporary),
            Err(error) => {
                let _ = fs::remove_dir_all(&temporary);
                Err(error)
            }
            Ok(()) => Ok(()),
        }
    }

    /// The changes as a patch.
    fn differences(&self) -> Vec<u8> {
        let mut text = Vec::new();
        for (place, content) in &self.changes {
            let old_content = Content::read(&self.project.join(place)).unwrap_or(Content::Gone);
            let name = place.as_os_str().as_bytes();
            let label = |side: &[u8], content: &Content| match content {
                Content::Gone => b"/dev/null".to_vec(),
                _ => [side, name].concat(),
            };
            let label = |side, content| String::from_utf8_lossy(&label(side, content)).into_owned();
            let (old_label, new_label) = (label(b"a/", &old_content), label(b"b/", content));
            let bytes = |content: &Content| content.parts().1.to_vec();
            let (old_bytes, new_bytes) = (bytes(&old_content), bytes(content));
            let is_text = |bytes: &[u8]| bytes.len() <= MAX_COMPARED && !bytes.contains(&0);
            text.extend([b"diff --git a/", name, b" b/", name, b"\n"].concat());
            if is_text(&old_bytes) && is_text(&new_bytes) {
                let mut options = diffy::DiffOptions::new();
                options.set_original_filename(old_label).set_modified_filename(new_label);
                text.extend(options.create_patch_bytes(&old_bytes, &new_bytes).to_bytes());
            } else {
                text.extend(format!("Binary files {old_label} and {new_label} differ\n").into_bytes());
            }
        }
        text
    }
}
