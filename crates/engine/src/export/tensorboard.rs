//! Records as event files of `TensorBoard`: for each job a folder with a file of scalars: curves by iteration, and
//! metrics at the last one.

use std::{
    collections::BTreeMap,
    io::{self, Write as _},
    path::Path,
};

use fs_err as fs;
use sweep_job::{Metric, Unit};

use super::{
    Exported,
    names::{Names, add, apart, notices},
};
use crate::{
    format::event_file::{Message, frame},
    record::Record,
};

/// The beginning of an event file's name, which `TensorBoard` looks for.
const EVENTS: &str = "events.out.tfevents.";
/// The prefixes of the tags that are metrics, and of curves whose names begin so.
const METRICS: &str = "metrics/";
const CURVES: &str = "curves/";

/// Writes a folder for each record below `folder`.
pub fn export(records: &[Record], folder: &Path) -> io::Result<Exported> {
    let places = Places::new(records);
    for record in records {
        let (place, is_shared) = places.of(record);
        // Two jobs with one label.
        let record_folder =
            if is_shared { folder.join(format!("{place}-{}", record.key)) } else { folder.join(&place) };
        fs::create_dir_all(&record_folder)?;
        let key = record.key.short();
        // Event files that an earlier export wrote for the same job are removed from both possible folders: TensorBoard
        // would show them as well.
        remove(&record_folder, "")?;
        if is_shared {
            remove(&folder.join(place), &key)?;
        }
        let name = format!("{EVENTS}{}.{key}", record.provenance.started.as_second());
        let mut file = io::BufWriter::new(fs::File::create(record_folder.join(name))?);
        file.write_all(&events(record))?;
        file.flush()?;
    }
    let mut changed_names = BTreeMap::new();
    add(&mut changed_names, &places.points);
    Ok(Exported { jobs: records.len(), notices: notices(&changed_names, "TensorBoard") })
}

/// Removes the event files of a folder whose names end so.
fn remove(folder: &Path, end: &str) -> io::Result<()> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with(EVENTS) && name.ends_with(end) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// The folders of records: one for the step, and one in it for the point.
struct Places {
    steps: Names,
    points: Names,
    /// The number of records of each folder.
    shared: BTreeMap<String, usize>,
}

impl Places {
    fn new(records: &[Record]) -> Self {
        let parts = || records.iter().map(|record| parts(&record.label));
        // Characters that file systems reject or treat specially are replaced.
        let is_plain = |char: char| !char.is_control() && !"/\\:*?\"<>|".contains(char);
        let steps = Names::new(parts().map(|(step, _)| step), is_plain);
        let points = Names::new(parts().map(|(_, point)| point).filter(|point| !point.is_empty()), is_plain);
        let mut places = Self { steps, points, shared: BTreeMap::new() };
        for record in records {
            *places.shared.entry(places.place(record)).or_default() += 1;
        }
        places
    }

    fn place(&self, record: &Record) -> String {
        let (step, point) = parts(&record.label);
        let step = self.steps.of(step);
        if point.is_empty() { step.to_owned() } else { format!("{step}/{}", self.points.of(point)) }
    }

    /// The folder of a record, and true if other records have it, too.
    fn of(&self, record: &Record) -> (String, bool) {
        let place = self.place(record);
        let is_shared = self.shared.get(&place).is_some_and(|count| *count > 1);
        (place, is_shared)
    }
}

/// The step and the point of a label.
fn parts(label: &str) -> (&str, &str) {
    label.split_once('/').unwrap_or((label, ""))
}

/// The content of an event file.
fn events(record: &Record) -> Vec<u8> {
    let (start, seconds) = (record.provenance.started.as_millisecond() as f64 / 1e3, record.provenance.seconds);
    let mut file = Vec::new();
    let mut version = Message::default();
    version.double(1, start);
    version.bytes(3, b"brain.Event:2");
    frame(&mut file, version.content());
    let curves = &record.outcome.curves;
    let last_step = curves.values().filter_map(|curve| curve.at.last().copied()).max().unwrap_or(0);
    // The time of a value is not recorded, so it is interpolated: all iterations take about the same time.
    let time_of = |step: u64| if last_step > 0 { start + seconds * step as f64 / last_step as f64 } else { start };
    for (name, curve) in curves {
        let name = &apart(name, CURVES, [METRICS, CURVES]);
        for (step, value) in curve.at.iter().zip(&curve.values) {
            frame(&mut file, scalar(time_of(*step), *step, name, Metric { value: *value, unit: curve.unit }).content());
        }
    }
    for (name, metric) in &record.outcome.metrics {
        let tag = format!("{METRICS}{name}");
        frame(&mut file, scalar(start + seconds, last_step, &tag, *metric).content());
    }
    file
}

/// `Event { wall_time = 1, step = 2, summary = 5 }` with one `Summary.Value { tag = 1, simple_value = 2, metadata = 9 }`, whose
/// `SummaryMetadata { summary_description = 3 }` has the unit.
fn scalar(wall_time: f64, step: u64, tag: &str, Metric { value, unit }: Metric) -> Message {
    let mut inner = Message::default();
    inner.bytes(1, tag.as_bytes());
    #[expect(clippy::cast_possible_truncation, reason = "the format has single precision")]
    inner.float(2, value as f32);
    if unit != Unit::One {
        let mut metadata = Message::default();
        metadata.bytes(3, format!("unit: {}", unit.key()).as_bytes());
        inner.bytes(9, metadata.content());
    }
    let mut summary = Message::default();
    summary.bytes(1, inner.content());
    let mut event = Message::default();
    event.double(1, wall_time);
    event.number(2, step);
    event.bytes(5, summary.content());
    event
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::sample;

    #[test]
    fn no_label_leads_elsewhere_and_every_record_has_a_folder() {
        let labels = [
            "train/prune=none,seed=0",
            "train",
            "train/data=../../etc",
            "../x",
            "a/..",
            "a/b=1",
            "a/B=1",
            "a/x=a/b",
            "a/x=a_b",
            "a/b=1",
        ];
        let mut records: Vec<Record> =
            labels.iter().map(|label| Record { label: (*label).to_owned(), ..sample() }).collect();
        for (index, record) in records.iter_mut().enumerate() {
            record.key = crate::record::Key::of_json(&index).unwrap();
        }
        let folder = tempfile::tempdir().unwrap();
        for _ in 0..2 {
            export(&records, &folder.path().join("tb")).unwrap();
        }
        let mut files = Vec::new();
        let mut open_folders = vec![folder.path().to_owned()];
        while let Some(path) = open_folders.pop() {
            for entry in fs::read_dir(path).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() { open_folders.push(path) } else { files.push(path) }
            }
        }
        let folders: std::collections::BTreeSet<String> =
            files.iter().map(|path| path.parent().unwrap().display().to_string().to_lowercase()).collect();
        assert_eq!((files.len(), folders.len()), (labels.len(), labels.len()), "{files:#?}");
        assert!(folder.path().join("tb/train/prune=none,seed=0").is_dir(), "{files:#?}");
        assert!(files.iter().all(|path| path.starts_with(folder.path().join("tb"))));
    }
}
