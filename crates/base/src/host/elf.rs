//! Identifiers in programs and shared libraries (ELF files).

use std::{fmt::Write as _, io, path::Path};

use fs_err as fs;
use object::{
    Endianness, ReadCache, ReadRef,
    elf::{ELF_NOTE_GNU, FileHeader64, NT_GNU_BUILD_ID},
    read::elf::{FileHeader as _, ProgramHeader as _},
};

/// Text before the version in the GNU C library, which the distribution sets: `Debian GLIBC 2.36-9`.
const LIBC: &[u8] = b"GNU C Library (";
/// Longest version that is read, in bytes.
const MAX_VERSION_LENGTH: usize = 100;

/// The build ID of a 64-bit ELF file, which its linker computed from its content, in hexadecimal; `None` for a file
/// without one.
///
/// # Errors
///
/// If the file cannot be opened.
pub fn build_id(path: &Path) -> io::Result<Option<String>> {
    let file = fs::File::open(path)?;
    Ok(noted(&ReadCache::new(file.file())).filter(|id| !id.is_empty()).map(hexadecimal))
}

/// The version of the GNU C library whose file has `content`; `None` if there is none.
pub fn libc_version(content: &[u8]) -> Option<String> {
    let at = content.windows(LIBC.len()).position(|part| part == LIBC)? + LIBC.len();
    let tail = content.get(at..)?;
    let end = tail.iter().take(MAX_VERSION_LENGTH).position(|byte| *byte == b')')?;
    str::from_utf8(&tail[..end]).ok().map(str::to_owned)
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The build ID in the notes of a 64-bit ELF file; `None` for other files and without such a note.
fn noted<'data>(data: impl ReadRef<'data>) -> Option<&'data [u8]> {
    let header = FileHeader64::<Endianness>::parse(data).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, data).ok()?;
    let mut notes = segments.iter().filter_map(|segment| segment.notes(endian, data).ok()?);
    notes.find_map(|mut notes| {
        while let Ok(Some(note)) = notes.next() {
            if note.name() == ELF_NOTE_GNU && note.n_type(endian) == NT_GNU_BUILD_ID {
                return Some(note.desc());
            }
        }
        None
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::program;

    #[test]
    fn a_file_has_the_id_that_its_linker_gave_it() {
        let id_of = |bytes: &[u8]| noted(bytes).map(hexadecimal);
        assert_eq!(id_of(b"#!/bin/sh\n"), None, "no ELF file");
        let content = fs::read(program().unwrap()).unwrap();
        assert_eq!(id_of(&content[..64]), None, "cut after the header");
        assert_eq!(id_of(&content), build_id(&program().unwrap()).unwrap());
        assert!(build_id(Path::new("/none")).is_err());
    }

    #[test]
    fn the_c_library_has_its_version_in_a_sentence() {
        let version = libc_version(b"\0x GNU C Library (Debian GLIBC 2.36-9+deb12u9) stable release version 2.36.\n");
        assert_eq!(version.as_deref(), Some("Debian GLIBC 2.36-9+deb12u9"));
        assert_eq!(libc_version(b"GNU C Library (no end"), None);
        assert_eq!(libc_version(b""), None);
    }
}
