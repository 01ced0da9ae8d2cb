//! Followers of the files and lines that programs write without knowing of `sweep`: `reads:`.

mod csv;
mod document;
mod globbed;
mod jsonl;
mod pattern;
mod tensorboard;

use std::path::PathBuf;

use sweep_job::tasks::{Command, Pattern, STEP_NAMES, is_pattern};

use self::{csv::Csv, globbed::Globbed, jsonl::JsonLines, tensorboard::EventFiles};
pub(super) use self::{document::Document, globbed::matching, pattern::Patterns, tensorboard::is_event_file};
use super::report::{Appended, Follower, Series, Source, State};

/// Returns the sources that a job's `reads` names, and the part of them that reads the program's output. `locate` returns the path of a
/// file; each source continues its state of earlier attempts.
pub(super) fn sources(
    command: &Command,
    locate: impl Fn(&str) -> PathBuf,
    state: &mut State,
) -> (Vec<Source>, Patterns) {
    let mut patterns = Patterns::default();
    let mut sources = Vec::new();
    for (kind, place) in command.sources() {
        let path = locate(place);
        let follower: Box<dyn Follower> = match (kind, follower_of(kind)) {
            (_, Some(_)) if is_pattern(place) => Box::new(Globbed::new(kind, place, &path)),
            (_, Some(new)) => new(path),
            // The plan has compiled it, too.
            _ => match Pattern::new(place) {
                Ok(pattern) => Box::new(patterns.add(place, pattern)),
                Err(_) => continue,
            },
        };
        let name = source_name(kind, place);
        let series = state.take(&name);
        sources.push(Source { name, follower, series });
    }
    (sources, patterns)
}

/// The follower of a file or folder of a kind; `None` for patterns of lines.
fn follower_of(kind: &str) -> Option<fn(PathBuf) -> Box<dyn Follower>> {
    match kind {
        "csv" => Some(|path| Box::new(Csv::new(path))),
        "jsonl" => Some(|path| Box::new(JsonLines::new(path))),
        "tensorboard" => Some(|path| Box::new(EventFiles::new(path))),
        _ => None,
    }
}

/// The name of a source, unique within a job.
pub(super) fn source_name(kind: &str, place: &str) -> String {
    format!("{kind} {place}")
}

/// Returns the index of the name of the step's column, regardless of case.
fn step_column<'a, N: Iterator<Item = &'a str>>(names: impl Fn() -> N) -> Option<usize> {
    STEP_NAMES.iter().find_map(|step| names().position(|name| name.trim().eq_ignore_ascii_case(step)))
}

/// Notices about a file without values.
fn unread(kind: &str, lines: &Appended, series: &Series) -> Vec<String> {
    let (name, absence) = (lines.name(), lines.absence());
    series.is_silent().then(|| format!("`{name}` of `reads: {kind}` {absence}: no value of it")).into_iter().collect()
}
