//! Notes about records that were adopted after a change of the code.

use std::collections::{BTreeMap, BTreeSet};

use crate::{format::count, plan::JobId, store::Measured};

/// The number of adopted records of some jobs, as a phrase; `None` without adopted records.
pub(super) fn note(jobs: impl Iterator<Item = JobId>, measured: &BTreeMap<JobId, Measured>) -> Option<String> {
    let jobs: BTreeSet<JobId> = jobs.filter(|job| measured.contains_key(job)).collect();
    let adopted = jobs.iter().filter(|job| measured[*job].adopted.is_some()).count();
    let (all, were) = (count(jobs.len(), "record"), if adopted == 1 { "was" } else { "were" });
    let text = || {
        format!(
            "{adopted} of {all} {were} adopted: made with earlier code, whose first steps the present code repeats bit for bit"
        )
    };
    (adopted > 0).then(text)
}
