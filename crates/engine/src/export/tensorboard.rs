//! Records as event files of `TensorBoard`: for each job a folder with a file of scalars: curves by iteration, and
//! metrics at the last one.
//!
//! `event_file.rs` has the format.

pub(crate) mod event_file;

use std::{
    collections::BTreeSet,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use fs_err as fs;
use sweep_job::{Metric, Unit};

use self::event_file::{Message, frame};
use crate::record::Record;

/// Writes a folder for each record below `folder`; answers how many.
pub fn export<'r>(records: impl Iterator<Item = &'r Record>, folder: &Path) -> io::Result<usize> {
    let mut taken = BTreeSet::new();
    for record in records {
        let mut place = place(&record.label);
        if !taken.insert(place.clone()) {
            // Two labels that differ only in what cannot be in a name.
            place.as_mut_os_string().push(format!("-{}", record.key.short()));
            taken.insert(place.clone());
        }
        let own = folder.join(place);
        fs::create_dir_all(&own)?;
        let started = record.provenance.started;
        // What an earlier export has written of the same job is replaced: both would be shown.
        for entry in fs::read_dir(&own)? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with("events.out.tfevents.") {
                fs::remove_file(entry.path())?;
            }
        }
        let name = format!("events.out.tfevents.{}.{}", started.as_second(), record.key.short());
        let mut file = io::BufWriter::new(fs::File::create(own.join(name))?);
        file.write_all(&events(record))?;
        file.flush()?;
    }
    Ok(taken.len())
}

/// A label as a path of two parts, with nothing in it that leads elsewhere.
fn place(label: &str) -> PathBuf {
    let (step, point) = label.split_once('/').unwrap_or((label, ""));
    let safe = |part: &str| -> String {
        let plain = |char: char| if char.is_alphanumeric() || "=,.-_+".contains(char) { char } else { '_' };
        let text: String = part.chars().map(plain).take(200).collect();
        if text.starts_with('.') { format!("_{text}") } else { text }
    };
    let mut place = PathBuf::from(safe(step));
    if !point.is_empty() {
        place.push(safe(point));
    }
    place
}

/// The content of an event file.
fn events(record: &Record) -> Vec<u8> {
    let (started, seconds) = (record.provenance.started.as_millisecond() as f64 / 1e3, record.provenance.seconds);
    let mut file = Vec::new();
    let mut version = Message::default();
    version.double(1, started);
    version.bytes(3, b"brain.Event:2");
    frame(&mut file, version.content());
    let curves = &record.outcome.curves;
    let last = curves.values().filter_map(|curve| curve.at.last().copied()).max().unwrap_or(0);
    // When a value was taken is not recorded; iterations take about as long as each other.
    let at = |step: u64| if last > 0 { started + seconds * step as f64 / last as f64 } else { started };
    for (name, curve) in curves {
        for (step, value) in curve.at.iter().zip(&curve.values) {
            frame(&mut file, scalar(at(*step), *step, name, Metric { value: *value, unit: curve.unit }).content());
        }
    }
    for (name, metric) in &record.outcome.metrics {
        let tag = format!("metrics/{name}");
        frame(&mut file, scalar(started + seconds, last, &tag, *metric).content());
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

    #[test]
    fn no_label_leads_elsewhere() {
        for (label, expected) in [
            ("train/prune=none,seed=0", "train/prune=none,seed=0"),
            ("train", "train"),
            ("train/data=../../etc", "train/data=.._.._etc"),
            ("../x", "_../x"),
            ("a/..", "a/_.."),
        ] {
            assert_eq!(place(label), Path::new(expected));
        }
    }
}
