//! The code of jobs at the end of a run: a file that is edited meanwhile is read by some jobs before, by others after it.

use crate::{
    format::{clean, count, say},
    plan::{Digests, Plan},
    store::Store,
};

/// Most names of jobs in a warning.
const NAMED: usize = 3;

/// Warns if jobs with a record have read other code than there is now. Such a record counts no more.
pub(super) fn warn_of_change(plan: &Plan, store: &Store) -> bool {
    let with_code = plan.jobs().filter(|(_, job)| job.code.is_some() && store.contains(job.key));
    let with_code: Vec<_> = with_code.collect();
    if with_code.is_empty() {
        return false;
    }
    let (mut manifests, mut digests) = (store.manifests(), Digests::open(store.digests()));
    let mut file = None;
    let mut labels = Vec::new();
    for (id, job) in with_code {
        if plan.has_other_code(id, &mut manifests, &mut digests) {
            labels.push(job.label.to_string());
            file = file.or_else(|| plan.changed_file(id, &mut manifests, &mut digests));
        }
    }
    if labels.is_empty() {
        return false;
    }
    let file = file.map_or_else(|| "a file or package".to_owned(), |file| format!("`{}`", clean(&file)));
    let more = if labels.len() > NAMED { format!(" and {} more", labels.len() - NAMED) } else { String::new() };
    let named = labels.iter().take(NAMED).map(String::as_str).collect::<Vec<&str>>().join(", ");
    let jobs = count(labels.len(), "job");
    say(format_args!(
        "warning: {file} changed during the run: {jobs} read it before ({}{more}), so their results are left out of tables and \
         claims; run again",
        clean(&named)
    ));
    true
}
