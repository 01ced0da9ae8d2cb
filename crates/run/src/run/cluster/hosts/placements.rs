//! Files with the place of each job, for later processes: after a run that was killed, and for a run without that
//! place.

use std::{
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
};

use fs_err as fs;
use serde::{Deserialize, Serialize};

use crate::{
    host::replaced::{Outlives, Readers, replace},
    recipe::executor::ssh::SshHost,
    record::Key,
    run::{RunFolder, cluster::BatchId},
};

/// A job on a place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Placement {
    pub(super) key: Key,
    pub(super) id: BatchId,
    pub(super) tag: String,
    /// The run whose folder has its specification, and the place there.
    pub(super) run: String,
    pub(super) at: u64,
    pub(super) place: Where,
    /// Lines of the job's journal, and bytes of its log, from before the job began on the place.
    pub(super) lines: u64,
    pub(super) log: u64,
}

/// A place, for another process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Where {
    Host(SshHost),
    /// A process of this machine.
    Local {
        pid: u32,
        /// Start of the process in ticks, and of the machine: numbers of processes are used again.
        begun: u64,
        boot: String,
    },
}

impl Where {
    /// The name of the place.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Host(host) => &host.host,
            Self::Local { .. } => super::LOCAL,
        }
    }
}

/// The folder of the files of hosts in a results folder.
pub(super) fn folder(results: &Path) -> PathBuf {
    results.join("hosts")
}

fn placed(results: &Path) -> PathBuf {
    folder(results).join("placed")
}

fn file(results: &Path, key: Key, place: &str) -> PathBuf {
    let place = blake3::hash(place.as_bytes()).to_hex();
    placed(results).join(format!("{key}-{}.json", &place[..8]))
}

impl Placement {
    /// Writes the file.
    pub(super) fn write(&self, results: &Path) -> io::Result<()> {
        write_aside(&file(results, self.key, self.place.name()), &serde_json::to_vec(self)?)
    }

    /// Removes the file of a job on a place.
    pub(super) fn remove(results: &Path, key: Key, place: &str) {
        // A file that stays is removed by the next run.
        let _ = std::fs::remove_file(file(results, key, place));
    }

    /// The places on which a job is.
    pub(super) fn of(results: &Path, key: Key) -> Vec<Self> {
        let Ok(entries) = std::fs::read_dir(placed(results)) else { return Vec::new() };
        let prefix = format!("{key}-");
        let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
        let own = paths.filter(|path| {
            path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(&prefix))
        });
        own.filter_map(|path| serde_json::from_slice(&std::fs::read(path).ok()?).ok()).collect()
    }

    /// Returns all placements of jobs. Unreadable files are skipped.
    pub(super) fn all(results: &Path) -> Vec<Self> {
        let Ok(entries) = std::fs::read_dir(placed(results)) else { return Vec::new() };
        let texts = entries.filter_map(|entry| std::fs::read(entry.ok()?.path()).ok());
        texts.filter_map(|text| serde_json::from_slice(&text).ok()).collect()
    }
}

/// Replaces the file `path` by `text`, and creates its folder if that is missing.
pub(super) fn write_aside(path: &Path, text: &[u8]) -> io::Result<()> {
    fs::create_dir_all(path.parent().unwrap_or(Path::new(".")))?;
    replace(path, text, Readers::Owner, Outlives::Process)
}

/// The local copy of a job's journal, to which the lines from its host are appended.
#[derive(Debug)]
pub(super) struct Said {
    path: PathBuf,
    /// Lines from before the job began on its present place.
    pub(super) before: u64,
    /// Number of lines that the host sends again and that are in the file already.
    skip: u64,
}

/// The local copy of a job's log, to which the output from its host is appended.
#[derive(Debug)]
pub(super) struct Log {
    pub(super) path: PathBuf,
    /// Bytes from before the job began on its present place.
    pub(super) before: u64,
}

impl Said {
    /// Opens the journal of a job that begins now.
    pub(super) fn begin(results: &Path, run: &str, key: Key) -> io::Result<Self> {
        let path = RunFolder::named(results, run).part(key);
        Ok(Self { before: whole_lines(&path)?, path, skip: 0 })
    }

