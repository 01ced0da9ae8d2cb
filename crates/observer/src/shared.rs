//! Reports, while programs run, on files that other programs may change meanwhile: files that the programs replace, and files that they
//! read back.

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
    /// Files that the program has replaced, and folders that it has created.
    own: HashMap<PathBuf, Own>,
    lines: usize,
    /// True if a line could not be reported.
    lacks_some: bool,
}

#[derive(Debug, Clone, Copy)]
struct Own {
    /// Time at which the program last replaced the file, or created the folder.
    since: i64,
    /// The state of the last read that was reported.
    read: Option<Stamp>,
}

impl SharedFiles {
    /// Reports to the file `path`, which is created. Without it, nothing is reported.
    pub(crate) fn new(path: Option<&Path>, digest: fn(&Path) -> io::Result<String>) -> Self {
        let file = path.and_then(|path| OpenOptions::new().append(true).create(true).open(path).ok());
        let lacks_some = path.is_some() && file.is_none();
        Self { file, digest, own: HashMap::new(), lines: 0, lacks_some }
    }

    /// True if the report lacks something.
    pub(crate) fn lacks_some(&self) -> bool {
        self.lacks_some
    }

    /// True if the program has replaced `path`, or created a folder around it.
    pub(crate) fn is_own(&self, path: &Path) -> bool {
        !self.own.is_empty() && path.ancestors().any(|path| self.own.contains_key(path))
    }

    /// Records that the program creates a folder.
    pub(crate) fn creates_folder(&mut self, path: &Path) {
        if self.file.is_some() && self.has_room() {
            self.own.entry(path.to_owned()).or_insert_with(|| Own { since: now(), read: None });
        }
    }

    /// Records that the program opens a file with the state `earlier` to append to it. Several programs may write to such a file, so it
    /// does not count as the program's own.
    pub(crate) fn appends(&mut self, path: &Path, earlier: Option<&Metadata>) {
        self.changes(path, earlier);
    }

    /// Records that the program is about to truncate or replace a file with the state `earlier`, or to create it exclusively. With `reads`,
    /// the program may read the new file through the same descriptor, which no call reports.
    pub(crate) fn replaces(&mut self, path: &Path, earlier: Option<&Metadata>, reads: bool) {
        let Some(now) = self.changes(path, earlier) else { return };
        self.own.insert(path.to_owned(), Own { since: now, read: None });
        if reads {
            let empty = (self.digest)(Path::new("/dev/null"));
            let empty = empty.as_deref().unwrap_or(NO_DIGEST);
            self.say(format_args!("reread\t{now}\t{}\t{empty}", i64::MAX), path);
        }
    }

    /// Records that the program opens a file for reading.
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
        if self.has_room() {
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

    /// True if a further path can be remembered.
    fn has_room(&mut self) -> bool {
        let has_room = self.own.len() < MAX_LINES;
        self.lacks_some |= !has_room;
        has_room
    }

    fn say(&mut self, fields: std::fmt::Arguments<'_>, path: &Path) {
        let path = path.as_os_str().as_bytes();
        self.lines += 1;
        if self.lines > MAX_LINES || path.contains(&b'\n') {
            self.lacks_some = true;
            return;
        }
        let Some(file) = self.file.as_mut() else { return };
        let mut line = fields.to_string().into_bytes();
        line.push(b'\t');
        line.extend_from_slice(path);
        line.push(b'\n');
        self.lacks_some |= file.write_all(&line).is_err();
    }
}

fn now() -> i64 {
    since_1970(SystemTime::now())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn changes_and_reads_of_own_files_are_reported() {
        let folder = tempfile::tempdir().unwrap();
        let (report, path) = (folder.path().join("report"), folder.path().join("file"));
        let mut files = SharedFiles::new(Some(&report), |path| fs::read_to_string(path));
        fs::write(&path, "old").unwrap();
        let metadata = |path: &Path| fs::metadata(path).unwrap();
        files.reads(&path, &metadata(&path));
        files.replaces(&path, Some(&metadata(&path)), false);
        fs::write(&path, "new").unwrap();
        files.reads(&path, &metadata(&path));
        files.reads(&path, &metadata(&path));
        let text = fs::read_to_string(&report).unwrap();
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split('\t').collect()).collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert_eq!((lines[0][0], lines[0][2], lines[0][3]), ("changed", "old", path.to_str().unwrap()), "{text}");
        assert_eq!((lines[1][0], lines[1][1], lines[1][3]), ("reread", lines[0][1], "new"), "{text}");
        assert!(!files.lacks_some());
        let ledger = folder.path().join("ledger");
        fs::write(&ledger, "others").unwrap();
        files.appends(&ledger, Some(&metadata(&ledger)));
        files.reads(&ledger, &metadata(&ledger));
        let text = fs::read_to_string(&report).unwrap();
        assert!(text.lines().count() == 3 && text.lines().last().unwrap().starts_with("changed"), "{text}");
        files.replaces(&folder.path().join("a\nb"), None, false);
        assert!(files.lacks_some(), "a path that no line can have");
    }
}
