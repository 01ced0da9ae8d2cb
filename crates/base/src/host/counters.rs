//! Counters of the kernel: files in `/proc` and `/sys`, which have no length before they are read, and values that need not be
//! read more often than the kernel's clock ticks.

use std::{
    fs::File,
    io::Read as _,
    path::Path,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Bytes that most such files have at most: then one call reads them.
const MAX_FILE_BYTES: usize = 8 << 10;
/// Interval of the kernel's clock.
const TICK: Duration = Duration::from_millis(10);

/// Text of such a file; `None` if it cannot be read.
pub(super) fn text(path: impl AsRef<Path>) -> Option<String> {
    let mut text = Vec::with_capacity(MAX_FILE_BYTES);
    File::open(path).ok()?.read_to_end(&mut text).ok()?;
    // The name of a program may be anything.
    Some(String::from_utf8(text).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

/// A value that was read a short time ago.
#[derive(Debug)]
pub(super) struct Lately<T>(Mutex<Option<(Instant, T)>>);

impl<T: Copy> Lately<T> {
    pub(super) const fn new() -> Self {
        Self(Mutex::new(None))
    }

    /// The value, which is read again if the kernel's clock has ticked since.
    pub(super) fn get(&self, read: impl FnOnce() -> T) -> T {
        let mut cache = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match *cache {
            Some((at, value)) if at.elapsed() < TICK => value,
            _ => {
                let (at, value) = (Instant::now(), read());
                *cache = Some((at, value));
                value
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_value_is_read_once_in_a_tick() {
        let (cache, reads) = (Lately::new(), Cell::new(0));
        let read = || {
            reads.set(reads.get() + 1);
            reads.get()
        };
        let first = cache.get(read);
        std::thread::sleep(2 * TICK);
        assert_eq!((first, cache.get(read)), (1, 2));
        *cache.0.lock().unwrap() = Some((Instant::now() + TICK, 7));
        assert_eq!(cache.get(read), 7, "it is not older than a tick");
    }

    #[test]
    fn a_file_without_a_length_is_read() {
        assert!(text("/proc/self/stat").is_some_and(|text| text.starts_with(&std::process::id().to_string())));
        assert_eq!(text("/proc/self/missing"), None);
    }
}
