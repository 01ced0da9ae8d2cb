//! The jobs of a claim on its card: each with its value, in the pairs in which the claim compares them, as links to the list of jobs.

use std::collections::HashMap;

use maud::{Markup, html};
use sweep_job::{Metric, Unit};

use super::Contents;
use crate::{
    analysis::{ClaimJobs, Verdict, jobs_of},
    format::{clean, count, measured},
    plan::JobId,
};

/// Most pairs, or jobs of a side, on a card.
const MAX_ROWS: usize = 100;

/// The places of jobs in the list, their names and keys.
pub(super) struct Places<'a> {
    contents: &'a Contents<'a>,
    by_job: HashMap<JobId, (usize, String)>,
}

impl<'a> Places<'a> {
    pub(super) fn new(contents: &'a Contents<'a>) -> Self {
        let steps = contents.study.recipe.steps.iter().zip(&contents.study.steps);
        let named = steps.flat_map(|(step, points)| {
            points.iter().map(move |(point, id)| (*id, format!("{}/{point}", step.name.value)))
        });
        let mut by_job = HashMap::new();
        for (place, (id, label)) in named.enumerate() {
            by_job.entry(id).or_insert_with(|| (place, clean(label.trim_end_matches('/')).into_owned()));
        }
        Self { contents, by_job }
    }

    /// The jobs that a verdict is about.
    pub(super) fn evidence(&self, verdict: &Verdict) -> Markup {
        let claim = self.contents.study.recipe.claims.iter().find(|claim| claim.name.value == verdict.claim);
        let Some(claim) = claim else { return html! {} };
        let mut jobs = jobs_of(claim, self.contents.study);
        // Seeds in reserve run only if a decision needs them.
        let Contents { plan, results, .. } = self.contents;
        let is_shown = |job: &JobId| results.is_done(*job) || !plan.is_reserve(*job);
        jobs.sides.iter_mut().for_each(|(_, side)| side.retain(is_shown));
        jobs.pairs.retain(|pair| pair.iter().all(is_shown));
        let all: usize = jobs.sides.iter().map(|(_, jobs)| jobs.len()).sum();
        if all == 0 {
            return html! {};
        }
        let words =
            if jobs.pairs.is_empty() { count(all, "job") } else { count(jobs.pairs.len(), "pair") + " of jobs" };
        html! {
            details .evidence {
                summary { (words) }
                @if jobs.pairs.is_empty() { (self.sides(&jobs)) } @else { (self.pairs(&jobs, &claim.name.value)) }
            }
        }
    }

    fn sides(&self, jobs: &ClaimJobs) -> Markup {
        html! {
            @for (words, side) in &jobs.sides {
                h4 { (clean(words)) ": " (count(side.len(), "job")) }
                ul { @for job in side.iter().take(MAX_ROWS) { li { (self.link(*job)) " " (self.value(*job, &jobs.metric)) } } }
                @if side.len() > MAX_ROWS { p .note { "The first " (MAX_ROWS) "." } }
            }
        }
    }

    fn pairs(&self, jobs: &ClaimJobs, claim: &str) -> Markup {
        let label = format!("Pairs of {}", clean(claim));
        html! {
            div .scroll tabindex="0" role="region" aria-label=(label) {
                table {
                    thead { tr {
                        @for (words, _) in &jobs.sides { th scope="col" { (clean(words)) } th scope="col" { (clean(&jobs.metric)) } }
                        th scope="col" { @if jobs.is_ratio { "Ratio" } @else { "Difference" } }
                    } }
                    tbody { @for [of, to] in jobs.pairs.iter().take(MAX_ROWS) {
                        tr {
                            td { (self.link(*of)) } td { (self.value(*of, &jobs.metric)) }
                            td { (self.link(*to)) } td { (self.value(*to, &jobs.metric)) }
                            td { (self.between(*of, *to, jobs)) }
                        }
                    } }
                }
            }
            @if jobs.pairs.len() > MAX_ROWS { p .note { "The first " (MAX_ROWS) " of " (jobs.pairs.len()) " pairs." } }
        }
    }

    fn link(&self, job: JobId) -> Markup {
        let key = self.contents.plan.job(job).key.short();
        html! {
            @if let Some((place, label)) = self.by_job.get(&job) {
                a href={ "#" (key) } data-job=(key) data-place=(place) { (label) }
            }
        }
    }

    fn metric(&self, job: JobId, metric: &str) -> Option<Metric> {
        self.contents.results.measured().get(&job)?.metrics.get(metric).copied()
    }

    /// The value of a job, or a dash.
    fn value(&self, job: JobId, metric: &str) -> String {
        self.metric(job, metric).map_or_else(|| "–".to_owned(), |value| measured(metric, value))
    }

    /// The difference or the ratio of the values of a pair.
    fn between(&self, of: JobId, to: JobId, jobs: &ClaimJobs) -> String {
        let values = self.metric(of, &jobs.metric).zip(self.metric(to, &jobs.metric));
        let values = values.and_then(|(of, to)| Some((of.value, to.value_in(of.unit)?, of.unit)));
        match values {
            Some((of, to, _)) if jobs.is_ratio && to != 0.0 => measured("", Metric { value: of / to, unit: Unit::One }),
            Some((of, to, unit)) if !jobs.is_ratio => {
                let sign = if of > to { "+" } else { "" };
                format!("{sign}{}", measured(&jobs.metric, Metric { value: of - to, unit }))
            }
            _ => "–".to_owned(),
        }
    }
}
