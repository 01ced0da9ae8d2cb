//! Reads the tables of `SQLite` databases: whole tables, row by row, without SQL, without locks and without writing.
//!
//! `pages.rs` has the pages of the file and of its write-ahead log. Source: <https://www.sqlite.org/fileformat2.html>. Text is UTF-8,
//! and tables have row identifiers; the databases of `MLflow`, Optuna and trackio are of this form.

mod pages;

use std::path::{Path, PathBuf};

use self::pages::Pages;
pub(super) use self::pages::State;

/// Levels of pages that a table has at most: each inner page has two children or more.
const MAX_LEVELS: usize = 40;
/// Bytes of a row at most.
const MAX_ROW_BYTES: usize = 256 << 20;
const CIRCLES: &str = "its pages form a cycle";
/// Kinds of pages of tables.
const INNER: u8 = 5;
const LEAF: u8 = 13;

/// Error of a database.
#[derive(Debug, thiserror::Error)]
pub enum SqliteError {
    /// The file cannot be read.
    #[error("cannot read {}: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// The file has another format, or is damaged.
    #[error("{} is not an SQLite database that can be read: {reason}", .path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The file changes while it is read.
    #[error("{} changes while it is read; import a copy of it: `sqlite3 {} '.backup COPY'`", .0.display(), .0.display())]
    Busy(PathBuf),
    /// A table or a column does not exist.
    #[error("{} has no {what}; it is not a database of this program, or of another version of it", .path.display())]
    Absent {
        /// The file.
        path: PathBuf,
        /// The table or the column.
        what: String,
    },
}

/// A value of a column.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Cell {
    /// `NULL`.
    Null,
    /// A whole number.
    Int(i64),
    /// A number.
    Real(f64),
    /// Text, or bytes that are text; trackio stores JSON as bytes.
    Text(String),
    /// Other bytes.
    Blob,
}

impl Cell {
    /// The number; `SQLite` stores whole numbers of columns with fractions as integers.
    pub(crate) fn number(&self) -> Option<f64> {
        match self {
            Self::Int(int) => Some(*int as f64),
            Self::Real(real) => Some(*real),
            Self::Null | Self::Text(_) | Self::Blob => None,
        }
    }

    /// The whole number.
    pub(crate) fn int(&self) -> Option<i64> {
        match self {
            Self::Int(int) => Some(*int),
            _ => None,
        }
    }

    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// A table of a database.
#[derive(Debug)]
struct Table {
    root: u32,
    columns: Vec<String>,
    /// The column that is the row's identifier, whose stored value is empty.
    key: Option<usize>,
}

/// The pages of a table, and the bytes of a page, that may still be read: a damaged file may lead in circles, or name a row many times.
struct Budget {
    pages: usize,
    bytes: usize,
}

/// A database that is being read.
pub(crate) struct Database {
    pages: Pages,
    tables: Vec<(String, Table)>,
}

impl Database {
    /// Opens a database and reads the names of its tables.
    pub(crate) fn open(path: &Path) -> Result<Self, SqliteError> {
        let mut database = Self { pages: Pages::open(path)?, tables: Vec::new() };
        let columns = ["type", "name", "tbl_name", "rootpage", "sql"].map(str::to_owned).to_vec();
        let schema = Table { root: 1, columns, key: None };
        let mut tables = Vec::new();
        database.scan(&schema, &[0, 1, 3, 4], &mut |cells| {
            if let [kind, name, root, sql] = cells
                && kind.text() == Some("table")
                && let (Some(name), Some(root), Some(sql)) = (name.text(), root.int(), sql.text())
                && let Ok(root) = u32::try_from(root)
            {
                let (columns, key) = columns_of(sql);
                tables.push((name.to_owned(), Table { root, columns, key }));
            }
        })?;
        database.tables = tables;
        Ok(database)
    }

    /// True if the database has a table of this name.
    pub(crate) fn has(&self, table: &str) -> bool {
        self.tables.iter().any(|(name, _)| name == table)
    }

