//! Files with the scores of items: CSV, JSON lines and Parquet.

use std::{fs::File, path::Path};

use parquet::{
    file::reader::{FileReader as _, SerializedFileReader},
    record::Field,
};
use serde_json::{Map, Value};

use super::Scores;
use crate::{
    format::{clean, fields, separator, unless_it_panics},
    recipe::Items,
};

/// A row: the values of the columns by their names.
type Row = Map<String, Value>;

/// The scores in a file with this content.
pub(super) fn scores(path: &Path, content: Vec<u8>, items: &Items) -> Result<Scores, String> {
    let name = clean(&items.file).into_owned();
    let error_at = |reason: String| format!("`{name}`: {reason}");
    let rows = match path.extension().and_then(|end| end.to_str()) {
        // The reader panics on some damaged files.
        Some("parquet") => {
            unless_it_panics(|| parquet_rows(path)).unwrap_or_else(|| Err("the file is damaged".to_owned()))
        }
        Some("jsonl" | "ndjson") => {
            String::from_utf8(content).map_err(|error| error.to_string()).and_then(|text| json_rows(&text))
        }
        _ => csv_rows(&content),
    };
    let mut scores = Scores::new();
    for (index, row) in rows.map_err(error_at)?.iter().enumerate() {
        let (id, cluster, score) =
            item(row, items).map_err(|reason| error_at(format!("row {}: {reason}", index + 1)))?;
        if scores.insert(id.clone(), (cluster, score)).is_some() {
            return Err(error_at(format!("row {}: item `{}` is listed twice", index + 1, clean(&id))));
        }
    }
    if scores.is_empty() { Err(error_at("it has no items".to_owned())) } else { Ok(scores) }
}

/// The name, the cluster and the score of a row; without clusters, every item is one.
fn item(row: &Row, items: &Items) -> Result<(String, String, f64), String> {
    let column = |name: &str| {
        row.get(name).filter(|value| !value.is_null()).ok_or_else(|| {
            let columns: Vec<String> = row.keys().map(|column| format!("`{}`", clean(column))).collect();
            format!("it has no value in column `{}`; its columns are {}", clean(name), columns.join(", "))
        })
    };
    let word =
        |name: &str| Ok::<String, String>(column(name)?.as_str().map_or_else(|| row[name].to_string(), str::to_owned));
    let id = word(&items.id)?;
    let cluster = items.cluster.as_deref().map_or_else(|| Ok(id.clone()), word)?;
    let value = column(&items.score)?;
    let score = match value {
        Value::Bool(yes) => Some(f64::from(u8::from(*yes))),
        Value::Number(number) => number.as_f64(),
        Value::String(text) => match text.trim() {
            "true" | "True" => Some(1.0),
            "false" | "False" => Some(0.0),
            number => number.parse().ok(),
        },
        _ => None,
    };
    let score = score.filter(|score| score.is_finite());
    score.map(|score| (id, cluster, score)).ok_or_else(|| format!("the score is not a finite number: {value}"))
}

fn json_rows(text: &str) -> Result<Vec<Row>, String> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let row = |(index, line): (usize, &str)| {
        serde_json::from_str(line).map_err(|error| format!("line {} is not a JSON object: {error}", index + 1))
    };
    lines.map(row).collect()
}

fn csv_rows(text: &[u8]) -> Result<Vec<Row>, String> {
    let mut rows = records(text).into_iter();
    let Some(header) = rows.next() else { return Err("it is empty".to_owned()) };
    let separator = separator(&header);
    let columns = fields(&header, separator);
    let row = |(index, row): (usize, Vec<u8>)| {
        let cells = fields(&row, separator);
        if cells.len() != columns.len() {
            return Err(format!("row {} has {} cells, and the header {}", index + 1, cells.len(), columns.len()));
        }
        let filled = columns.iter().cloned().zip(cells).filter(|(_, cell)| !cell.is_empty());
        Ok(filled.map(|(column, cell)| (column, Value::String(cell))).collect())
    };
    rows.enumerate().map(row).collect()
}

/// The rows of a CSV text; a quoted field may contain line breaks.
fn records(text: &[u8]) -> Vec<Vec<u8>> {
    let (mut rows, mut row) = (Vec::new(), Vec::new());
    for line in text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text).split(|byte| *byte == b'\n') {
        if !row.is_empty() {
            row.push(b'\n');
        }
        row.extend_from_slice(line.strip_suffix(b"\r").unwrap_or(line));
        let is_open = row.iter().fold(false, |open, byte| open != (*byte == b'"'));
        if !is_open && !row.trim_ascii().is_empty() {
            rows.push(std::mem::take(&mut row));
        }
    }
    if !row.trim_ascii().is_empty() {
        rows.push(row);
    }
    rows
}

fn parquet_rows(path: &Path) -> Result<Vec<Row>, String> {
    let explained = |error: parquet::errors::ParquetError| {
        format!("{error}; write it with the compression `snappy` or `None`, or as CSV or JSON lines")
    };
    let file = File::open(path).map_err(|error| error.to_string())?;
    let reader = SerializedFileReader::new(file).map_err(explained)?;
    let mut rows = Vec::new();
    for row in reader.get_row_iter(None).map_err(explained)? {
        let row = row.map_err(explained)?;
        rows.push(row.get_column_iter().map(|(column, field)| (column.clone(), value(field))).collect());
    }
    Ok(rows)
}

