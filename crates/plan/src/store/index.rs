//! The index of the store: one line for each record, so that queries over all of them need not open thousands of
//! folders.
//!
//! `index.jsonl` describes the records, `measured.jsonl` has their metrics. Both are derived: the existing records, and changes of their
//! files, are always determined from the folders. A record that is not listed, or that has changed, is opened, compared with its digest,
//! and added; an unreadable line, or a line without record, is ignored. A line therefore also proves that its record was checked. Deleting
//! the files loses nothing.

use std::{
    collections::{HashMap, HashSet},
    fs::Metadata,
    io::{self, Write as _},
    os::unix::fs::MetadataExt as _,
    thread,
};

use fs_err as fs;
use tracing::info_span;

use super::{
    Store, StoreError, entries,
    lines::{Entry, Line, Measured},
};
use crate::{
    host::{
        log,
        replaced::{Outlives, Readers, replace},
        threads,
    },
    record::{Key, RecordError},
};

/// A number for a record's file as it is: made of its length, of the times of its last changes and of its place on the disk,
/// so that another record in its place, or an edit, has another one.
pub type Stamp = i64;

/// Jobs with a valid record among some jobs.
#[derive(Debug, Default)]
pub struct Looked {
    /// For each job, true if it has a whole record; in the order of the request.
    pub whole: Vec<bool>,
    /// For each job, the stamp of its record; `None` without a record.
    pub stamps: Vec<Option<Stamp>>,
    /// Defects of the invalid records.
    pub damaged: Vec<StoreError>,
}

/// Does something with all of these, on several threads if there are more than `least`. A thread that panics has no results:
/// its jobs run again.
fn in_parts<T: Sync, R: Send>(all: &[T], least: usize, work: impl Fn(&[T]) -> Vec<R> + Sync) -> Vec<R> {
    let threads = thread::available_parallelism().map_or(1, usize::from).min(all.len() / least + 1);
    if threads < 2 {
        return work(all);
    }
    thread::scope(|scope| {
        let parts = all.chunks(all.len().div_ceil(threads));
        let handles: Vec<_> = parts.map(|part| scope.spawn(|| work(part))).collect();
        handles.into_iter().flat_map(|handle| handle.join().unwrap_or_default()).collect()
    })
}

impl Store {
    /// An entry for every record that can be read, ordered by key.
    pub fn index(&self) -> io::Result<Vec<Entry>> {
        Ok(self.all(&self.stamps()?))
    }

    /// An entry and the measurements of every record that can be read, both ordered by key.
    pub fn measured(&self) -> io::Result<(Vec<Entry>, Vec<Measured>)> {
        let stamps = self.stamps()?;
        Ok((self.all(&stamps), self.all(&stamps)))
    }

    /// Measurements of these records, in this order; of the metrics, at least these.
    pub fn measured_by(&self, stamps: &[(Key, Stamp)], metrics: &HashSet<&str>) -> Result<Vec<Measured>, StoreError> {
        let Found { lines, unreadable, .. } = self.find(stamps, Some(metrics));
        unreadable.map_or(Ok(lines), Err)
    }

    /// The stamp of a job's record; `None` if it has none.
    pub fn stamp(&self, key: Key) -> Option<Stamp> {
        self.record_file(key).symlink_metadata().ok().filter(Metadata::is_file).map(|metadata| stamp(&metadata))
    }

