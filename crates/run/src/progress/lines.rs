//! Progress without a terminal: one line per event, without overwriting or control characters.

use std::{
    collections::BTreeMap,
    io::Write,
    time::{Duration, Instant},
};

use super::{added::Added, failed, headline, name, pace::Pace, repeats::Repeats, retrying, stopping};
use crate::{
    format::{clean, count, duration, latest, speeds, steps},
    plan::{JobId, Plan},
    run::{Observer, RunEvent, Summary, estimate},
};

/// Shortest interval between lines about a running job's progress.
const JOB_INTERVAL: Duration = Duration::from_secs(15);
/// Interval between lines about the progress of the whole run.
const COUNT_INTERVAL: Duration = Duration::from_mins(1);
/// Maximum number of jobs that have a line each.
const MAX_JOBS: usize = 50;
/// Shortest interval between lines about the whole run if jobs have none.
const MIN_COUNT_INTERVAL: Duration = Duration::from_secs(5);
/// The interval as a fraction of the time of the run.
const COUNT_PART: u32 = 20;

/// The word for a job that has a result.
const DONE: &str = "done";

/// Writes lines to `W`.
#[derive(Debug)]
pub struct Lines<W> {
    out: W,
    ended: usize,
    total: usize,
    /// True if each job has a line, however many there are.
    shows_all: bool,
    /// Number of jobs that are not cached.
    open: usize,
    failed: usize,
    /// The last job that ended without a line of its own.
    last: Option<String>,
    begun: Instant,
    said: BTreeMap<usize, Instant>,
    pace: Pace,
    /// Time of the last line about the progress of the whole run.
    counted: Instant,
    added: Added,
    repeats: Repeats,
}

impl<W: Write> Lines<W> {
    /// Writes to `out`. `pace` estimates the rest. With more than `MAX_JOBS` jobs, those that are done have no line of their own unless
    /// `shows_all`.
    pub fn new(out: W, pace: estimate::Pace, shows_all: bool) -> Self {
        let (said, pace) = (BTreeMap::new(), Pace::new(pace));
        let (added, repeats) = (Added::default(), Repeats::default());
        let now = Instant::now();
        let (failed, last, begun, counted) = (0, None, now, now);
        Self { out, ended: 0, total: 0, shows_all, open: 0, failed, last, begun, said, pace, counted, added, repeats }
    }

    fn begin(&mut self, jobs: usize, cached: usize) {
        self.total = jobs;
        self.ended = cached;
        self.open = jobs - cached;
        if cached > 0 {
            self.line(&format!("{cached} of {} cached", count(jobs, "job")));
        }
        if self.is_brief() {
            self.line("jobs that are done have no lines, failures have (`--verbose` shows all)");
        }
    }

    /// True if jobs that are done have no line of their own.
    fn is_brief(&self) -> bool {
        !self.shows_all && self.open > MAX_JOBS
    }

    /// Reports the progress of the whole run if the last report is older than the interval.
    fn count(&mut self) {
        let brief = (self.begun.elapsed() / COUNT_PART).clamp(MIN_COUNT_INTERVAL, COUNT_INTERVAL);
        let interval = if self.is_brief() { brief } else { COUNT_INTERVAL };
        if self.ended < self.total && self.counted.elapsed() >= interval {
            self.counted = Instant::now();
            let failed = if self.failed > 0 { format!(", {} failed", self.failed) } else { String::new() };
            let time_left =
                self.pace.left().map_or_else(String::new, |seconds| format!(", about {} left", duration(seconds)));
            let last = self.last.take().map_or_else(String::new, |last| format!("; last: {last}"));
            self.line(&format!("{} of {} ended{failed}{time_left}{last}", self.ended, count(self.total, "job")));
        }
    }

    fn line(&mut self, text: &str) {
        // A closed standard error is not an error.
        let _ = writeln!(self.out, "{text}");
    }

    fn note(&mut self, name: &str, text: &str) {
        if self.repeats.is_new(text) {
            self.line(&format!("note: {name}: {text}"));
        }
    }

    fn summarize(&mut self, summary: &Summary) {
        for note in self.repeats.repeated_notes() {
            self.line(&format!("note: {note}"));
        }
        self.line(&super::summary(summary));
    }

