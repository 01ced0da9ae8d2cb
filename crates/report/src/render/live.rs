//! Reports that are rewritten during a run, in parallel to its loop.

use std::{
    collections::HashSet,
    path::Path,
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    thread,
    time::{Duration, Instant},
};

use super::{Page, Report};
use crate::{
    analysis::Results,
    plan::{JobId, Plan, Study},
    run::{Observer, RunEvent},
    store::Store,
};

/// The shortest time from one report to the next.
const REPORT_INTERVAL: Duration = Duration::from_secs(2);
/// The interval if only the progress of jobs is new.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(10);
/// Writing takes at most this fraction of the time: one part in `SHARE`.
const SHARE: u32 = 20;
/// The same limit while a job with measured times runs: one part in `SHARE_OF_MEASUREMENTS`.
const SHARE_OF_MEASUREMENTS: u32 = 200;
/// Time of the first report, until it is known.
const FIRST: Duration = Duration::from_millis(200);
/// Time in which the next job begins after one whose times count, or after the run has begun.
const SETTLE: Duration = Duration::from_millis(100);

/// Notifies the writer of news.
#[derive(Debug)]
pub struct Live {
    writer: Sender<Message>,
    /// The jobs that run here and whose times count.
    measuring: HashSet<usize>,
}

#[derive(Debug, Clone, Copy)]
struct Message {
    news: Option<News>,
    /// True if a job runs whose times count.
    measuring: bool,
}

/// Kind of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum News {
    Progress,
    State,
}

/// Schedule of the reports.
#[derive(Debug)]
struct Schedule {
    news: Option<News>,
    /// End of the last report.
    last: Instant,
    /// Time that the last report took.
    cost: Duration,
    pause: Duration,
    /// Since when a job runs whose times count.
    measuring: Option<Instant>,
    /// End of the last job whose times count, or the first news.
    calm: Option<Instant>,
}

/// Does some work, and meanwhile keeps the reports of a plan up to date through an observer. Failures to write are
/// ignored: the writer of the last report reports them.
pub fn beside<T>(plan: &Plan, store: &Store, results: &Path, work: impl FnOnce(&mut Live) -> T) -> T {
    let (sender, receiver) = channel();
    thread::scope(|scope| {
        let writer = move || write(plan, store, results, &receiver);
        // Without the thread there is a report at the end only.
        let thread = thread::Builder::new().name("report".into()).spawn_scoped(scope, writer);
        let result = work(&mut Live { writer: sender, measuring: HashSet::new() });
        // A panic of the writer, which its thread reports, does not end the run.
        let _ = thread.map(thread::ScopedJoinHandle::join);
        result
    })
}

impl Observer for Live {
    fn on(&mut self, plan: &Plan, event: &RunEvent) {
        match event {
            RunEvent::Started { job, host: None, .. } if plan.job(JobId::new(*job)).measures() => {
                self.measuring.insert(*job);
            }
            RunEvent::Storing { job }
            | RunEvent::Done { job, .. }
            | RunEvent::Retrying { job, .. }
            | RunEvent::Failed { job, .. }
            | RunEvent::Stopped { job, .. }
            | RunEvent::Skipped { job, .. } => {
                self.measuring.remove(job);
            }
            _ => {}
        }
        let news = match event {
            RunEvent::Progress { .. } => Some(News::Progress),
            RunEvent::Storing { .. } => None,
            RunEvent::Note { .. } | RunEvent::Ended(_) => return,
            _ => Some(News::State),
        };
        let _ = self.writer.send(Message { news, measuring: !self.measuring.is_empty() });
    }
}

impl Schedule {
    fn new(now: Instant) -> Self {
        Self { news: None, last: now, cost: FIRST, pause: Duration::ZERO, measuring: None, calm: None }
    }

    fn hear(&mut self, message: Message, now: Instant) {
        if self.calm.is_none() || (self.measuring.is_some() && !message.measuring) {
            self.calm = Some(now);
        }
        self.news = self.news.max(message.news);
        self.measuring = message.measuring.then(|| self.measuring.unwrap_or(now));
    }