    /// Opens the journal of a job that an earlier process has placed; the host sends its lines again from the first.
    pub(super) fn resume(results: &Path, placement: &Placement) -> io::Result<Self> {
        let now = Self::begin(results, &placement.run, placement.key)?;
        let skip = now.before.saturating_sub(placement.lines);
        Ok(Self { before: placement.lines, skip, ..now })
    }

    /// Appends a line to the journal, with the name of the host.
    pub(super) fn say(&mut self, line: &str, host: &str) -> io::Result<()> {
        if self.skip > 0 {
            self.skip -= 1;
            return Ok(());
        }
        append(&self.path, format!("{}\n", with_host(line, host)).as_bytes())
    }
}

impl Log {
    /// Opens the log of a job that begins now.
    pub(super) fn begin(results: &Path, run: &str, key: Key) -> Self {
        let path = RunFolder::named(results, run).log(key);
        Self { before: length(&path), path }
    }

    /// Opens the log of a job that an earlier process has placed.
    pub(super) fn resume(results: &Path, placement: &Placement) -> Self {
        Self { before: placement.log, ..Self::begin(results, &placement.run, placement.key) }
    }

    /// Returns the number of bytes of the job's log on its present place that the file has.
    pub(super) fn here(&self) -> u64 {
        length(&self.path).saturating_sub(self.before)
    }
}

/// Adds the host's name to the line about the start.
fn with_host(line: &str, host: &str) -> String {
    let named = || {
        let mut value: serde_json::Value = serde_json::from_str(line).ok()?;
        let started = value.get_mut("event")?.get_mut("started")?.as_object_mut()?;
        started.insert("host".to_owned(), host.into());
        serde_json::to_string(&value).ok()
    };
    named().unwrap_or_else(|| line.to_owned())
}

/// Appends to a file, which may not exist yet.
pub(super) fn append(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::OpenOptions::new().create(true).append(true).open(path)?.write_all(bytes)
}

fn length(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |metadata| metadata.len())
}

/// Number of whole lines of a file. A last line without an end, which a killed process has left, is removed.
fn whole_lines(path: &Path) -> io::Result<u64> {
    let mut file = match std::fs::File::options().read(true).write(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        opened => opened?,
    };
    let mut text = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.read_to_end(&mut text)?;
    let length = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    if length < text.len() {
        file.set_len(length as u64)?;
    }
    Ok(text[..length].split_inclusive(|byte| *byte == b'\n').count() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> Key {
        "ab".repeat(32).parse().unwrap()
    }

    #[test]
    fn lines_that_come_again_are_written_once() {
        let results = tempfile::tempdir().unwrap();
        let place = Where::Host(SshHost::named("box1").unwrap());
        Said::begin(results.path(), "r", key()).unwrap().say("earlier", "box0").unwrap();
        let mut said = Said::begin(results.path(), "r", key()).unwrap();
        let (lines, log) = (said.before, 0);
        let placement =
            Placement { key: key(), id: 1.into(), tag: "t".into(), run: "r".into(), at: 0, place, lines, log };
        placement.write(results.path()).unwrap();
        for line in ["a", "b"] {
            said.say(line, "box1").unwrap();
        }
        // Killed in the middle of a line.
        append(&said.path, b"c is to").unwrap();
        let placements = Placement::all(results.path());
        assert_eq!(placements, [placement]);
        let mut said = Said::resume(results.path(), &placements[0]).unwrap();
        for line in ["a", "b", "c", "d"] {
            said.say(line, "box1").unwrap();
        }
        assert_eq!(fs::read_to_string(&said.path).unwrap(), "earlier\na\nb\nc\nd\n");
        Placement::remove(results.path(), key(), "box1");
        assert_eq!(Placement::all(results.path()), []);
    }

    #[test]
    fn the_line_about_the_start_names_the_host() {
        let line = r#"{"at":"2026-01-01T00:00:00Z","event":{"started":{"job":3,"cpus":2}}}"#;
        let named = with_host(line, "me@box1");
        let value: serde_json::Value = serde_json::from_str(&named).unwrap();
        assert_eq!(
            (&value["event"]["started"]["host"], &value["event"]["started"]["job"]),
            (&"me@box1".into(), &3.into())
        );
        for other in [r#"{"event":{"done":{"job":3}}}"#, "no JSON", r#"{"event":"x"}"#] {
            assert_eq!(with_host(other, "box1"), other);
        }
    }
}
