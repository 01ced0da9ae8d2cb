//! Progress without a terminal: one line per event, without overwriting or control characters.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::Write,
    time::{Duration, Instant},
};

use super::{added::Added, failed, headline, name, outcomes, pace::Pace, repeats::Repeats, retrying, stopping};
use crate::{
    format::{clean, count, duration, latest, speeds, steps},
    plan::{Job, JobId, Plan},
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
/// The word for a job that could not run.
const SKIPPED: &str = "skipped";

/// Writes lines to `W`.
#[derive(Debug)]
pub struct Lines<W> {
    out: W,
    /// Numbers of the jobs that have ended.
    ended: Summary,
    total: usize,
    /// True if each job has a line, however many there are.
    shows_all: bool,
    /// Number of jobs that are not cached.
    open: usize,
    /// The last job that ended without a line.
    last: Option<String>,
    begun: Instant,
    /// The running jobs, each with the time of its last line.
    said: BTreeMap<usize, Instant>,
    /// The steps of which a job that waits or is skipped has had a line.
    idle: BTreeSet<(&'static str, String)>,
    pace: Pace,
    /// Time of the last line about the progress of the whole run.
    counted: Instant,
    added: Added,
    repeats: Repeats,
}

impl<W: Write> Lines<W> {
    /// Writes to `out`. `pace` estimates the remaining time. With more than `MAX_JOBS` jobs, finished jobs have no line unless `shows_all`.
    pub fn new(out: W, pace: estimate::Pace, shows_all: bool) -> Self {
        let now = Instant::now();
        Self {
            out,
            ended: Summary::default(),
            total: 0,
            shows_all,
            open: 0,
            last: None,
            begun: now,
            said: BTreeMap::new(),
            idle: BTreeSet::new(),
            pace: Pace::new(pace),
            counted: now,
            added: Added::default(),
            repeats: Repeats::default(),
        }
    }

    fn begin(&mut self, jobs: usize, cached: usize) {
        self.total = jobs;
        self.ended = Summary { cached, ..Summary::default() };
        self.open = jobs - cached;
        if cached > 0 {
            self.line(&format!("{cached} of {} cached", count(jobs, "job")));
        }
        if self.is_brief() {
            self.line(
                "finished jobs are not listed, failures are; of the jobs that wait or are skipped, the first of each \
                 step is listed (`--verbose` lists all)",
            );
        }
    }

    /// True if finished jobs have no line.
    fn is_brief(&self) -> bool {
        !self.shows_all && self.open > MAX_JOBS
    }

    /// Reports the progress of the whole run if the last report is older than the interval.
    fn count(&mut self) {
        let brief = (self.begun.elapsed() / COUNT_PART).clamp(MIN_COUNT_INTERVAL, COUNT_INTERVAL);
        let interval = if self.is_brief() { brief } else { COUNT_INTERVAL };
        let (ended, outcomes) = outcomes(&self.ended);
        if ended < self.total && self.counted.elapsed() >= interval {
            self.counted = Instant::now();
            let outcomes = if outcomes.is_empty() { String::new() } else { format!(": {outcomes}") };
            let running = format!("; {} running", self.said.len());
            let time_left =
                self.pace.left().map_or_else(String::new, |seconds| format!(", about {} left", duration(seconds)));
            let last = self.last.take().map_or_else(String::new, |last| format!("; last: {last}"));
            self.line(&format!("{ended} of {} ended{outcomes}{running}{time_left}{last}", count(self.total, "job")));
        }
    }

    /// Writes a line about a job that waits or is skipped (`word`); if finished jobs have no lines, only for the first job of a step.
    fn idle(&mut self, word: &'static str, job: &Job, text: &str) {
        if !self.is_brief() || self.idle.insert((word, job.label.step.to_string())) {
            self.line(text);
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

    /// Counts a job that has ended, and writes its line.
    fn end(&mut self, plan: &Plan, event: &RunEvent) {
        match event {
            RunEvent::Done { job, seconds, outcome } => {
                let took = seconds.map_or_else(|| "by another sweep".to_owned(), duration);
                let details = format!("{took}  {}", headline(plan.job(JobId::new(*job)).task, outcome));
                self.ended.done += 1;
                self.ended(DONE, plan, *job, &details);
            }
            RunEvent::Failed { job, seconds, failure, log, tolerated } => {
                let message = self.repeats.failure(&clean(&failure.message), &name(plan.job(JobId::new(*job))));
                let log = log.as_ref().map(|log| log.display().to_string());
                let details = format!("{}  {}", duration(*seconds), failed(&message, log));
                *(if *tolerated { &mut self.ended.tolerated } else { &mut self.ended.failed }) += 1;
                self.ended(if *tolerated { "failed (allowed)" } else { "FAILED" }, plan, *job, &details);
            }
            RunEvent::Stopped { job, seconds, how } => {
                self.ended.stopped += 1;
                self.ended("stopped", plan, *job, &format!("{}  {}", duration(*seconds), clean(how)));
            }
            RunEvent::Skipped { job, because: Some(because) } => {
                let need = name(plan.job(JobId::new(*because)));
                self.ended.skipped += 1;
                self.ended(SKIPPED, plan, *job, &format!("needs {need}"));
            }
            _ => {}
        }
    }

    /// Writes the line of a job that has ended. The caller has counted it.
    fn ended(&mut self, mark: &str, plan: &Plan, job: usize, details: &str) {
        self.said.remove(&job);
        let job = plan.job(JobId::new(job));
        let name = name(job);
        if mark == DONE && self.is_brief() {
            self.last = Some(format!("{name}  {details}").trim_end().to_owned());
            return;
        }
        let text = format!("[{}/{}] {mark} {name}  {details}", outcomes(&self.ended).0, self.total);
        let text = text.trim_end();
        if mark == SKIPPED { self.idle(SKIPPED, job, text) } else { self.line(text) }
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
                let job = plan.job(JobId::new(*job));
                self.idle("machine", job, &format!("waiting: {}: {}", name(job), super::state::MACHINE));
            }
            RunEvent::Waiting { job, arriving: false, .. } => {
                let job = plan.job(JobId::new(*job));
                self.idle("sweep", job, &format!("waiting for another sweep, which runs {}", name(job)));
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
            RunEvent::Retrying { job, attempt, attempts, wait, failure, alone } => {
                self.said.remove(job);
                let name = name(plan.job(JobId::new(*job)));
                self.line(&format!("retry: {name}: {}", retrying(failure, (*attempt, *attempts), *wait, *alone)));
            }
            RunEvent::Done { .. }
            | RunEvent::Failed { .. }
            | RunEvent::Stopped { .. }
            | RunEvent::Skipped { because: Some(_), .. } => self.end(plan, event),
            // Storing takes only a moment, in which another job runs.
            RunEvent::Storing { job } => {
                self.said.remove(job);
            }
            // After a stop, the whole rest of the plan is skipped, and the summary counts it.
            // The number of records that may come from a remote is printed elsewhere; there may be thousands of them.
            RunEvent::Submitted { .. }
            | RunEvent::Waiting { arriving: true, machine: false, .. }
            | RunEvent::Skipped { because: None, .. } => {}
            RunEvent::Stopping { ending, running, deadline } => self.line(&stopping(*ending, *running, *deadline)),
            RunEvent::Ended(summary) => self.summarize(summary),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_about_the_run_has_the_numbers_of_its_jobs() {
        let mut lines = Lines::new(Vec::new(), estimate::Pace::silent(), false);
        lines.begin(2000, 20);
        lines.out.clear();
        lines.ended = Summary { cached: 20, done: 99, failed: 1, ..Summary::default() };
        lines.said = BTreeMap::from([(120, Instant::now()), (121, Instant::now())]);
        lines.count();
        assert!(lines.out.is_empty(), "the interval is not over");
        let Some(earlier) = Instant::now().checked_sub(COUNT_INTERVAL) else { return };
        lines.counted = earlier;
        lines.count();
        let text = String::from_utf8_lossy(&lines.out);
        assert_eq!(text, "120 of 2000 jobs ended: 20 cached, 99 done, 1 failed; 2 running\n");
    }
}
