//! Files outside of private folders that jobs of a run change while another job uses them: a job that writes a file and reads it back gets
//! the content of another job that has replaced it meanwhile.

use std::{
    collections::{BTreeSet, HashMap},
    ffi::OsString,
    os::unix::ffi::OsStringExt as _,
    path::{Path, PathBuf},
};

use fs_err as fs;

/// The changes that jobs have reported.
#[derive(Debug, Clone, Default)]
pub(super) struct Changes(HashMap<PathBuf, Vec<Change>>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Change {
    job: usize,
    /// Time in nanoseconds since 1970.
    at: i64,
    /// Digest of the content before; `None` if it is unknown.
    digest: Option<String>,
}

/// A read of a file that the program had written before.
#[derive(Debug, PartialEq, Eq)]
struct Reread {
    path: PathBuf,
    /// Time at which the program last replaced the file.
    since: i64,
    at: i64,
    digest: Option<String>,
}

impl Changes {
    /// Adds the changes in the report of `job`. A file that cannot be read has none.
    pub(super) fn add(&mut self, job: usize, report: &Path) {
        for (kind, path, fields) in lines(&fs::read(report).unwrap_or_default()) {
            if let ("changed", [at, digest]) = (kind.as_str(), fields.as_slice())
                && let Ok(at) = at.parse()
            {
                self.0.entry(path).or_default().push(Change { job, at, digest: known(digest) });
            }
        }
    }

    /// Forgets changes before `time`, in nanoseconds since 1970.
    pub(super) fn forget_before(&mut self, time: i64) {
        self.0.retain(|_, changes| {
            changes.retain(|change| change.at >= time);
            !changes.is_empty()
        });
    }

    /// The files that `job` has written and read back according to its report, and that another job had changed in between.
    pub(super) fn conflicts(&self, job: usize, report: &Path) -> BTreeSet<PathBuf> {
        let text = fs::read(report).unwrap_or_default();
        let rereads = lines(&text).filter_map(|(kind, path, fields)| match (kind.as_str(), fields.as_slice()) {
            ("reread", [since, at, digest]) => {
                Some(Reread { path, since: since.parse().ok()?, at: at.parse().ok()?, digest: known(digest) })
            }
            _ => None,
        });
        rereads.filter(|reread| self.is_conflict(job, reread)).map(|reread| reread.path).collect()
    }

    fn is_conflict(&self, job: usize, reread: &Reread) -> bool {
        let changes = self.0.get(&reread.path).into_iter().flatten();
        let between = changes.filter(|change| change.job != job && reread.since < change.at && change.at <= reread.at);
        // The first change has the digest of the content that the job wrote. Reading equal content is not a conflict, as with downloads and
        // caches.
        let first = between.min_by_key(|change| change.at);
        first.is_some_and(|first| first.digest.is_none() || first.digest != reread.digest)
    }
}

/// The lines of a report: the kind, the path and the fields between them.
fn lines(text: &[u8]) -> impl Iterator<Item = (String, PathBuf, Vec<String>)> + '_ {
    text.split(|byte| *byte == b'\n').filter_map(|line| {
        let count = match line.split(|byte| *byte == b'\t').next()? {
            b"changed" => 4,
            b"reread" => 5,
            _ => return None,
        };
        let mut fields: Vec<&[u8]> = line.splitn(count, |byte| *byte == b'\t').collect();
        let path = fields.pop().filter(|path| fields.len() == count - 1 && !path.is_empty())?;
        let mut texts = fields.into_iter().map(|field| String::from_utf8_lossy(field).into_owned());
        let kind = texts.next()?;
        Some((kind, PathBuf::from(OsString::from_vec(path.to_owned())), texts.collect()))
    })
}

/// The digest in a field of a report.
fn known(field: &str) -> Option<String> {
    (field != "-").then(|| field.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conflicts(changes: &[(usize, &str)], own: &str) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        let mut all = Changes::default();
        for (number, (job, text)) in changes.iter().enumerate() {
            let path = folder.path().join(number.to_string());
            fs::write(&path, text).unwrap();
            all.add(*job, &path);
        }
        let path = folder.path().join("own");
        fs::write(&path, own).unwrap();
        all.conflicts(0, &path).into_iter().map(|path| path.display().to_string()).collect()
    }

    #[test]
    fn another_job_changes_a_file_between_a_write_and_a_read() {
        let own = "changed\t10\t-\t/d/a\nreread\t10\t30\ty\t/d/a\n";
        assert_eq!(conflicts(&[(0, own), (1, "changed\t20\tx\t/d/a\n")], own), ["/d/a"]);
        assert_eq!(conflicts(&[(0, own), (1, "changed\t20\t-\t/d/a\n")], own), ["/d/a"], "unknown content");
        assert!(conflicts(&[(0, own), (1, "changed\t20\ty\t/d/a\n")], own).is_empty(), "the same content");
        assert!(conflicts(&[(0, own), (1, "changed\t5\tx\t/d/a\n")], own).is_empty(), "before");
        assert!(conflicts(&[(0, own), (1, "changed\t31\tx\t/d/a\n")], own).is_empty(), "after");
        assert!(conflicts(&[(0, own), (1, "changed\t20\tx\t/d/b\n")], own).is_empty(), "another file");
        assert!(conflicts(&[(0, own)], own).is_empty(), "its own changes");
    }

    #[test]
    fn torn_and_unknown_lines_are_left_out() {
        let own = "reread\t10\t30\ty\nreread\tx\t30\ty\t/d/a\nother\t1\t/d/a\nreread\t10\t30\ty\t/d/with\ttab\n";
        let others = "changed\t20\t-\t/d/a\nchanged\t20\t-\t/d/with\ttab\nchang";
        assert_eq!(conflicts(&[(1, others)], own), ["/d/with\ttab"]);
    }
}
