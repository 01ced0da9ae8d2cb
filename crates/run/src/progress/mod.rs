//! Progress on standard error: bars on a terminal, lines elsewhere, and states in words.
//!
//! `bars.rs` is for terminals, `lines.rs` for everything else, `state.rs` has states in words, and `screen.rs` writes the log
//! above the bars.

mod added;
mod bars;
mod lines;
mod pace;
mod repeats;
mod screen;
mod state;

use std::io::{self, IsTerminal as _};

use sweep_job::{Failure, Outcome, TaskInfo, Unit, Value};

pub use self::{
    bars::Bars,
    lines::Lines,
    screen::Screen,
    state::{REQUESTED, counts, describe, span},
};
use crate::{
    format::{clean, count, duration, measured, use_color},
    plan::Job,
    run::{Observer, Summary, estimate::Pace},
};

/// Returns the observer for progress on standard error: bars on a terminal, otherwise lines. With `shows_all`
/// each job has lines, however many there are.
pub fn on_stderr(pace: Pace, shows_all: bool) -> Box<dyn Observer> {
    if shows_bars() {
        Box::new(Bars::new(use_color(&io::stderr()), pace))
    } else {
        Box::new(Lines::new(io::stderr(), pace, shows_all))
    }
}

/// True if standard error is an interactive terminal on which rows can be redrawn. CI terminals may look like one, but
/// their output is read later.
fn shows_bars() -> bool {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty() && value != "false");
    io::stderr().is_terminal() && !set("CI") && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// A job's name in a line about the job: `train prune=bitter7 seed=0`.
pub fn name(job: &Job) -> String {
    let point = job.label.point.replace(',', " ");
    clean(&format!("{} {point}", job.label.step)).trim_end().to_owned()
}

/// The metrics that a line has room for: `loss 2.31  sparsity 50.0 %`.
fn headline(task: &TaskInfo, outcome: &Outcome) -> String {
    let headline_values = task.headline.iter().filter_map(|name| {
        let metric = outcome.metrics.get(name)?;
        // The sparsity of a dense network carries no information.
        let is_boring = *name == "sparsity" && metric.value == 0.0;
        let word = name.rsplit('.').next().unwrap_or(name);
        let value = measured(name, *metric);
        (!is_boring).then(|| if word.ends_with("_per_s") { value } else { format!("{word} {value}") })
    });
    // The first few metrics of a task that does not declare its metrics, by name.
    let open_metrics = outcome.metrics.iter().filter(|(name, _)| task.open_metrics && task.metric(name).is_none());
    let open_values = open_metrics
        .take(3)
        .map(|(name, metric)| format!("{} {}{}", clean(name), short(metric.value), after(metric.unit)));
    let diverged = outcome.diverged().map(|(name, _)| format!("{} diverged", clean(name)));
    headline_values.chain(open_values).chain(diverged.take(3)).collect::<Vec<_>>().join("  ")
}

/// A number of unknown size with four digits that mean something.
fn short(value: f64) -> Value {
    Value::Float(format!("{value:.3e}").parse().unwrap_or(value))
}

/// The symbol of a unit, as it follows a number.
fn after(unit: Unit) -> String {
    if unit.symbol().is_empty() { String::new() } else { format!(" {unit}") }
}

/// The message of a failure, with the place of its log.
fn failed(message: &str, log: Option<String>) -> String {
    let log = log.map_or_else(String::new, |log| format!("  log: {}", clean(&log)));
    format!("{message}{log}")
}

/// Message after a request to stop.
fn stopping(ending: bool, running: usize, deadline: Option<f64>) -> String {
    let jobs = count(running, "job");
    match (ending, running, deadline) {
        (_, 0, _) => "stopping".into(),
        (false, _, Some(deadline)) => format!("stopping: {jobs} still running, with {} to end", duration(deadline)),
        (false, _, None) => format!("stopping: {jobs} still running; Ctrl-C again ends them"),
        (true, ..) => format!("ending {jobs}"),
    }
}

/// Message about a failed job that will be retried.
fn retrying(failure: &Failure, (attempt, attempts): (u32, u32), wait: f64, is_alone: bool) -> String {
    let message = clean(&failure.message);
    if is_alone {
        return format!("{message}; it shared a GPU, and runs again on a whole GPU");
    }
    format!("{message}; attempt {} of {attempts} in {}", attempt + 1, duration(wait))
}

/// The number of jobs of a summary, and their numbers by outcome: `7 cached, 2 done, 1 failed`.
fn outcomes(summary: &Summary) -> (usize, String) {
    let numbers = [
        (summary.cached, "cached"),
        (summary.done, "done"),
        (summary.failed, "failed"),
        (summary.tolerated, "failed as allowed"),
        (summary.stopped, "stopped"),
        (summary.skipped, "skipped"),
    ];
    let jobs = numbers.iter().map(|(count, _)| count).sum();
    let parts: Vec<_> =
        numbers.iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!("{count} {word}")).collect();
    (jobs, parts.join(", "))
}

/// The last line of a run.
pub fn summary(summary: &Summary) -> String {
    let (jobs, outcomes) = outcomes(summary);
    let end = if summary.interrupted.is_some() { ", interrupted; run the command again to continue" } else { "" };
    format!("{}: {outcomes} in {}{end}", count(jobs, "job"), duration(summary.seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_any_size_are_short() {
        let texts = [2.0_f64.sqrt(), 4.567e-7, 123_456_789.0, 3.0].map(|number| short(number).to_string());
        assert_eq!(texts, ["1.414", "4.567e-7", "123500000", "3"]);
    }
}
