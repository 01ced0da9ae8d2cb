//! Follows a file of JSON objects, one a line, that was not written for `sweep`.

use std::{io, path::PathBuf};

use super::{
    super::report::{Appended, Follower, Line, Series, parse_object, values, whole},
    step_column, unread,
};

/// Follower of a file.
pub(super) struct JsonLines {
    lines: Appended,
    state: State,
}

#[derive(Default)]
struct State {
    /// Number of lines with an object.
    count: u64,
    /// True if a line had a step: then one without has final values.
    steps: bool,
    /// True if the first step is no integer: then lines are counted.
    counts: bool,
}

impl JsonLines {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { lines: Appended::new(path), state: State::default() }
    }
}

impl Follower for JsonLines {
    fn poll(&mut self, sink: &mut Series) -> io::Result<()> {
        self.lines.read(&mut |line| self.state.line(&line, sink)).map(drop)
    }

    fn finish(&mut self, sink: &mut Series) -> io::Result<()> {
        while self.lines.read(&mut |line| self.state.line(&line, sink))? {}
        self.lines.rest(&mut |line| {
            // An incomplete last line is ignored.
            if matches!(&line, Line::Whole(line) if parse_object(line).is_some()) {
                self.state.line(&line, sink);
            }
        });
        Ok(())
    }

    fn silence(&self, series: &Series) -> Vec<String> {
        unread("jsonl", &self.lines, series)
    }
}

impl State {
    fn line(&mut self, line: &Line<'_>, sink: &mut Series) {
        let line = match line {
            Line::Anew => {
                *self = Self::default();
                return sink.restart();
            }
            Line::Whole(line) => line.trim_ascii(),
            Line::TooLong => {
                return sink.once("line too long", || "a line of the JSON file is too long: skipped".into());
            }
        };
        if line.is_empty() {
            return;
        }
        let Some(entries) = parse_object(line) else {
            return sink.once("line", || "the JSON file has a line that is no object, which is skipped".into());
        };
        self.count += 1;
        let name = step_column(|| entries.keys().map(String::as_str)).and_then(|place| entries.keys().nth(place));
        let name = name.filter(|_| !self.counts);
        let value = name.and_then(|name| entries.get(name)).filter(|value| !value.is_null());
        let step = value.and_then(whole);
        if let Some(value) = value.filter(|_| step.is_none()) {
            if self.count > 1 {
                return sink
                    .once("step", || format!("the step {value} in the JSON file is no integer from 0: line skipped"));
            }
            self.counts = true;
            sink.once("step", || {
                format!("the step {value} in the JSON file is no integer from 0: lines are counted in its place")
            });
        }
        self.steps |= step.is_some();
        let step = if self.steps { step } else { Some(self.count) };
        if let Some(step) = step {
            sink.at(step);
        }
        let excluded_names: Vec<&str> = name.filter(|_| !self.counts).map(String::as_str).into_iter().collect();
        values("", &entries, &excluded_names, step, sink);
    }
}
