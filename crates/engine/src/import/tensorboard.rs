//! Runs of `TensorBoard`: each folder with event files is a run. Its parameters come from the plugin `hparams`, else from a file of
//! settings beside the event files, else from the names of its folders (`name=value`).

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use sweep_job::Value;

use super::{End, ImportError, Points, Run, Runs, entries, files::settings, lenient, name_of};
use crate::{
    format::count,
    format::event_file::{FOOTER, Field, Fields, HEADER, content_length, is_whole, scalars},
};

const MAX_LEVELS: usize = 8;
/// Maximum size of an event file, in bytes.
const MAX_BYTES: u64 = 2 << 30;
/// Names of folders that are parts of a run, each with the values on one split of the data.
const PARTS: [&str; 7] = ["train", "training", "val", "valid", "validation", "test", "eval"];

/// True if a folder has event files.
pub(super) fn detects(path: &Path) -> bool {
    is_event_file(path) || (path.is_dir() && files(path, |_| false).is_ok_and(|files| !files.is_empty()))
}

fn is_event_file(path: &Path) -> bool {
    path.is_file() && name_of(path).contains("tfevents")
}

/// The event files of a path, except in folders for which `is_other` is true.
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

/// Runs by the names of their folders below the store.
type ByFolder = BTreeMap<Vec<String>, Run>;

/// Reads the runs below a folder. Event files do not contain the end of a run, so runs count as finished unless the plugin `hparams` has
/// another status.
pub(super) fn read(path: &Path) -> Result<Runs, ImportError> {
    let mut runs = ByFolder::new();
    let (mut damaged, mut notices) = (0, Vec::new());
    for file in files(path, |_| false)? {
        let folder = file.parent().unwrap_or(path);
        let (names, prefix) = below(path, folder);
        let run = runs.entry(names).or_default();
        damaged += usize::from(!add(run, &file, &prefix)?);
        // Lightning writes the parameters beside the events, too.
        if run.params.is_empty()
            && let Err(error) = settings(run, folder)
        {
            notices.push(error.to_string());
        }
    }
    join(&mut runs);
    let named = runs.into_iter().map(|(names, mut run)| {
        if run.params.is_empty() {
            run.params.extend(names.iter().flat_map(|name| named(name)));
        }
        run.id = if names.is_empty() { name_of(path) } else { names.join("/") };
        run
    });
    let mut found = Runs { runs: named.collect(), notices, ..Runs::default() };
    found.notices.extend(torn(damaged));
    found.notices.extend(unset(&mut found.runs));
    Ok(found)
}

/// Moves values that PyTorch writes to separate folders to the run of the folder above: the parameters and results of `add_hparams`, in a
/// folder whose name is a time, and each series of `add_scalars`, in a folder named by its tag and itself.
fn join(runs: &mut ByFolder) {
    let is_time = |name: &String| name.parse::<f64>().is_ok_and(|time| time > 1e9);
    let keys: Vec<Vec<String>> = runs.keys().rev().cloned().collect();
    // A writer that is used for several configurations creates a folder for each; these folders are runs.
    let is_only = |above: &[String]| {
        let of_above =
            |key: &&Vec<String>| matches!(key.split_last(), Some((last, of)) if of == above && is_time(last));
        keys.iter().filter(of_above).count() == 1
    };
    for key in &keys {
        let above =
            (0..key.len()).rev().map(|length| key.split_at(length)).filter(|(above, _)| runs.contains_key(*above));
        let found = above.into_iter().find_map(|(above, folder)| {
            let parts = runs.get(key).and_then(|run| parts_of_tag(run, &folder.join("/")));
            let is_hparams = || matches!(folder, [name] if is_time(name)) && is_only(above);
            (parts.is_some() || is_hparams()).then_some((above, parts))
        });
        let Some((above, parts)) = found else { continue };
        let Some(inner) = runs.remove(key) else { continue };
        let Some(run) = runs.get_mut(above) else { continue };
        match parts {
            Some(names) => run.series.extend(names.into_iter().zip(inner.series.into_values())),
            None => {
                run.params.extend(inner.params);
                run.series.extend(inner.series);
                run.end = inner.end;
            }
        }
    }
    let has_runs = |key: &Vec<String>| keys.iter().any(|other| other.len() > key.len() && other.starts_with(key));
    runs.retain(|key, run| !(run.series.is_empty() && run.params.is_empty() && has_runs(key)));
}