    /// Time until the next report; `None` if nothing is new. While a job runs whose times count, a report waits until it is a
    /// small part of that job's time.
    fn due(&self, now: Instant) -> Option<Duration> {
        let pause = match self.news? {
            News::State => self.pause,
            News::Progress => self.pause.max(PROGRESS_INTERVAL),
        };
        let wait = pause.saturating_sub(now - self.last);
        let quiet = match self.measuring {
            Some(since) => (self.cost * SHARE_OF_MEASUREMENTS).saturating_sub(now - since.max(self.last)),
            None => self.calm.map_or(Duration::ZERO, |calm| SETTLE.saturating_sub(now - calm)),
        };
        Some(wait.max(quiet))
    }

    fn written(&mut self, start: Instant, now: Instant) {
        self.cost = now - start;
        self.pause = REPORT_INTERVAL.max(self.cost * SHARE);
        (self.last, self.news) = (now, None);
    }
}

/// Writes until all senders are dropped.
fn write(plan: &Plan, store: &Store, folder: &Path, receiver: &Receiver<Message>) {
    let mut results = Results::default();
    let mut schedule = Schedule::new(Instant::now());
    loop {
        let due = schedule.due(Instant::now());
        match receiver.recv_timeout(due.unwrap_or(Duration::from_hours(1))) {
            Ok(message) => schedule.hear(message, Instant::now()),
            Err(RecvTimeoutError::Timeout) if due.is_some() => {
                let start = Instant::now();
                report(plan, store, folder, &mut results);
                schedule.written(start, Instant::now());
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

fn report(plan: &Plan, store: &Store, folder: &Path, results: &mut Results) {
    for (_, id) in plan.studies.iter().flat_map(|study: &Study| study.steps.iter().flatten()) {
        results.add(plan, *id, store);
    }
    for study in &plan.studies {
        let _ = Report::new(plan, study, results, store).write(folder, Page::Anew);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn message(news: Option<News>, measuring: bool) -> Message {
        Message { news, measuring }
    }

    #[test]
    fn a_report_follows_news_and_takes_a_small_part_of_the_time() {
        let start = Instant::now();
        let mut schedule = Schedule::new(start);
        assert_eq!(schedule.due(start), None, "nothing is new");
        schedule.hear(message(Some(News::State), false), start);
        assert_eq!(schedule.due(start), Some(SETTLE), "a job may begin at once");
        assert_eq!(schedule.due(start + SETTLE), Some(Duration::ZERO));
        schedule.written(start, start + SECOND);
        assert_eq!(schedule.due(start + SECOND), None);
        schedule.hear(message(Some(News::State), false), start + SECOND);
        assert_eq!(schedule.due(start + 2 * SECOND), Some(19 * SECOND), "20 times what one takes");
    }

    #[test]
    fn a_report_waits_for_a_job_whose_times_count() {
        let start = Instant::now();
        let mut schedule = Schedule::new(start);
        schedule.hear(message(Some(News::State), true), start);
        assert_eq!(schedule.due(start), Some(FIRST * SHARE_OF_MEASUREMENTS));
        // Further news of the same job do not delay it.
        schedule.hear(message(Some(News::Progress), true), start + SECOND);
        assert_eq!(schedule.due(start + SECOND), Some(39 * SECOND));
        schedule.hear(message(None, false), start + SECOND);
        assert_eq!(schedule.due(start + SECOND), Some(SETTLE), "the job has ended");
        // The next job begins before the report does.
        schedule.hear(message(Some(News::State), true), start + SECOND);
        assert_eq!(schedule.due(start + SECOND), Some(FIRST * SHARE_OF_MEASUREMENTS));
        // A long job has reports, each a small part of its time.
        schedule.written(start + 41 * SECOND, start + 42 * SECOND);
        schedule.hear(message(Some(News::State), true), start + 43 * SECOND);
        assert_eq!(schedule.due(start + 43 * SECOND), Some(199 * SECOND));
    }
}
