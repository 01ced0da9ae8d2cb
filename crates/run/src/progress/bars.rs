//! Progress on a terminal: a bar for every running job, a line for every job that has ended, and one for the whole.

use std::{collections::BTreeMap, time::Duration};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use owo_colors::{OwoColorize as _, Style};
use rustix::termios::tcgetwinsize;
use sweep_job::{Failure, Progress};

use super::{
    added::Added,
    failed, headline, name,
    pace::{Pace, Quiet},
    repeats::Repeats,
    retrying,
    screen::Shown,
    stopping,
};
use crate::{
    format::{clean, count, duration, latest, quantity, row_of_blocks, shortened, speeds, steps},
    plan::{JobId, Plan},
    run::{Observer, RunEvent, Summary, estimate},
};

/// Shows bars on standard error.
#[derive(Debug)]
pub struct Bars {
    multi: MultiProgress,
    whole: ProgressBar,
    jobs: BTreeMap<usize, JobBar>,
    /// Columns for names; all names are padded to it or cut.
    width: usize,
    failed: usize,
    /// The command that shows the log of the first failed job whose line has no room for it.
    log: Option<String>,
    skipped: usize,
    color: bool,
    pace: Pace,
    /// Present while bars are shown.
    quiet: Option<Quiet>,
    /// Present while bars are shown.
    shown: Option<Shown>,
    added: Added,
    repeats: Repeats,
}

#[derive(Debug)]
struct JobBar {
    /// Hidden where the terminal has no row for it.
    bar: ProgressBar,
    /// True if the job's number of steps is unknown; `None` before the job has reported progress.
    open: Option<bool>,
    /// Steps and values of the job's first series.
    values: Vec<(u64, f64)>,
}

/// Template of a job's bar; `wide_msg` is cut at the edge of the terminal.
const ONE_JOB: &str = "  {spinner} {prefix}  {bar:10}  {pos}/{len}  {wide_msg}";
/// Template for a job that has reported its step, but not its number of steps.
const OPEN_END: &str = "    {prefix}  {spinner}  step {pos}  {wide_msg}";
/// Template for a job that has not reported anything yet.
const SILENT: &str = "    {prefix}  {spinner}  {wide_msg}";
/// The states of a bar without a known end, which are drawn one after the other; the last one is for its end.
const MOVING: [&str; 9] = [
    "━━━───────",
    "─━━━──────",
    "──━━━─────",
    "───━━━────",
    "────━━━───",
    "─────━━━──",
    "──────━━━─",
    "───────━━━",
    "──────────",
];
/// Readings that the little curve shows.
const CURVE: usize = 8;
/// Names are cut to this many columns, or to two fifths of a narrow terminal.
const MAX_NAME_WIDTH: usize = 48;
/// Rows without bars: the total, and the jobs that have just ended.
const OTHER_ROWS: usize = 4;

