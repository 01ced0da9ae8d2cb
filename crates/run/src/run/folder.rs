//! The folder of a run: the plan, the events, the workers' output.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fs::TryLockError,
    io::{self, Write as _},
    path::{Path, PathBuf},
    time::SystemTime,
};

use fs_err as fs;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{
    Disposition, History, demand,
    journal::{self, Line},
    slots::{Demand, Limits},
};
use crate::{
    host::{
        self,
        replaced::{Outlives, Readers, replace},
    },
    plan::{JobId, Numbering, Plan, Point, Turn},
    record::Key,
    store::Presence,
};

/// Version of [`Manifest`]'s JSON. 1: first; 2: lists of jobs that many jobs need.
const FORMAT: u32 = 2;

/// The version of a form without such lists, which earlier programs read, too.
const WITHOUT_LISTS: u32 = 1;

/// The file with the plan.
const PLAN: &str = "plan.json";

/// The file with the jobs of the reserve that have been added.
const ADDED: &str = "added.json";

/// The plan of a run, for observers and engines in other processes.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Manifest {
    /// The manifest's version.
    pub format: u32,
    /// The recipe's name.
    pub recipe: String,
    /// Time of the plan.
    pub at: Timestamp,
    /// The engine's process, on its machine.
    pub pid: u32,
    /// The machine.
    pub host: String,
    /// Source of its jobs' processes.
    #[serde(default)]
    pub through: Through,
    /// Shared resources.
    pub limits: Limits,
    /// The folders of the recipes' reports, below the folder of all reports.
    #[serde(default)]
    pub reports: Vec<PathBuf>,
    /// The arguments of `sweep run` that select these recipes, without `--only`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub typed: Vec<String>,
    /// The metrics that the recipes name, which pages show first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<String>,
    /// The axes of the recipes over which pages average.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub seeds: Vec<String>,
    /// Those of them that repeat a job with the same seed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repeats: Vec<String>,
    /// The names of the recipes' axes, by which pages divide the names of jobs. Runs of earlier versions do not have them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub axes: Vec<String>,
    /// The better directions that the recipes declare for metrics, as their words in recipes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub directions: BTreeMap<String, String>,
    /// Every job of the plan; events refer to them by index.
    pub jobs: Vec<ManifestJob>,
    /// Lists of jobs that many jobs need.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lists: Vec<Vec<usize>>,
}

/// Source of the processes of a run's jobs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Through {
    /// The engine starts them on its machine.
    #[default]
    Local,
    /// A batch system starts them. The map has one entry, with the system's word.
    #[serde(untagged)]
    Batch(BTreeMap<String, InBatchSystem>),
}

/// The jobs of a run in a batch system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InBatchSystem {
    /// The name that all jobs of this store have there.
    pub name: String,
    /// Number of pilot jobs, if there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pilots: Option<usize>,
}

impl Through {
    /// The batch system's word, and the jobs there.
    pub fn batch(&self) -> Option<(&str, &InBatchSystem)> {
        match self {
            Self::Local => None,
            Self::Batch(systems) => systems.iter().next().map(|(word, jobs)| (word.as_str(), jobs)),
        }
    }
}

/// A job of a [`Manifest`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ManifestJob {
    /// The job's name.
    pub label: String,
    /// The axes with their values, if the name cannot be divided into them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub axes: Vec<(String, String)>,
    /// The job's key.
    pub key: Key,
    /// Disposition.
    pub wanted: Disposition,
    /// The job's resources.
    pub demand: Demand,
    /// The job's place in the order of its step, if that step measures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<Turn>,
    /// Expected duration in seconds, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<f64>,
    /// The jobs that the job needs, in addition to the jobs in `lists`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<usize>,
    /// The manifest's lists whose jobs it needs, too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lists: Vec<usize>,
}

/// A run's folder.
#[derive(Debug, Clone)]
pub struct RunFolder(PathBuf);

/// Returns the names in their order, each once.
fn distinct(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut distinct_names: Vec<String> = Vec::new();
    for name in names {
        if !distinct_names.contains(&name) {
            distinct_names.push(name);
        }
    }
    distinct_names
}

