//! Records as a data set with metadata in the format Croissant 1.0 (<https://docs.mlcommons.org/croissant/docs/croissant-spec.html>):
//! `records.csv` with a row for each record, `curves.csv` with a row for each point, files that jobs have created, and `croissant.json`.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, BufReader, BufWriter, Write as _},
    path::{Path, PathBuf},
};

use fs_err as fs;
use jiff::Timestamp;
use serde_json::{Value as Json, json};
use sweep_job::{Unit, Value};

use super::{Exported, sha256};
use crate::{
    format::{clean, count},
    query::{Answer, Format},
    record::Record,
    render::csv,
    store::Store,
};

/// The files of the data set.
const METADATA: &str = "croissant.json";
const RECORDS: &str = "records.csv";
const CURVES: &str = "curves.csv";
const FILES: &str = "files.csv";
/// The folder with files of jobs.
const FOLDER: &str = "files";
/// Digits of a key in the name of a job's folder.
const DIGITS: usize = 12;
const CSV: &str = "text/csv";

/// The contents of a data set.
#[derive(Debug)]
pub struct Contents<'a> {
    /// The names of the studies; empty for all records of a store.
    pub studies: Vec<String>,
    /// The description of the first study that has one.
    pub about: Option<String>,
    /// The records, with their columns; `key` and `label` are among them.
    pub records: &'a Answer,
    /// The points of the curves, with the column `key`.
    pub curves: &'a Answer,
    /// The records whose files are copied.
    pub with_files: &'a [Record],
    /// The names of the artifacts to copy.
    pub artifacts: &'a [String],
    /// The start of the last job, whose day is the day of the publication.
    pub last: Timestamp,
    /// `CITATION.cff` of the project, if there is one.
    pub citation: Option<String>,
}

/// A file of the data set.
#[derive(Debug)]
struct File {
    /// Its path in the folder.
    path: String,
    about: String,
    bytes: u64,
    sha256: String,
}

/// A table of the data set.
struct Table<'a> {
    file: &'a str,
    about: String,
    columns: Vec<Column>,
    /// The column whose values are all different.
    key: Option<&'a str>,
    /// A column, and the column of another table that has its values.
    reference: Option<(&'a str, String)>,
}

/// A column of a table.
struct Column {
    name: String,
    about: String,
    kind: &'static str,
}

/// Writes a data set to `folder`.
///
/// # Errors
/// A file cannot be read or written, or no record has an artifact of a given name.
pub fn export(contents: &Contents<'_>, store: &Store, folder: &Path) -> io::Result<Exported> {
    fs::create_dir_all(folder)?;
    let mut files =
        vec![table(folder, RECORDS, contents.records, "A row for each job: parameters, metrics, and circumstances.")?];
    let keys: BTreeSet<String> = column_texts(contents.records, "key").collect();
    // A job that several steps have in common has a row for each.
    let has_key = keys.len() == contents.records.rows.len();
    let records = Table {
        file: RECORDS,
        about: "The jobs of the study".to_owned(),
        columns: columns(contents.records),
        key: has_key.then_some("key"),
        reference: None,
    };
    let reference = || has_key.then(|| ("key", field_id(RECORDS, "key")));
    let mut tables = vec![records];
    if !contents.curves.rows.is_empty() {
        files.push(table(folder, CURVES, contents.curves, "A row for each point of a curve.")?);
        let (about, columns) = ("The curves of the jobs".to_owned(), columns(contents.curves));
        tables.push(Table { file: CURVES, about, columns, key: None, reference: reference() });
    }
    let copied = copied(contents, store, folder)?;
    if !copied.is_empty() {
        files.push(list(folder, &copied)?);
        let (about, columns) = ("The files that jobs have made".to_owned(), columns_of_list());
        tables.push(Table { file: FILES, about, columns, key: Some("path"), reference: reference() });
        files.extend(copied.into_iter().map(|(_, _, file)| file));
    }
    let mut notices = Vec::new();
    let metadata = metadata(contents, &files, &tables, &mut notices);
    let mut text = serde_json::to_string_pretty(&metadata)?;
    text.push('\n');
    fs::write(folder.join(METADATA), text)?;
    Ok(Exported { jobs: keys.len(), notices })
}

/// The texts of a column.
fn column_texts<'a>(answer: &'a Answer, name: &str) -> impl Iterator<Item = String> + use<'a> {
    let place = answer.columns.iter().position(|column| column.name == name);
    answer.rows.iter().filter_map(move |row| Some(row[place?].to_string()))
}

