//! Lines that have nothing to do with progress, written so that they do not break the bars.

use std::{
    io::{self, Write},
    sync::{Mutex, PoisonError},
};

use indicatif::MultiProgress;

/// The bars that are on the terminal now.
static BARS: Mutex<Option<MultiProgress>> = Mutex::new(None);

/// Bars are on the terminal until this is dropped.
#[derive(Debug)]
pub(super) struct Shown(());

impl Shown {
    pub(super) fn new(bars: &MultiProgress) -> Self {
        *BARS.lock().unwrap_or_else(PoisonError::into_inner) = Some(bars.clone());
        Self(())
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        *BARS.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// Standard error, above the bars if there are any. Each write must consist of whole lines.
#[derive(Debug, Clone, Copy, Default)]
pub struct Screen;

impl Write for Screen {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        let bars = BARS.lock().unwrap_or_else(PoisonError::into_inner);
        match &*bars {
            Some(bars) => bars.println(String::from_utf8_lossy(text).trim_end())?,
            None => io::stderr().write_all(text)?,
        }
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
