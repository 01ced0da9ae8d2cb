//! Data that only the evaluation may read: the files of it that a candidate reads and the baseline does not.
//!
//! The reads are those that the kernel reported of earlier jobs, and the declared inputs. They are compared step by step: that
//! the baseline's evaluation reads the data does not allow a training to read it. A sealed file with another content
//! counts as another file, so a change cannot replace the evaluation either.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    path::{Path, PathBuf},
};

use super::ProposeError;
use crate::{
    plan::{Job, JobId, Plan, Study, normal},
    record::input_paths,
};

/// The sealed files that a step's jobs read, each with its digest.
type Reads = BTreeMap<String, BTreeSet<(PathBuf, String)>>;

/// The sealed files that the candidate of a plan reads and its baseline does not, as `step: file`. The jobs must have run.
///
/// # Errors
/// The reads of a program are not known.
pub(super) fn leaks(plan: &Plan, sealed: &[PathBuf]) -> Result<Vec<String>, ProposeError> {
    let [baseline, candidate] = plan.studies.as_slice() else { return Err(ProposeError::Several) };
    if sealed.is_empty() {
        return Ok(Vec::new());
    }
    let sealed: Vec<PathBuf> = sealed.iter().map(|path| normal(path)).collect();
    let jobs: HashSet<JobId> = plan.selection()?.into_iter().collect();
    let [allowed, found] = [baseline, candidate].map(|study| reads(plan, study, &jobs, &sealed));
    let (allowed, found) = (allowed?, found?);
    let none = BTreeSet::new();
    let new = found.iter().flat_map(|(step, files)| {
        let allowed = allowed.get(step).unwrap_or(&none);
        files.difference(allowed).map(move |(path, _)| format!("{step}: {}", path.display()))
    });
    Ok(new.collect())
}

fn reads(plan: &Plan, study: &Study, jobs: &HashSet<JobId>, sealed: &[PathBuf]) -> Result<Reads, ProposeError> {
    let mut reads = Reads::new();
    for (step, points) in study.recipe.steps.iter().zip(&study.steps) {
        let name = &step.name.value;
        for (_, id) in points.iter().filter(|(_, id)| jobs.contains(id)) {
            let files = files(plan.job(*id)).ok_or_else(|| ProposeError::Unobserved(name.clone()))?;
            let is_sealed =
                |path: &Path| sealed.iter().any(|sealed| path.starts_with(sealed) || sealed.starts_with(path));
            reads.entry(name.clone()).or_default().extend(files.into_iter().filter(|(path, _)| is_sealed(path)));
        }
    }
    Ok(reads)
}

/// The files that a job reads; `None` for a program whose reads are not known.
fn files(job: &Job) -> Option<Vec<(PathBuf, String)>> {
    let is_program = ["argv", "run"].iter().any(|param| job.values.contains_key(param));
    if job.code.is_none() && is_program {
        return None;
    }
    let observed = job
        .code
        .iter()
        .flat_map(|code| code.files.iter().map(|file| (normal(&code.project.join(&file.path)), file.digest.clone())));
    let declared = job.task.params().filter_map(|param| Some((param.kind, job.values.get(param.name)?.clone())));
    let declared = declared.flat_map(|(kind, mut value)| {
        let paths = input_paths(kind, &mut value).into_iter().map(|(_, path)| normal(Path::new(&*path)));
        paths.map(|path| (path, String::new())).collect::<Vec<_>>()
    });
    Some(observed.chain(declared).collect())
}
