//! The artifacts that one job takes from another, compared with the records of the jobs that left them.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::{Component, Path, PathBuf},
};

use fs_err as fs;

use super::Changed;
use crate::{
    plan::Digests,
    record::{Digest, Key},
    store::Store,
};

/// The word for a file that is not in the record.
pub(super) const STRAY: &str = "does not belong to it";

/// A file of an artifact that differs from its record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Defect {
    /// The file's path from the folder with the files of the job that left the artifact.
    pub(super) file: String,
    pub(super) how: &'static str,
}

impl std::fmt::Display for Defect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.file, self.how)
    }
}

/// An artifact that one job takes from another.
#[derive(Debug)]
pub(crate) struct Artifact {
    /// The job that has left it.
    key: Key,
    pub(super) label: String,
    pub(super) name: String,
    /// The folder with that job's files.
    pub(super) folder: PathBuf,
    /// The artifact's path in the other job.
    path: String,
    /// All of that job's files; records of earlier versions have none.
    files: BTreeMap<String, Digest>,
}

impl Artifact {
    /// An artifact of a finished job; `None` if it has no such record or no such artifact, which other checks report.
    pub(crate) fn new(store: &Store, key: Key, name: String) -> Option<Self> {
        let record = store.get(key).ok().flatten()?;
        let path = Path::new(record.outcome.artifacts.get(&name)?);
        let parts = path.components().filter(|part| *part != Component::CurDir);
        let path = parts.collect::<PathBuf>().to_str()?.to_owned();
        Some(Self { key, label: record.label, name, folder: store.files(key), path, files: record.files })
    }

    /// The job that has left it.
    pub(crate) fn key(&self) -> Key {
        self.key
    }

    /// Name of the artifact.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Checks that the artifact is unchanged.
    pub(crate) fn check(&self, digests: &mut Digests) -> Result<(), Changed> {
        match self.defects(digests).as_deref() {
            Ok([]) => Ok(()),
            Ok([first, ..]) => Err(self.changed(first.to_string())),
            Err(error) => Err(self.changed(error.clone())),
        }
    }

    pub(super) fn changed(&self, reason: String) -> Changed {
        Changed::Artifact { label: self.label.clone(), name: self.name.clone(), reason }
    }

    /// The files that differ from its record. The error is a phrase.
    pub(super) fn defects(&self, digests: &mut Digests) -> Result<Vec<Defect>, String> {
        self.compared(digests).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => "it is gone".to_owned(),
            _ => error.to_string(),
        })
    }

    fn compared(&self, digests: &mut Digests) -> io::Result<Vec<Defect>> {
        let mut names_found = BTreeSet::new();
        names(&self.folder, &self.path, &mut names_found)?;
        if self.files.is_empty() {
            return Ok(Vec::new());
        }
        let mut files: BTreeMap<&str, &Digest> = self.written(&self.path);
        if files.values().any(|file| matches!(file, Digest::Link { .. })) {
            // A link leads to another of the job's files, and that may be read, too.
            files = self.written("");
            names_found.clear();
            names(&self.folder, "", &mut names_found)?;
        }
        let mut defects = Vec::new();
        for (name, file) in &files {
            if !names_found.remove(*name) {
                defects.push(Defect { file: (*name).to_owned(), how: "is missing" });
                continue;
            }
            let path = self.folder.join(name);
            let is_whole = match file {
                Digest::File { bytes, blake3 } => {
                    let metadata = fs::symlink_metadata(&path)?;
                    metadata.is_file() && metadata.len() == *bytes && digests.of_artifact(&path)? == *blake3
                }
                Digest::Link { to } => fs::read_link(&path).is_ok_and(|now| now == *to),
            };
            if !is_whole {
                defects.push(Defect { file: (*name).to_owned(), how: "has different content" });
            }
        }
        defects.extend(names_found.into_iter().map(|file| Defect { file, how: STRAY }));
        Ok(defects)
    }

    /// Returns the digests of the files at and below a path.
    fn written(&self, path: &str) -> BTreeMap<&str, &Digest> {
        let files = self.files.iter().filter(|(name, _)| Path::new(name).starts_with(path));
        files.map(|(name, file)| (name.as_str(), file)).collect()
    }
}

/// The names of the files and links at a path in a folder and below it. Links are not followed.
fn names(folder: &Path, inner: &str, paths: &mut BTreeSet<String>) -> io::Result<()> {
    let path = folder.join(inner);
    if !fs::symlink_metadata(&path)?.is_dir() {
        paths.insert(inner.to_owned());
        return Ok(());
    }
    for entry in fs::read_dir(path)? {
        let name = entry?.file_name();
        let name = name.to_string_lossy();
        names(folder, &if inner.is_empty() { name.into_owned() } else { format!("{inner}/{name}") }, paths)?;
    }
    Ok(())
}
