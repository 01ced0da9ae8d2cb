//! An object: a line with a description, and an archive with one record.
//!
//! Form 1 has the archive's digest and length in its line; form 2 also has a public key and its signature.

use std::io::{self, BufRead as _, BufReader, BufWriter, Read, Seek as _, SeekFrom, Write};

use super::sign::{PublicKey, SecretKey};

/// The first word of the line.
const WORD: &str = "sweep-record";
/// No line is longer, in bytes.
const MAX_LINE_BYTES: u64 = 400;

/// Writes an archive behind its line, to an empty file. The line has the digest of the bytes that `archive` writes, signed if
/// there is a key.
pub(super) fn seal<E: From<io::Error>>(
    file: &mut std::fs::File,
    key: Option<&SecretKey>,
    archive: impl FnOnce(&mut dyn Write) -> Result<(), E>,
) -> Result<(), E> {
    let blank_line = line(&"0".repeat(64), 0, key);
    file.write_all(blank_line.as_bytes())?;
    let (digest, bytes) = {
        let mut counter = Counted { to: BufWriter::new(&mut *file), hasher: blake3::Hasher::new(), bytes: 0 };
        archive(&mut counter)?;
        counter.flush()?;
        (counter.hasher.finalize(), counter.bytes)
    };
    let line = line(digest.to_hex().as_str(), bytes, key);
    file.seek(SeekFrom::Start(0))?;
    file.write_all(line.as_bytes())?;
    file.seek(SeekFrom::Start(0))?;
    Ok(())
}

/// Checks the data after the line and leaves the file at the archive's beginning; returns the key that signed it, if any, or
/// a description of the defect.
pub(super) fn open(file: &mut std::fs::File) -> io::Result<Result<Option<PublicKey>, String>> {
    file.seek(SeekFrom::Start(0))?;
    let mut reader = BufReader::new(&mut *file);
    let mut first_line = String::new();
    let result = (&mut reader).take(MAX_LINE_BYTES).read_line(&mut first_line);
    let Some(header) = result.ok().and_then(|_| Said::parse(&first_line)) else {
        return Ok(Err("it is not a record".into()));
    };
    let mut hasher = blake3::Hasher::new();
    let actual_bytes = io::copy(&mut reader, &mut hasher)?;
    if actual_bytes != header.bytes {
        return Ok(Err(format!("it has {actual_bytes} bytes instead of {}", header.bytes)));
    }
    if hasher.finalize().to_hex().as_str() != header.digest {
        return Ok(Err("it is damaged: its digest is wrong".into()));
    }
    if let Some((key, signature)) = header.signed
        && !key.has_signed(&claim(2, header.digest, header.bytes), signature)
    {
        return Ok(Err(format!("its signature is not that of {key}")));
    }
    let signed = header.signed.map(|(key, _)| key);
    file.seek(SeekFrom::Start(first_line.len() as u64))?;
    Ok(Ok(signed))
}

/// Content of a line.
struct Said<'l> {
    digest: &'l str,
    bytes: u64,
    signed: Option<(PublicKey, &'l str)>,
}

impl<'l> Said<'l> {
    fn parse(line: &'l str) -> Option<Self> {
        let words: Vec<&str> = line.strip_suffix('\n')?.split(' ').collect();
        let (digest, bytes, signed) = match words.as_slice() {
            [WORD, "1", digest, bytes] => (*digest, bytes, None),
            [WORD, "2", digest, bytes, key, signature] => (*digest, bytes, Some((key.parse().ok()?, *signature))),
            _ => return None,
        };
        Some(Self { digest, bytes: bytes.parse().ok()?, signed })
    }
}

/// The line has the same length with and without a key.
fn line(digest: &str, bytes: u64, key: Option<&SecretKey>) -> String {
    let Some(key) = key else { return format!("{}\n", claim(1, digest, bytes)) };
    let claim = claim(2, digest, bytes);
    format!("{claim} {} {}\n", key.public(), key.sign(&claim))
}

/// Text that is signed. The archive, and so its digest, contains the job's key: a signature is of one record in one
/// place.
fn claim(form: u32, digest: &str, bytes: u64) -> String {
    format!("{WORD} {form} {digest} {bytes:020}")
}

struct Counted<W> {
    to: W,
    hasher: blake3::Hasher,
    bytes: u64,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.to.write(bytes)?;
        self.hasher.update(&bytes[..count]);
        self.bytes += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed(key: Option<&SecretKey>) -> std::fs::File {
        let mut file = tempfile::tempfile().unwrap();
        seal::<io::Error>(&mut file, key, |writer| writer.write_all(b"the archive")).unwrap();
        file
    }

    fn key() -> SecretKey {
        crate::remote::sign::tests::key(tempfile::tempdir().unwrap().path(), "key")
    }

    fn bytes(file: &mut std::fs::File) -> Vec<u8> {
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn what_is_sealed_is_opened() {
        let own_key = key();
        for (key, signed) in [(None, None), (Some(&own_key), Some(own_key.public()))] {
            let mut file = sealed(key);
            assert_eq!(open(&mut file).unwrap(), Ok(signed));
            assert_eq!(bytes(&mut file), b"the archive");
        }
    }

    #[test]
    fn no_byte_can_be_changed_and_none_be_missing() {
        let open_bytes = |bytes: &[u8]| {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(bytes).unwrap();
            open(&mut file).unwrap()
        };
        let own_key = key();
        for archive in [bytes(&mut sealed(None)), bytes(&mut sealed(Some(&own_key)))] {
            open_bytes(&archive).unwrap();
            for index in 0..archive.len() {
                let mut changed_bytes = archive.clone();
                changed_bytes[index] ^= 1;
                assert!(open_bytes(&changed_bytes).is_err(), "byte {index}");
                assert!(open_bytes(&archive[..index]).is_err(), "{index} bytes");
            }
            open_bytes(&[archive.as_slice(), b"more"].concat()).unwrap_err();
        }
        open_bytes(&[0xff; 300]).unwrap_err();
    }

    #[test]
    fn a_signature_is_not_moved_to_another_archive() {
        let (own_key, mut other) = (key(), tempfile::tempfile().unwrap());
        let signed = bytes(&mut sealed(Some(&own_key)));
        seal::<io::Error>(&mut other, Some(&key()), |writer| writer.write_all(b"AnotherOne!")).unwrap();
        let other = bytes(&mut other);
        let words = |bytes: &[u8]| {
            let line = String::from_utf8(bytes.split(|byte| *byte == b'\n').next().unwrap().to_vec()).unwrap();
            line.split(' ').map(str::to_owned).collect::<Vec<_>>()
        };
        let (own_words, other_words) = (words(&signed), words(&other));
        let forged_text = [&other_words[..4], &own_words[4..]].concat().join(" ") + "\nAnotherOne!";
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(forged_text.as_bytes()).unwrap();
        assert!(open(&mut file).unwrap().unwrap_err().contains("signature"));
    }
}
