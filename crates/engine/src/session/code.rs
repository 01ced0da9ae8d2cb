//! The code of jobs at the end of a run: a file that was edited meanwhile.

use crate::{
    format::{clean, count, say},
    plan::{Digests, JobId, Plan},
    store::Store,
};

/// Most names of jobs in a warning.
const MAX_NAMES: usize = 3;

/// Reports the jobs with a record whose code has been edited during the run. True if some of them have read other versions than the rest,
/// so that the records of the edited code count no more.
pub fn has_mixed_versions(plan: &Plan, store: &Store) -> bool {
    let with_code = plan.jobs().filter(|(_, job)| job.code.is_some() && store.contains(job.key));
    let with_code: Vec<JobId> = with_code.map(|(id, _)| id).collect();
    if with_code.is_empty() {
        return false;
    }
    let (mut manifests, mut digests) = (store.manifests(), Digests::open(store.digests()));
    let edited = with_code.iter().filter(|id| plan.has_other_code(**id, &mut manifests, &mut digests));
    let edited: Vec<JobId> = edited.copied().collect();
    if edited.is_empty() {
        return false;
    }
    // A job that began after the edit has read the present version.
    let changed = edited.iter().map(|id| plan.changed_file(*id, &mut manifests, &mut digests)).collect::<Vec<_>>();
    let file = changed.iter().flatten().next().cloned();
    let is_reader = |(id, changed): &(&JobId, &Option<String>)| {
        file.is_none() || **changed == file || changed.is_none() && !plan.has_read_set(**id, &mut manifests)
    };
    let readers: Vec<JobId> = edited.iter().zip(&changed).filter(is_reader).map(|(id, _)| *id).collect();
    let file = file.map_or_else(|| "a file or package".to_owned(), |file| format!("`{}`", clean(&file)));
    let is_mixed = with_code.iter().any(|id| plan.had_other_code(*id, &mut manifests, &mut digests));
    if is_mixed {
        let labels = readers.iter().take(MAX_NAMES).map(|id| plan.job(*id).label.to_string()).collect::<Vec<_>>();
        let more = readers.len().saturating_sub(MAX_NAMES);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let whose = match edited.len() - readers.len() {
            0 => "their results are".to_owned(),
            others => format!("their results and those of {} are", count(others, "other job")),
        };
        let jobs = count(readers.len(), "job");
        say(format_args!(
            "warning: {file} changed during the run: {jobs} read it before ({}{more}), so {whose} left out of tables and claims; run \
             again",
            clean(&labels.join(", "))
        ));
    } else {
        let jobs = count(edited.len(), "job");
        say(format_args!(
            "{file} changed during the run: {jobs} ran with the version of the beginning, which tables and claims have; the next \
             `sweep run` computes with the new one"
        ));
    }
    is_mixed
}
