//! Input files as memory, without reading them first.

use std::{io, path::Path};

use memmap2::Mmap;

/// The content of `path`, mapped; an empty file gives `None`, because nothing can be mapped.
#[expect(unsafe_code, reason = "a mapped file is memory that another process could change")]
pub(crate) fn map(path: &Path) -> io::Result<Option<Mmap>> {
    let file = fs_err::File::open(path)?;
    if file.metadata()?.len() == 0 {
        return Ok(None);
    }
    // SAFETY: the mapping is read-only and private to this process. Another process that truncates an input while a job
    // reads it would end the job with SIGBUS; inputs are hashed before the job starts and must not change during it.
    unsafe { Mmap::map(file.file()) }.map(Some)
}
