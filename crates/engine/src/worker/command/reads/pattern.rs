//! Numbers in lines of standard output, by regular expressions with named groups.

use std::{
    io,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use regex::Regex;
use sweep_job::tasks::STEP_NAMES;

use super::super::report::{Follower, Series};

/// Matches that wait for the next look. A program that writes more meanwhile loses some.
const MOST_WAITING: usize = 100_000;

/// A match: its step, if it has one, and its values.
type Found = (Option<u64>, Vec<(Arc<str>, f64)>);

/// The patterns of a job: the part that hears lines.
#[derive(Clone, Default)]
pub(in super::super) struct Patterns(Vec<Pattern>);

#[derive(Clone)]
struct Pattern {
    regex: Regex,
    /// The group with the step.
    step: Option<Arc<str>>,
    /// The other groups.
    names: Vec<Arc<str>>,
    waiting: Arc<Mutex<Vec<Found>>>,
    lost: Arc<AtomicU64>,
}

/// Follower of a pattern.
pub(super) struct Matches {
    pattern: Pattern,
    count: u64,
}

impl Patterns {
    /// Adds a pattern, and answers its follower.
    pub(super) fn add(&mut self, regex: Regex) -> Matches {
        let mut names: Vec<Arc<str>> = regex.capture_names().flatten().map(Arc::from).collect();
        let place = STEP_NAMES.iter().find_map(|step| names.iter().position(|name| &**name == *step));
        let step = place.map(|place| names.remove(place));
        let pattern = Pattern { regex, step, names, waiting: Arc::default(), lost: Arc::default() };
        self.0.push(pattern.clone());
        Matches { pattern, count: 0 }
    }

    /// Hears a line.
    pub(in super::super) fn hear(&self, line: &[u8]) {
        if self.0.is_empty() {
            return;
        }
        let line = String::from_utf8_lossy(line);
        for pattern in &self.0 {
            let Some(found) = pattern.regex.captures(&line) else { continue };
            let number = |name: &Arc<str>| Some((Arc::clone(name), found.name(name)?.as_str().parse::<f64>().ok()?));
            let step = pattern.step.as_ref().and_then(|name| found.name(name)?.as_str().parse().ok());
            let values: Vec<_> = pattern.names.iter().filter_map(number).collect();
            let mut waiting = pattern.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            if waiting.len() < MOST_WAITING {
                waiting.push((step, values));
            } else {
                pattern.lost.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

impl Follower for Matches {
    fn poll(&mut self, sink: &mut Series) -> io::Result<()> {
        let waiting = std::mem::take(&mut *self.pattern.waiting.lock().unwrap_or_else(PoisonError::into_inner));
        for (step, values) in waiting {
            self.count += 1;
            let step = if self.pattern.step.is_some() { step } else { Some(self.count) };
            // A match without its step has no place on a curve.
            let Some(step) = step else { continue };
            sink.at(step);
            for (name, value) in values {
                sink.point(step, &name, value, None);
            }
        }
        if self.pattern.lost.load(Ordering::Relaxed) > 0 {
            sink.once("lost", || {
                "standard output has more matches of the pattern than can be read: some are left out".into()
            });
        }
        Ok(())
    }
}
