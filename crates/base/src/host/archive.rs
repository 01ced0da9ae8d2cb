//! External archives, read so that no entry takes more memory than a path.

use std::{
    ffi::OsString,
    io::{self, Read},
    os::unix::ffi::OsStringExt as _,
    path::PathBuf,
};

use tar::{Archive, Entry, EntryType};

/// Maximum length of a path, in bytes.
const MAX_PATH_LENGTH: u64 = 16 << 10;

/// A file, a folder or a link in an archive.
pub struct Item<'e, 'a, R: Read> {
    /// Path to unpack to.
    pub path: PathBuf,
    /// Target, if it is a link.
    pub link: Option<PathBuf>,
    /// The entry with its type and content.
    pub entry: &'e mut Entry<'a, R>,
}

/// An archive that cannot be read on.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Unreadable(String);

impl From<io::Error> for Unreadable {
    fn from(error: io::Error) -> Self {
        Self(error.to_string())
    }
}

/// Goes through an archive's entries. Names that are too long for a header may precede it in separate entries (GNU);
/// all other extension entries are rejected, and so are sparse files, a few bytes of which can stand for any number.
pub fn each<R: Read, E: From<Unreadable>>(
    from: R,
    mut take: impl FnMut(Item<'_, '_, R>) -> Result<(), E>,
) -> Result<(), E> {
    let mut archive = Archive::new(from);
    let (mut path, mut link) = (None, None);
    for entry in archive.entries().map_err(Unreadable::from)?.raw(true) {
        let mut entry = entry.map_err(Unreadable::from)?;
        match entry.header().entry_type() {
            EntryType::GNULongName => path = Some(long(&mut entry)?),
            EntryType::GNULongLink => link = Some(long(&mut entry)?),
            kind @ (EntryType::GNUSparse | EntryType::XHeader | EntryType::XGlobalHeader) => {
                let kind = char::from(kind.as_byte());
                return Err(Unreadable(format!("it has an entry of the unsupported kind {kind:?}")).into());
            }
            _ => {
                let path = match path.take() {
                    Some(path) => path,
                    None => entry.path().map_err(Unreadable::from)?.into_owned(),
                };
                let link = match link.take() {
                    Some(link) => Some(link),
                    None => entry.link_name().map_err(Unreadable::from)?.map(std::borrow::Cow::into_owned),
                };
                take(Item { path, link, entry: &mut entry })?;
            }
        }
    }
    Ok(())
}

/// Reads a name that is too long for a header from its own entry (GNU).
fn long(entry: &mut impl Read) -> Result<PathBuf, Unreadable> {
    let mut name = Vec::new();
    entry.take(MAX_PATH_LENGTH + 1).read_to_end(&mut name)?;
    if name.len() as u64 > MAX_PATH_LENGTH {
        return Err(Unreadable("it has a name that is longer than any path".to_owned()));
    }
    if name.last() == Some(&0) {
        name.pop();
    }
    Ok(PathBuf::from(OsString::from_vec(name)))
}

#[cfg(test)]
mod tests {
    use tar::{Builder, Header};

    use super::*;

    fn header(kind: EntryType, bytes: u64) -> Header {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(bytes);
        header.set_mode(0o644);
        header
    }

    fn paths(archive: &[u8]) -> Result<Vec<(PathBuf, Option<PathBuf>, u64)>, Unreadable> {
        let mut items = Vec::new();
        each(archive, |item| {
            items.push((item.path, item.link, item.entry.size()));
            Ok::<(), Unreadable>(())
        })?;
        Ok(items)
    }

    #[test]
    fn long_names_are_read() {
        let (long, longer) = ("d/".repeat(100) + "file", "e/".repeat(200) + "file");
        let mut archive = Builder::new(Vec::new());
        archive.append_data(&mut header(EntryType::Regular, 3), "short", &b"abc"[..]).unwrap();
        archive.append_data(&mut header(EntryType::Regular, 3), &long, &b"abc"[..]).unwrap();
        archive.append_link(&mut header(EntryType::Symlink, 0), &long, &longer).unwrap();
        let items = paths(&archive.into_inner().unwrap()).unwrap();
        assert_eq!(items[0], ("short".into(), None, 3));
        assert_eq!(items[1], (long.clone().into(), None, 3));
        assert_eq!(items[2], (long.into(), Some(longer.into()), 0));
    }

    /// A header declares the length of its content; a reader that trusted it would allocate memory for content that never
    /// comes.
    #[test]
    fn what_would_take_memory_is_refused() {
        let header_bytes = |kind, bytes| {
            let mut header = header(kind, bytes);
            header.set_path("x").unwrap();
            header.set_cksum();
            header.as_bytes().to_vec()
        };
        for (kind, word) in [
            (EntryType::GNULongName, "longer than any path"),
            (EntryType::GNULongLink, "longer than any path"),
            (EntryType::GNUSparse, "kind 'S'"),
            (EntryType::XHeader, "kind 'x'"),
            (EntryType::XGlobalHeader, "kind 'g'"),
        ] {
            let start = header_bytes(kind, 1 << 40);
            let mut bytes_read = 0;
            let archive = Counted(start.as_slice().chain(io::repeat(b'x')), &mut bytes_read);
            let error = each(archive, |_| Ok::<(), Unreadable>(())).unwrap_err();
            assert!(error.to_string().contains(word), "{error}");
            assert!(bytes_read < 1 << 20, "{bytes_read} bytes were read");
        }
    }

    struct Counted<'a, R>(R, &'a mut u64);

    impl<R: Read> Read for Counted<'_, R> {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            let count = self.0.read(to)?;
            *self.1 += count as u64;
            Ok(count)
        }
    }
}
