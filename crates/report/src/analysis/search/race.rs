//! Decisions of a race over seeds.

use std::io;

use serde_json::{Value as Json, json};

use super::{Accept, Configuration, Decided, Followed, named};
use crate::{
    decide::racing::{self, Exit, Known, Look, Race},
    format::{count, number},
    plan::{JobId, resolved, selected},
    recipe::Racing,
    stats::Better,
    store::Decision,
};

/// The kind of these decisions.
const KIND: &str = "race";
/// Decimals of differences in texts.
const DIGITS: usize = 4;

impl Followed<'_> {
    /// Follows a race look by look.
    pub(super) fn race(
        &self,
        rules: &Racing,
        configurations: &[Configuration],
        accept: &mut Accept<'_>,
    ) -> io::Result<Vec<Decided>> {
        let recipe = &self.study.recipe;
        let step = &recipe.steps[self.step];
        let better = rules.better(&recipe.rules, step);
        let most = configurations.first().map_or(0, |one| one.stages.len());
        let race = Race {
            configurations: configurations.len(),
            least: rules.least,
            most,
            better,
            baseline: rules.against.as_ref().and_then(|_| self.baseline(rules, configurations)),
        };
        let course = race.run(|one, seed| match self.values(&configurations[one].stages[seed]).as_deref() {
            None => Known::Open,
            Some(values) => Known::Value(values.first().copied().flatten()),
        });
        let level = race.level();
        let mut decisions = Vec::new();
        let looks = course.looks.len();
        for (index, look) in course.looks.iter().enumerate() {
            let decision = self.look(rules, &race, level, configurations, look);
            let Some(key) = accept(&decision)? else { break };
            let gone = |one: &usize| look.left.iter().any(|(left, _)| left == one);
            let stay: Vec<usize> = look.among.iter().copied().filter(|one| !gone(one)).collect();
            // The last one left gets all its seeds at once.
            let to = if index + 1 == looks && stay.len() < 2 { most } else { look.seeds + 1 };
            let because = |one: &Configuration| {
                format!("{} stays in the race after {}", named(&one.label), count(look.seeds, "seed"))
            };
            let released = stay.iter().flat_map(|one| {
                let one = &configurations[*one];
                one.stages[look.seeds..to].iter().flatten().map(|job| (*job, because(one)))
            });
            let stopped = look.left.iter().flat_map(|(one, exit)| {
                let because = Self::exit(look.seeds, exit, configurations);
                configurations[*one].stages[look.seeds..].iter().flatten().map(move |job| (*job, because.clone()))
            });
            let text = format!(
                "{}: {} of {} left the race after {}",
                step.name.value,
                look.left.len(),
                count(look.among.len(), "configuration"),
                count(look.seeds, "seed")
            );
            let (released, stopped) = (released.collect(), stopped.collect());
            decisions.push(Decided { step: self.step, key, decision, is_final: true, text, released, stopped });
        }
        Ok(decisions)
    }

    /// The configuration that the others are compared with.
    fn baseline(&self, rules: &Racing, configurations: &[Configuration]) -> Option<usize> {
        let selection = resolved(&self.study.recipe, rules.against.as_ref()?);
        let mut jobs = self.study.steps[self.step].iter().filter(|(point, _)| selected(point, &selection));
        let (_, job) = jobs.next()?;
        configurations.iter().position(|one| one.stages.iter().flatten().any(|other| other == job))
    }

    /// The reason why a configuration left, in words.
    fn exit(seeds: usize, exit: &Exit, configurations: &[Configuration]) -> String {
        let text = count(seeds, "seed");
        match exit {
            Exit::Failed => format!("left the race after {text}: a job has no finite value"),
            Exit::Worse { than, by } => {
                let ends = by
                    .low
                    .zip(by.high)
                    .map(|(low, high)| format!(" [{}, {}]", number(low, DIGITS), number(high, DIGITS)));
                let (than, by) = (named(&configurations[*than].label), number(by.value, DIGITS));
                format!("left the race after {text}: worse than {than} by {by}{}", ends.unwrap_or_default())
            }
        }
    }

    fn look(&self, rules: &Racing, race: &Race, level: f64, configurations: &[Configuration], look: &Look) -> Decision {
        let jobs = |one: usize| configurations[one].stages[..look.seeds].iter().flatten().copied();
        let keys = |one: usize| self.keys(&jobs(one).collect::<Vec<JobId>>());
        let rule = json!({
            "seeds": look.seeds,
            "looks": [race.least, race.most],
            "rivals": race.configurations,
            "level": level,
            "by": rules.by.value,
            "direction": if race.better == Better::More { "max" } else { "min" },
            "against": race.baseline.map(keys),
            "configurations": look.among.iter().map(|one| keys(*one)).collect::<Vec<_>>(),
        });
        let left: Vec<Json> = look
            .left
            .iter()
            .map(|(one, exit)| {
                let mut left = json!({ "configuration": configurations[*one].label, "keys": keys(*one) });
                if let Exit::Worse { than, by } = exit {
                    left["than"] = json!(configurations[*than].label);
                    left["by"] = json!({ "value": by.value, "low": by.low, "high": by.high });
                }
                left
            })
            .collect();
        let result = json!({
            "seeds": look.seeds,
            "of": look.among.len(),
            "left": left,
        });
        let members = self.members(look.among.iter().flat_map(|one| jobs(*one)));
        Decision::new(KIND, racing::VERSION, rule, members, result)
    }
}
