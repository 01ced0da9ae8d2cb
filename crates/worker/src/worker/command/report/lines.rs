//! The report file of a program, to which it appends JSON lines.

use std::{
    borrow::Cow,
    fs::File,
    io::{self, Read as _, Seek as _, SeekFrom},
    os::unix::fs::{FileExt as _, MetadataExt as _},
    path::PathBuf,
};

use serde_json::{Map, Value};

use super::{Follower, Series, number, parse_object};

/// Maximum length of a line, in bytes. A longer line is skipped.
const MAX_LINE_LENGTH: usize = 1 << 20;
/// Number of bytes at the beginning of a file that are compared to recognize a rewritten file.
const HEAD: usize = 512;
/// Maximum number of bytes that one call reads, so that a fast writer does not delay the other sources.
const MAX_AT_ONCE: u64 = 16 << 20;

/// Follows the lines that are appended to a file. The file need not exist yet; if it shrinks or is replaced, it is read
/// from its beginning again.
pub(in super::super) struct Appended {
    path: PathBuf,
    /// The file and its inode.
    file: Option<(File, u64)>,
    /// Number of bytes that were read.
    offset: u64,
    /// The first [`HEAD`] of them.
    head: Vec<u8>,
    /// The beginning of a line whose end has not been read yet.
    begun: Vec<u8>,
    /// True if that line exceeds [`MAX_LINE_LENGTH`].
    too_long: bool,
    encoding: Encoding,
    buffer: Vec<u8>,
}

/// A line, a notice that a line was too long, or a notice that the file begins anew.
pub(in super::super) enum Line<'a> {
    /// The file is read from its beginning again: the lines before it no longer count.
    Anew,
    /// A complete line, without its newline.
    Whole(&'a [u8]),
    /// A line that is longer than a mebibyte.
    TooLong,
}

impl Appended {
    pub(in super::super) fn new(path: PathBuf) -> Self {
        Self {
            path,
            file: None,
            offset: 0,
            head: Vec::new(),
            begun: Vec::new(),
            too_long: false,
            encoding: Encoding::default(),
            buffer: Vec::new(),
        }
    }

