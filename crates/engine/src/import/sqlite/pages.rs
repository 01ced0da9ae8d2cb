//! The pages of an `SQLite` database. Pages in its write-ahead log take precedence.

use std::{
    collections::HashMap,
    fs::File,
    io,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    time::SystemTime,
};

use super::SqliteError;

/// Beginning of a database.
const MAGIC: &[u8] = b"SQLite format 3\0";
/// Bytes of the header of a database, of a write-ahead log, and of a frame of it.
const HEADER: usize = 100;
const LOG_HEADER: usize = 32;
const FRAME_HEADER: usize = 24;
/// Beginnings of a rollback journal and of a write-ahead log; the lowest bit of the latter is set if its sums are of big-endian words.
const JOURNAL_MAGIC: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];
const LOG_MAGIC: u32 = 0x377f_0682;

/// The state of a database: it has changed since if one of these has. Changes that are only added to the write-ahead log do not count,
/// because pages that were there keep their content.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct State {
    length: u64,
    modified: SystemTime,
    header: Vec<u8>,
    log_header: Option<Vec<u8>>,
    has_journal: bool,
}

impl State {
    /// The state of the database at a path.
    pub(crate) fn of(path: &Path) -> Result<Self, SqliteError> {
        Self::read(path).map_err(|source| SqliteError::Io { path: path.to_owned(), source })
    }

    fn read(path: &Path) -> io::Result<Self> {
        let metadata = std::fs::metadata(path)?;
        Ok(Self {
            length: metadata.len(),
            modified: metadata.modified()?,
            header: beginning(path, HEADER).unwrap_or_default(),
            log_header: beginning(&beside(path, "-wal"), LOG_HEADER),
            has_journal: beside(path, "-journal").exists(),
        })
    }
}

/// The first `length` bytes of a file; `None` if it is shorter.
fn beginning(path: &Path, length: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; length];
    opened(path).ok()??.read_exact_at(&mut bytes, 0).ok()?;
    Some(bytes)
}

/// The path of a file that belongs to a database.
fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.to_owned().into_os_string();
    name.push(end);
    name.into()
}

/// The pages of a database.
pub(super) struct Pages {
    path: PathBuf,
    file: File,
    size: usize,
    reserved: usize,
    count: usize,
    /// The write-ahead log, and the place of each page in it.
    log: Option<(File, HashMap<u32, u64>)>,
}

impl Pages {
    pub(super) fn open(path: &Path) -> Result<Self, SqliteError> {
        let failed = |source: io::Error| SqliteError::Io { path: path.to_owned(), source };
        let format = |reason: &str| SqliteError::Format { path: path.to_owned(), reason: reason.to_owned() };
        let file = opened(path).map_err(failed)?.ok_or_else(|| format("it is not a file"))?;
        let length = file.metadata().map_err(failed)?.len();
        let mut header = [0; HEADER];
        file.read_exact_at(&mut header, 0).map_err(|_| format("it is too short"))?;
        if !header.starts_with(MAGIC) {
            return Err(format("it does not have the header of a database"));
        }
        let size = match u16::from_be_bytes([header[16], header[17]]) {
            1 => 65_536,
            size => usize::from(size),
        };
        let reserved = usize::from(header[20]);
        if !size.is_power_of_two() || size < 512 || size - reserved < 480 {
            return Err(format("the size of its pages is invalid"));
        }
        // 0 if the database is empty.
        if u32::from_be_bytes([header[56], header[57], header[58], header[59]]) > 1 {
            return Err(format("its texts are not UTF-8"));
        }
        let mut pages = Self { path: path.to_owned(), file, size, reserved, count: 0, log: None };
        if pages.is_interrupted() {
            return Err(format(
                "a change of it is under way or was interrupted: import it later, or open it once with `sqlite3`, which repairs it",
            ));
        }
        pages.log = pages.read_log().map_err(failed)?;
        let logged = pages.log.as_ref().map_or(0, |(_, places)| places.len());
        pages.count = usize::try_from(length / size as u64).unwrap_or(usize::MAX).saturating_add(logged);
        Ok(pages)
    }