    /// True if a table of the database has this column.
    pub(crate) fn has_column(&self, table: &str, column: &str) -> bool {
        let has = |found: &Table| found.columns.iter().any(|known| known == column);
        self.tables.iter().any(|(name, found)| name == table && has(found))
    }

    /// Calls `each` with the values of `columns` of every row of a table, in the order of the rows' identifiers.
    pub(crate) fn rows(&self, table: &str, columns: &[&str], each: &mut dyn FnMut(&[Cell])) -> Result<(), SqliteError> {
        let absent = |what: String| SqliteError::Absent { path: self.pages.path().to_owned(), what };
        let (_, found) =
            self.tables.iter().find(|(name, _)| name == table).ok_or_else(|| absent(format!("table `{table}`")))?;
        let place = |column: &&str| {
            let place = found.columns.iter().position(|known| known == column);
            place.ok_or_else(|| absent(format!("column `{column}` in table `{table}`")))
        };
        let places: Vec<usize> = columns.iter().map(place).collect::<Result<_, _>>()?;
        self.scan(found, &places, each)
    }

    fn scan(&self, table: &Table, places: &[usize], each: &mut dyn FnMut(&[Cell])) -> Result<(), SqliteError> {
        // A table, with the overflow pages of its rows, has no more pages than the file.
        let mut budget = Budget { pages: self.pages.count(), bytes: 0 };
        let mut open = vec![(table.root, 0)];
        while let Some((number, level)) = open.pop() {
            self.spend_page(&mut budget)?;
            if level > MAX_LEVELS {
                return Err(self.pages.damaged("a table has too many levels of pages"));
            }
            let page = self.pages.read(number)?;
            let header = if number == 1 { 100 } else { 0 };
            let kind = *page.get(header).unwrap_or(&0);
            let cells = usize::from(self.short(&page, header + 3)?);
            let first = header + if kind == INNER { 12 } else { 8 };
            let offsets: Vec<usize> = (0..cells)
                .map(|index| self.short(&page, first + 2 * index).map(usize::from))
                .collect::<Result<_, _>>()?;
            match kind {
                LEAF => {
                    budget.bytes = page.len();
                    for offset in offsets {
                        let (rowid, content) = self.row(&page, offset, &mut budget)?;
                        let cells = self.cells(table, rowid, &content, places)?;
                        each(&cells);
                    }
                }
                INNER => {
                    // The last page that is pushed is read first.
                    open.push((self.long(&page, header + 8)?, level + 1));
                    for offset in offsets.into_iter().rev() {
                        open.push((self.long(&page, offset)?, level + 1));
                    }
                    if open.len() > budget.pages {
                        return Err(self.pages.damaged(CIRCLES));
                    }
                }
                _ => return Err(self.pages.damaged(&format!("page {number} is not a page of a table"))),
            }
        }
        Ok(())
    }

    fn spend_page(&self, budget: &mut Budget) -> Result<(), SqliteError> {
        budget.pages = budget.pages.checked_sub(1).ok_or_else(|| self.pages.damaged(CIRCLES))?;
        Ok(())
    }

    fn short(&self, page: &[u8], at: usize) -> Result<u16, SqliteError> {
        let bytes = page.get(at..at + 2).and_then(|bytes| bytes.try_into().ok());
        bytes.map(u16::from_be_bytes).ok_or_else(|| self.pages.damaged("a page is too short"))
    }

    fn long(&self, page: &[u8], at: usize) -> Result<u32, SqliteError> {
        let bytes = page.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
        bytes.map(u32::from_be_bytes).ok_or_else(|| self.pages.damaged("a page is too short"))
    }