/// The names of the series in a folder of `add_scalars`: `loss/train` of the tag `loss` in the folder `loss_train` (PyTorch) or `loss/train`
/// (tensorboardX).
fn parts_of_tag(run: &Run, folder: &str) -> Option<Vec<String>> {
    let name = |series: &String| match series.split_once('/').filter(|(part, _)| PARTS.contains(part)) {
        Some((part, tag)) if tag == folder => Some(format!("{tag}/{part}")),
        _ => {
            let parts = [(series.replace('/', "_"), '_'), (series.clone(), '/')];
            let part = parts.iter().find_map(|(tag, by)| folder.strip_prefix(tag.as_str())?.strip_prefix(*by))?;
            Some(format!("{series}/{part}"))
        }
    };
    Some(run.series.keys().map(name).collect::<Option<Vec<_>>>()?).filter(|names| !names.is_empty())
}

/// Leaves out the values that Lightning writes where no metric is set.
fn unset(runs: &mut [Run]) -> Option<String> {
    const NAME: &str = "hp_metric";
    let is_unset = |points: &Points| points.by_step.values().all(|value| *value == -1.0);
    let mut number = 0;
    for run in runs {
        if run.series.get(NAME).is_some_and(is_unset) {
            run.series.remove(NAME);
            number += 1;
        }
    }
    let runs = count(number, "run");
    (number > 0).then(|| format!("`{NAME}` of {runs} is left out: it is -1, which Lightning writes where none is set"))
}

