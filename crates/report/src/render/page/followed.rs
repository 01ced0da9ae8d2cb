//! A run that is followed: the states of its jobs, their results, and the series of running jobs. The pages of `sweep ui` and the view of
//! `sweep watch` show it.

use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
    time::SystemTime,
};

use jiff::Timestamp;
use serde::Serialize;
use sweep_job::{Curve, LIVE_SERIES, Live, Metrics, Progress, Task, TaskInfo, Unit};

use super::{
    columns::{Columns, Headings, MAX_COLUMNS},
    list::{Line, Place, ended, ended_as, milliseconds, state, tags, took},
};
use crate::{
    format::{clean, latest},
    progress::{REQUESTED, describe},
    record::Key,
    run::{
        Manifest, RunEvent, RunFolder,
        watch::{Snapshot, State, Watch},
    },
    store::{Stamp, Store},
};

/// Maximum number of readings of a running job's series that are drawn; beyond, every second one is.
const MAX_LIVE_POINTS: usize = 120;

/// A run that is observed repeatedly.
#[derive(Debug)]
pub struct FollowedRun {
    watch: Watch,
    store: Store,
    /// The names of the steps.
    pub steps: Vec<String>,
    /// The step and the point of each job.
    pub jobs: Vec<(usize, Place)>,
    /// The results that were read.
    results: BTreeMap<usize, (&'static TaskInfo, Metrics)>,
    /// The stamps of their records.
    stamps: HashMap<usize, Stamp>,
    /// Seconds that finished jobs took, if they are known, and their ends in seconds since 1970.
    took: HashMap<usize, (Option<f64>, i64)>,
    /// Remarks on finished jobs.
    says: HashMap<usize, String>,
    /// The series of running jobs, and of jobs that ended without a result.
    curves: HashMap<usize, Vec<LiveCurve>>,
    /// The columns of the results, and the number of results from which they were determined.
    found: (usize, Columns),
    /// The results' values in these columns.
    cells: HashMap<usize, Vec<Option<f64>>>,
    /// The tags on records, and the time of the last change of them.
    tags: (Option<SystemTime>, HashMap<Key, Vec<String>>),
    /// The names of the finished jobs' series, with the units of the first ones.
    pub series: BTreeMap<String, Unit>,
}

/// A series of a job that runs.
#[derive(Debug, Clone, Serialize)]
pub struct LiveCurve {
    /// Its name.
    pub name: String,
    /// The latest value, with its name.
    says: String,
    /// Steps and values.
    pub points: Vec<(u64, f64)>,
    /// The stride of the readings that are kept, and the number left out since the last one.
    #[serde(skip)]
    every: usize,
    #[serde(skip)]
    since: usize,
}

impl LiveCurve {
    /// The present state of a run, with the series that its jobs have reported, by the jobs' indices.
    pub(super) fn of_run(folder: RunFolder) -> std::io::Result<(Snapshot, HashMap<usize, Vec<Self>>)> {
        let (snapshot, lines) = Watch::new(folder)?.look()?;
        let mut curves: HashMap<usize, Vec<Self>> = HashMap::new();
        for line in lines {
            if let RunEvent::Progress { job, progress } = line.event {
                draw_on(curves.entry(job).or_default(), &progress);
            }
        }
        Ok((snapshot, curves))
    }

    /// Adds a reading. A reading at an earlier step replaces all later readings, because the job has been resumed.
    fn add(&mut self, live: &Live) {
        self.says = latest(live);
        match self.points.last() {
            Some((step, _)) if *step == live.step => return,
            Some((step, _)) if *step > live.step => self.points.retain(|(step, _)| *step < live.step),
            _ => {}
        }
        // The newest reading is always in the list, and is kept there if its stride has come.
        if self.since > 0 {
            self.points.pop();
        }
        self.points.push((live.step, live.value));
        self.since = (self.since + 1) % self.every;
        if self.points.len() > MAX_LIVE_POINTS {
            let mut index = 0;
            self.points.retain(|_| {
                index += 1;
                index % 2 == 1
            });
            self.every *= 2;
        }
    }
}

/// Adds the readings of a message to the series of a job.
fn draw_on(curves: &mut Vec<LiveCurve>, progress: &Progress) {
    for live in progress.live() {
        let index = curves.iter().position(|curve| curve.name == live.name).unwrap_or_else(|| {
            let name = live.name.clone();
            curves.push(LiveCurve { name, says: String::new(), points: Vec::new(), every: 1, since: 0 });
            curves.len() - 1
        });
        curves[index].add(&live);
    }
    curves.truncate(LIVE_SERIES);
}

impl FollowedRun {
    /// Begins to follow a run.
    pub fn new(folder: RunFolder, results: &Path) -> std::io::Result<Self> {
        let manifest = folder.manifest()?;
        let mut steps: Vec<String> = Vec::new();
        let mut index: HashMap<String, usize> = HashMap::new();
        let jobs = manifest.jobs.iter().map(|job| {
            let (step, point) = job.label.split_once('/').unwrap_or((&job.label, ""));
            let next = steps.len();
            let step = *index.entry(step.to_owned()).or_insert_with(|| {
                steps.push(clean(step).into_owned());
                next
            });
            (step, Place::new(point, &job.axes))
        });
        let jobs = jobs.collect();
        Ok(Self {
            watch: Watch::new(folder)?,
            store: Store::new(results),
            steps,
            jobs,
            results: BTreeMap::new(),
            stamps: HashMap::new(),
            took: HashMap::new(),
            says: HashMap::new(),
            curves: HashMap::new(),
            found: (0, Columns::default()),
            cells: HashMap::new(),
            tags: (None, HashMap::new()),
            series: BTreeMap::new(),
        })
    }

