//! Values that a program prints as `name=value`, or writes to its metrics file.

use std::{collections::BTreeMap, path::Path};

use sweep_job::{
    Failure, FailureKind, Outcome, Report, Task, Unit,
    tasks::{Command, MetricsFrom},
};

use super::{report, words};
use crate::format::{clean, shortened};

/// Most notices about values that are no numbers.
const MOST_NOTICES: usize = 20;
/// Longest part of such a value that is quoted, in characters.
const QUOTED: usize = 80;

/// The values of an attempt.
#[derive(Default)]
pub(super) struct Values<'c> {
    /// The metrics file; without one, lines have the metrics.
    file: Option<&'c str>,
    /// Numbers with their written units.
    found: BTreeMap<String, (f64, Option<&'static str>)>,
    /// Other values, as texts.
    others: BTreeMap<String, String>,
}

impl<'c> Values<'c> {
    pub(super) fn of(command: &'c Command) -> Self {
        let file = command.metrics.as_ref().and_then(MetricsFrom::file);
        Self { file: file.map(|path| path.0.as_str()), ..Self::default() }
    }

    /// Takes a printed number.
    pub(super) fn number(&mut self, name: String, value: f64, unit: Option<&'static str>) {
        if self.file.is_none() {
            self.found.insert(name, (value, unit));
        }
    }

    /// Takes a printed text that looks like a number.
    pub(super) fn other(&mut self, name: String, text: &str) {
        if self.file.is_none() && self.others.len() <= MOST_NOTICES {
            self.others.insert(name, format!("is printed as `{}`", shortened(text, QUOTED)));
        }
    }

    /// Reads the metrics file, if there is to be one.
    pub(super) fn read(&mut self, folder: &Path) -> Result<(), Failure> {
        let Some(path) = self.file else { return Ok(()) };
        let numbers = words::read_json(&folder.join(path)).map_err(|reason| Failure {
            kind: FailureKind::Experiment,
            message: format!("the metrics file `{path}` {reason}"),
        })?;
        self.found = numbers.found.into_iter().map(|(name, value)| (name, (value, None))).collect();
        let said = |text: String| format!("is {} in `{path}`", shortened(&text, QUOTED));
        self.others = numbers.others.into_iter().map(|(name, text)| (name, said(text))).collect();
        Ok(())
    }

    /// Adds them to an outcome, and says which are no numbers.
    pub(super) fn add_to(self, outcome: &mut Outcome, to: &mut impl Report) {
        let remedy = if self.file.is_none() { "; a line has one name, and a number a decimal point" } else { "" };
        for (name, text) in self.others.iter().take(MOST_NOTICES) {
            to.note(&format!("`{}` {text}, which is no number: ignored{remedy}", clean(name)));
        }
        let more = self.others.len().saturating_sub(MOST_NOTICES);
        if more > 0 {
            to.note(&format!("other values are no numbers, too, {more} at least: ignored"));
        }
        for (name, (value, unit)) in self.found {
            if !value.is_finite() {
                to.note(&format!("`{name}` is {value}, which is not a number: ignored"));
                outcome.metrics.remove(&name);
            }
            let declared = Task::info("command").and_then(|task| task.metric(&name));
            let (value, known) = report::in_base_units(value, unit).unwrap_or((value, Unit::One));
            outcome.set_open(&name, value, declared.map_or(known, |metric| metric.unit));
        }
    }
}
