//! Reports that are rewritten during a run, in parallel to its loop.

use std::{
    path::Path,
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    thread,
    time::{Duration, Instant},
};

use super::{Page, Report};
use crate::{
    analysis::Results,
    plan::{Plan, Study},
    run::{Observer, RunEvent},
    store::Store,
};

/// The shortest time from one report to the next.
const PAUSE: Duration = Duration::from_secs(2);
/// The same where only some job's progress is new.
const LONG_PAUSE: Duration = Duration::from_secs(10);
/// Writing takes at most one part in so many of the time.
const SHARE: u32 = 20;

/// Tells the writer that something is new.
#[derive(Debug)]
pub struct Live(Sender<News>);

/// Kind of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum News {
    Progress,
    State,
}

/// Does some work, and meanwhile keeps the reports of a plan up to date through an observer. Failures to write are
/// ignored: the writer of the last report reports them.
pub fn beside<T>(plan: &Plan, store: &Store, results: &Path, work: impl FnOnce(&mut Live) -> T) -> T {
    let (sender, receiver) = channel();
    thread::scope(|scope| {
        let writer = move || write(plan, store, results, &receiver);
        // Without the thread there is a report at the end only.
        let _ = thread::Builder::new().name("report".into()).spawn_scoped(scope, writer);
        work(&mut Live(sender))
    })
}

impl Observer for Live {
    fn on(&mut self, _plan: &Plan, event: &RunEvent) {
        let news = match event {
            RunEvent::Progress { .. } => News::Progress,
            RunEvent::Note { .. } | RunEvent::Storing { .. } | RunEvent::Ended(_) => return,
            _ => News::State,
        };
        let _ = self.0.send(news);
    }
}

/// Writes until all senders are dropped.
fn write(plan: &Plan, store: &Store, folder: &Path, receiver: &Receiver<News>) {
    let mut results = Results::default();
    let mut pause = Duration::ZERO;
    let mut last = Instant::now();
    let mut news = None;
    loop {
        let due = news.map(|news| match news {
            News::State => pause,
            News::Progress => pause.max(LONG_PAUSE),
        });
        let wait = due.map_or(Duration::from_hours(1), |due| due.saturating_sub(last.elapsed()));
        match receiver.recv_timeout(wait) {
            Ok(further) => news = news.max(Some(further)),
            Err(RecvTimeoutError::Timeout) if news.is_some() => {
                let begun = Instant::now();
                report(plan, store, folder, &mut results);
                (last, news) = (Instant::now(), None);
                pause = PAUSE.max(begun.elapsed() * SHARE);
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