    /// Forgets the results whose records have been replaced or removed since they were read.
    pub fn forget_changed(&mut self) {
        let Self { watch, store, results, stamps, took, says, cells, found, .. } = self;
        stamps.retain(|job, stamp| {
            let is_same = store.stamp(watch.manifest().jobs[*job].key) == Some(*stamp);
            if !is_same {
                results.remove(job);
                took.remove(job);
                says.remove(job);
                cells.remove(job);
                found.0 = 0;
            }
            is_same
        });
    }

    /// Reads the present state of the run.
    pub fn look(&mut self) -> std::io::Result<Snapshot> {
        self.look_with(|_, _, _| {})
    }

    /// As [`Self::look`]; gives the series of each record that it reads to `keep`, with the record's key and stamp.
    pub fn look_with(
        &mut self,
        mut keep: impl FnMut(Key, Stamp, BTreeMap<String, Curve>),
    ) -> std::io::Result<Snapshot> {
        let (snapshot, lines) = self.watch.look()?;
        for line in lines {
            if let RunEvent::Progress { job, progress } = line.event {
                draw_on(self.curves.entry(job).or_default(), &progress);
            }
        }
        for (job, state) in snapshot.jobs.iter().enumerate() {
            let is_done = matches!(state, State::Done { .. } | State::Cached);
            if is_done && !self.results.contains_key(&job) {
                self.curves.remove(&job);
                let key = snapshot.manifest.jobs[job].key;
                let stamp = self.store.stamp(key);
                let record = self.store.get(key).ok().flatten();
                if let (Some((record, task)), Some(stamp)) =
                    (record.and_then(|record| Task::info(&record.identity.task).map(|task| (record, task))), stamp)
                {
                    self.took.insert(job, (took(&record), ended(&record)));
                    self.says.insert(job, ended_as(&record).1);
                    // A single value is a metric.
                    let curves = record.outcome.curves.iter().filter(|(_, curve)| curve.at.len() > 1);
                    for (name, curve) in curves {
                        self.series.entry(clean(name).into_owned()).or_insert(curve.unit);
                    }
                    self.results.insert(job, (task, record.outcome.metrics));
                    self.stamps.insert(job, stamp);
                    if !record.outcome.curves.is_empty() {
                        keep(key, stamp, record.outcome.curves);
                    }
                }
            }
        }
        let noted = self.store.noted();
        if noted != self.tags.0 {
            let all = self.store.all_notes();
            self.tags = (noted, all.iter().map(|(key, notes)| (*key, tags(notes))).collect());
        }
        Ok(snapshot)
    }

    /// Headings of the columns of metrics; determines them anew if there are new results.
    pub fn headings(&mut self, manifest: &Manifest) -> Headings {
        if self.found.0 != self.results.len() {
            let names: Vec<&str> = manifest.metrics.iter().map(String::as_str).collect();
            let results = self.results.values().map(|(task, metrics)| (*task, metrics));
            let columns = Columns::new(results, &names, &manifest.directions, MAX_COLUMNS);
            if columns != self.found.1 {
                self.cells.clear();
            }
            self.found = (self.results.len(), columns);
        }
        for (job, (_, metrics)) in &self.results {
            self.cells.entry(*job).or_insert_with(|| self.found.1.cells(metrics));
        }
        self.found.1.headings()
    }

    /// The line of a job.
    pub fn line(&self, snapshot: &Snapshot, index: usize, now: Timestamp) -> Line {
        let (job, doing) = (&snapshot.manifest.jobs[index], &snapshot.jobs[index]);
        let (word, details) = describe(snapshot, index, now);
        // Details that change with every refresh are shown above the list.
        let details = match doing {
            State::Running { .. } | State::Retrying { .. } if snapshot.requested.contains(&index) => {
                REQUESTED.to_owned()
            }
            State::Running { .. } | State::Retrying { .. } => String::new(),
            State::Done { .. } | State::Cached => self.says.get(&index).cloned().unwrap_or_default(),
            _ => details,
        };
        // The duration comes from the record, or from the journal until the record has been read.
        let recorded = self.took.get(&index).map(|(seconds, _)| *seconds);
        let seconds = recorded.unwrap_or(match doing {
            State::Done { seconds } => *seconds,
            // A job that was stopped before it began has no time.
            State::Failed { seconds, .. } | State::Stopped { seconds, .. } => {
                Some(*seconds).filter(|seconds| *seconds > 0.0)
            }
            _ => None,
        });
        let seconds = seconds.map(milliseconds);
        let cells = self.cells.get(&index).cloned().unwrap_or_default();
        let (step, point) = &self.jobs[index];
        let ended = self.took.get(&index).map(|(_, ended)| *ended);
        let tags = ended.and_then(|_| self.tags.1.get(&job.key)).cloned().unwrap_or_default();
        Line(*step, point.clone(), state(word), job.key.short(), seconds, cells, details, ended, tags)
    }

    /// The series of a running job, or of a job that ended without a result.
    pub fn curves(&self, index: usize) -> &[LiveCurve] {
        self.curves.get(&index).map_or(&[], Vec::as_slice)
    }
}