    /// The identifier and the content of the row at an offset of a page, with its overflow pages.
    fn row(&self, page: &[u8], offset: usize, budget: &mut Budget) -> Result<(i64, Vec<u8>), SqliteError> {
        let damaged = || self.pages.damaged("a row is truncated");
        let mut rest = page.get(offset..).ok_or_else(damaged)?;
        let length = usize::try_from(varint(&mut rest).ok_or_else(damaged)?).map_err(|_| damaged())?;
        let rowid = varint(&mut rest).ok_or_else(damaged)?.cast_signed();
        if length > MAX_ROW_BYTES {
            return Err(self.pages.damaged(&format!("a row has {length} bytes, of at most {MAX_ROW_BYTES}")));
        }
        let usable = self.pages.usable();
        let most = usable - 35;
        let own = if length <= most {
            length
        } else {
            let least = (usable - 12) * 32 / 255 - 23;
            let fitting = least + (length - least) % (usable - 4);
            if fitting <= most { fitting } else { least }
        };
        let overlap = || self.pages.damaged("the rows of a page overlap");
        budget.bytes = budget.bytes.checked_sub(own).ok_or_else(overlap)?;
        let mut content = rest.get(..own).ok_or_else(damaged)?.to_vec();
        let mut next = if own < length { self.long(rest, own)? } else { 0 };
        while content.len() < length {
            if next == 0 {
                return Err(damaged());
            }
            self.spend_page(budget)?;
            let page = self.pages.read(next)?;
            next = self.long(&page, 0)?;
            let part = (length - content.len()).min(usable - 4);
            content.extend(page.get(4..4 + part).ok_or_else(damaged)?);
        }
        Ok((rowid, content))
    }

