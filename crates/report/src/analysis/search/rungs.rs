//! Decisions of successive halving, complete rung by rung or by the virtual clock.

use std::{collections::HashSet, io};

use serde_json::{Value as Json, json};

use super::{Accept, Configuration, Decided, Followed, Known, Open, named};
use crate::{
    decide::{
        clock::{self, Course, Start},
        mean,
        rungs::{self, Place, cut, places},
    },
    format::count,
    plan::JobId,
    recipe::Rungs,
    stats::Better,
    store::Decision,
};

/// The kind of these decisions.
const KIND: &str = "rung";

impl Followed<'_> {
    /// Decides rung after rung, each after all jobs of the configurations that reached it have ended.
    pub(super) fn halve(
        &self,
        rules: &Rungs,
        configurations: &[Configuration],
        accept: &mut Accept<'_>,
    ) -> io::Result<Vec<Decided>> {
        let better = self.better(rules);
        let mut among: Vec<&Configuration> = configurations.iter().collect();
        let mut decisions = Vec::new();
        for (rung, pair) in rules.at.windows(2).enumerate() {
            let &[at, next] = pair else { continue };
            let values = among.iter().map(|one| self.value(one, rung).ended());
            let Ok(values) = values.collect::<Result<Vec<_>, Open>>() else { break };
            let places = places(&values, rules.keep, better);
            let decision = self.decision(rules, (rung, None), &among, &values, &places);
            let Some(key) = accept(&decision)? else { break };
            let (of, kept) = (among.len(), cut(among.len(), rules.keep));
            let (mut released, mut stopped) = (Vec::new(), Vec::new());
            for place in &places {
                let (one, rank) = (among[place.configuration], place.rank);
                if place.goes_on {
                    let because = format!("{} is promoted to {next}: rank {rank} of {of}", named(&one.label));
                    released.extend(one.stages[rung + 1].iter().map(|job| (*job, because.clone())));
                } else {
                    let because = match values[place.configuration] {
                        Some(_) => format!("stopped at {at}: rank {rank} of {of}, cut at {kept}"),
                        None => format!("stopped at {at}: it has no finite value"),
                    };
                    stopped.extend(later(one, rung).map(|job| (job, because.clone())));
                }
            }
            let going = places.iter().filter(|place| place.goes_on).count();
            let step = &self.study.recipe.steps[self.step].name.value;
            let text = format!("{step}: {going} of {} promoted from {at} to {next}", count(of, "configuration"));
            decisions.push(Decided { step: self.step, key, decision, is_final: true, text, released, stopped });
            let indices: HashSet<usize> =
                places.iter().filter(|place| place.goes_on).map(|place| place.configuration).collect();
            among = among.into_iter().enumerate().filter(|(at, _)| indices.contains(at)).map(|(_, one)| one).collect();
            if among.is_empty() {
                break;
            }
        }
        Ok(decisions)
    }

    /// Releases configurations by the virtual clock. The decision of a rung is stored when no further release is possible; before that, the
    /// values alone determine the released jobs.
    pub(super) fn halve_by_clock(
        &self,
        rules: &Rungs,
        workers: usize,
        configurations: &[Configuration],
        accept: &mut Accept<'_>,
    ) -> io::Result<Vec<Decided>> {
        let better = self.better(rules);
        let cost = |(rung, at): (usize, &u64)| match rung.checked_sub(1) {
            Some(below) if rules.continues => at - rules.at[below],
            _ => *at,
        };
        let costs = rules.at.iter().enumerate().map(cost).collect();
        let course = Course { configurations: configurations.len(), costs, keep: rules.keep, better, workers };
        let timeline = clock::simulate(&course, |one, rung| match self.value(&configurations[one], rung) {
            Known::Open => clock::Known::Open,
            Known::Ended(value) => clock::Known::Value(value),
        });
        let mut decisions = Vec::new();
        for (rung, pair) in rules.at.windows(2).enumerate() {
            let &[at, next] = pair else { continue };
            let next_starts: Vec<&Start> = timeline.starts.iter().filter(|start| start.rung == rung + 1).collect();
            let indices: Vec<usize> =
                timeline.starts.iter().filter(|start| start.rung == rung).map(|start| start.configuration).collect();
            // In the order of the configurations, which breaks ties.
            let mut order = indices.clone();
            order.sort_unstable();
            let among: Vec<&Configuration> = order.iter().map(|one| &configurations[*one]).collect();
            let values: Vec<Option<f64>> =
                among.iter().map(|one| self.value(one, rung).ended().unwrap_or(None)).collect();
            let mut ranks = places(&values, rules.keep, better);
            for place in &mut ranks {
                place.goes_on = next_starts.iter().any(|start| start.configuration == order[place.configuration]);
            }
            let decision = self.decision(rules, (rung, Some(workers)), &among, &values, &ranks);
            let key = if timeline.ended { accept(&decision)? } else { None };
            if timeline.ended && key.is_none() {
                break;
            }
            let mut released = Vec::new();
            for start in &next_starts {
                let one = &configurations[start.configuration];
                let Start { rank, of, at: time, .. } = start;
                let because = format!(
                    "{} is promoted to {next}: rank {rank} of {of} at the virtual time {time}",
                    named(&one.label)
                );
                released.extend(one.stages[rung + 1].iter().map(|job| (*job, because.clone())));
            }
            let mut stopped = Vec::new();
            if timeline.ended {
                for place in ranks.iter().filter(|place| !place.goes_on) {
                    let because = format!(
                        "stopped at {at}: rank {} of {} in the end, and never among the best {} when there was room",
                        place.rank,
                        among.len(),
                        rules.keep
                    );
                    stopped.extend(later(among[place.configuration], rung).map(|job| (job, because.clone())));
                }
            }
            let step = &self.study.recipe.steps[self.step].name.value;
            let text = format!(
                "{step}: {} of {} promoted from {at} to {next}",
                next_starts.len(),
                count(among.len(), "configuration")
            );
            let key = match key {
                Some(key) => key,
                None => decision.key()?,
            };
            let is_final = timeline.ended;
            decisions.push(Decided { step: self.step, key, decision, is_final, text, released, stopped });
        }
        Ok(decisions)
    }

    fn better(&self, rules: &Rungs) -> Better {
        rules.better(&self.study.recipe.rules, &self.study.recipe.steps[self.step])
    }

    /// The mean of a configuration at a rung; open until all its jobs there have ended.
    fn value(&self, one: &Configuration, rung: usize) -> Known {
        self.values(&one.stages[rung]).map_or(Known::Open, |values| Known::Ended(mean(&values)))
    }

    fn decision(
        &self,
        rules: &Rungs,
        (rung, workers): (usize, Option<usize>),
        among: &[&Configuration],
        values: &[Option<f64>],
        places: &[Place],
    ) -> Decision {
        let (at, next) = (rules.at[rung], rules.at[rung + 1]);
        let better = self.better(rules);
        let keys: Vec<Json> = among.iter().map(|one| json!(self.keys(&one.stages[rung]))).collect();
        let mut rule = json!({
            "at": at,
            "by": rules.by.value,
            "direction": if better == Better::More { "max" } else { "min" },
            "keep": rules.keep.to_string(),
            "configurations": keys,
        });
        let mut jobs: Vec<JobId> = among.iter().flat_map(|one| one.stages[rung].iter().copied()).collect();
        if let Some(workers) = workers {
            // Releases depend on the values at all rungs, because all rungs share the workers.
            rule["workers"] = json!(workers);
            rule["rungs"] = json!(rules.at);
            jobs = self.study.steps[self.step].iter().map(|(_, job)| *job).collect();
            jobs.retain(|job| matches!((self.known)(*job), Known::Ended(Some(_))) || !self.plan.is_held(*job));
        }
        let ranking: Vec<Json> = places
            .iter()
            .map(|place| {
                let one = among[place.configuration];
                json!({
                    "configuration": one.label,
                    "keys": keys[place.configuration],
                    "value": values[place.configuration],
                    "rank": place.rank,
                    "goes_on": place.goes_on,
                })
            })
            .collect();
        let kept = places.iter().filter(|place| place.goes_on).count();
        let result = json!({ "at": at, "next": next, "of": among.len(), "kept": kept, "ranking": ranking });
        let version = if workers.is_some() { clock::VERSION } else { rungs::VERSION };
        Decision::new(KIND, version, rule, self.members(jobs), result)
    }
}

/// The jobs of a configuration at the rungs above one.
fn later(one: &Configuration, rung: usize) -> impl Iterator<Item = JobId> + '_ {
    one.stages.iter().skip(rung + 1).flatten().copied()
}