/// The value of a field; `null` for anything but a number, a text or a truth value.
fn value(field: &Field) -> Value {
    match field {
        Field::Bool(yes) => (*yes).into(),
        Field::Byte(number) => (*number).into(),
        Field::Short(number) => (*number).into(),
        Field::Int(number) => (*number).into(),
        Field::Long(number) => (*number).into(),
        Field::UByte(number) => (*number).into(),
        Field::UShort(number) => (*number).into(),
        Field::UInt(number) => (*number).into(),
        Field::ULong(number) => (*number).into(),
        Field::Float(number) => (*number).into(),
        Field::Double(number) => (*number).into(),
        Field::Str(text) => text.clone().into(),
        _ => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_csv() {
        let rows = csv_rows(b"id,correct,text\n1,1,\"a,\nb\"\r\n\n2,0,\n").unwrap();
        assert_eq!((rows.len(), rows[0]["text"].as_str(), rows[1].contains_key("text")), (2, Some("a,\nb"), false));
        assert_eq!(csv_rows(b"id,correct\n1,1,1\n").unwrap_err(), "row 1 has 3 cells, and the header 2");
        assert_eq!(csv_rows(b"").unwrap_err(), "it is empty");
    }

    fn items(cluster: Option<&str>) -> Items {
        let span = crate::recipe::Span::default();
        let metric = crate::recipe::Spanned::new("correct".to_owned(), span);
        let (file, id, score) = ("items".to_owned(), "id".to_owned(), "correct".to_owned());
        Items { metric, file, id, score, cluster: cluster.map(str::to_owned) }
    }

    #[test]
    fn json_lines_have_numbers_texts_and_truths() {
        let text = b"{\"id\": 1, \"correct\": true}\n\n{\"id\": \"b\", \"correct\": 0.5, \"page\": null}\n".to_vec();
        let rows = scores(Path::new("x.jsonl"), text.clone(), &items(None)).unwrap();
        assert_eq!(rows["1"], ("1".to_owned(), 1.0));
        assert_eq!(rows["b"], ("b".to_owned(), 0.5));
        let error = scores(Path::new("x.jsonl"), text, &items(Some("page"))).unwrap_err();
        assert!(error.contains("row 1: it has no value in column `page`"), "{error}");
        for (content, reason) in [
            (&b"[1]\n"[..], "line 1 is not a JSON object"),
            (b"{\"id\": 1, \"correct\": 1}\n{\"id\": 1, \"correct\": 0}\n", "row 2: item `1` is listed twice"),
            (b"{\"id\": 1, \"correct\": [1]}\n", "row 1: the score is not a finite number"),
            (b"\xff\n", "invalid utf-8"),
            (b"", "it has no items"),
        ] {
            let error = scores(Path::new("x.jsonl"), content.to_vec(), &items(None)).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
        assert!(scores(Path::new("x.csv"), b"id,correct\n1,NaN\n".to_vec(), &items(None)).is_err());
    }

    #[test]
    fn parquet_files_are_read() {
        use std::sync::Arc;

        use parquet::{
            data_type::{ByteArray, ByteArrayType, DoubleType},
            file::writer::SerializedFileWriter,
            schema::parser::parse_message_type,
        };

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.parquet");
        let schema = "message items { REQUIRED BYTE_ARRAY id (STRING); OPTIONAL DOUBLE correct; }";
        let schema = Arc::new(parse_message_type(schema).unwrap());
        let file = File::create(&path).unwrap();
        let mut writer = SerializedFileWriter::new(file, schema, Arc::default()).unwrap();
        let mut group = writer.next_row_group().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<ByteArrayType>().write_batch(&[ByteArray::from("a"), ByteArray::from("b")], None, None).unwrap();
        column.close().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<DoubleType>().write_batch(&[1.0, 0.25], Some(&[1, 1]), None).unwrap();
        column.close().unwrap();
        group.close().unwrap();
        writer.close().unwrap();
        let rows = scores(&path, Vec::new(), &items(None)).unwrap();
        assert_eq!((rows["a"].1, rows["b"].1), (1.0, 0.25));
        // Written by `DataFrame.to_parquet` of pandas 3.1.1 with PyArrow 26.0.1, in its default compression.
        let of_pandas =
            Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../engine/tests/engine/testdata/items.parquet"));
        let rows = scores(of_pandas, Vec::new(), &items(Some("document"))).unwrap();
        assert_eq!((rows.len(), &rows["q4"], &rows["q6"]), (40, &("d1".to_owned(), 0.0), &("d1".to_owned(), 1.0)));
        std::fs::write(&path, b"no parquet").unwrap();
        let error = scores(&path, Vec::new(), &items(None)).unwrap_err();
        assert!(error.contains("write it with the compression `snappy`"), "{error}");
    }

    #[test]
    fn a_damaged_parquet_file_is_an_error_and_no_panic() {
        let of_pandas =
            Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../engine/tests/engine/testdata/items.parquet"));
        let whole = std::fs::read(of_pandas).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.parquet");
        let mut random = 1_u64;
        let mut below = |end: usize| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(random >> 33).unwrap() % end
        };
        let (mut read, mut refused) = (0, 0);
        for _ in 0..3000 {
            let mut content = whole.clone();
            for _ in 0..=below(3) {
                let at = below(content.len());
                content[at] = u8::try_from(below(256)).unwrap();
            }
            std::fs::write(&path, content).unwrap();
            match scores(&path, Vec::new(), &items(Some("document"))) {
                Ok(_) => read += 1,
                Err(_) => refused += 1,
            }
        }
        assert!(read > 0 && refused > 0, "{read} were read, {refused} refused");
    }
}