    /// The values of a row's columns at `places`. Columns that were added after the row are empty.
    fn cells(&self, table: &Table, rowid: i64, content: &[u8], places: &[usize]) -> Result<Vec<Cell>, SqliteError> {
        let damaged = || self.pages.damaged("a row is truncated");
        let mut header = content;
        let length = usize::try_from(varint(&mut header).ok_or_else(damaged)?).map_err(|_| damaged())?;
        let read = content.len() - header.len();
        let mut kinds = content.get(read..length).ok_or_else(damaged)?;
        let mut at = length;
        // The header of a damaged row may have millions of columns.
        let wanted = places.iter().max().map_or(0, |last| last + 1);
        let mut columns = Vec::with_capacity(wanted);
        while columns.len() < wanted && !kinds.is_empty() {
            let kind = varint(&mut kinds).ok_or_else(damaged)?;
            let size = usize::try_from(size_of(kind)).map_err(|_| damaged())?;
            let end = at.checked_add(size).ok_or_else(damaged)?;
            columns.push((kind, content.get(at..end).ok_or_else(damaged)?));
            at = end;
        }
        let value = |place: &usize| match columns.get(*place) {
            Some((0, _)) if table.key == Some(*place) => Cell::Int(rowid),
            Some((kind, bytes)) => cell(*kind, bytes),
            None => Cell::Null,
        };
        Ok(places.iter().map(value).collect())
    }
}

/// Reads a number of 1 to 9 bytes.
fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for index in 0..9 {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        if index == 8 {
            return Some(value << 8 | u64::from(*byte));
        }
        value = value << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// Bytes of a value of this kind.
fn size_of(kind: u64) -> u64 {
    match kind {
        0 | 8 | 9 | 10 | 11 => 0,
        1..=4 => kind,
        5 => 6,
        6 | 7 => 8,
        _ => (kind - 12) / 2,
    }
}

fn cell(kind: u64, bytes: &[u8]) -> Cell {
    match kind {
        1..=6 => {
            let negative = bytes.first().is_some_and(|first| first & 0x80 != 0);
            let start = if negative { -1 } else { 0 };
            Cell::Int(bytes.iter().fold(start, |value, byte| value << 8 | i64::from(*byte)))
        }
        7 => bytes.try_into().map_or(Cell::Null, |bytes| Cell::Real(f64::from_be_bytes(bytes))),
        8 => Cell::Int(0),
        9 => Cell::Int(1),
        12.. => match std::str::from_utf8(bytes) {
            Ok(text) => Cell::Text(text.to_owned()),
            Err(_) if kind.is_multiple_of(2) => Cell::Blob,
            Err(_) => Cell::Text(String::from_utf8_lossy(bytes).into_owned()),
        },
        _ => Cell::Null,
    }
}

/// The names of the columns in `CREATE TABLE`, and the place of the column that is the row's identifier.
fn columns_of(sql: &str) -> (Vec<String>, Option<usize>) {
    let inner = sql.split_once('(').map_or("", |(_, rest)| rest.rsplit_once(')').map_or(rest, |(inner, _)| inner));
    let (mut columns, mut integers, mut key) = (Vec::new(), Vec::new(), None);
    for part in parts(inner) {
        let (name, rest) = first_word(part);
        let words: Vec<String> = rest.split_whitespace().map(str::to_ascii_uppercase).collect();
        let is_quoted = part.trim_start().starts_with(['"', '`', '[']);
        let constraint = ["CONSTRAINT", "PRIMARY", "UNIQUE", "CHECK", "FOREIGN"];
        if !is_quoted && constraint.contains(&name.to_ascii_uppercase().as_str()) {
            let upper = part.to_ascii_uppercase();
            let listed = upper.find("PRIMARY KEY").and_then(|at| part[at..].split_once('('));
            let named: Vec<String> = listed
                .and_then(|(_, rest)| rest.split_once(')'))
                .map(|(list, _)| parts(list).into_iter().map(|name| first_word(name).0).collect())
                .unwrap_or_default();
            if let [only] = named.as_slice() {
                key = key.or_else(|| columns.iter().position(|column| column == only));
            }
            continue;
        }
        let is_integer = words.first().is_some_and(|word| word == "INTEGER");
        if is_integer && words.windows(2).any(|two| two[0] == "PRIMARY" && two[1].starts_with("KEY")) {
            key = Some(columns.len());
        }
        integers.push(is_integer);
        columns.push(name);
    }
    // Only a column of integers can be the row's identifier.
    let key = key.filter(|key| integers.get(*key) == Some(&true));
    (columns, key)
}

/// The parts of a list between commas that are in no parentheses and no quotes.
fn parts(list: &str) -> Vec<&str> {
    let (mut depth, mut quote, mut start, mut found) = (0, None, 0, Vec::new());
    for (at, char) in list.char_indices() {
        match (quote, char) {
            (Some(end), char) if char == end => quote = None,
            (None, '"' | '\'' | '`') => quote = Some(char),
            (None, '[') => quote = Some(']'),
            (None, '(') => depth += 1,
            (None, ')') => depth -= 1,
            (None, ',') if depth == 0 => {
                found.push(&list[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    found.push(&list[start..]);
    found
}

/// The first word of a text, without its quotes, and the rest.
fn first_word(text: &str) -> (String, &str) {
    let text = text.trim_start();
    let mut chars = text.chars();
    let end = match chars.next() {
        Some('[') => Some(']'),
        Some(quote @ ('"' | '`')) => Some(quote),
        _ => None,
    };
    if let Some(end) = end
        && let Some((name, rest)) = chars.as_str().split_once(end)
    {
        return (name.to_owned(), rest);
    }
    let at = text.find(|char: char| char.is_whitespace() || char == '(').unwrap_or(text.len());
    (text[..at].to_owned(), &text[at..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_those_of_the_declaration() {
        let sql = "CREATE TABLE \"t\" (\n id INTEGER NOT NULL, \"key\" VARCHAR(250) DEFAULT 'a,b', v FLOAT, \
                   PRIMARY KEY (id), CHECK (v IN (0, 1)), late TEXT)";
        let (columns, key) = columns_of(sql);
        assert_eq!((columns, key), (["id", "key", "v", "late"].map(str::to_owned).to_vec(), Some(0)));
        assert_eq!(columns_of("CREATE TABLE t (a TEXT PRIMARY KEY, b INTEGER PRIMARY KEY AUTOINCREMENT)").1, Some(1));
        assert_eq!(columns_of("CREATE TABLE t (a TEXT, PRIMARY KEY (a))").1, None, "not an integer");
        assert_eq!(columns_of("CREATE TABLE t (a INTEGER, b TEXT, PRIMARY KEY (a, b))").1, None, "two columns");
    }

    #[test]
    fn numbers_have_up_to_nine_bytes() {
        let read = |mut bytes: &[u8]| varint(&mut bytes);
        assert_eq!(read(&[0x7f]), Some(127));
        assert_eq!(read(&[0x81, 0x00]), Some(128));
        assert_eq!(read(&[0xff; 9]), Some(u64::MAX));
        assert_eq!(read(&[0xff; 8]), None);
        assert_eq!(cell(1, &[0xff]), Cell::Int(-1));
        assert_eq!(cell(3, &[0x01, 0x00, 0x00]), Cell::Int(65_536));
    }
    const PAGE: usize = 512;

    /// A database of three pages: the table `t (a, b)` is in the second one, with cells at these offsets, at the first of which is `row`.
    fn database(cells: &[u16], row: &[u8], third: &[u8]) -> (tempfile::TempDir, PathBuf) {
        let mut bytes = vec![0; 3 * PAGE];
        bytes[..16].copy_from_slice(b"SQLite format 3\0");
        bytes[16..18].copy_from_slice(&512_u16.to_be_bytes());
        let mut schema = vec![0x06, 0x17, 0x0f, 0x0f, 0x01, 0x37];
        schema.extend(b"tablett\x02CREATE TABLE t (a, b)");
        let at = PAGE - schema.len() - 2;
        bytes[100] = LEAF;
        bytes[103..105].copy_from_slice(&1_u16.to_be_bytes());
        bytes[108..110].copy_from_slice(&u16::try_from(at).unwrap().to_be_bytes());
        bytes[at] = u8::try_from(schema.len()).unwrap();
        bytes[at + 1] = 1;
        bytes[at + 2..PAGE].copy_from_slice(&schema);
        bytes[PAGE] = LEAF;
        bytes[PAGE + 3..PAGE + 5].copy_from_slice(&u16::try_from(cells.len()).unwrap().to_be_bytes());
        for (index, cell) in cells.iter().enumerate() {
            bytes[PAGE + 8 + 2 * index..PAGE + 10 + 2 * index].copy_from_slice(&cell.to_be_bytes());
        }
        let start = PAGE + usize::from(cells[0]);
        bytes[start..start + row.len()].copy_from_slice(row);
        bytes[2 * PAGE..2 * PAGE + third.len()].copy_from_slice(third);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        std::fs::write(&path, bytes).unwrap();
        (folder, path)
    }

    fn first_column(path: &Path) -> Result<Vec<Cell>, SqliteError> {
        let mut cells = Vec::new();
        Database::open(path)?.rows("t", &["a"], &mut |row| cells.extend_from_slice(row))?;
        Ok(cells)
    }

    #[test]
    fn damaged_pages_cost_no_more_than_the_file() {
        // Two columns of one byte each; the byte of the second one is missing, but is not read.
        let row = [4, 1, 3, 1, 1, 7];
        let (_folder, path) = database(&[400], &row, &[]);
        assert_eq!(first_column(&path).unwrap(), [Cell::Int(7)]);
        let (_folder, path) = database(&[400; 150], &row, &[]);
        let error = first_column(&path).unwrap_err().to_string();
        assert!(error.ends_with("the rows of a page overlap"), "{error}");
        // A row of a million bytes, 256 of which are in its page; its overflow page follows itself.
        let row = [&[0xbd, 0x84, 0x40, 1][..], &[0; 256], &3_u32.to_be_bytes()].concat();
        let (_folder, path) = database(&[200], &row, &3_u32.to_be_bytes());
        let error = first_column(&path).unwrap_err().to_string();
        assert!(error.ends_with(CIRCLES), "{error}");
    }

    #[test]
    fn pipes_beside_a_database_are_not_read() {
        let (folder, path) = database(&[400], &[4, 1, 3, 1, 1, 7, 8], &[]);
        for name in ["a.db-journal", "a.db-wal", "b.db"] {
            let status = std::process::Command::new("mkfifo").arg(folder.path().join(name)).status().unwrap();
            assert!(status.success());
        }
        assert_eq!(first_column(&path).unwrap(), [Cell::Int(7)]);
        assert!(Database::open(&folder.path().join("b.db")).is_err());
    }
}