    /// Jobs with a valid record among these jobs. A record is read, and compared with its digest, once for each of its
    /// stamps: the index remembers them. A record of a later version is an error.
    pub fn look(&self, keys: &[Key]) -> Result<Looked, StoreError> {
        let _span = info_span!(target: log::STORE, "look-up", keys = keys.len()).entered();
        let mut lookup = Looked { whole: vec![false; keys.len()], stamps: vec![None; keys.len()], damaged: Vec::new() };
        let shards = self.shards();
        let candidates: Vec<usize> =
            (0..keys.len()).filter(|index| shards[usize::from(keys[*index].first())]).collect();
        let present_files = in_parts(&candidates, 2000, |part| {
            let file = |index: &usize| Some((*index, self.record_file(keys[*index]).symlink_metadata().ok()?));
            part.iter().filter_map(file).collect()
        });
        let mut stamps = Vec::with_capacity(present_files.len());
        for (index, metadata) in present_files {
            if metadata.is_file() {
                stamps.push((index, stamp(&metadata)));
            } else {
                // Neither a file nor nothing.
                lookup.damaged.extend(self.get(keys[index]).err());
            }
        }
        for (index, stamp) in &stamps {
            lookup.stamps[*index] = Some(*stamp);
        }
        let stamps_by_key: HashMap<Key, Stamp> = stamps.iter().map(|(index, stamp)| (keys[*index], *stamp)).collect();
        let text = if stamps_by_key.is_empty() {
            Vec::new()
        } else {
            fs::read(self.root.join(Entry::FILE)).unwrap_or_default()
        };
        let indexed_keys = text.split(|byte| *byte == b'\n').filter_map(about);
        let indexed_keys: HashSet<Key> =
            indexed_keys.filter(|(stamp, key)| stamps_by_key.get(key) == Some(stamp)).map(|(_, key)| key).collect();
        let (indexed_records, new_records): (Vec<_>, Vec<_>) =
            stamps.into_iter().partition(|(index, _)| indexed_keys.contains(&keys[*index]));
        for (index, _) in indexed_records {
            lookup.whole[index] = true;
        }
        let records = in_parts(&new_records, 500, |part| {
            part.iter().map(|(index, stamp)| (*index, *stamp, self.get(keys[*index]))).collect()
        });
        let mut lines = Vec::new();
        for (index, stamp, record) in records {
            match record {
                Ok(Some(record)) => {
                    lookup.whole[index] = true;
                    lines.push((stamp, Entry::from(&record)));
                }
                Ok(None) => {}
                Err(error @ StoreError::Record(RecordError::Damaged { .. })) => lookup.damaged.push(error),
                Err(error) => return Err(error),
            }
        }
        if !lines.is_empty() {
            let is_torn = text.last().is_some_and(|byte| *byte != b'\n');
            self.append(is_torn, lines.iter().map(|(stamp, line)| (*stamp, line)));
        }
        Ok(lookup)
    }

    /// The sets of files that the records name, by their keys. Records that the index does not list are opened.
    pub(super) fn sets_of_records(&self) -> io::Result<Vec<(Key, String)>> {
        let keys = self.keys()?;
        let text = if keys.is_empty() { Vec::new() } else { fs::read(self.root.join(Entry::FILE)).unwrap_or_default() };
        // If several lines are about a record, the last one counts.
        let lines = text.split(|byte| *byte == b'\n').filter_map(|line| Some((about(line)?.1, named_set(line))));
        let set_by_key: HashMap<Key, Option<&str>> = lines.collect();
        let set = |key: Key| match set_by_key.get(&key) {
            Some(set) => Some((key, (*set)?.to_owned())),
            None => Some((key, self.get(key).ok().flatten()?.read?)),
        };
        Ok(keys.into_iter().filter_map(set).collect())
    }

