//! Files and packages that a finished job was observed to read, and the manifests that tie them to records.
//!
//! A job's *base key* is the key of its identity without code. Under it the store keeps manifests: each names the
//! record of one run and the set of files that the run read. Sets are stored once by content, because thousands of jobs read
//! the same files.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use sweep_job::{Package, Tool};

use crate::record::{Environment, Key, Record};

/// Version of a set's JSON. 1: first.
const SET_FORMAT: u32 = 1;

/// Placeholder for the digest of a missing file, or the version of a missing package.
pub const ABSENT: &str = "absent";

/// Placeholder for the digest of a file that a job has read in a state that can no longer be identified.
pub const UNKNOWN: &str = "unknown";

/// Prefix of the folder of a package that a job read on a host without a shared file system. Its version cannot be compared with versions
/// on this machine.
pub const ELSEWHERE: &str = "host:";

/// Prefix of the path of a file outside of the project that a job read there. No other path has it, because backslashes in paths
/// are escaped.
pub const FILE_ELSEWHERE: &str = r"\host:";

/// Files and packages that a job read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadSet {
    format: u32,
    /// Files, by their path from the project's folder, or absolute outside of it, with escapes for bytes that are not text.
    pub files: BTreeMap<String, ReadFile>,
    /// Properties of other paths that the job looked up: names that do not exist, targets of links, names in folders.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub facts: BTreeMap<String, String>,
    /// Paths of this set, or in listed folders, that the job itself has changed.
    #[serde(flatten)]
    pub own: Own,
    /// Installed packages of Python, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub packages: BTreeMap<String, Package>,
    /// Identifier of the environment; `None` if it is unknown, and for sets of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<String>,
}

/// A file that a job read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadFile {
    /// Digest of its content, as inputs have it.
    pub digest: String,
    /// File that imported it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// A line of the store's list of manifests: a record, and the set of files that its job read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Base key of the job.
    pub base: Key,
    /// Key of the record.
    pub record: Key,
    /// The code in the record's identity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Identifier of the set.
    pub set: String,
    /// Source of the observation.
    pub tool: Tool,
    /// The paths of the set that the job itself has changed.
    #[serde(flatten)]
    pub own: Own,
}

/// Paths that a job looked at and has changed itself. Such a change does not count as a change by others.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Own {
    /// Their states after the job: digests, or properties.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub left: BTreeMap<String, String>,
    /// The paths that did not exist before the job.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub made: BTreeSet<String>,
}

/// Beginning of the line of a manifest, before the digest of the bytes after [`SEALED`].
const SEAL: &[u8] = b"{\"digest\":\"";
/// Separator between a line's digest and the digested bytes.
const SEALED: &[u8] = b"\",";
/// Hexadecimal digits of a digest.
const DIGITS: usize = 64;

/// A line of the list of manifests, as it was found.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// A line whose digest matches.
    Sealed(Manifest),
    /// A line of an earlier version, without a digest.
    Unsealed(Manifest),
    /// A line that was torn or changed.
    Damaged,
}

impl Line {
    /// Reads a line.
    pub fn parse(line: &[u8]) -> Self {
        let Ok(manifest) = serde_json::from_slice::<Manifest>(line) else { return Self::Damaged };
        let Some(tail) = line.strip_prefix(SEAL) else { return Self::Unsealed(manifest) };
        let parts = tail.split_at_checked(DIGITS);
        let body = parts.and_then(|(digest, tail)| Some((digest, tail.strip_prefix(SEALED)?)));
        match body {
            Some((digest, body)) if blake3::hash(body).to_hex().as_bytes() == digest => Self::Sealed(manifest),
            _ => Self::Damaged,
        }
    }

    /// The manifest, unless the line is damaged.
    pub fn manifest(self) -> Option<Manifest> {
        match self {
            Self::Sealed(manifest) | Self::Unsealed(manifest) => Some(manifest),
            Self::Damaged => None,
        }
    }
}

impl Manifest {
    /// The manifest's line, which begins with a digest of the rest.
    pub fn to_line(&self) -> serde_json::Result<Vec<u8>> {
        let json = serde_json::to_vec(self)?;
        let body = json.strip_prefix(b"{").unwrap_or(&json);
        Ok([SEAL, blake3::hash(body).to_hex().as_bytes(), SEALED, body, b"\n"].concat())
    }
}

