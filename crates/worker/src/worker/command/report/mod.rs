//! Reports of a program while it runs: a thread polls followers of files and outputs, each of which feeds a [`Series`],
//! shows the newest values to the engine, and keeps its state for a later attempt.

mod curve;
mod json;
mod lines;
mod series;
mod state;

use std::{
    collections::BTreeMap,
    io,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    time::{Duration, Instant},
};

use sweep_job::{Curve, LIVE_SERIES, Live, Metric, Progress, Report, ReportedSource, tasks::Collect};

use super::{resume::Keeper, trial::Comparison};
use crate::{
    format::clean,
    host::threads::{self, Started},
};

pub(super) use self::{
    curve::Point,
    json::{number, parse, parse_all, parse_object},
    lines::{Appended, Line, ReportFile, values, whole},
    series::{Checkpoint, Series},
    state::State,
};

/// Reads the reports of a program while it runs.
pub(super) trait Follower: Send {
    /// Reads the new data. A source that does not exist yet is not an error.
    fn poll(&mut self, sink: &mut Series) -> io::Result<()>;

    /// Reads the rest, after the program's end.
    fn finish(&mut self, sink: &mut Series) -> io::Result<()> {
        self.poll(sink)
    }

    /// Notices about values that were not read in any attempt, after the program's end; `series` has the values that were read.
    fn silence(&self, series: &Series) -> Vec<String>;
}

/// A follower with the series that it has read.
pub(super) struct Source {
    /// Its name in the state that outlives an attempt, unique among the sources of a job.
    pub(super) name: String,
    pub(super) follower: Box<dyn Follower>,
    pub(super) series: Series,
}

/// The name of the source that is the report file.
pub(super) const REPORT: &str = "report";

/// Interval between two polls.
const INTERVAL: Duration = Duration::from_millis(100);
/// Interval between two messages with the newest values.
const MESSAGES: Duration = Duration::from_millis(500);
/// Minimum interval between two writes of the state.
const SAVES: Duration = Duration::from_secs(10);
/// The interval is also at least this many times the duration of the last write.
const SAVES_PER_TIME: u32 = 100;

/// A thread that follows the sources of a program.
pub(super) struct Following {
    stop: mpsc::Sender<()>,
    spoke: Arc<AtomicBool>,
    thread: Started<(Gathered, Keeper, Option<Comparison>)>,
}

/// The values of all sources of a program. Earlier sources take precedence.
pub(super) struct Gathered(Vec<Source>);

/// State of the thread that follows the sources.
struct Thread<R> {
    sources: Vec<Source>,
    state: PathBuf,
    /// Number of steps, if the job declares it.
    until: Option<u64>,
    to: R,
    spoke: Arc<AtomicBool>,
    /// Time of the last message and the number of changes it included; likewise for the saved state.
    told: (Instant, u64),
    saved: (Instant, u64),
    /// Time that the last write of the state took.
    took: Duration,
    keeper: Keeper,
    comparison: Option<Comparison>,
    failed: bool,
}

impl Following {
    /// Starts the thread. The state is kept in the file `state`, and the checkpoints by `keeper`. `comparison` may end the program.
    pub(super) fn start(
        sources: Vec<Source>,
        state: PathBuf,
        until: Option<u64>,
        (keeper, comparison): (Keeper, Option<Comparison>),
        to: impl Report + Send + 'static,
    ) -> io::Result<Self> {
        let (stop, stop_receiver) = mpsc::channel();
        let spoke = Arc::new(AtomicBool::new(false));
        let now = Instant::now();
        let mut thread = Thread {
            sources,
            state,
            until,
            to,
            spoke: Arc::clone(&spoke),
            told: (now, 0),
            saved: (now, 0),
            took: Duration::ZERO,
            keeper,
            comparison,
            failed: false,
        };
        let run = move || {
            while stop_receiver.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                thread.look(false);
            }
            thread.look(true);
            (Gathered(thread.sources), thread.keeper, thread.comparison)
        };
        Ok(Self { stop, spoke, thread: threads::start(run)? })
    }

    /// Returns a flag that is set once the program has written to its report file, and thus follows the contract.
    pub(super) fn spoke(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.spoke)
    }

    /// Reads the rest, after the program's end.
    pub(super) fn finish(self) -> io::Result<(Gathered, Keeper, Option<Comparison>)> {
        let _ = self.stop.send(());
        self.thread.join().map_err(|_| io::Error::other("the thread that reads the reports has panicked"))
    }
}

