//! Files that jobs created in their inputs: a loader may keep a cache beside the data that it reads. These files are
//! not part of the inputs' digests while they have the content that a job has given them.

use std::{
    collections::{HashMap, HashSet},
    ffi::OsString,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use fs_err as fs;
use serde::{Deserialize, Serialize};

use crate::record::{path_text, text_path};

/// The file in the store.
const FILE: &str = "made.jsonl";

/// Files that jobs created in their inputs.
#[derive(Debug, Default)]
pub struct Made {
    /// The file in which the list is kept; `None` keeps the list for this run only.
    file: Option<PathBuf>,
    /// The digests that jobs left them with, by their paths without links.
    files: HashMap<PathBuf, HashSet<String>>,
    names: HashSet<OsString>,
}

/// A line of the file.
#[derive(Debug, Serialize, Deserialize)]
struct Line {
    /// Absolute path without links, as text.
    path: String,
    /// The digest, or [`Made::FOLDER`].
    digest: String,
}

impl Made {
    /// Placeholder for the digest of a folder.
    pub const FOLDER: &str = "folder";

    /// Reads the files that the jobs of a store created.
    pub(super) fn open(store: &Path) -> Self {
        let file = store.join(FILE);
        let mut made = Self::default();
        // An unreadable line is skipped, which costs one run at most.
        let text = fs::read(&file).unwrap_or_default();
        for line in text.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice::<Line>(line).ok()) {
            made.insert(text_path(&line.path), line.digest);
        }
        Self { file: Some(file), ..made }
    }

    /// Remembers files with their digests, and appends the new ones to the file in the store.
    pub fn remember(&mut self, files: impl IntoIterator<Item = (PathBuf, String)>) -> io::Result<()> {
        let mut text = Vec::new();
        for (path, digest) in files {
            let path = fs::canonicalize(&path).unwrap_or(path);
            if self.insert(path.clone(), digest.clone()) {
                serde_json::to_writer(&mut text, &Line { path: path_text(&path), digest })?;
                text.push(b'\n');
            }
        }
        let Some(file) = self.file.as_ref().filter(|_| !text.is_empty()) else { return Ok(()) };
        let mut file = fs::OpenOptions::new().create(true).append(true).open(file)?;
        file.write_all(&text)?;
        file.sync_data()
    }

    fn insert(&mut self, path: PathBuf, digest: String) -> bool {
        self.names.extend(path.file_name().map(ToOwned::to_owned));
        self.files.entry(path).or_default().insert(digest)
    }

    /// True if a job created a file of this name in any folder.
    pub(super) fn has_name(&self, path: &Path) -> bool {
        path.file_name().is_some_and(|name| self.names.contains(name))
    }

    /// True if a job created the file at `path`, with any content.
    pub fn has(&self, path: &Path) -> bool {
        self.has_name(path) && self.files.contains_key(fs::canonicalize(path).as_deref().unwrap_or(path))
    }

    /// True if a job left the file at `path` with this digest.
    pub fn is_made(&self, path: &Path, digest: &str) -> bool {
        let real = fs::canonicalize(path);
        let digests = self.files.get(real.as_deref().unwrap_or(path));
        digests.is_some_and(|digests| digests.contains(digest))
    }
}