    /// The folders of records that there are, by the first byte of their keys.
    fn shards(&self) -> [bool; 256] {
        let mut shards = [false; 256];
        let names = entries(&self.root).unwrap_or_default().into_iter();
        let names =
            names.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())).filter(|name| name.len() == 2);
        for shard in names.filter_map(|name| u8::from_str_radix(&name, 16).ok()) {
            shards[usize::from(shard)] = true;
        }
        shards
    }

    /// Returns the stamps of all records.
    fn stamps(&self) -> io::Result<Vec<(Key, Stamp)>> {
        Ok(self.keys()?.into_iter().filter_map(|key| Some((key, self.stamp(key)?))).collect())
    }

    /// Lines about all records that there are.
    fn all<L: Line>(&self, stamps: &[(Key, Stamp)]) -> Vec<L> {
        let Found { lines, written: line_count, .. } = self.find(stamps, None);
        // More than half of the lines are about missing records.
        if line_count > 2 * lines.len() + 100 {
            let stamps: HashMap<Key, Stamp> = stamps.iter().copied().collect();
            self.rewrite(lines.iter().filter_map(|line: &L| Some((*stamps.get(&line.key())?, line))));
        }
        lines
    }

    /// Returns lines about these records, and appends the lines that the file lacks to it.
    fn find<L: Line>(&self, stamps: &[(Key, Stamp)], names: Option<&HashSet<&str>>) -> Found<L> {
        let mut result = Found { lines: Vec::with_capacity(stamps.len()), written: 0, unreadable: None };
        if stamps.is_empty() {
            return result;
        }
        let text = fs::read(self.root.join(L::FILE)).unwrap_or_default();
        let (mut line_by_key, line_count) = parse::<L>(&text, &stamps.iter().copied().collect(), names);
        let mut new_lines = Vec::new();
        for (key, stamp) in stamps {
            if let Some(line) = line_by_key.remove(key) {
                result.lines.push(line);
                continue;
            }
            match self.get(*key) {
                Ok(Some(record)) => {
                    new_lines.push((*stamp, result.lines.len()));
                    let mut line = L::from(&record);
                    line.came_from(self.origin(*key));
                    result.lines.push(line);
                }
                Ok(None) => {}
                Err(error) => result.unreadable = result.unreadable.or(Some(error)),
            }
        }
        if !new_lines.is_empty() {
            let is_torn = text.last().is_some_and(|byte| *byte != b'\n');
            self.append(is_torn, new_lines.iter().map(|(stamp, index)| (*stamp, &result.lines[*index])));
        }
        result.written = line_count + new_lines.len();
        result
    }

    /// Appends lines in one write. A failure only slows down the next read.
    fn append<'e, L: Line + 'e>(&self, is_torn: bool, lines: impl Iterator<Item = (Stamp, &'e L)>) {
        let text = if is_torn { format!("\n{}", to_text(lines)) } else { to_text(lines) };
        let file = fs::OpenOptions::new().create(true).append(true).open(self.root.join(L::FILE));
        let _ = file.and_then(|mut file| file.write_all(text.as_bytes()));
    }

    fn rewrite<'e, L: Line + 'e>(&self, lines: impl Iterator<Item = (Stamp, &'e L)>) {
        let _ = replace(&self.root.join(L::FILE), to_text(lines).as_bytes(), Readers::Owner, Outlives::Process);
    }
}

/// The stamp of a record's file.
fn stamp(metadata: &Metadata) -> Stamp {
    let mut hasher = blake3::Hasher::new();
    let times = [metadata.mtime(), metadata.mtime_nsec(), metadata.ctime(), metadata.ctime_nsec()];
    for number in times.map(i64::cast_unsigned).into_iter().chain([metadata.len(), metadata.ino()]) {
        hasher.update(&number.to_le_bytes());
    }
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
    Stamp::from_le_bytes(bytes)
}

/// Content of a derived file about records.
struct Found<L> {
    /// Lines of the readable records, in the order of the request.
    lines: Vec<L>,
    /// Number of lines in the file.
    written: usize,
    /// Defect of the first record that cannot be read.
    unreadable: Option<StoreError>,
}

/// The lines about these records, by key, and how many there are in all. Long files are read by several threads.
fn parse<L: Line>(
    text: &[u8],
    stamps: &HashMap<Key, Stamp>,
    names: Option<&HashSet<&str>>,
) -> (HashMap<Key, L>, usize) {
    const PART: usize = 1 << 20;
    let threads = thread::available_parallelism().map_or(1, usize::from).min(text.len() / PART + 1);
    let mut parts = Vec::new();
    let mut remainder = text;
    for remaining_parts in (1..=threads).rev() {
        let part_size = remainder.len() / remaining_parts;
        let end = remainder[part_size.min(remainder.len())..].iter().position(|byte| *byte == b'\n');
        let (part, tail) = remainder.split_at(end.map_or(remainder.len(), |end| part_size + end + 1));
        parts.push(part);
        remainder = tail;
    }
    let read_part = |part: &[u8]| -> (Vec<L>, usize) {
        let lines = || part.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        // The key and the stamp are at the beginning of a line, so other lines need not be parsed.
        let is_relevant = |line: &&[u8]| about(line).is_some_and(|(stamp, key)| stamps.get(&key) == Some(&stamp));
        (lines().filter(is_relevant).filter_map(|line| L::parse(line, names)).collect(), lines().count())
    };
    let results = threads::each(&parts, read_part);
    let line_count = results.iter().map(|(_, line_count)| line_count).sum();
    (results.into_iter().flat_map(|(lines, _)| lines).map(|line| (line.key(), line)).collect(), line_count)
}

/// The stamp and the key with which a line begins: `[STAMP,{"key":"KEY",…`.
fn about(line: &[u8]) -> Option<(Stamp, Key)> {
    let line = line.strip_prefix(b"[")?;
    let comma = line.iter().position(|byte| *byte == b',')?;
    let tail = line[comma + 1..].strip_prefix(br#"{"key":""#)?;
    let quote = tail.iter().position(|byte| *byte == b'"')?;
    let text = |bytes| std::str::from_utf8(bytes).ok();
    Some((text(&line[..comma])?.parse().ok()?, text(&tail[..quote])?.parse().ok()?))
}

/// The set behind the key with which a line of the index begins.
fn named_set(line: &[u8]) -> Option<&str> {
    const NAME: &[u8] = br#"","read":""#;
    let tail = &line[line.iter().position(|byte| *byte == b'{')?..];
    let tail = tail.get(br#"{"key":""#.len() + 64..)?.strip_prefix(NAME)?;
    let quote = tail.iter().position(|byte| *byte == b'"')?;
    std::str::from_utf8(&tail[..quote]).ok()
}

fn to_text<'e, L: Line + 'e>(lines: impl Iterator<Item = (Stamp, &'e L)>) -> String {
    let mut text = String::new();
    // A line has text keys and nothing that is not finite: this cannot fail.
    for line in lines.filter_map(|line| serde_json::to_string(&line).ok()) {
        text.push_str(&line);
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        record::{Record, sample},
        store::Claim,
    };

    fn store_with_one() -> (tempfile::TempDir, Store, Record) {
        let results = tempfile::tempdir().unwrap();
        let store = Store::new(results.path());
        let record = sample();
        let Claim::Miss(pending) = store.claim(record.key).unwrap() else { panic!("nothing is done yet") };
        let record = pending.commit(record).unwrap();
        (results, store, record)
    }

    #[test]
    fn what_is_there_is_in_the_index_and_nothing_else() {
        let (_results, store, record) = store_with_one();
        let entry = Entry::from(&record);
        assert_eq!(store.index().unwrap(), std::slice::from_ref(&entry));
        assert_eq!(store.index().unwrap(), std::slice::from_ref(&entry), "from the file");
        assert_eq!(fs::read_to_string(store.root.join(Entry::FILE)).unwrap().lines().count(), 1, "it is there once");
        fs::remove_dir_all(store.folder(record.key)).unwrap();
        assert_eq!(store.index().unwrap(), [], "what is gone is gone");
    }

    #[test]
    fn a_damaged_index_is_mended() {
        let (_results, store, record) = store_with_one();
        let entry = [Entry::from(&record)];
        let index_text = to_text(entry.iter().map(|entry| (store.stamp(record.key).unwrap(), entry)));
        for text in [String::new(), "noise\n".into(), index_text[..index_text.len() / 2].to_owned(), "{}\n".repeat(500)]
        {
            fs::write(store.root.join(Entry::FILE), &text).unwrap();
            assert_eq!(store.index().unwrap(), entry);
            let repaired_text = fs::read_to_string(store.root.join(Entry::FILE)).unwrap();
            assert!(repaired_text.ends_with(&index_text) && repaired_text.lines().count() < 5, "{repaired_text}");
        }
    }
    /// A job that has run again has the same key, but may have other measurements.
    #[test]
    fn what_was_written_since_is_read_anew() {
        let (_results, store, record) = store_with_one();
        let stamp = store.stamp(record.key).unwrap();
        let read_measured = |stamp| store.measured_by(&[(record.key, stamp)], &HashSet::from(["value"])).unwrap();
        assert_eq!(read_measured(stamp), [Measured::from(&record)]);
        let no_metrics = store.measured_by(&[(record.key, stamp)], &HashSet::new()).unwrap();
        assert!(no_metrics[0].metrics.is_empty(), "what nobody asks for is not read");
        let mut changed_record = record.clone();
        changed_record.outcome.set(&sweep_job::tasks::Mock::VALUE, 7.0);
        let path = store.folder(record.key).join("record.json");
        fs::write(&path, serde_json::to_vec(&changed_record).unwrap()).unwrap();
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
        assert_eq!(read_measured(store.stamp(record.key).unwrap()), [Measured::from(&changed_record)]);
        assert_eq!(
            store.measured().unwrap().1,
            [Measured::from(&changed_record)],
            "the line of the earlier one counts no more"
        );
    }
}