impl<R: Report> Thread<R> {
    fn look(&mut self, is_last: bool) {
        for Source { name, follower, series } in &mut self.sources {
            let result = if is_last { follower.finish(series) } else { follower.poll(series) };
            if let Err(error) = result {
                series.once("source", || format!("`{name}` cannot be read: {error}"));
            }
            if is_last {
                series.end(name);
            }
            for note in series.notes() {
                self.to.note(&note);
            }
            if name == REPORT && series.changes() > 0 {
                self.spoke.store(true, Ordering::Relaxed);
            }
        }
        let changes: u64 = self.sources.iter().map(|source| source.series.changes()).sum();
        if changes > self.told.1 && (is_last || self.told.0.elapsed() >= MESSAGES) {
            self.told = (Instant::now(), changes);
            match self.progress() {
                progress if progress == Progress::default() => self.to.alive(),
                progress => self.to.progress(progress),
            }
        }
        for path in self.keeper.look(checkpoints(&self.sources), self.spoke.load(Ordering::Relaxed)) {
            let text =
                format!("the checkpoint `{}` is not kept: it is not a non-empty file in SWEEP_SCRATCH", clean(&path));
            self.to.note(&text);
        }
        // An attempt that continues an earlier one has earlier points, but has to read its code again.
        let speaks = self.sources.iter().any(|source| source.series.has_points());
        if let Some(comparison) = self.comparison.as_mut().filter(|_| !is_last && speaks) {
            let note = comparison.look(checkpoints(&self.sources), || curves(&self.sources));
            if let Some(note) = note {
                self.to.note(&note);
            }
        }
        // A later attempt reads the report file again, so only other sources need the saved state.
        let pause = SAVES.max(self.took * SAVES_PER_TIME);
        let is_due = changes > self.saved.1 && (is_last || self.saved.0.elapsed() >= pause);
        if is_due {
            let start = Instant::now();
            self.save();
            self.took = start.elapsed();
            self.saved = (Instant::now(), changes);
        }
    }

    /// Keeps the state of the sources for a later attempt.
    fn save(&mut self) {
        if let Err(error) = State::save(&self.state, &self.sources)
            && !std::mem::replace(&mut self.failed, true)
        {
            self.to.note(&format!("the curves so far cannot be kept for another attempt: {error}"));
        }
    }

    fn progress(&self) -> Progress {
        let progresses = self.sources.iter().map(|source| source.series.progress());
        let (step, total) =
            progresses.fold((None, None), |(step, total), progress| (step.max(progress.0), total.or(progress.1)));
        let mut series: Vec<Live> = Vec::new();
        for (name, Point { step, value }, unit) in self.sources.iter().flat_map(|source| source.series.newest()) {
            if series.len() < LIVE_SERIES && series.iter().all(|live| live.name != name) {
                series.push(Live { name: name.to_owned(), step, value, unit });
            }
        }
        let done = step.unwrap_or(0);
        // Without a known end, the total is 0.
        let total = total.or(self.until).map_or(0, |total| total.max(done));
        Progress { done, total, series, ..Progress::default() }
    }
}

/// The curves of all sources by name, in the units that the names imply.
fn curves(sources: &[Source]) -> BTreeMap<String, Curve> {
    let mut curves = BTreeMap::new();
    for source in sources.iter().rev() {
        source.series.curves(&mut curves);
    }
    curves.into_iter().map(|(name, curve)| (name.clone(), curve.named(&name))).collect()
}

/// The checkpoints that the report has declared.
fn checkpoints(sources: &[Source]) -> &[Checkpoint] {
    sources.iter().find(|source| source.name == REPORT).map_or(&[], |source| source.series.checkpoints())
}

impl Gathered {
    /// Returns true if the program has reported that it ends early because it was asked to.
    pub(super) fn is_stopped(&self) -> bool {
        self.0.iter().any(|source| source.series.is_stopped())
    }

    /// The newest step and the number of steps in all, as the program has reported them.
    pub(super) fn progress(&self) -> (Option<u64>, Option<u64>) {
        self.0.iter().find(|source| source.name == REPORT).map_or((None, None), |source| source.series.progress())
    }

    /// The values that can become metrics, by source.
    pub(super) fn reported(&self) -> Vec<ReportedSource> {
        let sources = self.0.iter().map(|source| source.series.reported(&source.name));
        sources.filter(|source| source.name != REPORT || *source != ReportedSource::of(REPORT)).collect()
    }

    /// The curves by name.
    pub(super) fn curves(&self) -> BTreeMap<String, Curve> {
        curves(&self.0)
    }

    /// True if a source has a series or a final value with this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|source| source.series.has(name))
    }

    /// The series whose newest value is not finite, each with the first non-finite step.
    pub(super) fn diverged(&self, collect: &BTreeMap<String, Collect>) -> BTreeMap<String, Option<u64>> {
        let mut diverged = BTreeMap::new();
        for source in self.0.iter().rev() {
            let reported_source = source.series.reported(&source.name);
            diverged.retain(|name: &String, _| !reported_source.has(name));
            diverged.extend(reported_source.diverged(collect).map(|(name, since)| (name.clone(), since)));
        }
        diverged
    }

    /// Notices about sources without values, and about names that several sources have.
    pub(super) fn silence(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let mut source_by_name: BTreeMap<&str, &str> = BTreeMap::new();
        for Source { name: source, follower, series } in &self.0 {
            notes.extend(follower.silence(series));
            for name in series.names() {
                let first_source = *source_by_name.entry(name).or_insert(source);
                if first_source != source {
                    notes.push(format!("`{name}` is in `{first_source}` and in `{source}`: the first counts"));
                }
            }
        }
        notes
    }

    /// The metrics by name, and the names in `collect` that no source has reported.
    pub(super) fn metrics(&self, collect: &BTreeMap<String, Collect>) -> (BTreeMap<String, Metric>, Vec<String>) {
        let mut metrics = BTreeMap::new();
        for source in self.0.iter().rev() {
            source.series.metrics(collect, &mut metrics);
        }
        let missing_names = collect.keys().filter(|name| !self.has(name));
        (metrics, missing_names.cloned().collect())
    }
}