/// Writes a table as CSV.
fn table(folder: &Path, name: &str, answer: &Answer, about: &str) -> io::Result<File> {
    let path = folder.join(name);
    let mut file = BufWriter::new(fs::File::create(&path)?);
    answer.write(Format::Csv, &mut file)?;
    file.flush()?;
    drop(file);
    File::of(&path, name.to_owned(), about.to_owned())
}

impl File {
    fn of(path: &Path, name: String, about: String) -> io::Result<Self> {
        let bytes = fs::metadata(path)?.len();
        Ok(Self { path: name, about, bytes, sha256: sha256(BufReader::new(fs::File::open(path)?))? })
    }

    fn json(&self) -> Json {
        let end = Path::new(&self.path).extension().and_then(|end| end.to_str()).unwrap_or_default();
        let encoding = match end {
            "csv" => CSV,
            "json" => "application/json",
            "jsonl" => "application/jsonlines",
            "parquet" => "application/x-parquet",
            "txt" | "log" => "text/plain",
            "png" => "image/png",
            _ => "application/octet-stream",
        };
        json!({
            "@type": "cr:FileObject", "@id": identifier(&self.path), "name": self.path, "description": self.about, "contentUrl": self.path,
            "contentSize": format!("{} B", self.bytes), "encodingFormat": encoding, "sha256": self.sha256,
        })
    }
}

/// Copies the wanted artifacts; returns the key and the artifact of each file.
fn copied(contents: &Contents<'_>, store: &Store, folder: &Path) -> io::Result<Vec<(String, String, File)>> {
    let mut copied = Vec::new();
    for name in contents.artifacts {
        let before = copied.len();
        for record in contents.with_files {
            let Some(inner) = record.outcome.artifacts.get(name) else { continue };
            let key = record.key.to_string();
            let (source, place) = (store.files(record.key), format!("{FOLDER}/{}", &key[..DIGITS.min(key.len())]));
            for inner in files_below(&source, Path::new(inner))? {
                let path = format!("{place}/{}", inner.display());
                let target = folder.join(&path);
                fs::create_dir_all(target.parent().unwrap_or(folder))?;
                fs::copy(source.join(&inner), &target)?;
                let about = format!("Artifact {} of the job {}", clean(name), clean(&record.label));
                copied.push((key.clone(), name.clone(), File::of(&target, path, about)?));
            }
        }
        if copied.len() == before {
            let all = contents.with_files.iter().flat_map(|record| record.outcome.artifacts.keys());
            let known: BTreeSet<String> = all.map(|name| format!("`{}`", clean(name))).collect();
            let known: Vec<String> = known.into_iter().collect();
            let known = if known.is_empty() {
                "the records have none".to_owned()
            } else {
                format!("there are {}", known.join(", "))
            };
            return Err(io::Error::other(format!("no record has the artifact `{}`: {known}", clean(name))));
        }
    }
    Ok(copied)
}

/// The files at a path in a folder: itself, or those below it.
fn files_below(folder: &Path, inner: &Path) -> io::Result<Vec<PathBuf>> {
    let path = folder.join(inner);
    if !path.is_dir() {
        return Ok(vec![inner.to_owned()]);
    }
    let mut names: Vec<_> = fs::read_dir(&path)?.map(|entry| Ok(entry?.file_name())).collect::<io::Result<_>>()?;
    names.sort();
    let mut files = Vec::new();
    for name in names {
        files.extend(files_below(folder, &inner.join(name))?);
    }
    Ok(files)
}

/// Writes the list of copied files.
fn list(folder: &Path, copied: &[(String, String, File)]) -> io::Result<File> {
    let mut text = csv::line(columns_of_list().iter().map(|column| csv::text(&column.name)));
    for (key, artifact, file) in copied {
        let cells = [key, artifact, &file.path, &file.bytes.to_string(), &file.sha256];
        text += &csv::line(cells.map(|cell| csv::text(cell)).into_iter());
    }
    fs::write(folder.join(FILES), text)?;
    File::of(&folder.join(FILES), FILES.to_owned(), "A row for each file that a job has made.".to_owned())
}

fn columns_of_list() -> Vec<Column> {
    let column = |name: &str, about: &str, kind| Column { name: name.to_owned(), about: about.to_owned(), kind };
    vec![
        column("key", "Key of the job", "sc:Text"),
        column("artifact", "Name of the artifact", "sc:Text"),
        column("path", "Path in the data set", "sc:Text"),
        column("bytes", "Size in bytes", "sc:Integer"),
        column("sha256", "SHA-256 digest", "sc:Text"),
    ]
}