/// A manifest with its set, as both travel with the record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observation {
    /// The manifest.
    pub manifest: Manifest,
    /// The files that it names.
    pub set: ReadSet,
    /// The environment that the set names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<Environment>,
}

impl Observation {
    /// Reads the observation of `record`; the error is the reason why `text` is not one.
    pub fn parse(text: &[u8], record: &Record) -> Result<Self, String> {
        let Record { key, identity, read, .. } = record;
        let observation: Self = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        let Self { manifest, set, environment } = &observation;
        let base = identity.base_key().map_err(|error| error.to_string())?;
        if set.format != SET_FORMAT {
            return Err(format!("it has the unknown version {}", set.format));
        }
        let is_of_it = manifest.record == *key && manifest.base == base && manifest.code == identity.code;
        let is_named = read.as_ref().is_none_or(|read| *read == manifest.set);
        // A lost environment does not invalidate the rest.
        let is_its = environment.as_ref().is_none_or(|environment| Some(environment.id()) == set.environment);
        if is_of_it && is_named && is_its && manifest.set == set.id() {
            Ok(observation)
        } else {
            Err("it belongs to another record".to_owned())
        }
    }
}

impl ReadSet {
    /// The set of these files and packages.
    pub fn new(files: BTreeMap<String, ReadFile>, packages: BTreeMap<String, Package>) -> Self {
        Self { format: SET_FORMAT, files, facts: BTreeMap::new(), own: Own::default(), packages, environment: None }
    }

    /// Returns the set with properties of other paths, and with the paths that the job itself has changed.
    #[must_use]
    pub fn with_facts(self, facts: BTreeMap<String, String>, own: Own) -> Self {
        Self { facts, own, ..self }
    }

    /// Returns the set with the identifier of the environment.
    #[must_use]
    pub fn with_environment(self, environment: Option<String>) -> Self {
        Self { environment, ..self }
    }

    /// Returns this set with the files, packages and other paths of a later run of the job, which take precedence.
    #[must_use]
    pub fn joined(mut self, later: Self) -> Self {
        self.files.extend(later.files);
        self.packages.extend(later.packages);
        self.facts.extend(later.facts);
        self.own.left.extend(later.own.left);
        self.own.made.extend(later.own.made);
        self.environment = self.environment.or(later.environment);
        self
    }

    /// Reads a set; `None` if the text is not a set of this version with this identifier.
    pub fn parse(text: &[u8], id: &str) -> Option<Self> {
        let set: Self = serde_json::from_slice(text).ok()?;
        (set.format == SET_FORMAT && set.id() == id).then_some(set)
    }

    /// The set's identifier: the digest of the paths with their digests, of the packages with their folders and
    /// versions, and of the environment.
    pub fn id(&self) -> String {
        let files = self.files.iter().map(|(path, file)| ["file", path, &file.digest, ""]);
        let packages = self.packages.iter().map(|(name, package)| ["package", name, &package.folder, &package.version]);
        let facts = self.facts.iter().map(|(path, fact)| ["fact", path, fact, ""]);
        let mark = |path: &String| if self.own.made.contains(path) { "made" } else { "" };
        let left_files = self.own.left.iter().map(|(path, state)| ["left", path, state, mark(path)]);
        let environment = self.environment.iter().map(|id| ["environment", id, "", ""]);
        digest_of(files.chain(packages).chain(facts).chain(left_files).chain(environment))
    }
}

/// The code in a key: the digest of paths with the digests of their content, and of packages with their versions; both
/// sorted, and of properties of other paths. The folders of packages are not in it, because they differ between machines.
pub fn code_digest<'a>(
    files: impl Iterator<Item = (&'a str, &'a str)>,
    packages: impl Iterator<Item = (&'a str, &'a str)>,
    facts: impl Iterator<Item = (&'a str, &'a str)>,
) -> String {
    let files = files.map(|(path, digest)| ["file", path, digest, ""]);
    let packages = packages.map(|(name, version)| ["package", name, version, ""]);
    digest_of(files.chain(packages).chain(facts.map(|(path, fact)| ["fact", path, fact, ""])))
}

