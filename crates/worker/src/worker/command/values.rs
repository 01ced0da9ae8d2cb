//! Values that a program prints as `name=value`, or writes to its metrics file.

use std::{collections::BTreeMap, path::Path};

use sweep_job::{
    Failure, FailureKind, Metric, Outcome, Report, Task, TaskSpec as _,
    tasks::{Command, MetricsFrom, Number},
};

use super::words;
use crate::format::{clean, shortened};

/// Maximum number of notices about values that are not numbers.
const MAX_NOTICES: usize = 20;
/// Longest part of such a value that is quoted, in characters.
const QUOTED: usize = 80;

/// The values of an attempt.
#[derive(Default)]
pub(super) struct Values<'c> {
    /// The metrics file; without one, lines have the metrics.
    file: Option<&'c str>,
    /// Printed numbers.
    lines: BTreeMap<String, Metric>,
    /// Numbers of the metrics file.
    found: BTreeMap<String, Metric>,
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
        self.lines.insert(name, words::metric(value, unit));
    }

    /// The printed numbers; `None` for a number that is not finite.
    pub(super) fn lines(&self) -> BTreeMap<String, Option<Metric>> {
        let finite_metric = |metric: &Metric| metric.value.is_finite().then_some(*metric);
        self.lines.iter().map(|(name, metric)| (name.clone(), finite_metric(metric))).collect()
    }

    /// Takes a printed text that looks like a number.
    pub(super) fn other(&mut self, name: String, text: &str) {
        if self.file.is_none() && self.others.len() <= MAX_NOTICES {
            let first_word = text.split([' ', ';', '\t']).next().unwrap_or_default().trim_end_matches(',');
            // Patterns may read several numbers of a line.
            let reason = match Number::parse(first_word) {
                Some(_) if first_word.len() < text.len() => "more than a number: the line is not read as `name=value`",
                _ => "not a number: ignored; a line has one name, and a number has a decimal point",
            };
            self.others.insert(name, format!("is printed as `{}`, which is {reason}", shortened(text, QUOTED)));
        }
    }

    /// Reads the metrics file, if there is to be one.
    pub(super) fn read(&mut self, folder: &Path) -> Result<(), Failure> {
        let Some(path) = self.file else { return Ok(()) };
        let numbers = words::read_json(&folder.join(path)).map_err(|reason| Failure {
            kind: FailureKind::Experiment,
            message: format!("the metrics file `{path}` {reason}"),
        })?;
        self.found = numbers.found;
        let description =
            |text: String| format!("is {} in `{path}`, which is not a number: ignored", shortened(&text, QUOTED));
        self.others = numbers.others.into_iter().map(|(name, text)| (name, description(text))).collect();
        Ok(())
    }

    /// Adds the values to `outcome`, with notices about values that are not numbers, except for names that other
    /// sources report.
    pub(super) fn add_to(self, outcome: &mut Outcome, report: &mut impl Report, is_reported: impl Fn(&str) -> bool) {
        // A pattern or a report has the number.
        let others: Vec<_> = self.others.iter().filter(|(name, _)| !is_reported(name)).collect();
        for (name, text) in others.iter().take(MAX_NOTICES) {
            report.note(&format!("`{}` {text}", clean(name)));
        }
        let remaining = others.len().saturating_sub(MAX_NOTICES);
        if remaining > 0 {
            report.note(&format!("other values, at least {remaining}, are not numbers either: ignored"));
        }
        let is_file = self.file.is_some();
        for (name, Metric { value, unit }) in if is_file { self.found } else { self.lines } {
            if is_reserved(&name) {
                report.note(&reserved(&name));
                continue;
            }
            if !value.is_finite() {
                if !is_file {
                    report.note(&format!("`{name}` is {value}, which is not a number: it has diverged"));
                }
                outcome.metrics.remove(&name);
                outcome.set_diverged(&name, None);
            }
            outcome.set_open(&name, value, unit);
        }
    }
}

/// True for a metric that `sweep` measures of every program.
pub(super) fn is_own(name: &str) -> bool {
    Task::info(Command::NAME).is_some_and(|task| task.metric(name).is_some())
}

/// True for a metric that no program replaces. Programs use `attempts` for their own counts.
pub(super) fn is_reserved(name: &str) -> bool {
    is_own(name) && name.contains('.')
}

/// The notice about a program's metric with the name of a metric that `sweep` measures.
pub(super) fn reserved(name: &str) -> String {
    format!(
        "the program's `{name}` is ignored: `sweep` measures a metric of this name; report it under another name, \
         such as `program.{name}`"
    )
}
