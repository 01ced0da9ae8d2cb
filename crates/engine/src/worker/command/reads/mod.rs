//! Followers of what programs write without knowing of `sweep`: `reads:`.

mod csv;
mod jsonl;
mod pattern;
mod tensorboard;

use std::path::PathBuf;

use sweep_job::tasks::{Command, STEP_NAMES, compile_pattern};

use self::{csv::Csv, jsonl::JsonLines, tensorboard::EventFiles};
pub(super) use self::{pattern::Patterns, tensorboard::is_event_file};
use super::report::{Follower, Source, State};

/// The sources that a job's `reads` names, and the part of them that hears standard output. `locate` gives the path of a
/// file; each source continues what it had in earlier attempts.
pub(super) fn sources(
    command: &Command,
    locate: impl Fn(&str) -> PathBuf,
    state: &mut State,
) -> (Vec<Source>, Patterns) {
    let mut patterns = Patterns::default();
    let mut sources = Vec::new();
    for (kind, place) in command.sources() {
        let path = locate(place);
        let follower: Box<dyn Follower> = match kind {
            "csv" => Box::new(Csv::new(path)),
            "jsonl" => Box::new(JsonLines::new(path)),
            "tensorboard" => Box::new(EventFiles::new(path)),
            // The plan has compiled it, too.
            _ => match compile_pattern(place) {
                Ok(regex) => Box::new(patterns.add(regex)),
                Err(_) => continue,
            },
        };
        let name = source_name(kind, place);
        let series = state.take(&name);
        sources.push(Source { name, follower, series });
    }
    (sources, patterns)
}

/// The name of a source among those of a job.
pub(super) fn source_name(kind: &str, place: &str) -> String {
    format!("{kind} {place}")
}

/// The place of the name that says the step, in any case of letters.
fn step_column<'a, N: Iterator<Item = &'a str>>(names: impl Fn() -> N) -> Option<usize> {
    STEP_NAMES.iter().find_map(|step| names().position(|name| name.trim().eq_ignore_ascii_case(step)))
}
