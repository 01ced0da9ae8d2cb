//! Reports, while programs run, on files that other programs may change meanwhile: those that the programs replace, and those
//! that they read back.

use std::{
    collections::HashMap,
    fs::{File, Metadata, OpenOptions},
    io::{self, Write as _},
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    time::SystemTime,
};

use super::seen::{Stamp, since_1970};

/// Maximum number of lines of a report.
const MAX_LINES: usize = 20_000;
/// Maximum size of a file whose content is compared, in bytes. The program waits for its digest.
const MAX_DIGESTED_BYTES: u64 = 16 << 20;
/// Stands for the digest of content that is unknown, or of a file that did not exist.
const NO_DIGEST: &str = "-";

/// A report with these lines, whose fields are separated by tabs, and whose times are in nanoseconds since 1970:
/// - `changed`, the time, the digest of the earlier content, the path: a file was created, truncated, replaced, or opened to be
///   appended to;
/// - `reread`, the time since which the program takes the file as its own, the time of the read, the digest of the content, the path.
#[derive(Debug)]
pub(crate) struct SharedFiles {
    file: Option<File>,
    digest: fn(&Path) -> io::Result<String>,
    /// Paths that the program has written.
    own: HashMap<PathBuf, Own>,
    lines: usize,
}

#[derive(Debug, Clone, Copy)]
struct Own {
    /// Time at which the program last replaced the file, or opened it to write for the first time.
    since: i64,
    /// The state of the last read that was reported.
    read: Option<Stamp>,
}

impl SharedFiles {
    /// Reports to the file `path`, which is created. Without it, or if it cannot be created, nothing is reported.
    pub(crate) fn new(path: Option<&Path>, digest: fn(&Path) -> io::Result<String>) -> Self {
        let file = path.and_then(|path| OpenOptions::new().append(true).create(true).open(path).ok());
        Self { file, digest, own: HashMap::new(), lines: 0 }
    }

    /// True if the program has written `path`, or created a folder around it.
    pub(crate) fn is_own(&self, path: &Path) -> bool {
        !self.own.is_empty() && path.ancestors().any(|path| self.own.contains_key(path))
    }

    /// Notes that the program opens a file for writing, or creates a folder.
    pub(crate) fn writes(&mut self, path: &Path) {
        if self.file.is_some() && self.own.len() < MAX_LINES {
            self.own.entry(path.to_owned()).or_insert_with(|| Own { since: now(), read: None });
        }
    }

    /// Notes that the program opens a file, of which `earlier` is the state, to append to it.
    pub(crate) fn appends(&mut self, path: &Path, earlier: Option<&Metadata>) {
        self.changes(path, earlier);
        self.writes(path);
    }

    /// Notes that the program is about to create, truncate or replace a file, of which `earlier` is the state. If `reads`, it reads
    /// the new file with the same descriptor, at times that no call reports.
    pub(crate) fn replaces(&mut self, path: &Path, earlier: Option<&Metadata>, reads: bool) {
        let Some(now) = self.changes(path, earlier) else { return };
        self.own.insert(path.to_owned(), Own { since: now, read: None });
        if reads {
            let empty = (self.digest)(Path::new("/dev/null"));
            let empty = empty.as_deref().unwrap_or(NO_DIGEST);
            self.say(format_args!("reread\t{now}\t{}\t{empty}", i64::MAX), path);
        }
    }

    /// Notes that the program opens a file to read it.
    pub(crate) fn reads(&mut self, path: &Path, metadata: &Metadata) {
        if self.file.is_none() || self.own.is_empty() {
            return;
        }
        let Some(own) = path.ancestors().find_map(|path| self.own.get(path).copied()) else { return };
        let stamp = Stamp::of(metadata);
        if own.read == Some(stamp) {
            return;
        }
        let digest = self.digest(path, metadata);
        self.say(format_args!("reread\t{}\t{}\t{}", own.since, now(), digest.as_deref().unwrap_or(NO_DIGEST)), path);
        if self.own.len() < MAX_LINES {
            self.own.insert(path.to_owned(), Own { since: own.since, read: Some(stamp) });
        }
    }

    /// Reports a change; returns its time.
    fn changes(&mut self, path: &Path, earlier: Option<&Metadata>) -> Option<i64> {
        self.file.as_ref()?;
        let digest = earlier.and_then(|earlier| self.digest(path, earlier));
        let now = now();
        self.say(format_args!("changed\t{now}\t{}", digest.as_deref().unwrap_or(NO_DIGEST)), path);
        Some(now)
    }

    fn digest(&self, path: &Path, metadata: &Metadata) -> Option<String> {
        (metadata.is_file() && metadata.len() <= MAX_DIGESTED_BYTES).then(|| (self.digest)(path).ok()).flatten()
    }

    fn say(&mut self, fields: std::fmt::Arguments<'_>, path: &Path) {
        self.lines += 1;
        let Some(file) = self.file.as_mut().filter(|_| self.lines <= MAX_LINES) else { return };
        let path = path.as_os_str().as_bytes();
        if path.contains(&b'\n') {
            return;
        }
        let mut line = fields.to_string().into_bytes();
        line.push(b'\t');
        line.extend_from_slice(path);
        line.push(b'\n');
        // A report that cannot be written is one without these lines: the program goes on.
        let _ = file.write_all(&line);
    }
}

fn now() -> i64 {
    since_1970(SystemTime::now())
}