impl Manifest {
    /// Manifest of a run of a plan.
    pub fn new(plan: &Plan, wanted: &[Disposition], limits: &Limits, through: Through, history: &History) -> Self {
        let mut numbers = Numbering::default();
        let points = plan.studies.iter().flat_map(|study| study.steps.iter().flatten());
        let is_named = |(point, id): &&(Point, JobId)| *plan.job(*id).label.point == *point.to_string();
        let points = points.filter(|(point, _)| !point.is_divisible()).filter(is_named);
        let mut axes: HashMap<JobId, Vec<(String, String)>> = points.map(|(point, id)| (*id, point.texts())).collect();
        let jobs = plan.jobs().zip(history.known(plan)).map(|((id, job), expected)| {
            let (lists, needs) = plan.written_needs(id);
            ManifestJob {
                label: job.label.to_string(),
                axes: axes.remove(&id).unwrap_or_default(),
                key: job.key,
                wanted: wanted[id.index()],
                demand: demand(job, limits, &history.gpus),
                turn: job.turn,
                expected,
                needs: needs.into_iter().map(JobId::index).collect(),
                lists: numbers.of(lists),
            }
        });
        let jobs = jobs.collect();
        let places = |list| plan.list(list).iter().copied().map(JobId::index).collect();
        let lists: Vec<Vec<usize>> = numbers.lists().into_iter().map(places).collect();
        Self {
            format: if lists.is_empty() { WITHOUT_LISTS } else { FORMAT },
            recipe: plan.title(),
            at: host::clock::now(),
            pid: std::process::id(),
            host: crate::host::name(),
            through,
            limits: limits.clone(),
            typed: plan.typed(),
            reports: plan.studies.iter().map(|study| study.recipe.report.clone()).collect(),
            metrics: distinct(plan.studies.iter().flat_map(|study| study.recipe.metrics().map(str::to_owned))),
            seeds: distinct(plan.studies.iter().flat_map(|study| study.recipe.seeds())),
            repeats: distinct(plan.studies.iter().flat_map(|study| study.recipe.repetitions())),
            axes: distinct(plan.studies.iter().flat_map(|study| study.recipe.axes())),
            directions: plan.studies.iter().flat_map(|study| study.recipe.directions()).collect(),
            jobs,
            lists,
        }
    }

    /// True if every needed job is done.
    fn is_whole(&self) -> bool {
        let are_jobs = |needs: &Vec<usize>| needs.iter().all(|need| *need < self.jobs.len());
        let mut jobs = self.jobs.iter();
        self.lists.iter().all(are_jobs)
            && jobs.all(|job| are_jobs(&job.needs) && job.lists.iter().all(|list| *list < self.lists.len()))
    }
}

impl RunFolder {
    /// The folder of the run of this name.
    pub fn named(results: &Path, name: &str) -> Self {
        Self(results.join("runs").join(name))
    }

