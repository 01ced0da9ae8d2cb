//! Follows a file of JSON objects, one a line, that was not written for `sweep`. A file that is one JSON document is read at the program's
//! end.

use std::{collections::BTreeMap, io, path::PathBuf};

use serde_json::{Map, Value};

use super::{
    super::report::{Appended, Follower, Line, Series, parse_object, values, whole},
    document::{Document, has_steps},
    step_column, unread,
};
use crate::format::shortened;

/// Longest part of a text that is quoted, in characters.
const QUOTED: usize = 40;

/// Follower of a file.
pub(super) struct JsonLines {
    lines: Appended,
    state: State,
}

#[derive(Default)]
struct State {
    /// Number of lines with an object.
    count: u64,
    /// True if a line had a step: lines without a step then have final values.
    steps: bool,
    /// True if the first step is not an integer: lines are then counted.
    counts: bool,
    /// The text of a file whose first line is only the beginning of an object or a list.
    document: Option<Vec<u8>>,
    /// The first line, if it is an object with a list or with steps: the file is JSON as a whole unless another line follows.
    first: Option<Vec<u8>>,
    /// The latest word of each entry that is one.
    words: BTreeMap<String, String>,
}

/// Entries that name the split of the data that an object is about.
const SPLIT_KEYS: [&str; 5] = ["mode", "partition", "phase", "split", "subset"];
/// Their values.
const SPLITS: [&str; 12] = [
    "dev",
    "eval",
    "evaluation",
    "test",
    "testing",
    "train",
    "training",
    "val",
    "valid",
    "validate",
    "validation",
    "vali",
];
/// Entries whose different words make objects be about different things.
const SUBJECT_KEYS: [&str; 12] =
    ["class", "client", "data", "dataset", "fold", "label", "method", "model", "name", "run", "subject", "task"];

/// Maximum size of a file that is one JSON document, in bytes.
const MAX_DOCUMENT: usize = 16 << 20;

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
            let is_complete = |line: &[u8]| self.state.may_continue(line) || parse_object(line).is_some();
            if matches!(&line, Line::Whole(line) if is_complete(line)) {
                self.state.line(&line, sink);
            } else if !matches!(&line, Line::Whole(line) if line.trim_ascii().is_empty())
                && let Some(first) = self.state.first.take()
            {
                // The line belongs to a file with several.
                self.state.object(&first, sink);
            }
        });
        self.state.finish(sink);
        Ok(())
    }

    fn silence(&self, series: &Series) -> Vec<String> {
        unread("jsonl", &self.lines, series)
    }
}

/// True for an object with a list among its values, or whose keys are steps.
fn may_be_document(line: &[u8]) -> bool {
    parse_object(line).is_some_and(|entries| entries.values().any(Value::is_array) || has_steps(&entries))
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
        if let Some(first) = self.first.take() {
            self.object(&first, sink);
        } else if self.count == 0 && self.document.is_none() && may_be_document(line) {
            self.first = Some(line.to_vec());
            return;
        }
        if self.may_continue(line) {
            let document = self.document.get_or_insert_default();
            document.extend_from_slice(line);
            document.push(b'\n');
        } else {
            self.object(line, sink);
        }
    }

    /// True for a line of a file that may be one JSON document.
    fn may_continue(&self, line: &[u8]) -> bool {
        match &self.document {
            Some(document) => document.len() + line.len() <= MAX_DOCUMENT,
            None => {
                self.count == 0
                    && matches!(line.trim_ascii_start().first(), Some(b'{' | b'['))
                    && parse_object(line).is_none()
            }
        }
    }

    /// Reads a file as one JSON document, else as lines.
    fn finish(&mut self, sink: &mut Series) {
        let Some(text) = self.document.take().or_else(|| self.first.take()) else { return };
        match Document::of(&text) {
            Some(document) => {
                document.records.iter().for_each(|entries| self.entries(entries, sink));
                document.add_to(sink);
            }
            None => text.split(|byte| *byte == b'\n').for_each(|line| self.object(line, sink)),
        }
    }

    fn object(&mut self, line: &[u8], sink: &mut Series) {
        if line.is_empty() {
            return;
        }
        let Some(entries) = parse_object(line) else {
            return sink.once("line", || "the JSON file has a line that is not an object, which is skipped".into());
        };
        self.entries(&entries, sink);
    }

    fn entries(&mut self, entries: &Map<String, Value>, sink: &mut Series) {
        self.count += 1;
        let name = step_column(|| entries.keys().map(String::as_str)).and_then(|place| entries.keys().nth(place));
        let name = name.filter(|_| !self.counts);
        let value = name.and_then(|name| entries.get(name)).filter(|value| !value.is_null());
        let step = value.and_then(whole);
        if let Some(value) = value.filter(|_| step.is_none()) {
            if self.count > 1 {
                return sink.once("step", || {
                    format!("the step {value} in the JSON file is not an integer from 0: line skipped")
                });
            }
            self.counts = true;
            sink.once("step", || {
                format!("the step {value} in the JSON file is not an integer from 0: lines are counted instead")
            });
        }
        self.steps |= step.is_some();
        let step = if self.steps { step } else { Some(self.count) };
        if let Some(step) = step {
            sink.at(step);
        }
        let word = |key: &str| entries.get(key).and_then(Value::as_str);
        let split = SPLIT_KEYS.into_iter().find_map(|key| Some((key, word(key)?)));
        let split = split.filter(|(_, word)| SPLITS.contains(&word.to_ascii_lowercase().as_str()));
        for (key, word) in SUBJECT_KEYS.into_iter().filter_map(|key| Some((key, word(key)?))) {
            let earlier = self.words.insert(key.to_owned(), word.to_owned());
            if let Some(earlier) = earlier.filter(|earlier| earlier != word) {
                sink.once(&format!("words of {key}"), || {
                    format!(
                        "objects of the JSON file are about different `{key}` (`{}`, `{}`), and the last one counts: write a file for each",
                        shortened(&earlier, QUOTED),
                        shortened(word, QUOTED)
                    )
                });
            }
        }
        let step_name = name.filter(|_| !self.counts).map(String::as_str);
        let excluded_names: Vec<&str> = step_name.into_iter().chain(split.map(|(key, _)| key)).collect();
        let Some((_, split)) = split else { return values("", entries, &excluded_names, step, sink) };
        let mut own = entries.clone();
        own.retain(|key, _| !excluded_names.contains(&key.as_str()));
        values(&format!("{split}."), &own, &[], step, sink);
    }
}
