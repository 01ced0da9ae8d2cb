//! Lines of a program's output.

/// Maximum length of a line, in bytes; a longer line is cut at a space.
const MAX_LINE_LENGTH: usize = 1 << 16;

/// Output that becomes lines.
pub(super) struct Lines {
    line: Vec<u8>,
    is_cut: bool,
    /// True if a backspace ends a line: bars of progress go back to write over a line.
    has_bars: bool,
}

impl Lines {
    /// Lines of the output of one process (`has_bars`), or of several whose lines have labels.
    pub(super) fn new(has_bars: bool) -> Self {
        Self { line: Vec::new(), is_cut: false, has_bars }
    }

    /// Passes the lines that these bytes complete to `on_line`, each with `true` if it was cut.
    pub(super) fn feed(&mut self, bytes: &[u8], on_line: &mut dyn FnMut(&[u8], bool)) {
        for byte in bytes {
            match byte {
                b'\x08' if self.has_bars && self.line.is_empty() => {}
                b'\x08' if self.has_bars => self.pass(on_line),
                b'\n' | b'\r' => self.pass(on_line),
                _ if self.line.len() < MAX_LINE_LENGTH => self.line.push(*byte),
                _ => self.is_cut = true,
            }
        }
    }

    /// Passes on the last line, which has no end.
    pub(super) fn end(&mut self, on_line: &mut dyn FnMut(&[u8], bool)) {
        if self.has_bars || !self.line.is_empty() {
            self.pass(on_line);
        }
    }

    fn pass(&mut self, on_line: &mut dyn FnMut(&[u8], bool)) {
        // A number at the end of a part may be a part, too.
        let space = self.line.iter().rposition(u8::is_ascii_whitespace).filter(|_| self.is_cut);
        on_line(&self.line[..space.unwrap_or(self.line.len())], self.is_cut);
        self.line.clear();
        self.is_cut = false;
    }
}
