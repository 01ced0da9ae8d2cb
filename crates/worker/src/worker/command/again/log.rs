//! The part of a finished program's log that its last attempt wrote.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read, Seek as _, SeekFrom},
    ops::Range,
    path::{Path, PathBuf},
};

use sweep_job::{
    Metric,
    tasks::{Command, launched},
};

use super::super::{
    lines::Lines,
    words::{Word, metric, plain, understand},
};
use crate::record::Record;

/// The output of a job's attempts.
pub(super) struct Log {
    path: PathBuf,
    /// Offsets of the beginning and the end of the last attempt, in bytes.
    from: u64,
    end: u64,
    /// True if every line begins with the rank of the process that wrote it: `[0] `.
    has_ranks: bool,
}

impl Log {
    /// The log of a record, checked with its digest. The error is a phrase with the reason why the log cannot be used.
    pub(super) fn of(record: &Record, path: Option<&Path>) -> Result<Self, String> {
        let no_log = || "the log of its run is gone".to_owned();
        let path = path.ok_or_else(no_log)?.to_owned();
        let length = std::fs::metadata(&path).map_err(|_| no_log())?.len();
        let attempts = record.provenance.conditions.as_ref().map_or(1, |conditions| conditions.attempts);
        let total_attempts = record.outcome.value(&Command::ATTEMPTS);
        if total_attempts.is_some_and(|total| total > f64::from(attempts)) {
            return Err("earlier attempts are in the logs of other runs".into());
        }
        if record.provenance.continued.is_some() {
            return Err("it continued from the state of another job, whose steps are in another log".into());
        }
        let has_ranks = launched(&record.params).is_some();
        let Some(recorded_log) = &record.provenance.log else {
            if attempts > 1 {
                return Err("its log, of an earlier version, does not mark the beginning of its last attempt".into());
            }
            return Ok(Self { path, from: 0, end: length, has_ranks });
        };
        let is_whole = || -> io::Result<bool> {
            let Some(digest) = &recorded_log.blake3 else { return Ok(length >= recorded_log.bytes) };
            let mut hasher = blake3::Hasher::new();
            hasher.update_reader(File::open(&path)?.take(recorded_log.bytes))?;
            Ok(hasher.finalize().to_hex().as_str() == digest)
        };
        match is_whole() {
            Ok(true) => {
                Ok(Self { path, from: recorded_log.from.min(recorded_log.bytes), end: recorded_log.bytes, has_ranks })
            }
            Ok(false) => Err("the log of its run is not what the job wrote".into()),
            Err(error) => Err(format!("the log of its run cannot be read: {error}")),
        }
    }

    /// The byte ranges of the earlier attempts and of the last one, without empty ones.
    pub(super) fn parts(&self) -> impl Iterator<Item = Range<u64>> + use<> {
        [0..self.from, self.from..self.end].into_iter().filter(|part| !part.is_empty())
    }

    /// Passes the lines of the first process in a byte range to `on_line`.
    pub(super) fn lines(&self, part: Range<u64>, on_line: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        let mut file = File::open(&self.path)?;
        file.seek(SeekFrom::Start(part.start))?;
        let mut reader = file.take(part.end - part.start);
        let mut buffer = vec![0; 1 << 16];
        let mut lines = Lines::new(!self.has_ranks);
        let mut pass = |line: &[u8], _is_cut: bool| {
            let own_line = if self.has_ranks { line.strip_prefix(b"[0] ") } else { Some(line) };
            own_line.into_iter().for_each(&mut *on_line);
        };
        loop {
            let count = reader.read(&mut buffer)?;
            lines.feed(&buffer[..count], &mut pass);
            if count == 0 {
                lines.end(&mut pass);
                return Ok(());
            }
        }
    }

    /// The metrics of lines `name=value` of the last attempt; `None` for a value that is not finite.
    pub(super) fn words(&self) -> BTreeMap<String, Option<Metric>> {
        let mut numbers = BTreeMap::new();
        // A read error only ends the lines early, and is unlikely: `Log::of` has just read the whole log for its
        // digest.
        let _ = self.lines(self.from..self.end, &mut |line| {
            if let Some(Word::Metric(name, value, unit)) = understand(&plain(line)) {
                numbers.insert(name, value.is_finite().then(|| metric(value, unit)));
            }
        });
        numbers
    }
}
