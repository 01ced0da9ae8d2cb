//! The code and data that a program was observed to read, as its worker reports them to the engine.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::Metadata,
    os::unix::fs::MetadataExt as _,
};

use serde::{Deserialize, Serialize};

/// Files and packages that a program read, in addition to its declared inputs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observed {
    /// Source of the observation.
    pub tool: Tool,
    /// Files, by their path from the project's folder, or absolute outside of it, in the form of a record.
    pub files: BTreeMap<String, ObservedFile>,
    /// Properties of other paths that the program queried, by path in the form of `files`.
    #[serde(default)]
    pub facts: BTreeMap<String, String>,
    /// Folders that the program listed, with the names in them, both in the form of a record.
    #[serde(default)]
    pub listed: BTreeMap<String, BTreeSet<String>>,
    /// Installed packages of Python that were imported, by name.
    pub packages: BTreeMap<String, Package>,
    /// Paths that the program created, changed, replaced or removed, absolute, in the form of a record.
    #[serde(default)]
    pub written: BTreeSet<String>,
    /// The paths in `written` that did not exist before.
    #[serde(default)]
    pub made: BTreeSet<String>,
    /// Files that the program read after it had written them, in the form of `files`.
    #[serde(default)]
    pub rewritten: BTreeSet<String>,
    /// Programs that were started and shared libraries that were opened outside of the project, absolute, in the form of a
    /// record; `None` if they are not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outside: Option<BTreeMap<String, Outside>>,
}

/// A program or a shared library outside of the project.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outside {
    /// State of the file when it was used.
    pub stamp: FileStamp,
    /// True for a program that was started, false for a library that was opened.
    pub is_started: bool,
}

/// Source of an observation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tool {
    /// The kernel's reports of system calls.
    Kernel,
    /// Python's audit events.
    Audit,
    /// A file of dependencies that the program wrote.
    Depfile,
}

/// A file that a program read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObservedFile {
    /// State of the file when it was read.
    pub stamp: FileStamp,
    /// Digest of the content that was read, if the program itself has changed the file since then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// File that imported it, in the same form as its own path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// Values that change with a file's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileStamp {
    /// Size in bytes.
    pub size: u64,
    /// Time of the last change of the content, in nanoseconds since 1970.
    pub mtime: i64,
    /// Inode.
    pub inode: u64,
}

/// An installed package of Python.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Package {
    /// Version.
    pub version: String,
    /// Folder that it is installed in, in the form of a record.
    pub folder: String,
}

impl FileStamp {
    /// The state of a file now.
    pub fn of(metadata: &Metadata) -> Self {
        let mtime = metadata.mtime().saturating_mul(1_000_000_000).saturating_add(metadata.mtime_nsec());
        Self { size: metadata.size(), mtime, inode: metadata.ino() }
    }
}
