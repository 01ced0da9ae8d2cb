//! An object: a line that says what follows, and an archive with one record.

use std::io::{self, BufRead as _, BufReader, BufWriter, Read, Seek as _, SeekFrom, Write};

/// The first word of the line, and the form's version.
const WORD: &str = "sweep-record 1";

/// Writes an archive behind its line, to an empty file; what is written is the digest of what `archive` writes.
pub(super) fn seal<E: From<io::Error>>(
    file: &mut std::fs::File,
    archive: impl FnOnce(&mut dyn Write) -> Result<(), E>,
) -> Result<(), E> {
    let blank = line(&"0".repeat(64), 0);
    file.write_all(blank.as_bytes())?;
    let (digest, bytes) = {
        let mut counted = Counted { to: BufWriter::new(&mut *file), hasher: blake3::Hasher::new(), bytes: 0 };
        archive(&mut counted)?;
        counted.flush()?;
        (counted.hasher.finalize(), counted.bytes)
    };
    let line = line(digest.to_hex().as_str(), bytes);
    file.seek(SeekFrom::Start(0))?;
    file.write_all(line.as_bytes())?;
    file.seek(SeekFrom::Start(0))?;
    Ok(())
}

/// Checks what follows the line and leaves the file at the archive's beginning; or says what is wrong.
pub(super) fn open(file: &mut std::fs::File) -> io::Result<Result<(), String>> {
    file.seek(SeekFrom::Start(0))?;
    let mut reader = BufReader::new(&mut *file);
    let mut first = String::new();
    if (&mut reader).take(200).read_line(&mut first).is_err() {
        return Ok(Err("it is no record".into()));
    }
    let said = first.strip_prefix(WORD).and_then(|rest| {
        let mut words = rest.split_whitespace();
        Some((words.next()?.to_owned(), words.next()?.parse::<u64>().ok()?))
    });
    let Some((digest, bytes)) = said else { return Ok(Err("it is no record".into())) };
    let mut hasher = blake3::Hasher::new();
    let found = io::copy(&mut reader, &mut hasher)?;
    if found != bytes {
        return Ok(Err(format!("it has {found} bytes instead of {bytes}")));
    }
    if hasher.finalize().to_hex().as_str() != digest {
        return Ok(Err("it is damaged: its digest is wrong".into()));
    }
    file.seek(SeekFrom::Start(first.len() as u64))?;
    Ok(Ok(()))
}

/// Always of the same length.
fn line(digest: &str, bytes: u64) -> String {
    format!("{WORD} {digest} {bytes:020}\n")
}

struct Counted<W> {
    to: W,
    hasher: blake3::Hasher,
    bytes: u64,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.to.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed() -> std::fs::File {
        let mut file = tempfile::tempfile().unwrap();
        seal::<io::Error>(&mut file, |to| to.write_all(b"the archive")).unwrap();
        file
    }

    fn bytes(file: &mut std::fs::File) -> Vec<u8> {
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn what_is_sealed_is_opened() {
        let mut file = sealed();
        open(&mut file).unwrap().unwrap();
        assert_eq!(bytes(&mut file), b"the archive");
    }

    #[test]
    fn no_byte_can_be_changed_and_none_be_missing() {
        let whole = bytes(&mut sealed());
        let opened = |bytes: &[u8]| {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(bytes).unwrap();
            open(&mut file).unwrap()
        };
        opened(&whole).unwrap();
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            // But for what counts the same in another notation.
            assert!(opened(&changed).is_err(), "byte {at}");
            assert!(opened(&whole[..at]).is_err(), "{at} bytes");
        }
        opened(&[whole.as_slice(), b"more"].concat()).unwrap_err();
        opened(&[0xff; 300]).unwrap_err();
    }
}