/// The columns of a result.
fn columns(answer: &Answer) -> Vec<Column> {
    let describe = |(index, heading): (usize, &crate::query::Heading)| {
        let unit = if heading.unit == Unit::One { String::new() } else { format!(", in {}", heading.unit) };
        let about = if heading.measured { "Measured value" } else { "Value" };
        Column {
            name: heading.said(),
            about: format!("{about} of {}{unit}", clean(&heading.name)),
            kind: kind(answer, index),
        }
    };
    answer.columns.iter().enumerate().map(describe).collect()
}

/// The data type of a column.
fn kind(answer: &Answer, index: usize) -> &'static str {
    let all = |is_of_type: fn(&Value) -> bool| answer.rows.iter().all(|row| is_of_type(&row[index]));
    let is_empty = answer.rows.iter().all(|row| row[index] == Value::Null);
    if is_empty {
        "sc:Text"
    } else if all(|value| matches!(value, Value::Bool(_))) {
        "sc:Boolean"
    } else if all(|value| matches!(value, Value::Int(_))) {
        "sc:Integer"
    } else if all(|value| matches!(value, Value::Int(_) | Value::Float(_) | Value::Null)) {
        // Readers treat a column of whole numbers with gaps as a column of floats.
        "sc:Float"
    } else {
        "sc:Text"
    }
}

/// The identifier of the field of a column.
fn field_id(file: &str, column: &str) -> String {
    format!("{}/{}", file.trim_end_matches(".csv"), identifier(column))
}

/// A text without white space, which mlcroissant does not take in identifiers.
fn identifier(text: &str) -> String {
    text.chars().map(|char| if char.is_whitespace() { '_' } else { char }).collect()
}

/// The identifiers of the fields of columns, each of which no other one has.
fn field_ids(file: &str, columns: &[Column]) -> Vec<String> {
    let mut known = BTreeSet::new();
    let unique = |column: &Column| {
        let mut id = field_id(file, &column.name);
        while !known.insert(id.clone()) {
            id.push('_');
        }
        id
    };
    columns.iter().map(unique).collect()
}

impl Table<'_> {
    fn json(&self) -> Json {
        let id = self.file.trim_end_matches(".csv");
        let ids = field_ids(self.file, &self.columns);
        let fields = self.columns.iter().zip(&ids).map(|(Column { name, about, kind }, own)| {
            let mut field = json!({
                "@type": "cr:Field", "@id": own, "name": own, "description": about, "dataType": kind,
                "source": { "fileObject": { "@id": self.file }, "extract": { "column": name } },
            });
            if let Some((_, other)) = self.reference.as_ref().filter(|(column, _)| column == name) {
                field["references"] = json!({ "field": { "@id": other } });
            }
            field
        });
        let mut set = json!({ "@type": "cr:RecordSet", "@id": id, "name": id, "description": self.about, "field": fields.collect::<Vec<_>>() });
        if let Some(key) = self.key {
            set["key"] = json!({ "@id": field_id(self.file, key) });
        }
        set
    }
}