    /// Creates the folder of a new run, named by the time and this process.
    pub fn create(results: &Path, manifest: &Manifest) -> io::Result<Self> {
        let runs = results.join("runs");
        host::failpoints::point("run: before its folder")?;
        fs::create_dir_all(&runs)?;
        let name = format!("{}-{}", manifest.at.strftime("%Y%m%dT%H%M%SZ"), manifest.pid);
        // A folder of this name exists if the clock was set back and a process ID was reused.
        let names = std::iter::once(name.clone()).chain((2..1000).map(|number| format!("{name}-{number}")));
        let mut created = Err(io::ErrorKind::AlreadyExists.into());
        for name in names {
            let path = runs.join(name);
            created = fs::create_dir(&path).map(|()| path);
            if !created.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::AlreadyExists) {
                break;
            }
        }
        let folder = Self(created?);
        host::failpoints::point("run: before its plan")?;
        let mut file = io::BufWriter::new(fs::File::create(folder.0.join(PLAN))?);
        serde_json::to_writer(&mut file, manifest)?;
        file.flush()?;
        host::failpoints::point("run: after its plan")?;
        Ok(folder)
    }

    /// The folders of all runs, the oldest first.
    pub fn all(results: &Path) -> Vec<Self> {
        let Ok(entries) = std::fs::read_dir(results.join("runs")) else { return Vec::new() };
        let mut folders: Vec<PathBuf> =
            entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| path.is_dir()).collect();
        // The names begin with the time; of two in one second, the later one was changed later.
        folders.sort_by_cached_key(|path| {
            let name = path.file_name().map(|name| name.to_string_lossy().chars().take(16).collect::<String>());
            (name, Self::planned(path))
        });
        folders.into_iter().map(Self).collect()
    }

    /// The time at which the run in `folder` was planned.
    pub fn planned(folder: &Path) -> Option<SystemTime> {
        std::fs::metadata(folder.join(PLAN)).and_then(|plan| plan.modified()).ok()
    }

    /// Path of the folder.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Returns the results folder that contains the run's folder.
    pub fn results(&self) -> &Path {
        self.0.parent().and_then(Path::parent).unwrap_or(Path::new(""))
    }

    /// Name for people.
    pub fn name(&self) -> String {
        self.0.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }

    /// Manifest of the run.
    pub fn manifest(&self) -> io::Result<Manifest> {
        let path = self.0.join(PLAN);
        let manifest: Manifest = serde_json::from_slice(&fs::read(&path)?)?;
        if !manifest.is_whole() {
            let message = format!("{}: a job needs one that is not there", path.display());
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        Ok(manifest)
    }

    /// Events so far. An incomplete line, which is being written or whose writer was killed, is omitted.
    pub fn events(&self) -> io::Result<Vec<Line>> {
        journal::read(&self.0)
    }

    /// Events from the position `begin` in the journal on, and the position for the next call.
    pub fn events_from(&self, begin: u64) -> io::Result<(Vec<Line>, u64)> {
        journal::read_from(&self.0, begin)
    }

    /// True if the engine is running.
    pub fn is_live(&self) -> bool {
        if let Some(alive) = Presence::is_alive(&self.0.join(journal::ALIVE)) {
            return alive;
        }
        let journal = std::fs::File::open(self.0.join(journal::FILE));
        journal.is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
    }

    /// Journal of the process of a job that runs through Slurm.
    pub fn part(&self, key: Key) -> PathBuf {
        self.0.join("jobs").join(format!("{}.jsonl", key.short()))
    }

    /// Journal of an engine in its own allocation.
    pub fn pilot(&self, number: usize) -> PathBuf {
        self.0.join("pilots").join(format!("{number}.jsonl"))
    }

    /// Stores the jobs of the reserve that have been added to the run, as indices in its plan, for engines in allocations.
    pub(super) fn keep_added(&self, added: &BTreeSet<usize>) -> io::Result<()> {
        replace(&self.0.join(ADDED), &serde_json::to_vec(added)?, Readers::Owner, Outlives::Machine)
    }

    /// The jobs of the reserve that have been added to the run.
    pub(super) fn added(&self) -> io::Result<BTreeSet<usize>> {
        match fs::read(self.0.join(ADDED)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(BTreeSet::new()),
            text => Ok(serde_json::from_slice(&text?)?),
        }
    }

    /// Output of a job's workers, all attempts in sequence.
    pub fn log(&self, key: Key) -> PathBuf {
        self.0.join("logs").join(format!("{}.log", key.short()))
    }

    /// The log of a job in this run, or in the latest run that has one.
    pub fn latest_log(&self, key: Key) -> Option<PathBuf> {
        let others = || Self::all(self.results()).iter().rev().map(|folder| folder.log(key)).find(|log| log.is_file());
        Some(self.log(key)).filter(|log| log.is_file()).or_else(others)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_of_processes_is_read_as_earlier_versions_wrote_it() {
        let jobs = |pilots| InBatchSystem { name: "sweep-1".into(), pilots };
        for (text, through) in [
            ("\"local\"", Through::Local),
            (r#"{"slurm":{"name":"sweep-1"}}"#, Through::Batch([("slurm".into(), jobs(None))].into())),
            (r#"{"slurm":{"name":"sweep-1","pilots":2}}"#, Through::Batch([("slurm".into(), jobs(Some(2)))].into())),
        ] {
            assert_eq!(serde_json::from_str::<Through>(text).unwrap(), through);
            assert_eq!(serde_json::to_string(&through).unwrap(), text);
        }
    }
}