impl Bars {
    /// Returns bars, in color or not; `pace` estimates the remaining time.
    pub fn new(color: bool, pace: estimate::Pace) -> Self {
        let multi = MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(10));
        Self {
            multi,
            whole: ProgressBar::hidden(),
            jobs: BTreeMap::new(),
            width: 0,
            failed: 0,
            log: None,
            skipped: 0,
            color,
            pace: Pace::new(pace),
            quiet: None,
            shown: None,
            added: Added::default(),
            repeats: Repeats::default(),
        }
    }

    fn styled(&self, text: &str, style: Style) -> String {
        if self.color { text.style(style).to_string() } else { text.to_owned() }
    }

    fn padded(&self, plan: &Plan, job: usize) -> String {
        let name = cut(&name(plan.job(JobId::new(job))), self.width);
        format!("{name:width$}", width = self.width)
    }

    fn print(&self, line: &str) {
        // Without a terminal there is nothing to draw.
        let _ = self.multi.println(line.trim_end());
    }

    /// Columns for the text after the sign and the name of a job that has ended, without the blanks around them.
    fn room(&self) -> usize {
        columns().saturating_sub(self.width + 6)
    }

    /// Writes the line of a job that has ended, in one row.
    fn ended(&mut self, mark: &str, style: Style, plan: &Plan, job: usize, details: &str) {
        self.forget(job);
        let details = shortened(details, self.room());
        self.print(&format!("  {} {}  {details}", self.styled(mark, style), self.padded(plan, job)));
        self.whole.inc(1);
        self.count();
    }

    /// Writes the line of a job that has failed, with the command that shows its log where there is room for it.
    fn job_failed(&mut self, plan: &Plan, job: usize, seconds: f64, failure: &Failure, has_log: bool) {
        self.failed += 1;
        let (planned, took) = (plan.job(JobId::new(job)), duration(seconds));
        let message = self.repeats.failure(&clean(&failure.message), &name(planned));
        let log = has_log.then(|| format!("sweep logs {}", planned.key.short()));
        let mut details = format!("{took:>8}  {}", failed(&message, log.clone()));
        if details.chars().count() > self.room() {
            details = format!("{took:>8}  {message}");
            self.log = self.log.take().or(log);
        }
        self.ended("✗", Style::new().red().bold(), plan, job, &details);
    }

    fn summarize(&mut self, summary: &Summary) {
        let dim = Style::new().dimmed();
        self.whole.finish_and_clear();
        if let Some(log) = self.log.take() {
            self.print(&format!("  {} the first failed job: {log}", self.styled("!", dim)));
        }
        for note in self.repeats.repeated_notes() {
            self.print(&format!("  {} {note}", self.styled("!", dim)));
        }
        self.print(&super::summary(summary));
        (self.quiet, self.shown) = (None, None);
    }

    /// Takes a job's bar away.
    fn forget(&mut self, job: usize) {
        if let Some(JobBar { bar, .. }) = self.jobs.remove(&job) {
            bar.finish_and_clear();
            self.multi.remove(&bar);
        }
    }

    /// Updates the last line: the failures so far, and the remaining time.
    fn count(&mut self) {
        let mut parts = Vec::new();
        if self.failed > 0 {
            parts.push(self.styled(&format!("{} failed", self.failed), Style::new().red()));
        }
        if self.skipped > 0 {
            parts.push(format!("{} skipped", self.skipped));
        }
        let hidden_bars = self.jobs.values().filter(|job| job.bar.is_hidden()).count();
        if hidden_bars > 0 {
            parts.push(format!("{hidden_bars} more running"));
        }
        if self.whole.length().is_some_and(|total| total > self.whole.position()) {
            parts.extend(self.pace.left().map(|seconds| format!("eta {}", duration(seconds))));
        }
        let parts: Vec<String> = parts.into_iter().map(|part| format!(" · {part}")).collect();
        self.whole.set_message(parts.concat());
    }

    fn start(&mut self, plan: &Plan, job: usize) {
        // The job may have waited for another sweep, with a bar that shows the wait.
        self.forget(job);
        let rows = tcgetwinsize(std::io::stderr()).map_or(24, |size| usize::from(size.ws_row));
        let bar =
            if self.jobs.values().filter(|job| !job.bar.is_hidden()).count() + OTHER_ROWS < rows.max(OTHER_ROWS + 2) {
                self.multi.insert_before(&self.whole, ProgressBar::new(0))
            } else {
                ProgressBar::hidden()
            };
        bar.set_style(style(SILENT).tick_strings(&MOVING));
        bar.set_prefix(self.padded(plan, job));
        bar.set_message("starting");
        bar.enable_steady_tick(Duration::from_millis(120));
        self.jobs.insert(job, JobBar { bar, open: None, values: Vec::new() });
    }

    /// Shows the progress of `job`; parts that do not fit are left out, the least important first.
    fn advance(&mut self, job: usize, progress: &Progress) {
        let width = self.width;
        let Some(JobBar { bar, open, values }) = self.jobs.get_mut(&job) else { return };
        let is_open = progress.total == 0;
        if *open != Some(is_open) {
            *open = Some(is_open);
            bar.set_style(match (is_open, progress.done) {
                (true, 0) => style(SILENT).tick_strings(&MOVING),
                (true, _) => style(OPEN_END).tick_strings(&MOVING),
                (false, _) => style(ONE_JOB).progress_chars("━╸─"),
            });
            // A job without a step may report one later, and then gets another style.
            *open = (!is_open || progress.done > 0).then_some(is_open);
        }
        bar.set_length(progress.total);
        bar.set_position(progress.done);
        let mut parts = Vec::new();
        if let Some(first) = progress.live().first() {
            if values.last().is_none_or(|(step, _)| *step != first.step) {
                values.push((first.step, first.value));
            }
            let old = values.len().saturating_sub(CURVE);
            values.drain(..old);
            let readings: Vec<f64> = values.iter().map(|(_, value)| *value).collect();
            parts.push(format!("{} {}", latest(first), curve(&readings)));
        }
        if progress.done > 0 && progress.done < progress.total {
            let remaining_steps = (progress.total - progress.done) as f64;
            parts.push(format!(
                "eta {}",
                duration(bar.elapsed().as_secs_f64() / progress.done as f64 * remaining_steps)
            ));
        }
        if let Some(rate) = progress.tokens_per_s {
            parts.push(quantity(rate, sweep_job::Unit::TokensPerSecond));
        }
        parts.extend(progress.sequences_per_s.map(speeds));
        let prefix = format!("  ⠋ {:width$}  {:10}  {}  ", "", "", steps(progress));
        let mut room = columns().saturating_sub(prefix.chars().count());
        let fitting = parts.iter().take_while(|part| {
            let length = part.chars().count();
            let fits = length <= room;
            room = room.saturating_sub(length + 2);
            fits
        });
        bar.set_message(fitting.map(String::as_str).collect::<Vec<_>>().join("  "));
    }
}