pub(super) fn digest_of<'a>(lines: impl Iterator<Item = [&'a str; 4]>) -> String {
    let mut hasher = blake3::Hasher::new();
    for part in lines.flatten() {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    hasher.finalize().to_hex().to_string()
}

/// A path as text: bytes that are not UTF-8, control characters and backslashes are escaped.
pub fn path_text(path: &Path) -> String {
    let mut text = String::new();
    for chunk in path.as_os_str().as_bytes().utf8_chunks() {
        for char in chunk.valid().chars() {
            match char {
                '\\' => text.push_str(r"\\"),
                char if char.is_control() => {
                    let mut bytes = [0; 4];
                    escape(char.encode_utf8(&mut bytes).as_bytes(), &mut text);
                }
                char => text.push(char),
            }
        }
        escape(chunk.invalid(), &mut text);
    }
    text
}

fn escape(bytes: &[u8], text: &mut String) {
    for byte in bytes {
        text.extend(["\\x", &format!("{byte:02x}")]);
    }
}

/// The path that a text of [`path_text`] stands for. Other text stands for itself, but an invalid `\x` escape is dropped.
pub fn text_path(text: &str) -> PathBuf {
    let mut bytes = Vec::with_capacity(text.len());
    let mut remainder = text.as_bytes();
    while let [first, tail @ ..] = remainder {
        remainder = match (first, tail) {
            (b'\\', [b'\\', tail @ ..]) => {
                bytes.push(b'\\');
                tail
            }
            (b'\\', [b'x', high, low, tail @ ..]) => {
                let digit = |byte: &u8| char::from(*byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
                bytes.extend(digit(high).zip(digit(low)).map(|(high, low)| high << 4 | low));
                tail
            }
            _ => {
                bytes.push(*first);
                tail
            }
        };
    }
    PathBuf::from(OsStr::from_bytes(&bytes))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_path_survives_as_a_line_of_text(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let path = Path::new(OsStr::from_bytes(&bytes));
            let text = path_text(path);
            prop_assert_eq!(text_path(&text), path);
            prop_assert!(!text.chars().any(char::is_control));
        }
    }

    #[test]
    fn a_changed_line_is_damaged_and_one_without_a_digest_is_of_an_earlier_version() {
        let key: Key = "a".repeat(64).parse().unwrap();
        let (set, own) = ("b".repeat(64), Own::default());
        let manifest = Manifest { base: key, record: key, code: None, set, tool: Tool::Audit, own };
        let line = manifest.to_line().unwrap();
        let line = line.strip_suffix(b"\n").unwrap();
        assert_eq!(Line::parse(line), Line::Sealed(manifest.clone()));
        for at in 0..line.len() {
            for bit in 0..8 {
                let mut changed_line = line.to_vec();
                changed_line[at] ^= 1 << bit;
                // If the change hits the name of the digest, the rest of the line is unchanged.
                let result = Line::parse(&changed_line);
                assert!(result == Line::Damaged || result == Line::Unsealed(manifest.clone()), "{at}: {result:?}");
            }
            assert_eq!(Line::parse(&line[..at]), Line::Damaged);
        }
        let unsealed_line = serde_json::to_vec(&manifest).unwrap();
        assert_eq!(Line::parse(&unsealed_line), Line::Unsealed(manifest));
    }

    #[test]
    fn a_set_is_known_by_its_contents() {
        let file = |digest: &str| ReadFile { digest: digest.into(), by: Some("train.py".into()) };
        let package = |version: &str| Package { version: version.into(), folder: "/lib".into() };
        let set = |digest: &str, version: &str| {
            ReadSet::new([("a.py".into(), file(digest))].into(), [("numpy".into(), package(version))].into())
        };
        let read_set = set("1", "2");
        assert_ne!(read_set.id(), set("2", "2").id());
        assert_ne!(read_set.id(), set("1", "3").id());
        let text = serde_json::to_vec(&read_set).unwrap();
        assert_eq!(ReadSet::parse(&text, &read_set.id()), Some(read_set.clone()));
        assert_eq!(ReadSet::parse(&text, &set("2", "2").id()), None, "another content");
        assert_eq!(ReadSet::parse(b"{", &read_set.id()), None);
    }
}
