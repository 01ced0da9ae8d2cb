//! File systems that are mounted inside of the folder of a view, and the options of overlays.

use std::{
    collections::BTreeSet,
    ffi::{CString, OsString},
    fs::{self, DirBuilder},
    io,
    os::unix::{
        ffi::{OsStrExt as _, OsStringExt as _},
        fs::DirBuilderExt as _,
    },
    path::{Path, PathBuf},
};

/// Maximum number of mounts inside of a view's folder.
pub(super) const MAX_MOUNTS: usize = 32;

/// A file system that is mounted inside of the folder of a view: the overlay of the folder does not contain it.
#[derive(Debug, Clone)]
pub(super) struct Mounted {
    pub(super) path: CString,
    /// Options of its own overlay, and those in a user namespace; `None` if writes reach the file system.
    pub(super) overlay: Option<[CString; 2]>,
}

impl Mounted {
    /// The mount at `path`, `inner` from the folder of the view. Its overlay has the folder `work` of its own and writes to the files
    /// `upper` of the view. A mount that contains these, or that is no folder, has no overlay.
    fn new(path: &Path, inner: &Path, upper: &Path, work: &Path) -> io::Result<Self> {
        let has_results = fs::canonicalize(upper)?.starts_with(path);
        let overlay = if has_results || !path.is_dir() {
            None
        } else {
            let upper = upper.join(inner);
            DirBuilder::new().recursive(true).mode(0o755).create(&upper)?;
            DirBuilder::new().recursive(true).create(work)?;
            Some(options(path, &upper, work)?)
        };
        Ok(Self { path: text(path)?, overlay })
    }
}

/// The mounts at `paths`, inside of the folder of a view that writes to `upper` in `place`.
pub(super) fn of_view(paths: &[PathBuf], folder: &Path, upper: &Path, place: &Path) -> io::Result<Vec<Mounted>> {
    if paths.len() > MAX_MOUNTS {
        let folder = folder.display();
        return Err(io::Error::other(format!("more than {MAX_MOUNTS} file systems are mounted inside of `{folder}`")));
    }
    let mounted = |(index, path): (usize, &PathBuf)| {
        let inner = path.strip_prefix(folder).unwrap_or(path);
        Mounted::new(path, inner, upper, &place.join(format!("work-{index}")))
    };
    paths.iter().enumerate().map(mounted).collect()
}

/// The points inside of a folder at which this process has file systems mounted, the outer ones first.
pub(super) fn below(folder: &Path) -> Vec<PathBuf> {
    let table = fs::read("/proc/self/mountinfo").unwrap_or_default();
    let points = table.split(|byte| *byte == b'\n').filter_map(|line| line.split(|byte| *byte == b' ').nth(4));
    let points = points.map(unescaped).filter(|point| point.starts_with(folder) && point != folder);
    points.collect::<BTreeSet<PathBuf>>().into_iter().collect()
}

/// A path of the table of mounts, in which spaces, tabs, line breaks and backslashes are octal numbers of three digits.
fn unescaped(field: &[u8]) -> PathBuf {
    let (mut bytes, mut rest) = (Vec::with_capacity(field.len()), field);
    while let Some((first, others)) = rest.split_first() {
        let digits = others.get(..3).filter(|_| *first == b'\\').and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => (bytes.push(byte), rest = &others[3..]),
            None => (bytes.push(*first), rest = others),
        };
    }
    PathBuf::from(OsString::from_vec(bytes))
}

/// The options of an overlay, and those in a user namespace.
pub(super) fn options(lower: &Path, upper: &Path, work: &Path) -> io::Result<[CString; 2]> {
    let mut options = OsString::from("lowerdir=");
    options.push(escaped(lower));
    options.push(",upperdir=");
    options.push(escaped(upper));
    options.push(",workdir=");
    options.push(escaped(work));
    let mut user_options = options.clone();
    user_options.push(",userxattr");
    Ok([text(Path::new(&options))?, text(Path::new(&user_options))?])
}

/// A path as an option of an overlay.
fn escaped(path: &Path) -> OsString {
    let mut bytes = Vec::new();
    for byte in path.as_os_str().as_bytes() {
        if matches!(byte, b'\\' | b':' | b',') {
            bytes.push(b'\\');
        }
        bytes.push(*byte);
    }
    OsString::from_vec(bytes)
}

pub(super) fn text(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(io::Error::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn octal_numbers_of_the_table_of_mounts_are_bytes() {
        assert_eq!(unescaped(br"/a\040b\134c\012"), Path::new("/a b\\c\n"));
        assert_eq!(unescaped(br"/end\04"), Path::new(r"/end\04"));
    }
}