/// Returns the terminal's width in columns.
fn columns() -> usize {
    tcgetwinsize(std::io::stderr()).map_or(80, |size| usize::from(size.ws_col))
}

/// Returns the leading parts of `line`, which two blanks separate, that fit into `room` columns.
fn whole_parts(line: &str, room: usize) -> &str {
    if line.chars().count() <= room {
        return line;
    }
    let ends = line.match_indices("  ").map(|(at, _)| at).filter(|at| line[..*at].chars().count() <= room);
    ends.last().map_or("", |end| line[..end].trim_end())
}

/// Shortens a name to `width` columns at its beginning, because the names of jobs differ at their ends.
fn cut(name: &str, width: usize) -> String {
    let length = name.chars().count();
    if length <= width {
        return name.to_owned();
    }
    let end = width.saturating_sub(1) / 2;
    let begin = width.saturating_sub(1) - end;
    name.chars().take(begin).chain(['…']).chain(name.chars().skip(length - end)).collect()
}

/// The last readings as a row of blocks, the highest as high as possible.
fn curve(values: &[f64]) -> String {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    row_of_blocks(values, low, high)
}

impl Bars {
    /// Shows how many jobs are cached, and a bar for all jobs if some are not.
    fn begin(&mut self, plan: &Plan, jobs: usize, cached: usize) {
        let widest = MAX_NAME_WIDTH.min(columns() * 2 / 5);
        self.width = plan.jobs().map(|(_, job)| name(job).chars().count()).max().unwrap_or(0).min(widest);
        if cached > 0 {
            self.print(&format!("  {} {} cached", self.styled("=", Style::new().dimmed()), count(cached, "job")));
        }
        if cached < jobs {
            self.quiet = Quiet::new();
            self.shown = Some(Shown::new(&self.multi));
            self.whole = self.multi.add(ProgressBar::new(jobs as u64));
            let noun = if jobs == 1 { "job" } else { "jobs" };
            let bar = if columns() < 72 { 10 } else { 24 };
            let template = format!("  {{bar:{bar}}}  {{pos}}/{{len}} {noun}{{msg}} · {{elapsed}}");
            self.whole.set_style(style(&template).progress_chars("━╸─"));
            self.whole.set_position(cached as u64);
            self.count();
            self.whole.enable_steady_tick(Duration::from_millis(500));
        }
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

impl Observer for Bars {
    fn on(&mut self, plan: &Plan, event: &RunEvent) {
        let (green, dim) = (Style::new().green(), Style::new().dimmed());
        self.pace.on(event);
        if !matches!(event, RunEvent::Added { .. }) {
            for text in self.added.take() {
                self.print(&format!("  {} {text}", self.styled("+", dim)));
            }
        }
        match event {
            RunEvent::Begun { jobs, cached } => self.begin(plan, *jobs, *cached),
            RunEvent::Added { job, because } => {
                self.whole.inc_length(1);
                let name = self.padded(plan, *job);
                self.added.push(plan, *job, name.trim_end().to_owned(), because);
            }
            // Thousands of jobs may wait in Slurm or for a remote; only running jobs have a bar.
            RunEvent::Submitted { .. } | RunEvent::Waiting { arriving: true, .. } => {}
            RunEvent::Started { job, .. } => self.start(plan, *job),
            RunEvent::Decided { text, .. } => self.print(&format!("  {} {}", self.styled("=", dim), clean(text))),
            RunEvent::Notice { text, .. } => self.print(&format!("  {} {}", self.styled("!", dim), clean(text))),
            RunEvent::Waiting { job, arriving: false, machine } => {
                self.start(plan, *job);
                if let Some(job) = self.jobs.get(job) {
                    job.bar.set_message(if *machine { super::state::MACHINE } else { "another sweep runs it" });
                }
            }
            RunEvent::Progress { job, progress } => {
                self.advance(*job, progress);
                if self.pace.is_due() {
                    self.count();
                }
            }
            RunEvent::Note { job, text } => {
                if self.repeats.is_new(&clean(text)) {
                    self.print(&format!("  {} {}  {}", self.styled("!", dim), self.padded(plan, *job), clean(text)));
                }
            }
            RunEvent::Storing { job } => {
                if let Some(job) = self.jobs.get(job) {
                    job.bar.set_message("storing");
                }
            }
            RunEvent::Done { job, seconds, outcome } => {
                let took = seconds.map_or_else(|| "by another sweep".to_owned(), duration);
                let headline = headline(plan.job(JobId::new(*job)).task, outcome);
                let details = format!("{took:>8}  {headline}");
                self.ended("✓", green, plan, *job, whole_parts(&details, self.room()));
            }
            RunEvent::Retrying { job, attempt, attempts, wait, failure, alone } => {
                self.forget(*job);
                let text = retrying(failure, (*attempt, *attempts), *wait, *alone);
                self.print(&format!("  {} {}  {text}", self.styled("↻", dim), self.padded(plan, *job)));
            }
            RunEvent::Failed { job, seconds, failure, log, .. } => {
                self.job_failed(plan, *job, *seconds, failure, log.is_some());
            }
            RunEvent::Stopped { job, seconds, how } => {
                let details = format!("{:>8}  stopped: {}", duration(*seconds), clean(how));
                self.ended("‖", dim, plan, *job, &details);
            }
            RunEvent::Skipped { job, because: Some(because) } => {
                self.skipped += 1;
                let need = name(plan.job(JobId::new(*because)));
                self.ended("-", dim, plan, *job, &format!("skipped: needs {need}"));
            }
            // After a stop that would be all the rest of the plan; the summary counts it.
            RunEvent::Skipped { job, because: None } => self.forget(*job),
            RunEvent::Stopping { ending, running, deadline } => self.print(&stopping(*ending, *running, *deadline)),
            RunEvent::Ended(summary) => self.summarize(summary),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_curve_shows_the_fall() {
        assert_eq!(curve(&[4.0, 3.0, 2.0, 0.5]), "█▆▄▁");
        assert_eq!(curve(&[1.0, 1.0]), "▁▁");
        assert_eq!(curve(&[f64::NAN]), "");
    }

    #[test]
    fn a_line_loses_whole_parts() {
        let line = "   0.0 s  loss 2.31  sparsity 50.0 %";
        assert_eq!(whole_parts(line, 80), line);
        assert_eq!(whole_parts(line, 35), "   0.0 s  loss 2.31");
        assert_eq!(whole_parts(line, 10), "   0.0 s");
        assert_eq!(whole_parts(line, 3), "");
    }

    #[test]
    fn a_long_name_keeps_both_its_ends() {
        assert_eq!(cut("train seed=0", 12), "train seed=0");
        assert_eq!(cut("train prune=bitter7 seed=0", 15), "train p… seed=0");
        assert_eq!(cut("train", 1), "…");
    }
}