    /// True if there is a rollback journal, with which the change of a killed program would be undone.
    fn is_interrupted(&self) -> bool {
        let Ok(Some(journal)) = opened(&beside(&self.path, "-journal")) else { return false };
        let mut magic = [0; 8];
        journal.read_exact_at(&mut magic, 0).is_ok() && magic == JOURNAL_MAGIC
    }

    /// The pages of the finished changes in the write-ahead log, if there is one.
    fn read_log(&self) -> io::Result<Option<(File, HashMap<u32, u64>)>> {
        let log = match opened(&beside(&self.path, "-wal")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            log => log?,
        };
        let Some(log) = log else { return Ok(None) };
        let mut header = [0; LOG_HEADER];
        if log.read_exact_at(&mut header, 0).is_err() {
            return Ok(None);
        }
        let is_big_endian = match word(&header, 0) ^ LOG_MAGIC {
            0 => false,
            1 => true,
            _ => return Ok(None),
        };
        let mut sum = sums([0, 0], &header[..24], is_big_endian);
        if word(&header, 8) as usize != self.size || sum != [word(&header, 24), word(&header, 28)] {
            return Ok(None);
        }
        let (mut places, mut uncommitted_places) = (HashMap::new(), Vec::new());
        let mut frame = vec![0; FRAME_HEADER + self.size];
        let mut at = LOG_HEADER as u64;
        // The first frame that is torn or of an earlier log ends it.
        while log.read_exact_at(&mut frame, at).is_ok() {
            sum = sums(sums(sum, &frame[..8], is_big_endian), &frame[FRAME_HEADER..], is_big_endian);
            if frame[8..16] != header[16..24] || sum != [word(&frame, 16), word(&frame, 20)] {
                break;
            }
            uncommitted_places.push((word(&frame, 0), at + FRAME_HEADER as u64));
            // The last frame of a change has the size of the database.
            if word(&frame, 4) != 0 {
                places.extend(uncommitted_places.drain(..));
            }
            at += frame.len() as u64;
        }
        Ok((!places.is_empty()).then_some((log, places)))
    }

    /// The content of a page, from 1.
    pub(super) fn read(&self, number: u32) -> Result<Vec<u8>, SqliteError> {
        let mut page = vec![0; self.size];
        let logged = self.log.as_ref().and_then(|(log, places)| Some((log, *places.get(&number)?)));
        let result = match (logged, number.checked_sub(1)) {
            (Some((log, at)), _) => log.read_exact_at(&mut page, at),
            (None, Some(before)) => self.file.read_exact_at(&mut page, u64::from(before) * self.size as u64),
            (None, None) => return Err(self.damaged("it names page 0")),
        };
        result.map(|()| page).map_err(|_| self.damaged(&format!("page {number} is not there")))
    }

    /// The number of pages at most.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Bytes of a page that have content.
    pub(super) fn usable(&self) -> usize {
        self.size - self.reserved
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn damaged(&self, reason: &str) -> SqliteError {
        SqliteError::Format { path: self.path.clone(), reason: reason.to_owned() }
    }
}

/// Opens a regular file; `None` for anything else, because opening a pipe waits for another program.
fn opened(path: &Path) -> io::Result<Option<File>> {
    if std::fs::metadata(path)?.is_file() { File::open(path).map(Some) } else { Ok(None) }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_be_bytes)
}

/// The sums of a write-ahead log after these bytes, whose number is a multiple of 8.
fn sums(mut sum: [u32; 2], bytes: &[u8], is_big_endian: bool) -> [u32; 2] {
    let read = |bytes: &[u8]| {
        let bytes = bytes.try_into().unwrap_or_default();
        if is_big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    };
    for two in bytes.chunks_exact(8) {
        sum[0] = sum[0].wrapping_add(read(&two[..4])).wrapping_add(sum[1]);
        sum[1] = sum[1].wrapping_add(read(&two[4..])).wrapping_add(sum[0]);
    }
    sum
}