    fn ended(&mut self, mark: &str, plan: &Plan, job: usize, details: &str) {
        self.ended += 1;
        self.said.remove(&job);
        let name = name(plan.job(JobId::new(job)));
        if mark == DONE && self.is_brief() {
            self.last = Some(format!("{name}  {details}").trim_end().to_owned());
            return;
        }
        let text = format!("[{}/{}] {mark} {name}  {details}", self.ended, self.total);
        self.line(text.trim_end());
    }
}

impl<W: Write> Observer for Lines<W> {
    fn on(&mut self, plan: &Plan, event: &RunEvent) {
        self.pace.on(event);
        if !matches!(event, RunEvent::Added { .. }) {
            for text in self.added.take() {
                self.line(&format!("more: {text}"));
            }
        }
        self.count();
        match event {
            RunEvent::Begun { jobs, cached } => self.begin(*jobs, *cached),
            RunEvent::Added { job, because } => {
                self.total += 1;
                self.open += 1;
                self.added.push(plan, *job, name(plan.job(JobId::new(*job))), because);
            }
            RunEvent::Started { job, .. } => {
                self.said.insert(*job, Instant::now());
            }
            RunEvent::Waiting { job, machine: true, .. } => {
                let name = name(plan.job(JobId::new(*job)));
                self.line(&format!("waiting: {name}: {}", super::state::MACHINE));
            }
            RunEvent::Waiting { job, arriving: false, .. } => {
                let name = name(plan.job(JobId::new(*job)));
                self.line(&format!("waiting for another sweep, which runs {name}"));
            }
            RunEvent::Progress { job, progress } => {
                if !self.is_brief() && self.said.get(job).is_some_and(|said| said.elapsed() >= JOB_INTERVAL) {
                    self.said.insert(*job, Instant::now());
                    let mut parts = vec![name(plan.job(JobId::new(*job))), steps(progress)];
                    parts.extend(progress.live().first().map(latest));
                    parts.extend(progress.sequences_per_s.map(speeds));
                    parts.retain(|part| !part.is_empty());
                    self.line(&format!("      {}", parts.join("  ")));
                }
            }
            RunEvent::Note { job, text } => self.note(&name(plan.job(JobId::new(*job))), &clean(text)),
            RunEvent::Decided { text, .. } => self.line(&format!("decided: {}", clean(text))),
            RunEvent::Notice { text, warning } => {
                self.line(&format!("{}: {}", if *warning { "warning" } else { "note" }, clean(text)));
            }
            RunEvent::Done { job, seconds, outcome } => {
                let took = seconds.map_or_else(|| "by another sweep".to_owned(), duration);
                let details = format!("{took}  {}", headline(plan.job(JobId::new(*job)).task, outcome));
                self.ended(DONE, plan, *job, &details);
            }
            RunEvent::Retrying { job, attempt, attempts, wait, failure, alone } => {
                self.said.remove(job);
                let name = name(plan.job(JobId::new(*job)));
                self.line(&format!("retry: {name}: {}", retrying(failure, (*attempt, *attempts), *wait, *alone)));
            }
            RunEvent::Failed { job, seconds, failure, log, tolerated } => {
                let message = self.repeats.failure(&clean(&failure.message), &name(plan.job(JobId::new(*job))));
                let log = log.as_ref().map(|log| log.display().to_string());
                let details = format!("{}  {}", duration(*seconds), failed(&message, log));
                self.failed += 1;
                self.ended(if *tolerated { "failed (allowed)" } else { "FAILED" }, plan, *job, &details);
            }
            RunEvent::Stopped { job, seconds, how } => {
                self.ended("stopped", plan, *job, &format!("{}  {}", duration(*seconds), clean(how)));
            }
            RunEvent::Skipped { job, because: Some(because) } => {
                let need = name(plan.job(JobId::new(*because)));
                self.ended("skipped", plan, *job, &format!("needs {need}"));
            }
            // Storing takes only a moment. After a stop, the whole rest of the plan is skipped, and the summary counts it.
            // The number of records that may come from a remote is printed elsewhere; there may be thousands of them.
            RunEvent::Submitted { .. }
            | RunEvent::Waiting { arriving: true, machine: false, .. }
            | RunEvent::Storing { .. }
            | RunEvent::Skipped { because: None, .. } => {}
            RunEvent::Stopping { ending, running, deadline } => self.line(&stopping(*ending, *running, *deadline)),
            RunEvent::Ended(summary) => self.summarize(summary),
        }
    }
}