/// The notice of torn or damaged event files, if there are any.
pub(super) fn torn(number: usize) -> Option<String> {
    let files = count(number, "event file");
    (number > 0).then(|| format!("the end of {files} is truncated or damaged: the records before it are read"))
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

/// Adds the values of the event files below a folder to a run, except in folders of other runs. Returns the number of torn or damaged
/// files, and adds a notice for each file that cannot be read.
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

/// The parameters in the name of a folder or a run: `lr=0.1,seed=2`, `lr: 0.1, seed: 2`.
pub(super) fn named(folder: &str) -> Vec<(String, Value)> {
    let folder = folder.replace(": ", "=");
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

/// The first message in the field `wanted` of `message`.
fn inner(message: &[u8], wanted: u64) -> Option<&[u8]> {
    Fields(message).find_map(|(field, value)| match value {
        Field::Bytes(content) if field == wanted => Some(content),
        _ => None,
    })
}

/// Adds the parameters in an event: `Event.summary = 5 { value = 1 { metadata = 9 { plugin_data = 1 { plugin_name = 1, content = 2 } } } }`, whose
/// content is `HParamsPluginData { session_start_info = 3 { hparams = 1, a map of names to google.protobuf.Value } }`, or has
/// `session_end_info = 4 { status = 1 }`.
fn hparams(run: &mut Run, event: &[u8]) {
    let data = inner(event, 5)
        .and_then(|summary| inner(summary, 1))
        .and_then(|value| inner(value, 9))
        .and_then(|metadata| inner(metadata, 1));
    let Some(data) = data.filter(|data| inner(data, 1) == Some(b"hparams")) else { return };
    let content = inner(data, 2).unwrap_or_default();
    if let Some(end) = inner(content, 4) {
        run.end = match Fields(end).find_map(|(field, value)| matches!(field, 1).then_some(value)) {
            Some(Field::Number(2)) => End::Failed("failed".to_owned()),
            Some(Field::Number(3)) => End::Running,
            _ => End::Finished,
        };
    }
    let Some(start) = inner(content, 3) else { return };
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::event_file::{Message, frame};

    fn message(fill: &dyn Fn(&mut Message)) -> Message {
        let mut message = Message::default();
        fill(&mut message);
        message
    }

    /// Writes an event file with a scalar and, if there are some, parameters.
    fn write(folder: &Path, tag: &str, value: f32, params: &[(&str, f64)]) {
        let scalar = message(&|scalar| {
            scalar.bytes(1, tag.as_bytes());
            scalar.float(2, value);
        });
        let start = message(&|start| {
            for (name, number) in params {
                // A map's entry with a `google.protobuf.Value`.
                start.bytes(
                    1,
                    &[&[10, u8::try_from(name.len()).unwrap()], name.as_bytes(), &[18, 9, 17], &number.to_le_bytes()]
                        .concat(),
                );
            }
        });
        let content = message(&|content| content.bytes(3, start.content()));
        let plugin = message(&|plugin| {
            plugin.bytes(1, b"hparams");
            plugin.bytes(2, content.content());
        });
        let metadata = message(&|metadata| metadata.bytes(1, plugin.content()));
        let hparams = message(&|value| value.bytes(9, metadata.content()));
        let mut bytes = Vec::new();
        for value in [Some(scalar), (!params.is_empty()).then_some(hparams)].into_iter().flatten() {
            let summary = message(&|summary| summary.bytes(1, value.content()));
            frame(&mut bytes, message(&|event| event.bytes(5, summary.content())).content());
        }
        std::fs::create_dir_all(folder).unwrap();
        std::fs::write(folder.join("events.out.tfevents.1"), bytes).unwrap();
    }

    /// A run, its parameters and its last values.
    type Shown = (String, Vec<String>, Vec<(String, f64)>);

    fn found(path: &Path) -> Vec<Shown> {
        let run = |run: Run| {
            let series = run.series.into_iter().filter_map(|(name, points)| Some((name, points.last()?)));
            (run.id, run.params.into_keys().collect(), series.collect())
        };
        read(path).unwrap().runs.into_iter().map(run).collect()
    }

    fn series(all: &[(&str, f64)]) -> Vec<(String, f64)> {
        all.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
    }

    #[test]
    fn folders_that_a_writer_makes_in_that_of_its_run_are_parts_of_it() {
        let store = tempfile::tempdir().unwrap();
        let run = store.path().join("run");
        write(&run, "err", 1.0, &[]);
        write(&run.join("1795868029.25"), "hparam/acc", 0.5, &[("lr", 0.1)]);
        write(&run.join("group_loss_train"), "group/loss", 2.0, &[]);
        write(&run.join("loss/train"), "loss", 3.0, &[]);
        write(&run.join("loss/mine"), "loss", 4.0, &[]);
        let expected = series(&[
            ("err", 1.0),
            ("group/loss/train", 2.0),
            ("hparam/acc", 0.5),
            ("loss/mine", 4.0),
            ("loss/train", 3.0),
        ]);
        assert_eq!(found(store.path()), [("run".to_owned(), vec!["lr".to_owned()], expected)]);
    }

    #[test]
    fn a_writer_of_several_configurations_has_a_run_for_each() {
        let store = tempfile::tempdir().unwrap();
        for (name, lr) in [("1795868029.25", 0.1), ("1795868030.25", 0.2)] {
            write(&store.path().join("run").join(name), "hparam/acc", 0.5, &[("lr", lr)]);
        }
        std::fs::write(store.path().join("run/events.out.tfevents.1"), "").unwrap();
        let ids: Vec<String> = found(store.path()).into_iter().map(|(id, ..)| id).collect();
        assert_eq!(ids, ["run/1795868029.25", "run/1795868030.25"]);
    }

    #[test]
    fn parameters_beside_events_count_and_a_metric_that_was_not_set_does_not() {
        let store = tempfile::tempdir().unwrap();
        write(&store.path().join("version_0"), "hp_metric", -1.0, &[]);
        std::fs::write(store.path().join("version_0/events.out.tfevents.2"), "").unwrap();
        std::fs::write(store.path().join("version_0/hparams.yaml"), "lr: 0.1\nnet: { layers: 2 }\n").unwrap();
        assert_eq!(
            found(store.path()),
            [("version_0".to_owned(), vec!["lr".to_owned(), "net.layers".to_owned()], vec![])]
        );
        assert!(read(store.path()).unwrap().notices[0].starts_with("`hp_metric` of 1 run is left out"));
    }
}
