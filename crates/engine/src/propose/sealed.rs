//! Data that only the evaluation may read: steps of a candidate that read it and in the baseline do not, and evaluations that
//! a candidate replaces.
//!
//! The reads come from the kernel's reports on earlier jobs and from the declared inputs. They are compared step by step: that the
//! baseline's evaluation reads the data does not allow a training to read it. The steps of the baseline that read it are the evaluation,
//! which must be the same in the candidate.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    path::{Path, PathBuf},
};

use fs_err as fs;

use super::ProposeError;
use crate::{
    plan::{Job, JobId, Plan, Study, normal},
    record::{Key, input_paths, without_keys},
};

/// A step of a recipe.
#[derive(Default)]
struct Reader {
    /// The sealed files that its jobs read.
    files: BTreeSet<PathBuf>,
    /// Its jobs, without the jobs that they need.
    jobs: BTreeSet<Key>,
}

/// Sealed files that the candidate of a plan reads and its baseline does not, as `step: file`, and evaluations that differ. The jobs
/// must have run.
///
/// # Errors
/// A sealed path does not exist, or the reads of a program are not known.
pub(super) fn leaks(plan: &Plan, sealed: &[PathBuf]) -> Result<Vec<String>, ProposeError> {
    let [baseline, candidate] = plan.studies.as_slice() else { return Err(ProposeError::Several) };
    if sealed.is_empty() {
        return Ok(Vec::new());
    }
    let sealed = resolved(sealed)?;
    let jobs: HashSet<JobId> = plan.selection()?.into_iter().collect();
    let [old, new] = [baseline, candidate].map(|study| readers(plan, study, &jobs, &sealed));
    let (old, new) = (old?, new?);
    let no_reads = Reader::default();
    let mut leaks = Vec::new();
    for (step, reader) in &new {
        let baseline_reader = old.get(step).unwrap_or(&no_reads);
        leaks.extend(reader.files.difference(&baseline_reader.files).map(|path| format!("{step}: {}", path.display())));
    }
    let evaluations = old.iter().filter(|(_, reader)| !reader.files.is_empty());
    let changed_steps = evaluations.filter(|(step, reader)| new.get(*step).is_none_or(|new| new.jobs != reader.jobs));
    leaks.extend(
        changed_steps.map(|(step, _)| format!("{step}: it is the evaluation, and differs from that of the baseline")),
    );
    Ok(leaks)
}

/// The sealed paths without detours, and without links.
///
/// # Errors
/// One of them does not exist.
pub(super) fn resolved(sealed: &[PathBuf]) -> Result<Vec<PathBuf>, ProposeError> {
    let mut paths = Vec::new();
    for path in sealed {
        let real_path = fs::canonicalize(path).map_err(|_| ProposeError::NothingSealed(path.clone()))?;
        paths.extend([normal(path), real_path]);
    }
    Ok(paths)
}

fn readers(
    plan: &Plan,
    study: &Study,
    jobs: &HashSet<JobId>,
    sealed: &[PathBuf],
) -> Result<BTreeMap<String, Reader>, ProposeError> {
    let is_below = |path: &Path| sealed.iter().any(|sealed| path.starts_with(sealed) || sealed.starts_with(path));
    let is_sealed = |path: &PathBuf| is_below(path) || fs::canonicalize(path).is_ok_and(|path| is_below(&path));
    let mut readers: BTreeMap<String, Reader> = BTreeMap::new();
    for (step, points) in study.recipe.steps.iter().zip(&study.steps) {
        let name = &step.name.value;
        for job in points.iter().filter(|(_, id)| jobs.contains(id)).map(|(_, id)| plan.job(*id)) {
            let files = files(job).ok_or_else(|| ProposeError::Unobserved(name.clone()))?;
            let reader = readers.entry(name.clone()).or_default();
            reader.files.extend(files.into_iter().filter(is_sealed));
            let identity = &job.identity;
            let params = without_keys(&serde_json::to_string(&identity.params)?);
            reader.jobs.insert(Key::of_json(&(params, &identity.inputs, &identity.code))?);
        }
    }
    Ok(readers)
}

/// The files that a job reads; `None` for a program whose reads are not known.
fn files(job: &Job) -> Option<Vec<PathBuf>> {
    let is_program = ["argv", "run"].iter().any(|param| job.values.contains_key(param));
    if job.code.is_none() && is_program {
        return None;
    }
    let observed_paths = job.code.iter().flat_map(|code| code.files.iter().map(|file| code.project.join(&file.path)));
    let values = job.task.params().filter_map(|param| Some((param.kind, job.values.get(param.name)?.clone())));
    let declared_paths = values.flat_map(|(kind, mut value)| {
        let paths = input_paths(kind, &mut value).into_iter().map(|(_, path)| PathBuf::from(&*path));
        paths.collect::<Vec<_>>()
    });
    Some(observed_paths.chain(declared_paths).map(|path| normal(&path)).collect())
}
