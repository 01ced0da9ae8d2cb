//! Seeds that a claim leaves out: the verdict over all measured seeds, including seeds that only the store has.

use std::collections::BTreeSet;

use sweep_base::SEED;

use super::{Verdict, judge_alone, selected_jobs};
use crate::{
    analysis::{evidence::Source, items::declared},
    format::count,
    recipe::{Claim, Selection},
};

/// The verdict over all seeds.
pub(super) struct OverAll {
    pub(super) verdict: Verdict,
    /// The numbers of measured seeds and of the claim's seeds.
    pub(super) seeds: usize,
    own: usize,
    /// True if the recipe names none of the seeds that the claim leaves out.
    is_of_store: bool,
}

/// Judges a claim over all seeds that were measured, if it leaves out some of them.
pub(super) fn over_all(claim: &Claim, source: Source<'_>) -> Option<OverAll> {
    let selecting = claim.over_all(SEED);
    // The scores of items are read for the jobs of the study only.
    let has_items = |(step, _): &(usize, Selection)| declared(source.study, *step, claim.metric()).is_some();
    let further = source.further.filter(|_| !claim.selections().iter().any(has_items));
    if selecting.is_none() && further.is_none() {
        return None;
    }
    let whole_claim = selecting.unwrap_or_else(|| claim.clone());
    let all = match further {
        Some(further) => Source { study: &further.study, measured: &further.measured, further: None, ..source },
        None => source,
    };
    let measured = |claim: &Claim, source: Source<'_>| {
        let jobs = selected_jobs(claim, source.study).filter(|(_, job)| source.measured.contains_key(job));
        let seeds: Vec<String> = jobs.filter_map(|(point, _)| Some(point.get(SEED)?.to_string())).collect();
        (seeds.len(), seeds.into_iter().collect::<BTreeSet<_>>().len())
    };
    let ((jobs, own), (named_jobs, _), (all_jobs, seeds)) =
        (measured(claim, source), measured(&whole_claim, source), measured(&whole_claim, all));
    let is_of_store = all_jobs > named_jobs;
    (all_jobs > jobs).then(|| OverAll { verdict: judge_alone(&whole_claim, all), seeds, own, is_of_store })
}

impl OverAll {
    /// The verdict in words.
    pub(super) fn words(&self) -> String {
        let Verdict { because, .. } = &self.verdict;
        let word = self.verdict.state.word();
        if self.is_of_store {
            let (seeds, own) = (count(self.seeds, "seed"), self.own);
            format!(
                "the store has {seeds} of these configurations, but this claim uses {own} of them: over all seeds it \
                 is {word} ({because})"
            )
        } else {
            format!("the claim selects seeds: over all measured seeds it is {word} ({because})")
        }
    }
}
