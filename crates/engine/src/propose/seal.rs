//! Sealed seeds: drawn from a secret of the store and from their purpose, unknown before they are used.

use std::{
    collections::BTreeSet,
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
};

use fs_err as fs;

use super::ledger::{digest, settle};
use crate::{host::failpoints, store::Store};

/// Bytes of the secret and of a key.
const BYTES: usize = 32;

/// The secret of a store.
pub(super) struct Secret {
    bytes: [u8; BYTES],
    pub(super) file: PathBuf,
}

impl Secret {
    /// The secret, which is drawn at the first use.
    pub(super) fn open(store: &Store) -> io::Result<Self> {
        let folder = store.ledger();
        let file = folder.join("secret");
        if let Some(bytes) = read(&file)? {
            return Ok(Self { bytes, file });
        }
        let temporary_folder = store.beside()?;
        fs::create_dir_all(&folder)?;
        let bytes = draw()?;
        // Temporary files are created so that only their owner may read them.
        let mut temporary = tempfile::NamedTempFile::new_in(temporary_folder)?;
        failpoints::write_all(&mut temporary, &bytes, "secret: file made", "secret: in the file")?;
        temporary.flush()?;
        temporary.as_file().sync_all()?;
        match temporary.persist_noclobber(&file) {
            Err(error) if error.error.kind() != io::ErrorKind::AlreadyExists => return Err(error.error),
            _ => {}
        }
        settle(&file)?;
        failpoints::point("secret: kept")?;
        let bytes = read(&file)?.ok_or(io::ErrorKind::NotFound)?;
        Ok(Self { bytes, file })
    }

    /// The digest that the ledger begins with.
    pub(super) fn digest(&self) -> String {
        digest(&self.bytes)
    }

    /// The key of the seeds for this purpose.
    pub(super) fn key(&self, purpose: &str) -> [u8; BYTES] {
        *blake3::keyed_hash(&self.bytes, purpose.as_bytes()).as_bytes()
    }
}

/// An unpredictable random text.
pub(super) fn nonce() -> io::Result<String> {
    Ok(reveal(&draw()?))
}

fn draw() -> io::Result<[u8; BYTES]> {
    let mut bytes = [0; BYTES];
    fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// The digest of a key, which commits to its seeds without revealing them.
pub(super) fn seal(key: &[u8; BYTES]) -> String {
    digest(key)
}

/// The key as a text, and back.
pub(super) fn reveal(key: &[u8; BYTES]) -> String {
    blake3::Hash::from_bytes(*key).to_hex().to_string()
}

/// The key that a text reveals.
pub(super) fn revealed(text: &str) -> Option<[u8; BYTES]> {
    blake3::Hash::from_hex(text).ok().map(|hash| *hash.as_bytes())
}

/// `count` seeds of a key, none of which is in `known_seeds`. They are below 2³¹, which every program accepts.
pub(super) fn seeds(key: &[u8; BYTES], count: usize, known_seeds: &BTreeSet<i64>) -> Vec<i64> {
    let mut seeds: Vec<i64> = Vec::with_capacity(count);
    let mut index: u64 = 0;
    while seeds.len() < count {
        let hash = blake3::keyed_hash(key, &index.to_le_bytes());
        let [a, b, c, d, ..] = *hash.as_bytes();
        let seed = i64::from(u32::from_le_bytes([a, b, c, d]) >> 1);
        if !known_seeds.contains(&seed) && !seeds.contains(&seed) {
            seeds.push(seed);
        }
        index += 1;
    }
    seeds
}

/// The secret in a file; `None` if there is none.
fn read(file: &Path) -> io::Result<Option<[u8; BYTES]>> {
    match fs::read(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
        Ok(bytes) => {
            let bytes = bytes.try_into().map_err(|_| io::Error::other("the secret of the ledger is damaged"))?;
            Ok(Some(bytes))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_follow_from_the_secret_and_the_purpose_only() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path());
        let first_secret = Secret::open(&store).unwrap();
        let second_secret = Secret::open(&store).unwrap();
        assert_eq!(first_secret.key("a"), second_secret.key("a"), "the secret is drawn once");
        let drawn_seeds = seeds(&first_secret.key("a"), 20, &BTreeSet::new());
        assert_eq!(drawn_seeds, seeds(&second_secret.key("a"), 20, &BTreeSet::new()));
        assert_ne!(drawn_seeds, seeds(&first_secret.key("b"), 20, &BTreeSet::new()));
        let known_seeds = BTreeSet::from([drawn_seeds[3]]);
        assert!(
            !seeds(&first_secret.key("a"), 20, &known_seeds).contains(&drawn_seeds[3]),
            "a seed of the search is none"
        );
        assert_eq!(revealed(&reveal(&first_secret.key("a"))), Some(first_secret.key("a")));
        let other_folder = tempfile::tempdir().unwrap();
        assert_ne!(Secret::open(&Store::new(other_folder.path())).unwrap().key("a"), first_secret.key("a"));
    }
}
