//! A pilot: the points whose standard deviation is missing, with a few seeds.

use std::collections::{BTreeMap, BTreeSet};

use sweep_base::SEED;

use super::{decisions::Decision, seeds_of};
use crate::{
    format::quoted,
    plan::{JobId, Plan, Point, Study},
};

/// Seeds of a pilot: with fewer, a standard deviation is too uncertain.
const SEEDS: usize = 3;

/// Points to measure.
#[derive(Debug, Default)]
pub(super) struct Pilot {
    /// By recipe and step, as indices: the points without their seeds.
    points: BTreeMap<(usize, usize), BTreeSet<String>>,
    /// The group of the last decision, whose other decisions share its standard deviation.
    pub(super) group: Option<usize>,
}

impl Pilot {
    /// Adds the points of a decision, unless a decision of its group was the last one.
    pub(super) fn add(&mut self, index: usize, study: &Study, decision: &Decision<'_>) {
        if self.group.replace(decision.group) == Some(decision.group) {
            return;
        }
        let sides = decision.form.sides();
        let jobs: BTreeSet<JobId> = sides.into_iter().flatten().map(|(_, job)| *job).collect();
        for step in &decision.steps {
            let points = study.steps[*step].iter().filter(|(_, job)| jobs.contains(job));
            self.points.entry((index, *step)).or_default().extend(points.map(|(point, _)| point.but(SEED)));
        }
    }

    /// The command that measures the points; `None` without points.
    pub(super) fn command(&self, plan: &Plan) -> Option<String> {
        if self.points.is_empty() {
            return None;
        }
        let mut words = vec!["sweep".to_owned(), "run".to_owned()];
        words.extend(plan.typed());
        let mut only = Vec::new();
        for ((index, step), chosen_places) in &self.points {
            let study = &plan.studies[*index];
            let name = &study.recipe.steps[*step].name.value;
            let full_name = if plan.studies.len() > 1 { format!("{}:{name}", study.recipe.name) } else { name.clone() };
            let points = &study.steps[*step];
            let mut seeds: Vec<String> = seeds_of(points).into_iter().take(SEEDS).collect();
            if seeds.len() < 2 {
                seeds = (0..SEEDS).map(|seed| seed.to_string()).collect();
                words.extend(["--axis".to_owned(), quoted(&format!("{name}.{SEED}={}", seeds.join(",")))]);
            }
            let places = places(points, chosen_places);
            let one = |place: &str, seed: &str| {
                let separator = if place.is_empty() { "" } else { "," };
                format!("{full_name}/{place}{separator}{SEED}={seed}")
            };
            only.extend(places.iter().flat_map(|place| seeds.iter().map(|seed| one(place, seed)).collect::<Vec<_>>()));
        }
        words.extend(only.into_iter().flat_map(|part| ["--only".to_owned(), quoted(&part)]));
        Some(words.join(" "))
    }
}

/// The selections of these points without their seeds, each by one axis if that is enough; an empty one for all points.
fn places(points: &[(Point, JobId)], chosen_places: &BTreeSet<String>) -> Vec<String> {
    let all: BTreeMap<String, &Point> = points.iter().map(|(point, _)| (point.but(SEED), point)).collect();
    if all.len() == chosen_places.len() {
        return vec![String::new()];
    }
    let chosen_points = all.iter().filter(|(place, _)| chosen_places.contains(*place));
    let place = |point: &Point| {
        let axes: Vec<(&str, String)> = point
            .values
            .iter()
            .filter(|(axis, _)| axis != SEED)
            .map(|(axis, value)| (axis.as_str(), value.value.to_string()))
            .collect();
        let single_axis = axes.iter().find(|(axis, value)| {
            all.values()
                .filter(|other| other.get(axis).is_some_and(|other_value| other_value.to_string() == *value))
                .count()
                == 1
        });
        let text = |(axis, value): &(&str, String)| format!("{axis}={value}");
        single_axis.map_or_else(|| axes.iter().map(text).collect::<Vec<_>>().join(","), text)
    };
    chosen_points.map(|(_, point)| place(point)).collect()
}
