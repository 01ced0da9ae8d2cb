//! Follows a CSV file with a header line.

use std::{io, path::PathBuf};

use super::{
    super::report::{Appended, Follower, Line, Series},
    step_column,
};

/// Longest row, in bytes, if it has several lines.
const LONGEST_ROW: usize = 1 << 20;

/// Follower of a file.
pub(super) struct Csv {
    lines: Appended,
    table: Table,
}

/// State of the table.
#[derive(Default)]
struct Table {
    separator: u8,
    /// Names of the columns.
    columns: Vec<String>,
    /// The place of the column with the step.
    step: Option<usize>,
    /// Number of rows.
    rows: u64,
    /// A row whose quoted field has not ended.
    begun: Vec<u8>,
}

impl Csv {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { lines: Appended::new(path), table: Table::default() }
    }
}

impl Follower for Csv {
    fn poll(&mut self, sink: &mut Series) -> io::Result<()> {
        self.lines.read(&mut |line| self.table.line(&line, sink)).map(drop)
    }

    fn finish(&mut self, sink: &mut Series) -> io::Result<()> {
        while self.lines.read(&mut |line| self.table.line(&line, sink))? {}
        self.lines.rest(&mut |line| self.table.line(&line, sink));
        Ok(())
    }
}

impl Table {
    fn line(&mut self, line: &Line<'_>, sink: &mut Series) {
        let line = match line {
            Line::Anew => return *self = Self::default(),
            Line::Whole(line) => line.strip_suffix(b"\r").unwrap_or(line),
            Line::TooLong => return sink.once("line", || "a line of the CSV file is too long: skipped".into()),
        };
        if self.begun.is_empty() {
            self.begun.extend_from_slice(line);
        } else if self.begun.len() + line.len() < LONGEST_ROW {
            self.begun.push(b'\n');
            self.begun.extend_from_slice(line);
        } else {
            self.begun.clear();
            return sink.once("row", || "a row of the CSV file is too long: skipped".into());
        }
        // An odd number of quotation marks: the row goes on in the next line.
        if self.begun.iter().fold(false, |open, byte| open != (*byte == b'"')) {
            return;
        }
        let row = std::mem::take(&mut self.begun);
        if !row.trim_ascii().is_empty() {
            self.row(&row, sink);
        }
    }

    fn row(&mut self, row: &[u8], sink: &mut Series) {
        if self.columns.is_empty() {
            self.separator = separator(row);
            return self.header(fields(row, self.separator));
        }
        let cells = fields(row, self.separator);
        // A program that adds a column writes the header again.
        let known = |cell: &String| self.columns.contains(cell);
        if cells.iter().any(known) && cells.iter().all(|cell| cell.trim().parse::<f64>().is_err()) {
            return self.header(cells);
        }
        self.rows += 1;
        let step = match self.step.and_then(|place| cells.get(place)) {
            Some(cell) => match whole(cell) {
                Some(step) => step,
                None => {
                    let cell = cell.chars().take(40).collect::<String>();
                    let text = || {
                        format!("the step `{}` in the CSV file is no integer from 0: row skipped", cell.escape_debug())
                    };
                    return sink.once("step", text);
                }
            },
            None => self.rows,
        };
        sink.at(step);
        for (place, (name, cell)) in self.columns.iter().zip(&cells).enumerate() {
            if Some(place) == self.step || name.is_empty() {
                continue;
            }
            // An empty cell is no value, and neither is a text.
            if let Ok(value) = cell.trim().parse::<f64>() {
                sink.point(step, name, value, None);
            }
        }
    }

    fn header(&mut self, columns: Vec<String>) {
        self.columns = columns.into_iter().map(|name| name.trim().trim_start_matches('\u{feff}').to_owned()).collect();
        self.step = step_column(|| self.columns.iter().map(String::as_str));
    }
}

/// The separator of a header: the most frequent of the usual ones.
fn separator(header: &[u8]) -> u8 {
    let count = |separator: u8| header.split(|byte| *byte == separator).count();
    [b';', b'\t', b','].into_iter().max_by_key(|separator| count(*separator)).unwrap_or(b',')
}

/// The fields of a row (RFC 4180).
fn fields(row: &[u8], separator: u8) -> Vec<String> {
    let mut fields = vec![Vec::new()];
    let mut quoted = false;
    let mut bytes = row.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        let Some(field) = fields.last_mut() else { break };
        match byte {
            b'"' if quoted && bytes.peek() == Some(&b'"') => {
                bytes.next();
                field.push(b'"');
            }
            b'"' => quoted = !quoted,
            byte if byte == separator && !quoted => fields.push(Vec::new()),
            byte => field.push(byte),
        }
    }
    fields.into_iter().map(|field| String::from_utf8_lossy(&field).into_owned()).collect()
}

/// A step: `100`, or `100.0` as pandas writes it.
fn whole(cell: &str) -> Option<u64> {
    let cell = cell.trim();
    let whole = cell
        .split_once('.')
        .map_or(cell, |(whole, rest)| if rest.bytes().all(|byte| byte == b'0') { whole } else { "" });
    whole.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_fields_are_whole() {
        assert_eq!(fields(br#"a,"b,c","d""e",,f"#, b','), ["a", "b,c", "d\"e", "", "f"]);
        assert_eq!((separator(b"a;b;c,d"), separator(b"a\tb"), separator(b"a,b")), (b';', b'\t', b','));
        assert_eq!(
            (whole("100"), whole(" 7.0 "), whole("7.5"), whole("-1"), whole("")),
            (Some(100), Some(7), None, None, None)
        );
    }
}
