//! Numbers in lines of output, by patterns.

use std::{
    io,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use sweep_job::tasks::{Found, Pattern, Reading};

use super::super::{
    program::Output,
    report::{Follower, Series},
};
use crate::format::shortened;

/// Matches that wait for the next look. A program that writes more meanwhile waits for that.
const MAX_WAITING: usize = 100_000;
/// Time limit of a program's wait, which only an unresponsive disk can exceed.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Longest part of a line that is quoted, in characters.
const QUOTED: usize = 80;

/// The patterns of a job: the part that receives lines.
#[derive(Clone, Default)]
pub(in super::super) struct Patterns(Vec<Arc<Heard>>);

struct Heard {
    text: String,
    pattern: Pattern,
    waiting: Mutex<Vec<(Output, Found)>>,
    lost: AtomicU64,
    /// Number of lines without a match.
    others: AtomicU64,
    /// True if the rest of a line was not read.
    is_cut: AtomicBool,
}

/// Follower of a pattern. It reads standard output, and standard error if standard output has no match.
pub(super) struct Matches {
    heard: Arc<Heard>,
    /// Number of matches of the output that counts.
    count: u64,
    /// The output whose matches count, and the series before its first match.
    of: Option<Output>,
    before: Option<Series>,
}

impl Patterns {
    /// Adds a pattern, and returns its follower.
    pub(super) fn add(&mut self, text: &str, pattern: Pattern) -> Matches {
        let heard = Arc::new(Heard {
            text: text.to_owned(),
            pattern,
            waiting: Mutex::default(),
            lost: AtomicU64::new(0),
            others: AtomicU64::new(0),
            is_cut: AtomicBool::new(false),
        });
        self.0.push(Arc::clone(&heard));
        Matches { heard, count: 0, of: None, before: None }
    }

    /// Hears a line of an output; `is_cut` if it was longer.
    pub(in super::super) fn hear(&self, output: Output, line: &[u8], is_cut: bool) {
        if self.0.is_empty() {
            return;
        }
        let line = String::from_utf8_lossy(line);
        for entry in &self.0 {
            if is_cut {
                entry.is_cut.store(true, Ordering::Relaxed);
            }
            match entry.pattern.find(&line) {
                Some(values) => entry.add(output, values),
                None if line.trim().is_empty() => {}
                None => {
                    entry.others.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }
}

impl Heard {
    /// Adds a match, once there is room.
    fn add(&self, output: Output, values: Found) {
        let start = Instant::now();
        loop {
            let mut queue = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            if queue.len() < MAX_WAITING {
                return queue.push((output, values));
            }
            drop(queue);
            if start.elapsed() > TIMEOUT {
                self.lost.fetch_add(1, Ordering::Relaxed);
                return;
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// The pattern, for a notice.
    fn shown(&self) -> String {
        shortened(&self.text, QUOTED)
    }
}

impl Matches {
    /// Returns true if the matches of `output` count. Matches on stderr do not count once stdout has a match.
    fn counts(&mut self, output: Output, sink: &mut Series) -> bool {
        let pattern_text = self.heard.shown();
        match self.of {
            Some(chosen_output) if chosen_output == output => true,
            None => {
                self.of = Some(output);
                self.before = (output == Output::Err).then(|| sink.clone());
                true
            }
            Some(Output::Out) => {
                sink.once("outputs", || both(&pattern_text));
                false
            }
            Some(Output::Err) => {
                // Notices and changes stay.
                sink.go_back_to(self.before.take().unwrap_or_default());
                (self.of, self.count) = (Some(output), 0);
                sink.once("outputs", || both(&pattern_text));
                true
            }
        }
    }

    fn take(&mut self, Found { step, parts }: Found, sink: &mut Series) {
        self.count += 1;
        let pattern_text = self.heard.shown();
        let step = match step {
            None => self.count,
            Some(Some(Reading::Number(number))) if number.step().is_some() => number.step().unwrap_or_default(),
            Some(Some(reading)) => {
                let step = match &reading {
                    Reading::Number(number) => number.value.to_string(),
                    Reading::Text(text) | Reading::Cut(_, text) => shortened(text, QUOTED),
                };
                return sink.once("step", || {
                    format!(
                        "the step `{step}` that the pattern `{pattern_text}` reads is not an integer from 0: line \
                         skipped"
                    )
                });
            }
            Some(None) => {
                return sink.once("step", || {
                    format!("the pattern `{pattern_text}` matches a line without its step: line skipped")
                });
            }
        };
        sink.at(step);
        for (name, reading) in parts {
            match reading {
                Reading::Number(number) => sink.point(step, &name, number.value, number.unit),
                Reading::Text(text) => sink.once(&format!("text of {name}"), || {
                    format!(
                        "`{name}` is `{}` in a line of output, which is not a number: no value",
                        shortened(&text, QUOTED)
                    )
                }),
                Reading::Cut(part, text) => sink.once(&format!("part of {name}"), || {
                    let (part, text) = (shortened(&part, QUOTED), shortened(&text, QUOTED));
                    format!(
                        "the pattern `{pattern_text}` reads `{part}` of `{text}` as `{name}`, which is not a whole \
                         number: no value; `{{{name}}}` stands for a number, and text around it belongs to the pattern"
                    )
                }),
            }
        }
    }
}

impl Follower for Matches {
    fn poll(&mut self, sink: &mut Series) -> io::Result<()> {
        let matches = std::mem::take(&mut *self.heard.waiting.lock().unwrap_or_else(PoisonError::into_inner));
        for (output, values) in matches {
            if self.counts(output, sink) {
                self.take(values, sink);
            }
        }
        let lost_count = self.heard.lost.load(Ordering::Relaxed);
        if lost_count > 0 {
            sink.once("lost", || "output has more matches of the pattern than can be read: some are left out".into());
        }
        if self.heard.is_cut.load(Ordering::Relaxed) {
            sink.once("cut", || {
                "output has a line of more than 64 KiB, of which the pattern reads the beginning".into()
            });
        }
        Ok(())
    }

    fn silence(&self, series: &Series) -> Vec<String> {
        let pattern_text = self.heard.shown();
        if self.of.is_none() {
            let other_lines = self.heard.others.load(Ordering::Relaxed);
            let text = format!(
                "the pattern `{pattern_text}` of `reads` matches none of the {other_lines} lines of output: no value of it; `sweep logs` shows them"
            );
            return if series.is_silent() { vec![text] } else { Vec::new() };
        }
        let missing_names = self.heard.pattern.names().into_iter().filter(|name| !series.has(name));
        missing_names
            .map(|name| {
                format!("the pattern `{pattern_text}` of `reads` matches, but never with a number for `{name}`")
            })
            .collect()
    }
}

fn both(pattern: &str) -> String {
    format!(
        "the pattern `{pattern}` matches lines of standard output and of standard error: those of standard output count"
    )
}
