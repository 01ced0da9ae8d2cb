//! Notes below a table of effects: the design, the estimates, and their limits.

use std::collections::{BTreeMap, BTreeSet};

use super::{EffectOf, Experiment, Outcome};
use crate::{
    analysis::no_interval::NoInterval,
    format::{clean, count},
    stats::factorial::{Arrangement, Part},
};

/// The largest number of factors of a fraction whose aliases are listed.
const LISTED: usize = 4;

impl Experiment<'_> {
    /// The notes of a table with these metrics.
    pub(super) fn notes(&self, outcomes: &[(&str, Outcome)]) -> Vec<String> {
        let metrics: Vec<&str> = outcomes.iter().map(|(metric, _)| *metric).collect();
        let mut notes = vec![format!("effects on {}: {}", metrics.join(", "), self.estimates(outcomes))];
        if outcomes.iter().any(|(_, outcome)| outcome.no_interval.is_none()) {
            let seeds = if self.blocked { "seeds are blocks" } else { "seeds are independent" };
            let together = match self.effects.len() {
                1 => String::new(),
                several => format!("the intervals of {} hold together (maximum modulus); ", count(several, "effect")),
            };
            notes.push(format!("{together}{seeds}"));
        }
        notes.extend(self.layout.design.parts().iter().filter_map(|part| self.part(part)));
        if let Some(pair) = self.layout.interactions.first() {
            let [first, second] = pair.map(|factor| self.layout.factors[factor].axis.as_str());
            notes.push(format!(
                "{first} × {second}: the difference of {first}'s effects between the values of {second}"
            ));
        }
        if self.layout.design.is_full() {
            if self.layout.factors.len() > 1 {
                notes.push("an effect is averaged over the values of the other factors".to_owned());
            }
            notes.push("share: part of the variance between points (Shapley value), including chance".to_owned());
        } else {
            notes.push("no shares: they need all combinations of the factors".to_owned());
        }
        let mut reasons: BTreeMap<&NoInterval, Vec<&str>> = BTreeMap::new();
        for (metric, outcome) in outcomes {
            if let Some(reason) = &outcome.no_interval {
                reasons.entry(reason).or_default().push(metric);
            }
        }
        notes.extend(reasons.into_iter().map(|(reason, lacking)| {
            let about =
                if lacking.len() == metrics.len() { String::new() } else { format!("{}: ", lacking.join(", ")) };
            format!("{about}no intervals: {}", reason.words())
        }));
        let noise = |outcome: &Outcome| outcome.within_noise || outcome.effects.iter().any(EffectOf::is_noise);
        if outcomes.iter().any(|(_, outcome)| noise(outcome)) {
            notes.push("≈ not told apart from no effect, which does not mean that there is none".to_owned());
        }
        if self.leaves_seeds_out {
            notes.push("seeds that not all points have are left out".to_owned());
        }
        if self.looks > 1 {
            notes.push(format!("intervals allow for {} looks at the results", self.looks));
        }
        notes.iter().map(|note| clean(note).into_owned()).collect()
    }

    /// A sentence about the numbers.
    fn estimates(&self, outcomes: &[(&str, Outcome)]) -> String {
        if outcomes.iter().all(|(_, outcome)| outcome.no_interval.is_some()) {
            return "differences of means".to_owned();
        }
        let counts: BTreeSet<usize> = self.cells.iter().map(Vec::len).collect();
        let n = match (counts.first(), counts.last()) {
            (Some(least), Some(most)) if least < most => format!("{least} to {most}"),
            (least, _) => least.copied().unwrap_or(0).to_string(),
        };
        format!("differences of means ± 95 % CI over seeds (n = {n})")
    }

    /// A sentence about a part of the design.
    fn part(&self, part: &Part) -> Option<String> {
        let axes: Vec<&str> = part.factors.iter().map(|factor| self.layout.factors[*factor].axis.as_str()).collect();
        let reference = |level: usize| {
            let factors = part.factors.iter().map(|factor| &self.layout.factors[*factor]);
            let values = factors.filter_map(|factor| Some(format!("{}={}", factor.axis, factor.values.get(level)?)));
            values.collect::<Vec<_>>().join(",")
        };
        match part.arrangement {
            Arrangement::Full => None,
            Arrangement::OneAdded => Some(format!("add-one: an effect is that of a change of {}", reference(0))),
            Arrangement::OneLeftOut => {
                Some(format!("leave-one-out: an effect is what a factor adds to the others in {}", reference(1)))
            }
            Arrangement::Half { negative } => {
                let sign = if negative { "−" } else { "" };
                Some(format!("half fraction, I = {sign}{}: {}", axes.join("·"), self.aliases(part)))
            }
        }
    }

    /// A sentence about the aliases of a fraction.
    fn aliases(&self, part: &Part) -> String {
        let factors = part.factors.len();
        if factors > LISTED {
            return format!(
                "main effects are aliased with interactions of {} factors, interactions with those of {}",
                factors - 1,
                factors - 2
            );
        }
        let alias = |effect: &[usize]| {
            let alias = self.layout.design.alias(effect)?;
            Some(format!("{} with {}", self.layout.interaction(effect), self.layout.interaction(&alias)))
        };
        let mains = part.factors.iter().filter_map(|factor| alias(&[*factor]));
        let pairs =
            self.layout.interactions.iter().filter(|pair| pair.iter().all(|factor| part.factors.contains(factor)));
        let aliases: Vec<String> = mains.chain(pairs.filter_map(|pair| alias(pair))).collect();
        format!("{} {} aliased", aliases.join(", "), if aliases.len() == 1 { "is" } else { "are" })
    }
}
