//! Runs of `TensorBoard`: each folder with event files is a run. Its parameters are those of the plugin `hparams`, else those that the names of
//! its folders have as `name=value`.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use sweep_job::Value;

use super::{ImportError, Run, Runs, entries, lenient, name_of};
use crate::{
    format::count,
    format::event_file::{FOOTER, Field, Fields, HEADER, content_length, is_whole, scalars},
};

const MAX_LEVELS: usize = 8;
/// Bytes of an event file at most.
const MAX_BYTES: u64 = 2 << 30;
/// Folders that are parts of a run: its values of a kind of data.
const PARTS: [&str; 7] = ["train", "training", "val", "valid", "validation", "test", "eval"];

/// True if a folder has event files.
pub(super) fn detects(path: &Path) -> bool {
    is_event_file(path) || (path.is_dir() && files(path, |_| false).is_ok_and(|files| !files.is_empty()))
}

fn is_event_file(path: &Path) -> bool {
    path.is_file() && name_of(path).contains("tfevents")
}

/// The event files of a path, without those in folders for which `is_other` is true.
fn files(path: &Path, is_other: fn(&Path) -> bool) -> Result<Vec<PathBuf>, ImportError> {
    fn find(
        folder: &Path,
        level: usize,
        is_other: fn(&Path) -> bool,
        found: &mut Vec<PathBuf>,
    ) -> Result<(), ImportError> {
        for path in entries(folder)? {
            if is_event_file(&path) {
                found.push(path);
            } else if path.is_dir() && level < MAX_LEVELS && !is_other(&path) {
                find(&path, level + 1, is_other, found)?;
            }
        }
        Ok(())
    }
    if is_event_file(path) {
        return Ok(vec![path.to_owned()]);
    }
    let mut found = Vec::new();
    find(path, 1, is_other, &mut found)?;
    Ok(found)
}

/// Reads the runs below a folder. Event files do not say how a run ended, so all of them count as finished.
pub(super) fn read(path: &Path) -> Result<Runs, ImportError> {
    let mut runs: BTreeMap<String, Run> = BTreeMap::new();
    let mut damaged = 0;
    for file in files(path, |_| false)? {
        let folder = file.parent().unwrap_or(path);
        let (names, prefix) = below(path, folder);
        let id = if names.is_empty() { name_of(path) } else { names.join("/") };
        let run = runs.entry(id.clone()).or_insert_with(|| Run { id, ..Run::default() });
        damaged += usize::from(!add(run, &file, &prefix)?);
        if run.params.is_empty() {
            run.params.extend(names.iter().flat_map(|name| named(name)));
        }
    }
    let mut found = Runs { runs: runs.into_values().collect(), ..Runs::default() };
    found.notices.extend(torn(damaged));
    Ok(found)
}

/// The notice of torn or damaged event files, if there are any.
pub(super) fn torn(number: usize) -> Option<String> {
    let files = count(number, "event file");
    (number > 0).then(|| format!("the end of {files} is torn or damaged: the records before it are read"))
}

/// The names of the folders between two, and the prefix of tags if the last one is a part of a run.
fn below(path: &Path, folder: &Path) -> (Vec<String>, String) {
    let mut names: Vec<String> = folder.strip_prefix(path).map_or_else(
        |_| vec![name_of(folder)],
        |below| below.components().map(|part| part.as_os_str().to_string_lossy().into_owned()).collect(),
    );
    let part = names.pop_if(|last| PARTS.contains(&last.as_str()));
    let prefix = part.map_or_else(String::new, |part| format!("{part}/"));
    (names, prefix)
}

/// Adds the values of the event files below a folder to a run, without those in folders of other runs. Returns the number of torn or damaged
/// ones; files that cannot be read have notices.
pub(super) fn add_below(
    run: &mut Run,
    folder: &Path,
    is_other: fn(&Path) -> bool,
    notices: &mut Vec<String>,
) -> Result<usize, ImportError> {
    let mut damaged = 0;
    for file in files(folder, is_other)? {
        let (_, prefix) = below(folder, file.parent().unwrap_or(folder));
        match add(run, &file, &prefix) {
            Ok(is_whole) => damaged += usize::from(!is_whole),
            Err(error) => notices.push(error.to_string()),
        }
    }
    Ok(damaged)
}

/// The parameters in the name of a folder: `lr=0.1,seed=2`.
fn named(folder: &str) -> Vec<(String, Value)> {
    let pairs = folder.split([',', ';', '&', ' ']).filter_map(|pair| pair.split_once('='));
    pairs.filter_map(|(name, value)| Some((name.trim().to_owned(), lenient::scalar(value)?))).collect()
}

/// Adds the values of an event file to a run; `false` if a part of it cannot be read.
fn add(run: &mut Run, path: &Path, prefix: &str) -> Result<bool, ImportError> {
    let failed = |source| ImportError::Io { path: path.to_owned(), source };
    let length = std::fs::metadata(path).map_err(failed)?.len();
    if length > MAX_BYTES {
        return Err(ImportError::format(path, format!("it has {length} bytes, of at most {MAX_BYTES}")));
    }
    let bytes = std::fs::read(path).map_err(failed)?;
    let mut rest = bytes.as_slice();
    while !rest.is_empty() {
        let Some((header, inner)) = rest.split_first_chunk::<HEADER>() else { return Ok(false) };
        let size = content_length(*header).and_then(|size| usize::try_from(size).ok());
        let Some((event, after)) = size.and_then(|size| inner.split_at_checked(size)) else { return Ok(false) };
        let Some((footer, after)) = after.split_at_checked(FOOTER) else { return Ok(false) };
        if !is_whole(event, footer) {
            return Ok(false);
        }
        let (step, scalars) = scalars(event);
        for scalar in scalars {
            run.log(&format!("{prefix}{}", scalar.tag), step, scalar.value);
        }
        hparams(run, event);
        rest = after;
    }
    Ok(true)
}

/// The message in a field of another one, the first there is.
fn inner(message: &[u8], wanted: u64) -> Option<&[u8]> {
    Fields(message).find_map(|(field, value)| match value {
        Field::Bytes(content) if field == wanted => Some(content),
        _ => None,
    })
}

/// Adds the parameters in an event: `Event.summary = 5 { value = 1 { metadata = 9 { plugin_data = 1 { plugin_name = 1, content = 2 } } } }`, whose
/// content is `HParamsPluginData { session_start_info = 3 { hparams = 1, a map of names to google.protobuf.Value } }`.
fn hparams(run: &mut Run, event: &[u8]) {
    let data = inner(event, 5)
        .and_then(|summary| inner(summary, 1))
        .and_then(|value| inner(value, 9))
        .and_then(|metadata| inner(metadata, 1));
    let Some(data) = data.filter(|data| inner(data, 1) == Some(b"hparams")) else { return };
    let Some(start) = inner(data, 2).and_then(|content| inner(content, 3)) else { return };
    for (field, entry) in Fields(start) {
        let (1, Field::Bytes(entry)) = (field, entry) else { continue };
        let (Some(name), Some(value)) = (inner(entry, 1), inner(entry, 2)) else { continue };
        let value = Fields(value).find_map(|(field, value)| match (field, value) {
            (2, Field::Fixed64(bytes)) => Some(Value::number(f64::from_le_bytes(bytes))),
            (3, Field::Bytes(text)) => Some(Value::Text(String::from_utf8_lossy(text).into_owned())),
            (4, Field::Number(bool)) => Some(Value::Bool(bool != 0)),
            _ => None,
        });
        let name = String::from_utf8_lossy(name).into_owned();
        run.params.extend(value.map(|value| (name, value)));
    }
}