/// The metadata. Statements that only the authors can make come from `CITATION.cff`; notices name the missing ones.
fn metadata(contents: &Contents<'_>, files: &[File], tables: &[Table<'_>], notices: &mut Vec<String>) -> Json {
    let citation: Json =
        contents.citation.as_deref().and_then(|text| serde_saphyr::from_str(text).ok()).unwrap_or_default();
    if contents.citation.is_some() && !citation.is_object() {
        notices.push("CITATION.cff is not valid YAML, and nothing of it is in the metadata".to_owned());
    }
    let title =
        if contents.studies.is_empty() { "all records of sweep".to_owned() } else { contents.studies.join(", ") };
    let about = contents.about.as_deref().map(|about| format!("{} ", about.trim())).unwrap_or_default();
    let rows = count(contents.records.rows.len(), "row");
    let mut metadata = json!({
        "@context": context(),
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": format!("Results of {}", clean(&title)),
        "description": format!("{}Results of {}: {rows}, made by sweep {}.", clean(&about), clean(&title), env!("CARGO_PKG_VERSION")),
        "datePublished": contents.last.strftime("%Y-%m-%d").to_string(),
        "version": citation["version"].as_str().unwrap_or("1.0.0"),
        "distribution": files.iter().map(File::json).collect::<Vec<_>>(),
        "recordSet": tables.iter().map(Table::json).collect::<Vec<_>>(),
    });
    let license = citation["license"].as_str().or_else(|| citation["license-url"].as_str());
    let url = ["url", "repository-code", "repository"].iter().find_map(|name| citation[*name].as_str());
    let creators: Vec<Json> = citation["authors"].as_array().into_iter().flatten().filter_map(creator).collect();
    let mut missing = BTreeMap::new();
    let mut add = |name: &str, key: &'static str, value: Option<Json>| match value {
        Some(value) => metadata[name] = value,
        None => {
            missing.insert(name.to_owned(), key);
        }
    };
    add("license", "license", license.map(|id| json!(license_address(id))));
    let title_of_citation = citation["title"].as_str();
    let names: Vec<&str> = creators.iter().filter_map(|creator| creator["name"].as_str()).collect();
    let cited =
        title_of_citation.filter(|_| !names.is_empty()).map(|title| json!(format!("{}: {title}", names.join(", "))));
    add("citeAs", "title", cited);
    add("url", "url", url.map(|url| json!(url)));
    add("creator", "authors", (!creators.is_empty()).then(|| json!(creators)));
    if !missing.is_empty() {
        let names: Vec<String> = missing.keys().map(|name| format!("`{name}`")).collect();
        let keys: Vec<&str> = missing.values().copied().collect();
        notices.push(format!(
            "{METADATA} lacks {}, which Croissant requires or recommends: add {} to CITATION.cff beside the recipe or in the project's folder, and export again",
            names.join(", "),
            keys.join(", ")
        ));
    }
    metadata
}

/// The address of a license with an identifier of SPDX; texts that are addresses stay as they are.
fn license_address(id: &str) -> String {
    if id.contains("://") { id.to_owned() } else { format!("https://spdx.org/licenses/{id}.html") }
}

/// An author of `CITATION.cff`.
fn creator(author: &Json) -> Option<Json> {
    let text = |name: &str| author[name].as_str();
    if let Some(name) = text("name") {
        return Some(json!({ "@type": "sc:Organization", "name": name }));
    }
    let name: Vec<&str> = [text("given-names"), text("family-names")].into_iter().flatten().collect();
    (!name.is_empty()).then(|| json!({ "@type": "sc:Person", "name": name.join(" ") }))
}

/// Terms of Croissant with their own names.
const TERMS: [&str; 26] = [
    "citeAs",
    "column",
    "equivalentProperty",
    "extract",
    "field",
    "fileObject",
    "fileProperty",
    "fileSet",
    "format",
    "includes",
    "isLiveDataset",
    "jsonPath",
    "key",
    "md5",
    "parentField",
    "path",
    "recordSet",
    "references",
    "regex",
    "repeated",
    "replace",
    "samplingRate",
    "separator",
    "source",
    "subField",
    "transform",
];

/// The context that the specification recommends.
fn context() -> Json {
    let mut context = json!({
        "@language": "en",
        "@vocab": "https://schema.org/",
        "conformsTo": "dct:conformsTo",
        "cr": "http://mlcommons.org/croissant/",
        "data": { "@id": "cr:data", "@type": "@json" },
        "dataType": { "@id": "cr:dataType", "@type": "@vocab" },
        "dct": "http://purl.org/dc/terms/",
        "examples": { "@id": "cr:examples", "@type": "@json" },
        "rai": "http://mlcommons.org/croissant/RAI/",
        "sc": "https://schema.org/",
    });
    for term in TERMS {
        context[term] = json!(format!("cr:{term}"));
    }
    context
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_have_no_white_space_and_are_unique() {
        let column = |name: &str| Column { name: name.to_owned(), about: String::new(), kind: "sc:Text" };
        let ids = field_ids(RECORDS, &["a b", "a_b", "time (ms)"].map(column));
        assert_eq!(ids, ["records/a_b", "records/a_b_", "records/time_(ms)"]);
    }

    #[test]
    fn authors_and_licenses_are_those_of_the_citation() {
        let citation = json!({ "given-names": "Ada", "family-names": "Lovelace" });
        assert_eq!(creator(&citation), Some(json!({ "@type": "sc:Person", "name": "Ada Lovelace" })));
        assert_eq!(creator(&json!({ "name": "Team" })), Some(json!({ "@type": "sc:Organization", "name": "Team" })));
        assert_eq!(creator(&json!({ "email": "a@b" })), None);
        assert_eq!(license_address("MIT"), "https://spdx.org/licenses/MIT.html");
        assert_eq!(license_address("https://example.org/l"), "https://example.org/l");
    }
}