    /// Passes the new lines to `on_line`. Returns true if it stopped at [`MAX_AT_ONCE`] and the file may have more.
    pub(in super::super) fn read(&mut self, on_line: &mut dyn FnMut(Line<'_>)) -> io::Result<bool> {
        let Some((length, inode)) = self.state()? else { return Ok(false) };
        let is_other = self.file.as_ref().is_none_or(|(_, known_inode)| *known_inode != inode);
        if is_other || length < self.offset || self.is_rewritten(length) {
            if self.file.is_some() {
                on_line(Line::Anew);
            }
            self.file = Some((File::open(&self.path)?, inode));
            (self.offset, self.too_long) = (0, false);
            self.begun.clear();
            self.head.clear();
            self.encoding = Encoding::default();
        }
        let Some((file, _)) = &mut self.file else { return Ok(false) };
        if length == self.offset {
            return Ok(false);
        }
        file.seek(SeekFrom::Start(self.offset))?;
        self.buffer.resize(1 << 16, 0);
        let mut remaining_bytes = MAX_AT_ONCE;
        while remaining_bytes > 0 {
            let count = match file.read(&mut self.buffer) {
                Ok(0) => return Ok(false),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            self.offset += count as u64;
            let head_bytes = HEAD.saturating_sub(self.head.len()).min(count);
            self.head.extend_from_slice(&self.buffer[..head_bytes]);
            remaining_bytes = remaining_bytes.saturating_sub(count as u64);
            let text = self.encoding.decoded(&self.buffer[..count]);
            split(&text, &mut self.begun, &mut self.too_long, on_line);
        }
        Ok(true)
    }

    /// Passes a last line without a newline to `on_line`.
    pub(in super::super) fn rest(&mut self, on_line: &mut dyn FnMut(Line<'_>)) {
        if self.too_long {
            on_line(Line::TooLong);
        } else if !self.begun.is_empty() {
            on_line(Line::Whole(&self.begun));
        }
        self.begun.clear();
        self.too_long = false;
    }

    /// The name of the file.
    pub(in super::super) fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// The reason why the file gave no values, as a phrase about the file.
    pub(in super::super) fn absence(&self) -> &'static str {
        match self.path.metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => "was not written",
            Err(_) => "cannot be read",
            Ok(data) if !data.is_file() => "is not a file",
            Ok(data) if data.len() == 0 => "is empty",
            Ok(_) => "has no numbers",
        }
    }

    /// True if the file has grown to `length`, but begins with other bytes than before: some programs rewrite a log
    /// when its header changes.
    fn is_rewritten(&self, length: u64) -> bool {
        let Some((file, _)) = self.file.as_ref().filter(|_| length > self.offset) else { return false };
        let mut head = vec![0; self.head.len()];
        file.read_exact_at(&mut head, 0).is_ok() && head != self.head
    }

    /// Length and inode of the file, if there is one.
    fn state(&self) -> io::Result<Option<(u64, u64)>> {
        match std::fs::metadata(&self.path) {
            // A pipe is not opened, because this would block until a writer opens it.
            Ok(metadata) => Ok(metadata.is_file().then(|| (metadata.len(), metadata.ino()))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// The encoding of a file, by the mark at its beginning: UTF-8, or UTF-16 as spreadsheets and PowerShell write it.
#[derive(Debug, Default)]
enum Encoding {
    /// Nothing was read.
    #[default]
    Unknown,
    Utf8,
    Utf16 {
        is_big_endian: bool,
        /// Bytes of a character whose end was not read.
        pending: Vec<u8>,
    },
}

impl Encoding {
    /// The next bytes of the file as UTF-8, without the mark.
    fn decoded<'b>(&mut self, mut bytes: &'b [u8]) -> Cow<'b, [u8]> {
        if matches!(self, Self::Unknown) {
            let (encoding, mark) = match bytes {
                [0xef, 0xbb, 0xbf, ..] => (Self::Utf8, 3),
                [0xff, 0xfe, ..] => (Self::Utf16 { is_big_endian: false, pending: Vec::new() }, 2),
                [0xfe, 0xff, ..] => (Self::Utf16 { is_big_endian: true, pending: Vec::new() }, 2),
                _ => (Self::Utf8, 0),
            };
            *self = encoding;
            bytes = &bytes[mark..];
        }
        let Self::Utf16 { is_big_endian, pending } = self else { return bytes.into() };
        pending.extend_from_slice(bytes);
        let unit = |pair: &[u8]| match (&*is_big_endian, pair) {
            (true, [high, low]) => u16::from_be_bytes([*high, *low]),
            (false, [low, high]) => u16::from_le_bytes([*low, *high]),
            _ => 0,
        };
        let mut units: Vec<u16> = pending.chunks_exact(2).map(unit).collect();
        if units.last().is_some_and(|unit| (0xd800..0xdc00).contains(unit)) {
            units.pop();
        }
        pending.drain(..units.len() * 2);
        String::from_utf16_lossy(&units).into_bytes().into()
    }
}

fn split(mut bytes: &[u8], partial_line: &mut Vec<u8>, is_too_long: &mut bool, on_line: &mut dyn FnMut(Line<'_>)) {
    while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
        let (line, rest) = (&bytes[..end], &bytes[end + 1..]);
        bytes = rest;
        if *is_too_long || partial_line.len() + line.len() > MAX_LINE_LENGTH {
            on_line(Line::TooLong);
        } else if partial_line.is_empty() {
            on_line(Line::Whole(line));
        } else {
            partial_line.extend_from_slice(line);
            on_line(Line::Whole(partial_line));
        }
        partial_line.clear();
        *is_too_long = false;
    }
    if *is_too_long || partial_line.len() + bytes.len() > MAX_LINE_LENGTH {
        *is_too_long = true;
        partial_line.clear();
        // Frees the memory that the beginning of the line has taken.
        partial_line.shrink_to(0);
    } else {
        partial_line.extend_from_slice(bytes);
    }
}

/// Follows the file `SWEEP_REPORT`.
pub(in super::super) struct ReportFile {
    lines: Appended,
    /// The rank of a line that was ignored: that of `LoRA`, or a mean rank, is reported without any line of rank 0.
    other_rank: Option<Value>,
}

impl ReportFile {
    pub(in super::super) fn new(path: PathBuf) -> Self {
        Self { lines: Appended::new(path), other_rank: None }
    }
}

impl Follower for ReportFile {
    fn poll(&mut self, sink: &mut Series) -> io::Result<()> {
        self.lines.read(&mut |line| report(&line, &mut self.other_rank, sink)).map(drop)
    }

    fn finish(&mut self, sink: &mut Series) -> io::Result<()> {
        while self.lines.read(&mut |line| report(&line, &mut self.other_rank, sink))? {}
        self.lines.rest(&mut |line| {
            // A killed program can leave an incomplete last line, which gives no note.
            if let Line::Whole(line) = &line
                && parse_object(line).is_none()
            {
                return;
            }
            report(&line, &mut self.other_rank, sink);
        });
        Ok(())
    }

    /// Returns no notices about a missing file, because reports are optional.
    fn silence(&self, series: &Series) -> Vec<String> {
        let notice = |rank: &Value| {
            format!(
                "the report has lines with `rank` {rank}, and none of rank 0, so that all are ignored: `rank` is the number of the process; \
                 report a metric under another name"
            )
        };
        self.other_rank.iter().filter(|_| series.is_silent()).map(notice).collect()
    }
}

/// Keys of a line that are not metrics.
const RESERVED: [&str; 6] = ["step", "total", "checkpoint", "note", "rank", "stopped"];

fn report(line: &Line<'_>, other_rank: &mut Option<Value>, sink: &mut Series) {
    let line = match line {
        Line::Anew => return sink.restart(),
        Line::Whole(line) => line.trim_ascii(),
        Line::TooLong => {
            let text = || format!("a line of the report is longer than {} MiB: skipped", MAX_LINE_LENGTH >> 20);
            return sink.once("line too long", text);
        }
    };
    if line.is_empty() {
        return;
    }
    let Some(entries) = parse_object(line) else {
        let excerpt = String::from_utf8_lossy(&line[..line.len().min(80)]).into_owned();
        return sink
            .once("line", || format!("the report has a line that is not a JSON object, which is skipped: {excerpt}"));
    };
    // Of several processes that report, only rank 0 counts.
    match entries.get("rank").filter(|rank| rank.as_f64().is_some_and(|rank| rank != 0.0)) {
        Some(rank) => *other_rank = Some(rank.clone()),
        None => counted(&entries, sink),
    }
}

/// Takes the values of a line that counts.
fn counted(entries: &Map<String, Value>, sink: &mut Series) {
    let step = match entries.get("step") {
        None => None,
        Some(step) => match whole(step) {
            Some(step) => Some(step),
            None => {
                return sink.once("step", || format!("`step` is {step}, which is not an integer from 0: line skipped"));
            }
        },
    };
    if let Some(step) = step {
        sink.at(step);
    }
    if let Some(total) = entries.get("total") {
        match whole(total) {
            Some(total) => sink.total(total),
            None => sink.once("total", || format!("`total` is {total}, which is not an integer from 0: ignored")),
        }
    }
    values("", entries, &RESERVED, step, sink);
    if let Some(path) = entries.get("checkpoint") {
        match path.as_str() {
            Some(path) => sink.checkpoint(path),
            None => sink.once("checkpoint", || format!("`checkpoint` is {path}, which is not a path: ignored")),
        }
    }
    if let Some(note) = entries.get("note") {
        match note.as_str() {
            Some(note) => sink.note(note),
            None => sink.note(&note.to_string()),
        }
    }
    if entries.get("stopped") == Some(&Value::Bool(true)) {
        sink.stopped();
    }
}

/// The value as an integer from 0 on; `None` for a fraction, a negative number, or a float from 2^53 on.
pub(in super::super) fn whole(value: &Value) -> Option<u64> {
    const END: f64 = 9_007_199_254_740_992.0;
    let float = || value.as_f64().filter(|float| float.fract() == 0.0 && (0.0..END).contains(float));
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole, and from 0 to 2^53")]
    value.as_u64().or_else(|| float().map(|float| float as u64))
}

/// Adds the numbers of an object to `sink`. Numbers of inner objects have names with dots (`outer.inner`); keys of the
/// outer object in `reserved` are skipped.
pub(in super::super) fn values(
    prefix: &str,
    entries: &Map<String, Value>,
    reserved: &[&str],
    step: Option<u64>,
    sink: &mut Series,
) {
    for (name, value) in entries {
        if prefix.is_empty() && reserved.contains(&name.as_str()) {
            continue;
        }
        let full_name;
        let name = if prefix.is_empty() {
            name.as_str()
        } else {
            full_name = format!("{prefix}{name}");
            full_name.as_str()
        };
        let mut add = |value: f64, unit: Option<&str>| match step {
            Some(step) => sink.point(step, name, value, unit),
            None => sink.last(name, value, unit),
        };
        match value {
            Value::Object(inner) => match measured(inner) {
                Some((value, unit)) => add(value, unit),
                None => values(&format!("{name}."), inner, reserved, step, sink),
            },
            value => match number(value) {
                Some(value) => add(value, None),
                None => {
                    let kind = match value {
                        Value::Null => "null",
                        Value::Bool(_) => "a boolean",
                        Value::String(_) => "a text",
                        _ => "a list",
                    };
                    sink.once(name, || format!("`{name}` is {kind}, which is not a number: ignored"));
                }
            },
        }
    }
}

/// The value and the unit of an object such as `{"value": 0.1, "unit": "s"}`; `None` for other objects.
fn measured(entries: &Map<String, Value>) -> Option<(f64, Option<&str>)> {
    let value = number(entries.get("value")?)?;
    match (entries.len(), entries.get("unit")) {
        (1, None) => Some((value, None)),
        (2, Some(Value::String(unit))) => Some((value, Some(unit))),
        _ => None,
    }
}
